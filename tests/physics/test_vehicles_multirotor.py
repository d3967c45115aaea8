"""The multirotor against closed forms: hover, free fall, drag, rotor lag, steps, and torques of its rotors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, quat_rotate
from parhelion.motion.sea_spectrum import GRAVITY_M_S2 as G
from parhelion.motion.vehicles import MotorsOff, Multirotor, PositionCommand, VelocityCommand, vehicle_sheet
from parhelion.motion.vehicles.sheets import MultirotorConfig, Rotor


def quad(**changes: Any) -> Multirotor:
    sheet = vehicle_sheet("asctec/hummingbird")
    assert isinstance(sheet, MultirotorConfig)
    return Multirotor(sheet.model_copy(update=changes))


def rows(one: Multirotor, command: Any, seconds: float, dt: float = 0.01) -> Floats:
    found = [one.row()]
    for _ in range(round(seconds / dt)):
        one.step(command, dt)
        found.append(one.row())
    return np.array(found)


def test_hover_speed_by_hand() -> None:
    one = quad()
    assert one.hover_speed_rad_s == pytest.approx(math.sqrt(0.716 * G / (4 * 8.54858e-6)), rel=1e-12)
    assert one.hover_speed_rad_s == pytest.approx(453.2, abs=0.5)


def test_it_hovers_where_it_is() -> None:
    one = quad()
    one.reset(Pose((1.0, -2.0, 5.0), rpy_deg=(0, 0, 50)))
    found = rows(one, PositionCommand((1.0, -2.0, 5.0)), 5.0)
    np.testing.assert_allclose(found[:, 1:4], np.tile((1.0, -2.0, 5.0), (len(found), 1)), atol=1e-12)
    np.testing.assert_allclose(found[:, 8:20], 0.0, atol=1e-9)
    assert one.yaw_rad == pytest.approx(math.radians(50), abs=1e-12)
    np.testing.assert_allclose(one.rotor_speeds_rad_s, one.hover_speed_rad_s, rtol=1e-12)


def test_free_fall_with_motors_off() -> None:
    one = quad(body_drag_n_s2_m2=0.0)
    one.reset(Pose((0, 0, 100)), velocity_m_s=(3.0, -1.0, 2.0), rotor_speed_rad_s=0.0)
    found = rows(one, MotorsOff(), 3.0)
    t = found[:, 0:1]
    expected = np.array([0.0, 0.0, 100.0]) + t * [3.0, -1.0, 2.0] + 0.5 * t**2 * [0.0, 0.0, -G]
    np.testing.assert_allclose(found[:, 1:4], expected, atol=1e-10)
    np.testing.assert_allclose(found[:, 14:17], np.tile((0.0, 0.0, -G), (len(found), 1)), atol=1e-12)


def test_falling_with_drag_ends_at_the_terminal_speed() -> None:
    one = quad()
    one.reset(Pose((0, 0, 1000)), rotor_speed_rad_s=0.0)
    found = rows(one, MotorsOff(), 8.0)
    terminal = math.sqrt(0.716 * G / 0.01)
    expected = -terminal * np.tanh(G * found[:, 0] / terminal)
    np.testing.assert_allclose(found[:, 10], expected, rtol=1e-8, atol=1e-9)


def test_rotors_run_down_by_their_time_constant() -> None:
    one = quad()
    rows(one, MotorsOff(), 0.05)
    np.testing.assert_allclose(one.rotor_speeds_rad_s, one.hover_speed_rad_s * math.exp(-0.05 / 0.025), rtol=1e-9)


def test_a_position_step_is_reached_without_overshoot() -> None:
    one = quad()
    one.reset(Pose((0, 0, 2)))
    found = rows(one, PositionCommand((3.0, 0.0, 3.0), yaw_rad=1.0), 8.0)
    np.testing.assert_allclose(found[-1, 1:4], (3.0, 0.0, 3.0), atol=0.005)
    assert one.yaw_rad == pytest.approx(1.0, abs=1e-3)
    assert found[:, 1].max() < 3.0 * 1.01
    assert found[:, 3].max() < 2.0 + 1.0 * 1.05
    settled = found[np.abs(found[:, 1] - 3.0) > 0.15, 0].max()  # last time outside of 5 %
    assert 2.0 < settled < 5.0
    tilt = np.arccos(1.0 - 2.0 * (found[:, 4] ** 2 + found[:, 5] ** 2))
    assert tilt.max() < one.config.control.max_tilt_rad + 0.15


def test_velocity_is_reached_and_held_against_drag() -> None:
    one = quad()
    one.reset(Pose((0, 0, 20)))
    found = rows(one, VelocityCommand((4.0, -3.0, 1.0)), 10.0)
    np.testing.assert_allclose(found[-1, 8:11], (4.0, -3.0, 1.0), atol=1e-3)
    # It leans into the wind of its own speed: thrust aside makes up for the drag.
    blade = one.config.rotor_drag_n_s2_m * sum(one.rotor_speeds_rad_s) + 0.01 * math.sqrt(26.0)
    lean = math.acos(1.0 - 2.0 * (found[-1, 4] ** 2 + found[-1, 5] ** 2))
    assert math.tan(lean) == pytest.approx(blade * 5.0 / (0.716 * G), rel=0.1)


def test_limits_of_speed_and_climb_hold() -> None:
    one = quad()
    one.reset(Pose((0, 0, 0)))
    found = rows(one, PositionCommand((500.0, 0.0, 200.0)), 12.0)
    assert found[:, 8].max() == pytest.approx(8.0, rel=0.01)
    assert found[:, 10].max() == pytest.approx(3.0, rel=0.03)
    slow = quad()
    found = rows(slow, PositionCommand((50.0, 0.0, 0.0), speed_m_s=1.5), 10.0)
    assert found[:, 8].max() == pytest.approx(1.5, rel=0.02)


def test_torques_of_unequal_rotors() -> None:
    """The front rotor (spins clockwise) faster: nose up, and the body turns against it, counter-clockwise."""
    one = quad()
    one._rotors = [one.hover_speed_rad_s * f for f in (1.05, 1.0, 1.0, 1.0)]
    extra = 8.54858e-6 * one.hover_speed_rad_s**2 * (1.05**2 - 1.0)
    (spin,) = one.state().angular_acceleration
    np.testing.assert_allclose(spin, (0.0, -0.17 * extra / 0.007, 0.016 * extra / 0.012), rtol=1e-9, atol=1e-12)
    assert one.state().acceleration[0, 2] == pytest.approx(extra / 0.716, rel=1e-9)


def test_free_rotation_keeps_momentum_and_energy() -> None:
    """Euler's equations without torque: angular momentum in the world and rotational energy stay."""
    one = quad(inertia_kg_m2=(0.004, 0.009, 0.012), body_drag_n_s2_m2=0.0)
    one.reset(rotor_speed_rad_s=0.0)
    xyz, velocity, quat, _ = one._body
    one._body = (xyz, velocity, quat, (0.3, 6.0, 0.2))  # about the middle axis: it tumbles
    found = rows(one, MotorsOff(), 4.0)
    inertia = np.array((0.004, 0.009, 0.012))
    momentum = quat_rotate(found[:, 4:8], found[:, 11:14] * inertia)
    np.testing.assert_allclose(momentum, np.tile(momentum[0], (len(found), 1)), atol=1e-7)
    energy = np.sum(inertia * found[:, 11:14] ** 2, axis=1)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-6)
    assert found[:, 12].min() < -5.0  # the tumble is there


@settings(max_examples=5, deadline=None)
@given(st.tuples(*([st.floats(-0.9, 0.9)] * 3)), st.floats(-3.0, 3.0))
def test_it_rights_itself(tilt: tuple[float, float, float], yaw: float) -> None:
    one = quad()
    one.reset(Pose((0, 0, 50), rpy_deg=np.degrees(tilt).tolist()))
    found = rows(one, PositionCommand((0.0, 0.0, 50.0), yaw_rad=yaw), 8.0, dt=0.02)
    np.testing.assert_allclose(found[-1, 1:4], (0.0, 0.0, 50.0), atol=0.05)
    np.testing.assert_allclose(found[-1, 11:14], 0.0, atol=0.01)
    assert math.remainder(one.yaw_rad - yaw, 2 * math.pi) == pytest.approx(0.0, abs=0.01)


def test_six_rotors_fly_too() -> None:
    angles = np.radians(np.arange(6) * 60.0)
    rotors = [
        Rotor(x_m=0.2 * math.cos(a), y_m=0.2 * math.sin(a), spin=1 if n % 2 else -1) for n, a in enumerate(angles)
    ]
    one = quad(rotors=rotors)
    found = rows(one, PositionCommand((1.0, 1.0, 1.0), yaw_rad=0.5), 8.0)
    np.testing.assert_allclose(found[-1, 1:4], 1.0, atol=0.005)
    assert one.yaw_rad == pytest.approx(0.5, abs=1e-3)


def test_bad_multirotors_are_named() -> None:
    sheet = quad().config
    in_line = [Rotor(x_m=0.1 * n, y_m=0.0, spin=1) for n in range(4)]
    with pytest.raises(ConfigError, match="must allow roll, pitch and yaw"):
        Multirotor(sheet.model_copy(update={"rotors": in_line}))
    with pytest.raises(ConfigError, match="rotor_speed_rad_s: must be from 0 to 838, got nan"):
        quad().reset(rotor_speed_rad_s=math.nan)
    with pytest.raises(ConfigError, match="velocity command: velocity_m_s: must be 3 finite numbers"):
        VelocityCommand((0.0, math.inf, 0.0))
