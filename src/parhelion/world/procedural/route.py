"""Lines to drive on: polygons with rounded corners."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.pose import Floats

_PIECES = 6
"""Straight pieces of one rounded corner."""


def rounded(corners: ArrayLike, radius_m: float) -> Floats:
    """A line (n, 2) through `corners` (k, 2) whose corners are arcs of `radius_m`, smaller where legs are short."""
    points = np.asarray(corners, dtype=np.float64)
    legs = np.diff(points, axis=0)
    lengths = np.hypot(legs[:, 0], legs[:, 1])
    ahead = legs / lengths[:, None]
    line = [points[:1]]
    for k in range(1, len(points) - 1):
        before, after = ahead[k - 1], ahead[k]
        turn = float(np.arctan2(before[0] * after[1] - before[1] * after[0], before @ after))
        if abs(turn) < 1e-6:
            line.append(points[k : k + 1])
            continue
        cut = min(radius_m * np.tan(abs(turn) / 2), 0.5 * lengths[k - 1], 0.5 * lengths[k])
        radius = cut / np.tan(abs(turn) / 2)
        side = np.sign(turn) * np.array([-before[1], before[0]])
        centre = points[k] - cut * before + radius * side
        angle = np.linspace(0.0, abs(turn), _PIECES + 1)[:, None]
        # From the centre, the arc starts opposite to `side` and turns the way the line goes.
        line.append(centre + radius * (np.sin(angle) * before - np.cos(angle) * side))
    line.append(points[-1:])
    return np.concatenate(line)
