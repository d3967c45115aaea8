"""A scenario as ROS sees it: topics, stamps, transforms and truth; and KISS-ICP, which reads the bag by itself."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from rosbags.highlevel import AnyReader

import parhelion as ph
from parhelion.core.pose import quat_rotate
from parhelion.io import poses as tum
from parhelion.io.ros import BagReader, cloud_of, decode
from parhelion.io.ros import messages as ros
from parhelion.outputs.ros.feed import RosFeed
from parhelion.scenario import Scenario
from run_rigs import YARD, Stop, stop_after

ROBOT: dict[str, Any] = {
    "seed": 7,
    "duration_s": 0.4,
    "world": "yard.yaml",
    "vehicles": [
        {"name": "husky", "model": "clearpath/husky", "start": {"xyz": [1, 2, 0], "rpy_deg": [0, 0, 30]},
         "follow": {"points": [[5, 5, 0]], "speed_m_s": 0.9}},
    ],
    "sensors": [
        {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "husky",
         "mount": {"xyz": [0.1, 0, 0.8], "rpy_deg": [0, 5, 0]}, "options": {"sub_rays": 1}},
        {"name": "ouster", "type": "lidar", "model": "ouster/os0-32", "vehicle": "husky",
         "mount": {"xyz": [0, 0, 0.5]}, "options": {"sub_rays": 1, "columns": 512, "returns": "dual"}},
        {"name": "flat", "type": "lidar", "model": "hokuyo/utm-30lx", "vehicle": "husky",
         "mount": {"xyz": [0.3, 0, 0.3]}, "options": {"sub_rays": 1}},
        {"name": "imu", "type": "imu", "model": "analog-devices/adis16470", "vehicle": "husky", "rate_hz": 200},
        {"name": "wheels", "type": "odometry", "model": "clearpath/husky", "vehicle": "husky"},
        {"name": "baro", "type": "barometer", "model": "", "vehicle": "husky"},
        {"name": "mag", "type": "magnetometer", "model": "", "vehicle": "husky"},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def fields() -> dict[str, Any]:

    described = copy.deepcopy(ROBOT)
    described["sensors"][5]["model"] = ph.presets("barometer")[0]
    described["sensors"][6]["model"] = ph.presets("magnetometer")[0]
    return described


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, fields: dict[str, Any]) -> Path:
    folder = tmp_path_factory.mktemp("robot")
    (folder / "yard.yaml").write_text(yaml.safe_dump(YARD))
    Scenario.from_mapping(fields, folder).run(folder / "out")
    return folder / "out"


def decoded(run: Path, topic: str) -> list[Any]:
    return [decode(message.type, message.data) for message in BagReader(run / "bag").messages([topic])]


def test_topics_types_and_counts(run: Path) -> None:
    bag = BagReader(run / "bag")
    found = {name: (topic.type, topic.count) for name, topic in bag.topics.items()}
    assert found.pop("/pressure")[0] == ros.FLUID_PRESSURE
    assert found.pop("/imu/mag")[0] == ros.MAGNETIC_FIELD
    assert found == {
        "/velodyne_points": (ros.POINT_CLOUD, 4), "/ouster/points": (ros.POINT_CLOUD, 4),
        "/ouster/points2": (ros.POINT_CLOUD, 4), "/scan": (ros.LASER_SCAN, 16), "/imu/data": (ros.IMU, 80),
        "/odom": (ros.ODOMETRY, 20), "/ground_truth/odom": (ros.ODOMETRY, 41), "/ground_truth/pose": (ros.POSE, 41),
        "/tf": (ros.TF, 41), "/tf_static": (ros.TF, 1), "/clock": (ros.CLOCK, 41),
        "/ground_truth/objects": ("vision_msgs/msg/Detection3DArray", 5),
        "/ground_truth/label_info": ("vision_msgs/msg/LabelInfo", 1),
    }  # fmt: skip
    times = [message.time_ns for message in bag]
    assert times == sorted(times)
    with AnyReader([run / "bag"]) as other:
        assert sum(1 for _ in other.messages()) == bag.count
        for connection, _, data in other.messages():
            other.deserialize(data, connection.msgtype)
    manifest = json.loads((run / "manifest.json").read_text())
    assert {"bag/bag_0.mcap", "bag/metadata.yaml"} <= set(manifest["files"])


def test_clouds_are_those_of_the_files(run: Path) -> None:
    for number, message in enumerate(BagReader(run / "bag").messages(["/velodyne_points"])):
        cloud, file = cloud_of(message), ph.PointCloud.load(run / "top" / f"{number:06d}.pcd")
        np.testing.assert_array_equal(cloud.xyz, file.xyz)
        np.testing.assert_array_equal(cloud.time, file.time)
        assert cloud.metadata == {"time": pytest.approx(0.1 * number), "frame_id": "velodyne"}
        # Stamped with its first shot, sent after its last.
        assert message.time_ns == pytest.approx(1e9 * (0.1 * number + float(file.time.max())), abs=2e5)
    image = decoded(run, "/ouster/points")[0]
    assert (image.height, image.width, image.point_step) == (32, 512, 48)
    assert image.header.frame_id == "os_sensor"


def test_a_flat_lidar_is_a_laser_scan(run: Path) -> None:
    for number, scan in enumerate(decoded(run, "/scan")):
        file = ph.PointCloud.load(run / "flat" / f"{number:06d}.pcd")
        assert scan.header.frame_id == "laser"
        assert (scan.range_min, scan.range_max) == (pytest.approx(0.1), 60.0)
        hits = np.flatnonzero(np.isfinite(scan.ranges))
        assert len(hits) == len(np.unique(file.shot))
        angles = scan.angle_min + scan.angle_increment * hits
        points = np.stack([np.cos(angles), np.sin(angles)], axis=1) * scan.ranges[hits, None]
        order = np.argsort(np.arctan2(file.xyz[:, 1], file.xyz[:, 0]))
        # Within a tenth of a beam's step of 0.25 degrees.
        np.testing.assert_allclose(points, file.xyz[order, :2], atol=0.01)


def test_samples_are_those_of_the_files(run: Path) -> None:
    imu = np.loadtxt(run / "imu.csv", delimiter=",", skiprows=1)
    sent = decoded(run, "/imu/data")
    np.testing.assert_allclose([ros.nanoseconds(one.header.stamp) / 1e9 for one in sent], imu[:, 0], atol=1e-9)
    force = [[getattr(one.linear_acceleration, axis) for axis in "xyz"] for one in sent]
    np.testing.assert_array_equal(force, imu[:, 1:4])
    assert sent[0].linear_acceleration_covariance[0] > 0


def test_wheels_step_by_step_are_those_of_the_whole_run(run: Path) -> None:
    with (run / "wheels.csv").open() as file:
        names = file.readline().strip().split(",")
    table = dict(zip(names, np.loadtxt(run / "wheels.csv", delimiter=",", skiprows=1).T, strict=True))
    sent = decoded(run, "/odom")
    where = np.array([[one.pose.pose.position.x, one.pose.pose.position.y] for one in sent])
    # A tick of the encoder is 13 µm on the ground.
    np.testing.assert_allclose(where, np.stack([table["xyz_x"], table["xyz_y"]], axis=1), atol=2e-5)
    assert where[-1, 0] > 0.02
    assert (sent[0].header.frame_id, sent[0].child_frame_id) == ("odom", "base_link")
    assert ros.nanoseconds(sent[0].header.stamp) == 20_000_000


def test_transforms_lead_from_the_map_to_the_points(run: Path) -> None:
    """Points of a wall, through the TF tree alone, lie on the wall."""
    (static,) = decoded(run, "/tf_static")
    mount = next(one for one in static.transforms if one.child_frame_id == "velodyne")
    assert mount.header.frame_id == "base_link"
    moving = {ros.nanoseconds(one.transforms[0].header.stamp): one.transforms[0] for one in decoded(run, "/tf")}
    message = list(BagReader(run / "bag").messages(["/velodyne_points"]))[3]
    cloud = cloud_of(message)
    body = moving[round(cloud.metadata["time"] * 1e9)]
    assert (body.header.frame_id, body.child_frame_id) == ("map", "base_link")
    points = cloud.xyz[cloud.time < 2e-3].astype(np.float64)  # the first degrees of the turn: no motion to speak of
    for one in (mount, body):
        turn, shift = one.transform.rotation, one.transform.translation
        points = quat_rotate(np.array([turn.x, turn.y, turn.z, turn.w]), points)
        points += np.array([shift.x, shift.y, shift.z])
    wall = (points[:, 2] > 0.5) & (points[:, 0] > 10)
    assert wall.sum() > 20
    np.testing.assert_allclose(points[wall, 0], 11.5, atol=0.1)
    assert {one.child_frame_id for one in static.transforms} == {
        "velodyne", "os_sensor", "laser", "imu_link", "barometer_link", "magnetometer_link"
    }  # fmt: skip


def test_truth_is_that_of_the_files(run: Path) -> None:
    poses = tum.read_tum(run / "truth" / "husky.tum")
    sent = decoded(run, "/ground_truth/odom")
    found = [[getattr(one.pose.pose.position, axis) for axis in "xyz"] for one in sent]
    np.testing.assert_allclose(found, poses.xyz, atol=1e-9)
    # Velocities are in the body's frame: a robot that rolls has none to the side.
    last = sent[-1].twist.twist.linear
    assert last.x > 0.05
    assert abs(last.y) < 0.02


def test_steps_one_by_one_give_the_same_messages(run: Path, fields: dict[str, Any]) -> None:
    scenario = Scenario.from_mapping({**fields, "sensors": fields["sensors"][3:]}, run.parent)
    feed = RosFeed(scenario)
    found = [*feed.first()]
    for step in scenario:
        found += feed.of(step)
    again = RosFeed(scenario, batch_s=0.13)
    batched = [*again.first()]
    for step in scenario:
        batched += again.of(step)
    batched += again.last()
    assert len(found) > 200
    one, two = ({(message.topic, message.time_ns): message for message in messages} for messages in (found, batched))
    assert one.keys() == two.keys()
    assert all(one[key].data == two[key].data for key in one if key[0] in ("/clock", "/tf_static", "/pressure"))
    for key in one:
        if key[0] in ("/ground_truth/odom", "/odom"):
            here, there = (decode(ros.ODOMETRY, messages[key].data).pose.pose.position for messages in (one, two))
            assert (here.x, here.y) == (pytest.approx(there.x, abs=2e-5), pytest.approx(there.y, abs=2e-5))
        if key[0] == "/imu/data":
            turns = [decode(ros.IMU, messages[key].data).angular_velocity.z for messages in (one, two)]
            assert turns[0] == pytest.approx(turns[1], abs=1e-9)


def test_two_of_a_kind_and_names_of_ones_own(run: Path, fields: dict[str, Any]) -> None:
    lidar = {"type": "lidar", "model": "velodyne/vlp-16", "vehicle": "husky", "options": {"sub_rays": 1}}
    sensors = [{**lidar, "name": "front"}, {**lidar, "name": "back-2"}, {**lidar, "name": "third"}]
    vehicles = [*fields["vehicles"], {"name": "car", "motion": {"fixed": {"xyz": [5, -5, 0]}}}]
    scenario = Scenario.from_mapping({**fields, "sensors": sensors, "vehicles": vehicles}, run.parent)
    feed = RosFeed(scenario, {"third": "/roof/points"}, {"third": "roof"})
    assert [(one.topic, one.frame) for one in feed.sensors.values()] == [
        ("/front/velodyne_points", "front/velodyne"), ("/back_2/velodyne_points", "back_2/velodyne"),
        ("/roof/points", "roof"),
    ]  # fmt: skip
    assert [(one.topic, one.frame) for one in feed.vehicles.values()] == [("", "base_link"), ("/car", "car/base_link")]
    for topics, frames, words in (
        ({"roof": "/x"}, {}, "unknown sensor or vehicle 'roof'"),
        ({"front": "x y"}, {}, "must be like /a/b"),
        ({"front": "/same", "third": "/same"}, {}, "is used twice"),
        ({}, {"front": "base_link"}, "is used twice"),
        ({}, {"front": "/roof"}, "start with"),
    ):
        with pytest.raises(ph.ConfigError, match=words):
            RosFeed(scenario, topics, frames)


def test_sqlite_layouts_and_epoch(run: Path, fields: dict[str, Any], tmp_path: Path) -> None:
    shutil.copy(run.parent / "yard.yaml", tmp_path)
    output = {"kind": "bag", "storage": "sqlite3", "layout": "all", "epoch_s": 1.7e9, "topics": {"top": "/cloud"}}
    described = {**fields, "duration_s": 0.1, "sensors": fields["sensors"][:3:2], "outputs": [output]}
    Scenario.from_mapping(described, tmp_path).run(tmp_path / "out")
    bag = BagReader(tmp_path / "out" / "bag")
    cloud = cloud_of(next(bag.messages(["/cloud"])))
    assert cloud.metadata["time"] == 1.7e9
    assert {"label", "material", "instance", "velocity", "origin", "range", "power"} <= set(cloud.fields)
    assert bag.topics["/points"].type == ros.POINT_CLOUD  # with a layout that was asked for, flat lidars have it, too
    with AnyReader([tmp_path / "out" / "bag"]) as other:
        assert other.start_time == 1_700_000_000_000_000_000
        assert other.message_count == bag.count


def test_a_stopped_run_leaves_a_bag_and_goes_on_to_the_same_bytes(
    run: Path, fields: dict[str, Any], tmp_path: Path
) -> None:
    shutil.copy(run.parent / "yard.yaml", tmp_path)
    described = {**fields, "sensors": fields["sensors"][:1]}

    with pytest.raises(Stop):
        Scenario.from_mapping(described, tmp_path).run(tmp_path / "parts", progress=stop_after(2))
    assert BagReader(tmp_path / "parts" / "bag").topics["/velodyne_points"].count == 2
    Scenario.from_mapping(described, tmp_path).run(tmp_path / "parts")
    Scenario.from_mapping(described, tmp_path).run(tmp_path / "whole")
    for name in ("bag_0.mcap", "metadata.yaml"):
        one, two = (tmp_path / place / "bag" / name for place in ("parts", "whole"))
        assert one.read_bytes() == two.read_bytes()
    assert not (tmp_path / "parts" / "bag.new").exists()


def test_kiss_icp_reads_the_bag_and_finds_the_way(tmp_path: Path) -> None:
    """KISS-ICP's own command line on 20 scans over 9.5 m of a street."""
    tool = Path(sys.executable).with_name("kiss_icp_pipeline")
    if not tool.exists():
        pytest.skip("kiss_icp_pipeline is not installed (pip install kiss-icp)")
    described = {
        "seed": 3, "duration_s": 2.0, "world": "city",
        "vehicles": [{"name": "car", "motion": {"constant": {"xyz": [-30, 0, 0], "velocity_m_s": [5, 0, 0]}}}],
        "sensors": [
            {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "car",
             "mount": {"xyz": [0, 0, 1.8]}, "options": {"sub_rays": 1}},
        ],
    }  # fmt: skip
    Scenario.from_mapping(described).run(tmp_path / "out")
    finished = subprocess.run(
        [str(tool), str(tmp_path / "out" / "bag"), "--topic", "/velodyne_points"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "2"},
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr[-2000:]
    found = tum.read_tum(next((tmp_path / "results" / "latest").glob("*_poses_tum.txt")))
    truth = tum.read_tum(tmp_path / "out" / "truth" / "top.tum")
    assert len(found.times) == 20
    went = found.xyz - found.xyz[0] - (truth.xyz - truth.xyz[0])
    # 1 % of the way; 0.2 % is typical here. The first scans are worse: the speed is not known yet.
    assert np.linalg.norm(went[-1]) < 0.1, went
    assert np.abs(went).max() < 0.4
