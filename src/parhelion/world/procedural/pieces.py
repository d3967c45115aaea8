"""Footprints of things that take up room in several places: fences, piles, bridges, quays, outlines of buildings."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.world.procedural import street, water
from parhelion.world.procedural.layout import LayoutObject

STRIP_M = 0.25
"""Outlines are taken as strips of about this width."""
_STRIPS_AT_ONCE = 256
BRIDGE_ROAD_M = 1.13
"""Height of a bridge's road over its crown."""
BRIDGE_PIER_M = 3.0
BRIDGE_FOOT_M = 3.0
"""How deep under the water an arch begins."""
_FENCE_M = 0.06
_BOLLARD_M = 0.24
_CRANE_HALF_M = (4.3, 4.8)
"""Half of what a crane's portal takes up along and across its jib."""
_PIECE_PARAMS = (
    street.FenceParams,
    street.FootprintParams,
    water.BasinParams,
    water.BollardsParams,
    water.PilesParams,
    water.BridgeParams,
    water.CraneParams,
)


class Piece(NamedTuple):
    """A rectangle or a disc in the thing's own frame."""

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


def has_pieces(thing: LayoutObject) -> bool:
    """Whether a thing's footprint is made of pieces."""
    return isinstance(thing.params, _PIECE_PARAMS)


def pieces_of(thing: LayoutObject) -> list[Piece]:
    """The pieces of a thing's footprint; none for one that is taken as a whole."""
    params, (length, width, height) = thing.params, thing.size
    if isinstance(params, street.FenceParams):
        lines = params.lines or (((-length / 2, 0.0), (length / 2, 0.0)),)
        return [_wall(line, params.base_m, params.base_m + height) for line in lines]
    if isinstance(params, street.FootprintParams):
        return [
            Piece(x, y, half, wide, turn, False, 0.0, height)
            for x, y, half, wide, turn in outline_strips(params).tolist()
        ]
    if isinstance(params, water.BasinParams):
        return _quays(length, width, height, params)
    if isinstance(params, water.BollardsParams):
        return [Piece(x, y, _BOLLARD_M, _BOLLARD_M, 0.0, True, 0.0, height) for x, y in params.points]
    if isinstance(params, water.PilesParams):
        radius = params.radius_m
        return [Piece(x, y, radius, radius, 0.0, True, z, z + params.length_m) for x, y, z in params.points]
    if isinstance(params, water.BridgeParams):
        return _bridge(length, width, params)
    if isinstance(params, water.CraneParams):
        return [Piece(0.0, 0.0, *_CRANE_HALF_M, 0.0, False, 0.0, min(9.0, height))]
    return []


def _wall(line: street.Line, low: float, high: float) -> Piece:
    (x0, y0), (x1, y1) = line
    length = math.hypot(x1 - x0, y1 - y0)
    return Piece((x0 + x1) / 2, (y0 + y1) / 2, length / 2, _FENCE_M / 2, math.atan2(y1 - y0, x1 - x0), False, low, high)


def _quays(length: float, width: float, height: float, params: water.BasinParams) -> list[Piece]:
    """The land on the four sides of the water."""
    x, y = length / 2, width / 2
    across = (params.land_m / 2, y + params.land_m / 2)
    along = (params.ends_m / 2, x + params.ends_m / 2)
    low = -params.depth_m
    return [
        *(Piece(0.0, s * across[1], x + params.ends_m, across[0], 0.0, False, low, height) for s in (1.0, -1.0)),
        *(Piece(s * along[1], 0.0, along[0], y, 0.0, False, low, height) for s in (1.0, -1.0)),
    ]


def arch_height(y: float, params: water.BridgeParams) -> float:
    """Free height [m] over the water under a bridge, `y` [m] from its middle."""
    half = params.span_m / 2 - 1.0
    return (params.crown_m + BRIDGE_FOOT_M) * math.sqrt(max(0.0, 1.0 - (y / half) ** 2)) - BRIDGE_FOOT_M


def _bridge(deck_width: float, whole: float, params: water.BridgeParams) -> list[Piece]:
    """The arch in steps, its feet in the water, and the ramps on land."""
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
def outline_strips(params: street.FootprintParams) -> Floats:
    """Rectangles (n, 5) that fill an outline: x, y, half length, half width, turn [rad].

    They lie along the longest side, and end where the outline is narrowest within each of them, so that a slanted
    wall is cut back by at most the strip's width times its slope; a rectangle is filled exactly.
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
    """Where edges (e, 2) cross levels of y (k,), rising along each row; NaN after the last, shape (k, e)."""
    below = start[:, 1] <= level[:, None]
    crosses = below != (end[:, 1] <= level[:, None])
    rise = np.where(end[:, 1] == start[:, 1], 1.0, end[:, 1] - start[:, 1])
    x = start[:, 0] + (level[:, None] - start[:, 1]) / rise * (end[:, 0] - start[:, 0])
    return np.sort(np.where(crosses, x, np.nan), axis=1)
