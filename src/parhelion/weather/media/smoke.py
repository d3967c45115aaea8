"""Smoke of fires and exhausts: clouds of soot, with their effect on light.

Soot is far smaller than radio waves and does not attenuate sound measurably, so only light is affected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from parhelion.weather.media import Amount, Effects, Light, Medium, Slider, Triple
from parhelion.weather.parts import PlacedCloud, Schedule

if TYPE_CHECKING:
    from parhelion.weather.grids import DensityGrid
    from parhelion.weather.weather import Weather

EXTINCTION_M2_KG, AT_NM = 8700.0, 633.0
"""Mass specific extinction of smoke of flaming fires at 633 nm [m^2/kg]: 8.7 +- 1.1 m^2/g (G. W. Mulholland, C.
Croarkin, Fire and Materials 24, 227, 2000)."""
EXPONENT = 1.0
"""Extinction falls with the wavelength to this power, as absorption by small particles does (Bohren and Huffman
1983)."""
LIDAR_RATIO_SR = 70.0
"""Extinction over backscatter [sr], of smoke of forest fires at 532 nm (assumed round value, 50 to 90 in the
literature); the same at all wavelengths (assumed)."""
ASYMMETRY = 0.6
"""Mean cosine of the scattering angle of aggregates of soot (assumed)."""
ALBEDO = 0.25
"""Single-scattering albedo of fresh soot, 0.2 to 0.3 (quoted from Bond and Bergstrom 2006)."""


def smoke_extinction_m2_kg(wavelength_nm: float) -> float:
    """Extinction per mass of smoke [m^2/kg], 350 to 2500 nm: 6.1 m^2/g at 905 nm, 3.6 m^2/g at 1550 nm."""
    return float(EXTINCTION_M2_KG * (AT_NM / wavelength_nm) ** EXPONENT)


DENSITY = Amount(
    "density_kg_m3",
    "",
    "--smoke",
    "X,Y,Z,R[,KG_M3]",
    "Cloud of smoke: centre and radius in m, density (2e-5 by default). May be repeated.",
    "kg/m^3",
    0.0,
    0.1,
    Slider(500.0, 5.0, unit="mg/m³", scale=1e-6, hint="a cloud ahead of the sensor's first position"),
    report_unit="kg/m³",
    default=2e-5,
)
"""Mass of soot per volume of air. The default has a visibility of 17 m by Koschmieder at 550 nm."""


class SmokeCloud(PlacedCloud):
    """Manually placed cloud of smoke: an axis-aligned ellipsoid, densest at the centre.

    >>> cloud = ph.SmokeCloud(centre_m=(10, 0, 2), half_size_m=(5, 5, 2), density_kg_m3=2e-5)
    >>> ph.Weather(smoke=[cloud])
    <Weather 1 smoke cloud>
    """

    kind: Literal["cloud"] = "cloud"
    density_kg_m3: Annotated[Schedule, DENSITY.check]
    """Mass of soot per volume of air at the centre, 0 to 0.1."""


class SmokeEffects(Effects):
    """Effects of smoke, whose density is on grids."""

    def light(self, part: SmokeCloud, amount: float, wavelength_nm: float) -> Light:
        """Extinction per mass; a lidar detects the echo of the volume if its own power suffices."""
        extinction = smoke_extinction_m2_kg(wavelength_nm)
        return Light(extinction, lidar_ratio_sr=LIDAR_RATIO_SR, asymmetry=ASYMMETRY, albedo=ALBEDO, by_own_power=True)

    def density(self, part: SmokeCloud, weather: Weather, time: float, name: str, row: int = 0) -> DensityGrid | None:
        """Density of the cloud at a time [s]."""
        return part.grid(weather, time, DENSITY)


def _cloud(centre_m: Triple, half_size_m: Triple, density_kg_m3: float) -> SmokeCloud:
    return SmokeCloud(centre_m=centre_m, half_size_m=half_size_m, density_kg_m3=density_kg_m3)


SMOKE = Medium(
    "smoke",
    9,
    "Smoke",
    "#6d6a75",
    SmokeCloud,
    DENSITY,
    SmokeEffects(),
    place=_cloud,
    parts_word="smoke clouds",
    unchecked="extinction of soot is measured, its lidar ratio assumed; no recording is available",
)
