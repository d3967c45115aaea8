"""The droplets of fog, and the lidar ratio that they have: extinction over backscatter.

Four spectra of fog droplets (Shettle and Fenn 1979, as in MODTRAN) are modified gamma laws over radius r [um],
n(r) ~ r^a exp(-b r): heavy and moderate advection fog (sea fog, modes at 10 and 8 um), heavy and moderate radiation fog
(modes at 4 and 2 um). Mie's series over each gives the lidar ratio

    S = 4 pi  integral Q_ext r^2 n dr / integral Q_back r^2 n dr    [sr].

The mean over the four is 17 to 20 sr in the near infrared. Clouds of water droplets, the same thing higher up, are
measured at 18 to 19 sr (O'Connor et al. 2004; Pinnick et al. 1983). Hahner et al. 2021 take a backscatter that stands
for 65 sr, the lidar ratio of dry aerosol: that is too dark by a factor of 3.5.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from parhelion.weather.mie import checked_wavelength, water_index

SPECTRA: dict[str, tuple[float, float]] = {
    "heavy advection": (3.0, 0.3),
    "moderate advection": (3.0, 0.375),
    "heavy radiation": (6.0, 1.5),
    "moderate radiation": (6.0, 3.0),
}
"""Exponent a and slope b [1/um] of each spectrum of droplets (Shettle and Fenn 1979)."""

_RADII_UM = (0.05, 80.0)
_SIZES = 4000


def fog_lidar_ratio(wavelength_nm: float) -> float:
    """Extinction over backscatter [sr] of fog: the mean over four spectra of droplets. Valid for 350 to 2500 nm."""
    return float(np.mean([lidar_ratio(name, wavelength_nm) for name in SPECTRA]))


@lru_cache(maxsize=64)
def lidar_ratio(spectrum: str, wavelength_nm: float) -> float:
    """Extinction over backscatter [sr] of one of `SPECTRA`."""
    a, b = SPECTRA[spectrum]
    radius, q_ext, q_back = _droplets(checked_wavelength(wavelength_nm))
    # The steps are even in ln r, so that dr is r d(ln r).
    weight = radius**3 * radius**a * np.exp(-b * radius)
    return float(4.0 * np.pi * np.sum(weight * q_ext) / np.sum(weight * q_back))


@lru_cache(maxsize=8)
def _droplets(wavelength_nm: float) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    radius = np.geomspace(*_RADII_UM, _SIZES)
    return (radius, *droplet_efficiencies(2.0 * np.pi * radius * 1e3 / wavelength_nm, water_index(wavelength_nm)))


def droplet_efficiencies(x: NDArray[np.float64], index: complex) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Q_ext and Q_back of spheres of size parameters x, which ascend, from 0.01 to 2000.

    Mie's series with the logarithmic derivative inside the sphere by downward recurrence, which holds for small spheres
    where the upward one of `mie.mie_series` does not (Bohren and Huffman 1983, appendix A).
    """
    terms = np.ceil(x + 4.05 * np.cbrt(x) + 2.0)
    last = int(terms[-1])
    inside = np.zeros((last + 1, x.size), complex)
    # It settles within some terms, wherever it starts beyond |m| x.
    for n in range(max(last, int(abs(index) * x[-1])) + 32, last, -1):
        ratio = n / (index * x)
        inside[last] = ratio - 1.0 / (inside[last] + ratio)
    for n in range(last, 0, -1):
        ratio = n / (index * x)
        inside[n - 1] = ratio - 1.0 / (inside[n] + ratio)
    psi_older, psi, chi_older, chi = np.cos(x), np.sin(x), -np.sin(x), np.cos(x)
    q_ext, back = np.zeros_like(x), np.zeros(x.size, complex)
    for n in range(1, last + 1):
        climb = (2.0 * n - 1.0) / x
        active = n <= terms
        # Behind its last term a small sphere's chi overflows; it is no longer used there.
        psi_older, psi = psi, np.where(active, climb * psi - psi_older, 0.0)
        chi_older, chi = chi, np.where(active, climb * chi - chi_older, 1.0)
        xi, xi_older = psi - 1j * chi, psi_older - 1j * chi_older
        electric, magnetic = inside[n] / index + n / x, inside[n] * index + n / x
        a = (electric * psi - psi_older) / (electric * xi - xi_older)
        b = (magnetic * psi - psi_older) / (magnetic * xi - xi_older)
        q_ext += np.where(active, (2.0 * n + 1.0) * (a + b).real, 0.0)
        back += np.where(active, (2.0 * n + 1.0) * (-1.0) ** n * (a - b), 0.0)
    return 2.0 * q_ext / x**2, np.abs(back) ** 2 / x**2
