"""Plane patches of a world: how triangles join, what they carry, and that they are made once."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.rays.records import Rays
from parhelion.rays.scene import RayScene
from parhelion.sensors.waves.planes import planes_of


def room() -> ph.World:
    world = ph.World()
    world.add(ph.shapes.box(4, 3, 2), material="brick", label="wall", pose=ph.Pose((1, 2, 3)))
    world.add(ph.shapes.plane(20, 10), material="asphalt", label="road")
    return world


def test_a_box_has_six_patches_with_area_box_plane_and_material() -> None:
    world = room()
    found = planes_of(world, "uwb")
    assert len(found) == 7
    box = np.flatnonzero(found.part == 0)
    assert sorted(found.area[box]) == pytest.approx([6, 6, 8, 8, 12, 12])
    assert [world.materials[k].name for k in found.material[box]] == ["brick"] * 6
    top = box[found.normal[box, 2] > 0.5][0]
    assert found.offset[top] == pytest.approx(4.0, abs=1e-12)
    assert found.lower[top] == pytest.approx([-1, 0.5, 4])
    assert found.upper[top] == pytest.approx([3, 3.5, 4])
    road = np.flatnonzero(found.part == 1)[0]
    assert found.area[road] == pytest.approx(200.0)
    assert np.array_equal(np.bincount(found.of_triangle)[box], [2] * 6)


def test_numbers_are_those_of_hits() -> None:
    world = room()
    found = planes_of(world)
    hits = RayScene(world.geometry()).cast(Rays.of([[1, 2, 8.0]], [[0, 0, -1.0]]))
    patch = found.of_triangle[hits.triangle[0]]
    assert found.normal[patch] == pytest.approx([0, 0, 1], abs=1e-12)
    assert found.offset[patch] == pytest.approx(4.0)


def test_curved_surfaces_stay_in_pieces_and_parts_do_not_join() -> None:
    world = ph.World()
    world.add(ph.shapes.sphere(1.0), material="steel", label="machine")
    world.add(ph.shapes.plane(2, 2), material="wood", label="floor", pose=ph.Pose((5, 0, 0)))
    world.add(ph.shapes.plane(2, 2), material="wood", label="floor", pose=ph.Pose((7, 0, 0)))
    found = planes_of(world)
    assert np.all(found.area[found.part == 0] < 0.5)
    assert sorted(found.area[found.part > 0]) == pytest.approx([4.0, 4.0])


def test_made_once_until_the_world_changes() -> None:
    world = room()
    first = planes_of(world, "uwb")
    assert planes_of(world, "uwb", "tag") is first
    world.add(ph.shapes.box(1, 1, 1), material="wood", label="box", pose=ph.Pose((9, 9, 9)))
    assert len(planes_of(world, "uwb")) == len(first) + 6


def test_an_empty_world_has_none() -> None:
    assert len(planes_of(ph.World(), "uwb")) == 0
