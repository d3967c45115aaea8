"""Textures as a lidar sees them: each texel where it must be, the right way round, tiled, and sampled in full."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import parhelion as ph
from parhelion.sensors.optics.lidar.config import LidarConfig
from rigs import add_wall, one_beam, sheet

Array = NDArray[Any]

# Three rows, four columns, no two texels alike: a turned, mirrored or shifted image cannot pass for it.
IMAGE = np.array(
    [
        [0.20, 0.90, 0.35, 1.00],
        [0.75, 0.40, 0.60, 0.30],
        [0.50, 0.85, 0.25, 0.65],
    ]
)
DOWN = ph.Pose((0, 0, 10), rpy_deg=(0, 90, 0))


def grid(size_deg: float = 20.0, **sections: Any) -> LidarConfig:
    """A field of 61 x 61 thin beams."""
    pattern = {
        "kind": "raster", "rate_hz": 10, "columns": 61, "rows": 61,
        "azimuth_deg": (-size_deg, size_deg), "elevation_deg": (-size_deg, size_deg),
    }  # fmt: skip
    return sheet(**{"pattern": pattern, **sections})


def cosines(scan: ph.Scan, axis: Array) -> Array:
    """Cosine between each point's beam and the axis, both in the sensor frame."""
    return np.abs(scan.shots.direction[scan.shot].astype(float) @ axis)


def texels(u: Array, v: Array, image: Array) -> tuple[Array, Array]:
    """The value of the nearest texel, and whether the place is safely within it."""
    height, width = image.shape
    across, down = (u % 1) * width, (1 - v % 1) * height
    safe = np.min([across % 1, 1 - across % 1, down % 1, 1 - down % 1], axis=0) > 1e-3
    return image[np.minimum(down.astype(int), height - 1), np.minimum(across.astype(int), width - 1)], safe


def assert_shows(scan: ph.Scan, u: Array, v: Array, image: Array, reflectance: float = 0.8) -> None:
    value, safe = texels(u, v, image)
    assert safe.sum() > 1000
    assert len(np.unique(value[safe])) == image.size
    seen = scan.reflectivity / cosines(scan, np.array([1.0, 0, 0]))
    assert np.max(np.abs(seen / (reflectance * value) - 1)[safe]) < 1e-3


# ---- orientation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("divisions", [1, (5, 3)])
def test_on_a_plane_u_runs_along_x_and_v_along_y(divisions: Any) -> None:
    world = ph.World()
    world.add(ph.shapes.plane(8, 6, divisions), material="lambert-80", texture=IMAGE)
    scan = ph.Lidar(grid(), noise=False).scan(world, pose=DOWN)
    x, y, _ = scan.in_world().xyz.T
    assert_shows(scan, x / 8 + 0.5, y / 6 + 0.5, IMAGE)


@pytest.mark.parametrize(
    ("x", "y", "value"),
    [(-3.9, 2.9, IMAGE[0, 0]), (3.9, 2.9, IMAGE[0, 3]), (-3.9, -2.9, IMAGE[2, 0]), (3.9, -2.9, IMAGE[2, 3])],
)
def test_the_corners_of_the_image_are_the_corners_of_the_plane(x: float, y: float, value: float) -> None:
    """Row 0 of the image is its top, at v = 1: the far left corner seen from the -y side."""
    world = ph.World()
    world.add(ph.shapes.plane(8, 6), material="lambert-80", texture=IMAGE)
    scan = ph.Lidar(one_beam(), noise=False).scan(world, pose=ph.Pose((x, y, 5), rpy_deg=(0, 90, 0)))
    assert scan.reflectivity[0] == pytest.approx(0.8 * value, rel=1e-4)


@pytest.mark.parametrize("turn_deg", [0, 180])
def test_a_board_shows_its_picture_upright_and_unmirrored_on_both_sides(turn_deg: float) -> None:
    world = ph.World()
    world.add(ph.shapes.board(8, 6), material="lambert-80", texture=IMAGE)
    pose = ph.Pose((-10.005, 0, 0)) if turn_deg == 0 else ph.Pose((10.005, 0, 0), rpy_deg=(0, 0, 180))
    scan = ph.Lidar(grid(), noise=False).scan(world, pose=pose)
    # In the sensor's view the image's left is the left (y) and its top is up (z).
    _, left, up = scan.xyz.T
    assert_shows(scan, 0.5 - left / 8, up / 6 + 0.5, IMAGE)


def test_the_picture_turns_with_the_object() -> None:
    world = ph.World()
    world.add(
        ph.shapes.plane(8, 6), material="lambert-80", texture=IMAGE, pose=ph.Pose((0.5, 0.2, 0), rpy_deg=(0, 0, 90))
    )
    scan = ph.Lidar(grid(), noise=False).scan(world, pose=DOWN)
    x, y, _ = (scan.in_world().xyz - np.array([0.5, 0.2, 0])).T
    assert_shows(scan, y / 8 + 0.5, -x / 6 + 0.5, IMAGE)


def test_a_moving_object_carries_its_picture() -> None:
    world = ph.World()
    world.add(ph.shapes.plane(40, 40), material="lambert-80", pose=ph.Pose((0, 0, -1)))
    speed = np.array([6.0, -4.0, 0.0])
    world.add_actor(
        ph.shapes.plane(8, 6), material="lambert-80", texture=IMAGE,
        trajectory=ph.ConstantTwist(ph.Pose((-3, 2, 0)), tuple(speed)),
    )  # fmt: skip
    scan = ph.Lidar(grid(), noise=False).scan(world, pose=DOWN, time=0.5)
    on = scan.xyz[:, 0] < 10.5
    picked = ph.Scan(
        scan.xyz[on], {k: f[on] for k, f in scan.fields.items()}, shots=scan.shots, motion=scan.motion, start_time=0.5
    )
    place = picked.in_world().xyz - (np.array([-3, 2, 0]) + (0.5 + picked.time[:, None]) * speed)
    assert_shows(picked, place[:, 0] / 8 + 0.5, place[:, 1] / 6 + 0.5, IMAGE)
    assert scan.reflectivity[~on] == pytest.approx(0.8 * cosines(scan, np.array([1.0, 0, 0]))[~on], rel=1e-3)


# ---- tiling and tables ---------------------------------------------------------------------------------------------


def test_coordinates_beyond_one_repeat_the_image() -> None:
    plane = ph.shapes.plane(8, 6)
    assert plane.uv is not None
    tiled = ph.Mesh(plane.vertices, plane.faces, plane.uv * np.float32(2.5) - np.float32(0.75))
    world = ph.World()
    world.add(tiled, material="lambert-80", texture=IMAGE)
    scan = ph.Lidar(grid(), noise=False).scan(world, pose=DOWN)
    x, y, _ = scan.in_world().xyz.T
    assert_shows(scan, (x / 8 + 0.5) * 2.5 - 0.75, (y / 6 + 0.5) * 2.5 - 0.75, IMAGE)


def checkerboard(squares: int) -> Array:
    row, column = np.indices((squares, squares))
    return np.where((row + column) % 2 == 0, 1.0, 0.25)


def test_a_checkerboard_is_bright_and_dark_where_it_must_be() -> None:
    world = ph.World()
    world.add(ph.shapes.plane(8, 8), material="lambert-80", texture=(255 * checkerboard(8)).astype(np.uint8))
    scan = ph.Lidar(grid(), noise=False).scan(world, pose=DOWN)
    x, y, _ = scan.in_world().xyz.T
    # Squares of 1 m; the square at the far left corner (x = -4, y = 4) is bright.
    bright = (np.floor(x + 4) + np.floor(4 - y)) % 2 == 0
    safe = (np.abs(x - np.round(x)) > 0.01) & (np.abs(y - np.round(y)) > 0.01)
    seen = scan.reflectivity / cosines(scan, np.array([1.0, 0, 0])) / 0.8
    assert (safe & bright).sum() > 500
    assert (safe & ~bright).sum() > 500
    assert np.all(np.abs(seen[safe & bright] - 1.0) < 0.01)
    assert np.all(np.abs(seen[safe & ~bright] - 63 / 255) < 0.01)


def test_each_object_has_its_own_texture_or_none() -> None:
    other = np.array([[0.3, 0.6]])
    world = ph.World()
    world.add(ph.shapes.plane(2, 6), material="lambert-80", texture=IMAGE, pose=ph.Pose((-2, 0, 0)))
    world.add(ph.shapes.plane(2, 6), material="lambert-80", pose=ph.Pose((0, 0, 0)))
    world.add(ph.shapes.plane(2, 6), material="lambert-40", texture=other, pose=ph.Pose((2, 0, 0)))
    scan = ph.Lidar(grid(), noise=False).scan(world, pose=DOWN)
    x, y, _ = scan.in_world().xyz.T
    seen = scan.reflectivity / cosines(scan, np.array([1.0, 0, 0]))
    left, left_safe = texels((x + 2) / 2 + 0.5, y / 6 + 0.5, IMAGE)
    right, right_safe = texels((x - 2) / 2 + 0.5, y / 6 + 0.5, other)
    for rows, value in (
        ((x < -1) & left_safe, 0.8 * left),
        (np.abs(x) < 0.99, np.full_like(x, 0.8)),
        ((x > 1) & right_safe, 0.4 * right),
    ):
        assert rows.sum() > 300
        assert np.max(np.abs(seen / value - 1)[rows]) < 1e-3


def test_black_texels_return_nothing() -> None:
    world = ph.World()
    world.add(ph.shapes.plane(8, 6), material="lambert-80", texture=np.array([[0.0, 1.0]]))
    scan = ph.Lidar(grid(), noise=False).scan(world, pose=DOWN)
    x = scan.in_world().xyz[:, 0]
    assert len(scan) > 500
    assert x.min() > -0.01


# ---- sampling of the footprint -------------------------------------------------------------------------------------


def scene() -> ph.World:
    """A fine checkerboard before a plain wall, with a plain board beside it."""
    world = ph.World()
    add_wall(world, 14.0, "lambert-50", size=30.0)
    world.add(ph.shapes.board(4, 4), material="lambert-80", texture=checkerboard(16), pose=ph.Pose((10, 0, 0)))
    world.add(ph.shapes.board(2, 2), material="lambert-30", pose=ph.Pose((9, 3, 1), rpy_deg=(0, 0, 25)))
    return world


@pytest.mark.parametrize("returns", ["strongest", "all"])
def test_adaptive_sampling_is_fixed_sampling_on_textured_parts(returns: str) -> None:
    config = grid(beam={"divergence_mrad": (12, 12), "sub_rays": 25}, receiver={"returns": returns, "max_returns": 3})
    world = scene()
    few = ph.Lidar(config, noise=False).scan(world, pose=ph.Pose())
    full = ph.Lidar(config, noise=False, sampling="fixed").scan(world, pose=ph.Pose())
    assert few.metadata["casts_per_beam"] < full.metadata["casts_per_beam"] == 25
    textured = {s.instance: s for s in world.objects}[2].instance
    for scan in (few, full):
        assert (scan.instance == textured).sum() > 600

    def on_board(scan: ph.Scan) -> dict[int, tuple[float, float]]:
        rows = np.flatnonzero(scan.instance == textured)
        return {int(scan.shot[k]): (float(scan.range[k]), float(scan.power[k])) for k in rows}

    a, b = on_board(few), on_board(full)
    # Beams across the board's rim may be judged by eighths, the others are traced in full.
    inner = [k for k in b if np.all(np.abs(10 * full.shots.direction[k, 1:] / full.shots.direction[k, 0]) < 1.8)]
    assert len(inner) > 500
    assert np.array([a[k] for k in inner]) == pytest.approx(np.array([b[k] for k in inner]), rel=1e-6)


def test_a_wide_beam_sees_the_mean_of_many_squares() -> None:
    wide = one_beam(beam={"divergence_mrad": (60, 60), "sub_rays": 900, "profile": "uniform", "divergence_at": "edge"})
    world = ph.World()
    world.add(ph.shapes.board(2, 2), material="lambert-80", texture=checkerboard(40), pose=ph.Pose((10, 0, 0)))
    mean = ph.Lidar(wide, noise=False).scan(world, pose=ph.Pose())
    assert mean.reflectivity[0] == pytest.approx(0.8 * 0.625, rel=0.05)
    thin = [ph.Lidar(one_beam(), noise=False).scan(world, pose=ph.Pose((0, y, 0.02))) for y in (0.025, 0.075)]
    assert sorted(float(s.reflectivity[0]) for s in thin) == pytest.approx([0.2, 0.8], rel=1e-3)
