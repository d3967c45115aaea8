"""Patterns of materials on the device: factors on the diffuse reflectance at the places that rays hit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Float, Int, Masks, Vectors, namespace
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.scene import RayScene
from parhelion.surfaces.library import material
from parhelion.surfaces.material import Material
from parhelion.surfaces.pattern import (
    LARGEST,
    STAIN_LEVEL,
    STAIN_SPREAD,
    TILE_WORDS,
    channels_at,
    level_of,
    packed_tile,
    surface_coordinates,
)
from parhelion.world.world import World

_STAINS = 0
"""Number of the tile of stains."""


@kernel_tree(fixed=("bands",))
@dataclass
class SurfacePatterns:
    """Patterns of the parts of a world, for one or several bands."""

    bands: int
    rows: Float
    """Tile (0: none), 1 / period [1/m], stains, and 1 / period of the stains [1/m] of each part."""
    weights: Float
    """Weights of the two channels and of 1 for each part and band."""
    words: Int
    """Tiles with all levels; the first holds the stains."""
    x: Float
    y: Float
    z: Float
    """Origin of the scene's local frame in the world [m], so that cells share their patterns."""

    @classmethod
    def of(
        cls,
        scene: RayScene,
        world: World,
        materials: Sequence[Material],
        rows: NDArray[Any],
        diffuse: Callable[[list[Material]], NDArray[Any]],
    ) -> SurfacePatterns | None:
        """Patterns of a world; None if it has none.

        `rows` is the material of each part, and `diffuse` returns diffuse reflectances of shape (materials, bands).
        Moving objects have none, because patterns are fixed to the ground, and neither have parts with images.
        """
        if not world.patterns:
            return None
        plain = _plain_parts(world)
        chosen = [row for row in np.unique(rows[plain]).tolist() if materials[row].pattern is not None]
        if not chosen:
            return None
        kinds = list(dict.fromkeys(materials[row].pattern.kind for row in chosen))  # type: ignore[union-attr]
        own = diffuse([materials[row] for row in chosen])
        values = np.zeros((len(materials), 4), np.float32)
        weights = np.zeros((len(materials), own.shape[1], 4), np.float32)
        for row, reflectance in zip(chosen, own, strict=True):
            pattern = materials[row].pattern
            assert pattern is not None
            values[row] = (
                1 + kinds.index(pattern.kind),
                1.0 / pattern.period_m,
                pattern.stains,
                1.0 / pattern.stains_m,
            )
            second = diffuse([material(pattern.second)])[0] if pattern.second else reflectance
            for band, (first, other) in enumerate(zip(reflectance, second, strict=True)):
                stain = STAIN_SPREAD * pattern.stains
                weights[row, band, :3] = packed_tile(pattern.kind).mix(float(first), float(other), stain)
        of_parts = values[rows]
        of_parts[~plain] = 0.0
        table, number = scene.engine.table, scene.engine.number
        return cls(
            own.shape[1],
            table(of_parts),
            table(weights[rows]),
            _words(scene.engine, tuple(kinds)),
            *(number(float(one)) for one in scene.origin),
        )

    def factors(
        self, part: Int, place: Vectors, normal: Vectors, footprint: Float, active: Masks, *, bilinear: bool = True
    ) -> list[Float]:
        """Factor on the diffuse reflectance of each band at hits; 1 for parts without a pattern.

        `place` is in the scene's local frame, and `footprint` is the width of the spot or pixel there [m]. Without
        `bilinear`, the nearest texel counts, which takes a quarter of the memory accesses.
        """
        dr, mi = running_engine().dr, running_engine().mi
        row = dr.gather(mi.Vector4f, self.rows, part, active)
        there = active & (row.x > 0.0)
        u, v = surface_coordinates(
            (place.x + self.x, place.y + self.y, place.z + self.z), (normal.x, normal.y, normal.z)
        )

        def read(words: Int, at: Int) -> Any:
            word = dr.gather(mi.UInt32, words, at, there)
            return mi.Vector2f(mi.Float(word & 0xFFFF), mi.Float(word >> 16)) * (LARGEST / 65535.0)

        def channels(inverse: Float, level: Any, number: Int) -> Any:
            place = (u * inverse, v * inverse, level, number * TILE_WORDS)
            return channels_at(*place, self.words, read, bilinear=bilinear)

        own = channels(row.y, level_of(footprint * row.y, mi.Float(1.0)), mi.UInt32(row.x))
        stain = channels(row.w, mi.UInt32(STAIN_LEVEL), mi.UInt32(_STAINS)).x
        stain = stain * (2.0 * STAIN_SPREAD / LARGEST) - STAIN_SPREAD
        stained = 1.0 + row.z * stain
        found = []
        for band in range(self.bands):
            weight = dr.gather(mi.Vector4f, self.weights, part * self.bands + band, there)
            value = (weight.x * own.x + weight.y * own.y + weight.z) * stained
            found.append(dr.select(there, namespace(value).maximum(value, 0.0), 1.0))
        return found


@lru_cache(maxsize=8)
def _words(engine: Engine, kinds: tuple[str, ...]) -> Int:
    """Tiles of the stains and of kinds of patterns on the device, some MB, which edits of a world do not change."""
    return engine.table(np.concatenate([packed_tile(kind).words for kind in ("stains", *kinds)]))


def _plain_parts(world: World) -> NDArray[np.bool_]:
    """Mask of the parts that stand still and have neither an image nor an appearance of their own."""
    plain = np.zeros(len(world.parts), bool)
    plain[
        [
            part.number
            for item in world.objects
            if item.trajectory is None
            for part in item.parts
            if part.texture < 0 and part.appearance is None
        ]
    ] = True
    return plain
