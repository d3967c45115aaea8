"""PointCloud2, both ways: clouds in the layout of a maker's driver (`parhelion.makers.layouts`), and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import FIELDS, PointCloud
from parhelion.core.errors import FormatError
from parhelion.core.reading import reading
from parhelion.io.columns import Columns
from parhelion.io.ros.types import Message, decode, encode, header, nanoseconds, new
from parhelion.makers.layouts import XYZIRT, CloudLayout, driver_called, layouts, whole, with_xyz

POINT_CLOUD = "sensor_msgs/msg/PointCloud2"

_CODES = {"i1": 1, "u1": 2, "i2": 3, "u2": 4, "i4": 5, "u4": 6, "f4": 7, "f8": 8}
_DTYPES = {code: np.dtype(f"<{name}") for name, code in _CODES.items()}
_MOST_FIELDS = 4096
_LARGEST_POINT = 1 << 20

# Fields of other drivers.
_SAME_RING = ("line", "channel", "laser_id")
_SAME = {"intensities": "intensity", "i": "intensity", "ambient": "near_ir", **dict.fromkeys(_SAME_RING, "ring")}
"""Names that mean one of ours in the same unit."""
_RELATIVE_TIME = ("t", "time", "offset_time")
"""Time after the header's stamp: seconds where they have a fraction, else nanoseconds."""
_CLOCK_TIME = ("timestamp", "time_stamp")
"""Time on the sensor's clock, in s or ns."""
_OF_SHOTS = ("ring", "column", *_SAME_RING, *_RELATIVE_TIME, *_CLOCK_TIME)
"""Fields that belong to a shot whether or not it had a return."""
_NANOSECONDS_FROM = 1e14
"""A clock's number above this can only be nanoseconds: as seconds it would be three million years."""


# ---- to messages ---------------------------------------------------------------------------------------------------


def point_cloud2(
    cloud: PointCloud, frame_id: str, time_ns: int, layout: str | CloudLayout = "all", *, echo: int = 0
) -> bytes:
    """CDR bytes of a sensor_msgs/PointCloud2.

    `layout` is that of a driver, by the maker's name such as 'velodyne' or as an object, or 'all': every field of the
    cloud that is a number. `time_ns` is the time of the scan's start, from which the points' own times count. Layouts
    of one return per shot, such as 'ouster', take the strongest, or the next for `echo` = 1. Fields that the cloud does
    not have are 0.
    """
    if layout == "all":
        return _message(_all_rows(cloud), (1, len(cloud)), frame_id, time_ns)
    chosen = (driver_called(layout).layout or XYZIRT) if isinstance(layout, str) else layout
    return _message(*chosen.rows(cloud, echo), frame_id, time_ns)


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
    """The PointField messages of a structure of points."""
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
            columns[name] = _packed_colour(values)
        elif values.ndim == 1:
            columns[name] = _storable(values)
        else:
            suffixes = "xyz" if values.shape[1] == 3 else [str(k) for k in range(values.shape[1])]
            columns |= {f"{name}_{suffix}": _storable(values[:, k]) for k, suffix in enumerate(suffixes)}
    dtype = np.dtype([(name, column.dtype) for name, column in columns.items()], align=True)
    rows = np.zeros(len(cloud), dtype)
    for name, column in columns.items():
        rows[name] = column
    return rows


def _storable(values: NDArray[Any]) -> NDArray[Any]:
    """As one of the eight types of PointField."""
    if values.dtype.str[1:] in _CODES:
        return values.astype(values.dtype.newbyteorder("<"), copy=False)
    return values.astype("<u1" if values.dtype.kind == "b" else "<f4" if values.dtype.itemsize < 4 else "<f8")


# ---- from messages -------------------------------------------------------------------------------------------------


def cloud_of(message: Message, *, keep_missing: bool = False) -> PointCloud:
    """The cloud of a PointCloud2 message, with our field names and units; other fields keep their names.

    Points with NaN coordinates are dropped, and those at 0, 0, 0 if the driver marks missing returns so;
    `keep_missing` keeps them, and numbers the cells of organised clouds in the field `shot`. The header is in the
    metadata: `time` [s], `frame_id`. Raises FormatError for big-endian data and for fields that do not fit the data.
    """
    with reading(message.topic):
        return _cloud_of(message, keep_missing)


def _cloud_of(message: Message, keep_missing: bool) -> PointCloud:
    decoded = _decoded(message)
    rows = _rows(decoded, message.topic)
    layout = _layout_of(rows.dtype)
    columns = {name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names or ()}
    organised = int(decoded.height) > 1
    if layout is not None:
        columns = layout.columns(columns, int(decoded.height))
    if keep_missing and organised and "shot" not in columns:
        columns["shot"] = np.arange(len(rows), dtype=np.uint32)
    if any(columns[axis].ndim != 1 for axis in "xyz"):
        raise FormatError(f"{message.topic}: the fields x, y and z must hold one number each")
    xyz = np.stack([columns.pop(axis) for axis in "xyz"], axis=1)
    if xyz.dtype not in (np.float32, np.float64):
        xyz = xyz.astype(np.float64)
    fields = _to_our_units(columns)
    metadata = {"time": nanoseconds(decoded.header.stamp) / 1e9, "frame_id": str(decoded.header.frame_id)}
    cloud = PointCloud(xyz, fields, metadata=metadata)
    if keep_missing:
        return cloud
    there = np.isfinite(xyz).all(axis=1)
    if layout is not None and layout.zero_is_missing:
        there &= np.any(xyz != 0.0, axis=1)
    return cloud if there.all() else cloud.select(there)


def like(message: Message, cloud: PointCloud) -> bytes:
    """The PointCloud2 of another cloud, with the header, the fields and the layout of a message.

    An organised message stays so where the cloud's field `shot` numbers its cells, one point each. Fields that the
    cloud does not have are 0.
    """
    with reading(message.topic):
        return _like(message, cloud)


def _like(message: Message, cloud: PointCloud) -> bytes:
    decoded = _decoded(message)
    dtype = _record(decoded, message.topic)
    layout = _layout_of(dtype)
    stamp_ns, frame_id = nanoseconds(decoded.header.stamp), str(decoded.header.frame_id)
    before = _rows(decoded, message.topic)
    rows = with_xyz(dtype, cloud)
    source = _all_rows(cloud) if layout is None else layout.points(cloud, int(decoded.height))
    for name in dtype.names or ():
        if name in ("x", "y", "z"):
            continue
        values = _their_values(name, before[name], cloud) if layout is None else None
        if values is None and name in (source.dtype.names or ()):
            values = source[name]
        if values is not None:
            kind = dtype[name]
            rows[name] = values if kind.kind == "f" or values.dtype == kind else whole(values, kind.base.str[1:])
    if decoded.height <= 1 or "shot" not in cloud.fields:
        return _message(rows, (1, len(rows)), frame_id, stamp_ns)
    image = _emptied(before)
    # Backwards, so that of several returns of a shot the first, which is the nearest, stays.
    image[cloud.fields["shot"][::-1]] = rows[::-1]
    return _message(image, (int(decoded.height), int(decoded.width)), frame_id, stamp_ns)


def _emptied(rows: NDArray[Any]) -> NDArray[Any]:
    """The cells of an organised cloud without any return, marked as it marks them: NaN or zeros."""
    image = np.zeros(len(rows), rows.dtype)
    xyz = np.stack([rows[axis] for axis in "xyz"])
    zeros = np.isfinite(xyz).all() and bool(np.any(np.all(xyz == 0.0, axis=0)))
    for axis in "xyz":
        image[axis] = 0.0 if zeros else np.nan
    for name in _OF_SHOTS:
        if name in (rows.dtype.names or ()):
            image[name] = rows[name]
    return image


def _decoded(message: Message) -> Any:
    if message.type != POINT_CLOUD:
        raise FormatError(f"{message.topic}: is {message.type}, not {POINT_CLOUD}")
    decoded = decode(POINT_CLOUD, message.data)
    if decoded.is_bigendian:
        raise FormatError(f"{message.topic}: the points are big endian, which is not read; only little endian is")
    return decoded


def _layout_of(dtype: np.dtype[Any]) -> CloudLayout | None:
    """The driver's layout that messages of this structure have; None where common names and units suffice."""
    return next((layout for layout in layouts().values() if layout.matches(dtype)), None)


def _record(decoded: Any, topic: str) -> np.dtype[Any]:
    """The structure of a point."""
    step = int(decoded.point_step)
    names, formats, offsets = [], [], []
    if step > _LARGEST_POINT:
        raise FormatError(f"{topic}: a point of {step} bytes is too large, allowed are {_LARGEST_POINT}")
    if len(decoded.fields) > _MOST_FIELDS:
        raise FormatError(f"{topic}: a point has {len(decoded.fields)} fields, allowed are {_MOST_FIELDS}")
    for field in decoded.fields:
        dtype = _DTYPES.get(int(field.datatype))
        if dtype is None:
            raise FormatError(f"{topic}: the field {field.name!r} has the unknown datatype {field.datatype}")
        count = max(int(field.count), 1)  # some drivers leave it at 0 and mean 1
        if field.offset + dtype.itemsize * count > step:
            raise FormatError(f"{topic}: the field {field.name!r} does not fit into a point of {step} bytes")
        if field.name in names:
            raise FormatError(f"{topic}: the field {field.name!r} appears twice")
        if field.name:
            names.append(field.name)
            formats.append(dtype if count == 1 else np.dtype((dtype, (count,))))
            offsets.append(int(field.offset))
    missing = [axis for axis in "xyz" if axis not in names]
    if missing:
        raise FormatError(f"{topic}: the point cloud has no field {missing[0]!r}; it has: {', '.join(names) or 'none'}")
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": step})


def _rows(decoded: Any, topic: str) -> NDArray[Any]:
    """All points as a structured array, row after row; bytes between rows are skipped."""
    dtype = _record(decoded, topic)
    height, width, row_step = int(decoded.height), int(decoded.width), int(decoded.row_step)
    data = np.asarray(decoded.data, np.uint8)
    used = width * dtype.itemsize
    if height > 1 and row_step < used:
        raise FormatError(f"{topic}: row_step is {row_step}, but a row of {width} points has {used} bytes")
    needed = (height - 1) * row_step + used if height > 1 else used * height
    if len(data) < needed:
        raise FormatError(f"{topic}: {height} x {width} points need {needed} bytes, and {len(data)} are there")
    if height > 1 and row_step != used:
        padded = np.zeros(height * row_step, np.uint8)
        padded[: min(len(data), len(padded))] = data[: len(padded)]
        data = padded.reshape(height, row_step)[:, :used].ravel()
    return np.frombuffer(data.tobytes(), dtype, height * width)


# ---- fields of other drivers ---------------------------------------------------------------------------------------


def _to_our_units(columns: Columns) -> Columns:
    """Fields by our names and units, where it is known what they mean; the rest as they are."""
    found: Columns = {}
    for name, values in columns.items():
        ours = _SAME.get(name, name)
        if name in _RELATIVE_TIME and values.ndim == 1:
            found.setdefault("time", _seconds(values))
        elif name == "range" and values.dtype.kind in "iu":
            found["range"] = (values * 1e-3).astype(np.float32)
        elif name in ("rgb", "rgba") and values.dtype.itemsize == 4 and values.ndim == 1:
            found |= _colour(name, values)
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
    """When the first point was measured, in the clock's own unit, and how many seconds that unit is."""
    finite = values[np.isfinite(values)].astype(np.float64)
    first = float(finite.min(initial=np.inf)) if len(finite) else 0.0
    return first, 1e-9 if first > _NANOSECONDS_FROM else 1.0


def _since_first(clock: NDArray[Any]) -> NDArray[np.float32]:
    first, unit = _clock(clock)
    return np.nan_to_num((clock.astype(np.float64) - first) * unit).astype(np.float32)


def _their_values(name: str, before: NDArray[Any], cloud: PointCloud) -> NDArray[Any] | None:
    """A field of another driver from our fields, or None where the name means the same to us.

    `before` are the values that the field had: they say in which unit it counts.
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
        return _packed_colour(fields["rgb"], fields.get("alpha")).view(before.dtype)
    ours = _SAME.get(name)
    return None if ours is None else fields.get(ours)


def _packed_colour(rgb: NDArray[Any], alpha: NDArray[Any] | None = None) -> NDArray[np.float32]:
    """Colours as PCL packs them: blue, green, red and alpha as the bytes of a float32."""
    packed = np.zeros((len(rgb), 4), np.uint8)
    packed[:, 2::-1] = rgb
    if alpha is not None:
        packed[:, 3] = alpha
    return packed.view("<f4")[:, 0]


def _colour(name: str, values: NDArray[Any]) -> Columns:
    """PCL's packed colour: blue, green, red, alpha in the bytes of one word, whatever its declared type."""
    packed = values.view(np.uint8).reshape(-1, 4)
    colour = {"rgb": np.ascontiguousarray(packed[:, 2::-1])}
    return colour if name == "rgb" else {**colour, "alpha": packed[:, 3].copy()}


def _vectors(columns: Columns) -> Columns:
    """Three fields called name_x, name_y and name_z are one of three columns."""
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


assert set(_CODES) >= {np.dtype(spec.dtype).str[1:] for spec in FIELDS.values()}  # every field of ours has a datatype
