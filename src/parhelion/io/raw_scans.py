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

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import FormatError
from parhelion.core.files import atomic_write
from parhelion.core.reading import read_bytes
from parhelion.io.columns import as_float32

# ---- Files that are nothing but rows of little-endian float32, as KITTI and nuScenes keep their scans ---------------
# Such a file has no header, so a file of no bytes is a cloud of no points.


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


# ---- raw scans ------------------------------------------------------------------------------------------------------


KITTI_FIELDS = ("intensity",)
LABEL_FIELDS_HELD = ("label", "instance")


def read_kitti(path: Path, *, labels: str | PathLike[str] | None = None) -> PointCloud:
    """Read a KITTI scan: field `intensity`, and with `labels` also `label` and `instance` (uint16)."""
    rows = read_rows(path, 4)
    fields: dict[str, NDArray[Any]] = {"intensity": np.ascontiguousarray(rows[:, 3])}
    if labels is not None:
        fields |= _read_codes(Path(labels), len(rows), path)
    return PointCloud(np.ascontiguousarray(rows[:, :3]), fields)


def write_kitti(cloud: PointCloud, path: Path, *, labels: str | PathLike[str] | None = None) -> tuple[str, ...]:
    """Write a KITTI scan, and with `labels` its label file too. Returns the names of the fields left out.

    Intensity keeps its scale (KITTI's own is 0 to 1) and is zero where the cloud has none.
    """
    rows = rows_of(cloud, KITTI_FIELDS, path)
    with ExitStack() as files:
        rows.tofile(files.enter_context(atomic_write(path)))
        if labels is None:
            return left_out(cloud, KITTI_FIELDS)
        _codes(cloud, Path(labels)).tofile(files.enter_context(atomic_write(labels)))
    return left_out(cloud, KITTI_FIELDS + LABEL_FIELDS_HELD)


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
        return read_kitti(Path(points), labels=path)
    read_bytes(path)  # a missing or unreadable label file is the first thing to tell
    places = [path.with_suffix(".bin"), path.parent.parent / "velodyne" / path.with_suffix(".bin").name]
    for place in places:
        if place.is_file():
            return read_kitti(place, labels=path)
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


# ---- nuScenes `.pcd.bin`: x, y, z [m], intensity, ring as float32 rows, without a header ----------------------------
# Source: https://github.com/nutonomy/nuscenes-devkit (LidarPointCloud.from_file)


NUSCENES_FIELDS = ("intensity", "ring")


def read_nuscenes(path: Path) -> PointCloud:
    """Read a nuScenes scan: fields `intensity` (float32) and `ring` (uint16)."""
    rows = read_rows(path, 5)
    ring = rows[:, 4]
    if not _are_rings(ring):
        raise FormatError(f"{path}: its rings are not whole numbers from 0 to 65535, so this is no nuScenes scan")
    fields: dict[str, NDArray[Any]] = {"intensity": np.ascontiguousarray(rows[:, 3]), "ring": ring.astype(np.uint16)}
    return PointCloud(np.ascontiguousarray(rows[:, :3]), fields)


def _are_rings(values: NDArray[Any]) -> bool:
    # NaN fails the first comparison, so nothing undefined reaches a cast.
    return bool(np.all((values >= 0) & (values <= 65535)) and not np.any(values % 1))


def write_nuscenes(cloud: PointCloud, path: Path) -> tuple[str, ...]:
    """Write a nuScenes scan; intensity keeps its scale, a missing field is zero. Returns the fields left out."""
    rows = rows_of(cloud, NUSCENES_FIELDS, path)
    ring = rows[:, 4]
    if not _are_rings(ring):
        raise FormatError(f"{path}: the field 'ring' must be whole numbers from 0 to 65535")
    with atomic_write(path) as temporary:
        rows.tofile(temporary)
    return left_out(cloud, NUSCENES_FIELDS)
