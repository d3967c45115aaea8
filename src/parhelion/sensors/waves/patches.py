"""Flat patches of a scene: how large each is and how it bends on, which sets how sharply it sends waves back.

A flat patch mirrors into a lobe as narrow as diffraction at its size allows. The facets of a curved body stand for a
smooth skin: the angle to the next facet widens their lobes, so that together they send back what the skin would.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.geometry import SceneGeometry, Triangles

Floats = NDArray[np.float64]

FLAT_RAD = np.radians(0.5)
"""Neighbours whose normals differ by less are one patch."""
EDGE_RAD = np.radians(40.0)
"""Neighbours whose normals differ by more meet at a real edge."""
WELD_M = 1e-4
"""Corners closer than this are one."""
WAVE_SLOPE = 0.1
"""Slope between the facets of water with waves, whose mesh changes with time."""
_BENDING = 2.0 / 3.0
"""Three neighbours at an angle a, spread around a triangle, add up to 3/2 a^2 along every axis."""


@dataclass(frozen=True, eq=False)
class PatchRows:
    """One row a triangle."""

    axis: Floats
    """Unit vector along the first axis of the triangle's patch, shape (n, 3)."""
    length: Floats
    """Extents of the patch along its first and second axis [m]; their product is its area, shape (n, 2)."""
    bend: Floats
    """Square of the angle to the next facets along both axes [rad^2], shape (n, 2)."""
    number: NDArray[np.int64]
    """Which patch the triangle belongs to, shape (n,)."""


def patches_of(triangles: Triangles) -> PatchRows:
    """Patches of a set of triangles."""
    count = len(triangles)
    corners = triangles.vertices[triangles.faces]
    normal = triangles.normals()
    a, b = _neighbours(corners)
    angle = np.arccos(np.clip(np.abs(np.sum(normal[a] * normal[b], axis=1)), -1.0, 1.0))
    same_part = triangles.part[a] == triangles.part[b]
    number = _joined(count, a[same_part & (angle < FLAT_RAD)], b[same_part & (angle < FLAT_RAD)])
    patches = int(number.max(initial=-1)) + 1
    area = 0.5 * np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    middle = corners.mean(axis=1)

    def summed(values: Floats) -> Floats:
        flat = values.reshape(count, -1)
        columns = [np.bincount(number, flat[:, k], patches) for k in range(flat.shape[1])]
        return np.stack(columns, axis=1).astype(np.float64).reshape(patches, *values.shape[1:])

    whole = summed(area[:, None])[:, 0]
    centre = summed(area[:, None] * middle) / whole[:, None]
    offset = corners - centre[number][:, None]
    # Second moments of a triangle: those of its corners and of its middle, 1/12 and 9/12 of the area.
    mean = offset.mean(axis=1)
    moment = np.einsum("nki,nkj->nij", offset, offset) + 9.0 * np.einsum("ni,nj->nij", mean, mean)
    spread = summed(area[:, None, None] * moment / 12.0) / whole[:, None, None]
    bends = (angle >= FLAT_RAD) & (angle < EDGE_RAD)
    bending = _bending(count, a[bends], b[bends], angle[bends], normal, middle)
    share = np.bincount(number, minlength=patches)[:, None, None]
    curved = _BENDING * summed(bending) / share
    return _rows(normal, number, whole, spread, curved)


def _neighbours(corners: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of triangles that share an edge; corners (n, 3, 3)."""
    count = len(corners)
    if not count:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    cells = np.round((corners.reshape(-1, 3) - corners.reshape(-1, 3).min(axis=0)) / WELD_M).astype(np.int64)
    # One number a place: a hash, since three coordinates do not fit into one word. Clashes are one in 10^7.
    place = cells[:, 0] * 73_856_093 ^ cells[:, 1] * 19_349_663 ^ cells[:, 2] * 83_492_791
    place = place.reshape(count, 3)
    ends = np.stack([place[:, [0, 1]], place[:, [1, 2]], place[:, [2, 0]]], axis=1).reshape(-1, 2)
    low, high = ends.min(axis=1), ends.max(axis=1)
    edge = low * 1_000_003 + high
    order = np.argsort(edge, kind="stable")
    sorted_edges, owner = edge[order], order // 3
    # Where more than two meet, each is paired with the next.
    pair = np.flatnonzero(sorted_edges[1:] == sorted_edges[:-1])
    return owner[pair], owner[pair + 1]


def _joined(count: int, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers of the groups that pairs join."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(len(a), np.int8), (a, b)), shape=(count, count))
    return np.asarray(connected_components(links, directed=False)[1], np.int64)


def _bending(
    count: int, a: NDArray[np.int64], b: NDArray[np.int64], angle: Floats, normal: Floats, middle: Floats
) -> Floats:
    """Sum over a triangle's neighbours of angle^2 times the dyad of the direction to them, shape (n, 3, 3)."""
    toward = middle[b] - middle[a]
    # In the plane of the first; for angles below 40 degrees the second's plane is near enough.
    toward = toward - np.sum(toward * normal[a], axis=1, keepdims=True) * normal[a]
    # A mesh may have its corners on top of each other: then the shared edge tells no direction.
    length = np.linalg.norm(toward, axis=1, keepdims=True)
    toward = np.divide(toward, length, out=np.zeros_like(toward), where=length > 1e-12)
    turned = np.cross(normal[a], normal[b])
    size = np.linalg.norm(turned, axis=1, keepdims=True)
    across = np.cross(np.divide(turned, size, out=np.zeros_like(turned), where=size > 1e-9), normal[a])
    across = np.where(size > 1e-9, across, toward)
    dyad = (angle**2)[:, None, None] * across[:, :, None] * across[:, None, :]
    result = np.zeros((count, 9))
    for column in range(9):
        values = dyad.reshape(-1, 9)[:, column]
        result[:, column] = np.bincount(a, values, count) + np.bincount(b, values, count)
    return result.reshape(count, 3, 3)


def _rows(normal: Floats, number: NDArray[np.int64], area: Floats, spread: Floats, curved: Floats) -> PatchRows:
    """Axes, extents and bends of patches, for each triangle."""
    # A curved body's axes are those of its curvature, a flat patch's those of its shape.
    bent = np.trace(curved, axis1=1, axis2=2) > 1e-9
    _, vectors = np.linalg.eigh(np.where(bent[:, None, None], curved, spread))
    first = vectors[:, :, 2]
    axis = first[number]
    axis = axis - np.sum(axis * normal, axis=1, keepdims=True) * normal
    axis /= np.maximum(np.linalg.norm(axis, axis=1, keepdims=True), 1e-12)
    second = np.cross(normal, axis)
    own_spread, own_curved = spread[number], curved[number]

    def along(tensor: Floats, direction: Floats) -> Floats:
        return np.maximum(np.einsum("ni,nij,nj->n", direction, tensor, direction), 0.0)

    ratio = np.sqrt((along(own_spread, axis) + 1e-18) / (along(own_spread, second) + 1e-18))
    length = np.sqrt(area[number])[:, None] * np.stack([np.sqrt(ratio), 1.0 / np.sqrt(ratio)], axis=1)
    bend = np.stack([along(own_curved, axis), along(own_curved, second)], axis=1)
    return PatchRows(axis, length, bend, number)


@kernel_tree()
@dataclass
class Patches:
    """Rows of all triangles of a scene on the device, static ones first, then bodies, then one for waves."""

    rows: Any
    """Eight numbers a triangle: axis, patch number; extents, bends."""
    last: Any
    """Number of the row for waves."""

    @classmethod
    def of(cls, engine: Engine, geometry: SceneGeometry) -> Patches:
        """Patches of a scene, as the ray engine holds it: triangles without area are out already."""
        found, first = [], 0
        for triangles in (geometry.static, *(actor.triangles for actor in geometry.actors)):
            if len(triangles):
                rows = patches_of(triangles)
                table = np.zeros((len(triangles), 8), np.float32)
                table[:, :3], table[:, 4:6], table[:, 6:8] = rows.axis, rows.length, rows.bend
                table[:, 3] = (rows.number + first).astype(np.uint32).view(np.float32)
                first += int(rows.number.max()) + 1
                found.append(table)
        waves = np.array([[1.0, 0.0, 0.0, 0.0, 1.0, 1.0, WAVE_SLOPE**2, WAVE_SLOPE**2]], np.float32)
        waves[0, 3] = np.array([first], np.uint32).view(np.float32)[0]
        table = np.concatenate([*found, waves])
        return cls(engine.table(table), engine.whole(len(table) - 1))

    def at(self, triangle: Any, active: Any) -> tuple[Any, Any, Any, Any]:
        """Axis, patch number, extents (2) and bends (2) of triangles."""
        dr, mi = running_engine().dr, running_engine().mi
        row = dr.select(triangle < self.last, triangle, self.last)
        row = dr.select(active, row, 0)
        a = dr.gather(mi.Vector4f, self.rows, row * 2, active)
        b = dr.gather(mi.Vector4f, self.rows, row * 2 + 1, active)
        return (
            mi.Vector3f(a.x, a.y, a.z), dr.reinterpret_array(mi.UInt32, a.w), (b.x, b.y), (b.z, b.w),
        )  # fmt: skip
