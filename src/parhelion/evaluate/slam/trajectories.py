"""Errors of an estimated trajectory: ATE, RPE and KITTI drift.

All functions take two `TimedPoses` of equal length with corresponding rows; `matched` creates such a pair. Sources:
Sturm et al. 2012 (ATE and RPE), Umeyama 1991 (alignment), Geiger et al. 2012 (drift over segments of a path).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, quat_conjugate, quat_from_matrix, quat_multiply, quat_rotate
from parhelion.core.trajectory import Trajectory
from parhelion.io.poses import TimedPoses

KITTI_LENGTHS_M = tuple(100.0 * k for k in range(1, 9))
"""Segment lengths over which KITTI's odometry benchmark averages [m]."""
KITTI_STEP = 10
"""Scans between the starts of consecutive segments."""
FEWEST = 3
"""Smallest number of poses of a trajectory: any two poses match two others after a rotation and a shift."""


@dataclass(frozen=True)
class Errors:
    """Translation and rotation error."""

    translation: float
    """Translation error [m]; for drift [%]."""
    rotation: float
    """Rotation error [°]; for drift [°/100 m]."""


def checked(poses: TimedPoses, name: str) -> TimedPoses:
    """Poses that can be scored: at least three, all finite, with increasing times."""
    if len(poses) < FEWEST:
        raise ConfigError(f"{name}: a trajectory needs at least {FEWEST} poses to be scored, got {len(poses)}")
    for part, values in (("times", poses.times), ("positions", poses.xyz), ("quaternions", poses.quat_xyzw)):
        wrong = ~np.isfinite(np.asarray(values, np.float64).reshape(len(poses), -1)).all(axis=1)
        if np.any(wrong):
            raise ConfigError(f"{name}: {part} must be finite, got NaN or infinity in pose {int(np.argmax(wrong))}")
    if np.any(np.diff(poses.times) <= 0.0):
        raise ConfigError(f"{name}: times must increase")
    return poses


def matched(estimate: TimedPoses, truth: TimedPoses | Trajectory) -> tuple[TimedPoses, TimedPoses]:
    """Estimate and truth at the times of the estimate; estimates outside the recorded times are excluded."""
    checked(estimate, "estimated trajectory")
    if isinstance(truth, TimedPoses):
        from parhelion.motion.recorded import RecordedMotion

        checked(truth, "true trajectory")
        inside = (estimate.times >= truth.times[0] - 1e-9) & (estimate.times <= truth.times[-1] + 1e-9)
        if np.count_nonzero(inside) < FEWEST:
            raise ConfigError(
                f"the trajectories do not overlap in time: the estimate covers {estimate.times[0]:g} s to "
                f"{estimate.times[-1]:g} s, the truth {truth.times[0]:g} s to {truth.times[-1]:g} s"
            )
        estimate = TimedPoses(estimate.times[inside], estimate.xyz[inside], estimate.quat_xyzw[inside])
        truth = RecordedMotion(truth.times, truth.xyz, truth.quat_xyzw)
    return estimate, TimedPoses(estimate.times, *truth.sample(estimate.times))


def path_length(poses: TimedPoses) -> float:
    """Length of the path [m], straight from pose to pose."""
    return float(distances_along(poses)[-1])


def distances_along(poses: TimedPoses) -> Floats:
    """Path length up to each pose [m], shape (n,)."""
    steps = np.linalg.norm(np.diff(poses.xyz, axis=0), axis=1)
    return np.concatenate([[0.0], np.cumsum(steps)])


def moved(poses: TimedPoses, rotation: Floats, shift: Floats) -> TimedPoses:
    """All poses rotated by a matrix (3, 3), then shifted [m]."""
    turn = quat_from_matrix(rotation)
    return TimedPoses(poses.times, poses.xyz @ rotation.T + shift, quat_multiply(turn[None], poses.quat_xyzw))


def aligned(estimate: TimedPoses, truth: TimedPoses) -> TimedPoses:
    """Estimate after the best rigid alignment of its positions (Umeyama 1991, without scale)."""
    middle, true_middle = estimate.xyz.mean(axis=0), truth.xyz.mean(axis=0)
    u, _, vt = np.linalg.svd((truth.xyz - true_middle).T @ (estimate.xyz - middle))
    signs = np.diag([1.0, 1.0, float(np.sign(np.linalg.det(u) * np.linalg.det(vt)) or 1.0)])
    rotation = u @ signs @ vt
    return moved(estimate, rotation, true_middle - rotation @ middle)


def from_first_pose(estimate: TimedPoses, truth: TimedPoses) -> TimedPoses:
    """Estimate moved rigidly so that its first pose equals the true one."""
    turn = quat_multiply(truth.quat_xyzw[0], quat_conjugate(estimate.quat_xyzw[0]))
    rotation = quat_rotate(turn[None], np.eye(3)).T
    return moved(estimate, rotation, truth.xyz[0] - rotation @ estimate.xyz[0])


def position_errors(estimate: TimedPoses, truth: TimedPoses) -> Floats:
    """Distance of each position from the true one [m], shape (n,)."""
    return np.asarray(np.linalg.norm(estimate.xyz - truth.xyz, axis=1), np.float64)


def ate(estimate: TimedPoses, truth: TimedPoses) -> Errors:
    """Absolute trajectory error: root mean square over all poses after the best rigid alignment."""
    fitted = aligned(estimate, truth)
    turned = _angles_deg(quat_multiply(quat_conjugate(truth.quat_xyzw), fitted.quat_xyzw))
    return Errors(_rms(position_errors(fitted, truth)), _rms(turned))


def rpe(estimate: TimedPoses, truth: TimedPoses, *, frames: int | None = None, metres: float | None = None) -> Errors:
    """Relative pose error: root mean square over pairs of poses a number of frames, or metres of true path, apart.

    Pairs are consecutive: the second pose of one is the first of the next.
    """
    if (frames is None) == (metres is None):
        raise ConfigError("relative pose error: give frames or metres")
    if frames is not None:
        marks = np.arange(0, len(truth), max(1, frames))
    else:
        assert metres is not None
        marks = _marks_along(distances_along(truth), metres)
    if len(marks) < 2:
        raise ConfigError("relative pose error: the path is too short for one pair of poses")
    shift, turn = _relative_errors(estimate, truth, marks[:-1], marks[1:])
    return Errors(_rms(np.linalg.norm(shift, axis=1)), _rms(turn))


def kitti_drift(
    estimate: TimedPoses, truth: TimedPoses, lengths_m: Sequence[float] = KITTI_LENGTHS_M, step: int = KITTI_STEP
) -> Errors | None:
    """Mean error of translation [%] and rotation [°/100 m] over all segments of the given lengths of true path.

    None if the path is shorter than the shortest segment.
    """
    first, last, length = _stretches(distances_along(truth), lengths_m, step)
    if not len(first):
        return None
    shift, turn = _relative_errors(estimate, truth, first, last)
    return Errors(float(np.mean(100.0 * np.linalg.norm(shift, axis=1) / length)), float(np.mean(100.0 * turn / length)))


def end_drift_percent(estimate: TimedPoses, truth: TimedPoses) -> float:
    """Error of the last position with the first poses aligned, as a share of the path length [%]."""
    way = path_length(truth)
    if way <= 0.0:
        raise ConfigError("true trajectory: it does not move, so drift is undefined")
    return 100.0 * float(position_errors(from_first_pose(estimate, truth), truth)[-1]) / way


# ---- pairs of poses -------------------------------------------------------------------------------------------------


def _marks_along(way: Floats, metres: float) -> NDArray[np.int64]:
    marks, since = [0], 0.0
    for row, step in enumerate(np.diff(way), start=1):
        since += float(step)
        if since >= metres:
            marks.append(row)
            since = 0.0
    return np.array(marks)


def _stretches(
    way: Floats, lengths_m: Sequence[float], step: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """First and last row of each segment, and its nominal length [m]."""
    starts = np.arange(0, len(way), step)
    first, last, length = [], [], []
    for metres in lengths_m:
        ends = np.searchsorted(way, way[starts] + metres, side="right")
        inside = ends < len(way)
        first.append(starts[inside])
        last.append(ends[inside])
        length.append(np.full(int(inside.sum()), float(metres)))
    return np.concatenate(first), np.concatenate(last), np.concatenate(length)


def _relative_errors(
    estimate: TimedPoses, truth: TimedPoses, first: NDArray[np.int64], last: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Translation (n, 3) [m] and angle (n,) [°] of true motion⁻¹ · estimated motion, for pairs of rows."""
    true_shift, true_turn = _motion(truth, first, last)
    shift, turn = _motion(estimate, first, last)
    back = quat_conjugate(true_turn)
    return quat_rotate(back, shift - true_shift), _angles_deg(quat_multiply(back, turn))


def _motion(poses: TimedPoses, first: NDArray[np.int64], last: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Motion from one row to another, in the frame of the first."""
    back = quat_conjugate(poses.quat_xyzw[first])
    return quat_rotate(back, poses.xyz[last] - poses.xyz[first]), quat_multiply(back, poses.quat_xyzw[last])


def _angles_deg(quats: Floats) -> Floats:
    sine = np.linalg.norm(quats[:, :3], axis=1)
    return np.asarray(np.rad2deg(2.0 * np.arctan2(sine, np.abs(quats[:, 3]))), np.float64)


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
