"""Robots from URDF files on vehicles of a scenario: places of sensors, joints that move, what own lidars see."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.config import parse
from parhelion.core.trajectory import pose_at
from parhelion.motion.actors import mobility_of
from parhelion.scenario import Scenario
from parhelion.scenario.robots import OwnLidar, RobotOnBoard, UrdfEntry, encloses
from urdf_rigs import write_rover

DRIVE = ph.ConstantTwist(ph.Pose((1.0, 2.0, 0.5), rpy_deg=(0, 0, 30)), velocity=(2, 1, 0), angular_velocity=(0, 0, 0.4))


@pytest.fixture
def rover(tmp_path: Path) -> Path:
    return write_rover(tmp_path)


def on_board(rover: Path, duration_s: float = 10.0, **fields: Any) -> RobotOnBoard:
    entry = parse(UrdfEntry, {"file": rover.name, **fields}, "urdf")
    return RobotOnBoard(entry, rover.parent, duration_s)


def shown(robot: RobotOnBoard, lidars: list[OwnLidar] | None = None) -> ph.World:
    world = ph.World()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot.show(world, DRIVE, "rover", lidars or [])
    return world


def vertices_at(world: ph.World, time: float) -> np.ndarray:
    """All vertices in the world at a time, in an order of their own."""
    placed = []
    for item in world.objects:
        assert item.trajectory is not None
        for part in item.parts:
            placed.append(pose_at(item.trajectory, time).apply(part.placed))
    points = np.concatenate(placed)
    return points[np.lexsort(np.round(points, 6).T)]


JOINTS: dict[str, Any] = {
    "wheel_joint": {"position": 0.3, "rate": 2.5},
    "arm_joint": {"pairs": [[0.0, -1.0], [2.0, 1.2]], "repeat_s": 5.0},
    "lift_joint": 0.25,
}


@pytest.mark.parametrize("time", [0.0, 0.7, 2.0, 3.9, 6.1])
def test_links_are_where_the_robots_own_kinematics_put_them(rover: Path, time: float) -> None:
    """Against `Robot.add_to` with the joints' positions at that instant: to 1 µm."""
    base: dict[str, Any] = {"xyz": [0.1, 0, 0.3], "rpy_deg": [0, 5, 10]}
    robot = on_board(rover, joints=JOINTS, pose=base)

    def arm(t: float) -> float:
        share = t % 5.0
        x = share / 2.0 if share < 2.0 else 1.0 - (share - 2.0) / 3.0
        return -1.0 + 2.2 * (10 * x**3 - 15 * x**4 + 6 * x**5)

    positions = {"wheel_joint": 0.3 + 2.5 * time, "arm_joint": arm(time), "lift_joint": 0.25}
    reference = ph.World()
    carrier = pose_at(DRIVE, time) @ ph.Pose(base["xyz"], rpy_deg=base["rpy_deg"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot.robot.add_to(reference, carrier, joint_positions=positions)
    np.testing.assert_allclose(vertices_at(shown(robot), time), vertices_at(reference, 0.0), atol=1e-6)


def test_links_that_stay_together_are_one_body_of_one_instance(rover: Path) -> None:
    world = shown(on_board(rover, joints=JOINTS))
    assert [item.name for item in world.objects] == ["rover/base_link", "rover/wheel", "rover/arm"]
    assert len({item.instance for item in world.objects}) == 1
    assert mobility_of(world, world.objects[0].instance) == "dynamic"
    assert {item.label for item in world.objects} == {"robot"}
    still = shown(on_board(rover))
    assert [item.name for item in still.objects] == ["rover/base_link"]


def test_sensors_sit_on_links_or_on_described_sensors(rover: Path) -> None:
    robot = on_board(rover, pose={"xyz": [0, 0, 1.0]})
    np.testing.assert_allclose(robot.mount("velodyne").xyz, [-0.5, 0, 1.0 + 0.25 + 0.2 + 0.0377], atol=1e-12)
    described = robot.mount("top")  # Gazebo's block: 0.1 m ahead of the link, turned to the left
    np.testing.assert_allclose(described.xyz, robot.mount("velodyne").xyz + np.array([0.1, 0, 0]), atol=1e-12)
    np.testing.assert_allclose(described.rpy_deg, [0, 0, 90], atol=1e-9)


@pytest.mark.parametrize(
    ("fields", "place", "words"),
    [
        ({}, "velodine", "did you mean 'velodyne'"),
        ({"joints": JOINTS}, "lift", "moves with joint 'arm_joint'"),
        ({"joints": {"wheel_join": 1.0}}, "", "did you mean 'wheel_joint'"),
        ({"joints": {"mount_joint": 1.0}}, "", "has no position"),
        ({"joints": {"arm_joint": {"rate": 1.0}}}, "", "from -2 to 2 rad"),
        ({"joints": {"arm_joint": [[0, 0], [1, 3]]}}, "", "from -2 to 2 rad"),
        ({"materials": {"wheell": "rubber"}}, "show", "did you mean 'wheel'"),
        ({"material": "unobtainium"}, "show", "unobtainium"),
    ],
)
def test_wrong_links_joints_and_materials_are_named(
    rover: Path, fields: dict[str, Any], place: str, words: str
) -> None:
    with pytest.raises(ph.ConfigError, match=words):  # noqa: PT012 - some fail on loading, some later
        robot = on_board(rover, **fields)
        if place == "show":
            shown(robot)
        elif place:
            robot.mount(place)


@pytest.mark.parametrize(
    ("joint", "words"),
    [
        ("x", "give a position"),
        ({"pairs": [[1, 0], [1, 1]]}, "must increase"),
        ({"pairs": [[0, 0], [2, 1]], "repeat_s": 1}, "repeat_s must be more than"),
        ({"pairs": [[0, 0]], "rate": 1}, "not both"),
        ({"repeat_s": 1}, "repeat_s is for pairs"),
        ({"rate": float("nan")}, "rate: expected a finite number from -10000 to 10000, got nan"),
    ],
)
def test_wrong_joints_are_reported_with_their_path(rover: Path, joint: Any, words: str) -> None:
    with pytest.raises(ph.ConfigError, match=rf"joints\.wheel_joint.*{words}"):
        on_board(rover, joints={"wheel_joint": joint})


@pytest.mark.parametrize("hide", ["inside", "all", "none"])
def test_own_lidars_do_not_see_the_link_that_they_sit_in(rover: Path, hide: str) -> None:
    robot = on_board(rover, hide=hide)
    top = OwnLidar("top", robot.mount("velodyne_base_link"), "velodyne_base_link")
    world = shown(robot, [top])
    scan = ph.Lidar("velodyne/vlp-16", name="top", sub_rays=1).scan(world, trajectory=DRIVE, mount=top.mount, seed=1)
    other = ph.Lidar("velodyne/vlp-16", name="elsewhere", sub_rays=1).scan(world, pose=ph.Pose((1, 12, 0.7)), seed=1)
    assert len(other) > 50  # others see the robot, whatever it hides from itself
    # Its housing, 5 cm around it, would block every beam; without it the lidar sees hull and arm of its own robot.
    assert (len(scan) > 300) == (hide == "inside")
    assert len(scan) == 0 or hide == "inside"


def test_a_lidar_by_mount_alone_is_found_inside_a_link(rover: Path) -> None:
    robot = on_board(rover)
    inside = OwnLidar("eye", ph.Pose((0.2, 0.1, 0.0)))  # within the hull, a box of 2 x 1 x 0.5 m
    above = OwnLidar("high", ph.Pose((0.2, 0.1, 0.4)))
    world = shown(robot, [inside, above])
    hidden = {item.name: item.hidden_from for item in world.objects}
    assert ("eye",) in hidden.values()
    assert not any("high" in names for names in hidden.values())


def test_inside_and_outside_of_meshes() -> None:
    box, ball = ph.shapes.box(2, 1, 0.5), ph.shapes.sphere(1.0)
    rng = np.random.default_rng(4)
    points = rng.uniform(-1.2, 1.2, (200, 3))
    for point in points:
        assert encloses(box, point) == bool(np.all(np.abs(point) < [1.0, 0.5, 0.25]))
    radii = np.linalg.norm(points, axis=1)
    for point, radius in zip(points, radii, strict=True):
        if abs(radius - 1.0) > 0.03:  # the ball is made of flat triangles
            assert encloses(ball, point) == (radius < 1.0)


def test_a_robot_of_frames_alone_shows_nothing(tmp_path: Path) -> None:
    (tmp_path / "bare.urdf").write_text('<robot name="r"><link name="base"/></robot>')
    robot = RobotOnBoard(UrdfEntry(file="bare.urdf"), tmp_path, 1.0)
    assert shown(robot).objects == []
    assert robot.mount("base") == ph.Pose()


def test_missing_files_are_named_with_their_place(tmp_path: Path, rover: Path) -> None:
    fields: dict[str, Any] = {
        "duration_s": 0.2, "world": "cuboids",
        "vehicles": [{"name": "robot", "model": "clearpath/husky", "urdf": "gone.urdf"}],
        "sensors": [{"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "robot", "link": "x"}],
    }  # fmt: skip
    with pytest.raises(ph.ConfigError, match=r"vehicles\[0\]\.urdf: .*gone\.urdf"):
        Scenario.from_mapping(fields, tmp_path)
    (rover.parent.parent / "meshes" / "arm.stl").unlink()
    fields["vehicles"][0]["urdf"] = str(rover)
    with pytest.raises(ph.ConfigError, match=r"vehicles\[0\]\.urdf: .*link 'arm'.*arm\.stl"):
        Scenario.from_mapping(fields, tmp_path)


def test_a_link_needs_a_vehicle_with_a_urdf(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "duration_s": 0.2, "world": "cuboids",
        "vehicles": [{"name": "robot", "model": "clearpath/husky"}],
        "sensors": [{"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "robot", "link": "x"}],
    }  # fmt: skip
    with pytest.raises(
        ph.ConfigError, match=r"sensors\[0\]\.vehicle: for a link, expected the name of a vehicle with a urdf"
    ):
        Scenario.from_mapping(fields, tmp_path)
