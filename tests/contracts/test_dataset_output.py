"""Runs as data sets: read by parsers of others, or by one that knows nothing of ours but the format's description."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import parhelion as ph
from chance import deviations
from dataset_rigs import DRIVE, drive
from parhelion.core.errors import ConfigError
from parhelion.io import poses
from parhelion.scenario import Scenario
from parhelion.sensors.optics.lidar.link_budget import channel_biases, range_sigma
from run_rigs import Stop, files_of, stop_after

CITY: dict[str, Any] = {
    "seed": 5,
    "duration_s": 2.0,
    "world": "city",
    "report": False,
    "vehicles": [{"name": "van", "motion": {"constant": {"xyz": [-40, -1.75, 0], "velocity_m_s": [6, 0, 0]}}}],
    "sensors": [
        {"name": "roof", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "van", "mount": {"xyz": [0, 0, 2]},
         "options": {"sub_rays": 1}},
    ],
    "outputs": [{"kind": "kitti-odometry"}],
}  # fmt: skip
KINDS = ["semantic-kitti", "kitti-object", "nuscenes"]


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("yard")
    Scenario.load(drive(folder, KINDS)).run(folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("city")
    Scenario.from_mapping(CITY, folder).run(folder / "out")
    return folder / "out"


# ---- KITTI odometry --------------------------------------------------------------------------------------------------


def test_pykitti_loads_the_sequence(city: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        import cv2  # noqa: F401
    except ImportError:  # pykitti asks for OpenCV without naming it, for its tracking part alone
        monkeypatch.setitem(sys.modules, "cv2", types.ModuleType("cv2"))
    pykitti = pytest.importorskip("pykitti", reason="pykitti is not installed")
    data = pykitti.odometry(str(city / "kitti-odometry"), "00")
    truth = poses.read_tum(city / "truth" / "roof.tum")
    assert len(data) == len(data.poses) == len(data.velo_files) == 20
    np.testing.assert_allclose([one.total_seconds() for one in data.timestamps], truth.times, atol=1e-6)
    # Points through the calibration and the poses are where the world has them.
    first = ph.Pose(truth.xyz[0], truth.quat_xyzw[0]).matrix
    for number in (0, 7, 19):
        points = data.get_velo(number)
        cloud = ph.PointCloud.load(city / "roof" / f"{number:06d}.pcd")
        assert len(points) == len(cloud)
        assert 0.0 <= points[:, 3].min() < points[:, 3].max() <= 1.0
        homogeneous = np.concatenate([points[:, :3], np.ones((len(points), 1))], axis=1)
        camera = np.linalg.inv(data.calib.T_cam0_velo)
        world = homogeneous @ (first @ camera @ data.poses[number] @ data.calib.T_cam0_velo).T
        # The van drives straight on, so the motion within the scan is the velocity times the time of the shot.
        moved = cloud.xyz + truth.xyz[number] + cloud.time[:, None] * np.array([6.0, 0, 0])
        np.testing.assert_allclose(world[:, :3], moved, atol=2e-4)


def test_kiss_icp_finds_the_way_that_was_driven(city: Path, tmp_path: Path) -> None:
    pytest.importorskip("kiss_icp", reason="kiss-icp is not installed")
    command = Path(sys.executable).with_name("kiss_icp_pipeline")
    # The loader for folders of KITTI scans: the one for KITTI itself turns every beam by 0.205 degrees, to undo an
    # error in the calibration of the real lidar.
    done = subprocess.run(
        [str(command), str(city / "kitti-odometry" / "sequences" / "00" / "velodyne")],
        capture_output=True, text=True, timeout=60, env={**os.environ, "kiss_icp_out_dir": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (found,) = tmp_path.glob("20*/velodyne_poses.npy")
    lidar = np.load(found)[:, :3, 3]
    truth = np.loadtxt(city / "kitti-odometry" / "poses" / "00.txt").reshape(-1, 3, 4)[:, :, 3]
    assert np.linalg.norm(truth[-1]) == pytest.approx(11.4, abs=0.01)
    camera = np.stack([-lidar[:, 1], -lidar[:, 2], lidar[:, 0]], axis=1)
    error = np.linalg.norm(camera - truth, axis=1)
    assert error.max() < 0.25


def test_kiss_icp_reads_the_true_poses(city: Path) -> None:
    datasets = pytest.importorskip("kiss_icp.datasets", reason="kiss-icp is not installed")
    loaded = datasets.dataset_factory("kitti", city / "kitti-odometry", sequence="00")
    truth = poses.read_tum(city / "truth" / "roof.tum")
    assert len(loaded) == 20
    np.testing.assert_allclose(loaded.gt_poses[:, :3, 3], truth.xyz - truth.xyz[0], atol=1e-6)
    points, _ = loaded[3]
    assert points.shape[1] == 3


# ---- SemanticKITTI ---------------------------------------------------------------------------------------------------


def test_semantic_kitti_has_classes_and_instances(yard: Path) -> None:
    place = yard / "semantic-kitti" / "sequences" / "00"
    config = yaml.safe_load((yard / "semantic-kitti" / "semantic-kitti.yaml").read_text())
    words = yaml.safe_load((yard / "semantic-kitti" / "label-map.yaml").read_text())["labels"]
    assert words["wall"] == {"ours": 108, "class": "building", "number": 50}
    assert (place / "poses.txt").read_bytes() == (yard / "semantic-kitti" / "poses" / "00.txt").read_bytes()
    seen: set[str] = set()
    tracks: dict[int, set[int]] = {}
    for number in range(12):
        codes = np.fromfile(place / "labels" / f"{number:06d}.label", np.uint32)
        label, instance = codes & 0xFFFF, codes >> 16
        cloud = ph.PointCloud.load(yard / "top" / f"{number:06d}.pcd")
        assert len(codes) == len(cloud) == (place / "velodyne" / f"{number:06d}.bin").stat().st_size // 16
        names = np.array([config["labels"][code] for code in label])
        seen |= set(names)
        ours = np.array([cloud.names["label"].get(int(code), "") for code in cloud.label])
        solid = cloud.origin == 0
        assert set(names[~solid]) <= {"outlier"}
        for word in set(ours[solid]):
            expected = {config["labels"][words[word]["number"]]}
            if "moving" in words[word]:
                expected.add(config["labels"][words[word]["moving"]])
            assert set(names[solid & (ours == word)]) <= expected
        countable = instance > 0
        assert np.array_equal(instance[countable], cloud.instance[countable])
        assert not np.any(countable & np.isin(names, ["road", "building", "outlier"]))
        for one in np.unique(instance[countable]):
            tracks.setdefault(int(one), set()).update(label[instance == one].tolist())
    assert {"moving-car", "car", "moving-person", "person", "road", "building"} <= seen
    # Each object has one class throughout, except the walker, who starts at rest.
    assert sorted(map(sorted, tracks.values())) == [[10], [20], [30], [30, 254], [99], [99], [252]]


# ---- KITTI object ----------------------------------------------------------------------------------------------------


def parsed_calibration(file: Path) -> dict[str, Any]:
    rows = (line.split(":") for line in file.read_text().splitlines())
    return {name: np.array(numbers.split(), float) for name, numbers in rows}


def in_box(label: list[str], camera: Any) -> Any:
    """Places in camera axes as shares of a label's half size from its middle (n, 3), by the description of the object
    development kit alone."""
    height, width, length, x, y, z, turn = map(float, label[8:15])
    cos, sin = np.cos(turn), np.sin(turn)
    away = camera - np.array([x, y - height / 2, z])
    along, across = cos * away[:, 0] - sin * away[:, 2], sin * away[:, 0] + cos * away[:, 2]
    return np.stack([along, across, away[:, 1]], axis=1) / np.array([length / 2, width / 2, height / 2])


def inside(label: list[str], camera: Any) -> Any:
    """Mask of the points in camera axes that lie in the box of a label."""
    return np.all(np.abs(in_box(label, camera)) <= 1.0, axis=1)


def off_the_box(label: list[str], camera: Any, beam: Any, margin_m: float) -> Any:
    """Distance [m] along its beam from each point to a label's box, which is wider by a margin; infinite where the
    beam passes it by."""
    at = in_box(label, camera)
    per_m = in_box(label, camera + beam) - at
    half = 1.0 + margin_m / (np.array([float(label[10]), float(label[9]), float(label[8])]) / 2)
    per_m = np.where(np.abs(per_m) < 1e-9, 1e-9, per_m)
    ends = np.sort(np.stack([(-half - at) / per_m, (half - at) / per_m]), axis=0)
    enter, leave = ends[0].max(axis=1), ends[1].min(axis=1)
    return np.where(enter > leave, np.inf, np.maximum(np.maximum(enter, -leave), 0.0))


def test_kitti_boxes_hold_the_points_of_their_objects(yard: Path) -> None:
    """Every point lies in the box of its object except for the error of its range, along its own beam.

    The constant errors of rings are taken off; noise of the sheet's deviation is left, 5.8 of which the worst of some
    thousand points may have. Across the beam there is half a step of the encoder and of the range, and the decimals.
    """
    place = yard / "kitti-object" / "training"
    sheet = ph.Lidar("velodyne/vlp-16").config
    bias = channel_biases(sheet.noise, 16, sheet.name)
    assert bias is not None
    margin = 30.0 * np.radians(0.5 * sheet.noise.encoder_step_deg) + 0.5 * sheet.range.resolution_m + 1e-4
    off: list[Any] = []
    sigma: list[Any] = []
    checked, in_view = 0, 0
    for number in range(12):
        name = f"{number:06d}"
        points = np.fromfile(place / "velodyne" / f"{name}.bin", np.float32).reshape(-1, 4)
        calibration = parsed_calibration(place / "calib" / f"{name}.txt")
        turn = calibration["Tr_velo_to_cam"].reshape(3, 4)
        np.testing.assert_allclose(turn[:, :3] @ turn[:, :3].T, np.eye(3), atol=1e-9)
        camera = points[:, :3] @ turn[:, :3].T + turn[:, 3]
        cloud = ph.PointCloud.load(yard / "top" / f"{name}.pcd")
        labels = [line.split() for line in (place / "label_360" / f"{name}.txt").read_text().splitlines()]
        ahead = [line.split() for line in (place / "label_2" / f"{name}.txt").read_text().splitlines()]
        assert all(len(label) == 15 for label in labels)
        assert all(label in labels and label[4] != "-1.0000" for label in ahead)
        in_view += len(ahead)
        solid = cloud.origin == 0
        for one in np.unique(cloud.instance[solid]).tolist():
            if not words_on(cloud, one) <= {"car", "person", "forklift", "cone"}:
                continue
            own = solid & (cloud.instance == one)
            if own.sum() >= 5:
                beam = points[own, :3] / np.linalg.norm(points[own, :3], axis=1)[:, None] @ turn[:, :3].T
                # Point where the beam hit the object, without noise: rings have constant errors, which are known.
                met = camera[own] - bias[cloud.ring[own]][:, None] * beam
                off.append(min((off_the_box(label, met, beam, margin) for label in labels), key=np.sum))
                snr = sheet.receiver.threshold_to_noise * cloud.power[own].astype(float)
                noise = sheet.noise
                sigma.append(range_sigma(snr, sigma_0=noise.range_sigma_m, sigma_1=noise.range_sigma_snr_m))
                checked += 1
        # Points of a box in view are within its rectangle.
        project = calibration["P2"].reshape(3, 4)[:, :3]
        for label in ahead:
            left, top, right, bottom = map(float, label[4:8])
            kept = camera[inside(label, camera)]
            kept = kept[kept[:, 2] > 0.1]
            flat = kept @ project.T
            pixels = np.clip(flat[:, :2] / flat[:, 2:], 0, np.array([1241, 374]))
            assert np.all((pixels >= (left - 0.01, top - 0.01)) & (pixels <= (right + 0.01, bottom + 0.01)))
    assert checked >= 50
    assert in_view >= 20
    worst = np.concatenate(off) / np.concatenate(sigma)
    assert worst.max() < deviations(len(worst))
    frames = (yard / "kitti-object" / "frames.csv").read_text().splitlines()
    assert frames[3] == "000002,top,2,0.2"
    assert (yard / "kitti-object" / "ImageSets" / "train.txt").read_text().split()[-1] == "000011"


def words_on(cloud: ph.PointCloud, instance: int) -> set[str]:
    """Labels of an instance's points."""
    return {cloud.names["label"][int(label)] for label in np.unique(cloud.label[cloud.instance == instance])}


def test_what_stands_in_front_hides(tmp_path: Path) -> None:
    """A wall before a car: its shadow falls on y > 0.6 m · 10/6 of 4.7 m, so that 28 % of the car are hidden."""
    scene = {
        "duration_s": 0.15,
        "world": "yard.yaml",
        "objects": [
            {"shape": {"kind": "box", "size_m": [0.2, 3, 4]}, "material": "brick", "label": "wall",
             "pose": {"xyz": [6, 2.1, 2]}},
        ],
        "machines": [{"kind": "car", "name": "car", "motion": {"fixed": {"xyz": [10, 0, 0], "rpy_deg": [0, 0, 90]}}}],
        "people": [], "scatter": [], "vehicles": [],
        "sensors": [{"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "mount": {"xyz": [0, 0, 1]}}],
    }  # fmt: skip
    Scenario.load(drive(tmp_path, ["kitti-object", "nuscenes"], **scene)).run(tmp_path / "out")
    lines = (tmp_path / "out" / "kitti-object" / "training" / "label_2" / "000000.txt").read_text().splitlines()
    assert [line.split()[:3] for line in lines] == [["Car", "0.00", "1"]]
    (box,) = json.loads((tmp_path / "out" / "nuscenes" / "v1.0-mini" / "sample_annotation.json").read_text())
    assert box["visibility_token"] == "3"  # 60 to 80 %


# ---- nuScenes (with its own development kit: tests/devkits) ----------------------------------------------------------


def test_nuscenes_tables_hold_together(yard: Path) -> None:
    place = yard / "nuscenes"
    tables = {file.stem: json.loads(file.read_text()) for file in (place / "v1.0-mini").glob("*.json")}
    assert len(tables) == 13
    known = {name: {row["token"] for row in rows} for name, rows in tables.items()}
    assert all(len(known[name]) == len(rows) for name, rows in tables.items())
    foreign = {"log_token": "log", "category_token": "category", "instance_token": "instance",
               "sample_token": "sample", "ego_pose_token": "ego_pose", "scene_token": "scene",
               "calibrated_sensor_token": "calibrated_sensor", "sensor_token": "sensor",
               "visibility_token": "visibility"}  # fmt: skip
    for name, rows in tables.items():
        for row in rows:
            for key in foreign.keys() & row.keys():
                assert row[key] in known[foreign[key]]
            for key in ("prev", "next"):
                assert row.get(key, "") in {"", *known[name]}
    assert [row["timestamp"] for row in tables["sample"]] == [0, 500_000, 1_000_000]
    assert sum(row["is_key_frame"] for row in tables["sample_data"]) == 3
    assert all((place / row["filename"]).is_file() for row in [*tables["sample_data"], *tables["map"]])
    assert len(list((place / "sweeps" / "LIDAR_TOP").iterdir())) == 9


# ---- all of them -----------------------------------------------------------------------------------------------------


def test_a_stopped_run_leaves_a_smaller_set_and_goes_on_to_the_same_bytes(yard: Path, tmp_path: Path) -> None:
    with pytest.raises(Stop):
        Scenario.load(drive(tmp_path, KINDS)).run(tmp_path / "out", progress=stop_after(7))
    left = files_of(tmp_path / "out")
    assert len(np.loadtxt(tmp_path / "out" / "semantic-kitti" / "poses" / "00.txt")) == 7
    assert len(json.loads(left["nuscenes/v1.0-mini/sample.json"])) == 2
    assert left["kitti-object/ImageSets/train.txt"].split()[-1] == b"000006"
    Scenario.load(drive(tmp_path, KINDS)).run(tmp_path / "out")
    assert files_of(tmp_path / "out") == files_of(yard)
    listed = json.loads((yard / "manifest.json").read_text())["files"]
    assert {"nuscenes/v1.0-mini/scene.json", "kitti-object/README.txt"} <= set(listed)


def test_several_lidars_and_vehicles(tmp_path: Path) -> None:
    rear = {**DRIVE["sensors"][0], "name": "rear", "mount": {"xyz": [-1, 0, 1]}, "phase_s": 0.02}
    post = {"name": "post", "type": "lidar", "model": "ouster/os0-32", "mount": {"xyz": [5, 5, 3]},
            "options": {"sub_rays": 1}}  # fmt: skip
    kinds = ["kitti-odometry", *KINDS]
    file = drive(tmp_path, kinds, duration_s=0.3, sensors=[DRIVE["sensors"][0], rear, post])
    Scenario.load(file).run(tmp_path / "out")
    written = files_of(tmp_path / "out")
    assert {f"kitti-odometry/poses/0{k}.txt" for k in range(3)} <= set(written)
    rows = written["kitti-object/frames.csv"].decode().splitlines()[1:]
    assert [row.split(",")[:3] for row in rows] == [
        [f"{frame:06d}", name, str(scan)]
        for frame, (name, scan) in enumerate([*(("top", k) for k in range(3)), *(("rear", k) for k in range(2)),
                                              *(("post", k) for k in range(3))])
    ]  # fmt: skip
    scenes = json.loads(written["nuscenes/v1.0-mini/scene.json"])
    assert [scene["name"] for scene in scenes] == ["scene-0061", "scene-0553"]
    channels = [row["channel"] for row in json.loads(written["nuscenes/v1.0-mini/sensor.json"])]
    assert channels == ["LIDAR_TOP", "LIDAR_REAR"]
    # An Ouster counts photons; its intensity is put on the scale of the sets.
    points = np.frombuffer(written["kitti-odometry/sequences/02/velodyne/000000.bin"], np.float32).reshape(-1, 4)
    assert 0.0 < points[:, 3].max() <= 1.0


@pytest.mark.parametrize(
    ("changes", "kinds", "words"),
    [
        ({"duration_s": 0.05}, ["nuscenes"], "needs a lidar that completes a scan"),
        ({}, ["nuscenes", "nuscenes"], "is given twice"),
        ({"sensors": [{**DRIVE["sensors"][0], "name": "nuscenes"}]}, ["nuscenes"], "rename the sensor"),
    ],
)
def test_what_cannot_be_is_reported(tmp_path: Path, changes: dict[str, Any], kinds: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Scenario.load(drive(tmp_path, kinds, **changes)).run(tmp_path / "out")
