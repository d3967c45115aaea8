"""`parhelion search`: the mildest conditions that break a measure."""

from __future__ import annotations

import shlex
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.screen import FAILED

EXAMPLES = (
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
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Worker processes on this machine. Default: one per core.")
    ] = None,
    dask: Annotated[
        str | None, typer.Option("--dask", metavar="ADDRESS", help="A Dask scheduler, such as tcp://host:8786.")
    ] = None,
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
