"""Position solution: weighted least squares in ECEF, dilution of precision, residual test, velocity.

Gauss-Newton with rows [-e, 1], e the unit vector to the satellite, and weights 1 / variance, until a step is below
0.1 mm. Each epoch is solved independently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Table
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.pose import Floats
from parhelion.core.streams import SINGLE
from parhelion.sensors.waves.gnss import earth
from parhelion.sensors.waves.gnss.config import FixConfig
from parhelion.sensors.waves.gnss.earth import EARTH_RATE_RAD_S, Local
from parhelion.sensors.waves.gnss.observe import Observed, Ranges, Sky
from parhelion.sensors.waves.gnss.satellites import BandOfSatellites, band_of, states

SIGNIFICANCE = 0.001
"""Significance level of the residual test: one valid fix in a thousand fails."""
IONOSPHERE_SMOOTHING = 0.1
"""Error of the smoothed over the unsmoothed difference of two bands: 100 s of smoothing, with multipath that
decorrelates within one second on a moving vehicle."""
LARGEST_EXCLUDED = 0.4
"""Largest fraction of satellites that the residual test may exclude."""
_STEPS, _SMALL_M = 12, 1e-4
_ACCURACY_M = np.array(
    [2.4, 3.4, 4.85, 6.85, 9.65, 13.65, 24.0, 48.0, 96.0, 192.0, 384.0, 768.0, 1536.0, 3072.0, 6144.0]
)
"""Upper limits [m] of the URA classes that satellites broadcast (IS-GPS-200, 20.3.3.3.1.3)."""


@dataclass(frozen=True, eq=False)
class Known(Table):
    """Inputs of a fix, one row per tracked satellite, with satellite states at the time of transmission."""

    xyz: Floats
    """Satellite position in ECEF [m], shape (m, 3)."""
    velocity: Floats
    """Satellite velocity in ECEF [m/s], shape (m, 3)."""
    clock_m: Floats
    """Satellite clock bias times the speed of light [m]; minus the group delay if one band is used."""
    clock_rate: Floats
    """Satellite clock drift [s/s]."""
    accuracy_m: Floats
    """Broadcast accuracy of the range [m]."""
    cn0: Floats
    """Carrier-to-noise density [dB-Hz]."""
    range_m: Floats
    """Pseudorange, or the ionosphere-free combination of two bands [m]."""
    rate: Floats
    """Range rate from Doppler [m/s]."""
    column: NDArray[np.int64]
    """Indices of the satellites."""
    modelled: NDArray[np.bool_]
    """Satellites whose ionosphere delay is corrected by a model, because they have one band only."""


@dataclass(frozen=True, eq=False)
class Fix:
    """Position solution of one epoch, in ECEF."""

    xyz: Floats
    """Position [m], shape (3,)."""
    clock_m: float
    """Receiver clock bias times the speed of light [m]."""
    velocity: Floats
    """Velocity [m/s], shape (3,)."""
    drift_m_s: float
    """Receiver clock drift times the speed of light [m/s]."""
    covariance: Floats
    """Covariance of the position [m^2], shape (3, 3)."""
    dop: Floats
    """Dilution of precision: geometric, position, horizontal, vertical."""
    consistent: bool
    """True if the residuals pass the chi-square test."""
    used: NDArray[np.int64]
    """Indices of the satellites used."""
    residual: Floats
    """Residuals of the satellites used [m]."""
    quality: int = SINGLE
    """Kind of the solution, one of the constants in `core.streams`."""


@lru_cache(maxsize=64)
def chi_square_limit(freedom: int) -> float:
    """Largest sum of squares of normalised residuals that passes."""
    from scipy.stats import chi2

    return float(chi2.isf(SIGNIFICANCE, freedom))


def known(observed: Observed, sky: Sky, k: int, bands: list[BandOfSatellites], fix: FixConfig) -> Known:
    """Collect the tracked satellites at time index `k`, with the contents of their navigation messages."""
    first: Ranges = observed.bands[0]
    two = fix.ionosphere == "two-frequencies"
    good = (first.cn0[k] >= fix.min_cn0_dbhz) & np.isfinite(first.pseudorange[k]) & (observed.seen.row[k] >= 0)
    whole, modelled = first.pseudorange[k], np.full(len(good), fix.ionosphere == "klobuchar")
    if two:
        second = observed.bands[1].pseudorange[k]
        f1, f2 = bands[0].frequency_hz ** 2, bands[1].frequency_hz ** 2
        # Receivers smooth the difference of the bands, which holds the ionosphere; its own errors shrink.
        ratio = f2 / (f1 - f2)
        difference = observed.bands[1].code_error[k] - first.code_error[k]
        free = (f1 * whole - f2 * second) / (f1 - f2) + (1.0 - IONOSPHERE_SMOOTHING) * ratio * difference
        modelled = ~np.isfinite(free)
        whole = np.where(modelled, whole, free)
    column = np.flatnonzero(good)
    row, measured = observed.seen.row[k, column], whole[column]
    eph = sky.ephemerides
    # Transmission time: receiver time minus the travel time, corrected for the satellite clock.
    sent = observed.seconds[k] - first.pseudorange[k, column] / SPEED_OF_LIGHT_M_S
    sent = sent - states(eph, row, sent).clock
    state = states(eph, row, sent)
    group = 0.0 if two else eph.tgd[row]
    clock = SPEED_OF_LIGHT_M_S * (state.clock - np.where(modelled[column], eph.tgd[row], group))
    return Known(
        state.xyz,
        state.velocity,
        clock,
        state.clock_rate,
        eph.accuracy_m[row],
        first.cn0[k, column],
        measured,
        -first.doppler[k, column] * bands[0].wavelength_m[column],
        column,
        modelled[column],
    )


def solve(found: Known, sky: Sky, fix: FixConfig, second: float, frequency_hz: Floats) -> Fix | None:
    """Compute the fix of one epoch (`second` of the week); None with fewer than `least_satellites`."""
    frequency = frequency_hz[found.column]
    keep = np.ones(len(found.column), bool)
    x = np.array([*sky.place.zero, 0.0])
    most = max(4, int(LARGEST_EXCLUDED * len(keep)))
    for excluded in range(most + 1):
        solution = _least_squares(found, keep, x, sky, fix, second, frequency)
        if solution is None:
            return None
        x, used, rows, variance, residual, cofactor = solution
        freedom = len(used) - 4
        normalised = residual[used] / np.sqrt(variance[used])
        passed = freedom < 1 or float(np.sum(normalised**2)) <= chi_square_limit(freedom)
        if passed or not fix.exclude or freedom < 2 or excluded == most:
            return _finished(found, x, used, rows, variance, residual, cofactor, passed)
        # Exclude the satellite with the largest normalised residual.
        spread = variance[used] - np.einsum("ij,jk,ik->i", rows, cofactor, rows)
        keep[used[np.argmax(residual[used] ** 2 / np.maximum(spread, 1e-6))]] = False
    return None


def _least_squares(
    found: Known, keep: NDArray[np.bool_], x: Floats, sky: Sky, fix: FixConfig, second: float, frequency: Floats
) -> tuple[Floats, NDArray[np.int64], Floats, Floats, Floats, Floats] | None:
    """Position and clock (4,), satellites used, design, variances, residuals, and inverse of the normal matrix."""
    used = np.zeros(0, np.int64)
    for _ in range(_STEPS):
        away = found.xyz - x[:3]
        flat = np.sqrt(np.sum(away * away, axis=1))
        e = away / flat[:, None]
        # Sagnac correction: the Earth rotates during the flight of the signal.
        distance = flat + EARTH_RATE_RAD_S / SPEED_OF_LIGHT_M_S * (found.xyz[:, 0] * x[1] - found.xyz[:, 1] * x[0])
        elevation, ion, air = _corrections(x[:3], e, sky, fix, second, frequency)
        ion = np.where(found.modelled, ion, 0.0)
        variance = variances(fix, elevation, found.cn0, found.accuracy_m, ion)
        residual = found.range_m - (distance + x[3] - found.clock_m + ion + air)
        used = np.flatnonzero(keep & (elevation >= np.radians(fix.elevation_mask_deg)))
        if len(used) < fix.least_satellites:
            return None
        rows = np.concatenate([-e[used], np.ones((len(used), 1))], axis=1)
        weighted = rows / variance[used, None]
        normal = weighted.T @ rows
        if np.linalg.cond(normal) > 1e16:
            return None
        cofactor = np.linalg.inv(normal)
        step = cofactor @ (weighted.T @ residual[used])
        x = x + step
        if float(np.sqrt(np.sum(step[:3] ** 2))) < _SMALL_M:
            residual = residual - np.concatenate([-e, np.ones((len(e), 1))], axis=1) @ step
            return x, used, rows, variance, residual, cofactor
    return None


def _corrections(
    xyz: Floats, e: Floats, sky: Sky, fix: FixConfig, second: float, frequency: Floats
) -> tuple[Floats, Floats, Floats]:
    """Elevations [rad], and the ionosphere and troposphere delays [m] that the receiver corrects."""
    local = Local.at(xyz[None])
    azimuth, elevation = (value[0] for value in local.angles(e[None]))
    lat, lon, height = (float(value[0]) for value in (local.latitude, local.longitude, local.height_m))
    safe = np.maximum(elevation, np.radians(1.0))
    ion, air = np.zeros(len(e)), np.zeros(len(e))
    if fix.ionosphere != "none":
        ion = earth.klobuchar(*sky.klobuchar, lat, lon, azimuth, safe, second)
        ion = earth.at_frequency(ion, frequency)
    if fix.troposphere == "saastamoinen":
        air = earth.saastamoinen(lat, height, safe)
    elif fix.troposphere == "niell":
        dry, wet = earth.zenith_delays(lat, height)
        dry_map, wet_map = earth.niell(lat, height, safe, sky.epoch.day_of_year)
        air = dry * dry_map + wet * wet_map
    return elevation, ion, air


def variances(fix: FixConfig, elevation: Floats, cn0: Floats, accuracy_m: Floats, ion: Floats) -> Floats:
    """Variance [m^2] that the receiver assigns to each range.

    Weights by elevation follow RTKLIB's single-point mode: (0.3 m)^2 (1 + 1 / sin) for the code, the broadcast
    accuracy, 0.3 m for code biases, half of the ionosphere delay and 0.3 m / (sin + 0.1) for the troposphere.
    """
    if fix.weights == "equal":
        return np.full(len(cn0), fix.sigma_m**2)
    sine = np.sin(np.maximum(elevation, np.radians(5.0)))
    air = (0.3 / (np.sin(np.maximum(elevation, 0.01)) + 0.1)) ** 2 if fix.troposphere != "none" else 0.0
    if fix.weights == "elevation":
        own = 0.3**2 * (1.0 + 1.0 / sine)
        ura = _ACCURACY_M[np.minimum(np.searchsorted(_ACCURACY_M, accuracy_m), len(_ACCURACY_M) - 1)]
        return np.asarray(own + ura**2 + 0.3**2 + (0.5 * ion) ** 2 + air)
    own = fix.sigma_m**2 * 10.0 ** ((45.0 - cn0) / 10.0)
    return np.asarray(own + 0.5**2 + (0.3 * ion) ** 2 + 0.1 * air)


def _finished(
    found: Known,
    x: Floats,
    used: NDArray[np.int64],
    rows: Floats,
    variance: Floats,
    residual: Floats,
    cofactor: Floats,
    passed: bool,
) -> Fix:
    plain = np.linalg.inv(rows.T @ rows)
    here = Local.at(x[None, :3])
    axes = np.stack([here.east[0], here.north[0], here.up[0]])
    local = np.diag(axes @ plain[:3, :3] @ axes.T)
    dop = np.sqrt([np.trace(plain), np.sum(local), local[0] + local[1], local[2]])
    velocity, drift = _velocity(found.rows(np.isin(np.arange(len(found.column)), used)), x[:3], variance[used])
    return Fix(x[:3], float(x[3]), velocity, drift, cofactor[:3, :3], dop, passed, found.column[used], residual[used])


def _velocity(found: Known, xyz: Floats, variance: Floats) -> tuple[Floats, float]:
    """Velocity in ECEF [m/s] and clock drift [m/s] from range rates, with the weights of the ranges."""
    away = found.xyz - xyz
    flat = np.sqrt(np.sum(away * away, axis=1))
    travel = flat / SPEED_OF_LIGHT_M_S
    angle = EARTH_RATE_RAD_S * travel
    c, s = np.cos(angle), np.sin(angle)

    def at_arrival(v: Floats) -> Floats:
        return np.stack([c * v[:, 0] + s * v[:, 1], c * v[:, 1] - s * v[:, 0], v[:, 2]], axis=1)

    away = at_arrival(found.xyz) - xyz
    e = away / np.sqrt(np.sum(away * away, axis=1))[:, None]
    ahead = np.sum(at_arrival(found.velocity) * e, axis=1)
    stretch = 1.0 + ahead / SPEED_OF_LIGHT_M_S
    left = found.rate + SPEED_OF_LIGHT_M_S * found.clock_rate - ahead / stretch
    rows = np.concatenate([-e / stretch[:, None], np.ones((len(e), 1))], axis=1)
    weighted = rows / variance[:, None]
    solution = np.linalg.solve(weighted.T @ rows, weighted.T @ left)
    return solution[:3], float(solution[3])


def fixes(observed: Observed, sky: Sky, fix: FixConfig, bands: Sequence[str]) -> list[Fix | None]:
    """Compute the fix of each epoch; None where there is none."""
    signals = [band_of(band, sky.satellites) for band in bands]
    return [
        solve(known(observed, sky, k, signals, fix), sky, fix, float(observed.seconds[k]), signals[0].frequency_hz)
        for k in range(len(observed.seconds))
    ]
