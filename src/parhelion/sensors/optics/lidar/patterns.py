"""Scan patterns: from a pattern's data sheet to a table of shots.

Frame: x forward, y left, z up; azimuth counter-clockwise from x, elevation up from the xy plane. All computations are
in float64; directions and origins are stored as float32 for the ray engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.reading import array_of, read_bytes, reading
from parhelion.sensors.optics.lidar.config import (
    MOST_COLUMNS,
    Channels,
    NonRepetitivePattern,
    Pattern,
    RasterPattern,
    RosettePattern,
    SpinningPattern,
    SwathPattern,
    TablePattern,
)

Floats = NDArray[np.float64]

TABLE_COLUMNS = ("azimuth_deg", "elevation_deg", "time_s", "ring")
_LARGEST_TABLE_BYTES = 64 * 1024 * 1024
_COUNT_SLACK = 1e-6  # so that floor() does not drop a column if the period is rounded to nine digits


@dataclass(frozen=True, eq=False)
class ShotTable:
    """All shots of one frame, column by column: shot = column * channels + channel. Arrays are read-only."""

    direction: NDArray[np.float32]
    """Unit vectors in the sensor frame, shape (n, 3)."""
    origin: NDArray[np.float32]
    """Beam exits in the sensor frame [m], shape (n, 3). Ranges are measured from here."""
    time: Floats
    """Time after the start of the frame [s], shape (n,)."""
    ring: NDArray[np.uint16]
    """Ring number, shape (n,); by default the rank by elevation, lowest 0."""
    column: NDArray[np.uint16]
    """Firing sequence within the frame, shape (n,)."""
    azimuth: NDArray[np.float32]
    """Azimuth of the direction in (-pi, pi] [rad], shape (n,)."""
    elevation: NDArray[np.float32]
    """Elevation of the direction [rad], shape (n,)."""

    def __len__(self) -> int:
        return len(self.time)

    @cached_property
    def duration(self) -> float:
        """Time of the last shot [s]; 0 for an empty table."""
        return float(self.time.max(initial=0.0))

    @cached_property
    def recorded_time(self) -> NDArray[np.float32]:
        """`time` with the precision of records."""
        return self.time.astype(np.float32)


def shot_table(
    pattern: Pattern,
    *,
    frame_start_s: float = 0.0,
    rate_hz: float | None = None,
    columns: int | None = None,
    folder: Path | None = None,
) -> ShotTable:
    """Shots of the frame that starts `frame_start_s` after the sensor started.

    `rate_hz` and `columns` select one of the modes that the sensor offers; by default that of the pattern. `folder` is
    the folder of the preset, for patterns that name a file. Patterns that repeat ignore `frame_start_s`.
    """
    rate = _offered_rate(pattern, rate_hz)
    if isinstance(pattern, SpinningPattern):
        return _spinning(pattern, *_spinning_mode(pattern, rate, rate_hz is not None, columns))
    if columns is not None:
        raise ConfigError(f"columns: a {pattern.kind} pattern has no choice of columns, got {columns}")
    if isinstance(pattern, RasterPattern):
        return _raster(pattern, rate)
    if isinstance(pattern, RosettePattern):
        return _rosette(pattern, rate, frame_start_s)
    if isinstance(pattern, NonRepetitivePattern):
        return _non_repetitive(pattern, rate, frame_start_s)
    if isinstance(pattern, SwathPattern):
        return _swath(pattern, rate)
    return _from_file(pattern, rate, folder or Path())


def repeats(pattern: Pattern) -> bool:
    """Return True if every frame has the same table, which can then be cached."""
    return isinstance(pattern, SpinningPattern | RasterPattern | SwathPattern | TablePattern)


def _offered_rate(pattern: Pattern, rate_hz: float | None) -> float:
    if rate_hz is None:
        return pattern.rate_hz
    offered = sorted({pattern.rate_hz, *pattern.rates_hz})
    for rate in offered:
        if abs(rate - rate_hz) < 1e-9:
            return rate
    raise ConfigError(f"rate_hz: {rate_hz:g} Hz is not offered; offered: {', '.join(f'{r:g}' for r in offered)}")


def _spinning_mode(
    pattern: SpinningPattern, rate: float, rate_chosen: bool, columns: int | None
) -> tuple[float, int, float]:
    """Rate [Hz], number of firing sequences in a frame, and the time between them [s]."""
    part = pattern.field_of_view_deg / 360.0
    if pattern.firing_period_us is not None:
        if columns is not None:
            raise ConfigError(f"columns: this sensor fires every {pattern.firing_period_us:g} us, not by angle")
        period = pattern.firing_period_us * 1e-6
        return rate, int(part / rate / period + _COUNT_SLACK), period
    assert pattern.columns is not None
    rate, per_revolution = _angular_mode(pattern, rate, rate_chosen, columns)
    # A sector has a shot at both of its ends; a full revolution ends where it started.
    count = per_revolution if part == 1.0 else int(part * per_revolution + _COUNT_SLACK) + 1
    return rate, count, 1.0 / (rate * per_revolution)


def _angular_mode(pattern: SpinningPattern, rate: float, rate_chosen: bool, columns: int | None) -> tuple[float, int]:
    """Rate and columns per revolution of an offered mode; explicit choices take precedence over defaults."""
    assert pattern.columns is not None
    wanted = pattern.columns if columns is None else columns
    if not pattern.modes:
        offered = sorted({pattern.columns, *pattern.columns_offered})
        if wanted not in offered:
            raise ConfigError(f"columns: {wanted} is not offered; offered: {', '.join(map(str, offered))}")
        return rate, wanted
    if (wanted, rate) in pattern.modes:
        return rate, wanted
    if columns is None and rate_chosen:
        return rate, next((c for c, r in pattern.modes if r == rate), wanted)
    if columns is not None and not rate_chosen:
        for mode_columns, mode_rate in pattern.modes:
            if mode_columns == columns:
                return mode_rate, columns
    modes = ", ".join(f"{c}x{r:g}" for c, r in pattern.modes)
    raise ConfigError(f"columns: {wanted} at {rate:g} Hz is not offered; offered (columns x Hz): {modes}")


def _spinning(pattern: SpinningPattern, rate: float, count: int, period: float) -> ShotTable:
    channels = pattern.channels
    sense = -1.0 if pattern.direction == "clockwise" else 1.0
    full_circle = pattern.field_of_view_deg == 360.0
    start = pattern.azimuth_start_deg if full_circle else -sense * pattern.field_of_view_deg / 2.0
    time = np.arange(count)[:, None] * period + _per_channel(channels, channels.fire_time_us) * 1e-6
    head = np.radians(start + sense * 360.0 * rate * time)
    azimuth = head + np.radians(_per_channel(channels, channels.azimuth_deg))
    elevation = np.broadcast_to(np.radians(channels.elevation_deg), azimuth.shape)

    forward, side, height = (
        _per_channel(channels, values) * 1e-3
        for values in (channels.origin_forward_mm, channels.origin_side_mm, channels.origin_height_mm)
    )
    exit_radius = pattern.beam_offset_mm * 1e-3
    origin = np.stack(
        [
            exit_radius * np.cos(head) + forward * np.cos(azimuth) - side * np.sin(azimuth),
            exit_radius * np.sin(head) + forward * np.sin(azimuth) + side * np.cos(azimuth),
            np.broadcast_to(height + pattern.height_mm * 1e-3, azimuth.shape),
        ],
        axis=-1,
    )
    ring = np.asarray(channels.ring) if channels.ring is not None else _rank(np.asarray(channels.elevation_deg))
    return _table(_unit(azimuth, elevation), time, ring, origin)


def _per_channel(channels: Channels, values: list[float] | None) -> Floats:
    return np.zeros(len(channels.elevation_deg)) if values is None else np.asarray(values, dtype=np.float64)


def _raster(pattern: RasterPattern, rate: float) -> ShotTable:
    azimuth = np.radians(np.linspace(*pattern.azimuth_deg, pattern.columns))[:, None]
    elevation = np.radians(np.linspace(*pattern.elevation_deg, pattern.rows))[None, :]
    shape = (pattern.columns, pattern.rows)
    column_time = 0.0 if pattern.flash else pattern.duty / rate / pattern.columns
    row_time = 0.0 if pattern.simultaneous_rows else column_time / pattern.rows
    time = np.arange(pattern.columns)[:, None] * column_time + np.arange(pattern.rows)[None, :] * row_time
    direction = _unit(np.broadcast_to(azimuth, shape), np.broadcast_to(elevation, shape))
    return _table(direction, time, _rank(elevation[0]))


def _rosette(pattern: RosettePattern, rate: float, frame_start_s: float) -> ShotTable:
    """Sum of two rotating deflections, as vectors perpendicular to the x axis (thin prisms)."""
    time = _steady_times(pattern.points_per_second, pattern.lines, rate)
    phase = 2.0 * np.pi * (frame_start_s + time) * np.asarray(pattern.prism_hz)
    left = pattern.stretch[0] * (np.cos(phase) @ np.asarray(pattern.prism_deg))
    up = pattern.stretch[1] * (np.sin(phase) @ np.asarray(pattern.prism_deg))
    across = np.radians(np.broadcast_to(left[:, None], (len(time), pattern.lines)))
    along = np.radians(up[:, None] + _stack(pattern.lines, pattern.line_spacing_deg))
    angle = np.hypot(across, along)
    scale = np.sinc(angle / np.pi)  # sin(angle) / angle, finite at the centre
    direction = np.stack([np.cos(angle), across * scale, along * scale], axis=-1)
    return _table(direction, np.broadcast_to(time, along.shape), np.arange(pattern.lines))


def _non_repetitive(pattern: NonRepetitivePattern, rate: float, frame_start_s: float) -> ShotTable:
    time = _steady_times(pattern.points_per_second, pattern.lines, rate)
    phase = np.mod((frame_start_s + time) * pattern.turns_hz, 1.0)
    nod = np.mod((frame_start_s + time) * pattern.nod_hz, 1.0)
    first, last = pattern.azimuth_deg
    low, high = pattern.elevation_deg
    stack = _stack(pattern.lines, pattern.line_spacing_deg)
    rolls = abs(last - first) >= 360.0
    roll = 2.0 * np.pi * phase if rolls else np.zeros_like(phase)
    swing = (high - low) / 2.0 - stack.max()
    elevation = np.radians((low + high) / 2.0 - swing * np.cos(2.0 * np.pi * nod) + stack * np.cos(roll))
    azimuth = np.radians(first + (last - first) * phase + stack * np.sin(roll) / np.cos(elevation))
    return _table(_unit(azimuth, elevation), np.broadcast_to(time, azimuth.shape), np.arange(pattern.lines))


def _swath(pattern: SwathPattern, rate: float) -> ShotTable:
    """Directions around nadir: x along the flight, y to the left, by the tangents of the angles from nadir."""
    count = max(1, int(pattern.duty * pattern.points_per_second / rate + _COUNT_SLACK))
    cycles = round(pattern.scan_hz / rate)
    # The shots of a frame are spread evenly over the measuring parts of its cycles.
    place = np.arange(count, dtype=np.float64) * cycles / count
    line, phase = np.floor(place), np.mod(place, 1.0)
    time = (line + pattern.duty * phase) / pattern.scan_hz
    half = np.radians(pattern.half_angle_deg)
    along = np.zeros(count)
    if pattern.mirror == "palmer":
        forward = half if pattern.along_angle_deg is None else np.radians(pattern.along_angle_deg)
        along, across = np.tan(forward) * np.cos(2.0 * np.pi * phase), np.tan(half) * np.sin(2.0 * np.pi * phase)
    elif pattern.mirror == "polygon":
        across = np.tan(half * (2.0 * phase - 1.0))
    else:
        across = np.tan(half * np.sin(2.0 * np.pi * phase))
    direction = np.stack([along, across, -np.ones(count)], axis=1)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return _table(direction[:, None], time[:, None], np.zeros(1, np.int64))


def _steady_times(points_per_second: float, lines: int, rate: float) -> Floats:
    """Times of the groups of lines in a frame, shape (groups, 1)."""
    group = lines / points_per_second
    return (np.arange(max(1, round(1.0 / (rate * group))), dtype=np.float64) * group)[:, None]


def _stack(lines: int, spacing: float) -> Floats:
    return (np.arange(lines, dtype=np.float64) - (lines - 1) / 2.0) * spacing


def _from_file(pattern: TablePattern, rate: float, folder: Path) -> ShotTable:
    file = folder / pattern.file
    with reading(file):
        values = _read_npy(file) if file.suffix.lower() == ".npy" else _read_csv(file)
    if values.ndim != 2 or values.shape[1] not in (3, 4) or not len(values):
        raise FormatError(f"{file}: expected rows of {', '.join(TABLE_COLUMNS[:3])}[, ring], got shape {values.shape}")
    if not np.isfinite(values).all():
        raise FormatError(
            f"{file}: row {int(np.argmin(np.isfinite(values).all(axis=1)))} contains a value that is not finite"
        )
    azimuth, elevation, time = values[:, :3].T
    if np.abs(elevation).max() > 90.0:
        raise FormatError(f"{file}: elevation_deg must be within -90 and 90")
    if time.min() < 0.0 or time.max() >= 1.0 / rate or (np.diff(time) < 0.0).any():
        raise FormatError(
            f"{file}: time_s must not decrease and must lie between 0 and the frame period, {1.0 / rate:g} s"
        )
    ring = values[:, 3] if values.shape[1] == 4 else np.zeros(len(values))
    if (ring < 0).any() or (ring >= MOST_COLUMNS).any() or (ring % 1).any():
        raise FormatError(f"{file}: ring must hold whole numbers from 0 to {MOST_COLUMNS - 1}")
    column = np.cumsum(np.diff(time, prepend=time[0]) > 0.0)
    return _pack(_unit(np.radians(azimuth), np.radians(elevation)), np.zeros((len(time), 3)), time, ring, column)


def _read_npy(file: Path) -> Floats:
    content = read_bytes(file, largest=_LARGEST_TABLE_BYTES, what="a table of shots")
    try:
        return np.asarray(array_of(content), dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise FormatError(f"{file}: is not an array of numbers ({error})") from None


def _read_csv(file: Path) -> Floats:
    try:
        text = read_bytes(file, largest=_LARGEST_TABLE_BYTES, what="a table of shots").decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError(f"{file}: cannot be read as text") from None
    header, _, body = text.partition("\n")
    names = [name.strip() for name in header.split(",")]
    if names not in (list(TABLE_COLUMNS[:3]), list(TABLE_COLUMNS)):
        raise FormatError(
            f"{file}: the first line must be {','.join(TABLE_COLUMNS[:3])}[,ring], got {header.strip()!r}"
        )
    try:
        rows = [line.split(",") for line in body.splitlines() if line.strip()]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(names))
    except ValueError:
        raise FormatError(f"{file}: every row must hold {len(names)} numbers") from None


def _rank(elevation: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rank of each entry, lowest 0; equal entries keep their order."""
    rank = np.empty(len(elevation), dtype=np.int64)
    rank[np.argsort(elevation, kind="stable")] = np.arange(len(elevation))
    return rank


def _unit(azimuth: Floats, elevation: Floats) -> Floats:
    level = np.cos(elevation)
    return np.stack([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)], axis=-1)


def _table(direction: Floats, time: Floats, ring: NDArray[np.int64], origin: Floats | None = None) -> ShotTable:
    """Table from arrays of shape (columns, channels[, 3]) and the ring of each channel."""
    columns, channels = direction.shape[:2]
    column = np.repeat(np.arange(columns), channels)
    where = np.zeros_like(direction) if origin is None else origin
    return _pack(direction.reshape(-1, 3), where.reshape(-1, 3), time.reshape(-1), np.tile(ring, columns), column)


def _pack(
    direction: Floats, origin: Floats, time: Floats, ring: NDArray[np.generic], column: NDArray[np.integer]
) -> ShotTable:
    if column[-1] >= MOST_COLUMNS:
        raise ConfigError(f"pattern: {int(column[-1]) + 1} columns in a frame; at most {MOST_COLUMNS} can be numbered")
    table = ShotTable(
        direction=direction.astype(np.float32),
        origin=origin.astype(np.float32),
        time=np.array(time, dtype=np.float64),
        ring=ring.astype(np.uint16),
        column=column.astype(np.uint16),
        azimuth=np.arctan2(direction[:, 1], direction[:, 0]).astype(np.float32),
        elevation=np.arcsin(np.clip(direction[:, 2], -1.0, 1.0)).astype(np.float32),
    )
    for array in vars(table).values():
        array.flags.writeable = False
    return table


# ---- Groups of neighbouring beams that share integrals along the beam -----------------------------------------------


_GROUP_DEG = 1.6
"""Largest angle spanned by the beams of a group."""
_LARGEST_GROUP = 16


def group_size(table: ShotTable) -> int:
    """Number of neighbouring beams that share an integral; it divides the number of shots of every ring."""
    order = np.lexsort((table.time, table.ring))
    axis = table.direction[order].astype(np.float64)
    if len(axis) < 2:
        return 1
    step = np.degrees(2.0 * np.arcsin(np.clip(np.linalg.norm(np.diff(axis, axis=0), axis=1) / 2.0, 0.0, 1.0)))
    most = int(np.clip(_GROUP_DEG / max(float(np.median(step)), 1e-6), 1, _LARGEST_GROUP))
    shared = int(np.gcd.reduce(np.unique(table.ring, return_counts=True)[1]))
    return max(size for size in range(1, most + 1) if shared % size == 0)
