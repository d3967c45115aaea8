"""Topics and frames of the sensors and vehicles of a scenario: those of the real drivers, in ROS and in Foxglove.

`TOPICS` is the table by type of record. A type without an entry has the topic `/<sensor>` and the frame
`<sensor>_link`, so that records that ROS skips still have a topic in Foxglove.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from parhelion.core.clouds import Scan
from parhelion.core.consumers import Consumer
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.frames import EchoScan, RadarScan
from parhelion.core.image import OPTICAL, Image, Intrinsics
from parhelion.core.pose import Pose
from parhelion.core.streams import BarometerData, GnssData, ImuData, MagnetometerData, OdometryData, UwbData
from parhelion.makers import RosDriver, maker_called
from parhelion.scenario.sensors import OnBoard

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario
    from parhelion.world.parts import WorldObject
    from parhelion.world.world import World


def ros_name(text: str) -> str:
    """Convert a name to one that ROS allows: letters, digits and underscores, not starting with a digit."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return f"_{plain}" if plain[0].isdigit() else plain


Layout = str
"""'driver', the name of a maker whose driver has a layout, or 'all'."""

MAP, ODOM, BASE = "map", "odom", "base_link"

FLAT_LIDAR = ("/scan", "laser")

Names = Callable[[OnBoard, Layout], tuple[str, str]]


@dataclass(frozen=True)
class TopicRule:
    """Topic and frames of the sensors with one type of record."""

    names: Names
    """Topic and frame of a sensor, as the real driver names them."""
    of_vehicle: bool = False
    """True if records are in the frame of the vehicle instead of the sensor."""
    child_frames: Callable[[OnBoard, str], list[tuple[str, Pose]]] = lambda sensor, frame: []
    """Child frames of the sensor frame, with their poses in it."""
    map_frames: Callable[[OnBoard, World], list[tuple[str, Pose]]] = lambda sensor, world: []
    """Fixed frames in `map` that belong to the sensor, for example those of radio anchors."""


def one_topic(topic: str, frame: str, *, of_vehicle: bool = False) -> TopicRule:
    """Rule for sensors that share topic and frame; several sensors get their names as prefix."""
    return TopicRule(lambda sensor, layout: (topic, frame), of_vehicle)


def own_topic(topic: str = "", frame: str = "") -> Names:
    """Names of sensors with their own topic and frame: `/<sensor><topic>` and `<sensor><frame>`."""
    return lambda sensor, layout: (f"/{ros_name(sensor.name)}{topic}", f"{ros_name(sensor.name)}{frame}")


def is_flat(sensor: OnBoard) -> bool:
    """Return whether a lidar scans one plane, so that a LaserScan represents it completely."""
    pattern = sensor.sensor.config.pattern
    channels = getattr(pattern, "channels", None)
    elevation = list(getattr(channels, "elevation_deg", [])) if channels is not None else []
    return pattern.kind == "spinning" and elevation == [0.0]


def _lidar_names(sensor: OnBoard, layout: Layout) -> tuple[str, str]:
    if is_flat(sensor):
        return FLAT_LIDAR if layout == "driver" else (RosDriver.topic, FLAT_LIDAR[1])
    driver = maker_called(sensor.sensor.config.maker).ros
    return driver.topic, driver.frame


def optical_frame(frame: str, *, right: bool = False) -> str:
    """Name of the optical frame of a camera."""
    return f"{frame}_right_optical_frame" if right else f"{frame}_optical_frame"


def _optical_frames(sensor: Any, frame: str) -> list[tuple[str, Pose]]:
    """Optical frames of a camera with their poses in the camera frame; for a stereo camera, of both lenses."""
    found = [(optical_frame(frame), OPTICAL)]
    lens = getattr(sensor.sensor, "intrinsics", None)
    if isinstance(lens, Intrinsics) and lens.baseline_m > 0.0:
        found.append((optical_frame(frame, right=True), Pose((0.0, -lens.baseline_m, 0.0)) @ OPTICAL))
    return found


def actor_frame(item: WorldObject) -> str:
    """Name of the frame of a moving object."""
    return f"actor/{item.index}-{item.name}"


def _anchor_frames(sensor: OnBoard, world: World) -> list[tuple[str, Pose]]:
    """Frames of the anchors of a ranging radio."""
    anchors = sensor.sensor.anchors(world)
    return [(f"anchor/{name}", Pose(xyz)) for name, xyz in zip(anchors.names, anchors.xyz, strict=True)]


TOPICS: Consumer[TopicRule] = Consumer(
    "topics",
    {
        object: TopicRule(own_topic(frame="_link")),
        Scan: TopicRule(_lidar_names),
        Image: TopicRule(own_topic("/image_raw"), child_frames=_optical_frames),
        RadarScan: TopicRule(own_topic("/detections")),
        EchoScan: TopicRule(own_topic("/echoes")),
        ImuData: one_topic("/imu/data", "imu_link"),
        OdometryData: one_topic("/odom", BASE, of_vehicle=True),
        BarometerData: one_topic("/pressure", "barometer_link"),
        MagnetometerData: one_topic("/imu/mag", "magnetometer_link"),
        GnssData: one_topic("/fix", "gps_link"),
        UwbData: TopicRule(lambda sensor, layout: ("/uwb/ranges", "uwb_link"), map_frames=_anchor_frames),
    },
)
"""Topic and frames by type of record."""

_TOPIC = re.compile(r"^/[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*$")


@dataclass(frozen=True)
class TopicName:
    """Topic and frame of a sensor or vehicle."""

    topic: str
    """Topic of a sensor; for a vehicle, the prefix of its topics, for example '' or '/husky'."""
    frame: str
    """Frame."""


def topic_rule(sensor: OnBoard) -> TopicRule:
    """Rule for topic and frames of a sensor."""
    return TOPICS.require(sensor.record_type)


def sensor_names(
    scenario: Scenario, topics: Mapping[str, str], frames: Mapping[str, str], layout: Layout = "driver"
) -> dict[str, TopicName]:
    """Topic and frame of every sensor: as given, or the driver's, with the sensor's name as prefix if two clash."""
    default = {sensor.name: topic_rule(sensor).names(sensor, layout) for sensor in scenario.sensors}
    topics_used = [topic for topic, _ in default.values()]
    framed = [frame for _, frame in default.values()]
    found = {}
    for name, (topic, frame) in default.items():
        if topics_used.count(topic) > 1:
            topic = f"/{ros_name(name)}{topic}"
        if framed.count(frame) > 1 and frame != BASE:
            frame = f"{ros_name(name)}/{frame}"
        found[name] = TopicName(topics.get(name, topic), frames.get(name, frame))
    return found


def vehicle_names(scenario: Scenario, topics: Mapping[str, str], frames: Mapping[str, str]) -> dict[str, TopicName]:
    """Prefix of the topics of each vehicle, and its frame.

    A single vehicle, or the one that carries all sensors, is base_link without prefix; others have their name as
    prefix.
    """
    carrying = {name for name, body in scenario.bodies.items() if any(s.body is body for s in scenario.sensors)}
    plain = carrying if len(carrying) == 1 else set(scenario.bodies) if len(scenario.bodies) == 1 else set()
    found = {}
    for name in scenario.bodies:
        prefix, frame = ("", BASE) if name in plain else (f"/{ros_name(name)}", f"{ros_name(name)}/{BASE}")
        found[name] = TopicName(topics.get(name, prefix).rstrip("/"), frames.get(name, frame))
    return found


def check_names(scenario: Scenario, topics: Mapping[str, str], frames: Mapping[str, str]) -> None:
    """Raise ConfigError for names of unknown sensors or vehicles, and for invalid topics or frames."""
    known = [*(sensor.name for sensor in scenario.sensors), *scenario.bodies]
    for name in (*topics, *frames):
        if name not in known:
            raise unknown_name("sensor or vehicle", name, known, "(in topics or frames)")
    for name, topic in topics.items():
        if not _TOPIC.match(topic):
            raise ConfigError(f"topics: {name}: must be like /a/b of letters, digits and underscores, got {topic!r}")
    for name, frame in frames.items():
        if not frame or frame.startswith("/"):
            raise ConfigError(f"frames: {name}: must not be empty or start with '/', got {frame!r}")


def check_distinct(topics: list[str], frames: list[str]) -> None:
    """Raise ConfigError if two sensors share a topic, or two frames a name."""
    for kind, names in (("topics", topics), ("frames", frames)):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"{kind}: {twice[0]!r} is used twice; give one of them another name")
