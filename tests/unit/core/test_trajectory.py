"""Trajectories: closed forms of straight and turning motion, interpolation against SciPy, rest outside the times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation, Slerp

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.trajectory import ConstantTwist, Fixed, Trajectory, Waypoints, pose_at, velocity_at


def random_poses(count: int, seed: int = 0) -> list[Pose]:
    rng = np.random.default_rng(seed)
    return [Pose(xyz, quat) for xyz, quat in zip(rng.normal(size=(count, 3)), rng.normal(size=(count, 4)), strict=True)]


START = Pose((1, -2, 0.5), rpy_deg=(10, -20, 30))


@pytest.mark.parametrize(
    "motion", [Fixed(START), ConstantTwist(START, (1, 2, 3), (0.1, 0.2, 0.3)), Waypoints([0, 1], random_poses(2))]
)
def test_every_form_is_a_trajectory_of_unit_quaternions(motion: Trajectory) -> None:
    assert isinstance(motion, Trajectory)
    for count in (0, 1, 17):
        xyz, quat = motion.sample(np.linspace(-1, 3, count))
        assert xyz.shape == (count, 3)
        assert quat.shape == (count, 4)
        assert np.linalg.norm(quat, axis=1) == pytest.approx(np.ones(count), abs=1e-12)
    many, _ = motion.sample([0.3, 0.9])
    assert np.array_equal(many[0], motion.sample([0.3])[0][0])


def test_fixed_stays() -> None:
    xyz, quat = Fixed(START).sample([-1e6, 0.0, 1e6])
    assert np.array_equal(xyz, np.tile(START.xyz, (3, 1)))
    assert np.array_equal(quat, np.tile(START.quat_xyzw, (3, 1)))
    assert pose_at(Fixed(START), 5.0) == START
    assert velocity_at(Fixed(START), 5.0) == pytest.approx([0, 0, 0])


# ---- constant twist ------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.tuples(*[st.floats(-40, 40)] * 3), st.tuples(*[st.floats(-6, 6)] * 3), st.floats(-5, 5), st.floats(-10, 10))
def test_constant_twist_is_its_closed_form(
    velocity: tuple[float, float, float], rate: tuple[float, float, float], start: float, time: float
) -> None:
    motion = ConstantTwist(START, velocity, rate, start)
    pose = pose_at(motion, time)
    dt = time - start
    assert pose.xyz == pytest.approx(START.xyz + dt * np.array(velocity), abs=1e-9)
    # The rate is about the parent's axes, so the turn multiplies from the left.
    turn = Rotation.from_rotvec(dt * np.array(rate)) * Rotation.from_quat(START.quat_xyzw)
    assert np.allclose(pose.rotation, turn.as_matrix(), atol=1e-9)


def test_a_turn_of_a_quarter_in_half_a_second() -> None:
    motion = ConstantTwist(Pose(rpy_deg=(0, 10, 0)), (20, 0, 0), (0, 0, np.pi), start_time=2.0)
    assert pose_at(motion, 2.0) == Pose(rpy_deg=(0, 10, 0))
    assert pose_at(motion, 2.5).xyz == pytest.approx([10, 0, 0])
    assert pose_at(motion, 2.5).rpy_deg == pytest.approx([0, 10, 90])
    assert pose_at(motion, 1.5).rpy_deg == pytest.approx([0, 10, -90])
    assert velocity_at(motion, 7.0) == pytest.approx([20, 0, 0])


def test_no_turn_keeps_the_very_quaternion() -> None:
    _, quat = ConstantTwist(START, (1, 0, 0)).sample([0.0, 3.0])
    assert np.array_equal(quat, np.tile(START.quat_xyzw, (2, 1)))


# ---- waypoints -----------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(2, 8), st.integers(0, 1000))
def test_waypoints_are_straight_lines_and_slerp(count: int, seed: int) -> None:
    poses = random_poses(count, seed)
    times = np.cumsum(np.random.default_rng(seed).uniform(0.1, 3.0, count)) - 2.0
    asked = np.linspace(times[0], times[-1], 41)
    xyz, quat = Waypoints(times.tolist(), poses).sample(asked)
    expected = Slerp(times, Rotation.from_quat([p.quat_xyzw for p in poses]))(asked)
    for axis in range(3):
        assert xyz[:, axis] == pytest.approx(np.interp(asked, times, [p.xyz[axis] for p in poses]), abs=1e-12)
    assert np.max((Rotation.from_quat(quat) * expected.inv()).magnitude()) < 1e-7


def test_waypoints_are_met_and_rested_at() -> None:
    poses = random_poses(4)
    motion = Waypoints([0.0, 1.0, 2.5, 3.0], poses)
    for time, pose in zip([0.0, 1.0, 2.5, 3.0], poses, strict=True):
        assert pose_at(motion, time).xyz == pytest.approx(pose.xyz, abs=1e-14)
        assert pose_at(motion, time).rotation == pytest.approx(pose.rotation, abs=1e-12)
    xyz, quat = motion.sample([-100.0, 100.0])
    assert xyz == pytest.approx(np.stack([poses[0].xyz, poses[3].xyz]), abs=1e-14)
    assert np.abs(np.sum(quat * [poses[0].quat_xyzw, poses[3].quat_xyzw], axis=1)) == pytest.approx([1, 1])
    assert velocity_at(motion, 50.0) == pytest.approx([0, 0, 0])
    assert velocity_at(motion, 0.5) == pytest.approx(poses[1].xyz - poses[0].xyz)


def test_the_short_way_round_whatever_the_signs() -> None:
    a, b = Pose(rpy_deg=(0, 0, 170)), Pose(rpy_deg=(0, 0, -170))
    middle = pose_at(Waypoints([0, 1], [a, Pose(quat_xyzw=-b.quat_xyzw)]), 0.25)
    assert middle.rpy_deg == pytest.approx([0, 0, 175])


def test_one_waypoint_is_a_standstill() -> None:
    xyz, quat = Waypoints([3.0], [START]).sample([0.0, 3.0, 9.0])
    assert np.array_equal(xyz, np.tile(START.xyz, (3, 1)))
    assert np.array_equal(quat, np.tile(START.quat_xyzw, (3, 1)))


# ---- refused -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "count", "words"),
    [
        ([], 0, "0 times for 0 poses"),
        ([0, 1], 3, "2 times for 3 poses"),
        ([[0, 1]], 2, "2 times for 2 poses"),
        ([0, 0], 2, "strictly increasing"),
        ([1, 0], 2, "strictly increasing"),
        ([0, np.nan], 2, "finite"),
        ([0, np.inf], 2, "finite"),
        (["soon", "later"], 2, "times must be numbers"),
    ],
)
def test_bad_waypoints_are_refused(times: list[Any], count: int, words: str) -> None:
    with pytest.raises(ConfigError, match=f"trajectory: .*{words}"):
        Waypoints(times, random_poses(count))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"velocity": (np.nan, 0, 0)}, "finite"),
        ({"angular_velocity": (0, 0, np.inf)}, "finite"),
        ({"start_time": np.nan}, "finite"),
        ({"velocity": (1, 2)}, "3 numbers each"),
        ({"angular_velocity": (1, 2, 3, 4)}, "3 numbers each"),
    ],
)
def test_bad_twists_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=f"trajectory: .*{words}"):
        ConstantTwist(START, **arguments)
