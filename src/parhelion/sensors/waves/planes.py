"""Planes of a world for radio and sound: connected flat patches, and planes by rounding that include moving bodies.

Waves are mirrored by surfaces that are flat over about a Fresnel zone. Rays find these surfaces; the lengths of
mirrored paths are computed from the plane equations in float64.

    patches = planes_of(world, "uwb")
    patches.normal[k], patches.offset[k]        # the points x of patch k satisfy normal @ x = offset
    patches.of_triangle[hits.triangle]          # the patch that a ray met
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.rays.geometry import SceneGeometry, Triangles
from parhelion.sensors.scene import scene_cache
from parhelion.world.world import World

FLAT_RAD = 1e-3
"""Neighbouring triangles belong to one plane if their normals differ by less [rad]."""
WELD_M = 1e-5
"""Corners nearer to each other are one corner [m]."""
OUT_OF_PLANE_M = 1e-3
"""Largest distance of a patch's corners from its plane [m]. A patch that exceeds it is a long chain of small bends and
is split into its triangles."""

IntArray = NDArray[np.int64]
_Made = TypeVar("_Made")


@dataclass(frozen=True, eq=False)
class PlanePatches:
    """Plane patches of the static geometry of a world, in the world frame."""

    normal: Floats
    """Unit normals by the right-hand rule of the triangles, shape (p, 3)."""
    offset: Floats
    """Distance of the plane from the world's origin along the normal [m], shape (p,)."""
    area: Floats
    """Area [m^2], shape (p,)."""
    lower: Floats
    """Lower corner of the box around each patch [m], shape (p, 3)."""
    upper: Floats
    """Upper corner [m], shape (p, 3)."""
    part: IntArray
    """Row of the world's table of parts, shape (p,)."""
    material: IntArray
    """Row of `world.materials`, shape (p,)."""
    of_triangle: NDArray[np.int32]
    """Patch of each static triangle, shape (m,); -1 for triangles without area."""

    def __len__(self) -> int:
        return len(self.area)

    def patch_of(self, triangle: IntArray) -> IntArray:
        """Patch of each triangle number of `Hits`; -1 for misses and for moving bodies."""
        known = self.of_triangle
        if not len(known):
            return np.full(len(triangle), -1, np.int64)
        standing = (triangle >= 0) & (triangle < len(known))
        return np.where(standing, known[np.clip(triangle, 0, len(known) - 1)], -1).astype(np.int64)


def cached(world: World, key: Hashable, make: Callable[[], _Made]) -> _Made:
    """Return what `make` built from a world, cached by key until the world changes."""
    cache = scene_cache(world, None)
    if (key, None) not in cache:
        cache[key, None] = make()
    made: _Made = cache[key, None]
    return made


def planes_of(world: World, *sensor: str) -> PlanePatches:
    """Plane patches of the static geometry that the named sensor can see, cached until the world changes.

    Triangles have the numbers of `world.geometry(*sensor).static`, which `Hits.triangle` uses as well.
    """
    geometry = world.geometry(*sensor)
    # The geometry is the same object until the world changes. Sensors that see the same objects share it.
    return cached(world, ("planes", id(geometry)), lambda: patches_of(geometry, world.parts.material))


def patches_of(geometry: SceneGeometry, material_of_part: NDArray[np.uint16]) -> PlanePatches:
    """Patches of the static triangles; `material_of_part` is the material row of each part."""
    triangles = geometry.static
    solid, rows = triangles.solid()
    of_triangle = np.full(len(triangles), -1, np.int32)
    if not len(solid):
        none, whole = np.zeros(0), np.zeros(0, np.int64)
        return PlanePatches(np.zeros((0, 3)), none, none, np.zeros((0, 3)), np.zeros((0, 3)), whole, whole, of_triangle)
    normal, area = _normals_and_areas(solid)
    corners = solid.vertices[solid.faces]
    group = connected_groups(len(solid), *_neighbours(solid, normal))
    plane = _planes(group, normal, area, corners)
    group, again = _split(group, corners, *plane)
    if again:
        plane = _planes(group, normal, area, corners)
    of_triangle[rows] = group
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    a, b, c = (corners[order, k] for k in range(3))
    low, high = np.minimum(np.minimum(a, b), c), np.maximum(np.maximum(a, b), c)
    part = solid.part[order[starts]].astype(np.int64)
    return PlanePatches(
        plane[0],
        plane[1],
        _sums(group, area),
        np.minimum.reduceat(low, starts),
        np.maximum.reduceat(high, starts),
        part,
        material_of_part[part].astype(np.int64),
        of_triangle,
    )


def _normals_and_areas(triangles: Triangles) -> tuple[Floats, Floats]:
    a, b, c = (triangles.vertices[triangles.faces[:, k]] for k in range(3))
    (ux, uy, uz), (vx, vy, vz) = (b - a).T, (c - a).T
    cross = np.stack([uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx], axis=1)
    length = np.sqrt(np.einsum("ij,ij->i", cross, cross))
    return cross / length[:, None], length / 2.0


def _neighbours(triangles: Triangles, normal: Floats) -> tuple[IntArray, IntArray]:
    """Pairs of triangles of one part that share an edge and lie in one plane."""
    count, faces = len(triangles), _welded(triangles)
    one, other = (np.concatenate([faces[:, (k + shift) % 3] for k in range(3)]) for shift in range(2))
    key = np.minimum(one, other) * (int(faces.max()) + 1) + np.maximum(one, other)
    order = np.argsort(key)
    follows = np.flatnonzero(key[order[1:]] == key[order[:-1]])
    a, b = order[follows] % count, order[follows + 1] % count
    level = 1.0 - FLAT_RAD**2 / 2.0
    alike = (triangles.part[a] == triangles.part[b]) & (np.einsum("ij,ij->i", normal[a], normal[b]) > level)
    return a[alike], b[alike]


def _welded(triangles: Triangles) -> IntArray:
    """Faces by corner number; coincident corners share a number."""
    there = np.zeros(len(triangles.vertices), bool)
    there[triangles.faces] = True
    used = np.flatnonzero(there)
    places = np.round((triangles.vertices[used] - triangles.vertices[used[0]]) / WELD_M).astype(np.int64)
    # Three integers hashed into one. A collision has a probability of 2^-40 and joins only coplanar triangles.
    key = (places[:, 0] * 73_856_093 + places[:, 1] * 19_349_663_003 + places[:, 2] * 83_492_791_000_037) & (2**62 - 1)
    order = np.argsort(key)
    of_vertex = np.zeros(len(triangles.vertices), np.int64)
    of_vertex[used[order]] = np.cumsum(np.diff(key[order], prepend=key[order[0]]) != 0)
    return np.asarray(of_vertex[triangles.faces])


def connected_groups(count: int, a: IntArray, b: IntArray) -> NDArray[np.int32]:
    """Group number of each of `count` members that the pairs (a, b) connect, shape (count,)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(len(a), np.int8), (a, b)), shape=(count, count))
    return np.asarray(connected_components(links, directed=False)[1])


def _planes(group: NDArray[np.int32], normal: Floats, area: Floats, corners: Floats) -> tuple[Floats, Floats]:
    """Normal and offset of each group: area-weighted means over its triangles."""
    total = _sums(group, area)
    mean = np.stack([_sums(group, area * normal[:, k]) for k in range(3)], axis=1)
    mean = mean / np.sqrt(np.einsum("ij,ij->i", mean, mean))[:, None]
    middle = (corners[:, 0] + corners[:, 1] + corners[:, 2]) / 3.0
    place = np.stack([_sums(group, area * middle[:, k]) for k in range(3)], axis=1) / total[:, None]
    return mean, np.einsum("ij,ij->i", mean, place)


def _sums(group: NDArray[np.int32], values: Floats) -> Floats:
    """Sum of the values of each group."""
    return np.asarray(np.bincount(group, values), dtype=np.float64)


def _split(group: NDArray[np.int32], corners: Floats, normal: Floats, offset: Floats) -> tuple[NDArray[np.int32], bool]:
    """Renumbered groups with all non-flat ones split into triangles, and a flag that is set if there was one."""
    of_group, far = normal[group], np.zeros(len(group), bool)
    for k in range(3):
        far |= np.abs(np.einsum("ij,ij->i", corners[:, k], of_group) - offset[group]) > OUT_OF_PLANE_M
    bent = (np.bincount(group, far) > 0)[group]
    if not bent.any():
        return group, False
    new = np.where(bent, len(normal) + np.arange(len(group)), group)
    return np.unique(new, return_inverse=True)[1].astype(np.int32), True


# ---- planes by rounding ---------------------------------------------------------------------------------------------

NORMAL_STEP = 1e-3
OFFSET_STEP_M = 0.02
"""Steps of normal and offset [m]: triangles of one part that round to the same values belong to one plane."""


@dataclass(frozen=True, eq=False)
class TrianglePlanes:
    """Plane of each triangle of a scene, m rows: static triangles first, then those of moving bodies."""

    number: IntArray
    """Number of the plane, shape (m,)."""
    area: Floats
    """Area of the whole plane [m^2], shape (m,)."""
    normal: Floats
    """Unit normals of static triangles in float64, shape (k, 3)."""
    offset: Floats
    """normal . vertex of static triangles [m], shape (k,)."""

    def __len__(self) -> int:
        return len(self.number)


def triangle_planes(geometry: SceneGeometry) -> TrianglePlanes:
    """Planes of a scene's triangles: triangles of one part with the same normal and offset share a plane."""
    static, numbers, areas, first = geometry.static, [], [], 0
    for triangles in (static, *(one.triangles for one in geometry.actors)):
        number, area = _rounded(triangles)
        numbers.append(number + first)
        areas.append(area)
        first += int(number.max(initial=-1)) + 1
    normal = static.normals()
    offset = np.sum(normal * static.vertices[static.faces[:, 0]], axis=1) if len(static) else np.zeros(0)
    return TrianglePlanes(np.concatenate(numbers), np.concatenate(areas), normal, offset)


def _rounded(triangles: Triangles) -> tuple[IntArray, Floats]:
    """Plane number of each triangle, and the total area of that plane [m^2]."""
    if not len(triangles):
        return np.zeros(0, np.int64), np.zeros(0)
    a, b, c = (triangles.vertices[triangles.faces[:, k]] for k in range(3))
    across = np.cross(b - a, c - a)
    twice = np.linalg.norm(across, axis=1)
    normal = across / np.maximum(twice, 1e-300)[:, None]
    offset = np.sum(normal * a, axis=1)
    steps = [np.rint(normal / NORMAL_STEP).astype(np.int64), np.rint(offset / OFFSET_STEP_M).astype(np.int64)[:, None]]
    keys = np.concatenate([triangles.part[:, None].astype(np.int64), *steps], axis=1)
    order = np.lexsort(keys.T)
    new = np.any(np.diff(keys[order], axis=0) != 0, axis=1)
    plane = np.empty(len(keys), np.int64)
    plane[order] = np.concatenate([[0], np.cumsum(new)])
    return plane, np.asarray(np.bincount(plane, weights=twice / 2.0)[plane], dtype=np.float64)
