"""What actors are put together from: rigid bodies of several materials, and the motions of their parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, quat_multiply, quat_rotate
from parhelion.core.trajectory import Fixed, Trajectory
from parhelion.motion.actors.mobility import Mobility, set_mobility
from parhelion.motion.actors.schedule import Scheduled
from parhelion.world.kit.props import Part
from parhelion.world.parts import WorldObject
from parhelion.world.world import World


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

    def add(self, part: str, pieces: Sequence[Part], motion: Trajectory | Pose) -> None:
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


def one_body(pieces: Sequence[Part]) -> tuple[Any, dict[str, Any]]:
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
