"""Motion along a smooth path through waypoints, at given times or within limits of speed and acceleration."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.constants import STANDARD_GRAVITY_M_S2
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, quat_multiply
from parhelion.motion.curves import (
    Path,
    aligned,
    angle,
    chain,
    jet_of,
    only_value,
    product,
    quat_product,
    quotient,
    root,
    rotation_curve,
    turn_about,
    turn_rates,
)
from parhelion.motion.state import BodyState, checked_rows, checked_times, checked_unit_quats
from parhelion.motion.time_law import Ends, MotionLimits, TimeLaw, law_through, law_within

SAME_PLACE_M = 1e-9
"""Waypoints closer than this [m] count as one."""


class SplineMotion:
    """Motion along a smooth path through waypoints.

        SplineMotion(points, times=[0, 4, 9])                              # at the waypoints at these times
        SplineMotion(points, limits=MotionLimits(10.0, 2.0, 3.0))          # as fast as the limits allow
        SplineMotion(points, limits=limits, closed=True)                   # repeats for ever

    Position, velocity and acceleration are continuous (C2) at all times if the motion starts and stops at rest or
    repeats; so are orientation, angular velocity and angular acceleration. `state` returns the exact derivatives of
    `sample`. Outside of its times, an open motion rests at its first or last pose; its velocity jumps there unless it
    starts and stops at rest.

    >>> motion = SplineMotion([(0, 0, 0), (10, 0, 0), (10, 8, 0)], limits=MotionLimits(2.0, 0.5, 1.0))
    >>> xyz, quat_xyzw = motion.sample([motion.start_time, motion.end_time])
    >>> xyz[1].round(6).tolist()
    [10.0, 8.0, 0.0]
    """

    known_ahead = True
    """True: the motion is fixed, so it may be sampled ahead of time."""

    def __init__(
        self,
        waypoints: ArrayLike,
        *,
        times: ArrayLike | None = None,
        limits: MotionLimits | None = None,
        facing: Literal["forward"] | ArrayLike = "forward",
        follow_slope: bool = False,
        bank: bool = False,
        closed: bool = False,
        start_at_rest: bool | None = None,
        stop_at_rest: bool | None = None,
        start_time: float = 0.0,
    ) -> None:
        """Lay a path through waypoints. Give either `times` or `limits`.

        Args:
            waypoints: Positions (n, 3) [m].
            times: One increasing time [s] per waypoint, and with `closed` one more for the return to the first one.
                Repeated waypoints are a wait.
            limits: Limits of speed and acceleration.
            facing: "forward" (x axis along the path, level), one quaternion `xyzw` (4,) for the whole path, or one
                per waypoint (n, 4).
            follow_slope: True pitches with the slope of the path, when facing forward.
            bank: True leans into bends by atan(v ω / g), as in a coordinated turn, when facing forward.
            closed: True closes the path back to the first waypoint.
            start_at_rest: By default True unless `closed`; a closed motion that does not rest repeats for ever.
            stop_at_rest: The same for the end.
            start_time: Time of the first waypoint [s], with `limits`.
        """
        points = checked_rows("spline", "waypoints", waypoints, 3)
        if (times is None) == (limits is None):
            raise ConfigError("spline: give either times or limits")
        starts, stops = (not closed if given is None else bool(given) for given in (start_at_rest, stop_at_rest))
        if closed and starts != stops:
            raise ConfigError("spline: a closed motion either starts and stops at rest or does neither")
        self._closed = closed
        self._ends = Ends(starts, stops, repeats=closed and not starts)
        self._slope, self._bank = follow_slope, bank

        clock = None if times is None else _clock(times, len(points) + closed)
        if clock is not None and start_time != 0.0:
            raise ConfigError(f"spline: start_time is for limits; omit it with times, got {start_time}")
        if not np.isfinite(start_time):
            raise ConfigError(f"spline: start_time must be finite, got {start_time}")
        path, place = _path(points, closed, may_wait=clock is not None)
        self._path = path
        if clock is None:
            assert limits is not None
            path.require_no_turning_back()
            self.start_time = float(start_time)
            self._law = law_within(path, limits, self._ends)
        else:
            self.start_time = float(clock[0])
            self._law = law_through(clock - clock[0], place, self._ends)
        self.end_time = self.start_time + self._law.duration_s
        """Time [s] of arrival at the last waypoint; with `closed`, of the return to the first one."""
        self.length_m = path.length_m
        """Length [m] of the path."""

        self._turns: Any = None
        self._turn_law: TimeLaw | None = None
        if isinstance(facing, str):
            if facing != "forward":
                raise ConfigError(f"spline: facing must be 'forward' or quaternions, got {facing!r}")
            path.require_no_turning_back()
            path.require_horizontal_direction()
        elif follow_slope or bank:
            raise ConfigError("spline: follow_slope and bank are for facing 'forward', not for given quaternions")
        else:
            self._face(facing, len(points), clock, place)

    def _face(self, facing: ArrayLike, count: int, clock: Floats | None, place: Floats) -> None:
        """Set the curve of given orientations and, with given times, its time law."""
        try:
            rows = np.asarray(facing, dtype=np.float64)
        except (TypeError, ValueError):
            raise ConfigError("spline: facing must be 'forward', one quaternion xyzw, or one per waypoint") from None
        quats = checked_unit_quats("spline", "facing", np.tile(rows, (count, 1)) if rows.ndim == 1 else rows)
        if len(quats) != count:
            raise ConfigError(f"spline: facing must be one quaternion or one per waypoint ({count}), got {len(quats)}")
        if self._closed:
            quats = np.concatenate([quats, quats[:1]])
        quats = aligned(quats)
        turned = 2.0 * np.arcsin(np.minimum(0.5 * np.linalg.norm(np.diff(quats, axis=0), axis=1), 1.0))
        if np.all(turned < 1e-9):
            self._turns = quats[0]
        elif clock is None:
            self._turns = rotation_curve(place, quats, closed=self._closed)
        else:
            # Parametrised by the angle swept, so that a body may also turn on the spot or wait.
            moved = np.concatenate([[True], turned >= 1e-9])
            swept = np.concatenate([[0.0], np.cumsum(np.where(moved[1:], turned, 0.0))])
            knots, distinct = swept[moved], quats[moved]
            distinct[-1] = quats[-1]
            self._turns = rotation_curve(knots, distinct, closed=self._closed)
            self._turn_law = law_through(clock - clock[0], swept, self._ends)

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        if self._bank:
            state = self.state(times)
            return state.xyz.copy(), state.quat_xyzw.copy()
        # Same bits as `state`, without derivatives: crowds are sampled often, and their derivatives are rarely needed.
        since = checked_times(times) - self.start_time
        arc = self._law.jet(since, 0)[0]
        line = self._path.jet(arc, 1)
        if self._turns is None:
            x, y, z = (line[1, :, k] for k in range(3))
            quat = turn_about(2, only_value(np.arctan2(y, x)))[0]
            if self._slope:
                quat = quat_multiply(quat, turn_about(1, only_value(-np.arctan2(z, np.sqrt(x * x + y * y))))[0])
        elif isinstance(self._turns, np.ndarray):
            quat = np.tile(self._turns, (len(since), 1))
        else:
            quat = self._turns(arc if self._turn_law is None else self._turn_law.jet(since, 0)[0])
        return line[0].copy(), quat / np.sqrt(np.sum(quat**2, axis=-1, keepdims=True))

    def state(self, times: ArrayLike) -> BodyState:
        """Pose, velocities and accelerations at `times` (n,) [s]."""
        times_s = checked_times(times)
        since = times_s - self.start_time
        arc = self._law.jet(since, 3)
        line = self._path.jet(arc[0], 4)
        xyz, velocity, acceleration = chain(line[:3], arc)
        if self._turns is None:
            turning = self._forward(chain(line[1:], arc), arc)
        elif self._turn_law is not None:
            swept = self._turn_law.jet(since, 2)
            turning = chain(jet_of(self._turns, swept[0], 2), swept)
        elif isinstance(self._turns, np.ndarray):
            turning = np.stack([np.tile(self._turns, (len(times_s), 1)), *np.zeros((2, len(times_s), 4))])
        else:
            turning = chain(jet_of(self._turns, arc[0], 2), arc)
        quat, omega, alpha = turn_rates(turning)
        return BodyState(times_s, xyz, quat, velocity, omega, acceleration, alpha)

    def _forward(self, tangent: Floats, arc: Floats) -> Floats:
        """Jet of quaternions that point along the path, from the jet of its tangent in time (4, n, 3)."""
        x, y, z = np.moveaxis(tangent, -1, 0)
        level = root(product(x[:3], x[:3]) + product(y[:3], y[:3]))
        turning = turn_about(2, angle(y[:3], x[:3]))
        if self._slope:
            turning = quat_product(turning, turn_about(1, -angle(z[:3], level)))
        if self._bank:
            yaw_rate = quotient(product(x[:3], y[1:]) - product(y[:3], x[1:]), product(level, level))
            pull = product(product(level, arc[1:]), yaw_rate)
            gravity = np.zeros_like(pull)
            gravity[0] = STANDARD_GRAVITY_M_S2
            # Positive roll raises the left side; a left turn leans to the left.
            turning = quat_product(turning, turn_about(0, -angle(pull, gravity)))
        return turning


def _clock(times: ArrayLike, count: int) -> Floats:
    clock = checked_times(times)
    if len(clock) != count:
        raise ConfigError(f"spline: times must be {count} numbers for these waypoints, got {len(clock)}")
    if np.any(np.diff(clock) <= 0.0):
        first = int(np.argmax(np.diff(clock) <= 0.0))
        raise ConfigError(f"spline: times must increase, got {clock[first]} and then {clock[first + 1]}")
    return clock


def _path(points: Floats, closed: bool, *, may_wait: bool) -> tuple[Path, Floats]:
    """Return the path through the points and the arc length [m] of each; with `closed` the total length at the end."""
    if len(points) and closed and np.array_equal(points[0], points[-1]):
        raise ConfigError("spline: a closed motion returns to its first waypoint automatically; omit the repeated one")
    moved = np.concatenate([[True], np.linalg.norm(np.diff(points, axis=0), axis=1) > SAME_PLACE_M])
    if not may_wait and not np.all(moved):
        raise ConfigError(
            f"spline: waypoint {int(np.argmin(moved))} repeats the previous one; a wait is only possible with times"
        )
    fewest = 3 if closed else 2
    if np.count_nonzero(moved) < fewest:
        raise ConfigError(
            f"spline: waypoints must be at least {fewest} different points, got {np.count_nonzero(moved)}"
        )
    path = Path(points[moved], closed=closed)
    place = path.waypoint_arc[np.cumsum(moved) - 1]
    return path, np.concatenate([place, [path.length_m]]) if closed else place
