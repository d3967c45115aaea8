"""PCD, the Point Cloud Library's format, version 0.7: ascii, binary and binary_compressed.

Fields with several columns are stored as `velocity_x`, `velocity_y`, `velocity_z`; an (n, 3) uint8 `rgb` as PCL's
packed `rgb`. Comment lines, which other programs skip, store frame, name tables and metadata.
Source: https://pcl.readthedocs.io/projects/tutorials/en/latest/pcd_file_format.html
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import FormatError, unknown_name
from parhelion.core.files import atomic_write
from parhelion.core.reading import read_bytes
from parhelion.io.columns import (
    Columns,
    as_rows,
    comment_lines,
    from_comments,
    join,
    packed_rgb,
    split,
    to_json,
    unpacked_rgb,
)
from parhelion.io.csv_table import format_rows, parse_rows

ENCODINGS = ("binary", "binary_compressed", "ascii")

_KEYWORDS = ("VERSION", "FIELDS", "COLUMNS", "SIZE", "TYPE", "COUNT", "WIDTH", "HEIGHT", "VIEWPOINT", "POINTS", "DATA")
_TYPES = {(kind, size): f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)}
_TYPES |= {("F", 4): "<f4", ("F", 8): "<f8"}
_NO_VIEWPOINT = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
_PADDING = "_"
# The largest descriptors of PCL have about 2000 values per point; far more indicates a damaged header.
_MOST_COLUMNS = 65536


@dataclass(frozen=True)
class _Field:
    name: str
    dtype: np.dtype[Any]
    count: int

    @property
    def size(self) -> int:
        return self.dtype.itemsize * self.count


@dataclass(frozen=True)
class _Header:
    fields: tuple[_Field, ...]
    points: int
    height: int
    viewpoint: list[float]
    encoding: str
    comments: list[str]
    data_start: int

    @property
    def row_size(self) -> int:
        return sum(field.size for field in self.fields)


def read(path: Path) -> PointCloud:
    """Read a PCD file of any encoding.

    Organised clouds (HEIGHT > 1) are flattened row by row, and `metadata['organised']` is their [height, width].
    A VIEWPOINT other than the default becomes `metadata['viewpoint']`: x y z [m] and quaternion w x y z. Points with
    NaN coordinates are included; padding fields are skipped.
    """
    data = read_bytes(path)
    header = _parse_header(data, path)
    decode = {"ascii": _decode_ascii, "binary": _decode_binary, "binary_compressed": _decode_compressed}
    columns: Columns = {}
    for field, values in zip(header.fields, decode[header.encoding](data, header, path), strict=True):
        if field.name != _PADDING:
            columns.update(_named_columns(field, values))
    cloud = join(columns, path, from_comments(header.comments, path))
    extra: dict[str, Any] = {}
    if header.viewpoint != _NO_VIEWPOINT:
        extra["viewpoint"] = header.viewpoint
    if header.height > 1:
        extra["organised"] = [header.height, header.points // header.height]
    return replace(cloud, metadata={**cloud.metadata, **extra}) if extra else cloud


def _named_columns(field: _Field, values: NDArray[Any]) -> Columns:
    if field.name in ("rgb", "rgba") and field.size == 4 and field.count == 1:
        return unpacked_rgb(field.name, values)
    return {field.name: values}


def _parse_header(data: bytes, path: Path) -> _Header:
    entries: dict[str, list[str]] = {}
    comments: list[str] = []
    position = 0
    while "DATA" not in entries:
        stop = data.find(b"\n", position)
        if stop < 0:
            what = "the header ends before its DATA line" if entries else "this is not a PCD file"
            raise FormatError(f"{path}: {what if data else 'the file is empty'}")
        line = data[position:stop].decode("latin-1").strip()
        position = stop + 1
        if line.startswith("#"):
            comments.append(line[1:])
        elif line:
            keyword, *values = line.split()
            if keyword not in _KEYWORDS:
                raise FormatError(f"{path}: this is not a PCD file (unknown header line {line[:40]!r})")
            entries["FIELDS" if keyword == "COLUMNS" else keyword] = values
    fields = _parse_fields(entries, path)
    points, height = _parse_counts(entries, path)
    encoding = " ".join(entries["DATA"]).lower()
    if encoding not in ENCODINGS:
        raise FormatError(f"{path}: DATA must be one of {', '.join(ENCODINGS)}, got {encoding[:40]!r}")
    return _Header(fields, points, height, _parse_viewpoint(entries, path), encoding, comments, position)


def _parse_fields(entries: dict[str, list[str]], path: Path) -> tuple[_Field, ...]:
    names = entries.get("FIELDS", [])
    if not names:
        raise FormatError(f"{path}: the header has no FIELDS")
    columns = []
    for keyword, default in (("SIZE", "4"), ("TYPE", "F"), ("COUNT", "1")):
        values = entries.get(keyword, [default] * len(names))
        if len(values) != len(names):
            raise FormatError(f"{path}: {keyword} has {len(values)} entries for {len(names)} FIELDS")
        columns.append(values)
    fields = []
    for name, size, kind, count in zip(names, *columns, strict=True):
        code = _TYPES.get((kind.upper(), _whole(size, "SIZE", path)))
        if code is None:
            raise FormatError(f"{path}: field {name!r} has the unknown TYPE {kind!r} of SIZE {size}")
        repeat = _whole(count, "COUNT", path)
        if not 1 <= repeat <= _MOST_COLUMNS:
            raise FormatError(f"{path}: field {name!r} has COUNT {count}, allowed are 1 to {_MOST_COLUMNS}")
        fields.append(_Field(name, np.dtype(code), repeat))
    if sum(field.count for field in fields) > _MOST_COLUMNS:
        raise FormatError(f"{path}: a point has more than {_MOST_COLUMNS} values")
    seen: set[str] = set()
    for name in names:
        if name in seen and name != _PADDING:
            raise FormatError(f"{path}: the field {name!r} appears twice")
        seen.add(name)
    return tuple(fields)


def _parse_counts(entries: dict[str, list[str]], path: Path) -> tuple[int, int]:
    """Number of points and height."""
    numbers = {}
    for keyword in ("WIDTH", "HEIGHT", "POINTS"):
        if keyword in entries:
            numbers[keyword] = _whole(" ".join(entries[keyword]), keyword, path)
    height = numbers.get("HEIGHT", 1)
    if "WIDTH" not in numbers and "POINTS" not in numbers:
        raise FormatError(f"{path}: the header has neither WIDTH nor POINTS")
    if "WIDTH" not in numbers:
        return numbers["POINTS"], 1
    points = numbers["WIDTH"] * height
    if numbers.get("POINTS", points) != points:
        raise FormatError(f"{path}: POINTS is {numbers['POINTS']}, but WIDTH times HEIGHT is {points}")
    return points, height


def _parse_viewpoint(entries: dict[str, list[str]], path: Path) -> list[float]:
    if "VIEWPOINT" not in entries:
        return _NO_VIEWPOINT
    try:
        viewpoint = [float(value) for value in entries["VIEWPOINT"]]
    except ValueError:
        viewpoint = []
    if len(viewpoint) != 7:
        raise FormatError(f"{path}: VIEWPOINT must be seven numbers")
    return viewpoint


def _whole(text: str, keyword: str, path: Path) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise FormatError(f"{path}: {keyword} must be a non-negative integer, got {text[:40]!r}")
    return int(text)


def _decode_ascii(data: bytes, header: _Header, path: Path) -> list[NDArray[Any]]:
    dtypes = [field.dtype for field in header.fields for _ in range(field.count)]
    parsed = iter(parse_rows(data[header.data_start :], dtypes, header.points, path))
    columns = []
    for field in header.fields:
        values = [next(parsed) for _ in range(field.count)]
        columns.append(values[0] if field.count == 1 else np.stack(values, axis=1))
    return columns


def _need(size: int, data: bytes, start: int, header: _Header, path: Path) -> None:
    if len(data) - start < size:
        raise FormatError(
            f"{path}: truncated, {header.points} points need {size} bytes, the file has {max(len(data) - start, 0)}"
        )


def _decode_binary(data: bytes, header: _Header, path: Path) -> list[NDArray[Any]]:
    _need(header.points * header.row_size, data, header.data_start, header, path)
    shapes = [(str(i), field.dtype, field.count) for i, field in enumerate(header.fields)]
    record = np.dtype([(n, d) if count == 1 else (n, d, (count,)) for n, d, count in shapes])
    rows = np.frombuffer(data, record, header.points, header.data_start)
    return [np.ascontiguousarray(rows[str(i)]) for i in range(len(header.fields))]


def _decode_compressed(data: bytes, header: _Header, path: Path) -> list[NDArray[Any]]:
    size = header.points * header.row_size
    raw = b""
    if size:
        _need(8, data, header.data_start, header, path)
        packed_size, declared = struct.unpack_from("<II", data, header.data_start)
        if declared != size:
            raise FormatError(f"{path}: {header.points} points are {size} bytes, but {declared} are compressed")
        start = header.data_start + 8
        _need(packed_size, data, start, header, path)
        if size > packed_size * LARGEST_EXPANSION:
            raise FormatError(f"{path}: {packed_size} compressed bytes cannot expand to {size} bytes")
        try:
            raw = decompress(data[start : start + packed_size], size)
        except ValueError as error:
            raise FormatError(f"{path}: the compressed data are damaged ({error})") from None
    columns, offset = [], 0
    for field in header.fields:  # stored field by field, unlike the rows of `binary`
        values = np.frombuffer(raw, field.dtype, header.points * field.count, offset)
        columns.append(values if field.count == 1 else values.reshape(-1, field.count))
        offset += field.size * header.points
    return columns


def write(cloud: PointCloud, path: Path, *, encoding: str = "binary") -> tuple[str, ...]:
    """Write a PCD file and return the names of skipped fields (those that are not numbers).

    `encoding` is 'binary', 'binary_compressed' or 'ascii'. `metadata['viewpoint']`, seven numbers, is written as
    VIEWPOINT.
    """
    if encoding not in ENCODINGS:
        raise unknown_name("PCD encoding", encoding, ENCODINGS)
    table = split(cloud, path)
    layout = dict(table.layout)
    columns = _with_packed_rgb(cloud, table.columns)
    if columns is not table.columns:
        del layout["rgb"]
    bad = [name for name in columns if name == _PADDING or not re.fullmatch(r"[!-~]+", name)]
    if bad:
        raise FormatError(f"{path}: PCD cannot store a field called {bad[0]!r}; names are ASCII without spaces")
    head = _header_text(columns, cloud, encoding, comment_lines(to_json(cloud, path, layout)), path)
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.write(head.encode("ascii"))
        if encoding == "ascii":
            file.writelines(format_rows([_printable(name, column) for name, column in columns.items()], " "))
        elif encoding == "binary":
            as_rows(columns).tofile(file)
        else:
            file.write(_compressed(list(columns.values()), path))
    return table.dropped


def _with_packed_rgb(cloud: PointCloud, columns: Columns) -> Columns:
    colour = cloud.fields.get("rgb")
    if colour is None or colour.dtype != np.uint8 or colour.shape[1:] != (3,):
        return columns
    result = {name: column for name, column in columns.items() if name not in ("rgb_x", "rgb_y", "rgb_z")}
    return {**result, "rgb": packed_rgb(colour)}


def _printable(name: str, column: NDArray[Any]) -> NDArray[Any]:
    # As in PCL: packed colours are bit patterns, some of them NaN, so they are printed as integers.
    return np.ascontiguousarray(column).view("<u4") if name == "rgb" and column.dtype == np.float32 else column


def _header_text(columns: Columns, cloud: PointCloud, encoding: str, comments: list[str], path: Path) -> str:
    viewpoint = cloud.metadata.get("viewpoint", _NO_VIEWPOINT)
    try:
        numbers = [float(value) for value in viewpoint]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != 7:
        raise FormatError(f"{path}: metadata 'viewpoint' must be seven numbers, got {viewpoint!r}")
    stored = [_printable(n, c).dtype if encoding == "ascii" else c.dtype for n, c in columns.items()]
    lines = [
        "# .PCD v0.7 - Point Cloud Data file format",
        *(f"# {line}" for line in comments),
        "VERSION 0.7",
        "FIELDS " + " ".join(columns),
        "SIZE " + " ".join(str(dtype.itemsize) for dtype in stored),
        "TYPE " + " ".join(dtype.kind.upper() for dtype in stored),
        "COUNT " + " ".join("1" for _ in stored),
        f"WIDTH {len(cloud)}",
        "HEIGHT 1",
        "VIEWPOINT " + " ".join(f"{number:.17g}" for number in numbers),
        f"POINTS {len(cloud)}",
        f"DATA {encoding}",
    ]
    return "\n".join(lines) + "\n"


def _compressed(columns: list[NDArray[Any]], path: Path) -> bytes:
    packed = b"".join(compress(column.tobytes(), column.dtype.itemsize) for column in columns)
    size = sum(column.nbytes for column in columns)
    if max(size, len(packed)) >= 1 << 32:
        raise FormatError(f"{path}: binary_compressed PCD is limited to 4 GiB; use encoding='binary'")
    return struct.pack("<II", len(packed), size) + packed


# ---- LZF ------------------------------------------------------------------------------------------------------------
# The compression of `binary_compressed`, as of liblzf 3.6. A stream is a sequence of tokens. A first byte c < 32 is
# followed by c + 1 literal bytes. Any other first byte is a copy: its upper three bits are the length minus 2 (7: the
# next byte is added), its lower five bits and the next byte are the distance minus 1, up to 8191.

LARGEST_EXPANSION = 88
"""Upper bound of output bytes per stream byte: the longest copy, 264 bytes, takes a token of 3 bytes."""
_LONGEST_LITERAL = 32
_LONGEST_COPY = 264
_SHORTEST_COPY = 4


def decompress(data: bytes, size: int) -> bytes:
    """Decompress `data` to `size` bytes with liblzf, which checks every bound. Raise ValueError if it is damaged."""
    from lzf import decompress as by_liblzf

    if not data and size == 0:
        return b""
    try:
        out: bytes | None = by_liblzf(data, size)
    except ValueError:
        raise ValueError("the stream is truncated, or copies from before its start") from None
    if out is None or len(out) != size:
        raise ValueError(f"it has {'more' if out is None else len(out)} bytes, the header declares {size}")
    return out


def compress(data: bytes, period: int) -> bytes:
    """Compress `data` to an LZF stream that only uses copies from `period` bytes before.

    With the element size as period, this compresses runs of equal values, which dominate lidar fields, in one pass of
    NumPy. The rest is stored unmodified, with an overhead of 1 byte in 32. Streams can be concatenated. liblzf
    compresses more and faster, but its output depends on its version.
    """
    if not 1 <= period <= 8192:
        raise ValueError(f"the period must be 1 to 8192 bytes, got {period}")
    raw = np.frombuffer(data, np.uint8)
    if raw.size == 0:
        return b""
    starts, lengths, copies = _tokens(_same_as_before(raw, period))
    heads = np.where(copies, np.where(lengths - 2 >= 7, 3, 2), 1)
    bodies = np.where(copies, 0, lengths)
    sizes = heads + bodies
    places = np.cumsum(sizes) - sizes
    out = np.empty(int(sizes.sum()), np.uint8)

    literal = ~copies
    out[places[literal]] = lengths[literal] - 1
    rows = np.repeat(np.flatnonzero(literal), lengths[literal])
    within = np.arange(rows.size) - np.repeat(np.cumsum(lengths[literal]) - lengths[literal], lengths[literal])
    out[places[rows] + 1 + within] = raw[starts[rows] + within]

    place, code = places[copies], lengths[copies] - 2
    high, low = (period - 1) >> 8, (period - 1) & 0xFF
    out[place] = (np.minimum(code, 7) << 5) | high
    long = code >= 7
    out[place[long] + 1] = code[long] - 7
    out[place + np.where(long, 2, 1)] = low
    return out.tobytes()


def _same_as_before(raw: NDArray[np.uint8], period: int) -> NDArray[np.bool_]:
    same = np.zeros(raw.size, bool)
    same[period:] = raw[period:] == raw[:-period]
    return same


def _tokens(same: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """Start, length and kind (copy or literal) of each token."""
    bounds = np.flatnonzero(np.diff(same)) + 1
    starts = np.concatenate([[0], bounds])
    lengths = np.diff(np.concatenate([starts, [same.size]]))
    copies = same[starts] & (lengths >= _SHORTEST_COPY)
    # Runs that are too short for a copy join the neighbouring literals.
    first = np.concatenate([[True], (copies[1:] != copies[:-1]) | copies[1:]])
    starts, copies = starts[first], copies[first]
    lengths = np.diff(np.concatenate([starts, [same.size]]))
    # Long runs are split at the largest length of a token; the last piece has the remaining length.
    largest = np.where(copies, _LONGEST_COPY, _LONGEST_LITERAL)
    pieces = -(-lengths // largest)
    run = np.repeat(np.arange(starts.size), pieces)
    number = np.arange(run.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    offset = number * largest[run]
    cut = np.minimum(lengths[run] - offset, largest[run])
    # The minimum length of a copy is three bytes; a shorter remainder becomes a literal.
    return starts[run] + offset, cut, copies[run] & (cut >= 3)
