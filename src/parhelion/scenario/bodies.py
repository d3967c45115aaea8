"""Bodies of a scenario: with a given motion, or moved step by step by a driver."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parhelion.contact.bodies import shown
from parhelion.contact.chassis import chassis_of
from parhelion.contact.driver import ContactDriver
from parhelion.contact.jointed import JointedDriver
from parhelion.core.errors import ConfigError, FieldError
from parhelion.core.history import History
from parhelion.core.pose import Floats, Pose, quat_multiply, quat_rotate
from parhelion.core.trajectory import Trajectory
from parhelion.motion.drivers import DrivenMotion, Follower, follow
from parhelion.motion.flight_lines import FlightLines
from parhelion.motion.recorded import RecordedMotion
from parhelion.motion.spline import SplineMotion
from parhelion.motion.state import BodyState, state_of
from parhelion.motion.time_law import MotionLimits
from parhelion.motion.vehicles.base import (
    Command,
    DriveCommand,
    GroundVehicle,
    Row,
    ThrustCommand,
    Vehicle,
    VelocityCommand,
    state_of_rows,
)
from parhelion.motion.vehicles.library import vehicle as vehicle_preset
from parhelion.motion.vehicles.library import vehicle_sheet
from parhelion.motion.vehicles.sheets import VesselConfig, WheelConfig
from parhelion.scenario.drivers import Driver
from parhelion.scenario.motions import MotionEntry, SplineEntry
from parhelion.scenario.robot_sheets import robot_sheet
from parhelion.scenario.robots import RobotOnBoard
from parhelion.scenario.schema import VehicleEntry
from parhelion.world.urdf import Robot


class MovedBody:
    """A body with a given motion."""

    next_command: None = None

    def __init__(self, name: str, motion: Trajectory, driver: Driver) -> None:
        self.name, self.motion, self.driver = name, motion, driver
        driver.add(name, motion, Pose())

    def restart(self) -> None:
        """Do nothing: it has no state."""

    def place(self, start: Pose) -> None:
        """Refuse another start; the motion is given for all times."""
        raise ConfigError(f"{self.name}: has a given motion and no start; use model instead of motion")

    def command(self, command: Command | None) -> None:
        """Refuse commands; the motion is given for all times."""
        if command is not None:
            raise ConfigError(f"{self.name}: has a given motion and accepts no commands; use model instead of motion")

    def record(self) -> None:
        """Do nothing: the motion is given for all times."""

    def state(self, times: ArrayLike) -> BodyState:
        """Return the state at times [s]."""
        return state_of(self.motion, times)


class LiveBody:
    """A body whose driver gives its state after each step."""

    next_command: Any = None

    def __init__(self, name: str, driver: Driver, what: Any, start: Pose) -> None:
        self.name, self.driver = name, driver
        self.number = driver.add(name, what, start)
        self.motion = LiveMotion(self._row())

    def _row(self) -> Row:
        return tuple(self.driver.rows()[self.number].tolist())

    def restart(self) -> None:
        """Forget the motion, after the driver has restarted."""
        self.motion.restart(self._row())

    def place(self, start: Pose) -> None:
        """Set the initial pose, and reset to it."""
        self.driver.place(self.number, start)
        self.restart()

    def command(self, command: Command | None) -> None:
        """Refuse commands."""
        if command is not None:
            raise ConfigError(f"{self.name}: is moved from outside and accepts no commands; use move instead")

    def record(self) -> None:
        """Record the state after the driver's step."""
        self.motion.append(self._row())

    def state(self, times: ArrayLike) -> BodyState:
        """Return the state at times [s] up to now."""
        return self.motion.state(times)


class DrivenBody(LiveBody):
    """A driven vehicle: by a command, otherwise by its follower, otherwise by its last command."""

    def __init__(self, name: str, driver: Driver, vehicle: Vehicle, follower: Follower | None, start: Pose) -> None:
        super().__init__(name, driver, vehicle, start)
        self.vehicle, self.follower = vehicle, follower
        self.stopped = False
        """True after a collision with `on_collision: stop`."""
        self._command: Command | None = None
        self.chassis = chassis_of(vehicle.config) if isinstance(driver, ContactDriver) else None  # type: ignore[attr-defined]
        """Chassis of a vehicle on wheels in contact with the ground."""
        self._encoders = [] if self.chassis is None else _encoders(self.chassis.wheels)
        self._begin_turns()

    def _begin_turns(self) -> None:
        """Angles [rad] by which the wheels have turned since the start, one row per row of the motion."""
        self._angle = np.zeros(0 if self.chassis is None else len(self.chassis.wheels))
        self._turned = History(self._angle.shape)
        self._turned.append(self._angle)

    def restart(self) -> None:
        """Forget commands, route and motion, after the driver has restarted."""
        self._command, self.stopped = None, False
        if self.follower is not None:
            self.follower.reset()
        super().restart()
        self._begin_turns()

    def command(self, command: Command | None) -> None:
        """Choose the command for the next step."""
        if command is not None:
            self._command = command
        elif self.follower is not None:
            command = self.follower(self.vehicle)
        else:
            command = self._command
        self.next_command = _at_rest(self.vehicle) if command is None or self.stopped else command

    def record(self) -> None:
        """Record the state and the turning wheels after the driver's step."""
        row, rates = self._row(), None
        if self.chassis is not None and isinstance(self.driver, ContactDriver):
            own = self.driver.wheel_rates()[self.number, : len(self._angle)]
            each = own.tolist()
            # Encoders measure the mean rate [rad/s] of their wheels.
            rates = np.array([sum(each[k] for k in some) / max(len(some), 1) for some in self._encoders])
            self._angle = self._angle + own * (row[0] - self.motion.last_s)
            self._turned.append(self._angle)
        self.motion.append(row, rates)

    def wheel(self, number: int, sign: float = 1.0) -> Callable[[Floats], Floats]:
        """Return the angle (n,) [rad] by which a wheel has turned, times a sign, as a function of times (n,) [s]."""

        def angles(times: Floats) -> Floats:
            begin, rows = self.motion.around(times)
            turned = self._turned.rows(begin, begin + len(rows))
            found: Floats = np.interp(times, rows[:, 0], turned[:, number])
            return sign * found

        return angles


class JointedBody(LiveBody):
    """A robot with joints: by a command, otherwise along its route, otherwise by its last command."""

    def __init__(
        self,
        name: str,
        driver: JointedDriver,
        robot: Robot | Path,
        root: Pose,
        follower: Follower | None,
        vehicle: Vehicle | None,
        start: Pose,
    ) -> None:
        """`root` is the pose of the root link in the vehicle frame; `vehicle` serves the controller of the route."""
        self._root, self._jointed = root.inverse(), driver
        super().__init__(name, driver, robot, start @ root)
        self.follower, self.vehicle, self._into = follower, vehicle, root
        self.stopped = False
        self._command: Any = None
        self.restart()

    def _row(self) -> Row:
        return mounted_row(self._jointed.rows()[self.number], self._root)

    def restart(self) -> None:
        """Forget commands, route and motion, after the driver has restarted."""
        self._command, self.stopped = None, False
        if self.follower is not None:
            self.follower.reset()
        super().restart()
        self._names = list(self._jointed.joints(self.number))
        self._joints = History((len(self._names),))
        self._record_joints()
        self._carry()

    def place(self, start: Pose) -> None:
        """Set the initial pose, and reset to it."""
        super().place(start @ self._into)

    def command(self, command: Any) -> None:
        """Choose the command for the next step."""
        if command is not None:
            self._command = command
        elif self.follower is not None:
            command = self.follower(self.vehicle)
        else:
            command = self._command
        self.next_command = DriveCommand(0.0) if command is None or self.stopped else command

    def record(self) -> None:
        """Record the state and the joints after the driver's step."""
        super().record()
        self._record_joints()
        self._carry()

    def _record_joints(self) -> None:
        joints = self._jointed.joints(self.number)
        self._joints.append([joints[name] for name in self._names])

    def _carry(self) -> None:
        if isinstance(self.vehicle, GroundVehicle):
            self.vehicle.carry(self._row())

    def joint(self, name: str) -> Callable[[Floats], Floats]:
        """Return the recorded positions (n,) [rad or m] of a joint as a function of times (n,) [s]."""

        def positions(times: Floats) -> Floats:
            begin, rows = self.motion.around(times)
            joints = self._joints.rows(begin, begin + len(rows))
            found: Floats = np.interp(times, rows[:, 0], joints[:, self._names.index(name)])
            return found

        return positions


def mounted_row(row: Floats, mount: Pose) -> Row:
    """State of a frame that is fixed to a body at a pose, from the state of the body."""
    quat, spin, spin_rate = row[4:8], row[11:14], row[17:20]
    lever = mount.xyz
    twist = np.cross(spin, lever)
    pull = np.cross(spin_rate, lever) + np.cross(spin, twist)
    back = mount.inverse().quat_xyzw
    parts = [
        row[:1],
        row[1:4] + quat_rotate(quat, lever),
        quat_multiply(quat, mount.quat_xyzw),
        row[8:11] + quat_rotate(quat, twist),
        quat_rotate(back, spin),
        row[14:17] + quat_rotate(quat, pull),
        quat_rotate(back, spin_rate),
    ]
    return tuple(np.concatenate(parts).tolist())


def _encoders(wheels: Sequence[WheelConfig]) -> list[list[int]]:
    """Numbers of the wheels of each encoder.

    Of a car: rear left, rear right, front left, front right; otherwise those of the left and of the right wheels.
    """
    steered = any(wheel.steered for wheel in wheels)
    groups = (
        [(False, True), (False, False), (True, True), (True, False)] if steered else [(False, True), (False, False)]
    )
    return [
        [
            k
            for k, wheel in enumerate(wheels)
            if (wheel.y_m > 0.0) == left and not wheel.caster and (wheel.steered == front or not steered)
        ]
        for front, left in groups
    ]


Body = MovedBody | LiveBody


class LiveMotion:
    """Recorded motion of a driven vehicle; it rests before its start and after its last step."""

    def __init__(self, start: Row) -> None:
        self._parts: dict[tuple[int, int], DrivenMotion] = {}
        self.restart(start)

    def restart(self, start: Row) -> None:
        """Discard all steps and start from a state."""
        self._rows, self._first_s, self._last_s = History((len(start),)), start[0], start[0]
        self._rows.append(start)
        self._parts.clear()
        self._angles: History | None = None
        self._angle: Floats = np.zeros(0)

    def append(self, row: Row, wheel_rates: Floats | None = None) -> None:
        """Record the state after a step, and the mean rates [rad/s] of the wheels in it if they turn on their own."""
        if wheel_rates is not None:
            if self._angles is None:
                self._angles, self._angle = History((len(wheel_rates),)), np.zeros(len(wheel_rates))
                self._angles.append(self._angle)
            self._angle = self._angle + wheel_rates * (row[0] - self._last_s)
            self._angles.append(self._angle)
        self._rows.append(row)
        self._last_s = row[0]

    def wheel_angles(self, times: Floats, wheels: int) -> Floats | None:
        """Angles (n, wheels) [rad] of the wheels at times [s]; None if wheels roll with the motion."""
        if self._angles is None or len(self._angle) < wheels:
            return None
        begin, rows = self.around(times)
        angles = self._angles.rows(begin, begin + len(rows))
        return np.stack([np.interp(times, rows[:, 0], angles[:, k]) for k in range(wheels)], axis=1)

    @property
    def last_s(self) -> float:
        """Time of the last step [s]."""
        return self._last_s

    def latest(self) -> BodyState:
        """Return the state after the last step."""
        return state_of_rows(self._rows.rows(len(self._rows) - 1, len(self._rows)))

    def around(self, times: ArrayLike) -> tuple[int, Floats]:
        """Recorded rows of the steps around these times, and the number of the first of them."""
        last = len(self._rows) - 1
        if last == 0:
            return 0, self._rows.rows(0, 1)
        step = (self._last_s - self._first_s) / last
        asked = np.asarray(times, dtype=np.float64)
        low, high = (asked.min(), asked.max()) if asked.size else (self._first_s, self._first_s)
        return self._rows.around((low - self._first_s) / step - 1.0, (high - self._first_s) / step + 1.0)

    def _motion(self, times: ArrayLike) -> DrivenMotion:
        """Motion of the steps around these times; a step depends on its two ends only, so this part is enough."""
        begin, rows = self.around(times)
        if len(rows) == 1:
            return DrivenMotion(state_of_rows(np.array([rows[0], rows[0] + np.eye(20)[0]])))
        part = begin, len(rows)
        if part not in self._parts:
            if len(self._parts) > 8:
                self._parts.clear()
            self._parts[part] = DrivenMotion(state_of_rows(rows.copy()))
        return self._parts[part]

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions [m] and quaternions at times [s]."""
        return self._motion(times).sample(times)

    def state(self, times: ArrayLike) -> BodyState:
        """Return the state at times [s]."""
        return self._motion(times).state(times)


def _at_rest(vehicle: Vehicle) -> Command:
    """Default command of a vehicle: rest."""
    if VelocityCommand in vehicle.accepts:
        return VelocityCommand((0.0, 0.0, 0.0))
    return ThrustCommand(0.0, 0.0) if ThrustCommand in vehicle.accepts else DriveCommand(0.0)


def body_of(entry: VehicleEntry, folder: Path, water: Any, driver: Callable[[str], Driver]) -> Body:
    """Return the body of an entry; `driver` returns the scenario's driver of a name."""
    if entry.motion is not None:
        return MovedBody(entry.name, motion_of(entry.motion, folder), driver("recorded"))
    start = entry.start.pose()
    if entry.dynamics == "external":
        return LiveBody(entry.name, driver("external"), None, start)
    if entry.dynamics == "mujoco":
        return _jointed(entry, folder, driver, start)
    vehicle = _vehicle(entry, folder, water)
    return DrivenBody(
        entry.name, driver(_dynamics(entry, vehicle, driver)), vehicle, _follower(entry, vehicle, start), start
    )


def _follower(entry: VehicleEntry, vehicle: Vehicle, start: Pose) -> Follower | None:
    """Controller of an entry's route, which starts at the vehicle."""
    if entry.follow is None:
        return None
    points = entry.follow.points
    # A route may name the start of the vehicle as its first point.
    route = [tuple(start.xyz), *(points[1:] if len(points) > 1 and np.array_equal(points[0], start.xyz) else points)]
    return follow(vehicle, route, entry.follow.speed_m_s, closed=entry.follow.repeat)


def _jointed(entry: VehicleEntry, folder: Path, driver: Callable[[str], Driver], start: Pose) -> JointedBody:
    """Robot with joints of a URDF or MJCF file."""
    engine = driver("mujoco")
    assert isinstance(engine, JointedDriver)
    if entry.mjcf is not None:
        if entry.follow is not None:
            raise ConfigError("follow: is not for robots of MJCF files; command them step by step")
        return JointedBody(entry.name, engine, folder / entry.mjcf, Pose(), None, None, start)
    assert entry.urdf is not None
    on_board = RobotOnBoard(entry.urdf, folder, 0.0)
    vehicle = _vehicle(entry, folder, None) if entry.follow is not None else None
    follower = None if vehicle is None else _follower(entry, vehicle, start)
    return JointedBody(entry.name, engine, on_board.robot, entry.urdf.pose.pose(), follower, vehicle, start)


def _vehicle(entry: VehicleEntry, folder: Path, water: Any) -> Vehicle:
    """Vehicle of a preset or, without one, of a URDF file."""
    if entry.model is not None:
        try:
            model = model_in(folder, entry.model)
            floats = isinstance(vehicle_sheet(model), VesselConfig)
        except ConfigError as error:
            raise FieldError(f"model: {error}") from None
        return vehicle_preset(model, water=water if floats else None)
    assert entry.urdf is not None
    try:
        return vehicle_preset(robot_sheet(RobotOnBoard(entry.urdf, folder, 0.0)))
    except ConfigError as error:
        raise ConfigError(f"urdf: {error}") from None


def _dynamics(entry: VehicleEntry, vehicle: Vehicle, driver: Callable[[str], Driver]) -> str:
    """Name of the driver of a vehicle: by default rays with ground below the start, hull for those without wheels."""
    rolls = isinstance(vehicle, GroundVehicle)
    if entry.dynamics in ("rays", "hull") and rolls != (entry.dynamics == "rays"):
        kinds, other = ("ground vehicles", "hull") if entry.dynamics == "rays" else ("multirotors and vessels", "rays")
        raise ConfigError(f"dynamics: {entry.dynamics} is for {kinds}, got a {type(vehicle).__name__}; use {other}")
    if entry.dynamics is not None:
        return entry.dynamics
    if not rolls:
        return "hull"
    rays = driver("rays")
    assert isinstance(rays, ContactDriver)
    start = entry.start.pose().xyz
    if not np.isnan(rays.solid.heights(start[None], 0.1)[0]):
        return "rays"
    bounds = rays.world.bounds
    if bounds is not None and ((start < bounds[0]) | (start > bounds[1]))[:2].any():
        warnings.warn(
            f"vehicles.{entry.name}.start: {shown(start)} lies outside of the world, which extends from "
            f"{shown(bounds[0][:2])} to {shown(bounds[1][:2])} m and has no ground there; it drives in the plane of "
            "its start and through walls. Move the start, or set dynamics: kinematic",
            stacklevel=2,
        )
    return "kinematic"


def model_in(folder: Path, model: str) -> str:
    """Preset name, or the path of a data sheet, which is relative to the scenario."""
    return str(folder / model) if model.lower().endswith((".yaml", ".yml")) else model


def size_of(entry: VehicleEntry, folder: Path) -> dict[str, float]:
    """Weight [kg] and size [m] of a vehicle with a data sheet."""
    if entry.model is None:
        return {}
    sheet = vehicle_sheet(model_in(folder, entry.model))
    length, width, height = sheet.size_m
    return {"weight_kg": sheet.mass_kg, "length_m": length, "width_m": width, "height_m": height}


def motion_of(entry: MotionEntry, folder: Path) -> Trajectory:
    """Return the motion of an entry."""
    if entry.recorded is not None:
        file = folder / entry.recorded.file
        if entry.recorded.format == "tum":
            return RecordedMotion.from_tum(file)
        return RecordedMotion.from_kitti(file, rate_hz=entry.recorded.rate_hz)
    if entry.flight_lines is not None:
        return FlightLines(**entry.flight_lines.model_dump())
    return entry.trajectory() if entry.spline is None else spline_of(entry.spline)


def spline_of(spline: SplineEntry) -> SplineMotion:
    """Return the smooth path of an entry."""
    options: dict[str, Any] = {"closed": spline.closed, "follow_slope": spline.follow_slope, "bank": spline.bank}
    if spline.times_s is not None:
        return SplineMotion(spline.points, times=spline.times_s, **options)
    limits = MotionLimits(spline.max_speed_m_s, spline.max_acceleration_m_s2, spline.max_lateral_m_s2)
    return SplineMotion(spline.points, limits=limits, start_time=spline.start_time_s, **options)
