"""Light of the camera: irradiance, energy, fog, vegetation, lamps, heat."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from camera_rigs import camera_sheet
from parhelion.core.trajectory import ConstantTwist
from parhelion.pictures.camera import ndvi
from parhelion.sensors.optics.camera import shot
from parhelion.sensors.optics.camera.device import CameraOnDevice
from parhelion.sensors.optics.lighting import layer_reflectance
from parhelion.sensors.optics.sky import OZONE_CM, WATER_VAPOUR_CM, air_mass, clear_sky, haze_optical_depth
from parhelion.surfaces import library
from parhelion.surfaces.bands import band_reflectance
from parhelion.surfaces.material import Material
from parhelion.surfaces.thermal import dew_point_c
from parhelion.surfaces.wet import wet_factor
from parhelion.weather.air import air_contents

DOWN = ph.Pose((0, 0, 2.0), rpy_deg=(0, 90, 0))
ABOVE = ph.Pose((0, 0, 5.0), rpy_deg=(0, 90, 0))


def light(model: str = "generic/vga", **options: Any) -> ph.Camera:
    """A small camera that gives the light itself."""
    settings = {"width": 16, "height": 12, "samples": 256, "bounces": 1, "truth": (), "developed": False}
    return ph.Camera(model, **{**settings, **options})


def card(material: Any = "lambert-50", size: float = 40.0) -> ph.World:
    world = ph.World()
    world.add(ph.shapes.plane(size, size), material=material)
    return world


@pytest.mark.parametrize("height_deg", [10.0, 25.0, 40.0, 60.0, 85.0])
def test_a_grey_card_has_the_light_that_pvlib_says(height_deg: float) -> None:
    """Sun and sky on a level card: the spectral irradiance of pvlib in each band, the cosine included."""
    pvlib = pytest.importorskip("pvlib")
    world = card()
    world.daylight = ph.Daylight(sun_elevation_deg=height_deg, sun_azimuth_deg=120.0)
    camera = light(samples=1024)
    seen = camera.shoot(world, pose=DOWN, seed=3).colour.astype(np.float64)
    elevation, day = np.radians(height_deg), 93
    spectrum = pvlib.spectrum.spectrl2(
        90.0 - height_deg, 90.0 - height_deg, 0.0, 0.2, 101_300.0, air_mass(elevation), WATER_VAPOUR_CM, OZONE_CM,
        float(haze_optical_depth(3.0, 500.0)), dayofyear=day, alpha=1.3,
    )  # fmt: skip
    distance = float(pvlib.irradiance.get_extra_radiation(day, method="spencer", solar_constant=1.0))
    level = (spectrum["dni"][:, 0] * np.sin(elevation) + spectrum["dhi"][:, 0]) / distance
    wanted = np.array([band.integral(spectrum["wavelength"], level) for band in camera.bands])
    mean = seen.mean(axis=(0, 1))
    error = seen.std(axis=(0, 1)) / np.sqrt(seen.shape[0] * seen.shape[1])
    assert np.all(error < 0.004 * mean)
    assert mean * np.pi / 0.5 == pytest.approx(wanted, rel=0.02)


def even_light(monkeypatch: pytest.MonkeyPatch, level: float) -> None:
    """The same radiance from everywhere, no sun, and no air in between."""

    def sky(daylight: Any, bands: Any, **_: Any) -> Any:
        plain = clear_sky(bands, np.array([0.0, 0.0, 1.0]), shape=(8, 16))
        radiance = np.full(plain.radiance.shape, level, np.float32)
        return replace(plain, radiance=radiance, sun_irradiance=np.zeros(len(bands)))

    monkeypatch.setattr(shot, "lighting", sky)
    monkeypatch.setattr(CameraOnDevice, "_air", lambda *args: None)


def white(name: str, brdf: dict[str, Any]) -> ph.Material:
    spectrum = {"wavelength_um": [0.3, 2.5], "reflectance": [1.0, 1.0]}
    return ph.Material(name=name, sources=["a test"], spectrum=spectrum, brdf=brdf)


@pytest.mark.parametrize(
    ("brdf", "least"),
    [
        ({"model": "lambert"}, 0.999),
        ({"model": "oren-nayar", "roughness_deg": 30}, 0.7),
        ({"model": "phong", "specular_share": 0.5, "exponent": 20}, 0.7),
        ({"model": "cook-torrance", "roughness": 0.4, "refractive_index": 1.5}, 0.8),
        ({"model": "cook-torrance", "roughness": 0.4}, 0.5),
    ],
)  # fmt: skip
@pytest.mark.parametrize("tilt_deg", [90.0, 40.0, 15.0])
def test_white_furnace(brdf: dict[str, Any], least: float, tilt_deg: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A white plane in even light gives back no more than comes in, and a matt one all of it."""
    even_light(monkeypatch, 10.0)
    world = card(white("furnace", brdf), size=400.0)
    pose = ph.Pose((0, 0, 2.0), rpy_deg=(0, tilt_deg, 0))
    seen = light(samples=512, width=24, height=2).shoot(world, pose=pose, seed=1).colour.mean(axis=(0, 1))
    assert np.all(seen <= 10.0 * 1.002)
    assert np.all(seen >= 10.0 * (least if tilt_deg > 30.0 else 0.4))


def test_light_between_walls_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a closed grey sphere that glows nowhere, light comes in through a hole alone: none without one."""
    even_light(monkeypatch, 10.0)
    world = ph.World()
    world.add(ph.shapes.sphere(3.0, 4), material="lambert-80")
    seen = light(bounces=8).shoot(world, pose=ph.Pose(), seed=1).colour
    assert np.all(seen == 0.0)


def test_two_panes_show_the_card_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Panes are no bounces: light reaches a card through two of them, and the camera through both again.

    In even light L, the card is L / 2. A pane transmits 0.85 of light along its normal and about 0.78 of diffuse light:
    0.5 * 0.78^2 * 0.85^2 = 0.22; with 0.08 + 0.06 of the sky reflected by the panes, dust, and light that returns to
    the card, this is 0.36 to 0.40. Counted as bounces, panes left 0.10.
    """
    even_light(monkeypatch, 1.0)
    plain, behind = card(), card()
    for height in (0.4, 0.8):
        behind.add(ph.shapes.plane(40.0, 40.0), material="glass", pose=ph.Pose((0.0, 0.0, height)))
    seen = [light(bounces=1).shoot(world, pose=DOWN, seed=2).colour.mean() for world in (plain, behind)]
    assert seen[0] == pytest.approx(0.5, rel=0.02)
    assert 0.33 < seen[1] < 0.43


@pytest.mark.parametrize("distance", [20.0, 60.0, 100.0])
def test_contrast_falls_in_fog_as_koschmieder_says(distance: float) -> None:
    """The difference of a white and a black board falls by exp(-alpha d): to 5 % at the optical range ln 20 / alpha."""
    world = ph.World()
    for side, material in ((1.0, "lambert-90"), (-1.0, "lambert-5")):
        board = ph.shapes.board(0.5 * distance, 0.5 * distance)
        world.add(board, material=material, pose=ph.Pose((distance, side * 0.25 * distance, 0)))
    # Fog under an even cloud: without a beam, the boards have the light that they have without fog.
    world.daylight = ph.Daylight(cloud_optical_depth=50.0)
    camera = light(samples=64, width=32, height=8)
    clear = camera.shoot(world, pose=ph.Pose(), seed=1).colour.astype(np.float64)
    world.weather = ph.Weather(visibility_m=100.0)
    foggy = camera.shoot(world, pose=ph.Pose(), seed=1).colour.astype(np.float64)
    components = [air_contents(world.weather, 0.0, band.centre_nm).components for band in camera.bands]
    alpha = np.array([parts[0].extinction_per_m for parts in components])
    level = _light_on(camera, world) / _light_on(camera, world, fog=False)
    left, right = slice(13, 15), slice(17, 19)
    before = clear[3:5, left].mean(axis=(0, 1)) - clear[3:5, right].mean(axis=(0, 1))
    after = foggy[3:5, left].mean(axis=(0, 1)) - foggy[3:5, right].mean(axis=(0, 1))
    # Pixels two columns off the middle look a little farther.
    slant = np.hypot(distance, distance * 2.0 / camera.intrinsics.fx)
    assert after / before / level == pytest.approx(np.exp(-alpha * slant), rel=0.03)


def _light_on(camera: ph.Camera, world: ph.World, *, fog: bool = True) -> np.ndarray[Any, Any]:
    weather, world.weather = world.weather, world.weather if fog else None
    found = camera.reflected_light(world)
    world.weather = weather
    return found


def test_the_vegetation_index_separates_grass_from_asphalt() -> None:
    found = {}
    for material in ("grass", "leaf", "asphalt", "concrete"):
        world = card(material)
        camera = light("micasense/rededge-mx", samples=32)
        image = camera.shoot(world, pose=DOWN, seed=1)
        found[material] = float(np.mean(ndvi(image, camera.reflected_light(world))))
    assert found["grass"] > 0.5
    assert found["leaf"] > 0.5
    # The picture agrees with the spectra: the library's asphalt is a little redder than grey.
    bands = {band.name: band for band in light("micasense/rededge-mx").bands}
    for material, index in found.items():
        red, nir = (band_reflectance(library.material(material), bands[name]) for name in ("red", "nir"))
        assert index == pytest.approx((nir - red) / (nir + red), abs=0.01)
    assert abs(found["asphalt"]) < 0.1
    assert abs(found["concrete"]) < 0.1


def test_a_lamp_lights_by_its_intensity_over_the_square_of_distance() -> None:
    world = card("lambert-100", size=4.0)
    world.daylight = ph.Daylight(sun_elevation_deg=-40.0)
    camera = light(samples=64, bounces=0, width=8, height=6)
    dark = camera.shoot(world, pose=DOWN, seed=1).colour.mean(axis=(0, 1))
    found = []
    for height in (3.0, 6.0):
        lamp = world.add_lamp((0.0, 0.0, height), direction=(0, 0, -1), intensity_cd=100.0, lit="always")
        seen = camera.shoot(world, pose=ph.Pose((0, 0, 1.0), rpy_deg=(0, 90, 0)), seed=1).colour[2:4, 3:5]
        found.append(seen.mean(axis=(0, 1)) - dark)
        world.remove_lamp(lamp)
    assert found[0] / found[1] == pytest.approx(np.full(3, 4.0), rel=0.02)


def test_the_night_without_lamps_is_dark_and_no_error() -> None:
    world = card()
    world.daylight = ph.Daylight(sun_elevation_deg=-60.0)
    image = ph.Camera("generic/vga", width=32, height=24, samples=4, noise=False).shoot(world, pose=DOWN, seed=1)
    assert image.colour.max() <= 16
    assert image.metadata["gain_db"] > 0.0


def test_wet_roads_are_darker() -> None:
    assert np.isfinite(wet_factor(0.0))
    # Angstrom's closed form, 0.124, is an upper bound: it leaves out what the film itself mirrors.
    assert 0.09 < 0.2 * float(wet_factor(0.2)) < 0.2 / (1.33**2 * 0.8 + 0.2)
    assert 0.8 < 0.95 * float(wet_factor(0.95)) < 0.95
    world = card("asphalt")
    world.daylight = ph.Daylight(cloud_optical_depth=50.0)
    dry = light(samples=64).shoot(world, pose=DOWN, seed=1).colour.mean() / light().reflected_light(world).mean()
    world.weather = ph.Weather(rain_rate_mm_h=10.0)
    wet = light(samples=64).shoot(world, pose=DOWN, seed=1).colour.mean() / light().reflected_light(world).mean()
    assert 0.4 < wet / dry < 0.7


def test_a_thermal_camera_reads_temperatures() -> None:
    """Asphalt in the sun is warmer than in shade, both warmer than the clear sky; water is near the air."""
    world = card("asphalt")
    world.add(ph.shapes.box(4, 4, 0.2), material="wood", pose=ph.Pose((0, 0, 8.0)))
    camera = ph.Camera("flir/boson-640", width=64, height=48, samples=8, truth=("depth",))
    image = camera.shoot(world, pose=ph.Pose((-20, 0, 6.0), rpy_deg=(0, 5, 0)), seed=1)
    kelvin = image.colour.astype(np.float64) / 100.0
    # Rays below the horizon that leave the world see ground at the temperature of the air.
    sky = kelvin[:4][~np.isfinite(image.depth[:4])]
    ground = kelvin[np.isfinite(image.depth)]
    assert 230.0 < np.median(sky) < 285.0
    assert 295.0 < np.median(ground) < 335.0
    assert np.median(ground) - ground.min() > 5.0


# ---- thermal and mid-wave infrared ---------------------------------------------------------------------------------


def black_skin() -> Material:
    """A black body that is kept at 33 C."""
    return library.material("skin").model_copy(update={"emissivity_thermal": 1.0})


@pytest.mark.parametrize("name", ["flir/boson-640", "flir/lepton-3.5", "generic/mwir-640"])
def test_thermal_cameras_read_the_temperature_of_a_black_body(name: str) -> None:
    world = ph.World()
    world.add(ph.shapes.plane(50, 50), material=black_skin())
    camera = ph.Camera(name, width=32, samples=2, noise=False, truth=())
    kelvin = camera.shoot(world, pose=ABOVE, seed=1).colour / 100.0
    assert kelvin == pytest.approx(273.15 + 33.0, abs=0.05)


def test_mid_wave_cameras_see_reflected_sunlight_and_long_wave_ones_do_not() -> None:
    world = ph.World()
    world.add(ph.shapes.plane(50, 50), material=library.material("skin").model_copy(update={"emissivity_thermal": 0.5}))
    found = {}
    for name in ("generic/mwir-640", "flir/boson-640"):
        for elevation in (60.0, -20.0):
            world.daylight = ph.Daylight(sun_elevation_deg=elevation)
            camera = ph.Camera(name, width=32, samples=2, noise=False, truth=())
            found[name, elevation] = camera.shoot(world, pose=ABOVE, seed=1).colour.mean() / 100.0
    # The surface itself has 33 C by day and night.
    assert found["generic/mwir-640", 60.0] - found["generic/mwir-640", -20.0] > 5.0
    assert found["flir/boson-640", 60.0] == pytest.approx(found["flir/boson-640", -20.0], abs=0.05)


def strips(length: float, width: float, count: int = 40) -> tuple[Any, Any]:
    """A level sheet of many narrow rectangles along x."""
    x = np.linspace(-length / 2, length / 2, count + 1)
    vertices = np.array([[at, side, 0.0] for at in x for side in (-width / 2, width / 2)])
    k = 2 * np.arange(count)
    faces = np.concatenate([np.stack([k, k + 2, k + 1], axis=1), np.stack([k + 1, k + 2, k + 3], axis=1)])
    return vertices, faces


def test_engine_and_tyres_of_a_moving_car_are_warm() -> None:
    camera = ph.Camera("generic/mwir-640", width=160, samples=2, noise=False, truth=())
    seen = {}
    for material in ("car-paint-white", "rubber"):
        for moves in (False, True):
            world = card("asphalt")
            world.daylight = ph.Daylight(sun_elevation_deg=-20)
            if moves:
                path = ConstantTwist(ph.Pose((0, 0, 0.8)), (0.01, 0.0, 0.0))
                world.add_actor(strips(4.0, 1.8), material=material, label="car", trajectory=path)
            else:
                world.add(strips(4.0, 1.8), material=material, label="car", pose=ph.Pose((0, 0, 0.8)))
            pose = ph.Pose((0, 0, 15.0), rpy_deg=(0, 90, 0))
            seen[material, moves] = camera.shoot(world, pose=pose, seed=1).colour[:, 78:82].mean(axis=1) / 100.0
    # Rows run along -x of the world, so the front of the car is at the top of the picture.
    rise = seen["car-paint-white", True] - seen["car-paint-white", False]
    half = len(rise) // 2
    assert rise[:half].max() == pytest.approx(25.0, abs=2.5)
    assert rise[half:].max() < 1.0
    tyre = seen["rubber", True] - seen["rubber", False]
    assert np.median(tyre[half - 15 : half + 15]) == pytest.approx(15.0, abs=1.5)


@pytest.mark.parametrize(("centre", "width"), [(330.0, 20.0), (1200.0, 100.0), (2600.0, 150.0)])
def test_reflective_bands_from_0_3_to_3_um_have_light(centre: float, width: float) -> None:
    sheet = camera_sheet(16, 12, sensor={"bands": [{"name": "b", "centre_nm": centre, "width_nm": width}]})
    for material in ("asphalt", "leaf", "snow"):
        image = ph.Camera(sheet, samples=2, bounces=0, truth=(), developed=False).shoot(card(material), pose=ABOVE)
        assert np.isfinite(image.colour).all()
        assert image.colour.min() > 0.0


@pytest.mark.parametrize(("centre", "width"), [(3500.0, 300.0), (4500.0, 400.0), (7000.0, 600.0), (12_000.0, 1000.0)])
def test_emissive_bands_from_3_to_14_um_read_temperatures(centre: float, width: float) -> None:
    band = {"name": "b", "centre_nm": centre, "width_nm": width}
    sheet = camera_sheet(16, 12, sensor={"bands": [band]}, thermal={"netd_mk": 0.0, "span_c": [-40.0, 140.0]})
    world = ph.World()
    world.add(ph.shapes.plane(50, 50), material=black_skin())
    kelvin = ph.Camera(sheet, samples=2, noise=False, truth=()).shoot(world, pose=ABOVE).colour / 100.0
    assert kelvin == pytest.approx(306.15, abs=0.05)


def test_the_weather_s_air_warms_thermal_pictures() -> None:
    found = []
    for weather in (ph.Weather(temperature_c=t, humidity_percent=60.0) for t in (30.0, -10.0)):
        world = card("asphalt")
        world.weather = weather
        world.daylight = ph.Daylight(sun_elevation_deg=-20)
        camera = ph.Camera("flir/boson-640", width=32, samples=2, noise=False, truth=())
        found.append(camera.shoot(world, pose=ABOVE).colour.mean() / 100.0 - 273.15)
    assert 20.0 < found[0] < 31.0
    assert -25.0 < found[1] < -9.0


def test_dew_point_of_the_magnus_formula() -> None:
    # Table values of psychrometric charts: 20 C and 50 % give 9.3 C; saturated air its own temperature.
    assert dew_point_c(20.0, 50.0) == pytest.approx(9.3, abs=0.1)
    assert dew_point_c(12.0, 100.0) == pytest.approx(12.0, abs=1e-9)


def test_dust_is_brown_and_smoke_is_dark() -> None:
    """An opaque cloud fills the picture; without absorption it would have the colour of the light around it."""
    assert layer_reflectance(1.0, 0.8) == 1.0
    # Even scattering has an exact solution by Chandrasekhar's H function: 1 - 2 sqrt(1 - w) times its first moment.
    nodes, weights = np.polynomial.legendre.leggauss(64)
    mu, weights = 0.5 * (nodes + 1.0), 0.5 * weights
    for albedo in (0.3, 0.6, 0.9, 0.99):
        h = np.ones(64)
        for _ in range(400):
            h = 1.0 / (np.sqrt(1.0 - albedo) + 0.5 * albedo * ((weights * mu * h) / (mu[:, None] + mu)).sum(axis=1))
        exact = 1.0 - 2.0 * np.sqrt(1.0 - albedo) * float(weights @ (mu * h))
        assert layer_reflectance(albedo, 0.0) == pytest.approx(exact, abs=0.005)
    centre, half = (10.0, 0.0, 2.0), (6.0, 40.0, 20.0)
    clouds = {
        "spray": ph.SprayCloud(centre_m=centre, half_size_m=half, density_kg_m3=0.1),
        "dust": ph.DustCloud(centre_m=centre, half_size_m=half, density_kg_m3=2e-3),
        "smoke": ph.SmokeCloud(centre_m=centre, half_size_m=half, density_kg_m3=1e-3),
    }
    rgb, seen = camera_sheet(40, 30, 200.0, sensor={"bands": ["red", "green", "blue"]}), {}
    for name, cloud in clouds.items():
        world = ph.World()
        world.weather = ph.Weather(**{name: [cloud]})
        colour = ph.Camera(rgb, developed=False).shoot(world, pose=ph.Pose((0.0, 0.0, 2.0)), seed=1).colour
        seen[name] = colour.reshape(-1, colour.shape[-1]).mean(axis=0)
    against = seen["dust"] / seen["spray"]
    assert against[0] > 1.1 * against[2]  # red against blue
    assert 0.25 < against[1] < 0.75
    assert seen["smoke"].max() < 0.15 * seen["dust"].min()
