"""Ground around a vehicle: cells that it could drive on or that something could stand on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats, Pose
from parhelion.evaluate.placement.schema import BlindEntry
from parhelion.evaluate.placement.sights import Surroundings

LIFT_M = 0.01
"""Targets lie this far over the ground."""
STEP_M = 0.3
"""What is higher parts the ground on its two sides."""


def disc_cells(radius_m: float, cell_m: float) -> Floats:
    """Middles of square cells in a disc around the origin [m], shape (m, 2)."""
    half = int(np.ceil(radius_m / cell_m))
    axis = (np.arange(-half, half) + 0.5) * cell_m
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    return grid[np.hypot(grid[:, 0], grid[:, 1]) <= radius_m]


def ground_around(around: Surroundings, pose: Pose, level: Floats, entry: BlindEntry) -> Floats:
    """Ground at the cells `level` (m, 2) [m] of the vehicle's frame: a little above it, in the world, shape (n, 3) [m].

    Cells that the body stands over are left out, and those that a wall parts from the vehicle: floors of buildings.
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
    """Which cells (n, 3) [m] hang together with the one nearest to the vehicle, from neighbour to neighbour."""
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
