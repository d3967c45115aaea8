"""One thing by itself: the triangles and materials of a mesh, an object, an actor or a world, for its cross-section."""

from __future__ import annotations

from typing import Any

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.trajectory import pose_at
from parhelion.motion.actors.body import Actor
from parhelion.rays.geometry import Triangles
from parhelion.world.parts import WorldObject
from parhelion.world.world import World


def one_thing(target: Any, material: str | None = None, time: float = 0.0) -> tuple[Triangles, list[str]]:
    """Triangles in the thing's own frame at `time` [s], and the names of the materials that their parts have.

    A mesh is steel unless `material` says otherwise. An object of a world has its own frame; an actor of several bodies
    that of the first of them, and a world its own.
    """
    frame = Pose()
    if isinstance(target, World):
        objects = [item for item in target.objects if not item.hides_from(("radar",))]
    elif isinstance(target, (WorldObject, Actor)):
        objects = [target] if isinstance(target, WorldObject) else list(target.objects)
        frame = _pose(objects[0], time)
    else:
        objects = [World().add(target, material=material or "steel")]
    if material is not None and isinstance(target, (World, WorldObject, Actor)):
        raise ConfigError("rcs: material is for meshes; objects of worlds have materials of their own")
    vertices, faces, part = [], [], []
    names: list[str] = []
    first = 0
    for item in objects:
        for piece in item.parts:
            # Vertices of actors are in their own frame, those of standing things in the world's.
            placed = piece.placed if item.trajectory is None else _pose(item, time).apply(piece.placed)
            vertices.append(frame.inverse().apply(placed))
            faces.append(piece.mesh.faces + first)
            part.append(np.full(len(piece.mesh.faces), len(names), np.uint32))
            names.append(piece.material.name)
            first += len(placed)
    if not names:
        return Triangles.empty(), []
    return Triangles(np.concatenate(vertices), np.concatenate(faces).astype(np.int32), np.concatenate(part)), names


def _pose(item: WorldObject, time: float) -> Pose:
    return item.pose if item.trajectory is None else pose_at(item.trajectory, time)
