"""What all vehicles have in common: reset, step by command, state; and what ground vehicles share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.motion.checks import above, finite
from parhelion.motion.state import BodyState
from parhelion.motion.vehicles import rotation
from parhelion.motion.vehicles.commands import Command
from parhelion.motion.vehicles.rotation import Quaternion, Vector

Row = tuple[float, ...]
"""A state as 20 floats: time, xyz, quaternion, velocity, turn rate, acceleration, angular acceleration."""

LONGEST_STEP_S = 10.0


class Vehicle(ABC):
    """A vehicle that moves by commands. Same commands and steps, same bits.

    A step is cut into equal parts of at most `longest_part_s`; a vehicle holds its command for the whole step.
    """

    accepts: ClassVar[tuple[type, ...]]
    """Commands it understands."""
    longest_part_s: ClassVar[float]

    def __init__(self, name: str) -> None:
        self.name = name
        self.time = 0.0
        """Time [s]."""

    @abstractmethod
    def reset(self, pose: Pose = Pose(), *, time: float = 0.0) -> None:
        """Stand at `pose` at `time` [s]."""

    @abstractmethod
    def row(self) -> Row:
        """The state as plain floats; see `Row`."""

    @abstractmethod
    def _target(self, command: Any) -> Any:
        """What `_advance` needs to know of a command."""

    @abstractmethod
    def _advance(self, target: Any, dt: float) -> None:
        """Move on by `dt` [s], at most `longest_part_s`; `time` is that of the part's beginning."""

    @property
    @abstractmethod
    def xyz(self) -> Vector:
        """Position [m] of the body frame in the world."""

    @property
    @abstractmethod
    def quat_xyzw(self) -> Quaternion:
        """Orientation, body to world."""

    @property
    @abstractmethod
    def speed_m_s(self) -> float:
        """Speed along the body's x axis."""

    @property
    def yaw_rad(self) -> float:
        """Heading in the world, from -pi to pi."""
        return rotation.heading(self.quat_xyzw)

    def step(self, command: Command, dt: float) -> None:
        """Follow `command` for `dt` [s]."""
        if not isinstance(command, self.accepts):
            known = " or ".join(kind.__name__ for kind in self.accepts)
            raise ConfigError(f"{self.name}: takes {known}, got {type(command).__name__}")
        if not 0.0 < dt <= LONGEST_STEP_S:
            above(f"{self.name}: dt", dt, 0.0, LONGEST_STEP_S)
        parts = max(1, math.ceil(dt / self.longest_part_s - 1e-9))
        start, part = self.time, dt / parts
        target = self._target(command)
        for number in range(parts):
            self.time = start + number * part
            self._advance(target, part)
        self.time = start + dt

    def state(self) -> BodyState:
        """The state now, as arrays for one time."""
        return state_of_rows(np.array([self.row()]))


def state_of_rows(rows: np.ndarray[Any, np.dtype[np.float64]]) -> BodyState:
    """States from rows of 20 numbers, shape (n, 20)."""
    return BodyState(
        rows[:, 0], rows[:, 1:4], rows[:, 4:8], rows[:, 8:11], rows[:, 11:14], rows[:, 14:17], rows[:, 17:20]
    )


class GroundVehicle(Vehicle):
    """Moves in the xy plane of the pose it was reset to, which may be a slope; its frame lies on the ground.

    Within the plane: place x, y [m] and angle psi [rad], all 0 at the reset pose.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._place(Pose(), 0.0)

    def _place(self, pose: Pose, time: float) -> None:
        self.time = finite(f"{self.name}: time", time)
        self._x = self._y = self._psi = 0.0
        ox, oy, oz = pose.xyz.tolist()
        qx, qy, qz, qw = pose.quat_xyzw.tolist()
        self._origin: Vector = (ox, oy, oz)
        self._plane: Quaternion = (qx, qy, qz, qw)
        self._axes = rotation.matrix(self._plane)

    @property
    def xyz(self) -> Vector:
        x, y, z = rotation.to_world(self._axes, (self._x, self._y, 0.0))
        return (self._origin[0] + x, self._origin[1] + y, self._origin[2] + z)

    @property
    def quat_xyzw(self) -> Quaternion:
        half = 0.5 * self._psi
        return rotation.multiply(self._plane, (0.0, 0.0, math.sin(half), math.cos(half)))

    def _row(self, forward: tuple[float, float], left: tuple[float, float], turn: tuple[float, float]) -> Row:
        """From velocity and acceleration [m/s, m/s^2] along the body's axes, turn rate and its derivative.

        Accelerations are those of the velocities' components, in the turning frame.
        """
        c, s = math.cos(self._psi), math.sin(self._psi)
        u, v, w = forward[0], left[0], turn[0]
        pull, side = forward[1] - v * w, left[1] + u * w
        velocity = rotation.to_world(self._axes, (c * u - s * v, s * u + c * v, 0.0))
        acceleration = rotation.to_world(self._axes, (c * pull - s * side, s * pull + c * side, 0.0))
        spins = (0.0, 0.0, w, *acceleration, 0.0, 0.0, turn[1])
        return (self.time, *self.xyz, *self.quat_xyzw, *velocity, *spins)
