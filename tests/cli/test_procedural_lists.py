"""`parhelion worlds` with parameters, layouts and plans."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

from parhelion.pictures.layout import layout_bitmap
from parhelion.world.procedural import Layout, city, harbour

SMALL = ("worlds", "city", "--seed", 3, "--param", "blocks=2", "--param", "cars=4", "--param", "trees=0")


def test_a_list_and_a_plan_are_written(run, tmp_path: Path) -> None:
    files = tmp_path / "list.yaml", tmp_path / "plan.png"
    result = run(*SMALL, "--list", files[0], "--plan", files[1], "--resolution", 0.5)
    assert result.exit_code == 0, result.output
    layout = city(2, cars=4, trees=0, seed=3)
    assert Layout.load(files[0]) == layout
    with Image.open(files[1]) as picture:
        np.testing.assert_array_equal(np.asarray(picture), layout_bitmap(layout, 0.5))
    assert f"{len(layout.objects)} objects" in result.stdout
    shown = run("worlds", files[0])
    assert shown.exit_code == 0, shown.output
    checked = run("worlds", files[0], "--check")
    assert checked.exit_code == 0
    assert "no problems" in checked.stdout


def test_what_is_wrong_with_a_list_is_printed(run, fails, tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    layout = harbour(100.0, 30.0, people=0, trees=0, vessels=1)
    plan = layout.to_mapping()
    plan["objects"].append({**next(row for row in plan["objects"] if row["kind"] == "vessel"), "name": "second"})
    file.write_text(json.dumps(plan))
    result = run("worlds", file, "--check")
    assert result.exit_code == 1
    assert "second interpenetrate by" in result.stdout.replace("\n", " ")
    assert "objects[" in fails("worlds", file)
    assert "interpenetrate" in fails("scan", "--world", file, "--sensor", "velodyne/vlp-16")
    plan["objects"][-1]["kind"] = "vesel"
    file.write_text(json.dumps(plan))
    assert "unknown kind 'vesel': did you mean 'vessel'?" in fails("worlds", file, "--check")


def test_wrong_options_are_reported_in_one_line(run, fails, tmp_path: Path) -> None:
    assert "length_m: must be a number from 80 to 900, got 9" in fails("worlds", "harbour", "--param", "length_m=9")
    assert "did you mean 'vessels'?" in fails("worlds", "harbour", "--param", "vesels=9")
    assert "not built from a layout" in fails("worlds", "cuboids", "--list", tmp_path / "list.yaml")
    assert "must end in .yaml or .json" in fails("worlds", "warehouse", "--list", tmp_path / "list.txt")
    assert run("worlds", "city", "--param", "blocks").exit_code == 2
    assert run("worlds", "--seed", 3).exit_code == 2
