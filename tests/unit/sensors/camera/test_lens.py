"""Lens projection and its inverse against OpenCV and closed forms; lenses that cannot exist."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.image import Intrinsics
from parhelion.sensors.optics.camera import lens
from parhelion.sensors.optics.camera.lens import padded, radial_map

PLAIN = Intrinsics(640, 480, 400.0, 410.0, 319.5, 239.5)
NO_TURN = np.zeros(3)


@st.composite
def pinholes(draw: st.DrawFn) -> Intrinsics:
    """Lenses whose distortion moves the corner of the picture by some ten percent."""
    width, height = draw(st.integers(32, 4000)), draw(st.integers(32, 3000))
    fx = width * draw(st.floats(0.3, 5.0))
    fy = fx * draw(st.floats(0.9, 1.1))
    cx, cy = width * draw(st.floats(0.3, 0.7)), height * draw(st.floats(0.3, 0.7))
    corner = math.hypot(0.7 * width / fx, 0.7 * height / fy)
    terms = [draw(st.floats(-0.15, 0.2)) / corner**power for power in (2, 4, 6)]
    decentring = [draw(st.floats(-0.02, 0.02)) / corner for _ in range(2)]
    numbers = [terms[0], terms[1], *decentring, terms[2]]
    model = draw(st.sampled_from(["plumb_bob", "rational_polynomial"]))
    if model == "rational_polynomial":
        numbers += [draw(st.floats(-0.1, 0.1)) / corner**power for power in (2, 4, 6)]
    made = Intrinsics(width, height, fx, fy, cx, cy, 0.0, model, tuple(numbers))
    assume(passes(made))
    return made


@st.composite
def fisheyes(draw: st.DrawFn) -> Intrinsics:
    """Lenses of 60 to 250 degrees from corner to corner."""
    width, height = draw(st.integers(32, 4000)), draw(st.integers(32, 3000))
    edge = draw(st.floats(0.5, 2.2))
    f = 0.5 * math.hypot(width, height) / edge
    numbers = tuple(draw(st.floats(-0.06, 0.06)) / edge**power for power in (2, 4, 6, 8))
    made = Intrinsics(width, height, f, f * 1.01, 0.5 * width, 0.49 * height, 0.0, "equidistant", numbers)
    assume(passes(made))
    return made


def passes(intrinsics: Intrinsics) -> bool:
    try:
        lens.check(intrinsics)
    except ConfigError:
        return False
    return True


def pixels(intrinsics: Intrinsics, seed: int, n: int = 200) -> NDArray[np.float64]:
    """Pixels all over the picture, its four corners among them."""
    low, high = [-0.5, -0.5], [intrinsics.width - 0.5, intrinsics.height - 0.5]
    drawn = np.random.default_rng(seed).uniform(low, high, (n, 2))
    return np.concatenate([drawn, [low, [low[0], high[1]], [high[0], low[1]], high]])


def optical(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """From x forward, y left, z up to x right, y down, z forward."""
    return np.stack([-points[:, 1], -points[:, 2], points[:, 0]], axis=1)


def by_opencv(intrinsics: Intrinsics, points: NDArray[np.float64]) -> Any:
    cv2 = pytest.importorskip("cv2")
    numbers = np.array(padded(intrinsics.model, intrinsics.distortion))
    function = cv2.fisheye.projectPoints if intrinsics.model == "equidistant" else cv2.projectPoints
    return function(optical(points)[:, None], NO_TURN, NO_TURN, intrinsics.matrix, numbers)[0][:, 0]


@given(pinholes(), st.integers(0, 100))
def test_pinholes_project_as_opencv_does(intrinsics: Intrinsics, seed: int) -> None:
    points = lens.directions(intrinsics, pixels(intrinsics, seed)) * 7.0
    uv, _ = lens.project(intrinsics, points)
    np.testing.assert_allclose(uv, by_opencv(intrinsics, points), atol=1e-8)


@given(pinholes(), st.integers(0, 100))
def test_pinholes_bend_by_brown_and_conrady(intrinsics: Intrinsics, seed: int) -> None:
    x, y = (optical(lens.directions(intrinsics, pixels(intrinsics, seed))) * 7.0)[:, :2].T
    ahead = 7.0 * lens.directions(intrinsics, pixels(intrinsics, seed))[:, 0]
    x, y = x / ahead, y / ahead
    k1, k2, p1, p2, k3, k4, k5, k6 = (*padded(intrinsics.model, intrinsics.distortion), 0.0, 0.0, 0.0)[:8]
    s = x**2 + y**2
    radial = (1.0 + k1 * s + k2 * s**2 + k3 * s**3) / (1.0 + k4 * s + k5 * s**2 + k6 * s**3)
    bent_x = x * radial + 2.0 * p1 * x * y + p2 * (s + 2.0 * x**2)
    bent_y = y * radial + p1 * (s + 2.0 * y**2) + 2.0 * p2 * x * y
    expected = np.stack([intrinsics.fx * bent_x + intrinsics.cx, intrinsics.fy * bent_y + intrinsics.cy], axis=1)
    uv, _ = lens.project(intrinsics, np.stack([ahead, -x * ahead, -y * ahead], axis=1))
    np.testing.assert_allclose(uv, expected, atol=1e-8 * intrinsics.fx)
    np.testing.assert_allclose(uv, pixels(intrinsics, seed), atol=1e-6)


@given(fisheyes(), st.integers(0, 100))
def test_fisheyes_bend_by_kannala_and_brandt(intrinsics: Intrinsics, seed: int) -> None:
    looked = lens.directions(intrinsics, pixels(intrinsics, seed))
    angle, turn = np.arccos(np.clip(looked[:, 0], -1.0, 1.0)), np.arctan2(-looked[:, 2], -looked[:, 1])
    powers = sum(k * angle ** (2 * n + 3) for n, k in enumerate(padded("equidistant", intrinsics.distortion)))
    bent = angle + powers
    expected = np.stack(
        [
            intrinsics.fx * bent * np.cos(turn) + intrinsics.cx,
            intrinsics.fy * bent * np.sin(turn) + intrinsics.cy,
        ],
        axis=1,
    )
    np.testing.assert_allclose(pixels(intrinsics, seed), expected, atol=1e-5 * intrinsics.fx)


def without_distortion(cv2: Any, uv: NDArray[Any], matrix: NDArray[Any], numbers: NDArray[Any]) -> NDArray[Any]:
    """Normalised coordinates by OpenCV's fixed point with 500 steps; versions below 4.10 have another name for it."""
    stop = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 500, 1e-14)
    points = uv[:, None]
    try:
        found = cv2.undistortPoints(points, matrix, numbers, criteria=stop)
    except cv2.error:
        found = cv2.undistortPointsIter(points, matrix, numbers, np.eye(3), np.eye(3), stop)
    return np.asarray(found)[:, 0]


@given(pinholes(), st.integers(0, 100))
def test_pinholes_look_where_opencv_says(intrinsics: Intrinsics, seed: int) -> None:
    cv2 = pytest.importorskip("cv2")
    uv = pixels(intrinsics, seed)
    looked = optical(lens.directions(intrinsics, uv))
    numbers = np.array(padded(intrinsics.model, intrinsics.distortion))
    ideal = without_distortion(cv2, uv, intrinsics.matrix, numbers)
    # OpenCV's fixed point does not always arrive; where its own projection gives the pixel back, we must agree.
    back, _ = lens.project(intrinsics, np.stack([np.ones(len(ideal)), -ideal[:, 0], -ideal[:, 1]], axis=1))
    arrived = np.abs(back - uv).max(axis=1) < 1e-9 * intrinsics.fx
    np.testing.assert_allclose((looked[:, :2] / looked[:, 2:])[arrived], ideal[arrived], rtol=1e-5, atol=1e-6)


def test_opencv_arrives_with_an_everyday_lens() -> None:
    """Guard against a vacuous comparison above."""
    cv2 = pytest.importorskip("cv2")
    made = replace(PLAIN, distortion=(-0.2, 0.05, 1e-3, -5e-4, 0.01))
    uv = pixels(made, 3)
    ideal = without_distortion(cv2, uv, made.matrix, np.array(made.distortion))
    looked = optical(lens.directions(made, uv))
    np.testing.assert_allclose(looked[:, :2] / looked[:, 2:], ideal, atol=1e-10)


@given(fisheyes(), st.integers(0, 100))
def test_fisheyes_project_and_look_as_opencv_does_up_to_a_right_angle(intrinsics: Intrinsics, seed: int) -> None:
    cv2 = pytest.importorskip("cv2")
    uv = pixels(intrinsics, seed)
    looked = lens.directions(intrinsics, uv)
    # OpenCV's goes by x / z and y / z, and cuts distorted angles off at 90 degrees.
    ahead = looked[:, 0] > 0.02
    np.testing.assert_allclose(by_opencv(intrinsics, looked[ahead]), uv[ahead], atol=1e-8)
    spread = (uv - [intrinsics.cx, intrinsics.cy]) / [intrinsics.fx, intrinsics.fy]
    ahead &= np.linalg.norm(spread, axis=1) < math.pi / 2
    numbers = np.array(padded(intrinsics.model, intrinsics.distortion))
    ideal = cv2.fisheye.undistortPoints(uv[ahead][:, None], intrinsics.matrix, numbers)[:, 0]
    ours = optical(looked[ahead])
    np.testing.assert_allclose(ours[:, :2] / ours[:, 2:], ideal, rtol=1e-5, atol=1e-6)


@given(pinholes() | fisheyes(), st.floats(-0.05, 0.05), st.integers(0, 100))
def test_pixels_come_back(intrinsics: Intrinsics, skew: float, seed: int) -> None:
    skewed = replace(intrinsics, skew=skew * intrinsics.fx)
    assume(passes(skewed))
    uv = pixels(skewed, seed)
    looked = lens.directions(skewed, uv)
    np.testing.assert_allclose(np.linalg.norm(looked, axis=1), 1.0, atol=1e-14)
    back, inside = lens.project(skewed, looked)
    np.testing.assert_allclose(back, uv, atol=1e-9, rtol=0)
    assert inside[:-4].all()


@given(pinholes() | fisheyes(), st.lists(st.floats(-1e7, 1e7), min_size=2, max_size=2))
def test_directions_are_finite_far_outside_of_the_picture(intrinsics: Intrinsics, uv: list[float]) -> None:
    looked = lens.directions(intrinsics, [uv])
    assert np.isfinite(looked).all()
    assert np.linalg.norm(looked) == pytest.approx(1.0, abs=1e-12)


def test_axes_by_hand() -> None:
    uv, inside = lens.project(PLAIN, [[1, 0, 0], [2, 0.5, 0], [2, 0, 0.5], [10, -20, 0], [-1, 0, 0], [0, 0, 0]])
    np.testing.assert_allclose(uv[:4], [[319.5, 239.5], [219.5, 239.5], [319.5, 137.0], [1119.5, 239.5]])
    assert np.isnan(uv[4:]).all()
    assert inside.tolist() == [True, True, True, False, False, False]


def test_skew_by_hand() -> None:
    uv, _ = lens.project(replace(PLAIN, skew=8.0), [[1.0, 0.0, -0.25]])
    np.testing.assert_allclose(uv, [[319.5 + 8.0 * 0.25, 239.5 + 410.0 * 0.25]])


def test_fisheye_sees_behind_itself() -> None:
    fisheye = Intrinsics(1000, 1000, 200.0, 200.0, 499.5, 499.5, model="equidistant")
    angle = math.radians(110.0)
    uv, inside = lens.project(fisheye, [[math.cos(angle), -math.sin(angle), 0.0], [-1.0, 0.0, 0.0]])
    np.testing.assert_allclose(uv[0], [499.5 + 200.0 * angle, 499.5])
    assert inside.tolist() == [True, False]


def test_edges_of_the_picture_belong_to_its_first_pixels() -> None:
    looked = lens.directions(PLAIN, [[-0.5 + 1e-9, 0.0], [-0.5 - 1e-6, 0.0], [639.5 - 1e-6, 0.0], [639.5 + 1e-9, 0.0]])
    assert lens.project(PLAIN, looked)[1].tolist() == [True, False, True, False]


def test_points_beyond_the_fold_are_not_inside() -> None:
    """Barrel distortion k1 = -0.3 turns back at r = 1 / sqrt(0.9); OpenCV puts wider points into the picture again."""
    barrel = replace(PLAIN, width=300, height=200, cx=149.5, cy=99.5, fx=400.0, distortion=(-0.3,))
    lens.check(barrel)
    assert radial_map("plumb_bob", (-0.3,)).fold == pytest.approx(1 / math.sqrt(0.9), rel=1e-12)
    point = np.array([[1.0, 1.8, 0.0]])
    assert abs(by_opencv(barrel, point)[0, 0] - 149.5) < 150.0
    uv, inside = lens.project(barrel, point)
    assert np.isnan(uv).all()
    assert not inside[0]


def test_points_that_are_no_numbers_are_outside() -> None:
    for made in (PLAIN, replace(PLAIN, model="equidistant")):
        uv, inside = lens.project(made, [[math.nan, 0, 0], [math.inf, math.inf, 0], [1.0, math.nan, 0]])
        assert not inside.any()
        assert np.isnan(uv).all()
    assert lens.project(PLAIN, np.empty((0, 3)))[0].shape == (0, 2)
    assert lens.directions(PLAIN, np.empty((0, 2))).shape == (0, 3)
    with pytest.raises(ConfigError, match=r"shape \(n, 3\)"):
        lens.project(PLAIN, [1.0, 2.0, 3.0])
    with pytest.raises(ConfigError, match=r"shape \(n, 2\)"):
        lens.directions(PLAIN, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fx": 0.0}, "fx must be a positive number of pixels, got 0.0"),
        ({"fy": -400.0}, "fy must be a positive number of pixels, got -400.0"),
        ({"fx": math.nan}, "fx must be a positive number"),
        ({"fx": math.inf}, "fx must be a positive number"),
        ({"cx": 5000.0}, "cx must be within one picture's size of the picture, -640 to 1280, got 5000.0"),
        ({"cy": math.nan}, "cy must be within"),
        ({"skew": math.nan}, "skew must be smaller than fx"),
        ({"width": 0}, "width must be at least 1 pixel"),
        ({"baseline_m": -1.0}, "baseline_m must be 0 or more"),
        ({"model": "tilted"}, "model must be one of plumb_bob, rational_polynomial, equidistant, got 'tilted'"),
        ({"distortion": (0.0,) * 6}, "has 5 numbers at most, got 6"),
        ({"distortion": (0.0, math.nan)}, r"distortion\[1\] must be between"),
        ({"distortion": (-0.5,)}, r"folds back 219\.6 pixels from the principal point, near pixel .* 39\.2 degrees"),
        ({"distortion": (0.0, 0.0, 0.0, 0.5)}, "folds back .* through its decentring"),
        ({"model": "equidistant", "fx": 100.0, "fy": 100.0}, "a fisheye looks straight back 314.2 pixels from"),
        ({"model": "equidistant", "distortion": (-0.5,)}, "distortion folds back .* 46.8 degrees off the axis"),
        ({"fx": 0.01, "fy": 0.01}, "a pinhole lens looks sideways"),
    ],
)
def test_impossible_lenses_are_reported_in_one_sentence(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        lens.check(replace(PLAIN, **change))
    assert "\n" not in str(caught.value)


def test_the_fold_is_found_where_the_slope_is_zero() -> None:
    """218 pixels: d = r + k1 r^3 has its top at r = 1 / sqrt(-3 k1), d = 2 r / 3."""
    barrel = replace(PLAIN, fy=400.0, distortion=(-0.5,))
    with pytest.raises(ConfigError, match=f"folds back {400 * 2 / 3 / math.sqrt(1.5):.1f} pixels"):
        lens.check(barrel)
    lens.check(replace(barrel, width=340, height=260, cx=169.5, cy=129.5))  # a picture that ends before


@given(st.lists(st.floats(-2.0, 2.0), min_size=8, max_size=8))
def test_the_radial_map_rises_to_its_end_and_comes_back(numbers: list[float]) -> None:
    radial = radial_map("rational_polynomial", numbers)
    r = np.linspace(0.0, min(radial.end, 20.0), 300)
    d, slope = radial.with_slope(r)
    assert (slope[:-1] > -1e-9).all()
    np.testing.assert_allclose(radial(radial.inverse(d)), d, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("numbers", [(), (-0.1, 0.02, 1e-3, -2e-3, 0.001)])
def test_corner_directions_are_those_of_the_corners(numbers: tuple[float, ...]) -> None:
    made = Intrinsics(200, 130, 150.0, 151.0, 98.0, 66.0, distortion=numbers)
    table = lens.corner_directions(made)
    assert table.shape == (131, 201, 3)
    assert table.dtype == np.float32
    assert not table.flags.writeable
    for row, column in ((0, 0), (130, 200), (64, 7)):
        (looked,) = lens.directions(made, [[column - 0.5, row - 0.5]])
        np.testing.assert_allclose(table[row, column], looked, atol=1e-7)
    assert lens.corner_directions(replace(made, baseline_m=0.1)) is table


@pytest.mark.slow
def test_the_table_of_a_full_hd_picture_takes_a_second() -> None:
    made = Intrinsics(1920, 1080, 1000.0, 1001.0, 950.0, 530.0, 2.0, distortion=(-0.1, 0.02, 1e-3, -2e-3, 0.001))
    begun = time.process_time()
    lens.corner_directions(made)
    assert time.process_time() - begun < 1.5


@given(pinholes() | fisheyes(), st.integers(2, 3))
def test_a_scaled_lens_has_the_same_corners(intrinsics: Intrinsics, factor: int) -> None:
    larger = lens.scaled(intrinsics, intrinsics.width * factor, intrinsics.height * factor)
    uv = pixels(intrinsics, 1)
    np.testing.assert_allclose(
        lens.directions(larger, (uv + 0.5) * factor - 0.5), lens.directions(intrinsics, uv), atol=1e-11
    )
    with pytest.raises(ConfigError, match="0 x 5"):
        lens.scaled(intrinsics, 0, 5)


@pytest.mark.parametrize(
    ("model", "numbers"), [("plumb_bob", (-0.2, 0.03)), ("rational_polynomial", (0.1,) * 8), ("equidistant", (-0.02,))]
)
def test_focal_length_from_the_field(model: str, numbers: tuple[float, ...]) -> None:
    centred = (*numbers[:2], 0.0, 0.0, *numbers[4:]) if model != "equidistant" else numbers
    f = lens.focal_length_px(800, 75.0, model, centred)
    made = Intrinsics(800, 600, f, f, 399.5, 299.5, model=model, distortion=centred)
    left, right = lens.directions(made, [[-0.5, 299.5], [799.5, 299.5]])
    assert math.degrees(math.acos(left @ right)) == pytest.approx(75.0, abs=1e-9)


def test_field_wider_than_the_lens() -> None:
    assert lens.focal_length_px(640, 90.0) == pytest.approx(320.0)
    with pytest.raises(ConfigError, match="hfov_deg 120 exceeds"):
        lens.focal_length_px(640, 120.0, "plumb_bob", (-0.5,))


def test_aperture_of_a_50_mm_lens() -> None:
    assert lens.aperture_radius_m(50.0, 2.0) == pytest.approx(0.0125)


def test_decentring_by_hand() -> None:
    """x (1 + k1 r²) + 2 p1 x y + p2 (r² + 2 x²), and the same with x and y exchanged; slopes by differences."""
    radial, (p1, p2), (x, y) = lens.radial_map("plumb_bob", (0.1,)), (0.02, -0.03), (0.3, -0.4)
    expected = (0.3 * 1.025 + 2 * 0.02 * -0.12 - 0.03 * (0.25 + 0.18), -0.4 * 1.025 + 0.02 * 0.57 - 0.06 * -0.12)
    assert lens.bend(radial, p1, p2, np.array(x), np.array(y)) == pytest.approx(expected, rel=1e-14)
    xd, yd, xx, xy, yy = lens.bend_with_slopes(radial, p1, p2, np.array(x), np.array(y))
    assert (xd, yd) == pytest.approx(expected, rel=1e-14)
    step = 1e-6
    ahead, aside = lens.bend(radial, p1, p2, x + step, y), lens.bend(radial, p1, p2, x, y + step)
    slopes = [(ahead[0] - xd) / step, (ahead[1] - yd) / step, (aside[1] - yd) / step]
    assert (xx, xy, yy) == pytest.approx(slopes, abs=1e-5)
    assert lens.unbend(radial, p1, p2, xd, yd) == pytest.approx((x, y), abs=1e-9)


def test_a_lens_may_be_scaled_to_one_pixel() -> None:
    one = lens.scaled(Intrinsics(64, 48, 60.0, 61.0, 31.0, 24.0), 1, 1)
    assert (one.width, one.height) == (1, 1)
    numbers = (60.0 / 64.0, 61.0 / 48.0, 31.5 / 64.0 - 0.5, 24.5 / 48.0 - 0.5)
    assert (one.fx, one.fy, one.cx, one.cy) == pytest.approx(numbers)
