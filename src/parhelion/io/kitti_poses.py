"""KITTI odometry poses: one 3 x 4 matrix a line, row by row (12 numbers), without times.

    poses = kitti_poses.read(Path("poses/00.txt"), times="sequences/00/times.txt", axes="camera")
    poses = kitti_poses.read(Path("poses.txt"), rate_hz=10.0)

KITTI's own poses are those of the left camera (x right, y down, z forward) in its first frame; `axes="camera"` turns
both frames to x forward, y left, z up. Times stand in a file of their own, one number a line.
Source: https://www.cvlibs.net/datasets/kitti/eval_odometry.php
"""

from __future__ import annotations

from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Floats, quat_rotate
from parhelion.core.reading import reader
from parhelion.io.atomic import atomic_write
from parhelion.io.text_table import format_rows
from parhelion.io.timed_poses import (
    LARGEST_QUATERNION_ERROR,
    TimedPoses,
    checked,
    read_rows,
    refuse_far,
    require_rising,
)

# Rows: the robot's x, y, z axes in those of the camera. Only zeros and signs, so turning loses no bits.
_ROBOT_FROM_CAMERA = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])


@reader()
def read(
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


def write(
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
