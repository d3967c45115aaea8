"""A data set's folder: written beside its place under another name, and put there when it is whole."""

from __future__ import annotations

import shutil
from pathlib import Path

from parhelion.core.errors import FormatError

README = "README.txt"
"""Every data set says in this file what it is; a folder without it is not replaced."""
FIRST_LINE = "Parhelion data set: "


class DatasetFolder:
    """The folder of one data set. An earlier one of the same name stays until the new one is whole.

    folder = DatasetFolder(Path("out/nuscenes"), "nuScenes", "What is in it.")
    folder.write("maps/1.png", data)
    kitti.write(cloud, folder.place("training/velodyne/000000.bin"))
    folder.close()                      # out/nuscenes is there
    """

    def __init__(self, path: Path, kind: str, about: str) -> None:
        self.path = path
        self._stage = path.with_name(f"{path.name}.new")
        self._earlier = path.with_name(f"{path.name}.old")
        self._names: set[str] = set()
        self._open = True
        for place in (path, self._stage, self._earlier):
            _only_a_dataset(place)
        try:
            if self._earlier.exists() and not path.exists():  # stopped between the two renames of an earlier `close`
                self._earlier.rename(path)
            for place in (self._stage, self._earlier):
                _remove(place)
        except OSError as error:
            raise FormatError(f"{path}: the folder cannot be made ({error.strerror or error})") from None
        self._readme = f"{FIRST_LINE}{kind}\n\n{about.strip()}\n".encode()

    @property
    def files(self) -> list[Path]:
        """All files, where they are once the folder is closed."""
        return [self.path / name for name in sorted(self._names)]

    def place(self, name: str) -> Path:
        """Where to write a file of the set now; its folder is made."""
        # The note comes first, so that what a killed run leaves is known as ours; before it, nothing is there at all.
        if not self._names:
            self._names.add(README)
            self.write(README, self._readme)
        file = self._stage / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FormatError(f"{self.path / name}: cannot be written ({error.strerror or error})") from None
        self._names.add(name)
        return file

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the set."""
        try:
            self.place(name).write_bytes(data)
        except OSError as error:
            raise FormatError(f"{self.path / name}: cannot be written ({error.strerror or error})") from None

    def close(self) -> None:
        """Put the folder in its place; an earlier one is removed only now."""
        if not self._open:
            return
        self._open = False
        self.place(README)
        try:
            if self.path.exists():
                self.path.rename(self._earlier)
            self._stage.rename(self.path)
            _remove(self._earlier)
        except OSError as error:
            raise FormatError(f"{self.path}: cannot be written ({error.strerror or error})") from None

    def discard(self) -> None:
        """Take back what was written; an earlier data set of the same name stays."""
        if self._open:
            self._open = False
            shutil.rmtree(self._stage, ignore_errors=True)


def _only_a_dataset(folder: Path) -> None:
    """Refuse to replace what was not written here."""
    try:
        if not folder.exists() and not folder.is_symlink():
            return
        ours = folder.is_dir() and not folder.is_symlink()
        if ours and any(folder.iterdir()):
            note = folder / README
            ours = note.is_file() and note.read_bytes().startswith(FIRST_LINE.encode())
    except OSError as error:
        raise FormatError(f"{folder}: cannot be read ({error.strerror or error})") from None
    if not ours:
        raise FormatError(f"{folder}: is not the folder of a data set of an earlier run, so it is not replaced")


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
