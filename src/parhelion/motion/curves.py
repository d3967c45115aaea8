"""Smooth curves with exact derivatives: splines, the chain rule, and angular velocities from quaternions.

A jet is a value with its derivatives, stacked along the first axis: `jet[0]` the value, `jet[1]` the first derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, quat_conjugate, quat_multiply

REST = (1, 2)
NATURAL = (3, 4)
"""Orders of the derivatives that vanish at an end: at rest, or natural."""


def cubic(knots: Floats, values: Floats, *, closed: bool = False) -> Any:
    """Interpolating cubic spline: C2, with natural ends, or periodic if `closed` (the last value repeats the first)."""
    from scipy.interpolate import make_interp_spline

    if closed:
        return make_interp_spline(knots, values, k=3, bc_type="periodic")
    end = [(2, np.zeros(values.shape[1:]))]
    return make_interp_spline(knots, values, k=3, bc_type=(end, end))


def quintic(
    knots: Floats,
    values: Floats,
    *,
    start: tuple[int, int] = NATURAL,
    end: tuple[int, int] = NATURAL,
    closed: bool = False,
) -> Any:
    """Interpolating quintic spline: C4; derivatives of the orders `start` and `end` vanish there, or periodic."""
    from scipy.interpolate import make_interp_spline

    if closed:
        return make_interp_spline(knots, values, k=5, bc_type="periodic")
    zero = np.zeros(values.shape[1:])
    left, right = ([(order, zero) for order in orders] for orders in (start, end))
    return make_interp_spline(knots, values, k=5, bc_type=(left, right))


def jet_of(curve: Any, at: Floats, order: int) -> Floats:
    """Value and derivatives up to `order` of a spline, along a new first axis."""
    return np.stack([curve(at, nu=nu) for nu in range(order + 1)])


def chain(outer: Sequence[Floats] | Floats, inner: Floats) -> Floats:
    """Jet of f(u(t)) up to third order, from the jet of f in u (k, n, ...) and the jet of u in t (k, n)."""
    u = [part.reshape(part.shape + (1,) * (outer[0].ndim - 1)) for part in inner[1:]]
    terms = [outer[0], outer[1] * u[0]]
    if len(outer) > 2:
        terms.append(outer[2] * u[0] ** 2 + outer[1] * u[1])
    if len(outer) > 3:
        terms.append(outer[3] * u[0] ** 3 + 3.0 * outer[2] * u[0] * u[1] + outer[1] * u[2])
    return np.stack(terms)


# ---- arithmetic of jets up to the second order ---------------------------------------------------------------------


def product(a: Floats, b: Floats) -> Floats:
    """Jet of a b."""
    return np.stack([a[0] * b[0], a[1] * b[0] + a[0] * b[1], a[2] * b[0] + 2.0 * a[1] * b[1] + a[0] * b[2]])


def quotient(a: Floats, b: Floats) -> Floats:
    """Jet of a / b."""
    value = a[0] / b[0]
    first = (a[1] - value * b[1]) / b[0]
    return np.stack([value, first, (a[2] - 2.0 * first * b[1] - value * b[2]) / b[0]])


def root(a: Floats) -> Floats:
    """Jet of √a."""
    value = np.sqrt(a[0])
    first = a[1] / (2.0 * value)
    return np.stack([value, first, (0.5 * a[2] - first**2) / value])


def angle(y: Floats, x: Floats) -> Floats:
    """Jet of the angle [rad] of the vector (x, y)."""
    square = x[0] ** 2 + y[0] ** 2
    first = (x[0] * y[1] - y[0] * x[1]) / square
    second = (x[0] * y[2] - y[0] * x[2] - 2.0 * first * (x[0] * x[1] + y[0] * y[1])) / square
    return np.stack([np.arctan2(y[0], x[0]), first, second])


# ---- rotations -----------------------------------------------------------------------------------------------------


def only_value(value: Floats) -> Floats:
    """Jet (3, n) with zero derivatives."""
    return np.stack([value, *np.zeros((2, *value.shape))])


def turn_about(axis: int, turned: Floats) -> Floats:
    """Jet (3, n, 4) of the unit quaternion of a rotation about axis 0, 1 or 2 by an angle [rad], a jet (3, n)."""
    half = 0.5 * turned
    cos, sin = np.cos(half[0]), np.sin(half[0])
    jet = np.zeros((3, *half[0].shape, 4))
    jet[..., 3] = cos, -sin * half[1], -sin * half[2] - cos * half[1] ** 2
    jet[..., axis] = sin, cos * half[1], cos * half[2] - sin * half[1] ** 2
    return jet


def quat_product(a: Floats, b: Floats) -> Floats:
    """Jet of the product of two jets of quaternions (3, n, 4)."""
    second = quat_multiply(a[2], b[0]) + 2.0 * quat_multiply(a[1], b[1]) + quat_multiply(a[0], b[2])
    return np.stack([quat_multiply(a[0], b[0]), quat_multiply(a[1], b[0]) + quat_multiply(a[0], b[1]), second])


def turn_rates(jet: Floats) -> tuple[Floats, Floats, Floats]:
    """Unit quaternions (n, 4), angular velocity [rad/s] and acceleration [rad/s²] (n, 3) in the body frame.

    The quaternions p of the jet (3, n, 4) need not have unit length. With q = p/|p|: ω = 2 Im(p* p')/|p|² and
    α = 2 Im(p* p'')/|p|² - 2 ω (p·p')/|p|², since the real part of q* q' is 0 and p'* p' is real.
    """
    square = np.sum(jet[0] ** 2, axis=-1, keepdims=True)
    back = quat_conjugate(jet[0])
    omega = 2.0 * quat_multiply(back, jet[1])[..., :3] / square
    growth = 2.0 * np.sum(jet[0] * jet[1], axis=-1, keepdims=True) / square
    alpha = 2.0 * quat_multiply(back, jet[2])[..., :3] / square - growth * omega
    return jet[0] / np.sqrt(square), omega, alpha


def aligned(quat_xyzw: Floats) -> Floats:
    """The same rotations with signs such that neighbours lie in one hemisphere: a path without jumps."""
    flips = np.where(np.sum(quat_xyzw[1:] * quat_xyzw[:-1], axis=1) < 0.0, -1.0, 1.0)
    return quat_xyzw * np.cumprod(np.concatenate([[1.0], flips]))[:, None]


def refuse_wild_turns(what: str, halfway: Floats) -> None:
    """Refuse a curve of quaternion components (n, 4), halfway between knots, whose length is far from 1."""
    length = np.linalg.norm(halfway, axis=1)
    wild = (length < 0.5) | (length > 2.0)
    if np.any(wild):
        first = int(np.argmax(wild))
        raise ConfigError(
            f"{what}: the orientations around rows {first} and {first + 1} differ too much, or their spacing is too "
            f"irregular, for a smooth curve; add orientations between them"
        )


def rotation_curve(knots: Floats, quat_xyzw: Floats, *, closed: bool = False) -> Any:
    """Spline (C2) of quaternion components through orientations, for `turn_rates`; natural ends, or periodic.

    The curve does not depend on the choice of frames, because products with unit quaternions are linear and preserve
    lengths. With `closed`, the last orientation repeats the first one, possibly with the opposite sign; the curve then
    covers two laps.
    """
    quats = aligned(quat_xyzw)
    if closed and np.sum(quats[0] * quats[-1]) < 0.0:
        # Components are periodic only after two laps, the second with all signs flipped.
        knots = np.concatenate([knots, knots[-1] + knots[1:] - knots[0]])
        quats = np.concatenate([quats, -quats[1:]])
    if closed:
        quats[-1] = quats[0]
    curve = cubic(knots, quats, closed=closed)
    refuse_wild_turns("spline", curve(0.5 * (knots[:-1] + knots[1:])))
    return curve


# ---- A smooth line through points in space, by arc length -----------------------------------------------------------


_NODES = 16  # nodes of the quintic between two waypoints
_GAUSS_NODES, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(5)


class Path:
    """Curve P(s) through waypoints, four times continuously differentiable.

    |P'| = 1 within 0.1 %, or 1 % in hairpins. The first step is a cubic spline over the centripetal parameter, whose
    steps are the square roots of the distances: it stays close to the straight lines between waypoints even if their
    distances differ much (Lee, 1989). The second step is a quintic over arc length, through 16 points per leg of that
    cubic: it differs little from the cubic, passes through the waypoints and has a smooth curvature. Open ends are
    straight (zero curvature).
    """

    def __init__(self, waypoints: Floats, *, closed: bool = False) -> None:
        points = np.concatenate([waypoints, waypoints[:1]]) if closed else waypoints
        steps = np.sqrt(np.linalg.norm(np.diff(points, axis=0), axis=1))
        knots = np.concatenate([[0.0], np.cumsum(steps)])
        line = cubic(knots, points, closed=closed)

        edges = (knots[:-1, None] + steps[:, None] * np.arange(_NODES) / _NODES).ravel()
        edges = np.concatenate([edges, knots[-1:]])
        half = 0.5 * np.diff(edges)
        inside = edges[:-1, None] + half[:, None] * (1.0 + _GAUSS_NODES)
        speed = np.linalg.norm(line(inside, nu=1), axis=-1)
        arc = np.concatenate([[0.0], np.cumsum(half * (speed @ _GAUSS_WEIGHTS))])

        nodes = line(edges)
        nodes[::_NODES] = points
        self.closed = closed
        self.length_m = float(arc[-1])
        self.waypoint_arc = arc[::_NODES]
        """Arc length [m] of the waypoints from the first one; with `closed`, the total length at the end."""
        quarters = [0.75 * arc[:-1] + 0.25 * arc[1:], 0.25 * arc[:-1] + 0.75 * arc[1:]]
        self.grid = np.sort(np.concatenate([arc, *quarters]))
        """Arc lengths [m] that resolve every bend."""
        self._curve = quintic(arc, nodes, closed=closed)

    def jet(self, arc: Floats, order: int) -> Floats:
        """P(s) and its derivatives up to `order`, shape (order + 1, n, 3), at arc lengths [m]."""
        return jet_of(self._curve, arc, order)

    def curvature(self, arc: Floats) -> Floats:
        """Curvature [1/m] at arc lengths [m]."""
        _, first, second = self.jet(arc, 2)
        return np.linalg.norm(np.cross(first, second), axis=1) / np.linalg.norm(first, axis=1) ** 3

    def require_no_turning_back(self) -> None:
        """Refuse a curve with a cusp, where its direction is undefined."""
        tangent = self.jet(self.grid, 1)[1]
        back = np.sum(tangent[1:] * tangent[:-1], axis=1) <= 0.0
        if np.any(back):
            raise ConfigError(
                f"spline: the waypoints turn back on the spot near waypoint {self._nearest(back)}; split the motion "
                f"there, or move a waypoint sideways so that there is space to turn"
            )

    def require_horizontal_direction(self) -> None:
        """Refuse a curve that is vertical somewhere, where its heading is undefined."""
        tangent = self.jet(self.grid, 1)[1]
        level = tangent[:, :2]
        steep = np.linalg.norm(level, axis=1) < 1e-3 * np.linalg.norm(tangent, axis=1)
        steep[1:] |= np.sum(level[1:] * level[:-1], axis=1) <= 0.0
        if np.any(steep):
            raise ConfigError(
                f"spline: the path is vertical near waypoint {self._nearest(steep)}, where facing='forward' has no "
                f"heading; give quaternions as facing"
            )

    def _nearest(self, where: Floats) -> int:
        at = self.grid[int(np.argmax(where))]
        number = int(np.argmin(np.abs(self.waypoint_arc - at)))
        return number % (len(self.waypoint_arc) - 1) if self.closed else number
