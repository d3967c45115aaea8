"""Strengths of rows, from bins of range that several rows share.

What a row measures in a bin is the bin's level times the row's strength. Bins are free. Strengths scatter about the
usual one by a variance that the data tell, and rows beside each other may be alike: a row that shares no bin with
others takes as much of its neighbours' strength as that, and may be off by the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.turns import Floats

DEVIATIONS = (1e-3, 2e-3, 4e-3, 8e-3, 0.015, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3, 0.45, 0.7)
"""Relative deviations of strengths that are tried."""
LIKENESSES = (0.0, 0.3, 0.6, 0.8, 0.9, 0.96)
"""Correlations of neighbouring rows that are tried."""


@dataclass(frozen=True, eq=False)
class Strengths:
    """Strengths of rows in logarithms, about their mean."""

    factor: Floats
    """Shape (rows,)."""
    covariance: Floats
    """Shape (rows, rows)."""
    deviation: float
    """By which rows scatter."""
    likeness: float
    """Correlation of neighbouring rows."""


def strengths(
    value: Floats,
    variance: Floats,
    bins: NDArray[np.int64],
    rows: NDArray[np.int64],
    bin_count: int,
    row_count: int,
    law: tuple[float, float] | None = None,
) -> Strengths:
    """Strengths of rows from cells: the logarithm of what a row measures in a bin, and its variance.

    Least squares with free bins and, for the strengths, the covariance s^2 c^|i - j|; s and c are those that make the
    cells likeliest (restricted maximum likelihood, on a grid). Where cells scatter by more than their variances say,
    all variances grow by it (Birge's ratio). `law` is s and c where they are known already.
    """
    apart = np.abs(np.subtract.outer(np.arange(row_count), np.arange(row_count)))
    ratio = 1.0
    for _ in range(2):
        matrix, right = _normal(value, ratio * np.maximum(variance, 1e-8), bins, bin_count + rows, bin_count, row_count)
        deviation, likeness = law or _likeliest(matrix, right, apart, bin_count)
        prior = np.linalg.inv(_correlation(likeness, apart)) / deviation**2
        whole = matrix.copy()
        whole[bin_count:, bin_count:] += prior
        covariance = np.linalg.inv(whole)
        found = covariance @ right
        off = value - found[bins] - found[bin_count + rows]
        # Numbers that the cells decide, not the prior.
        used = bin_count + row_count - float(np.trace(covariance[bin_count:, bin_count:] @ prior))
        ratio *= max(1.0, float(np.sum(off**2 / (ratio * np.maximum(variance, 1e-8)))) / max(len(value) - used, 1.0))
    # What all rows have in common is the bins' level.
    centre = np.eye(row_count) - 1.0 / row_count
    of_rows = centre @ covariance[bin_count:, bin_count:] @ centre
    return Strengths(centre @ found[bin_count:], of_rows, deviation, likeness)


def _normal(
    value: Floats, variance: Floats, bins: NDArray[np.int64], rows: NDArray[np.int64], bin_count: int, row_count: int
) -> tuple[Floats, Floats]:
    """Matrix and right-hand side of the least squares, bins first."""
    size, weight = bin_count + row_count, 1.0 / variance
    matrix = np.zeros((size, size))
    for one in (bins, rows):
        for other in (bins, rows):
            matrix += np.bincount(one * size + other, weight, size * size).reshape(size, size)
    right = np.bincount(bins, weight * value, size) + np.bincount(rows, weight * value, size)
    # Bins without a cell are left where they are.
    empty = np.flatnonzero(np.diag(matrix)[:bin_count] == 0.0)
    matrix[empty, empty] = 1.0
    return matrix, np.asarray(right, np.float64)


def _correlation(likeness: float, apart: NDArray[np.int64]) -> Floats:
    return np.asarray(likeness**apart if likeness else np.eye(len(apart)), np.float64)


def _likeliest(matrix: Floats, right: Floats, apart: NDArray[np.int64], bin_count: int) -> tuple[float, float]:
    """Deviation of rows and correlation of neighbours, of those that are tried."""
    best: tuple[float, float, float] = (-np.inf, DEVIATIONS[0], 0.0)
    for likeness in LIKENESSES:
        inverse = np.linalg.inv(_correlation(likeness, apart))
        log_size = float(np.linalg.slogdet(inverse)[1])
        for deviation in DEVIATIONS:
            whole = matrix.copy()
            whole[bin_count:, bin_count:] += inverse / deviation**2
            factor = np.linalg.cholesky(whole)
            found = np.linalg.solve(factor, right)
            log_prior = log_size - 2.0 * len(apart) * np.log(deviation)
            level = 0.5 * float(found @ found) + 0.5 * log_prior - float(np.sum(np.log(np.diag(factor))))
            best = max(best, (level, deviation, likeness))
    return best[1], best[2]
