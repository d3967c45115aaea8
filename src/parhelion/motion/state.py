"""State of a moving body: pose, velocities and accelerations, also at a frame mounted on it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, cross, quat_conjugate, quat_multiply, quat_rotate
from parhelion.core.trajectory import Trajectory

# ---- Velocities and accelerations by numeric differentiation of poses -----------------------------------------------


# A power of two, so that t ± STEP_S is not rounded (except in the last digit of small times).
STEP_S = 2.0**-9

_OFFSETS = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])


def rotation_vector(quat_xyzw: Floats) -> Floats:
    """Rotation vectors [rad] (..., 3), of length 0 to π, of unit quaternions `xyzw` (..., 4)."""
    # q and -q are the same rotation; the one with w >= 0 has the smaller angle.
    quat = np.where(quat_xyzw[..., 3:] < 0.0, -quat_xyzw, quat_xyzw)
    sine = np.linalg.norm(quat[..., :3], axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, quat[..., 3:])
    # angle / sin(angle / 2) tends to 2 as both vanish.
    return quat[..., :3] * np.where(sine > 0.0, angle / np.where(sine > 0.0, sine, 1.0), 2.0)


def pose_derivatives(
    trajectory: Trajectory, times: Floats, step_s: float = STEP_S
) -> tuple[Floats, Floats, Floats, Floats, Floats, Floats]:
    """Position [m], quaternion, velocity [m/s], angular velocity [rad/s], acceleration [m/s²], angular one [rad/s²].

    Central differences over five poses, `step_s` apart, of position and of the rotation vector φ relative to the middle
    pose. Positions, velocities and accelerations are in the world frame, angular rates in the body frame. With
    ω = J(φ) φ' and J = 1 - [φ]/2 + ..., ω = φ' and α = φ'' hold exactly at φ = 0.

    Error: truncation h⁴/30 |x⁽⁵⁾| in velocity and h⁴/90 |x⁽⁶⁾| in acceleration, plus rounding of about 1.5 ε |x|/h and
    5.3 ε |x|/h² (ε = 1.1e-16, h = 2⁻⁹ s): at 100 m from the origin and 1 m of swing at 1 Hz, 5e-9 m/s and 3e-8 m/s².
    The acceleration of a motion with kinks, such as straight lines between waypoints, is undefined at a kink; within
    2 h of it the result is a finite peak without meaning.
    """
    xyz, quat = trajectory.sample((times[:, None] + step_s * _OFFSETS).ravel())
    xyz, quat = xyz.reshape(-1, 5, 3), quat.reshape(-1, 5, 4)
    middle = quat[:, 2]
    rotation = rotation_vector(quat_multiply(quat_conjugate(middle)[:, None], quat))
    # Relative to the middle, so that the sums below do not lose digits of large coordinates.
    velocity, acceleration = _differences(xyz - xyz[:, 2:3], step_s)
    omega, alpha = _differences(rotation, step_s)
    return xyz[:, 2], middle, velocity, omega, acceleration, alpha


def _differences(values: Floats, step: float) -> tuple[Floats, Floats]:
    """First and second derivative in the middle of five values (n, 5, 3), the middle one 0."""
    far_before, before, _, after, far_after = np.moveaxis(values, 1, 0)
    first = (8.0 * (after - before) - (far_after - far_before)) / (12.0 * step)
    second = (16.0 * (after + before) - (far_after + far_before)) / (12.0 * step**2)
    return first, second


# ---- state ----------------------------------------------------------------------------------------------------------


_COLUMNS = {"time": 0, "quat_xyzw": 4}
"""Number of columns of the fields that are not vectors."""


@dataclass(frozen=True, eq=False)
class BodyState:
    """State of one body at n times. Arrays are float64, finite and read-only."""

    time: Floats
    """Times [s], shape (n,)."""
    xyz: Floats
    """Position [m] of the body frame's origin in the world, shape (n, 3)."""
    quat_xyzw: Floats
    """Orientation, unit quaternions body to world, shape (n, 4)."""
    velocity: Floats
    """Velocity [m/s] of the origin in the world, shape (n, 3)."""
    angular_velocity: Floats
    """Angular velocity [rad/s] in the body frame, shape (n, 3)."""
    acceleration: Floats
    """Acceleration [m/s²] of the origin in the world, shape (n, 3), without gravity: 0 at rest."""
    angular_acceleration: Floats
    """Angular acceleration [rad/s²] in the body frame, shape (n, 3)."""

    def __post_init__(self) -> None:
        count = np.size(self.time)
        for name in (field.name for field in fields(self)):
            columns = _COLUMNS.get(name, 3)
            # A view, so that the caller's array stays writable.
            array = np.asarray(getattr(self, name), dtype=np.float64).view()
            expected = (count, columns) if columns else (count,)
            if array.shape != expected:
                raise ConfigError(f"body state: {name} must have shape {expected}, got {array.shape}")
            if not np.isfinite(array).all():
                raise ConfigError(f"body state: {name} must be finite, got {array[~np.isfinite(array)][0]}")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        square = np.einsum("ij,ij->i", self.quat_xyzw, self.quat_xyzw)
        off = np.abs(square - 1.0)
        if (off > 2e-6).any():
            worst = np.sqrt(square[np.argmax(off)])
            raise ConfigError(f"body state: quat_xyzw must be unit quaternions, got one of length {worst:g}")

    def __len__(self) -> int:
        return len(self.time)


@runtime_checkable
class Motion(Protocol):
    """A trajectory that also provides velocities and accelerations."""

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        ...

    def state(self, times: ArrayLike) -> BodyState:
        """Return the state at `times` (n,) [s]."""
        ...


def checked_times(times: ArrayLike) -> Floats:
    """Times [s] as a float64 array of shape (n,), all finite."""
    try:
        array = np.asarray(times, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"motion: times must be numbers [s], got {times!r}") from None
    if array.ndim != 1:
        raise ConfigError(f"motion: times must be a list of numbers [s], got shape {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ConfigError(f"motion: times must be finite, got {array[~np.isfinite(array)][0]}")
    return array


def checked_rows(what: str, name: str, values: ArrayLike, columns: int) -> Floats:
    """Finite float64 array of shape (n, `columns`), n at least 1; `what` and `name` are for the error message."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"{what}: {name} must be rows of {columns} numbers") from None
    if array.ndim != 2 or array.shape[1] != columns or len(array) == 0:
        raise ConfigError(f"{what}: {name} must be rows of {columns} numbers, got shape {array.shape}")
    if not np.all(np.isfinite(array)):
        row = int(np.argmin(np.all(np.isfinite(array), axis=1)))
        raise ConfigError(f"{what}: {name} must be finite, got {array[row].tolist()} in row {row}")
    return array


def checked_unit_quats(what: str, name: str, values: ArrayLike) -> Floats:
    """Normalised quaternions `xyzw` (n, 4); lengths within 1e-12 of 1 keep their bits, errors above 1e-2 raise."""
    quats = checked_rows(what, name, values, 4)
    norm = np.linalg.norm(quats, axis=1)
    off = np.abs(norm - 1.0)
    if np.any(off > 1e-2):
        row = int(np.argmax(off > 1e-2))
        raise ConfigError(f"{what}: {name} must be unit quaternions xyzw, got one of length {norm[row]:g} in row {row}")
    return np.where((off > 1e-12)[:, None], quats / norm[:, None], quats)


def at_mount(state: BodyState, mount: Pose) -> BodyState:
    """State of a frame fixed to the body at `mount` (its pose in the body frame).

    Rigid body with lever arm r: velocity v + ω × r, acceleration a + α × r + ω × (ω × r). Exact.
    """
    lever, omega = mount.xyz, state.angular_velocity
    speed = cross(omega, lever)
    pull = cross(state.angular_acceleration, lever) + cross(omega, speed)
    to_mount = quat_conjugate(mount.quat_xyzw)
    return BodyState(
        time=state.time,
        xyz=state.xyz + quat_rotate(state.quat_xyzw, lever),
        quat_xyzw=quat_multiply(state.quat_xyzw, mount.quat_xyzw),
        velocity=state.velocity + quat_rotate(state.quat_xyzw, speed),
        angular_velocity=quat_rotate(to_mount, omega),
        acceleration=state.acceleration + quat_rotate(state.quat_xyzw, pull),
        angular_acceleration=quat_rotate(to_mount, state.angular_acceleration),
    )


def state_of(trajectory: Trajectory, times: ArrayLike) -> BodyState:
    """State of any trajectory: exact for a `Motion`, otherwise by numeric differentiation (`pose_derivatives`)."""
    if isinstance(trajectory, Motion):
        return trajectory.state(times)
    checked = checked_times(times)
    return BodyState(checked, *pose_derivatives(trajectory, checked))
