"""Visibility of candidates against plane geometry: blind discs and shadows, surfaces, space, and anchors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.evaluate.placement import Placement, json_schema, result_of
from parhelion.evaluate.placement.cells import LIFT_M, Cells, Voxels, cells_of, disc_cells
from parhelion.evaluate.placement.schema import Box, CoverageEntry
from parhelion.evaluate.placement.sights import camera_eye, lidar_eye
from parhelion.evaluate.placement.study import Answer

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "placement"
FLOOR = {"shape": {"kind": "plane", "size_m": [80, 80]}, "material": "asphalt", "label": "road"}
LIDAR = {"type": "lidar", "model": "velodyne/vlp-16", "options": {"rate_hz": 20.0}}


def box(size: list[float], xyz: list[float], label: str = "wall") -> dict[str, Any]:
    return {"shape": {"kind": "box", "size_m": size}, "material": "concrete", "label": label, "pose": {"xyz": xyz}}


def question(folder: Path, *objects: dict[str, Any], **fields: Any) -> Placement:
    """Placement in a world of a floor and some objects."""
    (folder / "yard.yaml").write_text(yaml.safe_dump({"name": "yard", "objects": [FLOOR, *objects]}))
    return Placement.from_mapping({"world": "yard.yaml", "choose": 1, **fields}, folder)


def seen_ground(answer: Answer) -> np.ndarray:
    one = answer.score.objectives[-1]
    return np.asarray(one.seen(answer.score.state_of(answer.best.chosen)[-1]))  # type: ignore[attr-defined]


# ---- blind ground ----------------------------------------------------------------------------------------------------


def test_the_blind_disc_under_a_lidar(tmp_path: Path) -> None:
    """The lowest beam, 15° down from 1.2 m, meets the ground 4.48 m away."""
    height, cell = 1.2, 0.25
    asked = question(
        tmp_path, candidates=[{**LIDAR, "name": "top", "mount": {"xyz": [0, 0, height]}}],
        vehicle={"poses": [{"xyz": [3, -2, 0], "rpy_deg": [0, 0, 37]}]},
        score={"blind": {"radius_m": 8, "cell_m": cell}},
    )  # fmt: skip
    answer = asked.solve()
    level = disc_cells(8.0, cell)
    away = np.hypot(level[:, 0], level[:, 1])
    radius = (height - LIFT_M) / np.tan(np.radians(15.0))
    clear = np.abs(away - radius) > 1e-3
    np.testing.assert_array_equal(seen_ground(answer)[clear], (away > radius)[clear])
    facts = result_of(answer)["parts"]["blind"]
    # Cells along the edge of the disc may be on either side.
    assert facts["blind_m2"] == pytest.approx(np.pi * radius**2, abs=2 * np.pi * radius * cell / 2)
    assert facts["ground_m2"] == pytest.approx(len(level) * cell**2)


def test_the_shadow_of_the_own_body(tmp_path: Path) -> None:
    """Above the centre of a box its shadow is the box from above, enlarged by h / (h - top)."""
    height, top, half = 1.6, 1.0, (1.0, 0.6)
    asked = question(
        tmp_path,
        candidates=[{"type": "lidar", "model": "ouster/os0-32", "mount": {"xyz": [0, 0, height]}}],
        vehicle={
            "poses": [{"xyz": [-4, 6, 0], "rpy_deg": [0, 0, -20]}],
            "body": [{"shape": {"kind": "box", "size_m": [2 * half[0], 2 * half[1], top]},
                      "pose": {"xyz": [0, 0, 0.5]}}],
        },
        score={"blind": {"radius_m": 6, "cell_m": 0.2}},
    )  # fmt: skip
    answer = asked.solve()
    level = disc_cells(6.0, 0.2)
    beside = np.any(np.abs(level) > half, axis=1)  # ground under the body does not count
    level = level[beside]
    factor = (height - LIFT_M) / (height - top)
    reach = np.max(np.abs(level) / (factor * np.array(half)), axis=1)
    near_beam = np.hypot(level[:, 0], level[:, 1]) / (height - LIFT_M)  # the lowest beam looks 45° down
    clear = (np.abs(reach - 1.0) > 0.01) & (np.abs(near_beam - 1.0) > 0.01)
    assert len(seen_ground(answer)) == len(level)
    np.testing.assert_array_equal(seen_ground(answer)[clear], ((reach > 1.0) & (near_beam > 1.0))[clear])


def test_floors_behind_walls_are_not_ground_of_the_vehicle(tmp_path: Path) -> None:
    """A closed room of 4 by 4 m next to the vehicle: its floor is excluded, and so is the top of a low crate."""
    walls = [
        box([0.1, 4.1, 3], [3, 0, 1.5]), box([0.1, 4.1, 3], [7, 0, 1.5]),
        box([4.1, 0.1, 3], [5, -2, 1.5]), box([4.1, 0.1, 3], [5, 2, 1.5]), box([1, 1, 0.6], [-3, 0, 0.3]),
    ]  # fmt: skip
    asked = question(
        tmp_path, *walls, candidates=[{**LIDAR, "mount": {"xyz": [0, 0, 1.5]}}], vehicle={},
        score={"blind": {"radius_m": 9, "cell_m": 0.5}},
    )  # fmt: skip
    asked.objectives()
    ground = asked.maps.ground
    in_room = (np.abs(ground[:, 0] - 5) < 2) & (np.abs(ground[:, 1]) < 2)
    on_crate = (np.abs(ground[:, 0] + 3) < 0.5) & (np.abs(ground[:, 1]) < 0.5)
    assert not in_room.any()
    assert not on_crate.any()
    behind = (ground[:, 0] > 7.1) & (np.abs(ground[:, 1]) < 2)
    assert behind.any()  # one can walk around the room


# ---- coverage --------------------------------------------------------------------------------------------------------


def room(folder: Path) -> ph.World:
    objects = [
        {"shape": {"kind": "plane", "size_m": [8, 6]}, "label": "floor", "pose": {"xyz": [0, 0, 0]}},
        {"shape": {"kind": "plane", "size_m": [8, 6]}, "label": "ceiling", "pose": {"xyz": [0, 0, 3]}},
        box([0.1, 6, 3], [-4.05, 0, 1.5]), box([0.1, 6, 3], [4.05, 0, 1.5]),
        box([8, 0.1, 3], [0, -3.05, 1.5]), box([8, 0.1, 3], [0, 3.05, 1.5]),
    ]  # fmt: skip
    (folder / "room.yaml").write_text(yaml.safe_dump({"name": "room", "objects": objects}))
    return ph.World.load(folder / "room.yaml")


def test_every_shot_in_a_closed_room_is_counted_once(tmp_path: Path) -> None:
    room(tmp_path)
    asked = Placement.from_mapping(
        {
            "world": "room.yaml", "choose": 1, "candidates": [{**LIDAR, "mount": {"xyz": [0.3, 0.4, 1.1]}}],
            "score": {"coverage": {"region": {"min": [-4, -3, 0], "max": [4, 3, 3]}, "cell_m": 0.5,
                                   "at_least": 1_000_000}},
        }, tmp_path,
    )  # fmt: skip
    one = asked.objectives()[0]
    shots = ph.Lidar("velodyne/vlp-16", rate_hz=20.0).shots()
    assert one.points.sum() == len(shots) > 10_000  # type: ignore[attr-defined]


def test_surface_cells_have_the_area_of_the_surfaces(tmp_path: Path) -> None:
    world = room(tmp_path)
    entry = CoverageEntry(region=Box(min=(-2, -2, -1), max=(3, 2, 2.5)), cell_m=0.5)
    cells = cells_of(world, entry, ph.Pose(), 0.0, seed=1)
    # The floor within the region: 5 by 4 m. Points are drawn on all triangles that touch it, at most 48 m².
    points = 16 * 20 / 0.25
    assert cells.weight.sum() == pytest.approx(20.0, abs=5 * 20 / np.sqrt(points))
    assert np.all(np.abs(cells.middle[:, 2]) < 0.5)
    again = cells_of(world, entry, ph.Pose(), 0.0, seed=1)
    np.testing.assert_array_equal(cells.weight, again.weight)
    turned = cells_of(world, entry, ph.Pose((0.5, 0, 0), rpy_deg=(0, 0, 180)), 0.0, seed=1)
    assert turned.middle[:, 0].min() >= -3.0
    assert turned.weight.sum() == pytest.approx(20.0, abs=5 * 20 / np.sqrt(points))


def test_labels_and_priorities_weigh_cells(tmp_path: Path) -> None:
    world = room(tmp_path)
    region = Box(min=(-4.2, -3.2, -0.2), max=(4.2, 3.2, 3.2))
    plain = cells_of(world, CoverageEntry(region=region, labels={"floor": 1.0}), ph.Pose(), 0.0, 1)
    double = cells_of(world, CoverageEntry(region=region, labels={"floor": 2.0, "wall": 0.0}), ph.Pose(), 0.0, 1)
    np.testing.assert_allclose(double.weight, 2.0 * plain.weight)
    right = {"min": (0, -9, -9), "max": (9, 9, 9), "weight": 3.0}
    skewed = cells_of(world, CoverageEntry(region=region, labels={"floor": 1.0}, priority=[right]), ph.Pose(), 0.0, 1)
    np.testing.assert_allclose(skewed.weight, plain.weight * np.where(plain.middle[:, 0] >= 0, 3.0, 1.0))
    with pytest.raises(ConfigError, match="has the label 'flor'"):
        cells_of(world, CoverageEntry(region=region, labels={"flor": 1.0}), ph.Pose(), 0.0, 1)


def test_rays_see_the_space_that_they_pass() -> None:
    voxels = Voxels.over(Box(min=(0, 0, 0), max=(4, 2, 1)), 0.5, aside=False)
    count = int(np.prod(voxels.shape))
    row = np.arange(count, dtype=np.int32)
    middle = voxels.middles(np.arange(count))
    cells = Cells(voxels, ph.Pose(), row, np.ones(count), middle, True)
    origin = np.array([[-1.0, 0.3, 0.2], [-1.0, 0.3, 0.2], [3.9, -1.0, 0.7], [0, 0, 5.0]])
    along = np.array([[1.0, 0, 0], [1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    length = np.array([2.2, 30.0, 2.0, 30.0])  # the first ends at x = 1.2, the third at y = 1
    seen = cells.counts(origin, along, length, np.array([True, False, True, False]))
    expected = np.zeros(count)
    in_row = (np.abs(middle[:, 1] - 0.25) < 0.1) & (np.abs(middle[:, 2] - 0.25) < 0.1)
    expected += in_row
    expected += in_row & (middle[:, 0] < 1.5)
    expected += (np.abs(middle[:, 0] - 3.75) < 0.1) & (middle[:, 1] < 1.0) & (middle[:, 2] > 0.5)
    np.testing.assert_array_equal(seen, expected)


def test_the_better_mount_is_found_where_a_pillar_hides_half(tmp_path: Path) -> None:
    """A wall ahead of the left half of the vehicle: the mount on the right sees the target, the left one does not."""
    board = box([0.1, 2, 2], [8, 0, 1], "target")
    pillar = box([0.2, 4, 3], [4, 2, 1.5])
    mounts = [{**LIDAR, "name": name, "mount": {"xyz": [0, y, 1]}} for name, y in (("left", 1.0), ("right", -1.0))]
    asked = question(
        tmp_path, pillar, board, candidates=mounts, vehicle={"poses": [{"xyz": [0, 0, 0]}]},
        score={"coverage": {"region": {"min": [7, -1.2, 0], "max": [9, 1.2, 2]}, "cell_m": 0.25,
                            "labels": {"target": 1}}},
    )  # fmt: skip
    result = result_of(asked.solve())
    assert result["chosen"] == ["right"]
    left, right = result["candidates"]
    assert left["alone"] < 0.2 * right["alone"]
    assert result["candidates"][1]["loss"] == pytest.approx(result["score"])


def test_fields_of_view() -> None:
    camera = ph.Camera("generic/vga")
    eye = camera_eye(camera)
    points = np.random.default_rng(0).normal(0.0, 3.0, (500, 3))
    np.testing.assert_array_equal(eye.in_view(points), camera.project(points)[1])
    assert len(eye.direction) * eye.points == pytest.approx(640 * 480, rel=0.05)
    assert eye.in_view(eye.direction).all()
    forward = lidar_eye(ph.Lidar("livox/mid-40"))  # looks ahead, in a cone of 38.4°
    assert forward.in_view(np.array([[1.0, 0, 0], [1.0, 0.2, 0.1]])).all()
    assert not forward.in_view(np.array([[-1.0, 0, 0], [1.0, 0.6, 0.0], [1.0, 0, 0.6]])).any()
    assert lidar_eye(ph.Lidar("velodyne/vlp-16"), range_m=12.0).far_m == 12.0


# ---- anchors ---------------------------------------------------------------------------------------------------------


def anchors(**changes: Any) -> dict[str, Any]:
    corners = [[-8, -8, 3], [8, -8, 3], [8, 8, 3], [-8, 8, 3], [0, 0, 3]]
    fields = {
        "choose": 4, "candidates": [{"type": "anchor", "name": f"a{k}", "xyz": xyz} for k, xyz in enumerate(corners)],
        "score": {"localisation": {"region": {"min": [-4, -4, 0], "max": [4, 4, 3]}, "cell_m": 1.0, "sigma_m": 0.1,
                                   "heights_m": [1.0]}},
    }  # fmt: skip
    return {**fields, **changes}


def test_the_four_corners_are_the_best_of_an_empty_hall(tmp_path: Path) -> None:
    result = result_of(question(tmp_path, **anchors()).solve())
    assert result["chosen"] == ["a0", "a1", "a2", "a3"]
    facts = result["parts"]["localisation"]
    assert facts["places"] == 64
    assert facts["share_with_position"] == 1.0
    assert facts["mean_anchors_in_sight"] == 4.0
    # At the centre of the square the dilution is 1 over the cosine of the anchors' elevation; elsewhere it is larger.
    least = 1.0 / np.cos(np.arctan2(2.0, np.hypot(8, 8)))
    assert least < facts["mean_gdop"] < 1.2 * least
    assert facts["mean_error_m"] == pytest.approx(0.1 * facts["mean_gdop"])
    assert result["score"] == pytest.approx(1.0 - facts["mean_error_m"])


def test_a_wall_hides_anchors(tmp_path: Path) -> None:
    """A wall from floor to roof along x = 0: every place sees the anchors of its own side only."""
    fields = anchors()
    fields["candidates"] = fields["candidates"][:4]
    with pytest.raises(ConfigError, match="even all candidates together give no position"):
        question(tmp_path, box([0.1, 40, 6], [0, 0, 3]), **fields).solve()
    fields["candidates"] += [{"type": "anchor", "name": "third", "xyz": [4, 0, 3]}]
    fields["choose"] = 3
    result = result_of(question(tmp_path, box([0.1, 40, 6], [0, 0, 3]), **fields).solve())
    assert sorted(result["chosen"]) == ["a1", "a2", "third"]
    # The half on the right sees all three, but at places whose line to two of them is one.
    assert 0.4 < result["parts"]["localisation"]["share_with_position"] <= 0.5
    assert result["parts"]["localisation"]["mean_anchors_in_sight"] == pytest.approx(1.5)


def test_places_in_racks_do_not_count(tmp_path: Path) -> None:
    rack = box([2, 8, 2], [1, 0, 1])
    inside = question(tmp_path, rack, **anchors())
    inside.objectives()
    assert len(inside.maps.places) == 64 - 16
    everywhere = anchors()
    everywhere["score"]["localisation"]["over_floor"] = False
    all_places = question(tmp_path, rack, **everywhere)
    all_places.objectives()
    assert len(all_places.maps.places) == 64


# ---- whole files -----------------------------------------------------------------------------------------------------


def test_the_same_file_gives_the_same_answer(tmp_path: Path) -> None:
    def run() -> dict[str, Any]:
        asked = question(
            tmp_path, box([1, 1, 2], [4, 1, 1]), seed=5, vehicle={}, choose=2,
            candidates=[{**LIDAR, "grid": {"x": [0], "y": [-0.5, 0, 0.5], "z": {"start": 1, "stop": 2, "count": 2}}}],
            score={"coverage": {"region": {"min": [3, 0, 0], "max": [5, 2, 2.2]}, "at_least": 2},
                   "blind": {"radius_m": 5, "cell_m": 0.5}},
        )  # fmt: skip
        return result_of(asked.solve())

    first, second = run(), run()
    assert first == second
    assert first["search"]["used"] == "exact"
    assert first["search"]["combinations"] == 15
    assert [row["name"] for row in first["candidates"]] == [f"lidar-0-{k}" for k in range(6)]


def test_the_vehicle_of_a_scenario_hides_ground(tmp_path: Path) -> None:
    (tmp_path / "yard.yaml").write_text(yaml.safe_dump({"name": "yard", "objects": [FLOOR]}))
    scenario = {
        "duration_s": 1, "world": "yard.yaml",
        "vehicles": [{"name": "cart", "motion": {"fixed": {"xyz": [5, 5, 0]}},
                      "body": {"shape": {"kind": "box", "size_m": [2, 1.2, 1]}, "pose": {"xyz": [0, 0, 0.5]}}}],
        "sensors": [{"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "cart"}],
    }  # fmt: skip
    (tmp_path / "drive.yaml").write_text(yaml.safe_dump(scenario))
    fields: dict[str, Any] = {
        "scenario": "drive.yaml", "vehicle": {"name": "cart"}, "choose": 1,
        "candidates": [{"type": "lidar", "model": "ouster/os0-32", "mount": {"xyz": [0, 0, 1.6]}}],
        "score": {"blind": {"radius_m": 5, "cell_m": 0.25}},
    }  # fmt: skip
    asked = Placement.from_mapping(fields, tmp_path)
    facts = result_of(asked.solve())["parts"]["blind"]
    assert facts["ground_m2"] == pytest.approx(np.pi * 25 - 2.4, rel=0.02)
    grown = (1.6 - LIFT_M) / 0.6
    shadow = (2 * grown) * (1.2 * grown) - 2.4
    assert facts["blind_m2"] == pytest.approx(shadow, abs=4 * 0.25 * grown * 1.6 / 2)
    with pytest.raises(ConfigError, match="'bus' is not a vehicle of the scenario"):
        Placement.from_mapping({**fields, "vehicle": {"name": "bus"}}, tmp_path)


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_examples_fit_the_schema_for_editors(file: Path) -> None:
    import jsonschema

    jsonschema.validate(yaml.safe_load(file.read_text(encoding="utf-8")), json_schema())
