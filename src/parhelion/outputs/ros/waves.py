"""What ROS makes of radars and pulse-echo sensors.

/front/detections   sensor_msgs/PointCloud2 with every field
/front/scan         radar_msgs/RadarScan of radars
/sonar/echoes       sensor_msgs/PointCloud2, and /sonar/range sensor_msgs/Range of the first echo
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from parhelion.core.echo import EchoScan
from parhelion.core.radar import RadarScan
from parhelion.io.ros.clouds import POINT_CLOUD, point_cloud2
from parhelion.io.ros.radar import RADAR_SCAN, RANGE, radar_scan, range_message
from parhelion.io.ros.types import Message
from parhelion.outputs.ros.spelling import ros_name

if TYPE_CHECKING:
    from parhelion.outputs.ros.rules import Layout, Telling
    from parhelion.scenario.sensors import OnBoard


def radar_names(sensor: OnBoard, layout: Layout) -> tuple[str, str]:
    """Topic of the cloud, and the sensor's frame."""
    name = ros_name(sensor.name)
    return f"/{name}/detections", name


def echo_names(sensor: OnBoard, layout: Layout) -> tuple[str, str]:
    """Topic of the cloud, and the sensor's frame."""
    name = ros_name(sensor.name)
    return f"/{name}/echoes", name


def cloud_type(sensor: OnBoard, layout: Layout) -> str:
    """Type of the cloud."""
    return POINT_CLOUD


def _beside(topic: str, word: str) -> str:
    return f"{topic.rpartition('/')[0]}/{word}"


def radar_topics(telling: Telling) -> dict[str, str]:
    """Topics of a radar and their types."""
    return {telling.topic: POINT_CLOUD, _beside(telling.topic, "scan"): RADAR_SCAN}


def echo_topics(telling: Telling) -> dict[str, str]:
    """Topics of a pulse-echo sensor and their types."""
    return {telling.topic: POINT_CLOUD, _beside(telling.topic, "range"): RANGE}


def radar_messages(scan: RadarScan, telling: Telling) -> Iterator[Message]:
    """The detections as a cloud and as a RadarScan."""
    stamp, over = telling.stamp(scan.start_time), telling.stamp(scan.start_time + scan.duration)
    yield Message(telling.topic, POINT_CLOUD, over, point_cloud2(scan, telling.frame, stamp, "all"))
    yield Message(_beside(telling.topic, "scan"), RADAR_SCAN, over, radar_scan(scan, telling.frame, stamp))


def echo_messages(scan: EchoScan, telling: Telling) -> Iterator[Message]:
    """The echoes as a cloud, and the range of the first."""
    config = telling.sensor.sensor.config
    stamp, over = telling.stamp(scan.start_time), telling.stamp(scan.start_time + scan.duration)
    yield Message(telling.topic, POINT_CLOUD, over, point_cloud2(scan, telling.frame, stamp, "all"))
    width = float(np.radians(config.receiver.azimuth_width_deg))
    data = range_message(scan.nearest, config.range_m, width, telling.frame, stamp)
    yield Message(_beside(telling.topic, "range"), RANGE, over, data)
