"""Bands: their integrals, and what materials reflect in them."""

from __future__ import annotations

import numpy as np
import pytest

from parhelion.core.errors import ConfigError
from parhelion.surfaces import library
from parhelion.surfaces.bands import (
    BAND_NAMES,
    SPECTRAL_COLUMNS,
    Band,
    band_reflectance,
    box_band,
    gaussian_band,
    material_band_table,
    named_band,
    smooth_box_band,
)
from parhelion.surfaces.material import COLUMNS, Material, SpectrumTable, material_table

RED, NIR = named_band("red"), named_band("nir")


def test_a_band_has_its_peak_at_one() -> None:
    band = Band("x", [500, 510, 520], [0.0, 4.0, 2.0])
    assert band.response.tolist() == [0.0, 1.0, 0.5]
    assert band.range_nm == (500.0, 520.0)
    assert band == Band("x", [500, 510, 520], [0.0, 2.0, 1.0])
    assert hash(band) == hash(Band("x", [500, 510, 520], [0.0, 2.0, 1.0]))
    with pytest.raises(ValueError):
        band.response[0] = 1.0


def test_a_box_integrates_a_line_exactly() -> None:
    band = box_band("box", 600.0, 100.0)
    assert band.width_nm == pytest.approx(100.0)
    assert band.centre_nm == pytest.approx(600.0)
    assert float(band.mean([300.0, 900.0], [0.0, 6.0])) == pytest.approx(3.0)
    assert float(band.integral([300.0, 900.0], [0.0, 6.0])) == pytest.approx(300.0)


def test_a_triangle_times_a_line_is_exact_on_grids_that_do_not_match() -> None:
    band = Band("triangle", [500.0, 600.0, 700.0], [0.0, 1.0, 0.0])
    # values: 0 up to 550, then rising by 0.01 per nm; closed form of the integral of the product
    grid, values = [400.0, 550.0, 800.0], [0.0, 0.0, 2.5]
    x = np.linspace(500.0, 700.0, 200_001)
    product = np.interp(x, band.wavelength_nm, band.response) * np.interp(x, grid, values)
    assert float(band.integral(grid, values)) == pytest.approx(float(product.mean()) * 200.0, rel=1e-5)


def test_values_are_level_beyond_the_grid_and_a_single_value_is_flat() -> None:
    band = box_band("box", 600.0, 100.0)
    assert float(band.mean([590.0, 610.0], [1.0, 1.0])) == pytest.approx(1.0)
    assert float(band.mean([600.0], [0.4])) == pytest.approx(0.4)


def test_a_gaussian_has_the_width_that_it_says() -> None:
    band = gaussian_band("g", 700.0, 60.0)
    half = np.interp([670.0, 730.0], band.wavelength_nm, band.response)
    assert half == pytest.approx([0.5, 0.5], abs=2e-3)
    assert band.width_nm == pytest.approx(60.0 * np.sqrt(np.pi / np.log(16.0)), rel=2e-3)


def test_a_smooth_box_is_as_wide_as_between_its_half_heights() -> None:
    assert smooth_box_band("s", 400.0, 700.0, 50.0).width_nm == pytest.approx(300.0)


@pytest.mark.parametrize("name", BAND_NAMES)
def test_every_named_band(name: str) -> None:
    band = named_band(name)
    assert band.name == name
    assert band.response.max() == 1.0
    first, last = band.range_nm
    low, high = {"thermal": (7500.0, 14_500.0), "mwir": (2800.0, 5200.0)}.get(name, (350.0, 2500.0))
    assert low <= first < last <= high


@pytest.mark.parametrize(
    ("wavelength", "response", "message"),
    [
        ([500.0], [1.0], "at least two"),
        ([500.0, 600.0], [1.0], "one response per wavelength"),
        ([600.0, 500.0], [1.0, 1.0], "ascend"),
        ([500.0, 600.0], [0.0, 0.0], "above 0"),
        ([500.0, 600.0], [-1.0, 1.0], "not be negative"),
        ([500.0, np.nan], [1.0, 1.0], "finite"),
        ([5.0, 600.0], [1.0, 1.0], "200 to 20000 nm"),
        (["a", 600.0], [1.0, 1.0], "lists of numbers"),
    ],
)
def test_what_is_no_band(wavelength: list[float], response: list[float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Band("bad", wavelength, response)


def test_an_unknown_name_is_reported_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'green'"):
        named_band("gren")


def test_widths_must_be_above_zero() -> None:
    for make in (box_band, gaussian_band):
        with pytest.raises(ConfigError, match="width_nm"):
            make("w", 500.0, 0.0)
    with pytest.raises(ConfigError, match="edge_nm"):
        smooth_box_band("w", 500.0, 600.0, 100.0)


def test_a_band_outside_the_spectrum_names_material_and_range() -> None:
    with pytest.raises(ConfigError, match=r"'asphalt': the spectrum covers 350 to 2500 nm, and band 'thermal'"):
        band_reflectance(library.material("asphalt"), named_band("thermal"))


def test_the_illuminant_weights_the_reflectance() -> None:
    material = Material(
        name="step", sources=["test"], spectrum=SpectrumTable(wavelength_um=[0.4, 0.6, 0.8], reflectance=[0, 0, 1])
    )
    band = box_band("all", 600.0, 400.0)
    assert band_reflectance(material, band) == pytest.approx(0.25)
    even = (np.array([400.0, 800.0]), np.array([2.0, 2.0]))
    assert band_reflectance(material, band, illuminant=even) == pytest.approx(0.25)
    late = (np.array([599.99, 600.0, 800.0]), np.array([0.0, 1.0, 1.0]))
    assert band_reflectance(material, band, illuminant=late) == pytest.approx(0.5, abs=1e-4)
    with pytest.raises(ConfigError, match="no light"):
        band_reflectance(material, band, illuminant=([900.0, 1000.0], [1.0, 1.0]))


def test_plants_are_bright_in_the_near_infrared_and_roads_are_not() -> None:
    def ndvi(name: str) -> float:
        red, nir = (band_reflectance(library.material(name), band) for band in (RED, NIR))
        return (nir - red) / (nir + red)

    assert ndvi("grass") > 0.5
    assert ndvi("leaf") > 0.5
    for name in ("asphalt", "concrete"):
        assert abs(ndvi(name)) < 0.2


def test_the_table_of_a_narrow_band_is_that_of_its_wavelength() -> None:
    names = ("grass", "car-paint-red", "glass", "steel", "retro-sheeting", "water", "mirror")
    materials = [library.material(name) for name in names]
    table = material_band_table(materials, [box_band("line", 905.0, 1e-3), RED])
    expected = material_table(materials, 905.0)
    assert table.keys() == COLUMNS.keys()
    for name, column in table.items():
        if name in SPECTRAL_COLUMNS:
            assert column.shape == (len(names), 2)
            assert column[:, 0] == pytest.approx(expected[name], abs=1e-6)
        else:
            assert column == pytest.approx(expected[name])
        assert column.dtype == np.float32


def test_a_table_without_materials_keeps_its_shape_and_one_without_bands_is_an_error() -> None:
    assert material_band_table([], [RED])["diffuse"].shape == (0, 1)
    with pytest.raises(ConfigError, match="one band"):
        material_band_table([], [])
