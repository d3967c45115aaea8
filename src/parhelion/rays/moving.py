"""Casts at rigid bodies that move, with a time per ray and without rebuilding their acceleration structure.

The atlas holds all bodies side by side, at rest. A ray that may hit a body is transformed into the frame of that body
at the time of the ray, and cast there. On the CPU, a second, small scene finds the candidate bodies of a ray: it has
one box per body, which encloses the volume that the body sweeps during the time window. Only these boxes change from
frame to frame. On a GPU a kernel may use one scene only: the atlas is then part of the static scene, far away from it,
and each ray is tested against the bounds of all bodies, which is fast there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import (
    UNSET,
    Bool,
    DrJit,
    Float,
    Int,
    Ints,
    Mitsuba,
    PreliminaryHit,
    State,
    Vectors,
    Vectors4,
    namespace,
)
from parhelion.core.errors import ConfigError, EngineError
from parhelion.core.pose import quat_rotate
from parhelion.rays.device import Engine
from parhelion.rays.geometry import MovingTriangles, Triangles
from parhelion.rays.replay import addresses

# ---- Poses of moving bodies at knots, between which kernels interpolate ---------------------------------------------
# Knots are at whole steps of one clock, for any window. Bodies whose motion is known ahead are sampled in long blocks:
# one call for hundreds of knots takes hardly longer than one for the few knots of a scan.


Floats = NDArray[np.float64]

STEP_S = 1.0 / 100.0
"""Time between knots [s]. For 10 m/s^2 the interpolation error a dt^2 / 8 is 0.13 mm."""
MOST_KNOTS = 65
"""Largest number of knots in a window; longer windows get longer steps."""
BLOCK = 200
"""Number of knots that are sampled ahead in one call: two seconds."""


@dataclass(frozen=True)
class Knots:
    """Poses of all bodies over a window."""

    first_s: float
    """Time of the first knot [s]."""
    step_s: float
    """Time between knots [s]."""
    xyz: Floats
    """Positions [m], shape (bodies, knots, 3)."""
    quat: Floats
    """Unit quaternions `xyzw`, shape (bodies, knots, 4); neighbours lie in the same hemisphere."""


class KnotClock:
    """Samples the motions of bodies, one window after another."""

    def __init__(self, actors: list[MovingTriangles]) -> None:
        self._motions = [actor.trajectory for actor in actors]
        self._ahead = [bool(getattr(motion, "known_ahead", False)) for motion in self._motions]
        self._blocks: dict[tuple[float, int], tuple[Floats, Floats]] = {}

    def window(self, start: float, duration: float) -> Knots:
        """Return knots that cover [start, start + duration] [s]."""
        step = STEP_S * max(1.0, np.ceil(duration / (STEP_S * (MOST_KNOTS - 1))))
        first = int(np.floor(start / step + 1e-9))
        last = max(int(np.ceil((start + duration) / step - 1e-9)), first + 1)
        numbers = np.arange(first, last + 1)
        xyz = np.empty((len(self._motions), len(numbers), 3))
        quat = np.empty((len(self._motions), len(numbers), 4))
        now = [row for row, ahead in enumerate(self._ahead) if not ahead]
        for row in now:
            xyz[row], quat[row] = self._motions[row].sample(numbers * step)
        later = [row for row, ahead in enumerate(self._ahead) if ahead]
        if later:
            needed = range(first // BLOCK, last // BLOCK + 1)
            blocks = [self._block(step, number, later) for number in needed]
            rows = slice(first - needed[0] * BLOCK, last - needed[0] * BLOCK + 1)
            xyz[later] = np.concatenate([block[0] for block in blocks], axis=1)[:, rows]
            quat[later] = np.concatenate([block[1] for block in blocks], axis=1)[:, rows]
        bad = ~(np.isfinite(xyz).all(axis=(1, 2)) & np.isfinite(quat).all(axis=(1, 2)))
        if bad.any():
            raise ConfigError(
                f"actor {int(np.argmax(bad))}: the trajectory is not finite between {start} and {start + duration} s"
            )
        # A quaternion and its negative are the same rotation. Interpolation needs neighbours in one hemisphere.
        flips = np.where(np.sum(quat[:, 1:] * quat[:, :-1], axis=2) < 0, -1.0, 1.0)
        quat[:, 1:] *= np.cumprod(flips, axis=1)[:, :, None]
        return Knots(first * step, step, xyz, quat)

    def _block(self, step: float, number: int, rows: list[int]) -> tuple[Floats, Floats]:
        """Return poses of the bodies whose motion is known ahead, over one block."""
        key = (step, number)
        if key not in self._blocks:
            times = (number * BLOCK + np.arange(BLOCK)) * step
            poses = [self._motions[row].sample(times) for row in rows]
            while len(self._blocks) >= 2:
                del self._blocks[next(iter(self._blocks))]
            self._blocks[key] = np.stack([xyz for xyz, _ in poses]), np.stack([quat for _, quat in poses])
        return self._blocks[key]


# ---- moving ---------------------------------------------------------------------------------------------------------


_BOX_FACES = np.array(
    [
        [0, 2, 1], [1, 2, 3], [4, 5, 6], [5, 7, 6], [0, 1, 4], [1, 5, 4],
        [2, 6, 3], [3, 6, 7], [0, 4, 2], [2, 4, 6], [1, 3, 5], [3, 7, 5],
    ]
)  # fmt: skip


@dataclass
class MovingHit:
    """Nearest hit on a moving body, as kernel variables."""

    t: Float
    triangle: Int
    actor: Int
    u: Float
    v: Float


@dataclass
class MovingRays:
    """Rays that are cast at moving bodies, as kernel variables."""

    origin: Vectors
    direction: Vectors
    time: Float
    """Time after the start of the window [s]."""
    coherent: bool


@dataclass
class Atlas:
    """All bodies in one set of triangles, laid out on a square grid without overlap."""

    triangles: Triangles
    offsets: NDArray[np.float64]
    """Shift of each body from its own frame [m], shape (bodies, 3)."""

    @classmethod
    def of(cls, actors: list[MovingTriangles], aside: NDArray[np.float64]) -> Atlas:
        """Lay the bodies out around the point `aside` [m]."""
        radius = max(float(np.abs(actor.triangles.vertices).max()) for actor in actors)
        side = int(np.ceil(np.sqrt(len(actors))))
        number = np.arange(len(actors))
        offsets = np.stack([number % side, number // side, np.zeros_like(number)], axis=1) * (2.5 * radius + 1.0)
        offsets = offsets - offsets.mean(axis=0) + aside
        vertices, faces, parts, first = [], [], [], 0
        for actor, offset in zip(actors, offsets, strict=True):
            vertices.append(actor.triangles.vertices + offset)
            faces.append(actor.triangles.faces + first)
            parts.append(actor.triangles.part)
            first += len(actor.triangles.vertices)
        return cls(Triangles(np.concatenate(vertices), np.concatenate(faces), np.concatenate(parts)), offsets)


class MovingScene:
    """Acceleration structures of moving bodies. `set_window` must be called before each launch."""

    def __init__(
        self, engine: Engine, actors: list[MovingTriangles], origin: NDArray[np.float64], atlas: Atlas, atlas_scene: Any
    ) -> None:
        self.engine, self.actors, self.origin, self.atlas = engine, actors, origin, atlas_scene
        self.corners = np.concatenate([_corners(actor.triangles.vertices[None]) for actor in actors])
        # Three rows per body: the two corners of its bounds, and its offset in the atlas.
        margin = 1e-3 + 1e-5 * np.abs(self.corners).max()
        cells = np.stack([self.corners[:, 0] - margin, self.corners[:, 7] + margin, atlas.offsets], axis=1)
        self.cells = engine.table(np.pad(cells, ((0, 0), (0, 0), (0, 1))))
        self.boxes: Any = None
        if engine.device == "cpu":
            boxes = np.tile(_corners(np.array([[[-1.0] * 3, [1.0] * 3]]))[0], (len(actors), 1))
            faces = (_BOX_FACES[None] + 8 * np.arange(len(actors))[:, None, None]).reshape(-1, 3)
            triangles = Triangles(boxes, faces.astype(np.int32), np.zeros(len(faces), np.uint32))
            self.boxes = triangle_scene(engine, triangles)
            self._box_parameters = engine.mi.traverse(self.boxes)
        self.body_count = engine.dr.opaque(engine.mi.UInt32, len(actors))
        self._clock = KnotClock(actors)
        self._still_arrays = (self.cells, self.body_count, *addresses(engine, atlas_scene))
        self.arrays: tuple[Any, ...] = ()
        """Every array that casts read, for the current window."""
        self._window: tuple[float, float] | None = None
        self.knots: Float = UNSET
        self.velocity: Float = UNSET
        self.knot_count: Int = UNSET
        self.knots_per_second: Float = UNSET
        self.time_of_first: Float = UNSET
        self.step_back: Float = UNSET

    def set_window(self, start: float, duration: float) -> None:
        """Prepare for rays with times in [start, start + duration] [s]."""
        if self._window == (start, duration):
            return
        dr, mi = self.engine.dr, self.engine.mi
        knots = self._clock.window(start, duration)
        local = knots.xyz - self.origin
        count = local.shape[1]
        zero = np.zeros((*local.shape[:2], 1))
        swept = quat_rotate(knots.quat[:, :, None, :], self.corners[:, None]) + local[:, :, None, :]
        corners = _corners(swept.reshape(len(swept), -1, 3), pad=0.02 + 0.1 * _largest_step(swept))
        if self.boxes is not None:
            set_vertices(self.engine, self._box_parameters, corners, "shape0.")
            self._box_parameters.update()
        diagonal = float(np.linalg.norm(corners[:, 7] - corners[:, 0], axis=1).max())
        self.step_back = dr.opaque(mi.Float, 1.001 * diagonal)
        velocity = (local[:, -1] - local[:, 0]) / ((count - 1) * knots.step_s)
        self.velocity = self.engine.table(np.pad(velocity, ((0, 0), (0, 1))).astype(np.float32))
        self.knots = self.engine.table(np.concatenate([local, zero, knots.quat], axis=2).astype(np.float32))
        self.knot_count = dr.opaque(mi.UInt32, count)
        self.knots_per_second = dr.opaque(mi.Float, 1.0 / knots.step_s)
        self.time_of_first = dr.opaque(mi.Float, knots.first_s - start)
        self.arrays = (
            *self._still_arrays,
            self.step_back,
            self.velocity,
            self.knots,
            self.knot_count,
            self.knots_per_second,
            self.time_of_first,
            *(() if self.boxes is None else addresses(self.engine, self.boxes)),
        )
        self._window = (start, duration)

    def pose_at(self, actor: Int, time: Float) -> tuple[Vectors, Vectors4]:
        """Return position and quaternion of bodies at times [s] after the window's start, as kernel variables."""
        dr, mi = self.engine.dr, self.engine.mi
        position = (time - self.time_of_first) * self.knots_per_second
        return interpolate_knots(dr, mi, self.knots, actor * self.knot_count, position, self.knot_count)

    def _cast_at_body(self, body: Int, rays: MovingRays, limit: Float, active: Bool) -> tuple[Float, PreliminaryHit]:
        """Cast rays in the frame of a body, only along the segment inside its bounds."""
        dr, mi = self.engine.dr, self.engine.mi
        position, rotation = self.pose_at(body, rays.time)
        local_origin = rotate_back(dr, mi, rotation, rays.origin - position)
        local_direction = off_planes(dr, rotate_back(dr, mi, rotation, rays.direction))
        rows = [dr.gather(mi.Vector4f, self.cells, body * 3 + k, active) for k in range(3)]
        low, high, shift = (mi.Vector3f(row.x, row.y, row.z) for row in rows)
        enter, leave = _slab(dr, low, high, local_origin, local_direction)
        xp = namespace(enter)
        near, far = xp.maximum(enter, 0.0), xp.minimum(leave, limit)
        start = dr.fma(local_direction, near, local_origin + shift)
        ray = mi.Ray3f(mi.Point3f(start), local_direction, far - near, 0.0, [])
        return near, self.atlas.ray_intersect_preliminary(ray, rays.coherent, active & (near <= far))

    def intersect(
        self, origin: Vectors, direction: Vectors, time: Float, limit: Float, active: Bool, *, coherent: bool = False
    ) -> MovingHit:
        """Return the nearest body that each ray hits before `limit` [m]; `t` is `limit` for misses."""
        mi = self.engine.mi
        none = mi.UInt32(0xFFFFFFFF)
        best = (mi.Float(limit), mi.UInt32(none), mi.UInt32(none), mi.Float(0.0), mi.Float(0.0))
        rays = MovingRays(origin, direction, time, coherent)
        find = self._among_all if self.boxes is None else self._through_boxes
        return MovingHit(*find(rays, best, mi.Bool(active)))

    def _try(self, body: Int, rays: MovingRays, best: State, active: Bool) -> State:
        """Return the nearer one of the best hit so far and the hit on this body."""
        dr = self.engine.dr
        near, hit = self._cast_at_body(dr.select(active, body, 0), rays, best[0], active)
        found = active & hit.is_valid() & (near + hit.t < best[0])
        new = (near + hit.t, hit.prim_index, body, hit.prim_uv.x, hit.prim_uv.y)
        return tuple(dr.select(found, a, b) for a, b in zip(new, best, strict=True))

    def _among_all(self, rays: MovingRays, best: State, active: Bool) -> State:
        dr, mi = self.engine.dr, self.engine.mi

        def step(body: Int, *best: Any) -> State:
            return body + 1, *self._try(body, rays, best, active)

        return dr.while_loop((mi.UInt32(0), *best), lambda body, *_: active & (body < self.body_count), step)[1:]

    def _through_boxes(self, rays: MovingRays, best: State, active: Bool) -> State:
        dr, mi = self.engine.dr, self.engine.mi

        def next_box(travelled: Float, limit: Float, going: Bool) -> tuple[Int, Float, Bool]:
            """Return the body of the next box on the ray, the distance to the box, and a mask of hits."""
            start = dr.fma(rays.direction, travelled, rays.origin)
            box = self.boxes.ray_intersect_preliminary(
                mi.Ray3f(start, rays.direction, limit - travelled, 0.0, []), rays.coherent, going
            )
            met = going & box.is_valid()
            return dr.select(met, box.prim_index // 12, 0), dr.select(met, travelled + box.t + 1e-3, travelled), met

        def step(candidate: Int, travelled: Float, last: Int, going: Bool, *best: Any) -> State:
            # A ray hits a box on entry and on exit; testing the body once is enough.
            best = self._try(candidate, rays, best, going & (candidate != last))
            last = mi.UInt32(candidate)
            candidate, travelled, going = next_box(travelled, best[0], going & (travelled < best[0]))
            return candidate, travelled, last, going, *best

        # A ray may start inside a box; starting one box diagonal further back, it enters the box from outside. The
        # first box is found before the loop, because most rays hit none and then skip the loop.
        first = next_box(-self.step_back, best[0], active)
        state = (*first[:2], mi.UInt32(0xFFFFFFFF), first[2], *best)
        return dr.while_loop(state, lambda *s: s[3], step)[4:]


def off_planes(dr: DrJit, direction: Vectors) -> Vectors:
    """Return directions that are parallel to no coordinate plane.

    Ray packets with a ray exactly parallel to such a plane miss triangles; an offset of 1e-7 rad avoids this.
    """
    return dr.select(dr.abs(direction) < 1e-7, 1e-7, direction)


def _slab(dr: DrJit, low: Vectors, high: Vectors, origin: Vectors, direction: Vectors) -> tuple[Float, Float]:
    """Return the distances [m] at which rays enter and leave boxes; entry exceeds exit for rays that miss."""
    # A direction component of exactly 0 would give 0 * inf; a tiny one gives the same result.
    inverse = dr.rcp(dr.select(dr.abs(direction) < 1e-12, 1e-12, direction))
    t0, t1 = (low - origin) * inverse, (high - origin) * inverse
    xp = namespace(t0)
    near, far = xp.minimum(t0, t1), xp.maximum(t0, t1)
    return xp.maximum(xp.maximum(near.x, near.y), near.z), xp.minimum(xp.minimum(far.x, far.y), far.z)


def interpolate_knots(
    dr: DrJit, mi: Mitsuba, knots: Float, first: Ints, position: Float, count: Int
) -> tuple[Vectors, Vectors4]:
    """Return poses between knots: rows of 8 in `knots` (x y z 0, quaternion), `position` in knots after row `first`."""
    index = dr.clip(mi.Int32(position), 0, mi.Int32(count) - 2)
    fraction = namespace(position).clip(position - mi.Float(index), 0.0, 1.0)
    row = (first + mi.UInt32(index)) * 2
    p0, q0 = dr.gather(mi.Vector4f, knots, row), dr.gather(mi.Vector4f, knots, row + 1)
    p1, q1 = dr.gather(mi.Vector4f, knots, row + 2), dr.gather(mi.Vector4f, knots, row + 3)
    p = p0 + fraction * (p1 - p0)
    # Neighbouring quaternions are close and of one sign, so a normalised linear interpolation is accurate enough.
    q = q0 + fraction * (q1 - q0)
    q *= dr.rsqrt(dr.dot(q, q))
    return mi.Vector3f(p.x, p.y, p.z), q


def rotate(dr: DrJit, mi: Mitsuba, q: Vectors4, v: Vectors) -> Vectors:
    """Rotate kernel vectors by kernel quaternions `xyzw`."""
    axis = mi.Vector3f(q.x, q.y, q.z)
    t = 2.0 * dr.cross(axis, v)
    return v + q.w * t + dr.cross(axis, t)


def rotate_back(dr: DrJit, mi: Mitsuba, q: Vectors4, v: Vectors) -> Vectors:
    """Rotate kernel vectors by the inverse of kernel quaternions `xyzw`."""
    return rotate(dr, mi, mi.Vector4f(-q.x, -q.y, -q.z, q.w), v)


def triangle_scene(engine: Engine, *meshes: Triangles) -> Any:
    """Return a Mitsuba scene with one mesh per set of triangles, so that triangle numbers are preserved."""
    mi = engine.mi
    # Without robust mode, Embree misses triangles at shared edges, and whole walls for rays in one plane.
    parts: dict[str, Any] = {"type": "scene", "embree_use_robust_intersections": True}
    for number, triangles in enumerate(meshes):
        mesh = mi.Mesh(f"shape{number}", len(triangles.vertices), len(triangles.faces))
        parameters = mi.traverse(mesh)
        set_vertices(engine, parameters, triangles.vertices)
        parameters["faces"] = engine.table(triangles.faces)
        parameters.update()
        parts[f"shape{number}"] = mesh
    return mi.load_dict(parts)


# Vertex positions of a mesh among its parameters: the name up to Mitsuba 3.9, and that of later versions.
_POSITIONS = ("vertex_positions", "positions")


def set_vertices(engine: Engine, parameters: Any, vertices: NDArray[Any], prefix: str = "") -> None:
    """Set the vertices (n, 3) [m] of a mesh among the traversed parameters of a mesh or a scene."""
    for name in _POSITIONS:
        if prefix + name in parameters:
            parameters[prefix + name] = engine.table(vertices)
            return
    raise EngineError("this version of Mitsuba has another mesh interface: run 'pip install \"mitsuba>=3.9,<3.10\"'")


def _corners(points: NDArray[np.float64], pad: NDArray[np.float64] | float = 0.0) -> NDArray[np.float64]:
    """Return corners (n, 8, 3) of the boxes around sets of points (n, k, 3), enlarged by `pad` (n,) [m]."""
    pad = np.broadcast_to(pad, len(points))[:, None]
    low, high = points.min(axis=1) - pad, points.max(axis=1) + pad
    bits = (np.arange(8)[:, None] >> np.arange(3)) & 1
    return np.where(bits == 1, high[:, None], low[:, None])


def _largest_step(swept: NDArray[np.float64]) -> NDArray[np.float64]:
    """Longest step of a corner of each body between knots [m]. Between knots, a corner may leave their common box."""
    return np.linalg.norm(np.diff(swept, axis=1), axis=3).max(axis=(1, 2))
