"""Layouts: lists written by hand, reports of the checks on broken ones, and occupancy bitmaps."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from layout_rigs import layout, layout_object
from parhelion.core.errors import ConfigError
from parhelion.pictures.layout import layout_bitmap, palette, save_layout_bitmap
from parhelion.world.procedural import (
    KINDS,
    Layout,
    LayoutObject,
    LayoutPose,
    Passage,
    PlannedDrive,
    check,
    forest,
    warehouse,
    world_of,
)
from parhelion.world.procedural.checks import overlaps
from parhelion.world.procedural.footprints import footprints

# ---- reading and writing -----------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3),
    st.floats(-360.0, 360.0),
    st.lists(st.floats(1e-9, 1e3), min_size=3, max_size=3),
    st.sampled_from(["static", "movable", "dynamic"]),
)
def test_numbers_survive_both_formats_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory, xyz: list[float], yaw: float, size: list[float], mobility: Any
) -> None:
    item = LayoutObject(
        kind="box", pose=LayoutPose(xyz=tuple(xyz), yaw_deg=yaw), size=tuple(size), label="crate ä", mobility=mobility
    )
    made = layout(
        item, ways=(Passage(name="w", points=((xyz[0], yaw), (1e-7, 2.0))),), viewpoint=LayoutPose(xyz=(0, 0, 2))
    )
    folder = tmp_path_factory.mktemp("layouts")
    for name in ("a.yaml", "a.json"):
        made.save(folder / name)
        assert Layout.load(folder / name) == made


def test_a_list_written_by_hand_becomes_a_world(tmp_path: Path) -> None:
    file = tmp_path / "hand.json"
    content = {
        "size": [10, 8],
        "objects": [
            {"kind": "ground", "size": [10, 8, 0]},
            {"kind": "rack", "pose": {"xyz": [0, 2, 0]}, "size": [5.7, 1.2, 4], "params": {"levels": 3, "fill": 1}},
            {"kind": "box", "pose": {"xyz": [2, -2, 0], "yaw_deg": 30}, "size": [1, 1, 1], "mobility": "dynamic"},
        ],
    }
    file.write_text(json.dumps(content))
    made = Layout.load(file)
    assert [item.mobility for item in made.objects] == ["static", "static", "dynamic"]
    assert [item.label for item in made.objects] == ["floor", "shelf", "other-object"]
    assert check(made) == []
    world = world_of(made)
    assert world.layout == made
    assert {item.name.split("/")[0] for item in world.objects} == {"ground-0", "rack-1", "box-2"}


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"kind": "rak", "size": [1, 1, 1]}, r"objects\[0\].kind: unknown kind 'rak': did you mean 'rack'\?"),
        (
            {"kind": "box", "size": [1, 0, 1]},
            r"objects\[0\].size\[1\]: expected a number above 0 and up to 1000, got 0",
        ),
        ({"kind": "box", "size": [1, 1, 0]}, r"the height of a box must be above 0 m"),
        ({"kind": "box", "size": [1, 1, math.nan]}, r"objects\[0\].size\[2\]"),
        ({"kind": "box", "size": [1, 1, 1], "pose": {"xyz": [0, math.nan, 0]}}, r"objects\[0\].pose.xyz\[1\]"),
        (
            {"kind": "rack", "size": [1, 1, 1], "params": {"fill": 2}},
            r"objects\[0\].params.fill: expected a number from 0 to 1, got 2",
        ),
        ({"kind": "rack", "size": [1, 1, 1], "params": {"fil": 1}}, r"fil: unknown field; did you mean 'fill'\?"),
        ({"kind": "rack", "size": [1, 1, 1], "params": 3}, r"objects\[0\].params: expected \{levels: 3\}, got 3"),
        ({"kind": "box", "size": [1, 1, 1], "mobility": "slow"}, r"objects\[0\].mobility: .*'static'"),
        ({"kind": "box", "size": [1, 1, 1], "colour": 1}, r"objects\[0\].colour: unknown field"),
        ({"kind": "terrain", "size": [9, 9, 0], "params": {"heights_m": [[1, 2], [3]]}}, r"heights_m must be at least"),
        ({"kind": "terrain", "size": [9, 9, 0], "params": {"track": [[1, 2]]}}, r"track must have at least 2 points"),
    ],
)
def test_mistakes_in_a_list_are_named(entry: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Layout.from_mapping({"size": [10, 10], "objects": [entry]}, "plan.yaml")


def test_files_that_are_not_layouts_are_reported(tmp_path: Path) -> None:
    (tmp_path / "half.json").write_text('{"size": [1,')
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "list.json").write_text("[1]")
    for name, says in (
        ("half.json", "half.json: line 1, column"),
        ("deep.json", "deep.json: is not valid JSON text"),
        ("list.json", r"expected a mapping of fields, got \[1\]"),
        ("none.json", "none.json: no such file"),
        ("plan.txt", "the name of a layout file must end in .yaml or .json"),
    ):
        with pytest.raises(ConfigError, match=says):
            Layout.load(tmp_path / name)
    with pytest.raises(ConfigError, match=r"objects\[0\] \(box-0\): unknown material 'woood'"):
        world_of(layout(layout_object("box", params={"material": "woood"})))
    with pytest.raises(ConfigError, match=r"drive\.points must not all be the same"):
        world_of(layout(drive=PlannedDrive(points=((0.0, 0.0), (0.0, 0.0)))))


# ---- checks ------------------------------------------------------------------------------------------------------


def test_overlaps_are_reported_with_their_depth() -> None:
    assert check(layout(layout_object("box", 0.0), layout_object("box", 1.0))) == []  # they touch
    assert check(layout(layout_object("box", 0.0), layout_object("box", 0.9))) == [
        "box-0 and box-1 interpenetrate by 0.100 m"
    ]
    assert check(layout(layout_object("box", 0.0), layout_object("box", 0.9, z=1.0))) == []  # one upon the other
    # Turned by 45 degrees a unit square reaches 0.7071 m: 1.2 m apart is too near, 1.21 m is not.
    assert overlaps(layout(layout_object("box"), layout_object("box", 1.2, yaw=45.0))) == [
        "box-0 and box-1 interpenetrate by 0.007 m"
    ]
    assert overlaps(layout(layout_object("box"), layout_object("box", 1.21, yaw=45.0))) == []
    # Bounding boxes overlap here, the squares themselves do not: only a separating axis shows it.
    assert overlaps(layout(layout_object("box", yaw=45.0), layout_object("box", 0.9, 0.9, yaw=45.0))) == []
    round_post = {"round": True}
    posts = [layout_object("pillar", x, y, params=round_post) for x, y in ((0.0, 0.0), (0.75, 0.75))]
    assert overlaps(layout(*posts)) == []  # 1.06 m apart, radii 0.5 m each
    assert overlaps(layout(posts[0], layout_object("box", 0.9, 0.0))) == [
        "pillar-0 and box-1 interpenetrate by 0.100 m"
    ]
    assert overlaps(layout(posts[0], layout_object("box", 0.86, 0.86))) == []  # the disc passes the corner: 0.51 m away


def test_trees_are_checked_by_their_trunks() -> None:
    def oak(x: float) -> LayoutObject:
        return layout_object("tree", x, size=(5.0, 5.0, 9.0), params={"trunk_radius_m": 0.2})

    assert check(layout(oak(0.0), oak(0.41))) == []
    assert check(layout(oak(0.0), oak(0.35))) == ["tree-0 and tree-1 interpenetrate by 0.050 m"]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_overlap_of_turned_boxes_agrees_with_sampling(seed: int) -> None:
    rng = np.random.default_rng(seed)
    boxes = [
        layout_object("box", *rng.uniform(-1.5, 1.5, 2), (*rng.uniform(0.3, 2.0, 2), 1.0), yaw=rng.uniform(0, 360))
        for _ in range(2)
    ]
    both = footprints(layout(*boxes))
    points = rng.uniform(-3.0, 3.0, (20000, 2))
    shared = np.all(both.distance(points) < 0.0, axis=1).any()
    found = overlaps(layout(*boxes))
    if shared:
        assert found
    elif found:  # a sliver that the samples missed
        assert float(found[0].split()[-2]) < 0.15


def test_leaving_the_plan_or_the_ground_is_reported() -> None:
    assert check(layout(layout_object("box", 9.5))) == []
    assert check(layout(layout_object("box", 9.7))) == ["box-0 reaches 0.200 m beyond the plan of 20 x 20 m"]
    assert check(layout(layout_object("rack", z=0.5))) == ["rack-0 is 0.500 m over the ground"]
    assert check(layout(layout_object("rock", z=-2.0))) == ["rock-0 is 2.000 m under the ground"]
    assert check(layout(layout_object("marker", z=2.0))) == []
    far = layout(drive=PlannedDrive(points=((0.0, 0.0), (0.0, 12.0))), viewpoint=LayoutPose(xyz=(-10.5, 0.0, 1.0)))
    assert check(far) == [
        "the drive leaves the plan of 20 x 20 m by 2.000 m",
        "the viewpoint leaves the plan of 20 x 20 m by 0.500 m",
    ]


def test_a_blocked_route_is_reported_and_a_path_around_is_found() -> None:
    way = Passage(name="aisle", points=((-8.0, 0.0), (8.0, 0.0)), width_m=3.0)
    walls = [layout_object("wall", y=y, size=(16.0, 0.2, 3.0)) for y in (-1.6, 1.6)]

    def sentences(*objects: LayoutObject, **robot: float) -> list[str]:
        return check(layout(*walls, *objects, ways=(way,)), **robot)

    assert sentences() == []
    blocked = ["way 'aisle' is blocked for a robot 0.8 m wide: box-2 stands at (0.00, 0.00)"]
    assert sentences(layout_object("box", size=(1.0, 2.0, 1.0))) == blocked  # 0.5 m remain on both sides
    assert sentences(layout_object("box", y=-0.6, size=(1.0, 1.6, 1.0))) == []  # 1.3 m remain on one
    assert sentences(layout_object("box", y=-0.6, size=(1.0, 1.6, 1.0)), robot_width_m=1.5) != []
    # Two boxes leave 1 m each, on opposite sides and half a metre apart: no robot of 0.8 m gets through between.
    chicane = [layout_object("box", x, y, (1.0, 2.0, 1.0)) for x, y in ((-0.75, -0.5), (0.75, 0.5))]
    assert len(sentences(*chicane)) == 1
    assert sentences(*chicane, robot_width_m=0.4) == []
    assert sentences(layout_object("wall", size=(1.0, 3.0, 1.0), z=2.2)) == []  # high enough to pass under
    raised, shut = (
        layout_object("door", size=(3.0, 0.1, 3.0), yaw=90.0, params={"open": share}) for share in (0.8, 0.2)
    )
    assert sentences(raised) == []
    assert len(sentences(shut)) == 1


def test_a_warehouse_with_a_blocked_aisle_is_reported() -> None:
    made = warehouse(seed=4)
    y = next(way for way in made.ways if way.name == "aisle-0").points[0][1]
    obstacle = layout_object("box", -10.0, y, (1.0, 2.9, 1.0), name="forgotten")
    found = check(made.model_copy(update={"objects": (*made.objects, obstacle)}))
    assert len(found) == 2
    assert found[0] == f"way 'aisle-0' is blocked for a robot 0.8 m wide: forgotten stands at (-10.00, {y:.2f})"
    assert found[1].startswith("the drive passes forgotten at (-10.00")
    assert check(made, robot_width_m=1.9) == []
    assert not any("aisle" in sentence for sentence in check(made, robot_width_m=2.9))
    assert any(sentence.startswith("the drive") for sentence in check(made, robot_width_m=3.2))


def test_the_robot_must_have_a_size() -> None:
    with pytest.raises(ConfigError, match="robot_width_m must be a positive number, got nan"):
        check(layout(), robot_width_m=math.nan)


# ---- bitmaps -----------------------------------------------------------------------------------------------------


def test_pixels_lie_where_the_plan_says() -> None:
    made = Layout(size=(10.0, 6.0), objects=(layout_object("box", -4.5, 2.5, (1.0, 1.0, 1.0)),))
    image = layout_bitmap(made, 0.5)
    assert image.shape == (12, 20)
    assert image.dtype == np.uint8
    expected = np.zeros((12, 20), np.uint8)
    expected[:2, :2] = KINDS["box"].code  # least x at the left, greatest y at the top
    np.testing.assert_array_equal(image, expected)
    np.testing.assert_array_equal(layout_bitmap(made, 0.5, content="occupancy"), expected > 0)


@pytest.mark.parametrize("resolution", [0.02, 0.05])
def test_areas_are_those_of_the_footprints(resolution: float) -> None:
    objects = (
        layout_object("rack", -2.0, 2.0, (4.0, 1.2, 3.0), yaw=30.0),
        layout_object("pillar", 3.0, 2.0, (1.0, 1.0, 3.0), params={"round": True}),
        layout_object("tree", -3.0, -2.0, (5.0, 5.0, 8.0), params={"trunk_radius_m": 0.4}),
        layout_object("ground", 0.0, 0.0, (10.0, 8.0, 0.0)),
        layout_object("roof", 0.0, 0.0, (10.0, 8.0, 0.1), z=5.0),
    )
    image = layout_bitmap(Layout(size=(10.0, 8.0), objects=objects), resolution)
    areas = {"rack": 4.8, "pillar": math.pi * 0.25, "tree": math.pi * 0.16}
    assert set(np.unique(image)) == {0, *(KINDS[kind].code for kind in areas)}
    for kind, area in areas.items():
        counted = np.count_nonzero(image == KINDS[kind].code) * resolution**2
        # Pixels on the outline are in or out by their middles: half a pixel's width along it at most.
        assert counted == pytest.approx(area, abs=0.5 * resolution * 11.0), kind


@pytest.mark.parametrize("made", [warehouse(seed=6), forest((30.0, 30.0), seed=6)], ids=["warehouse", "forest"])
def test_every_pixel_agrees_with_the_list(made: Layout) -> None:
    image = layout_bitmap(made, 0.1, up_to_m=100.0)
    rows, columns = np.indices(image.shape)
    x, y = -made.size[0] / 2 + (columns + 0.5) * 0.1, made.size[1] / 2 - (rows + 0.5) * 0.1
    pick = np.random.default_rng(0).integers(0, image.size, 20000)
    pick = np.concatenate([pick, np.flatnonzero(image)[::7]])
    items = footprints(made)
    inside = items.distance(np.stack([x.ravel()[pick], y.ravel()[pick]], axis=1)) <= 0.0
    codes = np.array([KINDS[made.objects[row].kind].code for row in items.row])
    value = image.ravel()[pick]
    np.testing.assert_array_equal(value > 0, inside.any(axis=1))
    taken = value > 0
    last = inside.shape[1] - 1 - np.argmax(inside[:, ::-1], axis=1)
    np.testing.assert_array_equal(value[taken], codes[last[taken]])


def test_what_is_higher_than_asked_is_left_out() -> None:
    made = Layout(
        size=(4.0, 4.0),
        objects=(
            layout_object("anchor", 1.0, 1.0, (0.5, 0.5, 0.2), z=3.0),
            layout_object("door", -1.0, 0.0, (2.0, 0.4, 3.0), yaw=90.0, params={"open": 0.8}),
        ),
    )
    assert not layout_bitmap(made).any()
    assert set(np.unique(layout_bitmap(made, up_to_m=2.5))) == {0, KINDS["door"].code}
    assert set(np.unique(layout_bitmap(made, up_to_m=4.0))) == {0, KINDS["door"].code, KINDS["anchor"].code}


def test_the_png_holds_the_same_numbers(tmp_path: Path) -> None:
    made = warehouse(seed=1)
    for content in ("classes", "occupancy"):
        file = tmp_path / f"{content}.png"
        save_layout_bitmap(made, file, 0.1, content=content)
        with Image.open(file) as picture:
            assert picture.mode == "P"
            np.testing.assert_array_equal(np.asarray(picture), layout_bitmap(made, 0.1, content=content))
            colour = np.asarray(picture.convert("RGB"))
        np.testing.assert_array_equal(colour, palette(content)[layout_bitmap(made, 0.1, content=content)])
    codes = [kind.code for kind in KINDS.values()]
    assert len(set(codes)) == len(codes)
    assert 0 not in codes
    assert len(np.unique(palette()[[0, *codes]], axis=0)) == len(codes) + 1


def test_sides_that_are_no_whole_pixels_are_covered() -> None:
    assert layout_bitmap(Layout(size=(1.0, 0.7)), 0.3).shape == (3, 4)
    assert layout_bitmap(Layout(size=(25.0, 0.7)), 0.1).shape == (7, 250)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"resolution_m": 0.0}, "resolution_m must be a positive number, got 0.0"),
        ({"resolution_m": math.nan}, "resolution_m must be a positive number, got nan"),
        ({"resolution_m": "fine"}, "resolution_m must be a positive number, got 'fine'"),
        ({"resolution_m": 1e-4}, "gives 100000 x 100000 pixels"),
        ({"content": "heights"}, "content must be 'classes' or 'occupancy', got 'heights'"),
        ({"up_to_m": math.nan}, "up_to_m must be a positive number, got nan"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        layout_bitmap(Layout(size=(10.0, 10.0)), **options)


def test_a_bitmap_is_a_png(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must end in .png"):
        save_layout_bitmap(Layout(size=(1.0, 1.0)), tmp_path / "plan.jpg")
