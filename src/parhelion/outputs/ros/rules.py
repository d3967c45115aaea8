"""What ROS makes of each type of record: topic and frame as the real driver has them, and the messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from parhelion.core.echo import EchoScan
from parhelion.core.gnss import NO_FIX, GnssData
from parhelion.core.image import Image
from parhelion.core.inertial import BarometerData, ImuData, MagnetometerData, OdometryData
from parhelion.core.pose import Pose
from parhelion.core.radar import RadarScan
from parhelion.core.ranges import UwbData
from parhelion.core.readers import Readers
from parhelion.core.records import Scan
from parhelion.io.ros import messages as ros
from parhelion.io.ros.messages import Message
from parhelion.outputs.ros.images import image_messages, image_names, image_topics, image_type, optical_frames
from parhelion.outputs.ros.ranges import range_messages, range_names, range_topics, range_type
from parhelion.outputs.ros.waves import (
    cloud_type,
    echo_messages,
    echo_names,
    echo_topics,
    radar_messages,
    radar_names,
    radar_topics,
)
from parhelion.scenario.sensors import OnBoard

Layout = Literal["driver", "velodyne", "ouster", "all"]

Images = Literal["raw", "png", "jpeg"]
"""How pictures are told: sensor_msgs/Image, or CompressedImage of one of two kinds."""

MAP, ODOM, BASE = "map", "odom", "base_link"

LIDARS = {
    "velodyne": ("/velodyne_points", "velodyne"),
    "ouster": ("/ouster/points", "os_sensor"),
    "hesai": ("/lidar_points", "hesai_lidar"),
    "robosense": ("/rslidar_points", "rslidar"),
    "livox": ("/livox/lidar", "livox_frame"),
}
"""Topic and frame of lidars by maker."""
FLAT_LIDAR = ("/scan", "laser")
OTHER_LIDAR = ("/points", "lidar")


@dataclass(frozen=True)
class Telling:
    """How one sensor's records are told: its names, the layout of clouds, and the clock of stamps."""

    sensor: OnBoard
    topic: str
    frame: str
    layout: Layout
    stamp: Callable[[float], int]
    """A time of the scenario [s] as ROS has it [ns]."""
    images: Images = "raw"


@dataclass(frozen=True)
class RosRule:
    """What ROS makes of one type of record."""

    names: Callable[[OnBoard, Layout], tuple[str, str]]
    """Topic and frame of a sensor, as the real driver names them."""
    type: Callable[[OnBoard, Layout], str]
    """Type of the messages on that topic."""
    messages: Callable[[Any, Telling], Iterator[Message]]
    """The messages of a record."""
    of_vehicle: bool = False
    """Whether what it tells is of its vehicle's frame, not of one of its own."""
    topics: Callable[[Telling], dict[str, str]] | None = None
    """Topics that a sensor is sure to have, and their types; None for its one topic."""
    beneath: Callable[[OnBoard, str], list[tuple[str, Pose]]] = lambda sensor, frame: []
    """Frames that hang on the sensor's own, and their poses in it."""

    def advertised(self, telling: Telling) -> dict[str, str]:
        """Topics that a sensor is sure to have, and their types."""
        if self.topics is not None:
            return self.topics(telling)
        return {telling.topic: self.type(telling.sensor, telling.layout)}


ROS: Readers[RosRule] = Readers("ROS messages", {})
"""What ROS makes of each type of record."""


def rule_of(sensor: OnBoard) -> RosRule | None:
    """The rule for a sensor's records; None where ROS leaves them out."""
    return ROS.get(sensor.record_type)


# ---- lidars ---------------------------------------------------------------------------------------------------------


def is_flat(sensor: OnBoard) -> bool:
    """Whether a lidar scans one plane, so that a LaserScan holds all it sees."""
    pattern = sensor.sensor.config.pattern
    channels = getattr(pattern, "channels", None)
    elevation = list(getattr(channels, "elevation_deg", [])) if channels is not None else []
    return pattern.kind == "spinning" and elevation == [0.0]


def _lidar_names(sensor: OnBoard, layout: Layout) -> tuple[str, str]:
    if is_flat(sensor):
        return FLAT_LIDAR if layout == "driver" else (OTHER_LIDAR[0], FLAT_LIDAR[1])
    return LIDARS.get(sensor.sensor.config.maker, OTHER_LIDAR)


def _lidar_type(sensor: OnBoard, layout: Layout) -> str:
    return ros.LASER_SCAN if layout == "driver" and is_flat(sensor) else ros.POINT_CLOUD


def _scan(scan: Scan, telling: Telling) -> Iterator[Message]:
    lidar, layout = telling.sensor.sensor, telling.layout
    stamp = telling.stamp(scan.start_time)
    over = telling.stamp(scan.start_time + float(scan.shots.time.max(initial=0.0)))
    if layout == "driver" and is_flat(telling.sensor) and len(scan.shots) > 1:
        limits = lidar.config.range
        data = ros.laser_scan(
            scan, telling.frame, stamp, range_min_m=limits.min_m, range_max_m=limits.max_m,
            scan_time_s=1.0 / lidar.rate_hz,
        )  # fmt: skip
        yield Message(telling.topic, ros.LASER_SCAN, over, data)
        return
    if layout == "driver":
        layout = "ouster" if lidar.config.maker == "ouster" else "velodyne"
    yield Message(telling.topic, ros.POINT_CLOUD, over, ros.point_cloud2(scan, telling.frame, stamp, layout))
    if layout == "ouster" and lidar.config.receiver.returns == "dual":
        # The driver's own name for the second return of each shot.
        data = ros.point_cloud2(scan, telling.frame, stamp, layout, echo=1)
        yield Message(f"{telling.topic}2", ros.POINT_CLOUD, over, data)


ROS.add(Scan, RosRule(_lidar_names, _lidar_type, _scan))
ROS.add(Image, RosRule(image_names, image_type, image_messages, topics=image_topics, beneath=optical_frames))
ROS.add(RadarScan, RosRule(radar_names, cloud_type, radar_messages, topics=radar_topics))
ROS.add(EchoScan, RosRule(echo_names, cloud_type, echo_messages, topics=echo_topics))


# ---- small sensors --------------------------------------------------------------------------------------------------


def sampled(
    topic: str, frame: str, kind: str, one: Callable[[Any, int, int, str], bytes], *, of_vehicle: bool = False
) -> RosRule:
    """A rule for samples: `one(samples, row, stamp_ns, frame)` is the message of one sample."""

    def messages(samples: Any, telling: Telling) -> Iterator[Message]:
        for row, time in enumerate(samples.time.tolist()):
            at = telling.stamp(time)
            yield Message(telling.topic, kind, at, one(samples, row, at, telling.frame))

    return RosRule(lambda sensor, layout: (topic, frame), lambda sensor, layout: kind, messages, of_vehicle)


def _imu(samples: ImuData, row: int, at: int, frame: str) -> bytes:
    return ros.imu(
        at, frame, samples.angular_rate[row], samples.specific_force[row],
        orientation=None if samples.orientation is None else samples.orientation[row],
        angular_rate_covariance=samples.angular_rate_covariance,
        specific_force_covariance=samples.specific_force_covariance,
        orientation_covariance=samples.orientation_covariance,
    )  # fmt: skip


def _odometry(found: OdometryData, row: int, at: int, frame: str) -> bytes:
    return ros.odometry(
        at, ODOM, frame, found.xyz[row], found.quat_xyzw[row], found.velocity[row], found.angular_velocity[row]
    )


def _pressure(found: BarometerData, row: int, at: int, frame: str) -> bytes:
    return ros.fluid_pressure(at, frame, found.pressure[row], found.pressure_variance)


def _magnetic_field(found: MagnetometerData, row: int, at: int, frame: str) -> bytes:
    return ros.magnetic_field(at, frame, found.magnetic_field[row], found.magnetic_field_covariance)


ROS.add(ImuData, sampled("/imu/data", "imu_link", ros.IMU, _imu))
ROS.add(OdometryData, sampled("/odom", BASE, ros.ODOMETRY, _odometry, of_vehicle=True))
ROS.add(BarometerData, sampled("/pressure", "barometer_link", ros.FLUID_PRESSURE, _pressure))
ROS.add(MagnetometerData, sampled("/imu/mag", "magnetometer_link", ros.MAGNETIC_FIELD, _magnetic_field))


# ---- satellite navigation -------------------------------------------------------------------------------------------

_SERVICE = {"G": 1, "R": 2, "C": 4, "E": 8}


def _velocity_topic(topic: str) -> str:
    """As u-blox's driver has it: /fix and /fix_velocity."""
    return f"{topic}_velocity"


def _fixes(found: GnssData, telling: Telling) -> Iterator[Message]:
    service = sum(_SERVICE[letter] for letter in {name[0] for name in found.satellites})
    for row, time in enumerate(found.time.tolist()):
        at, fix = telling.stamp(time), bool(found.mode[row] != NO_FIX)
        data = ros.nav_sat_fix(
            at, telling.frame, found.latitude[row], found.longitude[row], found.altitude[row], fix=fix,
            service=service, covariance_enu=found.covariance_enu(row) if fix else None,
        )  # fmt: skip
        yield Message(telling.topic, ros.NAV_SAT_FIX, at, data)
        if fix:
            velocity = ros.twist_stamped(at, MAP, found.velocity[row])
            yield Message(_velocity_topic(telling.topic), ros.TWIST, at, velocity)


ROS.add(
    GnssData,
    RosRule(
        lambda sensor, layout: ("/fix", "gps_link"),
        lambda sensor, layout: ros.NAV_SAT_FIX,
        _fixes,
        topics=lambda telling: {telling.topic: ros.NAV_SAT_FIX, _velocity_topic(telling.topic): ros.TWIST},
    ),
)
ROS.add(UwbData, RosRule(range_names, range_type, range_messages, topics=range_topics))
