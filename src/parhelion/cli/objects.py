"""`parhelion evaluate objects`: objects cut out of real and simulated clouds by boxes."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.recordings import check_file

EXAMPLES = (
    "parhelion evaluate objects real/ run/roof --json out.json -o report.html    # labels in run/roof-boxes",
    "parhelion evaluate objects velodyne/ run/roof --real-boxes label_2/ --sim-boxes labels/ --distances 0,40,80,120",
)


class BoxAxes(str, Enum):
    """Axes of label files."""

    camera = "camera"
    lidar = "lidar"


def objects(
    real: Annotated[Path, typer.Argument(metavar="REAL", help="A cloud file, or a folder of them.")],
    simulated: Annotated[Path, typer.Argument(metavar="SIM", help="A cloud file, or a folder of them.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Page with tables and curves (.html).")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="All numbers as JSON.")] = None,
    real_boxes: Annotated[
        Path | None,
        typer.Option("--real-boxes", help="KITTI label file or folder. Default: NAME-boxes or beside REAL."),
    ] = None,
    sim_boxes: Annotated[Path | None, typer.Option("--sim-boxes", help="The same for SIM.")] = None,
    axes: Annotated[
        BoxAxes,
        typer.Option(help="Axes of the labels: the lidar's as in runs, or KITTI's camera axes at the lidar."),
    ] = BoxAxes.lidar,
    distances: Annotated[str, typer.Option(metavar="M,M,...", help="Edges of distance classes.")] = "0,30,45,60,120",
) -> None:
    """Compare objects cut out by boxes: points, size, Chamfer and earth mover's distance by class and distance."""
    from parhelion.cli.evaluate import parse_edges
    from parhelion.evaluate.clouds import cutouts
    from parhelion.evaluate.files import write_json
    from parhelion.pictures.html import write_page

    check_file(output, json)
    edges = parse_edges(distances)
    first = cutouts.objects_of(real, real_boxes, axes.value)
    second = cutouts.objects_of(simulated, sim_boxes, axes.value)
    with screen.progress("comparing", None) as advance:
        result = cutouts.compare_objects(first, second, edges, advance=advance)
    result = {"real": str(real), "simulated": str(simulated), **result}
    screen.table(f"{real} and {simulated}", cutouts.COLUMNS, cutouts.table_rows(result), numbers=cutouts.COLUMNS[2:])
    if json is not None:
        write_json(json, result)
        screen.print_line(f"wrote {json}")
    if output is not None:
        write_page(output, cutouts.page_of(result, str(real), str(simulated), screen.command_line()))
        screen.print_line(f"look at {output}")
