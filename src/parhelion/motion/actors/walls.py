"""Walls for people: outlines of static objects at knee height, near the paths of the people."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.world.world import World

KNEE_M = 0.4
"""Height [m] above the path at which objects are cut: higher than kerbs, lower than tables and bonnets."""
NEAR_M = 6.0
"""Distance [m] from a path within which walls count."""
CELL_M = 1.0
REACH_M = 2.0
"""Distance [m] from a person within which walls are found."""
MOST_PER_CELL = 24
GROUND = ("road", "parking", "sidewalk", "other-ground", "terrain", "ground", "floor", "lane-marking", "water")
LEAVES = ("vegetation",)
OPEN_LABELS = frozenset((*GROUND, *LEAVES))
"""Labels that people walk on or through."""


class Walls:
    """Segments of walls, found by place through a grid."""

    def __init__(self, segments: Floats) -> None:
        """`segments` (n, 2, 2) [m] are pairs of points seen from above."""
        self.segments = segments
        self._low, self._shape = np.zeros(2), (0, 0)
        self._rows = np.zeros((0, 0), dtype=np.intp)
        if len(segments):
            self._fill()

    @classmethod
    def of(cls, world: World, path: Floats) -> Walls:
        """Walls of a world near the points (n, 3) [m] of paths, cut at knee height above the nearest point."""
        return cls(outlines(world, path))

    def _fill(self) -> None:
        """List for each cell the segments that are nearest to its middle."""
        low = self.segments.min(axis=(0, 1)) - NEAR_M
        high = self.segments.max(axis=(0, 1)) + NEAR_M
        shape = np.ceil((high - low) / CELL_M).astype(int) + 1
        ends = np.sort(self.segments, axis=1)
        first = np.floor((ends[:, 0] - REACH_M - low) / CELL_M).astype(np.intp)
        size = np.floor((ends[:, 1] + REACH_M - low) / CELL_M).astype(np.intp) - first + 1
        # All pairs of a segment and a cell of its enlarged box.
        count = size[:, 0] * size[:, 1]
        number = np.repeat(np.arange(len(count)), count)
        inside = np.arange(len(number)) - np.repeat(np.cumsum(count) - count, count)
        cells = first[number] + np.stack([inside // size[number, 1], inside % size[number, 1]], axis=1)
        middle = low + (cells + 0.5) * CELL_M
        away = np.linalg.norm(_nearest(middle, self.segments[number, 0], self.segments[number, 1]) - middle, axis=1)
        near = away < REACH_M + 0.71 * CELL_M
        cell, away, number = (cells[:, 0] * shape[1] + cells[:, 1])[near], away[near], number[near]
        order = np.lexsort((number, away, cell))
        cell, number = cell[order], number[order]
        starts = np.flatnonzero(np.concatenate([[True], cell[1:] != cell[:-1]]))
        rank = np.arange(len(cell)) - np.repeat(starts, np.diff(np.concatenate([starts, [len(cell)]])))
        kept = rank < MOST_PER_CELL
        rows = np.full((int(shape[0] * shape[1]), int(rank[kept].max()) + 1), -1, dtype=np.intp)
        rows[cell[kept], rank[kept]] = number[kept]
        self._low, self._shape, self._rows = low, (int(shape[0]), int(shape[1])), rows

    def nearest(self, xy: Floats, count: int) -> tuple[Floats, NDArray[np.bool_]]:
        """Offsets (n, count, 2) [m] from points (n, 2) to near walls in different directions, and a mask.

        The directions of the points of one person differ by more than 45 degrees: one wall of many pieces counts once.
        """
        offsets, known = np.zeros((len(xy), count, 2)), np.zeros((len(xy), count), dtype=bool)
        if not len(self.segments):
            return offsets, known
        cell = np.floor((xy - self._low) / CELL_M).astype(np.intp)
        inside = np.all((cell >= 0) & (cell < self._shape), axis=1)
        flat = np.where(inside, cell[:, 0] * self._shape[1] + cell[:, 1], 0)
        rows = np.where(inside[:, None], self._rows[flat], -1)
        there = np.flatnonzero(rows[:, 0] >= 0)
        if not len(there):
            return offsets, known
        rows = rows[there]
        here = xy[there, None, :]
        away = _nearest(here, self.segments[rows, 0], self.segments[rows, 1]) - here
        distance = np.where(rows >= 0, np.hypot(away[..., 0], away[..., 1]), np.inf)
        row = np.arange(len(there))
        for number in range(count):
            best = np.argmin(distance, axis=1)
            length = distance[row, best]
            found = np.isfinite(length)
            offset = away[row, best]
            offsets[there[found], number], known[there[found], number] = offset[found], True
            same = np.sum(away * offset[:, None, :], axis=-1) > 0.71 * np.where(found, length, 1.0)[:, None] * np.where(
                np.isfinite(distance), distance, 0.0
            )
            distance = np.where(same, np.inf, distance)
        return offsets, known


def _nearest(points: Floats, first: Floats, second: Floats) -> Floats:
    """Points of segments that are nearest to `points`; all arrays (..., 2)."""
    line = second - first
    length2 = np.maximum(np.sum(line**2, axis=-1), 1e-12)
    share = np.clip(np.sum((points - first) * line, axis=-1) / length2, 0.0, 1.0)
    return first + share[..., None] * line


def outlines(world: World, path: Floats) -> Floats:
    """Segments (n, 2, 2) [m] where static triangles cross knee height above the nearest point of a path (n, 3)."""
    from scipy.spatial import cKDTree

    static, names = world.geometry().static, world.label_names
    if not len(static) or not len(path):
        return np.zeros((0, 2, 2))
    blocks = np.array([names[int(label)] not in OPEN_LABELS for label in world.parts.label])
    corners = static.vertices[static.faces[blocks[static.part]]]
    low, high = corners.min(axis=1), corners.max(axis=1)
    least, most = path.min(axis=0), path.max(axis=0)
    near = np.all((high[:, :2] > least[:2] - NEAR_M) & (low[:, :2] < most[:2] + NEAR_M), axis=1)
    near &= (high[:, 2] > least[2] + KNEE_M) & (low[:, 2] < most[2] + KNEE_M)
    corners = corners[near]
    if not len(corners):
        return np.zeros((0, 2, 2))
    tree = cKDTree(path[:, :2])
    middle = corners[..., :2].mean(axis=1)
    extent = np.max(np.linalg.norm(corners[..., :2] - middle[:, None], axis=-1), axis=1)
    distance, row = tree.query(middle)
    keep = distance < NEAR_M + extent
    corners, height = corners[keep], path[row[keep], 2] + KNEE_M
    return _cut(corners, height)


def _cut(corners: Floats, height: Floats) -> Floats:
    """Segments (k, 2, 2) where triangles (n, 3, 3) cross the heights (n,); those shorter than 1 mm are dropped."""
    above = corners[..., 2] - height[:, None]
    # A corner exactly at the height counts as above, so that every crossing has two edges.
    upper = above >= 0.0
    crosses = np.any(upper, axis=1) & ~np.all(upper, axis=1)
    corners, above, upper = corners[crosses], above[crosses], upper[crosses]
    points = np.zeros((len(corners), 3, 2))
    cut = np.zeros((len(corners), 3), dtype=bool)
    for edge in range(3):
        a, b = edge, (edge + 1) % 3
        cut[:, edge] = upper[:, a] != upper[:, b]
        rise = np.where(cut[:, edge], above[:, a] - above[:, b], 1.0)
        share = np.where(cut[:, edge], above[:, a] / rise, 0.0)
        points[:, edge] = corners[:, a, :2] + share[:, None] * (corners[:, b, :2] - corners[:, a, :2])
    order = np.argsort(~cut, axis=1, kind="stable")[:, :2]
    found = np.take_along_axis(points, order[..., None], axis=1)
    return found[np.linalg.norm(found[:, 1] - found[:, 0], axis=1) > 1e-3]
