"""Intervals of means: values in simple cases, and their coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from parhelion.campaign import summary
from parhelion.campaign.summary import Interval, interval_of_mean
from parhelion.core.random import Stream


def test_fewer_than_three_units_have_no_interval() -> None:
    found = interval_of_mean([1.0, 2.0], 0.95, "x")
    assert found.mean == 1.5
    assert np.isnan([found.low, found.high]).all()
    assert found.half_width == np.inf
    assert interval_of_mean([], 0.95, "x").units == 0
    assert interval_of_mean([np.nan, 3.0, 3.0, 3.0], 0.95, "x").half_width == 0


def test_the_same_units_have_the_same_interval() -> None:
    values = list(range(20))
    assert interval_of_mean(values, 0.95, "x") == interval_of_mean(values, 0.95, "x")
    assert interval_of_mean(values, 0.95, "x") != interval_of_mean(values, 0.95, "y")
    assert interval_of_mean(values, 0.5, "x").half_width < interval_of_mean(values, 0.95, "x").half_width


def test_many_normal_units_have_students_interval() -> None:
    values = np.random.default_rng(1).normal(10, 2, 400)
    found = interval_of_mean(values.tolist(), 0.95, "x")
    half = 1.966 * values.std(ddof=1) / 20
    # The end of a percentile of 9999 resamples has a spread of about 2.7 % of the standard error.
    assert found.low == pytest.approx(values.mean() - half, abs=0.12 * half)
    assert found.high == pytest.approx(values.mean() + half, abs=0.12 * half)


@pytest.mark.slow
@pytest.mark.parametrize(("units", "least"), [(5, 0.88), (10, 0.92), (30, 0.93)])
def test_intervals_have_about_their_stated_coverage(units: int, least: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """95 ± 3 % of 600 intervals of 95 % should contain the mean; the bootstrap is slightly narrow for few units.

    With 5 units the interval cannot exceed the range of the units, which contains the mean in 1 - 2 / 2⁵ = 94 % of
    cases.
    """
    monkeypatch.setattr(summary, "RESAMPLES", 1999)
    draws = np.random.default_rng(units).normal(0, 1, (600, units))
    found = [interval_of_mean(row.tolist(), 0.95, str(k)) for k, row in enumerate(draws)]
    share = np.mean([one.low <= 0 <= one.high for one in found])
    assert least <= share <= 0.98


def test_an_interval_is_made_of_all_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Same resamples, drawn at once instead of in blocks of seven; percentiles by Hesterberg's formula."""
    units = np.random.default_rng(2).normal(4.0, 2.0, 6).tolist()  # no two resamples have the same mean
    monkeypatch.setattr(summary, "RESAMPLES", 100)
    monkeypatch.setattr(summary, "_LARGEST_BLOCK", 42)
    rows = Stream(3, "campaign/bootstrap/x").generator().integers(0, 6, (100, 6))
    tail = stats.norm.cdf(-np.sqrt(6 / 5) * stats.t.ppf(0.95, 5))
    low, high = np.quantile(np.array(units)[rows].mean(axis=1), [tail, 1 - tail])
    found = interval_of_mean(units, 0.9, "x", seed=3)
    assert found == Interval(np.mean(units), pytest.approx(low, rel=1e-12), pytest.approx(high, rel=1e-12), 6)
    assert found.half_width == pytest.approx((high - low) / 2)
