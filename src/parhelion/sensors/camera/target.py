"""A world as a camera sees it: the triangles, and what they are made of in each band."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.rays.middle import Cell
from parhelion.rays.turns import OnDevice
from parhelion.sensors.light.bsdf import BandSurfaces
from parhelion.sensors.light.target import PartNames, kept_for, part_numbers, shared_scene, under_snow
from parhelion.sensors.light.textures import BandTextures
from parhelion.surfaces import library
from parhelion.surfaces.bands import Band, material_band_table
from parhelion.world.world import World


class CameraTarget(OnDevice):
    """The scene and its surfaces on the device, in the bands of a camera."""

    def __init__(
        self,
        world: World,
        known_as: tuple[str, ...],
        bands: tuple[Band, ...],
        snowed: tuple[str, ...],
        scenes: dict[Any, Any],
        cell: Cell | None,
    ) -> None:
        kind, *names = known_as
        self.scene = shared_scene(world, kind, tuple(names), scenes, cell)
        self.engine = engine = self.scene.engine
        materials = [*world.materials, library.material("snow")] if snowed else world.materials
        parts = world.parts
        rows = under_snow(world, snowed) if len(parts) else np.zeros(0, np.uint16)
        self.label_names = dict(world.label_names)
        table = material_band_table(materials, bands)
        of_parts = {name: values[rows] for name, values in table.items()}
        # Kernels cannot read from empty arrays: hence one row at least.
        diffuse = (of_parts["diffuse"] + of_parts["curve_level"]).mean(axis=1) if len(rows) else np.zeros(1)
        self.names = PartNames(engine.table(part_numbers(world, rows)), engine.table(diffuse.astype(np.float32)))
        self.surfaces = BandSurfaces.of(engine, of_parts, _emitted(len(rows), len(bands)))
        names_of_bands = tuple(band.name for band in bands)
        textured = np.any(parts.texture >= 0)
        self.textures = BandTextures.of(self.scene, world, names_of_bands) if textured else None


def _emitted(parts: int, bands: int) -> NDArray[np.float64]:
    return np.zeros((parts, bands))


def camera_target(
    world: World, known_as: tuple[str, ...], bands: tuple[Band, ...], cell: Cell | None = None
) -> CameraTarget:
    """The target of a world for a camera, built on first use and kept until the world changes."""
    cache = kept_for(world, cell)
    snow = None if world.weather is None else world.weather.snow
    snowed = () if snow is None else snow.covers
    kind, *names = known_as
    key = ("camera", id(world.geometry(kind, *names)), bands, snowed, cell)
    if key not in cache:
        cache[key] = CameraTarget(world, known_as, bands, snowed, cache, cell)
    target: CameraTarget = cache[key]
    return target
