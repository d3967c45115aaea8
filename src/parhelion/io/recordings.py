"""Reader of recordings: network captures, ROS 2 bags, cloud files and folders of cloud files."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from os import PathLike
from pathlib import Path

import numpy as np

from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import ConfigError, FormatError, unknown_name
from parhelion.io.captures import frames_of, named_models, read_frames
from parhelion.io.formats import FORMATS, format_of, read_cloud
from parhelion.io.ros import BagReader, Message, Topic, cloud_of, is_bag
from parhelion.io.ros.messages import POINT_CLOUD
from parhelion.io.ros.packets import PACKET_MESSAGES, datagrams_of
from parhelion.io.ros.returns import LIVOX_MESSAGES, livox_cloud
from parhelion.makers import Datagram


def clouds_of(
    path: str | PathLike[str],
    *,
    topic: str | None = None,
    sensor: str | None = None,
    read_as: str | None = None,
    keep_lost: bool = False,
) -> Iterator[tuple[str, PointCloud]]:
    """Iterate over the clouds of a recording, each with a label for messages.

    `topic` selects the topic of a bag that has several. `sensor` is the model of packets that do not state it.
    `read_as` is the format of files with a misleading extension. With `keep_lost`, frames of packets include shots
    without a return, as NaN.
    """
    file = existing(path)
    if is_bag(file):
        bag = BagReader(file)
        name = cloud_topic(bag, topic)
        for found in clouds_of_topic(bag, name, sensor=sensor):
            if isinstance(found, FormatError):
                raise found
            yield f"{file}: {name}", found.with_lost_shots() if keep_lost and isinstance(found, Scan) else found
    elif file.is_dir():
        for one in cloud_files(file, read_as):
            yield from clouds_of(one, sensor=sensor, read_as=read_as, keep_lost=keep_lost)
    elif is_capture(file, read_as):
        for number, scan in numbered_frames(file, sensor=sensor):
            yield f"{file}: frame {number}", scan.with_lost_shots() if keep_lost else scan
    else:
        yield str(file), read_cloud(file, format=read_as)


def existing(path: str | PathLike[str]) -> Path:
    """Return the path. Raise FormatError if it does not exist."""
    file = Path(path)
    if not file.exists():
        raise FormatError(f"{file}: no such file or folder")
    return file


def is_capture(file: Path, read_as: str | None = None) -> bool:
    """Return whether a file is read as a network capture."""
    try:
        return file.is_file() and format_of(file, read_as).name == "pcap"
    except FormatError:
        return False


def numbered_frames(file: Path, index: int | None = None, sensor: str | None = None) -> Iterator[tuple[int, Scan]]:
    """Iterate over the frames of a capture with their numbers, or return frame `index` only."""
    last = -1
    for last, scan in enumerate(read_frames(file, model=sensor if sensor in named_models() else None)):
        if index in (None, last):
            yield last, scan
        if index == last:
            return
    if last < 0:
        raise FormatError(f"{file}: the capture contains no frame")
    if index is not None:
        raise FormatError(f"{file}: has the frames 0 to {last}, not {index}")


def cloud_files(
    folder: Path, read_as: str | None = None, *, nested: bool = False, without: Path | None = None
) -> list[Path]:
    """Cloud files and captures in a folder, sorted by path.

    With `nested`, subfolders are searched as well, except for the folder `without`.
    """
    kinds = FORMATS.values() if read_as is None else [format_of("", read_as)]
    # Label files belong to scans and contain no points.
    endings = tuple(end for kind in kinds if read_as or kind.name != "semantickitti" for end in kind.endings)
    found = [
        file
        for file in sorted(folder.rglob("*") if nested else folder.iterdir())
        if file.name.lower().endswith(endings)
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
        and (without is None or not file.resolve().is_relative_to(without.resolve()))
    ]
    if not found:
        raise FormatError(f"{folder}: no clouds in this folder ({', '.join(endings)})")
    return found


CLOUD_TYPES = (POINT_CLOUD, *LIVOX_MESSAGES, *PACKET_MESSAGES)
"""Message types that are read as clouds: PointCloud2, CustomMsg of Livox, and raw packets."""


def clouds_of_topic(bag: BagReader, topic: str, *, sensor: str | None = None) -> Iterator[PointCloud | FormatError]:
    """Clouds of a topic, one per message, or one per revolution of packets; errors in place of damaged messages."""
    kind = bag.topics[topic].type
    if kind in PACKET_MESSAGES:
        problems: list[FormatError] = []

        def packets() -> Iterator[Datagram]:
            for message in bag.messages([topic]):
                try:
                    yield from datagrams_of(message)
                except FormatError as error:
                    problems.append(error)

        yield from frames_of(bag.path, packets(), model=sensor if sensor in named_models() else None)
        yield from problems
        return
    convert = cloud_of if kind == POINT_CLOUD else _livox_returns
    for message in bag.messages([topic]):
        try:
            yield convert(message)
        except FormatError as error:
            yield error


def _livox_returns(message: Message) -> PointCloud:
    cloud = livox_cloud(message)
    return cloud.select(np.any(cloud.xyz != 0.0, axis=1))


def cloud_topics(bag: BagReader, topic: str | None = None, types: Collection[str] = CLOUD_TYPES) -> list[Topic]:
    """Topics with point clouds, or the one called `topic`; those with packets only if there are no others."""
    if topic is not None:
        if topic not in bag.topics:
            raise unknown_name(f"topic of {bag.path}", topic, bag.topics)
        if bag.topics[topic].type not in types:
            raise ConfigError(f"{bag.path}: {topic} has the type {bag.topics[topic].type}, not {' or '.join(types)}")
        return [bag.topics[topic]]
    ready = [one for name in types if name not in PACKET_MESSAGES for one in bag.of_type(name)]
    found = ready or [one for name in types for one in bag.of_type(name)]
    if not found:
        there = ", ".join(f"{name} ({one.type})" for name, one in bag.topics.items()) or "none"
        raise FormatError(f"{bag.path}: has no topic with point clouds; its topics: {there}")
    return found


def cloud_topic(bag: BagReader, topic: str | None = None, types: Collection[str] = CLOUD_TYPES) -> str:
    """Name of the only topic with point clouds, or `topic` itself."""
    found = [one.name for one in cloud_topics(bag, topic, types)]
    if len(found) > 1:
        names = ", ".join(found)
        raise ConfigError(f"{bag.path}: has several topics with point clouds ({names}); select one with --topic")
    return found[0]
