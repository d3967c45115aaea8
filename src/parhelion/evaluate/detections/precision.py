"""KITTI's average precision in space and from above, at 40 recall points.

The rules are those of KITTI's object benchmark (Geiger et al. 2012) with the 40 points of Simonelli et al. 2019:
objects that a difficulty leaves out, and those of the class beside, neither count nor cost; a label takes the detection
that overlaps it most; precision at a recall is the best at that recall or beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.evaluate.detections.boxes import Boxes, overlaps

RECALL_POINTS = 40
DISTANCE_CLASSES_M = (0.0, 35.0, 70.0, 120.0)
"""Edges of distance classes [m]: those of Huang 2023, Table VII, up to a lidar's reach."""


@dataclass(frozen=True)
class Difficulty:
    """Which labels count."""

    name: str
    least_height_px: float
    most_occluded: float
    most_truncated: float


DIFFICULTIES = (
    Difficulty("easy", 40.0, 0.0, 0.15),
    Difficulty("moderate", 25.0, 1.0, 0.30),
    Difficulty("hard", 25.0, 2.0, 0.50),
    Difficulty("all", -1.0, np.inf, np.inf),
)
"""KITTI's three, and all labels: boxes of a lidar alone have no height in a picture."""
LEAST_OVERLAP = {"car": 0.7, "pedestrian": 0.5, "cyclist": 0.5}
"""Overlap above which a detection is the label's, by class; 0.5 for others."""
_BESIDE = {"car": "van", "pedestrian": "person_sitting"}
_COUNTS, _NEUTRAL, _OTHER = 0, 1, -1


@dataclass(frozen=True)
class Precision:
    """Average precision of one class, and its curve."""

    percent: float | None
    """None where there is no label to find."""
    labels: int
    """Labels that count."""
    curve: tuple[float, ...] = ()
    """Precision at the recalls 0, 1/40 ... 1."""


@dataclass(frozen=True, eq=False)
class _Frame:
    """One frame, ready to be matched."""

    label_state: NDArray[np.int64]
    found_state: NDArray[np.int64]
    score: Floats
    overlap: Floats


def average_precision(
    frames: Sequence[tuple[Boxes, Boxes]],
    kind: str,
    *,
    space: bool = True,
    difficulty: Difficulty = DIFFICULTIES[1],
    least_overlap: float | None = None,
    distance_m: tuple[float, float] | None = None,
    _overlaps: Sequence[tuple[Floats, Floats]] | None = None,
) -> Precision:
    """Average precision [%] of a class over frames of labels and detections; in space, or from above."""
    known = _overlaps if _overlaps is not None else [overlaps(*frame) for frame in frames]
    ready = [
        _prepared(labels, found, pair[0 if space else 1], kind, difficulty, distance_m)
        for (labels, found), pair in zip(frames, known, strict=True)
    ]
    least = LEAST_OVERLAP.get(kind.lower(), 0.5) if least_overlap is None else least_overlap
    number = int(sum(np.count_nonzero(frame.label_state == _COUNTS) for frame in ready))
    if not number:
        return Precision(None, 0)
    thresholds = recall_thresholds(np.concatenate([_found_scores(frame, least) for frame in ready]), number)
    curve = np.zeros(RECALL_POINTS + 1)
    for row, threshold in enumerate(thresholds):
        right, wrong = np.sum([_counted(frame, least, threshold) for frame in ready], axis=0)
        curve[row] = right / (right + wrong) if right + wrong else 0.0
    curve = np.maximum.accumulate(curve[::-1])[::-1]
    return Precision(100.0 * float(curve[1:].mean()), number, tuple(curve.tolist()))


def _prepared(
    labels: Boxes,
    found: Boxes,
    overlap: Floats,
    kind: str,
    difficulty: Difficulty,
    distance_m: tuple[float, float] | None,
) -> _Frame:
    wanted = kind.lower()
    words = np.array([word.lower() for word in labels.kind], dtype=object)
    state = np.full(len(labels), _OTHER)
    state[words == _BESIDE.get(wanted, "")] = _NEUTRAL
    mine = words == wanted
    easy = (
        (labels.occluded <= difficulty.most_occluded)
        & (labels.truncated <= difficulty.most_truncated)
        & (labels.height_px > difficulty.least_height_px)
    )
    state[mine & easy] = _COUNTS
    state[mine & ~easy] = _NEUTRAL
    found_state = np.where([word.lower() == wanted for word in found.kind], _COUNTS, _OTHER).astype(np.int64)
    # As in the benchmark, a detection that is too small counts for nothing, whatever its class.
    found_state[found.height_px < difficulty.least_height_px] = _NEUTRAL
    if distance_m is not None:
        low, high = distance_m
        for states, boxes in ((state, labels), (found_state, found)):
            away = (boxes.distance_m < low) | (boxes.distance_m >= high)
            states[away & (states == _COUNTS)] = _NEUTRAL
    return _Frame(state, found_state, found.score, overlap)


def _found_scores(frame: _Frame, least: float) -> Floats:
    """Scores of the detections that find a label, each label taking that of the best score."""
    taken = np.zeros(len(frame.score), bool)
    scores = []
    for row in np.flatnonzero(frame.label_state != _OTHER):
        able = (frame.found_state != _OTHER) & ~taken & (frame.overlap[row] > least)
        if not able.any():
            continue
        best = int(np.argmax(np.where(able, frame.score, -np.inf)))
        taken[best] = True
        if frame.label_state[row] == _COUNTS and frame.found_state[best] == _COUNTS:
            scores.append(frame.score[best])
    return np.array(scores, np.float64)


def recall_thresholds(scores: Floats, labels: int) -> Floats:
    """Scores at which recall comes nearest to 0, 1/40 ... 1, falling."""
    falling = np.sort(scores)[::-1]
    chosen: list[float] = []
    recall = 0.0
    for row, score in enumerate(falling):
        last = row == len(falling) - 1
        left = (row + 1) / labels
        right = left if last else (row + 2) / labels
        if not last and right - recall < recall - left:
            continue
        chosen.append(float(score))
        recall += 1.0 / RECALL_POINTS
    return np.array(chosen[: RECALL_POINTS + 1], np.float64)


def _counted(frame: _Frame, least: float, threshold: float) -> tuple[int, int]:
    """Right and wrong detections of a frame among those of a score."""
    there = (frame.found_state != _OTHER) & (frame.score >= threshold)
    taken = np.zeros(len(frame.score), bool)
    right = 0
    for row in np.flatnonzero(frame.label_state != _OTHER):
        able = there & ~taken & (frame.overlap[row] > least)
        # The one that overlaps most; those that do not count are taken where there is no other.
        counting = able & (frame.found_state == _COUNTS)
        if counting.any():
            best = int(np.argmax(np.where(counting, frame.overlap[row], -np.inf)))
        elif able.any():
            best = int(np.argmax(able))
        else:
            continue
        taken[best] = True
        right += int(frame.label_state[row] == _COUNTS and frame.found_state[best] == _COUNTS)
    wrong = int(np.count_nonzero(there & ~taken & (frame.found_state == _COUNTS)))
    return right, wrong


# ---- tables ----------------------------------------------------------------------------------------------------------


def evaluate_frames(
    frames: Sequence[tuple[str, Boxes, Boxes]],
    kinds: Sequence[str] | None = None,
    edges_m: Sequence[float] = DISTANCE_CLASSES_M,
    least_overlap: float | None = None,
) -> dict[str, Any]:
    """Average precision by class and difficulty, and by class and distance: what the JSON file and the page hold."""
    pairs = [(labels, found) for _, labels, found in frames]
    there = sorted({word for labels, _ in pairs for word in labels.kind if word.lower() not in _NOT_SCORED})
    wanted = list(kinds or there)
    missing = [kind for kind in wanted if kind.lower() not in {word.lower() for word in there}]
    if missing or not wanted:
        raise ConfigError(f"no label of class {missing[0]!r}" if missing else "the label files hold no object to find")
    known = [overlaps(*pair) for pair in pairs]
    result: dict[str, Any] = {
        "frames": len(frames),
        "labels": int(sum(len(labels) for labels, _ in pairs)),
        "detections": int(sum(len(found) for _, found in pairs)),
        "recall_points": RECALL_POINTS,
        "classes": {},
    }
    for kind in wanted:

        def scores(view: str, kind: str = kind, **options: Any) -> dict[str, Any]:
            found = average_precision(
                pairs, kind, space=view == "3d", least_overlap=least_overlap, _overlaps=known, **options
            )
            return {"ap_percent": found.percent, "labels": found.labels, "curve": list(found.curve)}

        result["classes"][kind] = {
            "least_overlap": LEAST_OVERLAP.get(kind.lower(), 0.5) if least_overlap is None else least_overlap,
            "difficulty": {
                one.name: {view: scores(view, difficulty=one) for view in ("3d", "bev")} for one in DIFFICULTIES
            },
            "distance": [
                {
                    "from_m": low,
                    "to_m": high,
                    **{
                        view: scores(view, difficulty=DIFFICULTIES[-1], distance_m=(low, high))
                        for view in ("3d", "bev")
                    },
                }
                for low, high in pairwise(edges_m)
            ],
        }
    return result


_NOT_SCORED = {"dontcare", "van", "person_sitting", "misc"}
"""Labels that KITTI does not ask for; they may be named all the same."""
