"""PointCloud2, both ways: clouds as the drivers of real sensors lay them out, and any PointCloud2 back into a cloud.

Sources of the layouts: velodyne_pointcloud (PointcloudXYZIRT: fields packed, 22 bytes a point) and ouster-ros
(ouster_ros::Point, aligned to 16 bytes: 48 bytes a point, organised and destaggered, NaN where nothing came back).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import FIELDS, PointCloud, Scan, Shots
from parhelion.core.errors import FormatError, unknown_name
from parhelion.core.reading import reading
from parhelion.io.columns import Columns
from parhelion.io.ros.cloud_fields import OF_SHOTS, packed_colour, rows_as_columns, their_values, to_our_units
from parhelion.io.ros.types import Message, decode, encode, header, nanoseconds, new

LAYOUTS = ("velodyne", "ouster", "all")
"""Layouts of points: those of two drivers, and one that holds every field."""

POINT_CLOUD = "sensor_msgs/msg/PointCloud2"

VELODYNE = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("intensity", "<f4"), ("ring", "<u2"), ("time", "<f4")])
"""velodyne_pointcloud: `time` [s] after the header's stamp."""
OUSTER = np.dtype(
    {
        "names": ["x", "y", "z", "intensity", "t", "reflectivity", "ring", "ambient", "range"],
        "formats": ["<f4", "<f4", "<f4", "<f4", "<u4", "<u2", "<u2", "<u2", "<u4"],
        "offsets": [0, 4, 8, 16, 20, 24, 26, 28, 32],
        "itemsize": 48,
    }
)
"""ouster-ros: `t` [ns] after the header's stamp, `range` [mm], `ring` 0 on top."""

_CODES = {"i1": 1, "u1": 2, "i2": 3, "u2": 4, "i4": 5, "u4": 6, "f4": 7, "f8": 8}
_DTYPES = {code: np.dtype(f"<{name}") for name, code in _CODES.items()}
_MOST_FIELDS = 4096
_LARGEST_POINT = 1 << 20


# ---- to messages ---------------------------------------------------------------------------------------------------


def point_cloud2(cloud: PointCloud, frame_id: str, time_ns: int, layout: str = "all", *, echo: int = 0) -> bytes:
    """CDR bytes of a sensor_msgs/PointCloud2.

    `layout` is 'velodyne', 'ouster' or 'all' (every field of the cloud that is a number). `time_ns` is the time of the
    scan's start, from which the points' own times count. With 'ouster', a scan that has its shots becomes an image of
    rings times columns, of one return a shot: the strongest, or the next for `echo` = 1. Fields that the cloud does not
    have are 0.
    """
    if layout not in LAYOUTS:
        raise unknown_name("layout of point clouds", layout, LAYOUTS)
    if layout == "velodyne":
        return _message(_velodyne_rows(cloud), (1, len(cloud)), frame_id, time_ns)
    if layout == "ouster":
        return _message(*_ouster_rows(cloud, echo), frame_id, time_ns)
    return _message(_all_rows(cloud), (1, len(cloud)), frame_id, time_ns)


def _message(rows: NDArray[Any], shape: tuple[int, int], frame_id: str, time_ns: int) -> bytes:
    kind = rows.dtype
    finite = all(bool(np.isfinite(rows[axis]).all()) for axis in "xyz")
    message = new(
        POINT_CLOUD,
        header=header(time_ns, frame_id),
        height=shape[0],
        width=shape[1],
        fields=_point_fields(kind),
        is_bigendian=False,
        point_step=kind.itemsize,
        row_step=kind.itemsize * shape[1],
        data=np.frombuffer(rows.tobytes(), np.uint8),
        is_dense=finite,
    )
    return encode(POINT_CLOUD, message)


def _point_fields(dtype: np.dtype[Any]) -> list[Any]:
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


def _whole(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Rounded into the range of a whole-number type; what is not a number becomes 0."""
    limits = np.iinfo(dtype)
    clean = np.nan_to_num(np.asarray(values, np.float64), nan=0.0, posinf=limits.max, neginf=0.0)
    return np.clip(np.rint(clean), limits.min, limits.max).astype(dtype)


def _with_xyz(dtype: np.dtype[Any], xyz: NDArray[Any], count: int) -> NDArray[Any]:
    rows = np.zeros(count, dtype)
    for axis, name in enumerate("xyz"):
        rows[name] = xyz[:, axis]
    return rows


def _velodyne_rows(cloud: PointCloud) -> NDArray[Any]:
    rows = _with_xyz(VELODYNE, cloud.xyz, len(cloud))
    for name in ("intensity", "ring", "time"):
        if name in cloud.fields:
            rows[name] = cloud.fields[name]
    return rows


def _ouster_points(cloud: PointCloud) -> NDArray[Any]:
    """Points in the order of the cloud, rings still counted from below."""
    rows = _with_xyz(OUSTER, cloud.xyz, len(cloud))
    fields = cloud.fields
    if "intensity" in fields:
        rows["intensity"] = fields["intensity"]
    for ours, theirs, factor, dtype in (
        ("time", "t", 1e9, "u4"), ("reflectivity", "reflectivity", 100.0, "u2"), ("ring", "ring", 1.0, "u2"),
        ("near_ir", "ambient", 1.0, "u2"), ("range", "range", 1000.0, "u4"),
    ):  # fmt: skip
        if ours in fields:
            rows[theirs] = _whole(fields[ours].astype(np.float64) * factor, dtype)
    if "range" not in fields:
        rows["range"] = _whole(np.linalg.norm(cloud.xyz, axis=1) * 1000.0, "u4")
    # Ouster's reflectivity is a byte in a word of two.
    rows["reflectivity"] = np.minimum(rows["reflectivity"], 255)
    return rows


def _ouster_rows(cloud: PointCloud, echo: int) -> tuple[NDArray[Any], tuple[int, int]]:
    points = _ouster_points(cloud)
    if not isinstance(cloud, Scan) or len(cloud.shots) == 0:
        rings = _ouster_rings(points["ring"])
        points["ring"] = rings - 1 - points["ring"]
        return points, (1, len(points))
    shots = cloud.shots
    rings, columns = int(shots.ring.max()) + 1, int(shots.column.max()) + 1
    cell = _cells(shots, rings, columns)
    image = np.zeros(rings * columns, OUSTER)
    for axis in "xyz":
        image[axis] = np.nan
    image["ring"] = np.repeat(np.arange(rings), columns)
    image["t"][cell] = _whole(shots.time.astype(np.float64) * 1e9, "u4")
    # Pixels without a return keep what the sensor counted there.
    if shots.near_ir is not None:
        image["ambient"][cell] = _whole(shots.near_ir, "u2")
    if shots.noise is not None and echo == 0:
        image["intensity"][cell] = shots.noise
    chosen = _echo_rows(cloud, echo)
    points["ring"] = rings - 1 - points["ring"]
    image[cell[cloud.fields["shot"][chosen]]] = points[chosen]
    return image, (rings, columns)


def _echo_rows(scan: Scan, echo: int) -> NDArray[np.int64]:
    """One row a shot that has so many returns: the strongest, the next ..."""
    if scan.shots.return_count.max(initial=0) <= 1:
        return np.arange(len(scan) if echo == 0 else 0)
    shot = scan.fields["shot"].astype(np.int64)
    strength = scan.fields.get("power", scan.fields.get("intensity", np.zeros(len(scan))))
    order = np.lexsort((-np.asarray(strength, np.float64), shot))
    ordered = shot[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, np.int64)
    rank = np.arange(len(ordered)) - np.repeat(begins, np.diff(np.r_[begins, len(ordered)]))
    return order[rank == echo]


_known_cells: list[tuple[Shots, NDArray[np.int64]]] = []


def _cells(shots: Shots, rings: int, columns: int) -> NDArray[np.int64]:
    """Place of each shot in the image, row by row; kept for the next scan of the same pattern."""
    for known, cells in _known_cells:
        if all(getattr(known, name) is getattr(shots, name) for name in ("direction", "ring", "column")):
            return cells
    cells = (rings - 1 - shots.ring.astype(np.int64)) * columns + _destaggered(shots, rings, columns)
    _known_cells[4:] = []
    _known_cells.insert(0, (shots, cells))
    return cells


def _destaggered(shots: Shots, rings: int, columns: int) -> NDArray[np.int64]:
    """Column of each shot in an image whose columns are directions: rings fire into different ones at the same time."""
    column = shots.column.astype(np.int64)
    angle = np.arctan2(shots.direction[:, 1], shots.direction[:, 0]).astype(np.float64)
    step = 2.0 * np.pi / columns
    clockwise = 1.0
    first_ring = shots.ring == shots.ring[0]
    seen = np.unwrap(angle[first_ring][np.argsort(column[first_ring], kind="stable")])
    if len(seen) > 1:
        clockwise = -1.0 if seen[-1] < seen[0] else 1.0
        if abs(abs(seen[-1] - seen[0]) - 2.0 * np.pi) > 2.0 * step:
            return column  # not a whole turn: there is nothing to roll into
    # What is left when the turn is taken out is the ring's own offset; its mean over the columns has no jitter.
    rest = np.exp(1j * (angle - clockwise * step * column))
    mean = np.bincount(shots.ring, rest.real, rings) + 1j * np.bincount(shots.ring, rest.imag, rings)
    offset = np.angle(mean * np.conj(np.sum(mean)))
    shift = clockwise * offset / step
    if np.max(np.abs(shift - np.rint(shift))) > 0.25:
        # The middle of all rings lies between two columns: count from the ring that is nearest to it.
        shift = shift - shift[np.argmin(np.abs(shift))]
    return (column + np.rint(shift).astype(np.int64)[shots.ring]) % columns


def _ouster_rings(ring: NDArray[Any]) -> int:
    """Number of rings of a cloud that does not say: Ouster builds powers of two, from 16."""
    highest = int(ring.max(initial=0)) + 1
    return max(16, 1 << (highest - 1).bit_length())


def _all_rows(cloud: PointCloud) -> NDArray[Any]:
    columns: Columns = {"x": cloud.xyz[:, 0], "y": cloud.xyz[:, 1], "z": cloud.xyz[:, 2]}
    for name, values in cloud.fields.items():
        if values.dtype.kind not in "biuf":
            continue
        if name == "rgb" and values.dtype == np.uint8 and values.shape[1:] == (3,):
            columns[name] = packed_colour(values)
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

    Points with NaN coordinates are dropped, and of Ouster's organised clouds those at 0, 0, 0, too; `keep_missing`
    keeps them, and numbers the cells of organised clouds in the field `shot`. The header is in the metadata: `time`
    [s], `frame_id`. Raises FormatError for big-endian data and for fields that do not fit the data.
    """
    with reading(message.topic):
        return _cloud_of(message, keep_missing)


def _cloud_of(message: Message, keep_missing: bool) -> PointCloud:
    decoded = _decoded(message)
    rows = _rows(decoded, message.topic)
    ouster = _is_ouster(rows.dtype)
    columns = rows_as_columns(rows)
    organised = int(decoded.height) > 1
    if ouster:
        rings = int(decoded.height) if organised else _ouster_rings(rows["ring"])
        columns["ring"] = (rings - 1 - np.minimum(columns["ring"], rings - 1)).astype(np.uint16)
        columns["reflectivity"] = (columns["reflectivity"] / np.float32(100.0)).astype(np.float32)
    if keep_missing and organised and "shot" not in columns:
        columns["shot"] = np.arange(len(rows), dtype=np.uint32)
    if any(columns[axis].ndim != 1 for axis in "xyz"):
        raise FormatError(f"{message.topic}: the fields x, y and z must hold one number each")
    xyz = np.stack([columns.pop(axis) for axis in "xyz"], axis=1)
    if xyz.dtype not in (np.float32, np.float64):
        xyz = xyz.astype(np.float64)
    fields = to_our_units(columns)
    metadata = {"time": nanoseconds(decoded.header.stamp) / 1e9, "frame_id": str(decoded.header.frame_id)}
    cloud = PointCloud(xyz, fields, metadata=metadata)
    if keep_missing:
        return cloud
    there = np.isfinite(xyz).all(axis=1)
    if ouster:
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
    ouster = _is_ouster(dtype)
    stamp_ns, frame_id = nanoseconds(decoded.header.stamp), str(decoded.header.frame_id)
    before = _rows(decoded, message.topic)
    rows = _with_xyz(dtype, cloud.xyz, len(cloud))
    source = _ouster_points(cloud) if ouster else _all_rows(cloud)
    for name in dtype.names or ():
        if name in ("x", "y", "z"):
            continue
        values = None if ouster else their_values(name, before[name], cloud)
        if values is None and name in (source.dtype.names or ()):
            values = source[name]
        if values is not None:
            kind = dtype[name]
            rows[name] = values if kind.kind == "f" or values.dtype == kind else _whole(values, kind.base.str[1:])
    if ouster:
        rings = int(decoded.height) if decoded.height > 1 else _ouster_rings(rows["ring"])
        rows["ring"] = rings - 1 - np.minimum(rows["ring"], rings - 1)
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
    for name in OF_SHOTS:
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


def _is_ouster(dtype: np.dtype[Any]) -> bool:
    names = set(dtype.names or ())
    if not {"t", "reflectivity", "ring", "range"} <= names:
        return False
    return all(dtype[name].kind == "u" for name in ("t", "reflectivity", "ring", "range"))


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


assert set(_CODES) >= {np.dtype(spec.dtype).str[1:] for spec in FIELDS.values()}  # every field of ours has a datatype
