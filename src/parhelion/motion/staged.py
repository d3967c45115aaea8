"""Motion of a body that is in the world at some times only, as vehicles that enter and leave a road network."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.motion.recorded import RecordedMotion
from parhelion.motion.state import BodyState, checked_times

ABSENT_M = (0.0, 0.0, -2000.0)
"""Position [m] of a body that is not in the world: far below the ground."""


class StagedMotion:
    """Recorded motions in order; between them, before and after, the body is not in the world.

    A part holds from its first time to `hold_s` [s] after its last one, or until the next part begins.

    >>> drive = RecordedMotion([1.0, 2.0], [(0, 0, 0), (5, 0, 0)], [(0, 0, 0, 1)] * 2)
    >>> StagedMotion([drive]).sample([0.5, 1.0, 2.5])[0][:, 2].tolist()
    [-2000.0, 0.0, -2000.0]
    """

    def __init__(self, parts: Sequence[RecordedMotion], hold_s: float = 0.0) -> None:
        self.parts = list(parts)
        starts = [part.start_time for part in self.parts]
        if not starts or any(b <= a for a, b in itertools.pairwise(starts)):
            raise ConfigError("staged motion: needs parts whose start times increase")
        self._starts = np.array(starts)
        ends = [part.end_time + hold_s for part in self.parts]
        self._ends = np.minimum(ends, [*starts[1:], np.inf])
        self.start_time, self.end_time = float(starts[0]), float(self._ends[-1])

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        state = self.state(times)
        return state.xyz, state.quat_xyzw

    def state(self, times: ArrayLike) -> BodyState:
        """Pose, velocities and accelerations at `times` (n,) [s]; at rest while the body is not in the world."""
        clock = checked_times(times)
        count = len(clock)
        xyz, quat = np.tile(ABSENT_M, (count, 1)), np.tile([0.0, 0.0, 0.0, 1.0], (count, 1))
        rates = [np.zeros((count, 3)) for _ in range(4)]
        row = np.searchsorted(self._starts, clock, side="right") - 1
        for k in np.unique(row[row >= 0]).tolist():
            here = (row == k) & (clock <= self._ends[k])
            if not np.any(here):
                continue
            found = self.parts[k].state(clock[here])
            xyz[here], quat[here] = found.xyz, found.quat_xyzw
            values = (found.velocity, found.angular_velocity, found.acceleration, found.angular_acceleration)
            for target, one in zip(rates, values, strict=True):
                target[here] = one
        return BodyState(clock, xyz, quat, *rates)
