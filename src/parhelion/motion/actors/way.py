"""How far a body has come: the way along its motion, for wheels that roll and feet that step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, quat_rotate
from parhelion.core.trajectory import ConstantTwist, Fixed, Trajectory, Waypoints
from parhelion.motion.actors.body import heading_of

STEP_S = 1.0 / 64.0
MOST_POINTS = 4_000_000


@dataclass(frozen=True)
class Span:
    """The time in which a motion says something new."""

    start_s: float
    end_s: float
    repeats: bool
    """Whether all is the same again after `end_s` (and before `start_s`); otherwise the body rests outside."""

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s

    def inside(self, times: Floats) -> Floats:
        """The same instants within the span."""
        if self.repeats:
            return self.start_s + np.mod(times - self.start_s, self.length_s)
        return np.clip(times, self.start_s, self.end_s)

    def laps(self, times: Floats) -> Floats:
        """Whole repetitions before `times`."""
        return np.floor((times - self.start_s) / self.length_s) if self.repeats else np.zeros_like(times)

    def grid(self) -> Floats:
        """Times [s] from start to end, at most `STEP_S` apart."""
        count = int(np.ceil(self.length_s / STEP_S)) + 1
        if count > MOST_POINTS:
            raise ConfigError(
                f"motion: lasts {self.length_s:g} s, and steps can be laid out for {MOST_POINTS * STEP_S:g} s at most; "
                f"give times=(first, last)"
            )
        return np.linspace(self.start_s, self.end_s, max(count, 2))


def span_of(motion: Trajectory, times: tuple[float, float] | None = None) -> Span:
    """The span of a motion: `times` where given, else from its own `start_time` and `end_time`."""
    if times is not None:
        first, last = (float(value) for value in times)
        if not (np.isfinite(first) and np.isfinite(last) and first < last):
            raise ConfigError(f"times: must be two finite times, the first before the last, got {times!r}")
        return Span(first, last, repeats=False)
    if isinstance(motion, Fixed):
        return Span(0.0, 1.0, repeats=False)
    if isinstance(motion, Waypoints):
        return Span(float(motion.times[0]), max(float(motion.times[-1]), float(motion.times[0]) + 1.0), repeats=False)
    start, end = getattr(motion, "start_time", None), getattr(motion, "end_time", None)
    if not isinstance(start, (int, float)) or not isinstance(end, (int, float)) or not start < end < np.inf:
        raise ConfigError(
            f"motion: a {type(motion).__name__} has no start_time and end_time, so give times=(first, last)"
        )
    # What rests after its end is where it was; what repeats is not, somewhere in its second lap.
    later = end + (end - start) * np.linspace(0.0, 1.0, 8)
    xyz, quat = motion.sample(later)
    moves = np.ptp(xyz, axis=0).max() > 1e-9 or np.min(np.abs(quat @ quat[0])) < 1.0 - 1e-12
    return Span(float(start), float(end), repeats=bool(moves))


class Way:
    """Way [m] that a point of a body rolls forwards since the motion's start, by time; backwards counts negative.

    `offset` [m] is the point in the body's frame. Only motion along the body's x axis counts, as for a wheel there.
    """

    def __init__(
        self,
        motion: Trajectory,
        times: tuple[float, float] | None = None,
        offset: tuple[float, float, float] = (0.0, 0.0, 0.0),
    ) -> None:
        self._motion, self._offset = motion, np.asarray(offset, dtype=np.float64)
        self._steady: float | None = None
        if isinstance(motion, ConstantTwist) and times is None and not any(motion.angular_velocity):
            forward = quat_rotate(motion.pose.quat_xyzw, np.array([1.0, 0.0, 0.0]))
            self._steady = float(forward @ np.asarray(motion.velocity, dtype=np.float64))
            self._span = Span(motion.start_time, motion.start_time + 1.0, repeats=True)
            return
        self._span = span_of(motion, times)
        self._times = self._span.grid()
        self._xyz, self._facing = self._point(self._times)
        legs = _forward(np.diff(self._xyz, axis=0), self._facing[:-1] + self._facing[1:])
        self._way = np.concatenate([[0.0], np.cumsum(legs)])

    def __call__(self, times: ArrayLike) -> Floats:
        """Way (n,) [m] at times (n,) [s]."""
        asked = np.asarray(times, dtype=np.float64)
        if self._steady is not None:
            return self._steady * (asked - self._span.start_s)
        within = self._span.inside(asked)
        row = np.clip(np.searchsorted(self._times, within, side="right") - 1, 0, len(self._times) - 2)
        # From the last point of the grid on along the chord: exact on straight lines at any speed.
        xyz, facing = self._point(within)
        since = _forward(xyz - self._xyz[row], self._facing[row] + facing)
        return self._way[row] + since + self._way[-1] * self._span.laps(asked)

    def _point(self, times: Floats) -> tuple[Floats, Floats]:
        """Places (n, 3) [m] of the point, and which way (n, 2) the body faces."""
        xyz, quat = self._motion.sample(times)
        heading = heading_of(quat)
        return xyz + quat_rotate(quat, self._offset), np.column_stack([np.cos(heading), np.sin(heading)])


def _forward(moved: Floats, facing: Floats) -> Floats:
    """Lengths (n,) of moves (n, 3) along directions (n, 2), slopes included; negative where they go backwards."""
    level = np.sum(moved[:, :2] * facing, axis=1) / np.linalg.norm(facing, axis=1)
    return np.sign(level) * np.hypot(level, moved[:, 2])
