"""Lists of the triangles near hulls, which the kernel visits in every substep.

A list holds every triangle within a margin around the hull. It remains valid until the hull may have moved by that
margin, so a vehicle needs a new one about four times per metre. Results do not depend on when lists are made: triangles
that are out of reach change nothing, and the order is always the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parhelion.contact import kernel
from parhelion.contact.boxes import gap_bounds, rotation
from parhelion.contact.solid import Solid
from parhelion.core.pose import Floats

MARGIN_M = 0.3
"""Distance around a hull within which triangles are listed, at least."""
_COARSE_M = 4.0
"""Distance around a hull within which candidates are cached."""
_UNKNOWN_M_S = 2.0
"""Allowance [m/s] for speed that a hull gains within a step, for example by impacts."""


class NearLists:
    """Triangles near each of several hulls.

    Args:
        solid: Triangles.
        half: Half sides (n, 3) [m] of the hulls.
        centre: Their centres (n, 3) [m] relative to the centres of mass.
    """

    def __init__(self, solid: Solid, half: Floats, centre: Floats) -> None:
        self.solid, self._half, self._centre = solid, half, centre
        count = len(half)
        self.lever: Floats = np.linalg.norm(half, axis=1) + np.linalg.norm(centre, axis=1)
        self._at = np.full((count, 3), np.inf)
        self._turn = np.zeros((count, 4))
        self._margin = np.zeros(count)
        self._left = np.zeros(count)
        self._coarse_at = np.full((count, 3), np.inf)
        self._coarse_reach = np.zeros(count)
        self._coarse: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * count
        self.rows: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * count
        """Rows of `Solid.corners` near each hull, in increasing order."""

    def forget(self) -> None:
        """Discard all lists."""
        self._at[:] = self._coarse_at[:] = np.inf
        self._left[:] = 0.0

    def update(self, state: Floats, duration: float, substep: float) -> bool:
        """Renew the lists of hulls with states (13, n) that may leave them within `duration` [s]; True if any was."""
        speed, turn = np.sqrt(np.add.reduce((state[7:13] ** 2).reshape(2, 3, -1), axis=1))
        fast = speed + turn * self.lever + _UNKNOWN_M_S
        # The way that it may have gone since the last exact check is longer than the distance it moved.
        self._left -= fast * duration
        reach = fast * substep + kernel.SLOP_M
        if (self._left > reach).all():
            return False
        place, quat = state[:3].T - self.solid.scene.origin, state[3:7].T
        ahead = fast * duration + reach
        turned = 2.0 * np.sqrt(np.maximum(1.0 - (quat * self._turn).sum(axis=1) ** 2, 0.0)) * 1.6
        moved = np.sqrt(((place - self._at) ** 2).sum(axis=1)) + turned * self.lever
        stale = np.flatnonzero(~(moved + ahead <= self._margin))
        for k in stale.tolist():
            self._list(k, place[k], quat[k], max(MARGIN_M, 2.0 * float(ahead[k])))
            moved[k] = 0.0
        self._left = self._margin - moved - fast * duration
        return len(stale) > 0

    def _list(self, k: int, place: Floats, quat: Floats, margin: float) -> None:
        reach = float(self.lever[k]) + margin
        if not np.linalg.norm(place - self._coarse_at[k]) + reach <= self._coarse_reach[k]:
            self._coarse_at[k], self._coarse_reach[k] = place, reach + _COARSE_M
            self._coarse[k] = self.solid.near(place - self._coarse_reach[k], place + self._coarse_reach[k])
        rows = self._coarse[k]
        low, high = self.solid.low[rows], self.solid.high[rows]
        rows = rows[np.all((low <= place + reach) & (high >= place - reach), axis=1)]
        corners = (self.solid.corners[rows] - place) @ rotation(quat) - self._centre[k]
        self.rows[k] = rows[gap_bounds(corners, self._half[k]) < margin]
        self._at[k], self._turn[k], self._margin[k] = place, quat, margin
