"""Lidar frames as images with one pixel per pulse, including lost pulses, so that neighbours can be compared.

Rows are rings, the highest first; columns are firings in order. Values that a recording does not contain are NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Table
from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import FormatError
from parhelion.io.recordings import clouds_of

if TYPE_CHECKING:
    from typing_extensions import Self

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

SEAM_COLUMNS = 8
"""Empty columns between two frames that are processed together, so that windows do not reach across the seam."""
WITHHELD_PHOTONS = 25.0
"""Photon count above which a pulse without a range was not too weak: the sensor withheld its range."""
STATIONARY_M = 0.03
STATIONARY_SHARE = 0.8
"""A sensor is stationary if this share of the pixels of its first and last frame agree within `STATIONARY_M` metres."""


@dataclass(frozen=True, eq=False)
class TableWithMetadata(Table):
    """Table with additional fields that are not arrays and apply to all rows."""

    def rows(self, wanted: NDArray[np.int64] | Mask | slice) -> Self:
        """Selected rows, by number, mask or slice."""
        return replace(self, **{name: values[wanted] for name, values in self._arrays().items()})

    @classmethod
    def joined(cls, parts: Iterable[Self], **metadata: Any) -> Self:
        """All rows of several tables; `metadata` apply to the result and default to those of the first table."""
        tables = list(parts)
        columns = [table._arrays() for table in tables]
        arrays = {name: np.concatenate([column[name] for column in columns]) for name in columns[0]}
        return replace(tables[0], **arrays, **metadata)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        every = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in every.items() if isinstance(value, np.ndarray)}


@dataclass(frozen=True, eq=False)
class RangeImage:
    """One lidar frame, or several side by side. Images have the shape (rows, columns), the highest row first."""

    name: str
    range: Floats
    """Distance from the beam origin [m]; NaN without a return."""
    signal: Floats
    """Photons if the sensor counts them, otherwise the maker's intensity; includes lost pulses if recorded."""
    reflectivity: Floats
    """Calibrated reflectivity [percent]; NaN where the recording has none."""
    near_ir: Floats
    """Near infrared [counts]."""
    lost: Mask
    """Pulse was fired, but no range is given."""
    withheld: Mask
    """Lost pulses that were strong enough to detect: the sensor withheld their range."""
    elevation_deg: Floats
    """Elevation of each row, shape (rows,)."""
    beam_offset_m: float = 0.0
    """Distance from the axis to the beam origins; the ranges of some sensors count from the axis."""
    direction: Floats | None = None
    """Unit direction of each pulse, sensor frame, shape (rows, columns, 3)."""
    origin: Floats | None = None
    """Origin of each pulse [m], shape (rows, columns, 3)."""
    knows_lost: bool = True
    """The recording contains lost pulses; a plain cloud of points does not."""
    time: Floats | None = None
    """Firing time of each pulse [s] after the start of the frame; None for several frames side by side."""
    start_s: float | None = None
    """Start time of the frame [s] by the clock of the recording."""
    numbered: bool = True
    """The recording numbers its columns; otherwise they are derived from the azimuth."""

    @property
    def row(self) -> NDArray[np.int64]:
        """Row of each pixel, 0 the highest."""
        return np.broadcast_to(np.arange(self.range.shape[0])[:, None], self.range.shape)

    @property
    def ring(self) -> NDArray[np.int64]:
        """Ring of each pixel as scans count: 0 the lowest."""
        return self.range.shape[0] - 1 - self.row

    @property
    def column(self) -> NDArray[np.int64]:
        """Column of each pixel, in the order of firing."""
        return np.broadcast_to(np.arange(self.range.shape[1]), self.range.shape)

    @property
    def returned(self) -> Mask:
        """Mask of pulses that have a range."""
        return np.isfinite(self.range)


def range_image(cloud: PointCloud, name: str = "") -> RangeImage:
    """Range image of a scan; of several returns the strongest is used.

    Clouds without a shot table need the field `ring`; their columns come from `column` or from the azimuth.
    """
    if not np.isfinite(cloud.xyz).all() and isinstance(cloud, Scan):
        raise FormatError(f"{name or 'scan'}: a return has coordinates that are not finite")
    return _of_scan(cloud, name) if isinstance(cloud, Scan) and len(cloud.shots) else _of_points(cloud, name)


def _of_scan(scan: Scan, name: str) -> RangeImage:
    shots = scan.shots
    rows, first = int(shots.ring.max()) + 1, int(shots.column.min())
    shape = (rows, int(shots.column.max()) + 1 - first)
    if len(shots) < 0.5 * shape[0] * shape[1]:
        raise FormatError(f"{name or 'scan'}: its pulses do not form rows and columns, so neighbours are unknown")
    place = (rows - 1 - shots.ring.astype(np.int64), shots.column.astype(np.int64) - first)
    shot = scan.fields["shot"].astype(np.int64)
    order = _strongest_last(scan)
    shot = shot[order]

    def image(values: NDArray[np.float64] | None, lost: NDArray[np.float32] | None = None) -> Floats:
        flat = np.full(len(shots), np.nan)
        if lost is not None:
            flat[scan.lost] = lost[scan.lost]
        if values is not None:
            flat[shot] = values[order]
        made = np.full(shape, np.nan)
        made[place] = flat
        return made

    def field(name: str) -> NDArray[np.float64] | None:
        return scan.fields[name].astype(np.float64) if name in scan.fields else None

    fired = np.zeros(shape, bool)
    fired[place] = True
    distance, signal = image(field("range")), image(field("intensity"), shots.noise)
    lost = fired & np.isnan(distance)
    share = field("reflectivity")
    direction, origin = (np.full((*shape, 3), np.nan) for _ in range(2))
    direction[place], origin[place] = shots.direction, shots.origin
    with np.errstate(invalid="ignore"):
        elevation = np.degrees(np.arcsin(np.clip(direction[..., 2], -1.0, 1.0)))
        withheld = lost & (signal > WITHHELD_PHOTONS)
    offset = float(np.median(np.hypot(shots.origin[:, 0], shots.origin[:, 1])))
    time = np.full(shape, np.nan)
    time[place] = shots.time
    return RangeImage(
        name,
        distance,
        signal,
        image(None if share is None else 100.0 * share),
        image(field("near_ir"), shots.near_ir),
        lost,
        withheld,
        np.nanmedian(elevation, axis=1),
        offset,
        direction,
        origin,
        time=time,
        start_s=float(scan.start_time),
    )


def _strongest_last(scan: Scan) -> NDArray[np.int64]:
    """Order that writes the strongest return of each shot last, so that it overwrites the others."""
    strength = scan.fields.get("power", scan.fields.get("intensity"))
    if strength is None or scan.shots.return_count.max(initial=0) <= 1:
        return np.arange(len(scan))
    return np.argsort(strength, kind="stable")


def _of_points(cloud: PointCloud, name: str) -> RangeImage:
    where = name or "cloud"
    if "ring" not in cloud.fields:
        raise FormatError(f"{where}: has no field 'ring' (fields: {', '.join(cloud.fields)}), so rows are unknown")
    xyz = cloud.xyz.astype(np.float64)
    there: Mask = np.asarray(np.isfinite(xyz).all(axis=1))
    if not there.any():
        raise FormatError(f"{where}: has no point with finite coordinates")
    ring = cloud.fields["ring"].astype(np.int64)
    knows_lost = bool((~there).any()) and "column" in cloud.fields
    if "column" in cloud.fields:
        column = cloud.fields["column"].astype(np.int64)
    else:
        column = _columns_by_azimuth(xyz, there, ring)
    kept: Mask = np.logical_or(there, knows_lost)
    column = column - column[kept].min()
    shape = (int(ring.max()) + 1, int(column[kept].max()) + 1)
    if there.sum() < 0.02 * shape[0] * shape[1]:
        raise FormatError(f"{where}: its points do not form rows and columns, so neighbours are unknown")
    place = (shape[0] - 1 - ring[kept], column[kept])
    metres = np.where(there, np.linalg.norm(np.where(there[:, None], xyz, 0.0), axis=1), np.nan)
    if "range" in cloud.fields:
        metres = np.where(there, cloud.fields["range"].astype(np.float64), np.nan)

    def image(values: NDArray[np.float64] | None) -> Floats:
        made = np.full(shape, np.nan)
        if values is not None:
            made[place] = values[kept]
        return made

    def field(key: str, factor: float = 1.0) -> NDArray[np.float64] | None:
        return factor * cloud.fields[key].astype(np.float64) if key in cloud.fields else None

    distance = image(metres)
    fired = np.zeros(shape, bool)
    fired[place] = True
    lost = fired & np.isnan(distance) if knows_lost else np.zeros(shape, bool)
    unit = np.full((*shape, 3), np.nan)
    unit[place] = (xyz / np.linalg.norm(xyz, axis=1, keepdims=True))[kept]
    elevation = np.degrees(np.arcsin(np.clip(unit[..., 2], -1.0, 1.0)))
    rows = np.array([np.median(part[np.isfinite(part)]) if np.isfinite(part).any() else np.nan for part in elevation])
    start = cloud.metadata.get("time")
    return RangeImage(
        name,
        distance,
        image(field("intensity")),
        image(field("reflectivity", 100.0)),
        image(field("near_ir")),
        lost,
        np.zeros(shape, bool),
        rows,
        0.0,
        unit,
        np.zeros_like(unit),
        knows_lost,
        image(field("time")) if "time" in cloud.fields else None,
        float(start) if isinstance(start, (int, float)) else None,
        "column" in cloud.fields,
    )


def _columns_by_azimuth(xyz: Floats, there: Mask, ring: NDArray[np.int64]) -> NDArray[np.int64]:
    """Columns from the azimuth, in steps of the median spacing between neighbours of a ring."""
    azimuth = np.arctan2(xyz[:, 1], xyz[:, 0])
    steps = []
    for number in np.unique(ring[there]):
        own = np.sort(azimuth[there & (ring == number)])
        steps.append(np.diff(own))
    every = np.concatenate(steps)
    every = every[every > 1e-5]
    if not len(every):
        return np.zeros(len(xyz), np.int64)
    step = float(np.median(every))
    return np.where(there, np.floor((np.nan_to_num(azimuth) + np.pi) / step), 0).astype(np.int64)


def joined(frames: Sequence[RangeImage]) -> RangeImage:
    """Frames side by side, with empty columns between them; all must have the same number of rows."""
    first = frames[0]
    if len(frames) == 1:
        return first
    rows = first.range.shape[0]
    for other in frames[1:]:
        if other.range.shape[0] != rows:
            raise FormatError(
                f"{other.name}: has {other.range.shape[0]} rows, but {first.name} has {rows}: "
                "the recording mixes sensors"
            )

    def side_by_side(field: str) -> NDArray[np.generic]:
        parts = []
        for number, frame in enumerate(frames):
            image = getattr(frame, field)
            if number:
                empty = np.zeros((rows, SEAM_COLUMNS, *image.shape[2:]), image.dtype)
                parts.append(empty if image.dtype == bool else empty * np.nan)
            parts.append(image)
        return np.concatenate(parts, axis=1)

    fields = ["range", "signal", "reflectivity", "near_ir", "lost", "withheld"]
    if all(frame.direction is not None and frame.origin is not None for frame in frames):
        fields += ["direction", "origin"]
    images = {field: side_by_side(field) for field in fields}
    knows_lost = all(frame.knows_lost for frame in frames)
    return replace(first, **images, knows_lost=knows_lost, time=None, start_s=None)  # type: ignore[arg-type]


def is_stationary(frames: Sequence[RangeImage]) -> bool:
    """Test whether the sensor is stationary over several frames: most pixels keep their range."""
    if len(frames) < 2 or frames[0].range.shape != frames[-1].range.shape:
        return False
    first = frames[0].range
    off = np.abs(frames[-1].range - first)
    known = np.isfinite(off)
    if known.sum() <= 100:
        return False
    # On a level road every row has one range from any position, so only pixels that differ from it are compared.
    row_median = np.array([np.median(row[own]) if own.any() else np.nan for row, own in zip(first, known, strict=True)])
    with np.errstate(invalid="ignore"):
        standing_out = known & (np.abs(first - row_median[:, None]) > 0.1 * row_median[:, None])
    chosen = standing_out if standing_out.sum() > 100 else known
    return float(np.mean(off[chosen] < STATIONARY_M)) > STATIONARY_SHARE


def clean(frame: RangeImage) -> Mask:
    """Pixels whose neighbours in the row lie within 3 % of their range, which excludes mixed pixels at edges."""
    neighbours = [np.roll(frame.range, step, axis=1) for step in (-1, 1)]
    with np.errstate(invalid="ignore"):
        return np.all([np.abs(other - frame.range) < 0.03 * frame.range for other in neighbours], axis=0)


def mean_level(frames: list[RangeImage], level: Floats) -> Floats:
    """Mean over the frames of a level that was computed on all of them side by side."""
    width = frames[0].range.shape[1] + SEAM_COLUMNS
    parts = [level[:, k * width : k * width + width - SEAM_COLUMNS] for k in range(len(frames))]
    stack = np.stack(parts)
    known = np.isfinite(stack)
    return np.where(known.any(axis=0), np.nansum(stack, axis=0) / np.maximum(known.sum(axis=0), 1), np.nan)


# ---- frames of a recording -------------------------------------------------------------------------------------------


MOST_FRAMES = 40
"""Largest number of frames that are used; longer recordings are sampled evenly."""


def read_drive(
    path: str | PathLike[str], *, sensor: str | None = None, turn: int | None = None, topic: str | None = None
) -> list[RangeImage]:
    """Frames of a recording as range images; `turn` selects one. Recordings of several sensors raise FormatError."""
    found: list[RangeImage] = []
    names: set[str] = set()
    number = -1
    for number, (_, cloud) in enumerate(clouds_of(path, sensor=sensor, topic=topic)):
        if "sensor" in cloud.metadata:
            names.add(str(cloud.metadata["sensor"]))
            if len(names) > 1:
                raise FormatError(f"{path}: mixes recordings of several sensors: {', '.join(sorted(names))}")
        if turn is None or turn == number:
            found.append(range_image(cloud, f"{Path(path).name} frame {number}"))
        if turn == number:
            break
    if not found:
        raise FormatError(
            f"{path}: has the frames 0 to {number}, not {turn}" if turn is not None else f"{path}: has no frames"
        )
    # The first and last frame of a capture may be partial; they are dropped if complete frames exist.
    widest = max(one.range.shape[1] for one in found)
    whole = [one for one in found if one.range.shape[1] > 0.9 * widest]
    chosen = np.unique(np.linspace(0, len(whole) - 1, min(len(whole), MOST_FRAMES)).astype(int))
    return [whole[k] for k in chosen]
