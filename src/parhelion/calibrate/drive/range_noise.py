"""Range noise by signal and by range, from the residuals of pixels to the plane of their neighbours.

The residual is that of a parabola through 1/R of the neighbours in the row. On a plane, 1/R is a sine of the azimuth,
so flat surfaces leave only noise. See docs/models/lidar-near-field.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.range_images import Floats, RangeImage, clean
from parhelion.core.errors import ConfigError

HALF_WINDOW, DEGREE = 4, 2
FLATTEST = 0.2
"""Share of the windows on which range noise is measured."""
FEWEST_WINDOWS = 20
MAD_TO_SIGMA = 1.4826
MOST_JITTER_M = 0.006
"""Largest scatter of ranges [m] caused by beam jitter alone; windows above it are excluded."""
FLATTER = 0.5
"""Share of the pixels on which repeated observations are compared."""
PARTS, PART_COLUMNS = 8, 32
"""Sections of the circle for error estimates, each made of strips of this many columns."""
MAD_ERROR = 1.16
"""Relative error of a scatter estimated by the median deviation, times the square root of the number of values."""


@dataclass(frozen=True, eq=False)
class RangeNoise:
    """Scatter of single ranges per bin of a level, for example photons or metres."""

    photons: Floats
    """Level of each bin: the one at which 1 / level^2 equals its mean."""
    sigma_m: Floats
    """Scatter of the flattest windows."""
    error_m: Floats
    """Half width of the 68 % interval."""
    all_m: Floats
    """Scatter of all windows, including surface roughness."""
    count: NDArray[np.int64]
    """Number of windows for `sigma_m`."""
    pure_m: Floats
    """Scatter of the flattest windows after removing beam jitter on inclined surfaces."""
    pure_error_m: Floats
    """Standard error of `pure_m`."""


def residuals(frame: RangeImage) -> tuple[Floats, Floats]:
    """Difference between each range and the prediction from its row neighbours, and the scatter of the neighbours [m].

    The prediction is a parabola through 1/R of the four pixels on either side, excluding the pixel. Differences are
    scaled to the noise of one range. NaN if a pixel of the window has no return or lies on another surface.
    """
    steps = np.array([step for step in range(-HALF_WINDOW, HALF_WINDOW + 1) if step])
    design = np.vander(steps, DEGREE + 1, increasing=True).astype(float)
    solve = np.linalg.pinv(design)
    others = np.stack([np.roll(frame.range, -step, axis=1) for step in steps])
    with np.errstate(invalid="ignore", divide="ignore"):
        together = np.all(np.abs(others - frame.range) < 0.1 * frame.range, axis=0)
        inverse = np.where(together, 1.0 / others, np.nan)
        fitted = np.einsum("pk,krc->prc", solve, inverse)
        spread = ((inverse - np.einsum("kp,prc->krc", design, fitted)) ** 2).sum(axis=0) / (len(steps) - DEGREE - 1)
        scale = np.sqrt(1.0 + (solve[0] ** 2).sum())
        return (1.0 / fitted[0] - frame.range) / scale, np.sqrt(spread) * frame.range**2


def range_noise(
    frame: RangeImage, level: Floats, edges: Sequence[float], repeats: int = 200, *, jitter_m: Floats | None = None
) -> RangeNoise:
    """Scatter of ranges by `level`, for example photons, on the flattest fifth of all windows of each bin.

    Flatness is judged by the neighbours alone, whose noise is independent of the pixel, so the selection does not bias
    the result. `jitter_m` is the scatter due to beam jitter on inclined surfaces (see `slope_jitter`), which `pure_m`
    excludes.
    """
    error, roughness = residuals(frame)
    jitter = np.zeros_like(error) if jitter_m is None else jitter_m
    random = np.random.default_rng(2)
    rows = []
    for low, high in pairwise(edges):
        with np.errstate(invalid="ignore"):
            mask = np.isfinite(error) & (level >= low) & (level < high)
        if mask.sum() < FEWEST_WINDOWS:
            rows.append((np.nan, np.nan, np.nan, np.nan, 0, np.nan, np.nan))
            continue
        flat = mask & (roughness <= np.quantile(roughness[mask], FLATTEST))
        chosen, slanted = error[flat], jitter[flat]
        draws = [_scatter(random.choice(chosen, len(chosen))) for _ in range(repeats)]
        half = float(np.ptp(np.percentile(draws, [16.0, 84.0]))) / 2.0
        sigma = _scatter(chosen)
        pure, pure_error = _scatter_besides_known(chosen, slanted)
        # Weak returns scatter most, so the bin's level is the one at which the law has the bin's mean square.
        middle = float(np.mean(level[flat] ** -2.0) ** -0.5)
        rows.append((middle, sigma, half, _scatter(error[mask]), len(chosen), pure, pure_error))
    return RangeNoise(*(np.array(part) for part in zip(*rows, strict=True)))


def _scatter_besides_known(values: Floats, known: Floats) -> tuple[float, float]:
    """Standard deviation in addition to a known one per value, such that the median of |v| / sigma is that of a normal.

    Solved by bisection; 0 if the known one explains all scatter. Returned with its standard error.
    """
    use = known < MOST_JITTER_M
    off, known = np.abs(values - np.median(values))[use], known[use]
    if len(off) < FEWEST_WINDOWS:
        return np.nan, np.nan
    left = _remaining_sigma(off * MAD_TO_SIGMA, known)
    error = MAD_ERROR / np.sqrt(len(off)) * (left**2 + float(np.median(known)) ** 2) / max(left, 1e-6)
    return left, float(error)


def _remaining_sigma(off: Floats, known: Floats) -> float:
    """Standard deviation s at which the median of off / sqrt(s^2 + known^2) is 1, by bisection; 0 if always less."""
    low, high = 0.0, 2.0 * float(np.median(off)) + 1e-9
    for _ in range(50):
        middle = 0.5 * (low + high)
        ratio = float(np.median(off / np.sqrt(middle**2 + known**2 + 1e-18)))
        low, high = (middle, high) if ratio > 1.0 else (low, middle)
    return 0.5 * (low + high)


def _between_parts(off: Floats, known: Floats, part: NDArray[np.int64]) -> float:
    """Standard error of `_remaining_sigma` by leaving out single sections (jackknife), including Student's factor.

    Beams of a column may share their jitter, and neighbours their surface: pixels are not independent, sections are.
    """
    left = np.array([_remaining_sigma(off[part != k], known[part != k]) for k in np.unique(part) if (part != k).any()])
    n = len(left)
    if n < 3:
        return 0.0
    from scipy.stats import t

    return float(np.sqrt((n - 1) / n * np.sum((left - left.mean()) ** 2)) * t.ppf(0.975, n - 1) / 1.96)


def _scatter(values: Floats) -> float:
    return float(MAD_TO_SIGMA * np.median(np.abs(values - np.median(values))))


def slope_jitter(frame: RangeImage, azimuth_jitter_deg: float, elevation_jitter_deg: float) -> Floats:
    """Scatter of range [m] caused by jitter of the beam angles on inclined surfaces.

    Slopes are those between the neighbours in row and column; infinite if they are unknown.
    """
    if frame.direction is None or (azimuth_jitter_deg == 0.0 and elevation_jitter_deg == 0.0):
        return np.zeros_like(frame.range)
    total = np.zeros_like(frame.range)
    for axis, jitter_deg in ((1, azimuth_jitter_deg), (0, elevation_jitter_deg)):
        if jitter_deg == 0.0:
            continue
        after, before = (np.roll(frame.range, step, axis=axis) for step in (-1, 1))
        u, v = (np.roll(frame.direction, step, axis=axis) for step in (-1, 1))
        with np.errstate(invalid="ignore", divide="ignore"):
            angle = np.linalg.norm(u - v, axis=-1)
            slope = np.abs(after - before) / angle
            steep = np.abs(after - frame.range) > 0.3 * frame.range
        slope = np.where(np.isfinite(slope) & ~steep, slope, np.inf)
        if axis == 0:
            slope[0], slope[-1] = slope[1], slope[-2]
        total += (slope * np.radians(jitter_deg)) ** 2
    return np.sqrt(total)


@dataclass(frozen=True)
class SigmaLaw:
    """sigma^2 = floor^2 + (slope / level)^2."""

    floor_m: float
    floor_error_m: float
    slope_m: float
    """Slope in units of the level."""
    slope_error_m: float
    misfit: float
    """Root mean square of the relative differences between bins and law."""

    def at(self, level: Floats) -> Floats:
        """Standard deviation [m]."""
        return np.sqrt(self.floor_m**2 + (self.slope_m / level) ** 2)


def fit_law(noise: RangeNoise, slope_m: float | None = None) -> SigmaLaw:
    """Best fit to the bins' `pure_m`: least squares of sigma^2, which is linear in floor^2 and slope^2.

    If bins differ from the law by more than chance, each gets an additional error, in quadrature, that explains the
    difference. The errors therefore include rough surfaces and deviations from the law. A given `slope_m` is not
    fitted. Errors include Student's factor, because few bins determine their own scatter poorly.
    """
    from scipy.stats import t

    known = (noise.count >= FEWEST_WINDOWS) & (noise.pure_m > 0.1 * noise.sigma_m)
    if known.sum() < 2:
        raise ConfigError(f"only {int(known.sum())} signal bins have {FEWEST_WINDOWS} flat windows or more")
    level, sigma = noise.photons[known], noise.pure_m[known]
    own = noise.pure_error_m[known] / sigma
    free = 2 if slope_m is None else 1
    freedom = max(len(level) - free, 1)
    design = np.stack([np.ones_like(level), level**-2.0], axis=1)

    def fit(more: float) -> tuple[Floats, Floats, float]:
        relative = np.hypot(own, more)
        model = sigma**2
        for _ in range(8):
            # The error of sigma is half that of its square, relative to the law.
            weight = 1.0 / (2.0 * relative * model)
            a, y = design * weight[:, None], sigma**2 * weight
            if slope_m is not None:
                a, y = a[:, :1], y - slope_m**2 * a[:, 1]
            squares = np.maximum(np.linalg.lstsq(a, y, rcond=None)[0], 0.0)
            whole = np.append(squares, slope_m**2) if slope_m is not None else squares
            model = np.maximum(design @ whole, 1e-10)
        off = np.log(sigma / np.sqrt(model)) / relative
        return whole, np.linalg.pinv(a.T @ a), float(np.sum(off**2)) / freedom

    extra, (whole, covariance, chi2) = 0.0, fit(0.0)
    if chi2 > 1.0:
        below, above = 0.0, 2.0
        for _ in range(30):
            extra = 0.5 * (below + above)
            whole, covariance, chi2 = fit(extra)
            below, above = (extra, above) if chi2 > 1.0 else (below, extra)
    # Half of the 95 % interval over 1.96, which equals a standard error for many bins.
    student = float(t.ppf(0.975, freedom)) / 1.96 if extra > 0.0 else 1.0
    floor, slope = (float(np.sqrt(max(value, 1e-12))) for value in whole)
    floor_error, *rest = (student * np.sqrt(np.diag(covariance)) / 2.0 / np.array([floor, slope])[:free]).tolist()
    rms = float(np.sqrt(np.mean(np.log(sigma / np.sqrt(floor**2 + (slope / level) ** 2)) ** 2)))
    return SigmaLaw(floor, floor_error, slope, rest[0] if rest else 0.0, rms)


def repeated_noise(
    frames: Sequence[RangeImage], level: Floats, edges: Sequence[float], jitter_m: Floats | None = None
) -> RangeNoise:
    """Scatter of ranges from repeated observations by a stationary sensor: each pixel about its own mean.

    Surfaces need not be flat, but the rougher half of each bin is excluded, as are pixels that show another object in
    one of the frames. `level` is the mean over the frames, for example of photons; `jitter_m` as for `range_noise`.
    """
    from scipy.stats import chi2

    # Median of a sample standard deviation relative to the true one.
    median_ratio = float(np.sqrt(chi2.median(len(frames) - 1) / (len(frames) - 1)))
    every = np.stack([frame.range for frame in frames])
    there = np.isfinite(every).all(axis=0) & clean(frames[0])
    jitter = np.zeros_like(level) if jitter_m is None else jitter_m
    middle = np.median(np.where(there, every, 1.0), axis=0)
    # Leaves and edges scatter more; neighbours locate them, and their noise is independent of the pixel's.
    roughness = residuals(replace(frames[0], range=np.where(there, every.mean(axis=0), np.nan)))[1]
    there = there & np.isfinite(roughness)
    part = np.broadcast_to(np.arange(every.shape[2]) // PART_COLUMNS % PARTS, every.shape[1:])
    same = there & (np.abs(np.where(there, every, 1.0) - middle).max(axis=0) < 0.03 * middle)
    rows = []
    for low, high in pairwise(edges):
        with np.errstate(invalid="ignore"):
            mask = same & (level >= low) & (level < high) & (jitter < MOST_JITTER_M)
        if mask.sum() >= FEWEST_WINDOWS:
            mask &= roughness <= np.quantile(roughness[mask], FLATTER)
        number = int(mask.sum())
        if number < FEWEST_WINDOWS:
            rows.append((np.nan, np.nan, np.nan, np.nan, 0, np.nan, np.nan))
            continue
        spread = every[:, mask].std(axis=0, ddof=1)
        # Median, because pixels at edges and on leaves scatter by more than noise.
        sigma = float(np.median(spread)) / median_ratio
        pure = _remaining_sigma(spread / median_ratio, jitter[mask])
        # Error of a median of standard deviations over the frames, and of the differences between sections.
        error = 1.2533 * sigma / np.sqrt(2.0 * number * (len(frames) - 1))
        error = max(error, _between_parts(spread / median_ratio, jitter[mask], part[mask]))
        middle_level = float(np.mean(level[mask] ** -2.0) ** -0.5)
        rows.append((middle_level, sigma, error, sigma, number, pure, error * sigma / max(pure, 1e-6)))
    return RangeNoise(*(np.array(part) for part in zip(*rows, strict=True)))
