"""Message types of ROS 2: definitions and CDR serialization, through the package rosbags."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, NamedTuple

from parhelion.core.errors import ConfigError, FormatError, MissingDependencyError


class Message(NamedTuple):
    """One serialized message of a bag or network."""

    topic: str
    """Name of the topic."""
    type: str
    """Message type, for example 'sensor_msgs/msg/PointCloud2'."""
    time_ns: int
    """Time of sending [ns]; the time of the measurement is in the message header."""
    data: bytes
    """CDR bytes, little endian, with the four-byte header."""


@lru_cache(maxsize=1)
def type_store() -> Any:
    """Type store with the message types of ROS 2 Humble, of radar_msgs and of the Livox drivers."""
    return _new_store()


def _new_store() -> Any:
    try:
        from rosbags.typesys import Stores, get_types_from_msg, get_typestore
    except ImportError:
        raise MissingDependencyError("ROS messages need the package rosbags: pip install rosbags") from None

    store = get_typestore(Stores.ROS2_HUMBLE)
    for name, text in DEFINITIONS.items():
        store.register(get_types_from_msg(text, name))
    return store


def known_type(name: str) -> bool:
    """Return whether messages of a type can be decoded."""
    return name in type_store().types


def field_definitions(store: Any) -> Any:
    """Constants and fields of each type of a store; the name changed between versions of rosbags."""
    return getattr(store, "fielddefs", None) or store.FIELDDEFS


_hash_base = lru_cache(maxsize=1)(lambda: _new_store())


def _hash_store() -> Any:
    """Type store for hashes: in ROS 2, `char` is an unsigned byte, which rosbags hashes as another type."""
    store = _hash_base()
    definitions = field_definitions(store)
    for name, (constants, fields) in field_definitions(type_store()).items():
        definitions[name] = constants, [(field, _char_as_byte(node)) for field, node in fields]
    return store


def _char_as_byte(node: Any) -> Any:
    """Parsed type of a field, with `uint8` for `char`."""
    kind, what = node
    if isinstance(what, tuple) and what and what[0] == "char":
        return kind, ("uint8", *what[1:])
    if isinstance(what, tuple) and what and isinstance(what[0], tuple):  # element type and size of an array
        return kind, (_char_as_byte(what[0]), *what[1:])
    return node


@lru_cache(maxsize=64)
def definition_of(name: str) -> tuple[str, str]:
    """Definition of a type with all nested types (ros2msg), and its hash (RIHS01)."""
    store = type_store()
    if not known_type(name):
        raise ConfigError(f"ROS: the message type {name!r} is not part of ROS 2 Humble")
    return store.generate_msgdef(name, ros_version=2)[0], _hash_store().hash_rihs01(name)


def new(name: str, /, **fields: Any) -> Any:
    """Create a message."""
    return type_store().types[name](**fields)


def encode(name: str, message: Any) -> bytes:
    """Serialize a message to CDR bytes, little endian."""
    return bytes(type_store().serialize_cdr(message, name, little_endian=True))


def decode(name: str, data: bytes) -> Any:
    """Deserialize a message from CDR bytes; its fields are those of the ROS definition.

    Raise FormatError for damaged bytes, and for a type that is not part of ROS 2 Humble.
    """
    if not known_type(name):
        raise FormatError(f"ROS: the message type {name!r} is not part of ROS 2 Humble, so it cannot be decoded")
    if len(data) < 4 or data[0] != 0 or data[1] not in (0, 1):
        raise FormatError(f"ROS: a message of {name} does not start with a CDR header (bytes 00 00 or 00 01)")
    try:
        return type_store().deserialize_cdr(data, name)
    except Exception as error:  # the generated decoders raise many types of exceptions on damaged bytes
        raise FormatError(f"ROS: a message of {name} cannot be decoded ({type(error).__name__})") from None


class CdrReader:
    """Reader of the numbers and texts of a CDR message, for messages whose arrays are too large to decode."""

    def __init__(self, cdr: bytes) -> None:
        self.order = "<" if cdr[1] else ">"
        """Byte order of numbers, as in the module struct."""
        self.at = 4
        """Place of the next byte."""
        self._cdr = cdr

    def aligned(self, size: int) -> int:
        """Place of the next number of `size` bytes; numbers are aligned to their size, counted from the fifth byte."""
        self.at += -(self.at - 4) % size
        return self.at

    def number(self, kind: str) -> int:
        """Next number; `kind` is its letter in the module struct."""
        size = struct.calcsize(kind)
        self.at = self.aligned(size) + size
        return int(struct.unpack_from(self.order + kind, self._cdr, self.at - size)[0])

    def text(self) -> str:
        """Next text, which ends with a zero byte."""
        size = self.number("I")
        if self.at + size > len(self._cdr):
            raise ValueError("a text is longer than its message")
        self.at += size
        return self._cdr[self.at - size : self.at].rstrip(b"\0").decode()


def stamp(time_ns: int) -> Any:
    """ROS time message of a time [ns]. Raise ConfigError for negative times."""
    if not 0 <= time_ns < (1 << 31) * 1_000_000_000:
        raise ConfigError(f"ROS: a time must be from 0 s to 2^31 s, got {time_ns / 1e9:g} s")
    seconds, rest = divmod(int(time_ns), 1_000_000_000)
    return new("builtin_interfaces/msg/Time", sec=seconds, nanosec=rest)


def header(time_ns: int, frame_id: str) -> Any:
    """Message header with time [ns] and frame."""
    return new("std_msgs/msg/Header", stamp=stamp(time_ns), frame_id=frame_id)


def nanoseconds(time: Any) -> int:
    """Convert a ROS time to nanoseconds."""
    return int(time.sec) * 1_000_000_000 + int(time.nanosec)


# ---- message definitions that are not part of ROS 2 Humble ----------------------------------------------------------


DEFINITIONS = {
    "radar_msgs/msg/RadarReturn": (
        "float32 range\nfloat32 azimuth\nfloat32 elevation\nfloat32 doppler_velocity\nfloat32 amplitude\n"
    ),
    "radar_msgs/msg/RadarScan": "std_msgs/Header header\nradar_msgs/RadarReturn[] returns\n",
    **{
        f"{package}/msg/{name}": text.replace("PACKAGE", package)
        for package in ("livox_ros_driver2", "livox_ros_driver")
        for name, text in (
            (
                "CustomPoint",
                "uint32 offset_time\nfloat32 x\nfloat32 y\nfloat32 z\nuint8 reflectivity\nuint8 tag\nuint8 line\n",
            ),
            (
                "CustomMsg",
                "std_msgs/Header header\nuint64 timebase\nuint32 point_num\nuint8 lidar_id\nuint8[3] rsvd\n"
                "PACKAGE/CustomPoint[] points\n",
            ),
        )
    },
}
"""Definitions of radar_msgs (m, rad, m/s, dB) and of the Livox drivers (ns, m)."""
