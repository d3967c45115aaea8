"""Black bodies and the eye: Planck's law, and lumens from watts."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.constants import BOLTZMANN_J_K, PLANCK_J_S, SPEED_OF_LIGHT_M_S
from parhelion.surfaces.bands import Band

Floats = NDArray[np.float64]

LUMENS_PER_WATT = 683.002
"""Luminous efficacy at 555 nm: K_m of the CIE."""

_V = np.array([
    3.9e-5, 1.2e-4, 3.96e-4, 0.00121, 0.004, 0.0116, 0.023, 0.038, 0.06, 0.09098, 0.13902, 0.20802, 0.323, 0.503, 0.71,
    0.862, 0.954, 0.99495, 0.995, 0.952, 0.87, 0.757, 0.631, 0.503, 0.381, 0.265, 0.175, 0.107, 0.061, 0.032, 0.017,
    0.00821, 0.004102, 0.002091, 0.001047, 5.2e-4, 2.49e-4, 1.2e-4, 6e-5, 3e-5, 1.5e-5,
])  # fmt: skip


@lru_cache(maxsize=1)
def eye_band() -> Band:
    """V(lambda) of the CIE 1924 photopic observer, 380 to 780 nm by 10 nm (CIE 18.2), as a band."""
    return Band("eye", np.arange(380.0, 781.0, 10.0), _V)


def luminous(wavelength_nm: ArrayLike, spectrum: ArrayLike) -> Floats:
    """Lumens from a spectrum (..., n) in W/nm at wavelengths (n,) [nm]; likewise lux, candela, cd/m^2."""
    # The band stores V with its peak at 1; the CIE's table has 0.995 there by 10 nm.
    return LUMENS_PER_WATT * float(_V.max()) * eye_band().integral(wavelength_nm, spectrum)


def planck_radiance(wavelength_nm: ArrayLike, temperature_k: ArrayLike) -> Floats:
    """Spectral radiance of a black body [W/(m^2 sr nm)]; the two arguments broadcast, temperatures above 0."""
    metres = np.asarray(wavelength_nm, dtype=np.float64) * 1e-9
    temperature = np.asarray(temperature_k, dtype=np.float64)
    exponent = PLANCK_J_S * SPEED_OF_LIGHT_M_S / (metres * BOLTZMANN_J_K * temperature)
    front = 2.0 * PLANCK_J_S * SPEED_OF_LIGHT_M_S**2 / metres**5 * 1e-9
    # exp(-x) / (1 - exp(-x)) does not overflow where x is large.
    return np.asarray(front * np.exp(-exponent) / -np.expm1(-exponent))


def radiant_per_lumen(colour_temperature_k: float, band: Band) -> float:
    """Power in a band [W] of a lamp of 1 lm whose spectrum is a black body's."""
    visible = np.arange(380.0, 781.0, 5.0)
    lumens = float(luminous(visible, planck_radiance(visible, colour_temperature_k)))
    first, last = band.range_nm
    grid = np.linspace(first, last, 201)
    return float(band.integral(grid, planck_radiance(grid, colour_temperature_k))) / lumens
