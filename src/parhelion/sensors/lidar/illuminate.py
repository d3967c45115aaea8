"""Casting and reflection: what each sub-ray of each beam meets, and how much power it sends back.

Fixed sampling traces every sub-ray. Adaptive sampling traces five probes a beam; a further sub-ray is traced only
where the three probes around it do not lie on one plane of one part. Where they do, its range and power follow from
that plane, which is the answer that tracing would give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parhelion.rays.device import Engine
from parhelion.rays.scene import NOTHING
from parhelion.sensors.lidar.beam import PROBES
from parhelion.sensors.lidar.curve import Curve
from parhelion.sensors.lidar.emit import Beams, SubRays
from parhelion.sensors.lidar.link_budget import received_power
from parhelion.sensors.lidar.target import Target

NO_ECHO = 1e30
"""Range that stands for no echo, in kernels."""

# Probes are on one plane if each lies on the others' plane to this distance: 0.2 mm, or the rounding of long rays.
PLANE_TOLERANCE_M = 2e-4
PLANE_TOLERANCE_PER_M = 4e-6
NORMAL_TOLERANCE = 1e-6


@dataclass
class Optics:
    """Numbers of the sensor that reflection needs, opaque to the kernel compiler so that all sensors share kernels."""

    threshold: Any
    """P_min / C [1/(m^2 sr)]."""
    extinction: Any
    """One-way extinction of the air [1/m]."""
    min_range: Any
    max_range: Any
    overlap: Curve | None
    """Overlap of emitter and receiver by range, or None where it is 1."""


@dataclass
class Echoes:
    """One slot a sub-ray, `slots` a beam, slot = beam * slots + k. Evaluated device arrays."""

    slots: int
    range: Any
    """Range [m], NO_ECHO where nothing comes back."""
    power: Any
    """Received power in units of P_min."""
    part: Any
    actor: Any
    ghost: Any
    """1 where the path was folded by a mirror; None where no slot is."""
    casts: int
    """Rays that were cast."""


class Illumination:
    """Traces the sub-rays of a sensor in one target."""

    def __init__(self, target: Target, sub_rays: SubRays, optics: Optics) -> None:
        self.target, self.sub_rays, self.optics = target, sub_rays, optics
        self.engine = target.engine

    def power(self, part: Any, cosine: Any, range_m: Any, hit: Any, active: Any, share: Any = 1.0) -> Any:
        """Received power of one sub-ray in units of P_min; nothing from nearer than the sensor's least range."""
        dr, optics = self.engine.dr, self.optics
        overlap = 1.0 if optics.overlap is None else optics.overlap(range_m, active)
        power = received_power(
            weight=share * self.sub_rays.weight, brdf=self.target.brdf(part, cosine, hit, active), cos_theta=cosine,
            range_m=range_m, extinction_per_m=optics.extinction, threshold=optics.threshold, overlap=overlap,
        )  # fmt: skip
        return dr.select(active & (range_m >= optics.min_range), power, 0.0)

    def _trace(self, beams: Beams, beam: Any, sub_ray: Any) -> tuple[Any, Any, Any, Any]:
        """Range, power, hit, and hit point relative to the beam's exit, of traced sub-rays."""
        dr, mi = self.engine.dr, self.engine.mi
        offset, direction = self.sub_rays.ray(beams, beam, sub_ray)
        origin = dr.gather(mi.Point3f, beams.origin, beam) + offset
        time = dr.gather(mi.Float, beams.time, beam)
        hit = self.target.scene.trace(origin, direction, time, self.optics.max_range)
        cosine = dr.abs(dr.dot(hit.normal, direction))
        power = self.power(dr.select(hit.found, hit.part, 0), cosine, hit.t, hit, hit.found)
        return dr.select(hit.found, hit.t, NO_ECHO), power, hit, dr.fma(direction, hit.t, offset)

    def fixed(self, beams: Beams) -> Echoes:
        """Trace every sub-ray."""
        dr, mi, slots = self.engine.dr, self.engine.mi, self.sub_rays.count
        index = dr.arange(mi.UInt32, beams.count * slots)
        beam = index // slots
        range_m, power, hit, _ = self._trace(beams, beam, index - beam * slots)
        dr.eval(range_m, power, hit.part, hit.actor)
        return Echoes(slots, range_m, power, hit.part, hit.actor, None, beams.count * slots)

    def adaptive(self, beams: Beams) -> Echoes:
        """Trace the probes, fill in what they agree on, trace the rest."""
        if self.sub_rays.count <= PROBES:
            return self.fixed(beams)
        dr, mi, slots = self.engine.dr, self.engine.mi, self.sub_rays.count
        probe_index = dr.arange(mi.UInt32, beams.count * PROBES)
        beam = probe_index // PROBES
        t, power, hit, point = self._trace(beams, beam, probe_index - beam * PROBES)
        probes = _Probes(t, power, hit.part, hit.actor, hit.normal, point)
        dr.eval(t, power, hit.part, hit.actor, hit.normal, point)

        index = dr.arange(mi.UInt32, beams.count * slots)
        beam = index // slots
        sub_ray = index - beam * slots
        echoes, open_question = self._fill(beams, beam, sub_ray, probes)
        dr.eval(echoes.range, echoes.power, echoes.part, echoes.actor, open_question)
        left_over = dr.compress(open_question)
        traced = len(left_over)
        if traced:
            beam = left_over // slots
            range_m, power, hit, _ = self._trace(beams, beam, left_over - beam * slots)
            dr.scatter(echoes.range, range_m, left_over)
            dr.scatter(echoes.power, power, left_over)
            dr.scatter(echoes.part, hit.part, left_over)
            dr.scatter(echoes.actor, hit.actor, left_over)
            dr.eval(echoes.range, echoes.power, echoes.part, echoes.actor)
        echoes.casts = beams.count * PROBES + traced
        return echoes

    def _fill(self, beams: Beams, beam: Any, sub_ray: Any, probes: _Probes) -> tuple[Echoes, Any]:
        """Slots of probes, slots that follow from them, and a mask of those that do not."""
        dr, mi = self.engine.dr, self.engine.mi
        is_probe = sub_ray < PROBES
        guards = [dr.gather(mi.UInt32, self.sub_rays.guards, sub_ray * 3 + k) for k in range(3)]
        first, second, third = (probes.at(self.engine, beam * PROBES + guard) for guard in guards)
        agree = first.same_plane(dr, second) & first.same_plane(dr, third)
        nothing = (first.part == NOTHING) & (second.part == NOTHING) & (third.part == NOTHING)
        offset, direction = self.sub_rays.ray(beams, beam, sub_ray)
        slope = dr.dot(first.normal, direction)
        t = dr.dot(first.normal, first.point - offset) / slope
        filled = agree & (t > 0) & (t < self.optics.max_range) & ~is_probe & ~nothing
        cosine = dr.abs(slope)
        # The reflectance of a textured part varies within its plane: only tracing finds it.
        filled &= ~self.target.textured(first.part, filled)
        power = self.power(dr.select(filled, first.part, 0), cosine, t, None, filled)
        own = probes.at(self.engine, beam * PROBES + dr.select(is_probe, sub_ray, 0))
        range_m = dr.select(is_probe, own.t, dr.select(filled, t, NO_ECHO))
        echoes = Echoes(
            self.sub_rays.count, range_m, dr.select(is_probe, own.power, power),
            dr.select(is_probe, own.part, dr.select(filled, first.part, NOTHING)),
            dr.select(is_probe, own.actor, dr.select(filled, first.actor, NOTHING)), None, 0,
        )  # fmt: skip
        return echoes, ~(is_probe | filled | nothing)


@dataclass
class _Probes:
    t: Any
    power: Any
    part: Any
    actor: Any
    normal: Any
    point: Any
    """Hit point relative to the beam's exit [m]."""

    def at(self, engine: Engine, index: Any) -> _Probes:
        values = (self.t, self.power, self.part, self.actor, self.normal, self.point)
        return _Probes(*(engine.dr.gather(type(value), value, index) for value in values))

    def same_plane(self, dr: Any, other: _Probes) -> Any:
        """Whether the other probe hit the plane that this one hit, on the same part."""
        apart = dr.abs(dr.dot(self.normal, other.point - self.point))
        close = apart < PLANE_TOLERANCE_M + PLANE_TOLERANCE_PER_M * self.t
        return (
            (self.part != NOTHING) & (self.part == other.part) & close
            & (dr.abs(dr.dot(self.normal, other.normal)) > 1.0 - NORMAL_TOLERANCE)
        )  # fmt: skip
