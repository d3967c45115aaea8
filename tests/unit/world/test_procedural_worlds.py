"""Layouts by rule are sound and come again with their seed; the ground, and the worlds that layouts become."""

from __future__ import annotations

import math
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layout_rigs import layout, layout_object
from parhelion.core.errors import ConfigError
from parhelion.world import builtin
from parhelion.world.labels import LABELS
from parhelion.world.procedural import (
    KINDS,
    Layout,
    check,
    clearance,
    forest,
    ground_height,
    layout_of,
    mobility_of,
    warehouse,
    world_digest,
    world_of,
)
from parhelion.world.procedural.footprints import along_line, beside_line, to_line
from parhelion.world.procedural.kinds import RackParams
from parhelion.world.procedural.object_parts import rack_loads
from parhelion.world.procedural.relief import fractal_heights, height_field
from parhelion.world.procedural.warehouse import rounded
from parhelion.world.world import World


@cache
def small_forest() -> Layout:
    return forest((30.0, 30.0), density_per_ha=400.0, seed=3)


def one_of_each() -> Layout:
    """Every kind of halls and woods once, well apart."""
    objects = []
    for k, kind in enumerate(name for name in KINDS if KINDS[name].solid and KINDS[name].code <= 16):
        objects.append(layout_object(kind, -8.0 + 4.0 * (k % 5), -8.0 + 4.0 * (k // 5), (1.2, 0.8, 1.5)))
    ground = [layout_object("ground", size=(20.0, 20.0, 0.0)), layout_object("roof", z=6.0, size=(20.0, 20.0, 0.1))]
    hills = layout_object("terrain", size=(20.0, 20.0, 0.0), z=-30.0, params={"track": ((-10.0, 0.0), (10.0, 1.0))})
    return layout(*objects, *ground, hills)


# ---- generated layouts are sound ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_hundred_warehouses_are_sound() -> None:
    for seed in range(200):
        assert check(warehouse(seed=seed)) == [], seed


def test_forests_are_sound() -> None:
    for seed in range(8):
        assert check(forest((40.0, 40.0), seed=seed)) == [], seed
    assert check(forest()) == []


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.floats(18.0, 90.0),
    st.floats(8.0, 60.0),
    st.floats(1.5, 5.0),
    st.floats(0.0, 1.0),
    st.integers(0, 2**64 - 1).map(lambda seed: seed >> 1),
)
def test_warehouses_of_all_sizes_and_densities_are_sound(
    length: float, width: float, aisle: float, density: float, seed: int
) -> None:
    made = warehouse((length, width), aisle_m=aisle, density=density, seed=seed)
    assert check(made) == []
    racks = [item for item in made.objects if item.kind == "rack"]
    assert racks
    assert all(1.0 <= item.size[2] <= 5.0 for item in racks)
    # Aisles are clear over their whole width but for what a millimetre of rounding and the markers take.
    for way in made.ways:
        if way.name.startswith("aisle"):
            assert clearance(made, way.points) >= aisle / 2 - 0.025


@settings(max_examples=25, deadline=None)
@given(
    st.floats(20.0, 60.0), st.floats(20.0, 60.0), st.floats(0.0, 1500.0), st.floats(0.0, 8.0), st.integers(0, 2**63 - 1)
)
def test_forests_of_all_sizes_and_densities_are_sound(
    length: float, width: float, density: float, roughness: float, seed: int
) -> None:
    made = forest((length, width), density_per_ha=density, roughness_m=roughness, seed=seed)
    assert check(made, robot_width_m=2.0) == []
    assert sum(item.kind == "tree" for item in made.objects) == round(density * length * width / 1e4)


def test_a_thousand_warehouses_take_less_than_a_minute() -> None:
    warehouse()  # modules are loaded
    start = time.process_time()
    for seed in range(40):
        check(warehouse(seed=seed))
    assert (time.process_time() - start) / 40 < 0.06


def test_parameters_shape_the_warehouse() -> None:
    rows = {item.pose.xyz[1] for item in warehouse(rack_rows=3, seed=2).objects if item.kind == "rack"}
    assert len(rows) == 3
    assert len({item.pose.xyz[1] for item in warehouse(seed=2).objects if item.kind == "rack"}) == 6
    kinds = {item.kind for item in warehouse(seed=2).objects}
    assert kinds >= {
        *("wall", "rack", "pallet", "box", "pillar", "door", "marker", "anchor", "charging-station", "cone"),
        *("ground", "roof"),
    }
    assert "roof" not in {item.kind for item in warehouse(roof=False).objects}
    full, bare = (warehouse(density=share, seed=1) for share in (1.0, 0.0))
    assert sum(item.kind == "pallet" for item in full.objects) > 10
    assert not any(item.kind == "pallet" for item in bare.objects)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: warehouse((10.0, 25.0)), r"size_m\[0\] must be at least 11.5 m for aisles of 3 m, got 10"),
        (lambda: warehouse((40.0, 5.0), aisle_m=4.0), r"size_m\[1\] must be at least 6.8 m"),
        (lambda: warehouse((math.nan, 25.0)), r"size_m\[0\]: must be a number from 8 to 300, got nan"),
        (lambda: warehouse(7.0), "size_m: must be a length and a width, got 7.0"),  # type: ignore[arg-type]
        (lambda: warehouse(rack_rows=7), "rack_rows must be at most 6 in this hall, got 7"),
        (lambda: warehouse(rack_rows=0), "rack_rows: must be a whole number from 1"),
        (lambda: warehouse(aisle_m=1.0), "aisle_m: must be a number from 1.5 to 8, got 1.0"),
        (lambda: warehouse(density=1.5), "density: must be a number from 0 to 1, got 1.5"),
        (lambda: warehouse(roof="yes"), "roof must be true or false"),  # type: ignore[arg-type]
        (lambda: warehouse(seed=-1), "seed: must be a whole number"),
        (lambda: forest((10.0, 80.0)), r"size_m\[0\]: must be a number from 20 to 1000, got 10.0"),
        (lambda: forest(density_per_ha=math.nan), "density_per_ha: must be a number from 0 to 1500, got nan"),
        (lambda: forest(roughness_m=-0.1), "roughness_m: must be a number from 0 to 8, got -0.1"),
        (lambda: forest("wide"), "size_m: must be a length and a width"),  # type: ignore[arg-type]
    ],
)
def test_parameters_out_of_range_are_named(call: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        call()


# ---- seeds -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("make", [warehouse, lambda **more: forest((30.0, 30.0), **more)])
def test_same_seed_same_layout_and_world_and_other_seeds_differ(make: Any) -> None:
    assert make(seed=5) == make(seed=5)
    assert world_digest(world_of(make(seed=5))) == world_digest(world_of(make(seed=5)))
    assert len({make(seed=seed).model_dump_json(exclude={"seed"}) for seed in range(10)}) == 10
    assert world_digest(world_of(make(seed=6))) != world_digest(world_of(make(seed=5)))


# ---- reading and writing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".yaml", ".json", ".yml"])
def test_a_layout_reads_back_as_the_same_layout_and_world(tmp_path: Path, ending: str) -> None:
    for made in (warehouse(seed=1), small_forest(), one_of_each()):
        file = tmp_path / f"layout{ending}"
        made.save(file)
        back = Layout.load(file)
        assert back == made
        back.save(tmp_path / f"again{ending}")
        assert (tmp_path / f"again{ending}").read_bytes() == file.read_bytes()
    assert world_digest(world_of(back)) == world_digest(world_of(made))


# ---- lines and ground --------------------------------------------------------------------------------------------


def test_distances_to_a_line() -> None:
    line = [(0.0, 0.0), (10.0, 0.0), (10.0, 5.0)]
    distance, along = to_line([(5.0, 2.0), (12.0, 4.0), (-3.0, 4.0)], line)
    np.testing.assert_allclose(distance, [2.0, 2.0, 5.0])
    np.testing.assert_allclose(along, [5.0, 14.0, 0.0])
    samples = along_line(line, 0.3)
    assert np.hypot(*np.diff(samples, axis=0).T).max() <= 0.3 + 1e-12
    assert any(np.allclose(sample, line[1]) for sample in samples)
    points = np.random.default_rng(0).uniform(-5, 15, (2000, 2))
    kept = np.zeros(2000, dtype=bool)
    kept[beside_line(points, line, 1.5)] = True
    assert np.all(kept[to_line(points, line)[0] <= 1.5])
    assert not kept.all()


def test_rounded_corners_have_their_radius() -> None:
    line = rounded([(0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (20.0, 10.0)], 2.0)
    arc = line[(np.abs(line[:, 0] - 9.0) <= 1.001) & (line[:, 1] <= 2.0)]
    np.testing.assert_allclose(np.hypot(*(arc - [8.0, 2.0]).T), 2.0)
    other = line[(np.abs(line[:, 0] - 11.0) <= 1.001) & (line[:, 1] >= 8.0)]
    np.testing.assert_allclose(np.hypot(*(other - [12.0, 8.0]).T), 2.0)
    np.testing.assert_allclose(line[[0, -1]], [[0, 0], [20, 10]])


def test_ground_heights_are_those_of_the_triangles() -> None:
    hills = layout_object("terrain", size=(20.0, 12.0, 0.0), params={"heights_m": [[0.0, 1.0, 4.0], [2.0, 7.0, 3.0]]})
    made = layout(hills)
    # Grid of 10 x 12 m cells; the diagonal of a cell runs from its lower left to its upper right corner.
    x, y = np.array([-10.0, 0.0, 10.0, -5.0, -2.5, -7.5]), np.array([-6.0, -6.0, 6.0, 0.0, -3.0, 3.0])
    lower_right, upper_left = 0.0 + 0.75 * 1.0 + 0.25 * 6.0, 0.0 + 0.75 * 2.0 + 0.25 * 5.0
    np.testing.assert_allclose(ground_height(made, x, y), [0.0, 1.0, 3.0, 3.5, lower_right, upper_left])
    world = world_of(made)
    vertices = world.objects[0].parts[0].placed
    np.testing.assert_allclose(ground_height(made, vertices[:, 0], vertices[:, 1]), vertices[:, 2], atol=1e-12)
    np.testing.assert_allclose(ground_height(layout(), [1.0, 2.0], [0.0, 0.0]), 0.0)


@pytest.mark.parametrize("hurst", [0.3, 0.8])
def test_height_differences_grow_with_distance_to_the_power_of_hurst(hurst: float) -> None:
    lags = np.array([2, 4, 8, 16, 32])
    squared = np.zeros(len(lags))
    for seed in range(12):
        z = fractal_heights((512, 512), (1.0, 1.0), hurst, seed)
        squared += [np.mean((z[:, lag:] - z[:, :-lag]) ** 2) for lag in lags]
    slope = np.polyfit(np.log(lags), 0.5 * np.log(squared), 1)[0]
    # A grid's own shortest and longest waves bend the law a little at its ends.
    assert slope == pytest.approx(hurst, abs=0.1)


def test_forest_ground_has_its_roughness_and_trees_stand_on_it() -> None:
    flat = height_field(forest((60.0, 60.0), roughness_m=0.0, seed=1).objects[0])
    assert np.ptp(flat.z) == 0.0
    bare = layout_object("terrain", size=(60.0, 60.0, 0.0), params={"roughness_m": 1.5, "seed": 4})
    assert height_field(bare).z.std() == pytest.approx(1.5, abs=1e-3)
    made = small_forest()
    assert float(ground_height(made, 0.0, 0.0)) == 0.0
    trees = [item for item in made.objects if item.kind == "tree"]
    assert len(trees) == 36
    at = np.array([item.pose.xyz for item in trees])
    np.testing.assert_allclose(at[:, 2], ground_height(made, at[:, 0], at[:, 1]) - 0.05, atol=6e-4)
    apart = np.hypot(*(at[:, None, :2] - at[None, :, :2]).transpose(2, 0, 1)) + 10.0 * np.eye(len(at))
    assert apart.min() > 0.5
    assert made.drive is not None
    assert clearance(made, made.drive.points) > 2.4
    # Across the track, the ground is level to within the slope of a cell.
    for (x, y), (dx, dy) in zip(
        made.drive.points[1:-1], np.diff(np.array(made.drive.points), axis=0)[:-1], strict=True
    ):
        side = 1.4 * np.array([-dy, dx]) / math.hypot(dx, dy)
        across = ground_height(made, [x - side[0], x + side[0]], [y - side[1], y + side[1]])
        assert abs(across[1] - across[0]) < 0.25


# ---- worlds ------------------------------------------------------------------------------------------------------


def test_every_kind_becomes_triangles_of_its_size() -> None:
    made = one_of_each()
    world = world_of(made)
    for row, item in enumerate(made.objects):
        parts = [part for item_ in world.objects if item_.instance == row + 1 for part in item_.parts]
        vertices = np.concatenate([part.placed for part in parts]) - np.array(item.pose.xyz)
        assert {item_.label for item_ in world.objects} <= set(LABELS)
        extent = np.ptp(vertices, axis=0)
        if item.kind in ("tree", "bush", "terrain"):
            continue
        shrink = 0.7 if item.kind in ("cone", "rock") else 0.96
        assert np.all(extent <= np.array(item.size) + 1e-9), item.kind
        assert np.all(extent[2] >= shrink * item.size[2]), item.kind
        assert np.all(extent[:2] >= 0.7 * np.array(item.size[:2])), item.kind
        assert vertices[:, 2].min() == pytest.approx(0.0, abs=1e-9), item.kind


def test_loads_stay_within_their_rack_and_do_not_interpenetrate() -> None:
    for seed, (height, levels) in enumerate([(1.0, 2), (2.4, 3), (5.0, 4), (4.0, 1), (0.3, 3)]):
        size = (8.5, 1.2, height)
        params = RackParams(levels=levels, fill=1.0, seed=seed)
        loads = rack_loads(*size, params)
        boxes = []
        for load in loads:
            points = np.concatenate([load.pose.apply(part.mesh.vertices) for part in load.parts])
            boxes.append((points.min(axis=0), points.max(axis=0)))
        low, high = np.array([b[0] for b in boxes]).reshape(-1, 3), np.array([b[1] for b in boxes]).reshape(-1, 3)
        assert np.all(low >= np.array([-4.25, -0.6, 0.0]) - 1e-9)
        assert np.all(high <= np.array([4.25, 0.6, height]) + 1e-9)
        shared = np.all((low[:, None] < high[None] - 1e-9) & (high[:, None] > low[None] + 1e-9), axis=-1)
        assert np.count_nonzero(shared) == len(boxes)  # each with itself alone
        assert len(boxes) == (0 if height == 0.3 else 3 * levels * (3 if height > 2.0 else 4))
    count = [len(rack_loads(28.1, 1.2, 4.0, RackParams(fill=0.7, seed=seed))) for seed in range(20)]
    # 120 places each: the mean of 20 racks is within four standard errors of 84.
    assert np.mean(count) == pytest.approx(84.0, abs=4 * math.sqrt(120 * 0.21 / 20))


def test_mobility_is_known_for_every_instance() -> None:
    world = World.load("warehouse", seed=3)
    mobility = mobility_of(world)
    made = layout_of(world)
    assert set(mobility) == {item.instance for item in world.objects}
    for row, item in enumerate(made.objects):
        assert mobility[row + 1] == item.mobility
    loads = [item for item in world.objects if "/load-" in item.name]
    assert loads
    assert {mobility[item.instance] for item in loads} == {"movable"}
    assert {item.instance for item in loads}.isdisjoint(range(1, len(made.objects) + 1))
    with pytest.raises(ConfigError, match="was not built from a layout"):
        mobility_of(World("plain"))
    with pytest.raises(ConfigError, match="was not built from a layout"):
        layout_of(World("plain"))


def test_labels_of_a_layout_are_those_of_the_world() -> None:
    world = world_of(layout(layout_object("rack", label="furniture", size=(3.0, 1.2, 2.0), params={"fill": 1.0})))
    labels = {item.label for item in world.objects if "/load-" not in item.name}
    assert labels == {"furniture"}
    assert {item.label for item in world.objects if "/load-" in item.name} <= {"pallet", "other-object"}


@pytest.mark.parametrize("name", ["warehouse", "forest"])
def test_builtin_drives_follow_the_ground_and_hit_nothing(name: str, tmp_path: Path) -> None:
    small = {"size_m": (30.0, 22.0)} if name == "warehouse" else {"size_m": (40.0, 30.0)}
    world = World.load(name, seed=2, **small)
    made = layout_of(world)
    assert made.drive is not None
    path = world.path
    times = np.arange(0.0, path.times[-1], 0.1)  # type: ignore[union-attr]
    xyz, _ = path.sample(times)  # type: ignore[union-attr]
    speed = np.linalg.norm(np.diff(xyz, axis=0), axis=1) / 0.1
    assert speed.max() <= made.drive.speed_m_s * 1.001
    assert speed.min() > 0.9 * made.drive.speed_m_s
    np.testing.assert_allclose(xyz[:, 2] - ground_height(made, *xyz[:, :2].T), made.drive.height_m, atol=0.2)
    assert clearance(made, made.drive.points) > (1.4 if name == "warehouse" else 2.4)
    items = [item for item in world.objects if item.label not in ("floor", "ceiling", "terrain", "road", "vegetation")]
    vertices = np.concatenate([part.placed for item in items for part in item.parts])
    near = np.hypot(*(vertices[:, None, :2] - xyz[None, ::10, :2]).transpose(2, 0, 1)).min(axis=1)
    low = np.abs(vertices[:, 2] - ground_height(made, vertices[:, 0], vertices[:, 1]) - 1.0) < 1.0
    assert near[low].min() > 1.0
    leaves = [part.placed for item in world.objects if item.label == "vegetation" for part in item.parts]
    if leaves:
        from scipy.spatial import cKDTree

        assert cKDTree(np.concatenate(leaves)).query(xyz)[0].min() > 1.0
    world.save(tmp_path / "world.yaml")
    back = World.load(tmp_path / "world.yaml")
    assert world_digest(back) == world_digest(world)
    assert layout_of(back) == made


def test_builtin_parameters_are_checked() -> None:
    with pytest.raises(ConfigError, match="rack_rows must be at most"):
        builtin.build("warehouse", rack_rows=50)
    with pytest.raises(ConfigError, match="density: expected a number, got 'much'"):
        builtin.build("warehouse", density="much")
    with pytest.raises(ConfigError, match=r"unknown parameter of world 'forest' 'density'"):
        builtin.build("forest", density=1.0)
