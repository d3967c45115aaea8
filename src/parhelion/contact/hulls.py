"""Multirotors and vessels in contact with a world: walls, quays, trees, the ground, the bottom and each other.

    driver = HullDriver(World.load("harbour"))
    boat = driver.add("boat", vehicle("dlr/aurora"), Pose(xyz=(0, 0, 0)))
    collisions = driver.step([ThrustCommand(300.0, 300.0)], 0.01)
    driver.rows()[boat]                                        # state, as `Vehicle.row()`

Between contacts a vehicle moves by its own dynamics, with the same bits as without a world. In a part of a step in
which its hull would touch something, impulses with restitution and friction change its velocities (sequential impulses
with accumulated limits, Catto 2005), and its pose follows from them (semi-implicit Euler). The water around a hull
takes part in an impact: mass and inertia of a vessel include its added mass.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from parhelion.contact import boxes
from parhelion.contact.bodies import CLEARANCE_M, Bodies, Collision
from parhelion.contact.convex import Convex, touching
from parhelion.contact.kernel import FASTEST_RECOVERY_M_S, SLOP_M
from parhelion.contact.near import NearLists
from parhelion.contact.obstacles import Obstacles
from parhelion.contact.solid import MOVING_SOFT_LABELS
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, quat_rotate
from parhelion.motion.vehicles.base import Command, RigidBody, normalised, spin
from parhelion.motion.vehicles.multirotor import Multirotor
from parhelion.motion.vehicles.sheets import HullConfig
from parhelion.motion.vehicles.vessel import Vessel
from parhelion.rays.records import Rays
from parhelion.world.world import World

LANDING_M_S = 1.0
"""Speed [m/s] up to which contact of a multirotor's legs is a landing and no collision; assumed: pilots descend slower
at the end, and undercarriages take about as much."""
_DEEPEST_START_M = 0.05
_BOUNCES_M_S = 0.5
"""Closing speed [m/s] above which a hull bounces; slower contacts come to rest."""
_RECOVERY = 0.2
_ITERATIONS, _SETTLED = 60, 1e-5
"""Impulses of a part count as found if they change velocities by less than this share of the largest change needed."""


# ---- hulls ----------------------------------------------------------------------------------------------------------


def hull_shape(vehicle: Multirotor | Vessel) -> Convex:
    """Convex hull of a vehicle in its body frame: a box on its legs, or the hull of a vessel from keel to deck."""
    if isinstance(vehicle, Multirotor):
        sheet = vehicle.config
        half = 0.5 * np.array(sheet.size_m[:2])
        legs = sheet.standing_height_m
        return Convex.box([*-half, -legs], [*half, sheet.size_m[2] - legs])
    keel = vehicle.keel
    return Convex.around(_hull_points(vehicle.config.hull) + np.array(keel))


def _hull_points(hull: HullConfig) -> Floats:
    """Corners (n, 3) [m] of a vessel's hull, relative to the lowest point below the middle of its length."""
    front, half = 0.5 * hull.length_m, 0.5 * hull.beam_m
    shoulder = front - hull.bow_share * hull.length_m
    rise = math.tan(math.radians(hull.deadrise_deg))
    stations = [(-front, 0.0), (shoulder, 0.0)]
    stations += [(shoulder + share * (front - shoulder), share) for share in (0.5, 1.0) if hull.bow_share > 0.0]
    points = []
    for x, share in stations:
        wide, keel = half * (1.0 - share**2), hull.bow_rise_m * share**2
        for y in (-wide, 0.0, wide):
            points += [(x, y, min(keel + abs(y) * rise, hull.height_m)), (x, y, hull.height_m)]
    return np.array(points)


@dataclass
class _Member:
    """A vehicle of the driver."""

    name: str
    vehicle: Multirotor | Vessel
    start: Pose
    shape: Convex
    mass: Floats
    """Mass along the body axes (3,) [kg], with added mass."""
    inertia: Floats
    """Moments of inertia about the body axes (3,) [kg m^2], with added inertia."""


class _Moving:
    """Pose and velocities of a hull during a part of a step; all in the world."""

    def __init__(self, member: _Member) -> None:
        self.place, self.quat, velocity, turn = (np.array(one) for one in member.vehicle.motion())
        self.turn: Floats = boxes.rotation(self.quat)
        self.velocity, self.local_spin, self.spin = velocity, turn, self.turn @ turn
        self.reach = float(np.linalg.norm(member.shape.vertices, axis=1).max())

    def take(self, member: _Member) -> None:
        """Take over the velocities after the free motion; the pose remains that before it."""
        _, _, velocity, turn = member.vehicle.motion()
        turned = boxes.rotation(np.array(member.vehicle.quat_xyzw))
        self.velocity, self.spin = np.array(velocity), turned @ np.array(turn)
        self.ease = (self.turn / member.mass) @ self.turn.T
        self.ease_spin = (self.turn / member.inertia) @ self.turn.T

    def give(self, member: _Member, dt: float) -> None:
        """Move the vehicle from its pose before the part, with the velocities after the impulses."""
        local = self.turn.T @ self.spin
        before: Any = tuple(self.quat.tolist())
        rate = spin(before, tuple(local.tolist()))
        quat = normalised(tuple(q + dt * d for q, d in zip(before, rate, strict=True)))  # type: ignore[arg-type]
        place = self.place + dt * self.velocity
        member.vehicle.carry(tuple(place.tolist()), quat, tuple(self.velocity.tolist()), tuple(local.tolist()))


class _Struck:
    """An actor that a hull may touch: a mass on its trajectory, which only its recoil leaves."""

    def __init__(self, mass: float, place: Floats, velocity: Floats, spin: Floats) -> None:
        self.place, self.velocity, self.spin, self.before = place, velocity, spin, velocity
        self.ease, self.ease_spin = np.eye(3) / mass, np.zeros((3, 3))


def _axes(normals: Floats) -> Floats:
    """Orthonormal frames (n, 3, 3) whose first rows are normals (n, 3)."""
    first = np.cross(normals, np.eye(3)[np.abs(normals).argmin(axis=1)])
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    return np.stack([normals, first, np.cross(normals, first)], axis=1)


class _Owner(NamedTuple):
    """Owner of a triangle."""

    number: int | None
    """Number of the vehicle, negative for an actor; None for the world."""
    name: str


@dataclass
class _Contact:
    """A point where a hull may touch something within a part of a step."""

    first: int
    second: int | None
    """Number of the other vehicle, negative for an actor; None for the world."""
    other: str
    point: Floats
    normal: Floats
    """Unit normal toward the first vehicle."""
    gap: float
    lands: bool
    """True for the legs of a multirotor."""
    closing: float = 0.0
    push: float = 0.0
    """Sum of the normal impulses [N s]."""


def _impulses(slide: Floats, yielding: Floats, wanted: Floats, friction: Floats) -> Floats:
    """Impulses (3 n,) [N s] along the normals and tangents of n contacts.

    Args:
        slide: Velocities (3 n,) [m/s] along the axes of the contacts before the impulses.
        yielding: Their changes by impulses, (3 n, 3 n) [1/kg].
        wanted: Least velocities (n,) [m/s] along the normals.
        friction: Coefficients (n,).
    """
    lacking = np.maximum(wanted - slide[::3], 0.0)
    # Contacts of a flat side share the load: with this start they need few iterations.
    share = np.maximum(yielding[::3, ::3][:, lacking > 0.0], 0.0).sum(axis=1)
    impulses = np.zeros(slide.size)
    impulses[::3] = lacking / np.maximum(share, 1e-12)
    rows = []
    for n in range(len(wanted)):
        own = slice(3 * n, 3 * n + 3)
        block = yielding[own, own]
        a, b, c = block[[1, 1, 2], [1, 2, 2]].tolist()
        # One step for both directions, by the larger eigenvalue: friction then opposes the slide exactly.
        hold = 1.0 / (0.5 * (a + c) + math.hypot(0.5 * (a - c), b))
        rows.append((yielding[own], slide[own], impulses[own], block[:, 0].tolist(), hold))
    for _ in range(_ITERATIONS):
        largest = 0.0
        for (others, free, total, (ease, x, y), hold), aim, rough in zip(rows, wanted, friction, strict=True):
            closing, along, across = (free + others @ impulses).tolist()
            before, first, second = total.tolist()
            push = max(before + (float(aim) - closing) / ease, 0.0)
            drag = (first - hold * (along + x * (push - before)), second - hold * (across + y * (push - before)))
            size, limit = math.hypot(*drag), float(rough) * push
            cut = limit / size if size > limit else 1.0
            total[:] = push, cut * drag[0], cut * drag[1]
            change = max(abs(push - before), abs(cut * drag[0] - first), abs(cut * drag[1] - second))
            largest = max(largest, change * ease)
        if largest <= _SETTLED * float(lacking.max()):
            break
    return impulses


# ---- driver ---------------------------------------------------------------------------------------------------------


class HullDriver(Bodies):
    """Moves multirotors and vessels by their own dynamics, in contact with a world and with each other.

    Leaves, lane markings and water stop nothing. Vehicles may leave the world at its edges.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._rows: Floats = np.zeros((0, 20))
        self._build(MOVING_SOFT_LABELS)
        self._reset_lists()

    def restart(self) -> None:
        """Reset all vehicles to their start."""
        for one in self._members:
            one.vehicle.reset(one.start)
        self._rows = np.array([one.vehicle.row() for one in self._members]).reshape(-1, 20)
        self._reset_lists()

    def rows(self) -> Floats:
        """States of the vehicles, shape (n, 20), in the order of `Vehicle.row()`.

        Accelerations are those at the end of the step; of a step with contact, they are the means.
        """
        return self._rows

    def save(self) -> bytes:
        """Return the changing numbers of the vehicles, written without rounding."""
        vehicles = [one.vehicle.saved() for one in self._members]
        return json.dumps([self._rows.tolist(), self.obstacles.recoils, *vehicles]).encode()

    def load(self, state: bytes) -> None:
        """Resume from a saved state."""
        rows, recoils, *states = json.loads(state)
        if len(states) != len(self._members):
            raise ConfigError("hull: the saved state is not of these vehicles")
        for one, values in zip(self._members, states, strict=True):
            one.vehicle.resume(values)
        self._rows = np.array(rows).reshape(-1, 20)
        self._lists.forget()
        self.obstacles.forget()
        self.obstacles.recoils = recoils

    def clearances(self) -> Floats:
        """Distances [m] in the horizontal plane of each vehicle to the nearest obstacle, shape (n,).

        An obstacle is anything solid between the lower and the upper side of the hull's box. Infinite beyond 10 m; 0 in
        contact.
        """
        moving, origin = [_Moving(one) for one in self._members], self.solid.scene.origin
        place = np.array([one.place for one in moving]).reshape(-1, 3)
        turn = np.array([one.turn for one in moving]).reshape(-1, 3, 3)
        low, high = (np.array([one.shape.bounds[k] for one in self._members]).reshape(-1, 3) for k in range(2))
        shapes = [
            one.shape.triangles @ two.turn.T + two.place - origin
            for one, two in zip(self._members, moving, strict=True)
        ]
        if moving:
            reach = np.array([one.reach for one in moving]) + CLEARANCE_M
            found = self.obstacles.near(place, reach, self._members[0].vehicle.time, 0.01)
            shapes += [] if found is None else [one - origin for one in found[1].triangles()]
        return self._clearances(place - origin, turn, 0.5 * (low + high), 0.5 * (high - low), shapes)

    # ---- stepping --------------------------------------------------------------------------------------------------

    def step(self, commands: Sequence[Command], dt: float) -> list[Collision]:
        """Advance all vehicles by `dt` [s] and return the contacts of their hulls."""
        if not self._members:
            return []
        if self._version != self.world.version:
            self._build(MOVING_SOFT_LABELS)
            self._reset_lists()
        moving = {k: _Moving(one) for k, one in enumerate(self._members)}
        starts = [one.vehicle.time for one in self._members]
        contacts: list[_Contact] = []
        for group in self._groups(moving, dt):
            if len(group) == 1 and self._is_free(group[0], moving, starts[group[0]], dt):
                self._members[group[0]].vehicle.step(commands[group[0]], dt)
                continue
            longest = min(self._members[k].vehicle.longest_part_s for k in group)
            parts = max(1, math.ceil(dt / longest - 1e-9))
            for number in range(parts):
                for k in group:
                    self._members[k].vehicle.time = starts[k] + number * (dt / parts)
                contacts += self._part(group, commands, dt / parts)
        touched = {k for one in contacts for k in (one.first, one.second)}
        self._rows = np.empty((len(self._members), 20))
        for k, one in enumerate(self._members):
            one.vehicle.time = starts[k] + dt
            self._rows[k] = one.vehicle.row()
            if k in touched:
                before = np.concatenate([moving[k].velocity, moving[k].local_spin])
                self._rows[k, 14:20] = (self._rows[k, 8:14] - before) / dt
        self.obstacles.settle(dt)
        return self._collisions(contacts)

    def _is_free(self, k: int, moving: dict[int, _Moving], time: float, dt: float) -> bool:
        """True if a vehicle cannot touch anything within `dt` [s]."""
        if len(self._near(moving, dt)[k]):
            return False
        reach = np.array([moving[k].reach + (float(np.linalg.norm(moving[k].velocity)) + 2.0) * dt + 0.1])
        return self.obstacles.near(moving[k].place[None], reach, time, dt) is None

    def _groups(self, moving: dict[int, _Moving], dt: float) -> list[list[int]]:
        """Numbers of the vehicles in groups that may touch each other within `dt` [s]."""
        size = [one.reach + (float(np.linalg.norm(one.velocity)) + 1.0) * dt + 0.1 for one in moving.values()]
        groups: list[list[int]] = []
        for k, one in moving.items():
            joined = [
                group
                for group in groups
                if any(np.linalg.norm(one.place - moving[n].place) < size[k] + size[n] for n in group)
            ]
            groups = [group for group in groups if group not in joined]
            groups.append(sorted([k, *(n for group in joined for n in group)]))
        return groups

    def _part(self, group: list[int], commands: Sequence[Command], dt: float) -> list[_Contact]:
        """Advance vehicles that may touch each other by a part of a step; returns the contacts that pushed."""
        moving = {k: _Moving(self._members[k]) for k in group}
        time = self._members[group[0]].vehicle.time
        for k in group:
            self._members[k].vehicle.step(commands[k], dt)
            moving[k].take(self._members[k])
        contacts, struck = self._contacts(group, moving, time, dt)
        if not contacts:
            return []
        self._solve(contacts, {**moving, **struck}, dt)
        pushed = [one for one in contacts if one.push > 0.0]
        for k in {n for one in pushed for n in (one.first, one.second) if n is not None and n >= 0}:
            moving[k].give(self._members[k], dt)
        for number, actor in struck.items():
            self.obstacles.push(np.array([-1 - number]), (actor.velocity - actor.before)[None])
        return pushed

    def _contacts(
        self, group: list[int], moving: dict[int, _Moving], time: float, dt: float
    ) -> tuple[list[_Contact], dict[int, _Struck]]:
        """Contacts of the poses before a part that the velocities after its free motion may close; actors by number."""
        origin = self.solid.scene.origin
        rows = self._near(moving, dt)
        place = np.array([moving[k].place for k in group]) - origin
        fast = np.array(
            [np.linalg.norm(one.velocity) + np.linalg.norm(one.spin) * one.reach for one in moving.values()]
        )
        reach = np.array([one.reach for one in moving.values()]) + (fast + 2.0) * dt + 0.1
        actors, struck, names, hulls, speed = self.obstacles.near(place + origin, reach, time, dt), {}, [], None, 0.0
        if actors is not None:
            hulls, names = actors[1], [self.obstacles.names[row] for row in actors[0]]
            triangles, speed = hulls.triangles() - origin, float(hulls.fastest.max())
            struck = {
                -1 - body: _Struck(float(hulls.mass[k]), hulls.place[k], hulls.velocity[k], hulls.spin[k])
                for k, body in enumerate(hulls.body.tolist())
            }
        found: list[_Contact] = []
        for n, k in enumerate(group):
            one, shape = moving[k], self._members[k].shape
            tables = [(self.solid.corners[rows[k]], [_Owner(None, self._named(int(row))) for row in rows[k]])]
            if hulls is not None:
                tables += [
                    (triangles[m], [_Owner(-1 - int(hulls.body[m]), name)] * len(triangles[m]))
                    for m, name in enumerate(names)
                ]
            for m in group[n + 1 :]:
                other = self._members[m]
                hull = other.shape.triangles @ moving[m].turn.T + (moving[m].place - origin)
                tables.append((hull, [_Owner(m, other.name)] * len(hull)))
            corners = np.concatenate([table[0] for table in tables])
            owners = [owner for table in tables for owner in table[1]]
            if not len(corners):
                continue
            quickest = speed + max((float(fast[m]) for m in range(n + 1, len(group))), default=0.0)
            touch = touching(shape, (corners - place[n]) @ one.turn, (float(fast[n]) + quickest) * dt + SLOP_M)
            low = shape.bounds[0][2]
            for row, normal, gap, point in zip(touch.row, touch.normal, touch.gap, touch.point, strict=True):
                owner = owners[int(row)]
                legs = isinstance(self._members[k].vehicle, Multirotor) and normal[2] > 0.7 and point[2] < low + 0.02
                at, facing = one.turn @ point + one.place, one.turn @ normal
                found.append(_Contact(k, owner.number, owner.name, at, facing, float(gap), bool(legs)))
        return found, struck

    def _near(self, moving: dict[int, _Moving], dt: float) -> list[Floats]:
        """Rows of the solid triangles near each vehicle."""
        state = np.zeros((13, len(self._members)))
        for k, member in enumerate(self._members):
            one = moving.get(k) or _Moving(member)
            state[:3, k], state[3:7, k] = one.place, one.quat
            state[7:10, k], state[10:13, k] = one.velocity, one.spin
        self._lists.update(state, dt, dt)
        return [self._walls(rows) for rows in self._lists.rows]

    def _solve(self, contacts: list[_Contact], moving: dict[int, _Moving | _Struck], dt: float) -> None:
        """Apply impulses until no contact closes faster than its gap allows; friction up to the Coulomb limit."""
        frames = _axes(np.array([one.normal for one in contacts]))
        points = np.array([one.point for one in contacts])
        slide = np.zeros(3 * len(contacts))
        yielding = np.zeros((slide.size, slide.size))
        """Change of the velocity at each contact, along its three axes, by an impulse at each."""
        sides = {}
        for k, hull in moving.items():
            sign = np.array([1.0 if k == c.first else -1.0 if k == c.second else 0.0 for c in contacts])
            twist = np.cross((points - hull.place)[:, None], frames)
            to = (np.concatenate([frames, twist], axis=2) * sign[:, None, None]).reshape(-1, 6)
            effect = np.concatenate([to[:, :3] @ hull.ease, to[:, 3:] @ hull.ease_spin], axis=1)
            slide += to @ np.concatenate([hull.velocity, hull.spin])
            yielding += to @ effect.T
            sides[k] = effect
        wanted, friction = np.array([self._aim(one, float(slide[3 * n]), dt) for n, one in enumerate(contacts)]).T
        impulses = _impulses(slide, yielding, wanted, friction)
        for one, push in zip(contacts, impulses[::3].tolist(), strict=True):
            one.push = push
        for k, effect in sides.items():
            change = impulses @ effect
            moving[k].velocity, moving[k].spin = moving[k].velocity + change[:3], moving[k].spin + change[3:]

    def _aim(self, one: _Contact, closing: float, dt: float) -> tuple[float, float]:
        """Least velocity [m/s] along the normal after the impulses, and friction; means of both vehicles' surfaces."""
        sheets = [self._members[k].vehicle.config for k in (one.first, one.second) if k is not None and k >= 0]
        bounce = sum(sheet.restitution for sheet in sheets) / len(sheets)
        recovery = min(max(-one.gap - SLOP_M, 0.0) * _RECOVERY / dt, FASTEST_RECOVERY_M_S)
        wanted = -one.gap / dt if one.gap > 0.0 else recovery
        if closing < -_BOUNCES_M_S and closing * dt < -one.gap:
            wanted = max(wanted, -bounce * closing)
        one.closing = closing
        return wanted, sum(sheet.hull_friction for sheet in sheets) / len(sheets)

    def _collisions(self, contacts: list[_Contact]) -> list[Collision]:
        """Collisions of a step: one for each vehicle and what it touched, at the strongest contact."""
        found: dict[tuple[str, str], tuple[float, float, Floats, Floats]] = {}
        for one in contacts:
            if one.lands and one.closing > -LANDING_M_S:
                continue
            sides = [(self._members[one.first].name, one.other, one.normal)]
            if one.second is not None and one.second >= 0:
                sides.append((one.other, self._members[one.first].name, -one.normal))
            for body, other, normal in sides:
                total, strongest, point, facing = found.get((body, other), (0.0, 0.0, one.point, normal))
                if one.push > strongest:
                    strongest, point, facing = one.push, one.point, normal
                found[body, other] = (total + one.push, strongest, point, facing)
        return [
            Collision(body, other, tuple(point.tolist()), tuple(normal.tolist()), total)
            for (body, other), (total, _, point, normal) in found.items()
        ]

    # ---- world -----------------------------------------------------------------------------------------------------

    def _reset_lists(self) -> None:
        bounds = [one.shape.bounds for one in self._members]
        low, high = (np.array([one[k] for one in bounds]).reshape(-1, 3) for k in range(2))
        self._lists = NearLists(self.solid, 0.5 * (high - low), 0.5 * (low + high))
        own = {one.name for one in self._members}
        self.obstacles = Obstacles(self.world, own, MOVING_SOFT_LABELS)
        """Moving actors of the world."""

    def _walls(self, rows: Any) -> Any:
        """Rows without those of the walls around the world."""
        return rows[rows < len(self.solid.triangles)]

    # ---- starts ----------------------------------------------------------------------------------------------------

    def _member(self, name: str, vehicle: Any, start: Pose) -> _Member:
        if not isinstance(vehicle, RigidBody):
            raise ConfigError(
                f"{name}: dynamics: hull is for multirotors and vessels, got {type(vehicle).__name__}; use rays"
            )
        assert isinstance(vehicle, Multirotor | Vessel)
        shape = hull_shape(vehicle)
        mass, inertia = (np.array(one) for one in vehicle.heavy)
        if isinstance(vehicle, Multirotor):
            start = self._above_ground(name, start, shape)
        return _Member(name, vehicle, start, shape, mass, inertia)

    def _above_ground(self, name: str, start: Pose, shape: Convex) -> Pose:
        """Start of a multirotor, raised so that its hull is above the ground."""
        corners = start.xyz + quat_rotate(start.quat_xyzw, shape.vertices)
        top = np.column_stack([corners[:, :2], np.full(len(corners), float(corners[:, 2].max()))])
        below = float((self._ground(top)[0] - corners[:, 2]).max())
        if below <= 0.0:
            return start
        x, y, z = start.xyz.tolist()
        if below > -float(shape.bounds[0][2]) + _DEEPEST_START_M:
            warnings.warn(
                f"{name}: its start at ({x:g}, {y:g}, {z:g}) is {below:.2f} m below the ground; raised onto it",
                stacklevel=4,
            )
        return Pose(xyz=(x, y, z + below), quat_xyzw=start.quat_xyzw)

    def _ground(self, points: Floats) -> tuple[Floats, Any]:
        """Heights [m] of the ground below points (n, 3), or above those inside of the ground; -inf without any.

        Also returns the rows of the triangles above points inside of the ground, -1 for others. The inside lies
        between a surface that faces up and none, or one that faces down.
        """
        count, far, up = len(points), np.full(len(points), 1e5), np.tile([0.0, 0.0, 1.0], (len(points), 1))
        below, floor = self.solid.scene.below(points, 1e5)
        roof = self.solid.scene.cast(Rays(points, up, np.zeros(count), far))
        buried = roof.found & (roof.normal[:, 2] > 0.0) & (~floor.found | (floor.normal[:, 2] < 0.0))
        height = np.where(floor.found, below, -np.inf)
        return np.where(buried, points[:, 2] + roof.range, height), np.where(buried, roof.triangle, -1)

    def _check_apart(self, number: int) -> None:
        """Refuse a start whose hull overlaps solid objects or another vehicle by more than 5 cm."""
        member, one = self._members[number], _Moving(self._members[number])
        place = one.place - self.solid.scene.origin
        rows = self._walls(self.solid.near(place - one.reach, place + one.reach))
        tables = [(self.solid.corners[rows], [self._named(int(row)) for row in rows])]
        for k, other in enumerate(self._members):
            if k != number:
                two = _Moving(other)
                corners = other.shape.triangles @ two.turn.T + (two.place - self.solid.scene.origin)
                tables.append((corners, [other.name] * len(corners)))
        corners = np.concatenate([table[0] for table in tables])
        names = [name for table in tables for name in table[1]]
        hull = _shrunk(member.shape)
        touch = touching(hull, (corners - place) @ one.turn, 0.0)
        # A hull inside of a solid object need not touch its surface.
        above = self._ground(one.place + hull.vertices @ one.turn.T)[1]
        inside = sorted({names[int(row)] for row in touch.row} | {self._named(int(row)) for row in above if row >= 0})
        if inside:
            shown, (x, y, z) = ", ".join(repr(name) for name in inside[:3]), one.place.tolist()
            raise ConfigError(
                f"{member.name}: its hull overlaps {shown} at its start at ({x:.3g}, {y:.3g}, {z:.3g}); "
                "move the start into free space"
            )


def _shrunk(shape: Convex) -> Convex:
    """Hull that is smaller by 5 cm on each side, or by 40 % if it is thin."""
    low, high = shape.bounds
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    scale = np.maximum(half - _DEEPEST_START_M, 0.6 * half) / half
    return Convex.around((shape.vertices - middle) * scale + middle)
