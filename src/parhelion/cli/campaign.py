"""`parhelion campaign` and `parhelion search`: many runs of a scenario."""

from __future__ import annotations

import shlex
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.screen import FAILED, warn
from parhelion.cli.weather_options import validity_rows

if TYPE_CHECKING:
    from parhelion.campaign import CampaignSummary, Study

WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=1, help="Worker processes on this machine. Default: one per core.")
]
DaskOption = Annotated[
    str | None, typer.Option("--dask", metavar="ADDRESS", help="A Dask scheduler, such as tcp://host:8786.")
]

EXAMPLES = (
    "parhelion campaign study.yaml -o out              # on all cores of this machine",
    "parhelion campaign study.yaml -o out              # again: resumes where it stopped",
    "parhelion campaign study.yaml -o out --row 17     # one run again, alone: the same numbers",
    "parhelion campaign study.yaml --dry-run           # time and storage, from a few runs",
    "parhelion campaign study.yaml -o s3://bucket/out --dask tcp://10.0.0.1:8786",
    "parhelion campaign --schema > study.schema.json   # for editors that know YAML schemas",
)


def campaign(
    study: Annotated[Path | None, typer.Argument(metavar="STUDY", help="Study file (.yaml).")] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Output folder, or an address such as s3://bucket/name.")
    ] = None,
    workers: WorkersOption = None,
    dask: DaskOption = None,
    row: Annotated[
        int | None, typer.Option("--row", min=0, help="Repeat only this row and compare it with the table.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Repeat rows that failed.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Run a few rows, report the time and storage of all, and write nothing.")
    ] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of study files.")] = False,
) -> None:
    """Run a study: one scenario with many values and seeds. Writes one Parquet table and a report.

    Rows of an earlier run are reused, so an interrupted campaign resumes.
    """
    from parhelion.campaign import Study, json_schema, run_campaign

    if schema:
        screen.print_schema(json_schema())
        return
    if study is None or (output is None and not dry_run):
        raise typer.BadParameter("give the study's file and -o with a folder", param_hint="STUDY")
    if workers is not None and dask is not None:
        raise typer.BadParameter("give --workers or --dask, not both", param_hint="--dask")
    whole = Study.load(study)
    if dry_run:
        if dask is not None or row is not None:
            raise typer.BadParameter("runs rows on this machine; omit --dask and --row", param_hint="--dry-run")
        _estimate(whole, output, workers)
        return
    assert output is not None
    if row is not None:
        _repeat(whole, output, row)
        return
    with screen.progress_to(whole.title, len(whole)) as progress:
        summary = run_campaign(
            whole,
            output,
            workers=workers,
            dask=dask,
            retry_failed=retry_failed,
            progress=progress,
            command=shlex.join(["parhelion", "campaign", str(study), "-o", output]),
        )
    _print(whole, summary)


def _estimate(study: Study, output: str | None, workers: int | None) -> None:
    """Print the expected time and storage of a study."""
    from parhelion.campaign.dry_run import dry_run
    from parhelion.outputs.report.tables import seconds, size_of

    with screen.progress_to("dry run", 1) as progress:
        found = dry_run(study, output, workers=workers, progress=progress)
    for error in found.errors:
        warn(error)
    least, mean, most = found.row_s
    rows = [
        ("runs", f"{screen.count(found.rows)} in {screen.count(found.cells)} cells"),
        ("varied", ", ".join(study.settings.vary) or "seeds alone"),
        ("numbers", ", ".join(study.numbers)),
        ("tried", f"{found.tried} runs of {mean:.2g} s each, from {least:.2g} to {most:.2g} s"),
        ("time", f"about {seconds(float(f'{found.seconds:.2g}'))} with {found.workers} workers on this machine"),
        ("storage", f"about {size_of(found.storage_bytes)}"),
    ]
    if found.free_bytes is not None:
        rows.append(("free", f"{size_of(found.free_bytes)} at {output}"))
    screen.facts(study.title, rows)
    if found.free_bytes is not None and found.storage_bytes > found.free_bytes:
        warn(f"{output}: has less free space than the campaign needs")
    screen.print_line("\nthe study is valid; nothing was written")


def _print(study: Study, summary: CampaignSummary) -> None:
    for note in summary.notes:
        warn(note)
    if summary.found:
        warn(f"{summary.found} rows of an earlier run were reused")
    if 0 < summary.failed < summary.rows:
        warn(f"{summary.failed} of {summary.rows} runs failed; {summary.first_error}")
    pace = f", {summary.done / summary.seconds:.2f} runs/s" if summary.done and summary.seconds else ""
    rows = [
        ("runs", f"{summary.done} new, {summary.found} from before, {summary.failed} failed"),
        ("time", f"{summary.seconds:.1f} s{pace}"),
        *([("saved", f"{summary.saved} runs, because their intervals were already tight")] if summary.saved else []),
        ("varied", ", ".join(study.settings.vary) or "seeds alone"),
        ("numbers", ", ".join(study.numbers)),
        *validity_rows(summary.weather_validity),
    ]
    screen.facts(study.title, rows)
    if summary.failed == summary.rows:
        screen.print_error(f"{study.source}: no run succeeded; {summary.first_error}")
        raise typer.Exit(FAILED)
    screen.print_line(f"\nwrote {summary.place}/results.parquet with {summary.rows} rows, summary.json and report.html")


def _repeat(study: Study, output: str, number: int) -> None:
    from parhelion.campaign import repeat_row
    from parhelion.cli.screen import start_engine

    start_engine()
    again = repeat_row(study, output, number)
    row = study.row(number)
    facts = [("seed", row.seed), *row.values.items(), ("scenario", again.result["scenario_sha256"])]
    if again.result["status"] != "done":
        facts.append(("error", again.result["error"]))
    facts += list(again.result["numbers"].items())
    screen.facts(f"row {number}", facts)
    if again.earlier is None:
        screen.print_line("\nthe table does not contain this row")
    elif again.differences:
        for difference in again.differences:
            warn(difference)
        screen.print_error(f"row {number} differs from the table")
        raise typer.Exit(FAILED)
    else:
        screen.print_line("\nidentical to the table, bit for bit")


# ---- search ----------------------------------------------------------------------------------------------------------


SEARCH_EXAMPLES = (
    "parhelion search examples/studies/breaking-fog.yaml -o out     # the thinnest fog that hides half of a street",
    "parhelion search study.yaml -o out               # again: runs of an interrupted search are used",
    "parhelion search study.yaml -o grid --method grid   # a regular grid of as many points, for comparison",
    "parhelion run out/replay/seed-0.yaml -o replay   # a broken run again, with all its records",
)


class Method(str, Enum):
    """Choice of points."""

    search = "search"
    grid = "grid"


def search(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="Search file (.yaml): fields `search` and `breaks`.")],
    output: Annotated[
        str, typer.Option("--output", "-o", help="Output folder, or an address such as s3://bucket/name.")
    ],
    method: Annotated[
        Method, typer.Option(help="Bisection along directions that Optuna proposes, or a regular grid.")
    ] = Method.search,
    workers: WorkersOption = None,
    dask: DaskOption = None,
) -> None:
    """Find the mildest weather, mount or fault that breaks a measure, and keep the broken runs as scenarios.

    Runs of an earlier search in the same folder are used again. Exits with 1 if nothing breaks.
    """
    from parhelion.campaign import Search, run_search
    from parhelion.campaign.report import in_words, outcome_in_words

    if workers is not None and dask is not None:
        raise typer.BadParameter("give --workers or --dask, not both", param_hint="--dask")
    whole = Search.load(study)
    command = shlex.join(["parhelion", "search", str(study), "-o", output])
    if method is Method.grid:
        command += " --method grid"
    with screen.progress_to(whole.study.title, whole.settings.points) as progress:
        summary = run_search(
            whole, output, method=method.value, workers=workers, dask=dask, progress=progress, command=command
        )
    rows = [
        *((in_words(path), f"{value:.5g}") for path, value in summary.values.items()),
        ("points", f"{len(summary.points)}, of which {sum(one.breaks for one in summary.points)} break"),
        ("runs", f"{summary.runs} new, {len(summary.points) * len(summary.mild.numbers) - summary.runs} from before"),
    ]
    screen.facts(whole.study.title, rows)
    screen.print_line(f"\n{outcome_in_words(whole, summary)}")
    for name in summary.replays:
        screen.print_line(f"wrote {summary.place}/{name}")
    screen.print_line(f"look at {summary.place}/report.html")
    if summary.found is None:
        raise typer.Exit(FAILED)
