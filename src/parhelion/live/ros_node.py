"""ROS 2 topics through `rclpy`, where ROS is installed: the same node as `DdsNode`, on the ROS that is there."""

from __future__ import annotations

import importlib
import os
from collections import deque
from typing import Any

from parhelion.core.errors import ConfigError, MissingDependencyError
from parhelion.io.ros.types import Message
from parhelion.live.dds import LATCHED_TOPICS, LOOPBACK, Quality, Sent, check_domain

INSTALL_RCLPY = (
    "rclpy is not there: install ROS 2 (https://docs.ros.org, packages ros-<distro>-rclpy and "
    "ros-<distro>-common-interfaces) and run 'source /opt/ros/<distro>/setup.bash' first, or leave out --rclpy"
)
_ONLY_HERE = {"ROS_LOCALHOST_ONLY": "1", "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
"""Variables by which ROS stays on this machine: until Humble, and since Iron."""


class RclpyNode:
    """A node of ROS 2 that publishes ready CDR bytes and receives them.

    On interface 'lo' ROS is told to stay on this machine, unless its own variables say otherwise already; with any
    other it does what its variables say.
    """

    def __init__(self, domain: int = 0, interface: str = LOOPBACK, *, reliable: bool = False) -> None:
        check_domain(domain)
        try:
            import rclpy
            from rclpy.executors import SingleThreadedExecutor
        except ImportError:
            raise MissingDependencyError(INSTALL_RCLPY) from None
        self.domain, self.interface, self.reliable = domain, interface, reliable
        self.sent: dict[str, Sent] = {}
        """By topic."""
        if interface == LOOPBACK and not any(name in os.environ for name in _ONLY_HERE):
            os.environ.update(_ONLY_HERE)
        self._rclpy = rclpy
        self._context = rclpy.Context()
        rclpy.init(context=self._context, domain_id=domain)
        self._node = rclpy.create_node("parhelion", context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._publishers: dict[str, Any] = {}
        self._open = True

    def publish(self, message: Message) -> bool:
        """Send a message."""
        self.advertise(message.topic, message.type)
        told = self.sent[message.topic]
        if told.type != message.type:
            raise ConfigError(f"ROS: {message.topic} carries {told.type}, not {message.type}")
        self._publishers[message.topic].publish(message.data)
        told.messages += 1
        told.bytes += len(message.data)
        return True

    def advertise(self, topic: str, type_name: str) -> None:
        """Make a topic known before its first message."""
        if topic not in self._publishers:
            quality = Quality.of(topic, type_name, self.reliable)
            self._publishers[topic] = self._node.create_publisher(_message_class(type_name), topic, _profile(quality))
            self.sent[topic] = Sent(type_name)

    def subscribers(self, topic: str) -> int:
        """How many subscribe to a topic that is published here."""
        publisher = self._publishers.get(topic)
        return 0 if publisher is None else int(publisher.get_subscription_count())

    def subscribe(self, topic: str, type_name: str, quality: Quality | None = None) -> RawSubscription:
        """Receive a topic from now on; reliable unless a quality says otherwise."""
        quality = quality or Quality(reliable=True, latched=topic in LATCHED_TOPICS)
        received = RawSubscription(topic, type_name, self._executor, quality.depth)
        self._node.create_subscription(
            _message_class(type_name), topic, received.keep, _profile(quality), raw=True
        )  # fmt: skip
        return received

    def close(self) -> None:
        """Leave ROS. Closing twice does no harm."""
        if self._open:
            self._open = False
            self._executor.shutdown()
            self._node.destroy_node()
            self._rclpy.shutdown(context=self._context)

    def __enter__(self) -> RclpyNode:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RawSubscription:
    """A topic that is received as CDR bytes."""

    def __init__(self, topic: str, type_name: str, executor: Any, depth: int) -> None:
        self.topic, self.type = topic, type_name
        self._executor = executor
        self._kept: deque[bytes] = deque(maxlen=depth)

    def keep(self, data: bytes) -> None:
        """Called by ROS with a message."""
        self._kept.append(bytes(data))

    def take(self) -> list[bytes]:
        """The CDR bytes of messages that came since the last call, oldest first."""
        # One call does one piece of work, so as many are asked for as may wait.
        for _ in range(self._kept.maxlen or 1):
            before = len(self._kept)
            self._executor.spin_once(timeout_sec=0.0)
            if len(self._kept) == before:
                break
        got = list(self._kept)
        self._kept.clear()
        return got


def _message_class(type_name: str) -> Any:
    package, _, message = type_name.partition("/msg/")
    try:
        return getattr(importlib.import_module(f"{package}.msg"), message)
    except (ImportError, AttributeError):
        raise MissingDependencyError(
            f"the ROS that is there has no {type_name}: install ros-<distro>-{package.replace('_', '-')}"
        ) from None


def _profile(quality: Quality) -> Any:
    from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=quality.depth,
        reliability=ReliabilityPolicy.RELIABLE if quality.reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if quality.latched else DurabilityPolicy.VOLATILE,
    )
