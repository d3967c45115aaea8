"""Layouts written and read: the same world, consistent bitmaps, reported mistakes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layout_rigs import RULES, counts, made
from parhelion.core.errors import ConfigError
from parhelion.pictures.layout import layout_bitmap
from parhelion.world.labels import LABELS
from parhelion.world.procedural import (
    KINDS,
    Layout,
    check,
    city,
    harbour,
    layout_of,
    mobility_of,
    require_sound,
    world_digest,
    world_of,
)
from parhelion.world.procedural.footprints import footprints
from parhelion.world.procedural.relief import in_the_way
from parhelion.world.world import World


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_gives_a_list_that_is_the_same_world_again(rule: str, tmp_path: Path) -> None:
    layout = made(rule)
    assert RULES[rule](0) == layout
    assert RULES[rule](1) != layout
    assert check(layout) == []
    before = world_digest(world_of(layout))
    for ending in (".yaml", ".json"):
        file = tmp_path / f"list{ending}"
        layout.save(file)
        world = World.load(file)
        assert layout_of(world) == layout
        assert world_digest(world) == before
        assert world.path is not None
    assert {item.label for item in world.objects} <= set(LABELS)
    assert set(mobility_of(world)) == {item.instance for item in world.objects}


@pytest.mark.parametrize("rule", RULES)
def test_bitmaps_agree_with_the_list(rule: str) -> None:
    layout = made(rule)
    cell = 0.25
    image = layout_bitmap(layout, cell)
    rows, columns = np.indices(image.shape)
    x = -layout.size[0] / 2 + (columns.ravel() + 0.5) * cell
    y = layout.size[1] / 2 - (rows.ravel() + 0.5) * cell
    pick = np.random.default_rng(0).integers(0, image.size, 3000)
    pick = np.concatenate([pick, np.flatnonzero((image > 0) & (image != KINDS["basin"].code))[::17]])
    items = footprints(layout)
    items = items.rows(in_the_way(layout, items, 2.0))
    inside = items.distance(np.stack([x[pick], y[pick]], axis=1)) <= 0.0
    codes = np.array([KINDS[layout.objects[row].kind].code for row in items.row])
    last = inside.shape[1] - 1 - np.argmax(inside[:, ::-1], axis=1)
    np.testing.assert_array_equal(image.ravel()[pick], np.where(inside.any(axis=1), codes[last], 0))
    if rule == "harbour":
        water = layout_bitmap(layout, cell, content="occupancy") == 0
        # 120 x 36 m of water, less vessels, piles and the bridge's feet; land is taken.
        assert 0.75 * 120 * 36 < np.count_nonzero(water) * cell**2 < 120 * 36


def test_world_params_reach_the_rules(tmp_path: Path) -> None:
    world = World.load("city", seed=3, blocks=2, cars=4, trees=2, people=1, signs=3)
    assert layout_of(world) == city(2, cars=4, trees=2, people=1, signs=3, seed=3)
    world = World.load("harbour", seed=2, length_m=100.0, vessels=2, trees=0, people=0)
    assert layout_of(world) == harbour(100.0, vessels=2, trees=0, people=0, seed=2)
    world.save(tmp_path / "harbour.yaml")
    assert world_digest(World.load(tmp_path / "harbour.yaml")) == world_digest(world)
    with pytest.raises(ConfigError, match="unknown parameter of world 'harbour' 'vesels': did you mean 'vessels'"):
        World.load("harbour", vesels=3)
    with pytest.raises(ConfigError, match="world 'harbour': length_m: expected a number, got 'long'"):
        World.load("harbour", length_m="long")


def test_scenarios_take_the_same_parameters_and_lists(tmp_path: Path) -> None:
    from parhelion.scenario import Scenario

    harbour(100.0, 30.0, people=0, trees=0).save(tmp_path / "plan.yaml")
    sensor = {"name": "top", "type": "lidar", "model": "velodyne/vlp-16"}
    made_of = {"duration_s": 0.1, "seed": 0, "sensors": [sensor]}
    scenario = Scenario.from_mapping({**made_of, "world": {"name": "plan.yaml"}}, folder=tmp_path)
    assert layout_of(scenario.world).name == "harbour"
    entry = {"name": "city", "seed": 3, "params": {"blocks": 2, "cars": 5, "trees": 0, "people": 0}}
    scenario = Scenario.from_mapping({**made_of, "world": entry}, folder=tmp_path)
    assert counts(layout_of(scenario.world))["car"] == 5


def test_an_unsound_list_is_refused_with_its_rows(tmp_path: Path) -> None:
    car = {"kind": "car", "size": [4.6, 1.9, 1.5]}
    plan: dict[str, Any] = {
        "size": [40, 40],
        "objects": [{"kind": "ground", "size": [40, 40, 0]}, car, {**car, "name": "mine"}],
    }
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    reason = r"plan.json: objects\[1\] \(car-1\) and objects\[2\] \(mine\) interpenetrate by 1.500 m"
    with pytest.raises(ConfigError, match=reason):
        World.load(file)
    assert len({item.instance for item in World.load(file, check=False).objects}) == 3
    with pytest.raises(ConfigError, match=r"unknown parameter for .*plan.json: 'chek': did you mean 'check'\?"):
        World.load(file, chek=False)
    with pytest.raises(ConfigError, match="accepts neither seed nor materials"):
        World.load(file, seed=1)
    require_sound(Layout.from_mapping({**plan, "objects": plan["objects"][:2]}))


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"kind": "kar", "size": [1, 1, 1]}, r"objects\[0\].kind: unknown kind 'kar': did you mean 'car'\?"),
        ({"kind": "car", "size": [4, math.nan, 1]}, r"objects\[0\].size\[1\]"),
        (
            {"kind": "car", "size": [4, 2, 1], "params": {"shape": "tank"}},
            r"objects\[0\].params.shape: expected 'saloon', .*, got 'tank'",
        ),
        (
            {"kind": "car", "size": [4, 2, 1], "params": {"paint": "gold"}},
            r"objects\[0\].params.paint: expected 'car-paint-white', .*, got 'gold'",
        ),
        (
            {"kind": "vessel", "size": [9, 3, 2], "params": {"type": "ferry"}},
            r"objects\[0\].params.type: expected 'barge', .*, got 'ferry'",
        ),
        ({"kind": "bollards", "size": [9, 9, 1]}, r"objects\[0\].params.points: is required"),
        ({"kind": "piles", "size": [9, 9, 1], "params": {"points": [[0, 0, math.inf]]}}, r"points\[0\]\[2\]"),
        (
            {"kind": "streets", "size": [9, 9, 0], "params": {"blocks": 3}},
            r"params.blocks: expected a whole number from 2 to 8, a multiple of 2, got 3",
        ),
        ({"kind": "streets", "size": [9, 9, 0], "params": {"blocks": 2, "lawns": [4]}}, r"lawns must be .* 0 to 3"),
        ({"kind": "building", "size": [9, 9, 9], "params": {"seed": "abc"}}, r"params.seed: expected .*, got 'abc'"),
        ({"kind": "building", "size": [9, 9, 9], "params": {"bands": [{"bottom_m": 1}]}}, r"bands\[0\].bottom_m must"),
        ({"kind": "building", "size": [9, 9, 9], "params": {"bands": [{"window_height_m": 3}]}}, r"less than storey"),
        (
            {"kind": "footprint", "size": [9, 9, 9], "params": {"outline": [[0, 0], [1, 0]]}},
            r"params.outline: expected a list of 3 to 2000 lists",
        ),
    ],
)
def test_mistakes_in_a_list_are_named(entry: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Layout.from_mapping({"size": [100, 100], "objects": [entry]}, "plan.yaml")


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"kind": "streets", "size": [9, 9, 0]}, r"streets of 4 blocks per side have the size \[403.5, 403.5, 0\]"),
        ({"kind": "basin", "size": [5, 50, 2]}, "a basin must be at least 10 x 10 m"),
        ({"kind": "bridge", "size": [9, 126, 9]}, "must be 1.1 m over its crown_m, 7.5 m, got 9"),
        ({"kind": "bridge", "size": [9, 50, 7.5]}, "at least 2 m wide and 58 m long"),
        ({"kind": "building", "size": [9, 9, 9], "params": {"bands": [{}]}}, "that of its bands, 3.1 m, got 9"),
        ({"kind": "planted-tree", "size": [3, 3, 2]}, "clear_trunk_m must be below 0.9 of the height, 1.8 m"),
        ({"kind": "fence", "size": [9, 9, 1], "params": {"lines": [[[1, 1], [1, 1]]]}}, "lines.0. of a fence must"),
        ({"kind": "footprint", "size": [9, 9, 9], "params": {"outline": [[0, 0], [1, 1], [2, 2]]}}, "have an area"),
        ({"kind": "building", "size": [9, 9, 9], "params": {"wall": "brik"}}, "unknown material 'brik'"),
    ],
)
def test_objects_that_cannot_be_built_are_named(entry: dict[str, Any], reason: str) -> None:
    layout = Layout.from_mapping({"size": [500, 500], "objects": [entry]}, "plan.yaml")
    with pytest.raises(ConfigError, match=rf"objects\[0\] \({entry['kind']}-0\): .*{reason}"):
        world_of(layout)
