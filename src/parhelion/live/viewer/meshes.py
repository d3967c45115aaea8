"""A world's triangles made ready for the screen: few meshes, each of one colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.trajectory import Trajectory
from parhelion.world.parts import WorldObject, WorldPart
from parhelion.world.world import World

MOST_TRIANGLES = 1_500_000
"""Beyond this number the smallest triangles of what stands still are left out on the screen, never in the scan."""
_RED_GREEN_BLUE_NM = (640.0, 550.0, 465.0)
_EXPOSURE = 1.1
_SEE_THROUGH = {"GlassPane": 0.35, "WaterSurface": 0.85}


@dataclass(frozen=True, eq=False)
class ScreenMesh:
    """Triangles of one material."""

    name: str
    vertices: NDArray[np.float32]
    """Shape (n, 3) [m]."""
    faces: NDArray[np.uint32]
    """Shape (m, 3)."""
    colour: tuple[int, int, int]
    opacity: float | None = None


@dataclass(frozen=True, eq=False)
class ScreenBody:
    """Something that moves: meshes in its own frame, and the motion of that frame."""

    name: str
    meshes: tuple[ScreenMesh, ...]
    motion: Trajectory


def standing_meshes(world: World, most: int = MOST_TRIANGLES) -> tuple[list[ScreenMesh], int]:
    """What stands still, one mesh a material, and the number of triangles left out."""
    parts = [part for item in world.objects if not item.is_actor for part in item.parts]
    smallest, left_out = _smallest_shown(parts, most)
    return _by_material(parts, smallest), left_out


def moving_bodies(world: World) -> list[ScreenBody]:
    """What moves."""
    return [_body(item, item.trajectory) for item in world.objects if item.trajectory is not None]


def _body(item: WorldObject, motion: Trajectory) -> ScreenBody:
    return ScreenBody(f"{item.index}-{item.name}", tuple(_by_material(item.parts)), motion)


def _areas(part: WorldPart) -> NDArray[np.float64]:
    a, b, c = (part.placed[part.mesh.faces[:, k]] for k in range(3))
    return np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2.0


def _smallest_shown(parts: Sequence[WorldPart], most: int) -> tuple[float, int]:
    """Area [m²] from which on triangles are shown, and how many are smaller."""
    total = sum(len(part.mesh.faces) for part in parts)
    if total <= most:
        return 0.0, 0
    areas = np.concatenate([_areas(part) for part in parts])
    smallest = float(np.partition(areas, total - most)[total - most])
    return smallest, int(np.count_nonzero(areas < smallest))


def _by_material(parts: Iterable[WorldPart], smallest_m2: float = 0.0) -> list[ScreenMesh]:
    groups: dict[str, list[WorldPart]] = {}
    for part in parts:
        groups.setdefault(part.material.name, []).append(part)
    meshes = []
    for name, group in groups.items():
        starts = np.cumsum([0, *(len(part.placed) for part in group)])
        faces = [
            (part.mesh.faces[_areas(part) >= smallest_m2] if smallest_m2 > 0 else part.mesh.faces) + start
            for part, start in zip(group, starts, strict=False)
        ]
        vertices = np.concatenate([part.placed for part in group]).astype(np.float32)
        colour, opacity = part_colour(group[0]), _SEE_THROUGH.get(type(group[0].material.specular).__name__)
        meshes.append(ScreenMesh(name, vertices, np.concatenate(faces).astype(np.uint32), colour, opacity))
    return [mesh for mesh in meshes if len(mesh.faces)]


def part_colour(part: WorldPart) -> tuple[int, int, int]:
    """What a part looks like to the eye, from its reflectance in red, green and blue, as sRGB from 0 to 255."""
    material = part.material
    low, high = material.wavelength_range_nm
    linear = [material.reflectance_at(min(max(nm, low), high)) for nm in _RED_GREEN_BLUE_NM]
    if type(material.specular).__name__ == "WaterSurface":
        linear = [0.03, 0.09, 0.14]  # what one sees of water is mostly sky
    red, green, blue = (round(255.0 * min(1.0, _EXPOSURE * value) ** (1 / 2.2)) for value in linear)
    return red, green, blue
