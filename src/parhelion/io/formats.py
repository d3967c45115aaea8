"""The table of cloud formats, and the functions that read and write them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError, FormatError, unknown_name
from parhelion.core.reading import reading
from parhelion.io import captures, csv_table, las, lvx2, npz, pcd, ply, raw_scans
from parhelion.io.columns import FieldsDroppedWarning


@dataclass(frozen=True)
class Format:
    """One file format of point clouds."""

    name: str
    """Name in `format=`."""
    endings: tuple[str, ...]
    """File extensions, lower case, with the dot."""
    description: str
    """One-line description."""
    read: Callable[..., PointCloud]
    """`read(path, **options)`."""
    write: Callable[..., tuple[str, ...]]
    """`write(cloud, path, **options)`; returns the names of the skipped fields."""
    fields: tuple[str, ...] | None = None
    """Fields that it can store in addition to xyz; None for every numeric field."""


_ALL = (
    Format("pcd", (".pcd",), "PCD of the Point Cloud Library: ascii, binary, binary_compressed", pcd.read, pcd.write),
    Format("ply", (".ply",), "PLY (Stanford polygon format): ascii, binary", ply.read, ply.write),
    Format("las", (".las",), "LAS 1.4 (ASPRS), coordinates to 0.1 mm", las.read, las.write_las),
    Format("laz", (".laz",), "LAZ, compressed LAS 1.4", las.read, las.write_laz),
    Format(
        "kitti",
        (".bin",),
        "KITTI scan: x y z intensity",
        raw_scans.read_kitti,
        raw_scans.write_kitti,
        raw_scans.KITTI_FIELDS,
    ),
    Format(
        "semantickitti",
        (".label",),
        "SemanticKITTI labels of a KITTI scan",
        raw_scans.read_label,
        raw_scans.write_label,
        raw_scans.LABEL_FIELDS_HELD,
    ),
    Format(
        "nuscenes",
        (".pcd.bin",),
        "nuScenes scan: x y z intensity ring",
        raw_scans.read_nuscenes,
        raw_scans.write_nuscenes,
        raw_scans.NUSCENES_FIELDS,
    ),
    Format("csv", (".csv",), "comma-separated table with a header line", csv_table.read, csv_table.write),
    Format("npz", (".npz",), "NumPy archive: everything, including shots and motion", npz.read, npz.write),
    Format(
        "pcap",
        (".pcap",),
        "network capture of the packets of a lidar; written from scans only",
        captures.read,
        captures.write,
        captures.FIELDS_HELD,
    ),
    Format(
        "lvx2",
        (".lvx2",),
        "recording of Livox Viewer 2; written from scans of a Mid-360 or HAP only",
        lvx2.read,
        lvx2.write,
        captures.FIELDS_HELD,
    ),
)

FORMATS: dict[str, Format] = {entry.name: entry for entry in _ALL}
"""Every cloud format by name."""


def format_of(path: str | PathLike[str], name: str | None = None) -> Format:
    """Return the format called `name`, or the one selected by the file extension; the longest match wins."""
    if name is not None:
        if name not in FORMATS:
            raise unknown_name("cloud format", name, FORMATS)
        return FORMATS[name]
    file = Path(path).name.lower()
    by_ending = {ending: entry for entry in _ALL for ending in entry.endings}
    for ending in sorted(by_ending, key=len, reverse=True):
        if file.endswith(ending):
            return by_ending[ending]
    known = ", ".join(sorted(by_ending))
    raise FormatError(f"{path}: unknown file extension; use one of {known}, or name the format")


def check_options(function: Callable[..., Any], options: dict[str, Any], what: str) -> None:
    """Raise ConfigError if a read or write function does not accept an option."""
    parameters = inspect.signature(function).parameters.values()
    known = [entry.name for entry in parameters if entry.kind is inspect.Parameter.KEYWORD_ONLY]
    for name in options:
        if not known:
            raise ConfigError(f"{what} accepts no options, got {name!r}")
        if name not in known:
            raise unknown_name(f"option of {what}", name, known)


def read_cloud(path: str | PathLike[str], *, format: str | None = None, **options: Any) -> PointCloud:
    """Read a point cloud file; the file extension selects the format unless `format` names it.

    Options: `labels=PATH` for KITTI scans, `points=PATH` for SemanticKITTI labels; `model=`, `metadata=`, `source=` and
    `scan=` for captures (see `parhelion.io.captures.read`), `device=` and `scan=` for LVX2.
    Raise FormatError, which names the file and the problem.
    """
    file = Path(path)
    kind = format_of(file, format)
    check_options(kind.read, options, f"reading {kind.name}")
    with reading(file):
        return kind.read(file, **options)


def write_cloud(cloud: PointCloud, path: str | PathLike[str], *, format: str | None = None, **options: Any) -> None:
    """Write a point cloud or scan; the file extension selects the format unless `format` names it.

    An existing file is replaced only when the new one is complete. Fields that the format cannot store are skipped
    with one `FieldsDroppedWarning` that names them. Only NPZ stores the table of shots and the motion of a scan.
    Options: `encoding=` for PCD ('binary', 'binary_compressed', 'ascii') and PLY ('binary', 'ascii'), `scale_m=` for
    LAS and LAZ, `labels=PATH` for KITTI, `describe=True` for CSV, `compress=True` for NPZ, `epoch_s=` for PCAP.
    """
    file = Path(path)
    kind = format_of(file, format)
    check_options(kind.write, options, f"writing {kind.name}")
    for note in _write(cloud, file, kind, options):
        warnings.warn(f"{file}: {note}", FieldsDroppedWarning, stacklevel=2)


def write_noting_drops(cloud: PointCloud, file: Path, format: str, **options: Any) -> list[str]:
    """Write a cloud. Return notes on skipped fields, without the file name, so that they are equal for all files."""
    return _write(cloud, file, FORMATS[format], options)


def _write(cloud: PointCloud, file: Path, kind: Format, options: dict[str, Any]) -> list[str]:
    dropped = kind.write(cloud, file, **options)
    return [f"{kind.name} cannot store {', '.join(dropped)}; skipped"] if dropped else []
