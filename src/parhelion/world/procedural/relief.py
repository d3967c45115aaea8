"""The height of the ground: rolling terrain by a fractal rule, with a track cut into it.

Rule: spectral synthesis (Voss 1985). White noise is given the spectrum k^-(hurst + 1) in amplitude, which makes a
surface whose height differences grow with distance to the power `hurst`; natural relief lies near 0.5 to 0.9
(Turcotte 1997). Heights are whole millimetres, so that rounding of a transform cannot show.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.core.random import Stream
from parhelion.world.procedural.kinds import TerrainParams
from parhelion.world.procedural.layout import Layout, LayoutObject
from parhelion.world.procedural.plane import along_line, beside_line, to_line

LARGEST_GRID = 4_000_000
"""Grid points of one terrain at most."""
_SHOULDER_M = 3.0
"""Width over which a track's level runs out into the terrain beside it."""
_EVEN_M = 6.0
"""Length over which a track's own level is evened out."""


@dataclass(frozen=True, eq=False)
class HeightField:
    """Heights on a grid that is centred on the origin of its own frame."""

    z: Floats
    """Heights [m], shape (ny, nx), rows along y."""
    cell: tuple[float, float]
    """Width of a cell along x and y [m]."""

    def at(self, x: ArrayLike, y: ArrayLike) -> Floats:
        """Heights [m] on the very triangles of `shapes.grid_terrain`; beyond the edge, that of the edge."""
        ny, nx = self.z.shape
        u = np.clip(np.asarray(x, dtype=np.float64) / self.cell[0] + (nx - 1) / 2, 0.0, nx - 1.0)
        v = np.clip(np.asarray(y, dtype=np.float64) / self.cell[1] + (ny - 1) / 2, 0.0, ny - 1.0)
        i, j = np.minimum(u.astype(int), nx - 2), np.minimum(v.astype(int), ny - 2)
        s, t = u - i, v - j
        low, high = self.z[j, i], self.z[j + 1, i + 1]
        below = low + s * (self.z[j, i + 1] - low) + t * (high - self.z[j, i + 1])
        above = low + t * (self.z[j + 1, i] - low) + s * (high - self.z[j + 1, i])
        return np.where(s >= t, below, above)


def fractal_heights(shape: tuple[int, int], cell: tuple[float, float], hurst: float, seed: int) -> Floats:
    """A fractal surface (ny, nx) of mean 0 and standard deviation 1 over the grid; see the head of this module."""
    noise = Stream(seed, "world/terrain").generator().normal(size=shape)
    k = np.hypot(np.fft.fftfreq(shape[0], cell[1])[:, None], np.fft.rfftfreq(shape[1], cell[0])[None, :])
    k[0, 0] = np.inf
    surface = np.fft.irfft2(np.fft.rfft2(noise) * k ** -(hurst + 1.0), s=shape)
    return surface / surface.std()


@lru_cache(maxsize=8)
def height_field(terrain: LayoutObject) -> HeightField:
    """The heights of a terrain, in its own frame."""
    params = terrain.params
    if not isinstance(params, TerrainParams):
        raise ConfigError(f"layout: a {terrain.kind} has no height field, only a terrain has one")
    length, width, _ = terrain.size
    if params.heights_m is not None:
        given = np.array(params.heights_m, dtype=np.float64)
        return HeightField(given, (length / (given.shape[1] - 1), width / (given.shape[0] - 1)))
    # An odd number of grid points puts one on the origin.
    nx, ny = (2 * max(1, round(side / params.cell_m / 2)) + 1 for side in (length, width))
    if nx * ny > LARGEST_GRID:
        raise ConfigError(f"terrain: cell_m {params.cell_m:g} m gives {nx} x {ny} grid points, {LARGEST_GRID} at most")
    cell = (length / (nx - 1), width / (ny - 1))
    z = params.roughness_m * fractal_heights((ny, nx), cell, params.hurst, params.seed)
    field = HeightField(z, cell)
    if params.track:
        field = HeightField(_with_track(field, params), cell)
    return HeightField(np.round(field.z - field.z[ny // 2, nx // 2], 3) + 0.0, cell)


def _with_track(field: HeightField, params: TerrainParams) -> Floats:
    """The heights with the track's own level, evened out along it, and shoulders to both sides."""
    ny, nx = field.z.shape
    x = (np.arange(nx) - (nx - 1) / 2) * field.cell[0]
    y = (np.arange(ny) - (ny - 1) / 2) * field.cell[1]
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    line = along_line(params.track, 1.0)
    way = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
    weight = np.exp(-0.5 * ((way[:, None] - way) / (_EVEN_M / 2)) ** 2)
    level = weight @ field.at(line[:, 0], line[:, 1]) / weight.sum(axis=1)
    # Half a cell more than the track is level, so that the triangles under its edge are.
    edge = params.track_width_m / 2 + max(field.cell) / 2
    rows = beside_line(grid, line, edge + _SHOULDER_M)
    distance, along = to_line(grid[rows], line)
    share = np.clip((distance - edge) / _SHOULDER_M, 0.0, 1.0)
    share = share * share * (3.0 - 2.0 * share)
    z = field.z.ravel().copy()
    z[rows] = share * z[rows] + (1.0 - share) * np.interp(along, way, level)
    return z.reshape(ny, nx)


def ground_height(layout: Layout, x: ArrayLike, y: ArrayLike) -> Floats:
    """Height of the ground [m] in the layout at `x`, `y`: the first terrain's, else 0."""
    for thing in layout.objects:
        if thing.kind == "terrain":
            dx, dy = np.asarray(x, dtype=np.float64) - thing.pose.xyz[0], np.asarray(y) - thing.pose.xyz[1]
            cos, sin = np.cos(np.radians(thing.pose.yaw_deg)), np.sin(np.radians(thing.pose.yaw_deg))
            return thing.pose.xyz[2] + height_field(thing).at(cos * dx + sin * dy, cos * dy - sin * dx)
    return np.zeros(np.broadcast_shapes(np.shape(x), np.shape(y)))
