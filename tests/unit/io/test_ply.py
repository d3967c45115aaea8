"""PLY: hand-built files, an independent reader, and elements around the vertices."""

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
from parhelion.io import FieldsDroppedWarning, read_cloud, write_cloud
from parhelion.io.ply import _stored


def ply(tmp_path: Path, header: str, body: bytes, line_end: str = "\n") -> Path:
    path = tmp_path / "cloud.ply"
    path.write_bytes(f"ply\n{header}\nend_header\n".replace("\n", line_end).encode() + body)
    return path


VERTEX = "element vertex 2\nproperty float x\nproperty float32 y\nproperty double z\nproperty uchar red"


@pytest.mark.parametrize(("order", "sign"), [("little", "<"), ("big", ">")])
def test_both_byte_orders(tmp_path: Path, order: str, sign: str) -> None:
    body = struct.pack(sign + "ffdB", 1, 2, 3, 200) + struct.pack(sign + "ffdB", 4, 5, 6, 100)
    cloud = read_cloud(ply(tmp_path, f"format binary_{order}_endian 1.0\n{VERTEX}", body))
    np.testing.assert_array_equal(cloud.xyz, [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(cloud.red, [200, 100])
    assert cloud.red.dtype.isnative
    assert cloud.xyz.dtype == np.float64


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_ascii_with_comments_and_faces_around(tmp_path: Path, line_end: str) -> None:
    faces = "element face 2\nproperty list uchar int vertex_indices"
    rows = b"3 0 1 2\n4 0 1 2 3\n1 2 3 4\n5 6 7 8\n"
    header = f"format ascii 1.0\ncomment made by hand\nobj_info none\n{faces}\n{VERTEX}\nelement edge 1\nproperty int a"
    cloud = read_cloud(ply(tmp_path, header, rows + b"77\n", line_end))
    np.testing.assert_array_equal(cloud.xyz, [[1, 2, 3], [5, 6, 7]])
    np.testing.assert_array_equal(cloud.red, [4, 8])


@pytest.mark.parametrize("second_length", [3, 4])
def test_binary_faces_before_the_vertices_are_passed_over(tmp_path: Path, second_length: int) -> None:
    header = (
        "format binary_little_endian 1.0\nelement face 2\nproperty list uchar int vertex_indices\nproperty short w\n"
    )
    faces = struct.pack("<B3ih", 3, 0, 1, 2, -1)
    faces += struct.pack(f"<B{second_length}ih", second_length, *range(second_length), -1)
    points = struct.pack("<ffdBffdB", 1, 2, 3, 4, 5, 6, 7, 8)
    cloud = read_cloud(ply(tmp_path, header + VERTEX, faces + points))
    np.testing.assert_array_equal(cloud.xyz, [[1, 2, 3], [5, 6, 7]])


@pytest.mark.parametrize("encoding", ["binary", "ascii"])
def test_an_independent_reader_agrees(tmp_path: Path, encoding: str) -> None:
    plyfile = pytest.importorskip("plyfile")
    rng = np.random.default_rng(2)
    fields: dict[str, NDArray[Any]] = {
        "intensity": rng.random(50, np.float32),
        "ring": rng.integers(0, 128, 50).astype(np.uint16),
        "normal": rng.random((50, 3), np.float32),
        "rgb": rng.integers(0, 255, (50, 3)).astype(np.uint8),
        "velocity": rng.random((50, 3), np.float32),
    }
    cloud = PointCloud(rng.random((50, 3)), fields, metadata={"long": "x" * 2000})
    write_cloud(cloud, tmp_path / "a.ply", encoding=encoding)
    vertex = plyfile.PlyData.read(tmp_path / "a.ply")["vertex"]
    expected = {"x": cloud.xyz[:, 0], "z": cloud.xyz[:, 2], "nx": cloud.normal[:, 0], "red": cloud.rgb[:, 0]}
    expected |= {"blue": cloud.rgb[:, 2], "velocity_y": cloud.velocity[:, 1], "ring": cloud.ring}
    for name, values in expected.items():
        np.testing.assert_array_equal(vertex[name], values, err_msg=name)
        assert vertex[name].dtype == values.dtype, name


def test_files_of_an_independent_writer_are_read(tmp_path: Path) -> None:
    plyfile = pytest.importorskip("plyfile")
    names = ("nx", "ny", "nz", "red", "green", "blue")
    rows = np.zeros(4, [("x", "f4"), ("y", "f4"), ("z", "f4"), *((n, "f4" if n[0] == "n" else "u1") for n in names)])
    rows["x"], rows["ny"], rows["blue"] = np.arange(4), 1, 255
    plyfile.PlyData([plyfile.PlyElement.describe(rows, "vertex")], text=False).write(tmp_path / "a.ply")
    cloud = read_cloud(tmp_path / "a.ply")
    assert set(cloud.fields) == {"normal", "rgb"}
    np.testing.assert_array_equal(cloud.xyz[:, 0], np.arange(4))
    np.testing.assert_array_equal(cloud.normal, [[0, 1, 0]] * 4)
    np.testing.assert_array_equal(cloud.rgb, [[0, 0, 255]] * 4)


def test_wide_integers_that_ply_cannot_hold_are_dropped_with_a_warning(tmp_path: Path) -> None:
    fields: dict[str, NDArray[Any]] = {
        "stamp": np.array([2**60 + 1]),
        "frame": np.array([12]),
        "big": np.array([2**40]),
    }
    with pytest.warns(FieldsDroppedWarning, match="ply cannot store stamp; skipped"):
        write_cloud(PointCloud(np.zeros((1, 3)), fields), tmp_path / "a.ply")
    back = read_cloud(tmp_path / "a.ply")
    assert {name: values.tolist() for name, values in back.fields.items()} == {"frame": [12], "big": [2**40]}
    assert {values.dtype.name for values in back.fields.values()} == {"int64"}


BINARY = "format binary_little_endian 1.0\n"


@pytest.mark.parametrize(
    ("header", "body", "problem"),
    [
        (BINARY + VERTEX.replace("2", "1000000000000", 1), bytes(99), "truncated"),
        ("format ascii 1.0\n" + VERTEX.replace("2", "1000000000000", 1), b"1 2 3 4\n", "truncated"),
        (BINARY + VERTEX.replace("2", "-2", 1), bytes(99), "'element vertex -2' is not valid"),
        (BINARY + "element face 1\nproperty list uint double v\n" + VERTEX, b"\xff" * 99, "claims 4294967295 values"),
        (BINARY + "element face 1\nproperty list char int v\n" + VERTEX, b"\xff" * 99, "claims -1 values"),
        (BINARY + "element face 900000000000\nproperty list uchar int v\n" + VERTEX, bytes(5000), "truncated"),
        (BINARY + "element none 900000000000\n" + VERTEX, bytes(9), "truncated"),
        (BINARY + "element face 1\nproperty list float int v\n" + VERTEX, b"", "not a whole number"),
        (BINARY + "element vertex 1\nproperty list uchar int v", bytes(9), "its vertices have no properties"),
        (BINARY + "element vertex 1", bytes(9), "its vertices have no properties"),
        (BINARY + "element vertex 1\nproperty float x\nproperty float y", bytes(8), "no column 'z'"),
        (BINARY + "element face 0\nproperty int a", b"", "no vertex element"),
        (BINARY + "element vertex 1\nproperty quad x", bytes(9), "'quad x' is not valid"),
        ("format binary_middle_endian 1.0\n" + VERTEX, b"", "is not valid PLY"),
        ("comment only", b"", "no format line"),
    ],
)
def test_absurd_headers_are_refused_at_once(tmp_path: Path, header: str, body: bytes, problem: str) -> None:
    path = ply(tmp_path, header, body)
    start = time.process_time()
    with pytest.raises(FormatError, match=problem):
        read_cloud(path)
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (-7, "<i4"),
        (2**31 - 1, "<i4"),
        (2**31, "<u4"),
        (2**32 - 1, "<u4"),
        (2**32, "<f8"),
        (2**53, "<f8"),
        (2**53 + 2, ""),
    ],
)
def test_whole_numbers_are_stored_in_the_smallest_type_that_holds_them(value: int, code: str) -> None:
    """Doubles hold every whole number up to 2**53; PLY has no wider one."""
    found = _stored(np.array([value, 0], np.int64))
    assert ("" if found is None else found.dtype.str) == code
