"""KITTI's calibration files, and labels of its object benchmark.

Where a run has no camera beside the lidar, a nominal one stands for all four, with the focal length and picture size
of KITTI's own. It sits in the lidar and looks along the lidar's x axis, so that tools find the matrices that they need.
Sources: https://www.cvlibs.net/datasets/kitti/setup.php, the readme of the object development kit (Geiger et al. 2012).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.pose import Floats

CAMERA_FROM_LIDAR = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
"""Rows: the camera's axes (x right, y down, z forward) in those of the lidar (x forward, y left, z up)."""
IMAGE_SIZE = (1242, 375)
"""Width and height of the nominal picture [pixels]."""
PROJECTION = np.array([[721.5377, 0.0, 609.5593, 0.0], [0.0, 721.5377, 172.854, 0.0], [0.0, 0.0, 1.0, 0.0]])
"""The nominal camera: focal length and middle [pixels] of KITTI's object benchmark, without a baseline."""
NEAR_M = 0.1
"""What is nearer to the camera's plane than this [m], or behind it, is not in the picture."""
OCCLUSION_STEPS = (0.1, 0.5)
"""Hidden shares up to which a thing counts as fully visible (0) and as partly hidden (1); above it is largely (2)."""
UNKNOWN_OCCLUSION = 3

# Corner numbers of a box's twelve edges: those that differ in one bit.
_EDGES = np.array([(a, a | 1 << k) for a in range(8) for k in range(3) if not a >> k & 1])


def calibration(rows: Mapping[str, ArrayLike]) -> bytes:
    """A calibration file: one matrix a line, row by row, after its name."""
    lines = []
    for name, matrix in rows.items():
        numbers = " ".join(f"{number + 0.0:.12e}" for number in np.asarray(matrix, dtype=np.float64).ravel())
        lines.append(f"{name}: {numbers}\n")
    return "".join(lines).encode()


def odometry_calibration(
    left: Floats = PROJECTION, right: Floats = PROJECTION, camera_from_lidar: Floats | None = None
) -> bytes:
    """calib.txt of a sequence: P0 and P2 are the left camera (3, 4), P1 and P3 the right one, Tr goes to the left one.

    Without arguments all are the nominal camera.
    """
    if camera_from_lidar is None:
        camera_from_lidar = np.concatenate([CAMERA_FROM_LIDAR, np.zeros((3, 1))], axis=1)
    return calibration({**_cameras(left, right), "Tr": camera_from_lidar})


def _cameras(left: Floats, right: Floats) -> dict[str, Floats]:
    return {f"P{k}": (left, right)[k % 2] for k in range(4)}


def object_calibration(
    camera_from_lidar: Floats, lidar_from_vehicle: Floats, left: Floats = PROJECTION, right: Floats = PROJECTION
) -> bytes:
    """A frame's calibration: the matrices (3, 4) from lidar to camera and (4, 4) from vehicle to lidar, and cameras."""
    return calibration(
        {
            **_cameras(left, right),
            "R0_rect": np.eye(3),
            "Tr_velo_to_cam": camera_from_lidar,
            "Tr_imu_to_velo": lidar_from_vehicle[:3],
        }
    )


@dataclass(frozen=True)
class InPicture:
    """Where a box is in the picture."""

    left: float
    top: float
    right: float
    bottom: float
    truncated: float
    """Share of its rectangle that lies outside the picture, 0 to 1."""


def in_picture(
    corners: Floats, projection: Floats = PROJECTION, size: tuple[int, int] = IMAGE_SIZE
) -> InPicture | None:
    """The rectangle [pixels] around a box's corners (8, 3) [m] in camera axes; None where it is out of the picture."""
    ends = corners[_EDGES]
    depth = ends[:, :, 2]
    # Edges that cross the near plane are cut there, since points behind a camera have no picture.
    crossing = (depth[:, 0] - NEAR_M) * (depth[:, 1] - NEAR_M) < 0.0
    share = (NEAR_M - depth[crossing, 0]) / (depth[crossing, 1] - depth[crossing, 0])
    cut = ends[crossing, 0] + share[:, None] * (ends[crossing, 1] - ends[crossing, 0])
    seen = np.concatenate([corners[corners[:, 2] >= NEAR_M], cut])
    if not len(seen):
        return None
    flat = seen @ projection[:, :3].T
    pixels = flat[:, :2] / flat[:, 2:]
    low, high = pixels.min(axis=0), pixels.max(axis=0)
    edge = np.array(size, dtype=np.float64) - 1.0
    inner_low, inner_high = np.clip(low, 0.0, edge), np.clip(high, 0.0, edge)
    inside = float(np.prod(inner_high - inner_low))
    if inside <= 0.0:
        return None
    whole = float(np.prod(high - low))
    left, top = inner_low.tolist()
    right, bottom = inner_high.tolist()
    return InPicture(left, top, right, bottom, min(max(1.0 - inside / whole, 0.0), 1.0))


def occlusion(hidden: float) -> int:
    """KITTI's number of how much is hidden: 0 none, 1 partly, 2 largely, 3 where the share is not known (NaN)."""
    if not np.isfinite(hidden):
        return UNKNOWN_OCCLUSION
    return int(np.searchsorted(OCCLUSION_STEPS, hidden))


def label_line(
    kind: str, size: Floats, foot: Floats, rotation_y: float, *, picture: InPicture | None, occluded: int
) -> str:
    """A line of a label file (15 words).

    `size` is length, width and height [m], `foot` the middle of the lower face [m] in camera axes, `rotation_y` [rad]
    about the camera's y axis. What is out of the picture is wholly truncated and has the rectangle -1 -1 -1 -1.
    """
    length, width, height = size.tolist()
    turn = wrapped(rotation_y)
    alpha = wrapped(turn - float(np.arctan2(foot[0], foot[2])))
    rectangle = (-1.0,) * 4 if picture is None else (picture.left, picture.top, picture.right, picture.bottom)
    truncated = 1.0 if picture is None else picture.truncated
    numbers = [alpha, *rectangle, height, width, length, *foot.tolist(), turn]
    return " ".join([kind, f"{truncated:.2f}", str(occluded), *(f"{number + 0.0:.4f}" for number in numbers)])


def wrapped(angle: float) -> float:
    """The same angle [rad] from -pi to pi."""
    return float(np.mod(angle + np.pi, 2.0 * np.pi) - np.pi)
