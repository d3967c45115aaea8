"""Scores of `parhelion.evaluate` in campaigns: the twin in clear air, and odometry."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from campaign_rigs import InThisProcess, study_in
from parhelion.campaign import campaign as campaign_module
from parhelion.campaign import run_campaign
from parhelion.evaluate.clouds import rates
from parhelion.evaluate.clouds.distances import chamfer
from parhelion.evaluate.slam import method_maker
from parhelion.evaluate.slam.drives import ScenarioDrive
from parhelion.evaluate.slam.study import run_methods
from parhelion.scenario.scenario import Scenario

pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: pip install 'parhelion[campaign]'")
pytestmark = pytest.mark.slow

_WAY = [{"time_s": 0, "xyz": [0, 0, 0]}, {"time_s": 2, "xyz": [1, 0, 0]}]
YARD: dict[str, Any] = {
    "duration_s": 1.2,
    "world": "boards-u",
    "vehicles": [{"name": "car", "motion": {"waypoints": _WAY}}],
    "sensors": [{"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "car",
                 "mount": {"xyz": [0, 0, 1.5]}, "options": {"sub_rays": 1}}],
}  # fmt: skip


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return list(pq.read_table(folder / "results.parquet").to_pylist())


def test_the_twin_in_clear_air_is_the_scan_of_the_same_scenario_without_weather(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared with two scenarios that are run one after the other."""
    monkeypatch.setattr(campaign_module, "crew_of", InThisProcess)
    vary = {"weather.rain_rate_mm_h": [0, 200]}
    study = study_in(tmp_path, vary=vary, seeds=[3], measures=["chamfer", "range_error", "detection_rates"])
    run_campaign(study, tmp_path / "out")
    rows = rows_of(tmp_path / "out")
    assert [row["status"] for row in rows] == ["done", "done"]

    def scans(rate: float | None) -> list[Any]:
        scenario = Scenario.load(tmp_path / "scenario.yaml")
        scenario.seed = 3
        scenario.world.weather = None if rate is None else type(scenario.world.weather)(rain_rate_mm_h=rate)
        return [scan for step in scenario.walk() for _, scan in step.scans.get("top", [])]

    clear = scans(None)
    for row in rows:
        wet = scans(row["weather.rain_rate_mm_h"])
        assert row["chamfer_m"] == pytest.approx(np.mean([chamfer(a, b) for a, b in zip(clear, wet, strict=True)]))
        pairs = [rates.paired_ranges(a, b) for a, b in zip(clear, wet, strict=True)]
        assert row["range_error_m"] == pytest.approx(np.mean([rates.range_error(*pair) for pair in pairs if pair]))
        false = np.mean([rates.detections(scan).false_detection_rate_percent for scan in wet])
        assert row["false_detection_rate_percent"] == pytest.approx(false)
    assert rows[0]["chamfer_m"] == rows[0]["range_error_m"] == 0.0
    assert rows[1]["chamfer_m"] > 0.0


def test_odometry_is_in_the_table_and_reproducible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kiss_icp", reason="kiss-icp is not installed: pip install kiss-icp")
    study_in(tmp_path, YARD, vary={}, seeds=2, measures=["kiss-icp"])

    def campaign(*more: str) -> str:
        # KISS-ICP keeps the number of threads of its first run in a process, which may have been another test.
        command = [sys.executable, "-m", "parhelion", "campaign", "study.yaml", "-o", "out", "--workers", "1", *more]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    campaign()
    rows = rows_of(tmp_path / "out")
    assert [row["status"] for row in rows] == ["done", "done"]
    for seed, row in enumerate(rows):
        drive = ScenarioDrive(tmp_path / "scenario.yaml", seed=seed)
        [(alone, _)] = run_methods(drive, {"kiss-icp": method_maker("kiss-icp")})
        assert row["drift_percent"] is None  # the path is shorter than 100 m
        # Threads sum in another order here, so the last digits may differ.
        assert row["ate_m"] == pytest.approx(alone.ate_m, rel=1e-3)
        assert row["end_drift_percent"] == pytest.approx(alone.end_drift_percent, rel=1e-3)
    assert "identical to the table, bit for bit" in campaign("--row", "1")

    monkeypatch.setattr(campaign_module, "crew_of", InThisProcess)
    still = {**YARD, "sensors": [{**YARD["sensors"][0], "vehicle": None}]}
    summary = run_campaign(study_in(tmp_path, still, vary={}, seeds=1, measures=["kiss-icp"]), tmp_path / "still")
    assert summary.failed == 1
    assert "the lidar top is stationary; put it on a vehicle" in (summary.first_error or "")
