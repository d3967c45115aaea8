"""Adaptive sampling of the footprint: the answer of all sub-rays for a fraction of the rays.

1. Four probes a beam are traced, at the rim of the footprint.
2. Where they lie on one plane of one part, so do all sub-rays: their range and power follow from the plane, which is
   what tracing would give. If they are also closer together than the receiver can tell apart, their sum is one echo,
   and the beam is narrow. Where all four met nothing, so do all.
3. In the other beams the middle and the four rim points between the first are traced. They divide the footprint into
   eighths, which are judged likewise, each by the middle and its two rim points.
4. What is still open is traced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parhelion.core.arrays import namespace
from parhelion.rays.device import Engine
from parhelion.rays.device import engine as running_engine
from parhelion.rays.scene import NOTHING, RayScene
from parhelion.sensors.lidar.air import Air, LocalAir
from parhelion.sensors.lidar.beam import ALL_PROBES, MIDDLE, PROBES
from parhelion.sensors.lidar.echoes import NO_ECHO, Echo, Echoes, EchoRows, SpecularBeams, choose
from parhelion.sensors.lidar.emit import BeamFrame, Beams
from parhelion.sensors.lidar.illuminate import Reflection, illuminate_all

DISAGREE = NOTHING - 1
"""Part number that stands for probes on different surfaces, in kernels."""

MORE_PROBES = ALL_PROBES - PROBES

# Probes are on one plane if each lies on the others' plane to this distance: 0.2 mm, or the rounding of long rays.
PLANE_TOLERANCE_M = 2e-4
PLANE_TOLERANCE_PER_M = 4e-6
NORMAL_TOLERANCE = 1e-6
# Power that varies less than this over the footprint is summed by five points: what is left out is of fourth order.
GENTLE = 0.2
# Probes no farther apart in range than this count as on one surface, whose middle hides what is behind it.
_ONE_SURFACE_M = 1.0


def illuminate_adaptively(light: Reflection, scene: RayScene, beams: Beams, merge_distance: Any) -> Echoes:
    """Echoes of all beams; those closer than `merge_distance` [m] may be summed."""
    slots = light.sub_rays.count
    if slots <= ALL_PROBES:
        return illuminate_all(light, scene, beams)
    engine = running_engine()
    dr, mi = engine.dr, engine.mi
    index = dr.arange(mi.UInt32, beams.count * PROBES)
    beam = index // PROBES
    probes = ProbeRows.of(engine, *light.trace(scene, beams.frame(engine, beam), index - beam * PROBES))
    everyone = dr.arange(mi.UInt32, beams.count)
    sum_flat_beams = engine.frozen(_sum_flat_beams)
    narrow, part, wide, specular = sum_flat_beams(light, beams, everyone, probes, merge_distance)
    casts = beams.count * PROBES
    wide_beams = dr.compress(wide)
    # Picked out now, since whoever asks later waits for all kernels that were begun in between.
    picked = None
    if light.surfaces.has_specular:
        picked = SpecularBeams(dr.compress(specular & ~wide), dr.compress(specular & wide))
    if len(wide_beams) == 0:
        return Echoes(slots, None, wide_beams, narrow, None, casts, probes, picked)
    place = places(engine, wide_beams, beams.count)
    rows, casts_more = _wide_rows(light, scene, beams, wide_beams, part, probes)
    return Echoes(slots, rows, wide_beams, narrow, place, casts + casts_more, probes, picked)


def places(engine: Engine, chosen: Any, count: int) -> Any:
    """Where among the chosen ones each of `count` things is, NOTHING where it is not among them."""
    dr, mi = engine.dr, engine.mi
    place = dr.full(mi.UInt32, NOTHING, count)
    if len(chosen):
        dr.scatter(place, dr.arange(mi.UInt32, len(chosen)), chosen)
    dr.eval(place)
    return place


@dataclass
class Probe:
    """What a probe met, as kernel variables."""

    echo: Echo
    normal: Any
    point: Any
    """Hit point relative to the beam's exit [m]."""

    def where(self, mask: Any, other: Probe) -> Probe:
        """This one where the mask is set, else the other."""
        dr = running_engine().dr
        normal, point = dr.select(mask, self.normal, other.normal), dr.select(mask, self.point, other.point)
        return Probe(choose(dr, mask, self.echo, other.echo), normal, point)

    def same_plane(self, other: Probe) -> Any:
        """Whether the other probe hit the plane that this one hit, on the same part."""
        dr = running_engine().dr
        apart = dr.abs(dr.dot(self.normal, other.point - self.point))
        close = apart < PLANE_TOLERANCE_M + PLANE_TOLERANCE_PER_M * self.echo.range
        aligned = dr.abs(dr.dot(self.normal, other.normal)) > 1.0 - NORMAL_TOLERANCE
        return (self.echo.part != NOTHING) & (self.echo.part == other.echo.part) & close & aligned


@dataclass
class ProbeRows:
    """Probes in device memory."""

    echoes: EchoRows
    normals: Any
    points: Any

    @classmethod
    def of(cls, engine: Engine, echo: Echo, normal: Any, point: Any) -> ProbeRows:
        """Evaluate probes."""
        dr, mi = engine.dr, engine.mi
        normals, points = (dr.ravel(mi.Vector4f(v.x, v.y, v.z, 0.0)) for v in (normal, point))
        return cls(EchoRows.of(engine, echo, normals, points), normals, points)

    def reach(self, beam: Any, active: Any) -> Any:
        """Range of the surface that beams meet [m]: of several the farthest, NO_ECHO where a probe met none."""
        dr, mi = running_engine().dr, running_engine().mi
        nearest, farthest, total = mi.Float(NO_ECHO), mi.Float(0.0), mi.Float(0.0)
        for k in range(PROBES):
            range_m = self.echoes.at(beam * PROBES + k, active).range
            nearest = dr.select(range_m < nearest, range_m, nearest)
            farthest = dr.select(range_m > farthest, range_m, farthest)
            total = total + range_m
        return dr.select(farthest - nearest < _ONE_SURFACE_M, total / PROBES, farthest)

    def at(self, row: Any) -> Probe:
        """Rows by number."""
        dr, mi = running_engine().dr, running_engine().mi
        n, p = (dr.gather(mi.Vector4f, rows, row) for rows in (self.normals, self.points))
        return Probe(self.echoes.at(row), mi.Vector3f(n.x, n.y, n.z), mi.Vector3f(p.x, p.y, p.z))


def _judge(light: Reflection, first: Probe, *others: Probe) -> Any:
    """The part that probes agree on; NOTHING where none met anything; DISAGREE else."""
    dr = running_engine().dr
    part = first.echo.part
    agree, nothing = part != NOTHING, part == NOTHING
    for other in others:
        agree &= first.same_plane(other)
        nothing &= other.echo.part == NOTHING
    # The reflectance of a textured part varies within its plane: only tracing finds it.
    agree &= ~light.surfaces.textured(dr.select(agree, part, 0), agree)
    return dr.select(nothing, NOTHING, dr.select(agree, part, DISAGREE))


def _on_plane(
    light: Reflection,
    frame: BeamFrame,
    sub_ray: Any,
    part: Any,
    probe: Probe,
    material: Any = None,
    air: Air | LocalAir | None = None,
) -> tuple[Any, Echo]:
    """Which sub-rays meet the plane of a probe that their part says they are on, and their echo there."""
    dr = running_engine().dr
    offset, direction = light.sub_rays.ray(frame, sub_ray)
    slope = dr.dot(probe.normal, direction)
    range_m = dr.dot(probe.normal, probe.point - offset) / slope
    met = (part < DISAGREE) & (range_m > 0) & (range_m < light.optics.max_range)
    power = light.power(frame, dr.select(met, part, 0), dr.abs(slope), range_m, None, met, material=material, air=air)
    there = Echo(range_m, power, part, probe.echo.actor)
    return met, choose(dr, met, there, Echo.none(running_engine()))


def _sum_flat_beams(
    light: Reflection, beams: Beams, beam: Any, probes: ProbeRows, merge_distance: Any
) -> tuple[EchoRows, Any, Any, Any]:
    """The one echo of each beam whose probes agree, the part each beam is on, and two masks.

    The masks say which beams need all their slots, and which have a probe on a specular surface.
    """
    engine = running_engine()
    dr, mi = engine.dr, engine.mi
    xp = namespace(merge_distance)
    first, *others = (probes.at(beam * PROBES + k) for k in range(PROBES))
    part = _judge(light, first, *others)
    flat = part < DISAGREE
    frame = beams.frame(engine, beam)
    material = light.surfaces.material(dr.select(flat, part, 0), flat)
    middle = first.echo.range  # ranges are summed relative to this one, to keep float32's last digits
    # Beams that reach over more range than the receiver can tell apart are wide, and are looked up in full.
    air = light.air.around(frame, dr.select(flat, middle, 1.0))

    gentle, quick_power, quick_moment = _five_point_sum(
        light,
        (first, *others),
        _on_plane(light, frame, mi.UInt32(MIDDLE), part, first, material, air)[1],
        merge_distance,
    )
    gentle &= flat

    def step(k: Any, power: Any, moment: Any, nearest: Any, farthest: Any) -> Any:
        met, echo = _on_plane(light, frame, k, part, first, material, air)
        returned = met & (echo.power > 0)
        off = echo.range - middle
        power = power + echo.power
        moment = moment + dr.select(returned, echo.power * off, 0.0)
        nearest = dr.select(returned, xp.minimum(nearest, off), nearest)
        farthest = dr.select(returned, xp.maximum(farthest, off), farthest)
        return k + 1, power, moment, nearest, farthest

    state = (mi.UInt32(0), mi.Float(0.0), mi.Float(0.0), mi.Float(NO_ECHO), mi.Float(-NO_ECHO))
    final = dr.while_loop(state, lambda *s: flat & ~gentle & (s[0] < light.sub_rays.count), step)
    _, power, moment, nearest, farthest = final
    spread = flat & ~gentle & (farthest - nearest > merge_distance)
    power, moment = dr.select(gentle, quick_power, power), dr.select(gentle, quick_moment, moment)
    # A surface too dark or too near to send anything back is a surface still: it hides what lies behind it.
    one = flat & ~spread
    mean = Echo(middle + moment / dr.select(power > 0, power, 1.0), power, part, first.echo.actor)
    wide = (part == DISAGREE) | spread
    specular = mi.Bool(False)
    for probe in (first, *others):
        met = probe.echo.part != NOTHING
        specular |= met & light.surfaces.is_specular(dr.select(met, probe.echo.part, 0), met)
    # A world without such surfaces gives a single False, which is no array to evaluate with the others.
    also = (part, wide, specular) if light.surfaces.has_specular else (part, wide)
    return EchoRows.of(engine, choose(dr, one, mean, Echo.none(engine)), *also), part, wide, specular


def _five_point_sum(
    light: Reflection, probes: tuple[Probe, ...], middle: Echo, merge_distance: Any
) -> tuple[Any, Any, Any]:
    """Power of all sub-rays, and power times range from the first probe's, by four probes and the middle.

    Exact for what is cubic over the footprint. First: where it may be used, which is where power hardly varies and
    all echoes are sure to be one.
    """
    dr, mi = running_engine().dr, running_engine().mi
    weights = light.sub_rays.five_point_weights
    if weights is None:
        return mi.Bool(False), mi.Float(0.0), mi.Float(0.0)
    start = probes[0].echo.range
    power, moment, low, high = mi.Float(0.0), mi.Float(0.0), mi.Float(middle.range), mi.Float(middle.range)
    even = middle.power > 0.0
    for echo, weight in zip((*(probe.echo for probe in probes), middle), weights, strict=True):
        share = (weight * light.sub_rays.count) * echo.power
        power, moment = power + share, moment + share * (echo.range - start)
        even &= dr.abs(echo.power - middle.power) < GENTLE * middle.power
        low, high = dr.select(echo.range < low, echo.range, low), dr.select(echo.range > high, echo.range, high)
    # Between the probes the rim may lie farther off, by the diagonal of a square.
    return even & ((high - low) * 1.5 < merge_distance), power, moment


def _wide_rows(
    light: Reflection, scene: RayScene, beams: Beams, wide_beams: Any, part: Any, probes: ProbeRows
) -> tuple[EchoRows, int]:
    """All slots of the wide beams, and how many rays that took."""
    engine = running_engine()
    dr, mi, slots = engine.dr, engine.mi, light.sub_rays.count
    # Wide beams are mixed, where their probes disagree, or spread, where their one plane reaches over much range.
    mixed = dr.compress(dr.gather(mi.UInt32, part, wide_beams) == DISAGREE)
    place = places(engine, mixed, len(wide_beams))
    more, casts = probes, len(mixed) * MORE_PROBES
    if casts:
        index = dr.arange(mi.UInt32, casts)
        number = index // MORE_PROBES
        beam = dr.gather(mi.UInt32, wide_beams, dr.gather(mi.UInt32, mixed, number))
        sub_ray = PROBES + index - number * MORE_PROBES
        more = ProbeRows.of(engine, *light.trace(scene, beams.frame(engine, beam), sub_ray))
    index = dr.arange(mi.UInt32, len(wide_beams) * slots)
    rows, is_open = _fill(light, beams, index, wide_beams, place, part, probes, more)
    left = dr.compress(is_open)
    if len(left):
        row = left // slots
        frame = beams.frame(engine, dr.gather(mi.UInt32, wide_beams, row))
        rows.put(left, light.trace(scene, frame, left - row * slots)[0])
    return rows, casts + len(left)


def _fill(
    light: Reflection,
    beams: Beams,
    index: Any,
    wide_beams: Any,
    place: Any,
    part: Any,
    probes: ProbeRows,
    more: ProbeRows,
) -> tuple[EchoRows, Any]:
    """Slots of wide beams: what probes met, and what sub-rays meet whose plane is known; and which are still open.

    `index` numbers the slots, `place` the mixed ones among the beams. Those are judged by eighths, each by the middle
    and its two probes at the rim, one of the first four and one of those between.
    """
    engine = running_engine()
    dr, mi, slots = engine.dr, engine.mi, light.sub_rays.count
    row = index // slots
    sub_ray = index - row * slots
    beam, number = (dr.gather(mi.UInt32, values, row) for values in (wide_beams, place))
    mixed = number != NOTHING
    number = dr.select(mixed, number, 0) * MORE_PROBES
    rim = dr.gather(mi.Vector2u, light.sub_rays.sector_rim, dr.gather(mi.UInt32, light.sub_rays.sector, sub_ray))
    early, late = dr.select(rim.x < PROBES, rim.x, rim.y), dr.select(rim.x < PROBES, rim.y, rim.x)
    is_early, is_probe = sub_ray < PROBES, sub_ray < ALL_PROBES
    early, late = dr.select(is_early, sub_ray, early), dr.select(is_probe & ~is_early, sub_ray, late)
    early_probe = probes.at(beam * PROBES + dr.select(mixed, early, 0))
    late_probe, middle = more.at(number + (late - PROBES)), more.at(number + (MIDDLE - PROBES))
    agreed = dr.select(mixed, _judge(light, middle, early_probe, late_probe), dr.gather(mi.UInt32, part, beam))
    known = middle.where(mixed, early_probe)
    met, echo = _on_plane(light, beams.frame(engine, beam), sub_ray, agreed, known)
    traced = mixed & is_probe
    echo = choose(dr, traced, choose(dr, is_early, early_probe.echo, late_probe.echo), echo)
    is_open = mixed & ~is_probe & ~(met | (agreed == NOTHING))
    return EchoRows.of(engine, echo, is_open), is_open
