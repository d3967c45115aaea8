"""Lamps: in worlds, in files, on actors, and as a table."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.core.trajectory import ConstantTwist, pose_at
from parhelion.motion.actors.vehicles import add_car
from parhelion.sensors.optics.camera.lights import lamp_table, lamps_lit
from parhelion.sensors.optics.sky import clear_sky
from parhelion.surfaces.bands import named_band, radiant_per_lumen
from parhelion.weather.daylight import direction
from parhelion.world.emitters import Lamp

RGB = [named_band(name) for name in ("red", "green", "blue")]
NORTHWARD = ConstantTwist(ph.Pose((5.0, 0.0, 0.0), rpy_deg=(0.0, 0.0, 90.0)), (0.0, 2.0, 0.0))


def test_flux_and_intensity() -> None:
    assert Lamp(xyz=(0, 0, 1), flux_lm=100.0).candela == pytest.approx(100.0 / (4.0 * math.pi))
    cone = Lamp(xyz=(0, 0, 1), flux_lm=100.0, inner_deg=0.0, outer_deg=90.0)
    assert cone.solid_angle_sr == pytest.approx(math.pi)
    assert Lamp(xyz=(0, 0, 1), intensity_cd=7.0, inner_deg=10.0, outer_deg=20.0).candela == 7.0


def test_the_cone_holds_the_flux() -> None:
    world = ph.World()
    world.add_lamp((0, 0, 5), flux_lm=1000.0, inner_deg=30.0, outer_deg=70.0, colour_temperature_k=4000.0)
    table = lamp_table(world, RGB)
    cosine = (np.arange(200_000) + 0.5) / 100_000 - 1.0
    s = np.clip((cosine - table.cos_outer[0]) / (table.cos_inner[0] - table.cos_outer[0]), 0.0, 1.0)
    flux = 4.0 * np.pi * np.mean(s * s * (3.0 - 2.0 * s)) * table.intensity[0]
    assert flux == pytest.approx([1000.0 * radiant_per_lumen(4000.0, band) for band in RGB], rel=1e-4)


def test_a_lamp_all_around_shines_straight_back_too() -> None:
    world = ph.World()
    world.add_lamp(np.array([0.0, 0.0, 5.0]), intensity_cd=1.0)
    table = lamp_table(world, RGB)
    assert (-1.0 - table.cos_outer[0]) / (table.cos_inner[0] - table.cos_outer[0]) >= 1.0
    assert table.actor.tolist() == [-1]


def test_lamps_leave_the_version_and_the_geometry_alone() -> None:
    world = ph.World()
    world.add(ph.shapes.box(1, 1, 1), material="concrete")
    version, geometry = world.version, world.geometry("lidar")
    lamp = world.add_lamp((0, 0, 5), flux_lm=10.0)
    assert world.version == version
    assert world.geometry("lidar") is geometry
    world.remove_lamp(lamp)
    assert world.lamps == ()
    with pytest.raises(ConfigError, match="not in this world"):
        world.remove_lamp(lamp)


def test_when_lamps_are_lit() -> None:
    world = ph.World()
    for lit in ("night", "always", "never"):
        world.add_lamp((0, 0, 5), flux_lm=10.0, lit=lit)
    assert len(lamp_table(world, RGB, night=True)) == 2
    assert len(lamp_table(world, RGB, night=False)) == 1
    assert lamps_lit(clear_sky(RGB, direction(-6.0, 0.0)))
    assert not lamps_lit(clear_sky(RGB, direction(10.0, 0.0)))


def test_low_beams_drive_along_and_parked_cars_are_dark() -> None:
    world = ph.World()
    add_car(world, ph.Pose((20.0, 0.0, 0.0)))
    assert world.lamps == ()
    car = add_car(world, NORTHWARD)
    table = lamp_table(world, RGB)
    assert table.actor.tolist() == [0, 0]
    assert world.geometry("camera").actors[0].trajectory is car.objects[0].trajectory
    for time in (0.0, 3.0):
        pose = pose_at(NORTHWARD, time)
        position, axis = pose.apply(table.position), table.direction @ pose.rotation.T
        assert position.mean(axis=0) == pytest.approx([5.0, 2.32 + 2.0 * time, 0.62], abs=1e-6)
        assert np.all(axis[:, 1] > 0.99)
    world.remove(car.objects[0])
    assert world.lamps == ()


def test_lamps_of_actors_that_a_sensor_does_not_see_are_left_out() -> None:
    world = ph.World()
    hidden = world.add_actor(
        ph.shapes.box(1, 1, 1), material="steel", trajectory=NORTHWARD, hidden_from="camera", name="a"
    )
    seen = world.add_actor(ph.shapes.box(1, 1, 1), material="steel", trajectory=NORTHWARD, name="b")
    for carrier in (hidden, seen):
        world.add_lamp((1, 0, 0), carrier=carrier, flux_lm=10.0)
    assert lamp_table(world, RGB).actor.tolist() == [0]
    assert lamp_table(world, RGB, sensor=("other",)).actor.tolist() == [0, 1]


def test_a_lamp_on_something_that_stands_is_put_into_the_world() -> None:
    world = ph.World()
    pole = world.add(
        ph.shapes.box(1, 1, 1), material="steel", pose=ph.Pose((3.0, 0.0, 0.0), rpy_deg=(0, 0, 90)), name="pole"
    )
    world.add_lamp((1, 0, 4), actor="pole", direction=(2, 0, 0), inner_deg=10, outer_deg=20, flux_lm=10.0)
    table = lamp_table(world, RGB)
    assert table.position[0] == pytest.approx([3.0, 1.0, 4.0])
    assert table.direction[0] == pytest.approx([0.0, 1.0, 0.0], abs=1e-12)
    world.remove(pole)
    assert world.lamps == ()


def test_world_files_hold_lamps(tmp_path: Path) -> None:
    world = ph.World.load("mixed-objects")
    before = len(world.lamps)
    world.add_lamp((1, 2, 3), intensity_cd=5.0, name="torch", lit="always")
    for x in (0.0, 30.0):
        motion = ConstantTwist(ph.Pose((x, 0.0, 0.0)), (1.0, 0.0, 0.0))
        add_car(world, motion)
    world.save(tmp_path / "w.yaml")
    again = ph.World.load(tmp_path / "w.yaml")
    assert before == 1
    assert [entry.lamp.lit for entry in again.lamps] == [entry.lamp.lit for entry in world.lamps]
    ours, theirs = (lamp_table(one, RGB) for one in (world, again))
    for name in ("position", "direction", "intensity"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name))
    actors, actors_again = (one.geometry("camera").actors for one in (world, again))
    for row, row_again in zip(ours.actor, theirs.actor, strict=True):
        assert (row < 0) == (row_again < 0)
        if row >= 0:
            one, other = (pose_at(on.trajectory, 2.0) for on in (actors[row], actors_again[row_again]))
            assert one.xyz == pytest.approx(other.xyz)
            assert one.rotation == pytest.approx(other.rotation)


def test_a_base_that_lost_a_lamp_is_written_whole(tmp_path: Path) -> None:
    world = ph.World.load("mixed-objects")
    world.remove_lamp(world.lamps[0])
    world.save(tmp_path / "w.yaml")
    again = ph.World.load(tmp_path / "w.yaml")
    assert again.lamps == ()
    assert again.triangle_count == world.triangle_count


def test_a_wrong_lamp_in_a_file_names_file_and_field(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("lamps:\n- {xyz: [0, 0, 1], flux_lm: 5, actor: ghost}\n")
    with pytest.raises(ConfigError, match=r"w.yaml: lamps\[0\]: .*ghost"):
        ph.World.load(file)
    file.write_text("lamps:\n- {xyz: [0, 0, 1]}\n")
    with pytest.raises(ConfigError, match=r"lamps\[0\]: give flux_lm or intensity_cd"):
        ph.World.load(file)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"flux_lm": 1.0, "intensity_cd": 1.0}, "give flux_lm or intensity_cd"),
        ({"flux_lm": 1.0, "inner_deg": 3.0}, "give both inner_deg and outer_deg"),
        ({"flux_lm": 1.0, "inner_deg": 30.0, "outer_deg": 20.0}, "below outer_deg"),
        ({"flux_lm": 1.0, "direction": (0, 0, 0)}, "length above 0"),
        ({"flux_lm": -1.0}, "flux_lm"),
        ({"flux_lm": 1.0, "lit": "off"}, "lit"),
        ({"flux_lm": 1.0, "actor": 7}, "instance number 7"),
        ({"flux": 1.0}, "flux_lm"),
    ],
)
def test_what_is_no_lamp(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ph.World().add_lamp((0, 0, 1), **fields)


def test_the_city_has_street_lamps_over_its_poles() -> None:
    world = ph.World.load("city")
    heads = [item for item in world.objects if item.name.startswith("lamp") and item.name.endswith("/head")]
    assert len(world.lamps) == len(heads) > 20
    lower, upper = heads[0].bounds()
    x, y, z = world.lamps[0].lamp.xyz
    assert lower[0] <= x <= upper[0]
    assert lower[1] <= y <= upper[1]
    assert 0.0 < lower[2] - z < 0.2
