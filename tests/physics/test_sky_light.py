"""The light of sun and sky against its sources: Mitsuba's emitter, pvlib, illuminances, and its own balance."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import parhelion
from parhelion.core.errors import ConfigError, FormatError
from parhelion.sensors.optics.sky import (
    DATA,
    NIGHT_LUX,
    OZONE_CM,
    WATER_VAPOUR_CM,
    WAVELENGTHS_NM,
    air_mass,
    cell_directions,
    clear_sky,
    clear_spectrum,
    cosine_weights,
    haze_optical_depth,
    hosek_wilkie,
    natural_illuminance,
    read_tensors,
    solid_angles,
)
from parhelion.surfaces.bands import box_band, named_band
from parhelion.weather.daylight import direction

BANDS = tuple(named_band(name) for name in ("red", "green", "blue", "nir", "swir"))
HEIGHTS_DEG = (5.0, 15.0, 30.0, 50.0, 80.0)

EMITTER = """
import json, sys
import mitsuba as mi
mi.set_variant("scalar_spectral")
cases = json.load(sys.stdin)
found = []
for case in cases["skies"]:
    emitter = mi.load_dict({"type": "sunsky", "sun_direction": case["sun"], "turbidity": case["turbidity"],
                            "albedo": case["albedo"], "sun_scale": 0.0})
    for view in cases["views"]:
        si = mi.SurfaceInteraction3f()
        si.wi = [-v for v in view]
        si.wavelengths = cases["wavelengths"]
        found.append([float(v) for v in emitter.eval(si)])
print(json.dumps(found))
"""


def test_the_sky_is_that_of_mitsuba_s_own_emitter() -> None:
    views = np.array([[0, 0, 1], [0.6, 0.3, 0.5], [-0.6, 0.3, 0.1], [0.8, 0.1, 0.6], [0, -1, 0.01]], dtype=np.float64)
    views /= np.linalg.norm(views, axis=1, keepdims=True)
    wavelengths = [345.0, 470.0, 560.0, 705.0]
    skies = [
        {"sun": direction(height, 70.0).tolist(), "turbidity": turbidity, "albedo": albedo}
        for height, turbidity, albedo in ((2.0, 2.0, 0.0), (35.0, 4.3, 0.25), (80.0, 9.5, 0.9))
    ]
    sent = json.dumps({"skies": skies, "views": views.tolist(), "wavelengths": wavelengths})
    ran = subprocess.run([sys.executable, "-c", EMITTER], input=sent, capture_output=True, text=True, check=True)
    expected = np.array(json.loads(ran.stdout.splitlines()[-1])).reshape(3, 5, 4)
    for case, wanted in zip(skies, expected, strict=True):
        model = hosek_wilkie(views, np.array(case["sun"]), case["turbidity"], case["albedo"])
        found = np.array([np.interp(wavelengths, WAVELENGTHS_NM, row) for row in model])
        assert found == pytest.approx(wanted, rel=2e-5)  # the emitter works in float32


def test_a_damaged_tensor_file_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "x.bin"
    file.write_bytes(b"tensor_file\0\1\0\7\0\0\0\x0f")
    with pytest.raises(FormatError, match="damaged"):
        read_tensors(file)
    file.write_bytes(b"something else entirely")
    with pytest.raises(FormatError, match="not a Mitsuba tensor file"):
        read_tensors(file)


@pytest.mark.parametrize("height", HEIGHTS_DEG)
@pytest.mark.parametrize("turbidity", [2.0, 5.0])
def test_bird_s_spectrum_is_pvlib_s(height: float, turbidity: float) -> None:
    pvlib = pytest.importorskip("pvlib")
    elevation = np.radians(height)
    expected = pvlib.spectrum.spectrl2(
        90.0 - height, 90.0 - height, 0.0, 0.2, 101_300.0, air_mass(elevation), WATER_VAPOUR_CM, OZONE_CM,
        float(haze_optical_depth(turbidity, 500.0)), dayofyear=93, alpha=1.3,
    )  # fmt: skip
    distance = float(pvlib.irradiance.get_extra_radiation(93, method="spencer", solar_constant=1.0))
    found = clear_spectrum(elevation, turbidity, distance_factor=distance)
    assert found.direct == pytest.approx(expected["dni"][:, 0], abs=1e-12)
    assert found.diffuse == pytest.approx(expected["dhi"][:, 0], abs=1e-12)
    assert air_mass(elevation) == pytest.approx(
        float(pvlib.atmosphere.get_relative_airmass(90.0 - height, "kastenyoung1989")), rel=1e-4
    )


@pytest.mark.parametrize("height", HEIGHTS_DEG)
def test_the_table_holds_bird_s_horizontal_irradiance(height: float) -> None:
    sky = clear_sky(BANDS, direction(height, 200.0), turbidity=3.0)
    spectrum = clear_spectrum(np.radians(height), 3.0)
    level = spectrum.direct * np.sin(np.radians(height)) + spectrum.diffuse
    expected = np.array([band.integral(spectrum.wavelength_nm, level) for band in BANDS])
    table = np.tensordot(cosine_weights(), sky.radiance.astype(np.float64), axes=2)
    beam = sky.sun_irradiance * sky.sun_direction[2]
    assert table + beam == pytest.approx(expected, rel=1e-6)
    assert sky.horizontal_irradiance == pytest.approx(expected, rel=1e-9)
    assert table == pytest.approx(sky.diffuse_irradiance, rel=1e-6)


def test_the_shape_model_s_own_level_is_within_a_factor_of_1_7_of_bird_s() -> None:
    # The level is Bird's because the two models agree only to this factor at the default turbidity.
    cells, weights = cell_directions().reshape(-1, 3), cosine_weights().reshape(-1)
    for height in (10.0, 15.0, 30.0, 50.0, 80.0):
        own = weights @ hosek_wilkie(cells, direction(height, 0.0), 3.0, 0.2)
        spectrum = clear_spectrum(np.radians(height), 3.0)
        bird = np.interp(WAVELENGTHS_NM, spectrum.wavelength_nm, spectrum.diffuse)
        assert np.all(np.abs(np.log(own[2:] / bird[2:])) < np.log(1.7))


def test_global_illuminance_is_that_of_the_naval_observatory() -> None:
    for height in (0.0, 1.0, 3.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0):
        sky = clear_sky(BANDS[:3], direction(height, 180.0))
        assert sky.illuminance_lux == pytest.approx(natural_illuminance(height), rel=0.16)


@pytest.mark.parametrize(
    ("height", "lux"), [(0.0, 759.0), (-6.0, 3.4), (-12.0, 0.0081), (-18.0, 6.5e-4), (-90.0, 6.5e-4)]
)
def test_twilight_and_night(height: float, lux: float) -> None:
    assert natural_illuminance(height) == pytest.approx(lux, rel=0.02)
    sky = clear_sky(BANDS, direction(height, 270.0))
    assert sky.illuminance_lux == pytest.approx(lux, rel=0.02)
    assert np.isfinite(sky.radiance).all()
    assert sky.radiance.min() > 0.0


def test_the_published_pieces_meet() -> None:
    for edge in (-12.0, -5.0, -0.8, 5.0, 20.0):
        below, above = natural_illuminance(edge - 1e-6), natural_illuminance(edge + 1e-6)
        assert np.log10(above / below) == pytest.approx(0.0, abs=0.02)


def test_light_falls_without_a_jump() -> None:
    heights = np.arange(12.0, -20.0, -0.25)
    levels = np.array([clear_sky(BANDS, direction(h, 0.0), shape=(16, 16)).horizontal_irradiance for h in heights])
    assert np.all(np.diff(np.log(levels), axis=0) < 1e-9)
    assert np.all(np.diff(np.log(levels[:, :4]), axis=0) > -0.35)


def test_the_sky_glows_where_the_sun_went_down() -> None:
    sky = clear_sky(BANDS[:3], direction(-4.0, 270.0))
    west, east = sky.radiance_at(np.array([[-1.0, 0.0, 0.1], [1.0, 0.0, 0.1]]))
    assert np.all(west > 1.5 * east)


def test_the_night_sky_has_the_published_luminance() -> None:
    # 2.1e-4 cd/m^2: 21.8 mag per square arcsecond by L = 10.8e4 x 10^(-0.4 m)
    assert NIGHT_LUX / np.pi == pytest.approx(10.8e4 * 10.0 ** (-0.4 * 21.8), rel=0.05)


def test_a_clear_sky_is_blue_and_the_low_sun_red() -> None:
    high, low = (clear_sky(BANDS[:3], direction(height, 180.0)) for height in (60.0, 6.0))
    red, _, blue = high.radiance_at(np.array([[0.0, 0.3, 1.0]]))[0] / [band.width_nm for band in BANDS[:3]]
    assert blue > 1.8 * red
    assert low.sun_irradiance[0] > 3.0 * low.sun_irradiance[2]


def test_the_table_is_where_it_says() -> None:
    sky = clear_sky(BANDS[:3], direction(40.0, 120.0))
    # the horizon may be brighter than the sun's surroundings, but at its own height nothing is
    row = int(50.0 / 180.0 * 128)
    column = int(np.argmax(sky.radiance[row, :, 1]))
    assert np.degrees(np.arccos(cell_directions()[row, column] @ sky.sun_direction)) < 2.0
    cells = cell_directions().reshape(-1, 3)
    assert sky.radiance_at(cells) == pytest.approx(sky.radiance.reshape(-1, 3), rel=1e-5)
    assert solid_angles()[:64].sum() == pytest.approx(2.0 * np.pi)
    assert cosine_weights().sum() == pytest.approx(np.pi)


def test_below_the_horizon_lies_the_ground() -> None:
    sky = clear_sky(BANDS[:3], direction(40.0, 120.0), ground_albedo=0.3)
    assert sky.radiance[100, 7] == pytest.approx(0.3 * sky.horizontal_irradiance / np.pi, rel=1e-5)


def test_the_solar_constant() -> None:
    wavelength, irradiance = np.loadtxt(DATA, delimiter=",", skiprows=4, usecols=(0, 1)).T
    total = np.sum(0.5 * (irradiance[1:] + irradiance[:-1]) * np.diff(wavelength))
    assert len(wavelength) == 122
    assert total == pytest.approx(1361.0 * 0.978, rel=0.01)  # 97.8 % lies between 300 and 4000 nm


def test_what_has_no_sky() -> None:
    sun = direction(40.0, 0.0)
    for bands, options, message in (
        ([], {}, "one band"),
        ([named_band("thermal")], {}, "300 to 4000 nm"),
        ([box_band("b", 550.0, 10.0)], {"turbidity": 11.0}, "turbidity"),
        ([box_band("b", 550.0, 10.0)], {"ground_albedo": 1.5}, "ground_albedo"),
        ([box_band("b", 550.0, 10.0)], {"shape": (7, 8)}, "even number"),
    ):
        with pytest.raises(ConfigError, match=message):
            clear_sky(bands, sun, **options)


def test_the_data_lie_in_the_package() -> None:
    assert (Path(parhelion.__file__).parent / "sensors/optics/data/bird-riordan-1984.csv").is_file()
