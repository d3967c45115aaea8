"""Snow against closed forms, and against what airports and radio engineers publish."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parhelion.core.errors import ConfigError
from parhelion.weather.snow import flake_backscatter, flake_diameter, scattering_diameter, snow_extinction

DB_PER_KM = np.log(10.0) / 1e4


@pytest.mark.parametrize("rate", [0.5, 1.0, 3.0])
def test_extinction_of_melted_flakes(rate: float) -> None:
    """(pi / 4) Q N_0 2 / Lambda^3 with Q = 2, to which the edge adds at most 2 %."""
    closed = np.pi / 4 * 2.0 * 7600.0 * rate**-0.87 * 2.0 / (2.55 * rate**-0.48) ** 3 * 1e-6
    assert 1.0 < snow_extinction(rate) / closed < 1.02


@pytest.mark.parametrize("rate", [1.0, 2.5])
def test_extinction_of_whole_flakes(rate: float) -> None:
    """D_flake^2 = D^3 / 0.17 makes it (pi / 4) Q N_0 6 / (0.17 Lambda^4); the densest, smallest add below 2 %."""
    closed = np.pi / 4 * 2.0 * 3800.0 * rate**-0.87 * 6.0 / 0.17 / (2.55 * rate**-0.48) ** 4 * 1e-6
    assert snow_extinction(rate, drop_sizes="gunn-marshall-1958", diameter="flake") == pytest.approx(closed, rel=0.02)


@pytest.mark.parametrize("rate", [1.5, 2.5, 5.0])
def test_melted_lies_between_wet_and_dry_snow_of_itu(rate: float) -> None:
    """ITU-R P.1814: (1.023e-4 nm + 3.79) S^0.72 and (5.42e-5 nm + 5.50) S^1.38 dB/km."""
    wet = (1.023e-4 * 905 + 3.7855466) * rate**0.72 * DB_PER_KM
    dry = (5.42e-5 * 905 + 5.4958776) * rate**1.38 * DB_PER_KM
    assert wet < snow_extinction(rate) < dry


@pytest.mark.parametrize(("rate", "visibility_m"), [(1.0, 1000.0), (2.5, 400.0)])
def test_whole_flakes_against_airport_visibility(rate: float, visibility_m: float) -> None:
    """Edges of light and heavy snow; Rasmussen et al. (1999) find at least a factor of 3 between storms."""
    alpha = snow_extinction(rate, drop_sizes="gunn-marshall-1958", diameter="flake")
    assert visibility_m / np.sqrt(3.0) < 3.912 / alpha < visibility_m * np.sqrt(3.0)


def test_density_of_flakes() -> None:
    melted = np.array([0.05, 0.5, 1.0, 3.0])
    flake = flake_diameter(melted)
    density = (melted / flake) ** 3
    assert density == pytest.approx(np.minimum(0.17 / flake, 0.917), rel=1e-9)
    assert np.all(flake > melted)
    assert scattering_diameter(1.0, "flake") == pytest.approx(2.425, abs=0.001)
    assert scattering_diameter(1.0) == 1.0


def test_backscatter_of_a_sphere_by_integration() -> None:
    """Rho / pi cos^2 over the lit half of a sphere of 2 mm, summed in rings."""
    theta = (np.arange(100_000) + 0.5) / 100_000 * np.pi / 2
    ring = 2 * np.pi * 1e-3**2 * np.sin(theta) * (np.pi / 2 / 100_000)
    assert flake_backscatter(2.0) == pytest.approx(float(np.sum(0.9 / np.pi * np.cos(theta) ** 2 * ring)), rel=1e-6)


def test_backscatter_of_a_tumbling_disc_by_drawing() -> None:
    """A disc of area S shows S |cos| and returns rho / pi S cos^2: 2/3 of rho / pi times its mean shadow, in 0.5 %."""
    cosine = np.random.default_rng(5).uniform(-1.0, 1.0, 200_000)
    mean_shadow, mean_return = np.mean(np.abs(cosine)), 0.9 / np.pi * np.mean(cosine**2)
    diameter_mm = np.sqrt(mean_shadow * 4 / np.pi) * 1e3
    assert flake_backscatter(diameter_mm) == pytest.approx(mean_return, rel=5e-3)


def test_flakes_outshine_drops() -> None:
    from parhelion.weather.rain import drop_backscatter

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
        (lambda: flake_backscatter(1.0, 1.5), "reflectivity: must be from 0 to 1, got 1.5"),
        (lambda: flake_backscatter([1.0, np.nan]), "diameter_mm: must be 0 mm or more, got nan"),
    ],
)
def test_bad_input(call: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()  # type: ignore[operator]
