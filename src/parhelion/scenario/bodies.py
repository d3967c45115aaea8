"""Bodies of a scenario: with a given motion, or driven step by step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parhelion.contact.driver import ContactDriver
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose
from parhelion.core.trajectory import Trajectory
from parhelion.motion.drivers import DrivenMotion, Follower, follow
from parhelion.motion.recorded import RecordedMotion
from parhelion.motion.spline import SplineMotion
from parhelion.motion.state import BodyState, state_of
from parhelion.motion.time_law import MotionLimits
from parhelion.motion.vehicles.base import (
    Command,
    DriveCommand,
    Row,
    ThrustCommand,
    Vehicle,
    VelocityCommand,
    state_of_rows,
)
from parhelion.motion.vehicles.library import vehicle as vehicle_preset
from parhelion.motion.vehicles.library import vehicle_sheet
from parhelion.motion.vehicles.sheets import VesselConfig
from parhelion.scenario.motions import MotionEntry, SplineEntry
from parhelion.scenario.schema import VehicleEntry


class MovedBody:
    """A body with a given motion."""

    def __init__(self, name: str, motion: Trajectory) -> None:
        self.name, self.motion = name, motion

    def restart(self) -> None:
        """Do nothing: it has no state."""

    def place(self, start: Pose) -> None:
        """Refuse another start; the motion is given for all times."""
        raise ConfigError(f"{self.name}: has a given motion and no start; use model instead of motion")

    def advance(self, command: Command | None, dt: float) -> None:
        """Refuse commands; the motion is given for all times."""
        if command is not None:
            raise ConfigError(f"{self.name}: has a given motion and accepts no commands; use model instead of motion")

    def state(self, times: ArrayLike) -> BodyState:
        """Return the state at times [s]."""
        return state_of(self.motion, times)


class DrivenBody:
    """A driven vehicle: by a command, otherwise by its follower, otherwise by its last command."""

    def __init__(self, name: str, vehicle: Vehicle, follower: Follower | None, start: Pose) -> None:
        self.name, self.vehicle, self.follower, self._start = name, vehicle, follower, start
        self._command: Command | None = None
        vehicle.reset(start)
        self.motion = LiveMotion(vehicle.row())

    def restart(self) -> None:
        """Reset to the initial state."""
        self._command = None
        self.vehicle.reset(self._start)
        if self.follower is not None:
            self.follower.reset()
        self.motion.restart(self.vehicle.row())

    def place(self, start: Pose) -> None:
        """Set the initial pose, and reset to it."""
        self._start = start
        self.restart()

    def advance(self, command: Command | None, dt: float) -> None:
        """Advance by one step of the clock."""
        self.vehicle.step(self._choose(command), dt)
        self.motion.append(self.vehicle.row())

    def _choose(self, command: Command | None) -> Command:
        """Return the command for the next step."""
        if command is not None:
            self._command = command
            return command
        if self.follower is not None:
            return self.follower(self.vehicle)
        return self._command if self._command is not None else _at_rest(self.vehicle)

    def state(self, times: ArrayLike) -> BodyState:
        """Return the state at times [s] up to now."""
        return self.motion.state(times)


class ContactBody(DrivenBody):
    """A driven vehicle that a `ContactDriver` moves, together with all others of the scenario."""

    def __init__(
        self, name: str, vehicle: Vehicle, follower: Follower | None, start: Pose, driver: ContactDriver
    ) -> None:
        super().__init__(name, vehicle, follower, start)
        self._driver, self._number = driver, driver.add(name, vehicle, start)
        self.next_command: Command = _at_rest(vehicle)
        self.motion.restart(self._row())

    def _row(self) -> Row:
        return tuple(self._driver.rows()[self._number].tolist())

    def restart(self) -> None:
        """Reset follower and motion; the driver resets all vehicles."""
        self._command = None
        if self.follower is not None:
            self.follower.reset()
        self.motion.restart(self._row())

    def place(self, start: Pose) -> None:
        """Set the initial pose, and reset all vehicles of the driver to theirs."""
        # The driver places vehicles only when they are added: the new member replaces the old one.
        self._driver.add(self.name, self.vehicle, start)
        self._driver._members[self._number] = self._driver._members.pop()
        self._driver.restart()
        super().place(start)

    def advance(self, command: Command | None, dt: float) -> None:
        """Choose the command for the driver's next step."""
        self.next_command = self._choose(command)

    def record(self) -> None:
        """Record the state after the driver's step."""
        self.motion.append(self._row())


Body = MovedBody | DrivenBody


class LiveMotion:
    """Recorded motion of a driven vehicle; it rests before its start and after its last step."""

    def __init__(self, start: Row) -> None:
        self._rows = [start]
        self._parts: dict[tuple[int, int], DrivenMotion] = {}

    def restart(self, start: Row) -> None:
        """Discard all steps and start from a state."""
        self._rows = [start]
        self._parts.clear()

    def append(self, row: Row) -> None:
        """Record the state after a step."""
        self._rows.append(row)

    def latest(self) -> BodyState:
        """Return the state after the last step."""
        return state_of_rows(np.array([self._rows[-1]]))

    def _around(self, times: ArrayLike) -> DrivenMotion:
        """Motion of the steps around these times; a step depends on its two ends only, so this part is enough."""
        first_s = self._rows[0][0]
        last = len(self._rows) - 1
        if last == 0:
            row = np.array(self._rows[0])
            return DrivenMotion(state_of_rows(np.array([row, row + np.eye(20)[0]])))
        step = (self._rows[-1][0] - first_s) / last
        asked = np.asarray(times, dtype=np.float64)
        low, high = (asked.min(), asked.max()) if asked.size else (first_s, first_s)
        begin = int(np.clip(np.floor((low - first_s) / step) - 1, 0, last - 1))
        end = int(np.clip(np.ceil((high - first_s) / step) + 1, begin + 1, last))
        if (begin, end) not in self._parts:
            if len(self._parts) > 8:
                self._parts.clear()
            self._parts[begin, end] = DrivenMotion(state_of_rows(np.array(self._rows[begin : end + 1])))
        return self._parts[begin, end]

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions [m] and quaternions at times [s]."""
        return self._around(times).sample(times)

    def state(self, times: ArrayLike) -> BodyState:
        """Return the state at times [s]."""
        return self._around(times).state(times)


def _at_rest(vehicle: Vehicle) -> Command:
    """Default command of a vehicle: rest."""
    if VelocityCommand in vehicle.accepts:
        return VelocityCommand((0.0, 0.0, 0.0))
    return ThrustCommand(0.0, 0.0) if ThrustCommand in vehicle.accepts else DriveCommand(0.0)


def body_of(entry: VehicleEntry, folder: Path, water: Any, driver: Callable[[], ContactDriver]) -> Body:
    """Return the body of an entry; `driver` returns the scenario's driver of bodies in contact."""
    if entry.motion is not None:
        return MovedBody(entry.name, motion_of(entry.motion, folder))
    assert entry.model is not None
    floats = isinstance(vehicle_sheet(entry.model), VesselConfig)
    vehicle = vehicle_preset(entry.model, water=water if floats else None)
    start = entry.start.pose()
    follower = None
    if entry.follow is not None:
        # The route starts at the vehicle.
        route = [tuple(start.xyz), *entry.follow.points]
        follower = follow(vehicle, route, entry.follow.speed_m_s, closed=entry.follow.repeat)
    if entry.dynamics == "contact":
        return ContactBody(entry.name, vehicle, follower, start, driver())
    return DrivenBody(entry.name, vehicle, follower, start)


def motion_of(entry: MotionEntry, folder: Path) -> Trajectory:
    """Return the motion of an entry."""
    if entry.recorded is not None:
        file = folder / entry.recorded.file
        if entry.recorded.format == "tum":
            return RecordedMotion.from_tum(file)
        return RecordedMotion.from_kitti(file, rate_hz=entry.recorded.rate_hz)
    return entry.trajectory() if entry.spline is None else spline_of(entry.spline)


def spline_of(spline: SplineEntry) -> SplineMotion:
    """Return the smooth path of an entry."""
    options: dict[str, Any] = {"closed": spline.closed, "follow_slope": spline.follow_slope, "bank": spline.bank}
    if spline.times_s is not None:
        return SplineMotion(spline.points, times=spline.times_s, **options)
    limits = MotionLimits(spline.max_speed_m_s, spline.max_acceleration_m_s2, spline.max_lateral_m_s2)
    return SplineMotion(spline.points, limits=limits, start_time=spline.start_time_s, **options)
