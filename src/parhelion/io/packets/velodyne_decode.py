"""Velodyne data packets back to points, with the makers' nominal angles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import FormatError
from parhelion.io.packets.velodyne import BLOCK_FLAG, DATA_PACKET, HOUR_US, Packets
from parhelion.io.packets.velodyne_models import (
    BLOCKS_PER_PACKET,
    RETURN_MODES,
    VelodyneModel,
    model_of_product,
    velodyne_model,
)

DATA_SIZE = DATA_PACKET.itemsize
TURN = 36000
"""Counts of azimuth in one turn."""
_LONGEST_GAP = 4000  # packets, some seconds: more is another recording, or a clock that was set


def is_data_packet(payload: bytes) -> bool:
    """Whether a datagram looks like a Velodyne data packet."""
    return len(payload) == DATA_SIZE and payload[:2] in (b"\xff\xee", b"\xff\xdd")


def decode(packets: Packets | NDArray[Any] | Iterable[bytes], model: str | VelodyneModel | None = None) -> PointCloud:
    """The points of data packets, in the order of firing; the model is by default what the packets say.

    Between the azimuths of blocks the head is taken to turn steadily, at the mean rate of its packet. `time` counts
    from the first packet's first firing [s, float64]; `column` numbers the firing sequences of a turn, and `turn` the
    turns, which begin at azimuth 0. Where both returns of a dual packet are the same, they are one point.
    `parhelion.io.read_turns` gives the turns of a capture one by one, with the shots that met nothing.
    """
    data = records_of(packets)
    if not len(data):
        raise FormatError("Velodyne packets: there are none")
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
    """Refuse packets whose blocks are not those of the models known here."""
    flags = data["blocks"]["flag"]
    if (flags != BLOCK_FLAG).any():
        bad = int(flags[flags != BLOCK_FLAG][0])
        raise FormatError(
            f"Velodyne packets: a block has the flag 0x{bad & 255:02x}{bad >> 8:02x}, not 0xffee; packets of the "
            "HDL-64E and of damaged streams cannot be read"
        )


def records_of(packets: Packets | NDArray[Any] | Iterable[bytes]) -> NDArray[Any]:
    """Packets of any form as an array of records."""
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
        raise FormatError(f"Velodyne packets: a data packet has {DATA_SIZE} bytes, got one of {wrong}")
    return np.frombuffer(b"".join(payloads), DATA_PACKET)


def unwrapped_us(timestamp: NDArray[Any]) -> NDArray[np.int64]:
    """Time of each packet after the first [us]; a new hour begins at 0, and packets may be out of order."""
    step: Any = np.diff(timestamp.astype(np.int64))
    step = (step + HOUR_US // 2) % HOUR_US - HOUR_US // 2
    return np.concatenate([[0], np.cumsum(step)]).astype(np.int64)


def model_of_packets(data: NDArray[Any], start_us: NDArray[np.int64]) -> VelodyneModel:
    """The model that packets name, or show by their spacing."""
    single = data["return_mode"][0] != RETURN_MODES["dual"]
    spacing = float(np.median(np.diff(start_us))) if len(data) > 1 and single else None
    return model_of_product(int(data["product"][0]), spacing)


@dataclass(frozen=True, eq=False)
class Firings:
    """The firing sequences of packets that share one return mode, in the order of the packets."""

    head: NDArray[np.float64]
    """Azimuth of the head at the first firing [0.01 deg], not wrapped, clockwise, shape (n,)."""
    number: NDArray[np.int64]
    """Place of each sequence in the stream, counting those of lost packets, shape (n,)."""
    azimuth_deg: NDArray[np.float64]
    """Azimuth of the head at each laser's firing, clockwise, shape (n, lasers)."""
    time_s: NDArray[np.float64]
    """Time of each laser's firing, shape (n, lasers)."""
    distance: NDArray[np.uint16]
    """Counts, 0 for no return, shape (n, returns, lasers)."""
    reflectivity: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.head)

    def select(self, rows: NDArray[np.bool_]) -> Firings:
        """The sequences that a mask picks."""
        return Firings(*(values[rows] for values in vars(self).values()))

    def direction(self, model: VelodyneModel) -> NDArray[np.float64]:
        """Unit vectors along the beams in the sensor frame, shape (n, lasers, 3)."""
        angle = np.radians(model.offset_deg - self.azimuth_deg)
        level = np.cos(np.radians(np.asarray(model.elevation_deg)))
        up = np.broadcast_to(np.sin(np.radians(np.asarray(model.elevation_deg))), angle.shape)
        return np.stack([level * np.cos(angle), level * np.sin(angle), up], axis=-1)

    def returns(self, model: VelodyneModel) -> dict[str, NDArray[Any]]:
        """The points, in the order of firing and nearest first within a shot: fields, `sequence` and `laser`."""
        valid = self.distance > 0
        if self.distance.shape[1] == 2:
            first, second = self.distance[:, 0], self.distance[:, 1]
            same = (first == second) & (self.reflectivity[:, 0] == self.reflectivity[:, 1])
            valid[:, 0] &= ~same
            both = valid.all(axis=1)
            # The farther one is the second; of two at one distance, the one that stands second.
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
    """The firing sequences of packets; a mode that is changed while the sensor runs begins a new part."""
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
        # To a hundredth of a count: azimuth 0 stays 0 after interpolation.
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
    """Of each packet: azimuth of its first block [0.01 deg], not wrapped, and number of its first firing sequence.

    Where packets were lost, time tells how far the head turned meanwhile, and how many sequences are missing.
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
    # A packet that comes late, or a clock that was set, does not lead back to numbers that are taken.
    missing = np.where((packets > 1) & (packets < _LONGEST_GAP), packets - 1, 0) * sequences[:-1]
    first = azimuth[:1, 0]
    return np.concatenate([first, first + np.cumsum(step)]), np.concatenate([[0], np.cumsum(sequences[:-1] + missing)])


def _signed(step: NDArray[np.int64]) -> NDArray[np.int64]:
    """Steps of the azimuth within half a turn."""
    return (step + TURN // 2) % TURN - TURN // 2


def _columns(number: NDArray[np.int64], turn: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of each sequence within its turn."""
    turns, place = np.unique(turn, return_inverse=True)
    first = np.full(len(turns), np.iinfo(np.int64).max)
    np.minimum.at(first, place, number)
    return number - first[place]
