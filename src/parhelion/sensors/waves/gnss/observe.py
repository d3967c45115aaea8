"""Pseudorange, carrier and Doppler: geometry, clocks, air, mirrors and noise added up.

P = rho + c (dt_r - dt_s + TGD) + I + T + mirrors + signal in space + noise; the carrier has -I, its own mirrors and a
whole number of cycles; the Doppler is the carrier's rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.gps_time import GpsTime
from parhelion.core.noise import gauss_markov, normals
from parhelion.core.pose import Floats
from parhelion.core.random import Stream, to_unit
from parhelion.sensors.waves.gnss import earth
from parhelion.sensors.waves.gnss.config import GnssConfig
from parhelion.sensors.waves.gnss.earth import EARTH_RATE_RAD_S, Local, Place
from parhelion.sensors.waves.gnss.paths import SkyVisibility, find_paths
from parhelion.sensors.waves.gnss.reception import TrackedSignals, code_sigma, phase_sigma, rate_sigma, receive
from parhelion.sensors.waves.gnss.satellites import BandOfSatellites, Ephemerides, SatelliteStates, band_of, states
from parhelion.sensors.waves.radio import SatelliteScene

KNOT_S = 30.0
"""Slow errors are drawn this often and are linear in between."""
SLOW_S = 7200.0
"""Correlation time of orbit, clock and air errors."""
JUMP_S = 1e-3
"""Receivers let their clock run away this far, then set it back."""
_SPAN = 4096


@dataclass(frozen=True, eq=False)
class Sky:
    """Satellites over one place and time."""

    ephemerides: Ephemerides
    place: Place
    epoch: GpsTime
    """Time of the world's zero; the ephemerides' times count from the start of its week."""
    klobuchar: tuple[Floats, Floats]

    @property
    def satellites(self) -> tuple[str, ...]:
        """Names of all of them."""
        return self.ephemerides.names


@dataclass(frozen=True, eq=False)
class Geometry:
    """Where satellites are when their signals arrive, arrays of shape (n, s)."""

    row: NDArray[np.int64]
    """Row of the ephemeris; -1 where there is none."""
    range_m: Floats
    """From satellite to antenna, the Earth's turn included."""
    toward: Floats
    """Unit vectors in ECEF, shape (n, s, 3)."""
    state: SatelliteStates
    """At the time of sending; positions in ECEF of the time of arrival."""
    azimuth: Floats
    elevation: Floats
    local: Local
    """Of the antenna."""


@dataclass(frozen=True, eq=False)
class Ranges:
    """What one band measures, arrays of shape (n, s)."""

    cn0: Floats
    pseudorange: Floats
    carrier: Floats
    doppler: Floats


def turned(vectors: Floats, travel_s: Floats) -> Floats:
    """Vectors of ECEF at the sending in ECEF at the arrival, `travel_s` later."""
    angle = EARTH_RATE_RAD_S * travel_s
    c, s = np.cos(angle), np.sin(angle)
    x, y, z = (vectors[..., k] for k in range(3))
    return np.stack([c * x + s * y, c * y - s * x, z], axis=-1)


def geometry(sky: Sky, ecef: Floats, seconds: Floats) -> Geometry:
    """Satellites for antennas at positions (n, 3) [m] and GPS times (n,) [s of the week]."""
    row = sky.ephemerides.pick(seconds, sky.satellites)
    travel = np.full(row.shape, 0.075)
    for _ in range(3):
        state = states(sky.ephemerides, row, seconds[:, None] - travel)
        away = turned(state.xyz, travel) - ecef[:, None]
        distance = np.sqrt(np.sum(away * away, axis=2))
        travel = distance / SPEED_OF_LIGHT_M_S
    state = SatelliteStates(turned(state.xyz, travel), turned(state.velocity, travel), state.clock, state.clock_rate)
    toward = away / distance[..., None]
    local = Local.at(ecef)
    return Geometry(row, distance, toward, state, *local.angles(toward), local)


def range_rate(seen: Geometry, velocity: Floats, toward: Floats) -> Floats:
    """Rate of the range [m/s] for antennas of velocity (n, 3) whose signals come from unit vectors (n, s, 3).

    The satellite's own way counts along the direct line, the antenna's along that of the copy it follows. The signal
    takes ever longer or shorter: hence the small factor.
    """
    ahead = np.sum(seen.state.velocity * seen.toward, axis=2)
    back = np.sum(toward * velocity[:, None], axis=2)
    return np.asarray((ahead - back) / (1.0 + ahead / SPEED_OF_LIGHT_M_S))


# ---- slow errors ---------------------------------------------------------------------------------------------------


def slow(seed: int, name: str, times: Floats) -> Floats:
    """Four independent slow processes of variance 1 at times (n,) [s], shape (n, 4)."""
    at = times / KNOT_S
    first = int(np.floor(at.min()))
    knots = gauss_markov(seed, name, first, int(np.floor(at.max())) + 2 - first, SLOW_S / KNOT_S)
    low = np.floor(at).astype(np.int64) - first
    part = (at - np.floor(at))[:, None]
    return np.asarray((1.0 - part) * knots[low] + part * knots[low + 1])


def slow_each(seed: int, name: str, times: Floats, count: int) -> Floats:
    """One slow process for each of `count` satellites, shape (n, count)."""
    groups = [slow(seed, f"{name}/{k}", times) for k in range((count + 3) // 4)]
    return np.concatenate(groups, axis=1)[:, :count]


@dataclass(frozen=True, eq=False)
class Errors:
    """What is wrong with all ranges, for both bands."""

    space_m: Floats
    """Signal in space, shape (n, s)."""
    ionosphere: Floats
    """Share of the model's delay, shape (n, 1)."""
    wet_m: Floats
    """At the zenith, shape (n, 1)."""
    clock_s: Floats
    """Of the receiver, shape (n,)."""
    drift: Floats
    """Of its clock [s/s], shape (n,)."""


def errors(config: GnssConfig, seed: int, name: str, times: Floats, count: int, noise: bool) -> Errors:
    """Drawn for one receiver and one switching-on."""
    n = len(times)
    if not noise:
        none = np.zeros((n, 1))
        return Errors(np.zeros((n, count)), none, none, np.zeros(n), np.zeros(n))
    budget = config.budget
    air = slow(seed, f"{name}/air", times)
    space = budget.signal_in_space_m * slow_each(seed, f"{name}/space", times, count)
    own = normals(Stream(seed, f"{name}/clock"), np.zeros(1, dtype=np.int64))[0]
    drift = budget.clock_drift * own[0]
    bias = np.mod(JUMP_S * own[1] + drift * times + JUMP_S / 2.0, JUMP_S) - JUMP_S / 2.0
    return Errors(
        space, budget.ionosphere_share * air[:, :1], budget.wet_zenith_m * air[:, 1:2], bias, np.full(n, drift)
    )


# ---- ranges --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Observed:
    """All that a receiver has at some times, before it makes a position of it."""

    seen: Geometry
    sight: SkyVisibility
    received: TrackedSignals
    """On the first band."""
    bands: list[Ranges]
    errors: Errors
    seconds: Floats
    """What the receiver's clock shows [s of the week], shape (n,)."""


def observe(
    config: GnssConfig,
    sky: Sky,
    scene: SatelliteScene,
    xyz: Floats,
    velocity: Floats,
    boresight: Floats,
    numbers: NDArray[np.int64],
    times: Floats,
    seed: int,
    name: str,
    *,
    order: int,
    noise: bool,
    diffraction: bool = False,
) -> Observed:
    """Measure from positions (n, 3) [m], velocities and the antenna's axis in the world, at sample numbers and times
    (n,)."""
    seconds = sky.epoch.second + times
    ecef = sky.place.to_ecef(xyz)
    seen = geometry(sky, ecef, seconds)
    above = np.nan_to_num(seen.elevation, nan=-1.0) > 0.0
    toward = np.nan_to_num(sky.place.turned_to_world(seen.toward))
    sight = find_paths(scene, xyz, times, toward, above, order, diffraction)
    wrong = errors(config, seed, name, times, len(sky.satellites), noise)
    bands, first = [], None
    for band in config.bands:
        signals = band_of(band, sky.satellites)
        held = receive(sight.paths, sight.clear, above, boresight, config, band, signals)
        first = first or held
        bands.append(
            _ranges(
                config, sky, seen, held, signals, wrong, velocity, seconds, numbers, seed, f"{name}/{band}", noise
            )
        )  # fmt: skip
    assert first is not None
    return Observed(seen, sight, first, bands, wrong, seconds + wrong.clock_s)


def _ranges(
    config: GnssConfig,
    sky: Sky,
    seen: Geometry,
    held: TrackedSignals,
    signals: BandOfSatellites,
    wrong: Errors,
    velocity: Floats,
    seconds: Floats,
    numbers: NDArray[np.int64],
    seed: int,
    name: str,
    noise: bool,
) -> Ranges:
    n, s = seen.range_m.shape
    loops, c = config.loops, SPEED_OF_LIGHT_M_S
    power = normals(Stream(seed, f"{name}/power"), np.arange(s, dtype=np.int64))
    draws = normals(Stream(seed, f"{name}/white"), (numbers[:, None] * _SPAN + np.arange(s)).ravel()).reshape(n, s, 4)
    scale = 1.0 if noise else 0.0
    cn0 = config.cn0_zenith_dbhz + held.level_db + scale * (config.cn0_spread_db * power[:, 0] + 0.3 * draws[..., 3])
    cn0 = np.where(cn0 >= loops.threshold_dbhz, cn0, np.nan)
    ion, air = delays(sky, seen, seconds, wrong)
    ion = earth.at_frequency(ion, signals.frequency_hz)
    row = np.where(seen.row >= 0, seen.row, 0)
    group = sky.ephemerides.tgd[row] * (earth.L1_HZ / signals.frequency_hz) ** 2
    clocks = c * (wrong.clock_s[:, None] - seen.state.clock)
    common = seen.range_m + clocks + air + wrong.space_m
    wavelength = signals.wavelength_m
    code = scale * code_sigma(cn0, signals.chip_m, loops.spacing_chips, loops.code_bandwidth_hz, loops.dwell_s)
    pseudorange = common + c * group + ion + held.code_m + code * draws[..., 0]
    # The carrier's delay has no meaning but for its whole cycles: these are drawn, once for a satellite and band.
    whole = np.floor(to_unit(Stream(seed, f"{name}/cycles").words(np.arange(s))[0]) * 1e6)
    phase = scale * phase_sigma(cn0, loops.phase_bandwidth_hz, loops.dwell_s)
    carrier = (common - ion + held.carrier_m) / wavelength - scale * whole + phase * draws[..., 1] + 0.0 * cn0
    turned_velocity = sky.place.turned_to_ecef(velocity)
    rate = range_rate(seen, turned_velocity, sky.place.turned_to_ecef(held.arrival))
    rate = rate + c * (wrong.drift[:, None] - seen.state.clock_rate)
    shaken = scale * rate_sigma(cn0, loops.phase_bandwidth_hz, loops.dwell_s)
    doppler = -rate / wavelength + shaken * draws[..., 2]
    return Ranges(cn0, pseudorange, carrier, doppler)


def delays(sky: Sky, seen: Geometry, seconds: Floats, wrong: Errors) -> tuple[Floats, Floats]:
    """True delays of ionosphere (on L1) and troposphere [m], shape (n, s)."""
    local = seen.local
    lat, lon, height = (value[:, None] for value in (local.latitude, local.longitude, local.height_m))
    up = np.maximum(np.nan_to_num(seen.elevation, nan=0.1), np.radians(1.0))
    ion = earth.klobuchar(*sky.klobuchar, lat, lon, seen.azimuth, up, seconds[:, None])
    dry, wet = earth.zenith_delays(lat, height)
    dry_map, wet_map = earth.niell(lat, height, up, sky.epoch.day_of_year)
    return ion * (1.0 + wrong.ionosphere), dry * dry_map + (wet + wrong.wet_m) * wet_map
