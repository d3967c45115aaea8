"""The ways of signals through a world: direct, around an edge, mirrored once or twice. Satellites are directions.

Rays in all directions from the antenna tell which ways the surfaces around it face. A satellite in direction u that a
surface of normal n mirrors is seen in direction d = u - 2 (u . n) n: a ray along d has to meet a surface of that
normal, and one from there along u has to be free. Rays are float32 and only find; lengths come from the planes in
float64: extra path = r (1 - d . u) for one mirror at distance r.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.rays.records import Hits, Rays
from parhelion.sensors.waves.edges import around, most_detour
from parhelion.sensors.waves.gnss.mirrors import RadioWorld

FAN_RAYS = 2048
"""Rays over the sphere: one each 4.5 degrees. Mirrors that look smaller are missed."""
MOST_NORMALS = (40, 12)
"""Directions of surfaces that are tried, those that fill most of the view first: at one mirror, and in pairs."""
FAR_M = 2000.0
"""Rays end here."""
WAVELENGTH_M = 0.1903
"""Of L1, for which mirrors are told from clutter."""
LEAST_SIZE = 0.1
"""Mirrors whose share of the whole plane's amplitude is smaller are left out."""
_SAME = 0.9998
_OFF_M = 0.01
_CHUNK = 400_000


@dataclass(frozen=True, eq=False)
class Paths:
    """Ways of signals, one row each; times and satellites by number. Unit vectors and metres."""

    time: NDArray[np.int64]
    """Row of the time."""
    satellite: NDArray[np.int64]
    """Column of the satellite."""
    order: NDArray[np.int64]
    """Number of mirrors: 0, 1, 2."""
    extra: Floats
    """Extra path against the direct one [m]."""
    arrival: Floats
    """Unit vector from the antenna to where the signal comes from, shape (m, 3)."""
    cos: Floats
    """Cosines of incidence at the mirrors in the order of the signal, shape (m, 2); 1 where there is none."""
    radio: NDArray[np.int64]
    """Materials of these mirrors, numbers in `mirrors.RADIO`, shape (m, 2); -1 where there is none."""
    size: Floats
    """A cos / r of the mirrors [m], shape (m, 2): amplitude times wavelength where smaller than that; inf for none."""
    foliage: Floats
    """Length inside foliage [m]."""
    corner: Floats
    """Mirror points or an edge [m] in the order from the antenna, shape (m, 2, 3); NaN where there is none."""
    edges: NDArray[np.int64]
    """Number of edges that it bends around."""

    def __len__(self) -> int:
        return len(self.time)

    def rows(self, wanted: NDArray[np.int64] | NDArray[np.bool_]) -> Paths:
        """Some rows."""
        return Paths(*(getattr(self, one.name)[wanted] for one in fields(self)))


@dataclass(frozen=True, eq=False)
class Sight:
    """What an antenna sees at each time."""

    paths: Paths
    clear: NDArray[np.bool_]
    """Satellites in direct view, shape (n, s)."""
    enclosed: NDArray[np.bool_]
    """Times at which the antenna is inside of something: all it sees above it are back faces, shape (n,)."""


@lru_cache(maxsize=4)
def fan(count: int) -> Floats:
    """Unit vectors evenly over the sphere (golden spiral), shape (count, 3)."""
    k = np.arange(count) + 0.5
    z = 1.0 - 2.0 * k / count
    angle = np.pi * (1.0 + np.sqrt(5.0)) * k
    r = np.sqrt(1.0 - z * z)
    return np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=1)


def look(
    world: RadioWorld, origin: Floats, times: Floats, toward: Floats, wanted: NDArray[np.bool_], order: int,
    diffraction: bool = False,
) -> Sight:  # fmt: skip
    """Ways of the signals to an antenna at positions (n, 3) [m] and times (n,) [s].

    `toward` holds unit vectors to the satellites, shape (n, s, 3); only `wanted` ones (n, s) are looked for. With
    `diffraction` signals that are blocked also come around the edges of what blocks them.
    """
    n = len(times)
    if world.changes:
        # What moves is placed for the times of a launch: one launch a time gives the same bits in any run.
        size = 1
    else:
        size = max(1, _CHUNK // (FAN_RAYS + int(wanted.sum(axis=1).max(initial=0)) * MOST_NORMALS[0]))
    parts = [
        _look(
            world,
            origin[k : k + size],
            times[k : k + size],
            toward[k : k + size],
            wanted[k : k + size],
            order,
            k,
            diffraction,
        )
        for k in range(0, n, size)
    ]
    joined = Paths(
        *(np.concatenate([getattr(part.paths, one.name) for part in parts]) for one in fields(Paths))
    )  # fmt: skip
    return Sight(joined, *(np.concatenate([getattr(part, name) for part in parts]) for name in ("clear", "enclosed")))


def _look(
    world: RadioWorld, origin: Floats, times: Floats, toward: Floats, wanted: NDArray[np.bool_], order: int, first: int,
    diffraction: bool,
) -> Sight:  # fmt: skip
    n, rays = len(times), fan(FAN_RAYS)
    row, sat = np.nonzero(wanted)
    u = toward[row, sat]
    whole = np.concatenate([np.tile(rays, (n, 1)), u])
    at = np.concatenate([np.repeat(np.arange(n), FAN_RAYS), row])
    hits = cast(world, origin[at], whole, times[at])
    seen, direct = _part(hits, slice(0, n * FAN_RAYS)), _part(hits, slice(n * FAN_RAYS, None))
    clear = np.zeros(wanted.shape, bool)
    clear[row, sat] = ~direct.found
    enclosed = _enclosed(seen, rays, n)
    found = [_direct(row[~direct.found], sat[~direct.found], u[~direct.found])]
    if diffraction:
        found.append(_bent(world, origin, times, row[direct.found], sat[direct.found], u[direct.found]))
    if order >= 1:
        normals = _normals(world, seen, rays, n)
        found.append(_once(world, origin, times, row, sat, u, normals))
        if order >= 2:
            found.append(_twice(world, origin, times, row, sat, u, [one[: MOST_NORMALS[1]] for one in normals]))
    paths = Paths(*(np.concatenate([getattr(part, one.name) for part in found]) for one in fields(Paths)))
    paths = paths.rows(np.lexsort((paths.extra, paths.satellite, paths.time)))
    return Sight(_through_foliage(world, paths, origin, toward, first), clear, enclosed)


def cast(world: RadioWorld, origin: Floats, direction: Floats, times: Floats, limit: float = FAR_M) -> Hits:
    """What rays with unit directions (m, 3) from positions (m, 3) [m] meet at times (m,) [s] before `limit` [m]."""
    count = len(origin)
    if not len(world.plane) and world.geometry.surface is None:
        nothing = np.full(count, -1)
        return Hits(np.full(count, np.inf), nothing, nothing, nothing, np.zeros((count, 3)))
    return world.scene.cast(Rays(origin, direction, times, np.full(count, limit)))


def _part(hits: Hits, rows: slice) -> Hits:
    return Hits(hits.range[rows], hits.triangle[rows], hits.part[rows], hits.actor[rows], hits.normal[rows])


def _enclosed(seen: Hits, rays: Floats, n: int) -> NDArray[np.bool_]:
    up = rays[:, 2] > 0.0
    back = np.einsum("nij,ij->ni", seen.normal.reshape(n, -1, 3)[:, up], rays[up]) > 0.0
    return np.asarray(np.all(back & seen.found.reshape(n, -1)[:, up], axis=1))


def _direct(row: NDArray[np.int64], sat: NDArray[np.int64], u: Floats) -> Paths:
    count = len(row)
    return Paths(
        row, sat, np.zeros(count, np.int64), np.zeros(count), u, np.ones((count, 2)), np.full((count, 2), -1),
        np.full((count, 2), np.inf), np.zeros(count), np.full((count, 2, 3), np.nan), np.zeros(count, np.int64),
    )  # fmt: skip


def _bent(
    world: RadioWorld, origin: Floats, times: Floats, row: NDArray[np.int64], sat: NDArray[np.int64], u: Floats
) -> Paths:
    """Ways around the edges of what blocks satellites; the search takes them for points FAR_M away."""
    if not len(row):
        return _direct(row, sat, u)
    start = origin[row]
    line, place = around(world.scene, start, start + FAR_M * u, times[row], most_detour(WAVELENGTH_M))
    step = place - start[line]
    distance = np.linalg.norm(step, axis=1)
    corner = np.stack([place, np.full_like(place, np.nan)], axis=1)
    plain = _direct(row[line], sat[line], step / distance[:, None])
    extra = distance - np.sum(step * u[line], axis=1)
    return replace(plain, extra=extra, corner=corner, edges=np.ones(len(line), np.int64))


def _faces(world: RadioWorld, hits: Hits, direction: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Normals towards the antenna in float64, areas [m^2], and which hits can mirror: front faces, no waves."""
    known = hits.found & (hits.triangle < len(world.plane))
    triangle = np.where(known, hits.triangle, 0)
    static = known & (triangle < len(world.normal))
    exact = world.normal[np.where(static, triangle, 0)] if len(world.normal) else np.zeros_like(hits.normal)
    normal = np.where(static[:, None], exact, hits.normal)
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    normal = normal / np.where(length > 0, length, 1.0)
    facing = np.sum(normal * direction, axis=1) < -1e-3
    area = world.area[triangle] if len(world.area) else np.zeros(len(triangle))
    return normal, area, known & facing


def _normals(world: RadioWorld, seen: Hits, rays: Floats, n: int) -> list[Floats]:
    """For each time, normals (k, 3) of what can mirror around the antenna, those of most rays first."""
    direction = np.tile(rays, (n, 1))
    normal, area, good = _faces(world, seen, direction)
    distance = np.where(good, np.maximum(seen.range, 1e-3), 1.0)
    share = area * -np.sum(normal * direction, axis=1) / (WAVELENGTH_M * distance)
    good &= share >= LEAST_SIZE
    # A plain order for normals: three coordinates in steps of 1/500, packed into one number.
    packed = (np.rint(normal * 500.0).astype(np.int64) + 512) @ np.array([1 << 22, 1 << 11, 1])
    found = []
    for k in range(n):
        rows = k * FAN_RAYS + np.flatnonzero(good[k * FAN_RAYS : (k + 1) * FAN_RAYS])
        _, index, counts = np.unique(packed[rows], return_index=True, return_counts=True)
        best = np.argsort(-counts, kind="stable")[: MOST_NORMALS[0]]
        found.append(normal[rows[index[best]]])
    return found


def _mirrored(vector: Floats, normal: Floats) -> Floats:
    return vector - 2.0 * np.sum(vector * normal, axis=1, keepdims=True) * normal


@dataclass(frozen=True, eq=False)
class _Bounce:
    """Rays that met a mirror of the normal they were sent for."""

    good: NDArray[np.bool_]
    normal: Floats
    distance: Floats
    point: Floats
    size: Floats
    plane: NDArray[np.int64]
    radio: NDArray[np.int64]


def _bounce(
    world: RadioWorld, origin: Floats, direction: Floats, after: Floats, times: Floats, want: Floats
) -> _Bounce:
    """Cast rays to mirrors that shall turn them from `direction` to `after`; lengths in float64 where nothing moves.

    The hit's own plane may lie a little other than the normal that was tried: its own mirror direction counts.
    """
    hits = cast(world, origin, direction, times)
    normal, area, good = _faces(world, hits, direction)
    good &= np.sum(normal * want, axis=1) > _SAME
    exact = _mirrored(after, normal)
    triangle = np.where(good, hits.triangle, 0)
    static = good & (triangle < len(world.normal))
    cos = np.sum(exact * normal, axis=1)
    offset = world.offset[np.where(static, triangle, 0)] if len(world.offset) else np.zeros(len(triangle))
    with np.errstate(divide="ignore", invalid="ignore"):
        plane = (offset - np.sum(origin * normal, axis=1)) / cos
    distance = np.where(static, plane, np.where(good, hits.range, 1.0))
    good &= (distance > 0.0) & (distance < FAR_M)
    distance = np.where(good, distance, 1.0)
    size = area * np.abs(cos) / distance
    good &= size >= LEAST_SIZE * WAVELENGTH_M
    radio = world.radio[np.where(good, hits.part, 0)]
    number = world.plane[triangle] if len(world.plane) else triangle
    return _Bounce(good, normal, distance, origin + distance[:, None] * exact, size, number, radio)


def _once(
    world: RadioWorld,
    origin: Floats,
    times: Floats,
    row: NDArray[np.int64],
    sat: NDArray[np.int64],
    u: Floats,
    normals: list[Floats],
) -> Paths:
    """Ways over one mirror."""
    counts = np.array([len(normals[k]) for k in row], dtype=np.int64)
    pair = np.repeat(np.arange(len(row)), counts)
    n = np.concatenate([normals[k] for k in row]) if len(row) else np.zeros((0, 3))
    front = np.sum(u[pair] * n, axis=1) > 1e-3
    pair, n = pair[front], n[front]
    if not len(pair):
        return _direct(row[:0], sat[:0], u[:0])
    at, way = row[pair], u[pair]
    met = _bounce(world, origin[at], _mirrored(way, n), way, times[at], n)
    kept = np.flatnonzero(met.good)
    # Normals that are nearly the same may find the same plane twice.
    _, single = np.unique(pair[kept] * (len(world.plane) + 1) + met.plane[kept], return_index=True)
    kept = kept[np.sort(single)]
    kept = kept[_free(world, met.point[kept] + _OFF_M * met.normal[kept], way[kept], times[at[kept]])]
    arrival = _mirrored(way[kept], met.normal[kept])
    none = np.full(len(kept), -1)
    corner = np.stack([met.point[kept], np.full((len(kept), 3), np.nan)], axis=1)
    return Paths(
        at[kept], sat[pair[kept]], np.ones(len(kept), np.int64),
        met.distance[kept] * (1.0 - np.sum(arrival * way[kept], axis=1)), arrival,
        np.stack([np.sum(way[kept] * met.normal[kept], axis=1), np.ones(len(kept))], axis=1),
        np.stack([met.radio[kept], none], axis=1), np.stack([met.size[kept], np.full(len(kept), np.inf)], axis=1),
        np.zeros(len(kept)), corner, np.zeros(len(kept), np.int64),
    )  # fmt: skip


def _free(world: RadioWorld, origin: Floats, direction: Floats, times: Floats) -> NDArray[np.bool_]:
    return np.zeros(0, bool) if not len(origin) else ~cast(world, origin, direction, times).found


def _twice(
    world: RadioWorld,
    origin: Floats,
    times: Floats,
    row: NDArray[np.int64],
    sat: NDArray[np.int64],
    u: Floats,
    normals: list[Floats],
) -> Paths:
    """Ways over two mirrors: the signal meets that of normal n1 first, the antenna sees that of n2."""
    pairs = [np.argwhere(~np.eye(len(one), dtype=bool)) for one in normals]
    pair = np.repeat(np.arange(len(row)), [len(pairs[k]) for k in row])
    none = _direct(row[:0], sat[:0], u[:0])
    if not len(pair):
        return none
    n1, n2 = (np.concatenate([normals[k][pairs[k][:, side]] for k in row]) for side in range(2))
    way = u[pair]
    middle = _mirrored(way, n1)
    front = (np.sum(way * n1, axis=1) > 1e-3) & (np.sum(middle * n2, axis=1) > 1e-3)
    pair, n1, n2, way, middle = pair[front], n1[front], n2[front], way[front], middle[front]
    if not len(pair):
        return none
    at = row[pair]
    near = _bounce(world, origin[at], _mirrored(middle, n2), middle, times[at], n2)
    kept = np.flatnonzero(near.good)
    if not len(kept):
        return none
    start = near.point[kept] + _OFF_M * near.normal[kept]
    far = _bounce(world, start, middle[kept], way[kept], times[at[kept]], n1[kept])
    good = np.flatnonzero(far.good)
    key = (pair[kept[good]] * (len(world.plane) + 1) + near.plane[kept[good]]) * (len(world.plane) + 1)
    _, single = np.unique(key + far.plane[good], return_index=True)
    good = good[np.sort(single)]
    good = good[_free(world, far.point[good] + _OFF_M * far.normal[good], way[kept[good]], times[at[kept[good]]])]
    kept = kept[good]
    if not len(kept):
        return none
    between = _mirrored(way[kept], far.normal[good])
    arrival = _mirrored(between, near.normal[kept])
    # Both legs anew from the planes: the ray's start was lifted off the first.
    first = near.distance[kept]
    second = np.linalg.norm(far.point[good] - near.point[kept], axis=1)
    extra = first + second - np.sum((far.point[good] - origin[at[kept]]) * way[kept], axis=1)
    cos = [np.sum(way[kept] * far.normal[good], axis=1), np.sum(between * near.normal[kept], axis=1)]
    return Paths(
        at[kept], sat[pair[kept]], np.full(len(kept), 2), extra, arrival, np.stack(cos, axis=1),
        np.stack([far.radio[good], near.radio[kept]], axis=1),
        np.stack([far.size[good], near.size[kept]], axis=1), np.zeros(len(kept)),
        np.stack([near.point[kept], far.point[good]], axis=1), np.zeros(len(kept), np.int64),
    )  # fmt: skip


def _through_foliage(world: RadioWorld, paths: Paths, origin: Floats, toward: Floats, first: int) -> Paths:
    """Lengths inside of crowns, leg by leg; and the times numbered from `first`."""
    values = {one.name: getattr(paths, one.name) for one in fields(Paths)}
    if len(world.crowns.middle) and len(paths):
        start, away = origin[paths.time], toward[paths.time, paths.satellite]
        total = np.zeros(len(paths))
        for leg in range(2):
            rows = np.flatnonzero(np.isfinite(paths.corner[:, leg, 0]))
            step = paths.corner[rows, leg] - start[rows]
            length = np.linalg.norm(step, axis=1)
            total[rows] += world.crowns.inside(start[rows], step / length[:, None], length)
            start[rows] = paths.corner[rows, leg]
        values["foliage"] = total + world.crowns.inside(start, away, np.full(len(paths), np.inf))
    return Paths(**{**values, "time": paths.time + first})
