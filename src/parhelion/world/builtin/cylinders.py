"""Sixteen nested cylinders that take a 16-channel lidar apart ring by ring (after Arce 2025, figure 3.7 b)."""

from __future__ import annotations

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.world.shapes import plane, ring
from parhelion.world.world import World

ELEVATIONS_DEG = tuple(range(-15, 16, 2))
"""Beam elevations of a Velodyne VLP-16, lowest first."""
SENSOR_HEIGHT = 2.0
FIRST_RADIUS = 3.0
RADIUS_STEP = 1.0
WALL = 0.02


def build(seed: int = 0, *, material: str = "lambert-50", segments: int = 720) -> World:
    """Hollow cylinders about the sensor's axis, each 1 m wider than the last and just high enough for one more ring.

    Seen from (0, 0, 2), cylinder k has an inner radius of 3 + k [m] and ends 1 degree above the k-th elevation of a
    VLP-16 (-15 to +15 degrees in steps of 2), so ring k passes over all smaller cylinders and meets this one at the
    range (3 + k) / cos(elevation). The source says that there are sixteen cylinders, for this sensor, to isolate its
    rings; it prints no measures, so these are ours. Flats lie inside the circle by at most radius (1 - cos(pi /
    segments)): 0.2 mm for the largest. Nothing is random: `seed` changes nothing.
    """
    if isinstance(segments, bool) or not isinstance(segments, (int, np.integer)) or not 16 <= segments <= 10000:
        raise ConfigError(f"world cylinders: segments must be a whole number from 16 to 10000, got {segments!r}")
    world = World(name="cylinders")
    for number, elevation in enumerate(ELEVATIONS_DEG):
        radius = FIRST_RADIUS + number * RADIUS_STEP
        height = SENSOR_HEIGHT + radius * float(np.tan(np.radians(elevation + 1.0)))
        world.add(
            ring(radius, radius + WALL, height, int(segments)),
            material=material,
            label="cylinder",
            pose=Pose((0.0, 0.0, height / 2)),
            name=f"cylinder-{number}",
            instance=number + 1,
        )
    world.add(plane(50.0, 50.0, 10), material="concrete", label="ground", name="ground", instance=0)
    world.viewpoint = Pose((0.0, 0.0, SENSOR_HEIGHT))
    return world
