"""Faults that every sensor can have: a mount that differs from the stated one, a wrong clock, and lost measurements.

A fault changes records after the measurement, or the place where the sensor measures. It is a pure function of the
record, of times on the world's clock, and of a random stream, so that split and repeated runs have the same bits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from parhelion.core.config import Config, Fraction
from parhelion.core.pose import Floats, Pose
from parhelion.core.random import Stream, to_unit
from parhelion.core.streams import Samples
from parhelion.core.trajectory import Trajectory

Seconds = Annotated[float, Field(ge=-1e9, le=1e9)]


@dataclass(frozen=True)
class Unit:
    """One sensor, for faults that are random or differ from unit to unit."""

    key: str
    """Key of its random streams."""
    seed: int
    rate_hz: float


class Fault(Config):
    """Settings of a fault, and its effect on a record."""

    kinds: ClassVar[Sequence[str]] = ()
    """Kinds of sensors that can have it; empty for all."""

    def applied(self, record: Any, unit: Unit) -> Any:
        """Record with the fault."""
        return record


class TimedFault(Fault):
    """A fault that lasts for a time."""

    from_s: Seconds = 0.0
    """Start [s] on the clock of the world."""
    until_s: Seconds | None = None
    """End; by default it stays."""

    def active(self, times: ArrayLike) -> NDArray[np.bool_]:
        """True at the times [s] at which the fault is present."""
        at = np.asarray(times, np.float64)
        return (at >= self.from_s) & (at < (np.inf if self.until_s is None else self.until_s))


class MountFault(Fault):
    """The sensor is not where its mount states: a bent bracket, or an extrinsic calibration that is off.

    Extrinsic calibrations of lidars on cars are off by about 0.1 to 0.5 degrees and by centimetres.
    """

    xyz: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Displacement [m] in the frame of the sensor."""
    rpy_deg: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def pose(self) -> Pose:
        """True pose of the sensor in the frame of its stated mount."""
        return Pose(self.xyz, rpy_deg=self.rpy_deg)


@dataclass(frozen=True)
class Retimed:
    """A motion on a clock that is ahead of the world's by `ahead_s`."""

    motion: Trajectory
    ahead_s: float

    def sample(self, times: Any) -> tuple[Any, Any]:
        """Return positions (n, 3) [m] and quaternions (n, 4) at times (n,) [s] of that clock."""
        return self.motion.sample(np.asarray(times, np.float64) - self.ahead_s)


class ClockFault(Fault):
    """The clock of the sensor is ahead of the others: stamps are t + offset + drift (t - from_s) from a time on.

    Free crystals of sensors drift by 10 to 50 ppm. With `from_s`, the offset is a jump, as after a lost time server.
    The record of a moving sensor keeps its true motion, on its own clock.
    """

    offset_s: Annotated[float, Field(ge=-3600.0, le=3600.0)] = 0.0
    """Offset, positive for stamps that are too late."""
    drift_ppm: Annotated[float, Field(ge=-1e4, le=1e4)] = 0.0
    from_s: Seconds = 0.0
    """Time of the jump, and start of the drift."""

    def ahead_s(self, times: ArrayLike) -> Floats:
        """Error of the clock [s] at times [s]."""
        since = np.asarray(times, np.float64) - self.from_s
        return np.where(since >= 0.0, self.offset_s + 1e-6 * self.drift_ppm * since, 0.0)

    def applied(self, record: Any, unit: Unit) -> Any:
        """Record with the stamps of this clock."""
        if isinstance(record, Samples):
            return dataclasses.replace(record, time=record.time + self.ahead_s(record.time))
        ahead = float(self.ahead_s(record.start_time))
        if ahead == 0.0:
            return record
        moved = {"motion": Retimed(record.motion, ahead)} if hasattr(record, "motion") else {}
        return dataclasses.replace(record, start_time=record.start_time + ahead, **moved)


class LossFault(TimedFault):
    """Samples that never arrive: a loose plug or a full queue."""

    kinds: ClassVar[Sequence[str]] = ("imu", "gnss", "odometry", "barometer", "magnetometer", "uwb")

    lost: Fraction = 0.0
    """Fraction of the samples."""
    burst: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Number of samples in a row that are lost together."""

    def applied(self, record: Samples, unit: Unit) -> Samples:
        """Samples that arrive."""
        number = np.round(record.time * unit.rate_hz).astype(np.int64) // self.burst
        gone = lost_blocks(number, self.lost, unit, "loss") & self.active(record.time)
        return record.select(~gone) if gone.any() else record


def lost_blocks(numbers: NDArray[np.int64], share: float, unit: Unit, name: str) -> NDArray[np.bool_]:
    """True for the blocks of these numbers that are lost; each is lost with the probability `share`."""
    words = Stream(unit.seed, f"{unit.key}/faults/{name}").words((numbers & 0xFFFFFFFF).astype(np.uint32))
    return np.asarray(to_unit(words[0]) < share)
