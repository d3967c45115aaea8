"""CSV: a header line with the column names, then one line a point.

Fields of several columns are `velocity_x`, `velocity_y`, `velocity_z`. Types of the usual fields come from the
table `parhelion.core.records.FIELDS`; other columns are int64 where they look whole, else float64, and the
coordinates are float64. With `describe=True` the file starts with a comment line that also keeps the exact types,
the frame, the name tables and the metadata (read it elsewhere with `pandas.read_csv(path, comment="#")`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError
from parhelion.core.records import FIELDS, PointCloud
from parhelion.io.atomic import atomic_write
from parhelion.io.columns import column_names, join, split
from parhelion.io.description import Description, from_comments, to_json
from parhelion.io.source import read_bytes
from parhelion.io.text_table import format_rows, parse_rows

_USUAL_TYPES = {
    column: spec.dtype
    for name, spec in FIELDS.items()
    for column in ((name,) if spec.columns == 1 else column_names(name, spec.columns))
}


def read(path: Path) -> PointCloud:
    """Read a table whose header names at least the columns x, y and z [m]."""
    data = read_bytes(path)
    if not data.strip():
        raise FormatError(f"{path}: the file is empty")
    comments, names, body = _parse_head(data, path)
    description = from_comments(comments, path)
    values = _parse_body(body, names, description, path)
    return join(dict(zip(names, values, strict=True)), path, description)


def _parse_head(data: bytes, path: Path) -> tuple[list[str], list[str], bytes]:
    comments: list[str] = []
    position = 3 if data.startswith(b"\xef\xbb\xbf") else 0  # the mark that spreadsheets put before UTF-8
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
    if len(set(names)) < len(names) or not {"x", "y", "z"} <= set(names):
        raise FormatError(f"{path}: the first line must name the columns, x,y,z among them, got {line[:60]!r}")
    return comments, names, data[position:]


def _parse_body(body: bytes, names: list[str], description: Description | None, path: Path) -> list[NDArray[Any]]:
    known = _USUAL_TYPES if description is None else _described_types(description)
    first = body.lstrip().split(b"\n", 1)[0].split(b",")
    whole = [re.fullmatch(rb"\s*[+-]?[0-9]{1,18}\s*", cell) is not None for cell in first]
    guess = dict(zip(names, ["int64" if yes else "float64" for yes in whole], strict=False))
    guess |= dict.fromkeys("xyz", "float64")
    types = [np.dtype(known.get(name, guess.get(name, "float64"))) for name in names]
    try:
        return parse_rows(body, types, None, path, ",")
    except FormatError:
        # The first row misled, or a usual name means something else in this file: everything as float64.
        return parse_rows(body, [np.dtype(np.float64)] * len(names), None, path, ",")


def _described_types(description: Description) -> dict[str, str]:
    types = {part: entry.dtype for entry in description.layout.values() for part in entry.columns}
    return {part: "uint8" if dtype == "bool" else dtype for part, dtype in types.items()}


def write(cloud: PointCloud, path: Path, *, describe: bool = False) -> tuple[str, ...]:
    """Write a table with every digit that matters; returns the names of fields left out (those not numbers).

    `describe` puts a comment line with types, frame, names and metadata before the header.
    """
    table = split(cloud, path)
    bad = [name for name in table.columns if not re.fullmatch(r"[^,\"'#\s]+( +[^,\"'#\s]+)*", name)]
    if bad:
        raise FormatError(f"{path}: CSV cannot hold a field called {bad[0]!r}; names have no commas or quotes")
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        if describe:
            file.write(f"# parhelion {to_json(cloud, path, table.layout)}\n".encode("ascii"))
        file.write((",".join(table.columns) + "\n").encode("utf-8"))
        file.writelines(format_rows(list(table.columns.values()), ","))
    return table.dropped
