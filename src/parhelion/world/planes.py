"""Plane patches of a world: connected triangles of one part that lie in one plane, for radio and sound.

Waves mirror at surfaces that are flat over about a Fresnel zone. Rays find such surfaces; lengths of mirrored paths
come from the planes themselves, in float64.

    patches = planes_of(world, "uwb")
    patches.normal[k], patches.offset[k]        # the points x of patch k satisfy normal @ x = offset
    patches.of_triangle[hits.triangle]          # the patch that a ray met
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.rays.geometry import SceneGeometry, Triangles
from parhelion.world.world import World

FLAT_RAD = 1e-3
"""Neighbouring triangles belong to one plane if their normals differ by less [rad]."""
WELD_M = 1e-5
"""Corners nearer to each other are one corner [m]."""
OUT_OF_PLANE_M = 1e-3
"""A patch whose corners leave its plane by more is split into its triangles [m]: long chains of tiny bends."""

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Patches:
    """The plane patches of what stands in a world, in the world frame."""

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
    part: Whole
    """Row of the world's table of parts, shape (p,)."""
    material: Whole
    """Row of `world.materials`, shape (p,)."""
    of_triangle: NDArray[np.int32]
    """The patch of each standing triangle, shape (m,); -1 for triangles without area."""

    def __len__(self) -> int:
        return len(self.area)

    @cached_property
    def centre(self) -> Floats:
        """Middle of the box around each patch [m], shape (p, 3)."""
        return np.asarray((self.lower + self.upper) / 2.0)


def planes_of(world: World, *sensor: str) -> Patches:
    """The patches of what stands in a world and the named sensor can meet; made once for each state of the world.

    Triangles are numbered as in `world.geometry(*sensor).static`, and so as `Hits.triangle` of a ray scene of it.
    """
    geometry = world.geometry(*sensor)
    # The geometry is the same object until the world changes, also for sensors of other names that see the same.
    return world._kept(("planes", id(geometry)), lambda: patches_of(geometry, world.parts.material))


def patches_of(geometry: SceneGeometry, material_of_part: NDArray[np.uint16]) -> Patches:
    """The patches of standing triangles; `material_of_part` is the material's row of each part."""
    triangles = geometry.static
    solid, rows = triangles.solid()
    of_triangle = np.full(len(triangles), -1, np.int32)
    if not len(solid):
        none, whole = np.zeros(0), np.zeros(0, np.int64)
        return Patches(np.zeros((0, 3)), none, none, np.zeros((0, 3)), np.zeros((0, 3)), whole, whole, of_triangle)
    normal, area = _normals_and_areas(solid)
    corners = solid.vertices[solid.faces]
    offset = np.einsum("ij,ij->i", normal, corners[:, 0])
    group = _groups(len(solid), _neighbours(solid, normal, offset))
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
    return Patches(
        plane[0], plane[1], _sums(group, area), np.minimum.reduceat(low, starts),
        np.maximum.reduceat(high, starts), part, material_of_part[part].astype(np.int64), of_triangle,
    )  # fmt: skip


def _normals_and_areas(triangles: Triangles) -> tuple[Floats, Floats]:
    a, b, c = (triangles.vertices[triangles.faces[:, k]] for k in range(3))
    (ux, uy, uz), (vx, vy, vz) = (b - a).T, (c - a).T
    cross = np.stack([uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx], axis=1)
    length = np.sqrt(np.einsum("ij,ij->i", cross, cross))
    return cross / length[:, None], length / 2.0


def _neighbours(triangles: Triangles, normal: Floats, offset: Floats) -> tuple[Whole, Whole]:
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


def _welded(triangles: Triangles) -> Whole:
    """Faces by numbers of corners, where corners at one place have one number."""
    there = np.zeros(len(triangles.vertices), bool)
    there[triangles.faces] = True
    used = np.flatnonzero(there)
    places = np.round((triangles.vertices[used] - triangles.vertices[used[0]]) / WELD_M).astype(np.int64)
    # Three whole numbers in one: places that share a hash by chance are 2^-40 likely and only join what is flat.
    key = (places[:, 0] * 73_856_093 + places[:, 1] * 19_349_663_003 + places[:, 2] * 83_492_791_000_037) & (2**62 - 1)
    order = np.argsort(key)
    of_vertex = np.zeros(len(triangles.vertices), np.int64)
    of_vertex[used[order]] = np.cumsum(np.diff(key[order], prepend=key[order[0]]) != 0)
    return np.asarray(of_vertex[triangles.faces])


def _groups(count: int, pairs: tuple[Whole, Whole]) -> NDArray[np.int32]:
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(pairs[0]), np.int8)
    return np.asarray(connected_components(coo_matrix((ones, pairs), (count, count)), directed=False)[1])


def _planes(group: NDArray[np.int32], normal: Floats, area: Floats, corners: Floats) -> tuple[Floats, Floats]:
    """Normal and offset of each group: means over its triangles, by area."""
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
    """Groups renumbered, those that are not flat taken apart; whether there was one."""
    of_group, far = normal[group], np.zeros(len(group), bool)
    for k in range(3):
        far |= np.abs(np.einsum("ij,ij->i", corners[:, k], of_group) - offset[group]) > OUT_OF_PLANE_M
    bent = (np.bincount(group, far) > 0)[group]
    if not bent.any():
        return group, False
    new = np.where(bent, len(normal) + np.arange(len(group)), group)
    return np.unique(new, return_inverse=True)[1].astype(np.int32), True
