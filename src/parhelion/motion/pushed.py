"""Motion of a body whose poses arrive one after the other, from another simulator or a live topic."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, quat_conjugate, quat_multiply, quat_rotate
from parhelion.motion.state import BodyState, checked_times, rotation_vector

COLUMNS = 13
"""Columns of a pushed row: position, quaternion `xyzw`, velocity in the world, angular velocity in the body frame."""
_BEHIND = 3
"""Poses that remain before the oldest time of interest: a derived velocity depends on the two poses before its own."""


class PushedMotion:
    """Poses of one body in the order of time, with a curve between them; old poses can be forgotten.

    Between two poses, position and quaternion are cubic polynomials that match pose and velocity at both ends. Exact
    for constant acceleration. `state` returns the velocity as a line between its two ends and the acceleration as the
    mean of the step: integrators such as semi-implicit Euler give positions and velocities that fit each other to first
    order only, and the second derivative of the cubic would amplify that by 1/step.

    A velocity that is not pushed follows from the pose and the two before it (second order), so a curve depends on
    poses up to its end only: a measurement has the same bits whenever it is made. Before the first pose the body is at
    rest there; after the last one it moves on with its velocity for one step at most.

    >>> motion = PushedMotion(Pose())
    >>> for k in range(3):
    ...     motion.push(0.1 * k, Pose(xyz=(0.2 * k, 0, 0)))
    >>> motion.sample([0.15])[0].round(6).tolist()
    [[0.3, 0.0, 0.0]]
    """

    def __init__(self, start: Pose) -> None:
        self._start = start
        self._times = np.zeros(64)
        self._rows = np.zeros((64, COLUMNS))
        self._still = np.zeros(64, dtype=bool)
        """True if the body rests from the previous pose to this one."""
        self._count = self._filled = 0

    @property
    def newest(self) -> float:
        """Time [s] of the newest pose; -inf without one."""
        return float(self._times[self._count - 1]) if self._count else -math.inf

    def push(
        self, time: float, pose: Pose, velocity: ArrayLike | None = None, angular_velocity: ArrayLike | None = None
    ) -> None:
        """Append the pose at a time [s] later than the newest.

        Velocity [m/s] is in the world, angular velocity [rad/s] in the body frame; both are derived by default.
        """
        unknown = np.full(3, np.nan)
        speed = unknown if velocity is None else np.asarray(velocity, np.float64)
        spin = unknown if angular_velocity is None else np.asarray(angular_velocity, np.float64)
        self.push_row(time, np.concatenate([pose.xyz, pose.quat_xyzw, speed, spin]))

    def push_row(self, time: float, row: Floats) -> None:
        """Append checked numbers (13,): xyz, quaternion, velocity, angular velocity; NaN where a rate is unknown."""
        if not time > self.newest:
            raise ConfigError(f"poses must be in the order of time: got {time:g} s after {self.newest:g} s")
        self._append(time, row, False)

    def rest(self, until: float) -> None:
        """Hold the newest pose, or the start, until a time [s] at which a measurement needs it."""
        if self._count == 0:
            self._append(until, np.concatenate([self._start.xyz, self._start.quat_xyzw, np.zeros(6)]), True)
        elif until > self.newest:
            row = self._rows[self._count - 1].copy()
            row[7:] = 0.0
            self._append(until, row, True)

    def forget(self, before: float) -> None:
        """Drop poses that no measurement from `before` [s] on needs."""
        drop = int(np.searchsorted(self._times[: self._count], before)) - _BEHIND
        # Rarely, so that moving the others costs little.
        if drop > 32 and drop > self._count // 2:
            self._fill()
            for table in (self._times, self._rows, self._still):
                table[: self._count - drop] = table[drop : self._count].copy()
            self._count -= drop
            self._filled -= drop

    def _append(self, time: float, row: Floats, still: bool) -> None:
        if self._count == len(self._times):
            self._times, self._rows, self._still = (
                np.concatenate([table, np.zeros_like(table)]) for table in (self._times, self._rows, self._still)
            )
        k = self._count
        self._times[k], self._rows[k], self._still[k] = time, row, still
        self._count = k + 1

    # ---- rates that were not pushed ------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Derive the unknown velocities of new poses; those of older ones do not change."""
        n = self._count
        if self._filled >= n or n < 2:
            return
        low = max(self._filled - 2, 0)
        step = np.diff(self._times[low:n])[:, None]
        xyz, quat = self._rows[low:n, :3], self._rows[low:n, 3:7]
        for columns, mean in (
            (slice(7, 10), np.diff(xyz, axis=0) / step),
            (slice(10, 13), rotation_vector(quat_multiply(quat_conjugate(quat[:-1]), quat[1:])) / step),
        ):
            # The mean rate of a step is the rate in its middle; a line through the last two gives the rate at the end.
            at_end = mean.copy()
            at_end[1:] += step[1:] * (mean[1:] - mean[:-1]) / (step[1:] + step[:-1])
            derived = np.concatenate([mean[:1], at_end])
            rates = self._rows[self._filled : n, columns]
            rates[...] = np.where(np.isnan(rates), derived[self._filled - low :], rates)
        self._filled = n

    # ---- queries -------------------------------------------------------------------------------------------------

    def _legs(self, times: Floats) -> tuple[NDArray[np.intp], Floats, Floats, NDArray[np.bool_]]:
        """Row at the start of the step of each time, times within reach, lengths of the steps, and rest."""
        knots = self._times[: self._count]
        inside = np.clip(times, knots[0], 2.0 * knots[-1] - knots[-2])
        # A time on a pose belongs to the step before it, which is known when that time is measured.
        leg = np.clip(np.searchsorted(knots, inside, side="left") - 1, 0, self._count - 2)
        return leg, inside, knots[leg + 1] - knots[leg], self._still[leg + 1]

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        asked = checked_times(times)
        if self._count < 2:
            pose = self._rows[0, :7] if self._count else np.concatenate([self._start.xyz, self._start.quat_xyzw])
            return np.tile(pose[:3], (len(asked), 1)), np.tile(pose[3:], (len(asked), 1))
        self._fill()
        leg, inside, step, still = self._legs(asked)
        before, after = self._rows[leg], self._rows[leg + 1]
        sign = np.where(np.sum(before[:, 3:7] * after[:, 3:7], axis=1) < 0.0, -1.0, 1.0)[:, None]
        start, end = before[:, :7], after[:, :7] * np.concatenate([np.ones((len(sign), 3)), np.tile(sign, 4)], axis=1)
        leaving = np.concatenate([before[:, 7:10], _turning(start[:, 3:], before[:, 10:])], axis=1)
        arriving = np.concatenate([after[:, 7:10], _turning(end[:, 3:], after[:, 10:])], axis=1)
        h, t = step[:, None], (inside - self._times[leg])[:, None]
        mean = (end - start) / h
        bend, twist = (3.0 * mean - 2.0 * leaving - arriving) / h, (leaving + arriving - 2.0 * mean) / h**2
        found = np.where(still[:, None], start, start + t * (leaving + t * (bend + t * twist)))
        late = t > h
        found = np.where(late, np.where(still[:, None], end, end + (t - h) * arriving), found)
        found[:, 3:] /= np.sqrt(np.sum(found[:, 3:] ** 2, axis=1, keepdims=True))
        for rows, at in ((before, self._times[leg]), (after, self._times[leg + 1])):
            exact = inside == at
            found[exact] = rows[exact, :7]
        return found[:, :3], found[:, 3:]

    def state(self, times: ArrayLike) -> BodyState:
        """Return the state at `times` (n,) [s]."""
        asked = checked_times(times)
        xyz, quat = self.sample(asked)
        if self._count < 2:
            nothing = np.zeros((len(asked), 3))
            return BodyState(asked, xyz, quat, nothing, nothing, nothing, nothing)
        leg, inside, step, still = self._legs(asked)
        first, last = self._rows[leg, 7:], self._rows[leg + 1, 7:]
        share = ((inside - self._times[leg]) / step)[:, None]
        rates, change = first + np.minimum(share, 1.0) * (last - first), (last - first) / step[:, None]
        rest = (still | (np.abs(asked - inside) > 1e-9))[:, None]
        rates, change = np.where(rest, 0.0, rates), np.where(rest | (share > 1.0), 0.0, change)
        return BodyState(asked, xyz, quat, rates[:, :3], rates[:, 3:], change[:, :3], change[:, 3:])


def _turning(quat: Floats, spin: Floats) -> Floats:
    """Time derivative (n, 4) of quaternions with angular velocities (n, 3) [rad/s] in the body frame."""
    return 0.5 * quat_multiply(quat, np.concatenate([spin, np.zeros((len(spin), 1))], axis=1))


class PushedValue:
    """A number over time, such as the position of a joint, with lines between the pushed values."""

    def __init__(self, start: float) -> None:
        self._start, self._times, self._values = start, list[float](), list[float]()

    def push(self, time: float, value: float) -> None:
        """Append the value at a time [s] later than the newest."""
        if self._times and not time > self._times[-1]:
            raise ConfigError(f"values must be in the order of time: got {time:g} s after {self._times[-1]:g} s")
        self._times.append(time)
        self._values.append(value)

    def rest(self, until: float) -> None:
        """Hold the newest value until a time [s]."""
        if not self._times or until > self._times[-1]:
            self.push(until, self._values[-1] if self._values else self._start)

    def forget(self, before: float) -> None:
        """Drop values that no time from `before` [s] on needs."""
        drop = int(np.searchsorted(self._times, before)) - 1
        if drop > 32:
            del self._times[:drop], self._values[:drop]

    def __call__(self, times: Floats) -> Floats:
        if not self._times:
            return np.full(len(times), self._start)
        found: Floats = np.interp(times, self._times, self._values)
        return found


# ---- states that hold ------------------------------------------------------------------------------------------------


LONGEST_MEMORY_S = 60.0
"""Time [s] for which states are remembered; the frame of a sensor is far shorter."""


class PlacedMotion:
    """Motion of a body that is placed from outside.

    A state that is pushed for time t holds from t on: the body is at its pose and moves with its twist, until the next
    state. Before the first state it rests at the pose of that state.

    >>> motion = PlacedMotion(Pose(xyz=(1, 0, 0)))
    >>> motion.place(2.0, Pose(xyz=(5, 0, 0)), velocity=(1.0, 0.0, 0.0))
    >>> motion.sample([1.9, 2.0, 2.5])[0][:, 0].tolist()
    [1.0, 5.0, 5.5]
    """

    def __init__(
        self, pose: Pose, velocity: ArrayLike = (0, 0, 0), angular_velocity: ArrayLike = (0, 0, 0), since_s: float = 0.0
    ) -> None:
        """Create a motion with its first state, which holds from `since_s` [s] on."""
        self._start = (pose, velocity, angular_velocity)
        self._rows: list[Floats] = []
        self._table: Floats = np.zeros((0, 14))
        self.place(since_s, *self._start)

    def restart(self) -> None:
        """Return to the first state, from time 0 on."""
        self._rows.clear()
        self.place(0.0, *self._start)

    def place(
        self, time_s: float, pose: Pose, velocity: ArrayLike = (0, 0, 0), angular_velocity: ArrayLike = (0, 0, 0)
    ) -> None:
        """Set the state from a time [s] on, which is not before that of the last state.

        Velocity [m/s] and angular velocity [rad/s] are in the world frame, like the twist of a ROS message in `map`.
        """
        row = np.concatenate(
            [[time_s], pose.xyz, pose.quat_xyzw, np.asarray(velocity, float), np.asarray(angular_velocity, float)]
        )
        if self._rows and self._rows[-1][0] == time_s:
            self._rows.pop()
        self._rows.append(row)
        while len(self._rows) > 2 and self._rows[1][0] < time_s - LONGEST_MEMORY_S:
            self._rows.pop(0)
        self._table = np.stack(self._rows)

    def _at(self, times: Floats) -> tuple[Floats, Floats, Floats]:
        """Rows (n, 14) that hold at times [s], times since each (n, 1), and the turn (n, 4) in that time."""
        which = np.clip(np.searchsorted(self._table[:, 0], times, side="right") - 1, 0, None)
        rows = self._table[which]
        since = np.maximum(times - rows[:, 0], 0.0)[:, None]
        rate = np.linalg.norm(rows[:, 11:], axis=1, keepdims=True)
        axis = rows[:, 11:] / np.where(rate > 0.0, rate, 1.0)
        half = 0.5 * rate * since
        return rows, since, np.concatenate([np.sin(half) * axis, np.cos(half)], axis=1)

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions (n, 4) at times (n,) [s]."""
        rows, since, turn = self._at(np.asarray(times, dtype=np.float64))
        return rows[:, 1:4] + since * rows[:, 8:11], quat_multiply(turn, rows[:, 4:8])

    def state(self, times: ArrayLike) -> BodyState:
        """Return the state at times [s]: the pushed twist without acceleration; at rest before the first state."""
        checked = checked_times(times)
        rows, since, turn = self._at(checked)
        quat = quat_multiply(turn, rows[:, 4:8])
        moving = (checked >= rows[:, 0])[:, None]
        none = np.zeros((len(checked), 3))
        spin = quat_rotate(quat_conjugate(quat), rows[:, 11:]) * moving
        return BodyState(checked, rows[:, 1:4] + since * rows[:, 8:11], quat, rows[:, 8:11] * moving, spin, none, none)
