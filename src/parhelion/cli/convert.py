"""`parhelion convert`: clouds from one format to another, a file, a whole folder or a bag."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parhelion.cli import recordings as bags
from parhelion.cli import recordings as captures
from parhelion.cli import screen
from parhelion.cli.recordings import (
    DEFAULT_FORMAT,
    check_file,
    check_not_itself,
    make_folder,
    stem,
    warn_dropped_fields,
)
from parhelion.cli.screen import warn

if TYPE_CHECKING:
    from parhelion import PointCloud, Scan

EXAMPLES = (
    "parhelion convert scan.pcd scan.las",
    "parhelion convert clouds/ clouds-ply/ --format ply",
    "parhelion convert 000000.bin scan.pcd --from kitti",
    "parhelion convert run/bag clouds/ --topic /velodyne_points   # the clouds of a ROS 2 bag",
    "parhelion convert clouds/ drive.mcap --rate 10               # clouds into a bag",
    "parhelion convert drive.db3 drive.mcap                       # a bag in another storage",
    "parhelion convert drive.pcap turns/ --format pcd             # every turn of a capture, 000000.pcd ...",
    "parhelion convert drive.pcap drive.mcap                      # every turn as a message",
    "parhelion convert drive.pcap one.ply --turn 3",
)


def convert(
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="A cloud file, a folder of them, a bag, or a capture (.pcap).")
    ],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The new file, folder or bag (.mcap, .db3).")],
    format: Annotated[
        str | None,
        typer.Option(
            help="Format to write, where OUT's ending does not say it; pcd for folders; mcap or sqlite3: a bag."
        ),
    ] = None,
    read_as: Annotated[str | None, typer.Option("--from", help="Format to read, where the ending misleads.")] = None,
    topic: Annotated[str | None, typer.Option(help="Topic of the clouds in a bag; /points in new ones.")] = None,
    frame: Annotated[str | None, typer.Option(help="Frame of the clouds in a new bag.", show_default="lidar")] = None,
    layout: Annotated[
        str,
        typer.Option(help="Fields of the points in a new bag: all, or those of a driver, as ouster."),
    ] = "all",
    rate: Annotated[
        float, typer.Option(help="Clouds a second in a new bag, where they have no times of their own.")
    ] = bags.USUAL_RATE_HZ,
    turn: captures.TurnOption = None,
    sensor: Annotated[
        str | None, typer.Option("--sensor", "-s", help="The model of a capture whose packets do not state it.")
    ] = None,
    keep_lost: Annotated[
        bool, typer.Option("--keep-lost", help="Of captures, write shots without return too, as NaN.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there already.")] = False,
) -> None:
    """Convert point clouds. A folder's finished files are skipped, so an interrupted run can be taken up again.

    Captures are sequences: each turn of the sensor becomes a file of its own in a folder, or a message in a bag.
    """
    from parhelion.core.errors import FormatError

    if not source.exists():
        raise FormatError(f"{source}: no such file or folder")
    storage = format if bags.is_bag_storage(format) else None
    to_bag = storage is not None or bags.names_bag_file(target)
    if bags.is_bag(source):
        if to_bag:
            bags.bag_to_bag(source, target, topic, storage=storage, force=force)
        else:
            bags.bag_to_clouds(source, target, topic, format, force=force)
        return
    as_told = _Captures(format, turn, sensor, keep_lost, force)
    bag = captures.NewBag(topic, frame, layout, rate)
    if captures.is_capture(source, read_as):
        as_told.one(source, target, bag)
        return
    if turn is not None:
        raise typer.BadParameter(f"goes with a capture (.pcap), not with {source}", param_hint="--turn")
    if to_bag:
        files = _clouds_in(source, read_as) if source.is_dir() else [source]
        with screen.progress("converting", None) as advance:
            clouds = _clouds(files, read_as, as_told, advance)
            count = bags.write_clouds(
                clouds, source, target, storage=storage, topic=topic, frame=frame, layout=layout, rate_hz=rate,
                force=force, advice="--force",
            )  # fmt: skip
        _tell_bag(count, topic, target)
        return
    if source.is_dir():
        found = _clouds_in(source, read_as)
        recordings = [file for file in found if captures.is_capture(file, read_as)]
        pairs = _folder_pairs(source, target, format, [file for file in found if file not in recordings])
    else:
        recordings, pairs = [], [_file_pair(source, target, format)]
    broken = sum(not as_told.of_folder(file, target / stem(file), bag) for file in recordings)
    waiting = [(old, new) for old, new in pairs if force or not new.exists()]
    if not source.is_dir() and not waiting:
        raise FormatError(f"{pairs[0][1]}: is there already; --force replaces it")
    dropped, unreadable = _convert_all(waiting, format, read_as, as_folder=source.is_dir())
    warn_dropped_fields(dropped)
    skipped = len(pairs) - len(waiting)
    note = f", skipped {skipped} that were there already (--force replaces them)" if skipped else ""
    done = len(waiting) - unreadable
    if pairs:
        screen.say(f"converted {done} {'file' if done == 1 else 'files'} to {target}{note}")
    if unreadable or broken:
        tried = len(waiting) + len(recordings)
        raise FormatError(f"{source}: {unreadable + broken} of {tried} files could not be read, see the warnings")


def _file_pair(source: Path, target: Path, format: str | None) -> tuple[Path, Path]:
    """One file; where OUT is a folder, the file keeps its stem there."""
    from parhelion.io import FORMATS, format_of

    if target.is_dir():
        kind = FORMATS[format_of(target, format or DEFAULT_FORMAT).name]
        target = target / f"{stem(source)}{kind.endings[0]}"
    else:
        format_of(target, format)
        check_file(target)
    check_not_itself(source, target)
    return source, target


def _tell_bag(count: int, topic: str | None, target: Path) -> None:
    screen.say(f"wrote {count} {'cloud' if count == 1 else 'clouds'} on {topic or bags.USUAL_TOPIC} to {target}")


@dataclass(frozen=True)
class _Captures:
    """What was asked for captures."""

    format: str | None
    turn: int | None
    sensor: str | None
    keep_lost: bool
    force: bool

    def cloud(self, scan: Scan, number: int = 0, after_s: float = 0.0) -> PointCloud:
        """What is written of a turn."""
        return scan.with_lost_shots() if self.keep_lost else scan

    def one(self, source: Path, target: Path, bag: captures.NewBag, form: captures.Form | None = None) -> None:
        """One capture."""
        form = captures.form_of(target, self.format) if form is None else form
        done = captures.turn_by_turn(
            source, target, self.cloud, verb="converting", advice="--force", format=self.format, turn=self.turn,
            sensor=self.sensor, force=self.force, bag=bag, form=form,
        )  # fmt: skip
        warn_dropped_fields(done.dropped)
        done.tell_gaps(source)
        if form is captures.Form.BAG:
            _tell_bag(done.turns, bag.topic, target)
            return
        note = f", skipped {done.skipped} that were there already (--force replaces them)" if done.skipped else ""
        screen.say(f"converted {done.turns} {'turn' if done.turns == 1 else 'turns'} of {source} to {target}{note}")

    def of_folder(self, source: Path, target: Path, bag: captures.NewBag) -> bool:
        """One capture among other files: whether it could be read. A bad one does not stop the others."""
        from parhelion.core.errors import FormatError

        try:
            self.one(source, target, bag, captures.Form.FOLDER)
        except FormatError as error:
            warn(str(error))
            return False
        return True


def _clouds(
    files: list[Path], read_as: str | None, as_told: _Captures, advance: Callable[[], None]
) -> Iterator[tuple[Path | str, PointCloud]]:
    """All clouds of files, those of captures turn by turn."""
    from parhelion.io import read_cloud

    for file in files:
        if captures.is_capture(file, read_as):
            for number, scan in captures.turns_of(file, None, as_told.sensor):
                yield f"{file}: turn {number}", as_told.cloud(scan)
        else:
            yield file, read_cloud(file, format=read_as)
        advance()


def _folder_pairs(source: Path, target: Path, format: str | None, found: list[Path]) -> list[tuple[Path, Path]]:
    """Every cloud of a folder, in order of name, and the file it becomes."""
    from parhelion.core.errors import FormatError
    from parhelion.io import format_of

    ending = format_of(target, format or DEFAULT_FORMAT).endings[0]
    make_folder(target)
    pairs = [(file, target / f"{stem(file)}{ending}") for file in found]
    names = [new.name for _, new in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise FormatError(f"{source}: several files would become {target / twice}; convert them one by one")
    for old, new in pairs:
        check_not_itself(old, new)
    return pairs


def _clouds_in(folder: Path, read_as: str | None) -> list[Path]:
    """The clouds of a folder, in order of name."""
    from parhelion.core.errors import FormatError

    endings = _readable_endings(read_as)
    found = sorted(
        file for file in folder.iterdir() if file.is_file() and _is_cloud(file, endings) and file.name[0] != "."
    )
    if not found:
        raise FormatError(f"{folder}: no clouds in this folder ({', '.join(endings)})")
    return found


def _readable_endings(read_as: str | None) -> tuple[str, ...]:
    from parhelion.io import FORMATS, format_of

    if read_as is not None:
        return format_of("", read_as).endings
    # Label files belong to scans and hold no points of their own.
    return tuple(ending for kind in FORMATS.values() if kind.name != "semantickitti" for ending in kind.endings)


def _is_cloud(file: Path, endings: tuple[str, ...]) -> bool:
    return file.name.lower().endswith(endings)


def _convert_all(
    pairs: list[tuple[Path, Path]], format: str | None, read_as: str | None, *, as_folder: bool
) -> tuple[dict[str, int], int]:
    """Convert each: what was lost and in how many files, and how many files of a folder could not be read."""
    from parhelion.core.errors import ParhelionError
    from parhelion.io import format_of, read_cloud, write_noting_drops

    dropped: dict[str, int] = {}
    unreadable = 0
    with screen.progress("converting", len(pairs)) as advance:
        for old, new in pairs:
            kind = format_of(new, (format or DEFAULT_FORMAT) if as_folder else format)
            try:
                cloud = read_cloud(old, format=read_as)
            except ParhelionError as error:
                if not as_folder:
                    raise
                warn(str(error))
                unreadable += 1
                continue
            for note in write_noting_drops(cloud, new, kind.name):
                dropped[note] = dropped.get(note, 0) + 1
            advance()
    return dropped, unreadable
