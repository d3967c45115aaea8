"""Closed loop: Twist messages of another program drive vehicles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dds_rigs import DOMAIN, peer

pytest.importorskip("rosbags", reason="ROS messages need rosbags")

from parhelion.core.errors import ConfigError
from parhelion.io.ros.types import encode, header, new
from parhelion.live.commands import ACKERMANN, SteeringControl, ThrusterControl
from parhelion.live.pacing import PacedRun
from parhelion.live.ros import FLOAT, TWIST, TwistControl
from parhelion.motion.vehicles.base import SteerCommand, ThrustCommand
from parhelion.scenario.scenario import Scenario


def twist(x: float = 0.0, y: float = 0.0, z: float = 0.0, turn: float = 0.0) -> bytes:
    linear = new("geometry_msgs/msg/Vector3", x=x, y=y, z=z)
    angular = new("geometry_msgs/msg/Vector3", x=0.0, y=0.0, z=turn)
    return encode(TWIST, new(TWIST, linear=linear, angular=angular))


def scene(model: str, duration_s: float = 4.0, **more: Any) -> Scenario:
    return Scenario.from_mapping(
        {
            "duration_s": duration_s, "world": "cuboids", "outputs": [],
            "vehicles": [{"name": "it", "model": model, **more}, {"name": "post", "motion": {"fixed": {}}}],
            "sensors": [{"name": "air", "type": "barometer", "model": "bosch/bmp388", "vehicle": "it"}],
        }
    )  # fmt: skip


class Sent:
    """Messages that arrive at given steps."""

    topic = "/cmd_vel"

    def __init__(self, messages: dict[int, list[bytes]]) -> None:
        self.messages, self.asked = messages, 0

    def take(self) -> list[bytes]:
        self.asked += 1
        return self.messages.get(self.asked - 1, [])


def driven(scenario: Scenario, messages: dict[int, list[bytes]], **options: Any) -> tuple[Any, TwistControl]:
    """Run a scenario whose steps take 0.01 s of wall time each; return the states at the middle of every step."""
    now = [0.0]
    control = TwistControl(scenario, "it", Sent(messages), now=lambda: now[0], **options)
    states = []
    for step in scenario:
        now[0] = step.time
        control(step)
        states.append(scenario.body("it").state([step.time - 0.005]))
    return states, control


def test_a_robot_drives_and_turns_as_commanded() -> None:
    states, control = driven(scene("clearpath/husky"), {k: [twist(0.6, turn=0.2)] for k in range(0, 400, 10)})
    last = states[-1]
    assert np.linalg.norm(last.velocity[0]) == pytest.approx(0.6, abs=0.01)
    assert last.angular_velocity[0, 2] == pytest.approx(0.2, abs=0.01)
    assert (control.messages, control.refused) == (40, 0)


def test_it_stops_without_further_messages() -> None:
    states, _ = driven(scene("clearpath/husky"), {0: [twist(0.6)]}, hold_s=0.5)
    speeds = [float(np.linalg.norm(state.velocity[0])) for state in states]
    assert max(speeds) > 0.3
    assert speeds[-1] < 0.01
    # It does not stop before the timeout.
    assert speeds[48] == pytest.approx(0.6, abs=0.01)
    assert speeds[70] < 0.6


def test_before_the_first_message_the_scenario_counts() -> None:
    follows = {"follow": {"points": [[5, 0, 0]], "speed_m_s": 0.5}}
    states, control = driven(scene("clearpath/husky", 2.0, **follows), {})
    assert states[-1].xyz[0, 0] > 0.5
    assert control.messages == 0


def test_what_is_damaged_or_not_finite_is_not_followed() -> None:
    bad = [twist(math.nan), twist(math.inf), twist()[:20], b""]
    states, control = driven(scene("clearpath/husky", 1.0), {3: bad})
    assert (control.messages, control.refused) == (0, 4)
    assert np.allclose(states[-1].xyz[0, :2], 0.0)


def test_a_multirotor_flies_along_its_heading() -> None:
    start = {"start": {"xyz": [0, 0, 2], "rpy_deg": [0, 0, 90]}}
    messages = {k: [twist(1.0, z=0.5)] for k in range(0, 400, 10)}
    states, _ = driven(scene("asctec/hummingbird", 4.0, **start), messages)
    velocity = states[-1].velocity[0]
    assert velocity == pytest.approx([0.0, 1.0, 0.5], abs=0.1)


def test_a_vessel_comes_to_the_speed_and_turn_asked_for() -> None:
    messages = {k: [twist(1.0, turn=0.1)] for k in range(0, 800, 20)}
    states, _ = driven(scene("dlr/aurora", 8.0, dynamics="kinematic"), messages)  # the world has no water
    last = states[-1]
    assert float(np.hypot(*last.velocity[0, :2])) == pytest.approx(1.0, abs=0.3)
    assert last.angular_velocity[0, 2] == pytest.approx(0.1, abs=0.04)


def test_vehicles_that_cannot_be_driven_are_reported() -> None:
    scenario = scene("clearpath/husky")
    with pytest.raises(ConfigError, match="post follows a path of the scenario"):
        TwistControl(scenario, "post", Sent({}))
    with pytest.raises(ConfigError, match="no vehicle 'missing'"):
        TwistControl(scenario, "missing", Sent({}))


class SentTo:
    """Node that receives messages at given steps, by topic."""

    def __init__(self, **messages: dict[int, list[bytes]]) -> None:
        self.messages = {topic.replace("__", "/"): found for topic, found in messages.items()}
        self.kinds: dict[str, str] = {}

    def subscribe(self, topic: str, kind: str) -> Sent:
        self.kinds[topic] = kind
        return Sent(self.messages.get(topic, {}))


def number(value: float) -> bytes:
    return encode(FLOAT, new(FLOAT, data=value))


def ackermann(speed: float, angle: float) -> bytes:
    drive = new(
        "ackermann_msgs/msg/AckermannDrive", steering_angle=angle, steering_angle_velocity=0.0, speed=speed,
        acceleration=0.0, jerk=0.0,
    )  # fmt: skip
    return encode(ACKERMANN, new(ACKERMANN, header=header(0, ""), drive=drive))


def followed(scenario: Scenario, kind: type, node: SentTo, topic: str = "") -> tuple[list[Any], Any]:
    """Run a scenario whose steps take 0.01 s of wall time each; return the commands and the controller."""
    now = [0.0]
    control = kind(scenario, "it", node, topic, now=lambda: now[0])
    commands = []
    for step in scenario:
        now[0] = step.time
        control(step)
        commands.append(scenario._commands.get("it"))
    return commands, control


def test_thrusters_of_a_vessel_follow_their_topics() -> None:
    node = SentTo(
        __wamv__left__thrust={k: [number(40.0)] for k in range(0, 200, 10)},
        __wamv__right__thrust={k: [number(60.0)] for k in range(0, 60, 10)},
        __wamv__left__pos={0: [number(0.2)], 5: [number(math.nan)]},
        __wamv__right__pos={0: [number(0.1)]},
    )
    vessel = scene("dlr/aurora", 2.0, dynamics="kinematic")
    commands, control = followed(vessel, ThrusterControl, node, "/wamv")
    assert set(node.kinds.values()) == {FLOAT}
    # The angle is the mean of both sides.
    assert commands[10] == ThrustCommand(40.0, 60.0, 0.5 * (0.2 + 0.1))
    # Each actuator returns to 0 on its own, 0.5 s after its last message.
    assert commands[60] == ThrustCommand(40.0, 60.0, 0.0)
    assert commands[-1] == ThrustCommand(40.0, 0.0, 0.0)
    assert (control.messages, control.refused) == (20 + 6 + 2, 1)
    state = vessel.body("it").state([1.0])
    # 100 N for 0.55 s, then 40 N, on a heavy vessel whose drag is still small; the thrusters lag.
    impulse = (100.0 * 0.55 + 40.0 * 0.45) / vessel.body("it").vehicle.moving_mass_kg
    assert 0.3 * impulse < state.velocity[0, 0] < impulse
    assert state.angular_velocity[0, 2] > 0.0  # more thrust to starboard turns to port


def test_a_car_follows_speed_and_steering_angle() -> None:
    node = SentTo(__ackermann_cmd={k: [ackermann(4.0, 0.1)] for k in range(0, 400, 10)})
    car = scene("bmw/320i", 4.0)
    commands, control = followed(car, SteeringControl, node)
    assert node.kinds == {"/ackermann_cmd": ACKERMANN}
    assert commands[0] == SteerCommand(4.0, float(np.float32(0.1)))
    state = car.body("it").state([4.0])
    speed = float(np.hypot(*state.velocity[0, :2]))
    vehicle = car.body("it").vehicle
    # Steady circle of the dynamic bicycle: delta = (L + K v^2) r / v.
    config = vehicle.config
    wheelbase = config.front_axle_m + config.rear_axle_m
    expected = 0.1 * speed / (wheelbase + vehicle.understeer * speed**2)
    assert state.angular_velocity[0, 2] == pytest.approx(expected, rel=0.05)
    assert control.messages == 40


def test_actuators_that_a_vehicle_does_not_have_are_reported() -> None:
    with pytest.raises(ConfigError, match="it: accepts DriveCommand, so it cannot follow std_msgs"):
        ThrusterControl(scene("clearpath/husky"), "it", SentTo())
    with pytest.raises(ConfigError, match="post: accepts no commands"):
        SteeringControl(scene("clearpath/husky"), "post", SentTo())


def test_another_program_drives_a_robot() -> None:
    pytest.importorskip("cyclonedds", reason="live ROS 2 needs cyclonedds")
    from parhelion.live.dds import DdsNode

    scenario = scene("clearpath/husky", 2.5)
    with DdsNode(DOMAIN) as node, peer(drive=True, topic="/cmd_vel", x=0.8, seconds=8):
        control = TwistControl(scenario, "it", node.subscribe("/cmd_vel", TWIST))
        PacedRun(scenario, {}, ahead_s=0.1, controllers=[control]).run()
        assert control.messages > 5
    assert scenario.body("it").state([2.5]).xyz[0, 0] > 0.2
