"""Means and intervals of a campaign's numbers, by cell and against each parameter."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parhelion.campaign.study import Study
from parhelion.core.random import Stream
from parhelion.sensors.optics.lidar.validity import GRADES, Validity, as_plain

# ---- Intervals of means by resampling: the expanded percentile bootstrap --------------------------------------------
# Units (runs of different seeds, or draws) are resampled with replacement, and the interval of the mean is given by
# percentiles of the resampled means. Plain percentiles are too narrow for few units: their variance is divided by n
# instead of n - 1, and their tails are normal instead of Student's. The percentiles are therefore expanded to
# Φ(-√(n/(n-1)) t(n-1)), which gives the width of Student's interval for normal units (Hesterberg, "What teachers should
# know about the bootstrap", The American Statistician 69, 2015, section 3.2).


RESAMPLES = 9999
LEAST_UNITS = 3
"""Smallest number of units for an interval."""
METHOD = (
    f"expanded percentile bootstrap of the mean (Hesterberg 2015), {RESAMPLES} resamples, "
    "seeded by the study and the number's name"
)
_LARGEST_BLOCK = 4_000_000
"""Number of values that are resampled at a time."""


@dataclass(frozen=True)
class Interval:
    """Mean over units, and its interval."""

    mean: float
    low: float
    high: float
    units: int

    @property
    def half_width(self) -> float:
        """Half width; infinite without an interval."""
        width = (self.high - self.low) / 2
        return width if np.isfinite(width) else np.inf


def interval_of_mean(values: Sequence[float], confidence: float, name: str, seed: int = 0) -> Interval:
    """Interval of the mean of independent units; low and high are NaN with fewer than three.

    `name` and `seed` determine the resamples, so that the same units have the same interval everywhere.
    """
    units = np.asarray(values, np.float64)
    units = units[np.isfinite(units)]
    n = len(units)
    if n == 0:
        return Interval(np.nan, np.nan, np.nan, 0)
    mean = float(np.mean(units))
    if n < LEAST_UNITS:
        return Interval(mean, np.nan, np.nan, n)
    if np.all(units == units[0]):
        return Interval(mean, mean, mean, n)
    generator = Stream(seed, f"campaign/bootstrap/{name}").generator()
    step = max(1, _LARGEST_BLOCK // n)
    blocks = (generator.integers(0, n, (min(step, RESAMPLES - k), n)) for k in range(0, RESAMPLES, step))
    means = np.concatenate([units[rows].mean(axis=1) for rows in blocks])
    from scipy.special import ndtr, stdtrit

    quantile = stdtrit(n - 1, 0.5 + confidence / 2)
    tail = float(ndtr(-np.sqrt(n / (n - 1)) * quantile))
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return Interval(mean, float(low), float(high), n)


# ---- summary --------------------------------------------------------------------------------------------------------


SUMMARY = "summary.json"
_MOST_VALUES = 24
"""Largest number of parameter values that are drawn individually; more are binned."""
_BINS = 8
_MOST_CURVES = 6


@dataclass(frozen=True)
class CurvePoint:
    """Point of a curve."""

    x: float
    words: str
    """The value, or the ends of the bin."""
    interval: Interval


@dataclass(frozen=True)
class Series:
    """Curve of a number against a parameter, at one value of another parameter."""

    name: str
    points: tuple[CurvePoint, ...]


def summary_of(study: Study, results: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Mean and interval of every number in every cell."""
    cells: dict[int, list[int]] = defaultdict(list)
    for number in sorted(results):
        cells[study.row(number).cell].append(number)
    entries = []
    for cell, numbers in cells.items():
        values = study.row(numbers[0]).values
        entries.append(
            {
                "cell": cell,
                "values": {path: value for path, value in values.items() if path in study.settings.grid},
                "rows": [numbers[0], numbers[-1]],
                "failed": sum(results[number]["status"] != "done" for number in numbers),
                "weather_validity": as_plain(validity_of_rows(results, numbers)),
                "numbers": {name: _as_dict(of_rows(study, results, numbers, name)) for name in study.numbers},
            }
        )
    return {
        "study": study.title,
        "rows": len(results),
        "confidence": study.settings.confidence,
        "intervals": METHOD,
        "units": {name: number.unit for name, number in study.numbers.items()},
        "cells": entries,
    }


def validity_of_rows(results: dict[int, dict[str, Any]], rows: Iterable[int]) -> dict[str, dict[str, Validity]]:
    """Validity of the sensors of some rows in the media of their weather, by name of sensor and medium.

    If rows have different models of a sensor, the lowest grade counts.
    """
    found: dict[str, dict[str, Validity]] = {}
    # Rows differ in few texts, so that each is parsed once.
    for text in dict.fromkeys(results[row].get("weather_validity") or "{}" for row in rows):
        for sensor, grades in json.loads(text).items():
            known = found.setdefault(sensor, {})
            for medium, one in grades.items():
                new = Validity(**one)
                known[medium] = max(known.get(medium, new), new, key=lambda one: GRADES.index(one.grade))
    return found


def of_rows(study: Study, results: dict[int, dict[str, Any]], rows: list[int], name: str) -> Interval:
    """Interval of the mean of a number over some rows.

    Independent units are draws if there are any, otherwise seeds; rows of one unit are averaged first, so that the same
    seed in several cells counts once.
    """
    units: dict[int, list[float]] = defaultdict(list)
    for number in rows:
        row, value = study.row(number), results[number].get("numbers", {}).get(name)
        if value is not None:
            units[row.draw if study.settings.draw_count > 1 else row.seed].append(value)
    means = [float(np.mean(values)) for values in units.values()]
    return interval_of_mean(means, study.settings.confidence, name)


def _as_dict(found: Interval) -> dict[str, Any]:
    return {"mean": _plain(found.mean), "low": _plain(found.low), "high": _plain(found.high), "units": found.units}


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


# ---- curves --------------------------------------------------------------------------------------------------------


def parted_by(study: Study, path: str) -> str | None:
    """Parameter whose values separate the curves against `path`: the first other list with few values."""
    others = [p for p, values in study.settings.grid.items() if p != path and 1 < len(values) <= _MOST_CURVES]
    return others[0] if others else None


def curves_of(study: Study, results: dict[int, dict[str, Any]], path: str, name: str) -> list[Series]:
    """Curves of a number against a parameter: one for each value of `parted_by`, averaged over all other parameters."""
    other = parted_by(study, path)
    groups: dict[str, list[int]] = defaultdict(list)
    for number in sorted(results):
        groups["" if other is None else words_of(study.row(number).values[other])].append(number)
    return [Series(group, tuple(_points(study, results, rows, path, name))) for group, rows in groups.items()]


def _points(
    study: Study, results: dict[int, dict[str, Any]], rows: list[int], path: str, name: str
) -> list[CurvePoint]:
    values = {number: study.row(number).values[path] for number in rows}
    options, plain = study.options(path), study.is_numeric(path)
    distinct: dict[str, list[int]] = defaultdict(list)
    for number, value in values.items():
        distinct[words_of(value)].append(number)
    if plain and len(distinct) > _MOST_VALUES:
        return _binned(study, results, {number: float(v) for number, v in values.items()}, name)
    places = {words_of(value): float(value) if plain else float(k + 1) for k, value in enumerate(options)}
    found = [CurvePoint(places[words], words, of_rows(study, results, own, name)) for words, own in distinct.items()]
    return sorted(found, key=lambda point: point.x)


def _binned(study: Study, results: dict[int, dict[str, Any]], values: dict[int, float], name: str) -> list[CurvePoint]:
    """Bins with equal numbers of rows."""
    order = sorted(values, key=lambda number: (values[number], number))
    found = []
    for rows in np.array_split(np.array(order), min(_BINS, max(1, len(order) // 3))):
        own = [values[int(number)] for number in rows]
        words = f"{min(own):.4g} to {max(own):.4g}"
        found.append(CurvePoint(float(np.mean(own)), words, of_rows(study, results, rows.tolist(), name)))
    return found


def words_of(value: Any) -> str:
    """Value of a parameter as text."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)
