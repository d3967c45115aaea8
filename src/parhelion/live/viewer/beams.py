"""A few of a scan's beams as lines, so that one sees where the sensor looks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import quat_rotate
from parhelion.core.records import Scan

BEAM_COUNT = 144
LOST_LENGTH_M = 12.0
"""How far a beam without a return is drawn."""
_GOLDEN = 0.618033988749895


@dataclass(frozen=True, eq=False)
class Beams:
    """Lines from the sensor to what it met."""

    ends: NDArray[np.float64]
    """Beginning and end in the world [m], shape (n, 2, 3)."""
    point: NDArray[np.int64]
    """Row of the point at the end, -1 where the shot was lost, shape (n,)."""


def beams_of(scan: Scan, count: int = BEAM_COUNT) -> Beams:
    """At most `count` beams of a scan, spread over its shots without a pattern of their own."""
    total = len(scan.shots)
    # Golden steps: no common measure with the number of rings, so that all rings and directions take part.
    rows = np.unique((np.mod(np.arange(min(count, total)) * _GOLDEN, 1.0) * total).astype(np.int64))
    first_point = np.full(total, -1, dtype=np.int64)
    first_point[scan.fields["shot"][::-1]] = np.arange(len(scan))[::-1]
    point = first_point[rows]
    begin = scan.shots.origin[rows].astype(np.float64)
    end = begin + LOST_LENGTH_M * scan.shots.direction[rows]
    met = point >= 0
    end[met] = scan.xyz[point[met]]
    position, turn = scan.motion.sample(scan.start_time + scan.shots.time[rows].astype(np.float64))
    ends = np.stack([quat_rotate(turn, local) + position for local in (begin, end)], axis=1)
    return Beams(ends, point)
