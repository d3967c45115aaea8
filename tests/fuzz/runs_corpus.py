"""Small valid files of vehicles, robots, runs, campaigns and records, and the function that reads each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import parhelion as ph
from campaign_rigs import write_study
from fuzz.seed import Seed
from parhelion.campaign import Study
from parhelion.campaign.campaign import ABOUT, _about
from parhelion.campaign.search import Search
from parhelion.campaign.store import LocalStore, Pieces, results_of, table_bytes
from parhelion.contact.chassis import chassis_of
from parhelion.motion.vehicles.library import FOLDER, vehicle
from parhelion.outputs.manifest import JOURNAL, MANIFEST, EarlierRun, content_of
from parhelion.outputs.report.frames import CountsFile, ScanCounts
from parhelion.outputs.verify import verify
from parhelion.scenario.control import Control
from parhelion.scenario.events import read_events
from parhelion.world.coverage import packed_cells
from parhelion.world.rebuilt import COVERAGE_FILE, NORMAL_STEPS, PLACE_FILE, SURFEL_FILE
from parhelion.world.urdf import load_urdf
from soak.rigs import measured, sensor, yard

ROBOT = """<mujoco><worldbody><body name="base"><freejoint/>
<geom type="box" size="0.4 0.2 0.1" pos="0 0 0.25" mass="30"/>
<body name="left" pos="0 0.3 0.16"><joint name="left" axis="0 1 0"/>
<geom type="ellipsoid" size="0.16 0.16 0.05" euler="90 0 0" mass="2"/></body>
<body name="right" pos="0 -0.3 0.16"><joint name="right" axis="0 1 0"/>
<geom type="ellipsoid" size="0.16 0.16 0.05" euler="90 0 0" mass="2"/></body>
</body></worldbody><actuator><velocity name="a" joint="left" kv="50"/><velocity name="b" joint="right" kv="50"/>
</actuator></mujoco>"""
LINK = (
    '<inertial><mass value="{}"/><inertia ixx="0.3" iyy="0.3" izz="0.3"/></inertial><collision><geometry>{}</geometry>'
)
URDF = (
    '<robot name="cart"><link name="base">' + LINK.format(30, '<box size="0.9 0.4 0.2"/>') + "</collision></link>"
    + "".join(
        f'<link name="{name}">' + LINK.format(2, '<sphere radius="0.16"/>') + "</collision></link>"
        f'<joint name="{name}" type="continuous"><parent link="base"/><child link="{name}"/>'
        f'<origin xyz="0 {y} 0"/><axis xyz="0 1 0"/></joint>'
        for name, y in (("left", 0.3), ("right", -0.3))
    ) + "</robot>"
)  # fmt: skip
SCENARIO = """name: traffic
world: {name: test-range}
duration_s: 0.2
seed: 3
weather: {rain_rate_mm_h: 10}
vehicles:
  - {name: husky, model: clearpath/husky, dynamics: rays, on_collision: stop, start: {xyz: [0, 0, 0]}}
  - {name: cart, motion: {constant: {velocity_m_s: [1, 0, 0]}}, body: {shape: {kind: box, size_m: [1, 1, 1]}}}
people:
  - {motion: {constant: {xyz: [9, 5, 0], velocity_m_s: [1, 0, 0]}}, height_m: 1.7}
machines:
  - {kind: car, motion: {constant: {xyz: [12, 5, 0], velocity_m_s: [-1, 0, 0]}}}
sensors:
  - {name: roof, type: lidar, model: velodyne/vlp-16, vehicle: husky, mount: {xyz: [0, 0, 1]}, options: {sub_rays: 1}}
  - {name: imu, type: imu, model: bosch/bmi160, vehicle: husky, rate_hz: 50}
outputs: [{kind: bag, images: png}]
"""


def _vehicles(folder: Path) -> list[Seed]:
    def read(path: Path) -> None:
        found = vehicle(path)
        if found.config.kind in ("differential", "car"):  # type: ignore[attr-defined]
            chassis_of(found.config)  # type: ignore[attr-defined]

    seeds = []
    for name in ("clearpath/husky", "bmw/320i", "dlr/aurora", "asctec/hummingbird"):
        file = folder / f"{name.rpartition('/')[2]}.yaml"
        shutil.copy(FOLDER / f"{name}.yaml", file)
        seeds.append(Seed(file, read))
    (folder / "traffic.yaml").write_text(SCENARIO)
    return [*seeds, Seed(folder / "traffic.yaml", ph.Scenario.load)]


def _robots(folder: Path) -> list[Seed]:
    if find_spec("mujoco") is None:
        return []
    from parhelion.contact.jointed import JointedDriver

    ground = ph.World()
    ground.add(ph.shapes.box(20, 20, 1), material="concrete", label="ground", pose=ph.Pose((0, 0, -0.5)))

    def drive(robot: Any) -> None:
        driver = JointedDriver(ground)
        driver.add("robots", robot, ph.Pose())
        driver.step([ph.DriveCommand(0.5)], 0.01)

    (folder / "robot.xml").write_text(ROBOT)
    (folder / "cart.urdf").write_text(URDF)
    return [
        Seed(folder / "robot.xml", drive),
        Seed(folder / "cart.urdf", lambda path: drive(load_urdf(path))),
    ]


def _run(folder: Path) -> list[Seed]:
    """Folder of a run: manifest, journal and statistics."""
    fields = {
        "duration_s": 0.1, "world": "cuboids", "report": False,
        "vehicles": [{"name": "cart", "motion": {"constant": {"velocity_m_s": [1, 0, 0]}}}],
        "sensors": [{"name": "imu", "type": "imu", "model": "bosch/bmi160", "rate_hz": 25.0, "vehicle": "cart"}],
    }  # fmt: skip
    scenario = ph.Scenario.from_mapping(fields)
    scenario.run(folder)
    manifest = json.loads((folder / MANIFEST).read_text())
    lines = "".join(json.dumps({name: value}) + "\n" for name, value in manifest["files"].items())
    manifest["complete"] = False
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))
    (folder / JOURNAL).write_text(lines)
    content = content_of(scenario)

    def read(path: Path) -> None:
        verify(path.parent)
        earlier = EarlierRun.of(path.parent, content, resume=True)
        earlier.has(*(file for file in folder.rglob("*") if file.is_file()))

    counts = ScanCounts("top", 0, 0.0, 5, 9, 4, (1.0, 2.0, 3.0), {"surface": 5}, {"road": 5}, {"3": 2})
    (folder / "counts").mkdir()
    file = folder / "counts" / "counts.jsonl"
    file.write_text("".join(json.dumps(asdict(counts) | {"scan": k}) + "\n" for k in range(3)))
    return [
        Seed(folder / MANIFEST, read),
        Seed(folder / JOURNAL, read),
        Seed(file, lambda path: CountsFile(path, [("top", k) for k in range(3)])),
    ]


def _events(folder: Path) -> list[Seed]:
    """Log of edits, which are repeated."""
    fields = {
        "duration_s": 0.1, "world": "cuboids", "report": False,
        "vehicles": [{"name": "cart", "dynamics": "external"}],
        "sensors": [{"name": "imu", "type": "imu", "model": "bosch/bmi160", "rate_hz": 100.0, "vehicle": "cart"}],
    }  # fmt: skip
    file = folder / "events.jsonl"
    for step in ph.Scenario.from_mapping(fields).walk(events=file):
        if step.number == 2:
            step.world.weather = ph.Weather(rain_rate_mm_h=5.0)
            crate = step.world.add(ph.shapes.box(1, 1, 1), material="wood", pose=ph.Pose((4, 0, 0.5)))
            step.world.add(([[0, 0, 0], [1, 0, 0], [0, 1, 1]], [[0, 1, 2]]), material="steel")
            step.world.daylight = ph.Daylight(sun_elevation_deg=20.0)
        if step.number == 4:
            step.world.remove(crate)
            step.move("cart", ph.Pose((0.1, 0.0, 0.0)))
            step.attach({"name": "b", "type": "barometer", "model": "bosch/bmp388", "vehicle": "cart"})
        if step.number == 6:
            step.detach("b")

    def replay(path: Path) -> None:
        scenario = ph.Scenario.from_mapping(fields)
        control = Control(scenario, script=read_events(path, scenario))
        control.listeners.append(lambda *_: None)
        control.run()

    return [Seed(file, replay)]


def _campaign(folder: Path) -> list[Seed]:
    """Folder of a campaign: its description, results in pieces and table."""
    if find_spec("pyarrow") is None:
        return []
    study = Study.load(write_study(folder, vary={"weather.rain_rate_mm_h": [0, 50]}, measures=["detection_share"]))
    about = _about(study, LocalStore(folder), str(folder))
    (folder / ABOUT).write_text(json.dumps(about))
    rows = [
        {"row": k, "status": "ok", "numbers": dict.fromkeys(study.numbers, 0.5), "weather_validity": "{}"}
        for k in range(len(study))
    ]  # fmt: skip
    (folder / "pieces").mkdir()
    piece = folder / "pieces" / "000000.jsonl"
    piece.write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = folder / "results.parquet"
    table.write_bytes(table_bytes(study, {row["row"]: row for row in rows}, range(len(study)), about))
    return [
        Seed(folder / ABOUT, lambda path: _about(study, LocalStore(folder), str(folder))),
        Seed(piece, lambda path: Pieces(LocalStore(folder)).load()),
        Seed(table, lambda path: results_of(path.read_bytes(), str(path), study.numbers)),
    ]


def _records(folder: Path) -> list[Seed]:
    """A record of each kind of sensor except lidars and cameras."""
    world, seeds = yard(), []
    for kind in ("radar", "echo", "imu", "odometry", "barometer", "magnetometer", "gnss", "uwb"):
        record = measured(sensor(kind), world)
        record.save(folder / f"{kind}.npz")
        read: Callable[[Path], Any] = type(record).load
        seeds.append(Seed(folder / f"{kind}.npz", read))
    np.savez(folder / "empty.npz")
    return seeds


def _place(folder: Path) -> list[Seed]:
    """World rebuilt from a recording: its file, its surfels, and the cells that the recording covers."""
    rng = np.random.default_rng(2)
    columns = {
        "centre": rng.normal(size=(20, 3)).astype(np.float32), "radius": np.full(20, 0.05, np.float32),
        "normal": np.tile(np.array([0, 0, NORMAL_STEPS], np.int16), (20, 1)),
        "label": np.arange(20, dtype=np.uint8) % 2,
        "reflectance": rng.random(20).astype(np.float16), "cover": rng.integers(50, 255, 20).astype(np.uint8),
    }  # fmt: skip
    np.savez_compressed(folder / SURFEL_FILE, **columns)
    np.savez_compressed(folder / COVERAGE_FILE, cells=packed_cells(columns["centre"], 0.5), cell_m=0.5)
    poses = [[0.5 * k, 0.0, 1.5, 0.0, 0.0, 0.0, 1.0] for k in range(3)]
    fields = {"kind": "rebuilt", "name": "hall", "sensor": "velodyne/vlp-16", "times": [0, 1, 2], "path": poses}
    (folder / PLACE_FILE).write_text(yaml.safe_dump(fields))

    def load(path: Path) -> None:
        world = ph.World.load(path.parent)
        if world.coverage is not None:
            world.coverage.seen(np.zeros((1, 3)))

    return [Seed(folder / name, load) for name in (PLACE_FILE, SURFEL_FILE, COVERAGE_FILE)]


def _search(folder: Path) -> list[Seed]:
    """Search, and the runs of an earlier one in its folder."""
    write_study(folder)
    fields = {
        "scenario": "scenario.yaml", "search": {"weather.rain_rate_mm_h": {"mild": 0, "severe": 50}},
        "breaks": {"measure": "points_per_scan", "below": 5.0}, "seeds": 2,
    }  # fmt: skip
    (folder / "search.yaml").write_text(yaml.safe_dump(fields))
    return [Seed(folder / "search.yaml", Search.load)]


PARTS = (_vehicles, _robots, _run, _events, _campaign, _records, _place, _search)
"""Function that creates each group of files."""
