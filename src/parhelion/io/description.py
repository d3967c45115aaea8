"""What a cloud is besides its numbers, as one line of JSON that text headers and records can carry."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.errors import FormatError
from parhelion.core.records import PointCloud

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
