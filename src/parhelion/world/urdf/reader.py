"""Reader of URDF files."""

from __future__ import annotations

import re
import warnings
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from parhelion.core.errors import ConfigError, FormatError, unknown_name
from parhelion.core.pose import Pose
from parhelion.core.reading import reading
from parhelion.world.urdf.robot import HELD, JOINT_KINDS, MOVING, Inertial, Joint, Link, Mimic, Robot, RobotSensor
from parhelion.world.urdf.shapes import MaterialTable, MeshCache, MeshPaths, Packages, read_shape
from parhelion.world.xml import Node, guarded_text, parse_xml

# ---- Sensors of a robot: Gazebo blocks in its URDF, and links with the names of sensors -----------------------------


GAZEBO_KINDS: Mapping[str, str] = {
    **dict.fromkeys(("ray", "gpu_ray", "lidar", "gpu_lidar"), "lidar"),
    "imu": "imu",
    **dict.fromkeys(("camera", "wideanglecamera", "depth", "depth_camera", "rgbd", "rgbd_camera"), "camera"),
    **dict.fromkeys(("gps", "navsat"), "gnss"),
    "magnetometer": "magnetometer",
    **dict.fromkeys(("altimeter", "air_pressure"), "barometer"),
}
"""Our kind for each type of sensor in Gazebo."""

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
"""Name of the hint, path of its element and factor to our unit, by the block inside the sensor."""

_NAMES: Mapping[str, re.Pattern[str]] = {
    "lidar": re.compile(r"lidar|laser|velodyne|ouster|hokuyo|livox|hesai|\bscan\b"),
    "imu": re.compile(r"\bimu\b"),
    "camera": re.compile(r"camera|realsense"),
}
_HOLDERS = re.compile(r"mount|bracket|holder|\bpost\b|\bplate\b|support|adapter|\bpole\b|\bstand\b|\bcable\b")


def kind_by_name(link: str) -> str | None:
    """Kind of sensor by the name of a link; None for other links, and for holders of sensors."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z]+", " ", link).lower()
    if _HOLDERS.search(words):
        return None
    # In sensors that contain others, such as `camera_imu` and `os_imu`, the more specific word counts.
    for kind in ("imu", "camera", "lidar"):
        if _NAMES[kind].search(words):
            return kind
    return None


def find_sensors(
    robot: Node, joints: Mapping[str, Joint], poses: Mapping[str, Pose], notes: list[str]
) -> tuple[RobotSensor, ...]:
    """Return all sensors, those of Gazebo blocks first; `poses` are those of the links in the base frame at rest."""
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
            type_name = (sensor.element.get("type") or "").strip()
            kind = GAZEBO_KINDS.get(type_name)
            if kind is None or not link:
                reason = f"of type {type_name!r}" if kind is None else "without a link"
                notes.append(f"{sensor.place} {reason} is ignored")
                continue
            if link not in poses:
                raise unknown_name("link", link, poses, f"(of {sensor.where})")
            own = _pose(sensor, notes)
            name = (sensor.element.get("name") or "").strip() or link
            found.append(RobotSensor(name, kind, link, poses[link] @ own, own, _hints(sensor), "gazebo"))
    return found


def _pose(sensor: Node, notes: list[str]) -> Pose:
    """Pose in the frame of the link, written as x y z [m], roll pitch yaw [rad]."""
    node = sensor.child("pose")
    if node is None:
        return Pose()
    numbers = node.text_numbers(6)
    if (node.element.get("relative_to") or "").strip():
        notes.append(f"{node.place} is read in the frame of the link; relative_to is ignored")
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
    """Groups of connected links with the names of one kind of sensor: the frames and the housing of one device.

    `links` are in any order; a device is identified by its link nearest to the base.
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
    """Links of a device that are the frames of its measurements.

    Drivers of lidars and IMUs use the outermost frame. The outermost frames of a camera point along z; the one nearest
    to the base points along x, as in all of our sensors.
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


# ---- reader ---------------------------------------------------------------------------------------------------------


UNIT_AXIS_TOLERANCE = 1e-3
"""Largest deviation of the length of an axis from 1; rounded values such as 0.707 are well within it."""


_MOST_KG = 1e6

MOST_LINKS = 10_000
"""Largest number of links. Robots have tens of links; more than this is a damaged or malicious file."""


def load_urdf(path: str | PathLike[str], *, packages: Packages | None = None) -> Robot:
    """Read the robot of a URDF file.

    Mesh files must exist, and are read when they are needed. One warning lists all ignored parts of the file.

    Args:
        path: The URDF file.
        packages: Folders of the packages in `package://` names; others are searched in the folders above the file.
    """
    if not isinstance(path, (str, PathLike)):
        raise ConfigError(f"urdf: load_urdf accepts the path of a file, got {type(path).__name__}")
    file = Path(path)
    with reading(file):
        return _load(file, packages)


def _load(file: Path, packages: Packages | None) -> Robot:
    robot = _robot_node(file)
    paths, cache, table = MeshPaths(file, packages), MeshCache(), MaterialTable(robot)
    notes = list(table.notes)
    links: dict[str, Link] = {}
    frictions = _frictions(robot)
    nodes = robot.children("link")
    if not 0 < len(nodes) <= MOST_LINKS:
        raise ConfigError(f"{file}: robot: must have from 1 to {MOST_LINKS} links, got {len(nodes)}")
    for node in nodes:
        name = node.attribute("name")
        if name in links:
            raise node.fail("there are two links of this name")
        visuals = [read_shape(v, k, paths, cache, *table.of(v)) for k, v in enumerate(node.children("visual"))]
        collisions = [read_shape(c, k, paths, cache) for k, c in enumerate(node.children("collision"))]
        links[name] = Link(name, tuple(visuals), tuple(collisions), _inertial(node), frictions.get(name))
    joints: dict[str, Joint] = {}
    for node in robot.children("joint"):
        joint = _joint(node, links, notes)
        if joint.name in joints:
            raise node.fail("there are two joints of this name")
        joints[joint.name] = joint
    _check_mimics(file, joints)
    base, ordered = _tree(file, links, joints)
    name = (robot.element.get("name") or "").strip() or file.stem
    bare = Robot(name, file, base, MappingProxyType(links), MappingProxyType(ordered))
    sensors = find_sensors(robot, ordered, bare.link_poses(), notes)
    if notes:
        shown = "; ".join(notes[:20]) + (f"; and {len(notes) - 20} more" if len(notes) > 20 else "")
        warnings.warn(f"{file}: {shown}", stacklevel=3)
    return Robot(name, file, base, bare.links, bare.joints, sensors)


def _robot_node(file: Path) -> Node:
    """Return the root element of a URDF file; other files are refused."""
    expand = f"{file}: is a xacro file; expand it first: xacro {file.name} > robot.urdf"
    if file.suffix.lower() == ".xacro":
        raise ConfigError(expand)
    text = guarded_text(file)
    try:
        root = parse_xml(file, text)
    except FormatError:
        if "<xacro:" in text and "xmlns:xacro" not in text:
            raise ConfigError(expand) from None
        raise
    if root.tag != "robot":
        hint = ", but an SDF file" if root.tag == "sdf" else f": its root element is <{root.tag}>, not <robot>"
        raise FormatError(f"{file}: is not a URDF file{hint}")
    for element in root.iter():
        words = element.attrib.values()
        if (element.tag.startswith("{") and "xacro" in element.tag) or any("${" in w or "$(" in w for w in words):
            raise ConfigError(expand)
    return Node(root, file)


def _joint(node: Node, links: Mapping[str, Link], notes: list[str]) -> Joint:
    name, kind = node.attribute("name"), node.attribute("type")
    if kind not in JOINT_KINDS:
        raise node.fail(f"type must be one of {', '.join(JOINT_KINDS)}, got {kind!r}")
    ends = []
    for tag in ("parent", "child"):
        link = node.needed(tag).attribute("link")
        if link not in links:
            raise unknown_name("link", link, links, f"(of {node.where}: {tag})")
        ends.append(link)
    if kind in HELD:
        notes.append(f"{node.place} is {kind} and is fixed at its origin")
    axis = _axis(node) if kind in MOVING else (1.0, 0.0, 0.0)
    lower, upper = _limits(node, kind)
    effort, rate = _at_least_0(node, "limit", "effort"), _at_least_0(node, "limit", "velocity")
    damping = _at_least_0(node, "dynamics", "damping") or 0.0
    return Joint(
        name, kind, ends[0], ends[1], node.origin(), axis, lower, upper, _mimic(node, kind), effort, rate, damping
    )


def _at_least_0(node: Node, tag: str, name: str) -> float | None:
    """Return an attribute of a child, 0 if it is negative; None without it."""
    entry = node.child(tag)
    return None if entry is None or name not in entry.element.attrib else max(0.0, entry.number(name))


def _frictions(robot: Node) -> dict[str, float]:
    """Friction coefficients `mu1` of the Gazebo blocks, by link; written as text or as an attribute `value`."""
    found = {}
    for block in robot.children("gazebo"):
        link, entry = (block.element.get("reference") or "").strip(), block.child("mu1")
        if link and entry is not None:
            value = entry.number("value") if "value" in entry.element.attrib else entry.text_numbers(1)[0]
            if not value >= 0.0:
                raise entry.fail(f"mu1 of {link!r} must be at least 0, got {value:g}")
            found[link] = value
    return found


def _inertial(node: Node) -> Inertial | None:
    """Return the mass properties of a link; None without a mass."""
    entry = node.child("inertial")
    if entry is None:
        return None
    mass = entry.needed("mass").number("value", 0.0)
    if not 0.0 <= mass < _MOST_KG:
        raise entry.fail(f"mass: must be from 0 to {_MOST_KG:g} kg, got {mass:g}")
    inertia = entry.child("inertia")
    if inertia is None:
        return Inertial(mass, entry.origin(), (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    xx, yy, zz, xy, xz, yz = (inertia.number(f"i{axes}", 0.0) for axes in ("xx", "yy", "zz", "xy", "xz", "yz"))
    return Inertial(mass, entry.origin(), (xx, yy, zz, xy, xz, yz))


def _axis(node: Node) -> tuple[float, float, float]:
    """Unit vector of a joint; x by default, as in the URDF specification."""
    entry = node.child("axis")
    if entry is None:
        return (1.0, 0.0, 0.0)
    axis = np.array(entry.numbers("xyz", 3))
    length = float(np.sqrt((axis**2).sum())) if np.abs(axis).max() < 10.0 else float("inf")
    if not abs(length - 1.0) <= UNIT_AXIS_TOLERANCE:
        raise entry.fail(f"xyz must be a unit vector (length 1), got {entry.element.get('xyz')!r}")
    x, y, z = (axis / length).tolist()
    return x, y, z


def _limits(node: Node, kind: str) -> tuple[float | None, float | None]:
    """Limits of a joint. If one of them is missing it is 0, as in the URDF specification; without both, none."""
    entry = node.child("limit")
    if entry is None or kind not in ("revolute", "prismatic") or not {"lower", "upper"} & set(entry.element.attrib):
        return None, None
    lower, upper = entry.number("lower", 0.0), entry.number("upper", 0.0)
    if lower > upper:
        raise entry.fail(f"lower must not be above upper, got {lower:g} and {upper:g}")
    return lower, upper


def _mimic(node: Node, kind: str) -> Mimic | None:
    entry = node.child("mimic")
    if entry is None or kind not in MOVING:
        return None
    return Mimic(entry.attribute("joint"), entry.number("multiplier", 1.0), entry.number("offset", 0.0))


def _check_mimics(file: Path, joints: Mapping[str, Joint]) -> None:
    """Check that every mimic joint leads to a joint with its own position."""
    moving = [name for name, joint in joints.items() if joint.kind in MOVING]
    for joint in joints.values():
        seen, mimic = {joint.name}, joint.mimic
        while mimic is not None:
            if mimic.joint not in moving:
                raise unknown_name("joint", mimic.joint, moving, f"(of {file}: joint {joint.name!r}: mimic)")
            if mimic.joint in seen:
                raise ConfigError(f"{file}: joint {joint.name!r}: mimic: joints mimic each other in a cycle")
            seen.add(mimic.joint)
            mimic = joints[mimic.joint].mimic


def _tree(file: Path, links: Mapping[str, Link], joints: Mapping[str, Joint]) -> tuple[str, dict[str, Joint]]:
    """Name of the root link, and the joints from it outwards; the links must form one tree."""
    above: dict[str, Joint] = {}
    below: dict[str, list[Joint]] = {name: [] for name in links}
    for joint in joints.values():
        if joint.child in above:
            raise ConfigError(
                f"{file}: link {joint.child!r}: has two parents, by the joints "
                f"{above[joint.child].name!r} and {joint.name!r}"
            )
        above[joint.child] = joint
        below[joint.parent].append(joint)
    roots = [name for name in links if name not in above]
    if len(roots) > 1:
        named = ", ".join(repr(name) for name in roots[:6])
        raise ConfigError(f"{file}: robot: must have one root link, got {len(roots)}: {named}")
    ordered: dict[str, Joint] = {}
    waiting = deque(roots)
    while waiting:
        for joint in below[waiting.popleft()]:
            ordered[joint.name] = joint
            waiting.append(joint.child)
    lost = next((joint for joint in joints.values() if joint.name not in ordered), None)
    if lost is not None:
        raise ConfigError(f"{file}: joint {lost.name!r}: is part of a cycle of links, which must form a tree")
    return roots[0], ordered
