"""Pixels of a turn that lie on flat surfaces: where they are, and how the surface is turned to the beam."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.range_images import Floats, RangeImage, clean
from parhelion.core.arrays import Table

WINDOW = (3, 9)
"""Rows and columns around a pixel that its plane is fitted to."""
FULL = 0.8
"""Share of the window that must have returned."""
ROUGH_M, ROUGH_PER_M = 0.01, 0.004
"""Scatter about the plane up to which a window counts as flat, and its growth with range: noise grows with it."""
LEAST_SPREAD = 3.0
"""By how much the points of a window spread along the plane more than across it."""


@dataclass(frozen=True, eq=False)
class FlatPixels(Table):
    """Flat pixels of one turn, in the sensor frame, one row each."""

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    """Place in the turn's images, shape (n,)."""
    point: Floats
    """Shape (n, 3) [m]."""
    normal: Floats
    """Unit normal towards the sensor, shape (n, 3)."""
    cosine: Floats
    """Of the angle of incidence, shape (n,)."""
    turn_share: Floats
    """How much of the turn had gone by, 0 to 1."""

    @property
    def place(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Index into the turn's images."""
        return self.row, self.column


def flat_pixels(turn: RangeImage) -> FlatPixels:
    """The pixels of one turn whose neighbours lie on one plane with them."""
    from scipy.ndimage import uniform_filter

    if turn.direction is None or turn.origin is None:
        empty = np.zeros((0, 3))
        none = np.zeros(0, np.int64)
        return FlatPixels(none, none, empty, empty, np.zeros(0), np.zeros(0))
    there = np.isfinite(turn.range)
    metres = np.where(there, turn.range, 0.0)[..., None]
    point = np.where(there[..., None], turn.origin + metres * turn.direction, 0.0)

    def mean(image: Floats) -> Floats:
        return np.asarray(uniform_filter(image, WINDOW, mode=("constant", "wrap")))

    share = mean(there.astype(np.float64))
    known = np.maximum(share, 1e-9)
    middle = np.stack([mean(point[..., k]) / known for k in range(3)], axis=-1)
    spread = np.empty((*turn.range.shape, 3, 3))
    for i in range(3):
        for j in range(i, 3):
            spread[..., i, j] = mean(point[..., i] * point[..., j]) / known - middle[..., i] * middle[..., j]
            spread[..., j, i] = spread[..., i, j]
    near = there & (share >= FULL) & clean(turn)
    place = np.nonzero(near)
    size, axes = np.linalg.eigh(spread[place])
    scatter = np.sqrt(np.maximum(size[:, 0], 0.0))
    flat = (scatter < ROUGH_M + ROUGH_PER_M * turn.range[place]) & (size[:, 1] > LEAST_SPREAD**2 * size[:, 0])
    place = (place[0][flat], place[1][flat])
    normal, along = axes[flat, :, 0], turn.direction[place]
    slope = np.einsum("ij,ij->i", normal, along)
    normal = normal * -np.sign(slope)[:, None]
    columns = place[1] / max(turn.range.shape[1] - 1, 1)
    return FlatPixels(*place, point[place], normal, np.abs(slope), columns)
