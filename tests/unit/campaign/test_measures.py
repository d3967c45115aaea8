"""Built-in measures on a hand-made scan, and measures of other packages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from campaign_rigs import study_in
from parhelion.campaign import Measure, Number, add_measure, measures, run_campaign
from parhelion.core.clouds import ORIGINS, Scan, Shots
from parhelion.core.errors import ConfigError, MissingDependencyError
from parhelion.evaluate.clouds import objects_in


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
        "instance": np.zeros(n, np.uint32),
        "label": np.zeros(n, np.uint16),
    }
    ahead = np.float32([1, 0, 0]) * fields["range"][:, None]
    return Scan(ahead, fields, shots=fired)


def numbers_of(given: Scan) -> dict[str, float]:
    return {k: v for measure in measures().values() if measure.default for k, v in measure.function(given).items()}


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


def test_every_measure_returns_its_declared_numbers() -> None:
    given = scan(["surface"], [4], [3.0])
    for measure in measures().values():
        takes = {"scan": (given,), "pair": (given, given)}.get(measure.of)
        if takes is not None:  # those of runs: tests/contracts/test_campaign_scores.py
            assert set(measure.function(*takes)) == {number.name for number in measure.gives}


def test_scores_against_clear_air() -> None:
    """The weather moves one of three shots by 2 m, removes one, and adds a drop."""
    clear = scan(["surface"] * 3, [0, 1, 2], [10, 20, 30])
    wet = scan(["surface", "surface", "rain"], [0, 1, 3], [12, 20, 5])

    def numbers(name: str, *clouds: Scan) -> dict[str, float]:
        return dict(measures()[name].function(*clouds))

    assert numbers("range_error", wet, clear) == {"range_error_m": 1.0}
    # There: 10 to 12, 20 to 20, 30 to 20. Back: 12 to 10, 20 to 20, 5 to 10.
    assert numbers("chamfer", wet, clear)["chamfer_m"] == pytest.approx(12 / 3 + 7 / 3)
    found = numbers("detection_rates", wet)
    assert found["detection_rate_percent"] == pytest.approx(200 / 3)
    assert found["false_detection_rate_percent"] == pytest.approx(100 / 3)
    for name in ("range_error", "chamfer"):
        assert all(np.isnan(value) for value in numbers(name, scan([], [], []), clear).values())


def test_road_users_are_counted_and_lost() -> None:
    """Two cars and a rider of 12, 20 and 15 points, a wall; in fog the first car has 6, the rider none."""

    def seen(counts: dict[int, int]) -> Scan:
        labels = {1: 10, 2: 10, 3: 31, 4: 50}
        instance = np.repeat(list(counts), list(counts.values())).astype(np.uint32)
        n = len(instance)
        base = scan(["surface"] * n, [0] * n, [10.0] * n)
        xyz = np.random.default_rng(0).random((n, 3)).astype(np.float32)
        label = np.array([labels[int(one)] for one in instance], np.uint16)
        names = {"label": {10: "car", 31: "bicyclist", 50: "building"}}
        return Scan(xyz, {**base.fields, "instance": instance, "label": label}, "sensor", names, shots=base.shots)

    clear, fog = seen({1: 12, 2: 20, 3: 15, 4: 40}), seen({1: 6, 2: 20, 4: 40})
    found = dict(measures()["road_users"].function(clear))
    assert found == {"vehicles": 2, "vehicle_points": 16, "people": 1, "people_points": 15}
    lost = dict(measures()["lost_road_users"].function(fog, clear))
    assert lost["lost_road_users"] == 2
    dense = {one.instance: one.density_m3 for one in objects_in(clear)}
    expected = 1 - (0.5 * dense[1] + dense[2]) / (dense[1] + dense[2] + dense[3])
    assert lost["sparsity_percent"] == pytest.approx(100 * expected)


def test_a_missing_package_is_reported_with_its_install_command(tmp_path: Path) -> None:
    own = Measure("gone", f"{__name__}:nearest", (Number("nearest_m", "m", "nearest"),), needs=("no-such-package",))
    add_measure(own)
    try:
        with pytest.raises(MissingDependencyError, match="measure gone needs the package no-such-package: run 'pip"):
            run_campaign(study_in(tmp_path, measures=["gone"]), tmp_path / "out")
        assert not (tmp_path / "out" / "results.parquet").exists()
    finally:
        measures.__globals__["_added"].clear()


def nearest(given: Scan) -> dict[str, float]:
    """Measure of another package."""
    return {"nearest_m": float(given.fields["range"].min())}


def test_other_packages_add_measures(tmp_path: Path) -> None:
    own = Measure("nearest", f"{__name__}:nearest", (Number("nearest_m", "m", "nearest point"),))
    with pytest.raises(ConfigError, match="is a built-in measure"):
        add_measure(Measure("lost_shots", own.home, own.gives))
    add_measure(own)
    try:
        study = study_in(tmp_path, measures=["nearest", "points_per_scan"])
        assert list(study.numbers) == ["nearest_m", "points_per_scan"]
        assert measures()["nearest"].function(scan(["surface"] * 2, [0, 1], [7, 4])) == {"nearest_m": 4.0}
    finally:
        measures.__globals__["_added"].clear()


def test_two_lidars_have_their_own_columns(tmp_path: Path) -> None:
    top = {"name": "top", "type": "lidar", "model": "rig.yaml"}
    study = study_in(tmp_path, {"sensors": [top, {**top, "name": "low"}]}, measures=["lost_shots"])
    assert list(study.numbers) == ["top.lost_shots", "low.lost_shots"]
