"""One reader of recordings: captures of packets, ROS 2 bags, cloud files and folders of cloud files."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import ConfigError, FormatError, unknown_name
from parhelion.io.captures import named_models, read_frames
from parhelion.io.formats import FORMATS, format_of, read_cloud
from parhelion.io.ros import BagReader, Topic, cloud_of, is_bag
from parhelion.io.ros.messages import POINT_CLOUD


def clouds_of(
    path: str | PathLike[str],
    *,
    topic: str | None = None,
    sensor: str | None = None,
    read_as: str | None = None,
    keep_lost: bool = False,
) -> Iterator[tuple[str, PointCloud]]:
    """The clouds of a recording in order, each with a label for messages.

    `topic` chooses the clouds of a bag with several topics, `sensor` is the model of a capture whose packets do not
    state it, `read_as` the format of files whose ending misleads. With `keep_lost`, revolutions of captures have their
    shots without a return too, as NaN.
    """
    file = existing(path)
    if is_bag(file):
        bag = BagReader(file)
        for message in bag.messages([cloud_topic(bag, topic)]):
            yield f"{file}: {message.topic}", cloud_of(message)
    elif file.is_dir():
        for one in cloud_files(file, read_as):
            yield from clouds_of(one, sensor=sensor, read_as=read_as, keep_lost=keep_lost)
    elif is_capture(file, read_as):
        for number, scan in numbered_frames(file, sensor=sensor):
            yield f"{file}: turn {number}", scan.with_lost_shots() if keep_lost else scan
    else:
        yield str(file), read_cloud(file, format=read_as)


def existing(path: str | PathLike[str]) -> Path:
    """The path, which must be there."""
    file = Path(path)
    if not file.exists():
        raise FormatError(f"{file}: no such file or folder")
    return file


def is_capture(file: Path, read_as: str | None = None) -> bool:
    """Whether a file is to be read as a capture of packets."""
    try:
        return file.is_file() and format_of(file, read_as).name == "pcap"
    except FormatError:
        return False


def numbered_frames(file: Path, turn: int | None = None, sensor: str | None = None) -> Iterator[tuple[int, Scan]]:
    """The revolutions of a capture with their numbers, or revolution `turn` alone."""
    last = -1
    for last, scan in enumerate(read_frames(file, model=sensor if sensor in named_models() else None)):
        if turn in (None, last):
            yield last, scan
        if turn == last:
            return
    if last < 0:
        raise FormatError(f"{file}: the capture holds no turn")
    if turn is not None:
        raise FormatError(f"{file}: has the turns 0 to {last}, not {turn}")


def cloud_files(
    folder: Path, read_as: str | None = None, *, nested: bool = False, without: Path | None = None
) -> list[Path]:
    """The cloud files and captures in a folder, in order of path.

    With `nested`, those in the folders below it as well, except for the folder `without`.
    """
    kinds = FORMATS.values() if read_as is None else [format_of("", read_as)]
    # Label files belong to scans and hold no points of their own.
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


def cloud_topics(bag: BagReader, topic: str | None = None) -> list[Topic]:
    """The topics with point clouds, or the one of that name."""
    if topic is not None:
        if topic not in bag.topics:
            raise unknown_name(f"topic of {bag.path}", topic, bag.topics)
        if bag.topics[topic].type != POINT_CLOUD:
            raise ConfigError(f"{bag.path}: {topic} holds {bag.topics[topic].type}, not {POINT_CLOUD}")
        return [bag.topics[topic]]
    found = bag.of_type(POINT_CLOUD)
    if not found:
        there = ", ".join(f"{name} ({one.type})" for name, one in bag.topics.items()) or "none"
        raise FormatError(f"{bag.path}: has no topic with point clouds; its topics: {there}")
    return found


def cloud_topic(bag: BagReader, topic: str | None = None) -> str:
    """The only topic with point clouds, or the one of that name."""
    found = [one.name for one in cloud_topics(bag, topic)]
    if len(found) > 1:
        names = ", ".join(found)
        raise ConfigError(f"{bag.path}: has several topics with point clouds ({names}); choose one with --topic")
    return found[0]
