"""`parhelion evaluate placement`: where sensors or anchors are best put."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from parhelion.cli import screen
from parhelion.cli.clouds import check_file
from parhelion.cli.engine import start_engine

EXAMPLES = (
    "parhelion evaluate placement examples/placement/city-lidars.yaml -o report.html --json answer.json",
    "parhelion evaluate placement examples/placement/warehouse-anchors.yaml --choose 6 --csv sites.csv --png map.png",
    "parhelion evaluate placement lidars.yaml --method greedy                # where there are too many combinations",
    "parhelion evaluate placement --schema > placement.schema.json          # for editors that know YAML schemas",
)


def placement(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="Placement file (.yaml).")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Page with map and tables (.html).")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="All numbers as JSON.")] = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Table of the candidates.")] = None,
    png: Annotated[Path | None, typer.Option("--png", help="The map alone.")] = None,
    choose: Annotated[int | None, typer.Option("--choose", "-k", min=1, help="How many; the file's, else.")] = None,
    method: Annotated[
        str | None, typer.Option("--method", metavar="METHOD", help="auto, greedy or exact; the file's, else.")
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of placement files.")] = False,
) -> None:
    """Find the best mounts of lidars and cameras, or sites of anchors: coverage, blind ground, error of positions."""
    from parhelion.core import config
    from parhelion.evaluate.placement.schema import PlacementFile, json_schema

    if schema:
        from json import dumps

        typer.echo(dumps(json_schema(), indent=1))
        return
    if file is None:
        raise typer.BadParameter("give a placement file", param_hint="FILE")
    for target in (output, json, csv, png):
        if target is not None:
            check_file(target)
    if png is not None:
        from parhelion.pictures.style import check_picture

        check_picture(png)
    fields = config.read_yaml(file)
    if isinstance(fields, dict):  # else the check of the file tells
        changed: dict[str, Any] = {} if choose is None else {"choose": choose}
        if method is not None:
            given = fields.get("search")
            changed["search"] = {**(given if isinstance(given, dict) else {}), "method": method}
        fields = {**fields, **changed}
    settings = config.parse(PlacementFile, fields, file)
    start_engine()
    from parhelion.evaluate.files import write_json
    from parhelion.evaluate.placement import report as results
    from parhelion.evaluate.placement.study import Placement
    from parhelion.pictures.html import write_page

    question = Placement(settings, file.parent, str(file))
    question.is_exact()  # a search that is too large is told before the casts
    with screen.progress("casting", question.casts) as advance:
        objectives = question.objectives(advance)
    with screen.progress("searching", question.steps) as advance:
        answer = question.search(objectives, advance)
    result = results.result_of(answer)
    columns = results.CHOSEN_COLUMNS
    screen.table(result["name"] or str(file), columns, results.chosen_rows(result), numbers=columns[3:])
    screen.facts("", results.part_rows(result))
    command = _command(file, output, choose, method)
    if json is not None:
        write_json(json, {"command": command, **result})
        screen.say(f"wrote {json}")
    if csv is not None:
        results.write_csv(csv, result)
        screen.say(f"wrote {csv}")
    if png is None and output is None:
        return
    from parhelion.evaluate.placement.report import answer_picture, page_of

    picture = answer_picture(answer)
    if png is not None:
        from parhelion.pictures.style import save

        save(picture, png)
        screen.say(f"look at {png}")
    if output is not None:
        write_page(output, page_of(answer, result, command, picture))
        screen.say(f"look at {output}")


def _command(file: Path, output: Path | None, choose: int | None, method: str | None) -> str:
    words = ["parhelion", "evaluate", "placement", str(file)]
    for option, value in (("--choose", choose), ("--method", method), ("-o", output)):
        words += [] if value is None else [option, str(value)]
    return shlex.join(words)
