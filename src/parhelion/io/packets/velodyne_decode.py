"""Velodyne data packets back to points, with the makers' nominal angles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError
from parhelion.core.records import PointCloud
from parhelion.io.packets.velodyne import BLOCK_FLAG, DATA_PACKET, HOUR_US, Packets
from parhelion.io.packets.velodyne_models import (
    BLOCKS_PER_PACKET,
    RETURN_MODES,
    VelodyneModel,
    model_of_product,
    velodyne_model,
)

DATA_SIZE = DATA_PACKET.itemsize


def is_data_packet(payload: bytes) -> bool:
    """Whether a datagram looks like a Velodyne data packet."""
    return len(payload) == DATA_SIZE and payload[:2] in (b"\xff\xee", b"\xff\xdd")


def decode(packets: Packets | NDArray[Any] | Iterable[bytes], model: str | VelodyneModel | None = None) -> PointCloud:
    """The points of data packets, in the order of firing; the model is by default what the packets say.

    Between the azimuths of blocks the head is taken to turn steadily, at the mean rate of its packet. `time` counts
    from the first packet's first firing [s, float64]; `column` numbers the firing sequences of a turn, and `turn` the
    turns, which begin at azimuth 0. Where both returns of a dual packet are the same, they are one point.
    """
    data = _records(packets)
    if not len(data):
        raise FormatError("Velodyne packets: there are none")
    flags = data["blocks"]["flag"]
    if (flags != BLOCK_FLAG).any():
        bad = int(flags[flags != BLOCK_FLAG][0])
        raise FormatError(
            f"Velodyne packets: a block has the flag 0x{bad & 255:02x}{bad >> 8:02x}, not 0xffee; packets of the "
            "HDL-64E and of damaged streams cannot be read"
        )
    start_us = _unwrapped(data["timestamp"])
    chosen = _model_of_packets(data, start_us) if model is None else velodyne_model(model)
    turn, column = _turns(data, chosen)
    # A sensor's mode may be changed while it runs: each stretch of one mode by itself.
    borders = np.flatnonzero(np.diff(data["return_mode"].astype(np.int64))) + 1
    parts = [
        _points(data[rows], start_us[rows], turn[rows], column[rows], chosen)
        for rows in (slice(a, b) for a, b in zip([0, *borders], [*borders, len(data)], strict=True))
    ]
    xyz = np.concatenate([part.pop("xyz") for part in parts])
    fields = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if not fields["turn"].any():
        del fields["turn"]
    names = {code: name for name, code in RETURN_MODES.items()}
    metadata = {
        "sensor": chosen.name,
        "returns": names.get(int(data["return_mode"][0]), "strongest"),
        "time_of_hour_us": int(data["timestamp"][0]),
    }
    return PointCloud(xyz, fields, "sensor", metadata=metadata)


def _records(packets: Packets | NDArray[Any] | Iterable[bytes]) -> NDArray[Any]:
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


def _unwrapped(timestamp: NDArray[Any]) -> NDArray[np.int64]:
    """Time of each packet after the first [us]; a new hour begins at 0, and packets may be out of order."""
    step: Any = np.diff(timestamp.astype(np.int64))
    step = (step + HOUR_US // 2) % HOUR_US - HOUR_US // 2
    return np.concatenate([[0], np.cumsum(step)]).astype(np.int64)


def _model_of_packets(data: NDArray[Any], start_us: NDArray[np.int64]) -> VelodyneModel:
    single = data["return_mode"][0] != RETURN_MODES["dual"]
    spacing = float(np.median(np.diff(start_us))) if len(data) > 1 and single else None
    return model_of_product(int(data["product"][0]), spacing)


def _turns(data: NDArray[Any], model: VelodyneModel) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Turn of each block, and number of its first firing sequence within the turn, both of shape (packets, blocks)."""
    azimuth = data["blocks"]["azimuth"].astype(np.int64).reshape(-1)
    turn = np.concatenate([[0], np.cumsum(np.diff(azimuth) < -18000)])
    dual = np.repeat(data["return_mode"] == RETURN_MODES["dual"], BLOCKS_PER_PACKET)
    # Both blocks of a dual pair are one step.
    steps = np.where(dual, np.arange(len(azimuth)) % 2, 1) * model.sequences_per_block
    done = np.cumsum(steps) - steps
    first = np.searchsorted(turn, np.arange(turn[-1] + 1))
    shape = (len(data), BLOCKS_PER_PACKET)
    return turn.reshape(shape), (done - done[first][turn]).reshape(shape)


def _points(
    data: NDArray[Any],
    start_us: NDArray[np.int64],
    turn: NDArray[np.int64],
    column: NDArray[np.int64],
    model: VelodyneModel,
) -> dict[str, NDArray[Any]]:
    """Points of packets that share one return mode."""
    dual = int(data["return_mode"][0]) == RETURN_MODES["dual"]
    pair = 2 if dual else 1
    groups, together = BLOCKS_PER_PACKET // pair, model.sequences_per_block
    blocks = data["blocks"]
    head = blocks["azimuth"][:, ::pair].astype(np.float64) / 100.0
    shape = (len(data), groups, together, pair, model.channels)
    records = {
        name: blocks["records"][name].reshape(len(data), groups, pair, together, model.channels).swapaxes(2, 3)
        for name in ("distance", "reflectivity")
    }
    period = model.period_us * 1e-6
    turned = (head[:, -1] - head[:, 0]) % 360.0
    rate = turned / ((groups - 1) * together * period)
    within = np.arange(together)[:, None] * period + model.fire_time_s
    azimuth = head[:, :, None, None] + rate[:, None, None, None] * within
    before = np.arange(groups)[:, None, None] * (together * period) + within
    time = start_us[:, None, None, None] * 1e-6 + before

    valid = records["distance"] > 0
    if dual:
        first, second = (records["distance"][:, :, :, k] for k in (0, 1))
        same = (first == second) & (records["reflectivity"][:, :, :, 0] == records["reflectivity"][:, :, :, 1])
        valid = np.stack([valid[:, :, :, 0] & ~same, valid[:, :, :, 1]], axis=3)
        other = np.stack([second, first], axis=3)
        ties = np.stack([np.zeros_like(same), first == second], axis=3)
        both = valid.all(axis=3, keepdims=True)
        farther = (records["distance"] > other) | ties
        return_index = np.where(both & farther, 1, 0)
        return_count = np.broadcast_to(np.where(both, 2, 1), shape)
        # Nearest first within a shot.
        order = (*np.nonzero(valid.swapaxes(3, 4)),)
        packet, group, sequence, laser, place = order
        swap = np.lexsort((return_index[packet, group, sequence, place, laser], laser, sequence, group, packet))
        packet, group, sequence, laser, place = (axis[swap] for axis in order)
    else:
        return_index, return_count = np.zeros(shape, np.int64), np.ones(shape, np.int64)
        packet, group, sequence, place, laser = np.nonzero(valid)
    at = (packet, group, sequence, place, laser)
    shot = (packet, group, sequence, laser)
    distance = records["distance"][at].astype(np.float64) * model.unit_m
    angle = np.radians(model.offset_deg[laser] - azimuth[shot])
    elevation = np.radians(np.asarray(model.elevation_deg))[laser]
    level = distance * np.cos(elevation)
    up = distance * np.sin(elevation) + model.height_m[laser]
    return {
        "xyz": np.stack([level * np.cos(angle), level * np.sin(angle), up], axis=1).astype(np.float32),
        "range": distance.astype(np.float32),
        "intensity": records["reflectivity"][at].astype(np.float32),
        "ring": model.ring[laser],
        "column": (column[packet, group * pair] + sequence).astype(np.uint16),
        "time": time[shot],
        "return_index": return_index[at].astype(np.uint8),
        "return_count": return_count[at].astype(np.uint8),
        "turn": turn[packet, group * pair].astype(np.uint16),
    }
