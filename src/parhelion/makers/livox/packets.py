"""Layouts of Livox's UDP packets, and the dots that they carry.

Sources: `livox_lidar_def.h` of Livox-SDK2 and `livox_def.h` of Livox-SDK (headers, point and IMU records, data types);
Livox LiDAR Communication Protocol of the Mid-360 and the HAP (CRC-32 of time stamp and data, time interval in 0.1 us,
invalid dots at 0, 0, 0); the drivers livox_ros_driver and livox_ros_driver2 (line of a dot: its number in the packet
modulo the lines; frames of 0.1 s). All numbers are little-endian.

A packet states neither the sensor nor its lines: the time between dots identifies SDK 2 sensors, the data type
SDK 1 sensors.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Table

FRAME_S = 0.1
"""Length of a frame: the drivers publish ten per second by default."""

HEAD_2 = np.dtype(
    [
        ("version", "u1"), ("length", "<u2"), ("interval", "<u2"), ("dots", "<u2"), ("udp_count", "<u2"),
        ("frame_count", "u1"), ("data_type", "u1"), ("time_type", "u1"), ("reserved", "u1", 12), ("crc32", "<u4"),
        ("time_ns", "<u8"),
    ]
)  # fmt: skip
"""Header of SDK 2, 36 bytes."""
HEAD_1 = np.dtype(
    [
        ("version", "u1"), ("slot", "u1"), ("id", "u1"), ("reserved", "u1"), ("status", "<u4"), ("time_type", "u1"),
        ("data_type", "u1"), ("time_ns", "<u8"),
    ]
)  # fmt: skip
"""Header of SDK 1, 18 bytes."""
VERSION_1 = 5
CRC_FROM = 28
"""First byte of an SDK 2 packet that its CRC covers: the time stamp."""
IMU_2, IMU_1 = 0, 6
"""Data types of IMU packets."""
IMU = np.dtype([("angular_rate", "<f4", 3), ("specific_force", "<f4", 3)])
"""IMU sample [rad/s] and [g]."""
_GPS_TIME = 3

_AT = ("x", "<i4"), ("y", "<i4"), ("z", "<i4")
_SHORT = ("x", "<i2"), ("y", "<i2"), ("z", "<i2")
_LEVEL, _TAG = ("reflectivity", "u1"), ("tag", "u1")


@dataclass(frozen=True)
class DotLayout:
    """Layout of the dots of one data type."""

    record: np.dtype[Any]
    """One return of a dot."""
    unit_m: float = 1e-3
    returns: int = 1
    per_packet: int = 96
    """Dots of a full packet."""
    angles_first: bool = False
    """True if two angles, shared by the returns, precede the returns of a dot."""

    @property
    def size(self) -> int:
        """Bytes of a dot."""
        return self.returns * self.record.itemsize + (4 if self.angles_first else 0)


_HIGH, _LOW = np.dtype([*_AT, _LEVEL, _TAG]), np.dtype([*_SHORT, _LEVEL, _TAG])
_ANGLES = ("theta", "<u2"), ("phi", "<u2")
_DEPTH = np.dtype([("depth", "<u4"), _LEVEL, _TAG])
SDK_2 = {
    1: DotLayout(_HIGH),
    2: DotLayout(_LOW, 1e-2),
    3: DotLayout(np.dtype([("depth", "<u4"), *_ANGLES, _LEVEL, _TAG])),
    0x11: DotLayout(_HIGH, returns=2, per_packet=48),
}
"""Layouts by data type of SDK 2."""
SDK_1 = {
    0: DotLayout(np.dtype([*_AT, _LEVEL]), per_packet=100),
    1: DotLayout(np.dtype([("depth", "<u4"), *_ANGLES, _LEVEL]), per_packet=100),
    2: DotLayout(_HIGH),
    3: DotLayout(np.dtype([("depth", "<u4"), *_ANGLES, _LEVEL, _TAG])),
    4: DotLayout(_HIGH, returns=2, per_packet=48),
    5: DotLayout(_DEPTH, returns=2, per_packet=48, angles_first=True),
    7: DotLayout(_HIGH, returns=3, per_packet=30),
    8: DotLayout(_DEPTH, returns=3, per_packet=30, angles_first=True),
}
"""Layouts by data type of SDK 1."""


@dataclass(frozen=True)
class LivoxModel:
    """Packets of one model."""

    name: str
    """Name of its preset."""
    sdk: int
    lines: int
    dots_per_s: float
    data_types: tuple[int, ...]
    """Data type by number of returns."""
    device_type: int
    """Number of the model in the SDK and in .lvx2 files."""
    has_imu: bool = True

    def layout(self, returns: int) -> tuple[int, DotLayout]:
        """Data type and layout for a number of returns."""
        kind = self.data_types[returns - 1]
        return kind, (SDK_1 if self.sdk == 1 else SDK_2)[kind]


MODELS = {
    model.name: model
    for model in (
        LivoxModel("livox/mid-360", 2, 4, 200_000.0, (1,), 9),
        LivoxModel("livox/hap", 2, 6, 452_000.0, (1,), 10),
        LivoxModel("livox/avia", 1, 6, 240_000.0, (2, 4, 7), 7),
        LivoxModel("livox/mid-40", 1, 1, 100_000.0, (0,), 1, has_imu=False),
    )
}
"""Models with packets, by the name of their preset."""
_MID_360_FROM_S = 3.5e-6  # time between dots: 5 us of a Mid-360, 2.2 us of a HAP


def sdk_of(payload: bytes) -> int:
    """SDK of a point packet, 1 or 2; 0 for other datagrams."""
    size = len(payload)
    if size > HEAD_2.itemsize and payload[0] == 0 and int.from_bytes(payload[1:3], "little") == size:
        layout, dots = SDK_2.get(payload[10]), int.from_bytes(payload[5:7], "little")
        if layout is not None and size == HEAD_2.itemsize + dots * layout.size:
            return 2
    if size > HEAD_1.itemsize and payload[0] == VERSION_1 and payload[8] <= 5:
        layout = SDK_1.get(payload[9])
        if layout is not None and size == HEAD_1.itemsize + layout.per_packet * layout.size:
            return 1
    return 0


def is_imu(payload: bytes) -> int:
    """SDK of an IMU packet, 1 or 2; 0 for other datagrams."""
    if len(payload) == HEAD_2.itemsize + IMU.itemsize and payload[0] == 0 and payload[10] == IMU_2:
        return 2
    return int(len(payload) == HEAD_1.itemsize + IMU.itemsize and payload[0] == VERSION_1 and payload[9] == IMU_1)


def model_of(payload: bytes) -> LivoxModel:
    """Model that sends such a point packet."""
    if sdk_of(payload) == 1:
        return MODELS["livox/mid-40" if payload[9] in (0, 1) else "livox/avia"]
    interval, dots = (int.from_bytes(payload[at : at + 2], "little") for at in (3, 5))
    return MODELS["livox/mid-360" if interval * 1e-7 > _MID_360_FROM_S * dots else "livox/hap"]


# ---- dots -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Dots(Table):
    """Dots of packets in the order of time, each with the same number of returns."""

    time_s: NDArray[np.float64]
    """Time of each dot on the clock of the sensor [s], shape (n,)."""
    line: NDArray[np.uint8]
    xyz: NDArray[np.float32]
    """Points [m], 0 without a return, shape (n, returns, 3)."""
    reflectivity: NDArray[np.uint8]
    """Shape (n, returns)."""
    tag: NDArray[np.uint8]


def dots_of(payloads: Sequence[bytes], model: LivoxModel) -> Dots:
    """Dots of at least one point packet of a model."""
    kinds: dict[tuple[int, int], list[bytes]] = {}
    for payload in payloads:
        kinds.setdefault((payload[10 if model.sdk == 2 else 9], len(payload)), []).append(payload)
    parts = [_of_one_kind(kind, packets, model) for (kind, _), packets in kinds.items()]
    return _in_order(joined(parts))


def _of_one_kind(kind: int, payloads: list[bytes], model: LivoxModel) -> Dots:
    head, layouts = (HEAD_2, SDK_2) if model.sdk == 2 else (HEAD_1, SDK_1)
    layout = layouts[kind]
    count = (len(payloads[0]) - head.itemsize) // layout.size
    whole = np.frombuffer(b"".join(payloads), np.uint8).reshape(len(payloads), -1)
    heads = whole[:, : head.itemsize].copy().view(head)[:, 0]
    raw = whole[:, head.itemsize :].reshape(len(payloads), count, layout.size)
    step = heads["interval"] * (1e-7 / count) if model.sdk == 2 else np.full(len(payloads), 1.0 / model.dots_per_s)
    number = np.arange(count)
    time = _clock_s(heads)[:, None] + number * step[:, None]
    xyz, records = _positions(raw, layout)
    tag = records["tag"] if "tag" in (layout.record.names or ()) else np.zeros(records.shape, np.uint8)
    shape = (-1, layout.returns)
    return Dots(
        time.reshape(-1),
        np.tile((number % model.lines).astype(np.uint8), len(payloads)),
        xyz.astype(np.float32).reshape(*shape, 3),
        records["reflectivity"].reshape(shape),
        tag.reshape(shape),
    )


def _positions(raw: NDArray[np.uint8], layout: DotLayout) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Points [m], shape (packets, dots, returns, 3), and records of each return."""
    start = 4 if layout.angles_first else 0
    shape = (*raw.shape[:2], layout.returns)
    records = np.ascontiguousarray(raw[..., start:]).view(layout.record).reshape(shape)
    if "x" in (layout.record.names or ()):
        return np.stack([records[axis].astype(np.float64) for axis in "xyz"], axis=-1) * layout.unit_m, records
    if layout.angles_first:
        angles = np.ascontiguousarray(raw[..., :4]).view("<u2")[..., None, :]
        theta, phi = angles[..., 0], angles[..., 1]
    else:
        theta, phi = records["theta"], records["phi"]
    zenith, azimuth = np.radians(theta * 0.01), np.radians(phi * 0.01)
    depth = records["depth"] * 1e-3
    level = depth * np.sin(zenith)
    return np.stack([level * np.cos(azimuth), level * np.sin(azimuth), depth * np.cos(zenith)], axis=-1), records


def _clock_s(heads: NDArray[Any]) -> NDArray[np.float64]:
    """Time stamps [s]; those of GPS are a date and the microseconds of the hour."""
    ns = heads["time_ns"]
    seconds = ns.astype(np.float64) * 1e-9
    if heads.dtype == HEAD_1:
        for row in np.flatnonzero(heads["time_type"] == _GPS_TIME):
            stamp = int(ns[row])
            year, month, day, hour = (stamp >> shift & 255 for shift in (0, 8, 16, 24))
            try:
                date = datetime(2000 + year, month, day, hour, tzinfo=timezone.utc)
            except ValueError:
                continue
            seconds[row] = date.timestamp() + (stamp >> 32) * 1e-6
    return seconds


def joined(parts: Sequence[Dots]) -> Dots:
    """Dots of several parts; those with fewer returns get lost ones."""
    most = max(part.xyz.shape[1] for part in parts)

    def widened(part: Dots) -> Dots:
        more = ((0, 0), (0, most - part.xyz.shape[1]))
        if not more[1][1]:
            return part
        return Dots(
            part.time_s, part.line, np.pad(part.xyz, (*more, (0, 0))), np.pad(part.reflectivity, more),
            np.pad(part.tag, more),
        )  # fmt: skip

    return Dots.joined(map(widened, parts))


def _in_order(dots: Dots) -> Dots:
    if (np.diff(dots.time_s) >= 0).all():
        return dots
    return dots.rows(np.argsort(dots.time_s, kind="stable"))


# ---- encoding -------------------------------------------------------------------------------------------------------


def packets_of(dots: Dots, model: LivoxModel, first: int) -> list[bytes]:
    """Packets of dots that fill them, of which the last may be shorter; `first` is the number of the first packet."""
    returns = dots.xyz.shape[1]
    kind, layout = model.layout(returns)
    records = np.zeros((len(dots), returns), layout.record)
    for axis, name in enumerate("xyz"):
        records[name] = np.rint(dots.xyz[..., axis].astype(np.float64) / layout.unit_m)
    records["reflectivity"] = dots.reflectivity
    if "tag" in (layout.record.names or ()):
        records["tag"] = dots.tag
    found = []
    for number, start in enumerate(range(0, len(dots), layout.per_packet)):
        body = records[start : start + layout.per_packet].tobytes()
        stamp = max(round(float(dots.time_s[start]) * 1e9), 0)
        if model.sdk == 1:
            body = body.ljust(layout.per_packet * layout.size, b"\0")
            found.append(head_1(kind, stamp) + body)
        else:
            count = len(body) // layout.size
            found.append(packet_2(kind, stamp, body, first + number, count, count / model.dots_per_s))
    return found


def head_1(kind: int, time_ns: int) -> bytes:
    """Header of an SDK 1 packet of a sensor whose clock is synchronised by PTP."""
    head = np.zeros(1, HEAD_1)
    head["version"], head["id"], head["time_type"] = VERSION_1, 1, 1
    head["data_type"], head["time_ns"] = kind, time_ns
    return head.tobytes()


def packet_2(kind: int, time_ns: int, body: bytes, number: int, dots: int, lasts_s: float) -> bytes:
    """SDK 2 packet of a sensor whose clock is synchronised by PTP."""
    head = np.zeros(1, HEAD_2)
    head["length"], head["dots"], head["udp_count"] = HEAD_2.itemsize + len(body), dots, number & 0xFFFF
    head["interval"] = min(round(lasts_s * 1e7), 0xFFFF)
    head["data_type"], head["time_type"], head["time_ns"] = kind, 1, time_ns
    head["crc32"] = zlib.crc32(head.tobytes()[CRC_FROM:] + body)
    return head.tobytes() + body
