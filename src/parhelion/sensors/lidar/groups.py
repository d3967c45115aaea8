"""Neighbouring beams that share what is worked out along them."""

from __future__ import annotations

import numpy as np

from parhelion.sensors.lidar.patterns import ShotTable

_GROUP_DEG = 1.6
"""Beams of a group span at most about this angle."""
_LARGEST_GROUP = 16


def group_size(table: ShotTable) -> int:
    """How many neighbouring beams share an integral: a divisor of the number of shots of every ring."""
    order = np.lexsort((table.time, table.ring))
    axis = table.direction[order].astype(np.float64)
    if len(axis) < 2:
        return 1
    step = np.degrees(2.0 * np.arcsin(np.clip(np.linalg.norm(np.diff(axis, axis=0), axis=1) / 2.0, 0.0, 1.0)))
    most = int(np.clip(_GROUP_DEG / max(float(np.median(step)), 1e-6), 1, _LARGEST_GROUP))
    shared = int(np.gcd.reduce(np.unique(table.ring, return_counts=True)[1]))
    return max(size for size in range(1, most + 1) if shared % size == 0)
