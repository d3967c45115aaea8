"""`parhelion dossier`: every number of a sensor model with its source, and every check with its verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.recordings import check_file

EXAMPLES = (
    "parhelion dossier ouster/os0-64 -o os0-64.html --json os0-64.json",
    "parhelion dossier velodyne/hdl-64e-s2            # the checks alone",
    "parhelion dossier my-lidar.yaml -o my-lidar.html # your own data sheet",
)


def dossier(
    name: Annotated[str, typer.Argument(metavar="SENSOR", help="Preset name or YAML file, of any kind.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Page with all claims (.html).")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="All claims and checks as JSON.")] = None,
) -> None:
    """List the claims of a sensor model: source or assumption of every number, checks, tolerances and verdicts."""
    from parhelion.cli.catalogue import kind_of_name
    from parhelion.evaluate.dossier.dossier import dossier_of, page_of, summary_rows
    from parhelion.evaluate.files import write_json
    from parhelion.pictures.html import write_page

    check_file(output, json)
    found = dossier_of(kind_of_name(name).sensor(name), name)
    screen.facts(f"{found.name}  ({name})", summary_rows(found))
    rows = [(one.quantity, one.verdict, one.basis, one.reference, one.tolerance) for one in found.checks]
    screen.table("Checks", ("quantity", "verdict", "basis", "compared with", "tolerance"), rows)
    if json is not None:
        write_json(json, found.as_dict())
        screen.print_line(f"wrote {json}")
    if output is not None:
        write_page(output, page_of(found, screen.command_line()))
        screen.print_line(f"look at {output}")
