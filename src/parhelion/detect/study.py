"""Scores of a detector by weather, distance and visibility: average precision with bootstrap intervals over streets.

result = evaluate(Pillars(), "velodyne/hdl-64e-s2", ["clear", "fog=1000..5000"])
cars = result["weathers"].get("clear").get("Car")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.core.random import Stream
from parhelion.detect.detector import Detections, Detector
from parhelion.detect.scenes import CLASSES, street, street_scans
from parhelion.evaluate.detections.kitti import (
    DIFFICULTIES,
    LEAST_OVERLAP,
    Boxes,
    Difficulty,
    average_precision,
    overlaps,
)
from parhelion.evaluate.slam.study import weather_fields
from parhelion.outputs.datasets.kitti import occlusion
from parhelion.pictures import html
from parhelion.pictures.charts import Chart, Curve
from parhelion.sensors.optics.lidar.lidar import Lidar
from parhelion.weather.weather import Weather

FIRST_STREET = 1_000_000
"""Seed of the first street of an evaluation; training counts from 0."""
DISTANCES_M = (0.0, 15.0, 30.0, 50.0)
_RANGE_STEPS = 8
"""Number of weathers that stand for a range such as `fog=1000..5000`."""
_RESAMPLES = 400
COLUMNS = ("weather", "class", "objects", "labels", "AP 3D [%]", "AP BEV [%]", "points per object")


@dataclass(frozen=True, eq=False)
class _Frame:
    """Labels and detections of one scan."""

    street: int
    labels: Boxes
    found: Boxes
    overlap: tuple[Floats, Floats]
    points: Floats
    """Number of points on each labelled object."""


def weathers_of(text: str) -> list[Weather | None]:
    """Weathers of text such as `clear`, `rain=25` or `fog=1000..5000`; a range stands for eight equal steps."""
    low, dots, high = text.partition("..")
    if not dots:
        fields = weather_fields(text)
        if fields is None:
            raise ConfigError(f"weather {text!r}: use clear, or an amount such as rain=25 or fog=1000..5000")
        return [Weather.from_mapping(fields) if fields else None]
    word = low.split("=")[0]
    try:
        ends = float(low.partition("=")[2]), float(high)
    except ValueError:
        raise ConfigError(f"weather {text!r}: a range is one amount with two numbers, such as fog=1000..5000") from None
    amounts = np.linspace(*ends, _RANGE_STEPS)
    return [Weather.from_mapping(weather_fields(f"{word}={amount!r}") or {}) for amount in amounts.tolist()]


def evaluate(
    detector: Detector,
    sensor: Lidar | str,
    weathers: Sequence[str] = ("clear",),
    *,
    scans: int = 60,
    streets: int = 12,
    seed: int = 0,
    heights_m: tuple[float, float] = (1.6, 2.0),
    progress: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Score a detector on simulated streets that training does not use.

    Every weather has the same streets and places, so that differences are those of the weather. Returns plain values,
    as in the JSON file. Objects with fewer than one point have no label.
    """
    names = list(dict.fromkeys(weathers))
    chosen = {name: weathers_of(name) for name in names}
    result: dict[str, Any] = {
        "detector": detector.name,
        "sensor": sensor if isinstance(sensor, str) else sensor.model,
        "scans": scans,
        "streets": streets,
        "seed": seed,
        "weathers": {},
    }
    first = FIRST_STREET + seed * streets
    built = [street(number) for number in range(first, first + streets)]
    for name in names:
        data = street_scans(
            sensor,
            streets=built,
            length=scans,
            weathers=chosen[name],
            heights_m=heights_m,
            seed=seed,
            visibility=True,
            fields=("xyz", "intensity", "ring", "time"),
        )
        frames = []
        for item, place in enumerate(data.worlds_of(range(scans))):
            frames.append(_frame(detector, data[item], place))
            progress()
        result["weathers"][name] = {kind: _scores(frames, kind, seed) for kind in CLASSES}
    return result


def _frame(detector: Detector, item: dict[str, Any], street: int) -> _Frame:
    fields = {name: np.array(item[name]) for name in ("intensity", "ring", "time")}
    found = detector.detect(PointCloud(np.array(item["xyz"]), fields))
    if not isinstance(found, Detections):
        raise ConfigError(f"detector {detector.name}: detect must return Detections, got {type(found).__name__}")
    seen = item["box_points"] > 0
    kinds = tuple(CLASSES[kind] for kind in item["box_class"][seen])
    truth = Detections(item["boxes"][seen].astype(np.float64), kinds, np.zeros(int(seen.sum())))
    hidden = np.array([occlusion(float(1.0 - share)) for share in item["box_visible"][seen]], np.float64)
    labels, boxes = truth.as_kitti(hidden), found.as_kitti()
    return _Frame(street, labels, boxes, overlaps(labels, boxes), item["box_points"][seen].astype(np.float64))


def _scores(frames: Sequence[_Frame], kind: str, seed: int) -> dict[str, Any]:
    views: dict[str, Any] = {one.name: _score(frames, kind, seed, one) for one in DIFFICULTIES}
    last = DIFFICULTIES[-1]
    views["distance"] = [
        {"from_m": low, "to_m": high, **_score(frames, kind, seed, last, (low, high))}
        for low, high in pairwise(DISTANCES_M)
    ]
    return views


def _score(
    frames: Sequence[_Frame],
    kind: str,
    seed: int,
    difficulty: Difficulty,
    distance_m: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """Average precision with its interval, number of labels and mean number of points of an object."""
    low, high = distance_m or (0.0, np.inf)
    points = [
        frame.points[
            (np.array(frame.labels.kind, object) == kind)
            & (frame.labels.distance_m >= low)
            & (frame.labels.distance_m < high)
        ]
        for frame in frames
    ]
    every = np.concatenate(points) if points else np.zeros(0)
    made: dict[str, Any] = {"points": float(every.mean()) if len(every) else None}
    streets = sorted({frame.street for frame in frames})
    for space, view in ((True, "3d"), (False, "bev")):

        def precision(rows: Sequence[_Frame], space: bool = space) -> Any:
            return average_precision(
                [(frame.labels, frame.found) for frame in rows],
                kind,
                space=space,
                difficulty=difficulty,
                distance_m=distance_m,
                _overlaps=[frame.overlap for frame in rows],
            )

        whole = precision(frames)
        made["labels"] = whole.labels
        interval = _interval(frames, streets, kind, precision, whole.percent, seed)
        made[view] = {"ap_percent": whole.percent, "low": interval[0], "high": interval[1]}
    return made


def _interval(
    frames: Sequence[_Frame],
    streets: Sequence[int],
    kind: str,
    precision: Callable[[Sequence[_Frame]], Any],
    percent: float | None,
    seed: int,
) -> tuple[float | None, float | None]:
    """95 % interval by the weighted bootstrap over streets, linearised at the streets that are left out one at a time.

    The influence of a street is the change without it (infinitesimal jackknife, Efron 1982): one score per street
    instead of one per resample.
    """
    if percent is None or len(streets) < 3:
        return None, None
    without = [precision([frame for frame in frames if frame.street != street]).percent for street in streets]
    influence = np.array([(percent - one) * (len(streets) - 1) if one is not None else 0.0 for one in without])
    rng = Stream(seed, f"detect/bootstrap/{kind}").generator()
    means = influence[rng.integers(0, len(streets), (_RESAMPLES, len(streets)))].mean(axis=1) - influence.mean()
    low, high = np.percentile(percent + means, [2.5, 97.5])
    return float(max(low, 0.0)), float(min(high, 100.0))


# ---- report ---------------------------------------------------------------------------------------------------------


def table_rows(result: dict[str, Any], parts: Sequence[str] = ("moderate", "all")) -> list[tuple[str, ...]]:
    """Rows by weather and class: difficulties, then distances."""
    rows: list[tuple[str, ...]] = []
    for weather, classes in result["weathers"].items():
        for kind, views in classes.items():
            named = [(name, views[name]) for name in parts]
            named += [(f"{one['from_m']:g}–{one['to_m']:g} m", one) for one in views["distance"]]
            for name, one in named:
                rows.append(
                    (
                        weather,
                        f"{kind} (IoU {LEAST_OVERLAP[kind.lower()]:g})",
                        name,
                        str(one["labels"]),
                        _with_interval(one["3d"]),
                        _with_interval(one["bev"]),
                        html.shown(one["points"], ".0f"),
                    )
                )
    return rows


def _with_interval(score: dict[str, Any]) -> str:
    if score["ap_percent"] is None:
        return "–"
    text = f"{score['ap_percent']:.1f}"
    return text if score["low"] is None else f"{text} ({score['low']:.1f} to {score['high']:.1f})"


def page_of(result: dict[str, Any], command: str = "") -> str:
    """Report as HTML; `command` is the command line that created it."""
    plots = []
    for kind in CLASSES:
        curves = []
        for number, (weather, classes) in enumerate(result["weathers"].items()):
            steps = [one for one in classes[kind]["distance"] if one["3d"]["ap_percent"] is not None]
            middle = np.array([0.5 * (one["from_m"] + one["to_m"]) for one in steps])
            mean, low, high = (
                np.array([one["3d"][key] if one["3d"][key] is not None else one["3d"]["ap_percent"] for one in steps])
                for key in ("ap_percent", "low", "high")
            )
            curves.append(Curve(weather, middle, mean, low, high, number, "joined"))
        chart = Chart(curves, "AP 3D [%]", "distance [m]", y_limits=(0.0, 100.0))
        plots.append(chart.figure(kind, "Whiskers: 95 % interval over streets."))
    note = html.paragraph(
        "KITTI's average precision at 40 recall points, with 95 % bootstrap intervals over streets in brackets. All "
        "weathers have the same streets and places. A box has the height in pixels that it would have in KITTI's "
        "camera, in any direction; moderate objects have at least 25 pixels and are at most partly hidden."
    )
    return html.page(
        "Detector by weather",
        html.section("precision", "Average precision", html.table(COLUMNS, table_rows(result), kinds="---nmmn"), note),
        html.section("distance", "By distance", html.pair(*plots)),
        lead=(f"Detector: {result['detector']}", f"Lidar: {result['sensor']}"),
        facts=[(word, result[word]) for word in ("scans", "streets")],
        command=command,
    )
