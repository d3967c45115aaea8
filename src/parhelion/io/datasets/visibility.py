"""How much of a thing is hidden from a lidar by others, told from its shots."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.core.records import Scan

SLACK_M = 0.1
"""A return this little [m] before a box is still on it: range noise."""


def first_ranges(scan: Scan) -> Floats:
    """Range [m] of every shot's nearest return from a surface; infinite where it met none."""
    ranges = np.full(len(scan.shots), np.inf)
    distance, shot = scan.fields["range"], scan.fields["shot"]
    if "origin" in scan.fields:  # drops hide nothing
        solid = scan.fields["origin"] == 0
        distance, shot = distance[solid], shot[solid]
    np.minimum.at(ranges, shot, distance.astype(np.float64))
    return ranges


class HiddenShare:
    """Shares of boxes that other things hide, for the shots of one scan."""

    def __init__(self, scan: Scan) -> None:
        self._origin = scan.shots.origin.astype(np.float64)
        self._direction = scan.shots.direction.astype(np.float64)
        self._first = first_ranges(scan)

    def of(self, centre: Floats, half: Floats, axes: Floats) -> float:
        """Share of the shots through a box that end before it; NaN where none goes through it.

        `centre` (3,) and half lengths `half` (3,) in metres, `axes` (3, 3) with the box's axes as columns, all in the
        sensor's frame at the time of the shots. Shots end before the box as often where they would have met the thing
        in it as where not, so this is the hidden share of the thing, too.
        """
        start, along, first = self._near(centre, float(np.linalg.norm(half)))
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = 1.0 / (along @ axes)
            a, b = ((side * half - (start - centre) @ axes) * inverse for side in (-1.0, 1.0))
        enter, leave = np.minimum(a, b).max(axis=1), np.maximum(a, b).min(axis=1)
        through: NDArray[np.bool_] = (enter <= leave) & (leave > 0.0)
        count = int(np.count_nonzero(through))
        return float(np.count_nonzero(through & (first < enter - SLACK_M)) / count) if count else float("nan")

    def _near(self, centre: Floats, radius: float) -> tuple[Floats, Floats, Floats]:
        """Origins, directions and first ranges of the shots that may meet a ball."""
        away = centre - self._origin
        ahead = np.einsum("ij,ij->i", away, self._direction)
        off = np.einsum("ij,ij->i", away, away) - ahead * ahead
        rows = np.flatnonzero((off <= radius * radius) & (ahead > -radius))
        return self._origin[rows], self._direction[rows], self._first[rows]
