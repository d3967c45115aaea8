"""Ray bundles on objects that the ray grid of a sensor samples too coarsely.

The grid covers the whole field of view. An object that is only a few grid cells wide would be missed or hit by chance,
and the specular spot of a sphere is a tenth of its diameter. Each such object gets a bundle of rays of its own. A ray
of a bundle counts only if its first hit is the object; a ray of the grid counts only if its first hit is none of these
objects. Every path therefore counts once. Bundles depend on the object and the sensor only, not on other objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats, quat_conjugate, quat_rotate
from parhelion.core.trajectory import Trajectory, pose_at
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.scene import NOTHING

FLAT_CELLS, CURVED_CELLS, ROUGH_CELLS = 16.0, 64.0, 8.0
"""Largest angular diameter of an object with a bundle, in cells of the grid: flat, curved and rough objects."""
ROUGH_SLOPE = 0.2
"""Objects whose materials all have at least this slope scatter into wide lobes, which few rays sample well."""
_FLAT_RAYS, _ROUGH_RAYS, _MOST_RAYS = 32, 8, 64
"""Rays across a bundle: for flat and rough objects, and at most for curved ones. Of a corner reflector, 32 x 32 rays
sample the aperture to 1 %, 0.05 dB: the rays of about 80 cells at its border hit it or not, of 400 that do."""
_RAYS_PER_CELL = 1.5
"""Rays across a bundle per grid cell, so that a bundle is never coarser than the grid."""
_CLEAR = 2.0
"""Smallest distance of an object with a bundle, in units of its radius."""


@dataclass(frozen=True, eq=False)
class FocusObjects:
    """Bounding spheres of the objects of a scene, one row per object."""

    centre: Floats
    """Centre [m] in the world frame, or in the frame of the body, shape (n, 3)."""
    radius: Floats
    """Radius [m], shape (n,)."""
    curved: NDArray[np.int64]
    """Number of curved facets, shape (n,)."""
    rough: NDArray[np.bool_]
    """Set if all materials of the object are rough, shape (n,)."""
    motion: tuple[Trajectory | None, ...]
    """Trajectory of the body, None for static objects."""
    parts: tuple[NDArray[np.int64], ...]
    """Parts of each object."""

    @classmethod
    def of(
        cls, geometry: Any, object_of_part: NDArray[np.int32], slope_of_part: Floats, curved: list[NDArray[np.bool_]]
    ) -> FocusObjects:
        """Objects of a scene; `curved` masks the curved triangles of the static geometry and of each body."""
        rows: list[tuple[Floats, float, int, bool, Trajectory | None, NDArray[np.int64]]] = []
        blocks = [(geometry.static, None), *((body.triangles, body.trajectory) for body in geometry.actors)]
        for (triangles, motion), bent in zip(blocks, curved, strict=True):
            if not len(triangles):
                continue
            owner = object_of_part[triangles.part]
            order = np.argsort(owner, kind="stable")
            for members in np.split(order, np.flatnonzero(np.diff(owner[order])) + 1):
                corners = triangles.vertices[triangles.faces[members]].reshape(-1, 3)
                centre = 0.5 * (corners.min(axis=0) + corners.max(axis=0))
                radius = float(np.sqrt(np.max(np.sum((corners - centre) ** 2, axis=1))))
                parts = np.unique(triangles.part[members]).astype(np.int64)
                rough = bool(np.all(slope_of_part[parts] >= ROUGH_SLOPE))
                rows.append((centre, radius, int(np.count_nonzero(bent[members])), rough, motion, parts))
        columns = list(zip(*rows, strict=True)) if rows else [()] * 6
        return cls(
            np.array(columns[0], np.float64).reshape(-1, 3),
            np.array(columns[1], np.float64),
            np.array(columns[2], np.int64),
            np.array(columns[3], bool),
            tuple(columns[4]),
            tuple(columns[5]),
        )

    def seen_from(
        self, sensor: Trajectory, time_of: Callable[[Floats], Floats], middle_s: float
    ) -> tuple[Floats, Floats, Floats]:
        """Directions (n, 3) in the sensor frame, distances (n,) [m] and times (n,) [s] at which the beam passes.

        `time_of` returns the time of directions (n, 3) [s]. A rotating antenna has one per azimuth, which is found in
        three steps.
        """
        times = np.full(len(self.radius), middle_s)
        for _ in range(3):
            place = self.centre.copy()
            for row, motion in enumerate(self.motion):
                if motion is not None:
                    place[row] = pose_at(motion, float(times[row])).apply(self.centre[row])
            moments, row_of = np.unique(times, return_inverse=True)
            xyz, quat = sensor.sample(moments)
            offset = quat_rotate(quat_conjugate(quat)[row_of], place - xyz[row_of])
            found = np.asarray(time_of(offset))
            if np.array_equal(found, times):
                break
            times = found
        distance = np.linalg.norm(offset, axis=1)
        return offset / np.maximum(distance, 1e-9)[:, None], distance, times


@kernel_tree()
@dataclass
class Bundles:
    """Rays of all bundles of a frame on the device."""

    bundle: Any
    """Bundle of each ray."""
    number: Any
    """Number of each ray within its bundle."""
    rows: Any
    """Eight numbers for the field of view, and eight per bundle.

    Field of view: normals (2) of its right and left edge in the horizontal plane; sines of its lower and upper edge, 0
    after each. Bundle: direction, tangent of its half-width; rays across, time [s], 0, 0. One array for both, since two
    arrays of equal length need another recording than two of different lengths.
    """

    def inside(self, local: Any, turns: bool) -> Any:
        """Mask of the directions within the field of view; a rotating antenna covers every azimuth."""
        dr, mi = running_engine().dr, running_engine().mi
        right, left, low, high = (dr.gather(mi.Vector2f, self.rows, mi.UInt32(k)) for k in range(4))
        found = (local.z >= low.x) & (local.z < high.x)
        if not turns:
            found &= (local.x * right.x + local.y * right.y >= 0.0) & (local.x * left.x + local.y * left.y > 0.0)
        return found

    def rays(self, index: Any, first: Any, second: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Direction, solid angle [sr], angular spacing [rad], time [s] and bundle of rays; `first` and `second` are
        positions within their cells, 0 to 1."""
        dr, mi = running_engine().dr, running_engine().mi
        bundle, number = dr.gather(mi.UInt32, self.bundle, index), dr.gather(mi.UInt32, self.number, index)
        a = dr.gather(mi.Vector4f, self.rows, bundle * 2 + 2)
        b = dr.gather(mi.Vector4f, self.rows, bundle * 2 + 3)
        # Floats, since an integer division by the zeros of unused SIMD lanes would end the process.
        column = dr.floor((mi.Float(number) + 0.5) / b.x)
        step = 2.0 * a.w / b.x
        s = dr.fma(column + first, step, -a.w)
        t = dr.fma(mi.Float(number) - column * b.x + second, step, -a.w)
        ahead = mi.Vector3f(a.x, a.y, a.z)
        level = dr.rsqrt(ahead.x * ahead.x + ahead.y * ahead.y)
        left = mi.Vector3f(-ahead.y * level, ahead.x * level, 0.0)
        local = ahead + s * left + t * dr.cross(ahead, left)
        stretch = dr.rsqrt(1.0 + s * s + t * t)
        return local * stretch, step * step * stretch**3, step, b.y, bundle


def bundles_of(
    engine: Engine,
    objects: FocusObjects,
    cell_rad: float,
    edges_rad: tuple[float, float, float, float],
    reach_m: float,
    sensor: Trajectory,
    time_of: Callable[[Floats], Floats],
    span_s: tuple[float, float],
    parts: int,
) -> tuple[Bundles | None, int, Any]:
    """Bundles of a frame, their number of rays, and the bundle of each part of the world (NOTHING by default).

    `cell_rad` is the spacing of the grid, `edges_rad` the field of view (azimuth from, to, elevation from, to),
    `span_s` the start and the duration of the frame; times of rays count from the start.
    """
    claims = np.full(max(parts, 1), NOTHING, np.uint32)
    if not len(objects.radius):
        return None, 0, engine.table(claims)
    toward, distance, times = objects.seen_from(sensor, time_of, span_s[0] + 0.5 * span_s[1])
    clear = distance > _CLEAR * objects.radius
    sine = np.where(clear, objects.radius / np.maximum(distance, 1e-9), 0.0)
    half = np.arcsin(np.minimum(sine, 0.99))
    cells = 2.0 * half / cell_rad
    limit = np.where(objects.curved > 0, CURVED_CELLS, FLAT_CELLS)
    limit = np.where(objects.rough, ROUGH_CELLS, limit)
    azimuth, elevation = np.arctan2(toward[:, 1], toward[:, 0]), np.arcsin(np.clip(toward[:, 2], -1.0, 1.0))
    low_a, high_a, low_e, high_e = edges_rad
    wide = half / np.maximum(np.cos(elevation), 0.1)
    inside = (azimuth + wide > low_a) & (azimuth - wide < high_a) & (elevation + half > low_e)
    inside &= (elevation - half < high_e) & (np.abs(toward[:, 2]) < 0.999)
    chosen = np.flatnonzero(clear & inside & (cells < limit) & (distance - objects.radius < reach_m))
    if not len(chosen):
        return None, 0, engine.table(claims)
    # The order follows the directions, so that it does not depend on the order in which objects were added.
    chosen = chosen[np.lexsort(toward[chosen].T)]
    for number, row in enumerate(chosen):
        claims[objects.parts[row]] = number
    across = _FLAT_RAYS + np.ceil(1.5 * np.sqrt(objects.curved[chosen]))
    across = np.where(objects.rough[chosen], _ROUGH_RAYS, np.minimum(across, _MOST_RAYS))
    across = np.ceil(np.maximum(across, _RAYS_PER_CELL * cells[chosen])).astype(np.int64)
    table = np.zeros((1 + len(chosen), 8), np.float32)
    table[0] = -np.sin(low_a), np.cos(low_a), np.sin(high_a), -np.cos(high_a), np.sin(low_e), 0.0, np.sin(high_e), 0.0
    table[1:, :3], table[1:, 3] = toward[chosen], 1.02 * np.tan(half[chosen])
    table[1:, 4], table[1:, 5] = across, times[chosen] - span_s[0]
    count = across**2
    total = int(count.sum())
    bundle = np.repeat(np.arange(len(chosen), dtype=np.uint32), count)
    number = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
    made = Bundles(*map(engine.table, (bundle, number.astype(np.uint32), table)))
    return made, total, engine.table(claims)
