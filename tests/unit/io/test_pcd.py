"""PCD byte by byte: files built by hand, as PCL writes them, and what is written here."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import FormatError
from parhelion.io import read_cloud, write_cloud

HEADER = """# .PCD v0.7 - Point Cloud Data file format
VERSION 0.7
FIELDS {fields}
SIZE {size}
TYPE {type}
COUNT {count}
WIDTH {width}
HEIGHT {height}
VIEWPOINT {viewpoint}
POINTS {points}
DATA {data}
"""
PLAIN = {
    "fields": "x y z",
    "size": "4 4 4",
    "type": "F F F",
    "count": "1 1 1",
    "width": 2,
    "height": 1,
    "viewpoint": "0 0 0 1 0 0 0",
    "points": 2,
    "data": "binary",
}
TWO_POINTS = struct.pack("<6f", 1, 2, 3, 4, 5, 6)


def pcd(tmp_path: Path, body: bytes = TWO_POINTS, line_end: str = "\n", **header: Any) -> Path:
    path = tmp_path / "cloud.pcd"
    path.write_bytes(HEADER.format(**{**PLAIN, **header}).replace("\n", line_end).encode() + body)
    return path


def test_pcl_layout_with_padding_counts_and_every_type(tmp_path: Path) -> None:
    body = b"".join(
        struct.pack("<fff4xBbHhIiQqd3ff", i, -i, 0.5, i, -i, 7 * i, -7 * i, 9 * i, -9 * i, i, -i, i / 3, 1, 2, i, 4)
        for i in range(2)
    )
    path = pcd(
        tmp_path,
        body,
        fields="x y z _ u1 i1 u2 i2 u4 i4 u8 i8 stamp histogram f",
        size="4 4 4 1 1 1 2 2 4 4 8 8 8 4 4",
        type="F F F U U I U I U I U I F F F",
        count="1 1 1 4 1 1 1 1 1 1 1 1 1 3 1",
    )
    cloud = read_cloud(path)
    np.testing.assert_array_equal(cloud.xyz, np.array([[0, 0, 0.5], [1, -1, 0.5]], np.float32))
    assert cloud.xyz.dtype == np.float32
    assert "_" not in cloud.fields
    expected = {"u1": 1, "i1": -1, "u2": 7, "i2": -7, "u4": 9, "i4": -9, "u8": 1, "i8": -1, "stamp": 1 / 3, "f": 4}
    assert {name: cloud.fields[name][1].item() for name in expected} == expected
    kinds = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float64", "float32"]
    assert [cloud.fields[name].dtype.name for name in expected] == kinds
    np.testing.assert_array_equal(cloud.histogram, [[1, 2, 0], [1, 2, 1]])


@pytest.mark.parametrize("kind", ["F", "U"])
def test_packed_colours(tmp_path: Path, kind: str) -> None:
    # 0xFFFFFFFF is a NaN as a float: bits must pass untouched.
    body = struct.pack("<fffI", 1, 2, 3, 0x00112233) + struct.pack("<fffI", 1, 2, 3, 0xFFFFFFFF)
    path = pcd(tmp_path, body, fields="x y z rgb", size="4 4 4 4", type=f"F F F {kind}", count="1 1 1 1")
    cloud = read_cloud(path)
    assert cloud.rgb.dtype == np.uint8
    np.testing.assert_array_equal(cloud.rgb, [[0x11, 0x22, 0x33], [255, 255, 255]])


def test_rgba_keeps_its_alpha(tmp_path: Path) -> None:
    body = struct.pack("<fffI", 1, 2, 3, 0x80112233) * 2
    path = pcd(tmp_path, body, fields="x y z rgba", size="4 4 4 4", type="F F F U", count="1 1 1 1")
    cloud = read_cloud(path)
    np.testing.assert_array_equal(cloud.rgb, [[0x11, 0x22, 0x33]] * 2)
    np.testing.assert_array_equal(cloud.alpha, [0x80, 0x80])


def test_ascii_packed_colours_of_either_spelling(tmp_path: Path) -> None:
    word = 0x00112233
    as_float = struct.unpack("<f", struct.pack("<I", word))[0]
    for kind, text in (("U", str(word)), ("F", f"{as_float:.9g}")):
        body = f"1 2 3 {text}\n4 5 6 {text}\n".encode()
        path = pcd(
            tmp_path, body, fields="x y z rgb", size="4 4 4 4", type=f"F F F {kind}", count="1 1 1 1", data="ascii"
        )
        np.testing.assert_array_equal(read_cloud(path).rgb, [[0x11, 0x22, 0x33]] * 2)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_line_ends_of_both_kinds(tmp_path: Path, line_end: str) -> None:
    np.testing.assert_array_equal(read_cloud(pcd(tmp_path, line_end=line_end)).xyz, [[1, 2, 3], [4, 5, 6]])
    body = b"1 2 3\r\nnan 5 -6e2\r\n"
    xyz = read_cloud(pcd(tmp_path, body, line_end, data="ascii")).xyz
    np.testing.assert_array_equal(xyz, [[1, 2, 3], [np.nan, 5, -600]])


def test_organised_clouds_are_flattened_and_viewpoints_reported(tmp_path: Path) -> None:
    body = np.arange(18, dtype="<f4").tobytes()
    cloud = read_cloud(pcd(tmp_path, body, width=3, height=2, points=6, viewpoint="1 2 3 0.5 0.5 0.5 0.5"))
    np.testing.assert_array_equal(cloud.xyz, np.arange(18).reshape(6, 3))
    assert cloud.metadata == {"viewpoint": [1, 2, 3, 0.5, 0.5, 0.5, 0.5], "organised": [2, 3]}
    write_cloud(cloud, tmp_path / "again.pcd")
    assert b"\nVIEWPOINT 1 2 3 0.5 0.5 0.5 0.5\n" in (tmp_path / "again.pcd").read_bytes()
    assert read_cloud(tmp_path / "again.pcd").metadata["viewpoint"] == cloud.metadata["viewpoint"]


def test_binary_compressed_of_another_writer(tmp_path: Path) -> None:
    # x: 1.0 twice, y: 2.0 twice, z: 3.0 4.0, one field after the other, with copies at distance 4 as liblzf emits.
    stream = b"\x03" + struct.pack("<f", 1) + b"\x40\x03" + b"\x03" + struct.pack("<f", 2) + b"\x40\x03"
    stream += b"\x07" + struct.pack("<2f", 3, 4)
    path = pcd(tmp_path, struct.pack("<II", len(stream), 24) + stream, data="binary_compressed")
    np.testing.assert_array_equal(read_cloud(path).xyz, [[1, 2, 3], [1, 2, 4]])


def test_old_headers_without_count_points_or_viewpoint(tmp_path: Path) -> None:
    path = tmp_path / "cloud.pcd"
    path.write_bytes(b"COLUMNS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 2\nHEIGHT 1\nDATA binary\n" + TWO_POINTS)
    np.testing.assert_array_equal(read_cloud(path).xyz, [[1, 2, 3], [4, 5, 6]])


def test_written_bytes_are_the_documented_layout(tmp_path: Path) -> None:
    path = tmp_path / "cloud.pcd"
    fields: dict[str, NDArray[Any]] = {
        "intensity": np.array([0.25, 0.5], np.float32),
        "ring": np.array([3, 4], np.uint16),
        "velocity": np.array([[1, 2, 3], [4, 5, 6]], np.float32),
        "rgb": np.array([[1, 2, 3], [4, 5, 6]], np.uint8),
    }
    write_cloud(PointCloud(np.array([[1, 2, 3], [4, 5, 6]], np.float32), fields), path)
    head, body = path.read_bytes().split(b"DATA binary\n")
    lines = [line for line in head.decode().splitlines() if not line.startswith("#")]
    assert lines == [
        "VERSION 0.7",
        "FIELDS x y z intensity ring velocity_x velocity_y velocity_z rgb",
        "SIZE 4 4 4 4 2 4 4 4 4",
        "TYPE F F F F U F F F F",
        "COUNT 1 1 1 1 1 1 1 1 1",
        "WIDTH 2",
        "HEIGHT 1",
        "VIEWPOINT 0 0 0 1 0 0 0",
        "POINTS 2",
    ]
    expected = struct.pack("<ffffHfff4B", 1, 2, 3, 0.25, 3, 1, 2, 3, 3, 2, 1, 0)
    expected += struct.pack("<ffffHfff4B", 4, 5, 6, 0.5, 4, 4, 5, 6, 6, 5, 4, 0)
    assert body == expected


def test_comment_lines_stay_short_for_other_readers(tmp_path: Path) -> None:
    names = {"label": {i: f"class number {i}" for i in range(500)}}
    write_cloud(PointCloud(np.zeros((1, 3)), names=names), tmp_path / "a.pcd")
    head = (tmp_path / "a.pcd").read_bytes().split(b"DATA")[0]
    assert max(map(len, head.splitlines())) < 512
    assert read_cloud(tmp_path / "a.pcd").names == names


def test_ascii_keeps_every_bit(tmp_path: Path) -> None:
    bits = np.random.default_rng(3).integers(0, 2**32, 3000, dtype=np.uint32).view(np.float32)
    bits = np.where(np.isnan(bits), np.float32(np.pi), bits)
    doubles = np.random.default_rng(4).random(1000) * 1e-7
    cloud = PointCloud(bits.reshape(-1, 3), {"stamp": doubles, "id": np.arange(2**63, 2**63 + 1000, dtype=np.uint64)})
    write_cloud(cloud, tmp_path / "a.pcd", encoding="ascii")
    back = read_cloud(tmp_path / "a.pcd")
    np.testing.assert_array_equal(back.xyz, cloud.xyz)
    np.testing.assert_array_equal(back.stamp, doubles)
    np.testing.assert_array_equal(back.id, cloud.id)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"points": 10**12, "width": 10**12}, "truncated, 1000000000000 points need 12000000000000 bytes"),
        ({"points": 10**12, "width": 10**12, "data": "ascii"}, "truncated"),
        ({"points": 10**12, "width": 10**12, "data": "binary_compressed"}, "compressed"),
        ({"points": -2, "width": -2}, "WIDTH must be a non-negative integer"),
        ({"points": 3}, "POINTS is 3, but WIDTH times HEIGHT is 2"),
        ({"count": "1 1 4000000000"}, "COUNT"),
        ({"count": "1 1 -1"}, "COUNT"),
        ({"size": "4 4 3"}, "field 'z' has the unknown TYPE 'F' of SIZE 3"),
        ({"type": "F F"}, "TYPE has 2 entries for 3 FIELDS"),
        ({"fields": "x y y"}, "'y' appears twice"),
        ({"fields": "x y w"}, "no column 'z'"),
        ({"data": "zipped"}, "DATA must be one of"),
        ({"viewpoint": "0 0 zero"}, "VIEWPOINT"),
    ],
)
def test_absurd_headers_are_refused_at_once(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    path = pcd(tmp_path, **changes)
    start = time.process_time()
    with pytest.raises(FormatError, match=problem):
        read_cloud(path)
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    ("sizes", "problem"),
    [
        ((24, 2**31), "2147483648 are compressed"),
        ((2**32 - 1, 24), "truncated"),
        ((0, 24), "cannot expand to 24 bytes"),
        ((5, 24), "compressed data are damaged"),
    ],
)
def test_lying_compressed_sizes_are_refused(tmp_path: Path, sizes: tuple[int, int], problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        read_cloud(pcd(tmp_path, struct.pack("<II", *sizes) + bytes(30), data="binary_compressed"))


def test_truncated_and_damaged_ascii(tmp_path: Path) -> None:
    for body, problem in ((b"1 2 3\n", "truncated"), (b"1 2 3\n\n\n", "truncated"), (b"1 2 3\n4 5\n", "damaged")):
        with pytest.raises(FormatError, match=problem):
            read_cloud(pcd(tmp_path, body, data="ascii"))


def test_compressed_runs_are_smaller(tmp_path: Path) -> None:
    cloud = PointCloud(np.zeros((5000, 3), np.float32), {"label": np.repeat(np.arange(50, dtype=np.uint16), 100)})
    write_cloud(cloud, tmp_path / "a.pcd")
    write_cloud(cloud, tmp_path / "b.pcd", encoding="binary_compressed")
    assert (tmp_path / "b.pcd").stat().st_size < 0.1 * (tmp_path / "a.pcd").stat().st_size
    np.testing.assert_array_equal(read_cloud(tmp_path / "b.pcd").label, cloud.label)
