"""Barometer: altitude of the motion -> standard atmosphere -> offset, drift, noise, delay and quantisation."""

from __future__ import annotations

from os import PathLike

import numpy as np
from numpy.typing import ArrayLike
from pydantic import model_validator

from parhelion.core.config import NonNegative, Positive, SampledSheet
from parhelion.core.constants import STANDARD_GRAVITY_M_S2
from parhelion.core.deprecation import keyword_only
from parhelion.core.errors import ConfigError
from parhelion.core.noise import gauss_markov, normals, rounding_variance, white
from parhelion.core.pose import Floats, Pose, quat_rotate
from parhelion.core.random import Stream
from parhelion.core.streams import BarometerData
from parhelion.core.trajectory import Trajectory
from parhelion.sensors.base import StreamSensor
from parhelion.world.world import World

SEA_LEVEL_PA = 101_325.0
SEA_LEVEL_K = 288.15
LOWEST_M, HIGHEST_M = -5_000.0, 32_000.0
"""Geopotential heights [m] between which the atmosphere below is defined."""

_G = STANDARD_GRAVITY_M_S2
_AIR = 287.05287  # gas constant of dry air [J/(kg K)], ISO 2533
_EARTH_M = 6_356_766.0  # Earth radius in the definition of geopotential height, ISO 2533
# Lower edge [m] and change of temperature with height [K/m] of each layer.
_LAYERS = ((0.0, -6.5e-3), (11_000.0, 0.0), (20_000.0, 1.0e-3))


def geopotential_height(altitude_m: ArrayLike) -> Floats:
    """Geopotential height [m] of a geometric altitude [m] above mean sea level: r h / (r + h) (ISO 2533)."""
    h = np.asarray(altitude_m, dtype=np.float64)
    return _EARTH_M * h / (_EARTH_M + h)


def geometric_altitude(height_m: ArrayLike) -> Floats:
    """Geometric altitude [m] of a geopotential height [m]: the inverse of `geopotential_height`."""
    h = np.asarray(height_m, dtype=np.float64)
    return _EARTH_M * h / (_EARTH_M - h)


def _edges(sea_level_pa: float, sea_level_k: float) -> list[tuple[float, float, float, float]]:
    """Lower edge [m], lapse rate [K/m], temperature [K] and pressure [Pa] there, for each layer."""
    rows, temperature, pressure = [], sea_level_k, sea_level_pa
    for (base, lapse), (top, _) in zip(_LAYERS, (*_LAYERS[1:], (HIGHEST_M, 0.0)), strict=True):
        rows.append((base, lapse, temperature, pressure))
        pressure = float(_within(np.array(top), base, lapse, temperature, pressure))
        temperature += lapse * (top - base)
    return rows


def _within(height: Floats, base: float, lapse: float, temperature: float, pressure: float) -> Floats:
    if lapse == 0.0:
        return np.asarray(pressure * np.exp(-_G * (height - base) / (_AIR * temperature)))
    return np.asarray(pressure * (1.0 + lapse * (height - base) / temperature) ** (-_G / (_AIR * lapse)))


def isa_pressure(height_m: ArrayLike, sea_level_pa: float = SEA_LEVEL_PA, sea_level_k: float = SEA_LEVEL_K) -> Floats:
    """Pressure [Pa] of the standard atmosphere (ISO 2533) at a geopotential height from -5000 to 32000 m.

    In hydrostatic balance with temperature T = T_b + L (h - h_b): p = p_b (T / T_b)^(-g / (R L)), or exponential where
    L = 0. Pressure and temperature at sea level may differ from the standard; the lapse rates are fixed.
    """
    height = np.asarray(height_m, dtype=np.float64)
    if not np.all((height >= LOWEST_M) & (height <= HIGHEST_M)):
        raise ConfigError(f"altitude: the standard atmosphere reaches from {LOWEST_M:g} to {HIGHEST_M:g} m")
    _check_sea_level(sea_level_pa, sea_level_k)
    rows = _edges(sea_level_pa, sea_level_k)
    layer = np.clip(np.searchsorted([row[0] for row in rows], height, side="right") - 1, 0, None)
    return np.asarray(np.choose(layer, [_within(height, *row) for row in rows]))


def isa_height(pressure_pa: ArrayLike, sea_level_pa: float = SEA_LEVEL_PA, sea_level_k: float = SEA_LEVEL_K) -> Floats:
    """Geopotential height [m] at which the standard atmosphere has a pressure [Pa]: the inverse of `isa_pressure`."""
    pressure = np.asarray(pressure_pa, dtype=np.float64)
    if not np.all((pressure > 0) & np.isfinite(pressure)):
        raise ConfigError("pressure: must be finite and above 0 Pa")
    _check_sea_level(sea_level_pa, sea_level_k)
    rows = _edges(sea_level_pa, sea_level_k)
    heights = []
    for base, lapse, temperature, edge_pa in rows:
        ratio = pressure / edge_pa
        if lapse == 0.0:
            heights.append(base - _AIR * temperature / _G * np.log(ratio))
        else:
            heights.append(base + temperature / lapse * (ratio ** (-_AIR * lapse / _G) - 1.0))
    layer = np.sum([pressure < row[3] for row in rows[1:]], axis=0, dtype=np.int64)
    return np.asarray(np.choose(layer, heights))


def _check_sea_level(sea_level_pa: float, sea_level_k: float) -> None:
    if not 80_000.0 <= sea_level_pa <= 110_000.0:
        raise ConfigError(f"sea_level_pa: must be from 80000 to 110000 Pa, got {sea_level_pa!r}")
    if not 180.0 <= sea_level_k <= 340.0:
        raise ConfigError(f"sea_level_k: must be from 180 to 340 K, got {sea_level_k!r}")


class BarometerConfig(SampledSheet):
    """One barometer model."""

    noise_pa: NonNegative = 0.0
    """Standard deviation of one sample [Pa]."""
    offset_pa: NonNegative = 0.0
    """Standard deviation of the constant offset [Pa] over units."""
    drift_pa: NonNegative = 0.0
    """Standard deviation of the Gauss-Markov drift [Pa]."""
    drift_correlation_time_s: Positive | None = None
    """Correlation time of the drift [s]."""
    delay_s: NonNegative = 0.0
    """Age of the reported pressure [s]."""
    resolution_pa: NonNegative = 0.0
    """Step of the reported pressure [Pa]; 0 is continuous."""

    @model_validator(mode="after")
    def _complete(self) -> BarometerConfig:
        if self.drift_pa > 0 and self.drift_correlation_time_s is None:
            raise ValueError("drift_pa above 0 needs drift_correlation_time_s")
        return self


class Barometer(StreamSensor[BarometerConfig, BarometerData]):
    """A barometer. The reported altitude is that of the standard atmosphere, as in an altimeter.

        >>> from parhelion import Barometer, Pose
        >>> barometer = Barometer("bosch/bmp388", altitude_m=520.0, noise=False)
        >>> data = barometer.run(None, Pose(), duration=1.0)
        >>> len(data), round(float(data.pressure[0]))
        (50, 95233)

    Args:
        model: Preset name, YAML file or `BarometerConfig`.
        name: Name that distinguishes the sensor from others of its model; each name has its own noise.
        rate_hz: Samples per second; by default that of the data sheet.
        noise: False gives the true pressure at the time of the sample.
        altitude_m: Altitude of z = 0 of the world above mean sea level [m].
        sea_level_pa: Pressure at mean sea level on this day [Pa]; by default from the weather of the world, whose
            pressure is that at z = 0, else 101325.
        sea_level_k: Temperature at mean sea level on this day [K]; by default from the weather, else 288.15.
    """

    kind = "barometer"
    uses_world = False

    @keyword_only("rate_hz", "noise")
    def __init__(
        self,
        model: str | PathLike[str] | BarometerConfig,
        *,
        name: str = "",
        rate_hz: float | None = None,
        noise: bool = True,
        altitude_m: float = 0.0,
        sea_level_pa: float | None = None,
        sea_level_k: float | None = None,
    ) -> None:
        super().__init__(*self._opened(BarometerConfig, model), name=name, rate_hz=rate_hz, noise=noise)
        self.altitude_m, self.sea_level_pa, self.sea_level_k = altitude_m, sea_level_pa, sea_level_k
        if not np.isfinite(altitude_m):
            raise ConfigError(f"altitude_m: must be finite, got {altitude_m!r}")
        isa_pressure(geopotential_height(altitude_m), *self._sea_level(None))  # rejects invalid values

    def _sea_level(self, world: World | None) -> tuple[float, float]:
        """Pressure [Pa] and temperature [K] at mean sea level: as given, else by the weather, else standard."""
        weather = None if world is None else world.weather
        pressure, celsius = (getattr(weather, name, None) for name in ("pressure_hpa", "temperature_c"))
        height = float(geopotential_height(self.altitude_m))
        kelvin = SEA_LEVEL_K if celsius is None else celsius + 273.15 + 6.5e-3 * height
        kelvin = kelvin if self.sea_level_k is None else self.sea_level_k
        if self.sea_level_pa is not None:
            return self.sea_level_pa, kelvin
        if pressure is None:
            return SEA_LEVEL_PA, kelvin
        return 100.0 * pressure * SEA_LEVEL_PA / float(isa_pressure(height, SEA_LEVEL_PA, kelvin)), kelvin

    def _samples(
        self, world: World | None, motion: Trajectory, first: int, count: int, seed: int, mount: Pose | None
    ) -> BarometerData:
        times = np.arange(first, first + count, dtype=np.int64) / self.rate_hz
        xyz, quat = motion.sample(times - self.config.delay_s if self.noise else times)
        if mount is not None:
            xyz = xyz + quat_rotate(quat, mount.xyz)
        height = geopotential_height(self.altitude_m + xyz[:, 2])
        pressure, variance = isa_pressure(height, *self._sea_level(world)), 0.0
        if self.noise:
            pressure = self._measured(pressure, first, seed)
            variance = self.config.noise_pa**2 + rounding_variance(self.config.resolution_pa)
        return BarometerData(
            times,
            pressure,
            geometric_altitude(isa_height(pressure)),
            variance,
            metadata={"sensor": self.model, "seed": int(seed), "rate_hz": self.rate_hz},
        )

    def _measured(self, pressure: Floats, first: int, seed: int) -> Floats:
        sheet, count = self.config, len(pressure)
        offset = sheet.offset_pa * normals(Stream(seed, self._streams + "/offset"), np.zeros(1, dtype=np.int64))[0, 0]
        measured = pressure + offset + sheet.noise_pa * white(seed, self._streams + "/noise", first, count)[:, 0]
        if sheet.drift_correlation_time_s is not None:
            samples = sheet.drift_correlation_time_s * self.rate_hz
            measured = (
                measured + sheet.drift_pa * gauss_markov(seed, self._streams + "/drift", first, count, samples)[:, 0]
            )
        step = sheet.resolution_pa
        return np.asarray(np.rint(measured / step) * step) if step > 0 else measured
