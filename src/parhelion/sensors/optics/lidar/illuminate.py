"""Casting and reflection: the surface that each sub-ray meets, and the power that it returns."""

from __future__ import annotations

from dataclasses import dataclass, field

from parhelion.core.arrays import UNSET, Bool, Float, Int, Ints, Masks, Reals, State, Vectors, namespace
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.replay import Picked, Rows, SceneArrays, capacity
from parhelion.rays.scene import NOTHING, Trace
from parhelion.sensors.optics.air import Air, LocalAir, two_way
from parhelion.sensors.optics.appearance import trace_through
from parhelion.sensors.optics.beams import BeamAim, Beams, LocalCurve, RangeCurve
from parhelion.sensors.optics.lidar.echoes import (
    NO_ACTOR,
    NO_ECHO,
    Echoes,
    EchoRows,
    ReturnEcho,
    SpecularBeams,
    choose,
    echo_bits,
    in_rows,
)
from parhelion.sensors.optics.lidar.emit import ALL_PROBES, MIDDLE, PROBES, SECTORS, SubRays
from parhelion.sensors.optics.lidar.link_budget import received_power
from parhelion.sensors.optics.lidar.profiles import ACTOR_BITS, ANGLE_SHIFT, ProfiledParts, angle_code
from parhelion.sensors.optics.scene import Surfaces, upward


@kernel_tree()
@dataclass
class Optics:
    """Sensor parameters for reflection, opaque to the kernel compiler so that all sensors share kernels."""

    threshold: Float
    """P_min / C [1/(m^2 sr)]."""
    extinction: Float
    """One-way extinction of the air [1/m]."""
    min_range: Float
    max_range: Float
    exit_m: Float
    """Width of the beam at its exit [m]."""
    spread: Float
    """Growth of the beam's width with range."""
    overlap: RangeCurve | None
    """Overlap of emitter and receiver by range; None if it is 1."""


@dataclass
class Local:
    """Air and overlap around one range of each beam."""

    air: Air | LocalAir
    overlap: LocalCurve | None
    pattern: Float | None = None
    """Factor of the pattern on the beam's axis; None without patterns."""
    patch: Int | None = None
    """Offset of the rows of puddles and snow on the beam's axis; None without any."""


@kernel_tree()
@dataclass
class Reflection:
    """Inputs of the power that a sub-ray returns from a surface."""

    surfaces: Surfaces
    sub_rays: SubRays
    optics: Optics
    air: Air
    profiled: ProfiledParts | None = None
    """Parts whose noise comes from profiles; their echoes carry the angle of incidence."""
    weathered: bool = False
    """True if the air attenuates more than clear air."""

    def power(
        self,
        aim: BeamAim,
        part: Int,
        cosine: Float,
        range_m: Float,
        hit: Trace | None,
        active: Bool,
        *,
        share: Reals = 1.0,
        material: Int | None = None,
        near: Local | None = None,
        place: Vectors | None = None,
        normal: Vectors | None = None,
        up: Float | None = None,
    ) -> Float:
        """Received power of one sub-ray [P_min]; 0 below the sensor's shortest range.

        `place` and `normal` are the hit point in the scene's local frame and the normal there, for patterns; `up` is
        the upward component of the normal on the visible side, for puddles and snow.

        `material` is the part's material if it is known already; `near` is valid for a short interval of range.
        """
        dr, optics = running_engine().dr, self.optics
        curve, air = (optics.overlap, self.air) if near is None else (near.overlap, near.air)
        overlap = 1.0 if curve is None else curve(range_m, active)
        material = self.surfaces.material(part, active) if material is None else material
        overlap = overlap if aim.gain is None else overlap * aim.gain
        pattern, patch = (None, None) if near is None else (near.pattern, near.patch)
        if place is not None and normal is not None:
            pattern = self.pattern(aim, part, place, normal, active) if pattern is None else pattern
            patch = self.patch(part, place, up, active) if patch is None else patch
        row = material if patch is None else material + patch
        power = received_power(
            weight=share * self.sub_rays.weight,
            reflected=self.surfaces.reflected(part, row, cosine, hit, active, pattern),
            range_m=range_m,
            optical_depth=air.depth(aim, range_m),
            threshold=optics.threshold,
            overlap=overlap,
        )
        if self.profiled is not None:
            least = self.profiled.at_least(part, range_m, active) * (share * self.sub_rays.weight)
            if self.weathered:
                least = least * two_way(air, optics.extinction, aim, range_m)
            power = dr.select(power < least, least, power)
        return dr.select(active & (range_m >= optics.min_range), power, 0.0)

    def pattern(self, aim: BeamAim, part: Int, place: Vectors, normal: Vectors, active: Bool) -> Float | None:
        """Factor of patterns on the diffuse reflectance; None without patterns."""
        dr, patterns, optics = running_engine().dr, self.surfaces.patterns, self.optics
        if patterns is None:
            return None
        # The geometric mean of the footprint's two widths on an inclined surface.
        cosine = dr.abs(dr.dot(normal, aim.axis))
        width = optics.exit_m + optics.spread * dr.norm(place - aim.origin)
        width = width / dr.sqrt(namespace(cosine).maximum(cosine, 0.01))
        return patterns.factors(part, place, normal, width, active, bilinear=False)[0]

    def upward(self, normal: Vectors, direction: Vectors) -> Float | None:
        """Upward component of normals on the side of a ray; None without puddles and snow."""
        return None if self.surfaces.patches is None else upward(normal, direction)

    def patch(self, part: Int, place: Vectors, up: Float | None, active: Masks) -> Int | None:
        """Offset of the rows of puddles and snow; None without any."""
        if self.surfaces.patches is None or up is None:
            return None
        return self.surfaces.patches.blocks(part, place, up, active) * self.surfaces.patches.materials

    def marked(self, actor: Int, cosine: Float) -> Int:
        """Actor number that includes the angle of incidence if profiles need it."""
        if self.profiled is None:
            return actor
        return (actor & ACTOR_BITS) | (angle_code(cosine) << ANGLE_SHIFT)

    def around(self, aim: BeamAim, range_m: Float) -> Local:
        """Range-dependent quantities for ranges within a few decimetres, so that tables are read only once."""
        curve = self.optics.overlap
        return Local(self.air.around(aim, range_m), None if curve is None else curve.around(range_m))

    def trace(self, scene: SceneArrays, aim: BeamAim, sub_ray: Int, active: Masks = True) -> tuple[ReturnEcho, Vectors]:
        """Echo and surface normal of traced sub-rays."""
        dr, mi = running_engine().dr, running_engine().mi
        offset, direction = self.sub_rays.ray(aim, sub_ray)
        hit = trace_through(
            scene,
            self.surfaces.holes,
            aim.origin + offset,
            direction,
            aim.time,
            self.optics.max_range,
            active,
            step_off=lambda t: 1e-4 + 1e-5 * t,
            coherent=True,
        )
        cosine = dr.abs(dr.dot(hit.normal, direction))
        place = _on_axis(aim, dr.fma(direction, hit.t, aim.origin + offset), hit.normal, hit.t)
        power = self.power(
            aim,
            dr.select(hit.found, hit.part, 0),
            cosine,
            hit.t,
            hit,
            hit.found,
            place=place,
            normal=hit.normal,
            up=self.upward(hit.normal, direction),
        )
        actor = mi.UInt32(NO_ACTOR) if hit.actor is None else hit.actor & NO_ACTOR
        echo = ReturnEcho(dr.select(hit.found, hit.t, NO_ECHO), power, hit.part, self.marked(actor, cosine))
        return echo, hit.normal


def _on_axis(aim: BeamAim, place: Vectors, normal: Vectors, range_m: Float) -> Vectors:
    """Point of the beam's axis on the plane through a hit.

    Patterns are filtered to the width of the beam, so all sub-rays on a plane have the factor of its centre.
    """
    dr = running_engine().dr
    along = dr.dot(normal, place - aim.origin) / dr.dot(normal, aim.axis)
    near = dr.abs(along - range_m) < 0.05 + 0.05 * range_m
    return dr.select(near, dr.fma(aim.axis, along, aim.origin), place)


def illuminate_all(light: Reflection, scene: SceneArrays, beams: Beams) -> Echoes:
    """Trace every sub-ray."""
    engine, slots = running_engine(), light.sub_rays.count
    trace_all = engine.frozen(_trace_all, casts=True)
    rows = trace_all(light, scene, beams, Rows.cached(engine, beams.count * slots), slots)
    return Echoes(slots, rows, None, None, None, [beams.count * slots])


def _trace_all(light: Reflection, scene: SceneArrays, beams: Beams, rays: Rows, slots: int) -> EchoRows:
    engine, index = running_engine(), rays.index
    beam = index // slots
    return EchoRows.of(engine, light.trace(scene, beams.aim(engine, beam), index - beam * slots)[0])


# ---- Adaptive sampling of the footprint: the result of all sub-rays for a fraction of the rays ----------------------
# 1. Four probes per beam are traced, at the rim of the footprint.
# 2. If they lie on one plane of one part, so do all sub-rays: their range and power follow from the plane, exactly as
#    tracing would give. If they are also closer together than the receiver resolves, their sum is one echo, and the
#    beam is narrow. If all four probes met nothing, so do all sub-rays.
# 3. In the other beams, the centre and the four rim points in between are traced. They divide the footprint into eight
#    sectors, which are judged in the same way, each by the centre and its two rim points.
# 4. Sub-rays in undecided sectors are traced.


DISAGREE = NOTHING - 1
"""Part number in kernels for probes on different surfaces."""

MORE_PROBES = ALL_PROBES - PROBES

# Probes are on one plane if each lies within this distance of the others' plane: 0.2 mm plus the rounding of long rays.
PLANE_TOLERANCE_M = 2e-4
PLANE_TOLERANCE_PER_M = 4e-6
NORMAL_TOLERANCE = 1e-6
# Power that varies less than this over the footprint is summed by five points; the error is of fourth order.
GENTLE = 0.2
# Probes closer together in range than this count as one surface, which hides everything behind its centre.
_ONE_SURFACE_M = 1.0


def illuminate_adaptively(light: Reflection, scene: SceneArrays, beams: Beams, merge_distance: Float) -> Echoes:
    """Echoes of all beams; those closer than `merge_distance` [m] may be summed."""
    slots = light.sub_rays.count
    if slots <= ALL_PROBES:
        return illuminate_all(light, scene, beams)
    engine = running_engine()
    rays, everyone = Rows.cached(engine, beams.count * PROBES), Rows.cached(engine, beams.count)
    first_pass = engine.frozen(_first_pass, casts=True)
    probes, narrow, part, wide, specular = first_pass(light, scene, beams, rays, everyone, merge_distance)
    casts: list[Ints] = [beams.count * PROBES]
    wide_beams = wide.wait()
    # Read now: a later read would wait for all kernels that were launched in between.
    picked = SpecularBeams.of(engine, *(some.wait() for some in specular)) if specular else None
    if len(wide_beams) == 0:
        return Echoes(slots, None, None, narrow, None, casts, probes, picked)
    rows, place, casts_more = _wide_rows(light, scene, beams, wide_beams, part, probes)
    return Echoes(slots, rows, wide_beams, narrow, place, casts + casts_more, probes, picked)


def _first_pass(
    light: Reflection, scene: SceneArrays, beams: Beams, rays: Rows, everyone: Rows, merge_distance: Float
) -> tuple[ProbeRows, EchoRows, Int, Picked, tuple[Picked, ...]]:
    """Trace the probes of all beams (`rays`) and evaluate them with `_sum_flat_beams`."""
    engine, index = running_engine(), rays.index
    beam = index // PROBES
    probes = ProbeRows.of(engine, *light.trace(scene, beams.aim(engine, beam), index - beam * PROBES), index)
    return probes, *_sum_flat_beams(light, beams, everyone, probes, merge_distance)


@dataclass
class Probe:
    """Hit of a probe, as kernel variables."""

    echo: ReturnEcho
    normal: Vectors
    point: Vectors
    """Hit point relative to the beam exit [m]."""

    def same_plane(self, other: Probe) -> Bool:
        """Mask of probes that hit the same plane of the same part as the other probe."""
        dr = running_engine().dr
        apart = dr.abs(dr.dot(self.normal, other.point - self.point))
        close = apart < PLANE_TOLERANCE_M + PLANE_TOLERANCE_PER_M * self.echo.range
        aligned = dr.abs(dr.dot(self.normal, other.normal)) > 1.0 - NORMAL_TOLERANCE
        return (self.echo.part != NOTHING) & (self.echo.part == other.echo.part) & close & aligned


@kernel_tree()
@dataclass
class ProbeRows:
    """Probes in device memory."""

    echoes: EchoRows = field(default_factory=EchoRows)
    normals: Float = UNSET

    @classmethod
    def of(
        cls, engine: Engine, echo: ReturnEcho, normal: Vectors, rows: Int, *, index: Int | None = None, size: int = 0
    ) -> ProbeRows:
        """Evaluate echoes and normals of the probes that `rows` counts; `index` and `size` are as for `in_rows`."""
        # The fourth number is never read, but it must differ from row to row: if no probe can meet anything, normals
        # are a constant, which Dr.Jit would store as a single row.
        fourth = engine.dr.reinterpret_array(engine.mi.Float, rows)
        normals = in_rows(engine, engine.mi.Vector4f(normal.x, normal.y, normal.z, fourth), index, size)
        return cls(EchoRows.of(engine, echo, normals, index=index, size=size), normals)

    def reach(self, beam: Int, active: Bool) -> Float:
        """Range of the farthest surface that each beam meets [m]; NO_ECHO if a probe met none."""
        dr, mi = running_engine().dr, running_engine().mi
        nearest, farthest, total = mi.Float(NO_ECHO), mi.Float(0.0), mi.Float(0.0)
        for k in range(PROBES):
            range_m = self.echoes.at(beam * PROBES + k, active).range
            nearest = dr.select(range_m < nearest, range_m, nearest)
            farthest = dr.select(range_m > farthest, range_m, farthest)
            total = total + range_m
        return dr.select(farthest - nearest < _ONE_SURFACE_M, total / PROBES, farthest)

    def normal(self, row: Int, active: Masks = True) -> Vectors:
        """Normals by number; zeros where not active."""
        dr, mi = running_engine().dr, running_engine().mi
        n = dr.gather(mi.Vector4f, self.normals, row, active)
        return mi.Vector3f(n.x, n.y, n.z)

    def at(self, light: Reflection, aim: BeamAim, sub_ray: Int, row: Int, active: Masks = True) -> Probe:
        """Rows by number, which belong to these sub-rays of beams; zeros where not active."""
        echo = self.echoes.at(row, active)
        # Recomputing the points from the range is faster than storing them.
        offset, direction = light.sub_rays.ray(aim, sub_ray)
        return Probe(echo, self.normal(row, active), running_engine().dr.fma(direction, echo.range, offset))


def _judge(light: Reflection, first: Probe, *others: Probe) -> Int:
    """Part that all probes agree on, NOTHING if none met anything, or DISAGREE."""
    dr = running_engine().dr
    part = first.echo.part
    agree, nothing = part != NOTHING, part == NOTHING
    for other in others:
        agree &= first.same_plane(other)
        nothing &= other.echo.part == NOTHING
    # The reflectance of a textured part varies within its plane and requires tracing.
    agree &= ~light.surfaces.textured(dr.select(agree, part, 0), agree)
    return dr.select(nothing, NOTHING, dr.select(agree, part, DISAGREE))


def _on_plane(
    light: Reflection,
    aim: BeamAim,
    sub_ray: Int,
    part: Int,
    probe: Probe,
    material: Int | None = None,
    near: Local | None = None,
) -> tuple[Bool, ReturnEcho]:
    """Mask of sub-rays that meet the plane of a probe on their part, and their echo there."""
    dr = running_engine().dr
    offset, direction = light.sub_rays.ray(aim, sub_ray)
    slope = dr.dot(probe.normal, direction)
    range_m = dr.dot(probe.normal, probe.point - offset) / slope
    met = (part < DISAGREE) & (range_m > 0) & (range_m < light.optics.max_range)
    power = light.power(
        aim,
        dr.select(met, part, 0),
        dr.abs(slope),
        range_m,
        None,
        met,
        material=material,
        near=near,
        place=_on_axis(aim, dr.fma(direction, range_m, aim.origin + offset), probe.normal, range_m),
        normal=probe.normal,
        up=light.upward(probe.normal, direction),
    )
    there = ReturnEcho(range_m, power, part, probe.echo.actor)
    return met, choose(dr, met, there, ReturnEcho.none(running_engine()))


def _sum_flat_beams(
    light: Reflection, beams: Beams, everyone: Rows, probes: ProbeRows, merge_distance: Float
) -> tuple[EchoRows, Int, Picked, tuple[Picked, ...]]:
    """Single echo of each beam whose probes agree, the part of each beam, and selections of beams.

    The first selection holds the wide beams, which need all their slots. In worlds with specular surfaces, two more
    selections hold the narrow and the wide beams with a probe on such a surface.
    """
    engine = running_engine()
    dr, mi, beam = engine.dr, engine.mi, everyone.index
    xp = namespace(merge_distance)
    aim = beams.aim(engine, beam)
    first, *others = (probes.at(light, aim, mi.UInt32(k), beam * PROBES + k) for k in range(PROBES))
    part = _judge(light, first, *others)
    flat = part < DISAGREE
    material = light.surfaces.material(dr.select(flat, part, 0), flat)
    middle = first.echo.range  # ranges are summed relative to this one to preserve float32 precision
    # Beams that span more range than the receiver resolves are wide and are evaluated in full.
    near = light.around(aim, dr.select(flat, middle, 1.0))
    if light.surfaces.patterns is not None:
        # All sub-rays on the plane have the factor of its point on the axis.
        place = _on_axis(aim, first.point + aim.origin, first.normal, middle)
        near.pattern = light.pattern(aim, dr.select(flat, part, 0), place, first.normal, flat)
    if light.surfaces.patches is not None:
        place = _on_axis(aim, first.point + aim.origin, first.normal, middle)
        near.patch = light.patch(dr.select(flat, part, 0), place, upward(first.normal, aim.axis), flat)

    gentle, quick_power, quick_moment = _five_point_sum(
        light,
        (first, *others),
        _on_plane(light, aim, mi.UInt32(MIDDLE), part, first, material, near)[1],
        merge_distance,
    )
    gentle &= flat

    def step(k: Int, power: Float, moment: Float, nearest: Float, farthest: Float) -> State:
        met, echo = _on_plane(light, aim, k, part, first, material, near)
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
    # A surface that is too dark or too near to return anything still hides everything behind it.
    one = flat & ~spread
    mean = ReturnEcho(middle + moment / dr.select(power > 0, power, 1.0), power, part, first.echo.actor)
    wide = (part == DISAGREE) | spread
    masks = [wide]
    if light.surfaces.has_specular:
        specular = mi.Bool(False)
        for probe in (first, *others):
            met = probe.echo.part != NOTHING
            specular |= met & light.surfaces.is_specular(dr.select(met, probe.echo.part, 0), met)
        masks += [specular & ~wide, specular & wide]
    flags = [dr.select(mask, mi.UInt32(1), 0) for mask in masks]
    rows = EchoRows.of(engine, choose(dr, one, mean, ReturnEcho.none(engine)), part, *flags)
    picked, *more = (everyone.pick(flag) for flag in flags)
    return rows, part, picked, tuple(more)


def _five_point_sum(
    light: Reflection, probes: tuple[Probe, ...], middle: ReturnEcho, merge_distance: Float
) -> tuple[Bool, Float, Float]:
    """Mask of beams to which it applies, summed power, and power times range relative to the first probe.

    The sums use four probes and the centre and are exact for cubic functions over the footprint. They apply where power
    varies little and all echoes are certain to merge into one.
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
    # Between the probes, the rim may lie farther out by up to the diagonal of a square.
    return even & ((high - low) * 1.5 < merge_distance), power, moment


def _wide_rows(
    light: Reflection, scene: SceneArrays, beams: Beams, wide_beams: Int, part: Int, probes: ProbeRows
) -> tuple[EchoRows, Int, list[Ints]]:
    """All slots of the wide beams, the place of each beam among them, and the number of rays cast (on the device)."""
    engine = running_engine()
    count = len(wide_beams)
    rays, sectors = (Rows.transient(engine, count * each, capacity(count) * each) for each in (MORE_PROBES, SECTORS))
    second_pass = engine.frozen(_second_pass, casts=True)
    rows, place, still_open, traced = second_pass(light, scene, beams, wide_beams, rays, sectors, part, probes)
    left = still_open.wait()
    casts: list[Ints] = [traced]
    if len(left):
        rays = Rows.transient(engine, len(left) * light.sub_rays.sector_size)
        echo, row, found = engine.frozen(_third_pass, casts=True)(light, scene, beams, wide_beams, left, rays)
        rows.put(row, echo, True if found is None else found)
        casts.append(len(rays) if found is None else engine.dr.count(found))
    return rows, place, casts


def _second_pass(
    light: Reflection,
    scene: SceneArrays,
    beams: Beams,
    wide_beams: Int,
    rays: Rows,
    sectors: Rows,
    part: Int,
    probes: ProbeRows,
) -> tuple[EchoRows, Int, Picked, Int]:
    """Slots of wide beams, each beam's place among them or NOTHING, the undecided sectors, and the number of rays cast.

    A wide beam is mixed if its probes disagree, or spread if its single plane covers a long interval of range. Further
    probes (`rays`) are traced in mixed beams only; `sectors` numbers the sectors of all wide beams.
    """
    engine = running_engine()
    dr, mi, slots, index = engine.dr, engine.mi, light.sub_rays.count, rays.index
    words = dr.empty(mi.UInt32, 4 * (rays.capacity // MORE_PROBES) * slots)
    number = index // MORE_PROBES
    beam, sub_ray = dr.gather(mi.UInt32, wide_beams, number), PROBES + index - number * MORE_PROBES
    whole, aim = dr.gather(mi.UInt32, part, beam), beams.aim(engine, beam)
    mixed = whole == DISAGREE
    traced, normal = light.trace(scene, aim, sub_ray, mixed)
    plane = probes.at(light, aim, mi.UInt32(0), beam * PROBES, ~mixed)
    echo = choose(dr, mixed, traced, _on_plane(light, aim, sub_ray, whole, plane)[1])
    dr.scatter(words, echo_bits(engine, echo), number * slots + sub_ray)
    normal = dr.select(mixed, normal, plane.normal)
    more = ProbeRows.of(engine, echo, normal, index, index=index, size=rays.capacity)
    place = dr.full(mi.UInt32, NOTHING, beams.count)
    order = dr.arange(mi.UInt32, dr.width(wide_beams))
    dr.scatter(place, order, wide_beams)
    probed = dr.gather(mi.UInt32, part, wide_beams) == DISAGREE

    def copy(k: Int) -> State:
        dr.scatter(words, echo_bits(engine, probes.echoes.at(wide_beams * PROBES + k)), order * slots + k)
        return (k + 1,)

    dr.while_loop((mi.UInt32(0),), lambda k: k < PROBES, copy)
    dr.eval(place, words, probed)
    is_open = _fill(light, beams, sectors.index, wide_beams, probes, more, words)
    return EchoRows(words), place, sectors.pick(is_open), dr.sum(dr.select(probed, mi.UInt32(MORE_PROBES), 0))


def _third_pass(
    light: Reflection, scene: SceneArrays, beams: Beams, wide_beams: Int, left: Int, rays: Rows
) -> tuple[ReturnEcho, Int, Bool | None]:
    """Echoes of the sub-rays in undecided sectors, their rows, and the mask of valid ones (None if all are valid)."""
    engine = running_engine()
    dr, mi, sub_rays, index = engine.dr, engine.mi, light.sub_rays, rays.index
    number = index // sub_rays.sector_size
    sector = dr.gather(mi.UInt32, left, number)
    row = sector // SECTORS
    place = (sector - row * SECTORS) * sub_rays.sector_size + index - number * sub_rays.sector_size
    sub_ray = dr.gather(mi.UInt32, sub_rays.sector_members, place)
    found = None if sub_rays.sectors_are_even else sub_ray != NOTHING
    if found is not None:
        sub_ray = dr.select(found, sub_ray, 0)
    aim = beams.aim(engine, dr.gather(mi.UInt32, wide_beams, row))
    echo, _ = light.trace(scene, aim, sub_ray, True if found is None else found)
    row = row * sub_rays.count + sub_ray
    dr.eval(echo, row, found)
    return echo, row, found


def _fill(
    light: Reflection, beams: Beams, index: Int, wide_beams: Int, probes: ProbeRows, more: ProbeRows, words: Int
) -> Int:
    """Fill the slots of sub-rays whose plane is known; return 1 for undecided sectors and 0 for the others.

    `index` numbers the sectors. Each is judged by the centre and its two rim probes, one of the first four and one of
    those in between.
    """
    engine = running_engine()
    dr, mi, sub_rays = engine.dr, engine.mi, light.sub_rays
    row = index // SECTORS
    sector = index - row * SECTORS
    beam = dr.gather(mi.UInt32, wide_beams, row)
    rim = dr.gather(mi.Vector2u, sub_rays.sector_rim, sector)
    early, late = dr.select(rim.x < PROBES, rim.x, rim.y), dr.select(rim.x < PROBES, rim.y, rim.x)
    aim, number = beams.aim(engine, beam), row * MORE_PROBES
    middle = more.at(light, aim, mi.UInt32(MIDDLE), number + (MIDDLE - PROBES))
    early_probe = probes.at(light, aim, early, beam * PROBES + early)
    part = _judge(light, middle, early_probe, more.at(light, aim, late, number + (late - PROBES)))
    material = light.surfaces.material(dr.select(part < DISAGREE, part, 0), part < DISAGREE)

    def fill(k: Int, is_open: Bool) -> State:
        sub_ray = dr.gather(mi.UInt32, sub_rays.sector_members, sector * sub_rays.sector_size + k)
        there = sub_ray != NOTHING
        sub_ray = dr.select(there, sub_ray, 0)
        met, echo = _on_plane(light, aim, sub_ray, part, middle, material)
        dr.scatter(words, echo_bits(engine, echo), row * sub_rays.count + sub_ray, there)
        return k + 1, is_open | there & ~(met | (part == NOTHING))

    _, is_open = dr.while_loop((mi.UInt32(0), mi.Bool(False)), lambda k, is_open: k < sub_rays.sector_size, fill)
    flags = dr.select(is_open, mi.UInt32(1), 0)
    dr.eval(words, flags)
    return flags
