"""Surfels and votes against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from parhelion.rebuild.frames import FrameShots, Path
from parhelion.rebuild.reading import blind_cells, cell_of
from parhelion.rebuild.rebuild import ground_of, ring_biases
from parhelion.rebuild.surfels import Surfels, Voxels, fitted, plane
from parhelion.rebuild.votes import RIMS, count_votes, decided
from parhelion.world.rebuilt import hexagons
from rebuild_rigs import frame_of_ranges, room_shots, still


def room(count: int = 40_000) -> Surfels:
    frame = room_shots(count)
    points, along = still(1).points(0, frame)
    return fitted(Voxels.empty(0.1).with_points(points, along, frame.range_m))


def test_planes_of_points_on_a_plane() -> None:
    random = np.random.default_rng(1)
    place = random.normal(size=(5, 40, 3)) * [1.0, 1.0, 0.0] + [0.0, 0.0, 2.0]
    normal, middle, flatness = plane(place, np.ones((5, 40)))
    np.testing.assert_allclose(np.abs(normal[:, 2]), 1.0, atol=1e-9)
    np.testing.assert_allclose(middle[:, 2], 2.0, atol=1e-9)
    assert flatness.max() < 1e-9


def test_voxels_do_not_depend_on_the_order_of_frames() -> None:
    frame = room_shots()
    points, along = still(1).points(0, frame)
    whole = Voxels.empty(0.1).with_points(points, along, frame.range_m)
    half = len(points) // 2
    parts = Voxels.empty(0.1).with_points(points[half:], along[half:], frame.range_m[half:])
    parts = parts.with_points(points[:half], along[:half], frame.range_m[:half])
    assert np.array_equal(whole.key, parts.key)
    assert np.array_equal(whole.count, parts.count)
    assert whole.count.sum() == len(points)
    np.testing.assert_allclose(whole.centre, parts.centre, atol=1e-12)


def test_hexagons_have_the_area_and_the_normal_of_their_disks() -> None:
    normal = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [0.6, 0.0, 0.8]])
    radius = np.array([0.1, 0.2, 0.3], np.float32)
    vertices, faces = hexagons(np.zeros((3, 3)), normal, radius)
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    cross = np.cross(b - a, c - a)
    area = 0.5 * np.linalg.norm(cross, axis=1).reshape(3, 4).sum(axis=1)
    np.testing.assert_allclose(area, np.pi * radius.astype(float) ** 2, rtol=1e-6)
    np.testing.assert_allclose(cross / np.linalg.norm(cross, axis=1, keepdims=True), np.repeat(normal, 4, 0), atol=1e-9)


def test_surfels_of_a_room_lie_on_its_walls_and_face_the_sensor() -> None:
    surfels = room()
    off = np.stack([np.abs(np.abs(surfels.centre[:, k]) - 4.0) for k in range(2)], axis=1)
    vertical = np.minimum(np.abs(surfels.centre[:, 2] - 2.0), np.abs(surfels.centre[:, 2] + 1.0))
    nearest = np.minimum(off.min(axis=1), vertical)
    # Planes mix along the edges only: 76 m of edges with a voxel of 0.1 m on both sides, of 224 m^2.
    assert np.median(nearest) < 1e-4
    assert np.mean(nearest > 0.02) < 76.0 * 2.0 * 0.1 / 224.0
    facing = np.einsum("ij,ij->i", surfels.normal, -surfels.centre)
    assert np.mean(facing > 0.0) > 0.999


def wall(at_m: float, half_m: float = 0.5, step: float = 0.05) -> Surfels:
    """Disks on a wall across the x axis."""
    y, z = (grid.ravel() for grid in np.meshgrid(np.arange(-half_m, half_m, step), np.arange(-half_m, half_m, step)))
    count = len(y)
    normal = np.tile(np.array([-1.0, 0.0, 0.0], np.float32), (count, 1))
    return Surfels(np.stack([np.full(count, at_m), y, z], axis=1), normal, np.full(count, 0.05, np.float32))


def shots_at(surfels: Surfels, range_m: float, count: int = 3, spread: float = 0.02) -> tuple[list[FrameShots], Path]:
    """Frames whose shots cross the wall at random places and end at a distance along x."""
    random = np.random.default_rng(7)
    made = []
    for number in range(count):
        target = surfels.centre + np.column_stack([np.zeros(len(surfels)), random.normal(0, spread, (len(surfels), 2))])
        distance = np.linalg.norm(target, axis=1)
        along = target / distance[:, None]
        made.append(frame_of_ranges(along, range_m / along[:, 0], 0.1 * number))
    return made, still(count)


def test_confirmed_surfels_stay_and_contradicted_ones_are_removed() -> None:
    surfels = wall(3.0)
    stay, kept = decided(surfels, count_votes(surfels, *shots_at(surfels, 3.0)))
    assert len(stay) == len(surfels) == len(kept)
    np.testing.assert_allclose(stay.radius, surfels.radius)
    gone, _ = decided(surfels, count_votes(surfels, *shots_at(surfels, 6.0)))
    # Every disk is met by three shots on average; the few that meet fewer than two contradictions stay.
    assert len(gone) < 0.35 * len(surfels)


def test_a_lost_shot_does_not_remove_a_surface() -> None:
    surfels = wall(3.0)
    frames, path = shots_at(surfels, np.nan)
    votes = count_votes(surfels, frames, path)
    assert votes.lost.sum() > 0
    assert votes.passed.sum() == votes.confirmed.sum() == 0
    assert len(decided(surfels, votes)[0]) == len(surfels)


def test_a_disk_beyond_an_edge_shrinks() -> None:
    surfel = Surfels(np.array([[3.0, 0.0, 0.0]]), np.array([[-1.0, 0.0, 0.0]], np.float32), np.array([0.4], np.float32))
    y = np.linspace(-0.38, 0.38, 39)
    along = np.column_stack([np.full(39, 3.0), y, np.zeros(39)])
    range_m = np.linalg.norm(along, axis=1)
    # Shots within 0.19 m of the centre return there; all others pass.
    range_m[np.abs(y) > 0.19] *= 2.0
    frame = frame_of_ranges(along / np.linalg.norm(along, axis=1, keepdims=True), range_m)
    votes = count_votes(surfel, [frame], still(1))
    assert votes.confirmed.shape == (1, RIMS)
    smaller, _ = decided(surfel, votes)
    assert smaller.radius[0] == pytest.approx(0.2)


def test_disks_move_to_the_returns_that_confirm_them() -> None:
    surfels = wall(3.0)
    frames, path = shots_at(surfels, 3.02, count=12, spread=0.01)
    votes = count_votes(surfels, frames, path)
    after, _ = decided(surfels, votes)
    assert np.median(after.centre[:, 0]) == pytest.approx(3.02, abs=0.005)


def test_blind_directions_never_return() -> None:
    frames = []
    for number in range(6):
        frame = room_shots(60_000, seed=number)
        front = frame.direction[:, 0] > 0.9
        frames.append(frame_of_ranges(frame.direction, np.where(front, np.nan, frame.range_m)))
    blind = blind_cells(frames)[cell_of(frames[0].direction)]
    front = frames[0].direction[:, 0] > 0.9
    assert blind[front].mean() > 0.8  # cells on the border of the cone contain returns
    assert not blind[~front].any()
    assert not blind_cells(frames[:2]).any()  # too few revolutions


def test_ground_is_the_floor_of_a_room() -> None:
    surfels = room()
    ground = ground_of(surfels, still(2))
    floor = np.abs(surfels.centre[:, 2] + 1.0) < 0.05
    assert ground[floor & (surfels.normal[:, 2] > 0.95)].mean() > 0.95
    assert not ground[surfels.centre[:, 2] > -0.6].any()


def test_range_errors_of_rings_are_found_up_to_a_common_offset() -> None:
    true = np.linspace(-0.03, 0.03, 8)
    frames = []
    for number in range(3):
        frame = room_shots(30_000, seed=number)
        ring = np.random.default_rng(number).integers(0, 8, len(frame)).astype(np.int16)
        made = frame_of_ranges(frame.direction, frame.range_m + true[ring])
        frames.append(FrameShots(**{**vars(made), "ring": ring}))
    found = ring_biases(frames, still(3), 0.2)
    np.testing.assert_allclose(found, true - np.median(true), atol=0.006)
    assert ring_biases([room_shots()], still(1), 0.2).size == 0
