"""`parhelion convert`: point clouds from one format to another; a file, a folder or a bag."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parhelion.cli import recordings, screen
from parhelion.cli.recordings import DEFAULT_FORMAT, Form, Job, Writing, warn_dropped_fields
from parhelion.cli.screen import warn
from parhelion.core.errors import FormatError, ParhelionError

if TYPE_CHECKING:
    from parhelion import PointCloud, Scan

EXAMPLES = (
    "parhelion convert scan.pcd scan.las",
    "parhelion convert clouds/ clouds-ply/ --format ply",
    "parhelion convert 000000.bin scan.pcd --from kitti",
    "parhelion convert run/bag clouds/ --topic /velodyne_points   # the clouds of a ROS 2 bag",
    "parhelion convert clouds/ drive.mcap --rate 10               # clouds into a bag",
    "parhelion convert drive.db3 drive.mcap                       # a bag in another storage",
    "parhelion convert drive.pcap frames/ --format pcd            # every frame of a capture, 000000.pcd ...",
    "parhelion convert drive.pcap drive.mcap                      # every frame as a message",
    "parhelion convert drive.pcap one.ply --index 3",
)


def convert(
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="A cloud file, a folder of them, a bag, or a capture (.pcap).")
    ],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The new file, folder or bag (.mcap, .db3).")],
    format: Annotated[
        str | None,
        typer.Option(
            help="Format to write if the extension of OUT does not select it; mcap, sqlite3: a bag. Folders: pcd."
        ),
    ] = None,
    read_as: Annotated[
        str | None, typer.Option("--from", help="Format to read if the extension is misleading.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Topic of the clouds in a bag. Default in new bags: /points.")
    ] = None,
    frame: Annotated[str | None, typer.Option(help="Frame of the clouds in a new bag.", show_default="lidar")] = None,
    layout: Annotated[
        str, typer.Option(help="Point fields in a new bag: all, or those of a driver such as ouster.")
    ] = "all",
    rate: Annotated[
        float, typer.Option(help="Clouds per second in a new bag, for clouds without time stamps.")
    ] = recordings.DEFAULT_RATE_HZ,
    index: recordings.IndexOption = None,
    sensor: Annotated[
        str | None, typer.Option("--sensor", "-s", help="Sensor model of a capture whose packets do not state it.")
    ] = None,
    keep_lost: Annotated[
        bool, typer.Option("--keep-lost", help="Also write shots without a return, as NaN (captures only).")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Convert point clouds. Finished files of a folder are skipped, so an interrupted run resumes.

    A capture is a sequence: each frame becomes one file in a folder or one message in a bag.
    """
    from parhelion.io.recordings import clouds_of, existing, is_capture
    from parhelion.io.ros import is_bag

    writing = Writing("converting", "--force", force, format, topic, frame, layout, rate, sensor)
    to_bag = recordings.is_bag_storage(format) or recordings.names_bag_file(target)
    if is_bag(existing(source)):
        (recordings.bag_to_bag if to_bag else recordings.bag_to_clouds)(source, target, writing)
        return
    captures = _Captures(writing, index, sensor, keep_lost)
    if is_capture(source, read_as):
        captures.convert(source, target)
        return
    if index is not None:
        raise typer.BadParameter(f"applies to captures (.pcap) only, not to {source}", param_hint="--index")
    if to_bag:
        clouds = clouds_of(source, sensor=sensor, read_as=read_as, keep_lost=keep_lost)
        with screen.progress(writing.verb, None):
            count = recordings.write_clouds(clouds, source, target, writing)
        _report_bag(count, topic, target)
        return
    as_folder = source.is_dir()
    if as_folder:
        jobs = recordings.folder_jobs(source, target, read_as, format or DEFAULT_FORMAT, nested=False)
    else:
        jobs = [recordings.file_job(source, target, format, DEFAULT_FORMAT)]
        writing.refuse_existing(jobs[0].target)
    broken = sum(not captures.convert_one_of_many(job) for job in jobs if job.is_capture)
    files = [job for job in jobs if not job.is_capture]
    waiting = [job for job in files if force or not job.target.exists()]
    dropped, unreadable = _convert_all(waiting, read_as, as_folder=as_folder)
    warn_dropped_fields(dropped)
    done = len(waiting) - unreadable
    if files:
        note = writing.skipped(len(files) - len(waiting))
        screen.print_line(f"converted {done} {'file' if done == 1 else 'files'} to {target}{note}")
    if unreadable or broken:
        tried = len(waiting) + len(jobs) - len(files)
        raise FormatError(f"{source}: {unreadable + broken} of {tried} files could not be read, see the warnings")


def _report_bag(count: int, topic: str | None, target: Path) -> None:
    screen.print_line(
        f"wrote {count} {'cloud' if count == 1 else 'clouds'} on {topic or recordings.DEFAULT_TOPIC} to {target}"
    )


@dataclass(frozen=True)
class _Captures:
    """Options for captures."""

    writing: Writing
    index: int | None
    sensor: str | None
    keep_lost: bool

    def convert(self, source: Path, target: Path, form: Form | None = None) -> None:
        """One capture."""
        form = recordings.form_of(target, self.writing.format) if form is None else form

        def cloud(scan: Scan, number: int, after_s: float) -> PointCloud:
            return scan.with_lost_shots() if self.keep_lost else scan

        done = recordings.convert_frames(
            source, target, cloud, self.writing, index=self.index, sensor=self.sensor, form=form
        )
        warn_dropped_fields(done.dropped)
        done.report_gaps(source)
        if form is Form.BAG:
            _report_bag(done.frames, self.writing.topic, target)
            return
        note = self.writing.skipped(done.skipped)
        screen.print_line(
            f"converted {done.frames} {'frame' if done.frames == 1 else 'frames'} of {source} to {target}{note}"
        )

    def convert_one_of_many(self, job: Job) -> bool:
        """Convert one capture among other files; return False if it cannot be read. The others continue."""
        try:
            self.convert(job.source, job.target, Form.FOLDER)
        except FormatError as error:
            warn(str(error))
            return False
        return True


def _convert_all(jobs: list[Job], read_as: str | None, *, as_folder: bool) -> tuple[Counter[str], int]:
    """Convert each job. Return what was lost, in how many files, and how many files could not be read."""
    from parhelion.io import read_cloud

    dropped: Counter[str] = Counter()
    unreadable = 0
    with screen.progress("converting", len(jobs)) as advance:
        for job in jobs:
            try:
                cloud = read_cloud(job.source, format=read_as)
            except ParhelionError as error:
                if not as_folder:
                    raise
                warn(str(error))
                unreadable += 1
                continue
            dropped.update(recordings.write_cloud_files(cloud, job.target, job.format)[0])
            advance()
    return dropped, unreadable
