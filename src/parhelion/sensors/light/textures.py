"""Textures of a world on the device: the reflectance factor at a hit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Ints, Masks, Reals
from parhelion.rays.device import engine as running_engine
from parhelion.rays.device import kernel_tree
from parhelion.rays.scene import RayScene
from parhelion.surfaces.texture import TextureAtlas, linear_srgb, sample_texture
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
        # Row 0 of the atlas is white, so parts without a texture (-1) keep their reflectance.
        return cls(
            table(world.parts.texture + 1), table(_corners(scene)),
            *(table(a) for a in (atlas.texels, atlas.offset, atlas.width, atlas.height)),
        )  # fmt: skip

    def present(self, part: Ints, active: Masks) -> Masks:
        """Which of these parts have a texture."""
        return running_engine().dr.gather(running_engine().mi.UInt32, self.row, part, active) > 0

    def factor(self, part: Ints, hit: Any, active: Masks) -> Reals:
        """Reflectance factor in [0, 1] at hits; 1 for parts without a texture."""
        u, v, place = self._places(part, hit, active)
        return sample_texture(u, v, texels=self.texels, **place)

    def _places(self, part: Any, hit: Any, active: Any) -> tuple[Any, Any, dict[str, Any]]:
        """Texture coordinates of hits, and where in the atlas their textures are."""
        dr, mi = running_engine().dr, running_engine().mi
        row = dr.gather(mi.UInt32, self.row, part, active)
        active = active & (row > 0)
        base = dr.select(active, hit.triangle, 0) * 6
        corner = [dr.gather(mi.Float, self.uv, base + k, active) for k in range(6)]
        w = 1.0 - hit.u - hit.v
        u = w * corner[0] + hit.u * corner[2] + hit.v * corner[4]
        v = w * corner[1] + hit.u * corner[3] + hit.v * corner[5]
        tables = {"offset": self.offset, "width": self.width, "height": self.height}
        return u, v, {name: dr.gather(mi.UInt32, table, row) for name, table in tables.items()}


CHANNELS = {"red": "red", "green": "green", "blue": "blue", "mono": "luminance"}
"""What of a texture's colours bands of these names see; all others see the grey value, as lidars do."""
_LUMINANCE = (0.2126, 0.7152, 0.0722)  # of sRGB's primaries, IEC 61966-2-1


@kernel_tree(fixed=("bands",))
@dataclass
class BandTextures:
    """The same for the bands of a camera: texels have colours, and are blended with their neighbours."""

    bands: tuple[str, ...]
    """Names of the bands."""
    grey: PartTextures
    """Its texels are rows of red, green, blue, all linear in light, and grey."""

    @classmethod
    def of(cls, scene: RayScene, world: World, bands: tuple[str, ...]) -> BandTextures:
        """Copy the textures of a world, colours where they have some."""
        table = scene.engine.table
        atlas = TextureAtlas.pack(world.textures)
        texels = np.repeat(atlas.texels[:, None], 4, axis=1)
        for row, colours in world.texture_colours.items():
            start = int(atlas.offset[row + 1])
            texels[start : start + colours[:, :, 0].size, :3] = linear_srgb(colours).reshape(-1, 3)
        tables = (world.parts.texture + 1, _corners(scene), texels, atlas.offset, atlas.width, atlas.height)
        return cls(bands, PartTextures(*(table(one) for one in tables)))

    def factors(self, part: Any, hit: Any, active: Any) -> list[Any]:
        """Reflectance factor in [0, 1] of each band at hits; 1 for parts without a texture."""
        dr, mi = running_engine().dr, running_engine().mi
        u, v, place = self.grey._places(part, hit, active)
        four = sample_texture(
            u, v, texels=self.grey.texels, bilinear=True, **place,
            read=lambda texels, at: dr.gather(mi.Vector4f, texels, at),
        )  # fmt: skip
        seen = {"red": four.x, "green": four.y, "blue": four.z, "grey": four.w}
        red, green, blue = _LUMINANCE
        seen["luminance"] = red * four.x + green * four.y + blue * four.z
        return [seen[CHANNELS.get(name, "grey")] for name in self.bands]


def _corners(scene: RayScene) -> NDArray[np.float32]:
    """Texture coordinates of all triangles' corners, shape (n, 6)."""
    geometry = scene.geometry
    corners = []
    for triangles in (geometry.static, *(actor.triangles for actor in geometry.actors)):
        uv = np.zeros((len(triangles), 3, 2), np.float32) if triangles.uv is None else triangles.uv
        corners.append(uv.reshape(-1, 6))
    return np.concatenate(corners)
