"""`parhelion measure`: frames or samples of any sensor, as a file and a picture."""

from __future__ import annotations

import inspect
import time as clock
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import screen
from parhelion.cli.recordings import CloudFiles, check_file, make_folder, warn_leftovers
from parhelion.cli.screen import start_engine
from parhelion.cli.weather_options import (
    IN_THE_AIR,
    WeatherOptions,
    add_counts,
    air_counts,
    in_words,
    lost_words,
    shares,
    validity_rows,
    weather_options,
)

if TYPE_CHECKING:
    from parhelion import Lidar, PointCloud, Pose, Scan, World
    from parhelion.cli.summary import Tally
    from parhelion.core.records import Record
    from parhelion.pictures.weather import Changes
    from parhelion.sensors.kinds import SensorKind

# ---- `parhelion scan`: one scan, or several in a row ----------------------------------------------------------------


SCAN_EXAMPLES = (
    "parhelion scan --world city --sensor ouster/os1-128 -o scan.pcd --png scan.png",
    "parhelion scan --world harbour --sensor velodyne/vlp-16 --pose 0,0,3,0,0,90 --returns dual -o scan.ply",
    "parhelion scan --world city --sensor livox/mid-360 --scans 50 --frame world -o drive/ --format laz",
    "parhelion scan --world hall.obj --material concrete --sensor my-lidar.yaml --no-noise -o hall.npz",
    "parhelion scan --world city --sensor velodyne/vlp-16 --rain 25 --visibility 800 --png rain.png",
)


class Returns(str, Enum):
    """Reported echoes of a shot."""

    first = "first"
    strongest = "strongest"
    last = "last"
    dual = "dual"
    all = "all"


class Sampling(str, Enum):
    """Sampling of the beam footprint."""

    adaptive = "adaptive"
    fixed = "fixed"


class Frame(str, Enum):
    """Coordinate frame of the written points."""

    sensor = "sensor"
    world = "world"
    deskewed = "deskewed"


UpOption = Annotated[str | None, typer.Option(metavar="y|z", help="Axis of a model file that points up.")]
ScaleOption = Annotated[float | None, typer.Option(help="Factor on a model file, such as 0.001 for millimetres.")]
ParamOption = Annotated[
    list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="Parameter of the world; repeatable.")
]


@weather_options
def scan(
    world: Annotated[str, typer.Option("--world", "-w", help="Built-in world, world file (.yaml) or mesh file.")],
    sensor: Annotated[str, typer.Option("--sensor", "-s", help="Preset, such as ouster/os1-128, or a YAML file.")],
    pose: Annotated[
        str | None, typer.Option(metavar="X,Y,Z[,R,P,Y]", help="Sensor position in m; roll, pitch, yaw in degrees.")
    ] = None,
    time: Annotated[float, typer.Option(help="Start time in s.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    scans: Annotated[
        int, typer.Option(min=1, help="Number of consecutive scans, along the path of the world or at --pose.")
    ] = 1,
    returns: Annotated[Returns | None, typer.Option(help="Echoes to report; by default the sensor's own.")] = None,
    sub_rays: Annotated[int | None, typer.Option(help="Rays that sample each footprint, 1 to 1024.")] = None,
    sampling: Annotated[Sampling, typer.Option(help="Trace sub-rays where needed, or all.")] = Sampling.adaptive,
    noise: Annotated[bool, typer.Option("--noise/--no-noise", help="With or without measurement noise.")] = True,
    rate: Annotated[float | None, typer.Option(help="Scan rate in Hz, one that the sensor offers.")] = None,
    columns: Annotated[int | None, typer.Option(help="Columns per revolution, one that the sensor offers.")] = None,
    keep_lost: Annotated[bool, typer.Option("--keep-lost", help="Also write shots without a return, as NaN.")] = False,
    frame: Annotated[Frame, typer.Option(help="Frame of the points written.")] = Frame.sensor,
    material: Annotated[str | None, typer.Option(help="Material of a mesh file that names none.")] = None,
    up: UpOption = None,
    scale: ScaleOption = None,
    param: ParamOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File (.pcd .ply .las .laz .bin .csv .npz .pcap) or folder.")
    ] = None,
    format: Annotated[str | None, typer.Option(help="Format, if the file extension does not select it.")] = None,
    png: Annotated[
        Path | None, typer.Option(help="Picture of range, intensity and top view; with weather, also NAME-weather.png.")
    ] = None,
    *,
    weather: WeatherOptions,
) -> None:
    """Scan a world with a lidar, write the points, and print a summary."""
    if keep_lost and frame is not Frame.sensor:
        raise typer.BadParameter(
            "lost shots have no coordinates; use it with --frame sensor only", param_hint="--keep-lost"
        )

    place = parse_pose(pose)
    files = None if output is None else CloudFiles.at(output, format, several=scans > 1)
    if files is not None and files.format == "pcap" and (keep_lost or frame is not Frame.sensor):
        raise typer.BadParameter("captures always hold all shots in the sensor frame; omit it", param_hint="--frame")
    if png is not None:
        from parhelion.pictures.style import check_picture

        check_file(check_picture(png))
    lidar = _lidar(sensor, returns, sub_rays, sampling, noise, rate, columns)
    if lidar.not_offered:
        screen.warn(f"--returns: {lidar.not_offered}")
    scene = load_world(world, material, up, scale, param)
    scene.weather = weather.weather(scene.weather)
    start_engine()
    from parhelion.cli.summary import Tally

    tally = Tally()
    view = _View(png, several=scans > 1)
    in_air: dict[str, int] = {}
    with screen.progress("scanning", scans) as advance:
        for number, (shot, seconds) in enumerate(frames_of(lidar, scene, place, time, scans, seed)):
            tally.add(shot, seconds)
            add_counts(in_air, air_counts(shot))
            if files is not None:
                files.write(_as_asked(shot, frame, keep_lost), number)
            view.add(shot)
            advance()
    view.draw()
    changes = view.draw_weather(scene, lidar, seed)
    _print_scan(scene, lidar, tally, in_air, changes, several=scans > 1)
    _print_files(files, view.written)


def parse_pose(text: str | None) -> Pose | None:
    """Parse `X,Y,Z` or `X,Y,Z,ROLL,PITCH,YAW` [m, degrees]."""
    if text is None:
        return None
    from parhelion import Pose

    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"expected numbers X,Y,Z[,ROLL,PITCH,YAW], got {text!r}", param_hint="--pose"
        ) from None
    if len(numbers) not in (3, 6):
        raise typer.BadParameter(f"expected 3 or 6 numbers, got {len(numbers)}", param_hint="--pose")
    return Pose(numbers[:3], rpy_deg=numbers[3:] or None)


def load_world(
    name: str,
    material: str | None = None,
    up: str | None = None,
    scale: float | None = None,
    param: list[str] | None = None,
) -> World:
    """Load a world by name or path; `material`, `up` and `scale` apply to model files."""
    from parhelion import World

    given: dict[str, Any] = {"material": material, "up": up, "scale": scale}
    return World.load(name, **parse_params(param or []), **{key: one for key, one in given.items() if one is not None})


def parse_params(entries: list[str]) -> dict[str, Any]:
    """Parse NAME=VALUE; values are written as in YAML: a number, true, a word, or a list such as [60, 40]."""
    import yaml

    params = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"must be NAME=VALUE, such as blocks=2, got {entry!r}", param_hint="--param")
        if key.strip() in ("material", "up", "scale"):
            raise typer.BadParameter(f"use --{key.strip()}", param_hint="--param")
        try:
            params[key.strip()] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise typer.BadParameter(f"cannot be read: {entry!r}", param_hint="--param") from None
    return params


def _lidar(
    sensor: str,
    returns: Returns | None,
    sub_rays: int | None,
    sampling: Sampling,
    noise: bool,
    rate: float | None,
    columns: int | None,
) -> Lidar:
    from parhelion import Lidar

    return Lidar(
        sensor,
        rate_hz=rate,
        columns=columns,
        returns=None if returns is None else returns.value,
        sub_rays=sub_rays,
        sampling=sampling.value,
        noise=noise,
    )


def _as_asked(scan: Scan, frame: Frame, keep_lost: bool) -> PointCloud:
    if frame is Frame.world:
        return scan.in_world()
    if frame is Frame.deskewed:
        return scan.deskewed()
    return scan.with_lost_shots() if keep_lost else scan


class _View:
    """Pictures of --png: of one scan or of all scans, and of the effect of the weather on the last one."""

    def __init__(self, path: Path | None, *, several: bool) -> None:
        self.path, self.several = path, several
        self.written: list[Path] = []
        self._scan: Scan | None = None
        self._drive: Any = None

    def add(self, scan: Scan) -> None:
        if self.path is None:
            return
        self._scan = _air_named(scan)
        if self.several:
            from parhelion.pictures import DrivePoints

            self._drive = self._drive or DrivePoints()
            self._drive.add(self._scan)

    def draw(self) -> None:
        if self.path is None or self._scan is None:
            return
        from parhelion.pictures import draw_scan

        if self._drive is not None:
            self._drive.draw(self.path)
        else:
            draw_scan(self._scan, self.path)
        self.written.append(self.path)

    def draw_weather(self, world: World, lidar: Lidar, seed: int) -> Changes | None:
        """Compare the last scan with the same one in clear air."""
        weather, scan = world.weather, self._scan
        if self.path is None or scan is None or weather is None or weather.is_clear():
            return None
        from parhelion.pictures.scan import scan_title
        from parhelion.pictures.weather import draw_weather

        world.weather = None
        clear = lidar.scan(world, trajectory=scan.motion, time=scan.start_time, seed=seed)
        world.weather = weather
        file = self.path.with_name(f"{self.path.stem}-weather{self.path.suffix}")
        changes = draw_weather(clear, scan, file, f"{scan_title(scan)}  ·  {in_words(weather)}")
        self.written.append(file)
        return changes


def _air_named(scan: Scan) -> Scan:
    """Scan in which echoes of the air, which belong to no labelled object, have a label name."""
    from dataclasses import replace

    labels = {0: IN_THE_AIR, **scan.names.get("label", {})}
    return replace(scan, names={**scan.names, "label": labels}) if air_counts(scan) else scan


def _print_scan(
    world: World, lidar: Lidar, tally: Tally, in_air: dict[str, int], changes: Changes | None, several: bool
) -> None:
    from parhelion.sensors.optics.lidar.validity import validity_in

    title = f"{lidar.config.name} in {world.name or 'the world'}"
    rows = tally.rows()
    if world.weather is not None:
        rows += [("weather", in_words(world.weather)), ("from the air", shares(in_air, tally.points))]
        rows += validity_rows({lidar.model: validity_in(lidar, world.weather)})
        tally.names.setdefault(0, IN_THE_AIR)
    if changes is not None:
        rows.append(("lost to it", lost_words(changes) + (", in the last scan" if several else "")))
    screen.facts(title, rows)
    if tally.points:
        labels = [(word, screen.count(points), screen.percent(share)) for word, points, share in tally.label_shares]
        screen.table("", ("label", "points", "share"), labels, numbers=("points", "share"))
    else:
        screen.print_line("no shot returned: nothing is within the range and field of view of the sensor at this pose")


def _print_files(files: CloudFiles | None, pictures: list[Path]) -> None:
    if files is not None:
        files.finish()
        number = f" ({len(files.written)} files)" if files.numbered else ""
        screen.print_line(f"wrote {files.path}{number}")
    for file in pictures:
        screen.print_line(f"wrote {file}")


# ---- measure --------------------------------------------------------------------------------------------------------


EXAMPLES = (
    "parhelion measure --world city --sensor ti/iwr6843 -o radar.npz --png radar.png",
    "parhelion measure --world city --sensor bosch/bmi160 --duration 20 -o imu.csv",
    "parhelion measure --world city --sensor u-blox/f9p --duration 60 --set latitude_deg=48.1 --png gnss.png",
    "parhelion measure --world warehouse --sensor qorvo/dw1000 --duration 5 -o ranges.csv",
    "parhelion measure --world city --sensor ouster/os1-128 --rain 25 -o scan.pcd --png scan.png",
)
DEFAULT_DURATION_S = 10.0
MOST_COLUMNS = 20
"""Maximum number of columns listed in the summary."""


@weather_options
def measure(
    world: Annotated[str, typer.Option("--world", "-w", help="Built-in world, world file (.yaml) or mesh file.")],
    sensor: Annotated[
        str, typer.Option("--sensor", "-s", help="Preset of any kind, such as ti/iwr6843, or a YAML file.")
    ],
    pose: Annotated[
        str | None, typer.Option(metavar="X,Y,Z[,R,P,Y]", help="Sensor position in m; roll, pitch, yaw in degrees.")
    ] = None,
    time: Annotated[float, typer.Option(help="Start time in s.")] = 0.0,
    duration: Annotated[
        float | None,
        typer.Option(help=f"Duration in s, for sensors that produce samples. Default: {DEFAULT_DURATION_S:g}."),
    ] = None,
    frames: Annotated[
        int,
        typer.Option(
            min=1, help="Number of consecutive frames, for sensors that produce frames; OUT is then a folder."
        ),
    ] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    noise: Annotated[bool, typer.Option("--noise/--no-noise", help="With or without measurement noise.")] = True,
    rate: Annotated[float | None, typer.Option(help="Frames or samples per second, if the sensor offers it.")] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Option of this kind of sensor, as in Python; repeatable."),
    ] = None,
    material: Annotated[str | None, typer.Option(help="Material of a mesh file that names none.")] = None,
    up: UpOption = None,
    scale: ScaleOption = None,
    param: ParamOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File: .npz for any sensor; .csv, .pcd, .png and others by kind."),
    ] = None,
    format: Annotated[str | None, typer.Option(help="Format, if the file extension does not select it.")] = None,
    png: Annotated[Path | None, typer.Option(help="Picture of the last frame, or of all samples.")] = None,
    *,
    weather: WeatherOptions,
) -> None:
    """Measure with a sensor of any kind, write the record, and print a summary.

    The sensor stands at --pose. Without it, samples and several frames follow the path of the world; a single frame, or
    a sensor in a world without a path, stands at the viewpoint of the world.
    """
    from parhelion.sensors.kinds import find_kind

    place = parse_pose(pose)
    kind = find_kind(sensor)
    if kind.output == "samples" and frames > 1:
        raise typer.BadParameter(f"{sensor} ({kind.name}) produces samples; give --duration", param_hint="--frames")
    if kind.output == "frames" and duration is not None:
        raise typer.BadParameter(f"{sensor} ({kind.name}) produces frames; give --frames", param_hint="--duration")
    files = None if output is None else OutputFiles(kind.record_type, output, format, several=frames > 1)
    if png is not None:
        from parhelion.pictures.style import check_picture

        check_file(check_picture(png))
    device = kind.sensor(sensor, rate_hz=rate, noise=noise, **_parsed(kind, options or []))
    scene = load_world(world, material, up, scale, param)
    scene.weather = weather.weather(scene.weather)
    start_engine()
    if kind.output == "samples":
        length = DEFAULT_DURATION_S if duration is None else duration
        found: Iterator[tuple[Any, float]] = iter([samples_of(device, scene, place, time, length, seed)])
    else:
        found = frames_of(device, scene, place, time, frames, seed)
    times = []
    with screen.progress("measuring", frames) as advance:
        for number, (record, seconds) in enumerate(found):
            times.append(seconds)
            if files is not None:
                files.write(record, number)
            advance()
    _print(kind, device, scene, record, times)
    if files is not None:
        files.finish()
    if png is not None:
        record.plot(png)
        screen.print_line(f"wrote {png}")


def frames_of(
    sensor: Any, world: World, place: Pose | None, start: float, frames: int, seed: int
) -> Iterator[tuple[Any, float]]:
    """Frames one after the other at the sensor's rate, each with its wall time [s].

    The sensor stands at `place`. Without one, several frames follow the path of the world, if it has one; a single
    frame stands at the viewpoint of the world.
    """
    trajectory = world.path if place is None and frames > 1 else None
    for number in range(frames):
        before = clock.perf_counter()
        at = start + number / sensor.rate_hz
        if trajectory is not None:
            record = sensor.measure(world, trajectory=trajectory, time=at, seed=seed)
        else:
            record = sensor.measure(world, pose=place, time=at, seed=seed)
        yield record, clock.perf_counter() - before


def samples_of(
    sensor: Any, world: World, place: Pose | None, start: float, duration: float, seed: int
) -> tuple[Any, float]:
    """Samples of a run at `place`, along the path of the world or at its viewpoint, and the wall time [s].

    The path is smoothed: corners between its waypoints would be infinite accelerations to an inertial sensor.
    """
    from parhelion import SplineMotion, Waypoints

    before = clock.perf_counter()
    motion: Any = place or world.path or world.viewpoint
    if isinstance(motion, Waypoints) and len(motion.times) > 1:
        motion = SplineMotion(
            motion.xyz, times=motion.times, facing=motion.quat_xyzw, start_at_rest=False, stop_at_rest=False
        )
    return sensor.run(world, motion, start, duration, seed), clock.perf_counter() - before


def _parsed(kind: SensorKind, options: list[str]) -> dict[str, Any]:
    """Options of the sensor's constructor from `NAME=VALUE`; values are written as in YAML."""
    import yaml

    from parhelion.core.errors import unknown_name

    known = {
        name: one
        for name, one in inspect.signature(kind.sensor).parameters.items()
        if name not in ("model", "self", "rate_hz", "noise")
    }
    found: dict[str, Any] = {}
    for text in options:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"expected NAME=VALUE, got {text!r}", param_hint="--set")
        if name not in known:
            raise unknown_name(f"option of the kind {kind.name!r}", name, known)
        try:
            found[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise typer.BadParameter(f"{name}: cannot read the value {value!r}", param_hint="--set") from None
    return found


class OutputFiles:
    """Output file, or folder of numbered files; checked before any work is done."""

    def __init__(self, kind: type[Record], path: Path, format: str | None, *, several: bool) -> None:
        from parhelion.io.records import ending_of

        self.path, self.format = path, format
        self.ending = ending_of(kind, None if several else path, format)
        self.numbered = several
        self.written: list[Path] = []
        if several:
            if path.is_file():
                raise typer.BadParameter(f"{path} is one file; several frames need a folder", param_hint="-o")
            make_folder(path)
        else:
            check_file(path)

    def write(self, record: Record, number: int = 0) -> None:
        """Write one record."""
        file = self.path / f"{number:06d}{self.ending}" if self.numbered else self.path
        record.save(file, format=self.format)
        self.written.append(file)

    def finish(self) -> None:
        """Report the written files, and older files next to them."""
        if self.numbered:
            warn_leftovers(self.path, self.written, self.ending)
        screen.print_line(f"wrote {self.path}" + (f" ({len(self.written)} files)" if self.numbered else ""))


def _print(kind: SensorKind, sensor: Any, world: World, record: Record, times: list[float]) -> None:
    """Print the record in one line and the range of each column."""
    from parhelion.sensors.optics.lidar.validity import validity_in

    rows = [("kind", kind.summary), ("record", repr(record)[1:-1])]
    if world.weather is not None:
        rows.append(("weather", in_words(world.weather)))
        rows += validity_rows({sensor.model: validity_in(sensor, world.weather)})
    frames = f"{len(times)} frames, " if len(times) > 1 else ""
    rows.append(("time", f"{frames}{sum(times):.2f} s, scene set-up included"))
    screen.facts(f"{sensor.model} in {world.name or 'the world'}", rows)
    table = _spans(record)
    if table:
        headings = ("field", "unit", "smallest", "mean", "largest")
        screen.table("", headings, table[:MOST_COLUMNS], numbers=headings[2:])
    if len(table) > MOST_COLUMNS:
        screen.print_line(f"and {len(table) - MOST_COLUMNS} further columns")


def _spans(record: Record) -> list[tuple[str, ...]]:
    """Smallest, mean and largest finite value of each column of numbers, or of each array of a record without rows."""
    import numpy as np

    table = {one.name: one.values for one in record.table()}
    if "smallest" in table:
        numbers = zip(*(table[name] for name in ("smallest", "mean", "largest")), strict=True)
        spans = [[f"{one:.6g}" for one in row] for row in numbers]
        return [(name, unit, *span) for name, unit, span in zip(table["field"], table["unit"], spans, strict=True)]
    rows = []
    for name, unit, values in record.table():
        if values.dtype.kind in "iuf":
            finite = values[np.isfinite(values)].astype(np.float64)
            span = [f"{one:.6g}" for one in (finite.min(), finite.mean(), finite.max())] if finite.size else ["-"] * 3
            rows.append((name, unit, *span))
    return rows
