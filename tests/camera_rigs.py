"""Small cameras and flat scenes whose pictures are known in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import parhelion as ph
from parhelion.core.config import parse
from parhelion.core.image import Intrinsics
from parhelion.sensors.optics.camera.config import CameraConfig
from parhelion.sensors.optics.camera.lattice import ParticleClass
from parhelion.sensors.optics.camera.streaks import NEAREST_M, reaches, view_steradian

Array = NDArray[Any]
DOWN = ph.Pose(rpy_deg=(0, 90, 0))
"""Straight down: columns run along -y and rows along -x of the world."""
DARK, BRIGHT = "lambert-10", "lambert-90"


def expected_count(kinds: list[ParticleClass], lens: Intrinsics, most: float) -> float:
    """Mean number of streaks whose centre lies in the view: density times volume."""
    volume = [view_steradian(lens) * (z**3 - NEAREST_M**3) / 3.0 for z in reaches(kinds, lens, most)]
    return float(sum(kind.number_per_m3 * v for kind, v in zip(kinds, volume, strict=True)))


def camera_sheet(width: int = 160, height: int = 120, fx: float = 200.0, **sections: Any) -> CameraConfig:
    """Plain camera without noise or blur: one band, linear 16-bit values; sections override fields."""
    data: dict[str, Any] = {
        "name": "rig",
        "rate_hz": 10.0,
        "image": {"width": width, "height": height},
        "lens": {"fx": fx},
        "sensor": {
            "pixel_um": 5.0, "bands": ["mono"], "full_well_e": 20_000.0, "adc_bits": 16, "output_bits": 16,
            "gamma": "linear",
        },
        "exposure": {"mode": "manual", "time_s": 1e-4},
        "sources": ["made for tests"],
    }  # fmt: skip
    for name, values in sections.items():
        data[name] = {**data[name], **values} if isinstance(data.get(name), dict) else values
    return parse(CameraConfig, data, "rig")


def above(height: float, x: float = 0.0, y: float = 0.0) -> ph.Pose:
    """Camera that looks straight down from this height above the ground [m]."""
    return ph.Pose((x, y, height)) @ DOWN


def flat(material: str = DARK, size: float = 60.0) -> ph.World:
    """Level ground in the sun: no surface sees another, so a single ray determines the radiance."""
    world = ph.World()
    world.add(ph.shapes.plane(size, size), material=material, label="ground")
    return world


def light(camera_config: CameraConfig, world: ph.World, *, samples: int = 64, **shoot: Any) -> Array:
    """Radiance from the sun only, shape (h, w)."""
    camera = ph.Camera(camera_config, samples=samples, bounces=0, developed=False, noise=False, truth=())
    return np.asarray(camera.shoot(world, **shoot).colour[..., 0], np.float64)


def moments(profile: Array) -> tuple[Array, Array]:
    """Position [pixel] and variance [pixel^2] of the edge along the last axis, relative to the light at both ends.

    The derivative of an edge is the line spread function, whose first two moments need no model of the blur. The width
    of a pixel contributes 1/12, and so does the finite difference; both are subtracted. This is valid for blurs wider
    than a pixel.
    """
    spread = np.diff(profile, axis=-1)
    spread = spread / spread.sum(axis=-1, keepdims=True)
    place = np.arange(spread.shape[-1]) + 0.5
    mean = spread @ place
    return mean, (spread * (place - mean[..., None]) ** 2).sum(axis=-1) - 1.0 / 6.0
