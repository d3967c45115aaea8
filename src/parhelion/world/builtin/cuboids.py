"""A level field with cuboid obstacles (after VANE, ERDC/GSL TR-20-32, figures 5-1 and 5-2)."""

from __future__ import annotations

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.random import Stream
from parhelion.world.shapes import box, plane
from parhelion.world.world import World

_MATERIALS = ("concrete", "steel", "wood", "brick", "plastic", "aluminium")
NEAREST, FARTHEST = 8.0, 45.0
"""Distances of the obstacles' middles [m]."""
HALF_VIEW_DEG = 40.0
"""Obstacles lie within this angle of the x axis, as an automotive radar's field of view does."""


def build(seed: int = 0, *, obstacles: int = 9) -> World:
    """Cuboids of 0.8 to 4 m ahead of the sensor on a field of soil, each in a sector of its own.

    The report shows cuboids on level ground before a forward-looking sensor and prints no measures: number, sizes
    and places are ours, drawn from `seed`. Sectors do not overlap, so that every cuboid is seen from the origin.
    """
    if isinstance(obstacles, bool) or not isinstance(obstacles, (int, np.integer)) or not 1 <= obstacles <= 24:
        raise ConfigError(f"world cuboids: obstacles must be a whole number from 1 to 24, got {obstacles!r}")
    rng = Stream(seed, "world/cuboids").generator()
    world = World(name="cuboids")
    sector = np.radians(2 * HALF_VIEW_DEG) / obstacles
    azimuth = (np.arange(obstacles) - (obstacles - 1) / 2) * sector
    distance = rng.permutation(np.linspace(NEAREST, FARTHEST, obstacles))
    # The diagonal of the footprint must fit into nine tenths of the sector at the obstacle's distance.
    room = 1.8 * distance * np.tan(sector / 2)
    size = np.minimum(rng.uniform(0.8, 4.0, (obstacles, 2)), (room / np.sqrt(2.0))[:, None])
    height = rng.uniform(0.8, 4.0, obstacles)
    yaw = rng.uniform(0.0, 90.0, obstacles)
    material = rng.integers(0, len(_MATERIALS), obstacles)
    for k in range(obstacles):
        at = (distance[k] * np.cos(azimuth[k]), distance[k] * np.sin(azimuth[k]), height[k] / 2)
        world.add(
            box(float(size[k, 0]), float(size[k, 1]), float(height[k])),
            material=_MATERIALS[material[k]],
            label="cuboid",
            pose=Pose(at, rpy_deg=(0.0, 0.0, yaw[k])),
            name=f"cuboid-{k}",
            instance=k + 1,
        )
    world.add(plane(160.0, 160.0, 16), material="soil", label="ground", name="ground", instance=0)
    world.viewpoint = Pose((0.0, 0.0, 2.0))
    return world
