"""Signal paths through a world: direct, diffracted at an edge, reflected once or twice. Satellites are directions.

Rays in all directions from the antenna sample the normals of the surfaces around it; `waves/mirrors` finds the
reflected paths.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Table
from parhelion.core.geometry import fibonacci_sphere
from parhelion.core.pose import Floats
from parhelion.rays.records import Hits, Rays
from parhelion.sensors.waves.diffraction import edge_paths, most_detour
from parhelion.sensors.waves.mirrors import DirectionFinder, MirrorPaths, MirrorRules
from parhelion.sensors.waves.radio import SatelliteScene

FAR_M = 2000.0
"""Length of the rays [m]."""
WAVELENGTH_M = 0.1903
"""Wavelength of L1 [m], which separates reflectors from clutter."""
LEAST_SIZE = 0.1
"""Smallest amplitude of a reflector relative to that of an infinite plane; smaller reflectors are ignored."""
RULES = MirrorRules(
    order=2,
    rays=2048,
    lift_m=0.01,
    parallel=0.9998,
    reach_m=FAR_M,
    most_normals=(40, 12),
    smallest_size_m=LEAST_SIZE * WAVELENGTH_M,
)
"""Search for reflectors. Rays are 4.5 degrees apart, so reflectors of a smaller angular size may be missed."""
_CHUNK = 400_000
DIFFUSE_RAYS = 128
"""Number of rays, out of those that search for reflectors, whose hits scatter diffusely."""
SCATTERING = 0.3
"""Scattered over incident field of rough surfaces: 0.2 to 0.4 for building walls in the effective roughness model
(Degli-Esposti et al. 2007, IEEE Trans. Antennas Propag. 55, 143, as commonly quoted), here with a Lambertian lobe."""
CELL_M = 0.5
"""Edge [m] of the cells of a surface that have one random phase."""


@dataclass(frozen=True, eq=False)
class SatellitePaths(Table):
    """Signal paths, one per row."""

    time: NDArray[np.int64]
    """Index of the time."""
    satellite: NDArray[np.int64]
    """Index of the satellite."""
    order: NDArray[np.int64]
    """Number of reflections: 0, 1, 2."""
    extra: Floats
    """Path length in excess of the direct path [m]."""
    arrival: Floats
    """Unit vector from the antenna to the direction of arrival, shape (m, 3)."""
    cos: Floats
    """Cosines of incidence at the reflectors, counted from the antenna, shape (m, 2); 1 where there is none."""
    radio: NDArray[np.int64]
    """Materials of the reflectors as indices of `radio.RADIO`, shape (m, 2); -1 where there is none."""
    size: Floats
    """A cos / r of the reflectors [m], shape (m, 2): the amplitude limit times the wavelength; inf for none."""
    foliage: Floats
    """Length inside foliage [m]."""
    corner: Floats
    """Reflection points or the edge [m], counted from the antenna, shape (m, 2, 3); NaN where there is none."""
    edges: NDArray[np.int64]
    """Number of edges at which the path is diffracted."""


@dataclass(frozen=True, eq=False)
class DiffusePaths(Table):
    """Diffusely scattered signals, one per row."""

    time: NDArray[np.int64]
    """Index of the time."""
    satellite: NDArray[np.int64]
    """Index of the satellite."""
    extra: Floats
    """Path length in excess of the direct path [m]."""
    arrival: Floats
    """Unit vector from the antenna to the direction of arrival, shape (m, 3)."""
    amplitude: Floats
    """Amplitude relative to the direct signal, before antenna gain."""
    cell: NDArray[np.int64]
    """Number of the surface cell, 32 bits, which selects its random phase."""


@dataclass(frozen=True, eq=False)
class SkyVisibility:
    """Visible satellites and signal paths at each time."""

    paths: SatellitePaths
    diffuse: DiffusePaths
    clear: NDArray[np.bool_]
    """Satellites in direct view, shape (n, s)."""
    enclosed: NDArray[np.bool_]
    """Times at which the antenna is inside a solid: every upward ray hits a back face, shape (n,)."""


def find_paths(
    scene: SatelliteScene,
    origin: Floats,
    times: Floats,
    toward: Floats,
    wanted: NDArray[np.bool_],
    order: int,
    diffraction: bool = False,
    diffuse: bool = False,
) -> SkyVisibility:
    """Find the signal paths to an antenna at positions (n, 3) [m] and times (n,) [s].

    `toward` holds unit vectors to the satellites, shape (n, s, 3); only the `wanted` ones (n, s) are searched. With
    `diffraction`, blocked signals also arrive around the edges of the obstacles; with `diffuse`, rough surfaces that
    the satellite illuminates scatter in all directions.
    """
    finder = DirectionFinder(scene, scene.planes, replace(RULES, order=order))
    # Moving objects are placed once per launch. One launch per time gives the same bits for any split of a run.
    each = RULES.rays + int(wanted.sum(axis=1).max(initial=0)) * (RULES.most_normals[0] + DIFFUSE_RAYS * diffuse)
    size = 1 if scene.scene.changes else max(1, _CHUNK // each)
    parts = []
    for first in range(0, len(times), size):
        rows = slice(first, first + size)
        seen = _visibility(scene, finder, origin[rows], times[rows], toward[rows], wanted[rows], diffraction, diffuse)
        paths = replace(seen.paths, time=seen.paths.time + first)
        parts.append(replace(seen, paths=paths, diffuse=replace(seen.diffuse, time=seen.diffuse.time + first)))
    return SkyVisibility(
        SatellitePaths.joined(part.paths for part in parts),
        DiffusePaths.joined(part.diffuse for part in parts),
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("clear", "enclosed")),
    )


def _visibility(
    scene: SatelliteScene,
    finder: DirectionFinder,
    origin: Floats,
    times: Floats,
    toward: Floats,
    wanted: NDArray[np.bool_],
    diffraction: bool,
    diffuse: bool,
) -> SkyVisibility:
    n, rays = len(times), fibonacci_sphere(RULES.rays)
    row, sat = np.nonzero(wanted)
    u = toward[row, sat]
    at = np.concatenate([np.repeat(np.arange(n), RULES.rays), row])
    direction = np.concatenate([np.tile(rays, (n, 1)), u])
    hits = scene.cast(Rays(origin[at], direction, times[at], np.full(len(at), FAR_M)))
    seen, blocked = _part(hits, slice(0, n * RULES.rays)), hits.found[n * RULES.rays :]
    clear = np.zeros(wanted.shape, bool)
    clear[row, sat] = ~blocked
    found = [_direct(row[~blocked], sat[~blocked], u[~blocked])]
    if diffraction:
        found.append(_diffracted(scene, origin, times, row[blocked], sat[blocked], u[blocked]))
    if finder.rules.order >= 1:
        found.append(_mirrored(scene, finder.toward(origin, times, row, sat, u, finder.normals(seen, n))))
    paths = SatellitePaths.joined(found)
    paths = paths.rows(np.lexsort((paths.extra, paths.satellite, paths.time)))
    scattered = _scattered(scene, seen, rays, origin, times, row, sat, u) if diffuse else _NOTHING_DIFFUSE
    return SkyVisibility(_through_foliage(scene, paths, origin, toward), scattered, clear, _enclosed(seen, rays, n))


def _part(hits: Hits, rows: slice) -> Hits:
    return Hits(hits.range[rows], hits.triangle[rows], hits.part[rows], hits.actor[rows], hits.normal[rows])


def _enclosed(seen: Hits, rays: Floats, n: int) -> NDArray[np.bool_]:
    up = rays[:, 2] > 0.0
    back = np.einsum("nij,ij->ni", seen.normal.reshape(n, -1, 3)[:, up], rays[up]) > 0.0
    return np.asarray(np.all(back & seen.found.reshape(n, -1)[:, up], axis=1))


def _direct(row: NDArray[np.int64], sat: NDArray[np.int64], u: Floats) -> SatellitePaths:
    count = len(row)
    return SatellitePaths(
        row,
        sat,
        np.zeros(count, np.int64),
        np.zeros(count),
        u,
        np.ones((count, 2)),
        np.full((count, 2), -1),
        np.full((count, 2), np.inf),
        np.zeros(count),
        np.full((count, 2, 3), np.nan),
        np.zeros(count, np.int64),
    )


def _diffracted(
    scene: SatelliteScene, origin: Floats, times: Floats, row: NDArray[np.int64], sat: NDArray[np.int64], u: Floats
) -> SatellitePaths:
    """Paths around the edges of obstacles; the search places satellites FAR_M away."""
    if not len(row):
        return _direct(row, sat, u)
    start = origin[row]
    line, place = edge_paths(scene.scene, start, start + FAR_M * u, times[row], most_detour(WAVELENGTH_M))
    step = place - start[line]
    distance = np.linalg.norm(step, axis=1)
    corner = np.stack([place, np.full_like(place, np.nan)], axis=1)
    plain = _direct(row[line], sat[line], step / distance[:, None])
    extra = distance - np.sum(step * u[line], axis=1)
    return replace(plain, extra=extra, corner=corner, edges=np.ones(len(line), np.int64))


_NOTHING_DIFFUSE = DiffusePaths(
    np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 3)), np.zeros(0), np.zeros(0, np.int64)
)


def _scattered(
    scene: SatelliteScene,
    seen: Hits,
    rays: Floats,
    origin: Floats,
    times: Floats,
    row: NDArray[np.int64],
    sat: NDArray[np.int64],
    u: Floats,
) -> DiffusePaths:
    """Diffuse scattering of the surfaces around the antenna: S² cos(incidence) dΩ / π of the incident power per ray."""
    n = len(times)
    chosen = np.arange(0, RULES.rays, RULES.rays // DIFFUSE_RAYS)
    d = rays[chosen]
    reach = seen.range.reshape(n, -1)[:, chosen]
    normal = seen.normal.reshape(n, -1, 3)[:, chosen]
    normal = np.where(np.sum(normal * d, axis=2, keepdims=True) > 0, -normal, normal)
    cosine = np.einsum("mj,mkj->mk", u, normal[row])
    pair, ray = np.nonzero((cosine > 0.02) & np.isfinite(reach[row]))
    at, distance = row[pair], reach[row[pair], ray]
    point = origin[at] + distance[:, None] * d[ray]
    start = point + RULES.lift_m * normal[at, ray]
    lit = ~scene.is_blocked(Rays(start, u[pair], times[at], np.full(len(at), FAR_M)))
    pair, ray, at, distance, point = pair[lit], ray[lit], at[lit], distance[lit], point[lit]
    power = SCATTERING**2 * cosine[pair, ray] * (4.0 / len(chosen))
    extra = distance * (1.0 - np.sum(d[ray] * u[pair], axis=1))
    x, y, z = np.floor(point / CELL_M).astype(np.int64).T
    cell = (x * 73_856_093 ^ y * 19_349_663 ^ z * 83_492_791) & 0xFFFFFFFF  # Teschner et al. 2003, spatial hash
    return DiffusePaths(at, sat[pair], extra, d[ray], np.sqrt(power), cell)


def _mirrored(scene: SatelliteScene, found: MirrorPaths) -> SatellitePaths:
    none = np.zeros(len(found), np.int64)
    return SatellitePaths(
        found.sample,
        found.target,
        found.order,
        found.length,
        found.direction[:, 0],
        found.cosine,
        np.where(found.part >= 0, scene.radio[found.part], -1),
        found.size,
        np.zeros(len(found)),
        found.points,
        none,
    )


def _through_foliage(scene: SatelliteScene, paths: SatellitePaths, origin: Floats, toward: Floats) -> SatellitePaths:
    """Add the length inside tree crowns along each leg of the paths."""
    if not (len(scene.foliage.middle) and len(paths)):
        return paths
    start, away = origin[paths.time], toward[paths.time, paths.satellite]
    total = np.zeros(len(paths))
    for leg in range(2):
        rows = np.flatnonzero(np.isfinite(paths.corner[:, leg, 0]))
        step = paths.corner[rows, leg] - start[rows]
        length = np.linalg.norm(step, axis=1)
        total[rows] += scene.foliage.inside(start[rows], step / length[:, None], length)
        start[rows] = paths.corner[rows, leg]
    return replace(paths, foliage=total + scene.foliage.inside(start, away, np.full(len(paths), np.inf)))
