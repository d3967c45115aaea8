"""Reading of drives for rebuilding: revolutions with lost shots and times, and recorded poses.

Revolutions come from captures, bags, clouds and folders of clouds, one at a time; a long recording is thinned evenly
while it is read, so that memory stays bounded.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path as File
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import ConfigError, FormatError, ParhelionError
from parhelion.core.pose import Pose, quat_slerp
from parhelion.io import poses as pose_files
from parhelion.io.poses import TimedPoses
from parhelion.io.recordings import cloud_topic, clouds_of, existing
from parhelion.io.ros import BagReader, is_bag
from parhelion.io.ros import messages as ros
from parhelion.io.ros.transforms import TransformTree
from parhelion.rebuild.frames import Floats, FrameShots, Path
from parhelion.sensors.optics.lidar.config import SpinningPattern
from parhelion.sensors.optics.lidar.lidar import Lidar
from parhelion.sensors.optics.lidar.recorded_shots import recorded_shots

MOST_FRAMES = 240
"""Largest number of revolutions that are kept."""
LEAST_POINTS = 100
BLIND_DEG = 2.0
"""Size of the cells of directions in which a sensor that never receives a return is blind."""
LEAST_FRAMES_OF_MASK = 5


@dataclass
class RecordedDrive:
    """Revolutions of a recording."""

    source: str
    frames: list[FrameShots]
    read: int
    """Number of revolutions in the recording, including those that were omitted."""
    poses: TimedPoses | None = None
    """Poses that the recording contains (tf or odometry of a bag)."""
    notes: list[str] = field(default_factory=list)


# ---- revolutions -----------------------------------------------------------------------------------------------------


def read_frames(
    path: File,
    lidar: Lidar,
    *,
    topic: str | None = None,
    near_m: float = 1.0,
    most: int = MOST_FRAMES,
    advance: Callable[[], None] = lambda: None,
) -> RecordedDrive:
    """Read the revolutions of a recording; returns nearer than `near_m` belong to the vehicle and are dropped."""
    existing(path)
    drive, stride = RecordedDrive(str(path), [], 0), 1
    fewer = 0
    for number, (name, cloud) in enumerate(clouds_of(path, topic=topic, sensor=lidar.model, keep_lost=True)):
        drive.read = number + 1
        advance()
        if number % stride:
            continue
        frame = frame_of(cloud, lidar, f"{name}" if "frame" in name else f"{name}, frame {number}", number, drive.notes)
        if frame.returned.sum() < LEAST_POINTS:
            fewer += 1
            continue
        near = np.nan_to_num(frame.range_m, nan=np.inf) < near_m
        drive.frames.append(frame.rows(~near))
        if len(drive.frames) >= 2 * most:
            drive.frames, stride = drive.frames[::2], 2 * stride
    if fewer:
        drive.notes.append(f"{fewer} revolutions with fewer than {LEAST_POINTS} returns were omitted")
    drive.frames = _whole(drive.frames)
    if not drive.frames:
        raise FormatError(f"{path}: has no revolution with at least {LEAST_POINTS} returns")
    if len(drive.frames) > most:
        chosen = np.unique(np.linspace(0, len(drive.frames) - 1, most).astype(int))
        drive.frames = [drive.frames[k] for k in chosen]
    if len(drive.frames) < drive.read - fewer:
        drive.notes.append(f"{len(drive.frames)} of {drive.read} revolutions were used")
    drive.notes = list(dict.fromkeys(drive.notes))
    if is_bag(path):
        drive.poses = bag_poses(path, topic)
    return drive


def _whole(frames: list[FrameShots]) -> list[FrameShots]:
    """Frames without a partial first or last revolution, as captures contain them."""
    if len(frames) < 3:
        return frames
    typical = float(np.median([len(frame) for frame in frames]))
    ends = [0, len(frames) - 1]
    return [frame for k, frame in enumerate(frames) if k not in ends or len(frame) > 0.9 * typical]


def frame_of(cloud: PointCloud, lidar: Lidar, name: str, number: int, notes: list[str]) -> FrameShots:
    """Shots of one cloud; lost ones are included if the cloud has them or its rings determine them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shots = recorded_shots(cloud, lidar, "auto")
    except ConfigError as error:
        raise ConfigError(f"{name}: {str(error).removeprefix('weather: ')}") from None
    notes += [note for note in shots.notes if "rings of" in note]
    every = np.arange(shots.count)
    lost = every >= shots.points_shots
    vector = shots.vectors.astype(np.float64)
    length = np.linalg.norm(vector, axis=1)
    known = np.isfinite(length) & (length > 1e-6)
    range_m = np.where(lost, np.nan, length)
    alike = shots.row_like(every)

    def of_shots(key: str, default: float) -> NDArray[Any]:
        if key not in cloud.fields or (lost.any() and key not in shots.lost):
            return np.full(shots.count, default)
        return shots.of_shot(key, cloud.fields[key], alike, np.flatnonzero(lost), every)

    direction = vector / np.maximum(length, 1e-9)[:, None]
    exits = shots.exits(every)
    origin = np.zeros((shots.count, 3)) if exits is None else exits
    level = shots.reflectance if shots.intensity is None else shots.intensity
    value = np.full(shots.count, np.nan) if level is None else level[alike].astype(np.float64)
    time = of_shots("time", np.nan).astype(np.float64)
    if not np.isfinite(time[known]).all():
        time = _times_by_azimuth(direction, lidar)
    middle = 0.5 * (time[known].min() + time[known].max()) if known.any() else 0.0
    start = _start_of(cloud, number, lidar)
    frame = FrameShots(
        name,
        start + middle,
        direction.astype(np.float32),
        range_m.astype(np.float32),
        origin.astype(np.float32),
        (time - middle).astype(np.float32),
        of_shots("ring", -1).astype(np.int16),
        np.where(lost, np.nan, value).astype(np.float32),
        bool(lost.any()),
        shots.intensity is None,
    )
    return frame.rows(known)


def _times_by_azimuth(direction: Floats, lidar: Lidar) -> Floats:
    """Times of shots within a revolution from their azimuth, for clouds without times; zeros for other patterns."""
    pattern = lidar.config.pattern
    if not isinstance(pattern, SpinningPattern):
        return np.zeros(len(direction))
    sense = -1.0 if pattern.direction == "clockwise" else 1.0
    azimuth = np.arctan2(direction[:, 1], direction[:, 0])
    share = sense * (azimuth - np.radians(pattern.azimuth_start_deg)) / (2.0 * np.pi) % 1.0
    return np.asarray(share / lidar.rate_hz)


def _start_of(cloud: PointCloud, number: int, lidar: Lidar) -> float:
    if isinstance(cloud, Scan):
        return float(cloud.start_time)
    stamp = cloud.metadata.get("time")
    return float(stamp) if isinstance(stamp, (int, float)) else number / lidar.rate_hz


# ---- masks -----------------------------------------------------------------------------------------------------------


def cell_of(direction: NDArray[Any]) -> NDArray[np.int64]:
    """Cell of directions in the sensor frame, by azimuth and elevation."""
    azimuth = np.degrees(np.arctan2(direction[:, 1], direction[:, 0])) % 360.0
    elevation = np.degrees(np.arcsin(np.clip(direction[:, 2], -1.0, 1.0))) + 90.0
    columns = round(360.0 / BLIND_DEG)
    return np.minimum((elevation / BLIND_DEG).astype(np.int64), columns // 2 - 1) * columns + np.minimum(
        (azimuth / BLIND_DEG).astype(np.int64), columns - 1
    )


def blind_cells(frames: list[FrameShots]) -> NDArray[np.bool_]:
    """Mask of the cells of directions in which no revolution has a return: the vehicle, a filter, or always sky."""
    columns = round(360.0 / BLIND_DEG)
    shots, returns = (np.zeros(columns * columns // 2, np.int64) for _ in range(2))
    for frame in frames:
        cell = cell_of(frame.direction)
        shots += np.bincount(cell, minlength=len(shots))
        returns += np.bincount(cell[frame.returned], minlength=len(shots))
    if len(frames) < LEAST_FRAMES_OF_MASK:
        return np.zeros(len(shots), bool)
    return np.asarray((shots > 2 * len(frames)) & (returns < 0.01 * shots))


# ---- poses -----------------------------------------------------------------------------------------------------------


def read_poses(path: File, count: int) -> TimedPoses:
    """Poses of a TUM file (eight numbers per line), or of a KITTI file (twelve), which has one pose per revolution."""
    existing(path)
    try:
        return pose_files.read_tum(path)
    except ParhelionError as problem:
        try:
            found = pose_files.read_kitti(path, rate_hz=1.0)
        except ParhelionError:
            raise problem from None
    if len(found) != count:
        raise ConfigError(
            f"{path}: has {len(found)} poses without times, but the recording has {count} revolutions; give one per "
            "revolution, or a TUM file with times"
        )
    return found


def bag_poses(path: File, topic: str | None) -> TimedPoses | None:
    """Poses of the lidar in a bag, from `/tf` or else an odometry topic; None if it has neither."""
    bag = BagReader(path)
    clouds = cloud_topic(bag, topic)
    tree = TransformTree()
    stamps: list[int] = []
    frame = ""
    odometry = [one.name for one in bag.of_type(ros.ODOMETRY)][:1]
    rows: list[tuple[int, Pose]] = []
    wanted = [name for name in ("/tf", "/tf_static") if name in bag.topics]
    for message in bag.messages([clouds, *wanted, *odometry]):
        if message.topic in wanted:
            tree.add(message.data, static=message.topic == "/tf_static")
            continue
        read: Any = ros.decode(message.type, message.data)
        stamp = ros.nanoseconds(read.header.stamp)
        if message.topic == clouds:
            stamps.append(stamp)
            frame = frame or str(read.header.frame_id)
        else:
            place, turn = read.pose.pose.position, read.pose.pose.orientation
            rows.append((stamp, Pose((place.x, place.y, place.z), (turn.x, turn.y, turn.z, turn.w))))
    found = [(stamp, tree.pose(frame, stamp)) for stamp in stamps] if "/tf" in wanted else []
    moving = [(stamp, pose) for stamp, pose in found if pose is not None]
    chosen = moving if len(moving) == len(stamps) and moving else _mounted(rows, tree, frame)
    if len(chosen) < 2:
        return None
    times = np.array([stamp / 1e9 for stamp, _ in chosen])
    keep = np.concatenate([[True], np.diff(times) > 0.0])
    xyz = np.stack([pose.xyz for _, pose in chosen])
    return TimedPoses(times[keep], xyz[keep], np.stack([pose.quat_xyzw for _, pose in chosen])[keep])


def _mounted(rows: list[tuple[int, Pose]], tree: TransformTree, frame: str) -> list[tuple[int, Pose]]:
    """Poses of an odometry with the mount of the lidar, if the static transforms contain it."""
    if not rows:
        return []
    mount = tree.pose(frame, rows[0][0], "base_link") or Pose()
    return [(stamp, pose @ mount) for stamp, pose in rows]


def poses_at(poses: TimedPoses, frames: list[FrameShots], source: str) -> tuple[Floats, Floats]:
    """Positions and orientations of frames, interpolated in time, or in order for as many poses as frames."""
    times = np.array([frame.time_s for frame in frames])
    known = poses.times
    slack = max(float(np.median(np.diff(known))) if len(known) > 1 else 0.0, 0.11)
    outside = (times < known[0] - slack) | (times > known[-1] + slack)
    if outside.any():
        if len(poses) == len(frames):
            return poses.xyz.copy(), poses.quat_xyzw.copy()
        first = frames[int(np.argmax(outside))]
        raise ConfigError(
            f"{source}: the poses cover {known[0]:.3f} to {known[-1]:.3f} s, but {first.name} is at "
            f"{first.time_s:.3f} s; give poses on the clock of the recording, or one pose per revolution"
        )
    after = np.clip(np.searchsorted(known, times), 1, max(len(known) - 1, 1))
    if len(known) == 1:
        return np.repeat(poses.xyz, len(times), axis=0), np.repeat(poses.quat_xyzw, len(times), axis=0)
    share = np.clip((times - known[after - 1]) / (known[after] - known[after - 1]), 0.0, 1.0)
    xyz = poses.xyz[after - 1] + share[:, None] * (poses.xyz[after] - poses.xyz[after - 1])
    return xyz, quat_slerp(poses.quat_xyzw[after - 1], poses.quat_xyzw[after], share)


def scaled_delays(frames: list[FrameShots], skew: float) -> list[FrameShots]:
    """Frames whose delays are multiplied by a factor: 0 makes snapshots of them."""
    return [replace(frame, delay_s=np.float32(skew) * frame.delay_s) for frame in frames]


def each(frames: list[FrameShots], path: Path) -> Iterator[tuple[FrameShots, Floats, Floats]]:
    """Frames with the start points and directions of their shots in the world."""
    for number, frame in enumerate(frames):
        yield frame, *path.rays(number, frame)
