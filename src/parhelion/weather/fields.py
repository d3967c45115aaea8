"""Heterogeneous density: fractal gradient noise in three dimensions that drifts with the wind.

The noise (Perlin 2002) is summed over octaves into a table that repeats in space, and transformed to a log-normal
distribution, so that the factor on density has mean 1 and the specified deviation and is never negative. Huang et al.
2023 sum octaves in the plane; here, eddies are as high as they are wide.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Ints, Namespace, Reals, namespace
from parhelion.core.random import Stream, to_normal
from parhelion.weather.parts import Heterogeneity

CELLS = 64
"""Points of the table along each axis."""
EDDIES = 4
"""Number of the largest eddies along the table, which repeats after this many times their size."""


@dataclass(frozen=True, eq=False)
class DensityField:
    """Factor on density as a function of position and time."""

    table: NDArray[np.float32]
    """Factors at points of a periodic lattice, shape (CELLS, CELLS, CELLS, 4): the point itself and its neighbours in
    +x, in +y and in both, so that one access fetches a face of a cell."""
    cell_m: float
    """Distance between points [m]."""
    flat: bool
    """True if the factor does not depend on height, as in rain cells."""

    def at(self, xyz: NDArray[np.float64], drift_m: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Factors at points of the world, shape (n, 3), after the field has drifted by `drift_m`."""
        places = (xyz - (0.0 if drift_m is None else drift_m)) / self.cell_m
        x, y, z = places.T
        rows = self.table.astype(np.float64).reshape(-1, 4)
        return np.asarray(factor(rows, x, y, 0.0 * z if self.flat else z))


def density_field(settings: Heterogeneity, *, seed: int, name: str, flat: bool = False) -> DensityField:
    """Field of a medium (`name`, for example 'fog') for a seed."""
    table = _table(settings.octaves, settings.roughness, settings.contrast, seed, name, flat)
    return DensityField(table, settings.scale_m * EDDIES / CELLS, flat)


def factor(table: Any, x: Reals, y: Reals, z: Reals) -> Reals:
    """Trilinear interpolation at a position in units of cells; NumPy or Dr.Jit arrays.

    `table` has rows of four: (CELLS^3, 4) in NumPy, flat in Dr.Jit.
    """
    xp = namespace(x, y, z)
    (i, a), (j, b), (k, c) = (_cell(xp, v) for v in (x, y, z))
    above = (k + 1) & (CELLS - 1)
    column = (i * CELLS + j) * CELLS
    low, high = (_face(xp, table, column + height, a, b) for height in (k, above))
    return low + c * (high - low)


def _cell(xp: Namespace, place: Reals) -> tuple[Ints, Reals]:
    """Number of the cell within the table, and the position within the cell."""
    start = xp.floor(place)
    if xp.name == "numpy":
        return np.asarray(start).astype(np.int64) & (CELLS - 1), place - start
    import mitsuba as mi

    return mi.UInt32(mi.Int32(start)) & (CELLS - 1), place - start


def _face(xp: Namespace, table: Any, row: Ints, a: Reals, b: Reals) -> Reals:
    if xp.name == "numpy":
        corner, along_x, along_y, across = table[row].T
    else:
        import drjit as dr
        import mitsuba as mi

        found = dr.gather(mi.Vector4f, table, row)
        corner, along_x, along_y, across = found.x, found.y, found.z, found.w
    near = corner + a * (along_x - corner)
    far = along_y + a * (across - along_y)
    return near + b * (far - near)


@lru_cache(maxsize=16)
def _table(octaves: int, roughness: float, contrast: float, seed: int, name: str, flat: bool) -> NDArray[np.float32]:
    total = np.zeros((CELLS, CELLS, CELLS))
    for octave in range(octaves):
        # The finest octave that the lattice can represent has eddies of two cells.
        eddies = min(EDDIES << octave, CELLS // 2)
        total += roughness**octave * _gradient_noise(eddies, Stream(seed, f"weather/{name}/{octave}"))
    if flat:
        # Mean and deviation must refer to the single level that is read.
        total = np.repeat(total[:, :, :1], CELLS, axis=2)
    spread = total.std()
    normal = (total - total.mean()) / spread if spread > 0 else total
    sigma = np.sqrt(np.log1p(contrast**2))
    density = np.exp(sigma * normal)
    density /= density.mean()
    faces = [density, np.roll(density, -1, 0), np.roll(density, -1, 1), np.roll(density, (-1, -1), (0, 1))]
    table = np.stack(faces, axis=-1).astype(np.float32)
    table.setflags(write=False)
    return table


def _gradient_noise(eddies: int, stream: Stream) -> NDArray[np.float64]:
    """Perlin's gradient noise with this many lattice cells along each side of the table."""
    lattice = np.arange(eddies**3)
    words = stream.words(lattice)
    x, y = to_normal(words[0], words[1])
    z, _ = to_normal(words[2], words[3])
    gradient = np.stack([x, y, z], axis=-1)
    gradient /= np.linalg.norm(gradient, axis=-1, keepdims=True)
    gradient = gradient.reshape(eddies, eddies, eddies, 3)
    # Offset by half a point, because gradient noise is 0 at the lattice points.
    place = (np.arange(CELLS) + 0.5) * eddies / CELLS
    start, along = np.floor(place).astype(int), place - np.floor(place)
    fade = along**3 * (along * (along * 6.0 - 15.0) + 10.0)
    value = np.zeros((CELLS, CELLS, CELLS))
    for corner in np.ndindex(2, 2, 2):
        rows = [(start + step) % eddies for step in corner]
        offset = [along - step for step in corner]
        weight = [fade if step else 1.0 - fade for step in corner]
        near = gradient[np.ix_(*rows)]
        dot = (
            near[..., 0] * offset[0][:, None, None]
            + near[..., 1] * offset[1][None, :, None]
            + near[..., 2] * offset[2][None, None, :]
        )
        value += dot * weight[0][:, None, None] * weight[1][None, :, None] * weight[2][None, None, :]
    return value
