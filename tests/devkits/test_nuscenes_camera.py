"""The nuScenes development kit on a data set with a camera: its projected points agree with the depth of the image."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataset_rigs import DRIVE, drive
from parhelion.io.images import png, truth
from parhelion.scenario import Scenario

pytestmark = pytest.mark.filterwarnings("ignore")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    devkit = pytest.importorskip("nuscenes.nuscenes", reason="nuscenes-devkit is not installed: make test-devkits")

CAMERA: dict[str, Any] = {
    "name": "front", "type": "toy-camera", "model": "toy/colour", "vehicle": "carrier",
    "mount": {"xyz": [0.6, 0.1, 1.5], "rpy_deg": [0, 2, 0]},
}  # fmt: skip


@pytest.fixture(scope="module")
def run(user_package: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    file = drive(folder, ["nuscenes"], duration_s=1.2, sensors=[*DRIVE["sensors"], CAMERA])
    Scenario.load(file).run(folder / "out")
    return folder / "out"


def test_the_kit_puts_points_on_the_picture(run: Path) -> None:
    data = devkit.NuScenes("v1.0-mini", str(run / "nuscenes"), verbose=False)
    sample = data.sample[1]
    assert sample["data"].keys() == {"LIDAR_TOP", "CAM_FRONT"}
    _, boxes, intrinsic = data.get_sample_data(sample["data"]["CAM_FRONT"])
    assert intrinsic[0, 0] == pytest.approx(0.8 * 96)
    assert boxes
    points, depths, picture = data.explorer.map_pointcloud_to_image(
        sample["data"]["LIDAR_TOP"], sample["data"]["CAM_FRONT"]
    )
    assert picture.size == (96, 64)
    # The sample is 0.5 s after the start: the fifth picture.
    depth = truth.depth_from(png.read(run / "front" / "depth" / "000005.png")[0])
    column, row = np.round(points[:2]).astype(int)
    off = np.abs(depth[row, column] - depths)
    assert len(depths) > 500
    assert np.mean(off < 0.6 * depths**2 / (1.5 * intrinsic[0, 0]) + 0.1) > 0.95
