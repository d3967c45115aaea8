"""`parhelion rebuild`: a recording becomes a world."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parhelion.cli import screen
from parhelion.cli.screen import warn
from parhelion.core.errors import ConfigError

EXAMPLES = (
    "parhelion rebuild drive.pcap --sensor ouster/os1-128 -o place",
    "parhelion rebuild drive.mcap --sensor velodyne/vlp-16 --poses path.tum -o place --check",
    "parhelion scan --world place --sensor place/sensor.yaml -o again.pcd   # with the angles of the recording unit",
    "parhelion scan --world place --sensor velodyne/vls-128 --visibility 80 -o foggy.pcd   # another sensor, in fog",
)


def rebuild(
    recording: Annotated[
        Path, typer.Argument(metavar="RECORDING", help="Drive: capture (.pcap), bag, or folder of clouds.")
    ],
    sensor: Annotated[
        str, typer.Option("--sensor", "-s", help="Sensor that recorded the drive: a preset or a YAML file.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the rebuilt world.")],
    poses: Annotated[
        Path | None,
        typer.Option(help="Poses of the sensor: TUM, or KITTI with one per revolution. Default: bag, else estimated."),
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Topic of the clouds, for bags with several.")] = None,
    voxel: Annotated[
        float | None, typer.Option(min=0.01, max=1.0, help="Resolution [m]. Default: from the ranges, 0.05 to 0.1.")
    ] = None,
    near: Annotated[
        float, typer.Option(min=0.0, max=20.0, help="Returns nearer than this belong to the vehicle [m].")
    ] = 1.0,
    most: Annotated[
        int, typer.Option(min=2, max=5000, help="Largest number of revolutions; longer drives are thinned evenly.")
    ] = 240,
    trust_poses: Annotated[
        bool, typer.Option("--trust-poses", help="Use the given poses without refining them.")
    ] = False,
    keep_moving: Annotated[
        bool, typer.Option("--keep-moving", help="Keep surfaces that other shots pass through.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Hold out every fifth revolution first and report how well it is predicted.")
    ] = False,
) -> None:
    """Rebuild the place that a lidar drove through, as a world for any sensor, mount and weather.

    The folder is a world: give it to --world, ph.World.load or a scenario. Surfaces are disks with the reflectance that
    reproduces the recorded intensities; moving objects are removed where other shots passed through them; space that
    no shot observed stays empty and is listed as unknown.
    """
    from parhelion.rebuild.place import facts_of, write_place
    from parhelion.rebuild.reading import poses_at, read_frames, read_poses
    from parhelion.rebuild.rebuild import STAGES, Options, rebuilt
    from parhelion.rebuild.score import held_out_score
    from parhelion.sensors.optics.lidar.lidar import Lidar

    if voxel is not None and not voxel > 0.0:
        raise ConfigError(f"--voxel: must be above 0, got {voxel}")
    lidar = Lidar(sensor)
    with screen.progress(f"reading {recording.name}", None) as advance:
        drive = read_frames(recording, lidar, topic=topic, near_m=near, most=most, advance=advance)
    given = None
    if poses is not None:
        given = poses_at(read_poses(poses, len(drive.frames)), drive.frames, str(poses))
    elif drive.poses is not None:
        given = poses_at(drive.poses, drive.frames, str(recording))
    options = Options(voxel, not trust_poses, keep_moving)
    score = None
    with screen.progress(f"rebuilding {recording.name}", len(STAGES) * (2 if check else 1)) as advance:

        def watch(_: str) -> None:
            advance()

        if check:
            score = held_out_score(drive.frames, lidar, given, options, watch)
        place = rebuilt(drive.frames, lidar, given, options, watch)
    files = write_place(place, output, lidar, recording.name, check=score, read=drive.read)
    facts = facts_of(place, score, drive.read)
    counts = facts["surfels"]
    rows = [
        ("revolutions", f"{len(place.frames)} of {drive.read}"),
        ("path", f"{facts['path_m']:.2f} m"),
        ("residual of the poses", f"{100 * facts['residual_m']['median']:.1f} cm"),
        ("surfels", screen.count(counts["count"])),
        ("removed by votes", screen.count(counts["removed"])),
        ("thin", screen.count(counts["thin"])),
        ("resolution", f"{100 * place.voxel_m:.1f} cm"),
        ("observed space", f"{facts['coverage']['observed_m3']:.0f} m³"),
    ]
    if score is not None:
        rows.append(("held-out returns within 10 cm", screen.percent(score.near_of_all)))
        rows.append(("held-out hit agreement", screen.percent(score.agreement)))
    screen.table(f"{output} from {recording.name}", ("quantity", "value"), rows)
    for note in [*drive.notes, *place.notes]:
        warn(note)
    screen.print_line(f"wrote {output} ({len(files)} files); scan it with --world {output}")
