"""Building blocks of actors: rigid bodies with several materials, and the motions of their parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, quat_multiply, quat_rotate
from parhelion.core.schedule import Scheduled
from parhelion.core.trajectory import ConstantTwist, Fixed, Trajectory, Waypoints
from parhelion.world.kit.props import KitPart
from parhelion.world.parts import WorldObject, WorldPart
from parhelion.world.world import World

# ---- Mobility of a world's instances --------------------------------------------------------------------------------


Mobility = Literal["static", "movable", "dynamic"]
"""Built in; at rest but movable (a pallet, a parked car); moving on its own (a person, a driving car)."""


def mobility_table(world: World) -> dict[int, str]:
    """Return the world's table `mobility` by instance number; it is created if the world has none."""
    table: dict[int, str] = vars(world).setdefault("mobility", {})
    return table


def set_mobility(world: World, instance: int, mobility: Mobility) -> None:
    """Set the mobility of an instance in the world's table."""
    if mobility not in get_args(Mobility):
        raise ConfigError(f"mobility: must be one of {', '.join(get_args(Mobility))}, got {mobility!r}")
    mobility_table(world)[int(instance)] = mobility


def mobility_of(world: World, instance: int, items: Iterable[WorldObject] | None = None) -> Mobility:
    """Mobility of an instance by the world's table; without an entry, actors are dynamic and all else is static.

    `items` are the objects of the instance, if the caller has them already.
    """
    known = vars(world).get("mobility", {}).get(int(instance))
    if known is not None:
        return known
    if items is None:
        items = [item for item in world.objects if item.instance == instance]
    moves = any(item.is_actor for item in items)
    return "dynamic" if moves else "static"


# ---- body -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Actor:
    """An actor in a world: one instance, which is one rigid body or several that move together."""

    name: str
    label: str
    instance: int
    objects: tuple[WorldObject, ...]
    """Rigid bodies; the first one carries the frame of the actor."""


class Builder:
    """Adds the rigid bodies of one actor to a world under one instance number, the main body first."""

    def __init__(self, world: World, name: str, label: str, mobility: Mobility) -> None:
        if not isinstance(world, World):
            raise ConfigError(f"{name}: world must be a World, got {type(world).__name__}")
        self._world, self._name, self._label, self._mobility = world, name, label, mobility
        self._objects: list[WorldObject] = []

    def add(self, part: str, pieces: Sequence[KitPart], motion: Trajectory | Pose) -> None:
        """Add one rigid body with several materials; it is static at a pose and moves with a trajectory."""
        mesh, materials = one_body(pieces)
        options: dict[str, Any] = {"label": self._label, "name": f"{self._name}/{part}", **materials}
        options["instance"] = self._objects[0].instance if self._objects else None
        if isinstance(motion, Pose):
            self._objects.append(self._world.add(mesh, pose=motion, **options))
        else:
            self._objects.append(self._world.add_actor(mesh, trajectory=motion, **options))

    def done(self) -> Actor:
        """Return the actor, and enter it in the world's table of mobility."""
        instance = self._objects[0].instance
        set_mobility(self._world, instance, self._mobility)
        return Actor(self._name, self._label, instance, tuple(self._objects))


def stand_still(world: World, actor: Actor, time: float) -> None:
    """Replace the moving bodies of an actor by static objects, one per material, at their poses at a time [s].

    The instance number and the heading remain. Static objects share one acceleration structure, so crowds are cheap.
    """
    poses = []
    for item in actor.objects:
        xyz, quat = trajectory_of(actor.name, item.trajectory or item.pose).sample(np.array([time]))
        poses.append(Pose(xyz[0], quat[0]))
    frame = Pose(poses[0].xyz, about(2, float(heading_of(poses[0].quat_xyzw[None])[0])))
    meshes: dict[int, list[tuple[WorldPart, Floats]]] = {}
    for item, pose in zip(actor.objects, poses, strict=True):
        for part in item.parts:
            placed = (frame.inverse() @ pose).apply(part.mesh.vertices)
            meshes.setdefault(id(part.material), []).append((part, placed))
    for item in actor.objects:
        world.remove(item)
    for parts in meshes.values():
        first = np.cumsum([0, *(len(placed) for _, placed in parts[:-1])])
        vertices = np.concatenate([placed for _, placed in parts])
        faces = np.concatenate([part.mesh.faces + row for (part, _), row in zip(parts, first, strict=True)])
        material = parts[0][0].material
        world.add(
            (vertices, faces),
            material=material,
            label=actor.label,
            name=actor.name,
            instance=actor.instance,
            pose=frame,
        )


def one_body(pieces: Sequence[KitPart]) -> tuple[Any, dict[str, Any]]:
    """Merge pieces into one mesh for `World.add`; returns the mesh and the options for its materials.

    The ray engine tests every body that a ray may hit, so a car with seven materials should be one body, not seven.
    """
    if len(pieces) == 1:
        return pieces[0].mesh, {"material": pieces[0].material}
    import trimesh

    scene = trimesh.Scene()
    for row, piece in enumerate(pieces):
        material = trimesh.visual.material.SimpleMaterial(name=piece.material)
        visual = trimesh.visual.TextureVisuals(material=material)
        geometry = trimesh.Trimesh(piece.mesh.vertices, piece.mesh.faces, visual=visual, process=False)
        scene.add_geometry(geometry, geom_name=f"piece-{row:03d}")
    return scene, {"materials": {piece.material: piece.material for piece in pieces}}


def trajectory_of(field: str, motion: Trajectory | Pose) -> Trajectory:
    """Return a trajectory unchanged, and a pose as a constant trajectory."""
    if isinstance(motion, Pose):
        return Fixed(motion)
    if not isinstance(motion, Trajectory):
        raise ConfigError(f"{field}: motion must have sample(times), or be a Pose, got {type(motion).__name__}")
    return motion


# ---- motions of parts ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sliding:
    """Motion of a part that slides along an axis of the body that carries it."""

    carrier: Trajectory
    axis: tuple[float, float, float]
    """Direction in the carrier's frame."""
    travel_m: Scheduled
    """Displacement along the axis by time [m]."""
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Origin of the part in the carrier's frame at zero displacement [m]."""

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        asked = np.asarray(times, dtype=np.float64)
        xyz, quat = self.carrier.sample(asked)
        shift = np.asarray(self.offset) + self.travel_m(asked) * np.asarray(self.axis)
        return xyz + quat_rotate(quat, shift), quat


@dataclass(frozen=True, eq=False)
class Turning:
    """Motion of a part that rotates about an axis of the body that carries it."""

    carrier: Trajectory
    axis: int
    """0, 1 or 2: x, y or z of the carrier."""
    angle_rad: Any
    """Function from times (n,) to angles (n,) or (n, 1)."""
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Origin of the part, a point on the axis, in the carrier's frame [m]."""

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        asked = np.asarray(times, dtype=np.float64)
        xyz, quat = self.carrier.sample(asked)
        rotation = about(self.axis, np.asarray(self.angle_rad(asked), dtype=np.float64).reshape(-1))
        return xyz + quat_rotate(quat, np.asarray(self.offset)), quat_multiply(quat, rotation)


def about(axis: int, angle_rad: ArrayLike) -> Floats:
    """Quaternions `xyzw` (n, 4) of rotations about x, y or z (0, 1, 2) by angles (n,) [rad]."""
    half = 0.5 * np.asarray(angle_rad, dtype=np.float64)
    quat = np.zeros((*half.shape, 4))
    quat[..., axis], quat[..., 3] = np.sin(half), np.cos(half)
    return quat


def heading_of(quat_xyzw: Floats) -> Floats:
    """Angle [rad] of the x axis seen from above, for quaternions (n, 4)."""
    x, y, z, w = np.moveaxis(quat_xyzw, -1, 0)
    return np.arctan2(2.0 * (x * y + z * w), 1.0 - 2.0 * (y * y + z * z))


# ---- Distance along a motion, for wheels that roll and feet that step -----------------------------------------------


STEP_S = 1.0 / 64.0
MOST_POINTS = 4_000_000


@dataclass(frozen=True)
class Span:
    """Time interval that defines a motion."""

    start_s: float
    end_s: float
    repeats: bool
    """True if the motion is periodic with this interval; otherwise the body rests outside of it."""

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s

    def inside(self, times: Floats) -> Floats:
        """Map times into the interval."""
        if self.repeats:
            return self.start_s + np.mod(times - self.start_s, self.length_s)
        return np.clip(times, self.start_s, self.end_s)

    def laps(self, times: Floats) -> Floats:
        """Number of completed periods before `times`."""
        return np.floor((times - self.start_s) / self.length_s) if self.repeats else np.zeros_like(times)

    def grid(self) -> Floats:
        """Times [s] from start to end, at most `STEP_S` apart."""
        count = int(np.ceil(self.length_s / STEP_S)) + 1
        if count > MOST_POINTS:
            raise ConfigError(
                f"motion: lasts {self.length_s:g} s, but steps are limited to {MOST_POINTS * STEP_S:g} s; "
                f"give times=(first, last)"
            )
        return np.linspace(self.start_s, self.end_s, max(count, 2))


def span_of(motion: Trajectory, times: tuple[float, float] | None = None) -> Span:
    """Span of a motion: `times` if given, otherwise from its `start_time` to its `end_time`."""
    if times is not None:
        first, last = (float(value) for value in times)
        if not (np.isfinite(first) and np.isfinite(last) and first < last):
            raise ConfigError(f"times: must be two finite times, the first before the last, got {times!r}")
        return Span(first, last, repeats=False)
    if isinstance(motion, Fixed):
        return Span(0.0, 1.0, repeats=False)
    if isinstance(motion, Waypoints):
        return Span(float(motion.times[0]), max(float(motion.times[-1]), float(motion.times[0]) + 1.0), repeats=False)
    start, end = getattr(motion, "start_time", None), getattr(motion, "end_time", None)
    if not isinstance(start, (int, float)) or not isinstance(end, (int, float)) or not start < end < np.inf:
        raise ConfigError(
            f"motion: a {type(motion).__name__} has no start_time and end_time, so give times=(first, last)"
        )
    # A motion that rests keeps its pose after its end; a periodic one changes it somewhere in the second period.
    later = end + (end - start) * np.linspace(0.0, 1.0, 8)
    xyz, quat = motion.sample(later)
    moves = np.ptp(xyz, axis=0).max() > 1e-9 or np.min(np.abs(quat @ quat[0])) < 1.0 - 1e-12
    return Span(float(start), float(end), repeats=bool(moves))


class DistanceAlong:
    """Distance [m] that a point of a body has rolled since the start of its motion; reversing counts negative.

    `offset` [m] is the point in the body frame. Only motion along the body's x axis counts, as for a wheel there.
    """

    def __init__(
        self,
        motion: Trajectory,
        times: tuple[float, float] | None = None,
        offset: tuple[float, float, float] = (0.0, 0.0, 0.0),
    ) -> None:
        self._motion, self._offset = motion, np.asarray(offset, dtype=np.float64)
        self._steady: float | None = None
        if isinstance(motion, ConstantTwist) and times is None and not any(motion.angular_velocity):
            forward = quat_rotate(motion.pose.quat_xyzw, np.array([1.0, 0.0, 0.0]))
            self._steady = float(forward @ np.asarray(motion.velocity, dtype=np.float64))
            self._span = Span(motion.start_time, motion.start_time + 1.0, repeats=True)
            return
        self._span = span_of(motion, times)
        self._times = self._span.grid()
        self._xyz, self._facing = self._point(self._times)
        legs = _forward(np.diff(self._xyz, axis=0), self._facing[:-1] + self._facing[1:])
        self._distance = np.concatenate([[0.0], np.cumsum(legs)])

    def __call__(self, times: ArrayLike) -> Floats:
        """Distance (n,) [m] at times (n,) [s]."""
        asked = np.asarray(times, dtype=np.float64)
        if self._steady is not None:
            return self._steady * (asked - self._span.start_s)
        within = self._span.inside(asked)
        row = np.clip(np.searchsorted(self._times, within, side="right") - 1, 0, len(self._times) - 2)
        # Along the chord from the last point of the grid: exact on straight lines at any speed.
        xyz, facing = self._point(within)
        since = _forward(xyz - self._xyz[row], self._facing[row] + facing)
        return self._distance[row] + since + self._distance[-1] * self._span.laps(asked)

    def _point(self, times: Floats) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] of the point, and directions (n, 2) of the body."""
        xyz, quat = self._motion.sample(times)
        heading = heading_of(quat)
        return xyz + quat_rotate(quat, self._offset), np.column_stack([np.cos(heading), np.sin(heading)])


def _forward(moved: Floats, facing: Floats) -> Floats:
    """Lengths (n,) of displacements (n, 3) along directions (n, 2), with their slope; negative if backwards."""
    level = np.sum(moved[:, :2] * facing, axis=1) / np.linalg.norm(facing, axis=1)
    return np.sign(level) * np.hypot(level, moved[:, 2])
