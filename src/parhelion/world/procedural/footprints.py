"""Geometry in the plan: distances to lines, and footprints of objects that must not overlap.

All lengths are in metres, angles in radians. Functions work on arrays of points or footprints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.arrays import Table
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.world.procedural import kinds
from parhelion.world.procedural.kinds import (
    KINDS,
    ContainersParams,
    DoorParams,
    PillarParams,
    PlantedTreeParams,
    TreeParams,
)
from parhelion.world.procedural.layout import Layout, LayoutObject

# ---- pieces ---------------------------------------------------------------------------------------------------------
# Footprints of objects with several pieces: fences, piles, bridges, quays, outlines of buildings.


STRIP_M = 0.25
"""Approximate width of the strips that fill an outline [m]."""
_STRIPS_AT_ONCE = 256
BRIDGE_ROAD_M = 1.13
"""Height of the road of a bridge above its crown [m]."""
BRIDGE_PIER_M = 3.0
BRIDGE_FOOT_M = 3.0
"""Depth below the water at which an arch begins [m]."""
_FENCE_M = 0.06
_BOLLARD_M = 0.24
_CRANE_HALF_M = (4.3, 4.8)
"""Half the extent of a crane's portal along and across its jib [m]."""


class Piece(NamedTuple):
    """A rectangle or a disc in the frame of the object."""

    x: float
    y: float
    half_length: float
    """Half the length, or the radius."""
    half_width: float
    turn: float
    """Direction of the length [rad]."""
    disc: bool
    low: float
    high: float


def fence_lines(size: tuple[float, float, float], params: kinds.FenceParams) -> tuple[kinds.Line, ...]:
    """Starts and ends of the lines of a fence in its frame."""
    return params.lines or (((-size[0] / 2, 0.0), (size[0] / 2, 0.0)),)


def pieces_of(item: LayoutObject) -> list[Piece] | None:
    """Return the pieces of an object's footprint, or None if it is a single rectangle or disc."""
    params, (length, width, height) = item.params, item.size
    if isinstance(params, kinds.FenceParams):
        return [_wall(line, params.base_m, params.base_m + height) for line in fence_lines(item.size, params)]
    if isinstance(params, kinds.FootprintParams):
        return [
            Piece(x, y, half, wide, turn, False, 0.0, height)
            for x, y, half, wide, turn in outline_strips(params).tolist()
        ]
    if isinstance(params, kinds.BasinParams):
        return _quays(length, width, height, params)
    if isinstance(params, kinds.BollardsParams):
        return [Piece(x, y, _BOLLARD_M, _BOLLARD_M, 0.0, True, 0.0, height) for x, y in params.points]
    if isinstance(params, kinds.PilesParams):
        radius = params.radius_m
        return [Piece(x, y, radius, radius, 0.0, True, z, z + params.length_m) for x, y, z in params.points]
    if isinstance(params, kinds.BridgeParams):
        return _bridge(length, width, params)
    if isinstance(params, kinds.CraneParams):
        return [Piece(0.0, 0.0, *_CRANE_HALF_M, 0.0, False, 0.0, min(9.0, height))]
    return None


def _wall(line: kinds.Line, low: float, high: float) -> Piece:
    (x0, y0), (x1, y1) = line
    length = math.hypot(x1 - x0, y1 - y0)
    return Piece((x0 + x1) / 2, (y0 + y1) / 2, length / 2, _FENCE_M / 2, math.atan2(y1 - y0, x1 - x0), False, low, high)


def _quays(length: float, width: float, height: float, params: kinds.BasinParams) -> list[Piece]:
    """Land on the four sides of the water."""
    x, y = length / 2, width / 2
    across = (params.land_m / 2, y + params.land_m / 2)
    along = (params.ends_m / 2, x + params.ends_m / 2)
    low = -params.depth_m
    return [
        *(Piece(0.0, s * across[1], x + params.ends_m, across[0], 0.0, False, low, height) for s in (1.0, -1.0)),
        *(Piece(s * along[1], 0.0, along[0], y, 0.0, False, low, height) for s in (1.0, -1.0)),
    ]


def arch_height(y: float, params: kinds.BridgeParams) -> float:
    """Clearance [m] above the water under a bridge, `y` [m] from its middle."""
    half = params.span_m / 2 - 1.0
    return (params.crown_m + BRIDGE_FOOT_M) * math.sqrt(max(0.0, 1.0 - (y / half) ** 2)) - BRIDGE_FOOT_M


def _bridge(deck_width: float, whole: float, params: kinds.BridgeParams) -> list[Piece]:
    """Arch in steps, its feet in the water, and the ramps on land."""
    half, road = params.span_m / 2 - 1.0, params.crown_m + BRIDGE_ROAD_M
    steps = [share * half for share in (0.0, 0.4, 0.6, 0.8, 0.9)]
    pieces = []
    for inner, outer in zip(steps, [*steps[1:], params.span_m / 2], strict=True):
        low = arch_height(outer, params) if outer < half else -BRIDGE_FOOT_M
        for side in (1.0, -1.0):
            middle = side * (inner + outer) / 2
            pieces.append(Piece(0.0, middle, deck_width / 2, (outer - inner) / 2, 0.0, False, low, road))
    ends = (params.span_m / 2 + whole / 2) / 2
    reach = (whole / 2 - params.span_m / 2) / 2
    return [
        *pieces,
        *(Piece(0.0, s * ends, deck_width / 2, reach, 0.0, False, params.quay_m, road) for s in (1.0, -1.0)),
    ]


@lru_cache(maxsize=4096)
def outline_strips(params: kinds.FootprintParams) -> Floats:
    """Rectangles (n, 5) that fill an outline: x, y, half length, half width, direction [rad].

    They are parallel to the longest side and end where the outline is narrowest within the strip, so that a slanted
    wall recedes by at most the width of the strip times its slope; a rectangle is filled exactly.
    """
    rings = [np.array(ring, dtype=np.float64) for ring in (params.outline, *params.holes)]
    sides = np.roll(rings[0], -1, axis=0) - rings[0]
    longest = sides[np.argmax(np.hypot(sides[:, 0], sides[:, 1]))]
    turn = float(np.arctan2(longest[1], longest[0]))
    cos, sin = np.cos(turn), np.sin(turn)
    start = np.concatenate([ring @ np.array([[cos, -sin], [sin, cos]]) for ring in rings])
    end = np.concatenate([np.roll(ring @ np.array([[cos, -sin], [sin, cos]]), -1, axis=0) for ring in rings])
    low, high = start[:, 1].min(), start[:, 1].max()
    count = max(1, math.ceil((high - low) / STRIP_M - 1e-9))
    width = (high - low) / count
    middle = low + (np.arange(count) + 0.5) * width
    rows = []
    for k in range(count):
        if k % _STRIPS_AT_ONCE == 0:
            some = middle[k : k + _STRIPS_AT_ONCE]
            at = [_crossings(start, end, some + shift * width) for shift in (-0.499, 0.0, 0.499)]
        spans = [found[k % _STRIPS_AT_ONCE] for found in at]
        spans = [span[np.isfinite(span)] for span in spans]
        inner = spans[1].reshape(-1, 2)
        if len(spans[0]) == len(spans[1]) == len(spans[2]):
            edges = np.stack([span.reshape(-1, 2) for span in spans])
            inner = np.stack([edges[..., 0].max(axis=0), edges[..., 1].min(axis=0)], axis=1)
        inner = inner[inner[:, 1] - inner[:, 0] > 1e-6]
        centre = inner.mean(axis=1)
        rows.append(
            np.column_stack(
                [
                    cos * centre - sin * middle[k],
                    sin * centre + cos * middle[k],
                    (inner[:, 1] - inner[:, 0]) / 2,
                    np.full(len(inner), width / 2),
                    np.full(len(inner), turn),
                ]
            )
        )
    return np.concatenate(rows)


def _crossings(start: Floats, end: Floats, level: Floats) -> NDArray[np.float64]:
    """Sorted x at which edges (e, 2) cross levels of y (k,); NaN after the last, shape (k, e)."""
    below = start[:, 1] <= level[:, None]
    crosses = below != (end[:, 1] <= level[:, None])
    rise = np.where(end[:, 1] == start[:, 1], 1.0, end[:, 1] - start[:, 1])
    x = start[:, 0] + (level[:, None] - start[:, 1]) / rise * (end[:, 0] - start[:, 0])
    return np.sort(np.where(crosses, x, np.nan), axis=1)


# ---- footprints -----------------------------------------------------------------------------------------------------


_LARGEST_TABLE = 2_000_000
"""Number of points times segments of a line per chunk; limits the memory."""
MOST_SAMPLES = 1_000_000
"""Largest number of points along one line, for example a route or a track."""
_MOST_PAIRS = 500_000_000
_MOST_NEAR_PAIRS = 1_000_000
"""Largest number of pairs of objects that are compared, and that overlap. Valid layouts have no overlaps."""
ROUND_KINDS = ("cone", "tree", "rock", "bush")


def to_line(points: ArrayLike, line: ArrayLike) -> tuple[Floats, Floats]:
    """Distance of each point (n, 2) from a polyline (k, 2), and the distance along the line of its nearest point."""
    at, corners = np.asarray(points, dtype=np.float64), np.asarray(line, dtype=np.float64)
    start, step = corners[:-1], np.diff(corners, axis=0)
    squared = np.maximum(np.sum(step**2, axis=1), 1e-300)
    length = np.sqrt(squared)
    before = np.cumsum(length) - length
    result = np.empty((2, len(at)))
    block = max(1, _LARGEST_TABLE // len(start))
    for first in range(0, len(at), block):
        away = at[first : first + block, None, :] - start
        share = np.clip(np.sum(away * step, axis=2) / squared, 0.0, 1.0)
        distance = np.hypot(*np.moveaxis(away - share[..., None] * step, 2, 0))
        nearest = np.argmin(distance, axis=1)
        rows = np.arange(len(nearest))
        result[0, first : first + block] = distance[rows, nearest]
        result[1, first : first + block] = before[nearest] + share[rows, nearest] * length[nearest]
    return result[0], result[1]


def beside_line(points: Floats, line: ArrayLike, within_m: float) -> NDArray[np.intp]:
    """Rows of the points (n, 2) that may lie within a distance of a line; includes some that are slightly outside."""
    from scipy.spatial import cKDTree

    samples = along_line(line, within_m)
    # Such a point is within the distance plus half a step of one of the samples.
    nearest, _ = cKDTree(samples).query(points, distance_upper_bound=1.5 * within_m + 1e-9)
    return np.flatnonzero(np.isfinite(nearest))


def along_line(line: ArrayLike, step_m: float) -> Floats:
    """Points (n, 2) at most `step_m` apart along a line (k, 2), including its corners."""
    corners = np.asarray(line, dtype=np.float64)
    lengths = np.hypot(*np.diff(corners, axis=0).T)
    if lengths.sum() > MOST_SAMPLES * step_m:
        raise ConfigError(f"a line of {lengths.sum():.0f} m is too long; the limit is {MOST_SAMPLES * step_m:.0f} m")
    pieces = np.maximum(1, np.ceil(lengths / step_m)).astype(int)
    row = np.repeat(np.arange(len(pieces)), pieces)
    share = (np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)) / pieces[row]
    inner = corners[row] + share[:, None] * (corners[row + 1] - corners[row])
    return np.vstack([inner, corners[-1:]])


@dataclass(frozen=True, eq=False)
class Footprints(Table):
    """Upright rectangles and discs, one row each."""

    row: NDArray[np.intp]
    """Row of the layout's list, shape (n,)."""
    middle: Floats
    """Middles, shape (n, 2)."""
    half: Floats
    """Half length and width of rectangles, radius twice for discs, shape (n, 2)."""
    axis: Floats
    """Direction of the length as (cos, sin), shape (n, 2)."""
    disc: NDArray[np.bool_]
    low: Floats
    """Height of the base, and `high` of the top, shape (n,)."""
    high: Floats

    @property
    def reach(self) -> Floats:
        """Half extents along x and y of the plan, shape (n, 2)."""
        cos, sin = np.abs(self.axis).T
        turned = np.stack(
            [cos * self.half[:, 0] + sin * self.half[:, 1], sin * self.half[:, 0] + cos * self.half[:, 1]]
        )
        return np.where(self.disc[:, None], self.half, turned.T)

    def nearest(self, points: Floats) -> tuple[Floats, NDArray[np.intp]]:
        """Distance of each point (m, 2) from the nearest footprint, and its row here; infinite without footprints."""
        least, row = np.full(len(points), np.inf), np.zeros(len(points), np.intp)
        block = max(1, _LARGEST_TABLE // max(len(self), 1))
        for start in range(0, len(points) if len(self) else 0, block):
            away = self.distance(points[start : start + block])
            row[start : start + block] = np.argmin(away, axis=1)
            least[start : start + block] = away.min(axis=1)
        return least, row

    def distance(self, points: Floats) -> Floats:
        """Distance of each point (m, 2) from each footprint (m, n), negative inside."""
        away = points[:, None, :] - self.middle
        cos, sin = self.axis.T
        along = np.abs(away[..., 0] * cos + away[..., 1] * sin) - self.half[:, 0]
        across = np.abs(away[..., 1] * cos - away[..., 0] * sin) - self.half[:, 1]
        outside = np.hypot(np.maximum(along, 0.0), np.maximum(across, 0.0))
        square = outside + np.minimum(np.maximum(along, across), 0.0)
        return np.where(self.disc, np.hypot(away[..., 0], away[..., 1]) - self.half[:, 0], square)


def _shape(item: LayoutObject) -> tuple[float, float, bool]:
    params = item.params
    if isinstance(params, (TreeParams, PlantedTreeParams)):
        return params.trunk_radius_m, params.trunk_radius_m, True
    length, width, _ = item.size
    foot = KINDS[item.kind].foot_m
    if foot is not None:
        return foot, foot, True
    if item.kind in ROUND_KINDS or (isinstance(params, PillarParams) and params.round):
        radius = max(length, width) / 2
        return radius, radius, True
    return length / 2, width / 2, False


def _lift(item: LayoutObject) -> float:
    """Height [m] of the lower edge of an object above its pose."""
    if isinstance(item.params, DoorParams):
        return item.params.free_height(item.size[2])
    return item.params.base_m if isinstance(item.params, ContainersParams) else 0.0


def footprints(layout: Layout) -> Footprints:
    """Return the footprints of all solid objects, sorted by row; some objects have several.

    The footprint of a tree is its trunk, that of a lamp or a sign its pole, that of a door the part that it closes.
    """
    solid = {k: pieces_of(item) for k, item in enumerate(layout.objects) if KINDS[item.kind].solid}
    pieces = [(k, part) for k, parts in solid.items() for part in parts or ()]
    rows = [k for k, parts in solid.items() if parts is None]
    items = [layout.objects[k] for k in rows]
    shapes = np.array([_shape(item) for item in items], dtype=np.float64).reshape(-1, 3)
    xyz = np.array([item.pose.xyz for item in items], dtype=np.float64).reshape(-1, 3)
    yaw = np.radians([item.pose.yaw_deg for item in items])
    height = np.array([item.size[2] for item in items], dtype=np.float64)
    lifted = np.array([_lift(item) for item in items])
    tops = [0.0 if isinstance(item.params, DoorParams) else lift for item, lift in zip(items, lifted, strict=True)]
    whole = Footprints(
        np.array(rows, dtype=np.intp),
        xyz[:, :2],
        shapes[:, :2],
        np.stack([np.cos(yaw), np.sin(yaw)], axis=1),
        shapes[:, 2] > 0,
        xyz[:, 2] + lifted,
        xyz[:, 2] + height + np.array(tops),
    )
    return _with_pieces(layout, whole, pieces) if pieces else whole


def _with_pieces(layout: Layout, whole: Footprints, pieces: list[tuple[int, Piece]]) -> Footprints:
    """Join the footprints of single and of composite objects, sorted by row."""
    row = np.array([k for k, _ in pieces], dtype=np.intp)
    values = np.array([piece for _, piece in pieces], dtype=np.float64)
    xyz = np.array([layout.objects[k].pose.xyz for k in row])
    yaw = np.radians([layout.objects[k].pose.yaw_deg for k in row])
    cos, sin = np.cos(yaw), np.sin(yaw)
    x, y = values[:, 0], values[:, 1]
    turn = yaw + values[:, 4]
    more = Footprints(
        row,
        xyz[:, :2] + np.stack([cos * x - sin * y, sin * x + cos * y], axis=1),
        values[:, 2:4],
        np.stack([np.cos(turn), np.sin(turn)], axis=1),
        values[:, 5] > 0,
        xyz[:, 2] + values[:, 6],
        xyz[:, 2] + values[:, 7],
    )
    both = Footprints.joined([whole, more])
    return both.rows(np.argsort(both.row, kind="stable"))


def overlap_depth(prints: Footprints, first: NDArray[np.intp], second: NDArray[np.intp]) -> Floats:
    """Overlap depth of pairs of footprints in the plan, 0 or less if they are disjoint, shape (k,).

    Rectangles by the separating axis theorem (Gottschalk, Lin and Manocha 1996): two convex figures are disjoint if
    their projections on the direction of one of their sides are; the depth is the smallest overlap of the projections.
    """
    a, b = prints.rows(first), prints.rows(second)
    depth = np.full(len(first), np.inf)
    away = b.middle - a.middle
    for one in (a, b):
        for direction in (one.axis, one.axis[:, ::-1] * [-1.0, 1.0]):
            apart = np.abs(np.sum(away * direction, axis=1))
            depth = np.minimum(depth, _extent(a, direction) + _extent(b, direction) - apart)
    both = a.disc & b.disc
    depth = np.where(both, a.half[:, 0] + b.half[:, 0] - np.hypot(away[:, 0], away[:, 1]), depth)
    for disc, other, mixed in ((a, b, a.disc & ~b.disc), (b, a, b.disc & ~a.disc)):
        rows = np.flatnonzero(mixed)
        if len(rows):
            depth[rows] = disc.half[rows, 0] - _own_distance(other.rows(rows), disc.middle[rows])
    return depth


def interpenetrations(prints: Footprints, least_m: float) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Pairs of footprints that overlap by more than `least_m`, in the plan and in height, and the depth [m]."""
    first, second = near_pairs(prints)
    upright = np.minimum(prints.high[first], prints.high[second]) - np.maximum(prints.low[first], prints.low[second])
    depth = np.minimum(overlap_depth(prints, first, second), upright)
    wrong = depth > least_m
    return first[wrong], second[wrong], depth[wrong]


def _extent(prints: Footprints, direction: Floats) -> Floats:
    """Half length of the projection of each footprint on a direction (n, 2)."""
    across = prints.axis[:, ::-1] * [-1.0, 1.0]
    along = np.abs(np.sum(prints.axis * direction, axis=1)) * prints.half[:, 0]
    return np.where(
        prints.disc, prints.half[:, 0], along + np.abs(np.sum(across * direction, axis=1)) * prints.half[:, 1]
    )


def _own_distance(prints: Footprints, points: Floats) -> Floats:
    """Distance of the n-th point from the n-th rectangle, negative inside, shape (n,)."""
    away = points - prints.middle
    along = np.abs(np.sum(away * prints.axis, axis=1)) - prints.half[:, 0]
    across = np.abs(np.sum(away * prints.axis[:, ::-1] * [-1.0, 1.0], axis=1)) - prints.half[:, 1]
    return np.hypot(np.maximum(along, 0.0), np.maximum(across, 0.0)) + np.minimum(np.maximum(along, across), 0.0)


def near_pairs(prints: Footprints) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs whose bounding boxes touch (in the plan and in height): sorted by the smallest x, then swept."""
    reach = prints.reach
    left, right = prints.middle[:, 0] - reach[:, 0], prints.middle[:, 0] + reach[:, 0]
    order = np.argsort(left, kind="stable")
    last = np.searchsorted(left[order], right[order], side="right")
    count = np.maximum(last - np.arange(len(order)) - 1, 0)
    total = np.concatenate([[0], np.cumsum(count)])
    if total[-1] > _MOST_PAIRS:
        raise ConfigError(f"layout: {total[-1]} pairs of objects are close to each other; the limit is {_MOST_PAIRS}")
    pairs: list[NDArray[np.intp]] = []
    start = found = 0
    while start < len(order):
        stop = max(start + 1, int(np.searchsorted(total, total[start] + _LARGEST_TABLE, side="right")) - 1)
        first = np.repeat(np.arange(start, stop), count[start:stop])
        second = first + 1 + np.arange(len(first)) - np.repeat(total[start:stop] - total[start], count[start:stop])
        a, b = order[first], order[second]
        others = prints.row[a] != prints.row[b]  # pieces of one object may overlap
        a, b = a[others], b[others]
        close = np.abs(prints.middle[a, 1] - prints.middle[b, 1]) <= reach[a, 1] + reach[b, 1]
        close &= (prints.low[a] < prints.high[b]) & (prints.low[b] < prints.high[a])
        pairs.append(np.stack([a[close], b[close]]))
        found += pairs[-1].shape[1]
        if found > _MOST_NEAR_PAIRS:
            raise ConfigError(f"layout: more than {_MOST_NEAR_PAIRS} pairs of objects touch or overlap")
        start = stop
    a, b = np.concatenate(pairs, axis=1) if pairs else np.zeros((2, 0), np.intp)
    return np.minimum(a, b), np.maximum(a, b)
