"""Sensors that give a stream of samples, and the samples as they become known while time goes on."""

from __future__ import annotations

from typing import Any, Protocol

from parhelion.core.inertial import Samples
from parhelion.core.pose import Pose
from parhelion.core.trajectory import Fixed, Trajectory
from parhelion.sensors.imu.errors import sample_number
from parhelion.world.world import World


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
