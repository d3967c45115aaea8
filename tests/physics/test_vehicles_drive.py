"""Presets, driving and following: states that agree with each other, recordings, replays to the bit, and routes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, quat_conjugate, quat_multiply, quat_rotate
from parhelion.core.trajectory import Trajectory
from parhelion.motion.drivers import DrivenMotion, FlyAlong, Helm, PurePursuit, Route, drive, follow
from parhelion.motion.state import BodyState, Motion
from parhelion.motion.vehicles import (
    DriveCommand,
    MotorsOff,
    PositionCommand,
    SteerCommand,
    ThrustCommand,
    Vehicle,
    VelocityCommand,
    vehicle,
    vehicle_names,
    vehicle_sheet,
)
from parhelion.motion.vehicles.library import FOLDER
from parhelion.motion.water import CalmWater, OceanWater

COMMANDS: dict[str, Any] = {
    "clearpath/husky": DriveCommand(0.9, 0.4),
    "pioneer/p3-dx": DriveCommand(0.6, -0.5),
    "bmw/320i": SteerCommand(14.0, 0.05),
    "amgeneral/hmmwv": SteerCommand(12.0, -0.05),
    "agreenculture/ceol": DriveCommand(0.8, 0.2),
    "asctec/hummingbird": VelocityCommand((2.0, 1.0, 0.5), yaw_rad=0.8),
    "dlr/aurora": ThrustCommand(500.0, 300.0, 0.2),
}
SQUARE = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]


def built(name: str) -> Vehicle:
    if name == "dlr/aurora":
        return vehicle(name, water=OceanWater(7.0, 5e3, seed=3))
    return vehicle(name)


def drifting(name: str, duration: float = 2.0, dt: float = 0.01) -> DrivenMotion:
    one = built(name)
    one.reset(Pose((2.0, -1.0, 3.0), rpy_deg=(0, 0, 25)))
    return drive(one, COMMANDS[name], duration, dt)


# ---- presets -------------------------------------------------------------------------------------------------------


def test_presets_are_those_of_the_tests() -> None:
    assert vehicle_names() == sorted(COMMANDS)
    assert {file.suffix for file in FOLDER.rglob("*") if file.is_file()} == {".yaml"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_number_has_a_source_or_a_reason(name: str) -> None:
    sheet = vehicle_sheet(name)
    stated = [path for source in sheet.sources for path in source.covers] + list(sheet.assumed)
    given = sheet.model_fields_set - {"kind", "name", "sources", "assumed"}
    chassis = getattr(sheet, "chassis", None)
    if chassis is not None:
        given = given - {"chassis"} | {f"chassis.{field}" for field in chassis.model_fields_set}
    for path in stated:
        assert path in given | sheet.model_fields_set, f"{path} is sourced but not given"
    assert given <= set(stated)
    assert vehicle(name.upper()).name == sheet.name


def test_a_sheet_of_ones_own(tmp_path: Path) -> None:
    data = yaml.safe_load((FOLDER / "clearpath/husky.yaml").read_text(encoding="utf-8"))
    data["max_speed_m_s"] = 0.4
    file = tmp_path / "slow.yaml"
    file.write_text(yaml.safe_dump(data), encoding="utf-8")
    one = vehicle(file)
    motion = drive(one, DriveCommand(1.0), 2.0)
    assert np.linalg.norm(motion.recorded.velocity, axis=1).max() == pytest.approx(0.4, abs=1e-12)
    assert vehicle(vehicle_sheet(file)).name == one.name
    data["max_speed_m_s"] = -1.0
    file.write_text(yaml.safe_dump(data), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"slow.yaml: max_speed_m_s: expected a number above 0 .* m/s, got -1.0"):
        vehicle(file)
    file.write_text("kind: hovercraft\n", encoding="utf-8")
    with pytest.raises(
        ConfigError, match="kind: expected 'differential', 'car', 'multirotor' or 'vessel', got 'hovercraft'"
    ):
        vehicle(file)


def test_a_multirotor_that_cannot_lift_itself_is_refused(tmp_path: Path) -> None:
    data = yaml.safe_load((FOLDER / "asctec/hummingbird.yaml").read_text(encoding="utf-8"))
    file = tmp_path / "heavy.yaml"
    file.write_text(yaml.safe_dump({**data, "mass_kg": 10.0}), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"the rotors lift 24 N, less than the weight of 98.1 N"):
        vehicle(file)


# ---- states --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_a_state_agrees_with_its_derivatives(name: str) -> None:
    """Central differences over 2 ms of the recorded drive: velocity, turn rate and both accelerations."""
    dt = 0.001
    state = drifting(name, 0.6, dt).recorded
    inner = slice(1, -1)
    velocity = (state.xyz[2:] - state.xyz[:-2]) / (2 * dt)
    acceleration = (state.velocity[2:] - state.velocity[:-2]) / (2 * dt)
    turned = quat_multiply(quat_conjugate(state.quat_xyzw[:-2]), state.quat_xyzw[2:])
    rate = 2.0 * np.sign(turned[:, 3:]) * turned[:, :3] / (2 * dt)
    spin = (state.angular_velocity[2:] - state.angular_velocity[:-2]) / (2 * dt)
    # Commands make accelerations jump at single times: the largest errors but a few count.
    for got, expected, slack in (
        (state.velocity, velocity, 2e-3),
        (state.acceleration, acceleration, 2e-2),
        (state.angular_velocity, rate, 2e-3),
        (state.angular_acceleration, spin, 5e-2),
    ):
        error = np.sort(np.abs(got[inner] - expected).max(axis=1))
        assert error[:-20].max() < slack
    assert np.abs(state.acceleration).max() > 0.1


@pytest.mark.parametrize("name", COMMANDS)
def test_same_inputs_same_bits(name: str) -> None:
    one, again = (drifting(name, 1.0).recorded for _ in range(2))
    for field in ("time", "xyz", "quat_xyzw", "velocity", "angular_velocity", "acceleration", "angular_acceleration"):
        assert getattr(one, field).tobytes() == getattr(again, field).tobytes()
    late = drifting(name, 1.5).recorded
    assert late.xyz[: len(one)].tobytes() == one.xyz.tobytes()  # what comes later changes nothing


@pytest.mark.parametrize("name", COMMANDS)
def test_a_reset_forgets_everything(name: str) -> None:
    one = built(name)
    first = drive(one, COMMANDS[name], 0.5).recorded
    one.reset()
    assert drive(one, COMMANDS[name], 0.5).recorded.xyz.tobytes() == first.xyz.tobytes()
    one.reset(time=7.0)
    assert one.state().time[0] == 7.0
    assert isinstance(one.state(), BodyState)
    assert len(one.state()) == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_wrong_commands_and_steps_are_named(name: str) -> None:
    one = built(name)
    wrong = DriveCommand(1.0) if not isinstance(COMMANDS[name], (DriveCommand, SteerCommand)) else MotorsOff()
    with pytest.raises(ConfigError, match=rf"accepts .*{type(COMMANDS[name]).__name__}.*, got {type(wrong).__name__}"):
        one.step(wrong, 0.1)
    for dt in (0.0, -0.1, math.nan, math.inf, 11.0):
        with pytest.raises(ConfigError, match="dt: must be above 0 and at most 10"):
            one.step(COMMANDS[name], dt)
    with pytest.raises(ConfigError, match="time: must be a finite number, got nan"):
        one.reset(time=math.nan)


def test_bad_commands_are_named() -> None:
    with pytest.raises(ConfigError, match="drive command: yaw_rate_rad_s: must be a finite number, got nan"):
        DriveCommand(1.0, math.nan)
    with pytest.raises(ConfigError, match="steer command: speed_m_s: must be a finite number, got inf"):
        SteerCommand(math.inf)
    with pytest.raises(ConfigError, match="thrust command: starboard_n"):
        ThrustCommand(0.0, math.nan)
    with pytest.raises(ConfigError, match="position command: xyz_m: must be 3 finite numbers"):
        PositionCommand((1.0, 2.0))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"unknown vehicle 'clearpath/huskey': did you mean 'clearpath/husky'\?"):
        vehicle("clearpath/huskey")
    with pytest.raises(ConfigError, match=r"none.yaml: no such file"):
        vehicle("none.yaml")
    with pytest.raises(ConfigError, match="water is only for vessels, but this is a car"):
        vehicle("bmw/320i", water=CalmWater())


# ---- driven motion -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_a_replay_gives_the_recorded_states_to_the_bit(name: str) -> None:
    motion = drifting(name)
    assert isinstance(motion, Motion)
    assert isinstance(motion, Trajectory)
    known = motion.recorded
    order = np.random.default_rng(0).permutation(len(known))
    again = motion.state(known.time[order])
    for field in ("xyz", "quat_xyzw", "velocity", "angular_velocity", "acceleration", "angular_acceleration"):
        assert getattr(again, field).tobytes() == getattr(known, field)[order].tobytes()
    xyz, quat = motion.sample(known.time)
    assert xyz.tobytes() == known.xyz.tobytes()
    assert quat.tobytes() == known.quat_xyzw.tobytes()


@pytest.mark.parametrize("name", COMMANDS)
def test_between_records_all_is_continuous_and_agrees(name: str) -> None:
    motion = drifting(name)
    knots = motion.recorded.time[5:40]
    h = 1e-7
    before, after = motion.state(knots - h), motion.state(knots + h)
    for field, slack in (("xyz", 1e-5), ("velocity", 1e-4), ("acceleration", 2e-2), ("angular_acceleration", 5e-2)):
        np.testing.assert_allclose(getattr(before, field), getattr(after, field), atol=slack)
    rng = np.random.default_rng(1)
    times, h = rng.uniform(0.1, 1.9, 200), 1e-5
    state, early, late = motion.state(times), motion.state(times - h), motion.state(times + h)
    np.testing.assert_allclose((late.xyz - early.xyz) / (2 * h), state.velocity, atol=1e-5)
    np.testing.assert_allclose((late.velocity - early.velocity) / (2 * h), state.acceleration, atol=5e-2)
    turned = quat_multiply(quat_conjugate(early.quat_xyzw), late.quat_xyzw)
    np.testing.assert_allclose(turned[:, :3] / h, state.angular_velocity, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(state.quat_xyzw, axis=1), 1.0, atol=1e-14)


def test_between_records_a_circle_stays_a_circle() -> None:
    one = vehicle("clearpath/husky")
    for _ in range(200):
        one.step(DriveCommand(0.8, 0.5), 0.01)  # past the acceleration
    motion = drive(one, DriveCommand(0.8, 0.5), 10.0, 0.1)
    state = motion.state(np.linspace(motion.start_time, motion.end_time, 5001))
    centre = state.xyz + quat_rotate(state.quat_xyzw, np.array([0.0, 1.6, 0.0]))
    np.testing.assert_allclose(centre, np.tile(centre[0], (len(centre), 1)), atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(state.acceleration, axis=1), 0.4, rtol=1e-5)
    np.testing.assert_allclose(state.angular_velocity[:, 2], 0.5, rtol=1e-9)


def test_outside_of_the_recording_it_rests() -> None:
    motion = drifting("bmw/320i")
    state = motion.state([-5.0, 0.0, 2.0, 9.0])
    np.testing.assert_array_equal(state.xyz[[0, 3]], motion.recorded.xyz[[0, -1]])
    np.testing.assert_array_equal(state.quat_xyzw[[0, 3]], motion.recorded.quat_xyzw[[0, -1]])
    assert not np.any(state.velocity[[0, 3]])
    assert np.any(state.velocity[2])
    np.testing.assert_array_equal(state.time, [-5.0, 0.0, 2.0, 9.0])


def test_drives_have_their_length() -> None:
    one = vehicle("clearpath/husky")
    motion = drive(one, DriveCommand(0.5), 1.0, 0.3)
    assert len(motion.recorded) == 5  # 1.2 s
    onward = drive(one, lambda robot: DriveCommand(0.1 * robot.time), 0.3, 0.1)
    assert onward.start_time == pytest.approx(motion.end_time)
    assert one.time == pytest.approx(1.5)
    for duration, dt in ((0.0, 0.1), (math.nan, 0.1), (1.0, 0.0), (1.0, math.nan)):
        with pytest.raises(ConfigError, match=r"drive: (duration|dt): must be above 0"):
            drive(one, DriveCommand(0.0), duration, dt)
    with pytest.raises(ConfigError, match="more than 10000000 steps"):
        drive(one, DriveCommand(0.0), 1e9, 0.01)
    with pytest.raises(ConfigError, match="two or more increasing times"):
        DrivenMotion(one.state())


# ---- following -----------------------------------------------------------------------------------------------------


def distance_to(route: Route, places: Floats) -> Floats:
    ways = np.linspace(0.0, route.length_m, 4001)
    points = np.array([route.point(way) for way in ways])
    return np.array([np.min(np.linalg.norm(points - place[: points.shape[1]], axis=1)) for place in places])


@pytest.mark.parametrize(
    ("name", "scale", "speed", "duration", "most", "end"),
    [
        ("clearpath/husky", 6.0, 0.8, 30.0, 0.25, 0.06),
        ("pioneer/p3-dx", 4.0, 0.6, 30.0, 0.25, 0.06),
        ("bmw/320i", 70.0, 10.0, 40.0, 3.5, 0.5),
        ("asctec/hummingbird", 12.0, 3.0, 18.0, 1.2, 0.1),
        ("dlr/aurora", 36.0, 2.5, 66.0, 6.0, 6.0),
    ],
)
def test_vehicles_follow_their_route(
    name: str, scale: float, speed: float, duration: float, most: float, end: float
) -> None:
    one = vehicle(name)
    one.reset(Pose((0.0, 0.0, 2.0)))
    points = [(scale * x, scale * y, 2.0) for x, y in SQUARE]
    follower = follow(one, points, speed)
    motion = drive(one, follower, duration, 0.05)
    assert follower.finished
    assert follower.remaining_m <= follower.near_m
    state = motion.recorded
    away = distance_to(follower.route, state.xyz[::10])
    assert away.max() < most
    np.testing.assert_allclose(state.xyz[-1, :2], points[-1][:2], atol=end)
    assert np.linalg.norm(state.velocity[-1]) < 0.05
    assert np.linalg.norm(state.velocity[:, :2], axis=1).max() == pytest.approx(speed, rel=0.08)
    repeated = vehicle(name)
    repeated.reset(Pose((0.0, 0.0, 2.0)))
    again = drive(repeated, follower, duration / 10.0, 0.05).recorded  # the drive resets its follower
    assert again.xyz.tobytes() == state.xyz[: len(again)].tobytes()


def test_a_robot_behind_its_route_turns_on_the_spot_first() -> None:
    one = vehicle("clearpath/husky")
    one.reset(Pose(rpy_deg=(0, 0, 180)))
    follower = follow(one, [(0.0, 0.0), (5.0, 0.0)], 0.5)
    state = drive(one, follower, 15.0, 0.02).recorded
    assert follower.finished
    assert state.xyz[:, 0].min() > -0.05
    assert np.abs(state.xyz[:, 1]).max() < 0.2


def test_a_closed_route_is_driven_for_ever() -> None:
    one = vehicle("clearpath/husky")
    follower = follow(one, [(3.0 * x, 3.0 * y) for x, y in SQUARE], 1.0, closed=True)
    motion = drive(one, follower, 40.0, 0.05)
    assert not follower.finished
    assert follower.remaining_m == math.inf
    assert follower.distance_m > 2 * follower.route.length_m
    assert distance_to(follower.route, motion.recorded.xyz[::20]).max() < 0.3


def test_aurora_holds_its_line_in_waves_and_current() -> None:
    for water in (OceanWater(6.0, 3000.0, seed=2, direction_deg=70.0), CalmWater(current_m_s=(0.0, 0.4))):
        one = vehicle("dlr/aurora", water=water)
        follower = follow(one, [(0.0, 0.0), (100.0, 0.0)], 2.0)
        state = drive(one, follower, 24.0, 0.1).recorded
        assert np.abs(state.xyz[:, 1]).max() < 3.0
        assert state.xyz[-1, 0] > 35.0
    assert math.degrees(one.yaw_rad) == pytest.approx(-math.degrees(math.asin(0.4 / 2.0)), abs=3.0)  # it crabs


def test_routes_by_hand() -> None:
    route = Route([(0.0, 0.0), (4.0, 0.0), (4.0, 3.0)], 2)
    assert route.length_m == 7.0
    assert route.point(5.0) == [4.0, 1.0]
    assert route.point(8.0) == [4.0, 4.0]  # prolonged
    assert route.point(-1.0) == [-1.0, 0.0]
    assert route.nearest((2.5, 1.0), 0.0, 10.0) == 2.5
    assert route.nearest((2.5, 1.0), 3.0, 10.0) == pytest.approx(3.0)  # never back
    assert route.nearest((9.0, 2.0), 0.0, 10.0) == 6.0
    assert route.corners(1.0, 10.0) == [(3.0, pytest.approx(math.pi / 2))]
    loop = Route([(0.0, 0.0), (4.0, 0.0), (4.0, 3.0)], 2, closed=True)
    assert loop.length_m == 12.0
    assert loop.point(12.0 + 5.0) == [4.0, 1.0]
    assert len(loop.corners(0.0, 12.0)) == 3
    for points, message in (
        ([(0.0, 0.0)], "two or more points of 2 numbers, got shape"),
        ([(0.0, 0.0), (0.0, math.nan)], "must be finite"),
        ([(0.0, 0.0), (0.0, 0.0)], "must differ from their neighbours"),
        ("abc", "must be numbers"),
    ):
        with pytest.raises(ConfigError, match=message):
            Route(points, 2)


def test_followers_are_chosen_by_vehicle() -> None:
    line = [(0.0, 0.0, 1.0), (10.0, 0.0, 1.0)]
    assert isinstance(follow(vehicle("bmw/320i"), line, 5.0), PurePursuit)
    assert isinstance(follow(vehicle("asctec/hummingbird"), line, 5.0), FlyAlong)
    assert isinstance(follow(vehicle("dlr/aurora"), line, 2.0, lookahead_m=9.0), Helm)
    with pytest.raises(ConfigError, match=r"speed_m_s: must be above 0, got 0\.0"):
        follow(vehicle("bmw/320i"), line, 0.0)
    with pytest.raises(ConfigError, match="points of 3 numbers"):
        follow(vehicle("asctec/hummingbird"), [(0.0, 0.0), (1.0, 0.0)], 1.0)
