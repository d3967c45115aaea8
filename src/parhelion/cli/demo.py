"""`parhelion demo`: run the scenario demo.yaml, a vessel in the harbour at dusk in rain, and draw the results."""

from __future__ import annotations

import time as clock
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import screen
from parhelion.cli.recordings import make_folder, warn_dropped_fields, warn_leftovers
from parhelion.cli.screen import start_engine

if TYPE_CHECKING:
    from parhelion import Scan
    from parhelion.scenario.scenario import Scenario, Step

EXAMPLES = ("parhelion demo", "parhelion demo -o first-trip --seconds 3 --seed 7")

SCENARIO = Path(__file__).with_name("demo.yaml")
LONGEST_S = 25.0
"""Duration of the trip to the end of the canal."""


def scenario_of(seconds: float, seed: int) -> dict[str, Any]:
    """Fields of the demo's scenario file for a trip of the given length."""
    import yaml

    fields: dict[str, Any] = yaml.safe_load(SCENARIO.read_text(encoding="utf-8"))
    return {**fields, "seed": seed, "duration_s": seconds}


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for all files.")] = Path("demo-out"),
    seed: Annotated[int, typer.Option(help="Seed of the waves, drops and noise.")] = 0,
    seconds: Annotated[float, typer.Option(min=0.1, max=LONGEST_S, help="Length of the trip, in s.")] = 10.0,
) -> None:
    """Take a vessel through a harbour in rain and write a bag, clouds, IMU samples, trajectory, picture and report."""
    from parhelion.core.config import parse
    from parhelion.scenario.scenario import Scenario
    from parhelion.scenario.schema import ScenarioFile

    began = clock.perf_counter()
    make_folder(output)
    fields = scenario_of(seconds, seed)
    scenario = Scenario(parse(ScenarioFile, fields, "demo"))
    start_engine()
    with ExitStack() as bars:
        trip = Trip(scenario, output, fields, bars)
        # A second demo in the same folder, possibly with another seed, replaces the first.
        summary = scenario.run(output, replace=True, watch=trip)
    needed = clock.perf_counter() - began
    clouds = output / trip.lidar.folder_name
    written = [file for file in summary.files if file.parent == clouds]
    warn_dropped_fields(summary.dropped)
    warn_leftovers(clouds, written, ".pcd")
    pace = f"{seconds:g} s in {needed:.1f} s, pictures and set-up included"
    screen.facts(scenario.settings.name, [("simulated", pace), *trip.tally.rows()])
    screen.print_line(f"""
wrote {clouds}/  {len(written)} clouds (binary PCD)
      {output / "bag" / "bag_0.mcap"}  everything as a ROS 2 bag (MCAP)
      {trip.trajectory}  pose of the lidar at each scan's start (TUM)
      {output / "camera"}/  one image per second, with depth, normals, classes and instances
      {output / "imu.csv"}  IMU samples at 100 Hz
      {trip.picture}  start with this picture
      {summary.report}  run report with pictures, curves and tables, for a browser
      {trip.scenario_file}  the scenario as a file to edit: parhelion run

next: parhelion scan --world city --sensor ouster/os1-128 --visibility 100 -o scan.ply --png scan.png""")


class Trip:
    """Observer of the demo run that counts the scans of the first lidar and draws them at the end."""

    def __init__(self, scenario: Scenario, folder: Path, fields: dict[str, Any], bars: ExitStack) -> None:
        from parhelion.cli.summary import Tally
        from parhelion.core.clouds import Scan
        from parhelion.pictures import DrivePoints

        self.lidar = scenario.giving(Scan)[0]
        self.tally, self._drive = Tally(), DrivePoints(scenario.world)
        self.scenario_file, self.trajectory, self.picture = (
            folder / name for name in ("scenario.yaml", "trajectory.tum", "demo.png")
        )
        self._scenario, self._fields, self._bars = scenario, fields, bars
        self._advance = bars.enter_context(screen.progress("sailing", scenario.frame_count))
        self._first_rows = ""
        self._before = clock.perf_counter()

    def take(self, step: Step) -> None:
        """Count the scans of a step."""
        if step.number == 0:
            self._write_scenario()
        for _, scan in step.scans.get(self.lidar.name, []):
            self.tally.add(scan, clock.perf_counter() - self._before)
            self._drive.add(scan)
            self._first_rows = self._first_rows or first_points(scan)
            self._before = clock.perf_counter()
        for _ in range(sum(map(len, step.frames.values()))):
            self._advance()

    def close(self) -> list[Path]:
        """Draw the picture and write the trajectory."""
        self._bars.close()
        advance = self._bars.enter_context(screen.progress("drawing", 2))
        title = f"{self.lidar.sensor.config.name} on a vessel in the harbour, rain of 25 mm/h"
        self._drive.draw(self.picture, title=title)
        advance()
        return [self.scenario_file, self.picture, *self._write_trajectory()]

    def abandon(self) -> None:
        """Keep all written files; each one is complete."""

    def on_page(self) -> str:
        """Sections with the first points in numbers and the code that reads a cloud."""
        return self._first_rows + how_to_read()

    def _write_scenario(self) -> None:
        import yaml

        from parhelion.core.files import write_whole

        text = yaml.safe_dump(self._fields, sort_keys=False, default_flow_style=None, width=110)
        write_whole(self.scenario_file, text.encode("utf-8"))

    def _write_trajectory(self) -> list[Path]:
        """Write the lidar's pose at the start of each scan; a trip shorter than one scan has none."""
        import numpy as np

        from parhelion.io import poses
        from parhelion.io.poses import TimedPoses

        count = self.lidar.count(self._scenario.duration_s)
        starts = np.array([self.lidar.start(number) for number in range(count)])
        if not count:
            return []
        poses.write_tum(TimedPoses(starts, *self.lidar.motion.sample(starts)), self.trajectory)
        return [self.trajectory]


# ---- sections added to the run report: the first points in numbers, and how to read a cloud -------------------------


_ROWS = 8


def first_points(scan: Scan) -> str:
    """Section of a page with the first points of a scan."""
    from parhelion.pictures import html

    names = scan.names.get("label", {})
    rows = [
        (
            *(f"{value:.3f}" for value in scan.xyz[row]),
            f"{scan.fields['intensity'][row]:.0f}",
            int(scan.fields["ring"][row]),
            f"{1e3 * scan.fields['time'][row]:.3f}",
            names.get(int(scan.fields["label"][row]), ""),
        )
        for row in range(min(_ROWS, len(scan)))
    ]
    columns = ("x [m]", "y [m]", "z [m]", "intensity", "ring", "time [ms]", "label")
    return html.section("first", "First points of the first scan", html.table(columns, rows, kinds="nnnnnn-"))


def how_to_read() -> str:
    """Section of a page with a line of Python that reads a cloud of the demo."""
    from parhelion.pictures import html

    code = 'import parhelion as ph; cloud = ph.PointCloud.load("clouds/000000.pcd"); cloud.xyz, cloud.label'
    return html.section("read", "Read a cloud", f"<p><code>{html.text(code)}</code></p>")
