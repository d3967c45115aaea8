"""The thermal read-out."""

from __future__ import annotations

import numpy as np
import pytest

from parhelion.core.errors import ConfigError
from parhelion.core.random import Stream
from parhelion.rays.device import engine
from parhelion.sensors.optics.camera.thermal import (
    ThermalElectronics,
    band_radiance_um,
    develop_thermal,
    stretched,
    thermal_curve,
)
from pins import check

STREAM = Stream(2, "thermal/test")
BAND = (8.0, 14.0)
QUIET = ThermalElectronics(netd_k=0.0)


def test_all_wavelengths_give_the_law_of_stefan_and_boltzmann() -> None:
    bands = [(0.5, 5.0), (5.0, 20.0), (20.0, 100.0), (100.0, 1000.0)]
    total = sum(float(band_radiance_um(300.0, band)) for band in bands)
    # sigma T^4 / pi; beyond 1 mm 2e-6 of it are left.
    assert total == pytest.approx(5.670374e-8 * 300.0**4 / np.pi, rel=1e-5)


@pytest.mark.parametrize("band", [(8.0, 14.0), (7.5, 13.5), (3.0, 5.0)])
def test_the_curve_is_that_of_planck(band: tuple[float, float]) -> None:
    t = np.linspace(233.15, 423.15, 1000)
    assert np.abs(thermal_curve(band, (233.15, 423.15)).temperature(band_radiance_um(t, band)) - t).max() < 1e-3


def test_temperatures_come_back() -> None:
    t = np.linspace(240.0, 400.0, 48).reshape(6, 8)
    made = develop_thermal(band_radiance_um(t, BAND), QUIET, STREAM)
    assert made.colour.dtype == np.uint16
    assert np.abs(made.colour - 100.0 * t).max() <= 0.5 + 0.1
    assert np.abs(made.temperature_k - t).max() < 1e-3


def test_what_is_out_of_range_is_cut() -> None:
    made = develop_thermal(band_radiance_um(np.array([[150.0, 600.0]]), BAND), QUIET, STREAM)
    assert made.colour.tolist() == [[23315, 42315]]


def test_counts_are_linear_in_radiance() -> None:
    low, high = (float(band_radiance_um(t, BAND)) for t in QUIET.range_k)
    light = np.linspace(low, high, 5).reshape(1, 5)
    made = develop_thermal(light, ThermalElectronics(netd_k=0.0, output="counts"), STREAM)
    assert made.colour.tolist() == [[0, 4096, 8192, 12287, 16383]]


def test_grey_values_stretch_what_is_there() -> None:
    t = np.linspace(290.0, 310.0, 101).reshape(1, 101)
    made = develop_thermal(band_radiance_um(t, BAND), ThermalElectronics(netd_k=0.0, output="grey"), STREAM)
    assert made.colour.dtype == np.uint8
    assert made.colour[0, [0, 1, 50, 99, 100]].tolist() == [0, 0, 128, 255, 255]
    assert np.all(stretched(np.full(4, 300.0)) == 128)


def test_kernels_give_the_same() -> None:
    t = np.linspace(240.0, 400.0, 480)
    sensor = ThermalElectronics(pattern_k=0.1)
    host = develop_thermal(band_radiance_um(t, BAND).reshape(20, 24), sensor, STREAM)
    light = engine().table(band_radiance_um(t, BAND).astype(np.float32))
    made = develop_thermal(light, sensor, STREAM, width=24, height=20)
    # Float32 resolves 400 K to 3e-5 K; a few roundings on the way.
    assert np.abs(host.temperature_k - made.temperature_k).max() < 1e-3


def test_wrong_settings_are_reported() -> None:
    with pytest.raises(ConfigError, match="thermal output"):
        ThermalElectronics(output="kelvin")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="limits of band"):
        ThermalElectronics(band=(14.0, 8.0))
    with pytest.raises(ConfigError, match="one band"):
        develop_thermal(np.ones((4, 4, 2)), QUIET, STREAM)


def test_noise_and_fixed_pattern_of_a_unit() -> None:
    """The pattern belongs to the unit, the noise to the frame."""
    light = band_radiance_um(np.full((6, 8), 300.0), BAND)
    unit = ThermalElectronics(pattern_k=0.5, identity="unit 7")
    found = develop_thermal(light, unit, STREAM)
    check("camera/thermal-unit", rel=1e-5, temperature=found.temperature_k, colour=found.colour)
