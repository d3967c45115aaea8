"""Poses against SciPy's rotations: conventions, composition, angles, matrices, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from parhelion.core.errors import ConfigError
from parhelion.core.pose import (
    Pose,
    quat_conjugate,
    quat_from_matrix,
    quat_from_rpy,
    quat_multiply,
    quat_rotate,
    quat_slerp,
)

Array = NDArray[Any]

points = arrays(np.float64, 3, elements=st.floats(-1e3, 1e3))
quats = (
    arrays(np.float64, 4, elements=st.floats(-1, 1))
    .filter(lambda q: np.linalg.norm(q) > 1e-3)
    .map(lambda q: q / np.linalg.norm(q))
)
poses = st.builds(Pose, points, quats)
angles = st.floats(-180, 180)


def close(a: Array, b: Array, within: float = 1e-9) -> bool:
    return bool(np.max(np.abs(np.asarray(a) - np.asarray(b))) <= within)


def same_turn(a: Array, b: Array, within: float = 1e-9) -> bool:
    """Return whether two quaternions are the same rotation, up to their sign."""
    return min(np.max(np.abs(a - b)), np.max(np.abs(a + b))) <= within


# ---- conventions ---------------------------------------------------------------------------------------------------


def test_a_quarter_turn_by_hand() -> None:
    left = Pose((1, 2, 3), (0, 0, np.sqrt(0.5), np.sqrt(0.5)))  # xyzw: 90 degrees about z, x becomes y
    assert close(left.apply((1, 0, 0)), np.array([1, 3, 3]))
    assert close(left.rotation, np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]]))
    assert close(left.rpy_deg, np.array([0, 0, 90]))
    assert repr(left) == "Pose(xyz=(1, 2, 3), rpy_deg=(0, 0, 90))"


def test_the_default_is_the_identity() -> None:
    assert Pose() == Pose((0, 0, 0), (0, 0, 0, 1))
    assert np.array_equal(Pose().matrix, np.eye(4))


@settings(deadline=None)
@given(quats, points)
def test_rotation_is_scipys(quat: Array, point: Array) -> None:
    theirs = Rotation.from_quat(quat)
    assert close(quat_rotate(quat, point), theirs.apply(point), 1e-10 * (1 + np.abs(point).max()))
    assert close(Pose((0, 0, 0), quat).rotation, theirs.as_matrix())
    assert close(quat_rotate(quat_conjugate(quat), point), theirs.inv().apply(point), 1e-9)


@settings(deadline=None)
@given(quats, quats)
def test_product_turns_by_the_right_factor_first(a: Array, b: Array) -> None:
    ours = quat_multiply(a, b)
    assert same_turn(ours, (Rotation.from_quat(a) * Rotation.from_quat(b)).as_quat())


@settings(deadline=None)
@given(angles, angles, angles)
def test_roll_pitch_yaw_are_about_fixed_axes_in_that_order(roll: float, pitch: float, yaw: float) -> None:
    # SciPy's lower-case letters are fixed axes, applied from left to right; ROS documents the same for its rpy.
    theirs = Rotation.from_euler("xyz", [roll, pitch, yaw], degrees=True).as_quat()
    assert same_turn(Pose(rpy_deg=(roll, pitch, yaw)).quat_xyzw, theirs)


def test_pitch_is_nose_down_and_yaw_is_to_the_left() -> None:
    assert close(Pose(rpy_deg=(0, 30, 0)).apply((1, 0, 0)), np.array([np.sqrt(0.75), 0, -0.5]))
    assert close(Pose(rpy_deg=(0, 0, 30)).apply((1, 0, 0)), np.array([np.sqrt(0.75), 0.5, 0]))
    assert close(Pose(rpy_deg=(30, 0, 0)).apply((0, 1, 0)), np.array([0, np.sqrt(0.75), 0.5]))
    # The order counts: turned left last, the nose that went down still points down and left.
    assert close(Pose(rpy_deg=(0, 90, 90)).apply((1, 0, 0)), np.array([0, 0, -1]))
    assert close(Pose(rpy_deg=(0, 90, 90)).apply((0, 0, 1)), np.array([0, 1, 0]))


def test_functions_take_many_at_once() -> None:
    rng = np.random.default_rng(1)
    a, b = (q / np.linalg.norm(q, axis=-1, keepdims=True) for q in rng.normal(size=(2, 5, 7, 4)))
    v = rng.normal(size=(5, 7, 3))
    both = quat_multiply(a, b)
    assert both.shape == (5, 7, 4)
    assert close(quat_rotate(both, v), quat_rotate(a, quat_rotate(b, v)), 1e-12)
    assert quat_from_rpy(np.zeros(6), 0.1, np.ones(6)[:, None]).shape == (6, 6, 4)
    assert Pose((1, 0, 0)).apply(v).shape == (5, 7, 3)


# ---- composition ---------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(poses, poses, points)
def test_composition_is_one_after_the_other(a: Pose, b: Pose, point: Array) -> None:
    assert close((a @ b).apply(point), a.apply(b.apply(point)), 1e-8)
    assert close((a @ b).matrix, a.matrix @ b.matrix, 1e-8)


@settings(deadline=None, max_examples=40)
@given(poses, points)
def test_the_inverse_undoes(pose: Pose, point: Array) -> None:
    assert close(pose.inverse().apply(pose.apply(point)), point, 1e-8)
    assert close((pose @ pose.inverse()).matrix, np.eye(4), 1e-8)
    assert close(pose.inverse().matrix, np.linalg.inv(pose.matrix), 1e-8)


@settings(deadline=None, max_examples=40)
@given(poses, poses, poses)
def test_composition_is_associative(a: Pose, b: Pose, c: Pose) -> None:
    left, right = (a @ b) @ c, a @ (b @ c)
    assert close(left.xyz, right.xyz, 1e-8)
    assert same_turn(left.quat_xyzw, right.quat_xyzw)


def test_long_chains_stay_unit() -> None:
    pose, step = Pose(), Pose((0.1, 0, 0), rpy_deg=(1.3, 0.7, 2.1))
    for _ in range(5000):
        pose = pose @ step
    assert abs(np.linalg.norm(pose.quat_xyzw) - 1) < 1e-12


# ---- angles and matrices -------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(angles, angles, angles)
def test_angles_give_the_same_rotation_back(roll: float, pitch: float, yaw: float) -> None:
    pose = Pose((1, 2, 3), rpy_deg=(roll, pitch, yaw))
    again = pose.rpy_deg
    assert np.all(np.abs(again) <= [180 + 1e-9, 90 + 1e-9, 180 + 1e-9])
    assert same_turn(Pose(pose.xyz, rpy_deg=again.tolist()).quat_xyzw, pose.quat_xyzw)


@settings(deadline=None)
@given(angles, st.floats(-89.9, 89.9), angles)
def test_angles_within_their_own_range_come_back_themselves(roll: float, pitch: float, yaw: float) -> None:
    back = Pose(rpy_deg=(roll, pitch, yaw)).rpy_deg - np.array([roll, pitch, yaw])
    assert np.all(np.abs((back + 180) % 360 - 180) < 1e-6)


@pytest.mark.parametrize("pitch", [90.0, -90.0, 90 - 1e-7, -90 + 1e-10, 89.9999])
@pytest.mark.parametrize(("roll", "yaw"), [(0, 0), (30, 0), (0, -140), (25, 60), (-170, 170)])
def test_angles_where_the_x_axis_is_upright(pitch: float, roll: float, yaw: float) -> None:
    pose = Pose(rpy_deg=(roll, pitch, yaw))
    again = Pose(rpy_deg=pose.rpy_deg.tolist())
    assert same_turn(again.quat_xyzw, pose.quat_xyzw, 1e-12)
    assert pose.rpy_deg[1] == pytest.approx(pitch, abs=1e-12)


def test_only_yaw_is_given_where_roll_and_yaw_are_one() -> None:
    assert close(Pose(rpy_deg=(20, 90, 50)).rpy_deg, np.array([0, 90, 30]))
    assert close(Pose(rpy_deg=(20, -90, 50)).rpy_deg, np.array([0, -90, 70]))


@settings(deadline=None, max_examples=40)
@given(poses)
def test_matrix_round_trip(pose: Pose) -> None:
    again = Pose.from_matrix(pose.matrix)
    assert close(again.xyz, pose.xyz, 0)
    assert same_turn(again.quat_xyzw, pose.quat_xyzw)
    assert again.quat_xyzw[3] >= 0


@settings(deadline=None)
@given(arrays(np.float64, 3, elements=st.floats(-1, 1)).filter(lambda v: np.linalg.norm(v) > 1e-2))
def test_half_turns_about_any_axis_survive_the_matrix(axis: Array) -> None:
    axis = axis / np.linalg.norm(axis)
    matrix = 2 * np.outer(axis, axis) - np.eye(3)
    assert same_turn(quat_from_matrix(matrix), np.append(axis, 0.0))
    assert close(Rotation.from_quat(quat_from_matrix(matrix)).as_matrix(), matrix)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_half_turns_about_the_axes(axis: int) -> None:
    matrix = -np.eye(4)
    matrix[axis, axis] = matrix[3, 3] = 1
    expected = np.zeros(4)
    expected[axis] = 1
    assert same_turn(Pose.from_matrix(matrix).quat_xyzw, expected, 1e-12)


@settings(deadline=None)
@given(points, points.filter(lambda v: np.linalg.norm(v) > 1e-3))
def test_look_at_points_x_at_the_target_with_y_level(origin: Array, forward: Array) -> None:
    pose = Pose.look_at(origin, origin + forward)
    x, y, z = pose.rotation.T
    assert close(x, forward / np.linalg.norm(forward), 1e-6)
    assert abs(y[2]) < 1e-12
    assert z[2] > -1e-12
    assert close(pose.xyz, origin, 0)


def test_look_at_straight_up_and_down() -> None:
    assert close(Pose.look_at((1, 1, 1), (1, 1, 5)).apply((1, 0, 0)), np.array([1, 1, 2]))
    assert close(Pose.look_at((1, 1, 1), (1, 1, -5)).apply((1, 0, 0)), np.array([1, 1, 0]))


# ---- shortest turns ------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(quats, quats, st.floats(0, 1))
def test_slerp_turns_evenly_and_the_short_way(a: Array, b: Array, fraction: float) -> None:
    between = quat_slerp(a[None], b[None], np.array([fraction]))[0]
    whole = Rotation.from_quat(a).inv() * Rotation.from_quat(b)
    if whole.magnitude() > np.pi - 1e-4:
        return  # both ways are equally short
    part = Rotation.from_quat(a).inv() * Rotation.from_quat(between)
    assert np.linalg.norm(between) == pytest.approx(1, abs=1e-12)
    assert close(part.as_rotvec(), fraction * whole.as_rotvec(), 1e-7)


def test_slerp_ends_are_exact_and_tiny_turns_are_stable() -> None:
    a = quat_from_rpy(0.3, -0.2, 1.0)
    b = quat_multiply(quat_from_rpy(0, 0, 1e-9), a)
    assert close(quat_slerp(a[None], b[None], np.array([0.0]))[0], a, 1e-15)
    assert close(quat_slerp(a[None], b[None], np.array([1.0]))[0], b, 1e-15)
    assert close(quat_slerp(a[None], -a[None], np.array([0.4]))[0], a, 1e-15)


# ---- records -------------------------------------------------------------------------------------------------------


def test_poses_are_values() -> None:
    xyz = np.array([1.0, 2.0, 3.0])
    pose = Pose(xyz)
    xyz[0] = 9.0
    assert pose.xyz[0] == 1.0
    for array in (pose.xyz, pose.quat_xyzw):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5.0
    with pytest.raises(AttributeError):
        pose.xyz = xyz  # type: ignore[misc]
    assert {Pose((1, 2, 3)): "a"}[Pose((1, 2, 3))] == "a"
    assert Pose((1, 2, 3)) != Pose((1, 2, 3.0000001))
    assert Pose() != "pose"


def test_equal_poses_have_equal_hashes_whatever_the_sign_of_zero() -> None:
    assert Pose() == Pose().inverse()
    assert hash(Pose()) == hash(Pose().inverse())


def test_quaternions_are_made_unit() -> None:
    assert Pose(quat_xyzw=(0, 0, 0, 7)) == Pose()
    assert close(Pose(quat_xyzw=(0, 0, -3e-4, 3e-4)).rpy_deg, np.array([0, 0, -90]))
    exact = np.array([0.5, 0.5, 0.5, 0.5])
    assert np.array_equal(Pose(quat_xyzw=exact).quat_xyzw, exact)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"xyz": (1, 2)}, r"xyz must be 3 numbers, got shape \(2,\)"),
        ({"xyz": [[1, 2, 3]]}, r"xyz must be 3 numbers, got shape \(1, 3\)"),
        ({"xyz": "here"}, "xyz must be 3 numbers, got 'here'"),
        ({"xyz": (1, None, {})}, "xyz must be 3 numbers"),
        ({"xyz": [1, 2, [3]]}, "xyz must be 3 numbers"),
        ({"xyz": (10**400, 0, 0)}, "xyz must be 3 numbers"),
        ({"xyz": (1, np.nan, 0)}, "xyz must be finite, got .*nan"),
        ({"xyz": (1, np.inf, 0)}, "xyz must be finite, got .*inf"),
        ({"quat_xyzw": (0, 0, 0)}, "quat_xyzw must be 4 numbers"),
        ({"quat_xyzw": (0, 0, 0, 0)}, "quat_xyzw must not be zero"),
        ({"quat_xyzw": (0, 0, 0, np.nan)}, "quat_xyzw must be finite"),
        ({"quat_xyzw": (0, 0, 1e300, 1e300)}, "quat_xyzw is too large"),
        ({"rpy_deg": (0, 0)}, "rpy_deg must be 3 numbers"),
        ({"rpy_deg": (0, 0, -np.inf)}, "rpy_deg must be finite"),
        ({"rpy_deg": (0, 0, 1), "quat_xyzw": (0, 0, 0, 1)}, "give quat_xyzw or rpy_deg, not both"),
    ],
)
def test_bad_poses_are_one_clear_sentence(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=f"^pose: {words}") as caught:
        Pose(**arguments)
    assert "\n" not in str(caught.value)


def changed(row: int, column: int, value: float) -> Array:
    matrix = np.eye(4)
    matrix[row, column] = value
    return matrix


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.eye(3), "must be 4 x 4 and finite"),
        ([[1, 0], [0]], "must be 4 x 4 and finite"),
        (changed(0, 3, np.nan), "must be 4 x 4 and finite"),
        (changed(0, 0, 2.0), "proper 3 x 3 rotation"),
        (changed(0, 0, -1.0), "proper 3 x 3 rotation"),
        (changed(0, 1, 0.1), "proper 3 x 3 rotation"),
        (changed(3, 0, 5.0), "last row 0 0 0 1"),  # a transposed matrix
        (changed(3, 3, 2.0), "last row 0 0 0 1"),
    ],
)
def test_matrices_that_are_no_poses_are_refused(matrix: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Pose.from_matrix(matrix)


def test_look_at_itself_is_refused() -> None:
    with pytest.raises(ConfigError, match="target that differs from the origin"):
        Pose.look_at((1, 2, 3), (1, 2, 3))
    with pytest.raises(ConfigError, match="target must be finite"):
        Pose.look_at((1, 2, 3), (1, 2, np.nan))
