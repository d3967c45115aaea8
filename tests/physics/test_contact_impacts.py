"""Impacts: falls onto rims, and fast bodies against thin walls; nothing tunnels at the highest speed of any preset."""

from __future__ import annotations

import math

import numpy as np
import pytest

import parhelion as ph
from contact_rigs import CAR, HUSKY, REST, G, flat, launched, run, wall
from parhelion.contact import boxes
from parhelion.contact.chassis import tyre_travel
from parhelion.contact.driver import ContactDriver
from parhelion.contact.hulls import HullDriver
from parhelion.motion.vehicles.base import DriveCommand, PositionCommand, ThrustCommand
from parhelion.motion.vehicles.ground import Car, DifferentialDrive
from parhelion.motion.vehicles.library import vehicle, vehicle_names
from soak.drives import hull_depths, wheel_depths

GROUND = [name for name in vehicle_names() if isinstance(vehicle(name), Car | DifferentialDrive)]
FREE = [name for name in vehicle_names() if name not in GROUND]


def _fastest(name: str) -> float:
    """Highest speed [m/s] of a preset; vessels reach 15 m/s at most, as a round figure for planing boats."""
    sheet = vehicle(name).config
    return getattr(sheet, "max_speed_m_s", None) or (sheet.control.max_speed_m_s if hasattr(sheet, "control") else 15.0)


def _front(driver: ContactDriver) -> float:
    """Largest x [m] of the corners of a hull."""
    corners = boxes.CORNERS * driver._half[0] + driver._centre[0]
    return float((corners @ boxes.rotation(driver._state[3:7, 0]).T + driver._state[:3, 0])[:, 0].max())


@pytest.mark.parametrize("name", GROUND)
def test_a_hull_does_not_tunnel_through_a_thin_wall_at_its_highest_speed(name: str) -> None:
    """A pane of 2 mm: the hull is 2 cm deep in it at most, at any moment, and stays in front of it."""
    world = flat()
    wall(world, 8.0, 0.002, height=2.0)
    driver = ContactDriver(world)
    driver.add("v", vehicle(name), ph.Pose((0, 0, 0)))
    launched(driver, 0, (_fastest(name), 0.0, 0.0))
    fronts: list[float] = []
    found = run(
        driver, [DriveCommand(_fastest(name))], 10.0 / _fastest(name), watch=lambda *_: fronts.append(_front(driver))
    )
    assert found[0].other == "wall"
    assert 7.9 < max(fronts) < 8.02


@pytest.mark.parametrize("name", GROUND)
def test_a_wheel_does_not_tunnel_through_a_thin_plate(name: str) -> None:
    """A vehicle falls onto a plate of 2 mm at its highest speed, at most 20 m/s: the rims stay on it."""
    world = ph.World()
    world.add(ph.shapes.box(20, 20, 0.002), material="steel", label="plate", pose=ph.Pose((0, 0, 2.0)))
    world.add(ph.shapes.plane(20, 20), material="asphalt", label="road")
    driver = ContactDriver(world)
    driver.add("v", vehicle(name), ph.Pose((0, 0, 4.0)))
    driver._state[9, 0] = -min(_fastest(name), 20.0)
    driver._forget()
    deepest: list[float] = []
    for _ in range(150):
        driver.step([REST], 0.01)
        deepest.append(float(wheel_depths(driver)[0][0]))
    assert max(deepest) < 0.02
    assert driver.rows()[0][3] > 1.9


@pytest.mark.parametrize("name", GROUND)
def test_a_small_fast_body_does_not_tunnel_through_a_hull(name: str) -> None:
    """An actor of 5 cm flies at a vehicle at 20 m/s; it moves 5 cm, its own length, per substep of 2.5 ms."""
    world = flat()
    height = 0.5 * vehicle(name).config.size_m[2] + 0.05
    world.add_actor(ph.shapes.box(0.05, 0.05, 0.05), material="steel", label="ball", name="ball",
                    trajectory=ph.ConstantTwist(ph.Pose((6.0, 0, height)), (-20.0, 0.0, 0.0)))  # fmt: skip
    driver = ContactDriver(world)
    driver.add("v", vehicle(name), ph.Pose((0, 0, 0)))
    found = run(driver, [REST], 0.3)
    assert found
    assert found[0].other == "ball"
    assert found[0].xyz[0] == pytest.approx(0.5 * vehicle(name).config.size_m[0], abs=0.06)


@pytest.mark.parametrize("name", FREE)
def test_a_free_hull_does_not_tunnel_through_a_thin_wall_at_its_highest_speed(name: str) -> None:
    world = ph.World()
    pose = ph.Pose((12.0, 0, 0))
    world.add(ph.shapes.box(0.002, 40, 40), material="concrete", label="wall", name="wall", pose=pose)
    driver = HullDriver(world)
    driver.add("v", vehicle(name), ph.Pose((0, 0, 3.0 if hasattr(vehicle(name).config, "rotors") else 0.0)))
    one, shape = driver._members[0].vehicle, driver._members[0].shape
    place, quat, _, spin = one.motion()
    one.carry(place, quat, (_fastest(name), 0.0, 0.0), spin)
    fronts, found = [], []
    for _ in range(round(100 * 16.0 / _fastest(name))):
        found += driver.step(
            [PositionCommand((50.0, 0.0, 3.0)) if hasattr(one.config, "rotors") else ThrustCommand(0.0, 0.0)], 0.01
        )
        place, quat, *_ = one.motion()
        corners = shape.vertices @ boxes.rotation(np.array(quat)).T + place
        fronts.append(float(corners[:, 0].max()))
    assert {one.other for one in found} == {"wall"}
    assert max(fronts) < 12.02


@pytest.mark.parametrize(("name", "height"), [(HUSKY, 3.0), ("pioneer/p3-dx", 1.0), (CAR, 2.0)])
def test_a_rim_stops_at_the_ground_after_a_fall(name: str, height: float) -> None:
    """Tyres deflect up to the travel of the data sheet; the rim or core itself is never 2 cm deep."""
    driver = ContactDriver(flat())
    driver.add("v", vehicle(name), ph.Pose((0, 0, height)))
    deepest: list[float] = []
    for _ in range(round(100 * (math.sqrt(2.0 * height / G) + 0.5))):
        driver.step([REST], 0.01)
        deepest.append(float(wheel_depths(driver)[0][0]))
    assert max(deepest) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), [(HUSKY, 1), ("pioneer/p3-dx", 1)])
def test_a_tumbling_robot_gains_no_energy(name: str, seed: int) -> None:
    """Thrown with random spin, it lands on sides, tail and wheels; only what its tyres store comes back."""
    rng = np.random.default_rng(seed)
    driver = ContactDriver(flat("concrete"), mutual=False)
    for k in range(16):
        driver.add(f"v{k}", vehicle(name), ph.Pose((4.0 * k, 0, 0)))
    quat = rng.normal(size=(4, 16))
    driver._state[2] = rng.uniform(1.0, 3.0, 16)
    driver._state[3:7] = quat / np.linalg.norm(quat, axis=0)
    driver._state[7:13] = rng.normal(0.0, 3.0, (6, 16))
    driver._forget()
    chassis = driver._members[0].chassis
    static = float(driver._mass[0]) * G / len(chassis.wheels) / chassis.tyre_stiffness_n_m
    travel = [tyre_travel(wheel, chassis, static) for wheel in chassis.wheels]
    stored = 0.5 * chassis.tyre_stiffness_n_m * float(np.sum(np.square(travel)))
    least, most = np.full(16, np.inf), 0.0
    for _ in range(250):
        driver.step([REST] * 16, 0.01)
        moving = 0.5 * driver._mass * (driver._state[7:10] ** 2).sum(axis=0)
        turning = 0.5 * (driver._inertia.T * driver._state[10:13] ** 2).sum(axis=0)
        energy = moving + turning + driver._mass * G * driver._state[2]
        most = max(most, float((energy - least).max(initial=0.0)))
        least = np.minimum(least, energy)
    assert most < 1.05 * stored


def test_a_start_on_a_bump_is_raised_until_the_hull_is_free() -> None:
    world = flat()
    world.add(ph.shapes.box(0.3, 0.3, 0.17), material="granite", label="rock", pose=ph.Pose((0, 0, 0.085)))
    driver = ContactDriver(world)
    driver.add("v", vehicle(HUSKY), ph.Pose((0, 0, 0)))
    assert 0.035 < driver.rows()[0][3] < 0.05  # 17 cm less the ground clearance of 13 cm
    assert hull_depths(driver)[0] == 0.0


def test_a_start_beside_a_block_is_raised_until_the_wheel_is_hardly_in_it() -> None:
    """All is free 12 cm higher, which is more than a start is raised; 7 cm, where the hull is free, are not enough."""
    world = flat()
    block = ph.shapes.box(0.25, 0.08, 0.13)
    world.add(block, material="granite", label="rock", pose=ph.Pose((0.175, 0.16, 0.065)))
    driver = ContactDriver(world)
    driver.add("v", vehicle("pioneer/p3-dx"), ph.Pose((0, 0, 0)))
    assert 0.07 < driver.rows()[0][3] <= 0.1001
    assert wheel_depths(driver)[0][0] < 0.02
