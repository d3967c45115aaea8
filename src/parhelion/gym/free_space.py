"""Free ground of a world: where a vehicle can stand, for starts, goals and maps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.rays.geometry import SceneGeometry
from parhelion.rays.records import Rays
from parhelion.rays.scene import RayScene
from parhelion.world.world import World

STEEPEST = 0.5
"""Largest slope (rise over run) of ground that counts as free; about 27 deg."""
MOST_CELLS = 4_000_000
_MOST_LAYERS = 24
_BELOW_M = 1e-3
"""Distance below a surface at which the ray to the next one starts [m]."""
_PROBE_M = 0.15
"""Height above the ground of the lower horizontal rays, which find thin walls [m]."""


@dataclass(frozen=True, eq=False)
class FreeSpace:
    """Grid of ground heights and of distances to the nearest place where a vehicle cannot stand.

    The ground of a cell is the lowest surface with enough air above it for the vehicle. Cells are blocked without
    ground, at steps and slopes steeper than `STEEPEST`, and next to walls. All static triangles count, also leaves.

    >>> world = ph.World()
    >>> _ = world.add(ph.shapes.plane(10, 10), material="concrete", label="floor")
    >>> _ = world.add(ph.shapes.box(1, 1, 1), material="wood", pose=ph.Pose(xyz=(0, 0, 0.5)))
    >>> space = FreeSpace.of(world, height_m=0.5, cell_m=0.25)
    >>> round(space.clearance_at(2.0, 0.0)), space.clearance_at(0.0, 0.0)
    (1, 0.0)
    """

    low: Floats
    """Lower corner of the grid [m], shape (2,)."""
    cell_m: float
    """Width of a cell [m]."""
    height: Floats
    """Height of the ground in the middle of each cell [m], NaN without ground, shape (nx, ny)."""
    clearance: Floats
    """Distance from the middle of each cell to that of the nearest blocked one [m], shape (nx, ny)."""

    @classmethod
    def of(
        cls,
        world: World,
        *,
        height_m: float,
        cell_m: float = 0.2,
        area_m: tuple[float, float, float, float] | None = None,
    ) -> FreeSpace:
        """Measure the free ground of a world for a vehicle of a height [m].

        Args:
            world: The world; its actors are ignored.
            height_m: Height of the vehicle.
            cell_m: Width of a cell; objects thinner than half of it may be missed.
            area_m: x and y of the lower and of the upper corner; the whole world by default.
        """
        bounds = world.bounds
        if bounds is None:
            raise ConfigError("free space: the world is empty; add ground")
        low, high = bounds[0][:2], bounds[1][:2]
        if area_m is not None:
            low, high = np.maximum(low, area_m[:2]), np.minimum(high, area_m[2:])
        count = np.maximum(np.ceil((high - low) / cell_m - 1e-9), 1.0).astype(np.int64)
        if np.prod(count) > MOST_CELLS:
            raise ConfigError(f"free space: {np.prod(count)} cells of {cell_m:g} m; at most {MOST_CELLS}: set an area")
        scene = RayScene(SceneGeometry(world.geometry().static))
        x, y = (low[k] + (np.arange(count[k]) + 0.5) * cell_m for k in range(2))
        places = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
        ground = _ground(scene, places, float(bounds[0][2]), float(bounds[1][2]), height_m)
        blocked = np.isnan(ground) | _near_walls(scene, places, ground, height_m, cell_m)
        ground, blocked = ground.reshape(count), blocked.reshape(count) | _steep(ground.reshape(count), cell_m)
        from scipy.ndimage import distance_transform_edt

        # The world outside of the grid is unknown, therefore blocked.
        padded = np.pad(~blocked, 1)
        clearance = distance_transform_edt(padded)[1:-1, 1:-1] * cell_m
        return cls(np.asarray(low, np.float64), cell_m, ground, clearance)

    def reachable(self, radius_m: float = 0.0) -> NDArray[np.bool_]:
        """Mask of the largest connected area for a vehicle of a radius, shape (nx, ny)."""
        from scipy.ndimage import label

        areas, count = label(self.clearance > radius_m)
        if count == 0:
            raise ConfigError(f"free space: no place for a vehicle of radius {radius_m:.2f} m")
        return np.asarray(areas == 1 + int(np.argmax(np.bincount(areas.ravel())[1:])))

    def places(self, radius_m: float) -> Floats:
        """Positions [m] on the ground, shape (n, 3), of the cells of `reachable`."""
        if radius_m not in self._places:
            rows = np.argwhere(self.reachable(radius_m))
            self._places[radius_m] = np.column_stack(
                [self.low + (rows + 0.5) * self.cell_m, self.height[tuple(rows.T)]]
            )
        return self._places[radius_m]

    @cached_property
    def _places(self) -> dict[float, Floats]:
        return {}

    def clearance_at(self, x: float, y: float) -> float:
        """Distance [m] to the nearest blocked cell; 0 outside of the grid."""
        row, column = self.cell_of(x, y)
        inside = 0 <= row < self.clearance.shape[0] and 0 <= column < self.clearance.shape[1]
        return float(self.clearance[row, column]) if inside else 0.0

    def cell_of(self, x: float, y: float) -> tuple[int, int]:
        """Row and column of the cell at a position [m]; possibly outside of the grid."""
        row, column = np.floor((np.array([x, y]) - self.low) / self.cell_m).astype(int).tolist()
        return row, column

    def height_at(self, x: float, y: float) -> float:
        """Height of the ground [m] in the cell at a position; NaN without ground."""
        row, column = self.cell_of(x, y)
        inside = 0 <= row < self.height.shape[0] and 0 <= column < self.height.shape[1]
        return float(self.height[row, column]) if inside else float("nan")


def _ground(scene: RayScene, places: Floats, bottom: float, top: float, height_m: float) -> Floats:
    """Height of the lowest surface at each place with `height_m` of air above it, NaN if there is none."""
    ground = np.full(len(places), np.nan)
    start = np.full(len(places), top + max(height_m, 1.0))
    above, rows = np.full(len(places), np.inf), np.arange(len(places))
    for _ in range(_MOST_LAYERS):
        origin = np.column_stack([places[rows], start[rows]])
        found, hits = scene.below(origin, top - bottom + 2.0 * height_m + 2.0)
        rows, surface = rows[hits.found], found[hits.found]
        if not len(rows):
            break
        fits = above[rows] - surface >= height_m
        ground[rows[fits]] = surface[fits]
        above[rows], start[rows] = surface, surface - _BELOW_M
    return ground


def _near_walls(scene: RayScene, places: Floats, ground: Floats, height_m: float, cell_m: float) -> NDArray[np.bool_]:
    """True where a horizontal ray of the length of a cell meets a surface."""
    blocked, known = np.zeros(len(places), bool), np.flatnonzero(~np.isnan(ground))
    for level in (min(_PROBE_M, 0.5 * height_m), 0.9 * height_m):
        origin = np.column_stack([places[known], ground[known] + level])
        for direction in ((1.0, 0.0, 0.0), (-1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, -1.0, 0.0)):
            blocked[known] |= scene.cast(_rays(origin, direction, cell_m)).found
    return blocked


def _rays(origin: Floats, direction: tuple[float, float, float], length_m: float) -> Rays:
    count = len(origin)
    return Rays(origin, np.tile(np.array(direction), (count, 1)), np.zeros(count), np.full(count, length_m))


def _steep(ground: Floats, cell_m: float) -> NDArray[np.bool_]:
    """True next to a step or slope that is steeper than `STEEPEST`."""
    steep = np.zeros(ground.shape, bool)
    for axis in range(2):
        rises = np.abs(np.diff(ground, axis=axis)) > STEEPEST * cell_m
        before, after = ([slice(None)] * 2 for _ in range(2))
        before[axis], after[axis] = slice(None, -1), slice(1, None)
        steep[tuple(before)] |= rises
        steep[tuple(after)] |= rises
    return steep
