"""Dust density on a grid, from parcels or placed manually, and its integrals along rays.

Densities are defined at nodes one cell apart. Between nodes they are interpolated linearly along each axis, and beyond
the outermost nodes they fall to zero within one cell. The integral of the field is then the sum over nodes times the
cell volume, so depositing parcels with the same weights conserves mass exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.arrays import Reals, namespace
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.weather.media.dust import VEHICLE_DUST_EXTINCTION_M2_KG, check_number, check_vector

CELL_M = 0.5
"""Cell size of a grid of parcels: ten times the radius of a 5 cm parcel (VANE section 8.2)."""
MOST_CELLS = 64 * 64 * 32
CELLS_IN_SMALLEST_HALF = 6.0
"""Number of cells from the centre of a placed cloud to its nearest edge."""

# One empty node on every side, so that the field ends within the grid and kernels can clamp their indices.
_MARGIN = 1


@dataclass(frozen=True, eq=False)
class DensityGrid:
    """Mass density of dust on a regular grid of cubic cells, world frame."""

    origin_m: Floats
    """Position of node (0, 0, 0) [m], shape (3,)."""
    cell_m: float
    """Distance between nodes [m]."""
    density_kg_m3: Floats
    """Density at the nodes [kg/m^3], shape (nx, ny, nz)."""

    def __post_init__(self) -> None:
        origin = check_vector("origin_m", self.origin_m)
        density = np.array(self.density_kg_m3, dtype=np.float64)
        if density.ndim != 3 or density.size == 0:
            raise ConfigError(f"density_kg_m3: must have a non-empty shape (nx, ny, nz), got {density.shape}")
        if not (np.all(np.isfinite(density)) and density.min() >= 0.0):
            raise ConfigError("density_kg_m3: must be finite and not negative")
        for array in (origin, density):
            array.setflags(write=False)
        object.__setattr__(self, "origin_m", origin)
        object.__setattr__(self, "cell_m", check_number("cell_m", self.cell_m, above=0.0))
        object.__setattr__(self, "density_kg_m3", density)

    @classmethod
    def from_parcels(cls, xyz: ArrayLike, mass_kg: ArrayLike, *, cell_m: float = CELL_M) -> DensityGrid:
        """Grid of parcels at `xyz` (n, 3) [m] with masses (n,) [kg].

        The cell is doubled until the grid has at most MOST_CELLS nodes. Nodes lie at whole multiples of the cell, so
        that the same dust gives the same field at any time.
        """
        points, mass = _checked_parcels(xyz, mass_kg)
        cell = check_number("cell_m", cell_m, above=0.0)
        if mass.size == 0:
            return cls(np.zeros(3), cell, np.zeros((1, 1, 1)))
        cell, first, shape = _lattice(points, cell)
        position = points / cell - first
        lower = np.minimum(np.floor(position).astype(np.int64), np.array(shape) - 2)
        fraction = position - lower
        density = np.zeros(int(np.prod(shape)))
        for corner in np.ndindex(2, 2, 2):
            weight = np.prod(np.where(corner, fraction, 1.0 - fraction), axis=1)
            node = np.ravel_multi_index(tuple((lower + corner).T), shape)
            density += np.bincount(node, weights=weight * mass, minlength=density.size)
        return cls(first * cell, cell, density.reshape(shape) / cell**3)

    @property
    def shape(self) -> tuple[int, int, int]:
        nx, ny, nz = self.density_kg_m3.shape
        return nx, ny, nz

    @property
    def mass_kg(self) -> float:
        """Total mass of dust on the grid [kg]."""
        return float(self.density_kg_m3.sum() * self.cell_m**3)

    def extinction(self, mass_extinction_m2_kg: float = VEHICLE_DUST_EXTINCTION_M2_KG) -> Floats:
        """Extinction at the nodes [1/m], shape (nx, ny, nz)."""
        return self.density_kg_m3 * check_number("mass_extinction_m2_kg", mass_extinction_m2_kg, least=0.0)

    def density_at(self, xyz: ArrayLike) -> Floats:
        """Density [kg/m^3] at positions (..., 3) [m]; zero from one cell beyond the grid."""
        points = np.asarray(xyz, dtype=np.float64)
        if points.ndim == 0 or points.shape[-1] != 3 or not np.all(np.isfinite(points)):
            raise ConfigError(f"xyz: must be finite positions of shape (..., 3), got shape {points.shape}")
        position = (points - self.origin_m) / self.cell_m
        size = np.array(self.shape)
        # Far outside, the index would overflow an integer; positions are clipped to one empty cell beyond the grid.
        position = np.clip(position, -1.0, size.astype(np.float64))
        lower = np.floor(position).astype(np.int64)
        fraction = position - lower
        total = np.zeros(points.shape[:-1])
        for corner in np.ndindex(2, 2, 2):
            node = lower + corner
            inside = np.all((node >= 0) & (node < size), axis=-1)
            weight = np.prod(np.where(corner, fraction, 1.0 - fraction), axis=-1)
            i, j, k = np.moveaxis(np.clip(node, 0, size - 1), -1, 0)
            total += np.where(inside, weight * self.density_kg_m3[i, j, k], 0.0)
        return total

    def density_path(self, origin_m: ArrayLike, direction: ArrayLike, length_m: ArrayLike) -> Floats:
        """Integral of density along rays [kg/m^2], shape (n,).

        `origin_m` and `direction` (unit vectors) have shape (n, 3) or (3,), `length_m` is (n,) or a number and may be
        infinite. Each ray's segment within the grid is divided into equal steps of at most half a cell (VANE section
        8.2), and density is read at their midpoints.
        """
        start, heading, length = _checked_rays(origin_m, direction, length_m)
        enter, leave = self._interval(start, heading, length)
        stretch = np.maximum(leave - enter, 0.0)
        steps = np.ceil(stretch / (0.5 * self.cell_m)).astype(np.int64)
        step = stretch / np.maximum(steps, 1)
        total = np.zeros(len(start))
        for number in range(int(steps.max(initial=0))):
            ray = np.flatnonzero(steps > number)
            range_m = enter[ray] + (number + 0.5) * step[ray]
            total[ray] += step[ray] * self.density_at(start[ray] + range_m[:, None] * heading[ray])
        return total

    def optical_depth(
        self,
        origin_m: ArrayLike,
        direction: ArrayLike,
        length_m: ArrayLike,
        mass_extinction_m2_kg: float = VEHICLE_DUST_EXTINCTION_M2_KG,
    ) -> Floats:
        """One-way optical depth along rays, shape (n,); arguments as for `density_path`."""
        extinction = check_number("mass_extinction_m2_kg", mass_extinction_m2_kg, least=0.0)
        return extinction * self.density_path(origin_m, direction, length_m)

    def _interval(self, start: Floats, heading: Floats, length: Floats) -> tuple[Floats, Floats]:
        """Interval of range [m] in which each ray is within one cell of the grid."""
        low = self.origin_m - self.cell_m
        high = self.origin_m + self.cell_m * np.array(self.shape)
        # Direction components too small to divide by are treated as 0; they have no effect within any grid.
        within, along = (start > low) & (start < high), np.abs(heading) > 1e-100
        slope = np.where(along, heading, 1.0)
        to_low, to_high = (low - start) / slope, (high - start) / slope
        near = np.where(along, np.minimum(to_low, to_high), np.where(within, -np.inf, np.inf))
        far = np.where(along, np.maximum(to_low, to_high), np.where(within, np.inf, -np.inf))
        enter = np.maximum(near.max(axis=1), 0.0)
        leave = np.minimum(far.min(axis=1), length)
        missed = ~(enter < leave)
        return np.where(missed, 0.0, enter), np.where(missed, 0.0, leave)


def ellipsoid_profile(squared_radius: Reals) -> Reals:
    """Density of a placed cloud relative to its centre: (1 - s^2)^2 for s < 1, 0 beyond; NumPy or Dr.Jit arrays.

    s is 1 on the ellipsoid's surface, where value and slope vanish, so the cloud has no hard edge. A cloud of semi-axes
    a, b, c has the mass rho_0 a b c 32 pi / 105, and a ray along a main axis the column density rho_0 a 16 / 15.
    """
    xp = namespace(squared_radius)
    rest = xp.maximum(1.0 - squared_radius, 0.0)
    return rest * rest


def ellipsoid_cloud(centre_m: ArrayLike, half_size_m: ArrayLike, density_kg_m3: float) -> DensityGrid:
    """Manually placed cloud: an axis-aligned ellipsoid, densest at the centre (`ellipsoid_profile`).

    `density_kg_m3` is the density at the centre, `half_size_m` the semi-axes. The cell is a sixth of the smallest
    semi-axis, doubled until there are at most MOST_CELLS nodes; the nodes are scaled to the exact mass.
    """
    centre = check_vector("centre_m", centre_m)
    half = check_vector("half_size_m", half_size_m, above=0.0)
    peak = check_number("density_kg_m3", density_kg_m3, least=0.0)
    cell = float(half.min()) / CELLS_IN_SMALLEST_HALF
    # In floating point, because a tiny cell would overflow the integer number of nodes.
    while np.prod(2.0 * np.ceil(half / cell) + 1.0) > MOST_CELLS:
        cell *= 2.0
    reach = np.ceil(half / cell).astype(np.int64)
    axes = [cell * np.arange(-n, n + 1) for n in reach]
    x, y, z = np.meshgrid(*(axis / h for axis, h in zip(axes, half, strict=True)), indexing="ij")
    shape: Any = ellipsoid_profile(x * x + y * y + z * z)
    mass = 32.0 * np.pi / 105.0 * float(np.prod(half))
    return DensityGrid(centre - cell * reach, cell, peak * shape * (mass / (shape.sum() * cell**3)))


def _checked_parcels(xyz: ArrayLike, mass_kg: ArrayLike) -> tuple[Floats, Floats]:
    points, mass = np.asarray(xyz, dtype=np.float64), np.asarray(mass_kg, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 3 or not np.all(np.isfinite(points)):
        raise ConfigError(f"xyz: must be finite positions of shape (n, 3), got shape {points.shape}")
    if mass.shape != points.shape[:1] or not np.all(np.isfinite(mass)) or np.any(mass < 0.0):
        raise ConfigError(f"mass_kg: must be {len(points)} finite numbers, none negative, got shape {mass.shape}")
    return points, mass


def _lattice(points: Floats, cell: float) -> tuple[float, Floats, tuple[int, int, int]]:
    """Cell size, first node in units of cells, and number of nodes along each axis."""
    low, high = points.min(axis=0), points.max(axis=0)
    while True:
        first = np.floor(low / cell) - _MARGIN
        # Both nodes around the last parcel, then the margin.
        count = np.floor(high / cell) + 2.0 + _MARGIN - first
        if np.prod(count) <= MOST_CELLS:
            nx, ny, nz = count.astype(np.int64).tolist()
            return cell, first, (nx, ny, nz)
        cell *= 2.0


def _checked_rays(origin: ArrayLike, direction: ArrayLike, length: ArrayLike) -> tuple[Floats, Floats, Floats]:
    start, heading = (np.atleast_2d(np.asarray(value, dtype=np.float64)) for value in (origin, direction))
    end = np.atleast_1d(np.asarray(length, dtype=np.float64))
    try:
        count = np.broadcast_shapes(start.shape[:1], heading.shape[:1], end.shape)
        start, heading = (np.broadcast_to(value, (*count, 3)) for value in (start, heading))
    except ValueError:
        raise ConfigError(
            f"rays: origin_m and direction must have shape (n, 3) and length_m (n,), got {start.shape}, "
            f"{heading.shape} and {end.shape}"
        ) from None
    if not (np.all(np.isfinite(start)) and np.all(np.abs((heading * heading).sum(axis=1) - 1.0) < 1e-5)):
        raise ConfigError("rays: origin_m must be finite and direction must hold unit vectors")
    if not np.all(end >= 0.0):
        raise ConfigError("length_m: must not be negative")
    return start, heading, np.broadcast_to(end, count)
