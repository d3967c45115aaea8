"""`parhelion search`: a search and a grid on the same street, the files they write, errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

STUDY: dict[str, Any] = {
    "name": "rain along a wall",
    "scenario": {
        "name": "a wall",
        "duration_s": 0.1,
        "world": "wall.yaml",
        "weather": {"rain_rate_mm_h": 0},
        "sensors": [{"name": "top", "type": "lidar", "model": "velodyne/vlp-16"}],
    },
    "search": {"weather.rain_rate_mm_h": {"mild": 0, "severe": 200}},
    "breaks": {"measure": "detection_share", "falls_by": 0.05},
    "points": 10,
}
WALL = {
    "objects": [{"shape": {"kind": "box", "size_m": [1, 400, 40]}, "pose": {"xyz": [25, 0, 0]}, "material": "asphalt"}]
}


def study_in(folder: Path, **changes: Any) -> tuple[object, ...]:
    """Arguments of a search in a folder, without the word `search`."""
    folder.mkdir(exist_ok=True)
    (folder / "wall.yaml").write_text(yaml.safe_dump(WALL))
    (folder / "study.yaml").write_text(yaml.safe_dump({**STUDY, **changes}))
    return folder / "study.yaml", "-o", folder / "out", "--workers", 1


def found_in(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "out" / "search.json").read_text())
    return content


@pytest.mark.slow
def test_a_fifth_of_the_runs_of_a_grid_gives_its_rain_rate(run: Callable[..., Any], tmp_path: Path) -> None:
    rates = {}
    for name, points in (("search", 10), ("grid", 51)):
        shown = run("search", *study_in(tmp_path / name, points=points), "--method", name)
        assert shown.exit_code == 0, shown.output
        assert "It holds at rain rate" in shown.output
        content = found_in(tmp_path / name)
        assert len(content["points"]) <= points
        rates[name] = content["found"]["values"]["weather.rain_rate_mm_h"]
    assert 40.0 < rates["grid"] < 190.0  # well inside of the range, in steps of 4 mm/h
    assert rates["search"] == pytest.approx(rates["grid"], rel=0.1)
    again = run("run", tmp_path / "search" / "out" / "replay" / "seed-0.yaml", "--check")
    assert again.exit_code == 0, again.output


def test_what_never_breaks_ends_with_1_and_a_sentence(run: Callable[..., Any], tmp_path: Path) -> None:
    shown = run("search", *study_in(tmp_path, breaks={"measure": "detection_share", "above": 2}))
    assert shown.exit_code == 1
    assert "No point was found with detection_share above 2." in shown.output
    assert found_in(tmp_path)["found"] is None


def test_a_wrong_path_is_one_sentence(fails: Callable[..., str], tmp_path: Path) -> None:
    assert "weather.rain" in fails("search", *study_in(tmp_path, search={"weather.rain": {"mild": 0, "severe": 1}}))
