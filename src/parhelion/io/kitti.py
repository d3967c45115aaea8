"""KITTI `.bin` scans (x, y, z [m], intensity as float32 rows) and SemanticKITTI `.label` files beside them.

A label file is one uint32 a point: the semantic class in the lower 16 bits, the instance in the upper 16.

    cloud = read_cloud("velodyne/000000.bin", labels="labels/000000.label")
    write_cloud(cloud, "velodyne/000000.bin", labels="labels/000000.label")   # both files
    write_cloud(cloud, "labels/000000.label")                                 # the labels alone
    cloud = read_cloud("labels/000000.label")                # with the points found beside it or in ../velodyne

Sources: https://www.cvlibs.net/datasets/kitti/, http://semantic-kitti.org/dataset.html
"""

from __future__ import annotations

from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError
from parhelion.core.records import PointCloud
from parhelion.io.atomic import atomic_write
from parhelion.io.raw_float32 import left_out, read_rows, rows_of
from parhelion.io.source import read_bytes

FIELDS_HELD = ("intensity",)
LABEL_FIELDS_HELD = ("label", "instance")


def read(path: Path, *, labels: str | PathLike[str] | None = None) -> PointCloud:
    """Read a KITTI scan: field `intensity`, and with `labels` also `label` and `instance` (uint16)."""
    rows = read_rows(path, 4)
    fields: dict[str, NDArray[Any]] = {"intensity": np.ascontiguousarray(rows[:, 3])}
    if labels is not None:
        fields |= _read_codes(Path(labels), len(rows), path)
    return PointCloud(np.ascontiguousarray(rows[:, :3]), fields)


def write(cloud: PointCloud, path: Path, *, labels: str | PathLike[str] | None = None) -> tuple[str, ...]:
    """Write a KITTI scan, and with `labels` its label file too. Returns the names of the fields left out.

    Intensity keeps its scale (KITTI's own is 0 to 1) and is zero where the cloud has none.
    """
    rows = rows_of(cloud, FIELDS_HELD, path)
    with ExitStack() as files:
        rows.tofile(files.enter_context(atomic_write(path)))
        if labels is None:
            return left_out(cloud, FIELDS_HELD)
        _codes(cloud, Path(labels)).tofile(files.enter_context(atomic_write(labels)))
    return left_out(cloud, FIELDS_HELD + LABEL_FIELDS_HELD)


def labels_of(scan: Path) -> Path:
    """Where SemanticKITTI has the labels of a scan: in `../labels` of a folder `velodyne`; elsewhere beside it."""
    name = scan.with_suffix(".label").name
    return scan.parent.parent / "labels" / name if scan.parent.name == "velodyne" else scan.with_name(name)


def labels_there(scan: Path) -> Path | None:
    """The label file of a scan, by that layout or beside it; None where there is none."""
    return next((file for file in (labels_of(scan), scan.with_suffix(".label")) if file.is_file()), None)


def read_label(path: Path, *, points: str | PathLike[str] | None = None) -> PointCloud:
    """Read a label file with its scan: the one named by `points`, else `NAME.bin` beside it or in `../velodyne`."""
    if points is not None:
        return read(Path(points), labels=path)
    read_bytes(path)  # a missing or unreadable label file is the first thing to tell
    places = [path.with_suffix(".bin"), path.parent.parent / "velodyne" / path.with_suffix(".bin").name]
    for place in places:
        if place.is_file():
            return read(place, labels=path)
    raise FormatError(f"{path}: holds labels without points, and neither {places[0]} nor {places[1]} exists")


def write_label(cloud: PointCloud, path: Path) -> tuple[str, ...]:
    """Write the cloud's labels and instances alone. Returns the names of all that is left out, `xyz` among it."""
    codes = _codes(cloud, path)
    with atomic_write(path) as temporary:
        codes.tofile(temporary)
    return ("xyz", *left_out(cloud, LABEL_FIELDS_HELD))


def _read_codes(path: Path, points: int, points_path: Path) -> dict[str, NDArray[Any]]:
    data = read_bytes(path)
    if len(data) != 4 * points:
        raise FormatError(f"{path}: holds {len(data) / 4:g} labels, but {points_path} holds {points} points")
    codes = np.frombuffer(data, "<u4")
    return {"label": (codes & 0xFFFF).astype(np.uint16), "instance": (codes >> 16).astype(np.uint16)}


def _codes(cloud: PointCloud, path: Path) -> NDArray[np.uint32]:
    codes = np.zeros(len(cloud), "<u4")
    for name, shift in (("label", 0), ("instance", 16)):
        if name not in cloud.fields:
            continue
        values = cloud.fields[name]
        if values.ndim != 1 or values.dtype.kind not in "biu" or np.any(values < 0) or np.any(values > 0xFFFF):
            raise FormatError(f"{path}: the field {name!r} must be whole numbers from 0 to 65535")
        codes |= values.astype(np.uint32) << np.uint32(shift)
    return codes
