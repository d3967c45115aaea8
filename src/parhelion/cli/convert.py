"""`parhelion convert`: clouds from one format to another, a file, a whole folder or a bag."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parhelion.cli import bags, screen
from parhelion.cli.clouds import DEFAULT_FORMAT, check_file, check_not_itself, make_folder, stem, tell_drops
from parhelion.cli.failures import warn

EXAMPLES = (
    "parhelion convert scan.pcd scan.las",
    "parhelion convert clouds/ clouds-ply/ --format ply",
    "parhelion convert 000000.bin scan.pcd --from kitti",
    "parhelion convert run/bag clouds/ --topic /velodyne_points   # the clouds of a ROS 2 bag",
    "parhelion convert clouds/ drive.mcap --rate 10               # clouds into a bag",
    "parhelion convert drive.db3 drive.mcap                       # a bag in another storage",
)


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A cloud file, a folder of them, or a bag.")],
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
        str, typer.Option(help="Fields of the points in a new bag: all, or as the drivers velodyne or ouster do.")
    ] = "all",
    rate: Annotated[
        float, typer.Option(help="Clouds a second in a new bag, where they have no times of their own.")
    ] = bags.USUAL_RATE_HZ,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there already.")] = False,
) -> None:
    """Convert point clouds. A folder's finished files are skipped, so an interrupted run can be taken up again."""
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
    if to_bag:
        files = _clouds_in(source, read_as) if source.is_dir() else [source]
        bags.clouds_to_bag(
            files, source, target, read_as=read_as, storage=storage, topic=topic, frame=frame, layout=layout,
            rate_hz=rate, force=force,
        )  # fmt: skip
        return
    pairs = _folder_pairs(source, target, format, read_as) if source.is_dir() else [_file_pair(source, target, format)]
    waiting = [(old, new) for old, new in pairs if force or not new.exists()]
    if not source.is_dir() and not waiting:
        raise FormatError(f"{pairs[0][1]}: is there already; --force replaces it")
    dropped, unreadable = _convert_all(waiting, format, read_as, as_folder=source.is_dir())
    tell_drops(dropped)
    skipped = len(pairs) - len(waiting)
    note = f", skipped {skipped} that were there already (--force replaces them)" if skipped else ""
    done = len(waiting) - unreadable
    screen.say(f"converted {done} {'file' if done == 1 else 'files'} to {target}{note}")
    if unreadable:
        raise FormatError(f"{source}: {unreadable} of {len(waiting)} files could not be read, see the warnings")


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


def _folder_pairs(source: Path, target: Path, format: str | None, read_as: str | None) -> list[tuple[Path, Path]]:
    """Every cloud of a folder, in order of name, and the file it becomes."""
    from parhelion.core.errors import FormatError
    from parhelion.io import format_of

    ending = format_of(target, format or DEFAULT_FORMAT).endings[0]
    found = _clouds_in(source, read_as)
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
