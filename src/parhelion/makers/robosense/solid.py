"""RoboSense's MSOP packets of the M1: five channels, each of which scans a part of the field of view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from parhelion.core.clouds import FIELDS, Scan, Shots
from parhelion.makers.revolutions import batched
from parhelion.makers.robosense.models import M1, M1_MSOP, is_m1
from parhelion.makers.robosense.packets import utc_times

_UNIT_M = 0.005
_ZERO = 32768  # of angles, in 0.01 deg
_DUAL = 0
_MOST_PACKETS = 2600  # of a frame: twice those in dual mode


def m1_frames(payloads: Iterable[bytes]) -> Iterator[Scan]:
    """Frames of the MSOP packets of an M1; packet numbers restart with every frame."""
    waiting: list[bytes] = []
    last = 0
    for batch in batched(one for one in payloads if is_m1(one)):
        for payload in batch:
            number = int.from_bytes(payload[4:6], "big")
            # A late packet does not start a frame.
            if waiting and (number + 20 < last or len(waiting) >= _MOST_PACKETS):
                yield m1_scan(waiting)
                waiting, last = [], 0
            waiting.append(payload)
            last = max(last, number)
    if waiting:
        yield m1_scan(waiting)


def m1_scan(payloads: list[bytes]) -> Scan:
    """Scan of the packets of one frame."""
    data = np.frombuffer(b"".join(payloads), M1_MSOP)
    data = data[np.argsort(data["number"], kind="stable")]
    blocks = data["blocks"]
    time = utc_times(data["stamp"])[:, None] + blocks["delay_us"] * 1e-6
    dual = bool(np.median(data["return_mode"]) == _DUAL)
    returns = 2 if dual and len(data) % 2 == 0 and _pairs(data) else 1
    # In dual mode, two packets hold the two returns of the same shots.
    order = (-1, returns, 25, 5)
    cells = blocks["channels"].reshape(order).swapaxes(1, 2)
    times = time.reshape(-1, returns, 25)[:, 0].reshape(-1)
    distance = cells["distance"].swapaxes(2, 3).reshape(-1, returns).astype(np.int64)
    level = cells["intensity"].swapaxes(2, 3).reshape(-1, returns)
    pitch, yaw = (
        np.radians((cells[name].swapaxes(2, 3).reshape(-1, returns)[:, 0].astype(np.float64) - _ZERO) * 0.01)
        for name in ("pitch", "yaw")
    )
    direction = np.stack([np.cos(pitch) * np.cos(yaw), np.cos(pitch) * np.sin(yaw), np.sin(pitch)], axis=-1)
    valid = distance > 0
    if returns == 2:
        valid[:, 1] &= distance[:, 1] != distance[:, 0]
    shot, place = np.nonzero(valid)
    sort = np.lexsort((distance[shot, place], shot))
    shot, place = shot[sort], place[sort]
    start = float(times.min())
    ring = np.tile(np.arange(5, dtype=np.uint16), len(times))
    column = np.minimum(np.repeat(np.arange(len(times)), 5), 65535).astype(np.uint16)
    after = np.repeat(times - start, 5)
    total = valid.sum(axis=1)
    metres = distance[shot, place] * _UNIT_M
    values = {
        "range": metres,
        "intensity": level[shot, place],
        "ring": ring[shot],
        "column": column[shot],
        "time": after[shot],
        "return_index": np.arange(len(shot)) - np.searchsorted(shot, shot),
        "return_count": total[shot],
        "shot": shot,
    }
    return Scan(
        (metres[:, None] * direction[shot]).astype(np.float32),
        {name: value.astype(FIELDS[name].dtype) for name, value in values.items()},
        metadata={
            "sensor": M1,
            "returns": "dual" if returns == 2 else "strongest",
            "time": start,
            "rate_hz": 10.0,
            "missing_columns": 25 * (int(data["number"][-1]) - int(data["number"][0]) + 1 - len(data)) // returns,
            "recorded_columns": [0, int(column[-1])],
        },
        shots=Shots(
            direction.astype(np.float32),
            np.zeros((len(direction), 3), np.float32),
            after.astype(np.float32),
            ring,
            column,
            total.astype(np.uint8),
        ),
        start_time=start,
    )


def _pairs(data: np.ndarray) -> bool:  # type: ignore[type-arg]
    """Return True if packets alternate between the first and the second return of the same shots."""
    number = data["blocks"]["return_number"][:, 0]
    return bool((number[::2] == 1).all() and (number[1::2] == 2).all())
