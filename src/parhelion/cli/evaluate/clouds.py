"""`parhelion evaluate clouds`: how near simulated clouds come to real ones."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.clouds import check_file

EXAMPLES = (
    "parhelion evaluate clouds real.pcd simulated.pcd -o report.html --json out.json",
    "parhelion evaluate clouds recorded/ simulated/ -o report.html      # paired by name, else by order",
    "parhelion evaluate clouds rain/ rain-simulated/ --dry dry.pcd --tolerance 0.1 --json out.json",
)


def clouds(
    real: Annotated[Path, typer.Argument(metavar="REAL", help="A cloud file, or a folder of them.")],
    simulated: Annotated[Path, typer.Argument(metavar="SIM", help="A cloud file, or a folder of them.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Page with tables and curves (.html).")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="All numbers as JSON.")] = None,
    dry: Annotated[
        Path | None, typer.Option("--dry", help="The scene in clear air, against which points are correct or false.")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(min=1e-6, help="A point this near [m] to the reference is correct; else its origin tells."),
    ] = None,
    exact_points: Annotated[
        int, typer.Option(min=1, max=20_000, help="Larger clouds have an approximate earth mover's distance.")
    ] = 4000,
    field: Annotated[list[str] | None, typer.Option("--field", help="Fields to compare; both need them.")] = None,
    label: Annotated[list[str] | None, typer.Option("--label", help="Objects to count by distance; all, else.")] = None,
    distances: Annotated[str, typer.Option(metavar="M,M,...", help="Edges of distance classes.")] = "0,30,45,60,120",
    still: Annotated[
        bool, typer.Option("--still", help="Nothing moves from cloud to cloud: SNR of each shot over the clouds.")
    ] = False,
) -> None:
    """Compare clouds: Chamfer and earth mover's distance, detections, range error, SNR, density, distributions."""
    from parhelion.evaluate.clouds.compare import Options, compare_files, page_of, pairs_of, summary_rows
    from parhelion.evaluate.files import write_json
    from parhelion.pictures.html import write_page

    for file in (output, json):
        if file is not None:
            check_file(file)
    options = Options(
        tolerance, exact_points, tuple(field or ()), parse_edges(distances), tuple(label or ()), still=still
    )
    pairs = pairs_of(real, simulated)
    with screen.progress("comparing", len(pairs)) as advance:
        result = compare_files(pairs, options, dry=dry, advance=advance)
    result = {"real": str(real), "simulated": str(simulated), **result}
    screen.facts(f"{real} and {simulated}", summary_rows(result))
    if json is not None:
        write_json(json, result)
        screen.say(f"wrote {json}")
    if output is not None:
        write_page(output, page_of(result, str(real), str(simulated), screen.command_line()))
        screen.say(f"look at {output}")


def parse_edges(text: str) -> tuple[float, ...]:
    """`0,30,60`: rising edges of distance classes [m]."""
    try:
        edges = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"expected numbers M,M,..., got {text!r}", param_hint="--distances") from None
    if len(edges) < 2 or any(b <= a for a, b in pairwise(edges)):
        raise typer.BadParameter(f"expected two rising numbers at least, got {text!r}", param_hint="--distances")
    return edges
