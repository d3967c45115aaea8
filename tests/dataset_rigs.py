"""A short drive past cars and people, for tests of data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

YARD: dict[str, Any] = {
    "name": "yard",
    "objects": [
        {"shape": {"kind": "plane", "size_m": [120, 80]}, "material": "concrete", "label": "road"},
        {"shape": {"kind": "box", "size_m": [40, 1, 5]}, "material": "brick", "label": "wall",
         "pose": {"xyz": [10, 14, 2.5]}},
        {"shape": {"kind": "box", "size_m": [40, 1, 5]}, "material": "brick", "label": "building",
         "pose": {"xyz": [10, -12, 2.5]}},
        {"shape": {"kind": "box", "size_m": [1, 8, 3]}, "material": "steel", "label": "container",
         "pose": {"xyz": [40, 3, 1.5]}},
    ],
}  # fmt: skip
DRIVE: dict[str, Any] = {
    "name": "past cars and people",
    "seed": 11,
    "duration_s": 1.2,
    "world": "yard.yaml",
    "report": False,
    "vehicles": [
        {"name": "carrier", "motion": {"constant": {"xyz": [1, 0, 0], "velocity_m_s": [4, 0, 0], "turn_rate_deg_s": 8}}}
    ],
    "sensors": [
        {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "carrier",
         "mount": {"xyz": [0.4, 0, 1.8], "rpy_deg": [1, 6, 10]}, "options": {"sub_rays": 1}},
    ],
    "people": [
        {"name": "walker", "spline": {"points": [[8, -6, 0], [14, -5, 0], [20, -5, 0]], "max_speed_m_s": 1.4}},
        {"name": "guard", "motion": {"fixed": {"xyz": [12, 6, 0]}}},
    ],
    "machines": [
        {"kind": "car", "name": "parked", "model": "suv",
         "motion": {"fixed": {"xyz": [14, 9, 0], "rpy_deg": [0, 0, 30]}}},
        {"kind": "car", "name": "driven", "model": "sedan",
         "motion": {"constant": {"xyz": [26, 3, 0], "rpy_deg": [0, 0, 180], "velocity_m_s": [-5, 0, 0]}}},
        {"kind": "forklift", "motion": {"fixed": {"xyz": [-6, 7, 0]}}},
    ],
    "scatter": [{"area_m": [5, -4, 9, -2], "kinds": ["cone"], "count": 2}],
}  # fmt: skip


def drive(folder: Path, kinds: list[str], **changes: Any) -> Path:
    """The scenario file of the drive, with outputs of these kinds."""
    (folder / "yard.yaml").write_text(yaml.safe_dump(YARD))
    file = folder / "drive.yaml"
    file.write_text(yaml.safe_dump({**DRIVE, "outputs": [{"kind": kind} for kind in kinds], **changes}))
    return file
