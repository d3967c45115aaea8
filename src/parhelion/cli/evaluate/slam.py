"""`parhelion evaluate slam`: how well odometry finds the way of a drive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import screen
from parhelion.cli.clouds import make_folder
from parhelion.cli.engine import start_engine

if TYPE_CHECKING:
    from parhelion.evaluate.slam.drives import Drive
    from parhelion.evaluate.slam.study import RunResult

EXAMPLES = (
    "parhelion evaluate slam examples/city-loop.yaml -m kiss-icp --weather clear --weather rain=25 --seeds 10 -o out",
    "parhelion evaluate slam examples/city-loop.yaml --method kiss-icp --method my_package:MyOdometry -o out",
    "parhelion evaluate slam out/bag --method kiss-icp -o scores            # a ROS 2 bag with the truth in it",
    "parhelion evaluate slam run/roof --method genz-icp -o scores           # clouds of a run, truth beside them",
    "parhelion evaluate slam truth.tum --estimate estimate.tum -o scores    # two trajectories",
)
_USUAL_METHOD = "kiss-icp"


def slam(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Scenario (.yaml), ROS 2 bag, folder of clouds, or true TUM file.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for page, JSON and trajectories.")],
    method: Annotated[
        list[str] | None,
        typer.Option("--method", "-m", help="kiss-icp, genz-icp, small-gicp, rko-lio, or module:Class. Repeatable."),
    ] = None,
    weather: Annotated[
        list[str] | None,
        typer.Option("--weather", help="clear, rain=MM_H, fog=M, snow=MM_H, own; rain=5,fog=500. May be repeated."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=10_000, help="Runs of a scenario in each weather.")] = 1,
    estimate: Annotated[
        list[Path] | None, typer.Option("--estimate", help="A trajectory (TUM) to score, where SOURCE is a TUM file.")
    ] = None,
    truth: Annotated[
        Path | None, typer.Option("--truth", help="True poses of the lidar (TUM), where SOURCE does not hold them.")
    ] = None,
    lidar: Annotated[str | None, typer.Option(help="Lidar of the scenario; the first, else.")] = None,
    topic: Annotated[str | None, typer.Option(help="Topic of the clouds, for bags with several.")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="All numbers as JSON; in the folder, else.")] = None,
) -> None:
    """Run odometry on a drive and score it: ATE, RPE and KITTI drift, by weather, with intervals over the seeds."""
    from parhelion.core.errors import ConfigError, FormatError
    from parhelion.evaluate.slam.study import weather_fields

    if not source.exists():
        raise FormatError(f"{source}: no such file or folder")
    report = _Report(source, output, json)
    if estimate:
        if method or weather:
            raise typer.BadParameter("scores a trajectory that is there: leave out --method and --weather")
        report.add(*_score_files(source, estimate))
        report.finish()
        return
    names = list(dict.fromkeys(method or [_USUAL_METHOD]))
    is_scenario = source.suffix.lower() in (".yaml", ".yml")
    if (weather or seeds > 1) and not is_scenario:
        raise ConfigError(f"{source}: is recorded; --weather and --seeds are for scenarios")
    wanted = {text: weather_fields(text) for text in weather or ["own"]}
    if is_scenario:
        start_engine()
        _study(source, names, wanted, seeds, lidar, report)
    else:
        _recorded(source, names, truth, topic, report)
    report.finish()


def _makers(names: list[str]) -> dict[str, Any]:
    from parhelion.evaluate.slam.odometry import method_maker

    return {name: method_maker(name) for name in names}


def _study(
    source: Path, names: list[str], weathers: dict[str, Any], seeds: int, lidar: str | None, report: _Report
) -> None:
    from parhelion.evaluate.slam.drives import ScenarioDrive
    from parhelion.evaluate.slam.study import run_methods

    makers = _makers(names)
    first = ScenarioDrive(source, lidar=lidar)
    for make in makers.values():
        make(first.setup)  # what is missing is told before hours of work
    start, total = first.scenario.seed, first.count * len(weathers) * seeds
    with screen.progress("driving", total) as advance:
        for seed in range(start, start + seeds):
            for words, fields in weathers.items():
                drive = ScenarioDrive(source, weather=fields, seed=seed, lidar=lidar)
                report.add(*run_methods(drive, makers, weather=words, seed=seed, advance=advance))


def _recorded(source: Path, names: list[str], truth: Path | None, topic: str | None, report: _Report) -> None:
    from parhelion.cli.bags import is_bag
    from parhelion.core.errors import FormatError
    from parhelion.evaluate.slam.drives import BagDrive, FolderDrive
    from parhelion.evaluate.slam.study import run_methods

    makers = _makers(names)
    drive: Drive
    if is_bag(source):
        drive = BagDrive(source, truth, topic=topic)
    elif source.is_dir():
        drive = FolderDrive(source, truth)
    else:
        raise FormatError(
            f"{source}: give a scenario (.yaml), a bag, a folder of clouds, or two TUM files with --estimate"
        )
    with screen.progress("driving", drive.count) as advance:
        report.add(*run_methods(drive, makers, advance=advance))


def _score_files(truth: Path, estimates: list[Path]) -> list[tuple[RunResult, Any]]:
    from parhelion.core.errors import ConfigError
    from parhelion.evaluate.slam.study import scored
    from parhelion.io import poses as tum

    true = tum.read_tum(truth)
    found = []
    for file in estimates:
        poses = tum.read_tum(file)
        try:
            found.append((scored(poses, true, file.stem), None))
        except ConfigError as error:
            raise ConfigError(f"{file}: {error}") from None
    return found


class _Report:
    """The files of a study: written anew after every run, so that a stopped one is not lost."""

    def __init__(self, source: Path, folder: Path, json: Path | None) -> None:
        make_folder(folder)
        self.source, self.folder = source, folder
        self.json = json or folder / "results.json"
        self.runs: list[RunResult] = []

    def add(self, *found: tuple[RunResult, Any]) -> None:
        from parhelion.evaluate.slam.study import write_json
        from parhelion.io import poses as tum

        for run, poses in found:
            self.runs.append(run)
            if poses is not None:
                (self.folder / "trajectories").mkdir(exist_ok=True)
                words = "".join(c if c.isalnum() or c in "=.,-" else "-" for c in f"{run.method}_{run.weather}")
                tum.write_tum(poses, self.folder / "trajectories" / f"{words}_{run.seed}.tum")
        write_json(self.json, str(self.source), self.runs)

    def finish(self) -> None:
        from parhelion.evaluate.slam.study import COLUMNS, page_of, summary, table_rows
        from parhelion.pictures.html import write_page

        screen.table(str(self.source), COLUMNS, table_rows(summary(self.runs)), numbers=COLUMNS[2:])
        write_page(self.folder / "report.html", page_of(str(self.source), self.runs, screen.command_line()))
        screen.say(f"wrote {self.json}")
        screen.say(f"look at {self.folder / 'report.html'}")
