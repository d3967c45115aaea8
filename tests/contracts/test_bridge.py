"""Bridge: every kind of sensor, the clock of either side, logs that replay bit for bit, clear errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.records import Record
from urdf_rigs import write_rover

KINDS = sorted(ph.sensors())


def arrays(record: Record) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if isinstance(value, np.ndarray)}


def same(one: list[Any], other: list[Any]) -> bool:
    """True if both lists hold the same records, bit for bit."""
    if [(a.sensor, a.number) for a in one] != [(b.sensor, b.number) for b in other]:
        return False
    for a, b in zip(one, other, strict=True):
        left, right = arrays(a.record), arrays(b.record)
        if left.keys() != right.keys() or not left:
            return False
        if not all(np.array_equal(left[k], right[k], equal_nan=left[k].dtype.kind == "f") for k in left):
            return False
    return True


def yard() -> ph.World:
    world = ph.World("yard")
    world.add(ph.shapes.plane(60, 60), material="asphalt", label="road")
    world.add(ph.shapes.box(0.5, 12, 4), material="brick", label="building", pose=ph.Pose((9, 0, 2)))
    return world


def described(*sensors: Any, **options: Any) -> ph.Bridge:
    bridge = ph.Bridge(yard(), seed=7, **options)
    bridge.add_body("robot", ph.shapes.box(0.8, 0.6, 0.4), material="steel", label="robot")
    bridge.add_body("crate", ph.shapes.box(1, 1, 1), material="cardboard", label="box", pose=ph.Pose((5, 2, 0.5)))
    for sensor in sensors:
        bridge.attach(sensor, "robot", ph.Pose((0, 0, 0.8)))
    return bridge


def poses(time: float) -> dict[str, Any]:
    angle = 0.3 * time
    robot = ph.Pose((0.5 * time, 0.1 * time, 0.2), quat_xyzw=(0, 0, np.sin(angle / 2), np.cos(angle / 2)))
    return {"robot": robot, "crate": ((5.0 - time, 2.0, 0.5), (0, 0, 0, 1), (-1.0, 0, 0), (0, 0, 0))}


def pushed(bridge: ph.Bridge, duration: float, dt: float = 0.01) -> Iterator[Any]:
    for k in range(round(duration / dt) + 1):
        yield from bridge.step(k * dt, poses(k * dt))


def test_every_kind_measures_on_a_pushed_body() -> None:
    sensors = [ph.sensor(kind, ph.presets(kind)[0], name=kind) for kind in KINDS]
    bridge = described(*(one for one in sensors if one.kind not in ("camera", "uwb")))
    period = max(1.0 / one.rate_hz + getattr(one, "frame_duration_s", 0.0) for one in sensors)
    found = list(pushed(bridge, min(period + 0.02, 1.3), 0.02))
    assert {one.sensor for one in found} == {one.name for one in sensors} - {"camera", "uwb"}
    assert all(isinstance(one.record, Record) for one in found)


def test_lidar_sees_where_bodies_are_at_the_time_of_each_shot() -> None:
    bridge = described(ph.Lidar("velodyne/vlp-16", name="top", noise=False))
    scan = [one.record for one in pushed(bridge, 0.4)][3]
    crate = next(one for one in bridge.world.objects if one.name == "crate")
    hit = scan.instance == crate.instance
    assert hit.sum() > 30
    times = scan.start_time + scan.time[hit]
    robot = [poses(float(time))["robot"] @ ph.Pose((0, 0, 0.8)) for time in times]
    world = np.array([pose.apply(point[None])[0] for pose, point in zip(robot, scan.xyz[hit], strict=True)])
    face = world[:, 0] - (5.0 - times - 0.5)  # the face towards the robot
    assert np.median(np.abs(face)) < 0.002
    assert not (scan.instance == next(one for one in bridge.world.objects if one.name == "robot").instance).any()


def test_either_clock_leads_and_polling_does_not_matter(tmp_path: Path) -> None:
    def sensors() -> tuple[Any, ...]:
        return ph.Lidar("velodyne/vlp-16", name="top"), ph.Imu("xsens/mti-3", name="imu")

    log = tmp_path / "poses.jsonl.gz"
    with described(*sensors(), log=log) as bridge:
        theirs = list(pushed(bridge, 0.3))
    ours = list(described(*sensors()).run(poses, until=0.3, dt=0.01))
    assert same(theirs, ours)
    assert same(theirs, list(described(*sensors()).replay(log)))
    late = described(*sensors())
    for k in range(31):
        late.push(0.01 * k, poses(0.01 * k))
    scans = [one for one in late.records() if one.sensor == "top"]
    assert same(scans, [one for one in theirs if one.sensor == "top"])
    assert len(scans) == 3


def test_time_of_the_other_simulator_may_start_anywhere() -> None:
    bridge, start = described(ph.Lidar("velodyne/vlp-16", name="top")), 1234.56
    found = []
    for k in range(30):
        found += bridge.step(start + 0.01 * k, poses(0.01 * k))
    assert [one.number for one in found] == [12346, 12347]
    assert found[0].record.start_time == pytest.approx(1234.6)


def test_weather_of_a_bridge_is_that_of_its_world() -> None:
    bridge = described(ph.Lidar("velodyne/vlp-16", name="top"))
    bridge.weather = ph.Weather(rain_rate_mm_h=100)
    assert bridge.weather is bridge.world.weather
    scan = next(iter(pushed(bridge, 0.2))).record
    assert (scan.origin == 1).any()


def test_joints_of_a_urdf_robot_are_pushed(tmp_path: Path) -> None:
    bridge = ph.Bridge(yard(), seed=7)
    bridge.add_urdf(write_rover(tmp_path), "rover", material="steel")
    name = sorted(bridge.joints)[0]
    bridge.push(0.0, {"rover": ph.Pose((0, 0, 1))}, {name: 0.0})
    bridge.push(1.0, {"rover": ph.Pose((1, 0, 1))}, {name: 0.4})
    assert bridge.joints[name](np.array([0.5])).tolist() == [0.2]
    moved = [one for one in bridge.world.objects if one.is_actor]
    assert len(moved) > 1
    assert any(one.trajectory.sample([0.5])[0][0, 0] == pytest.approx(0.5) for one in moved)
    with pytest.raises(ph.ConfigError, match="unknown joint"):
        bridge.push(2.0, {}, {"rover/nothing": 1.0})


def test_errors_are_one_clear_sentence(tmp_path: Path) -> None:
    lidar = ph.Lidar("velodyne/vlp-16", name="top")
    bridge = described(lidar)
    for make, text in (
        (lambda: bridge.attach(lidar), "attached already"),
        (lambda: bridge.attach(ph.Lidar("velodyne/vlp-16")), "has no name"),
        (lambda: bridge.attach(ph.Imu("xsens/mti-3", name="imu")), "give the body that carries it"),
        (lambda: bridge.attach(ph.Imu("xsens/mti-3", name="imu"), "robt"), "did you mean 'robot'"),
        (lambda: bridge.add_body("robot"), "exists already"),
        (lambda: bridge.push(0.0, {"robt": ph.Pose()}), "did you mean 'robot'"),
        (lambda: bridge.push(0.0, {"robot": (1, 2)}), "expected a Pose"),
        (lambda: bridge.push(0.0, {"robot": ((0, 0, 0), (0, 0, 0, 2))}), "must be a unit quaternion"),
        (lambda: bridge.push(0.0, {"robot": ((0, 0, np.inf), (0, 0, 0, 1))}), "must be finite"),
        (lambda: bridge.push(float("nan"), {}), "must be finite"),
    ):
        with pytest.raises(ph.ConfigError, match=text):
            make()
    bridge.step(0.0, poses(0.0))
    with pytest.raises(ph.ConfigError, match="not after"):
        bridge.push(0.0, poses(0.0))
    with pytest.raises(ph.ConfigError, match="push them first"):
        bridge.records(1.0)
    with pytest.raises(ph.ConfigError, match="after the first push"):
        bridge.add_body("late")
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"bridge": 1, "seed": 8, "bodies": ["crate", "robot"], "sensors": {}}) + "\n")
    with pytest.raises(ph.ConfigError, match="seed is 8"):
        list(described().replay(log))
    log.write_text("no json\n")
    with pytest.raises(ph.FormatError, match="line 1"):
        list(described().replay(log))
