"""What stands on the city's lots: corner buildings, a small square, parks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats, Pose
from parhelion.world.builtin.buildings import Band, building
from parhelion.world.builtin.city_ground import KERB_HEIGHT, LOT_HALF, block_middles
from parhelion.world.builtin.props import Part, bench, fence, grouped, placed

_WALLS = ("brick", "plaster", "limestone", "concrete", "brick", "plaster", "granite")
_QUARTERS = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])


@dataclass(frozen=True)
class Lots:
    """The plan of all lots: who builds where."""

    green: NDArray[np.bool_]
    """Which blocks are lawn inside, shape (blocks^2,) bool, in the order of `block_middles`."""
    houses: list[tuple[list[Part], Pose]]
    """Buildings and where they stand."""
    trees: Floats
    """Places for trees that do not stand on a sidewalk, shape (k, 2) [m]."""
    furniture: list[list[Part]]
    """Benches and fences on the lots."""


def plan_lots(rng: np.random.Generator, blocks: int) -> Lots:
    """Four buildings a block around the main crossing, but for one corner left open as a square; fewer outside."""
    middles = block_middles(blocks)
    green = np.zeros(len(middles), dtype=bool)
    houses: list[tuple[list[Part], Pose]] = []
    trees: list[Floats] = []
    furniture: list[list[Part]] = []
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
            houses.append(_corner_house(rng, middle, _QUARTERS[k], footprints[k], high=inner))
        open_quarters = [k for k in range(4) if k not in built]
        for k in open_quarters:
            trees.append(_scattered_trees(rng, middle, _QUARTERS[k]))
        if is_square:
            furniture += _square_furniture(middle, _QUARTERS[towards_crossing])
        if inner:
            furniture.append(_gap_fences(middle, footprints))
    return Lots(green, houses, np.concatenate(trees) if trees else np.zeros((0, 2)), furniture)


def _footprint(rng: np.random.Generator) -> Floats:
    """Extent along x and y [m] of a corner building: at least 3 m stay free to the next one."""
    return np.round(rng.uniform(19.0, 27.0, 2), 1)


def _corner_house(
    rng: np.random.Generator, middle: Floats, quarter: Floats, size: Floats, *, high: bool
) -> tuple[list[Part], Pose]:
    """A building in the outer corner of its quarter of a block, its door on one of the two streets."""
    at = middle + quarter * (LOT_HALF - size / 2)
    faces_x = bool(rng.integers(0, 2))
    yaw = (np.pi / 2 * quarter[0]) if faces_x else (0.0 if quarter[1] < 0 else np.pi)
    length, width = (size[1], size[0]) if faces_x else (size[0], size[1])
    # Sides of the building that look into the block have few windows.
    outward = _local_sides(yaw, quarter)
    storeys = int(rng.integers(3, 7)) if high else int(rng.integers(2, 5))
    shop = bool(rng.uniform() < 0.6)
    pitch = float(rng.uniform(2.9, 3.7))
    window = float(rng.uniform(1.15, 1.6))
    bands = [
        Band(0.0, 1, 4.0, 4.4, 2.7, 0.5, 2.7, 0.22) if shop else Band(0.0, 1, 3.5, pitch, window, 1.0, 1.7),
        Band(4.0 if shop else 3.5, storeys, 3.1, pitch, window, 0.85, float(rng.uniform(1.5, 1.8))),
    ]
    roof = "flat" if storeys > 4 or rng.uniform() < 0.4 else "hip"
    parts = building(
        rng,
        float(length),
        float(width),
        bands,
        wall=_WALLS[int(rng.integers(len(_WALLS)))],
        roof=roof,
        balconies=bool(rng.uniform() < 0.5),
        blind_sides=tuple(k for k in range(4) if k not in outward),
    )
    return parts, Pose((at[0], at[1], KERB_HEIGHT), rpy_deg=(0.0, 0.0, float(np.degrees(yaw))))


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


def _square_furniture(middle: Floats, quarter: Floats) -> list[list[Part]]:
    """Benches around the small square."""
    spots = [(5.0, 12.0), (12.0, 5.0), (18.5, 11.5), (11.5, 18.5)]
    return [
        placed(bench(), (*(middle + quarter * np.array(spot)), KERB_HEIGHT), float(np.arctan2(*(quarter[::-1]))))
        for spot in spots
    ]


def _gap_fences(middle: Floats, footprints: dict[int, Floats]) -> list[Part]:
    """Fences along the lot's edges from building to building, where both corners are built on."""
    parts: list[Part] = []
    for a, b, axis in ((0, 1, 0), (1, 2, 1), (2, 3, 0), (3, 0, 1)):
        if a not in footprints or b not in footprints:
            continue
        edge = (LOT_HALF - 0.4) * _QUARTERS[a][1 - axis]
        ends = []
        for k in (a, b):
            point = np.empty(2)
            point[1 - axis] = edge
            point[axis] = _QUARTERS[k][axis] * (LOT_HALF - footprints[k][axis] - 0.1)
            ends.append(middle + point)
        parts += fence(ends[0], ends[1], 1.6, KERB_HEIGHT)
    return grouped(parts)
