"""`parhelion demo`: a vessel in the harbour at dusk, in rain; bag, clouds, IMU samples, trajectory, picture, report."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from parhelion.cli import screen
from parhelion.cli.clouds import CloudFiles, make_folder
from parhelion.cli.engine import start_engine

EXAMPLES = ("parhelion demo", "parhelion demo -o first-trip --seconds 3 --seed 7")

LIDAR, IMU = "velodyne/vlp-16", "xsens/mti-3"
LONGEST_S = 25.0
"""How long the way is: to the end of the canal."""


def scenario_of(seconds: float, seed: int) -> dict[str, Any]:
    """The demo as a scenario file has it."""
    on_board = {"vehicle": "aurora"}
    return {
        "name": "a vessel in the harbour at dusk, in rain",
        "seed": seed,
        "duration_s": seconds,
        "step_s": 0.02,
        "world": "harbour",
        "weather": {"rain_rate_mm_h": 25.0, "wind_m_s": [3.0, 1.0, 0.0]},
        "water": {"kind": "ocean", "wind_speed_m_s": 5.0, "fetch_m": 2000.0},
        "vehicles": [
            {"name": "aurora", "model": "dlr/aurora", "start": {"xyz": [30.0, -2.0, 0.0]},
             "follow": {"points": [[70.0, -1.0, 0.0], [110.0, 0.0, 0.0]], "speed_m_s": 3.0}},
        ],
        "sensors": [
            {"name": "lidar", "type": "lidar", "model": LIDAR, "mount": {"xyz": [0.5, 0.0, 2.0]}, **on_board,
             "options": {"sun_klx": 0.5}},
            {"name": "imu", "type": "imu", "model": IMU, "rate_hz": 100.0, "mount": {"xyz": [0.0, 0.0, 0.5]},
             **on_board},
        ],
    }  # fmt: skip


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for all files.")] = Path("demo-out"),
    seed: Annotated[int, typer.Option(help="Seed of waves, drops and noise.")] = 0,
    seconds: Annotated[float, typer.Option(min=0.1, max=LONGEST_S, help="Length of the trip, in s.")] = 10.0,
) -> None:
    """Take a vessel through a harbour in rain and write a bag, clouds, IMU samples, trajectory, picture and report."""
    from parhelion.core.files import only_writer

    make_folder(output)
    with only_writer(output):
        _sail(output, seed, seconds)


def _sail(output: Path, seed: int, seconds: float) -> None:
    import yaml

    from parhelion.cli.report import first_points, how_to_read
    from parhelion.cli.summary import Tally
    from parhelion.core.config import parse
    from parhelion.core.files import write_whole
    from parhelion.core.inertial import joined
    from parhelion.core.records import Scan
    from parhelion.outputs.bag import BagSink
    from parhelion.outputs.files import write_samples
    from parhelion.outputs.manifest import sha256_of
    from parhelion.outputs.report.collect import RunReport
    from parhelion.outputs.run import BATCH_S
    from parhelion.pictures import Drive
    from parhelion.scenario.scenario import Scenario
    from parhelion.scenario.schema import BagOutput, ScenarioFile

    began = clock.perf_counter()
    files = CloudFiles.at(output / "clouds", "pcd", several=True)
    described = scenario_of(seconds, seed)
    scenario = Scenario(parse(ScenarioFile, described, "demo"))
    text = yaml.safe_dump(described, sort_keys=False, default_flow_style=None, width=110)
    write_whole(output / "scenario.yaml", text.encode("utf-8"))
    scanner = scenario.giving(Scan)[0]
    samples: list[Any] = []
    start_engine()
    tally, drive = Tally(), Drive()
    report = RunReport(scenario, output, resume=False)
    bag = BagSink(BagOutput(kind="bag"), scenario, output)
    first_rows = ""
    before = clock.perf_counter()
    with screen.progress("sailing", scenario.frame_count) as advance, _left_readable(bag):
        for step in scenario.walk(batch_s=BATCH_S):
            report.take(step)
            for number, scan in step.scans.get("lidar", []):
                tally.add(scan, clock.perf_counter() - before)
                files.write(scan, number)
                drive.add(scan)
                first_rows = first_rows or first_points(scan)
                before = clock.perf_counter()
                advance()
            samples += [found["imu"]] if (found := step.new_samples()) else []
            bag.take(step)
    recorded = bag.close()
    trajectory, stream, picture = (output / name for name in ("trajectory.tum", "imu.csv", "demo.png"))
    whole = joined(samples)
    write_samples(whole, stream)
    report.sampled("imu", whole)
    _write_trajectory(scenario, trajectory)
    with screen.progress("drawing", 2) as advance:
        drive.draw(picture, title=f"{scanner.sensor.config.name} on a vessel in the harbour, rain of 25 mm/h")
        advance()
        written = [*files.written, *recorded, *report.counts(), stream, picture, output / "scenario.yaml"]
        written += [trajectory] if trajectory.exists() else []
        hashes = {file.relative_to(output).as_posix(): sha256_of(file) for file in written}
        page = report.write(hashes, more=first_rows + how_to_read())
        advance()
    needed = clock.perf_counter() - began
    files.finish()
    pace = f"{seconds:g} s in {needed:.1f} s, pictures and set-up included"
    screen.facts(scenario.settings.name, [("simulated", pace), *tally.rows()])
    screen.say(f"""
wrote {files.path}/  {len(files.written)} clouds (binary PCD)
      {recorded[0]}  all of it as a ROS 2 bag (MCAP)
      {trajectory}  pose of the lidar at each scan's start (TUM)
      {stream}  100 samples a second of the IMU
      {picture}  look at this one first
      {page}  pictures, curves and tables of all of it, for a browser
      {output / "scenario.yaml"}  all of it as a file to change: parhelion run

next: parhelion scan --world city --sensor ouster/os1-128 --visibility 100 -o scan.ply --png scan.png""")


@contextmanager
def _left_readable(bag: Any) -> Iterator[None]:
    """A trip that is stopped leaves a bag that can be read as far as it goes."""
    try:
        yield
    except BaseException:
        bag.abandon()
        raise


def _write_trajectory(scenario: Any, file: Path) -> None:
    """Write the lidar's poses."""
    import numpy as np

    from parhelion.io import tum
    from parhelion.io.timed_poses import TimedPoses

    scanner = scenario.frame_sensors[0]
    starts = np.array([scanner.start(number) for number in range(scanner.count(scenario.duration_s))])
    if len(starts):
        tum.write(TimedPoses(starts, *scanner.motion.sample(starts)), file)
