"""Choice of the material and the texture of each part of a mesh."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, nearest_name
from parhelion.surfaces.material import Material
from parhelion.surfaces.texture import load_colour_texture
from parhelion.world.guess import TableEntry, guess
from parhelion.world.loaders import LoadedMesh

DEFAULT_MATERIAL = "concrete"
"""Default material of meshes."""

MaterialLike = str | Material
"""A material, or its name in the library or in the world."""

TextureLike = str | PathLike[str] | NDArray[Any]
"""Path of an image file, or an array (height, width), or (height, width, channels) whose red channel counts."""


def choose_materials(
    loaded: LoadedMesh,
    material: MaterialLike | None,
    materials: Mapping[str, MaterialLike] | None,
    look_up: Callable[[MaterialLike], Material],
    *,
    table: Mapping[str, TableEntry],
    from_file: bool,
) -> list[Material]:
    """Return one material per part.

    In order of priority: the mapping `materials` by the file's names, `material`, the `table` next to the file, and a
    guess by name and colour. One warning lists the guesses.
    """
    mapping = dict(materials or {})
    check_mapping(loaded.source, mapping, loaded.material_names, "material")
    chosen: list[Material] = []
    notes: list[str] = []
    for part in loaded.parts:
        if part.material is not None and part.material in mapping:
            chosen.append(look_up(mapping[part.material]))
        elif material is not None:
            chosen.append(look_up(material))
        elif part.material is not None and part.material in table:
            chosen.append(look_up(table[part.material].class_))
        elif part.material is not None:
            found = guess(part.material, part.appearance)
            chosen.append(look_up(found.name))  # by name: the world may have its own material of that name
            if not found.is_certain:
                notes.append(f"{part.material!r} -> {found.name!r}")
        else:
            chosen.append(look_up(DEFAULT_MATERIAL))
            if from_file:
                notes.append(f"triangles without a material -> {DEFAULT_MATERIAL!r}")
    if notes:
        shown = ", ".join(notes[:20]) + (f" and {len(notes) - 20} more" if len(notes) > 20 else "")
        advice = "pass material= or materials= to choose"
        if any(part.appearance is not None for part in loaded.parts):
            advice += f", or run 'parhelion materials guess {Path(loaded.source).name}'"
        warnings.warn(f"{loaded.source}: materials guessed: {shown}; {advice}", stacklevel=4)
    return chosen


def check_mapping(source: object, mapping: Mapping[str, MaterialLike], known: list[str], what: str) -> None:
    """Refuse keys of a mapping that are not among the names of a file; `what` describes them in the message."""
    for name in mapping:
        if name not in known:
            nearest = nearest_name(str(name), known)
            if nearest:
                advice = f"did you mean {nearest!r}?"
            else:
                advice = f"it has: {', '.join(known[:12])}" if known else "it names no materials"
            raise ConfigError(f"{source}: materials: no {what} {name!r} in the file; {advice}")


def texture_image(texture: TextureLike) -> tuple[NDArray[np.float32], NDArray[np.uint8] | None]:
    """Factors on the reflectance in [0, 1], shape (height, width): the red channel of an image file or array.

    Also returns the colours, sRGB of 8 bits, shape (height, width, 3), or None for a grey image.
    """
    if isinstance(texture, (str, PathLike)):
        return load_colour_texture(texture)
    given = array = np.asarray(texture)
    if array.ndim == 3 and array.size:
        array = array[:, :, 0]
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "buif":
        raise ConfigError(f"texture: must be an image of shape (height, width), got {array.shape} of {array.dtype}")
    image: NDArray[np.float32] = array.astype(np.float32) / np.float32(255.0 if array.dtype == np.uint8 else 1.0)
    if not (image.min() >= 0.0 and image.max() <= 1.0):
        raise ConfigError("texture: values must lie within 0 to 1 (or be 8-bit)")
    return image, _colours(given) if given.ndim == 3 and given.shape[2] >= 3 else None


def _colours(given: NDArray[Any]) -> NDArray[np.uint8]:
    colours = given[:, :, :3]
    if colours.dtype == np.uint8:
        return np.array(colours)
    if not (colours.min() >= 0.0 and colours.max() <= 1.0):
        raise ConfigError("texture: values must lie within 0 to 1 (or be 8-bit)")
    return np.round(colours.astype(np.float32) * 255.0).astype(np.uint8)
