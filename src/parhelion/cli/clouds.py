"""Where a command's clouds go: one file, or a folder of numbered files."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from parhelion.cli.failures import warn

if TYPE_CHECKING:
    from parhelion.core.clouds import PointCloud

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
    dropped: dict[str, int] = field(default_factory=dict)
    """What formats could not hold, and in how many files."""

    @classmethod
    def at(cls, path: Path, format: str | None, *, several: bool) -> CloudFiles:
        """A file where the name has a cloud's ending, else a folder, which is made where it is missing."""
        from parhelion.core.errors import FormatError
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

        for note in write_noting_drops(cloud, file, self.format):
            self.dropped[note] = self.dropped.get(note, 0) + 1
        self.written.append(file)

    def finish(self) -> None:
        """One warning for each kind of loss, and one for older files among the new ones."""
        tell_drops(self.dropped)
        if self.numbered:
            tell_older(self.path, self.written, self.file(0).suffix)


def tell_drops(dropped: dict[str, int]) -> None:
    """One line for each kind of loss."""
    for note, files in dropped.items():
        warn(f"{note} ({files} files)" if files > 1 else note)


def tell_older(folder: Path, written: list[Path], suffix: str) -> None:
    """One line where a folder holds further files of this ending than those that were written."""
    mine = {file.name for file in written}
    older = [file for file in folder.glob(f"*{suffix}") if file.name not in mine]
    if older:
        warn(f"{folder}: {len(older)} older files are there too, such as {older[0].name}")


def make_folder(path: Path) -> None:
    """Make a folder, with those above it, and see that files can be written into it."""
    from parhelion.core.errors import FormatError

    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FormatError(f"{path}: is a file, not a folder") from None
    except OSError as error:
        raise FormatError(f"{path}: the folder cannot be made ({error.strerror})") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise FormatError(f"{path}: the folder cannot be written to")


def check_file(path: Path) -> None:
    """See that a file of this name can be written."""
    from parhelion.core.errors import FormatError

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
    from parhelion.core.errors import FormatError

    if target.exists() and source.samefile(target):
        raise FormatError(f"{source}: would be replaced by what is made of it; choose another name")
