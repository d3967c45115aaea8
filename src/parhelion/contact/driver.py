"""Vehicles in contact with a world: wheels carry them over the ground, and walls stop them.

    driver = ContactDriver(World.load("off-road"))
    robot = driver.add("robot", vehicle("clearpath/husky"), Pose(xyz=(0, 0, 0)))
    collisions = driver.step([DriveCommand(0.8, 0.1)], 0.01)
    driver.rows()[robot]                                       # state at the vehicle frame, as `Vehicle.row()`

The motor and steering control is that of the vehicle model; its motion is replaced by that of the rigid body.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.contact import boxes, kernel, pairs
from parhelion.contact.bodies import CLEARANCE_M, SHRUNK_M, Bodies, Collision, forward, shown
from parhelion.contact.chassis import body_row, chassis_of, wheel_rows
from parhelion.contact.near import NearLists
from parhelion.contact.obstacles import Obstacles
from parhelion.contact.solid import MOVING_SOFT_LABELS, SOFT_LABELS
from parhelion.contact.terrain import is_wet, surfaces_of
from parhelion.core.constants import STANDARD_GRAVITY_M_S2
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, quat_rotate
from parhelion.motion.vehicles.base import Command
from parhelion.motion.vehicles.ground import Car, DifferentialDrive
from parhelion.motion.vehicles.sheets import ChassisConfig
from parhelion.rays.device import copied, engine
from parhelion.rays.lock import locked
from parhelion.world.world import World

SUBSTEP_S = 0.0025
_SUBSTEPS_TOGETHER = 3
"""Substeps between two rounds of impulses between vehicles that may touch."""
LONGEST_LAUNCH_S = 0.02
"""Longest time [s] that a single launch of the kernel covers; motor control acts at least this often."""
STUCK_S, ROLLED_S = 2.0, 0.5
"""Times [s] after which a vehicle counts as stuck or rolled over."""
_STUCK_SHARE, _MOVING_M_S = 0.1, 0.05
_ROLLED_COSINE = 0.3
"""Cosine of the tilt, 73 degrees, beyond which a vehicle counts as rolled over."""
_MOST_EFFORT = 3.0
_BODY, _WHEEL, _REPORT = len(kernel.STATE), len(kernel.WHEEL_STATE), len(kernel.REPORT)
_FIRST_PAD = 6


@dataclass(frozen=True)
class Event:
    """An event of a vehicle."""

    time_s: float
    body: str
    """Name of the vehicle."""
    kind: str
    """'stuck', 'rolled over' or 'left the ground'."""
    xyz: tuple[float, float, float]
    """Position of the vehicle frame in the world [m]."""


@dataclass
class _Member:
    """A vehicle of the driver."""

    name: str
    vehicle: Car | DifferentialDrive
    start: Floats
    offset: Floats
    """Centre of mass in the vehicle frame [m]."""
    chassis: ChassisConfig
    slow_s: float = 0.0
    """Time [s] for which it has been commanded to move and has not."""
    tilted_s: float = 0.0
    effort: float = 0.0
    """Acceleration [m/s^2] by which a car's driver makes up for resistance."""
    reported: tuple[str, ...] = ()
    """Kinds of events that still last."""


class ContactDriver(Bodies):
    """Moves ground vehicles in contact with the solid parts of a world and with each other; all of them in one kernel.

    Args:
        world: World with ground.
        gravity: Gravity [m/s^2] in the world; tyres are set up for standard gravity.
        mutual: True for contact between the vehicles.
    """

    obstacles: Obstacles
    """Moving actors of the world."""
    _lists: NearLists
    _listed: NDArray[np.int64]
    _spans: Floats
    _triangles: Any
    _constants: tuple[Any, ...]
    _parameters: Floats
    _wet: bool
    _members: list[_Member]
    _device_state: Any
    _half: Floats
    _centre: Floats
    _mass: Floats
    _inertia: Floats
    _surface: Floats

    def __init__(
        self,
        world: World,
        gravity: tuple[float, float, float] = (0.0, 0.0, -STANDARD_GRAVITY_M_S2),
        *,
        mutual: bool = True,
    ) -> None:
        super().__init__(world)
        self.mutual = mutual
        self.gravity: Floats = np.array(gravity)
        """Gravity (3,) [m/s^2]; it may change between steps."""
        self._time = 0.0
        self._weather: Any = None
        self._steady = True
        self._look_at_world()
        self._events: list[Event] = []
        self._wheels = 4
        self._state = np.zeros((0, 0))
        self._rows: Floats = np.zeros((0, 20))
        self._reset_arrays()

    def _check_apart(self, number: int) -> None:
        """Refuse the start of a vehicle inside of another one."""
        hulls = self._hulls()
        others = np.array([k for k in range(len(self._members)) if k != number and self.mutual], np.int64)
        gaps = pairs.separation(hulls[others], hulls[np.full(len(others), number)])[1]
        for k in others[gaps < -SHRUNK_M].tolist():
            name, start = self._members[number].name, self._members[number].start[:3]
            raise ConfigError(
                f"{name}: its hull overlaps {self._members[k].name!r} at its start at {shown(start)}; "
                "move the start into free space"
            )

    def _member(self, name: str, vehicle: Any, start: Pose) -> _Member:
        if not isinstance(vehicle, Car | DifferentialDrive):
            raise ConfigError(f"{name}: contact is for ground vehicles, got {type(vehicle).__name__}")
        chassis = chassis_of(vehicle.config)
        offset = np.array(chassis.centre_of_mass_m)
        wheels = np.array([(wheel.x_m, wheel.y_m) for wheel in chassis.wheels])
        pose = self._on_ground(name, start, wheels, float(vehicle.config.size_m[2]))
        state = np.zeros(_BODY)
        state[:3], state[3:7] = pose.xyz + quat_rotate(pose.quat_xyzw, offset), pose.quat_xyzw
        body = body_row(vehicle.config, chassis)
        hubs = np.array([(one.x_m, one.y_m, one.radius_m, one.radius_m) for one in chassis.wheels])
        hubs[:, :3] -= offset
        state[2] += self._raised(name, state, body, hubs)
        return _Member(name, vehicle, state, offset, chassis)

    def restart(self) -> None:
        """Reset all vehicles to their start, at rest."""
        self._time = 0.0
        count = max((len(one.chassis.wheels) for one in self._members), default=0)
        self._wheels = 4 if count <= 4 else 12
        self._state = np.zeros((_BODY + self._wheels * _WHEEL, len(self._members)))
        self._events = []
        for k, one in enumerate(self._members):
            self._state[:_BODY, k] = one.start
            one.slow_s, one.tilted_s, one.effort, one.reported = 0.0, 0.0, 0.0, ()
            one.vehicle.reset(Pose(), time=0.0)
        self._reset_arrays()
        self._rows = self._standing()
        self._carry()

    def rows(self) -> Floats:
        """States at the vehicle frames, shape (n, 20), in the order of `Vehicle.row()`."""
        return self._rows

    def events(self) -> list[Event]:
        """Events since the start, in order of time. An event that lasts is reported once."""
        return list(self._events)

    def wheel_loads(self) -> Floats:
        """Normal forces [N] of the wheels, shape (n, wheels), 0 for wheels that a vehicle does not have."""
        return self._wheel_state("load")

    def wheel_rates(self) -> Floats:
        """Angular velocities [rad/s] of the wheels, shape (n, wheels), as encoders measure them."""
        return self._wheel_state("rate")

    def sinkages(self) -> Floats:
        """Depths [m] of the wheels in soft soil, shape (n, wheels)."""
        return self._wheel_state("sinkage")

    def lifts(self) -> Floats:
        """Heights [m] of the wheels above their places at rest, by their suspension, shape (n, wheels)."""
        return self._wheel_state("lift")

    def _wheel_state(self, name: str) -> Floats:
        first = _BODY + kernel.WHEEL_STATE.index(name)
        return self._state[first::_WHEEL].T.copy()

    def clearances(self) -> Floats:
        """Distances [m] in the horizontal plane of each vehicle to the nearest obstacle, shape (n,).

        An obstacle is anything solid between the lower and the upper side of the hull: objects, other vehicles and
        actors, and the edge of the world. Infinite beyond 10 m; 0 in contact.
        """
        own, origin = self._hulls(), self.solid.scene.origin
        moving = self.obstacles.near(own.place, own.reach + CLEARANCE_M, self._time, SUBSTEP_S)
        every = own if moving is None else own.joined(moving[1])
        shapes = [one - origin for one in every.triangles()]
        return self._clearances(own.place - origin, own.turn, self._centre, self._half, shapes)

    # ---- saving ----------------------------------------------------------------------------------------------------

    def save(self) -> bytes:
        """Return the state; the same vehicles resume from it with the same bits."""
        control = {
            "vehicles": [_control(one.vehicle) for one in self._members],
            "watch": [[one.slow_s, one.tilted_s, one.effort, list(one.reported)] for one in self._members],
            "events": [asdict(one) for one in self._events],
            "recoils": self.obstacles.recoils,
        }
        text = json.dumps(control).encode()
        numbers = np.concatenate([[len(text), self._time], self._state.ravel(), self._rows.ravel()])
        return numbers.tobytes() + text

    def load(self, state: bytes) -> None:
        """Resume from a saved state."""
        size = 8 * (2 + self._state.size + self._rows.size)
        values = np.frombuffer(state[:size], np.float64) if len(state) > size else np.zeros(1)
        if values[0] != len(state) - size:
            raise ConfigError("contact: the saved state is not of these vehicles")
        control = json.loads(state[size:])
        self._time, middle = float(values[1]), 2 + self._state.size
        self._state = values[2:middle].reshape(self._state.shape).copy()
        self._rows = values[middle:].reshape(self._rows.shape).copy()
        self._events = [Event(**{**one, "xyz": tuple(one["xyz"])}) for one in control["events"]]
        self._forget()
        self.obstacles.recoils = control["recoils"]
        self._carry()
        for one, saved, watch in zip(self._members, control["vehicles"], control["watch"], strict=True):
            (one.slow_s, one.tilted_s, one.effort), one.reported = watch[:3], tuple(watch[3])
            for name, value in saved.items():
                setattr(one.vehicle, name, tuple(value) if isinstance(value, list) else value)

    # ---- stepping --------------------------------------------------------------------------------------------------

    @locked
    def step(self, commands: Sequence[Command], dt: float) -> list[Collision]:
        """Advance all vehicles by `dt` [s] and return the contacts of their hulls."""
        if not self._members:
            return []
        if self._version != self.world.version:
            self._look_at_world()
            self._reset_arrays()
        self._look_at_weather()
        launches = max(1, math.ceil(dt / LONGEST_LAUNCH_S - 1e-9))
        part = dt / launches
        contacts = Contacts(len(self._members))
        changes: Any = 0.0
        for _ in range(launches):
            inputs = np.array([self._targets(k, command, part) for k, command in enumerate(commands)]).T
            begin, substeps = self._time, max(1, round(part / SUBSTEP_S))
            close = self._close(part)
            # Bodies that may touch take few substeps at a time, with impulses between them.
            pieces = math.ceil(substeps / _SUBSTEPS_TOGETHER) if close is not None else 1
            for k in range(pieces):
                count = substeps * (k + 1) // pieces - substeps * k // pieces
                duration = part * count / substeps
                impacts = 0.0 if close is None else self._collide(close, duration, contacts)
                changes = changes + impacts + self._launch(inputs, part / substeps, count, contacts) * duration
            self._time = begin + part
            self._rows[:, 0] = self._time
            self.obstacles.settle(part)
            self._carry()
        self._rows[:, 14:20] = (changes / dt).T
        self._watch(commands, dt)
        return self._collisions(contacts)

    def _launch(self, targets: Floats, substep: float, substeps: int, contacts: Contacts) -> Floats:
        """Advance by one launch of the kernel; returns the mean accelerations (6, n) of the vehicle frames."""
        running, count = engine(), len(self._members)
        self._list_triangles(substep * substeps, substep)
        header = [substep, float(substeps), *self.solid.scene.origin.tolist(), *self.gravity.tolist()]
        inputs = _doubles(np.concatenate([header, self._spans, targets.ravel()]))
        state = self._device_state
        if state is None:
            block = np.zeros((count, kernel.columns(self._wheels)))
            block[:, : len(self._state)] = self._state.T
            state = _doubles(block)
        after = running.frozen(_ADVANCE[self._wheels], casts=True)(
            count,
            running.counting(count),
            running.whole(count),
            self.solid.scene.for_kernels(),
            *self._constants,
            inputs,
            state,
            self._triangles,
        )
        running.dr.eval(after)
        self._device_state = after
        values = np.ascontiguousarray(copied(after).reshape(count, -1).T)
        size = len(self._state)
        self._state = values[:size]
        if pairs.limit_speeds(self._state):
            self._device_state = None
        self._rows = np.empty((count, 20))
        self._rows[:, 1:] = values[size + _REPORT :].T
        contacts.add(values[size : size + _REPORT], self._listed)
        return values[-6:]

    # ---- contact between vehicles and with actors ------------------------------------------------------------------

    def _hulls(self) -> pairs.Hulls:
        """Hulls of the vehicles as they are now."""
        state = self._state[:_BODY].T
        turn = boxes.rotation(state[:, 3:7])
        spin = (turn @ state[:, 10:13, None])[:, :, 0]
        return pairs.Hulls(
            self._mass,
            self._inertia,
            self._half,
            self._centre,
            self._surface[:, 0],
            self._surface[:, 1],
            state[:, :3].copy(),
            turn,
            state[:, 7:10].copy(),
            spin,
            np.arange(len(state)),
        )

    def _close(self, dt: float) -> _Close | None:
        """Pairs of vehicles, and of vehicles and actors, that could touch within `dt` [s]; None if there are none."""
        count = len(self._members)
        if not self.obstacles.names and (not self.mutual or count < 2):
            return None
        place = self._state[:3].T
        fast = np.sqrt((self._state[7:10] ** 2).sum(axis=0)) + 1.0
        reach = self._lists.lever + fast * dt + 0.05
        moving = self.obstacles.near(place, reach, self._time, dt)
        actors = None if moving is None else moving[1]
        apart = np.sqrt(((place[:, None] - place[None]) ** 2).sum(axis=2))
        first, second = np.nonzero(np.triu(apart < reach[:, None] + reach[None], 1) & self.mutual)
        if actors is not None:
            apart = np.sqrt(((place[:, None] - actors.place[None]) ** 2).sum(axis=2))
            one, other = np.nonzero(apart < reach[:, None] + (actors.reach + actors.fastest * dt)[None])
            first, second = np.concatenate([first, one]), np.concatenate([second, other + count])
        if not len(first):
            return None
        own = self._hulls()
        every = own if actors is None else own.joined(_after(actors, count))
        ahead = every.fastest + 1.0
        near = pairs.separation(every[first], every[second])[1] < (ahead[first] + ahead[second]) * dt + kernel.SLOP_M
        if not near.any():
            return None
        return _Close(first[near], second[near], *((np.zeros(0, np.int64), None) if moving is None else moving))

    def _collide(self, close: _Close, dt: float, contacts: Contacts) -> Floats:
        """Apply the impulses between vehicles, and with actors, for the next `dt` [s].

        Returns the changes (6, n) of the velocities of the vehicle frames, in the world, and of the angular velocities.
        """
        count, own, actors = len(self._members), self._hulls(), close.actors
        every = own if actors is None else own.joined(_after(actors, count))
        before = every.velocity.copy()
        rows, totals, points, normals = pairs.collide(every, close.first, close.second, dt)
        changes = np.zeros((6, count))
        if len(rows):
            spin = (every.spin[:count, None] @ own.turn)[:, 0]
            touched = np.zeros(count, bool)
            touched[close.first[rows]] = True
            touched[close.second[rows][close.second[rows] < count]] = True
            turned = np.where(touched[:, None], spin - self._state[10:13].T, 0.0)
            moved = every.velocity[:count] - before[:count]
            offsets = np.array([one.offset for one in self._members])
            changes[:3] = (moved - (own.turn @ np.cross(turned, offsets)[:, :, None])[:, :, 0]).T
            changes[3:] = turned.T
            self._state[7:10], self._state[10:13] = every.velocity[:count].T, self._state[10:13] + turned.T
            pairs.limit_speeds(self._state)
            self._device_state = None
            for row, *contact in zip(rows, totals.tolist(), points, normals, strict=True):
                second = int(close.second[row])
                actor = int(close.rows[second - count]) if second >= count else -1
                contacts.add_pair(int(close.first[row]), second if actor < 0 else -1, actor, *contact)
        if actors is not None:
            change = every.velocity[count:] - before[count:]
            self.obstacles.push(actors.body, change)
            actors.velocity = actors.velocity + change
            actors.place = actors.place + (actors.velocity - self.obstacles.recoil_of(actors.body)) * dt
        return changes

    def _targets(self, number: int, command: Command, dt: float) -> list[float]:
        """Commands of a vehicle's wheels, one wheel after the other, by its own motor and steering control."""
        one = self._members[number]
        vehicle, chassis = one.vehicle, one.chassis
        result = [0.0] * (self._wheels * len(kernel.COMMAND))
        vehicle.step(command, dt)
        if isinstance(vehicle, DifferentialDrive):
            left, right = vehicle.wheel_rates_rad_s
            for k, wheel in enumerate(chassis.wheels):
                if wheel.driven:
                    result[3 * k], result[3 * k + 2] = left if wheel.y_m > 0.0 else right, chassis.max_wheel_torque_n_m
            return result
        # A driver compensates for the slope; brakes act on all wheels by their load, the engine on the driven ones.
        climb = float(self.gravity @ forward(self._state[3:7, number]))
        speed, asked = vehicle.speed_m_s, vehicle.wanted_speed
        # Soil, air and tyres resist more than the model of the driver knows: a slow integral part makes up for it.
        error = asked - speed
        settles = asked != 0.0 and abs(error) < 1.0
        one.effort = min(max(one.effort + 0.5 * error * dt, -_MOST_EFFORT), _MOST_EFFORT) if settles else 0.0
        wanted = vehicle.wanted_acceleration + one.effort - climb
        stops = wanted * speed < 0.0 or (abs(asked) < 1e-6 and abs(speed) < 0.3)
        shares = [1.0 * (wheel.driven or stops) for wheel in chassis.wheels]
        if stops:
            loads = self._state[_BODY + 3 :: _WHEEL, number][: len(shares)].tolist()
            shares = loads if sum(loads) > 0.0 else shares
        holds = stops and abs(speed) < 0.3
        force = vehicle.config.mass_kg * (vehicle.config.max_braking_m_s2 if holds else abs(wanted))
        for k, wheel in enumerate(chassis.wheels):
            target = 0.0 if stops else (speed + math.copysign(2.0, wanted)) / wheel.radius_m
            torque = force * wheel.radius_m * shares[k] / sum(shares)
            result[3 * k : 3 * k + 3] = target, (vehicle.steering_rad if wheel.steered else 0.0), torque
        return result

    def _list_triangles(self, dt: float, substep: float) -> None:
        """Renew the lists of triangles near the hulls, if a hull may leave its list."""
        if not self._lists.update(self._state[:13], dt, substep) and self._triangles is not None:
            return
        counts = np.array([len(rows) for rows in self._lists.rows])
        self._listed = np.concatenate(self._lists.rows)
        table = np.zeros((1 << max(_FIRST_PAD, (len(self._listed) - 1).bit_length()), kernel.TRIANGLE))
        table[: len(self._listed)] = self.solid.corners[self._listed].reshape(-1, kernel.TRIANGLE)
        self._triangles = _doubles(table)
        self._spans = np.concatenate([np.cumsum(counts) - counts, counts]).astype(float)

    def _collisions(self, contacts: Contacts) -> list[Collision]:
        found: list[Collision] = []
        if not contacts.any:
            return found
        for k in np.flatnonzero(contacts.total > 0.0).tolist():
            x, y, z, nx, ny, nz = contacts.where[:, k].tolist()
            vehicle = int(contacts.vehicle[k])
            actor = int(contacts.actor[k])
            other = self.obstacles.names[actor] if actor >= 0 else self._named(int(contacts.row[k]))
            other = self._members[vehicle].name if vehicle >= 0 else other
            found.append(Collision(self._members[k].name, other, (x, y, z), (nx, ny, nz), float(contacts.total[k])))
        return found

    def _watch(self, commands: Sequence[Command], dt: float) -> None:
        """Find events: vehicles that are stuck, rolled over, or below all ground."""
        rows, lowest = self._rows.tolist(), self.solid.lowest_m
        for one, row, command in zip(self._members, rows, commands, strict=True):
            wanted = abs(getattr(command, "speed_m_s", 0.0))
            speed = math.sqrt(row[8] ** 2 + row[9] ** 2 + row[10] ** 2)
            moves = wanted < _MOVING_M_S or speed > _STUCK_SHARE * wanted
            one.slow_s = 0.0 if moves else one.slow_s + dt
            upright = 1.0 - 2.0 * (row[4] ** 2 + row[5] ** 2) > _ROLLED_COSINE
            one.tilted_s = 0.0 if upright else one.tilted_s + dt
            now = {
                "stuck": one.slow_s >= STUCK_S,
                "rolled over": one.tilted_s >= ROLLED_S,
                "left the ground": row[3] < lowest - 0.2,
            }
            for kind, lasts in now.items():
                if lasts and kind not in one.reported:
                    self._events.append(Event(self._time, one.name, kind, (row[1], row[2], row[3])))
            one.reported = tuple(kind for kind, lasts in now.items() if lasts)

    # ---- state -----------------------------------------------------------------------------------------------------

    def _look_at_world(self) -> None:
        """Build the solid triangles of the world as it is now."""
        self._build(SOFT_LABELS)
        self._wet = is_wet(self.world, self._time)

    def _look_at_weather(self) -> None:
        """Let the ground become wet or dry with the weather."""
        weather = self.world.weather
        if weather is self._weather and (weather is None or self._steady):
            return
        self._weather, self._steady = weather, weather is None or weather.is_constant
        if self._wet != is_wet(self.world, self._time):
            self._wet = not self._wet
            self._tables()

    def _tables(self) -> None:
        """Copy the properties of surfaces and vehicles to the device."""
        self._constants = (engine().table(surfaces_of(self.world, wet=self._wet)), _doubles(self._parameters))

    def _reset_arrays(self) -> None:
        count = len(self._members)
        sheets = [(one.vehicle.config, one.chassis) for one in self._members]
        bodies = np.array([body_row(*one) for one in sheets]).reshape(count, len(kernel.BODY))
        wheels = [wheel_rows(*one, self._wheels).ravel() for one in sheets]
        self._half = bodies[:, 4:7]
        self._centre = bodies[:, 7:10]
        self._mass = bodies[:, 0]
        self._inertia = bodies[:, 1:4]
        self._surface = bodies[:, 10:12]
        self._lists = NearLists(self.solid, self._half, self._centre)
        own = {one.name for one in self._members}
        self.obstacles = Obstacles(self.world, own, MOVING_SOFT_LABELS)
        self._listed = np.zeros(0, np.int64)
        self._spans = np.zeros(2 * count)
        self._forget()
        if count:
            self._parameters = np.concatenate([bodies, np.array(wheels)], axis=1).T
            self._tables()

    def _forget(self) -> None:
        """Discard everything that is derived from the state."""
        self._device_state = None
        self._triangles = None
        self._lists.forget()
        self.obstacles.forget()

    def _standing(self) -> Floats:
        """Rows of vehicles at rest."""
        rows = np.zeros((len(self._members), 20))
        for row, one in zip(rows, self._members, strict=True):
            row[1:4], row[4:8] = one.start[:3] - quat_rotate(one.start[3:7], one.offset), one.start[3:7]
        return rows

    def _carry(self) -> None:
        """Give the vehicle models the poses and speeds of their bodies."""
        for one, row in zip(self._members, self._rows.tolist(), strict=True):
            one.vehicle.carry(row)


def _doubles(values: Floats) -> Any:
    """Copy of an array as float64 in kernel memory, aligned so that every copy uses the same kernel."""
    flat = np.ascontiguousarray(values, np.float64).ravel()
    buffer = np.empty(8 * flat.size + 64, np.uint8)
    start = -buffer.__array_interface__["data"][0] % 64
    aligned = buffer[start : start + 8 * flat.size].view(np.float64)
    aligned[:] = flat
    return engine().mi.Float64(aligned)


@dataclass
class Contacts:
    """Strongest contact of each hull, and the sum of all, over the launches of a step."""

    count: int

    any: bool = False
    """True if there was a contact; the arrays exist only then."""

    def _begin(self) -> None:
        if not self.any:
            self.any = True
            self.impulse, self.total = np.zeros(self.count), np.zeros(self.count)
            self.where = np.zeros((6, self.count))
            self.row, self.actor, self.vehicle = (np.full(self.count, -1) for _ in range(3))

    def add(self, report: Floats, rows: NDArray[np.int64]) -> None:
        """Add the report of a launch; `rows` belong to its triangles."""
        if not report[8].any():
            return
        self._begin()
        self.total = self.total + report[8]
        for k in np.flatnonzero(report[0] > self.impulse).tolist():
            number = int(report[1, k])
            self.impulse[k], self.where[:, k] = report[0, k], report[2:8, k]
            self.row[k], self.actor[k], self.vehicle[k] = rows[number], -1, -1

    def add_pair(self, first: int, second: int, actor: int, impulse: float, point: Floats, normal: Floats) -> None:
        """Add an impulse between two vehicles, or of a vehicle and an actor; the normal points to the first."""
        self._begin()
        for k, other, sign in ((first, second, 1.0), (second, first, -1.0)):
            if k < 0:
                continue
            self.total[k] += impulse
            if impulse > self.impulse[k]:
                self.impulse[k], self.vehicle[k], self.actor[k] = impulse, other, actor
                self.where[:, k] = np.concatenate([point, sign * normal])


@dataclass
class _Close:
    """Pairs of hulls that may touch: vehicles, and actors, whose numbers follow those of the vehicles."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    rows: NDArray[np.int64]
    """Rows of the actors."""
    actors: pairs.Hulls | None


def _after(hulls: pairs.Hulls, count: int) -> pairs.Hulls:
    """Hulls whose bodies have the numbers after the first `count`."""
    return replace(hulls, body=hulls.body + count)


def _control(vehicle: Car | DifferentialDrive) -> dict[str, Any]:
    """Numbers of a vehicle model, including the state of its motor and steering control."""
    plain = (float, int, tuple, type(None))
    return {name: value for name, value in vars(vehicle).items() if isinstance(value, plain)}


def _advance_4(*args: Any) -> Any:
    return kernel.advance(4, *args)


def _advance_12(*args: Any) -> Any:
    return kernel.advance(12, *args)


_ADVANCE = {4: _advance_4, 12: _advance_12}
