"""A medium of another package: volcanic ash, in one file. It registers as one row of the table of media.

Extinction per mass after Gasteiger et al. 2011 (Atmos. Chem. Phys. 11, 2209), about 0.7 m^2/g at 532 nm for the ash of
Eyjafjallajökull, assumed to be the same at all wavelengths; lidar ratio of 50 sr (50 to 60 in Ansmann et al. 2010). The
losses of radio waves and sound are invented for the test.
"""

from __future__ import annotations

from typing import Annotated

from parhelion.weather.media import Amount, Effects, Light, Medium, MediumPart, Radio, Sky, Slider
from parhelion.weather.parts import Heterogeneity, Schedule

EXTINCTION_M2_MG = 0.7e-3
LIDAR_RATIO_SR = 50.0

DENSITY = Amount(
    "density_mg_m3", "ash_density_mg_m3", "--ash", "MG_M3", "Density of volcanic ash, 0 to 1000 mg/m3.", "mg/m³",
    0.0, 1000.0, Slider(200.0, 1.0, hint="aircraft avoid 4"),
)  # fmt: skip


class AshPart(MediumPart):
    """Volcanic ash of a given density."""

    density_mg_m3: Annotated[Schedule, DENSITY.check]
    heterogeneity: Heterogeneity | None = None


class AshEffects(Effects):
    """Effects of volcanic ash."""

    def light(self, part: AshPart, amount: float, wavelength_nm: float) -> Light:
        """Extinction in proportion to density."""
        extinction = EXTINCTION_M2_MG * amount
        return Light(extinction, extinction / LIDAR_RATIO_SR, asymmetry=0.7)

    def sky(self, part: AshPart, amount: float) -> Sky:
        """A layer that dims sun and sky."""
        return Sky(layer_extinction_per_m=EXTINCTION_M2_MG * amount)

    def radio(self, part: AshPart, amount: float, frequency_hz: float) -> Radio | None:
        """A loss in proportion to density and frequency."""
        return Radio(1e-14 * amount * frequency_hz)

    def sound(self, part: AshPart, amount: float, frequency_hz: float) -> float:
        """A loss in proportion to density."""
        return 1e-3 * amount


ASH = Medium("ash", 16, "Ash", "#9a8f86", AshPart, DENSITY, AshEffects())
