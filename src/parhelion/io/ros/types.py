"""The message types of ROS 2: their definitions, and CDR bytes of them. All through the package rosbags."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from parhelion.core.errors import ConfigError, FormatError, MissingDependencyError


class Message(NamedTuple):
    """One message on its way to or from a bag or a network."""

    topic: str
    type: str
    """As in 'sensor_msgs/msg/PointCloud2'."""
    time_ns: int
    """When it was sent [ns]; the time of the measurement is in its header."""
    data: bytes
    """CDR, little endian, with the header of four bytes."""


@lru_cache(maxsize=1)
def type_store() -> Any:
    """The message types of ROS 2 Humble, and those of radar_msgs."""
    try:
        from rosbags.typesys import Stores, get_types_from_msg, get_typestore
    except ImportError:
        raise MissingDependencyError("ROS messages need the package rosbags: run 'pip install rosbags'") from None

    store = get_typestore(Stores.ROS2_HUMBLE)
    for name, text in DEFINITIONS.items():
        store.register(get_types_from_msg(text, name))
    return store


def known_type(name: str) -> bool:
    """Whether messages of a type can be decoded."""
    return name in type_store().types


@lru_cache(maxsize=64)
def definition_of(name: str) -> tuple[str, str]:
    """The definition of a type with all that it holds (ros2msg), and its hash (RIHS01)."""
    store = type_store()
    if not known_type(name):
        raise ConfigError(f"ROS: the message type {name!r} is not among those of ROS 2 Humble")
    return store.generate_msgdef(name, ros_version=2)[0], store.hash_rihs01(name)


def new(name: str, /, **fields: Any) -> Any:
    """A message of a type of ROS 2."""
    return type_store().types[name](**fields)


def encode(name: str, message: Any) -> bytes:
    """CDR bytes of a message, little endian."""
    return bytes(type_store().serialize_cdr(message, name, little_endian=True))


def decode(name: str, data: bytes) -> Any:
    """A message from its CDR bytes; its fields are those of the ROS definition.

    Raises FormatError for a type that is not part of ROS 2 Humble, and for damaged bytes.
    """
    if not known_type(name):
        raise FormatError(f"ROS: the message type {name!r} is not among those of ROS 2 Humble, so it cannot be decoded")
    if len(data) < 4 or data[0] != 0 or data[1] not in (0, 1):
        raise FormatError(f"ROS: a message of {name} does not begin as CDR does (bytes 00 00 or 00 01)")
    try:
        return type_store().deserialize_cdr(data, name)
    except Exception as error:  # damaged bytes make the generated decoders fail in many ways
        raise FormatError(f"ROS: a message of {name} cannot be decoded ({type(error).__name__})") from None


def stamp(time_ns: int) -> Any:
    """A time [ns] as ROS has it; negative times are refused, since its nanoseconds count upwards from a second."""
    if not 0 <= time_ns < (1 << 31) * 1_000_000_000:
        raise ConfigError(f"ROS: a time must be from 0 s to 2^31 s, got {time_ns / 1e9:g} s")
    seconds, rest = divmod(int(time_ns), 1_000_000_000)
    return new("builtin_interfaces/msg/Time", sec=seconds, nanosec=rest)


def header(time_ns: int, frame_id: str) -> Any:
    """The header of a measurement: its time [ns] and its frame."""
    return new("std_msgs/msg/Header", stamp=stamp(time_ns), frame_id=frame_id)


def nanoseconds(time: Any) -> int:
    """A ROS time as a whole number [ns]."""
    return int(time.sec) * 1_000_000_000 + int(time.nanosec)


# ---- Messages that ROS 2 Humble does not have by itself, as text ----------------------------------------------------


DEFINITIONS = {
    "radar_msgs/msg/RadarReturn": (
        "float32 range\nfloat32 azimuth\nfloat32 elevation\nfloat32 doppler_velocity\nfloat32 amplitude\n"
    ),
    "radar_msgs/msg/RadarScan": "std_msgs/Header header\nradar_msgs/RadarReturn[] returns\n",
}
"""Fields of radar_msgs, which is no part of ROS 2 Humble itself (m, rad, m/s, dB)."""
