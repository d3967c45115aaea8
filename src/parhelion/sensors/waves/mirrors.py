"""Specular paths over flat mirrors, for satellite receivers, ranging radios and sound.

Between two positions, the image method replaces a path over several mirrors by the straight line to the image of the
far end (Allen and Berkley 1979, J. Acoust. Soc. Am. 65, 943). A satellite is a direction u: a surface of normal n
reflects it into the direction d = u - 2 (u . n) n, where a ray must hit a surface of that normal. Float32 rays find the
sequences of mirrors, check that each mirror is present and that each leg is free. Lengths are computed from the plane
equations in float64.

    finder = MirrorFinder(scene, planes_of(world, "uwb"), rules)
    known = finder.sequences(anchors)
    finder.paths(tags, known, times)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Table
from parhelion.core.geometry import fibonacci_sphere, unit
from parhelion.core.pose import Floats
from parhelion.rays.records import Caster, Hits, Rays
from parhelion.sensors.waves.planes import IntArray, PlanePatches, TrianglePlanes

Mask = NDArray[np.bool_]
_GRAZING = 1e-3
"""Smallest cosine of incidence of a specular reflection."""


@dataclass(frozen=True)
class MirrorRules:
    """Search limits of one kind of sensor."""

    order: int
    """Largest number of mirrors of a path."""
    rays: int
    """Number of search rays over the whole sphere."""
    lift_m: float
    """Height above the mirror at which the legs are tested [m]."""
    parallel: float
    """Planes are parallel if the cosine between their normals is larger."""
    search_lift_m: float = 1e-3
    """Height above the mirror at which a search ray continues [m]."""
    reach_m: float = np.inf
    """Length of the search rays [m]."""
    smallest_m2: tuple[float, float] = (0.0, 0.0)
    """Area [m^2] of the smallest mirror: on its own, and in a path with others."""
    layer_m: float = 0.0
    """Parallel planes nearer to each other are layers of one surface [m]."""
    most_tried: int = 0
    """Number of sequences up to which all are tried; beyond it, only those that rays find."""
    most_normals: tuple[int, int] = (0, 0)
    """Number of normals tried for directions, in the order of their share of the view: for one mirror, and in pairs."""
    smallest_size_m: float = 0.0
    """Smallest `MirrorPaths.size` of mirrors for directions [m]."""

    @property
    def columns(self) -> int:
        """Columns for mirrors in tables."""
        return max(self.order, 2)


@dataclass(frozen=True, eq=False)
class Sequences(Table):
    """Sequences of mirrors to fixed far ends, in the order from the near end; s rows, c columns."""

    target: IntArray
    """Number of the far end, shape (s,)."""
    mirrors: IntArray
    """Patches, -1 where there is none, shape (s, c)."""
    images: Floats
    """Image of the far end [m] behind this and all later mirrors, then the far end itself, shape (s, c + 1, 3)."""
    normal: Floats
    """Unit normal of the first mirror, shape (s, 3)."""
    offset: Floats
    """Plane offset of the first mirror [m], shape (s,)."""
    behind: Floats
    """Height of the image over the first mirror [m], shape (s,)."""
    lower: Floats
    """Lower corner of the box around the first mirror [m], shape (s, 3)."""
    upper: Floats


@dataclass(frozen=True, eq=False)
class MirrorPaths(Table):
    """Paths from near ends to far ends; m rows, c columns for mirrors in the order from the near end."""

    sample: IntArray
    """Row of the near end, shape (m,)."""
    target: IntArray
    """Number of the far end, shape (m,)."""
    mirrors: IntArray
    """Patches or planes, -1 where there is none, shape (m, c)."""
    part: IntArray
    """Parts of the world of these mirrors, -1 where there is none, shape (m, c)."""
    points: Floats
    """Mirror points [m], NaN where there is none, shape (m, c, 3)."""
    cosine: Floats
    """Cosines of incidence, 1 where there is no mirror, shape (m, c)."""
    size: Floats
    """Area times cosine over distance of each mirror [m], inf where there is none, shape (m, c)."""
    direction: Floats
    """Unit vectors of the legs from the near end on, the last one repeated, shape (m, c + 1, 3)."""
    legs: Floats
    """Lengths of the legs [m], 0 where there is none and inf to a direction, shape (m, c + 1)."""
    length: Floats
    """Length [m]; for a direction, the excess over the direct path, shape (m,)."""
    image: Floats
    """Image of the far end behind all mirrors [m], NaN for a direction, shape (m, 3)."""

    @property
    def order(self) -> IntArray:
        """Number of mirrors, shape (m,)."""
        return np.asarray(np.sum(self.mirrors >= 0, axis=1))


class MirrorFinder:
    """Finder of paths between positions over connected patches of a scene.

    `mirrors` masks the patches that may reflect. `standing` is the scene without moving bodies, used for the search.
    """

    def __init__(
        self,
        scene: Caster,
        planes: PlanePatches,
        rules: MirrorRules,
        mirrors: Mask | None = None,
        standing: Caster | None = None,
    ) -> None:
        self.scene, self.planes, self.rules = scene, planes, rules
        self.standing = scene if standing is None else standing
        self._mirrors = np.ones(len(planes), bool) if mirrors is None else mirrors

    # ---- sequences of patches --------------------------------------------------------------------------------------

    def search(self, place: Floats, time: float = 0.0) -> list[IntArray]:
        """Sequences of 0, 1 ... `order` mirrors that a wave from a position (3,) [m] can take at a time [s].

        Each table has the shape (k, number of mirrors), in the order from the position. The sequences do not depend on
        the far end of the path.
        """
        planes, rules = self.planes, self.rules
        usable, paired = (self._mirrors & (planes.area >= area) for area in rules.smallest_m2)
        numbers = np.flatnonzero(usable).astype(np.int64)
        found = [np.zeros((1, 0), np.int64)]
        while len(found) <= rules.order and len(numbers) ** len(found) <= rules.most_tried:
            grid = np.meshgrid(*[numbers] * len(found), indexing="ij")
            found.append(_distinct(np.stack([one.ravel() for one in grid], axis=1)))
        if len(found) > rules.order or not len(numbers):
            return found
        direction = fibonacci_sphere(rules.rays)
        start = np.broadcast_to(place, direction.shape)
        met = np.zeros((len(direction), 0), np.int64)
        for count in range(1, rules.order + 1):
            n = len(direction)
            hits = self.standing.cast(Rays(start, direction, np.full(n, time), np.full(n, rules.reach_m)))
            patch = planes.patch_of(hits.triangle)
            rows = np.flatnonzero((patch >= 0) & usable[patch])
            met = np.concatenate([met[rows], patch[rows, None]], axis=1)
            if count >= len(found):
                found.append(_distinct(np.unique(met, axis=0)))
            rows = rows[paired[patch[rows]]]
            met = met[paired[met[:, -1]]]
            ahead, normal = direction[rows], planes.normal[patch[rows]]
            toward = np.einsum("ij,ij->i", normal, ahead)
            lift = rules.search_lift_m * np.sign(toward)[:, None] * normal
            start = start[rows] + hits.range[rows, None] * ahead - lift
            direction = ahead - 2.0 * toward[:, None] * normal
            usable = paired
        return found

    def sequences(self, far: Floats) -> Sequences:
        """Sequences of one or more mirrors to far ends (a, 3) [m], searched from there in the static scene."""
        parts = [self.behind([], np.zeros(3))]
        for number, place in enumerate(far):
            turned = [np.unique(rows[:, ::-1], axis=0) for rows in self.search(place)[1:]]
            parts.append(self.behind(turned, place, number))
        return Sequences.joined(parts)

    def behind(self, tried: Iterable[IntArray], far: Floats, target: int = 0) -> Sequences:
        """Images of a far end (3,) [m] behind sequences, each table in the order from the near end."""
        planes, columns = self.planes, self.rules.columns
        wide = [np.pad(rows, ((0, 0), (0, columns - rows.shape[1])), constant_values=-1) for rows in tried]
        mirrors = np.concatenate([np.zeros((0, columns), np.int64), *wide])
        count = len(mirrors)
        images = np.empty((count, columns + 1, 3))
        images[:, columns] = far
        for step in reversed(range(columns)):
            images[:, step] = images[:, step + 1]
            rows = np.flatnonzero(mirrors[:, step] >= 0)
            images[rows, step] = _mirrored_at(images[rows, step + 1], planes, mirrors[rows, step])
        # A sequence without mirrors gets a virtual first plane with the image and the near end on opposite sides.
        normal, offset, behind = np.zeros((count, 3)), np.full(count, -1.0), np.full(count, -1.0)
        lower, upper = np.full((count, 3), -np.inf), np.full((count, 3), np.inf)
        rows = np.flatnonzero(mirrors[:, 0] >= 0)
        first = mirrors[rows, 0]
        normal[rows], offset[rows] = planes.normal[first], planes.offset[first]
        behind[rows] = np.einsum("ij,ij->i", normal[rows], images[rows, 0]) - offset[rows]
        lower[rows], upper[rows] = planes.lower[first], planes.upper[first]
        return Sequences(np.full(count, target), mirrors, images, normal, offset, behind, lower, upper)

    # ---- paths between places --------------------------------------------------------------------------------------

    def paths(self, near: Floats, known: Sequences, times: Floats, passes: Mask | None = None) -> MirrorPaths:
        """Unobstructed paths from positions (n, 3) [m] at times (n,) [s] along known sequences.

        `passes` masks the parts of the world that do not block the last leg, such as the body that carries the antenna.
        """
        sample, row, points = self._crossed(near, known)
        kept = known.rows(row)
        free = self._free(kept, near[sample], points, times[sample], passes)
        return self._measured(near, sample[free], kept.rows(free), points[free])

    def _crossed(self, near: Floats, known: Sequences) -> tuple[IntArray, IntArray, Floats]:
        """Near end, row of `known` and mirror points of all sequences that cross their patches inside the boxes."""
        layer, found = self.rules.layer_m, []
        for place in near:
            before = known.normal @ place - known.offset
            row = np.flatnonzero(before * known.behind < 0.0)
            share = before[row] / (before[row] - known.behind[row])
            point = place + share[:, None] * (known.images[row, 0] - place)
            inside = np.all((point >= known.lower[row] - layer) & (point <= known.upper[row] + layer), axis=1)
            found.append((row[inside], point[inside]))
        sample = np.repeat(np.arange(len(near)), [len(row) for row, _ in found])
        row, first = (np.concatenate(column) for column in zip(*found, strict=True))
        mirrors = known.mirrors[row]
        points, good = np.full((*mirrors.shape, 3), np.nan), np.ones(len(row), bool)
        points[:, 0] = np.where(mirrors[:, :1] >= 0, first, np.nan)
        for step in range(1, mirrors.shape[1]):
            rows = np.flatnonzero(good & (mirrors[:, step] >= 0))
            end = known.images[row[rows], step]
            good[rows], points[rows, step] = self._crossing(mirrors[rows, step], points[rows, step - 1], end)
        return sample[good], row[good], points[good]

    def _crossing(self, patch: IntArray, start: Floats, end: Floats) -> tuple[Mask, Floats]:
        """Mask of the segments that cross their patch inside its box, and the crossing points [m]."""
        planes, layer = self.planes, self.rules.layer_m
        normal, offset = planes.normal[patch], planes.offset[patch]
        before = np.einsum("ij,ij->i", normal, start) - offset
        after = np.einsum("ij,ij->i", normal, end) - offset
        apart = before * after < 0.0
        share = before / np.where(apart, before - after, 1.0)
        place = start + share[:, None] * (end - start)
        inside = np.all((place >= planes.lower[patch] - layer) & (place <= planes.upper[patch] + layer), axis=1)
        return apart & inside, place

    def _free(self, kept: Sequences, near: Floats, points: Floats, times: Floats, passes: Mask | None) -> Mask:
        """Mask of the paths whose mirrors are all present and whose legs are all free; one launch of rays."""
        planes, lift = self.planes, self.rules.lift_m
        good = np.ones(len(kept), bool)
        if not len(kept):
            return good
        seen_from, start = near, near.copy()
        legs, downs, wanted = [], [], []
        for step in range(kept.mirrors.shape[1]):
            rows = np.flatnonzero(kept.mirrors[:, step] >= 0)
            patch, place = kept.mirrors[rows, step], points[rows, step]
            normal = planes.normal[patch]
            side = np.sign(np.einsum("ij,ij->i", normal, seen_from[rows]) - planes.offset[patch])[:, None]
            above = place + lift * side * normal
            legs.append((rows, start[rows], above))
            downs.append((rows, above, above - 2.0 * lift * side * normal))
            wanted.append(patch)
            start[rows], seen_from = above, points[:, step]
        legs.append((np.arange(len(kept)), start, kept.images[:, -1]))
        row, begin, end = (np.concatenate(column) for column in zip(*legs, *downs, strict=True))
        direction, length = unit(end - begin)
        hits = self.scene.cast(Rays(begin, direction, times[row], np.maximum(length, 1e-9)))
        last = sum(len(one) for one, _, _ in legs)
        blocked = hits.found[:last].copy()
        if passes is not None and len(passes):
            blocked[-len(kept) :] &= ~passes[np.clip(hits.part[last - len(kept) : last], 0, len(passes) - 1)]
        np.logical_and.at(good, row[:last], ~blocked)
        present = self._is_mirror(np.concatenate(wanted), planes.patch_of(hits.triangle[last:]))
        np.logical_and.at(good, row[last:], present)
        return good

    def _is_mirror(self, wanted: IntArray, met: IntArray) -> Mask:
        """Mask of the rays that hit the wanted patch or a parallel layer on it."""
        planes = self.planes
        if not len(planes):
            return np.zeros(len(wanted), bool)
        cosine = np.abs(np.einsum("ij,ij->i", planes.normal[wanted], planes.normal[met]))
        return np.asarray((met >= 0) & ((met == wanted) | (cosine > self.rules.parallel)))

    def _measured(self, near: Floats, sample: IntArray, kept: Sequences, points: Floats) -> MirrorPaths:
        """Legs, angles and lengths of paths."""
        planes, mirrors = self.planes, kept.mirrors
        m, columns = mirrors.shape
        count, far, place = np.sum(mirrors >= 0, axis=1), kept.images[:, -1], near[sample]
        part, cosine, size = np.full((m, columns), -1), np.ones((m, columns)), np.full((m, columns), np.inf)
        direction, legs, ahead = np.empty((m, columns + 1, 3)), np.zeros((m, columns + 1)), np.zeros((m, 3))
        for step in range(columns + 1):
            end = np.where((count > step)[:, None], points[:, step], far) if step < columns else far
            ahead, length = unit(np.where((count >= step)[:, None], end - place, ahead))
            direction[:, step], legs[:, step], place = ahead, np.where(count >= step, length, 0.0), end
        for step in range(columns):
            rows = np.flatnonzero(count > step)
            patch = mirrors[rows, step]
            part[rows, step] = planes.part[patch]
            cosine[rows, step] = np.abs(np.einsum("ij,ij->i", direction[rows, step], planes.normal[patch]))
            size[rows, step] = planes.area[patch] * cosine[rows, step] / np.maximum(legs[rows, step], 1e-9)
        image = kept.images[:, 0]
        _, length = unit(image - near[sample])
        return MirrorPaths(sample, kept.target, mirrors, part, points, cosine, size, direction, legs, length, image)

    def without_layers(self, found: MirrorPaths) -> MirrorPaths:
        """Remove duplicates that use layers of one mirror or patches that meet at the mirror point.

        Rows are sorted by number of mirrors, then by length.
        """
        found = found.rows(np.lexsort((found.length, found.order)))
        area = np.ones(len(found))
        for step in range(found.mirrors.shape[1] if len(self.planes) else 0):
            area *= np.where(found.mirrors[:, step] >= 0, self.planes.area[found.mirrors[:, step]], 1.0)
        # Images within one cell of the layers' size are duplicates; the largest mirrors take precedence.
        order = np.lexsort((-area, found.order))
        cell = np.round(found.image / (4.0 * self.rules.layer_m)).astype(np.int64)
        _, first = np.unique(np.concatenate([found.order[:, None], cell], axis=1)[order], axis=0, return_index=True)
        return found.rows(np.sort(order[first]))

    def shown(self, vector: Floats, found: MirrorPaths) -> Floats:
        """Vector (3,) at the far end, such as a velocity, mirrored by each path, shape (m, 3)."""
        seen = np.repeat(np.asarray(vector, np.float64)[None], len(found), axis=0)
        for step in reversed(range(found.mirrors.shape[1])):
            rows = np.flatnonzero(found.mirrors[:, step] >= 0)
            normal = self.planes.normal[found.mirrors[rows, step]]
            seen[rows] -= 2.0 * np.einsum("ij,ij->i", normal, seen[rows])[:, None] * normal
        return seen


@dataclass(frozen=True, eq=False)
class DirectionFinder:
    """Finder of paths from positions to directions (satellites) over the planes of a scene's triangles."""

    scene: Caster
    planes: TrianglePlanes
    rules: MirrorRules

    def normals(self, seen: Hits, count: int) -> list[Floats]:
        """Normals (k, 3) of the mirrors around each of `count` positions, sorted by descending number of ray hits.

        `seen` contains the hits of `rules.rays` rays over the sphere from each position.
        """
        rays, each = fibonacci_sphere(self.rules.rays), self.rules.rays
        direction = np.tile(rays, (count, 1))
        normal, area, good = self._faces(seen, direction)
        distance = np.where(good, np.maximum(seen.range, 1e-3), 1.0)
        good &= area * -np.sum(normal * direction, axis=1) / distance >= self.rules.smallest_size_m
        # Normals are compared as three coordinates in steps of 1/500, packed into one integer.
        packed = (np.rint(normal * 500.0).astype(np.int64) + 512) @ np.array([1 << 22, 1 << 11, 1])
        found = []
        for k in range(count):
            rows = k * each + np.flatnonzero(good[k * each : (k + 1) * each])
            _, index, counts = np.unique(packed[rows], return_index=True, return_counts=True)
            best = np.argsort(-counts, kind="stable")[: self.rules.most_normals[0]]
            found.append(normal[rows[index[best]]])
        return found

    def toward(
        self, near: Floats, times: Floats, sample: IntArray, target: IntArray, u: Floats, normals: list[Floats]
    ) -> MirrorPaths:
        """Unobstructed paths over one or two mirrors from positions (n, 3) [m] at times (n,) [s] to directions.

        `u` (r, 3) are unit vectors to the far ends `target` (r,) from the positions `sample` (r,). `normals` holds the
        candidates of each position.
        """
        links = _Links(near, times, sample, target, u)
        once = self._once(links, normals)
        if self.rules.order < 2:
            return once
        return MirrorPaths.joined([once, self._twice(links, [one[: self.rules.most_normals[1]] for one in normals])])

    def _faces(self, hits: Hits, direction: Floats) -> tuple[Floats, Floats, Mask]:
        """Normals of hits in float64, areas [m^2], and the mask of hits that can reflect: front faces, no water."""
        planes = self.planes
        known = hits.found & (hits.triangle < len(planes))
        triangle = np.where(known, hits.triangle, 0)
        static = known & (triangle < len(planes.normal))
        exact = planes.normal[np.where(static, triangle, 0)] if len(planes.normal) else np.zeros_like(hits.normal)
        normal = np.where(static[:, None], exact, hits.normal)
        length = np.linalg.norm(normal, axis=1, keepdims=True)
        normal = normal / np.where(length > 0, length, 1.0)
        facing = np.sum(normal * direction, axis=1) < -_GRAZING
        area = planes.area[triangle] if len(planes) else np.zeros(len(triangle))
        return normal, area, known & facing

    def _bounce(self, origin: Floats, direction: Floats, after: Floats, times: Floats, want: Floats) -> _Bounces:
        """Cast rays to mirrors that deflect them from `direction` to `after`; lengths are float64 on static surfaces.

        The plane of the hit can differ slightly from the candidate normal. Its own specular direction is used.
        """
        planes, rules = self.planes, self.rules
        hits = self.scene.cast(Rays(origin, direction, times, np.full(len(origin), rules.reach_m)))
        normal, area, good = self._faces(hits, direction)
        good &= np.sum(normal * want, axis=1) > rules.parallel
        exact = _mirrored(after, normal)
        triangle = np.where(good, hits.triangle, 0)
        static = good & (triangle < len(planes.normal))
        cosine = np.sum(exact * normal, axis=1)
        offset = planes.offset[np.where(static, triangle, 0)] if len(planes.offset) else np.zeros(len(triangle))
        with np.errstate(divide="ignore", invalid="ignore"):
            ahead = (offset - np.sum(origin * normal, axis=1)) / cosine
        distance = np.where(static, ahead, np.where(good, hits.range, 1.0))
        good &= (distance > 0.0) & (distance < rules.reach_m)
        distance = np.where(good, distance, 1.0)
        size = area * np.abs(cosine) / distance
        good &= size >= rules.smallest_size_m
        number = planes.number[triangle] if len(planes) else triangle
        part = np.where(good, hits.part, 0)
        return _Bounces(good, normal, distance, origin + distance[:, None] * exact, size, number, part)

    def _open(self, met: _Bounces, toward: Floats, times: Floats) -> Mask:
        """Mask of the mirrors with a free view into directions (n, 3)."""
        if not len(met):
            return np.zeros(0, bool)
        origin = met.point + self.rules.lift_m * met.normal
        return ~self.scene.is_blocked(Rays(origin, toward, times, np.full(len(met), self.rules.reach_m)))

    def _once(self, links: _Links, normals: list[Floats]) -> MirrorPaths:
        pair = np.repeat(np.arange(len(links)), [len(normals[k]) for k in links.sample])
        n = np.concatenate([np.zeros((0, 3)), *(normals[k] for k in links.sample)])
        front = np.sum(links.u[pair] * n, axis=1) > _GRAZING
        pair, n = pair[front], n[front]
        if not len(pair):
            return _to_directions(links, pair, [])
        at, way = links.sample[pair], links.u[pair]
        met = self._bounce(links.near[at], _mirrored(way, n), way, links.times[at], n)
        kept = np.flatnonzero(met.good)
        # Candidate normals that are nearly equal can find the same plane twice.
        _, single = np.unique(pair[kept] * (len(self.planes) + 1) + met.number[kept], return_index=True)
        kept = kept[np.sort(single)]
        kept = kept[self._open(met.rows(kept), way[kept], links.times[at[kept]])]
        return _to_directions(links, pair[kept], [met.rows(kept)])

    def _twice(self, links: _Links, normals: list[Floats]) -> MirrorPaths:
        """Paths over two mirrors; the one nearer to the antenna has the normal n2, the other one n1."""
        pairs = [np.argwhere(~np.eye(len(one), dtype=bool)) for one in normals]
        pair = np.repeat(np.arange(len(links)), [len(pairs[k]) for k in links.sample])
        none = _to_directions(links, pair[:0], [])
        if not len(pair):
            return none
        n1, n2 = (np.concatenate([normals[k][pairs[k][:, side]] for k in links.sample]) for side in range(2))
        way = links.u[pair]
        middle = _mirrored(way, n1)
        front = (np.sum(way * n1, axis=1) > _GRAZING) & (np.sum(middle * n2, axis=1) > _GRAZING)
        pair, n1, n2, way, middle = pair[front], n1[front], n2[front], way[front], middle[front]
        if not len(pair):
            return none
        at = links.sample[pair]
        near = self._bounce(links.near[at], _mirrored(middle, n2), middle, links.times[at], n2)
        kept = np.flatnonzero(near.good)
        if not len(kept):
            return none
        near, pair, times = near.rows(kept), pair[kept], links.times[at[kept]]
        start = near.point + self.rules.lift_m * near.normal
        far = self._bounce(start, middle[kept], way[kept], times, n1[kept])
        good = np.flatnonzero(far.good)
        numbers = len(self.planes) + 1
        key = (pair[good] * numbers + near.number[good]) * numbers + far.number[good]
        good = good[np.sort(np.unique(key, return_index=True)[1])]
        good = good[self._open(far.rows(good), links.u[pair[good]], times[good])]
        return _to_directions(links, pair[good], [near.rows(good), far.rows(good)])


@dataclass(frozen=True, eq=False)
class _Links:
    """Positions, times, and the directions to search from them."""

    near: Floats
    times: Floats
    sample: IntArray
    target: IntArray
    u: Floats

    def __len__(self) -> int:
        return len(self.sample)


@dataclass(frozen=True, eq=False)
class _Bounces(Table):
    """Hits of rays that were cast at mirrors of known normals."""

    good: Mask
    """Set for rays that hit such a mirror."""
    normal: Floats
    distance: Floats
    point: Floats
    size: Floats
    number: IntArray
    part: IntArray


def _to_directions(links: _Links, pair: IntArray, met: list[_Bounces]) -> MirrorPaths:
    """Paths to directions over 1 or 2 mirrors, in the order from the near end; `pair` are rows of `links`."""
    m, at, u = len(pair), links.sample[pair], links.u[pair]
    mirrors, part = (np.full((m, 2), -1) for _ in range(2))
    points, cosine, size = np.full((m, 2, 3), np.nan), np.ones((m, 2)), np.full((m, 2), np.inf)
    direction, legs, ahead = np.repeat(u[:, None], 3, axis=1), np.zeros((m, 3)), u
    for step, one in reversed(list(enumerate(met))):
        mirrors[:, step], part[:, step], points[:, step], size[:, step] = one.number, one.part, one.point, one.size
        cosine[:, step] = np.sum(ahead * one.normal, axis=1)
        ahead = _mirrored(ahead, one.normal)
        direction[:, step] = ahead
    legs[:, len(met)] = np.inf
    excess = np.zeros(m)
    if len(met) == 1:
        legs[:, 0] = met[0].distance
        excess = met[0].distance * (1.0 - np.sum(ahead * u, axis=1))
    elif met:
        # Both legs come from the planes, because the ray to the second mirror started above the first one.
        legs[:, 0], legs[:, 1] = met[0].distance, np.linalg.norm(points[:, 1] - points[:, 0], axis=1)
        excess = legs[:, 0] + legs[:, 1] - np.sum((points[:, 1] - links.near[at]) * u, axis=1)
    return MirrorPaths(
        at, links.target[pair], mirrors, part, points, cosine, size, direction, legs, excess, np.full((m, 3), np.nan)
    )


def _mirrored(vector: Floats, normal: Floats) -> Floats:
    return np.asarray(vector - 2.0 * np.sum(vector * normal, axis=1, keepdims=True) * normal)


def _mirrored_at(point: Floats, planes: PlanePatches, patch: IntArray) -> Floats:
    """Points (n, 3) [m] mirrored at patches (n,)."""
    normal = planes.normal[patch]
    height = np.einsum("ij,ij->i", normal, point) - planes.offset[patch]
    return np.asarray(point - 2.0 * height[:, None] * normal)


def _distinct(tried: IntArray) -> IntArray:
    """Sequences without a patch that follows itself."""
    return np.asarray(tried[np.all(tried[:, 1:] != tried[:, :-1], axis=1)])
