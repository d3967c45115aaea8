"""Drives from ROS 2 bags: clouds, IMU, the mount of both, and the vehicle's true motion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.errors import ConfigError, FormatError, unknown_name
from parhelion.core.inertial import ImuData
from parhelion.core.pose import Pose
from parhelion.evaluate.slam.drives import Frame
from parhelion.evaluate.slam.odometry import Setup
from parhelion.io.ros import messages as ros
from parhelion.io.ros.bag import BagReader
from parhelion.io.timed_poses import TimedPoses

_TRUTH_TYPES = (ros.ODOMETRY, ros.POSE)


class BagDrive:
    """A bag with one topic of clouds, and the truth in it or in a TUM file of the lidar's poses."""

    def __init__(self, path: Path, truth: Path | None = None, *, topic: str | None = None) -> None:
        from parhelion.io import tum

        self._bag = BagReader(path)
        self._clouds = self._topic_of(ros.POINT_CLOUD, topic, "point clouds")
        imus = self._bag.of_type(ros.IMU)
        self._imu = imus[0].name if imus else None
        mounts, stamps, frames = self._look()
        self.count = len(stamps)
        if self.count < 3:
            raise ConfigError(f"{path}: odometry needs three clouds at least, {self._clouds} has {self.count}")
        lidar_frame, imu_frame = frames
        self._truth = tum.read(truth) if truth is not None else self._true_poses(mounts, lidar_frame)
        known = imu_frame is not None and lidar_frame in mounts and imu_frame in mounts
        mount = mounts[lidar_frame].inverse() @ mounts[str(imu_frame)] if known else None
        self.setup = Setup(float(np.median(np.diff(stamps))), mount)

    def _topic_of(self, kind: str, name: str | None, words: str) -> str:
        found = [one.name for one in self._bag.of_type(kind)]
        if name is not None:
            if name not in found:
                raise unknown_name(f"topic with {words} of {self._bag.path}", name, found)
            return name
        if not found:
            raise FormatError(f"{self._bag.path}: has no topic with {words}")
        if len(found) > 1:
            raise ConfigError(f"{self._bag.path}: has several topics with {words}, choose one: {', '.join(found)}")
        return found[0]

    def _look(self) -> tuple[dict[str, Pose], list[float], tuple[str, str | None]]:
        """Mounts by frame, stamps of the clouds [s], and the frames of lidar and IMU."""
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
            raise FormatError(f"{self._bag.path}: has no true motion (…/ground_truth/odom); name a file with --truth")
        if lidar not in mounts:
            raise FormatError(f"{self._bag.path}: /tf_static does not say where {lidar!r} is mounted")
        times, poses = [], []
        for message in self._bag.messages([named[0]]):
            read: Any = ros.decode(message.type, message.data)
            held = read.pose.pose if kind == ros.ODOMETRY else read.pose
            times.append(ros.nanoseconds(read.header.stamp) / 1e9)
            poses.append(_pose(held.position, held.orientation) @ mounts[lidar])
        return TimedPoses(
            np.array(times), np.stack([pose.xyz for pose in poses]), np.stack([pose.quat_xyzw for pose in poses])
        )

    def frames(self) -> Iterator[Frame]:
        """Scans with the IMU samples that came before each one's message, which is sent at the scan's end."""
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
