"""Boxes of KITTI label and detection files, and the overlap of two boxes.

Frame: KITTI's camera, x right, y down, z forward. Source: the readme of KITTI's object development kit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Floats
from parhelion.core.reading import file_reader, read_bytes
from parhelion.pictures import html
from parhelion.pictures.charts import Chart, Curve

_LABEL_WORDS, _DETECTION_WORDS = 15, 16


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes of one frame, one row per box."""

    kind: tuple[str, ...]
    truncated: Floats
    """Share outside the image, 0 to 1, shape (n,); -1 if unknown."""
    occluded: Floats
    """0 visible, 1 partly, 2 largely occluded, 3 unknown, shape (n,)."""
    picture: Floats
    """Left, top, right, bottom in the image [pixels], shape (n, 4)."""
    size: Floats
    """Length, width, height [m], shape (n, 3)."""
    foot: Floats
    """Centre of the lower face [m], shape (n, 3)."""
    turn: Floats
    """Rotation about the y axis [rad], shape (n,)."""
    score: Floats
    """Score of detections, shape (n,); 0 for labels."""

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def height_px(self) -> Floats:
        """Height in the image [pixels], shape (n,)."""
        return np.abs(self.picture[:, 3] - self.picture[:, 1])

    @property
    def distance_m(self) -> Floats:
        """Horizontal distance from the camera [m], shape (n,)."""
        return np.hypot(self.foot[:, 0], self.foot[:, 2])


_NONE = np.zeros(0)
_NOTHING = Boxes((), _NONE, _NONE, np.zeros((0, 4)), np.zeros((0, 3)), np.zeros((0, 3)), _NONE, _NONE)


@file_reader()
def read_boxes(path: Path, *, detections: bool) -> Boxes:
    """Boxes of a label file (15 or 16 words per line) or a detection file (16 words, the last is the score)."""
    text = read_bytes(path).decode("utf-8-sig", "replace")
    kinds: list[str] = []
    rows: list[list[float]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        enough = len(words) == _DETECTION_WORDS or (not detections and len(words) == _LABEL_WORDS)
        if not enough:
            wanted = "16 words per line, the last is the score" if detections else "15 words per line"
            raise FormatError(f"{path}: line {number}: KITTI has {wanted}, got {len(words)}")
        try:
            values = [float(word) for word in words[1:]]
        except ValueError as error:
            raise FormatError(f"{path}: line {number}: {error}") from None
        if not all(map(math.isfinite, values)):
            raise FormatError(f"{path}: line {number}: numbers must be finite")
        kinds.append(words[0])
        rows.append([*values, *([0.0] * (_LABEL_WORDS - len(values)))])
    table = np.array(rows, np.float64).reshape(-1, _LABEL_WORDS)
    return Boxes(
        tuple(kinds),
        table[:, 0],
        table[:, 1],
        table[:, 3:7],
        table[:, [9, 8, 7]],
        table[:, 10:13],
        table[:, 13],
        table[:, 14],
    )


def frames_of(labels: Path, detections: Path) -> list[tuple[str, Boxes, Boxes]]:
    """Name, labels and detections of every frame; a frame without a detection file has no detections."""
    for path in (labels, detections):
        if not path.exists():
            raise FormatError(f"{path}: no such file or folder")
    if labels.is_dir() != detections.is_dir():
        raise ConfigError(f"{labels} and {detections}: give two files or two folders")
    if not labels.is_dir():
        return [(labels.stem, read_boxes(labels, detections=False), read_boxes(detections, detections=True))]
    files = sorted(labels.glob("*.txt"))
    if not files:
        raise FormatError(f"{labels}: no label files (.txt) in this folder")
    found = {file.name for file in detections.glob("*.txt")}
    if not found & {file.name for file in files}:
        raise FormatError(f"{detections}: no file has the name of a label file, for example {files[0].name}")
    return [
        (
            file.stem,
            read_boxes(file, detections=False),
            read_boxes(detections / file.name, detections=True) if file.name in found else _NOTHING,
        )
        for file in files
    ]


# ---- overlap ---------------------------------------------------------------------------------------------------------


def corners(size: Floats, foot: Floats, turn: float) -> Floats:
    """Corners of a box from above, in the x-z plane [m], in order, shape (4, 2)."""
    length, width = 0.5 * size[0], 0.5 * size[1]
    along = np.array([length, length, -length, -length])
    across = np.array([width, -width, -width, width])
    cosine, sine = math.cos(turn), math.sin(turn)
    return np.stack([foot[0] + cosine * along + sine * across, foot[2] - sine * along + cosine * across], axis=1)


def overlap_area(first: Floats, second: Floats) -> float:
    """Intersection area [m²] of two convex polygons (n, 2): the first clipped by each side of the second."""
    shape = first
    rest = second if _signed_area(second) >= 0.0 else second[::-1]  # anticlockwise
    for row in range(len(rest)):
        start, end = rest[row], rest[(row + 1) % len(rest)]
        edge = end - start
        inside = edge[0] * (shape[:, 1] - start[1]) - edge[1] * (shape[:, 0] - start[0])
        shape = _cut(shape, inside)
        if len(shape) < 3:
            return 0.0
    return abs(_signed_area(shape))


def _cut(shape: Floats, inside: Floats) -> Floats:
    """Part of a polygon where a linear function, given at its corners, is not negative."""
    kept: list[Floats] = []
    for row in range(len(shape)):
        after = (row + 1) % len(shape)
        here, there = float(inside[row]), float(inside[after])
        if here >= 0.0:
            kept.append(shape[row])
        if here * there < 0.0:
            kept.append(shape[row] + here / (here - there) * (shape[after] - shape[row]))
    return np.array(kept).reshape(-1, 2)


def _signed_area(shape: Floats) -> float:
    x, y = shape[:, 0], shape[:, 1]
    return 0.5 * float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))


def overlaps(first: Boxes, second: Boxes) -> tuple[Floats, Floats]:
    """Intersection over union of every pair, in 3D and from above, each of shape (n, m)."""
    space, above = np.zeros((len(first), len(second))), np.zeros((len(first), len(second)))
    near = _may_touch(first, second)
    shapes = [
        [corners(boxes.size[k], boxes.foot[k], float(boxes.turn[k])) for k in range(len(boxes))]
        for boxes in (first, second)
    ]
    for a, b in np.argwhere(near):
        shared = overlap_area(shapes[0][a], shapes[1][b])
        if shared <= 0.0:
            continue
        areas = float(np.prod(first.size[a, :2])), float(np.prod(second.size[b, :2]))
        above[a, b] = shared / (areas[0] + areas[1] - shared)
        # y points down: a box extends from its foot up to foot - height.
        low = min(first.foot[a, 1], second.foot[b, 1])
        high = max(first.foot[a, 1] - first.size[a, 2], second.foot[b, 1] - second.size[b, 2])
        common = shared * max(0.0, float(low - high))
        volumes = areas[0] * float(first.size[a, 2]) + areas[1] * float(second.size[b, 2])
        space[a, b] = common / (volumes - common)
    return space, above


def _may_touch(first: Boxes, second: Boxes) -> NDArray[np.bool_]:
    """Pairs whose bounding circles from above overlap; boxes without a size touch nothing."""
    reach = [0.5 * np.hypot(boxes.size[:, 0], boxes.size[:, 1]) for boxes in (first, second)]
    real = [np.all(boxes.size > 0.0, axis=1) for boxes in (first, second)]
    apart = np.hypot(first.foot[:, None, 0] - second.foot[None, :, 0], first.foot[:, None, 2] - second.foot[None, :, 2])
    return (apart < reach[0][:, None] + reach[1][None]) & real[0][:, None] & real[1][None]


# ---- KITTI average precision in 3D and from above, at 40 recall points ----------------------------------------------
# The rules are those of KITTI's object benchmark (Geiger et al. 2012) with the 40 points of Simonelli et al. 2019.
# Objects that a difficulty excludes, and those of the neighbouring class, neither count nor cost. A label takes the
# detection that overlaps it most. Precision at a recall is the best at that recall or beyond.


RECALL_POINTS = 40
DISTANCE_CLASSES_M = (0.0, 35.0, 70.0, 120.0)
"""Edges of distance classes [m]: those of Huang 2023, Table VII, up to the range of a lidar."""


@dataclass(frozen=True)
class Difficulty:
    """Criteria of the labels that count."""

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
"""KITTI's three difficulties, and all labels, because boxes of a lidar have no height in an image."""
LEAST_OVERLAP = {"car": 0.7, "pedestrian": 0.5, "cyclist": 0.5}
"""Overlap above which a detection matches a label, by class; 0.5 for others."""
_NEIGHBOURING = {"car": "van", "pedestrian": "person_sitting"}
_COUNTS, _NEUTRAL, _OTHER = 0, 1, -1


@dataclass(frozen=True)
class Precision:
    """Average precision of one class, and its curve."""

    percent: float | None
    """None if there are no labels."""
    labels: int
    """Number of labels that count."""
    curve: tuple[float, ...] = ()
    """Precision at the recalls 0, 1/40 ... 1."""


@dataclass(frozen=True, eq=False)
class _Frame:
    """Labels and detections of one frame, prepared for matching."""

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
    """Average precision [%] of a class over frames of labels and detections; in 3D, or from above."""
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
    state[words == _NEIGHBOURING.get(wanted, "")] = _NEUTRAL
    mine = words == wanted
    easy = (
        (labels.occluded <= difficulty.most_occluded)
        & (labels.truncated <= difficulty.most_truncated)
        & (labels.height_px > difficulty.least_height_px)
    )
    state[mine & easy] = _COUNTS
    state[mine & ~easy] = _NEUTRAL
    found_state = np.where([word.lower() == wanted for word in found.kind], _COUNTS, _OTHER).astype(np.int64)
    # As in the benchmark, a detection that is too small is ignored, regardless of its class.
    found_state[found.height_px < difficulty.least_height_px] = _NEUTRAL
    if distance_m is not None:
        low, high = distance_m
        for states, boxes in ((state, labels), (found_state, found)):
            away = (boxes.distance_m < low) | (boxes.distance_m >= high)
            states[away & (states == _COUNTS)] = _NEUTRAL
    return _Frame(state, found_state, found.score, overlap)


def _found_scores(frame: _Frame, least: float) -> Floats:
    """Scores of the detections that match a label; each label takes the one with the best score."""
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
    """Decreasing scores at which recall is closest to 0, 1/40 ... 1."""
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
    """True and false positives of a frame among detections of at least a score."""
    there = (frame.found_state != _OTHER) & (frame.score >= threshold)
    taken = np.zeros(len(frame.score), bool)
    right = 0
    for row in np.flatnonzero(frame.label_state != _OTHER):
        able = there & ~taken & (frame.overlap[row] > least)
        # The one that overlaps most; ignored detections are used only if there is no other.
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
    """Average precision by class and difficulty, and by class and distance, as in the JSON file and the report."""
    pairs = [(labels, found) for _, labels, found in frames]
    there = sorted({word for labels, _ in pairs for word in labels.kind if word.lower() not in _NOT_SCORED})
    wanted = list(kinds or there)
    missing = [kind for kind in wanted if kind.lower() not in {word.lower() for word in there}]
    if missing or not wanted:
        raise ConfigError(f"no label of class {missing[0]!r}" if missing else "the label files contain no objects")
    known = [overlaps(*pair) for pair in pairs]
    result: dict[str, Any] = {
        "frames": len(frames),
        "labels": int(sum(len(labels) for labels, _ in pairs)),
        "detections": int(sum(len(found) for _, found in pairs)),
        "recall_points": RECALL_POINTS,
        "classes": {},
    }
    for kind in wanted:

        def views(kind: str = kind, **options: Any) -> dict[str, dict[str, Any]]:
            scores = {}
            for view in ("3d", "bev"):
                found = average_precision(
                    pairs, kind, space=view == "3d", least_overlap=least_overlap, _overlaps=known, **options
                )
                scores[view] = {"ap_percent": found.percent, "labels": found.labels, "curve": list(found.curve)}
            return scores

        result["classes"][kind] = {
            "least_overlap": LEAST_OVERLAP.get(kind.lower(), 0.5) if least_overlap is None else least_overlap,
            "difficulty": {one.name: views(difficulty=one) for one in DIFFICULTIES},
            "distance": [
                {"from_m": low, "to_m": high, **views(difficulty=DIFFICULTIES[-1], distance_m=(low, high))}
                for low, high in pairwise(edges_m)
            ],
        }
    return result


_NOT_SCORED = {"dontcare", "van", "person_sitting", "misc"}
"""Labels that KITTI does not evaluate by default; they may be selected by name."""


# ---- Report of a KITTI score ----------------------------------------------------------------------------------------


COLUMNS = ("class", "objects", "labels", "AP 3D [%]", "AP BEV [%]")


def table_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """Table rows by class: difficulties, then distance classes."""
    rows = []
    for kind, found in result["classes"].items():
        parts = list(found["difficulty"].items())
        parts += [(f"{part['from_m']:g}–{part['to_m']:g} m", part) for part in found["distance"]]
        for name, views in parts:
            values = [html.shown(views[view]["ap_percent"], ".2f") for view in ("3d", "bev")]
            rows.append((f"{kind} (IoU {found['least_overlap']:g})", name, str(views["3d"]["labels"]), *values))
    return rows


def page_of(result: dict[str, Any], labels: str, detections: str, command: str = "") -> str:
    """Report as HTML; `command` is the command line that created it."""
    tiles = [(word, result[word]) for word in ("frames", "labels", "detections")]
    note = html.paragraph(
        "KITTI average precision at 40 recall points. Easy, moderate and hard as defined by KITTI; “all” and the "
        "distance classes include labels of any height, truncation or occlusion."
    )
    table = html.table(COLUMNS, table_rows(result), kinds="--nnn")
    return html.page(
        "Detections scored",
        html.section("precision", "Average precision", table, note),
        html.section("curves", "Precision over recall, 3D", html.pair(*_curves(result))),
        lead=(f"Labels: {labels}", f"Detections: {detections}"),
        facts=tiles,
        command=command,
    )


def _curves(result: dict[str, Any]) -> list[str]:
    plots = []
    for kind, found in result["classes"].items():
        curves = [
            Curve.of(name, np.linspace(0.0, 1.0, len(views["3d"]["curve"])), views["3d"]["curve"], k)
            for k, (name, views) in enumerate(found["difficulty"].items())
            if views["3d"]["curve"]
        ]
        plots.append(Chart(curves, "precision", "recall", y_limits=(0.0, 1.0)).figure(kind))
    return plots
