"""Registration of frames by their surfaces, and the overlap from revisited places."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import parhelion as ph
from calibrate_rigs import changed_sheet
from parhelion.calibrate.drive.flat_pixels import flat_pixels
from parhelion.calibrate.drive.registration import register
from parhelion.calibrate.drive.revisits import _packed, _well_apart, gather, overlap_from_revisits
from parhelion.calibrate.range_images import RangeImage, range_image
from parhelion.core.errors import ConfigError
from parhelion.sensors.optics.lidar.link_budget import overlap_share
from pins import check, of_this_processor

UNIT = [(2.0, 0.05), (3.0, 0.2), (5.0, 0.55), (7.0, 0.85), (9.0, 1.0)]
"""Overlap that differs from the preset, flat beyond 9 m."""
STEP_M = 0.8
TURNS = 14
THRESHOLD = 5.5


@cache
def drive(world: str = "warehouse") -> tuple[RangeImage, ...]:
    """Snapshots on a straight path, without reflectivity."""
    lidar = ph.Lidar(changed_sheet("ouster/os0-32", range={"overlap": UNIT}))
    place = ph.World.load(world)
    x, y, _ = place.viewpoint.xyz
    poses = [ph.Pose((x + STEP_M * k, y, 1.4)) for k in range(TURNS)]
    scans = lidar.scan_many(place, poses, seed=1, time=[0.1 * k for k in range(TURNS)])
    return tuple(replace(range_image(scan, "turn"), reflectivity=np.full((32, 1024), np.nan)) for scan in scans)


def test_normals_and_cosines_of_a_known_room() -> None:
    """Floor, ceiling and walls of a hall face along the axes."""
    frame = drive()[0]
    found = flat_pixels(frame)
    assert len(found) > 5000
    upright = np.abs(found.normal).max(axis=1)
    assert np.mean(upright > 0.99) > 0.8
    assert np.all(np.sum(found.normal * found.point, axis=1) < 0.0)  # towards the sensor
    assert frame.direction is not None
    view = frame.direction[found.place]
    np.testing.assert_allclose(found.cosine, -np.sum(found.normal * view, axis=1), atol=1e-6)
    # The floor lies 1.4 m below the sensor, so its cosine is the height of the beam's exit over the range.
    assert frame.origin is not None
    floor = (found.normal[:, 2] > 0.99) & (found.point[:, 2] < -1.35)
    height = 1.4 + frame.origin[found.place][floor, 2]
    ratio = found.cosine[floor] * frame.range[found.place][floor] / height
    assert np.median(ratio) == pytest.approx(1.0, abs=0.005)
    assert np.mean(np.abs(ratio - 1.0) < 0.05) > 0.9


def test_frames_are_registered_to_centimetres() -> None:
    placed = register([flat_pixels(frame) for frame in drive()[:8]])
    assert all(placed.known)
    true = STEP_M * np.arange(8)[:, None] * np.array([1.0, 0.0, 0.0])
    np.testing.assert_allclose(np.array(placed.shift), true, atol=0.03)
    assert placed.path_m == pytest.approx(7 * STEP_M, abs=0.05)
    assert np.abs(placed.moved[-1][1]).max() == 0.0  # snapshots


def test_a_sensor_that_moves_during_its_revolution() -> None:
    """8 m/s: 0.8 m per revolution, which is detected and corrected."""
    lidar, world = ph.Lidar("ouster/os0-32"), ph.World.load("warehouse")
    x, y, _ = world.viewpoint.xyz
    way = ph.Waypoints([0.0, 1.0], [ph.Pose((x, y, 1.4)), ph.Pose((x + 8.0, y, 1.4))])
    flat = [flat_pixels(range_image(lidar.scan(world, trajectory=way, time=0.1 * k, seed=1), "t")) for k in range(6)]
    placed = register(flat)
    assert all(placed.known)
    shift = np.array(placed.shift)
    np.testing.assert_allclose(np.diff(shift, axis=0)[1:], [[0.8, 0.0, 0.0]] * 4, atol=0.05)
    np.testing.assert_allclose(placed.moved[-1][1], [0.8, 0.0, 0.0], atol=0.05)


def test_the_overlap_without_reflectivity() -> None:
    """In open country: all resolved points within their 95 % intervals, and at most 10 % off on average."""
    preset = ph.Lidar("ouster/os0-32").config.range.overlap
    curve = overlap_from_revisits(drive("off-road"), preset, THRESHOLD, np.inf)
    true = overlap_share(UNIT, curve.range)
    error = np.log(curve.high / curve.share)
    resolved = error < 0.3
    assert resolved.sum() >= 15
    assert curve.range[resolved][0] < 2.0
    off = np.log(curve.share / true)
    assert np.all(np.abs(off[resolved]) < 1.96 * error[resolved])
    assert np.sqrt(np.mean(off[resolved] ** 2)) < 0.1
    # The preset curve is far off, so the result comes from the drive.
    assert np.abs(np.log(overlap_share(preset, curve.range) / true))[resolved].max() > 0.5
    assert np.isnan(curve.constant)


def test_a_drive_that_is_too_short_or_stationary_is_rejected() -> None:
    preset = ph.Lidar("ouster/os0-32").config.range.overlap
    with pytest.raises(ConfigError, match="4 frames of a moving sensor are needed, got 3"):
        overlap_from_revisits(drive()[:3], preset, THRESHOLD, np.inf)
    with pytest.raises(ConfigError, match="a moving sensor is needed"):
        overlap_from_revisits([drive()[0]] * 5, preset, THRESHOLD, np.inf)


def test_frames_of_a_slow_robot_are_thinned_out() -> None:
    """0.2 m per frame after three stationary frames: every fourth frame is used, and the motion within it is found."""
    lidar, world = ph.Lidar("ouster/os0-32"), ph.World.load("warehouse")
    x, y, _ = world.viewpoint.xyz
    way = ph.Waypoints([0.0, 0.3, 5.3], [ph.Pose((x, y, 1.4)), ph.Pose((x, y, 1.4)), ph.Pose((x + 10.0, y, 1.4))])
    frames = [range_image(lidar.scan(world, trajectory=way, time=0.1 * k, seed=1), "t") for k in range(52)]
    some, every = _well_apart(frames, 1)
    assert every in (3, 4)
    assert some[0] is frames[2] or some[0] is frames[3]
    placed = register([flat_pixels(frame) for frame in some], every=every)
    assert all(placed.known)
    np.testing.assert_allclose(np.diff(np.array(placed.shift)[1:], axis=0)[:, 0], 0.2 * every, atol=0.03)
    assert placed.moved[-1][1][0] in (0.0, pytest.approx(0.2, abs=0.03))


def test_frames_without_flat_surfaces_cannot_be_registered() -> None:
    lost = [replace(frame, range=np.full_like(frame.range, np.nan)) for frame in drive()[:5]]
    with pytest.raises(ConfigError, match="motion of the sensor"):
        overlap_from_revisits(lost, 6.5, THRESHOLD, np.inf)


def test_cells_of_a_grid_have_numbers_of_their_own() -> None:
    corners = np.stack(np.meshgrid(*[np.arange(-3, 4)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    low, high = (_packed(0.5 * corners + inside, 0.5) for inside in (0.01, 0.49))
    np.testing.assert_array_equal(low, high)
    assert len(np.unique(low)) == 7**3


@of_this_processor
def test_numbers_of_a_drive() -> None:
    """Normals, registration, observations and curve: recorded."""
    frames = drive("off-road")
    flat = [flat_pixels(frame) for frame in frames]
    check(
        "calibrate/flat-pixels", rel=1e-4, point=flat[0].point, normal=flat[0].normal, cosine=flat[0].cosine,
        turn=flat[0].turn_share, row=flat[0].row,
    )  # fmt: skip
    placed = register(flat)
    seen = gather(frames, flat, placed, 3.0 * THRESHOLD, 90.0)
    curve = overlap_from_revisits(frames, ph.Lidar("ouster/os0-32").config.range.overlap, THRESHOLD, 90.0)
    check(
        "calibrate/drive", rel=1e-3, rotation=placed.rotation, shift=placed.shift, apart=placed.apart_m,
        path=placed.path_m, range=seen.range, level=seen.level, cosine=seen.cosine, pixels=seen.pixels, row=seen.row,
        floor=seen.floor.sum(), knots=curve.range, share=curve.share, low=curve.low, high=curve.high,
    )  # fmt: skip
