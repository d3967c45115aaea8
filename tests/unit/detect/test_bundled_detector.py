"""The bundled detector on streets that its training did not use, and on a recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from lidar_recorded_rigs import points_of
from oracles import oracle
from parhelion.detect.detector import BUNDLED, Detections
from parhelion.detect.scenes import TrainingStudy
from parhelion.evaluate.detections.kitti import overlaps
from recorded_drives import KITTI

EXAMPLE = Path(__file__).parents[3] / "examples/studies/detector.yaml"


@pytest.mark.oracle
@pytest.mark.slow
def test_it_finds_cars_in_new_streets() -> None:
    oracle("torch")
    found = ph.detect.evaluate(ph.detect.Pillars(), "velodyne/hdl-64e-s2", scans=6, streets=3)
    cars = found["weathers"]["clear"]["Car"]["moderate"]
    assert cars["labels"] >= 15
    assert cars["3d"]["ap_percent"] >= 75.0


def test_weights_name_the_settings_of_the_example() -> None:
    settings = TrainingStudy.load(EXAMPLE)
    with np.load(BUNDLED, allow_pickle=False) as file:
        about = json.loads(file["about"].tobytes().decode())
    assert about == {key: getattr(settings, key) for key in ("scans", "seed", "sensor", "streets")}
    assert BUNDLED.stat().st_size < 5e6


@pytest.mark.oracle
@pytest.mark.slow
def test_it_finds_the_vans_and_the_cyclist_of_a_recording() -> None:
    """Trained on simulated scans only: every fourth frame of a drive past two vans and behind a cyclist."""
    oracle("torch")
    if not KITTI.is_dir():
        pytest.skip("no recorded drive beside the project")
    detector = ph.detect.Pillars(least_score=0.2)
    labels = {one["frame"]: one["objects"] for one in json.loads((KITTI / "tracklets.json").read_text())}
    overlap: dict[str, list[float]] = {"Car": [], "Cyclist": []}
    for number in range(60, 86, 4):
        points = points_of(KITTI / "lidar" / f"{number:06d}.dz")
        found = detector.detect(ph.PointCloud(points[:, :3].astype(np.float64)))
        truth = labelled(labels[number])
        above = overlaps(truth.as_kitti(), found.as_kitti())[1]
        for row, kind in enumerate(truth.kind):
            overlap[kind].append(float(np.max(above[row], initial=0.0, where=np.array(found.kind, object) == kind)))
    assert len(overlap["Car"]) == 14
    assert len(overlap["Cyclist"]) == 7
    assert np.mean(np.array(overlap["Car"]) > 0.7) >= 0.85
    assert min(overlap["Cyclist"]) > 0.5


def labelled(objects: list[dict[str, Any]]) -> Detections:
    """Labels of a frame; a van counts as a car, as in training."""
    boxes, kinds = [], []
    for one in objects:
        corners = np.array(one["footprint_velo"])[:4]
        sides = [corners[1] - corners[0], corners[2] - corners[1]]
        across, along = sorted(sides, key=lambda side: float(np.hypot(*side[:2])))
        centre = corners.mean(axis=0) + np.array([0.0, 0.0, 0.5 * one["height"]])
        size = np.hypot(*along[:2]), np.hypot(*across[:2]), one["height"]
        boxes.append([*centre, *size, np.arctan2(along[1], along[0])])
        kinds.append("Car" if one["class"][0] == "Van" else one["class"][0])
    return Detections(np.array(boxes).reshape(-1, 7), tuple(kinds), np.zeros(len(kinds)))
