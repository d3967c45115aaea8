"""Capsules on a grid of pixels: discs that moved along a line while the shutter was open."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_MOST_FRAGMENTS = 2_000_000
"""Fragments that are worked on at a time."""


class Fragments(NamedTuple):
    """Pixels that capsules touch."""

    pixel: NDArray[np.int64]
    """Number of the pixel, row after row."""
    capsule: NDArray[np.int64]
    """Number of the capsule."""
    coverage: Floats
    """Share of the pixel within it, above 0 up to 1. Of capsules that are thinner than a pixel, it is their width's."""


def capsules(start: Floats, end: Floats, width_px: Floats, width: int, height: int) -> Iterator[Fragments]:
    """Fragments of capsules from `start` to `end` (n, 2) [pixel], in batches, ordered by capsule.

    An edge is a ramp of one pixel, so that sums over pixels keep the area (`drawn_area`).
    """
    if len(start) == 0:
        return
    radius = np.maximum(0.5 * width_px, 0.5)
    thin = np.minimum(width_px, 1.0)
    reach = radius + 0.5
    step = end - start
    steep = np.abs(step[:, 1]) > np.abs(step[:, 0])
    # Along the axis on which it is longer ("along"), a capsule has few pixels across.
    along = np.where(steep[:, None], start[:, ::-1], start)
    run = np.where(steep[:, None], step[:, ::-1], step)
    slope = np.divide(run[:, 1], run[:, 0], out=np.zeros(len(run)), where=run[:, 0] != 0.0)
    half = reach * np.sqrt(1.0 + slope * slope)
    size = np.where(steep, height, width)
    low = np.maximum(np.ceil(np.minimum(along[:, 0], along[:, 0] + run[:, 0]) - reach), 0.0)
    high = np.minimum(np.floor(np.maximum(along[:, 0], along[:, 0] + run[:, 0]) + reach), size - 1.0)
    many = np.maximum(high - low + 1.0, 0.0).astype(np.int64)
    across = np.ceil(2.0 * half).astype(np.int64) + 1
    each = many * across
    total = np.cumsum(each)
    first = total - each
    bounds = [0]
    while bounds[-1] < len(total):
        done = int(total[bounds[-1] - 1]) if bounds[-1] else 0
        bounds.append(max(int(np.searchsorted(total, done + _MOST_FRAGMENTS, side="right")), bounds[-1] + 1))
    for a, b in pairwise(bounds):
        number = np.repeat(np.arange(a, b), each[a:b])
        place = np.arange(len(number)) - np.repeat(first[a:b] - first[a], each[a:b])
        main = low[number] + place // across[number]
        middle = along[number, 1] + slope[number] * (main - along[number, 0])
        side = np.ceil(middle - half[number]) + place % across[number]
        yield _covered(number, main, side, steep, start, step, radius, thin, width, height)


def _covered(
    number: NDArray[np.int64], main: Floats, side: Floats, steep: NDArray[np.bool_], start: Floats, step: Floats,
    radius: Floats, thin: Floats, width: int, height: int,
) -> Fragments:  # fmt: skip
    """Those of the pixels that lie in the picture and in their capsule."""
    turned = steep[number]
    u, v = np.where(turned, side, main), np.where(turned, main, side)
    x, y = u - start[number, 0], v - start[number, 1]
    length = (step * step).sum(axis=1)[number]
    share = (x * step[number, 0] + y * step[number, 1]) / np.maximum(length, 1e-12)
    share = np.clip(share, 0.0, 1.0)
    away = np.hypot(x - share * step[number, 0], y - share * step[number, 1])
    coverage = np.clip(radius[number] + 0.5 - away, 0.0, 1.0) * thin[number]
    seen = (coverage > 0.0) & (u >= 0) & (u < width) & (v >= 0) & (v < height)
    pixel = (v[seen] * width + u[seen]).astype(np.int64)
    return Fragments(pixel, number[seen], coverage[seen])


def drawn_area(length_px: Any, width_px: Any) -> Any:
    """Sum of the coverage of a capsule's pixels: its length times its width, its two ends, and their ramp of one pixel.

    Thin ones are drawn one pixel wide and fainter.
    """
    drawn, thin = np.maximum(width_px, 1.0), np.minimum(width_px, 1.0)
    return thin * (drawn * length_px + 0.25 * np.pi * drawn * drawn + np.pi / 12.0)
