"""Robots with joints, moved by MuJoCo: rolling, skidding, braking and towing by closed forms; pieces of worlds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.contact.pieces import Pieces
from parhelion.contact.solid import Solid
from parhelion.world.urdf import load_urdf

pytest.importorskip("mujoco", reason="needs MuJoCo: pip install 'parhelion[physics]'")

from parhelion.contact.jointed import JointCommand, JointedDriver

WHEELS = {"fl": (0.256, 0.2854), "fr": (0.256, -0.2854), "rl": (-0.256, 0.2854), "rr": (-0.256, -0.2854)}
RADIUS = 0.1651


def _link(name: str, mass: float, shape: str, origin: str = "", inertia: float = 0.03) -> str:
    return (
        f'<link name="{name}"><inertial><mass value="{mass}"/>{origin}<inertia ixx="{inertia}" iyy="{inertia}" '
        f'izz="{inertia}"/></inertial><collision>{origin}<geometry>{shape}</geometry></collision></link>'
    )


def _wheel(name: str, parent: str, x: float, y: float, z: float = RADIUS) -> str:
    turned = '<origin rpy="1.5707963267948966 0 0"/>'
    shape = f'<cylinder radius="{RADIUS}" length="0.1143"/>'
    link = _link(name, 2.6, shape).replace("<collision>", f"<collision>{turned}")
    return link + (
        f'<joint name="{name}" type="continuous"><parent link="{parent}"/><child link="{name}"/>'
        f'<origin xyz="{x} {y} {z}"/><axis xyz="0 1 0"/></joint>'
    )


def _robot(folder: Path, more: str = "") -> Any:
    """A skid-steered robot of 50 kg with the wheels of a Husky."""
    hull = _link("base", 39.6, '<box size="0.96 0.44 0.2"/>', '<origin xyz="0 0 0.25"/>', inertia=1.5)
    wheels = "".join(_wheel(name, "base", *place) for name, place in WHEELS.items())
    file = folder / "robot.urdf"
    file.write_text(f'<robot name="robot">{hull}{wheels}{more}</robot>')
    return load_urdf(file)


def _ground(slope_deg: float = 0.0) -> ph.World:
    world = ph.World()
    tilt = ph.Pose(quat_xyzw=(0.0, -math.sin(math.radians(slope_deg) / 2), 0.0, math.cos(math.radians(slope_deg) / 2)))
    world.add(
        ph.shapes.box(80, 80, 1), material="concrete", label="ground", pose=tilt @ ph.Pose((0, 0, -0.5)), name="ground"
    )
    return world


def _drive(driver: JointedDriver, command: Any, seconds: float) -> Any:
    rows = []
    for _ in range(round(seconds / 0.01)):
        driver.step([command], 0.01)
        rows.append(driver.rows()[0].copy())
    return np.array(rows)


def test_a_robot_settles_on_its_wheels(tmp_path: Path) -> None:
    driver = JointedDriver(_ground())
    driver.add("robot", _robot(tmp_path), ph.Pose((0, 0, 0.3)))
    rows = _drive(driver, ph.DriveCommand(0.0), 2.0)
    assert abs(rows[-1, 3]) < 0.002
    assert np.abs(rows[-20:, 8:14]).max() < 1e-3


def test_it_drives_at_the_commanded_speed_and_skids_in_turns(tmp_path: Path) -> None:
    driver = JointedDriver(_ground())
    driver.add("robot", _robot(tmp_path), ph.Pose())
    rows = _drive(driver, ph.DriveCommand(0.8), 2.0)
    assert rows[-50:, 8].mean() == pytest.approx(0.8, abs=0.01)
    rows = _drive(driver, ph.DriveCommand(0.0, 1.0), 4.0)
    a, b = WHEELS["fl"]
    # Four equal loads with Coulomb friction: the yaw rate is that of the wheels times b² / (a² + b²).
    assert rows[-200:, 13].mean() == pytest.approx(b**2 / (a**2 + b**2), rel=0.05)


def test_braking_distance_is_that_of_coulomb_friction(tmp_path: Path) -> None:
    world = _ground()
    driver = JointedDriver(world)
    driver.add("robot", _robot(tmp_path), ph.Pose((-10, 0, 0)))
    driven = _drive(driver, ph.DriveCommand(3.0), 3.0)
    braked = _drive(driver, ph.DriveCommand(0.0), 2.0)
    friction = 0.8  # concrete
    distance = braked[-1, 1] - driven[-1, 1]
    assert driven[-1, 8] == pytest.approx(3.0, abs=0.05)
    assert distance == pytest.approx(driven[-1, 8] ** 2 / (2 * friction * 9.80665), rel=0.04)


def test_the_friction_of_wheels_in_the_file_limits_that_of_the_ground(tmp_path: Path) -> None:
    """Gazebo's mu1 of 0.2 instead of the 0.8 of the ground lengthens braking."""
    more = "".join(f'<gazebo reference="{name}"><mu1 value="0.2"/></gazebo>' for name in WHEELS)
    world = _ground()
    driver = JointedDriver(world)
    driver.add("robot", _robot(tmp_path, more), ph.Pose((-20, 0, 0.3)))
    rows = _drive(driver, ph.DriveCommand(2.0), 3.5)
    stopped = _drive(driver, ph.DriveCommand(0.0), 2.0)
    speed = rows[-1, 8]
    assert stopped[-1, 1] - rows[-1, 1] == pytest.approx(speed**2 / (2 * 0.2 * 9.80665), rel=0.06)


def test_it_holds_on_a_slope_and_a_wall_stops_it(tmp_path: Path) -> None:
    driver = JointedDriver(_ground(10.0))
    tilt = ph.Pose(quat_xyzw=(0.0, -math.sin(math.radians(5)), 0.0, math.cos(math.radians(5))))
    driver.add("robot", _robot(tmp_path), tilt)
    rows = _drive(driver, ph.DriveCommand(0.0), 3.0)
    assert np.linalg.norm(rows[-1, 1:4] - rows[100, 1:4]) < 0.02

    world = _ground()
    world.add(ph.shapes.box(0.2, 4, 1), material="concrete", label="wall", name="wall", pose=ph.Pose((3, 0, 0.5)))
    driver = JointedDriver(world)
    driver.add("robot", _robot(tmp_path), ph.Pose())
    hits = []
    for _ in range(500):
        hits += driver.step([ph.DriveCommand(1.0)], 0.01)
    # The hull reaches 0.48 m ahead, and the wall begins at 2.9 m.
    assert driver.rows()[0, 1] + 0.48 == pytest.approx(2.9, abs=0.005)
    assert hits
    assert hits[0].body == "robot"
    assert hits[0].other == "wall"
    assert hits[0].normal == pytest.approx((-1, 0, 0), abs=0.01)
    # The wall takes the momentum of 50 kg at 1 m/s, and the push of the wheels, which spin at the limit of friction.
    pushed = 0.8 * 50.0 * 9.80665 * 0.01 * len(hits[:10])
    assert sum(one.impulse_n_s for one in hits[:10]) - pushed == pytest.approx(50.0, rel=0.3)


def test_it_climbs_a_low_kerb_and_not_a_high_one(tmp_path: Path) -> None:
    for height, climbs in ((0.06, True), (0.17, False)):
        world = _ground()
        world.add(ph.shapes.box(6, 6, height), material="concrete", label="ground", pose=ph.Pose((4.5, 0, height / 2)))
        driver = JointedDriver(world)
        driver.add("robot", _robot(tmp_path), ph.Pose())
        rows = _drive(driver, ph.DriveCommand(0.8), 5.0)
        assert (abs(rows[-1, 3] - height) < 0.005) == climbs


def test_a_trailer_follows_on_a_smaller_circle(tmp_path: Path) -> None:
    hitch, length = 0.6, 1.2
    bed = _link("bed", 10.0, '<box size="0.3 0.3 0.1"/>', f'<origin xyz="{-length} 0 0.25"/>', inertia=0.5)
    joint = (
        f'<joint name="hitch" type="continuous"><parent link="base"/><child link="bed"/><origin xyz="{-hitch} 0 0"/>'
        '<axis xyz="0 0 1"/></joint>'
    )
    wheels = "".join(_wheel(f"trailer_{k}", "bed", -length, y) for k, y in enumerate((0.3, -0.3)))
    passive = wheels.replace('type="continuous">', 'type="continuous"><limit effort="0" velocity="1"/>')
    driver = JointedDriver(_ground())
    driver.add("robot", _robot(tmp_path, bed + joint + passive), ph.Pose())
    rows = _drive(driver, ph.DriveCommand(0.6, 0.35), 20.0)
    speed, rate = np.hypot(rows[-500:, 8], rows[-500:, 9]).mean(), rows[-500:, 13].mean()
    radius = speed / rate
    expected = math.atan2(hitch, radius) + math.asin(length / math.hypot(radius, hitch))
    assert abs(driver.joints(0)["hitch"]) == pytest.approx(expected, rel=0.1)


def test_joints_with_a_motor_reach_their_positions(tmp_path: Path) -> None:
    lift = _link("fork", 1.0, '<box size="0.2 0.2 0.02"/>', inertia=0.01) + (
        '<joint name="lift" type="prismatic"><parent link="base"/><child link="fork"/><origin xyz="0.6 0 0.2"/>'
        '<axis xyz="0 0 1"/><limit lower="0" upper="0.5" effort="200" velocity="1"/></joint>'
    )
    driver = JointedDriver(_ground())
    driver.add("robot", _robot(tmp_path, lift), ph.Pose())
    _drive(driver, JointCommand(positions={"lift": 0.3}), 2.0)
    assert driver.joints(0)["lift"] == pytest.approx(0.3, abs=0.002)
    with pytest.raises(ph.ConfigError, match="robot: no motor 'crane'; motors: fl, fr, rl, rr, lift"):
        driver.step([JointCommand(positions={"crane": 1.0})], 0.01)


def test_repeated_and_resumed_drives_have_the_same_bits(tmp_path: Path) -> None:
    world = ph.World.load("off-road")
    x, y, z = world.viewpoint.xyz
    driver = JointedDriver(world)
    driver.add("robot", _robot(tmp_path), ph.Pose((x, y, z - 1.0)))
    _drive(driver, ph.DriveCommand(1.0, 0.2), 3.0)
    saved = driver.save()
    first = _drive(driver, ph.DriveCommand(1.0, 0.2), 3.0)
    driver.load(saved)
    assert np.array_equal(_drive(driver, ph.DriveCommand(1.0, 0.2), 3.0), first)
    driver.restart()
    _drive(driver, ph.DriveCommand(1.0, 0.2), 3.0)
    assert np.array_equal(_drive(driver, ph.DriveCommand(1.0, 0.2), 3.0), first)
    ground = Solid.of(world).heights(first[::50, 1:4], 0.5)
    assert np.abs(first[::50, 3] - ground).max() < 0.15  # the root lies between four wheels on rough ground


def test_an_mjcf_robot_drives_with_its_own_actuators(tmp_path: Path) -> None:
    wheels = "".join(
        f'<body name="{name}" pos="{x} {y} {RADIUS}"><joint name="{name}" axis="0 1 0"/>'
        f'<geom type="ellipsoid" size="{RADIUS} {RADIUS} 0.05" euler="90 0 0" mass="2"/></body>'
        for name, (x, y) in WHEELS.items()
    )
    motors = "".join(f'<velocity name="m{name}" joint="{name}" kv="50"/>' for name in WHEELS)
    file = tmp_path / "robot.xml"
    file.write_text(
        '<mujoco><worldbody><geom type="plane" size="5 5 1"/><body name="base"><freejoint/>'
        f'<geom type="box" size="0.4 0.2 0.1" pos="0 0 0.25" mass="30"/>{wheels}</body></worldbody>'
        f"<actuator>{motors}</actuator></mujoco>"
    )
    driver = JointedDriver(_ground())
    driver.add("robot", file, ph.Pose())
    rows = _drive(driver, ph.DriveCommand(0.5), 3.0)
    assert rows[-1, 8] == pytest.approx(0.5, abs=0.02)
    file.write_text("<mujoco><worldbody><body><geom type='cube'/></body></worldbody></mujoco>")
    with pytest.raises(ph.FormatError, match=r"robot\.xml: "):
        driver.add("other", file, ph.Pose())


MJCF = """<mujoco><worldbody><body name="base"><freejoint/><geom type="box" size="0.4 0.2 0.1" pos="0 0 {z}" mass="30"/>
<body name="left" pos="0 0.3 0.16"><joint name="{joint}" axis="0 1 0"/>
<geom type="ellipsoid" size="0.16 0.16 0.05" euler="90 0 0" mass="2"/></body></body></worldbody>
<actuator><velocity name="a" {target} kv="50"/></actuator></mujoco>"""


@pytest.mark.filterwarnings("ignore:Inertia matrix is too close to singular")
@pytest.mark.parametrize("z", ["-inf", "-1e308", "-1e19"])
def test_a_robot_with_huge_poses_is_refused_by_its_file(tmp_path: Path, z: str) -> None:
    file = tmp_path / "robot.xml"
    file.write_text(MJCF.format(z=z, joint="left", target='joint="left"'))
    with pytest.raises(ph.ConfigError, match=r"robot\.xml: "):
        JointedDriver(_ground()).add("robot", file, ph.Pose())


def test_names_of_a_robot_that_are_not_text_or_empty(tmp_path: Path) -> None:
    file = tmp_path / "robot.xml"
    file.write_bytes(MJCF.format(z=0.25, joint="left", target='joint="left"').encode().replace(b"left", b"l\xff"))
    with pytest.raises(ph.FormatError, match=r"robot\.xml: contains a name that is not UTF-8 text"):
        JointedDriver(_ground()).add("robot", file, ph.Pose())
    # A motor without a target must not be taken for that of a joint without a name.
    file.write_text(MJCF.format(z=0.25, joint="", target=""))
    driver = JointedDriver(_ground())
    driver.add("robot", file, ph.Pose())
    driver.step([ph.DriveCommand(0.5)], 0.01)
    assert np.isfinite(driver.rows()).all()


def test_a_robot_without_masses_or_ground_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bare.urdf"
    file.write_text(
        '<robot name="r"><link name="base"><visual><geometry><box size="1 1 1"/></geometry></visual></link></robot>'
    )
    with pytest.raises(ph.ConfigError, match="no link has <inertial>; contact needs the mass"):
        JointedDriver(_ground()).add("robot", load_urdf(file), ph.Pose())
    with pytest.raises(ph.ConfigError, match="no ground under its start"):
        JointedDriver(_ground()).add("robot", _robot(tmp_path), ph.Pose((500, 0, 0)))


def test_boxes_are_whole_pieces_and_buildings_are_not() -> None:
    world = ph.World()
    world.add(ph.shapes.box(4, 1, 2), material="brick", label="wall", pose=ph.Pose((0, 0, 1)))
    corner = np.array([[0, 0], [6, 0], [6, 2], [2, 2], [2, 6], [0, 6]], float)
    n = len(corner)
    vertices = np.concatenate([np.c_[corner, np.zeros(n)], np.c_[corner, np.full(n, 3.0)]])
    sides = [t for k in range(n) for t in ((k, (k + 1) % n, n + k), ((k + 1) % n, n + (k + 1) % n, n + k))]
    caps = [(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)]
    faces = np.array(sides + [(a, c, b) for a, b, c in caps] + [tuple(n + k for k in cap) for cap in caps])
    world.add((vertices, faces), material="brick", label="building", pose=ph.Pose((20, 0, 0)))
    pieces = Pieces(world)
    assert pieces._whole[pieces._component].tolist() == [True] * 12 + [False] * len(faces)
    assert pieces.solid.heights(np.array([[21.0, 1.0, 10.0]])) == pytest.approx([3.0], abs=1e-5)


def _scenario(tmp_path: Path, **vehicle: Any) -> ph.Scenario:
    entry = {"name": "robot", "dynamics": "mujoco", **vehicle}
    imu = {"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "robot"}
    fields = {"duration_s": 2.0, "world": "warehouse", "vehicles": [entry], "sensors": [imu]}
    return ph.Scenario.from_mapping(fields, tmp_path)


def test_a_scenario_drives_a_robot_along_its_route_and_turns_its_wheels(tmp_path: Path) -> None:
    _robot(tmp_path)
    scenario = _scenario(tmp_path, urdf="robot.urdf", follow={"points": [[3, 0, 0], [6, 1, 0]], "speed_m_s": 0.8})
    first = [step.state("robot").xyz[0].tolist() for step in scenario]
    assert first[-1][0] == pytest.approx(1.5, abs=0.1)
    assert [step.state("robot").xyz[0].tolist() for step in scenario] == first
    wheel = scenario.bodies["robot"].joint("fl")  # type: ignore[union-attr]
    turned = wheel(np.array([1.0, 2.0]))
    assert turned[1] - turned[0] == pytest.approx((first[-1][0] - first[99][0]) / RADIUS, rel=0.02)


def test_the_root_of_a_robot_may_be_above_the_vehicle_frame(tmp_path: Path) -> None:
    _robot(tmp_path)
    file = tmp_path / "robot.urdf"
    lowered = file.read_text().replace(f' {RADIUS}"/><axis', ' 0"/><axis').replace("0 0 0.25", f"0 0 {0.25 - RADIUS}")
    file.write_text(lowered)
    scenario = _scenario(tmp_path, urdf={"file": "robot.urdf", "pose": {"xyz": [0, 0, RADIUS]}})
    heights = [step.state("robot").xyz[0, 2] for step in scenario]
    assert abs(heights[-1]) < 0.002


def test_wrong_robots_of_a_scenario_name_what_to_write(tmp_path: Path) -> None:
    _robot(tmp_path)
    with pytest.raises(ph.ConfigError, match="give either urdf or mjcf, and no model"):
        _scenario(tmp_path, model="clearpath/husky")
    with pytest.raises(ph.ConfigError, match="mjcf is for dynamics: mujoco"):
        _scenario(tmp_path, model="clearpath/husky", mjcf="robot.xml", dynamics="rays")
    with pytest.raises(ph.ConfigError, match=r"vehicles\[0\]: .*no-such\.xml"):
        _scenario(tmp_path, mjcf="no-such.xml")


def test_rough_ground_has_its_own_slope(tmp_path: Path) -> None:
    """A mesh that is not a box becomes a height field, whose cells must have their width."""
    x, y = np.meshgrid(np.arange(-10.0, 10.5, 0.5), np.arange(-10.0, 10.5, 0.5), indexing="ij")
    points = np.column_stack([x.ravel(), y.ravel(), 0.1 * x.ravel() + 0.06 * y.ravel()])
    corner = (np.arange(40)[:, None] * 41 + np.arange(40)).ravel()
    faces = np.concatenate(
        [np.stack([corner, corner + 41, corner + 1], 1), np.stack([corner + 1, corner + 41, corner + 42], 1)]
    )
    world = ph.World()
    world.add((points, faces), material="concrete", label="ground")
    driver = JointedDriver(world)
    driver.add("robot", _robot(tmp_path), ph.Pose((3.0, -2.0, 0.3)))
    row = _drive(driver, ph.DriveCommand(0.0), 0.6)[-1]
    qx, qy, qz, qw = row[4:8]
    assert 2.0 * (qx * qz - qw * qy) == pytest.approx(math.sin(math.atan(0.1)), abs=0.01)  # z of the forward axis
    assert 2.0 * (qy * qz + qw * qx) == pytest.approx(math.sin(math.atan(0.06)), abs=0.01)  # and of the left axis
    assert row[3] == pytest.approx(0.1 * row[1] + 0.06 * row[2], abs=0.03)
