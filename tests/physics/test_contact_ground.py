"""Wheels on the ground against closed forms: slopes, brakes, tipping, kerbs, turns and soft soil."""

from __future__ import annotations

import math

import numpy as np
import pytest

import parhelion as ph
from contact_rigs import CAR, HUSKY, REST, G, flat, launched, model, run, tilted
from parhelion.contact import soil
from parhelion.contact.driver import ContactDriver
from parhelion.motion.vehicles.base import DriveCommand, SteerCommand
from parhelion.motion.vehicles.library import vehicle

DRY = 0.85
"""Friction of dry asphalt."""


def _one(name: str, world: ph.World, x: float = 0.0, **changes: object) -> ContactDriver:
    driver = ContactDriver(world)
    driver.add("v", model(name, **changes), ph.Pose((x, 0, 0)))
    return driver


@pytest.mark.parametrize("name", [HUSKY, CAR, "pioneer/p3-dx"])
def test_a_vehicle_stands_at_its_geometric_height(name: str) -> None:
    driver = _one(name, flat())
    run(driver, [REST], 1.0)
    row = driver.rows()[0]
    assert abs(row[3]) < 0.002
    assert np.abs(row[8:14]).max() < 1e-4
    assert driver.wheel_loads()[0].sum() == pytest.approx(vehicle(name).config.mass_kg * G, rel=1e-4)


@pytest.mark.parametrize("slope_deg", [30.0, 42.0])
def test_locked_wheels_slide_down_a_slope_at_g_sin_minus_mu_g_cos(slope_deg: float) -> None:
    driver = _one(HUSKY, flat(), friction_share=0.5)
    tilted(driver, slope_deg)
    run(driver, [REST], 0.5)
    before = driver.rows()[0][8]
    run(driver, [REST], 1.0)
    angle = math.radians(slope_deg)
    assert before - driver.rows()[0][8] == pytest.approx(G * (math.sin(angle) - 0.5 * DRY * math.cos(angle)), rel=1e-3)


@pytest.mark.parametrize(("kind", "friction", "speed"), [("asphalt", DRY, 20.0), ("ice", 0.1, 8.0)])
def test_braking_takes_v_squared_over_2_mu_g(kind: str, friction: float, speed: float) -> None:
    driver = _one(CAR, flat(kind), x=-100.0, speed_lag_s=0.05, max_braking_m_s2=12.0)
    run(driver, [REST], 0.3)
    launched(driver, 0, (speed, 0.0, 0.0))
    start = driver.rows()[0][1]
    run(driver, [REST], speed / (friction * G) + 1.0)
    assert driver.rows()[0][1] - start == pytest.approx(speed**2 / (2.0 * friction * G), rel=0.02)
    assert abs(driver.rows()[0][8]) < 1e-3


def test_rain_lengthens_the_braking_distance() -> None:
    world = flat()
    world.weather = ph.Weather(rain_rate_mm_h=5.0)
    driver = _one(CAR, world, x=-100.0, speed_lag_s=0.05, max_braking_m_s2=12.0)
    run(driver, [REST], 0.3)
    launched(driver, 0, (10.0, 0.0, 0.0))
    start = driver.rows()[0][1]
    run(driver, [REST], 3.0)
    assert driver.rows()[0][1] - start == pytest.approx(100.0 / (2.0 * 0.6 * G), rel=0.02)


def test_a_car_parks_on_a_slope_with_axle_loads_from_moments() -> None:
    driver = _one(CAR, flat(slope_deg=10.0))
    run(driver, [REST], 1.5)
    place = driver.rows()[0][1:4].copy()
    run(driver, [REST], 2.0)
    car, angle = vehicle(CAR).config, math.radians(10.0)
    lever = car.rear_axle_m * math.cos(angle) - car.centre_of_mass_height_m * math.sin(angle)
    front = car.mass_kg * G * lever / (car.front_axle_m + car.rear_axle_m)
    assert driver.wheel_loads()[0][:2].sum() == pytest.approx(front, rel=0.005)
    assert driver.wheel_loads()[0].sum() == pytest.approx(car.mass_kg * G * math.cos(angle), rel=0.002)
    assert np.abs(driver.rows()[0][1:4] - place).max() < 1e-5


@pytest.mark.parametrize("height", [0.15, 0.205])
def test_a_robot_tips_where_its_centre_of_mass_leaves_its_track(height: float) -> None:
    """Gravity tilts by 0.5 deg/s; the robot tips about the lower wheels."""
    limit = math.degrees(math.atan(0.5 * 0.5708 / height))
    driver = _one(HUSKY, flat(), friction_share=3.0, centre_of_mass_m=(0.0, 0.0, height))
    angle = limit - 20.0
    while angle < limit + 5.0 and abs(driver.rows()[0][11]) < 0.2:
        angle += 0.05 if angle > limit - 2.0 else 0.2
        tilted(driver, angle, axis=1)
        run(driver, [REST], 0.1, 0.02)
    assert angle == pytest.approx(limit, abs=1.2)


def _climbs(height: float) -> tuple[float, float]:
    world = flat()
    world.add(ph.shapes.box(10, 10, height), material="asphalt", label="road", pose=ph.Pose((6, 0, height / 2)))
    driver = _one(HUSKY, world)
    run(driver, [DriveCommand(0.5)], 6.0)
    assert np.linalg.norm(driver.rows()[0][8:11]) < 0.6  # a kerb gives no energy
    return driver.rows()[0][1], driver.rows()[0][3]


def test_a_robot_climbs_a_kerb_of_10_cm_but_not_above_the_limit() -> None:
    """With all wheels driven, the limit is r (1 - cos phi), tan(phi) = 2 mu/(1 - mu^2): 13.8 cm."""
    x, z = _climbs(0.1)
    assert x > 1.5
    assert z == pytest.approx(0.1, abs=0.005)
    x, z = _climbs(0.145)
    assert x < 0.7
    assert z < 0.02


def test_skid_steering_turns_by_the_closed_form_of_four_equal_loads() -> None:
    driver = _one(HUSKY, flat())
    run(driver, [DriveCommand(0.0, 0.5)], 2.5)
    left, right = driver._members[0].vehicle.wheel_rates_rad_s
    half_base, half_track = 0.26 * 0.99, 0.5 * 0.5708
    wanted = (right - left) * 0.1651 / 0.5708 * half_track**2 / (half_base**2 + half_track**2)
    row = driver.rows()[0]
    assert row[13] == pytest.approx(wanted, rel=1e-3)
    assert abs(row[10]) < 1e-4
    assert abs(row[16]) < 1e-2


def test_a_car_turns_as_the_bicycle_model() -> None:
    """A neutral car steers by its wheelbase alone: yaw rate v delta/L."""
    driver = _one(CAR, flat(), x=-50.0)
    run(driver, [SteerCommand(10.0, 0.0)], 4.0)
    run(driver, [SteerCommand(10.0, math.radians(3.0))], 3.0)
    row = driver.rows()[0]
    speed = math.hypot(row[8], row[9])
    assert row[13] == pytest.approx(speed * math.radians(3.0) / 2.5789, rel=0.01)


def test_a_car_slips_sideways_by_the_cornering_stiffness_of_its_sheet() -> None:
    """Side force C alpha on both axles, so the body slips by b/R - m v^2 a/(L R C_r)."""
    driver = _one(CAR, flat(), x=-50.0)
    run(driver, [SteerCommand(12.0, 0.0)], 4.0)
    run(driver, [SteerCommand(12.0, math.radians(2.0))], 3.0)
    car, row = vehicle(CAR).config, driver.rows()[0]
    forward = np.array([1 - 2 * (row[5] ** 2 + row[6] ** 2 + 0), 2 * (row[4] * row[5] + row[7] * row[6])])
    forward /= np.linalg.norm(forward)
    along, aside = forward @ row[8:10], forward[0] * row[9] - forward[1] * row[8]
    rear = car.friction * car.rear_stiffness_1_rad
    slip = car.rear_axle_m * row[13] / along - along * row[13] / (G * rear)
    assert aside / along == pytest.approx(slip, abs=0.0015)


# ---- soft soil -------------------------------------------------------------------------------------------------------


def test_a_robot_sinks_into_sand_by_bekkers_equation() -> None:
    driver = _one(HUSKY, flat("sand"))
    run(driver, [REST], 2.0)
    dry, load = soil.SOILS["dry sand"], 50.0 * G / 4.0
    width = 0.6 * 0.1651
    k = soil.stiffness(dry.k_c, dry.k_phi, width)
    depth = soil.sinkage(load, width, 2 * (0.1651 + 0.002), k, dry.exponent)
    assert driver.sinkages()[0][:4] == pytest.approx(np.full(4, depth), rel=0.02)
    assert driver.rows()[0][3] == pytest.approx(-depth, abs=1e-3)


def test_sand_slows_a_robot_by_the_slip_that_overcomes_compaction() -> None:
    """In steady motion, thrust(slip) equals the compaction resistance."""
    driver = _one(HUSKY, flat("sand"), x=-20.0)
    run(driver, [DriveCommand(0.8)], 5.0)
    dry, load, width = soil.SOILS["dry sand"], 50.0 * G / 4.0, 0.6 * 0.1651
    slip = 1.0 - driver.rows()[0][8] / 0.8
    assert 0.01 < slip < 0.3
    pulls = [soil.drawbar_pull(load, width, 0.334, dry, s) for s in (0.8 * slip, 1.25 * slip)]
    assert pulls[0] < 0.0 < pulls[1]


def test_clay_holds_a_heavy_robot_and_the_driver_reports_it() -> None:
    """Mud: the drawbar pull is negative at every slip."""
    world = flat("mud")
    clay, load, width = soil.SOILS["clayey soil"], 1000.0 * G / 4.0, 0.6 * 0.1651
    assert all(soil.drawbar_pull(load, width, 0.334, clay, s) < 0.0 for s in np.linspace(0.02, 1.0, 30))
    driver = _one(HUSKY, world, mass_kg=1000.0, ground_clearance_m=0.2, max_wheel_torque_n_m=900.0)
    run(driver, [DriveCommand(0.8)], 3.0)
    assert abs(driver.rows()[0][8]) < 0.08
    assert [one.kind for one in driver.events()] == ["stuck"]
    assert 1.9 < driver.events()[0].time_s < 2.6


def test_a_robot_at_rest_on_a_sandy_slope_stays() -> None:
    driver = _one(HUSKY, flat("sand"))
    tilted(driver, 10.0)
    run(driver, [REST], 2.0)
    before = driver.rows()[0][1]
    run(driver, [REST], 1.0)
    assert abs(driver.rows()[0][1] - before) < 1e-4
