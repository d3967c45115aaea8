"""Motion through waypoints: closed forms, exact derivatives, continuity, and limits that hold."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose
from parhelion.core.trajectory import Trajectory, pose_at
from parhelion.motion import Motion, MotionLimits, SplineMotion
from parhelion.motion.state import pose_derivatives

GRAVITY = 9.80665
LIMITS = MotionLimits(5.0, 2.0, 3.0)
RAMP = [(0, 0, 0), (10, 0, 0), (14, 6, 1), (8, 14, 2), (-2, 10, 1), (0, 25, 0)]
LONG_AND_SHORT = [(0, 0, 0), (100, 0, 0), (101, 0, 0), (102, 1, 0), (102, 100, 0)]
HAIRPIN = [(0, 0, 0), (10, 0, 0), (10, 0.3, 0), (0, 0.3, 0)]
RATES = ("velocity", "angular_velocity", "acceleration", "angular_acceleration")


def circle(radius: float, count: int, rise: float = 0.0, turns: float = 1.0) -> Floats:
    angle = 2.0 * np.pi * turns * np.arange(count) / count
    return np.stack([radius * np.sin(angle), radius * (1.0 - np.cos(angle)), rise * angle], axis=1)


def quats(count: int, seed: int = 3) -> Floats:
    """Orientations some 40° apart."""
    steps = Rotation.from_rotvec(np.random.default_rng(seed).normal(0.0, 0.4, (count, 3)))
    out = [Rotation.from_euler("z", 20.0, degrees=True)]
    for i in range(count - 1):
        out.append(out[-1] * steps[i])
    return np.array([rotation.as_quat() for rotation in out])


def times_at(points: Any, speed: float) -> Floats:
    steps = np.linalg.norm(np.diff(np.asarray(points, dtype=float), axis=0), axis=1)
    return np.concatenate([[0.0], np.cumsum(steps) / speed])


MOTIONS: dict[str, Callable[[], SplineMotion]] = {
    "times": lambda: SplineMotion(RAMP, times=times_at(RAMP, 2.0)),
    "times, moving ends": lambda: SplineMotion(
        RAMP, times=5.0 + times_at(RAMP, 2.0), start_at_rest=False, stop_at_rest=False, follow_slope=True
    ),
    "uneven times": lambda: SplineMotion(RAMP, times=[0.0, 1.0, 9.0, 10.0, 30.0, 31.0], follow_slope=True),
    "limits": lambda: SplineMotion(RAMP, limits=LIMITS, follow_slope=True, start_time=7.0),
    "limits, banked": lambda: SplineMotion(RAMP, limits=LIMITS, follow_slope=True, bank=True),
    "limits, moving end": lambda: SplineMotion(RAMP, limits=LIMITS, stop_at_rest=False),
    "hairpin": lambda: SplineMotion(HAIRPIN, limits=LIMITS),
    "long and short": lambda: SplineMotion(LONG_AND_SHORT, limits=LIMITS),
    "closed": lambda: SplineMotion(RAMP, limits=LIMITS, closed=True, follow_slope=True),
    "closed, once": lambda: SplineMotion(RAMP, limits=LIMITS, closed=True, start_at_rest=True, stop_at_rest=True),
    "closed, times": lambda: SplineMotion(RAMP, times=[0, 4, 7, 12, 17, 24, 36], closed=True),
    "closed, irregular times": lambda: SplineMotion(RAMP, times=[0, 1, 9, 10, 30, 31, 50], closed=True),
    "quaternions and limits": lambda: SplineMotion(RAMP, limits=LIMITS, facing=quats(6)),
    "quaternions and times": lambda: SplineMotion(RAMP, times=times_at(RAMP, 2.0), facing=quats(6)),
    "quaternions, closed": lambda: SplineMotion(RAMP, limits=LIMITS, closed=True, facing=quats(6)),
    "quaternions, closed, times": lambda: SplineMotion(
        RAMP, times=[0, 4, 7, 12, 17, 24, 36], closed=True, facing=quats(6)
    ),
}


@cache
def motion_of(name: str) -> SplineMotion:
    return MOTIONS[name]()


# ---- closed forms --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bank", [False, True])
def test_a_circle_at_constant_speed(bank: bool) -> None:
    """20 m across in 20 s: v = π m/s, a = v²/r to the centre, ω = v/r, roll -atan(v²/(r g))."""
    points, speed = circle(10.0, 72), np.pi
    motion = SplineMotion(points, times=np.linspace(0.0, 20.0, 73), closed=True, bank=bank)
    time = np.linspace(-25.0, 60.0, 997)
    state = motion.state(time)
    angle = 2.0 * np.pi * time / 20.0
    inwards = np.stack([-np.sin(angle), np.cos(angle), 0.0 * angle], axis=1)
    forward = np.stack([np.cos(angle), np.sin(angle), 0.0 * angle], axis=1)
    # A cubic through points h apart has the curvature of the circle to h²/12: 0.06 % here.
    assert np.max(np.abs(state.velocity - speed * forward)) < 1e-3 * speed
    assert np.max(np.abs(state.acceleration - speed**2 / 10.0 * inwards)) < 2e-3 * speed**2 / 10.0
    lean = np.arctan(speed**2 / 10.0 / GRAVITY) if bank else 0.0
    about = np.array([0.0, -np.sin(lean), np.cos(lean)]) * speed / 10.0
    assert np.max(np.abs(state.angular_velocity - about)) < (3e-3 if bank else 5e-4)
    for i in (0, 300, 996):
        roll, pitch, yaw = np.radians(Pose(state.xyz[i], state.quat_xyzw[i]).rpy_deg)
        assert roll == pytest.approx(-lean, abs=1e-4)
        assert pitch == pytest.approx(0.0, abs=1e-12)
        assert np.cos(yaw - angle[i]) == pytest.approx(1.0, abs=1e-6)


def test_a_left_bend_leans_to_the_left() -> None:
    state = SplineMotion(circle(10.0, 36), times=np.linspace(0, 10, 37), closed=True, bank=True).state([3.0])
    left_wing = Pose(state.xyz[0], state.quat_xyzw[0]).rotation[:, 1]
    assert left_wing[2] < -0.1


def test_two_waypoints_with_times_are_the_motion_of_least_jerk() -> None:
    """From rest to rest, 10 x³ - 15 x⁴ + 6 x⁵ (Flash and Hogan, 1985)."""
    time = np.linspace(0.0, 4.0, 41)
    state = SplineMotion([(0, 0, 0), (6, 0, 0)], times=[0.0, 4.0]).state(time)
    x = time / 4.0
    assert state.xyz[:, 0] == pytest.approx(6.0 * (10 * x**3 - 15 * x**4 + 6 * x**5), abs=1e-12)
    assert state.acceleration[:, 0] == pytest.approx(6.0 / 16.0 * (60 * x - 180 * x**2 + 120 * x**3), abs=1e-11)


def test_a_helix_climbs_by_its_slope() -> None:
    points = circle(10.0, 96, rise=2.0, turns=3.0)
    motion = SplineMotion(points, times=times_at(points, 3.0), follow_slope=True)
    level = SplineMotion(points, times=times_at(points, 3.0))
    middle = 0.5 * motion.end_time
    assert pose_at(motion, middle).rpy_deg[1] == pytest.approx(-np.degrees(np.arctan(2.0 / 10.0)), abs=0.01)
    assert pose_at(level, middle).rpy_deg[:2] == pytest.approx([0.0, 0.0], abs=1e-12)
    tangent = motion.state([middle]).velocity[0] / np.linalg.norm(motion.state([middle]).velocity[0])
    assert pose_at(motion, middle).rotation[:, 0] == pytest.approx(tangent, abs=1e-12)


def test_samples_of_a_sine_give_its_acceleration_back() -> None:
    """y = 3 sin(x/5) at 4 m/s in x: 100 points, end effects left out."""
    x = np.linspace(0.0, 100.0, 101)
    points = np.stack([x, 3.0 * np.sin(x / 5.0), 0.0 * x], axis=1)
    motion = SplineMotion(points, times=x / 4.0, start_at_rest=False, stop_at_rest=False)
    time = np.linspace(5.0, 20.0, 501)
    state = motion.state(time)
    expected = -3.0 * 0.8**2 * np.sin(0.8 * time)
    assert np.max(np.abs(state.xyz[:, 1] - 3.0 * np.sin(0.8 * time))) < 1e-3
    assert np.max(np.abs(state.acceleration[:, 1] - expected)) < 0.02 * 3.0 * 0.8**2
    assert np.max(np.abs(state.acceleration[:, 0])) < 0.02 * 3.0 * 0.8**2


# ---- derivatives and continuity ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MOTIONS)
def test_states_are_the_derivatives_of_the_poses(name: str) -> None:
    motion = motion_of(name)
    assert isinstance(motion, Motion)
    assert isinstance(motion, Trajectory)
    time = np.linspace(motion.start_time + 0.02, motion.end_time - 0.02, 403)
    state = motion.state(time)
    _, _, *differences = pose_derivatives(motion, time)
    for rate, found in zip(RATES, differences, strict=True):
        exact = getattr(state, rate)
        # Truncation over 8 ms, where a bend is short: judged by the typical row and, less strictly, by the worst.
        error = np.max(np.abs(exact - found), axis=1)
        scale = np.max(np.abs(exact)) + 1e-3
        assert np.median(error) < 1e-5 * scale, rate
        assert np.max(error) < 2e-2 * scale, rate


@pytest.mark.parametrize("name", MOTIONS)
def test_nothing_jumps_at_waypoints_nor_anywhere_else(name: str) -> None:
    """Halving the time step halves the differences, which would not be so at a jump."""
    motion = motion_of(name)
    steps = []
    for count in (10_001, 20_001):
        state = motion.state(np.linspace(motion.start_time, motion.end_time, count))
        steps.append([np.max(np.abs(np.diff(getattr(state, rate), axis=0))) for rate in RATES])
    coarse, fine = np.array(steps)
    assert np.all(fine < 0.6 * coarse + 1e-9), (coarse, fine)


@pytest.mark.parametrize("name", ["times", "uneven times", "limits", "closed, once", "quaternions and times"])
def test_rest_before_and_behind_joins_without_a_jump(name: str) -> None:
    motion = motion_of(name)
    state = motion.state([motion.start_time - 10.0, motion.start_time, motion.end_time, motion.end_time + 10.0])
    scale = motion.length_m
    for rate in RATES:
        assert np.max(np.abs(getattr(state, rate))) < 1e-8 * scale, rate
    assert state.xyz[[0, 3]] == pytest.approx(state.xyz[[1, 2]], abs=1e-12)


def test_what_does_not_stop_at_rest_moves_to_its_end_and_then_stands() -> None:
    motion = motion_of("limits, moving end")
    state = motion.state([motion.end_time, motion.end_time + 1e-6])
    assert np.linalg.norm(state.velocity[0]) == pytest.approx(5.0, rel=0.02)
    assert np.all(state.velocity[1] == 0.0)
    assert state.xyz == pytest.approx(np.array([RAMP[-1], RAMP[-1]]), abs=1e-9)


@pytest.mark.parametrize("name", [name for name in MOTIONS if "closed" in name and "once" not in name])
def test_a_closed_motion_repeats_for_ever(name: str) -> None:
    motion = motion_of(name)
    period = motion.end_time - motion.start_time
    time = np.linspace(0.0, period, 50)
    lap, later = motion.state(time), motion.state(time - 3.0 * period)
    for part in ("xyz", *RATES):
        scale = 1.0 + np.max(np.abs(getattr(lap, part)))
        assert np.max(np.abs(getattr(lap, part) - getattr(later, part))) < 1e-6 * scale, part
    assert np.abs(np.sum(lap.quat_xyzw * later.quat_xyzw, axis=1)) == pytest.approx(np.ones(50), abs=1e-12)


# ---- waypoints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["times", "times, moving ends", "quaternions and times"])
def test_waypoints_are_met_at_their_times(name: str) -> None:
    motion = motion_of(name)
    xyz, quat = motion.sample(motion.start_time + times_at(RAMP, 2.0))
    assert xyz == pytest.approx(np.array(RAMP, dtype=float), abs=1e-9)
    if name == "quaternions and times":
        assert np.abs(np.sum(quat * quats(6), axis=1)) == pytest.approx(np.ones(6), abs=1e-12)


@pytest.mark.parametrize("name", ["limits", "limits, banked", "closed", "quaternions and limits"])
def test_waypoints_are_passed_within_limits(name: str) -> None:
    motion = motion_of(name)
    xyz, quat = motion.sample(np.linspace(motion.start_time, motion.end_time, 30_001))
    for number, point in enumerate(RAMP):
        distance = np.linalg.norm(xyz - point, axis=1)
        assert np.min(distance) < 2e-3  # samples lie up to 4 mm apart
        if name == "quaternions and limits":
            assert abs(np.sum(quat[np.argmin(distance)] * quats(6)[number])) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("name", ["closed", "closed, once", "closed, times", "quaternions, closed"])
def test_a_lap_begins_and_ends_at_the_first_waypoint(name: str) -> None:
    motion = motion_of(name)
    xyz, _ = motion.sample([motion.start_time, motion.end_time])
    assert xyz == pytest.approx(np.array([RAMP[0], RAMP[0]], dtype=float), abs=1e-9)


def test_a_short_leg_beside_long_ones_does_not_throw_the_line_off() -> None:
    motion = motion_of("long and short")
    xyz, _ = motion.sample(np.linspace(0.0, motion.end_time, 5001))
    beside = np.minimum(np.abs(xyz[:, 1]), np.abs(xyz[:, 0] - 102.0))
    assert np.max(beside) < 2.0
    assert motion.length_m < 203.0


def test_equal_waypoints_are_a_wait_and_nothing_runs_back() -> None:
    points = [(0, 0, 0), (5, 0, 0), (5, 0, 0), (10, 2, 0)]
    motion = SplineMotion(points, times=[0, 2, 5, 6])
    waiting = motion.state(np.linspace(2.0, 5.0, 31))
    assert np.max(np.abs(waiting.velocity)) < 1e-9
    assert waiting.xyz == pytest.approx(np.tile([5.0, 0.0, 0.0], (31, 1)))
    state = motion.state(np.linspace(0.0, 6.0, 6001))
    assert np.min(np.sum(state.velocity * Rotation.from_quat(state.quat_xyzw).as_matrix()[:, :, 0], axis=1)) > -1e-9


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(0.05, 20.0), min_size=2, max_size=8), st.integers(0, 1000), st.booleans())
def test_for_any_times_the_distance_only_grows_and_speed_is_bounded(steps: list[float], seed: int, rest: bool) -> None:
    x = np.concatenate([[0.0], np.cumsum(np.random.default_rng(seed).uniform(0.1, 10.0, len(steps)))])
    times = np.concatenate([[0.0], np.cumsum(steps)])
    points = np.stack([x, 0 * x, 0 * x], axis=1)
    motion = SplineMotion(points, times=times, start_at_rest=rest, stop_at_rest=rest)
    state = motion.state(np.linspace(0.0, times[-1], 2001))
    fastest = np.max(np.diff(x) / np.diff(times))
    assert np.min(state.velocity[:, 0]) > -1e-6 * fastest
    assert np.max(state.velocity[:, 0]) < 2.05 * fastest
    assert motion.sample(times)[0][:, 0] == pytest.approx(x, abs=1e-9)


def test_turning_on_the_spot() -> None:
    points = [(0, 0, 0), (4, 0, 0), (4, 0, 0), (4, 4, 0)]
    facing = [Pose(rpy_deg=(0, 0, yaw)).quat_xyzw for yaw in (0, 0, 90, 90)]
    motion = SplineMotion(points, times=[0, 3, 6, 9], facing=facing)
    assert pose_at(motion, 4.5).xyz == pytest.approx([4, 0, 0])
    assert pose_at(motion, 4.5).rpy_deg == pytest.approx([0, 0, 45])
    yaw_rate = motion.state(np.linspace(3.0, 6.0, 3001)).angular_velocity[:, 2]
    assert np.sum(yaw_rate) * 3.0 / 3000 == pytest.approx(np.pi / 2, rel=1e-3)
    assert np.max(np.abs(motion.state(np.linspace(6.0, 9.0, 101)).angular_velocity)) < 1e-9


def test_one_quaternion_is_kept_all_the_way() -> None:
    quat = Pose(rpy_deg=(5, 10, 15)).quat_xyzw
    up_and_back = [(0, 0, 0), (0, 0, 5), (0, 0, 0)]
    state = SplineMotion(up_and_back, times=[0, 2, 4], facing=quat).state(np.linspace(0.0, 4.0, 9))
    assert np.array_equal(state.quat_xyzw, np.tile(quat, (9, 1)))
    assert np.all(state.angular_velocity == 0.0)
    assert state.xyz[4] == pytest.approx([0, 0, 5], abs=1e-12)


def test_a_full_rotation_about_the_vertical_on_a_closed_path() -> None:
    """Quaternions have the opposite sign after one rotation, which must not show."""
    points = circle(8.0, 12)
    facing = [Pose(rpy_deg=(0, 0, 30.0 * i)).quat_xyzw for i in range(12)]
    motion = SplineMotion(points, times=np.linspace(0.0, 12.0, 13), closed=True, facing=facing)
    state = motion.state(np.linspace(0.0, 30.0, 601))
    assert np.max(np.abs(state.angular_velocity - [0.0, 0.0, 2.0 * np.pi / 12.0])) < 1e-3
    assert np.max(np.abs(state.angular_acceleration)) < 1e-2


def test_turn_rates_of_quaternions_do_not_depend_on_the_frames() -> None:
    a, b = Rotation.from_rotvec([0.3, -0.2, 1.1]), Rotation.from_rotvec([-0.5, 0.4, 0.2])
    turned = (a * Rotation.from_quat(quats(6)) * b).as_quat()
    time = np.linspace(0.0, 20.0, 50)
    first = SplineMotion(RAMP, times=times_at(RAMP, 2.0), facing=quats(6)).state(time)
    second = SplineMotion(RAMP, times=times_at(RAMP, 2.0), facing=turned).state(time)
    assert np.max(np.abs(b.inv().apply(first.angular_velocity.copy()) - second.angular_velocity)) < 1e-12


# ---- refused -------------------------------------------------------------------------------------------------------

TWO = [(0, 0, 0), (1, 0, 0)]
THREE = [(0, 0, 0), (5, 0, 0), (5, 5, 0)]


@pytest.mark.parametrize(
    ("points", "options", "words"),
    [
        (TWO, {}, "either times or limits"),
        (TWO, {"times": [0, 1], "limits": LIMITS}, "either times or limits"),
        (TWO, {"times": [0, 1, 2]}, "times must be 2 numbers for these waypoints, got 3"),
        (TWO, {"times": [0, 0]}, "times must increase, got 0.0 and then 0.0"),
        (TWO, {"times": [0, np.nan]}, "times must be finite, got nan"),
        (TWO, {"times": [0, 1], "start_time": 3.0}, "start_time is for limits.*got 3.0"),
        (TWO, {"limits": LIMITS, "start_time": np.nan}, "start_time must be finite, got nan"),
        ([(0, 0, 0)], {"times": [0]}, "at least 2 different points, got 1"),
        ([(1, 1, 1)] * 3, {"times": [0, 1, 2]}, "at least 2 different points, got 1"),
        ([], {"limits": LIMITS}, "rows of 3 numbers, got shape"),
        ([(0, 0), (1, 1)], {"limits": LIMITS}, r"rows of 3 numbers, got shape \(2, 2\)"),
        ([(0, 0, 0), (1, np.nan, 0)], {"limits": LIMITS}, "finite, got .*nan.* in row 1"),
        ([(0, 0, 0), "x"], {"limits": LIMITS}, "rows of 3 numbers"),
        (TWO, {"limits": LIMITS, "closed": True}, "at least 3 different points, got 2"),
        ([*THREE, (0, 0, 0)], {"limits": LIMITS, "closed": True}, "omit the repeated one"),
        (THREE, {"limits": LIMITS, "closed": True, "start_at_rest": True}, "starts and stops at rest or does neither"),
        ([(0, 0, 0), (5, 0, 0), (5, 0, 0)], {"limits": LIMITS}, "waypoint 2 repeats the previous one"),
        ([(0, 0, 0), (0, 1e-320, 0), (5, 0, 0)], {"limits": LIMITS}, "waypoint 1 repeats the previous one"),
        ([(0, 0, 0), (5, 0, 0), (0, 0, 0)], {"limits": LIMITS}, "turn back on the spot near waypoint 1"),
        ([(0, 0, 0), (5, 0, 0), (0, 0, 0)], {"times": [0, 1, 2]}, "turn back on the spot near waypoint 1"),
        ([(0, 0, 0), (0, 0, 5)], {"limits": LIMITS}, "vertical near waypoint 0"),
        (TWO, {"limits": LIMITS, "facing": "north"}, "facing must be 'forward' or quaternions, got 'north'"),
        (TWO, {"limits": LIMITS, "facing": [(0, 0, 0, 1)]}, r"one per waypoint \(2\), got 1"),
        (TWO, {"limits": LIMITS, "facing": (0, 0, 0, 2)}, "length 2"),
        (TWO, {"limits": LIMITS, "facing": (0, 0, np.nan, 1)}, "finite"),
        (TWO, {"limits": LIMITS, "facing": [(0, 0), (1,)]}, "facing must be 'forward', one quaternion"),
        (TWO, {"limits": LIMITS, "facing": (0, 0, 0, 1), "bank": True}, "for facing 'forward'"),
    ],
)
def test_bad_motions_are_refused(points: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=f"(spline|motion): .*{words}|{words}"):
        SplineMotion(points, **options)


def test_turning_about_within_a_very_short_leg_is_refused() -> None:
    points = [(0, 0, 0), (10, 0, 0), (10.01, 0, 0), (20, 0, 0)]
    facing = [Pose(rpy_deg=(0, 0, yaw)).quat_xyzw for yaw in (0, 0, 90, 90)]
    with pytest.raises(ConfigError, match=r"spline: the orientations around rows \d and \d differ too much"):
        SplineMotion(points, limits=LIMITS, facing=facing)
