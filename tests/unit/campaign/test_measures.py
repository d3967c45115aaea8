"""The own measures on a scan that was made by hand, and measures of others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from campaign_rigs import study_in
from parhelion.campaign import Measure, Number, add_measure, measures
from parhelion.core.errors import ConfigError
from parhelion.core.records import ORIGINS, Scan, Shots


def scan(origins: list[str], shots: list[int], ranges: list[float]) -> Scan:
    """Points of given origin, shot and range, of a scan of ten shots."""
    n, count = len(ranges), np.bincount(shots, minlength=10).astype(np.uint8)
    fired = Shots(
        np.tile(np.float32([1, 0, 0]), (10, 1)), np.zeros((10, 3), np.float32), np.zeros(10, np.float32),
        np.zeros(10, np.uint16), np.arange(10, dtype=np.uint16), count,
    )  # fmt: skip
    fields = {
        "range": np.float32(ranges),
        "intensity": np.arange(n, dtype=np.float32),
        "shot": np.array(shots, np.uint32),
        "origin": np.array([ORIGINS.index(word) for word in origins], np.uint8),
    }
    return Scan(np.zeros((n, 3), np.float32), fields, shots=fired)


def numbers_of(given: Scan) -> dict[str, float]:
    return {k: v for measure in measures().values() if measure.usual for k, v in measure.function(given).items()}


def test_numbers_of_a_scan() -> None:
    given = scan(["surface", "rain", "surface", "fog", "noise"], [0, 0, 1, 2, 3], [10, 2, 20, 1, 5])
    found = numbers_of(given)
    assert found["points_per_scan"] == 5
    assert found["detection_share"] == 0.2
    assert found["lost_shots"] == 6
    assert found["air_points"] == 2
    assert found["air_share"] == 0.4
    assert found["intensity_mean"] == 2
    assert found["range_mean_m"] == pytest.approx(7.6)
    assert found["range_median_m"] == 5
    assert found["range_p95_m"] == pytest.approx(18)


def test_a_scan_without_points_has_counts_and_no_means() -> None:
    found = numbers_of(scan([], [], []))
    assert (found["points_per_scan"], found["lost_shots"], found["detection_share"]) == (0, 10, 0)
    assert np.isnan([found["range_mean_m"], found["intensity_mean"], found["air_share"]]).all()


def test_every_measure_gives_what_it_says() -> None:
    given = scan(["surface"], [4], [3.0])
    for measure in measures().values():
        assert set(measure.function(given)) == {number.name for number in measure.gives}


def nearest(given: Scan) -> dict[str, float]:
    """A measure of another package."""
    return {"nearest_m": float(given.fields["range"].min())}


def test_others_add_measures(tmp_path: Path) -> None:
    own = Measure("nearest", f"{__name__}:nearest", (Number("nearest_m", "m", "nearest point"),))
    with pytest.raises(ConfigError, match="is a measure of Parhelion's own"):
        add_measure(Measure("lost_shots", own.home, own.gives))
    add_measure(own)
    try:
        study = study_in(tmp_path, measures=["nearest", "points_per_scan"])
        assert list(study.numbers) == ["nearest_m", "points_per_scan"]
        assert measures()["nearest"].function(scan(["surface"] * 2, [0, 1], [7, 4])) == {"nearest_m": 4.0}
    finally:
        measures.__globals__["_added"].clear()


def test_two_lidars_have_columns_of_their_own(tmp_path: Path) -> None:
    top = {"name": "top", "type": "lidar", "model": "rig.yaml"}
    study = study_in(tmp_path, {"sensors": [top, {**top, "name": "low"}]}, measures=["lost_shots"])
    assert list(study.numbers) == ["top.lost_shots", "low.lost_shots"]
