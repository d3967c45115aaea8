"""Spray of tyres on wet roads: film of water, water that tyres pick up, sizes of drops, and effects on waves.

A tyre carries the water of its grooves out of the film and throws it off. Drops of more than LARGEST_MM fly as splash
close to the ground and are left out; the rest follows the wake of the vehicle (`weather.spray_plume`). Faster tyres
make smaller drops, so that the share in the air grows with speed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.pose import Floats
from parhelion.core.water import water_permittivity
from parhelion.weather.media import Amount, Effects, Light, Medium, Radio, Slider, Triple
from parhelion.weather.media.dust import check_not_negative, check_number
from parhelion.weather.parts import PlacedCloud, Schedule

if TYPE_CHECKING:
    from parhelion.weather.grids import DensityGrid
    from parhelion.weather.raised import RaisedPart
    from parhelion.weather.weather import Weather

WATER_KG_M3 = 1000.0
SURFACE_TENSION_N_M = 0.072
LARGEST_MM, SMALLEST_MM = 0.5, 0.05
"""Diameters of spray; larger drops are splash, which stays close to the ground."""
REFERENCE_MM = 0.3
"""Diameter for which densities on grids hold. A drop of diameter D counts with REFERENCE_MM / D of its mass, since its
extinction per mass is 3 / (rho D)."""
EXTINCTION_M2_KG = 3.0 / (WATER_KG_M3 * 1e-3 * REFERENCE_MM)
"""Extinction per mass of drops of REFERENCE_MM [m^2/kg]: Q_ext pi D^2 / 4 over rho pi D^3 / 6 with Q_ext = 2."""

# ---- water on the road ---------------------------------------------------------------------------------------------

DRAINAGE_M, TEXTURE_MM, SLOPE = 7.3, 0.5, 0.02
"""Two lanes, texture of asphalt concrete, and cross slope of a road (assumed, round figures of road design)."""


def film_depth_mm(
    rain_rate_mm_h: ArrayLike, *, drainage_m: float = DRAINAGE_M, texture_mm: float = TEXTURE_MM, slope: float = SLOPE
) -> Floats:
    """Depth of water above the texture of a road [mm] in steady rain.

    Gallaway's relation in metric units, 0.01485 T^0.11 L^0.43 R^0.59 / S^0.42 - T, at least 0, with texture T [mm],
    drainage length L [m], rain R [mm/h] and slope S. With the defaults: 0.1 mm at 10 mm/h, 1.2 mm at 50 mm/h. The
    constants are those of the literature on hydroplaning and are assumed here: the report of 1979 was not available.
    """
    rate = np.asarray(check_not_negative("rain_rate_mm_h", rain_rate_mm_h), dtype=np.float64)
    texture = check_number("texture_mm", texture_mm, above=0.0)
    length, fall = check_number("drainage_m", drainage_m, above=0.0), check_number("slope", slope, above=0.0)
    return np.asarray(np.maximum(0.01485 * texture**0.11 * length**0.43 * rate**0.59 / fall**0.42 - texture, 0.0))


TYRE_WIDTH_M, TRACKS = 0.2, 2
"""Width of a tyre, and tracks of a vehicle: rear tyres run in the track that the front tyres have cleared (assumed)."""
GROOVE_MM = 2.4
"""Depth of water that fills the grooves: 30 % of the tread's area, 8 mm deep (assumed, a new summer tyre)."""


def picked_up_kg_m(film_mm: ArrayLike, *, tyre_width_m: float = TYRE_WIDTH_M, tracks: int = TRACKS) -> Floats:
    """Water that the tyres pick up per metre of road [kg/m]: rho w min(h, grooves) per track.

    The rate is this times the speed. A film of 0.5 mm gives 0.2 kg/m, 6 kg/s at 30 m/s; a lorry's tyres eject many
    litres per second (TRRL research report 162).
    """
    film = np.asarray(check_not_negative("film_mm", film_mm), dtype=np.float64)
    width = check_number("tyre_width_m", tyre_width_m, above=0.0)
    return np.asarray(WATER_KG_M3 * width * tracks * 1e-3 * np.minimum(film, GROOVE_MM))


# ---- drops ---------------------------------------------------------------------------------------------------------

MEAN_MM, WEBER = 0.8, 2700.0
"""Mean diameter of drops behind a tyre with one groove at this Weber number; it falls as We^-1/2 (thesis on spray from
a rolling tyre, University of Southern California, abstract; drops of 0.08 to 9 mm)."""
GROOVE_WIDTH_M = 0.0054
"""Width of the groove in the Weber number rho v^2 w / sigma: 2700 at 6 m/s, 10 800 at 12 m/s and 24 300 at 18 m/s, the
three cases of the thesis. The speeds are assumed; a photograph of the apparatus is of 6 m/s."""
LOG_DEVIATION = 0.8
"""Standard deviation of ln D. The extremes, 0.08 and 9 mm, are then 3 standard deviations apart from the middle
(assumed: log-normal sizes, extremes of about a thousand drops)."""


def mass_median_mm(speed_m_s: ArrayLike) -> Floats:
    """Diameter below which half of the water is [mm], by speed: 0.8 mm (We / 2700)^-1/2 exp(2.5 s^2)."""
    speed = np.maximum(np.asarray(speed_m_s, dtype=np.float64), 1e-3)
    weber = WATER_KG_M3 * speed * speed * GROOVE_WIDTH_M / SURFACE_TENSION_N_M
    return np.asarray(MEAN_MM * np.sqrt(WEBER / weber) * np.exp(2.5 * LOG_DEVIATION**2))


def airborne_share(speed_m_s: ArrayLike) -> Floats:
    """Share of the water in drops below LARGEST_MM: 1.5 % at 30 km/h, 10 % at 60, 22 % at 90, 33 % at 120 km/h."""
    from scipy.special import ndtr

    return np.asarray(ndtr(np.log(LARGEST_MM / mass_median_mm(speed_m_s)) / LOG_DEVIATION))


def drop_diameter_mm(uniform: ArrayLike, speed_m_s: ArrayLike) -> Floats:
    """Diameters [mm] of spray, by mass, from uniform numbers in (0, 1); at least SMALLEST_MM."""
    from scipy.special import ndtri

    share = airborne_share(speed_m_s)
    found = mass_median_mm(speed_m_s) * np.exp(LOG_DEVIATION * ndtri(np.maximum(np.asarray(uniform) * share, 1e-300)))
    return np.asarray(np.clip(found, SMALLEST_MM, LARGEST_MM))


_FALL = ((0.0, 0.0), (0.05, 0.07), (0.1, 0.27), (0.2, 0.72), (0.3, 1.17), (0.4, 1.62), (0.5, 2.06))
"""Diameter [mm] and fall speed [m/s]: Gunn and Kinzer 1949 from 0.1 mm, Stokes below."""


def fall_speed_m_s(diameter_mm: ArrayLike) -> Floats:
    """Fall speed of drops in still air [m/s], up to 0.5 mm."""
    return np.asarray(np.interp(np.asarray(diameter_mm, dtype=np.float64), *np.array(_FALL).T))


LIDAR_RATIO_SR = ((785.0, 67.0), (905.0, 67.7), (940.0, 67.8), (1064.0, 62.9), (1300.0, 77.7), (1550.0, 237.9))
"""Wavelength [nm] and extinction over backscatter [sr] of drops of REFERENCE_MM by Mie's theory (`drop_backscatter`).
At 1550 nm water absorbs the light within a drop. Cameras do not use it."""
ASYMMETRY = 0.87
"""Mean cosine of the scattering angle of large water drops, including diffraction (geometric optics)."""


# ---- the medium ----------------------------------------------------------------------------------------------------

DENSITY = Amount(
    "density_kg_m3",
    "",
    "--spray",
    "X,Y,Z,R[,KG_M3]",
    "Cloud of spray: centre and radius in m, density (0.005 by default). May be repeated.",
    "kg/m^3",
    0.0,
    1.0,
    Slider(50.0, 1.0, unit="g/m³", scale=1e-3, hint="a cloud ahead of the sensor's first position"),
    report_unit="kg/m³",
    default=5e-3,
)
"""Mass of water per volume of air, in drops of REFERENCE_MM. The default has a visibility of 60 m."""


class SprayCloud(PlacedCloud):
    """Manually placed cloud of spray: an axis-aligned ellipsoid, densest at the centre.

    >>> cloud = ph.SprayCloud(centre_m=(10, 0, 1), half_size_m=(6, 2, 1), density_kg_m3=5e-3)
    >>> ph.Weather(spray=[cloud])
    <Weather 1 spray cloud>
    """

    kind: Literal["cloud"] = "cloud"
    density_kg_m3: Annotated[Schedule, DENSITY.check]
    """Mass of water per volume of air at the centre, 0 to 1."""


class SprayEffects(Effects):
    """Effects of spray, whose density is on grids."""

    def light(self, part: SprayCloud | RaisedPart, amount: float, wavelength_nm: float) -> Light:
        """Extinction per mass of large drops; backscatter by Mie's theory, detected if its own power suffices."""
        ratio = float(np.interp(wavelength_nm, *np.array(LIDAR_RATIO_SR).T))
        return Light(EXTINCTION_M2_KG, lidar_ratio_sr=ratio, asymmetry=ASYMMETRY, by_own_power=True)

    def density(
        self, part: SprayCloud | RaisedPart, weather: Weather, time: float, name: str, row: int = 0
    ) -> DensityGrid | None:
        """Density of the cloud or of the plumes at a time [s]."""
        from parhelion.weather.raised import RaisedPart

        return part.grid(weather, time) if isinstance(part, RaisedPart) else part.grid(weather, time, DENSITY)

    def radio_per_mass(self, part: Any, frequency_hz: float) -> Radio:
        """Attenuation and backscatter of 1 kg/m^3 of drops of REFERENCE_MM, small against the wavelength (Rayleigh)."""
        permittivity = water_permittivity(frequency_hz)
        k = complex((permittivity - 1.0) / (permittivity + 2.0))
        wavelength = SPEED_OF_LIGHT_M_S / frequency_hz
        absorbed = 6.0 * np.pi / wavelength * abs(k.imag) / WATER_KG_M3
        scattered = 6.0 * np.pi**4 * abs(k) ** 2 * (1e-3 * REFERENCE_MM) ** 3 / (WATER_KG_M3 * wavelength**4)
        return Radio(float(absorbed * 1e4 / np.log(10.0)), float(scattered))


def _cloud(centre_m: Triple, half_size_m: Triple, density_kg_m3: float) -> SprayCloud:
    return SprayCloud(centre_m=centre_m, half_size_m=half_size_m, density_kg_m3=density_kg_m3)


SPRAY = Medium(
    "spray",
    7,
    "Spray",
    "#7fd4e8",
    SprayCloud,
    DENSITY,
    SprayEffects(),
    place=_cloud,
    parts_word="spray clouds",
    unchecked="amount and drop sizes of spray are assumed; published counts give the order only",
)
