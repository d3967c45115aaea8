"""Clouds as plain columns, for formats whose points are rows of single numbers, and back."""

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

# ---- What a cloud is besides its numbers, as one line of JSON that text headers and records can carry ---------------


# Comment lines stay well below the line buffers of other readers (1024 bytes in rply and Open3D).
_COMMENT_LENGTH = 400
_MARK = "parhelion "

DTYPES = frozenset(
    ["bool", "float16", "float32", "float64"] + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


@dataclass(frozen=True)
class FieldLayout:
    """Where a field's values lie among a file's columns, and of which type they were."""

    columns: tuple[str, ...]
    """Names of the columns; one column for each column of the field."""
    dtype: str
    """NumPy's name of the field's type before it was stored."""
    flat: bool
    """Whether the field has shape (n,), rather than (n, number of columns)."""


@dataclass(frozen=True)
class Description:
    """Frame, name tables, metadata and field layout of a stored cloud."""

    frame: str = "sensor"
    names: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    layout: Mapping[str, FieldLayout] = field(default_factory=dict)
    extras: Mapping[str, Any] = field(default_factory=dict)
    """What one format alone needs, such as the scale of LAS intensities."""


def plain_value(value: Any) -> Any:
    """A value as JSON has it; raises TypeError where there is no such."""
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
    """The description of a cloud as one line of ASCII JSON without spaces."""
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
    # Spaces remain inside strings only; escaped, no reader that trims lines can lose one.
    return text.replace(" ", "\\u0020")


def from_json(text: str, path: Path) -> Description:
    """The description in `text`; raises FormatError where it is not one."""
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
        raise FormatError(f"{path}: the parhelion description in it is damaged ({error})") from None


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
    """A description cut into comment lines, without the format's own comment sign."""
    return [_MARK + text[i : i + _COMMENT_LENGTH] for i in range(0, len(text), _COMMENT_LENGTH)]


def from_comments(comments: Iterable[str], path: Path) -> Description | None:
    """The description among a file's comments, given without the comment sign; None where there is none."""
    pieces = [line.strip()[len(_MARK) :] for line in comments if line.strip().startswith(_MARK)]
    return from_json("".join(pieces), path) if pieces else None


# ---- columns --------------------------------------------------------------------------------------------------------


Columns = dict[str, NDArray[Any]]

Store = Callable[[NDArray[Any]], "NDArray[Any] | None"]
"""Gives a column in a type that the format can hold, or None where it has none."""


class FieldsDroppedWarning(UserWarning):
    """A format could not hold some of a cloud's fields, and they were left out of the file."""


@dataclass(frozen=True)
class Table:
    """A cloud's points as columns of equal length, x, y and z first."""

    columns: Columns
    layout: dict[str, FieldLayout]
    dropped: tuple[str, ...]
    """Fields that the format cannot hold."""


def column_names(field: str, count: int) -> tuple[str, ...]:
    """Names of the columns of an (n, count) field: `velocity_x`, `_y`, `_z` for three, else `name_0`, `name_1` ..."""
    suffixes = ("x", "y", "z") if count == 3 else tuple(str(i) for i in range(count))
    return tuple(f"{field}_{suffix}" for suffix in suffixes)


def numeric(values: NDArray[Any]) -> NDArray[Any] | None:
    """`values` as little-endian integer of 1 to 8 bytes or float of 4 or 8; None for texts, objects and the like."""
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
    """The cloud as columns. `spelling` gives a format's own column names for fields of that many columns."""
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
        kept = [column for column in stored if column is not None]
        if not kept or len(kept) < count or values.dtype.name not in DTYPES:
            dropped.append(name)
            continue
        clash = [part for part in parts if part in columns]
        if clash:
            raise FormatError(f"{path}: two fields of the cloud would be stored as the column {clash[0]!r}")
        columns.update(zip(parts, kept, strict=True))
        layout[name] = FieldLayout(parts, values.dtype.name, flat)
    return Table(columns, layout, tuple(dropped))


def as_rows(columns: Columns) -> NDArray[Any]:
    """The columns as one packed record a point, the layout of binary formats."""
    rows = np.empty(len(columns["x"]), np.dtype([(name, column.dtype) for name, column in columns.items()]))
    for name, column in columns.items():
        rows[name] = column
    return rows


def as_float32(values: NDArray[Any], name: str, path: Path) -> NDArray[np.float32]:
    """A field for formats that know float32 only; raises FormatError where a value is too large for it."""
    if values.dtype.kind not in "biuf":
        raise FormatError(f"{path}: the field {name!r} does not hold numbers")
    return cast(values, "float32", name, path)


# Column names of other programs, and the field that they are here.
_CONVENTIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "normal": (("normal_x", "normal_y", "normal_z"), ("nx", "ny", "nz")),
    "rgb": (("red", "green", "blue"), ("r", "g", "b")),
}


def join(columns: Columns, path: Path, description: Description | None, frame: str = "sensor") -> PointCloud:
    """The cloud that the columns make. Without a description, columns are grouped by their names."""
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
        raise FormatError(f"{path}: the coordinates in it do not have three columns")
    _group(rest)
    try:
        return PointCloud(xyz, {**fields, **rest}, known.frame, known.names, known.metadata)
    except ConfigError as error:
        raise FormatError(f"{path}: {error}") from None


def cast(values: NDArray[Any], dtype: str, column: str, path: Path) -> NDArray[Any]:
    """`values` in another type; raises FormatError where a value has no counterpart there."""
    target = np.dtype(dtype)
    if values.dtype == target:
        return np.ascontiguousarray(values)
    with np.errstate(all="ignore"):
        result = values.astype(target)
        # Integers must survive the way there and back; floats may be rounded.
        if target.kind in "iub" and not np.array_equal(result.astype(values.dtype), values):
            raise FormatError(f"{path}: column {column!r} holds values that are not {dtype}")
        if target.kind == "f" and not np.array_equal(np.isinf(result), np.isinf(values)):
            raise FormatError(f"{path}: column {column!r} holds values too large for {dtype}")
    return result


def _coordinates(columns: Columns, path: Path) -> NDArray[Any]:
    missing = [axis for axis in "xyz" if axis not in columns or columns[axis].ndim != 1]
    if missing:
        raise FormatError(f"{path}: has no column {missing[0]!r}; its columns are: {', '.join(columns) or 'none'}")
    parts = [columns.pop(axis) for axis in "xyz"]
    single = all(part.dtype == np.float32 for part in parts)
    return np.stack([cast(part, "float32" if single else "float64", "xyz", path) for part in parts], axis=1)


def _group(columns: Columns) -> None:
    """Put columns that belong together by name into one (n, k) field, in place."""
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
