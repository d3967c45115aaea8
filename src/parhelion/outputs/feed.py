"""The steps of a scenario as messages in the order of time: what the feeds of ROS and Foxglove share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.outputs.topics import MAP, TopicName, check_distinct, topic_rule

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step
    from parhelion.scenario.sensors import OnBoard


class TimedMessage(Protocol):
    """A message with the time at which it is sent."""

    @property
    def time_ns(self) -> int:
        """Time [ns]."""
        ...


Kind = TypeVar("Kind", bound=TimedMessage)


class Feed(ABC, Generic[Kind]):
    """Turns the steps of a scenario into messages, in the order of time."""

    def __init__(
        self,
        scenario: Scenario,
        sensors: dict[str, TopicName],
        vehicles: dict[str, TopicName],
        epoch_s: float,
        batch_s: float,
    ) -> None:
        """`epoch_s` [s] is the time at the scenario's start. Messages are held back and given for `batch_s` [s]."""
        if not (np.isfinite(epoch_s) and epoch_s >= 0.0):
            raise ConfigError(f"epoch_s: must be finite and not negative, got {epoch_s!r}")
        if not (np.isfinite(batch_s) and 0.0 <= batch_s <= 3600.0):
            raise ConfigError(f"batch_s: must be from 0 to 3600 s, got {batch_s!r}")
        self.scenario, self.sensors, self.vehicles = scenario, sensors, vehicles
        self._told: dict[str, tuple[Any, Any]] = {}
        """Rule and context of each sensor whose records become messages."""
        self._batch_s, self._first_s, self._epoch_s, self._rounds = batch_s, epoch_s, epoch_s, 0
        self.restart()

    def restart(self) -> None:
        """Begin again, with the scenario."""
        self._held: list[Kind] = []
        self._asked, self._now = 0.0, 0.0

    def stamp(self, time_s: float) -> int:
        """A time of the scenario [s] as messages have it [ns]."""
        return round(self._epoch_s * 1e9) + round(time_s * 1e9)

    def of(self, step: Step) -> list[Kind]:
        """Messages that are complete with a step, in the order of time. Steps come one after the other."""
        for name, frames in step.frames.items():
            for _, record in frames:
                self._held += self._messages(name, record)
        for name, samples in step.new_samples().items():
            self._held += self._messages(name, samples)
        self._note(step)
        self._now = step.time
        return self.last() if self._now - self._asked >= self._batch_s - 1e-9 else []

    def last(self) -> list[Kind]:
        """The messages that are still held back, after the last step."""
        if self._now > self._asked:
            self._held += self._noted()
        self._asked = self._now
        found, self._held = self._held, []
        return sorted(found, key=lambda message: message.time_ns)

    def timed(self, step: Step) -> list[tuple[float, Kind]]:
        """The same, each with the time [s] at which it is to be sent. A scenario that begins again goes on in time."""
        if step.number == 0:
            whole = self.scenario.steps * self.scenario.settings.step_s
            self._epoch_s = self._first_s + self._rounds * whole
            self._rounds += 1
            self.restart()
        return self._with_times(self.of(step))

    def timed_rest(self) -> list[tuple[float, Kind]]:
        """The messages that are still held back after the last step, with their times [s]."""
        return self._with_times(self.last())

    def _with_times(self, messages: list[Kind]) -> list[tuple[float, Kind]]:
        return [(1e-9 * message.time_ns - self._epoch_s, message) for message in messages]

    def _messages(self, name: str, record: Any) -> Iterator[Kind]:
        """The messages of a record; none where its type is left out."""
        if name in self._told:
            rule, context = self._told[name]
            yield from rule.messages(record, context)

    # ---- truth and frames, which every feed has in its own way ---------------------------------------------------

    @abstractmethod
    def _note(self, step: Step) -> None:
        """Note the times within a step for which truth is due."""

    @abstractmethod
    def _noted(self) -> Iterable[Kind]:
        """The truth at the times that were noted."""

    @abstractmethod
    def _framed(self) -> list[OnBoard]:
        """Sensors with a frame of their own."""

    def _mounts(self) -> list[tuple[str, str, Pose]]:
        """Parent, child and pose of the frames of sensors, then of those that hang on them."""
        placed, beneath = [], []
        for sensor in self._framed():
            parent = MAP if sensor.entry.vehicle is None else self.vehicles[sensor.entry.vehicle].frame
            frame = self.sensors[sensor.name].frame
            placed.append((parent, frame, sensor.mount))
            beneath += [(frame, child, pose) for child, pose in topic_rule(sensor).child_frames(sensor, frame)]
        return placed + beneath

    def _check_distinct(self, topics: list[str]) -> None:
        vehicles = [vehicle.frame for vehicle in self.vehicles.values()]
        check_distinct(topics, [MAP, *vehicles, *(child for _, child, _ in self._mounts())])
