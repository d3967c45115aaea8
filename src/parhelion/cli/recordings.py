"""Files, folders, bags and packet captures as inputs and outputs of commands."""

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
    from parhelion import Pose, Scan
    from parhelion.core.clouds import PointCloud
    from parhelion.io.ros import BagWriter

# ---- output of a command: one file, or a folder of numbered files ---------------------------------------------------


DEFAULT_FORMAT = "pcd"


@dataclass
class CloudFiles:
    """Output of clouds; checked before any work, so that a long run does not fail at a wrong name."""

    path: Path
    """File or folder."""
    format: str
    numbered: bool
    """True if `path` is a folder of files 000000, 000001 ..."""
    written: list[Path] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    """Fields that a format could not hold, with the number of files."""

    @classmethod
    def at(cls, path: Path, format: str | None, *, several: bool) -> CloudFiles:
        """Return a file if the name has the extension of a cloud, otherwise a folder, which is created if missing."""
        from parhelion.io import format_of

        try:
            kind = format_of(path, None)
        except FormatError:
            kind = None
        is_file = kind is not None and not path.is_dir()
        if is_file and several:
            raise typer.BadParameter(f"{path} is one file; several scans need a folder", param_hint="-o")
        if kind is None and not several and format is None and path.suffix and not path.is_dir():
            format_of(path, None)  # an unknown extension is more likely a typing error than a folder name
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

        folder = self.path / "labels" if self.format == "semantickitti" else self.path
        return folder / f"{number:06d}{FORMATS[self.format].endings[0]}" if self.numbered else self.path

    def write(self, cloud: PointCloud, number: int = 0) -> None:
        """Write one cloud, completely or not at all; labels of SemanticKITTI together with their points."""
        notes, files = write_cloud_files(cloud, self.file(number), self.format)
        self.dropped.update(notes)
        self.written += files

    def finish(self) -> None:
        """Warn once per kind of loss, and once about older files among the new ones."""
        warn_dropped_fields(self.dropped)
        if self.numbered:
            warn_leftovers(self.file(0).parent, self.written, self.file(0).suffix)


def write_cloud_files(cloud: PointCloud, file: Path, format: str) -> tuple[list[str], list[Path]]:
    """Write a cloud; return notes on skipped fields, and the files.

    Labels of SemanticKITTI are written with their points: in `../velodyne` for a folder `labels`, as in that data set,
    otherwise in the same folder.
    """
    from parhelion.io import write_noting_drops

    if format != "semantickitti":
        return write_noting_drops(cloud, file, format), [file]
    points = file.with_suffix(".bin")
    if file.parent.name == "labels":
        points = file.parent.parent / "velodyne" / points.name
    for place in {points.parent, file.parent}:
        make_folder(place)
    return write_noting_drops(cloud, points, "kitti", labels=file), [points, file]


def warn_dropped_fields(dropped: dict[str, int]) -> None:
    """Warn once per kind of loss."""
    for note, files in dropped.items():
        warn(f"{note} ({files} files)" if files > 1 else note)


def warn_leftovers(folder: Path, written: list[Path], suffix: str) -> None:
    """Warn if a folder holds more files with this extension than were written."""
    mine = {file.name for file in written}
    older = [file for file in folder.glob(f"*{suffix}") if file.name not in mine]
    if older:
        warn(f"{folder}: {len(older)} older files remain in the folder, such as {older[0].name}")


def make_folder(path: Path) -> None:
    """Create a folder with its parents, and check that it is writable."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FormatError(f"{path}: is a file, not a folder") from None
    except OSError as error:
        raise FormatError(f"{path}: the folder cannot be created ({error.strerror})") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise FormatError(f"{path}: the folder cannot be written to")


def check_file(*paths: Path | None, picture: Path | None = None) -> None:
    """Check that these files can be written; pictures need the extension of an image. None is skipped."""
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
    """File name without its extension; nuScenes' `.pcd.bin` is one extension."""
    name = file.name
    return name[: -len(".pcd.bin")] if name.lower().endswith(".pcd.bin") else file.stem


def check_not_itself(source: Path, target: Path) -> None:
    """Raise if the output would replace the input."""
    if target.exists() and source.samefile(target):
        raise FormatError(f"{source}: the output would replace the input; choose another name")


@dataclass(frozen=True)
class Job:
    """One input file or capture of a command, with its output."""

    number: int
    """Index among all clouds of the folder, including finished ones."""
    source: Path
    target: Path
    format: str
    is_capture: bool = False
    """True for a capture; its target is a folder of frames."""


def file_job(source: Path, target: Path, format: str | None, default: str | None) -> Job:
    """Job of one file; in a folder OUT, the file keeps its stem."""
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
    """Jobs of all cloud files and captures of a folder, sorted by path; each keeps its format unless one is given."""
    from parhelion.io import format_of
    from parhelion.io.recordings import cloud_files, is_capture

    # Output of an earlier run in a folder below IN is not an input.
    found = cloud_files(source, read_as, nested=nested, without=target if nested else None)
    make_folder(target)
    jobs: dict[Path, Job] = {}
    for number, file in enumerate(found):
        kind = format_of(file, format or read_as)
        capture = is_capture(file, read_as)
        new = target / file.parent.relative_to(source) / f"{stem(file)}{'' if capture else kind.endings[0]}"
        if new in jobs:
            raise FormatError(f"{source}: several files would become {new}; convert them one by one")
        check_not_itself(file, new)
        jobs[new] = Job(number, file, new, kind.name, capture)
    return list(jobs.values())


# ---- bags -----------------------------------------------------------------------------------------------------------
# Read clouds from bags, write them to bags, change the storage, and apply weather.


DEFAULT_TOPIC, DEFAULT_FRAME, DEFAULT_RATE_HZ = "/points", "lidar", 10.0


def is_bag_storage(format: str | None) -> bool:
    """Return True if a format is a bag storage."""
    from parhelion.io.ros.bag import STORAGES

    return format in STORAGES


def names_bag_file(path: Path) -> bool:
    """Return True if a path, which need not exist, has the extension of a bag file."""
    from parhelion.io.ros.bag import STORAGES

    return path.suffix.lower() in STORAGES.values()


# ---- convert -------------------------------------------------------------------------------------------------------


def bag_to_clouds(source: Path, target: Path, writing: Writing) -> None:
    """Write every cloud of a bag as a numbered file; several topics get one folder each."""
    from parhelion.io import format_of
    from parhelion.io.recordings import cloud_topics, clouds_of_topic
    from parhelion.io.ros import BagReader

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
    dropped: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    with screen.progress("converting", sum(one.count for one in topics)) as advance:
        for topic, folder in folders.items():
            for number, found in enumerate(clouds_of_topic(bag, topic, sensor=writing.sensor)):
                file = folder / f"{number:06d}{kind.endings[0]}"
                if file.exists() and not writing.force:
                    skipped += 1
                elif isinstance(found, FormatError):
                    failed[str(found)] += 1
                    continue
                else:
                    dropped.update(write_cloud_files(found, file, kind.name)[0])
                    done += 1
                advance()
    warn_dropped_fields(dropped)
    clouds = "cloud" if done == 1 else "clouds"
    screen.print_line(f"converted {done} {clouds} of {', '.join(folders)} to {target}{writing.skipped(skipped)}")
    for reason, count in failed.items():
        warn(f"{reason} ({count} messages)" if count > 1 else reason)
    if failed:
        raise FormatError(f"{source}: {sum(failed.values())} messages could not be read, see the warnings")


def bag_to_bag(source: Path, target: Path, writing: Writing) -> None:
    """Copy all messages of a bag, or those of one topic, to another storage."""
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
    screen.print_line(f"copied {done} messages on {len(chosen)} topics to {target}")


@dataclass(frozen=True)
class Writing:
    """Output options and wording of a command."""

    verb: str
    """Text next to the progress bar."""
    replacing: str
    """Name of the option that replaces files."""
    force: bool = False
    """True if that option was given."""
    format: str | None = None
    topic: str | None = None
    frame: str | None = None
    layout: str = "all"
    rate_hz: float = DEFAULT_RATE_HZ
    """Clouds per second in a new bag, for clouds without time stamps."""
    sensor: str | None = None
    """Model of packets that do not state it."""

    def refuse_existing(self, target: Path) -> None:
        """Raise if the file exists and may not be replaced."""
        if target.exists() and not self.force:
            raise FormatError(f"{target}: already exists; {self.replacing} replaces it")

    def new_bag(self, source: Path, target: Path, storage: str | None = None) -> BagWriter:
        """Open a bag at `target`; `storage` applies if the name does not select one."""
        from parhelion.io.ros import BagWriter

        check_not_itself(source, target)
        if target.is_file() or (target.is_dir() and any(target.iterdir())):
            self.refuse_existing(target)
        chosen = self.format if is_bag_storage(self.format) else storage
        return BagWriter(target, None if names_bag_file(target) else chosen, overwrite=self.force)

    def skipped(self, count: int) -> str:
        """End of a sentence about files that were not replaced."""
        return f", skipped {count} existing ({self.replacing} replaces them)" if count else ""


def write_clouds(clouds: Iterator[tuple[str, PointCloud]], source: Path, target: Path, writing: Writing) -> int:
    """Write named clouds as messages of one topic, in order, and return their number.

    Stamps are the times of the clouds if all have one and they increase, otherwise they follow a rate.
    """
    from parhelion.io.ros import Message
    from parhelion.io.ros.messages import POINT_CLOUD, point_cloud2
    from parhelion.io.ros.returns import CLOUD_MESSAGES
    from parhelion.makers.layouts import layouts

    layout, rate_hz = writing.layout, writing.rate_hz
    known = [*layouts(), *CLOUD_MESSAGES, "all"]
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
                raise ConfigError(f"{file}: its time {stamp / 1e9:g} s is not later than that of the previous cloud")
            last = stamp
            frame = writing.frame or _frame_of(cloud)
            if layout in CLOUD_MESSAGES:
                kind, encode = CLOUD_MESSAGES[layout]
                writer.write(Message(name, kind, stamp, encode(cloud, frame, stamp)))
            else:
                writer.write(Message(name, POINT_CLOUD, stamp, point_cloud2(cloud, frame, stamp, layout)))
    return number + 1


def _frame_of(cloud: PointCloud) -> str:
    """Frame name of a cloud. In Ouster captures the entry of that name is a number."""
    named = cloud.metadata.get("frame_id")
    return named if isinstance(named, str) else DEFAULT_FRAME


def _times(found: list[Any]) -> bool:
    """Return True if clouds carry time stamps, judged by the first two."""
    numbers = [value for value in found if isinstance(value, (int, float)) and not isinstance(value, bool)]
    rising = len(numbers) < 2 or numbers[1] > numbers[0]
    return len(numbers) == len(found) > 0 and rising and all(math.isfinite(value) and value >= 0 for value in numbers)


def _stamp(cloud: PointCloud, number: int, rate_hz: float, times: bool, file: str) -> int:
    if not times:
        return round(number / rate_hz * 1e9)
    value = cloud.metadata.get("time")
    if not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise FormatError(f"{file}: has no time stamp, although the previous clouds have one")
    return round(value * 1e9)


@contextmanager
def _whole(writer: BagWriter) -> Iterator[None]:
    """Finish the bag on success and remove it on failure."""
    try:
        yield
    except BaseException:
        writer.discard()
        raise
    writer.close()


# ---- weather -------------------------------------------------------------------------------------------------------


def sensor_in_bag(source: Path, writing: Writing) -> str | None:
    """Model of the sensor of the clouds that are converted, as the bag states it; None if it does not."""
    from parhelion.io.recordings import cloud_topic
    from parhelion.io.ros import BagReader
    from parhelion.io.ros.returns import RETURN_MESSAGES

    bag = BagReader(source)
    return bag.sensors.get(cloud_topic(bag, writing.topic, tuple(RETURN_MESSAGES)))


def weather_bag(
    source: Path,
    target: Path,
    weathered: Callable[[PointCloud, int, Pose | None], PointCloud],
    writing: Writing,
    *,
    needs_pose: bool = False,
    fixed_frame: str | None = None,
) -> None:
    """Write a bag with weather on the clouds of one topic; all other messages are copied byte by byte.

    `weathered(cloud, stamp_ns, pose)` returns a cloud in weather; with `needs_pose`, the pose of its frame follows from
    the transforms of the bag.
    """
    from parhelion.io.recordings import cloud_topic
    from parhelion.io.ros import BagReader
    from parhelion.io.ros.returns import RETURN_MESSAGES, stamp_and_frame
    from parhelion.io.ros.transforms import TransformTree

    bag = BagReader(source)
    chosen = cloud_topic(bag, writing.topic, tuple(RETURN_MESSAGES))
    kind = RETURN_MESSAGES[bag.topics[chosen].type]
    storage = "sqlite3" if source.suffix == ".db3" or (source.is_dir() and any(source.glob("*.db3"))) else "mcap"
    writer = writing.new_bag(source, target, storage)
    writer.sensors = bag.sensors
    tree, unplaced = TransformTree(), 0
    with _whole(writer), screen.progress(writing.verb, bag.count) as advance:
        if needs_pose:
            for message in bag.messages([name for name in ("/tf", "/tf_static") if name in bag.topics]):
                tree.add(message.data, static=message.topic == "/tf_static")
        for one in bag.topics.values():
            writer.add(one)
        for message in bag.messages():
            if message.topic == chosen:
                try:
                    stamp_ns, frame = stamp_and_frame(message.data)
                    pose = tree.pose(frame, stamp_ns, fixed_frame) if needs_pose else None
                    unplaced += needs_pose and pose is None
                    wet = weathered(kind.read(message), stamp_ns, pose)
                    message = message._replace(data=kind.write(message, wet))
                except (ConfigError, FormatError) as error:
                    words = str(error).removeprefix(f"{chosen}: ")
                    raise type(error)(f"{source}: {chosen}: {words}") from None
            writer.write(message)
            advance()
    if unplaced:
        screen.print_line(
            f"note: the bag has no transform for {unplaced} clouds; they are at the origin unless --pose is given"
        )


# ---- recordings -----------------------------------------------------------------------------------------------------


Work = Callable[["Scan", int, float], "PointCloud"]
"""Function of a frame, its index and its time [s] since the first frame; returns the cloud to write."""

IndexOption = Annotated[
    int | None,
    typer.Option("--index", min=0, metavar="N", help="Use only frame N of a capture (.pcap), counted from 0."),
]


class Form(Enum):
    """Output form of the frames of a capture."""

    FILE = "one file"
    FOLDER = "a folder of numbered files"
    BAG = "a bag"
    CAPTURE = "a capture"


def form_of(target: Path, format: str | None) -> Form:
    """Form of OUT: a bag or a cloud file by its extension, otherwise a folder."""
    from parhelion.io import format_of

    if is_bag_storage(format) or names_bag_file(target):
        return Form.BAG
    if target.is_dir():
        return Form.FOLDER
    try:
        kind = format_of(target)
    except FormatError:
        # `.pdc` is more likely a typing error than a folder name; `drive_v2.3` is a folder.
        if format is None and re.fullmatch(r"\.[A-Za-z]\w{0,4}", target.suffix):
            raise
        return Form.FOLDER
    return Form.CAPTURE if kind.name == "pcap" else Form.FILE


def _only_frame(file: Path, frames: Iterator[tuple[int, Scan]], target: Path) -> Iterator[tuple[int, Scan]]:
    """Yield the only frame of a capture; raise if there are more, because one file holds one frame."""
    first = list(islice(frames, 2))
    if len(first) > 1:
        folder = target.with_suffix("")
        raise FormatError(
            f"{file}: holds more than one frame, and {target} is one file; give a folder for all frames ({folder}/), "
            f"a bag ({folder.name}.mcap), or select one with --index 0"
        )
    yield from first


@dataclass
class Done:
    """Results of converting a capture."""

    frames: int = 0
    skipped: int = 0
    """Frames whose file already existed."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Fields that the format could not hold, with the number of files."""
    gaps: int = 0
    """Number of lost packet columns."""

    def report_gaps(self, source: Path) -> None:
        """Print a note if packets are missing."""
        if self.gaps:
            screen.print_line(f"note: {source}: packets were lost, {screen.count(self.gaps)} columns are missing")


def convert_frames(
    source: Path,
    target: Path,
    work: Work,
    writing: Writing,
    *,
    index: int | None = None,
    sensor: str | None = None,
    form: Form | None = None,
) -> Done:
    """Apply `work` to every frame of a capture and write it to a folder, a bag or a capture, or one frame to a file."""
    from parhelion.io import format_of
    from parhelion.io.recordings import numbered_frames

    done = Done()
    form = form_of(target, writing.format) if form is None else form
    check_not_itself(source, target)
    frames = numbered_frames(source, index, sensor)
    if form is Form.FILE and index is None:
        frames = _only_frame(source, frames, target)
    with screen.progress(writing.verb, None) as advance:
        worked = _worked(source, frames, work, done, advance)
        if form is Form.BAG:
            named = ((f"{source}: frame {number}", cloud) for number, cloud in worked)
            write_clouds(named, source, target, writing)
        elif form is Form.CAPTURE:
            writing.refuse_existing(target)
            _to_capture(source, target, worked)
        elif form is Form.FILE:
            writing.refuse_existing(target)
            check_file(target)
            kind = format_of(target, writing.format)
            for _, cloud in worked:
                done.dropped.update(write_cloud_files(cloud, target, kind.name)[0])
        else:
            _to_folder(target, source, frames, work, done, writing, advance)
    return done


def _worked(
    source: Path, frames: Iterator[tuple[int, Scan]], work: Work, done: Done, advance: Callable[[], None]
) -> Iterator[tuple[int, PointCloud]]:
    first: float | None = None
    for number, scan in frames:
        first = scan.start_time if first is None else first
        try:
            cloud = work(scan, number, scan.start_time - first)
        except (ConfigError, FormatError) as error:
            raise type(error)(f"{source}: frame {number}: {error}") from None
        done.frames += 1
        done.gaps += int(scan.metadata.get("missing_columns", 0))
        yield number, cloud
        advance()


def _to_folder(
    target: Path,
    source: Path,
    frames: Iterator[tuple[int, Scan]],
    work: Work,
    done: Done,
    writing: Writing,
    advance: Callable[[], None],
) -> None:
    """Write numbered files; existing ones are skipped."""
    from parhelion.io import format_of

    kind = format_of(target, writing.format or DEFAULT_FORMAT)
    # Read before creating the folder, so that an unreadable capture leaves no empty folder.
    frames = chain(list(islice(frames, 1)), frames)
    make_folder(target)

    def waiting() -> Iterator[tuple[int, Scan]]:
        for number, scan in frames:
            if (target / f"{number:06d}{kind.endings[0]}").exists() and not writing.force:
                done.skipped += 1
            else:
                yield number, scan

    for number, cloud in _worked(source, waiting(), work, done, advance):
        file = target / f"{number:06d}{kind.endings[0]}"
        done.dropped.update(write_cloud_files(cloud, file, kind.name)[0])


def _to_capture(source: Path, target: Path, clouds: Iterator[tuple[int, PointCloud]]) -> None:
    """Write frames as packets of one capture."""
    from parhelion.core.clouds import Scan
    from parhelion.io.captures import codec_called, write_metadata_beside
    from parhelion.io.pcap import PcapWriter

    check_file(target)
    stream: Any = None
    writer: AbstractContextManager[PcapWriter] = PcapWriter(target)
    with writer as capture:
        for number, cloud in clouds:
            if not isinstance(cloud, Scan):
                raise FormatError(f"{target}: a capture always holds every pulse; omit --keep-lost")
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
                    f"{source}: frame {number} cannot be written as packets ({error}); give a folder or a bag"
                ) from None
        for datagram in stream.finish() if stream is not None else ():
            capture.write(*datagram)
        write_metadata_beside(None if stream is None else stream.metadata, target)
