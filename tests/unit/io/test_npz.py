"""NPZ: everything of a scan comes back, and nothing in a file is believed unseen."""

from __future__ import annotations

import io
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from parhelion.core.clouds import PointCloud, Scan, Shots
from parhelion.core.errors import FormatError
from parhelion.core.pose import Floats, Pose, quat_from_rpy
from parhelion.core.trajectory import ConstantTwist, Fixed, Trajectory, Waypoints
from parhelion.io import read_cloud, write_cloud


class Swing:
    """A motion of no stock form: a pendulum of 1 m and 1 Hz."""

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        angle = np.sin(2 * np.pi * np.asarray(times, np.float64))
        zero = np.zeros_like(angle)
        return np.stack([np.sin(angle), zero, 1 - np.cos(angle)], axis=1), quat_from_rpy(zero, angle, zero)


WAY = Waypoints([0.0, 3.02, 3.05, 9.0], [Pose((i, i * i, 0), rpy_deg=(0, 0, 20 * i)) for i in range(4)])
MOTIONS = [Fixed(Pose((1, 2, 3), rpy_deg=(10, 20, 30))), WAY, ConstantTwist(Pose(), (5, 0, 0), (0, 0, 1)), Swing()]


def example_scan(motion: Trajectory, shots: int) -> Scan:
    rng = np.random.default_rng(5)
    direction = rng.normal(size=(shots, 3)).astype(np.float32)
    table = Shots(
        direction=direction / np.linalg.norm(direction, axis=1, keepdims=True),
        origin=rng.normal(size=(shots, 3)).astype(np.float32),
        time=np.linspace(0, 0.1, shots, dtype=np.float32),
        ring=(np.arange(shots) % 16).astype(np.uint16),
        column=(np.arange(shots) // 16).astype(np.uint16),
        return_count=(np.arange(shots) % 3).astype(np.uint8),
    )
    rows = np.flatnonzero(table.return_count).astype(np.uint32)
    xyz = rng.normal(0, 20, (len(rows), 3)).astype(np.float32)
    fields: dict[str, NDArray[Any]] = {"shot": rows, "ring": table.ring[rows], "velocity": xyz * 2}
    names, metadata = {"label": {3: "tree"}}, {"seed": 11, "nested": {"list": [1, "two", None]}}
    return Scan(xyz, fields, "sensor", names, metadata, shots=table, motion=motion, start_time=3.0)


@pytest.mark.parametrize("compress", [False, True])
def test_a_scan_comes_back_whole(tmp_path: Path, compress: bool) -> None:
    scan = example_scan(WAY, 300)
    write_cloud(scan, tmp_path / "a.npz", compress=compress)
    back = read_cloud(tmp_path / "a.npz")
    assert isinstance(back, Scan)
    assert (back.frame, back.names, back.metadata, back.start_time) == ("sensor", scan.names, scan.metadata, 3.0)
    np.testing.assert_array_equal(back.xyz, scan.xyz)
    for name, values in scan.fields.items():
        np.testing.assert_array_equal(back.fields[name], values)
        assert back.fields[name].dtype == values.dtype
    for name in ("direction", "origin", "time", "ring", "column", "return_count"):
        np.testing.assert_array_equal(getattr(back.shots, name), getattr(scan.shots, name))
        assert getattr(back.shots, name).dtype == getattr(scan.shots, name).dtype


@pytest.mark.parametrize("shots", [0, 1, 300, 5000])
@pytest.mark.parametrize("motion", MOTIONS, ids=lambda motion: type(motion).__name__)
def test_the_motion_during_the_scan_comes_back(tmp_path: Path, motion: Trajectory, shots: int) -> None:
    scan = example_scan(motion, shots)
    write_cloud(scan, tmp_path / "a.npz")
    back = read_cloud(tmp_path / "a.npz")
    assert isinstance(back, Scan)
    assert isinstance(back.motion, Waypoints)
    assert len(back.motion.times) <= 1024
    # Every shot time is kept up to 1024 of them. Steps of 0.1 ms leave a second-order error: the pendulum's 40 rad/s²
    # times (1e-4 s)² / 8 is 5e-8 rad, at points up to 100 m away.
    tolerance = 1e-9 if shots < 1024 else 5e-6
    np.testing.assert_allclose(back.in_world().xyz, scan.in_world().xyz, rtol=0, atol=tolerance)
    np.testing.assert_allclose(back.pose.matrix, scan.pose.matrix, rtol=0, atol=1e-12)


def test_numpy_reads_the_file_without_us(tmp_path: Path) -> None:
    scan = example_scan(WAY, 32)
    write_cloud(scan, tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["xyz"], scan.xyz)
        np.testing.assert_array_equal(archive["velocity"], scan.velocity)
        np.testing.assert_array_equal(archive["shots.direction"], scan.shots.direction)
        assert archive["motion.times"].shape == (4,)


def test_archives_of_numpy_are_read(tmp_path: Path) -> None:
    xyz = np.asfortranarray(np.arange(12.0).reshape(4, 3))
    np.savez_compressed(tmp_path / "a.npz", xyz=xyz, label=np.arange(4), other=np.arange(7))
    cloud = read_cloud(tmp_path / "a.npz")
    np.testing.assert_array_equal(cloud.xyz, xyz)
    assert list(cloud.fields) == ["label"]


def test_any_field_name_and_text_fields(tmp_path: Path) -> None:
    fields: dict[str, NDArray[Any]] = {
        "xyz": np.arange(2),
        "parhelion": np.arange(2) + 5,
        "../up": np.array(["é", "b"]),
        "": np.ones((2, 0)),
    }
    write_cloud(PointCloud(np.zeros((2, 3)), fields), tmp_path / "a.npz")
    back = read_cloud(tmp_path / "a.npz")
    assert set(back.fields) == set(fields)
    for name, values in fields.items():
        np.testing.assert_array_equal(back.fields[name], values)


def member(shape: str, dtype: str = "<f8", body: bytes = bytes(24)) -> bytes:
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    head = head.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + body


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"xyz.npy": member("(1000000000000, 3)")}, "more data than it contains"),
        ({"xyz.npy": member("(-1, 3)")}, "more data than it contains"),
        ({"xyz.npy": member("(1, 3)", "|O")}, "Python objects"),
        ({"xyz.npy": member("(3, 1)")}, r"'xyz' must be numbers of shape \(n, 3\)"),
        ({"xyz.npy": b"nonsense"}, "damaged"),
        ({"points.npy": member("(1, 3)")}, "no array 'xyz'; it has: points"),
        (
            {"xyz.npy": member("(1, 3)"), "parhelion.npy": member("(2,)", "|u1", b"{]")},
            "parhelion description is damaged",
        ),
        (
            {"xyz.npy": member("(1, 3)"), "parhelion.npy": member("(24,)", "|u1", b'{"extras":{"fields":[]}}')},
            "damaged",
        ),
    ],
)
def test_lying_members_are_refused_at_once(tmp_path: Path, members: dict[str, bytes], problem: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    start = time.process_time()
    with pytest.raises(FormatError, match=problem):
        read_cloud(tmp_path / "a.npz")
    assert time.process_time() - start < 1


def test_a_claim_beyond_what_compression_can_do_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xyz.npy", member("(1, 3)"))
    data = bytearray(buffer.getvalue())
    place = data.index(b"PK\x01\x02") + 24  # the size in the directory
    data[place : place + 4] = (2**32 - 2).to_bytes(4, "little")
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(FormatError, match="claim to decompress to more than 100 times"):
        read_cloud(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"motion.times": np.array([1.0, 0.0])}, "strictly increasing"),
        ({"motion.xyz": np.full((2, 3), np.nan)}, "must be finite"),
        ({"motion.quat_xyzw": np.zeros((2, 3))}, "have inconsistent shapes"),
        ({"shots.time": np.zeros(3, np.float32)}, "shots.direction"),
        ({"ring": np.zeros(3, np.uint16)}, "field 'ring' has shape"),
        ({"shots.ring": None}, "'shots.ring' is missing"),
    ],
)
def test_parts_that_do_not_fit_are_named(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    write_cloud(example_scan(ConstantTwist(Pose(), (1, 0, 0)), 2), tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as archive:
        arrays = {**archive, **changes}
    np.savez(tmp_path / "a.npz", **{name: values for name, values in arrays.items() if values is not None})
    with pytest.raises(FormatError, match=problem):
        read_cloud(tmp_path / "a.npz")
