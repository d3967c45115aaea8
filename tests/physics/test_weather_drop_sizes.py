"""Sizes of drops and flakes: published counts, closed forms, and integrals done another way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from parhelion.core.errors import ConfigError
from parhelion.weather.particles import (
    DROP_SIZES,
    drop_sizes,
    drops_in_beam,
    extinction_of,
)

NAMES = sorted(DROP_SIZES)
RAIN = ["marshall-palmer", "feingold-levin", "deirmendjian"]


@pytest.mark.parametrize(("rate", "drops"), [(5.0, 2364), (12.5, 2940), (25.0, 3456), (100.0, 4747)])
def test_marshall_palmer_counts(rate: float, drops: int) -> None:
    assert round(drop_sizes("marshall-palmer", rate).count()) == drops


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rate", [0.3, 5.0, 60.0])
def test_count_is_the_integral_of_the_density(name: str, rate: float) -> None:
    sizes = drop_sizes(name, rate)
    for above in (0.05, 0.4, 2.0):
        points = np.geomspace(above, sizes.largest_mm, 12)[1:-1]
        number, _ = integrate.quad(lambda d: float(sizes.density(d)), above, sizes.largest_mm, points=points, limit=400)
        assert sizes.count(above) == pytest.approx(number, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rate", [1e-6, 0.1, 5.0, 50.0])
def test_tail_table_can_be_interpolated(name: str, rate: float) -> None:
    sizes = drop_sizes(name, rate)
    diameter, above = sizes.tail_table
    assert diameter[0] == sizes.least_mm
    assert diameter[-1] == sizes.largest_mm
    assert np.all(np.diff(diameter) > 0)
    assert np.all(np.diff(above) <= 0)
    assert above[0] == sizes.count()
    assert above[-1] == 0.0
    between = 0.5 * (diameter[1:] + diameter[:-1])
    assert np.interp(between, diameter, above) == pytest.approx(
        sizes.number_above(between), rel=1e-4, abs=1e-7 * above[0]
    )


@pytest.mark.parametrize("name", NAMES)
def test_no_rate_no_drops(name: str) -> None:
    sizes = drop_sizes(name, 0.0)
    assert sizes.count() == 0.0
    assert np.all(sizes.density([0.05, 1.0, 5.0]) == 0.0)
    assert np.all(sizes.tail_table[1] == 0.0)
    assert extinction_of(sizes, lambda d: 2.0 + 0.0 * d) == 0.0


@pytest.mark.parametrize("name", RAIN)
@pytest.mark.parametrize("rate", [1.0, 5.0, 25.0])
def test_the_water_that_falls_is_the_rate(name: str, rate: float) -> None:
    """Rate = (pi / 6) x integral of D^3 v N dD, v = 3.78 D^0.67 m/s; Marshall and Palmer's fit is 6 to 16 % above."""
    sizes = drop_sizes(name, rate)
    diameter = np.linspace(0.05, 10.0, 20_001)
    flux = np.pi / 6 * diameter**3 * 3.78 * diameter**0.67 * sizes.density(diameter)
    fallen = integrate.simpson(flux, x=diameter) * 1e-6 * 3600.0
    low, high = {"marshall-palmer": (1.05, 1.20), "feingold-levin": (0.97, 1.02), "deirmendjian": (0.97, 1.01)}[name]
    assert low < fallen / rate < high


@pytest.mark.parametrize(("name", "speed"), [("gunn-marshall", 0.49), ("gunn-marshall-1958", 0.985)])
def test_how_fast_snow_falls(name: str, speed: float) -> None:
    """Rate over water content at 1 mm/h, from 6 N_0 / Lambda^4 in closed form."""
    sizes = drop_sizes(name, 1.0)
    diameter = np.linspace(0.05, 20.0, 40_001)
    water = integrate.simpson(np.pi / 6 * diameter**3 * sizes.density(diameter), x=diameter) * 1e-9
    assert 1e-3 / 3600.0 / water == pytest.approx(speed, rel=0.01)


def test_deirmendjian_is_rain_m_at_its_own_rate() -> None:
    sizes = drop_sizes("deirmendjian", 12.7189)
    radius = np.array([0.05, 0.2, 1.0])
    rain_m = 5.3333e5 * radius * np.exp(-8.9443 * np.sqrt(radius))  # per mm of radius
    assert sizes.density(2.0 * radius) == pytest.approx(rain_m / 2.0, rel=1e-4)
    assert sizes.spectrum is not None
    assert sizes.spectrum.tail(np.array(0.0)) == pytest.approx(1000.0, rel=1e-4)  # drops a m^3


def test_feingold_levin_median_and_spread() -> None:
    sizes = drop_sizes("feingold-levin", 10.0)
    median = 0.75 * 10.0**0.21
    whole = 172.0 * 10.0**0.22
    assert sizes.count(median) == pytest.approx(whole / 2, rel=1e-6)
    assert sizes.count(median * 1.43) == pytest.approx(whole * 0.158655, rel=1e-4)


def test_drops_in_a_beam() -> None:
    z = np.linspace(0.0, 100.0, 100_001)
    by_slices = integrate.simpson(np.pi * (0.005 + 0.0015 * z) ** 2, x=z)
    sizes = drop_sizes("marshall-palmer", 25.0)
    assert drops_in_beam(sizes, by_slices) == pytest.approx(8985, abs=1)


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf"), "25", None, True])
def test_bad_rates(rate: object) -> None:
    with pytest.raises(ConfigError, match="rate_mm_h: must be a finite number of 0 mm/h or more"):
        drop_sizes("marshall-palmer", rate)  # type: ignore[arg-type]


def test_unknown_name_is_reported_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'marshall-palmer'"):
        drop_sizes("marshal-palmer", 5.0)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(RAIN), st.floats(1e-12, 400.0), st.floats(1.01, 1.25))
def test_more_rain_more_drops_of_every_size_kept(name: str, rate: float, factor: float) -> None:
    less, more = drop_sizes(name, rate), drop_sizes(name, rate * factor)
    for sizes in (less, more):
        assert np.isfinite(sizes.count())
        assert 0.05 < sizes.largest_mm <= 10.0
    assert more.count() >= less.count()
    assert more.count(1.0) >= less.count(1.0)
