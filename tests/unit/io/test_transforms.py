"""Tree of ROS transforms: chains, interpolation, what is missing."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rosbags", reason="ROS messages need rosbags")

from parhelion.core.pose import Pose
from parhelion.io.ros.messages import Transform, tf_message
from parhelion.io.ros.transforms import TransformTree

LEVEL = (0.0, 0.0, 0.0, 1.0)
QUARTER = tuple(Pose(rpy_deg=(0, 0, 90)).quat_xyzw)


def tree() -> TransformTree:
    made = TransformTree()
    made.add(tf_message([Transform("base_link", "velodyne", 0, (0.5, 0, 2.0), LEVEL)]), static=True)
    made.add(tf_message([Transform("odom", "base_link", 10**9, (1.0, 0, 0), LEVEL)]), static=False)
    made.add(tf_message([Transform("odom", "base_link", 2 * 10**9, (3.0, 0, 0), QUARTER)]), static=False)
    made.add(tf_message([Transform("map", "odom", 0, (100.0, 0, 0), LEVEL)]), static=True)
    return made


def test_chain_and_interpolation() -> None:
    found = tree().pose("velodyne", 1_500_000_000)
    assert found is not None
    # Half way: 2 m along x, turned by 45 degrees; the mount is turned along.
    turned = 0.5 * np.sqrt(0.5)
    np.testing.assert_allclose(found.xyz, [102.0 + turned, turned, 2.0], atol=1e-9)
    np.testing.assert_allclose(found.rpy_deg, [0.0, 0.0, 45.0], atol=1e-9)


def test_ends_and_fixed_frame() -> None:
    made = tree()
    assert made.pose("velodyne", 0).xyz[0] == pytest.approx(101.5)
    assert made.pose("velodyne", 9 * 10**9, "odom").xyz[:2] == pytest.approx([3.0, 0.5])
    assert made.pose("/velodyne", 0, "odom") is not None
    assert made.pose("velodyne", 0, "earth") is None
    assert made.pose("camera", 0) is None


def test_reaches() -> None:
    made = tree()
    assert made.reaches("velodyne", 2 * 10**9)
    assert not made.reaches("velodyne", 2 * 10**9 + 1)
    assert not made.reaches("camera", 0)


def test_order_and_repetitions_change_nothing() -> None:
    shuffled = TransformTree()
    times = [3, 1, 2, 2, 1]
    for second in times:
        data = tf_message([Transform("odom", "base_link", second * 10**9, (float(second), 0, 0), LEVEL)])
        shuffled.add(data, static=False)
    shuffled.add(tf_message([Transform("odom", "base_link", 2 * 10**9, (77.0, 0, 0), LEVEL)]), static=False)
    assert shuffled.pose("base_link", 2_250_000_000).xyz[0] == pytest.approx(2.25)


def test_old_samples_are_dropped() -> None:
    made = TransformTree(keep_s=1.0)
    for tenth in range(100):
        data = tf_message([Transform("odom", "base_link", tenth * 10**8, (tenth / 10, 0, 0), LEVEL)])
        made.add(data, static=False)
    assert len(made._edges["base_link"].samples) <= 12
    assert made.pose("base_link", 9_450_000_000).xyz[0] == pytest.approx(9.45)


def test_cycles_and_damage() -> None:
    made = TransformTree()
    made.add(
        tf_message([Transform("a", "b", 0, (1, 0, 0), LEVEL), Transform("b", "a", 0, (1, 0, 0), LEVEL)]), static=True
    )
    assert made.pose("a", 0) is None
    made.add(b"\x00\x01\x00\x00garbage", static=False)
    made.add(tf_message([Transform("a", "c", 0, (1, 0, 0), (0.0, 0.0, 0.0, 0.0))]), static=False)
    assert made.refused == 2
    assert made.pose("c", 0) is None
