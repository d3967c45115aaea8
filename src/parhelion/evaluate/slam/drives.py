"""Drives on which odometry is scored: scans in the order of time, IMU samples between them, and the true motion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.inertial import ImuData, joined
from parhelion.core.pose import Floats
from parhelion.core.records import PointCloud, Scan
from parhelion.core.trajectory import Trajectory
from parhelion.evaluate.slam.odometry import Setup
from parhelion.io.timed_poses import TimedPoses
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
    """Samples since the scan before, up to this one's end."""


class Drive(Protocol):
    """Scans with the truth."""

    @property
    def setup(self) -> Setup:
        """What methods are told beforehand."""
        ...

    @property
    def count(self) -> int:
        """Number of scans."""
        ...

    def frames(self) -> Iterator[Frame]:
        """All scans in the order of time."""
        ...

    def truth(self) -> TimedPoses | Trajectory:
        """True motion of the lidar; of a scenario as far as its frames have been taken."""
        ...


# ---- scenarios ------------------------------------------------------------------------------------------------------


class ScenarioDrive:
    """A scenario with a weather and a seed of its choice, simulated while it is taken."""

    def __init__(
        self,
        scenario: str | Path | ScenarioFile,
        *,
        weather: dict[str, Any] | None = None,
        seed: int | None = None,
        lidar: str | None = None,
        folder: str | Path = ".",
    ) -> None:
        """`weather` as in a scenario file; None keeps the scenario's own, an empty one is clear air."""
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
        raise ConfigError(f"{scenario.source}: has no lidar, so there is nothing for odometry")
    if lidars[0].body is None:
        raise ConfigError(f"{scenario.source}: the lidar {lidars[0].name} stands still; put it on a vehicle")
    return lidars[0]


def _one_imu(scenario: Scenario, lidar: FrameOnBoard) -> StreamOnBoard | None:
    beside = (one for one in scenario.stream_sensors if one.record_type is ImuData and one.body is lidar.body)
    return next(beside, None)


# ---- folders of clouds ----------------------------------------------------------------------------------------------


class FolderDrive:
    """Numbered clouds of a lidar and a TUM file with its poses at the start of each scan."""

    def __init__(self, folder: Path, truth: Path | None = None, *, period_s: float | None = None) -> None:
        from parhelion.io import tum

        self.files = cloud_files(folder)
        if len(self.files) < 3:
            raise ConfigError(f"{folder}: odometry needs three clouds at least, got {len(self.files)}")
        self._truth = tum.read(truth or _truth_beside(folder))
        if len(self._truth) != len(self.files):
            raise ConfigError(
                f"{folder}: has {len(self.files)} clouds, but the trajectory has {len(self._truth)} poses; "
                "give one pose a cloud, at the start of each"
            )
        self.count = len(self.files)
        usual = float(np.median(np.diff(self._truth.times)))
        self.setup = Setup(period_s or usual)

    def frames(self) -> Iterator[Frame]:
        for file, time in zip(self.files, self._truth.times, strict=True):
            yield Frame(float(time), PointCloud.load(file), None)

    def truth(self) -> TimedPoses:
        return self._truth


def cloud_files(folder: Path) -> list[Path]:
    """The cloud files of a folder, by name."""
    from parhelion.io import format_of

    found = []
    for file in sorted(folder.iterdir()):
        try:
            format_of(file, None)
        except FormatError:
            continue
        if file.is_file() and file.suffix.lower() != ".pcap":
            found.append(file)
    return found


def _truth_beside(folder: Path) -> Path:
    """The trajectory that a run or the demo leaves beside its clouds."""
    places = [
        folder / "trajectory.tum",
        folder.parent / "trajectory.tum",
        folder.parent / "truth" / f"{folder.name}.tum",
    ]
    for place in places:
        if place.is_file():
            return place
    raise FormatError(f"{folder}: no true trajectory beside the clouds; name one with --truth FILE (TUM)")


def as_poses(times: list[float], rows: list[Any]) -> TimedPoses:
    """Poses of an odometry with the times at which they hold."""
    xyz: Floats = np.stack([pose.xyz for pose in rows])
    return TimedPoses(np.array(times, np.float64), xyz, np.stack([pose.quat_xyzw for pose in rows]))
