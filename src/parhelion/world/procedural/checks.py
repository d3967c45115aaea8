"""Is a layout sound? Every check gives sentences, one for each thing that is wrong, and none where all is well."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.world.procedural.footprints import Footprints, along_line, footprints, near_pairs, overlap_depth, to_line
from parhelion.world.procedural.kinds import KINDS
from parhelion.world.procedural.layout import Layout, Route
from parhelion.world.procedural.relief import bridge_height, ground_height, in_the_way, on_water

TOUCH_M = 1e-3
"""Things may touch: up to this depth they do not interpenetrate."""
_STEP_M = 0.05
"""Distance of the samples along ways and drives."""
_CELL_M = 0.1
"""Cells of the search for a way around an obstacle."""
_MOST_CELLS = 10_000_000
_ROWS_AT_ONCE = 256
_DEEPEST_M = 1.0
_HIGHEST_M = 0.05
"""How far a foot may be under or over the ground: boulders are sunk, slopes are uneven."""


def check(layout: Layout, *, robot_width_m: float = 0.8, robot_height_m: float = 2.0) -> list[str]:
    """All that is wrong with a layout, as sentences; an empty list for a sound one.

    Things must not interpenetrate, lie within the plan and stand on the ground; the drive and the ways must be free
    for a robot of the given width and height; and what is written of the layout must read back as the same.
    """
    for name, value in (("robot_width_m", robot_width_m), ("robot_height_m", robot_height_m)):
        if not (np.isfinite(value) and value > 0):
            raise ConfigError(f"check: {name} must be a positive number, got {value!r}")
    things = footprints(layout)
    return [
        *overlaps(layout, things),
        *strays(layout, things),
        *floaters(layout, things),
        *wet(layout, things),
        *blocked(layout, things, robot_width_m, robot_height_m),
        *changed_by_writing(layout),
    ]


def overlaps(layout: Layout, things: Footprints | None = None) -> list[str]:
    """Pairs of things that share room: their footprints by separating axes or radius, and their heights."""
    things = footprints(layout) if things is None else things
    first, second = near_pairs(things)
    depth = overlap_depth(things, first, second)
    upright = np.minimum(things.high[first], things.high[second]) - np.maximum(things.low[first], things.low[second])
    depth = np.minimum(depth, upright)
    wrong = np.flatnonzero(depth > TOUCH_M)
    wrong = wrong[np.lexsort((second[wrong], first[wrong]))]
    return [
        f"{layout.title(things.row[first[k]])} and {layout.title(things.row[second[k]])} interpenetrate by "
        f"{depth[k]:.3f} m"
        for k in wrong
    ]


def strays(layout: Layout, things: Footprints | None = None) -> list[str]:
    """Things, ways and drives that leave the plan."""
    things = footprints(layout) if things is None else things
    half = np.array(layout.size) / 2
    beyond = (np.abs(things.middle) + things.reach - half).max(axis=1, initial=-np.inf)
    found = [
        f"{layout.title(things.row[k])} reaches {beyond[k]:.3f} m beyond the plan of {layout.size[0]:g} x "
        f"{layout.size[1]:g} m"
        for k in np.flatnonzero(beyond > TOUCH_M)
    ]
    lines = [(f"way {way.name!r}", way.points) for way in layout.ways]
    lines += [("the drive", layout.drive.points)] if layout.drive else []
    lines += [("the viewpoint", (layout.viewpoint.xyz[:2],))] if layout.viewpoint else []
    for name, points in lines:
        far = float((np.abs(np.array(points)) - half).max())
        if far > TOUCH_M:
            found.append(f"{name} leaves the plan of {layout.size[0]:g} x {layout.size[1]:g} m by {far:.3f} m")
    return found


def floaters(layout: Layout, things: Footprints | None = None) -> list[str]:
    """Things that hang in the air, or are buried, and are of a kind that stands."""
    things = footprints(layout) if things is None else things
    rises = things.low - ground_height(layout, things.middle[:, 0], things.middle[:, 1])
    stands = np.array([not KINDS[layout.objects[row].kind].hangs for row in things.row], dtype=bool)
    wrong = stands & ((rises > _HIGHEST_M) | (rises < -_DEEPEST_M))
    if wrong.any():
        # What is off the ground may stand on a bridge.
        road = things.low - bridge_height(layout, things.middle[:, 0], things.middle[:, 1])
        wrong &= ~((road <= _HIGHEST_M) & (road >= -_HIGHEST_M))
    return [
        f"{layout.title(things.row[k])} is {abs(rises[k]):.3f} m {'over' if rises[k] > 0 else 'under'} the ground"
        for k in np.flatnonzero(wrong)
    ]


def wet(layout: Layout, things: Footprints | None = None) -> list[str]:
    """Things in a basin's water that do not float, and vessels that lie on land."""
    things = footprints(layout) if things is None else things
    water = on_water(layout, things.middle[:, 0], things.middle[:, 1])
    if water is None:
        return []
    found = []
    for k, row in enumerate(things.row):
        kind = KINDS[layout.objects[row].kind]
        if kind.floats and not water[k]:
            found.append(f"{layout.title(row)} lies on land")
        elif water[k] and not kind.floats and not kind.hangs and things.low[k] <= _HIGHEST_M:
            found.append(f"{layout.title(row)} stands in the water")
    return found


def blocked(layout: Layout, things: Footprints | None, robot_width_m: float, robot_height_m: float) -> list[str]:
    """Ways that a robot cannot pass, and a drive that comes too near to something."""
    things = footprints(layout) if things is None else things
    found = []
    for way in layout.ways:
        if _leaves(layout, way.points):
            continue  # told already, and there may be no end to follow it to
        solid = things.rows(in_the_way(layout, things, robot_height_m, way.points[0]))
        needed = robot_width_m if way.needs_m is None else way.needs_m
        nearest = _tightest(solid, way.points, needed)
        if nearest is not None and not _way_around(way, solid, needed):
            row, x, y, _ = nearest
            who = "a robot" if way.needs_m is None else "what must pass,"
            found.append(
                f"way {way.name!r} is blocked for {who} {needed:g} m wide: {layout.title(row)} stands at "
                f"({x:.2f}, {y:.2f})"
            )
    if layout.drive is None or _leaves(layout, layout.drive.points):
        return found
    solid = things.rows(in_the_way(layout, things, robot_height_m, layout.drive.points[0]))
    nearest = _tightest(solid, layout.drive.points, robot_width_m)
    if nearest is not None:
        row, x, y, gap = nearest
        found.append(
            f"the drive passes {layout.title(row)} at ({x:.2f}, {y:.2f}) with {gap:.3f} m to its middle line, less "
            f"than the {robot_width_m / 2:g} m that a robot {robot_width_m:g} m wide needs"
        )
    return found


def _leaves(layout: Layout, points: tuple[tuple[float, float], ...]) -> bool:
    return bool(np.any(np.abs(np.array(points)) > np.array(layout.size) / 2 + TOUCH_M))


def clearance(layout: Layout, line: tuple[tuple[float, float], ...], robot_height_m: float = 2.0) -> float:
    """Least distance [m] between a line and anything solid lower than a robot; infinite where there is nothing."""
    things = footprints(layout)
    solid = things.rows(in_the_way(layout, things, robot_height_m, line[0]))
    if len(solid) == 0:
        return float("inf")
    # Its middle bounds a thing's distance from above, its farthest corner from below.
    middle = to_line(solid.middle, line)[0]
    nearest = solid.rows(middle - _radius(solid) <= middle.min())
    return float(nearest.nearest(along_line(line, _STEP_M))[0].min())


def _radius(things: Footprints) -> Floats:
    """Distance of a footprint's farthest point from its middle, shape (n,)."""
    return np.where(things.disc, things.half[:, 0], np.hypot(things.half[:, 0], things.half[:, 1]))


def _beside(things: Footprints, line: Floats, margin_m: float) -> NDArray[np.bool_]:
    """Which things may be within a margin of the line: all that are, and some that nearly are."""
    return to_line(things.middle, line)[0] <= margin_m + _radius(things)


def _tightest(
    solid: Footprints, points: tuple[tuple[float, float], ...], width_m: float
) -> tuple[int, float, float, float] | None:
    """Row, place and distance of what is nearest to a line, where that is nearer than half of `width_m`."""
    line = np.array(points)
    near = solid.rows(_beside(solid, line, width_m / 2))
    if len(near) == 0:
        return None
    samples = along_line(line, _STEP_M)
    distance, rows = near.nearest(samples)
    sample = int(np.argmin(distance))
    thing, gap = rows[sample], float(distance[sample])
    if gap >= width_m / 2 - TOUCH_M:
        return None
    x, y = near.middle[thing]
    return int(near.row[thing]), float(x), float(y), gap


def _way_around(way: Route, solid: Footprints, robot_width_m: float) -> bool:
    """Whether the robot's middle can get from one end of a way to the other within its strip (a flood fill)."""
    from scipy.ndimage import label

    line = np.array(way.points)
    half, needed = way.width_m / 2, robot_width_m / 2
    if half < needed:
        return False
    low, high = line.min(axis=0) - half, line.max(axis=0) + half
    # A strip across the whole plan gets larger cells: there is room enough in it to tell.
    boxes = np.prod(np.abs(np.diff(line, axis=0)) + way.width_m, axis=1)
    cell = max(_CELL_M, float(np.sqrt(boxes.sum() / _MOST_CELLS)))
    x, y = (np.arange(low[k], high[k] + cell, cell) for k in range(2))
    inside = np.zeros((len(y), len(x)), dtype=bool)
    for start, end in pairwise(line):
        # Only the cells around this leg; legs of a bent way fill a small part of the box around all of it.
        columns, rows = (
            _cells_between(axis, min(start[k], end[k]) - half, max(start[k], end[k]) + half)
            for k, axis in enumerate((x, y))
        )
        for row in range(rows.start, rows.stop, _ROWS_AT_ONCE):
            some = slice(row, min(row + _ROWS_AT_ONCE, rows.stop))
            cells = np.stack(np.meshgrid(x[columns], y[some]), axis=-1)
            away = to_line(cells.reshape(-1, 2), np.stack([start, end]))[0].reshape(cells.shape[:2])
            inside[some, columns] |= away <= half - needed + cell / 2
    near = solid.rows(_beside(solid, line, half + needed))
    rows_of, columns_of = np.nonzero(inside)
    free = np.zeros(inside.shape, dtype=bool)
    room = near.nearest(np.stack([x[columns_of], y[rows_of]], axis=1))[0]
    free[rows_of, columns_of] = room >= needed - TOUCH_M
    regions, _ = label(free, np.ones((3, 3)))
    ends = [regions[round((b - low[1]) / cell), round((a - low[0]) / cell)] for a, b in line[[0, -1]]]
    return bool(ends[0] > 0 and ends[0] == ends[1])


def _cells_between(axis: Floats, low: float, high: float) -> slice:
    """The cells from `low` to `high`, and one more at each end."""
    first, last = np.searchsorted(axis, [low, high]).tolist()
    return slice(max(first - 1, 0), min(last + 1, len(axis)))


def changed_by_writing(layout: Layout) -> list[str]:
    """Whether the written form reads back as another layout."""
    try:
        same = Layout.from_mapping(layout.to_mapping()) == layout
    except ConfigError as error:
        return [f"what is written of the layout cannot be read back: {error}"]
    return [] if same else ["what is written of the layout reads back as another one"]
