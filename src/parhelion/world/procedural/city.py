"""Generator of cities: a grid of streets with sidewalks, corner buildings, parked cars, trees and street furniture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from parhelion.core.checks import whole
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.core.random import Stream
from parhelion.world.kit.city_ground import (
    BLOCK_HALF,
    KERB_HEIGHT,
    LANE_MIDDLE,
    LOT_HALF,
    PARKING_MIDDLE,
    PITCH,
    ROAD_HALF,
    block_middles,
    street_lines,
)
from parhelion.world.kit.vehicles import CAR_SHAPES, PAINTS
from parhelion.world.procedural import kinds as street
from parhelion.world.procedural.kinds import BuildingParams, FenceParams, Params, StoreysParams, place_of
from parhelion.world.procedural.layout import Layout, LayoutObject, LayoutPose, Passage, PlannedDrive
from parhelion.world.procedural.object_parts import parts_of
from parhelion.world.procedural.placing import natural, placed, without_clashes
from parhelion.world.procedural.town_parts import drawn_tree, dressed, pass_over_building, streets_side

# ---- Lots: corner buildings, a small square, parks ------------------------------------------------------------------


_WALLS = ("brick", "plaster", "limestone", "concrete", "brick", "plaster", "granite")
_QUARTERS = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])


@dataclass(frozen=True)
class Lots:
    """Objects on all lots."""

    green: NDArray[np.bool_]
    """Mask of the blocks with a lawn, shape (blocks^2,), in the order of `block_middles`."""
    houses: list[LayoutObject]
    """Buildings."""
    trees: Floats
    """Positions of trees on the lots [m], shape (k, 2)."""
    furniture: list[LayoutObject]
    """Benches and fences on the lots."""


def plan_lots(rng: np.random.Generator, blocks: int, open_windows: float = 0.0) -> Lots:
    """Plan four buildings per block around the main crossing, except for one corner with a square; fewer outside."""
    middles = block_middles(blocks)
    green = np.zeros(len(middles), dtype=bool)
    houses: list[LayoutObject] = []
    trees: list[Floats] = []
    furniture: list[LayoutObject] = []
    for number, middle in enumerate(middles):
        inner = bool(np.all(np.abs(middle) < 41.0))
        is_square = inner and middle[0] > 0 > middle[1]
        towards_crossing = np.argmax(_QUARTERS @ -middle)
        if inner:
            built = [k for k in range(4) if not (is_square and k == towards_crossing)]
        else:
            order = np.argsort(np.hypot(*(middle + 15.0 * _QUARTERS).T), kind="stable")
            built = sorted(int(k) for k in order[: int(rng.integers(1, 3))]) if rng.uniform() > 0.15 else []
        green[number] = not inner
        footprints = {k: _footprint(rng) for k in built}
        for k in built:
            name = f"building-{len(houses)}"
            houses.append(_corner_house(rng, name, middle, _QUARTERS[k], footprints[k], inner, open_windows))
        open_quarters = [k for k in range(4) if k not in built]
        for k in open_quarters:
            trees.append(_scattered_trees(rng, middle, _QUARTERS[k]))
        if is_square:
            furniture += _square_furniture(len(furniture), middle, _QUARTERS[towards_crossing])
        if inner:
            furniture += _gap_fences(len(furniture), middle, footprints)
    return Lots(green, houses, np.concatenate(trees) if trees else np.zeros((0, 2)), furniture)


def _footprint(rng: np.random.Generator) -> Floats:
    """Extent along x and y [m] of a corner building, at least 3 m from the next one."""
    return np.round(rng.uniform(19.0, 27.0, 2), 1)


def _corner_house(
    rng: np.random.Generator, name: str, middle: Floats, quarter: Floats, size: Floats, high: bool, open_windows: float
) -> LayoutObject:
    """Building in the outer corner of its quarter of a block, with its door on one of the two streets."""
    at = middle + quarter * (LOT_HALF - size / 2)
    faces_x = bool(rng.integers(0, 2))
    yaw = (np.pi / 2 * quarter[0]) if faces_x else (0.0 if quarter[1] < 0 else np.pi)
    length, width = (float(size[1]), float(size[0])) if faces_x else (float(size[0]), float(size[1]))
    # Sides of the building that face the inside of the block have few windows.
    outward = _local_sides(yaw, quarter)
    storeys = int(rng.integers(3, 7)) if high else int(rng.integers(2, 5))
    shop = bool(rng.uniform() < 0.6)
    pitch = float(rng.uniform(2.9, 3.7))
    window = float(rng.uniform(1.15, 1.6))
    bands = (
        _storeys(0.0, 1, 4.0, 4.4, 2.7, 0.5, 2.7, 0.22) if shop else _storeys(0.0, 1, 3.5, pitch, window, 1.0, 1.7),
        _storeys(4.0 if shop else 3.5, storeys, 3.1, pitch, window, 0.85, float(rng.uniform(1.5, 1.8))),
    )
    roof = "flat" if storeys > 4 or rng.uniform() < 0.4 else "hip"
    wall = _WALLS[int(rng.integers(len(_WALLS)))]
    balconies = bool(rng.uniform() < 0.5)
    params = BuildingParams(
        bands=bands,
        wall=wall,
        roof=roof,  # type: ignore[arg-type]
        balconies=balconies,
        blind_sides=tuple(k for k in range(4) if k not in outward),
        open_windows=open_windows,
        seed=place_of(rng),
    )
    height = pass_over_building(rng, length, width, params)
    return placed("building", name, (*at, KERB_HEIGHT), np.degrees(yaw), (length, width, height), params)


def _storeys(*values: float) -> StoreysParams:
    """Storeys by the values of their fields, in order."""
    return StoreysParams(**dict(zip(StoreysParams.model_fields, values, strict=False)))  # type: ignore[arg-type]


def _local_sides(yaw: float, quarter: Floats) -> set[int]:
    """Numbers of the sides of a building that face the streets at the two outer edges of its quarter."""
    normals = np.array([[0, -1], [1, 0], [0, 1], [-1, 0]], dtype=np.float64)
    cos, sin = np.cos(yaw), np.sin(yaw)
    rotated = normals @ np.array([[cos, sin], [-sin, cos]])
    return {k for k in range(4) if float(np.max(rotated[k] * quarter)) > 0.5}


def _scattered_trees(rng: np.random.Generator, middle: Floats, quarter: Floats) -> Floats:
    """Positions of six trees in a quarter, at least 5 m from each other and from its edges."""
    cells = np.array([[u, v] for u in (8.0, 15.0, 22.0) for v in (8.0, 15.0, 22.0)])
    chosen = np.sort(rng.permutation(len(cells))[:6])
    return middle + quarter * (cells[chosen] + rng.uniform(-1.0, 1.0, (6, 2)))


def _square_furniture(first: int, middle: Floats, quarter: Floats) -> list[LayoutObject]:
    """Benches around the small square; `first` is the number of the first."""
    spots = [(5.0, 12.0), (12.0, 5.0), (18.5, 11.5), (11.5, 18.5)]
    turn = float(np.degrees(np.arctan2(*(quarter[::-1]))))
    return [
        natural("bench", f"yard-{first + k}", (*(middle + quarter * np.array(spot)), KERB_HEIGHT), turn)
        for k, spot in enumerate(spots)
    ]


def _gap_fences(number: int, middle: Floats, footprints: dict[int, Floats]) -> list[LayoutObject]:
    """Fences along the edges of a lot between buildings, if both corners have one."""
    lines = []
    for a, b, axis in ((0, 1, 0), (1, 2, 1), (2, 3, 0), (3, 0, 1)):
        if a not in footprints or b not in footprints:
            continue
        edge = (LOT_HALF - 0.4) * _QUARTERS[a][1 - axis]
        ends = []
        for k in (a, b):
            point = np.empty(2)
            point[1 - axis] = edge
            point[axis] = _QUARTERS[k][axis] * (LOT_HALF - footprints[k][axis] - 0.1)
            ends.append(tuple(float(v) for v in middle + point))
        lines.append((ends[0], ends[1]))
    params = FenceParams(lines=tuple(lines), base_m=KERB_HEIGHT)  # type: ignore[arg-type]
    size = (2 * LOT_HALF, 2 * LOT_HALF, 1.6)
    return [placed("fence", f"yard-{number}", (0.0, 0.0, 0.0), 0.0, size, params)] if lines else []


# ---- city -----------------------------------------------------------------------------------------------------------


LANE_M = 3.5
_CAR_NEEDS_M = 2.5
"""Free width of a lane for a car [m]."""
_TREE_KINDS = 10
"""Number of different trees of each kind; every tree is a rotated copy of one of them."""
_WOOD_TRIANGLES = 308
"""Number of triangles of the trunk, the limbs and the pit of a tree."""
_SHELTER_X = -34.0
"""Position of the bus shelter along the main street [m]; there are no trees near it."""
_MOST = 100_000


def city(
    blocks: int = 4,
    *,
    cars: int = 52,
    trees: int = 84,
    people: int = 30,
    signs: int | None = None,
    open_windows: float = 0.0,
    target_triangles: int | None = None,
    leaf_blades: bool = False,
    seed: int = 0,
) -> Layout:
    """Generate a city of `blocks` x `blocks` blocks of 80 m with its main crossing at the origin; right-hand traffic.

    Counts are upper limits: there are fewer objects if there are not enough places.

    Args:
        blocks: Blocks along each side: 2, 4, 6 or 8.
        cars: Parked cars.
        trees: Trees along streets and on lots.
        people: People on sidewalks.
        signs: Signs at the ends of streets; by default one on each side of each street.
        open_windows: Share of the windows that are open, 0 to 1.
        target_triangles: Approximate total number of triangles, reached by the number of leaves (at least 300 per
            tree).
        leaf_blades: True for leaves of 11 to 14 cm as blades, of the same total area, instead of triangles of 24 to
            30 cm that stand for sprays. About 1.6 million more triangles; not with `target_triangles`.
        seed: The same seed gives the same layout.
    """
    if isinstance(blocks, bool) or blocks not in (2, 4, 6, 8):
        raise ConfigError(f"city: blocks must be 2, 4, 6 or 8, got {blocks!r}")
    for name, value in (("cars", cars), ("trees", trees), ("people", people)):
        whole(f"city: {name}", value, 0, _MOST)
    if signs is not None:
        whole("city: signs", signs, 0, _MOST)
    if target_triangles is not None:
        whole("city: target_triangles", target_triangles, 0, 10**9)
    blocks, seed = int(blocks), whole("city: seed", seed, 0, 2**63 - 1)
    if isinstance(open_windows, bool) or not 0.0 <= open_windows <= 1.0:
        raise ConfigError(f"city: open_windows must be from 0 to 1, got {open_windows!r}")
    if not isinstance(leaf_blades, bool):
        raise ConfigError(f"city: leaf_blades must be true or false, got {leaf_blades!r}")
    if leaf_blades and target_triangles is not None:
        raise ConfigError("city: give leaf_blades or target_triangles, not both")
    lots = plan_lots(Stream(seed, "world/city/lots").generator(), blocks, float(open_windows))
    side = streets_side(blocks)
    lawns = tuple(int(number) for number in np.flatnonzero(lots.green))
    params = street.StreetsParams(blocks=blocks, lawns=lawns, seed=seed)
    items = [
        placed("streets", "ground", (0.0, 0.0, 0.0), 0.0, (side, side, 0.0), params),
        *lots.houses,
        *lots.furniture,
        *_furniture(seed, blocks, signs),
        *_parked_cars(Stream(seed, "world/city/cars").generator(), blocks, cars),
        *_people(Stream(seed, "world/city/people").generator(), blocks, people),
    ]
    remaining = None
    if target_triangles is not None:
        remaining = target_triangles - sum(len(part.mesh.faces) for item in items for part in parts_of(item))
    planted = _trees(Stream(seed, "world/city/trees").generator(), blocks, trees, lots.trees, remaining, leaf_blades)
    items = without_clashes([*items, *(item for item, _ in planted)], (side, side))
    stand = {item.name for item in items if item.kind == "planted-tree"}
    pits = tuple(item.pose.xyz[:2] for item, in_pit in planted if in_pit and item.name in stand)
    if pits:
        soil = street.TreePitsParams(points=pits)
        first = next(row for row, item in enumerate(items) if item.kind == "planted-tree")
        items.insert(first, placed("tree-pits", "ground", (0.0, 0.0, KERB_HEIGHT), 0.0, (side, side, 0.03), soil))
    return Layout(
        name="city",
        seed=seed,
        size=(side, side),
        objects=tuple(items),
        ways=_lanes(blocks),
        drive=_drive(),
        viewpoint=LayoutPose(xyz=(0.0, 0.0, 1.8)),
    )


def _drive() -> PlannedDrive:
    """140 m along the main street at 10 m/s, then left into the next one; sensor 1.8 m above the right-hand lane."""
    radius = 10.0
    angle = np.linspace(0.0, np.pi / 2, 16)
    corner = np.array([PITCH + LANE_MIDDLE - radius, -LANE_MIDDLE + radius])
    arc = corner + radius * np.column_stack([np.sin(angle), -np.cos(angle)])
    straight = np.column_stack([np.linspace(-72.0, corner[0], 60, endpoint=False), np.full(60, -LANE_MIDDLE)])
    away = np.column_stack([np.full(30, PITCH + LANE_MIDDLE), np.linspace(corner[1], 62.0, 31)[1:]])
    points = np.concatenate([straight, arc, away])
    slow = np.hypot(*(points - [PITCH - 2.0, 2.0]).T)
    speed = np.clip(4.0 + 0.27 * np.maximum(0.0, slow - 8.0), 4.0, 10.0)
    return PlannedDrive(points=tuple(map(tuple, points.tolist())), speeds_m_s=tuple(speed.tolist()), height_m=1.8)


def _lanes(blocks: int) -> tuple[Passage, ...]:
    """Both lanes of every street, from edge to edge."""
    end = blocks * PITCH / 2 + ROAD_HALF
    ways = []
    for k, across in enumerate(street_lines(blocks).tolist()):
        for lane, side in (("right", -1.0), ("left", 1.0)):
            at = across + side * LANE_MIDDLE
            for axis, points in (("x", ((-end, at), (end, at))), ("y", ((at, -end), (at, end)))):
                ways.append(
                    Passage(name=f"street-{axis}-{k}-{lane}", points=points, width_m=LANE_M, needs_m=_CAR_NEEDS_M)
                )
    return tuple(ways)


def _segments(blocks: int) -> Floats:
    """Kerbs, one row per side of a street segment with a block: start x, y, direction x, y, outward x, y.

    The direction is that of the traffic on that side; outward points from the street to the block.
    """
    lines = street_lines(blocks)
    rows = []
    for across in lines:
        for start in lines[:-1]:
            for side in (-1.0, 1.0):
                if abs(across + side * PITCH / 2) < lines[-1]:
                    # Right-hand traffic: in a street along x, vehicles on the side at -y drive towards +x.
                    begin = start if side < 0 else start + PITCH
                    rows.append([begin, across, -side, 0.0, 0.0, side])
                    begin = start if side > 0 else start + PITCH
                    rows.append([across, begin, 0.0, side, side, 0.0])
    return np.array(rows)


def _spots(segments: Floats, along: Floats, offset: float) -> tuple[Floats, Floats]:
    """Points (s, k, 2) at distances `along` (k,) on each segment, `offset` from the middle of the street; yaws (s,)."""
    start, direction, outward = segments[:, 0:2], segments[:, 2:4], segments[:, 4:6]
    points = start[:, None] + along[None, :, None] * direction[:, None] + offset * outward[:, None]
    return points, np.arctan2(direction[:, 1], direction[:, 0])


def _near_first(rng: np.random.Generator, points: Floats, wanted: int) -> NDArray[np.intp]:
    """Rows of a random selection of points, more likely near the main crossing (scale 45 m)."""
    key = rng.exponential(size=len(points)) * np.exp(np.hypot(points[:, 0], points[:, 1]) / 45.0)
    return np.argsort(key, kind="stable")[:wanted]


def _parked_cars(rng: np.random.Generator, blocks: int, wanted: int) -> list[LayoutObject]:
    slots = np.arange(17.0, PITCH - 16.0, 6.0)
    points, yaw = _spots(_segments(blocks), slots, PARKING_MIDDLE)
    yaw = np.repeat(yaw, len(slots))
    points = points.reshape(-1, 2)
    shapes = list(CAR_SHAPES)
    chosen = _near_first(rng, points, wanted)
    shape_of = rng.choice(len(shapes), len(chosen), p=[0.3, 0.25, 0.15, 0.2, 0.1])
    paint_of = rng.integers(0, len(PAINTS), len(chosen))
    shift = rng.uniform(-0.25, 0.25, len(chosen))
    skew = rng.normal(0.0, 0.012, len(chosen))
    items = []
    for number, row in enumerate(chosen):
        heading = yaw[row] + skew[number]
        at = points[row] + shift[number] * np.array([np.cos(heading), np.sin(heading)])
        params = street.CarParams.model_construct(shape=shapes[shape_of[number]], paint=PAINTS[paint_of[number]])
        items.append(natural("car", f"car-{number}", (*at, 0.0), np.degrees(heading), params))
    return items


def _furniture(seed: int, blocks: int, signs: int | None) -> list[LayoutObject]:
    """Lamps, signs, traffic lights, benches, bins, hydrants, bicycles and a bus shelter."""
    rng = Stream(seed, "world/city/furniture").generator()
    segments = _segments(blocks)
    rows: list[tuple[str, str, Params, Floats, Floats]] = []
    outward = np.arctan2(segments[:, 5], segments[:, 4])
    lamps, yaw = _spots(segments, np.array([40.0]), ROAD_HALF + 0.6)
    rows.append(("lamp", "lamp", street.LampParams(), lamps[:, 0], outward + np.pi))
    plates, _ = _spots(segments, np.array([PITCH - 12.5]), ROAD_HALF + 0.7)
    kinds = rng.integers(0, 4, len(segments))
    shown = np.zeros(len(segments), dtype=bool)
    shown[Stream(seed, "world/city/signs").generator().permutation(len(segments))[:signs]] = True
    for k, plate in enumerate(("round", "triangle", "square", "stop")):
        here = (kinds == k) & shown
        sign = street.SignParams(plate=plate)  # type: ignore[arg-type]
        rows.append(("traffic-sign", f"sign-{plate}", sign, plates[here, 0], yaw[here]))
    near = np.hypot(*(segments[:, :2] + 0.5 * PITCH * segments[:, 2:4]).T) < 100.0
    some = near & (rng.uniform(size=len(segments)) < 0.6)
    benches, _ = _spots(segments[some], np.array([17.2]), ROAD_HALF + 2.95)
    rows.append(("bench", "bench", Params(), benches[:, 0], outward[some] + np.pi))
    bins, _ = _spots(segments[near], np.array([15.2]), ROAD_HALF + 0.7)
    rows.append(("litter-bin", "bin", Params(), bins[:, 0], outward[near]))
    plugs, _ = _spots(segments[some], np.array([45.0]), ROAD_HALF + 0.6)
    rows.append(("hydrant", "hydrant", Params(), plugs[:, 0], outward[some]))
    cycles = near & (rng.uniform(size=len(segments)) < 0.3)
    racks, _ = _spots(segments[cycles], np.array([34.5, 36.5, 38.5]), ROAD_HALF + 3.1)
    rows.append(("bicycle", "bicycle", Params(), racks.reshape(-1, 2), np.repeat(yaw[cycles], 3)))
    lights = BLOCK_HALF - PITCH / 2  # position of the kerb relative to the main crossing
    corners = np.array(
        [
            [lights - 0.7, lights - 2.6],
            [2.6 - lights, lights - 0.7],
            [0.7 - lights, 2.6 - lights],
            [lights - 2.6, 0.7 - lights],
        ]
    )
    rows.append(("traffic-light", "traffic-light", street.LightParams(arm_m=3.2), corners, np.arange(4) * np.pi / 2))
    stop = natural("shelter", "shelter", (_SHELTER_X, -ROAD_HALF - 2.7, KERB_HEIGHT), 90.0)
    return [
        *(
            natural(kind, f"{name}-{number}", (*at, KERB_HEIGHT), np.degrees(yaw), params)
            for kind, name, params, points, yaws in rows
            for number, (at, yaw) in enumerate(zip(points, yaws, strict=True))
        ),
        stop,
    ]


def _people(rng: np.random.Generator, blocks: int, wanted: int) -> list[LayoutObject]:
    """Pedestrians on the sidewalks, between the trees at the kerb and the benches at the houses."""
    points, yaw = _spots(_segments(blocks), np.arange(13.0, PITCH - 12.0, 1.9), ROAD_HALF + 1.95)
    yaw = np.repeat(yaw, points.shape[1])
    points = points.reshape(-1, 2)
    clear = np.abs(points - [_SHELTER_X, -ROAD_HALF - 2.2]).max(axis=1) > 3.0
    points, yaw = points[clear], yaw[clear]
    chosen = _near_first(rng, points, wanted)
    figures = [
        street.PersonParams(height_m=height, stride_m=stride)
        for height, stride in ((1.62, 0.22), (1.70, 0.30), (1.78, 0.26), (1.86, 0.34))
    ]
    figure = rng.integers(0, len(figures), len(chosen))
    back = rng.integers(0, 2, len(chosen)) * np.pi
    side = rng.uniform(-0.3, 0.3, len(chosen))
    items = []
    for number, row in enumerate(chosen):
        turn = float(yaw[row] + back[number])
        at = points[row] + side[number] * np.array([-np.sin(turn), np.cos(turn)])
        items.append(
            natural(
                "person",
                f"person-{number}",
                (*at, KERB_HEIGHT),
                np.degrees(turn),
                dressed(figures[figure[number]], number),
            )
        )
    return items


def _trees(
    rng: np.random.Generator, blocks: int, wanted: int, on_lots: Floats, triangles: int | None, blades: bool
) -> list[tuple[LayoutObject, bool]]:
    """Trees on the sidewalks and on the lots, each with True if it stands in a pit.

    `triangles` is their desired total number of triangles, or None.
    """
    along = np.array([20.0, 25.0, 31.0, 49.0, 55.0, 61.0])
    places, _ = _spots(_segments(blocks), along, ROAD_HALF + 0.95)
    places = places.reshape(-1, 2)
    places = places[np.abs(places - [_SHELTER_X, -ROAD_HALF - 1.1]).max(axis=1) > 4.5]
    points = np.concatenate([places, on_lots])
    on_street = np.arange(len(points)) < len(places)
    chosen = _near_first(rng, points, wanted)
    leaves = 1600
    if triangles is not None and len(chosen):
        leaves = max(300, round(triangles / len(chosen)) - _WOOD_TRIANGLES)
    small, large = 0.24, 0.3
    form: Literal["spray", "blade"] = "spray"
    if blades:
        # A triangle has an area of 0.4 squared lengths, a blade 0.346 with its folded halves.
        shrink = 0.46
        leaves, form = round(leaves * 0.4 / 0.346 / shrink**2), "blade"
        small, large = small * shrink, large * shrink
    street_trees = [drawn_tree(rng, (6.0, 8.5), (1.7, 2.2), 2.5, leaves, small, form) for _ in range(_TREE_KINDS)]
    lot_trees = [drawn_tree(rng, (7.5, 12.0), (2.4, 3.4), 2.2, leaves, large, form) for _ in range(_TREE_KINDS)]
    kind = rng.integers(0, _TREE_KINDS, len(chosen))
    turn = rng.uniform(0.0, 360.0, len(chosen))
    items = []
    for number, row in enumerate(chosen):
        size, params = (street_trees if on_street[row] else lot_trees)[kind[number]]
        at = (points[row, 0], points[row, 1], KERB_HEIGHT)
        items.append((placed("planted-tree", f"tree-{number}", at, turn[number], size, params), bool(on_street[row])))
    return items
