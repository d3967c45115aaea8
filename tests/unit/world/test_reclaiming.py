"""Removed objects release their memory: rows of parts, instance numbers in use, textures, files."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import parhelion.world.assemble as texture_rows
from parhelion.core.pose import Pose
from parhelion.world import World, shapes
from parhelion.world.mesh import Mesh
from parhelion.world.parts import PartRows

PLANE = shapes.plane(4, 4)
SHEET = Mesh(PLANE.vertices, PLANE.faces, uv=np.zeros((len(PLANE.faces), 3, 2), np.float32))


def test_moving_an_object_often_takes_no_rows() -> None:
    world = World()
    world.add(PLANE, material="asphalt")
    car = world.add(shapes.box(1, 1, 1), material="steel")
    for k in range(500):
        world.remove(car)
        car = world.add(shapes.box(1, 1, 1), material="steel", pose=Pose((k, 0, 0)))
    assert len(world.parts) == 2
    assert car.index == 501
    assert car.instance == 502
    assert len(world._instances_used) == 0
    np.testing.assert_array_equal(world.parts.object_index, [0, 501])


def test_rows_are_given_back_when_all_go() -> None:
    world = World()
    items = [world.add(PLANE, material="asphalt") for _ in range(100)]
    for item in items[:99]:
        world.remove(item)
    # The last part keeps its number, so that the rows below it stay; they are free.
    assert len(world.parts) == 100
    assert np.count_nonzero(world.parts.object_index >= 0) == 1
    assert world.add(PLANE, material="asphalt").parts[0].number == 0
    for item in world.objects:
        world.remove(item)
    assert len(world.parts) == 0


@given(st.lists(st.integers(-3, 5), max_size=40))
def test_rows_are_as_in_a_plain_dictionary(steps: list[int]) -> None:
    """Negative: add; else: free the row of that rank. The lowest free row is taken, and none is in use twice."""
    rows, used = PartRows(), dict[int, int]()
    for count, step in enumerate(steps):
        if step < 0:
            row = rows.append(material=1, label=2, instance=3, object_index=count, texture=-1)
            assert row == next(k for k in range(len(used) + 1) if k not in used)
            used[row] = count
        elif step < len(used):
            row = sorted(used)[step]
            rows.free(row)
            del used[row]
    table = rows.table()
    assert len(table) == max(used, default=-1) + 1
    assert {row: index for row, index in enumerate(table.object_index.tolist()) if index >= 0} == used
    assert set(table.material.tolist()) <= {1}


def test_removed_textures_are_dropped() -> None:
    world = World()
    for k in range(60):
        item = world.add(SHEET, material="asphalt", texture=np.full((512, 512), k / 100, np.float32))  # 1 MiB
        world.remove(item)
    assert sum(image.nbytes for image in world.textures) <= texture_rows.SPARE_BYTES + 1024
    assert len(world._textures._given) <= 32


def test_textures_in_use_stay_and_free_rows_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texture_rows, "SPARE_BYTES", 0)
    world = World()
    images = [np.full((2, 2), k / 10, np.float32) for k in range(4)]
    items = [world.add(SHEET, material="asphalt", texture=image) for image in images]
    twice = world.add(SHEET, material="asphalt", texture=images[1])
    world.remove(items[1])
    np.testing.assert_array_equal(world.textures[1], images[1])
    world.remove(twice)
    np.testing.assert_array_equal(world.textures[1], [[1.0]])
    new = world.add(SHEET, material="asphalt", texture=np.full((2, 2), 0.9, np.float32))
    assert new.parts[0].texture == 1
    np.testing.assert_array_equal([world.textures[k][0, 0] for k in range(4)], np.float32([0.0, 0.9, 0.2, 0.3]))
    for item in world.objects:
        world.remove(item)
    assert world.textures == []


def test_a_texture_file_is_not_read_again_when_its_object_is_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from PIL import Image

    Image.fromarray(np.full((4, 4), 128, np.uint8)).save(tmp_path / "grey.png")
    world = World()
    item = world.add(SHEET, material="asphalt", texture=tmp_path / "grey.png")
    monkeypatch.setattr(texture_rows, "texture_image", None)
    world.remove(item)
    assert world.add(SHEET, material="asphalt", texture=tmp_path / "grey.png").parts[0].texture == 0
    assert world.texture_files == {0: tmp_path / "grey.png"}


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda world: pickle.loads(pickle.dumps(world))])
def test_textures_of_a_copy_are_its_own(copier: object) -> None:
    """Arrays are known by their id, and an id of the old array may be that of another array later."""
    world, image = World(), np.full((2, 2), 0.25, np.float32)
    world.add(SHEET, material="asphalt", texture=image)
    other: World = copier(world)  # type: ignore[operator]
    assert other.textures is other._textures.images
    assert (id(image),) not in other._textures._row_of
    item = other.add(SHEET, material="asphalt", texture=image)
    assert item.parts[0].texture == 1
    assert len(world.textures) == 1
    assert other.add(SHEET, material="asphalt", texture=other._textures._given[0][1]).parts[0].texture == 0


def test_a_mesh_file_written_anew_replaces_the_old_one(tmp_path: Path) -> None:
    world, file = World(), tmp_path / "box.ply"
    for size in (1, 2, 3):
        shapes.box(size, 1, 1).as_trimesh().export(file)
        os.utime(file, ns=(size * 10**9, size * 10**9))
        world.add(file, material="steel")
    assert len(world._meshes._files) == 1
    assert [round(float(np.ptp(item.parts[0].placed[:, 0]))) for item in world.objects] == [1, 2, 3]
