"""Falling snow: extinction of light, and backscatter of one flake.

Sizes are melted diameters, that of the drop that a flake becomes. The geometric cross section is selected by name:

`flake`: that of the flake itself, an aggregate of crystals whose density decreases with size and which fills AREA_RATIO
of its circumscribed disc. With the sizes `constant-intercept`, extinction is 3.0e-3 /m at 1 mm/h and 7.3e-3 /m at
2.5 mm/h, visibilities of 1.0 and 0.41 km. Airports define light snow above 1 km and heavy snow below 0.4 km, at about
these rates (Rasmussen et al. 1999, who find a scatter of factors of 3 to 10).
`melted`: that of the drop, which gives a quarter of it, below the relations for wet and dry snow of ITU-R P.1814
(0.89e-3 R^0.72 and 1.28e-3 R^1.38 /m). With the sizes `gunn-marshall`, it is the common choice for lidars.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.arrays import Reals, namespace
from parhelion.core.deprecation import deprecated_method
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.weather.media import Amount, Cover, Effects, Light, Medium, MediumPart, Particles, Sky, Slider
from parhelion.weather.mie import large_sphere_extinction
from parhelion.weather.particles import checked_rate, extinction_of
from parhelion.weather.particles import drop_sizes as sizes_at
from parhelion.weather.parts import Cells, Schedule

LIDAR_RATIO_SR = 25.0
"""Extinction over backscatter of flakes [sr]."""
AREA_RATIO = 0.6
"""Share of the circumscribed disc that crystals cover: 0.3 to 0.8 for aggregates (Heymsfield and Westbrook 2010)."""
DIAMETERS = ("flake", "melted")
_ICE_DENSITY = 0.917
_FLAKE_DENSITY_MM = 0.17
"""Density of dry snow times flake diameter [g/cm^3 mm] (Holroyd 1971)."""


def flake_diameter(melted_mm: Reals) -> Reals:
    """Diameter of a dry flake [mm] from its melted diameter; NumPy or Dr.Jit arrays.

    Density is 0.17 / D g/cm^3, D [mm] (Holroyd 1971, for aggregates of 1 to 10 mm), and at most that of ice; from
    equal masses D = sqrt(D_melted^3 / 0.17), or 1.03 D_melted for the smallest, which are single crystals.
    """
    xp = namespace(melted_mm)
    loose = xp.sqrt(melted_mm * melted_mm * melted_mm / _FLAKE_DENSITY_MM)
    return xp.maximum(loose, melted_mm * _ICE_DENSITY ** (-1.0 / 3.0))


def snow_extinction(
    rate_mm_h: float, wavelength_nm: float = 905.0, drop_sizes: str = "constant-intercept", diameter: str = "flake"
) -> float:
    """One-way extinction [1/m] at a rate of melted water; exactly 0 at rate 0.

    Integral of Q_ext (pi D^2 / 4) N over the sizes, with Q_ext of large spheres, slightly above 2: flakes are much
    larger than the wavelength, so Q_ext does not depend on their shape. Sizes are fitted for 0.1 to 3 mm/h.
    """
    rate = checked_rate(rate_mm_h)
    sizes = sizes_at(drop_sizes, rate)
    if diameter not in DIAMETERS:
        raise unknown_name("diameter of a flake", diameter, DIAMETERS)
    flake_cross_section(1.0, wavelength_nm)  # reports a wrong wavelength at rate 0 as well
    if rate == 0.0:
        return 0.0
    if diameter == "flake":
        return sizes.integrate(lambda melted_mm: flake_cross_section(melted_mm, wavelength_nm))
    return extinction_of(sizes, lambda melted_mm: large_sphere_extinction(melted_mm, wavelength_nm))


def flake_cross_section(melted_mm: ArrayLike, wavelength_nm: float = 905.0) -> NDArray[np.float64]:
    """Extinction cross section of a flake [m^2]: Q_ext times AREA_RATIO of its circumscribed disc."""
    d = np.asarray(melted_mm, dtype=np.float64)
    if not np.all(d >= 0.0):
        raise ConfigError(f"melted_mm: must be 0 mm or more, got {d[~(d >= 0.0)].flat[0]:g}")
    met = np.asarray(flake_diameter(np.maximum(d, 1e-9)))
    return np.where(d > 0.0, large_sphere_extinction(met, wavelength_nm) * AREA_RATIO * (np.pi / 4e6) * met * met, 0.0)


def flake_backscatter(melted_mm: ArrayLike, wavelength_nm: float = 905.0) -> NDArray[np.float64]:
    """Backscatter of a flake [m^2/sr]: its extinction cross section over the lidar ratio of ice, LIDAR_RATIO_SR.

    Measurements of ice crystals and their aggregates in clouds and snow give 20 to 30 sr (Sassen and Comstock 2001;
    Chen et al. 2002). A white Lambertian sphere has 10 sr; flakes are loose and transmit light. Valid from 350 to
    1100 nm; at 1550 nm ice absorbs and flakes are darker by about a factor of three, which is not modelled.
    """
    return flake_cross_section(melted_mm, wavelength_nm) / LIDAR_RATIO_SR


# ---- the medium ----------------------------------------------------------------------------------------------------

SNOW_CLOUD = 20.0
"""Optical depth of the snow cloud (assumed, as for rain)."""
FULL_CLOUD_RATE_MM_H = 0.5
"""Rate from which the sky is overcast; below it, the optical depth is proportional to the rate."""
FLAKE_BRIGHTNESS = 0.9
"""Radiance of a flake relative to the mean of its surroundings: ice hardly absorbs, and some light is transmitted."""
FLAKE_SPEED = 1.0
"""Fall speed of aggregates [m/s], as in the sizes of snow."""
FLAKE_FLUTTER = 0.2
"""Largest lateral speed of flakes [m/s]."""
FLAKE_EDGES_MM = (0.5, 0.8, 1.2, 2.0, 20.0)
"""Size classes of flakes by melted diameter."""

RATE = Amount(
    "rate_mm_h",
    "snow_rate_mm_h",
    "--snow",
    "MM_H",
    "Snow rate as melted water, 0 to 50 mm/h.",
    "mm/h",
    0.0,
    50.0,
    Slider(20.0, 0.1, hint="as melted water: 1 is moderate snow"),
    limit_note=" of melted water",
    report_unit="mm/h as water",
)


class Snow(MediumPart):
    """Falling snow of a given rate.

    >>> ph.Weather(snow=ph.Snow(rate_mm_h=2))
    <Weather snow 2 mm/h>
    """

    rate_mm_h: Annotated[Schedule, RATE.check]
    """Snow rate [mm/h] as melted water, 0 to 50."""
    heterogeneity: Cells | None = None
    """Cells of stronger and weaker snow; None means uniform snow."""
    covers: tuple[str, ...] = ()
    """Labels of covered surfaces, such as road and ground, which have the reflectance of snow."""

    renamed: ClassVar[Mapping[str, str]] = {"cells": "heterogeneity"}
    cells: ClassVar[Any] = deprecated_method("cells", "heterogeneity")


@lru_cache(maxsize=256)
def _extinction(rate_mm_h: float, wavelength_nm: float) -> float:
    return float(snow_extinction(rate_mm_h, wavelength_nm=wavelength_nm))


def _diameter_m(melted_mm: Any) -> Any:
    return 1e-3 * np.asarray(flake_diameter(melted_mm))


def _speed(diameter_m: NDArray[Any]) -> NDArray[Any]:
    return np.full(np.shape(diameter_m), FLAKE_SPEED)


class SnowEffects(Effects):
    """Effects of falling snow."""

    flat = True

    def light(self, part: Snow, amount: float, wavelength_nm: float) -> Light:
        """Extinction of flakes."""
        return Light(_extinction(amount, wavelength_nm))

    def particles(self, part: Snow, amount: float) -> Particles | None:
        """Flakes."""
        return Particles(
            sizes_at("constant-intercept", amount),
            flake_backscatter,
            flake_cross_section,
            _diameter_m,
            _speed,
            FLAKE_EDGES_MM,
            4.0,
            FLAKE_FLUTTER,
            AREA_RATIO,
            FLAKE_BRIGHTNESS,
        )

    def sky(self, part: Snow, amount: float) -> Sky:
        """Snow cloud."""
        return Sky(SNOW_CLOUD * min(amount / FULL_CLOUD_RATE_MM_H, 1.0))

    def cover(self, part: Snow) -> Cover | None:
        """Covered surfaces."""
        return Cover(part.covers, "snow") if part.covers else None


SNOW = Medium("snow", 3, "Snow", "#f4f8ff", Snow, RATE, SnowEffects(), first_draw=6000)
