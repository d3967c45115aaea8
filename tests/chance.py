"""How sure statistical tests are: one chance for all of them, and the bounds that follow from a number of draws.

A comparison that holds for the true model may fail by bad luck with a chance of `LIKELY`. Its bound follows from that
and from how many independent draws it has; where draws hang together, the test says how many they are worth.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

LIKELY = 1e-4
"""Chance that a true model fails one comparison: with a hundred of them, one run in a hundred fails."""


def deviations(comparisons: int = 1) -> float:
    """How many standard deviations a normal number may be off, on either side: 3.9 for one, more for the worst of many.

    `comparisons` shares the chance out (Bonferroni), so that all of them together fail as rarely as one.
    """
    return float(stats.norm.isf(0.5 * LIKELY / comparisons))


def spread_bounds(draws: float) -> tuple[float, float]:
    """Between which factors the standard deviation of this many normal numbers lies about the true one (chi-square)."""
    low, high = stats.chi2.ppf([0.5 * LIKELY, 1.0 - 0.5 * LIKELY], draws)
    return float(np.sqrt(low / draws)), float(np.sqrt(high / draws))
