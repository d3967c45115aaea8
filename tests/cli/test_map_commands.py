"""`parhelion map` and `parhelion evaluate localise` as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from parhelion.core.clouds import PointCloud
from parhelion.io import poses as tum
from parhelion.io.poses import TimedPoses


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A run whose lidar stands in front of a wall of 5 m by 2 m, and moves 0.5 m per scan along it."""
    clouds = tmp_path / "run" / "roof"
    clouds.mkdir(parents=True)
    (tmp_path / "run" / "truth").mkdir()
    rng = np.random.default_rng(0)
    wall = np.column_stack([np.full(3000, 4.0), rng.uniform(-3, 3, 3000), rng.uniform(-1, 2, 3000)])
    corner = np.column_stack([rng.uniform(-3, 4, 3000), np.full(3000, 3.0), rng.uniform(-1, 2, 3000)])
    floor = np.column_stack([rng.uniform(-3, 4, 3000), rng.uniform(-3, 3, 3000), np.full(3000, -1.0)])
    place = np.array([[0.3 * k, 0.0, 0.0] for k in range(4)])
    for number, xyz in enumerate(place):
        PointCloud(np.concatenate([wall, corner, floor]) - xyz).save(clouds / f"{number:06d}.pcd")
    tum.write_tum(
        TimedPoses(0.1 * np.arange(4), place, np.tile([0.0, 0, 0, 1], (4, 1))), tmp_path / "run/truth/roof.tum"
    )
    return tmp_path / "run"


def test_a_map_of_a_run_and_a_drive_in_it(run, fails, run_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("small_gicp")
    cloud, out = tmp_path / "map.pcd", tmp_path / "out"
    result = run("map", run_folder, "-o", cloud, "--voxel", "0.1")
    assert result.exit_code == 0, result.output
    assert "7 x 6 x 3 m, from 4 scans" in result.stdout
    assert len(PointCloud.load(cloud)) < 9000
    result = run("evaluate", "localise", run_folder, "--map", cloud, "--method", "plane-icp", "-o", out)
    assert result.exit_code == 0, result.output
    found = json.loads((out / "results.json").read_text())
    assert found["runs"][0]["scans"] == 4
    # The true trajectory ends at the start of the last scan, so poses at the ends of three scans are scored.
    assert found["summary"][0]["rms_m"]["mean"] < 0.02
    assert "Localisation in a map" in (out / "report.html").read_text()
    assert (out / "trajectories" / "plane-icp-as-recorded_0.tum").is_file()

    assert "has neither velocities nor labels" in fails("map", run_folder, "-o", cloud, "--static")
    assert "is a recording" in fails("evaluate", "localise", run_folder, "--map", cloud, "--seeds", "2", "-o", out)
    assert "no such file" in fails("map", tmp_path / "none", "-o", cloud)
    assert "no such file" in fails("evaluate", "localise", run_folder, "--map", tmp_path / "no.pcd", "-o", out)
    assert ".pcd" in fails("map", run_folder, "-o", tmp_path / "map.docx")
