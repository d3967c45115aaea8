"""Bird's simple spectral model: direct and diffuse irradiance of the clear sky from 300 to 4000 nm.

Bird and Riordan 1984 (SERI/TR-215-2436), in the form of its later program spectrl2_2.c, as `pvlib.spectrum.spectrl2`
has it too. Equation numbers are the report's. The model was fitted to air masses up to about 5 (sun above 11 degrees);
below it is used on as it is, down to 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DATA = Path(__file__).parent / "data" / "bird-riordan-1984.csv"
ANGSTROM_EXPONENT = 1.3
"""Of haze, the same that Preetham, Shirley and Smits (1999) take for their turbidity."""
WATER_VAPOUR_CM = 1.42
OZONE_CM = 0.344
"""Precipitable water and ozone of the U.S. standard atmosphere (ASTM G173)."""

_ALBEDO_400, _ALBEDO_VARIATION, _ASYMMETRY = 0.945, 0.095, 0.65
"""Single-scattering albedo of rural aerosol at 400 nm, how it falls with wavelength, and its asymmetry (report)."""
_OZONE_HEIGHT = 22.0 / 6370.0
_DIFFUSE_MASS = 1.8
"""Air mass of light that comes from all directions."""


@dataclass(frozen=True, eq=False)
class ClearSpectrum:
    """Spectral irradiance at the ground under a clear sky."""

    wavelength_nm: Floats
    """Shape (122,)."""
    direct: Floats
    """Normal to the beam [W/(m^2 nm)], shape (122,)."""
    diffuse: Floats
    """Of the sky on level ground, the ground's light that the sky sends back included [W/(m^2 nm)], shape (122,)."""


@lru_cache(maxsize=1)
def _table() -> Floats:
    table = np.loadtxt(DATA, delimiter=",", skiprows=4).T
    table.setflags(write=False)
    return table


def solar_spectrum() -> tuple[Floats, Floats]:
    """Wavelengths [nm] and the sun's irradiance above the air at the mean distance [W/(m^2 nm)], 122 each."""
    return _table()[0], _table()[1]


def air_mass(elevation_rad: float) -> float:
    """Relative optical air mass by Kasten and Young 1989: 1 at the zenith, 38 at the horizon."""
    degrees = max(float(np.degrees(elevation_rad)), 0.0)
    return float(1.0 / (np.sin(np.radians(degrees)) + 0.50572 * (degrees + 6.07995) ** -1.6364))


def haze_optical_depth(turbidity: float, wavelength_nm: Floats | float) -> Floats:
    """Vertical optical depth of haze: Angstrom's (0.04608 T - 0.04856) (lambda / 1 um)^-1.3, not below 0.

    Preetham, Shirley and Smits 1999 (appendix 1), for turbidities of about 1.1 to 10.
    """
    beta = max(0.04608 * turbidity - 0.04856, 0.0)
    return np.asarray(beta * (np.asarray(wavelength_nm) * 1e-3) ** -ANGSTROM_EXPONENT)


def clear_spectrum(
    elevation_rad: float,
    turbidity: float,
    *,
    ground_albedo: float = 0.2,
    distance_factor: float = 1.0,
    water_vapour_cm: float = WATER_VAPOUR_CM,
    ozone_cm: float = OZONE_CM,
) -> ClearSpectrum:
    """Direct and diffuse spectral irradiance at sea level; `elevation_rad` is the sun's, from 0 to pi/2.

    `distance_factor` is the square of the mean over the actual distance to the sun (0.967 to 1.034).
    """
    wavelength, above, vapour, ozone, gas = _table()
    micron = wavelength * 1e-3
    cosine = float(np.sin(elevation_rad))
    haze = haze_optical_depth(turbidity, wavelength)
    scattered = _ALBEDO_400 * np.exp(-_ALBEDO_VARIATION * np.log(wavelength / 400.0) ** 2)  # 3-16
    rayleigh = 1.0 / (micron**4 * (115.6406 - 1.3366 / micron**2))  # 2-4
    ozone_mass = (1.0 + _OZONE_HEIGHT) / np.sqrt(cosine**2 + 2.0 * _OZONE_HEIGHT)  # 2-10
    through_ozone = np.exp(-ozone * ozone_cm * ozone_mass)  # 2-9

    def losses(mass: float) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Transmittances: air, water vapour, mixed gases, haze by scattering, haze by absorption."""
        water, mixed = vapour * water_vapour_cm * mass, gas * mass
        return (
            np.exp(-rayleigh * mass),
            np.exp(-0.2385 * water / (1.0 + 20.07 * water) ** 0.45),  # 2-8
            np.exp(-1.41 * mixed / (1.0 + 118.3 * mixed) ** 0.45),  # 2-11
            np.exp(-scattered * haze * mass),  # 3-9
            np.exp(-(1.0 - scattered) * haze * mass),  # 3-10
        )

    air, water, mixed, spread, absorbed = losses(air_mass(elevation_rad))
    kept = above * distance_factor * through_ozone * water * mixed * absorbed
    direct = kept * air * spread  # 2-1

    log = np.log(1.0 - _ASYMMETRY)  # 3-14
    a = log * (1.459 + log * (0.1595 + log * 0.4129))  # 3-12
    b = log * (0.0783 + log * (-0.3824 - log * 0.5874))  # 3-13
    forward = 1.0 - 0.5 * np.exp((a + b * cosine) * cosine)  # 3-11
    forward_diffuse = 1.0 - 0.5 * np.exp((a + b / _DIFFUSE_MASS) / _DIFFUSE_MASS)  # 3-15
    by_air = 0.5 * kept * cosine * (1.0 - air**0.95)  # 3-5
    by_haze = kept * cosine * air**1.5 * (1.0 - spread) * forward  # 3-6

    air_d, water_d, mixed_d, spread_d, absorbed_d = losses(_DIFFUSE_MASS)
    back = mixed_d * water_d * absorbed_d * (0.5 * (1.0 - air_d) + (1.0 - forward_diffuse) * air_d * (1.0 - spread_d))
    ground = (direct * cosine + by_air + by_haze) * back * ground_albedo / (1.0 - back * ground_albedo)  # 3-7, 3-8
    short = np.where(wavelength <= 450.0, ((wavelength + 550.0) * 1e-3) ** 1.8, 1.0)  # 3-17
    return ClearSpectrum(wavelength, direct, (by_air + by_haze + ground) * short)
