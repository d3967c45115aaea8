"""`parhelion map` and `parhelion evaluate localise`: maps from drives, and drives localised in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import screen
from parhelion.cli.recordings import check_file, make_folder
from parhelion.cli.screen import start_engine
from parhelion.core.errors import ConfigError

if TYPE_CHECKING:
    from parhelion.evaluate.slam.drives import Drive

MAP_EXAMPLES = (
    "parhelion map run/ -o map.pcd                                  # clouds of a run and its true trajectory",
    "parhelion map run/bag -o map.pcd --voxel 0.2 --static          # without moving objects, drops and ghosts",
    "parhelion map examples/city-loop.yaml -o map.pcd --static      # simulated scan by scan",
    "parhelion map clouds/ --truth poses.tum -o map.ply --without car --without person",
)
EXAMPLES = (
    "parhelion evaluate localise examples/city-loop.yaml --map map.pcd --weather clear --weather fog=100 -o out",
    "parhelion evaluate localise run/ --map map.pcd --method gicp --method plane-icp -o out",
    "parhelion evaluate localise drive.mcap --map map.pcd --truth poses.tum -o out",
)

_Source = Annotated[
    Path, typer.Argument(metavar="SOURCE", help="Folder of a run or of clouds, ROS 2 bag, or scenario (.yaml).")
]
_Truth = Annotated[Path | None, typer.Option("--truth", help="True lidar poses (TUM) if not in SOURCE.")]
_Lidar = Annotated[str | None, typer.Option(help="Lidar of the scenario. Default: the first.")]
_Topic = Annotated[str | None, typer.Option(help="Topic of the clouds, for bags with several.")]


def map_(
    source: _Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="Cloud file of the map.")],
    voxel: Annotated[float, typer.Option(min=1e-3, max=100.0, help="Edge of a voxel [m]; each keeps its mean.")] = 0.1,
    static: Annotated[
        bool, typer.Option("--static", help="Omit moving surfaces, drops and ghosts, by the fields of the clouds.")
    ] = False,
    without: Annotated[list[str] | None, typer.Option("--without", help="Label to omit. May be repeated.")] = None,
    max_range: Annotated[float, typer.Option(min=0.1, help="Largest range of used points [m].")] = 100.0,
    weather: Annotated[str, typer.Option(help="Weather of a scenario: clear, own, rain=MM_H, ...")] = "clear",
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of a scenario. Default: as in the file.")] = None,
    truth: _Truth = None,
    lidar: _Lidar = None,
    topic: _Topic = None,
) -> None:
    """Build a map from a drive with known poses: all clouds in the world frame, one point per voxel."""
    from parhelion.evaluate.slam.maps import build_map
    from parhelion.io.formats import format_of

    check_file(output)
    format_of(output, None)
    _, _, drive = next(_drives(source, [weather], 1, truth, lidar, topic, seed))
    with screen.progress("mapping", drive.count) as advance:
        cloud = build_map(drive, voxel, static=static, without=without or (), max_range_m=max_range, advance=advance)
    cloud.save(output)
    low, high = cloud.xyz.min(axis=0), cloud.xyz.max(axis=0)
    size = " x ".join(f"{value:.0f}" for value in high - low)
    screen.print_line(f"{screen.count(len(cloud))} points, {size} m, from {drive.count} scans")
    screen.print_line(f"wrote {output}")


def localise(
    source: _Source,
    cloud: Annotated[Path, typer.Option("--map", help="Cloud file of the map, in the frame of the true poses.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for page, JSON and trajectories.")],
    method: Annotated[
        list[str] | None, typer.Option("--method", "-m", help="icp, plane-icp, gicp or vgicp. May be repeated.")
    ] = None,
    weather: Annotated[
        list[str] | None,
        typer.Option("--weather", help="clear, rain=MM_H, fog=M, snow=MM_H, own; rain=5,fog=500. May be repeated."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=10_000, help="Runs (seeds) of the scenario per weather.")] = 1,
    truth: _Truth = None,
    lidar: _Lidar = None,
    topic: _Topic = None,
    json: Annotated[
        Path | None, typer.Option("--json", help="All numbers as JSON. Default: in the output folder.")
    ] = None,
) -> None:
    """Localise a drive in a map: errors in the frame of the map by weather, with intervals over seeds."""
    from parhelion.core.clouds import PointCloud
    from parhelion.evaluate.slam import localise as study
    from parhelion.io import poses as tum
    from parhelion.pictures.html import write_page

    make_folder(output)
    check_file(json)
    target = json or output / "results.json"
    points = PointCloud.load(cloud)
    runs: list[study.Localised] = []
    names = list(dict.fromkeys(method or ["gicp"]))
    drives = _drives(source, weather or ["own"], seeds, truth, lidar, topic)
    first = next(drives)
    (output / "trajectories").mkdir(exist_ok=True)
    with screen.progress("driving", first[2].count * len(weather or ["own"]) * seeds) as advance:
        for words, seed, drive in _chained(first, drives):
            for run, poses in study.localise(drive, points, names, weather=words, seed=seed, advance=advance):
                runs.append(run)
                name = "".join(c if c.isalnum() or c in "=.,-" else "-" for c in f"{run.method}_{words}")
                tum.write_tum(poses, output / "trajectories" / f"{name}_{seed}.tum")
            # Rewritten after every run, so that an interrupted study keeps its results.
            study.write_json(target, str(source), str(cloud), runs)
    screen.table(str(source), study.COLUMNS, study.table_rows(study.summary(runs)), numbers=study.COLUMNS[2:])
    write_page(output / "report.html", study.page_of(str(source), str(cloud), runs, screen.command_line()))
    screen.print_line(f"wrote {target}")
    screen.print_line(f"look at {output / 'report.html'}")


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _drives(
    source: Path,
    weathers: list[str],
    seeds: int,
    truth: Path | None,
    lidar: str | None,
    topic: str | None,
    first: int | None = None,
) -> Iterator[tuple[str, int, Drive]]:
    """Weather, seed and drive of every run; a recording is a single one."""
    from parhelion.evaluate.slam.drives import ScenarioDrive, recorded_drive
    from parhelion.evaluate.slam.study import weather_fields
    from parhelion.io.recordings import existing

    if existing(source).suffix.lower() not in (".yaml", ".yml"):
        if seeds > 1 or first is not None or weathers not in (["own"], ["clear"]):
            raise ConfigError(f"{source}: is a recording; --weather and seeds apply to scenarios only")
        yield "as recorded", 0, recorded_drive(source, truth, topic)
        return
    wanted = {text: weather_fields(text) for text in weathers}
    start_engine()
    begin = ScenarioDrive(source, lidar=lidar).scenario.seed if first is None else first
    for seed in range(begin, begin + seeds):
        for words, fields in wanted.items():
            yield words, seed, ScenarioDrive(source, weather=fields, seed=seed, lidar=lidar)
