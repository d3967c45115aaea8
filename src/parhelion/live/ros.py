"""ROS 2 commands (`cmd_vel`), the node of an installed ROS, and the outlet of a stream."""

from __future__ import annotations

import importlib
import json
import math
import os
import queue
import threading
import time as wall
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from parhelion.core import config
from parhelion.core.errors import ConfigError, FormatError, MissingDependencyError
from parhelion.io.ros.types import HUMBLE, Message, decode, encode, new
from parhelion.live.dds import LOOPBACK, Node, Publisher, Quality, TopicSubscription, check_domain, is_latched
from parhelion.motion.vehicles.base import Command, DriveCommand, ThrustCommand, Vehicle, VelocityCommand
from parhelion.motion.vehicles.vessel import Vessel
from parhelion.outputs.ros.feed import RosFeed
from parhelion.outputs.ros.rules import Images
from parhelion.outputs.topics import Layout
from parhelion.scenario.scenario import Scenario, Step
from parhelion.scenario.schema import BagOutput
from parhelion.weather.daylight import Daylight
from parhelion.weather.media import whole_amounts
from parhelion.weather.weather import Weather

TWIST = "geometry_msgs/msg/Twist"
HOLD_S = 0.5
"""Wall time [s] without a command after which a vehicle stops, as robot controllers do."""
_SPEED_GAIN_1_S, _TURN_GAIN_1_S = 0.5, 2.0
"""Gains [1/s] of the controller of a vessel's speed and yaw rate."""


class TwistControl:
    """Controller of a vehicle by the Twist messages of a topic; call it after every step.

    Ground vehicles use linear.x [m/s] and angular.z [rad/s]; multirotors use linear and angular.z in the heading frame;
    vessels use linear.x and angular.z, which their thrusters approach. Before the first message the vehicle follows the
    scenario; after `hold_s` of wall time without a message, it stops.
    """

    def __init__(
        self,
        scenario: Scenario,
        vehicle: str,
        received: TopicSubscription,
        *,
        hold_s: float = HOLD_S,
        now: Callable[[], float] = wall.monotonic,
    ) -> None:
        driven = getattr(scenario.body(vehicle), "vehicle", None)
        if not isinstance(driven, Vehicle):
            raise ConfigError(
                f"cmd_vel: {vehicle} follows a path of the scenario and accepts no commands; give it a vehicle model"
            )
        self.name, self.topic, self.hold_s = vehicle, received.topic, hold_s
        self.messages = 0
        """Number of executed messages."""
        self.refused = 0
        """Number of ignored messages: damaged or not finite."""
        self._vehicle, self._received, self._now = driven, received, now
        self._step_s = scenario.settings.step_s
        self._twist: tuple[float, ...] | None = None
        self._since = -math.inf
        self._heading: float | None = None

    def __call__(self, step: Step) -> None:
        if step.number == 0:
            self._heading = None  # the scenario restarted, and the vehicle is at its start
        command = self.command()
        if command is not None:
            step.command(self.name, command)

    def command(self) -> Command | None:
        """Command for the next step; None before the first message."""
        for data in self._received.take():
            twist = _values(data)
            if twist is None:
                self.refused += 1
            else:
                self._twist, self._since = twist, self._now()
                self.messages += 1
        if self._twist is None:
            return None
        held = self._now() - self._since <= self.hold_s
        return self._as_command(self._twist if held else (0.0,) * 6)

    def _as_command(self, twist: tuple[float, ...]) -> Command:
        x, y, z, _, _, turn = twist
        vehicle = self._vehicle
        if DriveCommand in vehicle.accepts:
            return DriveCommand(x, turn)
        if VelocityCommand in vehicle.accepts:
            heading = vehicle.yaw_rad if self._heading is None else self._heading
            self._heading = heading + turn * self._step_s
            c, s = math.cos(vehicle.yaw_rad), math.sin(vehicle.yaw_rad)
            return VelocityCommand((c * x - s * y, s * x + c * y, z), self._heading)
        if isinstance(vehicle, Vessel):
            return _thrust(vehicle, x, turn)
        raise ConfigError(f"cmd_vel: cannot drive a {type(vehicle).__name__}")


def _thrust(vessel: Vessel, speed_m_s: float, turn_rad_s: float) -> ThrustCommand:
    """Thrust that brings a vessel to a speed and a yaw rate, and balances the drag."""
    config = vessel.config
    push = _SPEED_GAIN_1_S * vessel.moving_mass_kg * (speed_m_s - vessel.speed_m_s) + vessel.resistance_n(speed_m_s)
    drag = (config.linear_drag[5] + config.quadratic_drag[5] * abs(turn_rad_s)) * turn_rad_s
    torque = _TURN_GAIN_1_S * vessel.turning_inertia_kg_m2 * (turn_rad_s - vessel.yaw_rate_rad_s) + drag
    each = torque / (config.port.y_m - config.starboard.y_m)
    return ThrustCommand(0.5 * push - each, 0.5 * push + each)


def _values(data: bytes) -> tuple[float, ...] | None:
    """Linear [m/s] and angular [rad/s], or None for an invalid message."""
    try:
        message: Any = decode(TWIST, data)
    except FormatError:
        return None
    linear, angular = message.linear, message.angular
    values = tuple(float(v) for v in (linear.x, linear.y, linear.z, angular.x, angular.y, angular.z))
    return values if all(math.isfinite(value) for value in values) else None


# ---- weather and daylight -------------------------------------------------------------------------------------------


FLOAT = "std_msgs/msg/Float64"
STRING = "std_msgs/msg/String"
WEATHER, DAYLIGHT = "/weather", "/daylight"
STATE = f"{WEATHER}/state"
"""Topic of the current weather and daylight as JSON text, after every change."""
DAYLIGHT_FIELDS = ("sun_elevation_deg", "sun_azimuth_deg", "turbidity", "cloud_optical_depth")
"""Fields of daylight with a topic."""


class AirControl:
    """Controller of weather and daylight by Float64 messages; call it after every step.

    There is one topic per medium, `/weather/<field>` with the names of weather files, for example
    `/weather/rain_rate_mm_h`; 0 (for `visibility_m` also infinity) removes the medium. Sun and sky have
    `/daylight/sun_elevation_deg` and others. A change holds from the next step on, and `/weather/state` reports it.
    """

    def __init__(self, scenario: Scenario, node: Any = None) -> None:
        """Without a node, only `change` and `ask` make changes."""
        self.name = "weather and daylight"
        self.topic = "the sliders of the viewer" if node is None else f"{WEATHER}/..., {DAYLIGHT}/..."
        self.messages = 0
        """Number of executed messages."""
        self.refused = 0
        """Number of ignored messages: damaged, not finite or out of range."""
        self.refusal = ""
        """Reason of the last change that was refused; '' after one that was executed."""
        self.listeners: list[Callable[[dict[str, Any]], None]] = []
        """Functions that are called with the state after every change."""
        self._node, self._published = node, False
        self._wanted: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()
        self._asked: queue.Queue[tuple[str, str, float, queue.Queue[str]]] = queue.Queue(_MOST_ASKED)
        self.state: dict[str, Any] = {"time_s": 0.0, **_air(scenario)}
        """Time [s], weather and daylight after the last change."""
        self._clear: dict[str, float] = {name: one.clear for name, one in whole_amounts().items()}
        self._received = {} if node is None else air_subscriptions(node)
        if node is not None:
            node.advertise(STATE, STRING)

    def __call__(self, step: Step) -> None:
        changed = not self._published
        for (kind, name), received in self._received.items():
            for data in received.take()[-1:]:  # an earlier one of the same step would have no effect
                try:
                    refused = self._set(step, kind, name, float(decode(FLOAT, data).data))
                except FormatError as error:
                    refused = str(error)
                self.messages, self.refused = self.messages + (not refused), self.refused + bool(refused)
                changed |= not refused
        with self._lock:
            wanted, self._wanted = self._wanted, {}
        for (kind, name), value in wanted.items():
            refused = self._set(step, kind, name, value)
            self.messages, self.refused = self.messages + (not refused), self.refused + bool(refused)
            changed |= not refused
        while not self._asked.empty():
            kind, name, value, answer = self._asked.get_nowait()
            refused = self._set(step, kind, name, value)
            changed |= not refused
            answer.put(refused)
        if changed:
            self.publish(step)

    def change(self, kind: str, name: str, value: float) -> None:
        """Set a value from another thread after the next step, without waiting; a later call replaces an earlier."""
        with self._lock:
            self._wanted[kind, name] = value

    def ask(self, kind: str, name: str, value: float, seconds: float = 10.0) -> str:
        """Set a value from another thread, after the next step; return the reason if it is refused, otherwise ''."""
        answer: queue.Queue[str] = queue.Queue(1)
        try:
            self._asked.put_nowait((kind, name, value, answer))
            return answer.get(timeout=seconds)
        except queue.Full:
            return "too many requests are waiting"
        except queue.Empty:
            return f"no step within {seconds:g} s"

    def _set(self, step: Step, kind: str, name: str, value: float) -> str:
        """Apply one value; return the reason if it is refused, otherwise ''."""
        try:
            if kind == WEATHER:
                weather = step.world.weather or Weather()
                gone = value == 0.0 or value == self._clear[name]
                changed = weather.replace(**{name: None if gone else value})
                if changed != weather:
                    step.world.weather = changed
            else:
                fields = {} if step.world.daylight is None else step.world.daylight.model_dump(exclude_unset=True)
                if name.startswith("sun_"):
                    fields = {key: one for key, one in fields.items() if key not in _PLACE}
                step.world.daylight = config.parse(Daylight, {**fields, name: value}, DAYLIGHT)
        except ConfigError as error:
            self.refusal = str(error)
            return self.refusal
        self.refusal = ""
        return ""

    def publish(self, step: Step) -> None:
        """Publish the weather and daylight from this step on."""
        self.state = {"time_s": step.time, **_air(step)}
        self._published = True
        for listen in self.listeners:
            listen(self.state)
        if self._node is not None:
            self._node.publish(state_message(self.state))


def air_subscriptions(node: Any) -> dict[tuple[str, str], Any]:
    """Subscriptions to the topics of weather and daylight, by kind and field."""
    found = {(WEATHER, name): node.subscribe(f"{WEATHER}/{name}", FLOAT) for name in whole_amounts()}
    return found | {(DAYLIGHT, name): node.subscribe(f"{DAYLIGHT}/{name}", FLOAT) for name in DAYLIGHT_FIELDS}


def state_message(state: Mapping[str, Any]) -> Message:
    """Message of `/weather/state`."""
    data = encode(STRING, new(STRING, data=json.dumps(state)))
    return Message(STATE, STRING, round(state["time_s"] * 1e9), data)


_PLACE = ("time", "latitude_deg", "longitude_deg")
_MOST_ASKED = 64


def _air(of: Scenario | Step) -> dict[str, Any]:
    """Weather and daylight as in files."""
    weather, daylight = of.world.weather, of.world.daylight
    return {
        "weather": {} if weather is None else weather.to_mapping(),
        "daylight": {} if daylight is None else daylight.model_dump(mode="json", exclude_unset=True),
    }


# ---- ros node -------------------------------------------------------------------------------------------------------
# ROS 2 topics through `rclpy` of an installed ROS: the same interface as `DdsNode`.


INSTALL_RCLPY = (
    "rclpy is not installed: install ROS 2 (https://docs.ros.org, packages ros-<distro>-rclpy and "
    "ros-<distro>-common-interfaces) and run 'source /opt/ros/<distro>/setup.bash' first, or omit --rclpy"
)
NODE_NAME = "parhelion"
_ONLY_HERE = {"ROS_LOCALHOST_ONLY": "1", "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
"""Variables that restrict ROS to this machine: up to Humble, and from Iron on."""


class RclpyNode(Node):
    """Node of the installed ROS 2.

    On the interface 'lo', ROS is restricted to this machine unless its variables are already set. On other interfaces
    its variables apply.
    """

    def __init__(
        self, domain: int = 0, interface: str = LOOPBACK, *, reliable: bool = False, distro: str = HUMBLE
    ) -> None:
        check_domain(domain)
        try:
            import rclpy
            from rclpy.executors import SingleThreadedExecutor
        except ImportError:
            raise MissingDependencyError(INSTALL_RCLPY) from None
        super().__init__(domain, interface, reliable, distro)
        if interface == LOOPBACK and not any(name in os.environ for name in _ONLY_HERE):
            os.environ.update(_ONLY_HERE)
        self._rclpy = rclpy
        self._context = rclpy.Context()
        rclpy.init(context=self._context, domain_id=domain)
        self._node = rclpy.create_node(NODE_NAME, context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._publishers: dict[str, Any] = {}
        self._open = True

    def _send(self, message: Message) -> bool:
        self._publishers[message.topic].publish(message.data)
        return True

    def _announce(self, topic: str, type_name: str, quality: Quality) -> None:
        self._publishers[topic] = self._node.create_publisher(_message_class(type_name), topic, _profile(quality))

    def subscribers(self, topic: str) -> int:
        """Number of subscribers of a topic published by this node."""
        publisher = self._publishers.get(topic)
        return 0 if publisher is None else int(publisher.get_subscription_count())

    def subscribe(self, topic: str, type_name: str, quality: Quality | None = None) -> RawSubscription:
        """Subscribe to a topic; reliable unless a quality of service is given."""
        quality = quality or Quality(reliable=True, latched=is_latched(topic, type_name))
        received = RawSubscription(topic, type_name, self._executor, quality.depth)
        self._node.create_subscription(_message_class(type_name), topic, received.keep, _profile(quality), raw=True)
        return received

    def publishers(self, topic: str) -> list[Publisher]:
        """Publishers of a topic in the domain, except this node."""
        from rclpy.qos import ReliabilityPolicy

        found = self._node.get_publishers_info_by_topic(topic)
        return [
            Publisher(one.topic_type, one.qos_profile.reliability != ReliabilityPolicy.BEST_EFFORT)
            for one in found
            if one.node_name != NODE_NAME
        ]

    def close(self) -> None:
        """Shut down the node. Closing twice is allowed."""
        if self._open:
            self._open = False
            self._executor.shutdown()
            self._node.destroy_node()
            self._rclpy.shutdown(context=self._context)


class RawSubscription:
    """Subscription that delivers CDR bytes."""

    def __init__(self, topic: str, type_name: str, executor: Any, depth: int) -> None:
        self.topic, self.type = topic, type_name
        self._executor = executor
        self._kept: deque[tuple[bytes, int]] = deque(maxlen=depth)

    def keep(self, data: bytes) -> None:
        """Callback of ROS for a message."""
        self._kept.append((bytes(data), wall.time_ns()))

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for a message; return True if there is one."""
        until = wall.monotonic() + seconds
        while not self._kept and wall.monotonic() < until:
            self._executor.spin_once(timeout_sec=max(until - wall.monotonic(), 0.0))
        return bool(self._kept)

    def take(self) -> list[bytes]:
        """CDR bytes of the messages received since the last call, oldest first."""
        return [data for data, _ in self.take_timed()]

    def take_timed(self) -> list[tuple[bytes, int]]:
        """Like `take`, each with the wall time of receiving [ns since 1970]."""
        # One call handles one item, so it is called as often as items may wait.
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
            f"the installed ROS has no {type_name}: install ros-<distro>-{package.replace('_', '-')}"
        ) from None


def _profile(quality: Quality) -> Any:
    from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=quality.depth,
        reliability=ReliabilityPolicy.RELIABLE if quality.reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if quality.latched else DurabilityPolicy.VOLATILE,
    )


# ---- ros outlet -----------------------------------------------------------------------------------------------------
# Outlet of a stream for ROS 2: publishes everything that a bag of the scenario would contain.


def bag_entry(scenario: Scenario) -> BagOutput:
    """Entry of the scenario's bag, or the default one."""
    return next((one for one in scenario.settings.outputs if isinstance(one, BagOutput)), BagOutput(kind="bag"))


class RosOutlet:
    """Publisher of the messages of a scenario, which are created in the measuring thread.

    The time of a scenario that restarts continues: the clock of ROS never jumps back.
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
        objects: bool = True,
    ) -> None:
        """Options are those of `RosFeed`; the stream must be ahead by more than `batch_s`."""
        self.node = node
        self._feed = RosFeed(
            scenario,
            topics,
            frames,
            layout,
            images=images,
            epoch_s=epoch_s,
            batch_s=batch_s,
            objects=objects,
            distro=node.distro,
        )
        for message in self._feed.first():
            node.publish(message)
        self.topics = self._feed.advertised
        """Types of the sensors' topics."""
        for topic, kind in {**self.topics, **self._feed.advertised_truth}.items():
            node.advertise(topic, kind)

    @classmethod
    def of(cls, scenario: Scenario, node: Node, *, batch_s: float) -> RosOutlet:
        """Outlet with the topics, frames and fields of the scenario's bag."""
        bag = bag_entry(scenario)
        return cls(
            scenario,
            node,
            topics=bag.topics,
            frames=bag.frames,
            layout=bag.layout,
            images=bag.images,
            epoch_s=bag.epoch_s,
            batch_s=batch_s,
            objects=bag.objects,
        )

    def prepare(self, step: Step) -> list[tuple[float, Message]]:
        """Messages completed by a step, with their send times [s]."""
        return self._feed.timed(step)

    def rest(self) -> list[tuple[float, Message]]:
        """Remaining messages after the last step."""
        return self._feed.timed_rest()

    def take(self, step: Message) -> None:
        """Send a message."""
        self.node.publish(step)

    def close(self) -> None:
        """Leave the domain."""
        self.node.close()

    def wait_for_subscriber(self, seconds: float, check: Callable[[], None] = lambda: None) -> bool:
        """Wait up to `seconds` for a subscriber of a sensor topic; `check` is called in the meantime."""
        until = wall.monotonic() + seconds
        while wall.monotonic() < until:
            if any(self.node.subscribers(topic) for topic in self.topics):
                return True
            check()
            wall.sleep(0.02)
        return False
