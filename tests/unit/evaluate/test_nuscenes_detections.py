"""nuScenes scores with known values; `tests/devkits` compares them with the development kit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nuscenes_rigs import SCENES, rows, write_results, write_set
from parhelion.core.errors import ConfigError, FormatError
from parhelion.evaluate.detections import evaluate_pair, read_pair
from parhelion.evaluate.detections.nuscenes import match, page_of
from parhelion.evaluate.detections.nuscenes_files import CLASSES, NuScenesBoxes, NuScenesPair, _in_reach


def boxes(places: list[tuple[float, float]], score: float | list[float] = 0.0, **changes: Any) -> NuScenesBoxes:
    """Cars of one sample."""
    n = len(places)
    fields: dict[str, Any] = {
        "sample": np.zeros(n, np.int64), "kind": np.zeros(n, np.int64),
        "centre": np.array([(*place, 0.5) for place in places], np.float64).reshape(-1, 3),
        "size": np.tile([2.0, 4.0, 1.5], (n, 1)), "quat_wxyz": np.tile([1.0, 0.0, 0.0, 0.0], (n, 1)),
        "velocity": np.zeros((n, 2)), "attribute": np.full(n, 5), "score": np.broadcast_to(score, n).astype(float),
    }  # fmt: skip
    return NuScenesBoxes(**{**fields, **changes})


def scored(labels: NuScenesBoxes, found: NuScenesBoxes) -> dict[str, Any]:
    return evaluate_pair(NuScenesPair(labels, found, 1, 1, 1))


PLACES = [(float(x), 0.0) for x in range(-40, 40, 8)]


def test_a_perfect_detector_of_one_class() -> None:
    labels = boxes(PLACES)
    result = scored(labels, boxes(PLACES, 0.9))
    # Ten classes count: nine of them have no label and therefore a precision of 0 and errors of 1.
    assert result["map"] == pytest.approx(0.1)
    assert result["errors"]["ate_m"] == pytest.approx(0.9)
    assert result["errors"]["aae"] == pytest.approx(7 / 8)  # cones and barriers have no attribute
    assert result["scored"]["classes"] == ["car"]
    assert (result["scored"]["nds"], result["scored"]["map"]) == pytest.approx((1.0, 1.0))


def test_half_of_the_labels_found() -> None:
    """Precision is 1 up to a recall of 0.5 and 0 beyond: 40 of the 90 recall points above 0.1."""
    result = scored(boxes(PLACES), boxes(PLACES[:5], 0.9))
    assert result["classes"]["car"]["ap"] == pytest.approx(40 / 90)


def test_as_many_false_detections_of_the_same_score() -> None:
    """Every label found, each followed by a false one: precision 1/2 from the second on, 1 at the first."""
    score = np.repeat(np.linspace(0.9, 0.1, len(PLACES)), 2)
    score[1::2] -= 1e-6
    places = [place for x, y in PLACES for place in ((x, y), (x, 20.0))]
    result = scored(boxes(PLACES), boxes(places, score.tolist()))
    n = len(PLACES)
    recall = np.repeat(np.arange(1, n + 1) / n, 2)
    precision = np.repeat(np.arange(1, n + 1), 2) / np.arange(1, 2 * n + 1)
    at = np.interp(np.linspace(0, 1, 101), recall, precision)[11:]
    assert result["classes"]["car"]["ap_by_distance_m"]["2"] == pytest.approx(np.mean(at - 0.1) / 0.9)


def test_errors_of_true_positives() -> None:
    shifted = [(x + 0.6, y + 0.8) for x, y in PLACES]
    n = len(PLACES)
    turn = np.tile([np.cos(0.2), 0.0, 0.0, np.sin(0.2)], (n, 1))
    found = boxes(
        shifted, np.linspace(0.9, 0.1, n).tolist(), quat_wxyz=turn, velocity=np.full((n, 2), 3.0),
        size=np.tile([1.0, 4.0, 1.5], (n, 1)),
        attribute=np.where(np.arange(n) % 2, 5, 6),
    )  # fmt: skip
    car = scored(boxes(PLACES), found)["classes"]["car"]
    # 1 m away: found at 2 and 4 m, not at 0.5; at 1 m rounding decides.
    assert car["ap_by_distance_m"]["0.5"] == 0.0
    assert car["ap_by_distance_m"]["4"] == pytest.approx(1.0)
    assert car["errors"]["ate_m"] == pytest.approx(1.0)
    assert car["errors"]["ase"] == pytest.approx(0.5)
    assert car["errors"]["aoe_rad"] == pytest.approx(0.4)
    assert car["errors"]["ave_m_s"] == pytest.approx(3.0 * np.sqrt(2.0))
    assert 0.4 < car["errors"]["aae"] < 0.6


def test_a_label_is_found_once_and_by_the_best_score() -> None:
    labels = boxes([(0.0, 0.0), (1.5, 0.0)])
    found = boxes([(0.1, 0.0), (0.0, 0.0), (1.4, 0.0), (9.0, 0.0)], [0.9, 0.8, 0.7, 0.6])
    # The second finds the first label already matched, and the other one 1.5 m away.
    assert match(labels, found, 2.0).tolist() == [0, 1, -1, -1]
    assert match(labels, found, 1.0).tolist() == [0, -1, 1, -1]


def test_barriers_are_symmetric() -> None:
    n, kind = len(PLACES), CLASSES.index("barrier")
    turned = np.tile([0.0, 0.0, 0.0, 1.0], (n, 1))  # by 180 degrees
    labels = boxes(PLACES, kind=np.full(n, kind))
    barrier = scored(labels, boxes(PLACES, 0.5, kind=np.full(n, kind), quat_wxyz=turned))["classes"]["barrier"]
    assert barrier["errors"]["aoe_rad"] == pytest.approx(0.0, abs=1e-12)
    assert barrier["errors"]["ave_m_s"] is None
    cars = scored(boxes(PLACES), boxes(PLACES, 0.5, quat_wxyz=turned))["classes"]["car"]
    assert cars["errors"]["aoe_rad"] == pytest.approx(np.pi)


RANGES_M = dict(zip(CLASSES, (50, 50, 50, 50, 50, 40, 40, 40, 30, 30), strict=True))
"""Values of detection_cvpr_2019.json of the development kit."""
NO_RACKS = boxes([])


@pytest.mark.parametrize("kind", CLASSES)
def test_boxes_beyond_the_range_of_their_class_do_not_count(kind: str) -> None:
    ego = np.array([[100.0, -20.0, 3.0]])
    angle = 0.7
    places = [
        (100.0 + r * np.cos(angle), -20.0 + r * np.sin(angle)) for r in (RANGES_M[kind] - 0.1, RANGES_M[kind] + 0.1)
    ]
    there = boxes(places, kind=np.full(2, CLASSES.index(kind)))
    assert _in_reach(there, ego, NO_RACKS).centre[:, 0].tolist() == [places[0][0]]


def test_a_rack_excludes_the_cycles_within_its_rotated_box() -> None:
    turn = np.array([[np.cos(np.pi / 4), 0.0, 0.0, np.sin(np.pi / 4)]])  # by 90 degrees: its length is along y
    rack = boxes([(0.0, 0.0)], size=np.array([[2.0, 6.0, 1.5]]), quat_wxyz=turn)
    places = [(0.0, 2.9), (0.0, 3.1), (0.9, 0.0), (1.1, 0.0), (0.0, 0.0)]
    kinds = [CLASSES.index(name) for name in ("bicycle", "bicycle", "motorcycle", "motorcycle", "car")]
    left = _in_reach(boxes(places, kind=np.array(kinds)), np.zeros((1, 3)), rack)
    assert left.centre[:, :2].tolist() == [[0.0, 3.1], [1.1, 0.0], [0.0, 0.0]]


# ---- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_set(tmp_path_factory.mktemp("set"))


def test_contents_of_a_data_set(folder: Path, tmp_path: Path) -> None:
    results = write_results(folder, tmp_path / "results.json", error=0.0, missed=0.0, invented=0)
    pair = read_pair(folder, results)
    assert (pair.scenes, pair.all_scenes, pair.samples) == (2, 3, 8)
    scenes = {row["token"] for row in rows(folder, "scene") if row["name"] in SCENES[:2]}
    samples = {row["token"] for row in rows(folder, "sample") if row["scene_token"] in scenes}
    empty = sum(
        row["num_lidar_pts"] == 0 for row in rows(folder, "sample_annotation") if row["sample_token"] in samples
    )
    assert empty > 10  # labels without points are excluded, detections there cost
    assert len(pair.labels) < len(pair.found)
    # Velocities of labels follow from neighbours; an instance in one sample has none.
    known = np.isfinite(pair.labels.velocity[:, 0])
    assert 0.7 < known.mean() < 1.0
    result = evaluate_pair(pair)
    assert result["scored"]["errors"]["ate_m"] < 1e-9
    assert result["scored"]["errors"]["ave_m_s"] < 1e-6
    # The samples of the third scene are 2 s apart, too far for a one-sided velocity.
    late = read_pair(folder, write_results(folder, tmp_path / "late.json", scenes=SCENES[2:]))
    assert not np.isfinite(late.labels.velocity).any()


def test_cycles_in_racks_are_left_out(folder: Path, tmp_path: Path) -> None:
    results = write_results(folder, tmp_path / "results.json")
    cycles = [CLASSES.index(name) for name in ("bicycle", "motorcycle")]
    with_racks = np.isin(read_pair(folder, results).labels.kind, cycles).sum()
    category = folder / "v1.0-mini" / "category.json"
    kept = category.read_text()
    category.write_text(kept.replace("static_object.bicycle_rack", "static_object.hedge"))
    try:
        without = np.isin(read_pair(folder, results).labels.kind, cycles).sum()
    finally:
        category.write_text(kept)
    assert 0 < with_racks < without


def test_as_many_boxes_as_are_allowed(folder: Path, tmp_path: Path) -> None:
    file = write_results(folder, tmp_path / "results.json")
    content = json.loads(file.read_text())
    first = next(iter(content["results"].values()))
    first.extend([first[0]] * (500 - len(first)))
    file.write_text(json.dumps(content))
    read_pair(folder, file)


def test_a_page(folder: Path, tmp_path: Path) -> None:
    result = evaluate_pair(read_pair(folder, write_results(folder, tmp_path / "results.json")))
    text = page_of(result, "set", "<results>")
    assert "&lt;results&gt;" in text
    assert "2 of 3 scenes" in text
    assert text.count('<svg class="plot"') == 2
    assert "alone</td>" not in text  # all ten classes have labels
    one = evaluate_pair(NuScenesPair(boxes(PLACES), boxes(PLACES, 0.5), 1, 1, 1))
    assert "car alone</td>" in page_of(one, "set", "results")


def _of(results: dict[str, Any]) -> dict[str, Any]:
    """First box."""
    box: dict[str, Any] = next(rows[0] for rows in results["results"].values() if rows)
    return box


def _drop_a_sample(results: dict[str, Any]) -> None:
    results["results"].pop(next(iter(results["results"])))


DAMAGES: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda r: r.pop("results"), "field results"),
    (lambda r: r.update(results={}), "contains no samples"),
    (lambda r: r["results"].update(nowhere=[]), "'nowhere' is not a sample"),
    (_drop_a_sample, "1 samples of its scenes"),
    (lambda r: _of(r).pop("velocity"), "velocity is required"),
    (lambda r: _of(r).update(translation=[0, 1]), "translation must be 3 finite numbers"),
    (lambda r: _of(r).update(size=[1, float("nan"), 1]), "size must be 3 finite numbers"),
    (lambda r: _of(r).update(size=[1, -1, 1]), "size must be above 0"),
    (lambda r: _of(r).update(rotation=[0, 0, 0, 0]), "rotation must not be zero"),
    (lambda r: _of(r).update(detection_name="cars"), "did you mean 'car'"),
    (lambda r: _of(r).update(attribute_name="parked"), "did you mean 'vehicle.parked'"),
    (lambda r: _of(r).update(detection_score=-0.1), "detection_score must be a number of 0 or more"),
    (lambda r: _of(r).update(detection_score=-(10**30)), "detection_score must be a number of 0 or more"),
    (lambda r: _of(r).update(sample_token="other"), "another sample"),
    (lambda r: next(iter(r["results"].values())).extend([_of(r)] * 500), "boxes; 500 are allowed"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "message"), DAMAGES, ids=[message for _, message in DAMAGES])
def test_results_that_cannot_be_scored(
    damage: Callable[[dict[str, Any]], Any], message: str, folder: Path, tmp_path: Path
) -> None:
    file = write_results(folder, tmp_path / "results.json")
    content = json.loads(file.read_text())
    damage(content)
    file.write_text(json.dumps(content))
    with pytest.raises(FormatError, match=r"results\.json.*" + message.replace(".", r"\.")):
        read_pair(folder, file)


def test_folders_that_are_no_set(folder: Path, tmp_path: Path) -> None:
    results = write_results(folder, tmp_path / "results.json")
    with pytest.raises(FormatError, match="no such folder"):
        read_pair(tmp_path / "missing", results)
    with pytest.raises(FormatError, match="not a nuScenes data set"):
        read_pair(tmp_path, results)
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(FormatError, match="not a JSON file"):
        read_pair(folder, tmp_path / "broken.json")
    instances = folder / "v1.0-mini" / "instance.json"
    kept = instances.read_text()
    instances.write_text("[]")
    try:
        with pytest.raises(FormatError, match="is damaged, or not of the type that its name implies"):
            read_pair(folder, results)
    finally:
        instances.write_text(kept)
    pair = read_pair(folder, results)
    with pytest.raises(ConfigError, match="did you mean 'car'"):
        evaluate_pair(pair, ["Cars"])
    nothing = pair.labels.rows(np.zeros(len(pair.labels), bool))
    with pytest.raises(ConfigError, match="no label of nuScenes' classes"):
        evaluate_pair(NuScenesPair(nothing, pair.found, 1, 1, 1))
