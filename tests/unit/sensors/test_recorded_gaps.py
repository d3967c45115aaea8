"""Rings and lost shots of a recording from its points alone."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.clouds import Scan
from parhelion.sensors.optics.lidar.patterns import ShotTable
from parhelion.sensors.optics.lidar.recorded_gaps import gaps_between, median_by, ring_numbers, rings_of
from parhelion.sensors.optics.lidar.recorded_shots import _Followed, recorded_shots
from velodyne_rigs import azimuth_deg, made_up_scan

VLP = "velodyne/vlp-16"
NAMES = [VLP, "velodyne/vlp-32c", "velodyne/hdl-64e", "ouster/os1-64", "hesai/pandar64"]


@lru_cache(maxsize=2)
def made_up(name: str, lost: float = 0.3) -> tuple[ph.Lidar, Scan]:
    """Points at random ranges on the sensor's own beams, a share of the shots lost at random."""
    lidar = ph.Lidar(name, returns="strongest")
    return lidar, made_up_scan(lidar, seed=3, lost=lost)


@pytest.mark.parametrize("name", NAMES)
def test_rings_and_lost_shots_follow_from_the_points(name: str) -> None:
    lidar, scan = made_up(name)
    rings = rings_of(scan.xyz, lidar)
    assert rings is not None
    np.testing.assert_array_equal(rings.of_point, scan.ring)
    gaps = gaps_between(rings)
    lost = np.flatnonzero(scan.lost)
    # Sensors that fire by time do not end a turn with a whole step, so one gap of a ring may be one shot off.
    assert abs(len(gaps.ring) - len(lost)) <= scan.ring.max() + 1
    assert gaps.blank_deg == 0.0
    per_ring = [np.bincount(rows, minlength=int(scan.ring.max()) + 1) for rows in (gaps.ring, scan.shots.ring[lost])]
    assert np.abs(per_ring[0] - per_ring[1]).max() <= 1
    # Each found shot lies along one that was lost.
    for ring in (0, int(scan.ring.max()) // 2):
        true = scan.shots.direction[lost[scan.shots.ring[lost] == ring]]
        found = gaps.direction[gaps.ring == ring]
        nearest = (found[::20] @ true.T).max(axis=1)
        assert np.degrees(np.arccos(np.clip(nearest, -1.0, 1.0))).max() < 0.1
    # Points of the same moment are at the same azimuth of the head.
    moment = azimuth_deg(scan.shots.direction[scan.shot[gaps.like]]) - azimuth_deg(gaps.direction)
    assert np.median(np.abs((moment + 180.0) % 360.0 - 180.0)) < 8.0  # beams of one column are spread by a few degrees


def test_a_ring_without_any_point_is_all_lost() -> None:
    lidar, scan = made_up(VLP)
    gone = np.isin(scan.ring, (14, 15))
    rings = rings_of(scan.xyz[~gone], lidar)
    assert rings is not None
    gaps = gaps_between(rings)
    columns = int(scan.shots.column.max()) + 1
    assert np.abs(np.bincount(gaps.ring, minlength=16)[14:] - columns).max() <= 1


def test_a_units_own_calibration_is_found() -> None:
    """Real units differ from the data sheet by a share of the spacing of rings."""
    lidar, scan = made_up(VLP)
    rng = np.random.default_rng(4)
    off = np.radians(rng.uniform(-0.5, 0.5, 16))[scan.ring]
    x, y, z = scan.xyz.astype(np.float64).T
    level, elevation = np.hypot(x, y), np.arctan2(z, np.hypot(x, y)) + off
    length, azimuth = np.hypot(level, z), np.arctan2(y, x)
    moved = np.stack(
        [length * np.cos(elevation) * np.cos(azimuth), length * np.cos(elevation) * np.sin(azimuth),
         length * np.sin(elevation)], axis=1,
    )  # fmt: skip
    rings = rings_of(moved, lidar)
    assert rings is not None
    np.testing.assert_array_equal(rings.of_point, scan.ring)
    away = np.degrees(rings.elevation) - (2.0 * np.arange(16) - 15.0)
    np.testing.assert_allclose(away, [np.degrees(off[scan.ring == ring][0]) for ring in range(16)], atol=0.06)


def test_lost_shots_of_a_pattern_take_the_angles_of_the_unit() -> None:
    """Every beam is turned and tilted by its own angle; rings without points lie between their neighbours."""
    lidar, scan = made_up(VLP)
    turn, tilt = np.radians(np.linspace(-1.5, 1.5, 16)), np.radians(np.linspace(0.8, -0.8, 16))

    def moved(rows: np.ndarray, length: np.ndarray | float = 1.0) -> np.ndarray:
        ring = scan.shots.ring[rows]
        x, y, z = scan.shots.direction[rows].astype(np.float64).T
        azimuth, elevation = np.arctan2(y, x) + turn[ring], np.arcsin(z) + tilt[ring]
        parts = np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)
        return np.stack(parts, axis=1) * np.reshape(length, (-1, 1))

    some = scan.ring != 6
    xyz = (scan.shots.origin[scan.shot] + moved(scan.shot, scan.range))[some]
    cloud = ph.PointCloud(xyz.astype(np.float32), {"ring": scan.ring[some], "column": scan.column[some]})
    shots = recorded_shots(cloud, lidar, "auto")
    lost = np.setdiff1d(np.arange(len(scan.shots)), scan.shot[some])
    np.testing.assert_array_equal(shots.lost["shot"], lost)
    np.testing.assert_allclose(shots.vectors[shots.points_shots :], moved(lost), atol=np.radians(0.03))


def test_lost_shots_of_the_preset_itself_stay_to_the_bit() -> None:
    lidar, scan = made_up(VLP)
    cloud = ph.PointCloud(scan.xyz, {"ring": scan.ring, "column": scan.column})
    shots = recorded_shots(cloud, lidar, "auto")
    np.testing.assert_array_equal(shots.vectors[shots.points_shots :], scan.shots.direction[scan.lost])


@pytest.mark.parametrize("from_above", [False, True])
def test_rings_that_the_cloud_names_are_taken(from_above: bool) -> None:
    """If ring numbers match the sensor, calibration may be off by more than the ring spacing."""
    lidar, scan = made_up("velodyne/hdl-64e")
    names = 63 - scan.ring.astype(int) if from_above else scan.ring.astype(int)
    x, y, z = scan.xyz.astype(np.float64).T
    tilted = np.stack([x, y, z + np.tan(np.radians(0.8)) * np.hypot(x, y)], axis=1)
    rings = rings_of(tilted, lidar, names)
    assert rings is not None
    np.testing.assert_array_equal(rings.of_point, scan.ring)
    np.testing.assert_array_equal(ring_numbers(rings, names)[scan.ring], names)
    assert abs(len(gaps_between(rings).ring) - int(scan.lost.sum())) <= 64


def test_no_shots_where_nothing_was_recorded() -> None:
    lidar, scan = made_up(VLP)
    here = np.abs(azimuth_deg(scan.xyz)) < 100.0
    rings = rings_of(scan.xyz[here], lidar)
    assert rings is not None
    gaps = gaps_between(rings)
    assert gaps.blank_deg == pytest.approx(160.0, abs=1.0)
    assert np.abs(azimuth_deg(gaps.direction)).max() < 101.0
    share = np.mean(np.abs(azimuth_deg(scan.shots.direction[scan.lost])) < 100.0)
    assert len(gaps.ring) == pytest.approx(share * scan.lost.sum(), rel=0.01)


def test_a_head_at_another_rate_has_other_steps() -> None:
    fast = ph.Lidar(VLP, rate_hz=20.0)
    scan = made_up_scan(fast, seed=5, lost=0.4)
    rings = rings_of(scan.xyz, made_up(VLP)[0])
    assert rings is not None
    assert len(gaps_between(rings).ring) == pytest.approx(int(scan.lost.sum()), rel=0.005)


@pytest.mark.parametrize("other", ["velodyne/hdl-32e", "ouster/os1-64", "velodyne/vlp-32c"])
def test_the_rings_of_another_sensor_are_refused(other: str) -> None:
    _, scan = made_up(VLP)
    assert rings_of(scan.xyz, ph.Lidar(other)) is None
    assert rings_of(scan.xyz, ph.Lidar(other), scan.ring) is None


def test_clouds_that_are_no_turn_are_refused() -> None:
    lidar, scan = made_up(VLP)
    rng = np.random.default_rng(1)
    assert rings_of(rng.normal(size=(5000, 3)), lidar) is None
    assert rings_of(scan.xyz[:50], lidar) is None
    assert rings_of(scan.xyz[rng.random(len(scan)) < 0.02], lidar) is None  # thinned: steps are not the sensor's
    assert rings_of(np.tile(scan.xyz, (5, 1)), lidar) is None  # several revolutions
    assert rings_of(scan.xyz, ph.Lidar("livox/mid-360")) is None


def test_directions_of_a_unit_are_turned_and_tilted_by_ring() -> None:
    """Rotation of the nominal directions against the sines of their angles; a vertical beam has no azimuth."""
    rng = np.random.default_rng(1)
    azimuth, elevation = rng.uniform(-np.pi, np.pi, 60), rng.uniform(-1.2, 1.2, 60)
    elevation[0] = 0.5 * np.pi
    ring = np.arange(60) % 3
    level = np.cos(elevation)
    direction = np.stack([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)], axis=1)
    direction[0] = 0.0, 0.0, 1.0
    table = ShotTable(
        direction.astype(np.float32), np.zeros((60, 3), np.float32), np.zeros(60), ring.astype(np.uint16),
        np.arange(60, dtype=np.uint16), azimuth.astype(np.float32), elevation.astype(np.float32),
    )  # fmt: skip
    shift = np.array([[0.05, -0.01], [0.0, 0.0], [-0.02, 0.03]])
    shot = rng.permutation(60)[:50]
    found = _Followed(table, shot, shift).directions(shot)
    turned, tilted = azimuth[shot] + shift[ring[shot], 0], elevation[shot] + shift[ring[shot], 1]
    wanted = np.stack([np.cos(tilted) * np.cos(turned), np.cos(tilted) * np.sin(turned), np.sin(tilted)], axis=1)
    inside = shot != 0
    np.testing.assert_allclose(found[inside], wanted[inside], atol=3e-7)
    np.testing.assert_array_equal(_Followed(table, shot, 0.0 * shift).directions(shot), table.direction[shot])


def test_medians_of_several_quantities_at_once() -> None:
    rng = np.random.default_rng(2)
    group, values = rng.integers(0, 5, 101), rng.normal(size=(2, 101))
    group[group == 3] = 4  # an empty group
    wanted = [[np.median(row[group == k]) if np.any(group == k) else 0.0 for k in range(6)] for row in values]
    np.testing.assert_array_equal(median_by(group, values, 6), wanted)
    np.testing.assert_array_equal(median_by(group.astype(np.uint16), values[0], 6), wanted[0])
