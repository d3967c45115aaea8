"""Intervals of means by resampling: the expanded percentile bootstrap.

Units (runs of other seeds, or draws) are resampled with replacement, and the interval of the mean is cut off at
percentiles of the resampled means. Plain percentiles are too narrow for few units: their variance is divided by n, not
n - 1, and their tails are normal, not Student's. So the percentiles are taken further out, at
Φ(-√(n/(n-1)) t(n-1)), by which the interval has the width of Student's where the units are normal (Hesterberg, "What
teachers should know about the bootstrap", The American Statistician 69, 2015, section 3.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parhelion.core.random import Stream

RESAMPLES = 9999
LEAST_UNITS = 3
"""Fewer units give no interval."""
METHOD = (
    f"expanded percentile bootstrap of the mean (Hesterberg 2015), {RESAMPLES} resamples, "
    "seeded by the study and the number's name"
)
_LARGEST_BLOCK = 4_000_000
"""Numbers that are resampled at a time."""


@dataclass(frozen=True)
class Interval:
    """Mean of some units, and the interval that it lies in."""

    mean: float
    low: float
    high: float
    units: int

    @property
    def half_width(self) -> float:
        """Half the width; infinite where there is no interval."""
        width = (self.high - self.low) / 2
        return width if np.isfinite(width) else np.inf


def interval_of_mean(values: Sequence[float], confidence: float, name: str, seed: int = 0) -> Interval:
    """The interval of the mean of independent units; low and high are NaN with fewer than three.

    `name` and `seed` choose the resamples, so that the same units have the same interval wherever it is computed.
    """
    units = np.asarray(values, np.float64)
    units = units[np.isfinite(units)]
    n = len(units)
    if n == 0:
        return Interval(np.nan, np.nan, np.nan, 0)
    mean = float(np.mean(units))
    if n < LEAST_UNITS:
        return Interval(mean, np.nan, np.nan, n)
    if np.all(units == units[0]):
        return Interval(mean, mean, mean, n)
    generator = Stream(seed, f"campaign/bootstrap/{name}").generator()
    means = np.empty(RESAMPLES)
    step = max(1, _LARGEST_BLOCK // n)
    for first in range(0, RESAMPLES, step):
        rows = generator.integers(0, n, (min(step, RESAMPLES - first), n))
        means[first : first + len(rows)] = units[rows].mean(axis=1)
    from scipy.special import ndtr, stdtrit

    quantile = stdtrit(n - 1, 0.5 + confidence / 2)
    tail = float(ndtr(-np.sqrt(n / (n - 1)) * quantile))
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return Interval(mean, float(low), float(high), n)
