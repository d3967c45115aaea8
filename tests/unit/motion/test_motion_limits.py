"""Motion within limits: closed forms, and limits that hold on any path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.core.trajectory import pose_at
from parhelion.motion import MotionLimits, SplineMotion

LIMITS = MotionLimits(5.0, 2.0, 3.0)
RAMP = [(0, 0, 0), (10, 0, 0), (14, 6, 1), (8, 14, 2), (-2, 10, 1), (0, 25, 0)]
LONG_AND_SHORT = [(0, 0, 0), (100, 0, 0), (101, 0, 0), (102, 1, 0), (102, 100, 0)]
HAIRPIN = [(0, 0, 0), (10, 0, 0), (10, 0.3, 0), (0, 0.3, 0)]


def accelerations(motion: SplineMotion, count: int = 8_009) -> tuple[Floats, Floats, Floats]:
    """Speed [m/s] and acceleration along and across the path [m/s²] over the whole motion."""
    state = motion.state(np.linspace(motion.start_time, motion.end_time, count))
    speed = np.linalg.norm(state.velocity, axis=1)
    moving = speed > 1e-6
    direction = state.velocity[moving] / speed[moving, None]
    along = np.sum(direction * state.acceleration[moving], axis=1)
    across = np.linalg.norm(np.cross(direction, state.acceleration[moving]), axis=1)
    return speed, along, across


# ---- closed forms --------------------------------------------------------------------------------------------------


def test_a_straight_line_within_limits_takes_the_time_of_a_trapezium() -> None:
    """Speed up, go on, slow down: L/v + v/a, and the ramp; the whole way is straight and level."""
    motion = SplineMotion([(0, 0, 0), (30, 40, 0)], limits=LIMITS)
    assert motion.length_m == pytest.approx(50.0, rel=1e-12)
    assert motion.end_time == pytest.approx(50.0 / 5.0 + 5.0 / 2.0 + 0.4, abs=0.04)
    middle = motion.state([0.5 * motion.end_time])
    assert middle.velocity[0] == pytest.approx([3.0, 4.0, 0.0], rel=1e-3, abs=1e-12)
    assert np.degrees(np.arctan2(4, 3)) == pytest.approx(pose_at(motion, 0.0).rpy_deg[2])
    speed, along, across = accelerations(motion)
    assert np.max(speed) == pytest.approx(5.0, rel=1e-3)
    assert [np.max(along), np.min(along)] == pytest.approx([2.0, -2.0], rel=1e-3)
    assert np.max(across) < 1e-9


def test_jerk_along_the_path_is_at_most_four_times_acceleration_over_ramp() -> None:
    """The worst case: the way is too short for any constant speed, so +2 m/s² turns to -2 m/s² within the ramp."""
    motion = SplineMotion([(0, 0, 0), (5, 0, 0)], limits=MotionLimits(50.0, 2.0, 3.0, ramp_s=0.8))
    time = np.linspace(0.0, motion.end_time, 5000)
    jerk = np.gradient(motion.state(time).acceleration[:, 0], time)
    assert np.max(np.abs(jerk)) == pytest.approx(4.0 * 2.0 / 0.8, rel=0.05)


# ---- limits --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits",
    [LIMITS, MotionLimits(30.0, 3.0, 4.0), MotionLimits(1.0, 0.5, 0.3, 1.0), MotionLimits(5.0, 2.0, 3.0, 2.0)],
)
@pytest.mark.parametrize("points", [RAMP, LONG_AND_SHORT, HAIRPIN], ids=["ramp", "long-and-short", "hairpin"])
@pytest.mark.parametrize("closed", [False, True])
def test_limits_hold_and_are_used(points: list[Any], limits: MotionLimits, closed: bool) -> None:
    motion = SplineMotion(points, limits=limits, closed=closed)
    speed, along, across = accelerations(motion)
    assert np.max(speed) <= 1.005 * limits.max_speed_m_s
    assert np.max(np.abs(along)) <= 1.005 * limits.max_acceleration_m_s2
    assert np.max(across) <= 1.005 * limits.max_lateral_m_s2
    used = np.max(
        [
            np.max(speed) / limits.max_speed_m_s,
            np.max(np.abs(along)) / limits.max_acceleration_m_s2,
            np.max(across) / limits.max_lateral_m_s2,
        ]
    )
    assert used > 0.97


@settings(deadline=None, max_examples=15)
@given(
    st.integers(2, 7),
    st.integers(0, 10_000),
    st.floats(0.5, 20.0),
    st.floats(0.3, 5.0),
    st.floats(0.3, 5.0),
    st.floats(0.1, 1.0),
)
def test_limits_hold_on_any_path(count: int, seed: int, v: float, a: float, lateral: float, ramp: float) -> None:
    random = np.random.default_rng(seed)
    turned = np.cumsum(random.uniform(-1.2, 1.2, count))
    steps = random.uniform(2.0, 15.0, count)[:, None] * np.stack([np.cos(turned), np.sin(turned), 0.1 * turned], axis=1)
    motion = SplineMotion(np.cumsum(steps, axis=0), limits=MotionLimits(v, a, lateral, ramp))
    speed, along, across = accelerations(motion)
    assert np.max(speed) <= 1.01 * v
    assert np.max(np.abs(along)) <= 1.01 * a
    assert np.max(across) <= 1.01 * lateral


def test_limits_cost_little_time_over_switching_at_once() -> None:
    """Against the bound that knows no ramps: the same line with a ramp of almost nothing."""
    quick = SplineMotion(RAMP, limits=MotionLimits(5.0, 2.0, 3.0, ramp_s=0.02))
    default = SplineMotion(RAMP, limits=LIMITS)
    assert quick.end_time < default.end_time < 1.1 * quick.end_time + 0.4


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "fast", True])
@pytest.mark.parametrize("position", range(4))
def test_bad_limits_are_refused(value: Any, position: int) -> None:
    numbers: list[Any] = [5.0, 2.0, 3.0, 0.4]
    numbers[position] = value
    name = ("max_speed_m_s", "max_acceleration_m_s2", "max_lateral_m_s2", "ramp_s")[position]
    with pytest.raises(ConfigError, match=f"motion limits: {name} must be a number above 0, got"):
        MotionLimits(*numbers)


def test_a_path_that_takes_too_long_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"motion limits: ramp_s must be at least .* for a path that takes"):
        SplineMotion(RAMP, limits=MotionLimits(1e-6, 2.0, 3.0))
