"""Wet surfaces: diffuse reflectance of a rough surface under a film of water.

Light that a rough surface scatters into the film is partly reflected back at the upper side of the film, and can be
absorbed again. Written once for NumPy and Dr.Jit.

Sources: A. Ångström, "The albedo of various surfaces of ground", Geografiska Annaler 7, 1925; J. Lekner, M. C. Dorf,
"Why some things are darker when wet", Applied Optics 27, 1988. # wording: ok
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import unknown_name
from parhelion.surfaces.material import Material

WATER_INDEX = 1.33
MATERIAL_INDEX = 1.5
"""Refractive index of grains of sand, concrete and soil, about that of quartz."""
MODELS = ("lekner-dorf", "angstrom")


@lru_cache(maxsize=32)
def diffuse_fresnel(index: float) -> float:
    """Fresnel reflectance of a smooth surface of relative index > 1 for diffuse light."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    angle = 0.25 * np.pi * (nodes + 1.0)
    cos_in = np.cos(angle)
    cos_out = np.sqrt(1.0 - (np.sin(angle) / index) ** 2)
    across = ((cos_in - index * cos_out) / (cos_in + index * cos_out)) ** 2
    along = ((index * cos_in - cos_out) / (index * cos_in + cos_out)) ** 2
    return float((0.25 * np.pi * weights * 0.5 * (across + along) * np.sin(2.0 * angle)).sum())


def wet_factor(dry: Any, *, porous: Any = 1.0, model: str = "lekner-dorf", water: float = WATER_INDEX) -> Any:
    """Factor of wetting on the diffuse reflectance `dry` (0 to 1) of a rough surface, NumPy or Dr.Jit.

    `porous` is the fraction of the surface that absorbs water or holds a film: 1 for asphalt, concrete, soil, brick and
    wood, 0 for paint, metal, glass and leaves, from which water runs off.

    `angstrom`: 1 / (n^2 (1 - rho) + rho). `lekner-dorf`: the wet reflectance is

        (1 - R) (1 - p) (1 - a) / (1 - p (1 - a)),    p = 1 - (1 - R_diffuse(n)) / n^2

    R = ((n - 1) / (n + 1))^2 is the specular reflection of the film, which is not included. `a` is the absorptance for
    light that arrives through water: the dry absorptance 1 - rho times a factor between
    q = (1 - R_diffuse(m / n)) / (1 - R_diffuse(m)) for white surfaces of index m = 1.5 and 1 for black ones.
    """
    if model == "angstrom":
        ratio = 1.0 / (water * water * (1.0 - dry) + dry)
    elif model == "lekner-dorf":
        back = 1.0 - (1.0 - diffuse_fresnel(water)) / (water * water)
        mirror = ((water - 1.0) / (water + 1.0)) ** 2
        q = (1.0 - diffuse_fresnel(MATERIAL_INDEX / water)) / (1.0 - diffuse_fresnel(MATERIAL_INDEX))
        # (1 - a) / rho, from a = (1 - rho) (q rho + 1 - rho).
        left = 2.0 - q + (q - 1.0) * dry
        ratio = (1.0 - mirror) * (1.0 - back) * left / (1.0 - back * left * dry)
    else:
        raise unknown_name("model of wet surfaces", model, MODELS)
    return 1.0 + porous * (ratio - 1.0)


POROUS = frozenset({
    "asphalt", "asphalt-dark", "asphaltic-concrete", "concrete", "brick", "plaster", "soil", "sand", "gravel",
    "limestone", "granite", "roof-tile", "roofing-felt", "shingle", "slate", "wood", "plywood", "bark", "cardboard",
    "curtain-lit", "fabric-black", "hair-dark", "hair-fair", "cotton", "fabric",
    "fabric-blue", "fabric-green", "fabric-red", "paper", "road-paint", "road-paint-yellow",
})  # fmt: skip
"""Library materials that absorb water or hold a film of it; paint, metal and leaves shed it."""


def wetted(table: dict[str, NDArray[np.float32]], materials: Sequence[Material]) -> dict[str, NDArray[np.float32]]:
    """Band table of materials in rain: porous materials have the reflectance of the wet surface."""
    porous = np.array([material.name in POROUS for material in materials], np.float64)[:, None]
    dry = table["diffuse"].astype(np.float64)
    return {**table, "diffuse": (dry * wet_factor(dry, porous=porous)).astype(np.float32)}
