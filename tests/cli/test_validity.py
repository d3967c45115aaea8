"""Validity grades of lidars in weather, as the commands print them and the files of a run hold them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import parhelion as ph
from parhelion.sensors.optics.lidar.validity import Validity, in_words, validity_in

Run = Callable[..., Any]
SCAN = ("-w", "cuboids", "--snow", 1, "--visibility", 300)
SNOW_AND_FOG = "fog by class, snow validated"


def row(output: str) -> str | None:
    """Row `validity` of a summary, joined if it was wrapped; None if there is none."""
    lines = output.splitlines()
    at = next((k for k, line in enumerate(lines) if line.split()[:1] == ["validity"]), None)
    return None if at is None else " ".join(lines[at].split()[1:])


def test_only_media_of_the_weather_are_graded() -> None:
    lidar = ph.Lidar("velodyne/vlp-32c")
    found = validity_in(lidar, ph.Weather(snow_rate_mm_h=1, visibility_m=300, rain_rate_mm_h=0))
    assert found == {name: lidar.weather_validity[name] for name in ("fog", "snow")}
    assert in_words(found) == SNOW_AND_FOG
    assert validity_in(lidar, None) == validity_in(lidar, ph.Weather()) == {}
    assert validity_in(ph.sensor("radar", "ti/iwr6843"), ph.Weather(rain_rate_mm_h=5)) == {}
    later = ph.Weather(rain_rate_mm_h=[[0, 0], [60, 25]])
    assert list(validity_in(lidar, later)) == ["rain"]


def test_commands_print_it_in_weather_only(run: Run, tmp_path: Path) -> None:
    sensor = ("-s", "velodyne/vlp-32c")
    file = tmp_path / "clear.pcd"
    clear = run("scan", "-w", "cuboids", *sensor, "--sub-rays", 1, "-o", file)
    assert clear.exit_code == 0, clear.output
    assert row(clear.stdout) is None
    assert row(run("scan", *SCAN, *sensor, "--sub-rays", 1).stdout) == SNOW_AND_FOG
    assert row(run("measure", *SCAN, *sensor).stdout) == SNOW_AND_FOG
    assert row(run("measure", *SCAN, "-s", "ti/iwr6843").stdout) is None
    applied = run("weather", file, "-o", tmp_path / "wet.pcd", "--snow", 1, "--visibility", 300, *sensor)
    assert applied.exit_code == 0, applied.output
    assert row(applied.stdout) == SNOW_AND_FOG


def test_a_run_has_it_in_summary_manifest_and_report(run: Run, tmp_path: Path) -> None:
    sensors = [
        {"name": "top", "type": "lidar", "model": "hesai/pandar64", "options": {"sub_rays": 1}},
        {"name": "side", "type": "lidar", "model": "livox/avia", "options": {"sub_rays": 1}},
    ]
    fields = {"duration_s": 0.1, "world": "cuboids", "sensors": sensors, "outputs": []}
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump({**fields, "weather": {"snow_rate_mm_h": 1}}))
    found = run("run", file, "-o", tmp_path / "out")
    assert found.exit_code == 0, found.output
    assert row(found.stdout) == "top: snow validated; side: snow assumed"
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    expected = {name: ph.Lidar(model).weather_validity["snow"] for name, model in
                (("top", "hesai/pandar64"), ("side", "livox/avia"))}  # fmt: skip
    assert {name: Validity(**one["snow"]) for name, one in manifest["weather_validity"].items()} == expected
    page = (tmp_path / "out" / "report.html").read_text()
    for one in expected.values():
        assert one.words in page
        assert one.reason.replace("'", "&#x27;") in page
    file.write_text(yaml.safe_dump(fields))
    run("run", file, "-o", tmp_path / "clear")
    assert json.loads((tmp_path / "clear" / "manifest.json").read_text())["weather_validity"] == {}


@pytest.mark.slow
def test_a_campaign_has_it_in_table_summary_and_report(run: Run, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    sensors = [{"name": "top", "type": "lidar", "model": "hesai/pandar64", "options": {"sub_rays": 1}}]
    scenario = {"duration_s": 0.1, "world": "cuboids", "sensors": sensors, "weather": {"snow_rate_mm_h": 0}}
    vary = {"weather.snow_rate_mm_h": [0, 1], "sensors.top.model": ["hesai/pandar64", "livox/avia"]}
    study = tmp_path / "study.yaml"
    study.write_text(yaml.safe_dump({"scenario": scenario, "vary": vary, "seeds": 1}))
    found = run("campaign", study, "-o", tmp_path / "out", "--workers", 1)
    assert found.exit_code == 0, found.output
    assert row(found.stdout) == "snow assumed"  # the lowest grade of the two models
    cells = json.loads((tmp_path / "out" / "summary.json").read_text())["cells"]
    grades = [cell["weather_validity"].get("top", {}).get("snow", {}).get("grade") for cell in cells]
    models = [
        cell["values"]["sensors.top.model"] if cell["values"]["weather.snow_rate_mm_h"] else None for cell in cells
    ]
    assert grades == [{"hesai/pandar64": "validated", "livox/avia": "assumed"}.get(model) for model in models]
    table = parquet.read_table(tmp_path / "out" / "results.parquet").to_pydict()
    assert [json.loads(text) for text in table["weather_validity"]] == [cell["weather_validity"] for cell in cells]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Validity in weather" in page
    assert ph.Lidar("livox/avia").weather_validity["snow"].reason.replace("'", "&#x27;") in page
    again = run("campaign", study, "-o", tmp_path / "out", "--workers", 1)
    assert row(again.stdout) == "snow assumed"
