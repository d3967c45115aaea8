"""nuScenes `.pcd.bin`: x, y, z [m], intensity, ring as float32 rows, without a header.

Source: https://github.com/nutonomy/nuscenes-devkit (LidarPointCloud.from_file)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError
from parhelion.core.records import PointCloud
from parhelion.io.atomic import atomic_write
from parhelion.io.raw_float32 import left_out, read_rows, rows_of

FIELDS_HELD = ("intensity", "ring")


def read(path: Path) -> PointCloud:
    """Read a nuScenes scan: fields `intensity` (float32) and `ring` (uint16)."""
    rows = read_rows(path, 5)
    ring = rows[:, 4]
    # NaN fails the first comparison, so nothing undefined reaches the cast.
    if not np.all((ring >= 0) & (ring <= 65535)) or np.any(ring % 1):
        raise FormatError(f"{path}: its rings are not whole numbers from 0 to 65535, so this is no nuScenes scan")
    fields: dict[str, NDArray[Any]] = {"intensity": np.ascontiguousarray(rows[:, 3]), "ring": ring.astype(np.uint16)}
    return PointCloud(np.ascontiguousarray(rows[:, :3]), fields)


def write(cloud: PointCloud, path: Path) -> tuple[str, ...]:
    """Write a nuScenes scan; intensity keeps its scale, a missing field is zero. Returns the fields left out."""
    rows = rows_of(cloud, FIELDS_HELD, path)
    ring = rows[:, 4]
    if not np.all((ring >= 0) & (ring <= 65535)) or np.any(ring % 1):
        raise FormatError(f"{path}: the field 'ring' must be whole numbers from 0 to 65535")
    with atomic_write(path) as temporary:
        rows.tofile(temporary)
    return left_out(cloud, FIELDS_HELD)
