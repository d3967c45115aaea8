"""Origin of the ray engine's coordinates. It must be near the sensor, because the engine computes in float32.

The middle of the static world suits most cases: within 8 km of it, positions are exact to half a millimetre. In a
world with one stray object far away, that middle may be far from the sensor. Space is then divided into cells, and a
scene is built for the cell that contains the sensor. The cell depends on the sensor's position only, so scans are the
same one at a time and in batches.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from parhelion.rays.geometry import SceneGeometry, Triangles

REACH_M = 8192.0
"""Largest distance of a sensor from the origin along each axis: float32 numbers of this size are 0.5 mm apart."""
LONGEST_SIDE_M = 40_000.0
"""Ranges on larger triangles are off by up to 1.2e-7 of their size (measured), 5 mm here, for any origin."""

Cell = tuple[int, int, int]
"""Indices of a cube of side `REACH_M` along each axis; the cube around zero is 0, 0, 0."""


def cell_of(geometry: SceneGeometry, place: NDArray[np.float64]) -> Cell | None:
    """Return the cell of a sensor at `place` (3,) [m], or None if the middle of the world is close enough."""
    if not np.all(np.isfinite(place)) or np.all(np.abs(place - geometry.middle) <= REACH_M):
        return None
    return cell_around(place)


def cell_around(place: NDArray[np.float64]) -> Cell:
    """Cell that contains a finite position (3,) [m], whatever the geometry."""
    x, y, z = np.rint(place / REACH_M).astype(np.int64).tolist()
    return x, y, z


def runs(geometry: SceneGeometry, places: Sequence[NDArray[np.float64]]) -> Iterator[tuple[slice, Cell | None]]:
    """Yield runs of consecutive places in the same cell, as slices, with the cell."""
    cells = [cell_of(geometry, place) for place in places]
    first = 0
    for row in range(1, len(cells) + 1):
        if row == len(cells) or cells[row] != cells[first]:
            yield slice(first, row), cells[first]
            first = row


def origin_for(geometry: SceneGeometry, cell: Cell | None) -> NDArray[np.float64]:
    """Return the origin of the engine's coordinates [m], shape (3,), for sensors in a cell."""
    return geometry.middle if cell is None else np.array(cell, np.float64) * REACH_M


def likely_zero(geometry: SceneGeometry) -> NDArray[np.float64]:
    """Return the default origin [m], shape (3,), for rays from unknown places."""
    bounds = geometry.bounds
    if bounds is None or np.all(bounds[1] - bounds[0] <= 2.0 * REACH_M) or not len(geometry.static):
        return geometry.middle
    # Most of the geometry lies around the median, even if single objects are far away.
    rounded: NDArray[np.float64] = np.round(np.median(geometry.static.vertices, axis=0))
    return geometry.middle if np.all(np.abs(rounded - geometry.middle) <= REACH_M) else rounded


def warn_of_far_rays(origin: NDArray[np.float64], zero: NDArray[np.float64]) -> None:
    """Warn if rays start too far from the engine's origin to be exact."""
    far = float(np.abs(origin - zero).max())
    if far > 2.0 * REACH_M:
        step = float(np.spacing(np.float32(far)))
        warnings.warn(
            f"rays: some start {far:.3g} m from the scene's origin, where float32 positions are {step:.1g} m apart;"
            " build a scene for them with RayScene(geometry, zero=place)",
            stacklevel=4,
        )


def warn_of_long_sides(triangles: Triangles) -> None:
    """Warn if triangles are so large that ranges on them lose accuracy."""
    if not len(triangles) or np.ptp(triangles.vertices, axis=0).max() <= LONGEST_SIDE_M:
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
