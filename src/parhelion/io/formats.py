"""The one table of cloud formats, and the two functions that use it."""

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
from parhelion.io import captures, csv_table, las, npz, pcd, ply, raw_scans
from parhelion.io.columns import FieldsDroppedWarning


@dataclass(frozen=True)
class Format:
    """One file format of point clouds."""

    name: str
    """What `format=` calls it."""
    endings: tuple[str, ...]
    """File endings, lower case, with the dot."""
    description: str
    """One line for people."""
    read: Callable[..., PointCloud]
    """`read(path, **options)`."""
    write: Callable[..., tuple[str, ...]]
    """`write(cloud, path, **options)`; returns the names of the fields that it left out."""
    fields: tuple[str, ...] | None = None
    """Fields that it can hold besides xyz; None for every numeric field."""


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
        "SemanticKITTI labels beside a KITTI scan",
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
    Format("npz", (".npz",), "NumPy archive: everything, shots and motion too", npz.read, npz.write),
    Format(
        "pcap",
        (".pcap",),
        "network capture of the packets of a lidar; written from scans only",
        captures.read,
        captures.write,
        captures.FIELDS_HELD,
    ),
)

FORMATS: dict[str, Format] = {entry.name: entry for entry in _ALL}
"""Every cloud format by name."""


def format_of(path: str | PathLike[str], name: str | None = None) -> Format:
    """The format called `name`, or the one that the file's ending means; the longest ending wins."""
    if name is not None:
        if name not in FORMATS:
            raise unknown_name("cloud format", name, FORMATS)
        return FORMATS[name]
    file = Path(path).name.lower()
    by_ending = {ending: entry for entry in _ALL for ending in entry.endings}
    for ending in sorted(by_ending, key=len, reverse=True):
        if file.endswith(ending):
            return by_ending[ending]
    raise FormatError(f"{path}: unknown file ending, known are {', '.join(sorted(by_ending))}; or name the format")


def check_options(function: Callable[..., Any], options: dict[str, Any], what: str) -> None:
    """Raise where a reader or writer does not take an option."""
    parameters = inspect.signature(function).parameters.values()
    known = [entry.name for entry in parameters if entry.kind is inspect.Parameter.KEYWORD_ONLY]
    for name in options:
        if not known:
            raise ConfigError(f"{what} takes no options, got {name!r}")
        if name not in known:
            raise unknown_name(f"option of {what}", name, known)


def read_cloud(path: str | PathLike[str], *, format: str | None = None, **options: Any) -> PointCloud:
    """Read a point cloud file; the format follows from the file's ending unless named.

    Options: `labels=PATH` for KITTI scans, `points=PATH` for SemanticKITTI labels; `model=`, `metadata=`, `source=` and
    `scan=` for captures (see `parhelion.io.captures.read`).
    Raises FormatError, which names the file and what is wrong with it.
    """
    file = Path(path)
    kind = format_of(file, format)
    check_options(kind.read, options, f"reading {kind.name}")
    with reading(file):
        return kind.read(file, **options)


def write_cloud(cloud: PointCloud, path: str | PathLike[str], *, format: str | None = None, **options: Any) -> None:
    """Write a point cloud or scan; the format follows from the file's ending unless named.

    An earlier file of that name is replaced only when the new one is whole. Fields that the format cannot hold are
    left out with one `FieldsDroppedWarning` that names them. Only NPZ keeps a scan's table of shots and its motion.
    Options: `encoding=` for PCD ('binary', 'binary_compressed', 'ascii') and PLY ('binary', 'ascii'), `scale_m=` for
    LAS and LAZ, `labels=PATH` for KITTI, `describe=True` for CSV, `compress=True` for NPZ, `epoch_s=` for PCAP.
    """
    file = Path(path)
    kind = format_of(file, format)
    check_options(kind.write, options, f"writing {kind.name}")
    for note in _write(cloud, file, kind, options):
        warnings.warn(f"{file}: {note}", FieldsDroppedWarning, stacklevel=2)


def write_noting_drops(cloud: PointCloud, file: Path, format: str, **options: Any) -> list[str]:
    """Write a cloud; what the format could not hold, in words that are the same for every file."""
    return _write(cloud, file, FORMATS[format], options)


def _write(cloud: PointCloud, file: Path, kind: Format, options: dict[str, Any]) -> list[str]:
    dropped = kind.write(cloud, file, **options)
    return [f"{kind.name} cannot hold {', '.join(dropped)}; left out"] if dropped else []
