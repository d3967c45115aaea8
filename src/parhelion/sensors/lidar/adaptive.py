"""Adaptive sampling of the footprint: the answer of all sub-rays for a fraction of the rays.

1. Five probes a beam are traced: the middle and four at the rim. They divide the footprint into quarters.
2. Where the three probes of a quarter lie on one plane of one part, its sub-rays are on it too: their range and power
   follow from the plane, which is what tracing would give. Where all three met nothing, so do they.
3. In the other quarters the rim probe in their midst is traced, which divides them into eighths, judged likewise.
4. What is still open is traced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parhelion.rays.scene import NOTHING
from parhelion.sensors.lidar.beam import ALL_PROBES, PROBES
from parhelion.sensors.lidar.emit import Beams
from parhelion.sensors.lidar.illuminate import NO_ECHO, Echoes, Illumination

DISAGREE = NOTHING - 1
"""Part number that stands for probes on different surfaces, in kernels."""

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
    range_m, power, hit, point = light.trace(beams, beam, index - beam * PROBES)
    probes = Probes(range_m, power, hit.part, hit.actor, hit.normal, point, PROBES)
    dr.eval(*probes.arrays())

    echoes, is_open = _fill_quarters(light, beams, probes)
    dr.eval(*echoes.arrays(), is_open)
    index = dr.arange(mi.UInt32, beams.count * slots)
    sub_ray = index % slots
    between = dr.compress(is_open & (sub_ray < ALL_PROBES))
    if len(between) == 0:
        echoes.casts = beams.count * PROBES
        return echoes
    more = _trace_rim_between(light, beams, between, echoes, probes)
    rest = dr.compress(is_open & (sub_ray >= ALL_PROBES))
    still_open = _fill_eighths(light, beams, rest, echoes, probes, more)
    last = dr.gather(mi.UInt32, rest, dr.compress(still_open))
    if len(last):
        beam = last // slots
        range_m, power, hit, _ = light.trace(beams, beam, last - beam * slots)
        echoes.put(dr, last, range_m, power, hit.part, hit.actor)
    echoes.casts = beams.count * PROBES + len(between) + len(last)
    return echoes


@dataclass
class Probes:
    """What probes met, `count` a beam, as device arrays."""

    range: Any
    power: Any
    part: Any
    actor: Any
    """None where nothing in the world moves."""
    normal: Any
    point: Any
    """Hit point relative to the beam's exit [m]."""
    count: int

    def arrays(self) -> list[Any]:
        values = (self.range, self.power, self.part, self.actor, self.normal, self.point)
        return [value for value in values if value is not None]

    def at(self, dr: Any, index: Any, active: Any = True) -> Probes:
        """The rows with these numbers."""
        values = (self.range, self.power, self.part, self.actor, self.normal, self.point)
        return Probes(*(None if v is None else dr.gather(type(v), v, index, active) for v in values), count=1)

    def same_plane(self, dr: Any, other: Probes) -> Any:
        """Whether the other probe hit the plane that this one hit, on the same part."""
        apart = dr.abs(dr.dot(self.normal, other.point - self.point))
        close = apart < PLANE_TOLERANCE_M + PLANE_TOLERANCE_PER_M * self.range
        aligned = dr.abs(dr.dot(self.normal, other.normal)) > 1.0 - NORMAL_TOLERANCE
        return (self.part != NOTHING) & (self.part == other.part) & close & aligned


def _judge(light: Illumination, first: Probes, second: Probes, third: Probes) -> Any:
    """The part that three probes agree on; NOTHING where none met anything; DISAGREE else."""
    dr = light.engine.dr
    agree = first.same_plane(dr, second) & first.same_plane(dr, third)
    # The reflectance of a textured part varies within its plane: only tracing finds it.
    agree &= ~light.target.textured(dr.select(agree, first.part, 0), agree)
    nothing = (first.part == NOTHING) & (second.part == NOTHING) & (third.part == NOTHING)
    return dr.select(nothing, NOTHING, dr.select(agree, first.part, DISAGREE))


def _on_plane(
    light: Illumination, beams: Beams, beam: Any, sub_ray: Any, part: Any, normal: Any, distance: Any
) -> tuple[Any, Any, Any]:
    """Which sub-rays meet the plane that their sector's probes agree on, and their range and power there."""
    dr = light.engine.dr
    offset, direction = light.sub_rays.ray(beams, beam, sub_ray)
    slope = dr.dot(normal, direction)
    range_m = (distance - dr.dot(normal, offset)) / slope
    filled = (part < DISAGREE) & (range_m > 0) & (range_m < light.optics.max_range)
    power = light.power(dr.select(filled, part, 0), dr.abs(slope), range_m, None, filled)
    return filled, dr.select(filled, range_m, NO_ECHO), dr.select(filled, power, 0.0)


def _fill_quarters(light: Illumination, beams: Beams, probes: Probes) -> tuple[Echoes, Any]:
    """Slots of the probes, slots that follow from them, and a mask of those that do not."""
    dr, mi, slots = light.engine.dr, light.engine.mi, light.sub_rays.count
    index = dr.arange(mi.UInt32, beams.count * 4)
    base, quarter = (index // 4) * PROBES, index & 3
    rim = [dr.gather(mi.UInt32, light.sub_rays.quarter_rim, quarter * 2 + k) for k in range(2)]
    first, second, third = (probes.at(dr, base + number) for number in (0, *rim))
    parts = _judge(light, first, second, third)
    n = first.normal
    planes = mi.Vector4f(n.x, n.y, n.z, dr.dot(n, first.point))
    dr.eval(parts, planes)
    planes = dr.ravel(planes)

    index = dr.arange(mi.UInt32, beams.count * slots)
    beam = index // slots
    sub_ray = index - beam * slots
    is_probe = sub_ray < PROBES
    row = beam * 4 + dr.gather(mi.UInt32, light.sub_rays.quarter, sub_ray)
    part = dr.select(is_probe, DISAGREE, dr.gather(mi.UInt32, parts, row, ~is_probe))
    plane = dr.gather(mi.Vector4f, planes, row, part < DISAGREE)
    normal = mi.Vector3f(plane.x, plane.y, plane.z)
    filled, range_m, power = _on_plane(light, beams, beam, sub_ray, part, normal, plane.w)
    own = beam * PROBES + dr.select(is_probe, sub_ray, 0)

    def choose(probe: Any, other: Any) -> Any:
        return dr.select(is_probe, dr.gather(type(probe), probe, own, is_probe), other)

    echoes = Echoes(
        slots, choose(probes.range, range_m), choose(probes.power, power),
        choose(probes.part, dr.select(filled, part, NOTHING)), None, None, 0,
    )  # fmt: skip
    if probes.actor is not None:
        middle = dr.gather(mi.UInt32, probes.actor, beam * PROBES, filled)
        echoes.actor = choose(probes.actor, dr.select(filled, middle, NOTHING))
    return echoes, ~(is_probe | filled | (part == NOTHING))


def _trace_rim_between(light: Illumination, beams: Beams, between: Any, echoes: Echoes, probes: Probes) -> Probes:
    """Trace the open rim probes between the first four; theirs are the rows beam * 4 + number of the result."""
    dr, mi, slots = light.engine.dr, light.engine.mi, light.sub_rays.count
    beam = between // slots
    number = between - beam * slots
    range_m, power, hit, point = light.trace(beams, beam, number)
    traced = Probes(range_m, power, hit.part, hit.actor, hit.normal, point, 1)
    dr.eval(*traced.arrays())
    echoes.put(dr, between, range_m, power, hit.part, hit.actor)
    row = beam * 4 + (number - PROBES)
    size = beams.count * 4
    more = Probes(*(None if v is None else dr.empty(type(v), size) for v in (
        traced.range, None, traced.part, traced.actor, traced.normal, traced.point)), count=4)  # fmt: skip
    for into, values in zip(more.arrays(), [a for a in traced.arrays() if a is not traced.power], strict=True):
        dr.scatter(into, values, row)
    dr.eval(*more.arrays())
    return more


def _fill_eighths(
    light: Illumination, beams: Beams, rest: Any, echoes: Echoes, probes: Probes, more: Probes
) -> Any:
    """Fill the open sub-rays whose eighth agrees; a mask over `rest` of those that are still open."""
    dr, mi, slots = light.engine.dr, light.engine.mi, light.sub_rays.count
    beam = rest // slots
    sub_ray = rest - beam * slots
    eighth = dr.gather(mi.UInt32, light.sub_rays.eighth, sub_ray)
    a, b = (dr.gather(mi.UInt32, light.sub_rays.eighth_rim, eighth * 2 + k) for k in range(2))
    # One rim probe of an eighth is of the first four, the other of those between.
    early, late = dr.select(a < PROBES, a, b), dr.select(a < PROBES, b, a)
    first = probes.at(dr, beam * PROBES)
    part = _judge(light, first, probes.at(dr, beam * PROBES + early), more.at(dr, beam * 4 + (late - PROBES)))
    distance = dr.dot(first.normal, first.point)
    filled, range_m, power = _on_plane(light, beams, beam, sub_ray, part, first.normal, distance)
    still_open = ~(filled | (part == NOTHING))
    dr.eval(still_open, range_m, power)
    echoes.put(dr, rest, range_m, power, dr.select(filled, part, NOTHING), first.actor)
    return still_open
