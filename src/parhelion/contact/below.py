"""Ground below the wheels of any vehicle: its height, and the kind of its surface."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.contact.solid import Solid
from parhelion.core.pose import Floats
from parhelion.world.world import World

UNPAVED = frozenset({"soil", "sand", "gravel"})
"""Library materials of unpaved roads, which emit dust. Grass holds the soil."""
PAVED = frozenset({
    "asphalt", "asphalt-dark", "asphaltic-concrete", "concrete", "brick", "granite", "huang-road", "road-paint",
    "road-paint-yellow",
})  # fmt: skip
"""Library materials of paved roads, on which rain forms a film."""
_ABOVE_M = 1.0
_BELOW_M = 1.5
"""The ground is searched from this height above a vehicle's frame to this depth below it; a frame may be as high as the
vehicle's centre."""


class GroundBelow:
    """Static ground of a world below points: its height, and whether it has one of several materials."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._solid: Solid | None = None
        self._version = -1
        self._emits: dict[Any, NDArray[np.bool_]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_solid": None, "_emits": {}}

    def of(self, materials: frozenset[str]) -> Callable[[Floats], tuple[Floats, Floats]]:
        """Function that finds the height of the ground [m] below points (n, 3), and 1 where it has one of these
        materials and no cover such as snow, otherwise 0."""
        return partial(self._find, materials)

    def _find(self, materials: frozenset[str], points: Floats) -> tuple[Floats, Floats]:
        count, solid = len(points), self._current()
        if count == 0:
            return np.zeros(0), np.zeros(0)
        start = points + np.array([0.0, 0.0, _ABOVE_M])
        height, hits = solid.scene.below(start, _ABOVE_M + _BELOW_M)
        emits = self._emitting(materials)
        share = hits.found & emits[np.maximum(hits.part, 0)] if len(emits) else hits.found
        return np.where(hits.found, height, points[:, 2]), share.astype(np.float64)

    def _current(self) -> Solid:
        """Solid triangles of the world as it is now."""
        if self._solid is None or self._version != self._world.version:
            self._solid, self._version = Solid.of(self._world), self._world.version
            self._emits.clear()
        return self._solid

    def _emitting(self, materials: frozenset[str]) -> NDArray[np.bool_]:
        """True for each part of the world that has one of the materials and no cover."""
        world = self._world
        covered = () if world.weather is None else world.weather.covered
        if (materials, covered) not in self._emits:
            labels = {label for label, _, _ in covered}
            parts = zip(world.parts.material.tolist(), world.parts.label.tolist(), strict=True)
            self._emits[materials, covered] = np.array(
                [
                    world.materials[one].name in materials and world.label_names.get(label) not in labels
                    for one, label in parts
                ],
                dtype=np.bool_,
            )
        return self._emits[materials, covered]
