"""Base of data-set outputs: a folder, and the frames of lidars, cameras and radars."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import UNSET
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
from parhelion.outputs.datasets.folder import ABOUT, TITLES, DatasetFolder, HiddenShare, first_ranges

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step
    from parhelion.scenario.sensors import FrameOnBoard

_OF_DATA_SETS = scale_called("velodyne")  # the scale of the published data sets
MOVING_M_S = 0.2
"""Speed [m/s] above which an object counts as moving."""


class DatasetSink(ABC):
    """Base of sinks that write a run as a data set."""

    needs: tuple[type, str] = (Scan, "lidar that completes a scan")
    """Type of record that the data set requires, and a description of the sensor."""

    def __init__(self, kind: str, scenario: Scenario, folder: Path) -> None:
        self.scenario = scenario
        self.scanners = {one.name: one for one in scenario.giving(Scan) if one.count(scenario.duration_s)}
        self.cameras = {one.name: one for one in scenario.giving(Image) if one.count(scenario.duration_s)}
        self.radars = {one.name: one for one in scenario.giving(RadarScan) if one.count(scenario.duration_s)}
        self.folder = DatasetFolder(folder / kind, TITLES[kind], ABOUT[kind])
        self._taken = 0
        # Sensors that are attached later are not part of a data set.
        self._known = {one.name: one for one in scenario.frame_sensors}

    def take(self, step: Step) -> None:
        """Write the frames of a step."""
        for name, frames in step.frames.items():
            sensor = self._known.get(name)
            rule = None if sensor is None else DATASETS.get(sensor.record_type)
            if sensor is not None and rule is not None:
                for number, record in frames:
                    rule.take(self, sensor, number, record)
                    self._taken += rule.is_main

    def close(self) -> list[Path]:
        """Write the final files, rename the folder to its final name, and return its files."""
        try:
            self.finish()
            self.folder.close()
        except BaseException:
            self.folder.discard()
            raise
        return self.folder.files

    def abandon(self) -> None:
        """Finish a smaller data set with the frames so far, unless it would replace an earlier one."""
        if self._taken and not self.folder.path.exists():
            with suppress(ParhelionError):  # the error that stopped the run is more important
                self.close()
        self.folder.discard()

    @abstractmethod
    def add(self, scanner: FrameOnBoard, number: int, scan: Scan) -> None:
        """Write one scan."""

    @abstractmethod
    def add_image(self, camera: FrameOnBoard, number: int, image: Image) -> None:
        """Write one picture."""

    def add_radar(self, radar: FrameOnBoard, number: int, scan: RadarScan) -> None:
        """Write one frame of a radar; data sets without radars skip it."""
        return

    @abstractmethod
    def finish(self) -> None:
        """Write the files that are complete only at the end."""

    def movable(self) -> set[int]:
        """Instance numbers of moving and movable objects."""
        world = self.scenario.world
        movable = {number for number, kind in mobility_table(world).items() if kind != "static"}
        return movable | {item.instance for item in world.objects if item.is_actor}


@dataclass(frozen=True)
class DatasetRule:
    """Handling of one type of record by data sets."""

    take: Callable[[DatasetSink, FrameOnBoard, int, Any], None]
    """Function that writes one frame."""
    summary: str
    """Contents of the data sets, for lists."""
    is_main: bool = True
    """False if a data set with only these frames is useless."""


DATASETS: Consumer[DatasetRule] = Consumer(
    "data sets",
    {
        Scan: DatasetRule(lambda sink, *frame: sink.add(*frame), "clouds, poses, boxes and labels"),
        Image: DatasetRule(lambda sink, *frame: sink.add_image(*frame), "pictures, calibration, boxes and masks"),
        RadarScan: DatasetRule(lambda sink, *frame: sink.add_radar(*frame), "detections, in nuScenes data sets", False),
    },
)
"""Handling of frames by data sets, by type of record."""
DATASETS.skip(FramePoints, "these data sets contain lidars, cameras and radars; the files of the run contain the rest")
DATASETS.skip(Samples, "these data sets contain no streams of samples; the CSV files of the run do")


def cloud_of(scan: Scan, scanner: FrameOnBoard, largest: float) -> PointCloud:
    """Points deskewed to the start of the scan, with intensity from 0 to `largest`."""
    value = scan.fields["intensity"]
    if scale_called(scanner.sensor.config.intensity.scale).bits != 8:
        value = cast("NDArray[Any]", _OF_DATA_SETS.encode(scan.fields["power"], scan.fields["reflectivity"], UNSET))
    value = (np.clip(value, 0.0, 255.0) * (largest / 255.0)).astype(np.float32)
    return scan.deskewed().with_fields(intensity=value)


def moving(box: Box) -> bool:
    """Return whether an object moves faster than `MOVING_M_S`."""
    return bool(np.linalg.norm(box.velocity) > MOVING_M_S)


def hidden_shares(scan: Scan, frame: BoxFrame, known: Collection[int] = ()) -> Iterator[tuple[Box, float]]:
    """Boxes of a scan in the world, each with the fraction that other objects hide.

    Includes boxes with points, and boxes without points whose instance is in `known`.
    """
    shares = HiddenShare(scan.shots, first_ranges(scan))
    for box, local in zip(frame.world, frame.sensor, strict=True):
        if box.points or box.instance in known:
            yield box, shares.of(local.centre, 0.5 * local.size, Pose(quat_xyzw=local.quat_xyzw).rotation)
