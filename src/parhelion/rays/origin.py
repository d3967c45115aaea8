"""Origin of the ray engine's coordinates. It must be near the sensor, because the engine computes in float32.

Space is divided into cells, and a scene is built for the cell that contains the sensor. The cell depends on the
sensor's position only. Scans are therefore the same one at a time and in batches, and an object that the sensor does
not see changes no bit of them, near or far.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from parhelion.rays.geometry import SceneGeometry, Triangles

CELL_M = 4096.0
"""Side of a cell. Float32 numbers of half this size, the largest distance from the origin, are 0.12 mm apart."""
LONGEST_SIDE_M = 40_000.0
"""Ranges on larger triangles are off by up to 1.2e-7 of their size (measured), 5 mm here, for any origin."""

Cell = tuple[int, int, int]
"""Indices of a cube of side `CELL_M` along each axis; the cube around zero is 0, 0, 0."""


def cell_around(place: NDArray[np.float64]) -> Cell:
    """Cell that contains a position (3,) [m]; that around zero for a position that is not finite."""
    if not np.all(np.isfinite(place)):
        return 0, 0, 0
    x, y, z = np.rint(place / CELL_M).astype(np.int64).tolist()
    return x, y, z


def runs(places: Sequence[NDArray[np.float64]]) -> Iterator[tuple[slice, Cell]]:
    """Yield runs of consecutive places in the same cell, as slices, with the cell."""
    cells = [cell_around(place) for place in places]
    first = 0
    for row in range(1, len(cells) + 1):
        if row == len(cells) or cells[row] != cells[first]:
            yield slice(first, row), cells[first]
            first = row


def origin_of(cell: Cell) -> NDArray[np.float64]:
    """Return the origin of the engine's coordinates [m], shape (3,), for sensors in a cell: its centre."""
    return np.array(cell, np.float64) * CELL_M


def likely_zero(geometry: SceneGeometry) -> NDArray[np.float64]:
    """Return the origin [m], shape (3,), for rays from unknown places: the centre of the cell of most vertices."""
    if geometry.bounds is None:
        return np.zeros(3)
    lower, upper = (cell_around(corner) for corner in geometry.bounds)
    if lower == upper or not len(geometry.static):
        return origin_of(lower)
    # Most of the geometry lies around the median, even if single objects are far away.
    return origin_of(cell_around(np.median(geometry.static.vertices, axis=0)))


def warn_of_far_rays(origin: NDArray[np.float64], zero: NDArray[np.float64]) -> None:
    """Warn if rays start too far from the engine's origin to be exact."""
    far = float(np.abs(origin - zero).max())
    if far > 4.0 * CELL_M:
        step = float(np.spacing(np.float32(far)))
        warnings.warn(
            f"rays: some start {far:.3g} m from the scene's origin, where float32 positions are {step:.1g} m apart;"
            " build a scene for them with RayScene(geometry, zero=place)",
            stacklevel=4,
        )


def warn_of_long_sides(triangles: Triangles) -> None:
    """Warn if triangles are so large that ranges on them lose accuracy."""
    if not len(triangles) or np.subtract(*triangles.bounds[::-1]).max() <= LONGEST_SIDE_M:
        return
    corners = triangles.vertices[triangles.faces]
    sides = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(axis=1)
    count, longest = int(np.count_nonzero(sides > LONGEST_SIDE_M)), float(sides.max())
    if count:
        most = f"{LONGEST_SIDE_M / 1000:g} km, up to {longest / 1000:.4g} km"
        warnings.warn(
            f"scene: {count} triangles are longer than {most}: ranges on them may be off by {1.2e-7 * longest:.1g} m;"
            " subdivide them",
            stacklevel=4,
        )
