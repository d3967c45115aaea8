"""The nuScenes development kit on a data set with a radar: its reader, its filters and its frames."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from dataset_rigs import DRIVE, drive
from parhelion.scenario import Scenario

pytestmark = pytest.mark.filterwarnings("ignore")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    devkit = pytest.importorskip("nuscenes.nuscenes", reason="nuscenes-devkit is not installed: make test-devkits")

RADAR: dict[str, Any] = {
    "name": "radar-front", "type": "radar", "model": "continental/ars408-21-far", "vehicle": "carrier",
    "mount": {"xyz": [2.0, 0.0, 0.5]}, "options": {"rays": 60_000},
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("run")
    file = drive(folder, ["nuscenes"], duration_s=1.2, sensors=[*DRIVE["sensors"], RADAR])
    Scenario.load(file).run(folder / "out")
    return devkit.NuScenes("v1.0-mini", str(folder / "out" / "nuscenes"), verbose=False)


def test_the_kit_reads_radar_sweeps(data: Any) -> None:
    from nuscenes.utils.data_classes import RadarPointCloud

    assert data.sample[1]["data"].keys() == {"LIDAR_TOP", "RADAR_FRONT"}
    row = data.get("sample_data", data.sample[1]["data"]["RADAR_FRONT"])
    assert row["sensor_modality"] == "radar"
    place = data.get("calibrated_sensor", row["calibrated_sensor_token"])
    assert place["translation"] == pytest.approx([2.0, 0.0, 0.5])
    assert place["rotation"] == pytest.approx([1.0, 0.0, 0.0, 0.0])
    points = RadarPointCloud.from_file(data.get_sample_data_path(row["token"])).points
    assert points.shape[0] == 18
    assert points.shape[1] > 5
    assert np.all(points[0] > 0)  # x is ahead
    # The vehicle drives at 4 m/s and turns: stationary objects approach it, and do not after compensation.
    still = points[:, points[3] == 1]
    assert still.shape[1] > 3
    assert np.median(still[6]) == pytest.approx(-4.0, abs=0.6)
    assert np.abs(still[8:10]).max() < 0.6
    # The car that approaches at 5 m/s is oncoming; weaker detections may be its sidelobes.
    coming = points[:, points[3] == 2]
    assert coming.shape[1] > 0
    assert coming[8, np.argmax(coming[5])] == pytest.approx(-5.0, abs=0.6)


def test_points_fall_into_boxes(data: Any) -> None:
    from nuscenes.utils.data_classes import RadarPointCloud

    counts = [row["num_radar_pts"] for row in data.sample_annotation]
    assert sum(counts) > 0
    cloud, times = RadarPointCloud.from_file_multisweep(data, data.sample[2], "RADAR_FRONT", "LIDAR_TOP", nsweeps=5)
    assert cloud.points.shape[1] == times.shape[1] > 10
