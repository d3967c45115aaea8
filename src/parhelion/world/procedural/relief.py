"""The height of the ground: that of streets and quays, and rolling terrain by a fractal rule with a track in it.

Rule: spectral synthesis (Voss 1985). White noise is given the spectrum k^-(hurst + 1) in amplitude, which makes a
surface whose height differences grow with distance to the power `hurst`; natural relief lies near 0.5 to 0.9
(Turcotte 1997). Heights are whole millimetres, so that rounding of a transform cannot show.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.core.random import Stream
from parhelion.world.kit.city_ground import BLOCK_HALF, KERB_HEIGHT, PITCH
from parhelion.world.procedural.footprints import (
    BRIDGE_PIER_M,
    BRIDGE_ROAD_M,
    Footprints,
    along_line,
    beside_line,
    to_line,
)
from parhelion.world.procedural.kinds import BasinParams, BridgeParams, StreetsParams, TerrainParams
from parhelion.world.procedural.layout import Layout, LayoutObject

LARGEST_GRID = 4_000_000
"""Grid points of one terrain at most."""
_SHOULDER_M = 3.0
"""Width over which a track's level runs out into the terrain beside it."""
_LONGEST_TRACK_M = 6000
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
    if len(line) > _LONGEST_TRACK_M:
        raise ConfigError(f"terrain: its track must be {_LONGEST_TRACK_M} m long at most, got {len(line)}")
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
    """Height of the ground [m] in the layout at `x`, `y`: that of the first terrain, streets or basin, else 0.

    Streets are 0 and blocks as high as their kerbs; of a basin it is the water's level, or that of the quays.
    """
    for thing in layout.objects:
        if thing.kind in ("terrain", "streets", "basin"):
            u, v = in_frame(thing, x, y)
            return thing.pose.xyz[2] + _own_height(thing, u, v)
    return np.zeros(np.broadcast_shapes(np.shape(x), np.shape(y)))


def in_frame(thing: LayoutObject, x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Points of the plan in a thing's own frame [m]."""
    dx, dy = np.asarray(x, dtype=np.float64) - thing.pose.xyz[0], np.asarray(y) - thing.pose.xyz[1]
    cos, sin = np.cos(np.radians(thing.pose.yaw_deg)), np.sin(np.radians(thing.pose.yaw_deg))
    return cos * dx + sin * dy, cos * dy - sin * dx


def _own_height(thing: LayoutObject, u: Floats, v: Floats) -> Floats:
    params = thing.params
    if isinstance(params, StreetsParams):
        return np.where(_on_block(params.blocks, u, v), KERB_HEIGHT, 0.0)
    if isinstance(params, BasinParams):
        return np.where(_on_water(thing, u, v), 0.0, thing.size[2])
    return height_field(thing).at(u, v)


def _on_block(blocks: int, u: Floats, v: Floats) -> NDArray[np.bool_]:
    """Whether points lie inside the kerbs of a block: a square with rounded corners."""
    half = blocks * PITCH / 2
    radius = 4.0
    beyond = [np.abs(np.mod(w + half, PITCH) - PITCH / 2) - (BLOCK_HALF - radius) for w in (u, v)]
    inside = np.hypot(np.maximum(beyond[0], 0.0), np.maximum(beyond[1], 0.0)) <= radius
    return inside & (np.maximum(np.abs(u), np.abs(v)) < half)


def _on_water(basin: LayoutObject, u: Floats, v: Floats) -> NDArray[np.bool_]:
    return (np.abs(u) < basin.size[0] / 2) & (np.abs(v) < basin.size[1] / 2)


def on_water(layout: Layout, x: ArrayLike, y: ArrayLike) -> NDArray[np.bool_] | None:
    """Whether points of the plan lie on the water of a basin; None where the layout has none."""
    basins = [thing for thing in layout.objects if thing.kind == "basin"]
    if not basins:
        return None
    return np.logical_or.reduce([_on_water(basin, *in_frame(basin, x, y)) for basin in basins])


def bridge_height(layout: Layout, x: ArrayLike, y: ArrayLike) -> Floats:
    """Height of the road [m] on the arch of a bridge at `x`, `y`, NaN where there is none."""
    height = np.full(np.broadcast_shapes(np.shape(x), np.shape(y)), np.nan)
    for thing in layout.objects:
        if isinstance(thing.params, BridgeParams):
            u, v = in_frame(thing, x, y)
            there = (np.abs(u) < thing.size[0] / 2) & (np.abs(v) < thing.params.span_m / 2 + BRIDGE_PIER_M - 1.0)
            height = np.where(there, thing.pose.xyz[2] + thing.params.crown_m + BRIDGE_ROAD_M, height)
    return height


def in_the_way(
    layout: Layout, things: Footprints, height_m: float, at: tuple[float, float] | None = None
) -> NDArray[np.bool_]:
    """Which footprints are in the way of something `height_m` high that goes over the ground, shape (n,).

    Quays are in the way of what is on the water: `at` says where it is, by default at the viewpoint or the drive's
    start.
    """
    ground = ground_height(layout, things.middle[:, 0], things.middle[:, 1])
    quays = np.array([layout.objects[row].kind == "basin" for row in things.row], dtype=bool)
    if quays.any():
        if at is None:
            at = (
                layout.viewpoint.xyz[:2] if layout.viewpoint else layout.drive.points[0] if layout.drive else (0.0, 0.0)
            )
        ground = np.where(quays, ground_height(layout, *at), ground)
    return (things.low < ground + height_m) & (things.high > ground)
