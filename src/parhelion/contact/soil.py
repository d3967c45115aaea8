"""Soft soil under a wheel: sinkage, motion resistance and shear strength, as functions of load and soil values.

Pressure and sinkage follow Bekker (Introduction to Terrain-Vehicle Systems, 1969), shear follows Janosi and Hanamoto
(1961), both as given by Wong, Theory of Ground Vehicles. A wheel counts as rigid, which holds where the ground is
softer than the tyre. Arguments are arrays of NumPy or Dr.Jit, or numbers; all units are SI.

>>> dry = SOILS["dry sand"]
>>> k = stiffness(dry.k_c, dry.k_phi, 0.2)
>>> round(float(sinkage(3000.0, 0.2, 0.64, k, dry.exponent)), 3)
0.085
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from parhelion.core.arrays import Reals, namespace


@dataclass(frozen=True)
class Soil:
    """Values of a soil."""

    exponent: float
    """Exponent n of Bekker's equation."""
    k_c: float
    """Cohesive modulus [N/m^(n+1)]."""
    k_phi: float
    """Frictional modulus [N/m^(n+2)]."""
    cohesion: float
    """Cohesion [Pa]."""
    friction_deg: float
    """Angle of internal friction."""
    shear: float
    """Shear deformation modulus K [m]."""
    thickness: float
    """Thickness of the soft layer [m], the largest sinkage."""

    def columns(self) -> tuple[float, ...]:
        """Values in the order of the kernel's table, from `k_c` to `thickness`."""
        tangent = math.tan(math.radians(self.friction_deg))
        return (self.k_c, self.k_phi, self.exponent, self.cohesion, tangent, self.shear, self.thickness)


SOILS: dict[str, Soil] = {
    "dry sand": Soil(1.1, 0.99e3, 1528.43e3, 1.04e3, 28.0, 0.02, 0.3),
    "sandy loam": Soil(0.7, 5.27e3, 1515.04e3, 1.72e3, 29.0, 0.02, 0.2),
    "clayey soil": Soil(0.5, 13.19e3, 692.15e3, 4.14e3, 13.0, 0.006, 0.2),
    "snow": Soil(1.6, 4.37e3, 196.72e3, 1.03e3, 19.7, 0.04, 0.1),
}
"""Soils: n, k_c, k_phi, cohesion and friction angle from the table of soil values in Wong, Theory of Ground Vehicles
(dry sand and sandy loam at 15 % moisture, Land Locomotion Laboratory; clayey soil at 38 %; snow), as quoted by later
work. The shear modulus lies within the range that Wong gives. The thickness is assumed: a layer on firm
ground."""


def stiffness(k_c: Reals, k_phi: Reals, width: Reals) -> Reals:
    """Stiffness k_c/b + k_phi [N/m^(n+2)] of soil under a plate or wheel of width b [m]."""
    return k_c / width + k_phi


def pressure(depth: Reals, stiffness_: Reals, exponent: Reals) -> Reals:
    """Pressure [Pa] at a depth z [m]: p = (k_c/b + k_phi) z^n (Bekker)."""
    return stiffness_ * namespace(depth).power(depth, exponent)


def sinkage(load: Reals, width: Reals, diameter: Reals, stiffness_: Reals, exponent: Reals) -> Reals:
    """Sinkage z [m] of a rigid wheel: z = (3 W / (b (3 - n) (k_c/b + k_phi) sqrt(D)))^(2/(2n+1)) (Bekker).

    Valid for n up to about 1.3 and z below a sixth of the diameter; beyond, it is too large.
    """
    xp = namespace(load, diameter, stiffness_)
    ratio = 3.0 * load / (width * (3.0 - exponent) * stiffness_ * xp.sqrt(diameter))
    return xp.power(ratio, 2.0 / (2.0 * exponent + 1.0))


def compaction_resistance(depth: Reals, width: Reals, stiffness_: Reals, exponent: Reals) -> Reals:
    """Motion resistance [N] of a wheel that compacts soil to a depth z: b (k_c/b + k_phi) z^(n+1)/(n+1) (Bekker)."""
    return width * stiffness_ * namespace(depth).power(depth, exponent + 1.0) / (exponent + 1.0)


def contact_length(depth: Reals, radius: Reals) -> Reals:
    """Length [m] of the arc of a rigid wheel below the ground, from the front to the lowest point: r acos(1 - z/r)."""
    xp = namespace(depth, radius)
    ratio = depth / xp.maximum(radius, 1e-6)
    return radius * xp.arccos(1.0 - xp.minimum(ratio, 1.0))


def shear_strength(load: Reals, area: Reals, cohesion: Reals, tan_friction: Reals) -> Reals:
    """Largest shear force [N] under a wheel: A c + W tan(phi) (Mohr and Coulomb)."""
    return area * cohesion + load * tan_friction


def mobilised(displacement: Reals, shear: Reals) -> Reals:
    """Share of the shear strength that a wheel with a shear displacement s l [m] at the end of its contact mobilises.

    1 - K/(s l) (1 - exp(-s l/K)), with the slip s and contact length l: the mean of 1 - exp(-j/K) (Janosi and
    Hanamoto) over displacements j that grow linearly along the contact.
    """
    xp = namespace(displacement)
    x = xp.maximum(displacement / shear, 1e-4)
    return 1.0 - (1.0 - xp.exp(-x)) / x
