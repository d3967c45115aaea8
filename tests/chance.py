"""Significance of statistical tests: one failure probability for all comparisons, and the bounds that follow from it.

A comparison that holds for the true model may fail by chance with probability `LIKELY`. Its bound follows from this
probability and from the number of independent draws. For correlated draws, the test states the effective number.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from scipy import stats

from parhelion.core.random import Stream

_PLAIN_KEY = Stream.__dict__["key"]

LIKELY = 1e-4
"""Probability that the true model fails one comparison: with a hundred comparisons, one run in a hundred fails."""


def deviations(comparisons: int = 1) -> float:
    """Bound on a standard normal deviate, two-sided: 3.9 for one comparison, more for the largest of many.

    `comparisons` divides the probability (Bonferroni), so that all of them together fail as rarely as one.
    """
    return float(stats.norm.isf(0.5 * LIKELY / comparisons))


def spread_bounds(draws: float) -> tuple[float, float]:
    """Bounds on the ratio of the sample standard deviation of this many normal numbers to the true one (chi-square)."""
    low, high = stats.chi2.ppf([0.5 * LIKELY, 1.0 - 0.5 * LIKELY], draws)
    return float(np.sqrt(low / draws)), float(np.sqrt(high / draws))


def salt_streams(salt: str) -> None:
    """Change the keys of all random streams, because statistical tests must hold for any of them."""
    Stream.key = property(lambda stream: _PLAIN_KEY.fget(replace(stream, name=f"{stream.name}#{salt}")))  # type: ignore[method-assign,assignment]


@contextmanager
def unsalted() -> Iterator[None]:
    """Use the keys of a run without a salt: for worlds that a test names, which a salt would draw differently."""
    salted, Stream.key = Stream.__dict__["key"], _PLAIN_KEY  # type: ignore[method-assign]
    try:
        yield
    finally:
        Stream.key = salted  # type: ignore[method-assign]
