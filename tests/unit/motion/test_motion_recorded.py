"""Recorded motion: replayed bit for bit, smooth between, at rest outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.spatial.transform import Rotation

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose
from parhelion.core.trajectory import Trajectory, pose_at
from parhelion.io import poses as kitti_poses
from parhelion.io import poses as tum
from parhelion.io.poses import TimedPoses
from parhelion.motion import Motion, RecordedMotion, SplineMotion
from parhelion.motion.state import pose_derivatives

RATES = ("velocity", "angular_velocity", "acceleration", "angular_acceleration")


def poses(count: int, seed: int = 0, start: float = 1_305_031_098.67) -> TimedPoses:
    """A random walk at about 10 Hz with quaternions of random signs, times as of a clock on the wall."""
    random = np.random.default_rng(seed)
    times = start + np.cumsum(random.uniform(0.05, 0.15, count))
    turn = Rotation.identity()
    quats = []
    for step in random.normal(0.0, 0.15, (count, 3)):
        turn = turn * Rotation.from_rotvec(step)
        quats.append(turn.as_quat() * random.choice([-1.0, 1.0]))
    xyz = np.cumsum(random.normal(0.1, 0.05, (count, 3)), axis=0) + 100.0
    return TimedPoses(times, xyz, np.array(quats))


def motion_of(record: TimedPoses) -> RecordedMotion:
    return RecordedMotion(record.times, record.xyz, record.quat_xyzw)


def turning(time: Floats) -> tuple[Floats, Floats]:
    """A circle of 5 m radius at 2 rad/s, x axis forward."""
    angle = 2.0 * time
    xyz = 5.0 * np.stack([np.sin(angle), -np.cos(angle), 0.0 * angle], axis=1)
    return xyz, Rotation.from_rotvec(angle[:, None] * np.array([0.0, 0.0, 1.0])).as_quat()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 300])
def test_the_record_is_replayed_bit_for_bit(count: int) -> None:
    record = poses(count)
    motion = motion_of(record)
    assert isinstance(motion, Motion)
    assert isinstance(motion, Trajectory)
    xyz, quat = motion.sample(record.times)
    assert np.array_equal(xyz, record.xyz)
    assert np.array_equal(quat, record.quat_xyzw)
    backwards = motion.state(record.times[::-1])
    assert np.array_equal(backwards.xyz, record.xyz[::-1])
    assert np.array_equal(backwards.quat_xyzw, record.quat_xyzw[::-1])


def test_positions_between_are_the_cubic_spline() -> None:
    record = poses(50)
    time = np.linspace(record.times[0], record.times[-1], 333)
    expected = CubicSpline(record.times - record.times[0], record.xyz)(time - record.times[0])
    assert np.max(np.abs(motion_of(record).sample(time)[0] - expected)) < 1e-12


def test_a_circle_recorded_at_20_hz() -> None:
    """Acceleration ω² r to the centre and turn rate ω; a cubic over h errs by (ω h)²/12 of it, 0.08 %."""
    recorded = np.arange(0.0, 5.0, 0.05)
    motion = RecordedMotion(recorded, *turning(recorded))
    time = np.linspace(0.5, 4.4, 401)
    state = motion.state(time)
    xyz, quat = turning(time)
    assert np.max(np.abs(state.xyz - xyz)) < 1e-5
    assert np.max(np.abs(state.acceleration + 4.0 * xyz)) < 1.2e-3 * 20.0
    assert np.max(np.abs(state.angular_velocity - [0.0, 0.0, 2.0])) < 1e-4
    assert np.max(np.abs(state.angular_acceleration)) < 1e-2
    assert np.min(np.abs(np.sum(state.quat_xyzw * quat, axis=1))) > 1.0 - 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_states_are_the_derivatives_of_the_poses(seed: int) -> None:
    record = poses(40, seed, start=0.0)
    motion = motion_of(record)
    # Away from knots, where the third derivative jumps and differences across it see that.
    fractions = np.array([0.25, 0.5, 0.75])
    time = (record.times[:-1, None] + fractions * np.diff(record.times)[:, None]).ravel()
    state = motion.state(time)
    _, _, *differences = pose_derivatives(motion, time)
    for rate, found in zip(RATES, differences, strict=True):
        exact = getattr(state, rate)
        assert np.max(np.abs(exact - found)) < 1e-5 * np.max(np.abs(exact)), rate


def test_nothing_jumps_at_the_recorded_poses() -> None:
    record = poses(40, start=0.0)
    motion, step = motion_of(record), 1e-7
    before, after = motion.state(record.times[1:-1] - step), motion.state(record.times[1:-1] + step)
    for rate in RATES:
        jump = np.max(np.abs(getattr(after, rate) - getattr(before, rate)))
        assert jump < 1e-5 * np.max(np.abs(getattr(before, rate))), rate
    assert np.max(np.linalg.norm(after.xyz - before.xyz, axis=1)) < 1e-5


def test_signs_of_quaternions_do_not_matter() -> None:
    record = poses(60)
    time = np.linspace(record.times[0], record.times[-1], 500)
    flipped = record.quat_xyzw * np.where(np.arange(60) % 3 == 0, -1.0, 1.0)[:, None]
    a = motion_of(record).state(time)
    b = RecordedMotion(record.times, record.xyz, flipped).state(time)
    assert np.max(np.abs(a.angular_velocity - b.angular_velocity)) < 1e-10
    assert np.max(np.abs(a.angular_acceleration - b.angular_acceleration)) < 1e-8


def test_half_turns_between_poses_are_joined() -> None:
    quats = [Pose(rpy_deg=(0, 0, yaw)).quat_xyzw for yaw in (0, 179, 0, 179, 0)]
    state = RecordedMotion(np.arange(5.0), np.zeros((5, 3)), quats).state(np.linspace(0, 4, 101))
    assert np.linalg.norm(state.quat_xyzw, axis=1) == pytest.approx(np.ones(101))


def test_rests_outside_of_the_recording() -> None:
    record = poses(20)
    motion = motion_of(record)
    state = motion.state([record.times[0] - 1.0, record.times[-1] + 1.0])
    assert np.array_equal(state.xyz, record.xyz[[0, -1]])
    assert np.array_equal(state.quat_xyzw, record.quat_xyzw[[0, -1]])
    for rate in RATES:
        assert np.all(getattr(state, rate) == 0.0)
    assert motion.start_time == record.times[0]
    assert motion.end_time == record.times[-1]


def test_one_pose_is_a_standstill() -> None:
    motion = RecordedMotion([3.0], [(1, 2, 3)], [(0, 0, 0, 1)])
    assert pose_at(motion, -100.0) == pose_at(motion, 3.0) == Pose((1, 2, 3))
    assert np.all(motion.state([0.0, 3.0, 5.0]).velocity == 0.0)


def test_jitter_of_a_recording_becomes_acceleration_as_documented() -> None:
    random = np.random.default_rng(5)
    time = np.arange(4000) * 0.1
    jitter = random.normal(0.0, 0.01, (4000, 3))
    motion = RecordedMotion(time, jitter, np.tile([0.0, 0.0, 0.0, 1.0], (4000, 1)))
    found = np.std(motion.state(np.linspace(1.0, 398.0, 20_000)).acceleration)
    assert found == pytest.approx(3.7 * 0.01 / 0.1**2, rel=0.05)


def test_a_motion_recorded_to_a_file_is_replayed_from_it(tmp_path: Path) -> None:
    drive = SplineMotion([(0, 0, 0), (10, 0, 0), (12, 8, 1)], times=[0.0, 4.0, 9.0])
    times = np.arange(0.0, 9.0, 0.01)
    xyz, quat = drive.sample(times)
    tum.write_tum(TimedPoses(times, xyz, quat), tmp_path / "drive.txt")
    replay = RecordedMotion.from_tum(tmp_path / "drive.txt")
    for expected, found in zip(drive.sample(times), replay.sample(times), strict=True):
        assert np.array_equal(expected, found)
    between = times[10:-10] + 0.005
    assert np.max(np.abs(replay.state(between).acceleration - drive.state(between).acceleration)) < 1e-2


def test_kitti_files_are_replayed(tmp_path: Path) -> None:
    record = poses(30)
    kitti_poses.write_kitti(record, tmp_path / "00.txt", times=tmp_path / "times.txt", axes="camera")
    replay = RecordedMotion.from_kitti(tmp_path / "00.txt", times=tmp_path / "times.txt", axes="camera")
    assert np.array_equal(replay.times, record.times)
    assert np.array_equal(replay.xyz, record.xyz)
    assert np.abs(np.sum(replay.quat_xyzw * record.quat_xyzw, axis=1)) == pytest.approx(np.ones(30), abs=1e-14)
    assert RecordedMotion.from_kitti(tmp_path / "00.txt", rate_hz=10.0).end_time == pytest.approx(2.9)


# ---- refused -------------------------------------------------------------------------------------------------------

LEVEL = [(0.0, 0.0, 0.0, 1.0)] * 2


@pytest.mark.parametrize(
    ("times", "xyz", "quats", "words"),
    [
        ([0, 1], np.zeros((3, 3)), LEVEL, "the same length, got 2, 3 and 2"),
        ([0, 0], np.zeros((2, 3)), LEVEL, "increase, got 0.0 and then 0.0 in row 1"),
        ([0, np.nan], np.zeros((2, 3)), LEVEL, "times must be finite, got nan"),
        ([], np.zeros((0, 3)), np.zeros((0, 4)), "rows of 3 numbers"),
        ([0, 1], [(0, 0, 0), (0, np.inf, 0)], LEVEL, "xyz must be finite, got .*inf.* in row 1"),
        ([0, 1], np.zeros((2, 2)), LEVEL, "xyz must be rows of 3 numbers"),
        ([0, 1], np.zeros((2, 3)), [(0, 0, 0, 1), (0, 0, 0, 1.02)], "length 1.02 in row 1"),
        ([0, 1], np.zeros((2, 3)), [(0, 0, 0, 1), (0, 0, 0, 0)], "length 0 in row 1"),
        ([0, 1], np.zeros((2, 3)), "north", "quat_xyzw must be rows of 4 numbers"),
    ],
)
def test_bad_recordings_are_refused(times: Any, xyz: Any, quats: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        RecordedMotion(times, xyz, quats)


def test_quaternions_a_little_off_are_made_unit_ones() -> None:
    motion = RecordedMotion([0, 1], np.zeros((2, 3)), [(0, 0, 0, 0.995), (0, 0, 0, 1)])
    assert np.array_equal(motion.quat_xyzw, LEVEL)


def test_orientations_that_swing_too_far_are_refused() -> None:
    random = np.random.default_rng(0)
    wild = Rotation.random(200, random).as_quat()
    times = np.cumsum(random.choice([1e-3, 1.0], 200))
    with pytest.raises(ConfigError, match=r"orientations around rows \d+ and \d+ differ too much"):
        RecordedMotion(times, np.zeros((200, 3)), wild)
