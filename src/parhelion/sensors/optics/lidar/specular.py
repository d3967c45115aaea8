"""Glass, water and mirrors: targets seen through them and in them, along paths of bounded length.

A specular surface splits the pulse. Two probes of each beam that met one (the first and the last of those that did) are
traced further: straight through (with the pane's two-way transmittance), and along the mirrored direction (with its
two-way reflectance) to a target that appears at the folded range, a ghost point. A path that could not reach the
threshold even from a surface twice as bright as the whitest of the world is not traced; glints and retro-reflectors at
its end are lost.

Water with a known attenuation lets light through to the bottom. There the path bends by Snell's law, light is slower,
attenuated and spread less, so all probes are followed (all sub-rays without adaptive sampling): waves bend each of them
differently. `parhelion.sensors.optics.lidar.bathymetry` has the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parhelion.core.arrays import Bool, Float, Int, Ints, State, Vectors, namespace
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.replay import Rows, SceneArrays, capacity
from parhelion.rays.scene import NOTHING, Trace
from parhelion.sensors.optics.beams import BeamAim, Beams
from parhelion.sensors.optics.lidar.bathymetry import column_level, refracted, spreading_factor
from parhelion.sensors.optics.lidar.echoes import (
    GHOST_BIT,
    NO_ACTOR,
    NO_ECHO,
    Block,
    Echoes,
    EchoRows,
    ReturnEcho,
    SpecularBeams,
    choose,
)
from parhelion.sensors.optics.lidar.emit import PROBES
from parhelion.sensors.optics.lidar.illuminate import Reflection
from parhelion.sensors.optics.scene import PartNames, upward
from parhelion.weather.volume_echo import pulse_shape

FOLLOWED = 2
"""Probes per beam that are traced beyond a specular surface, in worlds without water of known attenuation."""
_MOST_HELD = 8
"""Largest number of additional echoes per beam that kernels hold in registers."""

# Offset of a continued ray from its surface, so that it does not meet the surface again.
_STEP_OFF_M = 1e-4
_STEP_OFF_PER_M = 1e-5


@dataclass
class _Surface:
    """Surface that a ray met, as kernel variables."""

    found: Bool
    t: Float
    normal: Vectors
    part: Int


@dataclass
class _Path:
    """Path after its last surface, as kernel variables."""

    origin: Vectors
    direction: Vectors
    length: Float
    """Length so far [m]."""
    share: Float
    """Share of the power that travels along this path and back."""
    active: Bool
    ghost: Bool
    """True if a mirror folded the path."""
    dry_length: Float
    """Length up to the water that the path is in [m]; 0 in air."""
    index: Float
    """Refractive index of that water; 1 in air."""
    attenuation: Float
    """Its attenuation [1/m]."""
    squeeze: Float
    """Cosine of the refracted angle over that of incidence."""

    def under_water(self, length: Float) -> tuple[Float, Float, Float]:
        """Range by time of flight, range for the link budget and factor on the power at the end of `length` [m]."""
        dr = running_engine().dr
        wet = self.index > 1.0
        depth = length - self.dry_length
        dry = namespace(length).maximum(self.dry_length, 1e-3)
        apparent = dr.fma(self.index, depth, self.dry_length)
        factor = spreading_factor(dry, depth, index=self.index, squeeze=self.squeeze) * dr.exp(
            -2.0 * self.attenuation * depth
        )
        return dr.select(wet, apparent, length), dr.select(wet, dry, length), dr.select(wet, factor, 1.0)


@kernel_tree()
@dataclass
class Behind:
    """Echoes behind specular surfaces and in them."""

    beams: SpecularBeams
    rows: EchoRows
    """`per_beam` rows per beam: first those behind the surface, then the ghosts."""
    per_beam: int

    def block(self, number: Int) -> Block:
        """Rows of the beams with these numbers within `beams`."""
        count = running_engine().mi.UInt32(self.per_beam)
        return Block(self.rows, number * self.per_beam, count, held=self.per_beam if self.per_beam <= _MOST_HELD else 0)

    def of_all(self, engine: Engine, count: int) -> Block:
        """Rows of all `count` beams, none for beams without such a surface."""
        dr, mi = engine.dr, engine.mi
        first, rows = dr.zeros(mi.UInt32, count), dr.zeros(mi.UInt32, count)
        number = dr.arange(mi.UInt32, len(self.beams))
        beam = self.beams.at(number)
        dr.scatter(first, number * self.per_beam, beam)
        dr.scatter(rows, mi.UInt32(self.per_beam), beam)
        return Block(self.rows, first, rows)


def trace_specular(
    light: Reflection, scene: SceneArrays, echoes: Echoes, beams: Beams, bounces: int
) -> tuple[Behind | None, Int | None]:
    """Echoes through and in specular surfaces, and the number of rays cast (on the device)."""
    engine = running_engine()
    some = echoes.specular
    if some is None:
        some = SpecularBeams.of(engine, engine.dr.compress(specular_beams(light, echoes, beams)))
    count = len(some)
    if count == 0:
        return None, None
    # Pass only the arrays that are read: Dr.Jit inspects every argument on each call.
    traced = None if echoes.probes is not None else echoes.wide
    met = Echoes(echoes.slots, traced, None, None, None, [], echoes.probes)
    followed = FOLLOWED
    if light.surfaces.has_water:
        followed = echoes.slots if echoes.probes is None else PROBES
    each = 2 * followed
    paths, straight = Rows.transient(engine, count * each, capacity(count) * each), engine.whole(count * followed)
    follow = engine.frozen(_follow_paths, casts=True)
    rows, casts = follow(light, scene, met, beams, some, paths, straight, bounces, followed)
    return Behind(some, rows, each), casts


def _follow_paths(
    light: Reflection,
    scene: SceneArrays,
    echoes: Echoes,
    beams: Beams,
    some: SpecularBeams,
    paths: Rows,
    straight: Int,
    bounces: int,
    followed: int,
) -> tuple[EchoRows, Int]:
    """Echoes at the ends of paths, the first `straight` of which go straight through, and the number of rays cast."""
    engine = running_engine()
    dr, mi, index = engine.dr, engine.mi, paths.index
    # Transmitted paths first, then mirrored ones, so that coherent rays are traced together.
    mirrored = index >= straight
    path = dr.select(mirrored, index - straight, index)
    row = path // followed
    which = path - row * followed
    beam = some.at(row)
    if light.surfaces.has_water:
        probe, weight, met = (
            which,
            mi.Float(echoes.slots / followed),
            is_specular(light, _probe_part(echoes, beam, which)),
        )
    else:
        probe, weight, met = _chosen_probe(light, echoes, beam, is_last=which == 1)
    aim = beams.aim(engine, beam)
    offset, direction = light.sub_rays.ray(aim, probe)
    surface: Any
    # Adaptive sampling stores the surface that a probe met; otherwise it is traced again.
    if echoes.probes is not None:
        at = beam * PROBES + probe
        seen = echoes.probes.echoes.at(at)
        surface, casts = _Surface(met, seen.range, echoes.probes.normal(at), seen.part), mi.UInt32(0)
    else:
        surface = scene.trace(aim.origin + offset, direction, aim.time, light.optics.max_range, met, coherent=True)
        casts = dr.select(met, mi.UInt32(1), 0)
    air = mi.Float(0.0), mi.Float(1.0), mi.Float(0.0), mi.Float(1.0)
    start = _Path(aim.origin + offset, direction, mi.Float(0.0), weight, surface.found, mi.Bool(False), *air)
    echo, steps = _follow(light, scene, _go_on(light, start, surface, aim, mirror=mirrored), aim, bounces)
    # The first surface is shared by both paths of a probe and counted once.
    casts = dr.select(mirrored, 0, casts) + steps
    place = row * (2 * followed) + dr.select(mirrored, which + followed, which)
    return EchoRows.of(engine, echo, casts, index=place, size=paths.capacity), dr.sum(casts)


def specular_beams(light: Reflection, echoes: Echoes, beams: Beams) -> Bool:
    """Mask of beams with a probe on a specular surface."""
    dr, mi = running_engine().dr, running_engine().mi
    beam = dr.arange(mi.UInt32, beams.count)
    found = mi.Bool(False)
    for part in _probe_parts(echoes, beam):
        found |= is_specular(light, part)
    return found


def is_specular(light: Reflection, part: Int) -> Bool:
    """Mask of parts that mirror or transmit; False for NOTHING."""
    met = part != NOTHING
    return met & light.surfaces.is_specular(running_engine().dr.select(met, part, 0), met)


def _probe_part(echoes: Echoes, beam: Int, probe: Ints) -> Int:
    """Part that a probe of a beam met."""
    if echoes.probes is not None:
        part: Int = echoes.probes.echoes.at(beam * PROBES + probe).part
        return part
    assert echoes.wide is not None
    return echoes.wide.at(beam * echoes.slots + probe).part


def _probe_parts(echoes: Echoes, beam: Int) -> list[Int]:
    """Part that each probe of a beam met."""
    count = PROBES if echoes.probes is not None else min(PROBES, echoes.slots)
    return [_probe_part(echoes, beam, k) for k in range(count)]


def _chosen_probe(light: Reflection, echoes: Echoes, beam: Int, *, is_last: Bool) -> tuple[Int, Float, Bool]:
    """First or last probe of a beam on a specular surface, the sub-rays that it represents, and a mask of existence."""
    dr, mi = running_engine().dr, running_engine().mi
    none = mi.UInt32(NOTHING)
    first, last, count = none, none, mi.UInt32(0)
    parts = _probe_parts(echoes, beam)
    for k, part in enumerate(parts):
        met = is_specular(light, part)
        first = dr.select(met & (first == NOTHING), k, first)
        last = dr.select(met, k, last)
        count += dr.select(met, mi.UInt32(1), 0)
    one = first == last
    active = (first != NOTHING) & ~(is_last & one)
    weight = mi.Float(count) * dr.select(one, 1.0, 1.0 / FOLLOWED) * (echoes.slots / len(parts))
    return dr.select(active, dr.select(is_last, last, first), 0), weight, active


def _go_on(light: Reflection, path: _Path, hit: Trace, aim: BeamAim, mirror: Bool) -> _Path:
    """Continued path after a surface, mirrored or transmitted; inactive if it can no longer reach the threshold."""
    dr, mi = running_engine().dr, running_engine().mi
    slope = dr.dot(hit.normal, path.direction)
    place = dr.fma(path.direction, hit.t, path.origin)
    reflected, transmitted = light.surfaces.specular_split(
        dr.select(hit.found, hit.part, 0), dr.abs(slope), hit.found, place, upward(hit.normal, path.direction)
    )
    mirror = mi.Bool(mirror)
    part_kept = dr.select(mirror, reflected, transmitted)
    share = path.share * part_kept * part_kept
    length = path.length + hit.t
    ahead: Any = path.direction
    medium = [path.dry_length, path.index, path.attenuation, path.squeeze]
    active = path.active & hit.found & (part_kept > 0)
    if light.surfaces.has_water:
        index, attenuation = light.surfaces.water(dr.select(hit.found, hit.part, 0), hit.found)
        enters = ~mirror & (index > 1.0)
        ahead, squeeze = refracted(path.direction, hit.normal, slope, dr.select(enters, index, 1.0))
        into = (length, index, attenuation, squeeze)
        medium = [dr.select(enters, new, old) for new, old in zip(into, medium, strict=True)]
        # Light that comes back to a surface from below is not followed.
        active &= path.index == 1.0
    direction = dr.select(mirror, dr.normalize(path.direction - 2.0 * slope * hit.normal), ahead)
    origin = dr.fma(path.direction, hit.t, path.origin) + direction * (_STEP_OFF_M + _STEP_OFF_PER_M * hit.t)
    # Upper bound: all sub-rays on the brightest material at this range.
    best = share * light.sub_rays.weight * light.sub_rays.count * light.surfaces.brightest
    if aim.gain is not None:
        best = best * aim.gain
    worth = best > light.optics.threshold * length * length
    return _Path(origin, direction, length, share, active & worth, path.ghost | mirror, *medium)


def _follow(light: Reflection, scene: SceneArrays, path: _Path, aim: BeamAim, bounces: int) -> tuple[ReturnEcho, Int]:
    """Echo at the end of a path, and the number of rays cast."""
    dr, mi = running_engine().dr, running_engine().mi
    width = len(vars(path))

    def step(casts: Int, *state: Any) -> State:
        now, echo = _Path(*state[:width]), ReturnEcho(*state[width:])
        room = namespace(now.length).maximum(light.optics.max_range - now.length, 0.0)
        hit = scene.trace(now.origin, now.direction, aim.time, room, now.active, coherent=True)
        surface = dr.select(hit.found, hit.part, 0)
        casts = casts + 1
        length = now.length + hit.t
        cosine = dr.abs(dr.dot(hit.normal, now.direction))
        place = dr.fma(now.direction, hit.t, now.origin)
        up = upward(hit.normal, now.direction)
        reflected, transmitted = light.surfaces.specular_split(surface, cosine, hit.found, place, up)
        goes_on = hit.found & light.surfaces.is_specular(surface, hit.found) & (casts < bounces)
        if light.surfaces.patches is not None:
            goes_on &= reflected + transmitted > 0.0
        ends = hit.found & ~goes_on
        actor = mi.UInt32(NO_ACTOR) if hit.actor is None else hit.actor & NO_ACTOR
        actor = light.marked(actor, cosine) | dr.select(now.ghost, mi.UInt32(GHOST_BIT), 0)
        reported, counted, share = length, length, now.share
        if light.surfaces.has_water:
            reported, counted, factor = now.under_water(length)
            share = share * factor
        power = light.power(
            aim, surface, cosine, counted, hit, ends, share=share, place=place, normal=hit.normal, up=up
        )
        last = ReturnEcho(reported, power, hit.part, actor)
        echo = choose(dr, ends, last, echo)
        following = _go_on(light, now, hit, aim, reflected > transmitted)
        following.active &= goes_on
        return casts, *vars(following).values(), *vars(echo).values()

    start = (mi.UInt32(0), *vars(path).values(), *vars(ReturnEcho.none(running_engine())).values())
    place = 1 + list(vars(path)).index("active")
    casts, *state = dr.while_loop(start, lambda *s: s[place], step)
    return ReturnEcho(*state[width:]), casts


# ---- light that returns from the water itself, in digitised signals --------------------------------------------------


_PULSE_POINTS = 8
"""Points of the integral over the pulse."""


@dataclass
class WaterColumn:
    """Water below the surface that sub-rays met: its backscatter up to the bottom, as a signal over range."""

    light: Reflection
    names: PartNames
    surface: Block
    """Echoes of all sub-rays of each beam."""
    behind: Block
    """Echoes behind the surface, the first ones in the order of the sub-rays."""

    def signal(self, beam: Int, place: Float, length: Float) -> Float:
        """Signal [P_min] at ranges `place` [m] of beams, for a pulse of this length [m]."""
        engine = running_engine()
        dr, mi, light = engine.dr, engine.mi, self.light
        first = dr.gather(mi.UInt32, self.behind.first, beam)
        rows = dr.gather(mi.UInt32, self.behind.count, beam)
        slots = light.sub_rays.count

        def step(k: Int, total: Float) -> State:
            top = self.surface.rows.at(beam * slots + k)
            met = (top.part != NOTHING) & (rows > 0)
            index, attenuation = light.surfaces.water(dr.select(met, top.part, 0), met)
            met &= index > 1.0
            floor = self.behind.rows.at(first + k, met)
            last = dr.select(met & (floor.power > 0.0), floor.range, NO_ECHO)
            level = column_level(self.names.reflectance(dr.select(met, top.part, 0)), attenuation, index=index)
            level = level * light.sub_rays.weight / (light.optics.threshold * top.range * top.range)
            for j in range(_PULSE_POINTS):
                offset = length * ((j + 0.5) / _PULSE_POINTS - 0.5)
                deep = place - offset - top.range
                there = met & (deep > 0.0) & (place - offset < last)
                depth = dr.select(there, deep, 0.0) / index
                spread = spreading_factor(top.range, depth, index=index, squeeze=1.0) * index * index
                shape = pulse_shape(offset, length_m=length) * (length / _PULSE_POINTS)
                total = total + dr.select(there, level * spread * dr.exp(-2.0 * attenuation * depth) * shape, 0.0)
            return k + 1, total

        _, total = dr.while_loop((mi.UInt32(0), mi.Float(0.0)), lambda k, total: k < slots, step)
        return total
