"""Daylight from a few words: the sun's place, cloud, fog, rain, air light."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from parhelion.core import config
from parhelion.core.errors import ConfigError, MissingDependencyError
from parhelion.sensors.optics.camera.air import henyey_greenstein
from parhelion.sensors.optics.lighting import (
    Daylight,
    clear_air_extinction,
    cloud_of_weather,
    diffuse_transmittance,
    haze_extinction,
    layer_transmittance,
    lighting,
    mean_radiance,
    rayleigh_extinction,
    refractive_index,
    turbidity_of_visibility,
    under_cloud,
)
from parhelion.sensors.optics.sky import SkyLight, clear_sky, cosine_weights, solid_angles
from parhelion.surfaces.bands import named_band
from parhelion.weather import Weather
from parhelion.weather.daylight import direction, distance_factor, moment, sun_position
from parhelion.weather.media.fog import haze_share

RGB = tuple(named_band(name) for name in ("red", "green", "blue"))
NOON = clear_sky(RGB, direction(50.0, 180.0))


def horizontal(sky: SkyLight) -> np.ndarray:
    beam = sky.sun_irradiance * max(float(sky.sun_direction[2]), 0.0)
    return beam + np.tensordot(cosine_weights(), sky.radiance.astype(np.float64), axes=2)


# ---- the sun -------------------------------------------------------------------------------------------------------


def test_compass_and_world() -> None:
    assert direction(0.0, 90.0) == pytest.approx([1.0, 0.0, 0.0], abs=1e-12)  # east is x
    assert direction(0.0, 0.0) == pytest.approx([0.0, 1.0, 0.0], abs=1e-12)  # north is y
    assert direction(90.0, 123.0) == pytest.approx([0.0, 0.0, 1.0], abs=1e-12)
    assert direction(0.0, 0.0, x_azimuth_deg=0.0) == pytest.approx([1.0, 0.0, 0.0], abs=1e-12)


def test_the_sun_over_munich_at_midsummer() -> None:
    pytest.importorskip("pvlib")
    elevation, azimuth = sun_position("2024-06-21T13:16:00+02:00", 48.14, 11.58)
    assert elevation == pytest.approx(90.0 - 48.14 + 23.44, abs=0.05)
    assert azimuth == pytest.approx(180.0, abs=0.7)
    later = sun_position("2024-06-21T11:16:00Z", 48.14, 11.58, after_s=3600.0)
    assert later[1] > azimuth + 15.0


def test_without_pvlib_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pvlib", None)
    with pytest.raises(MissingDependencyError, match=r"parhelion\[camera\]"):
        sun_position("2024-06-21T13:16:00+02:00", 48.0, 11.0)


@pytest.mark.parametrize("text", ["noon", "2024-13-01T00:00:00Z", "2024-06-21T12:00:00", 7])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ConfigError, match="time must"):
        moment(text)


def test_the_distance_to_the_sun_by_the_day() -> None:
    assert distance_factor(4) == pytest.approx(1.0 / 0.9833**2, abs=2e-3)
    assert distance_factor(186) == pytest.approx(1.0 / 1.0167**2, abs=2e-3)


# ---- the configuration ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"time": "2024-06-21T12:00:00Z"}, "together"),
        ({"latitude_deg": 3.0}, "together"),
        ({"time": "2024-06-21T12:00:00", "latitude_deg": 0.0, "longitude_deg": 0.0}, "zone"),
        (
            {"time": "2024-06-21T12:00:00Z", "latitude_deg": 0.0, "longitude_deg": 0.0, "sun_elevation_deg": 3.0},
            "not both",
        ),
        ({"turbidity": 0.5}, "turbidity"),
        ({"turbidty": 3.0}, "did you mean 'turbidity'"),
        ({"sun_elevation_deg": 91.0}, "sun_elevation_deg"),
    ],
)
def test_what_is_no_daylight(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config.parse(Daylight, fields, "light")


def test_the_default_needs_no_pvlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pvlib", None)
    sky = lighting(Daylight(), RGB)
    assert np.degrees(np.arcsin(sky.sun_direction[2])) == pytest.approx(45.0)
    assert sky.illuminance_lux > 50_000.0
    assert lighting(Daylight(), RGB, time=3.0) is sky


def test_the_sun_moves_with_the_scene() -> None:
    pytest.importorskip("pvlib")
    day = Daylight(time="2024-06-21T06:00:00Z", latitude_deg=48.0, longitude_deg=11.0)
    early, late = (lighting(day, RGB, time=time) for time in (0.0, 3600.0))
    assert late.sun_direction[2] > early.sun_direction[2]
    assert lighting(day, RGB, time=9.0) is early


# ---- cloud and weather ---------------------------------------------------------------------------------------------


def test_no_layer_changes_nothing() -> None:
    assert under_cloud(NOON, 0.0) is NOON
    assert layer_transmittance(0.0, 0.85, 0.7) == pytest.approx(1.0)
    assert diffuse_transmittance(0.0, 0.85) == 1.0
    thin = under_cloud(NOON, 1e-6)
    assert thin.radiance[:64] == pytest.approx(NOON.radiance[:64], rel=1e-3)


def test_a_layer_fades_the_beam_and_keeps_the_balance() -> None:
    for depth in (0.3, 3.0, 30.0):
        sky = under_cloud(NOON, depth)
        fade = np.exp(-depth / NOON.sun_direction[2])
        assert sky.sun_irradiance == pytest.approx(NOON.sun_irradiance * fade)
        assert horizontal(sky) == pytest.approx(sky.horizontal_irradiance, rel=1e-6)
        assert np.all(sky.horizontal_irradiance < NOON.horizontal_irradiance)


def test_what_a_layer_and_the_ground_share_does_not_grow() -> None:
    # white ground under a layer: what comes through is no more than fell in
    white = clear_sky(RGB, direction(50.0, 180.0), ground_albedo=1.0)
    assert np.all(under_cloud(white, 10.0).horizontal_irradiance <= 1.25 * white.horizontal_irradiance)


def test_an_overcast_sky_is_three_times_as_bright_overhead() -> None:
    sky = under_cloud(NOON, 30.0)
    assert sky.radiance[0, 0] / sky.radiance[63, 0] == pytest.approx([3.0, 3.0, 3.0], rel=0.05)
    assert sky.radiance[10] == pytest.approx(np.tile(sky.radiance[10, 0], (256, 1)), rel=1e-5)


def test_overcast_days_have_a_published_light() -> None:
    assert 5_000.0 < under_cloud(NOON, 30.0).illuminance_lux < 30_000.0


@pytest.mark.parametrize(("depth", "g"), [(-1.0, 0.8), (2000.0, 0.8), (np.nan, 0.8), (1.0, 1.0)])
def test_what_is_no_layer(depth: float, g: float) -> None:
    with pytest.raises(ConfigError, match=r"optical depth|asymmetry"):
        under_cloud(NOON, depth, g)


def test_rain_and_snow_bring_cloud() -> None:
    assert cloud_of_weather(Weather(), 0.0) == 0.0
    assert cloud_of_weather(Weather(rain_rate_mm_h=5.0), 0.0) == 30.0
    assert cloud_of_weather(Weather(rain_rate_mm_h=0.25), 0.0) == 15.0
    assert cloud_of_weather(Weather(snow_rate_mm_h=2.0), 0.0) == 20.0
    rain = lighting(Daylight(), RGB, weather=Weather(rain_rate_mm_h=5))
    assert rain.illuminance_lux == pytest.approx(
        lighting(Daylight(cloud_optical_depth=30.0), RGB).illuminance_lux, rel=1e-6
    )


def test_fog_is_a_layer_and_haze_is_turbidity() -> None:
    assert haze_share(500.0) == 0.0
    assert haze_share(5000.0) == 1.0
    fog = lighting(Daylight(), RGB, weather=Weather(visibility_m=200))
    assert fog.turbidity == 3.0
    assert fog.sun_illuminance_lux < 0.1 * lighting(Daylight(), RGB).sun_illuminance_lux
    haze = lighting(Daylight(), RGB, weather=Weather(visibility_m=10_000))
    assert haze.turbidity == pytest.approx(turbidity_of_visibility(10_000.0))
    clear = lighting(Daylight(), RGB, weather=Weather(visibility_m=100_000))
    assert clear.turbidity == 3.0


# ---- the air -------------------------------------------------------------------------------------------------------


def test_rayleigh_has_the_published_value_and_falls_with_the_fourth_power() -> None:
    # Bucholtz 1995, table 3: 1.162e-5 /m at 550 nm, 1013 hPa and 15 C
    assert float(rayleigh_extinction(550.0)) == pytest.approx(1.162e-5, rel=0.01)
    ratio = float(rayleigh_extinction(450.0) / rayleigh_extinction(900.0))
    assert ratio == pytest.approx(2.0**4.06, rel=0.005)  # a little more than the fourth power, by dispersion
    assert float(refractive_index(589.3)) == pytest.approx(1.000277, abs=3e-7)


def test_haze_is_angstrom_s_column_over_its_height() -> None:
    assert float(haze_extinction(3.0, 1000.0)) == pytest.approx((0.04608 * 3 - 0.04856) / 1250.0)
    assert float(haze_extinction(3.0, 500.0) / haze_extinction(3.0, 1000.0)) == pytest.approx(2.0**1.3)
    assert float(haze_extinction(1.0, 500.0)) == 0.0
    molecules, haze = clear_air_extinction(RGB, 3.0)
    assert np.all(np.diff(molecules) > 0.0)
    assert np.all(np.diff(haze) > 0.0)


def test_turbidity_gives_the_visibility_back() -> None:
    for turbidity in (1.5, 3.0, 8.0):
        extinction = float(rayleigh_extinction(550.0) + haze_extinction(turbidity, 550.0))
        assert turbidity_of_visibility(-np.log(0.02) / extinction) == pytest.approx(turbidity)
    assert turbidity_of_visibility(100.0) == 10.0
    assert turbidity_of_visibility(1e6) == pytest.approx(1.054, abs=0.01)
    with pytest.raises(ConfigError, match="visibility"):
        turbidity_of_visibility(0.0)


def test_the_phase_function_shares_out_all_the_light() -> None:
    cosine = (np.arange(20_000) + 0.5) / 10_000 - 1.0
    for g in (-0.3, 0.0, 0.65, 0.9):
        values = henyey_greenstein(cosine, g)
        assert 4.0 * np.pi * values.mean() == pytest.approx(1.0, rel=1e-4)
        assert 4.0 * np.pi * (values * cosine).mean() == pytest.approx(g, abs=1e-3)


def test_the_mean_radiance_of_an_even_sky() -> None:
    from dataclasses import replace

    even = replace(NOON, radiance=np.full_like(NOON.radiance, 2.0), sun_irradiance=np.zeros(3))
    assert solid_angles().sum() == pytest.approx(4.0 * np.pi)
    assert mean_radiance(even) == pytest.approx([2.0, 2.0, 2.0])
