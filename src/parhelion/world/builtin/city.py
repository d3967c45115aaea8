"""A city: a grid of streets with sidewalks, corner buildings, parked cars, trees and all that stands about."""

from __future__ import annotations

from itertools import count

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose
from parhelion.core.random import Stream
from parhelion.core.trajectory import Waypoints
from parhelion.world.builtin.city_ground import (
    BLOCK_HALF,
    KERB_HEIGHT,
    LANE_MIDDLE,
    PARKING_MIDDLE,
    PITCH,
    ROAD_HALF,
    ground,
    manholes,
    markings,
    street_lines,
    tree_pits,
)
from parhelion.world.builtin.city_lots import plan_lots
from parhelion.world.builtin.paths import timed_path
from parhelion.world.builtin.props import (
    Part,
    add_parts,
    bench,
    hydrant,
    lamp_pole,
    litter_bin,
    person,
    placed,
    shelter,
    traffic_light,
    traffic_sign,
)
from parhelion.world.builtin.trees import tree
from parhelion.world.builtin.vehicles import CAR_SHAPES, PAINTS, bicycle, car
from parhelion.world.world import World

_TREE_KINDS = 10
"""Different trees of each sort; every tree is one of them, turned."""
_WOOD_TRIANGLES = 308
"""Triangles of a tree's trunk and limbs, and of its pit."""
_SHELTER_X = -34.0
"""Where the bus shelter stands along the main street [m]; trees keep away from it."""


def build(
    seed: int = 0,
    *,
    blocks: int = 4,
    cars: int = 52,
    trees: int = 84,
    people: int = 30,
    target_triangles: int | None = None,
) -> World:
    """A city of `blocks` x `blocks` blocks of 80 m, its main crossing at the origin; right-hand traffic.

    `blocks` is even, from 2 to 8. `cars` are parked, `trees` stand along streets and on lots, `people` on sidewalks;
    fewer of each where there are not so many places. `target_triangles` sets the number of leaves so that the whole
    has about that many triangles, 300 at least a tree.
    """
    if blocks not in (2, 4, 6, 8):
        raise ConfigError(f"world city: blocks must be 2, 4, 6 or 8, got {blocks!r}")
    for name, value in (("cars", cars), ("trees", trees), ("people", people)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
            raise ConfigError(f"world city: {name} must be a whole number of at least 0, got {value!r}")
    world = World(name="city")
    instances = count(1)
    lots = plan_lots(Stream(seed, "world/city/lots").generator(), blocks)
    for part in [*ground(Stream(seed, "world/city/ground").generator(), blocks, lots.green), markings(blocks)]:
        add_parts(world, [part], name="ground", instance=next(instances))
    add_parts(world, [manholes(Stream(seed, "world/city/manholes").generator(), blocks)], name="ground", instance=0)
    for number, (parts, pose) in enumerate(lots.houses):
        add_parts(world, parts, pose=pose, name=f"building-{number}", instance=next(instances))
    for number, parts in enumerate(lots.furniture):
        add_parts(world, parts, name=f"yard-{number}", instance=next(instances))
    _furnish(world, seed, blocks, instances)
    _park_cars(world, Stream(seed, "world/city/cars").generator(), blocks, cars, instances)
    _put_people(world, Stream(seed, "world/city/people").generator(), blocks, people, instances)
    _plant(world, Stream(seed, "world/city/trees").generator(), blocks, trees, lots.trees, target_triangles, instances)
    world.viewpoint = Pose((0.0, 0.0, 1.8))
    world.path = drive()
    return world


def drive() -> Waypoints:
    """140 m down the main street at 10 m/s, then left into the next one: sensor 1.8 m over the right-hand lane."""
    radius = 10.0
    turn = np.linspace(0.0, np.pi / 2, 16)
    corner = np.array([PITCH + LANE_MIDDLE - radius, -LANE_MIDDLE + radius])
    arc = corner + radius * np.column_stack([np.sin(turn), -np.cos(turn)])
    straight = np.column_stack([np.linspace(-72.0, corner[0], 60, endpoint=False), np.full(60, -LANE_MIDDLE)])
    away = np.column_stack([np.full(30, PITCH + LANE_MIDDLE), np.linspace(corner[1], 62.0, 31)[1:]])
    points = np.concatenate([straight, arc, away])
    slow = np.hypot(*(points - [PITCH - 2.0, 2.0]).T)
    speed = np.clip(4.0 + 0.27 * np.maximum(0.0, slow - 8.0), 4.0, 10.0)
    return timed_path(points, speed, height=1.8)


def _segments(blocks: int) -> Floats:
    """Kerbs as rows: start x, y, direction x, y, outward x, y of each block's side of each street segment.

    The direction is that of the traffic on that side; outward points from the street to the block. Sides without a
    block (beyond the outermost streets) are left out.
    """
    lines = street_lines(blocks)
    rows = []
    for across in lines:
        for start in lines[:-1]:
            for side in (-1.0, 1.0):
                if abs(across + side * PITCH / 2) < lines[-1]:
                    # Right-hand traffic: along a street in x, the side at -y runs towards +x.
                    begin = start if side < 0 else start + PITCH
                    rows.append([begin, across, -side, 0.0, 0.0, side])
                    begin = start if side > 0 else start + PITCH
                    rows.append([across, begin, 0.0, side, side, 0.0])
    return np.array(rows)


def _spots(segments: Floats, along: Floats, offset: float) -> tuple[Floats, Floats]:
    """Points (s, k, 2) at distances `along` (k,) on each segment, `offset` from the street's middle; and yaws (s,)."""
    start, direction, outward = segments[:, 0:2], segments[:, 2:4], segments[:, 4:6]
    points = start[:, None] + along[None, :, None] * direction[:, None] + offset * outward[:, None]
    return points, np.arctan2(direction[:, 1], direction[:, 0])


def _near_first(rng: np.random.Generator, points: Floats, wanted: int) -> NDArray[np.intp]:
    """Rows of a random choice of points that favours those near the main crossing (scale 45 m)."""
    key = rng.exponential(size=len(points)) * np.exp(np.hypot(points[:, 0], points[:, 1]) / 45.0)
    return np.argsort(key, kind="stable")[:wanted]


def _park_cars(world: World, rng: np.random.Generator, blocks: int, wanted: int, instances: count[int]) -> None:
    slots = np.arange(17.0, PITCH - 16.0, 6.0)
    points, yaw = _spots(_segments(blocks), slots, PARKING_MIDDLE)
    yaw = np.repeat(yaw, len(slots))
    points = points.reshape(-1, 2)
    shapes = list(CAR_SHAPES)
    kinds = {(shape, paint): car(shape, paint) for shape in shapes for paint in PAINTS}
    chosen = _near_first(rng, points, wanted)
    shape_of = rng.choice(len(shapes), len(chosen), p=[0.3, 0.25, 0.15, 0.2, 0.1])
    paint_of = rng.integers(0, len(PAINTS), len(chosen))
    shift = rng.uniform(-0.25, 0.25, len(chosen))
    skew = rng.normal(0.0, 0.012, len(chosen))
    for number, row in enumerate(chosen):
        heading = yaw[row] + skew[number]
        at = points[row] + shift[number] * np.array([np.cos(heading), np.sin(heading)])
        pose = Pose((at[0], at[1], 0.0), rpy_deg=(0.0, 0.0, float(np.degrees(heading))))
        parts = kinds[shapes[shape_of[number]], PAINTS[paint_of[number]]]
        add_parts(world, parts, pose=pose, name=f"car-{number}", instance=next(instances))


def _furnish(world: World, seed: int, blocks: int, instances: count[int]) -> None:
    """Lamps, signs, traffic lights, benches, bins, hydrants, bicycles and a bus shelter."""
    rng = Stream(seed, "world/city/furniture").generator()
    segments = _segments(blocks)
    things: list[tuple[str, list[Part], Floats, Floats]] = []
    outward = np.arctan2(segments[:, 5], segments[:, 4])
    lamps, yaw = _spots(segments, np.array([40.0]), ROAD_HALF + 0.6)
    things.append(("lamp", lamp_pole(), lamps[:, 0], outward + np.pi))
    signs, _ = _spots(segments, np.array([PITCH - 12.5]), ROAD_HALF + 0.7)
    kinds = rng.integers(0, 4, len(segments))
    for k, kind in enumerate(("round", "triangle", "square", "stop")):
        things.append((f"sign-{kind}", traffic_sign(kind), signs[kinds == k, 0], yaw[kinds == k]))
    near = np.hypot(*(segments[:, :2] + 0.5 * PITCH * segments[:, 2:4]).T) < 100.0
    some = near & (rng.uniform(size=len(segments)) < 0.6)
    benches, _ = _spots(segments[some], np.array([17.2]), ROAD_HALF + 2.95)
    things.append(("bench", bench(), benches[:, 0], outward[some] + np.pi))
    bins, _ = _spots(segments[near], np.array([15.2]), ROAD_HALF + 0.7)
    things.append(("bin", litter_bin(), bins[:, 0], outward[near]))
    plugs, _ = _spots(segments[some], np.array([45.0]), ROAD_HALF + 0.6)
    things.append(("hydrant", hydrant(), plugs[:, 0], outward[some]))
    cycles = near & (rng.uniform(size=len(segments)) < 0.3)
    racks, _ = _spots(segments[cycles], np.array([34.5, 36.5, 38.5]), ROAD_HALF + 3.1)
    things.append(("bicycle", bicycle(), racks.reshape(-1, 2), np.repeat(yaw[cycles], 3)))
    lights = BLOCK_HALF - PITCH / 2  # the kerb line, counted from the main crossing
    corners = np.array(
        [
            [lights - 0.7, lights - 2.6],
            [2.6 - lights, lights - 0.7],
            [0.7 - lights, 2.6 - lights],
            [lights - 2.6, 0.7 - lights],
        ]
    )
    things.append(("traffic-light", traffic_light(arm=3.2), corners, np.arange(4) * np.pi / 2))
    for name, parts, points, yaws in things:
        for number, (at, turn) in enumerate(zip(points, yaws, strict=True)):
            pose = Pose((at[0], at[1], KERB_HEIGHT), rpy_deg=(0.0, 0.0, float(np.degrees(turn))))
            add_parts(world, parts, pose=pose, name=f"{name}-{number}", instance=next(instances))
    stop = placed(shelter(), (_SHELTER_X, -ROAD_HALF - 2.7, KERB_HEIGHT), np.pi / 2)
    add_parts(world, stop, name="shelter", instance=next(instances))


def _put_people(world: World, rng: np.random.Generator, blocks: int, wanted: int, instances: count[int]) -> None:
    """Walkers on the sidewalks, between the trees at the kerb and the benches at the houses."""
    points, yaw = _spots(_segments(blocks), np.arange(13.0, PITCH - 12.0, 1.9), ROAD_HALF + 1.95)
    yaw = np.repeat(yaw, points.shape[1])
    points = points.reshape(-1, 2)
    clear = np.abs(points - [_SHELTER_X, -ROAD_HALF - 2.2]).max(axis=1) > 3.0
    points, yaw = points[clear], yaw[clear]
    chosen = _near_first(rng, points, wanted)
    figures = [person(height, stride) for height, stride in ((1.62, 0.22), (1.70, 0.30), (1.78, 0.26), (1.86, 0.34))]
    figure = rng.integers(0, len(figures), len(chosen))
    back = rng.integers(0, 2, len(chosen)) * np.pi
    side = rng.uniform(-0.3, 0.3, len(chosen))
    for number, row in enumerate(chosen):
        turn = float(yaw[row] + back[number])
        at = points[row] + side[number] * np.array([-np.sin(turn), np.cos(turn)])
        pose = Pose((at[0], at[1], KERB_HEIGHT), rpy_deg=(0.0, 0.0, float(np.degrees(turn))))
        add_parts(world, figures[figure[number]], pose=pose, name=f"person-{number}", instance=next(instances))


def _plant(
    world: World,
    rng: np.random.Generator,
    blocks: int,
    wanted: int,
    on_lots: Floats,
    target_triangles: int | None,
    instances: count[int],
) -> None:
    """Trees in both rows of sidewalk and on the lots, with leaves to fill up the count of triangles."""
    along = np.array([20.0, 25.0, 31.0, 49.0, 55.0, 61.0])
    street, _ = _spots(_segments(blocks), along, ROAD_HALF + 0.95)
    street = street.reshape(-1, 2)
    street = street[np.abs(street - [_SHELTER_X, -ROAD_HALF - 1.1]).max(axis=1) > 4.5]
    points = np.concatenate([street, on_lots])
    on_street = np.arange(len(points)) < len(street)
    chosen = _near_first(rng, points, wanted)
    leaves = 1600
    if target_triangles is not None and len(chosen):
        present = sum(item.triangle_count for item in world.objects)
        leaves = max(300, round((target_triangles - present) / len(chosen)) - _WOOD_TRIANGLES)
    if on_street[chosen].any():
        add_parts(world, [tree_pits(points[chosen[on_street[chosen]]])], name="ground", instance=0)
    street_trees = [
        tree(rng, float(rng.uniform(6.0, 8.5)), float(rng.uniform(1.7, 2.2)), 2.5, leaves) for _ in range(_TREE_KINDS)
    ]
    lot_trees = [
        tree(rng, float(rng.uniform(7.5, 12.0)), float(rng.uniform(2.4, 3.4)), 2.2, leaves, 0.3)
        for _ in range(_TREE_KINDS)
    ]
    kind = rng.integers(0, _TREE_KINDS, len(chosen))
    turn = rng.uniform(0.0, 360.0, len(chosen))
    for number, row in enumerate(chosen):
        parts = (street_trees if on_street[row] else lot_trees)[kind[number]]
        pose = Pose((points[row, 0], points[row, 1], KERB_HEIGHT), rpy_deg=(0.0, 0.0, float(turn[number])))
        add_parts(world, parts, pose=pose, name=f"tree-{number}", instance=next(instances))
