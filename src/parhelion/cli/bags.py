"""Bags on the command line: clouds out of bags and into them, from one storage to another, and weather on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from parhelion.cli import screen
from parhelion.cli.clouds import DEFAULT_FORMAT, make_folder, tell_drops
from parhelion.cli.failures import warn

if TYPE_CHECKING:
    from parhelion import PointCloud
    from parhelion.io.ros import BagReader, BagWriter, Topic

USUAL_TOPIC, USUAL_FRAME, USUAL_RATE_HZ = "/points", "lidar", 10.0


def is_bag(path: Path) -> bool:
    """Whether a path is that of a bag."""
    from parhelion.io.ros import is_bag

    return is_bag(path)


def is_bag_storage(format: str | None) -> bool:
    """Whether a format is one of bags."""
    from parhelion.io.ros.bag import STORAGES

    return format in STORAGES


def names_bag_file(path: Path) -> bool:
    """Whether a path that need not exist ends as the file of a bag does."""
    from parhelion.io.ros.bag import STORAGES

    return path.suffix.lower() in STORAGES.values()


def _check_apart(source: Path, target: Path) -> None:
    from parhelion.core.errors import FormatError

    if target.exists() and source.samefile(target):
        raise FormatError(f"{source}: would be replaced by what is made of it; choose another name")


def _new_bag(source: Path, target: Path, storage: str | None, force: bool, advice: str) -> BagWriter:
    from parhelion.core.errors import FormatError
    from parhelion.io.ros import BagWriter

    _check_apart(source, target)
    there = target.exists() and (target.is_file() or any(target.iterdir()))
    if there and not force:
        raise FormatError(f"{target}: is there already; {advice} replaces it")
    return BagWriter(target, None if names_bag_file(target) else storage, overwrite=force)


def _cloud_topics(bag: BagReader, topic: str | None) -> list[Topic]:
    """The topics with point clouds, or the one that was asked for."""
    from parhelion.core.errors import ConfigError, FormatError, unknown_name
    from parhelion.io.ros.messages import POINT_CLOUD

    found = bag.of_type(POINT_CLOUD)
    if topic is not None:
        if topic not in bag.topics:
            raise unknown_name(f"topic of {bag.path}", topic, bag.topics)
        if bag.topics[topic].type != POINT_CLOUD:
            raise ConfigError(f"{bag.path}: {topic} holds {bag.topics[topic].type}, not {POINT_CLOUD}")
        return [bag.topics[topic]]
    if not found:
        there = ", ".join(f"{name} ({one.type})" for name, one in bag.topics.items()) or "none"
        raise FormatError(f"{bag.path}: has no topic with point clouds; its topics: {there}")
    return found


# ---- convert -------------------------------------------------------------------------------------------------------


def bag_to_clouds(source: Path, target: Path, topic: str | None, format: str | None, *, force: bool) -> None:
    """Every cloud of a bag as a numbered file; those of several topics in folders of their own."""
    from parhelion.core.errors import FormatError
    from parhelion.io import format_of, write_noting_drops
    from parhelion.io.ros import BagReader, cloud_of

    if target.is_file():
        raise FormatError(f"{target}: is a file; the clouds of a bag need a folder")
    bag = BagReader(source)
    topics = _cloud_topics(bag, topic)
    kind = format_of(target, format or DEFAULT_FORMAT)
    folders = {one.name: target / one.name.strip("/").replace("/", "_") for one in topics}
    if len(topics) == 1:
        folders = {topics[0].name: target}
    for folder in folders.values():
        make_folder(folder)
    done, skipped = 0, 0
    numbers = dict.fromkeys(folders, 0)
    dropped: dict[str, int] = {}
    failed: dict[str, int] = {}
    with screen.progress("converting", sum(one.count for one in topics)) as advance:
        for message in bag.messages(list(folders)):
            file = folders[message.topic] / f"{numbers[message.topic]:06d}{kind.endings[0]}"
            numbers[message.topic] += 1
            if file.exists() and not force:
                skipped += 1
            else:
                try:
                    cloud = cloud_of(message)
                except FormatError as error:
                    failed[str(error)] = failed.get(str(error), 0) + 1
                    continue
                for note in write_noting_drops(cloud, file, kind.name):
                    dropped[note] = dropped.get(note, 0) + 1
                done += 1
            advance()
    tell_drops(dropped)
    note = f", skipped {skipped} that were there already (--force replaces them)" if skipped else ""
    screen.say(f"converted {done} {'cloud' if done == 1 else 'clouds'} of {', '.join(folders)} to {target}{note}")
    for reason, count in failed.items():
        warn(f"{reason} ({count} messages)" if count > 1 else reason)
    if failed:
        raise FormatError(f"{source}: {sum(failed.values())} messages could not be read, see the warnings")


def bag_to_bag(source: Path, target: Path, topic: str | None, *, storage: str | None, force: bool) -> None:
    """All messages of a bag, or those of one topic, in another storage."""
    from parhelion.core.errors import unknown_name
    from parhelion.io.ros import BagReader

    bag = BagReader(source)
    if topic is not None and topic not in bag.topics:
        raise unknown_name(f"topic of {bag.path}", topic, bag.topics)
    chosen = [one for one in bag.topics.values() if topic in (None, one.name)]
    writer = _new_bag(source, target, storage, force, "--force")
    done = 0
    with _whole(writer), screen.progress("copying", sum(one.count for one in chosen)) as advance:
        for one in chosen:
            writer.add(one)
        for message in bag.messages([one.name for one in chosen]):
            writer.write(message)
            done += 1
            advance()
    screen.say(f"copied {done} messages on {len(chosen)} topics to {target}")


def write_clouds(
    clouds: Iterator[tuple[Path | str, PointCloud]],
    source: Path,
    target: Path,
    *,
    storage: str | None,
    topic: str | None,
    frame: str | None = None,
    layout: str = "all",
    rate_hz: float = USUAL_RATE_HZ,
    force: bool,
    advice: str,
) -> int:
    """Clouds, each with its name in messages, as the messages of one topic, in order; how many there were.

    Stamps are the clouds' own times where all have one and they rise, else by a rate.
    """
    from parhelion.core.errors import ConfigError
    from parhelion.io.ros import Message
    from parhelion.io.ros.messages import POINT_CLOUD, point_cloud2
    from parhelion.makers.layouts import layouts

    known = [*layouts(), "all"]
    if layout not in known:
        raise typer.BadParameter(f"must be one of {', '.join(known)}, got {layout!r}", param_hint="--layout")
    if not (math.isfinite(rate_hz) and rate_hz > 0):
        raise typer.BadParameter(f"must be above 0, got {rate_hz:g}", param_hint="--rate")
    name = topic or USUAL_TOPIC
    if not name.startswith("/"):
        raise ConfigError(f"--topic: must begin with '/', got {name!r}")
    first = list(islice(clouds, 2))
    times = _times([cloud.metadata.get("time") for _, cloud in first])
    writer = _new_bag(source, target, storage, force, advice)
    last, number = -1, -1
    with _whole(writer):
        for number, (file, cloud) in enumerate(chain(first, clouds)):
            stamp = _stamp(cloud, number, rate_hz, times, file)
            if stamp <= last:
                raise ConfigError(f"{file}: its time {stamp / 1e9:g} s is not after that of the cloud before it")
            last = stamp
            data = point_cloud2(cloud, frame or _frame_of(cloud), stamp, layout)
            writer.write(Message(name, POINT_CLOUD, stamp, data))
    return number + 1


def _frame_of(cloud: PointCloud) -> str:
    """Frame that a cloud names; Ouster's captures have a number of that name."""
    named = cloud.metadata.get("frame_id")
    return named if isinstance(named, str) else USUAL_FRAME


def _times(found: list[Any]) -> bool:
    """Whether clouds have times of their own: judged by the first two."""
    numbers = [value for value in found if isinstance(value, (int, float)) and not isinstance(value, bool)]
    rising = len(numbers) < 2 or numbers[1] > numbers[0]
    return len(numbers) == len(found) > 0 and rising and all(math.isfinite(value) and value >= 0 for value in numbers)


def _stamp(cloud: PointCloud, number: int, rate_hz: float, times: bool, file: Path | str) -> int:
    from parhelion.core.errors import FormatError

    if not times:
        return round(number / rate_hz * 1e9)
    value = cloud.metadata.get("time")
    if not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise FormatError(f"{file}: has no time of its own, though the clouds before it have one")
    return round(value * 1e9)


class _whole:
    """A bag is finished where all goes well, and taken back where not."""

    def __init__(self, writer: BagWriter) -> None:
        self._writer = writer

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self._writer.close()
        else:
            self._writer.discard()


# ---- weather -------------------------------------------------------------------------------------------------------


def weather_bag(
    source: Path,
    target: Path,
    topic: str | None,
    weathered: Callable[[PointCloud, int, float], PointCloud],
    *,
    overwrite: bool,
) -> None:
    """A bag with weather on the clouds of one topic; all other messages are copied byte by byte.

    `weathered` gives a cloud in weather, from the cloud, its number and its time [s] after the first.
    """
    from parhelion.core.errors import ConfigError, FormatError
    from parhelion.io.ros import BagReader, cloud_of
    from parhelion.io.ros.clouds import like

    bag = BagReader(source)
    topics = _cloud_topics(bag, topic)
    if len(topics) > 1:
        names = ", ".join(one.name for one in topics)
        raise ConfigError(f"{source}: has several topics with point clouds ({names}); choose one with --topic")
    chosen = topics[0].name
    storage = "sqlite3" if source.suffix == ".db3" or (source.is_dir() and any(source.glob("*.db3"))) else "mcap"
    writer = _new_bag(source, target, storage, overwrite, "--overwrite")
    number, first = 0, math.nan
    with _whole(writer), screen.progress("weathering", bag.count) as advance:
        for one in bag.topics.values():
            writer.add(one)
        for message in bag.messages():
            if message.topic == chosen:
                try:
                    cloud = cloud_of(message, keep_missing=True)
                    time = float(cloud.metadata["time"])
                    first = time if math.isnan(first) else first
                    wet = weathered(cloud, number, time - first)
                    message = message._replace(data=like(message, wet))
                except (ConfigError, FormatError) as error:
                    words = str(error).removeprefix(f"{chosen}: ")
                    raise type(error)(f"{source}: {chosen}: {words}") from None
                number += 1
            writer.write(message)
            advance()
