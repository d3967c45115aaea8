"""Body states: lever arms against closed forms, and derivatives of poses against known ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from scipy.spatial.transform import Rotation

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, quat_conjugate, quat_multiply, quat_rotate
from parhelion.core.trajectory import ConstantTwist, Fixed, Trajectory, Waypoints
from parhelion.motion import BodyState, Motion, at_mount, state_of
from parhelion.motion.state import pose_derivatives, rotation_vector

TIMES = np.linspace(-3.0, 7.0, 201)


def turns(axis: int, angles: ArrayLike) -> Rotation:
    """Rotations about one axis, by angles [rad]."""
    return Rotation.from_rotvec(np.asarray(angles)[:, None] * np.eye(3)[axis])


class Swing:
    """x = 100 + sin, roll = 0.3 sin and then yaw = 2 t about the world's z: all derivatives known."""

    rate = 2.0 * np.pi

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        t = np.asarray(times, dtype=np.float64)
        xyz = np.stack([100.0 + np.sin(self.rate * t), 2.0 * t, np.cos(t)], axis=1)
        return xyz, (turns(2, 2.0 * t) * turns(0, 0.3 * np.sin(t))).as_quat()

    def expected(self, t: Floats) -> BodyState:
        one, zero, w = np.ones_like(t), np.zeros_like(t), self.rate
        roll, roll_1, roll_2 = 0.3 * np.sin(t), 0.3 * np.cos(t), -0.3 * np.sin(t)
        return BodyState(
            t,
            *self.sample(t),
            velocity=np.stack([w * np.cos(w * t), 2.0 * one, -np.sin(t)], axis=1),
            angular_velocity=np.stack([roll_1, 2.0 * np.sin(roll), 2.0 * np.cos(roll)], axis=1),
            acceleration=np.stack([-(w**2) * np.sin(w * t), zero, -np.cos(t)], axis=1),
            angular_acceleration=np.stack([roll_2, 2.0 * np.cos(roll) * roll_1, -2.0 * np.sin(roll) * roll_1], axis=1),
        )


class SwingMotion(Swing):
    def state(self, times: ArrayLike) -> BodyState:
        return self.expected(np.asarray(times, dtype=np.float64))


class Mounted:
    def __init__(self, body: Trajectory, mount: Pose) -> None:
        self.body, self.mount = body, mount

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        xyz, quat = self.body.sample(times)
        return xyz + quat_rotate(quat, self.mount.xyz), quat_multiply(quat, self.mount.quat_xyzw[None])


def largest(a: Floats, b: Floats) -> float:
    return float(np.max(np.abs(a - b)))


# ---- numeric derivatives -------------------------------------------------------------------------------------------


def test_numeric_derivatives_are_as_good_as_promised() -> None:
    state, expected = state_of(Swing(), TIMES), Swing().expected(TIMES)
    assert np.array_equal(state.xyz, expected.xyz)
    assert np.array_equal(state.quat_xyzw, expected.quat_xyzw)
    assert largest(state.velocity, expected.velocity) < 1e-8
    assert largest(state.acceleration, expected.acceleration) < 5e-8
    assert largest(state.angular_velocity, expected.angular_velocity) < 1e-9
    assert largest(state.angular_acceleration, expected.angular_acceleration) < 1e-8


def test_the_error_of_numeric_derivatives_falls_with_the_fourth_power_of_the_step() -> None:
    expected = Swing().expected(TIMES)
    errors = []
    for step in (0.04, 0.02):
        _, _, velocity, omega, acceleration, alpha = pose_derivatives(Swing(), TIMES, step)
        errors.append(
            [
                largest(velocity, expected.velocity),
                largest(acceleration, expected.acceleration),
                largest(omega, expected.angular_velocity),
                largest(alpha, expected.angular_acceleration),
            ]
        )
    assert np.array(errors[0]) / np.array(errors[1]) == pytest.approx([16.0] * 4, rel=0.05)
    # The first terms of the series: h^4/30 of the fifth and h^4/90 of the sixth derivative.
    assert errors[1][0] == pytest.approx(0.02**4 / 30.0 * Swing.rate**5, rel=0.02)
    assert errors[1][1] == pytest.approx(0.02**4 / 90.0 * Swing.rate**6, rel=0.02)


def test_what_stands_has_no_derivatives() -> None:
    state = state_of(Fixed(Pose((1e4, -7.0, 2.0), rpy_deg=(10, 20, 30))), TIMES)
    assert np.all(state.velocity == 0.0)
    assert np.all(state.acceleration == 0.0)
    assert np.max(np.abs(state.angular_velocity)) < 1e-13
    assert np.max(np.abs(state.angular_acceleration)) < 1e-10


def test_a_constant_twist_turns_about_an_axis_of_the_world() -> None:
    pose = Pose((5.0, 6.0, 7.0), rpy_deg=(30, -20, 75))
    state = state_of(ConstantTwist(pose, (3.0, -1.0, 0.5), (0.4, 0.2, -0.9)), TIMES)
    assert largest(state.velocity, np.tile([3.0, -1.0, 0.5], (len(TIMES), 1))) < 1e-10
    in_world = quat_rotate(state.quat_xyzw, state.angular_velocity)
    assert largest(in_world, np.tile([0.4, 0.2, -0.9], (len(TIMES), 1))) < 1e-11
    assert np.max(np.abs(state.acceleration)) < 1e-7
    assert np.max(np.abs(state.angular_acceleration)) < 1e-8


def test_times_of_an_era_lose_nothing() -> None:
    epoch = 1.7e9
    shifted = ConstantTwist(Pose(), (20.0, 0.0, 0.0), (0.0, 0.0, 1.0), start_time=epoch)
    state = state_of(shifted, epoch + np.array([0.0, 1.5, 10.25]))
    assert largest(state.velocity, np.tile([20.0, 0.0, 0.0], (3, 1))) < 1e-10
    assert np.max(np.abs(state.acceleration)) < 1e-7


def test_kinks_give_finite_peaks_and_nothing_beside_them() -> None:
    path = Waypoints([0.0, 1.0, 2.0], [Pose(), Pose((1, 0, 0)), Pose((1, 2, 0), rpy_deg=(0, 0, 90))])
    state = state_of(path, np.array([0.5, 1.0, 1.5]))
    assert state.velocity[[0, 2]] == pytest.approx(np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]]), abs=1e-11)
    assert np.max(np.abs(state.acceleration[[0, 2]])) < 1e-8
    assert 100.0 < np.linalg.norm(state.acceleration[1]) < 1e4


def test_a_motion_answers_for_itself() -> None:
    motion = SwingMotion()
    assert isinstance(motion, Motion)
    assert isinstance(motion, Trajectory)
    assert not isinstance(Swing(), Motion)
    assert np.array_equal(state_of(motion, TIMES).acceleration, motion.expected(TIMES).acceleration)


@settings(deadline=None, max_examples=50)
@given(st.tuples(*[st.floats(-1.8, 1.8)] * 3), st.booleans())
def test_rotation_vectors(vector: tuple[float, float, float], flip: bool) -> None:
    quat = Rotation.from_rotvec(vector).as_quat()
    found = rotation_vector(np.array([-quat if flip else quat]))[0]
    assert np.linalg.norm(found) <= np.pi + 1e-12
    assert np.allclose(Rotation.from_rotvec(found).as_matrix(), Rotation.from_rotvec(vector).as_matrix(), atol=1e-12)


# ---- lever arms ----------------------------------------------------------------------------------------------------


def test_a_point_on_a_turntable() -> None:
    """ω = 3 + 2 t about z, 0.5 m out: tangential 2·0.5 m/s², centripetal ω²·0.5 m/s²."""
    time = np.array([0.0, 1.0])
    zero, rate = np.zeros((2, 3)), np.array([[0.0, 0.0, 3.0], [0.0, 0.0, 5.0]])
    quat = turns(2, [0.0, 4.0]).as_quat()
    turning = np.tile([0.0, 0.0, 2.0], (2, 1))
    out = at_mount(BodyState(time, zero, quat, zero, rate, zero, turning), Pose((0.5, 0, 1), rpy_deg=(0, 0, 90)))
    assert out.xyz[0] == pytest.approx([0.5, 0.0, 1.0])
    assert out.velocity[0] == pytest.approx([0.0, 1.5, 0.0])
    assert out.acceleration[0] == pytest.approx([-4.5, 1.0, 0.0])
    in_body = quat_rotate(quat_conjugate(quat[1]), out.acceleration[1])
    assert in_body == pytest.approx([-12.5, 1.0, 0.0])
    assert out.angular_velocity == pytest.approx(rate)


def test_a_mount_turns_rates_into_its_own_frame() -> None:
    zero = np.zeros((1, 3))
    rate, change = np.array([[0.1, 0.2, 0.3]]), np.array([[1.0, 2.0, 3.0]])
    state = BodyState(np.zeros(1), zero, np.array([[0.0, 0.0, 0.0, 1.0]]), zero, rate, zero, change)
    out = at_mount(state, Pose(rpy_deg=(0, 0, 90)))
    assert out.angular_velocity[0] == pytest.approx([0.2, -0.1, 0.3])
    assert out.angular_acceleration[0] == pytest.approx([2.0, -1.0, 3.0])
    assert Pose(out.xyz[0], out.quat_xyzw[0]).rpy_deg == pytest.approx([0, 0, 90])


def test_lever_arms_agree_with_differences_of_the_mounted_pose() -> None:
    mount = Pose((0.7, -1.2, 0.4), rpy_deg=(15, -40, 110))
    exact, differences = at_mount(Swing().expected(TIMES), mount), state_of(Mounted(Swing(), mount), TIMES)
    for name in ("xyz", "velocity", "acceleration", "angular_velocity", "angular_acceleration"):
        assert largest(getattr(exact, name), getattr(differences, name)) < 1e-7, name
    assert np.abs(np.sum(exact.quat_xyzw * differences.quat_xyzw, axis=1)) == pytest.approx(np.ones(len(TIMES)))


def test_mounting_in_two_steps_is_mounting_once() -> None:
    a, b = Pose((1, 2, 3), rpy_deg=(10, 20, 30)), Pose((-0.5, 0.2, 0.1), rpy_deg=(-60, 5, 170))
    state = Swing().expected(TIMES)
    once, twice = at_mount(state, a @ b), at_mount(at_mount(state, a), b)
    assert largest(once.acceleration, twice.acceleration) < 1e-12
    assert largest(once.angular_acceleration, twice.angular_acceleration) < 1e-13


# ---- the record ----------------------------------------------------------------------------------------------------


def arrays(n: int = 2) -> dict[str, Any]:
    names = ("xyz", "velocity", "angular_velocity", "acceleration", "angular_acceleration")
    quat = np.tile([0.0, 0.0, 0.0, 1.0], (n, 1))
    return {"time": np.arange(float(n)), "quat_xyzw": quat, **{name: np.zeros((n, 3)) for name in names}}


def test_states_are_read_only_and_leave_the_callers_arrays_alone() -> None:
    given = arrays()
    state = BodyState(**given)
    assert len(state) == 2
    assert len(BodyState(**arrays(0))) == 0
    with pytest.raises(ValueError, match="read-only"):
        state.xyz[0] = 1.0
    given["xyz"][0] = 1.0
    with pytest.raises(AttributeError):
        state.xyz = given["xyz"]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"xyz": np.zeros((3, 3))}, r"xyz must have shape \(2, 3\), got \(3, 3\)"),
        ({"time": np.zeros((2, 1))}, r"time must have shape \(2,\), got \(2, 1\)"),
        ({"quat_xyzw": np.zeros((2, 3))}, r"quat_xyzw must have shape \(2, 4\)"),
        ({"velocity": np.full((2, 3), np.nan)}, "velocity must be finite, got nan"),
        ({"acceleration": np.full((2, 3), np.inf)}, "acceleration must be finite, got inf"),
        ({"quat_xyzw": np.full((2, 4), 0.6)}, "quat_xyzw must be unit quaternions, got one of length 1.2"),
    ],
)
def test_bad_states_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=f"body state: {words}"):
        BodyState(**{**arrays(), **change})


@pytest.mark.parametrize(
    ("times", "words"),
    [(3.0, "list of numbers"), ([np.nan], "finite, got nan"), ([[1.0]], "list of numbers"), (["x"], "must be numbers")],
)
def test_bad_times_are_refused(times: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=f"motion: times must be .*{words}|motion: times {words}"):
        state_of(Fixed(Pose()), times)
