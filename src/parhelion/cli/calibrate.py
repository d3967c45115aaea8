"""`parhelion calibrate`: the data sheet of the user's own lidar, from a drive or from boards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.clouds import check_file
from parhelion.cli.failures import warn

if TYPE_CHECKING:
    from parhelion.sensors.lidar.config import LidarConfig

EXAMPLES = (
    "parhelion calibrate drive.pcap --sensor ouster/os0-32 -o my-lidar.yaml --report report.html",
    "parhelion calibrate drive.pcap --sensor ouster/os1-128 -o my-lidar.yaml --turn 0",
    "parhelion calibrate parked.mcap --sensor velodyne/vlp-16 -o my-lidar.yaml --standing --topic /points",
    "parhelion calibrate boards.yaml --sensor slamtec/rplidar-a1 -o my-lidar.yaml --report boards.html",
    "parhelion calibrate boards.yaml --sensor my-lidar.yaml -o my-lidar.yaml   # boards on top of a drive",
    "parhelion scan --world city --sensor my-lidar.yaml -o scan.pcd            # scan with it",
)


def calibrate(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="RECORDING", help="A drive (.pcap, bag, clouds or a folder of them), or a boards file (.yaml)."
        ),
    ],
    sensor: Annotated[str, typer.Option("--sensor", "-s", help="What recorded it: a preset or a YAML file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The sensor's new data sheet (.yaml).")],
    report: Annotated[Path | None, typer.Option(help="A page (.html) with every curve and its error.")] = None,
    turn: Annotated[int | None, typer.Option(min=0, metavar="N", help="One turn of a drive, from 0; else all.")] = None,
    standing: Annotated[
        bool, typer.Option("--standing", help="The sensor stands: repeated looks give the range noise.")
    ] = False,
    topic: Annotated[str | None, typer.Option(help="Topic of the clouds, for bags with several.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draws that errors are worked out by.")] = 1,
) -> None:
    """Make the data sheet of your own lidar from what it recorded.

    A drive tells the overlap curve, range noise, errors of channels, dropout, threshold, saturation and the scale of
    intensity. Boards of known materials tell the noise of each material by angle. What a recording cannot tell stays
    the preset's, and is named.
    """
    from parhelion.core.errors import ConfigError
    from parhelion.sensors.lidar.presets import load_preset

    if output.suffix.lower() not in (".yaml", ".yml"):
        raise ConfigError(f"{output}: the name of a data sheet must end in .yaml")
    for file in (output, report):
        if file is not None:
            check_file(file)
    preset = load_preset(sensor)[0]
    if source.suffix.lower() in (".yaml", ".yml"):
        _boards(source, preset, output, report, seed)
    else:
        _drive(source, sensor, preset, output, report, turn, standing, topic, seed)


def _drive(
    source: Path,
    sensor: str,
    preset: LidarConfig,
    output: Path,
    report: Path | None,
    turn: int | None,
    standing: bool,
    topic: str | None,
    seed: int,
) -> None:
    from parhelion.calibrate.drive import calibrate_drive
    from parhelion.calibrate.drive_report import rows_of, write_drive_report
    from parhelion.calibrate.reading import read_drive
    from parhelion.calibrate.sheet import write_sheet

    turns = read_drive(source, sensor=sensor, turn=turn, topic=topic)
    found = calibrate_drive(turns, preset, recording=source.name, standing=standing, seed=seed)
    write_sheet(found.sheet, output)
    columns = ("field", "preset", "measured", "error")
    screen.table(f"{preset.name} from {len(turns)} turns of {source.name}", columns, rows_of(found))
    if not found.turn.knows_lost:
        warn(f"{source}: the recording does not tell lost shots, so drop rate and threshold stay the preset's")
    screen.table("Kept from the preset", ("field", "why"), found.kept.items())
    screen.say(f"wrote {output}")
    if report is not None:
        write_drive_report(found, source.name, report)
        screen.say(f"wrote {report}")


def _boards(source: Path, preset: LidarConfig, output: Path, report: Path | None, seed: int) -> None:
    from parhelion.calibrate.board_file import calibrate_boards
    from parhelion.calibrate.board_report import rows_of, write_board_report
    from parhelion.calibrate.sheet import write_sheet

    found = calibrate_boards(source, preset, seed=seed)
    write_sheet(found.sheet, output)
    columns = ("material", "boards", "shots", "angles [deg]", "drop", "range noise [cm]", "gaps by")
    screen.table(f"{preset.name} from {source.name}", columns, rows_of(found), numbers=("shots",))
    for note in found.notes:
        warn(note)
    screen.say(f"wrote {output}")
    if report is not None:
        write_board_report(found, source.name, report)
        screen.say(f"wrote {report}")
