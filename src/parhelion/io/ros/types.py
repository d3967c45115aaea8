"""Message types of ROS 2: definitions and CDR serialization, through the package rosbags."""

from __future__ import annotations

import struct
from contextlib import suppress
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


HUMBLE = "humble"
"""Default distribution, for messages and bags."""
_SINCE_IRON = {
    "sensor_msgs/msg/Range": (
        "std_msgs/Header header\nuint8 ULTRASOUND=0\nuint8 INFRARED=1\nuint8 radiation_type\nfloat32 field_of_view\n"
        "float32 min_range\nfloat32 max_range\nfloat32 range\nfloat32 variance\n"
    )
}
DISTROS: dict[str, dict[str, str]] = {
    HUMBLE: {},
    **dict.fromkeys(("iron", "jazzy", "kilted", "lyrical", "rolling"), _SINCE_IRON),
}
"""Supported distributions of ROS 2, with the definitions that differ from those of Humble.

Of the messages that this package sends, only Range does: it has one more field since Iron.
"""


LATCHED_TYPES = frozenset(
    {"visualization_msgs/msg/MarkerArray", "vision_msgs/msg/LabelInfo", "action_msgs/msg/GoalStatusArray"}
)
"""Types whose last message late subscribers receive, as of /tf_static."""


def check_distro(name: str) -> str:
    """Return the name of a supported distribution, or raise."""
    if name not in DISTROS:
        raise ConfigError(f"ROS 2 distribution: expected {', '.join(DISTROS)}, got {name[:40]!r}")
    return name


def type_store(distro: str = HUMBLE) -> Any:
    """Type store with the message types of a distribution of ROS 2, and those of `DEFINITIONS`."""
    # Distributions with the same definitions share a store.
    return _stores(next(name for name, changed in DISTROS.items() if changed is DISTROS[distro]))


@lru_cache
def _stores(distro: str) -> Any:
    return _new_store(distro)


def _new_store(distro: str) -> Any:
    try:
        from rosbags.typesys import Stores, get_types_from_msg, get_typestore
    except ImportError:
        raise MissingDependencyError("ROS messages need the package rosbags: pip install rosbags") from None

    store = get_typestore(Stores.ROS2_HUMBLE)
    for name in DISTROS[distro]:
        del store.types[name], field_definitions(store)[name]  # a changed definition cannot be registered twice
    for name, text in {**DISTROS[distro], **DEFINITIONS}.items():
        store.register(get_types_from_msg(text, name))
    return store


def known_type(name: str) -> bool:
    """Return whether messages of a type can be decoded."""
    return name in type_store().types


def field_definitions(store: Any) -> Any:
    """Constants and fields of each type of a store; the name changed between versions of rosbags."""
    return getattr(store, "fielddefs", None) or store.FIELDDEFS


_hash_base = lru_cache(_new_store)


def _hash_store(distro: str) -> Any:
    """Type store for hashes: in ROS 2, `char` is an unsigned byte, which rosbags hashes as another type."""
    store = _hash_base(distro)
    definitions = field_definitions(store)
    for name, (constants, fields) in field_definitions(type_store(distro)).items():
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


def definition_of(name: str, distro: str = HUMBLE) -> tuple[str, str]:
    """Definition of a type with all nested types (ros2msg), and its hash (RIHS01)."""
    code = hash_of(name, distro)
    return _definition(name, distro), code


@lru_cache(maxsize=128)
def _definition(name: str, distro: str) -> str:
    text: str = type_store(distro).generate_msgdef(name, ros_version=2)[0]
    return text


@lru_cache(maxsize=256)
def hash_of(name: str, distro: str = HUMBLE) -> str:
    """Hash of a type (RIHS01)."""
    if not known_type(name):
        raise ConfigError(f"ROS: the message type {name!r} is not part of ROS 2 {distro.capitalize()}")
    code: str = _hash_store(distro).hash_rihs01(name)
    return code


def new(name: str, /, **fields: Any) -> Any:
    """Create a message."""
    return type_store().types[name](**fields)


def encode(name: str, message: Any, distro: str = HUMBLE) -> bytes:
    """Serialize a message to CDR bytes, little endian."""
    return bytes(type_store(distro).serialize_cdr(message, name, little_endian=True))


def decode(name: str, data: bytes) -> Any:
    """Deserialize a message from CDR bytes; its fields are those of the ROS definition.

    Definitions of Humble are tried first, then those of later distributions. Raise FormatError for damaged bytes, and
    for a type that is not part of ROS 2 Humble.
    """
    if not known_type(name):
        raise FormatError(f"ROS: the message type {name!r} is not part of ROS 2 Humble, so it cannot be decoded")
    if len(data) < 4 or data[0] != 0 or data[1] not in (0, 1):
        raise FormatError(f"ROS: a message of {name} does not start with a CDR header (bytes 00 00 or 00 01)")
    stores = [type_store(), *(type_store(distro) for distro in ("iron",) if name in DISTROS[distro])]
    try:
        for store in stores[:-1]:
            with suppress(Exception):
                return store.deserialize_cdr(data, name)
        return stores[-1].deserialize_cdr(data, name)
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
    "vision_msgs/msg/ObjectHypothesis": "string class_id\nfloat64 score\n",
    "vision_msgs/msg/ObjectHypothesisWithPose": (
        "vision_msgs/ObjectHypothesis hypothesis\ngeometry_msgs/PoseWithCovariance pose\n"
    ),
    "vision_msgs/msg/BoundingBox3D": "geometry_msgs/Pose center\ngeometry_msgs/Vector3 size\n",
    "vision_msgs/msg/Detection3D": (
        "std_msgs/Header header\nvision_msgs/ObjectHypothesisWithPose[] results\nvision_msgs/BoundingBox3D bbox\n"
        "string id\n"
    ),
    "vision_msgs/msg/Detection3DArray": "std_msgs/Header header\nvision_msgs/Detection3D[] detections\n",
    "vision_msgs/msg/Point2D": "float64 x\nfloat64 y\n",
    "vision_msgs/msg/Pose2D": "vision_msgs/Point2D position\nfloat64 theta\n",
    "vision_msgs/msg/BoundingBox2D": "vision_msgs/Pose2D center\nfloat64 size_x\nfloat64 size_y\n",
    "vision_msgs/msg/Detection2D": (
        "std_msgs/Header header\nvision_msgs/ObjectHypothesisWithPose[] results\nvision_msgs/BoundingBox2D bbox\n"
        "string id\n"
    ),
    "vision_msgs/msg/Detection2DArray": "std_msgs/Header header\nvision_msgs/Detection2D[] detections\n",
    "vision_msgs/msg/VisionClass": "uint16 class_id\nstring class_name\n",
    "vision_msgs/msg/LabelInfo": ("std_msgs/Header header\nvision_msgs/VisionClass[] class_map\nfloat32 threshold\n"),
    "ackermann_msgs/msg/AckermannDrive": (
        "float32 steering_angle\nfloat32 steering_angle_velocity\nfloat32 speed\nfloat32 acceleration\nfloat32 jerk\n"
    ),
    "ackermann_msgs/msg/AckermannDriveStamped": "std_msgs/Header header\nackermann_msgs/AckermannDrive drive\n",
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
"""Definitions of vision_msgs 4, ackermann_msgs 2, radar_msgs (m, rad, m/s, dB) and of the Livox drivers (ns, m)."""
