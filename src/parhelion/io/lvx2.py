"""LVX2, the recordings of Livox Viewer 2: frames of 50 ms with the point packets of SDK 2 sensors.

Source: LVX2 Specifications (Livox, 1.0, June 2023): headers of the file (24 and 5 bytes), of devices (63), frames (24)
and packages (27); the points are those of the UDP packets. All numbers are little-endian.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.files import write_whole
from parhelion.core.reading import file_reader, read_bytes
from parhelion.io.captures import FIELDS_HELD, as_one
from parhelion.makers.livox.frames import livox_frames, scan_dots
from parhelion.makers.livox.packets import HEAD_2, MODELS, SDK_2, LivoxModel, packet_2, packets_of

_SIGNATURE = b"livox_tech"
_MAGIC = 0xAC0EA767
_FRAME_MS = 50
_PUBLIC = np.dtype(
    [("signature", "S16"), ("version", "u1", 4), ("magic", "<u4"), ("frame_ms", "<u4"), ("devices", "u1")]
)
_DEVICE = np.dtype(
    [
        ("serial", "S16"), ("hub_serial", "S16"), ("id", "<u4"), ("reserved", "u1"), ("type", "u1"),
        ("extrinsic", "u1"), ("roll_pitch_yaw_deg", "<f4", 3), ("xyz_m", "<f4", 3),
    ]
)  # fmt: skip
_FRAME = np.dtype([("offset", "<u8"), ("next", "<u8"), ("number", "<u8")])
_PACKAGE = np.dtype(
    [
        ("version", "u1"), ("id", "<u4"), ("lidar_type", "u1"), ("time_type", "u1"), ("time_ns", "<u8"),
        ("udp_count", "<u2"), ("data_type", "u1"), ("length", "<u4"), ("frame_count", "u1"), ("reserved", "u1", 4),
    ]
)  # fmt: skip
_LIDAR_TYPE = 8  # of packages, as in files of the viewer
_MOST_BYTES = 2 << 30
_TYPES = {10: "livox/hap", 15: "livox/hap"} | {model.device_type: name for name, model in MODELS.items()}


def _record(data: bytes, at: int, kind: np.dtype[Any], file: Path) -> Any:
    if at + kind.itemsize > len(data):
        raise FormatError(f"{file}: ends within a header; the recording is not complete")
    return np.frombuffer(data, kind, 1, at)[0]


def _device(data: bytes, file: Path, device: int | None) -> tuple[int, LivoxModel, int]:
    """Number of the device in packages, its model, and the place of the first frame."""
    head = _record(data, 0, _PUBLIC, file)
    if bytes(head["signature"]) != _SIGNATURE or int(head["magic"]) != _MAGIC or int(head["version"][0]) != 2:
        raise FormatError(f"{file}: is no LVX2 recording")
    count = int(head["devices"])
    if not count:
        raise FormatError(f"{file}: has no device")
    if device is None and count > 1:
        raise FormatError(f"{file}: has {count} devices; pass the number of one of them (device=0 to {count - 1})")
    if not 0 <= (device or 0) < count:
        raise FormatError(f"{file}: has the devices 0 to {count - 1}, not {device}")
    chosen = _record(data, _PUBLIC.itemsize + (device or 0) * _DEVICE.itemsize, _DEVICE, file)
    kind = int(chosen["type"])
    if kind not in _TYPES or MODELS[_TYPES[kind]].sdk != 2:
        raise FormatError(f"{file}: the device type {kind} is not known; known: 9 (Mid-360), 10 and 15 (HAP)")
    return int(chosen["id"]), MODELS[_TYPES[kind]], _PUBLIC.itemsize + count * _DEVICE.itemsize


def _packets(data: bytes, start: int, wanted: int, model: LivoxModel, file: Path) -> Iterator[bytes]:
    """Packets of a device as its sensor sent them."""
    while start < len(data):
        frame = _record(data, start, _FRAME, file)
        end = int(frame["next"])
        if not start + _FRAME.itemsize <= end <= len(data):
            raise FormatError(f"{file}: the frame at byte {start} ends at byte {end}, but the file has {len(data)}")
        at = start + _FRAME.itemsize
        while at < end:
            package = _record(data, at, _PACKAGE, file)
            size, layout = int(package["length"]), SDK_2.get(int(package["data_type"]))
            at += _PACKAGE.itemsize
            if layout is None or size % layout.size or at + size > end:
                raise FormatError(f"{file}: the package at byte {at - _PACKAGE.itemsize} is damaged")
            dots = size // layout.size
            if int(package["id"]) == wanted and dots > 0 and size <= 65507 - HEAD_2.itemsize:
                yield packet_2(
                    int(package["data_type"]), int(package["time_ns"]), data[at : at + size],
                    int(package["udp_count"]), dots, dots / model.dots_per_s,
                )  # fmt: skip
            at += size
        start = end


def read_frames(path: str | PathLike[str], *, device: int | None = None) -> Iterator[Scan]:
    """Scans of 0.1 s of a recording. `device` is the number of the sensor if several were recorded."""
    file = Path(path)
    data = read_bytes(file, largest=_MOST_BYTES, what="a recording that fits into memory")
    wanted, model, start = _device(data, file, device)
    try:
        yield from livox_frames(_packets(data, start, wanted, model, file), model)
    except FormatError as error:
        raise error if str(error).startswith(str(file)) else FormatError(f"{file}: {error}") from None


@file_reader()
def read(path: str | PathLike[str], *, device: int | None = None, scan: int | None = None) -> PointCloud:
    """Points of a recording, in the sensor frame; `scan` is the number of one scan of 0.1 s, by default all."""
    file = Path(path)
    last = -1
    frames = []
    for last, frame in enumerate(read_frames(file, device=device)):
        if last == scan:
            return frame
        frames.append(frame)
    if scan is not None:
        raise FormatError(f"{file}: has the scans 0 to {last}, not {scan}")
    return as_one(frames, file)


def write(cloud: PointCloud, path: Path) -> tuple[str, ...]:
    """Write a scan of a Mid-360 or HAP as a recording. Return the names of fields that it does not contain."""
    name = str(cloud.metadata.get("sensor", ""))
    model = MODELS.get(name)
    if not isinstance(cloud, Scan) or model is None or model.sdk != 2:
        known = ", ".join(one.name for one in MODELS.values() if one.sdk == 2)
        raise FormatError(f"{path}: recordings hold scans of {known}, not of {name or 'a sensor without name'}")
    try:
        dots = scan_dots(cloud, model)
    except ConfigError as error:
        raise FormatError(f"{path}: {error}") from None
    head, about = np.zeros(1, _PUBLIC), np.zeros(1, _DEVICE)
    head["signature"], head["version"], head["magic"] = _SIGNATURE, (2, 0, 0, 0), _MAGIC
    head["frame_ms"], head["devices"] = _FRAME_MS, 1
    about["serial"], about["id"], about["type"] = b"PARHELION000001", 1, model.device_type
    packets = packets_of(dots, model, 0)
    first = np.frombuffer(packets[0], HEAD_2, 1)["time_ns"][0]
    frames: dict[int, list[bytes]] = {}
    for packet in packets:
        sent = np.frombuffer(packet, HEAD_2, 1)[0]
        package = np.zeros(1, _PACKAGE)
        package["id"], package["lidar_type"], package["time_type"] = 1, _LIDAR_TYPE, sent["time_type"]
        package["time_ns"], package["udp_count"] = sent["time_ns"], sent["udp_count"]
        package["data_type"], package["length"] = sent["data_type"], len(packet) - HEAD_2.itemsize
        number = int(sent["time_ns"] - first) // (_FRAME_MS * 1_000_000)
        frames.setdefault(number, []).append(package.tobytes() + packet[HEAD_2.itemsize :])
    parts = [head.tobytes(), about.tobytes()]
    place = sum(map(len, parts))
    for number, packages in sorted(frames.items()):
        body = b"".join(packages)
        frame = np.zeros(1, _FRAME)
        frame["offset"], frame["next"], frame["number"] = place, place + _FRAME.itemsize + len(body), number
        parts += [frame.tobytes(), body]
        place += _FRAME.itemsize + len(body)
    write_whole(path, b"".join(parts))
    return tuple(name for name in cloud.fields if name not in (*FIELDS_HELD, "shot", "tag"))
