"""What the data sets of runs have in common: a folder, lidars whose scans come in order, cameras and radars beside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.consumers import Consumer
from parhelion.core.errors import ParhelionError
from parhelion.core.frames import FramePoints, RadarScan
from parhelion.core.image import Image
from parhelion.core.pose import Pose
from parhelion.core.streams import Samples
from parhelion.makers.scales import scale_called
from parhelion.motion.actors.body import mobility_table
from parhelion.motion.boxes import Box, BoxFrame
from parhelion.outputs.datasets.folder import ABOUT, TITLES, DatasetFolder, HiddenShare

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step
    from parhelion.scenario.sensors import FrameOnBoard

_OF_DATA_SETS = scale_called("velodyne")  # the scale of the published data sets
MOVING_M_S = 0.2
"""A thing that is faster than this [m/s] moves; slower ones stand."""


class DatasetSink(ABC):
    """What the data sets have in common: a folder, and lidars whose scans come in order."""

    needs: tuple[type, str] = (Scan, "lidar that makes a whole scan")
    """The type of record without which there is no set, and in words what gives it."""

    def __init__(self, kind: str, scenario: Scenario, folder: Path) -> None:
        self.scenario = scenario
        self.scanners = {one.name: one for one in scenario.giving(Scan) if one.count(scenario.duration_s)}
        self.cameras = {one.name: one for one in scenario.giving(Image) if one.count(scenario.duration_s)}
        self.radars = {one.name: one for one in scenario.giving(RadarScan) if one.count(scenario.duration_s)}
        self.folder = DatasetFolder(folder / kind, TITLES[kind], ABOUT[kind])
        self._taken = 0

    def take(self, step: Step) -> None:
        """Write the scans and pictures that a step finished."""
        sensors = {sensor.name: sensor for sensor in self.scenario.frame_sensors}
        for name, frames in step.frames.items():
            rule = DATASETS.get(sensors[name].record_type)
            if rule is not None:
                for number, record in frames:
                    rule.take(self, sensors[name], number, record)
                    self._taken += rule.is_main

    def close(self) -> list[Path]:
        """Write what is known only at the end, and put the folder in its place: its files."""
        try:
            self.finish()
            self.folder.close()
        except BaseException:
            self.folder.discard()
            raise
        return self.folder.files

    def abandon(self) -> None:
        """Keep the scans so far as a smaller set, unless an earlier, whole one is there."""
        if self._taken and not self.folder.path.exists():
            with suppress(ParhelionError):  # what stopped the run is to be told, not that the disk is full here, too
                self.close()
        self.folder.discard()

    @abstractmethod
    def add(self, scanner: FrameOnBoard, number: int, scan: Scan) -> None:
        """Take one scan."""

    @abstractmethod
    def add_image(self, camera: FrameOnBoard, number: int, image: Image) -> None:
        """Take one picture."""

    def add_radar(self, radar: FrameOnBoard, number: int, scan: RadarScan) -> None:
        """Take one frame of a radar; sets that hold no radars leave it out."""
        return

    @abstractmethod
    def finish(self) -> None:
        """Write what is known only at the end."""

    def movable(self) -> set[int]:
        """Instances of what moves or can be moved."""
        world = self.scenario.world
        movable = {number for number, kind in mobility_table(world).items() if kind != "static"}
        return movable | {item.instance for item in world.objects if item.is_actor}


@dataclass(frozen=True)
class DatasetRule:
    """How data sets take the frames of one type of record."""

    take: Callable[[DatasetSink, FrameOnBoard, int, Any], None]
    summary: str
    """What the sets hold of it, for lists."""
    is_main: bool = True
    """False if a set without other frames is not worth keeping."""


DATASETS: Consumer[DatasetRule] = Consumer(
    "data sets",
    {
        Scan: DatasetRule(lambda sink, *frame: sink.add(*frame), "clouds, poses, boxes and labels"),
        Image: DatasetRule(lambda sink, *frame: sink.add_image(*frame), "pictures, calibration, boxes and masks"),
        RadarScan: DatasetRule(lambda sink, *frame: sink.add_radar(*frame), "detections, in nuScenes' sets", False),
    },
)
"""How data sets take frames, by type of record."""
DATASETS.skip(FramePoints, "these data sets hold lidars, cameras and radars; the run's own files hold the rest")
DATASETS.skip(Samples, "these data sets hold no streams of samples; the run's own CSV files do")


def cloud_of(scan: Scan, scanner: FrameOnBoard, largest: float) -> PointCloud:
    """The points at the scan's start, with intensity from 0 to `largest`."""
    value = scan.fields["intensity"]
    if scale_called(scanner.sensor.config.intensity.scale).bits != 8:
        value = _OF_DATA_SETS.encode(scan.fields["power"], scan.fields["reflectivity"], None)
    value = (np.clip(value, 0.0, 255.0) * (largest / 255.0)).astype(np.float32)
    return scan.deskewed().with_fields(intensity=value)


def moving(box: Box) -> bool:
    """Whether a thing moves."""
    return bool(np.linalg.norm(box.velocity) > MOVING_M_S)


def hidden_shares(scan: Scan, frame: BoxFrame, known: Collection[int] = ()) -> Iterator[tuple[Box, float]]:
    """Boxes of a scan in the world, each with the share of it that other things hide.

    Those with points, and of the others the instances that are `known`.
    """
    shares = HiddenShare(scan)
    for box, local in zip(frame.world, frame.sensor, strict=True):
        if box.points or box.instance in known:
            yield box, shares.of(local.centre, 0.5 * local.size, Pose(quat_xyzw=local.quat_xyzw).rotation)
