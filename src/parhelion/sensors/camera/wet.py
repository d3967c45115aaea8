"""Wet surfaces: rain darkens what soaks it up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from parhelion.surfaces.brdf import fresnel_dielectric
from parhelion.surfaces.material import Material
from parhelion.weather.config import bounds_of
from parhelion.weather.weather import Weather

WATER_INDEX = 1.33
POROUS = frozenset({
    "asphalt", "asphalt-dark", "asphaltic-concrete", "concrete", "brick", "plaster", "soil", "sand", "gravel",
    "limestone", "granite", "roof-tile", "roofing-felt", "shingle", "slate", "wood", "plywood", "bark", "cardboard",
    "cotton", "fabric", "fabric-blue", "fabric-green", "fabric-red", "paper", "road-paint", "road-paint-yellow",
})  # fmt: skip
"""Materials of the library that a film of water covers or fills; paint, metal and leaves shed it."""


def wet_reflectance(dry: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Diffuse reflectance of a rough surface under a film of water, of its reflectance when dry, both 0 to 1.

    Light that the surface scatters is partly reflected back down by the film and gets another chance to be absorbed:
    rho_wet = (1 - R_in) (1 - R_out) rho / (1 - R_out rho), with R_in the film's reflectance for even light from above
    and R_out = 1 - (1 - R_in) / n^2 for even light from within (Angstrom 1925; Lekner and Dorf 1988).
    Dark surfaces keep about half of their reflectance, white ones nearly all.
    """
    rho = np.asarray(dry, dtype=np.float64)
    # Even light from above, by quadrature over the cosine: its mean Fresnel reflectance.
    cos = (np.arange(2000) + 0.5) / 2000
    even = float(np.mean(fresnel_dielectric(cos, index=WATER_INDEX) * 2.0 * cos))
    back = 1.0 - (1.0 - even) / WATER_INDEX**2
    return np.asarray((1.0 - even) * (1.0 - back) * rho / (1.0 - back * rho))


def rains(weather: Weather | None) -> bool:
    """Whether it rains at any time in this weather."""
    return weather is not None and weather.rain is not None and bounds_of(weather.rain.rate_mm_h)[1] > 0.0


def wetted(table: dict[str, NDArray[np.float32]], materials: Sequence[Material]) -> dict[str, NDArray[np.float32]]:
    """A table of materials' bands in rain: what is porous has the reflectance of the wet surface."""
    porous = np.array([material.name in POROUS for material in materials], bool)[:, None]
    diffuse = np.where(porous, wet_reflectance(table["diffuse"].astype(np.float64)), table["diffuse"])
    return {**table, "diffuse": diffuse.astype(np.float32)}
