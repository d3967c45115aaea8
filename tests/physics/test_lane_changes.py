"""Lane changes of reacting traffic: MOBIL against hand calculations, overtaking, blocked lanes, and no contact."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.pose import Floats, quat_rotate
from parhelion.motion import MotionLimits, SplineMotion
from parhelion.motion.actors.drivers import MOBIL, Discs, OpenRoute, wants_change
from parhelion.motion.actors.live import LiveActors
from parhelion.motion.actors.traffic import DRIVERS, ClosedRoute, traffic

FREE = Discs(np.zeros((0, 3)), np.zeros((0, 2)), np.zeros(0), np.zeros(0, dtype=np.intp))
LONG, WIDE = 4.6, 1.8


def ring(radius: float = 60.0) -> ClosedRoute:
    turn = np.linspace(0.0, 2.0 * np.pi, 25)[:-1]
    points = np.column_stack([radius * np.cos(turn), radius * np.sin(turn), 0.0 * turn])
    return ClosedRoute(SplineMotion(points.tolist(), limits=MotionLimits(30.0, 50.0, 500.0), closed=True))


def straight(length: float = 400.0) -> OpenRoute:
    return OpenRoute(SplineMotion([(0, 0, 0), (length, 0, 0)], limits=MotionLimits(15.0, 3.0, 3.0)))


def parked(x: float, y: float = 0.0) -> Discs:
    """A parked car as discs."""
    at = np.array([[x + dx, y, 0.0] for dx in (-1.4, -0.5, 0.5, 1.4)])
    return Discs(at, np.zeros((4, 2)), np.full(4, 0.9), np.full(4, -1))


def gap_of(live: LiveActors) -> float:
    """Smallest distance [m] between the capsules of any two vehicles, less their radii."""
    cars = live.drivers.capsules()
    share = np.linspace(-1.0, 1.0, 7)
    points = cars.xyz[:, None, :2] + share[None, :, None] * (cars.half_m[:, None] * cars.along)[:, None]
    away = np.linalg.norm(points[:, None, :, None] - points[None, :, None, :], axis=-1).min(axis=(2, 3))
    return float((away + np.diag(np.full(len(away), np.inf))).min()) - WIDE


def test_the_criterion_of_mobil_by_hand() -> None:
    """Gain 0.5 - (-1.0), follower loses 1.0, the one left behind wins 0.5: 1.5 + p (-0.5) - threshold - bias."""
    own, follower, behind = np.array([[-1.0], [0.5]]), np.array([[0.2], [-0.8]]), np.array([[-0.5], [0.0]])
    gain = wants_change(own, follower, behind, 0.3)
    assert gain == pytest.approx(1.5 + MOBIL.politeness * (-1.0 + 0.5) - MOBIL.threshold_m_s2 - 0.3)
    unsafe = np.array([[0.0], [-MOBIL.safe_m_s2 - 0.01]])
    assert wants_change(own, unsafe, behind, 0.0) == -np.inf
    assert wants_change(np.array([[-9.0], [-5.0]]), follower, behind, 0.0) == -np.inf
    same = np.zeros((2, 1))
    assert wants_change(same, same, same, 0.0) == pytest.approx(-MOBIL.threshold_m_s2), "no reason, no change"


def test_a_car_overtakes_a_slow_one_and_returns_to_the_right() -> None:
    live = LiveActors(ph.World())
    route = straight(600.0)
    live.drive(route, 0.0, 14.0, LONG, WIDE, DRIVERS, lanes=2)
    live.drive(route, 50.0, 6.0, LONG, WIDE, DRIVERS, lanes=2)
    live.begin()
    lanes, nearest = [], np.inf
    for _ in range(700):
        live.drivers.step(FREE)
        lanes.append(int(live.drivers.lane[0]))
        nearest = min(nearest, gap_of(live))
    assert 1 in lanes
    assert lanes[-1] == 0
    assert live.drivers.distance[0] > live.drivers.distance[1] + 50.0
    assert live.drivers.lane[1] == 0
    assert nearest > 0.3


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("ahead", [30.0, 120.0])
def test_a_parked_car_blocks_a_lane_that_is_left_where_there_is_another(lanes: int, ahead: float) -> None:
    live = LiveActors(ph.World())
    live.drive(straight(300.0), 0.0, 12.0, LONG, WIDE, DRIVERS, lanes=lanes)
    live.begin()
    nearest = np.inf
    for _ in range(900):
        live.drivers.step(parked(ahead))
        body = live.drivers.capsules()
        axis = body.xyz[0, :2] + np.linspace(-1.0, 1.0, 9)[:, None] * body.half_m[0] * body.along[0]
        away = np.linalg.norm(axis[:, None] - parked(ahead).xyz[None, :, :2], axis=2).min()
        nearest = min(nearest, float(away) - 0.9 - 0.9)
    assert nearest > 0.2
    if lanes == 1:
        assert live.drivers.distance[0] < ahead - 4.0
    else:
        assert live.drivers.distance[0] > 295.0


def test_a_car_that_waited_behind_a_parked_one_leaves_when_the_other_lane_is_free() -> None:
    """A row of cars passes on the left; afterwards the car at standstill pulls out."""
    live = LiveActors(ph.World())
    route = straight(300.0)
    live.drive(route, 20.0, 12.0, LONG, WIDE, DRIVERS, lanes=2)
    for number in range(8):
        live.drive(route, 10.0 * number, 3.0, LONG, WIDE, DRIVERS, lanes=2, lane=1, changes=False)
    live.begin()
    slowest, nearest = np.inf, np.inf
    for _ in range(1600):
        live.drivers.step(parked(60.0))
        slowest, nearest = min(slowest, float(live.drivers.speed[0])), min(nearest, gap_of(live))
    assert slowest < 0.1
    assert nearest > 0.2
    assert live.drivers.distance[0] > 100.0


def test_a_car_beside_prevents_a_change() -> None:
    live = LiveActors(ph.World())
    route = straight(300.0)
    live.drive(route, 0.0, 12.0, LONG, WIDE, DRIVERS, lanes=2)
    live.drive(route, 30.0, 5.0, LONG, WIDE, DRIVERS, lanes=2, changes=False)
    live.begin()
    for step in range(200):
        x = float(live.drivers.distance[0])
        beside = Discs(np.array([[x, 3.25, 0.0]]), np.array([[float(live.drivers.speed[0]), 0.0]]), np.array([0.9]),
                       np.array([-1]))  # fmt: skip
        live.drivers.step(beside)
        assert live.drivers.lane[0] == 0, step


@pytest.mark.slow
def test_cars_on_two_lanes_never_touch_and_change_often() -> None:
    changes = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        live, route = LiveActors(ph.World()), ring()
        for lane in range(2):
            for place in np.arange(8) * route.length_m / 8 + rng.uniform(0, 12, 8):
                live.drive(route, float(place), float(rng.uniform(5, 15)), LONG, WIDE, DRIVERS, lanes=2, lane=lane)
        live.begin()
        before, nearest = live.drivers.lane.copy(), np.inf
        for _ in range(600):
            live.drivers.step(FREE)
            nearest = min(nearest, gap_of(live))
            changes += int(np.count_nonzero(live.drivers.lane != before))
            before = live.drivers.lane.copy()
        assert nearest > 0.2, seed
    assert changes > 60


def test_bodies_point_along_their_path_while_they_change_and_repeat_bit_for_bit() -> None:
    def path() -> tuple[Floats, Floats]:
        live, route = LiveActors(ph.World()), straight(300.0)
        motion = live.drive(route, 0.0, 12.0, LONG, WIDE, DRIVERS, lanes=2)
        live.begin()
        for _ in range(500):
            live.drivers.step(parked(100.0))
        return motion.sample(np.arange(0.0, 20.0, 0.01))

    xyz, quat = path()
    assert xyz[:, 1].max() == pytest.approx(3.25, abs=0.01)
    velocity = np.gradient(xyz, 0.01, axis=0)
    fast = velocity[:, 0] > 2.0
    forward = quat_rotate(quat, np.tile([1.0, 0.0, 0.0], (len(quat), 1)))
    slip = np.degrees(np.arctan2(velocity[:, 1], velocity[:, 0]) - np.arctan2(forward[:, 1], forward[:, 0]))
    assert np.abs(slip[fast]).max() < 1.0
    assert np.abs(np.diff(velocity[fast, 1])).max() < 0.1
    again = path()
    assert np.array_equal(xyz, again[0])
    assert np.array_equal(quat, again[1])


def test_traffic_fills_its_lanes() -> None:
    points = [(-60, -30, 0), (60, -30, 0), (60, 30, 0), (-60, 30, 0)]
    loop = SplineMotion(points, limits=MotionLimits(10, 2, 3), closed=True)
    world = ph.World()
    live = LiveActors(world)
    traffic(world, loop, 8, seed=3, lanes=2, live=live)
    live.begin()
    assert sorted(live.drivers.lane.tolist()) == [0] * 4 + [1] * 4
    rails = traffic(ph.World(), loop, 8, seed=3, lanes=2, lane_width_m=3.0)
    sides = {one.objects[0].trajectory.side_m for one in rails}
    assert sides == {0.0, -3.0}
    with pytest.raises(ph.ParhelionError, match="lanes"):
        traffic(ph.World(), loop, 8, lanes=0)
