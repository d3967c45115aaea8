"""Solid triangles of a world: for the rays of wheels, and by place for hulls."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.rays.geometry import SceneGeometry, Triangles
from parhelion.rays.records import Rays
from parhelion.rays.scene import RayScene
from parhelion.world.world import World

SOFT_LABELS = ("vegetation", "lane-marking", "water", "person", "pedestrian")
"""Labels of static objects that carry nothing: leaves, paint and people."""
MOVING_SOFT_LABELS = ("vegetation", "lane-marking", "water")
"""Labels of actors that stop nothing."""


EDGE = "world edge"
"""Name of the invisible walls around a world."""
_BELOW_M = 1.0
_FAR_M = 1000.0


class Solid:
    """Static solid triangles of a world, and invisible walls around them.

    Four walls stand on the sides of the triangles' bounds, and a floor lies 1 m below them: a vehicle that leaves the
    ground does not fall forever. Wheels ignore them, hulls do not.
    """

    def __init__(self, triangles: Triangles) -> None:
        self.triangles = triangles.solid()[0]
        self.scene = RayScene(SceneGeometry(self.triangles))
        corners = self.triangles.vertices[self.triangles.faces] if len(self.triangles) else np.zeros((0, 3, 3))
        local = corners - self.scene.origin
        self.corners: Floats = np.concatenate([local, _walls(local)])
        """Corners (m, 3, 3) [m] of the triangles, then of the walls, relative to the scene's origin."""
        self.low: Floats = self.corners.min(axis=1)
        self.high: Floats = self.corners.max(axis=1)
        self.grid = Grid(self.low[: len(local)], self.high[: len(local)]) if len(local) else None
        self.lowest_m = float(corners[:, :, 2].min(initial=np.inf))
        """Height [m] of the lowest triangle in the world."""
        self._edges = np.arange(len(local), len(self.corners))

    @classmethod
    def of(cls, world: World, soft: tuple[str, ...] = SOFT_LABELS) -> Solid:
        """Return the solid triangles of a world."""
        geometry, names = world.geometry().static, world.label_names
        carries = np.array([names.get(int(label)) not in soft for label in world.parts.label])
        keep = carries[geometry.part] if len(geometry) else np.zeros(0, bool)
        return cls(Triangles(geometry.vertices, geometry.faces[keep], geometry.part[keep]))

    def near(self, low: Floats, high: Floats) -> NDArray[np.int64]:
        """Rows of the triangles whose box meets the box from `low` to `high` (3,), relative to the scene's origin.

        The walls around the world are always included.
        """
        return self._edges if self.grid is None else np.concatenate([self.grid.query(low, high), self._edges])

    def heights(self, points: Floats, above_m: float = 0.0) -> Floats:
        """Heights [m] of the ground at points (n, 3): of the first surface below, otherwise above; NaN without any.

        `above_m` is added to the points before the search below them.
        """
        count, far = len(points), np.full(len(points), 1e5)
        start, up = points + np.array([0.0, 0.0, above_m]), np.tile([0.0, 0.0, 1.0], (count, 1))
        below = self.scene.below(start, 1e5)[0]
        above = self.scene.cast(Rays(np.asarray(points, np.float64), up, np.zeros(count), far))
        return np.where(np.isnan(below), np.where(above.found, points[:, 2] + above.range, np.nan), below)

    def is_edge(self, row: int) -> bool:
        """True for a triangle of the walls around the world."""
        return row >= len(self.triangles)


def _walls(corners: Floats) -> Floats:
    """Triangles (10, 3, 3) of the walls and the floor around triangles (m, 3, 3)."""
    if not len(corners):
        return np.zeros((0, 3, 3))
    (x0, y0, z0), (x1, y1, z1) = corners.min(axis=(0, 1)), corners.max(axis=(0, 1))
    z0, z1 = z0 - _BELOW_M, z1 + _FAR_M
    base = [np.array([x, y, z0]) for x, y in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))]
    up = np.array([0.0, 0.0, z1 - z0])
    found = [[base[0], base[1], base[2]], [base[0], base[2], base[3]]]
    for a, b in zip(base, base[1:] + base[:1], strict=True):
        found += [[a, b, b + up], [a, b + up, a + up]]
    return np.array(found)


class Grid:
    """Boxes in a grid of several cell sizes: each box lies in the cell of its middle, of about its own size."""

    def __init__(self, low: Floats, high: Floats, finest_m: float = 0.5) -> None:
        self.low, self.high = low, high
        self._low, self._high = low.min(axis=0), high.max(axis=0)
        size = (high - low).max(axis=1)
        level = np.maximum(np.ceil(np.log2(np.maximum(size, 1e-9) / finest_m)), 0).astype(np.int64)
        self._levels = np.unique(level)
        self._cell = finest_m * 2.0**self._levels
        key = _key(np.floor((low + high) / 2.0 / (finest_m * 2.0**level)[:, None]).astype(np.int64), level)
        order = np.argsort(key, kind="stable")
        self._key, self._row = key[order], order

    def query(self, low: Floats, high: Floats) -> NDArray[np.int64]:
        """Rows of the boxes that meet a box, in increasing order."""
        low, high = np.maximum(low, self._low), np.minimum(high, self._high)
        if not (low <= high).all():
            return np.zeros(0, np.int64)
        keys = []
        for level, cell in zip(self._levels.tolist(), self._cell.tolist(), strict=True):
            first = np.floor(low / cell - 0.5).astype(np.int64)
            last = np.floor(high / cell + 0.5).astype(np.int64)
            x, y, z = (np.arange(a, b + 1) for a, b in zip(first, last, strict=True))
            cells = np.stack(np.broadcast_arrays(x[:, None, None], y[None, :, None], z[None, None, :]), axis=-1)
            keys.append(_key(cells.reshape(-1, 3), level))
        wanted = np.concatenate(keys)
        start, stop = np.searchsorted(self._key, wanted), np.searchsorted(self._key, wanted, side="right")
        full = stop > start
        start, stop = start[full], stop[full]
        if not len(start):
            return np.zeros(0, np.int64)
        lengths = stop - start
        rows = self._row[np.repeat(start - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())]
        meets = np.all((self.low[rows] <= high) & (self.high[rows] >= low), axis=1)
        return np.sort(rows[meets])


def _key(cell: NDArray[np.int64], level: Any) -> NDArray[np.int64]:
    """One number per cell, 19 bits per coordinate and 5 for the level."""
    span = 1 << 19
    x, y, z = (cell[:, k] + span // 2 & span - 1 for k in range(3))
    return ((np.asarray(level) * span + x) * span + y) * span + z
