"""Motion as a function of time: the trajectory interface, and motions that need no vehicle model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, quat_multiply, quat_rotate, quat_slerp


@runtime_checkable
class Trajectory(Protocol):
    """Interface of motions: any object with a vectorised `sample(times)`.

    >>> class Circle:
    ...     def sample(self, times):
    ...         xyz = np.stack([np.cos(times), np.sin(times), 0 * times], axis=1)
    ...         return xyz, np.tile([0.0, 0.0, 0.0, 1.0], (len(times), 1))
    >>> isinstance(Circle(), ph.Trajectory)
    True
    """

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Return positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        ...


def pose_at(trajectory: Trajectory, time: float) -> Pose:
    """Pose of a trajectory at `time` [s]."""
    xyz, quat = trajectory.sample(np.array([time], dtype=np.float64))
    return Pose(xyz[0], quat[0])


_STEP_S = 1e-3


def velocity_at(trajectory: Trajectory, time: float) -> Floats:
    """Velocity [m/s] of the frame's origin, by central difference over 1 ms, shape (3,)."""
    xyz, _ = trajectory.sample(np.array([time - _STEP_S / 2, time + _STEP_S / 2]))
    return (xyz[1] - xyz[0]) / _STEP_S


@dataclass(frozen=True)
class Fixed:
    """A body at rest.

    Args:
        pose: Pose in the world, at all times.

    >>> xyz, quat = ph.Fixed(ph.Pose(xyz=(1, 2, 3))).sample([0.0, 10.0])
    >>> xyz.tolist()
    [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]
    """

    pose: Pose

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        n = np.asarray(times).shape[0]
        return np.tile(self.pose.xyz, (n, 1)), np.tile(self.pose.quat_xyzw, (n, 1))


@dataclass(frozen=True)
class ConstantTwist:
    """Constant velocity and constant angular rate, both in the parent frame.

    >>> drive = ph.ConstantTwist(ph.Pose(), velocity=(2.0, 0.0, 0.0))
    >>> drive.sample([0.0, 1.5])[0].tolist()
    [[0.0, 0.0, 0.0], [3.0, 0.0, 0.0]]
    """

    pose: Pose
    """Pose at `start_time`."""
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Velocity of the origin [m/s] in the parent frame."""
    angular_velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Angular rate [rad/s] in the parent frame."""
    start_time: float = 0.0
    """Time of `pose` [s]."""

    def __post_init__(self) -> None:
        if not len(self.velocity) == len(self.angular_velocity) == 3:
            raise ConfigError("trajectory: velocity and angular_velocity must be 3 numbers each")
        if not np.all(np.isfinite([*self.velocity, *self.angular_velocity, self.start_time])):
            raise ConfigError("trajectory: velocity, angular_velocity and start_time must be finite")

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        dt = np.asarray(times, dtype=np.float64) - self.start_time
        xyz = self.pose.xyz + dt[:, None] * np.asarray(self.velocity)
        rate = np.asarray(self.angular_velocity, dtype=np.float64)
        speed = float(np.linalg.norm(rate))
        axis = rate / speed if speed > 0 else rate
        half = 0.5 * speed * dt
        turn = np.concatenate([np.sin(half)[:, None] * axis, np.cos(half)[:, None]], axis=1)
        return xyz, quat_multiply(turn, np.tile(self.pose.quat_xyzw, (len(dt), 1)))


class Waypoints:
    """Linear interpolation (and slerp) between timed poses; at rest before the first and after the last time.

    Args:
        times: Strictly increasing times [s], one per pose.
        poses: Poses in the world.

    >>> path = ph.Waypoints([0.0, 10.0], [ph.Pose(), ph.Pose(xyz=(5, 0, 0))])
    >>> path.sample([4.0, 99.0])[0].tolist()
    [[2.0, 0.0, 0.0], [5.0, 0.0, 0.0]]
    """

    def __init__(self, times: Sequence[float], poses: Sequence[Pose]) -> None:
        try:
            t = np.asarray(times, dtype=np.float64)
        except (TypeError, ValueError):
            raise ConfigError("trajectory: times must be numbers [s], one per pose") from None
        if len(poses) == 0 or t.shape != (len(poses),):
            raise ConfigError(
                f"trajectory: {t.size} times for {len(poses)} poses; give at least one pose and one time each"
            )
        if not np.all(np.isfinite(t)) or np.any(np.diff(t) <= 0):
            raise ConfigError("trajectory: times must be finite and strictly increasing")
        self.times = t
        self.xyz = np.stack([pose.xyz for pose in poses])
        self.quat_xyzw = np.stack([pose.quat_xyzw for pose in poses])

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        t = np.clip(np.asarray(times, dtype=np.float64), self.times[0], self.times[-1])
        if len(self.times) == 1:
            return np.tile(self.xyz[0], (len(t), 1)), np.tile(self.quat_xyzw[0], (len(t), 1))
        after = np.clip(np.searchsorted(self.times, t, side="right"), 1, len(self.times) - 1)
        before = after - 1
        fraction = (t - self.times[before]) / (self.times[after] - self.times[before])
        xyz = self.xyz[before] + fraction[:, None] * (self.xyz[after] - self.xyz[before])
        return xyz, quat_slerp(self.quat_xyzw[before], self.quat_xyzw[after], fraction)


class Mounted:
    """Motion of a sensor mounted on a moving body."""

    def __init__(self, body: Trajectory, mount: Pose) -> None:
        self.body, self.mount = body, mount

    def sample(self, times: Any) -> tuple[Any, Any]:
        """Return positions (n, 3) [m] and quaternions (n, 4) at times (n,) [s]."""
        xyz, quat = self.body.sample(times)
        return xyz + quat_rotate(quat, self.mount.xyz), quat_multiply(quat, self.mount.quat_xyzw[None])
