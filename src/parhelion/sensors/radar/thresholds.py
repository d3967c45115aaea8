"""Thresholds for a constant rate of false alarms, in noise that windows tie together."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from parhelion.core.random import Stream
from parhelion.sensors.radar.axes import noise_correlation

_DRAWN = 3_200_000
"""Random numbers for an ordered statistic of tied cells: they settle a chance of 1e-5 to 3 %, once, in 0.4 s."""


@lru_cache(maxsize=64)
def threshold_multiple(
    method: str, false_alarm: float, training: int, rank: int, looks: int = 1, window: str = "none", guard: int = 2
) -> float:
    """Multiple of the training cells' mean (ca) or of their `rank`-th smallest (os) for a chance of false alarm.

    `looks` are the powers that a cell averages; `window` is that of the axis along which the `training` cells lie, on
    both sides beyond `guard` cells. ca is exact. os is, without a window, the integral of Rohling 1983 (IEEE Trans. AES
    19, 608); with one, the mean over drawn training cells, for guard cells that reach as far as the window ties.
    """
    from scipy import optimize

    correlation = training_correlation(training, guard, window)

    def chance(multiple: float) -> float:
        if method == "ca":
            return mean_chance(multiple, correlation, looks)
        return rank_chance(multiple, training, rank, looks) if levels is None else levels.chance(multiple)

    levels = None if method == "ca" or window == "none" else _Levels(correlation[1:, 1:], rank, looks)
    high = 2.0
    while chance(high) > false_alarm:
        high *= 2.0
    return float(optimize.brentq(lambda m: np.log(chance(m) / false_alarm), 1e-3, high, xtol=1e-9))


def rank_chance(multiple: float, training: int, rank: int, looks: int) -> float:
    """Chance that a cell of noise exceeds a multiple of the `rank`-th smallest of independent training cells."""
    from scipy import integrate, special, stats

    def passed(share: float) -> float:
        # `share` is the chance that one training cell lies below: the rank's is Beta's.
        level = special.gammaincinv(looks, share)
        return float(special.gammaincc(looks, multiple * level) * stats.beta.pdf(share, rank, training - rank + 1))

    return float(integrate.quad(passed, 0.0, 1.0, limit=400, epsabs=0.0, epsrel=1e-8, points=(0.01, 0.5, 0.99))[0])


class _Levels:
    """Drawn values of the `rank`-th smallest of tied training cells.

    Small values decide, so cells are drawn weaker by a factor s and weighed by s^n exp((1 - s) G), G being the sum of
    the n powers that went into a draw.
    """

    def __init__(self, correlation: NDArray[np.float64], rank: int, looks: int) -> None:
        training, self._looks = len(correlation), looks
        count, size = max(500, _DRAWN // (training * looks)), training * looks
        generator = Stream(0, "radar/threshold").generator()
        values, vectors = np.linalg.eigh(correlation)
        mix = vectors * np.sqrt(np.maximum(values, 0.0))
        drawn, total = np.zeros((count, training)), np.zeros(count)
        for _ in range(looks):
            white = generator.normal(scale=np.sqrt(0.5), size=(2, count, training))
            drawn += (white[0] @ mix.T) ** 2 + (white[1] @ mix.T) ** 2
            total += np.sum(white**2, axis=(0, 2))
        weaker = 1.0 - 0.35 * np.sqrt(16.0 / size) if size >= 16 else 0.65
        self._level = weaker * np.partition(drawn, rank - 1, axis=1)[:, rank - 1]
        self._weight = size * np.log(weaker) + (1.0 - weaker) * total

    def chance(self, multiple: float) -> float:
        """Chance that a cell of noise exceeds a multiple of it."""
        from scipy import special

        if self._looks == 1:
            return float(np.mean(np.exp(self._weight - multiple * self._level)))
        return float(np.mean(special.gammaincc(self._looks, multiple * self._level) * np.exp(self._weight)))


def training_correlation(training: int, guard: int, window: str) -> NDArray[np.float64]:
    """Correlation of the complex noise of a cell and of its training cells, shape (training + 1, training + 1)."""
    steps = np.arange(guard + 1, guard + training // 2 + 1)
    place = np.concatenate([[0], -steps[::-1], steps])
    return noise_correlation(window, place[:, None] - place)


def mean_chance(multiple: float, correlation: NDArray[np.float64], looks: int) -> float:
    """Chance that a cell of noise exceeds a multiple of the mean of its training cells, exactly.

    Cell minus multiple times mean is a quadratic form of complex normal numbers: a positive eigenvalue u against the
    others, -m_j, each with a power of gamma's distribution of N looks. With s = 1/u, the chance is the sum over k < N
    of (-s)^k L^(k)(s) / k!, where L(s) is the product of (1 + s m_j)^-N. Without correlation that is Fisher's
    distribution of 2 N and 2 N M degrees of freedom.
    """
    training = len(correlation) - 1
    weight = np.full(training + 1, -multiple / training)
    weight[0] = 1.0
    values = np.sort(np.linalg.eigvals(weight[:, None] * correlation).real)
    if values[-1] <= 0.0:
        return 0.0
    part = np.maximum(-values[:-1], 0.0) / values[-1]
    ratio = part / (1.0 + part)
    sums = [looks * float(np.sum(ratio**k)) for k in range(1, looks)]
    terms = [1.0]
    for k in range(1, looks):
        terms.append(sum(sums[k - 1 - i] * terms[i] for i in range(k)) / k)
    return float(np.exp(-looks * np.sum(np.log1p(part))) * sum(terms))
