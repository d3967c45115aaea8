"""Fog against published numbers, and its soft echo against an independent integral."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from parhelion.core.errors import ConfigError
from parhelion.core.water import water_index
from parhelion.weather.media.fog import (
    FOG_MODELS,
    HAHNER_BACKSCATTER,
    SPECTRA,
    default_backscatter,
    droplet_efficiencies,
    fog_backscatter,
    fog_extinction,
    fog_lidar_ratio,
    lidar_ratio,
)
from parhelion.weather.volume_echo import soft_echo
from weather_rigs import open_at_1_m

SPEED_OF_LIGHT_M_S = 299_792_458.0


@pytest.mark.parametrize(
    ("visibility_km", "per_km", "half_unit"),
    [(0.05, 78.2, 0.05), (0.2, 19.6, 0.05), (0.5, 7.82, 0.005), (1.0, 3.05, 0.005), (2.0, 1.41, 0.005),
     (10.0, 0.205, 0.0005)],
)  # fmt: skip
def test_kim_at_905_nm(visibility_km: float, per_km: float, half_unit: float) -> None:
    assert fog_extinction(visibility_km * 1e3) * 1e3 == pytest.approx(per_km, abs=1.01 * half_unit)


def test_kim_step_that_is_misprinted_elsewhere() -> None:
    """At V = 2 km and 905 nm: 3.91 / 2 x 1.645^-0.66; the factor 2 x 3.91 x 1.645^-0.34 is 6.60, not 9.27."""
    ratio = 905.0 / 550.0
    assert 2 * 3.91 * ratio**-0.34 == pytest.approx(6.60, abs=0.005)
    assert fog_extinction(2000.0) == pytest.approx(3.91e-3 / 2 * ratio**-0.66, rel=1e-12)


def test_other_models() -> None:
    assert fog_extinction(1000.0, "koschmieder") == pytest.approx(3.912e-3, rel=1e-4)
    assert fog_extinction(1000.0, "kruse") == pytest.approx(3.91e-3 * (905 / 550) ** -0.585, rel=1e-12)
    assert fog_extinction(100.0, "hahner2021") == pytest.approx(np.log(20.0) / 100.0)
    for model, (_, source) in FOG_MODELS.items():
        assert source
        # At 550 nm all laws are one, up to the contrast at which an eye gives up.
        assert 2.9 < fog_extinction(1000.0, model, 550.0) * 1e3 < 4.0


@pytest.mark.parametrize("model", sorted(FOG_MODELS))
def test_clear_air_and_arrays(model: str) -> None:
    assert fog_extinction(np.inf, model) == 0.0
    many = fog_extinction([50.0, 700.0, 3000.0, 20e3, 80e3, np.inf], model)
    assert many == pytest.approx([fog_extinction(v, model) for v in (50.0, 700.0, 3000.0, 20e3, 80e3, np.inf)])


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(FOG_MODELS)), st.floats(5.0, 1e5), st.floats(1.001, 3.0), st.floats(550.0, 1600.0))
def test_less_visibility_more_extinction(model: str, visibility: float, factor: float, wavelength: float) -> None:
    thick, thin = (fog_extinction(v, model, wavelength) for v in (visibility, visibility * factor))
    assert thick > thin > 0.0


def test_optical_range_and_backscatter() -> None:
    alpha = fog_extinction(60.0, "hahner2021")
    assert np.log(20.0) / alpha == pytest.approx(60.0)
    assert fog_backscatter(alpha, HAHNER_BACKSCATTER) == pytest.approx(0.046 / 60.0)
    assert default_backscatter("hahner2021", 905.0) == 0.046
    assert fog_backscatter(alpha, 0.092) == pytest.approx(0.092 / 60.0)
    assert np.exp(-alpha * 60.0) == pytest.approx(0.05)


def test_lidar_ratio_of_fog_is_that_of_water_clouds() -> None:
    """17 to 20 sr in the near infrared, where clouds of droplets are measured at 18 to 19: 0.165 / MOR, not 0.046."""
    for wavelength in (850.0, 865.0, 903.0, 905.0):
        assert all(16.0 < lidar_ratio(name, wavelength) < 20.5 for name in SPECTRA)
        assert 17.0 < fog_lidar_ratio(wavelength) < 20.0
    assert default_backscatter("kim", 905.0) == pytest.approx(0.165, rel=0.03)


@pytest.mark.parametrize("wavelength", [532.0, 905.0, 1550.0])
def test_droplets_against_another_implementation_of_mie(wavelength: float) -> None:
    import miepython

    m = water_index(wavelength)
    x = np.array([0.02, 0.3, 1.0, 2.5, 7.0, 20.0, 60.0, 150.0, 400.0])
    q_ext, q_back = droplet_efficiencies(x, m)
    theirs = np.array([miepython.efficiencies_mx(m.conjugate(), one) for one in x])
    assert q_ext == pytest.approx(theirs[:, 0], rel=2e-6)
    # Straight back, large spheres resonate so sharply that the last digits of x and m decide: the series agree to 1e-4.
    assert q_back == pytest.approx(theirs[:, 2], rel=1e-4)


def by_quad(centre: float, alpha: float, beta: float, length: float) -> float:
    def integrand(r: float) -> float:
        return np.cos(np.pi * (centre - r) / length) ** 2 * np.exp(-2 * alpha * r) * float(open_at_1_m(r)) / r**2

    low, high = max(centre - length / 2, 0.05), centre + length / 2
    kinks = [k for k in (0.9, 1.0) if low < k < high]
    value, _ = integrate.quad(integrand, low, high, points=kinks or None, limit=400, epsabs=0.0, epsrel=1e-10)
    return beta * value


@pytest.mark.parametrize("visibility", [20.0, 100.0, 800.0])
@pytest.mark.parametrize("pulse_ns", [0.5, 6.0, 20.0])
def test_soft_echo_against_an_adaptive_integral(visibility: float, pulse_ns: float) -> None:
    alpha = float(fog_extinction(visibility))
    beta, length = float(fog_backscatter(alpha, 0.165)), SPEED_OF_LIGHT_M_S * pulse_ns * 1e-9
    centres = np.array([0.95, 1.0, 1.3, 1.7, 2.5, 4.0, 10.0, 60.0])
    ours = soft_echo(
        centres, extinction_per_m=alpha, backscatter_per_m_sr=beta, pulse_length_m=length, overlap=open_at_1_m
    )
    assert ours == pytest.approx([by_quad(c, alpha, beta, length) for c in centres], rel=1e-4)


def test_soft_echo_of_a_short_pulse_is_the_lidar_equation() -> None:
    """A pulse short against all else has the area L / 2: beta (L / 2) exp(-2 alpha R) / R^2, to (L / R)^2."""
    centre, alpha, beta, length = np.array([5.0, 20.0, 80.0]), 0.02, 3e-4, 0.03
    ours = soft_echo(
        centre, extinction_per_m=alpha, backscatter_per_m_sr=beta, pulse_length_m=length, overlap=open_at_1_m
    )
    assert ours == pytest.approx(beta * length / 2 * np.exp(-2 * alpha * centre) / centre**2, rel=1e-4)


def test_soft_echo_without_an_overlap_curve() -> None:
    """Fog before 5 cm is left out, so that the signal stays finite at the sensor itself."""
    near = soft_echo(
        [0.0, 0.5], extinction_per_m=0.05, backscatter_per_m_sr=1e-3, pulse_length_m=1.8, overlap=np.ones_like
    )
    low, high = 0.05, 0.5 + 0.9
    value, _ = integrate.quad(
        lambda r: np.cos(np.pi * (0.5 - r) / 1.8) ** 2 * np.exp(-0.1 * r) / r**2, low, high, epsrel=1e-10
    )
    assert near[1] == pytest.approx(1e-3 * value, rel=1e-4)
    assert np.all(np.isfinite(near))


def test_soft_echo_can_beat_a_wall() -> None:
    """In fog of 20 m visibility the nearest fog outshines a wall of 30 % at 30 m, and does not in 2 km."""
    wall = 0.3 / np.pi / 30.0**2
    z = np.linspace(0.5, 30.0, 300)
    for visibility, beaten in ((20.0, True), (2000.0, False)):
        alpha = float(fog_extinction(visibility))
        beta = fog_backscatter(alpha, HAHNER_BACKSCATTER)
        fog = soft_echo(z, extinction_per_m=alpha, backscatter_per_m_sr=beta, pulse_length_m=1.8, overlap=open_at_1_m)
        assert (fog.max() > wall * np.exp(-2 * alpha * 30.0)) == beaten


def test_soft_echo_shape_and_nothing() -> None:
    z = np.linspace(1.0, 20.0, 12).reshape(3, 4)
    found, nothing = (
        soft_echo(z, extinction_per_m=a, backscatter_per_m_sr=b, pulse_length_m=1.8, overlap=np.ones_like)
        for a, b in ((0.01, 1e-4), (0.0, 0.0))
    )
    assert found.shape == (3, 4)
    assert np.all(nothing == 0.0)


def test_either_kind_of_array() -> None:
    from parhelion.rays.device import engine

    mi = engine().mi
    visibility = np.array([60.0, 700.0, 3000.0, 20e3, 80e3])
    for model in FOG_MODELS:
        kernel = fog_extinction(mi.Float(visibility), model).numpy()
        assert kernel == pytest.approx(fog_extinction(visibility, model), rel=2e-5)
    z = np.array([0.5, 0.93, 0.98, 2.0])
    assert fog_backscatter(mi.Float(z), 0.165).numpy() == pytest.approx(fog_backscatter(z, 0.165), rel=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fog_extinction(0.0), "visibility_m: must be above 0 m, got 0"),
        (lambda: fog_extinction([100.0, np.nan]), "visibility_m: must be above 0 m, got nan"),
        (lambda: fog_extinction(100.0, "kimm"), "unknown fog model 'kimm': did you mean 'kim'"),
        (lambda: fog_extinction(100.0, wavelength_nm=10_600.0), "wavelength_nm: must be from 350 to 2500 nm"),
        (lambda: fog_backscatter(0.1, float("nan")), "factor: must be finite and 0 /sr or more, got nan"),
        (
            lambda: soft_echo(
                [1.0], extinction_per_m=-0.1, backscatter_per_m_sr=0.0, pulse_length_m=1.0, overlap=np.ones_like
            ),
            "extinction_per_m: must be finite and 0 or more, got -0.1",
        ),
        (
            lambda: soft_echo(
                [1.0], extinction_per_m=0.1, backscatter_per_m_sr=0.1, pulse_length_m=0.0, overlap=np.ones_like
            ),
            "pulse_length_m: must be finite and above 0 m, got 0.0",
        ),
        (
            lambda: soft_echo(
                [np.nan], extinction_per_m=0.1, backscatter_per_m_sr=0.1, pulse_length_m=1.0, overlap=np.ones_like
            ),
            "range_m: must be finite and 0 m or more, got nan",
        ),
    ],
)
def test_bad_input(call: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()  # type: ignore[operator]
