"""VANE's way (ERDC/GSL TR-20-32, chapter 5): returns in a grid, connected cells are targets at their centroids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MOST_CELLS = 100_000_000
"""Of the grid."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Targets, strongest first."""

    xyz: Floats
    """Centroids weighted by power [m], shape (n, 3)."""
    speed_m_s: Floats
    power: Floats
    """Sum over the returns."""
    owner: NDArray[np.int64]
    """Row of the strongest return."""


def clusters_of(
    xyz: Floats, power: Floats, speed_m_s: Floats, resolution_m: float, least_power: float = 0.0
) -> Clusters:
    """Join returns at `xyz` (n, 3) [m] whose cells of side `resolution_m`, seen from above, touch.

    Cells with less power than `least_power` in all are left out.
    """
    from scipy import ndimage

    if not len(xyz):
        return Clusters(np.zeros((0, 3)), np.zeros(0), np.zeros(0), np.zeros(0, np.int64))
    cell = np.floor(xyz[:, :2] / resolution_m).astype(np.int64)
    cell -= cell.min(axis=0)
    size = cell.max(axis=0) + 1
    if int(size[0]) * int(size[1]) > MOST_CELLS:
        size = np.minimum(size, int(np.sqrt(MOST_CELLS)))
        cell = np.minimum(cell, size - 1)
    flat = cell[:, 0] * size[1] + cell[:, 1]
    grid = np.bincount(flat, power, int(size[0] * size[1])).reshape(tuple(size)) > least_power
    labels, count = ndimage.label(grid, structure=np.ones((3, 3), int))
    group = labels.ravel()[flat] - 1
    kept = np.flatnonzero(group >= 0)
    xyz, power, speed_m_s, group = xyz[kept], power[kept], speed_m_s[kept], group[kept]
    total = np.bincount(group, power, count)

    def mean(values: Floats) -> Floats:
        return np.asarray(np.bincount(group, values * power, count) / total)

    order = np.lexsort((np.arange(len(group)), power))
    owner = np.zeros(count, np.int64)
    owner[group[order]] = kept[order]  # the strongest comes last
    found = np.stack([mean(xyz[:, k]) for k in range(3)], axis=1)
    rank = np.argsort(-total, kind="stable")
    return Clusters(found[rank], mean(speed_m_s)[rank], total[rank].astype(np.float64), owner[rank])
