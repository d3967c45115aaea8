"""Ground of the city: one continuous carriageway with kerbed blocks on top, markings, and surrounding terrain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.world.kit.instances import boxes, copies, quads
from parhelion.world.kit.props import KitPart
from parhelion.world.mesh import Mesh
from parhelion.world.shapes import circle, loft, plane, triangulated

PITCH = 80.0
"""Distance between the middles of neighbouring streets [m]."""
ROAD_HALF = 5.75
"""Distance from the middle of a street to the kerb [m]: a lane of 3.5 m and a parking strip of 2.25 m."""
LANE_MIDDLE = 1.75
PARKING_MIDDLE = 4.65
KERB_HEIGHT = 0.12
BLOCK_HALF = PITCH / 2 - ROAD_HALF
LOT_HALF = 30.0
"""Half the side of the square inside the sidewalks [m], which contains the buildings."""
MARK_HEIGHT = 0.004
"""Thickness of the paint [m]."""
TERRAIN_WIDTH = 36.0


def street_lines(blocks: int) -> Floats:
    """Positions of the middles of streets [m], the same along x and y."""
    return np.asarray((np.arange(blocks + 1) - blocks // 2) * PITCH, dtype=np.float64)


def block_middles(blocks: int) -> Floats:
    """Middles (blocks^2, 2) of the blocks [m], the nearest to the main crossing first."""
    line = street_lines(blocks)[:-1] + PITCH / 2
    x, y = (grid.ravel() for grid in np.meshgrid(line, line))
    order = np.lexsort((y, x, np.round(np.hypot(x, y), 6)))
    return np.column_stack([x, y])[order]


def ground(rng: np.random.Generator, blocks: int, green: NDArray[np.bool_]) -> list[KitPart]:
    """Carriageway, kerbs, sidewalks, lots and terrain; `green` (blocks^2,) is the mask of lots with grass."""
    edge = blocks * PITCH / 2 + ROAD_HALF
    middles = block_middles(blocks)
    at = np.column_stack([middles, np.zeros(len(middles))])
    outer = _rounded_square(BLOCK_HALF, 4.0)
    inner = _rounded_square(BLOCK_HALF - 0.15, 3.85)
    lot = _rounded_square(LOT_HALF, 0.6)
    kerb = loft(np.stack([_level(outer, -0.02), _level(outer, KERB_HEIGHT), _level(inner, KERB_HEIGHT)]), caps=False)
    walk = loft(np.stack([_level(inner, KERB_HEIGHT), _level(lot, KERB_HEIGHT)]), caps=False)
    inside = Mesh(_level(lot, KERB_HEIGHT), triangulated(lot))
    parts = [
        KitPart("carriageway", plane(2 * edge, 2 * edge, 20 * blocks), "asphalt", "road"),
        KitPart("kerbs", copies(kerb, at), "granite", "sidewalk"),
        KitPart("sidewalks", copies(walk, at), "concrete", "sidewalk"),
        KitPart("terrain", _terrain(rng, edge), "grass", "terrain"),
    ]
    for name, which, material, label in (("yards", ~green, "gravel", "terrain"), ("lawns", green, "grass", "terrain")):
        if which.any():
            parts.append(KitPart(name, copies(inside, at[which]), material, label))
    return parts


def _rounded_square(half: float, radius: float) -> Floats:
    """Outline (28, 2) of a square with rounded corners, counter-clockwise."""
    arc = np.concatenate([np.linspace(0, np.pi / 2, 7) + k * np.pi / 2 for k in range(4)])
    corner = np.repeat(np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]], dtype=np.float64), 7, axis=0)
    return corner * (half - radius) + radius * np.column_stack([np.cos(arc), np.sin(arc)])


def _level(outline: Floats, z: float) -> Floats:
    return np.column_stack([outline, np.full(len(outline), z)])


def _terrain(rng: np.random.Generator, edge: float) -> Mesh:
    """Belt of gentle hills around the streets, from level at `edge` to a few metres high."""
    per_side = 40
    side = np.linspace(-1, 1, per_side, endpoint=False)
    square = np.concatenate(
        [
            np.column_stack([np.ones(per_side), side]),
            np.column_stack([-side, np.ones(per_side)]),
            np.column_stack([-np.ones(per_side), -side]),
            np.column_stack([side, -np.ones(per_side)]),
        ]
    )
    steps = np.linspace(0.0, 1.0, 7)
    turn = np.arctan2(square[:, 1], square[:, 0])
    waves = rng.integers(2, 13, 6)
    hills = 1.0 + 0.35 * np.sum(
        rng.uniform(0.2, 1.0, (6, 1)) * np.cos(waves[:, None] * turn + rng.uniform(0, 2 * np.pi, (6, 1))), axis=0
    )
    rings = np.empty((7, len(square), 3))
    rings[..., :2] = square[None] * (edge + TERRAIN_WIDTH * steps)[:, None, None]
    rings[..., 2] = 3.5 * (steps**1.5)[:, None] * np.maximum(0.15, hills)
    # The loft goes outwards, so its faces point down; they are reversed to face up.
    flat = loft(rings, caps=False)
    return Mesh(flat.vertices, flat.faces[:, ::-1])


def markings(blocks: int) -> KitPart:
    """Centre dashes, edge lines of the parking strips, zebra crossings and stop lines, as thin paint."""
    lines = street_lines(blocks)
    one_segment = np.concatenate([_segment_marks(), _crossing_marks()])
    across, start = (grid.ravel() for grid in np.meshgrid(lines, lines[:-1]))
    shifts = np.column_stack([start, across, start, across])
    rectangles = (shifts[:, None, :] + one_segment).reshape(-1, 4)
    # Streets along y are those along x rotated by a right angle, which keeps traffic on the right.
    turned = rectangles[:, [1, 0, 3, 2]] * np.array([-1.0, 1.0, -1.0, 1.0])
    both = np.concatenate([rectangles, turned])
    x0, y0, x1, y1 = (both[:, k] for k in range(4))
    x0, x1, y0, y1 = np.minimum(x0, x1), np.maximum(x0, x1), np.minimum(y0, y1), np.maximum(y0, y1)
    z = np.full(len(both), MARK_HEIGHT)
    corners = np.stack([np.stack([x, y, z], axis=1) for x, y in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))], axis=1)
    return KitPart("markings", quads(corners), "road-paint", "lane-marking")


def _segment_marks() -> Floats:
    """Rectangles x0, y0, x1, y1 on the street between the crossings at x = 0 and x = PITCH."""
    dash = np.arange(13.0, PITCH - 15.0, 6.0)
    zeros = np.zeros_like(dash)
    centre = np.column_stack([dash, zeros - 0.06, dash + 3.0, zeros + 0.06])
    bays = np.arange(14.0, PITCH - 13.9, 6.0)
    ones = np.ones_like(bays)
    ticks = [np.column_stack([bays - 0.05, sign * 3.6 * ones, bays + 0.05, sign * 5.5 * ones]) for sign in (-1, 1)]
    edges = np.array([[14.0, sign * 3.5, PITCH - 14.0, sign * 3.6] for sign in (-1, 1)])
    return np.concatenate([centre, *ticks, edges])


def _crossing_marks() -> Floats:
    """Zebra bars and stop lines at both ends of the same street."""
    bars = np.arange(-4.75, 5.0, 1.0)
    pieces = []
    for near, far, stop, side in ((7.0, 10.0, 11.0, 1.0), (PITCH - 10.0, PITCH - 7.0, PITCH - 11.5, -1.0)):
        ones = np.ones_like(bars)
        pieces.append(np.column_stack([near * ones, bars - 0.25, far * ones, bars + 0.25]))
        # With right-hand traffic, vehicles that wait at the start of the segment are on its left, at +y.
        low, high = sorted((side * 0.3, side * 3.3))
        pieces.append(np.array([[stop, low, stop + 0.5, high]]))
    return np.concatenate(pieces)


def manholes(rng: np.random.Generator, blocks: int) -> KitPart:
    """Manhole covers in the carriageway of every street segment, 3 mm above it."""
    lines = street_lines(blocks)
    across, start = (grid.ravel() for grid in np.meshgrid(lines, lines[:-1]))
    along = start + rng.uniform(16.0, 64.0, len(start))
    offset = across + rng.choice([-1.75, 1.75], len(start))
    at = np.concatenate([np.column_stack([along, offset]), np.column_stack([offset, along])])
    disc = circle(0.31, 20)
    cover = Mesh(_level(disc, 0.003), triangulated(disc))
    return KitPart("manholes", copies(cover, np.column_stack([at, np.zeros(len(at))])), "steel", "road")


def tree_pits(positions: Floats, width: float = 1.2) -> KitPart:
    """Squares of soil `width` [m] wide around street trees at `positions` (k, 2) [m], half their 30 mm above z = 0."""
    at = np.column_stack([positions, np.zeros(len(positions))])
    return KitPart("tree-pits", boxes(at, (width, width, 0.03)), "soil", "terrain")
