"""Scans of Ouster presets with chosen ranges, made without casting rays, and Ouster's own packet decoder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from parhelion.core.clouds import FIELDS, Scan, Shots
from parhelion.sensors.optics.lidar.lidar import Lidar


def random_scan(lidar: Lidar, seed: int = 1, *, dual: bool = False, start: float = 0.0, longest: float = 150.0) -> Scan:
    """Scan with random returns: a third of the shots has none, and with `dual` half of the others have two."""
    rng = np.random.default_rng(seed)
    table = lidar.shots(0.0)
    count = rng.choice([0, 1, 2] if dual else [0, 1, 1], len(table)).astype(np.uint8)
    shot = np.repeat(np.arange(len(table)), count)
    index = np.arange(len(shot)) - np.searchsorted(shot, shot)
    # Two returns are at least 1 m apart, the nearer first; ranges are multiples of the preset's step of 1 mm.
    metres = np.round(rng.uniform(0.5, longest, len(table))[shot] + index * rng.uniform(1.0, 9.0, len(shot)), 3)
    fields = {
        "range": metres,
        "intensity": rng.integers(0, 4000, len(shot)),
        "reflectivity": rng.uniform(0.0, 1.5, len(shot)),
        "power": rng.uniform(1.0, 300.0, len(shot)),
        "near_ir": rng.integers(0, 900, len(table))[shot],
        "ring": table.ring[shot],
        "column": table.column[shot],
        "time": table.time[shot],
        "return_index": index,
        "return_count": count[shot],
        "shot": shot,
    }
    xyz = table.origin[shot].astype(np.float64) + metres[:, None] * table.direction[shot].astype(np.float64)
    return Scan(
        xyz.astype(np.float32),
        {name: np.asarray(value).astype(FIELDS[name].dtype) for name, value in fields.items()},
        metadata={"sensor": lidar.model, "rate_hz": lidar.rate_hz, "returns": lidar.config.receiver.returns},
        shots=Shots(
            table.direction, table.origin, table.time.astype(np.float32), table.ring, table.column, count
        ),
        start_time=start,
    )  # fmt: skip


def sdk_frames(payloads: Iterable[Any], info: Any) -> list[Any]:
    """Frames that Ouster's decoder makes of lidar packets."""
    from ouster.sdk import core

    batcher, frames, frame = core.FrameBatcher(info), [], core.LidarFrame(info)
    layout = core.PacketFormat(info)
    for payload in payloads:
        data = np.frombuffer(payload, np.uint8)
        packet = core.LidarPacket(layout)
        packet.buf[:] = data
        assert packet.validate(info) == core.PacketValidationFailure.NONE
        if batcher.batch(packet, frame):
            frames.append(frame)
            frame = core.LidarFrame(info)
    # The last frame is returned only if all of its possible packets arrived, including IMU packets.
    if frame.status.any():
        frames.append(frame)
    return frames
