"""Which material of the library a robot's part is made of, from what its files say."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from parhelion.core.errors import ConfigError, nearest_name
from parhelion.surfaces.library import match_material
from parhelion.world.choose import MaterialLike
from parhelion.world.loaders import LoadedPart
from parhelion.world.urdf.shapes import Color, LinkShape

DEFAULT_ROBOT_MATERIAL = "plastic"
"""What a robot is made of where its files say nothing."""

PAINTS: Mapping[str, tuple[float, float, float]] = {
    "black": (0.05, 0.05, 0.05),
    "blue": (0.1, 0.2, 0.8),
    "green": (0.1, 0.6, 0.2),
    "grey": (0.4, 0.4, 0.4),
    "red": (0.8, 0.1, 0.1),
    "silver": (0.75, 0.75, 0.75),
    "white": (1.0, 1.0, 1.0),
    "yellow": (0.9, 0.8, 0.1),
}
"""Red, green and blue that stand for each car paint of the library; rounded by eye, since only the nearest counts."""


def choose_material(
    link: str, shape: LinkShape, part: LoadedPart, material: MaterialLike | None, materials: Mapping[str, MaterialLike]
) -> tuple[MaterialLike, str | None]:
    """The material of one part, and a note where it is a guess.

    In order: `materials` by the link's name, by the URDF's and by the mesh file's name of the material; `material`;
    a name that the library knows; a word for a colour in the name, else the colour itself, taken as paint; plastic.
    The URDF's material goes before the mesh file's own, as in viewers of robots.
    """
    names = [name for name in (shape.material, part.material) if name is not None]
    for key in (link, *names):
        if key in materials:
            return materials[key], None
    if material is not None:
        return material, None
    chosen, name = DEFAULT_ROBOT_MATERIAL, names[0] if names else None
    if name is not None:
        matched, guess = match_material(name)
        if guess is None:
            return matched.name, None
        chosen = matched.name
        words = re.findall(r"[a-z]+", name.lower().replace("gray", "grey"))
        paint = next((word for word in words if word in PAINTS), None)
        if paint is not None:
            return f"car-paint-{paint}", f"{name!r} -> 'car-paint-{paint}'"
    if shape.color is not None:
        chosen = nearest_paint(shape.color)
        said = repr(name) if name is not None else "colour {:g} {:g} {:g}".format(*shape.color[:3])
        return chosen, f"{said} -> {chosen!r}"
    return chosen, f"{'no material' if name is None else repr(name)} -> {chosen!r}"


def nearest_paint(color: Color) -> str:
    """The car paint whose colour is nearest to red, green and blue within 0 to 1."""
    table = np.array(list(PAINTS.values()))
    row = int(np.argmin(((table - np.array(color[:3])) ** 2).sum(axis=1)))
    return f"car-paint-{list(PAINTS)[row]}"


def check_mapping(file: object, materials: Mapping[str, MaterialLike], known: list[str]) -> None:
    """Refuse keys that name neither a link nor a material of the robot."""
    for name in materials:
        if name not in known:
            nearest = nearest_name(str(name), known)
            advice = f"did you mean {nearest!r}?" if nearest else f"it has: {', '.join(known[:12])}"
            raise ConfigError(f"{file}: materials: no link or material {name!r} in it; {advice}")
