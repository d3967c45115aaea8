"""When a walker steps: the phase of the gait by time, counted in steps, and where each foot comes down.

Step length L and step rate n of adults keep one ratio, the walk ratio w = L/n, over a wide range of speeds (Sekiya and
Nagasaki 1998: about 0.0065 m/(steps/min), which is 0.39 m·s). With v = L n: L = √(w v) and n = √(v/w). Both vanish with
the speed, so the phase φ = ∫ n dt needs no case for slow walking. Lengths go with height, times with its root, so w
goes with height^1.5. Valid for walking at about 0.5 to 2.5 m/s; people who walk slower than 1 m/s take somewhat longer
steps (Murakami and Otaka 2017), and runners are only sketched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.core.trajectory import ConstantTwist, Trajectory
from parhelion.motion.actors.body import heading_of
from parhelion.motion.actors.way import Span, span_of

WALK_RATIO_M_S = 0.0065 * 60.0
WALK_RATIO_HEIGHT_M = 1.70
"""Height of the people whose walk ratio that is: young adults, a round figure."""
SLOWEST_M_S = 1e-3
"""Below this a body stands."""
TURN_RADIUS_M = 0.3
"""A body that turns on the spot steps as one that goes round a circle of this radius."""
LONGEST_STANCE = 0.6
"""Share of the stride in which a walking foot is on the ground (Perry 1992)."""


def step_length_m(speed_m_s: Floats | float, height_m: float) -> Floats:
    """Length of a step [m], from one foot to the other, at a walking speed [m/s]."""
    return np.sqrt(walk_ratio_m_s(height_m) * np.abs(np.asarray(speed_m_s, dtype=np.float64)))


def walk_ratio_m_s(height_m: float) -> float:
    """Step length over step rate [m·s] for a height [m]."""
    return float(WALK_RATIO_M_S * (height_m / WALK_RATIO_HEIGHT_M) ** 1.5)


@dataclass(frozen=True, eq=False)
class StepClock:
    """The phase of a walk. Foot `k` (even: left, odd: right) comes down where the body is at phase k.

    A walk from rest to rest takes a whole number of steps, so that the feet end side by side.
    """

    span: Span
    times: Floats
    """Rising times [s] within the span, shape (m,)."""
    phase: Floats
    """Phase at `times`, in steps, shape (m,)."""
    speed: Floats
    """Speed [m/s] at `times`, shape (m,)."""
    bout_times: Floats
    """Start and end [s] of each walk between rests, shape (b, 2)."""
    bout_phases: Floats
    """Phase, a whole number, at both, shape (b, 2)."""
    bout_stance: Floats
    """Share of the stride in which a foot is on the ground, for each walk, shape (b,)."""
    endless: bool
    """Whether the walk has no rest, so that phase and times go on lap after lap."""

    def at(self, times: Floats) -> tuple[Floats, Floats, Floats]:
        """Phase, speed [m/s] and number of the walk (-1 where the body stands) at `times` (n,) [s]."""
        inside = self.span.inside(times)
        phase = np.interp(inside, self.times, self.phase)
        speed = np.interp(inside, self.times, self.speed)
        if self.endless:
            return phase + self.phase[-1] * self.span.laps(times), speed, np.zeros(len(times), dtype=np.intp)
        if len(self.bout_times) == 0:
            return phase, speed, np.full(len(times), -1)
        bout = np.searchsorted(self.bout_times[:, 0], inside, side="right") - 1
        walks = (bout >= 0) & (inside < self.bout_times[np.maximum(bout, 0), 1])
        return phase, speed, np.where(walks, bout, -1)

    def body_times(self, times: Floats) -> Floats:
        """Times at which to ask the motion: within the span, unless the walk is endless."""
        return times if self.endless else self.span.inside(times)

    def landing_times(self, bout: Floats, step: Floats) -> Floats:
        """When the body is over foothold `step` (n,) of walk `bout` (n,); footholds beyond a walk are at its ends."""
        if self.endless:
            laps = np.floor(step / self.phase[-1])
            return np.interp(step - laps * self.phase[-1], self.phase, self.times) + laps * self.span.length_s
        found = np.interp(step, self.phase, self.times)
        if len(self.bout_times) == 0:
            return found
        first, last = self.bout_times[np.maximum(bout, 0)].T
        return np.clip(found, first, last)

    def bounds(self, bout: Floats) -> tuple[Floats, Floats, Floats]:
        """First and last phase, and stance share, of walks (n,); no bounds where there is no end."""
        if self.endless or len(self.bout_times) == 0:
            share = self.bout_stance[0] if len(self.bout_stance) else LONGEST_STANCE
            return np.full(len(bout), -np.inf), np.full(len(bout), np.inf), np.full(len(bout), share)
        row = np.maximum(bout, 0)
        return self.bout_phases[row, 0], self.bout_phases[row, 1], self.bout_stance[row]


def step_clock(
    motion: Trajectory, height_m: float, reach_m: float, times: tuple[float, float] | None = None
) -> StepClock:
    """Lay out the steps of a motion; `reach_m` is the longest way [m] that a body can go over one planted foot."""
    ratio = walk_ratio_m_s(height_m)
    if isinstance(motion, ConstantTwist) and times is None:
        return _steady(motion, ratio, reach_m)
    span = span_of(motion, times)
    grid = span.grid()
    speed = _speeds(motion, grid)
    moving = speed > SLOWEST_M_S
    if span.repeats and np.all(moving):
        return _endless(span, grid, speed, ratio, reach_m)
    if span.repeats:
        # Begin where the body rests, so that no walk crosses the border between two laps.
        begin = float(grid[int(np.argmin(moving))])
        span = Span(begin, begin + span.length_s, repeats=True)
        grid = span.grid()
        speed = _speeds(motion, grid)
        moving = speed > SLOWEST_M_S
    return _with_rests(span, grid, speed, moving, ratio, reach_m)


def _steady(motion: ConstantTwist, ratio: float, reach_m: float) -> StepClock:
    speed = float(np.hypot(np.linalg.norm(motion.velocity), TURN_RADIUS_M * abs(motion.angular_velocity[2])))
    if speed <= SLOWEST_M_S:
        span = Span(motion.start_time, motion.start_time + 1.0, repeats=False)
        grid = np.array([span.start_s, span.end_s])
        return _with_rests(span, grid, np.zeros(1), np.zeros(1, dtype=bool), ratio, reach_m)
    span = Span(motion.start_time, motion.start_time + 2.0 / np.sqrt(speed / ratio), repeats=True)
    return _endless(span, np.array([span.start_s, span.end_s]), np.array([speed]), ratio, reach_m)


def _speeds(motion: Trajectory, grid: Floats) -> Floats:
    """Speed [m/s] between neighbours of the grid, turns on the spot included."""
    xyz, quat = motion.sample(grid)
    heading = heading_of(quat)
    turned = np.mod(np.diff(heading) + np.pi, 2.0 * np.pi) - np.pi
    return np.hypot(np.linalg.norm(np.diff(xyz, axis=0), axis=1), TURN_RADIUS_M * turned) / np.diff(grid)


def _stance(longest_step_m: float, reach_m: float) -> float:
    return float(np.clip(0.5 * reach_m / max(longest_step_m, 1e-9), 0.2, LONGEST_STANCE))


def _endless(span: Span, grid: Floats, speed: Floats, ratio: float, reach_m: float) -> StepClock:
    steps = np.sqrt(speed / ratio) * np.diff(grid)
    # An even number a lap, so that the same foot begins each of them.
    count = max(2.0, 2.0 * round(0.5 * float(steps.sum())))
    steps *= count / steps.sum()
    longest = float(np.max(speed * np.diff(grid) / steps))
    phase = np.concatenate([[0.0], np.cumsum(steps)])
    phase[-1] = count
    return StepClock(
        span, grid, phase, _at_nodes(speed), np.zeros((0, 2)), np.zeros((0, 2)),
        np.array([_stance(longest, reach_m)]), endless=True,
    )  # fmt: skip


def _with_rests(
    span: Span, grid: Floats, speed: Floats, moving: NDArray[np.bool_], ratio: float, reach_m: float
) -> StepClock:
    edges = np.diff(np.concatenate([[0], moving.astype(np.int8), [0]]))
    first, last = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    lasting = np.diff(grid)
    steps = np.where(moving, np.sqrt(speed / ratio), 0.0) * lasting
    stance = []
    for begin, end in zip(first, last, strict=True):
        total = float(steps[begin:end].sum())
        steps[begin:end] *= max(1.0, round(total)) / total
        longest = np.max(speed[begin:end] * lasting[begin:end] / steps[begin:end])
        stance.append(_stance(float(longest), reach_m))
    phase = np.concatenate([[0.0], np.cumsum(steps)])
    bouts = np.stack([first, last], axis=1)
    # Whole numbers at both ends of a walk, where the sum has rounded.
    phase[bouts] = np.round(phase[bouts])
    return StepClock(
        span, grid, np.maximum.accumulate(phase), _at_nodes(np.where(moving, speed, 0.0)), grid[bouts], phase[bouts],
        np.array(stance), endless=False,
    )  # fmt: skip


def _at_nodes(between: Floats) -> Floats:
    """Values at the points of a grid, from those between them; at the ends as next to them."""
    wide = np.concatenate([between[:1], between, between[-1:]])
    return 0.5 * (wide[:-1] + wide[1:])
