"""What the air itself does to a picture: extinction by air and haze, and the light that it scatters to the camera.

Over a path of length d with extinction b a surface's radiance L becomes L exp(-b d) + A (1 - exp(-b d)): Koschmieder's
law, with the air light A of `air_light`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import ConfigError
from parhelion.sensors.light.bird import haze_optical_depth
from parhelion.sensors.light.sky import SkyLight, solid_angles
from parhelion.surfaces.bands import Band

Floats = NDArray[np.float64]

HAZE_SCALE_HEIGHT_M = 1250.0
"""Over this height haze falls to 1/e: a column's optical depth over it is the extinction at the ground."""
HAZE_ASYMMETRY = 0.65
"""Mean cosine of scattering by rural aerosol (Bird and Riordan 1984)."""
CONTRAST_LOG = float(-np.log(0.02))
"""Koschmieder: at the visibility a black object's contrast is 2 %."""
MOLECULES_PER_M3 = 2.547e25
"""Of air at 15 C and 1013 hPa."""
_DEPOLARISATION = 0.035


def refractive_index(wavelength_nm: ArrayLike) -> Floats:
    """Of dry air at 15 C and 1013 hPa, by Peck and Reeder 1972; 230 to 1690 nm, and little different beyond."""
    wavenumber2 = (1e3 / np.asarray(wavelength_nm, dtype=np.float64)) ** 2
    return np.asarray(1.0 + 1e-8 * (8060.51 + 2480990.0 / (132.274 - wavenumber2) + 17455.7 / (39.32957 - wavenumber2)))


def rayleigh_extinction(wavelength_nm: ArrayLike) -> Floats:
    """Extinction by the air's molecules at the ground [1/m]: 8 pi^3 (n^2 - 1)^2 / (3 N l^4) (6 + 3 p) / (6 - 7 p).

    p = 0.035 is the depolarisation. 1.16e-5 /m at 550 nm. (VANE prints 8 pi for 8 pi^3.)
    """
    metres = np.asarray(wavelength_nm, dtype=np.float64) * 1e-9
    excess = refractive_index(wavelength_nm) ** 2 - 1.0
    king = (6.0 + 3.0 * _DEPOLARISATION) / (6.0 - 7.0 * _DEPOLARISATION)
    return 8.0 * np.pi**3 * excess**2 / (3.0 * MOLECULES_PER_M3 * metres**4) * king


def haze_extinction(turbidity: float, wavelength_nm: ArrayLike) -> Floats:
    """Extinction by haze at the ground [1/m]: Angstrom's optical depth of the column over its scale height, 1.25 km."""
    return haze_optical_depth(turbidity, np.asarray(wavelength_nm, dtype=np.float64)) / HAZE_SCALE_HEIGHT_M


def clear_air_extinction(bands: Sequence[Band], turbidity: float) -> tuple[Floats, Floats]:
    """Mean extinction in each band [1/m] by molecules and by haze, shape (bands,) each."""
    rows = []
    for band in bands:
        grid = np.linspace(*band.range_nm, 201)
        rows.append([band.mean(grid, rayleigh_extinction(grid)), band.mean(grid, haze_extinction(turbidity, grid))])
    molecules, haze = np.array(rows, dtype=np.float64).T
    return molecules, haze


def visibility_of_turbidity(turbidity: float) -> float:
    """Meteorological visibility [m] at 550 nm of air with this turbidity: 3.912 over its extinction."""
    return CONTRAST_LOG / float(rayleigh_extinction(550.0) + haze_extinction(turbidity, 550.0))


def turbidity_of_visibility(visibility_m: float) -> float:
    """Turbidity, from 1 to 10, whose haze gives this visibility [m] at 550 nm; thicker air than 10 (5.3 km) is 10.

    The column's optical depth is the extinction at the ground times 1.25 km, and Angstrom's coefficient at 1 um is
    0.04608 T - 0.04856.
    """
    if not visibility_m > 0.0:
        raise ConfigError(f"light: visibility must be above 0 m, got {visibility_m:g}")
    haze = max(CONTRAST_LOG / visibility_m - float(rayleigh_extinction(550.0)), 0.0)
    per_beta = float(haze_extinction(10.0, 550.0)) / (0.04608 * 10.0 - 0.04856)
    return float(np.clip((haze / per_beta + 0.04856) / 0.04608, 1.0, 10.0))


def henyey_greenstein(cosine: ArrayLike, g: float) -> Floats:
    """Phase function [1/sr] of the cosine of the scattering angle, with mean cosine g; its integral is 1."""
    if not -1.0 < g < 1.0:
        raise ConfigError(f"light: the asymmetry of scattering must be between -1 and 1, got {g:g}")
    turned = 1.0 + g * g - 2.0 * g * np.asarray(cosine, dtype=np.float64)
    return np.asarray((1.0 - g * g) / (4.0 * np.pi * turned**1.5))


def rayleigh_phase(cosine: ArrayLike) -> Floats:
    """Phase function of molecules [1/sr]: 3 / (16 pi) (1 + cos^2); its integral is 1."""
    return np.asarray(3.0 / (16.0 * np.pi) * (1.0 + np.asarray(cosine, dtype=np.float64) ** 2))


def air_light(
    sky: SkyLight, directions: ArrayLike, g: float = HAZE_ASYMMETRY, *, rayleigh_share: ArrayLike = 0.0
) -> Floats:
    """Radiance [W/(m^2 sr)] of an endless path through scatterers, seen along unit vectors (n, 3): (n, bands).

    Single scattering of the sun's beam, plus the mean radiance of sky and ground from all around. Scatterers absorb
    nothing. `rayleigh_share` is the molecules' share of the extinction, one number or one a band.
    """
    view = np.asarray(directions, dtype=np.float64)
    cosine = view @ sky.sun_direction
    share = np.asarray(rayleigh_share, dtype=np.float64)
    phase = (1.0 - share) * henyey_greenstein(cosine, g)[:, None] + share * rayleigh_phase(cosine)[:, None]
    return phase * sky.sun_irradiance + mean_radiance(sky)


def mean_radiance(sky: SkyLight) -> Floats:
    """Mean over all directions of the light of sky and ground, without the sun [W/(m^2 sr)], shape (bands,)."""
    angles = solid_angles(*sky.radiance.shape[:2])
    return np.tensordot(angles, sky.radiance.astype(np.float64), axes=2) / (4.0 * np.pi)
