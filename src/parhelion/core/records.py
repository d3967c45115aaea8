"""Base class of records: frozen dataclasses whose arrays declare a unit, a frame and a shape.

    @dataclass(frozen=True, eq=False)
    class TemperatureData(Samples):
        temperature: Floats = field(metadata=column("K", "", "n"))

A record that declares its arrays with `column` gets files, tables, plots and a one-line repr without further code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, MissingDependencyError
from parhelion.core.labelled import Labelled, as_dataset

if TYPE_CHECKING:
    from pandas import DataFrame
    from typing_extensions import Self
    from xarray import Dataset

    from parhelion.core.clouds import FieldSpec, PointCloud

# ---- display: one line in a terminal, a small table for clouds in a notebook ----------------------------------------


_LONGEST_NAME = 60
_LONGEST_LINE = 160


def one_line(record: Record) -> str:
    """Type, sensor, size and main contents of a record, in less than 200 characters."""
    name = type(record).__name__[:_LONGEST_NAME]
    line = f"{name}: {', '.join([*_sensor(record), *record._repr_parts()])}"
    return f"<{line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 3].rstrip(', ') + '...'}>"


def _sensor(record: Record) -> list[str]:
    """Name of the sensor, shortened; empty if the record has none."""
    sensor = " ".join(str(getattr(record, "metadata", {}).get("sensor") or "").split())
    return [sensor if len(sensor) <= _LONGEST_NAME else sensor[: _LONGEST_NAME - 3] + "..."] if sensor else []


def as_html(cloud: PointCloud, known: Mapping[str, FieldSpec]) -> str:
    """HTML with the one-line summary above a table of the fields; `known` holds their units and meanings."""
    heads = ("field", "type", "unit", "smallest", "largest", "meaning")
    rows = [("xyz", cloud.xyz, "m", "coordinates")]
    for name, values in cloud.fields.items():
        spec = known.get(name)
        rows.append((name, values, spec.unit if spec else "", spec.meaning if spec else ""))
    lines = [_row("th", heads)]
    lines += [_row("td", (name, _type(values), unit, *_span(values), text)) for name, values, unit, text in rows]
    # Names and metadata may come from untrusted files, so they are escaped.
    title = escape(one_line(cloud)[1:-1])
    return f"<div><strong>{title}</strong><table>{''.join(lines)}</table></div>"


def cloud_repr_parts(cloud: PointCloud) -> list[str]:
    """Number of points and shots, smallest and largest range, and frame."""
    shots = vars(cloud).get("shots")  # not the point field that may have this name
    facts = [f"{len(cloud)} points" + ("" if shots is None else f" of {len(shots)} shots")]
    ranges = _ranges(cloud)
    if ranges.size:
        facts.append(f"range {ranges.min():.4g} to {ranges.max():.4g} m")
    return [*facts, f"frame {cloud.frame!r}"]


def _ranges(cloud: PointCloud) -> NDArray[Any]:
    """Ranges [m] of the points with finite coordinates; empty if neither a field nor the frame provides them."""
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
    """Smallest and largest finite value of a field; empty texts if there is none."""
    finite = values[np.isfinite(values)] if values.dtype.kind in "fiu" else values[:0].ravel()
    return (f"{finite.min():.4g}", f"{finite.max():.4g}") if finite.size else ("", "")


def _row(kind: str, cells: tuple[str, ...]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in cells)}</tr>"


# ---- records --------------------------------------------------------------------------------------------------------


ROW = "n"
"""Letter in shapes for the number of rows: samples, points, directions."""
_AXES = {ROW: "row", "h": "line", "a": "anchor"}
"""Names of dimensions of labelled arrays, by their letter in shapes."""


def column(unit: str, frame: str, *shape: str | int, dtype: str = "float64", finite: bool = True) -> dict[str, Any]:
    """Metadata of an array field: unit, frame ('' if none applies) and shape.

    Letters in `shape` are sizes that vary between records: n rows, w wheels, h rows of pixels.
    `finite` rejects NaN and infinity.
    """
    return {"unit": unit, "frame": frame, "shape": shape, "dtype": dtype, "finite": finite}


def scalar(unit: str, frame: str = "") -> dict[str, Any]:
    """Metadata of a field with a single number: unit and frame."""
    return {"unit": unit, "frame": frame}


class Column(NamedTuple):
    """One column of a record as a table."""

    name: str
    """Name of the field, followed by the component if there are several."""
    unit: str
    """Unit of the values, '' without one."""
    values: NDArray[Any]
    """Numbers or strings, shape (n,)."""


class Record:
    """Base of all measurements: a frozen dataclass whose arrays are checked on construction and read-only afterwards.

    >>> cloud = ph.PointCloud([[1.0, 2.0, 2.0]], {"range": np.array([3.0], np.float32)})
    >>> cloud.units
    {'xyz': 'm', 'range': 'm'}
    >>> cloud.equals(ph.PointCloud(cloud.xyz, cloud.fields))
    True
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Without this, `@dataclass` would generate a repr that prints all numbers.
        cls.__repr__ = cls.__repr__  # type: ignore[method-assign]

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

    def __repr__(self) -> str:
        return one_line(self)

    @property
    def units(self) -> dict[str, str]:
        """Unit of every field by name; '1' is a ratio, '' a code or an identifier without unit."""
        return {name: unit for name, (unit, _) in self._units().items()}

    def equals(self, other: object) -> bool:
        """Return whether `other` is of the same type and holds exactly the same values; NaN equals NaN."""
        return type(other) is type(self) and all(
            self._same_field(one.name, getattr(other, one.name))
            for one in fields(self)  # type: ignore[arg-type]
        )

    def to_dataframe(self) -> DataFrame:
        """Return a pandas DataFrame with one row per sample, point or bin.

        Each component is one column: `angular_rate_x`, `ticks_left`. `frame.attrs["units"]` holds the unit of every
        column.
        """
        try:
            import pandas
        except ImportError:
            raise MissingDependencyError("to_dataframe needs pandas: pip install 'parhelion[dataframe]'") from None
        table = self.table()
        frame = pandas.DataFrame({one.name: one.values for one in table})
        frame.attrs["units"] = {one.name: one.unit for one in table}
        return frame

    def to_xarray(self) -> Dataset:
        """Return an xarray Dataset with named dimensions and the unit of every array in its attributes.

        Rows are the dimension `row`; components have names: `angular_rate_axis` is x, y, z. Values are shared.
        """
        metadata = getattr(self, "metadata", {})
        return as_dataset(self._labelled(), metadata if isinstance(metadata, Mapping) else {})

    def plot(self, path: str | PathLike[str] | None = None, *, ax: Any = None) -> Any:
        """Draw the record and return the Matplotlib figure.

        path: File to write the picture to as well (.png, .jpg, .pdf, .svg).
        ax: Axes for the first panel; they are returned instead of a figure.
        """
        from parhelion.pictures.records import plot_record

        return plot_record(self, path, ax)

    def save(self, path: str | PathLike[str], *, format: str | None = None, **options: Any) -> None:
        """Write the record; the file extension selects the format unless `format` names it.

        NPZ stores every record completely. CSV stores samples and points; clouds and images have further formats.
        `options` are passed to the format's writer. An existing file is replaced only when the new one is complete.
        """
        from parhelion.io.records import write_record

        write_record(self, path, format=format, **options)

    @classmethod
    def load(cls, path: str | PathLike[str], *, format: str | None = None, **options: Any) -> Self:
        """Read a record of this type or a subclass; the file extension selects the format unless `format` names it."""
        from parhelion.io.records import read_record

        return read_record(cls, path, format=format, **options)

    # ---- methods that subclasses may override ----------------------------------------------------------------------

    def _sizes(self) -> Mapping[str, int]:
        """Values of the letters in the shapes of this record."""
        return {}

    def _labels(self) -> Mapping[str | int, Sequence[str]]:
        """Names of the components along an axis, by its declared size: wheels, satellites, anchors."""
        return {}

    def _units(self) -> dict[str, tuple[str, str]]:
        return _declared(self)

    def _repr_parts(self) -> list[str]:
        """Parts of the one-line repr after the sensor's name."""
        if self._columns():
            return [f"{len(getattr(self, self._columns()[0]))} rows", *self._columns()]
        return [
            f"{one.name} {' x '.join(map(str, values.shape))}"
            for one in fields(self)  # type: ignore[arg-type]
            if isinstance(values := getattr(self, one.name), np.ndarray)
        ]

    def _same_field(self, name: str, other: Any) -> bool:
        return same(getattr(self, name), other)

    def _columns(self) -> list[str]:
        """Names of the arrays with one entry per row."""
        return [
            one.name
            for one in fields(self)  # type: ignore[arg-type]
            if one.metadata.get("shape", ())[:1] == (ROW,) and getattr(self, one.name) is not None
        ]

    def table(self) -> list[Column]:
        """Columns of equal length: one per component of each array with rows; without rows, a summary of the arrays."""
        if not self._columns():
            return _summary(self)
        return [part for name in self._columns() for part in self._components(name)]

    def _labelled(self) -> list[Labelled]:
        """Arrays with names for their axes."""
        found, names = [], self._labels()
        for one in fields(self):  # type: ignore[arg-type]
            values, sizes = getattr(self, one.name), one.metadata.get("shape")
            if not sizes or values is None:
                continue
            letters = {**_AXES, "w": "column" if "h" in sizes else "wheel", **({"s": "satellite"} if names else {})}
            axes = [letters.get(size, str(size)) if isinstance(size, str) else "" for size in sizes]
            labels: dict[str, Sequence[str]] = {}
            for k, size in enumerate(sizes):
                axes[k] = axes[k] or f"{one.name}_axis{k if sizes.count(size) > 1 else ''}"
                words = names.get(size) or (_axis(size) if isinstance(size, int) else None)
                if words:
                    labels[axes[k]] = words
            found.append(Labelled(one.name, one.metadata["unit"], one.metadata["frame"], values, axes, labels))
        return found

    def _components(self, name: str) -> list[Column]:
        """Columns of one array, one per component."""
        declared = next(one.metadata for one in fields(self) if one.name == name)  # type: ignore[arg-type]
        labels = [self._labels().get(size, ()) for size in declared["shape"][1:]]
        return components(name, declared["unit"], getattr(self, name), labels)


def components(name: str, unit: str, values: NDArray[Any], labels: Sequence[Sequence[str]] = ()) -> list[Column]:
    """Columns of an array (n, ...): `name`, or one `name_x`, `name_xy`, `name_0` per component.

    `labels` names the components along each axis after the first. The default is x, y, z (w), or numbers. Complex
    numbers become two columns, `_real` and `_imag`.
    """
    given = [*labels, *[()] * (values.ndim - 1 - len(labels))]
    axes = [list(one) or _axis(size) for one, size in zip(given, values.shape[1:], strict=True)]
    short = all(len(word) == 1 for axis in axes for word in axis)
    found = []
    for index in np.ndindex(*values.shape[1:]):
        words = [axis[k] for axis, k in zip(axes, index, strict=True)]
        full = "_".join([name, *(["".join(words)] if short and words else words)])
        part = values[(slice(None),) + index]  # noqa: RUF005 - a star in an index needs Python 3.11
        if values.dtype.kind == "c":
            found += [Column(f"{full}_real", unit, part.real), Column(f"{full}_imag", unit, part.imag)]
        else:
            found.append(Column(full, unit, part))
    return found


def _axis(size: int) -> Sequence[str]:
    return {3: "xyz", 4: "xyzw"}.get(size) or [str(k) for k in range(size)]


def _summary(record: Record) -> list[Column]:
    """One row per array: type, shape, smallest, mean and largest finite value."""
    rows = []
    for one in fields(record):  # type: ignore[arg-type]
        values = getattr(record, one.name)
        if isinstance(values, np.ndarray):
            numbers = np.abs(values) if values.dtype.kind == "c" else values
            finite = numbers[np.isfinite(numbers)].astype(np.float64)
            span = (finite.min(), finite.mean(), finite.max()) if finite.size else (np.nan,) * 3
            size = " x ".join(map(str, values.shape))
            rows.append((one.name, record.units.get(one.name, ""), str(values.dtype), size, *span))
    names = ("field", "unit", "type", "shape", "smallest", "mean", "largest")
    kinds = ("U", "U", "U", "U", "f8", "f8", "f8")
    return [
        Column(name, "", np.array([row[k] for row in rows], kind))
        for k, (name, kind) in enumerate(zip(names, kinds, strict=True))
    ]


def same(one: Any, other: Any) -> bool:
    """Return whether two values of records are equal; NaN equals NaN, and a list equals a tuple of the same items."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.dtype == other.dtype):
            return False
        return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Record):
        return one.equals(other)
    if is_dataclass(one) and type(one) is type(other):
        return all(same(getattr(one, part.name), getattr(other, part.name)) for part in fields(one))
    return bool(one == other) or (one != one and other != other)


def units(record: Record | type[Record]) -> dict[str, tuple[str, str]]:
    """Unit and frame of every array of a record, by field name; the frame is '' if none applies."""
    return record._units() if isinstance(record, Record) else _declared(record)


def _declared(record: Any) -> dict[str, tuple[str, str]]:
    return {one.name: (one.metadata["unit"], one.metadata["frame"]) for one in fields(record) if "unit" in one.metadata}
