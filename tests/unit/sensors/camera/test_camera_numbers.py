"""Read-out, development, drops and depth of small pictures: closed forms, and recorded numbers computed with NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import convolve
from scipy.optimize import brentq
from scipy.stats import norm
from scipy.stats import poisson as counts

import parhelion as ph
from parhelion.core.image import Intrinsics
from parhelion.core.random import Stream, to_normal, to_unit, words
from parhelion.sensors.optics.camera import depth, readout, thermal
from parhelion.sensors.optics.camera.config import Depth, Stereo, TimeOfFlight
from parhelion.sensors.optics.camera.electronics import SensorElectronics, axis_cosines, develop
from parhelion.sensors.optics.camera.lens_drops import lens_drops, through_lens_drops
from parhelion.sensors.optics.camera.truth import PixelTruth
from pins import check

STREAM = Stream(3, "camera/numbers", 5)
NUMBERS = np.arange(4000, dtype=np.uint32)

# ---- read-out --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [0.0, 0.02, 0.7, 5.0, 15.999, 16.0])
def test_small_poisson_numbers_are_quantiles(mean: float) -> None:
    a, b, _, _ = STREAM.words(NUMBERS)
    found = readout.poisson(np.full(4000, mean), a, b)
    assert found == pytest.approx(np.maximum(counts.ppf(to_unit(a), mean), 0.0) if mean else np.zeros(4000))


@pytest.mark.parametrize("mean", [16.001, 40.0, 3e4])
def test_large_poisson_numbers_are_the_expansion(mean: float) -> None:
    a, b, _, _ = STREAM.words(NUMBERS)
    z = to_normal(a, b)[0]
    bent = (z**2 - 1.0) / 6.0 - (z**3 + 2.0 * z) / (72.0 * np.sqrt(mean))
    assert (
        readout.poisson(np.full(4000, mean), a, b).tolist() == np.floor(mean + np.sqrt(mean) * z + bent + 0.5).tolist()
    )


def test_light_on_a_pixel() -> None:
    assert readout.irradiance(7.0, f_number=2.0, transmission=0.5) == pytest.approx(7.0 * np.pi * 0.5 / 16.0)
    cos = np.linspace(0.1, 1.0, 7)
    for strength in (0.0, 0.6, 1.0, 1.5):
        assert readout.falloff(cos, strength) == pytest.approx(cos ** (4.0 * strength))


@pytest.mark.parametrize("patterned", [False, True])
@pytest.mark.parametrize("noisy", [False, True])
def test_electrons_of_pixels(patterned: bool, noisy: bool) -> None:
    """Signal times gain, plus dark signal; the well is full before offset and read noise are added."""
    signal, keys = np.linspace(0.0, 60.0, 4000), (STREAM.key, Stream(8, "pattern").key)
    found = readout.collected(
        signal, NUMBERS, *keys, dark_e=3.0, prnu=0.4, dsnu_e=0.7, full_well_e=50.0, read_noise_e=1.3,
        patterned=patterned, noisy=noisy,
    )  # fmt: skip
    a, b, c, d = words(keys[0], NUMBERS)
    response, dark = to_normal(*words(keys[1], NUMBERS)[:2]) if patterned else (np.zeros(4000), np.zeros(4000))
    mean = signal * np.maximum(1.0 + 0.4 * response, 0.0) + 3.0
    electrons = np.minimum(readout.poisson(mean, a, b) if noisy else mean, 50.0)
    assert found == pytest.approx(electrons + 0.7 * dark + (1.3 * to_normal(c, d)[0] if noisy else 0.0))
    assert np.any(1.0 + 0.4 * response < 0.0) == patterned


def test_digital_numbers_are_rounded_and_clipped() -> None:
    electrons = np.array([-50.0, -3.0, 0.0, 0.49, 0.5, 7.3, 1e6])
    found = readout.digitised(electrons, dn_per_e=1.0, black_level_dn=2.0, largest_dn=255.0)
    assert found.tolist() == [0.0, 0.0, 2.0, 2.0, 3.0, 9.0, 255.0]
    assert readout.digitised(np.array([3.0]), dn_per_e=2.5, black_level_dn=0.0, largest_dn=255.0).tolist() == [8.0]


def test_bins_of_the_light_meter() -> None:
    """128 bins per octave from 1/256 electron a second on, 40 octaves; darkness is the first bin."""
    rates = np.array([0.0, 2.0**-8 * 1.001, 1.001, 2.0 ** (1.0 / 128.0) * 1.001, 2.0**31.999, 1e30])
    assert readout.meter_bin(rates).tolist() == [0.0, 0.0, 1024.0, 1025.0, 5119.0, 5119.0]
    assert readout.meter(rates).sum() == 6
    assert readout.meter(rates)[[0, 1024, 1025, 5119]].tolist() == [2, 1, 1, 2]
    assert readout.bin_rates()[[0, 1, 1024]] == pytest.approx([0.0, 2.0 ** (-8.0 + 1.5 / 128.0), 2.0 ** (0.5 / 128.0)])
    assert len(readout.bin_rates()) == len(readout.meter(rates)) == 5120


def test_exposures_of_histograms() -> None:
    random = np.random.default_rng(2)
    histogram = np.zeros(5120)
    histogram[random.integers(900, 3000, 200)] += random.integers(1, 50, 200)
    histogram[0] = 300.0
    wide = readout.AutoExposure(min_time_s=1e-12, max_time_s=1e6, target=0.2)
    level = readout.bin_rates() / 1000.0

    def left(logarithm: float) -> float:
        return float(np.sum(histogram * np.minimum(np.exp(logarithm) * level, 1.0)) / histogram.sum() - 0.2)

    expected = np.exp(brentq(left, -30.0, 30.0, xtol=1e-13))
    chosen = readout.auto_exposure(histogram, 1000.0, wide)
    assert (chosen.time_s, chosen.gain_db) == (pytest.approx(expected, rel=1e-9), 0.0)
    for percentile in (5.0, 40.0, 99.0, 100.0):
        settings = replace(wide, meter="percentile", percentile=percentile)
        place = int(np.argmax(np.cumsum(histogram) >= percentile / 100.0 * histogram.sum()))
        found = readout.auto_exposure(histogram, 1000.0, settings)
        if place == 0:
            assert found == readout.Exposure(1e6, 24.0)
        else:
            assert found.time_s == pytest.approx(0.2 / level[place], rel=1e-12)
    bright = np.zeros(5120)
    bright[-1] = 9.0
    last = readout.auto_exposure(bright, 1000.0, replace(wide, meter="percentile"))
    assert last.time_s == pytest.approx(0.2 / level[-1], rel=1e-12)
    assert readout.auto_exposure(bright, 1000.0, wide).time_s == pytest.approx(0.2 / level[-1], rel=1e-12)
    # A share of lit pixels equal to the target cannot reach it.
    half = np.zeros(5120)
    half[[0, 2000]] = 80.0, 20.0
    assert readout.auto_exposure(half, 1000.0, wide) == readout.Exposure(1e6, 24.0)
    for wrong in (
        {"min_time_s": 0.0}, {"min_time_s": 1.0, "max_time_s": 0.5}, {"max_time_s": np.inf}, {"gain_db": 25.0},
        {"target": 0.0}, {"target": 1.0}, {"percentile": 0.0}, {"percentile": 100.1},
    ):  # fmt: skip
        with pytest.raises(ph.ConfigError, match="exposure:"):
            readout.AutoExposure(**wrong)  # type: ignore[arg-type]
    readout.AutoExposure(min_time_s=0.5, max_time_s=0.5, gain_db=24.0, percentile=100.0)
    for time, gain in ((0.0, 0.0), (np.inf, 0.0), (1.0, np.nan)):
        with pytest.raises(ph.ConfigError, match="exposure: time_s must be above 0"):
            readout.Exposure(time, gain)


def test_glare_is_a_convolution_over_what_the_picture_shows() -> None:
    picture = np.random.default_rng(4).random((9, 12, 2)).astype(np.float32)
    down, across = np.mgrid[-8:9, -11:12]
    kernel = 1.0 / (down**2 + across**2 + 1.0)
    inside = convolve(np.ones((9, 12)), kernel, mode="constant")
    for band in (0, 1):
        scattered = convolve(picture[..., band].astype(float), kernel, mode="constant") / inside
        expected = 0.9 * picture[..., band] + 0.1 * scattered
        assert readout.with_glare(picture, 0.1)[..., band] == pytest.approx(expected, rel=1e-6)


# ---- development and drops -------------------------------------------------------------------------------------------

SENSORS = {
    "usual": SensorElectronics(blur_px=0.6),
    "bilinear": SensorElectronics(bayer="GBRG", demosaic="bilinear", output_bits=16, chromatic_scale=(1.02, 1.0, 0.97)),
    "three": SensorElectronics(
        bayer=None, white_balance=(1.5, 1.0, 1.4), colour_matrix=((1.2, -0.1, -0.1), (0, 1, 0), (0, 0.1, 0.9)),
        curve="gamma", gamma=1.8, vignetting=1.4,
    ),
    "auto": SensorElectronics(bayer=None, dsnu_e=0.0, prnu=0.2, gain_e_per_dn=1.7, adc_bits=10, black_level_dn=0.0),
    "even": SensorElectronics(bayer=None, dsnu_e=6.0, prnu=0.0, noise=False, curve="linear", dark_current_e_s=900.0),
    "jpeg": SensorElectronics(bayer="BGGR", jpeg_quality=60, output_bits=8, white_balance="none", full_well_e=900.0),
}  # fmt: skip


@pytest.mark.parametrize("name", SENSORS)
def test_numbers_of_developed_pictures(name: str) -> None:
    row, column = np.mgrid[:22, :34]
    light = np.stack(
        [12.0 + row, 20.0 * np.exp(-column / 9.0), 9.0 + 7.0 * np.sin(column / 3.0) * np.cos(row)], axis=-1
    )
    light[4:8, 5:9] *= 60.0
    cosines = axis_cosines(Intrinsics(34, 22, 30.0, 31.0, 16.0, 11.0))
    for exposure in (readout.Exposure(4e-4, 3.0), readout.AutoExposure(target=0.3)):
        made = develop(light, SENSORS[name], exposure, STREAM, cos_axis=cosines, with_raw=True)
        assert made.raw is not None
        check(
            f"camera/develop-{name}-{type(exposure).__name__}", rel=1e-5, colour=made.colour, raw=made.raw,
            exposure=[made.exposure_time_s, made.gain_db],
        )  # fmt: skip


def test_the_colour_of_open_pixels_alone_counts() -> None:
    """A band that is full in any pixel takes that pixel out of the grey world, whichever band it is."""
    from parhelion.sensors.optics.camera.electronics import Static, _means

    raws = [np.array([10.0, 255.0, 30.0, 40.0]), np.array([20.0, 50.0, 255.0, 60.0]), np.array([1.0, 2.0, 3.0, 255.0])]
    found = _means(raws, np.arange(4, dtype=np.uint32), [1.0, 255.0], Static((2, 2, None)))
    assert [float(one) for one in found] == [9.0, 19.0, 0.0]


def test_drops_at_the_edges_of_a_picture() -> None:
    lens = Intrinsics(40, 30, 35.0, 36.0, 20.0, 15.0)
    found = lens_drops(lens, seed=3, count=25, radius_px=(1.5, 9.0))
    check("camera/lens-drops", rel=1e-5, **vars(found))
    plane = np.random.default_rng(1).random(1200)
    check("camera/through-drops", rel=1e-5, plane=through_lens_drops(plane, found, 40, 30))
    # A drop alone, wherever it is: the share is that of its disc with a soft rim, in all four corners too.
    a, b, c, _ = Stream(11, "camera/lens-drops").words(np.arange(60))
    shares = np.zeros((30, 40))
    for number in range(60):
        stop = np.arange(60) == number
        u, v, radius = to_unit(a)[stop][0] * 40 - 0.5, to_unit(b)[stop][0] * 30 - 0.5, 3.0 * 2.0 ** to_unit(c)[stop][0]
        row, column = np.mgrid[:30, :40]
        expected = np.clip((radius - np.hypot(column - u, row - v)) / (0.3 * radius) + 0.5, 0.0, 1.0)
        shares = np.maximum(expected, shares)
    assert lens_drops(lens, seed=11, count=60, radius_px=(3.0, 6.0)).share == pytest.approx(shares.ravel(), abs=1e-5)


def test_thermal_pictures() -> None:
    kelvin = 280.0 + 20.0 * np.random.default_rng(2).random((12, 16))
    curve = thermal.thermal_curve((8.0, 14.0), (200.0, 400.0))
    radiance = thermal.band_radiance_um(kelvin, (8.0, 14.0))
    check("camera/thermal", rel=1e-6, radiance=radiance, table=next(iter(vars(curve).values())),
          shown=thermal.stretched(kelvin), narrow=thermal.stretched(kelvin, (5.0, 80.0)))  # fmt: skip


# ---- depth -----------------------------------------------------------------------------------------------------------

LENS = Intrinsics(36, 26, 30.0, 30.0, 17.5, 12.5)


def scenery() -> tuple[np.ndarray[Any, Any], PixelTruth, PixelTruth]:
    """A slanted wall with a near box and a hole, from both lenses; directions of the pixels."""
    row, column = np.mgrid[:26, :36].astype(float)
    ray = np.stack([np.ones_like(row), -(column - 17.5) / 30.0, -(row - 12.5) / 30.0], axis=-1)
    unit = ray / np.linalg.norm(ray, axis=-1, keepdims=True)

    def truth(shift: float) -> PixelTruth:
        z = 3.0 + 0.02 * (column + shift)
        box = (np.abs(column + shift - 14) < 5) & (np.abs(row - 12) < 6)
        z = np.where(box, 1.1, z)
        z = np.where((row < 3) & (column > 30), np.inf, z)
        normal = np.where(box[..., None], [-1.0, 0.0, 0.0], np.array([-0.9, 0.3, 0.316])).astype(np.float32)
        whole = np.zeros(z.shape, np.int64)
        reach = np.where(np.isfinite(z), z * np.linalg.norm(ray, axis=-1), np.inf)
        light = np.where(np.isfinite(z), 0.3 + 0.2 * box, 0.0).astype(np.float32)
        return PixelTruth(reach.astype(np.float32), z.astype(np.float32), normal, whole, whole, whole, light)

    return unit, truth(0.0), truth(2.0)


STEREOS = {
    "plain": Stereo(baseline_m=0.08),
    "noisy": Stereo(baseline_m=0.08, subpixel_px=0.1, correlation_px=1.2, window_px=7, pattern_m=2.0, active=True),
    "limited": Stereo(baseline_m=0.08, min_disparity_px=0.7, max_disparity_px=2.1, window_px=1),
}


@pytest.mark.parametrize("name", STEREOS)
def test_numbers_of_matched_pictures(name: str) -> None:
    unit, left, right = scenery()
    random = np.random.default_rng(5)
    texture = random.integers(0, 256, (26, 40, 3))
    pictures = texture[:, :36].astype(np.uint8), texture[:, 2:38].astype(np.uint8)
    draws = depth.DepthDraws.of(STREAM, (26, 36), noise=name != "plain")
    sheet = Depth(kind="stereo", min_m=0.2, max_m=3.6, resolution_m=0.001)
    unit_error = depth.StereoCalibration.of(Stereo(baseline_m=1, offset_px=0.05, tilt_px=0.03, scale=0.01), "a")
    for label, more in (("bare", {}), ("seen", {"pictures": pictures, "calibration": unit_error})):
        found = depth.stereo_depth(STEREOS[name], sheet, LENS, unit, left, right, draws, **more)  # type: ignore[arg-type]
        assert label == "seen" or np.isfinite(found).any()
        check(f"camera/stereo-{name}-{label}", rel=1e-6, depth=found, answered=np.isfinite(found))


FLIGHTS: dict[str, Any] = {
    "sheet": None,
    "plain": {},
    "many": {"multipath": 0.1, "harmonic": 0.02, "interreflection": True, "wraps": True, "modulation_mhz": 60.0},
    "weak": {"ambient_e": 9000.0, "contrast": 0.7, "least_signal_to_noise": 12.0, "edge_share": 0.3},
}


@pytest.mark.parametrize("name", FLIGHTS)
def test_numbers_of_times_of_flight(name: str) -> None:
    unit, left, _ = scenery()
    changes = FLIGHTS[name]
    flight = None if changes is None else TimeOfFlight(**{"modulation_mhz": 20.0, "signal_e": 3e4, **changes})
    noise = {"constant_m": 0.002, "linear": 0.003, "quadratic_per_m": 0.001}
    sheet = Depth(kind="time-of-flight", min_m=0.2, max_m=9.0, noise=noise, time_of_flight=flight)  # type: ignore[arg-type]
    draws = depth.DepthDraws.of(STREAM, (26, 36), noise=True)
    for well in (8e3, 1e6):
        found = depth.flight_depth(sheet, unit, left, draws, well)
        check(f"camera/flight-{name}-{well:g}", rel=1e-6, depth=found, answered=np.isfinite(found))


def test_disparities_need_a_surface_at_a_positive_depth() -> None:
    metres = np.array([[2.0, 0.0, -1.0, np.inf, np.nan, 4.0]], np.float32)
    assert depth._disparity(metres, 8.0).tolist() == [[4.0, 0.0, 0.0, 0.0, 0.0, 2.0]]


def test_the_calibration_of_a_unit_is_that_of_its_first_draw() -> None:
    a, b, c, d = Stream(0, "stereo-calibration/u").words(np.arange(1, dtype=np.uint32))
    one, two = to_normal(a, b), to_normal(c, d)
    found = depth.StereoCalibration.of(Stereo(baseline_m=1, offset_px=2.0, tilt_px=3.0, scale=0.5), "u")
    assert found.offset_px == pytest.approx(2.0 * float(one[0][0]))
    assert found.tilt_px == pytest.approx((3.0 * float(one[1][0]), 3.0 * float(two[0][0])))
    assert found.scale == pytest.approx(0.5 * float(two[1][0]))
    assert abs(norm.cdf(found.scale) - 0.5) < 0.5
