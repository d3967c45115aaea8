"""Which topics and frames the sensors and vehicles of a scenario have in ROS: those of the real drivers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parhelion.core.errors import ConfigError, unknown_name
from parhelion.scenario.sensors import OnBoard, ScannerOnBoard

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario

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
SAMPLERS = {
    "imu": ("/imu/data", "imu_link"),
    "odometry": ("/odom", BASE),
    "barometer": ("/pressure", "barometer_link"),
    "magnetometer": ("/imu/mag", "magnetometer_link"),
}
"""Topic and frame of the other sensors by type."""

_TOPIC = re.compile(r"^/[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*$")


@dataclass(frozen=True)
class Named:
    """What a sensor or vehicle is called in ROS."""

    topic: str
    """Of a vehicle: what its topics begin with, such as '' or '/husky'."""
    frame: str


def maker_of(scanner: ScannerOnBoard) -> str:
    """The maker of a lidar by its model or the name on its data sheet; empty for others."""
    told = (str(scanner.lidar.model).lower(), scanner.lidar.config.name.lower())
    return next((maker for maker in LIDARS if any(text.startswith(maker) for text in told)), "")


def is_flat(scanner: ScannerOnBoard) -> bool:
    """Whether a lidar scans one plane, so that a LaserScan holds all it sees."""
    pattern = scanner.lidar.config.pattern
    channels = getattr(pattern, "channels", None)
    elevation = list(getattr(channels, "elevation_deg", [])) if channels is not None else []
    return pattern.kind == "spinning" and elevation == [0.0]


def sensor_names(
    scenario: Scenario, topics: Mapping[str, str], frames: Mapping[str, str], *, flat_as_scan: bool = True
) -> dict[str, Named]:
    """Topic and frame of every sensor: as told, else the driver's, with the sensor's name before it where two clash."""
    usual = {sensor.name: _usual(sensor, flat_as_scan) for sensor in scenario.sensors}
    said = [topic for topic, _ in usual.values()]
    framed = [frame for _, frame in usual.values()]
    found = {}
    for sensor in scenario.sensors:
        topic, frame = usual[sensor.name]
        if said.count(topic) > 1:
            topic = f"/{ros_name(sensor.name)}{topic}"
        if framed.count(frame) > 1 and frame != BASE:
            frame = f"{ros_name(sensor.name)}/{frame}"
        found[sensor.name] = Named(topics.get(sensor.name, topic), frames.get(sensor.name, frame))
    return found


def _usual(sensor: OnBoard, flat_as_scan: bool) -> tuple[str, str]:
    if not isinstance(sensor, ScannerOnBoard):
        return SAMPLERS[sensor.entry.type]
    if is_flat(sensor):
        return FLAT_LIDAR if flat_as_scan else (OTHER_LIDAR[0], FLAT_LIDAR[1])
    return LIDARS.get(maker_of(sensor), OTHER_LIDAR)


def vehicle_names(scenario: Scenario, topics: Mapping[str, str], frames: Mapping[str, str]) -> dict[str, Named]:
    """What a vehicle's topics begin with, and its frame.

    One vehicle alone, or the one that carries all sensors, is plain base_link; others have their names before it.
    """
    carrying = {name for name, body in scenario.bodies.items() if any(s.body is body for s in scenario.sensors)}
    plain = carrying if len(carrying) == 1 else set(scenario.bodies) if len(scenario.bodies) == 1 else set()
    found = {}
    for name in scenario.bodies:
        prefix, frame = ("", BASE) if name in plain else (f"/{ros_name(name)}", f"{ros_name(name)}/{BASE}")
        found[name] = Named(topics.get(name, prefix).rstrip("/"), frames.get(name, frame))
    return found


def ros_name(text: str) -> str:
    """A name of a scenario as ROS allows it: letters, digits and underscores, not beginning with a digit."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return f"_{plain}" if plain[0].isdigit() else plain


def check_names(scenario: Scenario, topics: Mapping[str, str], frames: Mapping[str, str]) -> None:
    """See that names stand for something, and that topics are such as ROS takes."""
    known = [*(sensor.name for sensor in scenario.sensors), *scenario.bodies]
    for name in (*topics, *frames):
        if name not in known:
            raise unknown_name("sensor or vehicle", name, known, "(in topics or frames)")
    for name, topic in topics.items():
        if not _TOPIC.match(topic):
            raise ConfigError(f"topics: {name}: must be like /a/b of letters, digits and underscores, got {topic!r}")
    for name, frame in frames.items():
        if not frame or frame.startswith("/"):
            raise ConfigError(f"frames: {name}: must not be empty or begin with '/', got {frame!r}")


def check_distinct(topics: list[str], frames: list[str]) -> None:
    """See that no two sensors would share a topic, nor two frames a name."""
    for kind, names in (("topics", topics), ("frames", frames)):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"{kind}: {twice[0]!r} would stand for two things; give one of them another name")
