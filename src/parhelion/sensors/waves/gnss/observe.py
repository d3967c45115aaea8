"""Pseudorange, carrier and Doppler: the sum of geometry, clocks, atmosphere, multipath and noise.

P = rho + c (dt_r - dt_s + TGD) + I + T + multipath + signal in space + noise. The carrier has -I, its own multipath
error and an integer ambiguity; the Doppler is the rate of the carrier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.gps_time import GpsTime
from parhelion.core.noise import gauss_markov, normals
from parhelion.core.pose import Floats
from parhelion.core.random import Stream, to_unit
from parhelion.sensors.waves.gnss import earth
from parhelion.sensors.waves.gnss.config import GnssConfig
from parhelion.sensors.waves.gnss.earth import EARTH_RATE_RAD_S, STANDARD_AIR, AirAtHeight, Local, Place
from parhelion.sensors.waves.gnss.paths import WAVELENGTH_M, SkyVisibility, find_paths
from parhelion.sensors.waves.gnss.reception import TrackedSignals, code_sigma, phase_sigma, rate_sigma, receive
from parhelion.sensors.waves.gnss.satellites import BandOfSatellites, Ephemerides, SatelliteStates, band_of, states
from parhelion.sensors.waves.gnss.skyline import Skyline
from parhelion.sensors.waves.radio import SatelliteScene

KNOT_S = 30.0
"""Spacing [s] of the samples of slow errors, which are interpolated linearly."""
SLOW_S = 7200.0
"""Correlation time [s] of orbit, clock and atmosphere errors."""
JUMP_S = 1e-3
"""Receivers reset their clock when it is off by this much [s]."""
_SPAN = 4096


@dataclass(frozen=True, eq=False)
class Sky:
    """Satellites over one place and time."""

    ephemerides: Ephemerides
    place: Place
    epoch: GpsTime
    """GPS time of the world's time 0; times of the ephemerides count from the start of its week."""
    klobuchar: tuple[Floats, Floats]

    @property
    def satellites(self) -> tuple[str, ...]:
        """Names of all satellites."""
        return self.ephemerides.names


@dataclass(frozen=True, eq=False)
class Geometry:
    """Positions of satellites relative to the antenna, arrays of shape (n, s)."""

    row: NDArray[np.int64]
    """Row of the ephemeris; -1 where there is none."""
    range_m: Floats
    """Distance from satellite to antenna [m], with the rotation of the Earth during the flight of the signal."""
    toward: Floats
    """Unit vectors to the satellites in ECEF, shape (n, s, 3)."""
    state: SatelliteStates
    """State at transmission; positions in the ECEF frame at reception."""
    azimuth: Floats
    """Azimuth [rad]."""
    elevation: Floats
    """Elevation [rad]."""
    local: Local
    """Position and axes of the antenna."""


@dataclass(frozen=True, eq=False)
class Ranges:
    """Measurements of one band, arrays of shape (n, s); NaN where a satellite is not tracked."""

    cn0: Floats
    """Carrier-to-noise density [dB-Hz]."""
    pseudorange: Floats
    """Code range [m]."""
    carrier: Floats
    """Carrier phase [cycles]."""
    doppler: Floats
    """Doppler shift [Hz]."""
    code_error: Floats
    """True error of the pseudorange due to multipath and noise [m]."""
    carrier_error: Floats
    """True error of the carrier due to multipath and noise [m]."""


def rotated(vectors: Floats, travel_s: Floats) -> Floats:
    """Vectors in the ECEF frame at transmission, expressed in the ECEF frame at reception `travel_s` later."""
    angle = EARTH_RATE_RAD_S * travel_s
    c, s = np.cos(angle), np.sin(angle)
    x, y, z = (vectors[..., k] for k in range(3))
    return np.stack([c * x + s * y, c * y - s * x, z], axis=-1)


def geometry(sky: Sky, ecef: Floats, seconds: Floats) -> Geometry:
    """Return the satellites as seen from antennas at positions (n, 3) [m] and GPS times (n,) [s of the week]."""
    row = sky.ephemerides.pick(seconds, sky.satellites)
    travel = np.full(row.shape, 0.075)
    for _ in range(3):
        state = states(sky.ephemerides, row, seconds[:, None] - travel)
        away = rotated(state.xyz, travel) - ecef[:, None]
        distance = np.sqrt(np.sum(away * away, axis=2))
        travel = distance / SPEED_OF_LIGHT_M_S
    state = SatelliteStates(rotated(state.xyz, travel), rotated(state.velocity, travel), state.clock, state.clock_rate)
    toward = away / distance[..., None]
    local = Local.at(ecef)
    return Geometry(row, distance, toward, state, *local.angles(toward), local)


def range_rate(seen: Geometry, velocity: Floats, toward: Floats) -> Floats:
    """Range rate [m/s] for antennas of velocity (n, 3) that receive signals from the directions `toward` (n, s, 3).

    The satellite's velocity counts along the direct line, the antenna's along the direction of the tracked signal.
    The divisor accounts for the change of travel time.
    """
    ahead = np.sum(seen.state.velocity * seen.toward, axis=2)
    back = np.sum(toward * velocity[:, None], axis=2)
    return np.asarray((ahead - back) / (1.0 + ahead / SPEED_OF_LIGHT_M_S))


# ---- slow errors ---------------------------------------------------------------------------------------------------


def slow(seed: int, name: str, times: Floats, correlation_s: float = SLOW_S, knot_s: float = KNOT_S) -> Floats:
    """Four independent Gauss-Markov processes of variance 1 at times (n,) [s], shape (n, 4); linear between knots."""
    at = times / knot_s
    first = int(np.floor(at.min()))
    knots = gauss_markov(seed, name, first, int(np.floor(at.max())) + 2 - first, correlation_s / knot_s)
    low = np.floor(at).astype(np.int64) - first
    part = (at - np.floor(at))[:, None]
    return np.asarray((1.0 - part) * knots[low] + part * knots[low + 1])


def slow_each(seed: int, name: str, times: Floats, count: int) -> Floats:
    """One Gauss-Markov process per satellite, shape (n, count)."""
    groups = [slow(seed, f"{name}/{k}", times) for k in range((count + 3) // 4)]
    return np.concatenate(groups, axis=1)[:, :count]


@dataclass(frozen=True, eq=False)
class RangeErrors:
    """Slow errors of the ranges, common to both bands."""

    space_m: Floats
    """Signal-in-space error [m], shape (n, s)."""
    ionosphere: Floats
    """Relative error of the modelled ionosphere delay, shape (n, 1)."""
    wet_m: Floats
    """Error of the wet zenith delay [m], shape (n, 1)."""
    clock_s: Floats
    """Bias of the receiver clock [s], shape (n,)."""
    drift: Floats
    """Drift of the receiver clock [s/s], shape (n,)."""


def errors(config: GnssConfig, seed: int, name: str, times: Floats, count: int, noise: bool) -> RangeErrors:
    """Draw the slow errors of one receiver and one power-up."""
    n = len(times)
    if not noise:
        none = np.zeros((n, 1))
        return RangeErrors(np.zeros((n, count)), none, none, np.zeros(n), np.zeros(n))
    budget = config.budget
    air = slow(seed, f"{name}/air", times)
    space = budget.signal_in_space_m * slow_each(seed, f"{name}/space", times, count)
    own = normals(Stream(seed, f"{name}/clock"), np.zeros(1, dtype=np.int64))[0]
    drift = budget.clock_drift * own[0]
    bias = np.mod(JUMP_S * own[1] + drift * times + JUMP_S / 2.0, JUMP_S) - JUMP_S / 2.0
    return RangeErrors(
        space, budget.ionosphere_share * air[:, :1], budget.wet_zenith_m * air[:, 1:2], bias, np.full(n, drift)
    )


# ---- ranges --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Observed:
    """Observations of a receiver, the input of its position solution."""

    seen: Geometry
    sight: SkyVisibility
    received: TrackedSignals
    """Tracked signals of the first band."""
    bands: list[Ranges]
    """Measurements per band."""
    errors: RangeErrors
    """Slow errors that the ranges contain."""
    seconds: Floats
    """Time shown by the receiver clock [s of the week], shape (n,)."""


def observe(
    config: GnssConfig,
    sky: Sky,
    scene: SatelliteScene,
    xyz: Floats,
    velocity: Floats,
    quat_xyzw: Floats,
    numbers: NDArray[np.int64],
    times: Floats,
    seed: int,
    name: str,
    *,
    order: int,
    noise: bool,
    diffraction: bool = False,
    skyline: Skyline | None = None,
    weather: AirAtHeight = STANDARD_AIR,
    jammed_db: Floats | None = None,
) -> Observed:
    """Measure at positions `xyz` (n, 3) [m], with velocities (n, 3) and orientations (n, 4) in the world frame.

    `numbers` (n,) are the sample numbers, which select the random numbers; `times` (n,) [s] are the sample times.
    Diffuse scattering, varying foliage and the skyline are random; they need noise, and an order above 0. A jammer
    lowers C/N0 by `jammed_db` (n,).
    """
    seconds = sky.epoch.second + times
    ecef = sky.place.to_ecef(xyz)
    seen = geometry(sky, ecef, seconds)
    above = np.nan_to_num(seen.elevation, nan=-1.0) > 0.0
    toward = np.nan_to_num(sky.place.rotate_to_world(seen.toward))
    rough = noise and order > 0
    sight = find_paths(scene, xyz, times, toward, above, order, diffraction, diffuse=rough)
    shadow = np.zeros(above.shape)
    if rough and skyline is not None:
        shadow, hidden = skyline.loss_db(xyz, toward, seed, WAVELENGTH_M)
        sight = replace(sight, clear=sight.clear & ~hidden)
    slow_errors = errors(config, seed, name, times, len(sky.satellites), noise)
    bands, first, speed = [], None, np.sqrt(np.sum(velocity * velocity, axis=1))
    for band in config.bands:
        signals = band_of(band, sky.satellites, config.single_band)
        draws = (seed, speed) if rough else (None, None)
        tracked = receive(sight, above, quat_xyzw, config, band, signals, *draws)
        lost_db = shadow if jammed_db is None else shadow + jammed_db[:, None]
        tracked = replace(tracked, level_db=tracked.level_db - lost_db)
        first = first or tracked
        key = f"{name}/{band}"
        bands.append(
            _ranges(
                config, sky, seen, tracked, signals, slow_errors, velocity, seconds, numbers, seed, key, noise, weather
            )
        )
    assert first is not None
    return Observed(seen, sight, first, bands, slow_errors, seconds + slow_errors.clock_s)


def _ranges(
    config: GnssConfig,
    sky: Sky,
    seen: Geometry,
    tracked: TrackedSignals,
    signals: BandOfSatellites,
    slow_errors: RangeErrors,
    velocity: Floats,
    seconds: Floats,
    numbers: NDArray[np.int64],
    seed: int,
    name: str,
    noise: bool,
    weather: AirAtHeight,
) -> Ranges:
    n, s = seen.range_m.shape
    loops, c = config.loops, SPEED_OF_LIGHT_M_S
    power = normals(Stream(seed, f"{name}/power"), np.arange(s, dtype=np.int64))
    draws = normals(Stream(seed, f"{name}/white"), (numbers[:, None] * _SPAN + np.arange(s)).ravel()).reshape(n, s, 4)
    scale = 1.0 if noise else 0.0
    cn0 = config.cn0_zenith_dbhz + tracked.level_db + scale * (config.cn0_spread_db * power[:, 0] + 0.3 * draws[..., 3])
    cn0 = np.where(cn0 >= loops.threshold_dbhz, cn0, np.nan)
    ion, air = delays(sky, seen, seconds, slow_errors, weather)
    ion = earth.at_frequency(ion, signals.frequency_hz)
    row = np.where(seen.row >= 0, seen.row, 0)
    group = sky.ephemerides.tgd[row] * (earth.L1_HZ / signals.frequency_hz) ** 2
    clocks = c * (slow_errors.clock_s[:, None] - seen.state.clock)
    common = seen.range_m + clocks + air + slow_errors.space_m
    wavelength = signals.wavelength_m
    code = scale * code_sigma(cn0, signals.chip_m, loops.spacing_chips, loops.code_bandwidth_hz, loops.dwell_s)
    code_error = tracked.code_m + code * draws[..., 0]
    pseudorange = common + c * group + ion + code_error
    # The carrier is known up to an integer number of cycles, drawn once per satellite and band.
    whole = np.floor(to_unit(Stream(seed, f"{name}/cycles").words(np.arange(s))[0]) * 1e6)
    phase = scale * phase_sigma(cn0, loops.phase_bandwidth_hz, loops.dwell_s)
    carrier_error = tracked.carrier_m + wavelength * phase * draws[..., 1] + 0.0 * cn0
    carrier = (common - ion + carrier_error) / wavelength - scale * whole
    rate = range_rate(seen, sky.place.rotate_to_ecef(velocity), sky.place.rotate_to_ecef(tracked.arrival))
    rate = rate + c * (slow_errors.drift[:, None] - seen.state.clock_rate)
    doppler_sigma = scale * rate_sigma(cn0, loops.phase_bandwidth_hz, loops.dwell_s)
    doppler = -rate / wavelength + doppler_sigma * draws[..., 2]
    return Ranges(*map(_plain_nan, (cn0, pseudorange, carrier, doppler, code_error, carrier_error)))


def _plain_nan(values: Floats) -> Floats:
    """Replace every NaN by the same bits: the sign of a computed NaN depends on the SIMD lane, hence on the split."""
    return np.where(np.isnan(values), np.nan, values)


def delays(
    sky: Sky, seen: Geometry, seconds: Floats, slow_errors: RangeErrors, weather: AirAtHeight = STANDARD_AIR
) -> tuple[Floats, Floats]:
    """True delays of ionosphere (on L1) and troposphere [m], shape (n, s)."""
    local = seen.local
    lat, lon, height = (value[:, None] for value in (local.latitude, local.longitude, local.height_m))
    up = np.maximum(np.nan_to_num(seen.elevation, nan=0.1), np.radians(1.0))
    ion = earth.klobuchar(*sky.klobuchar, lat, lon, seen.azimuth, up, seconds[:, None])
    dry, wet = earth.zenith_delays(lat, height, air=weather)
    dry_map, wet_map = earth.niell(lat, height, up, sky.epoch.day_of_year)
    return ion * (1.0 + slow_errors.ionosphere), dry * dry_map + (wet + slow_errors.wet_m) * wet_map
