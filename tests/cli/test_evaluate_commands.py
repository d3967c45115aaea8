"""`parhelion evaluate` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nuscenes_rigs import write_results, write_set
from parhelion.core.clouds import PointCloud
from parhelion.io import poses as tum
from parhelion.io.poses import TimedPoses


def write_cloud(path: Path, shift: float = 0.0, points: int = 200, **fields: np.ndarray) -> Path:
    rng = np.random.default_rng(0)
    path.parent.mkdir(exist_ok=True)
    PointCloud(rng.uniform(-20, 20, (points, 3)) + np.array([shift, 0, 0]), fields).save(path)
    return path


def write_way(path: Path, scale: float = 1.0, poses: int = 300) -> Path:
    x = np.arange(poses) * 1.0
    tum.write_tum(
        TimedPoses(0.1 * x, np.stack([scale * x, 0 * x, 0 * x], 1), np.tile([0.0, 0, 0, 1], (poses, 1))), path
    )
    return path


def test_clouds_of_two_files(run, tmp_path: Path) -> None:
    real, simulated = write_cloud(tmp_path / "real.npz"), write_cloud(tmp_path / "sim.npz", 0.01)
    page, numbers = tmp_path / "report.html", tmp_path / "out.json"
    result = run("evaluate", "clouds", real, simulated, "-o", page, "--json", numbers)
    assert result.exit_code == 0, result.output
    assert "Chamfer distance" in result.stdout
    found = json.loads(numbers.read_text())
    assert found["chamfer_m"] == pytest.approx(0.02, abs=1e-6)
    assert found["emd_m"] == pytest.approx(0.01, abs=1e-6)
    assert found["emd_exact"] is True
    text = page.read_text()
    assert "Clouds compared" in text
    assert "<svg" in text


def test_folders_are_paired_by_name_or_order(run, tmp_path: Path) -> None:
    for number in range(3):
        write_cloud(tmp_path / "real" / f"{number}.npz")
        write_cloud(tmp_path / "sim" / f"{number}.npz", 0.01 * number)
        write_cloud(tmp_path / "other" / f"frame-{number}.npz", 0.02)
    numbers = tmp_path / "out.json"
    assert run("evaluate", "clouds", tmp_path / "real", tmp_path / "sim", "--json", numbers).exit_code == 0
    found = json.loads(numbers.read_text())
    assert [pair["name"] for pair in found["pairs"]] == ["0", "1", "2"]
    assert found["chamfer_m"] == pytest.approx(np.mean([0.0, 0.02, 0.04]), abs=1e-6)
    assert run("evaluate", "clouds", tmp_path / "real", tmp_path / "other", "--json", numbers).exit_code == 0
    assert json.loads(numbers.read_text())["chamfer_m"] == pytest.approx(0.04, abs=1e-6)


def test_clouds_that_cannot_be_compared(fails, tmp_path: Path) -> None:
    good = write_cloud(tmp_path / "good.npz")
    empty = write_cloud(tmp_path / "empty.npz", points=0)
    assert "empty.npz: the cloud is empty" in fails("evaluate", "clouds", good, empty)
    assert "no common field 'intensity'" in fails("evaluate", "clouds", good, good, "--field", "intensity")
    assert "missing.npz: no such file" in fails("evaluate", "clouds", good, tmp_path / "missing.npz")
    write_cloud(tmp_path / "a" / "1.npz")
    write_cloud(tmp_path / "b" / "x.npz")
    write_cloud(tmp_path / "b" / "y.npz")
    assert "without a name in common" in fails("evaluate", "clouds", tmp_path / "a", tmp_path / "b")
    assert "two files or two folders" in fails("evaluate", "clouds", good, tmp_path / "a")
    assert "does not exist" in fails("evaluate", "clouds", good, good, "--json", tmp_path / "no" / "out.json")


def test_detections_of_two_files(run, fails, tmp_path: Path) -> None:
    box = "Car 0.00 0 0.00 100.00 100.00 160.00 160.00 1.50 1.80 4.20 {x} 1.60 {z} 0.30"
    labels, found = tmp_path / "labels.txt", tmp_path / "found.txt"
    labels.write_text("\n".join(box.format(x=6 * k, z=10 + 20 * k) for k in range(5)))
    found.write_text("\n".join(box.format(x=6 * k, z=10 + 20 * k) + f" {0.9 - 0.1 * k:.1f}" for k in range(4)))
    numbers, page = tmp_path / "out.json", tmp_path / "report.html"
    result = run("evaluate", "detections", labels, found, "--json", numbers, "-o", page)
    assert result.exit_code == 0, result.output
    car = json.loads(numbers.read_text())["classes"]["Car"]["difficulty"]["easy"]
    # Of five labels four are found without a slip: four recall points have a precision of 1, three of the 40 count.
    assert car["3d"]["ap_percent"] == car["bev"]["ap_percent"] == pytest.approx(100 * 3 / 40)
    assert "Average precision" in page.read_text()
    assert "no such file" in fails("evaluate", "detections", labels, tmp_path / "missing.txt")
    found.write_text("Car 1 2\n")
    assert "line 1" in fails("evaluate", "detections", labels, found)


def test_detections_of_a_nuscenes_set(run, fails, tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set")
    found = write_results(folder, tmp_path / "found.json", error=0.3)
    numbers, page = tmp_path / "out.json", tmp_path / "report.html"
    result = run("evaluate", "detections", folder, found, "--json", numbers, "-o", page)
    assert result.exit_code == 0, result.output
    assert "2 of 3 scenes" in result.stdout
    content = json.loads(numbers.read_text())
    assert 0.2 < content["map"] < content["nds"] < 1.0
    assert f"parhelion evaluate detections {folder} {found}" in page.read_text()
    refused = run("evaluate", "detections", folder, found, "--overlap", "0.5")
    assert refused.exit_code == 2
    assert "applies to KITTI" in refused.stderr
    assert "no such folder" in fails("evaluate", "detections", tmp_path / "missing", found)
    assert "expected a field results" in fails("evaluate", "detections", folder, numbers)
    kitti = tmp_path / "kitti.txt"
    kitti.write_text("")
    assert "not a JSON file" in fails("evaluate", "detections", folder, kitti, "--format", "nuscenes")


def test_two_trajectories(run, tmp_path: Path) -> None:
    truth, estimate = write_way(tmp_path / "truth.tum"), write_way(tmp_path / "mine.tum", 1.01)
    result = run("evaluate", "slam", truth, "--estimate", estimate, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    row = json.loads((tmp_path / "out" / "results.json").read_text())["summary"][0]
    assert row["method"] == "mine"
    assert row["end_drift_percent"]["mean"] == pytest.approx(1.0)
    assert row["drift_percent"]["mean"] == pytest.approx(1.0, rel=0.02)
    assert "Odometry on a drive" in (tmp_path / "out" / "report.html").read_text()


def test_trajectories_that_cannot_be_scored(fails, tmp_path: Path) -> None:
    truth = write_way(tmp_path / "truth.tum")
    two = write_way(tmp_path / "two.tum", poses=2)
    out = ("-o", tmp_path / "out")
    assert "needs at least 3 poses" in fails("evaluate", "slam", truth, "--estimate", two, *out)
    broken = tmp_path / "broken.tum"
    broken.write_text("0 0 0 0 0 0 0 1\n1 nan 0 0 0 0 0 1\n2 0 0 0 0 0 0 1\n")
    assert "line 2: numbers must be finite" in fails("evaluate", "slam", truth, "--estimate", broken, *out)
    assert "no such file" in fails("evaluate", "slam", tmp_path / "missing.yaml", *out)
    folder = tmp_path / "clouds"
    for number in range(3):
        write_cloud(folder / f"{number}.npz")
    assert "did you mean 'kiss-icp'" in fails("evaluate", "slam", folder, "--method", "kis-icp", *out)
    assert "no true trajectory" in fails("evaluate", "slam", folder, *out)
    assert "to scenarios only" in fails("evaluate", "slam", folder, "--weather", "rain=5", *out)
    assert "3 clouds, but the trajectory has 300 poses" in fails("evaluate", "slam", folder, "--truth", truth, *out)
    scenario = tmp_path / "drive.yaml"
    scenario.write_text("duration_s: 1\n")
    assert "did you mean 'rain'" in fails("evaluate", "slam", scenario, "--weather", "rian=5", *out)
