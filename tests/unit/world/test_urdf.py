"""Robots from URDF files: kinematics, shapes and sensors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from parhelion.core.errors import ConfigError, FormatError, MissingDependencyError
from parhelion.world.urdf import Robot, load_urdf
from parhelion.world.urdf.reader import kind_by_name
from parhelion.world.urdf.shapes import collada_unit
from urdf_rigs import TWO_LINKS, joint, write_rover, written


@pytest.fixture(scope="module")
def rover(tmp_path_factory: pytest.TempPathFactory) -> Robot:
    return load_urdf(write_rover(tmp_path_factory.mktemp("workspace")))


def matrix(xyz: Any = (0, 0, 0), rotation: Rotation | None = None) -> Any:
    """A 4 x 4 matrix by way of scipy."""
    m = np.eye(4)
    m[:3, :3] = np.eye(3) if rotation is None else rotation.as_matrix()
    m[:3, 3] = xyz
    return m


# ---- kinematics ----------------------------------------------------------------------------------------------------


def test_links_joints_and_base_are_those_of_the_file(rover: Robot) -> None:
    assert (rover.name, rover.base, len(rover.links), len(rover.joints)) == ("rover", "base_link", 11, 10)
    assert {j.kind for j in rover.joints.values()} == {"fixed", "revolute", "continuous", "prismatic"}
    assert repr(rover) == "Robot('rover': 11 links, 3 of 10 joints move, 3 sensors)"


def test_poses_by_hand(rover: Robot) -> None:
    poses = rover.link_poses({"wheel_joint": math.pi / 2})
    # A quarter turn about y: the wheel's x axis points down, its z axis forward.
    np.testing.assert_allclose(poses["wheel"].xyz, (0.6, 0.5, -0.2))
    np.testing.assert_allclose(poses["wheel"].rotation, [[0, 0, 1], [0, 1, 0], [-1, 0, 0]], atol=1e-15)
    np.testing.assert_allclose(poses["velodyne"].xyz, (-0.5, 0, 0.25 + 0.2 + 0.0377), atol=1e-15)
    np.testing.assert_allclose(poses["imu_link"].rotation, np.diag([1, -1, -1]), atol=1e-15)
    # The optical frame looks along z, with x to the right.
    np.testing.assert_allclose(poses["camera_optical_frame"].rotation[:, 2], (1, 0, 0), atol=1e-15)
    np.testing.assert_allclose(poses["camera_optical_frame"].rotation[:, 0], (0, -1, 0), atol=1e-15)


@settings(max_examples=60, deadline=None)
@given(
    turn=st.floats(-50, 50),
    arm=st.floats(-2, 2),
    lift=st.floats(0.1, 0.5),
)
def test_poses_are_those_of_a_chain_of_matrices(rover: Robot, turn: float, arm: float, lift: float) -> None:
    poses = rover.link_poses({"wheel_joint": turn, "arm_joint": arm, "lift_joint": lift})
    wheel = matrix((0.6, 0.5, -0.2)) @ matrix(rotation=Rotation.from_rotvec([0, turn, 0]))
    shoulder = matrix((1, 0, 0.25), Rotation.from_euler("xyz", [0.1, -0.2, 0.3]))
    elbow = shoulder @ matrix(rotation=Rotation.from_rotvec(arm * np.array([0, 0.6, 0.8])))
    top = elbow @ matrix((1, 0, 0), Rotation.from_euler("y", 0.5)) @ matrix((0, 0, lift))
    for name, expected in (("wheel", wheel), ("arm", elbow), ("lift", top)):
        np.testing.assert_allclose(poses[name].matrix, expected, atol=1e-12)


def test_joints_rest_at_zero_or_in_the_middle_of_limits_without_zero(rover: Robot) -> None:
    assert rover.positions() == {"wheel_joint": 0.0, "arm_joint": 0.0, "lift_joint": pytest.approx(0.3)}


def test_joints_that_follow_others(tmp_path: Path) -> None:
    body = TWO_LINKS + '<link name="c"/><link name="d"/>'
    body += joint("third", "c", "d", "continuous", '<axis xyz="0 0 1"/><mimic joint="second" offset="1"/>')
    body += joint("second", "b", "c", "prismatic", '<axis xyz="0 0 1"/><mimic joint="first" multiplier="-2"/>')
    body += joint("first", "a", "b", "continuous", '<axis xyz="0 0 1"/>')
    robot = load_urdf(written(tmp_path, body))
    assert robot.positions({"first": 0.3}) == pytest.approx({"first": 0.3, "second": -0.6, "third": 0.4})
    assert list(robot.joints) == ["first", "second", "third"]
    with pytest.raises(ConfigError, match="joint 'third': mimics joint 'second'; set that one instead"):
        robot.link_poses({"third": 1.0})


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ({"arm_jiont": 0.1}, r"unknown joint 'arm_jiont': did you mean 'arm_joint'\? \(of .*rover.urdf\)"),
        ({"arm_joint": 2.1}, "joint 'arm_joint': position must be from -2 to 2 rad, got 2.1"),
        ({"lift_joint": 0.0}, "joint 'lift_joint': position must be from 0.1 to 0.5 m, got 0"),
        ({"arm_joint": math.nan}, r"joint 'arm_joint': position must be a finite number \[rad\], got nan"),
        ({"wheel_joint": math.inf}, "position must be a finite number"),
        ({"wheel_joint": "fast"}, "position must be a finite number"),
        ({"wheel_joint": True}, "position must be a finite number"),
        ({"mount_joint": 0.0}, "joint 'mount_joint': is fixed and has no position"),
        ([0.1], "joint_positions: must map joints to numbers, got list"),
    ],
)
def test_wrong_positions_are_refused(rover: Robot, positions: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rover.link_poses(positions)


def test_joints_with_more_freedom_are_fixed_and_reported(tmp_path: Path) -> None:
    body = TWO_LINKS + joint("free", "a", "b", "floating", '<origin xyz="1 2 3"/>')
    with pytest.warns(UserWarning, match="r.urdf: joint 'free' is floating and is fixed at its origin"):
        robot = load_urdf(written(tmp_path, body))
    np.testing.assert_array_equal(robot.link_poses()["b"].xyz, (1, 2, 3))
    with pytest.raises(ConfigError, match="is floating and has no position"):
        robot.link_poses({"free": 1.0})


# ---- shapes --------------------------------------------------------------------------------------------------------


def test_shapes_have_their_sizes_in_the_frame_of_the_link(rover: Robot) -> None:
    hull = rover.links["base_link"].visuals[0]
    assert (hull.name, hull.kind, hull.material) == ("hull", "box", "steel")
    np.testing.assert_allclose(hull.mesh.bounds, [(-1, -0.5, -0.25), (1, 0.5, 0.25)])
    # Turned by a quarter about x, the cylinder's axis is the link's y.
    np.testing.assert_allclose(
        rover.links["wheel"].visuals[0].mesh.bounds, [(-0.3, -0.1, -0.3), (0.3, 0.1, 0.3)], atol=1e-12
    )
    (arm,) = rover.links["arm"].visuals
    np.testing.assert_allclose(arm.mesh.bounds, [(0, -0.05, -0.1), (1, 0.05, 0.1)], atol=1e-9)
    assert arm.color == (0, 0, 0.8, 1)
    (ball,) = rover.links["base_link"].collisions
    np.testing.assert_allclose(np.linalg.norm(ball.mesh.vertices - (0, 0, 0.1), axis=1), 0.5)


def test_capsules_are_as_long_as_cylinder_and_caps(tmp_path: Path) -> None:
    shape = '<geometry><capsule radius="0.2" length="1"/></geometry>'
    robot = load_urdf(written(tmp_path, f'<link name="a"><visual>{shape}</visual></link>'))
    lower, upper = robot.links["a"].visuals[0].mesh.bounds
    assert (upper - lower)[2] == pytest.approx(1.4, abs=1e-3)


def test_meshes_that_are_mirrored_keep_their_outside(tmp_path: Path) -> None:
    trimesh.creation.box((1, 2, 3)).apply_translation((5, 0, 0)).export(tmp_path / "m.obj")
    shape = '<geometry><mesh filename="m.obj" scale="-1 1 2"/></geometry>'
    mesh = load_urdf(written(tmp_path, f'<link name="a"><visual>{shape}</visual></link>')).links["a"].visuals[0].mesh
    np.testing.assert_allclose(mesh.bounds, [(-5.5, -1, -3), (-4.5, 1, 3)])
    assert mesh.as_trimesh().volume == pytest.approx(12.0)


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("package://far/m.stl", "elsewhere/far"),
        ("model://far/m.stl", "elsewhere/far"),
        ("package://beside/m.stl", "beside"),
        ("package://near/m.stl", "near"),
        ("m.stl", "near"),
        ("..\\beside\\m.stl", "beside"),
        ("beside/m.stl", "beside"),
        ("file://{root}/beside/m.stl", "beside"),
        ("{root}/beside/m.stl", "beside"),
    ],
)
def test_mesh_paths_of_every_form_are_found(tmp_path: Path, uri: str, place: str) -> None:
    for folder in ("near", "beside", "elsewhere/far"):
        (tmp_path / folder).mkdir(parents=True)
        trimesh.creation.box((1, 2, 3)).export(tmp_path / folder / "m.stl")
    shape = f'<geometry><mesh filename="{uri.format(root=tmp_path)}"/></geometry>'
    file = written(tmp_path / "near", f'<link name="a"><visual>{shape}</visual></link>')
    found = load_urdf(file, packages={"far": tmp_path / "elsewhere" / "far"}).links["a"].visuals[0].file
    assert found is not None
    assert found.resolve() == tmp_path.resolve() / place / "m.stl"


def test_packages_are_found_by_their_manifest_above_the_file(tmp_path: Path) -> None:
    (tmp_path / "checkout" / "urdf").mkdir(parents=True)
    (tmp_path / "checkout" / "package.xml").write_text("<package><name> my_robot </name></package>")
    trimesh.creation.box((1, 1, 1)).export(tmp_path / "checkout" / "m.stl")
    shape = '<geometry><mesh filename="package://my_robot/m.stl"/></geometry>'
    file = written(tmp_path / "checkout" / "urdf", f'<link name="a"><collision>{shape}</collision></link>')
    assert load_urdf(file).links["a"].collisions[0].file == tmp_path / "checkout" / "m.stl"
    file.write_text(file.read_text().replace("my_robot/", "other_robot/"))
    advice = r"no package 'other_robot' at or above .*urdf; pass packages=\{'other_robot': its folder\}"
    with pytest.raises(ConfigError, match=f"link 'a': collision: geometry: mesh: .*{advice}"):
        load_urdf(file)
    with pytest.raises(ConfigError, match=r"no such file .*checkout/urdf/m.stl"):
        load_urdf(file, packages={"other_robot": tmp_path / "checkout" / "urdf"})
    with pytest.raises(ConfigError, match="packages: 'other_robot' must name a folder that exists"):
        load_urdf(file, packages={"other_robot": tmp_path / "nowhere"})


def test_a_damaged_mesh_names_both_files(tmp_path: Path) -> None:
    (tmp_path / "m.stl").write_bytes(b"solid nothing")
    shape = '<geometry><mesh filename="m.stl"/></geometry>'
    robot = load_urdf(written(tmp_path, f'<link name="a"><visual>{shape}</visual></link>'))
    with pytest.raises(FormatError, match=r"r.urdf: link 'a': visual: .*m.stl"):
        _ = robot.links["a"].visuals[0].mesh


def test_collada_units_count_and_entities_in_it_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "m.dae"
    file.write_text('<COLLADA><asset><unit name="centimeter" meter="0.01"/></asset></COLLADA>')
    assert collada_unit(file) == 0.01
    robot = load_urdf(
        written(tmp_path, '<link name="a"><visual><geometry><mesh filename="m.dae"/></geometry></visual></link>')
    )
    with pytest.raises((MissingDependencyError, FormatError), match=r"r.urdf: link 'a': visual: .*m.dae"):
        _ = robot.links["a"].visuals[0].mesh
    file.write_text('<!DOCTYPE x [<!ENTITY y SYSTEM "file:///etc/passwd">]><COLLADA>&y;</COLLADA>')
    with pytest.raises(FormatError, match="DOCTYPE is not allowed"):
        collada_unit(file)


# ---- sensors -------------------------------------------------------------------------------------------------------


def test_sensors_of_blocks_and_of_names(rover: Robot) -> None:
    assert [(s.name, s.kind, s.link, s.source) for s in rover.sensors] == [
        ("top", "lidar", "velodyne", "gazebo"),
        ("imu", "imu", "imu_link", "gazebo"),
        ("camera_link", "camera", "camera_link", "name"),
    ]
    top = rover.sensor("top")
    np.testing.assert_allclose(top.pose.xyz, (-0.4, 0, 0.4877), atol=1e-15)
    np.testing.assert_allclose(top.pose.rpy_deg, (0, 0, 90), atol=1e-9)
    assert top.hints == pytest.approx(
        {
            "rate_hz": 10, "samples": 1800, "azimuth_min_deg": -180, "vertical_samples": 16,
            "range_min_m": 0.9, "range_max_m": 130, "range_noise_m": 0.008,
        }
    )  # fmt: skip
    assert set(top.housing) == {"velodyne_base_link", "velodyne"}
    assert rover.sensor("imu").hints == {"rate_hz": 200}
    assert rover.sensor_poses()["top"] == top.pose
    with pytest.raises(ConfigError, match="unknown sensor 'tpo': did you mean 'top'"):
        rover.sensor("tpo")


def test_sensors_move_with_their_links(tmp_path: Path) -> None:
    body = TWO_LINKS + joint("pan", "a", "b", "continuous", '<origin xyz="0 0 1"/><axis xyz="0 0 1"/>')
    body += '<gazebo reference="b"><sensor type="gpu_lidar"><pose degrees="true">1 0 0 0 0 90</pose></sensor></gazebo>'
    robot = load_urdf(written(tmp_path, body))
    assert robot.sensors[0].name == "b"
    pose = robot.sensor_poses({"pan": math.pi / 2})["b"]
    np.testing.assert_allclose(pose.xyz, (0, 1, 1), atol=1e-15)
    np.testing.assert_allclose(abs(pose.rpy_deg[2]), 180)


def test_the_lidar_of_a_stack_of_named_links_is_the_outermost(tmp_path: Path) -> None:
    body = '<link name="base"/><link name="ouster_base"/><link name="os_lidar"/><link name="os_imu"/>'
    body += (
        joint("1", "base", "ouster_base") + joint("2", "ouster_base", "os_lidar") + joint("3", "ouster_base", "os_imu")
    )
    robot = load_urdf(written(tmp_path, body))
    assert [(s.name, s.kind) for s in robot.sensors] == [("os_lidar", "lidar"), ("os_imu", "imu")]
    assert robot.sensors[0].housing == ("ouster_base", "os_lidar")


def test_sensors_of_one_name_get_that_of_their_link(tmp_path: Path) -> None:
    block = '<gazebo reference="{}"><sensor name="s" type="imu"/></gazebo>'
    body = TWO_LINKS + joint("j", "a", "b") + block.format("a") + block.format("b")
    assert [s.name for s in load_urdf(written(tmp_path, body)).sensors] == ["s", "b/s"]


def test_sensors_of_other_kinds_are_reported(tmp_path: Path) -> None:
    body = '<link name="a"/><gazebo reference="a"><sensor name="bump" type="contact"/></gazebo>'
    with pytest.warns(UserWarning, match="gazebo 'a': sensor 'bump' of type 'contact' is ignored"):
        assert load_urdf(written(tmp_path, body)).sensors == ()


@pytest.mark.parametrize(
    ("link", "kind"),
    [
        ("front_laser", "lidar"), ("rplidar_link", "lidar"), ("base_scan", "lidar"), ("FrontLidar", "lidar"),
        ("imu", "imu"), ("ImuLink", "imu"), ("imu0_frame", "imu"), ("camera_imu_frame", "imu"),
        ("left_camera", "camera"), ("simulated_load", None), ("base_link", None), ("lidar_mount", None),
        ("scanner_arm", None),
    ],
)  # fmt: skip
def test_kinds_that_names_speak_of(link: str, kind: str | None) -> None:
    assert kind_by_name(link) == kind


def test_frictions_of_links_come_from_gazebo_blocks(tmp_path: Path) -> None:
    file = tmp_path / "robot.urdf"
    links = "".join(f'<link name="{name}"/>' for name in "abc")
    joints = "".join(
        f'<joint name="{name}" type="fixed"><parent link="a"/><child link="{name}"/></joint>' for name in "bc"
    )
    blocks = '<gazebo reference="a"><mu1>0.4</mu1></gazebo><gazebo reference="b"><mu1 value="0.7"/></gazebo>'
    file.write_text(f'<robot name="r">{links}{joints}{blocks}</robot>')
    assert [one.friction for one in load_urdf(file).links.values()] == [0.4, 0.7, None]
    file.write_text(f'<robot name="r">{links}{joints}<gazebo reference="a"><mu1>-1</mu1></gazebo></robot>')
    with pytest.raises(ConfigError, match=r"mu1 of 'a' must be at least 0, got -1"):
        load_urdf(file)
