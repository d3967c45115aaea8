"""Guided sampling of indirect light: directions from which light arrives, learned per tile of the image.

Indoors, most indirect light comes through doors and windows, or from the sunlit floor next to them. Directions drawn by
the cosine rarely hit such small bright areas, and the few that do leave white speckles. Rays from the centre of each
tile estimate the light by direction; three quarters of the directions of a pixel are then drawn from this distribution,
and the others from the BRDF. The mixture leaves the estimate unbiased, whatever the distribution is.

Source: the mixture is that of T. Müller, M. Gross, J. Novák, "Practical path guiding for efficient light-transport
simulation", Computer Graphics Forum 36, 2017, here with a fixed grid of directions and tiles of the image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Float, Int, Vectors, namespace
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine

TILE_PX = 8
"""Side of a tile [pixel]."""
TEST_RAYS, RAYS = 4, 128
"""Rays per tile that decide whether a guide is needed, and rays per tile that build it."""
HEIGHTS, AZIMUTHS = 16, 32
"""Bins of the direction sphere: equal steps of the z component and of y / (|x| + |y|), which replaces the azimuth: LLVM
15 cannot compile atan2 in some places. Solid angles of the bins differ by a factor of 2 at most."""
BINS = HEIGHTS * AZIMUTHS
SHARE = 0.75
"""Probability of a guided direction."""
LEAST_CONTRAST = 6.0
"""Relative second moment of the light under cosine sampling from which a guide is used; an open sky has about 2."""


@kernel_tree()
@dataclass
class Guide:
    """Cumulative distributions over direction bins, one per tile."""

    down: Int
    """Rows of tiles."""
    across: Int
    """Tiles per row."""
    cumulative: Float
    """Cumulative probabilities, BINS + 1 numbers per tile."""

    @classmethod
    def of(cls, engine: Engine, tiles: tuple[int, int], bins: NDArray[Any], light: NDArray[Any]) -> Guide:
        """Guide from rays of all tiles: bin and radiance of each."""
        count = tiles[0] * tiles[1]
        tile = np.repeat(np.arange(count), len(bins) // count)
        found = np.bincount(tile * BINS + bins, light, count * BINS).astype(np.float32)
        found = _spread(_with_neighbours(found.reshape(*tiles, BINS)))
        total = found.sum(axis=-1, keepdims=True)
        # A twentieth of the draws is uniform, so that no bin has a probability of 0.
        share = np.where(total > 0.0, 0.95 * found / np.maximum(total, 1e-30) + 0.05 / BINS, 1.0 / BINS)
        rising = np.cumsum(share, axis=-1, dtype=np.float64)
        table = np.zeros((*tiles, BINS + 1), np.float32)
        table[..., 1:] = rising / rising[..., -1:]
        return cls(engine.whole(tiles[0]), engine.whole(tiles[1]), engine.table(table))

    def tile(self, row: Int, column: Int, u: tuple[Float, Float]) -> Int:
        """Tile for a pixel, jittered by up to half a tile so that tiles leave no edges in the image."""
        mi = running_engine().mi
        found = []
        for at, jitter, size in ((row, u[0], self.down), (column, u[1], self.across)):
            place = (mi.Float(at) + 0.5) * (1.0 / TILE_PX) + jitter - 0.5
            xp = namespace(place)
            found.append(mi.UInt32(xp.clip(place, 0.0, mi.Float(size) - 0.5)))
        return found[0] * self.across + found[1]

    def sampled(self, tile: Int, u: tuple[Float, Float, Float]) -> Vectors:
        """Direction from three uniform numbers: the last one selects the bin."""
        dr, mi = running_engine().dr, running_engine().mi
        start = tile * (BINS + 1)
        low = mi.UInt32(0)
        step = BINS // 2
        while step:
            below = dr.gather(mi.Float, self.cumulative, start + low + step) <= u[2]
            low = dr.select(below, low + step, low)
            step //= 2
        height = low // AZIMUTHS
        z = (mi.Float(height) + u[0]) * (2.0 / HEIGHTS) - 1.0
        turn = (mi.Float(low - height * AZIMUTHS) + u[1]) * (4.0 / AZIMUTHS)
        turn = dr.select(turn > 3.0, turn - 4.0, turn)
        y = dr.select(turn > 1.0, 2.0 - turn, turn)
        x = 1.0 - dr.abs(y)
        x = dr.select(turn > 1.0, -x, x)
        level = dr.sqrt(namespace(z).maximum(1.0 - z * z, 0.0) / (x * x + y * y))
        return mi.Vector3f(level * x, level * y, z)

    def probability(self, tile: Int, direction: Vectors) -> Float:
        """Probability density of a direction [1/sr]."""
        dr, mi = running_engine().dr, running_engine().mi
        at = tile * (BINS + 1) + bin_of(direction)
        share = dr.gather(mi.Float, self.cumulative, at + 1) - dr.gather(mi.Float, self.cumulative, at)
        sides = dr.abs(direction.x) + dr.abs(direction.y)
        square = direction.x * direction.x + direction.y * direction.y
        return share * (BINS / 8.0) * square / namespace(sides).maximum(sides * sides, 1e-12)


def bin_of(direction: Vectors) -> Int:
    """Bin number of unit directions."""
    dr, mi = running_engine().dr, running_engine().mi
    xp = namespace(direction.z)
    height = mi.UInt32(xp.clip((direction.z + 1.0) * (0.5 * HEIGHTS), 0.0, HEIGHTS - 0.5))
    side = direction.y / xp.maximum(dr.abs(direction.x) + dr.abs(direction.y), 1e-12)
    turn = dr.select(direction.x < 0.0, 2.0 - side, dr.select(side < 0.0, side + 4.0, side))
    return height * AZIMUTHS + mi.UInt32(xp.clip(turn * (AZIMUTHS / 4.0), 0.0, AZIMUTHS - 0.5))


def contrast(tiles: tuple[int, int], light: NDArray[Any]) -> float:
    """Relative second moment of the radiance of diffuse rays, mean over groups of 3 x 3 tiles; 1 for uniform light."""
    rays = light.reshape(*tiles, -1).astype(np.float64)
    first, second = (_with_neighbours((rays**k).mean(axis=-1, keepdims=True)) / 9.0 for k in (1, 2))
    lit = first > 0.0
    return float(np.mean(second[lit] / first[lit] ** 2)) if lit.any() else 1.0


def tiles_of(width: int, height: int) -> tuple[int, int]:
    """Rows and columns of tiles of an image."""
    return -(-height // TILE_PX), -(-width // TILE_PX)


def _spread(values: NDArray[Any]) -> NDArray[Any]:
    """Light of each bin spread to its neighbours, because an opening appears in other directions from other pixels."""
    grid = values.reshape(*values.shape[:2], HEIGHTS, AZIMUTHS)
    grid = 0.5 * grid + 0.25 * (np.roll(grid, 1, axis=-1) + np.roll(grid, -1, axis=-1))
    edges = np.pad(grid, ((0, 0), (0, 0), (1, 1), (0, 0)), mode="edge")
    return np.asarray(0.5 * grid + 0.25 * (edges[:, :, :-2] + edges[:, :, 2:])).reshape(values.shape)


def _with_neighbours(values: NDArray[Any]) -> NDArray[Any]:
    """Sum over 3 x 3 tiles, edges repeated, shape (rows, columns, n)."""
    around = np.pad(values, ((1, 1), (1, 1), (0, 0)), mode="edge")
    rows, columns = values.shape[:2]
    down = around[:rows] + around[1 : rows + 1] + around[2:]
    return np.asarray(down[:, :columns] + down[:, 1 : columns + 1] + down[:, 2:])
