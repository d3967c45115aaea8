"""The nuScenes development kit on a simulated data set. It needs NumPy below 2; `make test-devkits` sets up its
environment.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataset_rigs import drive
from parhelion.core.pose import Pose
from parhelion.io import poses
from parhelion.scenario import Scenario

pytestmark = pytest.mark.filterwarnings("ignore")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    devkit = pytest.importorskip("nuscenes.nuscenes", reason="nuscenes-devkit is not installed: make test-devkits")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    Scenario.load(drive(folder, ["nuscenes"], duration_s=2.2)).run(folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def data(run: Path) -> Any:
    return devkit.NuScenes("v1.0-mini", str(run / "nuscenes"), verbose=False)


def test_it_loads_and_lists(data: Any, capsys: pytest.CaptureFixture[str]) -> None:
    data.list_scenes()
    assert "past cars and people" in capsys.readouterr().out
    assert (len(data.scene), len(data.sample), len(data.sample_data)) == (1, 5, 22)
    steps = np.diff([sample["timestamp"] for sample in data.sample])
    assert np.all(steps == 500_000)
    assert data.sample[0]["data"].keys() == {"LIDAR_TOP"}
    splits = pytest.importorskip("nuscenes.utils.splits")
    assert data.scene[0]["name"] in splits.create_splits_scenes()["mini_train"]


def test_points_in_boxes_are_those_of_the_table(data: Any) -> None:
    from nuscenes.utils.data_classes import LidarPointCloud
    from nuscenes.utils.geometry_utils import points_in_box

    boxes_seen, counted = 0, 0
    for sample in data.sample:
        path, boxes, _ = data.get_sample_data(sample["data"]["LIDAR_TOP"])
        points = LidarPointCloud.from_file(path).points
        assert 0 <= points[3].min() < points[3].max() <= 255
        for box in boxes:
            row = data.get("sample_annotation", box.token)
            inside = int(points_in_box(box, points[:3]).sum())
            # A point on a face may fall on either side, because the kit rotates boxes and Parhelion rotates points.
            assert abs(inside - row["num_lidar_pts"]) <= 1
            boxes_seen, counted = boxes_seen + 1, counted + inside
    assert boxes_seen >= 25
    assert counted >= 1000


def test_points_and_poses_are_those_of_the_run(run: Path, data: Any) -> None:
    """Points of a key frame, transformed by the kit's own chain of frames, agree with the ground truth of the run."""
    from nuscenes.utils.data_classes import LidarPointCloud
    from nuscenes.utils.geometry_utils import transform_matrix
    from pyquaternion import Quaternion

    truth = poses.read_tum(run / "truth" / "top.tum")
    for row in data.sample_data[::5]:
        ego = data.get("ego_pose", row["ego_pose_token"])
        place = data.get("calibrated_sensor", row["calibrated_sensor_token"])
        chain = transform_matrix(ego["translation"], Quaternion(ego["rotation"])) @ transform_matrix(
            place["translation"], Quaternion(place["rotation"])
        )
        number = round(row["timestamp"] / 1e5)
        sensor = Pose(truth.xyz[number], truth.quat_xyzw[number]).matrix
        # The lidar's forward axis is y in nuScenes and x in Parhelion.
        turn = np.array([[0.0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
        np.testing.assert_allclose(chain, sensor @ turn, atol=1e-9)
        points = LidarPointCloud.from_file(str(run / "nuscenes" / row["filename"]))
        points.transform(chain)
        ground = points.points[2][np.abs(points.points[2]) < 0.2]
        assert abs(np.median(ground)) < 0.02  # the ground of the yard is at z = 0


def test_velocities_follow_from_the_boxes(data: Any) -> None:
    speeds = {}
    for row in data.sample_annotation:
        found = data.box_velocity(row["token"])
        if np.all(np.isfinite(found)) and row["prev"] and row["next"]:
            np.testing.assert_allclose(found, row["velocity"], atol=0.35)
            speeds.setdefault(row["category_name"], []).append(np.linalg.norm(found))
    assert max(speeds["vehicle.car"]) == pytest.approx(5.0, abs=0.3)
    assert min(speeds["vehicle.car"]) < 1e-9
    moving = next(row for row in data.attribute if row["name"] == "vehicle.moving")["token"]
    assert any(moving in row["attribute_tokens"] for row in data.sample_annotation)


def test_boxes_between_key_frames_and_many_sweeps(data: Any) -> None:
    from nuscenes.utils.data_classes import LidarPointCloud

    sweep = next(row for row in data.sample_data if not row["is_key_frame"] and row["timestamp"] == 800_000)
    at = {
        data.get("sample_annotation", box.token)["instance_token"]: box.center for box in data.get_boxes(sweep["token"])
    }
    rows = {
        row["instance_token"]: row for row in data.sample_annotation if row["sample_token"] == sweep["sample_token"]
    }
    for instance, centre in at.items():
        if rows[instance]["prev"]:
            # The corresponding sample is 0.2 s later.
            expected = np.array(rows[instance]["translation"]) - 0.2 * np.array(rows[instance]["velocity"])
            np.testing.assert_allclose(centre, expected, atol=0.2)
    cloud, times = LidarPointCloud.from_file_multisweep(data, data.sample[-1], "LIDAR_TOP", "LIDAR_TOP", nsweeps=5)
    assert cloud.points.shape[1] > 50_000
    np.testing.assert_allclose(np.unique(times), [0.0, 0.1, 0.2, 0.3, 0.4], atol=1e-6)


def test_pictures_and_maps(data: Any, tmp_path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    data.render_sample_data(data.sample[2]["data"]["LIDAR_TOP"], out_path=str(tmp_path / "top.png"), verbose=False)
    assert (tmp_path / "top.png").stat().st_size > 10_000
    mask = data.map[0]["mask"]
    assert bool(mask.is_on_mask(5.0, 3.0)[0])  # the ground of the yard
    assert not bool(mask.is_on_mask(5.0, 45.0)[0])


def test_every_table_is_plain_json(run: Path) -> None:
    for file in (run / "nuscenes" / "v1.0-mini").glob("*.json"):
        assert json.loads(file.read_text())
