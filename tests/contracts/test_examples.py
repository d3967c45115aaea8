"""The scenarios in `examples/`, each run for a short time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import parhelion as ph
from parhelion.core.trajectory import pose_at
from parhelion.motion.actors import mobility_of
from parhelion.scenario import Scenario, json_schema

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = sorted(file.stem for file in EXAMPLES.glob("*.yaml"))
SEEN = {
    "warehouse": {"person", "forklift", "floor", "shelf", "pallet", "door"},
    "city": {"car", "person", "road", "building"},
    "city-loop": {"car", "road", "building"},
    "harbour": {"vessel", "quay", "bridge", "person"},
    "westhafen": {"quay", "building", "vegetation"},
    "lake-survey": {"water", "terrain"},
}
"""Labels that the first scan of each example must contain, possibly among others."""


def content(name: str) -> dict[str, Any]:
    fields: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8"))
    return fields


def test_the_examples_are_those_that_are_checked() -> None:
    assert set(NAMES) == set(SEEN)


@pytest.mark.parametrize("name", SEEN)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    scenario = Scenario.from_mapping({**content(name), "duration_s": 0.1, "outputs": []}, EXAMPLES)
    summary = scenario.run(tmp_path)
    lidar = scenario.frame_sensors[0].name
    assert summary.scans == 1
    cloud = ph.PointCloud.load(tmp_path / lidar / "000000.pcd")
    labels = {cloud.names["label"][int(number)] for number in np.unique(cloud.label) if number}
    assert labels >= SEEN[name]
    assert any((tmp_path / f"{lidar}-boxes").iterdir())
    # The lidar has a free view: except for rain, few points are closer than the size of its vehicle.
    assert np.mean(np.linalg.norm(cloud.xyz[cloud.origin == 0], axis=1) < 0.6) < 0.01


@pytest.mark.parametrize("name", SEEN)
def test_an_example_fits_the_schema_for_editors(name: str) -> None:
    import jsonschema

    jsonschema.validate(content(name), json_schema())


def test_the_husky_of_the_warehouse_stands_on_its_wheels() -> None:
    """The lidar pose follows from post and wheels; wheels touch the ground and rotate at the robot's speed."""
    scenario = Scenario.from_mapping({**content("warehouse"), "duration_s": 0.1}, EXAMPLES)
    lidar = scenario.frame_sensors[0]
    np.testing.assert_allclose(lidar.mount.xyz, [0.08, 0, 0.13228 + 0.241 + 0.30 + 0.0377], atol=1e-9)
    wheel = next(item for item in scenario.world.objects if item.name == "husky/front_left_wheel")
    assert wheel.bounds(0.0)[0][2] == pytest.approx(0.0, abs=1e-4)
    assert mobility_of(scenario.world, wheel.instance) == "dynamic"
    assert wheel.trajectory is not None
    turned = pose_at(wheel.trajectory, 0.0).rotation.T @ pose_at(wheel.trajectory, 0.1).rotation
    angle = np.arccos(0.5 * (np.trace(turned) - 1.0))
    assert angle * 0.1651 == pytest.approx(0.09, abs=1e-3)  # 0.9 m/s for 0.1 s
    hull = next(item for item in scenario.world.objects if item.name == "husky/base_link")
    low, high = hull.bounds(0.0)
    assert np.all(high - low <= [0.99 + 1e-6, 0.67, 0.75])
