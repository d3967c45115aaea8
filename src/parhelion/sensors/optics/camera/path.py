"""Path tracing from the lens into the world, in kernels.

At each surface, the light of the sun and of one lamp is evaluated with a shadow ray. The path then continues in one
sampled direction: reflected or transmitted where the surface is smooth, otherwise according to the BRDF. A path that
leaves the world receives the radiance of the sky. Estimates are unbiased up to the requested number of bounces.
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

# Rays start this far off a surface along its normal, so that they do not hit it again.
_STEP_OFF_M = 2e-4
_STEP_OFF_PER_M = 1e-5
_DRAWS = 64
"""Sets of four random words reserved per sample of a pixel."""
_MOST_PANES = 3
"""Largest number of glass panes between a surface and the sun or a lamp."""


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
    reach: Reals
    """Maximum length of rays [m]."""


@dataclass
class _Path:
    """State of a path after its last surface, as kernel variables."""

    origin: Vectors
    direction: Vectors
    sees_sun: Masks
    """True if the solar disc contributes when the path leaves the world. After a scattering surface it does not,
    because the shadow ray has already counted it."""
    active: Masks
    share: list[Reals]
    """Throughput of each band from here to the lens."""


@dataclass
class _Met:
    """Surface that a path hit, as kernel variables."""

    surface: Surface
    found: Masks
    normal: Vectors
    """Unit normal on the side of the incoming path."""
    wo: Vectors
    """Unit direction back along the path."""
    place: Vectors
    """Hit point [m]."""
    off: Vectors
    """Offset from the surface [m]."""
    time: Reals
    coherent: bool

    @property
    def start(self) -> Vectors:
        """Origin of the rays that leave the surface."""
        return running_engine().mi.Point3f(self.place + self.off)


class RenderDraws:
    """Random numbers of one sample per pixel."""

    def __init__(self, keys: Keys, pixel: Ints, sample: Ints) -> None:
        self._keys, self._pixel, self._first = keys, pixel, sample * _DRAWS

    def four(self, number: Ints) -> tuple[Reals, Reals, Reals, Reals]:
        """Four uniform numbers in (0, 1)."""
        found = words(self._keys, self._pixel, self._first + number)
        return tuple(to_unit(word) for word in found)  # type: ignore[return-value]


def render(
    scene: RenderInputs, cast: SceneArrays, index: Ints, keys: Keys, samples: Ints, first: Ints, size: int
) -> list[Reals]:
    """Mean radiance of each pixel [W/(m^2 sr)], row-major, one array per band, over the samples from `first` on."""
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
    """Radiance along one ray per pixel, for each band."""
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
    """Ray through a random point of each pixel and of the aperture, at a random time of the exposure."""
    dr, mi = running_engine().dr, running_engine().mi
    across, down, moment, turn = draws.four(mi.UInt32(0))
    lens = None
    if view.has_aperture:
        sine, cosine = dr.sincos(2.0 * np.pi * turn)
        radius = dr.sqrt(draws.four(mi.UInt32(1))[0])
        lens = (radius * cosine, radius * sine)
    return view.ray(row, column, across, down, moment, lens)


def step_off(distance: Reals) -> Reals:
    """Offset of ray origins from a surface [m] after a ray of length `distance` [m], to avoid self-intersection."""
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
    """Trace paths to the next surface: continued paths, accumulated light, and distance to the surface [m]."""
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
    """Radiance of surfaces lit by the sun, for each band."""
    wi = scene.sky.to_sun((u[0], u[1]))
    lit = scene.sky.sun_irradiance[0] > 0.0
    return _lit(scene, cast, met, wi, scene.reach, lit, scene.sky.sun_irradiance, met.coherent)


def _from_lamp(scene: RenderInputs, cast: SceneArrays, met: _Met, u: Reals) -> list[Reals]:
    """Radiance of surfaces lit by one sampled lamp, weighted to represent all lamps, for each band."""
    assert scene.lamps is not None
    lamp = scene.lamps.sampled(met.start, met.normal, met.time, u[0])
    limit = running_engine().mi.Float(lamp.distance) * (1.0 - 1e-4) - 0.02
    return _lit(scene, cast, met, lamp.direction, limit, lamp.found, lamp.irradiance, False)


def _lit(
    scene: RenderInputs, cast: SceneArrays, met: _Met, wi: Vectors, limit: Reals, lit: Masks, irradiance: list[Reals],
    coherent: bool,
) -> list[Reals]:  # fmt: skip
    """Radiance of surfaces for each band under light from `wi`, where `lit` is set and the surface faces the light."""
    dr = running_engine().dr
    cos_i, cos_o = dr.dot(met.normal, wi), dr.dot(met.normal, met.wo)
    faces = met.found & (cos_i > 0.0) & lit
    passed = _unblocked(scene, cast, met, wi, limit, faces, coherent)
    brdf = met.surface.scattered(cos_i, cos_o, dr.dot(wi, met.wo))
    return [dr.select(faces, f * cos_i * e * passed, 0.0) for f, e in zip(brdf, irradiance, strict=True)]


def _unblocked(
    scene: RenderInputs, cast: SceneArrays, met: _Met, direction: Vectors, limit: Reals, active: Masks, coherent: bool
) -> Any:
    """Transmittance towards a light source: 0 behind an opaque surface, below 1 behind glass."""
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
        # Light behind more panes than the limit is neglected.
        passed = dr.select(going & (count + 1 >= _MOST_PANES), 0.0, passed)
        going &= count + 1 < _MOST_PANES
        return count + 1, dr.fma(direction, step_m, origin), rest - step_m, passed, going

    state = (mi.UInt32(0), mi.Point3f(start), mi.Float(limit), mi.Float(1.0), mi.Bool(active))
    return dr.while_loop(state, lambda *s: s[4], step)[3]


def _go_on(scene: RenderInputs, path: _Path, met: _Met, u: Reals, choice: Reals) -> _Path:
    """Continue paths from the surface that they hit."""
    dr, mi = running_engine().dr, running_engine().mi
    surface, normal, wo = met.surface, met.normal, met.wo
    cos_o = dr.dot(normal, wo)
    wi, chance = surface.sampled(normal, wo, (u[0], u[1], u[2]))
    cos_i = dr.dot(normal, wi)
    brdf = surface.scattered(cos_i, cos_o, dr.dot(wi, wo))
    # Directions of negligible probability density are dropped; their weight would overflow.
    weight = dr.select(chance > 1e-9, cos_i / chance, 0.0)
    scattered = [f * weight for f in brdf]
    if "specular" not in scene.surfaces.features:
        active = met.found & (cos_i > 0.0)
        share = [a * b for a, b in zip(path.share, scattered, strict=True)]
        return _Path(met.start, wi, mi.Bool(False), path.active & active, share)
    mirrored, through = surface.split(cos_o)
    # The diffuse body is sampled in proportion to its reflectance: dark water shows the sky, white paint itself.
    bright = sum((band["diffuse"] for band in surface.bands[1:]), start=surface.bands[0]["diffuse"])
    body = namespace(mirrored).maximum(bright * (1.0 / len(surface.bands)), 0.02)
    total = mirrored + through + body
    smooth = mirrored + through > 0.0
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
    return _Path(mi.Point3f(start), direction, is_smooth, active, share)
