"""`parhelion evaluate detections`: KITTI's average precision of a detector."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.clouds import check_file
from parhelion.cli.evaluate.clouds import parse_edges

EXAMPLES = (
    "parhelion evaluate detections label_2/ detections/ -o report.html --json out.json",
    "parhelion evaluate detections label_2/ detections/ --class Car --distances 0,35,70,120 --overlap 0.5",
)


def detections(
    labels: Annotated[Path, typer.Argument(metavar="LABELS", help="KITTI label file, or a folder of them.")],
    found: Annotated[
        Path,
        typer.Argument(metavar="DETECTIONS", help="KITTI detection file, or a folder of the same names."),
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Page with tables and curves (.html).")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="All numbers as JSON.")] = None,
    kind: Annotated[list[str] | None, typer.Option("--class", help="Classes to score; all with a label, else.")] = None,
    overlap: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Overlap above which a box is found; KITTI's, else.")
    ] = None,
    distances: Annotated[str, typer.Option(metavar="M,M,...", help="Edges of distance classes.")] = "0,35,70,120",
) -> None:
    """Score detections against labels: average precision in space and from above, by difficulty and by distance."""
    from parhelion.evaluate.detections import evaluate_frames, frames_of
    from parhelion.evaluate.detections.page import COLUMNS, page_of, table_rows
    from parhelion.evaluate.files import write_json, write_page

    for file in (output, json):
        if file is not None:
            check_file(file)
    result = evaluate_frames(frames_of(labels, found), kind, parse_edges(distances), overlap)
    screen.table(f"{found} against {labels}", COLUMNS, table_rows(result), numbers=COLUMNS[2:])
    if json is not None:
        write_json(json, {"labels_from": str(labels), "detections_from": str(found), **result})
        screen.say(f"wrote {json}")
    if output is not None:
        write_page(output, page_of(result, str(labels), str(found), screen.command_line()))
        screen.say(f"look at {output}")
