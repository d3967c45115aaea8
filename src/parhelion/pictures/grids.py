"""Points as arrays on a grid: the panorama of the sensor and the top view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.clouds import Scan
from parhelion.core.errors import ConfigError

# The beams of a ring have a constant elevation on spinning and raster sensors, but not with prisms or nodding mirrors.
_RING_SPREAD_RAD = np.radians(1.0)
_FULL_TURN_RAD = np.radians(350.0)


@dataclass(frozen=True, eq=False)
class Panorama:
    """Pixel of each shot in an image seen from the sensor: up is up, left is left."""

    row: NDArray[np.intp]
    """Image row of each shot, 0 at the top, shape (shots,)."""
    column: NDArray[np.intp]
    """Image column of each shot, 0 at the left, shape (shots,)."""
    shape: tuple[int, int]
    """Number of rows (one per ring, ring 0 at the bottom) and columns."""
    azimuth_deg: tuple[float, float]
    """Azimuth at the left and at the right edge."""
    elevation_deg: NDArray[np.float64]
    """Elevation of each row, the top one first, shape (rows,)."""


def azimuth_elevation(scan: Scan) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Azimuth (counter-clockwise from x) and elevation of every shot [rad], each of shape (shots,)."""
    x, y, z = np.asarray(scan.shots.direction, np.float64).T
    return np.arctan2(y, x), np.arctan2(z, np.hypot(x, y))


def is_organised(scan: Scan) -> bool:
    """Return True if the shots form a grid of rings and columns, as for spinning and raster sensors."""
    if len(scan.shots) == 0:
        return False
    _, elevation = azimuth_elevation(scan)
    ring = np.asarray(scan.shots.ring, np.intp)
    lowest, highest = np.full(ring.max() + 1, np.inf), np.full(ring.max() + 1, -np.inf)
    np.minimum.at(lowest, ring, elevation)
    np.maximum.at(highest, ring, elevation)
    fired = np.isfinite(lowest)
    return bool(np.all(highest[fired] - lowest[fired] < _RING_SPREAD_RAD))


def panorama(scan: Scan) -> Panorama:
    """Image grid of an organised scan.

    The lasers of one column point to different azimuths on most sensors; each ring is shifted by whole columns so that
    vertical edges stay vertical. Columns run from left to right, with the x axis in the middle of a full circle.
    """
    if not is_organised(scan):
        raise ConfigError("range image: the shots of this scan do not lie on a grid of rings and columns")
    azimuth, elevation = azimuth_elevation(scan)
    rings, ring = np.unique(scan.shots.ring, return_inverse=True)
    step = _column_step(azimuth, scan)
    # The sub-column offset of a ring from the common grid is the same at all azimuths.
    position = -azimuth / step
    firsts = np.unique(ring, return_index=True)[1]
    phase = position[firsts] - np.round(position[firsts])
    column = np.round(position - phase[ring]).astype(np.intp)
    if np.ptp(azimuth) > _FULL_TURN_RAD:
        count = max(round(2.0 * np.pi / step), 1)
        column = (column + count // 2) % count
        edges = (180.0, -180.0)
    else:
        first = column.min()
        count = int(column.max() - first) + 1
        column = column - first
        left = -(float(first) - 0.5) * step
        edges = (float(np.degrees(left)), float(np.degrees(left - count * step)))
    row = len(rings) - 1 - ring
    middle = np.bincount(row, elevation) / np.bincount(row)
    return Panorama(row, column, (len(rings), count), edges, np.degrees(middle))


def _column_step(azimuth: NDArray[np.float64], scan: Scan) -> float:
    """Angle between neighbouring columns [rad]."""
    one_ring = np.flatnonzero(scan.shots.ring == scan.shots.ring[0])
    step = np.diff(azimuth[one_ring[np.argsort(scan.shots.column[one_ring], kind="stable")]])
    step = np.abs((step + np.pi) % (2.0 * np.pi) - np.pi)
    step = step[step > 1e-9]
    # Sums over many columns are exact where single float32 steps are not. Seams and gaps are excluded.
    regular = step[np.abs(step - np.median(step)) < 0.1 * np.median(step)] if len(step) else step
    return float(regular.mean()) if len(regular) else 2.0 * np.pi


def field_image(scan: Scan, name: str, grid: Panorama | None = None) -> NDArray[np.float32]:
    """One field as an image, shape (rings, columns), NaN without a return.

    Row 0 is the top; ring 0 is at the bottom. The nearest return of a shot counts.
    """
    grid = panorama(scan) if grid is None else grid
    if name not in scan.fields:
        raise ConfigError(f"image: this scan has no field {name!r}; it has: {', '.join(scan.fields)}")
    image = np.full(grid.shape, np.nan, np.float32)
    points = np.flatnonzero(scan.fields["return_index"] == 0) if "return_index" in scan.fields else slice(None)
    shot = scan.fields["shot"][points]
    image[grid.row[shot], grid.column[shot]] = scan.fields[name][points]
    return image


def range_image(scan: Scan) -> NDArray[np.float32]:
    """Ranges [m] as an image, shape (rings, columns), ring 0 at the bottom, NaN without a return."""
    return field_image(scan, "range")


def intensity_image(scan: Scan) -> NDArray[np.float32]:
    """Intensities [vendor scale] as an image, shape (rings, columns), ring 0 at the bottom, NaN without a return."""
    return field_image(scan, "intensity")


def birds_eye(
    points: ArrayLike, values: ArrayLike | None = None, *, extent: tuple[float, float, float, float], cell_m: float
) -> NDArray[Any]:
    """Value of the highest point per square cell, seen from above: x to the right, y up, the first row at the top.

    `points` (n, 3) [m]; `values` (n,) or (n, k), by default the heights; `extent` is x_min, x_max, y_min, y_max [m].
    Shape (rows, columns) or (rows, columns, k), NaN in empty cells.
    """
    xyz = np.asarray(points, np.float64)
    chosen = xyz[:, 2] if values is None else np.asarray(values)
    x_min, x_max, y_min, y_max = extent
    if not (x_max > x_min and y_max > y_min and cell_m > 0):
        raise ConfigError("bird's-eye view: the extent and the cells must be larger than 0")
    columns, rows = (max(1, int(np.ceil(side / cell_m))) for side in (x_max - x_min, y_max - y_min))
    with np.errstate(invalid="ignore"):
        inside = (xyz[:, 0] >= x_min) & (xyz[:, 0] < x_max) & (xyz[:, 1] > y_min) & (xyz[:, 1] <= y_max)
    inside &= np.isfinite(xyz[:, 2])
    kept = np.flatnonzero(inside)
    kept = kept[np.argsort(xyz[kept, 2], kind="stable")]  # the last assignment to a cell remains: the highest point
    column = np.minimum(((xyz[kept, 0] - x_min) / cell_m).astype(np.intp), columns - 1)
    row = np.minimum(((y_max - xyz[kept, 1]) / cell_m).astype(np.intp), rows - 1)
    image = np.full((rows, columns, *chosen.shape[1:]), np.nan, np.float32)
    image[row, column] = chosen[kept]
    return image
