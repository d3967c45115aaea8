"""`parhelion scan`: one scan, or several in a row."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parhelion.cli import screen
from parhelion.cli.clouds import CloudFiles, check_file
from parhelion.cli.engine import start_engine

if TYPE_CHECKING:
    from parhelion import Lidar, PointCloud, Pose, Scan, World
    from parhelion.cli.summary import Tally

EXAMPLES = (
    "parhelion scan --world city --sensor ouster/os1-128 -o scan.pcd --png scan.png",
    "parhelion scan --world harbour --sensor velodyne/vlp-16 --pose 0,0,3,0,0,90 --returns dual -o scan.ply",
    "parhelion scan --world city --sensor livox/mid-360 --scans 50 --frame world -o drive/ --format laz",
    "parhelion scan --world hall.obj --material concrete --sensor my-lidar.yaml --no-noise -o hall.npz",
)


class Returns(str, Enum):
    """Which echoes of a shot are reported."""

    first = "first"
    strongest = "strongest"
    last = "last"
    dual = "dual"
    all = "all"


class Sampling(str, Enum):
    """How the footprint of a beam is sampled."""

    adaptive = "adaptive"
    fixed = "fixed"


class Frame(str, Enum):
    """The frame that points are written in."""

    sensor = "sensor"
    world = "world"
    deskewed = "deskewed"


def scan(
    world: Annotated[str, typer.Option("--world", "-w", help="Built-in world, world file (.yaml) or mesh file.")],
    sensor: Annotated[str, typer.Option("--sensor", "-s", help="Preset, such as ouster/os1-128, or a YAML file.")],
    pose: Annotated[
        str | None,
        typer.Option(metavar="X,Y,Z[,R,P,Y]", help="Where the sensor stands, in m; roll, pitch, yaw in degrees."),
    ] = None,
    time: Annotated[float, typer.Option(help="Start on the world's clock, in s.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    scans: Annotated[
        int, typer.Option(min=1, help="Scans in a row: along the world's path, or standing at --pose.")
    ] = 1,
    returns: Annotated[Returns | None, typer.Option(help="Echoes to report; by default the sensor's own.")] = None,
    sub_rays: Annotated[int | None, typer.Option(help="Rays that sample each footprint, 1 to 1024.")] = None,
    sampling: Annotated[Sampling, typer.Option(help="Trace sub-rays where needed, or all.")] = Sampling.adaptive,
    noise: Annotated[bool, typer.Option("--noise/--no-noise", help="With or without measurement noise.")] = True,
    rate: Annotated[float | None, typer.Option(help="Scans a second, of those the sensor offers.")] = None,
    columns: Annotated[int | None, typer.Option(help="Columns a turn, of those the sensor offers.")] = None,
    keep_lost: Annotated[bool, typer.Option("--keep-lost", help="Write shots without return too, as NaN.")] = False,
    frame: Annotated[Frame, typer.Option(help="Frame of the points written.")] = Frame.sensor,
    material: Annotated[str | None, typer.Option(help="Material of a mesh file that names none.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File (.pcd .ply .las .laz .bin .csv .npz) or folder.")
    ] = None,
    format: Annotated[str | None, typer.Option(help="Format, where the file's ending does not say it.")] = None,
    png: Annotated[Path | None, typer.Option(help="Picture: range, intensity and the view from above.")] = None,
) -> None:
    """Scan a world with a lidar, write the points, and print what was measured."""
    if keep_lost and frame is not Frame.sensor:
        raise typer.BadParameter("lost shots have no place; it goes with --frame sensor only", param_hint="--keep-lost")
    from parhelion.cli.summary import Tally

    place = parse_pose(pose)
    files = None if output is None else CloudFiles.at(output, format, several=scans > 1)
    if png is not None:
        from parhelion.pictures.style import check_picture

        check_file(check_picture(png))
    scene, lidar = _prepare(world, material, sensor, returns, sub_rays, sampling, noise, rate, columns)
    tally = Tally()
    view = _View(png, several=scans > 1)
    with screen.progress("scanning", scans) as advance:
        for number, (shot, seconds) in enumerate(measure(lidar, scene, place, time, scans, seed)):
            tally.add(shot, seconds)
            if files is not None:
                files.write(_as_asked(shot, frame, keep_lost), number)
            view.add(shot)
            advance()
    view.draw()
    _print(scene, lidar, tally, files, png)


def parse_pose(text: str | None) -> Pose | None:
    """`X,Y,Z` or `X,Y,Z,ROLL,PITCH,YAW` [m, degrees]."""
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


def load_world(name: str, material: str | None = None) -> World:
    """A world by name or path; `material` is for mesh files."""
    from parhelion import World

    return World.load(name) if material is None else World.load(name, material=material)


def measure(
    lidar: Lidar, world: World, place: Pose | None, start: float, scans: int, seed: int
) -> Iterator[tuple[Scan, float]]:
    """Scans one after the other at the sensor's rate, each with its wall time [s].

    Standing at `place`; without one, several scans follow the world's path where it has one, and a single scan (or
    several in a world without a path) stands at the world's viewpoint.
    """
    trajectory = world.path if place is None and scans > 1 else None
    for number in range(scans):
        before = clock.perf_counter()
        at = start + number / lidar.rate_hz
        if trajectory is not None:
            result = lidar.scan(world, trajectory=trajectory, time=at, seed=seed)
        else:
            result = lidar.scan(world, pose=place, time=at, seed=seed)
        yield result, clock.perf_counter() - before


def _prepare(
    world: str,
    material: str | None,
    sensor: str,
    returns: Returns | None,
    sub_rays: int | None,
    sampling: Sampling,
    noise: bool,
    rate: float | None,
    columns: int | None,
) -> tuple[World, Lidar]:
    from parhelion import Lidar

    lidar = Lidar(
        sensor,
        rate_hz=rate,
        columns=columns,
        returns=None if returns is None else returns.value,
        sub_rays=sub_rays,
        sampling=sampling.value,
        noise=noise,
    )
    scene = load_world(world, material)
    start_engine()
    return scene, lidar


def _as_asked(scan: Scan, frame: Frame, keep_lost: bool) -> PointCloud:
    if frame is Frame.world:
        return scan.in_world()
    if frame is Frame.deskewed:
        return scan.deskewed()
    return scan.with_lost_shots() if keep_lost else scan


class _View:
    """The picture that --png asks for: of the one scan, or of all of them."""

    def __init__(self, path: Path | None, *, several: bool) -> None:
        self.path, self.several = path, several
        self._scan: Scan | None = None
        self._drive: Any = None

    def add(self, scan: Scan) -> None:
        if self.path is None:
            return
        if self.several:
            from parhelion.pictures import Drive

            self._drive = self._drive or Drive()
            self._drive.add(scan)
        self._scan = scan

    def draw(self) -> None:
        if self.path is None or self._scan is None:
            return
        from parhelion.pictures import draw_scan

        if self._drive is not None:
            self._drive.draw(self.path)
        else:
            draw_scan(self._scan, self.path)


def _print(world: World, lidar: Lidar, tally: Tally, files: CloudFiles | None, png: Path | None) -> None:
    title = f"{lidar.config.name} in {world.name or 'the world'}"
    screen.facts(title, tally.rows())
    if tally.points:
        rows = [(word, screen.count(points), screen.percent(share)) for word, points, share in tally.label_shares]
        screen.table("", ("label", "points", "share"), rows, numbers=("points", "share"))
    else:
        screen.say("no shot came back: nothing is within the sensor's range and view from there")
    if files is not None:
        files.finish()
        number = f" ({len(files.written)} files)" if files.numbered else ""
        screen.say(f"wrote {files.path}{number}")
    if png is not None:
        screen.say(f"wrote {png}")
