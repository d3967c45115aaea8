"""Action spaces of vehicles: the commands that each kind of data sheet accepts, with the limits of the data sheet."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.motion.vehicles.base import Command, DriveCommand, SteerCommand, ThrustCommand, VelocityCommand
from parhelion.motion.vehicles.sheets import CarConfig, DifferentialConfig, MultirotorConfig, VesselConfig


@dataclass(frozen=True)
class Actions:
    """Action space of a vehicle, and the command of each action."""

    names: tuple[str, ...]
    """Meaning and unit of each number of an action."""
    space: spaces.Box
    make: Callable[..., Command]
    """Command from the numbers of an action."""

    def command(self, action: ArrayLike) -> Command:
        """Return the command of an action; numbers beyond the limits are clipped."""
        values = np.asarray(action, dtype=np.float64)
        if values.shape != self.space.shape or not np.isfinite(values).all():
            wanted = f"{len(self.names)} finite numbers ({', '.join(self.names)})"
            raise ConfigError(f"action: expected {wanted}, got {action!r}")
        return self.make(*np.clip(values, self.space.low, self.space.high).tolist())


def _actions(make: Callable[..., Command], **limits: tuple[float, float]) -> Actions:
    low, high = (np.array([pair[k] for pair in limits.values()], np.float32) for k in range(2))
    return Actions(tuple(limits), spaces.Box(low, high, dtype=np.float32), make)


def _drive(sheet: DifferentialConfig) -> Actions:
    speed, turn = sheet.max_speed_m_s, sheet.max_yaw_rate_rad_s
    return _actions(DriveCommand, speed_m_s=(-speed, speed), yaw_rate_rad_s=(-turn, turn))


def _steer(sheet: CarConfig) -> Actions:
    steering = sheet.max_steering_rad
    speed = (-sheet.max_reverse_speed_m_s, sheet.max_speed_m_s)
    return _actions(SteerCommand, speed_m_s=speed, steering_rad=(-steering, steering))


def _fly(sheet: MultirotorConfig) -> Actions:
    speed, climb = sheet.control.max_speed_m_s, sheet.control.max_climb_m_s
    return _actions(
        lambda x, y, z, yaw: VelocityCommand((x, y, z), yaw),
        x_m_s=(-speed, speed),
        y_m_s=(-speed, speed),
        z_m_s=(-climb, climb),
        yaw_rad=(-math.pi, math.pi),
    )


def _thrust(sheet: VesselConfig) -> Actions:
    sides = {
        f"{name}_n": (-side.max_reverse_n, side.max_forward_n)
        for name, side in (("port", sheet.port), ("starboard", sheet.starboard))
    }
    if sheet.max_steering_rad > 0.0:
        sides["steering_rad"] = (-sheet.max_steering_rad, sheet.max_steering_rad)
    return _actions(ThrustCommand, **sides)


ACTIONS: dict[type, Callable[[Any], Actions]] = {
    DifferentialConfig: _drive,
    CarConfig: _steer,
    MultirotorConfig: _fly,
    VesselConfig: _thrust,
}
"""Functions that return the actions of a vehicle, by type of data sheet."""


def actions_of(sheet: Any) -> Actions:
    """Actions of a vehicle by its data sheet.

    >>> from parhelion.motion.vehicles.library import vehicle_sheet
    >>> actions_of(vehicle_sheet("clearpath/husky")).names
    ('speed_m_s', 'yaw_rate_rad_s')
    """
    if type(sheet) not in ACTIONS:
        raise ConfigError(f"actions: no entry for vehicles of type {type(sheet).__name__}; add a function to ACTIONS")
    return ACTIONS[type(sheet)](sheet)
