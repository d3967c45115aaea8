"""nuScenes detection score: mAP by centre distance, five true-positive errors, and NDS.

Source: Caesar et al., "nuScenes: A multimodal dataset for autonomous driving", CVPR 2020, with the settings of the
2019 challenge. Results equal those of `DetectionEval` of the development kit on the same files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.pose import Floats
from parhelion.evaluate.detections.nuscenes_files import CLASSES, NO_ATTRIBUTE, NuScenesBoxes, NuScenesPair
from parhelion.pictures import html
from parhelion.pictures.charts import Chart, Curve

DISTANCES_M = (0.5, 1.0, 2.0, 4.0)
"""Largest centre distance from above of a match [m]; precision is averaged over these."""
ERROR_DISTANCE_M = 2.0
"""Centre distance of the matches whose errors are averaged [m]."""
LEAST_RECALL = LEAST_PRECISION = 0.1
RECALL_POINTS = 101
PRECISION_WEIGHT = 5
"""Weight of mAP in NDS relative to each error."""
ERRORS = ("ate_m", "ase", "aoe_rad", "ave_m_s", "aae")
"""Translation, scale (1 - IoU of aligned boxes), orientation, velocity, attribute (1 - accuracy)."""
_NOT_ASKED = {"traffic_cone": ("aoe_rad", "ave_m_s", "aae"), "barrier": ("ave_m_s", "aae")}
"""Errors that are undefined for a class."""


@dataclass(frozen=True, eq=False)
class _Curves:
    """Curves of a class at one distance, at the recalls 0, 0.01 ... 1; each of shape (101,)."""

    precision: Floats
    confidence: Floats
    errors: dict[str, Floats]


def evaluate_pair(pair: NuScenesPair, kinds: Sequence[str] | None = None) -> dict[str, Any]:
    """All scores, as in the JSON file and the report.

    `nds` and `map` cover the ten classes, as in the development kit: a class without labels has a precision of 0 and
    errors of 1. `scored` has the same for `kinds` alone, by default the classes that have labels.
    """
    counts = np.bincount(pair.labels.kind, minlength=len(CLASSES))
    there = [name for name, count in zip(CLASSES, counts, strict=True) if count]
    for name in kinds or ():
        if name not in CLASSES:
            raise unknown_name("class", name, CLASSES)
        if name not in there:
            raise ConfigError(f"no label of class {name!r} within the range of its class")
    if not there:
        raise ConfigError("the data set has no label of nuScenes' classes within their ranges")
    found = np.bincount(pair.found.kind, minlength=len(CLASSES))
    classes = {
        name: {"labels": int(counts[k]), "detections": int(found[k]), **_class_scores(pair, k)}
        for k, name in enumerate(CLASSES)
    }
    wanted = list(kinds or there)
    return {
        "format": "nuscenes",
        "scenes": pair.scenes,
        "all_scenes": pair.all_scenes,
        "samples": pair.samples,
        "labels": len(pair.labels),
        "detections": len(pair.found),
        **_summary(classes, CLASSES),
        "scored": {"classes": wanted, **_summary(classes, wanted)},
        "classes": classes,
    }


def _class_scores(pair: NuScenesPair, kind: int) -> dict[str, Any]:
    labels, found = (boxes.rows(boxes.kind == kind) for boxes in (pair.labels, pair.found))
    name = CLASSES[kind]
    # By decreasing score; among equal ones the later comes first, as in the development kit.
    found = found.rows(np.lexsort((np.arange(len(found)), found.score))[::-1])
    curves = {distance: curves_at(labels, found, distance, name) for distance in DISTANCES_M}
    ap = {f"{distance:g}": average_precision(one.precision) for distance, one in curves.items()}
    at = curves[ERROR_DISTANCE_M]
    skipped = _NOT_ASKED.get(name, ())
    return {
        "ap": float(np.mean(list(ap.values()))),
        "ap_by_distance_m": ap,
        "errors": {word: None if word in skipped else _mean_error(at, word) for word in ERRORS},
        "curve": at.precision.tolist(),
    }


def _summary(classes: dict[str, dict[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    mean_ap = float(np.mean([classes[name]["ap"] for name in names]))
    errors: dict[str, float | None] = {}
    for word in ERRORS:
        asked = [classes[name]["errors"][word] for name in names if classes[name]["errors"][word] is not None]
        errors[word] = float(np.mean(asked)) if asked else None
    scores = [max(0.0, 1.0 - error) for error in errors.values() if error is not None]
    nds = (PRECISION_WEIGHT * mean_ap + sum(scores)) / (PRECISION_WEIGHT + len(scores))
    return {"nds": float(nds), "map": mean_ap, "errors": errors}


# ---- one class -------------------------------------------------------------------------------------------------------


def match(labels: NuScenesBoxes, found: NuScenesBoxes, distance_m: float) -> NDArray[np.int64]:
    """Label matched by each detection, -1 for none, shape (n,); detections are sorted by decreasing score.

    Each takes the nearest unmatched label of its sample, if that is nearer than `distance_m`.
    """
    taken_by = np.full(len(found), -1, np.int64)
    taken = np.zeros(len(labels), bool)
    detection, label = _near_pairs(labels, found, distance_m)
    # Pairs are sorted by detection and then by distance, so the first free label is the nearest one.
    for d, k in zip(detection.tolist(), label.tolist(), strict=True):
        if taken_by[d] < 0 and not taken[k]:
            taken_by[d], taken[k] = k, True
    return taken_by


def _near_pairs(
    labels: NuScenesBoxes, found: NuScenesBoxes, distance_m: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Detections and labels of one sample within a distance from above, sorted by detection, distance and label."""
    by_sample = np.argsort(labels.sample, kind="stable")
    ordered = labels.sample[by_sample]
    first, last = (np.searchsorted(ordered, found.sample, side=side) for side in ("left", "right"))
    counts = last - first
    detection = np.repeat(np.arange(len(found)), counts)
    within = np.arange(len(detection)) - np.repeat(np.cumsum(counts) - counts, counts)
    label = by_sample[np.repeat(first, counts) + within] if len(detection) else np.zeros(0, np.int64)
    offset = found.centre[detection, :2] - labels.centre[label, :2]
    apart = np.sqrt(np.sum(offset * offset, axis=1))
    near = apart < distance_m
    detection, label, apart = detection[near], label[near], apart[near]
    order = np.lexsort((label, apart, detection))
    return detection[order], label[order]


def curves_at(labels: NuScenesBoxes, found: NuScenesBoxes, distance_m: float, kind: str) -> _Curves:
    """Precision, confidence and errors over recall; detections are sorted by decreasing score."""
    row = match(labels, found, distance_m) if len(labels) else np.zeros(0, np.int64)
    right = row >= 0
    if not right.any():
        zero = np.zeros(RECALL_POINTS)
        return _Curves(zero, zero, {word: np.ones(RECALL_POINTS) for word in ERRORS})
    positives = np.cumsum(right).astype(np.float64)
    recall = positives / len(labels)
    at = np.linspace(0.0, 1.0, RECALL_POINTS)
    precision = np.interp(at, recall, positives / np.arange(1, len(right) + 1), right=0.0)
    confidence = np.interp(at, recall, found.score, right=0.0)
    errors = _errors(labels.rows(row[right]), found.rows(right), kind)
    score = found.score[right]
    over_recall = {
        word: np.interp(confidence[::-1], score[::-1], _running_mean(values)[::-1])[::-1]
        for word, values in errors.items()
    }
    return _Curves(precision, confidence, over_recall)


def _errors(labels: NuScenesBoxes, found: NuScenesBoxes, kind: str) -> dict[str, Floats]:
    """Errors of detections against their matched labels, by row; NaN if a label has no value."""
    shared = np.prod(np.minimum(labels.size, found.size), axis=1)
    union = np.prod(labels.size, axis=1) + np.prod(found.size, axis=1) - shared
    period = np.pi if kind == "barrier" else 2.0 * np.pi
    turn = (labels.yaw - found.yaw + 0.5 * period) % period - 0.5 * period
    wrong = (labels.attribute != found.attribute).astype(np.float64)
    return {
        "ate_m": np.linalg.norm(found.centre[:, :2] - labels.centre[:, :2], axis=1),
        "ase": 1.0 - shared / union,
        "aoe_rad": np.abs(turn),
        "ave_m_s": np.linalg.norm(found.velocity - labels.velocity, axis=1),
        "aae": np.where(labels.attribute == NO_ATTRIBUTE, np.nan, wrong),
    }


def _running_mean(values: Floats) -> Floats:
    """Cumulative mean without NaN: 0 before the first value, 1 if there is none at all."""
    known = np.isfinite(values) | np.isinf(values)
    if not known.any():
        return np.ones(len(values))
    count = np.cumsum(known)
    return np.where(count > 0, np.cumsum(np.where(known, values, 0.0)) / np.maximum(count, 1), 0.0)


def average_precision(precision: Floats) -> float:
    """Mean over the recalls above 0.1 of the precision in excess of 0.1, divided by 0.9."""
    above = np.maximum(precision[round(100 * LEAST_RECALL) + 1 :] - LEAST_PRECISION, 0.0)
    return float(above.mean()) / (1.0 - LEAST_PRECISION)


def _mean_error(curves: _Curves, word: str) -> float:
    """Mean over the reached recalls above 0.1; 1 if none was reached."""
    first = round(100 * LEAST_RECALL) + 1
    reached = np.flatnonzero(curves.confidence)
    if not len(reached) or reached[-1] < first:
        return 1.0
    return float(np.mean(curves.errors[word][first : reached[-1] + 1]))


# ---- Report of a nuScenes score -------------------------------------------------------------------------------------


_WORDS = {"ate_m": "ATE [m]", "ase": "ASE", "aoe_rad": "AOE [rad]", "ave_m_s": "AVE [m/s]", "aae": "AAE"}
_CURVES = 5
COLUMNS = (
    "class",
    "labels",
    "detections",
    "AP [%]",
    *(f"{distance:g} m" for distance in DISTANCES_M),
    *(_WORDS[word] for word in ERRORS),
)


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


def table_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """Table rows of classes that have labels or detections."""
    return [
        (
            name,
            str(one["labels"]),
            str(one["detections"]),
            _percent(one["ap"]),
            *(_percent(share) for share in one["ap_by_distance_m"].values()),
            *(html.shown(one["errors"][word], ".3f") for word in ERRORS),
        )
        for name, one in result["classes"].items()
        if one["labels"] or one["detections"]
    ]


def summary_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """NDS, mAP and mean errors: of all ten classes, and of those that were scored."""
    names = result["scored"]["classes"]
    parts = [("all ten classes", result)]
    if len(names) < len(result["classes"]):
        parts.append((f"{', '.join(names)} alone", result["scored"]))
    return [
        (name, _percent(one["nds"]), _percent(one["map"]), *(html.shown(one["errors"][word], ".3f") for word in ERRORS))
        for name, one in parts
    ]


SUMMARY_COLUMNS = ("over", "NDS [%]", "mAP [%]", *(f"m{_WORDS[word]}" for word in ERRORS))


def page_of(result: dict[str, Any], labels: str, detections: str, command: str = "") -> str:
    """Report as HTML."""
    tiles = [
        ("NDS [%]", _percent(result["nds"])),
        ("mAP [%]", _percent(result["map"])),
        *((word, result[word]) for word in ("samples", "labels", "detections")),
    ]
    note = html.paragraph(
        "nuScenes detection score with the settings of its 2019 challenge. A class without labels has a precision of 0 "
        "and errors of 1 in the line of all ten classes; the line below it omits such classes. "
        f"{result['scenes']} of {result['all_scenes']} scenes."
    )
    errors_note = html.paragraph("Errors are means over detections whose centre is within 2 m of that of a label.")
    return html.page(
        "Detections scored",
        html.section("score", "Score", html.table(SUMMARY_COLUMNS, summary_rows(result), kinds="l" + "n" * 7), note),
        html.section("classes", "Classes", html.table(COLUMNS, table_rows(result), kinds="-" + "n" * 12), errors_note),
        html.section("curves", "Precision over recall, within 2 m", html.pair(*_curves(result))),
        lead=(f"Data set: {labels}", f"Detections: {detections}"),
        facts=tiles,
        command=command,
    )


def _curves(result: dict[str, Any]) -> list[str]:
    """Two charts, because ten curves in one are hard to distinguish."""
    there = [(name, one["curve"]) for name, one in result["classes"].items() if one["labels"]]
    plots = []
    for first in range(0, len(there), _CURVES):
        curves = [
            Curve.of(name, np.linspace(0.0, 1.0, len(curve)), curve, k)
            for k, (name, curve) in enumerate(there[first : first + _CURVES])
        ]
        plots.append(Chart(curves, "precision", "recall", y_limits=(0.0, 1.0)).figure(""))
    return plots
