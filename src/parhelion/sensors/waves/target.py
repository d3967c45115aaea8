"""A world as waves of one frequency meet it: triangles, patches, and what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
from numpy.typing import NDArray

from parhelion.rays.lock import OnDevice
from parhelion.rays.origin import Cell
from parhelion.sensors.optics.scene import NO_MATERIAL, Covered, covered_parts, kept_for, shared_scene
from parhelion.sensors.waves.patches import Patches
from parhelion.sensors.waves.surfaces import Finish, WaveSurfaces
from parhelion.world.world import World

MaterialTable = Callable[[list[str]], tuple[NDArray[np.float64], list[Finish]]]
"""From names of materials to their reflection by cosine of incidence, and their finishes."""


class WaveTarget(OnDevice):
    """The scene on the device, for one kind of wave."""

    def __init__(
        self, world: World, known_as: tuple[str, ...], table: MaterialTable, wavelength_m: float,
        covered: Covered, scenes: dict[Hashable, object], cell: Cell | None,
    ) -> None:  # fmt: skip
        kind, *names = known_as
        self.scene = shared_scene(world, kind, tuple(names), scenes, cell)
        engine = self.scene.engine
        materials, rows = covered_parts(world, covered)
        parts = world.parts
        names_of = [material.name for material in materials]
        reflection, finishes = table(names_of)
        self.surfaces = WaveSurfaces.of(engine, rows, reflection, finishes, wavelength_m)
        # What stands where does not depend on the wave: radars and sounders of a world share it.
        key = ("patches", id(self.scene), cell)
        if key not in scenes:
            scenes[key] = Patches.of(engine, self.scene.geometry)
        self.patches: Patches = scenes[key]  # type: ignore[assignment]
        self.part_label = parts.label.astype(np.uint16)
        self.part_instance = parts.instance.astype(np.uint32)
        self.part_material = rows.astype(np.uint16)
        self.label_names = dict(world.label_names)
        self.material_names = {**dict(enumerate(names_of)), NO_MATERIAL: "none"}


def wave_target(
    world: World, known_as: tuple[str, ...], table: MaterialTable, wave: Hashable, wavelength_m: float,
    cell: Cell | None,
) -> WaveTarget:  # fmt: skip
    """The target of a world for a sensor, built on first use and kept until the world changes.

    `wave` tells kinds of waves apart, such as ("radio", 77e9).
    """
    cache = kept_for(world, cell)
    covered = () if world.weather is None else world.weather.covered
    kind, *names = known_as
    key = (wave, id(world.geometry(kind, *names)), covered, cell)
    if key not in cache:
        cache[key] = WaveTarget(world, known_as, table, wavelength_m, covered, cache, cell)
    target: WaveTarget = cache[key]
    return target
