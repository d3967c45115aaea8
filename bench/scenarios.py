"""Complete scenarios against real time, and generation of procedural worlds."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from typing import Any

from tables import Goal, Table
from workloads import OS1, Settings

from parhelion.cli.demo import scenario_of
from parhelion.outputs.run import BATCH_S
from parhelion.scenario.scenario import Scenario

_SECONDS = 10.0


def tables(settings: Settings) -> Iterator[Table]:
    """Real-time factors of two scenarios, then procedural worlds."""
    yield _pace(settings)
    yield _worlds(settings)


def harbour(seconds: float) -> dict[str, Any]:
    """The demo without its camera: a vessel on waves in rain, VLP-16 with 25 sub-rays, IMU at 200 Hz."""
    fields = scenario_of(seconds, 0)
    fields["sensors"] = [sensor for sensor in fields["sensors"] if sensor["type"] != "camera"]
    for sensor in fields["sensors"]:
        if sensor["type"] == "imu":
            sensor["rate_hz"] = 200.0
        else:
            sensor["options"] = {**sensor["options"], "sub_rays": 25}
    return fields


def city(seconds: float, sub_rays: int) -> dict[str, Any]:
    """An OS1-128 on a car among 15 cars and 15 people."""
    lanes = [[-40.0, -3.0, 0.0], [40.0, -3.0, 0.0], [40.0, 3.0, 0.0], [-40.0, 3.0, 0.0]]
    sidewalk = [[-40.0, -8.0, 0.0], [40.0, -8.0, 0.0], [40.0, -9.0, 0.0], [-40.0, -9.0, 0.0]]
    way = {"points": [[0.0, 0.0, 0.0], [30.0, 0.0, 0.0], [60.0, 0.0, 0.0]], "max_speed_m_s": 8.0}
    return {
        "seed": 3,
        "duration_s": seconds,
        "world": "city",
        "vehicles": [{"name": "ego", "motion": {"spline": way}}],
        "traffic": [{"routes": [lanes], "count": 15, "speed_m_s": 8.0}],
        "pedestrians": [{"routes": [sidewalk], "count": 15, "speed_m_s": 1.3}],
        "sensors": [
            {"name": "top", "type": "lidar", "model": OS1, "vehicle": "ego", "mount": {"xyz": [0.0, 0.0, 1.9]},
             "options": {"sub_rays": sub_rays}},
            {"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "ego"},
        ],
    }  # fmt: skip


def _pace(settings: Settings) -> Table:
    table = Table(
        "scenarios",
        "Scenarios against real time",
        ["scenario", "sub-rays", "simulated s", "measured only", "with files", "goal"],
        notes=["Times real time, after a first run that loads the kernels. Measured only: vehicles, scans and samples; "
               "with files: all that `parhelion run` writes into a folder, from reading the scenario on."],
    )  # fmt: skip
    seconds = 2.0 if settings.quick else _SECONDS
    cases = [
        ("harbour: vessel, VLP-16 in rain, IMU 200 Hz", 25, harbour(seconds), Goal("at least", 2.0, "×")),
        ("city: 30 moving actors, OS1-128", 5, city(seconds, 5), Goal("at least", 1.0, "×")),
        ("city: 30 moving actors, OS1-128", 25, city(seconds, 25), None),
    ]
    for name, sub_rays, fields, goal in cases:
        Scenario.from_mapping({**fields, "duration_s": 0.3}).run(tempfile.mkdtemp(), progress=None)
        measured = max(_measured(fields) for _ in range(1 if settings.quick else 2))
        table.add(
            {
                "scenario": name,
                "sub-rays": sub_rays,
                "simulated s": seconds,
                "measured only": measured,
                "with files": _with_files(fields),
                "goal": goal.verdict(measured) if goal else None,
            }
        )
    return table


def _measured(fields: dict[str, Any]) -> float:
    """Real-time factor of a scenario, measured as in a run: frames step by step, samples together."""
    scenario = Scenario.from_mapping(fields)
    start = time.perf_counter()
    for step in scenario.walk(batch_s=BATCH_S):
        step.new_samples()
    return scenario.duration_s / (time.perf_counter() - start)


def _with_files(fields: dict[str, Any]) -> float:
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario.from_mapping(fields)
        scenario.run(folder)
        return scenario.duration_s / (time.perf_counter() - start)


def _worlds(settings: Settings) -> Table:
    from parhelion.world.procedural import require_sound, warehouse

    count = 50 if settings.quick else 1000
    start = time.perf_counter()
    for seed in range(count):
        require_sound(warehouse(seed=seed), f"seed {seed}")
    seconds = time.perf_counter() - start
    table = Table(
        "scenarios", "Worlds made by rule", ["kind", "worlds", "s", "goal"], notes=["Each is checked for validity."]
    )
    goal = Goal("at most", 60.0 * count / 1000, " s")
    table.add({"kind": "warehouse", "worlds": count, "s": seconds, "goal": goal.verdict(seconds)})
    return table
