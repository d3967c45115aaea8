"""Curves, cells and grades of a study whose results follow known formulas, against sums over its rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from campaign_rigs import study_in
from parhelion.campaign import Study, summary
from parhelion.campaign.study import StudyDraws, _representative
from parhelion.campaign.summary import Interval, curves_of, interval_of_mean, of_rows, parted_by, summary_of, words_of
from parhelion.core.errors import ConfigError

RAIN, FAR, RETURNS = "weather.rain_rate_mm_h", "weather.visibility_m", "sensors.top.options.returns"
NAME = "points_per_scan"


def value_of(study: Study, number: int) -> float:
    row = study.row(number)
    return float(number**2 % 97 + row.values.get(RAIN, 0.0))


def results_of(study: Study) -> dict[int, dict[str, Any]]:
    """Results of all rows, in reverse: every seventh failed, every ninth has no number."""
    found: dict[int, dict[str, Any]] = {}
    for number in reversed(range(len(study))):
        grade = ("validated", "class", "assumed")[min(number % 5, 2)]
        found[number] = {
            "status": "failed" if number % 7 == 3 else "done",
            "numbers": {NAME: None if number % 9 == 4 else value_of(study, number)},
            "weather_validity": json.dumps({"top": {"rain": {"grade": grade, "reason": str(number % 5)}}}),
        }
        if number % 7 == 3:
            del found[number]["numbers"], found[number]["weather_validity"]
    return found


def means_of(study: Study, results: dict[int, dict[str, Any]], rows: list[int], by_draw: bool) -> list[float]:
    """Means of the independent units, in the order of their first row."""
    units: dict[int, list[float]] = {}
    for number in rows:
        value = results[number].get("numbers", {}).get(NAME)
        if value is not None:
            row = study.row(number)
            units.setdefault(row.draw if by_draw else row.seed, []).append(value)
    return [float(np.mean(one)) for one in units.values()]


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "RESAMPLES", 99)


def test_curves_over_lists(tmp_path: Path) -> None:
    vary = {RAIN: [50, 0.5, 20], RETURNS: ["strongest", "last"], "sensors.top.options.noise": [True, False]}
    study = study_in(tmp_path, vary=vary, seeds=[5, 9, 2, 7], confidence=0.9, measures=[NAME])
    assert study.options(RAIN) == [50, 0.5, 20]
    assert [study.is_numeric(path) for path in vary] == [True, False, False]
    assert (parted_by(study, RAIN), parted_by(study, RETURNS)) == (RETURNS, RAIN)
    results = results_of(study)
    curves = curves_of(study, results, RAIN, NAME)
    assert [curve.name for curve in curves] == ["strongest", "last"]
    for curve in curves:
        assert [(point.x, point.words) for point in curve.points] == [(0.5, "0.5"), (20.0, "20"), (50.0, "50")]
        for point in curve.points:
            rows = [
                k
                for k in range(len(study))
                if (study.row(k).values[RAIN], study.row(k).values[RETURNS]) == (point.x, curve.name)
            ]
            expected = interval_of_mean(means_of(study, results, rows, by_draw=False), 0.9, NAME)
            assert point.interval == expected
            assert expected.units == 4
    # Words and truth values have the place of their option.
    named = study_in(tmp_path, vary={RETURNS: ["strongest", "last"]}, seeds=3, measures=[NAME])
    (curve,) = curves_of(named, results_of(named), RETURNS, NAME)
    assert [(point.x, point.words) for point in curve.points] == [(1.0, "strongest"), (2.0, "last")]
    assert [words_of(one) for one in (1 / 3, "a", [1, 2], True, 7)] == ["0.333333", "a", "[1, 2]", "true", "7"]


def test_curves_over_draws_have_bins_of_equal_numbers(tmp_path: Path) -> None:
    many = {FAR: {"uniform": [50, 900], "count": 61, "seed": 3}, RAIN: [0, 20]}
    study = study_in(tmp_path, vary=many, seeds=2, measures=[NAME])
    results = results_of(study)
    drawn = np.array(study.options(FAR))
    assert study.is_numeric(FAR)
    curves = curves_of(study, results, FAR, NAME)
    assert [curve.name for curve in curves] == ["0", "20"]
    for curve, rain in zip(curves, (0, 20), strict=True):
        rows = [k for k in range(len(study)) if study.row(k).values[RAIN] == rain]
        rows.sort(key=lambda k: (drawn[study.row(k).draw], k))
        parts = [rows[16 * k : 16 * k + 16] for k in range(2)] + [rows[32 + 15 * k : 47 + 15 * k] for k in range(6)]
        for point, own in zip(curve.points, parts, strict=True):
            values = drawn[[study.row(k).draw for k in own]]
            assert point.x == pytest.approx(values.mean())
            assert point.words == f"{values.min():.4g} to {values.max():.4g}"
            assert point.interval == interval_of_mean(means_of(study, results, own, by_draw=True), 0.95, NAME)
    # 24 values are drawn one by one; few rows have a third as many bins.
    for count, points in ((24, 24), (25, 8)):
        some = study_in(tmp_path, vary={FAR: {"uniform": [50, 900], "count": count}}, measures=[NAME])
        (curve,) = curves_of(some, results_of(some), FAR, NAME)
        assert len(curve.points) == points
    assert len(summary._binned(some, results_of(some), {k: float(k) for k in range(11)}, NAME)) == 3
    assert len(summary._binned(some, results_of(some), {k: float(k) for k in range(2)}, NAME)) == 1


def test_lists_of_more_than_six_values_part_no_curves(tmp_path: Path) -> None:
    for count, other in ((6, RAIN), (7, None), (1, None)):
        study = study_in(tmp_path, vary={RAIN: list(range(count)), RETURNS: ["strongest", "last"]})
        assert parted_by(study, RETURNS) == other


def test_cells_of_a_summary(tmp_path: Path) -> None:
    study = study_in(tmp_path, vary={RAIN: [0, 20, 50], FAR: {"uniform": [50, 900], "count": 4}}, seeds=2)
    results = results_of(study)
    del results[0]
    found = summary_of(study, results)
    assert (found["study"], found["rows"], found["confidence"]) == ("rain before a wall", 23, 0.95)
    assert found["intervals"] == summary.METHOD
    assert found["units"] == {name: number.unit for name, number in study.numbers.items()}
    for k, cell in enumerate(found["cells"]):
        rows = [number for number in range(8 * k, 8 * k + 8) if number]
        assert (cell["cell"], cell["values"], cell["rows"]) == (k, {RAIN: (0, 20, 50)[k]}, [rows[0], rows[-1]])
        assert cell["failed"] == sum(number % 7 == 3 for number in rows)
        # The lowest grade of the rows counts; the first of equal ones gives the reason.
        worst = next(number for number in rows if number % 5 >= 2 and number % 7 != 3)
        assert cell["weather_validity"] == {"top": {"rain": {"grade": "assumed", "reason": str(worst % 5)}}}
        interval = of_rows(study, results, rows, NAME)
        assert interval.units == 4
        assert interval == interval_of_mean(means_of(study, results, rows, by_draw=True), 0.95, NAME)
        assert cell["numbers"][NAME] == vars(interval)
    nothing = {number: {"status": "failed"} for number in range(8)}
    assert summary_of(study, nothing)["cells"][0]["numbers"][NAME] == {
        "mean": None, "low": None, "high": None, "units": 0,
    }  # fmt: skip
    assert Interval(1.0, 0.5, 2.5, 4).half_width == 1.0
    assert json.loads(json.dumps(found)) == found


def test_limits_of_studies_are_allowed(tmp_path: Path) -> None:
    """Values at the limits of each rule, and just beyond."""
    with pytest.raises(ConfigError, match="give one of"):
        study_in(tmp_path, vary={RAIN: {"count": 3}})
    kinds = {"uniform": (0, 1), "loguniform": (0.5, 1), "normal": (0, 0.5), "choice": [1, 2]}
    assert [StudyDraws.model_validate({name: one, "count": 1}).kind for name, one in kinds.items()] == list(kinds)
    for within in ([3.0, 4.0], [-4.0, -3.0]):
        StudyDraws.model_validate({"normal": [0.0, 0.5], "within": within})
        with pytest.raises(ValueError, match="more than six"):
            StudyDraws.model_validate({"normal": [0.0, 0.499], "within": within})
    StudyDraws.model_validate({"normal": [50.0, 2.0], "within": [0.0, 100.0]})
    for name in ("uniform", "loguniform", "within"):
        with pytest.raises(ValueError, match="must be below the second"):
            StudyDraws.model_validate({"normal": [1, 1], name: [1.0, 1.0]} if name == "within" else {name: [1, 1]})
    # Long lists of numbers are checked at their ends, others value by value.
    assert _representative([3, 1, 2] * 34) == [1, 3]
    assert _representative([3, 1, 2.5] * 33) == [3, 1, 2.5]
    assert _representative(["a", 1] * 60) == ["a", 1]
    assert _representative([True] * 101) == [True]
    assert _representative(["a", 1] * 501) == ["a", 1] * 501
    assert _representative(["a", 1] * 500) == ["a", 1]
    study = study_in(tmp_path, vary={RAIN: [1, 2]}, seeds=3)
    assert study.row(0).seed == 0
    assert study.title == "rain before a wall"
    assert study_in(tmp_path, name="").title == "study"
    for number in (-1, 6):
        with pytest.raises(ConfigError, match="has rows 0 to 5"):
            study.row(number)
    other = study_in(tmp_path, vary={RAIN: [1, 2]}, seeds=3, name="x", confidence=0.5)
    assert other.sha256 == study.sha256 != study_in(tmp_path, vary={RAIN: [1, 3]}, seeds=3).sha256


def test_a_value_may_mend_the_scenario(tmp_path: Path) -> None:
    """The base is checked only if its first row is no scenario."""
    study = study_in(tmp_path, {"weather": {"rain_rate_mm_h": -3}}, vary={RAIN: [5]}, seeds=1)
    assert study.scenario_of(study.row(0))["weather"] == {"rain_rate_mm_h": 5}
    with pytest.raises(ConfigError, match="got -3"):
        study_in(tmp_path, {"weather": {"rain_rate_mm_h": -3}}, vary={FAR: [5]}, seeds=1)
