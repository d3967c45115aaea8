"""CSV: a header line with the column names, then one line per point.

Fields with several columns are `velocity_x`, `velocity_y`, `velocity_z`. The types of standard fields come from
`parhelion.core.clouds.FIELDS`. Other columns are int64 if their first value is an integer, float64 otherwise;
coordinates are float64. With `describe=True` the file starts with a comment line that stores the exact types, the
frame, the name tables and the metadata (other programs: `pandas.read_csv(path, comment="#")`).
"""

from __future__ import annotations

import io
import itertools
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import FIELDS, PointCloud
from parhelion.core.errors import FormatError
from parhelion.core.files import atomic_write
from parhelion.core.reading import read_bytes
from parhelion.io.columns import Description, cast, column_names, from_comments, join, split, to_json

# ---- rows of numbers as text, without a Python loop over rows -------------------------------------------------------


_ROWS_AT_ONCE = 16384


def _value_format(dtype: np.dtype[Any]) -> str:
    # Enough digits to read back the same bits: nine for float32, the shortest exact form for float64.
    if dtype.kind == "f":
        return "%.9g" if dtype.itemsize == 4 else "%r"
    return "%d"


def format_rows(columns: Sequence[NDArray[Any]], separator: str) -> Iterator[bytes]:
    """Text of the table in chunks of many rows; every value reads back bit for bit."""
    row = separator.join(_value_format(column.dtype) for column in columns) + "\n"
    for start in range(0, len(columns[0]), _ROWS_AT_ONCE):
        lists = [column[start : start + _ROWS_AT_ONCE].tolist() for column in columns]
        # One format call for the whole chunk: the values are interleaved and converted in C.
        values = tuple(itertools.chain.from_iterable(zip(*lists, strict=True)))
        yield ((row * len(lists[0])) % values).encode("ascii")


def parse_rows(
    data: bytes, dtypes: Sequence[np.dtype[Any]], rows: int | None, path: Path, separator: str | None = None
) -> list[NDArray[Any]]:
    """Parse the first `rows` rows (None: all) of a text table into one array per column, with the given types.

    Columns are separated by `separator`, or by white space if it is None. Blank lines are skipped.
    """
    if rows == 0 or (rows is None and not data.strip()):
        return [np.empty(0, dtype) for dtype in dtypes]
    # Checked before parsing, because the parser allocates memory for all rows at once.
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    if rows is not None and lines < rows:
        raise FormatError(f"{path}: truncated, the header declares {rows} rows and the file has at most {lines}")
    # 64-bit integers would lose digits in a float64. All other types are parsed as float64, "3.0" as well as "3".
    exact = [dtype if dtype.kind in "iu" and dtype.itemsize == 8 else np.dtype(np.float64) for dtype in dtypes]
    record = np.dtype([(str(i), dtype) for i, dtype in enumerate(exact)])
    text = io.StringIO(data.decode("latin-1"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # NumPy warns of blank lines, which are allowed here
            # NumPy 1 truncates fractions in integer columns and only warns; here that is an error.
            warnings.simplefilter("error", DeprecationWarning)
            table = np.loadtxt(text, record, comments=None, delimiter=separator, max_rows=rows, ndmin=1)
    except (ValueError, OverflowError, DeprecationWarning) as error:
        raise FormatError(f"{path}: the table of points is damaged ({_first_line(error)})") from None
    if rows is not None and len(table) < rows:
        raise FormatError(f"{path}: truncated, the header declares {rows} rows and the file has {len(table)}")
    return [cast(table[str(i)], dtype.name, str(i + 1), path) for i, dtype in enumerate(dtypes)]


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".;") if str(error) else type(error).__name__


# ---- csv table ------------------------------------------------------------------------------------------------------


_DEFAULT_TYPES = {
    column: spec.dtype
    for name, spec in FIELDS.items()
    for column in ((name,) if spec.columns == 1 else column_names(name, spec.columns))
}


def read(path: Path) -> PointCloud:
    """Read a table whose header names at least the columns x, y and z [m]."""
    data = read_bytes(path)
    if not data.strip():
        raise FormatError(f"{path}: the file is empty")
    comments, names, body = table_head(data, path)
    if not {"x", "y", "z"} <= set(names):
        line = ",".join(names)
        raise FormatError(f"{path}: the first line must name the columns, including x,y,z, got {line[:60]!r}")
    description = from_comments(comments, path)
    values = _parse_body(body, names, description, path)
    return join(dict(zip(names, values, strict=True)), path, description)


def table_head(data: bytes, path: Path) -> tuple[list[str], list[str], bytes]:
    """Comment lines without the leading `#`, names of the columns, and the text of the rows."""
    comments: list[str] = []
    position = 3 if data.startswith(b"\xef\xbb\xbf") else 0  # byte-order mark, as spreadsheets write it
    while True:
        stop = data.find(b"\n", position)
        stop = len(data) if stop < 0 else stop
        line = data[position:stop].decode("utf-8", "replace").strip()
        position = stop + 1
        if line.startswith("#"):
            comments.append(line[1:])
        elif line or position >= len(data):
            break
    names = [name.strip().strip("\"'") for name in line.split(",")]
    if len(set(names)) < len(names):
        raise FormatError(f"{path}: the first line must name the columns, each once, got {line[:60]!r}")
    return comments, names, data[position:]


def _parse_body(body: bytes, names: list[str], description: Description | None, path: Path) -> list[NDArray[Any]]:
    known = _DEFAULT_TYPES if description is None else _described_types(description)
    first = body.lstrip().split(b"\n", 1)[0].split(b",")
    whole = [re.fullmatch(rb"\s*[+-]?[0-9]{1,18}\s*", cell) is not None for cell in first]
    guess = dict(zip(names, ["int64" if yes else "float64" for yes in whole], strict=False))
    guess |= dict.fromkeys("xyz", "float64")
    types = [np.dtype(known.get(name, guess.get(name, "float64"))) for name in names]
    try:
        return parse_rows(body, types, None, path, ",")
    except FormatError:
        # The guess from the first row was wrong, or a standard name has another meaning here: parse all as float64.
        return parse_rows(body, [np.dtype(np.float64)] * len(names), None, path, ",")


def _described_types(description: Description) -> dict[str, str]:
    types = {part: entry.dtype for entry in description.layout.values() for part in entry.columns}
    return {part: "uint8" if dtype == "bool" else dtype for part, dtype in types.items()}


def write(cloud: PointCloud, path: Path, *, describe: bool = False) -> tuple[str, ...]:
    """Write a lossless table and return the names of skipped fields (those that are not numbers).

    `describe` writes a comment line with types, frame, names and metadata before the header.
    """
    table = split(cloud, path)
    bad = [name for name in table.columns if not re.fullmatch(r"[^,\"'#\s]+( +[^,\"'#\s]+)*", name)]
    if bad:
        raise FormatError(f"{path}: CSV cannot store a field called {bad[0]!r}; names have no commas or quotes")
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        if describe:
            file.write(f"# parhelion {to_json(cloud, path, table.layout)}\n".encode("ascii"))
        file.write((",".join(table.columns) + "\n").encode("utf-8"))
        file.writelines(format_rows(list(table.columns.values()), ","))
    return table.dropped
