"""The outlet of a stream that speaks ROS 2: everything that a bag of the scenario would hold, as it happens."""

from __future__ import annotations

import time as wall
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from parhelion.io.ros.types import Message
from parhelion.live.dds import Sent
from parhelion.outputs.ros.feed import RosFeed
from parhelion.outputs.ros.rules import Images, Layout
from parhelion.scenario.scenario import Scenario, Step


class Node(Protocol):
    """A node of ROS 2: `DdsNode` or `RclpyNode`."""

    sent: dict[str, Sent]

    def publish(self, message: Message) -> bool:
        """Send a message."""
        ...

    def advertise(self, topic: str, type_name: str) -> None:
        """Make a topic known before its first message."""
        ...

    def subscribers(self, topic: str) -> int:
        """How many subscribe to a topic that is published here."""
        ...

    def close(self) -> None:
        """Leave off."""
        ...


class RosOutlet:
    """Publishes the messages of a scenario. They are made where the scenario is measured; sending them is quick.

    A scenario that begins anew goes on in time: the clock of ROS never jumps back.
    """

    def __init__(
        self,
        scenario: Scenario,
        node: Node,
        *,
        topics: Mapping[str, str] | None = None,
        frames: Mapping[str, str] | None = None,
        layout: Layout = "driver",
        images: Images = "raw",
        batch_s: float = 0.1,
        epoch_s: float = 0.0,
    ) -> None:
        """The options are those of `RosFeed`; a stream has to be ahead by more than `batch_s`."""
        self.node = node
        self._scenario = scenario
        self._options: dict[str, Any] = {
            "topics": topics, "frames": frames, "layout": layout, "images": images, "batch_s": batch_s
        }  # fmt: skip
        self._rounds, self._first_s, self._epoch_s = 0, epoch_s, epoch_s
        self._feed = RosFeed(scenario, **self._options, epoch_s=epoch_s)
        for message in self._feed.first():
            node.publish(message)
        self.topics = self._feed.advertised
        """Types of the sensors' topics."""
        for topic, kind in self.topics.items():
            node.advertise(topic, kind)

    def prepare(self, step: Step) -> list[tuple[float, Message]]:
        """Messages that are complete with a step, and when each is to be sent [s]."""
        if step.number == 0:
            whole = self._scenario.steps * self._scenario.settings.step_s
            self._epoch_s = self._first_s + self._rounds * whole
            self._feed = RosFeed(self._scenario, **self._options, epoch_s=self._epoch_s)
            self._rounds += 1
        return self._timed(self._feed.of(step))

    def rest(self) -> list[tuple[float, Message]]:
        """Messages that were still held back, after the last step."""
        return self._timed(self._feed.last())

    def _timed(self, messages: list[Message]) -> list[tuple[float, Message]]:
        return [(1e-9 * message.time_ns - self._epoch_s, message) for message in messages]

    def take(self, step: Message) -> None:
        """Send a message."""
        self.node.publish(step)

    def close(self) -> None:
        """Leave the domain."""
        self.node.close()

    def wait_for_subscriber(self, seconds: float, check: Callable[[], None] = lambda: None) -> bool:
        """Wait until somebody subscribes to a sensor's topic, at most `seconds`; `check` is called meanwhile."""
        until = wall.monotonic() + seconds
        while wall.monotonic() < until:
            if any(self.node.subscribers(topic) for topic in self.topics):
                return True
            check()
            wall.sleep(0.02)
        return False
