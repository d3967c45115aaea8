"""`parhelion evaluate objects` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from parhelion.core.clouds import PointCloud


def test_objects_of_two_folders(run, fails, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for folder, shift in (("real", 0.0), ("sim", 0.02)):
        (tmp_path / folder).mkdir()
        points = rng.uniform(-0.5, 0.5, (200, 3)) * [3.8, 1.8, 1.0] + [20.0 + shift, 2.0, -0.9]
        PointCloud(points).save(tmp_path / folder / "7.pcd")
        label = "Car 0 0 0 -1 -1 -1 -1 1.5 2.0 4.0 20 2 -1.75 0\n"
        (tmp_path / folder / "7.txt").write_text(label)
    page, numbers = tmp_path / "report.html", tmp_path / "out.json"
    result = run("evaluate", "objects", tmp_path / "real", tmp_path / "sim", "-o", page, "--json", numbers)
    assert result.exit_code == 0, result.output
    (row,) = json.loads(numbers.read_text())["rows"]
    assert (row["class"], row["from_m"], row["pairs"], row["real"]["points"]) == ("Car", 0.0, 1, 200)
    assert 0.0 < row["emd_m"] < 0.5
    assert "Chamfer distance [m]" in page.read_text()
    (tmp_path / "sim" / "7.txt").unlink()
    assert "no KITTI label file" in fails("evaluate", "objects", tmp_path / "real", tmp_path / "sim")
    assert "no such file" in fails("evaluate", "objects", tmp_path / "none", tmp_path / "sim")
