"""Turns placed by their surfaces, and the overlap by places that are seen again."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import parhelion as ph
from calibrate_rigs import changed_sheet
from parhelion.calibrate.drive.flat_pixels import flat_pixels
from parhelion.calibrate.drive.registration import register
from parhelion.calibrate.drive.revisits import _well_apart, overlap_seen_again
from parhelion.calibrate.range_images import RangeImage, turn_of
from parhelion.core.errors import ConfigError
from parhelion.sensors.optics.lidar.link_budget import overlap_share

UNIT = [(2.0, 0.05), (3.0, 0.2), (5.0, 0.55), (7.0, 0.85), (9.0, 1.0)]
"""Another overlap than the preset's, level from 9 m on."""
STEP_M = 0.8
TURNS = 14
THRESHOLD = 5.5


@cache
def drive(world: str = "warehouse") -> tuple[RangeImage, ...]:
    """Snapshots on a straight way, without reflectivity."""
    lidar = ph.Lidar(changed_sheet("ouster/os0-32", range={"overlap": UNIT}))
    place = ph.World.load(world)
    x, y, _ = place.viewpoint.xyz
    poses = [ph.Pose((x + STEP_M * k, y, 1.4)) for k in range(TURNS)]
    scans = lidar.scan_many(place, poses, seed=1, time=[0.1 * k for k in range(TURNS)])
    return tuple(replace(turn_of(scan, "turn"), reflectivity=np.full((32, 1024), np.nan)) for scan in scans)


def test_normals_and_cosines_of_a_known_room() -> None:
    """Floor, ceiling and walls of a hall face along the axes."""
    turn = drive()[0]
    found = flat_pixels(turn)
    assert len(found) > 5000
    upright = np.abs(found.normal).max(axis=1)
    assert np.mean(upright > 0.99) > 0.8
    assert np.all(np.sum(found.normal * found.point, axis=1) < 0.0)  # towards the sensor
    assert turn.direction is not None
    view = turn.direction[found.place]
    np.testing.assert_allclose(found.cosine, -np.sum(found.normal * view, axis=1), atol=1e-6)
    # The floor lies 1.4 m below the sensor, so its cosine is the height of the beam's exit over the range.
    assert turn.origin is not None
    floor = (found.normal[:, 2] > 0.99) & (found.point[:, 2] < -1.35)
    height = 1.4 + turn.origin[found.place][floor, 2]
    ratio = found.cosine[floor] * turn.range[found.place][floor] / height
    assert np.median(ratio) == pytest.approx(1.0, abs=0.005)
    assert np.mean(np.abs(ratio - 1.0) < 0.05) > 0.9


def test_turns_are_placed_to_centimetres() -> None:
    placed = register([flat_pixels(turn) for turn in drive()[:8]])
    assert all(placed.known)
    true = STEP_M * np.arange(8)[:, None] * np.array([1.0, 0.0, 0.0])
    np.testing.assert_allclose(np.array(placed.shift), true, atol=0.03)
    assert placed.way_m == pytest.approx(7 * STEP_M, abs=0.05)
    assert np.abs(placed.moved[-1][1]).max() == 0.0  # snapshots


def test_a_sensor_that_moves_while_it_turns() -> None:
    """8 m/s: 0.8 m within a turn, which is found out and taken into account."""
    lidar, world = ph.Lidar("ouster/os0-32"), ph.World.load("warehouse")
    x, y, _ = world.viewpoint.xyz
    way = ph.Waypoints([0.0, 1.0], [ph.Pose((x, y, 1.4)), ph.Pose((x + 8.0, y, 1.4))])
    flat = [flat_pixels(turn_of(lidar.scan(world, trajectory=way, time=0.1 * k, seed=1), "t")) for k in range(6)]
    placed = register(flat)
    assert all(placed.known)
    shift = np.array(placed.shift)
    np.testing.assert_allclose(np.diff(shift, axis=0)[1:], [[0.8, 0.0, 0.0]] * 4, atol=0.05)
    np.testing.assert_allclose(placed.moved[-1][1], [0.8, 0.0, 0.0], atol=0.05)


def test_the_overlap_without_reflectivity() -> None:
    """In open country: all points that count as told within their 95 % intervals, and 10 % off at most on average."""
    usual = ph.Lidar("ouster/os0-32").config.range.overlap
    curve = overlap_seen_again(drive("off-road"), usual, THRESHOLD, np.inf)
    true = overlap_share(UNIT, curve.range)
    error = np.log(curve.high / curve.share)
    told = error < 0.3
    assert told.sum() >= 15
    assert curve.range[told][0] < 2.0
    off = np.log(curve.share / true)
    assert np.all(np.abs(off[told]) < 1.96 * error[told])
    assert np.sqrt(np.mean(off[told] ** 2)) < 0.1
    # The preset's curve is far from it, so it is the drive that tells.
    assert np.abs(np.log(overlap_share(usual, curve.range) / true))[told].max() > 0.5
    assert np.isnan(curve.constant)


def test_a_drive_too_short_or_too_still_says_so() -> None:
    usual = ph.Lidar("ouster/os0-32").config.range.overlap
    with pytest.raises(ConfigError, match="needs 4 turns that move, and there are 3"):
        overlap_seen_again(drive()[:3], usual, THRESHOLD, np.inf)
    with pytest.raises(ConfigError, match="needs a sensor that moves"):
        overlap_seen_again([drive()[0]] * 5, usual, THRESHOLD, np.inf)


def test_a_slow_robot_that_stands_at_first_is_seen_in_turns_that_are_apart() -> None:
    """0.2 m a turn after three turns on the spot: every fourth turn is taken, and the motion within it is found."""
    lidar, world = ph.Lidar("ouster/os0-32"), ph.World.load("warehouse")
    x, y, _ = world.viewpoint.xyz
    way = ph.Waypoints([0.0, 0.3, 5.3], [ph.Pose((x, y, 1.4)), ph.Pose((x, y, 1.4)), ph.Pose((x + 10.0, y, 1.4))])
    turns = [turn_of(lidar.scan(world, trajectory=way, time=0.1 * k, seed=1), "t") for k in range(52)]
    some, every = _well_apart(turns, 1)
    assert every in (3, 4)
    assert some[0] is turns[2] or some[0] is turns[3]
    placed = register([flat_pixels(turn) for turn in some], every=every)
    assert all(placed.known)
    np.testing.assert_allclose(np.diff(np.array(placed.shift)[1:], axis=0)[:, 0], 0.2 * every, atol=0.03)
    assert placed.moved[-1][1][0] in (0.0, pytest.approx(0.2, abs=0.03))


def test_turns_that_see_nothing_flat_cannot_be_placed() -> None:
    lost = [replace(turn, range=np.full_like(turn.range, np.nan)) for turn in drive()[:5]]
    with pytest.raises(ConfigError, match="how the sensor moved"):
        overlap_seen_again(lost, 6.5, THRESHOLD, np.inf)
