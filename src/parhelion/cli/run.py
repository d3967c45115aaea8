"""`parhelion run`: run a scenario and write its files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.recordings import warn_dropped_fields
from parhelion.cli.screen import start_engine, warn
from parhelion.cli.weather_options import validity_rows

if TYPE_CHECKING:
    from parhelion.scenario.control import Control
    from parhelion.scenario.scenario import Scenario

EXAMPLES = (
    "parhelion run scenario.yaml -o out",
    "parhelion run scenario.yaml -o out              # again: resumes where it stopped",
    "parhelion run scenario.yaml -o out --realtime",
    "parhelion run scenario.yaml -o again --events out/events.jsonl   # repeats a served run",
    "parhelion run --schema > scenario.schema.json   # for editors that know YAML schemas",
)


def run(
    scenario: Annotated[Path | None, typer.Argument(metavar="SCENARIO", help="Scenario file (.yaml).")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for all files.")] = None,
    realtime: Annotated[bool, typer.Option("--realtime", help="Run no faster than the wall clock.")] = False,
    events: Annotated[
        Path | None,
        typer.Option("--events", metavar="FILE", help="Repeat the events of a served, streamed or logged run."),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of scenario files.")] = False,
) -> None:
    """Run a scenario: drive its vehicles, measure with all sensors, and write records, ground truth and a manifest.

    Clouds of an earlier run of the same scenario are reused, so an interrupted run resumes. With --events, edits of the
    earlier run are applied at the same steps, and the files are the same.
    """
    from parhelion.core.clouds import Scan
    from parhelion.outputs.collisions import listed
    from parhelion.scenario import Scenario, json_schema

    if schema:
        screen.print_schema(json_schema())
        return
    if scenario is None or output is None:
        raise typer.BadParameter("give the scenario's file and -o with a folder", param_hint="SCENARIO")
    if events is not None and realtime:
        raise typer.BadParameter("cannot be combined with --realtime", param_hint="--events")
    whole = Scenario.load(scenario)
    replayed = None if events is None else _replay(whole, events, output)
    start_engine()
    with screen.progress_to("running", max(1, whole.frame_count)) as progress:
        if replayed is not None:
            summary = replayed.run(output, progress=progress)
        else:
            summary = whole.run(output, realtime=realtime, progress=progress)
    for text in [] if replayed is None else replayed.deviations[:5]:
        warn(f"{events}: the result differs from that of the recorded run at {text}")
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
        *([("ended", "at {:g} s: {}".format(*whole.ended))] if whole.ended else []),
        ("sensors", ", ".join(sensor.name for sensor in whole.sensors)),
        ("weather", repr(whole.world.weather)[9:-1] if whole.world.weather else "clear"),
        *validity_rows(whole.weather_validity),
    ]
    screen.facts(whole.settings.name or scenario.stem, rows)
    screen.print_line(f"\nwrote {len(summary.files)} files to {summary.folder}/, listed in manifest.json")
    if summary.report is not None:
        screen.print_line(f"look at {summary.report}")


def _replay(scenario: Scenario, events: Path, output: Path) -> Control:
    """Return the control that repeats the events of a log."""
    from parhelion.scenario.control import Control
    from parhelion.scenario.events import log_in, read_events

    script = read_events(events, scenario)
    return Control(scenario, script=script, log=log_in(output, scenario, playing=script.playing))
