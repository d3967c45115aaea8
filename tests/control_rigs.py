"""Scenarios that tests control from outside, random verbs for them, and hashes of what they write."""

from __future__ import annotations

import copy
import hashlib
import random
from pathlib import Path
from typing import Any

from parhelion.scenario import Scenario

YARD: dict[str, Any] = {
    "name": "yard",
    "seed": 3,
    "duration_s": 1.0,
    "world": "cuboids",
    "vehicles": [
        {"name": "robot", "model": "clearpath/husky", "body": {"shape": {"kind": "box", "size_m": [1, 0.6, 0.4]}}},
        {"name": "buggy", "dynamics": "external", "start": {"xyz": [3, 3, 0]}},
    ],
    "sensors": [
        {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "robot", "mount": {"xyz": [0, 0, 1]}},
        {"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "robot"},
    ],
    "outputs": [{"kind": "bag"}],
    "report": False,
}


def yard(**changes: Any) -> Scenario:
    """Scenario of a driven and an external vehicle among boxes."""
    return Scenario.from_mapping({**copy.deepcopy(YARD), **changes})


def hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of all files except the report, which states how long the run took."""
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != "report.html"
    }


def random_verb(chance: random.Random) -> dict[str, Any]:
    """Verb of a client, often one that is refused."""
    name = chance.choice(["crate", "crate-2", "ball", "robot", "buggy", "cuboid-1", "ghost"])
    place = {"xyz": [chance.uniform(-8, 8), chance.uniform(-8, 8), chance.uniform(0, 2)]}
    shape = {"kind": "box", "size_m": [chance.uniform(0.2, 2) for _ in range(3)]}
    sensor = chance.choice(["top", "imu", "low", "low-2", "none"])
    made: list[dict[str, Any]] = [
        {"op": "step", "steps": chance.randint(1, 4)},
        {"op": "step", "steps": chance.randint(1, 4)},
        {"op": "step", "steps": chance.randint(1, 4)},
        {"op": "pause"},
        {"op": "spawn", "name": name, "shape": shape, "pose": place, "allow_renaming": chance.random() < 0.3},
        {"op": "spawn", "shape": shape, "pose": place, "velocity": [chance.uniform(-5, 5), 0, 0]},
        {"op": "spawn", "name": name, "vertices": [[0, 0, 0], [1, 0, 0], [0, 1, 1]], "faces": [[0, 1, 2]]},
        {"op": "delete", "entity": name},
        {"op": "set_state", "entity": name, "pose": place, "angular_velocity": [0, 0, chance.uniform(-3, 3)]},
        {"op": "get_state", "entity": name},
        {"op": "weather", "changes": {"rain_rate_mm_h": chance.choice([0, 5, 25, None])}},
        {"op": "weather", "changes": {"visibility_m": chance.choice([60, 400, None])}},
        {"op": "daylight", "changes": {"sun_elevation_deg": chance.uniform(-10, 60)}},
        {"op": "mount", "sensor": sensor, "pose": {"xyz": [0, 0, chance.uniform(0.5, 2)]}},
        {"op": "attach", "sensor": {"name": sensor, "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "robot"}},
        {"op": "detach", "sensor": sensor},
        {"op": "command", "vehicle": name, "kind": "drive", "values": {"speed_m_s": chance.uniform(-1, 1)}},
        {"op": "entities", "filter": "c*"},
        {"op": "rays", "origins": [place["xyz"]], "directions": [[1, 0, 0], [0, 0, -1]]},
        {"op": "height", "xy": [place["xyz"][:2]]},
        {"op": "clearance", "vehicle": name},
        {"op": "collisions"},
        {"op": "bounds", "entity": name},
        {"op": "latest", "sensor": sensor},
        {"op": "sensors"},
        {"op": "status"},
        {"op": "features"},
    ]
    return chance.choice(made)
