"""People and drivers who react, against closed forms and published relations."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.pose import Floats, quat_rotate
from parhelion.motion import MotionLimits, SplineMotion
from parhelion.motion.actors.drivers import Discs, OpenRoute
from parhelion.motion.actors.live import Footprint, LiveActors
from parhelion.motion.actors.orca import avoid_discs, choose, half_planes
from parhelion.motion.actors.traffic import DRIVERS, ClosedRoute
from parhelion.motion.actors.walkers import RADIUS_M, STEP_S, Capsules, LiveWalk, Path, Walker, Walkers
from parhelion.motion.actors.walls import Walls

NOBODY = Capsules(np.zeros((0, 3)), np.zeros((0, 2)), np.zeros(0), np.zeros(0), np.zeros((0, 2)))
FREE = Discs(np.zeros((0, 3)), np.zeros((0, 2)), np.zeros(0), np.zeros(0, dtype=np.intp))


def circle(radius: float, centre: tuple[float, float] = (0.0, 0.0)) -> Path:
    turn = np.arange(0.0, 2.0 * np.pi, 0.25 / radius)
    points = np.column_stack([centre[0] + radius * np.cos(turn), centre[1] + radius * np.sin(turn), 0.0 * turn])
    return Path(points, closed=True)


def line(*points: tuple[float, float]) -> Path:
    corners = np.array(points)
    legs = [np.linspace(a, b, max(2, int(np.hypot(*(b - a)) / 0.25)), endpoint=False) for a, b in pairwise(corners)]
    xy = np.vstack([*legs, corners[-1:]])
    return Path(np.column_stack([xy, np.zeros(len(xy))]), closed=False)


def begun(walkers: Walkers, segments: Floats | None = None) -> Walkers:
    walkers.begin(ph.World())
    if segments is not None:
        walkers.walls = Walls(segments)
    return walkers


# ---- half planes -----------------------------------------------------------------------------------------------------


def test_two_people_who_meet_head_on_share_the_correction() -> None:
    """The relative velocity 2 along x, distance 4, radii 0.5: the nearest leg of the cone is at asin(0.25)."""
    offset = np.array([[[4.0, 0.0]]])
    shift, normal = avoid_discs(
        offset, np.array([[[1.0, 0.0]]]), np.array([[[-1.0, 0.0]]]), np.array([[1.0]]), 10.0, 0.1
    )
    angle = np.arcsin(0.25)
    assert np.linalg.norm(shift) == pytest.approx(2.0 * np.sin(angle), rel=1e-12)
    assert abs(normal[0, 0, 0]) == pytest.approx(np.sin(angle), rel=1e-12)
    planes = half_planes(np.array([[[1.0, 0.0]]]), shift, normal, 0.5)
    chosen = choose(np.array([[1.0, 0.0]]), planes, np.zeros(1, bool), np.array([2.0]))
    # The nearest permitted velocity is the projection on the boundary: half of the correction.
    assert chosen[0] == pytest.approx([1.0, 0.0] + 0.5 * shift[0, 0], abs=1e-12)


def test_the_chosen_velocity_is_the_nearest_permitted_one() -> None:
    """Against a fine grid of velocities, for half planes that leave some velocities."""
    rng = np.random.default_rng(5)
    angle = rng.uniform(0.0, 2.0 * np.pi, (40, 6))
    planes = np.stack([np.cos(angle), np.sin(angle), rng.uniform(-1.5, -0.05, (40, 6))], axis=-1)
    wish = rng.uniform(-1.0, 1.0, (40, 2))
    chosen = choose(wish, planes, np.zeros(6, bool), np.full(40, 1.5))
    axis = np.linspace(-1.5, 1.5, 151)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    for row in range(40):
        normal, bound = planes[row, :, :2], planes[row, :, 2]
        permitted = np.all(grid @ normal.T >= bound, axis=1) & (np.hypot(*grid.T) <= 1.5)
        assert np.all(normal @ chosen[row] >= bound - 1e-9)
        best = np.min(np.linalg.norm(grid[permitted] - wish[row], axis=1))
        assert np.linalg.norm(chosen[row] - wish[row]) <= best + 1e-9
        assert np.linalg.norm(chosen[row] - wish[row]) >= best - 0.03


def test_without_a_permitted_velocity_the_worst_violation_is_the_smallest() -> None:
    rng = np.random.default_rng(6)
    angle = rng.uniform(0.0, 2.0 * np.pi, (40, 6))
    planes = np.stack([np.cos(angle), np.sin(angle), rng.uniform(0.2, 0.6, (40, 6))], axis=-1)
    chosen = choose(np.zeros((40, 2)), planes, np.zeros(6, bool), np.full(40, 1.5))
    axis = np.linspace(-1.5, 1.5, 151)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    grid = grid[np.hypot(*grid.T) <= 1.5]
    for row in range(40):
        worst = np.max(planes[row, :, 2] - grid @ planes[row, :, :2].T, axis=1)
        mine = np.max(planes[row, :, 2] - planes[row, :, :2] @ chosen[row])
        assert mine <= max(np.min(worst), 0.0) + 0.02


# ---- crowds ----------------------------------------------------------------------------------------------------------


def crowd(count: int, seed: int, size_m: float = 20.0) -> Walkers:
    """People on random closed ways through a square, started on a grid."""
    rng = np.random.default_rng(seed)
    walkers = Walkers(seed)
    side = int(np.ceil(np.sqrt(count)))
    for number in range(count):
        start = (np.array([number % side, number // side]) + 0.5) * size_m / side
        way = [tuple(start), *map(tuple, rng.uniform(0.0, size_m, (3, 2))), tuple(start)]
        path = line(*way)
        walkers.add(Walker(Path(path.points[:-1], closed=True), 0.0, float(1.34 * rng.uniform(0.85, 1.15)), 1.75))
    return begun(walkers)


def touching(xy: Floats) -> Floats:
    away = np.linalg.norm(xy[:, None] - xy[None], axis=-1) + 9.0 * np.eye(len(xy))
    return np.min(away, axis=1) < 2.0 * RADIUS_M


def test_two_hundred_people_in_a_square_do_not_touch() -> None:
    """Contact for less than 0.1 % of the time; several times faster than real time even on a busy machine."""
    walkers, contact = crowd(200, 3), []
    begin = time.process_time()
    for _ in range(120):
        walkers.step(NOBODY)
        contact.append(touching(walkers.xyz[:, :2]))
    took = time.process_time() - begin
    assert np.mean(contact) < 1e-3
    assert np.mean(np.hypot(*walkers.velocity.T)) > 0.5
    assert 120 * STEP_S / took > 4.0


def test_one_seed_gives_the_same_bits_and_restarts_to_them() -> None:
    def walked(walkers: Walkers) -> bytes:
        for _ in range(60):
            walkers.step(NOBODY)
        return walkers.xyz.tobytes() + walkers.velocity.tobytes()

    one, two, other = crowd(40, 3), crowd(40, 3), crowd(40, 4)
    first = walked(one)
    assert first == walked(two)
    assert first != walked(other)
    one.restart()
    assert first == walked(one)


@pytest.mark.parametrize(("density", "width"), [(0.3, 2.4), (1.0, 2.4), (2.0, 2.4), (1.0, 1.2), (1.0, 4.8), (2.0, 4.8)])
def test_speed_falls_with_density_as_published(density: float, width: float) -> None:
    """One-way flow in rings of several widths [m] against Weidmann's relation (1993).

    Published relations differ from each other by 0.2 to 0.3 m/s at the same density, so 0.2 m/s is the tolerance.
    """
    radius, lanes = 6.0, np.arange(-0.5 * width + 0.3, 0.5 * width, 0.6)
    count = round(density * 2.0 * np.pi * radius * width)
    ends = np.round(count * np.concatenate([[0.0], np.cumsum(radius + lanes)]) / np.sum(radius + lanes))
    rng, walkers = np.random.default_rng(2), Walkers(1)
    for lane, people in zip(lanes, np.diff(ends).astype(int), strict=True):
        for number in range(people):
            start = (number + rng.uniform(-0.2, 0.2)) / people % 1.0
            walkers.add(Walker(circle(radius + lane), start, float(1.34 * rng.uniform(0.85, 1.15)), 1.75))
    turn = np.linspace(0.0, 2.0 * np.pi, 73)
    rings = [
        np.column_stack([r * np.cos(turn), r * np.sin(turn)]) for r in (radius - 0.5 * width, radius + 0.5 * width)
    ]
    begun(walkers, np.concatenate([np.stack([ring[:-1], ring[1:]], axis=1) for ring in rings]))
    walkers.restart()
    speeds = []
    for step in range(180):
        walkers.step(NOBODY)
        away = walkers.xyz[:, :2] / np.linalg.norm(walkers.xyz[:, :2], axis=1, keepdims=True)
        if step >= 100:
            speeds.append(np.mean(walkers.velocity[:, 1] * away[:, 0] - walkers.velocity[:, 0] * away[:, 1]))
    published = 1.34 * (1.0 - np.exp(-1.913 * (1.0 / density - 1.0 / 5.4)))
    assert np.mean(speeds) == pytest.approx(published, abs=0.2)
    distance = np.linalg.norm(walkers.xyz[:, :2], axis=1)
    assert np.min(distance) > radius - 0.5 * width + 0.8 * RADIUS_M
    assert np.max(distance) < radius + 0.5 * width - 0.8 * RADIUS_M


def test_people_walk_around_a_wall_that_stands_in_their_way() -> None:
    world = ph.World()
    world.add(ph.shapes.plane(40, 40), material="concrete", label="road")
    world.add(ph.shapes.box(0.3, 1.0, 2.0), material="brick", label="wall", pose=ph.Pose((5.0, 0.3, 1.0)))
    walkers = Walkers(0)
    walkers.add(Walker(line((0.0, 0.0), (10.0, 0.0)), 0.0, 1.3, 1.75))
    walkers.begin(world)
    assert len(walkers.walls.segments) >= 4
    path = []
    for _ in range(240):
        walkers.step(NOBODY)
        path.append(walkers.xyz[0, :2].copy())
    away = np.maximum(np.abs(np.array(path) - [5.0, 0.3]) - [0.15, 0.5], 0.0)
    assert np.min(np.linalg.norm(away, axis=1)) > 0.9 * RADIUS_M
    assert path[-1] == pytest.approx([10.0, 0.0], abs=0.3)


def test_people_turn_in_a_hairpin() -> None:
    """A closed path 0.6 m wide: the nearest point of the way back must not draw a person back to the bend."""
    there = line((0.0, 0.0), (6.0, 0.0), (6.0, 0.6), (0.0, 0.6), (0.0, 0.0))
    walkers = Walkers(0)
    walkers.add(Walker(Path(there.points[:-1], closed=True), 0.3, 1.3, 1.75))
    begun(walkers)
    x = []
    for _ in range(300):
        walkers.step(NOBODY)
        x.append(walkers.xyz[0, 0])
    assert np.min(x) < 1.5
    assert np.max(x) > 4.5
    assert np.sum(np.abs(np.diff(x))) > 0.7 * 15.0 * 1.3


def test_people_let_a_vehicle_pass() -> None:
    """A robot crosses the path of a person at the moment when both would meet."""
    walkers = Walkers(0)
    walkers.add(Walker(line((0.0, 0.0), (12.0, 0.0)), 0.0, 1.3, 1.75))
    begun(walkers)
    nearest = np.inf
    for step in range(200):
        robot = np.array([[5.2, -4.0 + step * STEP_S, 0.0]])
        seen = Capsules(robot, np.array([[0.0, 1.0]]), np.array([0.2]), np.array([0.35]), np.array([[0.0, 1.0]]))
        nearest = min(
            nearest, float(np.linalg.norm(np.maximum(np.abs(walkers.xyz[0, :2] - robot[0, :2]) - [0.0, 0.2], 0.0)))
        )
        walkers.step(seen)
    assert nearest > RADIUS_M + 0.35
    assert walkers.xyz[0, 0] > 10.0


# ---- steps of reacting people ----------------------------------------------------------------------------------------


def test_feet_of_a_reacting_person_stand_and_end_together() -> None:
    """A walk to a goal past another person: soles do not slide, knees hold, and both feet end beside the body."""
    walkers = Walkers(0)
    walkers.add(Walker(line((0.0, 0.0), (6.0, 0.0)), 0.0, 1.3, 1.75))
    walkers.add(Walker(line((6.0, 0.05), (0.0, 0.05)), 0.0, 1.2, 1.65))
    begun(walkers)
    for _ in range(200):
        walkers.step(NOBODY)
    walk = LiveWalk(walkers, 0, 1.75)
    times = np.arange(0.0, 10.0, 0.01)
    placed = walk.poses(times)
    for part, point, other, same in walk.joints():
        one, two = (
            placed[name][0] + quat_rotate(placed[name][1], np.array(at)) for name, at in ((part, point), (other, same))
        )
        assert np.max(np.linalg.norm(one - two, axis=1)) < 1e-9
    grounded = []
    for side in ("left", "right"):
        xyz, quat = placed[f"{side} foot"]
        for x in (walk.toe_m, -walk.heel_m):
            sole = xyz + quat_rotate(quat, np.array([x, 0.0, -walk.ankle_m]))
            assert np.min(sole[:, 2]) > -2e-3
            down = (sole[:-1, 2] < 1e-4) & (sole[1:, 2] < 1e-4)
            slid = np.linalg.norm(np.diff(sole[:, :2], axis=0), axis=1)[down]
            assert np.quantile(slid, 0.99) < 1e-3
            grounded.append(np.concatenate([down, [True]]))
    assert np.mean(np.any(grounded, axis=0)) > 0.99
    for side, sign in (("left", 1.0), ("right", -1.0)):
        foot = placed[f"{side} foot"][0][-1]
        heading = walkers.sample(0, times[-1:])[0, 3]
        home = walkers.xyz[0] + sign * 0.05 * 1.75 * np.array([-np.sin(heading), np.cos(heading), 0.0])
        assert foot[:2] == pytest.approx(home[:2], abs=0.08)
    jump = np.max(np.linalg.norm(np.diff(placed["left foot"][0], axis=0), axis=1))
    assert jump < 0.08  # a swinging foot moves at less than 8 m/s


def test_samples_of_the_past_do_not_change() -> None:
    walkers = Walkers(0)
    walkers.add(Walker(circle(4.0), 0.0, 1.3, 1.75))
    walkers.add(Walker(circle(4.0), 0.1, 0.9, 1.75))
    begun(walkers)
    walk, times = LiveWalk(walkers, 0, 1.75), np.linspace(0.0, 1.0, 21)
    for _ in range(20):
        walkers.step(NOBODY)
    before = {part: (xyz.copy(), quat.copy()) for part, (xyz, quat) in walk.poses(times).items()}
    for _ in range(80):
        walkers.step(NOBODY)
    after = walk.poses(times)
    assert all(np.array_equal(before[part][0], after[part][0]) for part in before)
    assert not np.array_equal(walk.poses(times + 3.0)["torso"][0], after["torso"][0])


# ---- drivers ---------------------------------------------------------------------------------------------------------


def ring_road(radius: float, speed: float = 30.0) -> ClosedRoute:
    turn = np.linspace(0.0, 2.0 * np.pi, 25)[:-1]
    points = np.column_stack([radius * np.cos(turn), radius * np.sin(turn), 0.0 * turn])
    return ClosedRoute(SplineMotion(points.tolist(), limits=MotionLimits(speed, 50.0, 500.0), closed=True))


def straight(length: float = 200.0, speed: float = 12.0) -> OpenRoute:
    return OpenRoute(SplineMotion([(0, 0, 0), (length, 0, 0)], limits=MotionLimits(speed, 3.0, 3.0)))


def disc(x: float, y: float, radius: float = 0.25, velocity: tuple[float, float] = (0.0, 0.0)) -> Discs:
    return Discs(np.array([[x, y, 0.0]]), np.array([velocity]), np.array([radius]), np.array([-1]))


def test_cars_in_a_ring_settle_at_the_equilibrium_gap() -> None:
    """At equal speeds v, the gap is (g_0 + v T) / sqrt(1 - (v/v_0)^4)."""
    live, route = LiveActors(ph.World()), ring_road(40.0)
    for number in range(8):
        live.drive(route, number * route.length_m / 8 + 3.0 * (number % 2), 12.0, 4.6, 1.8, DRIVERS)
    live.begin()
    for _ in range(2500):
        live.drivers.step(FREE)
    speed, place = live.drivers.speed, np.sort(np.mod(live.drivers.distance, route.length_m))
    gap = np.diff(np.concatenate([place, place[:1] + route.length_m])) - 4.6
    expected = (2.0 + speed * 1.0) / np.sqrt(1.0 - (speed / 12.0) ** 4)
    assert np.ptp(speed) < 1e-3
    assert gap == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("x", "y", "radius"), [(120.0, 0.0, 0.25), (120.0, 1.2, 0.25), (120.0, -1.5, 0.9)])
def test_a_car_stops_before_a_body_in_its_lane(x: float, y: float, radius: float) -> None:
    """A person or a parked car: the gap at standstill is that of the model, 2 m."""
    live = LiveActors(ph.World())
    live.drive(straight(), 0.0, 12.0, 4.6, 1.8, DRIVERS)
    live.begin()
    hardest, speed = 0.0, 0.0
    for _ in range(900):
        live.drivers.step(disc(x, y, radius))
        hardest, speed = max(hardest, (speed - live.drivers.speed[0]) / STEP_S), live.drivers.speed[0]
    gap = x - radius - (live.drivers.distance[0] + 2.3)
    assert speed < 0.05
    assert gap == pytest.approx(2.0, abs=0.35)
    assert hardest < 4.0  # seen early enough for a soft stop


def test_a_car_passes_a_body_beside_its_lane_and_stops_at_the_end() -> None:
    live = LiveActors(ph.World())
    live.drive(straight(), 0.0, 12.0, 4.6, 1.8, DRIVERS)
    live.begin()
    for _ in range(900):
        live.drivers.step(disc(60.0, 1.8))
    assert live.drivers.distance[0] == pytest.approx(200.0, abs=0.6)


def test_a_car_stops_for_a_person_who_steps_into_its_lane() -> None:
    """A person crosses 30 m ahead of a car at 8 m/s; the car yields, the person walks on, and both go their way."""
    live = LiveActors(ph.World())
    live.drive(straight(100.0, 8.0), 0.0, 8.0, 4.6, 1.8, DRIVERS)
    live.walkers.add(Walker(line((40.0, -5.0), (40.0, 8.0)), 0.0, 1.3, 1.75))
    live.begin()
    nearest, slowest = np.inf, np.inf
    for step in range(600):
        live.step(step * STEP_S, step * STEP_S)
        offset = np.abs(live.walkers.xyz[0, :2] - [live.drivers.distance[0], 0.0]) - [2.3, 0.9]
        nearest = min(nearest, float(np.linalg.norm(np.maximum(offset, 0.0))))
        slowest = min(slowest, live.drivers.speed[0]) if 30.0 < live.drivers.distance[0] < 45.0 else slowest
    assert nearest > 0.25
    assert live.drivers.distance[0] > 95.0
    assert live.walkers.xyz[0, 1] > 7.0


def test_cars_of_crossing_routes_do_not_meet_and_both_get_through() -> None:
    live = LiveActors(ph.World())
    limits = MotionLimits(9.0, 2.0, 3.0)
    loops = [
        [(-40, 0, 0), (40, 0, 0), (40, 30, 0), (-40, 30, 0)],
        [(0, -40, 0), (30, -40, 0), (30, 40, 0), (0, 40, 0)],
    ]
    routes = [ClosedRoute(SplineMotion(loop, limits=limits, closed=True)) for loop in loops]
    for route in routes:
        for number in range(4):
            live.drive(route, number * route.length_m / 4, 8.0, 4.6, 1.8, DRIVERS)
    live.begin()
    assert len(live.drivers._crossings) >= 2
    started, nearest = live.drivers.distance.copy(), np.inf
    for step in range(700):
        live.step(step * STEP_S, step * STEP_S)
        cars = live.drivers.capsules()
        share = np.linspace(-1.0, 1.0, 7)
        points = cars.xyz[:, None, :2] + (share[:, None] * 1.0)[None] * (cars.half_m[:, None] * cars.along)[:, None]
        away = np.linalg.norm(points[:4, None, :, None] - points[None, 4:, None, :], axis=-1)
        nearest = min(nearest, float(np.min(away)))
    assert nearest > 1.8  # twice half the width: the bodies never touch
    assert np.min(live.drivers.distance - started) > 0.35 * min(route.length_m for route in routes)


def test_a_car_brakes_for_a_vehicle_of_the_scenario() -> None:
    live = LiveActors(ph.World())
    live.drive(straight(100.0, 8.0), 0.0, 8.0, 4.6, 1.8, DRIVERS)
    at, still = np.array([50.0, 0.0, 0.0]), np.zeros(3)
    live.see(lambda time: (at, np.array([0.0, 0.0, 0.0, 1.0]), still), Footprint(1.0, 0.7))
    live.begin()
    live.advance(0.0, 30.0)
    assert live.drivers.speed[0] < 0.05
    assert 49.5 - (live.drivers.distance[0] + 2.3) == pytest.approx(2.0, abs=0.4)
