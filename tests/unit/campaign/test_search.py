"""Search for the mildest point that breaks: boundaries in closed form, budgets, files, resumed searches."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from parhelion.campaign import search as searching
from parhelion.campaign.search import Failure, Search, SearchAxis, TriedPoint, mildest, mildest_of_grid, run_search
from parhelion.core.config import parse
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.scenario.schema import ScenarioFile

ROOM = {"objects": [{"shape": {"kind": "box", "size_m": [1, 1, 1]}, "material": "brick"}]}
SEARCH: dict[str, Any] = {
    "name": "rain",
    "scenario": {
        "name": "room",
        "duration_s": 0.2,
        "world": "room.yaml",
        "sensors": [{"name": "top", "type": "lidar", "model": "velodyne/vlp-16"}],
    },
    "search": {"weather.rain_rate_mm_h": {"mild": 0, "severe": 100}},
    "breaks": {"measure": "detection_share", "falls_by": 0.25},
    "seeds": 2,
}


class Counted:
    """Points against a linear boundary a . s = 1 of severities, with a count."""

    def __init__(self, *normal: float) -> None:
        self.normal, self.count = np.array(normal), 0

    def __call__(self, severity: Floats) -> TriedPoint:
        self.count += 1
        level = float(self.normal @ severity)
        return TriedPoint(tuple(severity.tolist()), {}, (level,), (level > 1,), level > 1, min(level, 1.0))


@given(st.floats(0.02, 0.99))
def test_one_field_ends_within_the_tolerance_above_the_boundary(boundary: float) -> None:
    run = Counted(1.0 / boundary)
    found = mildest(1, run, points=100, tolerance=0.01, seed=0)
    assert found is not None
    assert boundary < found.total <= boundary * 1.01 + 1.0 / 1024.0
    assert run.count <= 12


def test_a_fifth_of_the_runs_of_a_grid_finds_the_same_rate_within_ten_percent() -> None:
    for boundary in np.linspace(0.1, 0.95, 18):
        grid = Counted(1.0 / boundary)
        of_grid = mildest_of_grid(1, grid, points=65)
        run = Counted(1.0 / boundary)
        found = mildest(1, run, points=grid.count // 5, tolerance=0.01, seed=0)
        assert of_grid is not None
        assert found is not None
        assert found.total == pytest.approx(of_grid.total, rel=0.1)


@pytest.mark.parametrize("normal", [(2.0, 1.0), (1.2, 3.0), (1.0, 2.0, 2.5)])
def test_several_fields_come_closer_to_the_nearest_point_than_a_grid_of_the_same_size(
    normal: tuple[float, ...],
) -> None:
    nearest = 1.0 / math.hypot(*normal)  # distance of the plane from the mild corner
    excess = []
    for seed in range(5):
        found = mildest(len(normal), Counted(*normal), points=64, tolerance=0.02, seed=seed)
        assert found is not None
        assert found.breaks
        excess.append(found.total / nearest - 1.0)
    of_grid = mildest_of_grid(len(normal), Counted(*normal), points=64)
    assert of_grid is not None
    assert np.mean(excess) < of_grid.total / nearest - 1.0
    assert max(excess) < 0.15


def test_a_search_repeats_itself_and_keeps_its_budget() -> None:
    runs = [Counted(1.0, 2.0) for _ in range(2)]
    first, second = (mildest(2, run, points=23, tolerance=0.01, seed=4) for run in runs)
    assert first == second
    assert [run.count for run in runs] == [23, 23]
    assert mildest(2, Counted(0.1, 0.1), points=12, tolerance=0.01, seed=0) is None


@pytest.mark.parametrize(
    ("limit", "excess"), [({"above": 2}, 1), ({"below": 5}, 2), ({"rises_by": 0.5}, 1.5), ({"falls_by": 1}, -3)]
)
def test_limits(limit: dict[str, float], excess: float) -> None:
    assert Failure(measure="x", **limit).excess(3.0, mild=1.0) == pytest.approx(excess)
    assert Failure(measure="x", **limit).excess(math.nan, mild=1.0) == math.inf


def test_values_between_mild_and_severe() -> None:
    assert SearchAxis(mild=10, severe=20).at(0.25) == 12.5
    assert SearchAxis(mild=10000, severe=100, scale="log").at(0.5) == pytest.approx(1000)
    assert SearchAxis(mild=0, severe=5, whole=True).at(0.5) == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"breaks": {"measure": "detection_share"}}, "breaks: give one of above, below, rises_by, falls_by; got none"),
        ({"breaks": {"measure": "detecton_share", "below": 1}}, "did you mean 'detection_share'"),
        ({"search": {"weather.rain_rate_mm_h": {"mild": 1, "severe": 1}}}, "mild and severe must differ"),
        ({"search": {"weather.visibility_m": {"mild": 0, "severe": 1, "scale": "log"}}}, "needs values above 0"),
        ({"search": {"weather.rain": {"mild": 0, "severe": 1}}}, "weather.rain"),
        ({"search": {"weather.rain_rate_mm_h": {"mild": 0, "severe": -5}}}, "rain_rate_mm_h"),
        ({"points": 2}, "points"),
    ],
)
def test_wrong_fields_are_named(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    (tmp_path / "room.yaml").write_text(yaml.safe_dump(ROOM))
    with pytest.raises(ConfigError) as caught:
        Search.from_mapping({**SEARCH, **changes}, tmp_path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


class InRain:
    """Workers without a simulator: the share falls by 1 % per mm/h, a little more with each seed."""

    capacity, notes, jobs = 8, (), 0

    def __init__(self) -> None:
        self._results: list[dict[str, Any]] = []

    def submit(self, row: int, job: str) -> None:
        InRain.jobs += 1
        scenario = json.loads(job)["scenario"]
        share = 0.9 - 0.01 * (1.0 + 0.1 * scenario["seed"]) * scenario["weather"]["rain_rate_mm_h"]
        self._results.append({"row": row, "status": "done", "device": "cpu", "numbers": {"detection_share": share}})

    def results(self) -> list[dict[str, Any]]:
        found, self._results = self._results, []
        return found

    def close(self) -> None:
        pass


@pytest.fixture
def in_rain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    InRain.jobs = 0
    monkeypatch.setattr(searching, "crew_of", lambda *_: InRain())
    (tmp_path / "room.yaml").write_text(yaml.safe_dump(ROOM))
    return tmp_path


def test_a_search_writes_scenarios_that_break(in_rain: Path) -> None:
    search = Search.from_mapping(SEARCH, in_rain)
    found = run_search(search, in_rain / "out")
    rate = found.values["weather.rain_rate_mm_h"]
    assert 25 / 1.1 < rate <= 25 / 1.1 * 1.02  # half of the seeds: the second breaks first
    assert found.holds is not None
    assert found.holds.values["weather.rain_rate_mm_h"] <= 25 / 1.1
    assert found.replays == ["replay/seed-1.yaml"]
    file = in_rain / "out" / "replay" / "seed-1.yaml"
    fields = yaml.safe_load(file.read_text())
    assert fields["weather"] == {"rain_rate_mm_h": rate}
    assert fields["seed"] == 1
    assert (file.parent / fields["world"]["name"]).resolve() == (in_rain / "room.yaml").resolve()
    parse(ScenarioFile, fields, "replay")
    content = json.loads((in_rain / "out" / "search.json").read_text())
    assert content["found"]["values"] == found.values
    assert len(content["points"]) == len(found.points)
    assert "rain rate" in (in_rain / "out" / "report.html").read_text()


def test_runs_of_an_earlier_search_are_used_again(in_rain: Path) -> None:
    search = Search.from_mapping(SEARCH, in_rain)
    first = run_search(search, in_rain / "out")
    before = InRain.jobs
    again = run_search(search, in_rain / "out")
    assert (again.runs, InRain.jobs, again.values) == (0, before, first.values)
    other = Search.from_mapping({**SEARCH, "breaks": {"measure": "detection_share", "below": 0.5}}, in_rain)
    further = run_search(other, in_rain / "out")  # other limits use the same runs
    assert further.runs < before
    scenario = {**SEARCH["scenario"], "duration_s": 0.4}
    with pytest.raises(ConfigError, match="another scenario"):
        run_search(Search.from_mapping({**SEARCH, "scenario": scenario}, in_rain), in_rain / "out")


def test_the_mild_ends_may_break_already_or_nothing_at_all(in_rain: Path) -> None:
    limits = {"measure": "detection_share", "below": 0.95}
    found = run_search(Search.from_mapping({**SEARCH, "breaks": limits}, in_rain), in_rain / "a")
    assert found.found is found.mild
    limits = {"measure": "detection_share", "above": 0.95}
    found = run_search(Search.from_mapping({**SEARCH, "breaks": limits}, in_rain), in_rain / "b")
    assert found.found is None
    assert not found.replays
    assert len(found.points) == 2


def test_a_grid_has_the_same_number_of_points_at_most(in_rain: Path) -> None:
    found = run_search(Search.from_mapping({**SEARCH, "points": 21}, in_rain), in_rain / "grid", method="grid")
    assert len(found.points) == 20  # the mild end is one of them
    assert found.values["weather.rain_rate_mm_h"] == pytest.approx(100 * 5 / 19, rel=1e-5)
