"""`parhelion view`: a world, a scenario or a recorded cloud, live in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import screen
from parhelion.cli.measure import ParamOption, ScaleOption, UpOption, load_world, parse_pose
from parhelion.cli.screen import start_engine, stop_if_interrupted, warn
from parhelion.cli.weather_options import (
    WeatherOptions,
    weather_options,
)

if TYPE_CHECKING:
    from parhelion import World
    from parhelion.live.viewer.stages import ViewSource

DEFAULT_WORLD, DEFAULT_SENSOR = "city", "ouster/os1-128"

EXAMPLES = (
    "parhelion view                                   # the city, seen by an OS1-128",
    "parhelion view scenario.yaml",
    "parhelion view --world harbour --sensor velodyne/vlp-16 --rain 25",
    "parhelion view --world hall.obj --material concrete --sensor my-lidar.yaml --pose 0,0,1.5",
    "parhelion view scan.pcd --colour label",
    "parhelion view drive.pcap                        # a capture of a real sensor, frame by frame",
)


@weather_options
def view(
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="Scenario (.yaml), recorded cloud (.pcd .ply .las ...) or capture (.pcap)."
        ),
    ] = None,
    world: Annotated[
        str | None, typer.Option("--world", "-w", help="Built-in world, world file (.yaml) or mesh file.")
    ] = None,
    sensor: Annotated[
        str | None, typer.Option("--sensor", "-s", help="Preset, such as ouster/os1-128, or a YAML file.")
    ] = None,
    pose: Annotated[
        str | None,
        typer.Option(
            metavar="X,Y,Z[,R,P,Y]",
            help="Sensor position in m; roll, pitch, yaw in degrees. Default: on the path of the world.",
        ),
    ] = None,
    time: Annotated[float, typer.Option(min=0.0, help="Start time in s.")] = 0.0,
    seed: Annotated[int | None, typer.Option(help="Seed of the noise; scenarios define their own.")] = None,
    colour: Annotated[
        str | None, typer.Option("--colour", "--color", help="Field that colours the points, such as label.")
    ] = None,
    material: Annotated[str | None, typer.Option(help="Material of a mesh file that names none.")] = None,
    up: UpOption = None,
    scale: ScaleOption = None,
    param: ParamOption = None,
    format: Annotated[str | None, typer.Option(help="Format of a cloud, if the extension does not select it.")] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to bind to. By default only this machine can open the page.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; 0 selects any free port.")] = 8080,
    browser: Annotated[bool, typer.Option("--browser", help="Open the page in the default browser.")] = False,
    *,
    weather: WeatherOptions,
) -> None:
    """View a world through a lidar in the browser, with weather sliders; or view a recorded cloud or capture.

    The page is served to this machine only, requires no network, and stays open until Ctrl-C.
    """
    from parhelion.io.recordings import is_capture
    from parhelion.live.viewer.server import LOOPBACK, Viewer, check_port
    from parhelion.live.web import is_loopback

    address = LOOPBACK if host is None else host
    check_port(address, port)
    if not is_loopback(address):
        warn(f"--host {address}: everyone who can reach this machine can view and control the page")
    stage: ViewSource
    if source is None:
        stage = _world_stage(
            load_world(world or DEFAULT_WORLD, material, up, scale, param), sensor, pose, time, seed or 0, weather
        )
    else:
        of_capture = is_capture(source, format)  # the sensor may be given
        given: dict[str, Any] = {"--world": world, "--pose": pose, "--seed": seed, "--material": material}
        given |= {"--up": up, "--scale": scale, "--param": param}
        given |= {} if of_capture else {"--sensor": sensor}
        for option, value in given.items():
            if value is not None:
                raise typer.BadParameter(f"applies to a world, not to the file {source}", param_hint=option)
        stage = _file_stage(source, format, time, weather, sensor if of_capture else None)
    with Viewer(stage, host=address, port=port, colour_by=colour) as viewer:
        screen.print_line(f"{stage.title}: open {viewer.url} in a browser; Ctrl-C ends it")
        if browser:
            import webbrowser

            webbrowser.open(viewer.url)
        try:
            viewer.run(stop_if_interrupted)
        except KeyboardInterrupt:
            screen.print_line("closed")
            raise typer.Exit(130) from None


def _world_stage(
    scene: World,
    sensor: str | None,
    pose: str | None,
    time: float,
    seed: int,
    weather: WeatherOptions,
) -> ViewSource:
    from parhelion.live.viewer.stages import WorldStage

    place = parse_pose(pose)
    scene.weather = weather.weather(scene.weather)
    start_engine()
    return WorldStage(scene, sensor or DEFAULT_SENSOR, pose=place, time=time, seed=seed)


def _file_stage(
    source: Path, format: str | None, time: float, weather: WeatherOptions, sensor: str | None = None
) -> ViewSource:
    """View source of a file: a scenario (YAML), the frames of a capture, or a cloud."""
    from parhelion.live.viewer.stages import CloudStage, FramesStage, scenario_stage

    if source.suffix.lower() in (".yaml", ".yml"):
        from parhelion.scenario import Scenario

        scenario = Scenario.load(source)
        scenario.world.weather = weather.weather(scenario.world.weather)
        start_engine()
        return scenario_stage(scenario, source.stem, time=time)
    from parhelion import PointCloud
    from parhelion.io.recordings import is_capture

    if weather:
        raise typer.BadParameter(f"recorded clouds are shown unmodified; use 'parhelion weather {source}'")
    if is_capture(source, format):
        return FramesStage(source, sensor=sensor)
    return CloudStage(PointCloud.load(source, format=format), source.name)
