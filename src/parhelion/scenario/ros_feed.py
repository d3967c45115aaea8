"""A scenario as ROS 2 sees it: the messages of every step, on the topics of the real drivers.

    feed = RosFeed(scenario)
    send(feed.first())                      # static transforms
    for step in scenario:
        send(feed.of(step))                 # clouds, samples, truth, transforms, clock

A scan is stamped with the time of its first shot, as ouster-ros does, and velodyne_driver with timestamp_first_packet;
the points' own times count from there. It is sent when its last shot is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, quat_conjugate, quat_rotate
from parhelion.core.records import Scan
from parhelion.io.ros import messages as ros
from parhelion.io.ros.messages import Message, Transform
from parhelion.scenario.ros_names import (
    BASE,
    MAP,
    ODOM,
    Named,
    check_distinct,
    check_names,
    is_flat,
    maker_of,
    sensor_names,
    vehicle_names,
)
from parhelion.scenario.sensors import SamplerOnBoard, ScannerOnBoard
from parhelion.scenario.wheel_stream import WheelStream

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step

Layout = Literal["driver", "velodyne", "ouster", "all"]

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
        epoch_s: float = 0.0,
        batch_s: float = 0.0,
    ) -> None:
        """`topics` and `frames` name them by sensor or vehicle, other than the drivers' own.

        For a vehicle, `topics` is what its topics begin with. `layout` is that of point clouds; 'driver' takes the
        sensor maker's, with a LaserScan for lidars of one plane. `epoch_s` [s] is the time at the scenario's start.
        With `batch_s` [s] messages are held back and given together for so long a time, which costs much less: small
        sensors are asked for many samples at once. The messages are the same, but for the rounding of positions.
        """
        self.scenario = scenario
        given_topics, given_frames = dict(topics or {}), dict(frames or {})
        check_names(scenario, given_topics, given_frames)
        if not (np.isfinite(epoch_s) and epoch_s >= 0.0):
            raise ConfigError(f"epoch_s: must be finite and not negative, got {epoch_s!r}")
        if not (np.isfinite(batch_s) and 0.0 <= batch_s <= 3600.0):
            raise ConfigError(f"batch_s: must be from 0 to 3600 s, got {batch_s!r}")
        self._layout, self._epoch_ns, self._batch_s = layout, round(epoch_s * 1e9), batch_s
        self.sensors = sensor_names(scenario, given_topics, given_frames, flat_as_scan=layout == "driver")
        self.vehicles = vehicle_names(scenario, given_topics, given_frames)
        self._settle_wheels(given_frames)
        check_distinct(
            [named.topic for named in self.sensors.values()],
            [MAP, *(v.frame for v in self.vehicles.values()), *(self.sensors[s.name].frame for s in self._framed())],
        )
        self._every = max(1, round(TRUTH_PERIOD_S / scenario.settings.step_s))
        self.restart()

    def _settle_wheels(self, given: Mapping[str, str]) -> None:
        """Odometry is of the vehicle's own frame where its axle is there, else of a frame at the axle."""
        for sampler in self.scenario.samplers:
            if sampler.entry.type != "odometry" or sampler.name in given:
                continue
            vehicle = self.vehicles[sampler.entry.vehicle or ""]
            here = np.allclose(sampler.mount.xyz, 0.0) and np.allclose(np.abs(sampler.mount.quat_xyzw[3]), 1.0)
            frame = vehicle.frame if here else vehicle.frame.removesuffix(BASE) + "axle_link"
            self.sensors[sampler.name] = Named(self.sensors[sampler.name].topic, frame)

    def _framed(self) -> list[ScannerOnBoard | SamplerOnBoard]:
        """Sensors with a frame of their own."""
        shared = {vehicle.frame for vehicle in self.vehicles.values()}
        return [
            sensor
            for sensor in self.scenario.sensors
            if not (sensor.entry.type == "odometry" and self.sensors[sensor.name].frame in shared)
        ]

    def restart(self) -> None:
        """Begin anew, with the scenario."""
        self._held: list[Message] = []
        self._truth_at: list[float] = []
        self._asked, self._now = 0.0, 0.0
        self._wheels = {
            sampler.name: WheelStream(sampler, self.scenario.seed)
            for sampler in self.scenario.samplers
            if sampler.entry.type == "odometry"
        }

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
        return [Message("/tf_static", ros.TF, at, ros.tf_message(placed))] if placed else []

    def of(self, step: Step) -> list[Message]:
        """All messages of a step, in the order of time. Steps are given one after the other, from the first."""
        self._held += self._scans(step)
        if step.number == 0:
            self._truth_at.append(0.0)
        if (step.number + 1) % self._every == 0:
            self._truth_at.append(step.time)
        self._now = step.time
        return self.last() if self._now - self._asked >= self._batch_s - 1e-9 else []

    def last(self) -> list[Message]:
        """The messages that are still held back, after the last step."""
        if self._now > self._asked:
            for sampler in self.scenario.samplers:
                self._held += self._samples(sampler, self._asked, self._now)
            self._held += self._truth(np.array(self._truth_at))
            self._truth_at = []
        self._asked = self._now
        found, self._held = self._held, []
        return sorted(found, key=lambda message: message.time_ns)

    # ---- lidars ------------------------------------------------------------------------------------------------

    def _scans(self, step: Step) -> Iterator[Message]:
        scanners = {scanner.name: scanner for scanner in self.scenario.scanners}
        for name, scans in step.scans.items():
            for _, scan in scans:
                yield from self._scan(scanners[name], scan)

    def _scan(self, scanner: ScannerOnBoard, scan: Scan) -> Iterator[Message]:
        named, lidar = self.sensors[scanner.name], scanner.lidar
        stamp = self.stamp(scan.start_time)
        over = self.stamp(scan.start_time + float(scan.shots.time.max(initial=0.0)))
        if self._layout == "driver" and is_flat(scanner) and len(scan.shots) > 1:
            limits = lidar.config.range
            data = ros.laser_scan(
                scan, named.frame, stamp, range_min_m=limits.min_m, range_max_m=limits.max_m,
                scan_time_s=scanner.period_s,
            )  # fmt: skip
            yield Message(named.topic, ros.LASER_SCAN, over, data)
            return
        layout = self._layout
        if layout == "driver":
            layout = "ouster" if maker_of(scanner) == "ouster" else "velodyne"
        yield Message(named.topic, ros.POINT_CLOUD, over, ros.point_cloud2(scan, named.frame, stamp, layout))
        if layout == "ouster" and lidar.config.receiver.returns == "dual":
            # The driver's own name for the second return of each shot.
            data = ros.point_cloud2(scan, named.frame, stamp, layout, echo=1)
            yield Message(f"{named.topic}2", ros.POINT_CLOUD, over, data)

    # ---- small sensors -----------------------------------------------------------------------------------------

    def _samples(self, sampler: SamplerOnBoard, start: float, end: float) -> Iterator[Message]:
        named, kind = self.sensors[sampler.name], sampler.entry.type
        if kind == "odometry":
            found = self._wheels[sampler.name].until(end)
            if found is not None:
                yield from self._odometry(named, found)
            return
        samples = sampler.run(start, end - start, self.scenario.seed)
        wanted = np.flatnonzero(samples.time >= sampler.entry.phase_s - 1e-9)
        for row in wanted.tolist():
            at = self.stamp(float(samples.time[row]))
            if kind == "imu":
                yield Message(named.topic, ros.IMU, at, _imu(samples, row, at, named.frame))
            elif kind == "magnetometer":
                field, spread = samples.magnetic_field[row], samples.magnetic_field_covariance
                yield Message(named.topic, ros.MAGNETIC_FIELD, at, ros.magnetic_field(at, named.frame, field, spread))
            elif kind == "barometer":
                data = ros.fluid_pressure(at, named.frame, samples.pressure[row], samples.pressure_variance)
                yield Message(named.topic, ros.FLUID_PRESSURE, at, data)

    def _odometry(self, named: Named, found: Any) -> Iterator[Message]:
        for row in range(len(found)):
            at = self.stamp(float(found.time[row]))
            data = ros.odometry(
                at, ODOM, named.frame, found.xyz[row], found.quat_xyzw[row], found.velocity[row],
                found.angular_velocity[row],
            )  # fmt: skip
            yield Message(named.topic, ros.ODOMETRY, at, data)

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


def _imu(samples: Any, row: int, at: int, frame: str) -> bytes:
    return ros.imu(
        at, frame, samples.angular_rate[row], samples.specific_force[row],
        orientation=None if samples.orientation is None else samples.orientation[row],
        angular_rate_covariance=samples.angular_rate_covariance,
        specific_force_covariance=samples.specific_force_covariance,
        orientation_covariance=samples.orientation_covariance,
    )  # fmt: skip
