"""Conversion of clouds to PointCloud2 in the layout of a maker's driver (`parhelion.makers.layouts`), and back."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import FIELDS, PointCloud
from parhelion.core.errors import FormatError
from parhelion.core.reading import reading
from parhelion.io.columns import Columns, column_names, packed_rgb, unpacked_rgb
from parhelion.io.ros.types import CdrReader, Message, encode, header, new
from parhelion.makers.layouts import XYZIRT, CloudLayout, driver_called, layouts, whole

POINT_CLOUD = "sensor_msgs/msg/PointCloud2"

_CODES = {"i1": 1, "u1": 2, "i2": 3, "u2": 4, "i4": 5, "u4": 6, "f4": 7, "f8": 8}
_DTYPES = {code: np.dtype(f"<{name}") for name, code in _CODES.items()}
_MOST_FIELDS = 4096
_LARGEST_POINT = 1 << 20

# Fields of other drivers.
_SAME_RING = ("line", "channel", "laser_id")
_SAME = {
    "intensities": "intensity",
    "i": "intensity",
    "ambient": "near_ir",
    "velocity": "radial_velocity",
    **dict.fromkeys(_SAME_RING, "ring"),
}
"""Our name of fields with the same unit, by their name in other drivers."""
_RELATIVE_TIME = ("t", "time", "offset_time")
"""Names of times after the header's stamp: floats are seconds, integers nanoseconds."""
_CLOCK_TIME = ("timestamp", "time_stamp")
"""Names of times on the sensor's clock, in s or ns."""
_OF_SHOTS = ("ring", "column", *_SAME_RING, *_RELATIVE_TIME, *_CLOCK_TIME)
"""Fields that are valid for shots without a return."""
_OF_SHOTS_OURS = ("ring", "column", "time", "shot", "direction")
"""Our names of such fields."""
_NANOSECONDS_FROM = 1e14
"""Clock times above this are nanoseconds; as seconds they would be three million years."""


# ---- to messages ---------------------------------------------------------------------------------------------------


def point_cloud2(
    cloud: PointCloud, frame_id: str, time_ns: int, layout: str | CloudLayout = "all", *, echo: int = 0
) -> bytes:
    """CDR bytes of a sensor_msgs/PointCloud2.

    `layout` is the layout of a driver, by the name of the maker ('velodyne') or as an object, or 'all' for every
    numeric field of the cloud. `time_ns` is the start of the scan; times of points are relative to it. Layouts with one
    return per shot ('ouster') use the strongest return, or the next one for `echo` = 1. Missing fields are 0.
    """
    if layout == "all":
        return _message(_all_rows(cloud), (1, len(cloud)), frame_id, time_ns)
    chosen = (driver_called(layout).layout or XYZIRT) if isinstance(layout, str) else layout
    rows, shape = chosen.rows(cloud, echo)
    return _message(chosen.stamped(rows, time_ns), shape, frame_id, time_ns)


def _message(rows: NDArray[Any], shape: tuple[int, int], frame_id: str, time_ns: int) -> bytes:
    kind = rows.dtype
    finite = all(bool(np.isfinite(rows[axis]).all()) for axis in "xyz")
    message = new(
        POINT_CLOUD,
        header=header(time_ns, frame_id),
        height=shape[0],
        width=shape[1],
        fields=point_fields(kind),
        is_bigendian=False,
        point_step=kind.itemsize,
        row_step=kind.itemsize * shape[1],
        data=np.frombuffer(rows.tobytes(), np.uint8),
        is_dense=finite,
    )
    return encode(POINT_CLOUD, message)


def point_fields(dtype: np.dtype[Any]) -> list[Any]:
    """PointField messages of a structured type."""
    assert dtype.names is not None
    assert dtype.fields is not None
    fields = []
    for name in dtype.names:
        base, offset = dtype.fields[name][:2]
        scalar, shape = base.subdtype or (base, ())
        code = _CODES[scalar.str[1:]]
        count = int(np.prod(shape)) if shape else 1
        fields.append(new("sensor_msgs/msg/PointField", name=name, offset=int(offset), datatype=code, count=count))
    return fields


def _all_rows(cloud: PointCloud) -> NDArray[Any]:
    columns: Columns = {"x": cloud.xyz[:, 0], "y": cloud.xyz[:, 1], "z": cloud.xyz[:, 2]}
    for name, values in cloud.fields.items():
        if values.dtype.kind not in "biuf":
            continue
        if name == "rgb" and values.dtype == np.uint8 and values.shape[1:] == (3,):
            columns[name] = packed_rgb(values)
        elif values.ndim == 1:
            columns[name] = _storable(values)
        else:
            parts = column_names(name, values.shape[1])
            columns |= {part: _storable(values[:, k]) for k, part in enumerate(parts)}
    dtype = np.dtype([(name, column.dtype) for name, column in columns.items()], align=True)
    rows = np.zeros(len(cloud), dtype)
    for name, column in columns.items():
        rows[name] = column
    return rows


def _storable(values: NDArray[Any]) -> NDArray[Any]:
    """Convert a column to one of the eight types of PointField."""
    if values.dtype.str[1:] in _CODES:
        return values.astype(values.dtype.newbyteorder("<"), copy=False)
    return values.astype("<u1" if values.dtype.kind == "b" else "<f4" if values.dtype.itemsize < 4 else "<f8")


# ---- from messages -------------------------------------------------------------------------------------------------


def cloud_of(message: Message, *, keep_missing: bool = False) -> PointCloud:
    """Convert a PointCloud2 message to a cloud with our field names and units; unknown fields keep their names.

    Points with NaN coordinates are dropped, as are points at 0, 0, 0 if the driver marks missing returns that way.
    `keep_missing` includes them, and adds the cell number in organised clouds as field `shot`. The header is in the
    metadata: `time` [s], `frame_id`. Raise FormatError for big-endian data and for fields that do not match the data.
    """
    with reading(message.topic):
        return _cloud_of(message, keep_missing)


def _cloud_of(message: Message, keep_missing: bool) -> PointCloud:
    decoded = _decoded(message)
    rows = _rows(decoded, message.topic)
    layout = _layout_of(rows.dtype)
    xyz, others = _coordinates(rows, message.topic)
    columns = {name: np.ascontiguousarray(rows[name]) for name in others}
    organised = decoded.height > 1
    if layout is not None:
        columns = layout.columns(columns, decoded.height)
    if keep_missing and organised and "shot" not in columns:
        columns["shot"] = np.arange(len(rows), dtype=np.uint32)
    fields = _to_our_units(columns)
    metadata = {"time": decoded.stamp_ns / 1e9, "frame_id": decoded.frame_id}
    cloud = PointCloud(xyz, fields, metadata=metadata)
    if keep_missing:
        return cloud
    there = np.isfinite(xyz).all(axis=1)
    if layout is not None and layout.zero_is_missing:
        there &= np.any(xyz != 0.0, axis=1)
    return cloud if there.all() else cloud.select(there)


def _coordinates(rows: NDArray[Any], topic: str) -> tuple[NDArray[Any], list[str]]:
    """Coordinates of points, shape (n, 3), and the names of the other fields."""
    kinds = [rows.dtype[axis] for axis in "xyz"]
    if any(kind.shape for kind in kinds):
        raise FormatError(f"{topic}: the fields x, y and z must have one number each")
    others = [name for name in rows.dtype.names or () if name not in ("x", "y", "z")]
    beside = _beside(rows)
    xyz = np.stack([rows[axis] for axis in "xyz"], axis=1) if beside is None else np.ascontiguousarray(beside)
    return xyz if xyz.dtype in (np.float32, np.float64) else xyz.astype(np.float64), others


def _beside(rows: NDArray[Any]) -> NDArray[Any] | None:
    """Coordinates of points as a view, shape (n, 3); None if they do not lie beside each other with one type."""
    known: Mapping[str, Any] = rows.dtype.fields or {}
    places = [known[axis][:2] for axis in "xyz"]
    kind, start = places[0]
    if kind.kind != "f" or [(kind, start + k * kind.itemsize) for k in range(3)] != [tuple(one) for one in places]:
        return None
    beside = np.dtype({"names": ["xyz"], "formats": [(kind, (3,))], "offsets": [start], "itemsize": rows.itemsize})
    return np.asarray(rows.view(beside)["xyz"])


def like(message: Message, cloud: PointCloud) -> bytes:
    """Convert a cloud to a PointCloud2 with the header, the fields and the layout of an existing message.

    The result is organised like the message if the field `shot` of the cloud holds cell numbers. Missing fields are 0.
    """
    with reading(message.topic):
        return _like(message, cloud)


def _like(message: Message, cloud: PointCloud) -> bytes:
    decoded = _decoded(message)
    before = _rows(decoded, message.topic)
    dtype = before.dtype
    if decoded.height > 1 and "shot" in cloud.fields:
        data, rows = decoded.copy_with(decoded.height, decoded.width, dtype)
        _write_cells(rows, before, cloud, decoded.height)
    else:
        data, rows = decoded.copy_with(1, len(cloud), dtype)
        for name, values in _columns_like(before, cloud, decoded.height, dtype.names or ()).items():
            rows[name] = values
    data[-1] = all(bool(np.isfinite(rows[axis]).all()) for axis in "xyz")
    return bytes(data)


def _columns_like(before: NDArray[Any], cloud: PointCloud, height: int, names: Collection[str]) -> Columns:
    """Fields of a cloud in the names, units and types of a message's points."""
    dtype, layout = before.dtype, _layout_of(before.dtype)
    if layout is not None:
        source = layout.values(cloud, height, names)
    else:
        rows = _all_rows(cloud)
        source = {name: rows[name] for name in rows.dtype.names or ()}
    found: Columns = {}
    for name in names:
        values = _their_values(name, before[name], cloud) if layout is None and name not in ("x", "y", "z") else None
        values = source.get(name) if values is None else values
        if values is not None:
            kind = dtype[name]
            found[name] = values if kind.kind == "f" or values.dtype == kind else whole(values, kind.base.str[1:])
    return found


def _write_cells(rows: NDArray[Any], before: NDArray[Any], cloud: PointCloud, height: int) -> None:
    """Write points into their cells; other cells are marked as without a return, like in `before`: NaN or zeros.

    Fields of shots stay as they are. Column by column, because scattered records of 48 bytes take three times as long.
    """
    names = [name for name in rows.dtype.names or () if name not in _OF_SHOTS]
    points = _one_per_cell(cloud)
    place, columns = points.fields["shot"], _columns_like(before, points, height, names)
    empty = 0.0 if _zeros_are_missing(before) else np.nan
    beside = _beside(rows)
    if beside is not None:
        cells: NDArray[Any] = np.full((len(rows), 3), empty, beside.dtype)
        cells[place] = points.xyz
        beside[:] = cells
        names = [name for name in names if name not in ("x", "y", "z")]
    for name in names:
        cells = np.zeros(len(rows), rows.dtype[name])
        if name in ("x", "y", "z"):
            cells.fill(empty)
        if name in columns:
            cells[place] = columns[name]
        rows[name] = cells


def _one_per_cell(cloud: PointCloud) -> PointCloud:
    """One row per cell: of several returns of a shot the first (nearest); also rows without a return that hold values.

    Weather returns the points in order of their shots, followed by rows of zeros for lost shots: then these are views.
    """
    there, shot = np.isfinite(cloud.xyz[:, 0]), cloud.fields["shot"]
    count = int(np.count_nonzero(there))
    ordered = bool(there[:count].all()) and bool((shot[1:count] > shot[: max(count - 1, 0)]).all())
    if ordered and not any(values[count:].any() for name, values in cloud.fields.items() if name not in _OF_SHOTS_OURS):
        return cloud.select(slice(count))
    rows = np.concatenate([np.flatnonzero(there), np.flatnonzero(~there)])
    return cloud.select(rows[np.unique(shot[rows], return_index=True)[1]])


def _zeros_are_missing(rows: NDArray[Any]) -> bool:
    """True if a message marks shots without a return by zeros, not by NaN."""
    x, y, z = (rows[axis] for axis in "xyz")
    return all(np.isfinite(one).all() for one in (x, y, z)) and bool(np.any((x == 0) & (y == 0) & (z == 0)))


@dataclass(frozen=True)
class _Field:
    """PointField of a message."""

    name: str
    offset: int
    datatype: int
    count: int


@dataclass(frozen=True)
class _Decoded:
    """PointCloud2 in its CDR bytes; points are not copied."""

    cdr: bytes
    order: str
    """Byte order of the CDR encoding, '<' or '>'; that of the points is `is_bigendian`."""
    stamp_ns: int
    frame_id: str
    height: int
    width: int
    fields: tuple[_Field, ...]
    is_bigendian: bool
    point_step: int
    row_step: int
    data: NDArray[np.uint8]
    size_at: int
    """Place of the height in the CDR bytes; the width follows."""
    step_at: int
    """Place of the row step; the number of bytes and the points follow."""

    def copy_with(self, height: int, width: int, dtype: np.dtype[Any]) -> tuple[bytearray, NDArray[Any]]:
        """CDR bytes with room for another number of points, and the points in them, which are those of the message.

        Points are zeros if their number or their row step differ from those of the message.
        """
        used = dtype.itemsize * width
        start = self.step_at + 8
        if (height, width, used) == (self.height, self.width, self.row_step) and len(self.data) == height * used:
            out = bytearray(memoryview(self.cdr)[: start + len(self.data) + 1])
        else:
            out = bytearray(start + height * used + 1)
            out[:start] = self.cdr[:start]
            struct.pack_into(f"{self.order}II", out, self.size_at, height, width)
            struct.pack_into(f"{self.order}II", out, self.step_at, used, height * used)
        return out, np.frombuffer(out, dtype, height * width, start)


def _decoded(message: Message) -> _Decoded:
    if message.type != POINT_CLOUD:
        raise FormatError(f"{message.topic}: is {message.type}, not {POINT_CLOUD}")
    try:
        decoded = _parsed(message.data)
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise FormatError(f"ROS: a message of {POINT_CLOUD} cannot be decoded ({type(error).__name__})") from None
    if decoded.is_bigendian:
        raise FormatError(f"{message.topic}: big-endian points are not supported, only little-endian ones")
    return decoded


def _parsed(cdr: bytes) -> _Decoded:
    """Fields of the CDR bytes of a PointCloud2."""
    if len(cdr) < 4 or cdr[0] != 0 or cdr[1] not in (0, 1):
        raise FormatError(f"ROS: a message of {POINT_CLOUD} does not start with a CDR header (bytes 00 00 or 00 01)")
    read = CdrReader(cdr)
    seconds, rest = read.number("i"), read.number("I")
    frame_id = read.text()
    size_at = read.aligned(4)
    height, width, count = read.number("I"), read.number("I"), read.number("I")
    if count > _MOST_FIELDS:
        raise FormatError(f"ROS: a point has {count} fields, the limit is {_MOST_FIELDS}")
    fields = tuple(_Field(read.text(), read.number("I"), read.number("B"), read.number("I")) for _ in range(count))
    big = read.number("B") != 0
    point_step = read.number("I")
    step_at = read.aligned(4)
    row_step, size = read.number("I"), read.number("I")
    data = np.frombuffer(cdr, np.uint8, size, read.at)
    read.at += size
    read.number("B")
    return _Decoded(
        cdr,
        read.order,
        seconds * 1_000_000_000 + rest,
        frame_id,
        height,
        width,
        fields,
        big,
        point_step,
        row_step,
        data,
        size_at,
        step_at,
    )


def _layout_of(dtype: np.dtype[Any]) -> CloudLayout | None:
    """Driver layout that matches a structured type; None if there is none."""
    return next((layout for layout in layouts().values() if layout.matches(dtype)), None)


def _record(decoded: _Decoded, topic: str) -> np.dtype[Any]:
    """Structured type of a point."""
    step = decoded.point_step
    names, formats, offsets = [], [], []
    if step > _LARGEST_POINT:
        raise FormatError(f"{topic}: a point has {step} bytes, the limit is {_LARGEST_POINT}")
    for field in decoded.fields:
        dtype = _DTYPES.get(field.datatype)
        if dtype is None:
            raise FormatError(f"{topic}: the field {field.name!r} has the unknown datatype {field.datatype}")
        count = max(field.count, 1)  # some drivers send 0 for 1
        if field.offset + dtype.itemsize * count > step:
            raise FormatError(f"{topic}: the field {field.name!r} does not fit into a point of {step} bytes")
        if field.name in names:
            raise FormatError(f"{topic}: the field {field.name!r} appears twice")
        if field.name:
            names.append(field.name)
            formats.append(dtype if count == 1 else np.dtype((dtype, (count,))))
            offsets.append(field.offset)
    missing = [axis for axis in "xyz" if axis not in names]
    if missing:
        raise FormatError(f"{topic}: the point cloud has no field {missing[0]!r}; it has: {', '.join(names) or 'none'}")
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": step})


def _rows(decoded: _Decoded, topic: str) -> NDArray[Any]:
    """All points as a structured array, row by row; padding between rows is skipped."""
    dtype = _record(decoded, topic)
    height, width, row_step, data = decoded.height, decoded.width, decoded.row_step, decoded.data
    used = width * dtype.itemsize
    if height > 1 and row_step < used:
        raise FormatError(f"{topic}: row_step is {row_step}, but a row of {width} points has {used} bytes")
    needed = (height - 1) * row_step + used if height > 1 else used * height
    if len(data) < needed:
        raise FormatError(f"{topic}: {height} x {width} points need {needed} bytes, the message has {len(data)}")
    if height > 1 and row_step != used:
        padded = np.zeros(height * row_step, np.uint8)
        padded[: min(len(data), len(padded))] = data[: len(padded)]
        data = padded.reshape(height, row_step)[:, :used].ravel()
    return np.ndarray((height * width,), dtype, data)


# ---- fields of other drivers ---------------------------------------------------------------------------------------


def _to_our_units(columns: Columns) -> Columns:
    """Convert known fields to our names and units; the others are unchanged."""
    found: Columns = {}
    for name, values in columns.items():
        ours = _SAME.get(name, name)
        if name in _RELATIVE_TIME and values.ndim == 1:
            found.setdefault("time", _seconds(values))
        elif name == "range" and values.dtype.kind in "iu":
            found["range"] = (values * 1e-3).astype(np.float32)
        elif name in ("rgb", "rgba") and values.dtype.itemsize == 4 and values.ndim == 1:
            found |= unpacked_rgb(name, values)
        elif ours == "near_ir":
            found["near_ir"] = values.astype(np.float32)
        elif ours == "ring" and values.dtype.kind in "iuf":
            found.setdefault("ring", np.clip(np.nan_to_num(values), 0, 65535).astype(np.uint16))
        elif ours == "intensity":
            found.setdefault("intensity", values.astype(np.float32))
        else:
            found[ours if ours not in columns else name] = values
    clock = next((name for name in _CLOCK_TIME if name in columns and columns[name].ndim == 1), None)
    if clock is not None and "time" not in found:
        found["time"] = _since_first(columns[clock])
    return _vectors(found)


def _seconds(values: NDArray[Any]) -> NDArray[np.float32]:
    scale = 1e-9 if values.dtype.kind in "iu" else 1.0
    return (values.astype(np.float64) * scale).astype(np.float32)


def _clock(values: NDArray[Any]) -> tuple[float, float]:
    """Time of the first point in the unit of the clock, and that unit [s]."""
    finite = values[np.isfinite(values)].astype(np.float64)
    first = float(finite.min(initial=np.inf)) if len(finite) else 0.0
    return first, 1e-9 if first > _NANOSECONDS_FROM else 1.0


def _since_first(clock: NDArray[Any]) -> NDArray[np.float32]:
    first, unit = _clock(clock)
    return np.nan_to_num((clock.astype(np.float64) - first) * unit).astype(np.float32)


def _their_values(name: str, before: NDArray[Any], cloud: PointCloud) -> NDArray[Any] | None:
    """Values of another driver's field computed from our fields; None if the field has the same meaning here.

    `before` are the previous values of the field, from which its unit is derived.
    """
    fields, whole = cloud.fields, before.dtype.kind in "iu"
    if name in _CLOCK_TIME and "time" in fields:
        first, unit = _clock(before)
        return first + fields["time"].astype(np.float64) / unit
    if name in _RELATIVE_TIME and "time" in fields:
        return fields["time"].astype(np.float64) * (1e9 if whole else 1.0)
    if name == "range" and whole and "range" in fields:
        return fields["range"].astype(np.float64) * 1000.0
    if name == "rgba" and "rgb" in fields:
        return packed_rgb(fields["rgb"], fields.get("alpha")).view(before.dtype)
    ours = _SAME.get(name)
    return None if ours is None else fields.get(ours)


def _vectors(columns: Columns) -> Columns:
    """Merge fields called name_x, name_y and name_z into one field with three columns."""
    found: Columns = {}
    for name, values in columns.items():
        stem = name[:-2]
        parts = [columns.get(f"{stem}_{axis}") for axis in "xyz"]
        if name[-2:] in ("_x", "_y", "_z") and stem and all(part is not None for part in parts):
            if name.endswith("_x"):
                found[stem] = np.stack([part for part in parts if part is not None], axis=1)
        else:
            found[name] = values
    return found


assert set(_CODES) >= {np.dtype(spec.dtype).str[1:] for spec in FIELDS.values()}  # every field has a PointField type
