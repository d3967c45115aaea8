"""A surface that changes its shape from scan to scan, water with waves, in an acceleration structure of its own.

Its triangles are set for the middle of a time window, and only this small structure is built anew (1.2 ms for 8000
triangles on two cores). Within the window each face moves on at the speed at which it rises: after the cast its plane
is moved to the ray's own time. On a GPU a kernel may use one scene only: there the surface lies in the static scene,
far aside, and rays are carried to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Ints, Masks, Reals, Vectors, namespace
from parhelion.rays.device import Engine
from parhelion.rays.geometry import ChangingSurface, Triangles, risen
from parhelion.rays.moving import triangle_scene
from parhelion.rays.replayable import addresses

_SPARE = 1024
"""Room for triangles grows in steps of this many, so that meshes of nearly one size share a scene."""


@dataclass
class SurfaceHit:
    """Hits on the surface, as kernel variables."""

    found: Masks
    t: Reals
    triangle: Ints
    normal: Vectors
    part: Ints
    u: Reals
    v: Reals


class SurfaceScene:
    """The changing surface of a world, ready to be cast at. `set_window` must be called before each launch."""

    def __init__(self, engine: Engine, surface: ChangingSurface, origin: NDArray[np.float64]) -> None:
        self.engine, self.surface, self.origin = engine, surface, origin
        self.aside: NDArray[np.float64] = np.zeros(3)
        self.scene: Any = None
        self._prefix = "shape0"
        self._parameters: Any = None
        self._room = 0
        self._window: tuple[float, float, tuple[int, int]] | None = None
        self._faces_of: tuple[int, int] | None = None
        self.table: Reals = None
        self.middle: Reals = None
        self.arrays: tuple[Any, ...] = ()
        """Every array that casts read, for the window that was set last."""

    def blank(self, aside: NDArray[np.float64]) -> Triangles:
        """Triangles to hold the surface's place in a scene that it shares, `aside` [m] of where it is."""
        self.aside = aside
        self._room = self.surface.most_triangles
        return _blank(self._room, aside)

    def share(self, scene: Any, shape: int) -> None:
        """Use a scene that was built with `blank` triangles as its shape of this number."""
        self.scene, self._prefix = scene, f"shape{shape}"
        self._parameters = self.engine.mi.traverse(scene)

    def set_window(self, start: float, duration: float, place: NDArray[np.float64] | None) -> None:
        """Prepare for rays with times in [start, start + duration] [s] from sensors about `place` [m]."""
        dr, mi = self.engine.dr, self.engine.mi
        lower, upper = self.surface.bounds
        where = self.surface.neighbourhood((lower + upper) / 2.0 if place is None else place)
        if self._window == (start, duration, where):
            return
        now = self.surface.at(where, start + duration / 2.0)
        faces = now.triangles.faces
        if max(len(faces), len(now.triangles.vertices)) > self._room:
            self._room = (max(len(faces), len(now.triangles.vertices)) // _SPARE + 2) * _SPARE
            self.share(triangle_scene(self.engine, _blank(self._room, self.aside)), 0)
            self._faces_of = None
        # As many vertices as faces is more than a sheet needs. Spare faces lie in one point and are never met.
        vertices = np.empty((self._room, 3))
        count = len(now.triangles.vertices)
        vertices[:count] = now.triangles.vertices - self.origin + self.aside
        vertices[count:] = vertices[0]
        if self._faces_of != where:
            padded = np.zeros((self._room, 3), np.int32)
            padded[: len(faces)] = faces
            self._parameters[f"{self._prefix}.faces"] = self.engine.table(padded)
            self._faces_of = where
        self._parameters[f"{self._prefix}.vertex_positions"] = self.engine.table(vertices)
        self._parameters.update()
        # One row a face: two components of its normal (the third is up), its rise, and the bits of its part number.
        rows = np.zeros((self._room, 4), np.float32)
        rows[: len(faces), :2] = now.normal[:, :2]
        rows[: len(faces), 2] = now.rise
        rows[: len(faces), 3] = now.triangles.part.astype(np.uint32).view(np.float32)
        self.table = self.engine.table(rows)
        self.middle = dr.opaque(mi.Float, duration / 2.0)
        self.arrays = (self.table, self.middle, *addresses(self.engine, self.scene))
        self._window = (start, duration, where)

    def intersect(
        self, origin: Vectors, direction: Vectors, time: Reals, limit: Reals, active: Masks, *, coherent: bool = False
    ) -> SurfaceHit:
        """Where rays meet the surface before `limit` [m], each at its own time [s] after the window's start."""
        dr, mi = self.engine.dr, self.engine.mi
        start = origin + mi.Vector3f(*self.aside.tolist()) if np.any(self.aside) else origin
        hit = self.scene.ray_intersect_preliminary(mi.Ray3f(start, direction, limit, 0.0, []), coherent, active)
        found = active & hit.is_valid()
        row = dr.gather(mi.Vector4f, self.table, dr.select(found, hit.prim_index, 0), found)
        xp = namespace(row.x)
        up = dr.sqrt(xp.maximum(1.0 - row.x * row.x - row.y * row.y, 0.0))
        normal = mi.Vector3f(row.x, row.y, up)
        toward = dr.dot(normal, direction)
        t = risen(hit.t, up, row.z, time - self.middle, toward, xp)
        found = found & (t > 0) & (t <= limit)
        part = dr.reinterpret_array(mi.UInt32, row.w)
        return SurfaceHit(found, t, hit.prim_index, normal, part, hit.prim_uv.x, hit.prim_uv.y)


def _blank(count: int, at: NDArray[np.float64]) -> Triangles:
    """Triangles that hold room: one with an area, since a scene of none cannot be built, and many without."""
    vertices = np.tile(at, (count, 1))
    vertices[1, 0] += 1e-3
    vertices[2, 1] += 1e-3
    faces = np.zeros((count, 3), np.int32)
    faces[0] = 0, 1, 2
    return Triangles(vertices, faces, np.zeros(count, np.uint32))
