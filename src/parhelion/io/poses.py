"""Text files of timed poses, TUM and KITTI. Errors name the file and the line."""

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
from parhelion.core.pose import LARGEST_POSITION_M, Floats, quat_rotate, quats_from_matrices
from parhelion.core.reading import file_reader, read_bytes
from parhelion.io.csv_table import format_rows

LARGEST_QUATERNION_ERROR = 1e-2
_EXACT_QUATERNION_ERROR = 1e-12


@dataclass(frozen=True, eq=False)
class TimedPoses:
    """Poses of one body over time."""

    times: Floats
    """Strictly increasing times [s], shape (n,)."""
    xyz: Floats
    """Positions [m], shape (n, 3)."""
    quat_xyzw: Floats
    """Unit quaternions, body to parent frame, shape (n, 4)."""

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True)
class NumberedRows:
    """Rows of numbers from a text file, with the line number of each."""

    path: Path
    values: Floats
    """Finite numbers, shape (n, columns)."""
    text: str
    """Content of the file."""

    def line_of(self, row: int) -> int:
        """Line number of a row, counted from 1."""
        return _lines(self.text)[row][0]

    def refuse(self, wrong: NDArray[np.bool_], words: str, values: NDArray[Any] | None = None) -> None:
        """Raise a `FormatError` for the first wrong row; `{}` in `words` is replaced by its entry in `values`."""
        if np.any(wrong):
            row = int(np.argmax(wrong))
            shown = words if values is None else words.format(values[row])
            raise FormatError(f"{self.path}: line {self.line_of(row)}: {shown}")


def read_rows(path: Path, columns: int, what: str) -> NumberedRows:
    """Read a text file with `columns` finite numbers per line, separated by white space; `#` starts a comment."""
    text = read_bytes(path).decode("utf-8-sig", "replace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy only warns if a file contains no numbers
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
        raise FormatError(f"{path}: the file contains no {what}")
    for number, words in rows:
        if len(words) != columns:
            raise FormatError(f"{path}: line {number}: {what} need {columns} numbers per line, got {len(words)}")
        for word in words:
            try:
                value = float(word)
            except ValueError:
                raise FormatError(f"{path}: line {number}: {word[:40]!r} is not a number") from None
            if not math.isfinite(value):
                raise FormatError(f"{path}: line {number}: numbers must be finite, got {word}")
    raise FormatError(f"{path}: the {what} cannot be read")


def require_rising(rows: NumberedRows, times: Floats) -> None:
    """Raise FormatError unless times increase from row to row."""
    rows.refuse(np.concatenate([[False], np.diff(times) <= 0.0]), "the time {} is not after the previous one", times)


def refuse_far(rows: NumberedRows, xyz: Floats) -> None:
    """Raise FormatError for positions beyond the limit of poses."""
    far = np.max(np.abs(xyz), axis=1)
    rows.refuse(far > LARGEST_POSITION_M, f"positions must lie within {LARGEST_POSITION_M:g} m, got {{:g}}", far)


def unit_quaternions(rows: NumberedRows, quats: Floats) -> Floats:
    """Normalise quaternions. A length within 1e-12 of 1 is left unchanged; an error above 1e-2 is rejected."""
    norm = np.linalg.norm(quats, axis=1)
    off = np.abs(norm - 1.0)
    rows.refuse(~(off <= LARGEST_QUATERNION_ERROR), "the quaternion has length {:.6g}, not 1", norm)
    return np.where((off > _EXACT_QUATERNION_ERROR)[:, None], quats / norm[:, None], quats)


def checked(poses: TimedPoses, path: Path) -> TimedPoses:
    """Return the poses as float64 arrays. Raise FormatError if a file of them could not be read back."""
    arrays = [np.asarray(part, dtype=np.float64) for part in (poses.times, poses.xyz, poses.quat_xyzw)]
    count = len(arrays[0]) if arrays[0].ndim == 1 else 0
    if count == 0 or arrays[1].shape != (count, 3) or arrays[2].shape != (count, 4):
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise FormatError(f"{path}: poses must have shapes (n,), (n, 3) and (n, 4) with n above 0, got {shapes}")
    for name, array in zip(("times", "xyz", "quat_xyzw"), arrays, strict=True):
        if not np.all(np.isfinite(array)):
            raise FormatError(f"{path}: {name} must be finite, got {array[~np.isfinite(array)][0]}")
    if np.any(np.diff(arrays[0]) <= 0.0):
        raise FormatError(f"{path}: times must be strictly increasing")
    norm = np.linalg.norm(arrays[2], axis=1)
    if np.any(np.abs(norm - 1.0) > LARGEST_QUATERNION_ERROR):
        raise FormatError(f"{path}: quat_xyzw must be unit quaternions")
    return TimedPoses(*arrays)


# ---- tum ------------------------------------------------------------------------------------------------------------
# TUM trajectory files: one pose per line, `timestamp tx ty tz qx qy qz qw` in seconds and metres, `#` for comments.
# Source: https://cvg.cit.tum.de/data/datasets/rgbd-dataset/file_formats


_HEAD = b"# timestamp tx ty tz qx qy qz qw\n"


@file_reader()
def read_tum(path: Path) -> TimedPoses:
    """Read all poses. Times must increase; quaternions within 1e-2 of unit length are normalised."""
    rows = read_rows(path, 8, "poses")
    require_rising(rows, rows.values[:, 0])
    refuse_far(rows, rows.values[:, 1:4])
    quats = unit_quaternions(rows, rows.values[:, 4:])
    return TimedPoses(rows.values[:, 0].copy(), rows.values[:, 1:4].copy(), quats)


def write_tum(poses: TimedPoses, path: Path) -> None:
    """Write all poses with enough digits to read back the same bits."""
    whole = checked(poses, path)
    columns = [whole.times, *whole.xyz.T, *whole.quat_xyzw.T]
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.write(_HEAD)
        file.writelines(format_rows(columns, " "))


# ---- KITTI odometry poses -------------------------------------------------------------------------------------------
# One 3 x 4 matrix per line, row by row (12 numbers), without times. Times are in a separate file, one number per line.
# KITTI's own poses are those of the left camera (x right, y down, z forward) in its first frame; `axes="camera"`
# converts both frames to x forward, y left, z up.
# Source: https://www.cvlibs.net/datasets/kitti/eval_odometry.php


# Rows: the robot's x, y, z axes in the camera frame. Only zeros and signs, so the conversion is exact.
_ROBOT_FROM_CAMERA = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])


@file_reader()
def read_kitti(
    path: Path,
    *,
    times: str | PathLike[str] | None = None,
    rate_hz: float | None = None,
    axes: Literal["robot", "camera"] = "robot",
) -> TimedPoses:
    """Read all poses, with times from the file `times` or n / rate_hz [s].

    Rotation matrices that are inexact, for example rounded to few digits, are replaced by the nearest rotation. An
    error above 1e-2 in any entry of R R^T is rejected.
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
    rows.refuse(~(off <= LARGEST_QUATERNION_ERROR), "the first three columns are not a rotation (off by {:.3g})", off)
    rows.refuse(np.linalg.det(rotation) < 0.0, "the first three columns are a reflection, not a rotation")
    if axes == "camera":
        rotation = _ROBOT_FROM_CAMERA @ rotation @ _ROBOT_FROM_CAMERA.T
        xyz = xyz @ _ROBOT_FROM_CAMERA.T
    count = len(rows.values)
    if rate_hz is None:
        assert times is not None
        clock = _times(Path(times), count, path)
    else:
        clock = np.arange(count) / rate_hz
    return TimedPoses(clock, np.array(xyz), quats_from_matrices(rotation))


def write_kitti(
    poses: TimedPoses,
    path: Path,
    *,
    times: str | PathLike[str] | None = None,
    axes: Literal["robot", "camera"] = "robot",
) -> None:
    """Write all poses, and their times to the file `times` if given. `axes` is as for reading.

    Positions and times read back bit for bit; orientations up to rounding, because they are stored as matrices.
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
        raise FormatError(f"{path}: has {len(times)} times, but {poses_path} has {count} poses")
    require_rising(rows, times)
    return times
