"""`parhelion examples`, `new` and `schema`: files to start from, and the fields of every kind of file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from parhelion.cli.starters import STARTERS, _command_of, described_schema, schema_kinds
from parhelion.sensors.sheets import PRESETS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def schemas() -> dict[str, dict[str, Any]]:
    return {kind: described_schema(model(), kind) for kind, (_, model) in schema_kinds().items()}


def errors_of(schema: dict[str, Any], file: Path) -> list[str]:
    validator = pytest.importorskip("jsonschema").Draft202012Validator(schema)
    return [f"{file.name}: {error.json_path}: {error.message[:100]}" for error in validator.iter_errors(
        json.loads(json.dumps(yaml.safe_load(file.read_text(encoding="utf-8"))))
    )]  # fmt: skip


def test_every_data_sheet_fits_its_schema(schemas: dict[str, dict[str, Any]]) -> None:
    for kind, schema in schemas.items():
        for file in sorted((PRESETS / kind).rglob("*.yaml"))[:6]:
            assert errors_of(schema, file) == []


@pytest.mark.parametrize("kind", ["scenario", "world", "study"])
def test_starters_fit_their_schema(schemas: dict[str, dict[str, Any]], kind: str) -> None:
    assert errors_of(schemas[kind], STARTERS / f"{kind}.yaml") == []


def test_a_schema_states_what_fields_mean_and_finds_mistakes(
    schemas: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    beam = schemas["lidar"]["$defs"]["Beam"]["properties"] if "Beam" in schemas["lidar"]["$defs"] else None
    described = [v for part in schemas["lidar"]["$defs"].values() for v in part.get("properties", {}).values()]
    assert beam is None or "description" in next(iter(beam.values()))
    assert sum("description" in one for one in described) > 0.6 * len(described)
    sheet = yaml.safe_load((PRESETS / "imu" / "bosch" / "bmi160.yaml").read_text(encoding="utf-8"))
    (tmp_path / "imu.yaml").write_text(yaml.safe_dump({**sheet, "rate_hz": -1, "nmae": "x"}))
    found = " ".join(errors_of(schemas["imu"], tmp_path / "imu.yaml"))
    assert "rate_hz" in found
    assert "nmae" in found


def test_schema_command(run: Callable[..., Any], fails: Callable[..., str], tmp_path: Path) -> None:
    assert {"scenario", "lidar", "uwb", "weather"} <= set(run("schema").stdout.split())
    assert json.loads(run("schema", "imu").stdout)["title"] == "Parhelion imu"
    result = run("schema", "study", "-o", tmp_path / "study.json")
    assert "# yaml-language-server: $schema=" in result.stdout
    assert json.loads((tmp_path / "study.json").read_text())["properties"]["vary"]["description"]
    assert "did you mean 'scenario'" in fails("schema", "scenarios")


@pytest.mark.slow
def test_new_files_work_unchanged(run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for kind, check in {
        "scenario": ("run", "scenario.yaml", "--check"),
        "world": ("worlds", "world.yaml"),
        "sensor": ("sensors", "sensor.yaml"),
    }.items():
        made = run("new", kind)
        assert made.exit_code == 0, made.output
        assert (tmp_path / f"{kind}.yaml").read_text().startswith("# yaml-language-server: $schema=")
        result = run(*check)
        assert result.exit_code == 0, result.output
    from parhelion.campaign import Study

    run("new", "study")
    assert len(Study.load("study.yaml")) == 6
    run("new", "sensor", "--like", "ti/iwr6843", "-o", "radar.yaml")
    assert "60 GHz" in run("sensors", "radar.yaml").stdout


def test_new_overwrites_nothing(run: Callable[..., Any], fails: Callable[..., str], tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("mine")
    assert "already exists" in fails("new", "world", "-o", mine)
    assert mine.read_text() == "mine"
    assert "did you mean 'scenario'" in fails("new", "scenaro", "-o", tmp_path / "a.yaml")
    line = fails("new", "sensor", "--like", "velodyne/vlp16", "-o", tmp_path / "a.yaml")
    assert "did you mean 'velodyne/vlp-16'" in line
    assert run("new", "world", "--like", "velodyne/vlp-16").exit_code == 2
    assert run("new", "world", "-o", tmp_path / "a.txt").exit_code == 2
    assert sorted(one.name for one in tmp_path.iterdir()) == ["mine.yaml"]


def test_a_scenario_from_settings_of_airsim(run: Callable[..., Any], fails: Callable[..., str], tmp_path: Path) -> None:
    lidar = {"SensorType": 6, "NumberOfChannels": 4, "MeasurementsPerCycle": 64, "DrawDebugPoints": True}
    car = {"VehicleType": "PhysXCar", "Sensors": {"top": lidar}}
    (tmp_path / "settings.json").write_text(json.dumps({"Vehicles": {"car": car}}), encoding="utf-8")
    made = run("new", "scenario", "--from", tmp_path / "settings.json", "-o", tmp_path / "a.yaml")
    assert "Vehicles.car.Sensors.top: DrawDebugPoints" in made.stdout
    assert "wrote" in made.stdout
    assert (tmp_path / "a-top.yaml").is_file()
    assert run("run", tmp_path / "a.yaml", "--check").exit_code == 0
    assert "already exists" in fails("new", "scenario", "--from", tmp_path / "settings.json", "-o", tmp_path / "a.yaml")
    assert run("new", "world", "--from", tmp_path / "settings.json", "-o", tmp_path / "b.yaml").exit_code == 2
    missing = fails("new", "scenario", "--from", tmp_path / "no.json", "-o", tmp_path / "b.yaml")
    assert "no.json: cannot be read" in missing


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"vary", "scenario"}, ["campaign", "F", "-o", "OUT"]),
        ({"duration_s", "world", "objects"}, ["run", "F", "-o", "OUT"]),
        ({"objects", "actors"}, ["worlds", "F", "--png", "OUT/world.png"]),
        ({"choose", "candidates"}, ["evaluate", "placement", "F", "-o", "OUT/report.html"]),
    ],
)
def test_an_example_is_run_by_the_command_for_its_fields(keys: set[str], words: list[str], tmp_path: Path) -> None:
    output = tmp_path / "out"
    assert [word.replace(str(output), "OUT") for word in _command_of(keys, "F", output)] == words


def test_examples_are_listed_shown_and_copied(
    run: Callable[..., Any], fails: Callable[..., str], tmp_path: Path
) -> None:
    listed = run("examples").stdout
    for file in (*(ROOT / "examples").rglob("*.yaml"), *(ROOT / "examples").rglob("*.py")):
        assert file.relative_to(ROOT / "examples").as_posix() in listed
    assert "Husky" in listed
    assert "model: clearpath/husky" in run("examples", "warehouse.yaml").stdout
    run("examples", "--copy", tmp_path / "mine")
    assert (tmp_path / "mine" / "robots" / "husky.urdf").is_file()
    assert "already exists" in fails("examples", "--copy", tmp_path / "mine")
    assert "did you mean 'warehouse.yaml'" in fails("examples", "warehose.yaml")


def test_a_missing_example_is_offered(
    fails: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("examples/warehouse.yaml", "studies/rain.yaml"):
        text = fails("run", name, "-o", tmp_path / "out")
        assert text == (
            f"error: {name}: no such file; to copy the examples of the package: parhelion examples --copy examples"
        )
    assert fails("run", "examples/mine.yaml", "-o", tmp_path / "out").endswith("examples/mine.yaml: no such file")
