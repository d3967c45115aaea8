"""`parhelion weather`: apply rain, fog, snow or dust to recorded or live clouds."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parhelion.cli import recordings, screen
from parhelion.cli.measure import parse_pose
from parhelion.cli.recordings import Form, Job, Writing, check_file, make_folder, warn_dropped_fields, write_cloud_files
from parhelion.cli.screen import start_engine, warn
from parhelion.cli.weather_options import WeatherOptions, air_counts, in_words, shares, validity_rows, weather_options
from parhelion.core.errors import ConfigError, FormatError

if TYPE_CHECKING:
    from parhelion import Lidar, PointCloud, Pose, Scan, Weather
    from parhelion.sensors.optics.lidar.validity import Validity

EXAMPLES = (
    "parhelion weather recorded.pcd -o wet.pcd --rain 25 --sensor velodyne/vlp-16 --png wet.png",
    "parhelion weather clouds/ -o clouds-fog/ --visibility 100 --heterogeneous-fog --sensor velodyne/hdl-64e",
    "parhelion weather sequence/velodyne -o sequence/snow --snow 2 --sensor velodyne/hdl-64e --format npz",
    "parhelion weather drive/ -o dusty/ --weather weather.yaml --wind 3,0 --sensor ouster/os1-128 --seed 7",
    "parhelion weather drive.mcap -o wet.mcap --rain 25 --sensor velodyne/vlp-16 --topic /velodyne_points",
    "parhelion weather drive.pcap -o foggy/ --visibility 100      # every frame of a capture, 000000.pcd ...",
    "parhelion weather drive.pcap -o foggy.mcap --visibility 100  # every frame as a message",
    "parhelion weather --ros2 /velodyne_points /noisy_points --sensor velodyne/vlp-16 --rain 25  # live",
    "parhelion weather --ros2 /scan /wet_scan --sensor hokuyo/utm-30lx --snow 2 --duration 60",
    "parhelion weather --udp-in 2368 --udp-out 12368 --sensor velodyne/vlp-16 --visibility 60",
    "parhelion weather --udp-in 7502 --udp-out 17502 --sensor ouster/os1-128 --metadata os1.json --rain 50",
)
_LIVE = "Live"


_MOST_TURNS = 1_000_000
"""Frames reserved per capture, so that several captures in one folder have different drops."""


class NoReturns(str, Enum):
    """Source of the shots without a return."""

    auto = "auto"
    none = "none"


@weather_options
def weather(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="[IN]", help="A cloud file, a folder of them, a ROS 2 bag, or a capture (.pcap)."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The new file, folder or bag.")] = None,
    sensor: Annotated[
        str | None,
        typer.Option(
            "--sensor",
            "-s",
            help="Sensor that recorded the data: a preset or a YAML file. Default: as named in the cloud.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of drops, flakes and fluctuations.")] = 0,
    time: Annotated[float, typer.Option(help="Time of the first cloud in s, for weather that changes.")] = 0.0,
    pose: Annotated[
        str | None, typer.Option(metavar="X,Y,Z[,R,P,Y]", help="Sensor pose, for dust and heterogeneous weather.")
    ] = None,
    reflectance: Annotated[
        float | None, typer.Option(help="Reflectance of all points if a cloud has no intensity; 0 to 1.")
    ] = None,
    no_returns: Annotated[
        NoReturns, typer.Option(help="Shots without a return: from the cloud or the sensor's pattern, or none.")
    ] = NoReturns.auto,
    format: Annotated[
        str | None,
        typer.Option(help="Format to write if the extension of OUT does not select it. Default in folders: unchanged."),
    ] = None,
    read_as: Annotated[
        str | None, typer.Option("--from", help="Format to read if the extension is misleading.")
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Topic of the clouds, for bags with several.")] = None,
    index: recordings.IndexOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
    png: Annotated[
        Path | None, typer.Option(help="Picture of the effect of the weather; for a folder, on its first cloud.")
    ] = None,
    fixed_frame: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Frame of the world for poses from /tf, such as odom. Default: the root of the tree."
        ),
    ] = None,
    ros2: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--ros2", metavar="IN OUT", help="Publish the clouds of a topic in weather, live.", rich_help_panel=_LIVE
        ),
    ] = None,
    rclpy: Annotated[
        bool, typer.Option("--rclpy", help="Use the installed ROS 2 (rclpy) instead of DDS.", rich_help_panel=_LIVE)
    ] = False,
    domain: Annotated[
        int,
        typer.Option(
            "--domain", metavar="ID", envvar="ROS_DOMAIN_ID", help="ROS 2 domain, 0 to 232.", rich_help_panel=_LIVE
        ),
    ] = 0,
    interface: Annotated[
        str,
        typer.Option(
            "--interface",
            metavar="NAME",
            help="Network interface for ROS 2; 'any' lets DDS choose.",
            rich_help_panel=_LIVE,
        ),
    ] = "lo",
    message_type: Annotated[
        str | None,
        typer.Option(
            "--type",
            metavar="NAME",
            rich_help_panel=_LIVE,
            help="Message type: PointCloud2, LaserScan or CustomMsg (Livox). Default: that of the publisher.",
        ),
    ] = None,
    udp_in: Annotated[
        int | None,
        typer.Option("--udp-in", metavar="PORT", help="Port of the lidar's packets, live.", rich_help_panel=_LIVE),
    ] = None,
    udp_out: Annotated[
        str | None,
        typer.Option(
            "--udp-out", metavar="[HOST:]PORT", help="Destination of the packets in weather.", rich_help_panel=_LIVE
        ),
    ] = None,
    metadata: Annotated[
        Path | None,
        typer.Option(
            "--metadata",
            metavar="FILE",
            rich_help_panel=_LIVE,
            help="Description of the sensor (.json), for packets that need it (Ouster).",
        ),
    ] = None,
    anywhere: Annotated[
        bool, typer.Option("--anywhere", help="Receive and send UDP beyond this machine.", rich_help_panel=_LIVE)
    ] = False,
    queue: Annotated[
        int,
        typer.Option(
            "--queue",
            metavar="N",
            min=1,
            max=1000,
            rich_help_panel=_LIVE,
            help="Number of clouds that may wait; older ones are skipped.",
        ),
    ] = 1,
    duration: Annotated[
        float | None,
        typer.Option("--duration", metavar="S", min=0, help="Stop after S seconds.", rich_help_panel=_LIVE),
    ] = None,
    *,
    weather: WeatherOptions,
) -> None:
    """Apply weather to clouds: points become weaker, shift or disappear, and echoes of the air appear.

    Folders are processed with their subfolders; finished files are skipped, so an interrupted run resumes. In a bag,
    all other messages are copied unmodified. The frames of a capture are written to a folder of numbered files, a bag
    or another capture. With --ros2 or --udp-in, live data are processed until Ctrl-C.
    """
    from parhelion.cli import weather_live
    from parhelion.io.recordings import existing, is_capture
    from parhelion.io.ros import is_bag

    meant = weather.weather()
    if meant is None:
        from parhelion.weather import media

        flags = ", ".join(medium.amount.option for medium in media.table().values())
        raise typer.BadParameter(f"give a weather: {flags} or --weather FILE")
    place = parse_pose(pose)
    if ros2 is not None or udp_in is not None or udp_out is not None:
        live = weather_live.Live(
            ros2,
            rclpy,
            domain,
            interface,
            message_type,
            udp_in,
            udp_out,
            metadata,
            anywhere,
            queue,
            duration,
            fixed_frame,
        )
        for flag, given in (("IN", source), ("-o", output), ("--png", png), ("--format", format), ("--topic", topic)):
            if given is not None:
                raise typer.BadParameter("applies to recorded data only", param_hint=flag)
        weather_live.run(live, meant, sensor, seed, time, place, reflectance, no_returns.value)
        return
    if source is None or output is None:
        missing = "IN" if source is None else "-o"
        raise typer.BadParameter(
            "give IN and -o OUT, or --ros2 IN OUT, or --udp-in PORT --udp-out PORT", param_hint=missing
        )
    check_file(picture=png)
    existing(source)
    writing = Writing("weathering", "--overwrite", overwrite, format, topic)
    run = _Run(meant, _Sensors(sensor), seed, time, place, reflectance, no_returns.value, png, writing)
    if is_bag(source):
        start_engine()
        run.do_bag(source, output, fixed_frame)
        run.report(source, output, skipped=0, as_folder=False)
        return
    if is_capture(source, read_as):
        start_engine()
        run.do_capture(source, output, index=index)
        run.report(source, output, skipped=run.skipped, as_folder=recordings.form_of(output, format) is Form.FOLDER)
        return
    if index is not None:
        raise typer.BadParameter(f"applies to captures (.pcap) only, not to {source}", param_hint="--index")
    as_folder = source.is_dir()
    if as_folder:
        if output.exists() and source.samefile(output):
            raise FormatError(f"{source}: IN and OUT are the same folder")
        jobs = recordings.folder_jobs(source, output, read_as, format, nested=True)
    else:
        jobs = [recordings.file_job(source, output, format, read_as)]
        writing.refuse_existing(jobs[0].target)
    waiting = [job for job in jobs if overwrite or job.is_capture or not job.target.exists()]
    if waiting:
        start_engine()
    with screen.progress("weathering", len(waiting)) as advance:
        for job in waiting:
            run.do(job, read_as, as_folder=as_folder)
            advance()
    run.report(source, output, skipped=run.skipped + len(jobs) - len(waiting), as_folder=as_folder)


class _Sensors:
    """Lidar given by the user, or the one that each cloud names; created once per model."""

    def __init__(self, name: str | None) -> None:
        from parhelion import Lidar

        self.name = name
        self.named = None if name is None else Lidar(name)
        self._made: dict[str, Lidar] = {}

    def of(self, cloud: PointCloud) -> Lidar:
        if self.named is not None:
            return self.named
        name = cloud.metadata.get("sensor")
        lidar = self.model(name if isinstance(name, str) else None)
        if lidar is None:
            raise ConfigError("the cloud does not name its sensor; give it with --sensor")
        return lidar

    def model(self, name: str | None) -> Lidar | None:
        """Lidar of a model; None without a name."""
        from parhelion import Lidar

        if name is not None and name not in self._made:
            self._made[name] = Lidar(name)
        return None if name is None else self._made[name]

    def validity_in(self, weather: Weather) -> dict[str, dict[str, Validity]]:
        """Validity of the lidars used so far in each medium of a weather."""
        from parhelion.sensors.optics.lidar.validity import validity_in

        used = self._made if self.named is None else {self.named.model: self.named}
        return {name: validity_in(lidar, weather) for name, lidar in used.items()}


@dataclass
class _Run:
    """Weather to apply, and the results so far."""

    weather: Weather
    sensors: _Sensors
    seed: int
    start_s: float
    pose: Pose | None
    reflectance: float | None
    no_returns: str
    png: Path | None
    writing: Writing
    done: int = 0
    points_in: int = 0
    points_out: int = 0
    lost: int = 0
    invented: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    notes: dict[str, list[str]] = field(default_factory=dict)
    """Notes on limitations, keyed by their text without numbers."""
    failed: dict[str, list[Path]] = field(default_factory=dict)
    """Failed clouds of a folder, by reason."""
    drawn: bool = False
    skipped: int = 0
    """Frames of captures whose file already existed."""

    def do_capture(
        self, source: Path, target: Path, *, index: int | None = None, form: Form | None = None, first: int = 0
    ) -> None:
        """Process every frame of a capture; `first` is the random index of the first frame."""

        def work(scan: Scan, number: int, after_s: float) -> PointCloud:
            wet = self._weathered(scan, first + number, after_s)
            self._note(scan, wet, f"{source.name}, frame {number}")
            return wet

        done = recordings.convert_frames(
            source, target, work, self.writing, index=index, sensor=self.sensors.name, form=form
        )
        self.dropped.update(done.dropped)
        done.report_gaps(source)
        self.skipped += done.skipped

    def do(self, job: Job, read_as: str | None, *, as_folder: bool) -> None:
        """Process one file or capture; in a folder, failures are recorded and the others continue."""
        try:
            if job.is_capture:
                self.do_capture(job.source, job.target, form=Form.FOLDER, first=job.number * _MOST_TURNS)
            else:
                self._do_file(job, read_as)
        except (ConfigError, FormatError) as error:
            reason = str(error).removeprefix(f"{job.source}: ")
            if not as_folder:
                raise type(error)(f"{job.source}: {reason}") from None
            self.failed.setdefault(reason, []).append(job.source)

    def _do_file(self, job: Job, read_as: str | None) -> None:
        from parhelion.io import format_of, raw_scans, read_cloud, write_noting_drops

        # SemanticKITTI labels next to a KITTI scan.
        labels = raw_scans.labels_there(job.source) if format_of(job.source, read_as).name == "kitti" else None
        cloud = read_cloud(job.source, format=read_as, **({} if labels is None else {"labels": labels}))
        wet = self._weathered(cloud, job.number, job.number / self.sensors.of(cloud).rate_hz)
        make_folder(job.target.parent)
        options: dict[str, Path] = {}
        if job.format == "kitti" and labels is not None:
            options["labels"] = raw_scans.labels_of(job.target)
            make_folder(options["labels"].parent)
        if options:
            self.dropped.update(write_noting_drops(wet, job.target, job.format, **options))
        else:
            self.dropped.update(write_cloud_files(wet, job.target, job.format)[0])
        self._note(cloud, wet, job.source.name)

    def do_bag(self, source: Path, target: Path, fixed_frame: str | None) -> None:
        """Process the clouds of a bag, with the draws of their stamps, like live ones."""
        from parhelion.live.weather import Weathering

        lidar = self.sensors.named or self.sensors.model(recordings.sensor_in_bag(source, self.writing))
        if lidar is None:
            raise ConfigError(f"{source}: this bag does not name the sensor of its clouds; give it with --sensor")
        job = Weathering(self.weather, lidar, self.seed, self.start_s, self.pose, self.reflectance, self.no_returns)

        def work(cloud: PointCloud, stamp_ns: int, pose: Pose | None) -> PointCloud:
            wet = job.apply(cloud, stamp_ns, pose)
            self._note(cloud, wet, f"cloud {self.done}")
            return wet

        needs_pose = self.pose is None and job.needs_pose
        recordings.weather_bag(source, target, work, self.writing, needs_pose=needs_pose, fixed_frame=fixed_frame)

    def _note(self, cloud: PointCloud, wet: PointCloud, name: str) -> None:
        self._count(cloud, wet)
        self._draw(cloud, wet, name)

    def _draw(self, cloud: PointCloud, wet: PointCloud, name: str) -> None:
        if self.png is not None and not self.drawn:
            from parhelion.pictures.weather import draw_weather

            draw_weather(cloud, wet, self.png, f"{name}  ·  {in_words(self.weather)}")
            self.drawn = True

    def _weathered(self, cloud: PointCloud, number: int, after_s: float) -> PointCloud:
        return self.weather.apply(
            cloud,
            sensor=self.sensors.of(cloud),
            seed=self.seed,
            frame=number,
            time=self.start_s + after_s,
            pose=self.pose,
            reflectance=self.reflectance,
            no_returns=self.no_returns,
        )

    def _count(self, before: PointCloud, after: PointCloud) -> None:
        old, new = air_counts(before), air_counts(after)
        invented = {word: count - old.get(word, 0) for word, count in new.items() if count > old.get(word, 0)}
        points_in, points_out = _points(before), _points(after)
        self.done += 1
        self.points_in += points_in
        self.points_out += points_out
        self.lost += points_in - (points_out - sum(invented.values()))
        self.invented.update(invented)
        for note in after.metadata.get("weather_notes", []):
            self.notes.setdefault(re.sub(r"\d+", "#", note), []).append(note)

    def report(self, source: Path, output: Path, *, skipped: int, as_folder: bool) -> None:
        """Print counts, limitations and failures."""
        warn_dropped_fields(self.dropped)
        if self.done:
            share = screen.percent(self.lost / max(self.points_in, 1))
            rows = [("clouds", screen.count(self.done))] if self.done > 1 else []
            rows += [
                ("points in", screen.count(self.points_in)),
                ("points out", screen.count(self.points_out)),
                ("lost", f"{screen.count(self.lost)} ({share})"),
                ("from the air", shares(self.invented, self.points_out)),
            ]
            screen.facts(in_words(self.weather), [*rows, *validity_rows(self.sensors.validity_in(self.weather))])
        for notes in self.notes.values():
            screen.print_line(f"note: {notes[0]}" + (f" (the same in {len(notes)} clouds)" if len(notes) > 1 else ""))
        word = "file" if self.done == 1 else "files"
        done = f"{self.done} {word} to {output}" if as_folder else str(output)
        screen.print_line(f"wrote {done}{self.writing.skipped(skipped)}")
        if self.png is not None:
            screen.print_line(
                f"wrote {self.png}" if self.drawn else f"{self.png}: not drawn, because no cloud was processed"
            )
        failed = sum(map(len, self.failed.values()))
        for reason, files in self.failed.items():
            more = f" and {len(files) - 1} more" if len(files) > 1 else ""
            warn(f"{files[0]}{more}: {reason}")
        if failed:
            raise FormatError(
                f"{source}: {failed} of {failed + self.done} files could not be processed, see the warnings"
            )


def _points(cloud: PointCloud) -> int:
    """Number of rows with coordinates."""
    import numpy as np

    return int(np.isfinite(cloud.xyz[:, 0]).sum())
