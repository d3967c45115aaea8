"""Depth cameras: noise, shadows and edges of stereo and time of flight against closed forms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import parhelion as ph
from camera_rigs import BRIGHT, DARK, above, camera_sheet, flat
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.random import Stream
from parhelion.sensors.optics.camera.config import TimeOfFlight
from parhelion.sensors.optics.camera.depth import DepthDraws, fattened, flight_sigma

Array = NDArray[Any]
FX, BASELINE = 300.0, 0.1
ANY = {"kind": "stereo", "min_m": 0.1, "max_m": 100.0}


def stereo_camera(
    depth: dict[str, Any] | None = None, size: tuple[int, int] = (160, 120), *, picture: bool = False,
    options: dict[str, Any] | None = None, **stereo: Any,
) -> ph.Camera:  # fmt: skip
    sections = {"stereo": {"baseline_m": BASELINE, "window_px": 1, **stereo}, "depth": {**ANY, **(depth or {})}}
    return ph.Camera(camera_sheet(*size, fx=FX, **sections), picture=picture, truth=("depth",), **(options or {}))


def measured(camera: ph.Camera, world: ph.World, height: float, **shoot: Any) -> Array:
    found = camera.shoot(world, pose=above(height), **shoot).measured_depth
    assert found is not None
    return found.astype(np.float64)


# ---- stereo --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("distance", [1.0, 3.0, 6.0])
def test_noise_of_depth_is_that_of_disparity(distance: float) -> None:
    subpixel, linear = 0.05, 0.002
    camera = stereo_camera({"noise": {"linear": linear}}, subpixel_px=subpixel)
    depth = measured(camera, flat(), distance, seed=3)
    # The second lens does not see the left edge.
    disparity = FX * BASELINE / distance
    column = int(np.ceil(disparity))
    assert np.isnan(depth[:, : int(disparity) - 1]).all()
    seen = depth[:, column:].ravel()
    assert np.isfinite(seen).all()
    want = np.hypot(distance**2 * subpixel / (FX * BASELINE), linear * distance)
    # Five standard deviations of a mean and of a standard deviation of so many draws; 1/d bends by its own square.
    bend = (subpixel / disparity) ** 2
    assert np.std(seen) == pytest.approx(want, rel=5.0 / np.sqrt(2 * seen.size) + 3.0 * bend)
    assert np.mean(seen) == pytest.approx(distance * (1.0 + bend), abs=5.0 * want / np.sqrt(seen.size))


def test_the_second_lens_has_a_shadow_left_of_what_is_near() -> None:
    near, far = 1.5, 4.0
    world = flat()
    world.add(ph.shapes.box(2.0, 0.3, 0.1), material=BRIGHT, pose=ph.Pose((0, 0, far - near - 0.05)))
    depth = measured(stereo_camera(), world, far)
    width = FX * BASELINE * (1.0 / near - 1.0 / far)
    row = depth[60]
    left = int(np.flatnonzero(np.abs(row - near) < 0.01)[0])
    shadow = np.flatnonzero(np.isnan(row) & (np.arange(len(row)) > FX * BASELINE / far + 1))
    assert shadow[-1] == left - 1
    assert abs(len(shadow) - width) <= 1.0
    assert np.all(np.diff(shadow) == 1)
    # To the right of it both lenses see the ground.
    right = int(np.flatnonzero(np.abs(row - near) < 0.01)[-1])
    assert np.allclose(row[right + 1 :], far, atol=1e-3)


def test_windows_let_the_near_grow_and_mix() -> None:
    disparity = np.full((20, 40), 4.0)
    disparity[:, 15:25] = 12.0
    share = np.full(disparity.shape, 0.5)
    wide, answered = fattened(disparity, np.ones(disparity.shape, np.bool_), 7, share)
    row = wide[10]
    # Of a window of 7, two columns to each side take the near surface and one lies between.
    assert np.array_equal(np.flatnonzero(row == 12.0), np.arange(13, 27))
    assert np.array_equal(np.flatnonzero((row > 4.0) & (row < 12.0)), [12, 27])
    assert row[12] == 8.0
    assert answered.all()
    narrow, _ = fattened(disparity, answered, 1, share)
    assert np.array_equal(narrow, disparity)


def test_same_seed_same_bits() -> None:
    camera = stereo_camera(picture=True, options={"samples": 2}, subpixel_px=0.1, active=True)
    again = stereo_camera(picture=True, options={"samples": 2}, subpixel_px=0.1, active=True)
    world = flat()
    one, two, other = (measured(c, world, 2.0, seed=s) for c, s in ((camera, 7), (again, 7), (camera, 8)))
    assert one.tobytes() == two.tobytes()
    assert one.tobytes() != other.tobytes()


def test_range_disparity_and_steps_end_the_answers() -> None:
    world = flat()
    depth = measured(stereo_camera({"resolution_m": 0.05}, subpixel_px=0.1), world, 2.0)
    steps = depth[np.isfinite(depth)] / 0.05
    assert np.allclose(steps, np.round(steps), atol=1e-4)
    assert np.isnan(measured(stereo_camera(max_disparity_px=14.0), world, 2.0)).all()
    assert np.isnan(measured(stereo_camera(min_disparity_px=16.0), world, 2.0)).all()
    assert np.isnan(measured(stereo_camera({"max_m": 1.9}), world, 2.0)).all()
    assert np.isnan(measured(stereo_camera({"min_m": 2.1}), world, 2.0)).all()


def speckled(texels: int = 256, size: float = 6.0) -> ph.World:
    """A level ground with a random texture."""
    world = ph.World()
    texture = np.random.default_rng(5).uniform(0.1, 1.0, (texels, texels)).astype(np.float32)
    world.add(ph.shapes.plane(size, size), material="lambert-80", texture=texture)
    return world


def test_pictures_of_the_two_lenses_differ_by_the_disparity() -> None:
    camera = stereo_camera(picture=True, options={"samples": 48, "bounces": 0, "developed": False, "noise": False})
    for distance in (2.0, 3.7):
        image = camera.shoot(speckled(96), pose=above(distance), seed=2)
        assert image.right is not None
        left, right = image.colour[..., 0].astype(float), image.right[..., 0].astype(float)
        want = FX * BASELINE / distance
        shift = float(round(want))
        for _ in range(8):
            # Gauss and Newton: the shift of the right picture that makes it most like the left one.
            columns = np.arange(40, 150)
            at = columns - shift
            low = np.floor(at).astype(int)
            part = at - low
            guess = right[:, low] * (1.0 - part) + right[:, low + 1] * part
            slope = right[:, low + 1] - right[:, low]
            shift -= float(np.sum(slope * (left[:, columns] - guess)) / np.sum(slope * slope))
        assert shift == pytest.approx(want, abs=0.1)


def test_passive_stereo_needs_texture_and_active_stereo_does_not() -> None:
    sensor = {"full_well_e": 10_000.0, "read_noise_e": 3.0, "adc_bits": 12}
    answers = {}
    for name, world in (("bare", flat("lambert-50")), ("speckled", speckled())):
        for active in (False, True):
            stereo = {"baseline_m": BASELINE, "active": active}
            sheet = camera_sheet(fx=FX, sensor=sensor, exposure={"mode": "auto"}, stereo=stereo, depth=ANY)
            depth = measured(ph.Camera(sheet, samples=24, bounces=0, truth=()), world, 2.0)
            answers[name, active] = np.isfinite(depth[:, 20:]).mean()
    assert answers["bare", False] < 0.05
    assert answers["speckled", False] > 0.95
    assert answers["bare", True] > 0.99
    assert answers["speckled", True] > 0.99


def test_no_answer_where_the_picture_is_full_or_black() -> None:
    for time_s in (1.0, 1e-8):
        sheet = camera_sheet(
            fx=FX, rate_hz=1.0, exposure={"time_s": time_s}, stereo={"baseline_m": BASELINE, "active": True}, depth=ANY
        )
        depth = measured(ph.Camera(sheet, samples=2, bounces=0, truth=()), flat(), 2.0)
        assert np.isnan(depth).all()


@pytest.mark.parametrize("name", ["intel/realsense-d435-depth", "stereolabs/zed-2"])
def test_presets_measure_depth(name: str) -> None:
    camera = ph.Camera(name, width=480, height=270, samples=4, bounces=0)
    image = camera.shoot(speckled(256), pose=above(2.5), seed=1)
    assert image.measured_depth is not None
    assert image.depth is not None
    assert image.right is not None
    error = image.measured_depth - image.depth
    stereo = camera.config.stereo
    assert stereo is not None
    want = 2.5**2 * stereo.subpixel_px / (camera.intrinsics.fx * stereo.baseline_m)
    assert np.isfinite(error).mean() > 0.6
    assert np.nanstd(error) == pytest.approx(want, rel=0.05)


# ---- time of flight ------------------------------------------------------------------------------------------------

FLIGHT = {"modulation_mhz": 20.0, "signal_e": 5000.0, "ambient_e": 1000.0, "contrast": 0.8}


def flight_camera(**flight: Any) -> ph.Camera:
    depth = {"kind": "time-of-flight", "min_m": 0.0, "max_m": 100.0, "time_of_flight": {**FLIGHT, **flight}}
    return ph.Camera(camera_sheet(80, 60, fx=400.0, depth=depth), picture=False, truth=("depth",))


@pytest.mark.parametrize("distance", [1.0, 2.0, 4.0])
def test_noise_of_phase_follows_the_signal(distance: float) -> None:
    camera = flight_camera()
    image = camera.shoot(flat("lambert-50"), pose=above(distance), seed=2)
    assert image.measured_depth is not None
    middle = image.measured_depth[20:40, 25:55].astype(float)
    signal = 5000.0 * 0.5 / distance**2
    want = SPEED_OF_LIGHT_M_S / (4 * np.sqrt(2) * np.pi * 20e6) * np.sqrt(signal + 1000.0) / (0.8 * signal)
    # Towards the edge of the window the light falls by 1.5 %.
    assert np.std(middle) == pytest.approx(want, rel=5.0 / np.sqrt(2 * middle.size) + 0.015)
    assert np.mean(middle) == pytest.approx(distance, abs=5.0 * want / np.sqrt(middle.size) + 1e-4)
    one = flight_sigma(TimeOfFlight(**FLIGHT), np.array(signal))
    assert one == pytest.approx(want, rel=1e-12)


def test_multipath_makes_ranges_longer() -> None:
    camera = flight_camera(multipath=0.2, multipath_m=1.0)
    camera = ph.Camera(camera.config, picture=False, truth=("depth",), noise=False)
    depth = measured(camera, flat("lambert-50"), 2.0)
    turn = 4 * np.pi * 20e6 / SPEED_OF_LIGHT_M_S
    bias = np.arctan2(0.2 * np.sin(turn), 1.0 + 0.2 * np.cos(turn)) / turn
    assert bias > 0.1
    assert depth[30, 40] == pytest.approx(2.0 + bias, abs=1e-3)


def test_phase_repeats_and_weak_light_has_no_answer() -> None:
    repeat = SPEED_OF_LIGHT_M_S / (2 * 20e6)
    camera = ph.Camera(
        flight_camera(wraps=True, least_signal_to_noise=0.0).config, picture=False, truth=(), noise=False
    )
    assert measured(camera, flat("lambert-50"), repeat + 1.0)[30, 40] == pytest.approx(1.0, abs=1e-3)
    assert np.isnan(measured(flight_camera(least_signal_to_noise=20.0), flat("lambert-50"), 8.0)).all()
    assert np.isnan(measured(flight_camera(ambient_e=30_000.0), flat(DARK), 1.0)).all()  # full


def test_draws_are_those_of_the_pixel() -> None:
    stream = Stream(1, "depth", 2)
    one, two = DepthDraws.of(stream, (4, 6), noise=True), DepthDraws.of(stream, (4, 6), noise=True)
    assert np.array_equal(one.first, two.first)
    assert not np.array_equal(one.first, DepthDraws.of(replace(stream, number=3), (4, 6), noise=True).first)
    assert np.all(DepthDraws.of(stream, (4, 6), noise=False).first == 0.0)
