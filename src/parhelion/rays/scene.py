"""The fast ray engine: `cast(rays) -> hits` on Mitsuba, and `trace` for use inside kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import UNSET, Bool, Float, Int, Masks, Scene, Vectors, namespace
from parhelion.core.errors import ConfigError
from parhelion.rays.device import Engine, engine
from parhelion.rays.geometry import ChangingSurface, EditedGeometry, MovingTriangles, SceneGeometry, Triangles, risen
from parhelion.rays.lock import DeviceOwned, locked
from parhelion.rays.moving import Atlas, MovingScene, off_planes, rotate, set_vertices, triangle_scene
from parhelion.rays.origin import likely_zero, warn_of_far_rays, warn_of_long_sides
from parhelion.rays.records import Hits, Rays
from parhelion.rays.replay import CoveredScene, SceneArrays, addresses

# ---- surface --------------------------------------------------------------------------------------------------------
# A surface that deforms from scan to scan, water with waves, has its own acceleration structure. Its triangles are set
# for the middle of a time window, and only this small structure is rebuilt (1.2 ms for 8000 triangles on two cores).
# Within the window each face rises at a constant speed: after the cast, its plane is moved to the time of the ray. On a
# GPU a kernel may use one scene only: the surface is then part of the static scene, far away from it, and rays are
# shifted to it.


_SPARE = 1024
"""Step in which the capacity for triangles grows, so that meshes of similar size share a scene."""


@dataclass
class SurfaceHit:
    """Hits on the surface, as kernel variables."""

    found: Bool
    t: Float
    triangle: Int
    normal: Vectors
    part: Int
    u: Float
    v: Float


class SurfaceScene:
    """Acceleration structure of a deforming surface. `set_window` must be called before each launch."""

    def __init__(self, engine: Engine, surface: ChangingSurface, origin: NDArray[np.float64]) -> None:
        self.engine, self.surface, self.origin = engine, surface, origin
        self.aside: NDArray[np.float64] = np.zeros(3)
        self.scene: Any = None
        self._prefix = "shape0"
        self._parameters: Any = None
        self._capacity = 0
        self._window: tuple[float, float, tuple[int, int]] | None = None
        self._faces_of: tuple[int, int] | None = None
        self.table: Float = UNSET
        self.middle: Float = UNSET
        self.arrays: tuple[Any, ...] = ()
        """Every array that casts read, for the current window."""

    def blank(self, aside: NDArray[np.float64]) -> Triangles:
        """Return filler triangles for a shared scene, shifted by `aside` [m] from the surface."""
        self.aside = aside
        self._capacity = self.surface.most_triangles
        return _blank(self._capacity, aside)

    def share(self, scene: Any, shape: int) -> None:
        """Use a scene whose shape number `shape` was built from the triangles of `blank`."""
        self.scene, self._prefix = scene, f"shape{shape}"
        self._parameters = self.engine.mi.traverse(scene)

    def set_window(self, start: float, duration: float, place: NDArray[np.float64] | None) -> None:
        """Prepare for rays with times in [start, start + duration] [s] from sensors near `place` [m]."""
        dr, mi = self.engine.dr, self.engine.mi
        lower, upper = self.surface.bounds
        where = self.surface.neighbourhood((lower + upper) / 2.0 if place is None else place)
        if self._window == (start, duration, where):
            return
        now = self.surface.at(where, start + duration / 2.0)
        faces = now.triangles.faces
        if max(len(faces), len(now.triangles.vertices)) > self._capacity:
            self._capacity = (max(len(faces), len(now.triangles.vertices)) // _SPARE + 2) * _SPARE
            self.share(triangle_scene(self.engine, _blank(self._capacity, self.aside)), 0)
            self._faces_of = None
        # A sheet has fewer vertices than faces. Spare faces are degenerate and never hit.
        vertices = np.empty((self._capacity, 3))
        count = len(now.triangles.vertices)
        vertices[:count] = now.triangles.vertices - self.origin + self.aside
        vertices[count:] = vertices[0]
        if self._faces_of != where:
            padded = np.zeros((self._capacity, 3), np.int32)
            padded[: len(faces)] = faces
            self._parameters[f"{self._prefix}.faces"] = self.engine.table(padded)
            self._faces_of = where
        set_vertices(self.engine, self._parameters, vertices, f"{self._prefix}.")
        self._parameters.update()
        # One row per face: two components of its normal (the third is positive), its rise, and the bits of its part.
        rows = np.zeros((self._capacity, 4), np.float32)
        rows[: len(faces), :2] = now.normal[:, :2]
        rows[: len(faces), 2] = now.rise
        rows[: len(faces), 3] = now.triangles.part.astype(np.uint32).view(np.float32)
        self.table = self.engine.table(rows)
        self.middle = dr.opaque(mi.Float, duration / 2.0)
        self.arrays = (self.table, self.middle, *addresses(self.engine, self.scene))
        self._window = (start, duration, where)

    def intersect(
        self, origin: Vectors, direction: Vectors, time: Float, limit: Float, active: Bool, *, coherent: bool = False
    ) -> SurfaceHit:
        """Return hits on the surface before `limit` [m], at times [s] after the start of the window."""
        dr, mi = self.engine.dr, self.engine.mi
        start = origin + mi.Vector3f(*self.aside.tolist()) if np.any(self.aside) else origin
        hit = self.scene.ray_intersect_preliminary(mi.Ray3f(start, direction, limit, 0.0, []), coherent, active)
        found = active & hit.is_valid()
        row = dr.gather(mi.Vector4f, self.table, dr.select(found, hit.prim_index, 0), found)
        xp = namespace(row.x)
        up = dr.sqrt(xp.maximum(1.0 - row.x * row.x - row.y * row.y, 0.0))
        normal = mi.Vector3f(row.x, row.y, up)
        toward = dr.dot(normal, direction)
        t = cast("Float", risen(hit.t, up, row.z, time - self.middle, toward, xp))
        found = found & (t > 0) & (t <= limit)
        part = dr.reinterpret_array(mi.UInt32, row.w)
        return SurfaceHit(found, t, hit.prim_index, normal, part, hit.prim_uv.x, hit.prim_uv.y)


def _blank(count: int, at: NDArray[np.float64]) -> Triangles:
    """Return filler triangles: one with an area, because a scene needs one, and degenerate ones."""
    vertices = np.tile(at, (count, 1))
    vertices[1, 0] += 1e-3
    vertices[2, 1] += 1e-3
    faces = np.zeros((count, 3), np.int32)
    faces[0] = 0, 1, 2
    return Triangles(vertices, faces, np.zeros(count, np.uint32))


# ---- scene ----------------------------------------------------------------------------------------------------------


NOTHING = 0xFFFFFFFF
"""Triangle, part or actor number of a miss, in kernels."""
ATLAS_DISTANCE_M = 4000.0
"""Distance on a GPU between the static world and the atlas of its moving bodies [m]. Rays reach half as far in such a
world, and float32 resolves the triangles of the bodies to 0.3 mm at this distance."""


@dataclass
class Trace:
    """Nearest hit of each ray, as kernel variables."""

    found: Bool
    """True for hits."""
    t: Float
    """Distance [m]; the limit of the ray for misses."""
    normal: Vectors
    """Unit normal in the world frame."""
    part: Int
    """Part number."""
    triangle: Int
    """Triangle number, static ones first."""
    actor: Int | None
    """Actor number, or NOTHING; None in a world without moving bodies."""
    u: Float
    """Barycentric coordinate of the second corner."""
    v: Float
    """Barycentric coordinate of the third corner."""


class StandingPart(DeviceOwned):
    """Static triangles, their table, and their acceleration structure, which is built on first use."""

    built = 0
    """Number of triangles for which structures were built in this process, as a measure of the work."""

    def __init__(self, given: Triangles, cut: tuple[StandingPart, NDArray[np.bool_]] | None = None) -> None:
        self.given = given
        if cut is None:
            self.solid, self.rows = given.solid()
            self.table = _table(self.solid)
            warn_of_long_sides(self.solid)
        else:
            # These triangles are the kept ones of a part that is known.
            whole, kept = cut
            if whole.solid is whole.given:
                self.solid, self.rows, left = given, np.arange(len(given)), kept
            else:
                left = kept[whole.rows]
                self.rows = (np.cumsum(kept) - 1)[whole.rows[left]]
                self.solid = given.chosen(self.rows)
            # Few blocks of rows are missing, and copies of blocks are fast.
            edges = np.flatnonzero(np.diff(left, prepend=False, append=False)).reshape(-1, 2).tolist()
            self.table = np.concatenate([whole.table[:0], *(whole.table[first:end] for first, end in edges)])
        self._scenes: dict[tuple[float, ...], Any] = {}

    def local(self, origin: NDArray[np.float64]) -> Triangles:
        """Triangles relative to an origin [m]."""
        if not origin.any():
            return self.solid
        return Triangles(self.solid.vertices - origin, self.solid.faces, self.solid.part)

    def scene_at(self, engine: Engine, origin: NDArray[np.float64]) -> Any:
        """Mitsuba scene of the triangles relative to an origin [m]; None without triangles."""
        if not len(self.solid):
            return None
        key = tuple(origin.tolist())
        if key not in self._scenes:
            while len(self._scenes) >= _MOST_ORIGINS:
                del self._scenes[next(iter(self._scenes))]
            self._scenes[key] = triangle_scene(engine, self.local(origin))
            StandingPart.built += len(self.solid)
        return self._scenes[key]


_MOST_ORIGINS = 4
"""Number of origins for which the structures of a wide world are cached."""
_parts: WeakKeyDictionary[SceneGeometry, StandingPart] = WeakKeyDictionary()
_NO_ROW = np.zeros((1, 4), np.float32)


def _standing_part(geometry: SceneGeometry) -> StandingPart:
    """Static triangles of a geometry, prepared once."""
    if geometry not in _parts:
        rest = geometry.remainder
        whole = None if rest is None else rest.whole()
        if rest is not None and whole is not None and whole in _parts:
            made = StandingPart(geometry.static, (_parts[whole], rest.kept))
        else:
            made = StandingPart(geometry.static)
        _parts[geometry] = made
    return _parts[geometry]


def _table(triangles: Triangles) -> NDArray[np.float32]:
    """Normal and bits of the part number of each triangle, shape (n, 4)."""
    rows = np.zeros((len(triangles), 4), np.float32)
    rows[:, :3] = triangles.normals()
    rows[:, 3] = triangles.part.astype(np.uint32).view(np.float32)
    return rows


class RayScene(DeviceOwned):
    """The fast ray engine: static triangles in one acceleration structure, moving bodies in another.

    Positions are float32 relative to `origin`, by default the middle of the static triangles, so that worlds in map
    coordinates keep their precision. Rays that start far from that middle need their own scene, with a `zero` (3,) [m]
    near them.
    """

    @locked
    def __init__(self, geometry: SceneGeometry, *, zero: NDArray[np.float64] | None = None) -> None:
        self.engine = engine()
        actors = [MovingTriangles(actor.triangles.solid()[0], actor.trajectory) for actor in geometry.actors]
        for number, actor in enumerate(actors):
            if not len(actor.triangles):
                raise ConfigError(f"scene: actor {number} has no triangle with an area")
        if geometry.bounds is not None and not np.all(np.isfinite(geometry.bounds)):
            raise ConfigError("scene: vertices must be finite")
        self.origin: NDArray[np.float64] = likely_zero(geometry) if zero is None else np.round(zero)
        standing = self._standing(geometry)
        counts = [len(one.solid) for one in standing]
        if len(standing) > 1:
            base, added = (one.solid for one in standing)
            self.geometry: SceneGeometry = EditedGeometry(SceneGeometry(base), added, actors, geometry.surface)
        else:
            self.geometry = SceneGeometry(standing[0].solid, actors, geometry.surface)
        self._before_surface = sum(counts) + sum(len(actor.triangles) for actor in actors)
        self._numbering = geometry, [one.rows for one in standing], [len(one.given) for one in standing]
        self._build(standing, actors)
        # One row per triangle: normal, and the bits of its part number. A single gather fetches all four.
        tables = [one.table for one in standing] + [_table(actor.triangles) for actor in actors]
        tables += [] if self._before_surface else [_NO_ROW]
        self.table = self.engine.table(tables[0] if len(tables) == 1 else np.concatenate(tables))
        self._first_added = self.engine.dr.opaque(self.engine.mi.UInt32, counts[0])
        self._first_moving = self.engine.dr.opaque(self.engine.mi.UInt32, sum(counts))
        self._first_of_surface = self.engine.dr.opaque(self.engine.mi.UInt32, self._before_surface)
        self._static_arrays = (
            self.table,
            self._first_moving,
            self._first_of_surface,
            *(addresses(self.engine, self.static) if self.static is not None else ()),
            *((self._first_added, *addresses(self.engine, self.added)) if self.added is not None else ()),
        )
        moving = None if self.moving is None else self.moving.boxes is None
        waves = None if self.surface is None else tuple(self.surface.aside.tolist())
        self._cover = CoveredScene(self, (self.static is None, self.added is None, self.farthest, moving, waves))

    def _standing(self, geometry: SceneGeometry) -> list[StandingPart]:
        """Static triangles: all in one part, or the unchanged ones of an edited world, which are cached, and the rest.

        On a GPU a kernel may use one scene only, so all are in one part there.
        """
        if isinstance(geometry, EditedGeometry) and not (self.engine.device != "cpu" and len(geometry.added)):
            return [_standing_part(geometry.base), *([StandingPart(geometry.added)] if len(geometry.added) else [])]
        return [_standing_part(geometry)]

    @cached_property
    def _number(self) -> NDArray[np.int64]:
        """Number in the input geometry of each non-degenerate triangle, static ones first; at least one entry."""
        geometry, static_rows, sizes = self._numbering
        first = np.cumsum([0, *sizes])
        rows = [start + one for start, one in zip(first, static_rows, strict=False)]
        before = int(first[-1])
        for actor in geometry.actors:
            rows.append(before + actor.triangles.solid()[1])
            before += len(actor.triangles)
        numbers = np.concatenate(rows)
        return numbers if len(numbers) else np.zeros(1, np.int64)

    @property
    def _count(self) -> int:
        """Number of triangles of the input geometry, without those of the surface."""
        geometry, _, sizes = self._numbering
        return sum(sizes) + sum(len(actor.triangles) for actor in geometry.actors)

    def for_kernels(self) -> SceneArrays:
        """Return the scene as an argument of frozen functions, for the current window."""
        arrays = self._static_arrays
        if self.moving is not None:
            arrays += self.moving.arrays
        if self.surface is not None:
            arrays += self.surface.arrays
        return SceneArrays(self._cover, arrays)

    def _build(self, standing: list[StandingPart], actors: list[MovingTriangles]) -> None:
        """Build the acceleration structures: static triangles, moving bodies and waves."""
        self.moving: MovingScene | None = None
        self.static: Scene | None = None
        self.added: Scene | None = None
        self.surface: SurfaceScene | None = None
        self.farthest: float = 3e38
        if self.geometry.surface is not None:
            self.surface = SurfaceScene(self.engine, self.geometry.surface, self.origin)
        count = sum(len(one.solid) for one in standing)
        joint = self.engine.device != "cpu" and self.changes and count + bool(actors) + bool(self.surface) > 1
        if joint:
            self._build_joint(standing[0].local(self.origin), actors)
            return
        scenes = [one.scene_at(self.engine, self.origin) for one in standing]
        self.static, self.added = (*scenes, None) if len(scenes) == 1 else scenes
        if actors:
            atlas = Atlas.of(actors, np.zeros(3))
            self.moving = MovingScene(
                self.engine, actors, self.origin, atlas, triangle_scene(self.engine, atlas.triangles)
            )

    def _build_joint(self, local: Triangles, actors: list[MovingTriangles]) -> None:
        """Build one scene of everything, where moving geometry lies farther away than any ray of a sensor reaches."""
        aside = np.array([0.0, 0.0, np.abs(local.vertices).max(initial=0.0) + ATLAS_DISTANCE_M])
        atlas = Atlas.of(actors, aside) if actors else None
        self.farthest = ATLAS_DISTANCE_M / 2.0
        shapes = [] if atlas is None else [atlas.triangles]
        if self.surface is not None:
            shapes.append(self.surface.blank(-aside))
        self.static = triangle_scene(self.engine, *([local] if len(local) else []), *shapes)
        if self.surface is not None:
            self.surface.share(self.static, len(shapes) - (0 if len(local) else 1))
        if atlas is not None:
            self.moving = MovingScene(self.engine, actors, self.origin, atlas, self.static)

    @property
    def changes(self) -> bool:
        """True if the geometry changes with time."""
        return bool(self.geometry.actors) or self.geometry.surface is not None

    def neighbourhood(self, place: NDArray[np.float64]) -> tuple[int, int] | None:
        """Key of a place (3,) [m]: places with the same key may share a launch. None if all places may."""
        return None if self.geometry.surface is None else self.geometry.surface.neighbourhood(place)

    def set_window(self, start: float, duration: float, place: NDArray[np.float64] | None = None) -> None:
        """Set the times [s] that the next launch covers and the place [m] of its sensor.

        Static scenes ignore both. Only waves use the place: their mesh is finest there.
        """
        if self.moving is not None:
            self.moving.set_window(start, duration)
        if self.surface is not None:
            self.surface.set_window(start, duration, place)

    def _clipped(self, direction: Vectors, limit: Float, active: Masks) -> tuple[Vectors, Float, Bool]:
        """Arguments of a cast: directions off the coordinate planes, limits [m] within the scene, and a kernel mask."""
        dr, mi = self.engine.dr, self.engine.mi
        limit = namespace(direction).minimum(mi.Float(limit), self.farthest)
        return off_planes(dr, direction), limit, mi.Bool(active)

    def trace(
        self,
        origin: Vectors,
        direction: Vectors,
        time: Float,
        limit: Float,
        active: Masks = True,
        *,
        coherent: bool = False,
    ) -> Trace:
        """Cast kernel rays: local origins (Point3f), unit directions, time [s] after the window's start, limit [m].

        With `coherent`, the CPU traces neighbouring rays in packets. This is two to three times as fast if neighbours
        have similar directions, and slower otherwise.
        """
        dr, mi = self.engine.dr, self.engine.mi
        direction, limit, active = self._clipped(direction, limit, active)
        t, triangle = mi.Float(limit), mi.UInt32(NOTHING)
        actor: Int | None = None
        u, v = mi.Float(0.0), mi.Float(0.0)
        if self.static is not None:
            hit = self.static.ray_intersect_preliminary(mi.Ray3f(origin, direction, limit, 0.0, []), coherent, active)
            valid = hit.is_valid()
            t = dr.select(valid, hit.t, t)
            triangle = dr.select(valid, hit.prim_index, triangle)
            u, v = dr.select(valid, hit.prim_uv.x, u), dr.select(valid, hit.prim_uv.y, v)
        if self.added is not None:
            hit = self.added.ray_intersect_preliminary(mi.Ray3f(origin, direction, t, 0.0, []), coherent, active)
            valid = hit.is_valid()
            t = dr.select(valid, hit.t, t)
            triangle = dr.select(valid, hit.prim_index + self._first_added, triangle)
            u, v = dr.select(valid, hit.prim_uv.x, u), dr.select(valid, hit.prim_uv.y, v)
        if self.moving is not None:
            body = self.moving.intersect(origin, direction, time, t, active, coherent=coherent)
            nearer = body.actor != NOTHING
            t = body.t
            triangle = dr.select(nearer, body.triangle + self._first_moving, triangle)
            actor = body.actor
            u, v = dr.select(nearer, body.u, u), dr.select(nearer, body.v, v)
        on_surface = None
        if self.surface is not None:
            on_surface = self.surface.intersect(origin, direction, time, t, active, coherent=coherent)
            t = dr.select(on_surface.found, on_surface.t, t)
            triangle = dr.select(on_surface.found, NOTHING, triangle)
            actor = None if actor is None else dr.select(on_surface.found, NOTHING, actor)
        found = active & (triangle != NOTHING)
        row = dr.gather(mi.Vector4f, self.table, dr.select(found, triangle, 0), found)
        normal = mi.Vector3f(row.x, row.y, row.z)
        if self.moving is not None and actor is not None:
            moved = found & (actor != NOTHING)
            _, rotation = self.moving.pose_at(dr.select(moved, actor, 0), time)
            normal = dr.select(moved, rotate(dr, mi, rotation, normal), normal)
        part = dr.select(found, dr.reinterpret_array(mi.UInt32, row.w), NOTHING)
        if on_surface is not None:
            met = on_surface.found
            normal, part = dr.select(met, on_surface.normal, normal), dr.select(met, on_surface.part, part)
            triangle = dr.select(met, on_surface.triangle + self._first_of_surface, triangle)
            u, v = dr.select(met, on_surface.u, u), dr.select(met, on_surface.v, v)
            found = found | met
        return Trace(found, t, normal, part, triangle, actor, u, v)

    def blocked(
        self,
        origin: Vectors,
        direction: Vectors,
        time: Float,
        limit: Float,
        active: Masks = True,
        *,
        coherent: bool = False,
    ) -> Bool:
        """Return a mask of the kernel rays that hit anything. Arguments as for `trace`; costs less."""
        mi = self.engine.mi
        direction, limit, active = self._clipped(direction, limit, active)
        met = mi.Bool(False)
        if self.static is not None:
            met = self.static.ray_test(mi.Ray3f(origin, direction, limit, 0.0, []), coherent, active)
        if self.added is not None:
            met |= self.added.ray_test(mi.Ray3f(origin, direction, limit, 0.0, []), coherent, active & ~met)
        if self.moving is not None:
            body = self.moving.intersect(origin, direction, time, limit, active & ~met, coherent=coherent)
            met |= body.actor != NOTHING
        if self.surface is not None:
            water = self.surface.intersect(origin, direction, time, limit, active & ~met, coherent=coherent)
            met |= water.found
        return active & met

    def below(self, points: NDArray[np.float64], reach_m: float = np.inf) -> tuple[NDArray[np.float64], Hits]:
        """Heights (n,) [m] of the first surfaces below points (n, 3), NaN without any in `reach_m`, and the hits."""
        count = len(points)
        down = np.tile([0.0, 0.0, -1.0], (count, 1))
        hits = self.cast(Rays(np.asarray(points, np.float64), down, np.zeros(count), np.full(count, float(reach_m))))
        return np.where(hits.found, points[:, 2] - hits.range, np.nan), hits

    @locked
    def cast(self, rays: Rays, *, coherent: bool = False) -> Hits:
        """Return the nearest triangle that each ray hits within its range; `coherent` as for `trace`."""
        n = len(rays)
        if n == 0:
            empty = np.zeros(0, np.int64)
            return Hits(np.zeros(0), empty, empty, empty, np.zeros((0, 3)))
        dr, mi = self.engine.dr, self.engine.mi
        origin, direction, time, limit, size = self._launch(rays)
        hit = self.trace(origin, direction, time, limit, coherent=coherent)
        actor = mi.UInt32(NOTHING) if hit.actor is None else hit.actor
        dr.eval(hit.found, hit.t, hit.triangle, hit.part, actor, hit.normal)

        def values(of: Any) -> NDArray[Any]:
            # In an empty scene the result is a single value.
            found: NDArray[Any] = np.broadcast_to(of.numpy(), size)[:n]
            return found

        found = values(hit.found)

        def number(of: Int) -> NDArray[np.int64]:
            whole = values(of).astype(np.int64)
            return np.where(found & (whole != NOTHING), whole, -1)

        normal = np.stack([np.where(found, values(one).astype(np.float64), 0.0) for one in hit.normal], axis=1)
        distance = np.where(found, values(hit.t).astype(np.float64), np.inf)
        triangle = number(hit.triangle)
        # Triangles of the surface follow all others in `geometry`, degenerate ones included.
        beyond = triangle - self._before_surface
        known = self._number[np.clip(triangle, 0, len(self._number) - 1)]
        triangle = np.where(beyond >= 0, self._count + beyond, np.where(triangle >= 0, known, -1))
        return Hits(distance, triangle, number(hit.part), number(actor), normal)

    @locked
    def is_blocked(self, rays: Rays) -> NDArray[np.bool_]:
        """Return a mask of the rays that hit anything within their range; costs less than `cast`."""
        if not len(rays):
            return np.zeros(0, bool)
        origin, direction, time, limit, size = self._launch(rays)
        return np.array(np.broadcast_to(self.blocked(origin, direction, time, limit).numpy(), size)[: len(rays)])

    def _launch(self, rays: Rays) -> tuple[Vectors, Vectors, Float, Float, int]:
        """Arguments of `trace` for rays, of which there is at least one, and their number with the padding."""
        mi = self.engine.mi
        warn_of_far_rays(rays.origin, self.origin)
        start = float(rays.time.min())
        place = None if self.surface is None else rays.middle_origin
        self.set_window(start, float(rays.time.max()) - start, place)
        x, y, z, dx, dy, dz, time, reach = self.engine.columns(
            *(rays.origin - self.origin).T, *rays.direction.T, rays.time - start, np.minimum(rays.max_range, 3e38)
        )
        return mi.Point3f(x, y, z), mi.Vector3f(dx, dy, dz), time, reach, len(x)
