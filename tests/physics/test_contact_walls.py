"""Hulls against walls, poles, each other, actors and the edge of the world: nothing passes through."""

from __future__ import annotations

import math

import numpy as np
import pytest

import parhelion as ph
from contact_rigs import CAR, HUSKY, REST, flat, launched, model, run, wall
from parhelion.contact import boxes, pairs
from parhelion.contact.bodies import Collision
from parhelion.contact.driver import ContactDriver
from parhelion.contact.solid import EDGE
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.motion.vehicles.base import DriveCommand
from parhelion.motion.vehicles.library import vehicle
from soak.drives import hull_depths


def _corners(driver: ContactDriver, number: int = 0) -> Floats:
    """Corners (8, 3) of a hull in the world."""
    state = driver._state[:, number]
    return (boxes.CORNERS * driver._half[number] + driver._centre[number]) @ boxes.rotation(state[3:7]).T + state[:3]


@pytest.mark.parametrize("thickness", [1.0, 0.01])
@pytest.mark.parametrize(("name", "speed"), [(HUSKY, 1.0), (HUSKY, 5.0), (HUSKY, 20.0), (CAR, 30.0)])
def test_a_wall_stops_a_vehicle(name: str, speed: float, thickness: float) -> None:
    world = flat()
    wall(world, 5.0, thickness)
    driver = ContactDriver(world)
    driver.add("v", model(name, max_speed_m_s=50.0), ph.Pose((0, 0, 0)))
    launched(driver, 0, (speed, 0.0, 0.0))
    deepest = []
    found = run(
        driver, [DriveCommand(speed)], 0.6 + 5.0 / speed, watch=lambda *_: deepest.append(_corners(driver)[:, 0].max())
    )
    assert max(deepest) < 5.0 + (0.005 if name == HUSKY else 0.05)
    assert found[0].other == "wall"
    assert found[0].normal[0] == pytest.approx(-1.0, abs=1e-6)
    assert sum(one.impulse_n_s for one in found[:2]) > 0.9 * driver._mass[0] * speed
    assert driver.rows()[0][3] == pytest.approx(0.0, abs=0.2)


def test_the_first_impulse_is_that_of_the_restitution() -> None:
    """m v (1 + e), plus what the wheels push in one step."""
    world = flat()
    wall(world, 3.0)
    driver = ContactDriver(world)
    driver.add("v", model(HUSKY, max_speed_m_s=10.0, restitution=0.2), ph.Pose((0, 0, 0)))
    launched(driver, 0, (4.0, 0.0, 0.0))
    found = run(driver, [DriveCommand(4.0)], 0.8)
    assert found[0].impulse_n_s == pytest.approx(50.0 * 4.0 * 1.2, rel=0.05)


def test_a_robot_slides_along_a_wall() -> None:
    world = flat()
    wall(world, 1.0, 0.01)
    driver = ContactDriver(world)
    half = math.radians(70.0) / 2
    driver.add("v", model(HUSKY), ph.Pose((0, 0, 0), (0, 0, math.sin(half), math.cos(half))))
    found = run(driver, [DriveCommand(1.0)], 6.0)
    row = driver.rows()[0]
    assert found
    assert row[2] > 3.0
    assert row[9] > 0.5
    assert _corners(driver)[:, 0].max() < 1.005


def test_a_pole_off_the_centre_turns_a_robot() -> None:
    world = flat()
    world.add(ph.shapes.cylinder(0.05, 1.5, 24), material="steel", label="pole", name="pole",
              pose=ph.Pose((2, 0.25, 0.75)))  # fmt: skip
    driver = ContactDriver(world)
    driver.add("v", model(HUSKY), ph.Pose((0, 0, 0)))
    found = run(driver, [DriveCommand(1.0)], 4.0)
    assert {one.other for one in found} == {"pole"}
    assert driver.rows()[0][6] > 0.1  # it turns left, around the pole
    assert abs(found[0].xyz[1] - 0.25) < 0.06
    assert abs(found[0].xyz[0] - 1.95) < 0.02


@pytest.mark.parametrize("roll_deg", [90.0, 135.0, 180.0])
@pytest.mark.parametrize("name", [HUSKY, CAR])
def test_a_rolled_over_vehicle_rests_on_its_hull(name: str, roll_deg: float) -> None:
    driver = ContactDriver(flat())
    driver.add("v", model(name), ph.Pose((0, 0, 0)))
    half = math.radians(roll_deg) / 2
    driver._state[2, 0] = 0.8 if name == HUSKY else 1.5
    driver._state[3:7, 0] = (math.sin(half), 0.0, 0.0, math.cos(half))
    driver._forget()
    lowest: list[float] = []
    run(driver, [REST], 4.0, 0.02, watch=lambda *_: lowest.append(_corners(driver)[:, 2].min()))
    assert min(lowest) > -0.02
    assert np.abs(driver.rows()[0][8:14]).max() < 0.3
    if roll_deg == 180.0:
        assert [one.kind for one in driver.events()] == ["rolled over"]
        assert lowest[-1] == pytest.approx(0.0, abs=0.003)


def test_a_fall_from_3_m_does_not_pass_the_ground() -> None:
    driver = ContactDriver(flat())
    driver.add("v", model(HUSKY), ph.Pose((0, 0, 3)))
    lowest: list[float] = []
    run(driver, [REST], 4.0, 0.02, watch=lambda rows, _: lowest.append(rows[0][3]))
    assert min(lowest) > -0.1
    assert driver.rows()[0][3] == pytest.approx(0.0, abs=0.002)


def test_the_edge_of_the_world_stops_a_robot() -> None:
    driver = ContactDriver(flat(size=8.0))
    driver.add("v", model(HUSKY), ph.Pose((0, 0, 0)))
    found = run(driver, [DriveCommand(1.0)], 8.0)
    assert {one.other for one in found} == {EDGE}
    assert driver.rows()[0][1] == pytest.approx(4.0 - 0.495, abs=0.005)
    assert abs(driver.rows()[0][3]) < 0.002
    assert [one.kind for one in driver.events()] == ["stuck"]


def test_a_robot_that_falls_through_a_hole_comes_to_rest() -> None:
    world = ph.World()
    for x in (-6.0, 6.0):
        world.add(ph.shapes.plane(8, 20), material="concrete", label="floor", pose=ph.Pose((x, 0, 0)))
    driver = ContactDriver(world)
    driver.add("v", model(HUSKY), ph.Pose((-4, 0, 0)))
    run(driver, [DriveCommand(1.0)], 6.0)
    row = driver.rows()[0]
    assert "left the ground" in [one.kind for one in driver.events()]
    assert -1.1 < row[3] < 0.0
    assert np.isfinite(row).all()


# ---- vehicles and actors ---------------------------------------------------------------------------------------------


def test_vehicles_exchange_equal_impulses() -> None:
    """On ice, the momentum of both together remains."""
    driver = ContactDriver(flat("ice"))
    driver.add("a", model(HUSKY, max_speed_m_s=20.0, friction_share=0.01), ph.Pose((-3, 0, 0)))
    driver.add("b", model(HUSKY, mass_kg=100.0, friction_share=0.01), ph.Pose((0, 0.1, 0)))
    launched(driver, 0, (4.0, 0.0, 0.0))
    found: list[Collision] = []
    gaps: list[float] = []

    def watch(_: Floats, new: list[Collision]) -> None:
        found.extend(new)
        hulls = driver._hulls()
        gaps.append(float(pairs.separation(hulls[:1], hulls[1:])[1][0]))

    run(driver, [DriveCommand(4.0), REST], 1.0, watch=watch)
    assert [(one.body, one.other) for one in found[:2]] == [("a", "b"), ("b", "a")]
    assert found[0].impulse_n_s == found[1].impulse_n_s > 100.0
    assert np.allclose(found[0].normal, -np.array(found[1].normal))
    assert driver._mass @ driver._state[7] == pytest.approx(50.0 * 4.0, rel=0.01)
    assert min(gaps) > -0.005
    assert driver.rows()[1][8] > driver.rows()[0][8] - 1e-3


def test_an_actor_pushes_a_robot() -> None:
    world = flat()
    world.add_actor(
        ph.shapes.box(1, 1, 1), material="steel", label="cart", name="cart",
        trajectory=ph.ConstantTwist(ph.Pose((3, 0, 0.5)), (-1.0, 0.0, 0.0)),
    )  # fmt: skip
    driver = ContactDriver(world)
    driver.add("v", model(HUSKY), ph.Pose((0, 0, 0)))
    found = run(driver, [REST], 4.0)
    assert {one.other for one in found} == {"cart"}
    assert driver.rows()[0][1] == pytest.approx(3.0 - 4.0 - 0.5 - 0.495, abs=0.02)


@pytest.mark.parametrize(("label", "mass"), [("person", 75.0), ("car", 1500.0)])
@pytest.mark.parametrize(("name", "speed"), [(HUSKY, 3.0), (CAR, 8.0)])
def test_the_impulse_on_an_actor_is_that_of_the_reduced_mass(label: str, mass: float, name: str, speed: float) -> None:
    """(1 + e) v m M/(m + M), with the restitution e = 0.1."""
    world = flat("ice")
    world.add_actor(ph.shapes.box(0.6, 3, 2), material="steel", label=label, name="it", trajectory=ph.Pose((5, 0, 1)))
    driver = ContactDriver(world)
    driver.add("v", model(name, max_speed_m_s=50.0), ph.Pose((0, 0, 0)))
    launched(driver, 0, (speed, 0.0, 0.0))
    own, found = float(driver._mass[0]), []
    for _ in range(200):
        before = driver.rows()[0][8]
        found = driver.step([DriveCommand(speed)], 0.01)
        if found:
            break
    reduced = own * mass / (own + mass)
    assert found[0].other == "it"
    assert found[0].impulse_n_s == pytest.approx(1.1 * speed * reduced, rel=0.08)
    assert before - driver.rows()[0][8] == pytest.approx(1.1 * speed * reduced / own, rel=0.1)


def test_a_push_against_an_actor_is_resumed_with_the_same_bits() -> None:
    world = flat()
    world.add_actor(ph.shapes.box(0.5, 0.5, 1.8), material="cotton", label="person", name="it",
                    trajectory=ph.ConstantTwist(ph.Pose((1.5, 0, 0.9)), (-0.5, 0.0, 0.0)))  # fmt: skip
    driver = ContactDriver(world)
    driver.add("v", model(HUSKY), ph.Pose((0, 0, 0)))
    for _ in range(200):
        driver.step([DriveCommand(1.0)], 0.01)
        if driver.obstacles.recoils:
            break
    assert driver.obstacles.recoils
    saved = driver.save()
    run(driver, [DriveCommand(1.0)], 0.5)
    end = driver.save()
    driver.load(saved)
    run(driver, [DriveCommand(1.0)], 0.5)
    assert driver.save() == end


def test_a_vehicle_ignores_the_actors_that_show_it() -> None:
    world = flat()
    world.add_actor(ph.shapes.box(1, 1, 1), material="steel", label="robot", name="v", trajectory=ph.Pose((0, 0, 0.5)))
    world.add_actor(
        ph.shapes.box(1, 1, 1), material="steel", label="robot", name="v/arm", trajectory=ph.Pose((1, 0, 0))
    )
    driver = ContactDriver(world)
    driver.add("v", model(HUSKY), ph.Pose((0, 0, 0)))
    assert run(driver, [DriveCommand(1.0)], 1.0) == []
    assert driver.rows()[0][1] > 0.5


def test_clearances_are_distances_of_hulls() -> None:
    world = flat()
    wall(world, 5.0)
    driver = ContactDriver(world)
    driver.add("a", model(HUSKY), ph.Pose((0, 0, 0)))
    driver.add("b", model(HUSKY), ph.Pose((0, 2, 0)))
    driver.add("far", model(HUSKY), ph.Pose((-100, 0, 0)))
    clear = driver.clearances()
    assert clear[:2] == pytest.approx([2.0 - 0.67] * 2, abs=1e-6)
    assert clear[2] == np.inf
    driver = ContactDriver(world)
    driver.add("a", model(HUSKY), ph.Pose((0, 0, 0)))
    assert driver.clearances() == pytest.approx([5.0 - 0.495], abs=1e-6)


# ---- starts ----------------------------------------------------------------------------------------------------------


def test_a_start_inside_of_a_wall_is_refused() -> None:
    world = flat()
    wall(world, 5.0, 0.01)
    driver = ContactDriver(world)
    with pytest.raises(ConfigError, match=r"v: its hull overlaps 'wall' at its start at \(5, 0, .*move the start"):
        driver.add("v", model(HUSKY), ph.Pose((5, 0, 0)))
    driver.add("v", model(HUSKY), ph.Pose((4.4, 0, 0)))
    with pytest.raises(ConfigError, match=r"w: its hull overlaps 'v' at its start at \(4.2, 0.3, .*move the start"):
        driver.add("w", model(HUSKY), ph.Pose((4.2, 0.3, 0)))
    assert len(driver.rows()) == 1


def test_a_start_below_the_ground_is_raised() -> None:
    driver = ContactDriver(flat())
    with pytest.warns(UserWarning, match=r"v: its start at \(0, 0, -0.5\) is 0.50 m below the ground; raised"):
        driver.add("v", model(HUSKY), ph.Pose((0, 0, -0.5)))
    assert driver.rows()[0][3] == pytest.approx(0.0, abs=1e-4)
    with pytest.raises(ConfigError, match="no ground under its start"):
        driver.add("w", model(HUSKY), ph.Pose((900, 0, 0)))


# ---- depth -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("roll_deg", [170.0, 186.0])
def test_a_hull_that_was_pushed_into_the_ground_comes_out_again(roll_deg: float) -> None:
    """The corner that is deepest touches the ground, not the middle of a triangle that is far away."""
    driver = ContactDriver(flat())
    driver.add("v", model(HUSKY), ph.Pose((40, 25, 0)))
    half = math.radians(roll_deg) / 2
    driver._state[3:7, 0] = (math.sin(half), 0.0, 0.0, math.cos(half))
    driver._state[2, 0] -= _corners(driver)[:, 2].min() + 0.04
    driver._forget()
    run(driver, [REST], 1.0)
    assert _corners(driver)[:, 2].min() > -0.005


@pytest.mark.parametrize("yaw_deg", [20.0, 35.0, 50.0])
def test_a_car_that_drives_over_a_long_edge_rests_on_it(yaw_deg: float) -> None:
    world = ph.World()
    world.add(ph.shapes.box(200, 20, 2), material="concrete", label="quay", name="quay", pose=ph.Pose((30, -10, -1)))
    world.add(ph.shapes.plane(400, 60), material="concrete", label="bed", pose=ph.Pose((0, 30, -2)))
    driver = ContactDriver(world)
    half = math.radians(yaw_deg) / 2
    driver.add("v", vehicle(CAR), ph.Pose((0, -2.5, 0), (0, 0, math.sin(half), math.cos(half))))
    deepest: list[float] = []
    run(driver, [DriveCommand(4.0)], 4.0, watch=lambda *_: deepest.append(float(hull_depths(driver)[0])))
    assert driver.rows()[0][2] > -1.5  # its nose is over the edge
    assert max(deepest) <= 0.02
