"""`parhelion evaluate`: clouds against clouds, detections against labels, odometry against the truth, placement."""

from __future__ import annotations

import shlex
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import detector, localise, realism, screen
from parhelion.cli.measure import load_world
from parhelion.cli.recordings import check_file, make_folder
from parhelion.cli.screen import Command, Group, examples, start_engine, warn
from parhelion.core.errors import ConfigError

if TYPE_CHECKING:
    from parhelion.evaluate.slam.study import RunResult

# ---- `parhelion evaluate clouds`: simulated clouds against real ones ------------------------------------------------


EXAMPLES = (
    "parhelion evaluate clouds real.pcd simulated.pcd -o report.html --json out.json",
    "parhelion evaluate clouds recorded/ simulated/ -o report.html      # paired by name, or by order",
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
        typer.Option(
            min=1e-6,
            help="Points within this distance [m] of the reference are correct. Default: decided by the field origin.",
        ),
    ] = None,
    exact_points: Annotated[
        int,
        typer.Option(
            min=1,
            max=20_000,
            help="Largest cloud with an exact earth mover's distance; larger ones use an approximation.",
        ),
    ] = 4000,
    field: Annotated[
        list[str] | None, typer.Option("--field", help="Fields to compare; both clouds must have them.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", help="Objects to count by distance. Default: all.")
    ] = None,
    distances: Annotated[str, typer.Option(metavar="M,M,...", help="Edges of distance classes.")] = "0,30,45,60,120",
    still: Annotated[
        bool, typer.Option("--still", help="The scene is static: compute the SNR of each shot over all clouds.")
    ] = False,
) -> None:
    """Compare clouds: Chamfer and earth mover's distance, detections, range error, SNR, density, distributions."""
    from parhelion.evaluate.clouds.compare import Options, compare_files, page_of, pairs_of, summary_rows

    check_file(output, json)
    options = Options(
        tolerance, exact_points, tuple(field or ()), parse_edges(distances), tuple(label or ()), still=still
    )
    pairs = pairs_of(real, simulated)
    with screen.progress("comparing", len(pairs)) as advance:
        result = compare_files(pairs, options, dry=dry, advance=advance)
    result = {"real": str(real), "simulated": str(simulated), **result}
    screen.facts(f"{real} and {simulated}", summary_rows(result))
    page = page_of(result, str(real), str(simulated), screen.command_line()) if output is not None else None
    _write(json, result, output, page)


def _write(json: Path | None, result: dict[str, Any], output: Path | None, page: Any) -> None:
    """Write the JSON file and the page if requested."""
    from parhelion.core.files import write_json
    from parhelion.pictures.html import write_page

    if json is not None:
        write_json(json, result)
        screen.print_line(f"wrote {json}")
    if output is not None:
        write_page(output, page)
        screen.print_line(f"look at {output}")


def parse_edges(text: str) -> tuple[float, ...]:
    """Parse rising edges of distance classes [m], such as `0,30,60`."""
    try:
        edges = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"expected numbers M,M,..., got {text!r}", param_hint="--distances") from None
    if len(edges) < 2 or any(b <= a for a, b in pairwise(edges)):
        raise typer.BadParameter(f"expected at least two rising numbers, got {text!r}", param_hint="--distances")
    return edges


# ---- `parhelion evaluate detections`: detector scores of KITTI or nuScenes ------------------------------------------


DETECTIONS_EXAMPLES = (
    "parhelion evaluate detections label_2/ detections/ -o report.html --json out.json",
    "parhelion evaluate detections label_2/ detections/ --class Car --distances 0,35,70,120 --overlap 0.5",
    "parhelion evaluate detections out/nuscenes results_nusc.json -o report.html        # mAP, errors, NDS",
)
_DEFAULT_DISTANCES = "0,35,70,120"


class Layout(str, Enum):
    """Benchmark whose files and metrics are used."""

    auto = "auto"
    kitti = "kitti"
    nuscenes = "nuscenes"


def detections(
    labels: Annotated[
        Path,
        typer.Argument(metavar="LABELS", help="KITTI label file or folder, or the folder of a nuScenes data set."),
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
    kind: Annotated[
        list[str] | None, typer.Option("--class", help="Classes to score. Default: all classes with labels.")
    ] = None,
    overlap: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=1.0, help="KITTI: overlap above which a box counts as found. Default: the benchmark's."
        ),
    ] = None,
    distances: Annotated[
        str | None,
        typer.Option(metavar="M,M,...", help=f"KITTI: edges of distance classes; default {_DEFAULT_DISTANCES}."),
    ] = None,
    layout: Annotated[
        Layout, typer.Option("--format", help="Benchmark; auto selects nuScenes if DETECTIONS ends in .json.")
    ] = Layout.auto,
) -> None:
    """Score detections: KITTI's average precision by difficulty and distance, or nuScenes' mAP, errors and NDS."""
    check_file(output, json)
    if layout is Layout.nuscenes or (layout is Layout.auto and found.suffix.lower() == ".json"):
        for given, option in ((overlap, "--overlap"), (distances, "--distances")):
            if given is not None:
                raise typer.BadParameter(
                    "applies to KITTI files only; nuScenes defines its own distances", param_hint=option
                )
        _nuscenes(labels, found, output, json, kind)
    else:
        _kitti(labels, found, output, json, kind, overlap, distances or _DEFAULT_DISTANCES)


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

    result = evaluate_frames(frames_of(labels, found), kind, parse_edges(distances), overlap)
    screen.table(f"{found} against {labels}", COLUMNS, table_rows(result), numbers=COLUMNS[2:])
    page = page_of(result, str(labels), str(found), screen.command_line()) if output is not None else None
    _write(json, {"labels_from": str(labels), "detections_from": str(found), **result}, output, page)


def _nuscenes(labels: Path, found: Path, output: Path | None, json: Path | None, kind: list[str] | None) -> None:
    from parhelion.evaluate.detections import evaluate_pair, read_pair
    from parhelion.evaluate.detections import nuscenes as pages

    result = evaluate_pair(read_pair(labels, found), kind)
    columns, summary = pages.COLUMNS, pages.SUMMARY_COLUMNS
    screen.table(f"{found} against {labels}", columns, pages.table_rows(result), numbers=columns[1:])
    screen.table("", summary, pages.summary_rows(result), numbers=summary[1:])
    if result["scenes"] < result["all_scenes"]:
        screen.print_line(f"{result['scenes']} of {result['all_scenes']} scenes, those with detections")
    command = shlex.join(["parhelion", "evaluate", "detections", str(labels), str(found), "-o", str(output)])
    page = pages.page_of(result, str(labels), str(found), command) if output is not None else None
    _write(json, {"labels_from": str(labels), "detections_from": str(found), **result}, output, page)


# ---- `parhelion evaluate placement`: the best positions of sensors or anchors ---------------------------------------


PLACEMENT_EXAMPLES = (
    "parhelion evaluate placement examples/placement/city-lidars.yaml -o report.html --json answer.json",
    "parhelion evaluate placement examples/placement/warehouse-anchors.yaml --choose 6 --csv sites.csv --png map.png",
    "parhelion evaluate placement lidars.yaml --method greedy                # for too many combinations",
    "parhelion evaluate placement --schema > placement.schema.json          # for editors that know YAML schemas",
)


def placement(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="Placement file (.yaml).")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Page with map and tables (.html).")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="All numbers as JSON.")] = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Table of the candidates.")] = None,
    png: Annotated[Path | None, typer.Option("--png", help="The map alone.")] = None,
    choose: Annotated[
        int | None, typer.Option("--choose", "-k", min=1, help="Number of sites to choose. Default: as in the file.")
    ] = None,
    method: Annotated[
        str | None, typer.Option("--method", metavar="METHOD", help="auto, greedy or exact. Default: as in the file.")
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of placement files.")] = False,
) -> None:
    """Find the best mounts of lidars and cameras, or sites of anchors: coverage, blind ground, error of positions."""
    from parhelion.core import config
    from parhelion.evaluate.placement.schema import PlacementFile, json_schema

    if schema:
        screen.print_schema(json_schema())
        return
    if file is None:
        raise typer.BadParameter("give a placement file", param_hint="FILE")
    check_file(output, json, csv, picture=png)
    fields = config.read_yaml(file)
    if isinstance(fields, dict):  # otherwise the validation of the file reports it
        changed: dict[str, Any] = {} if choose is None else {"choose": choose}
        if method is not None:
            given = fields.get("search")
            changed["search"] = {**(given if isinstance(given, dict) else {}), "method": method}
        fields = {**fields, **changed}
    settings = config.parse(PlacementFile, fields, file)
    start_engine()
    from parhelion.core.files import write_json
    from parhelion.evaluate.placement import report as results
    from parhelion.evaluate.placement.study import Placement
    from parhelion.pictures.html import write_page

    question = Placement(settings, file.parent, str(file))
    question.is_exact()  # report a search that is too large before casting rays
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
        screen.print_line(f"wrote {json}")
    if csv is not None:
        results.write_csv(csv, result)
        screen.print_line(f"wrote {csv}")
    if png is None and output is None:
        return
    from parhelion.evaluate.placement.report import answer_picture, page_of

    picture = answer_picture(answer)
    if png is not None:
        from parhelion.pictures.style import save

        save(picture, png)
        screen.print_line(f"look at {png}")
    if output is not None:
        write_page(output, page_of(answer, result, command, picture))
        screen.print_line(f"look at {output}")


def _command(file: Path, output: Path | None, choose: int | None, method: str | None) -> str:
    words = ["parhelion", "evaluate", "placement", str(file)]
    for option, value in (("--choose", choose), ("--method", method), ("-o", output)):
        words += [] if value is None else [option, str(value)]
    return shlex.join(words)


# ---- `parhelion evaluate slam`: lidar odometry against the true trajectory ------------------------------------------


SLAM_EXAMPLES = (
    "parhelion evaluate slam examples/city-loop.yaml -m kiss-icp --weather clear --weather rain=25 --seeds 10 -o out",
    "parhelion evaluate slam examples/city-loop.yaml --method kiss-icp --method my_package:MyOdometry -o out",
    "parhelion evaluate slam hall.yaml -m kiss-icp -m kiss-icp:voxel_size=0.2,max_range=30 -o out   # settings",
    "parhelion evaluate slam out/bag --method kiss-icp -o scores            # a ROS 2 bag with ground truth",
    "parhelion evaluate slam run/roof --method genz-icp -o scores           # clouds of a run with ground truth",
    "parhelion evaluate slam truth.tum --estimate estimate.tum -o scores    # two trajectories",
)
_DEFAULT_METHOD = "kiss-icp"


def slam(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Scenario (.yaml), ROS 2 bag, folder of clouds, or true TUM file.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for page, JSON and trajectories.")],
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            "-m",
            metavar="METHOD[:NAME=VALUE,...]",
            help="kiss-icp, genz-icp, small-gicp, rko-lio, or module:Class, with settings. Repeatable.",
        ),
    ] = None,
    weather: Annotated[
        list[str] | None,
        typer.Option("--weather", help="clear, rain=MM_H, fog=M, snow=MM_H, own; rain=5,fog=500. May be repeated."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=10_000, help="Runs (seeds) of the scenario per weather.")] = 1,
    estimate: Annotated[
        list[Path] | None, typer.Option("--estimate", help="Trajectory (TUM) to score if SOURCE is a TUM file.")
    ] = None,
    truth: Annotated[Path | None, typer.Option("--truth", help="True lidar poses (TUM) if not in SOURCE.")] = None,
    lidar: Annotated[str | None, typer.Option(help="Lidar of the scenario. Default: the first.")] = None,
    topic: Annotated[str | None, typer.Option(help="Topic of the clouds, for bags with several.")] = None,
    json: Annotated[
        Path | None, typer.Option("--json", help="All numbers as JSON. Default: in the output folder.")
    ] = None,
) -> None:
    """Run lidar odometry on a drive and score it: ATE, RPE and KITTI drift by weather, with intervals over seeds."""
    from parhelion.evaluate.slam.study import weather_fields
    from parhelion.io.recordings import existing

    if not estimate:
        _makers(method or [_DEFAULT_METHOD])  # report wrong names and settings before any folder is made
        for text in weather or []:
            weather_fields(text)
    report = _Report(existing(source), output, json)
    if estimate:
        if method or weather:
            raise typer.BadParameter("scores an existing trajectory: omit --method and --weather")
        report.add(*_score_files(source, estimate))
        report.finish()
        return
    names = list(dict.fromkeys(method or [_DEFAULT_METHOD]))
    is_scenario = source.suffix.lower() in (".yaml", ".yml")
    if (weather or seeds > 1) and not is_scenario:
        raise ConfigError(f"{source}: is a recording; --weather and --seeds apply to scenarios only")
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
        make(first.setup)  # report missing packages before hours of work
    start, total = first.scenario.seed, first.count * len(weathers) * seeds
    with screen.progress("driving", total) as advance:
        for seed in range(start, start + seeds):
            for words, fields in weathers.items():
                drive = ScenarioDrive(source, weather=fields, seed=seed, lidar=lidar)
                report.add(*run_methods(drive, makers, weather=words, seed=seed, advance=advance))


def _recorded(source: Path, names: list[str], truth: Path | None, topic: str | None, report: _Report) -> None:
    from parhelion.evaluate.slam.drives import recorded_drive
    from parhelion.evaluate.slam.study import run_methods

    makers = _makers(names)
    drive = recorded_drive(source, truth, topic)
    with screen.progress("driving", drive.count) as advance:
        report.add(*run_methods(drive, makers, advance=advance))


def _score_files(truth: Path, estimates: list[Path]) -> list[tuple[RunResult, Any]]:
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
    """Files of a study, rewritten after every run, so that an interrupted study keeps its results."""

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
        from parhelion.evaluate.slam.study import COLUMNS, lost, page_of, summary, table_rows
        from parhelion.pictures.html import write_page

        screen.table(str(self.source), COLUMNS, table_rows(summary(self.runs)), numbers=COLUMNS[2:])
        for text in lost(self.runs):
            warn(text)
        write_page(self.folder / "report.html", page_of(str(self.source), self.runs, screen.command_line()))
        screen.print_line(f"wrote {self.json}")
        screen.print_line(f"look at {self.folder / 'report.html'}")


# ---- objects ---------------------------------------------------------------------------------------------------------


OBJECTS_EXAMPLES = (
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
    from parhelion.core.files import write_json
    from parhelion.evaluate.clouds import cutouts
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


# ---- drops -----------------------------------------------------------------------------------------------------------


DROPS_EXAMPLES = (
    "parhelion evaluate drops --sensor velodyne/vlp-16 --world city --csv drops.csv --png drops.png",
    "parhelion evaluate drops --world harbour --beam cylinder --xyz 0,0,3 --csv drops.csv",
)


class BeamShape(str, Enum):
    """Shape of the beam."""

    frustum = "frustum"
    cylinder = "cylinder"


def drops(
    sensor: Annotated[str, typer.Option(help="Preset or YAML file of a lidar.")] = "velodyne/vlp-16",
    world: Annotated[str, typer.Option(help="Built-in world or file.")] = "city",
    xyz: Annotated[str, typer.Option(metavar="X,Y,Z", help="Position of the sensor [m].")] = "0,0,2",
    beam: Annotated[BeamShape, typer.Option(help="A widening beam, or Arce's cylinder.")] = BeamShape.frustum,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the scan and of the drops.")] = 0,
    csv: Annotated[Path | None, typer.Option("--csv", help="Histograms as a table.")] = None,
    png: Annotated[Path | None, typer.Option("--png", help="Histograms as a picture.")] = None,
) -> None:
    """Count raindrops in the path of each beam of a scan by bands of the rain rate (Arce 2025, figures 4.7 to 4.10)."""
    from parhelion import Lidar, Pose
    from parhelion.evaluate.clouds import drops as model

    check_file(csv, picture=png)
    try:
        place = [float(word) for word in xyz.split(",")]
    except ValueError:
        place = []
    if len(place) != 3:
        raise typer.BadParameter(f"expected X,Y,Z, got {xyz!r}", param_hint="--xyz")
    start_engine()
    lidar = Lidar(sensor)
    scan = lidar.scan(load_world(world), pose=Pose(xyz=place), seed=seed)
    if not len(scan.shots):
        raise ConfigError(f"{sensor}: has no shots")
    lengths = model.beam_lengths(scan, lidar.config.range.max_m)
    found = model.drops_per_beam(model.beam_volumes(lidar.config.beam, lengths, beam.value), seed=seed)
    rows = [(f"{one.band_mm_h[0]:g} to {one.band_mm_h[1]:g}", f"{one.mean:.4g}") for one in found]
    screen.table(
        f"{lidar.config.name} in {world}", ("rain [mm/h]", "drops per beam"), rows, numbers=("drops per beam",)
    )
    if csv is not None:
        model.write_csv(csv, found)
        screen.print_line(f"wrote {csv}")
    if png is not None:
        from parhelion.pictures.style import save

        save(model.picture(found, lidar.config.name), png)
        screen.print_line(f"look at {png}")


# ---- evaluate -------------------------------------------------------------------------------------------------------


app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    epilog=examples(EXAMPLES[0], DETECTIONS_EXAMPLES[0], PLACEMENT_EXAMPLES[0], SLAM_EXAMPLES[0], realism.EXAMPLES[0]),
)

for _function, _examples in (
    (clouds, EXAMPLES),
    (detections, DETECTIONS_EXAMPLES),
    (placement, PLACEMENT_EXAMPLES),
    (slam, SLAM_EXAMPLES),
    (realism.realism, realism.EXAMPLES),
    (localise.localise, localise.EXAMPLES),
    (objects, OBJECTS_EXAMPLES),
    (drops, DROPS_EXAMPLES),
    (detector.detector, detector.EXAMPLES),
):
    app.command(cls=Command, epilog=examples(*_examples))(_function)
