"""Vehicles in contact with a world: wheels carry them over the ground, and walls stop them.

    driver = ContactDriver(World.load("off-road"))
    robot = driver.add("robot", vehicle("clearpath/husky"), Pose(xyz=(0, 0, 0)))
    collisions = driver.step([DriveCommand(0.8, 0.1)], 0.01)
    driver.rows()[robot]                                       # state at the vehicle frame, as `Vehicle.row()`

The motor and steering control is that of the vehicle model; its motion is replaced by that of the rigid body.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.contact import kernel
from parhelion.contact.chassis import body_row, chassis_of, wheel_rows
from parhelion.contact.solid import Solid
from parhelion.contact.terrain import surfaces_of
from parhelion.core.constants import STANDARD_GRAVITY_M_S2
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, quat_multiply, quat_rotate
from parhelion.motion.vehicles.base import Command
from parhelion.motion.vehicles.ground import Car, DifferentialDrive
from parhelion.rays.device import copied, engine
from parhelion.rays.lock import locked
from parhelion.rays.records import Rays
from parhelion.world.world import World

SUBSTEP_S = 0.002
_MARGIN_M = 0.3
"""Distance around a hull within which triangles are listed; they are listed again after half of it."""
_DEEPEST_START_M = 0.02
_BODY, _WHEEL = len(kernel.STATE), len(kernel.WHEEL_STATE)


@dataclass(frozen=True)
class Collision:
    """Contact of a vehicle's hull with something in one step."""

    body: str
    """Name of the vehicle."""
    other: str
    """Name of the object, or its label if it has no name."""
    xyz: tuple[float, float, float]
    """Position in the world [m] of the strongest contact."""
    normal: tuple[float, float, float]
    """Unit normal toward the vehicle."""
    impulse_n_s: float
    """Sum of the normal impulses [N s] of the step."""


@dataclass
class _Member:
    """A vehicle of the driver."""

    name: str
    vehicle: Car | DifferentialDrive
    start: Floats
    offset: Floats
    """Centre of mass in the vehicle frame [m]."""


class ContactDriver:
    """Moves ground vehicles in contact with the static solid parts of a world; all of them in one kernel."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._look_at_world()
        self._members: list[_Member] = []
        self._listed: Floats = np.zeros((0, 3))
        self._listed_rows: NDArray[np.int64] = np.zeros(0, np.int64)
        self._reach: Floats = np.zeros(0)
        self._near: Any = None
        self._triangles: Any = None
        self._time = 0.0
        self._state = np.zeros((0, 0))
        self._rows: Floats = np.zeros((0, 20))
        self._reset_arrays()

    def add(self, name: str, vehicle: Any, start: Pose) -> int:
        """Place a vehicle on the ground at a pose and return its number.

        A start below the ground is raised onto it with a warning; a start above it falls.
        """
        if not isinstance(vehicle, Car | DifferentialDrive):
            raise ConfigError(f"{name}: contact is for ground vehicles, got {type(vehicle).__name__}")
        chassis = chassis_of(vehicle.config)
        offset = np.array(chassis.centre_of_mass_m)
        wheels = np.array([(wheel.x_m, wheel.y_m) for wheel in chassis.wheels])
        pose = self._on_ground(name, start, wheels, float(vehicle.config.size_m[2]))
        state = np.zeros(_BODY)
        state[:3], state[3:7] = pose.xyz + quat_rotate(pose.quat_xyzw, offset), pose.quat_xyzw
        self._members.append(_Member(name, vehicle, state, offset))
        self.restart()
        return len(self._members) - 1

    def restart(self) -> None:
        """Reset all vehicles to their start, at rest."""
        self._time = 0.0
        count = max((len(chassis_of(one.vehicle.config).wheels) for one in self._members), default=0)
        self._wheels = 4 if count <= 4 else 12
        self._state = np.zeros((_BODY + self._wheels * _WHEEL, len(self._members)))
        for k, one in enumerate(self._members):
            self._state[:_BODY, k] = one.start
            one.vehicle.reset(Pose(), time=0.0)
        self._reset_arrays()
        self._rows = self._frames(np.zeros((2, len(self._members), 3)))
        self._carry()

    def rows(self) -> Floats:
        """States at the vehicle frames, shape (n, 20), in the order of `Vehicle.row()`."""
        return self._rows

    def save(self) -> bytes:
        """Return the state; the same vehicles resume from it with the same bits."""
        return np.concatenate([[self._time], self._state.ravel(), self._rows.ravel()]).tobytes()

    def load(self, state: bytes) -> None:
        """Resume from a saved state."""
        values = np.frombuffer(state, np.float64)
        if values.size != 1 + self._state.size + self._rows.size:
            raise ConfigError("contact: the saved state is not of these vehicles")
        self._time, middle = float(values[0]), 1 + self._state.size
        self._state = values[1:middle].reshape(self._state.shape).copy()
        self._rows = values[middle:].reshape(self._rows.shape).copy()
        self._listed[:] = np.inf
        self._carry()

    # ---- stepping --------------------------------------------------------------------------------------------------

    @locked
    def step(self, commands: Sequence[Command], dt: float) -> list[Collision]:
        """Advance all vehicles by `dt` [s] and return the contacts of their hulls."""
        if not self._members:
            return []
        if self._version != self.world.version:
            self._look_at_world()
            self._reset_arrays()
        running = engine()
        targets = np.stack([self._targets(k, command, dt) for k, command in enumerate(commands)], axis=-1)
        self._list_triangles()
        count = max(1, round(dt / SUBSTEP_S))
        before = self._state[7:13].copy()
        advance = running.frozen(_ADVANCE[self._wheels], casts=True)
        after, report = advance(
            running.counting(len(self._members)), running.whole(len(self._members)), self.solid.scene.for_kernels(),
            *self._constants, _doubles(targets), _doubles(self._state), self._near, self._triangles,
            _doubles(np.array([dt / count, float(count)])),
        )  # fmt: skip
        running.dr.eval(after, report)
        self._state = np.stack([copied(one) for one in after])
        reported = np.stack([copied(one) for one in report])
        self._time += dt
        self._rows = self._frames(self._rates(before, dt))
        self._carry()
        return self._collisions(reported)

    def _targets(self, number: int, command: Command, dt: float) -> Floats:
        """Commands (wheels, columns) of a vehicle's wheels, by its own motor and steering control."""
        vehicle = self._members[number].vehicle
        chassis = chassis_of(vehicle.config)
        result = np.zeros((self._wheels, len(kernel.COMMAND)))
        vehicle.step(command, dt)
        if isinstance(vehicle, DifferentialDrive):
            left, right = vehicle.wheel_rates_rad_s
            for k, wheel in enumerate(chassis.wheels):
                if wheel.driven:
                    result[k] = (left if wheel.y_m > 0.0 else right), 0.0, chassis.max_wheel_torque_n_m
            return result
        # A driver compensates for the slope; brakes act on all wheels, the engine on the driven ones.
        climb = -STANDARD_GRAVITY_M_S2 * _forward(self._state[3:7, number])[2]
        wanted = vehicle.wanted_acceleration - climb
        speed = vehicle.speed_m_s
        stops = wanted * speed < 0.0 or (abs(vehicle.wanted_speed) < 1e-6 and abs(speed) < 0.3)
        acting = [wheel.driven or stops for wheel in chassis.wheels]
        holds = stops and abs(speed) < 0.3
        force = vehicle.config.mass_kg * (vehicle.config.max_braking_m_s2 if holds else abs(wanted))
        for k, wheel in enumerate(chassis.wheels):
            target = 0.0 if stops else (speed + math.copysign(2.0, wanted)) / wheel.radius_m
            torque = force * wheel.radius_m / sum(acting) if acting[k] else 0.0
            result[k] = target, (vehicle.steering_rad if wheel.steered else 0.0), torque
        return result

    def _list_triangles(self) -> None:
        """List the triangles near each hull, if a hull has moved since the last list."""
        place = self._state[:3].T - self.solid.scene.origin
        if np.all(np.abs(place - self._listed) < 0.5 * _MARGIN_M):
            return
        self._listed = place.copy()
        reach = self._reach[:, None] + _MARGIN_M
        rows = [self.solid.near(low, high) for low, high in zip(place - reach, place + reach, strict=True)]
        counts = np.array([len(one) for one in rows])
        self._listed_rows = np.concatenate(rows)
        size = 1 << max(6, int(counts.sum() - 1).bit_length())
        table = np.zeros((size, kernel.TRIANGLE))
        table[: len(self._listed_rows), :9] = self.solid.corners[self._listed_rows].reshape(-1, 9)
        self._triangles = _doubles(table)
        self._near = engine().table(np.stack([np.cumsum(counts) - counts, counts]).astype(np.uint32))

    def _collisions(self, report: Floats) -> list[Collision]:
        found = []
        for k in np.flatnonzero(report[8] > 0.0).tolist():
            part = self.solid.triangles.part[self._listed_rows[int(report[1, k])]]
            x, y, z, nx, ny, nz = report[2:8, k].tolist()
            found.append(
                Collision(self._members[k].name, self._named(int(part)), (x, y, z), (nx, ny, nz), float(report[8, k]))
            )
        return found

    def _named(self, part: int) -> str:
        index = int(self.world.parts.object_index[part])
        name = next((one.name for one in self.world.objects if one.index == index), "")
        return name or self.world.label_names[int(self.world.parts.label[part])]

    # ---- state -----------------------------------------------------------------------------------------------------

    def _look_at_world(self) -> None:
        """Build the solid triangles of the world as it is now."""
        self.solid, self._surfaces, self._version = Solid.of(self.world), surfaces_of(self.world), self.world.version

    def _reset_arrays(self) -> None:
        count = len(self._members)
        self._listed = np.full((count, 3), np.inf)
        if not count:
            return
        sheets = [(one.vehicle.config, chassis_of(one.vehicle.config)) for one in self._members]
        bodies = np.stack([body_row(sheet, chassis) for sheet, chassis in sheets], axis=-1)
        wheels = np.stack([wheel_rows(sheet.mass_kg, chassis, self._wheels) for sheet, chassis in sheets], axis=-1)
        self._reach = np.linalg.norm(bodies[4:7], axis=0) + np.linalg.norm(bodies[7:10], axis=0)
        surfaces = engine().table(self._surfaces)
        self._constants = (_doubles(self.solid.scene.origin), surfaces, _doubles(bodies), _doubles(wheels))

    def _rates(self, before: Floats, dt: float) -> Floats:
        """Mean accelerations of the step: of the centre of mass in the world, and angular in the body frame."""
        change = (self._state[7:13] - before) / dt
        return np.stack([change[:3].T, change[3:].T])

    def _frames(self, rates: Floats) -> Floats:
        """Rows of the vehicle frames from the states of the centres of mass."""
        xyz, quat, velocity, spin = (self._state[a:b].T for a, b in ((0, 3), (3, 7), (7, 10), (10, 13)))
        lever = -np.array([one.offset for one in self._members]).reshape(-1, 3)
        twist = np.cross(spin, lever)
        pull = np.cross(rates[1], lever) + np.cross(spin, twist)
        parts = [
            np.full((len(lever), 1), self._time), xyz + quat_rotate(quat, lever), quat,
            velocity + quat_rotate(quat, twist), spin, rates[0] + quat_rotate(quat, pull), rates[1],
        ]  # fmt: skip
        return np.concatenate(parts, axis=1)

    def _carry(self) -> None:
        """Give the vehicle models the poses and speeds of their bodies."""
        for one, row in zip(self._members, self._rows.tolist(), strict=True):
            one.vehicle.carry(row)

    def _on_ground(self, name: str, start: Pose, wheels: Floats, height: float) -> Pose:
        """Pose on the plane under the wheels, with the heading of the start."""
        corners = start.xyz + quat_rotate(start.quat_xyzw, np.column_stack([wheels, np.zeros(len(wheels))]))
        ground = self._heights(corners, height)
        if np.all(np.isnan(ground)):
            raise ConfigError(f"{name}: no ground under its start at {_shown(start.xyz)}; move it into the world")
        level = np.where(np.isnan(ground), np.nanmax(ground), ground)
        above = corners[:, 2] - level
        if above.min() > height:
            return start
        if above.min() < -_DEEPEST_START_M:
            warnings.warn(
                f"{name}: its start at {_shown(start.xyz)} is {-above.min():.2f} m below the ground; raised onto it",
                stacklevel=4,
            )
        slope = np.linalg.lstsq(np.column_stack([corners[:, :2], np.ones(len(corners))]), level, rcond=None)[0]
        up = np.array([-slope[0], -slope[1], 1.0])
        up /= np.linalg.norm(up)
        tilt = np.array([-up[1], up[0], 0.0, 1.0 + up[2]])
        yaw = math.atan2(*_forward(start.quat_xyzw)[1::-1])
        turn = np.array([0.0, 0.0, math.sin(0.5 * yaw), math.cos(0.5 * yaw)])
        z = float(slope[0] * start.xyz[0] + slope[1] * start.xyz[1] + slope[2])
        quat = quat_multiply(tilt / np.linalg.norm(tilt), turn)
        return Pose(xyz=(float(start.xyz[0]), float(start.xyz[1]), z), quat_xyzw=tuple(quat.tolist()))

    def _heights(self, points: Floats, height: float) -> Floats:
        """Ground heights [m] at points (n, 3): below them and their vehicle's height, otherwise above; NaN if none."""
        count, far = len(points), np.full(len(points), 1e5)
        down = self.solid.scene.cast(
            Rays(
                points + np.array([0.0, 0.0, 0.5 * height]), np.tile([0.0, 0.0, -1.0], (count, 1)), np.zeros(count), far
            )
        )
        up = self.solid.scene.cast(Rays(points, np.tile([0.0, 0.0, 1.0], (count, 1)), np.zeros(count), far))
        below = points[:, 2] + 0.5 * height - down.range
        return np.where(down.found, below, np.where(up.found, points[:, 2] + up.range, np.nan))


def _shown(xyz: Floats) -> str:
    return "(" + ", ".join(f"{one:g}" for one in xyz.tolist()) + ")"


def _forward(quat: Floats) -> Floats:
    """Direction of the body's x axis in the world."""
    return quat_rotate(quat, np.array([1.0, 0.0, 0.0]))


def _doubles(values: Floats) -> Any:
    """Copy of an array as float64 in kernel memory, aligned so that every copy uses the same kernel."""
    flat = np.ascontiguousarray(values, np.float64).ravel()
    buffer = np.empty(8 * flat.size + 64, np.uint8)
    start = -buffer.__array_interface__["data"][0] % 64
    aligned = buffer[start : start + 8 * flat.size].view(np.float64)
    aligned[:] = flat
    return engine().mi.Float64(aligned)


def _advance_4(*args: Any) -> Any:
    return kernel.advance(4, *args)


def _advance_12(*args: Any) -> Any:
    return kernel.advance(12, *args)


_ADVANCE = {4: _advance_4, 12: _advance_12}
