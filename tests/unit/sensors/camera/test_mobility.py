"""Mobility of pixels: static, movable and moving objects."""

from __future__ import annotations

import numpy as np

import parhelion as ph
from parhelion.core.image import MOBILITY
from parhelion.core.trajectory import ConstantTwist
from parhelion.motion.actors import set_mobility
from parhelion.sensors.optics.camera.truth import mobility_codes


def yard() -> ph.World:
    world = ph.World("yard")
    world.add(ph.shapes.plane(60, 60), material="asphalt", label="road", instance=0)
    parked = world.add(ph.shapes.box(1, 1, 1), material="steel", label="car", pose=ph.Pose((8, 2, 0.5)), instance=1)
    set_mobility(world, parked.instance, "movable")
    moving = ConstantTwist(ph.Pose((8, -2, 0.5)), (1.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.0)
    world.add_actor(ph.shapes.box(1, 1, 1), trajectory=moving, material="steel", label="car", instance=2)
    turning = ConstantTwist(ph.Pose((8, 4, 0.5)), (0.0, 0.0, 0.0), (0.0, 0.0, 0.5), 0.0)
    world.add_actor(ph.shapes.box(1, 1, 1), trajectory=turning, material="steel", label="machine", instance=3)
    world.add_actor(ph.shapes.box(1, 1, 1), trajectory=ph.Pose((8, -4, 0.5)), material="steel", instance=4)
    return world


def test_codes_of_instances():
    assert mobility_codes(yard(), 0.0, 0.1) == {0: 1, 1: 2, 2: 3, 3: 3, 4: 2}
    assert MOBILITY[3] == "moving"


def test_parked_cars_and_people_of_a_layout_can_move():
    world = ph.World.load("city", blocks=2, trees=0)
    codes = mobility_codes(world, 0.0, 0.1)
    of_label = {name: {codes[item.instance] for item in world.objects if item.label == name} for name in
                ("building", "car", "person", "road")}  # fmt: skip
    assert of_label == {"building": {1}, "car": {2}, "person": {2}, "road": {1}}


def test_every_pixel_has_the_code_of_its_object():
    camera = ph.Camera("generic/vga", truth=("instance", "mobility", "depth"), picture=False)
    image = camera.shoot(yard(), pose=ph.Pose((0, 0, 1.5)), time=0.0, seed=1)
    assert image.mobility.dtype == np.uint8
    assert image.names["mobility"] == MOBILITY
    codes = np.array([1, 2, 3, 3, 2], np.uint8)
    seen = np.isfinite(image.depth)
    assert np.array_equal(image.mobility[seen], codes[image.instance[seen]])
    assert not image.mobility[~seen].any()
    assert set(np.unique(image.mobility)) == {0, 1, 2, 3}
