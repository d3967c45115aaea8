"""Checks of a layout. Each check returns a list of problems, one sentence per problem."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.world.procedural.footprints import Footprints, along_line, footprints, interpenetrations, to_line
from parhelion.world.procedural.kinds import KINDS
from parhelion.world.procedural.layout import Layout, Passage
from parhelion.world.procedural.relief import bridge_height, ground_height, in_the_way, on_water

TOUCH_M = 1e-3
"""Objects may touch: overlaps up to this depth [m] are allowed."""
_STEP_M = 0.05
"""Distance of the samples along routes and drives [m]."""
_CELL_M = 0.1
"""Cell size of the search for a path around an obstacle [m]."""
_MOST_CELLS = 10_000_000
_ROWS_AT_ONCE = 256
_DEEPEST_M = 1.0
_HIGHEST_M = 0.05
"""Largest depth of a base below the ground, and height above it [m]: boulders are sunk, and slopes vary."""


def check(layout: Layout, *, robot_width_m: float = 0.8, robot_height_m: float = 2.0) -> list[str]:
    """Return all problems of a layout as sentences; an empty list if there are none.

    Objects must not interpenetrate, must lie within the plan and stand on the ground. The drive and the routes must be
    free for a robot of the given width and height. Writing and reading the layout must reproduce it.
    """
    for name, value in (("robot_width_m", robot_width_m), ("robot_height_m", robot_height_m)):
        if not (np.isfinite(value) and value > 0):
            raise ConfigError(f"check: {name} must be a positive number, got {value!r}")
    obstacles = footprints(layout)
    return [
        *overlaps(layout, obstacles),
        *strays(layout, obstacles),
        *floaters(layout, obstacles),
        *wet(layout, obstacles),
        *blocked(layout, obstacles, robot_width_m, robot_height_m),
        *changed_by_writing(layout),
    ]


def overlaps(layout: Layout, obstacles: Footprints | None = None) -> list[str]:
    """Pairs of objects that overlap, by their footprints (separating axes or radius) and their heights."""
    obstacles = footprints(layout) if obstacles is None else obstacles
    first, second, depth = interpenetrations(obstacles, TOUCH_M)
    return [
        f"{layout.title(obstacles.row[first[k]])} and {layout.title(obstacles.row[second[k]])} interpenetrate by "
        f"{depth[k]:.3f} m"
        for k in np.lexsort((second, first))
    ]


def strays(layout: Layout, obstacles: Footprints | None = None) -> list[str]:
    """Objects, routes and drives that leave the plan."""
    obstacles = footprints(layout) if obstacles is None else obstacles
    half = np.array(layout.size) / 2
    beyond = (np.abs(obstacles.middle) + obstacles.reach - half).max(axis=1, initial=-np.inf)
    found = [
        f"{layout.title(obstacles.row[k])} reaches {beyond[k]:.3f} m beyond the plan of {layout.size[0]:g} x "
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


def floaters(layout: Layout, obstacles: Footprints | None = None) -> list[str]:
    """Objects that float in the air or are buried, although their kind stands on the ground."""
    obstacles = footprints(layout) if obstacles is None else obstacles
    rises = obstacles.low - ground_height(layout, obstacles.middle[:, 0], obstacles.middle[:, 1])
    stands = np.array([not KINDS[layout.objects[row].kind].hangs for row in obstacles.row], dtype=bool)
    wrong = stands & ((rises > _HIGHEST_M) | (rises < -_DEEPEST_M))
    if wrong.any():
        # An object above the ground may stand on a bridge.
        road = obstacles.low - bridge_height(layout, obstacles.middle[:, 0], obstacles.middle[:, 1])
        wrong &= ~((road <= _HIGHEST_M) & (road >= -_HIGHEST_M))
    return [
        f"{layout.title(obstacles.row[k])} is {abs(rises[k]):.3f} m {'over' if rises[k] > 0 else 'under'} the ground"
        for k in np.flatnonzero(wrong)
    ]


def wet(layout: Layout, obstacles: Footprints | None = None) -> list[str]:
    """Objects in the water of a basin that do not float, and vessels on land."""
    obstacles = footprints(layout) if obstacles is None else obstacles
    water = on_water(layout, obstacles.middle[:, 0], obstacles.middle[:, 1])
    if water is None:
        return []
    found = []
    for k, row in enumerate(obstacles.row):
        kind = KINDS[layout.objects[row].kind]
        if kind.floats and not water[k]:
            found.append(f"{layout.title(row)} lies on land")
        elif water[k] and not kind.floats and not kind.hangs and obstacles.low[k] <= _HIGHEST_M:
            found.append(f"{layout.title(row)} stands in the water")
    return found


def blocked(layout: Layout, obstacles: Footprints | None, robot_width_m: float, robot_height_m: float) -> list[str]:
    """Routes that a robot cannot pass, and a drive that is too close to an object."""
    obstacles = footprints(layout) if obstacles is None else obstacles
    found = []
    for way in layout.ways:
        if _leaves(layout, way.points):
            continue  # reported by `strays`, and possibly too long to follow
        solid = obstacles.rows(in_the_way(layout, obstacles, robot_height_m, way.points[0]))
        needed = robot_width_m if way.needs_m is None else way.needs_m
        nearest = _tightest(solid, way.points, needed)
        if nearest is not None and not _way_around(way, solid, needed):
            row, x, y, _ = nearest
            who = "a robot" if way.needs_m is None else "traffic"
            found.append(
                f"way {way.name!r} is blocked for {who} {needed:g} m wide: {layout.title(row)} stands at "
                f"({x:.2f}, {y:.2f})"
            )
    if layout.drive is None or _leaves(layout, layout.drive.points):
        return found
    solid = obstacles.rows(in_the_way(layout, obstacles, robot_height_m, layout.drive.points[0]))
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
    """Smallest distance [m] between a line and the obstacles of a robot; infinite without obstacles."""
    obstacles = footprints(layout)
    solid = obstacles.rows(in_the_way(layout, obstacles, robot_height_m, line[0]))
    if len(solid) == 0:
        return float("inf")
    # The middle of an object gives an upper bound of its distance, its farthest corner a lower one.
    middle = to_line(solid.middle, line)[0]
    nearest = solid.rows(middle - _radius(solid) <= middle.min())
    return float(nearest.nearest(along_line(line, _STEP_M))[0].min())


def _radius(obstacles: Footprints) -> Floats:
    """Distance of the farthest point of each footprint from its middle [m], shape (n,)."""
    return np.where(obstacles.disc, obstacles.half[:, 0], np.hypot(obstacles.half[:, 0], obstacles.half[:, 1]))


def _beside(obstacles: Footprints, line: Floats, margin_m: float) -> NDArray[np.bool_]:
    """Mask of the objects that may be within a margin of the line; includes some that are slightly outside."""
    return to_line(obstacles.middle, line)[0] <= margin_m + _radius(obstacles)


def _tightest(
    solid: Footprints, points: tuple[tuple[float, float], ...], width_m: float
) -> tuple[int, float, float, float] | None:
    """Row, position and distance of the object nearest to a line, or None if it is farther than `width_m` / 2."""
    line = np.array(points)
    near = solid.rows(_beside(solid, line, width_m / 2))
    if len(near) == 0:
        return None
    samples = along_line(line, _STEP_M)
    distance, rows = near.nearest(samples)
    sample = int(np.argmin(distance))
    item, gap = rows[sample], float(distance[sample])
    if gap >= width_m / 2 - TOUCH_M:
        return None
    x, y = near.middle[item]
    return int(near.row[item]), float(x), float(y), gap


def _way_around(way: Passage, solid: Footprints, robot_width_m: float) -> bool:
    """Return True if the robot's centre can get from one end of a route to the other within its strip (flood fill)."""
    from scipy.ndimage import label

    line = np.array(way.points)
    half, needed = way.width_m / 2, robot_width_m / 2
    if half < needed:
        return False
    low, high = line.min(axis=0) - half, line.max(axis=0) + half
    # Very long strips get larger cells, which limits the memory.
    boxes = np.prod(np.abs(np.diff(line, axis=0)) + way.width_m, axis=1)
    cell = max(_CELL_M, float(np.sqrt(boxes.sum() / _MOST_CELLS)))
    x, y = (np.arange(low[k], high[k] + cell, cell) for k in range(2))
    inside = np.zeros((len(y), len(x)), dtype=bool)
    for start, end in pairwise(line):
        # Only the cells around this leg, because the legs of a bent route fill a small part of its bounding box.
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
    gap = near.nearest(np.stack([x[columns_of], y[rows_of]], axis=1))[0]
    free[rows_of, columns_of] = gap >= needed - TOUCH_M
    regions, _ = label(free, np.ones((3, 3)))
    ends = [regions[round((b - low[1]) / cell), round((a - low[0]) / cell)] for a, b in line[[0, -1]]]
    return bool(ends[0] > 0 and ends[0] == ends[1])


def _cells_between(axis: Floats, low: float, high: float) -> slice:
    """Cells from `low` to `high`, and one more at each end."""
    first, last = np.searchsorted(axis, [low, high]).tolist()
    return slice(max(first - 1, 0), min(last + 1, len(axis)))


def changed_by_writing(layout: Layout) -> list[str]:
    """Differences between the layout and its written form."""
    try:
        same = Layout.from_mapping(layout.to_mapping()) == layout
    except ConfigError as error:
        return [f"the written layout cannot be read again: {error}"]
    return [] if same else ["the written layout reads as a different one"]
