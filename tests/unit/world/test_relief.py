"""The height of the ground against plane geometry."""

from __future__ import annotations

import numpy as np
import pytest

from parhelion.core.errors import ConfigError
from parhelion.core.random import Stream
from parhelion.world.procedural.footprints import Footprints
from parhelion.world.procedural.layout import Layout, LayoutObject, LayoutPose
from parhelion.world.procedural.relief import (
    HeightField,
    bridge_height,
    fractal_heights,
    ground_height,
    height_field,
    in_frame,
    in_the_way,
    on_water,
)

FIELD = HeightField(np.array([[0.0, 1.0, 4.0], [2.0, 5.0, 7.0]]), (2.0, 4.0))
"""Two rows of three heights, 2 m apart along x and 4 m along y: from -2 to 2 and from -2 to 2."""


def layout(*objects: LayoutObject) -> Layout:
    return Layout(name="plan", size=(400.0, 400.0), objects=objects)


def test_heights_on_the_two_triangles_of_a_cell() -> None:
    # Corners, then the middle of the diagonal, of the lower and of the upper triangle of the first cell.
    assert FIELD.at([-2, 0, 2, -2, 0, 2], [-2, -2, -2, 2, 2, 2]).tolist() == [0, 1, 4, 2, 5, 7]
    assert FIELD.at(-1.0, 0.0) == pytest.approx(2.5)
    assert FIELD.at(-0.5, -1.0) == pytest.approx(0.75 * 1.0 + 0.25 * (5.0 - 1.0))
    assert FIELD.at(-1.5, 1.0) == pytest.approx(0.75 * 2.0 + 0.25 * (5.0 - 2.0))
    assert FIELD.at(1.0, 0.0) == pytest.approx(0.5 * (1.0 + 7.0))
    # Beyond the edge, as at the edge.
    assert FIELD.at([-9, 9, 0], [-9, 9, -9]).tolist() == [0, 7, 1]


def test_the_spectrum_falls_by_the_hurst_exponent() -> None:
    """Amplitudes of two surfaces from one noise differ by k^-(0.7 - 0.4) exactly, k in cycles a metre."""
    shape, cell = (16, 24), (0.5, 2.0)
    smooth, rough = (np.fft.rfft2(fractal_heights(shape, cell, hurst, 3)) for hurst in (0.7, 0.4))
    ratio = np.abs(smooth / np.where(rough == 0, 1, rough))
    along_x, along_y = ratio[0, 4] / ratio[0, 1], ratio[4, 0] / ratio[1, 0]
    assert (along_x, along_y) == pytest.approx((4.0**-0.3, 4.0**-0.3))
    # 1 / (24 * 0.5 m) along x against 1 / (16 * 2 m) along y.
    assert ratio[0, 1] / ratio[1, 0] == pytest.approx((12.0 / 32.0) ** 0.3)
    surface = fractal_heights(shape, cell, 0.7, 3)
    assert surface.shape == shape
    assert surface.mean() == pytest.approx(0.0, abs=1e-12)
    assert surface.std() == pytest.approx(1.0)
    # The noise itself comes back where the amplitudes k^-1.7 are taken off: white, from the stream of its name.
    k = np.hypot(np.fft.fftfreq(16, 2.0)[:, None], np.fft.rfftfreq(24, 0.5)[None, :])
    white = np.fft.rfft2(Stream(3, "world/terrain").generator().normal(size=shape))
    shares = np.fft.rfft2(surface)[1:, 1:-1] * k[1:, 1:-1] ** 1.7 / white[1:, 1:-1]
    np.testing.assert_allclose(shares, shares[0, 0], rtol=1e-9)


def terrain(**params: object) -> LayoutObject:
    given = {"roughness_m": 1.5, "cell_m": 1.0, "seed": 4, **params}
    return LayoutObject(kind="terrain", name="ground", size=(40.0, 21.0, 0.0), params=given)  # type: ignore[arg-type]


def test_grids_have_a_point_at_the_origin_and_heights_in_millimetres() -> None:
    field = height_field(terrain())
    assert field.z.shape == (21, 41)
    assert field.cell == pytest.approx((1.0, 21.0 / 20.0))
    assert field.z[10, 20] == 0.0
    assert not np.signbit(field.z[10, 20])  # no minus before a zero
    np.testing.assert_array_equal(field.z, np.round(field.z, 3))
    assert field.z.std() == pytest.approx(1.5, rel=1e-3)
    assert height_field(terrain(cell_m=3.0)).z.shape == (9, 15)
    assert height_field(terrain(cell_m=50.0)).z.shape == (3, 3)


def test_given_heights_span_the_size() -> None:
    field = height_field(terrain(heights_m=((0.0, 1.0, 2.0), (3.0, 4.0, 5.0))))
    assert field.cell == (20.0, 21.0)
    assert field.at([-20, 20], [-10.5, 10.5]).tolist() == [0.0, 5.0]
    with pytest.raises(ConfigError, match="has no height field"):
        height_field(LayoutObject(kind="rock", name="stone", size=(1, 1, 1)))
    with pytest.raises(ConfigError, match=r"401 x 211 grid points|grid points"):
        height_field(
            LayoutObject(kind="terrain", name="g", size=(1000, 1000, 0), params={"cell_m": 0.4})  # type: ignore[arg-type]
        )


def test_a_track_is_level_across_and_runs_out_over_three_metres() -> None:
    """A straight track along x: what it is 3 m beyond its edge is the terrain, half-way it is the mean of both."""
    track = ((-20.0, 0.0), (20.0, 0.0))
    size = (40.0, 30.0, 0.0)
    plain, cut = (
        height_field(
            LayoutObject(
                kind="terrain", name="ground", size=size,
                params={"roughness_m": 1.5, "cell_m": 0.5, "seed": 4, "track": line, "track_width_m": 3.0},  # type: ignore[arg-type]
            )
        )
        for line in ((), track)
    )  # fmt: skip
    x = np.arange(-15.0, 16.0, 5.0)
    middle = cut.at(x, 0.0 * x)
    # Level to half the width and half a cell more: 1.75 m. Heights are rounded to millimetres.
    for y in (-1.5, -0.5, 1.0, 1.5):
        np.testing.assert_allclose(cut.at(x, y + 0.0 * x), middle, atol=1.1e-3)
    shift = cut.at(0.0, 14.0) - plain.at(0.0, 14.0)  # both are 0 in their middle
    np.testing.assert_allclose(cut.at(x, 5.0 + 0.0 * x), plain.at(x, 5.0 + 0.0 * x) + shift, atol=2.1e-3)
    beside = cut.at(x, 3.25 + 0.0 * x) * 0.0 + 0.5 * (cut.at(x, 3.0 + 0.0 * x) + cut.at(x, 3.5 + 0.0 * x))
    terrain_there = 0.5 * (plain.at(x, 3.0 + 0.0 * x) + plain.at(x, 3.5 + 0.0 * x)) + shift
    # At 3.25 m, half-way through the shoulder, both count alike; 0.25 m to either side they do by 0.625 and 0.375.
    np.testing.assert_allclose(beside, 0.5 * (middle + terrain_there), atol=0.03)
    # Evened out over 6 m: a Gauss of 3 m along the track.
    along = np.arange(-20.0, 20.5, 1.0)
    raw = plain.at(along, 0.0 * along) + shift
    weight = np.exp(-0.5 * ((x[:, None] - along) / 3.0) ** 2)
    np.testing.assert_allclose(middle, weight @ raw / weight.sum(axis=1), atol=2e-3)


def test_frames_are_turned_and_shifted() -> None:
    item = LayoutObject(kind="rock", name="stone", size=(1, 1, 1), pose=LayoutPose(xyz=(10.0, 20.0, 3.0), yaw_deg=90.0))
    u, v = in_frame(item, [10.0, 10.0], [25.0, 20.0])
    np.testing.assert_allclose(u, [5.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(in_frame(item, [7.0], [20.0])[1], [3.0], atol=1e-12)
    np.testing.assert_allclose(v, [0.0, 0.0], atol=1e-12)


def test_streets_have_blocks_with_rounded_kerbs() -> None:
    """80 m from crossing to crossing; blocks begin 6 m or so from the road's middle, their corners have 4 m."""
    from parhelion.world.kit.city_ground import BLOCK_HALF, KERB_HEIGHT

    streets = LayoutObject(
        kind="streets", name="grid", size=(500, 500, 0), params={"blocks": 2}, pose=LayoutPose(xyz=(0, 0, 1.0))  # type: ignore[arg-type]
    )  # fmt: skip
    plan = layout(streets)
    middle = 40.0
    inside, outside = BLOCK_HALF - 0.01, BLOCK_HALF + 0.01
    corner = BLOCK_HALF - 4.0
    step = 4.0 / np.sqrt(2)
    x = [middle, middle + inside, middle + outside, middle, 0.0, -middle, middle + corner + step - 0.01, 81.0]
    y = [middle, middle, middle, middle - outside, 0.0, middle, middle + corner + step - 0.01, middle]
    high = 1.0 + KERB_HEIGHT
    np.testing.assert_allclose(ground_height(plan, x, y), [high, high, 1.0, 1.0, 1.0, high, high, 1.0])
    # Four blocks along each side: the pattern is the same, whichever crossing is in the middle.
    four = layout(LayoutObject(kind="streets", name="grid", size=(800, 800, 0), params={"blocks": 4}))  # type: ignore[arg-type]
    xs = np.array([40.0, 0.0, 120.0, 80.0, 159.0, 161.0, -40.0])
    expected = [KERB_HEIGHT, 0.0, KERB_HEIGHT, 0.0, 0.0, 0.0, KERB_HEIGHT]
    np.testing.assert_allclose(ground_height(four, xs, 40.0 + 0 * xs), expected)
    over = middle + corner + step + 0.01
    assert ground_height(plan, [over], [over])[0] == 1.0
    assert ground_height(layout(), np.zeros(3), 0.0).tolist() == [0.0, 0.0, 0.0]
    assert on_water(plan, 0.0, 0.0) is None


def test_basins_and_bridges() -> None:
    basin = LayoutObject(kind="basin", name="dock", size=(100.0, 40.0, 2.0), pose=LayoutPose(xyz=(5.0, 0.0, -1.0)))
    plan = layout(basin)
    x, y = np.array([5.0, 54.9, 55.1, -44.9, -45.1, 5.0, 5.0]), np.array([0.0, 0, 0, 0, 0, 19.9, 20.1])
    wet = [True, True, False, True, False, True, False]
    assert on_water(plan, x, y).tolist() == wet  # type: ignore[union-attr]
    np.testing.assert_allclose(ground_height(plan, x, y), np.where(wet, -1.0, 1.0))
    bridge = LayoutObject(
        kind="bridge", name="arch", size=(8.0, 90.0, 7.5), pose=LayoutPose(xyz=(0, 0, 0.5)),
        params={"span_m": 50.0, "crown_m": 6.4},  # type: ignore[arg-type]
    )  # fmt: skip
    found = bridge_height(layout(bridge), [0.0, 3.9, 4.1, 0.0, 0.0, -3.9], [0.0, 0.0, 0.0, 26.9, 27.1, -26.9])
    road = 0.5 + 6.4 + 1.13
    np.testing.assert_allclose(found, [road, road, np.nan, road, np.nan, road])


def test_what_is_in_the_way_stands_between_ground_and_height() -> None:
    """Boxes by their foot and head, over ground at 1 m, for something 2 m high; quays count from the water."""
    floor = LayoutObject(
        kind="terrain", name="ground", size=(100, 100, 0), pose=LayoutPose(xyz=(0, 0, 1.0)),
        params={"heights_m": ((0.0, 0.0), (0.0, 0.0))},  # type: ignore[arg-type]
    )  # fmt: skip
    low, high = np.array([1.0, 2.9, 3.1, -1.0, -1.0]), np.array([1.5, 9.0, 9.0, 1.1, 0.9])
    n = len(low)
    boxes = Footprints(
        np.ones(n, np.intp),
        np.zeros((n, 2)),
        np.ones((n, 2)),
        np.tile([1.0, 0.0], (n, 1)),
        np.zeros(n, bool),
        low,
        high,
    )
    rock = LayoutObject(kind="rock", name="stone", size=(1, 1, 1))
    assert in_the_way(layout(floor, rock), boxes, 2.0).tolist() == [True, True, False, True, False]
    basin = LayoutObject(kind="basin", name="dock", size=(50.0, 40.0, 2.0), pose=LayoutPose(xyz=(0.0, 0.0, 0.0)))
    quay = Footprints(
        np.zeros(1, np.intp), np.array([[30.0, 0.0]]), np.ones((1, 2)), np.array([[1.0, 0.0]]), np.zeros(1, bool),
        np.array([0.5]), np.array([1.9]),
    )  # fmt: skip
    # On the water, at 0 m, the wall is in the way; on the quay itself, at 2 m, it lies below.
    assert in_the_way(layout(basin), quay, 1.0, (0.0, 0.0)).tolist() == [True]
    assert in_the_way(layout(basin), quay, 1.0, (30.0, 0.0)).tolist() == [False]
    assert in_the_way(layout(basin), quay, 1.0).tolist() == [True]
    ashore = Layout(name="plan", size=(400.0, 400.0), objects=(basin,), viewpoint=LayoutPose(xyz=(40.0, 0.0, 2.0)))
    assert in_the_way(ashore, quay, 1.0).tolist() == [False]
