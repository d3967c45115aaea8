"""Bridges to Gazebo and Isaac Sim: stand-ins publish the same messages over DDS; the clouds equal those in process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cyclonedds", reason="needs the extra 'ros'")

import parhelion as ph
from dds_rigs import DOMAIN
from parhelion.core.pose import quat_conjugate, quat_rotate
from parhelion.io.ros import messages as ros
from parhelion.io.ros.clouds import POINT_CLOUD, point_cloud2
from parhelion.io.ros.types import Message
from parhelion.live.dds import DdsNode, Quality

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "bridge"
STEPS = 31
SPIN = 0.5


def pose(time_s: float, x: float = 0.0) -> tuple[Any, Any]:
    half = 0.5 * SPIN * time_s
    return (x + 0.8 * time_s, 0.0, 0.3), (0.0, 0.0, np.sin(half), np.cos(half))


def odometry(number: int) -> bytes:
    """Odometry as ros_gz_bridge sends it: the twist is in the frame of the model."""
    xyz, quat = pose(0.01 * number)
    velocity = quat_rotate(quat_conjugate(np.array(quat)), np.array([0.8, 0.0, 0.0]))
    return ros.odometry(10_000_000 * number, "odom", "husky", xyz, quat, velocity, (0, 0, SPIN))


def transforms(number: int) -> bytes:
    """Transforms as Isaac Sim sends them: all frames in one message, also those that are not used."""
    frames = {"base_link": pose(0.01 * number), "crate": pose(0.0, 4.0), "wheel": pose(0.0)}
    stamp = 10_000_000 * number
    return ros.tf_message(ros.Transform("world", name, stamp, *one) for name, one in frames.items())


def in_process(bodies: list[str], mesh: Any, material: str, label: str, twists: bool) -> list[Any]:
    """The same clouds without DDS."""
    bridge = ph.Bridge("cuboids", seed=7)
    for name in bodies:
        bridge.add_body(name, mesh, material=material, label=label)
    bridge.attach(ph.Lidar("velodyne/vlp-16", name="lidar"), bodies[0], mount=ph.Pose(xyz=(0, 0, 0.5)))
    clouds = []
    for k in range(STEPS):
        moved: Any = pose(0.01 * k)
        poses = {bodies[0]: (*moved, (0.8, 0, 0), (0, 0, SPIN)) if twists else moved}
        poses |= {name: pose(0.0, 4.0) for name in bodies[1:]}
        for _, _, scan in bridge.step(10_000_000 * k * 1e-9, poses):
            clouds.append(scan)
    return clouds


def exchanged(script: str, words: list[str], topic: str, kind: str, data: Any, back: str) -> list[bytes]:
    """Play messages to an example and return the clouds that it publishes."""
    environment = {**os.environ, "PYTHONPATH": str(Path(ph.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLES / script), *words, str(DOMAIN)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with DdsNode(DOMAIN, reliable=True) as node:
            clouds = node.subscribe(back, POINT_CLOUD, Quality(reliable=True, depth=50))
            node.advertise(topic, kind)
            until = time.monotonic() + 60
            while not (node.subscribers(topic) and clouds.publishers) and time.monotonic() < until:
                time.sleep(0.02)
            for k in range(STEPS):
                node.publish(Message(topic, kind, 10_000_000 * k, data(k)))
                time.sleep(0.002)
            node.publish(Message(topic, kind, 0, data(STEPS - 1)))  # a paused simulator repeats its stamp
            found: list[bytes] = []
            while len(found) < 3 and time.monotonic() < until:
                found += clouds.take()
                time.sleep(0.01)
        return found
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


@pytest.mark.slow
def test_gazebo_odometry_gives_the_clouds_of_the_same_poses() -> None:
    found = exchanged(
        "gazebo_odometry.py", ["cuboids", "husky"], "/model/husky/odometry", ros.ODOMETRY, odometry, "/velodyne_points"
    )
    scans = in_process(["husky"], ph.shapes.box(0.99, 0.67, 0.39), "car-paint-yellow", "robot", True)
    assert len(scans) == 3
    expected = [point_cloud2(one, "velodyne", round(one.start_time * 1e9), "all") for one in scans]
    assert len(found) == 3
    for one, other in zip(found, expected, strict=True):
        got, wanted = (np.frombuffer(data[: len(other)], np.uint8) for data in (one, other))
        # The twist is turned into the frame of the model and back, which rounds its last digits.
        assert np.mean(got == wanted) > 0.99


@pytest.mark.slow
def test_isaac_transforms_give_the_clouds_of_the_same_poses_bit_for_bit() -> None:
    found = exchanged(
        "isaac_tf.py", ["cuboids", "world", "base_link", "crate"], "/tf", ros.TF, transforms, "/point_cloud"
    )
    scans = in_process(["base_link", "crate"], ph.shapes.box(1.0, 0.7, 0.4), "plastic", "object", False)
    expected = [point_cloud2(one, "base_link", round(one.start_time * 1e9), "all") for one in scans]
    # DDS pads payloads to multiples of four bytes.
    assert [one[: len(other)] for one, other in zip(found, expected, strict=True)] == expected


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.name)
def test_examples_have_at_most_fifty_lines(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= 50
