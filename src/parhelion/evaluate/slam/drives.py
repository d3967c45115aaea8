"""Drives for odometry evaluation: scans in time order, IMU samples between them, and the true motion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Floats, Pose
from parhelion.core.streams import ImuData, joined
from parhelion.core.trajectory import Trajectory
from parhelion.evaluate.slam.odometry import Setup
from parhelion.io.poses import TimedPoses
from parhelion.io.recordings import cloud_files, cloud_topic, is_capture
from parhelion.io.ros import messages as ros
from parhelion.io.ros.bag import BagReader
from parhelion.scenario.scenario import Scenario
from parhelion.scenario.schema import ScenarioFile
from parhelion.scenario.sensors import FrameOnBoard, StreamOnBoard


@dataclass(frozen=True, eq=False)
class Frame:
    """One scan of a drive."""

    time: float
    """Start of the scan [s]."""
    scan: PointCloud
    imu: ImuData | None
    """IMU samples from the previous scan to the end of this one."""


class Drive(Protocol):
    """Scans with ground truth."""

    setup: Setup
    """Information that methods receive in advance."""
    count: int
    """Number of scans."""

    def frames(self) -> Iterator[Frame]:
        """All scans in time order."""

    def truth(self) -> TimedPoses | Trajectory:
        """True motion of the lidar; for scenarios, up to the frames consumed so far."""


# ---- scenarios ------------------------------------------------------------------------------------------------------


class ScenarioDrive:
    """Scenario with a given weather and seed, simulated while its frames are consumed."""

    def __init__(
        self,
        scenario: str | Path | ScenarioFile,
        *,
        weather: dict[str, Any] | None = None,
        seed: int | None = None,
        lidar: str | None = None,
        folder: str | Path = ".",
    ) -> None:
        """`weather` as in a scenario file; None keeps that of the scenario, an empty one is clear air."""
        from parhelion.core import config

        if isinstance(scenario, ScenarioFile):
            settings, folder, source = scenario, Path(folder), "scenario"
        else:
            settings = config.load(ScenarioFile, Path(scenario))
            folder, source = Path(scenario).parent, str(scenario)
        changes: dict[str, Any] = {"outputs": [], "report": False}
        if weather is not None:
            changes["weather"] = weather
        if seed is not None:
            changes["seed"] = seed
        self.scenario = Scenario(settings.model_copy(update=changes), folder, source)
        if weather == {}:
            self.scenario.world.weather = None
        self.lidar = _one_lidar(self.scenario, lidar)
        self.imu = _one_imu(self.scenario, self.lidar)
        self.count = self.lidar.count(self.scenario.duration_s)
        mount = None if self.imu is None else self.lidar.mount.inverse() @ self.imu.mount
        self.setup = Setup(self.lidar.period_s, mount)

    def frames(self) -> Iterator[Frame]:
        waiting: list[ImuData] = []
        for step in self.scenario.walk(lambda sensor, number: sensor == self.lidar.name):
            if self.imu is not None:
                waiting.append(step.samples(self.imu.name))
            for _, scan in step.scans.get(self.lidar.name, []):
                imu = joined(waiting) if waiting else None
                yield Frame(scan.start_time, scan, imu)
                waiting.clear()

    def truth(self) -> Trajectory:
        return self.lidar.motion


def _one_lidar(scenario: Scenario, name: str | None) -> FrameOnBoard:
    lidars = scenario.giving(Scan)
    if name is not None:
        lidars = [one for one in lidars if one.name == name]
        if not lidars:
            raise ConfigError(f"{scenario.source}: has no lidar {name!r}")
    if not lidars:
        raise ConfigError(f"{scenario.source}: has no lidar, which odometry needs")
    if lidars[0].body is None:
        raise ConfigError(f"{scenario.source}: the lidar {lidars[0].name} is stationary; put it on a vehicle")
    return lidars[0]


def _one_imu(scenario: Scenario, lidar: FrameOnBoard) -> StreamOnBoard | None:
    beside = (one for one in scenario.stream_sensors if one.record_type is ImuData and one.body is lidar.body)
    return next(beside, None)


# ---- folders of clouds ----------------------------------------------------------------------------------------------


class FolderDrive:
    """Numbered clouds of a lidar and a TUM file with its poses at the start of each scan."""

    def __init__(self, folder: Path, truth: Path | None = None) -> None:
        from parhelion.io import poses

        self.files = [file for file in cloud_files(folder) if not is_capture(file)]
        if len(self.files) < 3:
            raise ConfigError(f"{folder}: odometry needs at least three clouds, got {len(self.files)}")
        self._truth = poses.read_tum(truth or _find_truth(folder))
        if len(self._truth) != len(self.files):
            raise ConfigError(
                f"{folder}: has {len(self.files)} clouds, but the trajectory has {len(self._truth)} poses; "
                "give one pose per cloud, at the start of each"
            )
        self.count = len(self.files)
        self.setup = Setup(float(np.median(np.diff(self._truth.times))))

    def frames(self) -> Iterator[Frame]:
        for file, time in zip(self.files, self._truth.times, strict=True):
            yield Frame(float(time), PointCloud.load(file), None)

    def truth(self) -> TimedPoses:
        return self._truth


def _find_truth(folder: Path) -> Path:
    """Trajectory that a run or the demo writes next to its clouds."""
    places = [
        folder / "trajectory.tum",
        folder.parent / "trajectory.tum",
        folder.parent / "truth" / f"{folder.name}.tum",
    ]
    for place in places:
        if place.is_file():
            return place
    raise FormatError(f"{folder}: no true trajectory next to the clouds; give one with --truth FILE (TUM)")


def as_poses(times: list[float], rows: list[Any]) -> TimedPoses:
    """Poses of an odometry with their times."""
    xyz: Floats = np.stack([pose.xyz for pose in rows])
    return TimedPoses(np.array(times, np.float64), xyz, np.stack([pose.quat_xyzw for pose in rows]))


# ---- Drives from ROS 2 bags: clouds, IMU, the mounts of both, and the true motion of the vehicle --------------------


_TRUTH_TYPES = (ros.ODOMETRY, ros.POSE)


class BagDrive:
    """Bag with one topic of clouds, and the truth in the bag or in a TUM file of lidar poses."""

    def __init__(self, path: Path, truth: Path | None = None, *, topic: str | None = None) -> None:
        from parhelion.io import poses as tum

        self._bag = BagReader(path)
        self._clouds = cloud_topic(self._bag, topic, (ros.POINT_CLOUD,))
        imus = self._bag.of_type(ros.IMU)
        self._imu = imus[0].name if imus else None
        mounts, stamps, frames = self._read_frames()
        self.count = len(stamps)
        if self.count < 3:
            raise ConfigError(f"{path}: odometry needs at least three clouds, {self._clouds} has {self.count}")
        lidar_frame, imu_frame = frames
        self._truth = tum.read_tum(truth) if truth is not None else self._true_poses(mounts, lidar_frame)
        known = imu_frame is not None and lidar_frame in mounts and imu_frame in mounts
        mount = mounts[lidar_frame].inverse() @ mounts[str(imu_frame)] if known else None
        self.setup = Setup(float(np.median(np.diff(stamps))), mount)

    def _read_frames(self) -> tuple[dict[str, Pose], list[float], tuple[str, str | None]]:
        """Mounts by frame, time stamps of the clouds [s], and the frames of lidar and IMU."""
        mounts: dict[str, Pose] = {}
        stamps: list[float] = []
        lidar, imu = "", None
        topics = [self._clouds, *([self._imu] if self._imu else [])]
        topics += ["/tf_static"] if "/tf_static" in self._bag.topics else []
        for message in self._bag.messages(topics):
            if message.topic == "/tf_static":
                for one in ros.decode(message.type, message.data).transforms:
                    mounts[one.child_frame_id] = _pose(one.transform.translation, one.transform.rotation)
            elif message.topic == self._clouds:
                head = ros.decode(message.type, message.data).header
                stamps.append(ros.nanoseconds(head.stamp) / 1e9)
                lidar = lidar or str(head.frame_id)
            elif imu is None:
                imu = str(ros.decode(message.type, message.data).header.frame_id)
        return mounts, stamps, (lidar, imu)

    def _true_poses(self, mounts: dict[str, Pose], lidar: str) -> TimedPoses:
        for kind in _TRUTH_TYPES:
            named = [one.name for one in self._bag.of_type(kind) if "ground_truth" in one.name]
            if named:
                break
        else:
            raise FormatError(f"{self._bag.path}: has no true motion (…/ground_truth/odom); give a file with --truth")
        if lidar not in mounts:
            raise FormatError(f"{self._bag.path}: /tf_static does not contain the mount of {lidar!r}")
        times, poses = [], []
        for message in self._bag.messages([named[0]]):
            read: Any = ros.decode(message.type, message.data)
            held = read.pose.pose if kind == ros.ODOMETRY else read.pose
            times.append(ros.nanoseconds(read.header.stamp) / 1e9)
            poses.append(_pose(held.position, held.orientation) @ mounts[lidar])
        return as_poses(times, poses)

    def frames(self) -> Iterator[Frame]:
        """Scans with the IMU samples received before each message, which is sent at the end of the scan."""
        rows: list[tuple[float, list[float], list[float]]] = []
        for message in self._bag.messages([self._clouds, *([self._imu] if self._imu else [])]):
            if message.topic == self._imu:
                read = ros.decode(message.type, message.data)
                force, rate = read.linear_acceleration, read.angular_velocity
                time = ros.nanoseconds(read.header.stamp) / 1e9
                rows.append((time, [force.x, force.y, force.z], [rate.x, rate.y, rate.z]))
            else:
                cloud = ros.cloud_of(message)
                yield Frame(float(cloud.metadata["time"]), cloud, _samples(rows) if rows else None)
                rows = []

    def truth(self) -> TimedPoses:
        return self._truth


def _samples(rows: list[tuple[float, list[float], list[float]]]) -> ImuData:
    unknown = np.zeros((3, 3))
    times, forces, rates = (np.array(part, np.float64) for part in zip(*rows, strict=True))
    return ImuData(times, forces, rates, unknown, unknown)


def _pose(place: Any, turn: Any) -> Pose:
    return Pose((place.x, place.y, place.z), (turn.x, turn.y, turn.z, turn.w))


# ---- recordings -----------------------------------------------------------------------------------------------------


def recorded_drive(source: Path, truth: Path | None = None, topic: str | None = None) -> FolderDrive | BagDrive:
    """Drive of a bag, a folder of clouds, or the folder of a run with one lidar."""
    from parhelion.io.ros import is_bag

    if is_bag(source):
        return BagDrive(source, truth, topic=topic)
    if not source.is_dir():
        raise FormatError(f"{source}: give a scenario (.yaml), a bag, a folder of clouds, or the folder of a run")
    if truth is None and (source / "truth").is_dir():
        inside = [part for part in sorted(source.iterdir()) if (source / "truth" / f"{part.name}.tum").is_file()]
        folders = [part for part in inside if part.is_dir()]
        if len(folders) == 1:
            return FolderDrive(folders[0])
        if folders:
            names = ", ".join(str(part) for part in folders)
            raise ConfigError(f"{source}: contains clouds of several lidars; give one of {names}")
        bag = source / "bag"
        if bag.exists() and is_bag(bag):
            return BagDrive(bag, topic=topic)
    return FolderDrive(source, truth)
