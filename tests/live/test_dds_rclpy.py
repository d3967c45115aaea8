"""The node on an installed ROS, against a mock of `rclpy` that records its calls."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rosbags", reason="ROS messages need rosbags")

from parhelion.core.errors import ConfigError, MissingDependencyError
from parhelion.io.ros import messages as ros
from parhelion.io.ros.messages import Message
from parhelion.live.ros import RclpyNode

VARIABLES = ("ROS_LOCALHOST_ONLY", "ROS_AUTOMATIC_DISCOVERY_RANGE")


class StandIn:
    """The part of rclpy that the node calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.published: list[tuple[str, Any]] = []
        self.heard: list[bytes] = []
        self.callback: Any = None

    def create_publisher(self, kind: Any, topic: str, qos: Any) -> Any:
        self.calls.append(("publisher", kind.__name__, topic, qos))
        return SimpleNamespace(
            publish=lambda data: self.published.append((topic, data)), get_subscription_count=lambda: 2
        )

    def create_subscription(self, kind: Any, topic: str, callback: Any, qos: Any, *, raw: bool) -> None:
        assert raw
        self.callback = callback
        self.calls.append(("subscription", kind.__name__, topic, qos))

    def destroy_node(self) -> None:
        self.calls.append("destroyed")

    def spin_once(self, timeout_sec: float) -> None:
        assert timeout_sec == 0.0
        if self.heard:
            self.callback(self.heard.pop(0))


@pytest.fixture
def rclpy(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    made = StandIn()

    def module(name: str, **names: Any) -> None:
        one = ModuleType(name)
        vars(one).update(names)
        monkeypatch.setitem(sys.modules, name, one)

    executor = SimpleNamespace(
        add_node=lambda node: None, spin_once=made.spin_once, shutdown=lambda: made.calls.append("executor ended")
    )
    module(
        "rclpy",
        Context=lambda: "context",
        init=lambda **options: made.calls.append(("init", options)),
        create_node=lambda name, context: made,
        shutdown=lambda context: made.calls.append("shut down"),
    )
    module("rclpy.executors", SingleThreadedExecutor=lambda context: executor)
    policies = SimpleNamespace(RELIABLE="reliable", BEST_EFFORT="best effort", KEEP_LAST="keep last")
    durability = SimpleNamespace(TRANSIENT_LOCAL="transient local", VOLATILE="volatile")
    module(
        "rclpy.qos", QoSProfile=lambda **fields: fields, DurabilityPolicy=durability, HistoryPolicy=policies,
        ReliabilityPolicy=policies,
    )  # fmt: skip
    for package, names in {
        "sensor_msgs": ("PointCloud2", "Imu"), "tf2_msgs": ("TFMessage",), "geometry_msgs": ("Twist",),
    }.items():  # fmt: skip
        module(package)
        module(f"{package}.msg", **{name: type(name, (), {}) for name in names})
    for name in VARIABLES:
        # Set first, so that the changes made by the node are undone too.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    yield made
    for name in VARIABLES:
        os.environ.pop(name, None)


def test_ready_bytes_are_published_with_the_qualities_of_drivers(rclpy: StandIn) -> None:
    with RclpyNode(7) as node:
        node.publish(Message("/points", ros.POINT_CLOUD, 0, b"cloud"))
        node.publish(Message("/points", ros.POINT_CLOUD, 0, b"another"))
        node.publish(Message("/tf_static", ros.TF, 0, b"transforms"))
        assert node.subscribers("/points") == 2
        assert node.subscribers("/nothing") == 0
        assert node.sent["/points"].bytes == 12
        with pytest.raises(ConfigError, match="/points carries"):
            node.publish(Message("/points", ros.IMU, 0, b""))
    assert rclpy.published == [("/points", b"cloud"), ("/points", b"another"), ("/tf_static", b"transforms")]
    assert rclpy.calls[0] == ("init", {"context": "context", "domain_id": 7})
    made = {call[2]: (call[1], call[3]) for call in rclpy.calls if call[0] == "publisher"}
    kind, qos = made["/points"]
    assert kind == "PointCloud2"
    assert qos == {"history": "keep last", "depth": 5, "reliability": "best effort", "durability": "volatile"}
    assert made["/tf_static"][1]["durability"] == "transient local"
    assert made["/tf_static"][1]["reliability"] == "reliable"
    assert rclpy.calls[-3:] == ["executor ended", "destroyed", "shut down"]


def test_all_can_be_reliable(rclpy: StandIn) -> None:
    with RclpyNode(reliable=True) as node:
        node.advertise("/points", ros.POINT_CLOUD)
    assert next(call for call in rclpy.calls if call[0] == "publisher")[3]["reliability"] == "reliable"


def test_bytes_are_received(rclpy: StandIn) -> None:
    with RclpyNode() as node:
        heard = node.subscribe("/cmd_vel", "geometry_msgs/msg/Twist")
        rclpy.heard = [b"one", b"two"]
        assert heard.take() == [b"one", b"two"]
        assert heard.take() == []


def test_ros_stays_on_this_machine_by_default(rclpy: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    RclpyNode(interface="any").close()
    assert not any(name in os.environ for name in VARIABLES)
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET")
    RclpyNode().close()
    assert "ROS_LOCALHOST_ONLY" not in os.environ
    monkeypatch.delenv("ROS_AUTOMATIC_DISCOVERY_RANGE")
    RclpyNode().close()
    assert (os.environ["ROS_LOCALHOST_ONLY"], os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"]) == ("1", "LOCALHOST")


def test_missing_packages_are_reported(rclpy: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    with RclpyNode() as node, pytest.raises(MissingDependencyError, match="ros-<distro>-nav-msgs"):
        node.advertise("/odom", ros.ODOMETRY)
    monkeypatch.setitem(sys.modules, "rclpy", None)
    with pytest.raises(MissingDependencyError, match="install ROS 2"):
        RclpyNode()
