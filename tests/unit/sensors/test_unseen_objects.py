"""Objects that a lidar cannot see, and the order of adding objects, leave its scans unchanged to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph

OBJECTS = {
    "ground": (ph.shapes.plane(60, 60), "concrete", (0, 0, 0)),
    "wall": (ph.shapes.box(0.3, 12, 6), "brick", (9, 0, 3)),
    "post": (ph.shapes.cylinder(0.2, 3), "wood", (5, 2, 1.5)),
}
UNSEEN = {"buried": (0, 0, -5), "behind the wall": (14, 0, 1)}


def scan(order: list[str], *, unseen_first: bool | None, weather: ph.Weather | None) -> ph.Scan:
    """Scan of the yard with an actor; unseen boxes are added before or after the other objects, or not at all."""
    world = ph.World("yard")

    def add_unseen() -> None:
        for at in UNSEEN.values():
            world.add(ph.shapes.box(0.2, 0.2, 0.2), material="steel", label="box", pose=ph.Pose(at))

    if unseen_first is True:
        add_unseen()
    for name in order:
        shape, material, at = OBJECTS[name]
        world.add(shape, material=material, label=name, pose=ph.Pose(at))
    path = ph.Waypoints([0.0, 10.0], [ph.Pose((4, -4, 1)), ph.Pose((4, 4, 1))])
    world.add_actor(ph.shapes.box(1, 1, 1.5), material="rubber", label="actor", trajectory=path)
    if unseen_first is False:
        add_unseen()
    world.weather = weather
    return ph.Lidar("velodyne/vlp-16").scan(world, pose=ph.Pose((0, 0, 1.5)), time=3.0, seed=5)


@pytest.mark.parametrize("weather", [None, ph.Weather(rain_rate_mm_h=50, visibility_m=200)], ids=["clear", "wet"])
@pytest.mark.parametrize(
    ("order", "unseen_first"),
    [
        (["post", "wall", "ground"], None),
        (["ground", "wall", "post"], True),
        (["ground", "wall", "post"], False),
        (["wall", "post", "ground"], True),
    ],
)
def test_scans_are_the_same_to_the_bit(order: list[str], unseen_first: bool | None, weather: ph.Weather | None) -> None:
    before = scan(["ground", "wall", "post"], unseen_first=None, weather=weather)
    after = scan(order, unseen_first=unseen_first, weather=weather)
    assert np.array_equal(before.xyz, after.xyz)
    for name in ("range", "intensity", "power", "reflectivity", "ring", "shot", "origin"):
        assert np.array_equal(before.fields[name], after.fields[name]), name
