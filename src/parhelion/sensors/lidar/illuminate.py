"""Casting and reflection: what each sub-ray of each beam meets, and how much power it sends back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parhelion.sensors.lidar.curve import Curve
from parhelion.sensors.lidar.emit import Beams, SubRays
from parhelion.sensors.lidar.link_budget import received_power
from parhelion.sensors.lidar.target import Target

NO_ECHO = 1e30
"""Range that stands for no echo, in kernels."""


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

    def put(self, dr: Any, slot: Any, *values: Any) -> None:
        """Write range, power, part and actor of some slots."""
        for array, new in zip(self.arrays(), values, strict=False):
            dr.scatter(array, new, slot)
        dr.eval(*self.arrays())


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

    def trace(self, beams: Beams, beam: Any, sub_ray: Any) -> tuple[Any, Any, Any, Any]:
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
        range_m, power, hit, _ = self.trace(beams, beam, index - beam * slots)
        echoes = Echoes(slots, range_m, power, hit.part, hit.actor, None, beams.count * slots)
        dr.eval(*echoes.arrays())
        return echoes
