"""ROS messages: the bytes that real drivers send, read back by rosbags' decoder and by our own."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rosbags.typesys import Stores, get_typestore

import parhelion as ph
from parhelion.core.clouds import Scan, Shots
from parhelion.core.errors import ConfigError, FormatError
from parhelion.io.ros import messages as ros
from parhelion.io.ros.clouds import like
from parhelion.io.ros.messages import Message, Transform, cloud_of
from parhelion.makers.layouts import layouts

STORE = get_typestore(Stores.ROS2_HUMBLE)
TIME_NS = 1_700_000_000_123_456_789


def small_scan(rings: int = 4, columns: int = 8, returns: int = 1) -> Scan:
    """Revolution of a clockwise lidar whose rings are staggered by one column each, with every third shot lost."""
    column, ring = (values.ravel() for values in np.meshgrid(np.arange(columns), np.arange(rings), indexing="ij"))
    angle = np.pi - 2.0 * np.pi * (column + ring) / columns
    rise = np.radians(-10.0 + 5.0 * ring)
    direction = np.stack([np.cos(rise) * np.cos(angle), np.cos(rise) * np.sin(angle), np.sin(rise)], axis=1)
    shots = np.arange(len(ring))
    seen = np.repeat(shots[shots % 3 != 0], returns)
    index = np.tile(np.arange(returns), len(seen) // returns)
    distance = (5.0 + 0.01 * seen + 2.0 * index).astype(np.float32)
    time = (column * 1e-4).astype(np.float32)
    fields = {
        "range": distance,
        "intensity": (seen % 200).astype(np.float32),
        "reflectivity": (0.01 * (seen % 90)).astype(np.float32),
        "power": (10.0 + 5.0 * index).astype(np.float32),
        "near_ir": (seen % 300).astype(np.float32),
        "ring": ring[seen].astype(np.uint16),
        "column": column[seen].astype(np.uint16),
        "time": time[seen],
        "velocity": np.stack([seen, -seen, 0 * seen], axis=1).astype(np.float32),
        "shot": seen.astype(np.uint32),
        "return_index": index.astype(np.uint8),
    }
    table = Shots(
        direction.astype(np.float32), np.zeros((len(ring), 3), np.float32), time, ring.astype(np.uint16),
        column.astype(np.uint16), np.where(shots % 3 != 0, returns, 0).astype(np.uint8),
    )  # fmt: skip
    return Scan((direction[seen] * distance[:, None]).astype(np.float32), fields, shots=table)


def message(data: bytes) -> Message:
    return Message("/points", ros.POINT_CLOUD, TIME_NS, data)


def fields_of(decoded: Any) -> list[tuple[str, int, int, int]]:
    return [(field.name, field.offset, field.datatype, field.count) for field in decoded.fields]


# ---- clouds --------------------------------------------------------------------------------------------------------


def test_velodyne_layout_is_the_drivers() -> None:
    scan = small_scan()
    decoded = STORE.deserialize_cdr(ros.point_cloud2(scan, "velodyne", TIME_NS, "velodyne"), ros.POINT_CLOUD)
    assert fields_of(decoded) == [
        ("x", 0, 7, 1), ("y", 4, 7, 1), ("z", 8, 7, 1), ("intensity", 12, 7, 1), ("ring", 16, 4, 1), ("time", 18, 7, 1)
    ]  # fmt: skip
    assert (decoded.point_step, decoded.height, decoded.width) == (22, 1, len(scan))
    assert decoded.row_step == 22 * len(scan)
    assert decoded.is_dense
    assert not decoded.is_bigendian
    assert (decoded.header.stamp.sec, decoded.header.stamp.nanosec) == (1_700_000_000, 123_456_789)
    assert decoded.header.frame_id == "velodyne"
    x, y, z, intensity, ring, time = struct.unpack_from("<ffffHf", decoded.data.tobytes(), 22 * 5)
    assert (x, y, z) == tuple(scan.xyz[5].tolist())
    assert (intensity, ring, time) == (scan.intensity[5], scan.ring[5], scan.time[5])


def test_ouster_layout_is_the_drivers() -> None:
    scan = small_scan()
    decoded = STORE.deserialize_cdr(ros.point_cloud2(scan, "os_lidar", TIME_NS, "ouster"), ros.POINT_CLOUD)
    assert fields_of(decoded) == [
        ("x", 0, 7, 1), ("y", 4, 7, 1), ("z", 8, 7, 1), ("intensity", 16, 7, 1), ("t", 20, 6, 1),
        ("reflectivity", 24, 4, 1), ("ring", 26, 4, 1), ("ambient", 28, 4, 1), ("range", 32, 6, 1),
    ]  # fmt: skip
    assert (decoded.point_step, decoded.height, decoded.width) == (48, 4, 8)
    assert not decoded.is_dense
    image = np.frombuffer(decoded.data.tobytes(), np.uint8).reshape(4, 8, 48)
    rings = image[:, :, 26:28].copy().view("<u2")[..., 0]
    assert np.array_equal(rings, np.repeat(np.arange(4), 8).reshape(4, 8))  # 0 is the top row
    xyz = image[:, :, :12].copy().view("<f4")
    assert np.isnan(xyz[..., 0]).sum() == len(scan.shots) - len(scan)
    # Destaggered: a column is a direction, and the top row looks up.
    azimuth = np.arctan2(xyz[..., 1], xyz[..., 0])
    middle = np.nanmean(np.exp(1j * azimuth[:, np.isfinite(azimuth).any(axis=0)]), axis=0)
    np.testing.assert_allclose(np.abs(middle), 1.0, atol=1e-5)
    assert np.nanmean(xyz[0, :, 2]) > np.nanmean(xyz[3, :, 2])
    # Times belong to shots: rings of one column were fired at different times.
    assert len(np.unique(image[:, 0, 20:24].copy().view("<u4"))) == 4


@pytest.mark.parametrize("layout", [*layouts(), "all"])
def test_every_layout_comes_back_in_our_units(layout: str) -> None:
    scan = small_scan()
    cloud = cloud_of(message(ros.point_cloud2(scan, "lidar", TIME_NS, layout)))
    assert cloud.metadata == {"time": pytest.approx(TIME_NS / 1e9), "frame_id": "lidar"}

    def rows(points: Any) -> Any:
        return np.lexsort((points.ring, np.arctan2(points.xyz[:, 1], points.xyz[:, 0]).round(3)))

    before, after = scan.select(rows(scan)), cloud.select(rows(cloud))
    np.testing.assert_array_equal(after.xyz, before.xyz)
    np.testing.assert_array_equal(after.ring, before.ring)
    np.testing.assert_array_equal(after.intensity, before.intensity)
    # Times on the sensor's clock have the steps of float64: 0.24 us today, in s as in ns.
    clock = 0.0 if layout in ("velodyne", "ouster", "all") else float(np.spacing(TIME_NS / 1e9))
    np.testing.assert_allclose(after.time, before.time, atol=1e-9 + clock)
    if layout == "ouster":
        np.testing.assert_allclose(after.range, before.range, atol=0.5001e-3)
        np.testing.assert_allclose(after.reflectivity, before.reflectivity, atol=0.5001e-2)
        np.testing.assert_array_equal(after.near_ir, before.near_ir)
    if layout == "all":
        assert set(cloud.fields) == set(scan.fields)
        np.testing.assert_array_equal(after.velocity, before.velocity)
        assert all(cloud.fields[name].dtype == scan.fields[name].dtype for name in scan.fields)


def test_second_returns_have_an_image_of_their_own() -> None:
    scan = small_scan(returns=2)
    strongest, second = (
        cloud_of(message(ros.point_cloud2(scan, "os_lidar", 0, "ouster", echo=echo))) for echo in (0, 1)
    )
    assert len(strongest) == len(second) == len(scan) // 2
    # The farther return is made the stronger one.
    np.testing.assert_allclose(np.sort(strongest.range), np.sort(scan.range[1::2]), atol=1e-3)
    np.testing.assert_allclose(np.sort(second.range), np.sort(scan.range[::2]), atol=1e-3)


def test_an_empty_cloud() -> None:
    empty = ph.PointCloud(np.zeros((0, 3), np.float32))
    for layout in [*layouts(), "all"]:
        assert len(cloud_of(message(ros.point_cloud2(empty, "lidar", 0, layout)))) == 0


@pytest.mark.parametrize("layout", [*layouts(), "all"])
def test_like_gives_the_same_message_of_the_same_cloud(layout: str) -> None:
    first = message(ros.point_cloud2(small_scan(), "lidar", TIME_NS, layout))
    assert like(first, cloud_of(first, keep_missing=True)) == first.data


def test_like_keeps_the_image_where_points_are_lost() -> None:
    first = message(ros.point_cloud2(small_scan(), "lidar", TIME_NS, "ouster"))
    cloud = cloud_of(first, keep_missing=True)
    near = cloud.select(~(cloud.range > 5.1))
    second = message(like(first, near))
    decoded = STORE.deserialize_cdr(second.data, ros.POINT_CLOUD)
    assert (decoded.height, decoded.width) == (4, 8)
    there = cloud_of(second)
    assert len(there) == int(np.sum(np.isfinite(near.xyz[:, 0])))
    everything = cloud_of(second, keep_missing=True)
    np.testing.assert_array_equal(everything.ring, cloud.ring)
    np.testing.assert_array_equal(everything.time, cloud.time)


def foreign(dtype: Any, rows: Any, *, height: int = 1, row_padding: int = 0, **changes: Any) -> Message:
    """A message as some other program would send it."""
    codes = {"i1": 1, "u1": 2, "i2": 3, "u2": 4, "i4": 5, "u4": 6, "f4": 7, "f8": 8}
    kind = STORE.types["sensor_msgs/msg/PointField"]
    fields = [
        kind(name, offset, codes[base.base.str[1:]], int(np.prod(base.shape)) if base.shape else 1)
        for name, (base, offset) in ((name, dtype.fields[name][:2]) for name in dtype.names)
    ]
    width = len(rows) // height
    data = rows.reshape(height, width).view(np.uint8).reshape(height, -1)
    data = np.pad(data, ((0, 0), (0, row_padding))).ravel()
    values = {
        "header": ros.decode(ros.POSE, ros.pose_stamped(TIME_NS, "other", np.zeros(3), [0, 0, 0, 1])).header,
        "height": height, "width": width, "fields": fields, "is_bigendian": False, "point_step": dtype.itemsize,
        "row_step": dtype.itemsize * width + row_padding, "data": data, "is_dense": True, **changes,
    }  # fmt: skip
    made = STORE.types[ros.POINT_CLOUD](**values)
    return message(bytes(STORE.serialize_cdr(made, ros.POINT_CLOUD)))


XYZ = [("x", "<f4"), ("y", "<f4"), ("z", "<f4")]


def test_clouds_of_other_drivers() -> None:
    dtype = np.dtype(
        [*XYZ, ("intensity", "<u1"), ("channel", "<u2"), ("timestamp", "<f8"), ("rgb", "<f4"), ("feature", "<f4", (2,))]
    )
    rows = np.zeros(6, dtype)
    rows["x"] = [1, 2, np.nan, 4, 5, 6]
    rows["intensity"], rows["channel"] = np.arange(6), [3, 2, 1, 0, 1, 2]
    rows["timestamp"] = 1.7e9 + np.array([0, 0.01, 0.02, 0.03, 0.04, 0.05])
    rows["rgb"] = np.array([[30, 20, 10, 0]] * 6, np.uint8).view("<f4")[:, 0]
    cloud = cloud_of(foreign(dtype, rows, height=2, row_padding=7))
    assert len(cloud) == 5
    np.testing.assert_array_equal(cloud.xyz[:, 0], [1, 2, 4, 5, 6])
    np.testing.assert_array_equal(cloud.intensity, [0, 1, 3, 4, 5])
    np.testing.assert_array_equal(cloud.ring, [3, 2, 0, 1, 2])
    np.testing.assert_allclose(cloud.time, [0, 0.01, 0.03, 0.04, 0.05], atol=1e-6)
    np.testing.assert_array_equal(cloud.rgb[0], [10, 20, 30])
    assert cloud.feature.shape == (5, 2)


def test_foreign_fields_go_back_in_their_own_units() -> None:
    dtype = np.dtype([*XYZ, ("offset_time", "<u4"), ("line", "u1"), ("range", "<u4"), ("timestamp", "<f8")])
    rows = np.zeros(4, dtype)
    rows["x"] = np.arange(1, 5)
    rows["offset_time"] = np.arange(4) * 1_000_000
    rows["line"], rows["range"] = [0, 1, 2, 3], [1000, 2000, 3000, 4000]
    rows["timestamp"] = 1.7e18 + np.arange(4) * 1e6
    first = foreign(dtype, rows)
    cloud = cloud_of(first)
    np.testing.assert_allclose(cloud.time, np.arange(4) * 1e-3, atol=1e-9)
    np.testing.assert_allclose(cloud.range, np.arange(1, 5))
    again = STORE.deserialize_cdr(like(first, cloud), ros.POINT_CLOUD)
    back = np.frombuffer(again.data.tobytes(), dtype)
    for name in ("x", "offset_time", "line", "range"):
        np.testing.assert_array_equal(back[name], rows[name])
    np.testing.assert_allclose(back["timestamp"], rows["timestamp"], atol=300.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"is_bigendian": True}, "big-endian"),
        ({"width": 1000}, "bytes"),
        ({"point_step": 8}, "does not fit"),
    ],
)
def test_clouds_that_cannot_be_read(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(FormatError, match=words):
        cloud_of(foreign(np.dtype(XYZ), np.zeros(3, np.dtype(XYZ)), **changes))


def test_a_cloud_without_coordinates() -> None:
    dtype = np.dtype([("x", "<f4"), ("y", "<f4")])
    with pytest.raises(FormatError, match="no field 'z'"):
        cloud_of(foreign(dtype, np.zeros(3, dtype)))


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=0, max_size=300), st.integers(0, 400))
def test_damaged_bytes_are_one_error(noise: bytes, cut: int) -> None:
    whole = ros.point_cloud2(small_scan(), "lidar", TIME_NS, "velodyne")
    for data in (noise, whole[:cut], whole[:cut] + noise + whole[cut + len(noise) :]):
        with contextlib.suppress(FormatError):
            cloud_of(message(data))


def test_unknown_layouts_and_types() -> None:
    with pytest.raises(ConfigError, match="layout"):
        ros.point_cloud2(small_scan(), "lidar", 0, "veldyne")
    with pytest.raises(FormatError, match="not sensor_msgs/msg/PointCloud2"):
        cloud_of(Message("/clock", ros.CLOCK, 0, ros.clock(0)))
    with pytest.raises(FormatError, match="acme_msgs"):
        ros.decode("acme_msgs/msg/Secret", ros.clock(0))
    with pytest.raises(ConfigError, match="2\\^31"):
        ros.clock(-1)


# ---- other messages ------------------------------------------------------------------------------------------------


def test_imu_with_and_without_orientation() -> None:
    spread = np.diag([1.0, 2.0, 3.0])
    data = ros.imu(TIME_NS, "imu_link", [0.1, 0.2, 0.3], [1, 2, 9.8], angular_rate_covariance=spread)
    decoded: Any = STORE.deserialize_cdr(data, ros.IMU)
    assert decoded.orientation_covariance[0] == -1.0
    assert (decoded.angular_velocity.y, decoded.linear_acceleration.z) == (0.2, 9.8)
    np.testing.assert_array_equal(decoded.angular_velocity_covariance, spread.ravel())
    turned = ros.imu(0, "imu_link", [0, 0, 0], [0, 0, 9.8], orientation=[0, 0, 0.6, 0.8], orientation_covariance=spread)
    decoded = STORE.deserialize_cdr(turned, ros.IMU)
    assert (decoded.orientation.z, decoded.orientation.w) == (0.6, 0.8)
    assert decoded.orientation_covariance[8] == 3.0


def test_every_other_message_round_trips() -> None:
    xyz, quat = [1.0, 2.0, 3.0], [0.0, 0.0, 0.6, 0.8]
    pairs: list[tuple[str, bytes]] = [
        (ros.ODOMETRY, ros.odometry(TIME_NS, "odom", "base_link", xyz, quat, [4, 5, 6], [7, 8, 9])),
        (ros.POSE, ros.pose_stamped(TIME_NS, "map", xyz, quat)),
        (ros.TF, ros.tf_message([Transform("map", "base_link", TIME_NS, xyz, quat)])),
        (ros.CLOCK, ros.clock(TIME_NS)),
        (ros.MAGNETIC_FIELD, ros.magnetic_field(TIME_NS, "mag", [1e-5, 2e-5, -4e-5], np.eye(3))),
        (ros.FLUID_PRESSURE, ros.fluid_pressure(TIME_NS, "baro", 101_325.0, 4.0)),
    ]
    found: dict[str, Any] = {}
    for kind, data in pairs:
        assert data[:4] == b"\x00\x01\x00\x00"
        found[kind] = ros.decode(kind, data)
        assert bytes(STORE.serialize_cdr(found[kind], kind)) == data
    odom = found[ros.ODOMETRY]
    assert (odom.pose.pose.position.y, odom.twist.twist.linear.z, odom.twist.twist.angular.x) == (2.0, 6.0, 7.0)
    assert (odom.header.frame_id, odom.child_frame_id) == ("odom", "base_link")
    assert found[ros.POSE].pose.orientation.w == 0.8
    assert found[ros.TF].transforms[0].transform.translation.z == 3.0
    assert ros.nanoseconds(found[ros.CLOCK].clock) == TIME_NS
    assert found[ros.MAGNETIC_FIELD].magnetic_field.z == -4e-5
    assert (found[ros.FLUID_PRESSURE].fluid_pressure, found[ros.FLUID_PRESSURE].variance) == (101_325.0, 4.0)


@pytest.mark.parametrize("clockwise", [False, True])
def test_laser_scan_goes_counter_clockwise(clockwise: bool) -> None:
    count = 271
    angles = np.radians(np.linspace(-135, 135, count))
    fired = angles[::-1] if clockwise else angles
    direction = np.stack([np.cos(fired), np.sin(fired), 0 * fired], axis=1).astype(np.float32)
    time = (np.arange(count) * 1e-5).astype(np.float32)
    seen = np.arange(0, count, 2)
    distance = (2.0 + np.abs(fired[seen])).astype(np.float32)
    shots = Shots(
        direction, np.zeros((count, 3), np.float32), time, np.zeros(count, np.uint16),
        np.arange(count, dtype=np.uint16), (np.arange(count) % 2 == 0).astype(np.uint8),
    )  # fmt: skip
    fields = {"range": distance, "intensity": np.ones(len(seen), np.float32), "shot": seen.astype(np.uint32)}
    scan = Scan(direction[seen] * distance[:, None], fields, shots=shots)
    data = ros.laser_scan(scan, "laser", TIME_NS, range_min_m=0.1, range_max_m=30.0, scan_time_s=0.025)
    decoded: Any = STORE.deserialize_cdr(data, ros.LASER_SCAN)
    assert decoded.angle_min == pytest.approx(angles[0], abs=1e-5)
    assert decoded.angle_max == pytest.approx(angles[-1], abs=1e-5)
    assert decoded.angle_increment == pytest.approx(np.radians(1.0), abs=1e-6)
    assert decoded.time_increment == pytest.approx(-1e-5 if clockwise else 1e-5, rel=1e-3)
    assert len(decoded.ranges) == count
    np.testing.assert_allclose(decoded.ranges[::2], 2.0 + np.abs(angles[::2]), atol=1e-5)
    assert np.all(np.isinf(decoded.ranges[1::2]))
    with pytest.raises(FormatError, match="one ring"):
        ros.laser_scan(small_scan(), "laser", 0, range_min_m=0.1, range_max_m=30.0)
