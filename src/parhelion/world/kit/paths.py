"""Timed paths through the built-in worlds."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.pose import Pose
from parhelion.core.trajectory import Waypoints


def timed_path(points: ArrayLike, speed: ArrayLike, height: ArrayLike) -> Waypoints:
    """A drive over `points` (n, 2) [m] at `speed` (n,) or one number [m/s], starting at time 0.

    The frame is level, `height` [m] over z = 0, one number or one a point, and its x axis follows the path.
    """
    xy = np.asarray(points, dtype=np.float64)
    steps = np.diff(xy, axis=0)
    at_speed = np.broadcast_to(np.asarray(speed, dtype=np.float64), (len(xy),))
    durations = np.hypot(steps[:, 0], steps[:, 1]) * 2.0 / (at_speed[1:] + at_speed[:-1])
    times = np.concatenate([[0.0], np.cumsum(durations)])
    ahead = np.vstack([steps[:1], steps[:-1] + steps[1:], steps[-1:]])
    yaw = np.degrees(np.unwrap(np.arctan2(ahead[:, 1], ahead[:, 0])))
    z = np.broadcast_to(np.asarray(height, dtype=np.float64), (len(xy),))
    poses = [Pose((x, y, up), rpy_deg=(0.0, 0.0, turn)) for (x, y), up, turn in zip(xy, z, yaw, strict=True)]
    return Waypoints(times.tolist(), poses)
