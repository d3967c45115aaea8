"""Files that are nothing but rows of little-endian float32, as KITTI and nuScenes keep their scans.

Such a file has no header, so a file of no bytes is a cloud of no points.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError
from parhelion.core.records import PointCloud
from parhelion.io.columns import as_float32
from parhelion.io.source import read_bytes


def read_rows(path: Path, columns: int) -> NDArray[np.float32]:
    """The rows of the file, shape (n, columns)."""
    data = read_bytes(path)
    if len(data) % (4 * columns):
        raise FormatError(f"{path}: {len(data)} bytes are not a whole number of points of {4 * columns} bytes")
    return np.frombuffer(data, "<f4").reshape(-1, columns)


def rows_of(cloud: PointCloud, fields: tuple[str, ...], path: Path) -> NDArray[np.float32]:
    """x, y, z and the named fields as float32 rows; a field that the cloud has not is zero."""
    rows = np.zeros((len(cloud), 3 + len(fields)), "<f4")
    rows[:, :3] = as_float32(cloud.xyz, "xyz", path)
    for column, name in enumerate(fields, start=3):
        if name in cloud.fields:
            values = cloud.fields[name]
            if values.ndim != 1:
                raise FormatError(f"{path}: the field {name!r} must have one value a point, got shape {values.shape}")
            rows[:, column] = as_float32(values, name, path)
    return rows


def left_out(cloud: PointCloud, held: tuple[str, ...]) -> tuple[str, ...]:
    """Fields of the cloud that are not among those a format holds."""
    return tuple(name for name in cloud.fields if name not in held)
