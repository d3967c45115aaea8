"""Areas seen from above: their outline, what lies inside, and a mesh of triangles that is fine in one place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats

_SAME_POINT_M = 1e-6
_PAIRS_AT_ONCE = 2_000_000
_MOST_ROUNDS = 12
"""Rounds in which missing stretches of the outline are halved; each needs one triangulation."""
_SHORTEST_M = 5e-3
"""Stretches of the outline are not halved further: where sheets lap, their borders cross, and no mesh has both."""


@dataclass(frozen=True, eq=False)
class Outline:
    """Directed segments around an area, the area on their left; interior seams cancel out."""

    segments: Floats
    """Start and end (x, y) [m], shape (n, 2, 2)."""

    @classmethod
    def of(cls, corners: Floats) -> Outline:
        """Of triangles, corners of shape (m, 3, 2) in any winding; those without area do not count."""
        a, b, c = (corners[:, k] for k in range(3))
        twice = _cross(b - a, c - a)
        corners = np.where(twice[:, None, None] < 0, corners[:, ::-1], corners)[twice != 0]
        points, number = np.unique(
            np.round(corners.reshape(-1, 2) / _SAME_POINT_M).astype(np.int64), axis=0, return_inverse=True
        )
        face = number.reshape(-1, 3)
        edges = np.concatenate([face[:, [0, 1]], face[:, [1, 2]], face[:, [2, 0]]])
        # An edge that two triangles share is walked once each way, which adds up to nothing.
        undirected, row = np.unique(np.sort(edges, axis=1), axis=0, return_inverse=True)
        sign = np.where(edges[:, 0] < edges[:, 1], 1, -1)
        total = np.bincount(row.ravel(), sign, len(undirected)).astype(int)
        kept = np.repeat(undirected, np.abs(total), axis=0)
        kept = np.where(np.repeat(total, np.abs(total))[:, None] < 0, kept[:, ::-1], kept)
        places = np.zeros((len(points), 2))
        places[number.ravel()] = corners.reshape(-1, 2)
        return cls(places[_straightened(kept, places)])

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Lower and upper corner (x, y) [m]."""
        points = self.segments.reshape(-1, 2)
        return points.min(axis=0), points.max(axis=0)

    def winding(self, points: Floats) -> NDArray[np.int64]:
        """How often the outline goes around points (n, 2), anticlockwise: 0 outside, 1 inside, more where areas lap."""
        start, end = self.segments[:, 0], self.segments[:, 1]
        turns = np.zeros(len(points), np.int64)
        step = max(1, _PAIRS_AT_ONCE // max(len(start), 1))
        for first in range(0, len(points), step):
            x, y = points[first : first + step, 0, None], points[first : first + step, 1, None]
            rises = (start[:, 1] <= y) & (end[:, 1] > y)
            falls = (start[:, 1] > y) & (end[:, 1] <= y)
            side = (end[:, 0] - start[:, 0]) * (y - start[:, 1]) - (x - start[:, 0]) * (end[:, 1] - start[:, 1])
            turns[first : first + step] = np.sum(rises & (side > 0), axis=1) - np.sum(falls & (side < 0), axis=1)
        return turns

    def distance(self, points: Floats) -> Floats:
        """Distance of points (n, 2) from the nearest segment [m]."""
        start, along = self.segments[:, 0], self.segments[:, 1] - self.segments[:, 0]
        squared = np.maximum(np.sum(along**2, axis=1), 1e-30)
        found = np.empty(len(points))
        step = max(1, _PAIRS_AT_ONCE // max(len(start), 1))
        for first in range(0, len(points), step):
            away = points[first : first + step, None] - start
            share = np.clip(np.sum(away * along, axis=2) / squared, 0.0, 1.0)
            found[first : first + step] = np.linalg.norm(away - share[..., None] * along, axis=2).min(axis=1)
        return found


def _cross(a: Floats, b: Floats) -> Floats:
    cross: Floats = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return cross


def _straightened(edges: NDArray[np.int64], places: Floats) -> NDArray[np.int64]:
    """Directed edges (n, 2) with those that go straight on joined into one."""
    out = np.full(len(places), -1)
    out[edges[:, 0]] = edges[:, 1]
    single = (np.bincount(edges[:, 0], minlength=len(places)) == 1) & (
        np.bincount(edges[:, 1], minlength=len(places)) == 1
    )
    before = np.full(len(places), -1)
    before[edges[:, 1]] = edges[:, 0]
    middle = np.flatnonzero(single)
    back, ahead = places[middle] - places[before[middle]], places[out[middle]] - places[middle]
    lengths = np.linalg.norm(back, axis=1) * np.linalg.norm(ahead, axis=1)
    straight = (np.abs(_cross(back, ahead)) <= 1e-9 * lengths) & (np.sum(back * ahead, axis=1) > 0)
    passed = np.zeros(len(places), bool)
    passed[middle[straight]] = True
    edges = edges[~passed[edges[:, 0]]]
    while np.any(going := passed[edges[:, 1]]):
        # Points that are passed have one way on: double the stride of every pointer until all ends are corners.
        edges[going, 1] = out[edges[going, 1]]
        jump = passed & passed[np.maximum(out, 0)]
        out[jump] = out[out[jump]]
    return edges


@dataclass(frozen=True)
class Grading:
    """Squares around a centre, one in another, each with lattice points twice as far apart as the one in it."""

    centre: tuple[float, float]
    steps: tuple[float, ...]
    """Distance of neighbouring lattice points in each square [m], ascending."""
    halves: tuple[float, ...]
    """Half the side of each square [m], ascending."""

    def level(self, points: Floats, margin: float = 0.0) -> NDArray[np.int64]:
        """Number of the smallest square that holds points (n, 2), where they are `margin` [m] nearer to the centre."""
        away = np.max(np.abs(points - np.array(self.centre)), axis=1) - margin
        return np.minimum(np.searchsorted(self.halves, away, side="right"), len(self.halves) - 1)

    def lattice(self, lower: Floats, upper: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """Lattice points within bounds (n, 2) [m] and their squares; a square's rim belongs to the next one."""
        points, levels = [], []
        for number, (step, half) in enumerate(zip(self.steps, self.halves, strict=True)):
            axes = []
            for k in (0, 1):
                first = int(np.ceil(max(-half, lower[k] - self.centre[k]) / step))
                last = int(np.floor(min(half, upper[k] - self.centre[k]) / step))
                axes.append(self.centre[k] + step * np.arange(first, last + 1))
            square = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
            square = square[self.level(square) == number]
            points.append(square)
            levels.append(np.full(len(square), number))
        return np.concatenate(points), np.concatenate(levels)


def graded_mesh(outline: Outline, grading: Grading) -> tuple[Floats, NDArray[np.int32], int]:
    """Vertices (n, 2) and triangles (m, 3), anticlockwise, that fill an outline and follow a grading.

    The number that comes third says how many of the vertices, the first ones, lie on the outline.

    Delaunay's triangles of the lattice points inside and of points along the outline. Where a stretch of the outline
    is not an edge of them it is halved, until all are.
    """
    from scipy.spatial import Delaunay

    steps = np.array(grading.steps)
    inner, level = grading.lattice(*outline.bounds)
    inner = inner[(outline.winding(inner) > 0) & (outline.distance(inner) > 0.55 * steps[level])]
    stretches = _borders(_cut(outline.segments, grading), outline)
    for _ in range(_MOST_ROUNDS):
        ends, number = np.unique(stretches.reshape(-1, 2), axis=0, return_inverse=True)
        vertices = np.concatenate([ends, inner])
        faces = Delaunay(vertices).simplices.astype(np.int64)
        edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
        wanted = np.sort(number.reshape(-1, 2), axis=1) @ np.array([len(vertices), 1])
        missing = ~np.isin(wanted, np.sort(edges, axis=1) @ np.array([len(vertices), 1]))
        missing &= np.linalg.norm(stretches[:, 1] - stretches[:, 0], axis=1) > _SHORTEST_M
        if not missing.any():
            break
        stretches = np.concatenate([stretches[~missing], _split(stretches[missing], ends)])
    corners = vertices[faces]
    twice = _cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    faces = np.where(twice[:, None] < 0, faces[:, ::-1], faces)
    longest = np.max(np.sum((corners - np.roll(corners, 1, axis=1)) ** 2, axis=2), axis=1)
    kept = (np.abs(twice) > 1e-7 * longest) & (outline.winding(corners.mean(axis=1)) > 0)
    return vertices, faces[kept].astype(np.int32), len(ends)


def _cut(segments: Floats, grading: Grading) -> Floats:
    """Segments halved until none is longer than the lattice's step beside it."""
    done, steps = [], np.array(grading.steps)
    while len(segments):
        length = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1)
        middle = segments.mean(axis=1)
        # The step of the finest square that the segment touches.
        away = np.max(np.abs(middle - np.array(grading.centre)), axis=1) - length
        level = np.minimum(np.searchsorted(grading.halves, away, side="right"), len(steps) - 1)
        fits = length <= steps[level] * (1.0 + 1e-9)
        done.append(segments[fits])
        segments = _halved(segments[~fits])
    return np.concatenate(done)


def _split(stretches: Floats, points: Floats) -> Floats:
    """Stretches cut in two: at the point on them that is nearest to their middle, else in the middle."""
    along = stretches[:, 1] - stretches[:, 0]
    length = np.linalg.norm(along, axis=1)
    away = points[None] - stretches[:, None, 0]
    share = np.sum(away * along[:, None], axis=2) / (length**2)[:, None]
    aside = np.abs(_cross(along[:, None], away)) / length[:, None]
    off_middle = np.where((aside < 1e-7) & (share > 1e-6) & (share < 1.0 - 1e-6), np.abs(share - 0.5), np.inf)
    nearest = np.argmin(off_middle, axis=1)
    on = np.isfinite(off_middle[np.arange(len(stretches)), nearest])
    cut = np.where(on[:, None], points[nearest], stretches.mean(axis=1))
    return np.concatenate([np.stack([stretches[:, 0], cut], axis=1), np.stack([cut, stretches[:, 1]], axis=1)])


def _borders(stretches: Floats, outline: Outline) -> Floats:
    """Stretches with the area on one side only: seams, and what runs inside of another sheet, bound nothing."""
    along = stretches[:, 1] - stretches[:, 0]
    aside = 1e-5 * np.stack([-along[:, 1], along[:, 0]], axis=1) / np.linalg.norm(along, axis=1)[:, None]
    middle = stretches.mean(axis=1)
    left, right = (outline.winding(middle + sign * aside) > 0 for sign in (1.0, -1.0))
    return stretches[left != right]


def _halved(segments: Floats) -> Floats:
    middle = segments.mean(axis=1)
    return np.concatenate([np.stack([segments[:, 0], middle], axis=1), np.stack([middle, segments[:, 1]], axis=1)])
