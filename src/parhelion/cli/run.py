"""`parhelion run` and `parhelion verify`: run a scenario, write its files, and check them."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import screen
from parhelion.cli.recordings import warn_dropped_fields
from parhelion.cli.screen import FAILED, start_engine, warn
from parhelion.cli.weather_options import validity_rows

if TYPE_CHECKING:
    from parhelion.outputs.run import RunSummary
    from parhelion.scenario.control import Control
    from parhelion.scenario.scenario import Scenario

EXAMPLES = (
    "parhelion run scenario.yaml -o out",
    "parhelion run scenario.yaml -o out              # again: resumes where it stopped",
    "parhelion run scenario.yaml --check             # checks the file and lists what would run",
    "parhelion run scenario.yaml -o wet --set weather.rain_rate_mm_h=25 --seed 3 --duration 5",
    "parhelion run scenario.yaml -o rain --set weather.rain_rate_mm_h=0,10,25   # three runs and one report",
    "parhelion run scenario.yaml -o out --force      # replaces the run in out",
    "parhelion run scenario.yaml -o out --realtime",
    "parhelion run scenario.yaml -o again --events out/events.jsonl   # repeats a served run",
    "parhelion run --schema > scenario.schema.json   # for editors that know YAML schemas",
)


def run(
    scenario: Annotated[Path | None, typer.Argument(metavar="SCENARIO", help="Scenario file (.yaml).")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for all files.")] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Another value for a field, repeatable. Several values, A,B,C, give one run each and a comparison.",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Another seed.")] = None,
    duration: Annotated[float | None, typer.Option("--duration", help="Another duration in s.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Check the scenario and list what would run.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the run in the folder, whatever it is.")] = False,
    realtime: Annotated[bool, typer.Option("--realtime", help="Run no faster than the wall clock.")] = False,
    events: Annotated[
        Path | None,
        typer.Option("--events", metavar="FILE", help="Repeat the events of a served, streamed or logged run."),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of scenario files.")] = False,
) -> None:
    """Run a scenario: drive its vehicles, measure with all sensors, and write records, ground truth and a manifest.

    Clouds of an earlier run of the same scenario are reused, so an interrupted run resumes; a finished run of which
    nothing changed is not repeated. With --set, fields have other values: paths are those of the file, for example
    weather.rain_rate_mm_h or sensors.top.options.sub_rays, and values are written as in YAML. With --events, edits of
    the earlier run are applied at the same steps, and the files are the same.
    """
    if schema:
        from parhelion.scenario import json_schema

        screen.print_schema(json_schema())
        return
    if scenario is None or (output is None and not check):
        raise typer.BadParameter("give the scenario's file and -o with a folder", param_hint="SCENARIO")
    if events is not None and realtime:
        raise typer.BadParameter("cannot be combined with --realtime", param_hint="--events")
    variants = _variants(changes or [], seed, duration)
    if len(variants) > 1 and (events is not None or realtime):
        option = "--realtime" if realtime else "--events"
        raise typer.BadParameter("runs one scenario; give one value for each --set", param_hint=option)
    if check:
        for changed in variants:
            _check(scenario, changed)
        return
    assert output is not None
    if len(variants) > 1:
        _compare(scenario, output, variants, force)
    elif force or events is not None or not _is_finished(scenario, output, variants[0]):
        _run(scenario, output, variants[0], realtime, events, force)


def _run(
    file: Path, output: Path, changes: dict[str, Any], realtime: bool, events: Path | None, force: bool
) -> RunSummary:
    """Run a scenario with other values at some paths, and print what it did."""
    from parhelion.core.clouds import Scan
    from parhelion.outputs.collisions import listed
    from parhelion.scenario import Scenario, notes_on

    whole = Scenario.load(file, changes)
    for note in notes_on(whole):
        warn(f"{file}: {note}")
    replayed = None if events is None else _replay(whole, events, output)
    start_engine()
    with screen.progress_to("running", max(1, whole.frame_count)) as progress:
        if replayed is not None:
            summary: RunSummary = replayed.run(output, progress=progress, force=force)
        else:
            summary = whole.run(output, realtime=realtime, progress=progress, force=force)
    for text in [] if replayed is None else replayed.deviations[:5]:
        warn(f"{events}: the result differs from that of the recorded run at {text}")
    warn_dropped_fields(summary.dropped)
    pictures = any(not issubclass(sensor.record_type, Scan) for sensor in whole.frame_sensors)
    if summary.found:
        warn(f"{summary.found} {'frames' if pictures else 'clouds'} of an earlier run were reused")
    pace = f" ({whole.duration_s / summary.seconds:.2g} times real time)" if not summary.found else ""
    rows = [
        ("simulated", f"{whole.duration_s:g} s in {summary.seconds:.1f} s{pace}"),
        *([("changed", _in_words(changes))] if changes else []),
        ("scans", f"{summary.scans} new with {screen.count(summary.points)} points, {summary.found} from before"),
        *([("other frames", f"{summary.frames - summary.scans} new")] if pictures else []),
        ("vehicles", ", ".join(whole.bodies) or "none"),
        *([("collisions", listed(summary.collisions))] if whole.has_contact else []),
        *([("ended", "at {:g} s: {}".format(*whole.ended))] if whole.ended else []),
        ("sensors", ", ".join(sensor.name for sensor in whole.sensors)),
        ("weather", repr(whole.world.weather)[9:-1] if whole.world.weather else "clear"),
        *validity_rows(whole.weather_validity),
    ]
    screen.facts(whole.settings.name or file.stem, rows)
    screen.print_line(f"\nwrote {len(summary.files)} files to {summary.folder}/, listed in manifest.json")
    if summary.report is not None:
        screen.print_line(f"look at {summary.report}")
    return summary


def _is_finished(file: Path, output: Path, changes: dict[str, Any], *, quiet: bool = False) -> bool:
    """Return whether a folder contains the finished run of a scenario and nothing changed since."""
    from parhelion.outputs.manifest import finished

    manifest = finished(output, file, changes)
    if manifest is None or quiet:
        return manifest is not None
    screen.print_line(
        f"{output}: this run is finished, and its scenario, inputs and {len(manifest['files'])} files are unchanged; "
        "--force repeats it"
    )
    report = output / "report.html"
    if report.is_file():
        screen.print_line(f"look at {report}")
    return True


def _check(file: Path, changes: dict[str, Any]) -> None:
    """Build a scenario, and print what it would run."""
    from parhelion.scenario import Scenario, notes_on
    from parhelion.scenario.sensors import FrameOnBoard

    whole = Scenario.load(file, changes)
    for note in notes_on(whole):
        warn(f"{file}: {note}")
    settings, world = whole.settings, whole.world
    sensors = []
    for one in whole.sensors:
        rate = float(one.sensor.rate_hz)
        frames = f"{one.count(whole.duration_s)} frames" if isinstance(one, FrameOnBoard) else "samples"
        sensors.append((one.name, one.entry.type, one.entry.model, one.entry.vehicle or "world", f"{rate:g}", frames))
    screen.facts(
        settings.name or file.stem,
        [
            *([("changed", _in_words(changes))] if changes else []),
            ("duration", f"{whole.duration_s:g} s in {screen.count(whole.steps)} steps of {settings.step_s:g} s"),
            ("seed", whole.seed),
            ("world", f"{world.name}, {screen.count(world.triangle_count)} triangles"),
            ("weather", repr(world.weather)[9:-1] if world.weather else "clear"),
            *validity_rows(whole.weather_validity),
            ("vehicles", ", ".join(f"{one.name} ({one.model or 'own'})" for one in settings.vehicles) or "none"),
            ("outputs", ", ".join(str(one.kind) for one in settings.outputs) or "files alone"),
        ],
    )
    screen.table("", ("sensor", "kind", "model", "on", "Hz", "records"), sensors, numbers=("Hz",))
    screen.print_line("the scenario is valid; nothing was run")


# ---- other values, and several of them -------------------------------------------------------------------------------

_MOST_VARIANTS = 100
"""Largest number of runs of one command; `parhelion campaign` is for more."""


def _variants(entries: list[str], seed: int | None, duration: float | None) -> list[dict[str, Any]]:
    """Changes of each run: all combinations of the values of each path."""
    axes: dict[str, list[Any]] = {}
    for entry in entries:
        path, equals, text = entry.partition("=")
        if not equals or not path.strip() or not text.strip():
            raise typer.BadParameter(
                f"expected PATH=VALUE, such as weather.rain_rate_mm_h=25, got {entry!r}", param_hint="--set"
            )
        axes.setdefault(path.strip(), []).extend(_values(text))
    for name, value in (("seed", seed), ("duration_s", duration)):
        if value is not None and name in axes:
            raise typer.BadParameter(f"give {name} once, not by --set as well", param_hint="--set")
        if value is not None:
            axes[name] = [value]
    runs = math.prod(map(len, axes.values()))
    if runs > _MOST_VARIANTS:
        raise typer.BadParameter(
            f"gives {runs} runs, more than {_MOST_VARIANTS}; use parhelion campaign", param_hint="--set"
        )
    for path, values in axes.items():
        if len({repr(value) for value in values}) < len(values):
            raise typer.BadParameter(f"{path}: a value is given twice", param_hint="--set")
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def _values(text: str) -> list[Any]:
    """Values of one option: YAML, separated by commas outside of brackets and quotes."""
    from parhelion.core.config import yaml_data

    values: list[Any] = yaml_data(Path("--set"), f"[{text}]")
    return values


def _in_words(changes: dict[str, Any]) -> str:
    from parhelion.core.explain import in_yaml

    return ", ".join(f"{path}={in_yaml(value)}" for path, value in changes.items())


def _compare(file: Path, output: Path, variants: list[dict[str, Any]], force: bool) -> None:
    """Run each combination of values in a folder of its own, and write one report that compares them."""
    varied = [path for path in variants[0] if len({repr(one[path]) for one in variants}) > 1]
    titles = [_in_words({path: one[path] for path in varied}) for one in variants]
    folders = [re.sub(r"[^\w.=+-]+", "_", title).strip("._") or "run" for title in titles]
    folders = [f"{name}-{k}" if name in folders[:k] else name for k, name in enumerate(folders)]
    report = output / "report.html"
    if not force and report.is_file():
        unchanged = [
            _is_finished(file, output / folder, one, quiet=True) for folder, one in zip(folders, variants, strict=True)
        ]
        if all(unchanged):
            screen.print_line(f"{output}: all {len(variants)} runs are finished and unchanged; --force repeats them")
            screen.print_line(f"look at {report}")
            return
    from parhelion.core.explain import in_yaml
    from parhelion.outputs.report.variants import Variant, write_comparison
    from parhelion.scenario.fields import value_in_words

    compared = []
    name = file.stem
    for folder, title, changes in zip(folders, titles, variants, strict=True):
        summary = _run(file, output / folder, changes, False, None, force)
        screen.print_line()
        if summary.collected is not None:
            words = ", ".join(value_in_words(path, in_yaml(changes[path])) for path in varied)
            compared.append(Variant.of(words or title, folder, summary.collected))
            name = summary.collected.scenario.settings.name or name
    if compared:
        write_comparison(output, name, compared, screen.command_line())
        screen.print_line(f"compare the {len(variants)} runs in {report}")


def _replay(scenario: Scenario, events: Path, output: Path) -> Control:
    """Return the control that repeats the events of a log."""
    from parhelion.scenario.control import Control
    from parhelion.scenario.events import log_in, read_events

    script = read_events(events, scenario)
    return Control(scenario, script=script, log=log_in(output, scenario, playing=script.playing))


# ---- verify ----------------------------------------------------------------------------------------------------------


VERIFY_EXAMPLES = (
    "parhelion verify out                       # all files of a run",
    "parhelion verify out/semantic-kitti        # one of its data sets",
    "parhelion run scenario.yaml -o out         # regenerates the files that differ",
)
_SHOWN = 50
"""Number of differing files that are listed."""


def verify(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of a run, or a data set in it.")],
) -> None:
    """Check that every file of a run, or of a data set in it, is as it was written.

    Compares the files with the hashes in manifest.json; in the folder of an interrupted run, with
    those in its journal. Exits with 1 if a file is missing or differs, or if the run is incomplete.
    """
    from parhelion.outputs.verify import verify as check

    with screen.progress("checking", None) as advance:
        found = check(folder, advance)
    lines = [*(f"changed  {name}" for name in found.changed), *(f"missing  {name}" for name in found.missing)]
    for line in lines[:_SHOWN]:
        screen.print_line(line)
    if len(lines) > _SHOWN:
        screen.print_line(f"... and {len(lines) - _SHOWN} more")
    for problem in found.problems:
        screen.print_line(problem)
    total = found.intact + len(lines)
    screen.print_line(f"{found.intact} of {total} files are as they were written, by {found.manifest}")
    if found.good:
        return
    reasons = [] if found.complete else ["the run is incomplete"]
    reasons += [
        f"{len(files)} {word}" for word, files in (("changed", found.changed), ("missing", found.missing)) if files
    ]
    reasons += ["the manifest is damaged"] * bool(found.problems)
    screen.print_error(f"{folder}: {', '.join(reasons)}; run the same command again to regenerate what differs")
    raise typer.Exit(FAILED)
