"""PLY, the Stanford polygon format, ascii and binary: the `vertex` element as a cloud.

Other elements (faces, edges) are skipped. Normals are `nx ny nz`, colours `red green blue`, other fields with three
columns `velocity_x`, `velocity_y`, `velocity_z`. PLY has no 64-bit integers: they are stored in 32 bits or as double
if that is exact, and skipped otherwise. Comment lines store frame, name tables and metadata.
Source: http://paulbourke.net/dataformats/ply/
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import FormatError, unknown_name
from parhelion.core.files import atomic_write
from parhelion.core.reading import read_bytes
from parhelion.io.columns import as_rows, comment_lines, from_comments, join, numeric, split, to_json
from parhelion.io.csv_table import format_rows, parse_rows

ENCODINGS = ("binary", "ascii")

_TYPES = {
    "char": "i1",
    "uchar": "u1",
    "short": "i2",
    "ushort": "u2",
    "int": "i4",
    "uint": "u4",
    "float": "f4",
    "double": "f8",
}
_NAMES = {np.dtype(code): name for name, code in _TYPES.items()}
_TYPES |= {np.dtype(code).name: code for code in tuple(_TYPES.values())}  # int8, uint8, ... are in use as well
_SPELLING = {"normal": ("nx", "ny", "nz"), "rgb": ("red", "green", "blue")}
_LENGTH_CODES = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I"}
_BYTE_ORDER = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}


@dataclass(frozen=True)
class _Property:
    name: str
    dtype: np.dtype[Any]
    length: np.dtype[Any] | None = None
    """Type of the length that precedes a list; None for a single value."""


@dataclass(frozen=True)
class _Element:
    name: str
    count: int
    properties: list[_Property]

    @property
    def has_lists(self) -> bool:
        return any(entry.length is not None for entry in self.properties)


@dataclass(frozen=True)
class _Header:
    ascii: bool
    elements: list[_Element]
    comments: list[str]
    data_start: int


def read(path: Path) -> PointCloud:
    """Read the points of a PLY file of any encoding and byte order."""
    data = read_bytes(path)
    header = _parse_header(data, path)
    start = header.data_start
    for element in header.elements:
        if element.name == "vertex":
            break
        start = _after_lines(data, start, element, path) if header.ascii else _after(data, start, element, path)
    else:
        raise FormatError(f"{path}: has no vertex element, so it contains no points")
    names = [entry.name for entry in element.properties]
    if not names or element.has_lists or len(set(names)) < len(names):
        raise FormatError(f"{path}: its vertices have no properties, list properties, or a property twice")
    if header.ascii:
        values = parse_rows(data[start:], [entry.dtype for entry in element.properties], element.count, path)
    else:
        rows = _fixed_rows(data, start, element, path)
        values = [np.ascontiguousarray(rows[str(i)]) for i in range(len(names))]
    native = [column.astype(column.dtype.newbyteorder("="), copy=False) for column in values]
    return join(dict(zip(names, native, strict=True)), path, from_comments(header.comments, path))


def _parse_header(data: bytes, path: Path) -> _Header:
    if not re.match(rb"ply[ \t]*\r?\n", data):
        raise FormatError(f"{path}: {'this is not a PLY file' if data else 'the file is empty'}")
    order: str | None = None
    elements: list[_Element] = []
    comments: list[str] = []
    position = data.index(b"\n") + 1
    while True:
        stop = data.find(b"\n", position)
        if stop < 0:
            raise FormatError(f"{path}: the header has no end_header line")
        line = data[position:stop].decode("latin-1").strip()
        position = stop + 1
        keyword, _, rest = line.partition(" ")
        words = rest.split()
        if keyword == "end_header":
            break
        if keyword == "comment":
            comments.append(rest)
        elif keyword == "format" and words[:1] and words[0] in _BYTE_ORDER:
            order = _BYTE_ORDER[words[0]]
        elif keyword == "element" and len(words) == 2 and re.fullmatch(r"[0-9]{1,18}", words[1]):
            elements.append(_Element(words[0], int(words[1]), []))
        elif keyword == "property" and elements and order is not None:
            elements[-1].properties.append(_parse_property(words, order, path))
        elif line and keyword != "obj_info":
            raise FormatError(f"{path}: the header line {line[:60]!r} is not valid PLY")
    if order is None:
        raise FormatError(f"{path}: the header has no format line")
    return _Header(order == "", elements, comments, position)


def _parse_property(words: list[str], order: str, path: Path) -> _Property:
    types = words[1:-1] if words[:1] == ["list"] else words[:-1]
    unknown = [word for word in types if word not in _TYPES]
    if unknown or len(types) != (2 if words[:1] == ["list"] else 1):
        raise FormatError(f"{path}: the property {' '.join(words)[:60]!r} is not valid PLY")
    dtypes = [np.dtype(order + _TYPES[word]) for word in types]
    if len(dtypes) == 1:
        return _Property(words[-1], dtypes[0])
    if dtypes[0].kind == "f":
        raise FormatError(f"{path}: the list {words[-1]!r} has a length that is not a whole number")
    return _Property(words[-1], dtypes[1], dtypes[0])


def _truncated(element: _Element, path: Path) -> FormatError:
    return FormatError(f"{path}: truncated, some of the {element.count} rows of element {element.name!r} are missing")


def _fixed_rows(data: bytes, start: int, element: _Element, path: Path) -> NDArray[Any]:
    record = np.dtype([(str(i), entry.dtype) for i, entry in enumerate(element.properties)])
    if element.count * record.itemsize > len(data) - start:
        raise _truncated(element, path)
    return np.frombuffer(data, record, element.count, start)


def _after_lines(data: bytes, start: int, element: _Element, path: Path) -> int:
    """Offset after an ascii element, which has one line per row."""
    if element.count == 0:
        return start
    ends = np.flatnonzero(np.frombuffer(data, np.uint8, offset=start) == ord("\n"))
    if len(ends) < element.count:
        raise _truncated(element, path)
    return start + int(ends[element.count - 1]) + 1


def _after(data: bytes, start: int, element: _Element, path: Path) -> int:
    """Offset after a binary element."""
    if not element.has_lists:
        end = start + element.count * sum(entry.dtype.itemsize for entry in element.properties)
    else:
        end = _after_equal_rows(data, start, element) or _after_ragged_rows(data, start, element, path)
    if end > len(data):
        raise _truncated(element, path)
    return end


def _after_equal_rows(data: bytes, start: int, element: _Element) -> int | None:
    """Offset after an element whose lists all have the lengths of the first row (triangles); None for others."""
    size, lengths = 0, []  # bytes per row; offset, type and value of the length of each list
    for entry in element.properties:
        count = 1
        if entry.length is not None:
            if start + size + entry.length.itemsize > len(data):
                return None
            count = int(np.frombuffer(data, entry.length, 1, start + size)[0])
            lengths.append((size, entry.length, count))
            size += entry.length.itemsize
        size += count * entry.dtype.itemsize
        if count < 0 or start + size * element.count > len(data):
            return None
    rows = np.frombuffer(data, np.uint8, size * element.count, start).reshape(element.count, size)
    for offset, dtype, count in lengths:
        stored = np.ascontiguousarray(rows[:, offset : offset + dtype.itemsize]).view(dtype)
        if not np.all(stored == count):
            return None
    return start + size * element.count


def _after_ragged_rows(data: bytes, start: int, element: _Element, path: Path) -> int:
    """Offset after an element with lists of different lengths; each row must be visited to find the next."""
    steps, tail = _list_steps(element)
    position, end = start, len(data)
    if len(steps) == 1 and steps[0][1] is None:  # faces in the form that most programs write
        before, _, head, size = steps[0]
        fixed = before + head + tail
        try:
            for _ in range(element.count):
                position += fixed + size * data[position + before]
        except IndexError:
            raise _truncated(element, path) from None
        return position
    for _ in range(element.count):
        for before, read, head, size in steps:
            position += before
            if position + head > end:
                raise _truncated(element, path)
            count = data[position] if read is None else read(data, position)[0]
            position += head + count * size
            if count < 0 or position > end:
                raise FormatError(f"{path}: a list of element {element.name!r} claims {count} values")
        position += tail
    return position


def _list_steps(element: _Element) -> tuple[list[tuple[int, Callable[..., Any] | None, int, int]], int]:
    """Layout of the lists in a row, and the number of bytes after the last list.

    For each list: bytes before it, function that reads its length (None for a uint8), bytes of the length and of a
    value.
    """
    steps: list[tuple[int, Callable[..., Any] | None, int, int]] = []
    before = 0
    for entry in element.properties:
        if entry.length is None:
            before += entry.dtype.itemsize
            continue
        order = ">" if entry.length.byteorder == ">" else "<"
        code = order + _LENGTH_CODES[entry.length.str[1:]]
        read = None if entry.length == np.uint8 else struct.Struct(code).unpack_from
        steps.append((before, read, entry.length.itemsize, entry.dtype.itemsize))
        before = 0
    return steps, before


def write(cloud: PointCloud, path: Path, *, encoding: str = "binary") -> tuple[str, ...]:
    """Write a PLY file, `encoding` 'binary' (little-endian) or 'ascii'. Return the names of skipped fields."""
    if encoding not in ENCODINGS:
        raise unknown_name("PLY encoding", encoding, ENCODINGS)
    table = split(cloud, path, _stored, _SPELLING)
    bad = [name for name in table.columns if not re.fullmatch(r"[!-~]+", name)]
    if bad:
        raise FormatError(f"{path}: PLY cannot store a field called {bad[0]!r}; names are ASCII without spaces")
    head = [
        "ply",
        f"format {'ascii' if encoding == 'ascii' else 'binary_little_endian'} 1.0",
        *(f"comment {line}" for line in comment_lines(to_json(cloud, path, table.layout))),
        f"element vertex {len(cloud)}",
        *(f"property {_NAMES[column.dtype]} {name}" for name, column in table.columns.items()),
        "end_header",
    ]
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.write(("\n".join(head) + "\n").encode("ascii"))
        if encoding == "ascii":
            file.writelines(format_rows(list(table.columns.values()), " "))
        else:
            as_rows(table.columns).tofile(file)
    return table.dropped


def _stored(values: NDArray[Any]) -> NDArray[Any] | None:
    """Column in a type of PLY that represents every value exactly; None if there is none."""
    column = numeric(values)
    if column is None or column.dtype in _NAMES:
        return column
    for code in ("<i4", "<u4", "<f8"):
        with np.errstate(invalid="ignore"):
            candidate = column.astype(code)
            exact = np.array_equal(candidate.astype(column.dtype), column)
        # Beyond 2**53, a double may compare equal only because rounding saturates at the limit of the integer type.
        if exact and not np.any(np.abs(candidate.astype(np.float64)) > 2**53):
            return candidate
    return None
