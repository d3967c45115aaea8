"""Multirotors and vessels in contact: impulses, landings, grounding, each other, and walls that nothing passes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.contact.hulls import HullDriver
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.motion.vehicles.base import (
    DriveCommand,
    MotorsOff,
    PositionCommand,
    ThrustCommand,
    VelocityCommand,
    state_of_rows,
)
from parhelion.motion.vehicles.library import vehicle, vehicle_sheet
from parhelion.motion.vehicles.multirotor import Multirotor
from parhelion.motion.vehicles.vessel import Vessel
from parhelion.rays.records import Rays

G = 9.80665
BOAT, QUAD = "dlr/aurora", "asctec/hummingbird"
ADRIFT, STILL = ThrustCommand(0.0, 0.0), VelocityCommand((0.0, 0.0, 0.0))
DT = 0.01


def block(world: ph.World, size: tuple[float, float, float], at: tuple[float, float, float], name: str) -> None:
    world.add(ph.shapes.box(*size), material="concrete", label="wall", name=name, pose=ph.Pose(at))


def basin(quay_x: float = 10.0, bottom_m: float = -50.0) -> ph.World:
    """A quay across the x axis and a bottom; water is wherever the vessel floats."""
    world = ph.World()
    block(world, (1.0, 60.0, 6.0), (quay_x + 0.5, 0.0, 0.0), "quay")
    block(world, (200.0, 200.0, 1.0), (0.0, 0.0, bottom_m - 0.5), "bottom")
    return world


def hall() -> ph.World:
    """A floor at z = 0 and a wall of 2 cm across the x axis at x = 4 m."""
    world = ph.World()
    block(world, (60.0, 60.0, 1.0), (0.0, 0.0, -0.5), "floor")
    block(world, (0.02, 60.0, 8.0), (4.01, 0.0, 4.0), "wall")
    return world


def barge(restitution: float = 0.1, **changes: Any) -> Vessel:
    """A box that floats with its centre of mass at half of its height, without drag and thrust along x."""
    sheet = vehicle_sheet(BOAT)
    hull = sheet.hull.model_copy(  # type: ignore[union-attr]
        update={"shape": "box", "length_m": 4.0, "beam_m": 2.0, "height_m": 1.0, "bow_share": 0.0, "bow_rise_m": 0.0,
                "deadrise_deg": 0.0}
    )  # fmt: skip
    update = {
        "hull": hull, "centre_of_mass_height_m": 0.5, "restitution": restitution, "linear_drag": (0.0,) * 6,
        "quadratic_drag": (0.0,) * 6, **changes,
    }  # fmt: skip
    return Vessel(sheet.model_copy(update=update))


def until_contact(driver: HullDriver, commands: list[Any], seconds: float = 10.0) -> Any:
    """Collisions of the first step with contact, and the states before it."""
    for _ in range(round(seconds / DT)):
        before = driver.rows().copy()
        found = driver.step(commands, DT)
        if found:
            return found, before
    raise AssertionError("no contact")


# ---- vessels --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restitution", [0.0, 0.1, 0.6])
def test_a_vessel_that_hits_a_quay_receives_the_impulse_m_v_1_plus_e(restitution: float) -> None:
    boat, driver = barge(restitution), HullDriver(basin())
    driver.add("boat", boat, ph.Pose((0, 0, 0)))
    boat.reset(ph.Pose((5.0, 0, 0)), velocity_m_s=(2.0, 0, 0))
    (hit,), before = until_contact(driver, [ADRIFT])
    # The water around it takes part: the mass includes the added mass of 10 %.
    mass = 1.1 * boat.config.mass_kg
    speed = before[0, 8]
    assert speed == pytest.approx(2.0, abs=1e-6)
    assert hit.impulse_n_s == pytest.approx(mass * speed * (1.0 + restitution), rel=1e-6)
    assert boat.speed_m_s == pytest.approx(-restitution * speed, abs=1e-6)
    assert (hit.body, hit.other) == ("boat", "quay")
    assert hit.normal == pytest.approx((-1.0, 0.0, 0.0), abs=1e-9)
    assert hit.xyz[0] == pytest.approx(10.0, abs=0.02)
    # Mean acceleration of the step, which an IMU on board measures.
    assert driver.rows()[0, 14] == pytest.approx(-speed * (1.0 + restitution) / DT, rel=1e-6)


def test_a_bow_touches_where_it_is_pointed_and_momentum_balances() -> None:
    boat, driver = vehicle(BOAT), HullDriver(basin())
    driver.add("boat", boat, ph.Pose((0, 0, 0)))
    boat.reset(ph.Pose((3.0, 0, 0)), velocity_m_s=(3.0, 0, 0))
    (hit,), before = until_contact(driver, [ADRIFT])
    # The stem lies half of the length ahead of the hull's middle, which is behind the centre of mass.
    assert boat.xyz[0] + boat.keel[0] + 2.7 == pytest.approx(10.0, abs=0.03)
    assert hit.xyz[1] == pytest.approx(0.0, abs=1e-6)
    change = boat.heavy[0][0] * (boat.speed_m_s - before[0, 8])
    assert hit.impulse_n_s == pytest.approx(-change, rel=5e-3)  # drag of one step


def test_a_vessel_that_hits_a_quay_at_an_angle_turns_along_it() -> None:
    boat, driver = vehicle(BOAT), HullDriver(basin())
    driver.add("boat", boat, ph.Pose((0, 0, 0), (0.0, 0.0, math.sin(0.4), math.cos(0.4))))
    for _ in range(2000):
        driver.step([ThrustCommand(500.0, 500.0)], DT)
    assert boat.yaw_rad == pytest.approx(math.pi / 2, abs=0.15)
    assert boat.xyz[0] < 10.0
    assert boat.xyz[1] > 10.0  # it slides on


def test_grounding_lifts_the_keel_by_what_the_water_is_too_shallow() -> None:
    """A flat barge over a bottom 2 cm above its keel: load on the bottom = weight - buoyancy at that draught."""
    boat = barge()
    shallow = boat.draught_m - 0.02
    world = ph.World()
    block(world, (50.0, 50.0, 1.0), (0.0, 0.0, -shallow - 0.5), "bottom")
    driver = HullDriver(world)
    driver.add("boat", boat, ph.Pose((0, 0, 0)))
    pushes = []
    for n in range(600):
        found = driver.step([ADRIFT], DT)
        pushes += [one.impulse_n_s for one in found] if n >= 500 else []
    bottom = -shallow + 0.5  # height of the centre of mass on the bottom
    assert boat.xyz[2] == pytest.approx(bottom, abs=1.5e-3)
    load = 0.02 * boat.water.density_kg_m3 * G * 8.0
    sunk = (boat.xyz[2] - bottom) * boat.water.density_kg_m3 * G * 8.0
    assert sum(pushes) == pytest.approx(load + sunk, rel=0.02)


def test_two_vessels_conserve_momentum() -> None:
    one, two = barge(0.3), barge(0.3)
    driver = HullDriver(basin(quay_x=90.0))
    driver.add("one", one, ph.Pose((0, 0, 0)))
    driver.add("two", two, ph.Pose((20, 0, 0)))
    one.reset(ph.Pose((0, 0, 0)), velocity_m_s=(2.0, 0, 0))
    two.reset(ph.Pose((8, 0, 0)), velocity_m_s=(-1.0, 0, 0))
    found, _ = until_contact(driver, [ADRIFT, ADRIFT])
    assert [(hit.body, hit.other) for hit in found] == [("one", "two"), ("two", "one")]
    assert one.speed_m_s + two.speed_m_s == pytest.approx(1.0, abs=1e-9)
    assert two.speed_m_s - one.speed_m_s == pytest.approx(0.3 * 3.0, abs=1e-6)
    assert found[0].impulse_n_s == pytest.approx(1.1 * one.config.mass_kg * 0.5 * 3.0 * 1.3, rel=1e-6)


# ---- multirotors ----------------------------------------------------------------------------------------------------


def test_a_multirotor_lands_and_rests_on_its_legs() -> None:
    quad, driver = vehicle(QUAD), HullDriver(hall())
    driver.add("quad", quad, ph.Pose((0, 0, 2.0)))
    found = []
    for n in range(600):
        found += driver.step([VelocityCommand((0, 0, -0.7)) if n < 400 else MotorsOff()], DT)
    assert found == []  # a landing is no collision
    row = driver.rows()[0]
    assert row[3] == pytest.approx(quad.config.standing_height_m, abs=1e-4)
    np.testing.assert_allclose(row[8:14], 0.0, atol=1e-5)
    np.testing.assert_allclose(row[14:17], 0.0, atol=1e-3)  # an accelerometer measures gravity
    # It takes off again.
    for _ in range(300):
        driver.step([VelocityCommand((0, 0, 1.0))], DT)
    assert quad.xyz[2] > 1.0


def test_a_fast_touchdown_is_a_collision_with_the_impulse_of_its_speed() -> None:
    quad = Multirotor(vehicle_sheet(QUAD).model_copy(update={"body_drag_n_s2_m2": 0.0}))  # type: ignore[arg-type]
    driver = HullDriver(hall())
    driver.add("quad", quad, ph.Pose((0, 0, 2.0)))
    quad.reset(ph.Pose((0, 0, 1.5)), rotor_speed_rad_s=0.0)
    (hit,), before = until_contact(driver, [MotorsOff()])
    fall = math.sqrt(2.0 * G * (1.5 - quad.config.standing_height_m))
    assert hit.impulse_n_s == pytest.approx(quad.config.mass_kg * fall * 1.1, rel=0.02)
    assert before[0, 10] == pytest.approx(-fall, rel=0.02)


def test_friction_stops_a_sliding_multirotor_after_v2_over_2_mu_g() -> None:
    quad = Multirotor(vehicle_sheet(QUAD).model_copy(  # type: ignore[arg-type]
        update={"body_drag_n_s2_m2": 0.0, "rotor_drag_n_s2_m": 0.0, "hull_friction": 0.3}
    ))  # fmt: skip
    driver = HullDriver(hall())
    height = quad.config.standing_height_m
    driver.add("quad", quad, ph.Pose((-5, 0, height)))
    quad.reset(ph.Pose((-5, 0, height)), velocity_m_s=(2.0, 0, 0), rotor_speed_rad_s=0.0)
    for _ in range(200):
        driver.step([MotorsOff()], DT)
    assert quad.xyz[0] + 5.0 == pytest.approx(4.0 / (2.0 * 0.3 * G), rel=0.02)
    assert np.linalg.norm(driver.rows()[0, 8:11]) < 1e-4


def test_without_contact_the_motion_has_the_bits_of_the_free_vehicle() -> None:
    command = PositionCommand((-3.0, 2.0, 3.0))
    quad, alone, driver = vehicle(QUAD), vehicle(QUAD), HullDriver(hall())
    driver.add("quad", quad, ph.Pose((0, 0, 2)))
    alone.reset(ph.Pose((0, 0, 2)))
    for _ in range(200):
        driver.step([command], DT)
        alone.step(command, DT)
        assert tuple(driver.rows()[0]) == alone.row()


# ---- nothing passes -------------------------------------------------------------------------------------------------


def random_drives(kind: str, driver: HullDriver, drives: int, seed: int) -> Floats:
    """Positions of random drives from the same start, with random commands every 0.5 s."""
    rng = np.random.default_rng(seed)
    tracks, body = [], driver._members[0].vehicle
    for _ in range(drives):
        driver.restart()
        speed = rng.uniform(-1.0, 1.0, 3)
        if kind == QUAD:
            body.reset(ph.Pose((0, 0, 2)), velocity_m_s=tuple(speed * (10, 10, 4)))  # type: ignore[call-arg]
        else:
            body.reset(ph.Pose((0, 0, 0)), velocity_m_s=(8.0 * speed[0], speed[1], 0.0))  # type: ignore[call-arg]
        for n in range(200):
            if n % 50 == 0:
                a, b, c = rng.uniform(-1.0, 1.0, 3).tolist()
                command: Any = ThrustCommand(600 * a, 600 * b, 0.5 * c)
                if kind == QUAD:
                    command = MotorsOff() if rng.random() < 0.1 else VelocityCommand((8 * a, 8 * b, 3 * c))
            driver.step([command], DT)
            tracks.append(body.xyz)
    return np.array(tracks).reshape(drives, -1, 3)


@pytest.mark.parametrize(("kind", "seed"), [(QUAD, 1), (BOAT, 2)])
def test_nothing_passes_through_a_wall_in_random_drives(kind: str, seed: int) -> None:
    driver = HullDriver(hall() if kind == QUAD else basin(quay_x=4.0))
    driver.add("body", vehicle(kind), ph.Pose((0, 0, 2)))
    tracks = random_drives(kind, driver, 12, seed)
    assert np.all(np.isfinite(tracks))
    assert tracks[..., 0].max() < 4.0
    assert (tracks[..., 0].max(axis=1) > (3.5 if kind == QUAD else 0.75)).sum() >= 2  # several reached the wall
    if kind == QUAD:
        assert tracks[..., 2].min() > 0.05
    steps = np.diff(tracks, axis=1).reshape(-1, 3)
    starts, far = tracks[:, :-1].reshape(-1, 3), np.linalg.norm(steps, axis=1)
    moved = far > 1e-9
    rays = Rays(starts[moved], steps[moved] / far[moved, None], np.zeros(int(moved.sum())), far[moved])
    assert not driver.solid.scene.cast(rays).found.any()


def test_drives_repeat_and_resume_with_the_same_bits() -> None:
    def start() -> HullDriver:
        driver = HullDriver(hall())
        driver.add("quad", vehicle(QUAD), ph.Pose((3, 0, 0.5)))
        driver.add("other", vehicle(QUAD), ph.Pose((2.2, 0, 0.5)))
        return driver

    commands = [VelocityCommand((2.0, 0.3, -0.5)), VelocityCommand((3.0, 0.0, -0.3))]
    first, hits = start(), 0
    rows = []
    for n in range(200):
        if n == 100:
            saved = first.save()
        hits += len(first.step(commands, DT))
        rows.append(first.rows().copy())
    assert hits > 50
    second, resumed = start(), start()
    for n in range(200):
        second.step(commands, DT)
        np.testing.assert_array_equal(second.rows(), rows[n])
    resumed.load(saved)
    for n in range(100, 200):
        resumed.step(commands, DT)
        np.testing.assert_array_equal(resumed.rows(), rows[n])


# ---- actors, clearance and starts -----------------------------------------------------------------------------------


def test_a_moving_actor_pushes_a_hovering_multirotor_away() -> None:
    world = hall()
    rows = np.zeros((2, 20))
    rows[:, 0], rows[:, 1], rows[:, 7], rows[:, 8] = (0.0, 10.0), (-3.0, 17.0), 1.0, 2.0
    rows[:, 3] = 1.0
    from parhelion.motion.drivers import DrivenMotion

    truck = DrivenMotion(state_of_rows(rows))
    world.add_actor(
        ph.shapes.box(1.0, 2.0, 2.0), material="steel", label="truck", name="truck", trajectory=truck
    )  # fmt: skip
    driver = HullDriver(world)
    quad = vehicle(QUAD)
    driver.add("quad", quad, ph.Pose((0, 0, 1.0)))
    (hit,), _ = until_contact(driver, [STILL])
    assert (hit.other, hit.normal[0] > 0.9) == ("truck", True)
    assert quad.velocity_m_s[0] > 1.5


@pytest.mark.parametrize(("label", "mass"), [("person", 75.0), ("car", 1500.0)])
def test_the_impulse_on_an_actor_is_that_of_the_reduced_mass(label: str, mass: float) -> None:
    """(1 + e) v m M/(m + M), with the restitution of the hull; the actor keeps its share as recoil, also when saved."""
    world = ph.World()
    block(world, (200.0, 200.0, 1.0), (0.0, 0.0, -50.0), "bottom")
    pose = ph.Pose((6.0, 0, 0))
    world.add_actor(ph.shapes.box(0.6, 3, 3), material="steel", label=label, name="it", trajectory=pose)
    boat = barge(0.1)
    driver = HullDriver(world)
    driver.add("boat", boat, ph.Pose((0, 0, 0)))
    place, quat, _, spin = boat.motion()
    boat.carry(place, quat, (2.0, 0.0, 0.0), spin)
    (hit,), _ = until_contact(driver, [ADRIFT])
    own = float(boat.heavy[0][0])
    expected = 1.1 * 2.0 * own * mass / (own + mass)
    assert hit.other == "it"
    assert hit.impulse_n_s == pytest.approx(expected, rel=0.1)
    (recoil,) = driver.obstacles.recoils.values()
    assert recoil[0] == pytest.approx(expected / mass, rel=0.15)
    saved = driver.save()
    driver.load(saved)
    assert list(driver.obstacles.recoils.values()) == [recoil]


def test_clearance_is_the_distance_of_the_hull() -> None:
    driver = HullDriver(hall())
    driver.add("quad", vehicle(QUAD), ph.Pose((1.0, 0, 2)))
    assert driver.clearances()[0] == pytest.approx(4.0 - 1.0 - 0.27, abs=1e-9)
    driver.add("other", vehicle(QUAD), ph.Pose((2.0, 0, 2)))
    np.testing.assert_allclose(driver.clearances(), [1.0 - 0.54, 1.0 - 0.54], atol=1e-9)


def test_bad_starts_are_refused_or_raised() -> None:
    driver = HullDriver(hall())
    with pytest.raises(
        ConfigError, match=r"quad: its hull overlaps 'wall' at its start at \(4, 0, 2\); move the start"
    ):
        driver.add("quad", vehicle(QUAD), ph.Pose((4.0, 0, 2)))
    with pytest.warns(UserWarning, match=r"quad: its start at \(0, 0, -0.5\) is 0.56 m below the ground; raised"):
        driver.add("quad", vehicle(QUAD), ph.Pose((0, 0, -0.5)))
    assert driver.rows()[0, 3] == pytest.approx(0.06)
    with pytest.raises(ConfigError, match="other: its hull overlaps 'quad'"):
        driver.add("other", vehicle(QUAD), ph.Pose((0.2, 0, 0.1)))
    with pytest.raises(ConfigError, match="boat: its hull overlaps 'bottom'"):
        HullDriver(basin(bottom_m=-0.1)).add("boat", vehicle(BOAT), ph.Pose((0, 0, 0)))
    with pytest.raises(
        ConfigError, match="robot: dynamics: hull is for multirotors and vessels, got DifferentialDrive"
    ):
        driver.add("robot", vehicle("clearpath/husky"), ph.Pose((0, 3, 0)))
    with pytest.raises(ConfigError, match="accepts PositionCommand"):
        driver.step([DriveCommand(1.0)], DT)


def test_sheets_with_wrong_legs_are_refused() -> None:
    sheet = vehicle_sheet(QUAD)
    with pytest.raises(ValueError, match=r"leg_height_m: 0.2 m must be less than the height of 0.12 m"):
        type(sheet).model_validate({**sheet.model_dump(), "leg_height_m": 0.2})
    with pytest.raises(ValueError, match="hull_friction"):
        type(sheet).model_validate({**sheet.model_dump(), "hull_friction": -0.1})
