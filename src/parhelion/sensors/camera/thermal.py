"""Thermal read-out: from the radiance of a band of the thermal infrared to temperature, counts or grey values.

Written once for NumPy and Dr.Jit. Temperature follows from radiance by a polynomial that is fitted to Planck's law.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import is_drjit, namespace
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.random import Stream, to_normal, words
from parhelion.rays.device import copied
from parhelion.rays.device import engine as running_engine
from parhelion.sensors.camera.planes import Array, planes_of
from parhelion.sensors.camera.readout import LIGHT_SPEED, PLANCK

BOLTZMANN = 1.380649e-23
"""[J/K]"""
OUTPUTS = ("centikelvin", "counts", "grey")


def band_radiance(temperature_k: Any, band_um: tuple[float, float], steps: int = 400) -> NDArray[np.float64]:
    """Radiance of a black body in a band [W/(m^2 sr)]: Planck's law, integrated over wavelength by Gauss's rule."""
    nodes, weights = np.polynomial.legendre.leggauss(min(steps, 200))
    low, high = band_um[0] * 1e-6, band_um[1] * 1e-6
    wavelength = 0.5 * (high + low) + 0.5 * (high - low) * nodes
    t = np.asarray(temperature_k, dtype=np.float64)[..., None]
    photon = PLANCK * LIGHT_SPEED / (BOLTZMANN * wavelength * t)
    spectral = 2.0 * PLANCK * LIGHT_SPEED**2 / wavelength**5 / np.expm1(photon)
    return np.asarray(0.5 * (high - low) * (spectral * weights).sum(axis=-1))


@dataclass(frozen=True)
class ThermalCurve:
    """Temperature of a black body by the radiance of a band: 1 / T is a polynomial in ln L."""

    band_um: tuple[float, float]
    centre: float
    """Middle of ln L over the range."""
    half: float
    """Half of its span."""
    coefficients: tuple[float, ...]
    """Of the powers of (ln L - centre) / half, lowest first [1/K]."""

    def temperature(self, radiance: Array) -> Array:
        """Of the black body with this radiance [K]; arrays of either kind. Radiance must be above 0."""
        return _temperature(radiance, [self.centre, 1.0 / self.half, *self.coefficients])

    def slope(self, temperature_k: float) -> float:
        """dL/dT [W/(m^2 sr K)]."""
        step = 1e-3 * temperature_k
        low, high = band_radiance([temperature_k - step, temperature_k + step], self.band_um)
        return float((high - low) / (2.0 * step))


def _temperature(radiance: Array, numbers: list[Any]) -> Array:
    """The polynomial of `ThermalCurve`: centre, 1 / half and the coefficients are given."""
    x = (namespace(radiance).log(radiance) - numbers[0]) * numbers[1]
    value = numbers[-1]
    for coefficient in numbers[-2:1:-1]:
        value = value * x + coefficient
    return 1.0 / value


@lru_cache(maxsize=64)
def thermal_curve(band_um: tuple[float, float], range_k: tuple[float, float]) -> ThermalCurve:
    """The curve of a band over a range of temperatures, fitted to Planck's law.

    Of degree 6 it is off by less than 1 mK from 233 to 423 K, in the bands from 3 to 5 and from 8 to 14 um.
    """
    t = np.linspace(*range_k, 400)
    light = np.log(band_radiance(t, band_um))
    centre, half = 0.5 * float(light[0] + light[-1]), 0.5 * float(light[-1] - light[0])
    fit = np.polynomial.polynomial.polyfit((light - centre) / half, 1.0 / t, 6)
    return ThermalCurve(band_um, centre, half, tuple(float(c) for c in fit))


@dataclass(frozen=True)
class ThermalElectronics:
    """What a data sheet says of a thermal camera's sensor."""

    identity: str = "thermal"
    """Which piece it is: its fixed pattern follows from it."""
    band_um: tuple[float, float] = (8.0, 14.0)
    netd_k: float = 0.05
    """Noise-equivalent temperature difference at `reference_k` [K]."""
    reference_k: float = 300.0
    pattern_k: float = 0.0
    """Standard deviation of what is left of the fixed pattern, as temperature at `reference_k` [K]."""
    range_k: tuple[float, float] = (233.15, 423.15)
    """Range of temperatures."""
    output: Literal["centikelvin", "counts", "grey"] = "centikelvin"
    """uint16 temperature in 0.01 K, uint16 counts of `adc_bits` linear in radiance over the range, or uint8 grey
    values stretched over what the picture holds."""
    adc_bits: int = 14
    stretch_percent: tuple[float, float] = (1.0, 99.0)
    """Percentiles that become black and white."""

    def __post_init__(self) -> None:
        if self.output not in OUTPUTS:
            raise unknown_name("thermal output", self.output, OUTPUTS)
        low, high = self.range_k
        if not 0.0 < self.band_um[0] < self.band_um[1] or not 100.0 <= low < high <= 655.0:
            raise ConfigError("thermal sensor: band_um must increase, range_k must lie between 100 and 655 K")
        if self.netd_k < 0.0 or self.pattern_k < 0.0 or not 1 <= self.adc_bits <= 16:
            raise ConfigError("thermal sensor: netd_k and pattern_k must not be negative, adc_bits from 1 to 16")


@dataclass(frozen=True, eq=False)
class DevelopedThermal:
    """A thermal picture."""

    colour: NDArray[Any]
    """Shape (h, w), as `output` says."""
    temperature_k: NDArray[np.float32]
    """What was measured, shape (h, w)."""


def develop_thermal(
    radiance: Any, electronics: ThermalElectronics, stream: Stream, *, width: int | None = None,
    height: int | None = None,
) -> DevelopedThermal:  # fmt: skip
    """The thermal picture of a scene of given radiance in the sensor's band [W/(m^2 sr)], (h, w) or a flat array.

    Noise is added to radiance, so that cold things have more of it in kelvin: NETD is told at one temperature.
    """
    planes, width, height = planes_of(radiance if isinstance(radiance, np.ndarray) else [radiance], width, height)
    if len(planes) != 1:
        raise ConfigError(f"radiance: a thermal sensor has one band, got {len(planes)}")
    (light,) = planes
    e = electronics
    curve = thermal_curve(e.band_um, e.range_k)
    keys = (replace(stream, name=f"{stream.name}/thermal").key, Stream(0, f"fixed-pattern/{e.identity}").key)
    levels = (e.netd_k * curve.slope(e.reference_k), e.pattern_k * curve.slope(e.reference_k))
    low, high = (float(band_radiance(t, e.band_um)) for t in e.range_k)
    shape = [curve.centre, 1.0 / curve.half, *curve.coefficients]
    if is_drjit(light):
        engine = running_engine()
        opaque = engine.dr.opaque
        keys = tuple(tuple(opaque(engine.mi.UInt32, word) for word in key) for key in keys)  # type: ignore[assignment]
        numbers = [engine.number(v) for v in (*levels, low, high)]
        curve_numbers = [engine.number(v) for v in shape]
        pixel = engine.counting(width * height)
        measured = engine.frozen(_measured)(light, pixel, keys, numbers, curve_numbers)
        engine.dr.eval(measured)
        noisy, kelvin = (copied(one).astype(np.float64) for one in measured)
    else:
        pixel = np.arange(width * height, dtype=np.uint32)
        noisy, kelvin = _measured(light, pixel, keys, [*levels, low, high], shape)
    stored: NDArray[Any]
    if e.output == "centikelvin":
        stored = np.floor(100.0 * kelvin + 0.5).astype(np.uint16)
    elif e.output == "counts":
        stored = np.floor((noisy - low) / (high - low) * (2**e.adc_bits - 1) + 0.5).astype(np.uint16)
    else:
        stored = stretched(kelvin, e.stretch_percent)
    return DevelopedThermal(stored.reshape(height, width), kelvin.reshape(height, width).astype(np.float32))


def _measured(light: Array, pixel: Array, keys: Any, numbers: list[Any], curve: list[Any]) -> tuple[Array, Array]:
    """Radiance with noise, within the range of the sensor, and the temperature that it stands for."""
    xp = namespace(light, pixel)
    sigma, pattern, low, high = numbers
    a, b, _, _ = words(keys[0], pixel)
    c, d, _, _ = words(keys[1], pixel)
    noisy = light + sigma * to_normal(a, b)[0] + pattern * to_normal(c, d)[0]
    noisy = xp.clip(noisy, low, high)
    return noisy, _temperature(noisy, curve)


def stretched(values: NDArray[np.float64], percent: tuple[float, float] = (1.0, 99.0)) -> NDArray[np.uint8]:
    """Grey values of 8 bits, linear between two percentiles of the picture; all mid-grey where it is flat."""
    low, high = np.percentile(values, percent)
    if not high > low:
        return np.full(values.shape, 128, np.uint8)
    return np.floor(np.clip((values - low) / (high - low), 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
