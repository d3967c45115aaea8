"""Edits of a large world: cheap, and with the same bits as in a world that was built in one go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np
import pytest

import parhelion as ph
from parhelion.rays.device import engine
from parhelion.rays.geometry import EditedGeometry, Remainder, SceneGeometry, Triangles
from parhelion.rays.records import Rays
from parhelion.rays.scene import RayScene, StandingPart, _standing_part
from parhelion.world.assemble import MOST_ADDED

LIDAR = {"sub_rays": 5}
HERE = ph.Pose(xyz=(0.0, 0.0, 2.0))


def town() -> ph.World:
    """World above the size from which structures are reused: finely divided ground, a wall and posts."""
    world = ph.World("town")
    side = np.linspace(-40.0, 40.0, 121)
    x, y = (one.ravel() for one in np.meshgrid(side, side))
    corner = (np.arange(120)[:, None] * 121 + np.arange(120)).ravel()
    faces = np.concatenate(
        [np.stack([corner, corner + 1, corner + 122], 1), np.stack([corner, corner + 122, corner + 121], 1)]
    )
    height = 0.2 * np.sin(0.3 * x) * np.cos(0.2 * y)
    world.add((np.stack([x, y, height], axis=1), faces), material="asphalt", label="road")
    world.add(ph.shapes.box(1, 30, 4), material="concrete", label="building", pose=ph.Pose(xyz=(15, 0, 2)))
    for k in range(6):
        place = ph.Pose(xyz=(8 * np.cos(k), 8 * np.sin(k), 1.0))
        world.add(ph.shapes.box(0.4, 0.4, 2.5), material="steel", label="pole", pose=place, name=f"post-{k}")
    return world


def box(world: ph.World, x: float, y: float, instance: int) -> Any:
    return world.add(
        ph.shapes.box(1, 1, 1), material="wood", label="box", pose=ph.Pose(xyz=(x, y, 0.7)), instance=instance
    )


def cat(world: ph.World) -> None:
    world.add_actor(
        ph.shapes.box(0.5, 0.3, 0.4), material="wood", label="animal", instance=900,
        trajectory=ph.Waypoints([0.0, 1.0], [ph.Pose(xyz=(4, -3, 0.5)), ph.Pose(xyz=(5, -3, 0.5))]),
    )  # fmt: skip


@pytest.fixture(scope="module")
def lidar() -> ph.Lidar:
    return ph.Lidar("velodyne/vlp-16", **LIDAR)


def same(a: ph.Scan, b: ph.Scan) -> None:
    np.testing.assert_array_equal(a.xyz, b.xyz)
    assert a.fields.keys() == b.fields.keys()
    for name in a.fields:
        np.testing.assert_array_equal(a.fields[name], b.fields[name], err_msg=name)


def edited(world: ph.World, look: Callable[[], Any]) -> None:
    """Add, move and remove, observed after each step."""
    look()
    first = box(world, 5.0, 1.0, 501)
    look()
    box(world, 6.0, -4.0, 502)
    look()
    world.remove(first)
    box(world, 5.5, 2.0, 503)
    look()
    world.remove(next(one for one in world.objects if one.name == "post-3"))
    look()
    cat(world)


def test_same_bits_as_in_one_go(lidar: ph.Lidar) -> None:
    one, other = town(), town()
    edited(one, lambda: lidar.scan(one, pose=HERE, seed=1))
    edited(other, lambda: None)
    assert isinstance(one.geometry(), EditedGeometry)
    assert len(one.geometry().added) == 24
    # The other world was never seen before, so all of its static triangles are in one structure.
    assert len(other.geometry().added) == 0
    a, b = (lidar.scan(world, pose=HERE, time=0.4, seed=7) for world in (one, other))
    same(a, b)
    assert {502, 503, 900} <= set(np.unique(a.fields["instance"]).tolist())


def test_casts_of_an_edited_geometry() -> None:
    if engine().device != "cpu":
        pytest.skip("on a GPU an edit builds all triangles")
    world = town()
    base = world.geometry()
    RayScene(base)
    box(world, 5.0, 1.0, 501)
    cat(world)
    found = world.geometry()
    assert isinstance(found, EditedGeometry)
    assert len(found.added) == 12
    whole = SceneGeometry(found.static, found.actors)
    rng = np.random.default_rng(1)
    direction = rng.normal(size=(4000, 3)) * [1, 1, 0.3]
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    rays = Rays(np.tile([0.0, 0.0, 1.2], (4000, 1)), direction, rng.random(4000), np.full(4000, 100.0))
    split, joint = RayScene(found), RayScene(whole)
    assert split.added is not None
    assert joint.added is None
    a, b = split.cast(rays), joint.cast(rays)
    for name in ("range", "triangle", "part", "actor", "normal"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert np.any(a.triangle >= len(base.static))
    np.testing.assert_array_equal(split.is_blocked(rays), joint.is_blocked(rays))
    np.testing.assert_array_equal(found.bounds, whole.bounds)


def test_edits_build_only_what_changed(lidar: ph.Lidar) -> None:
    if engine().device != "cpu":
        pytest.skip("on a GPU an edit builds all triangles")
    world = town()
    size = len(world.geometry().static)
    counts = []

    def look() -> int:
        before = StandingPart.built
        lidar.scan(world, pose=HERE, seed=1)
        counts.append(StandingPart.built - before)
        return counts[-1]

    assert look() == size
    item = box(world, 5.0, 1.0, 501)
    assert look() == 12
    for k in range(3):  # moved
        world.remove(item)
        item = box(world, 5.0 + k, 1.0, 502 + k)
        assert look() == 12
    world.remove(item)
    assert look() == 0
    cat(world)
    assert look() == 0
    # An object of the start is built into the rest: once all, then only itself.
    post = next(one for one in world.objects if one.name == "post-2")
    world.remove(post)
    item = box(world, 3.0, 3.0, 510)
    assert look() == size - 12 + 12
    world.remove(item)
    box(world, 3.5, 3.0, 511)
    assert look() == 12


def test_tables_of_what_remains_are_those_of_a_new_part() -> None:
    rng = np.random.default_rng(4)
    vertices, faces = rng.normal(size=(300, 3)), rng.integers(0, 300, (500, 3)).astype(np.int32)
    faces[::7, 2] = faces[::7, 1]  # without an area
    every = Triangles(vertices, faces, np.arange(500, dtype=np.uint32), rng.random((500, 3, 2), np.float32))
    whole, kept = SceneGeometry(every), rng.random(500) < 0.8
    rest = SceneGeometry(every.chosen(np.flatnonzero(kept)), remainder=Remainder(ref(whole), kept))
    _standing_part(whole)
    cut, new = _standing_part(rest), StandingPart(rest.static)
    np.testing.assert_array_equal(cut.rows, new.rows)
    np.testing.assert_array_equal(cut.table, new.table)
    np.testing.assert_array_equal(cut.solid.faces, new.solid.faces)
    np.testing.assert_array_equal(cut.solid.part, new.solid.part)
    np.testing.assert_array_equal(every.bounds, [vertices.min(axis=0), vertices.max(axis=0)])


def test_many_additions_are_built_as_one(lidar: ph.Lidar) -> None:
    world = town()
    lidar.scan(world, pose=HERE)
    count = MOST_ADDED // 12 + 1
    with world.edits():
        for k in range(count):
            box(world, 5.0 + 0.01 * k, -20.0, 1000 + k)
    assert len(world.geometry().added) == 0
    assert len(world.geometry().static) == 12 * (count + 7) + 28800


def test_no_kernel_per_edit(lidar: ph.Lidar) -> None:
    import drjit as dr

    world = town()

    def hashes(edit: Callable[[], Any]) -> set[Any]:
        edit()
        dr.kernel_history_clear()
        lidar.scan(world, pose=HERE, seed=1)
        return {one["hash"] for one in dr.kernel_history((dr.KernelType.JIT,))}

    dr.set_flag(dr.JitFlag.KernelHistory, True)
    try:
        hashes(lambda: None)
        first = hashes(lambda: box(world, 5.0, 1.0, 501))
        later = [hashes(lambda k=k: box(world, 5.0 + k, 2.0, 502 + k)) for k in range(3)]
        assert first
        assert all(one <= first for one in later)
    finally:
        dr.set_flag(dr.JitFlag.KernelHistory, False)
