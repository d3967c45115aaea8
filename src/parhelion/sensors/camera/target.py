"""A world as a camera sees it: the triangles, and what they are made of in each band."""

from __future__ import annotations

from typing import Any

import numpy as np

from parhelion.rays.middle import Cell
from parhelion.rays.turns import OnDevice
from parhelion.sensors.camera.lamps import Lamps
from parhelion.sensors.camera.wet import rains, wetted
from parhelion.sensors.light.bsdf import BandSurfaces
from parhelion.sensors.light.lamps import lamp_table
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
        wet: bool,
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
        self.materials, self.material_rows = materials, rows
        self.world_lamps = world.lamps
        names_of_bands = tuple(band.name for band in bands)
        textured = np.any(parts.texture >= 0)
        self.textures = BandTextures.of(self.scene, world, names_of_bands) if textured else None
        self.surfaces: BandSurfaces | None = None
        """What parts reflect; None for thermal cameras, which go by `material_rows`."""
        self._lamps: dict[bool, Lamps | None] = {}
        numbers = engine.table(part_numbers(world, rows))
        # Kernels cannot read from empty arrays: hence one row at least.
        self.names = PartNames(numbers, engine.table(np.zeros(max(1, len(rows)), np.float32)))
        if is_thermal(bands):
            return
        table = material_band_table(materials, bands)
        if wet:
            table = wetted(table, materials)
        of_parts = {name: values[rows] for name, values in table.items()}
        diffuse = (of_parts["diffuse"] + of_parts["curve_level"]).mean(axis=1) if len(rows) else np.zeros(1)
        self.names = PartNames(numbers, engine.table(diffuse.astype(np.float32)))
        self.surfaces = BandSurfaces.of(engine, of_parts, np.zeros((len(rows), len(bands))))
        for night in (False, True):
            lamps = lamp_table(world, bands, night=night, sensor=known_as)
            self._lamps[night] = Lamps.of(engine, lamps, self.scene.origin) if len(lamps) else None

    def lamps(self, *, night: bool) -> Lamps | None:
        """Lamps that are lit by night, or by day, for the time window that is set."""
        found = self._lamps[night]
        return None if found is None else found.with_bodies(self.scene.moving)


def is_thermal(bands: tuple[Band, ...]) -> bool:
    """Whether these bands show the glow of things, and not the light of sun and lamps."""
    return bands[0].centre_nm > 5000.0


def camera_target(
    world: World, known_as: tuple[str, ...], bands: tuple[Band, ...], cell: Cell | None = None
) -> CameraTarget:
    """The target of a world for a camera, built on first use and kept until the world changes."""
    cache = kept_for(world, cell)
    snow = None if world.weather is None else world.weather.snow
    snowed = () if snow is None else snow.covers
    kind, *names = known_as
    wet = rains(world.weather)
    # Lamps come and go without a change of what stands there; those that are kept here keep their numbers.
    lamps = tuple(id(entry) for entry in world.lamps)
    key = ("camera", id(world.geometry(kind, *names)), bands, snowed, wet, lamps, cell)
    if key not in cache:
        cache[key] = CameraTarget(world, known_as, bands, snowed, wet, cache, cell)
    target: CameraTarget = cache[key]
    return target
