"""Adaptive sampling of the footprint: the answer of all sub-rays for a fraction of the rays.

1. Four probes a beam are traced, at the rim of the footprint.
2. Where they lie on one plane of one part, so do all sub-rays: their range and power follow from the plane, which is
   what tracing would give. Where all four met nothing, so do they all.
3. In the other beams the middle and the four rim points between the first are traced. They divide the footprint into
   eighths, which are judged likewise, each by the middle and its two rim points.
4. What is still open is traced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parhelion.rays.scene import NOTHING
from parhelion.sensors.lidar.beam import ALL_PROBES, MIDDLE, PROBES
from parhelion.sensors.lidar.emit import Beams
from parhelion.sensors.lidar.illuminate import NO_ECHO, Echoes, Illumination

DISAGREE = NOTHING - 1
"""Part number that stands for probes on different surfaces, in kernels."""

MORE_PROBES = ALL_PROBES - PROBES

# Probes are on one plane if each lies on the others' plane to this distance: 0.2 mm, or the rounding of long rays.
PLANE_TOLERANCE_M = 2e-4
PLANE_TOLERANCE_PER_M = 4e-6
NORMAL_TOLERANCE = 1e-6


def illuminate_adaptively(light: Illumination, beams: Beams) -> Echoes:
    """Echoes of every sub-ray of every beam."""
    slots = light.sub_rays.count
    if slots <= ALL_PROBES:
        return light.fixed(beams)
    dr, mi = light.engine.dr, light.engine.mi
    index = dr.arange(mi.UInt32, beams.count * PROBES)
    beam = index // PROBES
    probes = _trace(light, beams, beam, index - beam * PROBES)
    parts = _judge_beams(light, beams, probes)
    echoes = _fill_beams(light, beams, probes, parts)

    mixed = dr.compress(parts == DISAGREE)
    if len(mixed) == 0:
        echoes.casts = beams.count * PROBES
        return echoes
    more = _trace_more(light, beams, mixed, echoes)
    rest = slots - ALL_PROBES
    index = dr.arange(mi.UInt32, len(mixed) * rest)
    row = index // rest
    is_open = _fill_eighths(light, beams, mixed, row, ALL_PROBES + index - row * rest, echoes, probes, more)
    left = dr.compress(is_open)
    if len(left):
        row = left // rest
        beam, sub_ray = dr.gather(mi.UInt32, mixed, row), ALL_PROBES + left - row * rest
        last = _trace(light, beams, beam, sub_ray)
        echoes.put(dr, beam * slots + sub_ray, *last.echo())
    echoes.casts = beams.count * PROBES + len(mixed) * MORE_PROBES + len(left)
    return echoes


@dataclass
class Probes:
    """What probes met, as device arrays of one row a probe."""

    range: Any
    power: Any
    part: Any
    actor: Any
    """None where nothing in the world moves."""
    normal: Any
    point: Any
    """Hit point relative to the beam's exit [m]."""

    def echo(self) -> tuple[Any, ...]:
        """Range, power, part and actor."""
        return self.range, self.power, self.part, self.actor

    def at(self, dr: Any, index: Any) -> Probes:
        """The rows with these numbers."""
        return Probes(*(None if v is None else dr.gather(type(v), v, index) for v in vars(self).values()))

    def same_plane(self, dr: Any, other: Probes) -> Any:
        """Whether the other probe hit the plane that this one hit, on the same part."""
        apart = dr.abs(dr.dot(self.normal, other.point - self.point))
        close = apart < PLANE_TOLERANCE_M + PLANE_TOLERANCE_PER_M * self.range
        aligned = dr.abs(dr.dot(self.normal, other.normal)) > 1.0 - NORMAL_TOLERANCE
        return (self.part != NOTHING) & (self.part == other.part) & close & aligned


def _trace(light: Illumination, beams: Beams, beam: Any, sub_ray: Any) -> Probes:
    range_m, power, hit, point = light.trace(beams, beam, sub_ray)
    probes = Probes(range_m, power, hit.part, hit.actor, hit.normal, point)
    light.engine.dr.eval(*(value for value in vars(probes).values() if value is not None))
    return probes


def _judge(light: Illumination, first: Probes, *others: Probes) -> Any:
    """The part that probes agree on; NOTHING where none met anything; DISAGREE else."""
    dr = light.engine.dr
    agree, nothing = first.part != NOTHING, first.part == NOTHING
    for other in others:
        agree &= first.same_plane(dr, other)
        nothing &= other.part == NOTHING
    # The reflectance of a textured part varies within its plane: only tracing finds it.
    agree &= ~light.target.textured(dr.select(agree, first.part, 0), agree)
    return dr.select(nothing, NOTHING, dr.select(agree, first.part, DISAGREE))


def _judge_beams(light: Illumination, beams: Beams, probes: Probes) -> Any:
    """What the four probes of each beam agree on."""
    dr, mi = light.engine.dr, light.engine.mi
    base = dr.arange(mi.UInt32, beams.count) * PROBES
    parts = _judge(light, *(probes.at(dr, base + k) for k in range(PROBES)))
    dr.eval(parts)
    return parts


def _on_plane(light: Illumination, beams: Beams, beam: Any, sub_ray: Any, part: Any, probe: Probes) -> tuple[Any, ...]:
    """Which sub-rays meet the plane of a probe that their part says they are on, and their echo there."""
    dr = light.engine.dr
    offset, direction = light.sub_rays.ray(beams, beam, sub_ray)
    slope = dr.dot(probe.normal, direction)
    range_m = dr.dot(probe.normal, probe.point - offset) / slope
    filled = (part < DISAGREE) & (range_m > 0) & (range_m < light.optics.max_range)
    power = light.power(dr.select(filled, part, 0), dr.abs(slope), range_m, None, filled)
    actor = None if probe.actor is None else dr.select(filled, probe.actor, NOTHING)
    return filled, dr.select(filled, range_m, NO_ECHO), power, dr.select(filled, part, NOTHING), actor


def _fill_beams(light: Illumination, beams: Beams, probes: Probes, parts: Any) -> Echoes:
    """Slots of the probes, and of all sub-rays of the beams whose probes agree."""
    dr, mi, slots = light.engine.dr, light.engine.mi, light.sub_rays.count
    index = dr.arange(mi.UInt32, beams.count * slots)
    beam = index // slots
    sub_ray = index - beam * slots
    is_probe = sub_ray < PROBES
    # A probe's own slot takes its own echo; the others are judged by the first.
    probe = probes.at(dr, beam * PROBES + dr.select(is_probe, sub_ray, 0))
    part = dr.gather(mi.UInt32, parts, beam)
    _, *filled = _on_plane(light, beams, beam, sub_ray, part, probe)
    range_m, power, part, actor = (
        None if a is None else dr.select(is_probe, b, a) for a, b in zip(filled, probe.echo(), strict=True)
    )
    echoes = Echoes(slots, range_m, power, part, actor, None, 0)
    dr.eval(*echoes.arrays())
    return echoes


def _trace_more(light: Illumination, beams: Beams, mixed: Any, echoes: Echoes) -> Probes:
    """The middle and the rim points between the first four, of mixed beams; MORE_PROBES rows a beam."""
    dr, mi = light.engine.dr, light.engine.mi
    index = dr.arange(mi.UInt32, len(mixed) * MORE_PROBES)
    row = index // MORE_PROBES
    beam, sub_ray = dr.gather(mi.UInt32, mixed, row), PROBES + index - row * MORE_PROBES
    more = _trace(light, beams, beam, sub_ray)
    echoes.put(dr, beam * light.sub_rays.count + sub_ray, *more.echo())
    return more


def _fill_eighths(
    light: Illumination, beams: Beams, mixed: Any, row: Any, sub_ray: Any, echoes: Echoes, probes: Probes, more: Probes
) -> Any:
    """Fill the sub-rays whose eighth agrees; a mask of those that are still open. `row` counts mixed beams."""
    dr, mi = light.engine.dr, light.engine.mi
    beam = dr.gather(mi.UInt32, mixed, row)
    sector = dr.gather(mi.UInt32, light.sub_rays.sector, sub_ray)
    a, b = (dr.gather(mi.UInt32, light.sub_rays.sector_rim, sector * 2 + k) for k in range(2))
    # One rim probe of an eighth is of the first four, the other of those between.
    early, late = dr.select(a < PROBES, a, b), dr.select(a < PROBES, b, a)
    middle = more.at(dr, row * MORE_PROBES + (MIDDLE - PROBES))
    others = probes.at(dr, beam * PROBES + early), more.at(dr, row * MORE_PROBES + (late - PROBES))
    part = _judge(light, middle, *others)
    filled, *echo = _on_plane(light, beams, beam, sub_ray, part, middle)
    is_open = ~(filled | (part == NOTHING))
    dr.eval(is_open)
    echoes.put(dr, beam * light.sub_rays.count + sub_ray, *echo)
    return is_open
