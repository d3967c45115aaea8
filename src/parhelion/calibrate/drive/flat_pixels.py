"""Pixels of a frame on flat surfaces: their positions, and the orientation of the surface to the beam."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.range_images import Floats, RangeImage, clean
from parhelion.core.arrays import Table

WINDOW = (3, 9)
"""Rows and columns of the window to which the plane of a pixel is fitted."""
FULL = 0.8
"""Share of the window that must have returned."""
ROUGH_M, ROUGH_PER_M = 0.01, 0.004
"""Largest scatter about the plane of a flat window, and its growth with range, because noise grows with range."""
LEAST_SPREAD = 3.0
"""Smallest ratio of the spread of a window's points along the plane to that across it."""


@dataclass(frozen=True, eq=False)
class FlatPixels(Table):
    """Flat pixels of one frame in the sensor frame, one row per pixel."""

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    """Row and column in the images of the frame, shape (n,)."""
    point: Floats
    """Position [m], shape (n, 3)."""
    normal: Floats
    """Unit normal towards the sensor, shape (n, 3)."""
    cosine: Floats
    """Cosine of the angle of incidence, shape (n,)."""
    turn_share: Floats
    """Elapsed share of the frame, 0 to 1."""

    @property
    def place(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Index into the images of the frame."""
        return self.row, self.column


def flat_pixels(frame: RangeImage) -> FlatPixels:
    """Pixels of one frame that lie on one plane with their neighbours."""
    from scipy.ndimage import uniform_filter

    if frame.direction is None or frame.origin is None:
        empty = np.zeros((0, 3))
        none = np.zeros(0, np.int64)
        return FlatPixels(none, none, empty, empty, np.zeros(0), np.zeros(0))
    there = np.isfinite(frame.range)
    metres = np.where(there, frame.range, 0.0)[..., None]
    point = np.where(there[..., None], frame.origin + metres * frame.direction, 0.0)

    def mean(image: Floats) -> Floats:
        return np.asarray(uniform_filter(image, WINDOW, mode=("constant", "wrap")))

    share = mean(there.astype(np.float64))
    known = np.maximum(share, 1e-9)
    middle = np.stack([mean(point[..., k]) / known for k in range(3)], axis=-1)
    spread = np.empty((*frame.range.shape, 3, 3))
    for i in range(3):
        for j in range(i, 3):
            spread[..., i, j] = mean(point[..., i] * point[..., j]) / known - middle[..., i] * middle[..., j]
            spread[..., j, i] = spread[..., i, j]
    near = there & (share >= FULL) & clean(frame)
    place = np.nonzero(near)
    size, axes = np.linalg.eigh(spread[place])
    scatter = np.sqrt(np.maximum(size[:, 0], 0.0))
    flat = (scatter < ROUGH_M + ROUGH_PER_M * frame.range[place]) & (size[:, 1] > LEAST_SPREAD**2 * size[:, 0])
    place = (place[0][flat], place[1][flat])
    normal, along = axes[flat, :, 0], frame.direction[place]
    slope = np.einsum("ij,ij->i", normal, along)
    normal = normal * -np.sign(slope)[:, None]
    columns = place[1] / max(frame.range.shape[1] - 1, 1)
    return FlatPixels(*place, point[place], normal, np.abs(slope), columns)
