"""The motion of a sensor during one measurement, as evenly spaced poses that kernels interpolate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from parhelion.core.trajectory import Fixed, Trajectory

# The sensor's pose is sampled this often and interpolated in between: at 100 m/s^2 the error is 0.01 mm.
KNOT_SPACING_S = 1e-3


def motion_knots(
    motions: Sequence[Trajectory], starts: Sequence[float], duration: float, origin: NDArray[np.float64]
) -> tuple[NDArray[np.float32], int]:
    """Poses of each scan's sensor relative to `origin`, rows of 8, and the number of rows a scan."""
    moving = any(not isinstance(motion, Fixed) for motion in motions)
    count = max(2, int(np.ceil(duration / KNOT_SPACING_S)) + 1) if moving else 2
    fractions = np.linspace(0.0, 1.0, count) * duration if moving else None
    rows = np.zeros((len(motions), count, 8), np.float32)
    for row, motion, start in zip(rows, motions, starts, strict=True):
        if isinstance(motion, Fixed):
            row[:, :3], row[:, 4:] = motion.pose.xyz - origin, motion.pose.quat_xyzw
            continue
        xyz, quat = motion.sample(start + fractions)  # type: ignore[operator]
        sign = np.cumprod(np.where(np.sum(quat[1:] * quat[:-1], axis=1) < 0, -1.0, 1.0))
        row[:, :3] = xyz - origin
        row[:, 4:] = np.concatenate([quat[:1], sign[:, None] * quat[1:]])
    return rows, count
