"""Real-time kinematic positioning: fixed, float and differential solutions with the corrections of a base station.

Corrections cancel the errors that rover and base station share: orbits, clocks, ionosphere and troposphere. The rover's
multipath and noise remain, and an atmospheric error that grows with the distance to the base station. Solutions:

- fixed: the carrier ambiguities are resolved, so carrier ranges of centimetres give the position. Ambiguities are
  resolvable if their carriers were tracked without interruption for `lock_time_s`, if their dilution of precision
  (ADOP; Teunissen 1997, Artificial Satellites 32) predicts a success rate (2 Phi(1 / (2 ADOP)) - 1)^n of at least
  `success_rate`, and if the carrier residuals pass a chi-square test. Real engines are more cautious: they also need a
  number of satellites locked in both bands, `satellites_for_fix` with `satellites_spread`;
- float: carriers are tracked, but their ambiguities are not resolved. Carriers then smooth the code;
- differential: fewer than five carriers are tracked; the position comes from corrected code ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.core.streams import DIFFERENTIAL, RTK_FIXED, RTK_FLOAT
from parhelion.sensors.waves.gnss.config import FixConfig, GnssConfig, RtkConfig
from parhelion.sensors.waves.gnss.fix import LARGEST_EXCLUDED, Fix, chi_square_limit
from parhelion.sensors.waves.gnss.observe import Observed, Sky, slow, slow_each
from parhelion.sensors.waves.gnss.satellites import band_of

LEAST_CARRIERS = 5
"""Smallest number of satellites of a fixed solution: four unknowns and one for the test."""
CAUTION_S = 10.0
"""Correlation time [s] of the number of satellites that a receiver needs for a fixed solution."""
SMOOTHING = 0.32
"""Error of carrier-smoothed over unsmoothed code: ten seconds of smoothing, with multipath that decorrelates within one
second on a moving vehicle, 1 / sqrt(10)."""
CODE_FLOOR_M = 0.3
"""Standard deviation [m] of differential code due to multipath of both stations. Assumed."""


def rtk_fixes(
    observed: Observed,
    sky: Sky,
    config: GnssConfig,
    single: Sequence[Fix | None],
    truth_ecef: Floats,
    baseline_km: float,
    times: Floats,
    seed: int,
    name: str,
    noise: bool,
) -> list[Fix | None]:
    """Replace single-point fixes by RTK solutions where there are enough satellites; others stay as they are."""
    rtk = config.rtk
    assert rtk is not None
    count = len(sky.satellites)
    air = np.zeros((len(times), count))
    if noise and baseline_km > 0.0:
        air = 1e-3 * rtk.distance_ppm * baseline_km * slow_each(seed, f"{name}/baseline", times, count)
    wavelength = [band_of(band, sky.satellites, config.single_band).wavelength_m for band in config.bands]
    locked = [_locked(one.cn0 >= rtk.phase_threshold_dbhz, times, rtk.lock_time_s) for one in observed.bands]
    high = np.nan_to_num(observed.seen.elevation, nan=-1.0) >= np.radians(config.fix.elevation_mask_deg)
    needed = np.full(len(times), rtk.satellites_for_fix)
    if noise and rtk.satellites_spread > 0.0:
        walk = slow(seed, f"{name}/caution", times, CAUTION_S, CAUTION_S / 10.0)
        needed = needed + rtk.satellites_spread * walk[:, 0]
    enough = np.sum(np.logical_and.reduce(locked) & high, axis=1) >= needed
    return [
        None
        if fix is None
        else _solve(
            observed,
            k,
            config.fix,
            rtk,
            fix,
            truth_ecef[k],
            air[k],
            wavelength,
            baseline_km,
            [one[k] & enough[k] for one in locked],
        )
        for k, fix in enumerate(single)
    ]


def _locked(strong: NDArray[np.bool_], times: Floats, lock_time_s: float) -> NDArray[np.bool_]:
    """Carriers (n, s) that were strong at all samples of the last `lock_time_s`."""
    broken = np.where(strong, -np.inf, times[:, None])
    last = np.maximum.accumulate(broken, axis=0)
    return np.asarray(times[:, None] - last > lock_time_s - 1e-9)


def _solve(
    observed: Observed,
    k: int,
    rules: FixConfig,
    rtk: RtkConfig,
    single: Fix,
    truth: Floats,
    air: Floats,
    wavelength: list[Floats],
    baseline_km: float,
    locked: list[NDArray[np.bool_]],
) -> Fix:
    seen, bands = observed.seen, observed.bands
    high = np.nan_to_num(seen.elevation[k], nan=-1.0) >= np.radians(rules.elevation_mask_deg)
    code = np.flatnonzero(high & np.isfinite(bands[0].code_error[k]) & (bands[0].cn0[k] >= rules.min_cn0_dbhz))
    if len(code) < LEAST_CARRIERS:
        return single
    toward = seen.toward[k]
    rows = _design(toward[code])
    variance = rules.sigma_m**2 * _weakness(bands[0].cn0[k, code]) + CODE_FLOOR_M**2
    differential = _robust(rows, bands[0].code_error[k, code] + air[code], variance)
    if differential is None:
        return single
    shift, cofactor, good, residual = differential
    found = replace(
        single,
        xyz=truth + shift,
        covariance=cofactor,
        consistent=True,
        used=code[good],
        residual=residual,
        quality=DIFFERENTIAL,
    )
    carriers = [
        np.flatnonzero(high & np.isfinite(one.carrier_error[k]) & (one.cn0[k] >= rtk.phase_threshold_dbhz))
        for one in bands
    ]
    if len(carriers[0]) < LEAST_CARRIERS:
        return found
    found = replace(found, xyz=truth + SMOOTHING * shift, covariance=SMOOTHING**2 * cofactor, quality=RTK_FLOAT)
    carriers = [at[one[at]] for at, one in zip(carriers, locked, strict=True)]
    sigma2 = [rtk.sigma_m**2 * _weakness(one.cn0[k, at]) for one, at in zip(bands, carriers, strict=True)]
    if baseline_km > rtk.max_baseline_km:
        return found
    column = np.concatenate(carriers)
    band = np.repeat(np.arange(len(bands)), [len(at) for at in carriers])
    wave = np.concatenate([wave[at] for wave, at in zip(wavelength, carriers, strict=True)])
    error = np.concatenate([one.carrier_error[k, at] for one, at in zip(bands, carriers, strict=True)])
    # The resolved ambiguity absorbs whole cycles of the error.
    error = error - wave * np.rint(error / wave) + air[column]
    noise2 = np.concatenate(sigma2)
    fixed = _robust(_design(toward[column]), error, noise2 + (1e-3 * rtk.distance_ppm * baseline_km) ** 2)
    if fixed is None:
        return found
    # A code position that is off by more than its covariance widens the search for ambiguities.
    inflation = max(1.0, float(shift @ np.linalg.solve(cofactor, shift)) / 3.0)
    good = fixed[2]
    parts = [good[band[good] == b] for b in range(len(bands))]
    rate = success_rate(
        [toward[column[part]] for part in parts],
        inflation * cofactor,
        [noise2[part] for part in parts],
        [wave[part] for part in parts],
    )
    used, first = np.unique(column[good], return_index=True)
    if rate < rtk.success_rate or len(used) < LEAST_CARRIERS:
        return found
    return replace(
        found, xyz=truth + fixed[0], covariance=fixed[1], used=used, residual=fixed[3][first], quality=RTK_FIXED
    )


def _design(toward: Floats) -> Floats:
    """Rows [-e, 1] of unit vectors to satellites (m, 3)."""
    return np.concatenate([-toward, np.ones((len(toward), 1))], axis=1)


def _weakness(cn0: Floats) -> Floats:
    """Variance relative to a signal of 45 dB-Hz."""
    return np.asarray(10.0 ** ((45.0 - cn0) / 10.0))


def _robust(rows: Floats, error: Floats, variance: Floats) -> tuple[Floats, Floats, NDArray[np.int64], Floats] | None:
    """Position error (3,), its covariance, rows used and their residuals; None if the residuals stay inconsistent."""
    keep = np.ones(len(rows), bool)
    for _ in range(1 + int(LARGEST_EXCLUDED * len(rows))):
        used = np.flatnonzero(keep)
        if len(used) < LEAST_CARRIERS:
            return None
        weighted = rows[used] / variance[used, None]
        normal = weighted.T @ rows[used]
        if np.linalg.cond(normal) > 1e12:
            return None
        cofactor = np.linalg.inv(normal)
        x = cofactor @ (weighted.T @ error[used])
        residual = error[used] - rows[used] @ x
        if float(np.sum(residual**2 / variance[used])) <= chi_square_limit(len(used) - 4):
            return x[:3], cofactor[:3, :3], used, residual
        spread = variance[used] - np.einsum("ij,jk,ik->i", rows[used], cofactor, rows[used])
        keep[used[np.argmax(residual**2 / np.maximum(spread, 1e-12))]] = False
    return None


def success_rate(
    toward: list[Floats], position_m2: Floats, phase_m2: list[Floats], wavelength_m: list[Floats]
) -> float:
    """Success rate of single-epoch ambiguity resolution by the ambiguity dilution of precision, 0 to 1.

    Lists have one entry per band: unit vectors to satellites (m, 3), variances of carriers (m,) [m^2] and wavelengths
    (m,) [m]. `position_m2` is the covariance (3, 3) [m^2] of the position by code.
    """
    from scipy.special import ndtr

    blocks = [(e, v, w) for e, v, w in zip(toward, phase_m2, wavelength_m, strict=True) if len(e) > 1]
    size = [len(e) - 1 for e, _, _ in blocks]
    count = sum(size)
    if not count:
        return 0.0
    geometry = np.concatenate([-(e[1:] - e[0]) / w[1:, None] for e, _, w in blocks])
    covariance = geometry @ position_m2 @ geometry.T
    first = 0
    for (_, v, w), n in zip(blocks, size, strict=True):
        part = slice(first, first + n)
        covariance[part, part] += (np.diag(v[1:]) + v[0]) / np.outer(w[1:], w[1:])
        first += n
    sign, logarithm = np.linalg.slogdet(covariance)
    if sign <= 0:
        return 0.0
    adop = np.exp(logarithm / (2.0 * count))
    return float((2.0 * ndtr(0.5 / adop) - 1.0) ** count)
