"""World: adding, removing, parts, labels, hiding, actors, geometry."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import trimesh
from hypothesis import given
from hypothesis import strategies as st

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.trajectory import ConstantTwist
from parhelion.surfaces.library import material
from parhelion.surfaces.material import Material, SpectrumTable
from parhelion.world import LABELS, Mesh, World, label_id, label_name, shapes

TRIANGLE = (np.array([[0.0, 0, 0], [2, 0, 0], [0, 1, 0]]), np.array([[0, 1, 2]]))


# ---- Mesh --------------------------------------------------------------------------------------------------------


def test_mesh_knows_its_size() -> None:
    mesh = Mesh(*TRIANGLE)
    assert mesh.area() == 1.0
    np.testing.assert_array_equal(mesh.bounds, [[0, 0, 0], [2, 1, 0]])
    assert mesh.scaled(3.0).area() == pytest.approx(9.0)
    assert mesh.scaled((1, 2, 1)).area() == pytest.approx(2.0)
    assert mesh.as_trimesh().area == 1.0


def test_mesh_transforms_as_the_pose_does() -> None:
    pose = Pose(xyz=(1, 2, 3), rpy_deg=(10, -20, 130))
    moved = Mesh(*TRIANGLE).transformed(pose)
    np.testing.assert_allclose(moved.vertices, pose.apply(TRIANGLE[0]), atol=1e-12)


def test_merged_meshes_keep_their_triangles_and_uvs() -> None:
    uv = np.arange(6, dtype=np.float32).reshape(1, 3, 2)
    both = Mesh.merged([Mesh(*TRIANGLE), Mesh(TRIANGLE[0] + 5.0, TRIANGLE[1], uv)])
    np.testing.assert_array_equal(both.faces, [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(both.vertices[3:], TRIANGLE[0] + 5.0)
    assert both.uv is not None
    np.testing.assert_array_equal(both.uv, np.concatenate([np.zeros_like(uv), uv]))
    assert Mesh.merged([Mesh(*TRIANGLE)] * 2).uv is None
    np.testing.assert_array_equal(both.select(np.array([False, True])).vertices, TRIANGLE[0] + 5.0)


def test_mesh_drops_triangles_without_area_and_says_how_many() -> None:
    faces = np.array([[0, 1, 2], [0, 0, 1], [0, 1, 3]])
    vertices = np.vstack([TRIANGLE[0], [[1.0, 0, 0]]])
    with pytest.warns(UserWarning, match="dropped 2 triangles without area of 3"):
        mesh = Mesh(vertices, faces)
    np.testing.assert_array_equal(mesh.faces, [[0, 1, 2]])


def test_a_thin_triangle_far_from_the_origin_is_kept() -> None:
    mesh = Mesh(np.array([[6e6, 0, 0], [6e6 + 10, 0, 0], [6e6, 1e-4, 0]]), np.array([[0, 1, 2]]))
    assert mesh.area() == pytest.approx(5e-4, rel=1e-3)


@pytest.mark.parametrize(
    ("vertices", "faces", "message"),
    [
        ([[0, 0, 0], [1, np.nan, 0], [0, 1, 0]], [[0, 1, 2]], "finite, but 1 are not, the first is vertex 1"),
        ([[0, 0, 0], [1, np.inf, 0], [0, 1, 0]], [[0, 1, 2]], "finite"),
        ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 3]], "face index 3 is outside 0 to 2"),
        ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, -1]], "face index -1 is outside"),
        ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.zeros((0, 3), int), "zero-area mesh"),
        (np.zeros((0, 3)), [[0, 1, 2]], "zero-area mesh"),
        ([[0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 1, 2]], "zero-area mesh"),
        ([[0, 0], [1, 0], [2, 0]], [[0, 1, 2]], r"shape \(n, 3\)"),
        ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0.0, 1.0, 2.0]], "whole numbers"),
        ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2, 2]], r"shape \(m, 3\)"),
        ([[0, 0, 0], [1e10, 0, 0], [0, 1, 0]], [[0, 1, 2]], "within 1e\\+09 m"),
    ],
)
def test_bad_meshes_are_refused(vertices: object, faces: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        World().add((vertices, faces))  # type: ignore[arg-type]


def test_meshes_do_not_follow_the_arrays_they_were_made_from() -> None:
    vertices = TRIANGLE[0].copy()
    mesh = Mesh(vertices, TRIANGLE[1])
    vertices[:] = 9.0
    assert mesh.area() == 1.0
    with pytest.raises(ValueError, match="read-only"):
        mesh.vertices[0, 0] = 1.0


# ---- labels ------------------------------------------------------------------------------------------------------


def test_labels_have_the_numbers_of_semantic_kitti() -> None:
    assert (label_id("car"), label_id("road"), label_id("building"), label_id("vegetation")) == (10, 40, 50, 70)
    assert (label_id("object"), label_id("vessel"), label_id("machine")) == (100, 105, 109)
    assert label_name(81) == "traffic-sign"
    assert len(set(LABELS.values())) == len(LABELS)
    with pytest.raises(ConfigError, match="did you mean 'building'"):
        label_id("bilding")
    with pytest.raises(ConfigError, match="12345"):
        label_name(12345)


def test_own_labels_get_numbers_in_order_of_use_that_are_nobody_elses() -> None:
    world = World()
    for word in ("building", "robot-arm", "gizmo", "robot-arm"):
        world.add(TRIANGLE, label=word)
    own = [number for number in world.label_names if number not in LABELS.values()]
    assert own == [260, 261]
    assert world.label_names == {50: "building", 260: "robot-arm", 261: "gizmo"}
    np.testing.assert_array_equal(world.parts.label, [50, 260, 261, 260])
    with pytest.raises(ConfigError, match="label"):
        world.add(TRIANGLE, label="")


# ---- objects, parts and materials -------------------------------------------------------------------------------


def test_parts_say_what_each_triangle_is() -> None:
    world = World("yard")
    ground = world.add(shapes.plane(10, 10), material="asphalt", label="road", instance=0)
    crate = world.add(shapes.box(1, 1, 1), material="wood", label="object", pose=Pose(xyz=(2, 0, 0.5)))
    world.add(shapes.box(2, 2, 2), material="asphalt", pose=Pose(xyz=(-3, 0, 1)))
    parts, scene = world.parts, world.geometry().static
    assert [m.name for m in world.materials] == ["asphalt", "wood"]
    np.testing.assert_array_equal(parts.material, [0, 1, 0])
    np.testing.assert_array_equal(parts.label, [40, 100, 100])
    np.testing.assert_array_equal(parts.instance, [0, 1, 2])
    np.testing.assert_array_equal(parts.object_index, [0, 1, 2])
    np.testing.assert_array_equal(np.bincount(scene.part), [2, 12, 12])
    crate_points = scene.vertices[scene.faces[scene.part == crate.parts[0].number]].reshape(-1, 3)
    np.testing.assert_allclose([crate_points.min(0), crate_points.max(0)], [[1.5, -0.5, 0], [2.5, 0.5, 1]])
    assert world.triangle_count == 26
    assert ground.triangle_count == 2
    assert "3 objects" in repr(world)
    np.testing.assert_allclose(world.bounds, [[-5, -5, 0], [5, 5, 2]])


def test_an_empty_world_is_a_world() -> None:
    world = World()
    assert len(world.geometry().static) == 0
    assert world.geometry().actors == []
    assert world.bounds is None
    assert len(world.parts) == 0
    assert world.triangle_count == 0
    np.testing.assert_array_equal(world.viewpoint.xyz, [0, 0, 2])


def test_removing_keeps_the_numbers_of_the_others() -> None:
    world = World()
    first = world.add(TRIANGLE)
    second = world.add(TRIANGLE, label="car")
    version = world.version
    world.remove(first)
    assert world.version > version
    assert world.objects == [second]
    np.testing.assert_array_equal(world.geometry().static.part, [second.parts[0].number])
    assert world.parts.label[second.parts[0].number] == 10
    third = world.add(TRIANGLE)
    assert third.index == 2
    with pytest.raises(ConfigError, match="not in this world"):
        world.remove(first)
    with pytest.raises(ConfigError, match="not in this world"):
        World().remove(second)


def test_geometry_is_kept_until_the_world_changes() -> None:
    world = World()
    world.add(TRIANGLE)
    scene = world.geometry("lidar")
    assert world.geometry("lidar", "velodyne/vlp-16") is scene
    world.add(TRIANGLE)
    assert world.geometry("lidar") is not scene
    assert len(world.geometry("lidar").static) == 2


def test_instances_are_distinct_unless_shared_on_purpose() -> None:
    world = World()
    numbers = [world.add(TRIANGLE, instance=i).instance for i in (None, 2, None, 2, None, 0)]
    assert numbers == [1, 2, 3, 2, 4, 0]
    for wrong in (-1, 2**32, 1.5, True):
        with pytest.raises(ConfigError, match="instance"):
            world.add(TRIANGLE, instance=wrong)  # type: ignore[arg-type]


def test_materials_by_name_and_own() -> None:
    world = World()
    paint = Material(
        name="my-paint", sources=["test"], spectrum=SpectrumTable(wavelength_um=[0.4, 2.0], reflectance=[0.4, 0.4])
    )
    world.add(TRIANGLE, material=paint)
    world.add(TRIANGLE, material="my-paint")
    world.add(TRIANGLE)
    assert [m.name for m in world.materials] == ["my-paint", "concrete"]
    np.testing.assert_array_equal(world.parts.material, [0, 0, 1])
    other = paint.model_copy(update={"description": "another"})
    with pytest.raises(ConfigError, match="another material named 'my-paint'"):
        world.add(TRIANGLE, material=other)
    with pytest.raises(ConfigError, match="did you mean 'asphalt'"):
        world.add(TRIANGLE, material="asfalt")
    with pytest.raises(ConfigError, match="material must be"):
        world.add(TRIANGLE, material=7)  # type: ignore[arg-type]


def test_trimesh_meshes_and_scenes_are_taken() -> None:
    world = World()
    box = trimesh.creation.box((1, 2, 3))
    assert world.add(box, material="steel").triangle_count == 12
    scene = trimesh.Scene()
    scene.add_geometry(box, transform=trimesh.transformations.translation_matrix((10, 0, 0)))
    placed = world.add(scene)
    np.testing.assert_allclose(placed.bounds(), [[9.5, -1, -1.5], [10.5, 1, 1.5]])
    with pytest.raises(ConfigError, match="no triangles"):
        world.add(trimesh.PointCloud(np.zeros((3, 3))))
    with pytest.raises(ConfigError, match="a mesh must be"):
        world.add(42)  # type: ignore[arg-type]


def test_scale_acts_before_the_pose() -> None:
    item = World().add(shapes.box(1, 1, 1), scale=2.0, pose=Pose(xyz=(10, 0, 0)))
    np.testing.assert_allclose(item.bounds(), [[9, -1, -1], [11, 1, 1]])
    for wrong in (0.0, -1.0, np.nan):
        with pytest.raises(ConfigError, match="scale"):
            World().add(shapes.box(1, 1, 1), scale=wrong)


# ---- hidden objects ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hidden_from", "sensor", "seen"),
    [
        ((), ("lidar",), True),
        (("lidar",), ("lidar",), False),
        (("lidar",), ("radar",), True),
        ("radar", ("radar",), False),
        (("velodyne/vlp-16",), ("lidar", "velodyne/vlp-16"), False),
        (("velodyne/vlp-16",), ("lidar", "ouster/os1-128"), True),
        (("velodyne/*",), ("lidar", "velodyne/hdl-64e"), False),
        (("*",), ("camera",), False),
        (("LIDAR",), ("lidar",), False),
    ],
)
def test_hidden_objects_are_left_out(hidden_from: tuple[str, ...], sensor: tuple[str, ...], seen: bool) -> None:
    world = World()
    world.add(TRIANGLE)
    world.add(TRIANGLE, hidden_from=hidden_from)
    world.add_actor(TRIANGLE, trajectory=Pose(), hidden_from=hidden_from)
    scene = world.geometry(*sensor)
    assert len(scene.static) == 1 + seen
    assert len(scene.actors) == int(seen)


def test_hidden_from_must_hold_names() -> None:
    for wrong in ((3,), ("",), 5):
        with pytest.raises(ConfigError, match="hidden_from"):
            World().add(TRIANGLE, hidden_from=wrong)  # type: ignore[arg-type]


# ---- actors ------------------------------------------------------------------------------------------------------


def test_actors_are_bodies_of_their_own() -> None:
    world = World()
    world.add(shapes.plane(4, 4), material="asphalt", label="road")
    motion = ConstantTwist(Pose(xyz=(1, 0, 0)), velocity=(10.0, 0, 0))
    truck = world.add_actor(shapes.box(1, 1, 1), material="car-paint-white", label="truck", trajectory=motion)
    scene = world.geometry()
    assert len(scene.static) == 2
    assert len(scene.actors) == 1
    assert scene.actors[0].trajectory is motion
    np.testing.assert_array_equal(np.unique(scene.actors[0].triangles.part), [truck.parts[0].number])
    np.testing.assert_allclose(scene.actors[0].triangles.vertices.max(0), [0.5, 0.5, 0.5])
    np.testing.assert_allclose(truck.bounds(time=2.0)[0], [20.5, -0.5, -0.5])
    assert world.parts.label[truck.parts[0].number] == 18
    assert truck.is_actor
    with pytest.raises(ConfigError, match="trajectory"):
        world.add_actor(TRIANGLE, trajectory="fast")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="pose: must be a Pose"):
        world.add(TRIANGLE, pose=(1, 2, 3))  # type: ignore[arg-type]


# ---- textures ----------------------------------------------------------------------------------------------------


def test_textures_need_uvs_and_are_shared() -> None:
    world = World()
    image = np.array([[0, 255], [255, 0]], dtype=np.uint8)
    plain = world.add(shapes.box(1, 1, 1))
    board = world.add(shapes.box(1, 1, 1), texture=image)
    again = world.add(shapes.box(1, 1, 1), texture=image)
    np.testing.assert_array_equal(world.parts.texture, [-1, 0, 0])
    np.testing.assert_array_equal(world.textures[0], [[0, 1], [1, 0]])
    scene = world.geometry().static
    assert scene.uv is not None
    np.testing.assert_array_equal(scene.uv[scene.part == board.parts[0].number], shapes.box(1, 1, 1).uv)
    assert not scene.uv[scene.part == plain.parts[0].number].any()
    world.remove(board)
    world.remove(again)
    assert world.geometry().static.uv is None
    with pytest.raises(ConfigError, match="UV"):
        world.add(shapes.sphere(1.0), texture=image)
    with pytest.raises(ConfigError, match="within 0 to 1"):
        world.add(shapes.box(1, 1, 1), texture=np.array([[2.0]]))


# ---- viewpoint ---------------------------------------------------------------------------------------------------


def test_the_default_viewpoint_stands_on_the_ground() -> None:
    world = World()
    world.add(shapes.plane(20, 20), pose=Pose(xyz=(5, 5, 1)))
    np.testing.assert_allclose(world.viewpoint.xyz, [5, 5, 3])
    world.add(shapes.plane(20, 20), pose=Pose(xyz=(5, 5, 9), rpy_deg=(180, 0, 0)), label="ceiling")
    np.testing.assert_allclose(world.viewpoint.xyz, [5, 5, 3])
    world.viewpoint = Pose(xyz=(1, 1, 1))
    np.testing.assert_allclose(world.viewpoint.xyz, [1, 1, 1])


def test_the_default_viewpoint_is_not_inside_a_solid() -> None:
    world = World()
    world.add(shapes.box(10, 10, 10), pose=Pose(xyz=(0, 0, 5)))
    assert world.viewpoint.xyz[2] == pytest.approx(12.0)


# ---- many objects ------------------------------------------------------------------------------------------------


def test_thousands_of_objects_are_cheap() -> None:
    ball = shapes.sphere(0.5, 1)
    mesh = Mesh.merged([ball, shapes.box(1, 1, 1), shapes.box(2, 2, 2)])
    world = World()
    for row in range(3000):
        world.add(mesh, material="steel", label="machine", pose=Pose(xyz=(row, 0, 0), rpy_deg=(0, 0, row)))
    start = time.process_time()
    scene = world.geometry()
    took = time.process_time() - start
    assert len(scene.static) == world.triangle_count == 3000 * 104
    # 25 ms alone; other work on the same machine gets room.
    assert took < 0.5


@pytest.mark.slow
@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["steel", "wood"]), st.integers(0, 3)), max_size=12))
def test_geometry_and_parts_agree_after_any_changes(steps: list[tuple[bool, str, int]]) -> None:
    world = World()
    for moves, kind, victim in steps:
        if moves:
            world.add_actor(TRIANGLE, material=kind, trajectory=Pose())
        else:
            world.add(TRIANGLE, material=kind)
        if victim < len(world.objects) - 1:
            world.remove(world.objects[victim])
    scene, parts = world.geometry(), world.parts
    numbers = np.concatenate([scene.static.part, *(actor.triangles.part for actor in scene.actors)])
    assert sorted(numbers) == sorted(part.number for item in world.objects for part in item.parts)
    for item in world.objects:
        assert world.materials[parts.material[item.parts[0].number]] == item.parts[0].material
        assert parts.object_index[item.parts[0].number] == item.index


def test_load_names_what_it_does_not_know(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown world"):
        World.load("no-such-world-at-all")
    with pytest.raises(ConfigError, match="no such file"):
        World.load(tmp_path / "absent.obj")
    with pytest.raises(ConfigError, match="a name or a path"):
        World.load(3)  # type: ignore[arg-type]


def test_material_objects_equal_to_the_librarys_are_one_material() -> None:
    world = World()
    world.add(TRIANGLE, material="steel")
    world.add(TRIANGLE, material=material("steel").model_copy())
    assert len(world.materials) == 1
