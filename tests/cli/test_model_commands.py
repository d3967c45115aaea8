"""Model files on the command line: classes of materials, `--up`, `--scale` and `--param`."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from model_rigs import one, quad


def test_classes_are_written_and_read(run, tmp_path: Path) -> None:
    model = one(tmp_path / "car.glb", quad(), "Material.3", baseColorFactor=[0.6, 0.03, 0.03, 1], metallicFactor=0.0)
    result = run("materials", "guess", model)
    assert result.exit_code == 0, result.output
    assert "car-paint-red" in result.stdout
    table = yaml.safe_load((tmp_path / "materials.yaml").read_text())
    assert table["models"]["car.glb"]["Material.3"]["class"] == "car-paint-red"
    table["models"]["car.glb"]["Material.3"]["class"] = "rubber"
    (tmp_path / "materials.yaml").write_text(yaml.safe_dump(table))
    shown = run("worlds", model)
    assert shown.exit_code == 0, shown.output
    assert "rubber" in shown.stdout
    assert "MB of triangles and images" in shown.stdout
    wrong = run("materials", "guess")
    assert wrong.exit_code == 2
    assert "guess model.glb" in wrong.stderr


def test_up_and_scale_apply_to_models(run, tmp_path: Path) -> None:
    file = tmp_path / "board.obj"
    file.write_text("v 0 0 0\nv 3000 0 0\nv 3000 2000 0\nf 1 2 3\n")
    result = run("worlds", file, "--up", "y", "--scale", 0.001)
    assert result.exit_code == 0, result.output
    assert "x 0.0 to 3.0 m, y -0.0 to -0.0 m, z 0.0 to 2.0 m" in " ".join(result.stdout.split())
    scan = run(
        "scan", "--world", file, "--up", "y", "--scale", 0.001, "--sensor", "velodyne/vlp-16", "--pose", "1,-3,1"
    )
    assert scan.exit_code == 0, scan.output


@pytest.mark.parametrize("option", ["--up=y", "--scale=0.5"])
@pytest.mark.parametrize("command", ["scan", "shoot", "measure"])
def test_they_are_refused_for_other_worlds(fails, command: str, option: str) -> None:
    sensor = ("--camera", "generic/vga") if command == "shoot" else ("--sensor", "velodyne/vlp-16")
    output = ("-o", "never.png") if command == "shoot" else ()
    message = fails(command, "--world", "warehouse", *sensor, *output, option)
    assert "applies to a model file" in message


def test_parameters_reach_the_world(fails) -> None:
    message = fails("scan", "--world", "harbour", "--sensor", "velodyne/vlp-16", "--param", "length_m=9")
    assert "length_m: must be a number from 80 to 900, got 9" in message
