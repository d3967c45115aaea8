"""Drivers of a scenario: each moves all bodies of its kind together, one step of the clock at a time.

| name | moves |
| --- | --- |
| `kinematic` | vehicles by their own dynamics, without contact: ground vehicles in the plane of their start |
| `rays` | ground vehicles as rigid bodies on wheels, in contact with the world (`ContactDriver`) |
| `hull` | multirotors and vessels by their own dynamics, in contact with the world (`HullDriver`) |
| `mujoco` | robots with joints in contact with the world (`JointedDriver`) |
| `recorded` | bodies along a given motion |
| `external` | bodies by states from outside, through `Scenario.move` |

Bodies of one kind step together because they may touch each other, so a driver belongs to the scenario.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from parhelion.contact.bodies import Collision
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, quat_conjugate, quat_multiply
from parhelion.core.trajectory import Trajectory
from parhelion.motion.state import state_of
from parhelion.motion.vehicles.base import Command, Vehicle

_ROW = 20


class Driver(Protocol):
    """Moves all bodies of its kind; the same commands give the same bits."""

    def add(self, name: str, body: Any, start: Pose) -> int:
        """Add a body (a vehicle, a motion or None) at a pose and return its number."""
        ...

    def place(self, number: int, start: Pose) -> None:
        """Set the start of a body, and reset all bodies to theirs."""
        ...

    def restart(self) -> None:
        """Reset all bodies to their start, at time 0."""
        ...

    def step(self, commands: Sequence[Any], dt: float) -> Sequence[Collision]:
        """Advance all bodies by `dt` [s] with one command each, and return the contacts."""
        ...

    def rows(self) -> Floats:
        """States, shape (bodies, 20), in the order of `Vehicle.row()`."""
        ...

    def save(self) -> bytes:
        """Return the state; the same bodies resume from it with the same bits."""
        ...

    def load(self, state: bytes) -> None:
        """Resume from a saved state."""
        ...


class KinematicDriver:
    """Moves vehicles by their own dynamics."""

    def __init__(self) -> None:
        self._vehicles: list[tuple[Vehicle, Pose]] = []

    def add(self, name: str, body: Vehicle, start: Pose) -> int:
        """Place a vehicle at a pose, at rest."""
        self._vehicles.append((body, start))
        body.reset(start)
        return len(self._vehicles) - 1

    def place(self, number: int, start: Pose) -> None:
        """Set the start of a vehicle, and reset all vehicles to theirs."""
        self._vehicles[number] = (self._vehicles[number][0], start)
        self.restart()

    def restart(self) -> None:
        """Reset all vehicles to their start."""
        for vehicle, start in self._vehicles:
            vehicle.reset(start)

    def step(self, commands: Sequence[Command], dt: float) -> list[Collision]:
        """Advance all vehicles; they touch nothing."""
        for (vehicle, _), command in zip(self._vehicles, commands, strict=True):
            vehicle.step(command, dt)
        return []

    def rows(self) -> Floats:
        """States of the vehicles."""
        return np.array([vehicle.row() for vehicle, _ in self._vehicles]).reshape(-1, _ROW)

    def save(self) -> bytes:
        """Return the changing numbers of the vehicles, written without rounding."""
        return json.dumps([vehicle.saved() for vehicle, _ in self._vehicles]).encode()

    def load(self, state: bytes) -> None:
        """Resume from a saved state."""
        states = json.loads(state)
        if len(states) != len(self._vehicles):
            raise ConfigError("kinematic: the saved state is not of these vehicles")
        for (vehicle, _), values in zip(self._vehicles, states, strict=True):
            vehicle.resume(values)


class RecordedDriver:
    """Moves bodies along given motions."""

    def __init__(self) -> None:
        self._motions: list[Trajectory] = []
        self._time = 0.0

    def add(self, name: str, body: Trajectory, start: Pose) -> int:
        """Add a motion; its own start counts."""
        self._motions.append(body)
        return len(self._motions) - 1

    def place(self, number: int, start: Pose) -> None:
        """Do nothing: motions have their own start."""

    def restart(self) -> None:
        """Return to time 0."""
        self._time = 0.0

    def step(self, commands: Sequence[None], dt: float) -> list[Collision]:
        """Advance the clock."""
        self._time += dt
        return []

    def rows(self) -> Floats:
        """States of the motions at the current time."""
        states = [state_of(motion, np.array([self._time])) for motion in self._motions]
        return np.array([_row_of(state, 0) for state in states]).reshape(-1, _ROW)

    def save(self) -> bytes:
        """Return the time."""
        return np.array([self._time]).tobytes()

    def load(self, state: bytes) -> None:
        """Resume at a saved time."""
        self._time = float(np.frombuffer(state, np.float64)[0])


def _row_of(state: Any, k: int) -> Floats:
    rates = (state.velocity[k], state.angular_velocity[k], state.acceleration[k], state.angular_acceleration[k])
    return np.concatenate([[state.time[k]], state.xyz[k], state.quat_xyzw[k], *rates])


class ExternalDriver:
    """Places bodies at states from outside; a body without a new state rests where it is."""

    def __init__(self) -> None:
        self._starts: list[Floats] = []
        self._rows: Floats = np.zeros((0, _ROW))
        self._next: dict[int, tuple[Pose, Floats | None, Floats | None]] = {}

    def add(self, name: str, body: None, start: Pose) -> int:
        """Add a body at rest at a pose."""
        self._starts.append(_at_rest(start))
        self.restart()
        return len(self._starts) - 1

    def place(self, number: int, start: Pose) -> None:
        """Set the start of a body, and return all bodies to theirs."""
        self._starts[number] = _at_rest(start)
        self.restart()

    def restart(self) -> None:
        """Return all bodies to their start and forget states that were given."""
        self._rows = np.stack(self._starts)
        self._next.clear()

    def move(self, number: int, pose: Pose, velocity: Floats | None, angular_velocity: Floats | None) -> None:
        """Give the state of a body at the end of the next step.

        Velocity [m/s] is in the world, angular velocity [rad/s] in the body frame; by default both are means of the
        step.
        """
        self._next[number] = (pose, velocity, angular_velocity)

    def step(self, commands: Sequence[None], dt: float) -> list[Collision]:
        """Take over the states that were given."""
        before = self._rows
        self._rows = before.copy()
        self._rows[:, 0] += dt
        self._rows[:, 8:] = 0.0
        for number, (pose, velocity, spin) in self._next.items():
            row = self._rows[number]
            row[1:4], row[4:8] = pose.xyz, pose.quat_xyzw
            row[8:11] = (row[1:4] - before[number, 1:4]) / dt if velocity is None else velocity
            row[11:14] = _turn(before[number, 4:8], row[4:8]) / dt if spin is None else spin
            row[14:] = (row[8:14] - before[number, 8:14]) / dt
        self._next.clear()
        return []

    def rows(self) -> Floats:
        """States of the bodies."""
        return self._rows

    def save(self) -> bytes:
        """Return the states; those given for the next step are not part of them."""
        return self._rows.tobytes()

    def load(self, state: bytes) -> None:
        """Resume from saved states."""
        self._rows = np.frombuffer(state, np.float64).reshape(self._rows.shape).copy()
        self._next.clear()


def _turn(before: Floats, after: Floats) -> Floats:
    """Rotation vector [rad] in the body frame between two orientations."""
    change = quat_multiply(quat_conjugate(before), after)
    change = change if change[3] >= 0.0 else -change
    sine = float(np.linalg.norm(change[:3]))
    angle = 2.0 * np.arctan2(sine, change[3])
    return np.zeros(3) if sine < 1e-12 else change[:3] * (angle / sine)


def _at_rest(start: Pose) -> Floats:
    return np.concatenate([[0.0], start.xyz, start.quat_xyzw, np.zeros(12)])
