"""Procedural patterns: variation of the diffuse reflectance over a surface, such as bricks, aggregate and bark.

A pattern is a periodic tile with two channels, brightness A and share w of a second material (mortar between bricks,
soil between blades of grass). The factor on the diffuse reflectance rho of the surface, in a band in which the second
material has the reflectance rho_2, is

    f = A (1 + (rho_2 / rho - 1) w) / m,  m = mean(A) + (rho_2 / rho - 1) mean(A w)

so its mean over the tile is 1 in every band: patterns change the spread of a material, and never its mean. Where f rho
would exceed 1, f - 1 is reduced by one factor for the whole tile. Stains of some metres multiply the factor by 1 + s S,
where S has mean 0 and standard deviation 1.

Coordinates are metres along the surface. Level ground uses x and y; walls and roofs use the horizontal direction within
the surface and the direction up the slope, so that courses of bricks are level on walls of any heading. Each tile is
stored with its averages over 2 x 2, 4 x 4, ... texels (a mip map, L. Williams, "Pyramidal parametrics", SIGGRAPH 1983),
from which a footprint reads the level of its own size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from parhelion.core.arrays import Ints, Reals, namespace
from parhelion.core.config import Config
from parhelion.core.random import Stream
from parhelion.surfaces.texture import sample_texture

Floats = NDArray[np.float64]
Kind = Literal["aggregate", "ashlar", "bark", "bricks", "fibres", "grain", "leaves", "planks", "rust", "tiles"]

SIDE = 512
"""Texels along each side of a tile."""
LEVELS = 10
"""Levels of the mip map, from SIDE texels to one."""
TILE_WORDS = (4 * SIDE * SIDE - 1) // 3
"""Texels of a tile with all levels."""
LARGEST = 4.0
"""Brightness and its product with the share lie below this value."""
LEVEL_COSINE = 0.9
"""Surfaces within 26 degrees of level use x and y as coordinates."""
STAIN_LEVEL = 2
"""Level at which stains are read: 128 texels, of 0.2 m on 25 m."""
STAIN_SPREAD = 3.0
"""Largest stain, in standard deviations."""


class Pattern(Config):
    """Variation of a material's reflectance over its surface."""

    kind: Kind
    """Tile: aggregate (asphalt, gravel), ashlar (blocks of stone), bark, bricks, fibres (board, cloth), grain (fine
    noise), leaves (grass), planks, rust, or tiles (roofs)."""
    period_m: Annotated[float, Field(gt=0, le=100)]
    """Side of a tile [m]."""
    second: str = ""
    """Library material of the tile's second channel; empty for none."""
    stains: Annotated[float, Field(ge=0, le=0.3)] = 0.0
    """Standard deviation of the stains, relative to the reflectance."""
    stains_m: Annotated[float, Field(gt=0, le=1000)] = 25.0
    """Side of the tile of stains [m]; its stains are about a twentieth to a half as wide."""


# ---- tiles ----------------------------------------------------------------------------------------------------------


def _noise(rng: np.random.Generator, low: float, high: float, *, slope: float = 0.0, stretch: float = 1.0) -> Floats:
    """Periodic noise of mean 0 and variance 1 with `low` to `high` cycles per tile; amplitude falls as f^-slope.

    Features are `stretch` times longer along v (up) than along u.
    """
    white = np.fft.rfft2(rng.standard_normal((SIDE, SIDE)))
    v = np.fft.fftfreq(SIDE, 1.0 / SIDE)[:, None] * stretch
    u = np.fft.rfftfreq(SIDE, 1.0 / SIDE)[None, :]
    cycles = np.hypot(u, v)
    gain = np.where((cycles >= low) & (cycles <= high), np.maximum(cycles, 1.0) ** -slope, 0.0)
    found = np.fft.irfft2(white * gain, s=(SIDE, SIDE))
    return np.asarray((found - found.mean()) / found.std())


def _soft(values: Floats, edge: float) -> Floats:
    """Smooth step from 0 to 1 around 0, `edge` wide."""
    t = np.clip(values / edge + 0.5, 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


def _courses(
    rng: np.random.Generator, columns: int, rows: int, joint: float, *, bond: float, spread: float
) -> tuple[Floats, Floats, Floats]:
    """Brightness of the bricks, share of the joints, and height 0 to 1 within a course.

    `joint` is its width as a share of the tile, `bond` the shift of every second course in bricks, and `spread` the
    standard deviation of the logarithm of the bricks' brightness.
    """
    at = (np.arange(SIDE) + 0.5) / SIDE
    v, u = np.meshgrid(at[::-1], at, indexing="ij")
    row = np.floor(v * rows)
    along = u * columns + bond * (row % 2)
    column = np.floor(along) % columns
    level = np.exp(spread * rng.standard_normal((rows, columns)))
    across = (along % 1.0) / columns
    up = (v * rows) % 1.0
    near = np.minimum(np.minimum(across, 1.0 / columns - across), np.minimum(up, 1.0 - up) / rows)
    share = 1.0 - _soft(near - 0.5 * joint, 1.5 / SIDE)
    return level[row.astype(int), column.astype(int)], share, up


def _aggregate(rng: np.random.Generator) -> tuple[Floats, Floats]:
    stones = _noise(rng, 60.0, 200.0)
    return np.exp(0.25 * stones + 0.10 * _noise(rng, 4.0, 40.0, slope=0.5)), _soft(stones - 1.2, 1.0)


def _ashlar(rng: np.random.Generator) -> tuple[Floats, Floats]:
    level, share, _ = _courses(rng, 4, 8, 0.004, bond=0.5, spread=0.10)
    return level * np.exp(0.08 * _noise(rng, 6.0, 220.0, slope=0.5)), share


def _bark(rng: np.random.Generator) -> tuple[Floats, Floats]:
    ridges, fine = _noise(rng, 10.0, 80.0, slope=0.6, stretch=4.0), _noise(rng, 30.0, 230.0, stretch=2.0)
    return (1.0 - 0.65 * _soft(ridges - 0.5, 1.4)) * np.exp(0.14 * fine), np.zeros_like(ridges)


def _bricks(rng: np.random.Generator) -> tuple[Floats, Floats]:
    level, share, _ = _courses(rng, 8, 24, 0.005, bond=0.5, spread=0.16)
    return level * np.exp(0.10 * _noise(rng, 20.0, 220.0, slope=0.4)), share


def _fibres(rng: np.random.Generator) -> tuple[Floats, Floats]:
    found = np.exp(0.04 * _noise(rng, 20.0, 220.0, stretch=0.3) + 0.04 * _noise(rng, 1.0, 12.0, slope=1.0))
    return found, np.zeros_like(found)


def _grain(rng: np.random.Generator) -> tuple[Floats, Floats]:
    found = np.exp(0.06 * _noise(rng, 40.0, 230.0, slope=0.3) + 0.06 * _noise(rng, 2.0, 40.0, slope=1.0))
    return found, np.zeros_like(found)


def _leaves(rng: np.random.Generator) -> tuple[Floats, Floats]:
    blades, patches = _noise(rng, 40.0, 230.0), _noise(rng, 2.0, 30.0, slope=0.8)
    return np.exp(0.22 * blades + 0.12 * patches), _soft(patches + 0.5 * blades - 1.3, 1.6)


def _planks(rng: np.random.Generator) -> tuple[Floats, Floats]:
    level, share, _ = _courses(rng, 1, 16, 0.003, bond=0.37, spread=0.10)
    return level * np.exp(0.12 * _noise(rng, 8.0, 200.0, slope=0.4, stretch=0.1)) * (1.0 - 0.5 * share), 0.0 * share


def _rust(rng: np.random.Generator) -> tuple[Floats, Floats]:
    scale, fine = _noise(rng, 1.0, 60.0, slope=1.2), _noise(rng, 40.0, 230.0)
    return np.exp(0.22 * scale + 0.10 * fine), np.zeros_like(fine)


def _tiles(rng: np.random.Generator) -> tuple[Floats, Floats]:
    level, share, up = _courses(rng, 8, 6, 0.006, bond=0.0, spread=0.12)
    # The upper end of each tile lies in the shade and the dirt of the one above it.
    return level * (1.0 - 0.25 * up) * (1.0 - 0.5 * share) * np.exp(0.06 * _noise(rng, 20.0, 220.0)), 0.0 * share


TILES: Mapping[Kind, Callable[[np.random.Generator], tuple[Floats, Floats]]] = {
    "aggregate": _aggregate,
    "ashlar": _ashlar,
    "bark": _bark,
    "bricks": _bricks,
    "fibres": _fibres,
    "grain": _grain,
    "leaves": _leaves,
    "planks": _planks,
    "rust": _rust,
    "tiles": _tiles,
}
"""Functions that draw brightness and share of each kind of tile; row 0 is at the top."""


def tile(kind: Kind) -> tuple[Floats, Floats]:
    """Brightness of mean 1 and share of the second material, each of shape (SIDE, SIDE)."""
    bright, share = TILES[kind](Stream(0, f"surfaces/pattern/{kind}").generator())
    bright = np.clip(bright / bright.mean(), 0.1, 2.5)
    return bright / bright.mean(), share


def stains() -> Floats:
    """Stains of mean 0 and standard deviation 1, shape (SIDE, SIDE)."""
    found = _noise(Stream(0, "surfaces/pattern/stains").generator(), 1.0, 60.0, slope=1.3)
    found = np.clip(found, -STAIN_SPREAD, STAIN_SPREAD)
    return np.asarray((found - found.mean()) / found.std())


@dataclass(frozen=True, eq=False)
class PackedTile:
    """Levels of a tile as words of two 16-bit channels in units of LARGEST / 65535."""

    words: NDArray[np.uint32]
    """Row-major words of all levels, the largest first, shape (TILE_WORDS,)."""
    mean: float
    """Mean of the first channel."""
    mean_share: float
    """Mean of the second channel."""

    def channels(self, level: int) -> Floats:
        """Channels of one level, shape (2, texels)."""
        start = (SIDE * SIDE - (SIDE >> level) ** 2) // 3 * 4
        words = self.words[start : start + (SIDE >> level) ** 2]
        return np.stack([words & 0xFFFF, words >> 16]) * (LARGEST / 65535.0)

    def mix(self, reflectance: float, second: float, stain: float = 0.0) -> tuple[float, float, float]:
        """Weights of the channels A and A w and of 1, by the reflectances of both materials.

        The mean over the tile is 1. The contrast is reduced where, `stain` above the mean of the stains, the brightest
        place of the second level would reflect more light than it receives.
        """
        ratio = second / max(reflectance, 1e-6)
        mean = self.mean + (ratio - 1.0) * self.mean_share
        weights = 1.0 / mean, (ratio - 1.0) / mean
        brightest = float((np.array(weights) @ self.channels(1)).max())
        room = max(1.0 / max(reflectance * (1.0 + stain), 1e-6) - 1.0, 0.0)
        contrast = min(1.0, room / max(brightest - 1.0, 1e-6))
        return contrast * weights[0], contrast * weights[1], 1.0 - contrast


@lru_cache(maxsize=len(TILES) + 1)
def packed_tile(kind: Kind | Literal["stains"]) -> PackedTile:
    """Tile with the channels A and A w; that of the stains has S + STAIN_SPREAD, in units of the range of S, and 0."""
    if kind == "stains":
        first = np.clip(stains() + STAIN_SPREAD, 0.0, 2.0 * STAIN_SPREAD) * (LARGEST / (2.0 * STAIN_SPREAD))
        channels = np.stack([first, np.zeros_like(first)])
    else:
        bright, share = tile(kind)
        channels = np.stack([bright, bright * share])
    mean, mean_share = channels.mean(axis=(1, 2)).tolist()
    words = []
    for _ in range(LEVELS):
        codes = np.round(channels * (65535.0 / LARGEST)).astype(np.uint32)
        words.append((codes[0] | (codes[1] << 16)).ravel())
        half = channels.shape[1] // 2
        if half:
            channels = channels.reshape(2, half, 2, half, 2).mean(axis=(2, 4))
    together = np.concatenate(words)
    together.setflags(write=False)
    return PackedTile(together, mean, mean_share)


# ---- lookup ---------------------------------------------------------------------------------------------------------


def surface_coordinates(place: Any, normal: Any) -> tuple[Reals, Reals]:
    """Coordinates u, v [m] of points on surfaces; `place` and `normal` have x, y and z. Both sides give the same."""
    x, y, z = place
    nx, ny, nz = normal
    xp = namespace(x, nx)
    level = xp.abs(nz) > LEVEL_COSINE
    # The same normal for both sides of a surface: upwards, or for walls in one half of the directions.
    half = xp.where(xp.abs(nz) > 1e-3, nz, nx + 0.41 * ny)
    sign = xp.where(half < 0.0, -1.0, 1.0)
    run = sign / xp.sqrt(xp.maximum(nx * nx + ny * ny, 1e-12))
    right_x, right_y = -ny * run, nx * run
    along = x * right_x + y * right_y
    # Up the slope: the cross product of the normal and the direction to the right, which is z for walls.
    up = sign * (nz * (right_x * y - right_y * x) + (nx * right_y - ny * right_x) * z)
    return xp.where(level, x, along), xp.where(level, y, up)


def level_of(footprint: Reals, period: Reals) -> Ints:
    """Level of the mip map whose texels are at least as large as a footprint [m]."""
    xp = namespace(footprint, period)
    octaves = xp.log(xp.maximum(footprint / period * SIDE, 1.0)) * (1.0 / np.log(2.0))
    return xp.uint32(xp.minimum(octaves + 0.5, LEVELS - 1.0))


def channels_at(
    u: Reals, v: Reals, level: Ints, start: Ints, words: Any, read: Callable[[Any, Any], Any], *, bilinear: bool = True
) -> Any:
    """Channels of a tile at (u, v) in periods, interpolated within a level; `start` is the tile's first word.

    `read` reads a word and returns the pair of channels. Without `bilinear`, they are those of the nearest texel.
    """
    whole: Any = 0 * level + SIDE
    side = whole >> level
    return sample_texture(
        u,
        v,
        texels=words,
        offset=start + (SIDE * SIDE - side * side) // 3 * 4,
        width=side,
        height=side,
        bilinear=bilinear,
        read=read,
    )
