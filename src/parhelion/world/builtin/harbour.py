"""A harbour basin: a canal between granite quays, moored vessels, an arched bridge, warehouses and cranes.

The plan follows the kind of place of Arce 2025 (canals of the Westhafen in Berlin, a bridge to pass under); measures
are ours. Water level is z = 0, the quays are 1.6 m above it, the canal runs along x.
"""

from __future__ import annotations

from itertools import count

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose
from parhelion.core.random import Stream
from parhelion.core.trajectory import Waypoints
from parhelion.world.builtin.buildings import Band, building
from parhelion.world.builtin.many import boxes, copies, moved, quads, struts
from parhelion.world.builtin.paths import timed_path
from parhelion.world.builtin.props import Part, add_parts, bench, lamp_pole, litter_bin, person, placed
from parhelion.world.builtin.trees import tree
from parhelion.world.builtin.vehicles import PAINTS, car, lorry
from parhelion.world.builtin.waterfront import (
    barge,
    bollard,
    bridge,
    containers,
    crane,
    motor_boat,
    sailing_yacht,
    tug,
)
from parhelion.world.mesh import Mesh
from parhelion.world.shapes import grid_terrain, plane
from parhelion.world.world import World

HALF_WIDTH = 25.0
HALF_LENGTH = 150.0
QUAY = 1.6
BED = -3.0
LAND = 70.0
"""Depth of the land beyond each quay [m]."""
BRIDGE_X = 72.0
WALL = 0.9


def build(seed: int = 0, *, ripple_height: float = 0.012, people: int = 16, trees: int = 14) -> World:
    """A basin 300 m by 50 m. The sensor's place is (0, 0, 2), over open water; the path passes under the bridge.

    `ripple_height` [m] is the standard deviation of the water's height; `people` (0 to 60) stand on the quays and
    `trees` (0 to 14) on the north one.
    """
    if not (np.isfinite(ripple_height) and 0 <= ripple_height <= 0.2):
        raise ConfigError(f"world harbour: ripple_height must be from 0 to 0.2 m, got {ripple_height!r}")
    for name, value, most in (("people", people, 60), ("trees", trees, 14)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value <= most:
            raise ConfigError(f"world harbour: {name} must be a whole number from 0 to {most}, got {value!r}")
    world = World(name="harbour")
    instances = count(1)
    surface = water(Stream(seed, "world/harbour/water").generator(), ripple_height)
    for part in [surface, *_ground(), *_quay_walls(), *_quay_gear()]:
        add_parts(world, [part], name="basin", instance=next(instances))
    _cross(world, instances)
    _build_houses(world, Stream(seed, "world/harbour/houses").generator(), instances)
    _moor(world, Stream(seed, "world/harbour/vessels").generator(), instances)
    _load(world, Stream(seed, "world/harbour/quay").generator(), instances)
    _people_and_trees(world, Stream(seed, "world/harbour/people").generator(), people, trees, instances)
    world.viewpoint = Pose((0.0, 0.0, 2.0))
    world.path = passage()
    return world


def passage() -> Waypoints:
    """230 m along the canal and under the bridge at 2.5 m/s, swinging 4 m to each side; sensor 2.5 m over the water."""
    x = np.linspace(-110.0, 120.0, 116)
    y = 4.0 * np.sin(2.0 * np.pi * (x - BRIDGE_X) / 144.0)
    return timed_path(np.column_stack([x, y]), 2.5, height=2.5)


def water(rng: np.random.Generator, ripple_height: float) -> Part:
    """The water's surface in cells of 1 m, with 16 plane waves of 4 to 14 m length in random directions."""
    nx, ny = int(2 * HALF_LENGTH) + 1, int(2 * HALF_WIDTH) + 1
    if ripple_height == 0:
        return Part("water", plane(nx, ny), "water", "water")
    x, y = np.meshgrid(np.linspace(-nx / 2, nx / 2, nx + 1), np.linspace(-ny / 2, ny / 2, ny + 1))
    length, heading, phase = rng.uniform(4.0, 14.0, 16), rng.uniform(0, 2 * np.pi, 16), rng.uniform(0, 2 * np.pi, 16)
    k = 2.0 * np.pi / length
    height = np.zeros_like(x)
    for wave in range(16):
        height += np.cos(k[wave] * (np.cos(heading[wave]) * x + np.sin(heading[wave]) * y) + phase[wave])
    # Sixteen waves of equal amplitude a have a variance of 16 a^2 / 2.
    return Part("water", grid_terrain(height * ripple_height * np.sqrt(2.0 / 16.0)), "water", "water")


def _ground() -> list[Part]:
    """Land on all sides, paved near the water, and the bed of the basin."""
    near, far = HALF_WIDTH + WALL, HALF_WIDTH + LAND
    paved = HALF_WIDTH + 18.0
    end, outer = HALF_LENGTH + WALL, HALF_LENGTH + 40.0
    strips = [
        (-outer, near, outer, paved),
        (-outer, -paved, outer, -near),
        (end, -near, outer, near),
        (-outer, -near, -end, near),
    ]
    back = [(-outer, paved, outer, far), (-outer, -far, outer, -paved)]
    bed = plane(2 * HALF_LENGTH + 2, 2 * HALF_WIDTH + 2).transformed(Pose((0.0, 0.0, BED)))
    return [
        Part("paving", _rectangles(strips, QUAY), "concrete", "quay"),
        Part("yard", _rectangles(back, QUAY), "asphalt", "road"),
        Part("bed", bed, "sand", "terrain"),
    ]


def _rectangles(rows: list[tuple[float, float, float, float]], z: float) -> Mesh:
    """Level rectangles x0, y0, x1, y1 that face up."""
    return quads([[[x0, y0, z], [x1, y0, z], [x1, y1, z], [x0, y1, z]] for x0, y0, x1, y1 in rows])


def _quay_walls() -> list[Part]:
    """Walls of granite around the basin with a concrete coping that stands out a little."""
    x, y = HALF_LENGTH + WALL / 2, HALF_WIDTH + WALL / 2
    sides = np.array([[0, y], [0, -y], [x, 0], [-x, 0]])
    runs = np.array([[2 * HALF_LENGTH + 2 * WALL, WALL]] * 2 + [[WALL, 2 * HALF_WIDTH]] * 2)
    height = QUAY - BED - 0.35
    wall = boxes(np.column_stack([sides, np.full(4, BED + height / 2)]), np.column_stack([runs, np.full(4, height)]))
    coping = boxes(
        np.column_stack([sides, np.full(4, QUAY - 0.175)]),
        np.column_stack([runs + 0.12 * (runs < 1), np.full(4, 0.35)]),
    )
    return [Part("walls", wall, "granite", "quay"), Part("coping", coping, "concrete", "quay")]


def _quay_gear() -> list[Part]:
    """Bollards, ladders, rubber strips on the wall, crane rails, and dolphins of piles in the water."""
    along = np.arange(-138.0, 139.0, 12.0)
    along = along[np.abs(along - BRIDGE_X) > 6.0]
    sides = np.repeat([-1.0, 1.0], len(along))
    both = np.tile(along, 2)
    at = np.column_stack([both, sides * (HALF_WIDTH + 0.55), np.full(len(both), QUAY)])
    pads = at + np.column_stack([np.full(len(both), 6.0), -sides * 0.65, np.full(len(both), -0.9)])
    ladder_x = np.arange(-130.0, 131.0, 40.0)
    ladders = [_ladder(x, side) for x in ladder_x for side in (-1.0, 1.0)]
    rails = boxes([[0.0, -HALF_WIDTH - d, QUAY + 0.03] for d in (3.5, 12.5)], (2 * HALF_LENGTH - 40.0, 0.12, 0.1))
    piles = np.array(
        [
            [x + dx, y + dy, BED]
            for x, y in ((-95, 9), (-118, -11), (128, 8))
            for dx, dy in ((0, 0), (0.7, 0), (0.35, 0.6))
        ]
    )
    return [
        Part("bollards", copies(bollard(), at), "steel", "quay"),
        Part("fender-strips", boxes(pads, (0.4, 0.2, 1.2)), "rubber", "quay"),
        Part("ladders", Mesh.merged(ladders), "galvanised-steel", "ladder"),
        Part("crane-rails", rails, "steel", "rail"),
        Part("dolphins", struts(piles, moved(piles, 0, 0, 5.2), 0.22, 12), "wood", "other-structure"),
    ]


def _ladder(x: float, side: float) -> Mesh:
    y = side * (HALF_WIDTH - 0.12)
    rungs = np.array([[x, y, z] for z in np.arange(-1.0, QUAY, 0.3)])
    rails = struts(
        [[x - 0.2, y, -1.2], [x + 0.2, y, -1.2]], [[x - 0.2, y, QUAY + 0.3], [x + 0.2, y, QUAY + 0.3]], 0.025, 6
    )
    return Mesh.merged([rails, struts(moved(rungs, -0.2, 0, 0), moved(rungs, 0.2, 0, 0), 0.015, 5)])


def _cross(world: World, instances: count[int]) -> None:
    """The bridge, with lamps and a car on it."""
    crown = 6.4
    parts = bridge(2 * HALF_WIDTH, 9.0, crown, QUAY, 36.0)
    add_parts(world, placed(parts, (BRIDGE_X, 0.0, 0.0)), name="bridge", instance=next(instances))
    deck, pole = crown + 1.13, lamp_pole(5.5, 1.2)
    for number, (x, y, yaw) in enumerate(((-3.9, -18.0, 0.0), (3.9, 0.0, np.pi), (-3.9, 18.0, 0.0))):
        lamp = placed(pole, (BRIDGE_X + x, y, deck), yaw)
        add_parts(world, lamp, name=f"bridge-lamp-{number}", instance=next(instances))
    add_parts(
        world,
        car("hatchback", "car-paint-yellow"),
        pose=Pose((BRIDGE_X + 1.8, -6.0, deck), rpy_deg=(0, 0, 90)),
        name="bridge-car",
        instance=next(instances),
    )


def _build_houses(world: World, rng: np.random.Generator, instances: count[int]) -> None:
    """Brick warehouses to the north, halls and an office to the south; doors face the water."""
    store = [Band(0.0, 1, 4.6, 5.2, 2.2, 1.3, 2.3, 0.3), Band(4.6, 3, 3.8, 5.2, 1.7, 1.1, 1.9, 0.3)]
    hall = [Band(0.0, 1, 7.0, 7.0, 3.2, 3.6, 1.8, 0.2)]
    office = [Band(0.0, 1, 4.0, 4.0, 2.8, 0.5, 2.8, 0.2), Band(4.0, 6, 3.3, 3.0, 2.0, 0.8, 1.8)]
    for number, (bands, length, width, x, side, wall, roof) in enumerate(
        (
            (store, 46.0, 20.0, -92.0, 1, "brick", "gable"),
            (store, 40.0, 20.0, -36.0, 1, "brick", "gable"),
            (store, 40.0, 20.0, 22.0, 1, "limestone", "hip"),
            (store, 38.0, 20.0, 112.0, 1, "brick", "gable"),
            (hall, 52.0, 26.0, -100.0, -1, "concrete", "flat"),
            (hall, 44.0, 26.0, -38.0, -1, "plaster", "flat"),
            (office, 26.0, 18.0, 28.0, -1, "concrete", "flat"),
        )
    ):
        y = side * (HALF_WIDTH + 28.0 + width / 2)
        parts = building(rng, length, width, bands, wall=wall, roof=roof, blind_sides=(2,))
        gate = boxes([[s * 0.3 * length, -width / 2 - 0.03, 1.55] for s in (-1, 1)], (3.0, 0.1, 3.1))
        if bands is not office:
            parts.append(Part("gates", gate, "galvanised-steel", "building"))
        turned = placed(parts, (x, y, QUAY), 0.0 if side > 0 else np.pi)
        add_parts(world, turned, name=f"house-{number}", instance=next(instances))


def _moor(world: World, rng: np.random.Generator, instances: count[int]) -> None:
    """Vessels along both quays, half a metre off the wall, clear of the fairway in the middle."""
    berths: list[tuple[str, list[Part], float, float, int, float]] = [
        ("barge-gravel", barge(rng, 42.0, "gravel"), -46.0, 2.8, -1, 0.0),
        ("tug", tug(18.0), 30.0, 2.9, -1, 0.0),
        ("barge-containers", barge(rng, 46.0, "containers"), 112.0, 2.8, -1, np.pi),
        ("barge-empty", barge(rng, 38.0, "gravel"), -105.0, 2.8, -1, 0.0),
        ("yacht-0", sailing_yacht(11.0), 16.0, 1.75, 1, np.pi),
        ("yacht-1", sailing_yacht(9.5), 31.0, 1.5, 1, np.pi),
        ("yacht-2", sailing_yacht(12.5), -18.0, 2.0, 1, 0.0),
        ("workboat", tug(13.0), -44.0, 2.1, 1, np.pi),
    ]
    for k, x in enumerate((48.0, 0.0, -64.0, -76.0, 100.0)):
        length = float(rng.uniform(6.0, 9.0))
        berths.append((f"motor-boat-{k}", motor_boat(length), x, 0.17 * length, 1, float(rng.integers(0, 2)) * np.pi))
    for name, parts, x, half_beam, side, yaw in berths:
        y = side * (HALF_WIDTH - half_beam - 0.55)
        heel = float(rng.normal(0.0, 0.004))
        pose = Pose((x + float(rng.uniform(-1, 1)), y, 0.0), rpy_deg=(0.0, 0.0, float(np.degrees(yaw + heel))))
        add_parts(world, parts, pose=pose, name=name, instance=next(instances))


def _load(world: World, rng: np.random.Generator, instances: count[int]) -> None:
    """Cranes, container stacks, lamps, cars and lorries on the quays."""
    for number, (x, lift) in enumerate(((-46.0, 58.0), (98.0, 66.0))):
        moved = placed(crane(24.0, lift), (x, -HALF_WIDTH - 8.0, QUAY), np.pi / 2)
        add_parts(world, moved, name=f"crane-{number}", instance=next(instances))
    rows = [(x, y) for y in (-46.5, -49.5, -56.0, -59.0) for x in np.arange(92.0, 136.0, 7.0) if rng.uniform() < 0.8]
    for number, (x, y) in enumerate(rows):
        stack = containers(rng, np.array([[x, y, QUAY]]), np.zeros(1), int(rng.integers(1, 4)))
        add_parts(world, stack, name=f"containers-{number}", instance=next(instances))
    along = np.arange(-135.0, 136.0, 27.0)
    lamp = lamp_pole(6.5, 1.0)
    for number, (x, side) in enumerate((x, side) for side in (-1.0, 1.0) for x in along):
        pose = Pose((x, side * (HALF_WIDTH + 2.2), QUAY), rpy_deg=(0.0, 0.0, side * 90.0))
        add_parts(world, lamp, pose=pose, name=f"lamp-{number}", instance=next(instances))
    shapes = ("saloon", "van", "estate", "suv", "hatchback", "van", "saloon", "suv")
    for k, shape in enumerate(shapes):
        at = (-112.0 + 3.2 * k if k < 4 else 8.0 + 3.2 * k, 47.0, QUAY)
        parts = placed(car(shape, PAINTS[int(rng.integers(len(PAINTS)))]), at, np.pi / 2)
        add_parts(world, parts, name=f"car-{k}", instance=next(instances))
    for k, (x, y, yaw) in enumerate(((-14.0, -44.5, 0.0), (52.0, -40.0, 0.5), (-72.0, -48.0, -1.5))):
        add_parts(world, placed(lorry(), (x, y, QUAY), yaw), name=f"lorry-{k}", instance=next(instances))


def _people_and_trees(world: World, rng: np.random.Generator, people: int, trees: int, instances: count[int]) -> None:
    places = np.array([[x, side * (HALF_WIDTH + 4.5)] for side in (1.0, -1.0) for x in np.arange(-118.0, 122.0, 8.0)])
    places = places[np.abs(places[:, 0] - BRIDGE_X) > 7.0]
    in_crane = (places[:, 1] < 0) & (np.abs(places[:, 0] + 46.0) < 6.0) | (places[:, 1] < 0) & (
        np.abs(places[:, 0] - 98.0) < 6.0
    )
    places = places[~in_crane]
    key = rng.exponential(size=len(places)) * np.exp(np.abs(places[:, 0]) / 40.0)
    figures = [person(1.68, 0.2), person(1.75, 0.3), person(1.84, 0.05)]
    for number, row in enumerate(np.argsort(key, kind="stable")[:people]):
        at = places[row] + rng.uniform(-1.2, 1.2, 2)
        pose = Pose((at[0], at[1], QUAY), rpy_deg=(0.0, 0.0, float(rng.uniform(0, 360))))
        add_parts(world, figures[number % 3], pose=pose, name=f"person-{number}", instance=next(instances))
    for number, x in enumerate((-24.0, 6.0, 40.0)):
        seat = placed(bench(), (x, HALF_WIDTH + 7.5, QUAY), -np.pi / 2)
        add_parts(world, seat, name=f"bench-{number}", instance=next(instances))
        add_parts(
            world,
            placed(litter_bin(), (x + 1.6, HALF_WIDTH + 7.5, QUAY)),
            name=f"bin-{number}",
            instance=next(instances),
        )
    spots: Floats = np.array([-122.0, -104, -86, -68, -50, -32, -14, 2, 14, 28, 44, 92, 106, 120])
    spots = spots[np.argsort(np.abs(spots), kind="stable")[:trees]]
    for number, x in enumerate(spots):
        parts = tree(rng, float(rng.uniform(7, 10)), float(rng.uniform(2.2, 3.0)), 2.4, 2400, 0.26)
        pose = Pose((float(x), HALF_WIDTH + 11.5, QUAY))
        add_parts(world, parts, pose=pose, name=f"tree-{number}", instance=next(instances))
