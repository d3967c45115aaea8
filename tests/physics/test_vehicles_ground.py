"""Ground vehicles against closed forms: straight lines, spot turns, arcs, steady circles, and the tyres' limit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parhelion.core.pose import Pose
from parhelion.motion.sea_spectrum import GRAVITY_M_S2 as G
from parhelion.motion.vehicles import Car, DifferentialDrive, DriveCommand, SteerCommand, vehicle_sheet
from parhelion.motion.vehicles.ground import tyre_force, understeer_gradient
from parhelion.motion.vehicles.sheets import CarConfig, DifferentialConfig


def robot(name: str = "clearpath/husky", **changes: Any) -> DifferentialDrive:
    sheet = vehicle_sheet(name)
    assert isinstance(sheet, DifferentialConfig)
    return DifferentialDrive(sheet.model_copy(update=changes))


def car(**changes: Any) -> Car:
    sheet = vehicle_sheet("bmw/320i")
    assert isinstance(sheet, CarConfig)
    return Car(sheet.model_copy(update=changes))


def run(vehicle: DifferentialDrive | Car, command: Any, seconds: float, dt: float = 0.01) -> None:
    for _ in range(round(seconds / dt)):
        vehicle.step(command, dt)


# ---- differential drive --------------------------------------------------------------------------------------------


def test_husky_drives_straight() -> None:
    husky = robot()
    run(husky, DriveCommand(1.0), 10.0)
    # 1/3 s to reach 1 m/s at 3 m/s^2, 1/6 m on the way.
    assert husky.xyz[0] == pytest.approx(1.0 / 6.0 + 10.0 - 1.0 / 3.0, abs=1e-12)
    assert husky.xyz[1:] == (0.0, 0.0)
    assert husky.yaw_rad == 0.0
    state = husky.state()
    np.testing.assert_array_equal(state.velocity, [[1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(state.acceleration, [[0.0, 0.0, 0.0]])


def test_husky_turns_on_the_spot() -> None:
    husky = robot()
    husky.reset(Pose((3.0, -2.0, 0.5)))
    run(husky, DriveCommand(0.0, 1.5), 4.0)
    turned = 1.5 * 4.0 - 0.5 * 1.5**2 / 6.0  # 6 rad/s^2 until 1.5 rad/s
    assert husky.xyz == (3.0, -2.0, 0.5)
    assert husky.yaw_rad == pytest.approx(math.remainder(turned, 2 * math.pi), abs=1e-12)


def test_a_moving_robot_drives_an_exact_circle() -> None:
    husky = robot(max_yaw_acceleration_rad_s2=1e9)
    husky.reset(speed_m_s=0.8)
    run(husky, DriveCommand(0.8, 0.5), 2 * math.pi / 0.5, dt=2 * math.pi / 0.5 / 500)
    np.testing.assert_allclose(husky.xyz, 0.0, atol=1e-9)  # back at its start
    run(husky, DriveCommand(0.8, 0.5), math.pi / 0.5, dt=math.pi / 0.5 / 100)
    np.testing.assert_allclose(husky.xyz, (0.0, 2 * 0.8 / 0.5, 0.0), atol=1e-9)  # opposite: a diameter away
    (acceleration,) = husky.state().acceleration
    np.testing.assert_allclose(acceleration, (0.0, -0.8 * 0.5, 0.0), atol=1e-9)  # centripetal


@settings(max_examples=25)
@given(st.floats(-1.5, 1.5), st.floats(-3.0, 3.0), st.sampled_from([0.003, 0.02, 0.1]))
def test_the_way_does_not_depend_on_the_step(speed: float, turn: float, dt: float) -> None:
    fine, coarse = robot(), robot()
    for target in (DriveCommand(speed, turn), DriveCommand(-0.5, 0.3)):
        run(fine, target, 1.2, dt=0.001)
        run(coarse, target, 1.2, dt=dt)
    np.testing.assert_allclose(coarse.xyz, fine.xyz, atol=1e-9)
    np.testing.assert_allclose(coarse.quat_xyzw, fine.quat_xyzw, atol=1e-12)


def test_limits_of_speed_and_acceleration_hold() -> None:
    p3dx = robot("pioneer/p3-dx")
    rows = []
    for _ in range(500):
        p3dx.step(DriveCommand(5.0, -10.0), 0.02)
        rows.append(p3dx.row())
    states = np.array(rows)
    speed, turn = np.linalg.norm(states[:, 8:11], axis=1), states[:, 13]
    assert speed.max() == pytest.approx(1.2, abs=1e-12)
    assert turn.min() == pytest.approx(-5.236, abs=1e-12)
    assert np.diff(speed).max() <= 0.3 * 0.02 + 1e-12
    assert np.abs(np.diff(turn)).max() <= 1.745 * 0.02 + 1e-12


def test_a_wheel_at_its_limit_keeps_the_curvature() -> None:
    husky = robot(max_wheel_speed_m_s=1.0)
    run(husky, DriveCommand(1.0, 1.0), 3.0)
    state = husky.state()
    speed, turn = float(np.linalg.norm(state.velocity)), float(state.angular_velocity[0, 2])
    assert speed == pytest.approx(turn, rel=1e-12)
    assert speed + turn * husky.config.effective_track / 2 == pytest.approx(1.0, rel=1e-12)
    assert max(husky.wheel_rates_rad_s) == pytest.approx(1.0 / husky.config.wheel_radius_m, rel=1e-12)


def test_wheels_turn_as_the_track_asks() -> None:
    husky = robot()
    run(husky, DriveCommand(0.5, 0.4), 2.0)
    left, right = husky.wheel_rates_rad_s
    assert (left + right) / 2 * 0.1651 == pytest.approx(0.5, rel=1e-12)
    assert (right - left) * 0.1651 / (1.875 * 0.5708) == pytest.approx(0.4, rel=1e-4)


def test_slip_takes_its_share() -> None:
    slipping, firm = robot(forward_slip=0.1, turn_slip=0.25), robot()
    for one in (slipping, firm):
        run(one, DriveCommand(1.0), 5.0)
    assert slipping.xyz[0] == pytest.approx(0.9 * firm.xyz[0], rel=1e-12)
    assert slipping.wheel_rates_rad_s == firm.wheel_rates_rad_s  # encoders do not see it
    for one in (slipping, firm):
        one.reset()
        run(one, DriveCommand(0.0, 0.5), 2.0)
    assert slipping.yaw_rad == pytest.approx(0.75 * firm.yaw_rad, rel=1e-12)
    assert slipping.state().angular_velocity[0, 2] == pytest.approx(0.375)


def test_a_slope_is_a_tilted_plane() -> None:
    husky = robot()
    husky.reset(Pose((0, 0, 1), rpy_deg=(0, -10, 90)))  # uphill along +y
    run(husky, DriveCommand(1.0), 3.0)
    way = 3.0 - 1.0 / 6.0
    rise = math.radians(10)
    np.testing.assert_allclose(husky.xyz, (0.0, way * math.cos(rise), 1.0 + way * math.sin(rise)), atol=1e-12)
    np.testing.assert_allclose(husky.state().velocity[0], (0.0, math.cos(rise), math.sin(rise)), atol=1e-12)


# ---- car -----------------------------------------------------------------------------------------------------------


def circle(one: Car, speed: float, steering: float) -> tuple[float, float, float]:
    """Speed, turn rate and side slip speed of the steady circle."""
    one.reset(speed_m_s=speed)
    run(one, SteerCommand(speed, steering), 12.0)
    before = one.row()
    run(one, SteerCommand(speed, steering), 0.5)
    after = one.row()
    assert after[13] == pytest.approx(before[13], rel=1e-5), "steady"
    forward = one.speed_m_s
    return forward, after[13], math.sqrt(max(sum(v * v for v in after[8:11]) - forward**2, 0.0))


@pytest.mark.parametrize(("front", "rear"), [(20.9, 20.9), (15.0, 22.0), (22.0, 17.0)])
@pytest.mark.parametrize("speed", [6.0, 12.0, 20.0])
def test_a_steady_circle_has_the_radius_of_the_understeer_gradient(front: float, rear: float, speed: float) -> None:
    one = car(front_stiffness_1_rad=front, rear_stiffness_1_rad=rear)
    gradient = understeer_gradient(one.config)
    expected = 1.0 / (one.config.friction * G) * (1.0 / front - 1.0 / rear)
    assert gradient == pytest.approx(expected, abs=1e-15)
    steering = 0.02
    forward, turn, _ = circle(one, speed, steering)
    assert forward == pytest.approx(speed, rel=2e-3)
    radius = (one.wheelbase_m + gradient * forward**2) / steering
    assert forward / turn == pytest.approx(radius, rel=0.01)  # closed form for small angles


def test_the_cars_slip_angle_is_that_of_the_bicycle() -> None:
    """beta = b/R - a m v^2 / (C_r L R): the rear tyres' slip angle turns the car's nose inward at speed."""
    one = car()
    speed, steering = 15.0, 0.02
    forward, turn, aside = circle(one, speed, steering)
    sheet = one.config
    rear = sheet.friction * sheet.rear_stiffness_1_rad * sheet.mass_kg * G * sheet.front_axle_m / one.wheelbase_m
    radius = forward / turn
    load = sheet.mass_kg * forward**2 / radius * sheet.front_axle_m / one.wheelbase_m
    assert aside / forward == pytest.approx(abs(sheet.rear_axle_m / radius - load / rear), rel=0.02)


def test_driving_by_turn_rate_reaches_it() -> None:
    one = car(front_stiffness_1_rad=15.0)
    one.reset(speed_m_s=12.0)
    run(one, DriveCommand(12.0, 0.25), 8.0)
    assert one.state().angular_velocity[0, 2] == pytest.approx(0.25, rel=0.01)
    assert one.speed_m_s == pytest.approx(12.0, rel=1e-3)


@pytest.mark.parametrize("speed", [0.8, -3.0])
def test_slow_and_reversing_wheels_roll(speed: float) -> None:
    one = car()
    one.reset(speed_m_s=speed)
    steering = 0.4
    run(one, SteerCommand(speed, steering), 5.0)
    assert one.state().angular_velocity[0, 2] == pytest.approx(speed * math.tan(steering) / one.wheelbase_m, rel=1e-4)
    velocity = np.linalg.norm(one.state().velocity)
    assert velocity == pytest.approx(
        abs(speed) * math.hypot(1.0, 1.4227 * math.tan(steering) / one.wheelbase_m), rel=1e-3
    )


def test_rolling_and_sliding_agree_where_they_meet() -> None:
    """At 3 m/s and a wide circle, the dynamic bicycle drives as the kinematic one does."""
    one = car()
    _, turn, _ = circle(one, 3.0, 0.1)
    assert turn == pytest.approx(3.0 * math.tan(0.1) / one.wheelbase_m, rel=0.01)


def test_tyres_never_give_more_than_friction() -> None:
    one = car()
    one.reset(speed_m_s=30.0)
    largest = 0.0
    for n in range(600):
        one.step(SteerCommand(30.0 if n < 300 else 5.0, 0.3 if n % 200 < 100 else -0.3), 0.01)
        acceleration = one.state().acceleration[0]
        largest = max(largest, float(np.linalg.norm(acceleration)))
        (front, aside), (rear, back) = one.tyre_forces_n
        total = math.hypot(front, aside) + math.hypot(rear, back)
        assert total <= one.config.friction * one.config.mass_kg * G * (1 + 1e-9)
    assert largest <= one.config.friction * G * (1 + 1e-9)
    assert largest > 0.9 * one.config.friction * G


@given(st.floats(-1.5, 1.5), st.floats(-2e4, 2e4), st.floats(0.0, 1e4))
def test_tyre_force_is_linear_then_on_the_circle(slip: float, pull: float, load: float) -> None:
    along, across = tyre_force(slip, pull, load, 0.9, 20.0)
    limit = 0.9 * load
    asked = math.hypot(pull, 20.0 * limit * slip)
    if asked <= limit:
        assert (along, across) == (pull, 20.0 * limit * slip)
    else:
        assert math.hypot(along, across) == pytest.approx(limit, rel=1e-9, abs=1e-9)
        assert along * 20.0 * limit * slip == pytest.approx(across * pull, rel=1e-9, abs=1e-3)  # same direction


def test_a_fast_car_slides_wide_of_its_wheels() -> None:
    one = car()
    one.reset(speed_m_s=25.0)
    run(one, SteerCommand(25.0, 0.15), 4.0)
    turn = abs(float(one.state().angular_velocity[0, 2]))
    assert 25.0**2 / one.wheelbase_m * 0.15 > 3.0 * G  # what the wheels ask for
    assert turn * one.speed_m_s <= one.config.friction * G * 1.02  # what the road gives


def test_a_spun_car_slides_to_a_stop() -> None:
    one = car()
    one.reset(speed_m_s=30.0)
    run(one, SteerCommand(30.0, 0.4), 1.5)
    spun = False
    for _ in range(800):
        one.step(SteerCommand(0.0, -0.4), 0.01)
        spun |= abs(one.speed_m_s) < 0.5 * float(np.linalg.norm(one.state().velocity))
        assert float(np.linalg.norm(one.state().acceleration)) <= one.config.friction * G * (1 + 1e-9)
    assert spun
    assert float(np.linalg.norm(one.state().velocity)) < 0.01


def test_braking_distance() -> None:
    one = car(speed_lag_s=0.05)
    one.reset(speed_m_s=25.0)
    start = one.xyz[0]
    for _ in range(1000):
        one.step(SteerCommand(0.0, 0.0), 0.01)
    assert one.xyz[0] - start == pytest.approx(25.0**2 / (2 * 9.0), rel=0.01)
    assert abs(one.speed_m_s) < 1e-6
    assert one.xyz[1] == 0.0


def test_power_limits_the_acceleration() -> None:
    """dv/dt = a up to v_s, then a v_s/v: v^2 grows by 2 a v_s a second."""
    one = car(speed_lag_s=0.05)
    run(one, SteerCommand(50.0, 0.0), 10.0)
    first = 7.319 / 5.0
    assert one.speed_m_s == pytest.approx(math.sqrt(7.319**2 + 2 * 5.0 * 7.319 * (10.0 - first)), rel=2e-3)


def test_steering_keeps_its_rate_and_its_stop() -> None:
    one = car()
    angles = []
    for _ in range(400):
        one.step(SteerCommand(1.0, 2.0), 0.01)
        angles.append(one.steering_rad)
    assert np.diff(angles).max() <= 0.4 * 0.01 + 1e-12
    assert angles[-1] == pytest.approx(one.config.max_steering_rad, abs=1e-6)
