"""Casting and reflection: what each sub-ray of each beam meets, and how much power it sends back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parhelion.core.arrays import Ints, Masks, Reals, Vectors
from parhelion.rays.device import engine as running_engine
from parhelion.rays.device import kernel_tree
from parhelion.rays.replayable import SceneArrays
from parhelion.rays.rows import Rows
from parhelion.sensors.lidar.echoes import NO_ACTOR, NO_ECHO, Echo, Echoes, EchoRows
from parhelion.sensors.lidar.emit import SubRays
from parhelion.sensors.lidar.link_budget import received_power
from parhelion.sensors.lidar.profiled import ACTOR_BITS, ANGLE_SHIFT, ProfiledParts, angle_code
from parhelion.sensors.light.air import Air, LocalAir, two_way
from parhelion.sensors.light.beams import BeamAim, Beams
from parhelion.sensors.light.curve import Curve, LocalCurve
from parhelion.sensors.light.target import Surfaces


@kernel_tree()
@dataclass
class Optics:
    """Numbers of the sensor that reflection needs, opaque to the kernel compiler so that all sensors share kernels."""

    threshold: Reals
    """P_min / C [1/(m^2 sr)]."""
    extinction: Reals
    """One-way extinction of the air [1/m]."""
    min_range: Reals
    max_range: Reals
    overlap: Curve | None
    """Overlap of emitter and receiver by range, or None where it is 1."""


@dataclass
class Local:
    """Air and overlap near one range of each beam."""

    air: Air | LocalAir
    overlap: LocalCurve | None


@kernel_tree()
@dataclass
class Reflection:
    """What the power depends on that a sub-ray brings back from where it met a surface."""

    surfaces: Surfaces
    sub_rays: SubRays
    optics: Optics
    air: Air
    profiled: ProfiledParts | None = None
    """Parts whose noise comes from profiles; their echoes carry the angle of incidence."""
    weathered: bool = False
    """Whether the air is dimmer than clear air."""

    def power(
        self,
        aim: BeamAim,
        part: Ints,
        cosine: Reals,
        range_m: Reals,
        hit: Any,
        active: Masks,
        *,
        share: Reals = 1.0,
        material: Ints = None,
        near: Local | None = None,
    ) -> Reals:
        """Received power of one sub-ray in units of P_min; nothing from nearer than the sensor's least range.

        `material` is that of the part, where it was looked up before; `near` holds for a narrow stretch of range.
        """
        dr, optics = running_engine().dr, self.optics
        curve, air = (optics.overlap, self.air) if near is None else (near.overlap, near.air)
        overlap = 1.0 if curve is None else curve(range_m, active)
        material = self.surfaces.material(part, active) if material is None else material
        overlap = overlap if aim.gain is None else overlap * aim.gain
        power = received_power(
            weight=share * self.sub_rays.weight, reflected=self.surfaces.reflected(part, material, cosine, hit, active),
            range_m=range_m, optical_depth=air.depth(aim, range_m), threshold=optics.threshold, overlap=overlap,
        )  # fmt: skip
        if self.profiled is not None:
            least = self.profiled.at_least(part, range_m, active) * (share * self.sub_rays.weight)
            if self.weathered:
                least = least * two_way(air, optics.extinction, aim, range_m)
            power = dr.select(power < least, least, power)
        return dr.select(active & (range_m >= optics.min_range), power, 0.0)

    def marked(self, actor: Ints, cosine: Reals) -> Ints:
        """An actor's number with the angle of incidence in it, where profiles ask for it."""
        if self.profiled is None:
            return actor
        return (actor & ACTOR_BITS) | (angle_code(cosine) << ANGLE_SHIFT)

    def around(self, aim: BeamAim, range_m: Reals) -> Local:
        """What depends on range alone, for ranges within some decimetres of one: tables are read once, here."""
        curve = self.optics.overlap
        return Local(self.air.around(aim, range_m), None if curve is None else curve.around(range_m))

    def trace(self, scene: SceneArrays, aim: BeamAim, sub_ray: Ints, active: Masks = True) -> tuple[Echo, Vectors]:
        """Echo and hit normal of traced sub-rays."""
        dr, mi = running_engine().dr, running_engine().mi
        offset, direction = self.sub_rays.ray(aim, sub_ray)
        hit = scene.trace(aim.origin + offset, direction, aim.time, self.optics.max_range, active, coherent=True)
        cosine = dr.abs(dr.dot(hit.normal, direction))
        power = self.power(aim, dr.select(hit.found, hit.part, 0), cosine, hit.t, hit, hit.found)
        actor = mi.UInt32(NO_ACTOR) if hit.actor is None else hit.actor & NO_ACTOR
        echo = Echo(dr.select(hit.found, hit.t, NO_ECHO), power, hit.part, self.marked(actor, cosine))
        return echo, hit.normal


def illuminate_all(light: Reflection, scene: SceneArrays, beams: Beams) -> Echoes:
    """Trace every sub-ray."""
    engine, slots = running_engine(), light.sub_rays.count
    trace_all = engine.frozen(_trace_all, casts=True)
    rows = trace_all(light, scene, beams, Rows.kept(engine, beams.count * slots), slots)
    return Echoes(slots, rows, None, None, None, [beams.count * slots])


def _trace_all(light: Reflection, scene: SceneArrays, beams: Beams, looks: Rows, slots: int) -> EchoRows:
    engine, index = running_engine(), looks.index
    beam = index // slots
    return EchoRows.of(engine, light.trace(scene, beams.aim(engine, beam), index - beam * slots)[0])
