"""Wet, flooded and snowy surfaces: material tables of surfaces under water and snow.

Light that a rough surface scatters into the film is partly reflected back at the upper side of the film, and can be
absorbed again. Written once for NumPy and Dr.Jit.

Sources: A. Ångström, "The albedo of various surfaces of ground", Geografiska Annaler 7, 1925; J. Lekner, M. C. Dorf,
"Why some things are darker when wet", Applied Optics 27, 1988. # wording: ok
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import unknown_name
from parhelion.core.water import water_index
from parhelion.surfaces.brdf import normal_reflectance
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


# ---- ground in weather ----------------------------------------------------------------------------------------------
# Tables of sensors for the states of `weather.ground`: wet surfaces, and the same surfaces under puddles. Columns are
# those of `surfaces.material`; `diffuse`, `curve_level` and the lobes may have a further axis, one column per band.


FILM_M, PUDDLE_M = 2e-4, 5e-3
"""Depth of the film on wet rough surfaces and of puddles [m] (assumed; roads hold 0.2 to 1 mm in rain)."""
FILM_ROUGHNESS = 0.3
"""Roughness of the film's surface, which follows the grains of an asphalt (assumed): facets are tilted by about
FILM_ROUGHNESS^2 = 0.09 rad, so lamps have long bright streaks on a wet road and no sharp mirror images."""
BEADS = 0.25
"""Share of retro-reflection that beads under a film of water keep. EN 1436 requires 150 mcd/(m^2 lx) of dry road
markings of class R3 and 35 of wet ones of class RW2."""


def water_transmittance(depth_m: float, wavelength_nm: ArrayLike) -> NDArray[np.float64]:
    """Two-way transmittance of a layer of water: exp(-2 d 4 pi k / wavelength), k of Hale and Querry and Segelstein.

    0.98 at 905 nm and 0.66 at 1550 nm through 0.2 mm, the film of a wet road; the path is vertical.
    """
    wavelengths = np.atleast_1d(np.asarray(wavelength_nm, np.float64))
    absorbed = [4.0 * math.pi * water_index(float(one)).imag / (one * 1e-9) for one in wavelengths]
    return np.exp(-2.0 * depth_m * np.array(absorbed))


Columns = dict[str, NDArray[Any]]
_BODY = ("diffuse", "curve_level")


def _like(values: ArrayLike, column: NDArray[Any]) -> NDArray[np.float64]:
    """Values per material with further axes of length 1, so that they multiply a column."""
    found = np.asarray(values, np.float64)
    return found.reshape(found.shape + (1,) * (column.ndim - found.ndim))


def wet_columns(table: Columns, materials: Sequence[Material], wetness: float, wavelength_nm: ArrayLike) -> Columns:
    """Columns of materials of whose area water wets the share `wetness`; others than porous materials stay dry.

    The body darkens by `wet_factor` and by absorption in the film, below a coat of water with a rough surface. Columns
    are linear in wetness.
    """
    porous = np.array([material.name in POROUS for material in materials], np.float64).reshape(-1)
    film = water_transmittance(FILM_M, wavelength_nm)
    reflected = np.array([normal_reflectance(index=water_index(float(w)).real) for w in np.atleast_1d(wavelength_nm)])
    found = dict(table)
    for name in _BODY:
        dry = table[name].astype(np.float64)
        wet = dry * wet_factor(dry) * (film if dry.ndim > 1 else film[0])
        found[name] = (dry + wetness * _like(porous, dry) * (wet - dry)).astype(np.float32)
    lobe = wetness * porous
    coated = table["ct_weight"] > 0.0
    found["ct_weight"] = np.where(coated, table["ct_weight"], lobe).astype(np.float32)
    found["ct_roughness"] = np.where(coated | (lobe == 0.0), table["ct_roughness"], FILM_ROUGHNESS).astype(np.float32)
    f0 = table["ct_f0"]
    film_f0 = _like(porous > 0.0, f0) * (reflected if f0.ndim > 1 else reflected[0])
    found["ct_f0"] = np.where(_like(coated | (lobe == 0.0), f0), f0, film_f0).astype(np.float32)
    found["retro_gain"] = (table["retro_gain"] * (1.0 - (1.0 - BEADS) * lobe)).astype(np.float32)
    return found


def flooded_columns(table: Columns, wavelength_nm: ArrayLike) -> Columns:
    """Columns of the same materials under a puddle: a smooth mirror of water over a dark bottom."""
    through = water_transmittance(PUDDLE_M, wavelength_nm)
    index = float(np.mean([water_index(float(w)).real for w in np.atleast_1d(wavelength_nm)]))
    found = {name: np.zeros_like(values) for name, values in table.items()}
    for name in _BODY:
        dry = table[name].astype(np.float64)
        found[name] = (dry * wet_factor(dry) * (through if dry.ndim > 1 else through[0])).astype(np.float32)
    # The remaining columns are those of still water; roughness and exponents are neutral.
    for name in ("sigma_rad", "phong_exponent", "ct_roughness", "retro_width_rad"):
        found[name] = table[name].copy()
    found["ct_weight"] += 1.0
    found["pane_index"] += index
    mirror: Any = normal_reflectance(index=index)
    found["mirror"] += float(mirror)
    return found


def covered_columns(table: Columns, snow: Columns) -> Columns:
    """Columns of snow, one row per material; `snow` has a single row."""
    return {name: np.repeat(snow[name], len(values), axis=0) for name, values in table.items()}
