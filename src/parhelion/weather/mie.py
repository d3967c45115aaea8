"""Mie scattering of water and ice spheres: extinction, and backscatter into the receiver of a lidar.

Q_back is the radar efficiency: the backscatter cross-section is Q_back pi D^2 / 4, defined for an isotropic scatterer
(4 pi sr). The differential backscatter is therefore D^2 Q_back / 16 per steradian.

Two averages make Q_back usable for a lidar.
- Over sizes: for one exact size, Q_back ripples by a factor of ten and more, because light from the front and the back
  of the drop interferes, with a period of half a wavelength in D. No two raindrops agree that closely, so values are
  means over about D +-20 %, within which the other properties of a drop change little.
- Over directions: the glory, a peak only about lambda / D wide, raises Q_back of a 2 mm drop to about 6 at 905 nm in
  the exact backward direction, but to only 0.2 half a degree away. Drops are detected at about 2 m, and a 25 mm lens
  next to the beam sees them from up to 10 mrad off axis, so values are means over a cone of that half-angle.

Tables for common lidar wavelengths ship with the package. `computed_table` takes about a second of one core, and every
process that simulates rain needs a table. The shipped file holds the values of `computed_table`, digit for digit; a
test computes them again. This command writes the file:

    python -m parhelion.weather.mie
"""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.arrays import Reals
from parhelion.core.errors import ConfigError
from parhelion.core.water import checked_wavelength, water_index

DIAMETERS_MM = (0.05, 10.0)
DEFAULT_ACCEPTANCE_MRAD = 10.0

_TABLE_SIZES = 48
_MEAN_OVER = np.array([1.0, 2.0, 3.0, 2.0, 1.0])
"""Weights of the mean over sizes, by steps of the table (11.9 % in D)."""
_ANGLES = 32
_MOST_SIZES, _FEWEST_SIZES = 128, 16
_OPAQUE = 10.0
"""Value of k x above which no light leaves the sphere again: exp(-8 k x) remains after two passes."""
_BLOCKS = (128, 1024)
"""Smallest and largest number of terms of the series summed per call, a compromise of memory and call overhead."""


def size_parameter(diameter_mm: ArrayLike, wavelength_nm: float) -> NDArray[np.float64]:
    """Size parameter x = pi D / lambda."""
    return np.asarray(diameter_mm, dtype=np.float64) * (np.pi * 1e6 / checked_wavelength(wavelength_nm))


def large_sphere_extinction(diameter_mm: ArrayLike, wavelength_nm: float) -> NDArray[np.float64]:
    """Q_ext of a sphere much larger than the wavelength: 2 + 1.9924 x^(-2/3), for any material.

    Twice the geometric shadow plus the edge term (Nussenzveig and Wiscombe 1980). For x > 100, within 0.5 % of the Mie
    mean over a band of sizes and within 5 % of a single size; for x > 1000, within 1 % of a single size.
    """
    return 2.0 + 1.9924 * size_parameter(diameter_mm, wavelength_nm) ** (-2.0 / 3.0)


def differential_backscatter(diameter_mm: Reals, q_back: Reals) -> Reals:
    """Differential backscatter of a sphere, D^2 Q_back / 16 [m^2/sr]; NumPy or Dr.Jit arrays."""
    return diameter_mm * diameter_mm * q_back * (1e-6 / 16.0)


def efficiencies(
    diameter_mm: ArrayLike,
    wavelength_nm: float = 905.0,
    index: complex | None = None,
    acceptance_mrad: float = DEFAULT_ACCEPTANCE_MRAD,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Q_ext and Q_back of spheres of 0.05 to 10 mm, as means over D +-20 % and over the receiver's cone.

    `index` is n + i k, by default that of water; `acceptance_mrad` is the half-angle of the cone, 0 for the exact
    backward direction. Values are interpolated in a table of 48 sizes from Mie's series. Tables of common wavelengths
    ship with the package; others are computed once, in about a second. Q_back has about 3 % of residual ripple. Drops
    above 1 mm are oblate, which weakens the glory further: there, Q_back is an upper bound.
    """
    d = np.asarray(diameter_mm, dtype=np.float64)
    low, high = DIAMETERS_MM
    if not np.all((d >= low) & (d <= high)):
        worst = d[~((d >= low) & (d <= high))].flat[0]
        raise ConfigError(f"diameter_mm: must be from {low:g} to {high:g} mm, got {worst:g}")
    log_d, q_ext, log_q_back = _table(*_checked_case(wavelength_nm, index, acceptance_mrad))
    at = np.log(d)
    return np.interp(at, log_d, q_ext), np.exp(np.interp(at, log_d, log_q_back))


def _checked_case(wavelength_nm: float, index: complex | None, acceptance_mrad: float) -> tuple[float, complex, float]:
    wavelength = checked_wavelength(wavelength_nm)
    m = water_index(wavelength) if index is None else complex(index)
    # Below 1.2, the upward recurrence of the series is unstable for the number of terms needed.
    if not (1.2 <= m.real <= 2.5 and 0.0 <= m.imag <= 10.0):
        raise ConfigError(f"index: must be n + i k with n from 1.2 to 2.5 and k from 0 to 10, got {index!r}")
    if not 0.0 <= acceptance_mrad <= 50.0:
        raise ConfigError(f"acceptance_mrad: must be from 0 to 50 mrad, got {acceptance_mrad!r}")
    return wavelength, m, float(acceptance_mrad)


@lru_cache(maxsize=32)
def _table(wavelength_nm: float, index: complex, acceptance_mrad: float) -> Table:
    """ln D, Q_ext and ln Q_back on a regular grid of ln D, shipped with the package or computed."""
    is_shipped = acceptance_mrad == DEFAULT_ACCEPTANCE_MRAD and wavelength_nm in SHIPPED_NM
    if is_shipped and index == water_index(wavelength_nm):
        return shipped()[wavelength_nm]
    return computed_table(wavelength_nm, index, acceptance_mrad)


def computed_table(wavelength_nm: float, index: complex, acceptance_mrad: float) -> Table:
    """Compute a table by Mie's series, which takes about a second of one core."""
    centre_mm = np.geomspace(*DIAMETERS_MM, _TABLE_SIZES)
    x = size_parameter(centre_mm, wavelength_nm)
    # Small drops have the strongest ripple and the lowest cost; large ones are averaged by the cone as well.
    sizes = np.clip(_MOST_SIZES * np.sqrt(200.0 / x), _FEWEST_SIZES, _MOST_SIZES).astype(int)
    row = np.repeat(np.arange(_TABLE_SIZES), sizes)
    place = np.arange(row.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # Each step has a different offset (golden ratio), so that the errors of neighbours are independent.
    spread = (place + row * 0.6180339887 % 1.0) / sizes[row] - 0.5
    step = np.log(centre_mm[1] / centre_mm[0])
    x_all = x[row] * np.exp(step * spread)
    if acceptance_mrad == 0.0:
        angle = np.zeros(1)
    else:  # uniform in solid angle
        angle = acceptance_mrad * 1e-3 * np.sqrt((np.arange(_ANGLES) + 0.5) / _ANGLES)
    q_ext, q_back = np.empty_like(x_all), np.empty_like(x_all)
    opaque = index.imag * x_all > _OPAQUE
    q_ext[opaque] = 2.0 + 1.9924 * x_all[opaque] ** (-2.0 / 3.0)
    q_back[opaque] = abs((index - 1.0) / (index + 1.0)) ** 2
    clear = np.flatnonzero(~opaque)
    order = clear[np.argsort(x_all[clear])]
    if order.size:
        extinction, towards = mie_series(index, x_all[order], angle)
        q_ext[order], q_back[order] = extinction, towards.mean(axis=0)
    mean_ext, mean_back = (_smooth(np.bincount(row, q, _TABLE_SIZES) / sizes) for q in (q_ext, q_back))
    # Machines may differ in the last bits; rounding far below the ripple makes the tables identical.
    return np.log(centre_mm), mean_ext.round(6), np.asarray(np.log(mean_back), dtype=np.float64).round(4)


def _smooth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted mean over neighbours, truncated at the ends."""
    weights = np.convolve(np.ones_like(values), _MEAN_OVER, "same")
    return np.asarray(np.convolve(values, _MEAN_OVER, "same") / weights, dtype=np.float64)


def mie_series(
    index: complex, x: NDArray[np.float64], angle_rad: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Q_ext (sizes,) and the efficiency (angles, sizes) of scattering at `angle_rad` from the backward direction.

    Mie's series by upward recurrences (Bohren and Huffman 1983, chapter 4), all sizes at once. The second result is
    4 (|S_1|^2 + |S_2|^2) / (2 x^2), unpolarised; at angle 0 it is Q_back. `x` must increase, start at 50 or more, and
    have k x below 14: beyond that, the upward recurrence of the logarithmic derivative loses its precision.
    """
    m = complex(index)
    last = np.ceil(x + 4.05 * np.cbrt(x) + 2.0).astype(int)
    z = m * x
    derivative = np.cos(z) / np.sin(z)
    # psi_n - i chi_n for n = -1 and 0.
    older, newer = np.cos(x) + 1j * np.sin(x), np.sin(x) - 1j * np.cos(x)
    mu = -np.cos(angle_rad)
    pi_older, pi_newer = np.zeros_like(mu), np.ones_like(mu)
    both = np.zeros((mu.size, x.size), complex)
    differ = np.zeros_like(both)
    q_ext = np.zeros_like(x)
    first = 0
    n_0, end = 1, int(last[-1]) + 1
    while n_0 < end:
        # Drop the sizes whose series has converged; they come first, because x increases.
        done = int(np.searchsorted(last[first:], n_0))
        first += done
        derivative, older, newer = derivative[done:], older[done:], newer[done:]
        n = np.arange(n_0, min(n_0 + int(np.clip(n_0 // 4, *_BLOCKS)), end), dtype=np.float64)[:, None]
        n_x, n_z = n / x[first:], n / z[first:]
        inside, outside = np.empty_like(n_z), np.empty((n.size + 1, x.size - first), complex)
        pi = np.empty((n.size + 1, mu.size))
        outside[0], pi[0] = newer, pi_older
        climb, angular_step = 2.0 * n_x - 1.0 / x[first:], (2.0 + 1.0 / n) * mu
        for i in range(n.size):
            np.reciprocal(n_z[i] - derivative, out=inside[i])
            inside[i] -= n_z[i]
            derivative = inside[i]
            np.multiply(climb[i], newer, out=outside[i + 1])
            outside[i + 1] -= older
            older, newer = newer, outside[i + 1]
            pi[i + 1] = pi_newer
            pi_older, pi_newer = pi_newer, angular_step[i] * pi_newer - (1.0 + 1.0 / (n_0 + i)) * pi_older
        pi, tau = pi[1:], n * mu * pi[1:] - (n + 1.0) * pi[:-1]
        before, now = outside[:-1], outside[1:]
        electric, magnetic = inside / m + n_x, inside * m + n_x
        a = (electric * now.real - before.real) / (electric * now - before)
        b = (magnetic * now.real - before.real) / (magnetic * now - before)
        weight = np.where(n <= last[first:], 2.0 * n + 1.0, 0.0)
        q_ext[first:] += np.sum(weight * (a + b).real, axis=0)
        weight /= n * (n + 1.0)
        # S_1 + S_2 and S_1 - S_2 need one product each; complex columns are multiplied as pairs of real ones. einsum
        # runs in one thread, which is fastest for such thin products and reproducible bit for bit.
        for total, angular, terms in ((both, pi + tau, a + b), (differ, pi - tau, a - b)):
            part = np.einsum("na,ns->as", angular, (weight * terms).view(np.float64))
            total[:, first:] += part.view(complex)
        n_0 += n.size
    return 2.0 * q_ext / x**2, (np.abs(both) ** 2 + np.abs(differ) ** 2) / x**2


SHIPPED_NM = (532.0, 785.0, 865.0, 903.0, 905.0, 1064.0, 1550.0)
FILE = Path(__file__).with_name("data") / "mie-water.csv"
Table = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


@cache
def shipped() -> dict[float, Table]:
    """Tables by wavelength [nm]: ln D (D in mm), Q_ext and ln Q_back of water at the default acceptance."""
    rows = np.loadtxt(FILE, delimiter=",", comments="#")
    found = {}
    for wavelength in SHIPPED_NM:
        part = rows[rows[:, 0] == wavelength]
        found[wavelength] = (part[:, 1], part[:, 2], part[:, 3])
    return found


def _write() -> None:
    lines = [
        "# Water spheres, means over sizes and over a cone of 10 mrad: made by python -m parhelion.weather.mie.",
        "# Refractive index: Hale and Querry 1973, Segelstein 1981.",
        "# wavelength [nm], ln(D / mm), Q_ext, ln Q_back",
    ]
    for wavelength in SHIPPED_NM:
        columns = computed_table(wavelength, water_index(wavelength), DEFAULT_ACCEPTANCE_MRAD)
        lines += [
            f"{wavelength:g},{d!r},{q:.6f},{b:.4f}" for d, q, b in zip(*(c.tolist() for c in columns), strict=True)
        ]
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write()
