"""Wet and snowy ground: states over time, places of puddles and snow, and what sensors see of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.contact.terrain import is_wet
from parhelion.core.clouds import ORIGINS
from parhelion.core.errors import ConfigError
from parhelion.core.water import water_index, water_permittivity
from parhelion.sensors.optics.scene import light_scene
from parhelion.sensors.waves.radar.device import half_space, reflection, table, wet_reflection
from parhelion.surfaces.brdf import coat_factor, cook_torrance, fresnel_dielectric, normal_reflectance, oren_nayar
from parhelion.surfaces.library import material
from parhelion.surfaces.material import material_table
from parhelion.surfaces.radio import coated, fresnel, slab
from parhelion.surfaces.wet import FILM_M, FILM_ROUGHNESS, PUDDLE_M, water_transmittance, wet_columns, wet_factor
from parhelion.weather.ground import (
    SNOW_COS,
    STORE_MM,
    Ground,
    evaporation_mm_h,
    patch_level,
    patch_tile,
    shares_of_water,
    snow_share,
    stored_water_mm,
    tile_value,
)


def road(material_name: str = "asphalt") -> ph.World:
    """Level road of 200 m with a wall of 3 m across it at 30 m."""
    world = ph.World()
    world.add(ph.shapes.box(200, 200, 0.2), material=material_name, label="road", pose=ph.Pose(xyz=(0, 0, -0.1)))
    world.add(ph.shapes.box(0.3, 30, 3), material="concrete", label="wall", pose=ph.Pose(xyz=(30, 0, 1.5)))
    return world


# ---- state over time ------------------------------------------------------------------------------------------------


def test_the_store_fills_and_dries_by_its_closed_form() -> None:
    """Rain of 6 mm/h for 10 min leaves 1 mm, less the evaporation; then the store falls by the evaporation alone."""
    rain = [[0.0, 6.0], [600.0, 6.0], [600.001, 0.0]]
    for time, expected in ((300.0, 0.5 - 0.1 / 12), (600.0, 1.0 - 0.1 / 6), (600.0 + 3600.0, 1.0 - 0.1 / 6 - 0.1)):
        assert stored_water_mm(rain, time, evaporation=0.1) == pytest.approx(expected, abs=1e-5)
    assert stored_water_mm([[0.0, 100.0], [600.0, 100.0]], 600.0, evaporation=0.1) == STORE_MM
    assert stored_water_mm(rain, 1e6, evaporation=0.1) == 0.0


def test_evaporation_by_penman() -> None:
    """The saturation pressure at 15 °C is 17.04 hPa in tables, so a deficit of 30 % is 5.11 hPa."""
    assert evaporation_mm_h(15.0, 70.0, 2.0) == pytest.approx(0.26 * 2.08 * 5.11 / 24.0, rel=2e-3)
    assert evaporation_mm_h(15.0, 100.0, 5.0) == 0.0


def test_weather_derives_the_ground_from_rain() -> None:
    shower = ph.Weather(
        rain_rate_mm_h=[[0, 0], [60, 20], [1200, 20], [1260, 0]], wetness="from-rain", puddles="from-rain"
    )
    assert shower.ground(0.0) is None
    wetter = [shower.ground(time) for time in (30.0, 60.0, 300.0)]
    assert [one.wetness for one in wetter if one] == sorted(one.wetness for one in wetter if one)
    after = [shower.ground(1260.0 + hours * 3600.0) for hours in (0.0, 5.0, 10.0)]
    assert [one and (one.wetness, one.puddles > 0.0) for one in after[:2]] == [(1.0, True), (1.0, True)]
    assert after[1]
    assert after[0]
    assert after[1].puddles < after[0].puddles
    assert shower.ground(1260.0 + 48 * 3600.0) is None
    assert shares_of_water(STORE_MM) == (1.0, pytest.approx(0.3))
    # Constant rain has lasted; constant clear air leaves dry ground.
    assert ph.Weather(rain_rate_mm_h=5, wetness="from-rain").ground(0.0) == Ground(1.0, 0.0, 0.0, 0)
    assert ph.Weather(wetness="from-rain").ground(0.0) is None


def test_weather_files_and_errors() -> None:
    weather = ph.Weather(wetness=0.5, puddles=[[0, 0], [10, 0.4]], snow_cover=0.25, seed=4)
    assert ph.Weather.from_mapping(weather.to_mapping()) == weather
    assert weather.ground(5.0) == Ground(0.5, 0.2, 0.25, 4)
    assert not weather.is_constant
    assert weather.replace(puddles=None).is_constant
    assert weather.at(5.0).puddles == 0.2
    assert weather.at(5.0).is_clear
    assert repr(weather) == "<Weather wetness 0.5, puddles 0 to 0.4, snow cover 0.25>"
    for changes, words in (
        ({"wetness": 1.5}, "wetness: must be from 0 to 1, got 1.5"),
        ({"puddles": "rain"}, "or 'from-rain', got 'rain'"),
        ({"snow_cover": "from-rain"}, "snow_cover: must be a number from 0 to 1, got 'from-rain'"),
    ):
        with pytest.raises(ConfigError, match=words):
            ph.Weather(**changes)


def test_tyres_and_dust_know_the_same_wet_ground() -> None:
    world = road()
    for weather, wet in (
        (ph.Weather(rain_rate_mm_h=5), True),
        (ph.Weather(rain_rate_mm_h=5, wetness=0.0), False),
        (ph.Weather(wetness=1.0), True),
        (ph.Weather(wetness=0.2), False),
    ):
        world.weather = weather
        assert is_wet(world, 0.0) == wet == weather.is_wet


# ---- places ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 7, 99])
@pytest.mark.parametrize("name", ["puddles", "snow"])
def test_patches_cover_their_share(seed: int, name: str) -> None:
    """Samples on a fine lattice of another spacing than that of the quantile; the area within a tile of 64 m."""
    x, y = np.mgrid[0:64:0.11, 0:64:0.11]
    value = tile_value(patch_tile(seed, name).ravel(), x - 320.0, y + 640.0)
    for share in (0.05, 0.3, 0.9):
        assert (value < patch_level(seed, name, share)).mean() == pytest.approx(share, abs=0.004)
    assert not (value < patch_level(seed, name, 0.0)).any()
    assert (value < patch_level(seed, name, 1.0)).all()


def test_snow_slides_off_steep_slopes() -> None:
    assert snow_share(np.array([1.0, SNOW_COS[1], SNOW_COS[0], 0.0, -1.0])).tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]
    slope = snow_share(np.linspace(0.0, 1.0, 50))
    assert np.all(np.diff(slope) >= 0.0)


# ---- lidar ----------------------------------------------------------------------------------------------------------


def wet_brdf(cos: float, nm: float) -> float:
    """BRDF of wet asphalt from its parts: the dark body below the coat, and the lobe of the film."""
    dry = material_table([material("asphalt")], nm)
    rho, sigma = float(dry["diffuse"][0]), float(dry["sigma_rad"][0])
    body = rho * wet_factor(rho) * float(water_transmittance(FILM_M, nm)[0])
    f0 = normal_reflectance(index=water_index(nm).real)
    lobe = cook_torrance(cos, roughness=FILM_ROUGHNESS, f0=f0)
    return float(oren_nayar(cos, reflectance=body, sigma_rad=sigma) * coat_factor(cos) + lobe)


@pytest.mark.slow
@pytest.mark.parametrize("nm", [905.0, 1550.0])
def test_power_from_wet_asphalt(nm: float) -> None:
    """The digitised echo of a shot at the road falls by the ratio of the BRDFs."""
    config = ph.Lidar("velodyne/vlp-16").config.model_copy(update={"wavelength_nm": nm})
    world, lidar = road(), ph.Lidar(config, noise=False)
    direction = lidar.shots(0.0).direction
    shot = int(np.argmin(np.abs(direction[:, 2] + 0.25) + (direction[:, 0] < 0)))
    signal = {}
    for wetness in (None, 0.5, 1.0):
        world.weather = None if wetness is None else ph.Weather(wetness=wetness)
        wave = lidar.waveform(world, [shot], pose=ph.Pose(xyz=(0, 0, 1.8)), bin_size_m=0.05)
        signal[wetness] = float(wave.samples[0].max())
    cos = float(-direction[shot, 2])
    dry = material_table([material("asphalt")], nm)
    before = float(oren_nayar(cos, reflectance=float(dry["diffuse"][0]), sigma_rad=float(dry["sigma_rad"][0])))
    # The footprint spans half a degree of incidence; across it the ratio varies by about 1 %.
    assert signal[1.0] / signal[None] == pytest.approx(wet_brdf(cos, nm) / before, rel=0.02)
    assert signal[1.0] < signal[0.5] < signal[None]


def test_absorption_of_water() -> None:
    """Absorption coefficients of Hale and Querry, Segelstein: 7.2 /m at 905 nm and 10.9 /cm at 1550 nm."""
    assert water_transmittance(FILM_M, 905.0)[0] == pytest.approx(np.exp(-2 * FILM_M * 7.15), rel=1e-3)
    assert water_transmittance(FILM_M, 1550.0)[0] == pytest.approx(np.exp(-2 * FILM_M * 1090.0), rel=0.02)
    assert water_transmittance(PUDDLE_M, 1550.0)[0] < 1e-4


def test_wetness_changes_porous_materials_only() -> None:
    names = ["asphalt", "road-paint", "car-paint-red", "retro-sheeting", "glass"]
    kinds = [material(name) for name in names]
    dry = material_table(kinds, 905.0)
    wet = wet_columns(dry, kinds, 1.0, 905.0)
    for name, column in dry.items():
        np.testing.assert_array_equal(wet[name][2:], column[2:])
    ratio = wet["diffuse"][:2] / dry["diffuse"][:2]
    np.testing.assert_allclose(
        ratio, wet_factor(dry["diffuse"][:2].astype(float)) * np.exp(-2 * FILM_M * 7.15), rtol=1e-4
    )
    same = wet_columns(dry, kinds, 0.0, 905.0)
    for name, column in dry.items():
        np.testing.assert_array_equal(same[name], column)


def scanned(world: ph.World, weather: ph.Weather | None, seed: int = 5) -> tuple[Any, np.ndarray]:
    world.weather = weather
    scan = ph.Lidar("velodyne/hdl-32e").scan(world, pose=ph.Pose(xyz=(0, 0, 1.8)), seed=seed)
    return scan, np.array([world.label_names[one] == "road" for one in scan.fields["label"]])


@pytest.mark.slow
def test_lidar_on_wet_flooded_and_snowy_roads() -> None:
    world = road()
    dry, of_road = scanned(world, None)
    reach = np.hypot(*dry.xyz[of_road, :2].T).max()
    # Stated dry ground has the same bits as none.
    same, _ = scanned(world, ph.Weather(wetness=0.0, puddles=0.0, snow_cover=0.0))
    np.testing.assert_array_equal(same.xyz, dry.xyz)
    np.testing.assert_array_equal(same.fields["intensity"], dry.fields["intensity"])
    # A wet road returns nothing from afar.
    wet, wet_road = scanned(world, ph.Weather(wetness=1.0))
    assert np.hypot(*wet.xyz[wet_road, :2].T).max() < 0.7 * reach
    # Puddles show the wall upside down, below the road.
    flooded, _ = scanned(world, ph.Weather(wetness=1.0, puddles=1.0))
    below = flooded.xyz[:, 2] < -1.9
    assert below.sum() > 50
    assert dry.xyz[:, 2].min() > -1.9
    assert set(flooded.fields["origin"][below]) == {ORIGINS.index("multipath")}
    np.testing.assert_allclose(flooded.xyz[below, 0], 29.85, atol=0.15)
    some, _ = scanned(world, ph.Weather(wetness=1.0, puddles=0.3))
    assert 0 < (some.xyz[:, 2] < -1.9).sum() < below.sum()
    # Snow whitens the road and leaves the wall.
    white, white_road = scanned(world, ph.Weather(snow_cover=1.0))
    near, now = (mask & (scan.fields["range"] < 12.0) for scan, mask in ((dry, of_road), (white, white_road)))
    shots, *rows = np.intersect1d(dry.fields["shot"][near], white.fields["shot"][now], return_indices=True)
    assert len(shots) > 0.99 * near.sum()
    cos = 1.8 / dry.fields["range"][near][rows[0]].astype(float)
    asphalt = material_table([material("asphalt")], 903.0)
    before = oren_nayar(cos, reflectance=float(asphalt["diffuse"][0]), sigma_rad=float(asphalt["sigma_rad"][0]))
    after = material("snow").reflectance_at(903.0) / np.pi
    ratio = white.fields["power"][now][rows[1]].astype(float) / dry.fields["power"][near][rows[0]]
    # Noise of the sensor on the range and of float32 remains.
    assert np.median(ratio * before / after) == pytest.approx(1.0, abs=0.02)
    wall = [~mask & (np.abs(scan.xyz[:, 2]) < 0.5) for scan, mask in ((dry, of_road), (white, white_road))]
    np.testing.assert_array_equal(dry.fields["power"][wall[0]], white.fields["power"][wall[1]])


@pytest.mark.slow
def test_states_of_the_ground_share_kernels() -> None:
    """A changing wetness compiles no kernel after the first."""
    from parhelion.rays.device import engine

    world, lidar = road(), ph.Lidar("velodyne/vlp-16")
    dr = engine().dr

    def scan(wetness: float) -> int:
        world.weather = ph.Weather(wetness=wetness, puddles=0.5 * wetness)
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
            lidar.scan(world, pose=ph.Pose(xyz=(0, 0, 1.8)), seed=1)
            return sum(not one["cache_hit"] for one in dr.kernel_history() if "cache_hit" in one)

    for wetness in (0.2, 0.3, 0.4):
        scan(wetness)
    assert [scan(wetness) for wetness in (0.5, 0.6, 0.7)] == [0, 0, 0]


# ---- camera ---------------------------------------------------------------------------------------------------------


HEIGHT_M = 1.6


def night_road() -> ph.World:
    """Dark road with a marking from 8 to 20 m, lit from the camera."""
    world = ph.World()
    world.add(ph.shapes.box(200, 200, 0.2), material="asphalt", label="road", pose=ph.Pose(xyz=(0, 0, -0.1)))
    world.add(ph.shapes.box(12, 0.8, 0.01), material="road-paint", label="lane-marking", pose=ph.Pose(xyz=(14, 3, 0)))
    world.add_lamp((0.0, 0.0, HEIGHT_M), intensity_cd=5000.0)
    world.daylight = ph.Daylight(sun_elevation_deg=-18)
    return world


def radiance(world: ph.World, weather: ph.Weather | None, *points: Any) -> list[float]:
    """Mean radiance of the green band around the pixels of points."""
    world.weather = weather
    camera = ph.Camera("generic/vga", samples=8, denoise="none", developed=False, bounces=1)
    image = camera.shoot(world, pose=ph.Pose(xyz=(0, 0, HEIGHT_M)), seed=3)
    found, inside = camera.project(np.array(points) - [0.0, 0.0, HEIGHT_M])
    assert inside.all()
    rows = [(round(v), round(u)) for u, v in found]
    return [float(image.colour[v - 1 : v + 2, u - 1 : u + 2, 1].mean()) for v, u in rows]


@pytest.mark.slow
def test_puddles_show_mirror_images_of_lamps() -> None:
    """A luminous lens appears below the road at the mirrored place, dimmed by Fresnel's reflectance."""
    world, places = night_road(), ((25.0, 0.0, 3.0), (25.0, 0.0, -3.0))
    world.add(ph.shapes.box(0.1, 0.4, 0.4), material="street-lens", label="pole", pose=ph.Pose(xyz=(25.05, 0, 3)))
    direct, on_dry = radiance(world, None, *places)
    _, mirrored = radiance(world, ph.Weather(puddles=1.0), *places)
    cos = (3.0 + HEIGHT_M) / np.hypot(25.0, 3.0 + HEIGHT_M)
    assert mirrored / direct == pytest.approx(float(fresnel_dielectric(cos, index=1.333)), rel=0.05)
    assert mirrored > 20.0 * on_dry


@pytest.mark.slow
def test_lane_markings_are_lost_on_a_wet_night() -> None:
    """The difference between marking and road falls by the bodies under the coat, to a seventh at 14 m."""
    places = ((14.0, 3.0, 0.0), (14.0, 1.5, 0.0))
    paint, bare = radiance(night_road(), None, *places)
    wet_paint, wet_bare = radiance(night_road(), ph.Weather(wetness=1.0), *places)
    kinds = [material("road-paint"), material("asphalt")]
    dry = material_table(kinds, 550.0)["diffuse"].astype(float)
    wet = wet_columns(material_table(kinds, 550.0), kinds, 1.0, 550.0)["diffuse"].astype(float)
    cos = HEIGHT_M / np.hypot(HEIGHT_M, 14.3)
    expected = float(coat_factor(cos)) * (wet[0] - wet[1]) / (dry[0] - dry[1])
    assert expected < 0.15
    assert (wet_paint - wet_bare) / (paint - bare) == pytest.approx(expected, rel=0.1)


# ---- radar ----------------------------------------------------------------------------------------------------------


def test_film_on_a_half_space_against_its_limits() -> None:
    cos = np.linspace(0.05, 1.0, 20)
    film, below = 8.0 - 14.0j, 3.2 - 0.1j
    for one, other in zip(coated(cos, film, below, 0.0, 77e9), fresnel(cos, below), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    for one, other in zip(coated(cos, film, film, 1e-3, 77e9), fresnel(cos, film), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    for one, other in zip(coated(cos, film, 1.0, 1e-3, 77e9), slab(cos, film, 1e-3, 77e9)[0], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_wet_roads_reflect_radar_waves() -> None:
    dry, wet = reflection("asphalt", 77e9), wet_reflection("asphalt", 77e9)
    assert wet[-1] > 4.0 * dry[-1]
    half, _ = table(["asphalt", "car-paint-red"], 77e9, 0.5)
    np.testing.assert_allclose(half[0], 0.5 * (dry + wet))
    np.testing.assert_array_equal(half[1], reflection("car-paint-red", 77e9))
    te, tm = coated(1.0, complex(water_permittivity(77e9)), half_space("asphalt", 77e9)[0], FILM_M, 77e9)
    assert wet[-1] == pytest.approx(0.5 * (abs(te) ** 2 + abs(tm) ** 2))


def test_scenes_are_shared_by_states() -> None:
    """The scene of a world is built once; states of the ground exchange tables."""
    world = road()
    scene = light_scene(world, "lidar", names=(), wavelength_nm=905.0)
    first = scene.surfaces_in(Ground(0.5, 0.0, 0.0, 0))
    assert first is scene.surfaces_in(Ground(0.5, 0.0, 0.0, 0))
    assert scene.surfaces_in(None) is scene.surfaces
    assert first.patches is None
    assert scene.surfaces_in(Ground(0.5, 0.1, 0.0, 0)).patches is not None
