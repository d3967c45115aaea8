"""What a bag says of its topics, and the file metadata.yaml that lies beside the messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from parhelion.core import config
from parhelion.core.errors import ConfigError, FormatError, MissingDependencyError
from parhelion.core.files import write_whole
from parhelion.core.reading import UnpackingBudget
from parhelion.io.ros.types import definition_of, known_type

METADATA = "metadata.yaml"
_VERSION = 8  # of metadata.yaml; newer distributions read it, older ones skip what they do not know

# Durations of "for ever" and enumerations as rosbag2 writes them up to version 8: keep all, reliable, transient local.
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
"""Quality of service of topics whose last message later listeners get, too: /tf_static."""


class BagWarning(UserWarning):
    """A bag is damaged at its end; what came before can be read."""


@dataclass(frozen=True)
class Topic:
    """One topic of a bag."""

    name: str
    type: str
    """As in 'sensor_msgs/msg/PointCloud2'."""
    count: int = 0
    """Number of messages."""
    definition: str = ""
    """Text of the message's definition with all types in it; empty where the bag has none."""
    encoding: str = "ros2msg"
    """Language of the definition."""
    qos: str = ""
    """Offered quality of service, YAML; empty for the default."""
    hash: str = ""
    """Of the type's description (RIHS01), or empty."""
    serialization: str = "cdr"


def topic_of(name: str, type: str) -> Topic:
    """A topic of a type that ROS 2 itself has."""
    definition, code = definition_of(type)
    return Topic(name, type, definition=definition, hash=code, qos=LATCHED if name.endswith("/tf_static") else "")


def with_definition(topic: Topic) -> Topic:
    """The topic with a definition, where the bag had none and the type is one of ROS 2's own."""
    if topic.definition or not known_type(topic.type):
        return topic
    definition, code = definition_of(topic.type)
    return replace(topic, definition=definition, encoding="ros2msg", hash=topic.hash or code)


def write_metadata(folder: Path, file: str, storage: str, topics: list[Topic], span_ns: tuple[int, int] | None) -> None:
    """Write metadata.yaml of a bag of one file, whole."""
    start, last = span_ns or (0, 0)
    total = sum(topic.count for topic in topics)

    def times() -> dict[str, Any]:
        # Made anew each time: YAML would write the same object twice as a reference.
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
        "custom_data": {},
        "ros_distro": "humble",
    }
    text = yaml.safe_dump({"rosbag2_bagfile_information": content}, sort_keys=False)
    write_whole(folder / METADATA, text.encode("utf-8"))


def read_metadata(folder: Path) -> dict[str, Any]:
    """What metadata.yaml says; empty where there is none."""
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


# ---- Unpacking pieces of bags: no more than they say, and no more than a file of that size may become ---------------


LARGEST_PIECE = 256 * 1024 * 1024
"""Bytes of one chunk or message; rosbag2 makes chunks of less than 1 MiB, and clouds have some 10 MiB."""


def unpacked(kind: str, data: bytes, size: int | None, budget: UnpackingBudget) -> bytes:
    """What `data` stands for by the compression `kind`; `size` is how much that should be, None where it is not known.

    Raises ValueError where it is something else.
    """
    if kind == "":
        whole = data
    elif kind == "zstd":
        whole = _zstd(data, size, budget)
    elif kind == "lz4":
        whole = _lz4(data, size, budget)
    else:
        raise ValueError(f"the compression {kind[:20]!r} is not known")
    if size is not None and len(whole) != size:
        raise ValueError(f"a chunk of {size} bytes has another length")
    return whole


def _zstd(data: bytes, size: int | None, budget: UnpackingBudget) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise MissingDependencyError("packed bags need the package zstandard: run 'pip install zstandard'") from None
    try:
        claimed = zstandard.get_frame_parameters(data).content_size
        known = claimed < zstandard.CONTENTSIZE_ERROR
        if known and size is not None and claimed != size:
            raise ValueError(f"a chunk of {size} bytes claims {claimed} when it is unpacked")
        if known or size is not None:
            most = claimed if known else size or 0
            budget.spend(most)
            return bytes(zstandard.ZstdDecompressor().decompress(data, max_output_size=most)) if most else b""
        with zstandard.ZstdDecompressor().stream_reader(data) as stream:
            whole = bytes(stream.read(min(LARGEST_PIECE, max(budget.left, 0)) + 1))
        budget.spend(len(whole))
        return whole
    except zstandard.ZstdError as error:
        raise ValueError(f"packed data are damaged: {error}") from None


def _lz4(data: bytes, size: int | None, budget: UnpackingBudget) -> bytes:
    try:
        import lz4.frame  # type: ignore[import-untyped]
    except ImportError:
        raise MissingDependencyError("packed bags need the package lz4: run 'pip install lz4'") from None
    most = LARGEST_PIECE if size is None else size
    budget.spend(most)
    try:
        return bytes(lz4.frame.LZ4FrameDecompressor().decompress(data, max_length=most + 1))
    except RuntimeError as error:
        raise ValueError(f"packed data are damaged: {error}") from None
