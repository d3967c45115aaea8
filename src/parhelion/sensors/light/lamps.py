"""The lamps of a world as arrays that kernels gather from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Pose
from parhelion.core.trajectory import Trajectory
from parhelion.sensors.light.sky import SkyLight
from parhelion.surfaces.bands import Band
from parhelion.surfaces.photometry import radiant_per_lumen
from parhelion.world.world import World

Floats = NDArray[np.float64]

SWITCH_ON_LUX = 35.0
"""Daylight on level ground below which lamps for the night are lit: a usual setting of street lamps' photocells."""
ALL_AROUND = (-2.0, -3.0)
"""Cosines of the inner and outer cone of a lamp without one: every direction lies inside."""


@dataclass(frozen=True, eq=False)
class LampTable:
    """Lamps that are lit. At an angle with cosine c to the axis the intensity has the factor s^2 (3 - 2 s).

    s is (c - cos_outer) / (cos_inner - cos_outer), kept within 0 and 1. The irradiance at a distance d is intensity
    over d^2.
    """

    position: Floats
    """Places [m] in the world, or in the frame of the actor that carries the lamp, shape (n, 3)."""
    direction: Floats
    """Axes as unit vectors in the same frame, shape (n, 3)."""
    cos_inner: Floats
    cos_outer: Floats
    """Cosines of the half-angles of the cones, shape (n,)."""
    intensity: Floats
    """Radiant intensity inside the inner cone in each band [W/sr], shape (n, bands)."""
    actor: NDArray[np.int32]
    """Row in the list of actors of the geometry that the sensor sees, or -1 for what stands, shape (n,)."""
    carriers: tuple[Trajectory | None, ...]
    """Motion of the actor that carries each lamp."""

    def __len__(self) -> int:
        return len(self.position)

    def at(self, time: float) -> tuple[Floats, Floats]:
        """Places (n, 3) [m] and axes (n, 3) in the world at a time [s]."""
        position, direction = self.position.copy(), self.direction.copy()
        for row, motion in enumerate(self.carriers):
            if motion is not None:
                xyz, quat = motion.sample(np.array([time]))
                pose = Pose(xyz[0], quat[0])
                position[row] = pose.apply(position[row : row + 1])[0]
                direction[row] = pose.rotation @ direction[row]
        return position, direction


def lamps_lit(sky: SkyLight) -> bool:
    """Whether lamps for the night are on in this daylight."""
    return sky.illuminance_lux < SWITCH_ON_LUX


def lamp_table(
    world: World, bands: Sequence[Band], *, night: bool = True, sensor: Sequence[str] = ("camera",)
) -> LampTable:
    """The lamps of a world that are lit by night, or by day; `sensor` as in `World.geometry`.

    Lumens become watts in a band by the spectrum of a black body of the lamp's colour temperature. Real LEDs have
    little beyond 750 nm: their near infrared comes out too strong.
    """
    actors = [item for item in world.objects if item.trajectory is not None and not item.hides_from(sensor)]
    rows = {item.index: row for row, item in enumerate(actors)}
    lamps = []
    for entry in world.lamps:
        carried = entry.lamp.actor is not None
        lit = entry.lamp.lit == "always" or (entry.lamp.lit == "night" and night)
        if lit and (not carried or entry.carrier in rows):
            lamps.append((entry.lamp, rows[entry.carrier] if carried else -1))
    cones = [
        ALL_AROUND
        if lamp.inner_deg is None or lamp.outer_deg is None
        else (np.cos(np.radians(lamp.inner_deg)), np.cos(np.radians(lamp.outer_deg)))
        for lamp, _ in lamps
    ]
    temperatures = {lamp.colour_temperature_k for lamp, _ in lamps}
    watts = {kelvin: np.array([radiant_per_lumen(kelvin, band) for band in bands]) for kelvin in temperatures}
    intensity = [lamp.candela * watts[lamp.colour_temperature_k] for lamp, _ in lamps]
    cosines = np.array(cones, dtype=np.float64).reshape(-1, 2)
    return LampTable(
        np.array([lamp.xyz for lamp, _ in lamps], dtype=np.float64).reshape(-1, 3),
        np.array([lamp.axis for lamp, _ in lamps], dtype=np.float64).reshape(-1, 3),
        cosines[:, 0].copy(),
        cosines[:, 1].copy(),
        np.array(intensity, dtype=np.float64).reshape(-1, len(bands)),
        np.array([row for _, row in lamps], dtype=np.int32),
        tuple(None if row < 0 else actors[row].trajectory for _, row in lamps),
    )
