"""ROS 2 messages with lidar returns as clouds and back: PointCloud2, LaserScan, and CustomMsg of the Livox drivers.

The way back keeps the bytes of the message: stamp, frame, fields and layout stay as they are, and only the values that
weather changes are written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import FormatError
from parhelion.io.ros.clouds import POINT_CLOUD, cloud_of, like
from parhelion.io.ros.types import CdrReader, Message
from parhelion.makers.layouts import whole

LASER_SCAN = "sensor_msgs/msg/LaserScan"
LIVOX_MESSAGES = ("livox_ros_driver2/msg/CustomMsg", "livox_ros_driver/msg/CustomMsg")


class ReturnMessage(NamedTuple):
    """Conversion of a message type."""

    read: Callable[[Message], PointCloud]
    """Cloud of a message, with a row for each shot that the message contains, NaN or 0 without a return."""
    write: Callable[[Message, PointCloud], bytes]
    """CDR bytes of the same message with the returns of another cloud, which was derived from that of the message."""


def stamp_and_frame(data: bytes) -> tuple[int, str]:
    """Stamp [ns] and frame of a message that starts with a header."""
    try:
        read = CdrReader(data)
        return read.number("i") * 1_000_000_000 + read.number("I"), read.text()
    except (struct.error, ValueError, IndexError) as error:
        raise FormatError(f"ROS: the header of a message cannot be decoded ({type(error).__name__})") from None


# ---- LaserScan -----------------------------------------------------------------------------------------------------


class _Beams(NamedTuple):
    """Arrays of a LaserScan in its bytes."""

    angles: NDArray[np.float64]
    time_increment: float
    limits: tuple[float, float]
    ranges: NDArray[np.float32]
    intensities: NDArray[np.float32] | None


def _beams(data: bytes | bytearray, topic: str) -> _Beams:
    try:
        read = CdrReader(bytes(data[:1024]))
        read.number("i"), read.number("I"), read.text()
        at = read.aligned(4)
        start, _, step, time_step, _, low, high = struct.unpack_from(f"{read.order}7f", data, at)
        arrays, at = [], at + 28
        for _ in range(2):
            count = struct.unpack_from(f"{read.order}I", data, at)[0]
            arrays.append(np.frombuffer(data, f"{read.order}f4", count, at + 4))
            at += 4 + 4 * count
    except (struct.error, ValueError, IndexError) as error:
        raise FormatError(f"{topic}: a message of {LASER_SCAN} cannot be decoded ({type(error).__name__})") from None
    ranges, intensities = arrays
    if len(ranges) > 65536:
        raise FormatError(f"{topic}: a scan has {len(ranges)} beams, the limit is 65536")
    angles = start + step * np.arange(len(ranges))
    if not np.isfinite(angles).all():
        raise FormatError(f"{topic}: angle_min and angle_increment must be finite")
    return _Beams(angles, time_step, (low, high), ranges, intensities if len(intensities) == len(ranges) else None)


def _valid(beams: _Beams) -> NDArray[np.bool_]:
    return np.isfinite(beams.ranges) & (beams.ranges >= beams.limits[0]) & (beams.ranges <= beams.limits[1])


def scan_cloud(message: Message) -> PointCloud:
    """Cloud of a LaserScan, one row per beam.

    A range of infinity, or beyond range_max, is a shot without a return (REP 117). Any other invalid range, such as NaN
    or one below range_min, has the direction 0: nothing is known about it, and nothing is added along it.
    """
    beams = _beams(message.data, message.topic)
    count, valid = len(beams.ranges), _valid(beams)
    ranges = np.where(valid, beams.ranges, np.nan).astype(np.float32)
    direction = np.stack([np.cos(beams.angles), np.sin(beams.angles), np.zeros(count)], axis=1).astype(np.float32)
    fields: dict[str, NDArray[Any]] = {
        "range": np.where(valid, ranges, 0.0).astype(np.float32),
        "ring": np.zeros(count, np.uint16),
        "column": np.arange(count, dtype=np.uint16),
        "time": (np.arange(count) * beams.time_increment).astype(np.float32),
        "shot": np.arange(count, dtype=np.uint32),
        "direction": np.where((valid | (beams.ranges > beams.limits[1]))[:, None], direction, np.float32(0.0)),
    }
    if beams.intensities is not None:
        fields["intensity"] = beams.intensities.astype(np.float32)
    stamp_ns, frame = stamp_and_frame(message.data)
    return PointCloud(direction * ranges[:, None], fields, metadata={"time": stamp_ns / 1e9, "frame_id": frame})


def like_scan(message: Message, cloud: PointCloud) -> bytes:
    """LaserScan with the ranges and intensities of a cloud; a lost return has the range infinity."""
    data = bytearray(message.data)
    beams = _beams(data, message.topic)
    beams.ranges[_valid(beams)] = np.inf
    rows = np.flatnonzero(np.isfinite(cloud.xyz[:, 0]))[::-1]  # the nearest return of a beam is written last
    beam = cloud.fields["shot"][rows]
    beams.ranges[beam] = cloud.fields["range"][rows]
    if beams.intensities is not None:
        lost = beams.ranges == np.inf
        beams.intensities[beam] = cloud.fields["intensity"][rows]
        beams.intensities[lost] = 0.0
    return bytes(data)


# ---- Livox ---------------------------------------------------------------------------------------------------------


class _Livox(NamedTuple):
    """Points of a CustomMsg and their places in its bytes."""

    points: NDArray[Any]
    count_at: int
    """Place of point_num."""
    points_at: int
    """Place of the first point; the length of the array is in the four bytes before it."""
    order: str


def _livox_points(data: bytes, topic: str) -> _Livox:
    """Points of 20 bytes; CDR aligns each to four bytes and omits the padding of the last."""
    try:
        read = CdrReader(data)
        read.number("i"), read.number("I"), read.text(), read.number("Q")
        count_at = read.aligned(4)
        read.number("I")
        read.at += 4  # lidar_id and three reserved bytes
        count = read.number("I")
        kind = _livox_type(read.order)
        points = np.frombuffer(data[read.at : read.at + 20 * count - 1] + b"\0" if count else b"", kind, count)
    except (struct.error, ValueError, IndexError) as error:
        raise FormatError(f"{topic}: a Livox CustomMsg cannot be decoded ({type(error).__name__})") from None
    return _Livox(points, count_at, read.at, read.order)


def _livox_type(order: str) -> np.dtype[Any]:
    names = ["offset_time", "x", "y", "z", "reflectivity", "tag", "line"]
    formats = [f"{order}u4", *[f"{order}f4"] * 3, "u1", "u1", "u1"]
    return np.dtype({"names": names, "formats": formats, "offsets": [0, 4, 8, 12, 16, 17, 18], "itemsize": 20})


def livox_cloud(message: Message) -> PointCloud:
    """Cloud of a CustomMsg: `intensity` is the reflectivity, `ring` the line; points at 0, 0, 0 have no return."""
    points = _livox_points(message.data, message.topic).points
    stamp_ns, frame = stamp_and_frame(message.data)
    fields: dict[str, NDArray[Any]] = {
        "intensity": points["reflectivity"].astype(np.float32),
        "ring": points["line"].astype(np.uint16),
        "time": (points["offset_time"].astype(np.float64) * 1e-9).astype(np.float32),
        "tag": points["tag"].copy(),
        "offset_time": points["offset_time"].astype(np.uint32),
    }
    xyz = np.stack([points[axis] for axis in "xyz"], axis=1).astype(np.float32)
    return PointCloud(xyz, fields, metadata={"time": stamp_ns / 1e9, "frame_id": frame})


def like_livox(message: Message, cloud: PointCloud) -> bytes:
    """CustomMsg with the points of a cloud, in its order; new points have the tag 0."""
    old = _livox_points(message.data, message.topic)
    rows = np.zeros(len(cloud), old.points.dtype)
    for axis, name in enumerate("xyz"):
        rows[name] = cloud.xyz[:, axis]
    fields = cloud.fields
    new = fields["origin"] != 0 if "origin" in fields else np.zeros(len(cloud), bool)
    rows["offset_time"] = np.where(new, whole(fields["time"].astype(np.float64) * 1e9, "u4"), fields["offset_time"])
    rows["reflectivity"] = whole(fields["intensity"], "u1")
    rows["line"], rows["tag"] = whole(fields["ring"], "u1"), fields["tag"]
    data = bytearray(message.data[: old.points_at])
    struct.pack_into(f"{old.order}I", data, old.count_at, len(rows))
    struct.pack_into(f"{old.order}I", data, old.points_at - 4, len(rows))
    return bytes(data + rows.tobytes()[:-1])


def livox_message(cloud: PointCloud, frame_id: str, time_ns: int) -> bytes:
    """CDR bytes of a CustomMsg with the points of a cloud in order of time; lost shots are left out."""
    fields = cloud.fields
    time = fields["time"].astype(np.float64) if "time" in fields else np.zeros(len(cloud))
    order = np.argsort(time, kind="stable")
    rows = np.zeros(len(cloud), _livox_type("<"))
    for axis, name in enumerate("xyz"):
        rows[name] = cloud.xyz[order, axis]
    rows["offset_time"] = whole(time[order] * 1e9, "u4")
    for ours, theirs in (("intensity", "reflectivity"), ("ring", "line"), ("tag", "tag")):
        if ours in fields:
            rows[theirs] = whole(fields[ours][order], "u1")
    frame = frame_id.encode() + b"\0"
    head = struct.pack("<iII", time_ns // 1_000_000_000, time_ns % 1_000_000_000, len(frame)) + frame
    head += bytes(-len(head) % 8)
    head += struct.pack("<QIB3xI", time_ns, len(rows), 1, len(rows))
    return b"\0\1\0\0" + head + rows.tobytes()[:-1]


CLOUD_MESSAGES: dict[str, tuple[str, Callable[[PointCloud, str, int], bytes]]] = {
    "livox-custom": (LIVOX_MESSAGES[0], livox_message)
}
"""Messages other than PointCloud2 that drivers publish clouds in, by the name of the layout: type and encoder."""

RETURN_MESSAGES: dict[str, ReturnMessage] = {
    POINT_CLOUD: ReturnMessage(lambda message: cloud_of(message, keep_missing=True), like),
    LASER_SCAN: ReturnMessage(scan_cloud, like_scan),
    **dict.fromkeys(LIVOX_MESSAGES, ReturnMessage(livox_cloud, like_livox)),
}
"""Message types to which weather can be applied."""
