"""Glass, water and mirrors: what a beam sees behind them and in them, along paths of bounded length.

A surface that mirrors or transmits splits the pulse. Each probe of a beam that met one is followed twice more: straight
through (with the pane's transmittance, out and back), and along the mirrored direction (with its reflectance, out and
back) to a target that appears at the folded range, a ghost point. A path that could not reach the threshold even
from a surface twice as bright as the whitest of the world is not traced; glints and retro-reflectors at its end are
lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parhelion.core.arrays import namespace
from parhelion.rays.scene import NOTHING
from parhelion.sensors.lidar.beam import PROBES
from parhelion.sensors.lidar.echoes import GHOST_BIT, NO_ACTOR, Echo, Echoes, EchoRows, choose, echo_bits
from parhelion.sensors.lidar.emit import BeamFrame, Beams
from parhelion.sensors.lidar.illuminate import Illumination

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


def trace_specular(
    light: Illumination, echoes: Echoes, beams: Beams, bounces: int
) -> tuple[EchoRows | None, int, Any, Any]:
    """Echoes of the beams that met a specular surface, with what they see through and in it.

    The rows, how many each beam has, the numbers of those beams, and how many rays each probe took (on the device).
    """
    engine = light.engine
    dr, mi = engine.dr, engine.mi
    some = _beams_with_specular_hits(light, echoes, beams)
    count = len(some)
    probes = min(PROBES, light.sub_rays.count)
    wide = echoes.slots + 2 * probes
    if count == 0:
        return None, wide, some, None
    index = dr.arange(mi.UInt32, count * probes)
    row = index // probes
    number = index - row * probes
    beam = dr.gather(mi.UInt32, some, row)
    # A narrow beam is on one part with all its probes.
    own = dr.select(echoes.rows_of(engine, beam) > 1, number, 0)
    part = echoes.at(engine, beam, own).part
    met = part != NOTHING
    met &= light.target.is_specular(dr.select(met, part, 0), met)
    frame = beams.frame(engine, beam)
    through, mirrored = _split(light, frame, number, echoes.slots / probes, met)
    behind, steps = _follow(light, through, frame.time, bounces)
    ghost, more_steps = _follow(light, mirrored, frame.time, bounces)
    casts = dr.select(met, mi.UInt32(1), 0) + steps + more_steps
    ghost_words = dr.ravel(echo_bits(engine, ghost))
    # Both paths begin with the same ray: one kernel traces it once.
    seen_behind = EchoRows(engine, behind, ghost_words, casts)
    ghosts = EchoRows.of_words(engine, ghost_words)
    rows = _joined(light, echoes, some, seen_behind, ghosts, probes)
    return rows, wide, some, casts


def _beams_with_specular_hits(light: Illumination, echoes: Echoes, beams: Beams) -> Any:
    engine = light.engine
    dr, mi = engine.dr, engine.mi
    beam = dr.arange(mi.UInt32, beams.count)
    count = echoes.rows_of(engine, beam)

    def step(k: Any, met: Any) -> Any:
        part = echoes.at(engine, beam, k).part
        hit = part != NOTHING
        return k + 1, met | (hit & light.target.is_specular(dr.select(hit, part, 0), hit))

    _, met = dr.while_loop((mi.UInt32(0), mi.Bool(False)), lambda k, met: ~met & (k < count), step)
    return dr.compress(met)


def _split(light: Illumination, frame: BeamFrame, sub_ray: Any, weight: float, active: Any) -> tuple[_Path, _Path]:
    """The two paths behind the first surface. `weight` is what one probe stands for, in sub-rays."""
    mi = light.engine.mi
    offset, direction = light.sub_rays.ray(frame, sub_ray)
    origin = frame.origin + offset
    hit = light.target.scene.trace(origin, direction, frame.time, light.optics.max_range, active, coherent=True)
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


def _follow(light: Illumination, path: _Path, time: Any, bounces: int) -> tuple[Echo, Any]:
    """The echo at the end of a path, and how many rays it took."""
    dr, mi = light.engine.dr, light.engine.mi
    width = len(vars(path))

    def step(casts: Any, *state: Any) -> Any:
        now, echo = _Path(*state[:width]), Echo(*state[width:])
        room = namespace(now.length).maximum(light.optics.max_range - now.length, 0.0)
        hit = light.target.scene.trace(now.origin, now.direction, time, room, now.active, coherent=True)
        surface = dr.select(hit.found, hit.part, 0)
        casts = casts + 1
        goes_on = hit.found & light.target.is_specular(surface, hit.found) & (casts < bounces)
        ends = hit.found & ~goes_on
        length = now.length + hit.t
        cosine = dr.abs(dr.dot(hit.normal, now.direction))
        actor = mi.UInt32(NO_ACTOR) if hit.actor is None else hit.actor & NO_ACTOR
        actor |= dr.select(now.ghost, mi.UInt32(GHOST_BIT), 0)
        last = Echo(length, light.power(surface, cosine, length, hit, ends, share=now.share), hit.part, actor)
        echo = choose(dr, ends, last, echo)
        reflected, transmitted = light.target.specular(surface, cosine, hit.found)
        following = _go_on(light, now, hit, reflected > transmitted)
        following.active &= goes_on
        return casts, *vars(following).values(), *vars(echo).values()

    start = (mi.UInt32(0), *vars(path).values(), *vars(Echo.none(light.engine)).values())
    place = 1 + list(vars(path)).index("active")
    casts, *state = dr.while_loop(start, lambda *s: s[place], step)
    return Echo(*state[width:]), casts


def _joined(
    light: Illumination, echoes: Echoes, some: Any, behind: EchoRows, ghosts: EchoRows, probes: int
) -> EchoRows:
    """The echoes of some beams: their own, then those seen behind, then the ghosts."""
    engine = light.engine
    dr, mi = engine.dr, engine.mi
    wide = echoes.slots + 2 * probes
    index = dr.arange(mi.UInt32, len(some) * wide)
    row = index // wide
    k = index - row * wide
    beam = dr.gather(mi.UInt32, some, row)
    own = k < echoes.rows_of(engine, beam)
    extra = k - echoes.slots
    is_behind = (k >= echoes.slots) & (extra < probes)
    is_ghost = k >= echoes.slots + probes
    echo = choose(dr, own, echoes.at(engine, beam, dr.select(own, k, 0), own), Echo.none(engine))
    echo = choose(dr, is_behind, behind.at(row * probes + dr.select(is_behind, extra, 0), is_behind), echo)
    last = row * probes + dr.select(is_ghost, extra - probes, 0)
    return EchoRows(engine, choose(dr, is_ghost, ghosts.at(last, is_ghost), echo))
