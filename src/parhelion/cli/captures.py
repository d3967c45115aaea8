"""Captures of real sensors' packets on the command line: sequences of turns, each by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import bags, screen
from parhelion.cli.clouds import DEFAULT_FORMAT, check_file, check_not_itself, make_folder

if TYPE_CHECKING:
    from parhelion import PointCloud, Scan

Work = Callable[["Scan", int, float], "PointCloud"]
"""Gives the cloud to write, from a turn, its number and its time [s] after the first."""

TurnOption = Annotated[
    int | None, typer.Option("--turn", min=0, metavar="N", help="One turn of a capture (.pcap), from 0; else all.")
]


class Form(Enum):
    """What the turns of a capture become."""

    FILE = "one file"
    FOLDER = "a folder of numbered files"
    BAG = "a bag"
    CAPTURE = "a capture"


def is_capture(file: Path, read_as: str | None = None) -> bool:
    """Whether a file is to be read as a capture of packets."""
    from parhelion.core.errors import FormatError
    from parhelion.io import format_of

    try:
        return file.is_file() and format_of(file, read_as).name == "pcap"
    except FormatError:
        return False


def form_of(target: Path, format: str | None) -> Form:
    """What OUT is: a bag or a cloud file by its ending, else a folder."""
    from parhelion.core.errors import FormatError
    from parhelion.io import format_of

    if bags.is_bag_storage(format) or bags.names_bag_file(target):
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


def packet_model(sensor: str | None) -> str | None:
    """The Velodyne that a sensor's name means, for captures whose packets do not say it."""
    from parhelion.makers.velodyne.models import MODELS

    return sensor if sensor in MODELS else None


def turns_of(file: Path, turn: int | None = None, sensor: str | None = None) -> Iterator[tuple[int, Scan]]:
    """The turns of a capture with their numbers, or the one that was asked for."""
    from parhelion.core.errors import FormatError
    from parhelion.io import read_turns

    last = -1
    for last, scan in enumerate(read_turns(file, model=packet_model(sensor))):
        if turn is None or turn == last:
            yield last, scan
        if turn == last:
            return
    if last < 0:
        raise FormatError(f"{file}: the capture holds no turn")
    if turn is not None:
        raise FormatError(f"{file}: has the turns 0 to {last}, not {turn}")


def _only_turn(file: Path, turns: Iterator[tuple[int, Scan]], target: Path) -> Iterator[tuple[int, Scan]]:
    """The turn of a capture that holds one; one file cannot hold several."""
    from parhelion.core.errors import FormatError

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
    dropped: dict[str, int] = field(default_factory=dict)
    """What the format could not hold, and in how many files."""
    gaps: int = 0
    """Columns of packets that were lost on the way."""

    def tell_gaps(self, source: Path) -> None:
        """One line where packets are missing."""
        if self.gaps:
            screen.say(f"note: {source}: packets were lost, {screen.count(self.gaps)} columns within turns are missing")


@dataclass(frozen=True)
class NewBag:
    """How clouds are laid out in a new bag."""

    topic: str | None = None
    frame: str | None = None
    layout: str = "all"
    rate_hz: float = bags.USUAL_RATE_HZ


def turn_by_turn(
    source: Path,
    target: Path,
    work: Work,
    *,
    verb: str,
    advice: str,
    format: str | None = None,
    turn: int | None = None,
    sensor: str | None = None,
    force: bool = False,
    bag: NewBag | None = None,
    form: Form | None = None,
) -> Done:
    """Every turn of a capture, worked on and written: to a folder, a bag, another capture, or one turn to a file."""
    done = Done()
    form = form_of(target, format) if form is None else form
    check_not_itself(source, target)
    turns = turns_of(source, turn, sensor)
    if form is Form.FILE and turn is None:
        turns = _only_turn(source, turns, target)
    with screen.progress(verb, None) as advance:
        worked = _worked(source, turns, work, done, advance)
        if form is Form.BAG:
            storage = format if bags.is_bag_storage(format) else None
            _to_bag(source, target, worked, storage, force, advice, bag or NewBag())
        elif form is Form.CAPTURE:
            _refuse_existing(target, force, advice)
            _to_capture(source, target, worked)
        elif form is Form.FILE:
            _refuse_existing(target, force, advice)
            check_file(target)
            _to_file(target, worked, done, format)
        else:
            _to_folder(target, source, turns, work, done, format or DEFAULT_FORMAT, force, advance)
    return done


def _worked(
    source: Path, turns: Iterator[tuple[int, Scan]], work: Work, done: Done, advance: Callable[[], None]
) -> Iterator[tuple[int, PointCloud]]:
    from parhelion.core.errors import ConfigError, FormatError

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


def _refuse_existing(target: Path, force: bool, advice: str) -> None:
    from parhelion.core.errors import FormatError

    if target.exists() and not force:
        raise FormatError(f"{target}: is there already; {advice} replaces it")


def _to_file(target: Path, clouds: Iterator[tuple[int, PointCloud]], done: Done, format: str | None) -> None:
    from parhelion.io import format_of, write_noting_drops

    kind = format_of(target, format)
    for _, cloud in clouds:
        done.dropped |= dict.fromkeys(write_noting_drops(cloud, target, kind.name), 1)


def _to_folder(
    target: Path,
    source: Path,
    turns: Iterator[tuple[int, Scan]],
    work: Work,
    done: Done,
    format: str,
    force: bool,
    advance: Callable[[], None],
) -> None:
    """Numbered files; those that are there are not worked on again."""
    from parhelion.io import format_of, write_noting_drops

    kind = format_of(target, format)
    # Before the folder is made: a capture that cannot be read leaves no empty one.
    turns = chain(list(islice(turns, 1)), turns)
    make_folder(target)

    def waiting() -> Iterator[tuple[int, Scan]]:
        for number, scan in turns:
            if (target / f"{number:06d}{kind.endings[0]}").exists() and not force:
                done.skipped += 1
            else:
                yield number, scan

    for number, cloud in _worked(source, waiting(), work, done, advance):
        for note in write_noting_drops(cloud, target / f"{number:06d}{kind.endings[0]}", kind.name):
            done.dropped[note] = done.dropped.get(note, 0) + 1


def _to_bag(
    source: Path,
    target: Path,
    clouds: Iterator[tuple[int, PointCloud]],
    storage: str | None,
    force: bool,
    advice: str,
    bag: NewBag,
) -> None:
    bags.write_clouds(
        ((f"{source}: turn {number}", cloud) for number, cloud in clouds), source, target, storage=storage,
        topic=bag.topic, frame=bag.frame, layout=bag.layout, rate_hz=bag.rate_hz, force=force, advice=advice,
    )  # fmt: skip


def _to_capture(source: Path, target: Path, clouds: Iterator[tuple[int, PointCloud]]) -> None:
    """Turns as packets again, in one capture."""
    from parhelion.core.clouds import Scan
    from parhelion.core.errors import ConfigError, FormatError
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
