"""Water surfaces: calm, Gerstner waves, and a wind sea. Height, slope, orbital velocity, and a mesh for ray casts.

Mean level and heights are z of the world [m]. Waves travel along their direction: 0 along +x, 90 degrees along +y.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.checks import above, finite, vector, whole, within
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.motion.sea_spectrum import (
    MOST_COMPONENTS,
    WaveComponents,
    depth_profile,
    dispersion,
    draw_components,
    grid_faces,
    in_blocks,
    jonswap_scales,
    powers_of,
    product,
)
from parhelion.world.water_surface import Lattice

STEEPEST = 0.9
"""Largest sum of steepness k a of Gerstner waves: crests become cusps at 1; real waves break at 0.44 (Stokes 1880)."""

Pair = Sequence[float]


@dataclass(frozen=True, eq=False)
class Surface:
    """State of the surface at given places; all arrays have the same shape."""

    height: Floats
    """z of the water [m]."""
    slope_x: Floats
    """Derivative of the height along x."""
    slope_y: Floats
    rate: Floats
    """Derivative of the height in time at a fixed place [m/s]."""
    velocity_x: Floats
    """Horizontal velocity of the water at the surface [m/s]."""
    velocity_y: Floats
    acceleration_z: Floats
    """Upward acceleration of the water at the surface [m/s^2]; the horizontal one is -(g + this) times the slope."""


class Water(ABC):
    """Base class of water surfaces. Places are arrays of any one shape, times are single numbers [s]."""

    density_kg_m3: float
    level_m: float

    @abstractmethod
    def surface(self, x: ArrayLike, y: ArrayLike, time: float) -> Surface:
        """Return the state of the surface at the places (x, y) [m]."""

    @abstractmethod
    def velocity(self, x: ArrayLike, y: ArrayLike, z: ArrayLike, time: float) -> Floats:
        """Velocity of the water [m/s] at points (x, y, z), shape (..., 3); above the surface, that of the surface."""

    def height(self, x: ArrayLike, y: ArrayLike, time: float) -> Floats:
        """z of the surface [m] at the places (x, y)."""
        return self.surface(x, y, time).height

    def normal(self, x: ArrayLike, y: ArrayLike, time: float) -> Floats:
        """Unit normals of the surface, upward, shape (..., 3)."""
        surface = self.surface(x, y, time)
        up = np.stack([-surface.slope_x, -surface.slope_y, np.ones_like(surface.slope_x)], axis=-1)
        return up / np.linalg.norm(up, axis=-1, keepdims=True)

    def lattice(self, lattice: Lattice, time: float, shortest_m: float = 0.0) -> Surface:
        """Return the surface on a lattice, arrays of shape `counts`; waves shorter than `shortest_m` may be omitted."""
        corner, along, across, counts = lattice
        i, j = np.arange(counts[0])[:, None], np.arange(counts[1])[None, :]
        x, y = (corner[n] + along[n] * i + across[n] * j for n in (0, 1))
        return self.surface(x, y, time)

    def rising(self, lattice: Lattice, time: float, shortest_m: float = 0.0) -> tuple[Floats, Floats]:
        """Return only the heights [m] and their rates [m/s] of the surface on a lattice."""
        surface = self.lattice(lattice, time, shortest_m)
        return surface.height, surface.rate

    def mesh(
        self, time: float, centre: Pair = (0.0, 0.0), size: float | Pair = 50.0, cells: int | tuple[int, int] = 50
    ) -> tuple[Floats, NDArray[np.int32]]:
        """Return vertices (n, 3) and triangles (m, 3), counter-clockwise from above, of a rectangle of the surface.

        `size` [m] and `cells` are given along x and y, or as one number for a square. Vertices lie on the surface.
        """
        middle = vector("water mesh: centre", centre, 2)
        sides = vector("water mesh: size", np.broadcast_to(np.asarray(size, dtype=np.float64), 2), 2)
        for side in sides:
            above("water mesh: size", side, 0.0)
        nx, ny = (whole("water mesh: cells", n, 1, 4096) for n in np.broadcast_to(np.asarray(cells), 2).tolist())
        corner = (middle[0] - sides[0] / 2.0, middle[1] - sides[1] / 2.0)
        vertices = self._grid(corner, (sides[0] / nx, sides[1] / ny), (nx + 1, ny + 1), finite("water: time", time))
        return vertices.reshape(-1, 3), grid_faces(nx, ny)

    def _grid(self, corner: Pair, step: Pair, counts: tuple[int, int], time: float) -> Floats:
        x = corner[0] + step[0] * np.arange(counts[0])
        y = corner[1] + step[1] * np.arange(counts[1])
        height = self.lattice(Lattice(corner, (step[0], 0.0), (0.0, step[1]), counts), time).height
        return np.stack([*np.meshgrid(x, y, indexing="ij"), height], axis=-1)


class CalmWater(Water):
    """A level surface with an optional steady current."""

    def __init__(self, level_m: float = 0.0, *, current_m_s: Pair = (0.0, 0.0), density_kg_m3: float = 1000.0) -> None:
        self.level_m = finite("water: level_m", level_m)
        self.current_m_s = vector("water: current_m_s", current_m_s, 2)
        self.density_kg_m3 = above("water: density_kg_m3", density_kg_m3, 0.0)

    def surface(self, x: ArrayLike, y: ArrayLike, time: float) -> Surface:
        shape = np.broadcast(np.asarray(x), np.asarray(y)).shape
        zero = np.zeros(shape)
        u, v = (np.full(shape, speed) for speed in self.current_m_s)
        return Surface(np.full(shape, self.level_m), zero, zero, zero, u, v, zero)

    def velocity(self, x: ArrayLike, y: ArrayLike, z: ArrayLike, time: float) -> Floats:
        shape = np.broadcast(np.asarray(x), np.asarray(y), np.asarray(z)).shape
        return np.broadcast_to(np.array([*self.current_m_s, 0.0]), (*shape, 3)).copy()


@dataclass(frozen=True)
class GerstnerWave:
    """One wave train; see `GerstnerWater`."""

    amplitude_m: float
    """Half of the height from trough to crest [m]."""
    length_m: float
    """Wavelength, from crest to crest [m]."""
    direction_deg: float = 0.0
    phase_deg: float = 0.0


class GerstnerWater(Water):
    """Trochoidal waves (Gerstner 1802): every particle of the surface moves on a circle about its rest position.

        x = a - sum A coth(kh) k/|k| sin(theta),  z = sum A cos(theta),  theta = k . a - omega t + phase

    with omega^2 = g k tanh(kh). One train in deep water is an exact solution of the Euler equations; several trains, or
    finite depth (where circles become ellipses), are a first-order approximation. Crests are sharp and troughs flat;
    the mean height is k A^2 / 2 below the level. The sum of the steepnesses k A coth(kh) must be below 0.9.
    """

    def __init__(
        self,
        waves: Sequence[GerstnerWave],
        *,
        level_m: float = 0.0,
        depth_m: float = math.inf,
        density_kg_m3: float = 1000.0,
    ) -> None:
        self.level_m = finite("water: level_m", level_m)
        self.depth_m = above("water: depth_m", depth_m, 0.0, infinite=True)
        self.density_kg_m3 = above("water: density_kg_m3", density_kg_m3, 0.0)
        self.waves = tuple(waves)
        self._parts: dict[tuple[GerstnerWave, ...], Water] = {}
        if not self.waves:
            raise ConfigError("water: waves must have at least one wave; use CalmWater for water without waves")
        amplitude = np.array([above("water: amplitude_m", w.amplitude_m, 0.0) for w in self.waves])
        k = np.array([2.0 * math.pi / above("water: length_m", w.length_m, 0.0) for w in self.waves])
        angle = np.radians([finite("water: direction_deg", w.direction_deg) for w in self.waves])
        phase = np.radians([finite("water: phase_deg", w.phase_deg) for w in self.waves])
        self.components = WaveComponents(
            amplitude, k * np.cos(angle), k * np.sin(angle), dispersion(k, self.depth_m), phase
        )
        self._unit = (np.cos(angle), np.sin(angle))
        self._shift = amplitude / np.tanh(k * self.depth_m)  # half axis of the orbits along the wave
        steepness = float(np.sum(k * self._shift))
        if not steepness < STEEPEST:
            raise ConfigError(
                f"water: the sum of the waves' steepnesses k A is {steepness:.3g} and must be below {STEEPEST}"
            )

    def lattice(self, lattice: Lattice, time: float, shortest_m: float = 0.0) -> Surface:
        selected = tuple(wave for wave in self.waves if wave.length_m >= shortest_m)
        if len(selected) == len(self.waves):
            return super().lattice(lattice, time)
        if selected not in self._parts:
            level, depth, density = self.level_m, self.depth_m, self.density_kg_m3
            self._parts[selected] = (
                GerstnerWater(selected, level_m=level, depth_m=depth, density_kg_m3=density)
                if selected
                else CalmWater(level, density_kg_m3=density)
            )
        return self._parts[selected].lattice(lattice, time)

    def _orbits(self, a: Floats, b: Floats, time: float) -> tuple[Floats, Floats]:
        """cos and sin of the phase of each wave at labels (a, b), shape (..., waves)."""
        waves = self.components
        theta = a[..., None] * waves.wave_x_1_m + b[..., None] * waves.wave_y_1_m
        theta = theta - waves.omega_rad_s * time + waves.phase_rad
        return np.cos(theta), np.sin(theta)

    def _labels(self, x: Floats, y: Floats, time: float) -> tuple[Floats, Floats]:
        """Rest positions (labels) of the particles that are now at (x, y), by Newton's method."""
        a, b = x, y
        ux, uy = self._unit
        close = 1e-12 * (1.0 + max(np.max(np.abs(x), initial=0.0), np.max(np.abs(y), initial=0.0)))
        for _ in range(30):
            cos, sin = self._orbits(a, b, time)
            miss_x = a - sin @ (self._shift * ux) - x
            miss_y = b - sin @ (self._shift * uy) - y
            if max(np.max(np.abs(miss_x), initial=0.0), np.max(np.abs(miss_y), initial=0.0)) < close:
                break
            jxx, jxy, jyy = self._stretch(cos)
            determinant = jxx * jyy - jxy * jxy
            a = a - (jyy * miss_x - jxy * miss_y) / determinant
            b = b - (jxx * miss_y - jxy * miss_x) / determinant
        return a, b

    def _stretch(self, cos: Floats) -> tuple[Floats, Floats, Floats]:
        """Derivatives of the position by the label: dx/da, dx/db = dy/da, dy/db."""
        waves, (ux, uy) = self.components, self._unit
        return (
            1.0 - cos @ (self._shift * ux * waves.wave_x_1_m),
            -(cos @ (self._shift * ux * waves.wave_y_1_m)),
            1.0 - cos @ (self._shift * uy * waves.wave_y_1_m),
        )

    def surface(self, x: ArrayLike, y: ArrayLike, time: float) -> Surface:
        return Surface(
            *np.moveaxis(in_blocks(lambda px, py: self._surface(px, py, time), len(self.waves), x, y), -1, 0)
        )

    def _surface(self, x: Floats, y: Floats, time: float) -> Floats:
        waves, (ux, uy) = self.components, self._unit
        cos, sin = self._orbits(*self._labels(x, y, time), time)
        jxx, jxy, jyy = self._stretch(cos)
        za, zb = -(sin @ (waves.amplitude_m * waves.wave_x_1_m)), -(sin @ (waves.amplitude_m * waves.wave_y_1_m))
        determinant = jxx * jyy - jxy * jxy
        slope_x, slope_y = (jyy * za - jxy * zb) / determinant, (jxx * zb - jxy * za) / determinant
        u, v = (cos @ (self._shift * waves.omega_rad_s * unit) for unit in (ux, uy))
        rise = sin @ (waves.amplitude_m * waves.omega_rad_s)
        height = self.level_m + cos @ waves.amplitude_m
        lift = -(cos @ (waves.amplitude_m * waves.omega_rad_s**2))
        return np.stack([height, slope_x, slope_y, rise - slope_x * u - slope_y * v, u, v, lift], axis=-1)

    def velocity(self, x: ArrayLike, y: ArrayLike, z: ArrayLike, time: float) -> Floats:
        """Orbital velocity; it decays with exp(-k d) at depth d below the surface (law of deep water)."""
        return in_blocks(lambda px, py, pz: self._velocity(px, py, pz, time), len(self.waves), x, y, z)

    def _velocity(self, x: Floats, y: Floats, z: Floats, time: float) -> Floats:
        waves, (ux, uy) = self.components, self._unit
        cos, sin = self._orbits(*self._labels(x, y, time), time)
        below = np.minimum(z - self.level_m - cos @ waves.amplitude_m, 0.0)
        decay = np.exp(below[..., None] * waves.wave_number_1_m) * waves.omega_rad_s
        u, v = ((decay * cos) @ (self._shift * unit) for unit in (ux, uy))
        return np.stack([u, v, (decay * sin) @ waves.amplitude_m], axis=-1)

    def _grid(self, corner: Pair, step: Pair, counts: tuple[int, int], time: float) -> Floats:
        # Particles whose rest positions form a regular grid: no equation to solve, and finer cells at the crests.
        a, b = np.meshgrid(*(corner[n] + step[n] * np.arange(counts[n]) for n in (0, 1)), indexing="ij")
        return in_blocks(lambda pa, pb: self._moved(pa, pb, time), len(self.waves), a, b)

    def _moved(self, a: Floats, b: Floats, time: float) -> Floats:
        (cos, sin), (ux, uy) = self._orbits(a, b, time), self._unit
        height = self.level_m + cos @ self.components.amplitude_m
        return np.stack([a - sin @ (self._shift * ux), b - sin @ (self._shift * uy), height], axis=-1)


class OceanWater(Water):
    """A wind sea: linear waves with the JONSWAP spectrum of a steady wind over a fetch.

    The surface is the sum of `components` random plane waves, selected by `seed`; it is not periodic. In finite depth
    the spectrum is TMA, and waves follow omega^2 = g k tanh(kh). Because the waves are linear, crests are as round as
    troughs. The directional spreading s is cos^(2s) of half the angle to the wind; 10 is typical near the peak.
    """

    def __init__(
        self,
        wind_speed_m_s: float,
        fetch_m: float,
        seed: int = 0,
        *,
        components: int = 256,
        depth_m: float = math.inf,
        direction_deg: float = 0.0,
        spreading: float = 10.0,
        peak_factor: float = 3.3,
        level_m: float = 0.0,
        density_kg_m3: float = 1025.0,
    ) -> None:
        self.wind_speed_m_s = within("water: wind_speed_m_s", wind_speed_m_s, 0.5, 60.0)
        self.fetch_m = above("water: fetch_m", fetch_m, 0.0, 1e7)
        self.depth_m = above("water: depth_m", depth_m, 0.0, infinite=True)
        self.level_m = finite("water: level_m", level_m)
        self.density_kg_m3 = above("water: density_kg_m3", density_kg_m3, 0.0)
        self.components = draw_components(
            wind_speed_m_s=self.wind_speed_m_s,
            fetch_m=self.fetch_m,
            depth_m=self.depth_m,
            direction_rad=math.radians(finite("water: direction_deg", direction_deg)),
            spreading=within("water: spreading", spreading, 0.0, 500.0),
            peak_factor=within("water: peak_factor", peak_factor, 1.0, 10.0),
            components=whole("water: components", components, 1, MOST_COMPONENTS),
            seed=seed,
        )
        self._count = len(self.components.amplitude_m)
        self._table = self._coefficients()

    @property
    def significant_height_m(self) -> float:
        """4 sqrt(m0) [m]: close to the mean height, trough to crest, of the highest third of the waves."""
        return 4.0 * math.sqrt(self.components.variance_m2)

    @property
    def peak_period_s(self) -> float:
        """Period of the spectral peak in deep water [s]."""
        return 2.0 * math.pi / jonswap_scales(self.wind_speed_m_s, self.fetch_m)[1]

    def _coefficients(self) -> NDArray[np.complex128]:
        """Contribution of each wave to the seven fields of `Surface`: factors of exp(i (k . x - omega t + phase))."""
        waves = self.components
        a, omega, k = waves.amplitude_m, waves.omega_rad_s, waves.wave_number_1_m
        along = a * omega / (np.tanh(k * self.depth_m) * k)
        kx, ky = waves.wave_x_1_m, waves.wave_y_1_m
        real = [a, along * kx, along * ky, -(omega**2) * a]
        height, u, v, lift = (factor.astype(np.complex128) for factor in real)
        return np.stack([height, 1j * kx * a, 1j * ky * a, -1j * omega * a, u, v, lift])

    def _phases(self, x: Floats, y: Floats, time: float) -> Floats:
        waves = self.components
        place = x[..., None] * waves.wave_x_1_m + y[..., None] * waves.wave_y_1_m
        return place - waves.omega_rad_s * time + waves.phase_rad

    def surface(self, x: ArrayLike, y: ArrayLike, time: float) -> Surface:
        def sums(px: Floats, py: Floats) -> Floats:
            phase = self._phases(px, py, time)
            return np.cos(phase) @ self._table.real.T - np.sin(phase) @ self._table.imag.T

        return self._surface(np.moveaxis(in_blocks(sums, self._count, x, y), -1, 0))

    def _surface(self, sums: Floats) -> Surface:
        return Surface(self.level_m + sums[0], *sums[1:])

    def height(self, x: ArrayLike, y: ArrayLike, time: float) -> Floats:
        def sums(px: Floats, py: Floats) -> Floats:
            return (np.cos(self._phases(px, py, time)) @ self.components.amplitude_m)[:, None]

        return self.level_m + in_blocks(sums, self._count, x, y)[..., 0]

    def lattice(self, lattice: Lattice, time: float, shortest_m: float = 0.0) -> Surface:
        """Same as `surface` on a lattice, where the sum over waves is a product of two matrices and far cheaper."""
        return self._surface(self._lattice_sums(lattice, time, shortest_m, 7))

    def rising(self, lattice: Lattice, time: float, shortest_m: float = 0.0) -> tuple[Floats, Floats]:
        height, _, _, rate = self._lattice_sums(lattice, time, shortest_m, 4)
        return self.level_m + height, rate

    def _lattice_sums(self, lattice: Lattice, time: float, shortest_m: float, rows: int) -> Floats:
        corner, along, across, counts = lattice
        waves = self.components
        selected = self._count
        if shortest_m > 0.0:
            selected = int(np.searchsorted(waves.wave_number_1_m, 2.0 * math.pi / shortest_m, side="right"))
        kx, ky = waves.wave_x_1_m[:selected], waves.wave_y_1_m[:selected]
        start = corner[0] * kx + corner[1] * ky - waves.omega_rad_s[:selected] * time + waves.phase_rad[:selected]
        factors = np.exp(1j * np.stack([start, along[0] * kx + along[1] * ky, across[0] * kx + across[1] * ky]))
        left = self._table[:rows, None, :selected] * (factors[0] * powers_of(factors[1], counts[0]))
        right = powers_of(factors[2], counts[1])
        sums = product(left.reshape(rows * counts[0], selected), right)
        return np.ascontiguousarray(sums.real).reshape(rows, *counts)

    def _grid(self, corner: Pair, step: Pair, counts: tuple[int, int], time: float) -> Floats:
        x, y = (corner[n] + step[n] * np.arange(counts[n]) for n in (0, 1))
        height = self._lattice_sums(Lattice(corner, (step[0], 0.0), (0.0, step[1]), counts), time, 0.0, 1)[0]
        return np.stack([*np.meshgrid(x, y, indexing="ij"), self.level_m + height], axis=-1)

    def velocity(self, x: ArrayLike, y: ArrayLike, z: ArrayLike, time: float) -> Floats:
        """Orbital velocity of linear waves; above the mean level, the velocity at the mean level."""
        return in_blocks(lambda px, py, pz: self._velocity(px, py, pz, time), self._count, x, y, z)

    def _velocity(self, x: Floats, y: Floats, z: Floats, time: float) -> Floats:
        waves, k = self.components, self.components.wave_number_1_m
        phase = self._phases(x, y, time)
        cosh, sinh = depth_profile(k, np.minimum(z - self.level_m, 0.0)[:, None], self.depth_m)
        swing = waves.amplitude_m * waves.omega_rad_s
        along = np.cos(phase) * cosh * (swing / k)
        rise = np.sum(np.sin(phase) * sinh * swing, axis=-1)
        return np.stack([along @ waves.wave_x_1_m, along @ waves.wave_y_1_m, rise], axis=-1)
