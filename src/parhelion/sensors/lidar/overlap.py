"""Overlap: the share of a beam's return that the receiver collects, by range.

A receiver is focused far away, so what is near makes a blurred spot on it. The spot's width grows like 1/R and its area
like 1/R^2; while the spot is larger than the detector, the share that falls on the detector is

    xi(R) = min(1, (R / R_full)^2)

with one number, the range R_full from which on everything is collected. A measured curve is given as points instead:
straight lines between them, level behind the last, and the square law below the first. One curve holds for surfaces,
drops, flakes, fog and dust alike, since all send their light back through the same lens.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.rays.device import Engine
from parhelion.sensors.lidar.config import Overlap
from parhelion.sensors.light.curve import Curve, curve_grid

LEAST_OVERLAP = 1e-6
"""What overlaps are divided by at least: nothing is seen where the curve is 0."""


def overlap_share(overlap: Overlap, range_m: ArrayLike) -> NDArray[np.float64]:
    """xi at ranges [m], from 0 to 1, for an overlap as a data sheet gives it (a range [m], or points)."""
    r = np.asarray(range_m, dtype=np.float64)
    if overlap is None or overlap == 0:
        return np.ones_like(r)
    if isinstance(overlap, (int, float)):
        return np.minimum((r / overlap) ** 2, 1.0)
    ranges, shares = np.asarray(overlap, dtype=np.float64).T
    return np.where(r < ranges[0], shares[0] * (r / ranges[0]) ** 2, np.interp(r, ranges, shares))


def full_overlap_m(overlap: Overlap) -> float:
    """The range [m] from which on the overlap no longer changes."""
    if overlap is None:
        return 0.0
    return float(overlap) if isinstance(overlap, (int, float)) else float(overlap[-1][0])


def overlap_curve(engine: Engine, overlap: Overlap) -> Curve | None:
    """The same for kernels; None where the receiver collects everything at every range."""
    last = full_overlap_m(overlap)
    if last == 0.0:
        return None
    grid = curve_grid(last)
    return Curve.on_grid(engine, grid, overlap_share(overlap, grid))
