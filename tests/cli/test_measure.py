"""`parhelion measure`: one command for every kind of sensor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import parhelion as ph


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world file with a wall to see and anchors to range to."""
    world = ph.World("yard")
    world.add(ph.shapes.plane(50, 50), material="concrete", label="road")
    world.add(ph.shapes.box(2, 4, 3), material="brick", label="wall", pose=ph.Pose((8.0, 0.0, 1.5)))
    for k, (x, y) in enumerate([(9, 9), (9, -9), (-9, 9), (-9, -9)]):
        world.add(ph.shapes.box(0.1, 0.1, 0.1), material="plastic", name=f"anchor-{k}", pose=ph.Pose((x, y, 3.0 + k)))
    file = tmp_path_factory.mktemp("worlds") / "yard.yaml"
    world.save(file)
    return file


@pytest.mark.parametrize("kind", list(ph.sensors()))
def test_every_kind_has_a_file_and_a_picture(kind: str, yard: Path, run: Callable[..., Any], tmp_path: Path) -> None:
    model = ph.presets(kind)[0]
    file, picture = tmp_path / "record.npz", tmp_path / "record.png"
    result = run("measure", "-w", yard, "-s", model, "--pose", "0,0,2", "--seed", 7, "-o", file, "--png", picture)
    assert result.exit_code == 0, result.output
    assert model in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    record = ph.Record.load(file)
    sensor, world, place = ph.sensor(kind, model), ph.World.load(yard), ph.Pose((0.0, 0.0, 2.0))
    again = sensor.run(world, place, 0.0, 10.0, 7) if hasattr(sensor, "run") else sensor.measure(world, place, seed=7)
    assert record.equals(again)


def test_frames_in_a_row_are_numbered_files_and_samples_a_table(
    yard: Path, run: Callable[..., Any], tmp_path: Path
) -> None:
    folder = tmp_path / "frames"
    assert run("measure", "-w", yard, "-s", "ti/iwr6843", "--frames", 3, "-o", folder).exit_code == 0
    assert [file.name for file in sorted(folder.iterdir())] == ["000000.pcd", "000001.pcd", "000002.pcd"]
    table = tmp_path / "imu.csv"
    result = run("measure", "-w", yard, "-s", "bosch/bmi160", "--duration", 0.5, "--rate", 100, "-o", table)
    assert result.exit_code == 0, result.output
    assert len(ph.ImuData.load(table)) == 50


def test_a_path_with_corners_is_smooth_to_an_inertial_sensor(run: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "imu.npz"
    assert run("measure", "-w", "cuboids", "-s", "bosch/bmi160", "-o", file).exit_code == 0
    still = ph.ImuData.load(file)
    assert (
        run("measure", "-w", "warehouse", "-s", "bosch/bmi160", "--no-noise", "--duration", 60, "-o", file).exit_code
        == 0
    )
    force = np.abs(ph.ImuData.load(file).specific_force[:, :2])
    assert len(still) == 2000
    assert 0.5 < force.max() < 5.0


def test_options_of_the_kind_are_those_of_its_class(
    yard: Path, run: Callable[..., Any], fails: Callable[..., str], tmp_path: Path
) -> None:
    file = tmp_path / "fixes.npz"
    arguments = ("measure", "-w", yard, "-s", "u-blox/m8", "--pose", "0,0,9", "--duration", 1, "-o", file)
    assert run(*arguments, "--set", "latitude_deg=48.5", "--set", "longitude_deg=11").exit_code == 0
    assert ph.GnssData.load(file).latitude[0] == pytest.approx(48.5, abs=1e-3)
    message = fails(*arguments, "--set", "latitude=1")
    assert "option of the kind 'gnss' 'latitude': did you mean 'latitude_deg'" in message


def test_own_data_sheets_are_recognised_by_their_fields(yard: Path, run: Callable[..., Any], tmp_path: Path) -> None:
    sheet = ph.Imu("bosch/bmi160").config.model_dump(mode="json", exclude_defaults=True)
    own = tmp_path / "mine.yaml"
    own.write_text(yaml.safe_dump({**sheet, "name": "mine"}), encoding="utf-8")
    result = run("measure", "-w", yard, "-s", own, "--pose", "0,0,1", "--duration", 0.1)
    assert result.exit_code == 0, result.output
    assert "inertial" in result.stdout


def test_a_sensor_of_another_kind_is_named_as_such(yard: Path, fails: Callable[..., str]) -> None:
    message = fails("scan", "-w", yard, "-s", "ti/iwr6843")
    assert "'ti/iwr6843' is a sensor of the kind 'radar', not 'lidar'" in message
    assert "parhelion measure" in message
    assert "did you mean 'velodyne/vlp-16'" in fails("measure", "-w", yard, "-s", "velodyne/vlp16")


def test_wrong_arguments_are_refused_before_any_work(yard: Path, run: Callable[..., Any], tmp_path: Path) -> None:
    start = ("measure", "-w", yard, "-s")
    assert "produces samples" in run(*start, "bosch/bmi160", "--frames", 2).stderr
    assert "produces frames" in run(*start, "ti/iwr6843", "--duration", 2).stderr
    assert "unknown file extension" in run(*start, "bosch/bmi160", "-o", tmp_path / "imu.pcd").stderr
    assert "NAME=VALUE" in run(*start, "bosch/bmi160", "--set", "unit").stderr
    assert not list(tmp_path.iterdir())
