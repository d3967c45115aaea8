"""Worlds, scenarios and files for the long-running tests, and readings of a process."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import yaml

import parhelion as ph

MOTION = ph.ConstantTwist(ph.Pose((0.3, -0.2, 1.7), rpy_deg=(1, -2, 20)), velocity=(2.0, 0.3, 0.0))
MODELS = {
    "lidar": "velodyne/vlp-16", "camera": "generic/vga", "radar": "ti/iwr6843", "echo": "generic/ultrasonic-ranger",
    "imu": "bosch/bmi160", "odometry": "clearpath/husky", "barometer": "bosch/bmp388",
    "magnetometer": "bosch/bmm150", "gnss": "generic/automotive", "uwb": "qorvo/dw1000",
}  # fmt: skip
"""One model per kind of sensor."""
OPTIONS: dict[str, dict[str, Any]] = {"lidar": {"sub_rays": 1}, "camera": {"samples": 4, "bounces": 1, "width": 160}}
"""Options that make a measurement cheaper."""
SLOW_MODELS = {**MODELS, "lidar": "slamtec/rplidar-a1"}
SLOW_RATES_HZ = {"camera": 0.2, "radar": 1.0, "echo": 1.0, "gnss": 1.0, "uwb": 1.0, "imu": 25.0}
"""Models and rates with which an hour takes minutes."""
_TICKS = os.sysconf("SC_CLK_TCK")
_BOXES = [
    ("plane", (120, 80), "concrete", "road", (0, 0, 0)),
    ("box", (40, 1, 5), "brick", "wall", (10, 14, 2.5)),
    ("box", (40, 1, 5), "brick", "building", (10, -12, 2.5)),
    ("box", (1, 8, 3), "steel", "container", (20, 3, 1.5)),
    *(("box", (0.1, 0.1, 0.1), "plastic", "pole", (x, y, 3 + k)) for k, (x, y) in enumerate(
        [(9, 9), (9, -9), (-9, 9), (-9, -9)]
    )),
]  # fmt: skip


def yard() -> ph.World:
    """Ground, walls, a container, four anchors and a passing car."""
    world = ph.World("yard")
    for number, (kind, size, material, label, place) in enumerate(_BOXES):
        name = f"anchor-{number}" if label == "pole" else None
        world.add(getattr(ph.shapes, kind)(*size), material=material, label=label, pose=ph.Pose(place), name=name)
    world.add_actor(
        ph.shapes.box(4, 2, 1.5), material="car-paint-red", label="car",
        trajectory=ph.ConstantTwist(ph.Pose((12, 5, 0.8)), (-8, 0, 0)),
    )  # fmt: skip
    return world


def sensor(kind: str, name: str = "it") -> Any:
    """Sensor of a kind, with cheap options."""
    return ph.sensor(kind, MODELS[kind], name=name, **OPTIONS.get(kind, {}))


def measured(one: Any, world: ph.World, time: float = 0.0, seed: int = 7) -> Any:
    """One measurement: a frame, or a quarter of a second of samples."""
    if hasattr(one, "run"):
        return one.run(world, MOTION, start=time, duration=0.25, seed=seed)
    return one.measure(world, MOTION, time=time, seed=seed)


def write_scenario(folder: Path, kinds: tuple[str, ...] = tuple(MODELS), *, slow: bool = False, **changes: Any) -> Path:
    """Scenario file of a drive through the yard with sensors of some kinds, together with its world.

    With `slow`, sensors measure at low rates.
    """
    models, rates = (SLOW_MODELS, SLOW_RATES_HZ) if slow else (MODELS, {"camera": 1.0})
    objects = [
        {
            "shape": {"kind": kind, "size_m": list(size)}, "material": material, "label": label,
            "pose": {"xyz": list(place)}, **({"name": f"anchor-{number}"} if label == "pole" else {}),
        }
        for number, (kind, size, material, label, place) in enumerate(_BOXES)
    ]  # fmt: skip
    (folder / "yard.yaml").write_text(yaml.safe_dump({"name": "yard", "objects": objects}))
    sensors = [
        {
            "name": f"my-{kind}", "type": kind, "model": models[kind], "vehicle": "robot",
            "mount": {"xyz": [0, 0, 1.5]}, "options": OPTIONS.get(kind, {}),
            **({"rate_hz": rates[kind]} if kind in rates else {}),
        }
        for kind in kinds
    ]  # fmt: skip
    # In long scenarios, robot and car move slowly: both stay in the yard and outside of its objects.
    duration = float(changes.get("duration_s", 2.0))
    speed, car_speed = min(1.0, 8.0 / duration), min(0.5, 3.0 / duration)
    content = {
        "name": "around the yard", "seed": 3, "duration_s": 2.0, "world": "yard.yaml", "report": False,
        "weather": {"rain_rate_mm_h": 10.0},
        "vehicles": [{"name": "robot", "motion": {"constant": {"velocity_m_s": [speed, 0, 0], "turn_rate_deg_s": 20}}}],
        "machines": [{"kind": "car", "motion": {"constant": {"xyz": [12, 5, 0], "velocity_m_s": [-car_speed, 0, 0]}}}],
        "sensors": sensors, **changes,
    }  # fmt: skip
    file = folder / "scenario.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


def cpu_s(pid: int) -> float:
    """Processor time [s] of a process; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def rss_mib(pid: int | str = "self") -> float:
    """Resident memory [MiB] of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def descriptors(pid: int | str = "self") -> int:
    """Number of open file descriptors of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def accept_interrupts() -> None:
    """Make SIGINT reach child processes even if this script runs in the background, where the shell ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
