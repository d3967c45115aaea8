"""Pushed motion: exact at its poses and for constant acceleration, causal, bounded memory."""

from __future__ import annotations

import numpy as np
import pytest

from parhelion import ConfigError, Pose
from parhelion.motion.pushed import PushedMotion, PushedValue
from parhelion.motion.state import Motion


def test_returns_pushed_poses_bit_for_bit() -> None:
    motion, rng = PushedMotion(Pose()), np.random.default_rng(1)
    times, poses = [], []
    for k in range(20):
        quat = rng.normal(size=4)
        poses.append(Pose(rng.normal(size=3), quat / np.linalg.norm(quat)))
        times.append(0.1 * k + 0.01 * rng.random())
        motion.push(times[-1], poses[-1])
    xyz, quat = motion.sample(times)
    assert np.array_equal(xyz, np.array([pose.xyz for pose in poses]))
    assert np.array_equal(quat, np.array([pose.quat_xyzw for pose in poses]))


def test_is_exact_for_constant_acceleration_with_and_without_velocities() -> None:
    pull, times = np.array([1.0, -2.0, -9.8]), np.array([0.0, 0.1, 0.25, 0.3, 0.45])
    pushed, derived = PushedMotion(Pose()), PushedMotion(Pose())
    for t in times:
        pushed.push(t, Pose(0.5 * pull * t * t), velocity=pull * t, angular_velocity=(0, 0, 0))
        derived.push(t, Pose(0.5 * pull * t * t))
    asked = np.linspace(0.26, 0.44, 7)
    for motion in (pushed, derived):
        assert np.allclose(motion.sample(asked)[0], 0.5 * pull * asked[:, None] ** 2, rtol=0, atol=1e-12)
        state = motion.state(asked)
        assert np.allclose(state.velocity, pull * asked[:, None], rtol=0, atol=1e-12)
        assert np.allclose(state.acceleration, pull, rtol=0, atol=1e-9)
    assert isinstance(pushed, Motion)


def test_newest_pose_has_the_pushed_velocity_and_moves_on_for_one_step() -> None:
    motion = PushedMotion(Pose())
    for k in range(3):
        motion.push(0.1 * k, Pose((0.0, 0.0, 0.0)), velocity=(float(k), 0, 0), angular_velocity=(0, 0, 0))
    assert motion.state([0.2]).velocity[0].tolist() == [2.0, 0.0, 0.0]
    assert motion.sample([0.25, 0.5])[0][:, 0] == pytest.approx([0.1, 0.2])
    assert motion.state([0.25, 0.5]).velocity[:, 0].tolist() == [2.0, 0.0]


def test_turns_with_the_pushed_angular_velocity() -> None:
    motion, rate = PushedMotion(Pose()), 2.0
    for k in range(4):
        t = 0.05 * k
        spin = (0.0, 0.0, rate)
        motion.push(t, Pose(quat_xyzw=(0, 0, np.sin(rate * t / 2), np.cos(rate * t / 2))), (0, 0, 0), spin)
    quat = motion.sample([0.125])[1][0]
    assert 2.0 * np.arctan2(quat[2], quat[3]) == pytest.approx(0.25, abs=1e-6)
    derived = PushedMotion(Pose())
    for k in range(4):
        angle = -0.5 * rate * 0.05 * k  # the other sign of the quaternion is the same orientation
        derived.push(0.05 * k, Pose(quat_xyzw=(0, 0, -np.sin(angle) * (-1) ** k, np.cos(angle) * (-1) ** k)))
    assert derived.state([0.125]).angular_velocity[0] == pytest.approx([0.0, 0.0, rate], abs=1e-9)


def test_past_does_not_depend_on_later_poses_or_forgetting() -> None:
    motion, whole = PushedMotion(Pose()), PushedMotion(Pose())
    for k in range(2000):
        pose = Pose((np.sin(0.01 * k), np.cos(0.017 * k), 0.0))
        motion.push(0.01 * k, pose)
        whole.push(0.01 * k, pose)
        if k > 10 and k % 10 == 0:
            asked = np.linspace(0.01 * (k - 9), 0.01 * k, 11)
            state = motion.state(asked)
            assert np.array_equal(state.xyz, motion.sample(asked)[0])
            motion.forget(0.01 * (k - 9))
            known = (asked, state)
    assert np.array_equal(whole.state(known[0]).xyz, known[1].xyz)
    assert np.array_equal(whole.state(known[0]).acceleration, known[1].acceleration)
    assert len(motion._times) <= 256  # memory does not grow


def test_rests_between_pushes_on_request() -> None:
    motion = PushedMotion(Pose((5, 0, 0)))
    motion.rest(1.0)
    motion.push(2.0, Pose((6, 0, 0)), velocity=(1, 0, 0))
    motion.rest(3.0)
    assert motion.sample([0.0, 1.0, 2.5, 3.5])[0][:, 0].tolist() == [5.0, 5.0, 6.0, 6.0]
    assert motion.state([2.5]).velocity[0].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ConfigError, match="order of time"):
        motion.push(3.0, Pose())


def test_values_are_lines_between_pushes() -> None:
    value = PushedValue(0.5)
    assert value(np.array([1.0])).tolist() == [0.5]
    value.push(1.0, 0.0)
    value.push(2.0, 1.0)
    assert value(np.array([0.0, 1.25, 9.0])).tolist() == [0.0, 0.25, 1.0]
    with pytest.raises(ConfigError, match="order of time"):
        value.push(2.0, 1.0)
