"""Questions to the solid parts of a world: is there ground, and how high is it."""

from __future__ import annotations

import numpy as np

from parhelion.contact.solid import Solid
from parhelion.core.pose import Floats
from parhelion.rays.records import Rays

_FAR_M = 1e5


def has_ground(solid: Solid, xyz: Floats) -> bool:
    """Return True if there is a solid surface below a place, or above it as for a start inside a hill."""
    ways = np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]])
    start = np.stack([xyz + np.array([0.0, 0.0, 0.1]), xyz])
    return bool(solid.scene.cast(Rays(start, ways, np.zeros(2), np.full(2, _FAR_M))).found.any())


def ground_height(solid: Solid, xyz: Floats) -> Floats:
    """Heights [m] of the first solid surface below places (n, 3); NaN where there is none."""
    count = len(xyz)
    down = np.tile([0.0, 0.0, -1.0], (count, 1))
    hits = solid.scene.cast(Rays(np.asarray(xyz, np.float64), down, np.zeros(count), np.full(count, _FAR_M)))
    return np.where(hits.found, xyz[:, 2] - hits.range, np.nan)
