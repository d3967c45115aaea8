"""`parhelion convert`: clouds from one format to another, a file or a whole folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.clouds import DEFAULT_FORMAT, check_file, check_not_itself, make_folder, stem, tell_drops
from parhelion.cli.failures import warn

EXAMPLES = (
    "parhelion convert scan.pcd scan.las",
    "parhelion convert clouds/ clouds-ply/ --format ply",
    "parhelion convert 000000.bin scan.pcd --from kitti",
)


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A cloud file, or a folder of them.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The new file, or a folder.")],
    format: Annotated[
        str | None, typer.Option(help="Format to write, where OUT's ending does not say it; pcd for folders.")
    ] = None,
    read_as: Annotated[str | None, typer.Option("--from", help="Format to read, where the ending misleads.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there already.")] = False,
) -> None:
    """Convert point clouds. A folder's finished files are skipped, so an interrupted run can be taken up again."""
    from parhelion.core.errors import FormatError

    if not source.exists():
        raise FormatError(f"{source}: no such file or folder")
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
    endings = _readable_endings(read_as)
    found = sorted(
        file for file in source.iterdir() if file.is_file() and _is_cloud(file, endings) and file.name[0] != "."
    )
    if not found:
        raise FormatError(f"{source}: no clouds in this folder ({', '.join(endings)})")
    make_folder(target)
    pairs = [(file, target / f"{stem(file)}{ending}") for file in found]
    names = [new.name for _, new in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise FormatError(f"{source}: several files would become {target / twice}; convert them one by one")
    for old, new in pairs:
        check_not_itself(old, new)
    return pairs


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
    from parhelion.core.errors import FormatError
    from parhelion.io import format_of, read_cloud, write_noting_drops

    dropped: dict[str, int] = {}
    unreadable = 0
    with screen.progress("converting", len(pairs)) as advance:
        for old, new in pairs:
            kind = format_of(new, (format or DEFAULT_FORMAT) if as_folder else format)
            try:
                cloud = read_cloud(old, format=read_as)
            except FormatError as error:
                if not as_folder:
                    raise
                warn(str(error))
                unreadable += 1
                continue
            for note in write_noting_drops(cloud, new, kind.name):
                dropped[note] = dropped.get(note, 0) + 1
            advance()
    return dropped, unreadable
