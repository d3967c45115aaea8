"""Materials as sound meets them.

In air all solids mirror nearly everything; what is porous takes a part. In water a surface is a fluid of another
density and speed, after Rayleigh. Roughness counts by the wave's length, as everywhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parhelion.sensors.waves.surfaces import ANGLES, Finish, cosines
from parhelion.surfaces.radio import radio_name

ABSORBED_IN_AIR = {"foliage": 0.7, "cloth": 0.6, "dry-snow": 0.8, "wet-snow": 0.6, "medium-dry-ground": 0.4,
                   "wet-ground": 0.3, "very-dry-ground": 0.3, "ceiling-board": 0.5, "skin": 0.1}  # fmt: skip
"""Share of the power that is not mirrored; assumed, of the order that Kuttruff 2009, Room Acoustics, has at 4 kHz.
All others take 3 %."""
IN_WATER = {
    "metal": (7.85, 3.9), "glass": (2.5, 3.7), "concrete": (2.4, 2.1), "marble": (2.6, 2.5), "brick": (1.8, 2.0),
    "asphalt": (2.3, 1.9), "wood": (0.7, 2.0), "plywood": (0.7, 1.7), "plastic": (1.1, 1.5), "rubber": (1.1, 1.05),
    "very-dry-ground": (1.845, 1.178), "medium-dry-ground": (1.149, 0.987), "wet-ground": (1.149, 0.987),
    "skin": (1.05, 1.03), "foliage": (1.02, 1.01), "cloth": (1.1, 1.02),
}  # fmt: skip
"""Density and speed relative to water: sand and mud after APL-UW TR 9407 (1994), table 2 (medium sand, clay); solids by
their densities and longitudinal speeds, round figures. Others count as concrete."""
SCATTERED_DB = -16.0
"""Lambert's law with Mackenzie's -27 dB (1961, JASA 33, 1498) for each steradian, times 4 pi."""


def reflection(material: str, medium: str) -> NDArray[np.float64]:
    """Share of the power that a smooth surface mirrors, over `cosines()`."""
    name, cos = radio_name(material), cosines()
    if medium == "air":
        return np.full(ANGLES, 1.0 - ABSORBED_IN_AIR.get(name, 0.03))
    if name == "water":  # the surface from below, with air behind it
        return np.ones(ANGLES)
    density, speed = IN_WATER.get(name, IN_WATER["concrete"])
    # Rayleigh: (rho c / cos behind - 1 / cos) / (sum); beyond the critical angle the root is imaginary.
    root = np.sqrt((1.0 - speed**2 * (1.0 - cos**2)).astype(complex))
    ratio = density * speed * cos
    return np.asarray(np.abs((ratio - root) / (ratio + root + 1e-12)) ** 2)


ROUGH = {"foliage", "medium-dry-ground", "wet-ground", "very-dry-ground", "dry-snow", "wet-snow", "cloth"}
SMOOTH, COARSE = Finish(0.0, 1e-4, -30.0), Finish(0.3, 5e-3, SCATTERED_DB)


def finish_of(material: str) -> Finish:
    """How rough a material is."""
    return COARSE if radio_name(material) in ROUGH else SMOOTH


def scatters(material: str) -> bool:
    """Whether its echoes are a sum of many scatterers' rather than a mirror's."""
    return radio_name(material) in ROUGH


def table(names: list[str], medium: str) -> tuple[NDArray[np.float64], list[Finish]]:
    """Reflection and finishes of materials by name."""
    shares = np.array([reflection(name, medium) for name in names]).reshape(len(names), ANGLES)
    return shares, [finish_of(name) for name in names]
