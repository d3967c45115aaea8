"""Built-in worlds: counts, determinism, clean triangles, positions of objects, paths without collisions."""

from __future__ import annotations

import hashlib
import inspect
import time
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from parhelion.core.errors import ConfigError
from parhelion.surfaces import library
from parhelion.world import builtin
from parhelion.world.builtin import boards as board_range
from parhelion.world.builtin import published
from parhelion.world.labels import LABELS
from parhelion.world.world import World

NAMES = tuple(builtin.BUILTIN)
SEEDED = ("city", "harbour", "mixed-objects", "cuboids")
FLAT = {"road", "sidewalk", "terrain", "lane-marking", "ground", "water", "quay", "floor", "ladder", "rail"}


@cache
def world_of(name: str, seed: int = 0) -> World:
    return builtin.build(name, seed=seed)


def digest(world: World) -> str:
    total = hashlib.blake2b(digest_size=16)
    for item in world.objects:
        total.update(f"{item.name}|{item.label}|{item.instance}|{item.pose!r}".encode())
        for part in item.parts:
            total.update(part.material.name.encode())
            total.update(part.placed.tobytes())
            total.update(part.mesh.faces.tobytes())
    return total.hexdigest()


def triangles_of(world: World):
    return np.concatenate([part.placed[part.mesh.faces] for item in world.objects for part in item.parts])


def distance_to(triangles, point):
    """Distances of a point from triangles (n, 3, 3)."""
    from trimesh.triangles import closest_point

    near = closest_point(triangles, np.tile(point, (len(triangles), 1)))
    return np.linalg.norm(near - point, axis=1)


def instance_boxes(world: World, labels: set[str], below: float):
    """Bounds (n, 2, 3) of each instance's vertices under a height, and names; by instance, of the labels given."""
    found: dict[int, tuple[np.ndarray, np.ndarray, str]] = {}
    for item in world.objects:
        if item.label not in labels:
            continue
        vertices = np.concatenate([part.placed[np.unique(part.mesh.faces)] for part in item.parts])
        vertices = vertices[vertices[:, 2] < below]
        if len(vertices) == 0:
            continue
        low, high = vertices.min(axis=0), vertices.max(axis=0)
        if item.instance in found:
            before = found[item.instance]
            low, high = np.minimum(low, before[0]), np.maximum(high, before[1])
        found[item.instance] = (low, high, item.name.split("/")[0])
    return np.array([[low, high] for low, high, _ in found.values()]), [name for *_, name in found.values()]


def overlaps(boxes, names):
    low, high = boxes[:, 0], boxes[:, 1]
    both = np.all((low[:, None] < high[None]) & (high[:, None] > low[None]), axis=-1)
    return [(names[a], names[b]) for a, b in zip(*np.nonzero(np.triu(both, 1)), strict=True)]


# ---- the table ---------------------------------------------------------------------------------------------------


def test_every_entry_has_a_module_with_the_stated_parameters():
    for name, entry in builtin.BUILTIN.items():
        assert entry.name == name
        assert entry.description
        own = set(entry.params) - ({"patterns"} if entry.patterned else set())
        assert set(inspect.signature(entry.builder).parameters) == {"seed", *own}


def test_unknown_names_and_parameters_are_answered_with_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown world 'citty': did you mean 'city'\?"):
        builtin.build("citty")
    with pytest.raises(ConfigError, match=r"unknown parameter of world 'city' 'block': did you mean 'blocks'\?"):
        builtin.build("city", block=2)


@pytest.mark.parametrize(
    ("name", "params", "says"),
    [
        ("city", {"blocks": 3}, "blocks must be 2, 4, 6 or 8"),
        ("city", {"cars": -1}, "cars: must be a whole number"),
        ("harbour", {"ripple_height": 1.0}, "ripple_height must be from 0 to 0.2 m"),
        ("harbour", {"people": 61}, "people: must be a whole number from 0 to 60"),
        ("cuboids", {"obstacles": 0}, "obstacles: must be a whole number from 1 to 24"),
        ("cylinders", {"segments": 3}, "segments: must be a whole number from 16"),
        ("test-range", {"distances": [0.5]}, "distances must be numbers from 1.5"),
        ("test-range", {"distances": [5, 5]}, "distances must not repeat"),
        (
            "test-range",
            {"reflectances_percent": [12.5]},
            r"reflectances_percent\[0\]: expected a whole number, got 12.5",
        ),
        ("test-range", {"board_size": 8.0}, "use fewer or smaller boards"),
    ],
)
def test_parameters_out_of_range_are_named(name, params, says):
    with pytest.raises(ConfigError, match=says):
        builtin.build(name, **params)


# ---- all worlds --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_bits(name):
    assert digest(builtin.build(name, seed=0)) == digest(world_of(name))


@pytest.mark.parametrize("name", SEEDED)
def test_other_seed_other_bits(name):
    assert digest(world_of(name, 1)) != digest(world_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_triangles_are_finite_and_have_an_area(name):
    triangles = triangles_of(world_of(name))
    assert np.isfinite(triangles).all()
    a, b = triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
    area = 0.5 * np.linalg.norm(np.cross(a, b), axis=1)
    assert area.min() > 1e-7


@pytest.mark.parametrize("name", NAMES)
def test_materials_are_in_the_library_and_labels_in_the_table(name):
    world = world_of(name)
    for material in world.materials:
        assert library.material(material.name) == material
    assert {item.label for item in world.objects} <= set(LABELS)


@pytest.mark.parametrize("name", NAMES)
def test_the_place_over_the_origin_and_the_viewpoint_are_clear_for_a_metre(name):
    world = world_of(name)
    triangles = triangles_of(world)
    for point in (np.array([0.0, 0.0, 2.0]), world.viewpoint.xyz):
        gap = np.maximum(0.0, np.maximum(triangles.min(axis=1) - point, point - triangles.max(axis=1)))
        near = np.linalg.norm(gap, axis=1) < 5.0
        assert near.any()
        assert distance_to(triangles[near], point).min() > 1.0


LIMITS_S = {"city": 3.0, "highway": 8.0, "roundabout": 3.5, "suburb": 3.5}
"""Processor time of building the large worlds [s]."""


@pytest.mark.parametrize(("name", "limit_s"), [(name, LIMITS_S.get(name, 1.5)) for name in NAMES])
def test_building_is_quick(name, limit_s):
    world_of(name)  # modules and materials are loaded
    start = time.process_time()
    builtin.build(name)
    assert time.process_time() - start < limit_s


@pytest.mark.parametrize("name", ["city", "harbour"])
@pytest.mark.parametrize("seed", [0, 1])
def test_objects_do_not_interpenetrate(name, seed):
    world = world_of(name, seed)
    labels = {item.label for item in world.objects} - FLAT - {"fence", "vegetation", "bridge", "other-structure"}
    boxes, names = instance_boxes(world, labels, below=2.2 if name == "city" else 3.6)
    assert len(boxes) > 90
    assert overlaps(boxes, names) == []


# ---- city --------------------------------------------------------------------------------------------------------


def test_city_has_the_size_and_the_objects_of_a_city():
    world = world_of("city")
    triangles = {}
    instances = {}
    for item in world.objects:
        triangles[item.label] = triangles.get(item.label, 0) + item.triangle_count
        instances.setdefault(item.label, set()).add(item.instance)
    assert 330_000 <= sum(triangles.values()) <= 460_000
    assert set(triangles) >= {
        *("road", "sidewalk", "building", "car", "vegetation", "trunk", "pole", "traffic-sign", "person", "fence"),
        *("terrain", "lane-marking", "other-object"),
    }
    assert len(instances["car"]) == 52
    assert len(instances["trunk"]) == 84
    assert len(instances["building"]) >= 20
    assert triangles["vegetation"] > 100_000


def test_city_stands_on_its_ground():
    world = world_of("city")
    boxes, names = instance_boxes(world, {"car", "person", "trunk", "pole", "building", "bicycle"}, below=100.0)
    for box, name in zip(boxes, names, strict=True):
        ground = 0.0 if name.startswith("car") else 0.12
        assert box[0, 2] == pytest.approx(ground, abs=0.02), name


def test_city_ground_has_no_holes():
    world = world_of("city")
    ground = [item for item in world.objects if item.name.startswith("ground/")]
    triangles = np.concatenate([part.placed[part.mesh.faces] for item in ground for part in item.parts])
    normal = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    up = triangles[normal[:, 2] > 1e-9]
    # Projected to the plan, the carriageway and the belt of terrain cover the square exactly once.
    base = [item for item in ground if item.name in ("ground/carriageway", "ground/terrain")]
    flat = np.concatenate([part.placed[part.mesh.faces][..., :2] for item in base for part in item.parts])
    a, b = flat[:, 1] - flat[:, 0], flat[:, 2] - flat[:, 0]
    doubled = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    half = 4 * 80.0 / 2 + 5.75 + 36.0
    assert np.all(doubled > 0)
    assert 0.5 * doubled.sum() == pytest.approx((2 * half) ** 2)
    assert np.abs(up[..., :2]).max() == pytest.approx(half)


@pytest.mark.parametrize("seed", [0, 1])
def test_city_drive_is_long_enough_and_hits_nothing(seed):
    world = world_of("city", seed)
    path = world.path
    assert path.times[-1] >= 10.0
    times = np.arange(0.0, path.times[-1], 0.05)
    xyz, _ = path.sample(times)
    speed = np.linalg.norm(np.diff(xyz, axis=0), axis=1) / 0.05
    assert speed.max() == pytest.approx(10.0, rel=0.02)
    assert speed.min() > 3.5
    np.testing.assert_allclose(xyz[:, 2], 1.8)
    items = [item for item in world.objects if item.label not in FLAT]
    vertices = np.concatenate([part.placed for item in items for part in item.parts])
    low = vertices[(vertices[:, 2] < 2.4) & (vertices[:, 2] > 0.1)]
    near = np.hypot(*(low[:, None, :2] - xyz[None, ::20, :2]).transpose(2, 0, 1)).min()
    assert near > 1.5


@pytest.mark.slow
def test_city_size_follows_its_parameters():
    small = builtin.build("city", blocks=2, cars=5, trees=8, people=3)
    counts = {"car": 0, "trunk": 0, "person": 0}
    for label in counts:
        counts[label] = len({item.instance for item in small.objects if item.label == label})
    assert counts == {"car": 5, "trunk": 8, "person": 3}
    bare = builtin.build("city", blocks=2, cars=0, trees=0, people=0)
    assert not {"car", "trunk", "vegetation", "person"} & {item.label for item in bare.objects}
    for target in (320_000, 600_000):
        world = builtin.build("city", blocks=2, target_triangles=target)
        assert sum(item.triangle_count for item in world.objects) == pytest.approx(target, rel=0.02)


# ---- harbour -----------------------------------------------------------------------------------------------------


def test_harbour_has_water_vessels_and_a_bridge_that_the_path_passes_under():
    world = world_of("harbour")
    labels = {item.label for item in world.objects}
    assert labels >= {"water", "quay", "bridge", "vessel", "building", "crane", "pole", "person"}
    assert len({item.instance for item in world.objects if item.label == "vessel"}) >= 8
    water = next(item for item in world.objects if item.label == "water")
    height = water.parts[0].placed[:, 2]
    assert height.std() == pytest.approx(0.012, rel=0.2)
    assert abs(height.mean()) < 0.003
    xyz, _ = world.path.sample(np.arange(0.0, world.path.times[-1], 0.5))
    speed = np.linalg.norm(np.diff(xyz, axis=0), axis=1) / 0.5
    assert speed.min() >= 2.0
    assert speed.max() <= 3.0
    assert xyz[0, 0] < 72.0 < xyz[-1, 0]
    items = [item for item in world.objects if item.label != "water"]
    vertices = np.concatenate([part.placed for item in items for part in item.parts])
    low = vertices[(vertices[:, 2] > -0.5) & (vertices[:, 2] < 4.5) & (np.abs(vertices[:, 1]) < 24.0)]
    assert np.linalg.norm(low[:, None, :2] - xyz[None, :, :2], axis=2).min() > 3.0


def test_harbour_vessels_float_and_objects_on_the_quay_stand_on_it():
    world = world_of("harbour")
    boxes, _ = instance_boxes(world, {"vessel"}, below=100.0)
    assert np.all(boxes[:, 0, 2] < -0.3)
    assert np.all(boxes[:, 1, 2] > 0.5)
    assert np.all(np.abs(boxes[:, :, 1]) < 25.0)
    boxes, names = instance_boxes(world, {"person", "trunk", "building", "car", "container"}, below=100.0)
    for box, name in zip(boxes, names, strict=True):
        if not name.startswith("bridge"):
            assert box[0, 2] == pytest.approx(1.6, abs=0.02), name


# ---- small worlds ------------------------------------------------------------------------------------------------


def boards_of(world: World):
    return [item for item in world.objects if item.label == "board"]


def test_range_boards_are_at_their_distances_and_face_the_sensor():
    boards = boards_of(world_of("test-range"))
    assert len(boards) == len(board_range.DISTANCES) * len(board_range.REFLECTANCES_PERCENT)
    assert len({board.instance for board in boards}) == len(boards)
    for board in boards:
        _, percent, metres = board.name.split("-")
        assert board.parts[0].material.name == f"lambert-{percent}"
        away = board.pose.rotation[:, 0]
        depth = board.parts[0].placed @ away
        assert depth.min() == pytest.approx(float(metres.removesuffix("m")), abs=1e-9)
        np.testing.assert_allclose(np.cross(board.pose.xyz, away)[2], 0.0, atol=1e-9)
        assert board.parts[0].placed[:, 2].min() >= -1e-12


def test_range_boards_do_not_hide_each_other():
    sectors = []
    for board in boards_of(world_of("test-range")):
        middle = np.arctan2(board.pose.xyz[1], board.pose.xyz[0])
        vertices = board.parts[0].placed
        offset = np.angle(np.exp(1j * (np.arctan2(vertices[:, 1], vertices[:, 0]) - middle)))
        sectors.append((middle % (2 * np.pi) + offset.min(), middle % (2 * np.pi) + offset.max()))
    sectors.sort()
    starts, ends = np.array(sectors).T
    gaps = np.append(starts[1:], starts[0] + 2 * np.pi) - ends
    assert np.degrees(gaps.min()) > 1.4


def test_range_without_ground_has_boards_only():
    world = builtin.build("test-range", ground=None, distances=[10, 20], reflectances_percent=[50], board_size=1.0)
    assert sorted(item.name for item in world.objects) == ["board-50-10m", "board-50-20m"]


@pytest.mark.parametrize(
    ("name", "materials"), [("boards-zigzag", ["foam"] * 3), ("boards-u", ["foam", "foam", "wood"])]
)
def test_board_scenes_have_three_boards_that_look_at_the_sensor(name, materials):
    boards = boards_of(world_of(name))
    assert sorted(board.parts[0].material.name for board in boards) == materials
    for board in boards:
        normal = -board.pose.rotation[:, 0]
        assert normal @ board.pose.xyz < 0
    edges = np.array([board.bounds()[0][0] for board in boards])
    assert edges.min() >= 1.1 - 1e-9
    assert boards_of(builtin.build(name, room=False))
    assert {item.label for item in builtin.build(name, room=False).objects} == {"board"}


def test_each_ring_of_a_16_channel_lidar_meets_its_own_cylinder():
    world = world_of("cylinders")
    rings = sorted((item for item in world.objects if item.label == "cylinder"), key=lambda item: item.instance)
    assert len(rings) == 16
    tops = np.array([item.bounds()[1][2] for item in rings])
    radii = np.array([np.hypot(*item.parts[0].placed[:, :2].T).min() for item in rings])
    for k, elevation in enumerate(published.ELEVATIONS_DEG):
        beam = 2.0 + radii * np.tan(np.radians(elevation))
        assert np.flatnonzero((beam < tops) & (beam > 0))[0] == k
    np.testing.assert_allclose(radii, 3.0 + np.arange(16), atol=1e-9)
    assert all(item.bounds()[0][2] == pytest.approx(0.0) for item in rings)


def test_cuboids_stand_apart_on_the_ground():
    for seed in range(4):
        world = world_of("cuboids", seed)
        blocks = [item for item in world.objects if item.label == "cuboid"]
        assert len(blocks) == 9
        spans = []
        for item in blocks:
            vertices = item.parts[0].placed
            assert vertices[:, 2].min() == pytest.approx(0.0)
            azimuth = np.arctan2(vertices[:, 1], vertices[:, 0])
            spans.append((azimuth.min(), azimuth.max()))
        spans.sort()
        assert all(a[1] < b[0] for a, b in pairwise(spans))


def test_mixed_objects_stand_on_the_ground_and_apart():
    world = world_of("mixed-objects")
    labels = {item.label for item in world.objects} - FLAT - {"vegetation"}
    boxes, names = instance_boxes(world, labels, below=100.0)
    assert len(names) >= 20
    np.testing.assert_allclose(boxes[:, 0, 2], 0.0, atol=0.02)
    assert overlaps(*instance_boxes(world, labels, below=2.2)) == []


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("city", {"target_triangles": {}}),
        ("harbour", {"ripple_height": "x"}),
        ("test-range", {"board_size": "x"}),
        ("test-range", {"distances": "far"}),
        ("boards-u", {"room": "maybe"}),
    ],
)
def test_parameters_of_the_wrong_kind_are_refused(name: str, params: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(params))):
        builtin.build(name, **params)
