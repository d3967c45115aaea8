"""Simpler lidar models to compare with: pure geometry, and geometry with random drops (Huang 2023, Table IV).

`geometric` returns every shot that meets a surface, as Carla's ray casts do. `random_drop` removes a share of them
regardless of surface and range, as LGSVL's noise setting does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose, quat_rotate

if TYPE_CHECKING:
    from parhelion.sensors.optics.lidar.lidar import Lidar
    from parhelion.world.world import World


def geometric(world: World, lidar: Lidar, pose: Pose, time: float = 0.0) -> PointCloud:
    """Cloud of a stationary lidar [sensor frame] without noise, reflectance, threshold or weather.

    Every shot returns its nearest surface within the largest range of the data sheet.
    """
    shots = lidar.shots(time)
    origin = quat_rotate(pose.quat_xyzw, shots.origin.astype(np.float64)) + pose.xyz
    direction = quat_rotate(pose.quat_xyzw, shots.direction.astype(np.float64))
    hits = world.cast(origin, direction, time, lidar.config.range.max_m)
    metres = np.asarray(hits.range, np.float64)
    found = np.isfinite(metres) & (metres >= lidar.config.range.min_m) & (metres <= lidar.config.range.max_m)
    own = shots.origin[found] + shots.direction[found] * metres[found, None]
    ranges = metres[found].astype(np.float32)
    return PointCloud(own, {"range": ranges, "ring": shots.ring[found], "column": shots.column[found]})


def random_drop(cloud: PointCloud, share: float, seed: int = 0) -> PointCloud:
    """Cloud without a random share of its points, 0 to 1."""
    if not 0.0 <= share < 1.0:
        raise ConfigError(f"random drop: the share must lie from 0 to below 1, got {share:g}")
    return cloud.select(np.random.default_rng(seed).random(len(cloud)) >= share)
