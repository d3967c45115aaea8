"""Revolutions of spinning lidars: firing sequences of packets as scans, and scans as a continuous stream of packets.

A frame is one revolution that starts at azimuth 0 of the head. A recording may start and end anywhere, so its first and
last frame may be incomplete.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import FIELDS, PointCloud, Scan, Shots
from parhelion.core.streams import ImuData
from parhelion.makers import Datagram, Endpoint
from parhelion.makers.spinning import Floats, LaserHead, Sequences, return_mode, sequences_of

_PAUSE_S = 1.0  # beyond this step, the clock was adjusted or the recording paused
_LONGEST_FRAME_S = 1.0  # five times the slowest revolution: a stationary head is cut by time
_MOST_SEQUENCES = 40_000  # of a frame: one second of the fastest model
_MOST_COLUMNS = 65535

Decoded = tuple[Sequences, LaserHead, str]
"""Sequences of some packets, the lasers of the sensor and its return mode."""


# ---- decoding -------------------------------------------------------------------------------------------------------


_BATCH = 32


def batched(payloads: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Packets in groups, without duplicates."""
    source = iter(payloads)
    while batch := list(dict.fromkeys(islice(source, _BATCH))):
        yield batch


def revolutions(parts: Iterable[Decoded]) -> Iterator[Scan]:
    """Scans of consecutive parts of a recording."""
    waiting: Sequences | None = None
    known: tuple[LaserHead, str] | None = None
    for new, rotor, mode in parts:
        if not len(new):
            continue
        if waiting is not None and known is not None and (rotor.channels, mode) != (known[0].channels, known[1]):
            yield from _scans(_frames_at_end(waiting), *known)
            waiting = None
        known = (rotor, mode)
        waiting = _sorted(new if waiting is None else Sequences.joined([waiting, new]))
        while (end := _frame_end(waiting)) is not None:
            yield from _scans([waiting.rows(slice(end))], *known)
            waiting = waiting.rows(slice(end, None))
    if waiting is not None and known is not None:
        yield from _scans(_frames_at_end(waiting), *known)


def _scans(frames: Iterable[Sequences], rotor: LaserHead, mode: str) -> Iterator[Scan]:
    for frame in frames:
        # The last packet of a stream is padded with firings without a return, which are not a frame.
        if len(frame) > 24 or frame.distance.any():
            yield scan_of(frame, rotor, mode)


def _sorted(sequences: Sequences) -> Sequences:
    """Sequences of late packets in their place; those of another clock stay where they are."""
    step = np.diff(sequences.time_s)
    if not ((step < 0) & (step > -_PAUSE_S)).any() or (np.abs(step) > _PAUSE_S).any():
        return sequences
    return sequences.rows(np.argsort(sequences.time_s, kind="stable"))


def _frame_end(sequences: Sequences) -> int | None:
    """Number of sequences of the first frame; None if it is not complete."""
    turned = np.diff(sequences.head_deg)
    passed = np.diff(sequences.time_s)
    ends = (turned < -180.0) | (np.abs(passed) > _PAUSE_S)
    found = np.flatnonzero(ends)
    end = int(found[0]) + 1 if len(found) else len(sequences)
    late = np.flatnonzero(sequences.time_s[:end] - sequences.time_s[0] > _LONGEST_FRAME_S)
    end = min(end, _MOST_SEQUENCES, int(late[0]) if len(late) else end)
    return end if end < len(sequences) else None


def _frames_at_end(sequences: Sequences) -> Iterator[Sequences]:
    while (end := _frame_end(sequences)) is not None:
        yield sequences.rows(slice(end))
        sequences = sequences.rows(slice(end, None))
    yield sequences


def _turning_deg_s(sequences: Sequences) -> float:
    """Rate of the head, clockwise; the median of short spans resists lost packets."""
    if len(sequences) < 2:
        return 0.0
    head = np.unwrap(sequences.head_deg, period=360.0)
    span = min(len(head) - 1, 64)
    turned, passed = head[span:] - head[:-span], sequences.time_s[span:] - sequences.time_s[:-span]
    valid = passed > 0.0
    return float(np.median(turned[valid] / passed[valid])) if valid.any() else 0.0


def _columns(sequences: Sequences, rotor: LaserHead) -> NDArray[np.int64]:
    """Number of each sequence in its frame, including those of lost packets."""
    # Lost packets leave whole periods; between two simulated scans, the head pauses for less than one.
    step = np.floor(np.diff(sequences.time_s) * (1e6 / rotor.period_us) + 0.1)
    step = np.clip(np.nan_to_num(step), 1, _MOST_COLUMNS).astype(np.int64)
    return np.minimum(np.concatenate([[0], np.cumsum(step)]), _MOST_COLUMNS)


def scan_of(sequences: Sequences, rotor: LaserHead, mode: str) -> Scan:
    """Scan of one frame with all of its shots."""
    count, lasers = len(sequences), rotor.channels
    rate = _turning_deg_s(sequences)
    start = float(sequences.time_s[0] + rotor.fire_time_s.min())
    fired = sequences.time_s[:, None] - start + rotor.fire_time_s
    head = np.radians(sequences.head_deg[:, None] + rate * rotor.fire_time_s)
    azimuth = np.radians(rotor.offset_deg) - head
    elevation = np.radians(np.asarray(rotor.elevation_deg))
    level, up = np.cos(elevation), np.sin(elevation)
    direction = np.stack(
        [level * np.cos(azimuth), level * np.sin(azimuth), np.broadcast_to(up, azimuth.shape)], axis=-1
    ).reshape(-1, 3)
    exits = np.stack(
        [rotor.exit_m * np.cos(head), -rotor.exit_m * np.sin(head), np.full(head.shape, rotor.height_m)], axis=-1
    ).reshape(-1, 3)
    shot, place, rank, total = _returns(sequences)
    ranges = sequences.distance.swapaxes(1, 2).reshape(count * lasers, -1)[shot, place] * rotor.unit_m
    level_counts = sequences.intensity.swapaxes(1, 2).reshape(count * lasers, -1)[shot, place]
    column = _columns(sequences, rotor)
    ring, columns = np.tile(rotor.ring, count), np.repeat(column, lasers)
    times = fired.reshape(-1)
    values = {
        "range": ranges,
        "intensity": level_counts,
        "ring": ring[shot],
        "column": columns[shot],
        "time": times[shot],
        "return_index": rank,
        "return_count": total[shot],
        "shot": shot,
    }
    return Scan(
        (exits[shot] + ranges[:, None] * direction[shot]).astype(np.float32),
        {name: value.astype(FIELDS[name].dtype) for name, value in values.items()},
        metadata={
            "sensor": rotor.name,
            "returns": mode,
            "time": start,
            "rate_hz": round(rate / 360.0, 3),
            "missing_columns": int(column[-1]) + 1 - count,
            "recorded_columns": [0, int(column[-1])],
        },
        shots=Shots(
            direction.astype(np.float32),
            exits.astype(np.float32),
            times.astype(np.float32),
            ring,
            columns.astype(np.uint16),
            total.astype(np.uint8),
        ),
        start_time=start,
    )


def _returns(sequences: Sequences) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Shot, place, number and total of returns, nearest first. Two equal returns are one."""
    distance = sequences.distance.swapaxes(1, 2).reshape(-1, sequences.returns)
    valid = distance > 0
    if sequences.returns == 2:
        valid[:, 1] &= distance[:, 1] != distance[:, 0]
    shot, place = np.nonzero(valid)
    order = np.lexsort((distance[shot, place], shot))
    shot, place = shot[order], place[order]
    return shot, place, np.arange(len(shot)) - np.searchsorted(shot, shot), valid.sum(axis=1)


# ---- encoding -------------------------------------------------------------------------------------------------------


class SpinningStream(ABC):
    """Datagrams of one sensor in order of time. The head never stops, so a packet may contain parts of two scans.

    Subclasses implement `_packets`, and `_others` if the sensor sends further packets.
    """

    title: str
    modes: Mapping[str, int]
    """Codes of the return modes that packets hold, the default first."""
    metadata = None

    def __init__(self, rotor: LaserHead, returns: str | None, epoch_s: float, ends: tuple[Endpoint, Endpoint]) -> None:
        """Create a stream; `ends` are source and target of the datagrams."""
        self.rotor, self.mode, self.epoch_s, self.ends = rotor, returns, epoch_s, ends
        self._rest: Sequences | None = None
        self._turning = 0.0

    @property
    def dual(self) -> bool:
        """True if packets hold two returns per shot."""
        return self.mode == "dual"

    @abstractmethod
    def per_packet(self) -> int:
        """Firing sequences per packet in the current return mode."""

    @abstractmethod
    def _packets(self, sequences: Sequences) -> list[bytes]:
        """Packets of sequences that fill them."""

    def _others(self, first_s: float, last_s: float) -> list[Datagram]:
        """Further datagrams of the time from the first to the last lidar packet."""
        return []

    def add(self, record: PointCloud | ImuData) -> list[Datagram]:
        """Packets that a further scan completes; none for IMU samples."""
        if isinstance(record, ImuData):
            return []
        if self.mode is None and isinstance(record, Scan):
            self.mode = return_mode(record, None, self.modes, self.title)
        new = sequences_of(record, self.rotor, self.title, self.dual, self.epoch_s)
        self._turning = _turning_deg_s(new)
        done: list[Datagram] = []
        if self._rest is not None and len(self._rest):
            pause = (new.time_s[0] - self._rest.time_s[-1]) / (self.rotor.period_us * 1e-6)
            if 0.5 <= pause <= 2.5:
                new = Sequences.joined([self._rest, new])
            else:
                done = self.finish()
        whole = len(new) // self.per_packet() * self.per_packet()
        self._rest = new.rows(slice(whole, None))
        return done + self._datagrams(new.rows(slice(whole)))

    def finish(self) -> list[Datagram]:
        """Last packet, padded with firings without a return."""
        rest, self._rest = self._rest, None
        if rest is None or not len(rest):
            return []
        ahead = np.arange(1, self.per_packet() - len(rest) + 1) * (self.rotor.period_us * 1e-6)
        shape = (len(ahead), *rest.distance.shape[1:])
        empty = Sequences(
            rest.time_s[-1] + ahead,
            (rest.head_deg[-1] + self._turning * ahead) % 360.0,
            np.zeros(shape, np.uint16),
            np.zeros(shape, np.uint8),
        )
        return self._datagrams(Sequences.joined([rest, empty]))

    def _datagrams(self, sequences: Sequences) -> list[Datagram]:
        if not len(sequences):
            return []
        times: Floats = sequences.time_s[self.per_packet() - 1 :: self.per_packet()] + self.rotor.period_us * 1e-6
        lidar = [
            Datagram(time, packet, *self.ends)
            for time, packet in zip(times.tolist(), self._packets(sequences), strict=True)
        ]
        return sorted([*lidar, *self._others(times[0], times[-1])], key=lambda one: one.time_s)

    @property
    def turning_rpm(self) -> float:
        """Revolutions per minute of the head."""
        return self._turning / 6.0


def utc_fields(time_s: Floats, year_zero: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Year since `year_zero`, month, day, hour, minute, second of times [s since 1970], (n, 6), and microseconds."""
    total_us = np.rint(np.asarray(time_s, np.float64) * 1e6).astype(np.int64)
    seconds, micro = np.divmod(total_us, 1_000_000)
    stamp = seconds.astype("datetime64[s]")
    year = stamp.astype("datetime64[Y]")
    month, day = stamp.astype("datetime64[M]"), stamp.astype("datetime64[D]")
    parts = [
        year.astype(np.int64) + 1970 - year_zero,
        (month - year).astype(np.int64) + 1,
        (day - month).astype(np.int64) + 1,
        seconds // 3600 % 24,
        seconds // 60 % 60,
        seconds % 60,
    ]
    return np.stack(parts, axis=-1).astype(np.uint8), micro


def seconds_of(fields: NDArray[Any], year_zero: int) -> Floats:
    """Times [s since 1970] of the fields of `utc_fields`; values out of their ranges are counted on."""
    year, month, day, hour, minute, second = np.moveaxis(fields.astype(np.int64), -1, 0)
    months = (year + year_zero - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (month - 1)
    days = (months.astype("datetime64[D]") + (day - 1)).astype(np.int64)
    return ((days * 24 + hour) * 60 + minute).astype(np.float64) * 60.0 + second
