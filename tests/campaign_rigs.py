"""Small study for campaign tests: a lidar of 105 beams in front of a wall, in rain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from parhelion.campaign import Study
from parhelion.campaign.trial import run_job
from rigs import sheet

WALL: dict[str, Any] = {
    "name": "wall",
    "objects": [
        {"shape": {"kind": "box", "size_m": [0.2, 30, 20]}, "material": "lambert-50", "label": "wall",
         "pose": {"xyz": [30, 0, 0]}},
    ],
}  # fmt: skip
SCENARIO: dict[str, Any] = {
    "name": "before a wall",
    "duration_s": 0.5,
    "world": "wall.yaml",
    "weather": {"rain_rate_mm_h": 20},
    "sensors": [{"name": "top", "type": "lidar", "model": "rig.yaml", "mount": {"xyz": [0, 0, 1]}}],
}
STUDY: dict[str, Any] = {
    "name": "rain before a wall",
    "scenario": "scenario.yaml",
    "vary": {"weather.rain_rate_mm_h": [0, 50, 200]},
    "seeds": 4,
}


def write_study(folder: Path, scenario: dict[str, Any] | None = None, /, **changes: Any) -> Path:
    """Study file, together with the files that it needs."""
    (folder / "wall.yaml").write_text(yaml.safe_dump(WALL))
    rig = sheet(beam={"divergence_mrad": (3, 3)}, receiver={"threshold_to_noise": 4.0})
    (folder / "rig.yaml").write_text(yaml.safe_dump(json.loads(rig.model_dump_json(exclude_none=True))))
    (folder / "scenario.yaml").write_text(yaml.safe_dump({**SCENARIO, **(scenario or {})}))
    file = folder / "study.yaml"
    file.write_text(yaml.safe_dump({**STUDY, **changes}, sort_keys=False))
    return file


def study_in(folder: Path, scenario: dict[str, Any] | None = None, /, **changes: Any) -> Study:
    """Study loaded from such a file."""
    return Study.load(write_study(folder, scenario, **changes))


class InThisProcess:
    """Stand-in for workers that runs rows in this process, one at a time."""

    notes: tuple[str, ...] = ()

    def __init__(self, *_: Any) -> None:
        self._jobs: list[str] = []

    @property
    def capacity(self) -> int:
        return 1 - len(self._jobs)

    def submit(self, row: int, job: str) -> None:
        self._jobs.append(job)

    def results(self) -> list[dict[str, Any]]:
        return [json.loads(run_job(self._jobs.pop()))]

    def close(self) -> None:
        self._jobs.clear()
