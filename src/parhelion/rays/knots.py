"""Poses of moving bodies at fixed instants, between which kernels interpolate.

The instants are whole steps of one clock, whatever window is asked for. Bodies whose motion is known ahead are sampled
in long blocks: one call for hundreds of instants takes hardly longer than one for a scan's few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.rays.geometry import MovingTriangles

Floats = NDArray[np.float64]

STEP_S = 1.0 / 100.0
"""Time between knots. For 10 m/s^2 the error a dt^2 / 8 of interpolating is 0.13 mm."""
MOST_KNOTS = 65
"""Windows longer than this many steps get longer steps."""
BLOCK = 200
"""Knots that are sampled ahead at once: two seconds."""


@dataclass(frozen=True)
class Knots:
    """Poses of all bodies over a window."""

    first_s: float
    """Time of the first knot."""
    step_s: float
    xyz: Floats
    """Positions [m], shape (bodies, knots, 3)."""
    quat: Floats
    """Unit quaternions `xyzw`, neighbours on one side of the sphere, shape (bodies, knots, 4)."""


class KnotClock:
    """Samples bodies' motions for window after window."""

    def __init__(self, actors: list[MovingTriangles]) -> None:
        self._motions = [actor.trajectory for actor in actors]
        self._ahead = [bool(getattr(motion, "known_ahead", False)) for motion in self._motions]
        self._blocks: dict[tuple[float, int], tuple[Floats, Floats]] = {}

    def window(self, start: float, duration: float) -> Knots:
        """Knots that cover [start, start + duration] [s]."""
        step = STEP_S * max(1.0, np.ceil(duration / (STEP_S * (MOST_KNOTS - 1))))
        first = int(np.floor(start / step + 1e-9))
        last = max(int(np.ceil((start + duration) / step - 1e-9)), first + 1)
        numbers = np.arange(first, last + 1)
        xyz = np.empty((len(self._motions), len(numbers), 3))
        quat = np.empty((len(self._motions), len(numbers), 4))
        now = [row for row, ahead in enumerate(self._ahead) if not ahead]
        for row in now:
            xyz[row], quat[row] = self._motions[row].sample(numbers * step)
        later = [row for row, ahead in enumerate(self._ahead) if ahead]
        if later:
            needed = range(first // BLOCK, last // BLOCK + 1)
            blocks = [self._block(step, number, later) for number in needed]
            rows = slice(first - needed[0] * BLOCK, last - needed[0] * BLOCK + 1)
            xyz[later] = np.concatenate([block[0] for block in blocks], axis=1)[:, rows]
            quat[later] = np.concatenate([block[1] for block in blocks], axis=1)[:, rows]
        bad = ~(np.isfinite(xyz).all(axis=(1, 2)) & np.isfinite(quat).all(axis=(1, 2)))
        if bad.any():
            raise ConfigError(
                f"actor {int(np.argmax(bad))}: its trajectory is not finite between {start} and {start + duration} s"
            )
        # A quaternion and its negative are one rotation: keep neighbours on one side, so that they can be mixed.
        flips = np.where(np.sum(quat[:, 1:] * quat[:, :-1], axis=2) < 0, -1.0, 1.0)
        quat[:, 1:] *= np.cumprod(flips, axis=1)[:, :, None]
        return Knots(first * step, step, xyz, quat)

    def _block(self, step: float, number: int, rows: list[int]) -> tuple[Floats, Floats]:
        """Poses of the bodies that are known ahead, over one block."""
        key = (step, number)
        if key not in self._blocks:
            times = (number * BLOCK + np.arange(BLOCK)) * step
            poses = [self._motions[row].sample(times) for row in rows]
            while len(self._blocks) >= 2:
                del self._blocks[next(iter(self._blocks))]
            self._blocks[key] = np.stack([xyz for xyz, _ in poses]), np.stack([quat for _, quat in poses])
        return self._blocks[key]
