"""Closed loop: Twist messages of another program drive vehicles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dds_rigs import DOMAIN, peer

pytest.importorskip("rosbags", reason="ROS messages need rosbags")

from parhelion.core.errors import ConfigError
from parhelion.io.ros.types import encode, new
from parhelion.live.pacing import PacedRun
from parhelion.live.ros import TWIST, TwistControl
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


def test_another_program_drives_a_robot() -> None:
    pytest.importorskip("cyclonedds", reason="live ROS 2 needs cyclonedds")
    from parhelion.live.dds import DdsNode

    scenario = scene("clearpath/husky", 2.5)
    with DdsNode(DOMAIN) as node, peer(drive=True, topic="/cmd_vel", x=0.8, seconds=8):
        control = TwistControl(scenario, "it", node.subscribe("/cmd_vel", TWIST))
        PacedRun(scenario, {}, ahead_s=0.1, controllers=[control]).run()
        assert control.messages > 5
    assert scenario.body("it").state([2.5]).xyz[0, 0] > 0.2
