"""Clouds that are small, or look harmless, and would take all memory, or take for ever, or fail without a word."""

from __future__ import annotations

import struct
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hostile_rigs import fence
from parhelion.core.clouds import PointCloud
from parhelion.core.errors import FormatError
from parhelion.io import read_cloud, write_cloud


def npz(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy(shape: str, body: bytes = b"", dtype: str = "'<f4'") -> bytes:
    head = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + body


def test_an_archive_of_zeros_is_not_unpacked(tmp_path: Path) -> None:
    size = 300_000_000
    file = tmp_path / "zeros.npz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("xyz.npy", "w") as member:
        member.write(npy(f"({size // 12}, 3)"))
        for _ in range(size // 10_000_000):
            member.write(bytes(10_000_000))
    assert file.stat().st_size < 2_000_000
    with fence(), pytest.raises(FormatError, match=r"zeros\.npz: its \d+ bytes claim to decompress to more than 100"):
        read_cloud(file)


def test_a_compressed_archive_is_read_as_before(tmp_path: Path) -> None:
    cloud = PointCloud(np.zeros((100_000, 3), np.float32), {"label": np.zeros(100_000, np.uint16)})
    write_cloud(cloud, tmp_path / "a.npz", compress=True)
    assert len(read_cloud(tmp_path / "a.npz")) == 100_000


@pytest.mark.parametrize(
    "content",
    [
        npy("(1, 3)", bytes(12), "[('a', '<f4')]"),
        npy("(1, 3)", bytes(12), "'(3,)<f4'"),
        npy("(1, 3)", bytes(12), "'O'"),
        npy("(1, 3)", bytes(12), "'nonsense'"),
        npy("(1, 3)", bytes(12), "5"),
        npy("(1, 3)", bytes(12), "[1, 2]"),
        npy("(-1, 3)", bytes(12)),
        npy("(1" + "0" * 400 + ", 3)", bytes(12)),
        npy("(10**9, 3)", bytes(12)),
        npy("('a', 3)", bytes(12)),
        npy("(" * 90 + ")" * 90, bytes(12)),
        npy("(0, 3)", dtype="'<V0'"),
        b"\x93NUMPY\x01\x00\xff\xff{",
        b"\x93NUMPY\x09\x00\x10\x00",
        b"",
        b"\x93NUM",
    ],
)
def test_heads_of_arrays_that_are_damaged(tmp_path: Path, content: bytes) -> None:
    with fence(), pytest.raises(FormatError, match=r"a\.npz: ") as caught:
        read_cloud(npz(tmp_path / "a.npz", {"xyz": content}))
    assert "\n" not in str(caught.value)


def test_sixty_thousand_fields_are_counted_once(tmp_path: Path) -> None:
    names = ["x", "y", "z", *(f"f{k}" for k in range(60_000))]
    file = tmp_path / "wide.pcd"
    ones = " ".join(["1"] * len(names))
    file.write_text(
        f"VERSION 0.7\nFIELDS {' '.join(names)}\nSIZE {ones}\nTYPE {' '.join(['U'] * len(names))}\nCOUNT {ones}\n"
        "WIDTH 1\nHEIGHT 1\nPOINTS 1\nDATA binary\n" + "a" * len(names)
    )
    start = time.process_time()
    with fence():
        assert len(read_cloud(file).fields) == 60_000
    assert time.process_time() - start < 5.0


def ragged(path: Path, rows: int, length: str = "uchar", code: str = "u1") -> Path:
    lengths = np.random.default_rng(1).integers(0, 2, rows).astype(f"<{code}")
    size = lengths.itemsize
    steps = size + lengths.astype(np.int64)
    data = np.zeros(int(steps.sum()), np.uint8)
    starts = np.cumsum(steps) - steps
    for k in range(size):
        data[starts + k] = lengths.view(np.uint8).reshape(-1, size)[:, k]
    head = f"ply\nformat binary_little_endian 1.0\nelement face {rows}\nproperty list {length} uchar vertex_indices\n"
    head += "element vertex 2\nproperty float x\nproperty float y\nproperty float z\nend_header\n"
    path.write_bytes(head.encode() + data.tobytes() + np.arange(6, dtype="<f4").tobytes())
    return path


def test_forty_megabytes_of_ragged_lists_are_passed_in_seconds(tmp_path: Path) -> None:
    file = ragged(tmp_path / "a.ply", 27_000_000)
    with fence():
        assert read_cloud(file).xyz.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("length", "code"), [("char", "i1"), ("ushort", "u2"), ("short", "i2"), ("uint", "u4"), ("int", "i4")]
)
def test_ragged_lists_with_lengths_of_every_type(tmp_path: Path, length: str, code: str) -> None:
    file = ragged(tmp_path / "a.ply", 1000, length, code)
    assert read_cloud(file).xyz.tolist() == [[0, 1, 2], [3, 4, 5]]
    whole = file.read_bytes()
    file.write_bytes(whole[: whole.index(b"end_header") + 600])
    with pytest.raises(FormatError, match=r"a\.ply: (truncated|a list of element 'face' claims)"):
        read_cloud(file)


def test_points_that_laz_claims_but_cannot_hold(tmp_path: Path) -> None:
    file = tmp_path / "a.laz"
    write_cloud(PointCloud(np.zeros((1000, 3))), file)
    data = bytearray(file.read_bytes())
    struct.pack_into("<Q", data, 247, 4000 * len(data))
    file.write_bytes(data)
    with fence(), pytest.raises(FormatError, match=r"a\.laz: "):
        read_cloud(file)


def test_a_description_that_names_a_column_twice(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    layout = '{"layout":{"xyz":{"columns":["x","x","z"],"dtype":"float32"}}}'
    file.write_text(f"# parhelion {layout}\nx,y,z\n1,2,3\n")
    with pytest.raises(FormatError, match=r"a\.csv: .*the same column twice"):
        read_cloud(file)


def test_what_no_reader_foresaw_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from parhelion.io import pcd

    file = tmp_path / "a.pcd"
    write_cloud(PointCloud(np.zeros((1, 3))), file)
    for problem in (
        KeyError("z"),
        struct.error("short"),
        OverflowError("large"),
        RecursionError(),
        ZeroDivisionError(),
    ):

        def fail(*_: object, problem: Exception = problem) -> None:
            raise problem

        monkeypatch.setattr(pcd, "_parse_header", fail)
        with pytest.raises(FormatError, match=r"a\.pcd: is (damaged|nested)") as caught:
            read_cloud(file)
        assert caught.value.__cause__ is problem
    for stop in (KeyboardInterrupt, SystemExit):
        monkeypatch.setattr(pcd, "_parse_header", lambda *_, stop=stop: (_ for _ in ()).throw(stop))
        with pytest.raises(stop):
            read_cloud(file)


def test_one_bad_cloud_of_a_folder_does_not_stop_the_others(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from parhelion.cli.app import app

    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for name in ("a", "c"):
        write_cloud(PointCloud(np.ones((3, 3), np.float32)), source / f"{name}.npz")
    layout = '{"layout":{"xyz":{"columns":["x","x","z"],"dtype":"float32"}}}'
    (source / "b.csv").write_text(f"# parhelion {layout}\nx,y,z\n1,2,3\n")
    result = CliRunner().invoke(app, ["convert", str(source), str(target), "--format", "pcd"])
    assert sorted(file.name for file in target.iterdir()) == ["a.pcd", "c.pcd"]
    assert "b.csv" in result.output
