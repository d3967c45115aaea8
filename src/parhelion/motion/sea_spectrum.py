"""Linear wind waves: dispersion, spectra by fetch and depth, and random components with such a spectrum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.constants import STANDARD_GRAVITY_M_S2
from parhelion.core.pose import Floats
from parhelion.core.random import Stream, to_unit

GRAVITY_M_S2 = STANDARD_GRAVITY_M_S2
"""Standard gravity [m/s^2]."""

FULLY_DEVELOPED_FETCH = 2.0e4
"""g F / U^2 beyond which a sea no longer grows: the peak is then at 0.84 g/U (Pierson and Moskowitz 1964)."""

BLOCK = 4000
"""Largest matrix row or block per BLAS call.

For larger ones BLAS uses several threads, whose number changes the order of sums and therefore the last bits.
"""

COMPLEX_WORK = 32_000
"""Largest number of complex multiplications per BLAS call, for the same reason.

On a busy machine, threads that wait for each other also make small products a hundred times slower.
"""

MOST_COMPONENTS = 2000


def dispersion(wave_number_1_m: ArrayLike, depth_m: float = np.inf) -> Floats:
    """Angular frequency [rad/s] of gravity waves: omega^2 = g k tanh(k h) (Airy 1845).

    Valid for waves longer than about 7 cm, where surface tension is negligible.
    """
    k = np.asarray(wave_number_1_m, dtype=np.float64)
    reach = np.tanh(k * depth_m) if np.isfinite(depth_m) else 1.0
    return np.sqrt(GRAVITY_M_S2 * k * reach)


def wave_number(omega_rad_s: ArrayLike, depth_m: float = np.inf) -> Floats:
    """Wave number [1/m] at angular frequency omega > 0 [rad/s]: the inverse of `dispersion`, to rounding."""
    omega = np.asarray(omega_rad_s, dtype=np.float64)
    deep = omega**2 / GRAVITY_M_S2
    if not np.isfinite(depth_m):
        return deep
    x = deep * depth_m  # solves y tanh(y) = x; the start is within 5 % everywhere (Eckart 1952)
    y = x / np.sqrt(np.tanh(x))
    for _ in range(6):
        th = np.tanh(y)
        y = y - (y * th - x) / (th + y * (1.0 - th * th))
    return y / depth_m


def jonswap(
    omega_rad_s: ArrayLike, wind_speed_m_s: float, fetch_m: float, depth_m: float = np.inf, peak_factor: float = 3.3
) -> Floats:
    """Spectral density S(omega) [m^2 s/rad] of the surface height under a steady wind (Hasselmann et al. 1973).

    S = alpha g^2 omega^-5 exp(-5/4 (omega_p/omega)^4) gamma^r,  r = exp(-(omega - omega_p)^2 / (2 s^2 omega_p^2)),
    s = 0.07 below the peak and 0.09 above, alpha = 0.076 X^-0.22, omega_p = 22 (g/U) X^-0.33, X = g F / U^2.
    In finite depth, S is multiplied by tanh^2(kh) / (1 + 2kh / sinh 2kh) (TMA, Bouws et al. 1985).
    The fetch is limited to that of the fully developed sea. Fitted at X from 100 to 10 000.
    """
    omega = np.asarray(omega_rad_s, dtype=np.float64)
    alpha, peak = jonswap_scales(wind_speed_m_s, fetch_m)
    width = np.where(omega <= peak, 0.07, 0.09)
    bump = np.exp(-((omega - peak) ** 2) / (2.0 * (width * peak) ** 2))
    tail = alpha * GRAVITY_M_S2**2 * omega**-5.0 * np.exp(-1.25 * (peak / omega) ** 4)
    return tail * peak_factor**bump * _depth_factor(omega, depth_m)


def jonswap_scales(wind_speed_m_s: float, fetch_m: float) -> tuple[float, float]:
    """Phillips' alpha and the peak angular frequency [rad/s] of `jonswap`."""
    reach = min(GRAVITY_M_S2 * fetch_m / wind_speed_m_s**2, FULLY_DEVELOPED_FETCH)
    return 0.076 * reach**-0.22, 22.0 * GRAVITY_M_S2 / wind_speed_m_s * reach**-0.33


def _depth_factor(omega: Floats, depth_m: float) -> Floats | float:
    if not np.isfinite(depth_m):
        return 1.0
    kh = wave_number(omega, depth_m) * depth_m
    capped = np.minimum(kh, 300.0)  # sinh overflows beyond; the term is negligible long before
    return np.tanh(kh) ** 2 / (1.0 + 2.0 * capped / np.sinh(2.0 * capped))


@dataclass(frozen=True, eq=False)
class WaveComponents:
    """Plane waves a cos(k . x - omega t + phase), sorted from the longest to the shortest. Arrays of shape (n,)."""

    amplitude_m: Floats
    wave_x_1_m: Floats
    """Component of the wave vector along x; waves travel along their wave vector."""
    wave_y_1_m: Floats
    omega_rad_s: Floats
    phase_rad: Floats

    @property
    def wave_number_1_m(self) -> Floats:
        return np.hypot(self.wave_x_1_m, self.wave_y_1_m)

    @property
    def variance_m2(self) -> float:
        """m0: mean square of the height over place and time."""
        return float(np.sum(self.amplitude_m**2) / 2.0)


def draw_components(
    *,
    wind_speed_m_s: float,
    fetch_m: float,
    depth_m: float,
    direction_rad: float,
    spreading: float,
    peak_factor: float,
    components: int,
    seed: int,
) -> WaveComponents:
    """Random waves with the JONSWAP spectrum, from 0.5 to 8 times the peak frequency.

    The band is divided into `components` parts of equal frequency ratio. Each part contributes one wave with its total
    energy, so that the variance is that of the spectrum for every seed. Frequency within the part, phase and direction
    are random.
    Directions follow cos^(2 s) of half the angle to the wind, s = `spreading` (Longuet-Higgins et al. 1963).
    """
    peak = jonswap_scales(wind_speed_m_s, fetch_m)[1]
    edges = peak * 0.5 * 16.0 ** (np.arange(components + 1) / components)
    energy = _bin_energy(edges, wind_speed_m_s, fetch_m, depth_m, peak_factor)
    words = Stream(seed, "water/ocean").words(np.arange(components))
    frequency, phase, direction = (to_unit(word) for word in words[:3])
    omega = edges[:-1] * (edges[1:] / edges[:-1]) ** frequency
    k = wave_number(omega, depth_m)
    angle = direction_rad + spread_angle(direction, spreading)
    return WaveComponents(np.sqrt(2.0 * energy), k * np.cos(angle), k * np.sin(angle), omega, 2.0 * np.pi * phase)


def _bin_energy(edges: Floats, wind_speed_m_s: float, fetch_m: float, depth_m: float, peak_factor: float) -> Floats:
    nodes, weights = np.polynomial.legendre.leggauss(8)
    half = (edges[1:] - edges[:-1])[:, None] / 2.0
    omega = (edges[1:] + edges[:-1])[:, None] / 2.0 + half * nodes
    return np.sum(half * weights * jonswap(omega, wind_speed_m_s, fetch_m, depth_m, peak_factor), axis=1)


def spread_angle(uniform: ArrayLike, spreading: float) -> NDArray[np.float64]:
    """Angles [rad] to the wind with density proportional to cos^(2 s)(angle / 2), from uniform numbers in (0, 1)."""
    grid = np.linspace(-np.pi, np.pi, 2049)
    density = np.cos(grid / 2.0) ** (2.0 * spreading)
    share = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return np.interp(np.asarray(uniform, dtype=np.float64), share / share[-1], grid)


def in_blocks(function: Callable[..., Floats], waves: int, *places: ArrayLike) -> Floats:
    """Apply `function`, from flat arrays to (n, m), to places of any shape, in chunks that respect `BLOCK`."""
    arrays = np.broadcast_arrays(*(np.asarray(place, dtype=np.float64) for place in places))
    flat = [array.ravel() for array in arrays]
    step = max(1, 2 * BLOCK // waves)
    starts = range(0, max(flat[0].size, 1), step)
    parts = [function(*(array[start : start + step] for array in flat)) for start in starts]
    found = np.concatenate(parts)
    return found.reshape(*arrays[0].shape, found.shape[1])


def product(left: NDArray[np.complex128], right: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Product left @ right.T of matrices (m, k) and (n, k), with the same bits for any number of threads."""
    (rows, waves), columns = left.shape, len(right)
    if min(rows, columns) > 1 and rows * columns * waves <= COMPLEX_WORK:
        return left @ right.T
    sums = np.empty((rows, columns), dtype=np.complex128)
    step = max(1, BLOCK // max(waves, 1))
    across = max(1, COMPLEX_WORK // (step * max(waves, 1)))
    for i in range(0, rows, step):
        for j in range(0, columns, across):
            sums[i : i + step, j : j + across] = left[i : i + step] @ right[j : j + across].T
    return sums


def grid_faces(nx: int, ny: int) -> NDArray[np.int32]:
    """Triangles of a grid of (nx + 1) (ny + 1) vertices, x-major, counter-clockwise seen from +z."""
    first = (np.arange(nx)[:, None] * (ny + 1) + np.arange(ny)[None, :]).ravel()
    right, left = first + ny + 1, first + 1
    faces = np.concatenate([np.stack([first, right, right + 1], 1), np.stack([first, right + 1, left], 1)])
    return faces.astype(np.int32)


def depth_profile(k: Floats, z: Floats, depth_m: float) -> tuple[Floats, Floats]:
    """cosh k(z + h) / sinh kh and sinh k(z + h) / sinh kh for z <= 0, without overflow; both exp(k z) in deep water."""
    down = np.exp(k * z)
    if not np.isfinite(depth_m):
        return down, down
    up = np.exp(-k * (2.0 * depth_m + np.maximum(z, -depth_m)))
    full = 1.0 - np.exp(-2.0 * k * depth_m)
    return (down + up) / full, np.maximum(down - up, 0.0) / full


def powers_of(factor: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """Powers 1, f, f^2, ... of each factor, shape (count, n)."""
    powers = np.empty((count, len(factor)), dtype=np.complex128)
    powers[0] = 1.0
    powers[1:] = factor
    return np.multiply.accumulate(powers, axis=0, out=powers)
