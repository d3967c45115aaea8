"""`parhelion calibrate`: the data sheet of the user's own lidar, from a drive or from boards."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.recordings import check_file
from parhelion.cli.screen import warn
from parhelion.core.errors import ConfigError

if TYPE_CHECKING:
    from parhelion.calibrate.drive.drive import DriveCalibration
    from parhelion.live.web import LivePage
    from parhelion.sensors.optics.lidar.config import LidarConfig


class Unknown(str, Enum):
    """Profile that materials without one get."""

    nearest = "nearest"
    usual = "usual"  # wording: ok


EXAMPLES = (
    "parhelion calibrate drive.pcap --sensor ouster/os0-32 -o my-lidar.yaml --report report.html",
    "parhelion calibrate drive.pcap --sensor ouster/os1-128 -o my-lidar.yaml --index 0",
    "parhelion calibrate parked.mcap --sensor velodyne/vlp-16 -o my-lidar.yaml --standing --topic /points",
    "parhelion calibrate boards.yaml --sensor slamtec/rplidar-a1 -o my-lidar.yaml --report boards.html",
    "parhelion calibrate boards.yaml --sensor my-lidar.yaml -o my-lidar.yaml   # boards on top of a drive",
    "parhelion calibrate a.pcap b.pcap --sensor ouster/os0-32 -o my-lidar.yaml --report report.html   # side by side",
    "parhelion calibrate drive.pcap --sensor ouster/os0-32 -o my-lidar.yaml --view   # watch it in the browser",
    "parhelion calibrate boards.yaml --sensor velodyne/vlp-16 -o my-lidar.yaml --view",
    "parhelion calibrate --live /scan --material plywood             # record a board; adds it to boards.yaml",
    "parhelion calibrate --live udp://:2368 --material epoxy --width 0.6 --distance 1.2",
    "parhelion scan --world city --sensor my-lidar.yaml -o scan.pcd            # scan with it",
)


def calibrate(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RECORDING...",
            help="Drives (.pcap, bag, clouds or a folder of them), or one boards file (.yaml).",
            show_default=False,
        ),
    ] = None,
    sensor: Annotated[
        str | None,
        typer.Option("--sensor", "-s", help="Sensor that recorded the data: a preset or a YAML file. [required]"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The sensor's new data sheet (.yaml). [required]")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Report (.html) with every curve and its error.")] = None,
    index: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Use only frame N of a drive, counted from 0. Default: all frames."),
    ] = None,
    standing: Annotated[
        bool, typer.Option("--standing", help="The sensor stands still: repeated observations give the range noise.")
    ] = False,
    topic: Annotated[str | None, typer.Option(help="Topic of the clouds, for bags with several.")] = None,
    unknown: Annotated[
        Unknown | None, typer.Option(help="Profile of materials without one. Default: the nearest calibrated material.")
    ] = None,
    view: Annotated[
        bool, typer.Option("--view", help="Watch the calibration in the browser; only this machine can open the page.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of that page; 0 selects any free port.")] = 8080,
    seed: Annotated[int, typer.Option(help="Seed of the random draws behind the error estimates.")] = 1,
    live: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            help="Record a board in front of the running sensor: a ROS 2 topic such as /scan, or udp://:PORT.",
        ),
    ] = None,
    material: Annotated[str | None, typer.Option(help="Material of the board (--live).")] = None,
    width: Annotated[
        float | None, typer.Option(min=0.01, help="Width of the board in m (--live). Default: its edges are detected.")
    ] = None,
    distance: Annotated[
        float | None, typer.Option(min=0.01, help="Distance of the board in m (--live). Default: the nearest board.")
    ] = None,
    boards_file: Annotated[
        Path, typer.Option("--boards", metavar="FILE", help="Boards file to which a live recording is added.")
    ] = Path("boards.yaml"),
    shots: Annotated[int, typer.Option(min=1, help="Shots per bin of incidence after which --live ends.")] = 300,
    seconds: Annotated[float, typer.Option(min=0.1, help="Longest duration of --live in s.")] = 60.0,
    domain: Annotated[int, typer.Option(min=0, max=232, help="ROS domain of --live.")] = 0,
    anywhere: Annotated[
        bool, typer.Option("--anywhere", help="Also receive packets of other machines (--live udp://HOST:PORT).")
    ] = False,
) -> None:
    """Create the data sheet of your own lidar from its recordings.

    A drive yields the overlap curve, range noise, per-channel errors in range and angle, rotation rate, dropout,
    threshold, saturation and the intensity scale. Boards of known materials yield the noise of each material by
    angle. Quantities that a recording does not constrain keep the values of the preset and are listed. Several drives
    are fitted separately and together; disagreements are reported.
    """
    from parhelion.sensors.optics.lidar.config import LidarConfig
    from parhelion.sensors.sheets import load_sheet

    if live is not None:
        from parhelion.cli.calibrate_live import LiveBoard

        if sources:
            raise typer.BadParameter("records; it reads no recordings", param_hint="--live")
        LiveBoard(live, boards_file, material, width, distance, shots, seconds, domain, seed, anywhere).run()
        if output is None or sensor is None:
            screen.print_line(f"next: parhelion calibrate {boards_file} --sensor SENSOR -o my-lidar.yaml")
            return
        sources = [boards_file]
    if not sources:
        raise typer.BadParameter("name at least one recording, or use --live", param_hint="RECORDING...")
    if sensor is None:
        raise typer.BadParameter("name the sensor that recorded the data", param_hint="--sensor")
    if output is None:
        raise typer.BadParameter("name the new data sheet", param_hint="--output")
    if output.suffix.lower() not in (".yaml", ".yml"):
        raise ConfigError(f"{output}: a data sheet needs a name that ends in .yaml")
    check_file(output, report)
    preset = load_sheet("lidar", LidarConfig, sensor)
    boards = [source for source in sources if source.suffix.lower() in (".yaml", ".yml")]
    if boards and len(sources) > 1:
        raise ConfigError(f"{boards[0]}: give a boards file alone; it names its own recordings")
    with ExitStack() as stack:
        page = _page(stack, port) if view else None
        if boards:
            _boards(boards[0], preset, output, report, seed, unknown, page)
        else:
            made = _Drives(sources, sensor, preset, output, report, index, standing, topic, seed, unknown)
            made.run(page)
        if page is not None:
            screen.print_line("done; Ctrl-C closes the page")
            try:
                page.wait()
            except KeyboardInterrupt:
                screen.print_line("closed")


def _page(stack: ExitStack, port: int) -> LivePage:
    from parhelion.live.web import LivePage

    page = stack.enter_context(LivePage(port))
    screen.print_line(f"open {page.url} in a browser; Ctrl-C ends it")
    return page


@dataclass
class _Drives:
    """Calibration from one or several drives."""

    sources: list[Path]
    sensor: str
    preset: LidarConfig
    output: Path
    report: Path | None
    index: int | None
    standing: bool
    topic: str | None
    seed: int
    unknown: Unknown | None

    def run(self, page: LivePage | None) -> None:
        from parhelion.calibrate.drive.compare import compare_drives
        from parhelion.calibrate.drive.drive import calibrate_drive
        from parhelion.calibrate.drive.report import COLUMNS, write_comparison, write_drive_report
        from parhelion.calibrate.drive.report import comparison_rows as rows_of
        from parhelion.calibrate.range_images import read_drive

        names = [source.name for source in self.sources]
        if len(set(names)) < len(names):
            names = [str(source) for source in self.sources]
        recordings = [
            (name, read_drive(source, sensor=self.sensor, turn=self.index, topic=self.topic))
            for name, source in zip(names, self.sources, strict=True)
        ]
        whole = ", ".join(names)
        watch = None if page is None else _watcher(page, whole)
        if len(recordings) == 1:
            frames = recordings[0][1]
            found = calibrate_drive(
                frames, self.preset, recording=whole, standing=self.standing, seed=self.seed, watch=watch
            )
            self._print(found, whole)
            if self.report is not None:
                write_drive_report(found, whole, self.report)
        else:
            every = compare_drives(recordings, self.preset, standing=self.standing, seed=self.seed, watch=watch)
            found = every.together
            self._print(found, whole)
            screen.table("Comparison of the recordings, 95 % intervals", COLUMNS, rows_of(every))
            for one in every.differing:
                warn(f"{one.field}: the recordings disagree, so the interval covers all of them: {one.in_words(names)}")
            if self.report is not None:
                write_comparison(every, self.report)
        screen.print_line(f"wrote {self.output}")
        if self.report is not None:
            screen.print_line(f"wrote {self.report}")
        if page is not None:
            from parhelion.calibrate.drive.report import STAGES, watch_page

            page.show(lambda: watch_page(found, whole, list(STAGES), finished=True), final=True)

    def _print(self, found: DriveCalibration, whole: str) -> None:
        from parhelion.calibrate.drive.report import TIMING_COLUMNS
        from parhelion.calibrate.drive.report import drive_rows as rows_of
        from parhelion.calibrate.drive.timing import timing_rows
        from parhelion.calibrate.sheet import write_sheet

        write_sheet(_with_unknown(found.sheet, self.unknown), self.output)
        columns = ("field", "preset", "measured", "95 % interval")
        screen.table(f"{self.preset.name} from {found.turns} frames of {whole}", columns, rows_of(found))
        if found.timing is not None:
            rows = timing_rows(found.timing, found.preset.pattern)
            screen.table("Timing, from pulse time stamps", TIMING_COLUMNS, rows)
        if not found.turn.knows_lost:
            warn(f"{whole}: the recording contains no lost shots; dropout rate and threshold are those of the preset")
        screen.table("Unchanged from the preset", ("field", "why"), found.kept.items())


def _watcher(page: LivePage, recording: str) -> Callable[[str, DriveCalibration], None]:
    """Print each stage when it is finished."""
    from parhelion.calibrate.drive.report import watch_page

    done: list[str] = []

    def watch(stage: str, found: DriveCalibration) -> None:
        done.append(stage)
        now = tuple(done)
        page.show(lambda: watch_page(found, recording, now))

    return watch


def _with_unknown(sheet: LidarConfig, unknown: Unknown | None) -> LidarConfig:
    """Sheet with the user's choice for materials without a profile."""
    from parhelion.calibrate.sheet import with_changes

    return sheet if unknown is None else with_changes(sheet, {"calibration.unknown": unknown.value})


def _boards(
    source: Path,
    preset: LidarConfig,
    output: Path,
    report: Path | None,
    seed: int,
    unknown: Unknown | None,
    page: LivePage | None,
) -> None:
    from parhelion.calibrate.boards.boards import BoardCalibration, Stage, calibrate_boards, read_boards, stages_of
    from parhelion.calibrate.boards.report import board_watch_page, rows_of, simulated_profiles, write_board_report
    from parhelion.calibrate.sheet import write_sheet

    stages = stages_of(read_boards(source))
    if page is not None:
        page.show(lambda: board_watch_page(BoardCalibration(preset, preset, [], stages=stages), source.name))
    with screen.progress(source.name, len(stages)) as advance:

        def watch(_: Stage, so_far: BoardCalibration) -> None:
            advance()
            if page is not None:
                page.show(lambda: board_watch_page(so_far, source.name))

        found = calibrate_boards(source, preset, seed=seed, watch=watch)
    write_sheet(_with_unknown(found.sheet, unknown), output)
    columns = ("material", "boards", "shots", "angles [deg]", "drop", "range noise [cm]", "gaps by")
    screen.table(f"{preset.name} from {source.name}", columns, rows_of(found), numbers=("shots",))
    for note in found.notes:
        warn(note)
    screen.print_line(f"wrote {output}")
    if report is None and page is None:
        return
    # Computed here and not on a browser request: the ray engine belongs to this thread.
    simulated = simulated_profiles(found)
    if report is not None:
        write_board_report(found, source.name, simulated, report)
        screen.print_line(f"wrote {report}")
    if page is not None:
        page.show(lambda: board_watch_page(found, source.name, simulated, finished=True), final=True)


# ---- `parhelion identify`: the likeliest calibrated material of every point -----------------------------------------


IDENTIFY_EXAMPLES = (
    "parhelion identify cloud.pcd --sensor my-lidar.yaml",
    "parhelion identify cloud.pcd --sensor my-lidar.yaml -o named.ply --neighbours 20",
)


def identify(
    source: Annotated[Path, typer.Argument(metavar="CLOUD", help="Cloud in the sensor frame, with intensities.")],
    sensor: Annotated[str, typer.Option("--sensor", "-s", help="The sensor's calibrated data sheet (.yaml).")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Copy of the cloud with the fields material and probability.")
    ] = None,
    neighbours: Annotated[
        int, typer.Option(min=3, help="Number of neighbouring points whose evidence is combined.")
    ] = 12,
) -> None:
    """Identify the most likely calibrated material of each point, with its probability."""
    import numpy as np

    from parhelion.calibrate.identify import identify as identified
    from parhelion.core.clouds import PointCloud
    from parhelion.sensors.optics.lidar.config import LidarConfig
    from parhelion.sensors.sheets import load_sheet

    check_file(output)
    config = load_sheet("lidar", LidarConfig, sensor)
    cloud = PointCloud.load(source)
    found = identified(cloud, config, neighbours=neighbours)
    rows = [(name, screen.count(points), f"{100 * chance:.0f} %") for name, points, chance in found.summary()]
    screen.table(f"{source.name} by {config.name}", ("material", "points", "probability"), rows, numbers=("points",))
    unknown = int((found.best < 0).sum())
    if unknown:
        screen.print_line(f"{screen.count(unknown)} points lie on no surface with a measurable angle")
    if output is not None:
        best = found.best
        chance = np.where(best >= 0, np.nan_to_num(found.chance).max(axis=1), 0.0).astype(np.float32)
        named = PointCloud(
            cloud.xyz,
            {**cloud.fields, "material": np.where(best >= 0, best, 0xFFFF).astype(np.uint16), "probability": chance},
            cloud.frame,
            {**cloud.names, "material": {**dict(enumerate(found.names)), 0xFFFF: "none"}},
            cloud.metadata,
        )
        named.save(output)
        screen.print_line(f"wrote {output}")
