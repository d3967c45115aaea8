"""World as seen by a light sensor of one wavelength: ray scene, and lookup tables for hits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import UNSET, Bool, Float, Int, Masks, Vectors
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.lock import DeviceOwned
from parhelion.rays.origin import Cell
from parhelion.rays.scene import NOTHING, RayScene, Trace
from parhelion.sensors.optics.appearance import LUMINANCE, Holes, appearances, corner_uv
from parhelion.sensors.optics.surface_patterns import SurfacePatterns
from parhelion.sensors.scene import NO_MATERIAL, Covered, covered_parts, part_numbers, scene_cache, shared_scene
from parhelion.surfaces.library import material as material_called
from parhelion.surfaces.material import COLUMNS, Material, material_table, reflected, reflection_table, specular_split
from parhelion.surfaces.texture import TextureAtlas, linear_srgb, sample_texture
from parhelion.surfaces.wet import covered_columns, flooded_columns, wet_columns
from parhelion.weather.ground import Ground, in_puddle, in_snow, patch_level, patch_tile, tile_value
from parhelion.world.world import World

# ---- Textures on the device -----------------------------------------------------------------------------------------


@kernel_tree()
@dataclass
class PartTextures:
    """Textures of parts, looked up at the texture coordinates of hits."""

    row: Int
    """Atlas row of each part, 0 for parts without a texture."""
    uv: Float
    """Texture coordinates of the triangle corners."""
    texels: Float
    offset: Int
    width: Int
    height: Int

    @classmethod
    def of(cls, scene: RayScene, world: World) -> PartTextures:
        """Copy the textures of a world to the device."""
        table = scene.engine.table
        atlas = TextureAtlas.pack(world.textures)
        # Row 0 of the atlas is white: parts without a texture (-1) keep their reflectance.
        return cls(
            table(world.parts.texture + 1),
            table(corner_uv(scene)),
            *(table(a) for a in (atlas.texels, atlas.offset, atlas.width, atlas.height)),
        )

    def present(self, part: Int, active: Bool) -> Bool:
        """Mask of the parts that have a texture."""
        return running_engine().dr.gather(running_engine().mi.UInt32, self.row, part, active) > 0

    def factor(self, part: Int, hit: Trace, active: Bool) -> Float:
        """Reflectance factor in [0, 1] at hits; 1 for parts without a texture."""
        u, v, place = self._places(part, hit, active)
        return cast("Float", sample_texture(u, v, texels=self.texels, **place))

    def _places(self, part: Any, hit: Any, active: Any) -> tuple[Any, Any, dict[str, Any]]:
        """Texture coordinates of hits, and atlas entries of their textures."""
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
"""Texture channel of each band name; all other bands use the grey value, as lidars do."""


@kernel_tree(fixed=("bands",))
@dataclass
class BandTextures:
    """Textures for the bands of a camera: texels have colours and are interpolated."""

    bands: tuple[str, ...]
    """Names of the bands."""
    grey: PartTextures
    """Textures whose texels are rows of linear red, green and blue, and grey."""

    @classmethod
    def of(cls, scene: RayScene, world: World, bands: tuple[str, ...]) -> BandTextures:
        """Copy the textures of a world, with colours where available, to the device."""
        table = scene.engine.table
        atlas = TextureAtlas.pack(world.textures)
        texels = np.repeat(atlas.texels[:, None], 4, axis=1)
        for row, colours in world.texture_colours.items():
            start = int(atlas.offset[row + 1])
            texels[start : start + colours[:, :, 0].size, :3] = linear_srgb(colours).reshape(-1, 3)
        tables = (world.parts.texture + 1, corner_uv(scene), texels, atlas.offset, atlas.width, atlas.height)
        return cls(bands, PartTextures(*(table(one) for one in tables)))

    def factors(self, part: Int, hit: Trace, active: Bool) -> list[Float]:
        """Reflectance factor in [0, 1] of each band at hits; 1 for parts without a texture."""
        dr, mi = running_engine().dr, running_engine().mi
        u, v, place = self.grey._places(part, hit, active)
        four: Any = sample_texture(
            u,
            v,
            texels=self.grey.texels,
            bilinear=True,
            **place,
            read=lambda texels, at: dr.gather(mi.Vector4f, texels, at),
        )
        seen = {"red": four.x, "green": four.y, "blue": four.z, "grey": four.w}
        red, green, blue = LUMINANCE
        seen["luminance"] = red * four.x + green * four.y + blue * four.z
        return [seen[CHANNELS.get(name, "grey")] for name in self.bands]


# ---- puddles and snow -----------------------------------------------------------------------------------------------


@kernel_tree()
@dataclass
class Patches:
    """Puddles and snow on the static parts of a world: tables have one block of rows each for bare, flooded and
    snowy."""

    materials: Int
    """Number of materials."""
    parts: Int
    """Number of parts."""
    exposed: Int
    """1 for parts on which puddles and snow lie, 0 for parts of moving objects."""
    puddle_tile: Float
    snow_tile: Float
    puddles: Float
    """Level of the tile below which puddles lie."""
    snow: Float
    x: Float
    y: Float
    """Origin of the scene's local frame in the world [m]."""

    @classmethod
    def of(cls, scene: RayScene, static: NDArray[np.bool_], materials: int, ground: Ground) -> Patches:
        """Patches of a state of the ground; `static` is the mask of static parts."""
        engine = scene.engine
        levels = (
            patch_level(ground.seed, "puddles", ground.puddles),
            patch_level(ground.seed, "snow", ground.snow_cover),
        )
        return cls(
            engine.whole(materials),
            engine.whole(max(1, len(static))),
            engine.table((static if len(static) else np.zeros(1)).astype(np.uint32)),
            *(engine.table(patch_tile(ground.seed, name)) for name in ("puddles", "snow")),
            *(engine.number(level) for level in levels),
            *(engine.number(float(one)) for one in scene.origin[:2]),
        )

    def blocks(self, part: Int, place: Vectors, up: Float, active: Masks) -> Int:
        """Block of hits: 0 bare, 1 under a puddle, 2 under snow.

        `place` is in the scene's local frame; `up` is the upward component of the normal on the visible side.
        """
        dr, mi = running_engine().dr, running_engine().mi
        exposed = active & (dr.gather(mi.UInt32, self.exposed, part, active) > 0)
        x, y = place.x + self.x, place.y + self.y
        wet = exposed & in_puddle(tile_value(self.puddle_tile, x, y), up, self.puddles)
        white = exposed & in_snow(tile_value(self.snow_tile, x, y), up, self.snow)
        return dr.select(white, mi.UInt32(2), dr.select(wet, mi.UInt32(1), 0))


# ---- scene ----------------------------------------------------------------------------------------------------------


_SPECULAR_COLUMNS = ("mirror", "pane_index", "transmits", "pane_transmittance", "water_attenuation", "rough_water")


@kernel_tree(fixed=("shared", "names"))
@dataclass
class Columns:
    """Numbers per part. Values common to all parts are stored once; the others are packed four to a row."""

    shared: tuple[tuple[str, float], ...]
    """Names and values common to all parts."""
    names: tuple[str, ...]
    """Names of the packed columns."""
    packed: Float
    """Packed columns, or None if there are none."""

    @classmethod
    def of(
        cls, engine: Engine, table: dict[str, NDArray[np.float32]], names: tuple[str, ...], rows: NDArray[Any]
    ) -> Columns:
        """Columns of a material table; `rows` is the material row of each part."""
        shared = {name: float(table[name][rows[0]]) if len(rows) else COLUMNS[name] for name in names}
        varying = [name for name in names if len(rows) and np.any(table[name][rows] != shared[name])]
        width = 4 * ((len(varying) + 3) // 4)
        packed = np.zeros((len(rows), width), np.float32)
        for column, name in enumerate(varying):
            packed[:, column] = table[name][rows]
            del shared[name]
        return cls(tuple(shared.items()), tuple(varying), engine.table(packed) if varying else UNSET)

    def at(self, part: Int, active: Bool) -> dict[str, Any]:
        """Numbers of parts by name."""
        dr, mi = running_engine().dr, running_engine().mi
        values: dict[str, Any] = dict(self.shared)
        groups = (len(self.names) + 3) // 4
        for group in range(groups):
            row = dr.gather(mi.Vector4f, self.packed, part * groups + group, active)
            for name, value in zip(self.names[4 * group : 4 * group + 4], (row.x, row.y, row.z, row.w), strict=False):
                values[name] = value
        return values


@kernel_tree(fixed=("has_water",))
@dataclass
class Surfaces:
    """Surface tables for kernels, by part number."""

    materials: Float
    """Material number of each part."""
    reflection: Float
    """Reflection table of all materials."""
    specular: Float
    """1 for parts that reflect specularly or transmit, 0 for others; None if there are none."""
    split: Columns
    """Specular reflection and transmission of parts."""
    brightest: Float
    """Twice the Lambertian BRDF of the brightest part [1/sr]; only glints and retro-reflectors exceed it."""
    textures: PartTextures | None
    holes: Holes | None = None
    patterns: SurfacePatterns | None = None
    patches: Patches | None = None
    """Puddles and snow; None if there are none."""
    has_water: bool = False
    """True if lidars see the bottom of some water."""

    def material(self, part: Int, active: Bool) -> Int:
        """Material numbers of parts."""
        return running_engine().dr.gather(running_engine().mi.UInt32, self.materials, part, active)

    def reflected(
        self,
        part: Int,
        material: Int,
        cos_theta: Float,
        hit: Trace | None,
        active: Bool,
        pattern: Float | None = None,
    ) -> Float:
        """BRDF towards the sensor times the cosine of incidence [1/sr], textures included.

        Sub-rays that were filled in have no hit of their own (None), but are never on textured parts. `pattern` is the
        factor of the pattern; None is 1.
        """
        texture: Any = None
        if self.textures is not None or self.patterns is not None:
            texture = 1.0 if pattern is None else pattern
        if self.textures is not None and hit is not None:
            texture = texture * self.textures.factor(part, hit, active)
        return cast("Float", reflected(cos_theta, material, self.reflection, texture=texture, active=active))

    @property
    def has_specular(self) -> bool:
        """True if any part reflects specularly or transmits."""
        return self.specular is not None

    def is_specular(self, part: Int, active: Bool) -> Bool:
        """Mask of the parts that reflect specularly or transmit."""
        if self.specular is None:
            return running_engine().mi.Bool(False)
        return running_engine().dr.gather(running_engine().mi.UInt32, self.specular, part, active) != 0

    def specular_split(
        self, part: Int, cos_theta: Float, active: Bool, place: Vectors, up: Float
    ) -> tuple[Float, Float]:
        """Power fractions of the reflected and the transmitted path; both are 0 for ordinary surfaces.

        `place` and `up` are as for `Patches.blocks`.
        """
        row = part
        if self.patches is not None:
            # The columns of the split have blocks of parts, and those of the reflection blocks of materials.
            row = part + self.patches.blocks(part, place, up, active) * self.patches.parts
        return cast("tuple[Float, Float]", specular_split(cos_theta, self.split.at(row, active)))

    def water(self, part: Int, active: Bool) -> tuple[Float, Float]:
        """Refractive index and attenuation [1/m] of water with a visible bottom; an index of 1 for other parts."""
        mi, dr = running_engine().mi, running_engine().dr
        columns = self.split.at(part, active)
        attenuation = mi.Float(columns["water_attenuation"])
        return dr.select(attenuation > 0.0, mi.Float(columns["pane_index"]), 1.0), attenuation

    def textured(self, part: Int, active: Bool) -> Bool:
        """Mask of the parts that have a texture, or holes."""
        found = running_engine().mi.Bool(False) if self.textures is None else self.textures.present(part, active)
        return found if self.holes is None else found | self.holes.present(part, active)


@kernel_tree()
@dataclass
class PartNames:
    """Metadata of parts for records."""

    numbers: Int
    """Material, label, instance and 0: one row for no hit, then one per part."""
    diffuse: Float
    """Diffuse reflectance of each part at the wavelength."""

    def at(self, part: Int) -> dict[str, Any]:
        """Material, label and instance of parts; NO_MATERIAL, 0 and 0 without a hit."""
        dr, mi = running_engine().dr, running_engine().mi
        # NOTHING + 1 wraps to row 0, the row for no hit.
        row = dr.gather(mi.Vector4u, self.numbers, part + 1)
        return {"material": row.x, "label": row.y, "instance": row.z}

    def reflectance(self, part: Int) -> Float:
        """Diffuse reflectance of parts at the wavelength; 0 without a hit."""
        dr, mi, hit = running_engine().dr, running_engine().mi, part != NOTHING
        return dr.gather(mi.Float, self.diffuse, dr.select(hit, part, 0), hit)


class LightScene(DeviceOwned):
    """Scene and surfaces on the device, for one world, kind of sensor and wavelength."""

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
        """Build the scene. `kind` and `names` identify the sensor, from which objects may be hidden.

        `covered` lists the surfaces that weather covers.
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
        self._wavelength_nm = wavelength_nm
        self._static = static_parts(world)
        self._in_weather: tuple[Ground, Surfaces] | None = None
        looked_up = part_numbers(world, rows)
        table = material_table(materials, wavelength_nm)
        has_water = bool(np.any(table["water_attenuation"] > 0.0))
        whole = table["diffuse"] + table["curve_level"]
        if has_water:
            # The light that returns from a body of water comes from its depth, which lidars resolve.
            table["diffuse"] = np.where(table["water_attenuation"] > 0.0, np.float32(0.0), table["diffuse"])
        textures = PartTextures.of(self.scene, world) if np.any(self.parts.texture >= 0) else None
        patterns = SurfacePatterns.of(
            self.scene, world, materials, rows, partial(_diffuse, wavelength_nm=wavelength_nm)
        )
        # Kernels cannot read from empty arrays, even if all lanes are inactive, so there is at least one row.
        reflection = np.zeros(2, np.float32)
        if materials:
            varied = textures is not None or patterns is not None
            reflection = reflection_table(materials, wavelength_nm, textured=varied, table=table)
        diffuse = whole[rows]
        diffuse = diffuse if len(rows) else np.zeros(1, np.float32)
        self.names = PartNames(self.engine.table(looked_up), self.engine.table(diffuse))
        split = table["mirror"][rows] + table["transmits"][rows] if len(rows) else np.zeros(0)
        albedo = table["diffuse"] + table["phong_specular"] + table["ct_f0"] + table["curve_level"]
        self.surfaces = Surfaces(
            materials=self.engine.table(rows if len(rows) else np.zeros(1, np.uint16)),
            reflection=self.engine.table(reflection),
            specular=self.engine.table(split > 0) if np.any(split > 0) else UNSET,
            split=Columns.of(self.engine, table, _SPECULAR_COLUMNS, rows),
            brightest=self.engine.number(2.0 * float(np.max(albedo[rows], initial=0.0)) / np.pi),
            textures=textures,
            holes=Holes.of(self.scene, appearances(world, rows), len(rows)),
            patterns=patterns,
            has_water=has_water,
        )

    def surfaces_in(self, ground: Ground | None) -> Surfaces:
        """Surfaces in a state of the ground; the last one is cached. None is dry ground."""
        if ground is None or not self.materials:
            return self.surfaces
        if self._in_weather is None or self._in_weather[0] != ground:
            self._in_weather = ground, self._covered(ground)
        return self._in_weather[1]

    def _covered(self, ground: Ground) -> Surfaces:
        dry, nm, rows, engine = self.surfaces, self._wavelength_nm, self.material_rows, self.engine
        textured = dry.textures is not None or dry.patterns is not None
        table = material_table(self.materials, nm)
        wet = wet_columns(table, self.materials, ground.wetness, nm)
        reflection = reflection_table(self.materials, nm, textured=textured, table=wet)
        if not ground.is_patchy:
            return replace(dry, reflection=engine.table(reflection))
        flooded, snow = flooded_columns(table, nm), material_table([material_called("snow")], nm)
        below = reflection_table(self.materials, nm, textured=textured, table=flooded)
        white = reflection_table([material_called("snow")], nm, textured=textured)
        if textured:
            white = np.concatenate([np.zeros_like(white[..., :2]), white[..., :2]], axis=-1)  # textures lie below snow
        blocks = [wet, flooded, covered_columns(table, snow)]
        split = {name: np.concatenate([one[name] for one in blocks]) for name in _SPECULAR_COLUMNS}
        count = len(self.materials)
        # Parts of moving objects are always in the first block.
        all_rows = np.concatenate([rows.astype(np.int64) + count * block for block in range(3)])
        mirrors = split["mirror"][all_rows] + split["transmits"][all_rows]
        specular = mirrors.reshape(3, -1)[: 2 if ground.puddles else 1].max(axis=0) > 0
        albedo = np.concatenate([one["diffuse"] + one["phong_specular"] + one["ct_f0"] for one in blocks])
        return replace(
            dry,
            reflection=engine.table(np.concatenate([reflection, below, np.repeat(white, count, axis=0)])),
            specular=engine.table(specular) if np.any(specular) else UNSET,
            split=Columns.of(engine, split, _SPECULAR_COLUMNS, all_rows),
            brightest=engine.number(2.0 * float(np.max(albedo, initial=0.0)) / np.pi),
            patches=Patches.of(self.scene, self._static, count, ground),
        )


def static_parts(world: World) -> NDArray[np.bool_]:
    """Mask of the parts that belong to no moving object."""
    static = np.ones(len(world.parts), bool)
    static[[part.number for item in world.objects if item.trajectory is not None for part in item.parts]] = False
    return static


def upward(normal: Vectors, direction: Vectors) -> Float:
    """Upward component of normals on the side from which a ray comes."""
    dr = running_engine().dr
    return dr.select(dr.dot(normal, direction) > 0.0, -normal.z, normal.z)


def _diffuse(materials: list[Material], *, wavelength_nm: float) -> NDArray[np.float32]:
    """Diffuse reflectance of materials, shape (materials, 1)."""
    table = material_table(materials, wavelength_nm)
    found: NDArray[np.float32] = (table["diffuse"] + table["curve_level"])[:, None]
    return found


def light_scene(
    world: World, kind: str, *, names: tuple[str, ...], wavelength_nm: float, cell: Cell | None = None
) -> LightScene:
    """Scene of a world for a kind of sensor, built on first use and cached until the world changes.

    `cell` is the cell of the sensor if it is far from the centre of the world.
    """
    cache = scene_cache(world, cell)
    covered = () if world.weather is None else world.weather.covered
    key = (id(world.geometry(kind, *names)), wavelength_nm, covered, world.patterns, cell)
    if key not in cache:
        cache[key] = LightScene(
            world, kind, names=names, wavelength_nm=wavelength_nm, covered=covered, scenes=cache, cell=cell
        )
    target: LightScene = cache[key]
    return target
