"""Shared parts of optical and wave scenes: the cache by world, triangles on the device, and motion knots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from parhelion.core.config import Config, parse
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.pose import Pose
from parhelion.core.trajectory import Fixed, Mounted, Trajectory
from parhelion.rays.origin import Cell, origin_of
from parhelion.rays.scene import RayScene
from parhelion.surfaces import library
from parhelion.surfaces.material import Material
from parhelion.world.world import World

NO_MATERIAL = 0xFFFF
"""Material number of points that no surface made."""

_Number = Annotated[float, Field(allow_inf_nan=False)]
_Other = TypeVar("_Other", bound="OtherSensor")


class OtherSensor(Config):
    """Place of another sensor, at rest or on an actor."""

    xyz: tuple[_Number, _Number, _Number]
    """Position in the world, or in the frame of the actor [m]."""
    yaw_deg: _Number = 0.0
    """Heading, in the same frame."""
    actor: str | None = None
    """Name of the actor that carries it; None for one at rest. Place it outside of the actor's body."""

    def motion(self, world: World) -> Trajectory:
        """Motion of the sensor in a world."""
        mount = Pose(xyz=self.xyz, rpy_deg=(0.0, 0.0, self.yaw_deg))
        if self.actor is None:
            return Fixed(mount)
        carriers = {item.name: item.trajectory for item in world.objects if item.trajectory is not None}
        if self.actor not in carriers:
            raise unknown_name("interferers: actor", self.actor, carriers)
        return Mounted(carriers[self.actor], mount)


def others_of(kind: type[_Other], given: Sequence[_Other | Mapping[str, Any]]) -> tuple[_Other, ...]:
    """Interferers of an option of a sensor."""
    if isinstance(given, (str, Mapping)) or not isinstance(given, Sequence):
        raise ConfigError(f"interferers: expected a list such as [{{xyz: [20, 0, 2]}}], got {given!r}")
    return tuple(
        one if isinstance(one, kind) else parse(kind, one, f"interferers[{number}]")  # type: ignore[arg-type]
        for number, one in enumerate(given)
    )


_scenes: WeakKeyDictionary[World, dict[Any, Any]] = WeakKeyDictionary()


def scene_cache(world: World, cell: Cell | None) -> dict[Any, Any]:
    """Cache of objects built from a world, cleared when the world changes; the last entry of each key is the cell."""
    cache = _scenes.setdefault(world, {})
    if cache.get("version") != world.version:
        cache.clear()
        cache["version"] = world.version
    if cell is not None:
        _forget_cells(cache, cell)
    return cache


def shared_scene(
    world: World, kind: str, names: tuple[str, ...], scenes: dict[Any, Any], cell: Cell | None
) -> RayScene:
    """Triangles visible to a sensor; sensors of one world share the acceleration structure at any wavelength."""
    geometry = world.geometry(kind, *names)
    key = ("scene", id(geometry), cell)
    if key not in scenes:
        scenes[key] = RayScene(geometry, zero=None if cell is None else origin_of(cell))
    scene: RayScene = scenes[key]
    return scene


def part_numbers(world: World, rows: NDArray[Any]) -> NDArray[np.uint32]:
    """Rows of material, label, instance and 0: one for 'no part', then one per part; `rows` are material numbers."""
    parts = world.parts
    columns = [column.astype(np.uint32) for column in (rows, parts.label, parts.instance)]
    numbers = np.pad(np.stack([*columns, np.zeros_like(columns[0])], axis=1), ((1, 0), (0, 0)))
    numbers[0, 0] = NO_MATERIAL
    return numbers


_MOST_CELLS = 4
"""Number of cached cells of a wide world; a sensor near a border alternates between cells."""


def _forget_cells(cache: dict[Any, Any], coming: Cell) -> None:
    """Evict the least recently used cells to make space for another."""
    cells = list(dict.fromkeys(key[-1] for key in cache if isinstance(key[-1], tuple) and key[-1] != coming))
    gone = set(cells[: max(0, len(cells) + 1 - _MOST_CELLS)])
    for key in [key for key in cache if isinstance(key[-1], tuple) and key[-1] in gone]:
        del cache[key]


Covered = tuple[tuple[str, str, str], ...]
"""Label, material and medium of surfaces covered by weather, as listed by `Weather.covered`."""


def covered_parts(world: World, covered: Covered) -> tuple[list[Material], NDArray[np.uint16]]:
    """Materials of a world including those of surfaces covered by weather, and the material number of each part."""
    parts, materials = world.parts, list(world.materials)
    rows = parts.material if len(parts) else np.zeros(0, np.uint16)
    numbers = {name: number for number, name in world.label_names.items()}
    added: dict[str, int] = {}
    for label, material, medium in covered:
        if material not in added:
            added[material] = len(materials)
            materials.append(library.material(material))
        if not len(parts):
            continue
        if label not in numbers:
            raise unknown_name(f"label in {medium}.covers", label, numbers)
        rows = np.where(parts.label == numbers[label], added[material], rows).astype(np.uint16)
    return materials, rows


# ---- The motion of a sensor during one measurement, as evenly spaced poses that kernels interpolate -----------------


# Spacing of the pose samples, between which poses are interpolated: at 100 m/s^2 the error is 0.01 mm.
KNOT_SPACING_S = 1e-3


def motion_knots(
    motions: Sequence[Trajectory], starts: Sequence[float], duration: float, origin: NDArray[np.float64]
) -> tuple[NDArray[np.float32], int]:
    """Sensor poses relative to `origin`, rows of 8, and the number of rows per scan."""
    moving = any(not isinstance(motion, Fixed) for motion in motions)
    count = max(2, int(np.ceil(duration / KNOT_SPACING_S)) + 1) if moving else 2
    fractions = np.linspace(0.0, 1.0, count) * duration if moving else None
    rows = np.zeros((len(motions), count, 8), np.float32)
    for row, motion, start in zip(rows, motions, starts, strict=True):
        if isinstance(motion, Fixed):
            row[:, :3], row[:, 4:] = motion.pose.xyz - origin, motion.pose.quat_xyzw
            continue
        xyz, quat = motion.sample(start + fractions)  # type: ignore[operator]
        sign = np.cumprod(np.where(np.sum(quat[1:] * quat[:-1], axis=1) < 0, -1.0, 1.0))
        row[:, :3] = xyz - origin
        row[:, 4:] = np.concatenate([quat[:1], sign[:, None] * quat[1:]])
    return rows, count
