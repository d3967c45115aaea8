"""The criterion of the soak test for growing memory, on made-up and on measured series."""

from __future__ import annotations

import numpy as np
import pytest

from soak.load import growth, slope

SPREAD_MIB = 3.0
"""Scatter of the resident memory of measurements with edits (316 to 325 MiB)."""
PER_PART, PARTS = 50.0, 100


def parts(memory_mib: list[float] | np.ndarray, **counts: list[int]) -> list[dict[str, float]]:
    rows = [{"memory_mib": float(one), "descriptors": 9.0, "recordings": 43.0} for one in memory_mib]
    for name, values in counts.items():
        for row, value in zip(rows, values, strict=True):
            row[name] = float(value)
    return rows


def test_the_slope_of_a_line_and_its_standard_error() -> None:
    assert slope([5.0, 7.0, 9.0, 11.0]) == pytest.approx((2.0, 0.0), abs=1e-12)
    # Residuals of (0, 1, 0): -1/3, 2/3, -1/3, so s² = 2/3 with one degree of freedom, over Σx² = 2.
    assert slope([0.0, 1.0, 0.0]) == pytest.approx((0.0, np.sqrt(1.0 / 3.0)))


def test_measured_scatter_without_a_trend_passes() -> None:
    memory = [322.0, 319.0, 316.0, 323.0, 324.0, 317.0, 322.0, 317.0, 325.0, 321.0]
    assert growth(parts(memory), 500.0) == []


def test_scatter_rarely_fails_and_growth_of_4_kib_does() -> None:
    rng = np.random.default_rng(1)
    trials = 400
    noise = 320.0 + SPREAD_MIB * rng.standard_normal((trials, PARTS))
    found = [bool(growth(parts(row), PER_PART)) for row in noise]
    # The slope has a standard error of 0.6 KiB per item, of which the bound of 2 KiB is 3.3.
    assert sum(found) <= 4
    steady = 4.0 / 1024.0 * PER_PART * np.arange(PARTS)
    found = [bool(growth(parts(steady + row), PER_PART)) for row in noise]
    assert sum(found) >= trials - 4


def test_counts_may_not_grow_at_all() -> None:
    flat = [320.0] * PARTS
    assert growth(parts(flat, descriptors=[9] * 99 + [10]), PER_PART) == ["descriptors grow"]
    assert growth(parts(flat, recordings=[40] * 50 + [43] * 50), PER_PART) == []
