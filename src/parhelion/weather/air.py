"""State of the air at one time and wavelength, for optical sensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.weather.fields import DensityField
from parhelion.weather.grids import DensityGrid
from parhelion.weather.media import Light, Medium
from parhelion.weather.weather import Weather


@dataclass(frozen=True, eq=False)
class AirComponent:
    """One medium in the air."""

    medium: Medium
    part: Any
    """Its section of the weather."""
    amount: float
    light: Light
    field: DensityField | None
    """Factor on density by place, or None if it is the same everywhere."""

    @property
    def name(self) -> str:
        """Name of the medium."""
        return self.medium.name

    @property
    def extinction_per_m(self) -> float:
        """One-way extinction [1/m], mean over space."""
        return self.light.extinction_per_m


@dataclass(frozen=True, eq=False)
class AirGrid:
    """One part of a placed medium."""

    medium: Medium
    grid: DensityGrid
    light: Light

    @property
    def per_mass(self) -> float:
        """Extinction per mass [m^2/kg]."""
        return self.light.extinction_per_m


@dataclass(frozen=True, eq=False)
class AirContents:
    """Media in the air. Their extinctions add."""

    components: tuple[AirComponent, ...]
    grids: tuple[AirGrid, ...]
    wind_m_s: NDArray[np.float64]
    drift_m: NDArray[np.float64]
    """Distance over which the wind has carried heterogeneous weather since time 0."""

    @property
    def is_clear(self) -> bool:
        """True if there is no medium in the air."""
        return not self.components and not self.grids

    def extinction(self, xyz: NDArray[np.float64]) -> NDArray[np.float64]:
        """Extinction [1/m] at points of the world, shape (n, 3); NumPy version of the kernels' integrand."""
        total = np.zeros(len(xyz))
        for part in self.components:
            total += part.extinction_per_m * (1.0 if part.field is None else part.field.at(xyz, self.drift_m))
        for one in self.grids:
            total += one.per_mass * one.grid.density_at(xyz)
        return total

    @property
    def backscatter_per_m_sr(self) -> float:
        """Backscatter of the volume [1/(m sr)], mean over space."""
        return sum(part.light.backscatter_per_m_sr for part in self.components)

    @property
    def asymmetry(self) -> float:
        """Mean cosine of the scattering angle, weighted by extinction; media on grids count if there are no others."""
        lights = [part.light for part in self.components] or [one.light for one in self.grids]
        # A mean of equal numbers may differ from them by rounding.
        if len({light.asymmetry for light in lights}) == 1:
            return lights[0].asymmetry
        weights = [light.extinction_per_m for light in lights]
        return float(np.average([light.asymmetry for light in lights], weights=weights))

    @property
    def is_uniform(self) -> bool:
        """True if extinction is the same everywhere, so that attenuation has a closed form."""
        return not self.grids and all(part.field is None for part in self.components)


def air_contents(weather: Weather, time: float, wavelength_nm: float) -> AirContents:
    """Media of a weather at a time [s], for light of one wavelength."""
    components: list[AirComponent] = []
    grids: list[AirGrid] = []
    for medium, part, amount, row in weather.present(time):
        light = medium.effects.light(part, amount, wavelength_nm)
        if not light.extinction_per_m > 0.0:
            continue
        density = medium.effects.density(part, weather, time, medium.name, row)
        if medium.place is None:
            assert not isinstance(density, DensityGrid), "density on a grid is for placed media"
            components.append(AirComponent(medium, part, amount, light, density))
        elif isinstance(density, DensityGrid) and (density.mass_kg > 0.0 or getattr(part, "padded", False)):
            grids.append(AirGrid(medium, density, light))
    wind = np.array(weather.wind_m_s)
    return AirContents(tuple(components), tuple(grids), wind, wind * time)
