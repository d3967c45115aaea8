"""Sample errors of stream sensors: bias, noise, saturation and rounding.

Sample k is taken at world time k / rate, whatever the start of the run. Every random number is a function of the seed,
the sensor's name and k, so a run that is split in two gives the same bits as the whole run. All stream sensors use
these functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.core.random import Stream, to_normal, words

MOST_SAMPLES = 100_000_000
GAUSS_MARKOV_PEAK = 0.6173643
"""Highest Allan deviation of a Gauss-Markov process of standard deviation 1, at 1.892618 correlation times."""
_MASK = np.int64(0xFFFFFFFF)
_BLOCK = 512
# Beyond this many correlation times, the correlation is below the rounding error of float64 (e^-37 = 2^-53).
_UNRELATED_TIMES = 37.0


def sample_number(time: float, rate_hz: float) -> int:
    """Number of the first sample at or after `time` [s]."""
    if not math.isfinite(time):
        raise ConfigError(f"time: must be finite, got {time!r}")
    exact = time * rate_hz
    if abs(exact) >= 2.0**52:
        raise ConfigError(f"time: {time:g} s is too far from 0 to distinguish samples at {rate_hz:g} Hz")
    # A time that is meant to be k / rate may lie a rounding step above it.
    return math.ceil(exact - max(1e-6, 4.0 * math.ulp(exact)))


def sample_span(start: float, duration: float, rate_hz: float) -> tuple[int, int]:
    """Number of the first sample at or after `start` [s], and the count of samples before `start + duration` [s]."""
    if not (math.isfinite(duration) and duration > 0):
        raise ConfigError(f"duration: must be finite and above 0 s, got {duration!r}")
    if duration * rate_hz > MOST_SAMPLES:
        raise ConfigError(f"duration: {duration:g} s at {rate_hz:g} Hz is more than {MOST_SAMPLES} samples; split it")
    first = sample_number(start, rate_hz)
    return first, sample_number(start + duration, rate_hz) - first


def chosen_rate(rate_hz: float | None, default_hz: float, max_rate_hz: float) -> float:
    """Sample rate [Hz]: the user's `rate_hz` if given, otherwise the default of the data sheet."""
    if rate_hz is None:
        return default_hz
    if not (math.isfinite(rate_hz) and 0 < rate_hz <= max_rate_hz):
        raise ConfigError(f"rate_hz: must be above 0 and at most {max_rate_hz:g} Hz, got {rate_hz!r}")
    return float(rate_hz)


def normals(stream: Stream, numbers: NDArray[np.int64]) -> Floats:
    """Four independent standard normal numbers per signed 64-bit integer, shape (n, 4)."""
    low, high = ((numbers >> shift & _MASK).astype(np.uint32) for shift in (np.int64(0), np.int64(32)))
    a, b, c, d = words(stream.key, low, high)
    return np.stack([*to_normal(a, b), *to_normal(c, d)], axis=1)


def gauss_markov(seed: int, name: str, first: int, count: int, correlation_samples: float) -> Floats:
    """Four independent first-order Gauss-Markov processes of variance 1 at `count` samples from `first`: (count, 4).

    The process is exact at the samples: stationary, with correlation exp(-|i - j| / correlation_samples). A recursion
    from sample to sample would need a first sample. Instead, samples far enough apart to be independent are drawn
    first. Then the midpoint of each pair of neighbours is drawn from its distribution conditional on both,

        E = (left + right) / (2 cosh x),  variance = tanh x,  x = half the distance / correlation_samples,

    and so on down to single samples. Any sample at any time takes a few dozen draws, and its bits do not depend on
    the other samples requested.
    """
    return _in_blocks(_bisected, (seed, name, correlation_samples), first, count)


def _bisected(seed: int, name: str, correlation_samples: float, first: int, count: int) -> Floats:
    levels = max(0, math.ceil(math.log2(_UNRELATED_TIMES * correlation_samples)))
    last = first + count - 1

    def needed(level: int) -> NDArray[np.int64]:
        return np.arange(first >> level, (last >> level) + 2, dtype=np.int64)

    numbers = needed(levels)
    values = normals(Stream(seed, f"{name}/{levels}"), numbers)
    for level in range(levels - 1, -1, -1):
        parents, numbers = numbers, needed(level)
        left = (numbers >> 1) - parents[0]
        finer = values[left]
        middle = np.flatnonzero(numbers & 1)
        x = 2.0**level / correlation_samples
        mean = (values[left[middle]] + values[left[middle] + 1]) * (0.5 / math.cosh(x))
        fresh = normals(Stream(seed, f"{name}/{level}"), numbers[middle])
        finer[middle] = mean + fresh * math.sqrt(math.tanh(x))
        values = finer
    return values[:count]


def white(seed: int, name: str, first: int, count: int) -> Floats:
    """Four independent standard normal numbers per sample, for `count` samples from `first`: (count, 4)."""
    return _in_blocks(_drawn, (seed, name), first, count)


def _drawn(seed: int, name: str, first: int, count: int) -> Floats:
    return normals(Stream(seed, name), np.arange(first, first + count, dtype=np.int64))


def _in_blocks(make: Callable[..., Floats], what: tuple[Any, ...], first: int, count: int) -> Floats:
    """Rows of random numbers that do not depend on how many are requested per call.

    Short requests are served from cached blocks. A sensor that runs step by step requests one or two samples at a time,
    and a block takes hardly longer than one sample.
    """
    if count >= _BLOCK or count <= 0:
        return make(*what, first, count)
    numbers = range(first // _BLOCK, (first + count - 1) // _BLOCK + 1)
    blocks = [_block(make, what, number) for number in numbers]
    start = first - numbers[0] * _BLOCK
    return np.concatenate(blocks)[start : start + count]


@lru_cache(maxsize=128)
def _block(make: Callable[..., Floats], what: tuple[Any, ...], number: int) -> Floats:
    return make(*what, number * _BLOCK, _BLOCK)


def transformed(matrix: Floats, vectors: Floats) -> Floats:
    """`matrix @ v` for each row v of `vectors` (n, 3).

    Written out by component: the rounding of a matrix product may depend on the number of rows, so split runs would
    differ.
    """
    return vectors[:, 0:1] * matrix[:, 0] + vectors[:, 1:2] * matrix[:, 1] + vectors[:, 2:3] * matrix[:, 2]


def digitised(values: Floats, limit: float, step: float) -> Floats:
    """Clip values to ±`limit` and round them to multiples of `step` (0: no rounding), never beyond the limit."""
    cut = np.clip(values, -limit, limit)
    if step <= 0:
        return cut
    most = math.floor(limit / step * (1.0 + 1e-12))
    return np.asarray(np.clip(np.rint(cut / step), -most, most) * step)


@dataclass(frozen=True, eq=False)
class AxesErrors:
    """Errors of three axes that are constant while a unit is switched on: measured = matrix @ true + bias."""

    matrix: Floats
    """Scale factors on the diagonal, misalignments [rad] off it, shape (3, 3)."""
    bias: Floats
    """Constant bias in the unit of the measurement, shape (3,)."""

    def __post_init__(self) -> None:
        freeze_arrays(self, "unit errors", matrix=(3, 3), bias=(3,))


def freeze_arrays(record: object, what: str, **shapes: tuple[int, ...]) -> None:
    """Convert fields of a frozen dataclass to read-only float64 arrays; they must be finite and have these shapes."""
    for name, shape in shapes.items():
        array = np.array(getattr(record, name), dtype=np.float64)
        if array.shape != shape or not np.all(np.isfinite(array)):
            raise ConfigError(f"{what}: {name} must be {shape} finite numbers, got {array.tolist()}")
        array.setflags(write=False)
        object.__setattr__(record, name, array)


@lru_cache(maxsize=256)
def drawn_axes(seed: int, name: str, *, scale: float, misalignment_rad: float, bias: float) -> AxesErrors:
    """Draw the errors of one unit from the standard deviations of its model (scale as a fraction)."""
    draws = normals(Stream(seed, name), np.arange(3, dtype=np.int64))
    spread = np.where(np.eye(3, dtype=bool), scale, misalignment_rad)
    return AxesErrors(np.eye(3) + spread * draws[:, :3], bias * draws[:, 3])


def rounding_variance(step: float) -> float:
    """Variance of the quantisation error for noise wider than a step: step² / 12."""
    return step * step / 12.0
