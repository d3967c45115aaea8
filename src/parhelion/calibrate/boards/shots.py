"""Shots at boards, including lost ones: from ApolloSim's text, tables, clouds, captures and bags."""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.calibrate.range_images import Floats, Mask, TableWithMetadata
from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import FormatError
from parhelion.core.reading import file_reader, open_file, read_bytes
from parhelion.io.csv_table import parse_rows
from parhelion.io.recordings import clouds_of

TEXT_ENDINGS = (".txt", ".csv")
PACKED_ENDING = ".xz"
LARGEST_TEXT_BYTES = 1 << 30
LONGEST_HEAD_BYTES = 1 << 16
RANGE_NAMES = ("distance", "range", "distance_m", "range_m")
ANGLE_NAMES = ("angle", "angle_rad", "angle_deg", "azimuth_deg")


@dataclass(frozen=True, eq=False)
class BoardShots(TableWithMetadata):
    """Shots of a recording, one row per shot."""

    direction: Floats
    """Unit direction, sensor frame, shape (n, 3)."""
    origin: Floats
    """Origin of each shot [m], shape (n, 3)."""
    range: Floats
    """Measured range [m], NaN for lost shots, shape (n,)."""
    intensity: Floats
    """Intensity on the maker's scale; NaN for lost shots, shape (n,)."""
    knows_lost: bool = True
    """The recording contains lost shots."""

    @property
    def lost(self) -> Mask:
        """Mask of shots without a return."""
        return np.isnan(self.range)

    @property
    def points(self) -> Floats:
        """Positions of returns [m], NaN for lost shots, shape (n, 3)."""
        return self.origin + self.range[:, None] * self.direction


@file_reader()
def read_shots(path: str | PathLike[str], *, sensor: str | None = None, topic: str | None = None) -> BoardShots:
    """All shots of a recording, over all its frames.

    Text files have lines `distance,intensity,angle`, in metres and radians (ApolloSim), or a header that names these
    columns (`angle_deg` for degrees, and `elevation_deg` for sensors with several rows). A lost shot has the distance
    inf, NaN or 0. Text may be compressed by xz (`.txt.xz`).
    """
    from parhelion.io.ros import is_bag

    file = Path(path)
    if not file.exists():
        raise FormatError(f"{file}: no such file")
    plain = file.with_suffix("") if file.suffix.lower() == PACKED_ENDING else file
    if plain.suffix.lower() in TEXT_ENDINGS and not file.is_dir() and (plain != file or not _is_cloud_table(file)):
        return _of_text(file)
    if is_bag(file):
        scans = _laser_scans(file, topic)
        if scans is not None:
            return scans
    parts, names = [], set()
    for _, cloud in clouds_of(file, sensor=sensor, topic=topic):
        names.add(str(cloud.metadata.get("sensor", "")))
        if len(names) > 1:
            raise FormatError(f"{file}: mixes recordings of several sensors: {', '.join(sorted(names))}")
        parts.append(shots_of_cloud(cloud, str(file)))
    return joined_shots(parts)


def joined_shots(parts: list[BoardShots]) -> BoardShots:
    """Shots of several recordings, concatenated."""
    return BoardShots.joined(parts, knows_lost=all(part.knows_lost for part in parts))


def from_angles(distance: Floats, intensity: Floats, azimuth: Floats, elevation: Floats | None = None) -> BoardShots:
    """Shots of a sensor at the origin, by angles [rad]; distances that are not finite and positive are lost shots."""
    level = np.zeros_like(azimuth) if elevation is None else elevation
    direction = np.stack([np.cos(level) * np.cos(azimuth), np.cos(level) * np.sin(azimuth), np.sin(level)], axis=1)
    there = np.isfinite(distance) & (distance > 0)
    return BoardShots(
        direction, np.zeros_like(direction), np.where(there, distance, np.nan), np.where(there, intensity, np.nan)
    )


def _head(file: Path) -> str:
    with open_file(file) as stream:
        return stream.readline(LONGEST_HEAD_BYTES).decode("utf-8", "replace").strip().lower()


def _is_cloud_table(file: Path) -> bool:
    return {"x", "y", "z"} <= {name.strip() for name in _head(file).lstrip("#").split(",")} or _head(file).startswith(
        "#"
    )


def _of_text(file: Path) -> BoardShots:
    data = read_bytes(file, FormatError, largest=LARGEST_TEXT_BYTES, what="a table of shots")
    if file.suffix.lower() == PACKED_ENDING:
        data = lzma.LZMADecompressor().decompress(data, LARGEST_TEXT_BYTES)
    first, _, rest = data.partition(b"\n")
    names = [name.strip() for name in first.decode("utf-8", "replace").strip().lower().split(",")]
    if any(name in RANGE_NAMES for name in names):
        body = rest
    else:
        names, body = ["distance", "intensity", "angle"], data
    if not body.strip():
        raise FormatError(f"{file}: contains no shots")
    columns = dict(zip(names, parse_rows(body, [np.dtype(np.float64)] * len(names), None, file, ","), strict=True))
    distance = next((columns[name] for name in RANGE_NAMES if name in columns), None)
    angle = next((name for name in ANGLE_NAMES if name in columns), None)
    if distance is None or angle is None or "intensity" not in columns:
        raise FormatError(f"{file}: must have the columns distance, intensity and angle, got {', '.join(names)}")
    azimuth = np.radians(columns[angle]) if angle.endswith("deg") else columns[angle]
    elevation = np.radians(columns["elevation_deg"]) if "elevation_deg" in columns else None
    if not np.isfinite(azimuth).all():
        raise FormatError(f"{file}: line {int(np.argmax(~np.isfinite(azimuth))) + 1} has an angle that is not a number")
    shots = from_angles(distance, columns["intensity"], azimuth, elevation)
    bad = ~shots.lost & ~np.isfinite(shots.intensity)
    if bad.any():
        line = int(np.argmax(bad)) + 1
        raise FormatError(f"{file}: line {line} has a return without an intensity ({int(bad.sum())} such lines)")
    return shots


def shots_of_cloud(cloud: PointCloud, where: str) -> BoardShots:
    """All shots of a scan, or the points of a cloud; `where` is used in error messages."""
    if "intensity" not in cloud.fields:
        raise FormatError(f"{where}: has no intensity; its fields are {', '.join(cloud.fields)}")
    if isinstance(cloud, Scan) and len(cloud.shots):
        table = cloud.shots
        distance, level = np.full(len(table), np.nan), np.full(len(table), np.nan)
        # The nearest of several returns is written last, so that it overwrites the others.
        order = np.argsort(-cloud.fields["range"], kind="stable")
        shot = cloud.fields["shot"][order].astype(np.int64)
        distance[shot], level[shot] = cloud.fields["range"][order], cloud.fields["intensity"][order]
        return BoardShots(table.direction.astype(np.float64), table.origin.astype(np.float64), distance, level)
    xyz = cloud.xyz.astype(np.float64)
    there: Mask = np.asarray(np.isfinite(xyz).all(axis=1))
    direction = cloud.fields["direction"].astype(np.float64) if "direction" in cloud.fields else None
    if direction is None:
        # Lost shots without a direction cannot be assigned to a board.
        xyz, level = xyz[there], cloud.fields["intensity"][there].astype(np.float64)
        distance = np.linalg.norm(xyz, axis=1)
        return BoardShots(xyz / distance[:, None], np.zeros_like(xyz), distance, level, knows_lost=False)
    distance = np.where(there, np.linalg.norm(np.where(there[:, None], xyz, 0.0), axis=1), np.nan)
    level = np.where(there, cloud.fields["intensity"].astype(np.float64), np.nan)
    return BoardShots(direction, np.zeros_like(direction), distance, level)


def _laser_scans(file: Path, topic: str | None) -> BoardShots | None:
    """Shots of the LaserScan messages of a bag; None if it has none."""
    from parhelion.io.ros import BagReader, decode
    from parhelion.io.ros.messages import LASER_SCAN

    bag = BagReader(file)
    topics = [one.name for one in bag.of_type(LASER_SCAN) if topic in (None, one.name)]
    if not topics:
        return None
    parts = []
    for message in bag.messages(topics[:1]):
        scan: Any = decode(message.type, message.data)
        ranges = np.asarray(scan.ranges, np.float64)
        level = np.asarray(scan.intensities, np.float64)
        if len(level) != len(ranges):
            raise FormatError(f"{file}: the messages of {topics[0]} carry no intensities")
        angle = scan.angle_min + scan.angle_increment * np.arange(len(ranges))
        parts.append(from_angles(np.where(ranges <= scan.range_max, ranges, np.nan), level, angle))
    return joined_shots(parts)
