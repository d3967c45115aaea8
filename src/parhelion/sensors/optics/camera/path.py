"""Path tracing from the lens into the world, in kernels.

At each surface, the light of the sun and of one lamp is evaluated with a shadow ray. The path then continues in one
sampled direction: reflected or transmitted where the surface is smooth, otherwise according to the BRDF. A path that
leaves the world receives the radiance of the sky. Estimates are unbiased up to the requested number of bounces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from parhelion.core.arrays import UNSET, Bool, Float, Int, Keys, State, Vectors, namespace
from parhelion.core.random import to_unit, words
from parhelion.rays.device import engine as running_engine
from parhelion.rays.device import kernel_tree
from parhelion.rays.replay import SceneArrays
from parhelion.sensors.optics.appearance import MOST_LAYERS, Holes, Looks, trace_through
from parhelion.sensors.optics.camera.air import AirLight
from parhelion.sensors.optics.camera.guide import SHARE, TILE_PX, Guide, bin_of
from parhelion.sensors.optics.camera.lights import Lamps, SkyOnDevice
from parhelion.sensors.optics.camera.scene import BandSurfaces, Surface
from parhelion.sensors.optics.camera.view import Ray, View
from parhelion.sensors.optics.scene import BandTextures, Patches
from parhelion.sensors.optics.surface_patterns import SurfacePatterns

# Rays start this far off a surface along its normal, so that they do not hit it again.
_STEP_OFF_M = 2e-4
_STEP_OFF_PER_M = 1e-5
_STEPS = tuple(round(alpha * 2**32) | 1 for alpha in (0.7548776662466927, 0.5698402909980532, 2**0.5 - 1, 3**0.5 - 1))
"""Steps of the Kronecker sequences in units of 2^-32: the first two are Roberts' two-dimensional sequence R2."""
_BLURRED_RAD = 0.05
"""Width of the footprint of indirect light on patterns, per distance."""
_MOST_PANES = 3
"""Largest number of glass panes between a surface and the sun or a lamp."""
_MOST_SMOOTH = 6
"""Largest number of panes and mirrors along a path, in addition to its bounces."""


@kernel_tree(fixed=("bounces",))
@dataclass
class RenderInputs:
    """Inputs of the renderer."""

    bounces: int
    """Maximum number of scattering events after the first surface."""
    view: View
    surfaces: BandSurfaces
    textures: BandTextures | None
    sky: SkyOnDevice
    lamps: Lamps | None
    air: AirLight | None
    reach: Float
    """Maximum length of rays [m]."""
    looks: Looks | None = None
    """Appearance of model files; None without any."""
    holes: Holes | None = None
    patterns: SurfacePatterns | None = None
    """Patterns of materials; None without any."""
    pixel_rad: Float = UNSET
    """Angle of a pixel [rad]."""
    patches: Patches | None = None
    """Puddles and snow; None without any."""
    guide: Guide | None = None
    """Directions of indirect light at the first surface; None draws them by the BRDF alone."""


@dataclass
class _Path:
    """State of a path after its last surface, as kernel variables."""

    origin: Vectors
    direction: Vectors
    sees_sun: Bool
    """True from the lens and after a pane or mirror: luminous surfaces contribute, and the solar disc, unless a surface
    has scattered the path before: its shadow ray has already counted the sun."""
    active: Bool
    share: list[Float]
    """Throughput of each band from here to the lens."""


@dataclass
class _Met:
    """Surface that a path hit, as kernel variables."""

    surface: Surface
    found: Bool
    normal: Vectors
    """Unit normal on the side of the incoming path."""
    wo: Vectors
    """Unit direction back along the path."""
    place: Vectors
    """Hit point [m]."""
    off: Vectors
    """Offset from the surface [m], along the normal of the triangle."""
    time: Float
    coherent: bool

    @property
    def start(self) -> Vectors:
        """Origin of the rays that leave the surface."""
        return running_engine().mi.Point3f(self.place + self.off)


class RenderDraws:
    """Random numbers of one sample per pixel.

    The samples of a pixel are stratified: each set of four numbers is a Kronecker sequence over the samples with a
    random start per pixel, so that 8 samples cover the pixel, the exposure and the directions more evenly than
    independent draws. The order of the samples is shuffled per set and pixel within blocks of 8, because sets in step
    with each other would be correlated. Each number by itself is uniform, so estimates stay unbiased.
    """

    def __init__(self, keys: Keys, pixel: Int, sample: Int) -> None:
        self._keys, self._pixel, self._sample = keys, pixel, sample

    def four(self, number: Int) -> tuple[Float, Float, Float, Float]:
        """Four uniform numbers in (0, 1)."""
        uint32 = running_engine().mi.UInt32
        start = words(self._keys, self._pixel, number)
        step = uint32(self._sample) ^ (start[3] & 7)
        return tuple(to_unit(word + step * k) for word, k in zip(start, _STEPS, strict=True))  # type: ignore[return-value]


@dataclass
class _Sample:
    """One sample of each pixel, as kernel variables. Its surface is the first one that scatters, behind panes too."""

    direct: list[Float]
    """Radiance of the surface under sun and lamps, reflections in panes and mirrors, and the sky."""
    indirect: list[Float]
    """Radiance that the surface scatters of light from the sky and from other surfaces."""
    reflected: list[Float]
    """Diffuse reflectance of the surface times the transmittance of air and panes; 0 without indirect light."""
    normal: Vectors
    place: Vectors
    """Hit point relative to the lens [m]; 0 where there is no indirect light."""


def render(
    scene: RenderInputs,
    cast: SceneArrays,
    index: Int,
    keys: Keys,
    samples: Int,
    first: Int,
    size: int,
    layered: bool = False,
) -> list[Float]:
    """Mean radiance of each pixel [W/(m^2 sr)], row-major, one array per band, over the samples from `first` on.

    The last array is the relative standard error of the sum over bands, as for independent samples; 0 for one sample.
    With `layered`, the arrays are those of `denoise.Layers`.
    """
    dr, mi = running_engine().dr, running_engine().mi
    pixel, row, column = scene.view.pixel(index)
    bands = scene.surfaces.bands
    count = mi.Float(samples)

    def one(number: Int, *total: Float) -> Any:
        sample = _sample(scene, cast, RenderDraws(keys, pixel, first + number), index, row, column, layered)
        if layered:
            values = [_squared(sample.direct), *sample.direct, _squared(sample.indirect), *sample.indirect]
            values += [*sample.reflected, *sample.normal, *sample.place, dr.squared_norm(sample.place)]
        else:
            light = [a + b for a, b in zip(sample.direct, sample.indirect, strict=True)]
            values = [_squared(light), *light]
        return number + 1, *(a + b for a, b in zip(total, values, strict=True))

    state = (mi.UInt32(0), *(mi.Float(0.0) for _ in range(3 * bands + 9 if layered else bands + 1)))
    final: State = dr.while_loop(state, lambda number, *_: number < samples, one)
    _, *total = final
    means = [one / count for one in total]
    found = means[1:]
    if layered:
        found[bands] = _variance(means[bands + 1], means[bands + 2 : 2 * bands + 2], count)
        found.append(_variance(means[0], means[1 : bands + 1], count))
    else:
        grey = sum(found[1:], start=found[0])
        variance = _variance(means[0], found, count)
        found.append(dr.select(grey > 0.0, dr.sqrt(variance) / grey, 0.0))
    results = []
    for values in found:
        picture = dr.empty(mi.Float, size)
        dr.scatter(picture, values, pixel)
        results.append(picture)
    dr.eval(results)
    return results


def _squared(light: list[Float]) -> Float:
    grey = sum(light[1:], start=light[0])
    return grey * grey


def _variance(square: Float, mean: list[Float], count: Float) -> Float:
    """Variance of the mean of the sum over bands, from the mean square of the samples; 0 for one sample."""
    dr = running_engine().dr
    excess = square - _squared(mean)
    return dr.select((count > 1.5) & (excess > 0.0), excess / (count - 1.0), 0.0)


def _sample(
    scene: RenderInputs, cast: SceneArrays, draws: RenderDraws, index: Int, row: Int, column: Int, layered: bool
) -> _Sample:
    """Radiance along one ray per pixel, for each band; without `layered`, light behind panes is not separated."""
    dr, mi = running_engine().dr, running_engine().mi
    ray = start_of_sample(scene.view, draws, row, column)
    bands = scene.surfaces.bands
    zero = [mi.Float(0.0) for _ in range(bands)]
    path = _Path(ray.origin, ray.direction, mi.Bool(True), mi.Bool(True), [mi.Float(1.0) for _ in range(bands)])
    pixel = None if scene.guide is None else (row, column)
    path, mirrored, light, met, length = _step(
        scene, cast, draws, mi.UInt32(2), path, zero, ray.time, coherent=True, pixel=pixel, split=True
    )
    more, behind = zero, None
    if scene.bounces:
        more, behind = _followed(scene, cast, draws, path, mirrored, ray.time, layered and mirrored is not None)
    scatters = met.found if mirrored is None else met.found & ~mirrored.active
    zeros, origin = [mi.Float(0.0) for _ in range(bands)], mi.Vector3f(0.0)
    second = _Behind(zeros, zeros, origin, ray.origin) if behind is None else behind
    indirect = [dr.select(scatters, a, b) for a, b in zip(more, second.indirect, strict=True)]
    direct = [a + (b - c) for a, b, c in zip(light, more, indirect, strict=True)]
    own = [band["diffuse"] for band in met.surface.bands]
    reflected = [dr.select(scatters, a, b) for a, b in zip(own, second.reflected, strict=True)]
    if scene.air is not None:
        passed, added = scene.air.along(ray, index, length)
        direct = [a * b + c for a, b, c in zip(direct, passed, added, strict=True)]
        indirect, reflected = ([a * b for a, b in zip(one, passed, strict=True)] for one in (indirect, reflected))
    normal = dr.select(scatters, met.normal, second.normal)
    place = dr.select(scatters, met.place, second.place) - ray.origin
    return _Sample(direct, indirect, reflected, normal, place)


@dataclass
class _Behind:
    """First surface that scatters behind panes, as kernel variables; zeros where there is none."""

    indirect: list[Float]
    """Part of the light that this surface scatters of light from the sky and from other surfaces."""
    reflected: list[Float]
    """Its diffuse reflectance times the transmittance of the panes."""
    normal: Vectors
    place: Vectors


def _followed(
    scene: RenderInputs,
    cast: SceneArrays,
    draws: RenderDraws,
    path: _Path,
    mirrored: _Path | None,
    time: Float,
    separate: bool,
) -> tuple[list[Float], _Behind | None]:
    """Light along a path after its first surface, for each band; `mirrored` is followed when the first path ends.

    With `separate`, the surface behind the panes of the first path is returned, too.
    """
    dr, mi = running_engine().dr, running_engine().mi
    bands, width = scene.surfaces.bands, 4 + scene.surfaces.bands

    def flat(one: _Path) -> list[Any]:
        return [one.origin, one.direction, one.sees_sun, one.active, *one.share]

    def path_of(values: Any) -> _Path:
        origin, direction, sees_sun, active, *share = values[:width]
        return _Path(origin, direction, sees_sun, active, share)

    def taken(one: _Path, other: _Path) -> tuple[Bool, list[Any]]:
        """Mask of the lanes that change to the other path, and the path to follow."""
        change = ~one.active & other.active
        return change, [dr.select(change, b, a) for a, b in zip(flat(one), flat(other), strict=True)]

    def step(draw: Int, level: Int, *state: Any) -> Any:
        now, before = path_of(state), list(state[width : width + bands])
        # Behind panes, the shadow rays of a surface that scattered the path have counted the sun.
        sun = now.sees_sun & (level == 0)
        after, _, light, met, _ = _step(
            scene, cast, draws, mi.UInt32(2) + draw * 3, now, before, time, coherent=False, sun=sun
        )
        if mirrored is None:
            after.active &= level < scene.bounces
            return draw + 1, level + 1, *flat(after), *light
        seen: list[Any] = []
        if separate:
            mine, *found = state[2 * width + bands :]
            seen = [mine, *surface_behind(found, mine, now, level, light, before, met, after)]
        # Panes and mirrors do not scatter; what lies behind them has as many bounces as without them.
        smooth = after.sees_sun & (draw < scene.bounces + _MOST_SMOOTH)
        after.active &= smooth | (level < scene.bounces)
        level = dr.select(smooth, level, level + 1)
        other = path_of(state[width + bands :])
        change, values = taken(after, other)
        other.active &= ~change
        if separate:
            seen[0] = seen[0] & ~change
        return draw + 1, dr.select(change, 0, level), *values, *light, *flat(other), *seen

    def surface_behind(
        found: list[Any],
        mine: Bool,
        now: _Path,
        level: Int,
        light: list[Float],
        before: list[Float],
        met: _Met,
        after: _Path,
    ) -> list[Any]:
        """Light after the first surface that scatters, and that surface, once it is met."""
        deep = [
            a + dr.select(mine & (level > 0), b - c, 0.0) for a, b, c in zip(found[:bands], light, before, strict=True)
        ]
        here = mine & now.active & met.found & (level == 0) & ~after.sees_sun
        shown = [share * band["diffuse"] for share, band in zip(now.share, met.surface.bands, strict=True)]
        new = [*shown, met.normal, met.place]
        return [*deep, *(dr.select(here, a, b) for a, b in zip(new, found[bands:], strict=True))]

    start, rest = flat(path), []
    if mirrored is not None:
        other = _Path(mirrored.origin, mirrored.direction, mirrored.sees_sun, mirrored.active, mirrored.share)
        change, start = taken(path, other)
        other.active = other.active & ~change
        rest = flat(other)
        if separate:
            nothing = [mi.Float(0.0) for _ in range(2 * bands)]
            rest += [mi.Bool(True), *nothing, mi.Vector3f(0.0), mi.Point3f(path.origin)]
    zero = [mi.Float(0.0) for _ in range(bands)]
    # The first surface scatters before the first level, unless it is smooth.
    first = mi.UInt32(1) if mirrored is None else dr.select(start[2], mi.UInt32(0), mi.UInt32(1))
    state = (mi.UInt32(1), first, *start, *zero, *rest)
    done: State = dr.while_loop(state, lambda *s: s[5], step)
    light = list(done[2 + width : 2 + width + bands])
    if not separate:
        return light, None
    *found, normal, place = done[3 + 2 * width + bands :]
    return light, _Behind(found[:bands], found[bands:], normal, place)


def start_of_sample(view: View, draws: RenderDraws, row: Int, column: Int) -> Ray:
    """Ray through a random point of each pixel and of the aperture, at a random time of the exposure."""
    dr, mi = running_engine().dr, running_engine().mi
    across, down, moment, turn = draws.four(mi.UInt32(0))
    lens = None
    if view.has_aperture:
        sine, cosine = dr.sincos(2.0 * np.pi * turn)
        radius = dr.sqrt(draws.four(mi.UInt32(1))[0])
        lens = (radius * cosine, radius * sine)
    return view.ray(row, column, across, down, moment, lens)


def step_off(distance: Float) -> Float:
    """Offset of ray origins from a surface [m] after a ray of length `distance` [m], to avoid self-intersection."""
    return _STEP_OFF_M + _STEP_OFF_PER_M * distance


def _step(
    scene: RenderInputs,
    cast: SceneArrays,
    draws: RenderDraws,
    draw: Int,
    path: _Path,
    light: list[Float],
    time: Float,
    *,
    coherent: bool,
    pixel: tuple[Int, Int] | None = None,
    split: bool = False,
    sun: Bool | None = None,
) -> tuple[_Path, _Path | None, list[Any], _Met, Any]:
    """Trace paths to the next surface: continued paths, accumulated light, the surface, and the distance to it [m].

    With `pixel` (row, column), the continued direction is guided. With `split`, smooth surfaces continue the path
    twice: the second one is mirrored. It is None if the scene has no smooth surfaces. `sun` is the mask of the paths
    that see the solar disc, by default `sees_sun`.
    """
    dr = running_engine().dr
    hit = trace_through(
        cast,
        scene.holes,
        path.origin,
        path.direction,
        time,
        scene.reach,
        path.active,
        step_off=step_off,
        draw=None if scene.holes is None else draws.four(draw + 1)[3],
        coherent=coherent,
    )
    left = path.active & ~hit.found
    sky = scene.sky.radiance(path.direction, with_sun=path.sees_sun if sun is None else sun)
    light = [a + dr.select(left, share * b, 0.0) for a, share, b in zip(light, path.share, sky, strict=True)]
    part = dr.select(hit.found, hit.part, 0)
    texture = None
    if scene.textures is not None:
        texture = scene.textures.factors(part, hit, hit.found)
    wo = -path.direction
    normal = dr.select(dr.dot(hit.normal, wo) < 0.0, -hit.normal, hit.normal)
    place = dr.fma(path.direction, hit.t, path.origin)
    if scene.patterns is not None:
        # Indirect light needs no details.
        angle = scene.pixel_rad if coherent else _BLURRED_RAD
        width = hit.t * angle / dr.sqrt(namespace(hit.t).maximum(dr.dot(normal, wo), 0.01))
        pattern = scene.patterns.factors(part, place, hit.normal, width, hit.found)
        texture = pattern if texture is None else [a * b for a, b in zip(texture, pattern, strict=True)]
    block = None
    if scene.patches is not None:
        block = scene.patches.blocks(part, place, normal.z, hit.found)
        if texture is not None:
            texture = [dr.select(block == 2, 1.0, one) for one in texture]  # snow hides textures
        part = part + block * scene.patches.parts
    surface = scene.surfaces.at(part, texture, hit.found)
    off = normal * step_off(hit.t)
    if scene.looks is not None:
        look = scene.looks.at(cast, hit, time, hit.found if block is None else hit.found & (block == 0))
        surface = surface.with_look(look)
        if look.normal is not None:
            bent = dr.select(dr.dot(hit.normal, wo) < 0.0, -look.normal, look.normal)
            # Normal maps can face away from the viewer near grazing incidence.
            normal = dr.select(dr.dot(bent, wo) > 0.01, bent, normal)
    met = _Met(surface, hit.found, normal, wo, place, off, time, coherent)
    first, second, third = draws.four(draw), draws.four(draw + 1), draws.four(draw + 2)
    if "emits" in scene.surfaces.features:
        # Light of luminous materials on other surfaces comes from lamps; that of model files has no lamps.
        seen = path.sees_sun if surface.look is None else path.sees_sun | surface.look.there
        own = [dr.select(hit.found & seen, band["emitted"], 0.0) for band in surface.bands]
        light = [a + share * b for a, share, b in zip(light, path.share, own, strict=True)]
    direct = _from_sun(scene, cast, met, first[:2])
    if scene.lamps is not None:
        direct = [a + b for a, b in zip(direct, _from_lamp(scene, cast, met, third), strict=True)]
    light = [a + share * b for a, share, b in zip(light, path.share, direct, strict=True)]
    tile = None
    if scene.guide is not None and pixel is not None:
        tile = scene.guide.tile(*pixel, (third[2], third[3]))
    on, mirrored = _go_on(scene, path, met, second, first[2], tile, third[1], split)
    return on, mirrored, light, met, hit.t


def guide_rays(
    scene: RenderInputs, cast: SceneArrays, index: Int, keys: Keys, across: Int, rays: Int
) -> tuple[Int, Float]:
    """Direction bins and radiance of `rays` diffuse rays from the surface at the centre of each tile."""
    dr, mi = running_engine().dr, running_engine().mi
    view, bands = scene.view, scene.surfaces.bands
    tile = index // rays
    down = tile // across
    row, column = down * TILE_PX + TILE_PX // 2, (tile - down * across) * TILE_PX + TILE_PX // 2
    row = dr.select(row < view.height, row, view.height - 1)
    column = dr.select(column < view.width, column, view.width - 1)
    ray = view.ray(row, column, 0.5, 0.5, 0.5, None)
    hit = trace_through(
        cast, scene.holes, ray.origin, ray.direction, ray.time, scene.reach, step_off=step_off, coherent=True
    )
    normal = dr.select(dr.dot(hit.normal, ray.direction) > 0.0, -hit.normal, hit.normal)
    start = mi.Point3f(dr.fma(ray.direction, hit.t, ray.origin) + normal * step_off(hit.t))
    draws = RenderDraws(keys, tile, index - tile * rays)
    u = draws.four(mi.UInt32(0))
    side, up = mi.coordinate_system(normal)
    sine, cosine = dr.sincos(2.0 * np.pi * u[1])
    level, height = dr.sqrt(u[0]), dr.sqrt(1.0 - u[0])
    wi = side * (level * cosine) + up * (level * sine) + normal * height
    path = _Path(start, wi, mi.Bool(False), hit.found, [mi.Float(1.0) for _ in range(bands)])
    zero = [mi.Float(0.0) for _ in range(bands)]
    _, _, light, *_ = _step(scene, cast, draws, mi.UInt32(2), path, zero, ray.time, coherent=False)
    total = sum(light[1:], start=light[0])
    results = bin_of(wi), dr.select(hit.found, total, 0.0)
    dr.eval(results)
    return results


def _from_sun(scene: RenderInputs, cast: SceneArrays, met: _Met, u: tuple[Float, ...]) -> list[Float]:
    """Radiance of surfaces lit by the sun, for each band."""
    wi = scene.sky.to_sun((u[0], u[1]))
    lit = scene.sky.sun_irradiance[0] > 0.0
    return _lit(scene, cast, met, wi, scene.reach, lit, scene.sky.sun_irradiance, met.coherent)


def _from_lamp(scene: RenderInputs, cast: SceneArrays, met: _Met, u: tuple[Float, ...]) -> list[Float]:
    """Radiance of surfaces lit by one sampled lamp, weighted to represent all lamps, for each band."""
    assert scene.lamps is not None
    lamp = scene.lamps.sampled(met.start, met.normal, met.time, u[0])
    limit = running_engine().mi.Float(lamp.distance) * (1.0 - 1e-4) - 0.02
    return _lit(scene, cast, met, lamp.direction, limit, lamp.found, lamp.irradiance, False)


def _lit(
    scene: RenderInputs,
    cast: SceneArrays,
    met: _Met,
    wi: Vectors,
    limit: Float,
    lit: Bool,
    irradiance: list[Float],
    coherent: bool,
) -> list[Float]:
    """Radiance of surfaces for each band under light from `wi`, where `lit` is set and the surface faces the light."""
    dr = running_engine().dr
    cos_i, cos_o = dr.dot(met.normal, wi), dr.dot(met.normal, met.wo)
    faces = met.found & (cos_i > 0.0) & lit
    passed = _unblocked(scene, cast, met, wi, limit, faces, coherent)
    brdf = met.surface.scattered(cos_i, cos_o, dr.dot(wi, met.wo))
    return [dr.select(faces, f * cos_i * e * passed, 0.0) for f, e in zip(brdf, irradiance, strict=True)]


def _unblocked(
    scene: RenderInputs, cast: SceneArrays, met: _Met, direction: Vectors, limit: Float, active: Bool, coherent: bool
) -> Any:
    """Transmittance towards a light source: 0 behind an opaque surface, below 1 behind glass."""
    dr, mi = running_engine().dr, running_engine().mi
    start, time = met.start, met.time
    most = _MOST_PANES if scene.holes is None else MOST_LAYERS
    if "panes" not in scene.surfaces.features and scene.holes is None:
        return dr.select(cast.blocked(start, direction, time, limit, active, coherent=coherent), 0.0, mi.Float(1.0))

    def step(count: Int, origin: Vectors, rest: Float, passed: Float, going: Bool) -> Any:
        hit = cast.trace(origin, direction, time, rest, going, coherent=coherent)
        there = going & hit.found
        surface = scene.surfaces.at(dr.select(there, hit.part, 0), None, there)
        through: Any = mi.Float(0.0)
        if "panes" in scene.surfaces.features:
            through = surface.split(dr.abs(dr.dot(hit.normal, direction)))[1]
        if scene.holes is not None:
            through += 1.0 - scene.holes.opacity(hit, there)
        passed = dr.select(there, passed * through, passed)
        step_m = hit.t + step_off(hit.t)
        going = there & (passed > 0.0)
        # Light behind more panes than the limit is neglected.
        passed = dr.select(going & (count + 1 >= most), 0.0, passed)
        going &= count + 1 < most
        return count + 1, dr.fma(direction, step_m, origin), rest - step_m, passed, going

    state = (mi.UInt32(0), mi.Point3f(start), mi.Float(limit), mi.Float(1.0), mi.Bool(active))
    return dr.while_loop(state, lambda *s: s[4], step)[3]


def _go_on(
    scene: RenderInputs,
    path: _Path,
    met: _Met,
    u: tuple[Float, ...],
    choice: Float,
    tile: Int | None,
    guided: Float,
    split: bool,
) -> tuple[_Path, _Path | None]:
    """Continue paths from the surface that they hit; with a `tile`, `guided` below SHARE draws from the guide.

    With `split`, the second path is the mirrored one, and the first one chooses among the others.
    """
    dr, mi = running_engine().dr, running_engine().mi
    surface, normal, wo = met.surface, met.normal, met.wo
    cos_o = dr.dot(normal, wo)
    wi, chance = surface.sampled(normal, wo, (u[0], u[1], u[2]))
    if tile is not None:
        assert scene.guide is not None
        wi = dr.select(guided < SHARE, scene.guide.sampled(tile, (u[0], u[1], u[2])), wi)
        chance = surface.probability(normal, wo, wi)
        chance = chance + SHARE * (scene.guide.probability(tile, wi) - chance)
    cos_i = dr.dot(normal, wi)
    brdf = surface.scattered(cos_i, cos_o, dr.dot(wi, wo))
    if surface.look is not None and surface.look.normal is not None:
        # Directions above the normal of a map, but below the triangle, would hit it again.
        cos_i = dr.select(dr.dot(met.off, wi) > 0.0, cos_i, -1.0)
    # Directions of negligible probability density are dropped; their weight would overflow.
    weight = dr.select(chance > 1e-9, cos_i / chance, 0.0)
    scattered = [f * weight for f in brdf]
    if "specular" not in scene.surfaces.features:
        active = met.found & (cos_i > 0.0)
        share = [a * b for a, b in zip(path.share, scattered, strict=True)]
        return _Path(met.start, wi, mi.Bool(False), path.active & active, share), None
    mirrored, through = surface.split(cos_o)
    # The diffuse body is sampled in proportion to its reflectance: dark water shows the sky, white paint itself.
    bright = sum((band["diffuse"] for band in surface.bands[1:]), start=surface.bands[0]["diffuse"])
    body = namespace(mirrored).maximum(bright * (1.0 / len(surface.bands)), 0.02)
    smooth = mirrored + through > 0.0
    second = None
    if split:
        reflection = 2.0 * cos_o * normal - wo
        share = [a * mirrored for a in path.share]
        second = _Path(met.start, reflection, mi.Bool(True), path.active & met.found & smooth, share)
        mirrored = mi.Float(0.0)
    total = mirrored + through + body
    pick = choice * total
    is_mirror = smooth & (pick < mirrored)
    is_through = smooth & ~is_mirror & (pick < mirrored + through)
    is_smooth = is_mirror | is_through
    direction = dr.select(is_mirror, 2.0 * cos_o * normal - wo, dr.select(is_through, path.direction, wi))
    # A specular choice has the probability of its power fraction; the diffuse choice is weighted by its inverse.
    rest = dr.select(smooth, total / body, 1.0)
    factors = [dr.select(is_smooth, total, f * rest) for f in scattered]
    share = [a * b for a, b in zip(path.share, factors, strict=True)]
    start = met.place + dr.select(is_through, -met.off, met.off)
    active = path.active & met.found & (is_smooth | (cos_i > 0.0))
    return _Path(mi.Point3f(start), direction, is_smooth, active, share), second
