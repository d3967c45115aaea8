"""A world as a sensor of light of one wavelength sees it: the ray scene, and the tables that hits are looked up in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Ints, Masks, Reals
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.lock import DeviceOwned
from parhelion.rays.origin import Cell
from parhelion.rays.scene import NOTHING, RayScene
from parhelion.sensors.scene import NO_MATERIAL, Covered, covered_parts, part_numbers, scene_cache, shared_scene
from parhelion.surfaces.material import COLUMNS, material_table, reflected, reflection_table, specular_split
from parhelion.surfaces.texture import TextureAtlas, linear_srgb, sample_texture
from parhelion.world.world import World

# ---- Textures of a world on the device: the reflectance factor at a hit ---------------------------------------------


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
            table(world.parts.texture + 1),
            table(_corners(scene)),
            *(table(a) for a in (atlas.texels, atlas.offset, atlas.width, atlas.height)),
        )

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
            u,
            v,
            texels=self.grey.texels,
            bilinear=True,
            **place,
            read=lambda texels, at: dr.gather(mi.Vector4f, texels, at),
        )
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


# ---- scene ----------------------------------------------------------------------------------------------------------


_SPECULAR_COLUMNS = ("mirror", "pane_index", "transmits", "pane_transmittance")


@kernel_tree(fixed=("shared", "names"))
@dataclass
class Columns:
    """Numbers of each part. Those that all parts share are kept once; the others are packed four to a row."""

    shared: tuple[tuple[str, float], ...]
    names: tuple[str, ...]
    packed: Ints
    """Of these names, or None where there are none."""

    @classmethod
    def of(
        cls, engine: Engine, table: dict[str, NDArray[np.float32]], names: tuple[str, ...], rows: NDArray[Any]
    ) -> Columns:
        """Columns of a table of materials, of which each part has the row `rows` says."""
        shared = {name: float(table[name][rows[0]]) if len(rows) else COLUMNS[name] for name in names}
        varying = [name for name in names if len(rows) and np.any(table[name][rows] != shared[name])]
        width = 4 * ((len(varying) + 3) // 4)
        packed = np.zeros((len(rows), width), np.float32)
        for column, name in enumerate(varying):
            packed[:, column] = table[name][rows]
            del shared[name]
        return cls(tuple(shared.items()), tuple(varying), engine.table(packed) if varying else None)

    def at(self, part: Ints, active: Masks) -> dict[str, Any]:
        """The numbers of parts, by name."""
        dr, mi = running_engine().dr, running_engine().mi
        values: dict[str, Any] = dict(self.shared)
        groups = (len(self.names) + 3) // 4
        for group in range(groups):
            row = dr.gather(mi.Vector4f, self.packed, part * groups + group, active)
            for name, value in zip(self.names[4 * group : 4 * group + 4], (row.x, row.y, row.z, row.w), strict=False):
                values[name] = value
        return values


@kernel_tree()
@dataclass
class Surfaces:
    """Tables that kernels look surfaces up in, by the number of the part."""

    materials: Reals
    """Number of the material."""
    reflection: Reals
    """Reflection table of all materials."""
    specular: Reals
    """1 for parts that mirror or transmit, else 0; None where no part does."""
    split: Columns
    """How specular parts share power between what they mirror and what they let through."""
    brightest: Reals
    """Twice the BRDF of the whitest part, were it Lambertian [1/sr]; only glints and retro-reflectors exceed it."""
    textures: PartTextures | None

    def material(self, part: Ints, active: Masks) -> Ints:
        """Material numbers of parts."""
        return running_engine().dr.gather(running_engine().mi.UInt32, self.materials, part, active)

    def reflected(self, part: Ints, material: Ints, cos_theta: Reals, hit: Any, active: Masks) -> Reals:
        """BRDF towards the sensor times the cosine of incidence [1/sr], textures included.

        Sub-rays that were filled in have no hit of their own (None), but are never on textured parts.
        """
        if self.textures is None:
            return reflected(cos_theta, material, self.reflection, active=active)
        texture = 1.0 if hit is None else self.textures.factor(part, hit, active)
        return reflected(cos_theta, material, self.reflection, texture=texture, active=active)

    @property
    def has_specular(self) -> bool:
        """Whether any part mirrors or transmits."""
        return self.specular is not None

    def is_specular(self, part: Ints, active: Masks) -> Masks:
        """Which of these parts mirror or transmit."""
        if self.specular is None:
            return running_engine().mi.Bool(False)
        return running_engine().dr.gather(running_engine().mi.UInt32, self.specular, part, active) != 0

    def specular_split(self, part: Ints, cos_theta: Reals, active: Masks) -> tuple[Reals, Reals]:
        """Power fractions of the mirrored and the transmitted path, both 0 for ordinary surfaces."""
        return specular_split(cos_theta, self.split.at(part, active))

    def textured(self, part: Ints, active: Masks) -> Masks:
        """Which of these parts have a texture."""
        return running_engine().mi.Bool(False) if self.textures is None else self.textures.present(part, active)


@kernel_tree()
@dataclass
class PartNames:
    """What records say of the part that was hit."""

    numbers: Ints
    """Material, label, instance and 0, of no part and then of each."""
    diffuse: Reals
    """Diffuse reflectance at the wavelength."""

    def at(self, part: Ints) -> dict[str, Any]:
        """Material, label and instance of parts; NO_MATERIAL, 0 and 0 where nothing was hit."""
        dr, mi = running_engine().dr, running_engine().mi
        # NOTHING + 1 wraps to row 0, which stands for none.
        row = dr.gather(mi.Vector4u, self.numbers, part + 1)
        return {"material": row.x, "label": row.y, "instance": row.z}

    def reflectance(self, part: Ints) -> Reals:
        """Diffuse reflectance of parts at the wavelength; 0 where nothing was hit."""
        dr, mi, hit = running_engine().dr, running_engine().mi, part != NOTHING
        return dr.gather(mi.Float, self.diffuse, dr.select(hit, part, 0), hit)


class LightScene(DeviceOwned):
    """The scene and its surfaces on the device. Built once for a world, a sensor and a wavelength."""

    def __init__(
        self,
        world: World,
        kind: str,
        *,
        names: tuple[str, ...],
        wavelength_nm: float,
        covered: Covered = (),
        scenes: dict[Any, Any] | None = None,
        cell: Cell | None = None,
    ) -> None:
        """`kind` and `names` are those of the sensor, which objects may be hidden from.

        `covered` is what weather lies on.
        """
        self.scene: RayScene = shared_scene(world, kind, names, {} if scenes is None else scenes, cell)
        self.engine = self.scene.engine
        self.parts = world.parts
        materials, rows = covered_parts(world, covered)
        self.materials = tuple(materials)
        self.material_names = {**dict(enumerate(material.name for material in materials)), NO_MATERIAL: "none"}
        self.label_names = dict(world.label_names)
        self.material_rows: NDArray[Any] = rows
        """Number of the material of each part."""
        looked_up = part_numbers(world, rows)
        table = material_table(materials, wavelength_nm)
        textures = PartTextures.of(self.scene, world) if np.any(self.parts.texture >= 0) else None
        # Kernels cannot read from empty arrays, not even with all reading switched off: hence one row at least.
        reflection = np.zeros(2, np.float32)
        if materials:
            reflection = reflection_table(materials, wavelength_nm, textured=textures is not None)
        diffuse = (table["diffuse"] + table["curve_level"])[rows]
        diffuse = diffuse if len(rows) else np.zeros(1, np.float32)
        self.names = PartNames(self.engine.table(looked_up), self.engine.table(diffuse))
        split = table["mirror"][rows] + table["transmits"][rows] if len(rows) else np.zeros(0)
        albedo = table["diffuse"] + table["phong_specular"] + table["ct_f0"] + table["curve_level"]
        self.surfaces = Surfaces(
            materials=self.engine.table(rows if len(rows) else np.zeros(1, np.uint16)),
            reflection=self.engine.table(reflection),
            specular=self.engine.table(split > 0) if np.any(split > 0) else None,
            split=Columns.of(self.engine, table, _SPECULAR_COLUMNS, rows),
            brightest=self.engine.number(2.0 * float(np.max(albedo[rows], initial=0.0)) / np.pi),
            textures=textures,
        )


def light_scene(
    world: World, kind: str, *, names: tuple[str, ...], wavelength_nm: float, cell: Cell | None = None
) -> LightScene:
    """The target of a world for a kind of sensor, built on first use and kept until the world changes.

    `cell` is where the sensor is, if that is far from the middle of the world.
    """
    cache = scene_cache(world, cell)
    covered = () if world.weather is None else world.weather.covered
    key = (id(world.geometry(kind, *names)), wavelength_nm, covered, cell)
    if key not in cache:
        cache[key] = LightScene(
            world, kind, names=names, wavelength_nm=wavelength_nm, covered=covered, scenes=cache, cell=cell
        )
    target: LightScene = cache[key]
    return target
