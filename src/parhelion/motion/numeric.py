"""Velocities and accelerations of a trajectory that only knows its poses."""

from __future__ import annotations

import numpy as np

from parhelion.core.pose import Floats, quat_conjugate, quat_multiply
from parhelion.core.trajectory import Trajectory

# A power of two, so that t ± STEP_S does not round, whatever the time (but for the last digit of small ones).
STEP_S = 2.0**-9

_OFFSETS = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])


def rotation_vector(quat_xyzw: Floats) -> Floats:
    """Rotation vectors [rad] (..., 3), of length 0 to π, of unit quaternions `xyzw` (..., 4)."""
    # q and -q are the same turn; the one with w >= 0 is the short way.
    quat = np.where(quat_xyzw[..., 3:] < 0.0, -quat_xyzw, quat_xyzw)
    sine = np.linalg.norm(quat[..., :3], axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, quat[..., 3:])
    # angle / sin(angle / 2) goes to 2 as both vanish.
    return quat[..., :3] * np.where(sine > 0.0, angle / np.where(sine > 0.0, sine, 1.0), 2.0)


def pose_derivatives(
    trajectory: Trajectory, times: Floats, step_s: float = STEP_S
) -> tuple[Floats, Floats, Floats, Floats, Floats, Floats]:
    """Position [m], quaternion, velocity [m/s], turn rate [rad/s], acceleration [m/s²], turn acceleration [rad/s²].

    Central differences over five poses, `step_s` apart, of position and of the rotation vector relative to the middle
    pose; positions, velocities and accelerations are in the world frame, turn rates in the body frame. With φ that
    vector, ω = J(φ) φ' where J = 1 - [φ]/2 + ..., so ω = φ' and α = φ'' hold exactly at φ = 0.

    Error: truncation h⁴/30 |x⁽⁵⁾| in velocity and h⁴/90 |x⁽⁶⁾| in acceleration, plus rounding of about 1.5 ε |x|/h and
    5.3 ε |x|/h² (ε = 1.1e-16, h = 2⁻⁹ s): at 100 m from the origin and 1 m of swing at 1 Hz, 5e-9 m/s and 3e-8 m/s².
    A motion with kinks, such as straight lines between waypoints, has no acceleration there; within 2 h of a kink the
    result is a finite peak that means nothing.
    """
    asked = (times[:, None] + step_s * _OFFSETS).ravel()
    xyz, quat = trajectory.sample(asked)
    xyz, quat = xyz.reshape(-1, 5, 3), quat.reshape(-1, 5, 4)
    middle = quat[:, 2]
    turn = rotation_vector(quat_multiply(quat_conjugate(middle)[:, None], quat))
    # Relative to the middle, so that large coordinates do not round in the sums below.
    velocity, acceleration = _differences(xyz - xyz[:, 2:3], step_s)
    omega, alpha = _differences(turn, step_s)
    return xyz[:, 2], middle, velocity, omega, acceleration, alpha


def _differences(values: Floats, step: float) -> tuple[Floats, Floats]:
    """First and second derivative in the middle of five values (n, 5, 3), the middle one 0."""
    far_before, before, _, after, far_after = np.moveaxis(values, 1, 0)
    first = (8.0 * (after - before) - (far_after - far_before)) / (12.0 * step)
    second = (16.0 * (after + before) - (far_after + far_before)) / (12.0 * step**2)
    return first, second
