"""Cells of a region: patches of surface on which rays end, or volumes that rays pass through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, quat_rotate
from parhelion.core.random import Stream, to_unit
from parhelion.core.trajectory import pose_at
from parhelion.evaluate.placement.schema import BlindEntry, Box, CoverageEntry
from parhelion.evaluate.placement.sights import Surroundings
from parhelion.rays import Triangles
from parhelion.world.world import World

Rows = NDArray[np.int64]

MOST_VOXELS = 20_000_000
POINTS_A_CELL = 16
"""Sample points for the surface area of a cell: about this many on a face across it."""
_MOST_POINTS = 4_000_000
_EDGE_M = 1e-3
"""Tolerance at the faces of the region, so that a floor at its lower face is inside."""
_OFF_GRID = 0.382
"""Shift of the grid as a share of a cell, so that floors and walls at round coordinates do not lie on cell faces."""
_MOST_SPLITS = 64
_MARCH_SAMPLES = 4_000_000


@dataclass(frozen=True, eq=False)
class Voxels:
    """Regular grid over a box."""

    lower: Floats
    """Lower corner of the grid [m], shape (3,)."""
    cell_m: float
    shape: tuple[int, int, int]
    box: tuple[Floats, Floats]
    """Lower and upper corner of the region [m]."""

    @classmethod
    def over(cls, region: Box, cell_m: float, *, aside: bool) -> Voxels:
        """Grid of a region; `aside` shifts its faces off round coordinates."""
        low, high = np.array(region.min), np.array(region.max)
        lower = low - (_OFF_GRID * cell_m if aside else 0.0)
        count = np.maximum(np.ceil((high - lower) / cell_m - 1e-9), 1.0)
        if np.prod(count) > MOST_VOXELS:
            raise ConfigError(f"the region has {np.prod(count):.3g} cells of {cell_m:g} m; {MOST_VOXELS} are allowed")
        nx, ny, nz = (int(one) for one in count)
        return cls(lower, cell_m, (nx, ny, nz), (low, high))

    def number(self, points: Floats) -> Rows:
        """Voxel index of each point (n, 3) [m], -1 outside the region, shape (n,)."""
        low, high = self.box
        inside = np.all((points >= low - _EDGE_M) & (points <= high + _EDGE_M), axis=1)
        step = np.floor((points - self.lower) / self.cell_m)
        index = np.clip(np.where(inside[:, None], step, 0.0), 0, np.array(self.shape) - 1).astype(np.int64)
        flat = (index[:, 0] * self.shape[1] + index[:, 1]) * self.shape[2] + index[:, 2]
        return np.where(inside, flat, -1)

    def middles(self, number: Rows) -> Floats:
        """Centres of voxels [m], shape (n, 3)."""
        index = np.stack(np.unravel_index(number, self.shape), axis=1)
        return self.lower + (index + 0.5) * self.cell_m


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of a region at one pose."""

    voxels: Voxels
    pose: Pose
    """Pose of the region in the world."""
    row: NDArray[np.int32]
    """Cell index of each voxel, -1 without a cell, shape (voxels,)."""
    weight: Floats
    """Weight of each cell: area [m²] or volume [m³] times its factors, shape (m,)."""
    middle: Floats
    """Centres in the world [m], shape (m, 3)."""
    passed: bool
    """Rays that pass through a cell observe it; otherwise those that end in it."""

    def __len__(self) -> int:
        return len(self.weight)

    def counts(self, origin: Floats, direction: Floats, length: Floats, found: NDArray[np.bool_]) -> Floats:
        """Number of rays that observe each cell, shape (m,).

        Rays have origins and unit directions (n, 3) in the world and end after `length` (n,) [m], on a surface if
        `found`.
        """
        total = np.zeros(len(self))
        if not self.passed:
            ends = self.pose.inverse().apply(origin[found] + direction[found] * length[found, None])
            cells = self._cells(ends)
            return total + np.bincount(cells[cells >= 0], minlength=len(self))
        local = self.pose.inverse()
        start, along = local.apply(origin), quat_rotate(local.quat_xyzw, direction)
        for ray, cells in self._march(start, along, length):
            first = np.ones(len(ray), bool)
            first[1:] = (ray[1:] != ray[:-1]) | (cells[1:] != cells[:-1])
            total += np.bincount(cells[first & (cells >= 0)], minlength=len(self))
        return total

    def _cells(self, points: Floats) -> Rows:
        voxel = self.voxels.number(points)
        return np.where(voxel >= 0, self.row[np.maximum(voxel, 0)], -1).astype(np.int64)

    def _march(self, start: Floats, along: Floats, length: Floats) -> Iterator[tuple[Rows, Rows]]:
        """Rays and the cells along them, in steps of half a cell, within the region."""
        enter, leave = _span_in_box(start, along, length, *self.voxels.box)
        step = 0.5 * self.voxels.cell_m
        count = np.ceil(np.maximum(leave - enter, 0.0) / step).astype(np.int64)
        rays = np.flatnonzero(count)
        ends = np.cumsum(count[rays])
        for begin in range(0, int(ends[-1]) if len(ends) else 0, _MARCH_SAMPLES):
            low, high = np.searchsorted(ends, [begin, begin + _MARCH_SAMPLES], side="right")
            some = rays[low:high]
            ray = np.repeat(some, count[some])
            within = np.arange(len(ray)) - np.repeat(np.cumsum(count[some]) - count[some], count[some])
            at = np.minimum(enter[ray] + (within + 0.5) * step, leave[ray])
            yield ray, self._cells(start[ray] + along[ray] * at[:, None])


def _span_in_box(start: Floats, along: Floats, length: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Distances at which rays enter and leave a box [m], within their length; leave <= enter for rays that miss it."""
    safe = np.where(np.abs(along) < 1e-12, 1e-12, along)
    one, two = (low - start) / safe, (high - start) / safe
    enter = np.maximum(np.minimum(one, two).max(axis=1), 0.0)
    leave = np.minimum(np.maximum(one, two).min(axis=1), length)
    return enter, leave


# ---- creation --------------------------------------------------------------------------------------------------------


def cells_of(world: World, entry: CoverageEntry, pose: Pose, time: float, seed: int) -> Cells:
    """Cells of a region whose frame is at `pose`, at a time [s]."""
    surface = entry.kind == "surface"
    voxels = Voxels.over(entry.region, entry.cell_m, aside=surface)
    count = int(np.prod(voxels.shape))
    if surface:
        points, weight = surface_points(world, entry, pose, time, seed)
        number = voxels.number(points)
        amount: Floats = np.bincount(number[number >= 0], weights=weight[number >= 0], minlength=count).astype(float)
    else:
        amount = np.full(count, entry.cell_m**3)
    for part in entry.priority:
        there = np.flatnonzero(amount)
        middle = voxels.middles(there)
        inside = np.all((middle >= np.array(part.min)) & (middle <= np.array(part.max)), axis=1)
        amount[there[inside]] *= part.weight
    kept = np.flatnonzero(amount > 0.0)
    row = np.full(count, -1, np.int32)
    row[kept] = np.arange(len(kept))
    return Cells(voxels, pose, row, amount[kept], pose.apply(voxels.middles(kept)), not surface)


def surface_points(world: World, entry: CoverageEntry, pose: Pose, time: float, seed: int) -> tuple[Floats, Floats]:
    """Points (n, 3) [m] on the surfaces in a region, in its frame, and the weighted area [m²] of each, shape (n,)."""
    low, high = np.array(entry.region.min), np.array(entry.region.max)
    corners, part = triangles_in(world, pose, time, low - _EDGE_M, high + _EDGE_M, 4.0 * entry.cell_m)
    names, labels = world.label_names, entry.labels
    for name in labels or ():
        if name not in names.values():
            raise ConfigError(f"labels: no object in the world has the label {name!r}")
    if labels is not None:
        factor = np.zeros(max(names, default=0) + 1)
        for number, name in names.items():
            factor[number] = labels.get(name, 0.0)
        of_triangle = factor[world.parts.label[part]]
        corners, of_triangle = corners[of_triangle > 0.0], of_triangle[of_triangle > 0.0]
    else:
        of_triangle = np.ones(len(corners))
    area = 0.5 * np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    total = float(area.sum())
    if total == 0.0:
        return np.zeros((0, 3)), np.zeros(0)
    wanted = int(np.ceil(POINTS_A_CELL * total / entry.cell_m**2))
    if wanted > _MOST_POINTS:
        raise ConfigError(f"{total:.3g} m² of surface in cells of {entry.cell_m:g} m are too many; use larger cells")
    a, b, c, _ = (to_unit(word) for word in Stream(seed, "placement/surface").words(np.arange(wanted)))
    # Stratified sampling over the cumulative area, so that every triangle has its share of the points.
    row = np.searchsorted(np.cumsum(area), (np.arange(wanted) + a) / wanted * total)
    row = np.minimum(row, len(area) - 1)
    root = np.sqrt(b)
    shares = np.stack([1.0 - root, root * (1.0 - c), root * c], axis=1)
    return np.einsum("nk,nkd->nd", shares, corners[row]), of_triangle[row] * (total / wanted)


def triangles_in(
    world: World, pose: Pose, time: float, low: Floats, high: Floats, longest_m: float
) -> tuple[Floats, Rows]:
    """Corners (n, 3, 3) [m] in the frame at `pose` of triangles that touch a box, and part numbers.

    Triangles are bisected until their sides are at most `longest_m`, and pieces outside the box are dropped.
    """
    local = pose.inverse()
    geometry = world.geometry()
    soups: list[tuple[Triangles, Pose]] = [(geometry.static, local)]
    soups += [(actor.triangles, local @ pose_at(actor.trajectory, time)) for actor in geometry.actors]
    if geometry.surface is not None:
        place = pose.apply(0.5 * (low + high)[None])[0]
        soups.append((geometry.surface.at(geometry.surface.neighbourhood(place), time).triangles, local))
    corners = np.concatenate([at.apply(soup.vertices)[soup.faces] for soup, at in soups])
    part = np.concatenate([soup.part for soup, _ in soups]).astype(np.int64)
    for _ in range(_MOST_SPLITS):
        near = np.all((corners.max(axis=1) >= low) & (corners.min(axis=1) <= high), axis=1)
        corners, part = corners[near], part[near]
        side = np.linalg.norm(np.roll(corners, -1, axis=1) - corners, axis=2)
        large = side.max(axis=1, initial=0.0) > longest_m
        if not large.any():
            break
        halves = _halved(corners[large], side[large])
        corners = np.concatenate([corners[~large], halves])
        part = np.concatenate([part[~large], np.tile(part[large], 2)])
    return corners, part


def _halved(corners: Floats, side: Floats) -> Floats:
    """Each triangle bisected at its longest side."""
    turn = (np.argmax(side, axis=1)[:, None] + np.arange(3)) % 3
    a, b, c = (np.take_along_axis(corners, turn[:, k : k + 1, None], axis=1)[:, 0] for k in range(3))
    middle = 0.5 * (a + b)
    return np.concatenate([np.stack([a, middle, c], axis=1), np.stack([middle, b, c], axis=1)])


# ---- Ground around a vehicle: cells that are drivable or on which objects may stand ---------------------------------


LIFT_M = 0.01
"""Height of targets above the ground [m]."""
STEP_M = 0.3
"""Height of obstacles that separate the ground on their two sides [m]."""


def disc_cells(radius_m: float, cell_m: float) -> Floats:
    """Centres of square cells in a disc around the origin [m], shape (m, 2)."""
    half = int(np.ceil(radius_m / cell_m))
    axis = (np.arange(-half, half) + 0.5) * cell_m
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    return grid[np.hypot(grid[:, 0], grid[:, 1]) <= radius_m]


def ground_around(around: Surroundings, pose: Pose, level: Floats, entry: BlindEntry) -> Floats:
    """Points slightly above the ground at the cells `level` (m, 2) [m] of the vehicle frame; world, shape (n, 3) [m].

    Cells under the vehicle body are excluded, as are those that a wall separates from it, such as floors of buildings.
    """
    start = np.column_stack([level, np.full(len(level), entry.above_m)])
    down = np.broadcast_to([0.0, 0.0, -1.0], start.shape)
    reach = entry.above_m + entry.tolerance_m
    world_down = np.broadcast_to(pose.rotation @ [0.0, 0.0, -1.0], start.shape)
    met = around.ranges(around.scene, pose.apply(start), world_down, reach)
    ground = np.abs(met - entry.above_m) <= entry.tolerance_m
    if around.body is not None:
        ground &= ~np.isfinite(around.ranges(around.body, start, down, reach))
    cells = np.column_stack([level[ground], entry.above_m - met[ground]])
    if not len(cells):
        return np.zeros((0, 3))
    return pose.apply(cells[_reached(around, pose, cells, entry.cell_m)] + np.array([0.0, 0.0, LIFT_M]))


def _reached(around: Surroundings, pose: Pose, cells: Floats, cell_m: float) -> NDArray[np.bool_]:
    """Mask of cells (n, 3) [m] connected to the one nearest to the vehicle through neighbours."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    index = np.round(cells[:, :2] / cell_m - 0.5).astype(np.int64)
    index -= index.min(axis=0)
    number = np.full(index.max(axis=0) + 2, -1)
    number[index[:, 0], index[:, 1]] = np.arange(len(cells))
    at = pose.apply(cells + np.array([0.0, 0.0, STEP_M]))
    pairs = []
    for across, along in ((1, 0), (0, 1)):
        other = number[index[:, 0] + across, index[:, 1] + along]
        one = np.flatnonzero(other >= 0)
        free = around.free(around.scene, at[one], at[other[one]], 0.0)
        pairs.append(np.stack([one[free], other[one][free]]))
    rows, columns = np.concatenate(pairs, axis=1)
    links = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(cells), len(cells)))
    group = connected_components(links, directed=False)[1]
    return np.asarray(group == group[np.argmin(np.hypot(cells[:, 0], cells[:, 1]))])
