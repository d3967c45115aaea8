"""The cross-section of one thing as the power mode has it: the table to hold against that of physical optics."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.config import parse
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.radar import CrossSections
from parhelion.sensors.radar.config import RadarConfig
from parhelion.sensors.radar.radar import Radar
from parhelion.sensors.radar.rcs import checked_angles, unit_toward
from parhelion.sensors.radar.target import one_thing
from parhelion.world.world import World


def power_rcs(
    target: Any,
    *,
    frequency_ghz: float,
    azimuth_deg: ArrayLike = 0.0,
    elevation_deg: ArrayLike = 0.0,
    distance_m: float | None = None,
    material: str | None = None,
    rays: int = 100_000,
    bounces: int = 3,
    time: float = 0.0,
) -> CrossSections:
    """Cross-sections of a thing from rays added by power, as scans add them; arguments as for `rcs`.

    `distance_m` is from the radar to the middle of the thing. By default it is well in the far field, 8 D^2 / lambda,
    but no less than ten times the thing's size D and no more than 1000 m: nearer, large plates send less back.
    """
    azimuth, elevation = checked_angles("azimuth_deg and elevation_deg", azimuth_deg, elevation_deg)
    triangles, names = one_thing(target, material, time)
    if not len(triangles):
        raise ConfigError("rcs: the thing has no triangles")
    used = triangles.vertices[np.unique(triangles.faces)]
    middle = 0.5 * (used.min(axis=0) + used.max(axis=0))
    radius = float(np.linalg.norm(used - middle, axis=1).max())
    wavelength = SPEED_OF_LIGHT_M_S / (frequency_ghz * 1e9)
    far = float(np.clip(32.0 * radius**2 / wavelength, 20.0 * radius, 1000.0))
    distance = far if distance_m is None else float(distance_m)
    if not 2.0 * radius < distance < 1e5:
        raise ConfigError(
            f"rcs: distance_m must be more than the thing's size of {2.0 * radius:g} m, up to 1e5, got {distance:g}"
        )
    world = World()
    for row, name in enumerate(names):
        faces = triangles.faces[triangles.part == row]
        if len(faces):
            world.add((triangles.vertices - middle, faces), material=name, label="target")
    radar = Radar(_looking_at(radius, distance, frequency_ghz, rays, bounces))
    sigma = []
    for a, e in zip(azimuth, elevation, strict=True):
        pose = Pose.look_at(distance * unit_toward(a, e), np.zeros(3))
        sigma.append(_far(radar.paths(world, pose=pose), distance))
    return CrossSections(azimuth, elevation, azimuth, elevation, np.array(sigma), None, frequency_ghz)


def _far(paths: Any, distance: float) -> float:
    """Sum of cross-sections, each as it would be with all ranges alike."""
    half = 0.5 * paths.length.astype(np.float64)
    sigma: NDArray[np.float64] = paths.cross_section.astype(np.float64) * (distance / half) ** 4
    return float(sigma.sum())


def _looking_at(radius: float, distance: float, frequency_ghz: float, rays: int, bounces: int) -> RadarConfig:
    """A radar that sees nothing but a ball, with antennas that weigh all directions alike and no weakest signal."""
    half = float(np.degrees(np.arcsin(min(0.99, 1.02 * radius / distance))))
    antenna = {"gain_dbi": 40, "azimuth_width_deg": 180, "elevation_width_deg": 180, "sidelobe_db": 0}
    bins = 256
    sheet = {
        "name": "rcs", "rate_hz": 10, "frequency_ghz": frequency_ghz, "power_dbm": 120, "transmit": antenna,
        "receive": antenna, "noise_figure_db": 0, "array": {"azimuth_channels": 1},
        "waveform": {
            "bandwidth_mhz": SPEED_OF_LIGHT_M_S * (bins - 1) / (2e6 * 1.5 * (distance + 4.0 * radius)), "ramp_us": 40,
            "interval_us": 60, "ramps": 1, "range_bins": bins,
        },
        "field": {"azimuth_deg": (-half, half), "elevation_deg": (-half, half), "rays": rays, "bounces": bounces},
        "sources": ["of no real radar: it looks at one thing"],
    }  # fmt: skip
    return parse(RadarConfig, sheet, "rcs")
