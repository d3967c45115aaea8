"""The world as radio waves of decimetres see it: what blocks, what mirrors, and what only weakens.

Leaves and needles block nothing: they are crowns, ellipsoids that weaken what passes by its length inside. Bark, and
parts narrower than the Fresnel zone, neither block nor mirror. The rest blocks, and mirrors where its flat pieces are
large enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.rays.geometry import MovingTriangles, SceneGeometry, Triangles
from parhelion.rays.scene import RayScene
from parhelion.surfaces.radio import RADIO_MATERIALS, radio_name
from parhelion.world.world import World

NARROW_M = 0.5
"""Parts of which two extents are below this stand aside: poles, wires, signs. At 20 m the Fresnel zone of L1 is 4 m
wide."""
CROWN_M = 12.0
"""Foliage that is wider is cut into pieces of this size, each a crown of its own."""
NORMAL_STEP = 1e-3
OFFSET_STEP_M = 0.02
"""Triangles of one part count as one plane within these steps of normal and distance."""
RADIO = tuple(RADIO_MATERIALS)
"""Radio materials by number."""


@dataclass(frozen=True, eq=False)
class Crowns:
    """Ellipsoids of foliage, with axes along the world's."""

    middle: Floats
    """Middles [m], shape (k, 3)."""
    half: Floats
    """Half axes [m], shape (k, 3)."""

    def inside(self, origin: Floats, direction: Floats, limit: Floats) -> Floats:
        """Length [m] inside of crowns, of rays with unit directions (m, 3) that end at their limits (m,) [m]."""
        found = np.zeros(len(origin))
        if not len(self.middle):
            return found
        for start in range(0, len(origin), 4096):
            rows = slice(start, start + 4096)
            o = (origin[rows, None] - self.middle) / self.half
            d = direction[rows, None] / self.half
            a, b = np.sum(d * d, axis=2), np.sum(o * d, axis=2)
            root = b * b - a * (np.sum(o * o, axis=2) - 1.0)
            width = np.sqrt(np.maximum(root, 0.0))
            first = np.clip((-b - width) / a, 0.0, limit[rows, None])
            last = np.clip((-b + width) / a, 0.0, limit[rows, None])
            found[rows] = np.sum(np.where(root > 0, last - first, 0.0), axis=1)
        return found


@dataclass(frozen=True, eq=False)
class RadioWorld:
    """What a receiver's rays need of a world. Kept until the world changes."""

    scene: RayScene
    geometry: SceneGeometry
    """Of the scene: what blocks."""
    plane: NDArray[np.int64]
    """Number of the plane of each triangle, static ones first, shape (m,)."""
    area: Floats
    """Area of the whole plane of each triangle [m^2], shape (m,)."""
    normal: Floats
    """Unit normals of static triangles in float64, shape (k, 3)."""
    offset: Floats
    """normal . vertex of static triangles [m], shape (k,)."""
    radio: NDArray[np.int64]
    """Number in RADIO of each part's material."""
    crowns: Crowns

    @property
    def changes(self) -> bool:
        """Whether anything in it moves with time."""
        return self.scene.changes


_worlds: WeakKeyDictionary[World, dict[object, object]] = WeakKeyDictionary()


def radio_world(world: World, names: tuple[str, ...]) -> RadioWorld:
    """The world for a sensor of these names (kind, model, own name), built once for each state of the world."""
    cache = _worlds.setdefault(world, {})
    if cache.get("version") != world.version:
        cache.clear()
        cache["version"] = world.version
    geometry = world.geometry(*names)
    key = id(geometry)
    if key not in cache:
        cache[key] = _built(world, geometry)
    found = cache[key]
    assert isinstance(found, RadioWorld)
    return found


def _built(world: World, geometry: SceneGeometry) -> RadioWorld:
    parts = world.parts
    by_material = np.array([RADIO.index(radio_name(one.name)) for one in world.materials] or [0], dtype=np.int64)
    bark = np.array([one.name == "bark" for one in world.materials] or [False])
    count = max(len(parts), 1)
    radio = by_material[parts.material] if len(parts) else np.zeros(1, np.int64)
    leafy = radio == RADIO.index("foliage")
    aside = leafy | (bark[parts.material] if len(parts) else np.zeros(1, bool)) | _narrow(geometry, count)
    static = _kept(geometry.static, aside)
    actors = [MovingTriangles(_kept(one.triangles, aside), one.trajectory) for one in geometry.actors]
    hard = SceneGeometry(static, [one for one in actors if len(one.triangles)], geometry.surface)
    everything = [static, *(one.triangles for one in hard.actors)]
    planes, areas, first = [], [], 0
    for triangles in everything:
        plane, area = _planes(triangles)
        planes.append(plane + first)
        areas.append(area)
        first += int(plane.max(initial=-1)) + 1
    normal = static.normals()
    offset = np.sum(normal * static.vertices[static.faces[:, 0]], axis=1) if len(static) else np.zeros(0)
    return RadioWorld(
        RayScene(hard), hard, np.concatenate(planes), np.concatenate(areas), normal, offset, radio,
        _crowns(geometry.static, leafy),
    )  # fmt: skip


def _kept(triangles: Triangles, aside: NDArray[np.bool_]) -> Triangles:
    """Triangles of parts that do not stand aside."""
    rows = ~aside[triangles.part] if len(triangles) else np.zeros(0, bool)
    if np.all(rows):
        return triangles
    return Triangles(triangles.vertices, triangles.faces[rows], triangles.part[rows])


def _narrow(geometry: SceneGeometry, count: int) -> NDArray[np.bool_]:
    """Parts of which two extents are small."""
    low, high = np.full((count, 3), np.inf), np.full((count, 3), -np.inf)
    for triangles in (geometry.static, *(one.triangles for one in geometry.actors)):
        for corner in range(3):
            points = triangles.vertices[triangles.faces[:, corner]]
            np.minimum.at(low, triangles.part, points)
            np.maximum.at(high, triangles.part, points)
    extent = np.sort(np.where(np.isfinite(low), high - low, np.inf), axis=1)
    return np.asarray(extent[:, 1] < NARROW_M)


def _planes(triangles: Triangles) -> tuple[NDArray[np.int64], Floats]:
    """Number of the plane of each triangle, and the area [m^2] of all its triangles: of one part, level and
    direction."""
    if not len(triangles):
        return np.zeros(0, np.int64), np.zeros(0)
    a, b, c = (triangles.vertices[triangles.faces[:, k]] for k in range(3))
    across = np.cross(b - a, c - a)
    twice = np.linalg.norm(across, axis=1)
    normal = across / np.maximum(twice, 1e-300)[:, None]
    offset = np.sum(normal * a, axis=1)
    keys = np.concatenate(
        [
            triangles.part[:, None].astype(np.int64),
            np.rint(normal / NORMAL_STEP).astype(np.int64),
            np.rint(offset / OFFSET_STEP_M).astype(np.int64)[:, None],
        ],
        axis=1,
    )
    order = np.lexsort(keys.T)
    new = np.any(np.diff(keys[order], axis=0) != 0, axis=1)
    plane = np.empty(len(keys), np.int64)
    plane[order] = np.concatenate([[0], np.cumsum(new)])
    return plane, np.asarray(np.bincount(plane, weights=twice / 2.0)[plane], dtype=np.float64)


def _crowns(static: Triangles, leafy: NDArray[np.bool_]) -> Crowns:
    """An ellipsoid around the leaves of each part; wide parts in pieces."""
    rows = leafy[static.part] if len(static) else np.zeros(0, bool)
    if not np.any(rows):
        return Crowns(np.zeros((0, 3)), np.zeros((0, 3)))
    corners = static.vertices[static.faces[rows]].reshape(-1, 3)
    part = np.repeat(static.part[rows].astype(np.int64), 3)
    low, high = np.full((len(leafy), 3), np.inf), np.full((len(leafy), 3), -np.inf)
    np.minimum.at(low, part, corners)
    np.maximum.at(high, part, corners)
    wide = np.any((high - low)[part, :2] > CROWN_M, axis=1)
    cell = np.where(wide[:, None], np.floor(corners[:, :2] / (CROWN_M / 2.0)), 0.0).astype(np.int64)
    _, group = np.unique(np.concatenate([part[:, None], cell], axis=1), axis=0, return_inverse=True)
    group = np.asarray(group).reshape(-1)
    count = int(group.max()) + 1
    low, high = np.full((count, 3), np.inf), np.full((count, 3), -np.inf)
    np.minimum.at(low, group, corners)
    np.maximum.at(high, group, corners)
    return Crowns((low + high) / 2.0, np.maximum((high - low) / 2.0, 0.05))
