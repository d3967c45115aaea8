"""Loss of sound in air that holds drops or flakes: scattering by large ones, drag and heat flow at small ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

SPEED_M_S = 343.0
"""Speed of sound at 20 °C."""
AIR_KG_M3 = 1.2
VISCOSITY_PA_S = 1.81e-5
WATER_KG_M3 = 1000.0
_NEPER_DB = 8.686
Floats = NDArray[np.float64]


def scattering_efficiency(diameter_m: ArrayLike, frequency_hz: float) -> Floats:
    """Scattering cross-section of a rigid sphere over its geometric one.

    Rayleigh's law 7/9 (ka)^4 for small spheres (Morse and Ingard 1968, Theoretical Acoustics, section 8.2), and 2 for
    large ones; joined smoothly.
    """
    ka = np.pi * np.asarray(diameter_m, np.float64) * frequency_hz / SPEED_M_S
    small = 7.0 / 9.0 * ka**4
    return np.asarray(2.0 * small / (2.0 + small))


def rain_loss_db_per_m(rate_mm_h: float, frequency_hz: float) -> float:
    """One-way scattering loss of sound in rain [dB/m], drop sizes by Marshall and Palmer 1948."""
    if rate_mm_h <= 0.0:
        return 0.0
    diameter_mm = np.linspace(0.1, 8.0, 400)
    number_m3 = 8000.0 * np.exp(-4.1 * rate_mm_h**-0.21 * diameter_mm) * (diameter_mm[1] - diameter_mm[0])
    area_m2 = 0.25 * np.pi * (1e-3 * diameter_mm) ** 2
    section = scattering_efficiency(1e-3 * diameter_mm, frequency_hz) * area_m2
    # Extinction of power is 4.34 dB per neper of intensity.
    return float(0.5 * _NEPER_DB * np.sum(number_m3 * section))


def droplet_loss_db_per_m(water_g_m3: float, diameter_m: float, frequency_hz: float) -> float:
    """One-way loss of sound by drag on suspended droplets [dB/m] (Temkin and Dobbins 1966, JASA 40, 317).

    a = (w / 2c) C wt / (1 + (wt)^2) nepers per metre, C the mass of water per mass of air, t = d^2 rho / 18 eta. The
    heat flow adds about as much again for water droplets in air, hence the factor 2.
    """
    angular = 2.0 * np.pi * frequency_hz
    relaxation = diameter_m**2 * WATER_KG_M3 / (18.0 * VISCOSITY_PA_S) * angular
    loading = 1e-3 * water_g_m3 / AIR_KG_M3
    return float(2.0 * _NEPER_DB * angular / (2.0 * SPEED_M_S) * loading * relaxation / (1.0 + relaxation**2))


def fog_water_g_m3(visibility_m: float) -> float:
    """Liquid water W [g/m3] of fog: V = 0.027 km W^-0.88 (Kunkel 1984, J. Clim. Appl. Meteorol. 23, 34)."""
    return float((visibility_m / 27.0) ** (-1.0 / 0.88))
