"""Convex bodies against triangles: gaps by separating axes, and the points where they touch.

All coordinates are in the frame of the body; triangles have the shape (m, 3, 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.pose import Floats

_PLANE_M = 0.01
"""Depth [m] up to which the plane of a triangle gives the normal, as in the kernel of ground vehicles."""
_EDGE_HANDICAP_M = 1e-3
"""Gap [m] by which an edge must be better than a face; edges of a flat mesh would catch a sliding body."""
_SPREAD_M = 0.005
_INSIDE = 1e-6


@dataclass(frozen=True, eq=False)
class Convex:
    """A convex body."""

    vertices: Floats
    """Corners (v, 3) [m]."""
    normals: Floats
    """Outward normals (f, 3) of its faces."""
    offsets: Floats
    """Distances (f,) [m] of the faces from the origin along their normals."""
    edges: Floats
    """Directions (e, 3) of its edges, without repetition."""
    triangles: Floats
    """Its surface (t, 3, 3) [m]."""

    @classmethod
    def around(cls, points: ArrayLike) -> Convex:
        """Return the convex hull of points (n, 3) [m]."""
        from scipy.spatial import ConvexHull

        hull = ConvexHull(np.asarray(points, np.float64))
        every = np.round(hull.equations[:, :3], 9) + 0.0
        normals, first = np.unique(every, axis=0, return_index=True)
        corners = hull.points[hull.simplices]
        directions = []
        for k, opposite in enumerate(hull.neighbors.T):  # edge k lies opposite of corner k, next to neighbour k
            bent = np.abs(every - every[opposite]).max(axis=1) > 1e-6
            along = corners[bent, (k + 2) % 3] - corners[bent, (k + 1) % 3]
            directions.append(along / np.linalg.norm(along, axis=1, keepdims=True))
        lines = np.concatenate(directions)
        lines *= np.where((lines * (1e6, 1e3, 1.0)).sum(axis=1, keepdims=True) < 0.0, -1.0, 1.0)
        edges = np.unique(np.round(lines, 6) + 0.0, axis=0)
        edges /= np.linalg.norm(edges, axis=1, keepdims=True)
        return cls(hull.points[hull.vertices], normals, -hull.equations[first, 3], edges, corners)

    @classmethod
    def box(cls, low: ArrayLike, high: ArrayLike) -> Convex:
        """Return a box between two corners (3,) [m]."""
        return cls.around([[x, y, z] for x, y, z in np.stack(np.meshgrid(*np.array([low, high]).T), -1).reshape(-1, 3)])

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Lowest and highest coordinates (3,) [m]."""
        return self.vertices.min(axis=0), self.vertices.max(axis=0)


@dataclass(frozen=True, eq=False)
class Touching:
    """Points where a body touches triangles, or nearly does, arrays of length n."""

    row: NDArray[np.int64]
    """Number of the triangle."""
    normal: Floats
    """Unit normals (n, 3) toward the body."""
    gap: Floats
    """Distances [m]; negative where they overlap."""
    point: Floats
    """Points (n, 3) [m] on the triangles."""


def touching(body: Convex, triangles: Floats, reach: float) -> Touching:
    """Points where triangles are nearer to a body than `reach` [m].

    The normal is that of the triangle if the body lies in front of its plane, up to 1 cm; then each corner of the body
    over the triangle is a point. Otherwise it is the axis of the largest gap or the least overlap, with a single point.
    """
    low, high = body.bounds
    apart = np.maximum(triangles.min(axis=1) - high, low - triangles.max(axis=1)).max(axis=1)
    rows = np.flatnonzero(apart < reach)
    if not len(rows):
        return _nothing()
    corners = triangles[rows]
    face, plane_gap, axis, gap = _gaps(body, corners)
    found: list[tuple[int, Floats, float, Floats]] = []
    for k in np.flatnonzero(gap < reach).tolist():
        if plane_gap[k] > -_PLANE_M:
            heights = (body.vertices - corners[k, 0]) @ face[k]
            feet = body.vertices - heights[:, None] * face[k]
            over = (heights < reach) & _inside(feet, corners[k], face[k])
            if over.any():
                found += [(int(rows[k]), face[k], float(heights[n]), feet[n]) for n in np.flatnonzero(over)]
                continue
            axis[k] = face[k]
        height = body.vertices @ axis[k]
        point = _nearest(body.vertices[height < height.min() + _SPREAD_M], corners[k]).mean(axis=0)
        distance = float(gap[k])
        if plane_gap[k] > -_PLANE_M:
            # The body is not over the whole triangle: what counts is its distance over the point, if it is over that.
            distance = _over(body, point, face[k])
        if distance < reach:
            found.append((int(rows[k]), axis[k], distance, point))
    if not found:
        return _nothing()
    row, normal, depth, point = zip(*found, strict=True)
    return Touching(np.array(row), np.array(normal), np.array(depth), np.array(point))


def _nothing() -> Touching:
    return Touching(np.zeros(0, np.int64), np.zeros((0, 3)), np.zeros(0), np.zeros((0, 3)))


def _gaps(body: Convex, corners: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Normals (m, 3) of triangles toward a body and gaps (m,) to their planes; best axes (m, 3) and their gaps."""
    sides = np.roll(corners, -1, axis=1) - corners
    face = np.cross(sides[:, 0], sides[:, 1])
    area = np.linalg.norm(face, axis=1, keepdims=True)
    face /= np.maximum(area, 1e-300)
    middle = body.vertices.mean(axis=0)
    face *= np.where(((middle - corners[:, 0]) * face).sum(axis=1, keepdims=True) < 0.0, -1.0, 1.0)
    plane_gap = (body.vertices @ face.T).min(axis=0) - (corners[:, 0] * face).sum(axis=1)
    plane_gap[area[:, 0] < 1e-12] = -np.inf  # a line has no plane
    best, axis = plane_gap.copy(), face.copy()
    own = (corners @ body.normals.T).min(axis=1) - body.offsets  # (m, f)
    pick = own.argmax(axis=1)
    ahead = own[np.arange(len(corners)), pick]
    better = ahead > best
    best[better], axis[better] = ahead[better], -body.normals[pick[better]]
    crosses = np.cross(sides[:, :, None], body.edges[None, None]).reshape(len(corners), -1, 3)
    size = np.linalg.norm(crosses, axis=2, keepdims=True)
    crosses = np.concatenate([crosses, -crosses], axis=1) / np.maximum(np.concatenate([size, size], axis=1), 1e-12)
    nearest = (crosses @ body.vertices.T).min(axis=2) - np.einsum("mki,mci->mkc", crosses, corners).max(axis=2)
    lengths = np.linalg.norm(sides, axis=2).repeat(len(body.edges), axis=1)
    nearest[
        np.concatenate([size[..., 0], size[..., 0]], axis=1) < 1e-6 * np.concatenate([lengths, lengths], 1)
    ] = -np.inf
    pick = nearest.argmax(axis=1)
    ahead = nearest[np.arange(len(corners)), pick]
    better = ahead > best + _EDGE_HANDICAP_M
    best[better], axis[better] = ahead[better], crosses[better, pick[better]]
    return face, plane_gap, axis, best


def _over(body: Convex, point: Floats, direction: Floats) -> float:
    """Distance [m] from a point along a direction to where a line enters a body; infinite if it does not."""
    slope, room = body.normals @ direction, body.offsets - body.normals @ point
    with np.errstate(divide="ignore", invalid="ignore"):
        at = room / slope
    enters, leaves = at[slope < -1e-12].max(initial=-np.inf), at[slope > 1e-12].min(initial=np.inf)
    outside = (np.abs(slope) <= 1e-12) & (room < 0.0)
    return np.inf if enters > leaves or outside.any() else float(enters)


def _inside(points: Floats, corners: Floats, normal: Floats) -> NDArray[np.bool_]:
    """True (n,) for points (n, 3) in the plane of a triangle (3, 3) that lie in it."""
    sides = np.roll(corners, -1, axis=0) - corners
    outward = np.cross(sides, normal)
    turn = np.sign((outward[0] * (corners[2] - corners[0])).sum()) or 1.0
    across = ((points[:, None] - corners) * outward).sum(axis=2) * turn
    return (across >= -_INSIDE * np.linalg.norm(sides, axis=1)).all(axis=1)


def _nearest(points: Floats, corners: Floats) -> Floats:
    """Points (n, 3) of a triangle (3, 3) nearest to points (n, 3)."""
    sides = np.roll(corners, -1, axis=0) - corners
    normal = np.cross(sides[0], sides[1])
    normal /= max(float(np.linalg.norm(normal)), 1e-300)
    flat = points - ((points - corners[0]) @ normal)[:, None] * normal
    share = ((flat[:, None] - corners) * sides).sum(axis=2) / np.maximum((sides**2).sum(axis=1), 1e-300)
    on_sides = corners + np.clip(share, 0.0, 1.0)[..., None] * sides
    pick = ((flat[:, None] - on_sides) ** 2).sum(axis=2).argmin(axis=1)
    nearest = on_sides[np.arange(len(points)), pick]
    return np.where(_inside(flat, corners, normal)[:, None], flat, nearest)
