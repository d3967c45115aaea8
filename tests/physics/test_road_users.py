"""Cyclists, motorcycles, buses, trams, trucks with trailers: sizes, wheels, pedals and off-tracking."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.pose import quat_rotate
from parhelion.core.trajectory import Trajectory
from parhelion.motion import MotionLimits, SplineMotion
from parhelion.motion.actors import Actor, add_agv, add_bus, add_cyclist, add_motorcycle, add_tram, add_truck, traffic
from parhelion.motion.actors.body import about, heading_of
from parhelion.motion.actors.cycles import CRANK_M, CYCLE_WHEEL_M
from parhelion.motion.actors.live import LiveActors
from parhelion.motion.actors.road_users import ROAD_USERS
from parhelion.motion.actors.trains import HITCH_M, TRAILER_AXLE_M, Trailer, track_of
from parhelion.motion.boxes import BoxTruth
from parhelion.outputs.datasets.boxes import NUSCENES_CATEGORIES, kitti_lines
from parhelion.outputs.datasets.nuscenes_tables import attribute_of

STRAIGHT = SplineMotion([(0, 0, 0), (100, 0, 0)], limits=MotionLimits(5.0, 1.0, 1.0))


def circle(radius: float, speed: float = 6.0) -> SplineMotion:
    turn = np.linspace(0.0, 2.0 * np.pi, 33)[:-1]
    points = np.column_stack([radius * np.cos(turn), radius * np.sin(turn), 0.0 * turn])
    return SplineMotion(points.tolist(), limits=MotionLimits(speed, 50.0, 500.0), closed=True)


def part(actor: Actor, name: str) -> Trajectory:
    found = next(item.trajectory for item in actor.objects if item.name.endswith(f"/{name}"))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("add", "size", "kitti", "category"),
    [
        (add_cyclist, (1.75, 0.6, 1.7), "Cyclist", "vehicle.bicycle"),
        (add_motorcycle, (2.05, 0.8, 1.6), "Misc", "vehicle.motorcycle"),
        (add_bus, (12.2, 3.05, 3.1), "Truck", "vehicle.bus.rigid"),
        (add_tram, (28.6, 2.4, 5.0), "Tram", None),
        (add_truck, (14.4, 2.5, 3.9), "Truck", "vehicle.truck"),
        (add_agv, (1.6, 0.9, 0.37), "Misc", None),
    ],
)
def test_bodies_have_their_size_class_and_speed(add: object, size: object, kitti: str, category: str | None) -> None:
    world = ph.World()
    add(world, STRAIGHT)  # type: ignore[operator]
    (box,) = BoxTruth(world).at(12.0)
    assert box.size == pytest.approx(size, abs=0.06)
    assert box.velocity == pytest.approx([5.0, 0.0, 0.0], abs=5e-3)
    assert box.mobility == "dynamic"
    assert kitti_lines([box])[0].split()[0] == kitti
    assert NUSCENES_CATEGORIES.get(box.label) == category
    foot = box.centre[2] - box.size[2] / 2
    assert foot == pytest.approx(0.0, abs=0.03)  # it stands on the ground


def test_a_cyclist_is_a_cycle_with_a_rider() -> None:
    assert attribute_of("vehicle.bicycle", "bicyclist", moving=True, parked=False) == "cycle.with_rider"


def test_wheels_and_crank_turn_with_the_speed() -> None:
    """Wheels at v / r, the crank at 75 rev/min; pedals stay on the circle of the crank, knees bend forward."""
    actor = add_cyclist(ph.World(), STRAIGHT)
    step = 0.01
    times = 10.0 + step * np.arange(200)
    for name, rate in (
        ("front wheel", 5.0 / CYCLE_WHEEL_M),
        ("rear wheel", 5.0 / CYCLE_WHEEL_M),
        ("crank", 2.5 * np.pi),
    ):
        _, quat = part(actor, name).sample(times)
        spoke = quat_rotate(quat, np.array([1.0, 0.0, 0.0]))
        # About +y, an angle turns x towards -z: forward rolling.
        angle = np.unwrap(np.arctan2(-spoke[:, 2], spoke[:, 0]))
        assert np.diff(angle) / step == pytest.approx(np.full(199, rate), rel=1e-3)
    body, _ = STRAIGHT.sample(times)
    feet = [part(actor, f"{side} foot").sample(times)[0] - body for side in ("left", "right")]
    middle = 0.5 * (feet[0] + feet[1])
    assert np.ptp(middle, axis=0) == pytest.approx(np.zeros(3), abs=1e-9)  # half a revolution apart
    assert np.linalg.norm((feet[0] - middle)[:, [0, 2]], axis=1) == pytest.approx(np.full(200, CRANK_M), abs=1e-9)
    for side in ("left", "right"):
        hip, thigh = part(actor, f"{side} thigh").sample(times)
        knee, shank = part(actor, f"{side} shank").sample(times)
        foot, _ = part(actor, f"{side} foot").sample(times)
        assert hip + quat_rotate(thigh, np.array([0.0, 0.0, -0.43])) == pytest.approx(knee, abs=1e-9)
        assert knee + quat_rotate(shank, np.array([0.0, 0.0, -0.43])) == pytest.approx(foot, abs=1e-6)
        assert np.all(knee[:, 0] > hip[:, 0])


def test_a_trailer_settles_at_the_radius_of_kinematic_off_tracking() -> None:
    """Its axle rolls on the radius sqrt(R_h^2 - L^2), where R_h is that of the hitch."""
    radius = 15.0
    actor = add_truck(ph.World(), circle(radius))
    times = np.linspace(5.0, 20.0, 40)
    xyz, quat = part(actor, "trailer").sample(times)
    axle = xyz + quat_rotate(quat, np.array([-TRAILER_AXLE_M, 0.0, 0.0]))
    hitch = np.hypot(radius, HITCH_M)
    assert np.linalg.norm(xyz[:, :2], axis=1) == pytest.approx(np.full(40, hitch), rel=1e-3)
    assert np.linalg.norm(axle[:, :2], axis=1) == pytest.approx(
        np.full(40, np.sqrt(hitch**2 - TRAILER_AXLE_M**2)), rel=3e-3
    )


def test_a_trailer_straightens_exponentially() -> None:
    """On a straight line, tan(angle / 2) falls by 1/e per length of the trailer."""
    places = [ph.Pose((-30, -30, 0), rpy_deg=(0, 0, 45)), ph.Pose((0, 0, 0)), ph.Pose((60, 0, 0))]
    track, distance = track_of(ph.Waypoints([0.0, 8.0, 20.0], places), None)
    trailer = Trailer(track, distance, 0.0, 6.0)
    xyz, quat = trailer.sample(np.linspace(8.5, 19.5, 200))
    angle = np.tan(0.5 * heading_of(quat))
    assert angle[0] == pytest.approx(np.tan(np.radians(22.5)) * np.exp(-xyz[0, 0] / 6.0), rel=0.02)
    slope = np.polyfit(xyz[:, 0], np.log(np.abs(angle)), 1)[0]
    assert slope == pytest.approx(-1.0 / 6.0, rel=1e-3)


def test_bogies_of_a_tram_are_on_the_track() -> None:
    world, radius = ph.World(), 25.0
    actor = add_tram(world, circle(radius))
    for number in range(3):
        xyz, quat = part(actor, "body" if number == 0 else f"body {number}").sample(np.array([3.0, 9.0]))
        for x in (2.9, -2.9):
            bogie = xyz + quat_rotate(quat, np.array([x, 0.0, 0.0]))
            # The chord is a little shorter than the arc between the bogies.
            assert np.linalg.norm(bogie[:, :2], axis=1) == pytest.approx([radius, radius], abs=0.02)
    assert np.allclose(quat, about(2, heading_of(quat)))


@pytest.mark.parametrize("reacts", [False, True])
def test_all_models_drive_in_traffic(reacts: bool) -> None:
    world, loop = ph.World(), circle(60.0, 9.0)
    live = LiveActors(world) if reacts else None
    actors = traffic(world, loop, 7, seed=2, speed_m_s=8.0, duration_s=10.0, models=tuple(ROAD_USERS), live=live)
    if live is not None:
        live.begin()
        live.advance(0.0, 10.0)
    boxes = BoxTruth(world).at(5.0)
    assert len(boxes) == len(actors) == 7
    labels = {box.label for box in boxes}
    assert labels <= {"bicyclist", "motorcyclist", "bus", "on-rails", "truck", "forklift", "other-vehicle"}
    assert len(labels) >= 4
    assert all(np.linalg.norm(box.velocity) > 0.3 for box in boxes)
