"""Sound in air and water: speed and absorption, by published formulas. Pure functions of NumPy arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.constants import ZERO_CELSIUS_K

Floats = NDArray[np.float64]

_T0_K, _T01_K, _PR_KPA = 293.15, 273.16, 101.325


def air_speed_m_s(temperature_c: ArrayLike) -> Floats:
    """Speed of sound in dry air [m/s]: 331.3 sqrt(T / 273.15 K), right to 0.4 % in moist air of -20 to 50 C."""
    return np.asarray(331.3 * np.sqrt((np.asarray(temperature_c, np.float64) + ZERO_CELSIUS_K) / ZERO_CELSIUS_K))


def air_absorption_db_per_m(
    frequency_hz: ArrayLike, temperature_c: float = 20.0, humidity_percent: float = 50.0, pressure_kpa: float = _PR_KPA
) -> Floats:
    """Absorption in air [dB/m] by ISO 9613-1:1993, equations 3 to 5 and B.1 to B.3.

    Right to 10 % for -20 to 50 C, 10 to 100 % and 50 Hz to 10 kHz at 1 atm; beyond, up to 1 MHz, by the same physics.
    """
    f = np.asarray(frequency_hz, np.float64)
    t, pressure = temperature_c + ZERO_CELSIUS_K, pressure_kpa / _PR_KPA
    saturation = 10.0 ** (-6.8346 * (_T01_K / t) ** 1.261 + 4.6151)
    h = humidity_percent * saturation / pressure
    oxygen = pressure * (24.0 + 4.04e4 * h * (0.02 + h) / (0.391 + h))
    ratio = t / _T0_K
    nitrogen = pressure * ratio**-0.5 * (9.0 + 280.0 * h * np.exp(-4.170 * (ratio ** (-1.0 / 3.0) - 1.0)))
    relaxing = 0.01275 * np.exp(-2239.1 / t) / (oxygen + f**2 / oxygen)
    relaxing = relaxing + 0.1068 * np.exp(-3352.0 / t) / (nitrogen + f**2 / nitrogen)
    return np.asarray(8.686 * f**2 * (1.84e-11 / pressure * np.sqrt(ratio) + ratio**-2.5 * relaxing))


def water_speed_m_s(temperature_c: ArrayLike, salinity: float = 35.0, depth_m: float = 0.0) -> Floats:
    """Speed of sound in sea water [m/s] by Mackenzie 1981 (JASA 70, 807): 2 to 30 C, 25 to 40 per mille, to 8000 m."""
    t = np.asarray(temperature_c, np.float64)
    s = salinity - 35.0
    return np.asarray(
        1448.96 + 4.591 * t - 5.304e-2 * t**2 + 2.374e-4 * t**3 + 1.340 * s + 1.630e-2 * depth_m
        + 1.675e-7 * depth_m**2 - 1.025e-2 * t * s - 7.139e-13 * t * depth_m**3
    )  # fmt: skip


def water_absorption_db_per_m(
    frequency_hz: ArrayLike, temperature_c: float = 10.0, salinity: float = 35.0, depth_m: float = 0.0, ph: float = 8.0
) -> Floats:
    """Absorption in sea water [dB/m] by Francois and Garrison 1982 (JASA 72, 1879): boric acid, magnesium, water.

    Right to 5 % for 0.4 to 1000 kHz, -1.8 to 30 C, 30 to 35 per mille.
    """
    f = np.asarray(frequency_hz, np.float64) / 1e3
    t, kelvin = temperature_c, temperature_c + 273.0
    c = 1412.0 + 3.21 * t + 1.19 * salinity + 0.0167 * depth_m
    boric, f1 = 8.86 / c * 10.0 ** (0.78 * ph - 5.0), 2.8 * np.sqrt(salinity / 35.0) * 10.0 ** (4.0 - 1245.0 / kelvin)
    magnesium = 21.44 * salinity / c * (1.0 + 0.025 * t)
    f2 = 8.17 * 10.0 ** (8.0 - 1990.0 / kelvin) / (1.0 + 0.0018 * (salinity - 35.0))
    p2, p3 = 1.0 - 1.37e-4 * depth_m + 6.2e-9 * depth_m**2, 1.0 - 3.83e-5 * depth_m + 4.9e-10 * depth_m**2
    pure = 4.937e-4 - 2.59e-5 * t + 9.11e-7 * t**2 - 1.50e-8 * t**3
    if t > 20.0:
        pure = 3.964e-4 - 1.146e-5 * t + 1.45e-7 * t**2 - 6.5e-10 * t**3
    per_km = boric * f1 * f**2 / (f1**2 + f**2) + magnesium * p2 * f2 * f**2 / (f2**2 + f**2) + pure * p3 * f**2
    return np.asarray(1e-3 * per_km)
