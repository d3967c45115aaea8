"""From radiance to stored values: exact numbers, without noise where it would hide them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from camera_rigs import above, camera_sheet, flat
from parhelion.core.errors import ConfigError
from parhelion.core.image import Intrinsics
from parhelion.core.random import Stream
from parhelion.rays.device import engine
from parhelion.sensors.optics.camera.electronics import (
    SensorElectronics,
    axis_cosines,
    develop,
    grey_world_gains,
    jpeg,
    response,
)
from parhelion.sensors.optics.camera.readout import (
    AutoExposure,
    Exposure,
    auto_exposure,
    electrons_per_radiance,
    falloff,
    meter,
)

QUIET = SensorElectronics(
    noise=False, prnu=0.0, dsnu_e=0.0, dark_current_e_s=0.0, white_balance="none", curve="linear", output_bits=16
)
MONO = replace(QUIET, wavelengths_nm=(550.0,), quantum_efficiency=(0.6,), bayer=None)
STREAM = Stream(3, "camera/test", 5)


def scene(height: int = 48, width: int = 64) -> Any:
    """Smooth colours, brighter to the right, red on top."""
    row, column = np.mgrid[:height, :width]
    red, green = 10.0 + 20.0 * np.exp(-row / 20.0), 15.0 + 0.3 * column
    return np.stack([red, green, 12.0 + 5.0 * np.sin(column / 7.0)], axis=-1)


def test_photons_by_hand() -> None:
    # 100 W/(m^2 sr) through f/2 of 0.8: pi 100 0.8 / 16 = 15.708 W/m^2; on 9 um^2 1.41372e-10 W.
    # A photon of 500 nm has 3.97289e-19 J: 3.55841e8 a second, of which one half makes an electron.
    found = 100.0 * electrons_per_radiance(
        pixel_um=3.0, wavelength_nm=500.0, quantum_efficiency=0.5, f_number=2.0, transmission=0.8
    )
    assert found == pytest.approx(0.5 * 3.55841e8, rel=1e-5)


def test_digital_numbers_by_hand() -> None:
    rate = MONO.electrons_per_radiance()[0]
    radiance = np.full((4, 6), 3000.0 / (rate * 0.01))  # 3000 electrons in 10 ms
    made = develop(radiance, MONO, Exposure(0.01), STREAM, with_raw=True)
    assert made.raw is not None
    assert np.all(made.raw == np.floor(64 + 3000 * 4031 / 10_500 + 0.5))
    louder = develop(radiance, MONO, Exposure(0.01, gain_db=6.0), STREAM, with_raw=True)
    assert louder.raw is not None
    assert np.all(louder.raw == np.floor(64 + 3000 * 4031 / 10_500 * 10**0.3 + 0.5))
    assert (louder.exposure_time_s, louder.gain_db) == (0.01, 6.0)


def test_darkness_is_the_black_level_and_too_much_light_is_full() -> None:
    for radiance, raw, stored in ((0.0, 64, 0), (1e9, 4095, 65535)):
        made = develop(np.full((4, 6, 3), radiance), QUIET, Exposure(0.01), STREAM, with_raw=True)
        assert made.raw is not None
        assert made.raw.shape == (4, 6)
        assert np.all(made.raw == raw)
        assert made.colour.shape == (4, 6, 3)
        assert np.all(made.colour == stored)


def test_the_full_well_limits_what_gain_would_show() -> None:
    """At -6 dB the converter has room for twice the full well, which is never there."""
    made = develop(np.full((4, 6), 1e9), MONO, Exposure(0.01, gain_db=-6.0), STREAM, with_raw=True)
    assert made.raw is not None
    assert np.all(made.raw == np.floor(64 + 4031 * 10**-0.3 + 0.5))


def test_falloff_off_the_axis() -> None:
    lens = Intrinsics(65, 49, 40.0, 40.0, 32.0, 24.0)
    cosines = axis_cosines(lens).reshape(49, 65)
    assert cosines[24, 32] == 1.0
    assert cosines[24, 62] == pytest.approx(0.8)  # 30 / 40 off the axis: 3, 4, 5
    assert falloff(np.float64(0.8)) == pytest.approx(0.8**4)
    assert falloff(np.float64(0.8), 0.5) == pytest.approx(0.8**2)
    fisheye = axis_cosines(replace(lens, model="equidistant")).reshape(49, 65)
    assert fisheye[24, 62] == pytest.approx(np.cos(0.75))
    flat = np.full((49, 65), 2000.0 / (MONO.electrons_per_radiance()[0] * 0.01))
    made = develop(flat, MONO, Exposure(0.01), STREAM, cos_axis=cosines.ravel(), with_raw=True)
    assert made.raw is not None
    assert made.raw[24, 62] == np.floor(64 + 2000 * 0.8**4 * 4031 / 10_500 + 0.5)


def test_chromatic_aberration_magnifies_each_band_about_the_principal_point() -> None:
    column = np.arange(101, dtype=np.float64)
    picture = np.repeat((10.0 + column)[None, :, None], 5, axis=0).repeat(3, axis=2)
    sensor = replace(QUIET, bayer=None, chromatic_scale=(1.02, 1.0, 0.98))
    made = develop(picture, sensor, Exposure(3e-5), STREAM, principal_point=(50.0, 2.0), with_raw=True)
    assert made.raw is not None
    for band, scale in enumerate((1.02, 1.0, 0.98)):
        seen = (made.raw[2, 20:81, band] - 64.0) / sensor.dn_per_e() / 3e-5 / sensor.electrons_per_radiance()[band]
        half_step = 0.5 / sensor.dn_per_e() / 3e-5 / sensor.electrons_per_radiance()[band]
        assert np.abs(seen - (60.0 + (column[20:81] - 50.0) / scale)).max() <= 1.001 * half_step


def test_fixed_patterns_belong_to_the_piece_and_stay() -> None:
    flat = np.full((32, 32), 2000.0 / (MONO.electrons_per_radiance()[0] * 0.01))
    patterned = replace(MONO, prnu=0.01, dsnu_e=5.0)

    def raw(sensor: SensorElectronics, radiance: Any, frame: int) -> Any:
        return develop(radiance, sensor, Exposure(0.01), Stream(1, "c", frame), with_raw=True).raw

    assert np.array_equal(raw(patterned, flat, 0), raw(patterned, flat, 1))
    assert not np.array_equal(raw(patterned, flat, 0), raw(replace(patterned, identity="other"), flat, 0))
    assert raw(patterned, flat, 0).std() > raw(patterned, 0.0 * flat, 0).std() > 0.0


def test_same_seed_same_bytes() -> None:
    sensor = SensorElectronics()
    first, again = (develop(scene(), sensor, AutoExposure(), STREAM).colour for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, develop(scene(), sensor, AutoExposure(), replace(STREAM, number=6)).colour)
    assert not np.array_equal(first, develop(scene(), sensor, AutoExposure(), replace(STREAM, seed=4)).colour)


# ---- both kinds of arrays ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sensor",
    [
        SensorElectronics(),
        SensorElectronics(bayer="GBRG", demosaic="bilinear", output_bits=16, chromatic_scale=(1.01, 1, 1)),
        SensorElectronics(
            bayer=None, white_balance=(1.5, 1.0, 1.4), colour_matrix=((1.2, -0.1, -0.1), (0, 1, 0), (0, 0, 1))
        ),
        replace(MONO, noise=True, prnu=0.01, output_bits=8, white_balance="none"),
    ],
    ids=["usual", "16 bits", "three chips", "mono"],
)  # fmt: skip
def test_numpy_and_kernels_agree(sensor: SensorElectronics) -> None:
    bands = len(sensor.wavelengths_nm)
    radiance = scene()[..., :bands]
    cosines = axis_cosines(Intrinsics(64, 48, 60.0, 60.0, 31.5, 23.5))
    options: dict[str, Any] = {"cos_axis": cosines, "with_raw": True}
    host = develop(radiance, sensor, Exposure(1e-4), STREAM, **options)
    planes = [engine().table(radiance[..., band].astype(np.float32)) for band in range(bands)]
    made = develop(planes, sensor, Exposure(1e-4), STREAM, width=64, height=48, **options)
    assert host.raw is not None
    assert made.raw is not None
    assert host.colour.shape == made.colour.shape
    assert host.colour.dtype == made.colour.dtype
    step = np.abs(host.raw.astype(int) - made.raw.astype(int))
    # Numbers of 12 bits in float32, some 30 roundings of 2^-24 each: two values differ where the true one lies within
    # 4096 * 30 * 2^-24 = 0.0073 of a half, on either side.
    assert step.max() <= 1
    assert step.mean() <= 0.015
    stored = np.abs(host.colour.astype(int) - made.colour.astype(int))
    largest = 2**sensor.output_bits - 1
    # One number of 4031 moves sRGB by at most 12.92 / 4031, twice that where white balance or the filter enlarges it.
    assert stored.max() <= 1 + 3 * 12.92 / 4031 * largest


def test_exposure_of_kernels_is_that_of_numpy() -> None:
    planes = [engine().table(scene()[..., band].astype(np.float32)) for band in range(3)]
    host = develop(scene(), SensorElectronics(), AutoExposure(), STREAM)
    made = develop(planes, SensorElectronics(), AutoExposure(), STREAM, width=64, height=48)
    # Values at the edge of a bin may fall on either side of it: one in a thousand moves the mean by 5e-6.
    assert made.exposure_time_s == pytest.approx(host.exposure_time_s, rel=1e-4)


# ---- tone ----------------------------------------------------------------------------------------------------------


def test_curves() -> None:
    x = np.array([-0.1, 0.0, 0.002, 0.18, 0.5, 1.0, 1.7])
    # IEC 61966-2-1: 0.18 is stored as 0.4614, 0.5 as 0.7354.
    assert response(x, "srgb") == pytest.approx([0.0, 0.0, 0.02584, 0.46136, 0.73536, 1.0, 1.0], abs=1e-5)
    assert response(x, "linear") == pytest.approx([0.0, 0.0, 0.002, 0.18, 0.5, 1.0, 1.0])
    assert response(x, "gamma", 2.0) == pytest.approx([0.0, 0.0, 0.002**0.5, 0.18**0.5, 0.5**0.5, 1.0, 1.0])
    with pytest.raises(ConfigError, match="response curve"):
        response(x, "cubic")


def test_grey_world_makes_a_grey_card_grey() -> None:
    assert grey_world_gains([np.float64(2.0), np.float64(4.0), np.float64(1.0)]) == [2.0, 1.0, 4.0]
    assert grey_world_gains([np.float64(0.0), np.float64(4.0)]) == [1.0, 1.0]
    card = np.full((16, 16, 3), 1.0) * (9.0, 17.0, 13.0)
    made = develop(card, replace(QUIET, white_balance="auto", output_bits=8), Exposure(1e-4), STREAM)
    assert np.ptp(made.colour.astype(int), axis=2).max() <= 1
    assert made.colour.min() > 50


@pytest.mark.parametrize("bayer", ["RGGB", None])
def test_a_sky_that_is_full_in_one_band_does_not_tint_the_rest(bayer: str | None) -> None:
    """Half of the picture is a grey card, half a light in which green alone is full."""
    picture = np.full((16, 32, 3), 8.0)
    picture[:, 16:] = (30.0, 1e6, 30.0)
    sensor = replace(QUIET, bayer=bayer, white_balance="auto", quantum_efficiency=(0.4, 0.6, 0.5), output_bits=8)
    card = develop(picture, sensor, Exposure(1e-4), STREAM).colour[:, :12]
    assert np.ptp(card.astype(int), axis=2).max() <= 1


def test_colour_matrix_and_gains() -> None:
    swap = ((0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0))
    plain = develop(scene(), replace(QUIET, bayer=None), Exposure(1e-4), STREAM).colour
    swapped = develop(scene(), replace(QUIET, bayer=None, colour_matrix=swap), Exposure(1e-4), STREAM).colour
    assert np.array_equal(plain[..., ::-1], swapped)
    half = develop(scene(), replace(QUIET, bayer=None, white_balance=(0.5, 1.0, 1.0)), Exposure(1e-4), STREAM).colour
    assert np.abs(half[..., 0].astype(int) - plain[..., 0] / 2).max() <= 1


def test_jpeg_loses_little_and_less_at_high_quality() -> None:
    picture = develop(scene(), SensorElectronics(), AutoExposure(), STREAM).colour
    errors = [np.abs(jpeg(picture, quality).astype(int) - picture).mean() for quality in (30, 60, 95)]
    assert errors[0] > errors[1] > errors[2] > 0.0
    assert errors[2] < 5.0
    made = develop(scene(), SensorElectronics(jpeg_quality=60), AutoExposure(), STREAM).colour
    assert np.array_equal(made, jpeg(picture, 60))
    with pytest.raises(ConfigError, match="JPEG"):
        jpeg(np.zeros((4, 4, 2), np.uint8), 90)


# ---- wrong settings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bayer": "RGBG"}, "Bayer pattern"),
        ({"wavelengths_nm": (550.0,)}, "1 bands"),
        ({"wavelengths_nm": (550.0,), "quantum_efficiency": (0.5,)}, "red, green and blue"),
        ({"white_balance": "sunny"}, "white balance"),
        ({"white_balance": (1.0, 1.0)}, "white_balance has 2 entries"),
        ({"demosaic": "best"}, "demosaic"),
        ({"output_bits": 12}, "output_bits"),
        ({"adc_bits": 20}, "adc_bits"),
        ({"black_level_dn": 4095.0}, "black_level_dn"),
        ({"jpeg_quality": 90, "output_bits": 16}, "jpeg_quality"),
        ({"colour_matrix": ((1.0, 0.0),)}, "colour_matrix"),
        ({"curve": "cubic"}, "response curve"),
    ],
)
def test_wrong_settings_are_reported(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SensorElectronics(**change)


def test_wrong_pictures_are_reported() -> None:
    with pytest.raises(ConfigError, match="shape"):
        develop(np.zeros(5), MONO, Exposure(0.01), STREAM)
    with pytest.raises(ConfigError, match="got 2"):
        develop(np.zeros((4, 4, 2)), QUIET, Exposure(0.01), STREAM)
    with pytest.raises(ConfigError, match="width and height"):
        develop([np.zeros(5)], MONO, Exposure(0.01), STREAM)
    with pytest.raises(ConfigError, match="5 values"):
        develop([np.zeros(5)], MONO, Exposure(0.01), STREAM, width=2, height=2)
    with pytest.raises(ConfigError, match="time_s"):
        Exposure(0.0)


def test_the_sheet_s_gain_sets_the_digital_numbers() -> None:
    """A converter with 4 electrons per step reads half of one with 2, and exposes for its own full scale."""
    world = flat("lambert-50")
    raws = {}
    for gain in (None, 2.0, 4.0):
        sheet = camera_sheet(
            32, 24, sensor={"gain_e_per_dn": gain, "adc_bits": 12, "full_well_e": 10_000.0}, exposure={"time_s": 1e-5}
        )
        camera = ph.Camera(sheet, samples=2, bounces=0, truth=(), noise=False)
        raws[gain] = camera.shoot(world, pose=above(5.0), seed=1).colour.astype(float).mean()
    assert raws[4.0] == pytest.approx(0.5 * raws[2.0], rel=0.01)
    assert raws[None] == pytest.approx(raws[4.0] * 4.0 * 4095.0 / 10_000.0, rel=0.01)
    coarse, fine = (SensorElectronics(gain_e_per_dn=gain) for gain in (None, 1.0))
    assert coarse.full_scale_e == coarse.full_well_e
    assert fine.full_scale_e == fine.largest_dn - fine.black_level_dn
    assert fine.dn_per_e(20.0) == pytest.approx(10.0)
    rate = np.full((8, 8), 1000.0)
    assert auto_exposure(meter(rate.ravel()), 4000.0, AutoExposure(max_time_s=10.0)).time_s == pytest.approx(
        0.72, rel=0.01
    )


@pytest.mark.parametrize("sigma", [0.4, 0.5, 1.2])
def test_lens_blur_has_the_stated_modulation_transfer(sigma: float) -> None:
    sharp = replace(MONO, full_well_e=1e6, adc_bits=16, black_level_dn=0.0)
    scale = 2e5 / (MONO.electrons_per_radiance()[0] * 0.01)
    column = np.arange(240)
    for period in (4.0, 8.0):
        wave = np.tile(1.0 + 0.5 * np.sin(2.0 * np.pi * column / period), (24, 1)) * scale
        one, two = (
            develop(wave, sensor, Exposure(0.01), STREAM, with_raw=True).raw
            for sensor in (sharp, replace(sharp, blur_px=sigma))
        )
        assert one is not None
        assert two is not None
        found = np.ptp(two[:, 40:200].astype(float)) / np.ptp(one[:, 40:200].astype(float))
        # The Gaussian is integrated over pixels and sampled: its transfer repeats at multiples of the pixel frequency.
        cycles = 1.0 / period + np.arange(-3, 4)
        want = np.sum(np.exp(-2.0 * (np.pi * sigma * cycles) ** 2) * np.sinc(cycles))
        assert found == pytest.approx(want, abs=0.01)
        turned = develop(wave.T.copy(), replace(sharp, blur_px=sigma), Exposure(0.01), STREAM, with_raw=True).raw
        assert turned is not None
        assert np.array_equal(turned, two.T)


def test_lens_blur_lowers_the_colours_of_the_demosaic_at_edges() -> None:
    grey = np.where((np.arange(64) % 9 < 4)[None, :, None], 40.0, 4.0) * np.ones((48, 64, 3))

    def colourfulness(blur_px: float) -> float:
        sensor = replace(QUIET, quantum_efficiency=(0.5, 0.5, 0.5), wavelengths_nm=(540.0,) * 3, blur_px=blur_px)
        picture = develop(grey, sensor, Exposure(2e-4), STREAM).colour.astype(float)[4:-4, 4:-4]
        return float(np.sqrt(np.mean(np.var(picture, axis=2))))

    assert colourfulness(0.0) > 0.0
    assert colourfulness(0.5) < 0.7 * colourfulness(0.0)


def test_blur_on_the_device_is_that_of_numpy() -> None:
    light = scene()
    sensor = replace(QUIET, blur_px=0.7)
    host = develop(light, sensor, Exposure(1e-3), STREAM).colour
    planes = [engine().table(light[..., band].astype(np.float32)) for band in range(3)]
    made = develop(planes, sensor, Exposure(1e-3), STREAM, width=64, height=48).colour
    assert np.abs(host.astype(int) - made.astype(int)).max() <= 8
