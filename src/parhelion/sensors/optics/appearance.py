"""Appearance of model files on the device: pictures, metallic-roughness surfaces of cameras, and holes.

Only parts with an appearance (`surfaces/appearance.py`) are affected; kernels of other worlds omit all of this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Float, Int, Masks, Vectors, Vectors4, namespace
from parhelion.rays.device import engine as running_engine
from parhelion.rays.device import kernel_tree
from parhelion.rays.moving import rotate
from parhelion.rays.replay import SceneArrays
from parhelion.rays.scene import NOTHING, RayScene, Trace
from parhelion.surfaces.appearance import LEAST_ROUGHNESS, SRGB_TO_LINEAR, Appearance, Picture
from parhelion.surfaces.bands import Band, radiant_per_lumen
from parhelion.surfaces.texture import sample_texture
from parhelion.world.world import World

MOST_LAYERS = 16
"""Largest number of surfaces with holes that one ray passes; light behind more of them is neglected."""
WHITE_K = 6504.0
"""Colour temperature of an emission of equal red, green and blue: sRGB's white, D65 [K]."""
LUMINANCE = (0.2126, 0.7152, 0.0722)
"""Weights of linear red, green and blue in the luminance (sRGB's primaries, IEC 61966-2-1)."""
CHANNELS = {"red": 0, "green": 1, "blue": 2, "mono": 3}
"""Channel of each band name; 3 is the luminance. All other bands see the material class."""


def appearances(world: World, material_rows: NDArray[Any]) -> dict[int, Appearance]:
    """Appearance of parts by number.

    Parts that weather covers have none, and neither do smooth ones: glass, mirrors and water keep their own optics.
    """
    own = world.parts.material
    return {
        part.number: part.appearance
        for item in world.objects
        for part in item.parts
        if part.appearance is not None
        and part.material.specular is None
        and material_rows[part.number] == own[part.number]
    }


def corner_uv(scene: RayScene) -> NDArray[np.float32]:
    """Texture coordinates of all triangle corners, shape (n, 6)."""
    geometry = scene.geometry
    corners = []
    for triangles in (geometry.static, *(actor.triangles for actor in geometry.actors)):
        uv = np.zeros((len(triangles), 3, 2), np.float32) if triangles.uv is None else triangles.uv
        corners.append(uv.reshape(-1, 6))
    return np.concatenate(corners)


# ---- pictures -------------------------------------------------------------------------------------------------------


@kernel_tree()
@dataclass
class Pictures:
    """Images of 8 bits per channel, one word per texel. Number 0 is a white texel."""

    texels: Int
    offset: Int
    width: Int
    height: Int
    uv: Float
    """Texture coordinates of the triangle corners."""

    @classmethod
    def of(cls, scene: RayScene, pictures: Sequence[Picture]) -> Pictures:
        """Copy images to the device."""
        words = [np.full(1, 0xFFFFFFFF, np.uint32)]
        words += [np.ascontiguousarray(one.pixels).view("<u4").ravel() for one in pictures]
        sizes = np.array([len(one) for one in words], np.int64)
        shapes = np.array([(1, 1), *(one.pixels.shape[:2] for one in pictures)], np.uint32)
        table = scene.engine.table
        first = (np.cumsum(sizes) - sizes).astype(np.uint32)
        height, width = (np.ascontiguousarray(shapes[:, axis]) for axis in (0, 1))
        return cls(table(np.concatenate(words)), table(first), table(width), table(height), table(corner_uv(scene)))

    def place(self, hit: Trace, active: Masks) -> tuple[Float, Float]:
        """Texture coordinates of hits."""
        dr, mi = running_engine().dr, running_engine().mi
        base = dr.select(active, hit.triangle, 0) * 6
        corner = [dr.gather(mi.Float, self.uv, base + k, active) for k in range(6)]
        w = 1.0 - hit.u - hit.v
        return (
            w * corner[0] + hit.u * corner[2] + hit.v * corner[4],
            w * corner[1] + hit.u * corner[3] + hit.v * corner[5],
        )

    def sample(self, picture: Int, uv: tuple[Float, Float], curve: Float | None = None) -> Vectors4:
        """Red, green, blue and alpha in [0, 1], interpolated; `curve` maps the 8-bit values of the colours."""
        dr, mi = running_engine().dr, running_engine().mi

        def read(texels: Int, at: Int) -> Vectors4:
            word = dr.gather(mi.UInt32, texels, at)
            channel = [(word >> shift) & 255 for shift in (0, 8, 16, 24)]
            values = [mi.Float(one) * (1.0 / 255.0) for one in channel]
            if curve is not None:
                values[:3] = [dr.gather(mi.Float, curve, one) for one in channel[:3]]
            return mi.Vector4f(*values)

        offset, width, height = (dr.gather(mi.UInt32, one, picture) for one in (self.offset, self.width, self.height))
        found: Any = sample_texture(
            *uv, texels=self.texels, offset=offset, width=width, height=height, bilinear=True, read=read
        )
        return cast("Vectors4", found)


# ---- holes ----------------------------------------------------------------------------------------------------------


@kernel_tree()
@dataclass
class Holes:
    """Opacity of parts whose appearance has holes: rays pass where the alpha value is low."""

    row: Int
    """1 + row in `numbers` for parts with holes, 0 for others."""
    numbers: Float
    """Opacity, cutoff, and 1 for a mask or 0 for a blend; one spare."""
    picture: Int
    pictures: Pictures

    @classmethod
    def of(cls, scene: RayScene, looks: Mapping[int, Appearance], parts: int) -> Holes | None:
        """Copy the opacity of parts to the device; None if no part has holes."""
        holed = {number: look for number, look in looks.items() if look.has_holes}
        if not holed:
            return None
        pictures, numbers = _numbered([look.base_picture for look in holed.values()])
        values = [(look.opacity, look.alpha_cutoff, float(look.alpha_mode == "mask"), 0.0) for look in holed.values()]
        table = scene.engine.table
        row = np.zeros(max(1, parts), np.uint32)
        row[list(holed)] = np.arange(1, len(holed) + 1)
        return cls(table(row), table(np.array(values, np.float32)), table(numbers), Pictures.of(scene, pictures))

    def present(self, part: Int, active: Masks) -> Masks:
        """Mask of the parts that have holes."""
        return running_engine().dr.gather(running_engine().mi.UInt32, self.row, part, active) > 0

    def opacity(self, hit: Trace, active: Masks) -> Float:
        """Opacity at hits in [0, 1]; masks are 0 or 1."""
        dr, mi = running_engine().dr, running_engine().mi
        row = dr.gather(mi.UInt32, self.row, dr.select(active, hit.part, 0), active)
        holed = active & (row > 0)
        row = dr.select(holed, row - 1, 0)
        four = dr.gather(mi.Vector4f, self.numbers, row, holed)
        picture = dr.gather(mi.UInt32, self.picture, row, holed)
        alpha = self.pictures.sample(picture, self.pictures.place(hit, holed)).w * four.x
        alpha = dr.select(four.z > 0.0, dr.select(alpha >= four.y, 1.0, 0.0), alpha)
        return dr.select(holed, alpha, 1.0)


def trace_through(
    cast: SceneArrays,
    holes: Holes | None,
    origin: Vectors,
    direction: Vectors,
    time: Float,
    limit: Float,
    active: Masks = True,
    *,
    step_off: Any,
    draw: Float | None = None,
    coherent: bool = False,
) -> Trace:
    """As `RayScene.trace`, but rays pass through holes.

    A surface stops a ray with the probability of its opacity, for which `draw` is a uniform number; without `draw`,
    surfaces of an opacity of at least 0.5 stop rays. `step_off` is a function of the distance [m] from the last surface
    to the offset of the next ray [m].
    """
    hit = cast.trace(origin, direction, time, limit, active, coherent=coherent)
    if holes is None:
        return hit
    dr, mi = running_engine().dr, running_engine().mi
    has_actor = hit.actor is not None

    def stops(one: Trace, going: Masks, chance: Float) -> tuple[Masks, Float]:
        """Mask of the rays that end here, and the random number of the next surface."""
        opacity = holes.opacity(one, going & one.found)
        stopped = ~one.found | (chance < opacity)
        if draw is None:
            return stopped, chance
        rest = (chance - opacity) / namespace(opacity).maximum(1.0 - opacity, 1e-6)
        return stopped, dr.select(stopped, chance, namespace(rest).minimum(rest, 0.9999999))

    def step(count: Int, going: Masks, chance: Float, passed: Float, *last: Any) -> Any:
        start = mi.Point3f(dr.fma(direction, passed, origin))
        found = cast.trace(start, direction, time, limit - passed, going, coherent=coherent)
        stopped, after = stops(found, going, chance)
        values = [found.found, found.t + passed, *found.normal, found.part, found.triangle, found.u, found.v]
        values += [found.actor] if has_actor else []
        kept = [dr.select(going & stopped, new, old) for new, old in zip(values, last, strict=True)]
        going &= ~stopped
        passed = dr.select(going, passed + found.t + step_off(found.t), passed)
        return count + 1, going & (count + 2 < MOST_LAYERS), after, passed, *kept

    chance = mi.Float(0.5) if draw is None else mi.Float(draw)
    stopped, chance = stops(hit, mi.Bool(active), chance)
    going = mi.Bool(active) & ~stopped
    values = [hit.found & stopped, hit.t, *hit.normal, hit.part, hit.triangle, hit.u, hit.v]
    values += [hit.actor] if has_actor else []
    nothing = [mi.Bool(False), mi.Float(limit), 0.0, 0.0, 1.0, mi.UInt32(NOTHING), mi.UInt32(NOTHING), 0.0, 0.0]
    nothing += [mi.UInt32(NOTHING)] if has_actor else []
    start = [dr.select(going, none, value) for none, value in zip(nothing, values, strict=True)]
    passed = dr.select(going, hit.t + step_off(hit.t), 0.0)
    found, t, x, y, z, part, triangle, u, v, *actor = dr.while_loop(
        (mi.UInt32(0), going, chance, passed, *start), lambda *s: s[1], step
    )[4:]
    return Trace(found, t, mi.Vector3f(x, y, z), part, triangle, actor[0] if has_actor else None, u, v)


# ---- surfaces of cameras --------------------------------------------------------------------------------------------


@dataclass
class Look:
    """Appearance at the hit points of rays, as kernel variables."""

    there: Masks
    """True for hits on parts with an appearance."""
    base: list[Float | None]
    """Base colour in each band; None in bands that see the material class."""
    emitted: list[Float]
    """Radiance in each band [W/(m^2 sr)]."""
    metallic: Float
    roughness: Float
    normal: Vectors | None
    """Unit normal in the world frame, on the outer side of the triangle; None without normal maps."""


@kernel_tree(fixed=("channels", "features"))
@dataclass
class Looks:
    """Appearance of parts for the bands of a camera."""

    channels: tuple[int | None, ...]
    """Channel of each band; None for bands that see the material class."""
    features: frozenset[str]
    """Pictures in use: base, surface, normal, glow."""
    row: Int
    """1 + row in the tables for parts with an appearance, 0 for others."""
    numbers: Float
    """Base colour and roughness; emission and metalness; normal scale and three spare: three rows of four."""
    picture: Int
    """Four numbers of pictures."""
    pictures: Pictures
    srgb: Float
    tangent: Float
    """Tangent of each triangle in its own frame, and the sign of the bitangent."""
    per_candela: Float
    """Radiance in each band of a white emission of 1 cd/m^2 [W/(m^2 sr)]."""

    @classmethod
    def of(
        cls,
        scene: RayScene,
        looks: Mapping[int, Appearance],
        bands: Sequence[Band],
        wetness: NDArray[Any],
    ) -> Looks:
        """Copy appearances of parts to the device; `wetness` (parts,) is a factor on the base colours."""
        chosen = list(looks.values())
        pictures, of_pictures = _numbered([picture for look in chosen for picture in look.pictures])
        kinds = ("base", "surface", "normal", "glow")
        used = np.asarray(of_pictures.reshape(-1, 4).any(axis=0))
        table = scene.engine.table
        part_rows = np.zeros(max(1, len(wetness)), np.uint32)
        part_rows[list(looks)] = np.arange(1, len(chosen) + 1)
        channels = tuple(CHANNELS.get(band.name) for band in bands)
        candela = [
            0.0 if channel is None else radiant_per_lumen(WHITE_K, band)
            for channel, band in zip(channels, bands, strict=True)
        ]
        return cls(
            channels,
            frozenset(kind for kind, there in zip(kinds, used, strict=True) if there),
            table(part_rows),
            table(_numbers(looks, wetness)),
            table(of_pictures),
            Pictures.of(scene, pictures),
            table(SRGB_TO_LINEAR),
            table(_tangents(scene) if used[2] else np.zeros((1, 4), np.float32)),
            table(np.array([*candela, 0.0], np.float32)),
        )

    def wetted(self, scene: RayScene, looks: Mapping[int, Appearance], wetness: NDArray[Any]) -> Looks:
        """Copy for another wetness."""
        return replace(self, numbers=scene.engine.table(_numbers(looks, wetness)))

    def at(self, cast: SceneArrays, hit: Trace, time: Float, active: Masks) -> Look:
        """Appearance at hits."""
        dr, mi = running_engine().dr, running_engine().mi
        row = dr.gather(mi.UInt32, self.row, dr.select(active, hit.part, 0), active)
        there = active & (row > 0)
        row = dr.select(there, row - 1, 0)
        colour, glow, more = (dr.gather(mi.Vector4f, self.numbers, row * 3 + k, there) for k in range(3))
        base, emission = [colour.x, colour.y, colour.z], [glow.x, glow.y, glow.z]
        roughness, metallic, normal = colour.w, glow.w, None
        if self.features:
            uv = self.pictures.place(hit, there)
            number = dr.gather(mi.Vector4u, self.picture, row, there)
            if "base" in self.features:
                texel = self.pictures.sample(number.x, uv, self.srgb)
                base = [a * b for a, b in zip(base, (texel.x, texel.y, texel.z), strict=True)]
            if "surface" in self.features:
                texel = self.pictures.sample(number.y, uv)
                roughness, metallic = (
                    namespace(roughness).maximum(roughness * texel.y, LEAST_ROUGHNESS),
                    metallic * texel.z,
                )
            if "normal" in self.features:
                normal = self._bent(cast, hit, time, number.z, uv, more.x, there)
            if "glow" in self.features:
                texel = self.pictures.sample(number.w, uv, self.srgb)
                emission = [a * b for a, b in zip(emission, (texel.x, texel.y, texel.z), strict=True)]
        return Look(
            there,
            [None if channel is None else _channel(base, channel) for channel in self.channels],
            [
                mi.Float(0.0)
                if channel is None
                else _channel(emission, channel) * dr.gather(mi.Float, self.per_candela, mi.UInt32(k))
                for k, channel in enumerate(self.channels)
            ],
            metallic,
            roughness,
            normal,
        )

    def _bent(
        self, cast: SceneArrays, hit: Trace, time: Float, picture: Int, uv: Any, scale: Float, there: Masks
    ) -> Vectors:
        """Normal of the normal map."""
        dr, mi = running_engine().dr, running_engine().mi
        texel = self.pictures.sample(picture, uv)
        row = dr.gather(mi.Vector4f, self.tangent, dr.select(there, hit.triangle, 0), there)
        along = mi.Vector3f(row.x, row.y, row.z)
        moving = cast.scene().moving
        if moving is not None and hit.actor is not None:
            moved = there & (hit.actor != NOTHING)
            _, rotation = moving.pose_at(dr.select(moved, hit.actor, 0), time)
            along = dr.select(moved, rotate(dr, mi, rotation, along), along)
        up = dr.cross(hit.normal, along) * row.w
        x, y, z = (2.0 * value - 1.0 for value in (texel.x, texel.y, texel.z))
        bent = along * (x * scale) + up * (y * scale) + hit.normal * namespace(z).maximum(z, 1e-3)
        # Picture 0 is white: no normal map. A row without a tangent has degenerate texture coordinates.
        mapped = there & (picture > 0) & (row.w != 0.0)
        return dr.select(mapped, dr.normalize(bent), hit.normal)


def _numbers(looks: Mapping[int, Appearance], wetness: NDArray[Any]) -> NDArray[np.float32]:
    """Field `numbers` of appearances."""
    numbers = np.zeros((len(looks), 3, 4), np.float32)
    for row, (part, look) in zip(numbers, looks.items(), strict=True):
        row[0] = (*(np.array(look.base) * wetness[part]), max(look.roughness, LEAST_ROUGHNESS))
        row[1] = (*look.emission_cd_m2, look.metallic)
        row[2, 0] = look.normal_scale
    return numbers


def _channel(colour: list[Float], channel: int) -> Float:
    """Red, green, blue or the luminance of a colour."""
    if channel < 3:
        return colour[channel]
    red, green, blue = (weight * value for weight, value in zip(LUMINANCE, colour, strict=True))
    return red + green + blue


def _numbered(pictures: Sequence[Picture | None]) -> tuple[list[Picture], NDArray[np.uint32]]:
    """Distinct pictures, and the number of each given one: 0 for None, otherwise 1 + its place."""
    place: dict[int, int] = {}
    distinct: list[Picture] = []
    for picture in pictures:
        if picture is not None and id(picture) not in place:
            distinct.append(picture)
            place[id(picture)] = len(distinct)
    return distinct, np.array([0 if one is None else place[id(one)] for one in pictures], np.uint32)


def _tangents(scene: RayScene) -> NDArray[np.float32]:
    """Unit direction of growing u in the plane of each triangle, and the sign of v's direction, shape (n, 4).

    All zero where the texture coordinates are degenerate.
    """
    geometry = scene.geometry
    rows = []
    for triangles in (geometry.static, *(actor.triangles for actor in geometry.actors)):
        row = np.zeros((len(triangles), 4), np.float32)
        if triangles.uv is not None and len(triangles):
            a, b, c = (triangles.vertices[triangles.faces[:, k]] for k in range(3))
            uv = triangles.uv.astype(np.float64)
            (u1, v1), (u2, v2) = (uv[:, 1] - uv[:, 0]).T, (uv[:, 2] - uv[:, 0]).T
            area = u1 * v2 - u2 * v1
            along = ((b - a) * v2[:, None] - (c - a) * v1[:, None]) * np.sign(area)[:, None]
            length = np.linalg.norm(along, axis=1)
            good = (area != 0.0) & (length > 0.0)
            row[good, :3] = along[good] / length[good, None]
            row[good, 3] = np.sign(area[good])
        rows.append(row)
    return np.concatenate(rows)
