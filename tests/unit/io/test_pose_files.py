"""Files of poses: round trips bit for bit, and bad files named by line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Floats, Pose
from parhelion.io import poses as kitti_poses
from parhelion.io import poses as tum
from parhelion.io.poses import TimedPoses

LINE = "1.5 1 2 3 0 0 0 1\n"
IDENTITY = "1 0 0 5 0 1 0 6 0 0 1 7\n"


def poses(count: int, seed: int = 0) -> TimedPoses:
    random = np.random.default_rng(seed)
    times = 1_305_031_098.0 + np.cumsum(random.uniform(1e-3, 1.0, count))
    quats = Rotation.from_rotvec(random.normal(0.0, 1.5, (count, 3))).as_quat()
    return TimedPoses(times, random.normal(0.0, 1.0, (count, 3)) * 10.0 ** random.uniform(-8, 6, (count, 3)), quats)


def written(folder: Path, text: str | bytes, name: str = "poses.txt") -> Path:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def matrices(file: Path) -> Floats:
    return np.loadtxt(file).reshape(-1, 3, 4)


# ---- TUM -----------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 40), st.integers(0, 10_000))
def test_tum_files_come_back_bit_for_bit(tmp_path_factory: pytest.TempPathFactory, count: int, seed: int) -> None:
    record, file = poses(count, seed), tmp_path_factory.mktemp("tum") / "poses.txt"
    tum.write_tum(record, file)
    back = tum.read_tum(file)
    assert len(back) == count
    assert back.times.tobytes() == record.times.tobytes()
    assert back.xyz.tobytes() == record.xyz.tobytes()
    assert back.quat_xyzw.tobytes() == record.quat_xyzw.tobytes()
    tum.write_tum(back, file.with_name("again.txt"))
    assert file.with_name("again.txt").read_bytes() == file.read_bytes()


def test_a_tum_file_as_others_write_it(tmp_path: Path) -> None:
    text = (
        "# ground truth trajectory\r\n# timestamp tx ty tz qx qy qz qw\r\n\r\n"
        "1305031098.6659 1.3563 0.6305 1.6380 0.6132 0.5962 -0.3311 -0.3986\r\n"
        "1305031098.6758\t1.3543 0.6306 1.6360   0.6129 0.5966 -0.3316 -0.3980 # a remark\r\n"
    )
    record = tum.read_tum(written(tmp_path, text))
    assert record.times.tolist() == [1305031098.6659, 1305031098.6758]
    assert record.xyz.tolist() == [[1.3563, 0.6305, 1.6380], [1.3543, 0.6306, 1.6360]]
    assert np.linalg.norm(record.quat_xyzw, axis=1) == pytest.approx([1.0, 1.0], abs=1e-15)
    assert record.quat_xyzw[0] == pytest.approx([0.6132, 0.5962, -0.3311, -0.3986], abs=1e-4)


def test_a_written_tum_file_is_plain(tmp_path: Path) -> None:
    tum.write_tum(TimedPoses(np.array([0.1]), np.array([[1.0, -0.0, 1e-9]]), np.eye(4)[3:]), tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == "# timestamp tx ty tz qx qy qz qw\n0.1 1.0 -0.0 1e-09 0.0 0.0 0.0 1.0\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file contains no poses"),
        ("# nothing\n\n", "the file contains no poses"),
        ("# head\n" + LINE + "2.5 1 2 3 0 0 0\n", "line 3: poses need 8 numbers per line, got 7"),
        (LINE + "\n2.5 1 2 3 0 0 0 1 9\n", "line 3: poses need 8 numbers per line, got 9"),
        ("1 2 3\n", "line 1: poses need 8 numbers per line, got 3"),
        (LINE + "2.5 1 2 here 0 0 0 1\n", "line 2: 'here' is not a number"),
        (LINE + "2.5 1 nan 3 0 0 0 1\n", "line 2: numbers must be finite, got nan"),
        ("# head\n" + LINE + "# more\n2.5 1 2 inf 0 0 0 1\n", "line 4: numbers must be finite, got inf"),
        (LINE + LINE, "line 2: the time 1.5 is not after the previous one"),
        (LINE + "0.5 1 2 3 0 0 0 1\n", "line 2: the time 0.5 is not"),
        (LINE + "\n\n2.5 1 2 3 0 0 0 1.02\n", "line 4: the quaternion has length 1.02, not 1"),
        (LINE + "2.5 1 2 3 0 0 0 0\n", "line 2: the quaternion has length 0, not 1"),
        (LINE + "2.5 1 2 3 1e200 0 0 0\n", "line 2: the quaternion has length"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "line 1: poses need 8 numbers per line"),
        ("timestamp,tx,ty,tz,qx,qy,qz,qw\n", "line 1: poses need 8 numbers per line, got 1"),
    ],
)
def test_bad_tum_files_are_refused(tmp_path: Path, text: str | bytes, words: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(FormatError) as caught:
        tum.read_tum(file)
    assert str(file) in str(caught.value)
    assert words in str(caught.value)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.txt: no such file"):
        tum.read_tum(tmp_path / "none.txt")
    with pytest.raises(FormatError, match="is a folder"):
        kitti_poses.read_kitti(tmp_path, rate_hz=10.0)


def bad(**changes: Any) -> TimedPoses:
    good = {"times": np.arange(2.0), "xyz": np.zeros((2, 3)), "quat_xyzw": np.tile([0.0, 0.0, 0.0, 1.0], (2, 1))}
    return TimedPoses(**{**good, **changes})


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (bad(times=np.array([0.0, np.nan])), "times must be finite, got nan"),
        (bad(xyz=np.full((2, 3), np.inf)), "xyz must be finite, got inf"),
        (bad(times=np.array([1.0, 1.0])), "times must be strictly increasing"),
        (bad(quat_xyzw=np.ones((2, 4))), "unit quaternions"),
        (bad(xyz=np.zeros((3, 3))), r"got \(2,\), \(3, 3\), \(2, 4\)"),
        (TimedPoses(np.zeros(0), np.zeros((0, 3)), np.zeros((0, 4))), "n above 0"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(tmp_path: Path, record: TimedPoses, words: str) -> None:
    earlier = written(tmp_path, LINE)
    for write in (tum.write_tum, kitti_poses.write_kitti):
        with pytest.raises(FormatError, match=words):
            write(record, earlier)
    assert earlier.read_text() == LINE
    assert list(tmp_path.iterdir()) == [earlier]


# ---- KITTI ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", ["robot", "camera"])
def test_kitti_files_come_back(tmp_path: Path, axes: Any) -> None:
    record, file, clock = poses(200), tmp_path / "poses.txt", tmp_path / "times.txt"
    kitti_poses.write_kitti(record, file, times=clock, axes=axes)
    back = kitti_poses.read_kitti(file, times=clock, axes=axes)
    assert np.array_equal(back.times, record.times)
    assert np.array_equal(back.xyz, record.xyz)
    alike = np.sum(back.quat_xyzw * record.quat_xyzw, axis=1)
    assert np.max(np.abs(back.quat_xyzw - np.sign(alike)[:, None] * record.quat_xyzw)) < 5e-15
    assert np.all(back.quat_xyzw[:, 3] >= 0.0)


def test_kitti_rows_are_the_matrices_of_the_poses(tmp_path: Path) -> None:
    record = poses(20)
    kitti_poses.write_kitti(record, tmp_path / "poses.txt")
    for matrix, xyz, quat in zip(matrices(tmp_path / "poses.txt"), record.xyz, record.quat_xyzw, strict=True):
        assert matrix == pytest.approx(Pose(xyz, quat).matrix[:3], abs=1e-15)


def test_camera_axes_turn_forward_to_x_and_down_to_minus_z(tmp_path: Path) -> None:
    """A camera 4 m ahead (its z), 1 m to the right (x), 0.5 m down (y), turned right by 90° (about y)."""
    text = "0 0 1 1 0 1 0 0.5 -1 0 0 4\n"
    record = kitti_poses.read_kitti(written(tmp_path, text), rate_hz=10.0, axes="camera")
    pose = Pose(record.xyz[0], record.quat_xyzw[0])
    assert pose.xyz == pytest.approx([4.0, -1.0, -0.5])
    assert pose.rpy_deg == pytest.approx([0.0, 0.0, -90.0])


def test_rounded_matrices_give_the_nearest_rotations(tmp_path: Path) -> None:
    record = poses(50)
    kitti_poses.write_kitti(record, tmp_path / "exact.txt")
    np.savetxt(tmp_path / "rounded.txt", matrices(tmp_path / "exact.txt").reshape(-1, 12), fmt="%.4e")
    back = kitti_poses.read_kitti(tmp_path / "rounded.txt", rate_hz=10.0)
    angle = (Rotation.from_quat(back.quat_xyzw) * Rotation.from_quat(record.quat_xyzw).inv()).magnitude()
    assert np.max(angle) < 2e-4
    assert np.linalg.norm(back.quat_xyzw, axis=1) == pytest.approx(np.ones(50), abs=1e-14)
    assert back.times == pytest.approx(np.arange(50) / 10.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file contains no poses"),
        (IDENTITY + "1 0 0 5 0 1 0 6 0 0 1\n", "line 2: poses need 12 numbers per line, got 11"),
        (IDENTITY + "1 0 0 5 0 1 0 6 0 0 1 nan\n", "line 2: numbers must be finite, got nan"),
        (IDENTITY + "2 0 0 5 0 1 0 6 0 0 1 7\n", "line 2: the first three columns are not a rotation (off by 3)"),
        (IDENTITY + "1 0.02 0 5 0 1 0 6 0 0 1 7\n", "line 2: the first three columns are not a rotation"),
        (IDENTITY + "1e200 0 0 5 0 1 0 6 0 0 1 7\n", "line 2: the first three columns are not a rotation"),
        (IDENTITY + "-1 0 0 5 0 1 0 6 0 0 1 7\n", "line 2: the first three columns are a reflection"),
        (LINE, "line 1: poses need 12 numbers per line, got 8"),
    ],
)
def test_bad_kitti_files_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FormatError) as caught:
        kitti_poses.read_kitti(written(tmp_path, text), rate_hz=10.0)
    assert str(tmp_path / "poses.txt") in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0.0\n", "has 1 times, but .* has 2 poses"),
        ("0.0\n0.0\n", "line 2: the time 0.0 is not after"),
        ("0.0\n\nsoon\n", "line 3: 'soon' is not a number"),
        ("0.0 1.0\n", "line 1: times need 1 numbers per line, got 2"),
    ],
)
def test_bad_files_of_times_are_refused(tmp_path: Path, text: str, words: str) -> None:
    file, clock = written(tmp_path, IDENTITY * 2), written(tmp_path, text, "times.txt")
    with pytest.raises(FormatError, match=rf"times\.txt: {words}"):
        kitti_poses.read_kitti(file, times=clock)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "either times"),
        ({"rate_hz": 10.0, "times": "times.txt"}, "either times"),
        ({"rate_hz": 0.0}, "rate_hz must be a number above 0, got 0.0"),
        ({"rate_hz": np.nan}, "rate_hz must be a number above 0, got nan"),
        ({"rate_hz": 10.0, "axes": "ship"}, "axes must be 'robot' or 'camera', got 'ship'"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=f"KITTI poses: .*{words}"):
        kitti_poses.read_kitti(written(tmp_path, IDENTITY), **options)
