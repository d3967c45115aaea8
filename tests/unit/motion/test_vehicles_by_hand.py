"""Single states of vehicles against their equations, written independently with NumPy."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.motion.vehicles import (
    Car,
    DriveCommand,
    MotorsOff,
    Multirotor,
    PositionCommand,
    SteerCommand,
    VelocityCommand,
    vehicle_sheet,
)
from parhelion.motion.vehicles.base import LONGEST_STEP_S
from parhelion.motion.vehicles.sheets import CarConfig, MultirotorConfig

G = 9.80665


def car(**changes: Any) -> Car:
    sheet = vehicle_sheet("bmw/320i")
    assert isinstance(sheet, CarConfig)
    return Car(sheet.model_copy(update=changes))


def quad(**changes: Any) -> Multirotor:
    sheet = vehicle_sheet("asctec/hummingbird")
    assert isinstance(sheet, MultirotorConfig)
    return Multirotor(sheet.model_copy(update=changes))


# ---- what all have in common -----------------------------------------------------------------------------------------


def test_a_step_is_cut_into_equal_parts_that_all_hold_the_command() -> None:
    """20 ms are four parts of 5 ms, 21 ms five of 4.2 ms, and one longer step is as many short ones."""
    for dt, parts in ((0.02, 4), (0.021, 5), (0.005, 1), (0.0051, 2), (0.001, 1)):
        one = car()
        one.reset(time=3.0)
        seen: list[tuple[float, float]] = []
        one._advance = lambda target, part, one=one, seen=seen: seen.append((one.time, part))  # type: ignore[method-assign]
        one.step(DriveCommand(1.0), dt)
        assert [part for _, part in seen] == pytest.approx([dt / parts] * parts)
        assert [time for time, _ in seen] == pytest.approx([3.0 + k * dt / parts for k in range(parts)])
        assert one.time == pytest.approx(3.0 + dt)
    assert LONGEST_STEP_S == 10.0
    for dt in (0.0, -0.1, 10.1, math.nan):
        with pytest.raises(ConfigError, match="dt"):
            car().step(DriveCommand(1.0), dt)
    husky = car()
    husky.step(DriveCommand(0.0), 10.0)


def test_a_state_on_a_tilted_plane() -> None:
    """Velocity and acceleration of the turning frame, in the world: a = R (u' - v w, v' + u w)."""
    one, pose = car(), Pose((1.0, -2.0, 3.0), rpy_deg=(10, -20, 130))
    one.reset(pose, time=4.0)
    one._x, one._y, one._psi = 2.0, 5.0, 0.7
    row = np.array(one._row((3.0, 0.4), (-0.5, 0.2), (0.6, -0.1)))
    turn = pose.rotation @ np.array([[math.cos(0.7), -math.sin(0.7), 0], [math.sin(0.7), math.cos(0.7), 0], [0, 0, 1]])
    assert row[0] == 4.0
    np.testing.assert_allclose(row[1:4], pose.xyz + pose.rotation @ [2.0, 5.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(Pose((0, 0, 0), row[4:8]).rotation, turn, atol=1e-12)
    np.testing.assert_allclose(row[8:11], turn @ [3.0, -0.5, 0.0], atol=1e-12)
    np.testing.assert_allclose(row[11:14], [0, 0, 0.6])
    np.testing.assert_allclose(row[14:17], turn @ [0.4 + 0.5 * 0.6, 0.2 + 3.0 * 0.6, 0.0], atol=1e-12)
    np.testing.assert_allclose(row[17:20], [0, 0, -0.1])
    state = one.state()
    assert state.time.tolist() == [4.0]
    assert one.yaw_rad == pytest.approx(math.atan2(turn[1, 0], turn[0, 0]))
    one.reset()
    assert (one.xyz, one.quat_xyzw, one.time) == ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), 0.0)


# ---- the car ---------------------------------------------------------------------------------------------------------


def bicycle(one: Car, u: float, v: float, r: float, delta: float, asked: float) -> np.ndarray:
    """Axle forces (front along, front across, rear along, rear across) of a dynamic bicycle, wheels' axes."""
    sheet = one.config
    a, b, m, h = sheet.front_axle_m, sheet.rear_axle_m, sheet.mass_kg, sheet.centre_of_mass_height_m
    load = np.array([m * (G * b - h * asked), m * (G * a + h * asked)]) / (a + b)
    front = np.array([[math.cos(delta), math.sin(delta)], [-math.sin(delta), math.cos(delta)]]) @ [u, v + a * r]
    slip = -np.array([math.atan2(front[1], abs(front[0])), math.atan2(v - b * r, abs(u))])
    limit = sheet.friction * load
    across = np.array([sheet.front_stiffness_1_rad, sheet.rear_stiffness_1_rad]) * limit * slip
    alone = np.clip(across[0], -limit[0], limit[0])
    pull = m * (asked - v * r) + alone * math.sin(delta)
    share = sheet.drive_front_share if pull > 0 else load[0] / load.sum()
    along = np.array([share, 1 - share]) * pull
    cut = np.minimum(1.0, limit / np.hypot(along, across))
    return np.stack([along * cut, across * cut], axis=1).ravel()


@pytest.mark.parametrize(
    ("u", "v", "r", "delta", "wanted"),
    [
        (15.0, 0.2, 0.1, 0.03, 16.0),
        (15.0, -0.3, 0.4, 0.08, 12.0),
        (30.0, 1.0, -0.2, -0.05, 30.0),
        (10.0, 6.0, 1.0, 0.3, 25.0),
        (3.0, 0.0, 0.0, -0.4, 0.0),
    ],
)
def test_forces_and_motion_of_the_car_are_the_bicycles(
    u: float, v: float, r: float, delta: float, wanted: float
) -> None:
    """Forces, and m (u' - v r), m (v' + u r), I r' from them in the body's axes; speeds are held by the driver."""
    one = car()
    sheet = one.config
    one.reset(speed_m_s=u)
    one._u, one._v, one._r, one._steer, one._asked = u, v, r, delta, (wanted, delta)
    asked = (wanted - u) / sheet.speed_lag_s
    if asked < 0.0:
        asked = max(asked, -sheet.max_braking_m_s2)
    else:
        asked = min(asked, sheet.max_acceleration_m_s2 * min(1.0, sheet.full_power_speed_m_s / u))
    fx, fy, rx, ry = bicycle(one, u, v, r, delta, asked)
    assert np.ravel(one.tyre_forces_n) == pytest.approx([fx, fy, rx, ry], rel=1e-9, abs=1e-9)
    body_x = fx * math.cos(delta) - fy * math.sin(delta) + rx
    front_y = fx * math.sin(delta) + fy * math.cos(delta)
    m, a, b = sheet.mass_kg, sheet.front_axle_m, sheet.rear_axle_m
    state = one.state()
    # Acceleration in the world, the car pointing along x: force over mass, whatever the frame does.
    assert state.acceleration[0] == pytest.approx([body_x / m, (front_y + ry) / m, 0.0], rel=1e-9, abs=1e-9)
    turn = (a * front_y - b * ry) / sheet.yaw_inertia_kg_m2
    assert state.angular_acceleration[0] == pytest.approx([0.0, 0.0, turn], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("speed", "share"), [(0.5, 0.0), (1.0, 0.0), (1.25, 0.25), (1.5, 0.5), (2.0, 1.0), (9.0, 1.0)])
def test_tyres_take_over_between_one_and_two_metres_a_second(speed: float, share: float) -> None:
    one = car()
    assert one._sliding(speed, 0.0, 0.0) == pytest.approx(share)
    # Aside as well: what counts there is how far it is from where the rolling wheels would go.
    roll = one.config.rear_axle_m * math.tan(0.2) / one.wheelbase_m
    assert one._sliding(0.5, 0.5 * roll + speed, 0.2) == pytest.approx(share)
    assert one._sliding(-3.0, -3.0 * roll, 0.2) == 0.0


def test_rolling_wheels_lead_the_car_within_friction() -> None:
    """In 50 ms towards the kinematic bicycle, cut to friction times gravity, and to the tyres' greatest torque."""
    one = car()
    sheet, base = one.config, one.wheelbase_m
    u, v, r, delta = 0.8, 0.01, 0.02, 0.1
    turn = u * math.tan(delta) / base
    du, dv, dr = one._rolling(u, v, r, delta, 0.3)
    assert du == pytest.approx(0.3)
    assert dv == pytest.approx((turn * sheet.rear_axle_m - v) / 0.05)
    assert dr == pytest.approx((turn - r) / 0.05)
    du, dv, dr = one._rolling(0.0, 3.0, 2.0, 0.0, 0.0)
    most = sheet.friction * G
    pull, side = 0.0 - 3.0 * 2.0, -3.0 / 0.05
    size = math.hypot(pull, side)
    assert (du, dv) == pytest.approx((pull * most / size + 6.0, side * most / size))
    loads = sheet.mass_kg * G / base
    torque = sheet.friction * loads * 2 * sheet.front_axle_m * sheet.rear_axle_m
    assert dr == pytest.approx(-torque / sheet.yaw_inertia_kg_m2)


def test_steering_by_turn_rate_and_by_hand() -> None:
    one = car()
    most = one.config.max_steering_rad
    assert one._steering(SteerCommand(5.0, 0.2)) == 0.2
    assert one._steering(SteerCommand(5.0, 3.0)) == most
    assert one._steering(SteerCommand(5.0, -3.0)) == -most
    one._u = 12.0
    expected = math.atan(one.wheelbase_m * 0.3 / 12.0) + one.understeer * 12.0 * 0.3
    assert one._steering(DriveCommand(9.0, 0.3)) == pytest.approx(expected)
    # In reverse the wheels roll; slower than 1 m/s it steers as at 1 m/s of the speed asked for.
    one._u = -2.0
    assert one._steering(DriveCommand(-2.0, 0.3)) == pytest.approx(math.atan(one.wheelbase_m * 0.3 / -2.0))
    one._u = 0.4
    slow = math.atan(one.wheelbase_m * 0.1) + one.understeer * 0.1
    assert one._steering(DriveCommand(2.0, 0.1)) == pytest.approx(slow)
    assert one._steering(DriveCommand(-2.0, 0.1)) == pytest.approx(-math.atan(one.wheelbase_m * 0.1))


def test_acceleration_by_power_and_brakes() -> None:
    one = car()
    sheet = one.config
    assert one._acceleration(10.0, 10.1) == pytest.approx(0.1 / sheet.speed_lag_s)
    fast = 2.0 * sheet.full_power_speed_m_s
    assert one._acceleration(fast, fast + 1e3) == pytest.approx(0.5 * sheet.max_acceleration_m_s2)
    assert one._acceleration(1.0, 1e3) == pytest.approx(sheet.max_acceleration_m_s2)
    assert one._acceleration(20.0, 0.0) == -sheet.max_braking_m_s2
    assert one._acceleration(-2.0, 50.0) == sheet.max_braking_m_s2
    assert one._acceleration(-1.0, -1e3) == pytest.approx(-sheet.max_acceleration_m_s2)
    assert one.tyre_forces_n == ((0.0, 0.0), (0.0, 0.0))


def test_parts_of_a_step_are_of_fourth_order() -> None:
    """Into a bend while it speeds up: parts of 5 ms and of 2.5 ms differ by sixteen times as much as 2.5 ms and 1.25 ms
    do, or by less than rounding."""
    ends = []
    for part in (0.005, 0.0025, 0.00125):
        one = car()
        one.reset(speed_m_s=12.0)
        one._steer = 0.02
        for _ in range(round(0.1 / part)):
            one.step(SteerCommand(12.2, 0.021), part)
        ends.append(np.array([*one._now()]))
    first, second = (np.abs(a - b).max() for a, b in pairwise(ends))
    assert first < 1e-6
    assert second < first / 8.0 + 1e-12


# ---- the multirotor --------------------------------------------------------------------------------------------------


def test_forces_and_torques_of_rotors_by_hand() -> None:
    """Thrust k w^2 along z, torques by arms and by drag, gyroscopic torque, two drags, gravity: Newton and Euler."""
    one = quad()
    sheet, pose = one.config, Pose((1.0, 2.0, 3.0), rpy_deg=(10, -15, 40))
    velocity, turn = np.array([2.0, -1.0, 0.5]), np.array([0.4, -0.3, 0.2])
    one.reset(pose, time=1.5, velocity_m_s=velocity.tolist())
    speeds = [400.0, 450.0, 500.0, 420.0]
    one._rotors = list(speeds)
    one._body = (one._body[0], one._body[1], one._body[2], tuple(turn))  # type: ignore[assignment]
    row = np.array(one.row())
    lift = sheet.thrust_n_s2 * np.array(speeds) ** 2
    places = np.array([[rotor.x_m, rotor.y_m, 0.0] for rotor in sheet.rotors])
    spins = np.array([rotor.spin for rotor in sheet.rotors])
    torque = np.cross(places, np.array([0, 0, 1.0]) * lift[:, None]).sum(axis=0)
    torque[2] -= sheet.torque_to_thrust_m * (spins * lift).sum()
    inertia = np.array(sheet.inertia_kg_m2)
    through = pose.rotation.T @ velocity
    across = np.array([through[0], through[1], 0.0])
    drag = -sheet.rotor_drag_n_s2_m * sum(speeds) * across
    drag -= sheet.body_drag_n_s2_m2 * np.linalg.norm(through) * through
    force = pose.rotation @ (drag + np.array([0.0, 0.0, lift.sum()]))
    assert row[0] == 1.5
    np.testing.assert_allclose(row[1:4], [1.0, 2.0, 3.0])
    np.testing.assert_allclose(row[8:11], velocity)
    np.testing.assert_allclose(row[11:14], turn)
    np.testing.assert_allclose(row[14:17], force / sheet.mass_kg - [0, 0, G], rtol=1e-10)
    np.testing.assert_allclose(row[17:20], (torque - np.cross(turn, inertia * turn)) / inertia, rtol=1e-10)
    assert one.speed_m_s == pytest.approx(through[0])


def test_rotors_lag_by_their_time_constants() -> None:
    one = quad()
    sheet, start = one.config, one.hover_speed_rad_s
    up, down = 1.2 * start, 0.5 * start
    found = one._lagged([up, down, start, up], 0.01)
    rise, fall = math.exp(-0.01 / sheet.spin_up_s), math.exp(-0.01 / sheet.spin_down_s)
    expected = [up + (start - up) * rise, down + (start - down) * fall, start, up + (start - up) * rise]
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((1.0, -2.0, 0.5), (1.0, -2.0, 0.5)),
        ((30.0, 40.0, 0.0), "level"),
        ((0.0, 0.0, 99.0), "climb"),
        ((0.0, 0.0, -99.0), "sink"),
    ],
)
def test_speeds_are_cut_to_what_the_control_allows(asked: Any, expected: Any) -> None:
    one = quad()
    gains = one.config.control
    most, climb = gains.max_speed_m_s, min(gains.max_climb_m_s, gains.max_speed_m_s)
    limits = {"level": (0.6 * most, 0.8 * most, 0.0), "climb": (0, 0, climb), "sink": (0, 0, -climb)}
    wanted = limits[expected] if isinstance(expected, str) else expected
    assert one._velocity(VelocityCommand(asked)) == pytest.approx(wanted)
    # Towards a position: speed in proportion to the distance, up to the commanded speed.
    one.reset(Pose((1.0, 0.0, 0.0)))
    assert one._velocity(PositionCommand((1.5, 0.25, 0.1))) == pytest.approx(
        np.array([0.5, 0.25, 0.1]) * gains.position_1_s
    )
    slow = one._velocity(PositionCommand((1.0, 50.0, 50.0), speed_m_s=0.5))
    assert slow == pytest.approx((0.0, 0.5, 0.5))


def test_control_by_hand() -> None:
    """Velocity error to acceleration, drag made up for, tilt and climb limited; then thrust and torque (Lee 2010)."""
    one = quad()
    sheet, gains = one.config, one.config.control
    r = Pose(rpy_deg=(5, -8, 30)).rotation
    one.reset(Pose((0, 0, 0), rpy_deg=(5, -8, 30)), velocity_m_s=(0.5, 0.2, -0.1))
    flat = tuple(r.ravel().tolist())
    velocity, speeds = np.array([0.5, 0.2, -0.1]), 4 * one.hover_speed_rad_s
    through = r.T @ velocity
    drag = -sheet.rotor_drag_n_s2_m * speeds * np.array([through[0], through[1], 0.0])
    drag = r @ (drag - sheet.body_drag_n_s2_m2 * np.linalg.norm(through) * through)
    asked = np.array([0.7, 0.1, 0.0])
    expected = gains.velocity_1_s * (asked - velocity) - drag / sheet.mass_kg
    assert one._acceleration(tuple(asked), flat) == pytest.approx(expected)  # type: ignore[arg-type]
    # Far too much: level as far as the tilt allows, up or down by 0.7 g.
    x, y, z = one._acceleration((300.0, 400.0, 500.0), flat)  # type: ignore[arg-type]
    assert math.hypot(x, y) == pytest.approx(G * math.tan(gains.max_tilt_rad))
    assert z == pytest.approx(0.7 * G)
    assert one._acceleration((0.0, 0.0, -500.0), flat)[2] == pytest.approx(-0.7 * G)  # type: ignore[arg-type]
    # Torque: I w^2 (half the skew part of R^T R_wanted) - 2 I w turn + gyroscopic part.
    turn = np.array([0.3, -0.2, 0.1])
    one._body = (*one._body[:3], tuple(turn))  # type: ignore[assignment]
    one._yaw = 0.9
    pull = np.array([1.0, -2.0, 9.0])
    up = pull / np.linalg.norm(pull)
    left = np.cross(up, [math.cos(0.9), math.sin(0.9), 0.0])
    left /= np.linalg.norm(left)
    wanted = np.stack([np.cross(left, up), left, up], axis=1)
    skew = 0.5 * (r.T @ wanted - wanted.T @ r)
    missing = np.array([skew[2, 1], skew[0, 2], skew[1, 0]])
    inertia, rate = np.array(sheet.inertia_kg_m2), np.array([gains.attitude_rad_s] * 2 + [gains.yaw_rad_s])
    torque = inertia * (rate**2 * missing - 2.0 * rate * turn) + np.cross(turn, inertia * turn)
    assert one._torque(flat, tuple(pull)) == pytest.approx(torque)  # type: ignore[arg-type]


def test_mixing_gives_back_what_was_asked_for() -> None:
    """Rotor speeds for hover with a little torque: their thrusts add up to the weight, at the tilt that there is."""
    one = quad()
    one.reset(Pose((0, 0, 0), rpy_deg=(0, 0, 20)))
    assert one._control(PositionCommand((0.0, 0.0, 0.0))) == pytest.approx([one.hover_speed_rad_s] * 4)
    one._yaw += 0.01
    speeds = np.array(one._control(PositionCommand((0.0, 0.0, 0.0))))
    lift = one.config.thrust_n_s2 * speeds**2
    assert lift.sum() == pytest.approx(one.config.mass_kg * G)
    spins = np.array([rotor.spin for rotor in one.config.rotors])
    yaw = -one.config.torque_to_thrust_m * (spins * lift).sum()
    slow = one.config.control.yaw_rad_s
    assert yaw == pytest.approx(one.config.inertia_kg_m2[2] * slow**2 * math.sin(0.01), rel=1e-6)
    # Upside down it asks for no thrust; too much is cut.
    one.reset(Pose((0, 0, 0), rpy_deg=(180, 0, 0)))
    assert min(one._control(PositionCommand((0.0, 0.0, 0.0)))) == 0.0
    one.reset()
    assert max(one._control(VelocityCommand((0.0, 0.0, 1e3)))) <= one.config.max_rotor_speed_rad_s
    assert one._target(MotorsOff()) == MotorsOff()
    one._target(VelocityCommand((0.0, 0.0, 0.0), yaw_rad=0.4))
    assert one._yaw == 0.4
