"""Motion from a recording: the recorded poses at the recorded times, and smooth curves between them."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.core.pose import LARGEST_POSITION_M, Floats
from parhelion.core.reading import reading
from parhelion.motion.curves import aligned, jet_of, refuse_wild_turns, turn_rates
from parhelion.motion.state import BodyState, checked_rows, checked_times, checked_unit_quats

_LARGEST_TIME_S = 1e19
"""Largest accepted time. Some recorders store nanoseconds since 1970, 1.8e18 today."""


class RecordedMotion:
    """Replay of timed poses.

        RecordedMotion(times, xyz, quat_xyzw)
        RecordedMotion.from_tum("trajectory.txt")
        RecordedMotion.from_kitti("poses/00.txt", times="sequences/00/times.txt", axes="camera")

    At a recorded time `sample` returns the recorded numbers, bit for bit. Between them, position and orientation are
    cubic splines over time (not-a-knot; quaternions by components, then normalised), so velocity, acceleration and
    angular velocity are continuous. Outside of the recording the body rests at its first or last pose; if it was moving
    there, its velocity jumps.

    A recording is not smoothed: jitter of σ [m] in poses h [s] apart causes accelerations of 3.7 σ/h² [m/s²].

    Args:
        times: Increasing times (n,) [s], at least one.
        xyz: Positions (n, 3) [m] in the world.
        quat_xyzw: Unit quaternions (n, 4), body to world.

    >>> motion = RecordedMotion([0.0, 1.0, 2.0], [(0, 0, 0), (1, 0, 0), (2, 0, 0)], [(0, 0, 0, 1)] * 3)
    >>> motion.state([0.5]).velocity.round(6).tolist()
    [[1.0, 0.0, 0.0]]
    """

    def __init__(self, times: ArrayLike, xyz: ArrayLike, quat_xyzw: ArrayLike) -> None:
        clock = np.array(checked_times(times))
        places = checked_rows("recorded motion", "xyz", xyz, 3)
        quats = checked_unit_quats("recorded motion", "quat_xyzw", quat_xyzw)
        if not len(clock) == len(places) == len(quats):
            raise ConfigError(
                f"recorded motion: times, xyz and quat_xyzw must have the same length, "
                f"got {len(clock)}, {len(places)} and {len(quats)}"
            )
        if np.any(np.diff(clock) <= 0.0):
            row = int(np.argmax(np.diff(clock) <= 0.0))
            raise ConfigError(
                f"recorded motion: times must increase, got {clock[row]} and then {clock[row + 1]} in row {row + 1}"
            )
        for name, values, most in (("times", clock, _LARGEST_TIME_S), ("xyz", places, LARGEST_POSITION_M)):
            if np.abs(values).max() > most:
                raise ConfigError(f"recorded motion: {name} must lie within ±{most:g}, got {np.abs(values).max():g}")
        for array in (clock, places, quats):
            array.setflags(write=False)
        self.times = clock
        self.xyz = places
        self.quat_xyzw = quats
        self.start_time, self.end_time = float(clock[0]), float(clock[-1])
        self._curve = _curve(clock - clock[0], np.concatenate([places, aligned(quats)], axis=1))

    @classmethod
    def from_tum(cls, path: str | PathLike[str]) -> RecordedMotion:
        """Read a TUM file: lines of `timestamp tx ty tz qx qy qz qw`."""
        from parhelion.io.poses import read_tum

        return cls._of_file(path, read_tum(Path(path)))

    @classmethod
    def from_kitti(
        cls,
        path: str | PathLike[str],
        *,
        times: str | PathLike[str] | None = None,
        rate_hz: float | None = None,
        axes: Literal["robot", "camera"] = "robot",
    ) -> RecordedMotion:
        """Read a KITTI file of poses (lines of 12 numbers), with a file of `times` or a rate [Hz].

        `axes="camera"` converts KITTI's camera frames (x right, y down, z forward) to x forward, y left, z up.
        """
        from parhelion.io.poses import read_kitti

        return cls._of_file(path, read_kitti(Path(path), times=times, rate_hz=rate_hz, axes=axes))

    @classmethod
    def _of_file(cls, path: str | PathLike[str], poses: Any) -> RecordedMotion:
        with reading(path):
            return cls(poses.times, poses.xyz, poses.quat_xyzw)

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        state = self.state(times)
        return state.xyz.copy(), state.quat_xyzw.copy()

    def state(self, times: ArrayLike) -> BodyState:
        """Pose, velocities and accelerations at `times` (n,) [s]; exact derivatives of the splines."""
        times_s = checked_times(times)
        inside = np.clip(times_s, self.start_time, self.end_time)
        jet = jet_of(self._curve, inside - self.start_time, 2)
        jet[1:, times_s != inside] = 0.0
        xyz, velocity, acceleration = jet[..., :3]
        quat, omega, alpha = turn_rates(jet[..., 3:])
        row = np.minimum(np.searchsorted(self.times, inside), len(self.times) - 1)
        exact = (self.times[row] == inside)[:, None]
        xyz = np.where(exact, self.xyz[row], xyz)
        quat = np.where(exact, self.quat_xyzw[row], quat)
        return BodyState(times_s, xyz, quat, velocity, omega, acceleration, alpha)


def _curve(clock: Floats, rows: Floats) -> Any:
    from scipy.interpolate import CubicSpline

    if len(rows) == 1:
        clock, rows = np.array([0.0, 1.0]), np.concatenate([rows, rows])
    curve = CubicSpline(clock, rows)
    refuse_wild_turns("recorded motion", curve(0.5 * (clock[:-1] + clock[1:]))[:, 3:])
    return curve
