"""Recorded numbers of people and road users: poses of their parts, and of those who react."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.motion import MotionLimits, SplineMotion
from parhelion.motion.actors import pedestrians, traffic
from parhelion.motion.actors.live import Footprint, LiveActors
from parhelion.motion.actors.road_users import ROAD_USERS
from pins import check, of_this_processor

pytestmark = of_this_processor

TIMES = np.array([0.0, 0.4, 1.3, 2.55, 4.0])


def loop(radius: float, x: float = 0.0, speed: float = 6.0) -> SplineMotion:
    turn = np.linspace(0.0, 2.0 * np.pi, 16, endpoint=False)
    points = np.column_stack([x + radius * np.cos(turn), 0.8 * radius * np.sin(turn), 0.2 * np.cos(turn)])
    return SplineMotion(points, limits=MotionLimits(speed, 1.5, 2.0), closed=True)


def sampled(world: ph.World) -> dict[str, Any]:
    """Places and orientations of all moving parts, and the sizes of all parts."""
    moving = [item for item in world.objects if item.trajectory is not None]
    places, quats = zip(*(item.trajectory.sample(TIMES) for item in moving), strict=True)  # type: ignore[union-attr]
    return {"count": len(world.objects), "places": places, "quats": np.abs(quats)}


@pytest.mark.parametrize("model", [*sorted(ROAD_USERS), "saloon"])
def test_vehicles_on_a_loop(model: str) -> None:
    world = ph.World()
    traffic(world, loop(30.0), 2, seed=3, duration_s=5.0, models=[model], wheels=True)
    check(f"actors/{model}", **sampled(world))


def test_people_on_a_loop() -> None:
    world = ph.World()
    pedestrians(world, loop(12.0, speed=2.0), 5, seed=3, duration_s=5.0)
    check("actors/pedestrians", **sampled(world))


def test_actors_who_react() -> None:
    """People meet and cross the lane of cars, between walls and around a vehicle of the scenario."""
    world = ph.World()
    world.add(ph.shapes.plane(100, 100), material="asphalt", label="road")
    for place in ((5.0, 11.5, 1.0), (-4.0, 8.5, 1.0)):
        world.add(ph.shapes.box(2, 0.5, 2), material="brick", label="wall", pose=ph.Pose(place))
    live = LiveActors(world, seed=4)
    pedestrians(world, [loop(12.0, speed=2.0), loop(9.0, 6.0, speed=2.0)], 24, seed=3, live=live)
    traffic(world, [loop(16.0), loop(16.0, 14.0)], 6, seed=3, live=live)
    moved = (np.array([8.0, 9.0, 0.0]), np.array([0.0, 0.0, 0.0, 1.0]), np.array([0.3, 0.0, 0.0]))
    live.see(lambda time: (moved[0] + time * moved[2], moved[1], moved[2]), Footprint(2.0, 1.0, (0.2, 0.1)))
    live.see_rails(())
    live.begin()
    for step in range(60):
        live.advance(0.1 * step, 0.1 * (step + 1))
    check("actors/react", rel=1e-5, speeds=live.drivers.speed, contacts=live.walkers.contacts, **sampled(world))
