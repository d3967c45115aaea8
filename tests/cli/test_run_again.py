"""`parhelion run` again and again: other values, several of them, finished and replaced runs, changed inputs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from parhelion.scenario import Scenario

pytestmark = pytest.mark.slow

PLANE = {"shape": {"kind": "plane", "size_m": [60, 60]}, "material": "concrete", "label": "road"}
WALL = {"shape": {"kind": "box", "size_m": [1, 20, 4]}, "material": "brick", "pose": {"xyz": [12, 0, 2]}}
LIDAR = {"name": "flat", "type": "lidar", "model": "own.yaml", "mount": {"xyz": [0, 0, 1]}, "options": {"sub_rays": 1}}
DRIVE = {
    "name": "yard",
    "seed": 7,
    "duration_s": 0.2,
    "world": "yard.yaml",
    "outputs": [],
    "vehicles": [{"name": "cart", "motion": {"fixed": {"xyz": [0, 0, 0]}}}],
    "sensors": [LIDAR, {"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "cart"}],
}


@pytest.fixture
def yard(tmp_path: Path) -> Path:
    from parhelion.sensors.sheets import PRESETS

    place = tmp_path / "yard"
    place.mkdir()
    (place / "yard.yaml").write_text(yaml.safe_dump({"objects": [PLANE, WALL]}))
    (place / "own.yaml").write_text((PRESETS / "lidar" / "hokuyo" / "utm-30lx.yaml").read_text(encoding="utf-8"))
    (place / "drive.yaml").write_text(yaml.safe_dump(DRIVE))
    return place / "drive.yaml"


def hashes(folder: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((folder / "manifest.json").read_text())["files"]
    return found


def test_a_finished_run_is_not_loaded_again(
    run: Callable[..., Any], yard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert run("run", yard, "-o", out).exit_code == 0
    with monkeypatch.context() as patch:
        patch.setattr(Scenario, "load", lambda *_: pytest.fail("the scenario was loaded"))
        result = run("run", yard, "-o", out)
        assert result.exit_code == 0, result.output
        assert "this run is finished" in result.stdout
        assert "report.html" in result.stdout
    cloud = out / "flat" / "000001.pcd"
    whole = cloud.read_bytes()
    cloud.write_bytes(whole[:-1])
    result = run("run", yard, "-o", out)
    assert "this run is finished" not in result.stdout
    assert "times real time" not in result.stdout  # the pace of a partial run has no meaning
    assert cloud.read_bytes() == whole


def test_a_run_with_other_values_is_that_of_a_file_with_these_values(
    run: Callable[..., Any], yard: Path, tmp_path: Path
) -> None:
    changes = ["--set", "weather.rain_rate_mm_h=25", "--set", "sensors.flat.mount.xyz=[0, 1, 1]", "--seed", 3]
    assert run("run", yard, "-o", tmp_path / "out", *changes, "--duration", 0.1).exit_code == 0
    lidar = {**LIDAR, "mount": {"xyz": [0, 1, 1]}}
    fields = {**DRIVE, "seed": 3, "duration_s": 0.1, "weather": {"rain_rate_mm_h": 25}}
    fields["sensors"] = [lidar, DRIVE["sensors"][1]]  # type: ignore[index]
    (yard.parent / "same.yaml").write_text(yaml.safe_dump(fields))
    assert run("run", yard.parent / "same.yaml", "-o", tmp_path / "same").exit_code == 0
    assert hashes(tmp_path / "out") == hashes(tmp_path / "same")


def test_several_values_are_compared_on_one_page(run: Callable[..., Any], yard: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["-o", out, "--duration", 0.1, "--set", "weather.visibility_m=10,1000"]
    result = run("run", yard, *options)
    assert result.exit_code == 0, result.output
    near, far = out / "weather.visibility_m=10", out / "weather.visibility_m=1000"
    assert hashes(near)["flat/000000.pcd"] != hashes(far)["flat/000000.pcd"]
    page = (out / "report.html").read_text()
    for title in ("weather.visibility_m=10", "weather.visibility_m=1000"):
        assert f'href="{title.replace("=", "%3D")}/report.html"' in page
    again = run("run", yard, *options)
    assert "all 2 runs are finished and unchanged" in again.stdout


def test_the_refusal_of_another_run_states_what_differs(
    run: Callable[..., Any], fails: Callable[..., str], yard: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run("run", yard, "-o", out)
    before = hashes(out)
    line = fails("run", yard, "-o", out, "--seed", 8, "--set", "sensors.flat.rate_hz=40")
    assert "seed is 7 there, 8 here" in line
    assert "sensors.flat.rate_hz is absent there, 40.0 here" in line
    assert "--force" in line
    (yard.parent / "own.yaml").open("a").write("# another sheet\n")
    assert "own.yaml changed since" in fails("run", yard, "-o", out)
    assert hashes(out) == before


def test_force_removes_the_files_of_the_earlier_run_alone(run: Callable[..., Any], yard: Path, tmp_path: Path) -> None:
    out, precious = tmp_path / "out", tmp_path / "precious.txt"
    run("run", yard, "-o", out)
    precious.write_text("mine")
    (out / "notes.txt").write_text("mine, too")
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["files"]["../precious.txt"] = "0" * 64  # a manifest is data that others may have written
    (out / "manifest.json").write_text(json.dumps(manifest))
    result = run(
        "run", yard, "-o", out, "--force", "--set", "name=other", "--duration", 0.05, "--set", "sensors.0.name=b"
    )
    assert result.exit_code == 0, result.output
    assert precious.read_text() == "mine"
    assert (out / "notes.txt").is_file()
    assert not (out / "flat").exists()
    assert set(hashes(out)) >= {"b/000000.pcd", "imu.csv"}


def test_check_runs_nothing(run: Callable[..., Any], yard: Path, tmp_path: Path) -> None:
    result = run("run", yard, "--check", "--duration", 0.5)
    assert result.exit_code == 0, result.output
    assert "20 frames" in result.stdout
    assert "the scenario is valid; nothing was run" in result.stdout
    assert sorted(one.name for one in yard.parent.iterdir()) == ["drive.yaml", "own.yaml", "yard.yaml"]


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (["--set", "weather.rain=3"], "weather.rain: expected {rate_mm_h: 3}, got 3", 1),
        (["--set", "weather.rain_rate_mm_h=-3"], "weather.rain_rate_mm_h", 1),
        (["--set", "sensors.top.rate_hz=3"], "sensors has: flat, imu", 1),
        (["--set", "weather.rain_rate_mm_h"], "expected PATH=VALUE", 2),
        (["--set", "seed=[1"], "--set", 1),
        (["--set", "seed=1", "--seed", 2], "give seed once", 2),
        (["--set", "seed=1,1"], "a value is given twice", 2),
        (["--set", "seed=" + ",".join(map(str, range(101)))], "use parhelion campaign", 2),
        (["--set", "seed=1,2", "--realtime"], "runs one scenario", 2),
        (["--duration", -1], "duration_s", 1),
    ],
)  # fmt: skip
def test_wrong_options(
    run: Callable[..., Any], yard: Path, tmp_path: Path, options: Any, message: str, code: int
) -> None:
    result = run("run", yard, "-o", tmp_path / "out", *options)
    assert result.exit_code == code, result.output
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert not (tmp_path / "out").exists()
