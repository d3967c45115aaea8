"""`parhelion measure`: frames or samples of any sensor, as a file and a picture."""

from __future__ import annotations

import inspect
import time as clock
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import screen
from parhelion.cli.clouds import check_file, make_folder, tell_older
from parhelion.cli.engine import start_engine
from parhelion.cli.scan import load_world, parse_pose
from parhelion.cli.weather_options import WeatherCommand, WeatherOptions, in_words, weather_options

if TYPE_CHECKING:
    from parhelion import Pose, World
    from parhelion.core.records import Record
    from parhelion.sensors.kinds import SensorKind

EXAMPLES = (
    "parhelion measure --world city --sensor ti/iwr6843 -o radar.npz --png radar.png",
    "parhelion measure --world city --sensor bosch/bmi160 --duration 20 -o imu.csv",
    "parhelion measure --world city --sensor u-blox/f9p --duration 60 --set latitude_deg=48.1 --png gnss.png",
    "parhelion measure --world warehouse --sensor qorvo/dw1000 --duration 5 -o ranges.csv",
    "parhelion measure --world city --sensor ouster/os1-128 --rain 25 -o scan.pcd --png scan.png",
)
COMMAND = WeatherCommand
DEFAULT_DURATION_S = 10.0
MOST_COLUMNS = 20
"""Columns of a record that the summary lists."""


@weather_options
def measure(
    world: Annotated[str, typer.Option("--world", "-w", help="Built-in world, world file (.yaml) or mesh file.")],
    sensor: Annotated[
        str, typer.Option("--sensor", "-s", help="Preset of any kind, such as ti/iwr6843, or a YAML file.")
    ],
    pose: Annotated[
        str | None,
        typer.Option(metavar="X,Y,Z[,R,P,Y]", help="Where the sensor stands, in m; roll, pitch, yaw in degrees."),
    ] = None,
    time: Annotated[float, typer.Option(help="Start on the world's clock, in s.")] = 0.0,
    duration: Annotated[
        float | None,
        typer.Option(help=f"Length of the run in s, for sensors that sample; {DEFAULT_DURATION_S:g} by default."),
    ] = None,
    frames: Annotated[
        int, typer.Option(min=1, help="Frames in a row, for sensors that measure frames; OUT is a folder then.")
    ] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    noise: Annotated[bool, typer.Option("--noise/--no-noise", help="With or without measurement noise.")] = True,
    rate: Annotated[float | None, typer.Option(help="Frames or samples per second, if the sensor offers it.")] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Option of this kind of sensor, as in Python; repeatable."),
    ] = None,
    material: Annotated[str | None, typer.Option(help="Material of a mesh file that names none.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File: .npz for any sensor; .csv, .pcd, .png and others by kind."),
    ] = None,
    format: Annotated[str | None, typer.Option(help="Format, if the file's ending does not name it.")] = None,
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
        raise typer.BadParameter(f"{sensor} ({kind.name}) measures samples; give --duration", param_hint="--frames")
    if kind.output == "frames" and duration is not None:
        raise typer.BadParameter(f"{sensor} ({kind.name}) measures frames; give --frames", param_hint="--duration")
    files = None if output is None else _Files(kind, output, format, several=frames > 1)
    if png is not None:
        from parhelion.pictures.style import check_picture

        check_file(check_picture(png))
    device = kind.sensor(sensor, rate_hz=rate, noise=noise, **_parsed(kind, options or []))
    scene = load_world(world, material)
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
        screen.say(f"wrote {png}")


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
    """Samples of a run at `place`, along the path of the world or at its viewpoint, and the wall time [s]."""
    before = clock.perf_counter()
    motion = place or world.path or world.viewpoint
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
            raise unknown_name(f"option of a {kind.name}", name, known)
        try:
            found[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise typer.BadParameter(f"{name}: cannot read the value {value!r}", param_hint="--set") from None
    return found


class _Files:
    """Where records go: one file, or a folder of numbered files. Checked before any work is done."""

    def __init__(self, kind: SensorKind, path: Path, format: str | None, *, several: bool) -> None:
        from parhelion.io.records import ending_of

        self.path, self.format = path, format
        self.ending = ending_of(kind.record_type, None if several else path, format)
        self.numbered = several
        self.written: list[Path] = []
        if several:
            if path.is_file():
                raise typer.BadParameter(f"{path} is one file; several frames need a folder", param_hint="-o")
            make_folder(path)
        else:
            check_file(path)

    def write(self, record: Record, number: int) -> None:
        file = self.path / f"{number:06d}{self.ending}" if self.numbered else self.path
        record.save(file, format=self.format)
        self.written.append(file)

    def finish(self) -> None:
        if self.numbered:
            tell_older(self.path, self.written, self.ending)
        screen.say(f"wrote {self.path}" + (f" ({len(self.written)} files)" if self.numbered else ""))


def _print(kind: SensorKind, sensor: Any, world: World, record: Record, times: list[float]) -> None:
    """What was measured: the record in one line, and the span of each of its columns."""
    rows = [("kind", kind.summary), ("record", repr(record)[1:-1])]
    if world.weather is not None:
        rows.append(("weather", in_words(world.weather)))
    frames = f"{len(times)} frames, " if len(times) > 1 else ""
    rows.append(("time", f"{frames}{sum(times):.2f} s, scene set-up included"))
    screen.facts(f"{sensor.model} in {world.name or 'the world'}", rows)
    table = _spans(record)
    if table:
        headings = ("field", "unit", "smallest", "mean", "largest")
        screen.table("", headings, table[:MOST_COLUMNS], numbers=headings[2:])
    if len(table) > MOST_COLUMNS:
        screen.say(f"and {len(table) - MOST_COLUMNS} further columns")


def _spans(record: Record) -> list[tuple[str, ...]]:
    """Smallest, mean and largest finite value of each column of numbers."""
    import numpy as np

    rows = []
    for name, unit, values in record.table():
        if values.dtype.kind in "iuf":
            finite = values[np.isfinite(values)].astype(np.float64)
            span = [f"{one:.6g}" for one in (finite.min(), finite.mean(), finite.max())] if finite.size else ["-"] * 3
            rows.append((name, unit, *span))
    return rows
