"""Friction, rolling resistance and soil under the wheels on the materials of a world, dry and wet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from parhelion.contact.soil import SOILS, Soil
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
    "sand": (0.55, 0.5, 0.015),
    "grass": (0.5, 0.35, 0.05),
    "snow": (0.2, 0.15, 0.015),
    "ice": (0.1, 0.05, 0.012),
    "wood": (0.6, 0.4, 0.012),
    "plywood": (0.6, 0.4, 0.012),
    "steel": (0.5, 0.3, 0.01),
    "road-paint": (0.7, 0.35, 0.012),
}
OTHER = (0.6, 0.4, 0.012)
"""Values of materials that are not listed."""


SOFT: dict[str, tuple[str | None, str | None]] = {
    "sand": ("dry sand", "sandy loam"),
    "soil": (None, "sandy loam"),
    "mud": ("clayey soil", "clayey soil"),
    "snow": ("snow", "snow"),
}
"""Soil of a material, dry and wet; None if it is firm. Dry soil of tracks and fields carries cars; Wong's sandy loam is
moist and loose. Wet sand is firmer than dry sand; that it equals sandy loam is assumed. Compaction adds to the rolling
resistance of the tyre itself."""


def _base(material: str, table: Mapping[str, Any]) -> str:
    """Longest name in a table that a material's name begins with, up to a hyphen; `asphalt-dark` counts as asphalt."""
    name = material
    while name not in table and "-" in name:
        name = name.rsplit("-", 1)[0]
    return name


def ground_properties(material: str, *, wet: bool = False) -> tuple[float, float]:
    """Friction and rolling resistance of a car tyre on a material; `asphalt-dark` counts as asphalt."""
    dry_friction, wet_friction, rolling = GROUND.get(_base(material, GROUND), OTHER)
    return (wet_friction if wet else dry_friction), rolling


def soil_of(material: str, *, wet: bool = False) -> Soil | None:
    """Soft soil of a material, or None for hard ground.

    >>> soil_of("sand").friction_deg, soil_of("asphalt")
    (28.0, None)
    """
    dry_name, wet_name = SOFT.get(_base(material, SOFT), (None, None))
    name = wet_name if wet else dry_name
    return None if name is None else SOILS[name]


def is_wet(world: World, time: float) -> bool:
    """True if the ground is wet at a time [s]: as the weather's `wetness` states, by default if it rains."""
    return world.weather is not None and world.weather.is_wet_at(time)


def surfaces_of(world: World, *, wet: bool) -> Floats:
    """Surface properties per part of a world (parts, 9), dry or wet, in the order of the kernel's table.

    A world without parts has one row, because kernels cannot read an empty table.
    """
    if not len(world.parts.material):
        return np.zeros((1, 9))
    rows = []
    for one in world.materials:
        soft = soil_of(one.name, wet=wet)
        rows.append((*ground_properties(one.name, wet=wet), *((0.0,) * 7 if soft is None else soft.columns())))
    return np.array(rows)[world.parts.material]
