"""Messages with lidar returns as clouds and back: the bytes that weather does not change stay the same."""

from __future__ import annotations

import struct

import numpy as np
import pytest

pytest.importorskip("rosbags", reason="ROS messages need rosbags")

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import FormatError
from parhelion.io.ros import messages as ros
from parhelion.io.ros.clouds import like
from parhelion.io.ros.returns import LASER_SCAN, LIVOX_MESSAGES, RETURN_MESSAGES, stamp_and_frame
from parhelion.io.ros.types import Message, decode, encode, header, new, type_store

STAMP_NS = 1_700_000_123_456_789_000
OUSTER = "ouster"


def laser_scan(ranges: list[float], intensities: list[float] | None = None) -> Message:
    count = len(ranges)
    message = new(
        LASER_SCAN, header=header(STAMP_NS, "laser"), angle_min=-0.5, angle_max=0.5, angle_increment=0.25,
        time_increment=1e-4, scan_time=0.1, range_min=0.1, range_max=30.0, ranges=np.array(ranges, np.float32),
        intensities=np.array([] if intensities is None else intensities, np.float32),
    )  # fmt: skip
    assert count
    return Message("/scan", LASER_SCAN, 0, encode(LASER_SCAN, message))


def livox(count: int, package: str = LIVOX_MESSAGES[0]) -> Message:
    point = package.replace("CustomMsg", "CustomPoint")
    points = [
        new(point, offset_time=1000 * k + 1, x=float(k), y=2.0, z=-1.0, reflectivity=10 + k, tag=16, line=k % 4)
        for k in range(count)
    ]
    message = new(
        package, header=header(STAMP_NS, "livox_frame"), timebase=STAMP_NS, point_num=count, lidar_id=3,
        rsvd=np.array([1, 2, 3], np.uint8), points=points,
    )  # fmt: skip
    return Message("/livox/lidar", package, 0, encode(package, message))


def image(missing: tuple[int, ...] = (3, 7)) -> Message:
    """Organised cloud in the layout of ouster-ros, with padding between fields and cells without a return."""
    from parhelion.makers.layouts import layouts

    rows = np.zeros(12, layouts()[OUSTER].dtype)
    rows["x"], rows["y"], rows["z"] = np.arange(12) + 1.0, 2.0, 0.5
    rows["intensity"], rows["t"], rows["ring"] = 50.0, 16_777_217 + np.arange(12), np.repeat([0, 1, 2, 3], 3)
    rows["range"], rows["reflectivity"], rows["ambient"] = 2500, 20, 9
    for axis in "xyz":
        rows[axis][list(missing)] = np.nan
    raw = bytearray(rows.tobytes())
    raw[12] = 0xAB  # padding after z
    message = new(
        ros.POINT_CLOUD, header=header(STAMP_NS, "os_lidar"), height=4, width=3, fields=ros.point_fields(rows.dtype),
        is_bigendian=False, point_step=48, row_step=144, data=np.frombuffer(bytes(raw), np.uint8),
        is_dense=not missing,
    )  # fmt: skip
    return Message("/points", ros.POINT_CLOUD, 0, encode(ros.POINT_CLOUD, message))


@pytest.mark.parametrize(
    "message",
    [
        laser_scan([1.0, np.inf, 3.5, np.nan, 0.05], [1.0, 0.0, 3.0, 0.0, 9.0]),
        laser_scan([1.0, 2.0, 3.5, 4.0, 5.0]),
        livox(5),
        livox(3, LIVOX_MESSAGES[1]),
        livox(0),
        image(),
        image(()),
    ],
    ids=["scan", "full-scan", "livox2", "livox1", "no-points", "image", "full-image"],
)
def test_unchanged_cloud_gives_the_same_bytes(message: Message) -> None:
    kind = RETURN_MESSAGES[message.type]
    cloud = kind.read(message)
    assert kind.write(message, cloud) == message.data
    assert stamp_and_frame(message.data)[0] == STAMP_NS
    assert cloud.metadata["time"] == STAMP_NS / 1e9


def test_directions_of_a_laser_scan() -> None:
    cloud = RETURN_MESSAGES[LASER_SCAN].read(laser_scan([1.0, np.inf, 3.5, np.nan, 0.05]))
    angles = -0.5 + 0.25 * np.arange(5)
    np.testing.assert_allclose(cloud.xyz[2], [3.5 * np.cos(0.0), 0.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(cloud.fields["direction"][1], [np.cos(angles[1]), np.sin(angles[1]), 0.0], atol=1e-7)
    # Invalid ranges are not shots into the open: nothing is known about them.
    assert not cloud.fields["direction"][[3, 4]].any()
    assert np.isnan(cloud.xyz[[1, 3, 4]]).all()


def test_laser_scan_with_other_returns() -> None:
    before = laser_scan([1.0, np.inf, 3.5, np.nan, 0.05], [1.0, 0.0, 3.0, 0.0, 9.0])
    cloud = RETURN_MESSAGES[LASER_SCAN].read(before)
    # Beam 0 is lost, beam 1 hits a drop at 2 m, beam 2 has a drop at 1 m before its surface.
    shot, range_m = np.array([1, 2, 2]), np.array([2.0, 1.0, 3.5], np.float32)
    fields = {"shot": shot, "range": range_m, "intensity": np.array([7.0, 8.0, 3.0], np.float32)}
    wet = PointCloud(cloud.fields["direction"][shot] * range_m[:, None], fields)
    after = decode(LASER_SCAN, RETURN_MESSAGES[LASER_SCAN].write(before, wet))
    np.testing.assert_array_equal(after.ranges, np.array([np.inf, 2.0, 1.0, np.nan, 0.05], np.float32))
    np.testing.assert_array_equal(after.intensities, [0.0, 7.0, 8.0, 0.0, 9.0])
    assert after.header == decode(LASER_SCAN, before.data).header


def test_livox_points_that_come_and_go() -> None:
    before = livox(4)
    kind = RETURN_MESSAGES[before.type]
    cloud = kind.read(before)
    kept = cloud.select(np.array([True, False, True, True]))
    origin = np.array([0, 5, 0], np.uint8)
    wet = kept.with_fields(origin=origin, intensity=np.array([10.0, 3.6, 300.0], np.float32))
    after = decode(before.type, kind.write(before, wet))
    assert (after.point_num, len(after.points), after.lidar_id, list(after.rsvd)) == (3, 3, 3, [1, 2, 3])
    assert [one.x for one in after.points] == [0.0, 2.0, 3.0]
    assert [one.reflectivity for one in after.points] == [10, 4, 255]
    # A point of the air has the time of its shot, others exactly their own.
    assert [one.offset_time for one in after.points] == [1, round(float(np.float32(2001e-9)) * 1e9), 3001]


def test_cells_of_an_image_keep_times_and_padding() -> None:
    before = image()
    cloud = RETURN_MESSAGES[ros.POINT_CLOUD].read(before)
    after = like(before, cloud.select(np.arange(12) != 5))
    old, new_ = (np.frombuffer(decode(ros.POINT_CLOUD, data).data, np.uint8) for data in (before.data, after))
    changed = np.unique(np.flatnonzero(old != new_) // 48)
    assert changed.tolist() == [5]
    found = decode(ros.POINT_CLOUD, after)
    assert bytes(found.data[12:13]) == b"\xab"
    cell = np.frombuffer(found.data.tobytes()[5 * 48 : 6 * 48], cloud_type())
    # The time of a shot is an integer that float32 cannot hold.
    assert (cell["t"][0], cell["ring"][0], cell["range"][0]) == (16_777_222, 1, 0)
    assert np.isnan(cell["x"][0])


def cloud_type() -> np.dtype:
    from parhelion.makers.layouts import layouts

    return layouts()[OUSTER].dtype


@pytest.mark.parametrize("message", [laser_scan([1.0, 2.0]), livox(3), image()], ids=["scan", "livox", "image"])
def test_damaged_messages_are_refused(message: Message) -> None:
    kind = RETURN_MESSAGES[message.type]
    whole = len(message.data)
    for end in {0, 3, 7, 20, whole // 2, whole - 9}:
        with pytest.raises(FormatError):
            kind.read(message._replace(data=message.data[:end]))
    huge = bytearray(message.data)
    for at in range(4, min(len(huge), 200) - 4, 4):
        damaged = bytearray(huge)
        struct.pack_into("<I", damaged, at, 0xFFFFFFF0)
        try:
            kind.read(message._replace(data=bytes(damaged)))
        except FormatError:
            continue


def test_livox_definitions_are_registered() -> None:
    for name in LIVOX_MESSAGES:
        assert name in type_store().types
