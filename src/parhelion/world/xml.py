"""XML files, read as data: no document types, no entities, nothing fetched, limited size and depth."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Pose, quat_from_rpy
from parhelion.core.reading import read_bytes
from parhelion.world.mesh import LARGEST_COORDINATE_M

LARGEST_FILE_BYTES = 32 * 1024 * 1024
"""Robots with hundreds of links stay below one MiB, because meshes are in separate files."""
_DECLARATION = re.compile(r"<!(DOCTYPE|ENTITY)", re.IGNORECASE)


def guarded_text(file: Path, largest_bytes: int = LARGEST_FILE_BYTES, what: str = "a robot or a mesh as XML") -> str:
    """Return the text of an XML file; document types and entities are refused.

    An entity can expand to a file of the machine, or to gigabytes. The check is made on the decoded text, so no
    encoding can hide a declaration.
    """
    content = read_bytes(file, ConfigError, largest=largest_bytes, what=what)
    if not content.strip():
        raise FormatError(f"{file}: is empty")
    if b"\0" in content:
        raise FormatError(f"{file}: is not XML text in UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")  # older files, for example with an author's name
    found = _DECLARATION.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        raise FormatError(f"{file}: line {line}: <!{found[1].upper()} is not allowed here, remove it")
    return text


DEEPEST_NESTING = 64
"""Largest depth of elements; URDF with Gazebo blocks needs about ten levels."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class _Builder(ElementTree.TreeBuilder):
    """Tree builder that refuses trees that are too deep."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file, self._depth = file, 0

    def start(self, tag: str, attrs: dict[str, str], /) -> ElementTree.Element:  # type: ignore[override]
        self._depth += 1
        if self._depth > DEEPEST_NESTING:
            raise FormatError(f"{self._file}: element <{tag}> is nested deeper than {DEEPEST_NESTING} levels")
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> ElementTree.Element:
        self._depth -= 1
        return super().end(tag)


def parse_xml(file: Path, text: str) -> ElementTree.Element:
    """Return the element tree of a text from `guarded_text`."""
    parser = ElementTree.XMLParser(target=_Builder(file))
    try:
        # Text instead of bytes, so that the parser ignores an encoding that the file declares.
        parser.feed(text)
        root: ElementTree.Element = parser.close()
    except ElementTree.ParseError as error:
        line, column = error.position
        reason = str(error).partition(":")[0]
        raise FormatError(f"{file}: line {line}, column {column + 1}: not whole XML ({reason})") from None
    except ValueError as error:
        raise FormatError(f"{file}: not whole XML ({error})") from None
    return root


@dataclass(frozen=True, eq=False)
class Node:
    """An element with its file and place, for error messages."""

    element: ElementTree.Element
    file: Path
    place: str = ""
    """Place in the file, for example "link 'base': visual 1"."""

    @property
    def tag(self) -> str:
        """Name of the element."""
        return self.element.tag

    def fail(self, problem: str) -> ConfigError:
        """Return an error with the file and the element."""
        return ConfigError(f"{self.where}: {problem}")

    @property
    def where(self) -> str:
        """File and element, the prefix of messages."""
        return f"{self.file}: {self.place}" if self.place else str(self.file)

    def children(self, tag: str | None = None) -> list[Node]:
        """Return the direct children with this name, or all."""
        found = [child for child in self.element if tag is None or child.tag == tag]
        return [Node(child, self.file, self._name(child, row, len(found))) for row, child in enumerate(found)]

    def child(self, tag: str) -> Node | None:
        """Return the first direct child with this name, or None."""
        found = self.children(tag)
        return found[0] if found else None

    def needed(self, tag: str) -> Node:
        """Return the first direct child with this name; it is required."""
        found = self.child(tag)
        if found is None:
            raise self.fail(f"needs an element <{tag}>")
        return found

    def _name(self, child: ElementTree.Element, row: int, count: int) -> str:
        name = child.get("name") or child.get("reference")
        tag = child.tag.rpartition("}")[2]
        own = f"{tag} {name!r}" if name else f"{tag} {row + 1}" if count > 1 else tag
        return f"{self.place}: {own}" if self.place else own

    def attribute(self, name: str) -> str:
        """Return an attribute; it is required and must not be blank."""
        value = (self.element.get(name) or "").strip()
        if not value:
            raise self.fail(f"needs the attribute {name}")
        return value

    def numbers(self, name: str, count: int, default: Sequence[float] | None = None) -> tuple[float, ...]:
        """Return an attribute of `count` finite numbers; it is required unless there is a default."""
        value = self.element.get(name)
        if value is None:
            if default is None:
                raise self.fail(f"needs the attribute {name}")
            return tuple(default)
        return self._parsed(name, value, count)

    def text_numbers(self, count: int) -> tuple[float, ...]:
        """Return the text of the element as `count` finite numbers."""
        return self._parsed("its text", self.element.text or "", count)

    def number(self, name: str, default: float | None = None) -> float:
        """Return an attribute of one finite number."""
        return self.numbers(name, 1, None if default is None else (default,))[0]

    def positive(self, name: str, count: int = 1) -> tuple[float, ...]:
        """Return an attribute of `count` positive numbers."""
        values = self.numbers(name, count)
        if not all(0 < value <= LARGEST_COORDINATE_M for value in values):
            raise self.fail(f"{name} must be positive, and at most 1e9 m, got {self.element.get(name)!r}")
        return values

    def _parsed(self, name: str, value: str, count: int) -> tuple[float, ...]:
        words = value.split()
        numbers = tuple(float(word) for word in words if _NUMBER.fullmatch(word))
        if len(words) != count or len(numbers) != count or not np.all(np.isfinite(numbers)):
            allowed = "a finite number" if count == 1 else f"{count} finite numbers"
            raise self.fail(f"{name} must be {allowed}, got {value[:80]!r}")
        return numbers

    def origin(self) -> Pose:
        """Return the pose of the child <origin>; the identity without one."""
        origin = self.child("origin")
        if origin is None:
            return Pose()
        return origin.pose(origin.numbers("xyz", 3, (0, 0, 0)), origin.numbers("rpy", 3, (0, 0, 0)))

    def pose(self, xyz: Sequence[float], rpy_rad: Sequence[float]) -> Pose:
        """Return the pose of a position [m] and angles [rad] about fixed x, y, z."""
        if max(abs(value) for value in xyz) > LARGEST_COORDINATE_M:
            raise self.fail(f"its position must lie within {LARGEST_COORDINATE_M:g} m, got {list(xyz)}")
        return Pose(xyz, quat_from_rpy(*rpy_rad))
