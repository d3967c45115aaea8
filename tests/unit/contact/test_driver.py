"""The driver: kernels, saved states, lanes and bad input."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from contact_rigs import CAR, HUSKY, REST, flat, model, run, wall
from parhelion.contact.driver import ContactDriver
from parhelion.contact.near import NearLists
from parhelion.contact.pairs import FASTEST_M_S, FASTEST_RAD_S, limit_speeds
from parhelion.contact.solid import Grid, Solid
from parhelion.core.errors import ConfigError
from parhelion.motion.vehicles.base import DriveCommand
from parhelion.motion.vehicles.library import vehicle
from parhelion.rays.device import engine

COMMANDS = [DriveCommand(0.9, 0.3), DriveCommand(5.0, -0.2), DriveCommand(0.5, -0.5)]


def _yard() -> ph.World:
    world = flat(size=60.0)
    wall(world, 3.0)
    rng = np.random.default_rng(2)
    for n in range(60):
        x, y = rng.uniform(-25, 25, 2)
        if max(abs(x), abs(y)) > 4.0:
            world.add(ph.shapes.box(0.3, 0.4, 0.05 + 0.01 * n), material="wood", pose=ph.Pose((x, y, 0)), label="box")
    return world


def _driver(world: ph.World, **options: bool) -> ContactDriver:
    driver = ContactDriver(world, **options)
    for n, name in enumerate((HUSKY, CAR, "pioneer/p3-dx")):
        driver.add(f"v{n}", vehicle(name), ph.Pose((-1, 2.5 * (n - 1), 0)))
    return driver


def test_moving_vehicles_and_growing_lists_share_one_kernel() -> None:
    dr, world = engine().dr, _yard()
    driver = _driver(world)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        driver.step(COMMANDS, 0.01)
        dr.kernel_history()
        run(driver, COMMANDS, 1.5)
        for n in range(3):  # edits of the world, and more vehicles
            world.add(ph.shapes.box(0.5, 0.5, 1.0), material="wood", pose=ph.Pose((20, n, 0)), label="box")
            run(driver, COMMANDS, 0.05)
        driver.add("v3", vehicle(HUSKY), ph.Pose((-10, 0, 0)))
        run(driver, [*COMMANDS, REST], 0.1)
        launches = [one for one in dr.kernel_history() if one["type"] == dr.KernelType.JIT]
    large = {one["hash"] for one in launches if one["operation_count"] > 1000}
    assert len(launches) > 150
    assert len(large) == 1


def test_a_resumed_drive_has_the_same_bits() -> None:
    driver = _driver(_yard())
    run(driver, COMMANDS, 0.6)
    middle = driver.save()
    run(driver, COMMANDS, 0.6)
    end, rows, events = driver.save(), driver.rows().copy(), driver.events()
    driver.load(middle)
    run(driver, COMMANDS, 0.6)
    assert driver.save() == end
    assert np.array_equal(driver.rows(), rows)
    assert driver.events() == events
    driver.restart()
    run(driver, COMMANDS, 1.2)
    assert driver.save() == end
    other = _driver(_yard())
    other.load(middle)
    run(other, COMMANDS, 0.6)
    assert other.save() == end


def test_lanes_do_not_depend_on_each_other() -> None:
    """A vehicle alone has the same bits as among others, if they do not touch."""
    together = _driver(_yard(), mutual=False)
    run(together, COMMANDS, 1.0)
    alone = ContactDriver(_yard(), mutual=False)
    alone.add("v1", vehicle(CAR), ph.Pose((-1, 0, 0)))
    run(alone, COMMANDS[1:2], 1.0)
    assert np.array_equal(alone.rows()[0], together.rows()[1])


def test_long_steps_are_divided() -> None:
    """One step of 0.1 s equals five of 20 ms; accelerations are means of the step."""
    one, many = _driver(flat(), mutual=False), _driver(flat(), mutual=False)
    run(many, COMMANDS, 0.1, 0.02)
    before = many.rows().copy()
    one.step(COMMANDS, 0.1)
    assert np.allclose(one.rows()[:, 1:14], before[:, 1:14], atol=1e-12)
    assert np.allclose(one.rows()[:, 14:17], one.rows()[:, 8:11] / 0.1, atol=0.02)


def test_a_state_of_other_vehicles_is_refused() -> None:
    driver, other = _driver(flat()), ContactDriver(flat())
    other.add("v", model(HUSKY), ph.Pose())
    for state in (other.save(), b"", b"\0" * 100):
        with pytest.raises(ConfigError, match="not of these vehicles"):
            driver.load(state)


def test_contact_is_for_ground_vehicles() -> None:
    with pytest.raises(ConfigError, match="contact is for ground vehicles, got Multirotor"):
        ContactDriver(flat()).add("drone", vehicle("asctec/hummingbird"), ph.Pose())
    assert ContactDriver(flat()).step([], 0.01) == []


def test_lists_hold_every_triangle_that_a_hull_can_reach() -> None:
    solid = Solid.of(_yard())
    half, centre = np.array([[0.5, 0.3, 0.2]]), np.zeros((1, 3))
    lists = NearLists(solid, half, centre)
    rng = np.random.default_rng(6)
    state = np.zeros((13, 1))
    state[:3, 0], state[6, 0] = solid.scene.origin + np.array([0.0, 0.0, 0.3]), 1.0
    renewed = 0
    for _ in range(300):
        state[7:9, 0] = rng.normal(size=2) * 4.0
        renewed += lists.update(state, 0.01, 0.002)
        state[:3, 0] += state[7:10, 0] * 0.01
        place = state[:3, 0] - solid.scene.origin
        near = np.all((solid.low < place + half[0]) & (solid.high > place - half[0]), axis=1)
        assert set(np.flatnonzero(near)) <= set(lists.rows[0].tolist())
        assert np.all(np.diff(lists.rows[0]) > 0)
    assert renewed < 150


def test_a_box_of_any_size_is_looked_up_within_the_world() -> None:
    """A body that is squeezed may become fast, and the box around its way large."""
    low = np.random.default_rng(3).uniform(-20, 20, (500, 3))
    grid = Grid(low, low + 0.3)
    np.testing.assert_array_equal(grid.query(np.full(3, -1e9), np.full(3, 1e9)), np.arange(500))
    assert len(grid.query(np.full(3, 100.0), np.full(3, 1e9))) == 0


def test_speeds_are_limited() -> None:
    driver = ContactDriver(flat())
    driver.add("robot", vehicle("clearpath/husky"), ph.Pose())
    driver.step([DriveCommand(0.0)], 0.05)
    driver._state[7:10, 0], driver._state[10:13, 0] = (1e6, 0.0, 0.0), (0.0, 0.0, 1e6)
    assert limit_speeds(driver._state)
    assert not limit_speeds(driver._state)
    assert driver._state[7:13, 0].tolist() == [FASTEST_M_S, 0.0, 0.0, 0.0, 0.0, FASTEST_RAD_S]
    driver.step([DriveCommand(0.0)], 0.05)
    assert np.isfinite(driver._state).all()
