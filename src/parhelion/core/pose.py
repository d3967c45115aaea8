"""Rigid poses. Frames are right-handed, x forward, y left, z up; quaternions are `xyzw`, as in ROS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import ConfigError

Floats = NDArray[np.float64]

LARGEST_POSITION_M = 1e12
"""Largest coordinate of a pose along each axis; about 0.7 times the distance of Saturn from the sun."""


def quat_multiply(a: Floats, b: Floats) -> Floats:
    """Hamilton product of `xyzw` quaternions, shapes (..., 4): rotation `b` first, then `a`."""
    ax, ay, az, aw = (a[..., k] for k in range(4))
    bx, by, bz, bw = (b[..., k] for k in range(4))
    return np.stack(
        [
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            aw * bw - ax * bx - ay * by - az * bz,
        ],
        axis=-1,
    )


def cross(a: Floats, b: Floats) -> Floats:
    """Cross product of vectors (..., 3); shapes broadcast. Faster than `np.cross`, which spends its time on axes."""
    ax, ay, az = (a[..., k] for k in range(3))
    bx, by, bz = (b[..., k] for k in range(3))
    return np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)


def quat_conjugate(q: Floats) -> Floats:
    """Inverse of unit quaternions `xyzw`, shapes (..., 4)."""
    return q * np.array([-1.0, -1.0, -1.0, 1.0])


def quat_rotate(q: Floats, v: Floats) -> Floats:
    """Rotate vectors (..., 3) by unit quaternions `xyzw` (..., 4); shapes broadcast."""
    xyz = q[..., :3]
    t = 2.0 * cross(xyz, v)
    return v + q[..., 3:] * t + cross(xyz, t)


def quat_from_rpy(roll: ArrayLike, pitch: ArrayLike, yaw: ArrayLike) -> Floats:
    """Quaternions `xyzw` from roll, pitch, yaw [rad], applied about the fixed axes x, then y, then z (as in ROS)."""
    r, p, y = (np.asarray(a, dtype=np.float64) / 2.0 for a in (roll, pitch, yaw))
    cr, sr, cp, sp, cy, sy = np.cos(r), np.sin(r), np.cos(p), np.sin(p), np.cos(y), np.sin(y)
    return np.stack(
        [
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
            cr * cp * cy + sr * sp * sy,
        ],
        axis=-1,
    )


def quat_from_matrix(rotation: ArrayLike) -> Floats:
    """Quaternion `xyzw` of one proper 3 x 3 rotation matrix."""
    m = np.asarray(rotation, dtype=np.float64)
    if m.shape != (3, 3) or not np.allclose(m @ m.T, np.eye(3), atol=1e-6) or np.linalg.det(m) < 0:
        raise ConfigError("pose: the rotation part must be a proper 3 x 3 rotation matrix")
    return quats_from_matrices(m[None])[0]


def quats_from_matrices(rotation: Floats) -> Floats:
    """Unit quaternions `xyzw` with w >= 0 of the rotations nearest to matrices (n, 3, 3), shape (n, 4)."""
    m = np.moveaxis(rotation, 0, -1)
    # The quaternion is the eigenvector of the largest eigenvalue (Bar-Itzhack 2000); no case distinction by the trace.
    rows = [
        [m[0, 0] - m[1, 1] - m[2, 2], m[1, 0] + m[0, 1], m[2, 0] + m[0, 2], m[2, 1] - m[1, 2]],
        [m[1, 0] + m[0, 1], m[1, 1] - m[0, 0] - m[2, 2], m[2, 1] + m[1, 2], m[0, 2] - m[2, 0]],
        [m[2, 0] + m[0, 2], m[2, 1] + m[1, 2], m[2, 2] - m[0, 0] - m[1, 1], m[1, 0] - m[0, 1]],
        [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], m[0, 0] + m[1, 1] + m[2, 2]],
    ]
    quats = np.linalg.eigh(np.moveaxis(np.array(rows), -1, 0))[1][:, :, -1]
    return np.where(quats[:, 3:] < 0.0, -quats, quats)


def quat_slerp(a: Floats, b: Floats, fraction: Floats) -> Floats:
    """Shortest-arc interpolation from `a` to `b`, shapes (n, 4), `fraction` (n,) in [0, 1]."""
    dot = np.sum(a * b, axis=-1, keepdims=True)
    b = np.where(dot < 0, -b, b)
    angle = np.arccos(np.clip(np.abs(dot), 0.0, 1.0))
    s = np.asarray(fraction, dtype=np.float64)[..., None]
    near = angle < 1e-6  # sin(angle) vanishes; linear interpolation is exact to rounding here
    denominator = np.where(near, 1.0, np.sin(angle))
    wa = np.where(near, 1.0 - s, np.sin((1.0 - s) * angle) / denominator)
    wb = np.where(near, s, np.sin(s * angle) / denominator)
    q = wa * a + wb * b
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def _wrapped(angle: float) -> float:
    """Wrap an angle [rad] from -2 pi .. 2 pi to -pi .. pi."""
    return angle - 2.0 * np.pi * np.sign(angle) if abs(angle) > np.pi else angle


def _finite(name: str, value: ArrayLike, size: int) -> Floats:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"pose: {name} must be {size} numbers, got {value!r}") from None
    if array.shape != (size,):
        raise ConfigError(f"pose: {name} must be {size} numbers, got shape {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ConfigError(f"pose: {name} must be finite, got {array.tolist()}")
    array.setflags(write=False)
    return array


@dataclass(frozen=True, eq=False)
class Pose:
    """Position and orientation of a frame in its parent frame: point_parent = rotate(quat_xyzw, point) + xyz.

    Args:
        xyz: Position [m] in the parent frame.
        quat_xyzw: Orientation as quaternion; normalised.
        rpy_deg: Orientation as roll, pitch, yaw [deg] about the fixed axes x, y, z, instead of `quat_xyzw`.

    >>> sensor = ph.Pose(xyz=(1, 0, 2), rpy_deg=(0, 0, 90))
    >>> sensor.apply([1.0, 0.0, 0.0]).round(6).tolist()
    [1.0, 1.0, 2.0]
    >>> sensor @ sensor.inverse()
    Pose(xyz=(0, 0, 0), rpy_deg=(0, 0, 0))
    """

    xyz: Floats = field(default_factory=lambda: np.zeros(3))
    """Position [m] in the parent frame, shape (3,)."""

    quat_xyzw: Floats = field(default_factory=lambda: np.array([0.0, 0.0, 0.0, 1.0]))
    """Orientation as unit quaternion `xyzw`, shape (4,)."""

    def __init__(
        self,
        xyz: ArrayLike = (0.0, 0.0, 0.0),
        quat_xyzw: ArrayLike | None = None,
        *,
        rpy_deg: Sequence[float] | None = None,
    ) -> None:
        position = _finite("xyz", xyz, 3)
        if max(map(abs, position.tolist())) > LARGEST_POSITION_M:
            raise ConfigError(f"pose: xyz must lie within {LARGEST_POSITION_M:g} m, got {position.tolist()}")
        if quat_xyzw is not None and rpy_deg is not None:
            raise ConfigError("pose: give quat_xyzw or rpy_deg, not both")
        if rpy_deg is not None:
            quat = quat_from_rpy(*np.radians(_finite("rpy_deg", rpy_deg, 3)))
        else:
            quat = _finite("quat_xyzw", (0.0, 0.0, 0.0, 1.0) if quat_xyzw is None else quat_xyzw, 4)
        with np.errstate(over="ignore"):
            norm = float(np.linalg.norm(quat))
        if norm < 1e-9:
            raise ConfigError("pose: quat_xyzw must not be zero")
        if not np.isfinite(norm):
            raise ConfigError(f"pose: quat_xyzw is too large to normalise, got {quat.tolist()}")
        if abs(norm - 1.0) > 1e-12:
            quat = quat / norm
        quat = np.array(quat)
        quat.setflags(write=False)
        object.__setattr__(self, "xyz", position)
        object.__setattr__(self, "quat_xyzw", quat)

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Pose:
        """Return the pose of a 4 x 4 homogeneous matrix (child to parent)."""
        try:
            m = np.asarray(matrix, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise ConfigError("pose: the matrix must be 4 x 4 and finite") from None
        if m.shape != (4, 4) or not np.all(np.isfinite(m)):
            raise ConfigError("pose: the matrix must be 4 x 4 and finite")
        if not np.allclose(m[3], [0.0, 0.0, 0.0, 1.0], rtol=0.0, atol=1e-9):
            raise ConfigError(f"pose: the matrix must have the last row 0 0 0 1, got {m[3].tolist()}")
        return cls(m[:3, 3], quat_from_matrix(m[:3, :3]))

    @classmethod
    def look_at(cls, origin: ArrayLike, target: ArrayLike) -> Pose:
        """Return the pose at `origin` whose x axis points to `target` and whose y axis is horizontal."""
        start = _finite("origin", origin, 3)
        forward = _finite("target", target, 3) - start
        if not np.linalg.norm(forward) > 0:
            raise ConfigError("pose: look_at needs a target that differs from the origin")
        yaw = np.arctan2(forward[1], forward[0])
        pitch = -np.arctan2(forward[2], np.hypot(forward[0], forward[1]))
        return cls(start, quat_from_rpy(0.0, pitch, yaw))

    @property
    def rotation(self) -> Floats:
        """Rotation matrix, child to parent, shape (3, 3)."""
        x, y, z, w = self.quat_xyzw.tolist()
        return np.array(
            [
                [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
                [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
                [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
            ]
        )

    @property
    def matrix(self) -> Floats:
        """Homogeneous matrix, child to parent, shape (4, 4)."""
        m = np.eye(4)
        m[:3, :3] = self.rotation
        m[:3, 3] = self.xyz
        return m

    @property
    def rpy_deg(self) -> Floats:
        """Roll, pitch, yaw [deg] about the fixed axes x, y, z; roll is 0 if the x axis points straight up or down."""
        x, y, z, w = self.quat_xyzw
        # (roll + yaw) / 2 and (roll - yaw) / 2 follow directly from the quaternion, without loss near ±90 deg pitch.
        size_sum, size_difference = np.hypot(x + z, w - y), np.hypot(x - z, w + y)
        half_sum, half_difference = np.arctan2(x + z, w - y), np.arctan2(x - z, w + y)
        if size_sum < 1e-15:
            half_sum = -half_difference
        elif size_difference < 1e-15:
            half_difference = -half_sum
        pitch = np.pi / 2.0 - 2.0 * np.arctan2(size_sum, size_difference)
        roll, yaw = half_sum + half_difference, half_sum - half_difference
        return np.degrees([_wrapped(roll), pitch, _wrapped(yaw)])

    def inverse(self) -> Pose:
        """Return the pose of the parent frame in this frame."""
        q = quat_conjugate(self.quat_xyzw)
        return Pose(-quat_rotate(q, self.xyz), q)

    def __matmul__(self, other: Pose) -> Pose:
        """Return `a @ b`: the pose `b`, given in the frame `a`, expressed in the parent of `a`."""
        return Pose(self.apply(other.xyz), quat_multiply(self.quat_xyzw, other.quat_xyzw))

    def apply(self, points: ArrayLike) -> Floats:
        """Transform points (..., 3) [m] from this frame to the parent frame."""
        return np.asarray(points, dtype=np.float64) @ self.rotation.T + self.xyz

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Pose)
            and np.array_equal(self.xyz, other.xyz)
            and np.array_equal(self.quat_xyzw, other.quat_xyzw)
        )

    def __hash__(self) -> int:
        # Adding 0 turns -0 into 0: they are equal, so they must have the same bytes.
        return hash(((self.xyz + 0.0).tobytes(), (self.quat_xyzw + 0.0).tobytes()))

    def __repr__(self) -> str:
        xyz = ", ".join(f"{v:g}" for v in self.xyz)
        rpy = ", ".join(f"{v:g}" for v in np.round(self.rpy_deg, 9) + 0.0)
        return f"Pose(xyz=({xyz}), rpy_deg=({rpy}))"


def checked_pose(name: str, value: object) -> Pose:
    """Return a pose; raise ConfigError with its name for anything else."""
    if not isinstance(value, Pose):
        raise ConfigError(f"{name}: must be a Pose, for example Pose(xyz=(1, 2, 0)), got {type(value).__name__}")
    return value
