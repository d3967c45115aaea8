"""View sources of recorded clouds: one cloud, or those of a capture, a bag or a folder, with weather on request."""

from __future__ import annotations

import math
import time as clock
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import FormatError, ParhelionError
from parhelion.core.pose import Pose, quat_rotate
from parhelion.core.trajectory import Trajectory, Waypoints, pose_at
from parhelion.io.formats import format_of, read_cloud
from parhelion.io.recordings import cloud_files, cloud_topics, is_capture, numbered_frames
from parhelion.io.ros import BagReader, Message, cloud_of, decode, is_bag
from parhelion.live.viewer.frames import MOST_COLUMNS, CameraFrame
from parhelion.live.viewer.layers import Segments
from parhelion.live.viewer.stages import PLACED_AHEAD_M, PlainBody, Request, ViewFrame, joined, weather_of
from parhelion.weather import Weather, media
from parhelion.world.world import World

if TYPE_CHECKING:
    from parhelion.io.ros.transforms import TransformTree
    from parhelion.sensors.optics.lidar.lidar import Lidar

MOST_POINTS = 2_000_000
"""Maximum number of displayed points of a recording."""
_FAR_M = 1000.0
_FRAMES_KEPT = 8
_DEFAULT_PERIOD_S = 0.1
Item = TypeVar("Item")
PATH_COLOUR = (255, 180, 84)


def displayed(cloud: PointCloud) -> ViewFrame:
    """Points with coordinates of a cloud, thinned if there are too many, near the origin of the screen."""
    there = np.isfinite(cloud.xyz).all(axis=1)
    notes = []
    if not there.all():
        notes.append(f"{np.count_nonzero(~there)} rows without coordinates omitted")
        cloud = cloud.select(there)
    if len(cloud) > MOST_POINTS:
        every = math.ceil(len(cloud) / MOST_POINTS)
        notes.append(f"every {every}th of {len(cloud)} points shown")
        cloud = cloud.select(slice(None, None, every))
    middle = np.median(cloud.xyz, axis=0) if len(cloud) else np.zeros(3)
    offset = np.round(middle) if np.abs(middle).max() > _FAR_M else np.zeros(3)
    return ViewFrame(cloud, offset=offset.astype(np.float64), notes=tuple(notes))


# ---- tracks: the clouds of one lidar over time ----------------------------------------------------------------------


class Track(Protocol):
    """Clouds of one lidar of a recording, in order of time."""

    starts: Sequence[float]
    """Start of each cloud [s], rising, on the clock of the recording."""
    motion: Trajectory | None
    """Motion of the lidar in the world, on the same clock; None if it is unknown."""

    def cloud(self, number: int) -> PointCloud:
        """Read one cloud."""
        ...


class InOrder(Generic[Item]):
    """Items that can only be read in order, such as the frames of a capture; going back reads from the beginning."""

    def __init__(self, read: Callable[[], Iterator[Item]], count: int) -> None:
        self._read = read
        self._ahead: Iterator[Item] = iter(())
        self._next = count

    def item(self, number: int) -> Item:
        """Read one item."""
        if number < self._next:
            self._ahead, self._next = self._read(), 0
        found = next(islice(self._ahead, number - self._next, None), None)
        self._next = number + 1
        if found is None:
            raise FormatError("the recording ended early: it changed while it was shown")
        return found


class ReadTrack:
    """Clouds that can only be read in order."""

    def __init__(
        self, starts: Sequence[float], read: Callable[[], Iterator[PointCloud]], motion: Trajectory | None = None
    ) -> None:
        self.starts, self.motion = starts, motion
        self._clouds = InOrder(read, len(starts))

    def cloud(self, number: int) -> PointCloud:
        """Read one cloud."""
        return self._clouds.item(number)


class FileTrack:
    """Clouds in one file each."""

    def __init__(
        self,
        files: Sequence[Path],
        starts: Sequence[float],
        *,
        read_as: str | None = None,
        motion: Trajectory | None = None,
    ) -> None:
        self.files, self.starts, self.motion, self._read_as = files, starts, motion, read_as

    def cloud(self, number: int) -> PointCloud:
        """Read one cloud."""
        return read_cloud(self.files[number], format=self._read_as)


def placed(cloud: PointCloud, motion: Trajectory | None, start_s: float) -> PointCloud:
    """Cloud in the world frame: each point at the time of its shot, if the cloud has the field `time`."""
    if motion is None or cloud.frame == "world":
        return cloud
    xyz = np.asarray(cloud.xyz, np.float64)
    offsets = cloud.fields.get("time")
    if cloud.frame == "sensor" and offsets is not None and offsets.ndim == 1 and len(cloud):
        # Some drivers store absolute times, which are useless here.
        local = np.asarray(offsets, np.float64)
        local = local if np.abs(local).max() < 10.0 else np.zeros(len(local))
        times, rows = np.unique(local, return_inverse=True)
        at, turn = motion.sample(start_s + times)
        return PointCloud(quat_rotate(turn[rows], xyz) + at[rows], cloud.fields, "world", cloud.names, cloud.metadata)
    pose = pose_at(motion, start_s)
    return PointCloud(pose.apply(xyz), cloud.fields, "world", cloud.names, cloud.metadata)


def path_of(motion: Trajectory, times: Sequence[float], most: int = 2000) -> Segments | None:
    """Line along a motion at some times [s]."""
    chosen = np.asarray(times, np.float64)[:: max(1, len(times) // most)]
    if len(chosen) < 2:
        return None
    xyz, _ = motion.sample(chosen)
    ends = np.stack([xyz[:-1], xyz[1:]], axis=1)
    return Segments(ends, np.tile(np.array(PATH_COLOUR, np.uint8), (len(ends), 2, 1)))


# ---- stages ---------------------------------------------------------------------------------------------------------


class RecordingStage:
    """Clouds of one or several lidars of a recording, shown together, with weather that is applied on request."""

    def __init__(
        self, title: str, tracks: Mapping[str, Track], *, sensor: str | None = None, models: Mapping[str, str] = {}
    ) -> None:
        """`sensor` is the model of all lidars, `models` that of each; by default the clouds name theirs."""
        self.title = title
        self.world: World | None = None
        self.cameras: tuple[str, ...] = ()
        self.lidars: tuple[str, ...] = tuple(tracks) if len(tracks) > 1 else ()
        self.plain_bodies: tuple[PlainBody, ...] = ()
        self.base_weather: Weather | None = None
        self.places: dict[str, Request] = {}
        self._tracks = dict(tracks)
        self._sensor, self._models = sensor, dict(models)
        self._made: dict[str, Lidar] = {}
        self._kept: OrderedDict[tuple[str, int], PointCloud] = OrderedDict()
        self._first = min(track.starts[0] for track in tracks.values())
        self._last = max(track.starts[-1] for track in tracks.values())
        self.duration_s = float(self._last - self._first)
        self._main = next(iter(tracks))
        self.media = tuple(media.table())
        """Media with a slider: none if the lidar is unknown."""
        self._unknown = ""
        name, track = next(iter(self._tracks.items()))
        try:
            self._lidar(name, self._cloud(name, track, 0))
        except ParhelionError as error:
            self.media, self._unknown = (), str(error)

    # ---- clock -------------------------------------------------------------------------------------------------

    def _number(self, track: Track, request: Request) -> int:
        return max(bisect_right(track.starts, self._first + request.time_s + 1e-6) - 1, 0)

    def _shown(self, request: Request) -> dict[str, Track]:
        shown = {name: track for name, track in self._tracks.items() if name not in request.hidden}
        return shown or dict(self._tracks)

    def _clock(self, request: Request) -> Track:
        return next(iter(self._shown(request).values()))

    def period_s(self, request: Request) -> float:
        """Time from this cloud to the next [s]."""
        track = self._clock(request)
        starts, number = track.starts, self._number(track, request)
        if number + 1 < len(starts):
            return max(float(starts[number + 1] - starts[number]), 1e-3)
        return float(starts[-1] - starts[0]) / (len(starts) - 1) if len(starts) > 1 else _DEFAULT_PERIOD_S

    def scan_start(self, request: Request) -> float:
        """Start [s] of the cloud that covers the requested time."""
        track = self._clock(request)
        return max(0.0, float(track.starts[self._number(track, request)] - self._first))

    # ---- clouds ------------------------------------------------------------------------------------------------

    def _cloud(self, name: str, track: Track, number: int) -> PointCloud:
        key = (name, number)
        if key not in self._kept:
            self._kept[key] = track.cloud(number)
            while len(self._kept) > _FRAMES_KEPT * len(self._tracks):
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def _lidar(self, name: str, cloud: PointCloud) -> Lidar:
        from parhelion.sensors.optics.lidar.lidar import Lidar

        model = self._sensor or self._models.get(name) or cloud.metadata.get("sensor")
        if not isinstance(model, str):
            raise FormatError("weather sliders need the model of the lidar: give it with --sensor")
        if model not in self._made:
            self._made[model] = Lidar(model)
        return self._made[model]

    def _in_air(self, name: str, cloud: PointCloud, number: int, start: float, request: Request) -> PointCloud:
        """Cloud in the weather of the sliders, with the drops of `parhelion weather`."""
        weather = weather_of(self.base_weather, request, (PLACED_AHEAD_M, 0.0, 0.0))
        if weather is None:
            return cloud
        lidar = self._lidar(name, cloud)
        return weather.apply(cloud, sensor=lidar, frame=number, time=start - self._first, pose=Pose())

    def measure(self, request: Request) -> ViewFrame:
        """Clouds of all shown lidars at a time."""
        begun = clock.perf_counter()
        clouds: dict[str, PointCloud] = {}
        notes: list[str] = []
        shots = 0
        pose: Pose | None = None
        for name, track in self._shown(request).items():
            number = self._number(track, request)
            start = float(track.starts[number])
            recorded = self._cloud(name, track, number)
            wet = self._in_air(name, recorded, number, start, request)
            prefix = f"{name}: " if self.lidars else ""
            if isinstance(recorded, Scan):
                shots += len(recorded.shots)
                notes.append(f"{prefix}frame {number} of {len(track.starts)}, {lost_shots(recorded)}")
                if recorded.metadata.get("missing_columns"):
                    notes.append(f"{recorded.metadata['missing_columns']} columns are missing: packets were lost")
            else:
                notes.append(f"{prefix}cloud {number} of {len(track.starts)}")
            notes += [f"{prefix}{note}" for note in wet.metadata.get("weather_notes", [])[:1]]
            if pose is None and track.motion is not None:
                pose = pose_at(track.motion, start)
            clouds[name] = placed(wet, track.motion, start)
        shown = displayed(joined(clouds))
        now = self.scan_start(request)
        found = replace(
            shown,
            time_s=now,
            pose=pose,
            offset=shown.offset if pose is None else np.zeros(3),
            shots=shots,
            seconds=clock.perf_counter() - begun,
            notes=(*notes, *shown.notes, *((self._unknown,) if self._unknown else ())),
        )
        return self._with_others(found, request, self._first + now)

    def _with_others(self, found: ViewFrame, request: Request, time_s: float) -> ViewFrame:
        """Add the data of other sensors at a time [s] on the clock of the recording."""
        path = [
            line
            for track in self._tracks.values()
            if track.motion is not None and (line := path_of(track.motion, list(track.starts))) is not None
        ]
        return replace(found, segments=(*found.segments, *path[:1]))


def lost_shots(scan: Scan) -> str:
    """Number of shots without a return, as text."""
    return f"{int(scan.lost.sum())} shots without a return"


class CloudStage(RecordingStage):
    """Recorded cloud."""

    def __init__(self, cloud: PointCloud, title: str = "cloud", *, sensor: str | None = None) -> None:
        self._cloud_shown = displayed(cloud)
        super().__init__(title, {title: ReadTrack([0.0], lambda: iter([cloud]))}, sensor=sensor)

    def measure(self, request: Request) -> ViewFrame:
        """The cloud."""
        if weather_of(self.base_weather, request, (0.0, 0.0, 0.0)) is None:
            notes = (*self._cloud_shown.notes, *((self._unknown,) if self._unknown else ()))
            return replace(self._cloud_shown, notes=notes)
        return super().measure(request)


class FramesStage(RecordingStage):
    """Frames of a capture on its own clock, read on demand."""

    def __init__(self, path: Path, *, sensor: str | None = None) -> None:
        super().__init__(path.name, {path.name: capture_track(path, sensor)}, sensor=sensor)


def capture_track(path: Path, sensor: str | None) -> ReadTrack:
    """Track of a capture. One pass finds the times of all frames, with one frame in memory at a time."""
    starts: list[float] = []
    for _, scan in numbered_frames(path, sensor=sensor):
        at = scan.start_time
        # The clock of a sensor may be reset while it runs; the clock of the page continues.
        starts.append(at if not starts or at > starts[-1] else starts[-1] + _DEFAULT_PERIOD_S)
    return ReadTrack(starts, lambda: (scan for _, scan in numbered_frames(path, sensor=sensor)))


def folder_track(folder: Path, *, read_as: str | None = None, sensor: str | None = None) -> FileTrack:
    """Track of a folder of cloud files, at the rate of the lidar."""
    files = [file for file in cloud_files(folder, read_as) if not is_capture(file, read_as)]
    if not files:
        raise FormatError(f"{folder}: contains captures only; view one of them")
    endings = {file.name.partition(".")[2] for file in files}
    if len(endings) > 1 and read_as is None:  # copies of the same clouds in several formats
        kinds = {format_of(file, None).name for file in files}
        if len(kinds) > 1:
            raise FormatError(f"{folder}: contains clouds in several formats; select one with --format")
    period = _DEFAULT_PERIOD_S
    model = sensor or read_cloud(files[0], format=read_as).metadata.get("sensor")
    if isinstance(model, str):
        from parhelion.sensors.optics.lidar.lidar import Lidar

        period = 1.0 / Lidar(model).rate_hz
    return FileTrack(files, [period * number for number in range(len(files))], read_as=read_as)


# ---- bags -----------------------------------------------------------------------------------------------------------


class BagStage(RecordingStage):
    """Clouds and images of a ROS 2 bag, placed by its transforms."""

    def __init__(self, path: Path, *, topic: str | None = None, sensor: str | None = None) -> None:
        from parhelion.io.ros.messages import COMPRESSED_IMAGE, IMAGE
        from parhelion.io.ros.transforms import TF_MESSAGE, TransformTree

        bag = BagReader(path)
        topics = [one.name for one in cloud_topics(bag, topic) if one.count]
        pictures = [one.name for kind in (IMAGE, COMPRESSED_IMAGE) for one in bag.of_type(kind) if one.count]
        self._pictures: dict[str, list[int]] = {name: [] for name in pictures if "/ground_truth/" not in name}
        transforms = [one.name for one in bag.of_type(TF_MESSAGE)]
        stamps: dict[str, list[int]] = {name: [] for name in topics}
        frames: dict[str, str] = {}
        tree = TransformTree()
        for message in bag.messages([*topics, *self._pictures, *transforms]):
            if message.topic in stamps:
                if message.topic not in frames:
                    frames[message.topic] = str(cloud_of(message).metadata.get("frame_id", ""))
                earlier = stamps[message.topic]
                earlier.append(message.time_ns if not earlier else max(message.time_ns, earlier[-1] + 1))
            elif message.topic in self._pictures:
                self._pictures[message.topic].append(message.time_ns)
            else:
                tree.add(message.data, static=message.topic.endswith("_static"))
        topics = [name for name in topics if stamps[name]]
        if not topics:
            raise FormatError(f"{path}: its topics with point clouds are empty")
        tracks = {
            name: ReadTrack(
                [one * 1e-9 for one in stamps[name]],
                partial(_clouds_of_topic, bag, name),
                bag_motion(tree, frames[name], stamps[name]),
            )
            for name in topics
        }
        super().__init__(path.name, tracks, sensor=sensor, models=bag.sensors)
        self.cameras = tuple(self._pictures)
        self._images: dict[str, tuple[int, CameraFrame]] = {}
        self._image_messages = {
            name: InOrder(partial(bag.messages, [name]), len(times)) for name, times in self._pictures.items()
        }

    def _with_others(self, found: ViewFrame, request: Request, time_s: float) -> ViewFrame:
        found = super()._with_others(found, request, time_s)
        if not request.pictures:
            return found
        shots = tuple(shot for name in self.cameras if (shot := self._picture(name, time_s)) is not None)
        return replace(found, pictures=shots)

    def _picture(self, name: str, time_s: float) -> CameraFrame | None:
        """Last image of a topic before a time [s]."""
        number = bisect_right(self._pictures[name], round(time_s * 1e9) + 1000) - 1
        if number < 0:
            return None
        known = self._images.get(name)
        if known is None or known[0] != number:
            message = self._image_messages[name].item(number)
            pixels = picture_of(message)
            if pixels is None:
                return None
            self._images[name] = (number, CameraFrame(name, None, pixels, None, message.time_ns * 1e-9))
        return self._images[name][1]


def _clouds_of_topic(bag: BagReader, name: str) -> Iterator[PointCloud]:
    return (cloud_of(message) for message in bag.messages([name]))


def bag_motion(tree: TransformTree, frame: str, stamps: Sequence[int]) -> Waypoints | None:
    """Motion of a frame at some stamps [ns]; None if the transforms do not contain it."""
    found = [(stamp, pose) for stamp in stamps if (pose := tree.pose(frame, stamp)) is not None]
    if len(found) < len(stamps):
        return None
    return Waypoints([stamp * 1e-9 for stamp, _ in found], [pose for _, pose in found])


_BANDS = {"rgb": (0, 1, 2), "bgr": (2, 1, 0), "rgba": (0, 1, 2), "bgra": (2, 1, 0), "mono": (0, 0, 0)}


def picture_of(message: Message) -> NDArray[np.uint8] | None:
    """Red, green and blue (h, w, 3) of an image message; None for an encoding without colours, such as depth."""
    import io

    from PIL import Image

    from parhelion.io.ros.messages import COMPRESSED_IMAGE

    content = decode(message.type, message.data)
    if message.type == COMPRESSED_IMAGE:
        try:
            with Image.open(io.BytesIO(bytes(content.data))) as picture:
                pixels = np.asarray(picture.convert("RGB"))
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            raise FormatError(f"{message.topic}: an image cannot be read ({error})") from None
        return pixels[:: _step(pixels), :: _step(pixels)]
    bands = _BANDS.get(content.encoding.rstrip("0123456789"))
    if bands is None or content.encoding[-1:] not in "86":
        return None
    dtype = np.dtype(np.uint8 if content.encoding.endswith("8") else np.uint16)
    dtype = dtype.newbyteorder(">" if content.is_bigendian else "<")
    rows = np.asarray(content.data, np.uint8)
    if content.height * content.step != rows.size or not rows.size:
        raise FormatError(f"{message.topic}: an image has {rows.size} bytes, not {content.height} x {content.step}")
    values = rows.reshape(content.height, content.step).view(dtype)
    values = values[:, : values.shape[1] // content.width * content.width].reshape(content.height, content.width, -1)
    pixels = values[:: _step(values), :: _step(values)][..., list(bands)]
    return np.ascontiguousarray(pixels if dtype.itemsize == 1 else pixels >> 8, np.uint8)


def _step(pixels: NDArray[Any]) -> int:
    return int(-(-pixels.shape[1] // MOST_COLUMNS))


# ---- by path --------------------------------------------------------------------------------------------------------


def recording_stage(
    path: Path, *, read_as: str | None = None, sensor: str | None = None, topic: str | None = None
) -> RecordingStage:
    """View source of a recording: a bag, a capture, a folder of clouds, or a cloud."""
    if is_bag(path):
        return BagStage(path, topic=topic, sensor=sensor)
    if is_capture(path, read_as):
        return FramesStage(path, sensor=sensor)
    if path.is_dir():
        track = folder_track(path, read_as=read_as, sensor=sensor)
        return RecordingStage(path.name or str(path), {path.name: track}, sensor=sensor)
    return CloudStage(read_cloud(path, format=read_as), path.name, sensor=sensor)
