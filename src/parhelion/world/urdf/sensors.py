"""The sensors of a robot: Gazebo's blocks in its URDF, and links whose names speak of sensors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from parhelion.core.errors import unknown_name
from parhelion.core.pose import Pose
from parhelion.world.urdf.robot import Joint, RobotSensor
from parhelion.world.urdf.xml import Node

GAZEBO_KINDS: Mapping[str, str] = {
    **dict.fromkeys(("ray", "gpu_ray", "lidar", "gpu_lidar"), "lidar"),
    "imu": "imu",
    **dict.fromkeys(("camera", "wideanglecamera", "depth", "depth_camera", "rgbd", "rgbd_camera"), "camera"),
    **dict.fromkeys(("gps", "navsat"), "gnss"),
    "magnetometer": "magnetometer",
    **dict.fromkeys(("altimeter", "air_pressure"), "barometer"),
}
"""Our word for each of Gazebo's types of sensors."""

_DEGREES = 180.0 / np.pi
_SCANNER_HINTS = {
    "samples": ("scan/horizontal/samples", 1.0),
    "azimuth_min_deg": ("scan/horizontal/min_angle", _DEGREES),
    "azimuth_max_deg": ("scan/horizontal/max_angle", _DEGREES),
    "vertical_samples": ("scan/vertical/samples", 1.0),
    "elevation_min_deg": ("scan/vertical/min_angle", _DEGREES),
    "elevation_max_deg": ("scan/vertical/max_angle", _DEGREES),
    "range_min_m": ("range/min", 1.0),
    "range_max_m": ("range/max", 1.0),
    "range_resolution_m": ("range/resolution", 1.0),
    "range_noise_m": ("noise/stddev", 1.0),
}
_CAMERA_HINTS = {
    "width": ("image/width", 1.0),
    "height": ("image/height", 1.0),
    "horizontal_fov_deg": ("horizontal_fov", _DEGREES),
    "range_min_m": ("clip/near", 1.0),
    "range_max_m": ("clip/far", 1.0),
}
_HINTS: Mapping[str, Mapping[str, tuple[str, float]]] = {
    "ray": _SCANNER_HINTS,
    "lidar": _SCANNER_HINTS,
    "camera": _CAMERA_HINTS,
}
"""By the block inside the sensor: name of the hint, path of its element, and factor to our unit."""

_NAMES: Mapping[str, re.Pattern[str]] = {
    "lidar": re.compile(r"lidar|laser|velodyne|ouster|hokuyo|livox|hesai|\bscan\b"),
    "imu": re.compile(r"\bimu\b"),
    "camera": re.compile(r"camera|realsense"),
}
_HOLDERS = re.compile(r"mount|bracket|holder|\bpost\b|\bplate\b|support|adapter|\bpole\b|\bstand\b|\bcable\b")


def kind_by_name(link: str) -> str | None:
    """The kind of sensor that a link's name speaks of; None for none, and for what only holds a sensor."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z]+", " ", link).lower()
    if _HOLDERS.search(words):
        return None
    # Sensors that hold others, such as `camera_imu` and `os_imu`: the narrower word counts.
    for kind in ("imu", "camera", "lidar"):
        if _NAMES[kind].search(words):
            return kind
    return None


def find_sensors(
    robot: Node, joints: Mapping[str, Joint], poses: Mapping[str, Pose], notes: list[str]
) -> tuple[RobotSensor, ...]:
    """All sensors, those of Gazebo's blocks first; `poses` are the links' frames in the base frame at rest."""
    described = _from_gazebo(robot, poses, notes)
    parents = {joint.child: joint.parent for joint in joints.values()}
    bodies = _bodies(list(poses), parents)
    sensors = []
    for sensor in described:
        own = next((links for kind, links in bodies if kind == sensor.kind and sensor.link in links), ())
        sensors.append(replace(sensor, housing=own))
    for kind, links in bodies:
        if not any(sensor.kind == kind and sensor.link in links for sensor in described):
            for link in _measuring(kind, links, parents):
                sensors.append(RobotSensor(link, kind, link, poses[link], source="name", housing=links))
    return _with_unique_names(sensors)


def _from_gazebo(robot: Node, poses: Mapping[str, Pose], notes: list[str]) -> list[RobotSensor]:
    found = []
    for block in robot.children("gazebo"):
        link = (block.element.get("reference") or "").strip()
        for sensor in block.children("sensor"):
            called = (sensor.element.get("type") or "").strip()
            kind = GAZEBO_KINDS.get(called)
            if kind is None or not link:
                reason = f"of type {called!r}" if kind is None else "without a link"
                notes.append(f"{sensor.place} {reason} is left out")
                continue
            if link not in poses:
                raise unknown_name("link", link, poses, f"(of {sensor.where})")
            own = _pose(sensor, notes)
            name = (sensor.element.get("name") or "").strip() or link
            found.append(RobotSensor(name, kind, link, poses[link] @ own, own, _hints(sensor), "gazebo"))
    return found


def _pose(sensor: Node, notes: list[str]) -> Pose:
    """The pose in the link's frame, written as x y z [m], roll pitch yaw [rad]."""
    node = sensor.child("pose")
    if node is None:
        return Pose()
    numbers = node.text_numbers(6)
    if (node.element.get("relative_to") or "").strip():
        notes.append(f"{node.place} is taken in the link's frame, and not relative to another")
    in_degrees = (node.element.get("degrees") or "").strip().lower() in ("true", "1")
    return node.pose(numbers[:3], np.radians(numbers[3:]).tolist() if in_degrees else numbers[3:])


def _hints(sensor: Node) -> dict[str, float]:
    hints: dict[str, float] = {}
    rate = sensor.child("update_rate")
    if rate is not None:
        hints["rate_hz"] = rate.text_numbers(1)[0]
    for block, table in _HINTS.items():
        node = sensor.child(block)
        for name, (path, factor) in table.items() if node is not None else ():
            value = _at(node, path)
            if value is not None:
                hints[name] = value.text_numbers(1)[0] * factor
    return hints


def _at(node: Any, path: str) -> Node | None:
    for tag in path.split("/"):
        node = None if node is None else node.child(tag)
    return node


def _bodies(links: list[str], parents: Mapping[str, str]) -> list[tuple[str, tuple[str, ...]]]:
    """Links whose names speak of one kind of sensor and that hang together: the frames and housing of one device.

    `links` are in any order; a device is known by its link nearest to the base.
    """
    kinds = {link: kind for link in links if (kind := kind_by_name(link)) is not None}
    groups: dict[tuple[str, str], list[str]] = {}
    for link, kind in kinds.items():
        top = link
        while kinds.get(parents.get(top, "")) == kind:
            top = parents[top]
        groups.setdefault((kind, top), []).append(link)
    return [(kind, tuple(group)) for (kind, _), group in groups.items()]


def _measuring(kind: str, links: tuple[str, ...], parents: Mapping[str, str]) -> list[str]:
    """The links of a device that stand for its measurements.

    Drivers of lidars and IMUs give points and rates in the outermost frame. A camera's outermost frames look along z;
    the one nearest to the base looks along x as all of ours do.
    """
    inner = {parents[link] for link in links if link in parents}
    if kind == "camera":
        return [link for link in links if parents.get(link) not in links]
    return [link for link in links if link not in inner]


def _with_unique_names(sensors: list[RobotSensor]) -> tuple[RobotSensor, ...]:
    used: set[str] = set()
    unique = []
    for sensor in sensors:
        name, number = sensor.name, 2
        if name in used:
            name = stem = f"{sensor.link}/{sensor.name}"
            while name in used:
                name, number = f"{stem}-{number}", number + 1
        used.add(name)
        unique.append(replace(sensor, name=name))
    return tuple(unique)
