"""ROS messages of each type of record. `TOPICS` defines topics and frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from parhelion.core.clouds import Scan
from parhelion.core.consumers import Consumer
from parhelion.core.frames import EchoScan, RadarScan
from parhelion.core.image import Image
from parhelion.core.streams import (
    NO_FIX,
    SINGLE,
    BarometerData,
    GnssData,
    ImuData,
    MagnetometerData,
    OdometryData,
    UwbData,
)
from parhelion.io.ros import messages as ros
from parhelion.io.ros.clouds import POINT_CLOUD, point_cloud2
from parhelion.io.ros.messages import RADAR_SCAN, RANGE, radar_scan, range_message
from parhelion.io.ros.returns import CLOUD_MESSAGES
from parhelion.io.ros.types import HUMBLE, Message
from parhelion.makers import maker_called
from parhelion.makers.layouts import XYZIRT, driver_called
from parhelion.outputs.ros.objects import DETECTIONS_2D, MARKERS, detections_2d, place_markers
from parhelion.outputs.topics import MAP, ODOM, Layout, is_flat, optical_frame
from parhelion.scenario.sensors import OnBoard

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parhelion.world.world import World

# ---- images: topics as in image_transport, frames as in REP 103 -----------------------------------------------------
# /front/image_raw                     or /front/image_raw/compressed
# /front/camera_info
# /front/depth/image_raw               measurement of a depth camera; for other cameras the true depth, if requested
# /front/right/image_raw, camera_info  second lens of a stereo pair
# /front/ground_truth/depth/image_raw  true depth of a depth camera; likewise label, instance, mobility, window
# /front/ground_truth/objects          vision_msgs/Detection2DArray of the visible objects, if requested
#
# Pictures are in the frame front_optical_frame (x right, y down, z forward), a child of front in /tf_static.


IMAGE_TOPIC = "image_raw"


def image_topics(context: TopicContext) -> dict[str, str]:
    """Topics that every camera has, with their types."""
    return {
        **dict(_picture_topics(context.topic, context.images)),
        sibling(context.topic, "camera_info"): ros.CAMERA_INFO,
    }


def base_topic(topic: str) -> str:
    """Common prefix of all topics of a camera."""
    return topic.rpartition("/")[0]


def sibling(topic: str, word: str) -> str:
    """Topic with the same prefix as another, for example /uwb/position for /uwb/ranges."""
    return f"{base_topic(topic)}/{word}"


def image_messages(image: Image, context: TopicContext) -> Iterator[Message]:
    """Messages of one exposure."""
    base, frame = base_topic(context.topic), optical_frame(context.frame)
    stamp = context.stamp(image.start_time)
    over = context.stamp(image.start_time + float(context.sensor.sensor.frame_duration_s))

    def plain(topic: str, pixels: NDArray[Any], where: str = frame) -> Message:
        return Message(topic, ros.IMAGE, over, ros.image(stamp, where, pixels))

    def lens(topic: str, where: str = frame, *, right: bool = False) -> Iterator[Message]:
        if image.intrinsics is not None:
            data = ros.camera_info(stamp, where, image.intrinsics, right=right)
            yield Message(f"{topic}/camera_info", ros.CAMERA_INFO, over, data)

    yield from _pictures(image.colour, image.bands, context.topic, frame, context, stamp, over)
    yield from lens(base)
    if image.right is not None:
        aside = optical_frame(context.frame, right=True)
        yield from _pictures(image.right, image.bands, f"{base}/right/{IMAGE_TOPIC}", aside, context, stamp, over)
        yield from lens(f"{base}/right", aside, right=True)
    depth = image.depth if image.measured_depth is None else image.measured_depth
    if depth is not None:
        yield plain(f"{base}/depth/{IMAGE_TOPIC}", depth)
        yield from lens(f"{base}/depth")
    if image.measured_depth is not None and image.depth is not None:
        yield plain(f"{base}/ground_truth/depth/{IMAGE_TOPIC}", image.depth)
    if image.label is not None:
        data = ros.image(stamp, frame, image.label, "16UC1")
        yield Message(f"{base}/ground_truth/label/{IMAGE_TOPIC}", ros.IMAGE, over, data)
    if image.instance is not None:
        yield plain(f"{base}/ground_truth/instance/{IMAGE_TOPIC}", image.instance)
    if image.mobility is not None:
        yield plain(f"{base}/ground_truth/mobility/{IMAGE_TOPIC}", image.mobility)
    if image.window is not None:
        yield plain(f"{base}/ground_truth/window/{IMAGE_TOPIC}", image.window)
    requested = getattr(context.sensor.sensor, "truth", ())
    # An empty list is sent, too: it differs from objects that were not requested.
    if image.objects or (isinstance(requested, tuple) and "objects" in requested):
        data = detections_2d(stamp, frame, image.objects, image.names.get("label", {}))
        yield Message(f"{base}/ground_truth/objects", DETECTIONS_2D, over, data)


def _pictures(
    pixels: NDArray[Any], bands: tuple[str, ...], topic: str, frame: str, context: TopicContext, stamp: int, over: int
) -> Iterator[Message]:
    """Messages of a picture: raw, compressed or both."""
    for place, kind in _picture_topics(topic, context.images):
        if kind == ros.IMAGE:
            yield Message(place, kind, over, ros.image(stamp, frame, pixels, ros.encoding_of(pixels, bands)))
        else:
            form = context.images.removeprefix("raw+")
            yield Message(place, kind, over, ros.compressed_image(stamp, frame, pixels, bands, format=form))


def _picture_topics(topic: str, images: str) -> list[tuple[str, str]]:
    """Topics of a picture and their types, as in image_transport."""
    found = [(topic, ros.IMAGE)] if images.startswith("raw") else []
    return found if images == "raw" else [*found, (f"{topic}/compressed", ros.COMPRESSED_IMAGE)]


# ---- ranges to radio anchors, in standard message types -------------------------------------------------------------
# /uwb/ranges     sensor_msgs/PointCloud2 in the frame map: one point per anchor, at its position, with the fields
#                 range, range_std [m], rssi, first_path_power [dBm], snr [dB] and los (1: line of sight)
# /uwb/position   geometry_msgs/PoseWithCovarianceStamped in the frame map; only if the ranges determine a position
# /uwb/anchors    visualization_msgs/MarkerArray: the anchors, once; their frames anchor/<name> are on /tf_static
#
# The fields of an anchor that was not received are NaN. The orientation is unknown: it is the identity, with a variance
# of pi^2 / 3 for each angle.


def range_topics(context: TopicContext) -> dict[str, str]:
    """Topics that every tag has, with their types."""
    return {context.topic: ros.POINT_CLOUD, sibling(context.topic, "position"): ros.POSE_WITH_COVARIANCE}


def anchor_markers(context: TopicContext, world: World) -> Iterator[Message]:
    """Markers of the anchors of a tag."""
    anchors, at = context.sensor.sensor.anchors(world), context.stamp(0.0)
    if len(anchors):
        data = place_markers(at, MAP, "anchors", dict(zip(anchors.names, anchors.xyz, strict=True)))
        yield Message(sibling(context.topic, "anchors"), MARKERS, at, data)


def range_messages(found: UwbData, context: TopicContext) -> Iterator[Message]:
    """Messages of samples."""
    for row, time in enumerate(found.time.tolist()):
        at = context.stamp(time)
        columns: dict[str, Any] = {axis: found.anchor_xyz[:, k] for k, axis in enumerate("xyz")}
        names = ["range", "range_std", "rssi", "snr"] + ["first_path_power"] * (found.first_path_power is not None)
        columns |= {name: getattr(found, name)[row] for name in names}
        columns["los"] = found.los[row].astype(np.uint8)
        yield Message(context.topic, ros.POINT_CLOUD, at, ros.plain_cloud(at, MAP, columns))
        if np.all(np.isfinite(found.position[row])):
            covariance = np.diag([0.0] * 3 + [np.pi**2 / 3.0] * 3)
            covariance[:3, :3] = found.position_covariance[row]
            data = ros.pose_with_covariance(at, MAP, found.position[row], (0.0, 0.0, 0.0, 1.0), covariance)
            yield Message(sibling(context.topic, "position"), ros.POSE_WITH_COVARIANCE, at, data)


# ---- radars and echo sensors ----------------------------------------------------------------------------------------
# /front/detections   sensor_msgs/PointCloud2 with all fields
# /front/scan         radar_msgs/RadarScan
# /sonar/echoes       sensor_msgs/PointCloud2
# /sonar/range        sensor_msgs/Range of the first echo


def radar_topics(context: TopicContext) -> dict[str, str]:
    """Topics of a radar, with their types."""
    return {context.topic: POINT_CLOUD, sibling(context.topic, "scan"): RADAR_SCAN}


def echo_topics(context: TopicContext) -> dict[str, str]:
    """Topics of an echo sensor, with their types."""
    return {context.topic: POINT_CLOUD, sibling(context.topic, "range"): RANGE}


def radar_messages(scan: RadarScan, context: TopicContext) -> Iterator[Message]:
    """Detections as a cloud and as a RadarScan."""
    stamp, over = context.stamp(scan.start_time), context.stamp(scan.start_time + scan.duration)
    yield Message(context.topic, POINT_CLOUD, over, point_cloud2(scan, context.frame, stamp, "all"))
    yield Message(sibling(context.topic, "scan"), RADAR_SCAN, over, radar_scan(scan, context.frame, stamp))


def echo_messages(scan: EchoScan, context: TopicContext) -> Iterator[Message]:
    """Echoes as a cloud, and the range of the first echo."""
    config = context.sensor.sensor.config
    stamp, over = context.stamp(scan.start_time), context.stamp(scan.start_time + scan.duration)
    yield Message(context.topic, POINT_CLOUD, over, point_cloud2(scan, context.frame, stamp, "all"))
    width = float(np.radians(config.receiver.azimuth_width_deg))
    data = range_message(scan.nearest, config.range_m, width, context.frame, stamp, distro=context.distro)
    yield Message(sibling(context.topic, "range"), RANGE, over, data)


# ---- rules ----------------------------------------------------------------------------------------------------------


Images = Literal["raw", "png", "jpeg", "raw+png", "raw+jpeg"]
"""Message type of pictures: sensor_msgs/Image, CompressedImage with one of two compressions, or both."""


@dataclass(frozen=True)
class TopicContext:
    """Names and options for the messages of one sensor."""

    sensor: OnBoard
    """The sensor."""
    topic: str
    """Topic of the sensor."""
    frame: str
    """Frame of the sensor."""
    layout: Layout
    """Layout of point clouds."""
    stamp: Callable[[float], int]
    """Function from a time of the scenario [s] to a time stamp [ns]."""
    images: Images = "raw"
    """Message type of pictures."""
    distro: str = HUMBLE
    """Distribution of ROS 2."""


@dataclass(frozen=True)
class RosRule:
    """Topics and messages of one type of record."""

    topics: Callable[[TopicContext], dict[str, str]]
    """Topics that a sensor always has, with their types."""
    messages: Callable[[Any, TopicContext], Iterator[Message]]
    """Messages of a record."""
    once: Callable[[TopicContext, World], Iterator[Message]] = lambda context, world: iter(())
    """Messages that are sent once, at the start."""


ROS: Consumer[RosRule] = Consumer("ROS messages", {})
"""ROS topics and messages by type of record."""


def rule_of(sensor: OnBoard) -> RosRule | None:
    """Rule for the records of a sensor; None if ROS skips them."""
    return ROS.get(sensor.record_type)


# ---- lidars ---------------------------------------------------------------------------------------------------------


def _lidar_topics(context: TopicContext) -> dict[str, str]:
    if context.layout in CLOUD_MESSAGES:
        return {context.topic: CLOUD_MESSAGES[context.layout][0]}
    flat = context.layout == "driver" and is_flat(context.sensor)
    return {context.topic: ros.LASER_SCAN if flat else ros.POINT_CLOUD}


def _scan(scan: Scan, context: TopicContext) -> Iterator[Message]:
    lidar, layout = context.sensor.sensor, context.layout
    stamp = context.stamp(scan.start_time)
    over = context.stamp(scan.start_time + float(scan.shots.time.max(initial=0.0)))
    if layout == "driver" and is_flat(context.sensor) and len(scan.shots) > 1:
        limits = lidar.config.range
        data = ros.laser_scan(
            scan,
            context.frame,
            stamp,
            range_min_m=limits.min_m,
            range_max_m=limits.max_m,
            scan_time_s=1.0 / lidar.rate_hz,
        )
        yield Message(context.topic, ros.LASER_SCAN, over, data)
        return
    if layout in CLOUD_MESSAGES:
        kind, message = CLOUD_MESSAGES[layout]
        yield Message(context.topic, kind, over, message(scan, context.frame, stamp))
        return
    if layout == "all":
        yield Message(context.topic, ros.POINT_CLOUD, over, ros.point_cloud2(scan, context.frame, stamp))
        return
    driver = maker_called(lidar.config.maker).ros if layout == "driver" else driver_called(layout)
    suffixes = ["", driver.second_return] if lidar.config.receiver.returns == "dual" else [""]
    for echo, suffix in enumerate(suffixes):
        if suffix or echo == 0:
            data = ros.point_cloud2(scan, context.frame, stamp, driver.layout or XYZIRT, echo=echo)
            yield Message(f"{context.topic}{suffix}", ros.POINT_CLOUD, over, data)


ROS.add(Scan, RosRule(_lidar_topics, _scan))
ROS.add(Image, RosRule(image_topics, image_messages))
ROS.add(RadarScan, RosRule(radar_topics, radar_messages))
ROS.add(EchoScan, RosRule(echo_topics, echo_messages))


# ---- stream sensors -------------------------------------------------------------------------------------------------


def sampled(kind: str, one: Callable[[Any, int, int, str], bytes]) -> RosRule:
    """Rule for samples: `one(samples, row, stamp_ns, frame)` returns the message of one sample."""

    def messages(samples: Any, context: TopicContext) -> Iterator[Message]:
        for row, time in enumerate(samples.time.tolist()):
            at = context.stamp(time)
            yield Message(context.topic, kind, at, one(samples, row, at, context.frame))

    return RosRule(lambda context: {context.topic: kind}, messages)


def _imu(samples: ImuData, row: int, at: int, frame: str) -> bytes:
    return ros.imu(
        at,
        frame,
        samples.angular_rate[row],
        samples.specific_force[row],
        orientation=None if samples.orientation is None else samples.orientation[row],
        angular_rate_covariance=samples.angular_rate_covariance,
        specific_force_covariance=samples.specific_force_covariance,
        orientation_covariance=samples.orientation_covariance,
    )


def _odometry(found: OdometryData, row: int, at: int, frame: str) -> bytes:
    return ros.odometry(
        at, ODOM, frame, found.xyz[row], found.quat_xyzw[row], found.velocity[row], found.angular_velocity[row]
    )


def _pressure(found: BarometerData, row: int, at: int, frame: str) -> bytes:
    return ros.fluid_pressure(at, frame, found.pressure[row], found.pressure_variance)


def _magnetic_field(found: MagnetometerData, row: int, at: int, frame: str) -> bytes:
    return ros.magnetic_field(at, frame, found.magnetic_field[row], found.magnetic_field_covariance)


ROS.add(ImuData, sampled(ros.IMU, _imu))
ROS.add(OdometryData, sampled(ros.ODOMETRY, _odometry))
ROS.add(BarometerData, sampled(ros.FLUID_PRESSURE, _pressure))
ROS.add(MagnetometerData, sampled(ros.MAGNETIC_FIELD, _magnetic_field))


# ---- satellite navigation -------------------------------------------------------------------------------------------

_SERVICE = {"G": 1, "R": 2, "C": 4, "E": 8}


def _velocity_topic(topic: str) -> str:
    """Topic of velocities, as in the u-blox driver: /fix and /fix_velocity."""
    return f"{topic}_velocity"


def _fixes(found: GnssData, context: TopicContext) -> Iterator[Message]:
    service = sum(_SERVICE[letter] for letter in {name[0] for name in found.satellites})
    for row, time in enumerate(found.time.tolist()):
        at, fix = context.stamp(time), bool(found.mode[row] != NO_FIX)
        data = ros.nav_sat_fix(
            at,
            context.frame,
            found.latitude[row],
            found.longitude[row],
            found.altitude[row],
            fix=fix,
            service=service,
            covariance_enu=found.covariance_enu(row) if fix else None,
            corrected=found.quality is not None and bool(found.quality[row] > SINGLE),
        )
        yield Message(context.topic, ros.NAV_SAT_FIX, at, data)
        if fix:
            velocity = ros.twist_stamped(at, MAP, found.velocity[row])
            yield Message(_velocity_topic(context.topic), ros.TWIST, at, velocity)


def _fix_topics(context: TopicContext) -> dict[str, str]:
    return {context.topic: ros.NAV_SAT_FIX, _velocity_topic(context.topic): ros.TWIST}


ROS.add(GnssData, RosRule(_fix_topics, _fixes))
ROS.add(UwbData, RosRule(range_topics, range_messages, anchor_markers))
