"""Poses with their times, and how text files of them are read: errors name the file and the line."""

from __future__ import annotations

import io
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError
from parhelion.core.pose import LARGEST_POSITION_M, Floats
from parhelion.io.source import read_bytes

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
