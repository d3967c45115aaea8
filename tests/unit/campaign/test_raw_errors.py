"""Damaged studies and pieces that used to raise errors of other libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from campaign_rigs import study_in
from parhelion.campaign.store import LocalStore, Pieces
from parhelion.core.errors import ConfigError


@pytest.mark.parametrize("path", ["weather.rain_rate_mm_h.q", "weather.rain_rate_mm_h.q.r"])
def test_a_path_below_a_plain_value(tmp_path: Path, path: str) -> None:
    with pytest.raises(ConfigError, match=r"study.yaml: vary: .* weather.rain_rate_mm_h has no further fields"):
        study_in(tmp_path, vary={path: [1]})


def test_a_scenario_name_with_nul(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"study.yaml: scenario: 'a\\x00b.yaml' is not a file name"):
        study_in(tmp_path, scenario="a\0b.yaml")


def test_a_weather_name_with_nul(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        study_in(tmp_path, {"weather": "a\0b.yaml"})


GOOD = {"row": 3, "status": "done", "error": None, "numbers": {"points": 1.0, "lost": None}}


@pytest.mark.parametrize(
    "damaged",
    [{"row": 149}, {**GOOD, "row": True}, {**GOOD, "row": 3.5}, {**GOOD, "status": 1}, {**GOOD, "numbers": [1]},
     {**GOOD, "numbers": {"points": "1"}}, {**GOOD, "error": ["x"]}, {**GOOD, "device": 7}, [], 7, None],
)  # fmt: skip
def test_a_damaged_line_of_a_piece_is_dropped(tmp_path: Path, damaged: Any) -> None:
    (tmp_path / "pieces").mkdir()
    (tmp_path / "pieces" / "000000.jsonl").write_text(f"{json.dumps(GOOD)}\n{json.dumps(damaged)}\n")
    assert Pieces(LocalStore(tmp_path)).load() == {3: GOOD}
