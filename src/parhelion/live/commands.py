"""ROS 2 topics that command the actuators of vehicles: the thrusters of a vessel, and the steering of a car.

`ThrusterControl` takes Float64 messages: `<prefix>/left/thrust`, `right/thrust` [N] and `left/pos`, `right/pos` [rad].
`SteeringControl` takes AckermannDriveStamped: speed [m/s] and angle of the front wheels [rad] on `/ackermann_cmd`.

Thrusters have the topics of VRX, the competition of Open Robotics for surface vessels (github.com/osrf/vrx).
`TwistControl` in `parhelion.live.ros` drives any vehicle by its speed instead.
"""

from __future__ import annotations

import math
import time as wall
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from parhelion.core.errors import ConfigError, FormatError
from parhelion.io.ros.types import decode
from parhelion.live.ros import FLOAT, HOLD_S
from parhelion.motion.vehicles.base import Command, SteerCommand, ThrustCommand, Vehicle
from parhelion.scenario.scenario import Scenario, Step

ACKERMANN = "ackermann_msgs/msg/AckermannDriveStamped"

Numbers = tuple[float, ...]


class ActuatorControl(ABC):
    """Controller of a vehicle by the messages of its actuators; call it after every step.

    Before the first message the vehicle follows the scenario. An actuator whose messages cease for `hold_s` of wall
    time returns to 0.

    Args:
        scenario: The scenario.
        vehicle: Name of the vehicle, whose model accepts `command_type`.
        node: Node that receives the messages.
        topic: Topic, or prefix of the topics; by default that of the class.
        hold_s: Time [s] after which an actuator returns to 0.
        now: Wall clock [s].
    """

    command_type: ClassVar[type]
    default_topic: ClassVar[str]
    message: ClassVar[str]

    def __init__(
        self,
        scenario: Scenario,
        vehicle: str,
        node: Any,
        topic: str = "",
        *,
        hold_s: float = HOLD_S,
        now: Callable[[], float] = wall.monotonic,
    ) -> None:
        driven = getattr(scenario.body(vehicle), "vehicle", None)
        if not isinstance(driven, Vehicle) or self.command_type not in driven.accepts:
            kinds = " or ".join(kind.__name__ for kind in getattr(driven, "accepts", ())) or "no commands"
            raise ConfigError(f"{vehicle}: accepts {kinds}, so it cannot follow {self.message}; use --cmd-vel")
        self.name, self.topic, self.hold_s = vehicle, topic or self.default_topic, hold_s
        self.messages = 0
        """Number of executed messages."""
        self.refused = 0
        """Number of ignored messages: damaged or not finite."""
        self._now = now
        self._received = {part: node.subscribe(f"{self.topic}{part}", self.message) for part in self.parts()}
        self._values: dict[str, tuple[Numbers, float]] = {}

    @classmethod
    @abstractmethod
    def parts(cls) -> tuple[str, ...]:
        """Ends of the topics, after `topic`."""

    @abstractmethod
    def numbers(self, message: Any) -> Numbers:
        """Numbers of a decoded message."""

    @abstractmethod
    def as_command(self, values: dict[str, Numbers]) -> Command:
        """Command of the latest numbers by topic; those of actuators without messages are missing."""

    def __call__(self, step: Step) -> None:
        command = self.command()
        if command is not None:
            step.command(self.name, command)

    def command(self) -> Command | None:
        """Command for the next step; None before the first message."""
        for part, received in self._received.items():
            for data in received.take():
                try:
                    found = self.numbers(decode(self.message, data))
                except FormatError:
                    found = (math.nan,)
                if all(math.isfinite(value) for value in found):
                    self._values[part] = found, self._now()
                    self.messages += 1
                else:
                    self.refused += 1
        if not self._values:
            return None
        now = self._now()
        return self.as_command({part: one for part, (one, at) in self._values.items() if now - at <= self.hold_s})


class ThrusterControl(ActuatorControl):
    """Thrust of the two thrusters of a vessel [N], and the angle of both [rad]: the mean of the two `pos`.

    An angle is positive to turn left when moving forward; thrust and angle are limited by the data sheet.
    """

    command_type = ThrustCommand
    default_topic = "/thrusters"
    message = FLOAT

    @classmethod
    def parts(cls) -> tuple[str, ...]:
        """Ends of the topics."""
        return ("/left/thrust", "/right/thrust", "/left/pos", "/right/pos")

    def numbers(self, message: Any) -> Numbers:
        """The number."""
        return (float(message.data),)

    def as_command(self, values: dict[str, Numbers]) -> ThrustCommand:
        """Thrust and mean angle."""
        left, right = (values.get(part, (0.0,))[0] for part in self.parts()[:2])
        angles = [values[part][0] for part in self.parts()[2:] if part in values]
        return ThrustCommand(left, right, sum(angles) / len(angles) if angles else 0.0)


class SteeringControl(ActuatorControl):
    """Speed [m/s] and steering angle [rad] of a car, positive to the left.

    Of AckermannDriveStamped, `speed` and `steering_angle` are used; their rates are those of the data sheet.
    """

    command_type = SteerCommand
    default_topic = "/ackermann_cmd"
    message = ACKERMANN

    @classmethod
    def parts(cls) -> tuple[str, ...]:
        """There is one topic."""
        return ("",)

    def numbers(self, message: Any) -> Numbers:
        """Speed and steering angle."""
        return float(message.drive.speed), float(message.drive.steering_angle)

    def as_command(self, values: dict[str, Numbers]) -> SteerCommand:
        """Speed and angle; without messages, the car stops with straight wheels."""
        speed, angle = values.get("", (0.0, 0.0))
        return SteerCommand(speed, steering_rad=angle)
