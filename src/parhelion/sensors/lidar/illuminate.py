"""Casting and reflection: what each sub-ray of each beam meets, and how much power it sends back.

Fixed sampling traces every sub-ray. Adaptive sampling traces five probes a beam; a further sub-ray is traced only
where the three probes around it do not lie on one plane of one part. Where they do, its range and power follow from
that plane, which is the answer that tracing would give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parhelion.rays.scene import NOTHING
from parhelion.sensors.lidar.beam import PROBES, SECTORS
from parhelion.sensors.lidar.curve import Curve
from parhelion.sensors.lidar.emit import Beams, SubRays
from parhelion.sensors.lidar.link_budget import received_power
from parhelion.sensors.lidar.target import Target

DISAGREE = NOTHING - 1
"""Part number that stands for probes on different surfaces, in kernels."""

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
    """Actor number, or None where nothing in the world moves."""
    ghost: Any
    """1 where the path was folded by a mirror; None where no slot is."""
    casts: int
    """Rays that were cast."""

    def arrays(self) -> list[Any]:
        """Range, power, part and, where there are moving bodies, actor."""
        return [array for array in (self.range, self.power, self.part, self.actor) if array is not None]


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
        echoes = Echoes(slots, range_m, power, hit.part, hit.actor, None, beams.count * slots)
        dr.eval(*echoes.arrays())
        return echoes

    def adaptive(self, beams: Beams) -> Echoes:
        """Trace the probes, fill in what they agree on, trace the rest."""
        if self.sub_rays.count <= PROBES:
            return self.fixed(beams)
        dr, mi, slots = self.engine.dr, self.engine.mi, self.sub_rays.count
        probe_index = dr.arange(mi.UInt32, beams.count * PROBES)
        beam = probe_index // PROBES
        t, power, hit, point = self._trace(beams, beam, probe_index - beam * PROBES)
        probes = _Probes(t, power, hit.part, hit.actor, hit.normal, point)
        dr.eval(*(value for value in vars(probes).values() if value is not None))

        echoes, open_question = self._fill(beams, probes, self._sectors(beams, probes))
        dr.eval(*echoes.arrays(), open_question)
        left_over = dr.compress(open_question)
        traced = len(left_over)
        if traced:
            beam = left_over // slots
            range_m, power, hit, _ = self._trace(beams, beam, left_over - beam * slots)
            for array, values in zip(echoes.arrays(), (range_m, power, hit.part, hit.actor), strict=False):
                dr.scatter(array, values, left_over)
            dr.eval(*echoes.arrays())
        echoes.casts = beams.count * PROBES + traced
        return echoes

    def _sectors(self, beams: Beams, probes: _Probes) -> tuple[Any, Any, Any]:
        """For each of the four sectors between rim probes: its plane (normal, distance from the beam's exit), the part
        that it is on, NOTHING where all three probes met nothing and DISAGREE where they do not agree; and the actor.
        """
        dr, mi = self.engine.dr, self.engine.mi
        index = dr.arange(mi.UInt32, beams.count * SECTORS)
        base = (index // SECTORS) * PROBES
        sector = index & (SECTORS - 1)
        corners = [dr.gather(mi.UInt32, self.sub_rays.corners, sector * 2 + k) for k in range(2)]
        first, second, third = (probes.at(dr, base + corner) for corner in (0, *corners))
        agree = first.same_plane(dr, second) & first.same_plane(dr, third)
        nothing = (first.part == NOTHING) & (second.part == NOTHING) & (third.part == NOTHING)
        # The reflectance of a textured part varies within its plane: only tracing finds it.
        agree &= ~self.target.textured(dr.select(agree, first.part, 0), agree)
        part = dr.select(nothing, NOTHING, dr.select(agree, first.part, DISAGREE))
        n, distance = first.normal, dr.dot(first.normal, first.point)
        plane = mi.Vector4f(n.x, n.y, n.z, distance)
        dr.eval(plane, part)
        packed = dr.ravel(plane)
        if first.actor is not None:
            dr.eval(first.actor)
        return packed, part, first.actor

    def _fill(self, beams: Beams, probes: _Probes, sectors: tuple[Any, Any, Any]) -> tuple[Echoes, Any]:
        """Slots of probes, slots that follow from them, and a mask of those that do not."""
        dr, mi, slots = self.engine.dr, self.engine.mi, self.sub_rays.count
        planes, parts, actors = sectors
        index = dr.arange(mi.UInt32, beams.count * slots)
        beam = index // slots
        sub_ray = index - beam * slots
        is_probe = sub_ray < PROBES
        sector = beam * SECTORS + dr.gather(mi.UInt32, self.sub_rays.sector, sub_ray)
        part = dr.gather(mi.UInt32, parts, sector, ~is_probe)
        on_plane = ~is_probe & (part < DISAGREE)
        plane = dr.gather(mi.Vector4f, planes, sector, on_plane)
        normal = mi.Vector3f(plane.x, plane.y, plane.z)
        offset, direction = self.sub_rays.ray(beams, beam, sub_ray)
        slope = dr.dot(normal, direction)
        t = (plane.w - dr.dot(normal, offset)) / slope
        filled = on_plane & (t > 0) & (t < self.optics.max_range)
        power = self.power(dr.select(filled, part, 0), dr.abs(slope), t, None, filled)
        own = beam * PROBES + dr.select(is_probe, sub_ray, 0)

        def choose(probe: Any, fill: Any, empty: Any) -> Any:
            return dr.select(is_probe, dr.gather(type(probe), probe, own, is_probe), dr.select(filled, fill, empty))

        echoes = Echoes(slots, choose(probes.t, t, NO_ECHO), choose(probes.power, power, 0.0),
                        choose(probes.part, part, NOTHING), None, None, 0)  # fmt: skip
        if actors is not None:
            echoes.actor = choose(probes.actor, dr.gather(mi.UInt32, actors, sector, filled), NOTHING)
        return echoes, ~(is_probe | filled | (part == NOTHING))


@dataclass
class _Probes:
    t: Any
    power: Any
    part: Any
    actor: Any
    """None where nothing in the world moves."""
    normal: Any
    point: Any
    """Hit point relative to the beam's exit [m]."""

    def at(self, dr: Any, index: Any) -> _Probes:
        return _Probes(*(None if v is None else dr.gather(type(v), v, index) for v in vars(self).values()))

    def same_plane(self, dr: Any, other: _Probes) -> Any:
        """Whether the other probe hit the plane that this one hit, on the same part."""
        apart = dr.abs(dr.dot(self.normal, other.point - self.point))
        close = apart < PLANE_TOLERANCE_M + PLANE_TOLERANCE_PER_M * self.t
        return (
            (self.part != NOTHING) & (self.part == other.part) & close
            & (dr.abs(dr.dot(self.normal, other.normal)) > 1.0 - NORMAL_TOLERANCE)
        )  # fmt: skip
