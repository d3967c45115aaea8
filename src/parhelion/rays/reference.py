"""The slow reference engine: every ray against every triangle, in float64 NumPy. It defines the correct result."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import namespace
from parhelion.core.pose import quat_conjugate, quat_rotate
from parhelion.rays.geometry import SceneGeometry, Triangles, risen
from parhelion.rays.records import Hits, Rays

_PAIRS_AT_ONCE = 4_000_000


class ReferenceScene:
    """Brute-force casts, with the same results as the fast engine."""

    def __init__(self, geometry: SceneGeometry) -> None:
        self.geometry = geometry

    def cast(self, rays: Rays) -> Hits:
        """Return the nearest triangle that each ray hits within its range."""
        n = len(rays)
        best = np.full(n, np.inf)
        triangle = np.full(n, -1, dtype=np.int64)
        part = np.full(n, -1, dtype=np.int64)
        actor = np.full(n, -1, dtype=np.int64)
        normal = np.zeros((n, 3))
        first = 0
        bodies = [(self.geometry.static, None)] + [(a.triangles, a.trajectory) for a in self.geometry.actors]
        for number, (triangles, trajectory) in enumerate(bodies):
            origin, direction, rotation = rays.origin, rays.direction, None
            if trajectory is not None:
                position, rotation = trajectory.sample(rays.time)
                origin = quat_rotate(quat_conjugate(rotation), origin - position)
                direction = quat_rotate(quat_conjugate(rotation), direction)
            t, index = nearest_triangle(triangles, origin, direction, np.minimum(best, rays.max_range))
            hit = index >= 0
            best[hit] = t[hit]
            triangle[hit] = first + index[hit]
            part[hit] = triangles.part[index[hit]]
            actor[hit] = number - 1
            normals = triangles.normals()[index[hit]]
            normal[hit] = normals if rotation is None else quat_rotate(rotation[hit], normals)
            first += len(triangles)
        hits = Hits(best, triangle, part, actor, normal)
        if self.geometry.surface is not None and n:
            self._cast_at_surface(rays, hits, first)
        return hits

    def is_blocked(self, rays: Rays) -> NDArray[np.bool_]:
        """Return a mask of the rays that hit anything within their range."""
        return self.cast(rays).found

    def _cast_at_surface(self, rays: Rays, hits: Hits, first: int) -> None:
        """Update `hits` in place where the deforming surface is nearer; its triangles are numbered from `first`."""
        surface = self.geometry.surface
        assert surface is not None
        middle = rays.middle_time
        now = surface.at(surface.neighbourhood(rays.middle_origin), middle)
        t, index = nearest_triangle(now.triangles, rays.origin, rays.direction, np.minimum(hits.range, rays.max_range))
        met = np.flatnonzero(index >= 0)
        normal, rise = now.normal[index[met]], now.rise[index[met]]
        toward = np.sum(normal * rays.direction[met], axis=1)
        late = rays.time[met] - middle
        t_moved: Any = risen(t[met], normal[:, 2], rise, late, toward, namespace(toward))
        nearer = (t_moved > 0) & (t_moved <= np.minimum(hits.range, rays.max_range)[met])
        rows, face = met[nearer], index[met[nearer]]
        hits.range[rows] = t_moved[nearer]
        hits.triangle[rows] = first + face
        hits.part[rows] = now.triangles.part[face]
        hits.actor[rows] = -1
        hits.normal[rows] = normal[nearer]


def nearest_triangle(
    triangles: Triangles, origin: NDArray[np.float64], direction: NDArray[np.float64], limit: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return distance and number of the nearest triangle (Moeller and Trumbore 1997); inf and -1 for misses."""
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
        # The determinant is zero for degenerate triangles and for rays in the plane of the triangle: no hit.
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
