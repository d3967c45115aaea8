"""World as seen by a camera: triangles, and their materials in each band."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import namespace
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.geometry import SceneGeometry
from parhelion.rays.lock import DeviceOwned
from parhelion.rays.origin import Cell
from parhelion.sensors.optics.appearance import Holes, Look, Looks, appearances
from parhelion.sensors.optics.camera.lights import Lamps, lamp_table
from parhelion.sensors.optics.scene import BandTextures, PartNames, Patches, static_parts
from parhelion.sensors.optics.surface_patterns import SurfacePatterns
from parhelion.sensors.scene import Covered, covered_parts, part_numbers, scene_cache, shared_scene
from parhelion.surfaces.appearance import (
    Appearance,
    burley_diffuse,
    dielectric_reflectance,
    diffuse_limit,
    facet_reflectance,
    facet_shape,
)
from parhelion.surfaces.bands import THERMAL_FROM_NM, Band, glow_radiance, material_band_table
from parhelion.surfaces.brdf import (
    INV_PI,
    coat_factor_between,
    cook_torrance_shape,
    fresnel_schlick,
    oren_nayar_between,
    phong_lobe_between,
    retro_lobe_between,
)
from parhelion.surfaces.library import material as material_called
from parhelion.surfaces.material import Material, specular_split
from parhelion.surfaces.thermal import VEHICLES, vehicle_rise
from parhelion.surfaces.wet import covered_columns, flooded_columns, wet_columns, wetted
from parhelion.weather.ground import Ground
from parhelion.world.world import World

# ---- Bistatic BRDFs in several bands, in kernels ---------------------------------------------------------------------
# The formulas are those of `surfaces/brdf.py`. BRDFs given as a monostatic curve (tabulated ones and Mitsuba's models)
# are undefined for other directions; here they are Lambertian with the same reflectance.


_COMMON = (
    ("sigma_rad", "phong_exponent", "ct_weight", "ct_roughness"),
    ("mirror", "pane_index", "transmits", "pane_transmittance"),
    ("retro_gain", "retro_width_rad", "lobe_share", "has_lobe"),
)
_SPECTRAL = ("diffuse", "phong_specular", "ct_f0", "emitted")
_ROWS = len(_COMMON)


@dataclass
class Surface:
    """Materials at the hit points of rays, as kernel variables."""

    common: dict[str, Any]
    bands: list[dict[str, Any]]
    """`diffuse` (texture included), `phong_specular`, `ct_f0` and `emitted` [W/(m^2 sr)] of each band."""
    features: frozenset[str]
    look: Look | None = None
    """Appearance, which replaces the material in the bands that see it."""
    lobe: dict[str, Any] | None = None
    """Columns for the sampling of directions, if they differ from those of the material."""

    def scattered(self, cos_i: Any, cos_o: Any, cos_io: Any) -> list[Any]:
        """BRDF of each band [1/sr] for two directions above the surface; 0 below it."""
        dr, common = running_engine().dr, self.common
        above = (cos_i > 0.0) & (cos_o > 0.0)
        body = oren_nayar_between(cos_i, cos_o, cos_io, reflectance=1.0, sigma_rad=common["sigma_rad"])
        if "coat" in self.features:
            body = body * (1.0 + common["ct_weight"] * (coat_factor_between(cos_i, cos_o) - 1.0))
        values = [band["diffuse"] * body for band in self.bands]
        if "phong" in self.features:
            lobe = phong_lobe_between(cos_i, cos_o, cos_io, specular=1.0, exponent=common["phong_exponent"])
            values = [v + band["phong_specular"] * lobe for v, band in zip(values, self.bands, strict=True)]
        if "facets" in self.features:
            shape, cos_half = cook_torrance_shape(cos_i, cos_o, cos_io, roughness=common["ct_roughness"])
            if "film" in self.features:
                shape = dr.select(common["has_lobe"] > 1.5, self._film(cos_i, cos_o, cos_half), shape)
                shape = dr.select(common["has_lobe"] > 0.0, shape, 0.0) * common["ct_weight"]
            else:
                shape = shape * common["has_lobe"] * common["ct_weight"]
            values = [
                v + shape * fresnel_schlick(cos_half, f0=band["ct_f0"])
                for v, band in zip(values, self.bands, strict=True)
            ]
        if "retro" in self.features:
            lobe = retro_lobe_between(
                cos_i, cos_o, cos_io, gain=common["retro_gain"], width_rad=common["retro_width_rad"]
            )
            values = [v + lobe for v in values]
        if self.look is not None:
            seen = self._looked(cos_i, cos_o, cos_io, self.look)
            values = [
                old if new is None else dr.select(self.look.there, new, old)
                for old, new in zip(values, seen, strict=True)
            ]
        return [dr.select(above, v, 0.0) for v in values]

    def _film(self, cos_i: Any, cos_o: Any, cos_half: Any) -> Any:
        """Lobe of a film of water without its Fresnel term [1/sr].

        Its masking is Smith's: that of `cook_torrance_shape` darkens smooth surfaces at grazing incidence, where wet
        roads mirror the sky.
        """
        xp = namespace(cos_i)
        cos_h = xp.clip(0.5 * (cos_i + cos_o) / xp.maximum(cos_half, 1e-4), 0.0, 1.0)
        return facet_shape(cos_i, cos_o, cos_h, roughness=self.common["ct_roughness"])

    def _looked(self, cos_i: Any, cos_o: Any, cos_io: Any, look: Look) -> list[Any]:
        """BRDF of the appearance in each band; `surfaces.appearance.metallic_roughness` with shared terms."""
        xp = namespace(cos_i)
        length = xp.sqrt(xp.maximum(2.0 + 2.0 * cos_io, 1e-30))
        cos_h, cos_d = xp.clip((cos_i + cos_o) / length, 0.0, 1.0), 0.5 * length
        body = (1.0 - look.metallic) * burley_diffuse(cos_i, cos_o, cos_d, roughness=look.roughness)
        limit = diffuse_limit(xp.minimum(cos_i, cos_o), roughness=look.roughness)
        facets = facet_shape(cos_i, cos_o, cos_h, roughness=look.roughness)
        dielectric = dielectric_reflectance(cos_d)
        return [
            None
            if base is None
            else xp.minimum(base, limit) * body
            + facets * facet_reflectance(cos_d, base=base, metallic=look.metallic, dielectric=dielectric)
            for base in look.base
        ]

    def with_look(self, look: Look) -> Surface:
        """Surface with an appearance."""
        dr, there = running_engine().dr, look.there
        bands, seen = list(self.bands), []
        for number, (base, emitted) in enumerate(zip(look.base, look.emitted, strict=True)):
            if base is not None:
                band = bands[number]
                diffuse = dr.select(there, base * (1.0 - look.metallic), band["diffuse"])
                bands[number] = {**band, "diffuse": diffuse, "emitted": dr.select(there, emitted, band["emitted"])}
                seen.append(base)
        if not seen:
            return self
        # A lobe of 4 % reflects bright sources: it gets at least a fifth of the rays.
        mean = sum(seen[1:], start=seen[0]) * (1.0 / len(seen))
        shine = 0.04 + look.metallic * (mean - 0.04)
        xp = namespace(mean)
        share = xp.clip(shine / xp.maximum(shine + (1.0 - look.metallic) * mean, 1e-6), 0.2, 0.9)
        lobe = {
            **self.common,
            "ct_roughness": dr.select(there, look.roughness, self.common["ct_roughness"]),
            "lobe_share": dr.select(there, share, self.common["lobe_share"]),
            "has_lobe": dr.select(there, 1.0, self.common["has_lobe"]),
        }
        return Surface(self.common, bands, self.features, look, lobe)

    def split(self, cosine: Any) -> tuple[Any, Any]:
        """Power fractions reflected specularly and transmitted, by the cosine of incidence."""
        return specular_split(cosine, self.common)

    def sampled(self, normal: Any, wo: Any, u: tuple[Any, Any, Any]) -> tuple[Any, Any]:
        """Sampled direction of light that is scattered towards `wo`, and its probability density [1/sr].

        `u` are three uniform numbers in (0, 1). Diffuse parts are sampled by the cosine, glossy ones by their lobe.
        """
        dr, mi, common = running_engine().dr, running_engine().mi, self.lobe or self.common
        xp = namespace(u[0])
        side, up = mi.coordinate_system(normal)
        turn = 2.0 * np.pi * u[1]
        sine, cosine = dr.sincos(turn)

        def around(axis_side: Any, axis_up: Any, axis: Any, cos: Any) -> Any:
            sin = dr.sqrt(xp.maximum(1.0 - cos * cos, 0.0))
            return axis_side * (sin * cosine) + axis_up * (sin * sine) + axis * cos

        matt = around(side, up, normal, dr.sqrt(u[0]))
        if not {"phong", "facets"} & self.features:
            return matt, xp.maximum(dr.dot(normal, matt), 0.0) * INV_PI
        share = common["lobe_share"]
        direction = matt
        cos_o = dr.dot(normal, wo)
        if "facets" in self.features:
            a2 = common["ct_roughness"] ** 4
            facet = around(side, up, normal, dr.sqrt((1.0 - u[0]) / (1.0 + (a2 - 1.0) * u[0])))
            mirrored = 2.0 * dr.dot(wo, facet) * facet - wo
            direction = dr.select((u[2] < share) & (common["has_lobe"] > 0.0), mirrored, direction)
        if "phong" in self.features:
            mirror = 2.0 * cos_o * normal - wo
            lobe_side, lobe_up = mi.coordinate_system(mirror)
            lobe = around(lobe_side, lobe_up, mirror, xp.power(u[0], 1.0 / (common["phong_exponent"] + 1.0)))
            direction = dr.select((u[2] < share) & (common["has_lobe"] == 0.0), lobe, direction)
        return direction, self.probability(normal, wo, direction)

    def probability(self, normal: Any, wo: Any, wi: Any) -> Any:
        """Probability density [1/sr] with which `sampled` returns the direction `wi`."""
        dr, common = running_engine().dr, self.lobe or self.common
        cos_i, cos_o, cos_io = dr.dot(normal, wi), dr.dot(normal, wo), dr.dot(wi, wo)
        xp = namespace(cos_i)
        matt = xp.maximum(cos_i, 0.0) * INV_PI
        if not {"phong", "facets"} & self.features:
            return matt
        lobe = 0.0 * matt
        if "facets" in self.features:
            length = dr.sqrt(xp.maximum(2.0 + 2.0 * cos_io, 1e-30))
            cos_h = xp.clip((cos_i + cos_o) / length, 0.0, 1.0)
            a2 = common["ct_roughness"] ** 4
            spread = (1.0 - cos_h) * (1.0 + cos_h) + a2 * cos_h * cos_h
            facets = a2 * INV_PI / (spread * spread) * cos_h / xp.maximum(2.0 * length, 1e-6)
            lobe = dr.select(common["has_lobe"] > 0.0, facets, lobe)
        if "phong" in self.features:
            n = common["phong_exponent"]
            peak = xp.power(xp.maximum(2.0 * cos_i * cos_o - cos_io, 1e-30), n) * (n + 1.0) * (0.5 * INV_PI)
            lobe = dr.select(common["has_lobe"] == 0.0, peak, lobe)
        share = common["lobe_share"]
        return matt + share * (lobe - matt)


@kernel_tree(fixed=("bands", "features"))
@dataclass
class BandSurfaces:
    """Materials of parts in several bands, on the device."""

    bands: int
    features: frozenset[str]
    """Features in use: phong, facets, film, coat, retro, specular, panes, emits. Kernels omit the others."""
    rows: Any

    @classmethod
    def of(
        cls,
        engine: Engine,
        table: dict[str, NDArray[Any]],
        looks: Collection[Appearance] = (),
        glow: NDArray[np.float32] | None = None,
    ) -> BandSurfaces:
        """Copy the columns of `surfaces.bands.material_band_table` per part; `looks` are the appearances in use.

        `glow` (parts, bands) is the radiance of luminous materials [W/(m^2 sr)].
        """
        bands = table["diffuse"].shape[1]
        count = max(1, len(table["diffuse"]))
        values: dict[str, NDArray[Any]] = dict(table)
        values["diffuse"] = table["diffuse"] + table["curve_level"]
        values["emitted"] = np.zeros_like(table["diffuse"]) if glow is None else glow
        lobes = np.maximum(table["phong_specular"], table["ct_f0"]).mean(axis=1)
        has_facets = (table["ct_weight"] > 0) & (table["ct_f0"].max(axis=1, initial=0.0) > 0)
        glossy = has_facets | (table["phong_specular"].max(axis=1, initial=0.0) > 0)
        # A coat reflects little, but it reflects bright sources: it gets at least a fifth of the rays.
        share = lobes / np.maximum(lobes + values["diffuse"].mean(axis=1), 1e-9)
        values["lobe_share"] = np.where(glossy, np.clip(share, 0.2, 0.9), 0.0)
        film = table.get("film", np.zeros(len(has_facets))) > 0
        values["has_lobe"] = has_facets.astype(np.float32) + film
        packed = np.zeros((count, _ROWS + bands, 4), np.float32)
        if len(table["diffuse"]):
            for row, names in enumerate(_COMMON):
                packed[:, row] = np.stack([values[name] for name in names], axis=1)
            packed[:, _ROWS:] = np.stack([values[name] for name in _SPECTRAL], axis=2)
        else:
            packed[:, 1, 1] = 1.0
        present = {
            "phong": np.any(table["phong_specular"] > 0),
            "facets": np.any(has_facets) or len(looks) > 0,
            "film": np.any(film),
            "coat": np.any(table["ct_weight"] > 0),
            "retro": np.any(table["retro_gain"] > 0),
            "specular": np.any(table["mirror"] + table["transmits"] > 0),
            "panes": np.any(table["transmits"] > 0),
            "emits": any(max(look.emission_cd_m2) > 0.0 for look in looks) or np.any(values["emitted"] > 0.0),
        }
        return cls(bands, frozenset(name for name, there in present.items() if there), engine.table(packed))

    def at(self, part: Any, texture: list[Any] | None, active: Any) -> Surface:
        """Materials of parts; `texture` is the factor per band on the diffuse reflectance."""
        dr, mi = running_engine().dr, running_engine().mi
        start = part * (_ROWS + self.bands)

        def row(k: int, names: tuple[str, ...]) -> dict[str, Any]:
            four = dr.gather(mi.Vector4f, self.rows, start + k, active)
            return dict(zip(names, (four.x, four.y, four.z, four.w), strict=True))

        common: dict[str, Any] = row(0, _COMMON[0])
        if "specular" in self.features:
            common |= row(1, _COMMON[1])
        if {"retro", "phong", "facets"} & self.features:
            common |= row(2, _COMMON[2])
        bands = [row(_ROWS + k, _SPECTRAL) for k in range(self.bands)]
        if texture is not None:
            for band, factor in zip(bands, texture, strict=True):
                band["diffuse"] = band["diffuse"] * factor
        return Surface(common, bands, self.features)


# ---- scene ----------------------------------------------------------------------------------------------------------


class CoveredScene(NamedTuple):
    """Surfaces of a scene in a state of the ground."""

    surfaces: BandSurfaces
    looks: Looks | None
    patches: Patches | None
    """Puddles and snow, whose rows follow those of the parts."""


class CameraScene(DeviceOwned):
    """Scene and surfaces on the device, in the bands of a camera."""

    def __init__(
        self,
        world: World,
        visibility_keys: tuple[str, ...],
        bands: tuple[Band, ...],
        covered: Covered,
        wet: bool,
        scenes: dict[Any, Any],
        cell: Cell | None,
    ) -> None:
        kind, *names = visibility_keys
        self.scene = shared_scene(world, kind, tuple(names), scenes, cell)
        self.engine = engine = self.scene.engine
        materials, rows = covered_parts(world, covered)
        parts = world.parts
        self.label_names = dict(world.label_names)
        self.materials, self.material_rows = materials, rows
        self.world_lamps = world.lamps
        names_of_bands = tuple(band.name for band in bands)
        textured = np.any(parts.texture >= 0)
        self.textures = BandTextures.of(self.scene, world, names_of_bands) if textured else None
        self.bands = bands
        self._wet, self._static = wet, static_parts(world)
        self._in_weather: tuple[tuple[Ground, bool], CoveredScene] | None = None
        self.surfaces: BandSurfaces | None = None
        """Reflectance of parts; None for thermal cameras, which use `material_rows`."""
        self._at_night: BandSurfaces | None = None
        self.heat: Any = None
        """Temperature rise of each triangle by engines and rolling tyres [K], on the device; None without any."""
        self.looks: Looks | None = None
        self.holes: Holes | None = None
        self.patterns: SurfacePatterns | None = None
        """Patterns of materials; None without any, and for thermal cameras."""
        self._lamps: dict[bool, Lamps | None] = {}
        numbers = engine.table(part_numbers(world, rows))
        # Kernels cannot read from empty arrays, so there is at least one row.
        self.names = PartNames(numbers, engine.table(np.zeros(max(1, len(rows)), np.float32)))
        if is_thermal(bands):
            heat = vehicle_heat(world, self.scene.geometry, materials, rows)
            self.heat = None if heat is None else engine.table(heat)
            return

        def diffuse_of(some: list[Material]) -> NDArray[Any]:
            columns = material_band_table(some, bands)
            found: NDArray[Any] = columns["diffuse"] + columns["curve_level"]
            return found

        self.patterns = SurfacePatterns.of(self.scene, world, materials, rows, diffuse_of)
        table = material_band_table(materials, bands)
        if wet:
            table = wetted(table, materials)
        of_parts = {name: values[rows] for name, values in table.items()}
        diffuse = (of_parts["diffuse"] + of_parts["curve_level"]).mean(axis=1) if len(rows) else np.zeros(1)
        self.names = PartNames(numbers, engine.table(diffuse.astype(np.float32)))
        looks = self._appearances = appearances(world, rows)
        self.holes = Holes.of(self.scene, looks, len(rows))
        if looks:
            self.looks = Looks.of(self.scene, looks, bands, self._darkening(of_parts))
        self.surfaces = BandSurfaces.of(
            engine, of_parts, looks.values(), glow_radiance(materials, bands, night=False)[rows]
        )
        at_night = glow_radiance(materials, bands, night=True)[rows]
        if at_night.any():
            self._at_night = BandSurfaces.of(engine, of_parts, looks.values(), at_night)
        for night in (False, True):
            lamps = lamp_table(world, bands, night=night, sensor=visibility_keys)
            self._lamps[night] = Lamps.of(engine, lamps, self.scene.origin) if len(lamps) else None

    def _darkening(self, of_parts: dict[str, NDArray[Any]]) -> NDArray[Any]:
        """Ratio of the diffuse reflectance of parts to that of their dry materials, mean of all bands."""
        dry = np.asarray(material_band_table(self.materials, self.bands)["diffuse"])[self.material_rows]
        ratio = (of_parts["diffuse"].sum(axis=1) / np.maximum(dry.sum(axis=1), 1e-9)).clip(0.0, 1.0)
        ratio[dry.sum(axis=1) <= 0.0] = 1.0
        return np.asarray(ratio)

    def in_weather(self, ground: Ground | None, *, night: bool) -> CoveredScene:
        """Surfaces by night or by day in a state of the ground; the last one is cached. None is dry ground."""
        surfaces = self.surfaces_at(night=night)
        assert surfaces is not None
        if ground is None or not self.materials:
            return CoveredScene(surfaces, self.looks, None)
        if self._in_weather is None or self._in_weather[0] != (ground, night):
            self._in_weather = (ground, night), self._covered(ground, night=night)
        return self._in_weather[1]

    def _covered(self, ground: Ground, *, night: bool) -> CoveredScene:
        materials, bands, rows = self.materials, self.bands, self.material_rows
        nm = np.array([band.centre_nm for band in bands])
        dry = material_band_table(materials, bands)
        wet = wetted(dry, materials) if self._wet else wet_columns(dry, materials, ground.wetness, nm)
        glow = glow_radiance(materials, bands, night=night)
        looks = self.looks
        if looks is not None:
            of_parts = {name: values[rows] for name, values in wet.items()}
            looks = looks.wetted(self.scene, self._appearances, self._darkening(of_parts))
        blocks, all_rows, patches = [wet], rows.astype(np.int64), None
        if ground.is_patchy:
            snow = material_band_table([material_called("snow")], bands)
            blocks += [flooded_columns(dry, nm), covered_columns(dry, snow)]
            glow = np.concatenate([glow, np.zeros_like(glow), np.zeros_like(glow)])
            all_rows = np.concatenate([all_rows + len(materials) * block for block in range(3)])
            patches = self.patches_in(ground)
        table = {name: np.concatenate([one[name] for one in blocks])[all_rows] for name in dry}
        if not self._wet and ground.wetness:
            # Marks the lobes of films, which wet columns add to porous materials.
            film = wet["ct_weight"] > dry["ct_weight"]
            table["film"] = np.concatenate([film, np.zeros(len(materials) * (len(blocks) - 1), bool)])[all_rows]
        surfaces = BandSurfaces.of(self.engine, table, self._appearances.values(), glow[all_rows])
        return CoveredScene(surfaces, looks, patches)

    def patches_in(self, ground: Ground | None) -> Patches | None:
        """Puddles and snow in a state of the ground; None without any."""
        if ground is None or not ground.is_patchy:
            return None
        return Patches.of(self.scene, self._static, len(self.materials), ground)

    def thermal_materials(self, ground: Ground | None) -> tuple[list[Material], NDArray[Any]]:
        """Materials, and their numbers per part: with puddles or snow, a block of water and a block of snow follow."""
        if ground is None or not ground.is_patchy:
            return self.materials, self.material_rows
        rows, count = self.material_rows.astype(np.int64), len(self.materials)
        more = [np.full(len(rows), count + block) for block in range(2)]
        return [*self.materials, material_called("water"), material_called("snow")], np.concatenate([rows, *more])

    def surfaces_at(self, *, night: bool) -> BandSurfaces | None:
        """Surfaces, with those that glow by night or by day."""
        return self.surfaces if self._at_night is None or not night else self._at_night

    def lamps(self, *, night: bool) -> Lamps | None:
        """Lamps that are lit by night, or by day, in the current time window."""
        found = self._lamps[night]
        return None if found is None else found.with_bodies(self.scene.moving)


def vehicle_heat(
    world: World, geometry: SceneGeometry, materials: list[Material], rows: NDArray[Any]
) -> NDArray[np.float32] | None:
    """Temperature rise of all triangles by engines and tyres of moving vehicles [K], or None if there are none.

    Triangles are numbered as in ray hits: static ones first, then those of each actor. Vehicles face along x.
    """
    numbers = [number for number, name in world.label_names.items() if name in VEHICLES]
    parts = world.parts
    rises = [np.zeros(len(geometry.static), np.float32)]
    for actor in geometry.actors:
        triangles = actor.triangles
        rise = np.zeros(len(triangles), np.float32)
        if len(triangles) and np.isin(parts.label[triangles.part], numbers).all():
            x = triangles.vertices[triangles.faces, 0].mean(axis=1)
            length = max(float(np.ptp(triangles.vertices[:, 0])), 1e-6)
            along = (x - triangles.vertices[:, 0].min()) / length
            for row in np.unique(triangles.part):
                here = triangles.part == row
                rise[here] = vehicle_rise(materials[rows[row]].name, along[here])
        rises.append(rise)
    found = np.concatenate(rises)
    return found if found.any() else None


def is_thermal(bands: tuple[Band, ...]) -> bool:
    """Return True if the bands measure thermal emission instead of the light of sun and lamps."""
    return bands[0].centre_nm > THERMAL_FROM_NM


def camera_target(
    world: World, visibility_keys: tuple[str, ...], bands: tuple[Band, ...], cell: Cell | None = None
) -> CameraScene:
    """Scene of a world for a camera, built on first use and cached until the world changes."""
    cache = scene_cache(world, cell)
    covered = () if world.weather is None else world.weather.covered
    kind, *names = visibility_keys
    # A stated wetness replaces the darkening by rain.
    wet = world.weather is not None and world.weather.is_wet and world.weather.wetness is None
    # Lamps can change while the geometry stays the same, so they are part of the key.
    lamps = tuple(id(entry) for entry in world.lamps)
    key = ("camera", id(world.geometry(kind, *names)), bands, covered, wet, lamps, world.patterns, cell)
    if key not in cache:
        cache[key] = CameraScene(world, visibility_keys, bands, covered, wet, cache, cell)
    target: CameraScene = cache[key]
    return target
