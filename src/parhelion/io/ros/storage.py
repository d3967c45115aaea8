"""Topics of a bag, its metadata.yaml, and decompression of its chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from parhelion.core import config
from parhelion.core.errors import ConfigError, FormatError, MissingDependencyError
from parhelion.core.files import write_whole
from parhelion.core.reading import UnpackingBudget
from parhelion.io.ros.types import HUMBLE, LATCHED_TYPES, definition_of, known_type

METADATA = "metadata.yaml"
_SENSOR_OF = "parhelion sensor of "
_VERSION = 8  # of metadata.yaml; newer distributions read it, older ones skip unknown entries

# Infinite durations and enumerations as rosbag2 writes them up to version 8: keep all, reliable, transient local.
_FOREVER = "{sec: 9223372036, nsec: 854775807}"
LATCHED = f"""- history: 1
  depth: 1
  reliability: 1
  durability: 1
  deadline: {_FOREVER}
  lifespan: {_FOREVER}
  liveliness: 1
  liveliness_lease_duration: {_FOREVER}
  avoid_ros_namespace_conventions: false
"""
"""Quality of service of latched topics, whose last message late subscribers receive: /tf_static."""


class BagWarning(UserWarning):
    """A bag is damaged at its end; the part before can be read."""


@dataclass(frozen=True)
class Topic:
    """One topic of a bag."""

    name: str
    """Name of the topic."""
    type: str
    """Message type, for example 'sensor_msgs/msg/PointCloud2'."""
    count: int = 0
    """Number of messages."""
    definition: str = ""
    """Message definition including all nested types; empty if the bag has none."""
    encoding: str = "ros2msg"
    """Language of the definition."""
    qos: str = ""
    """Offered quality of service as YAML; empty for the default."""
    hash: str = ""
    """Hash of the type description (RIHS01), or empty."""
    serialization: str = "cdr"
    """Serialization format."""


def topic_of(name: str, type: str, distro: str = HUMBLE) -> Topic:
    """Return a topic with a message type of ROS 2."""
    definition, code = definition_of(type, distro)
    latched = name.endswith("/tf_static") or type in LATCHED_TYPES
    return Topic(name, type, definition=definition, hash=code, qos=LATCHED if latched else "")


def with_definition(topic: Topic) -> Topic:
    """Return the topic with its definition added if the bag has none and the type is known."""
    if topic.definition or not known_type(topic.type):
        return topic
    definition, code = definition_of(topic.type)
    return replace(topic, definition=definition, encoding="ros2msg", hash=topic.hash or code)


def write_metadata(
    folder: Path,
    file: str,
    storage: str,
    topics: list[Topic],
    span_ns: tuple[int, int] | None,
    distro: str = HUMBLE,
    sensors: Mapping[str, str] = {},
) -> None:
    """Write the metadata.yaml of a bag with one file, atomically; `sensors` are the models by topic."""
    start, last = span_ns or (0, 0)
    total = sum(topic.count for topic in topics)

    def times() -> dict[str, Any]:
        # A new object per call: YAML would write the second occurrence of one object as an alias.
        return {
            "starting_time": {"nanoseconds_since_epoch": start},
            "duration": {"nanoseconds": last - start},
            "message_count": total,
        }

    content = {
        "version": _VERSION,
        "storage_identifier": storage,
        **times(),
        "topics_with_message_count": [
            {
                "topic_metadata": {
                    "name": topic.name,
                    "type": topic.type,
                    "serialization_format": topic.serialization,
                    "offered_qos_profiles": topic.qos,
                    "type_description_hash": topic.hash,
                },
                "message_count": topic.count,
            }
            for topic in topics
        ],
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": [file],
        "files": [{"path": file, **times()}],
        "custom_data": {f"{_SENSOR_OF}{topic}": model for topic, model in sensors.items()},
        "ros_distro": distro,
    }
    text = yaml.safe_dump({"rosbag2_bagfile_information": content}, sort_keys=False)
    write_whole(folder / METADATA, text.encode("utf-8"))


def read_metadata(folder: Path) -> dict[str, Any]:
    """Read metadata.yaml; empty if there is none."""
    file = folder / METADATA
    if not file.exists():
        return {}
    try:
        content = config.read_yaml(file)
    except ConfigError as error:
        raise FormatError(f"{file}: is not the metadata of a ROS 2 bag ({error})") from None
    found = content.get("rosbag2_bagfile_information") if isinstance(content, dict) else None
    if not isinstance(found, dict):
        raise FormatError(f"{file}: is not the metadata of a ROS 2 bag")
    return found


def sensors_in(about: Mapping[str, Any]) -> dict[str, str]:
    """Models of the sensors by topic, from the metadata of a bag; rosbag2 leaves such entries as they are."""
    custom = about.get("custom_data")
    return {
        str(key).removeprefix(_SENSOR_OF): str(model)
        for key, model in (custom.items() if isinstance(custom, dict) else ())
        if str(key).startswith(_SENSOR_OF)
    }


# ---- decompression of chunks, limited to their declared size and to the budget of the file --------------------------


LARGEST_CHUNK = 256 * 1024 * 1024
"""Limit of one chunk or message [bytes]; chunks of rosbag2 are below 1 MiB, clouds have about 10 MiB."""


def unpacked(kind: str, data: bytes, size: int | None, budget: UnpackingBudget) -> bytes:
    """Decompress `data` with the compression `kind`; `size` is the declared size of the result, None if unknown.

    Raise ValueError if the data is damaged or has another size.
    """
    if kind == "":
        whole = data
    elif kind == "zstd":
        whole = _zstd(data, size, budget)
    elif kind == "lz4":
        whole = _lz4(data, size, budget)
    else:
        raise ValueError(f"the compression {kind[:20]!r} is not supported")
    if size is not None and len(whole) != size:
        raise ValueError(f"a chunk of {size} bytes has another length")
    return whole


def _zstd(data: bytes, size: int | None, budget: UnpackingBudget) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise MissingDependencyError("compressed bags need the package zstandard: pip install zstandard") from None
    try:
        claimed = zstandard.get_frame_parameters(data).content_size
        known = claimed < zstandard.CONTENTSIZE_ERROR
        if known and size is not None and claimed != size:
            raise ValueError(f"a chunk of {size} bytes claims to decompress to {claimed}")
        if known or size is not None:
            most = claimed if known else size or 0
            budget.spend(most)
            return bytes(zstandard.ZstdDecompressor().decompress(data, max_output_size=most)) if most else b""
        with zstandard.ZstdDecompressor().stream_reader(data) as stream:
            whole = bytes(stream.read(min(LARGEST_CHUNK, max(budget.left, 0)) + 1))
        budget.spend(len(whole))
        return whole
    except zstandard.ZstdError as error:
        raise ValueError(f"compressed data are damaged: {error}") from None


def _lz4(data: bytes, size: int | None, budget: UnpackingBudget) -> bytes:
    try:
        import lz4.frame  # type: ignore[import-untyped]
    except ImportError:
        raise MissingDependencyError("compressed bags need the package lz4: pip install lz4") from None
    most = LARGEST_CHUNK if size is None else size
    budget.spend(most)
    try:
        return bytes(lz4.frame.LZ4FrameDecompressor().decompress(data, max_length=most + 1))
    except RuntimeError as error:
        raise ValueError(f"compressed data are damaged: {error}") from None
