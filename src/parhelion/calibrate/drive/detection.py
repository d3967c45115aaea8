"""Weak, lost and saturated returns: dropout by signal, the threshold, saturation, and quantisation of counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.range_images import Floats, Mask, RangeImage
from parhelion.core.errors import ConfigError

FEWEST_LOST = 12
"""Smallest number of lost pixels on surfaces for fitting a threshold."""
MOST_LAPSE = 0.05
ROUNDING = 0.29
"""Standard deviation of the rounding error of integers."""


def on_surface(frame: RangeImage) -> tuple[Mask, Floats]:
    """Pixels whose neighbours show a surface, returned or not, and the mean signal of these neighbours.

    Two pixels on either side must have returned, with range steps below 3 %. Pixels that the sensor withholds are
    excluded.
    """
    near = [np.roll(frame.range, step, axis=1) for step in (-2, -1, 1, 2)]
    with np.errstate(invalid="ignore"):
        steps = [np.abs(a - b) < 0.03 * a for a, b in pairwise(near)]
    photons = 0.5 * (np.roll(frame.signal, 1, axis=1) + np.roll(frame.signal, -1, axis=1))
    fired = frame.returned | frame.lost
    return np.all(steps, axis=0) & ~frame.withheld & fired, photons


def dropout(frame: RangeImage, edges: Sequence[float]) -> list[tuple[float, float, int, int]]:
    """Pixels on surfaces and how many are lost, by the photons of their neighbours: (from, to, all, lost)."""
    surface, photons = on_surface(frame)
    found = []
    for low, high in pairwise(edges):
        with np.errstate(invalid="ignore"):
            mask = surface & (photons >= low) & (photons < high)
        found.append((low, high, int(mask.sum()), int((mask & frame.lost).sum())))
    return found


def detection_chance(photons: Floats, threshold: float, threshold_to_noise: float) -> Floats:
    """Detection probability at a photon count: Phi((P - 1) / sqrt(1/TNR^2 + P/N)), P = photons/N.

    The law of docs/models/lidar-noise.md, with N photons at the threshold.
    """
    from scipy.special import ndtr

    power = photons / threshold
    return np.asarray(ndtr((power - 1.0) / np.sqrt(threshold_to_noise**-2.0 + power / threshold)))


@dataclass(frozen=True)
class Threshold:
    """Photons at which half of the pulses are detected, by the law of `detection_chance`."""

    photons: float
    error: float
    lapse: float
    """Share of strong pulses that are lost nevertheless."""
    pixels: int
    lost: int


def fit_threshold(frame: RangeImage, threshold_to_noise: float) -> Threshold:
    """Maximum-likelihood threshold for the lost pixels on surfaces.

    The second parameter of the likelihood is the share of lost pulses that weak signal does not explain. The error is
    that of the likelihood, enlarged if signal bins scatter more than binomial counts, with Student's factor for the few
    bins, plus the rounding error, which is the same for all pixels of one surface and count. ConfigError is raised if
    too few pixels are lost.
    """
    from scipy.optimize import minimize
    from scipy.stats import t

    if not frame.knows_lost:
        raise ConfigError("the recording contains no lost shots, so drop rate and threshold are unknown")
    surface, photons = on_surface(frame)
    with np.errstate(invalid="ignore"):
        mask = surface & (photons > 0.5)
    n, lost = photons[mask], frame.lost[mask]
    if lost.sum() < FEWEST_LOST:
        raise ConfigError(f"only {int(lost.sum())} pixels on surfaces are lost, too few to fit a threshold")
    # Counts are integers, or half-integers for the mean of two; pixels of one count are grouped.
    value, place = np.unique(np.round(2.0 * n) / 2.0, return_inverse=True)
    whole = np.bincount(place)
    gone = np.bincount(place, lost)

    def chance(logs: Floats) -> Floats:
        lapse = MOST_LAPSE / (1.0 + np.exp(-logs[1]))
        return np.clip(
            lapse + (1.0 - lapse) * (1.0 - detection_chance(value, float(np.exp(logs[0])), threshold_to_noise)),
            1e-9,
            1.0 - 1e-9,
        )

    def cost(logs: Floats) -> float:
        p = chance(logs)
        return float(-np.sum(gone * np.log(p) + (whole - gone) * np.log1p(-p)))

    best = min(
        (minimize(cost, [np.log(start), -3.0], method="Nelder-Mead") for start in (2.0, 5.0, 12.0)), key=lambda r: r.fun
    )
    step = 0.02
    shifted = [cost(best.x + np.array([sign * step, 0.0])) for sign in (-1.0, 1.0)]
    curvature = max((sum(shifted) - 2.0 * best.fun) / step**2, 1e-9)
    p = chance(best.x)
    groups = np.digitize(value, (4.0, 6.0, 8.0, 10.0, 12.0, 15.0, 20.0, 30.0, 60.0))
    expected, seen = np.bincount(groups, whole * p), np.bincount(groups, gone)
    spread = np.bincount(groups, whole * p * (1.0 - p))
    many = spread > 1.0
    freedom = max(int(many.sum()) - 2, 1)
    excess = float(np.sum((seen - expected)[many] ** 2 / spread[many]) / freedom)
    photons_at = float(np.exp(best.x[0]))
    # Half of the 95 % interval over 1.96, which equals a standard error for many bins.
    student = float(t.ppf(0.975, freedom)) / 1.96 if excess > 1.0 else 1.0
    share = gone * value / (gone * value).sum()
    rounding = ROUNDING * np.sqrt(np.sum((share / value) ** 2))
    error = photons_at * np.hypot(student * np.sqrt(max(excess, 1.0) / curvature), rounding)
    lapse = MOST_LAPSE / (1.0 + float(np.exp(-best.x[1])))
    return Threshold(photons_at, float(error), lapse, len(n), int(lost.sum()))


@dataclass(frozen=True)
class Saturation:
    """Strongest recorded signal."""

    level: float
    pixels: int
    """Number of returns at or close to it."""
    reached: bool
    """Many returns share it because the receiver saturates; otherwise it is a lower bound."""


def saturation(frame: RangeImage) -> Saturation:
    """Highest count, and whether returns pile up there: more within 1 % below it than in the next 10 %."""
    level = frame.signal[frame.returned & np.isfinite(frame.signal)]
    if not len(level):
        return Saturation(np.nan, 0, False)
    top = float(level.max())
    at, below = int((level >= 0.99 * top).sum()), int(((level >= 0.89 * top) & (level < 0.99 * top)).sum())
    return Saturation(top, at, bool(at >= 8 and at > 2 * below))


def step_of(values: NDArray[np.floating], finest: float = 1e-4) -> float | None:
    """Step of which all values are multiples, or None if there is none above `finest`."""
    distinct = np.unique(np.round(values[np.isfinite(values)] / finest).astype(np.int64))
    if len(distinct) < 5:
        return None
    step = int(np.gcd.reduce(np.diff(distinct)))
    return step * finest if step > 1 else None
