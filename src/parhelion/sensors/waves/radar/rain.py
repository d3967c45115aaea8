"""Rain before a radar: what it takes from the wave (ITU-R P.838), and what it sends back (Mie's theory).

Fog and dry snow are left out: at 77 GHz a fog of 0.1 g/m^3 (50 m visibility) costs 0.4 dB/km and dry snow less (ITU-R
P.840), next to 10 dB/km of rain at 25 mm/h.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.surfaces.radio import water_permittivity
from parhelion.weather.drop_sizes import drop_sizes
from parhelion.weather.mie import mie_series

# Recommendation ITU-R P.838-3 (03/2005), tables 1 to 4: rows of a_j, b_j, c_j, then m and c.
_K_H = (((-5.33980, -0.10008, 1.13098), (-0.35351, 1.26970, 0.45400), (-0.23789, 0.86036, 0.15354),
         (-0.94158, 0.64552, 0.16817)), -0.18961, 0.71147)  # fmt: skip
_K_V = (((-3.80595, 0.56934, 0.81061), (-3.44965, -0.22911, 0.51059), (-0.39902, 0.73042, 0.11899),
         (0.50167, 1.07319, 0.27195)), -0.16398, 0.63297)  # fmt: skip
_A_H = (((-0.14318, 1.82442, -0.55187), (0.29591, 0.77564, 0.19822), (0.32177, 0.63773, 0.13164),
         (-5.37610, -0.96230, 1.47828), (16.1721, -3.29980, 3.43990)), 0.67849, -1.95537)  # fmt: skip
_A_V = (((-0.07771, 2.33840, -0.76284), (0.56727, 0.95545, 0.54039), (-0.20238, 1.14520, 0.26809),
         (-48.2991, 0.791669, 0.116226), (48.5833, 0.791459, 0.116479)), -0.053739, 0.83433)  # fmt: skip


def _sum(table: tuple[tuple[tuple[float, float, float], ...], float, float], log_f: NDArray[np.float64]) -> ArrayLike:
    terms, slope, constant = table
    found = slope * log_f + constant
    for a, b, c in terms:
        found = found + a * np.exp(-(((log_f - b) / c) ** 2))
    return np.asarray(found)


def rain_coefficients(frequency_hz: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """k and alpha of gamma = k R^alpha [dB/km, R in mm/h], mean of both polarisations; 1 to 1000 GHz (P.838-3)."""
    ghz = np.asarray(frequency_hz, np.float64) / 1e9
    if np.any((ghz < 1.0) | (ghz > 1000.0)):
        raise ConfigError("rain: ITU-R P.838 has coefficients for 1 to 1000 GHz")
    log_f = np.log10(ghz)
    k_h, k_v = 10.0 ** np.asarray(_sum(_K_H, log_f)), 10.0 ** np.asarray(_sum(_K_V, log_f))
    a_h, a_v = np.asarray(_sum(_A_H, log_f)), np.asarray(_sum(_A_V, log_f))
    # Equations 4 and 5 at 45 degrees of tilt, where horizontal and vertical count alike.
    k = 0.5 * (k_h + k_v)
    return k, (k_h * a_h + k_v * a_v) / (2.0 * k)


def rain_attenuation_db_per_km(frequency_hz: ArrayLike, rate_mm_h: ArrayLike) -> NDArray[np.float64]:
    """Loss along one way through rain [dB/km] (ITU-R P.838-3)."""
    k, alpha = rain_coefficients(frequency_hz)
    return np.asarray(k * np.asarray(rate_mm_h, np.float64) ** alpha)


@lru_cache(maxsize=64)
def rain_reflectivity(frequency_hz: float, rate_mm_h: float) -> float:
    """Backscatter cross-section of rain [m^2/m^3]: drops of Marshall and Palmer, Mie's theory, water at 15 C."""
    if rate_mm_h <= 0.0:
        return 0.0
    # Mie's series is written for exp(-i w t), where losses are positive.
    index = complex(np.sqrt(np.conj(water_permittivity(frequency_hz))))
    wavelength_mm = 1e3 * SPEED_OF_LIGHT_M_S / frequency_hz

    def weight(diameter_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        x = np.pi * diameter_mm / wavelength_mm
        back = mie_series(index, np.maximum(x, 0.05), np.zeros(1))[1][0]
        # Smaller ones are Rayleigh's, whose efficiency goes with x^4.
        back = back * np.minimum(x / 0.05, 1.0) ** 4
        return np.asarray(back * np.pi * (0.5e-3 * diameter_mm) ** 2)

    return drop_sizes("marshall-palmer", rate_mm_h).integrate(weight)
