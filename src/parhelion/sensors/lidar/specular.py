"""Glass, water and mirrors: what a beam sees behind them and in them, along paths of bounded length.

A surface that mirrors or transmits splits the pulse. Each probe of a beam that met one is followed twice more: straight
through (with the pane's transmittance, out and back), and along the mirrored direction (with its reflectance, out and
back) to a target that appears at the folded range, a ghost point. A path that could not reach the threshold even
from the brightest surface of the world, retro-reflectors aside, is not traced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parhelion.core.arrays import namespace
from parhelion.rays.scene import NOTHING
from parhelion.sensors.lidar.beam import PROBES
from parhelion.sensors.lidar.emit import Beams
from parhelion.sensors.lidar.illuminate import NO_ECHO, Echoes, Illumination

# Rays go on from a surface by this much, so that they do not meet it again.
_STEP_OFF_M = 1e-4
_STEP_OFF_PER_M = 1e-5


@dataclass
class _Path:
    """A path after its last surface, as kernel variables."""

    origin: Any
    direction: Any
    length: Any
    """Length so far [m]."""
    share: Any
    """Part of the power that comes this way and back."""
    active: Any
    ghost: Any
    """Whether a mirror folded it."""


def trace_specular(light: Illumination, echoes: Echoes, beams: Beams, bounces: int) -> tuple[Echoes | None, Any]:
    """Echoes of the beams that met a specular surface, with 2 x PROBES slots more, and the numbers of those beams."""
    engine = light.engine
    dr, mi, slots = engine.dr, engine.mi, echoes.slots
    some = _beams_with_specular_hits(light, echoes, beams)
    count = dr.width(some)
    if count == 0:
        return None, some
    probes = min(PROBES, light.sub_rays.count)
    index = dr.arange(mi.UInt32, count * probes)
    row = index // probes
    number = index - row * probes
    beam = dr.gather(mi.UInt32, some, row)
    part = dr.gather(mi.UInt32, echoes.part, beam * slots + number)
    met = part != NOTHING
    met &= light.target.is_specular(dr.select(met, part, 0), met)
    through, mirrored = _split(light, beams, beam, number, slots / probes, met)
    casts = int(dr.sum(dr.select(met, mi.UInt32(1), 0))[0])
    wide = slots + 2 * probes
    extended = _copy_with_room(engine, echoes, some, wide)
    time = dr.gather(mi.Float, beams.time, beam)
    for kind, path in enumerate((through, mirrored)):
        echo, steps = _follow(light, path, time, bounces)
        slot = row * wide + slots + kind * probes + number
        for array, values in zip((extended.ghost, *extended.arrays()), echo, strict=False):
            dr.scatter(array, values, slot)
        dr.eval(extended.ghost, *extended.arrays(), steps)
        casts += int(dr.sum(steps)[0])
    extended.casts = casts
    return extended, some


def _beams_with_specular_hits(light: Illumination, echoes: Echoes, beams: Beams) -> Any:
    dr, mi = light.engine.dr, light.engine.mi
    base = dr.arange(mi.UInt32, beams.count) * echoes.slots
    slots = mi.UInt32(echoes.slots)

    def step(k: Any, met: Any) -> Any:
        part = dr.gather(mi.UInt32, echoes.part, base + k)
        hit = part != NOTHING
        return k + 1, met | (hit & light.target.is_specular(dr.select(hit, part, 0), hit))

    _, met = dr.while_loop((mi.UInt32(0), mi.Bool(False)), lambda k, met: ~met & (k < slots), step)
    return dr.compress(met)


def _split(
    light: Illumination, beams: Beams, beam: Any, sub_ray: Any, weight: float, active: Any
) -> tuple[_Path, _Path]:
    """The two paths behind the first surface. `weight` is what one probe stands for, in sub-rays."""
    dr, mi = light.engine.dr, light.engine.mi
    offset, direction = light.sub_rays.ray(beams, beam, sub_ray)
    origin = dr.gather(mi.Point3f, beams.origin, beam) + offset
    time = dr.gather(mi.Float, beams.time, beam)
    hit = light.target.scene.trace(origin, direction, time, light.optics.max_range, active)
    start = _Path(origin, direction, mi.Float(0.0), mi.Float(weight), hit.found, mi.Bool(False))
    return _go_on(light, start, hit, mirror=False), _go_on(light, start, hit, mirror=True)


def _go_on(light: Illumination, path: _Path, hit: Any, mirror: Any) -> _Path:
    """The path behind a surface that it met, mirrored or transmitted, if that can still be worth tracing."""
    dr, mi = light.engine.dr, light.engine.mi
    slope = dr.dot(hit.normal, path.direction)
    reflected, transmitted = light.target.specular(dr.select(hit.found, hit.part, 0), dr.abs(slope), hit.found)
    mirror = mi.Bool(mirror)
    direction = dr.select(mirror, dr.normalize(path.direction - 2.0 * slope * hit.normal), path.direction)
    part_kept = dr.select(mirror, reflected, transmitted)
    share = path.share * part_kept * part_kept
    length = path.length + hit.t
    origin = dr.fma(path.direction, hit.t, path.origin) + direction * (_STEP_OFF_M + _STEP_OFF_PER_M * hit.t)
    # All sub-rays together, on the brightest material at this range already, against the threshold.
    best = share * light.sub_rays.weight * light.sub_rays.count * light.target.brightest
    worth = best > light.optics.threshold * length * length
    return _Path(
        origin, direction, length, share, path.active & hit.found & (part_kept > 0) & worth, path.ghost | mirror
    )


def _follow(light: Illumination, path: _Path, time: Any, bounces: int) -> tuple[tuple[Any, ...], Any]:
    """The echo at the end of a path, and how many rays it took."""
    dr, mi = light.engine.dr, light.engine.mi
    range_m, power = mi.Float(NO_ECHO), mi.Float(0.0)
    part, actor, ghost = mi.UInt32(NOTHING), mi.UInt32(NOTHING), mi.UInt32(0)
    casts = mi.UInt32(0)
    for bounce in range(bounces):
        casts += dr.select(path.active, mi.UInt32(1), 0)
        room = namespace(path.length).maximum(light.optics.max_range - path.length, 0.0)
        hit = light.target.scene.trace(path.origin, path.direction, time, room, path.active)
        surface = dr.select(hit.found, hit.part, 0)
        goes_on = hit.found & light.target.is_specular(surface, hit.found)
        if bounce == bounces - 1:
            goes_on = mi.Bool(False)
        ends = hit.found & ~goes_on
        length = path.length + hit.t
        cosine = dr.abs(dr.dot(hit.normal, path.direction))
        returned = light.power(surface, cosine, length, hit, ends, path.share)
        range_m = dr.select(ends, length, range_m)
        power = dr.select(ends, returned, power)
        part = dr.select(ends, hit.part, part)
        actor = actor if hit.actor is None else dr.select(ends, hit.actor, actor)
        ghost = dr.select(ends & path.ghost, mi.UInt32(1), ghost)
        if bounce < bounces - 1:
            reflected, transmitted = light.target.specular(surface, cosine, hit.found)
            following = _go_on(light, path, hit, reflected > transmitted)
            following.active &= goes_on
            path = following
    return (ghost, range_m, power, part, actor), casts


def _copy_with_room(engine: Any, echoes: Echoes, some: Any, wide: int) -> Echoes:
    """The slots of some beams, each row widened by empty ones."""
    dr, mi = engine.dr, engine.mi
    index = dr.arange(mi.UInt32, dr.width(some) * wide)
    row = index // wide
    k = index - row * wide
    old = k < echoes.slots
    source = dr.gather(mi.UInt32, some, row) * echoes.slots + dr.select(old, k, 0)

    def copy(values: Any, empty: Any) -> Any:
        return dr.select(old, dr.gather(type(values), values, source, old), empty)

    extended = Echoes(
        wide, copy(echoes.range, NO_ECHO), copy(echoes.power, 0.0), copy(echoes.part, NOTHING),
        None if echoes.actor is None else copy(echoes.actor, NOTHING),
        dr.zeros(mi.UInt32, dr.width(some) * wide), 0,
    )  # fmt: skip
    dr.eval(*extended.arrays())
    dr.make_opaque(extended.ghost)
    return extended
