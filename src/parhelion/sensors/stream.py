"""Sensors that give a stream of samples, and the samples as they become known while time goes on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from parhelion.core.noise import chosen_rate, sample_number, sample_span
from parhelion.core.pose import Floats, Pose
from parhelion.core.streams import Samples
from parhelion.core.trajectory import Fixed, Trajectory
from parhelion.sensors.frame import Named
from parhelion.world.world import World

_Sheet = TypeVar("_Sheet", bound="TimedSheet")
_Data = TypeVar("_Data", bound=Samples)


class SampleStream(Protocol):
    """The samples of one sensor in the order of time, each told once."""

    def until(self, time: float) -> Samples:
        """The samples since the last call and before a time [s]; perhaps none."""
        ...


class StreamSensor(Protocol):
    """A sensor that gives samples at a rate: it is given the world and its weather, a motion and its mount on it."""

    rate_hz: float
    name: str

    def samples(
        self, world: World, motion: Trajectory, start: float, duration: float, seed: int, mount: Pose | None = None
    ) -> Samples:
        """All samples from `start` [s] until before `start + duration` [s]."""
        ...

    def stream(
        self, world: World, motion: Trajectory, seed: int, mount: Pose | None = None, start: float = 0.0
    ) -> SampleStream:
        """The same samples from `start` [s] on, as time goes on."""
        ...


class Stateless:
    """The stream of a sensor whose samples do not depend on those before: any stretch can be asked for alone."""

    def __init__(
        self, sensor: Any, world: World, motion: Trajectory, seed: int, mount: Pose | None, start: float
    ) -> None:
        self._sensor, self._world, self._motion, self._seed, self._mount = sensor, world, motion, seed, mount
        self._told = start

    def until(self, time: float) -> Samples:
        """The samples since the last call and before a time [s]."""
        start, self._told = self._told, max(self._told, time)
        found: Samples = self._sensor.samples(
            self._world, self._motion, start, self._told - start, self._seed, self._mount
        )
        return found


class WithoutWorld:
    """What stream sensors have in common that do not look at the world: `run` asks for a motion alone."""

    rate_hz: float
    may_stand = False
    """Whether a scenario may place it in the world, without a vehicle."""

    def samples(
        self, world: World, motion: Trajectory, start: float, duration: float, seed: int, mount: Pose | None = None
    ) -> Any:
        """All samples from `start` [s] until before `start + duration` [s]; the world is not felt."""
        first, last = (sample_number(time, self.rate_hz) for time in (start, start + duration))
        if last > first:
            return self.run(motion, start, duration, seed, mount)  # type: ignore[attr-defined]
        # A clock's step may be shorter than a sensor's period. What an empty record looks like is asked of a sensor at
        # rest: where the motion will be by the next sample may not be known yet.
        return self.run(Fixed(Pose()), start, 1.0 / self.rate_hz, seed, mount).select(slice(0, 0))  # type: ignore[attr-defined]

    def stream(
        self, world: World, motion: Trajectory, seed: int, mount: Pose | None = None, start: float = 0.0
    ) -> SampleStream:
        """The same samples from `start` [s] on, as time goes on."""
        return Stateless(self, world, motion, seed, mount, start)


class TimedSheet(Protocol):
    """A data sheet that says how often its sensor measures."""

    rate_hz: float
    max_rate_hz: float


class InWorld(Named, ABC, Generic[_Sheet, _Data]):
    """What stream sensors have in common that look at the world, and whose samples do not depend on those before."""

    may_stand = True

    def __init__(self, sheet: _Sheet, model: str, rate_hz: float | None, noise: bool, name: str) -> None:
        self.config, self.model, self.noise, self.name = sheet, model, noise, name
        self.rate_hz = chosen_rate(rate_hz, sheet.rate_hz, sheet.max_rate_hz)
        self._streams = f"{self.kind}/{self.model}/{name}"

    @property
    def said(self) -> str:
        """How errors and warnings call it."""
        return f"{self.kind} {self.name or self.model}"

    def run(
        self,
        world: World,
        motion: Trajectory,
        start: float = 0.0,
        duration: float = 1.0,
        seed: int = 0,
        mount: Pose | None = None,
    ) -> _Data:
        """All samples from `start` [s] until before `start + duration` [s]; split runs give the same bits."""
        return self._samples(world, motion, *sample_span(start, duration, self.rate_hz), seed, mount)

    def samples(
        self, world: World, motion: Trajectory, start: float, duration: float, seed: int, mount: Pose | None = None
    ) -> _Data:
        """The same; a stretch between two samples gives none."""
        first, last = (sample_number(time, self.rate_hz) for time in (start, start + duration))
        return self._samples(world, motion, first, max(last - first, 0), seed, mount)

    def stream(
        self, world: World, motion: Trajectory, seed: int, mount: Pose | None = None, start: float = 0.0
    ) -> SampleStream:
        """The same samples from `start` [s] on, as time goes on; a place that cannot be meant is refused now."""
        place = None
        if isinstance(motion, Fixed):
            pose = motion.pose if mount is None else motion.pose @ mount
            place = np.asarray(pose.xyz, dtype=np.float64)
        self._check(world, place, start)
        return Stateless(self, world, motion, seed, mount, start)

    def measure(self, world: World, motion: Trajectory, time: float, seed: int) -> _Data:
        """The contract of every sensor: the one sample within a period from `time` [s] on."""
        return self._samples(world, motion, sample_number(time, self.rate_hz), 1, seed, None)

    @abstractmethod
    def _samples(
        self, world: World, motion: Trajectory, first: int, count: int, seed: int, mount: Pose | None
    ) -> _Data:
        """Samples `first` to below `first + count`; `count` may be 0."""

    def _check(self, world: World, place: Floats | None, time: float) -> None:
        """Refuse or warn of what a scenario cannot mean; `place` (3,) [m] is given where the sensor stands."""
