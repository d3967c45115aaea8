"""Conversion of clouds to plain columns, for formats with one row of numbers per point, and back."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError, FormatError

# ---- description of a cloud as one line of JSON, for text headers and records ---------------------------------------


# Comment lines are well below the line buffers of other programs (1024 bytes in rply and Open3D).
_COMMENT_LENGTH = 400
_MARK = "parhelion "

DTYPES = frozenset(
    ["bool", "float16", "float32", "float64"] + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


@dataclass(frozen=True)
class FieldLayout:
    """Columns of a file that store a field, and its original type."""

    columns: tuple[str, ...]
    """Names of the columns, one per column of the field."""
    dtype: str
    """NumPy name of the field's type before it was stored."""
    flat: bool
    """True if the field has shape (n,), False for (n, number of columns)."""


@dataclass(frozen=True)
class Description:
    """Frame, name tables, metadata and field layout of a stored cloud."""

    frame: str = "sensor"
    names: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    layout: Mapping[str, FieldLayout] = field(default_factory=dict)
    extras: Mapping[str, Any] = field(default_factory=dict)
    """Values that only one format needs, for example the scale of LAS intensities."""


def plain_value(value: Any) -> Any:
    """Convert a value to a type that JSON supports. Raise TypeError if there is none."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(f"values of type {type(value).__name__} are not plain")


def to_json(
    cloud: PointCloud,
    path: Path,
    layout: Mapping[str, FieldLayout] | None = None,
    extras: Mapping[str, Any] | None = None,
) -> str:
    """Description of a cloud as one line of ASCII JSON without spaces."""
    data: dict[str, Any] = {
        "frame": cloud.frame,
        "names": {kind: {int(code): str(word) for code, word in table.items()} for kind, table in cloud.names.items()},
        "metadata": cloud.metadata,
        "layout": {
            name: {"columns": entry.columns[0] if entry.flat else list(entry.columns), "dtype": entry.dtype}
            for name, entry in (layout or {}).items()
        },
    }
    if extras:
        data["extras"] = extras
    try:
        text = json.dumps(data, default=plain_value, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{path}: the cloud's metadata cannot be written as JSON ({error})") from None
    # Spaces occur inside strings only. They are escaped, because some programs trim comment lines.
    return text.replace(" ", "\\u0020")


def from_json(text: str, path: Path) -> Description:
    """Parse a description. Raise FormatError if it is damaged."""
    try:
        data = json.loads(text)
        return Description(
            frame=_checked(data.get("frame", "sensor"), str),
            names={
                kind: {int(code): _checked(word, str) for code, word in table.items()}
                for kind, table in _checked(data.get("names", {}), dict).items()
            },
            metadata=_checked(data.get("metadata", {}), dict),
            layout={name: _field_layout(entry) for name, entry in _checked(data.get("layout", {}), dict).items()},
            extras=_checked(data.get("extras", {}), dict),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path}: its parhelion description is damaged ({error})") from None


def _checked(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value


def _field_layout(entry: Mapping[str, Any]) -> FieldLayout:
    columns, dtype = entry["columns"], entry["dtype"]
    if dtype not in DTYPES:
        raise ValueError(f"unknown type {dtype!r}")
    if isinstance(columns, str):
        return FieldLayout((columns,), dtype, flat=True)
    if not columns:
        raise ValueError("a field without columns")
    if len(set(columns)) < len(columns):
        raise ValueError("a field with the same column twice")
    return FieldLayout(tuple(_checked(name, str) for name in columns), dtype, flat=False)


def comment_lines(text: str) -> list[str]:
    """Split a description into comment lines, without the comment character of the format."""
    return [_MARK + text[i : i + _COMMENT_LENGTH] for i in range(0, len(text), _COMMENT_LENGTH)]


def from_comments(comments: Iterable[str], path: Path) -> Description | None:
    """Description in the comments of a file, given without the comment character; None if there is none."""
    pieces = [line.strip()[len(_MARK) :] for line in comments if line.strip().startswith(_MARK)]
    return from_json("".join(pieces), path) if pieces else None


# ---- columns --------------------------------------------------------------------------------------------------------


Columns = dict[str, NDArray[Any]]

Store = Callable[[NDArray[Any]], "NDArray[Any] | None"]
"""Function that converts a column to a type that the format supports, or returns None if there is none."""


class FieldsDroppedWarning(UserWarning):
    """A format cannot store some fields of a cloud, so they are missing in the file."""


@dataclass(frozen=True)
class Table:
    """Points of a cloud as columns of equal length, x, y and z first."""

    columns: Columns
    layout: dict[str, FieldLayout]
    dropped: tuple[str, ...]
    """Fields that the format cannot store."""


def column_names(field: str, count: int) -> tuple[str, ...]:
    """Names of the columns of an (n, count) field: `velocity_x`, `_y`, `_z` for three, otherwise `name_0`, ..."""
    suffixes = ("x", "y", "z") if count == 3 else tuple(str(i) for i in range(count))
    return tuple(f"{field}_{suffix}" for suffix in suffixes)


def numeric(values: NDArray[Any]) -> NDArray[Any] | None:
    """Convert to little-endian integers of 1 to 8 bytes or floats of 4 or 8; None for strings and objects."""
    if values.dtype.kind == "b":
        return values.astype(np.uint8)
    if values.dtype.kind == "f":
        return values.astype("<f4" if values.dtype.itemsize <= 4 else "<f8", copy=False)
    if values.dtype.kind in "iu":
        return values.astype(values.dtype.newbyteorder("<"), copy=False)
    return None


def split(
    cloud: PointCloud, path: Path, store: Store = numeric, spelling: Mapping[str, tuple[str, ...]] | None = None
) -> Table:
    """Split a cloud into columns. `spelling` holds column names of a format for fields with that many columns."""
    columns: Columns = {}
    layout: dict[str, FieldLayout] = {}
    dropped: list[str] = []
    for name, values in {"xyz": cloud.xyz, **cloud.fields}.items():
        if name == "xyz" and values is not cloud.xyz:
            raise FormatError(f"{path}: a field cannot be called 'xyz'")
        flat = values.ndim == 1
        count = 1 if flat else values.shape[1]
        special = ("x", "y", "z") if name == "xyz" else (spelling or {}).get(name, ())
        parts = (name,) if flat else special if len(special) == count else column_names(name, count)
        stored = [store(values if flat else values[:, i]) for i in range(count)]
        numbers = [column for column in stored if column is not None]
        if not numbers or len(numbers) < count or values.dtype.name not in DTYPES:
            dropped.append(name)
            continue
        clash = [part for part in parts if part in columns]
        if clash:
            raise FormatError(f"{path}: two fields of the cloud would be stored as the column {clash[0]!r}")
        columns.update(zip(parts, numbers, strict=True))
        layout[name] = FieldLayout(parts, values.dtype.name, flat)
    return Table(columns, layout, tuple(dropped))


def as_rows(columns: Columns) -> NDArray[Any]:
    """Columns as a structured array with one packed record per point, the layout of binary formats."""
    rows = np.empty(len(columns["x"]), np.dtype([(name, column.dtype) for name, column in columns.items()]))
    for name, column in columns.items():
        rows[name] = column
    return rows


def as_float32(values: NDArray[Any], name: str, path: Path) -> NDArray[np.float32]:
    """Convert a field for formats that support float32 only. Raise FormatError if a value is too large."""
    if values.dtype.kind not in "biuf":
        raise FormatError(f"{path}: the field {name!r} does not contain numbers")
    return cast(values, "float32", name, path)


def packed_rgb(rgb: NDArray[Any], alpha: NDArray[Any] | None = None) -> NDArray[np.float32]:
    """Colours (n, 3) in PCL's packing: blue, green, red and alpha are the bytes of a float32, shape (n,)."""
    packed = np.zeros((len(rgb), 4), np.uint8)
    packed[:, 2::-1] = rgb
    if alpha is not None:
        packed[:, 3] = alpha
    return packed.view("<f4")[:, 0]


def unpacked_rgb(name: str, values: NDArray[Any]) -> Columns:
    """Fields of PCL's packed colour `rgb` or `rgba`: four bytes per point, whatever the declared type."""
    packed = np.ascontiguousarray(values).view(np.uint8).reshape(-1, 4)
    colour = {"rgb": np.ascontiguousarray(packed[:, 2::-1])}
    return colour if name == "rgb" else {**colour, "alpha": packed[:, 3].copy()}


# Column names of other programs, by the name of the field here.
_CONVENTIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "normal": (("normal_x", "normal_y", "normal_z"), ("nx", "ny", "nz")),
    "rgb": (("red", "green", "blue"), ("r", "g", "b")),
}


def join(columns: Columns, path: Path, description: Description | None, frame: str = "sensor") -> PointCloud:
    """Join columns to a cloud. Without a description, columns are grouped by their names."""
    rest = dict(columns)
    known = description or Description(frame=frame)
    fields: Columns = {}
    for name, entry in known.layout.items():
        if all(part in rest and rest[part].ndim == 1 for part in entry.columns):
            parts = [cast(rest.pop(part), entry.dtype, part, path) for part in entry.columns]
            fields[name] = parts[0] if entry.flat else np.stack(parts, axis=1)
    xyz = fields.pop("xyz", None)
    if xyz is None:
        xyz = _coordinates(rest, path)
    if xyz.shape[1:] != (3,):
        raise FormatError(f"{path}: its coordinates do not have three columns")
    _group(rest)
    try:
        return PointCloud(xyz, {**fields, **rest}, known.frame, known.names, known.metadata)
    except ConfigError as error:
        raise FormatError(f"{path}: {error}") from None


def cast(values: NDArray[Any], dtype: str, column: str, path: Path) -> NDArray[Any]:
    """Convert values to another type. Raise FormatError if a value cannot be represented."""
    target = np.dtype(dtype)
    if values.dtype == target:
        return np.ascontiguousarray(values)
    with np.errstate(all="ignore"):
        result = values.astype(target)
        # Integers must survive the round trip; floats may be rounded.
        if target.kind in "iub" and not np.array_equal(result.astype(values.dtype), values):
            raise FormatError(f"{path}: column {column!r} contains values that are not {dtype}")
        if target.kind == "f" and not np.array_equal(np.isinf(result), np.isinf(values)):
            raise FormatError(f"{path}: column {column!r} contains values too large for {dtype}")
    return result


def _coordinates(columns: Columns, path: Path) -> NDArray[Any]:
    missing = [axis for axis in "xyz" if axis not in columns or columns[axis].ndim != 1]
    if missing:
        raise FormatError(f"{path}: has no column {missing[0]!r}; its columns are: {', '.join(columns) or 'none'}")
    parts = [columns.pop(axis) for axis in "xyz"]
    single = all(part.dtype == np.float32 for part in parts)
    return np.stack([cast(part, "float32" if single else "float64", "xyz", path) for part in parts], axis=1)


def _group(columns: Columns) -> None:
    """Merge columns that belong together by name into one (n, k) field, in place."""
    groups = [(field, parts) for field, spellings in _CONVENTIONS.items() for parts in spellings]
    for name in columns:
        base, _, suffix = name.rpartition("_")
        if base and suffix == "x":
            groups.append((base, column_names(base, 3)))
        elif base and suffix == "0":
            count = next(i for i in itertools.count(1) if f"{base}_{i}" not in columns)
            groups.append((base, tuple(f"{base}_{i}" for i in range(count))))
    for vector, parts in groups:
        members = [columns[part] for part in parts if part in columns and columns[part].ndim == 1]
        alike = len({member.dtype for member in members}) == 1
        if len(members) == len(parts) > 1 and alike and vector not in columns:
            columns[vector] = np.stack(members, axis=1)
            for part in parts:
                del columns[part]
