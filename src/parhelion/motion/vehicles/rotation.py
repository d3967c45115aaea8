"""Quaternions `xyzw` and vectors as tuples of floats: for one body at a time these are faster than arrays."""

from __future__ import annotations

import math

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
Matrix = tuple[float, float, float, float, float, float, float, float, float]


def matrix(q: Quaternion) -> Matrix:
    """Rotation matrix, body to world, row by row, of a unit quaternion."""
    x, y, z, w = q
    xx, yy, zz, xy, xz, yz, wx, wy, wz = x * x, y * y, z * z, x * y, x * z, y * z, w * x, w * y, w * z
    return (
        1.0 - 2.0 * (yy + zz), 2.0 * (xy - wz), 2.0 * (xz + wy),
        2.0 * (xy + wz), 1.0 - 2.0 * (xx + zz), 2.0 * (yz - wx),
        2.0 * (xz - wy), 2.0 * (yz + wx), 1.0 - 2.0 * (xx + yy),
    )  # fmt: skip


def to_world(r: Matrix, v: Vector) -> Vector:
    """A body vector in the world."""
    a, b, c = v
    return (r[0] * a + r[1] * b + r[2] * c, r[3] * a + r[4] * b + r[5] * c, r[6] * a + r[7] * b + r[8] * c)


def to_body(r: Matrix, v: Vector) -> Vector:
    """A world vector in the body frame."""
    a, b, c = v
    return (r[0] * a + r[3] * b + r[6] * c, r[1] * a + r[4] * b + r[7] * c, r[2] * a + r[5] * b + r[8] * c)


def cross(a: Vector, b: Vector) -> Vector:
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def multiply(a: Quaternion, b: Quaternion) -> Quaternion:
    """Hamilton product: rotation `b` first, then `a`."""
    ax, ay, az, aw = a
    bx, by, bz, bw = b
    return (
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    )


def spin(q: Quaternion, w: Vector) -> Quaternion:
    """Time derivative of a quaternion whose body turns at `w` [rad/s] in its own frame."""
    x, y, z, s = q
    p, r, t = 0.5 * w[0], 0.5 * w[1], 0.5 * w[2]
    return (s * p + y * t - z * r, s * r - x * t + z * p, s * t + x * r - y * p, -x * p - y * r - z * t)


def normalised(q: Quaternion) -> Quaternion:
    x, y, z, w = q
    scale = 1.0 / math.sqrt(x * x + y * y + z * z + w * w)
    return (x * scale, y * scale, z * scale, w * scale)


def heading(q: Quaternion) -> float:
    """Angle [rad] of the body's x axis in the world's xy plane."""
    x, y, z, w = q
    return math.atan2(2.0 * (x * y + w * z), 1.0 - 2.0 * (y * y + z * z))


def wrapped(angle: float) -> float:
    """The same angle [rad] from -pi to pi."""
    return math.remainder(angle, 2.0 * math.pi)
