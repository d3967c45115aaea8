"""Robots in worlds: actors, materials, what a lidar sees of them, and what it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.world.urdf import Robot, load_urdf
from parhelion.world.urdf.shapes import nearest_paint
from rigs import sheet
from urdf_rigs import write_rover, written


@pytest.fixture(scope="module")
def rover(tmp_path_factory: pytest.TempPathFactory) -> Robot:
    return load_urdf(write_rover(tmp_path_factory.mktemp("workspace")))


def added(rover: Robot, world: ph.World, motion: Any, **options: Any) -> Any:
    with pytest.warns(UserWarning, match="materials guessed: 'blue' -> 'car-paint-blue', 'odd' -> 'car-paint-white'"):
        return rover.add_to(world, motion, **options)


def test_every_visual_becomes_an_actor_of_one_instance(rover: Robot) -> None:
    world = ph.World()
    world.add(ph.shapes.box(1, 1, 1), label="other", pose=ph.Pose((0, 50, 0)))
    items = added(rover, world, ph.Pose((10, 0, 0)))
    assert {item.name for item in items} == {
        "rover/base_link/hull", "rover/wheel/0", "rover/arm/0", "rover/lift/0", "rover/velodyne_base_link/0",
    }  # fmt: skip
    assert {item.label for item in items} == {"robot"}
    assert len({item.instance for item in items}) == 1
    assert items[0].instance != world.objects[0].instance
    assert [item.parts[0].material.name for item in items] == [
        "steel", "rubber", "car-paint-blue", "car-paint-white", "plastic",
    ]  # fmt: skip


def test_a_scan_sees_the_robot_where_it_is(rover: Robot) -> None:
    world = ph.World()
    # It looks back at the lidar and drives away from 10 m at 5 m/s; its arm is turned aside.
    motion = ph.ConstantTwist(ph.Pose((10, 0, 0), rpy_deg=(0, 0, 180)), velocity=(5, 0, 0))
    items = added(rover, world, motion, joint_positions={"arm_joint": 1.5})
    scan = ph.Lidar(sheet()).scan(world, pose=ph.Pose(), time=2.0, seed=1)
    assert len(scan.xyz) > 0
    assert {world.label_names[number] for number in scan.label} == {"robot"}
    assert set(scan.instance) == {items[0].instance}
    near = np.abs(scan.xyz[:, 1]) < 0.05
    # The hull's front face, 1 m ahead of the base: at 20 - 1 m, and up to 0.1 s x 5 m/s farther while the scan lasts.
    centre = scan.xyz[near & (np.abs(scan.xyz[:, 2]) < 0.05)]
    assert len(centre) > 0
    assert np.all((centre[:, 0] > 19 - 0.1) & (centre[:, 0] < 19.5 + 0.1))


def test_joint_positions_move_what_is_seen(rover: Robot) -> None:
    world = ph.World()
    items = added(rover, world, ph.Pose((0, 0, 5)), joint_positions={"lift_joint": 0.5, "arm_joint": -1})
    lift = next(item for item in items if item.name == "rover/lift/0")
    centre = np.mean(lift.bounds(), axis=0)
    expected = ph.Pose((0, 0, 5)).apply(rover.link_poses({"lift_joint": 0.5, "arm_joint": -1})["lift"].xyz)
    np.testing.assert_allclose(centre, expected, atol=2e-3)  # a sphere of triangles is not quite as wide every way


def test_a_lidar_looks_out_of_its_own_housing(rover: Robot) -> None:
    for hide, expected in ((True, "board"), (False, None)):
        world = ph.World()
        world.add(ph.shapes.board(20, 20), material="lambert-50", label="board", pose=ph.Pose((-20, 0, 0)))
        items = added(rover, world, ph.Pose(), hide_housings=hide)
        mount = rover.link_poses()["velodyne_base_link"] @ ph.Pose(rpy_deg=(0, 0, 180))
        scan = ph.Lidar(sheet()).scan(world, trajectory=ph.Fixed(ph.Pose()), mount=mount, seed=1)
        seen = {world.label_names[number] for number in scan.label}
        assert seen == ({expected} if expected else set())
        assert [item.name for item in items if item.hidden_from] == (["rover/velodyne_base_link/0"] if hide else [])


def test_materials_and_hiding_can_be_given(rover: Robot) -> None:
    world = ph.World()
    items = rover.add_to(
        world, ph.Pose(), materials={"arm": "aluminium", "odd": "glass"}, material="wood", label="machine",
        hidden_from={"arm": "camera", "wheel": ["lidar", "radar"]}, instance=77, name="r1",
    )  # fmt: skip
    assert [item.parts[0].material.name for item in items] == ["wood", "wood", "aluminium", "glass", "wood"]
    assert [item.hidden_from for item in items] == [(), ("lidar", "radar"), ("camera",), (), ("lidar",)]
    assert {(item.instance, item.label) for item in items} == {(77, "machine")}
    assert items[0].name == "r1/base_link/hull"
    (ball,) = rover.add_to(world, ph.Pose(), shapes="collision", material="wood", hidden_from="lidar")
    assert ball.hidden_from == ("lidar",)
    assert ball.name == "rover/base_link/0"


def test_materials_of_mesh_files_are_kept_apart(tmp_path: Path) -> None:
    corners = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n"
    (tmp_path / "m.obj").write_text(corners + "usemtl Rubber\nf 1 2 3\nusemtl Aluminium.001\nf 1 2 4\n")
    shape = '<geometry><mesh filename="m.obj"/></geometry>'
    robot = load_urdf(written(tmp_path, f'<link name="a"><visual>{shape}</visual></link>'))
    items = robot.add_to(ph.World(), ph.Pose())
    assert {item.name: item.parts[0].material.name for item in items} == {
        "r/a/0/Rubber": "rubber",
        "r/a/0/Aluminium.001": "aluminium",
    }


def test_colours_and_nothing_at_all_are_guesses(tmp_path: Path) -> None:
    box = "<geometry><box size='1 1 1'/></geometry>"
    body = f"<link name='a'><visual>{box}</visual><visual>{box}<material name=''><color rgba='0.7 0.1 0 1'/></material>"
    robot = load_urdf(written(tmp_path, body + "</visual></link>"))
    with pytest.warns(UserWarning, match="no material -> 'plastic', colour 0.7 0.1 0 -> 'car-paint-red'"):
        robot.add_to(ph.World(), ph.Pose())
    assert nearest_paint((1, 1, 1, 1)) == "car-paint-white"
    assert nearest_paint((0, 0, 0, 1)) == "car-paint-black"


def test_a_robot_is_added_as_a_whole_or_not_at_all(rover: Robot) -> None:
    world = ph.World()
    with pytest.raises(ConfigError, match="unknown material 'unobtainium'"):
        rover.add_to(world, ph.Pose(), material="wood", materials={"arm": "unobtainium"})
    for options, message in (
        (
            {"materials": {"amr": "wood"}},
            "rover.urdf: materials: no link or material 'amr' in the file; did you mean 'arm'",
        ),
        ({"hidden_from": {"amr": "lidar"}}, "unknown link 'amr': did you mean 'arm'"),
        ({"hidden_from": 3}, "hidden_from: must be sensor kinds or names"),
        ({"shapes": "bones"}, "shapes: must be 'visual' or 'collision', got 'bones'"),
        ({"label": ""}, "label: must be a word"),
    ):
        with pytest.raises(ConfigError, match=message):
            rover.add_to(world, ph.Pose(), **{"material": "wood", **options})
    with pytest.raises(ConfigError, match="motion: must be a Pose or have sample"):
        rover.add_to(world, (1, 2, 3))  # type: ignore[arg-type]
    assert world.objects == []


def test_a_robot_without_shapes_cannot_be_added(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"r.urdf: no link has a visual shape"):
        load_urdf(written(tmp_path, '<link name="a"/>')).add_to(ph.World(), ph.Pose())
