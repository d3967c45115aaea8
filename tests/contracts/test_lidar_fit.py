"""`Lidar.fit`: mount and reflectances of the world `test-range` from one scan."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.core.records import PointCloud

BOARDS = {"distances": (5.0, 8.0, 12.0, 20.0), "board_size": 1.5}
TRUE, GUESSED = (10, 30, 50, 70, 90), (20, 40, 45, 60, 80)


@pytest.fixture(scope="module")
def recording() -> tuple[ph.Pose, ph.Scan]:
    truth = ph.World.load("test-range", **BOARDS, reflectances_percent=TRUE)
    pose = ph.Pose((0.15, -0.1, 2.08), rpy_deg=(0.8, -0.6, 1.5))
    return pose, ph.Lidar("velodyne/vlp-16").scan(truth, pose=pose, seed=3)


def test_mount_and_reflectances_are_found(recording: tuple[ph.Pose, ph.Scan]) -> None:
    pose, scan = recording
    world = ph.World.load("test-range", **BOARDS, reflectances_percent=GUESSED)
    found = ph.Lidar("velodyne/vlp-16").fit(world, scan)
    assert np.abs(found.pose.xyz - pose.xyz).max() < 0.005
    assert np.abs((found.pose.inverse() @ pose).rpy_deg).max() < 0.1
    for true, guessed in zip(TRUE, GUESSED, strict=True):
        assert found.reflectance[f"lambert-{guessed}"] == pytest.approx(0.01 * true, rel=0.02)
    assert found.shots > 5000
    assert found.range_rms_m < 0.03


def test_what_does_not_fit_is_told(recording: tuple[ph.Pose, ph.Scan]) -> None:
    _, scan = recording
    world = ph.World.load("test-range", **BOARDS)
    with pytest.raises(ConfigError, match="shots are not those of this sensor"):
        ph.Lidar("ouster/os1-32").fit(world, scan)
    with pytest.raises(ConfigError, match="table of shots"):
        ph.Lidar("velodyne/vlp-16").fit(world, PointCloud(scan.xyz, scan.fields))  # type: ignore[arg-type]
    empty = ph.World()
    empty.add(ph.shapes.box(1, 1, 1), material="concrete", label="wall", pose=ph.Pose((90.0, 0.0, 0.0)))
    with pytest.raises(ConfigError, match="guess a nearer pose"):
        ph.Lidar("velodyne/vlp-16").fit(empty, scan, pose=ph.Pose())
