"""What a vehicle can be told to do. A command holds until the next one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from parhelion.motion.checks import finite, vector

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class DriveCommand:
    """Drive and turn: for ground vehicles."""

    speed_m_s: float
    """Forward speed, below 0 to reverse."""
    yaw_rate_rad_s: float = 0.0
    """Turn rate, positive to the left."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.speed_m_s + self.yaw_rate_rad_s):
            finite("drive command: speed_m_s", self.speed_m_s)
            finite("drive command: yaw_rate_rad_s", self.yaw_rate_rad_s)


@dataclass(frozen=True)
class SteerCommand:
    """Drive with the front wheels at an angle: for cars."""

    speed_m_s: float
    steering_rad: float = 0.0
    """Angle of the front wheels, positive to the left."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.speed_m_s + self.steering_rad):
            finite("steer command: speed_m_s", self.speed_m_s)
            finite("steer command: steering_rad", self.steering_rad)


@dataclass(frozen=True)
class VelocityCommand:
    """Fly with a velocity: for multirotors."""

    velocity_m_s: Vector
    """In the world."""
    yaw_rad: float | None = None
    """Heading in the world; None keeps the one last asked for."""

    def __post_init__(self) -> None:
        vector("velocity command: velocity_m_s", self.velocity_m_s, 3)
        if self.yaw_rad is not None:
            finite("velocity command: yaw_rad", self.yaw_rad)


@dataclass(frozen=True)
class PositionCommand:
    """Fly to a place and hold it: for multirotors."""

    xyz_m: Vector
    """In the world."""
    yaw_rad: float | None = None
    """Heading in the world; None keeps the one last asked for."""
    speed_m_s: float | None = None
    """Speed not to exceed on the way, below the vehicle's own; None for that."""

    def __post_init__(self) -> None:
        vector("position command: xyz_m", self.xyz_m, 3)
        if self.yaw_rad is not None:
            finite("position command: yaw_rad", self.yaw_rad)
        if self.speed_m_s is not None:
            finite("position command: speed_m_s", self.speed_m_s)


@dataclass(frozen=True)
class MotorsOff:
    """Rotors run down: for multirotors."""


@dataclass(frozen=True)
class ThrustCommand:
    """Thrust of the two thrusters [N], forward positive: for vessels."""

    port_n: float
    starboard_n: float
    steering_rad: float = 0.0
    """Angle of both thrusters, positive to turn left when driving forward; for those that can be steered."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.port_n + self.starboard_n + self.steering_rad):
            finite("thrust command: steering_rad", self.steering_rad)
            finite("thrust command: port_n", self.port_n)
            finite("thrust command: starboard_n", self.starboard_n)


Command = DriveCommand | SteerCommand | VelocityCommand | PositionCommand | MotorsOff | ThrustCommand
