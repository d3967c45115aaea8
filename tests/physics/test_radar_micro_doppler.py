"""Micro-Doppler: rotating and swinging parts of bodies have the velocity of the point that a ray hits."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.trajectory import pose_at
from parhelion.motion import MotionLimits, SplineMotion
from parhelion.motion.actors import add_car, add_cyclist, add_person
from parhelion.motion.actors.body import Turning
from parhelion.motion.actors.cycles import CRANK_M
from parhelion.sensors.waves.motion import twists
from wave_rigs import doppler_hz, narrow, radar_config

RADIUS, SPEED = 0.35, 10.0


def rolling_wheel() -> ph.World:
    """A tyre that comes along -x towards a sensor at the origin, its hub 20 m away and as high as the sensor."""
    world = ph.World()
    hub = ph.ConstantTwist(ph.Pose((20.0, 0.0, 0.0)), velocity=(-SPEED, 0.0, 0.0))
    tyre = ph.shapes.cylinder(RADIUS, 0.2, 96).transformed(ph.Pose(rpy_deg=(90, 0, 0)))
    # Forward is -x, so that the wheel turns backwards about y.
    world.add_actor(tyre, material="rubber", trajectory=Turning(hub, 1, lambda t: -SPEED / RADIUS * np.asarray(t)))
    return world


def test_a_rolling_wheel_spans_0_to_twice_its_speed() -> None:
    # Strong enough that rays at grazing incidence, on top and at the bottom, are not dropped.
    field = {"azimuth_deg": (-1.2, 1.2), "elevation_deg": (-1.2, 1.2), "rays": 60_000}
    radar = ph.Radar(radar_config(power_dbm=80, field=field))
    paths = radar.paths(rolling_wheel(), pose=ph.Pose())
    assert len(paths) > 1000
    at = 0.5 * radar.frame_duration_s
    toward = paths.direction.astype(np.float64)
    point = toward * paths.distance.astype(np.float64)[:, None]
    # Rolling on the ground at z = -RADIUS: a point moves about the one that touches it.
    hub = np.array([20.0 - SPEED * at, 0.0, 0.0])
    lever = point - (hub - [0.0, 0.0, RADIUS])
    velocity = SPEED / RADIUS * np.stack([-lever[:, 2], np.zeros(len(lever)), lever[:, 0]], axis=1)
    exact = -2.0 * np.sum(velocity * toward, axis=1) * 77e9 / SPEED_OF_LIGHT_M_S
    found = doppler_hz(paths.rate, 77e9)
    # Float32 places a point to some micrometres, at 29 rad/s.
    assert np.abs(found - exact).max() < 0.5
    radial = -0.5 * paths.rate.astype(np.float64)
    height = lever[:, 2] / (2.0 * RADIUS)
    assert radial[height < 0.05].max() < 0.15 * SPEED
    assert radial[height > 0.95].min() > 1.85 * SPEED
    assert radial[np.abs(height - 0.5) < 0.01] == pytest.approx(SPEED, rel=0.03)
    assert radial.min() > -0.2
    assert radial.max() < 2.0 * SPEED + 0.2


def test_the_cube_shows_the_wheel_s_spread() -> None:
    config = radar_config(
        waveform={"interval_us": 30, "ramp_us": 25, "ramps": 256, "range_bins": 96}, power_dbm=40,
        field={"azimuth_deg": (-2, 2), "elevation_deg": (-2, 2), "rays": 20_000},
    )  # fmt: skip
    radar = ph.Radar(config, cube=True, noise=False)
    cube = radar.scan(rolling_wheel(), pose=ph.Pose(), seed=1).cube
    assert cube is not None
    profile = cube.power.max(axis=(0, 2, 3))
    bright = cube.radial_velocity[profile > 1e-6 * profile.max()]
    assert bright.min() == pytest.approx(-2.0 * SPEED, abs=1.5)
    assert bright.max() == pytest.approx(0.0, abs=1.5)


def test_wheels_of_cars_roll() -> None:
    world = ph.World()
    motion = ph.ConstantTwist(ph.Pose((30.0, 0.0, 0.0), rpy_deg=(0, 0, 180)), velocity=(-SPEED, 0.0, 0.0))
    car = add_car(world, motion, wheels=True, times=(0.0, 5.0))
    radar = ph.Radar(narrow(4.0, rays=60_000))
    paths = radar.paths(world, pose=ph.Pose((0.0, 4.0, 0.4), rpy_deg=(0, 0, -8)))
    wheels = {part.number for item in car.objects[1:] for part in item.parts}
    on_wheel = np.isin(paths.part, list(wheels)) & (paths.bounces == 1)
    assert on_wheel.sum() > 200
    # The body has one velocity; wheels spread about it by as much on either side.
    speed = -0.5 * paths.rate.astype(np.float64)
    body = (paths.bounces == 1) & ~on_wheel
    assert np.ptp(speed[body]) < 0.1 * SPEED
    assert speed[on_wheel].min() < 0.4 * SPEED
    assert speed[on_wheel].max() > 1.6 * SPEED


def test_limbs_of_a_walker_carry_their_own_velocity() -> None:
    walk = 1.4
    world = ph.World()
    motion = ph.ConstantTwist(ph.Pose((12.0, 0.0, 0.0), rpy_deg=(0, 0, 180)), velocity=(-walk, 0.0, 0.0))
    person = add_person(world, motion, times=(-2.0, 6.0))
    owner = {part.number: item for item in person.objects for part in item.parts}
    radar = ph.Radar(narrow(6.0, rays=10_000))
    step = 5e-4
    seen: dict[str, list[float]] = {}
    for start in np.arange(1.0, 2.1, 0.14):
        sensor = ph.Pose((0.0, 0.0, 0.9))
        paths = radar.paths(world, pose=sensor, time=float(start))
        paths = paths.rows(paths.bounces == 1)
        at = start + 0.5 * radar.frame_duration_s
        toward = paths.direction.astype(np.float64)
        point = sensor.xyz + toward * paths.distance.astype(np.float64)[:, None]
        speed = -0.5 * paths.rate.astype(np.float64)
        for number in np.unique(paths.part):
            rows = paths.part == number
            item = owner[int(number)]
            # Positions of the same points of the limb slightly earlier and later, in float64.
            own = pose_at(item.trajectory, at).inverse().apply(point[rows])
            after, before = (pose_at(item.trajectory, at + sign * 0.5 * step).apply(own) for sign in (1.0, -1.0))
            exact = -np.sum((after - before) / step * toward[rows], axis=1)
            assert speed[rows] == pytest.approx(exact, abs=0.02)
            seen.setdefault(item.name.split("/")[1].removeprefix("left ").removeprefix("right "), []).extend(exact)
    assert np.mean(seen["torso"]) == pytest.approx(walk, abs=0.05)
    assert np.ptp(seen["torso"]) < 0.5
    # A foot stands for more than half of the time, so that it swings at more than twice the body's speed.
    assert min(seen["foot"]) < 0.1
    assert max(seen["foot"]) > 2.0 * walk
    # Arms swing both ways about the body's speed.
    assert min(seen["forearm"]) < walk - 0.3
    assert max(seen["forearm"]) > walk + 0.3


def test_a_cyclist_has_wheels_up_to_twice_its_speed_and_turning_pedals() -> None:
    """Feet and pedals reach the speed of the frame plus or minus 75 rev/min times the length of the crank."""
    world, speed = ph.World(), 5.0
    motion = SplineMotion([(20, 0, 0), (-20, 0, 0)], limits=MotionLimits(speed, 50.0, 50.0))
    add_cyclist(world, motion)
    field = {"azimuth_deg": (-4, 4), "elevation_deg": (-6, 8), "rays": 60_000}
    radar = ph.Radar(radar_config(power_dbm=80, field=field))
    wheels, feet = [], []
    for time in np.arange(2.0, 2.8, 0.1):  # a revolution of the crank
        paths = radar.paths(world, pose=ph.Pose((0.0, 0.0, 0.5)), time=float(time))
        point = paths.direction.astype(np.float64) * paths.distance.astype(np.float64)[:, None]
        radial, low = -0.5 * paths.rate.astype(np.float64), point[:, 2] < 0.1
        wheels.append(radial[np.abs(point[:, 1]) < 0.02])
        feet.append(radial[low & (np.abs(point[:, 1]) > 0.07) & (np.abs(point[:, 1]) < 0.2)])
    assert np.concatenate(wheels).min() == pytest.approx(0.0, abs=0.5)
    assert np.concatenate(wheels).max() == pytest.approx(2.0 * speed, abs=0.5)
    swing = 2.5 * np.pi * CRANK_M
    assert np.concatenate(feet).min() == pytest.approx(speed - swing, abs=0.25)
    assert np.concatenate(feet).max() == pytest.approx(speed + swing, abs=0.25)


def test_angular_rates_of_fast_wheels_are_exact() -> None:
    spin = 400.0
    turning = Turning(ph.Fixed(ph.Pose()), 1, lambda t: spin * np.asarray(t))
    assert twists([turning], np.array([0.1, 0.2]))[0, :, 4] == pytest.approx(spin, rel=1e-9)
