"""Refractive index and attenuation of water for light, slopes of its surface, and its permittivity for radio waves."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.arrays import Reals
from parhelion.core.errors import ConfigError

WAVELENGTHS_NM = (350.0, 2500.0)
"""Range of wavelengths [nm] that the tables cover."""

# Real part: Hale and Querry 1973, at 25 C.
_WATER_N_NM = np.array([
    350, 375, 400, 425, 450, 475, 500, 525, 550, 575, 600, 625, 650, 675, 700, 725, 750, 775, 800, 825, 850, 875, 900,
    925, 950, 975, 1000, 1200, 1400, 1600, 1800, 2000, 2200, 2400, 2600,
], dtype=np.float64)  # fmt: skip
_WATER_N = np.array([
    1.343, 1.341, 1.339, 1.338, 1.337, 1.336, 1.335, 1.334, 1.333, 1.333, 1.332, 1.332, 1.331, 1.331, 1.331, 1.330,
    1.330, 1.330, 1.329, 1.329, 1.329, 1.328, 1.328, 1.328, 1.327, 1.327, 1.327, 1.324, 1.321, 1.317, 1.312, 1.306,
    1.296, 1.279, 1.242,
])  # fmt: skip
# Imaginary part: Hale and Querry 1973 up to 675 nm; above, Segelstein 1981, which resolves the absorption bands at
# 0.97, 1.45 and 1.94 um.
_WATER_K_NM = np.array([
    350, 375, 400, 425, 450, 475, 500, 525, 550, 575, 600, 625, 650, 675, 699.8, 714.5, 724.4, 739.6, 755.1, 779.8,
    799.8, 809.1, 824.1, 839.5, 859.0, 879.0, 899.5, 905.7, 909.9, 920.4, 929.0, 939.7, 950.6, 970.5, 1000, 1050, 1069,
    1099, 1119, 1130, 1151, 1180, 1211, 1259, 1291, 1309, 1330, 1349, 1371, 1390, 1400, 1409, 1419, 1449, 1469, 1489,
    1510, 1531, 1549, 1570, 1600, 1629, 1660, 1698, 1750, 1791, 1828, 1849, 1862, 1879, 1901, 1910, 1932, 1959, 2000,
    2051, 2099, 2148, 2198, 2259, 2328, 2399, 2449, 2500,
], dtype=np.float64)  # fmt: skip
_WATER_K = np.array([
    6.50e-9, 3.50e-9, 1.86e-9, 1.30e-9, 1.02e-9, 9.35e-10, 1.00e-9, 1.32e-9, 1.96e-9, 3.60e-9, 1.09e-8, 1.39e-8,
    1.64e-8, 2.23e-8, 3.348e-8, 5.995e-8, 9.137e-8, 1.458e-7, 1.580e-7, 1.409e-7, 1.250e-7, 1.330e-7, 1.819e-7,
    2.459e-7, 3.348e-7, 4.053e-7, 4.862e-7, 5.150e-7, 5.699e-7, 8.304e-7, 1.368e-6, 2.169e-6, 2.932e-6, 3.502e-6,
    3.000e-6, 1.419e-6, 1.259e-6, 1.708e-6, 2.628e-6, 3.869e-6, 9.306e-6, 1.160e-5, 1.191e-5, 1.079e-5, 1.221e-5,
    1.639e-5, 2.251e-5, 4.047e-5, 5.804e-5, 1.060e-4, 1.530e-4, 2.540e-4, 3.197e-4, 3.637e-4, 3.387e-4, 2.659e-4,
    1.958e-4, 1.602e-4, 1.348e-4, 1.140e-4, 9.347e-5, 8.096e-5, 7.398e-5, 7.743e-5, 1.000e-4, 1.330e-4, 1.418e-4,
    1.861e-4, 3.205e-4, 7.224e-4, 1.161e-3, 1.678e-3, 1.922e-3, 1.717e-3, 1.101e-3, 6.742e-4, 4.643e-4, 3.705e-4,
    3.379e-4, 3.898e-4, 5.430e-4, 9.095e-4, 1.348e-3, 1.900e-3,
])  # fmt: skip


def checked_wavelength(wavelength_nm: Reals) -> float:
    """Return the wavelength as a float. Raise ConfigError outside the range of the tables."""
    low, high = WAVELENGTHS_NM
    if isinstance(wavelength_nm, (int, float, np.integer, np.floating)) and low <= wavelength_nm <= high:
        return float(wavelength_nm)
    raise ConfigError(f"wavelength_nm: must be from {low:g} to {high:g} nm, got {wavelength_nm!r}")


def water_index(wavelength_nm: float) -> complex:
    """Refractive index n + i k of water, 350 to 2500 nm."""
    w = checked_wavelength(wavelength_nm)
    k = np.exp(np.interp(w, _WATER_K_NM, np.log(_WATER_K)))
    return complex(np.interp(w, _WATER_N_NM, _WATER_N), k)


GREEN_NM = 532.0
"""Wavelength to which attenuation coefficients of natural water refer [nm]: that of bathymetric lidars."""


def absorption_per_m(wavelength_nm: float) -> float:
    """Absorption coefficient of pure water [1/m]: 4 pi k / wavelength."""
    return float(4.0 * np.pi * water_index(wavelength_nm).imag / (wavelength_nm * 1e-9))


def diffuse_attenuation_per_m(at_532_per_m: float, wavelength_nm: float) -> float:
    """Diffuse attenuation coefficient K_d of natural water [1/m], from its value at 532 nm.

    K_d is the absorption of pure water plus a part by dissolved and suspended matter, which is taken as independent of
    wavelength. It is exact at 532 nm; in the blue, where dissolved matter absorbs more, it is a lower bound. Beyond
    700 nm, pure water dominates: 7 m^-1 at 905 nm, 10^3 m^-1 at 1550 nm.
    """
    matter = max(at_532_per_m - absorption_per_m(GREEN_NM), 0.0)
    return at_532_per_m if wavelength_nm == GREEN_NM else matter + absorption_per_m(wavelength_nm)


def mean_square_slope(wind_speed_m_s: float) -> float:
    """Mean square slope of the surface of the sea, both directions together: 0.003 + 0.00512 W, W up to 14 m/s.

    C. Cox, W. Munk, "Measurement of the roughness of the sea surface from photographs of the sun's glitter", J. Opt.
    Soc. Am. 44, 838, 1954, eq. 4, for the wind at 12.5 m height.
    """
    return 0.003 + 0.00512 * wind_speed_m_s


def water_permittivity(frequency_hz: ArrayLike, temperature_k: float = 288.15) -> NDArray[np.complex128]:
    """Complex relative permittivity of fresh water, 0 to 1000 GHz, by two Debye terms (ITU-R P.840-8, eqs. 4 to 11)."""
    ghz = np.asarray(frequency_hz, dtype=np.float64) / 1e9
    theta = 300.0 / temperature_k - 1.0
    static = 77.66 + 103.3 * theta
    middle, fast = 0.0671 * static, 3.52
    first = 20.20 - 146.0 * theta + 316.0 * theta * theta
    second = 39.8 * first
    return np.asarray((static - middle) / (1.0 + 1j * ghz / first) + (middle - fast) / (1.0 + 1j * ghz / second) + fast)
