"""What stands on the city's lots: corner buildings, a small square, parks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.world.kit.buildings import building_draws
from parhelion.world.kit.city_ground import KERB_HEIGHT, LOT_HALF, block_middles
from parhelion.world.procedural.draws import place_of
from parhelion.world.procedural.layout import LayoutObject
from parhelion.world.procedural.placing import natural, placed
from parhelion.world.procedural.street import BenchParams, BuildingParams, FenceParams, StoreysParams
from parhelion.world.procedural.town_things import bands_of

_WALLS = ("brick", "plaster", "limestone", "concrete", "brick", "plaster", "granite")
_QUARTERS = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])


@dataclass(frozen=True)
class Lots:
    """The plan of all lots: who builds where."""

    green: NDArray[np.bool_]
    """Which blocks are lawn inside, shape (blocks^2,) bool, in the order of `block_middles`."""
    houses: list[LayoutObject]
    """Buildings."""
    trees: Floats
    """Places for trees that do not stand on a sidewalk, shape (k, 2) [m]."""
    furniture: list[LayoutObject]
    """Benches and fences on the lots."""


def plan_lots(rng: np.random.Generator, blocks: int) -> Lots:
    """Four buildings a block around the main crossing, but for one corner left open as a square; fewer outside."""
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
            houses.append(_corner_house(rng, name, middle, _QUARTERS[k], footprints[k], high=inner))
        open_quarters = [k for k in range(4) if k not in built]
        for k in open_quarters:
            trees.append(_scattered_trees(rng, middle, _QUARTERS[k]))
        if is_square:
            furniture += _square_furniture(len(furniture), middle, _QUARTERS[towards_crossing])
        if inner:
            furniture += _gap_fences(len(furniture), middle, footprints)
    return Lots(green, houses, np.concatenate(trees) if trees else np.zeros((0, 2)), furniture)


def _footprint(rng: np.random.Generator) -> Floats:
    """Extent along x and y [m] of a corner building: at least 3 m stay free to the next one."""
    return np.round(rng.uniform(19.0, 27.0, 2), 1)


def _corner_house(
    rng: np.random.Generator, name: str, middle: Floats, quarter: Floats, size: Floats, *, high: bool
) -> LayoutObject:
    """A building in the outer corner of its quarter of a block, its door on one of the two streets."""
    at = middle + quarter * (LOT_HALF - size / 2)
    faces_x = bool(rng.integers(0, 2))
    yaw = (np.pi / 2 * quarter[0]) if faces_x else (0.0 if quarter[1] < 0 else np.pi)
    length, width = (float(size[1]), float(size[0])) if faces_x else (float(size[0]), float(size[1]))
    # Sides of the building that look into the block have few windows.
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
        seed=place_of(rng),
    )
    height = bands[-1].bottom_m + bands[-1].storeys * bands[-1].storey_height_m
    # The house itself is drawn later, from where the stream stands now: what it will take is passed over here.
    taken = bands_of(height, params)
    rng.random(building_draws(length, width, taken, roof=roof, blind_sides=params.blind_sides))
    return placed("building", name, (*at, KERB_HEIGHT), np.degrees(yaw), (length, width, height), params)


def _storeys(
    bottom: float,
    storeys: int,
    height: float,
    pitch: float,
    width: float,
    sill: float,
    window_height: float,
    recess: float = 0.16,
) -> StoreysParams:
    return StoreysParams(
        bottom_m=bottom,
        storeys=storeys,
        storey_height_m=height,
        pitch_m=pitch,
        window_width_m=width,
        sill_m=sill,
        window_height_m=window_height,
        recess_m=recess,
    )


def _local_sides(yaw: float, quarter: Floats) -> set[int]:
    """Numbers of the building's sides that look at the streets on the quarter's two outer edges."""
    normals = np.array([[0, -1], [1, 0], [0, 1], [-1, 0]], dtype=np.float64)
    cos, sin = np.cos(yaw), np.sin(yaw)
    turned = normals @ np.array([[cos, sin], [-sin, cos]])
    return {k for k in range(4) if float(np.max(turned[k] * quarter)) > 0.5}


def _scattered_trees(rng: np.random.Generator, middle: Floats, quarter: Floats) -> Floats:
    """Up to six places in a quarter, at least 5 m from each other and from its edges."""
    cells = np.array([[u, v] for u in (8.0, 15.0, 22.0) for v in (8.0, 15.0, 22.0)])
    chosen = np.sort(rng.permutation(len(cells))[:6])
    return middle + quarter * (cells[chosen] + rng.uniform(-1.0, 1.0, (6, 2)))


def _square_furniture(first: int, middle: Floats, quarter: Floats) -> list[LayoutObject]:
    """Benches around the small square; `first` is the number of the first."""
    spots = [(5.0, 12.0), (12.0, 5.0), (18.5, 11.5), (11.5, 18.5)]
    turn = float(np.degrees(np.arctan2(*(quarter[::-1]))))
    return [
        natural("bench", f"yard-{first + k}", (*(middle + quarter * np.array(spot)), KERB_HEIGHT), turn, BenchParams())
        for k, spot in enumerate(spots)
    ]


def _gap_fences(number: int, middle: Floats, footprints: dict[int, Floats]) -> list[LayoutObject]:
    """Fences along the lot's edges from building to building, where both corners are built on."""
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
