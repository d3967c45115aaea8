"""Captures of real sensors' packets on the command line: sequences of turns, each by itself."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import screen
from parhelion.cli.screen import warn
from parhelion.core.errors import ConfigError, FormatError, unknown_name

if TYPE_CHECKING:
    from parhelion import Scan
    from parhelion.core.clouds import PointCloud
    from parhelion.io.ros import BagWriter

# ---- Where a command's clouds go: one file, or a folder of numbered files -------------------------------------------


DEFAULT_FORMAT = "pcd"


@dataclass
class CloudFiles:
    """Checked before any work is done, so that a long run does not end at a wrong name."""

    path: Path
    """The file, or the folder."""
    format: str
    numbered: bool
    """Whether `path` is a folder of files 000000, 000001 ..."""
    written: list[Path] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    """What formats could not hold, and in how many files."""

    @classmethod
    def at(cls, path: Path, format: str | None, *, several: bool) -> CloudFiles:
        """A file where the name has a cloud's ending, else a folder, which is made where it is missing."""
        from parhelion.io import format_of

        try:
            kind = format_of(path, None)
        except FormatError:
            kind = None
        is_file = kind is not None and not path.is_dir()
        if is_file and several:
            raise typer.BadParameter(f"{path} is one file; several scans need a folder", param_hint="-o")
        if kind is None and not several and format is None and path.suffix and not path.is_dir():
            format_of(path, None)  # an unknown ending is more likely a slip than a folder's name
        if is_file:
            assert kind is not None
            chosen = format_of(path, format).name
            check_file(path)
        else:
            chosen = format_of(path, format or DEFAULT_FORMAT).name
            make_folder(path)
        return cls(path, chosen, numbered=not is_file)

    def file(self, number: int) -> Path:
        """Name of a numbered cloud, or the one file."""
        from parhelion.io import FORMATS

        return self.path / f"{number:06d}{FORMATS[self.format].endings[0]}" if self.numbered else self.path

    def write(self, cloud: PointCloud, number: int = 0) -> None:
        """Write one cloud, whole or not at all."""
        file = self.file(number)
        from parhelion.io import write_noting_drops

        self.dropped.update(write_noting_drops(cloud, file, self.format))
        self.written.append(file)

    def finish(self) -> None:
        """One warning for each kind of loss, and one for older files among the new ones."""
        warn_dropped_fields(self.dropped)
        if self.numbered:
            warn_leftovers(self.path, self.written, self.file(0).suffix)


def warn_dropped_fields(dropped: dict[str, int]) -> None:
    """One line for each kind of loss."""
    for note, files in dropped.items():
        warn(f"{note} ({files} files)" if files > 1 else note)


def warn_leftovers(folder: Path, written: list[Path], suffix: str) -> None:
    """One line where a folder holds further files of this ending than those that were written."""
    mine = {file.name for file in written}
    older = [file for file in folder.glob(f"*{suffix}") if file.name not in mine]
    if older:
        warn(f"{folder}: {len(older)} older files are there too, such as {older[0].name}")


def make_folder(path: Path) -> None:
    """Make a folder, with those above it, and see that files can be written into it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FormatError(f"{path}: is a file, not a folder") from None
    except OSError as error:
        raise FormatError(f"{path}: the folder cannot be made ({error.strerror})") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise FormatError(f"{path}: the folder cannot be written to")


def check_file(*paths: Path | None, picture: Path | None = None) -> None:
    """See that files of these names can be written; a picture must have the ending of one. None is left out."""
    if picture is not None:
        from parhelion.pictures.style import check_picture

        paths = (*paths, check_picture(picture))
    for path in filter(None, paths):
        folder = path.absolute().parent
        if not folder.is_dir():
            raise FormatError(f"{path}: the folder {folder} does not exist")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise FormatError(f"{path}: the folder {folder} cannot be written to")


def stem(file: Path) -> str:
    """The name without its ending; nuScenes' `.pcd.bin` is one ending."""
    name = file.name
    return name[: -len(".pcd.bin")] if name.lower().endswith(".pcd.bin") else file.stem


def check_not_itself(source: Path, target: Path) -> None:
    """See that a file is not to be replaced by what is made of it."""
    if target.exists() and source.samefile(target):
        raise FormatError(f"{source}: would be replaced by what is made of it; choose another name")


@dataclass(frozen=True)
class Job:
    """One cloud file or capture of a command, and the file or folder that it becomes."""

    number: int
    """Place among all clouds of the folder, whether or not others are done already."""
    source: Path
    target: Path
    format: str
    is_capture: bool = False
    """Whether it holds turns, for which the target is a folder."""


def file_job(source: Path, target: Path, format: str | None, default: str | None) -> Job:
    """One file; where OUT is a folder, the file keeps its stem there."""
    from parhelion.io import format_of

    if target.is_dir():
        kind = format_of(source, format or default)
        target = target / f"{stem(source)}{kind.endings[0]}"
    else:
        kind = format_of(target, format)
        check_file(target)
    check_not_itself(source, target)
    return Job(0, source, target, kind.name)


def folder_jobs(source: Path, target: Path, read_as: str | None, format: str | None, *, nested: bool) -> list[Job]:
    """Every cloud file and capture of a folder, in order of path; each keeps its format where none is named."""
    from parhelion.io import format_of
    from parhelion.io.recordings import cloud_files, is_capture

    # What an earlier run wrote into a folder below IN is no input.
    found = cloud_files(source, read_as, nested=nested, without=target if nested else None)
    make_folder(target)
    jobs: dict[Path, Job] = {}
    for number, file in enumerate(found):
        kind = format_of(file, format or read_as)
        capture = is_capture(file, read_as)
        new = target / file.parent.relative_to(source) / f"{stem(file)}{'' if capture else kind.endings[0]}"
        if new in jobs:
            raise FormatError(f"{source}: several files would become {new}; do them one by one")
        check_not_itself(file, new)
        jobs[new] = Job(number, file, new, kind.name, capture)
    return list(jobs.values())


# ---- bags -----------------------------------------------------------------------------------------------------------
# Bags on the command line: clouds out of bags and into them, from one storage to another, and weather on them.


DEFAULT_TOPIC, DEFAULT_FRAME, DEFAULT_RATE_HZ = "/points", "lidar", 10.0


def is_bag_storage(format: str | None) -> bool:
    """Whether a format is one of bags."""
    from parhelion.io.ros.bag import STORAGES

    return format in STORAGES


def names_bag_file(path: Path) -> bool:
    """Whether a path that need not exist ends as the file of a bag does."""
    from parhelion.io.ros.bag import STORAGES

    return path.suffix.lower() in STORAGES.values()


# ---- convert -------------------------------------------------------------------------------------------------------


def bag_to_clouds(source: Path, target: Path, writing: Writing) -> None:
    """Every cloud of a bag as a numbered file; those of several topics in folders of their own."""
    from parhelion.io import format_of, write_noting_drops
    from parhelion.io.recordings import cloud_topics
    from parhelion.io.ros import BagReader, cloud_of

    if target.is_file():
        raise FormatError(f"{target}: is a file; the clouds of a bag need a folder")
    bag = BagReader(source)
    topics = cloud_topics(bag, writing.topic)
    kind = format_of(target, writing.format or DEFAULT_FORMAT)
    folders = {one.name: target / one.name.strip("/").replace("/", "_") for one in topics}
    if len(topics) == 1:
        folders = {topics[0].name: target}
    for folder in folders.values():
        make_folder(folder)
    done, skipped = 0, 0
    numbers = dict.fromkeys(folders, 0)
    dropped: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    with screen.progress("converting", sum(one.count for one in topics)) as advance:
        for message in bag.messages(list(folders)):
            file = folders[message.topic] / f"{numbers[message.topic]:06d}{kind.endings[0]}"
            numbers[message.topic] += 1
            if file.exists() and not writing.force:
                skipped += 1
            else:
                try:
                    cloud = cloud_of(message)
                except FormatError as error:
                    failed[str(error)] += 1
                    continue
                dropped.update(write_noting_drops(cloud, file, kind.name))
                done += 1
            advance()
    warn_dropped_fields(dropped)
    clouds = "cloud" if done == 1 else "clouds"
    screen.say(f"converted {done} {clouds} of {', '.join(folders)} to {target}{writing.skipped(skipped)}")
    for reason, count in failed.items():
        warn(f"{reason} ({count} messages)" if count > 1 else reason)
    if failed:
        raise FormatError(f"{source}: {sum(failed.values())} messages could not be read, see the warnings")


def bag_to_bag(source: Path, target: Path, writing: Writing) -> None:
    """All messages of a bag, or those of one topic, in another storage."""
    from parhelion.io.ros import BagReader

    bag, topic = BagReader(source), writing.topic
    if topic is not None and topic not in bag.topics:
        raise unknown_name(f"topic of {bag.path}", topic, bag.topics)
    chosen = [one for one in bag.topics.values() if topic in (None, one.name)]
    writer = writing.new_bag(source, target)
    done = 0
    with _whole(writer), screen.progress("copying", sum(one.count for one in chosen)) as advance:
        for one in chosen:
            writer.add(one)
        for message in bag.messages([one.name for one in chosen]):
            writer.write(message)
            done += 1
            advance()
    screen.say(f"copied {done} messages on {len(chosen)} topics to {target}")


@dataclass(frozen=True)
class Writing:
    """How a command writes: its options on OUT, and its words."""

    verb: str
    """Stands beside the progress bar."""
    replacing: str
    """The option that replaces files."""
    force: bool = False
    """Whether that option was given."""
    format: str | None = None
    topic: str | None = None
    frame: str | None = None
    layout: str = "all"
    rate_hz: float = DEFAULT_RATE_HZ
    """Clouds a second in a new bag, where they have no times of their own."""

    def refuse_existing(self, target: Path) -> None:
        """Raise where a file is there and may not be replaced."""
        if target.exists() and not self.force:
            raise FormatError(f"{target}: is there already; {self.replacing} replaces it")

    def new_bag(self, source: Path, target: Path, storage: str | None = None) -> BagWriter:
        """A bag at `target`, in a storage where the name does not choose one."""
        from parhelion.io.ros import BagWriter

        check_not_itself(source, target)
        if target.is_file() or (target.is_dir() and any(target.iterdir())):
            self.refuse_existing(target)
        chosen = self.format if is_bag_storage(self.format) else storage
        return BagWriter(target, None if names_bag_file(target) else chosen, overwrite=self.force)

    def skipped(self, count: int) -> str:
        """The end of a sentence on files that were not replaced."""
        return f", skipped {count} that were there already ({self.replacing} replaces them)" if count else ""


def write_clouds(clouds: Iterator[tuple[str, PointCloud]], source: Path, target: Path, writing: Writing) -> int:
    """Clouds, each with its name in messages, as the messages of one topic, in order; how many there were.

    Stamps are the clouds' own times where all have one and they rise, else by a rate.
    """
    from parhelion.io.ros import Message
    from parhelion.io.ros.messages import POINT_CLOUD, point_cloud2
    from parhelion.makers.layouts import layouts

    layout, rate_hz = writing.layout, writing.rate_hz
    known = [*layouts(), "all"]
    if layout not in known:
        raise typer.BadParameter(f"must be one of {', '.join(known)}, got {layout!r}", param_hint="--layout")
    if not (math.isfinite(rate_hz) and rate_hz > 0):
        raise typer.BadParameter(f"must be above 0, got {rate_hz:g}", param_hint="--rate")
    name = writing.topic or DEFAULT_TOPIC
    if not name.startswith("/"):
        raise ConfigError(f"--topic: must begin with '/', got {name!r}")
    first = list(islice(clouds, 2))
    times = _times([cloud.metadata.get("time") for _, cloud in first])
    writer = writing.new_bag(source, target)
    last, number = -1, -1
    with _whole(writer):
        for number, (file, cloud) in enumerate(chain(first, clouds)):
            stamp = _stamp(cloud, number, rate_hz, times, file)
            if stamp <= last:
                raise ConfigError(f"{file}: its time {stamp / 1e9:g} s is not after that of the cloud before it")
            last = stamp
            data = point_cloud2(cloud, writing.frame or _frame_of(cloud), stamp, layout)
            writer.write(Message(name, POINT_CLOUD, stamp, data))
    return number + 1


def _frame_of(cloud: PointCloud) -> str:
    """Frame that a cloud names; Ouster's captures have a number of that name."""
    named = cloud.metadata.get("frame_id")
    return named if isinstance(named, str) else DEFAULT_FRAME


def _times(found: list[Any]) -> bool:
    """Whether clouds have times of their own: judged by the first two."""
    numbers = [value for value in found if isinstance(value, (int, float)) and not isinstance(value, bool)]
    rising = len(numbers) < 2 or numbers[1] > numbers[0]
    return len(numbers) == len(found) > 0 and rising and all(math.isfinite(value) and value >= 0 for value in numbers)


def _stamp(cloud: PointCloud, number: int, rate_hz: float, times: bool, file: str) -> int:
    if not times:
        return round(number / rate_hz * 1e9)
    value = cloud.metadata.get("time")
    if not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise FormatError(f"{file}: has no time of its own, though the clouds before it have one")
    return round(value * 1e9)


@contextmanager
def _whole(writer: BagWriter) -> Iterator[None]:
    """A bag is finished where all goes well, and taken back where not."""
    try:
        yield
    except BaseException:
        writer.discard()
        raise
    writer.close()


# ---- weather -------------------------------------------------------------------------------------------------------


def weather_bag(
    source: Path, target: Path, weathered: Callable[[PointCloud, int, float], PointCloud], writing: Writing
) -> None:
    """A bag with weather on the clouds of one topic; all other messages are copied byte by byte.

    `weathered` gives a cloud in weather, from the cloud, its number and its time [s] after the first.
    """
    from parhelion.io.recordings import cloud_topic
    from parhelion.io.ros import BagReader, cloud_of
    from parhelion.io.ros.clouds import like

    bag = BagReader(source)
    chosen = cloud_topic(bag, writing.topic)
    storage = "sqlite3" if source.suffix == ".db3" or (source.is_dir() and any(source.glob("*.db3"))) else "mcap"
    writer = writing.new_bag(source, target, storage)
    number, first = 0, math.nan
    with _whole(writer), screen.progress(writing.verb, bag.count) as advance:
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


# ---- recordings -----------------------------------------------------------------------------------------------------


Work = Callable[["Scan", int, float], "PointCloud"]
"""Gives the cloud to write, from a turn, its number and its time [s] after the first."""

IndexOption = Annotated[
    int | None, typer.Option("--turn", min=0, metavar="N", help="One turn of a capture (.pcap), from 0; else all.")
]


class Form(Enum):
    """What the turns of a capture become."""

    FILE = "one file"
    FOLDER = "a folder of numbered files"
    BAG = "a bag"
    CAPTURE = "a capture"


def form_of(target: Path, format: str | None) -> Form:
    """What OUT is: a bag or a cloud file by its ending, else a folder."""
    from parhelion.io import format_of

    if is_bag_storage(format) or names_bag_file(target):
        return Form.BAG
    if target.is_dir():
        return Form.FOLDER
    try:
        kind = format_of(target)
    except FormatError:
        # `.pdc` is more likely a slip than a folder's name; `drive_v2.3` is a folder.
        if format is None and re.fullmatch(r"\.[A-Za-z]\w{0,4}", target.suffix):
            raise
        return Form.FOLDER
    return Form.CAPTURE if kind.name == "pcap" else Form.FILE


def _only_turn(file: Path, turns: Iterator[tuple[int, Scan]], target: Path) -> Iterator[tuple[int, Scan]]:
    """The turn of a capture that holds one; one file cannot hold several."""
    first = list(islice(turns, 2))
    if len(first) > 1:
        folder = target.with_suffix("")
        raise FormatError(
            f"{file}: holds more than one turn, and {target} is one file; give a folder for all turns ({folder}/), "
            f"a bag ({folder.name}.mcap), or choose one with --turn 0"
        )
    yield from first


@dataclass
class Done:
    """What came of a capture."""

    turns: int = 0
    skipped: int = 0
    """Turns whose file was there already."""
    dropped: Counter[str] = field(default_factory=Counter)
    """What the format could not hold, and in how many files."""
    gaps: int = 0
    """Columns of packets that were lost on the way."""

    def report_gaps(self, source: Path) -> None:
        """One line where packets are missing."""
        if self.gaps:
            screen.say(f"note: {source}: packets were lost, {screen.count(self.gaps)} columns within turns are missing")


def convert_frames(
    source: Path,
    target: Path,
    work: Work,
    writing: Writing,
    *,
    turn: int | None = None,
    sensor: str | None = None,
    form: Form | None = None,
) -> Done:
    """Every turn of a capture, worked on and written: to a folder, a bag, another capture, or one turn to a file."""
    from parhelion.io import format_of, write_noting_drops
    from parhelion.io.recordings import numbered_frames

    done = Done()
    form = form_of(target, writing.format) if form is None else form
    check_not_itself(source, target)
    turns = numbered_frames(source, turn, sensor)
    if form is Form.FILE and turn is None:
        turns = _only_turn(source, turns, target)
    with screen.progress(writing.verb, None) as advance:
        worked = _worked(source, turns, work, done, advance)
        if form is Form.BAG:
            named = ((f"{source}: turn {number}", cloud) for number, cloud in worked)
            write_clouds(named, source, target, writing)
        elif form is Form.CAPTURE:
            writing.refuse_existing(target)
            _to_capture(source, target, worked)
        elif form is Form.FILE:
            writing.refuse_existing(target)
            check_file(target)
            kind = format_of(target, writing.format)
            for _, cloud in worked:
                done.dropped.update(write_noting_drops(cloud, target, kind.name))
        else:
            _to_folder(target, source, turns, work, done, writing, advance)
    return done


def _worked(
    source: Path, turns: Iterator[tuple[int, Scan]], work: Work, done: Done, advance: Callable[[], None]
) -> Iterator[tuple[int, PointCloud]]:
    first: float | None = None
    for number, scan in turns:
        first = scan.start_time if first is None else first
        try:
            cloud = work(scan, number, scan.start_time - first)
        except (ConfigError, FormatError) as error:
            raise type(error)(f"{source}: turn {number}: {error}") from None
        done.turns += 1
        done.gaps += int(scan.metadata.get("missing_columns", 0))
        yield number, cloud
        advance()


def _to_folder(
    target: Path,
    source: Path,
    turns: Iterator[tuple[int, Scan]],
    work: Work,
    done: Done,
    writing: Writing,
    advance: Callable[[], None],
) -> None:
    """Numbered files; those that are there are not worked on again."""
    from parhelion.io import format_of, write_noting_drops

    kind = format_of(target, writing.format or DEFAULT_FORMAT)
    # Before the folder is made: a capture that cannot be read leaves no empty one.
    turns = chain(list(islice(turns, 1)), turns)
    make_folder(target)

    def waiting() -> Iterator[tuple[int, Scan]]:
        for number, scan in turns:
            if (target / f"{number:06d}{kind.endings[0]}").exists() and not writing.force:
                done.skipped += 1
            else:
                yield number, scan

    for number, cloud in _worked(source, waiting(), work, done, advance):
        done.dropped.update(write_noting_drops(cloud, target / f"{number:06d}{kind.endings[0]}", kind.name))


def _to_capture(source: Path, target: Path, clouds: Iterator[tuple[int, PointCloud]]) -> None:
    """Turns as packets again, in one capture."""
    from parhelion.core.clouds import Scan
    from parhelion.io.captures import codec_called, write_metadata_beside
    from parhelion.io.pcap import PcapWriter

    check_file(target)
    stream: Any = None
    writer: AbstractContextManager[PcapWriter] = PcapWriter(target)
    with writer as capture:
        for number, cloud in clouds:
            if not isinstance(cloud, Scan):
                raise FormatError(f"{target}: a capture holds every pulse already; leave --keep-lost out")
            sensor = str(cloud.metadata["sensor"])
            try:
                if stream is None:
                    codec = codec_called(sensor)
                    beside = codec.metadata_beside(source)
                    stream = codec.stream(sensor, metadata=None if beside is None else codec.read_metadata(beside))
                for datagram in stream.add(cloud):
                    capture.write(*datagram)
            except ConfigError as error:
                raise FormatError(
                    f"{source}: turn {number} cannot be written as packets again ({error}); give a folder or a bag"
                ) from None
        for datagram in stream.finish() if stream is not None else ():
            capture.write(*datagram)
        write_metadata_beside(None if stream is None else stream.metadata, target)
