"""Units and up axis of model files: detection, and hints where a model is far too large, tiny, or lies on its side.

glTF is in metres with y up, by its standard. COLLADA and USD files state both. OBJ, STL, PLY and OFF files state
neither: they are taken as metres with z up.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.world.loaders import MESH_SUFFIXES, LoadedMesh, Up

LARGE_M = 2000.0
"""Length above which a model is likely in millimetres; larger sites are rarely one model."""
HUGE_M = 200_000.0
"""Length above which a model has implausible units of any kind."""
SMALL_M = 0.005
"""Length below which a model is likely in kilometres, or in metres where another unit was meant."""
FLOOR_SHARE = 0.35
"""Smallest area of a floor, as a share of the ground plan."""
UP_COSINE = 0.7
"""Smallest cosine between the normal of a floor and the up axis."""


def check_model_options(source: str | PathLike[str], params: Mapping[str, Any]) -> None:
    """Refuse options of model files for other worlds."""
    for name in ("up", "scale"):
        if params.get(name) is not None:
            raise ConfigError(
                f"{source}: {name} applies to a model file ({' '.join(MESH_SUFFIXES)}); "
                "in a world file, set it per object"
            )


def warn_of_units(loaded: LoadedMesh, *, scale: float, up: Up) -> None:
    """Warn if the size of a model or its orientation is implausible and the user did not state it."""
    hints = []
    suffix = loaded.source[loaded.source.rfind(".") :].lower()
    states_both = suffix in (".glb", ".gltf", ".usd", ".usda", ".usdc", ".usdz", ".dae")
    lower, upper = bounds(loaded)
    size = upper - lower
    shown = " x ".join(f"{value:.4g}" for value in size)
    if scale == 1.0 and not states_both:
        hint = unit_hint(float(size.max()))
        if hint:
            hints.append(f"it is {shown} m; {hint}")
    if up == "auto" and not states_both and lies_on_its_side(loaded):
        hints.append(
            "its floor faces y, as in files with y up; pass up='y' (--up y) to raise it, or up='z' if it is right"
        )
    if hints:
        warnings.warn(f"{loaded.source}: {'; '.join(hints)}", stacklevel=5)


def unit_hint(length_m: float) -> str | None:
    """Advice for the largest dimension [m] of a model, or None if it is plausible."""
    if length_m > HUGE_M:
        return "in millimetres, pass scale=0.001 (--scale 0.001)" if length_m < HUGE_M * 1e3 else "check its units"
    if length_m > LARGE_M:
        return f"if it is in millimetres, pass scale=0.001 (--scale 0.001) for {length_m / 1e3:.4g} m"
    if length_m < SMALL_M:
        return f"if its unit is larger than a metre, pass scale=1000 (--scale 1000) for {length_m * 1e3:.4g} m"
    return None


def bounds(loaded: LoadedMesh) -> tuple[Floats, Floats]:
    """Lower and upper corner of all parts [m]."""
    corners = [(part.mesh.vertices.min(axis=0), part.mesh.vertices.max(axis=0)) for part in loaded.parts]
    return np.min([low for low, _ in corners], axis=0), np.max([high for _, high in corners], axis=0)


def lies_on_its_side(loaded: LoadedMesh) -> bool:
    """Return True if there is more area that faces up along y than down, and no such difference along z.

    Grounds and floors are usually open surfaces, which only face up. Closed solids face up and down equally, so they
    are never reported.
    """
    lower, upper = bounds(loaded)
    size = upper - lower
    if not np.all(size > 0.0):
        return False
    surplus = np.zeros(3)
    for part in loaded.parts:
        vertices, faces = part.mesh.vertices, part.mesh.faces
        a, b, c = (vertices[faces[:, k]] for k in range(3))
        normal = 0.5 * np.cross(b - a, c - a)
        level = np.abs(normal) > UP_COSINE * np.linalg.norm(normal, axis=1, keepdims=True)
        surplus += np.where(level, normal, 0.0).sum(axis=0)
    along_y, along_z = surplus[1] / (size[0] * size[2]), surplus[2] / (size[0] * size[1])
    return bool(along_y > FLOOR_SHARE and abs(along_z) < 0.25 * along_y)
