"""Driving a vehicle: the recorded motion, replayed exactly, and controllers that follow waypoints."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.checks import above, within
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, quat_multiply
from parhelion.motion.curves import aligned, turn_rates
from parhelion.motion.state import BodyState, checked_times
from parhelion.motion.vehicles.base import (
    Command,
    DriveCommand,
    GroundVehicle,
    PositionCommand,
    ThrustCommand,
    Vehicle,
    state_of_rows,
    wrapped,
)
from parhelion.motion.vehicles.ground import Car, DifferentialDrive
from parhelion.motion.vehicles.multirotor import Multirotor
from parhelion.motion.vehicles.vessel import Vessel

Controller = Callable[[Any], Command]
"""Function from a vehicle to its command for the next step. Its method `reset`, if any, is called before a drive."""

MOST_STEPS = 10_000_000


def drive(vehicle: Vehicle, controller: Controller | Command, duration: float, dt: float = 0.02) -> DrivenMotion:
    """Drive a vehicle from its current state for `duration` [s], with a command from the controller every `dt` [s].

    `controller` may also be one command for the whole drive. The last step may end up to `dt` after the duration. The
    same vehicle state and controller give the same bits.
    """
    above("drive: duration", duration, 0.0)
    above("drive: dt", dt, 0.0)
    steps = max(1, math.ceil(duration / dt - 1e-9))
    if steps > MOST_STEPS:
        raise ConfigError(f"drive: duration {duration} s in steps of {dt} s is more than {MOST_STEPS} steps")
    reset = getattr(controller, "reset", None)
    if callable(reset):
        reset()
    rows = [vehicle.row()]
    for _ in range(steps):
        vehicle.step(controller(vehicle) if callable(controller) else controller, dt)
        rows.append(vehicle.row())
    return DrivenMotion(state_of_rows(np.array(rows)))


class DrivenMotion:
    """Motion of a recorded drive. At the recorded times it returns the recorded state, bit for bit.

    Between them, position and quaternion components are polynomials of degree 5 that match value, velocity and
    acceleration at both ends (Hermite). All three are continuous: a jump of the vehicle's acceleration by a command is
    spread over the previous step. Outside of the recording the body rests at its first or last pose.
    """

    def __init__(self, recorded: BodyState) -> None:
        times = recorded.time
        if len(times) < 2 or np.any(np.diff(times) <= 0.0):
            raise ConfigError("driven motion: needs states at two or more increasing times")
        self.recorded = recorded
        """The recorded states."""
        quat = aligned(recorded.quat_xyzw)
        spin, twist = (
            np.concatenate([rate, np.zeros((len(times), 1))], axis=1)
            for rate in (recorded.angular_velocity, recorded.angular_acceleration)
        )
        turning = 0.5 * quat_multiply(quat, spin)
        # q'' = (q' w + q a) / 2, products of quaternions
        bending = 0.5 * (quat_multiply(turning, spin) + quat_multiply(quat, twist))
        self._factors = _hermite(
            np.diff(times)[:, None],
            np.concatenate([recorded.xyz, quat], axis=1),
            np.concatenate([recorded.velocity, turning], axis=1),
            np.concatenate([recorded.acceleration, bending], axis=1),
        )

    @property
    def start_time(self) -> float:
        return float(self.recorded.time[0])

    @property
    def end_time(self) -> float:
        return float(self.recorded.time[-1])

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        # Same bits as `state`, without the derivatives.
        within, row, leg = self._places(checked_times(times))
        c0, c1, c2, c3, c4, c5 = self._factors[:, leg]
        t = (within - self.recorded.time[leg])[:, None]
        value = c0 + t * (c1 + t * (c2 + t * (c3 + t * (c4 + t * c5))))
        xyz, quat = value[:, :3], value[:, 3:]
        quat = quat / np.sqrt(np.sum(quat**2, axis=-1, keepdims=True))
        exact = within == self.recorded.time[row]
        if exact.any():
            xyz, quat = xyz.copy(), quat.copy()
            xyz[exact], quat[exact] = self.recorded.xyz[row[exact]], self.recorded.quat_xyzw[row[exact]]
        return xyz, quat

    def _places(self, times: Floats) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
        """Return the times clipped to the recording, the last record not after each, and the step of each."""
        knots = self.recorded.time
        within = np.clip(times, knots[0], knots[-1])
        row = np.searchsorted(knots, within, side="right") - 1
        return within, row, np.minimum(row, len(knots) - 2)

    def state(self, times: ArrayLike) -> BodyState:
        """Return the state at `times` (n,) [s]."""
        times_s, knots = checked_times(times), self.recorded.time
        within, row, leg = self._places(times_s)
        jet = _polynomial(self._factors[:, leg], (within - knots[leg])[:, None])
        quat, omega, alpha = turn_rates(jet[..., 3:])
        parts = [jet[0, :, :3], quat, jet[1, :, :3], omega, jet[2, :, :3], alpha]
        exact = (within == knots[row])[:, None]
        known = self.recorded
        stored = [known.xyz, known.quat_xyzw, known.velocity, known.angular_velocity]
        stored += [known.acceleration, known.angular_acceleration]
        parts = [np.where(exact, array[row], part) for array, part in zip(stored, parts, strict=True)]
        # The margin allows for rounding: a clock that counts steps and one that adds them up differ in the last digits.
        still = (np.abs(times_s - within) > 1e-9)[:, None]
        parts[2:] = [np.where(still, 0.0, part) for part in parts[2:]]
        return BodyState(times_s, *parts)


def _hermite(step: Floats, value: Floats, first: Floats, second: Floats) -> Floats:
    """Polynomial coefficients (6, n - 1, m) in the time since the start of each interval."""
    gap = value[1:] - value[:-1] - step * (first[:-1] + 0.5 * step * second[:-1])
    slope = step * (first[1:] - first[:-1] - step * second[:-1])
    bend = step**2 * (second[1:] - second[:-1])
    return np.stack(
        [
            value[:-1],
            first[:-1],
            0.5 * second[:-1],
            (10.0 * gap - 4.0 * slope + 0.5 * bend) / step**3,
            (-15.0 * gap + 7.0 * slope - bend) / step**4,
            (6.0 * gap - 3.0 * slope + 0.5 * bend) / step**5,
        ]
    )


def _polynomial(factors: Floats, t: Floats) -> Floats:
    """Values, first and second derivatives (3, n, m) of polynomials with coefficients (6, n, m) at times (n, 1)."""
    c0, c1, c2, c3, c4, c5 = factors
    value = c0 + t * (c1 + t * (c2 + t * (c3 + t * (c4 + t * c5))))
    first = c1 + t * (2.0 * c2 + t * (3.0 * c3 + t * (4.0 * c4 + t * 5.0 * c5)))
    return np.stack([value, first, 2.0 * c2 + t * (6.0 * c3 + t * (12.0 * c4 + t * 20.0 * c5))])


# ---- follow ---------------------------------------------------------------------------------------------------------
# Following waypoints: pure pursuit for ground vehicles, a moving goal for multirotors, line of sight for vessels.
# A follower is a controller for `drive`: called with its vehicle, it returns the next command.


SHARPEST_DRIVEN_TURN_RAD = 1.0
"""Bearing of the goal [rad] above which a robot that can turn on the spot does so."""


class Route:
    """Straight legs between waypoints, parametrised by the distance [m] from the first one."""

    def __init__(self, waypoints: ArrayLike, dimensions: int, *, closed: bool = False) -> None:
        try:
            points = np.asarray(waypoints, dtype=np.float64)
        except (TypeError, ValueError):
            raise ConfigError(f"follow: waypoints must be numbers [m], got {waypoints!r}") from None
        if points.ndim != 2 or len(points) < 2 or points.shape[1] < dimensions:
            raise ConfigError(
                f"follow: waypoints must be two or more points of {dimensions} numbers, got shape {points.shape}"
            )
        if not np.all(np.isfinite(points)):
            raise ConfigError("follow: waypoints must be finite")
        points = points[:, :dimensions]
        if closed:
            points = np.concatenate([points, points[:1]])
        lengths = np.linalg.norm(np.diff(points, axis=0), axis=1)
        if not np.all(lengths > 1e-9):
            raise ConfigError(
                "follow: waypoints must differ from their neighbours; the first leg begins at the start of the vehicle"
            )
        self.closed = closed
        self.length_m = float(np.sum(lengths))
        self._points: list[list[float]] = points.tolist()
        self._lengths: list[float] = lengths.tolist()
        unit = np.diff(points, axis=0) / lengths[:, None]
        ahead = np.sum(unit * np.roll(unit, -1, axis=0), axis=1)
        self._turns: list[float] = np.arccos(np.clip(ahead, -1.0, 1.0)).tolist()
        self._starts: list[float] = np.concatenate([[0.0], np.cumsum(lengths)[:-1]]).tolist()

    def corners(self, distance_m: float, reach_m: float) -> list[tuple[float, float]]:
        """Distance [m] and angle [rad] of the corners within `reach_m` ahead of a distance along the route."""
        found, legs = [], len(self._lengths)
        leg, along = self._leg(distance_m)
        distance = self._lengths[leg] - along
        while distance <= reach_m and (self.closed or leg < legs - 1):
            following = (leg + 1) % legs
            found.append((distance, self._turns[leg]))
            distance, leg = distance + self._lengths[following], following
        return found

    def point(self, distance_m: float) -> list[float]:
        """Point at a distance along the route; an open route is extended straight beyond its ends."""
        leg, along = self._leg(distance_m)
        start, end = self._points[leg], self._points[leg + 1]
        share = along / self._lengths[leg]
        return [a + share * (b - a) for a, b in zip(start, end, strict=True)]

    def nearest(self, place: Sequence[float], after_m: float, window_m: float) -> float:
        """Distance along the route of the point nearest to a place, within `window_m` after `after_m`."""
        best, found, at = math.inf, after_m, after_m
        while True:
            leg, along = self._leg(at)
            last = not self.closed and leg == len(self._lengths) - 1
            start, end, length = self._points[leg], self._points[leg + 1], self._lengths[leg]
            share = sum((p - a) * (b - a) for p, a, b in zip(place, start, end, strict=True)) / length
            share = min(max(share, along), length)
            gap = sum((p - a - share / length * (b - a)) ** 2 for p, a, b in zip(place, start, end, strict=True))
            if gap < best - 1e-12:
                best, found = gap, at + share - along
            at += length - along
            if last or at > after_m + window_m:
                return found

    def _leg(self, distance_m: float) -> tuple[int, float]:
        if self.closed:
            distance_m = distance_m % self.length_m
        leg = 0
        while leg < len(self._lengths) - 1 and distance_m >= self._starts[leg + 1]:
            leg += 1
        return leg, distance_m - self._starts[leg]


class Follower(ABC):
    """Base of route followers: tracks the progress, which never decreases, and ends at the last waypoint if open."""

    def __init__(self, route: Route, speed_m_s: float, near_m: float) -> None:
        self.route = route
        self.speed_m_s = above("follow: speed_m_s", speed_m_s, 0.0)
        self.near_m = above("follow: near_m", near_m, 0.0)
        """Distance [m] from the last waypoint at which it counts as reached."""
        self.reset()

    def reset(self) -> None:
        """Restart the route."""
        self.distance_m = 0.0
        self.finished = False

    @property
    def remaining_m(self) -> float:
        """Remaining distance [m]; infinite on a closed route."""
        return math.inf if self.route.closed else max(self.route.length_m - self.distance_m, 0.0)

    def _progress(self, place: Sequence[float], window_m: float) -> None:
        self.distance_m = self.route.nearest(place, self.distance_m, window_m)
        if self.remaining_m <= self.near_m:
            self.finished = True

    @abstractmethod
    def __call__(self, vehicle: Any) -> Command:
        """Return the command for the current state of the vehicle."""


class PurePursuit(Follower):
    """Pure pursuit: drives on the circle through a goal `lookahead_m` ahead on the route (Coulter 1992).

    Brakes with `braking_m_s2` before the end, and before corners whose circle would exceed the lateral acceleration
    `side_m_s2`. `lag_s` is the time constant of the vehicle's speed.
    """

    def __init__(
        self,
        waypoints: ArrayLike,
        speed_m_s: float,
        *,
        lookahead_m: float,
        turns_on_spot: bool = False,
        closed: bool = False,
        braking_m_s2: float = 0.5,
        side_m_s2: float = 2.0,
        lag_s: float = 0.0,
        near_m: float = 0.05,
    ) -> None:
        super().__init__(Route(waypoints, 2, closed=closed), speed_m_s, near_m)
        self.lookahead_m = above("follow: lookahead_m", lookahead_m, 0.0)
        self.turns_on_spot = turns_on_spot
        self.braking_m_s2 = above("follow: braking_m_s2", braking_m_s2, 0.0)
        self.side_m_s2 = above("follow: side_m_s2", side_m_s2, 0.0)
        self.lag_s = within("follow: lag_s", lag_s, 0.0, 10.0)

    def __call__(self, vehicle: GroundVehicle) -> DriveCommand:
        x, y, _ = vehicle.xyz
        self._progress((x, y), 2.0 * self.lookahead_m)
        if self.finished:
            return DriveCommand(0.0, 0.0)
        goal = self.route.point(self.distance_m + self.lookahead_m)
        distance = math.hypot(goal[0] - x, goal[1] - y)
        aside = wrapped(math.atan2(goal[1] - y, goal[0] - x) - vehicle.yaw_rad)
        if self.turns_on_spot and abs(aside) > SHARPEST_DRIVEN_TURN_RAD:
            return DriveCommand(0.0, aside)
        curvature = 2.0 * math.sin(aside) / max(distance, 1e-6)
        speed = min(self._speed_ahead(), math.sqrt(self.side_m_s2 / max(abs(curvature), 1e-9)))
        return DriveCommand(speed, speed * curvature)

    def _speed_ahead(self) -> float:
        # The target lies slightly beyond the end; otherwise the end would be approached asymptotically.
        left = self.remaining_m + 0.2 * self.near_m
        speed = min(self.speed_m_s, self._slowing(left, 0.0))
        if self.lag_s > 0.0:
            speed = min(speed, 0.25 * left / self.lag_s)  # critically damped
        reach = self.lookahead_m + self.speed_m_s * (self.lag_s + 0.5 * self.speed_m_s / self.braking_m_s2)
        for distance, angle in self.route.corners(self.distance_m, reach):
            # The curvature of the circle is about that of a chord of one lookahead across the corner.
            slow = math.sqrt(self.side_m_s2 * self.lookahead_m / max(2.0 * math.sin(0.5 * angle), 1e-9))
            speed = min(speed, max(slow, self._slowing(distance - self.lookahead_m, slow)))
        return speed

    def _slowing(self, distance_m: float, end_m_s: float) -> float:
        """Highest speed [m/s] from which a vehicle with lag can brake to `end_m_s` within a distance."""
        a, lag = self.braking_m_s2, self.lag_s
        return math.sqrt((a * lag) ** 2 + end_m_s**2 + 2.0 * a * max(distance_m, 0.0)) - a * lag


class FlyAlong(Follower):
    """Guides a multirotor to a goal that moves ahead of it along the route.

    The lead is the speed over the gain of the position loop, so that it flies at that speed; corners are cut by about
    the lead. The multirotor faces the goal.
    """

    def __init__(
        self,
        waypoints: ArrayLike,
        speed_m_s: float,
        *,
        closed: bool = False,
        near_m: float = 0.1,
        face_goal: bool = True,
    ) -> None:
        super().__init__(Route(waypoints, 3, closed=closed), speed_m_s, near_m)
        self.face_goal = face_goal

    def __call__(self, vehicle: Multirotor) -> PositionCommand:
        here = vehicle.xyz
        lead = self.speed_m_s / vehicle.config.control.position_1_s
        self._progress(here, 2.0 * lead)
        at = self.distance_m + lead
        x, y, z = self.route.point(at if self.route.closed else min(at, self.route.length_m))
        yaw = None
        if self.face_goal and math.hypot(x - here[0], y - here[1]) > 0.5:
            yaw = math.atan2(y - here[1], x - here[0])
        return PositionCommand((x, y, z), yaw, self.speed_m_s)


class Helm(Follower):
    """Line-of-sight guidance of a vessel: course over ground to a goal ahead on the route (PD), speed by thrust (PI).

    The course has the bandwidth `heading_rad_s` as long as the thrusters can turn the vessel that fast, and has
    priority over speed. Vessels drift in turns, so they pass corners wide; a longer lookahead rounds them off.
    """

    def __init__(
        self,
        waypoints: ArrayLike,
        speed_m_s: float,
        *,
        lookahead_m: float,
        closed: bool = False,
        heading_rad_s: float = 0.8,
        braking_m_s2: float = 0.15,
        near_m: float = 2.0,
    ) -> None:
        super().__init__(Route(waypoints, 2, closed=closed), speed_m_s, near_m)
        self.lookahead_m = above("follow: lookahead_m", lookahead_m, 0.0)
        self.heading_rad_s = above("follow: heading_rad_s", heading_rad_s, 0.0)
        self.braking_m_s2 = above("follow: braking_m_s2", braking_m_s2, 0.0)

    def reset(self) -> None:
        """Restart the route and clear the integral of the speed loop."""
        super().reset()
        self._time: float | None = None
        self._speed_sum = 0.0

    def __call__(self, vehicle: Vessel) -> ThrustCommand:
        x, y, _ = vehicle.xyz
        self._progress((x, y), 2.0 * self.lookahead_m)
        dt = 0.0 if self._time is None else vehicle.time - self._time
        self._time = vehicle.time
        goal = self.route.point(self.distance_m + self.lookahead_m)
        aside = wrapped(math.atan2(goal[1] - y, goal[0] - x) - vehicle.course_rad)
        slowing = math.sqrt(2.0 * self.braking_m_s2 * self.remaining_m)
        wanted = 0.0 if self.finished else min(self.speed_m_s, slowing)
        gap = wanted - vehicle.speed_m_s
        mass, inertia = vehicle.moving_mass_kg, vehicle.turning_inertia_kg_m2
        if abs(gap) < 0.5:
            self._speed_sum += dt * gap
        rate = self.heading_rad_s
        turn = inertia * rate * (rate * aside - 1.4 * vehicle.yaw_rate_rad_s)
        push = mass * (0.5 * gap + 0.1 * self._speed_sum) + vehicle.resistance_n(wanted)
        return _shared(vehicle, push, 0.0 if self.finished else turn)


def _shared(vehicle: Vessel, push: float, turn: float) -> ThrustCommand:
    """Allocate a force along x [N] and a torque about z [N m]: steering first, differential thrust for the rest."""
    port, starboard = vehicle.config.port, vehicle.config.starboard
    push = min(max(push, -port.max_reverse_n - starboard.max_reverse_n), port.max_forward_n + starboard.max_forward_n)
    arm, most, steering = -0.5 * (port.x_m + starboard.x_m) * push, vehicle.config.max_steering_rad, 0.0
    if abs(arm) > 1e-6:
        steering = min(max(turn / arm, -most), most)
        turn -= arm * math.sin(steering)
    half = turn / (port.y_m - starboard.y_m)
    spare = 0.5 * (port.max_forward_n + starboard.max_reverse_n)
    half = min(max(half, -spare), spare)
    each = min(max(0.5 * push, abs(half) - port.max_reverse_n), port.max_forward_n - abs(half))
    return ThrustCommand(each - half, each + half, steering)


def follow(
    vehicle: Vehicle, waypoints: ArrayLike, speed_m_s: float, *, closed: bool = False, **options: Any
) -> Follower:
    """Return the follower for a vehicle, for waypoints (n, 2) or (n, 3) [m] in the world.

    Options are those of `PurePursuit`, `FlyAlong` and `Helm`. The default lookahead depends on size and speed.
    """
    if isinstance(vehicle, Multirotor):
        return FlyAlong(waypoints, speed_m_s, closed=closed, **options)
    above("follow: speed_m_s", speed_m_s, 0.0)
    if isinstance(vehicle, Vessel):
        options.setdefault("lookahead_m", max(3.0 * vehicle.config.size_m[0], 5.0 * speed_m_s))
        return Helm(waypoints, speed_m_s, closed=closed, **options)
    if isinstance(vehicle, Car):
        options.setdefault("lookahead_m", max(1.5 * vehicle.wheelbase_m, 0.8 * speed_m_s))
        options.setdefault("braking_m_s2", 2.0)
        options.setdefault("lag_s", vehicle.config.speed_lag_s)
        options.setdefault("near_m", 0.3)
        return PurePursuit(waypoints, speed_m_s, closed=closed, **options)
    if isinstance(vehicle, DifferentialDrive):
        options.setdefault("lookahead_m", max(0.5, 0.8 * speed_m_s))
        options.setdefault("braking_m_s2", 0.8 * vehicle.config.max_acceleration_m_s2)
        options.setdefault("side_m_s2", 0.5)
        return PurePursuit(waypoints, speed_m_s, closed=closed, turns_on_spot=True, **options)
    raise ConfigError(f"follow: cannot steer a {type(vehicle).__name__}; use a vehicle of parhelion.motion.vehicles")
