"""The slow, plain reference: every ray against every triangle, in float64 NumPy. It defines what is right."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import quat_conjugate, quat_rotate
from parhelion.rays.geometry import SceneGeometry, Triangles
from parhelion.rays.records import Hits, Rays

_PAIRS_AT_ONCE = 4_000_000


class ReferenceScene:
    """Brute force over a scene's triangles, with the same answers as the fast engine."""

    def __init__(self, geometry: SceneGeometry) -> None:
        self.geometry = geometry

    def cast(self, rays: Rays) -> Hits:
        """The nearest triangle each ray meets, within its range."""
        n = len(rays)
        best = np.full(n, np.inf)
        triangle = np.full(n, -1, dtype=np.int64)
        part = np.full(n, -1, dtype=np.int64)
        actor = np.full(n, -1, dtype=np.int64)
        normal = np.zeros((n, 3))
        first = 0
        bodies = [(self.geometry.static, None)] + [(a.triangles, a.trajectory) for a in self.geometry.actors]
        for number, (triangles, trajectory) in enumerate(bodies):
            origin, direction, turn = rays.origin, rays.direction, None
            if trajectory is not None:
                position, turn = trajectory.sample(rays.time)
                origin = quat_rotate(quat_conjugate(turn), origin - position)
                direction = quat_rotate(quat_conjugate(turn), direction)
            t, index = nearest_triangle(triangles, origin, direction, np.minimum(best, rays.max_range))
            hit = index >= 0
            best[hit] = t[hit]
            triangle[hit] = first + index[hit]
            part[hit] = triangles.part[index[hit]]
            actor[hit] = number - 1
            normals = triangles.normals()[index[hit]]
            normal[hit] = normals if turn is None else quat_rotate(turn[hit], normals)
            first += len(triangles)
        return Hits(best, triangle, part, actor, normal)


def nearest_triangle(
    triangles: Triangles, origin: NDArray[np.float64], direction: NDArray[np.float64], limit: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Distance and number of the nearest triangle (Moeller and Trumbore 1997), inf and -1 where there is none."""
    n, m = len(origin), len(triangles)
    best = np.full(n, np.inf)
    index = np.full(n, -1, dtype=np.int64)
    if m == 0 or n == 0:
        return best, index
    a, b, c = (triangles.vertices[triangles.faces[:, k]] for k in range(3))
    e1, e2 = b - a, c - a
    step = max(1, _PAIRS_AT_ONCE // m)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        o, d = origin[rows, None, :], direction[rows, None, :]
        p = np.cross(d, e2[None])
        det = np.sum(e1[None] * p, axis=2)
        # Degenerate triangles and rays in the triangle's plane have no determinant, and no hit.
        solvable = np.abs(det) > 1e-14
        inverse = 1.0 / np.where(solvable, det, 1.0)
        s = o - a[None]
        u = np.sum(s * p, axis=2) * inverse
        q = np.cross(s, e1[None])
        v = np.sum(d * q, axis=2) * inverse
        t = np.sum(e2[None] * q, axis=2) * inverse
        inside = solvable & (u >= 0) & (v >= 0) & (u + v <= 1) & (t > 0) & (t <= limit[rows, None])
        t = np.where(inside, t, np.inf)
        nearest = np.argmin(t, axis=1)
        distance = t[np.arange(len(nearest)), nearest]
        best[rows] = distance
        index[rows] = np.where(np.isfinite(distance), nearest, -1)
    return best, index
