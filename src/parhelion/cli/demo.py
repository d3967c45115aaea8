"""`parhelion demo`: a drive through the built-in city, with clouds, trajectory, picture and report."""

from __future__ import annotations

import time as clock
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.clouds import CloudFiles, make_folder
from parhelion.cli.engine import start_engine
from parhelion.cli.scan import load_world

if TYPE_CHECKING:
    from parhelion import Pose

EXAMPLES = ("parhelion demo", "parhelion demo -o first-drive --scans 50 --seed 7")

WORLD, SENSOR = "city", "ouster/os1-128"
START_S = 3.0
"""Where on the world's path the drive begins: between houses, before a crossing."""


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for all files.")] = Path("demo-out"),
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    scans: Annotated[int, typer.Option(min=1, help="Scans, ten a second.")] = 20,
) -> None:
    """Drive a 128-channel lidar through a city and write clouds, trajectory, a picture and a report."""
    from parhelion import Lidar
    from parhelion.cli.report import first_points, write_report
    from parhelion.cli.summary import Tally
    from parhelion.pictures import Drive

    began = clock.perf_counter()
    make_folder(output)
    files = CloudFiles.at(output / "clouds", "pcd", several=True)
    world, lidar = load_world(WORLD), Lidar(SENSOR)
    path = world.path
    assert path is not None
    most = _most_scans(path, lidar.rate_hz)
    if scans > most:
        raise typer.BadParameter(f"the drive through {WORLD} is over after {most} scans", param_hint="--scans")
    start_engine()
    tally, drive, places = Tally(), Drive(), []
    first_rows = ""
    with screen.progress("driving", scans) as advance:
        for number in range(scans):
            before = clock.perf_counter()
            scan = lidar.scan(world, trajectory=path, time=START_S + number / lidar.rate_hz, seed=seed)
            tally.add(scan, clock.perf_counter() - before)
            files.write(scan, number)
            places.append((scan.start_time, scan.pose))
            drive.add(scan)
            if number == 0:
                first_rows = first_points(scan)
            advance()
    trajectory, picture, page = (output / name for name in ("trajectory.tum", "demo.png", "report.html"))
    write_tum(places, trajectory)
    with screen.progress("drawing", 1) as advance:
        drive.draw(picture, title=f"{lidar.config.name} drives through the {WORLD}")
        advance()
    seconds = clock.perf_counter() - began
    write_report(page, world=world, lidar=lidar, tally=tally, seed=seed, first_rows=first_rows, seconds=seconds)
    files.finish()
    screen.facts(f"{lidar.config.name} drove through the {WORLD}", tally.rows())
    screen.say(f"""
wrote {files.path}/  {len(files.written)} clouds (binary PCD)
      {trajectory}  pose of the sensor at each scan's start (TUM)
      {picture}  look at this one first
      {page}  the same in words

next: parhelion scan --world harbour --sensor velodyne/vlp-16 -o scan.ply --png scan.png""")


def _most_scans(path: object, rate_hz: float) -> int:
    end = float(getattr(path, "times", [1e9])[-1])
    return int((end - START_S) * rate_hz)


def write_tum(places: list[tuple[float, Pose]], file: Path) -> None:
    """Timed poses as the TUM benchmark writes them: `time x y z qx qy qz qw` [s, m], one a line."""
    from parhelion.io import atomic_write

    lines = ["# time x y z qx qy qz qw"]
    for time, pose in places:
        numbers = " ".join(f"{value:.9f}" for value in (*pose.xyz, *pose.quat_xyzw))
        lines.append(f"{time:.9f} {numbers}")
    with atomic_write(file) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="ascii")
