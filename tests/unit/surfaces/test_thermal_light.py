"""Thermal light: black bodies, emissivities, the sky, and the balance of surfaces."""

from __future__ import annotations

import numpy as np
import pytest

from parhelion.core.constants import STEFAN_BOLTZMANN_W_M2_K4
from parhelion.core.errors import ConfigError
from parhelion.surfaces import library
from parhelion.surfaces.bands import Band, box_band, luminous, named_band, planck_radiance, radiant_per_lumen
from parhelion.surfaces.material import Material, SpectrumTable
from parhelion.surfaces.thermal import (
    EMISSIVITY,
    band_radiance,
    brightness_temperature,
    convection,
    emissivity_of,
    reflected_sun,
    sky_brightness_temperature,
    sky_emissivity,
    sky_radiance,
    solar_absorptance,
    surface_temperature,
    thermal_table,
)

THERMAL = named_band("thermal")


def test_planck_integrates_to_stefan_and_peaks_after_wien() -> None:
    grid = np.geomspace(200.0, 2e6, 40_001)
    values = planck_radiance(grid, 1000.0)
    total = np.sum(0.5 * (values[1:] + values[:-1]) * np.diff(grid)) * np.pi
    assert total == pytest.approx(STEFAN_BOLTZMANN_W_M2_K4 * 1000.0**4, rel=1e-4)
    assert grid[np.argmax(values)] == pytest.approx(2897.772, rel=1e-3)


def test_planck_does_not_overflow_in_the_cold() -> None:
    assert planck_radiance(300.0, 3.0) == 0.0


def test_a_room_s_radiance_in_the_thermal_band_is_the_published_one() -> None:
    # 8 to 14 um at 300 K: 172.5 W/m^2 of 459.3, by tables of the black body's fractional function (0.1403 and 0.5160)
    radiance = float(band_radiance(300.0, box_band("w", 11_000.0, 6000.0)))
    assert radiance * np.pi == pytest.approx(459.3 * (0.5160 - 0.1403), rel=2e-3)


def test_brightness_temperature_is_the_inverse() -> None:
    kelvin = np.array([200.0, 250.0, 288.15, 306.0, 400.0, 1000.0])
    assert brightness_temperature(band_radiance(kelvin, THERMAL), THERMAL) == pytest.approx(kelvin, abs=1e-3)
    assert np.isfinite(brightness_temperature([0.0, -1.0], THERMAL)).all()
    with pytest.raises(ConfigError, match="20 to 3000 K"):
        band_radiance(0.0, THERMAL)


def test_every_emissivity_belongs_to_a_material_of_the_library() -> None:
    for name, value in EMISSIVITY.items():
        assert emissivity_of(library.material(name)) == value
    assert emissivity_of(library.material("car-paint-red")) == 0.92
    assert emissivity_of(library.material("lambert-50")) == 0.92


def test_a_material_s_own_emissivity_wins() -> None:
    table = SpectrumTable(wavelength_um=[0.3, 20.0], reflectance=[0.5, 0.5])
    own = Material(name="own", sources=["test"], spectrum=table, emissivity_thermal=0.4)
    assert emissivity_of(own) == 0.4
    assert solar_absorptance(own) == pytest.approx(0.5)


def test_black_paint_absorbs_what_white_paint_does_not() -> None:
    black, white = (solar_absorptance(library.material(f"car-paint-{name}")) for name in ("black", "white"))
    assert black > 0.9
    assert white < 0.35


def test_the_sky_is_cold_overhead_and_warm_at_the_horizon_and_under_cloud() -> None:
    sine = np.array([1.0, 0.5, 0.1, 0.0])
    clear = sky_brightness_temperature(THERMAL, sine, air_k=288.15, dew_point_c=8.0)
    assert np.all(np.diff(clear) > 0.0)
    assert 210.0 < clear[0] < 240.0
    assert clear[-1] == pytest.approx(288.15, abs=0.1)
    closed = sky_brightness_temperature(THERMAL, sine, cloud_optical_depth=20.0)
    assert closed == pytest.approx(np.full(4, 288.15), abs=0.5)


def test_the_sky_s_window_holds_what_the_whole_sky_lacks() -> None:
    # The hemisphere's radiance in the window makes up the emissivity of the whole sky.
    window = Band("window", [8000.0, 14_000.0], [1.0, 1.0])
    sine = (np.arange(2000) + 0.5) / 2000
    inside = 2.0 * np.pi * np.mean(sky_radiance(window, sine) * sine)
    black = np.pi * float(band_radiance(288.15, window))
    missing = (1.0 - sky_emissivity(8.0)) * STEFAN_BOLTZMANN_W_M2_K4 * 288.15**4
    assert black - inside == pytest.approx(missing, rel=0.05)  # 1.66 stands for the exact integral


def test_the_sky_is_cold_in_the_mid_wave_windows_and_warm_in_the_band_of_carbon_dioxide() -> None:
    air = {"air_k": 288.15, "dew_point_c": 8.0}
    gas = sky_brightness_temperature(box_band("co2", 4300.0, 200.0), 1.0, **air)
    assert gas == pytest.approx(288.15, abs=0.1)
    # A grey window of emissivity e has the radiance e B(T): the same e as between 8 and 14 um, at a shorter wavelength.
    long_wave = box_band("long", 11_000.0, 1000.0)
    share = sky_radiance(long_wave, 1.0, **air) / band_radiance(288.15, long_wave)
    assert 0.2 < share < 0.5
    for centre in (3700.0, 4700.0):
        window = box_band("window", centre, 200.0)
        found = sky_radiance(window, 1.0, **air) / band_radiance(288.15, window)
        assert found == pytest.approx(float(share), rel=0.01)
        assert sky_brightness_temperature(window, 1.0, **air) < 275.0


def test_reflected_sunlight_is_the_share_of_a_black_body_of_5772_k() -> None:
    def below(wavelength_um: float) -> float:
        # Series of the black body's fractional function (Chang and Rhee 1984).
        x, n = 14_387.77 / (wavelength_um * 5772.0), np.arange(1, 200)
        return float(15.0 / np.pi**4 * np.sum(np.exp(-n * x) * (x**3 / n + 3 * x**2 / n**2 + 6 * x / n**3 + 6 / n**4)))

    for low, high in ((3.0, 5.0), (3.5, 4.0)):
        band = box_band("w", 500.0 * (low + high), 1000.0 * (high - low))
        # The transmittance of 0.7 is assumed.
        assert reflected_sun(band, 1000.0) == pytest.approx(0.7 * 1000.0 * (below(high) - below(low)), rel=2e-3)
    assert reflected_sun(named_band("thermal"), 1000.0) == 0.0


def test_the_balance_of_a_surface_closes() -> None:
    kelvin = surface_temperature(np.array([0.0, 400.0, 900.0]), 0.95, wind_m_s=3.0)
    sky = sky_emissivity(8.0) * 288.15**4
    rest = np.array([0.0, 400.0, 900.0]) + 0.95 * STEFAN_BOLTZMANN_W_M2_K4 * (sky - kelvin**4)
    assert rest == pytest.approx(convection(3.0) * (kelvin - 288.15), abs=1e-8)
    assert kelvin[0] < 288.15 < kelvin[1] < kelvin[2]


def test_nothing_exchanged_is_as_warm_as_the_air() -> None:
    assert float(surface_temperature(0.0, 0.9, sky_share=0.0)) == pytest.approx(288.15)


def test_sunny_surfaces() -> None:
    names = ("asphalt", "grass", "snow", "skin", "car-paint-black", "car-paint-white")
    table = thermal_table([library.material(name) for name in names], air_k=293.15)
    noon = np.minimum(table["dark_k"] + 900.0 * table["kelvin_per_w_m2"], table["most_k"])
    asphalt, grass, snow, skin, black, white = noon - 273.15
    assert 40.0 < asphalt < 65.0
    assert grass < 30.0
    assert snow == pytest.approx(0.0, abs=1e-3)
    assert skin == pytest.approx(33.0, abs=1e-3)
    assert black - white > 20.0


def test_a_lumen_of_warm_light() -> None:
    grid = np.arange(380.0, 781.0, 1.0)
    # one watt at 555 nm, as a narrow line, is 683 lm
    line = np.where(np.abs(grid - 555.0) < 0.5, 1.0, 0.0)
    assert float(luminous(grid, line)) == pytest.approx(683.0, rel=0.01)
    # luminous efficacy of whole black bodies: 15 lm/W at 2800 K, 93 lm/W at 5800 K
    for kelvin, efficacy in ((2800.0, 15.0), (5800.0, 93.0)):
        watts = STEFAN_BOLTZMANN_W_M2_K4 * kelvin**4 / np.pi
        assert float(luminous(grid, planck_radiance(grid, kelvin))) / watts == pytest.approx(efficacy, rel=0.03)
    assert radiant_per_lumen(2700.0, named_band("red")) > 2.0 * radiant_per_lumen(2700.0, named_band("blue"))
