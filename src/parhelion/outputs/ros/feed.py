"""A scenario as ROS 2 sees it: the messages of every step, on the topics of the real drivers.

    feed = RosFeed(scenario)
    send(feed.first())                      # static transforms
    for step in scenario:
        send(feed.of(step))                 # what was measured, truth, transforms, clock

A scan is stamped with the time of its first shot, as ouster-ros does, and velodyne_driver with timestamp_first_packet;
the points' own times count from there. It is sent when its last shot is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, quat_conjugate, quat_rotate
from parhelion.io.ros import messages as ros
from parhelion.io.ros.messages import Message, Transform
from parhelion.outputs.ros.rules import Images, TopicContext, rule_of
from parhelion.outputs.topics import (
    BASE,
    MAP,
    Layout,
    TopicName,
    check_distinct,
    check_names,
    sensor_names,
    topic_rule,
    vehicle_names,
)
from parhelion.scenario.sensors import OnBoard

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step

TRUTH_PERIOD_S = 0.01
"""Truth, transforms and clock are told this often, or once a step where steps are longer."""


class RosFeed:
    """Turns the steps of a scenario into messages, in the order of time."""

    def __init__(
        self,
        scenario: Scenario,
        topics: Mapping[str, str] | None = None,
        frames: Mapping[str, str] | None = None,
        layout: Layout = "driver",
        *,
        images: Images = "raw",
        epoch_s: float = 0.0,
        batch_s: float = 0.0,
    ) -> None:
        """`topics` and `frames` name them by sensor or vehicle, other than the drivers' own.

        For a vehicle, `topics` is what its topics begin with. `layout` is that of point clouds; 'driver' takes the
        sensor maker's, with a LaserScan for lidars of one plane. `images` compresses pictures, as png or jpeg.
        `epoch_s` [s] is the time at the scenario's start. With `batch_s` [s] messages are held back and given together
        for so long a time, which costs less.
        """
        self.scenario = scenario
        given_topics, given_frames = dict(topics or {}), dict(frames or {})
        check_names(scenario, given_topics, given_frames)
        if not (np.isfinite(epoch_s) and epoch_s >= 0.0):
            raise ConfigError(f"epoch_s: must be finite and not negative, got {epoch_s!r}")
        if not (np.isfinite(batch_s) and 0.0 <= batch_s <= 3600.0):
            raise ConfigError(f"batch_s: must be from 0 to 3600 s, got {batch_s!r}")
        self._layout, self._epoch_ns, self._batch_s = layout, round(epoch_s * 1e9), batch_s
        self.sensors = sensor_names(scenario, given_topics, given_frames, layout)
        self.vehicles = vehicle_names(scenario, given_topics, given_frames)
        self._settle_frames(given_frames)
        check_distinct(
            [named.topic for named in self.sensors.values()],
            [
                MAP,
                *(v.frame for v in self.vehicles.values()),
                *(self.sensors[s.name].frame for s in self._framed()),
                *(transform.child for transform in self._beneath(0)),
            ],
        )
        self._told = {
            sensor.name: (rule, TopicContext(sensor, *self._called(sensor), layout, self.stamp, images))
            for sensor in scenario.sensors
            if (rule := rule_of(sensor)) is not None
        }
        self._every = max(1, round(TRUTH_PERIOD_S / scenario.settings.step_s))
        self.restart()

    def _called(self, sensor: OnBoard) -> tuple[str, str]:
        named = self.sensors[sensor.name]
        return named.topic, named.frame

    def _settle_frames(self, given: Mapping[str, str]) -> None:
        """What is told of a vehicle has the vehicle's own frame where the sensor is there, else one at the axle."""
        for sensor in self.scenario.sensors:
            if not topic_rule(sensor).of_vehicle or sensor.name in given:
                continue
            vehicle = self.vehicles[sensor.entry.vehicle or ""]
            here = np.allclose(sensor.mount.xyz, 0.0) and np.allclose(np.abs(sensor.mount.quat_xyzw[3]), 1.0)
            frame = vehicle.frame if here else vehicle.frame.removesuffix(BASE) + "axle_link"
            self.sensors[sensor.name] = TopicName(self.sensors[sensor.name].topic, frame)

    def _framed(self) -> list[OnBoard]:
        """Sensors with a frame of their own."""
        shared = {vehicle.frame for vehicle in self.vehicles.values()}
        return [
            sensor
            for sensor in self.scenario.sensors
            if rule_of(sensor) is not None
            and not (topic_rule(sensor).of_vehicle and self.sensors[sensor.name].frame in shared)
        ]

    def _beneath(self, at: int) -> list[Transform]:
        """Frames that hang on those of sensors."""
        return [
            Transform(self.sensors[sensor.name].frame, frame, at, pose.xyz, pose.quat_xyzw)
            for sensor in self._framed()
            for frame, pose in topic_rule(sensor).child_frames(sensor, self.sensors[sensor.name].frame)
        ]

    @property
    def advertised(self) -> dict[str, str]:
        """Topics that the sensors are sure to have, and their types."""
        found: dict[str, str] = {}
        for rule, telling in self._told.values():
            found |= rule.advertised(telling)
        return found

    def restart(self) -> None:
        """Begin anew, with the scenario."""
        self._held: list[Message] = []
        self._truth_at: list[float] = []
        self._asked, self._now = 0.0, 0.0

    def stamp(self, time_s: float) -> int:
        """A time of the scenario [s] as ROS has it [ns]."""
        return self._epoch_ns + round(time_s * 1e9)

    def first(self) -> list[Message]:
        """What is told once, at the start: where the sensors are mounted, on /tf_static."""
        self.restart()
        at = self.stamp(0.0)
        placed = []
        for sensor in self._framed():
            parent = MAP if sensor.entry.vehicle is None else self.vehicles[sensor.entry.vehicle].frame
            frame = self.sensors[sensor.name].frame
            placed.append(Transform(parent, frame, at, sensor.mount.xyz, sensor.mount.quat_xyzw))
        placed += self._beneath(at)
        return [Message("/tf_static", ros.TF, at, ros.tf_message(placed))] if placed else []

    def of(self, step: Step) -> list[Message]:
        """All messages of a step, in the order of time. Steps are given one after the other, from the first."""
        for name, frames in step.frames.items():
            for _, record in frames:
                self._held += self._messages(name, record)
        for name, samples in step.new_samples().items():
            self._held += self._messages(name, samples)
        if step.number == 0:
            self._truth_at.append(0.0)
        if (step.number + 1) % self._every == 0:
            self._truth_at.append(step.time)
        self._now = step.time
        return self.last() if self._now - self._asked >= self._batch_s - 1e-9 else []

    def last(self) -> list[Message]:
        """The messages that are still held back, after the last step."""
        if self._now > self._asked:
            self._held += self._truth(np.array(self._truth_at))
            self._truth_at = []
        self._asked = self._now
        found, self._held = self._held, []
        return sorted(found, key=lambda message: message.time_ns)

    def _messages(self, name: str, record: Any) -> Iterator[Message]:
        """What ROS makes of a record; nothing where it leaves that type out."""
        if name in self._told:
            rule, telling = self._told[name]
            yield from rule.messages(record, telling)

    # ---- truth -------------------------------------------------------------------------------------------------

    def _truth(self, times: Floats) -> Iterator[Message]:
        states = {name: self.scenario.body(name).state(times) for name in self.vehicles} if len(times) else {}
        for row, time in enumerate(times.tolist()):
            at = self.stamp(time)
            moved = []
            yield Message("/clock", ros.CLOCK, at, ros.clock(at))
            for name, named in self.vehicles.items():
                state = states[name]
                xyz, quat = state.xyz[row], state.quat_xyzw[row]
                moved.append(Transform(MAP, named.frame, at, xyz, quat))
                velocity = quat_rotate(quat_conjugate(quat), state.velocity[row])
                data = ros.odometry(at, MAP, named.frame, xyz, quat, velocity, state.angular_velocity[row])
                yield Message(f"{named.topic}/ground_truth/odom", ros.ODOMETRY, at, data)
                yield Message(f"{named.topic}/ground_truth/pose", ros.POSE, at, ros.pose_stamped(at, MAP, xyz, quat))
            if moved:
                yield Message("/tf", ros.TF, at, ros.tf_message(moved))
