"""The fast ray engine: `cast(rays) -> hits` on Mitsuba, and `trace` for use inside kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.rays.device import engine
from parhelion.rays.geometry import SceneGeometry, Triangles
from parhelion.rays.moving import MovingScene, rotate, triangle_scene
from parhelion.rays.records import Hits, Rays

NOTHING = 0xFFFFFFFF
"""Triangle, part or actor number that stands for none, in kernels."""


@dataclass
class Trace:
    """The nearest hit of each ray, as kernel variables."""

    found: Any
    """Whether anything was met."""
    t: Any
    """Distance [m]; the ray's limit where nothing was met."""
    normal: Any
    """Unit normal in the world frame."""
    part: Any
    """Part number."""
    triangle: Any
    """Triangle number, static ones first."""
    actor: Any
    """Actor number, or NOTHING; None where nothing in the world moves."""
    u: Any
    """Barycentric coordinate of the second corner."""
    v: Any
    """Barycentric coordinate of the third corner."""


class RayScene:
    """A scene built once: static triangles in one acceleration structure, moving bodies in another.

    Positions inside are float32 relative to `origin`, the middle of the static triangles, so that worlds far from
    zero (map coordinates) lose nothing.
    """

    def __init__(self, geometry: SceneGeometry) -> None:
        self.engine = engine()
        self.geometry = geometry
        bounds = geometry.bounds
        self.origin: NDArray[np.float64] = np.zeros(3) if bounds is None else np.round((bounds[0] + bounds[1]) / 2)
        if bounds is not None and not np.all(np.isfinite(bounds)):
            raise ConfigError("scene: vertices must be finite")
        static = geometry.static
        local = Triangles(static.vertices - self.origin, static.faces, static.part)
        self.static = triangle_scene(self.engine, local) if len(static) else None
        self.moving = MovingScene(self.engine, geometry.actors, self.origin) if geometry.actors else None
        everything = [static] + [actor.triangles for actor in geometry.actors]
        # One row a triangle: normal, and the bits of its part number. A single gather fetches all four.
        table = np.zeros((max(1, sum(len(t) for t in everything)), 4), np.float32)
        first = 0
        for triangles in everything:
            rows = slice(first, first + len(triangles))
            table[rows, :3] = triangles.normals()
            table[rows, 3] = triangles.part.astype(np.uint32).view(np.float32)
            first += len(triangles)
        self.table = self.engine.table(table)

    def set_window(self, start: float, duration: float) -> None:
        """Tell the moving bodies which times [s] the next launch covers. Static scenes need no telling."""
        if self.moving is not None:
            self.moving.set_window(start, duration)

    def trace(
        self, origin: Any, direction: Any, time: Any, limit: Any, active: Any = True, *, coherent: bool = False
    ) -> Trace:
        """Cast kernel rays: local origins (Point3f), unit directions, time [s] after the window's start, limit [m].

        `coherent` says that neighbouring rays are alike; on the CPU they are then traced in packets, which is two to
        three times as fast for rays that are, and slower for rays that are not.
        """
        dr, mi = self.engine.dr, self.engine.mi
        active = mi.Bool(active)
        t, triangle, actor = mi.Float(limit), mi.UInt32(NOTHING), None
        u, v = mi.Float(0.0), mi.Float(0.0)
        if self.static is not None:
            hit = self.static.ray_intersect_preliminary(mi.Ray3f(origin, direction, limit, 0.0, []), coherent, active)
            valid = hit.is_valid()
            t = dr.select(valid, hit.t, t)
            triangle = dr.select(valid, hit.prim_index, triangle)
            u, v = dr.select(valid, hit.prim_uv.x, u), dr.select(valid, hit.prim_uv.y, v)
        if self.moving is not None:
            body = self.moving.intersect(origin, direction, time, t, active, coherent=coherent)
            nearer = body.actor != NOTHING
            t = body.t
            triangle = dr.select(nearer, body.triangle + len(self.geometry.static), triangle)
            actor = body.actor
            u, v = dr.select(nearer, body.u, u), dr.select(nearer, body.v, v)
        found = active & (triangle != NOTHING)
        row = dr.gather(mi.Vector4f, self.table, dr.select(found, triangle, 0), found)
        normal = mi.Vector3f(row.x, row.y, row.z)
        if self.moving is not None:
            moved = found & (actor != NOTHING)
            _, turn = self.moving.pose_at(dr.select(moved, actor, 0), time)
            normal = dr.select(moved, rotate(dr, mi, turn, normal), normal)
        part = dr.select(found, dr.reinterpret_array(mi.UInt32, row.w), NOTHING)
        return Trace(found, t, normal, part, triangle, actor, u, v)

    def cast(self, rays: Rays) -> Hits:
        """The nearest triangle each ray meets, within its range."""
        n = len(rays)
        if n == 0:
            empty = np.zeros(0, np.int64)
            return Hits(np.zeros(0), empty, empty, empty, np.zeros((0, 3)))
        dr, mi = self.engine.dr, self.engine.mi
        start = float(rays.time.min())
        self.set_window(start, float(rays.time.max()) - start)
        origin = mi.Point3f((rays.origin - self.origin).T.astype(np.float32))
        direction = mi.Vector3f(rays.direction.T.astype(np.float32))
        limit = mi.Float(np.minimum(rays.max_range, 3e38).astype(np.float32))
        hit = self.trace(origin, direction, mi.Float((rays.time - start).astype(np.float32)), limit)
        actor = mi.UInt32(NOTHING) if hit.actor is None else hit.actor
        dr.eval(hit.found, hit.t, hit.triangle, hit.part, actor, hit.normal)
        found = hit.found.numpy()

        def number(values: Any) -> NDArray[np.int64]:
            whole = values.numpy().astype(np.int64)
            return np.where(found & (whole != NOTHING), whole, -1)

        normal = np.where(found[:, None], hit.normal.numpy().T.astype(np.float64), 0.0)
        distance = np.where(found, hit.t.numpy().astype(np.float64), np.inf)
        return Hits(distance, number(hit.triangle), number(hit.part), number(actor), normal)
