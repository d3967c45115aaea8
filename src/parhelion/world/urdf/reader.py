"""The reader of URDF files: from XML to links, joints, shapes and places for sensors."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from types import MappingProxyType

import numpy as np

from parhelion.core.errors import ConfigError, FormatError, unknown_name
from parhelion.core.reading import reading
from parhelion.world.urdf.paths import MeshPaths, Packages
from parhelion.world.urdf.robot import HELD, JOINT_KINDS, MOVING, Joint, Link, Mimic, Robot
from parhelion.world.urdf.sensors import find_sensors
from parhelion.world.urdf.shapes import MaterialTable, MeshShelf, read_shape
from parhelion.world.urdf.xml import Node, parse_xml
from parhelion.world.xml_text import guarded_text

UNIT_AXIS_TOLERANCE = 1e-3
"""How far an axis's length may be from 1: 0.707 for half the root of 2 is well within."""


MOST_LINKS = 10_000
"""Robots have tens of links; more than this is a damaged file or a trap."""


def load_urdf(path: str | PathLike[str], *, packages: Packages | None = None) -> Robot:
    """The robot that a URDF file describes.

    `packages` gives the folders of packages that `package://` names; others are looked for above the file. Mesh files
    must be there, and are read when they are needed. One warning names all that the file has and we leave out.
    """
    if not isinstance(path, (str, PathLike)):
        raise ConfigError(f"urdf: load_urdf takes the path of a file, got {type(path).__name__}")
    file = Path(path)
    with reading(file):
        return _load(file, packages)


def _load(file: Path, packages: Packages | None) -> Robot:
    robot = _robot_node(file)
    paths, shelf, table = MeshPaths(file, packages), MeshShelf(), MaterialTable(robot)
    notes = list(table.notes)
    links: dict[str, Link] = {}
    nodes = robot.children("link")
    if not 0 < len(nodes) <= MOST_LINKS:
        raise ConfigError(f"{file}: robot: must have from 1 to {MOST_LINKS} links, got {len(nodes)}")
    for node in nodes:
        name = node.attribute("name")
        if name in links:
            raise node.fail("there are two links of this name")
        visuals = [read_shape(v, k, paths, shelf, *table.of(v)) for k, v in enumerate(node.children("visual"))]
        collisions = [read_shape(c, k, paths, shelf) for k, c in enumerate(node.children("collision"))]
        links[name] = Link(name, tuple(visuals), tuple(collisions))
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
    """The root element, once it is known to be a URDF's."""
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
        notes.append(f"{node.place} is {kind} and is held at its origin")
    axis = _axis(node) if kind in MOVING else (1.0, 0.0, 0.0)
    lower, upper = _limits(node, kind)
    return Joint(name, kind, ends[0], ends[1], node.origin(), axis, lower, upper, _mimic(node, kind))


def _axis(node: Node) -> tuple[float, float, float]:
    """The unit vector of a joint, x where none is given, as URDF has it."""
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
    """Limits of a joint. Of a pair, a missing one is 0, as URDF has it; where both are missing there are none."""
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
    """Every joint that follows another ends at one with a position of its own."""
    moving = [name for name, joint in joints.items() if joint.kind in MOVING]
    for joint in joints.values():
        seen, mimic = {joint.name}, joint.mimic
        while mimic is not None:
            if mimic.joint not in moving:
                raise unknown_name("joint", mimic.joint, moving, f"(of {file}: joint {joint.name!r}: mimic)")
            if mimic.joint in seen:
                raise ConfigError(f"{file}: joint {joint.name!r}: mimic: joints follow each other in a circle")
            seen.add(mimic.joint)
            mimic = joints[mimic.joint].mimic


def _tree(file: Path, links: Mapping[str, Link], joints: Mapping[str, Joint]) -> tuple[str, dict[str, Joint]]:
    """Name of the root link, and the joints from it outwards; links must hang together as one tree."""
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
        raise ConfigError(f"{file}: joint {lost.name!r}: is part of a circle of links, which must be a tree")
    return roots[0], ordered
