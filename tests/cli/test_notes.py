"""Fields that are valid but probably not meant: a warning with the path of the field, and the run goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import parhelion as ph
from parhelion.core.errors import MissingDependencyError
from parhelion.scenario import Scenario, notes_on
from parhelion.sensors.sheets import PRESETS

YARD = {"objects": [{"shape": {"kind": "plane", "size_m": [60, 60]}, "material": "concrete", "label": "road"}]}


def drive(**changes: Any) -> dict[str, Any]:
    husky = {"name": "husky", "model": "clearpath/husky", "follow": {"points": [[5, 0, 0]], "speed_m_s": 0.9}}
    lidar = {
        "name": "top",
        "type": "lidar",
        "model": "velodyne/vlp-16",
        "vehicle": "husky",
        "mount": {"xyz": [0, 0, 1]},
    }
    return {"duration_s": 0.1, "world": "yard.yaml", "outputs": [], "vehicles": [husky], "sensors": [lidar], **changes}


@pytest.fixture
def yard(tmp_path: Path) -> Path:
    (tmp_path / "yard.yaml").write_text(yaml.safe_dump(YARD))
    sheet = yaml.safe_load((PRESETS / "lidar" / "hokuyo" / "utm-30lx.yaml").read_text(encoding="utf-8"))
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({**sheet, "noise": {"range_sigma_m": 0.02}}))
    return tmp_path


OUTSIDE = (
    r"vehicles\.husky\.start: \(0, -500, 0\) lies outside of the world, which extends from \(-30, -30\) to \(30, 30\)"
)


def test_what_is_meant_gives_no_notes(yard: Path) -> None:
    assert notes_on(Scenario.from_mapping(drive(), yard)) == []


def test_speeds_places_mounts_modes_and_noise_are_noted(yard: Path) -> None:
    fields = drive()
    (husky,), (lidar,) = fields["vehicles"], fields["sensors"]
    husky["follow"] = {"points": [[5, 0, 0], [80, 0, 0]], "speed_m_s": 3.0}
    husky["start"] = {"xyz": [0, -500, 0]}
    lidar["mount"] = {"xyz": [400, 0, 1]}
    lidar["options"] = {"returns": "first"}
    fields["sensors"] += [
        {"name": "post", "type": "lidar", "model": "own.yaml", "mount": {"xyz": [0, 33, 1]}},
        {"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "husky"},
    ]
    limit = ph.scenario.bodies.vehicle_sheet("clearpath/husky").max_speed_m_s  # type: ignore[attr-defined]
    with pytest.warns(UserWarning, match=OUTSIDE) as warned:
        whole = Scenario.from_mapping(fields, yard)
    assert len(warned) == 1
    found = notes_on(whole)  # the start is not noted a second time
    starts = [note.partition(": ")[0] for note in found]
    assert starts == [
        "vehicles.husky.follow.speed_m_s",
        "vehicles.husky.follow.points[1]",
        "sensors.post.mount.xyz",
        "sensors.top.mount.xyz",
        "sensors.top.options.returns",
        "sensors.post.model",
    ]
    assert f"at most {limit:g} m/s" in found[0]
    assert "(80, 0) m lies outside of the world, which extends from (-30, -30) to (30, 30) m" in found[1]
    assert "400 m away from husky" in found[3]
    assert "does not offer the return mode 'first', only strongest, last, dual" in found[4]
    assert "own.yaml does not give" in found[5]
    assert "range_sigma_m" not in found[5]
    assert "intensity_sigma" in found[5] or "and" in found[5]
    husky["dynamics"] = "kinematic"
    assert notes_on(Scenario.from_mapping(fields, yard))[1].startswith("vehicles.husky.start: (0, -500) m lies outside")


def test_the_command_prints_them(run: Callable[..., Any], yard: Path) -> None:
    fields = drive()
    fields["sensors"][0]["mount"] = {"xyz": [400, 0, 1]}
    (yard / "drive.yaml").write_text(yaml.safe_dump(fields))
    result = run("run", yard / "drive.yaml", "--check")
    assert result.exit_code == 0
    assert "sensors.top.mount.xyz: the sensor is 400 m away from husky" in result.stderr


def test_a_scan_with_a_mode_that_the_sensor_lacks(run: Callable[..., Any], tmp_path: Path) -> None:
    options = ("scan", "-w", "cuboids", "--sub-rays", 1, "-o", tmp_path / "a.pcd")
    assert (
        "does not offer the return mode 'last', only"
        in run(*options, "-s", "hokuyo/utm-30lx", "--returns", "last").stderr
    )
    assert "warning" not in run(*options, "-s", "velodyne/vlp-16", "--returns", "last").stderr


def test_labels_of_semantickitti_come_with_their_points(run: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ("scan", "-w", "cuboids", "-s", "velodyne/vlp-16", "--sub-rays", 1, "--format", "semantickitti")
    assert run(*options, "-o", out, "--scans", 2).exit_code == 0
    names = sorted(str(file.relative_to(out)) for file in out.rglob("*") if file.is_file())
    assert names == ["labels/000000.label", "labels/000001.label", "velodyne/000000.bin", "velodyne/000001.bin"]
    cloud = ph.PointCloud.load(out / "labels" / "000001.label")
    assert len(cloud) * 16 == (out / "velodyne" / "000001.bin").stat().st_size
    assert run("convert", out / "velodyne" / "000000.bin", tmp_path / "one.label").exit_code == 0
    assert (tmp_path / "one.bin").read_bytes() == (out / "velodyne" / "000000.bin").read_bytes()


def test_a_missing_llvm_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess

    code = "import parhelion as ph; from parhelion.rays.device import engine; engine()"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**__import__("os").environ,
        "DRJIT_LIBLLVM_PATH": "/no/libLLVM.so", "PARHELION_DEVICE": "cpu"},
    )  # fmt: skip
    assert MissingDependencyError.__name__ in result.stderr
    assert "DRJIT_LIBLLVM_PATH: /no/libLLVM.so does not exist" in result.stderr


def test_doctor_lists_no_tools_of_developers(run: Callable[..., Any]) -> None:
    words = run("doctor").stdout.split("optional packages")[1].split()
    assert "pandas" in words
    assert words.count("torch") == 1
    assert not {"pytest", "ruff", "mypy", "hypothesis", "playwright", "mkdocs", "nuscenes-devkit"} & set(words)


def test_the_picture_of_a_sheet(run: Callable[..., Any], fails: Callable[..., str], tmp_path: Path) -> None:
    from PIL import Image

    picture = tmp_path / "sheet.png"
    result = run("sensors", "velodyne/vlp-16", "--png", picture)
    assert result.exit_code == 0, result.output
    with Image.open(picture) as found:
        assert min(found.size) > 800
        assert len(set(found.resize((64, 48)).getdata())) > 100  # not an empty sheet
    assert "must end in" in fails("sensors", "velodyne/vlp-16", "--png", tmp_path / "sheet.doc")
