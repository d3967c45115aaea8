"""Snow against closed forms, and against what airports and radio engineers publish."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parhelion.core.errors import ConfigError
from parhelion.weather.media.snow import (
    AREA_RATIO,
    LIDAR_RATIO_SR,
    flake_backscatter,
    flake_cross_section,
    flake_diameter,
    snow_extinction,
)
from parhelion.weather.particles import drop_sizes

DB_PER_KM = np.log(10.0) / 1e4


@pytest.mark.parametrize("rate", [0.5, 1.0, 3.0])
def test_extinction_of_melted_flakes(rate: float) -> None:
    """(pi / 4) Q N_0 2 / Lambda^3 with Q = 2, to which the edge adds at most 2 %."""
    closed = np.pi / 4 * 2.0 * 7600.0 * rate**-0.87 * 2.0 / (2.55 * rate**-0.48) ** 3 * 1e-6
    found = snow_extinction(rate, drop_sizes="gunn-marshall", diameter="melted")
    assert 1.0 < found / closed < 1.02


@pytest.mark.parametrize("rate", [1.0, 2.5])
def test_extinction_of_whole_flakes(rate: float) -> None:
    """D_flake^2 = D^3 / 0.17 makes it 0.6 (pi / 4) Q N_0 6 / (0.17 Lambda^4); the densest, smallest add below 2 %."""
    slope = (np.pi * 3800.0 * 3600e-6 / rate) ** 0.25
    closed = AREA_RATIO * np.pi / 4 * 2.0 * 3800.0 * 6.0 / 0.17 / slope**4 * 1e-6
    assert snow_extinction(rate) == pytest.approx(closed, rel=0.02)


@pytest.mark.parametrize("rate", [0.1, 1.0, 5.0])
def test_water_that_falls_is_the_rate_and_more_snow_has_more_flakes(rate: float) -> None:
    """(pi / 6) x integral of D^3 v N dD with v = 1 m/s, within what the cut at 20 mm and 0.05 mm takes."""
    sizes = drop_sizes("constant-intercept", rate)
    carried = np.pi / 6.0 * sizes.integrate(lambda d: d**3) * 1.0 * 3600.0 * 1e-6
    assert carried == pytest.approx(rate, rel=2e-3)
    assert drop_sizes("constant-intercept", 2.0 * rate).count() > sizes.count()
    for above in (0.5, 1.0, 2.0):
        assert drop_sizes("constant-intercept", 2.0 * rate).count(above) > sizes.count(above)


@pytest.mark.parametrize("rate", [1.5, 2.5, 5.0])
def test_melted_lies_between_wet_and_dry_snow_of_itu(rate: float) -> None:
    """ITU-R P.1814: (1.023e-4 nm + 3.79) S^0.72 and (5.42e-5 nm + 5.50) S^1.38 dB/km."""
    wet = (1.023e-4 * 905 + 3.7855466) * rate**0.72 * DB_PER_KM
    dry = (5.42e-5 * 905 + 5.4958776) * rate**1.38 * DB_PER_KM
    assert wet < snow_extinction(rate, drop_sizes="gunn-marshall", diameter="melted") < dry


@pytest.mark.parametrize(("rate", "visibility_m"), [(1.0, 1000.0), (2.5, 400.0)])
def test_whole_flakes_against_airport_visibility(rate: float, visibility_m: float) -> None:
    """Edges of light and heavy snow, as optical range; Rasmussen et al. (1999) find a factor of 3 between storms."""
    assert np.log(20.0) / snow_extinction(rate) == pytest.approx(visibility_m, rel=0.05)


def test_density_of_flakes() -> None:
    melted = np.array([0.05, 0.5, 1.0, 3.0])
    flake = flake_diameter(melted)
    density = (melted / flake) ** 3
    assert density == pytest.approx(np.minimum(0.17 / flake, 0.917), rel=1e-9)
    assert np.all(flake > melted)
    assert flake_diameter(1.0) == pytest.approx(2.425, abs=0.001)


def test_backscatter_is_the_cross_section_over_the_lidar_ratio_of_ice() -> None:
    """Twice the shadow of 60 % of the disc, and a little for the edge; 20 to 30 sr are measured in snow and cirrus."""
    melted = np.array([0.5, 1.0, 3.0])
    shadow = 0.6 * np.pi / 4 * (flake_diameter(melted) * 1e-3) ** 2
    assert np.all((flake_cross_section(melted) > 2.0 * shadow) & (flake_cross_section(melted) < 2.06 * shadow))
    assert flake_backscatter(melted) == pytest.approx(flake_cross_section(melted) / LIDAR_RATIO_SR)
    assert 20.0 <= LIDAR_RATIO_SR <= 30.0
    assert flake_backscatter(0.0) == 0.0


def test_extinction_is_the_sum_of_cross_sections() -> None:
    sizes = drop_sizes("constant-intercept", 2.0)
    assert snow_extinction(2.0) == pytest.approx(sizes.integrate(flake_cross_section), rel=1e-9)


def test_flakes_outshine_drops() -> None:
    from parhelion.weather.media.rain import drop_backscatter

    assert flake_backscatter(1.0) > 5.0 * drop_backscatter(1.0)


@pytest.mark.parametrize("diameter", ["melted", "flake"])
def test_no_snow_is_exactly_clear(diameter: str) -> None:
    assert snow_extinction(0.0, diameter=diameter) == 0.0


@settings(max_examples=40, deadline=None)
@given(st.floats(0.01, 45.0), st.floats(1.01, 2.0), st.sampled_from(["melted", "flake"]))
def test_more_snow_takes_more(rate: float, factor: float, diameter: str) -> None:
    assert snow_extinction(rate * factor, diameter=diameter) > snow_extinction(rate, diameter=diameter) > 0.0


def test_either_kind_of_array() -> None:
    from parhelion.rays.device import engine

    melted = np.array([0.05, 0.5, 3.0])
    kernel = flake_diameter(engine().mi.Float(melted)).numpy()
    assert kernel == pytest.approx(flake_diameter(melted), rel=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: snow_extinction(float("nan")), "rate_mm_h: .* got nan"),
        (lambda: snow_extinction(1.0, diameter="melt"), "unknown diameter of a flake 'melt': did you mean 'melted'"),
        (lambda: snow_extinction(0.0, wavelength_nm=0.0), "wavelength_nm: must be from 350 to 2500 nm, got 0.0"),
        (lambda: flake_backscatter([1.0, np.nan]), "melted_mm: must be 0 mm or more, got nan"),
    ],
)
def test_bad_input(call: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()  # type: ignore[operator]
