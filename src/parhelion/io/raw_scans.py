"""Scans without a header: KITTI `.bin` with SemanticKITTI `.label`, and nuScenes `.pcd.bin`.

A KITTI scan has rows of x, y, z [m], intensity as float32. A label file has one uint32 per point: the semantic class in
the lower 16 bits, the instance in the upper 16.

    cloud = read_cloud("velodyne/000000.bin", labels="labels/000000.label")
    write_cloud(cloud, "velodyne/000000.bin", labels="labels/000000.label")   # both files
    write_cloud(cloud, "labels/000000.label")                                 # only the labels
    cloud = read_cloud("labels/000000.label")                # with the points in the same folder or in ../velodyne

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

# ---- rows of little-endian float32, as in KITTI and nuScenes scans --------------------------------------------------
# These files have no header, so an empty file is an empty cloud.


def read_rows(path: Path, columns: int) -> NDArray[np.float32]:
    """Read the rows of a file, shape (n, columns)."""
    data = read_bytes(path)
    if len(data) % (4 * columns):
        raise FormatError(f"{path}: {len(data)} bytes are not a whole number of points of {4 * columns} bytes")
    return np.frombuffer(data, "<f4").reshape(-1, columns)


def rows_of(cloud: PointCloud, fields: tuple[str, ...], path: Path) -> NDArray[np.float32]:
    """Rows of x, y, z and the named fields as float32; missing fields are zero."""
    rows = np.zeros((len(cloud), 3 + len(fields)), "<f4")
    rows[:, :3] = as_float32(cloud.xyz, "xyz", path)
    for column, name in enumerate(fields, start=3):
        if name in cloud.fields:
            values = cloud.fields[name]
            if values.ndim != 1:
                raise FormatError(f"{path}: the field {name!r} must have one value per point, got shape {values.shape}")
            rows[:, column] = as_float32(values, name, path)
    return rows


def left_out(cloud: PointCloud, held: tuple[str, ...]) -> tuple[str, ...]:
    """Fields of the cloud that are not in `held`."""
    return tuple(name for name in cloud.fields if name not in held)


# ---- KITTI and SemanticKITTI ----------------------------------------------------------------------------------------


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
    """Write a KITTI scan, and with `labels` its label file. Return the names of skipped fields.

    Intensity is not rescaled (KITTI's own scale is 0 to 1); it is zero if the cloud has none.
    """
    rows = rows_of(cloud, KITTI_FIELDS, path)
    with ExitStack() as files:
        rows.tofile(files.enter_context(atomic_write(path)))
        if labels is None:
            return left_out(cloud, KITTI_FIELDS)
        _codes(cloud, Path(labels)).tofile(files.enter_context(atomic_write(labels)))
    return left_out(cloud, KITTI_FIELDS + LABEL_FIELDS_HELD)


def labels_of(scan: Path) -> Path:
    """Path of the labels of a scan in SemanticKITTI: `../labels` for a folder `velodyne`, otherwise the same folder."""
    name = scan.with_suffix(".label").name
    return scan.parent.parent / "labels" / name if scan.parent.name == "velodyne" else scan.with_name(name)


def labels_there(scan: Path) -> Path | None:
    """Existing label file of a scan, at `labels_of` or in the same folder; None if there is none."""
    return next((file for file in (labels_of(scan), scan.with_suffix(".label")) if file.is_file()), None)


def read_label(path: Path, *, points: str | PathLike[str] | None = None) -> PointCloud:
    """Read a label file with its scan: `points`, or by default `NAME.bin` in the same folder or in `../velodyne`."""
    if points is not None:
        return read_kitti(Path(points), labels=path)
    read_bytes(path)  # reports a missing or unreadable label file before a missing scan
    places = [path.with_suffix(".bin"), path.parent.parent / "velodyne" / path.with_suffix(".bin").name]
    for place in places:
        if place.is_file():
            return read_kitti(place, labels=path)
    raise FormatError(f"{path}: contains labels without points, and neither {places[0]} nor {places[1]} exists")


def write_label(cloud: PointCloud, path: Path) -> tuple[str, ...]:
    """Write only the labels and instances of a cloud. Return the names of skipped fields, including `xyz`."""
    codes = _codes(cloud, path)
    with atomic_write(path) as temporary:
        codes.tofile(temporary)
    return ("xyz", *left_out(cloud, LABEL_FIELDS_HELD))


def _read_codes(path: Path, points: int, points_path: Path) -> dict[str, NDArray[Any]]:
    data = read_bytes(path)
    if len(data) != 4 * points:
        raise FormatError(f"{path}: has {len(data) / 4:g} labels, but {points_path} has {points} points")
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


# ---- nuScenes -------------------------------------------------------------------------------------------------------
# Rows of x, y, z [m], intensity, ring as float32. Source: https://github.com/nutonomy/nuscenes-devkit
# (LidarPointCloud.from_file)


NUSCENES_FIELDS = ("intensity", "ring")


def read_nuscenes(path: Path) -> PointCloud:
    """Read a nuScenes scan: fields `intensity` (float32) and `ring` (uint16)."""
    rows = read_rows(path, 5)
    ring = rows[:, 4]
    if not _are_rings(ring):
        raise FormatError(f"{path}: its rings are not integers from 0 to 65535, so this is not a nuScenes scan")
    fields: dict[str, NDArray[Any]] = {"intensity": np.ascontiguousarray(rows[:, 3]), "ring": ring.astype(np.uint16)}
    return PointCloud(np.ascontiguousarray(rows[:, :3]), fields)


def _are_rings(values: NDArray[Any]) -> bool:
    # NaN fails the first comparison, so no undefined value is cast.
    return bool(np.all((values >= 0) & (values <= 65535)) and not np.any(values % 1))


def write_nuscenes(cloud: PointCloud, path: Path) -> tuple[str, ...]:
    """Write a nuScenes scan. Intensity is not rescaled, missing fields are zero. Return the names of skipped fields."""
    rows = rows_of(cloud, NUSCENES_FIELDS, path)
    ring = rows[:, 4]
    if not _are_rings(ring):
        raise FormatError(f"{path}: the field 'ring' must be whole numbers from 0 to 65535")
    with atomic_write(path) as temporary:
        rows.tofile(temporary)
    return left_out(cloud, NUSCENES_FIELDS)
