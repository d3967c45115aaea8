"""A weather at one time and wavelength, in the numbers that a sensor of light needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from parhelion.weather import dust_plume
from parhelion.weather.config import DustCloud, Uneven
from parhelion.weather.dust_grid import DustGrid, ellipsoid_cloud
from parhelion.weather.fields import DensityField, density_field
from parhelion.weather.fog import fog_backscatter, fog_extinction, usual_backscatter
from parhelion.weather.rain import EXTINCTION_WITH_FORWARD_LIGHT, rain_extinction
from parhelion.weather.snow import snow_extinction
from parhelion.weather.weather import Weather

Kind = Literal["rain", "fog", "snow"]


@dataclass(frozen=True, eq=False)
class Component:
    """One kind of weather in the air."""

    kind: Kind
    extinction_per_m: float
    """One way [1/m], the mean over space where it is uneven."""
    field: DensityField | None
    """How density varies, or None where it is the same everywhere."""


@dataclass(frozen=True, eq=False)
class Medium:
    """What is in the air. Extinctions of the components add."""

    components: tuple[Component, ...]
    dust: tuple[tuple[DustGrid, float], ...]
    """Grids of dust, and the extinction of each per mass [m^2/kg]."""
    rain_rate_mm_h: float
    snow_rate_mm_h: float
    backscatter_per_m_sr: float
    """Backscatter of the fog [1/(m sr)], mean over space; 0 where there is none."""
    wind_m_s: NDArray[np.float64]
    drift_m: NDArray[np.float64]
    """How far the wind has carried uneven weather since time 0."""

    @property
    def is_clear(self) -> bool:
        return not self.components and not self.dust

    def component(self, kind: Kind) -> Component | None:
        """A kind of weather, or None where there is none of it."""
        return next((part for part in self.components if part.kind == kind), None)

    def extinction(self, xyz: NDArray[np.float64]) -> NDArray[np.float64]:
        """Extinction at places in the world (n, 3) [1/m]: what kernels integrate, in NumPy."""
        total = np.zeros(len(xyz))
        for part in self.components:
            total += part.extinction_per_m * (1.0 if part.field is None else part.field.at(xyz, self.drift_m))
        for grid, per_mass in self.dust:
            total += per_mass * grid.density_at(xyz)
        return total

    @property
    def is_uniform(self) -> bool:
        """Whether it is the same everywhere, so that attenuation has a closed form."""
        return not self.dust and all(part.field is None for part in self.components)


def medium(weather: Weather, time: float, wavelength_nm: float) -> Medium:
    """What a weather puts into the air at a time [s]."""
    now = weather.at(time)
    components: list[Component] = []

    def put(kind: Kind, extinction: float, uneven: Uneven | None) -> None:
        if extinction > 0.0:
            field = None
            if uneven is not None and uneven.contrast > 0.0:
                field = density_field(uneven, seed=weather.seed, name=kind, flat=kind != "fog")
            components.append(Component(kind, extinction, field))

    backscatter = 0.0
    if weather.rain is not None and now.rain_rate_mm_h > 0.0:
        rain = weather.rain
        extinction = _rain(now.rain_rate_mm_h, rain.model, rain.drop_sizes, wavelength_nm)
        if rain.forward_light == "collected":
            extinction *= EXTINCTION_WITH_FORWARD_LIGHT
        put("rain", extinction, rain.cells)
    if weather.fog is not None:
        extinction = float(fog_extinction(now.visibility_m, model=weather.fog.model, wavelength_nm=wavelength_nm))
        put("fog", extinction, weather.fog.uneven)
        factor = weather.fog.backscatter
        if factor is None:
            factor = usual_backscatter(weather.fog.model, wavelength_nm)
        backscatter = float(fog_backscatter(extinction, factor))
    if weather.snow is not None and now.snow_rate_mm_h > 0.0:
        put("snow", _snow(now.snow_rate_mm_h, wavelength_nm), weather.snow.cells)
    wind = np.array(weather.wind_m_s)
    return Medium(
        tuple(components), _dust(weather, time), now.rain_rate_mm_h, now.snow_rate_mm_h, backscatter, wind, wind * time
    )


@lru_cache(maxsize=256)
def _rain(rate_mm_h: float, model: str, drop_sizes: str, wavelength_nm: float) -> float:
    return float(rain_extinction(rate_mm_h, model=model, drop_sizes=drop_sizes, wavelength_nm=wavelength_nm))


@lru_cache(maxsize=256)
def _snow(rate_mm_h: float, wavelength_nm: float) -> float:
    return float(snow_extinction(rate_mm_h, wavelength_nm=wavelength_nm))


def _dust(weather: Weather, time: float) -> tuple[tuple[DustGrid, float], ...]:
    grids = []
    densities = iter(weather.at(time).cloud_density_kg_m3)
    for row, part in enumerate(weather.dust):
        if isinstance(part, DustCloud):
            density = next(densities)
            drift = np.array(weather.wind_m_s) * time if part.drifts else np.zeros(3)
            if density > 0.0:
                grid = ellipsoid_cloud(np.array(part.centre_m) + drift, part.half_size_m, density)
                grids.append((grid, part.mass_extinction_m2_kg))
            continue
        start, end = part.span_s
        if time <= start:
            continue
        trail = dust_plume.DustPlume(
            part.trajectory(), start, end, seed=weather.seed, name=f"trail-{row}", weight_kg=part.weight_kg,
            silt_percent=part.silt_percent, moisture_percent=part.moisture_percent, width_m=part.width_m,
            length_m=part.length_m, ground_z_m=None, wind_m_s=weather.wind_m_s,
        )  # fmt: skip
        grid = trail.grid(time)
        if grid.mass_kg > 0.0:
            grids.append((grid, part.mass_extinction_m2_kg))
    return tuple(grids)
