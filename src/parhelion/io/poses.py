"""Poses with their times, and how text files of them are read: errors name the file and the line."""

from __future__ import annotations

import io
import math
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.files import atomic_write
from parhelion.core.pose import LARGEST_POSITION_M, Floats, quat_rotate
from parhelion.core.reading import file_reader, read_bytes
from parhelion.io.csv_table import format_rows

LARGEST_QUATERNION_ERROR = 1e-2
_KEPT_QUATERNION_ERROR = 1e-12


@dataclass(frozen=True, eq=False)
class TimedPoses:
    """Poses of one body over time."""

    times: Floats
    """Rising times [s], shape (n,)."""
    xyz: Floats
    """Positions [m], shape (n, 3)."""
    quat_xyzw: Floats
    """Unit quaternions, body to parent frame, shape (n, 4)."""

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True)
class NumberedRows:
    """Rows of numbers of a text file, which can still name the line of each."""

    path: Path
    values: Floats
    """Shape (n, columns), finite."""
    text: str

    def line_of(self, row: int) -> int:
        """Number of the line, counted from 1, on which a row stands."""
        return _lines(self.text)[row][0]

    def refuse(self, wrong: NDArray[np.bool_], words: str, values: NDArray[Any] | None = None) -> None:
        """Raise a `FormatError` for the first wrong row; `{}` in `words` is its entry of `values`."""
        if np.any(wrong):
            row = int(np.argmax(wrong))
            shown = words if values is None else words.format(values[row])
            raise FormatError(f"{self.path}: line {self.line_of(row)}: {shown}")


def read_rows(path: Path, columns: int, what: str) -> NumberedRows:
    """All rows of a text file: `columns` finite numbers each, parted by white space; `#` starts a comment."""
    text = read_bytes(path).decode("utf-8-sig", "replace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy only warns of a file without numbers
            values = np.loadtxt(io.StringIO(text), dtype=np.float64, comments="#", ndmin=2)
    except (ValueError, UserWarning):
        values = np.empty((0, 0))
    if values.shape[1] != columns or not np.all(np.isfinite(values)):
        _refuse(path, text, columns, what)
    return NumberedRows(path, values, text)


def _lines(text: str) -> list[tuple[int, list[str]]]:
    split = ((number, line.partition("#")[0].split()) for number, line in enumerate(text.split("\n"), start=1))
    return [(number, words) for number, words in split if words]


def _refuse(path: Path, text: str, columns: int, what: str) -> None:
    rows = _lines(text)
    if not rows:
        raise FormatError(f"{path}: the file holds no {what}")
    for number, words in rows:
        if len(words) != columns:
            raise FormatError(f"{path}: line {number}: {what} are {columns} numbers a line, got {len(words)}")
        for word in words:
            try:
                value = float(word)
            except ValueError:
                raise FormatError(f"{path}: line {number}: {word[:40]!r} is not a number") from None
            if not math.isfinite(value):
                raise FormatError(f"{path}: line {number}: numbers must be finite, got {word}")
    raise FormatError(f"{path}: the {what} cannot be read")


def require_rising(rows: NumberedRows, times: Floats) -> None:
    """Refuse times that do not rise from row to row."""
    rows.refuse(
        np.concatenate([[False], np.diff(times) <= 0.0]), "the time {} does not come after the one before", times
    )


def refuse_far(rows: NumberedRows, xyz: Floats) -> None:
    """Refuse positions that no pose may have."""
    far = np.max(np.abs(xyz), axis=1)
    rows.refuse(far > LARGEST_POSITION_M, f"positions must lie within {LARGEST_POSITION_M:g} m, got {{:g}}", far)


def unit_quaternions(rows: NumberedRows, quats: Floats) -> Floats:
    """Quaternions made unit ones; those that are so to 1e-12 keep their bits, beyond 1e-2 is refused."""
    norm = np.linalg.norm(quats, axis=1)
    off = np.abs(norm - 1.0)
    rows.refuse(~(off <= LARGEST_QUATERNION_ERROR), "the quaternion has length {:.6g}, not 1", norm)
    return np.where((off > _KEPT_QUATERNION_ERROR)[:, None], quats / norm[:, None], quats)


def checked(poses: TimedPoses, path: Path) -> TimedPoses:
    """The same poses as arrays of float64, refused where a file could not be read back."""
    arrays = [np.asarray(part, dtype=np.float64) for part in (poses.times, poses.xyz, poses.quat_xyzw)]
    count = len(arrays[0]) if arrays[0].ndim == 1 else 0
    if count == 0 or arrays[1].shape != (count, 3) or arrays[2].shape != (count, 4):
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise FormatError(f"{path}: poses must have shapes (n,), (n, 3) and (n, 4) with n above 0, got {shapes}")
    for name, array in zip(("times", "xyz", "quat_xyzw"), arrays, strict=True):
        if not np.all(np.isfinite(array)):
            raise FormatError(f"{path}: {name} must be finite, got {array[~np.isfinite(array)][0]}")
    if np.any(np.diff(arrays[0]) <= 0.0):
        raise FormatError(f"{path}: times must be rising")
    norm = np.linalg.norm(arrays[2], axis=1)
    if np.any(np.abs(norm - 1.0) > LARGEST_QUATERNION_ERROR):
        raise FormatError(f"{path}: quat_xyzw must be unit quaternions")
    return TimedPoses(*arrays)


# ---- tum ------------------------------------------------------------------------------------------------------------
# TUM trajectory files: one pose a line, `timestamp tx ty tz qx qy qz qw` in seconds and metres, `#` for comments.
# poses = tum.read(Path("groundtruth.txt"))
#     tum.write(poses, Path("copy.txt"))        # the same numbers again, bit for bit
#
# Source: https://cvg.cit.tum.de/data/datasets/rgbd-dataset/file_formats


_HEAD = b"# timestamp tx ty tz qx qy qz qw\n"


@file_reader()
def read_tum(path: Path) -> TimedPoses:
    """Read all poses. Times must rise; quaternions within 1e-2 of unit length are made unit ones."""
    rows = read_rows(path, 8, "poses")
    require_rising(rows, rows.values[:, 0])
    refuse_far(rows, rows.values[:, 1:4])
    quats = unit_quaternions(rows, rows.values[:, 4:])
    return TimedPoses(rows.values[:, 0].copy(), rows.values[:, 1:4].copy(), quats)


def write_tum(poses: TimedPoses, path: Path) -> None:
    """Write all poses with as many digits as it takes to read back the same bits."""
    whole = checked(poses, path)
    columns = [whole.times, *whole.xyz.T, *whole.quat_xyzw.T]
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.write(_HEAD)
        file.writelines(format_rows(columns, " "))


# ---- KITTI odometry poses: one 3 x 4 matrix a line, row by row (12 numbers), without times --------------------------
# poses = kitti_poses.read(Path("poses/00.txt"), times="sequences/00/times.txt", axes="camera")
#     poses = kitti_poses.read(Path("poses.txt"), rate_hz=10.0)
#
# KITTI's own poses are those of the left camera (x right, y down, z forward) in its first frame; `axes="camera"` turns
# both frames to x forward, y left, z up. Times stand in a file of their own, one number a line.
# Source: https://www.cvlibs.net/datasets/kitti/eval_odometry.php


# Rows: the robot's x, y, z axes in those of the camera. Only zeros and signs, so turning loses no bits.
_ROBOT_FROM_CAMERA = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])


@file_reader()
def read_kitti(
    path: Path,
    *,
    times: str | PathLike[str] | None = None,
    rate_hz: float | None = None,
    axes: Literal["robot", "camera"] = "robot",
) -> TimedPoses:
    """Read all poses, with the times of a file or n/rate_hz [s].

    Rotations that are not quite such, as after rounding to few digits, are replaced by the nearest ones; beyond 1e-2
    in any entry of R R^T they are refused.
    """
    _check_axes(axes)
    if (times is None) == (rate_hz is None):
        raise ConfigError("KITTI poses: give either times (a file) or rate_hz")
    if rate_hz is not None and not 0.0 < rate_hz < np.inf:
        raise ConfigError(f"KITTI poses: rate_hz must be a number above 0, got {rate_hz}")
    rows = read_rows(path, 12, "poses")
    matrices = rows.values.reshape(-1, 3, 4)
    rotation, xyz = matrices[:, :, :3], matrices[:, :, 3]
    refuse_far(rows, xyz)
    off = np.max(np.abs(rotation @ np.swapaxes(rotation, 1, 2) - np.eye(3)), axis=(1, 2))
    rows.refuse(~(off <= LARGEST_QUATERNION_ERROR), "the first three columns are no rotation (off by {:.3g})", off)
    rows.refuse(np.linalg.det(rotation) < 0.0, "the first three columns are a mirror image, no rotation")
    if axes == "camera":
        rotation = _ROBOT_FROM_CAMERA @ rotation @ _ROBOT_FROM_CAMERA.T
        xyz = xyz @ _ROBOT_FROM_CAMERA.T
    count = len(rows.values)
    if rate_hz is None:
        assert times is not None
        clock = _times(Path(times), count, path)
    else:
        clock = np.arange(count) / rate_hz
    return TimedPoses(clock, np.array(xyz), _quaternions(rotation))


def write_kitti(
    poses: TimedPoses,
    path: Path,
    *,
    times: str | PathLike[str] | None = None,
    axes: Literal["robot", "camera"] = "robot",
) -> None:
    """Write all poses, and their times to the file `times` where one is named. `axes` as for reading.

    Positions and times read back as the same bits; orientations to rounding, since they are stored as matrices.
    """
    _check_axes(axes)
    whole = checked(poses, path)
    units = whole.quat_xyzw / np.linalg.norm(whole.quat_xyzw, axis=1, keepdims=True)
    rotation, xyz = np.swapaxes(quat_rotate(units[:, None], np.eye(3)), 1, 2), whole.xyz
    if axes == "camera":
        rotation = _ROBOT_FROM_CAMERA.T @ rotation @ _ROBOT_FROM_CAMERA
        xyz = xyz @ _ROBOT_FROM_CAMERA
    table = np.concatenate([rotation, xyz[:, :, None]], axis=2).reshape(-1, 12)
    with ExitStack() as files:
        target = files.enter_context(files.enter_context(atomic_write(path)).open("wb"))
        target.writelines(format_rows(list(table.T), " "))
        if times is not None:
            target = files.enter_context(files.enter_context(atomic_write(times)).open("wb"))
            target.writelines(format_rows([whole.times], " "))


def _check_axes(axes: str) -> None:
    if axes not in ("robot", "camera"):
        raise ConfigError(f"KITTI poses: axes must be 'robot' or 'camera', got {axes!r}")


def _times(path: Path, count: int, poses_path: Path) -> Floats:
    rows = read_rows(path, 1, "times")
    times = rows.values[:, 0].copy()
    if len(times) != count:
        raise FormatError(f"{path}: holds {len(times)} times, but {poses_path} holds {count} poses")
    require_rising(rows, times)
    return times


def _quaternions(rotation: Floats) -> Floats:
    """Unit quaternions `xyzw`, w not negative, of the rotations nearest to matrices (n, 3, 3)."""
    m = np.moveaxis(rotation, 0, -1)
    # The eigenvector of the largest eigenvalue (Bar-Itzhack, 2000): no cases by the sign of the trace.
    rows = [
        [m[0, 0] - m[1, 1] - m[2, 2], m[1, 0] + m[0, 1], m[2, 0] + m[0, 2], m[2, 1] - m[1, 2]],
        [m[1, 0] + m[0, 1], m[1, 1] - m[0, 0] - m[2, 2], m[2, 1] + m[1, 2], m[0, 2] - m[2, 0]],
        [m[2, 0] + m[0, 2], m[2, 1] + m[1, 2], m[2, 2] - m[0, 0] - m[1, 1], m[1, 0] - m[0, 1]],
        [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], m[0, 0] + m[1, 1] + m[2, 2]],
    ]
    quats = np.linalg.eigh(np.moveaxis(np.array(rows), -1, 0))[1][:, :, -1]
    return np.where(quats[:, 3:] < 0.0, -quats, quats)
