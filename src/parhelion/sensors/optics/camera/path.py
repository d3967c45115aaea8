"""The light that reaches each pixel: paths from the lens into the world, in kernels.

At each surface a path meets, the sun and one lamp are asked directly, with a ray that finds out whether anything stands
in between. The path then goes on in one drawn direction: mirrored or straight through where the surface is smooth, else
by the surface's BRDF. Where it leaves the world it sees the sky. Estimates are without bias up to the number of
bounces that is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from parhelion.core.arrays import Ints, Keys, Masks, Reals, Vectors, namespace
from parhelion.core.random import to_unit, words
from parhelion.rays.device import engine as running_engine
from parhelion.rays.device import kernel_tree
from parhelion.rays.replay import SceneArrays
from parhelion.sensors.optics.camera.air import AirLight
from parhelion.sensors.optics.camera.lights import Lamps, SkyOnDevice
from parhelion.sensors.optics.camera.scene import BandSurfaces, Surface
from parhelion.sensors.optics.camera.view import Ray, View
from parhelion.sensors.optics.scene import BandTextures

# Rays go on from a surface by this much along its normal, so that they do not meet it again.
_STEP_OFF_M = 2e-4
_STEP_OFF_PER_M = 1e-5
_DRAWS = 64
"""Sets of four random words that one sample of a pixel may use."""
_MOST_PANES = 3
"""Panes of glass that light of the sun and of lamps passes on its way."""


@kernel_tree(fixed=("bounces",))
@dataclass
class RenderInputs:
    """All that light depends on."""

    bounces: int
    """Scatterings after the first surface."""
    view: View
    surfaces: BandSurfaces
    textures: BandTextures | None
    sky: SkyOnDevice
    lamps: Lamps | None
    air: AirLight | None
    reach: Reals
    """Rays end here [m]."""


@dataclass
class _Path:
    """A path after its last surface, as kernel variables."""

    origin: Vectors
    direction: Vectors
    sees_sun: Masks
    """Whether the sun's disc counts where it leaves the world: after a surface that scatters it was asked already."""
    active: Masks
    share: list[Reals]
    """What of each band's light reaches the lens."""


@dataclass
class _Met:
    """A surface that paths met, as kernel variables."""

    surface: Surface
    found: Masks
    normal: Vectors
    """On the side that the path came from."""
    wo: Vectors
    """Back along the path."""
    place: Vectors
    off: Vectors
    """Step off the surface [m]."""
    time: Reals
    coherent: bool

    @property
    def start(self) -> Vectors:
        """Where rays leave the surface again."""
        return running_engine().mi.Point3f(self.place + self.off)


class RenderDraws:
    """Random numbers of one sample of pixels."""

    def __init__(self, keys: Keys, pixel: Ints, sample: Ints) -> None:
        self._keys, self._pixel, self._first = keys, pixel, sample * _DRAWS

    def four(self, number: Ints) -> tuple[Reals, Reals, Reals, Reals]:
        """Four numbers within (0, 1)."""
        found = words(self._keys, self._pixel, self._first + number)
        return tuple(to_unit(word) for word in found)  # type: ignore[return-value]


def render(
    scene: RenderInputs, cast: SceneArrays, index: Ints, keys: Keys, samples: Ints, first: Ints, size: int
) -> list[Reals]:
    """Mean radiance of each pixel [W/(m^2 sr)], row by row, one array a band, over samples from number `first` on."""
    dr, mi = running_engine().dr, running_engine().mi
    pixel, row, column = scene.view.pixel(index)
    bands = scene.surfaces.bands

    def one(number: Ints, *total: Reals) -> Any:
        light = _sample(scene, cast, RenderDraws(keys, pixel, first + number), index, row, column)
        return number + 1, *(a + b for a, b in zip(total, light, strict=True))

    state = (mi.UInt32(0), *(mi.Float(0.0) for _ in range(bands)))
    _, *total = dr.while_loop(state, lambda number, *_: number < samples, one)
    results = []
    for band in total:
        picture = dr.empty(mi.Float, size)
        dr.scatter(picture, band / mi.Float(samples), pixel)
        results.append(picture)
    dr.eval(results)
    return results


def _sample(
    scene: RenderInputs, cast: SceneArrays, draws: RenderDraws, index: Ints, row: Ints, column: Ints
) -> list[Reals]:
    """The light that one ray of each pixel brings, for each band."""
    dr, mi = running_engine().dr, running_engine().mi
    ray = start_of_sample(scene.view, draws, row, column)
    bands = scene.surfaces.bands
    light = [mi.Float(0.0) for _ in range(bands)]
    path = _Path(ray.origin, ray.direction, mi.Bool(True), mi.Bool(True), [mi.Float(1.0) for _ in range(bands)])
    path, light, length = _step(scene, cast, draws, mi.UInt32(2), path, light, ray.time, coherent=True)
    if scene.bounces:

        def step(depth: Ints, *state: Any) -> Any:
            origin, direction, sees_sun, active = state[:4]
            now = _Path(origin, direction, sees_sun, active, list(state[4 : 4 + bands]))
            draw = mi.UInt32(2) + depth * 3
            after, more, _ = _step(scene, cast, draws, draw, now, list(state[4 + bands :]), ray.time, coherent=False)
            after.active &= depth < scene.bounces
            return depth + 1, after.origin, after.direction, after.sees_sun, after.active, *after.share, *more

        state = (mi.UInt32(1), path.origin, path.direction, path.sees_sun, path.active, *path.share, *light)
        done = dr.while_loop(state, lambda *s: s[4], step)
        light = list(done[5 + bands :])
    if scene.air is not None:
        light = scene.air.seen_through(light, ray, index, length)
    return light


def start_of_sample(view: View, draws: RenderDraws, row: Ints, column: Ints) -> Ray:
    """A ray through a drawn place of each pixel, at a drawn time and through a drawn place of the lens."""
    dr, mi = running_engine().dr, running_engine().mi
    across, down, moment, turn = draws.four(mi.UInt32(0))
    lens = None
    if view.has_aperture:
        sine, cosine = dr.sincos(2.0 * np.pi * turn)
        radius = dr.sqrt(draws.four(mi.UInt32(1))[0])
        lens = (radius * cosine, radius * sine)
    return view.ray(row, column, across, down, moment, lens)


def step_off(distance: Reals) -> Reals:
    """How far off a surface rays go on [m], so that they do not meet it again, after `distance` [m] to it."""
    return _STEP_OFF_M + _STEP_OFF_PER_M * distance


def _step(
    scene: RenderInputs,
    cast: SceneArrays,
    draws: RenderDraws,
    draw: Ints,
    path: _Path,
    light: list[Reals],
    time: Reals,
    *,
    coherent: bool,
) -> tuple[_Path, list[Any], Any]:
    """Follow paths to the next surface: what light they gain there, how they go on, and how far it was [m]."""
    dr = running_engine().dr
    hit = cast.trace(path.origin, path.direction, time, scene.reach, path.active, coherent=coherent)
    left = path.active & ~hit.found
    sky = scene.sky.radiance(path.direction, with_sun=path.sees_sun)
    light = [a + dr.select(left, share * b, 0.0) for a, share, b in zip(light, path.share, sky, strict=True)]
    part = dr.select(hit.found, hit.part, 0)
    texture = None
    if scene.textures is not None:
        texture = scene.textures.factors(part, hit, hit.found)
    surface = scene.surfaces.at(part, texture, hit.found)
    wo = -path.direction
    normal = dr.select(dr.dot(hit.normal, wo) < 0.0, -hit.normal, hit.normal)
    place = dr.fma(path.direction, hit.t, path.origin)
    met = _Met(surface, hit.found, normal, wo, place, normal * step_off(hit.t), time, coherent)
    first, second, third = draws.four(draw), draws.four(draw + 1), draws.four(draw + 2)
    if "emits" in scene.surfaces.features:
        own = [dr.select(hit.found, band["emitted"], 0.0) for band in surface.bands]
        light = [a + share * b for a, share, b in zip(light, path.share, own, strict=True)]
    direct = _from_sun(scene, cast, met, first[:2])
    if scene.lamps is not None:
        direct = [a + b for a, b in zip(direct, _from_lamp(scene, cast, met, third), strict=True)]
    light = [a + share * b for a, share, b in zip(light, path.share, direct, strict=True)]
    return _go_on(scene, path, met, second, first[2]), light, hit.t


def _from_sun(scene: RenderInputs, cast: SceneArrays, met: _Met, u: Reals) -> list[Reals]:
    """Radiance of surfaces in the light of the sun, for each band."""
    wi = scene.sky.to_sun((u[0], u[1]))
    lit = scene.sky.sun_irradiance[0] > 0.0
    return _lit(scene, cast, met, wi, scene.reach, lit, scene.sky.sun_irradiance, met.coherent)


def _from_lamp(scene: RenderInputs, cast: SceneArrays, met: _Met, u: Reals) -> list[Reals]:
    """Radiance of surfaces in the light of one lamp that stands for all, for each band."""
    assert scene.lamps is not None
    lamp = scene.lamps.chosen(met.start, met.normal, met.time, u[0])
    limit = running_engine().mi.Float(lamp.distance) * (1.0 - 1e-4) - 0.02
    return _lit(scene, cast, met, lamp.direction, limit, lamp.found, lamp.irradiance, False)


def _lit(
    scene: RenderInputs, cast: SceneArrays, met: _Met, wi: Vectors, limit: Reals, lit: Masks, irradiance: list[Reals],
    coherent: bool,
) -> list[Reals]:  # fmt: skip
    """Radiance of surfaces for each band in light that comes along `wi`, where it is `lit` and faces the light."""
    dr = running_engine().dr
    cos_i, cos_o = dr.dot(met.normal, wi), dr.dot(met.normal, met.wo)
    faces = met.found & (cos_i > 0.0) & lit
    passed = _unblocked(scene, cast, met, wi, limit, faces, coherent)
    brdf = met.surface.scattered(cos_i, cos_o, dr.dot(wi, met.wo))
    return [dr.select(faces, f * cos_i * e * passed, 0.0) for f, e in zip(brdf, irradiance, strict=True)]


def _unblocked(
    scene: RenderInputs, cast: SceneArrays, met: _Met, direction: Vectors, limit: Reals, active: Masks, coherent: bool
) -> Any:
    """Share of the light that comes through from there: 0 where something stands between, less than 1 behind glass."""
    dr, mi = running_engine().dr, running_engine().mi
    start, time = met.start, met.time
    if "panes" not in scene.surfaces.features:
        return dr.select(cast.blocked(start, direction, time, limit, active, coherent=coherent), 0.0, mi.Float(1.0))

    def step(count: Ints, origin: Vectors, rest: Reals, passed: Reals, going: Masks) -> Any:
        hit = cast.trace(origin, direction, time, rest, going, coherent=coherent)
        there = going & hit.found
        surface = scene.surfaces.at(dr.select(there, hit.part, 0), None, there)
        through = surface.split(dr.abs(dr.dot(hit.normal, direction)))[1]
        passed = dr.select(there, passed * through, passed)
        step_m = hit.t + step_off(hit.t)
        going = there & (passed > 0.0)
        # What is still behind glass after so many panes is taken for dark.
        passed = dr.select(going & (count + 1 >= _MOST_PANES), 0.0, passed)
        going &= count + 1 < _MOST_PANES
        return count + 1, dr.fma(direction, step_m, origin), rest - step_m, passed, going

    state = (mi.UInt32(0), mi.Point3f(start), mi.Float(limit), mi.Float(1.0), mi.Bool(active))
    return dr.while_loop(state, lambda *s: s[4], step)[3]


def _go_on(scene: RenderInputs, path: _Path, met: _Met, u: Reals, choice: Reals) -> _Path:
    """Paths behind the surface that they met."""
    dr, mi = running_engine().dr, running_engine().mi
    surface, normal, wo = met.surface, met.normal, met.wo
    cos_o = dr.dot(normal, wo)
    wi, chance = surface.sampled(normal, wo, (u[0], u[1], u[2]))
    cos_i = dr.dot(normal, wi)
    brdf = surface.scattered(cos_i, cos_o, dr.dot(wi, wo))
    # A direction that is hardly ever drawn tells nothing; below this chance the share would overflow.
    weight = dr.select(chance > 1e-9, cos_i / chance, 0.0)
    scattered = [f * weight for f in brdf]
    if "specular" not in scene.surfaces.features:
        active = met.found & (cos_i > 0.0)
        share = [a * b for a, b in zip(path.share, scattered, strict=True)]
        return _Path(met.start, wi, mi.Bool(False), path.active & active, share)
    mirrored, through = surface.split(cos_o)
    # The body is followed as often as it is bright: dark water shows the sky, white paint under glass itself.
    bright = sum((band["diffuse"] for band in surface.bands[1:]), start=surface.bands[0]["diffuse"])
    body = namespace(mirrored).maximum(bright * (1.0 / len(surface.bands)), 0.02)
    total = mirrored + through + body
    smooth = mirrored + through > 0.0
    pick = choice * total
    is_mirror = smooth & (pick < mirrored)
    is_through = smooth & ~is_mirror & (pick < mirrored + through)
    is_smooth = is_mirror | is_through
    direction = dr.select(is_mirror, 2.0 * cos_o * normal - wo, dr.select(is_through, path.direction, wi))
    # A smooth choice has just the chance of its share; of a body, the chance is made up for.
    rest = dr.select(smooth, total / body, 1.0)
    factors = [dr.select(is_smooth, total, f * rest) for f in scattered]
    share = [a * b for a, b in zip(path.share, factors, strict=True)]
    start = met.place + dr.select(is_through, -met.off, met.off)
    active = path.active & met.found & (is_smooth | (cos_i > 0.0))
    return _Path(mi.Point3f(start), direction, is_smooth, active, share)
