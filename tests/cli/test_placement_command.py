"""`parhelion evaluate placement` as a user runs it, and placement files that make no sense."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "placement"
YARD = {
    "name": "yard",
    "objects": [
        {"shape": {"kind": "plane", "size_m": [40, 40]}, "material": "asphalt", "label": "road"},
        {"shape": {"kind": "box", "size_m": [2, 2, 2]}, "label": "car", "pose": {"xyz": [6, 0, 1]}},
    ],
}
MOUNT = {"type": "lidar", "model": "velodyne/vlp-16", "options": {"rate_hz": 20.0}}
SENSORS: dict[str, Any] = {
    "name": "a <cart>",
    "world": "yard.yaml",
    "choose": 2,
    "vehicle": {"body": [{"shape": {"kind": "box", "size_m": [1, 0.6, 0.8]}, "pose": {"xyz": [0, 0, 0.4]}}]},
    "candidates": [
        {**MOUNT, "name": "mast", "mount": {"xyz": [-0.3, 0, 1.5]}},
        {**MOUNT, "name": "nose", "mount": {"xyz": [0.55, 0, 0.5], "rpy_deg": [0, 20, 0]}},
        {"type": "camera", "name": "eye", "model": "generic/vga",
         "mount": {"xyz": [0.5, 0, 0.9], "rpy_deg": [0, 15, 0]}},
        {**MOUNT, "name": "side", "grid": {"x": [0], "y": [-0.35, 0.35], "z": [0.6]}},
    ],
    "score": {
        "coverage": {"region": {"min": [4, -2, 0], "max": [8, 2, 2.2]}, "labels": {"car": 1}, "at_least": 3},
        "blind": {"radius_m": 5, "cell_m": 0.5},
    },
}  # fmt: skip
ANCHORS: dict[str, Any] = {
    "world": "yard.yaml",
    "choose": 3,
    "candidates": [{"type": "anchor", "grid": {"x": [-10, 10], "y": [-10, 10], "z": [4]}}],
    "score": {"localisation": {"region": {"min": [-6, -6, 0], "max": [6, 6, 3]}, "cell_m": 1.0}},
}


@pytest.fixture
def place(tmp_path: Path) -> Any:
    """`place(fields)`: the name of a placement file beside its world."""
    (tmp_path / "yard.yaml").write_text(yaml.safe_dump(YARD))

    def write(fields: dict[str, Any]) -> Path:
        file = tmp_path / "place.yaml"
        file.write_text(yaml.safe_dump(fields))
        return file

    return write


def test_sensors_on_a_vehicle(run: Any, place: Any, tmp_path: Path) -> None:
    page, numbers, table, picture = (tmp_path / name for name in ("out.html", "out.json", "out.csv", "out.png"))
    file = place(SENSORS)
    result = run("evaluate", "placement", file, "-o", page, "--json", numbers, "--csv", table, "--png", picture)
    assert result.exit_code == 0, result.output
    assert "exact: 10 of 10 combinations evaluated" in result.stdout
    found = json.loads(numbers.read_text())
    assert found["search"]["used"] == "exact"
    assert len(found["chosen"]) == 2
    assert 0.0 < found["search"]["greedy"]["score"] <= found["score"] <= found["score_of_all"] <= 1.0
    rows = list(csv.DictReader(table.open()))
    assert [row["name"] for row in rows] == ["mast", "nose", "eye", "side-0", "side-1"]
    assert [row["name"] for row in rows if row["chosen"] == "True"] == sorted(
        found["chosen"], key=[row["name"] for row in rows].index
    )
    text = page.read_text()
    assert "a &lt;cart&gt;" in text
    assert f"parhelion evaluate placement {file} -o {page}" in text
    assert "data:image/png;base64," in text
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_anchors_of_the_example(run: Any, tmp_path: Path) -> None:
    numbers, page = tmp_path / "out.json", tmp_path / "out.html"
    file = EXAMPLES / "warehouse-anchors.yaml"
    result = run("evaluate", "placement", file, "-k", "3", "-o", page, "--json", numbers)
    assert result.exit_code == 0, result.output
    found = json.loads(numbers.read_text())
    assert found["search"]["combinations"] == 2024
    assert found["search"]["visited"] < 2024
    assert found["parts"]["localisation"]["sigma_m"] == 0.025
    assert found["command"] == f"parhelion evaluate placement {file} --choose 3 -o {page}"


def test_greedy_where_it_is_asked_for(run: Any, place: Any, tmp_path: Path) -> None:
    numbers = tmp_path / "out.json"
    result = run("evaluate", "placement", place(SENSORS), "--method", "greedy", "--json", numbers)
    assert result.exit_code == 0, result.output
    assert "greedy: as asked for; no set has a score above" in result.stdout
    found = json.loads(numbers.read_text())
    assert found["search"]["exact"] is None
    assert found["search"]["gap"] is None
    assert found["score"] <= found["search"]["upper_bound"] <= found["score_of_all"] + 1e-12


def test_the_schema(run: Any) -> None:
    result = run("evaluate", "placement", "--schema")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["title"] == "Parhelion placement"
    assert run("evaluate", "placement").exit_code == 2


def _with(fields: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of the fields with one changed, or taken out where the value is None."""
    copy = json.loads(json.dumps(fields))
    *parents, last = path.split(".")
    place = copy
    for name in parents:
        place = place[name]
    if value is None:
        place.pop(last)
    else:
        place[last] = value
    return copy


ON_A_LINE = [{"type": "anchor", "xyz": [x, 2.0, 3 + 0.1 * x]} for x in range(4)]
FAR = {"min": [100, 100, 0], "max": [110, 110, 3]}
WRONG = [
    (_with(SENSORS, "candidates", []), "candidates: give at least one"),
    (_with(SENSORS, "choose", 6), "choose: 6 of 5 candidates cannot be chosen"),
    (_with(SENSORS, "score.coverage.region", FAR), "region: lies outside the world"),
    (_with(ANCHORS, "score.localisation.region", FAR), "region: lies outside the world"),
    (_with(ANCHORS, "candidates", ON_A_LINE), "all lie on one line"),
    (_with(ANCHORS, "candidates", [{"type": "anchor", "grid": {"x": [1], "y": [2], "z": [1, 2, 3]}}]), "at one place"),
    (_with(ANCHORS, "choose", 2), "2 anchors give no position in 2 dimensions; choose at least 3"),
    (_with(ANCHORS, "score.localisation.model", "qorvo/dw100"), "did you mean 'qorvo/dw1000'"),
    (_with(ANCHORS, "score", {"blind": {}}), "coverage and blind apply to lidars and cameras"),
    (_with(SENSORS, "score", ANCHORS["score"]), "localisation applies to candidates of type anchor"),
    (_with(SENSORS, "candidates", SENSORS["candidates"] + ON_A_LINE[:1]), "give anchors, or lidars and cameras"),
    (_with(SENSORS, "score", {}), "give at least one of coverage, blind, localisation"),
    (_with(SENSORS, "vehicle", None), "vehicle: is required for blind ground"),
    (_with(SENSORS, "world", None), "give either world or scenario"),
    (_with(SENSORS, "vehicle", {"name": "cart"}), "set scenario"),
    (_with(SENSORS, "seeds", 3), "unknown field; did you mean 'seed'"),
    (_with(SENSORS, "candidates", SENSORS["candidates"][:1] * 2), "the name 'mast' is given twice"),
    (_with(SENSORS, "candidates", [{**MOUNT, "model": "velodyne/vlp-61", "mount": {}}] * 2), "did you mean"),
    (_with(SENSORS, "candidates", [{**MOUNT, "options": {"ringz": 3}, "mount": {}}] * 2), "'ringz' is unknown"),
    (_with(SENSORS, "candidates", [{**MOUNT}]), "give either mount or grid"),
    (_with(SENSORS, "score.coverage.labels", {"cat": 1}), "no object in the world has the label 'cat'"),
    (_with(SENSORS, "score.coverage.cell_m", 0.01), "3.55e+07 cells of 0.01 m; 20000000 are allowed"),
    (_with(ANCHORS, "score.localisation.cell_m", 0.01), "gives more than"),
    (_with(SENSORS, "score.coverage.region", {"min": [0, 0, 5], "max": [1, 1, 5]}), "min must be below max"),
    (_with(SENSORS, "score.coverage.region", {"min": [-9, 7, 0.5], "max": [-8, 8, 1.5]}), "no surface with a weight"),
    (_with(SENSORS, "search", {"method": "exact", "exact_limit": 5}), "10 combinations are more than exact_limit, 5"),
    (_with(SENSORS, "search", {"method": "best"}), "search.method"),
    (_with(SENSORS, "world", "nowhere.yaml"), "nowhere.yaml"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "message"), WRONG, ids=[message for _, message in WRONG])
def test_files_that_make_no_sense(fails: Any, place: Any, fields: dict[str, Any], message: str) -> None:
    line = fails("evaluate", "placement", place(fields))
    assert "place.yaml" in line
    assert message in line


def test_what_cannot_be_written(fails: Any, place: Any, tmp_path: Path) -> None:
    file = place(SENSORS)
    assert "does not exist" in fails("evaluate", "placement", file, "-o", tmp_path / "no" / "out.html")
    assert "must end in" in fails("evaluate", "placement", file, "--png", tmp_path / "out.gif")
    assert "no such file" in fails("evaluate", "placement", tmp_path / "missing.yaml")
