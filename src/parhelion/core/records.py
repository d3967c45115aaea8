"""The base of records: arrays with a unit, a frame and a shape on every field.

    class Range(Record):
        range: Floats = field(metadata=column("m", "sensor", "n"))

`units(record)` gives units and frames as data, for whoever writes them to a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError

if TYPE_CHECKING:
    from parhelion.core.clouds import FieldSpec, PointCloud


def column(unit: str, frame: str, *shape: str | int, dtype: str = "float64", finite: bool = True) -> dict[str, Any]:
    """What a field holds: unit, frame ('' where none applies) and shape.

    Letters in `shape` stand for sizes that differ from record to record: n samples, w wheels, h rows of pixels.
    `finite` says whether numbers must be.
    """
    return {"unit": unit, "frame": frame, "shape": shape, "dtype": dtype, "finite": finite}


class Record:
    """A frozen dataclass whose arrays are checked when it is made, and read-only afterwards."""

    def _sizes(self) -> Mapping[str, int]:
        """What the letters in the shapes of this record stand for."""
        return {}

    def _units(self) -> dict[str, tuple[str, str]]:
        return _declared(self)

    def __post_init__(self) -> None:
        sizes = self._sizes()
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if "shape" not in one.metadata or value is None:
                continue
            array = np.asarray(value, dtype=one.metadata["dtype"]).view()
            expected = tuple(sizes.get(size, size) for size in one.metadata["shape"])
            if array.shape != expected:
                raise ConfigError(
                    f"{type(self).__name__}: {one.name} must have shape {expected}, got shape {array.shape}"
                )
            if one.metadata["finite"] and not np.all(np.isfinite(array)):
                raise ConfigError(f"{type(self).__name__}: {one.name} must be finite")
            array.setflags(write=False)
            object.__setattr__(self, one.name, array)


def units(record: Record | type[Record]) -> dict[str, tuple[str, str]]:
    """Unit and frame of every array of a record, by field name; the frame is '' where none applies."""
    return record._units() if isinstance(record, Record) else _declared(record)


def _declared(record: Any) -> dict[str, tuple[str, str]]:
    return {one.name: (one.metadata["unit"], one.metadata["frame"]) for one in fields(record) if "unit" in one.metadata}


# ---- How clouds and scans show themselves: one line in a terminal, a small table in a notebook ----------------------


_LONGEST_NAME = 60


def one_line(cloud: PointCloud) -> str:
    """Kind, sensor, number of points, nearest and farthest range, and frame, as far as the cloud knows them."""
    return f"<{type(cloud).__name__}: {', '.join(_facts(cloud))}>"


def as_html(cloud: PointCloud, known: Mapping[str, FieldSpec]) -> str:
    """The same line over a table of the fields; `known` gives their units and meanings."""
    heads = ("field", "type", "unit", "smallest", "largest", "meaning")
    rows = [("xyz", cloud.xyz, "m", "coordinates")]
    for name, values in cloud.fields.items():
        spec = known.get(name)
        rows.append((name, values, spec.unit if spec else "", spec.meaning if spec else ""))
    lines = [_row("th", heads)]
    lines += [_row("td", (name, _type(values), unit, *_span(values), text)) for name, values, unit, text in rows]
    # Names and metadata come from files: nothing of them is taken as HTML.
    title = escape(f"{type(cloud).__name__}: {', '.join(_facts(cloud))}")
    return f"<div><strong>{title}</strong><table>{''.join(lines)}</table></div>"


def _facts(cloud: PointCloud) -> list[str]:
    facts = []
    sensor = " ".join(str(cloud.metadata.get("sensor") or "").split())
    if sensor:
        facts.append(sensor if len(sensor) <= _LONGEST_NAME else sensor[: _LONGEST_NAME - 3] + "...")
    shots = vars(cloud).get("shots")  # a field of this name is no table of shots
    facts.append(f"{len(cloud)} points" + ("" if shots is None else f" of {len(shots)} shots"))
    ranges = _ranges(cloud)
    if ranges.size:
        facts.append(f"range {ranges.min():.4g} to {ranges.max():.4g} m")
    return [*facts, f"frame {cloud.frame!r}"]


def _ranges(cloud: PointCloud) -> NDArray[Any]:
    """Ranges [m] of the points that are somewhere; none where neither a field nor the frame gives them."""
    found = np.isfinite(cloud.xyz).all(axis=1)
    values = cloud.fields.get("range")
    if values is None or values.ndim != 1 or values.dtype.kind not in "fiu":
        values = np.linalg.norm(cloud.xyz, axis=1) if cloud.frame in ("sensor", "sensor-start") else np.zeros(0)
    else:
        found = found & np.isfinite(values)
    return values[found[: len(values)]]


def _type(values: NDArray[Any]) -> str:
    return str(values.dtype) if values.ndim == 1 else f"{values.dtype} × {values.shape[1]}"


def _span(values: NDArray[Any]) -> tuple[str, str]:
    """Smallest and largest value of a field; empty where it has none that can be compared."""
    finite = values[np.isfinite(values)] if values.dtype.kind in "fiu" else values[:0].ravel()
    return (f"{finite.min():.4g}", f"{finite.max():.4g}") if finite.size else ("", "")


def _row(kind: str, cells: tuple[str, ...]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in cells)}</tr>"
