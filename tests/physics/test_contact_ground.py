"""Wheels on the ground against closed forms: slopes, brakes, tipping, kerbs, turns and soft soil."""

from __future__ import annotations

import math

import numpy as np
import pytest

import parhelion as ph
from contact_rigs import CAR, HUSKY, REST, G, flat, launched, model, run, tilted
from parhelion.contact import soil
from parhelion.contact.chassis import chassis_of
from parhelion.contact.driver import ContactDriver
from parhelion.contact.terrain import ground_properties
from parhelion.core.pose import quat_rotate
from parhelion.motion.vehicles.base import DriveCommand, SteerCommand
from parhelion.motion.vehicles.ground import Car
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


def _coasting(world: ph.World) -> tuple[ContactDriver, float]:
    """A robot whose wheels turn freely, and the inertia of its wheels divided by its mass and their radius squared."""
    wheels = [one.model_copy(update={"driven": False}) for one in chassis_of(model(HUSKY).config).wheels]
    driver = _one(HUSKY, world, wheels=wheels)
    one = driver._members[0]
    share = sum(one.chassis.wheel_inertia_kg_m2 / wheel.radius_m**2 for wheel in wheels) / one.vehicle.config.mass_kg
    run(driver, [REST], 0.3)
    return driver, share


@pytest.mark.parametrize(("kind", "resistance", "slope_deg"), [("asphalt", 0.012, 5.0), ("gravel", 0.03, 12.0)])
def test_free_wheels_roll_down_a_slope_as_their_inertia_and_resistance_allow(
    kind: str, resistance: float, slope_deg: float
) -> None:
    """a (1 + sum I/(m r^2)) = g (sin - c cos); the solution of the first half second has died away."""
    assert ground_properties(kind)[1] == resistance
    driver, share = _coasting(flat(kind))
    tilted(driver, slope_deg)
    run(driver, [REST], 0.5)
    before = driver.rows()[0][8]
    run(driver, [REST], 1.0)
    angle = math.radians(slope_deg)
    pull = G * (math.sin(angle) - resistance * math.cos(angle))
    assert before - driver.rows()[0][8] == pytest.approx(pull / (1.0 + share), rel=1e-3)


@pytest.mark.parametrize(("times", "climbs"), [(0.95, False), (3.0, True)])
def test_a_robot_coasts_over_a_kerb_only_by_its_own_energy(times: float, climbs: bool) -> None:
    """Both axles are up only if (1 + sum I/(m r^2)) v^2 / 2 exceeds g h, and at least so much of it is gone then."""
    height, world = 0.03, flat()
    world.add(ph.shapes.box(20, 10, height), material="asphalt", label="road", pose=ph.Pose((10.6, 0, height / 2)))
    driver, share = _coasting(world)
    least = math.sqrt(2.0 * G * height / (1.0 + share))
    launched(driver, 0, (times * least, 0.0, 0.0))
    heights: list[float] = []
    run(driver, [REST], 2.0, watch=lambda rows, _: heights.append(rows[0][3]))
    if climbs:
        assert heights[-1] == pytest.approx(height, abs=1e-3)
        assert 0.5 < driver.rows()[0][8] < math.sqrt(times**2 - 1.0) * least
    else:
        assert 0.4 * height < max(heights) < 0.75 * height  # the front axle alone


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


def test_a_shower_makes_the_ground_slippery_while_it_lasts() -> None:
    """Locked wheels slide down at g (sin - mu cos) with the friction of dry asphalt, then of wet, then of dry."""
    world = flat()
    world.weather = ph.Weather(rain_rate_mm_h=[[0, 0], [1.0, 0], [1.01, 5], [2.0, 5], [2.01, 0], [3.0, 0]])
    driver = _one(HUSKY, world)
    tilted(driver, 45.0)
    found = []
    for _ in range(3):
        run(driver, [REST], 0.3)
        before = driver.rows()[0][8]
        run(driver, [REST], 0.5)
        found.append((before - driver.rows()[0][8]) / 0.5)
        run(driver, [REST], 0.2)
    half = math.sqrt(0.5)
    assert found == pytest.approx([G * half * (1.0 - mu) for mu in (DRY, 0.6, DRY)], rel=0.01)
    world.weather = ph.Weather(rain_rate_mm_h=5.0)  # a live edit
    before = driver.rows()[0][8]
    run(driver, [REST], 0.5)
    assert (before - driver.rows()[0][8]) / 0.5 == pytest.approx(G * half * 0.4, rel=0.02)


def test_the_friction_of_a_wheel_limits_that_of_the_ground() -> None:
    wheels = [one.model_copy(update={"friction": 0.3}) for one in chassis_of(model(HUSKY).config).wheels]
    driver = _one(HUSKY, flat(), wheels=wheels)
    tilted(driver, 45.0)
    run(driver, [REST], 0.5)
    before = driver.rows()[0][8]
    run(driver, [REST], 1.0)
    assert before - driver.rows()[0][8] == pytest.approx(G * math.sqrt(0.5) * 0.7, rel=1e-3)


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
def test_a_robot_tips_where_its_centre_of_mass_leaves_its_wheels(height: float) -> None:
    """Gravity tilts by 0.5 deg/s; the robot tips about its lower wheels.

    It rolls by d/c before it stands on their outer discs, c beside their middle; d is the deflection of a tyre.
    """
    beside, limit = 0.4 * 0.6 * 0.1651, 60.0
    for _ in range(20):
        roll = 0.004 * math.cos(math.radians(limit)) / beside
        limit = math.degrees(math.atan((0.5 * 0.5708 + beside - height * roll) / height))
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


def drawbar_pull(load: float, width: float, diameter: float, ground: soil.Soil, slip: float) -> float:
    """Pull [N] that a driven wheel has left at a slip: thrust minus compaction resistance; negative if it is stuck."""
    k = soil.stiffness(ground.k_c, ground.k_phi, width)
    depth = np.minimum(soil.sinkage(load, width, diameter, k, ground.exponent), ground.thickness)
    length = soil.contact_length(depth, 0.5 * diameter)
    strength = soil.shear_strength(load, width * length, ground.cohesion, math.tan(math.radians(ground.friction_deg)))
    thrust = strength * soil.mobilised(slip * length, ground.shear)
    return float(thrust - soil.compaction_resistance(depth, width, k, ground.exponent))


def test_sand_slows_a_robot_by_the_slip_that_overcomes_compaction() -> None:
    """In steady motion, thrust(slip) equals the compaction resistance."""
    driver = _one(HUSKY, flat("sand"), x=-20.0)
    run(driver, [DriveCommand(0.8)], 5.0)
    dry, load, width = soil.SOILS["dry sand"], 50.0 * G / 4.0, 0.6 * 0.1651
    slip = 1.0 - driver.rows()[0][8] / 0.8
    assert 0.01 < slip < 0.3
    pulls = [drawbar_pull(load, width, 0.334, dry, s) for s in (0.8 * slip, 1.25 * slip)]
    assert pulls[0] < 0.0 < pulls[1]


def test_clay_holds_a_heavy_robot_and_the_driver_reports_it() -> None:
    """Mud: the drawbar pull is negative at every slip."""
    world = flat("mud")
    clay, load, width = soil.SOILS["clayey soil"], 1000.0 * G / 4.0, 0.6 * 0.1651
    assert all(drawbar_pull(load, width, 0.334, clay, s) < 0.0 for s in np.linspace(0.02, 1.0, 30))
    driver = _one(HUSKY, world, mass_kg=1000.0, ground_clearance_m=0.2, max_wheel_torque_n_m=900.0)
    run(driver, [DriveCommand(0.8)], 3.0)
    assert abs(driver.rows()[0][8]) < 0.08
    assert [one.kind for one in driver.events()] == ["stuck"]
    assert 1.9 < driver.events()[0].time_s < 2.6


@pytest.mark.parametrize(("name", "slope_deg", "creep"), [(HUSKY, 10.0, 1e-4), ("pioneer/p3-dx", 8.0, 2e-3)])
def test_a_robot_at_rest_on_a_sandy_slope_stays(name: str, slope_deg: float, creep: float) -> None:
    """The caster of the P3-DX would sink to its hub, and stops at three quarters of its radius; sand shears slowly."""
    driver = ContactDriver(flat("sand"))
    driver.add("v", vehicle(name), ph.Pose((0, 0, 0)))
    tilted(driver, slope_deg)
    run(driver, [REST], 2.0)
    before = driver.rows()[0][1]
    run(driver, [REST], 1.0)
    assert abs(driver.rows()[0][1] - before) < creep


# ---- suspension and width --------------------------------------------------------------------------------------------

TRUCK = "amgeneral/hmmwv"


def _sprung(name: str, world: ph.World, x: float = 0.0, **changes: object) -> ContactDriver:
    """A car of the library, with its own chassis and suspension."""
    driver = ContactDriver(world)
    config = vehicle(name).config.model_copy(update=changes)
    driver.add("v", Car(config), ph.Pose((x, 0, 0)))
    return driver


def _rates(name: str) -> list[float]:
    """Stiffness [N/m] of spring and tyre in series, of a front and of a rear wheel."""
    chassis = vehicle(name).config.chassis
    springs = [chassis.wheels[k].suspension.stiffness_n_m for k in (0, 2)]
    return [1.0 / (1.0 / one + 1.0 / chassis.tyre_stiffness_n_m) for one in springs]


def _tilt(driver: ContactDriver) -> tuple[float, float]:
    """Roll and pitch [rad], nose up."""
    x, y, z, w = driver.rows()[0][4:8].tolist()
    return math.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y)), -math.asin(2.0 * (w * y - z * x))


@pytest.mark.parametrize("name", [CAR, TRUCK])
def test_a_sprung_car_stands_level_at_its_nominal_height(name: str) -> None:
    driver = _sprung(name, flat())
    run(driver, [REST], 2.0)
    assert abs(driver.rows()[0][3]) < 1e-3
    assert np.abs(_tilt(driver)).max() < 1e-4
    assert np.abs(driver.lifts()).max() < 1e-3


@pytest.mark.parametrize("name", [CAR, TRUCK])
def test_springs_and_tyres_deflect_by_load_over_stiffness(name: str) -> None:
    """With gravity raised by a tenth, each axle sinks by a tenth of its load, divided by spring and tyre in series."""
    driver = _sprung(name, flat())
    driver.gravity = driver.gravity * 1.1
    run(driver, [REST], 3.0)
    car, (front, rear) = vehicle(name).config, _rates(name)
    base = car.front_axle_m + car.rear_axle_m
    sinks = [0.1 * car.mass_kg * G * lever / base / 2.0 / rate
             for lever, rate in ((car.rear_axle_m, front), (car.front_axle_m, rear))]  # fmt: skip
    z, pitch = driver.rows()[0][3], _tilt(driver)[1]
    found = [-(z + math.sin(pitch) * x) for x in (car.front_axle_m, -car.rear_axle_m)]
    assert found == pytest.approx(sinks, rel=0.02)
    springs = [0.1 * load / driver._members[0].chassis.wheels[k].suspension.stiffness_n_m
               for k, load in ((0, car.mass_kg * G * car.rear_axle_m / base / 2.0),
                               (2, car.mass_kg * G * car.front_axle_m / base / 2.0))]  # fmt: skip
    assert driver.lifts()[0][[0, 2]] == pytest.approx(springs, rel=0.02)


@pytest.mark.parametrize(("name", "slow"), [(CAR, 4.0), (TRUCK, 4.0)])
def test_a_braking_car_pitches_by_its_load_transfer(name: str, slow: float) -> None:
    """The load m a h/L moves from the rear to the front springs: pitch m a h/(2 L^2) (1/kf + 1/kr)."""
    driver = _sprung(name, flat(), x=-150.0, max_braking_m_s2=slow, speed_lag_s=0.05)
    run(driver, [REST], 0.5)
    launched(driver, 0, (20.0, 0.0, 0.0))
    run(driver, [REST], 2.5)
    car, (front, rear) = vehicle(name).config, _rates(name)
    speed = driver.rows()[0][8]
    pitches = []
    run(driver, [REST], 0.5, watch=lambda *_: pitches.append(_tilt(driver)[1]))
    slowing = (speed - driver.rows()[0][8]) / 0.5
    base = car.front_axle_m + car.rear_axle_m
    closed = car.mass_kg * slowing * car.centre_of_mass_height_m / (2.0 * base**2) * (1.0 / front + 1.0 / rear)
    assert slowing == pytest.approx(slow, rel=0.1)
    assert -np.mean(pitches) == pytest.approx(closed, rel=0.06)


def test_a_car_leans_out_of_a_bend_by_its_roll_stiffness() -> None:
    """Roll m a h/(K - m g h): springs with bars, and tyres, are in series; the width of each tyre adds k (0.4 b)^2."""
    driver = _sprung(CAR, flat(), x=-50.0)
    run(driver, [SteerCommand(10.0, 0.0)], 4.0)
    run(driver, [SteerCommand(10.0, math.radians(2.0))], 3.0)
    car, chassis = vehicle(CAR).config, vehicle(CAR).config.chassis
    stiff = 4.0 * chassis.tyre_stiffness_n_m * (0.4 * 0.6 * 0.344) ** 2
    for k in (0, 2):
        half, strut = chassis.wheels[k].y_m, chassis.wheels[k].suspension
        springs = 2.0 * strut.stiffness_n_m * half**2 + strut.anti_roll_n_m_rad
        stiff += 1.0 / (1.0 / springs + 1.0 / (2.0 * chassis.tyre_stiffness_n_m * half**2))
    row, height = driver.rows()[0], car.centre_of_mass_height_m
    across = math.hypot(row[8], row[9]) * row[13]
    closed = car.mass_kg * across * height / (stiff - car.mass_kg * G * height)
    assert across > 1.0
    assert _tilt(driver)[0] == pytest.approx(closed, rel=0.03)


def test_a_suspension_stops_at_its_travel() -> None:
    driver = _sprung(CAR, flat())
    driver.gravity = driver.gravity * 3.0
    run(driver, [REST], 3.0)
    travel = [0.197 - 2957.0 / 24445.0, 0.199 - 2403.0 / 19629.0]
    assert driver.lifts()[0][[0, 2]] == pytest.approx(travel, abs=1e-3)
    driver.gravity = np.zeros(3)
    driver._state[2, 0] += 1.0
    driver._forget()
    run(driver, [REST], 1.0)
    assert driver.lifts()[0][[0, 2]] == pytest.approx([-2957.0 / 24445.0, -2403.0 / 19629.0], abs=1e-3)


@pytest.mark.parametrize(("side", "carries"), [(0.05, True), (-0.05, True), (0.16, False)])
def test_a_wheel_stands_on_what_is_under_its_width(side: float, carries: bool) -> None:
    """A plank of 5 cm beside the middle of the left front wheel: under its tread it lifts the wheel, farther not."""
    world = flat()
    plank = ph.Pose((0.256, 0.2854 + side, 0.005))
    world.add(ph.shapes.box(0.3, 0.05, 0.01), material="wood", label="plank", pose=plank)
    driver = ContactDriver(world)
    driver.add("v", vehicle(HUSKY), ph.Pose((0, 0, 0)))
    run(driver, [REST], 1.0)
    assert (abs(_tilt(driver)[0]) > 0.003) == carries


@pytest.mark.parametrize("angle_deg", [4.0, 10.0, 18.0, 26.0, 37.0, 41.0])
def test_the_edge_of_a_kerb_between_two_rays_carries_a_wheel(angle_deg: float) -> None:
    """A wheel rests on an edge at an angle from straight down: r (1 - cos) of the edge's height is above the ground."""
    world, car = flat(), vehicle(CAR).config
    angle, radius = math.radians(angle_deg), car.chassis.wheels[0].radius_m
    x = 1.1562 + radius * math.sin(angle)
    high = radius * (1.0 - math.cos(angle)) + 0.05
    world.add(ph.shapes.box(1.0, 6.0, 2.0 * high), material="asphalt", label="kerb", pose=ph.Pose((x + 0.5, 0, 0)))
    driver = ContactDriver(world)
    driver.add("v", Car(car), ph.Pose((0, 0, 0)))
    driver._state[:3, 0] = (0.0, 0.0, 0.574 + 0.06)
    driver._state[3:7, 0] = (0.0, 0.0, 0.0, 1.0)
    driver._forget()
    run(driver, [REST], 1.5)
    hub = driver.rows()[0][1:4] + quat_rotate(driver.rows()[0][4:8], np.array([1.1562, 0.6934, radius]))
    hub[2] += driver.lifts()[0][0]
    gap = math.dist((hub[0], hub[2]), (x, high)) if hub[0] < x else hub[2] - high
    assert gap > radius - 0.02


def test_a_sprung_car_heaves_as_a_damped_mass_on_spring_and_tyre() -> None:
    """m z'' = -k_t d, k_t d = k_s s + c s', z = -(d + s): the three roots of the characteristic equation decide."""
    chassis = vehicle(CAR).config.chassis
    wheel = chassis.wheels[0].suspension.model_copy(update={"anti_roll_n_m_rad": 0.0})
    wheels = [one.model_copy(update={"suspension": wheel, "x_m": x, "y_m": y}) for one, (x, y) in
              zip(chassis.wheels, ((1.2, 0.7), (1.2, -0.7), (-1.2, 0.7), (-1.2, -0.7)), strict=True)]  # fmt: skip
    driver = _sprung(CAR, flat(), chassis=chassis.model_copy(update={"wheels": wheels}))
    run(driver, [REST], 1.0)
    driver._state[9, 0] = -0.3
    driver._forget()
    heights: list[float] = []
    run(driver, [REST], 0.6, watch=lambda rows, _: heights.append(rows[0][3]))
    mass, tyre, spring, damper = 1093.3 / 4.0, chassis.tyre_stiffness_n_m, wheel.stiffness_n_m, wheel.damping_n_s_m
    # State (z, z', s): d = -z - s, s' = (k_t d - k_s s) / c.
    rates = np.array(
        [[0.0, 1.0, 0.0], [-tyre / mass, 0.0, -tyre / mass], [-tyre / damper, 0.0, -(tyre + spring) / damper]]
    )
    values, vectors = np.linalg.eig(rates)
    parts = vectors * np.linalg.solve(vectors, np.array([0.0, -0.3, 0.0]))
    closed = (parts[0] * np.exp(np.outer(np.arange(1, 61) * 0.01, values))).sum(axis=1).real
    assert np.abs(np.array(heights) - closed).max() < 0.08 * np.abs(closed).max()
