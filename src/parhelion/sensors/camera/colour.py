"""From the bands of a sensor to the colours of a screen: the colour matrix that every colour camera has.

The matrix is fitted to the spectra of the material library in daylight: what the sensor reads of them, white balanced,
against their colours as the eye sees them. Grey stays grey.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from parhelion.surfaces import library
from parhelion.surfaces.bands import Band
from parhelion.surfaces.photometry import planck_radiance

_GRID_NM = np.arange(380.0, 781.0, 5.0)
_DAYLIGHT_K = 5800.0
_SRGB_OF_XYZ = np.array([[3.2406, -1.5372, -0.4986], [-0.9689, 1.8758, 0.0415], [0.0557, -0.2040, 1.0570]])
"""Linear sRGB of CIE XYZ (IEC 61966-2-1)."""


def eye_responses(wavelength_nm: NDArray[np.float64]) -> NDArray[np.float64]:
    """Colour matching functions x, y, z of the CIE 1931 observer, shape (3, n).

    By the sums of Gaussians of Wyman, Sloan and Shirley 2013 (JCGT 2.2), within 1 % of the tables' peaks.
    """

    def lobe(height: float, middle: float, left: float, right: float) -> NDArray[np.float64]:
        width = np.where(wavelength_nm < middle, left, right)
        return np.asarray(height * np.exp(-0.5 * ((wavelength_nm - middle) / width) ** 2))

    x = lobe(1.056, 599.8, 37.9, 31.0) + lobe(0.362, 442.0, 16.0, 26.7) - lobe(0.065, 501.1, 20.4, 26.2)
    y = lobe(0.821, 568.8, 46.9, 40.5) + lobe(0.286, 530.9, 16.3, 31.1)
    z = lobe(1.217, 437.0, 11.8, 36.0) + lobe(0.681, 459.0, 26.0, 13.8)
    return np.stack([x, y, z])


@lru_cache(maxsize=16)
def colour_matrix(bands: tuple[Band, ...]) -> tuple[tuple[float, ...], ...] | None:
    """Linear sRGB of a white-balanced reading of three bands; None for any other number of bands.

    Each row sums to 1, so that greys stay as they are.
    """
    if len(bands) != 3:
        return None
    daylight = planck_radiance(_GRID_NM, _DAYLIGHT_K)
    spectra = []
    for name in library.material_names():
        spectrum = library.material(name).spectrum
        spectra.append(np.interp(_GRID_NM * 1e-3, spectrum.wavelength_um, spectrum.reflectance))
    reflectance = np.array(spectra)
    # Sensors count photons, of which a watt holds more at longer waves.
    read = np.stack([np.interp(_GRID_NM, b.wavelength_nm, b.response, left=0, right=0) * _GRID_NM for b in bands])
    seen = _SRGB_OF_XYZ @ eye_responses(_GRID_NM)
    raw = (reflectance * daylight) @ read.T / (daylight @ read.T)
    wanted = (reflectance * daylight) @ seen.T / (daylight @ seen.T)
    # With the sum of a row held at 1, the last column follows from the others.
    differences, rest = raw[:, :2] - raw[:, 2:], wanted - raw[:, 2:]
    found, *_ = np.linalg.lstsq(differences, rest, rcond=None)
    matrix = np.vstack([found, 1.0 - found.sum(axis=0)]).T
    return tuple(tuple(float(v) for v in row) for row in matrix)
