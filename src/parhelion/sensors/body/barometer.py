"""The barometer: height of the motion -> standard atmosphere -> offset, drift, noise, delay and rounding."""

from __future__ import annotations

from os import PathLike

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from parhelion.core.config import Config, NonNegative, Positive, Source
from parhelion.core.constants import STANDARD_GRAVITY_M_S2
from parhelion.core.errors import ConfigError
from parhelion.core.noise import (
    checked_motion,
    chosen_rate,
    gauss_markov,
    normals,
    rounding_variance,
    sample_number,
    sample_span,
    white,
)
from parhelion.core.pose import Floats, Pose, quat_rotate
from parhelion.core.random import Stream
from parhelion.core.streams import BarometerData
from parhelion.core.trajectory import Trajectory
from parhelion.sensors.presets import FOLDER as PRESETS
from parhelion.sensors.presets import load_sheet, sheet_names
from parhelion.sensors.stream import WithoutWorld
from parhelion.world.world import World

FOLDER = PRESETS / "barometer"

SEA_LEVEL_PA = 101_325.0
SEA_LEVEL_K = 288.15
LOWEST_M, HIGHEST_M = -5_000.0, 32_000.0
"""Geopotential heights [m] between which the atmosphere below is defined."""

_G = STANDARD_GRAVITY_M_S2
_AIR = 287.05287  # gas constant of dry air [J/(kg K)], ISO 2533
_EARTH_M = 6_356_766.0  # radius that turns geometric into geopotential height, ISO 2533
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
    L = 0. Another day has other values at sea level; the lapse rates stay.
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


class BarometerConfig(Config):
    """One model of barometer."""

    name: str
    rate_hz: Positive
    """Samples a second by default."""
    max_rate_hz: Positive
    noise_pa: NonNegative = 0.0
    """Standard deviation of one sample."""
    offset_pa: NonNegative = 0.0
    """Standard deviation of the constant offset over units."""
    drift_pa: NonNegative = 0.0
    """Standard deviation of the Gauss-Markov drift."""
    drift_correlation_time_s: Positive | None = None
    delay_s: NonNegative = 0.0
    """A sample tells the pressure of this long ago."""
    resolution_pa: NonNegative = 0.0
    """Step of the reported pressure; 0 is continuous."""
    sources: list[Source] = Field(min_length=1)
    assumed: dict[str, str] = Field(default_factory=dict)
    """Fields that no source gives, and why this value was taken."""

    @model_validator(mode="after")
    def _complete(self) -> BarometerConfig:
        if self.drift_pa > 0 and self.drift_correlation_time_s is None:
            raise ValueError("drift_pa above 0 needs drift_correlation_time_s")
        if self.rate_hz > self.max_rate_hz:
            raise ValueError(f"rate_hz ({self.rate_hz}) must not be above max_rate_hz ({self.max_rate_hz})")
        return self


def barometer_names() -> list[str]:
    """Names of the barometers that come with Parhelion."""
    return sheet_names(FOLDER)


class Barometer(WithoutWorld):
    """A barometer by preset name, YAML file or configuration.

    `altitude_m` is the altitude of the world's z = 0 above mean sea level; `sea_level_pa` and `sea_level_k` are the
    day's air. The reported altitude is by the standard atmosphere, as an altimeter's: on another day it is off.
    `noise=False` gives the true pressure at the sample's time.
    """

    may_stand = True

    def __init__(
        self,
        model: str | PathLike[str] | BarometerConfig,
        rate_hz: float | None = None,
        noise: bool = True,
        *,
        name: str = "",
        altitude_m: float = 0.0,
        sea_level_pa: float = SEA_LEVEL_PA,
        sea_level_k: float = SEA_LEVEL_K,
    ) -> None:
        if isinstance(model, BarometerConfig):
            self.config, self.model = model, model.name
        else:
            self.config, self.model = load_sheet(BarometerConfig, "barometer", FOLDER, model), str(model).lower()
        self.rate_hz = chosen_rate(rate_hz, self.config.rate_hz, self.config.max_rate_hz)
        self.noise, self.altitude_m, self._streams = noise, altitude_m, f"barometer/{self.model}/{name}"
        self.sea_level_pa, self.sea_level_k = sea_level_pa, sea_level_k
        if not np.isfinite(altitude_m):
            raise ConfigError(f"altitude_m: must be finite, got {altitude_m!r}")
        isa_pressure(geopotential_height(altitude_m), sea_level_pa, sea_level_k)  # a bad day is told now

    def run(
        self, motion: Trajectory, start: float = 0.0, duration: float = 1.0, seed: int = 0, mount: Pose | None = None
    ) -> BarometerData:
        """All samples from `start` [s] until before `start + duration` [s]; split runs give the same bits."""
        return self._samples(motion, *sample_span(start, duration, self.rate_hz), seed, mount)

    def measure(self, world: World, motion: Trajectory, time: float, seed: int) -> BarometerData:
        """The contract of every sensor: the one sample within a period from `time` [s] on."""
        return self._samples(motion, sample_number(time, self.rate_hz), 1, seed, None)

    def _samples(self, motion: Trajectory, first: int, count: int, seed: int, mount: Pose | None) -> BarometerData:
        times = np.arange(first, first + count, dtype=np.int64) / self.rate_hz
        xyz, quat = checked_motion(motion).sample(times - self.config.delay_s if self.noise else times)
        if mount is not None:
            xyz = xyz + quat_rotate(quat, mount.xyz)
        height = geopotential_height(self.altitude_m + xyz[:, 2])
        pressure, variance = isa_pressure(height, self.sea_level_pa, self.sea_level_k), 0.0
        if self.noise:
            pressure = self._measured(pressure, first, seed)
            variance = self.config.noise_pa**2 + rounding_variance(self.config.resolution_pa)
        return BarometerData(
            times, pressure, geometric_altitude(isa_height(pressure)), variance,
            metadata={"sensor": self.model, "seed": int(seed), "rate_hz": self.rate_hz},
        )  # fmt: skip

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

    def __repr__(self) -> str:
        return f"<Barometer {self.model}: {self.rate_hz:g} Hz>"
