"""Average precision against an independent simple implementation, and overlaps against other methods."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parhelion.core.errors import ConfigError, FormatError
from parhelion.evaluate.detections import (
    DIFFICULTIES,
    average_precision,
    evaluate_frames,
    frames_of,
    kitti,
    overlaps,
    read_boxes,
)
from parhelion.evaluate.detections.kitti import corners, overlap_area, recall_thresholds

CLASSES = ("Car", "Pedestrian", "Cyclist", "Van", "Person_sitting", "DontCare")
SIZES = {"Car": (4.2, 1.7, 1.5), "Pedestrian": (0.8, 0.6, 1.75), "Cyclist": (1.8, 0.6, 1.7), "Van": (5.0, 2.0, 2.2)}


def line(kind: str, box: tuple[float, ...], picture: float, hidden: int, cut: float, score: float | None) -> str:
    length, width, height, x, y, z, turn = box
    words = [kind, f"{cut:.2f}", str(hidden), "0.00", "100.00", "100.00", "150.00", f"{100 + picture:.2f}"]
    words += [f"{number:.6f}" for number in (height, width, length, x, y, z, turn)]
    return " ".join(words + ([] if score is None else [f"{score:.6f}"]))


def write_frames(folder: Path, frames: int, seed: int = 0) -> tuple[Path, Path]:
    """Label and detection files of scattered boxes: most are found, some badly, some twice, and some are invented."""
    rng = np.random.default_rng(seed)
    places = folder / "label_2", folder / "found"
    for place in places:
        place.mkdir(parents=True)
    for number in range(frames):
        labels, found = [], []
        for _ in range(int(rng.integers(3, 9))):
            kind = str(rng.choice(CLASSES, p=[0.45, 0.2, 0.15, 0.08, 0.05, 0.07]))
            if kind == "DontCare":
                labels.append("DontCare -1 -1 -10 10.0 10.0 50.0 60.0 -1 -1 -1 -1000 -1000 -1000 -10")
                continue
            size = np.array(SIZES.get(kind, (0.8, 0.6, 1.2))) * rng.uniform(0.9, 1.1, 3)
            spot = np.array([rng.uniform(-20, 20), 1.6, rng.uniform(4, 90)])
            turn = rng.uniform(-np.pi, np.pi)
            tall = float(rng.uniform(15, 90))
            labels.append(
                line(
                    kind,
                    (*size, *spot, turn),
                    tall,
                    int(rng.integers(0, 4)),
                    float(rng.choice([0, 0.1, 0.2, 0.4, 0.8])),
                    None,
                )
            )
            for _ in range(int(rng.choice([0, 1, 1, 1, 2]))):
                moved = spot + rng.normal(0, 0.12, 3)
                reported = kind if rng.uniform() < 0.9 else "Cyclist"
                box = (*(size * rng.uniform(0.95, 1.05, 3)), *moved, turn + rng.normal(0, 0.05))
                found.append(line(reported, box, tall * rng.uniform(0.9, 1.1), -1, -1, float(rng.uniform(0.2, 1.0))))
        for _ in range(int(rng.integers(0, 3))):
            box = (*SIZES["Car"], rng.uniform(-20, 20), 1.6, rng.uniform(4, 90), rng.uniform(-3, 3))
            found.append(line("Car", box, float(rng.uniform(20, 60)), -1, -1, float(rng.uniform(0.0, 0.7))))
        (places[0] / f"{number:06d}.txt").write_text("\n".join(labels) + "\n")
        (places[1] / f"{number:06d}.txt").write_text("\n".join(found) + "\n")
    return places


# ---- independent implementation --------------------------------------------------------------------------------------


def plain_area(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection area of two rectangles: the hull of corners inside the other and of crossings of sides."""
    from scipy.spatial import ConvexHull, QhullError

    def inside(point: np.ndarray, shape: np.ndarray) -> bool:
        u, v = shape[1] - shape[0], shape[3] - shape[0]
        p = point - shape[0]
        return bool(-1e-9 <= p @ u <= u @ u + 1e-9 and -1e-9 <= p @ v <= v @ v + 1e-9)

    points = [p for p in a if inside(p, b)] + [p for p in b if inside(p, a)]
    for i in range(4):
        for j in range(4):
            p, r = a[i], a[(i + 1) % 4] - a[i]
            q, s = b[j], b[(j + 1) % 4] - b[j]
            cross = r[0] * s[1] - r[1] * s[0]
            if abs(cross) < 1e-12:
                continue
            t = ((q - p)[0] * s[1] - (q - p)[1] * s[0]) / cross
            u = ((q - p)[0] * r[1] - (q - p)[1] * r[0]) / cross
            if 0 <= t <= 1 and 0 <= u <= 1:
                points.append(p + t * r)
    if len(points) < 3:
        return 0.0
    try:
        return float(ConvexHull(np.array(points)).volume)
    except QhullError:
        return 0.0


def plain_corners(box: dict[str, Any]) -> np.ndarray:
    c, s = math.cos(box["turn"]), math.sin(box["turn"])
    half = [(1, 1), (1, -1), (-1, -1), (-1, 1)]
    return np.array(
        [
            (
                box["x"] + c * a * box["l"] / 2 + s * b * box["w"] / 2,
                box["z"] - s * a * box["l"] / 2 + c * b * box["w"] / 2,
            )
            for a, b in half
        ]
    )


def plain_overlap(a: dict[str, Any], b: dict[str, Any], space: bool) -> float:
    if min(a["l"], b["l"]) <= 0:
        return 0.0
    shared = plain_area(plain_corners(a), plain_corners(b))
    if not space:
        return shared / (a["l"] * a["w"] + b["l"] * b["w"] - shared)
    tall = max(0.0, min(a["y"], b["y"]) - max(a["y"] - a["h"], b["y"] - b["h"]))
    return shared * tall / (a["l"] * a["w"] * a["h"] + b["l"] * b["w"] * b["h"] - shared * tall)


def plain_read(path: Path) -> list[dict[str, Any]]:
    names = ["cut", "hidden", "alpha", "left", "top", "right", "bottom", "h", "w", "l", "x", "y", "z", "turn", "score"]
    rows = []
    for text in path.read_text().splitlines():
        words = text.split()
        rows.append({"kind": words[0], **dict(zip(names, map(float, words[1:]), strict=False))})
    return rows


def plain_precision(
    labels: Path, found: Path, kind: str, limits: tuple[float, float, float], least: float, space: bool,
    between: tuple[float, float] = (0.0, 1e9),
) -> float:  # fmt: skip
    """Rules of the benchmark, implemented again without regard to speed."""
    tall, hidden, cut = limits
    beside = {"Car": "Van", "Pedestrian": "Person_sitting"}.get(kind)
    frames = []
    for file in sorted(labels.iterdir()):
        truths, guesses = plain_read(file), plain_read(found / file.name)
        for one in truths:
            away = math.hypot(one["x"], one["z"])
            counts = one["hidden"] <= hidden and one["cut"] <= cut and abs(one["bottom"] - one["top"]) > tall
            counts = counts and between[0] <= away < between[1]
            one["state"] = (0 if counts else 1) if one["kind"] == kind else 1 if one["kind"] == beside else -1
        for one in guesses:
            away = math.hypot(one["x"], one["z"])
            small = abs(one["bottom"] - one["top"]) < tall
            one["state"] = 1 if small else 0 if one["kind"] == kind else -1
            if one["state"] == 0 and not between[0] <= away < between[1]:
                one["state"] = 1
        frames.append(([one for one in truths if one["state"] >= 0], [one for one in guesses if one["state"] >= 0]))

    def match(by_score: bool, threshold: float) -> tuple[list[float], int]:
        scores, wrong = [], 0
        for truths, guesses in frames:
            used = set()
            for truth in truths:
                best, best_key = None, None
                for k, guess in enumerate(guesses):
                    if k in used or guess["score"] < threshold:
                        continue
                    overlap = plain_overlap(truth, guess, space)
                    if overlap <= least:
                        continue
                    key = guess["score"] if by_score else (guess["state"] == 0, overlap if guess["state"] == 0 else -k)
                    if best_key is None or key > best_key:
                        best, best_key = k, key
                if best is None:
                    continue
                used.add(best)
                if truth["state"] == 0 and guesses[best]["state"] == 0:
                    scores.append(guesses[best]["score"])
            wrong += sum(
                1 for k, one in enumerate(guesses) if k not in used and one["state"] == 0 and one["score"] >= threshold
            )
        return scores, wrong

    number = sum(1 for truths, _ in frames for one in truths if one["state"] == 0)
    falling = sorted(match(True, -1e9)[0], reverse=True)
    thresholds, recall = [], 0.0
    for k, score in enumerate(falling):
        left, right = (k + 1) / number, (k + 2) / number
        if k < len(falling) - 1 and right - recall < recall - left:
            continue
        thresholds.append(score)
        recall += 1 / 40
    precision = [0.0] * 41
    for k, threshold in enumerate(thresholds[:41]):
        scores, wrong = match(False, threshold)
        precision[k] = len(scores) / (len(scores) + wrong)
    return 100 * sum(max(precision[k:]) for k in range(1, 41)) / 40


LIMITS = {"easy": (40, 0, 0.15), "moderate": (25, 1, 0.3), "hard": (25, 2, 0.5), "all": (-1, 99, 99)}


@pytest.mark.slow
def test_precision_equals_that_of_a_simple_implementation(tmp_path: Path) -> None:
    labels, found = write_frames(tmp_path, 25)
    result = evaluate_frames(frames_of(labels, found))
    assert sorted(result["classes"]) == ["Car", "Cyclist", "Pedestrian"]
    seen = set()
    for kind, least in (("Car", 0.7), ("Pedestrian", 0.5), ("Cyclist", 0.5)):
        scores = result["classes"][kind]
        for name, limits in LIMITS.items():
            for view in ("3d", "bev"):
                if not scores["difficulty"][name][view]["labels"]:
                    continue
                expected = plain_precision(labels, found, kind, limits, least, view == "3d")
                assert scores["difficulty"][name][view]["ap_percent"] == pytest.approx(expected, abs=1e-9), (kind, name)
                seen.add(round(expected, 1))
    assert len(seen) > 10  # the files are not trivial
    for part in result["classes"]["Car"]["distance"]:
        expected = plain_precision(labels, found, "Car", LIMITS["all"], 0.7, True, (part["from_m"], part["to_m"]))
        assert part["3d"]["ap_percent"] == pytest.approx(expected, abs=1e-9)


def test_a_perfect_detector_has_all_but_the_last_recall_points_or_all(tmp_path: Path) -> None:
    """40 labels, each found: recall reaches every point, and precision is 1 everywhere."""
    rows = [(*SIZES["Car"], 5.0 * (k % 8), 1.6, 10.0 + 10.0 * (k // 8), 0.3 * k) for k in range(40)]
    (tmp_path / "label.txt").write_text("\n".join(line("Car", row, 60.0, 0, 0.0, None) for row in rows))
    (tmp_path / "found.txt").write_text(
        "\n".join(line("Car", row, 60.0, 0, 0.0, 0.5 + k / 100) for k, row in enumerate(rows))
    )
    frames = [(one, two) for _, one, two in frames_of(tmp_path / "label.txt", tmp_path / "found.txt")]
    perfect = average_precision(frames, "Car", difficulty=DIFFICULTIES[0])
    assert perfect.labels == 40
    assert perfect.percent == pytest.approx(100.0 * 39 / 40)  # as with KITTI's program: there is no 41st score


def test_thresholds_are_those_of_evenly_spaced_recalls() -> None:
    scores = np.linspace(1.0, 0.01, 400)
    found = recall_thresholds(scores, 400)
    assert len(found) == 40 + 1
    np.testing.assert_allclose(np.searchsorted(-scores, -found) / 400, np.arange(41) / 40, atol=1.5 / 400)


def test_overlaps_of_boxes_without_rotation() -> None:
    """Two unit squares half a side apart: 1/3 of their union; also shifted by half their height, 1/7."""
    unit = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    assert overlap_area(unit, unit + np.array([0.5, 0.0])) == pytest.approx(0.5)
    assert overlap_area(unit, unit) == pytest.approx(1.0)
    assert overlap_area(unit, unit + np.array([1.0, 0.0])) == 0.0
    # A square rotated by 45 degrees about the same centre: a regular octagon.
    turn = np.array([[1, -1], [1, 1]]) / np.sqrt(2)
    assert overlap_area(unit, unit @ turn.T) == pytest.approx(2 * (np.sqrt(2) - 1))


def test_overlaps_in_space(tmp_path: Path) -> None:
    box = (4.0, 2.0, 1.5, 0.0, 1.6, 20.0, 0.4)
    higher = (4.0, 2.0, 1.5, 0.0, 0.85, 20.0, 0.4)
    (tmp_path / "a.txt").write_text(line("Car", box, 60.0, 0, 0.0, None))
    (tmp_path / "b.txt").write_text(line("Car", higher, 60.0, 0, 0.0, 0.9))
    space, above = overlaps(
        read_boxes(tmp_path / "a.txt", detections=False), read_boxes(tmp_path / "b.txt", detections=True)
    )
    assert above[0, 0] == pytest.approx(1.0)
    assert space[0, 0] == pytest.approx(1.0 / 3.0)


def random_rectangles(number: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(7)

    def one() -> np.ndarray:
        size = np.append(rng.uniform(0.5, 5.0, 2), 1.0)
        return corners(size, np.array([rng.uniform(-1, 1), 0.0, rng.uniform(-1, 1)]), float(rng.uniform(-4, 4)))

    return [(one(), one()) for _ in range(number)]


def test_overlaps_are_those_of_a_fine_grid() -> None:
    for a, b in random_rectangles(8):
        axis = np.linspace(-5.0, 5.0, 801)
        spots = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        within = np.ones(len(spots), bool)
        for shape in (a, b):
            u, v = shape[1] - shape[0], shape[3] - shape[0]
            p = spots - shape[0]
            within &= (p @ u >= 0) & (p @ u <= u @ u) & (p @ v >= 0) & (p @ v <= v @ v)
        assert overlap_area(a, b) == pytest.approx(within.sum() * (10.0 / 800) ** 2, abs=0.1)


def test_overlaps_are_those_of_shapely() -> None:
    geometry = pytest.importorskip("shapely.geometry", reason="shapely is not installed")
    for a, b in random_rectangles(200):
        assert overlap_area(a, b) == pytest.approx(geometry.Polygon(a).intersection(geometry.Polygon(b)).area, abs=1e-9)
        assert overlap_area(a, b) == pytest.approx(plain_area(a, b), abs=1e-9)


def test_columns_of_a_file_are_those_of_kitti(tmp_path: Path) -> None:
    """Height, width and length follow the picture; the last word of 16 is the score, which labels lack."""
    box = (4.2, 1.7, 1.5, 3.0, 1.6, 20.0, 0.5)
    (tmp_path / "a.txt").write_text(line("Car", box, 60.0, 2, 0.25, None) + "\n")
    (tmp_path / "b.txt").write_text(line("Van", box, 60.0, 2, 0.25, 0.75) + "\n")
    label, found = read_boxes(tmp_path / "a.txt", detections=False), read_boxes(tmp_path / "b.txt", detections=True)
    assert (label.kind, found.kind) == (("Car",), ("Van",))
    assert (label.score.tolist(), found.score.tolist()) == ([0.0], [0.75])
    for one in (label, found):
        assert [one.truncated.tolist(), one.occluded.tolist()] == [[0.25], [2.0]]
        assert one.size.tolist() == [[4.2, 1.7, 1.5]]


def test_bad_files_are_named(tmp_path: Path) -> None:
    label, found = tmp_path / "label", tmp_path / "found"
    label.mkdir()
    found.mkdir()
    with pytest.raises(FormatError, match="no label files"):
        frames_of(label, found)
    (label / "0.txt").write_text("Car 0 0 0\n")
    with pytest.raises(FormatError, match="no file has the name of a label file"):
        frames_of(label, found)
    (found / "0.txt").write_text("")
    with pytest.raises(FormatError, match="line 1: KITTI has 15 words per line, got 4"):
        frames_of(label, found)
    (label / "0.txt").write_text(line("Car", (4, 2, 1, 0, 1, float("nan"), 0), 50, 0, 0, None))
    with pytest.raises(FormatError, match="finite"):
        frames_of(label, found)
    (label / "0.txt").write_text(line("Car", (4, 2, 1, 0, 1, 9, 0), 50, 0, 0, None))
    (found / "0.txt").write_text(line("Car", (4, 2, 1, 0, 1, 9, 0), 50, 0, 0, None))
    with pytest.raises(FormatError, match="the last is the score"):
        frames_of(label, found)
    (found / "0.txt").write_text("")
    with pytest.raises(ConfigError, match="no label of class 'Tram'"):
        evaluate_frames(frames_of(label, found), ["Tram"])
    assert evaluate_frames(frames_of(label, found))["classes"]["Car"]["difficulty"]["all"]["3d"]["ap_percent"] == 0.0


def test_boxes_may_touch_within_half_their_diagonals_from_above() -> None:
    """4 by 3 m and 0.1 m high: half a diagonal is 2.5 m, so a tall and a flat box are alike."""

    def box(x: float, height: float) -> kitti.Boxes:
        one = np.zeros(1)
        size, foot = np.array([[4.0, 3.0, height]]), np.array([[x, 0.0, 0.0]])
        return kitti.Boxes(("Car",), one, one, np.zeros((1, 4)), size, foot, one, one)

    for height in (0.1, 9.0):
        reach = [bool(kitti._may_touch(box(0.0, height), box(x, height))[0, 0]) for x in (4.99, 5.01)]
        assert reach == [True, False]
