"""What actors are put together from: rigid bodies of several materials, and the motions of their parts."""

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
from parhelion.world.parts import WorldObject
from parhelion.world.world import World

# ---- Which things of a world stand for good, which could be moved, and which move by themselves ---------------------


Mobility = Literal["static", "movable", "dynamic"]
"""Built in; stands but may be carried away (a pallet, a parked car); moves by itself (a person, a car that drives)."""


def mobility_table(world: World) -> dict[int, str]:
    """The world's table `mobility` by instance number, begun where the world has none yet."""
    table: dict[int, str] = vars(world).setdefault("mobility", {})
    return table


def set_mobility(world: World, instance: int, mobility: Mobility) -> None:
    """Enter an instance in the table."""
    if mobility not in get_args(Mobility):
        raise ConfigError(f"mobility: must be one of {', '.join(get_args(Mobility))}, got {mobility!r}")
    mobility_table(world)[int(instance)] = mobility


def mobility_of(world: World, instance: int, items: Iterable[WorldObject] | None = None) -> Mobility:
    """What the table says of an instance; without an entry, actors are dynamic and all else is static.

    `items` are the instance's objects, for callers that have them at hand.
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
    """A thing that was put into a world: one instance, one rigid body or several that move together."""

    name: str
    label: str
    instance: int
    objects: tuple[WorldObject, ...]
    """Its rigid bodies; the first one carries the thing's own frame."""


class Builder:
    """Adds the rigid bodies of one thing to a world under one instance number, the main body first."""

    def __init__(self, world: World, name: str, label: str, mobility: Mobility) -> None:
        if not isinstance(world, World):
            raise ConfigError(f"{name}: world must be a World, got {type(world).__name__}")
        self._world, self._name, self._label, self._mobility = world, name, label, mobility
        self._objects: list[WorldObject] = []

    def add(self, part: str, pieces: Sequence[KitPart], motion: Trajectory | Pose) -> None:
        """One rigid body of pieces of several materials. At a pose it stands; with a trajectory it is an actor."""
        mesh, materials = one_body(pieces)
        options: dict[str, Any] = {"label": self._label, "name": f"{self._name}/{part}", **materials}
        options["instance"] = self._objects[0].instance if self._objects else None
        if isinstance(motion, Pose):
            self._objects.append(self._world.add(mesh, pose=motion, **options))
        else:
            self._objects.append(self._world.add_actor(mesh, trajectory=motion, **options))

    def done(self) -> Actor:
        """The thing, entered in the world's table of mobility."""
        instance = self._objects[0].instance
        set_mobility(self._world, instance, self._mobility)
        return Actor(self._name, self._label, instance, tuple(self._objects))


def one_body(pieces: Sequence[KitPart]) -> tuple[Any, dict[str, Any]]:
    """Pieces as one mesh for `World.add`, with its options for the materials.

    The ray engine tries every body that a ray may meet, so a car of seven materials should be one body, not seven.
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
    """A trajectory as given, or the one of a pose for ever."""
    if isinstance(motion, Pose):
        return Fixed(motion)
    if not isinstance(motion, Trajectory):
        raise ConfigError(f"{field}: motion must have sample(times), or be a Pose, got {type(motion).__name__}")
    return motion


# ---- motions of parts ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sliding:
    """A part that shifts along an axis of the body that carries it."""

    carrier: Trajectory
    axis: tuple[float, float, float]
    """Direction in the carrier's frame."""
    way_m: Scheduled
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Place of the part's origin in the carrier's frame at a way of 0 [m]."""

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        asked = np.asarray(times, dtype=np.float64)
        xyz, quat = self.carrier.sample(asked)
        shift = np.asarray(self.offset) + self.way_m(asked) * np.asarray(self.axis)
        return xyz + quat_rotate(quat, shift), quat


@dataclass(frozen=True, eq=False)
class Turning:
    """A part that turns about an axis of the body that carries it."""

    carrier: Trajectory
    axis: int
    """0, 1 or 2: x, y or z of the carrier."""
    angle_rad: Any
    """Function from times (n,) to angles (n,) or (n, 1)."""
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """A point of the axis in the carrier's frame [m], the part's origin."""

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        asked = np.asarray(times, dtype=np.float64)
        xyz, quat = self.carrier.sample(asked)
        turn = about(self.axis, np.asarray(self.angle_rad(asked), dtype=np.float64).reshape(-1))
        return xyz + quat_rotate(quat, np.asarray(self.offset)), quat_multiply(quat, turn)


def about(axis: int, angle_rad: ArrayLike) -> Floats:
    """Quaternions `xyzw` (n, 4) of turns about x, y or z (0, 1, 2) by angles (n,) [rad]."""
    half = 0.5 * np.asarray(angle_rad, dtype=np.float64)
    quat = np.zeros((*half.shape, 4))
    quat[..., axis], quat[..., 3] = np.sin(half), np.cos(half)
    return quat


def heading_of(quat_xyzw: Floats) -> Floats:
    """Angle [rad] of the x axis seen from above, for quaternions (n, 4)."""
    x, y, z, w = np.moveaxis(quat_xyzw, -1, 0)
    return np.arctan2(2.0 * (x * y + z * w), 1.0 - 2.0 * (y * y + z * z))


# ---- How far a body has come: the way along its motion, for wheels that roll and feet that step ---------------------


STEP_S = 1.0 / 64.0
MOST_POINTS = 4_000_000


@dataclass(frozen=True)
class Span:
    """The time in which a motion says something new."""

    start_s: float
    end_s: float
    repeats: bool
    """Whether all is the same again after `end_s` (and before `start_s`); otherwise the body rests outside."""

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s

    def inside(self, times: Floats) -> Floats:
        """The same instants within the span."""
        if self.repeats:
            return self.start_s + np.mod(times - self.start_s, self.length_s)
        return np.clip(times, self.start_s, self.end_s)

    def laps(self, times: Floats) -> Floats:
        """Whole repetitions before `times`."""
        return np.floor((times - self.start_s) / self.length_s) if self.repeats else np.zeros_like(times)

    def grid(self) -> Floats:
        """Times [s] from start to end, at most `STEP_S` apart."""
        count = int(np.ceil(self.length_s / STEP_S)) + 1
        if count > MOST_POINTS:
            raise ConfigError(
                f"motion: lasts {self.length_s:g} s, and steps can be laid out for {MOST_POINTS * STEP_S:g} s at most; "
                f"give times=(first, last)"
            )
        return np.linspace(self.start_s, self.end_s, max(count, 2))


def span_of(motion: Trajectory, times: tuple[float, float] | None = None) -> Span:
    """The span of a motion: `times` where given, else from its own `start_time` and `end_time`."""
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
    # What rests after its end is where it was; what repeats is not, somewhere in its second lap.
    later = end + (end - start) * np.linspace(0.0, 1.0, 8)
    xyz, quat = motion.sample(later)
    moves = np.ptp(xyz, axis=0).max() > 1e-9 or np.min(np.abs(quat @ quat[0])) < 1.0 - 1e-12
    return Span(float(start), float(end), repeats=bool(moves))


class DistanceAlong:
    """Way [m] that a point of a body rolls forwards since the motion's start, by time; backwards counts negative.

    `offset` [m] is the point in the body's frame. Only motion along the body's x axis counts, as for a wheel there.
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
        self._way = np.concatenate([[0.0], np.cumsum(legs)])

    def __call__(self, times: ArrayLike) -> Floats:
        """Way (n,) [m] at times (n,) [s]."""
        asked = np.asarray(times, dtype=np.float64)
        if self._steady is not None:
            return self._steady * (asked - self._span.start_s)
        within = self._span.inside(asked)
        row = np.clip(np.searchsorted(self._times, within, side="right") - 1, 0, len(self._times) - 2)
        # From the last point of the grid on along the chord: exact on straight lines at any speed.
        xyz, facing = self._point(within)
        since = _forward(xyz - self._xyz[row], self._facing[row] + facing)
        return self._way[row] + since + self._way[-1] * self._span.laps(asked)

    def _point(self, times: Floats) -> tuple[Floats, Floats]:
        """Places (n, 3) [m] of the point, and which way (n, 2) the body faces."""
        xyz, quat = self._motion.sample(times)
        heading = heading_of(quat)
        return xyz + quat_rotate(quat, self._offset), np.column_stack([np.cos(heading), np.sin(heading)])


def _forward(moved: Floats, facing: Floats) -> Floats:
    """Lengths (n,) of moves (n, 3) along directions (n, 2), slopes included; negative where they go backwards."""
    level = np.sum(moved[:, :2] * facing, axis=1) / np.linalg.norm(facing, axis=1)
    return np.sign(level) * np.hypot(level, moved[:, 2])
