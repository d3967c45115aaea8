"""How well ranges to anchors fix a position: the geometric dilution of precision. Pure functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats

LARGEST_GDOP = 1e4
"""Beyond, ranges do not give a position: the anchors lie on a line with the place, or nearly so."""


def gdop(
    anchors: ArrayLike, places: ArrayLike, visible: ArrayLike | None = None, *, dimensions: int = 2, least: int = 0
) -> Floats:
    """Dilution of precision sqrt(trace((H^T H)^-1)) of ranges to anchors (a, 3) [m] at places (p, 3) [m], shape (p,).

    Rows of H are unit vectors from the anchors. With 2 dimensions the height is known, and the level components alone
    count. `visible` (a, p) tells which ranges there are. Infinite where fewer than `least` anchors are visible, or
    where they give no position. Errors of ranges are taken as independent and equal: the position's root mean square
    error is this times their standard deviation. Source: Langley, "Dilution of precision", GPS World 10 (5), 1999.
    """
    if dimensions not in (2, 3):
        raise ConfigError(f"dimensions: must be 2 or 3, got {dimensions!r}")
    seen = None if visible is None else np.asarray(visible, dtype=bool)
    parts = information(anchors, places, seen, dimensions)
    found = dilution(parts.sum(axis=0))
    if seen is not None:
        found = np.where(seen.sum(axis=0) >= least, found, np.inf)
    elif len(parts) < least:
        found = np.full(len(found), np.inf)
    return found


def information(
    anchors: ArrayLike, places: ArrayLike, visible: NDArray[np.bool_] | None = None, dimensions: int = 2
) -> Floats:
    """What each range adds to H^T H: xx, xy, yy, and for 3 dimensions xz, yz, zz; shape (a, p, 3 or 6)."""
    offset = np.asarray(places, dtype=np.float64)[None] - np.asarray(anchors, dtype=np.float64)[:, None]
    length = np.sqrt(np.sum(offset * offset, axis=2, keepdims=True))
    unit = np.divide(offset, length, out=np.zeros_like(offset), where=length > 0.0)
    x, y, z = (unit[:, :, k] for k in range(3))
    columns = [x * x, x * y, y * y] + ([x * z, y * z, z * z] if dimensions == 3 else [])
    parts = np.stack(columns, axis=2)
    return parts if visible is None else parts * visible[:, :, None]


def dilution(parts: NDArray[Any]) -> Floats:
    """sqrt(trace((H^T H)^-1)) from the entries of H^T H (..., 3 or 6), as `information` orders them; shape (...)."""
    xx, xy, yy = (parts[..., k] for k in range(3))
    if parts.shape[-1] == 3:
        trace, determinant = xx + yy, xx * yy - xy * xy
        size = trace**2
    else:
        xz, yz, zz = (parts[..., k] for k in range(3, 6))
        minors = yy * zz - yz * yz, xx * zz - xz * xz, xx * yy - xy * xy
        trace = minors[0] + minors[1] + minors[2]
        determinant = xx * minors[0] - xy * (xy * zz - yz * xz) + xz * (xy * yz - yy * xz)
        size = (xx + yy + zz) ** 3
    # What rounding leaves of a determinant of zero is no determinant.
    good = (determinant * LARGEST_GDOP**2 > trace) & (determinant > 1e-13 * size)
    return np.sqrt(np.divide(trace, determinant, out=np.full(np.shape(trace), np.inf), where=good))
