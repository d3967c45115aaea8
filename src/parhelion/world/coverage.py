"""Coverage of a rebuilt world: the space that the recording has observed, and rays that leave it.

Space is observed where a recorded shot passed or ended. Beyond, a rebuilt world contains nothing, which does not mean
that nothing was there: rays that enter unobserved space before they end are `unknown`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.clouds import Scan
from parhelion.core.pose import Floats, quat_rotate

_PACK = 1 << 20
ALLOWED_CELLS = 1
"""Unobserved cells in a row along a ray that are tolerated: the grid is sampled by shots."""


def packed_cells(points: Floats, size_m: float) -> NDArray[np.int64]:
    """Integer that identifies the cell of each point, shape (n,); coordinates reach 2^20 cells from the origin."""
    cell = np.clip(np.floor(points / size_m).astype(np.int64) + _PACK, 0, 2 * _PACK - 1)
    return (cell[..., 0] << 42) | (cell[..., 1] << 21) | cell[..., 2]


@dataclass(frozen=True, eq=False)
class Coverage:
    """Cells that a recording has observed."""

    cell_m: float
    """Size of the cells [m]."""
    cells: NDArray[np.int64]
    """Packed cells, increasing, shape (n,)."""
    reach_m: float = 60.0
    """Range up to which rays without a return are checked [m]."""

    def seen(self, points: ArrayLike) -> NDArray[np.bool_]:
        """Mask of the points that lie in observed cells, shape (n,)."""
        key = packed_cells(np.asarray(points, np.float64), self.cell_m)
        place = np.minimum(np.searchsorted(self.cells, key), max(len(self.cells) - 1, 0))
        return np.asarray(self.cells[place] == key) if len(self.cells) else np.zeros(key.shape, bool)

    def known_m(self, origin: ArrayLike, direction: ArrayLike, limit_m: ArrayLike) -> Floats:
        """Length of each ray before it enters unobserved space, at most its limit [m], shape (n,)."""
        start, along = np.atleast_2d(np.asarray(origin, np.float64)), np.atleast_2d(np.asarray(direction, np.float64))
        start, along = np.broadcast_arrays(start, along)
        limit = np.broadcast_to(np.asarray(limit_m, np.float64), (len(along),))
        step = 0.5 * self.cell_m
        known = limit.copy()
        missed = np.zeros(len(along), np.int64)
        going = np.flatnonzero(limit > step)
        # The last half cell before a surface may lie outside of the observed cells.
        for number in range(1, int(np.ceil(float(limit.max(initial=0.0)) / step)) + 1):
            t = number * step
            going = going[t < limit[going] - step]
            if not len(going):
                break
            there = self.seen(start[going] + t * along[going])
            missed[going] = np.where(there, 0, missed[going] + 1)
            out = missed[going] > 2 * ALLOWED_CELLS
            known[going[out]] = np.maximum(t - missed[going[out]] * step, 0.0)
            going = going[~out]
        return known

    def unknown(self, origin: ArrayLike, direction: ArrayLike, range_m: ArrayLike) -> NDArray[np.bool_]:
        """Mask of the rays that enter unobserved space before they end; infinite ranges end at `reach_m`."""
        limit = np.minimum(np.nan_to_num(np.asarray(range_m, np.float64), nan=self.reach_m), self.reach_m)
        return np.asarray(self.known_m(origin, direction, limit) < limit)

    def unknown_shots(self, scan: Scan) -> NDArray[np.bool_]:
        """Mask of the shots of a scan, lost ones included, whose result the recording does not determine."""
        shots = scan.shots
        ranges = np.full(len(shots), np.inf)
        np.minimum.at(ranges, scan.fields["shot"].astype(np.int64), scan.fields["range"].astype(np.float64))
        xyz, quat = _motion(scan, scan.start_time + shots.time.astype(np.float64))
        start = xyz + quat_rotate(quat, shots.origin.astype(np.float64))
        return self.unknown(start, quat_rotate(quat, shots.direction.astype(np.float64)), ranges)

    def flagged(self, scan: Scan) -> Scan:
        """Scan with a field `unknown` of its points: 1 where the shot crossed unobserved space."""
        shot = scan.fields["shot"].astype(np.int64)
        mask = self.unknown_shots(scan)
        flagged: Scan = scan.with_fields(unknown=mask[shot].astype(np.uint8))
        return flagged


def _motion(scan: Scan, times: Floats) -> tuple[Floats, Floats]:
    motion: Any = scan.motion
    if motion is None:
        return np.zeros((len(times), 3)), np.tile([0.0, 0.0, 0.0, 1.0], (len(times), 1))
    xyz, quat = motion.sample(times)
    return xyz, quat
