"""Textures of a world on the device: the reflectance factor at a hit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from parhelion.core.arrays import Ints, Masks, Reals
from parhelion.rays.device import engine as running_engine
from parhelion.rays.device import kernel_tree
from parhelion.rays.scene import RayScene
from parhelion.surfaces.texture import TextureAtlas, sample_texture
from parhelion.world.world import World


@kernel_tree()
@dataclass
class PartTextures:
    """Looks up the texture of the part that was hit, at the hit's texture coordinates."""

    row: Ints
    """Row of the atlas of each part, 0 for parts without a texture."""
    uv: Reals
    """Texture coordinates of each triangle's corners."""
    texels: Reals
    offset: Ints
    width: Ints
    height: Ints

    @classmethod
    def of(cls, scene: RayScene, world: World) -> PartTextures:
        """Copy the textures of a world."""
        table = scene.engine.table
        atlas = TextureAtlas.pack(world.textures)
        geometry = scene.geometry
        corners = []
        for triangles in (geometry.static, *(actor.triangles for actor in geometry.actors)):
            uv = np.zeros((len(triangles), 3, 2), np.float32) if triangles.uv is None else triangles.uv
            corners.append(uv.reshape(-1, 6))
        # Row 0 of the atlas is white, so parts without a texture (-1) keep their reflectance.
        return cls(
            table(world.parts.texture + 1), table(np.concatenate(corners)),
            *(table(a) for a in (atlas.texels, atlas.offset, atlas.width, atlas.height)),
        )  # fmt: skip

    def present(self, part: Ints, active: Masks) -> Masks:
        """Which of these parts have a texture."""
        return running_engine().dr.gather(running_engine().mi.UInt32, self.row, part, active) > 0

    def factor(self, part: Ints, hit: Any, active: Masks) -> Reals:
        """Reflectance factor in [0, 1] at hits; 1 for parts without a texture."""
        dr, mi = running_engine().dr, running_engine().mi
        row = dr.gather(mi.UInt32, self.row, part, active)
        active = active & (row > 0)
        base = dr.select(active, hit.triangle, 0) * 6
        corner = [dr.gather(mi.Float, self.uv, base + k, active) for k in range(6)]
        w = 1.0 - hit.u - hit.v
        u = w * corner[0] + hit.u * corner[2] + hit.v * corner[4]
        v = w * corner[1] + hit.u * corner[3] + hit.v * corner[5]
        offset, width, height = (dr.gather(mi.UInt32, table, row) for table in (self.offset, self.width, self.height))
        return sample_texture(u, v, texels=self.texels, offset=offset, width=width, height=height)
