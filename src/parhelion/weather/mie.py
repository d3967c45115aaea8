"""Light on a sphere of water or ice: how much it takes away, and how much it sends back to a lidar.

Q_back is the usual efficiency of radar: the backscatter cross-section is Q_back pi D^2 / 4, meant for a scatterer that
sends the same to all 4 pi of directions. What goes back for each steradian is therefore D^2 Q_back / 16.

Two averages make Q_back a number that a lidar can use.
- Over sizes: for one exact size it ripples by a factor of ten and more, because light off the front and light off the
  back of the drop interfere, with a period of half a wavelength in D. No two drops of rain agree that closely, so
  values are means over D +-20 % or so, across which nothing else about a drop changes much.
- Over directions: straight back there is a glory, a peak that is only about lambda / D wide. It makes Q_back of a 2 mm
  drop about 6 at 905 nm in that one direction, but 0.2 half a degree away. Drops are seen at about 2 m, and a lens of
  25 mm that begins beside the beam sees them from up to 10 mrad off, so values are means over a cone of that
  half-angle.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.arrays import Reals
from parhelion.core.errors import ConfigError
from parhelion.weather.mie_tables import SHIPPED_NM, Table, shipped

WAVELENGTHS_NM = (350.0, 2500.0)
DIAMETERS_MM = (0.05, 10.0)
USUAL_ACCEPTANCE_MRAD = 10.0

_TABLE_SIZES = 48
_MEAN_OVER = np.array([1.0, 2.0, 3.0, 2.0, 1.0])
"""Weights of the mean over sizes, by steps of the table (11.9 % in D)."""
_ANGLES = 32
_MOST_SIZES, _FEWEST_SIZES = 128, 16
_OPAQUE = 10.0
"""Above this k x nothing of the light inside comes out again: twice through, exp(-8 k x) is left."""
_BLOCKS = (128, 1024)
"""Terms of the series that are summed at once: few enough for memory, enough to make the sums worth their calls."""

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
# Imaginary part: Hale and Querry 1973 up to 675 nm; above, Segelstein 1981, whose steps are fine enough for the bands
# of water at 0.97, 1.45 and 1.94 um.
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
# Warren and Brandt 2008, at -7 C.
_ICE_NM = np.array([
    350, 400, 450, 500, 550, 600, 650, 700, 750, 800, 850, 880, 900, 910, 950, 980, 1000, 1030, 1060, 1090, 1120, 1150,
    1180, 1210, 1250, 1300, 1350, 1390, 1410, 1430, 1449, 1471, 1493, 1515, 1538, 1563, 1587, 1613, 1650, 1700, 1760,
    1830, 1860, 1890, 1923, 1961, 2000, 2041, 2083, 2130, 2190, 2245, 2290, 2350, 2430, 2500,
], dtype=np.float64)  # fmt: skip
_ICE_N = np.array([
    1.3249, 1.3194, 1.3157, 1.3130, 1.3110, 1.3094, 1.3080, 1.3069, 1.3059, 1.3049, 1.3040, 1.3035, 1.3032, 1.3030,
    1.3023, 1.3019, 1.3015, 1.3010, 1.3005, 1.3000, 1.2995, 1.2990, 1.2984, 1.2979, 1.2971, 1.2961, 1.2951, 1.2941,
    1.2937, 1.2931, 1.2927, 1.2921, 1.2918, 1.2914, 1.2909, 1.2903, 1.2897, 1.2890, 1.2879, 1.2863, 1.2843, 1.2816,
    1.2802, 1.2788, 1.2771, 1.2756, 1.2744, 1.2728, 1.2707, 1.2677, 1.2633, 1.2587, 1.2545, 1.2482, 1.2382, 1.2270,
])  # fmt: skip
_ICE_K = np.array([
    2.0e-11, 2.365e-11, 9.239e-11, 5.889e-10, 2.289e-9, 5.730e-9, 1.430e-8, 2.900e-8, 5.870e-8, 1.340e-7, 1.830e-7,
    3.350e-7, 4.200e-7, 4.440e-7, 6.020e-7, 1.120e-6, 1.620e-6, 2.330e-6, 1.960e-6, 1.730e-6, 1.820e-6, 2.290e-6,
    4.770e-6, 8.660e-6, 1.290e-5, 1.320e-5, 1.390e-5, 1.740e-5, 3.442e-5, 1.028e-4, 2.030e-4, 3.987e-4, 5.532e-4,
    5.143e-4, 4.594e-4, 3.858e-4, 3.105e-4, 2.659e-4, 2.361e-4, 1.875e-4, 1.522e-4, 1.302e-4, 1.432e-4, 2.566e-4,
    7.060e-4, 1.442e-3, 1.640e-3, 1.458e-3, 1.023e-3, 5.255e-4, 2.707e-4, 2.026e-4, 2.538e-4, 4.591e-4, 6.259e-4,
    7.530e-4,
])  # fmt: skip


def water_index(wavelength_nm: float) -> complex:
    """Refractive index n + i k of water, 350 to 2500 nm."""
    w = checked_wavelength(wavelength_nm)
    k = np.exp(np.interp(w, _WATER_K_NM, np.log(_WATER_K)))
    return complex(np.interp(w, _WATER_N_NM, _WATER_N), k)


def ice_index(wavelength_nm: float) -> complex:
    """Refractive index n + i k of ice, 350 to 2500 nm."""
    w = checked_wavelength(wavelength_nm)
    return complex(np.interp(w, _ICE_NM, _ICE_N), np.exp(np.interp(w, _ICE_NM, np.log(_ICE_K))))


def checked_wavelength(wavelength_nm: Reals) -> float:
    """The wavelength as a number, or an error that names it."""
    low, high = WAVELENGTHS_NM
    if isinstance(wavelength_nm, (int, float, np.integer, np.floating)) and low <= wavelength_nm <= high:
        return float(wavelength_nm)
    raise ConfigError(f"wavelength_nm: must be from {low:g} to {high:g} nm, got {wavelength_nm!r}")


def size_parameter(diameter_mm: ArrayLike, wavelength_nm: float) -> NDArray[np.float64]:
    """x = pi D / lambda."""
    return np.asarray(diameter_mm, dtype=np.float64) * (np.pi * 1e6 / checked_wavelength(wavelength_nm))


def large_sphere_extinction(diameter_mm: ArrayLike, wavelength_nm: float) -> NDArray[np.float64]:
    """Q_ext of a sphere much larger than the wavelength: 2 + 1.9924 x^(-2/3), whatever it is made of.

    Twice its shadow, and the light that grazes its edge (Nussenzveig and Wiscombe 1980). Within 0.5 % of Mie's mean
    over a band of sizes, and 5 % of a single size, for x > 100; within 1 % of a single size for x > 1000.
    """
    return 2.0 + 1.9924 * size_parameter(diameter_mm, wavelength_nm) ** (-2.0 / 3.0)


def differential_backscatter(diameter_mm: Reals, q_back: Reals) -> Reals:
    """What a sphere sends straight back, D^2 Q_back / 16 [m^2/sr]; arrays of either kind."""
    return diameter_mm * diameter_mm * q_back * (1e-6 / 16.0)


def efficiencies(
    diameter_mm: ArrayLike,
    wavelength_nm: float = 905.0,
    index: complex | None = None,
    acceptance_mrad: float = USUAL_ACCEPTANCE_MRAD,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Q_ext and Q_back of spheres of 0.05 to 10 mm, as means over D +-20 % and over the receiver's cone.

    `index` is n + i k, that of water if left out; `acceptance_mrad` is the half-angle of the cone, 0 for straight back
    alone. From a table of 48 sizes by Mie's series: those of usual lidars come with the package, others are made once,
    in about a second. Q_back carries some 3 % of noise from the ripple that is left. Drops above 1 mm are not quite
    round, which weakens the glory further: there Q_back is an upper bound.
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
    # Below 1.2 the series' upward recurrence would need more terms than it can carry.
    if not (1.2 <= m.real <= 2.5 and 0.0 <= m.imag <= 10.0):
        raise ConfigError(f"index: must be n + i k with n from 1.2 to 2.5 and k from 0 to 10, got {index!r}")
    if not 0.0 <= acceptance_mrad <= 50.0:
        raise ConfigError(f"acceptance_mrad: must be from 0 to 50 mrad, got {acceptance_mrad!r}")
    return wavelength, m, float(acceptance_mrad)


@lru_cache(maxsize=32)
def _table(wavelength_nm: float, index: complex, acceptance_mrad: float) -> Table:
    """ln D, Q_ext and ln Q_back on an even grid of ln D: from the package where it has it, else computed."""
    usual = acceptance_mrad == USUAL_ACCEPTANCE_MRAD and wavelength_nm in SHIPPED_NM
    if usual and index == water_index(wavelength_nm):
        return shipped()[wavelength_nm]
    return computed_table(wavelength_nm, index, acceptance_mrad)


def computed_table(wavelength_nm: float, index: complex, acceptance_mrad: float) -> Table:
    """The same by Mie's series, which takes about a second of one core."""
    centre_mm = np.geomspace(*DIAMETERS_MM, _TABLE_SIZES)
    x = size_parameter(centre_mm, wavelength_nm)
    # Small drops ripple most and cost least; large ones are averaged by the cone as well.
    sizes = np.clip(_MOST_SIZES * np.sqrt(200.0 / x), _FEWEST_SIZES, _MOST_SIZES).astype(int)
    row = np.repeat(np.arange(_TABLE_SIZES), sizes)
    place = np.arange(row.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # Each step has its own offset (golden ratio), so that neighbours do not share their errors.
    spread = (place + row * 0.6180339887 % 1.0) / sizes[row] - 0.5
    step = np.log(centre_mm[1] / centre_mm[0])
    x_all = x[row] * np.exp(step * spread)
    if acceptance_mrad == 0.0:
        angle = np.zeros(1)
    else:  # even in solid angle
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
    # Other machines may end in other bits; rounded far below the noise, tables are the same.
    return np.log(centre_mm), mean_ext.round(6), np.asarray(np.log(mean_back), dtype=np.float64).round(4)


def _smooth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over neighbours; at the ends over those that are there."""
    weights = np.convolve(np.ones_like(values), _MEAN_OVER, "same")
    return np.asarray(np.convolve(values, _MEAN_OVER, "same") / weights, dtype=np.float64)


def mie_series(
    index: complex, x: NDArray[np.float64], angle_rad: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Q_ext (sizes,) and the efficiency (angles, sizes) of scattering into directions `angle_rad` off straight back.

    Mie's series by upward recurrences (Bohren and Huffman 1983, chapter 4), all sizes at once. The second is
    4 (|S_1|^2 + |S_2|^2) / (2 x^2), unpolarised; at angle 0 it is Q_back. `x` ascends, from 50 on, with k x below 14:
    beyond that the logarithmic derivative inside the sphere loses its digits on the way up.
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
        # Sizes whose series has ended leave; the rest stand at the end, because x ascends.
        done = int(np.searchsorted(last[first:], n_0))
        first += done
        derivative, older, newer = derivative[done:], older[done:], newer[done:]
        n = np.arange(n_0, min(n_0 + int(np.clip(n_0 // 4, *_BLOCKS)), end), dtype=np.float64)[:, None]
        n_x, n_z = n / x[first:], n / z[first:]
        inside, outside = np.empty_like(n_z), np.empty((n.size + 1, x.size - first), complex)
        pi = np.empty((n.size + 1, mu.size))
        outside[0], pi[0] = newer, pi_older
        climb, turn = 2.0 * n_x - 1.0 / x[first:], (2.0 + 1.0 / n) * mu
        for i in range(n.size):
            np.reciprocal(n_z[i] - derivative, out=inside[i])
            inside[i] -= n_z[i]
            derivative = inside[i]
            np.multiply(climb[i], newer, out=outside[i + 1])
            outside[i + 1] -= older
            older, newer = newer, outside[i + 1]
            pi[i + 1] = pi_newer
            pi_older, pi_newer = pi_newer, turn[i] * pi_newer - (1.0 + 1.0 / (n_0 + i)) * pi_older
        pi, tau = pi[1:], n * mu * pi[1:] - (n + 1.0) * pi[:-1]
        before, now = outside[:-1], outside[1:]
        electric, magnetic = inside / m + n_x, inside * m + n_x
        a = (electric * now.real - before.real) / (electric * now - before)
        b = (magnetic * now.real - before.real) / (magnetic * now - before)
        weight = np.where(n <= last[first:], 2.0 * n + 1.0, 0.0)
        q_ext[first:] += np.sum(weight * (a + b).real, axis=0)
        weight /= n * (n + 1.0)
        # S_1 + S_2 and S_1 - S_2 need one product each; complex columns are multiplied as pairs of real ones. einsum
        # keeps to one thread, in which such thin products are fastest and always end in the same bits.
        for total, angular, terms in ((both, pi + tau, a + b), (differ, pi - tau, a - b)):
            part = np.einsum("na,ns->as", angular, (weight * terms).view(np.float64))
            total[:, first:] += part.view(complex)
        n_0 += n.size
    return 2.0 * q_ext / x**2, (np.abs(both) ** 2 + np.abs(differ) ** 2) / x**2
