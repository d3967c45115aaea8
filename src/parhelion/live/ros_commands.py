"""Commands from ROS: Twist messages drive a vehicle, as `cmd_vel` drives a robot."""

from __future__ import annotations

import math
import time as wall
from collections.abc import Callable
from typing import Any, Protocol

from parhelion.core.errors import ConfigError, FormatError
from parhelion.io.ros.types import decode
from parhelion.motion.vehicles.base import Vehicle
from parhelion.motion.vehicles.commands import Command, DriveCommand, ThrustCommand, VelocityCommand
from parhelion.motion.vehicles.vessel import Vessel
from parhelion.scenario.scenario import Scenario, Step

TWIST = "geometry_msgs/msg/Twist"
HOLD_S = 0.5
"""Wall time after which a vehicle that is told nothing new stops, as robots' own controllers do."""
_SPEED_GAIN_1_S, _TURN_GAIN_1_S = 0.5, 2.0
"""How fast a vessel's speed and turn rate are brought to those asked for."""


class Received(Protocol):
    """A topic that is received."""

    topic: str

    def take(self) -> list[bytes]:
        """CDR bytes of messages that came since the last call, oldest first."""
        ...


class TwistControl:
    """Drives a vehicle by the Twist messages of a topic; call it after every step.

    Ground vehicles take linear.x [m/s] and angular.z [rad/s]; multirotors all of linear and angular.z, in the frame
    that turns with their heading; vessels linear.x and angular.z, which their thrusters approach. Before the first
    message the vehicle does what the scenario says; where none came for `hold_s` of wall time, it stops.
    """

    def __init__(
        self,
        scenario: Scenario,
        vehicle: str,
        received: Received,
        *,
        hold_s: float = HOLD_S,
        now: Callable[[], float] = wall.monotonic,
    ) -> None:
        driven = getattr(scenario.body(vehicle), "vehicle", None)
        if not isinstance(driven, Vehicle):
            raise ConfigError(
                f"cmd_vel: {vehicle} moves as told by the scenario and takes no commands; give it a model"
            )
        self.name, self.topic, self.hold_s = vehicle, received.topic, hold_s
        self.messages = 0
        """How many came and were followed."""
        self.refused = 0
        """How many were damaged or not finite, and were left out."""
        self._vehicle, self._received, self._now = driven, received, now
        self._step_s = scenario.settings.step_s
        self._twist: tuple[float, ...] | None = None
        self._since = -math.inf
        self._heading: float | None = None

    def __call__(self, step: Step) -> None:
        if step.number == 0:
            self._heading = None  # the scenario began anew, and the vehicle stands as at first
        command = self.command()
        if command is not None:
            step.command(self.name, command)

    def command(self) -> Command | None:
        """What the vehicle is to do in the next step; None while nothing was ever said."""
        for data in self._received.take():
            twist = _values(data)
            if twist is None:
                self.refused += 1
            else:
                self._twist, self._since = twist, self._now()
                self.messages += 1
        if self._twist is None:
            return None
        held = self._now() - self._since <= self.hold_s
        return self._as_command(self._twist if held else (0.0,) * 6)

    def _as_command(self, twist: tuple[float, ...]) -> Command:
        x, y, z, _, _, turn = twist
        vehicle = self._vehicle
        if DriveCommand in vehicle.accepts:
            return DriveCommand(x, turn)
        if VelocityCommand in vehicle.accepts:
            heading = vehicle.yaw_rad if self._heading is None else self._heading
            self._heading = heading + turn * self._step_s
            c, s = math.cos(vehicle.yaw_rad), math.sin(vehicle.yaw_rad)
            return VelocityCommand((c * x - s * y, s * x + c * y, z), self._heading)
        if isinstance(vehicle, Vessel):
            return _thrust(vehicle, x, turn)
        raise ConfigError(f"cmd_vel: knows no way to drive a {type(vehicle).__name__}")


def _thrust(vessel: Vessel, speed_m_s: float, turn_rad_s: float) -> ThrustCommand:
    """Thrust that brings a vessel to a speed and a turn rate, and holds against the drag there."""
    config = vessel.config
    push = _SPEED_GAIN_1_S * vessel.moving_mass_kg * (speed_m_s - vessel.speed_m_s) + vessel.resistance_n(speed_m_s)
    drag = (config.linear_drag[5] + config.quadratic_drag[5] * abs(turn_rad_s)) * turn_rad_s
    torque = _TURN_GAIN_1_S * vessel.turning_inertia_kg_m2 * (turn_rad_s - vessel.yaw_rate_rad_s) + drag
    each = torque / (config.port.y_m - config.starboard.y_m)
    return ThrustCommand(0.5 * push - each, 0.5 * push + each)


def _values(data: bytes) -> tuple[float, ...] | None:
    """Linear [m/s] and angular [rad/s], or None for a message that is not to be followed."""
    try:
        message: Any = decode(TWIST, data)
    except FormatError:
        return None
    linear, angular = message.linear, message.angular
    values = tuple(float(v) for v in (linear.x, linear.y, linear.z, angular.x, angular.y, angular.z))
    return values if all(math.isfinite(value) for value in values) else None
