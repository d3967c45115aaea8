"""`DetectionEval` of nuScenes on the files that Parhelion scores. `make test-devkits` sets up its environment."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataset_rigs import drive
from nuscenes_rigs import write_results, write_set
from parhelion.evaluate.detections import evaluate_pair, read_pair
from parhelion.scenario import Scenario

pytestmark = pytest.mark.filterwarnings("ignore")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    devkit = pytest.importorskip("nuscenes.nuscenes", reason="nuscenes-devkit is not installed: make test-devkits")
    scores = pytest.importorskip("nuscenes.eval.detection.evaluate")
    settings = pytest.importorskip("nuscenes.eval.common.config")

WORDS = {"ate_m": "trans_err", "ase": "scale_err", "aoe_rad": "orient_err", "ave_m_s": "vel_err", "aae": "attr_err"}
EXACT = 1e-9
"""Tolerance for sums of some hundred terms in another order, and for angles by another formula."""


def theirs(folder: Path, results: Path, out: Path) -> Any:
    data = devkit.NuScenes("v1.0-mini", str(folder), verbose=False)
    config = settings.config_factory("detection_cvpr_2019")
    return scores.DetectionEval(data, config, str(results), "mini_train", str(out), verbose=False).evaluate()[0]


def check_equal(ours: dict[str, Any], metrics: Any) -> None:
    theirs = metrics.serialize()
    assert ours["nds"] == pytest.approx(theirs["nd_score"], abs=EXACT)
    assert ours["map"] == pytest.approx(theirs["mean_ap"], abs=EXACT)
    for word, their_word in WORDS.items():
        assert ours["errors"][word] == pytest.approx(theirs["tp_errors"][their_word], abs=EXACT)
    for name, one in ours["classes"].items():
        for distance, share in one["ap_by_distance_m"].items():
            assert share == pytest.approx(theirs["label_aps"][name][float(distance)], abs=EXACT), (name, distance)
        for word, their_word in WORDS.items():
            expected = theirs["label_tp_errors"][name][their_word]
            if np.isnan(expected):
                assert one["errors"][word] is None
            else:
                assert one["errors"][word] == pytest.approx(expected, abs=EXACT), (name, word)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_drawn_boxes_of_all_classes(seed: int, tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", seed)
    results = write_results(folder, tmp_path / "results.json", seed, error=(1.0, 0.4, 2.0)[seed])
    ours = evaluate_pair(read_pair(folder, results))
    check_equal(ours, theirs(folder, results, tmp_path / "out"))
    # The comparison is not trivial: precisions and errors of all kinds occur.
    assert 0.03 < ours["map"] < 0.9
    assert sum(one["labels"] > 0 for one in ours["classes"].values()) >= 9


def test_a_set_that_a_run_wrote(tmp_path: Path) -> None:
    Scenario.load(drive(tmp_path, ["nuscenes"], duration_s=2.2)).run(tmp_path / "out")
    folder = tmp_path / "out" / "nuscenes"
    results = write_results(folder, tmp_path / "results.json", scenes=("scene-0061",), error=0.5, invented=3)
    ours = evaluate_pair(read_pair(folder, results))
    check_equal(ours, theirs(folder, results, tmp_path / "scores"))
    assert ours["scored"]["map"] > 0.1
