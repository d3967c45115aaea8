"""A Velodyne's packets as its turns, one after the other, each with the shots that met nothing.

A turn begins at azimuth 0, as the makers' drivers cut it. A recording may begin and end anywhere, so its first and last
turn are parts of one. Packets may be lost, doubled or out of order: time and azimuth tell where each belongs.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import FIELDS, Scan, Shots
from parhelion.core.errors import FormatError
from parhelion.io.packets.pcap import Datagram
from parhelion.io.packets.velodyne import DATA_PACKET, HOUR_US
from parhelion.io.packets.velodyne_decode import (
    TURN,
    Firings,
    check_flags,
    firings,
    model_of_packets,
    stream_places,
)
from parhelion.io.packets.velodyne_models import RETURN_MODES, VelodyneModel, velodyne_model

_LOOKED_AT = 64  # packets by whose spacing the model is told
_HELD_BACK = 16  # packets among which late ones are put in order
_LATE_US, _PAUSE_US = 50_000, 1_000_000  # further back or ahead, the sensor's clock was set or the recording paused
_AT_ONCE = 32  # packets that are looked at together
_LONGEST_TURN_US = 1_000_000  # five times the slowest: a head that stands still is cut by time
_CLOCK_IS_RIGHT_S = 60.0


class Timed(NamedTuple):
    """One data packet and when its first firing was."""

    us: int
    """After the first packet of its stretch of recording [us]."""
    stretch: int
    """Which stretch: a new one begins where the recording paused or the sensor's clock was set."""
    payload: bytes
    base_s: float
    """Time of the stretch's first packet [s since 1970]."""


@dataclass(frozen=True, eq=False)
class PacketsOfTurn:
    """The packets that hold one turn, the first and last of them perhaps in part."""

    packets: list[Timed]
    turn: int
    """Number of the turn, 0 being the one that the first packet begins in."""

    @property
    def start_time(self) -> float:
        """Time of the first packet's first firing [s]."""
        return self.packets[0].base_s + self.packets[0].us * 1e-6

    def arrays(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The packets as records, and their times after the first [us]."""
        data = np.frombuffer(b"".join(item.payload for item in self.packets), DATA_PACKET)
        return data, np.array([item.us - self.packets[0].us for item in self.packets], np.int64)


def velodyne_turns(datagrams: Iterable[Datagram], model: str | VelodyneModel | None = None) -> Iterator[Scan]:
    """The turns of one sensor's data packets; the model is by default what the packets say."""
    chosen, packets = model_and_packets(datagrams, model)
    for part in split(packets, chosen):
        scan = scan_of(part, chosen)
        if scan is not None:
            yield scan


def model_and_packets(
    datagrams: Iterable[Datagram], model: str | VelodyneModel | None
) -> tuple[VelodyneModel, Iterator[Timed]]:
    """The sensor's model, which its first packets show, and all of its packets."""
    packets = in_order(datagrams)
    first = list(islice(packets, _LOOKED_AT))
    if not first:
        raise FormatError("Velodyne packets: there are none")
    data = np.frombuffer(b"".join(item.payload for item in first), DATA_PACKET)
    check_flags(data)
    start_us = np.array([item.us for item in first], np.int64)
    chosen = model_of_packets(data, start_us) if model is None else velodyne_model(model)

    def everything() -> Iterator[Timed]:
        yield from first
        yield from packets

    return chosen, everything()


def in_order(datagrams: Iterable[Datagram]) -> Iterator[Timed]:
    """Data packets by the sensor's own clock: late ones in their place, doubled ones once."""
    held: list[tuple[int, int, Timed]] = []
    stamp, us, stretch, base_s = 0, 0, -1, 0.0
    for number, datagram in enumerate(datagrams):
        new = int.from_bytes(datagram.payload[1200:1204], "little") % HOUR_US
        step = (new - stamp + HOUR_US // 2) % HOUR_US - HOUR_US // 2
        if stretch < 0 or not -_LATE_US <= step <= _PAUSE_US:
            while held:
                yield heapq.heappop(held)[2]
            stretch, us, base_s = stretch + 1, 0, _on_the_wall(datagram.time_s, new)
        else:
            us += step
        stamp = new
        item = Timed(us, stretch, datagram.payload, base_s)
        if any(other.us == us and other.payload == datagram.payload for _, _, other in held):
            continue
        heapq.heappush(held, (us, number, item))
        if len(held) > _HELD_BACK:
            yield heapq.heappop(held)[2]
    while held:
        yield heapq.heappop(held)[2]


def _on_the_wall(captured_s: float, stamp_us: int) -> float:
    """Time of a packet [s since 1970] by the hour of its capture; by the capture alone where its clock is not set."""
    within = stamp_us * 1e-6
    hour = round((captured_s - within) / 3600.0)
    told = max(hour, 0) * 3600.0 + within
    return told if abs(told - captured_s) < _CLOCK_IS_RIGHT_S else captured_s


def split(packets: Iterable[Timed], model: VelodyneModel) -> Iterator[PacketsOfTurn]:
    """The packets of each turn; one in which the head passes azimuth 0 belongs to both."""
    waiting: list[Timed] = []
    turn, fresh = 0, 0
    for item in packets:
        if waiting and item.stretch != waiting[-1].stretch:
            yield from _ended(waiting, turn, model)
            waiting, turn, fresh = [], 0, 0
        waiting.append(item)
        fresh += 1
        if fresh < _AT_ONCE:
            continue
        fresh = 0
        while (cut := _cut(waiting, turn, model)) is not None:
            whole, waiting, turn = cut
            yield whole
    if waiting:
        yield from _ended(waiting, turn, model)


def _ended(waiting: list[Timed], turn: int, model: VelodyneModel) -> Iterator[PacketsOfTurn]:
    """All turns that are left at the end."""
    while (cut := _cut(waiting, turn, model, at_end=True)) is not None:
        whole, waiting, turn = cut
        yield whole


def _cut(
    waiting: list[Timed], turn: int, model: VelodyneModel, *, at_end: bool = False
) -> tuple[PacketsOfTurn, list[Timed], int] | None:
    """The first turn of the packets that wait, those that are left, and the turn they go on with; None: not yet."""
    if not waiting:
        return None
    data, start_us = PacketsOfTurn(waiting, turn).arrays()
    check_flags(data)
    heads, _ = stream_places(data, start_us, model)
    beyond = np.flatnonzero(heads // TURN > turn)
    if len(beyond):
        end = int(beyond[0])
    elif at_end or start_us[-1] > _LONGEST_TURN_US:
        end = len(waiting)
    else:
        return None
    last = firings(data[end - 1 : end], start_us[:1], model)[0].head
    further = (last + heads[end - 1] - last[0]) // TURN
    if further[-1] > turn:
        # The packet's own count of turns begins with itself.
        goes_on = int(further[further > turn][0] - heads[end - 1] // TURN)
        return PacketsOfTurn(waiting[:end], turn), waiting[end - 1 :], goes_on
    return PacketsOfTurn(waiting[:end], turn), waiting[end:], 0


def scan_of(part: PacketsOfTurn, model: VelodyneModel) -> Scan | None:
    """One turn with all of its shots; None for what only fills up a packet."""
    data, start_us = part.arrays()
    parts = [piece.select(piece.head // TURN == part.turn) for piece in firings(data, start_us, model)]
    parts = [piece for piece in parts if len(piece)]
    # A stream that ends is filled up to a whole packet with firings that have no return: no turn of their own.
    count = sum(map(len, parts))
    few = count <= model.sequences_per_packet(dual=False)
    if not count or (few and not any(piece.distance.any() for piece in parts)):
        return None
    started_s = min(float(piece.time_s.min()) for piece in parts)
    first = min(int(piece.number.min()) for piece in parts)
    tables, points, before = [], [], 0
    for piece in parts:
        found = piece.returns(model)
        shot = before + found.pop("sequence") * model.channels + found.pop("laser")
        points.append({**found, "shot": shot, "time": found["time"] - started_s})
        tables.append(_shots(piece, model, started_s, first))
        before += len(piece) * model.channels
    values = {name: np.concatenate([piece[name] for piece in points]) for name in points[0]}
    xyz = values.pop("xyz")
    table = {name: np.concatenate([piece[name] for piece in tables]) for name in tables[0]}
    values["column"] = table["column"][values["shot"]]
    table["return_count"] = np.bincount(values["shot"], minlength=before).astype(np.uint8)
    columns = int(table["column"].max()) + 1
    start_time = part.start_time + started_s
    names = {code: name for name, code in RETURN_MODES.items()}
    return Scan(
        xyz,
        {name: value.astype(FIELDS[name].dtype) for name, value in values.items()},
        metadata={
            "sensor": model.name, "returns": names.get(int(data["return_mode"][0]), "strongest"), "time": start_time,
            "time_of_hour_us": (int(data["timestamp"][0]) + round(started_s * 1e6)) % HOUR_US,
            "rate_hz": _rate_hz(parts), "missing_columns": columns - count, "recorded_columns": [0, columns - 1],
        },
        shots=Shots(**table),
        start_time=start_time,
    )  # fmt: skip


def _shots(piece: Firings, model: VelodyneModel, started_s: float, first: int) -> dict[str, NDArray[Any]]:
    count = len(piece)
    origin = np.zeros((count, model.channels, 3), np.float32)
    origin[..., 2] = model.height_m
    return {
        "direction": piece.direction(model).astype(np.float32).reshape(-1, 3),
        "origin": origin.reshape(-1, 3),
        "time": (piece.time_s - started_s).astype(np.float32).reshape(-1),
        "ring": np.tile(model.ring, count),
        "column": np.repeat(piece.number - first, model.channels).astype(np.uint16),
    }


def _rate_hz(parts: list[Firings]) -> float:
    """Turns a second of the head."""
    heads, times = (np.concatenate(values) for values in zip(*((p.head, p.time_s[:, 0]) for p in parts), strict=True))
    passed = float(times[-1] - times[0])
    return round(float(heads[-1] - heads[0]) / TURN / passed, 3) if passed > 0.0 else 0.0
