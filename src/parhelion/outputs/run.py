"""Run of a scenario to files: clouds during the run, then streams, truth and a manifest.

Every file is written atomically and depends only on the scenario. A journal lists the hash of every frame. An
interrupted run can be resumed: vehicles are driven again, which is fast, and existing frames are not measured again if
they match the journal of the interrupted run or the manifest of a finished one.
"""

from __future__ import annotations

import time as wall
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from parhelion.core.clouds import Scan
from parhelion.core.errors import FormatError
from parhelion.core.files import only_writer, remove_litter, write_json
from parhelion.core.reading import files_read
from parhelion.core.streams import SampleHistory, Samples
from parhelion.io import poses as tum
from parhelion.io.poses import TimedPoses
from parhelion.outputs.collisions import CollisionLog, Hit
from parhelion.outputs.datasets.boxes import movable_truth, write_kitti_labels, write_nuscenes_boxes
from parhelion.outputs.files import FILES, FileRule, write_columns
from parhelion.outputs.manifest import JOURNAL, EarlierRun, Journal, content_of, write_inputs, write_manifest
from parhelion.outputs.report.collect import NoReport, RunReport, report_of
from parhelion.outputs.sinks import Sinks, Watcher, Writer
from parhelion.scenario.sensors import FrameOnBoard, OnBoard, StreamOnBoard

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Between, Scenario

BATCH_S = 1.0
"""Duration of a batch of samples [s of the run]."""
Kind = TypeVar("Kind", FrameOnBoard, StreamOnBoard)


@dataclass
class RunSummary:
    """Result of a run."""

    folder: Path
    """Folder of the run."""
    frames: int = 0
    """Number of frames of all sensors measured in this run: clouds, pictures, ..."""
    scans: int = 0
    """Number of clouds among them."""
    found: int = 0
    """Number of frames from an earlier run."""
    points: int = 0
    """Number of points."""
    seconds: float = 0.0
    """Wall time [s]."""
    files: list[Path] = field(default_factory=list)
    """Files written."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Notes on fields that the format of clouds cannot store, with the number of clouds."""
    report: Path | None = None
    """Run report, if requested."""
    collected: RunReport | None = None
    """Statistics and frames of the report."""
    collisions: list[Hit] = field(default_factory=list)
    """Collisions of vehicles in contact with the world."""


def run(
    scenario: Scenario,
    folder: Path,
    *,
    resume: bool = True,
    replace: bool = False,
    force: bool = False,
    realtime: bool = False,
    progress: Callable[[int, int], None] | None = None,
    watch: Watcher | None = None,
    between: Between | None = None,
) -> RunSummary:
    """Run a scenario and write all outputs into a folder.

    `resume` reuses frames of an earlier run of the same scenario. `replace` measures everything again, even if the
    folder contains a run of a scenario with the same name and other values; `force` replaces the run of any scenario,
    whose files are removed. `realtime` waits for the wall clock.
    `progress` is called with the number of finished frames and of all frames. `watch` receives every step with all its
    frames, like the outputs. `between` is called before each step and may edit or end the run.
    """
    began = wall.perf_counter()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FormatError(f"{folder}: is a file; give a folder for the outputs") from None
    except OSError as error:
        raise FormatError(f"{folder}: the folder cannot be created ({error.strerror})") from None
    with only_writer(folder), files_read() as inputs:
        inputs |= scenario.inputs
        summary = _run(scenario, folder, resume, replace, force, realtime, progress, watch, between, inputs)
    summary.seconds = wall.perf_counter() - began
    return summary


def _run(
    scenario: Scenario,
    folder: Path,
    resume: bool,
    replace: bool,
    force: bool,
    realtime: bool,
    progress: Callable[[int, int], None] | None,
    watch: Watcher | None,
    between: Between | None,
    inputs: set[Path],
) -> RunSummary:
    content = content_of(scenario, controlled=between is not None)
    if replace or force:
        earlier = EarlierRun.replaced(folder, content, any_scenario=force)
    else:
        earlier = EarlierRun.of(folder, content, resume, scenario.folder)
    # The folder is locked, so temporary files in it are from runs that were killed.
    remove_litter(folder)
    rules = {sensor.name: FILES.get(sensor.record_type) for sensor in scenario.sensors}
    frames = {
        sensor.name: _frame_files(scenario, sensor, rule, folder)
        for sensor in scenario.frame_sensors
        if (rule := rules[sensor.name]) is not None
    }
    truth = None
    if scenario.settings.boxes != "none":
        truth = {scanner.name: movable_truth(scenario, scanner) for scanner in scenario.giving(Scan)}
        for scanner in scenario.giving(Scan):
            (folder / f"{scanner.folder_name}-boxes").mkdir(exist_ok=True)
    summary = RunSummary(folder)
    total = scenario.frame_count
    collisions = CollisionLog()
    streams: dict[str, SampleHistory[Samples]] = {one.name: SampleHistory() for one in scenario.stream_sensors}
    with _paced(realtime) as wait:
        boxed = truth or ()
        present = {
            name: {
                n
                for n, file in enumerate(files)
                if earlier.has(
                    file, *([_boxes_of(file, scenario)] if name in boxed else []), *_companions(file, rules[name])
                )
            }
            for name, files in frames.items()
        }
        summary.found = sum(len(numbers) for numbers in present.values())
        # A sink writes its file from start to end, so it also needs the frames that an earlier run wrote.
        sinks = Sinks(scenario, folder, watch)
        done = 0
        writer = Writer()
        journal: Journal | None = None
        try:
            report = report_of(scenario, folder, earlier)
            if replace or force:
                (folder / JOURNAL).unlink(missing_ok=True)
                for file in (file for files in frames.values() for file in files):
                    file.unlink(missing_ok=True)
            # The manifest first: it lists the reusable frames, so that the journal can start again.
            write_manifest(folder, content, complete=False, files=earlier.hashes)
            write_inputs(folder, scenario, inputs)
            journal = Journal(folder)
            report.start(journal)
            for step in scenario.walk(
                lambda name, number: bool(sinks) or number not in present.get(name, ()) or report.wants(name, number),
                # Edits between steps affect samples, too, so those of each step are measured before the next edit.
                batch_s=BATCH_S if between is None else 0.0,
                between=between,
            ):
                for sensor in scenario.sensors:
                    if sensor.name not in rules:
                        _note_attached(scenario, sensor, folder, rules, frames, present, streams)
                report.take(step)
                collisions.take(step)
                for name, found in step.frames.items():
                    for number, record in found:
                        rule = rules[name]
                        if rule is None or number in present[name]:
                            continue
                        # Computed here, not in the writer's thread, because the next step changes the motions.
                        boxes = truth[name].of(record, "points") if truth is not None and name in truth else None
                        writer.put(partial(_write_frame, scenario, rule, boxes, record, frames[name][number], journal))
                        summary.frames += 1
                        if isinstance(record, Scan):
                            summary.scans += 1
                            summary.points += len(record)
                for name, samples in step.new_samples().items():
                    streams[name].add(samples)
                sinks.take(step)
                done += sum(map(len, step.frames.values()))
                if progress is not None:
                    progress(done if sinks else summary.found + summary.frames, total)
                wait(step.time)
            summary.dropped.update(writer.close())
        except BaseException:
            writer.abandon()
            sinks.abandon()
            if journal is not None:
                journal.close()
            raise
    # A run that a collision ended has fewer frames than planned, and so has a sensor that was detached.
    counts = {one.name: one.count(scenario.duration_s) for one in _all_sensors(scenario, FrameOnBoard)}
    frames = {name: files[: counts[name]] for name, files in frames.items()}
    summary.collisions = collisions.hits
    summary.files = [
        one for name, files in frames.items() for file in files for one in (file, *_companions(file, rules[name]))
    ]
    if truth is not None:
        summary.files += [_boxes_of(file, scenario) for name in truth for file in frames[name]]
    summary.files += sinks.close()
    summary.files += _write_streams(scenario, streams, folder, report)
    summary.files += _write_truth(scenario, folder)
    summary.files += collisions.write(scenario, folder)
    summary.files += report.counts()
    earlier.hashes |= journal.hashes
    hashes = {file.relative_to(folder).as_posix(): earlier.hash_of(file) for file in summary.files}
    if scenario.ended is not None:
        content["ended"] = {"time_s": scenario.ended[0], "reason": scenario.ended[1]}
    write_inputs(folder, scenario, inputs)
    write_manifest(folder, content, complete=True, files=hashes)
    journal.remove()
    summary.collected = report if isinstance(report, RunReport) else None
    summary.report = report.write(hashes, summary.found, "" if watch is None else watch.on_page())
    return summary


def _all_sensors(scenario: Scenario, kind: type[Kind]) -> list[Kind]:
    """Sensors of a kind that were on board at any time of the run."""
    return [sensor for sensor in (*scenario.sensors, *scenario.detached) if isinstance(sensor, kind)]


def _note_attached(
    scenario: Scenario,
    sensor: OnBoard,
    folder: Path,
    rules: dict[str, FileRule | None],
    frames: dict[str, list[Path]],
    present: dict[str, set[int]],
    streams: dict[str, SampleHistory[Samples]],
) -> None:
    """Add a sensor that was attached during the run to the tables of outputs."""
    rule = rules[sensor.name] = FILES.get(sensor.record_type)
    if isinstance(sensor, StreamOnBoard):
        streams[sensor.name] = SampleHistory()
    elif rule is not None:
        frames[sensor.name], present[sensor.name] = _frame_files(scenario, sensor, rule, folder), set()


# ---- frames --------------------------------------------------------------------------------------------------------


def _frame_files(scenario: Scenario, sensor: FrameOnBoard, rule: FileRule, folder: Path) -> list[Path]:
    """Files of the frames of a sensor."""
    place = folder / sensor.folder_name / rule.folder
    place.mkdir(parents=True, exist_ok=True)
    ending = rule.ending(sensor, scenario)
    return [place / f"{number:06d}{ending}" for number in range(sensor.count(scenario.duration_s))]


def _boxes_of(cloud: Path, scenario: Scenario) -> Path:
    """File of the boxes of a cloud."""
    ending = ".txt" if scenario.settings.boxes == "kitti" else ".json"
    return cloud.parent.with_name(cloud.parent.name + "-boxes") / (cloud.name.partition(".")[0] + ending)


def _companions(file: Path, rule: FileRule | None) -> list[Path]:
    """Further files that belong to the file of a frame."""
    return [] if rule is None else rule.companions(file)


def _write_frame(
    scenario: Scenario, rule: FileRule, boxes: Any, record: Any, file: Path, journal: Journal
) -> list[str]:
    """Write a frame and its boxes, and add them to the journal. Return notes on skipped fields."""
    written = [file]
    if boxes is not None:
        written.append(_boxes_of(file, scenario))
        if scenario.settings.boxes == "kitti":
            write_kitti_labels(boxes, written[-1], axes="lidar")
        else:
            write_nuscenes_boxes([boxes], written[-1])
    notes = rule.write(record, file)
    journal.add(*written, *rule.companions(file))
    return notes


@contextmanager
def _paced(realtime: bool) -> Iterator[Callable[[float], None]]:
    """Yield a function that waits until the wall clock reaches a time of the run, if `realtime`."""
    start = wall.monotonic()

    def wait(time_s: float) -> None:
        if realtime:
            ahead = time_s - (wall.monotonic() - start)
            if ahead > 0:
                wall.sleep(ahead)

    yield wait


# ---- streams and truth ---------------------------------------------------------------------------------------------


def _write_streams(
    scenario: Scenario, streams: dict[str, SampleHistory[Samples]], folder: Path, report: NoReport
) -> list[Path]:
    files = []
    for sensor in _all_sensors(scenario, StreamOnBoard):
        if sensor.name not in streams or not len(streams[sensor.name]):  # attached after the last step
            continue
        samples = streams[sensor.name].joined()
        report.sampled(sensor.name, samples)
        rule = FILES.get(sensor.record_type)
        if rule is not None:
            file = folder / f"{sensor.name}{rule.ending(sensor, scenario)}"
            rule.write(samples, file)
            files += [file, *rule.companions(file)]
    return files


def _write_truth(scenario: Scenario, folder: Path) -> list[Path]:
    """Write the state of every vehicle at every step, and the pose of every frame sensor at the start of its frames."""
    files = []
    (folder / "truth").mkdir(exist_ok=True)
    times = np.arange(scenario.steps + 1) * scenario.settings.step_s
    for name, body in scenario.bodies.items():
        state = body.state(times)
        columns = {"time_s": state.time}
        for field_name, axes in (
            ("xyz", "xyz"),
            ("quat_xyzw", "xyzw"),
            ("velocity", "xyz"),
            ("angular_velocity", "xyz"),
            ("acceleration", "xyz"),
            ("angular_acceleration", "xyz"),
        ):
            values = getattr(state, field_name)
            columns |= {f"{field_name}_{axis}": values[:, k] for k, axis in enumerate(axes)}
        file, poses = folder / "truth" / f"{name}.csv", folder / "truth" / f"{name}.tum"
        write_columns(file, columns)
        tum.write_tum(TimedPoses(state.time, state.xyz, state.quat_xyzw), poses)
        files += [file, poses]
    for scanner in _all_sensors(scenario, FrameOnBoard):
        starts = np.array([scanner.start(k) for k in range(scanner.count(scenario.duration_s))])
        if len(starts):
            file = folder / "truth" / f"{scanner.name}.tum"
            tum.write_tum(TimedPoses(starts, *scanner.motion.sample(starts)), file)
            files.append(file)
    faults = {
        one.name: {name: fault.model_dump(mode="json") for name, fault in one.sensor.faults.present().items()}
        for one in (*scenario.sensors, *scenario.detached)
        if getattr(one.sensor, "faults", None) is not None
    }
    if faults:
        files.append(folder / "truth" / "faults.json")
        write_json(files[-1], faults)
    return files
