"""What falling snow takes from a beam of light, and what one flake sends back.

Snow is counted by melted diameter, that of the drop a flake becomes. Which diameter the light meets is a question of
its own, and answered here by name:

`melted`: that of the drop. It gives 1.45e-3 R^0.57 /m, from 1.2 mm/h on between the relations for wet and dry snow of
ITU-R P.1814 (0.89e-3 R^0.72 and 1.28e-3 R^1.38 /m), and is the usual choice for lidars.
`flake`: that of the flake itself, whose density falls with its size. It gives 1.0e-2 R^1.05 /m, or half of that with
the sizes `gunn-marshall-1958`: a visibility of 0.6 to 0.8 km at 1 mm/h, where airports count 1 km as the edge of light
snow and 0.4 km at 2.5 mm/h as that of heavy snow (Rasmussen et al. 1999, who find scatter of 3 to 10 times).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.arrays import namespace
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.weather.drop_sizes import checked_rate, extinction_of
from parhelion.weather.drop_sizes import drop_sizes as sizes_at
from parhelion.weather.mie import large_sphere_extinction

FLAKE_REFLECTIVITY = 0.9
DIAMETERS = ("melted", "flake")
_ICE_DENSITY = 0.917
_FLAKE_DENSITY_MM = 0.17
"""Density of dry snow times flake diameter [g/cm^3 mm] (Holroyd 1971)."""


def flake_diameter(melted_mm: Any) -> Any:
    """Diameter of a dry flake [mm] from that of its drop; arrays of either kind.

    Density is 0.17 / D g/cm^3, D [mm] (Holroyd 1971, for aggregates of 1 to 10 mm), and at most that of ice; from
    equal masses D = sqrt(D_melted^3 / 0.17), or 1.03 D_melted for the smallest, which are single crystals.
    """
    xp = namespace(melted_mm)
    loose = xp.sqrt(melted_mm * melted_mm * melted_mm / _FLAKE_DENSITY_MM)
    return xp.maximum(loose, melted_mm * _ICE_DENSITY ** (-1.0 / 3.0))


def scattering_diameter(melted_mm: Any, diameter: str = "melted") -> Any:
    """The diameter [mm] that light meets, `melted` or `flake` (see above); arrays of either kind."""
    if diameter not in DIAMETERS:
        raise unknown_name("diameter of a flake", diameter, DIAMETERS)
    return flake_diameter(melted_mm) if diameter == "flake" else melted_mm


def snow_extinction(
    rate_mm_h: float,
    wavelength_nm: float = 905.0,
    drop_sizes: str = "gunn-marshall",
    diameter: str = "melted",
) -> float:
    """One-way extinction [1/m] at a rate of melted water; exactly 0 at rate 0.

    Integral of Q_ext (pi D^2 / 4) N over the sizes, with Q_ext of large spheres: 2 and a little (flakes are far larger
    than the wavelength, and the shadow of a body does not depend on its shape). Sizes are fitted for 0.1 to 3 mm/h.
    """
    rate = checked_rate(rate_mm_h)
    sizes = sizes_at(drop_sizes, rate)
    scattering_diameter(1.0, diameter)

    def efficiency(melted_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        met = scattering_diameter(melted_mm, diameter)
        return large_sphere_extinction(met, wavelength_nm) * (met / melted_mm) ** 2

    efficiency(np.ones(1))  # tells a wrong wavelength at rate 0 too
    return extinction_of(sizes, efficiency) if rate > 0.0 else 0.0


def flake_backscatter(diameter_mm: ArrayLike, reflectivity: float = FLAKE_REFLECTIVITY) -> NDArray[np.float64]:
    """What a white flake of scattering diameter D sends back, (2/3) (rho / pi) (pi D^2 / 4) = rho D^2 / 6 [m^2/sr].

    A Lambertian patch sends back rho / pi times its area times cos^2, one cosine for the light it catches and one for
    the light it shows. Over a disc facing the beam that is rho / pi times its shadow; over a sphere, and over any
    convex body in all its orientations, it is 2/3 of rho / pi times the (mean) shadow, since the mean of cos^2 over
    the lit side is 1/6 where that of cos is 1/4. Flakes tumble: 2/3 is taken. In Mie's terms Q_back = 8 rho / 3, or
    2.4. The reflectivity of 0.9 holds from 400 to 1000 nm; snow is dark at 1550 nm.
    """
    if not 0.0 <= reflectivity <= 1.0:
        raise ConfigError(f"reflectivity: must be from 0 to 1, got {reflectivity!r}")
    d = np.asarray(diameter_mm, dtype=np.float64)
    if not np.all(d >= 0.0):
        raise ConfigError(f"diameter_mm: must be 0 mm or more, got {d[~(d >= 0.0)].flat[0]:g}")
    return reflectivity / 6.0 * 1e-6 * d * d
