"""What ROS makes of ranges to radio anchors, in message types that every ROS 2 has.

    /uwb/ranges     sensor_msgs/PointCloud2 in the frame map: a point for each anchor, at its place, with the fields
                    range, range_std [m], rssi [dBm], snr [dB] and los (1: nothing in between)
    /uwb/position   geometry_msgs/PoseWithCovarianceStamped in the frame map; only where the ranges give a position

An anchor that was not heard has NaN in these fields. A position has no orientation: that is the identity, with a
variance of pi^2 / 3 of each angle, as of one not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from parhelion.core.ranges import UwbData
from parhelion.io.ros import messages as ros
from parhelion.io.ros.types import Message

if TYPE_CHECKING:
    from parhelion.outputs.ros.rules import Layout, Telling
    from parhelion.scenario.sensors import OnBoard

TOPIC, FRAME, MAP = "/uwb/ranges", "uwb_link", "map"


def range_names(sensor: OnBoard, layout: Layout) -> tuple[str, str]:
    """Topic of the ranges, and the tag's own frame."""
    return TOPIC, FRAME


def range_type(sensor: OnBoard, layout: Layout) -> str:
    """Type of the ranges."""
    return ros.POINT_CLOUD


def position_topic(topic: str) -> str:
    """Topic of the positions beside that of the ranges."""
    return f"{topic.rpartition('/')[0]}/position"


def range_topics(telling: Telling) -> dict[str, str]:
    """Topics that every tag has, and their types."""
    return {telling.topic: ros.POINT_CLOUD, position_topic(telling.topic): ros.POSE_WITH_COVARIANCE}


def range_messages(found: UwbData, telling: Telling) -> Iterator[Message]:
    """The messages of samples."""
    for row, time in enumerate(found.time.tolist()):
        at = telling.stamp(time)
        columns: dict[str, Any] = {axis: found.anchor_xyz[:, k] for k, axis in enumerate("xyz")}
        columns |= {name: getattr(found, name)[row] for name in ("range", "range_std", "rssi", "snr")}
        columns["los"] = found.los[row].astype(np.uint8)
        yield Message(telling.topic, ros.POINT_CLOUD, at, ros.plain_cloud(at, MAP, columns))
        if np.all(np.isfinite(found.position[row])):
            covariance = np.diag([0.0] * 3 + [np.pi**2 / 3.0] * 3)
            covariance[:3, :3] = found.position_covariance[row]
            data = ros.pose_with_covariance(at, MAP, found.position[row], (0.0, 0.0, 0.0, 1.0), covariance)
            yield Message(position_topic(telling.topic), ros.POSE_WITH_COVARIANCE, at, data)
