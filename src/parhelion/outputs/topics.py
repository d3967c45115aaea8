"""Which topics and frames the sensors and vehicles of a scenario have in ROS: those of the real drivers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parhelion.core.errors import ConfigError, unknown_name
from parhelion.outputs.ros.rules import BASE, Layout, ros_name, rule_of

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario

# ---- topics ---------------------------------------------------------------------------------------------------------


_TOPIC = re.compile(r"^/[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*$")


@dataclass(frozen=True)
class Named:
    """What a sensor or vehicle is called in ROS."""

    topic: str
    """Of a vehicle: what its topics begin with, such as '' or '/husky'."""
    frame: str


def sensor_names(
    scenario: Scenario, topics: Mapping[str, str], frames: Mapping[str, str], layout: Layout = "driver"
) -> dict[str, Named]:
    """Topic and frame of every sensor that ROS knows: as told, else the driver's, with the sensor's name before it
    where two clash."""
    rules = {sensor.name: (sensor, rule_of(sensor)) for sensor in scenario.sensors}
    usual = {name: rule.names(sensor, layout) for name, (sensor, rule) in rules.items() if rule is not None}
    said = [topic for topic, _ in usual.values()]
    framed = [frame for _, frame in usual.values()]
    found = {}
    for name, (topic, frame) in usual.items():
        if said.count(topic) > 1:
            topic = f"/{ros_name(name)}{topic}"
        if framed.count(frame) > 1 and frame != BASE:
            frame = f"{ros_name(name)}/{frame}"
        found[name] = Named(topics.get(name, topic), frames.get(name, frame))
    return found


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
