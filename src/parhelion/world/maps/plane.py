"""Areas in the plane, as Shapely polygons, and their triangles on the ground.

The ground of a map is a partition: each place belongs to one surface, so that surfaces never overlap. All overlays use
a grid of one millimetre, which keeps the corners of neighbours identical.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.world.mesh import Mesh
from parhelion.world.shapes import split_quads

GRID_M = 1e-3
"""Resolution of overlays [m]."""
_SLIVER_M2 = 1e-4
_SAME_M = 1e-5

HeightOf = Callable[[Floats], Floats]


def level(xy: Floats) -> Floats:
    """Height of the plane z = 0."""
    return np.zeros(len(xy))


def polygons(shape: Any) -> NDArray[Any]:
    """Polygons of any geometry, as an array; slivers are dropped."""
    import shapely

    if shape is None:
        return np.empty(0, dtype=object)
    parts = shapely.get_parts(shapely.get_parts(np.atleast_1d(shape)))
    parts = parts[(shapely.get_type_id(parts) == 3) & (shapely.area(parts) > _SLIVER_M2)]
    return np.asarray(parts, dtype=object)


def valid_area(shape: Any) -> Any:
    """Area without self-crossings."""
    import shapely

    fixed = shape if shapely.is_valid(shape) else shapely.make_valid(shape)
    return shapely.multipolygons(polygons(fixed)) if len(polygons(fixed)) else None


def union(shapes: Any) -> Any:
    """Union of areas; an empty polygon without any."""
    import shapely

    rows = [shape for shape in shapes if shape is not None]
    return _only_areas(shapely.union_all(np.array(rows, dtype=object), grid_size=GRID_M)) if rows else shapely.Polygon()


def _only_areas(shape: Any) -> Any:
    """Areas of the result of an overlay, which may contain lines and points where areas touch."""
    import shapely

    return shape if shape.geom_type in ("Polygon", "MultiPolygon") else shapely.multipolygons(polygons(shape))


def minus(shape: Any, other: Any) -> Any:
    """Difference of two areas."""
    import shapely

    return _only_areas(shapely.difference(shape, other, grid_size=GRID_M))


def common(shape: Any, other: Any) -> Any:
    """Intersection of two areas."""
    import shapely

    return _only_areas(shapely.intersection(shape, other, grid_size=GRID_M))


def strip(line: Any, left_m: float, right_m: float) -> Any:
    """Area between the parallels of a line at distances to its left and right; a negative distance is on the other
    side. Ends are flat and bends are mitred."""
    import shapely

    def band(width: float, left: bool) -> Any:
        if width <= 0:
            return None
        return shapely.buffer(
            line, width if left else -width, single_sided=True, cap_style="flat", join_style="mitre", mitre_limit=3.0
        )

    if left_m > 0 and right_m > 0 and abs(left_m - right_m) < _SAME_M:
        return shapely.buffer(line, left_m, cap_style="flat", join_style="mitre", mitre_limit=3.0)
    if left_m >= 0 and right_m >= 0:
        return union([band(left_m, True), band(right_m, False)])
    outer, inner, left = (left_m, -right_m, True) if right_m < 0 else (right_m, -left_m, False)
    return minus(band(outer, left), union([band(inner, left)]))


# ---- triangles -------------------------------------------------------------------------------------------------------


def triangles(shape: Any) -> Floats:
    """Counter-clockwise triangles (n, 3, 2) that fill the polygons of a geometry, holes left out.

    Constrained Delaunay triangulation of GEOS; no points are added, so neighbours share their edges.
    """
    import shapely

    parts = polygons(shape)
    if len(parts) == 0:
        return np.zeros((0, 3, 2))
    found = shapely.get_parts(shapely.constrained_delaunay_triangles(parts))
    corners = shapely.get_coordinates(found).reshape(-1, 4, 2)[:, :3]
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    twice = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])
    corners = np.where(twice[:, None, None] < 0, corners[:, ::-1], corners)
    return corners[np.abs(twice) > 1e-9]


@dataclass(frozen=True, eq=False)
class MapGround:
    """Height of the ground, and the grid on whose lines surfaces are cut so that they follow it."""

    height: HeightOf = level
    cell_m: tuple[float, float] | None = None
    """Spacing of the grid; None for level ground, which needs no cuts."""
    corner_m: tuple[float, float] = (0.0, 0.0)
    """Position of one grid point."""

    def cut(self, shape: Any) -> NDArray[Any]:
        """Polygons of a geometry, cut on the grid."""
        return cut_on_grid(polygons(shape), self.cell_m, self.corner_m) if self.cell_m else polygons(shape)


def cut_on_grid(parts: NDArray[Any], cell: tuple[float, float], corner: tuple[float, float]) -> NDArray[Any]:
    """Polygons cut into the cells of a grid."""
    import shapely

    made = []
    step, start = np.array(cell), np.array(corner)
    for part in parts:
        low, high = np.array(part.bounds).reshape(2, 2)
        first, last = np.floor((low - start) / step).astype(int), np.ceil((high - start) / step).astype(int)
        # Cut into columns first: most cells of a long road are empty.
        x = start[0] + step[0] * np.arange(first[0], last[0] + 1)
        columns = shapely.box(x[:-1], low[1] - 1.0, x[1:], high[1] + 1.0)
        for column in polygons(shapely.intersection(part, columns)):
            bottom, top = column.bounds[1], column.bounds[3]
            rows = np.arange(np.floor((bottom - start[1]) / step[1]), np.ceil((top - start[1]) / step[1]) + 1)
            y = start[1] + step[1] * rows
            west, east = column.bounds[0] - 1.0, column.bounds[2] + 1.0
            made.append(polygons(shapely.intersection(column, shapely.box(west, y[:-1], east, y[1:]))))
    return np.concatenate(made) if made else parts


def surface(shape: Any, ground: MapGround, lift: HeightOf | float = 0.0) -> Mesh | None:
    """Mesh of an area on the ground, facing up, `lift` above it; None for an empty area."""
    corners = triangles(ground.cut(shape))
    if len(corners) == 0:
        return None
    flat = corners.reshape(-1, 2)
    z = ground.height(flat) + (lift if isinstance(lift, (int, float)) else lift(flat))
    return _welded(np.column_stack([flat, z]))


def skirt(
    shape: Any, ground: MapGround, low: HeightOf | float, high: HeightOf | float, *, inward: bool = False
) -> Mesh | None:
    """Vertical faces on the border of an area, from `low` to `high` above the ground; outward by default."""
    import shapely

    parts = polygons(shape)
    if len(parts) == 0:
        return None
    rings = shapely.get_rings(shapely.orient_polygons(parts))
    step = min(ground.cell_m) / 2 if ground.cell_m else 0.0
    pieces = []
    for ring in (shapely.get_coordinates(shapely.segmentize(rings, step) if step else rings, return_index=True),):
        xy, row = ring
        same = row[1:] == row[:-1]
        pieces.append(np.stack([xy[:-1][same], xy[1:][same]], axis=1))
    edges = np.concatenate(pieces)
    edges = edges[np.hypot(*(edges[:, 1] - edges[:, 0]).T) > _SAME_M]
    if inward:
        edges = edges[:, ::-1]
    flat = edges.reshape(-1, 2)
    base = ground.height(flat)
    bottom, top = (
        (base + (value if isinstance(value, (int, float)) else value(flat))).reshape(-1, 2) for value in (low, high)
    )
    tall = np.any(top - bottom > 1e-4, axis=1)
    if not tall.any():
        return None
    edges, bottom, top = edges[tall], bottom[tall], top[tall]
    a, b = edges[:, 0], edges[:, 1]
    return upright(a, b, bottom, top)


def upright(a: Floats, b: Floats, bottom: Floats, top: Floats) -> Mesh | None:
    """Vertical quads from points `a` to `b` (n, 2), facing to the right of a to b; heights (n, 2) at a and b."""
    if len(a) == 0:
        return None
    corners = np.stack(
        [
            np.column_stack([a, bottom[:, 0]]),
            np.column_stack([b, bottom[:, 1]]),
            np.column_stack([b, top[:, 1]]),
            np.column_stack([a, top[:, 0]]),
        ],
        axis=1,
    )
    mesh, _ = Mesh.cleaned(corners.reshape(-1, 3), split_quads(np.arange(4 * len(corners)).reshape(-1, 4)))
    return mesh


def _welded(points: Floats) -> Mesh | None:
    """Mesh of triangles from their corners (3 n, 3), with equal corners merged."""
    keys, row = np.unique(np.round(points / 1e-6).astype(np.int64), axis=0, return_inverse=True)
    vertices = np.zeros((len(keys), 3))
    vertices[row.ravel()] = points
    mesh, _ = Mesh.cleaned(vertices, row.reshape(-1, 3).astype(np.int32))
    return mesh


# ---- lines -----------------------------------------------------------------------------------------------------------


def line_of(points: Floats) -> Any:
    """Shapely line through points (n, 2)."""
    import shapely

    return shapely.LineString(points)


def line_parts(shape: Any) -> list[Floats]:
    """Corners (n, 2) of each line of a geometry, repeated points removed."""
    import shapely

    found = []
    for part in shapely.get_parts(shapely.get_parts(np.atleast_1d(shape))):
        if part.geom_type not in ("LineString", "LinearRing"):
            continue
        xy = shapely.get_coordinates(part)
        keep = np.concatenate([[True], np.hypot(*np.diff(xy, axis=0).T) > _SAME_M])
        if keep.sum() >= 2:
            found.append(xy[keep])
    return found


def parallel(line: Floats, offset: float | Floats) -> Floats:
    """Line (n, 2) moved to its left by an offset [m], one number or one per point; bends are mitred."""
    steps = np.diff(line, axis=0)
    steps = steps / np.hypot(steps[:, 0], steps[:, 1])[:, None]
    before, after = np.vstack([steps[:1], steps]), np.vstack([steps, steps[-1:]])
    if len(line) > 3 and np.hypot(*(line[0] - line[-1])) < _SAME_M:
        before[0] = after[-1] = steps[-1]
        after[-1] = steps[0]
        before[-1] = steps[-1]
    normal = before + after
    length = np.hypot(normal[:, 0], normal[:, 1])
    normal = np.where(length[:, None] > 1e-9, normal / np.maximum(length, 1e-9)[:, None], before)
    cosine = np.clip(np.sum(normal * before, axis=1), 1.0 / 3.0, 1.0)
    left = np.column_stack([-normal[:, 1], normal[:, 0]]) / cosine[:, None]
    return line + left * np.broadcast_to(np.asarray(offset, dtype=np.float64), (len(line),))[:, None]


def swept(line: Floats, z: Floats, profile: Floats) -> Mesh:
    """Bar along a line (n, 2) with heights z (n,): a closed profile (k, 2) of offsets to the right and up [m].

    The profile is counter-clockwise when looking along the line.
    """
    rings = np.stack(
        [np.column_stack([parallel(line, -right), z + up]) for right, up in np.asarray(profile, dtype=np.float64)],
        axis=1,
    )
    n, k = rings.shape[:2]
    rows = np.arange(n * k).reshape(n, k)
    after = np.roll(rows, -1, axis=1)
    quads = np.stack([rows[:-1], after[:-1], after[1:], rows[1:]], axis=-1).reshape(-1, 4)
    middle = np.arange(1, k - 1)
    cap = np.stack([np.zeros_like(middle), middle, middle + 1], axis=1)
    closed = len(line) > 3 and np.hypot(*(line[0] - line[-1])) < _SAME_M
    caps = [] if closed else [rows[0][cap][:, ::-1], rows[-1][cap]]
    # Quads face outward where the profile is counter-clockwise.
    mesh, _ = Mesh.cleaned(rings.reshape(-1, 3), np.concatenate([split_quads(quads), *caps]).astype(np.int32))
    assert mesh is not None
    return mesh


def box_profile(width: float, height: float, base: float = 0.0) -> Floats:
    """Rectangle `width` x `height` [m] about a line, its foot `base` above it."""
    half = width / 2
    return np.array([[-half, base], [half, base], [half, base + height], [-half, base + height]])


def along(line: Floats, spacing: float, start: float | None = None) -> tuple[Floats, Floats]:
    """Points (n, 2) every `spacing` [m] along a line, and the direction [rad] there (n,).

    Half the rest is left free at both ends, unless `start` [m] is the distance of the first point.
    """
    steps = np.diff(line, axis=0)
    lengths = np.hypot(steps[:, 0], steps[:, 1])
    total = float(lengths.sum())
    count = max(1, int((total - (start or 0.0)) / spacing + 1e-9) + 1)
    first = (total - (count - 1) * spacing) / 2 if start is None else start
    place = np.clip(first + spacing * np.arange(count), 0.0, total)
    ends = np.concatenate([[0.0], np.cumsum(lengths)])
    row = np.clip(np.searchsorted(ends, place, side="right") - 1, 0, len(steps) - 1)
    share = (place - ends[row]) / lengths[row]
    return line[row] + share[:, None] * steps[row], np.arctan2(steps[row, 1], steps[row, 0])
