"""Foxglove messages of every step of a scenario, for a live server and for recordings.

    feed = FoxgloveFeed(scenario)
    channels = Channels(context, feed.topics)
    for message in feed.first():            # scene, static transforms, names of codes
        channels.log(message)
    for step in scenario:
        for message in feed.of(step):       # clouds, samples, truth, transforms, boxes, clock
            channels.log(message)

Topics and frames have the same names as in ROS. A scan is stamped with the time of its first shot and sent after its
last shot. Its points are as measured, each in the sensor frame at the time of its shot.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parhelion.core.errors import FormatError
from parhelion.core.frames import ECHO_ORIGINS
from parhelion.core.pose import Floats
from parhelion.motion.boxes import BoxTruth
from parhelion.outputs.feed import Due, Feed
from parhelion.outputs.foxglove.messages import (
    TIME_SCHEMA,
    Channels,
    FoxgloveMessage,
    as_json,
    json_schema,
    need_foxglove,
    schema_of,
    time_fields,
    transforms_message,
)
from parhelion.outputs.foxglove.rules import FOXGLOVE, FoxgloveContext
from parhelion.outputs.foxglove.scene import boxes_update, moving, packed, pose_of, scene_update, timestamp
from parhelion.outputs.topics import MAP, sensor_names, topic_rule, vehicle_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parhelion.contact.bodies import Collision
    from parhelion.scenario.scenario import Scenario, Step
    from parhelion.scenario.sensors import OnBoard

SCENE, BOXES, TF, TF_STATIC, CLOCK, NAMES = "/scene", "/boxes", "/tf", "/tf_static", "/clock", "/names"
COLLISIONS = "/collisions"
LATCHED = (SCENE, TF_STATIC, NAMES)
"""Topics that are sent once, and again to late subscribers."""
TRUTH_PERIOD_S = 0.02
"""Period of truth, transforms and clock [s]; once per step if steps are longer."""
BOXES_PERIOD_S = 0.1
PATH_PERIOD_S = 0.5
"""Period of path messages [s]. A path has one pose per `TRUTH_PERIOD_S`, and fewer if it is long."""
MOST_PATH_POSES = 1000


class FoxgloveFeed(Feed[FoxgloveMessage]):
    """Converts the steps of a scenario to Foxglove messages in chronological order."""

    def __init__(self, scenario: Scenario, *, images: str = "png", epoch_s: float = 0.0, batch_s: float = 0.0) -> None:
        """Start a feed. `epoch_s` [s] is the time at the start of the scenario; `images` is png or jpeg.

        With `batch_s` [s], messages are created in batches of that duration, which is much faster.
        """
        need_foxglove()
        super().__init__(
            scenario, sensor_names(scenario, {}, {}, "all"), vehicle_names(scenario, {}, {}), epoch_s, batch_s
        )
        self._moving = moving(scenario.world)
        self._boxes = BoxTruth(scenario.world, mobility=("movable", "dynamic"), sensor=())
        self._colours: dict[str, Floats] = {}
        self.topics = self._schemas()
        """Schema of the SDK, by topic."""
        heard = [self.sensors[sensor.name].topic for sensor in self._heard()]
        self._check_distinct([*heard, SCENE, BOXES, TF, TF_STATIC, CLOCK, NAMES])
        for sensor in self._heard():
            named, length_s = self.sensors[sensor.name], getattr(sensor, "length_s", 0.0)
            context = FoxgloveContext(named.topic, named.frame, self.stamp, length_s, images)
            self._rules[sensor.name] = FOXGLOVE.require(sensor.record_type), context

    def restart(self) -> None:
        """Restart together with the scenario."""
        super().restart()
        self._truth_due, self._boxes_due = Due(TRUTH_PERIOD_S), Due(BOXES_PERIOD_S)
        self._truth_at: list[float] = []
        self._boxes_at: list[float] = []
        self._path_due = Due(PATH_PERIOD_S)
        self._paths: dict[str, _Path] = {name: _Path() for name in self.vehicles}

    def _heard(self) -> list[OnBoard]:
        """Sensors with a topic, which is the same as in ROS."""
        return [
            sensor
            for sensor in self.scenario.sensors
            if sensor.name in self.sensors and FOXGLOVE.get(sensor.record_type) is not None
        ]

    def _framed(self) -> list[OnBoard]:
        """Sensors with their own frame; odometry uses the frame of its vehicle."""
        return [sensor for sensor in self._heard() if not topic_rule(sensor).of_vehicle]

    def _schemas(self) -> dict[str, Any]:
        found = {
            SCENE: schema_of("SceneUpdate"),
            BOXES: schema_of("SceneUpdate"),
            TF: schema_of("FrameTransforms"),
            TF_STATIC: schema_of("FrameTransforms"),
            CLOCK: json_schema("parhelion.Clock", {"timestamp": TIME_SCHEMA}),
            NAMES: json_schema("parhelion.Names", {key: {"type": "object"} for key in self._names()}),
        }
        if self.scenario.has_contact:
            found[COLLISIONS] = schema_of("Log")
        for sensor in self._heard():
            rule, topic = FOXGLOVE.require(sensor.record_type), self.sensors[sensor.name].topic
            found |= rule.schemas(sensor, self.scenario, topic)
        for vehicle in self.vehicles.values():
            found[f"{vehicle.topic}/ground_truth/pose"] = schema_of("PoseInFrame")
            found[f"{vehicle.topic}/ground_truth/path"] = schema_of("PosesInFrame")
        return found

    def _names(self) -> dict[str, dict[str, str]]:
        """Names of the codes in coded fields of clouds."""
        world = self.scenario.world
        tables = {
            "label": world.label_names,
            "material": dict(enumerate(material.name for material in world.materials)),
            "origin": dict(enumerate(ECHO_ORIGINS)),
            "source": world.source_names,
        }
        return {field: {str(number): word for number, word in table.items()} for field, table in tables.items()}

    # ---- schedule of messages ------------------------------------------------------------------------------------

    def first(self) -> list[FoxgloveMessage]:
        """Messages that are sent once, at the start."""
        at = self.stamp(0.0)
        placed = [(parent, child, pose.xyz, pose.quat_xyzw) for parent, child, pose in self._mounts()]
        return [
            FoxgloveMessage(SCENE, at, scene_update(self.scenario.world, MAP, at)),
            FoxgloveMessage(TF_STATIC, at, transforms_message(placed, at)),
            FoxgloveMessage(NAMES, at, as_json(self._names())),
        ]

    def _note(self, step: Step) -> None:
        self._held += [self._log(step.time, one) for one in step.collisions]
        for time_s in (0.0, step.time) if step.number == 0 else (step.time,):
            if self._truth_due(time_s):
                self._truth_at.append(time_s)
            if self._boxes_due(time_s):
                self._boxes_at.append(time_s)

    def _log(self, time_s: float, one: Collision) -> FoxgloveMessage:
        """Contact of a vehicle as a log message."""
        from foxglove.messages import Log, LogLevel

        place = ", ".join(f"{value:.2f}" for value in one.xyz)
        text = f"{one.body} hit {one.other} at ({place}) m, {one.impulse_n_s:.3g} N s"
        at = self.stamp(time_s)
        log = Log(timestamp=timestamp(at), level=LogLevel.Warning, message=text, name=one.body)
        return FoxgloveMessage(COLLISIONS, at, log.encode())

    def _noted(self) -> Iterator[FoxgloveMessage]:
        yield from self._truth(self._truth_at)
        yield from (self._boxes_message(time_s) for time_s in self._boxes_at)
        self._truth_at, self._boxes_at = [], []

    # ---- truth ---------------------------------------------------------------------------------------------------

    def _truth(self, times: list[float]) -> Iterator[FoxgloveMessage]:
        from foxglove.messages import PoseInFrame

        if not times:
            return
        at_times = np.array(times)
        places = {name: self.scenario.body(name).state(at_times) for name in self.vehicles}
        actors = [(frame, *motion.sample(at_times)) for frame, motion in self._moving]
        for row, time_s in enumerate(times):
            at, path_due = self.stamp(time_s), self._path_due(time_s)
            moved = [(MAP, frame, xyz[row], quat[row]) for frame, xyz, quat in actors]
            yield FoxgloveMessage(CLOCK, at, as_json({"timestamp": time_fields(at)}))
            for name, vehicle in self.vehicles.items():
                xyz, quat = places[name].xyz[row], places[name].quat_xyzw[row]
                moved.append((MAP, vehicle.frame, xyz, quat))
                pose = PoseInFrame(timestamp=timestamp(at), frame_id=MAP, pose=pose_of(xyz, quat))
                yield FoxgloveMessage(f"{vehicle.topic}/ground_truth/pose", at, pose.encode())
                self._paths[name].add(xyz, quat)
                if path_due:
                    path = self._paths[name].message(at)
                    yield FoxgloveMessage(f"{vehicle.topic}/ground_truth/path", at, path)
            if moved:
                yield FoxgloveMessage(TF, at, transforms_message(moved, at))

    def _boxes_message(self, time_s: float) -> FoxgloveMessage:
        boxes = self._boxes.at(time_s)
        if any(box.label not in self._colours for box in boxes):
            from parhelion.pictures.style import label_colours

            words = self.scenario.world.label_names
            self._colours = {words[number]: colour for number, colour in label_colours(words).items()}
        at = self.stamp(time_s)
        return FoxgloveMessage(BOXES, at, boxes_update(boxes, self._colours, MAP, at))


class _Path:
    """Past poses of a vehicle; a long path is thinned out to every second, fourth, ... pose."""

    def __init__(self) -> None:
        self._poses: list[Any] = []
        self._every, self._count = 1, 0

    def add(self, xyz: Floats, quat_xyzw: Floats) -> None:
        self._latest = pose_of(xyz, quat_xyzw)
        if self._count % self._every == 0:
            self._poses.append(self._latest)
        self._count += 1
        if len(self._poses) > MOST_PATH_POSES:
            self._poses, self._every = self._poses[::2], 2 * self._every

    def message(self, time_ns: int) -> bytes:
        from foxglove.messages import PosesInFrame

        ends_here = self._poses[-1] is self._latest
        poses = self._poses if ends_here else [*self._poses, self._latest]
        return packed(PosesInFrame(timestamp=timestamp(time_ns), frame_id=MAP, poses=poses))


# ---- output ---------------------------------------------------------------------------------------------------------
# Recording of a run for Foxglove: folder/foxglove.mcap with the scene, clouds, samples, truth and boxes.


NAME = "foxglove.mcap"
BATCH_S = 1.0
"""Duration of a batch of messages [s of the run]."""


class _Unbuffered:
    """Unbuffered file that stores its first error, because the SDK's own errors do not name the file."""

    def __init__(self, place: Path) -> None:
        self.failure: OSError | None = None
        self._file = place.open("wb", buffering=0)

    def write(self, data: bytes) -> int:
        try:
            # An unbuffered write may be partial.
            view = memoryview(data)
            done = 0
            while done < len(view):
                done += self._file.write(view[done:]) or 0
        except OSError as error:
            self.failure = self.failure or error
            raise
        return done

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def flush(self) -> None:
        """Do nothing; the file is not buffered."""

    def close(self) -> None:
        self._file.close()


class FoxgloveSink:
    """Writes the messages of every step. An interrupted run leaves a recording that is readable up to that point.

    A recording of an earlier run is replaced only when the new one is complete.
    """

    def __init__(self, scenario: Scenario, folder: Path, images: str = "png") -> None:
        foxglove = need_foxglove()
        from foxglove.mcap import MCAPWriteOptions

        self._feed = FoxgloveFeed(scenario, images=images, batch_s=BATCH_S)
        self.path = folder / NAME
        if self.path.is_dir():
            raise FormatError(f"{self.path}: is a folder, not a file")
        self._place = self.path.with_name("foxglove.new.mcap") if self.path.exists() else self.path
        # Channels lose their sinks when the context is deleted, so a reference is stored.
        self._context = foxglove.Context()
        try:
            self._file = _Unbuffered(self._place)
        except OSError as error:
            raise FormatError(f"{self.path}: cannot be written ({error.strerror})") from None
        # One thread and no seeking: the same bits on every machine, and only complete chunks on disk.
        options = MCAPWriteOptions(compression_threads=0, disable_seeking=True)
        self._writer: Any = foxglove.open_mcap(self._file, context=self._context, writer_options=options)
        self._channels = Channels(self._context, self._feed.topics)
        try:
            self._write(self._feed.first())
        except BaseException:
            self.abandon()
            raise

    def take(self, step: Step) -> None:
        """Write the messages of a step."""
        self._write(self._feed.of(step))

    def close(self) -> list[Path]:
        """Finish the recording and return its file."""
        self._write(self._feed.last())
        self._finish()
        if self._place != self.path:
            try:
                os.replace(self._place, self.path)
            except OSError as error:
                raise FormatError(f"{self.path}: cannot be written ({error.strerror})") from None
        return [self.path]

    def abandon(self) -> None:
        """Finish the recording of an interrupted run, or discard it if it would replace an earlier one."""
        with suppress(FormatError):
            if self._file.failure is None:
                self._write(self._feed.last())
        with suppress(FormatError):
            self._finish()
        if self._place != self.path:
            with suppress(OSError):
                self._place.unlink()

    def _write(self, messages: Iterable[FoxgloveMessage]) -> None:
        for message in messages:
            self._channels.log(message)
            self._check()

    def _finish(self) -> None:
        self._channels.close()
        try:
            self._writer.close()
        except Exception as error:  # errors of the SDK do not name the file
            raise self._unwritten(error) from None
        finally:
            self._file.close()
        self._check()

    def _check(self) -> None:
        if self._file.failure is not None:
            raise self._unwritten(self._file.failure)

    def _unwritten(self, error: Exception) -> FormatError:
        reason = self._file.failure or error
        return FormatError(f"{self.path}: cannot be written ({getattr(reason, 'strerror', None) or reason})")
