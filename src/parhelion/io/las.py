"""LAS and LAZ, the survey formats of the ASPRS, through laspy: written as version 1.4, point format 6, or 7 with rgb.

Coordinates are integer multiples of `scale_m`, by default 0.1 mm, so points without coordinates (NaN) cannot be stored.
Fields are stored in the dimensions that other programs use:

| field | dimension |
| --- | --- |
| intensity | intensity, uint16: integers below 65536 unchanged, otherwise scaled so that the largest is 65535 |
| return_index, return_count | return_number (one more), number_of_returns |
| label | classification, if all are below 256 |
| time | gps_time |
| rgb | red, green, blue: 257 times the 8-bit value |

All other fields, and any of these that do not fit, become extra dimensions. A record (VLR) of user `parhelion` stores
the scale of the intensities, the frame, name tables, types and metadata.
Source: LAS specification 1.4 R15, https://github.com/ASPRSorg/LAS
"""

from __future__ import annotations

import io
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import FIELDS, PointCloud
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.files import atomic_write
from parhelion.core.reading import UnpackingBudget, read_bytes
from parhelion.io.columns import Columns, Description, FieldLayout, Table, from_json, join, split, to_json

# ---- laz layout -----------------------------------------------------------------------------------------------------
# Consistency check of a LAZ file before decompression. The decompressor allocates whatever sizes it reads and aborts
# the process if memory runs out, so a few damaged bytes could end the user's session. Layout: LASzip specification for
# LAS 1.4, https://github.com/LAStools/LAStools/blob/master/LASzip/design/specification.rst


_UNCHUNKED, _LAYERED = 1, 3
# Number of layers per kind of item in a layered chunk: points, RGB, RGB with infrared, wave packets. Extra bytes (14)
# have one layer per byte.
_LAYERS = {10: 9, 11: 1, 12: 2, 13: 1}
_EXTRA_BYTES = 14


def check_layout(data: bytes, start: int, row_size: int, count: int, record: bytes) -> None:
    """Raise ValueError if the sizes of items, chunks or layers are inconsistent.

    `start` is the offset of the point data, `row_size` the size of a point [bytes], `count` the number of points in the
    header, `record` the content of the LASzip record.
    """
    compressor, items = _items(record)
    if sum(size for _, size in items) != row_size:
        raise ValueError(f"its points have {row_size} bytes, but its compressed items do not")
    if count == 0 or compressor == _UNCHUNKED:
        return
    sizes = _chunk_sizes(data, start, row_size, record)
    if compressor == _LAYERED:
        layers = sum(size if kind == _EXTRA_BYTES else _LAYERS.get(kind, 0) for kind, size in items)
        _check_layers(data, start + 8, row_size, layers, sizes, count)


def _items(record: bytes) -> tuple[int, list[tuple[int, int]]]:
    """Compressor type, and type and size of each item of a point."""
    if len(record) < 34:
        raise ValueError("its LASzip record is too short")
    compressor, number = struct.unpack_from("<H", record)[0], struct.unpack_from("<H", record, 32)[0]
    if len(record) < 34 + 6 * number or compressor not in (_UNCHUNKED, 2, _LAYERED):
        raise ValueError("its LASzip record is damaged")
    return compressor, [struct.unpack_from("<HH", record, 34 + 6 * i) for i in range(number)]


def _chunk_sizes(data: bytes, start: int, row_size: int, record: bytes) -> list[int]:
    """Size of each chunk [bytes] according to the chunk table."""
    import lazrs  # type: ignore[import-untyped]

    if len(data) < start + 8:
        raise ValueError("it ends before its points")
    table = struct.unpack_from("<q", data, start)[0]
    if table == -1:  # written to a stream: the offset is at the end of the file
        table = struct.unpack_from("<q", data, len(data) - 8)[0]
    if not start + 8 <= table <= len(data) - 8:
        raise ValueError("its chunk table is missing")
    chunks = struct.unpack_from("<I", data, table + 4)[0]
    # Each chunk starts with an uncompressed point.
    if chunks * row_size > table - start - 8:
        raise ValueError(f"its table claims {chunks} chunks")
    source = io.BytesIO(data)
    source.seek(start)
    sizes = [size for _, size in lazrs.read_chunk_table(source, lazrs.LazVlr(record))]
    if sum(sizes) > table - start - 8:
        raise ValueError("its chunks are larger than the file")
    return sizes


def _check_layers(data: bytes, first: int, row_size: int, layers: int, sizes: list[int], count: int) -> None:
    size = np.array(sizes, np.int64)
    head = row_size + 4 + 4 * layers  # the first point, the number of points, the size of each layer
    if np.any(size < head):
        raise ValueError("a chunk is too small for its layers")
    begin = first + np.cumsum(size) - size
    words = (begin + row_size)[:, None] + np.arange(4 * (1 + layers))
    numbers = np.frombuffer(data, np.uint8)[words].view("<u4").astype(np.int64)
    if np.any(head + numbers[:, 1:].sum(axis=1) != size):
        raise ValueError("the layers of a chunk do not fill it")
    if numbers[:, 0].sum() != count:
        raise ValueError(f"the header declares {count} points, the chunks contain {numbers[:, 0].sum()}")


# ---- las ------------------------------------------------------------------------------------------------------------


_USER_ID = "parhelion"
_VLR_BYTES = 60000  # the maximum of a record is 65535 bytes
_MOST_EXTRA = 340  # number of 192-byte entries that fit into one record
_BYTES_AT_ONCE = 1 << 26
# Identical points compress to about 100 per byte in chunks of 50 000; larger chunks compress more, but not to this.
_MOST_POINTS_PER_BYTE = 4096
# Dimensions that become fields of the same name, with their type in the file.
_SAME_NAME = {"user_data": "uint8", "point_source_id": "uint16", "scan_angle": "int16"}
_DIMENSION_OF = {
    "intensity": "intensity",
    "return_index": "return_number",
    "return_count": "number_of_returns",
    "label": "classification",
    "time": "gps_time",
    "rgb": "red",
    **{name: name for name in _SAME_NAME},
}


def write_las(cloud: PointCloud, path: Path, *, scale_m: float = 1e-4) -> tuple[str, ...]:
    """Write a LAS file with coordinates in steps of `scale_m` [m]. Return the names of skipped fields."""
    return _write(cloud, path, scale_m, compress=False)


def write_laz(cloud: PointCloud, path: Path, *, scale_m: float = 1e-4) -> tuple[str, ...]:
    """Write a LAZ file with coordinates in steps of `scale_m` [m]. Return the names of skipped fields."""
    return _write(cloud, path, scale_m, compress=True)


def _write(cloud: PointCloud, path: Path, scale_m: float, compress: bool) -> tuple[str, ...]:
    import laspy

    whole, offsets = _whole_coordinates(cloud, scale_m, path)
    table = split(cloud, path)
    standard, stored, scale = _standard_dimensions(cloud, table)
    header = laspy.LasHeader(version="1.4", point_format=7 if "rgb" in stored else 6)
    header.scales, header.offsets = np.full(3, scale_m), offsets
    header.system_identifier = header.generating_software = _USER_ID
    header.global_encoding.wkt = True  # required by the specification for point formats 6 and above
    taken = set(header.point_format.dimension_names) | set("xyz")
    extra, layout = _extra_dimensions(table, stored, taken)
    if len(extra) > _MOST_EXTRA:
        raise FormatError(f"{path}: LAS stores at most {_MOST_EXTRA} extra dimensions, the cloud has {len(extra)}")
    header.add_extra_dims([laspy.ExtraBytesParams(n, v.dtype, _unit(n)) for n, v in extra.items()])
    extras = {"standard": sorted(stored), "intensity_scale": scale}
    text = to_json(cloud, path, layout, extras).encode("ascii")
    for number, start in enumerate(range(0, len(text), _VLR_BYTES), start=1):
        piece = text[start : start + _VLR_BYTES]
        header.vlrs.append(laspy.VLR(_USER_ID, number, "cloud description, JSON", piece))
    points = laspy.ScaleAwarePointRecord.zeros(len(cloud), header=header)
    for name, values in (*zip("XYZ", whole.T, strict=True), *standard.items(), *extra.items()):
        points[name] = values
    with atomic_write(path) as temporary, temporary.open("wb+") as file:
        laspy.LasData(header, points).write(file, do_compress=compress)
        file.seek(90)
        file.write(bytes(4))  # no creation date, so that the same cloud gives the same bytes
    return table.dropped


def _whole_coordinates(cloud: PointCloud, scale_m: float, path: Path) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    if not (np.isfinite(scale_m) and scale_m > 0):
        raise ConfigError(f"scale_m must be above 0 m, got {scale_m}")
    xyz = np.asarray(cloud.xyz, np.float64)
    lost = int(np.count_nonzero(~np.all(np.isfinite(xyz), axis=1)))
    if lost:
        raise FormatError(f"{path}: {lost} points have no finite coordinates, which LAS cannot store; remove them")
    if len(xyz) == 0:
        return np.zeros((0, 3), np.int32), np.zeros(3)
    offsets = np.round((xyz.min(axis=0) + xyz.max(axis=0)) / 2)
    steps = np.round((xyz - offsets) / scale_m)
    if np.abs(steps).max() > np.iinfo(np.int32).max:
        reach = np.iinfo(np.int32).max * scale_m / 1000
        raise FormatError(f"{path}: the cloud is wider than ±{reach:.0f} km, the limit of scale_m={scale_m:g}")
    return steps.astype(np.int32), offsets


def _whole_below(values: NDArray[Any], limit: int) -> bool:
    return values.ndim == 1 and values.dtype.kind in "biu" and bool(np.all((values >= 0) & (values < limit)))


def _standard_dimensions(cloud: PointCloud, table: Table) -> tuple[Columns, set[str], float]:
    """Standard dimensions with their values, the fields stored in them, and the step of the intensity."""
    fields = {name: values for name, values in cloud.fields.items() if name in table.layout}
    standard: Columns = {}
    scale = 1.0
    for name, values in fields.items():
        if name == "intensity" and values.ndim == 1:
            step = _intensity_step(values)
            if step is not None:
                scale = step
                standard["intensity"] = np.round(values.astype(np.float64) / step).astype(np.uint16)
        elif name == "return_index" and _whole_below(values, 15):
            standard["return_number"] = values.astype(np.uint8) + np.uint8(1)
        elif name == "return_count" and _whole_below(values, 16):
            standard["number_of_returns"] = values.astype(np.uint8)
        elif name == "label" and _whole_below(values, 256):
            standard["classification"] = values.astype(np.uint8)
        elif name == "time" and values.ndim == 1 and values.dtype.kind == "f":
            standard["gps_time"] = values.astype(np.float64)
        elif name == "rgb" and values.dtype == np.uint8 and values.shape[1:] == (3,):
            wide = values.astype(np.uint16) * np.uint16(257)
            standard |= dict(zip(("red", "green", "blue"), wide.T, strict=True))
        elif values.dtype.name == _SAME_NAME.get(name) and values.ndim == 1:
            standard[name] = values
    stored = {field for field, dimension in _DIMENSION_OF.items() if dimension in standard}
    for name in ("return_number", "number_of_returns"):
        standard.setdefault(name, np.ones(len(cloud), np.uint8))  # 0 is not a valid return number
    return standard, stored, scale


def _intensity_step(values: NDArray[Any]) -> float | None:
    """Intensity per unit of the stored uint16; None if no scale can represent the values."""
    if len(values) == 0:
        return 1.0
    low, high = float(values.min()), float(values.max())
    if not (np.isfinite(high) and low >= 0):
        return None
    if high <= 65535 and (values.dtype.kind in "biu" or not np.any(values % 1)):
        return 1.0
    return high / 65535 if values.dtype.kind == "f" else None


def _extra_dimensions(table: Table, stored: set[str], taken: set[str]) -> tuple[Columns, dict[str, FieldLayout]]:
    """Columns without a standard dimension, under names that LAS allows, and the layout of all fields."""
    extra: Columns = {}
    layout: dict[str, FieldLayout] = {}
    for field, entry in table.layout.items():
        if field == "rgb" and field in stored:
            continue  # is read back as one field, not as columns
        if field == "xyz" or field in stored:
            layout[field] = entry
            continue
        names = []
        for column in entry.columns:
            options = (column, f"{column}_raw", f"extra_{len(extra)}")
            name = next(n for n in options if n not in taken and n.isascii() and n.isprintable() and len(n) <= 31)
            extra[name] = table.columns[column]
            taken.add(name)
            names.append(name)
        layout[field] = replace(entry, columns=tuple(names))
    return extra, layout


def _unit(column: str) -> str:
    spec = FIELDS.get(column) or FIELDS.get(column.rpartition("_")[0])
    return f"[{spec.unit}]" if spec and spec.unit else ""


def read(path: Path) -> PointCloud:
    """Read a LAS or LAZ file of any version and point format that laspy supports.

    A file that Parhelion did not write is in the frame 'world'; its intensity is float32, its time float64.
    """
    data = read_bytes(path)
    _check_sizes(data, path)
    header, points = _read_points(data, path)
    if not np.all(np.isfinite([*header.scales, *header.offsets])):
        raise FormatError(f"{path}: the scales and offsets of its coordinates are damaged")
    pieces = sorted((vlr.record_id, vlr.record_data) for vlr in header.vlrs if vlr.user_id == _USER_ID)
    description = None
    if pieces:
        description = from_json(b"".join(piece for _, piece in pieces).decode("latin-1"), path)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            columns = _columns(points, description)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise FormatError(f"{path}: its points are damaged ({error})") from None
    return join(columns, path, description, frame="world")


def _check_sizes(data: bytes, path: Path) -> None:
    """Reject headers that declare more data than the file can contain, before memory is allocated."""
    if not data.startswith(b"LASF"):
        raise FormatError(f"{path}: {'this is not a LAS or LAZ file' if data else 'the file is empty'}")
    if len(data) < 227:
        raise FormatError(f"{path}: truncated within its header")
    minor = data[25]
    header_size, start, records, kind, row_size, count = struct.unpack_from("<HIIBHI", data, 94)
    if minor >= 4:
        if len(data) < 375:
            raise FormatError(f"{path}: truncated within its header")
        evlr_start, evlrs, count = struct.unpack_from("<QIQ", data, 235)
        if evlrs and evlr_start + 60 * evlrs > len(data):
            raise FormatError(f"{path}: truncated, some of its {evlrs} extended records are missing")
    if not 227 <= header_size <= start <= len(data) or records * 54 > start - header_size:
        raise FormatError(f"{path}: truncated or damaged, its header, records and points do not fit into the file")
    compressed = kind & 0xC0
    most = (len(data) - start) * _MOST_POINTS_PER_BYTE if compressed else (len(data) - start) // max(row_size, 1)
    if count > most:
        raise FormatError(f"{path}: truncated, the header declares {count} points and the file has at most {most}")
    if compressed:
        UnpackingBudget(path, len(data)).spend(count * row_size)


def _read_points(data: bytes, path: Path) -> tuple[Any, Any]:
    import laspy

    try:
        # Single-threaded: the parallel decompressor allocates chunks of the size that the file claims.
        with laspy.open(io.BytesIO(data), laz_backend=laspy.LazBackend.Lazrs) as reader:
            header = reader.header
            row_size = header.point_format.size
            if header.are_points_compressed:
                record = header.vlrs[header.vlrs.index("LasZipVlr")].record_data
                check_layout(data, header.offset_to_point_data, row_size, header.point_count, record)
            # In chunks, so that memory grows with the actual data and not with the declared count.
            parts = [piece.array for piece in reader.chunk_iterator(max(1, _BYTES_AT_ONCE // row_size))]
        count = sum(len(part) for part in parts)
        if count != header.point_count:
            raise FormatError(
                f"{path}: truncated, the header declares {header.point_count} points and the file has {count}"
            )
        array = np.concatenate(parts) if parts else np.empty(0, header.point_format.dtype())
        return header, laspy.ScaleAwarePointRecord(array, header.point_format, header.scales, header.offsets)
    except (FormatError, ImportError):  # a missing package is no damage
        raise
    except Exception as error:  # laspy raises many types of exceptions on damaged bytes
        raise FormatError(f"{path}: damaged LAS or LAZ file ({error or type(error).__name__})") from None
    except BaseException as error:
        # A panic of the decompressor is not an Exception, but must not end the program either.
        if type(error).__name__ != "PanicException":
            raise
        raise FormatError(f"{path}: damaged LAZ file, it cannot be decompressed") from None


def _columns(points: Any, description: Description | None) -> Columns:
    names = set(points.point_format.dimension_names)
    # In files of other programs, every dimension is a field; in ours, only those that were fields.
    wanted = set(_DIMENSION_OF) if description is None else set(description.extras.get("standard", ()))
    wanted = {field for field in wanted if _DIMENSION_OF.get(field) in names}
    scale = 1.0 if description is None else float(description.extras.get("intensity_scale", 1.0))
    columns: Columns = {axis: np.array(points[axis], np.float64) for axis in "xyz"}
    if "intensity" in wanted:
        stored = np.asarray(points["intensity"]).astype(np.float64)
        columns["intensity"] = (stored * scale).astype(np.float32) if description is None else stored * scale
    if "return_index" in wanted:
        columns["return_index"] = np.maximum(np.array(points["return_number"]), 1).astype(np.uint8) - np.uint8(1)
    if "return_count" in wanted:
        columns["return_count"] = np.array(points["number_of_returns"]).astype(np.uint8)
    if "label" in wanted:
        columns["label"] = np.array(points["classification"]).astype(np.uint16)
    if "time" in wanted:
        columns["time"] = np.array(points["gps_time"], np.float64)
    if "rgb" in wanted:
        wide = np.stack([np.asarray(points[name]) for name in ("red", "green", "blue")], axis=1)
        # The specification requires 16-bit colours, but many files contain unscaled 8-bit values.
        columns["rgb"] = (wide >> 8 if np.any(wide > 255) else wide).astype(np.uint8)
    for name in set(_SAME_NAME) & wanted:
        values = np.array(points[name])
        if description is not None or np.any(values):
            columns[name] = values
    for name in points.point_format.extra_dimension_names:
        columns[name] = np.array(points[name])
    return columns
