"""Table of commands. Importing it is fast: commands import their dependencies when they run."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from parhelion import __version__
from parhelion.cli import (
    calibrate,
    campaign,
    catalogue,
    convert,
    demo,
    detector,
    doctor,
    evaluate,
    localise,
    measure,
    rebuild,
    run,
    serve,
    shoot,
    starters,
    stream,
    view,
    weather,
)
from parhelion.cli.screen import DEBUG_VARIABLE, Command, Group, examples, print_line
from parhelion.cli.weather_options import WeatherCommand

app = typer.Typer(
    name="parhelion",
    cls=Group,
    help="Simulate what a robot's sensors really see, in any weather. The same seed gives the same bits.",
    epilog=examples(
        "parhelion demo",
        "parhelion scan --world city --sensor ouster/os1-128 -o scan.pcd --png scan.png",
        "parhelion shoot --world city --camera generic/vga -o city.png",
        "parhelion run scenario.yaml -o out",
        "parhelion campaign study.yaml -o study-out",
        "parhelion search study.yaml -o search-out",
        "parhelion verify out",
        "parhelion view scenario.yaml",
        "parhelion serve scenario.yaml",
        "parhelion weather recorded.pcd -o wet.pcd --rain 25 --sensor velodyne/vlp-16",
        "parhelion calibrate drive.pcap --sensor ouster/os0-32 -o my-lidar.yaml --report report.html",
        "parhelion evaluate clouds real.pcd simulated.pcd -o report.html",
        "parhelion sensors velodyne/vlp-16",
        "parhelion doctor",
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print_line(f"parhelion {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help=f"Show the traceback of an error (as {DEBUG_VARIABLE}=1 does).")
    ] = False,
) -> None:
    if traceback:
        os.environ[DEBUG_VARIABLE] = "1"


_COMMANDS = (
    (demo.demo, demo.EXAMPLES, Command),
    (measure.measure, measure.EXAMPLES, WeatherCommand),
    (measure.scan, measure.SCAN_EXAMPLES, WeatherCommand),
    (shoot.shoot, shoot.EXAMPLES, WeatherCommand),
    (run.run, run.EXAMPLES, Command),
    (campaign.campaign, campaign.EXAMPLES, Command),
    (campaign.search, campaign.SEARCH_EXAMPLES, Command),
    (run.verify, run.VERIFY_EXAMPLES, Command),
    (stream.stream, stream.EXAMPLES, stream.StreamCommand),
    (serve.serve, serve.EXAMPLES, Command),
    (view.view, view.EXAMPLES, WeatherCommand),
    (weather.weather, weather.EXAMPLES, WeatherCommand),
    (calibrate.calibrate, calibrate.EXAMPLES, Command),
    (calibrate.identify, calibrate.IDENTIFY_EXAMPLES, Command),
    (rebuild.rebuild, rebuild.EXAMPLES, Command),
    (convert.convert, convert.EXAMPLES, Command),
    (localise.map_, localise.MAP_EXAMPLES, Command),
    (catalogue.sensors, catalogue.SENSORS_EXAMPLES, Command),
    (catalogue.worlds, catalogue.WORLDS_EXAMPLES, Command),
    (catalogue.materials, catalogue.MATERIALS_EXAMPLES, Command),
    (catalogue.dossier, catalogue.DOSSIER_EXAMPLES, Command),
    (starters.examples, starters.EXAMPLES_EXAMPLES, Command),
    (starters.new, starters.NEW_EXAMPLES, Command),
    (starters.schema, starters.SCHEMA_EXAMPLES, Command),
    (doctor.doctor, doctor.EXAMPLES, Command),
)
for _function, _examples, _kind in _COMMANDS:
    app.command(_function.__name__.rstrip("_"), cls=_kind, epilog=examples(*_examples))(_function)

app.add_typer(
    evaluate.app,
    name="evaluate",
    help="Score clouds against clouds, realism, detections against labels, odometry, localisation.",
)
app.add_typer(detector.train, name="train", help="Train a detector on simulated scans.")
