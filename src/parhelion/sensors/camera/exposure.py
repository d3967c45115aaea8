"""How long and with which gain a picture is taken: as told, or chosen for this one frame.

The choice is exact for the frame and remembers nothing, so that a frame is the same alone and in a sequence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import is_drjit, namespace
from parhelion.core.errors import ConfigError
from parhelion.sensors.camera.planes import Array

_LEAST_LOG2 = -8.0
_OCTAVES = 40
_PER_OCTAVE = 128
BINS = _OCTAVES * _PER_OCTAVE
"""Bins of the light meter: 128 an octave, from 2^-8 to 2^32 electrons a second. A bin is 0.54 % wide."""


@dataclass(frozen=True)
class Exposure:
    """How one picture is taken."""

    time_s: float
    gain_db: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.time_s) and self.time_s > 0.0 and math.isfinite(self.gain_db)):
            raise ConfigError(f"exposure: time_s must be above 0, got {self.time_s!r} s and {self.gain_db!r} dB")

    @property
    def gain(self) -> float:
        """Factor on the signal: 20 dB are 10."""
        return float(10.0 ** (self.gain_db / 20.0))


@dataclass(frozen=True)
class AutoExposure:
    """Limits and aim of a choice."""

    min_time_s: float = 20e-6
    max_time_s: float = 0.02
    gain_db: float = 0.0
    """Least gain, kept until the time has reached its limit."""
    max_gain_db: float = 24.0
    target: float = 0.18
    """Wanted level of the linear raw signal, 0 black and 1 full."""
    meter: Literal["mean", "percentile"] = "mean"
    """What shall have that level: the mean of what the converter will read, or a percentile."""
    percentile: float = 99.0

    def __post_init__(self) -> None:
        if not 0.0 < self.min_time_s <= self.max_time_s < math.inf:
            raise ConfigError("exposure: must have 0 < min_time_s <= max_time_s")
        if not self.gain_db <= self.max_gain_db:
            raise ConfigError("exposure: gain_db must not be above max_gain_db")
        if not 0.0 < self.target < 1.0 or not 0.0 < self.percentile <= 100.0:
            raise ConfigError("exposure: target must lie between 0 and 1, percentile between 0 and 100")


def meter_bin(rate: Array) -> Array:
    """Number of the bin, as a float, that light of so many electrons a second falls into."""
    xp = namespace(rate)
    level = (xp.log(xp.maximum(rate, 1e-30)) * (1.0 / math.log(2.0)) - _LEAST_LOG2) * _PER_OCTAVE
    return xp.clip(xp.floor(level), 0.0, BINS - 1.0)


def meter(rate: Array) -> Any:
    """How many pixels each bin holds: whole numbers, so that the sum does not depend on its order."""
    if not is_drjit(rate):
        return np.bincount(meter_bin(rate).astype(np.int64), minlength=BINS)
    import drjit as dr

    kind = dr.uint32_array_t(type(rate))
    counts = dr.zeros(kind, BINS)
    dr.scatter_reduce(dr.ReduceOp.Add, counts, kind(1), kind(meter_bin(rate)))
    return counts


def bin_rates() -> NDArray[np.float64]:
    """Electrons a second in the middle of each bin; the lowest also holds darkness and counts as 0."""
    rates = np.exp2(_LEAST_LOG2 + (np.arange(BINS) + 0.5) / _PER_OCTAVE)
    rates[0] = 0.0
    return rates


def auto_exposure(counts: NDArray[Any], full_well_e: float, settings: AutoExposure) -> Exposure:
    """Time and gain for the light that `meter` found.

    The factor k on light is the one with mean(min(k e, 1)) = target, or k e_percentile = target, where e is light as
    full wells a second. The time makes it, within its limits, and gain the rest. Bins leave an error of at most
    0.27 %, beside that of noise and black level. A picture in the dark gets the longest time and the largest gain.
    """
    counts = np.asarray(counts, dtype=np.float64)
    level = bin_rates() / full_well_e
    if settings.meter == "percentile":
        reached = np.searchsorted(np.cumsum(counts), settings.percentile / 100.0 * counts.sum())
        found = float(level[min(int(reached), BINS - 1)])
        factor = settings.target / found if found > 0.0 else math.inf
    else:
        factor = _factor_for_mean(counts, level, settings.target)
    least_gain = 10.0 ** (settings.gain_db / 20.0)
    time = min(max(factor / least_gain, settings.min_time_s), settings.max_time_s)
    gain_db = settings.max_gain_db if math.isinf(factor) else 20.0 * math.log10(factor / time)
    return Exposure(time, min(max(gain_db, settings.gain_db), settings.max_gain_db))


def _factor_for_mean(counts: NDArray[np.float64], level: NDArray[np.float64], target: float) -> float:
    """The k with mean(min(k level, 1)) = target; infinite where too few pixels see any light."""
    total = counts.sum()
    lit = np.flatnonzero((counts > 0.0) & (level > 0.0))
    if len(lit) == 0 or counts[lit].sum() <= target * total:
        return math.inf
    light = np.cumsum(counts[lit] * level[lit])
    brighter = counts[lit].sum() - np.cumsum(counts[lit])
    # With k = 1 / level of a bin, that bin is just full: the mean falls from bin to bin as k does.
    mean = (light / level[lit] + brighter) / total
    # The last bin that is just full, or fuller, at the wanted mean or above it: those above it are full, too.
    last = int(np.flatnonzero(mean >= target)[-1])
    return float((target * total - brighter[last]) / light[last])
