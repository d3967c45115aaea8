"""Common parts of drivers of bodies in contact with a world: adding bodies, names of what they touch, and starts."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from parhelion.contact import boxes, kernel
from parhelion.contact.solid import EDGE, Solid
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, quat_multiply, quat_rotate
from parhelion.rays.records import Rays
from parhelion.world.world import World

CLEARANCE_M = 10.0
"""Distance [m] up to which `clearances` looks for obstacles."""
SHRUNK_M, HIGHEST_M = 0.02, 0.1
"""Depth [m] to which a hull may overlap solid objects at its start, and height [m] by which it is raised at most."""
_DEEPEST_START_M = 0.02


@dataclass(frozen=True)
class Collision:
    """Contact of a vehicle's hull with something in one step."""

    body: str
    """Name of the vehicle."""
    other: str
    """Name of the object or vehicle, its label if it has no name, or 'world edge'."""
    xyz: tuple[float, float, float]
    """Position in the world [m] of the strongest contact."""
    normal: tuple[float, float, float]
    """Unit normal toward the vehicle."""
    impulse_n_s: float
    """Sum of the normal impulses [N s] of the step."""


class Bodies(ABC):
    """Vehicles in contact with a world, moved together."""

    solid: Solid
    """Solid triangles of the world."""
    _names: dict[int, str]

    def __init__(self, world: World) -> None:
        self.world = world
        self._members: list[Any] = []
        self._version = -1

    def add(self, name: str, vehicle: Any, start: Pose) -> int:
        """Place a vehicle at a pose, at rest, and return its number.

        A start below the ground is raised onto it with a warning. A start inside of a solid object or of another
        vehicle is an error.
        """
        self._members.append(self._member(name, vehicle, start))
        self.restart()
        try:
            self._check_apart(len(self._members) - 1)
        except ConfigError:
            self._members.pop()
            self.restart()
            raise
        return len(self._members) - 1

    def place(self, number: int, start: Pose) -> None:
        """Set the start of a vehicle, and reset all vehicles to theirs."""
        one = self._members[number]
        self._members[number] = self._member(one.name, one.vehicle, start)
        self.restart()
        try:
            self._check_apart(number)
        except ConfigError:
            self._members[number] = one
            self.restart()
            raise

    @abstractmethod
    def _member(self, name: str, vehicle: Any, start: Pose) -> Any:
        """Return a new member of the driver."""

    @abstractmethod
    def _check_apart(self, number: int) -> None:
        """Refuse the start of a vehicle inside of another one or of a solid object."""

    @abstractmethod
    def restart(self) -> None:
        """Reset all vehicles to their start, at rest."""

    def _build(self, soft: tuple[str, ...]) -> None:
        """Build the solid triangles of the world as it is now, without those of soft labels."""
        self.solid, self._version = Solid.of(self.world, soft), self.world.version
        self._names = {one.index: one.name for one in reversed(self.world.objects)}

    def _named(self, row: int) -> str:
        """Name of the object of a triangle, or its label if it has none."""
        if self.solid.is_edge(row):
            return EDGE
        part = int(self.solid.triangles.part[row])
        name = self._names.get(int(self.world.parts.object_index[part]))
        return name or self.world.label_names[int(self.world.parts.label[part])]

    def _clearances(self, place: Floats, turn: Floats, centre: Floats, half: Floats, shapes: list[Floats]) -> Floats:
        """Horizontal distances (n,) [m] of boxes to solid triangles and to the other shapes; infinite beyond 10 m.

        Args:
            place: Places (n, 3) [m] of the bodies relative to the origin of the scene.
            turn: Their rotations (n, 3, 3).
            centre: Centres (n, 3) [m] of the boxes in the frames of the bodies.
            half: Half sides (n, 3) [m] of the boxes.
            shapes: Triangles (m, 3, 3) of the bodies, which come first, and of others, relative to the origin.
        """
        found = np.full(len(place), np.inf)
        reach = np.linalg.norm(half, axis=1) + np.linalg.norm(centre, axis=1) + CLEARANCE_M
        for k in range(len(place)):
            rows = self._walls(self.solid.near(place[k] - reach[k], place[k] + reach[k]))
            corners = np.concatenate([self.solid.corners[rows], *shapes[:k], *shapes[k + 1 :]])
            found[k] = boxes.clearance((corners - place[k]) @ turn[k] - centre[k], half[k])
        return np.where(found > CLEARANCE_M, np.inf, found)

    def _walls(self, rows: Any) -> Any:
        """Rows of triangles that stop these bodies."""
        return rows

    def _raised(self, name: str, state: Floats, body: Floats, hubs: Floats) -> float:
        """Height [m], up to 10 cm, by which a start must be raised so that hull and wheels are free of bumps.

        `hubs` are places and radii (n, 4) [m] of the wheels in the body frame. A hull that overlaps solid objects by
        more than 2 cm at all heights is an error; a wheel that does, for example in a wall, is not.
        """
        half, centre = body[4:7], body[7:10]
        reach = float(np.linalg.norm(half) + np.linalg.norm(centre)) + HIGHEST_M
        place, turn = state[:3] - self.solid.scene.origin, boxes.rotation(state[3:7])
        rows = self.solid.near(place - reach, place + reach)
        corners = (self.solid.corners[rows] - place) @ turn - centre
        heights = np.linspace(0.0, HIGHEST_M, 21).tolist()
        free = [h for h in heights if not boxes.overlaps(corners - turn[2] * h, half - kernel.SLOP_M).any()]
        inside = rows[boxes.overlaps(corners, np.maximum(half - SHRUNK_M, 0.2 * half))]
        if not free and len(inside):
            names = sorted({self._named(int(row)) for row in inside})
            listed = ", ".join(repr(one) for one in names[:3])
            raise ConfigError(
                f"{name}: its hull overlaps {listed} at its start at {shown(state[:3])}; move the start into free space"
            )
        up = np.array([0.0, 0.0, 1.0])
        deep = [max(self._deepest(state[:3] + h * up, turn, hubs), 0.5 * SHRUNK_M) for h in free]
        return free[int(np.argmin(deep))] if free else 0.0

    def _deepest(self, place: Floats, turn: Floats, hubs: Floats) -> float:
        """Largest depth [m] of a surface in the lower halves of wheels."""
        angles = np.radians(np.arange(-75.0, 76.0, 12.5))
        ways = np.column_stack([np.sin(angles), 0.0 * angles, -np.cos(angles)]) @ turn.T
        start = np.repeat(place + hubs[:, :3] @ turn.T, len(ways), axis=0)
        size = np.repeat(hubs[:, 3], len(ways))
        hit = self.solid.scene.cast(Rays(start, np.tile(ways, (len(hubs), 1)), np.zeros(len(start)), size))
        return float(np.where(hit.found, size - hit.range, 0.0).max(initial=0.0))

    def _on_ground(self, name: str, start: Pose, wheels: Floats, height: float) -> Pose:
        """Pose on the plane under the wheels, with the heading of the start."""
        corners = start.xyz + quat_rotate(start.quat_xyzw, np.column_stack([wheels, np.zeros(len(wheels))]))
        ground = self.solid.heights(corners, 0.5 * height)
        if np.all(np.isnan(ground)):
            raise ConfigError(f"{name}: no ground under its start at {shown(start.xyz)}; move it into the world")
        level = np.where(np.isnan(ground), np.nanmax(ground), ground)
        above = corners[:, 2] - level
        if above.min() > height:
            return start
        plan = np.column_stack([corners[:, :2], np.ones(len(corners))])
        slope = np.linalg.lstsq(plan, level, rcond=None)[0]
        slope[2] += max(float((level - plan @ slope).max()), 0.0)  # no wheel begins below rough ground
        up = np.array([-slope[0], -slope[1], 1.0])
        up /= np.linalg.norm(up)
        tilt = np.array([-up[1], up[0], 0.0, 1.0 + up[2]])
        yaw = math.atan2(*forward(start.quat_xyzw)[1::-1])
        turn = np.array([0.0, 0.0, math.sin(0.5 * yaw), math.cos(0.5 * yaw)])
        z = float(slope[0] * start.xyz[0] + slope[1] * start.xyz[1] + slope[2])
        below = z - float(start.xyz[2])
        if below > _DEEPEST_START_M:
            warnings.warn(
                f"{name}: its start at {shown(start.xyz)} is {below:.2f} m below the ground; raised onto it",
                stacklevel=4,
            )
        quat = quat_multiply(tilt / np.linalg.norm(tilt), turn)
        return Pose(xyz=(float(start.xyz[0]), float(start.xyz[1]), z), quat_xyzw=tuple(quat.tolist()))


def shown(xyz: Floats) -> str:
    """Coordinates [m] for a message."""
    return "(" + ", ".join(f"{round(one, 3) + 0.0:g}" for one in xyz.tolist()) + ")"


def forward(quat: Floats) -> Floats:
    """Direction of the body's x axis in the world."""
    return quat_rotate(quat, np.array([1.0, 0.0, 0.0]))
