"""Friction and rolling resistance of tyres on the materials of a world, dry and wet."""

from __future__ import annotations

import numpy as np

from parhelion.core.pose import Floats
from parhelion.world.world import World

# Peak friction of a car tyre, dry and wet, and its rolling resistance. Ranges: Wong, Theory of Ground Vehicles, tables
# of friction and of rolling resistance (paved 0.8-0.9 dry and 0.5-0.7 wet, gravel 0.6, snow 0.2, ice 0.1; rolling
# 0.01-0.015 on asphalt, 0.05-0.1 on soft ground, up to 0.3 on sand). The values within the ranges are assumed.
GROUND: dict[str, tuple[float, float, float]] = {
    "asphalt": (0.85, 0.6, 0.012),
    "asphaltic-concrete": (0.85, 0.6, 0.012),
    "concrete": (0.8, 0.55, 0.012),
    "granite": (0.7, 0.5, 0.012),
    "brick": (0.7, 0.5, 0.015),
    "epoxy": (0.7, 0.4, 0.012),
    "gravel": (0.6, 0.55, 0.03),
    "soil": (0.65, 0.4, 0.05),
    "sand": (0.55, 0.5, 0.15),
    "grass": (0.5, 0.35, 0.05),
    "snow": (0.2, 0.15, 0.04),
    "ice": (0.1, 0.05, 0.012),
    "wood": (0.6, 0.4, 0.012),
    "plywood": (0.6, 0.4, 0.012),
    "steel": (0.5, 0.3, 0.01),
    "road-paint": (0.7, 0.35, 0.012),
}
OTHER = (0.6, 0.4, 0.012)
"""Values of materials that are not listed."""


def ground_properties(material: str, *, wet: bool = False) -> tuple[float, float]:
    """Friction and rolling resistance of a car tyre on a material; `asphalt-dark` counts as asphalt."""
    name = material
    while name not in GROUND and "-" in name:
        name = name.rsplit("-", 1)[0]
    dry_friction, wet_friction, rolling = GROUND.get(name, OTHER)
    return (wet_friction if wet else dry_friction), rolling


def surfaces_of(world: World) -> Floats:
    """Friction and rolling resistance per part of a world, shape (parts, 2); wet in rain."""
    weather = world.weather
    wet = weather is not None and weather.at(0.0).rain_rate_mm_h > 0.0
    by_material = np.array([ground_properties(one.name, wet=wet) for one in world.materials])
    return by_material[world.parts.material]
