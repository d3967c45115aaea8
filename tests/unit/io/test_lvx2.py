"""LVX2 recordings: bytes as the specification has them, round trips and damaged files."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import FormatError
from parhelion.io.formats import read_cloud, write_cloud


@pytest.fixture(scope="module")
def scan() -> ph.Scan:
    world = ph.World()
    world.add(ph.shapes.box(30, 20, 10), material="concrete")
    return ph.Lidar("livox/mid-360").scan(world, pose=ph.Pose(), time=3.0, seed=2)


def written(scan: ph.Scan, folder: Path) -> Path:
    with pytest.warns(UserWarning, match="lvx2 cannot store"):
        write_cloud(scan, folder / "x.lvx2")
    return folder / "x.lvx2"


def test_bytes_of_the_specification(scan: ph.Scan, tmp_path: Path) -> None:
    data = written(scan, tmp_path).read_bytes()
    signature, version, magic, frame_ms, devices = struct.unpack_from("<16s4sIIB", data)
    assert (signature.rstrip(b"\0"), version, magic) == (b"livox_tech", b"\2\0\0\0", 0xAC0EA767)
    assert (frame_ms, devices) == (50, 1)
    lidar_id, _, device_type, extrinsic = struct.unpack_from("<IBBB", data, 29 + 32)
    assert (device_type, extrinsic) == (9, 0)
    at, points, frames = 29 + 63, [], 0
    while at < len(data):
        here, following, number = struct.unpack_from("<QQQ", data, at)
        assert (here, number) == (at, frames)
        frames, at = frames + 1, at + 24
        while at < following:
            of, _, _, stamp, _, kind, length, _ = struct.unpack_from("<xIBBQHBIB", data, at)
            assert (of, kind, length % 14) == (lidar_id, 1, 0)
            assert 50_000_000 * number <= stamp - 3_000_000_000 < 50_000_000 * (number + 1)
            at += 27
            points += [struct.unpack_from("<iiiBB", data, at + k) for k in range(0, length, 14)]
            at += length
    assert frames == 2
    assert len(points) == len(scan.shots)
    held = np.array([point for point in points if any(point[:3])])
    order = np.lexsort((scan.ring, scan.column))
    np.testing.assert_allclose(held[:, :3], 1e3 * scan.xyz[order], atol=0.51)
    np.testing.assert_array_equal(held[:, 3], scan.intensity[order])


def test_round_trip(scan: ph.Scan, tmp_path: Path) -> None:
    file = written(scan, tmp_path)
    again = read_cloud(file, scan=0)
    assert isinstance(again, ph.Scan)
    assert (again.metadata["sensor"], again.start_time) == ("livox/mid-360", pytest.approx(3.0))
    order = np.lexsort((scan.ring, scan.column))
    np.testing.assert_allclose(again.xyz, scan.xyz[order], atol=5.1e-4)
    np.testing.assert_array_equal(again.fields["ring"], scan.ring[order])
    assert len(ph.PointCloud.load(file)) == len(scan)
    with pytest.raises(FormatError, match="has the scans 0 to 0, not 3"):
        read_cloud(file, scan=3)
    with pytest.raises(FormatError, match="has the devices 0 to 0, not 1"):
        read_cloud(file, device=1)


def test_damaged_files(scan: ph.Scan, tmp_path: Path) -> None:
    file = written(scan, tmp_path)
    whole = file.read_bytes()
    for data, message in (
        (whole[:10], "ends within a header"),
        (b"x" + whole[1:], "is no LVX2 recording"),
        (whole[: len(whole) // 2], "ends at byte"),
        (whole[:28] + b"\0" + whole[29:], "has no device"),
        (whole[:28] + b"\2" + whole[29:], "has 2 devices; pass the number"),
        (whole[:66] + b"\7" + whole[67:], "the device type 7 is not known"),
        (whole[: 29 + 63 + 24 + 17] + b"\x09" + whole[29 + 63 + 24 + 18 :], "is damaged"),
    ):
        file.write_bytes(data)
        with pytest.raises(FormatError, match=message):
            read_cloud(file)
    with pytest.raises(FormatError, match="recordings hold scans of livox/mid-360, livox/hap, not of velodyne/vlp-16"):
        write_cloud(ph.Lidar("velodyne/vlp-16").scan(ph.World(), pose=ph.Pose(), seed=1), tmp_path / "y.lvx2")
