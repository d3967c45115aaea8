"""Where the mesh files of a robot are: `package://`, `file://` and plain paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from parhelion.core.errors import ConfigError, ParhelionError
from parhelion.world.urdf.xml import parse_xml
from parhelion.world.xml_text import guarded_text

Packages = Mapping[str, "str | PathLike[str]"]
"""Folder of each package, by the package's name."""


class MeshPaths:
    """Finds the files that one URDF names, in the folders it was given and in those above the URDF itself."""

    def __init__(self, file: Path, packages: Packages | None) -> None:
        self.file = file
        self.packages = _checked(packages)
        # A workspace may hold links to files that lie elsewhere: both places count, the named one first.
        homes = dict.fromkeys([file.absolute().parent, file.resolve().parent])
        self.above = list(dict.fromkeys(folder for home in homes for folder in (home, *home.parents)))
        self._names: dict[Path, str | None] = {}

    def find(self, uri: str, where: str) -> Path:
        """The file that `uri` names; `where` is the element for the message."""
        scheme, mark, rest = uri.strip().replace("\\", "/").partition("://")
        if not mark:
            scheme, rest = "", scheme
        if scheme in ("package", "model"):
            return self._in_package(rest, uri, where)
        if scheme == "file":
            rest = unquote(rest)
        elif scheme:
            raise ConfigError(f"{where}: filename {uri!r}: only package://, model://, file:// and plain paths are read")
        for folder in self.above:
            # An absolute path stays what it is when joined.
            if _is_file(folder / rest):
                return folder / rest
        raise ConfigError(f"{where}: filename {uri!r}: no such file in {self.above[0]} or a folder above it")

    def _in_package(self, rest: str, uri: str, where: str) -> Path:
        package, _, inside = rest.partition("/")
        if package in self.packages:
            path = self.packages[package] / inside
            if not _is_file(path):
                raise ConfigError(f"{where}: filename {uri!r}: no such file {path}")
            return path
        searched = []
        for folder in self._folders(package):
            if _is_file(folder / inside):
                return folder / inside
            searched.append(folder)
        if searched:
            raise ConfigError(f"{where}: filename {uri!r}: no such file {searched[0] / inside}")
        raise ConfigError(
            f"{where}: filename {uri!r}: no package {package!r} at or above {self.above[0]}; "
            f"pass packages={{{package!r}: its folder}}"
        )

    def _folders(self, package: str) -> Iterator[Path]:
        """Folders that may be the package, nearest first: by their name, by their package.xml, or beside the way up."""
        for folder in self.above:
            if folder.name == package or self._name_of(folder) == package:
                yield folder
            if package and _is_folder(folder / package):
                yield folder / package

    def _name_of(self, folder: Path) -> str | None:
        """The name that a folder's package.xml gives it."""
        if folder not in self._names:
            self._names[folder] = None
            manifest = folder / "package.xml"
            if _is_file(manifest):
                try:
                    name = parse_xml(manifest, guarded_text(manifest)).findtext("name")
                except ParhelionError:
                    name = None  # somebody else's file on the way up is no reason to stop
                self._names[folder] = name.strip() if name else None
        return self._names[folder]


def _checked(packages: Any) -> dict[str, Path]:
    if packages is None:
        return {}
    if not isinstance(packages, Mapping):
        raise ConfigError(f"packages: must map names of packages to folders, got {type(packages).__name__}")
    folders = {}
    for name, folder in packages.items():
        if not isinstance(name, str) or not isinstance(folder, (str, PathLike)) or not _is_folder(Path(folder)):
            raise ConfigError(f"packages: {name!r} must name a folder that exists, got {str(folder)!r}")
        folders[name] = Path(folder)
    return folders


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # names too long, or with a null character
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
