"""Base of the ROS and Foxglove feeds: converts the steps of a scenario to messages in chronological order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.outputs.topics import MAP, TopicName, check_distinct, ros_name, topic_rule

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step
    from parhelion.scenario.sensors import OnBoard


class TimedMessage(Protocol):
    """Message with a time of sending."""

    @property
    def time_ns(self) -> int:
        """Time [ns]."""
        ...


Kind = TypeVar("Kind", bound=TimedMessage)


class Feed(ABC, Generic[Kind]):
    """Converts the steps of a scenario to messages in chronological order."""

    def __init__(
        self,
        scenario: Scenario,
        sensors: dict[str, TopicName],
        vehicles: dict[str, TopicName],
        epoch_s: float,
        batch_s: float,
    ) -> None:
        """Start a feed. `epoch_s` [s] is the time at the start of the scenario, `batch_s` [s] the length of a batch."""
        if not (np.isfinite(epoch_s) and epoch_s >= 0.0):
            raise ConfigError(f"epoch_s: must be finite and not negative, got {epoch_s!r}")
        if not (np.isfinite(batch_s) and 0.0 <= batch_s <= 3600.0):
            raise ConfigError(f"batch_s: must be from 0 to 3600 s, got {batch_s!r}")
        self.scenario, self.sensors, self.vehicles = scenario, sensors, vehicles
        self._rules: dict[str, tuple[Any, Any]] = {}
        """Rule and context of each sensor whose records become messages."""
        self._batch_s, self._first_s, self._epoch_s, self._rounds = batch_s, epoch_s, epoch_s, 0
        self.restart()

    def restart(self) -> None:
        """Restart together with the scenario."""
        self._held: list[Kind] = []
        self._sent_until, self._now = 0.0, 0.0

    def stamp(self, time_s: float) -> int:
        """Convert a time of the scenario [s] to a time stamp [ns]."""
        return round(self._epoch_s * 1e9) + round(time_s * 1e9)

    def of(self, step: Step) -> list[Kind]:
        """Messages that are complete after a step, in chronological order. Steps must be passed in order."""
        for name, frames in step.frames.items():
            for _, record in frames:
                self._held += self._messages(name, record)
        for name, samples in step.new_samples().items():
            self._held += self._messages(name, samples)
        self._note(step)
        self._now = step.time
        return self.last() if self._now - self._sent_until >= self._batch_s - 1e-9 else []

    def last(self) -> list[Kind]:
        """Remaining messages of the batch, after the last step."""
        if self._now > self._sent_until:
            self._held += self._noted()
        self._sent_until = self._now
        found, self._held = self._held, []
        return sorted(found, key=lambda message: message.time_ns)

    def timed(self, step: Step) -> list[tuple[float, Kind]]:
        """Messages as from `of`, each with its time of sending [s]. If the scenario restarts, time continues."""
        if step.number == 0:
            whole = self.scenario.steps * self.scenario.settings.step_s
            self._epoch_s = self._first_s + self._rounds * whole
            self._rounds += 1
            self.restart()
        return self._with_times(self.of(step))

    def timed_rest(self) -> list[tuple[float, Kind]]:
        """Remaining messages after the last step, with their times of sending [s]."""
        return self._with_times(self.last())

    def _with_times(self, messages: list[Kind]) -> list[tuple[float, Kind]]:
        return [(1e-9 * message.time_ns - self._epoch_s, message) for message in messages]

    def _messages(self, name: str, record: Any) -> Iterator[Kind]:
        """Messages of a record; none if its type is skipped."""
        if name in self._rules:
            rule, context = self._rules[name]
            yield from rule.messages(record, context)

    # ---- truth and frames, specific to each feed -----------------------------------------------------------------

    @abstractmethod
    def _note(self, step: Step) -> None:
        """Record the times within a step for which truth is due."""

    @abstractmethod
    def _noted(self) -> Iterable[Kind]:
        """Truth at the recorded times."""

    @abstractmethod
    def _framed(self) -> list[OnBoard]:
        """Sensors with their own frame."""

    def _mounts(self) -> list[tuple[str, str, Pose]]:
        """Parent, child and pose of the frames of sensors, then of their child frames."""
        placed, beneath = [], []
        for sensor in self._framed():
            parent = MAP if sensor.entry.vehicle is None else self.vehicles[sensor.entry.vehicle].frame
            frame = self.sensors[sensor.name].frame
            placed.append((parent, frame, sensor.mount))
            beneath += [(frame, child, pose) for child, pose in topic_rule(sensor).child_frames(sensor, frame)]
        return placed + beneath + [(MAP, frame, pose) for frame, pose in self._fixed().items()]

    def _fixed(self) -> dict[str, Pose]:
        """Frames in `map` that belong to sensors; of several at different places, each has its sensor as prefix."""
        found: dict[str, Pose] = {}
        for sensor in self._framed():
            for frame, pose in topic_rule(sensor).map_frames(sensor, self.scenario.world):
                same = frame not in found or np.array_equal(found[frame].xyz, pose.xyz)
                found[frame if same else f"{ros_name(sensor.name)}/{frame}"] = pose
        return found

    def _check_distinct(self, topics: list[str]) -> None:
        vehicles = [vehicle.frame for vehicle in self.vehicles.values()]
        check_distinct(topics, [MAP, *vehicles, *(child for _, child, _ in self._mounts())])


class Due:
    """Selects about one of increasing times per period."""

    def __init__(self, period_s: float) -> None:
        self._period_s, self._next = period_s, 0.0

    def __call__(self, time_s: float) -> bool:
        """Return whether a time [s] is due."""
        if time_s < self._next - 1e-9:
            return False
        self._next = (np.floor(time_s / self._period_s + 1e-6) + 1.0) * self._period_s
        return True
