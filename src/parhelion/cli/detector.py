"""`parhelion train detector` and `parhelion evaluate detector`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.recordings import check_file, make_folder
from parhelion.cli.screen import Command, Group, examples, start_engine

TRAIN_EXAMPLES = (
    "parhelion schema detector                            # every setting",
    "parhelion train detector examples/studies/detector.yaml -o weights      # minutes on a GPU, hours without",
)
EXAMPLES = (
    "parhelion evaluate detector --weather clear --weather fog=1000..5000 -o report.html",
    "parhelion evaluate detector weights/pillars.npz --sensor velodyne/vlp-32c --weather rain=25 --json out.json",
)

train = typer.Typer(cls=Group, no_args_is_help=True, epilog=examples(*TRAIN_EXAMPLES))


@train.callback()
def _train() -> None:
    """Train networks on simulated data."""


@train.command("detector", cls=Command, epilog=examples(*TRAIN_EXAMPLES))
def train_detector(
    study: Annotated[
        Path, typer.Argument(metavar="STUDY", help="Settings (.yaml): sensor, streets, scans, epochs ...")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for weights and losses.")],
) -> None:
    """Train a detector of cars, pedestrians and cyclists on simulated streets."""
    from parhelion.detect.detector import network_device
    from parhelion.detect.scenes import TrainingStudy

    settings = TrainingStudy.load(study)
    network_device()  # PyTorch is missing: before any work
    from parhelion.detect.training import train

    make_folder(output)
    start_engine()
    with screen.progress("simulating", settings.scans) as simulated:
        shown = {"simulating": 0}

        def reach(task: str, done: int, total: int) -> None:
            if task == "simulating":
                for _ in range(done - shown[task]):
                    simulated()
                shown[task] = done
            elif done == total or done % max(1, total // 20) == 0:
                screen.print_line(f"step {done} of {total}")

        result = train(settings, output, reach)
    rows = [("parameters", f"{result.parameters}"), ("steps", f"{result.steps}"), ("loss", f"{result.loss:.3g}")]
    screen.facts(settings.name, rows)
    screen.print_line(f"wrote {result.weights}")


def detector(
    weights: Annotated[
        Path | None,
        typer.Argument(
            metavar="WEIGHTS", help="Weights of `parhelion train detector` (.npz); by default the bundled ones."
        ),
    ] = None,
    sensor: Annotated[str, typer.Option(help="Lidar: preset or data sheet.")] = "velodyne/hdl-64e-s2",
    weather: Annotated[
        list[str] | None,
        typer.Option("--weather", help="clear, rain=MM_H, fog=M, a range as fog=1000..5000. May be repeated."),
    ] = None,
    scans: Annotated[int, typer.Option(min=1, max=100_000, help="Scans per weather.")] = 60,
    streets: Annotated[int, typer.Option(min=1, max=10_000, help="Streets, which training does not use.")] = 12,
    seed: Annotated[int, typer.Option(min=0, max=10_000, help="Seed of streets, places and noise.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--html", "--output", "-o", help="Page with tables and curves.")
    ] = None,
    json: Annotated[Path | None, typer.Option("--json", help="All numbers as JSON.")] = None,
) -> None:
    """Score a detector on simulated streets: average precision by weather, class, distance and visibility."""
    from parhelion.core.files import write_json
    from parhelion.detect import study
    from parhelion.detect.detector import Pillars
    from parhelion.pictures.html import write_page
    from parhelion.sensors.optics.lidar.lidar import Lidar

    check_file(output, json)
    found, lidar, names = Pillars(weights), Lidar(sensor), weather or ["clear"]
    for name in names:
        study.weathers_of(name)
    start_engine()
    with screen.progress("scanning", scans * len(dict.fromkeys(names))) as advance:
        result = study.evaluate(found, lidar, names, scans=scans, streets=streets, seed=seed, progress=advance)
    screen.table("Average precision", study.COLUMNS, study.table_rows(result), numbers=study.COLUMNS[3:])
    if json is not None:
        write_json(json, {"command": screen.command_line(), **result})
        screen.print_line(f"wrote {json}")
    if output is not None:
        write_page(output, study.page_of(result, screen.command_line()))
        screen.print_line(f"look at {output}")
