"""`parhelion evaluate detections`: how good a detector is, by the measures of KITTI or nuScenes."""

from __future__ import annotations

import shlex
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.clouds import check_file
from parhelion.cli.evaluate.clouds import parse_edges

EXAMPLES = (
    "parhelion evaluate detections label_2/ detections/ -o report.html --json out.json",
    "parhelion evaluate detections label_2/ detections/ --class Car --distances 0,35,70,120 --overlap 0.5",
    "parhelion evaluate detections out/nuscenes results_nusc.json -o report.html        # mAP, errors, NDS",
)
_USUAL_DISTANCES = "0,35,70,120"


class Layout(str, Enum):
    """Whose files and measures they are."""

    auto = "auto"
    kitti = "kitti"
    nuscenes = "nuscenes"


def detections(
    labels: Annotated[
        Path,
        typer.Argument(metavar="LABELS", help="KITTI label file or a folder of them, or a nuScenes data set's folder."),
    ],
    found: Annotated[
        Path,
        typer.Argument(
            metavar="DETECTIONS",
            help="KITTI detection file or a folder of the same names, or a nuScenes results file (.json).",
        ),
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Page with tables and curves (.html).")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="All numbers as JSON.")] = None,
    kind: Annotated[list[str] | None, typer.Option("--class", help="Classes to score; all with a label, else.")] = None,
    overlap: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="KITTI: overlap above which a box is found; its own, else.")
    ] = None,
    distances: Annotated[
        str | None, typer.Option(metavar="M,M,...", help=f"KITTI: edges of distance classes; {_USUAL_DISTANCES}, else.")
    ] = None,
    layout: Annotated[
        Layout, typer.Option("--format", help="Whose measures; auto: nuScenes where DETECTIONS ends in .json.")
    ] = Layout.auto,
) -> None:
    """Score detections: KITTI's average precision by difficulty and distance, or nuScenes' mAP, errors and NDS."""
    for file in (output, json):
        if file is not None:
            check_file(file)
    if layout is Layout.nuscenes or (layout is Layout.auto and found.suffix.lower() == ".json"):
        for given, option in ((overlap, "--overlap"), (distances, "--distances")):
            if given is not None:
                raise typer.BadParameter("is for KITTI's files; nuScenes goes by its own distances", param_hint=option)
        _nuscenes(labels, found, output, json, kind)
    else:
        _kitti(labels, found, output, json, kind, overlap, distances or _USUAL_DISTANCES)


def _kitti(
    labels: Path,
    found: Path,
    output: Path | None,
    json: Path | None,
    kind: list[str] | None,
    overlap: float | None,
    distances: str,
) -> None:
    from parhelion.evaluate.detections import evaluate_frames, frames_of
    from parhelion.evaluate.detections.kitti import COLUMNS, page_of, table_rows
    from parhelion.evaluate.files import write_json
    from parhelion.pictures.html import write_page

    result = evaluate_frames(frames_of(labels, found), kind, parse_edges(distances), overlap)
    screen.table(f"{found} against {labels}", COLUMNS, table_rows(result), numbers=COLUMNS[2:])
    if json is not None:
        write_json(json, {"labels_from": str(labels), "detections_from": str(found), **result})
        screen.say(f"wrote {json}")
    if output is not None:
        write_page(output, page_of(result, str(labels), str(found), screen.command_line()))
        screen.say(f"look at {output}")


def _nuscenes(labels: Path, found: Path, output: Path | None, json: Path | None, kind: list[str] | None) -> None:
    from parhelion.evaluate.detections import evaluate_pair, read_pair
    from parhelion.evaluate.detections import nuscenes as pages
    from parhelion.evaluate.files import write_json
    from parhelion.pictures.html import write_page

    result = evaluate_pair(read_pair(labels, found), kind)
    columns, summary = pages.COLUMNS, pages.SUMMARY_COLUMNS
    screen.table(f"{found} against {labels}", columns, pages.table_rows(result), numbers=columns[1:])
    screen.table("", summary, pages.summary_rows(result), numbers=summary[1:])
    if result["scenes"] < result["all_scenes"]:
        screen.say(f"{result['scenes']} of {result['all_scenes']} scenes, those that the detections are of")
    if json is not None:
        write_json(json, {"labels_from": str(labels), "detections_from": str(found), **result})
        screen.say(f"wrote {json}")
    if output is not None:
        command = shlex.join(["parhelion", "evaluate", "detections", str(labels), str(found), "-o", str(output)])
        write_page(output, pages.page_of(result, str(labels), str(found), command))
        screen.say(f"look at {output}")
