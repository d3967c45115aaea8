"""`parhelion run`: run a scenario and write its files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.recordings import warn_dropped_fields
from parhelion.cli.screen import start_engine, warn
from parhelion.cli.weather_options import validity_rows

EXAMPLES = (
    "parhelion run scenario.yaml -o out",
    "parhelion run scenario.yaml -o out              # again: resumes where it stopped",
    "parhelion run scenario.yaml -o out --realtime",
    "parhelion run --schema > scenario.schema.json   # for editors that know YAML schemas",
)


def run(
    scenario: Annotated[Path | None, typer.Argument(metavar="SCENARIO", help="Scenario file (.yaml).")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for all files.")] = None,
    realtime: Annotated[bool, typer.Option("--realtime", help="Run no faster than the wall clock.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of scenario files.")] = False,
) -> None:
    """Run a scenario: drive its vehicles, measure with all sensors, and write records, ground truth and a manifest.

    Clouds of an earlier run of the same scenario are reused, so an interrupted run resumes.
    """
    from parhelion.core.clouds import Scan
    from parhelion.outputs.collisions import listed
    from parhelion.scenario import Scenario, json_schema

    if schema:
        screen.print_schema(json_schema())
        return
    if scenario is None or output is None:
        raise typer.BadParameter("give the scenario's file and -o with a folder", param_hint="SCENARIO")
    whole = Scenario.load(scenario)
    start_engine()
    with screen.progress_to("running", max(1, whole.frame_count)) as progress:
        summary = whole.run(output, realtime=realtime, progress=progress)
    warn_dropped_fields(summary.dropped)
    pictures = any(not issubclass(sensor.record_type, Scan) for sensor in whole.frame_sensors)
    if summary.found:
        warn(f"{summary.found} {'frames' if pictures else 'clouds'} of an earlier run were reused")
    pace = whole.duration_s / summary.seconds if summary.seconds else 0.0
    rows = [
        ("simulated", f"{whole.duration_s:g} s in {summary.seconds:.1f} s ({pace:.1f} times real time)"),
        ("scans", f"{summary.scans} new with {screen.count(summary.points)} points, {summary.found} from before"),
        *([("other frames", f"{summary.frames - summary.scans} new")] if pictures else []),
        ("vehicles", ", ".join(whole.bodies) or "none"),
        *([("collisions", listed(summary.collisions))] if whole.has_contact else []),
        *([("ended", "at {:g} s: {} (on_collision: end)".format(*whole.ended))] if whole.ended else []),
        ("sensors", ", ".join(sensor.name for sensor in whole.sensors)),
        ("weather", repr(whole.world.weather)[9:-1] if whole.world.weather else "clear"),
        *validity_rows(whole.weather_validity),
    ]
    screen.facts(whole.settings.name or scenario.stem, rows)
    screen.print_line(f"\nwrote {len(summary.files)} files to {summary.folder}/, listed in manifest.json")
    if summary.report is not None:
        screen.print_line(f"look at {summary.report}")
