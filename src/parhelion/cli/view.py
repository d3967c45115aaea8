"""`parhelion view`: a world, a scenario, a finished run or a recording in the browser, or two of them side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import screen
from parhelion.cli.measure import ParamOption, ScaleOption, UpOption, load_world, parse_params, parse_pose
from parhelion.cli.screen import start_engine, stop_if_interrupted, warn
from parhelion.cli.weather_options import (
    WeatherOptions,
    weather_options,
)
from parhelion.core.errors import ConfigError

if TYPE_CHECKING:
    from parhelion.live.viewer.gizmos import MakeDocument
    from parhelion.live.viewer.recordings import RecordingStage
    from parhelion.live.viewer.stages import ViewSource

DEFAULT_WORLD, DEFAULT_SENSOR = "city", "ouster/os1-128"

EXAMPLES = (
    "parhelion view                                   # the city, seen by an OS1-128",
    "parhelion view scenario.yaml",
    "parhelion view --world harbour --sensor velodyne/vlp-16 --rain 25",
    "parhelion view --world hall.obj --material concrete --sensor my-lidar.yaml --pose 0,0,1.5",
    "parhelion view out/                              # a finished run: clouds, images, boxes, trajectories",
    "parhelion view drive.mcap --sensor velodyne/vlp-16   # a bag; the sensor enables the weather sliders",
    "parhelion view drive.pcap --rain 25              # a capture of a real sensor, in rain",
    "parhelion view clouds/                           # a folder of clouds, or one: scan.pcd",
    "parhelion view dry/ wet/                         # two of anything side by side, with one clock and camera",
)


@weather_options
def view(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[SOURCE [SOURCE]]",
            help="World or scenario (.yaml), folder of a run, ROS 2 bag, cloud (.pcd .ply ...), folder of clouds or "
            "capture (.pcap). Two are shown side by side.",
        ),
    ] = None,
    world: Annotated[
        str | None, typer.Option("--world", "-w", help="Built-in world, world file (.yaml) or mesh file.")
    ] = None,
    sensor: Annotated[
        str | None,
        typer.Option(
            "--sensor", "-s", help="Preset, such as ouster/os1-128, or a YAML file; of a recording: its sensor."
        ),
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
    topic: Annotated[str | None, typer.Option(help="Topic of the clouds of a bag; by default all are shown.")] = None,
    format: Annotated[str | None, typer.Option(help="Format of a cloud, if the extension does not select it.")] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to bind to. By default only this machine can open the page.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; 0 selects any free port.")] = 8080,
    browser: Annotated[bool, typer.Option("--browser", help="Open the page in the default browser.")] = False,
    *,
    weather: WeatherOptions,
) -> None:
    """View a world through a lidar, a scenario, a finished run or a recording in the browser, with weather sliders.

    Two sources are shown side by side, with a common clock and camera. The page is served to this machine only,
    requires no network, and stays open until Ctrl-C.
    """
    from parhelion.live.viewer.pair import Pair
    from parhelion.live.viewer.server import LOOPBACK, Viewer, check_port
    from parhelion.live.web import is_loopback

    address = LOOPBACK if host is None else host
    check_port(address, port)
    if not is_loopback(address):
        warn(f"--host {address}: everyone who can reach this machine can view and control the page")
    if len(sources or ()) > 2:
        raise typer.BadParameter("give one source, or two to compare", param_hint="SOURCE")
    scene = _Options(sensor, pose, time, seed, material, up, scale, param, format, topic)
    if not sources:
        stages = [_world_stage(world or DEFAULT_WORLD, scene, weather)]
    elif world is not None:
        raise typer.BadParameter(f"applies to a world, not to the file {sources[0]}", param_hint="--world")
    else:
        stages = [_stage_of(source, scene, weather) for source in sources]
    edit = (
        None
        if len(stages) == 2
        else _document(sources[0] if sources else Path(world or DEFAULT_WORLD), stages[0], scene)
    )
    names = [str(source) for source in sources or ()]
    same = len(stages) == 2 and stages[0].title == stages[1].title
    title = " | ".join(names if same else [stage.title for stage in stages])
    with (
        Viewer(stages[0], host=address, port=port, colour_by=colour, edit=edit)
        if len(stages) == 1
        else Pair(stages[0], stages[1], host=address, port=port, colour_by=colour, names=(names[0], names[1]))
    ) as viewer:
        screen.print_line(f"{title}: open {viewer.url} in a browser; Ctrl-C ends it")
        if browser:
            import webbrowser

            webbrowser.open(viewer.url)
        try:
            viewer.run(stop_if_interrupted)
        except KeyboardInterrupt:
            screen.print_line("closed")
            raise typer.Exit(130) from None


@dataclass(frozen=True)
class _Options:
    """Options that apply to some sources only."""

    sensor: str | None
    pose: str | None
    time: float
    seed: int | None
    material: str | None
    up: Any
    scale: Any
    param: Any
    format: str | None
    topic: str | None

    def refuse(self, what: str, source: Path, *names: str) -> None:
        """Refuse options that do not apply to a source."""
        for name in names:
            if getattr(self, name) not in (None, []):
                raise typer.BadParameter(f"applies to {what}, not to {source}", param_hint=f"--{name}")


_OF_WORLDS = ("pose", "seed", "material", "up", "scale", "param")
_OF_RECORDINGS = ("topic", "format")


def _world_stage(name: str, options: _Options, weather: WeatherOptions) -> ViewSource:
    from parhelion.live.viewer.stages import WorldStage

    options.refuse("a recording", Path(name), *_OF_RECORDINGS)
    scene = load_world(name, options.material, options.up, options.scale, options.param)
    place = parse_pose(options.pose)
    scene.weather = weather.weather(scene.weather)
    start_engine()
    return WorldStage(scene, options.sensor or DEFAULT_SENSOR, pose=place, time=options.time, seed=options.seed or 0)


def _stage_of(source: Path, options: _Options, weather: WeatherOptions) -> ViewSource:
    """View source of a path: a scenario, a world, a finished run or a recording."""
    from parhelion.live.viewer.recordings import recording_stage
    from parhelion.live.viewer.runs import RunStage, is_run
    from parhelion.live.viewer.stages import scenario_stage

    if _is_scenario(source):
        from parhelion.scenario import Scenario

        options.refuse("a world", source, *_OF_WORLDS)
        options.refuse("a world or a recording", source, "sensor", *_OF_RECORDINGS)
        scenario = Scenario.load(source)
        scenario.world.weather = weather.weather(scenario.world.weather)
        start_engine()
        return scenario_stage(scenario, source.stem, time=options.time)
    if _is_world(source):
        return _world_stage(str(source), options, weather)
    options.refuse("a world", source, *_OF_WORLDS)
    start_engine()
    stage: RecordingStage
    if is_run(source):
        options.refuse("a recording", source, "sensor", *_OF_RECORDINGS)
        stage = RunStage(source)
    else:
        stage = recording_stage(source, read_as=options.format, sensor=options.sensor, topic=options.topic)
    stage.base_weather = weather.weather()
    if stage.base_weather is not None and not stage.media:
        raise ConfigError(f"{source}: weather needs the model of the lidar: give it with --sensor")
    return stage


def _document(source: Path, stage: ViewSource, options: _Options) -> MakeDocument | None:
    """Function that makes the document for edits of a world or a scenario; None for recordings."""
    from parhelion.live.viewer.editing import ScenarioDocument, WorldDocument
    from parhelion.live.viewer.stages import ScenarioStage, WorldStage

    if isinstance(stage, ScenarioStage):
        return lambda: ScenarioDocument.of_file(source)
    if not isinstance(stage, WorldStage) or source.is_dir():
        return None
    given = {"material": options.material, "up": options.up, "scale": options.scale}
    params = parse_params(options.param or []) | {key: one for key, one in given.items() if one is not None}
    return lambda: WorldDocument.of_source(str(source), None, params)


def _is_scenario(source: Path) -> bool:
    """Return whether a path is a YAML file of a scenario; one that cannot be read is reported as such."""
    from parhelion.core.config import read_yaml

    if source.suffix.lower() not in (".yaml", ".yml"):
        return False
    fields = read_yaml(source)
    return not isinstance(fields, dict) or "sensors" in fields or "duration_s" in fields


def _is_world(source: Path) -> bool:
    """Return whether a path is a world: a built-in name, a world file, a mesh, a map or roads."""
    from parhelion.io.recordings import is_capture
    from parhelion.world.builtin import BUILTIN
    from parhelion.world.loaders import MESH_SUFFIXES
    from parhelion.world.sources import source_of

    if not source.exists():
        return str(source) in BUILTIN
    suffix = source.suffix.lower()
    if suffix in (".yaml", ".yml", ".json"):
        return True
    if source.is_dir():  # a rebuilt world, or a recording
        return source_of(source) is not None
    if suffix in (".ply", ".pcd") or is_capture(source):
        return False
    return suffix in MESH_SUFFIXES or suffix in (".sdf", ".world", ".xml") or source_of(source) is not None
