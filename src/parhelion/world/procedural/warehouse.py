"""Generator of warehouses: rack rows with aisles, a goods-in area with doors, and loads on the floor.

Rows are parallel to x. The middle aisle is at the origin; on both sides of it follow a row, a flue, a row that faces
the opposite direction, an aisle, and so on. Cross aisles are at both ends and in the middle of long rows. The doors,
floor places and charging stations are at +x. Dimensions are round figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.checks import whole
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.core.random import Stream
from parhelion.world.procedural.kinds import PALLET_HEIGHT_M
from parhelion.world.procedural.layout import Layout, LayoutObject, LayoutPose, Passage, PlannedDrive
from parhelion.world.procedural.placing import number, pair

# ---- Lines with rounded corners -------------------------------------------------------------------------------------


_PIECES = 6
"""Number of straight segments per rounded corner."""


def rounded(corners: ArrayLike, radius_m: float) -> Floats:
    """Line (n, 2) along `corners` (k, 2) with arcs of `radius_m` at the corners, smaller if legs are short."""
    points = np.asarray(corners, dtype=np.float64)
    legs = np.diff(points, axis=0)
    lengths = np.hypot(legs[:, 0], legs[:, 1])
    ahead = legs / lengths[:, None]
    line = [points[:1]]
    for k in range(1, len(points) - 1):
        before, after = ahead[k - 1], ahead[k]
        turn = float(np.arctan2(before[0] * after[1] - before[1] * after[0], before @ after))
        if abs(turn) < 1e-6:
            line.append(points[k : k + 1])
            continue
        cut = min(radius_m * np.tan(abs(turn) / 2), 0.5 * lengths[k - 1], 0.5 * lengths[k])
        radius = cut / np.tan(abs(turn) / 2)
        side = np.sign(turn) * np.array([-before[1], before[0]])
        centre = points[k] - cut * before + radius * side
        angle = np.linspace(0.0, abs(turn), _PIECES + 1)[:, None]
        # Seen from the centre, the arc starts opposite to `side` and continues in the direction of the line.
        line.append(centre + radius * (np.sin(angle) * before - np.cos(angle) * side))
    line.append(points[-1:])
    return np.concatenate(line)


# ---- warehouse ------------------------------------------------------------------------------------------------------


WALL_M = 0.2
RACK_DEPTH_M = 1.2
FLUE_M = 0.3
"""Gap between two rows that are back to back [m]; it contains pillars."""
POST_M = 0.1
BAY_M = 2.8
LONGEST_ROW_M = 24.0
"""Length of a row [m] above which a cross aisle divides it."""
HALL_HEIGHT_M = 6.5
DOOR_M = (3.0, 3.4)
"""Width and height of the goods doors [m]."""
_SPOT_M = 1.6
"""Distance between the floor places along the walls [m]."""


@dataclass(frozen=True)
class Plan:
    """Rows and aisles: the deterministic part of a warehouse."""

    size: tuple[float, float]
    aisle: float
    rows: tuple[float, ...]
    """y of the middle of each row."""
    aisles: tuple[float, ...]
    """y of the middle of each aisle, increasing."""
    spans: tuple[tuple[float, int], ...]
    """x of the first bay and the number of bays, per part of a row."""
    west: float
    """x of the middle of the cross aisle at -x, and `east` of that at +x."""
    east: float
    middle: float | None
    """x of the cross aisle that divides the rows, or None."""

    @property
    def half(self) -> tuple[float, float]:
        """Half the inner length and width."""
        return self.size[0] / 2 - WALL_M, self.size[1] / 2 - WALL_M


def plan_hall(size_m: tuple[float, float], rack_rows: int | None, aisle_m: float) -> Plan:
    """Rows, aisles and cross aisles of a hall; raises if no rack fits, or fewer rows than requested."""
    length, width = pair("warehouse: size_m", size_m, (8.0, 5.0), 300.0)
    aisle = number("warehouse: aisle_m", aisle_m, 1.5, 8.0)
    half_x, half_y = length / 2 - WALL_M, width / 2 - WALL_M
    floor = float(np.clip(0.12 * length, 2.2, 5.0))
    start, end = -half_x + aisle, half_x - aisle - floor
    space = end - start
    parts = 2 if space > LONGEST_ROW_M + aisle else 1
    bays = int(((space - (parts - 1) * aisle) / parts - POST_M) / BAY_M)
    if bays < 1:
        least = 2 * WALL_M + 2 * aisle + floor + BAY_M + POST_M
        raise ConfigError(
            f"warehouse: size_m[0] must be at least {least:.1f} m for aisles of {aisle:g} m, got {length:g}"
        )
    offsets = _row_offsets(half_y, aisle)
    rows = [side * offset for offset in offsets for side in (1.0, -1.0)]
    if not rows:
        least = 2 * (WALL_M + aisle / 2 + RACK_DEPTH_M)
        raise ConfigError(
            f"warehouse: size_m[1] must be at least {least:.1f} m for aisles of {aisle:g} m, got {width:g}"
        )
    if rack_rows is not None:
        wanted = whole("warehouse: rack_rows", rack_rows, 1, 1000)
        if wanted > len(rows):
            raise ConfigError(f"warehouse: rack_rows must be at most {len(rows)} in this hall, got {wanted}")
        rows = rows[:wanted]
    pitch = aisle + 2 * RACK_DEPTH_M + FLUE_M
    # Row 1 of each side bounds the middle aisle, rows 2 and 3 the next one outwards, and so on.
    aisles = {0.0}
    for k, y in enumerate(rows):
        rank = k // 2 + 1
        if rank > 1:
            aisles.add(float(np.sign(y)) * (rank // 2) * pitch)
    row_length = bays * BAY_M + POST_M
    spans = tuple((start + part * (row_length + aisle), bays) for part in range(parts))
    last = spans[-1][0] + row_length
    return Plan(
        (length, width),
        aisle,
        tuple(rows),
        tuple(sorted(aisles)),
        spans,
        start - aisle / 2,
        last + aisle / 2,
        spans[0][0] + row_length + aisle / 2 if parts == 2 else None,
    )


def _row_offsets(half_y: float, aisle: float) -> list[float]:
    """|y| of the rows on one side: odd ones face the aisle before them, even ones need an aisle behind them."""
    offsets: list[float] = []
    y = aisle / 2 + RACK_DEPTH_M / 2
    while y + RACK_DEPTH_M / 2 <= half_y:
        faces_out = len(offsets) % 2 == 1
        if faces_out and y + RACK_DEPTH_M / 2 + aisle > half_y:
            break
        offsets.append(y)
        y += RACK_DEPTH_M + (aisle if faces_out else FLUE_M)
    return offsets


def warehouse(
    size_m: tuple[float, float] = (40.0, 25.0),
    *,
    rack_rows: int | None = None,
    aisle_m: float = 3.0,
    density: float = 0.7,
    roof: bool = True,
    seed: int = 0,
) -> Layout:
    """Generate a warehouse.

    Args:
        size_m: Length and width outside the walls [m].
        rack_rows: Number of rows of racks; by default as many as fit.
        aisle_m: Width of all aisles [m], 1.5 to 8.
        density: Share of occupied rack and floor places, 0 to 1.
        roof: True for a roof.
        seed: The same seed gives the same layout.
    """
    density = number("warehouse: density", density, 0.0, 1.0)
    if not isinstance(roof, (bool, np.bool_)):
        raise ConfigError(f"warehouse: roof must be true or false, got {roof!r}")
    plan = plan_hall(size_m, rack_rows, aisle_m)
    doors = _door_places(Stream(seed, "world/warehouse/doors").generator(), plan)
    objects = [
        LayoutObject(kind="ground", name="floor", size=(*plan.size, 0.0)),
        *_walls(plan, doors),
        *_racks(Stream(seed, "world/warehouse/racks").generator(), plan, density),
        *_floor_places(Stream(seed, "world/warehouse/floor").generator(), plan, density, [y for y, _ in doors]),
        *_anchors(plan),
    ]
    if roof:
        at = LayoutPose(xyz=(0.0, 0.0, HALL_HEIGHT_M))
        objects.append(LayoutObject(kind="roof", name="roof", pose=at, size=(*plan.size, 0.1)))
    return Layout(
        name="warehouse",
        seed=seed,
        size=plan.size,
        objects=tuple(objects),
        ways=_ways(plan, [y for y, _ in doors]),
        drive=_drive(plan),
        viewpoint=LayoutPose(xyz=(0.0, 0.0, 1.5)),
    )


def _at(kind: str, name: str, x: float, y: float, z: float, yaw: float, size: Any, **params: Any) -> LayoutObject:
    """Return an object with its position and size rounded to millimetres."""
    where = LayoutPose(xyz=(round(float(x), 3), round(float(y), 3), round(float(z), 3)), yaw_deg=yaw)
    metres = tuple(round(float(side), 3) for side in size)
    return LayoutObject(kind=kind, name=name, pose=where, size=metres, params=params)  # type: ignore[arg-type]


def _door_places(rng: np.random.Generator, plan: Plan) -> list[tuple[float, float]]:
    """y and open share of each door in the wall at +x: one per 8 m of wall, at least 1 m from the corners."""
    space = 2 * plan.half[1] - 2.0
    count = min(6, int(space / (DOOR_M[0] + 5.0)) + (space >= DOOR_M[0]))
    if count == 0:
        return []
    pitch = space / count
    slack = max(0.0, (pitch - DOOR_M[0]) / 2 - 1.0)
    y = -space / 2 + (np.arange(count) + 0.5) * pitch + rng.uniform(-slack, slack, count)
    state = rng.choice([0.0, 0.5, 1.0], count)
    return [(round(float(a), 2), float(b)) for a, b in zip(y, state, strict=True)]


def _walls(plan: Plan, doors: list[tuple[float, float]]) -> list[LayoutObject]:
    """Four walls; the one at +x has openings, lintels and rolling doors."""
    length, width = plan.size
    x, y, inner = (length - WALL_M) / 2, (width - WALL_M) / 2, width - 2 * WALL_M
    long_wall = (length, WALL_M, HALL_HEIGHT_M)
    items = [
        _at("wall", "wall-north", 0.0, y, 0.0, 0.0, long_wall),
        _at("wall", "wall-south", 0.0, -y, 0.0, 0.0, long_wall),
        _at("wall", "wall-west", -x, 0.0, 0.0, 90.0, (inner, WALL_M, HALL_HEIGHT_M)),
    ]
    edges = [-inner / 2, *(edge for at, _ in doors for edge in (at - DOOR_M[0] / 2, at + DOOR_M[0] / 2)), inner / 2]
    for k in range(0, len(edges), 2):
        low, high = edges[k], edges[k + 1]
        items.append(
            _at("wall", f"wall-east-{k // 2}", x, (low + high) / 2, 0.0, 90.0, (high - low, WALL_M, HALL_HEIGHT_M))
        )
    for k, (at, state) in enumerate(doors):
        lintel = (DOOR_M[0], WALL_M, HALL_HEIGHT_M - DOOR_M[1])
        items.append(_at("wall", f"lintel-{k}", x, at, DOOR_M[1], 90.0, lintel))
        items.append(_at("door", f"door-{k}", x, at, 0.0, 90.0, (DOOR_M[0], 0.15, DOOR_M[1]), open=state))
    return items


def _racks(rng: np.random.Generator, plan: Plan, density: float) -> list[LayoutObject]:
    """Racks of 1 to 5 m, one height per row, with gaps of whole bays; pillars in the flues; markers at the row ends."""
    items: list[LayoutObject] = []
    heights = rng.uniform(2.0, 5.0, len(plan.rows))
    low_rows = rng.uniform(size=len(plan.rows)) < 0.15
    heights = np.where(low_rows, rng.uniform(1.0, 2.0, len(plan.rows)), heights)
    pitch = rng.uniform(0.9, 1.6, len(plan.rows))
    for row, y in enumerate(plan.rows):
        height = round(float(heights[row]), 2)
        levels = int(max(2, round(height / pitch[row])))
        for part, (start, bays) in enumerate(plan.spans):
            here = rng.uniform(size=bays) >= 0.25 * (1.0 - density)
            if not here.any():
                here[rng.integers(bays)] = True
            edges = np.flatnonzero(np.diff(np.concatenate([[False], here, [False]]).astype(int)))
            for piece, (first, after) in enumerate(edges.reshape(-1, 2)):
                length = (after - first) * BAY_M + POST_M
                # Neighbouring bays share a post: the posts at a gap belong to the adjacent racks.
                x = start + first * BAY_M + length / 2
                name = f"rack-{row}-{part}-{piece}"
                size = (length, RACK_DEPTH_M, height)
                draw = int(rng.integers(2**31))
                items.append(_at("rack", name, x, y, 0, 0, size, levels=levels, fill=density, bay_m=BAY_M, seed=draw))
            for end, yaw in ((edges[0], 180.0), (edges[-1], 0.0)):
                x = start + end * BAY_M + (POST_M + 0.012 if yaw == 0.0 else -0.012)
                z = min(1.3, height - 0.45)
                items.append(_at("marker", f"marker-{row}-{part}-{int(yaw)}", x, y, z, yaw, (0.02, 0.4, 0.4)))
    return [*items, *_pillars(plan)]


def _pillars(plan: Plan) -> list[LayoutObject]:
    """Square pillars in the flues, one or two per part of a pair of rows."""
    offset = plan.aisle / 2 + RACK_DEPTH_M + FLUE_M / 2
    pitch = plan.aisle + 2 * RACK_DEPTH_M + FLUE_M
    flues = []
    for k, y in enumerate(plan.rows):
        if (k // 2) % 2 == 1:  # the second row of a pair, with a flue before it
            flues.append(float(np.sign(y)) * (offset + (k // 2 // 2) * pitch))
    size = (0.25, 0.25, HALL_HEIGHT_M)
    return [
        _at("pillar", f"pillar-{a}-{b}", start + share * bays * BAY_M, y, 0.0, 0.0, size)
        for a, y in enumerate(flues)
        for b, (start, bays) in enumerate(plan.spans)
        for share in ((0.5,) if bays < 6 else (0.25, 0.75))
    ]


def _floor_places(rng: np.random.Generator, plan: Plan, density: float, doors: list[float]) -> list[LayoutObject]:
    """Objects along the wall at +x between the lanes of the doors, and in free strips along the long walls."""
    half_x, half_y = plan.half
    items: list[LayoutObject] = []
    for k, y in enumerate(doors):
        for side in (-1.0, 1.0):
            place = (half_x - 0.3, y + side * (DOOR_M[0] / 2 + 0.25))
            items.append(_at("cone", f"cone-{k}-{int(side)}", *place, 0.0, 0.0, (0.4, 0.4, 0.7)))
    along = np.arange(-half_y + 1.0, half_y - 1.0 + 1e-9, _SPOT_M)
    to_door = np.abs(along[:, None] - np.array(doors)).min(axis=1, initial=np.inf)
    free = along[to_door > DOOR_M[0] / 2 + 0.6 + _SPOT_M / 2]
    spots = [(half_x - 0.75, float(at), 180.0) for at in free]
    chargers = rng.permutation(len(spots))[: min(3, len(spots) // 3)]
    for k in chargers:
        place = (half_x - 0.35, spots[k][1])
        items.append(_at("charging-station", f"charger-{k}", *place, 0.0, 180.0, (0.5, 0.8, 1.1)))
    spots = [spot for k, spot in enumerate(spots) if k not in set(chargers.tolist())]
    spots += _wall_strip(plan)
    taken = rng.uniform(size=len(spots)) < density
    sort = rng.choice(4, len(spots), p=[0.5, 0.15, 0.15, 0.2])
    tall = rng.uniform(0.5, 1.7, len(spots))
    turn = rng.uniform(-4.0, 4.0, len(spots))
    for k, (x, at, yaw) in enumerate(spots):
        if not taken[k]:
            continue
        facing = round(float(yaw + turn[k]), 1)
        if sort[k] == 3:
            carton = (0.6, 0.5, round(float(0.4 + 0.3 * tall[k]), 2))
            items.append(_at("box", f"box-{k}", x, at, 0.0, facing, carton, material="cardboard"))
        else:
            goods = ("cartons", "wrapped", "none")[sort[k]]
            height = PALLET_HEIGHT_M + (0.0 if goods == "none" else tall[k])
            items.append(_at("pallet", f"pallet-{k}", x, at, 0.0, facing, (1.2, 0.8, height), goods=goods))
    return items


def _wall_strip(plan: Plan) -> list[tuple[float, float, float]]:
    """Floor places (x, y, yaw) along the long walls, if there is a strip next to the last row or aisle."""
    half_y = plan.half[1]
    first, last = plan.spans[0][0], plan.spans[-1][0] + plan.spans[-1][1] * BAY_M
    x = np.arange(first + 1.0, last - 1.0, 2.0)
    if plan.middle is not None:
        x = x[np.abs(x - plan.middle) > plan.aisle / 2 + 0.8]
    spots = []
    for side in (-1.0, 1.0):
        rows = [side * y + RACK_DEPTH_M / 2 for y in plan.rows if side * y > 0]
        lanes = [side * y + plan.aisle / 2 for y in plan.aisles if side * y >= 0]
        if half_y - max([*rows, *lanes]) >= 1.2:
            spots += [(float(at), side * (half_y - 0.6), 0.0) for at in x]
    return spots


def _anchors(plan: Plan) -> list[LayoutObject]:
    """Radio anchors on the walls above the racks: four in the corners, two in the middle of the long walls."""
    x, y = plan.half[0] - 0.06, plan.half[1] - 0.06
    places = [(a, b) for b in (-y, y) for a in (-x, 0.0, x)]
    return [_at("anchor", f"anchor-{k}", a, b, 5.3, 0.0, (0.1, 0.1, 0.16)) for k, (a, b) in enumerate(places)]


def _ways(plan: Plan, doors: list[float]) -> tuple[Passage, ...]:
    low, high = plan.aisles[0], plan.aisles[-1]
    ways = [
        Passage(name=f"aisle-{k}", points=((plan.west, y), (plan.east, y)), width_m=plan.aisle)
        for k, y in enumerate(plan.aisles)
    ]
    if high > low:
        across = {"west": plan.west, "middle": plan.middle, "east": plan.east}
        ways += [
            Passage(name=f"cross-aisle-{name}", points=((x, low), (x, high)), width_m=plan.aisle)
            for name, x in across.items()
            if x is not None
        ]
    ways += [
        Passage(name=f"door-{k}", points=((plan.east, y), (plan.half[0] - 1.0, y)), width_m=DOOR_M[0])
        for k, y in enumerate(doors)
    ]
    return tuple(ways)


def _drive(plan: Plan) -> PlannedDrive:
    """Drive through all aisles in alternating directions; a single aisle from end to end."""
    corners = []
    for k, y in enumerate(plan.aisles):
        ends = [(plan.west, y), (plan.east, y)]
        corners += ends if k % 2 == 0 else ends[::-1]
    line = rounded(corners, min(1.2, 0.4 * plan.aisle))
    return PlannedDrive(
        points=tuple((round(float(x), 3), round(float(y), 3)) for x, y in line), speed_m_s=1.5, height_m=1.5
    )
