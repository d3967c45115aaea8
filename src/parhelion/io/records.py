"""Files of records: the formats of each type, and CSV tables of records with rows.

A CSV file of samples has one header line and one line per row. A comment line before it, `# parhelion {...}`, holds all
other values, so that the record can be read back exactly. Other programs skip it
(`pandas.read_csv(path, comment="#")`); `describe=False` omits it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud
from parhelion.core.consumers import Consumer
from parhelion.core.errors import FormatError, unknown_name
from parhelion.core.files import atomic_write
from parhelion.core.image import Image
from parhelion.core.reading import read_bytes, reading
from parhelion.core.records import ROW, Record, components
from parhelion.core.streams import ImuData
from parhelion.io.columns import DTYPES
from parhelion.io.csv_table import format_rows, parse_rows, table_head
from parhelion.io.formats import FORMATS, check_options, format_of, read_cloud, write_cloud
from parhelion.io.images import IMAGE_FORMATS, image_format_of, read_image, write_image
from parhelion.io.npz import read_record as read_npz
from parhelion.io.npz import write_record as write_npz
from parhelion.io.record_values import decoded, encoded, made, record_type

Kind = TypeVar("Kind", bound=Record)
_MARK = "parhelion "


@dataclass(frozen=True)
class RecordFiles:
    """Functions that read and write one family of records."""

    read: Callable[..., Record]
    """`read(type, path, format=, **options)`."""
    write: Callable[..., None]
    """`write(record, path, format=, **options)`."""
    ending: Callable[[str | PathLike[str] | None, str | None], str]
    """File extension by path (None for the default format) and format; an unknown one raises FormatError."""


def read_record(kind: type[Kind], path: str | PathLike[str], *, format: str | None = None, **options: Any) -> Kind:
    """Read a record of type `kind` or a subclass. Raise FormatError if the file contains another type."""
    found = RECORD_FILES.require(kind).read(kind, path, format=format, **options)
    if not isinstance(found, kind):
        name = type(found).__name__
        raise FormatError(f"{path}: contains {name}, expected {kind.__name__}; read it with {name}.load")
    return found


def write_record(record: Record, path: str | PathLike[str], *, format: str | None = None, **options: Any) -> None:
    """Write a record; the file extension selects the format unless `format` names it."""
    RECORD_FILES.require(type(record)).write(record, path, format=format, **options)


def ending_of(kind: type[Record], path: str | PathLike[str] | None = None, format: str | None = None) -> str:
    """File extension for records of a type, for example `.npz`. Raise FormatError for an unknown format."""
    return RECORD_FILES.require(kind).ending(path, format)


def _chosen(path: str | PathLike[str], format: str | None) -> str:
    if format is not None and format not in ("npz", "csv"):
        raise unknown_name("record format", format, ("npz", "csv"))
    name = format or Path(path).suffix.lower().removeprefix(".")
    if name not in ("npz", "csv"):
        raise FormatError(f"{path}: unknown file extension; use .csv or .npz, or name the format")
    return name


def _read_any(kind: type[Record], path: str | PathLike[str], *, format: str | None = None, **options: Any) -> Record:
    file = Path(path)
    if kind is Record:  # any type: clouds and images are recognised by their file extensions
        ending = file.suffix.lower()
        if format in IMAGE_FORMATS or (format is None and any(ending in one.endings for one in IMAGE_FORMATS.values())):
            if ending != ".npz":
                return read_image(file, format=format)
        elif ending != ".csv" and any(file.name.lower().endswith(one.endings) for one in FORMATS.values()):
            return read_cloud(file, format=format, **options)
    reader: Callable[..., Record] = read_npz if _chosen(file, format) == "npz" else read_csv
    check_options(reader, options, f"reading {_chosen(file, format)}")
    with reading(file):
        return reader(file, kind)


def _write_any(record: Record, path: str | PathLike[str], *, format: str | None = None, **options: Any) -> None:
    writer: Callable[..., Any] = write_npz if _chosen(path, format) == "npz" else write_csv
    check_options(writer, options, f"writing {_chosen(path, format)}")
    writer(record, Path(path), **options)


def _any_ending(path: str | PathLike[str] | None, format: str | None) -> str:
    return f".{_chosen('' if path is None else path, format or (None if path else 'npz'))}"


def _ending(choose: Callable[..., Any], default: str) -> Callable[[str | PathLike[str] | None, str | None], str]:
    """Function that looks up the file extension in a family's table of formats."""
    return lambda path, format: str(choose(path or "", format or (None if path else default)).endings[0])


def _read_imu(kind: type[Record], path: str | PathLike[str], *, format: str | None = None, **options: Any) -> Record:
    """IMU samples of a file of records, or of a capture of a lidar with a built-in IMU."""
    if format is None and Path(path).suffix.lower() in (".pcap", ".pcapng"):
        from parhelion.io.captures import read_imu

        return read_imu(path)
    return _read_any(kind, path, format=format, **options)


RECORD_FILES: Consumer[RecordFiles] = Consumer(
    "files of records",
    {
        Record: RecordFiles(_read_any, _write_any, _any_ending),
        ImuData: RecordFiles(_read_imu, _write_any, _any_ending),
        PointCloud: RecordFiles(
            lambda kind, path, **options: read_cloud(path, **options), write_cloud, _ending(format_of, "pcd")
        ),
        Image: RecordFiles(
            lambda kind, path, **options: read_image(path, **options), write_image, _ending(image_format_of, "png")
        ),
    },
)
"""Read and write functions by family of records."""


# ---- CSV of records with rows ----------------------------------------------------------------------------------------


def write_csv(record: Record, path: Path, *, describe: bool = True) -> None:
    """Write a record with rows as a table; every number reads back bit for bit."""
    rows = record._columns()
    if not rows:
        raise FormatError(f"{path}: {type(record).__name__} has no rows, so it cannot be written as CSV; use NPZ")
    columns = {name: record._components(name) for name in rows}
    table = [part for parts in columns.values() for part in parts]
    bad = [part.name for part in table if set(part.name) & set(",\"'#\n\r")]
    if bad:
        raise FormatError(f"{path}: CSV cannot store a column called {bad[0]!r}; names have no commas or quotes")
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        if describe:
            file.write(f"# {_MARK}{_description(record, rows, columns, path)}\n".encode("ascii"))
        file.write((",".join(part.name for part in table) + "\n").encode())
        file.writelines(format_rows([np.ascontiguousarray(part.values) for part in table], ","))


def _description(record: Record, rows: list[str], columns: Mapping[str, Any], path: Path) -> str:
    def listed(key: str, values: NDArray[Any]) -> Any:
        if key in rows:
            return {"array": key}
        if values.dtype.name not in DTYPES:
            raise TypeError(f"{key} has the type {values.dtype}")
        return {"dtype": values.dtype.name, "numbers": values.tolist()}

    layout = {
        name: {
            "columns": [part.name for part in parts],
            "dtype": str(getattr(record, name).dtype),
            "shape": list(getattr(record, name).shape[1:]),
        }
        for name, parts in columns.items()
    }
    try:
        description = {**encoded(record, listed), "layout": layout, "units": record.units}
        return json.dumps(description, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{path}: this {type(record).__name__} cannot be written as CSV ({error})") from None


def read_csv(path: Path, kind: type[Record]) -> Record:
    """Read a table of rows. Without a description, `kind` must have no required values except its columns."""
    data = read_bytes(path)
    comments, names, body = table_head(data, path)
    text = next((line.strip()[len(_MARK) :] for line in comments if line.strip().startswith(_MARK)), None)
    about = _declared(kind, names, path) if text is None else json.loads(text)
    stored = record_type(str(about["type"]), kind)
    if stored is None or not issubclass(stored, kind):
        name = str(about["type"])[:60]
        raise FormatError(f"{path}: contains {name}, expected {kind.__name__}; read it with {name}.load")
    types = {part: _number_type(entry["dtype"]) for entry in about["layout"].values() for part in entry["columns"]}
    values = parse_rows(body, [np.dtype(types.get(name, "float64")) for name in names], None, path, ",")
    table = dict(zip(names, values, strict=True))
    arrays = {name: _assembled(entry, table, len(values[0])) for name, entry in about["layout"].items()}
    return made(stored, {name: _numbers(value, arrays) for name, value in about["values"].items()})  # type: ignore[no-any-return]


def _number_type(dtype: str) -> str:
    """Type of the numbers in the text of a column."""
    if dtype not in (*DTYPES, "complex64", "complex128"):
        raise ValueError(f"unknown type {dtype!r}")
    return {"bool": "uint8", "complex64": "float32", "complex128": "float64"}.get(dtype, dtype)


def _assembled(entry: Mapping[str, Any], table: Mapping[str, NDArray[Any]], count: int) -> NDArray[Any]:
    """Assemble an array from its columns."""
    parts, shape, dtype = entry["columns"], tuple(entry["shape"]), np.dtype(entry["dtype"])
    if dtype.kind == "c":
        columns = [table[one] + 1j * table[other] for one, other in zip(parts[::2], parts[1::2], strict=True)]
    else:
        columns = [table[part] for part in parts]
    if len(columns) != math.prod(shape) or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError("its layout does not match its columns")
    stacked = np.stack(columns, axis=1) if columns else np.zeros((count, 0))
    return stacked.astype(dtype).reshape(count, *shape)


def _numbers(value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if isinstance(value, dict) and set(value) == {"dtype", "numbers"} and value["dtype"] in DTYPES:
        return np.array(value["numbers"], value["dtype"])
    return decoded(value, arrays)


def _declared(kind: type[Record], names: list[str], path: Path) -> dict[str, Any]:
    """Description of a table without one, derived from the columns that a type of record declares."""
    layout: dict[str, Any] = {}
    for one in fields(kind):  # type: ignore[arg-type]
        shape = one.metadata.get("shape", ())
        fixed = shape[:1] == (ROW,) and all(isinstance(size, int) for size in shape[1:])
        parts = [part.name for part in components(one.name, "", np.zeros((0, *shape[1:])))] if fixed else []
        if one.name == "time" and "time_s" in names:
            parts = ["time_s"]
        if parts and set(parts) <= set(names):
            layout[one.name] = {"columns": parts, "dtype": one.metadata["dtype"], "shape": list(shape[1:])}
        elif one.default is MISSING and one.default_factory is MISSING:
            raise FormatError(
                f"{path}: {one.name} of {kind.__name__} is missing; tables without a description contain columns only. "
                "NPZ stores everything"
            )
    return {"type": kind.__name__, "layout": layout, "values": {name: {"array": name} for name in layout}}
