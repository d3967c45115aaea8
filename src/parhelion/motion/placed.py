"""Motion by states from outside: each state holds from its time on, with a constant twist."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.pose import Floats, Pose, quat_conjugate, quat_multiply, quat_rotate
from parhelion.motion.state import BodyState, checked_times

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
