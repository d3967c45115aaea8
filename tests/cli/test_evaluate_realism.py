"""`parhelion evaluate realism` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

from realism_rigs import drive


def write(folder: Path, first: int, **how: float) -> Path:
    folder.mkdir()
    for number, cloud in enumerate(drive(first, **how)[:2]):
        cloud.save(folder / f"{number}.npz")
    return folder


def test_a_simulation_without_noise_in_coarse_steps_is_found(run, fails, tmp_path: Path) -> None:
    real, made = write(tmp_path / "real", 100), write(tmp_path / "sim", 200, noise_m=0.0, step_m=0.05)
    page, numbers, picture = (tmp_path / name for name in ("report.html", "out.json", "places.png"))
    files = ("--html", page, "--json", numbers, "--png", picture)
    result = run("evaluate", "realism", real, made, *files, "--points", 4000)
    assert result.exit_code == 0, result.output
    assert "coarser than the common resolution" in result.stdout
    found = json.loads(numbers.read_text())
    assert found["range_step_m"] == {"real": 0.0, "simulated": 0.05}
    assert found["auc"]["shape"]["auc"] > 0.9
    assert found["auc"]["shape"]["low"] > 0.85
    assert {row["name"] for row in found["features"]["shape"][:3]} & {"bend", "roughness", "edge"}
    assert found["shots"]["hit_agreement"] > 0.88
    assert found["places"][0]["score"] > 0.9
    assert "separates the sets" in found["verdict"]
    text = page.read_text()
    assert text.count("<img") == 2
    assert "Worst places" in text
    assert picture.stat().st_size > 10_000

    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no clouds in this folder" in fails("evaluate", "realism", real, empty)
    assert "no such file" in fails("evaluate", "realism", tmp_path / "none", made)
    assert "does not exist" in fails("evaluate", "realism", real, made, "--json", tmp_path / "no" / "x.json")
