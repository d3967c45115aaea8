"""Run as a public data set: folder/<kind> in the layout of KITTI, SemanticKITTI, nuScenes or COCO.

Clouds are deskewed to the start of each scan, as in the real data sets. Each box is at the mean time of the points on
its object, so that it encloses them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from parhelion.core.errors import ConfigError
from parhelion.outputs.datasets.base import DatasetSink
from parhelion.outputs.datasets.coco import CocoPanopticSink
from parhelion.outputs.datasets.kitti import KittiObjectSink, KittiOdometrySink, SemanticKittiSink
from parhelion.outputs.datasets.nuscenes import NuScenesSink

if TYPE_CHECKING:
    from parhelion.outputs.sinks import Sink
    from parhelion.scenario.scenario import Scenario

SINKS: dict[str, type[DatasetSink]] = {
    "kitti-odometry": KittiOdometrySink,
    "semantic-kitti": SemanticKittiSink,
    "kitti-object": KittiObjectSink,
    "nuscenes": NuScenesSink,
    "coco-panoptic": CocoPanopticSink,
}
"""Sinks by kind."""


def dataset_sink(kind: str, scenario: Scenario, folder: Path) -> Sink:
    """Return the sink that writes a run as a data set into folder/<kind>."""
    folders = {sensor.folder_name for sensor in scenario.frame_sensors}
    if kind in folders | {f"{folder}-boxes" for folder in folders}:
        raise ConfigError(f"outputs: {kind}: the files of a sensor use the same folder; rename the sensor")
    if sum(entry.kind == kind for entry in scenario.settings.outputs) > 1:
        raise ConfigError(f"outputs: {kind} is given twice")
    needed, words = SINKS[kind].needs
    if not any(sensor.count(scenario.duration_s) for sensor in scenario.giving(needed)):
        raise ConfigError(f"outputs: {kind} needs a {words} within duration_s")
    return SINKS[kind](kind, scenario, folder)
