"""ROS 2 messages of every step of a scenario, on the topics of the real drivers.

    feed = RosFeed(scenario)
    send(feed.first())                      # static transforms
    for step in scenario:
        send(feed.of(step))                 # measurements, truth, transforms, clock

A scan is stamped with the time of its first shot, as in ouster-ros, and in velodyne_driver with timestamp_first_packet.
Times of points are relative to it. The scan is sent after its last shot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from parhelion.core.pose import quat_conjugate, quat_rotate
from parhelion.io.ros import messages as ros
from parhelion.io.ros.messages import Message, Transform
from parhelion.io.ros.types import HUMBLE, check_distro
from parhelion.outputs.feed import Due, Feed
from parhelion.outputs.ros.objects import OBJECTS_PERIOD_S, ObjectMessages
from parhelion.outputs.ros.rules import Images, TopicContext, rule_of
from parhelion.outputs.topics import (
    BASE,
    MAP,
    Layout,
    TopicName,
    check_names,
    ros_name,
    sensor_names,
    topic_rule,
    vehicle_names,
)
from parhelion.scenario.sensors import OnBoard

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step

TRUTH_PERIOD_S = 0.01
"""Period of truth, transforms and clock [s]; once per step if steps are longer."""


class RosFeed(Feed[Message]):
    """Converts the steps of a scenario to ROS messages in chronological order."""

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
        objects: bool = True,
        distro: str = HUMBLE,
    ) -> None:
        """Start a feed. `topics` and `frames` override the names of the drivers, by sensor or vehicle.

        For a vehicle, `topics` holds the prefix of its topics. `layout` is the layout of point clouds; 'driver' selects
        that of the sensor's maker, and LaserScan for lidars that scan one plane. `images` is raw, png, jpeg, raw+png or
        raw+jpeg. `epoch_s` [s] is the time at the start of the scenario. With `batch_s` [s], messages are created in
        batches of that duration, which is faster. `objects` includes the truth of movable and dynamic objects. `distro`
        is the distribution of ROS 2.
        """
        self._objects = ObjectMessages(scenario) if objects else None
        given_topics, given_frames = dict(topics or {}), dict(frames or {})
        check_names(scenario, given_topics, given_frames)
        sensors = sensor_names(scenario, given_topics, given_frames, layout)
        super().__init__(scenario, sensors, vehicle_names(scenario, given_topics, given_frames), epoch_s, batch_s)
        self._settle_frames(given_frames)
        self._check_distinct([named.topic for named in self.sensors.values()])
        self._layout: Layout = layout
        self._images: Images = images
        self._distro = check_distro(distro)
        for sensor in scenario.sensors:
            self._add_rule(sensor)
        self._mounts_sent = scenario.mount_changes
        self._every = max(1, round(TRUTH_PERIOD_S / scenario.settings.step_s))

    def _add_rule(self, sensor: OnBoard) -> None:
        rule, named = rule_of(sensor), self.sensors[sensor.name]
        if rule is not None:
            context = TopicContext(
                sensor, named.topic, named.frame, self._layout, self.stamp, self._images, self._distro
            )
            self._rules[sensor.name] = rule, context

    def of(self, step: Step) -> list[Message]:
        """Messages that are complete after a step, in chronological order; mounts that changed are sent again."""
        changed = self.scenario.mount_changes != self._mounts_sent
        for sensor in self.scenario.sensors:
            if sensor.name not in self.sensors:
                self._adopt(sensor)
                changed = True
        if changed:
            self._mounts_sent = self.scenario.mount_changes
            self._held += self._static(self.stamp(step.time))
        return super().of(step)

    def _adopt(self, sensor: OnBoard) -> None:
        """Add a sensor that was attached during the run; topics and frames of the others remain."""
        topic, frame = topic_rule(sensor).names(sensor, self._layout)
        if any(topic == named.topic for named in self.sensors.values()):
            topic = f"/{ros_name(sensor.name)}{topic}"
        if frame != BASE and any(frame == named.frame for named in self.sensors.values()):
            frame = f"{ros_name(sensor.name)}/{frame}"
        self.sensors[sensor.name] = TopicName(topic, frame)
        self._add_rule(sensor)

    def _settle_frames(self, given: Mapping[str, str]) -> None:
        """Set the frame of odometry: that of the vehicle if the sensor is at its origin, otherwise `axle_link`."""
        for sensor in self.scenario.sensors:
            if not topic_rule(sensor).of_vehicle or sensor.name in given:
                continue
            vehicle = self.vehicles[sensor.entry.vehicle or ""]
            here = np.allclose(sensor.mount.xyz, 0.0) and np.allclose(np.abs(sensor.mount.quat_xyzw[3]), 1.0)
            frame = vehicle.frame if here else vehicle.frame.removesuffix(BASE) + "axle_link"
            self.sensors[sensor.name] = TopicName(self.sensors[sensor.name].topic, frame)

    def _framed(self) -> list[OnBoard]:
        """Sensors with their own frame."""
        shared = {vehicle.frame for vehicle in self.vehicles.values()}
        return [
            sensor
            for sensor in self.scenario.sensors
            if rule_of(sensor) is not None
            and not (topic_rule(sensor).of_vehicle and self.sensors[sensor.name].frame in shared)
        ]

    @property
    def advertised(self) -> dict[str, str]:
        """Topics that the sensors always have, and their types."""
        found: dict[str, str] = {}
        for rule, context in self._rules.values():
            found |= rule.topics(context)
        return found

    @property
    def advertised_truth(self) -> dict[str, str]:
        """Topics of ground truth that are always there, and their types."""
        return {} if self._objects is None else self._objects.advertised

    def restart(self) -> None:
        """Restart together with the scenario."""
        super().restart()
        self._truth_at: list[float] = []
        self._objects_due = Due(OBJECTS_PERIOD_S)
        if self._objects is not None:
            self._objects.restart()

    def first(self) -> list[Message]:
        """Messages that are sent once, at the start: mounts on /tf_static, and markers of places."""
        self.restart()
        found = self._static(self.stamp(0.0))
        for rule, context in self._rules.values():
            found += rule.once(context, self.scenario.world)
        return found

    def _static(self, at: int) -> list[Message]:
        placed = [Transform(parent, child, at, pose.xyz, pose.quat_xyzw) for parent, child, pose in self._mounts()]
        return [Message("/tf_static", ros.TF, at, ros.tf_message(placed))] if placed else []

    # ---- truth -------------------------------------------------------------------------------------------------

    def _note(self, step: Step) -> None:
        if step.number == 0:
            self._truth_at.append(0.0)
        if (step.number + 1) % self._every == 0:
            self._truth_at.append(step.time)
        if self._objects is not None:
            for time in (0.0, step.time) if step.number == 0 else (step.time,):
                if self._objects_due(time):
                    self._held += self._objects.note(time, self.stamp(time))
        at = self.stamp(step.time)
        for one in step.collisions:
            data = ros.collision(at, MAP, one.body, one.other, one.xyz, one.normal, one.impulse_n_s)
            topic = f"{self.vehicles[one.body].topic}/ground_truth/collisions"
            self._held.append(Message(topic, ros.DIAGNOSTICS, at, data))

    def _noted(self) -> Iterator[Message]:
        if self._objects is not None:
            yield from self._objects.noted()
        times, self._truth_at = np.array(self._truth_at), []
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
