"""Decoding of Velodyne data packets into points, with the maker's nominal angles."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Table
from parhelion.core.clouds import FIELDS, PointCloud, Scan, Shots
from parhelion.core.errors import FormatError
from parhelion.makers import Datagram
from parhelion.makers.velodyne.encode import BLOCK_FLAG, DATA_PACKET, HOUR_US, Packets
from parhelion.makers.velodyne.models import (
    BLOCKS_PER_PACKET,
    RETURN_MODES,
    VelodyneModel,
    model_of_product,
    velodyne_model,
)

DATA_SIZE = DATA_PACKET.itemsize
TURN = 36000
"""Azimuth counts per revolution."""
_LONGEST_GAP = 4000  # packets, a few seconds: a longer gap is another recording or a clock adjustment


def is_data_packet(payload: bytes) -> bool:
    """Return True if a datagram has the size and flag of a Velodyne data packet."""
    return len(payload) == DATA_SIZE and payload[:2] in (b"\xff\xee", b"\xff\xdd")


def decode(packets: Packets | NDArray[Any] | Iterable[bytes], model: str | VelodyneModel | None = None) -> PointCloud:
    """Points of data packets, in the order of firing; the model is by default that of the packets.

    Between the azimuths of blocks, the head is assumed to rotate at the mean rate of its packet. `time` is relative to
    the first firing of the first packet [s, float64]. `column` numbers the firing sequences of a revolution, and `turn`
    the revolutions, which start at azimuth 0. Identical returns of a dual packet become one point.
    `parhelion.io.read_frames` returns the frames of a capture one by one, including shots without a return.
    """
    data = records_of(packets)
    if not len(data):
        raise FormatError("Velodyne packets: no packets found")
    check_flags(data)
    start_us = unwrapped_us(data["timestamp"])
    chosen = model_of_packets(data, start_us) if model is None else velodyne_model(model)
    parts = firings(data, start_us, chosen)
    head = np.concatenate([part.head for part in parts])
    turn = np.unique(head // TURN, return_inverse=True)[1]
    column = _columns(np.concatenate([part.number for part in parts]), turn)
    points, before = [], 0
    for part in parts:
        found = part.returns(chosen)
        place = found.pop("sequence") + before
        del found["laser"]
        points.append({**found, "column": column[place].astype(np.uint16), "turn": turn[place].astype(np.uint16)})
        before += len(part)
    xyz = np.concatenate([part.pop("xyz") for part in points])
    fields = {name: np.concatenate([part[name] for part in points]) for name in points[0]}
    if not fields["turn"].any():
        del fields["turn"]
    names = {code: name for name, code in RETURN_MODES.items()}
    metadata = {
        "sensor": chosen.name,
        "returns": names.get(int(data["return_mode"][0]), "strongest"),
        "time_of_hour_us": int(data["timestamp"][0]),
    }
    return PointCloud(xyz, fields, "sensor", metadata=metadata)


def check_flags(data: NDArray[Any]) -> None:
    """Raise FormatError if a block has an unsupported flag."""
    flags = data["blocks"]["flag"]
    if (flags != BLOCK_FLAG).any():
        bad = int(flags[flags != BLOCK_FLAG][0])
        raise FormatError(
            f"Velodyne packets: a block has the flag 0x{bad & 255:02x}{bad >> 8:02x}, expected 0xffee; packets of the "
            "HDL-64E and damaged streams are not supported"
        )


def records_of(packets: Packets | NDArray[Any] | Iterable[bytes]) -> NDArray[Any]:
    """Array of packet records from any supported form."""
    if isinstance(packets, Packets):
        return packets.data
    if isinstance(packets, np.ndarray):
        if packets.dtype == DATA_PACKET:
            return packets.reshape(-1)
        raw = np.ascontiguousarray(packets)
        if raw.dtype != np.uint8 or raw.ndim != 2 or raw.shape[1] != DATA_SIZE:
            raise FormatError(
                f"Velodyne packets: expected rows of {DATA_SIZE} bytes, got {raw.dtype} of shape {raw.shape}"
            )
        return raw.reshape(-1).view(DATA_PACKET)
    payloads = list(packets)
    wrong = next((len(payload) for payload in payloads if len(payload) != DATA_SIZE), None)
    if wrong is not None:
        raise FormatError(f"Velodyne packets: expected data packets of {DATA_SIZE} bytes, got one of {wrong}")
    return np.frombuffer(b"".join(payloads), DATA_PACKET)


def unwrapped_us(timestamp: NDArray[Any]) -> NDArray[np.int64]:
    """Time of each packet after the first [us]; timestamps wrap at the hour, and packets may be out of order."""
    step: Any = np.diff(timestamp.astype(np.int64))
    step = (step + HOUR_US // 2) % HOUR_US - HOUR_US // 2
    return np.concatenate([[0], np.cumsum(step)]).astype(np.int64)


def model_of_packets(data: NDArray[Any], start_us: NDArray[np.int64]) -> VelodyneModel:
    """Model named by packets, or identified by their spacing."""
    single = data["return_mode"][0] != RETURN_MODES["dual"]
    spacing = float(np.median(np.diff(start_us))) if len(data) > 1 and single else None
    return model_of_product(int(data["product"][0]), spacing)


@dataclass(frozen=True, eq=False)
class Firings(Table):
    """Firing sequences of packets with one return mode, in the order of the packets."""

    head: NDArray[np.float64]
    """Azimuth of the head at the first firing [0.01 deg], not wrapped, clockwise, shape (n,)."""
    number: NDArray[np.int64]
    """Number of each sequence in the stream, including those of lost packets, shape (n,)."""
    azimuth_deg: NDArray[np.float64]
    """Azimuth of the head at each laser's firing, clockwise, shape (n, lasers)."""
    time_s: NDArray[np.float64]
    """Time of each laser's firing, shape (n, lasers)."""
    distance: NDArray[np.uint16]
    """Counts, 0 for no return, shape (n, returns, lasers)."""
    reflectivity: NDArray[np.uint8]

    def direction(self, model: VelodyneModel) -> NDArray[np.float64]:
        """Unit vectors along the beams in the sensor frame, shape (n, lasers, 3)."""
        angle = np.radians(model.offset_deg - self.azimuth_deg)
        level = np.cos(np.radians(np.asarray(model.elevation_deg)))
        up = np.broadcast_to(np.sin(np.radians(np.asarray(model.elevation_deg))), angle.shape)
        return np.stack([level * np.cos(angle), level * np.sin(angle), up], axis=-1)

    def returns(self, model: VelodyneModel) -> dict[str, NDArray[Any]]:
        """Points in the order of firing, nearest first within a shot: fields, `sequence` and `laser`."""
        valid = self.distance > 0
        if self.distance.shape[1] == 2:
            first, second = self.distance[:, 0], self.distance[:, 1]
            same = (first == second) & (self.reflectivity[:, 0] == self.reflectivity[:, 1])
            valid[:, 0] &= ~same
            both = valid.all(axis=1)
            # The farther return is the second; at equal distance, the second in the packet.
            rank = np.stack([both & (first > second), both & (second >= first)], axis=1).astype(np.uint8)
            total = np.where(both, 2, 1)
        else:
            rank, total = np.zeros(valid.shape, np.uint8), np.ones((len(self), model.channels), np.int64)
        sequence, laser, place = np.nonzero(valid.swapaxes(1, 2))
        order = np.lexsort((rank[sequence, place, laser], laser, sequence))
        sequence, laser, place = sequence[order], laser[order], place[order]
        distance = self.distance[sequence, place, laser].astype(np.float64) * model.unit_m
        angle = np.radians(model.offset_deg[laser] - self.azimuth_deg[sequence, laser])
        elevation = np.radians(np.asarray(model.elevation_deg))[laser]
        level = distance * np.cos(elevation)
        up = distance * np.sin(elevation) + model.height_m[laser]
        return {
            "xyz": np.stack([level * np.cos(angle), level * np.sin(angle), up], axis=1).astype(np.float32),
            "range": distance.astype(np.float32),
            "intensity": self.reflectivity[sequence, place, laser].astype(np.float32),
            "ring": model.ring[laser],
            "time": self.time_s[sequence, laser],
            "return_index": rank[sequence, place, laser],
            "return_count": total[sequence, laser].astype(np.uint8),
            "sequence": sequence,
            "laser": laser,
        }


def firings(data: NDArray[Any], start_us: NDArray[np.int64], model: VelodyneModel) -> list[Firings]:
    """Firing sequences of packets; a change of the return mode starts a new part."""
    starts, numbers = stream_places(data, start_us, model)
    borders = (np.flatnonzero(np.diff(data["return_mode"].astype(np.int64))) + 1).tolist()
    return [
        _of_one_mode(data[a:b], start_us[a:b], starts[a:b], numbers[a:b], model)
        for a, b in zip([0, *borders], [*borders, len(data)], strict=True)
    ]


def _of_one_mode(
    data: NDArray[Any],
    start_us: NDArray[np.int64],
    starts: NDArray[np.int64],
    numbers: NDArray[np.int64],
    model: VelodyneModel,
) -> Firings:
    pair = 2 if int(data["return_mode"][0]) == RETURN_MODES["dual"] else 1
    groups, together = BLOCKS_PER_PACKET // pair, model.sequences_per_block
    blocks = data["blocks"]
    heads = blocks["azimuth"][:, ::pair].astype(np.int64)
    turned = _signed(np.diff(heads, axis=1)).cumsum(axis=1)
    head = starts[:, None] + np.concatenate([np.zeros((len(data), 1), np.int64), turned], axis=1)
    period = model.period_us * 1e-6
    rate = turned[:, -1] / ((groups - 1) * together * period)
    within = np.arange(together)[:, None] * period + model.fire_time_s
    azimuth = head[:, :, None, None] + rate[:, None, None, None] * within
    before = np.arange(groups)[:, None, None] * (together * period) + within
    time = start_us[:, None, None, None] * 1e-6 + before
    records = {
        name: blocks["records"][name]
        .reshape(len(data), groups, pair, together, model.channels)
        .swapaxes(2, 3)
        .reshape(-1, pair, model.channels)
        for name in ("distance", "reflectivity")
    }
    per_packet = groups * together
    return Firings(
        # Rounded to a hundredth of a count, so that azimuth 0 stays 0 after interpolation.
        head=np.round(azimuth[..., 0].reshape(-1), 2),
        number=(numbers[:, None] + np.arange(per_packet)).reshape(-1),
        azimuth_deg=azimuth.reshape(-1, model.channels) / 100.0,
        time_s=time.reshape(-1, model.channels),
        distance=records["distance"],
        reflectivity=records["reflectivity"],
    )


def stream_places(
    data: NDArray[Any], start_us: NDArray[np.int64], model: VelodyneModel
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Azimuth of each packet's first block [0.01 deg], not wrapped, and number of its first firing sequence.

    After lost packets, the rotation of the head and the number of missing sequences follow from the time.
    """
    azimuth = data["blocks"]["azimuth"].astype(np.int64) % TURN
    dual = data["return_mode"] == RETURN_MODES["dual"]
    within = _signed(np.diff(azimuth, axis=1)).sum(axis=1)
    sequences = np.where(dual, model.sequences_per_packet(True), model.sequences_per_packet(False))
    rate = within / ((sequences - model.sequences_per_block) * model.period_us)
    waited = np.diff(start_us)
    step = np.diff(azimuth[:, 0])
    step = step + TURN * np.rint((rate[:-1] * waited - step) / TURN).astype(np.int64)
    packets = np.rint(waited / (sequences[:-1] * model.period_us)).astype(np.int64)
    # A late packet or a clock adjustment must not lead back to numbers that are in use.
    missing = np.where((packets > 1) & (packets < _LONGEST_GAP), packets - 1, 0) * sequences[:-1]
    first = azimuth[:1, 0]
    return np.concatenate([first, first + np.cumsum(step)]), np.concatenate([[0], np.cumsum(sequences[:-1] + missing)])


def _signed(step: NDArray[np.int64]) -> NDArray[np.int64]:
    """Steps of the azimuth wrapped to half a revolution."""
    return (step + TURN // 2) % TURN - TURN // 2


def _columns(number: NDArray[np.int64], turn: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of each sequence within its revolution."""
    turns, place = np.unique(turn, return_inverse=True)
    first = np.full(len(turns), np.iinfo(np.int64).max)
    np.minimum.at(first, place, number)
    return number - first[place]


# ---- frames ---------------------------------------------------------------------------------------------------------
# A frame is one revolution that starts at azimuth 0, as in the maker's drivers. A recording may start and end anywhere,
# so its first and last frame may be incomplete. Packets may be lost, duplicated or out of order; time and azimuth
# determine where each belongs.

_SAMPLED = 64  # packets whose spacing identifies the model
_HELD_BACK = 16  # packets among which late ones are sorted
_LATE_US, _PAUSE_US = 50_000, 1_000_000  # beyond these steps, the clock was adjusted or the recording paused
_AT_ONCE = 32  # packets that are processed together
_LONGEST_FRAME_US = 1_000_000  # five times the slowest revolution: a stationary head is cut by time
_CLOCK_IS_RIGHT_S = 60.0


class Timed(NamedTuple):
    """One data packet and the time of its first firing."""

    us: int
    """Time after the first packet of its segment of the recording [us]."""
    segment: int
    """Number of the segment; a new one starts if the recording paused or the sensor's clock was adjusted."""
    payload: bytes
    base_s: float
    """Time of the segment's first packet [s since 1970]."""


@dataclass(frozen=True, eq=False)
class FramePackets:
    """Packets of one frame; the first and the last may belong to it only in part."""

    packets: list[Timed]
    turn: int
    """Number of the revolution, 0 for the one in which the first packet starts."""

    @property
    def start_time(self) -> float:
        """Time of the first packet's first firing [s]."""
        return self.packets[0].base_s + self.packets[0].us * 1e-6

    def arrays(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Packets as records, and their times after the first [us]."""
        data = np.frombuffer(b"".join(item.payload for item in self.packets), DATA_PACKET)
        return data, np.array([item.us - self.packets[0].us for item in self.packets], np.int64)


def velodyne_frames(datagrams: Iterable[Datagram], model: str | VelodyneModel | None = None) -> Iterator[Scan]:
    """Frames of one sensor's data packets; the model is by default that of the packets."""
    chosen, packets = model_and_packets(datagrams, model)
    for part in split(packets, chosen):
        scan = scan_of(part, chosen)
        if scan is not None:
            yield scan


def model_and_packets(
    datagrams: Iterable[Datagram], model: str | VelodyneModel | None
) -> tuple[VelodyneModel, Iterator[Timed]]:
    """Model of the sensor, identified by its first packets, and all of its packets."""
    packets = in_order(datagrams)
    first = list(islice(packets, _SAMPLED))
    if not first:
        raise FormatError("Velodyne packets: no packets found")
    data = np.frombuffer(b"".join(item.payload for item in first), DATA_PACKET)
    check_flags(data)
    start_us = np.array([item.us for item in first], np.int64)
    chosen = model_of_packets(data, start_us) if model is None else velodyne_model(model)
    return chosen, chain(first, packets)


def in_order(datagrams: Iterable[Datagram]) -> Iterator[Timed]:
    """Data packets sorted by the sensor's clock, without duplicates."""
    held: list[tuple[int, int, Timed]] = []
    stamp, us, segment, base_s = 0, 0, -1, 0.0
    for number, datagram in enumerate(datagrams):
        new = int.from_bytes(datagram.payload[1200:1204], "little") % HOUR_US
        step = (new - stamp + HOUR_US // 2) % HOUR_US - HOUR_US // 2
        if segment < 0 or not -_LATE_US <= step <= _PAUSE_US:
            while held:
                yield heapq.heappop(held)[2]
            segment, us, base_s = segment + 1, 0, _wall_time(datagram.time_s, new)
        else:
            us += step
        stamp = new
        item = Timed(us, segment, datagram.payload, base_s)
        if any(other.us == us and other.payload == datagram.payload for _, _, other in held):
            continue
        heapq.heappush(held, (us, number, item))
        if len(held) > _HELD_BACK:
            yield heapq.heappop(held)[2]
    while held:
        yield heapq.heappop(held)[2]


def _wall_time(captured_s: float, stamp_us: int) -> float:
    """Time of a packet [s since 1970] by the hour of its capture, or the capture time if its clock is not set."""
    within = stamp_us * 1e-6
    hour = round((captured_s - within) / 3600.0)
    stamped = max(hour, 0) * 3600.0 + within
    return stamped if abs(stamped - captured_s) < _CLOCK_IS_RIGHT_S else captured_s


def split(packets: Iterable[Timed], model: VelodyneModel) -> Iterator[FramePackets]:
    """Packets of each frame; a packet in which the head passes azimuth 0 belongs to both frames."""
    waiting: list[Timed] = []
    turn, fresh = 0, 0
    for item in packets:
        if waiting and item.segment != waiting[-1].segment:
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


def _ended(waiting: list[Timed], turn: int, model: VelodyneModel) -> Iterator[FramePackets]:
    """All frames that remain at the end."""
    while (cut := _cut(waiting, turn, model, at_end=True)) is not None:
        whole, waiting, turn = cut
        yield whole


def _cut(
    waiting: list[Timed], turn: int, model: VelodyneModel, *, at_end: bool = False
) -> tuple[FramePackets, list[Timed], int] | None:
    """First frame of the waiting packets, the remaining packets, and their revolution; None if it is not complete."""
    if not waiting:
        return None
    data, start_us = FramePackets(waiting, turn).arrays()
    check_flags(data)
    heads, _ = stream_places(data, start_us, model)
    beyond = np.flatnonzero(heads // TURN > turn)
    if len(beyond):
        end = int(beyond[0])
    elif at_end or start_us[-1] > _LONGEST_FRAME_US:
        end = len(waiting)
    else:
        return None
    last = firings(data[end - 1 : end], start_us[:1], model)[0].head
    further = (last + heads[end - 1] - last[0]) // TURN
    if further[-1] > turn:
        # The packet's own count of revolutions starts at the packet.
        goes_on = int(further[further > turn][0] - heads[end - 1] // TURN)
        return FramePackets(waiting[:end], turn), waiting[end - 1 :], goes_on
    return FramePackets(waiting[:end], turn), waiting[end:], 0


def scan_of(part: FramePackets, model: VelodyneModel) -> Scan | None:
    """Frame with all of its shots; None if it only contains padding of a packet."""
    data, start_us = part.arrays()
    parts = [piece.rows(piece.head // TURN == part.turn) for piece in firings(data, start_us, model)]
    parts = [piece for piece in parts if len(piece)]
    # The last packet of a stream is padded with firings without a return, which are not a frame.
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
            "sensor": model.name,
            "returns": names.get(int(data["return_mode"][0]), "strongest"),
            "time": start_time,
            "time_of_hour_us": (int(data["timestamp"][0]) + round(started_s * 1e6)) % HOUR_US,
            "rate_hz": _rate_hz(parts),
            "missing_columns": columns - count,
            "recorded_columns": [0, columns - 1],
        },
        shots=Shots(**table),
        start_time=start_time,
    )


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
    """Revolutions per second of the head."""
    heads, times = (np.concatenate(values) for values in zip(*((p.head, p.time_s[:, 0]) for p in parts), strict=True))
    passed = float(times[-1] - times[0])
    return round(float(heads[-1] - heads[0]) / TURN / passed, 3) if passed > 0.0 else 0.0
