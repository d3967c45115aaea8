"""Surfaces of roads: lanes, kerbs, markings, and the ground around them.

Connections within a junction overlap. Their surfaces are cut, so that each place in plan view belongs to one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from parhelion.core.pose import Floats
from parhelion.world.kit.props import KitPart
from parhelion.world.maps.palette import paving_of
from parhelion.world.maps.plane import MapGround, minus, surface, triangles, union
from parhelion.world.mesh import Mesh
from parhelion.world.roads.reader import Road, RoadMark, RoadNetwork, Section
from parhelion.world.roads.shape import borders, lane_height, points, stations
from parhelion.world.shapes import split_quads
from parhelion.world.sources import Tally

LANE_SURFACES = {
    "driving": ("asphalt", "road"),
    "entry": ("asphalt", "road"),
    "exit": ("asphalt", "road"),
    "onRamp": ("asphalt", "road"),
    "offRamp": ("asphalt", "road"),
    "connectingRamp": ("asphalt", "road"),
    "bidirectional": ("asphalt", "road"),
    "bus": ("asphalt", "road"),
    "taxi": ("asphalt", "road"),
    "HOV": ("asphalt", "road"),
    "stop": ("asphalt", "road"),
    "shoulder": ("asphalt", "road"),
    "border": ("concrete", "road"),
    "restricted": ("asphalt", "other-ground"),
    "roadWorks": ("asphalt", "road"),
    "tram": ("asphalt", "road"),
    "rail": ("gravel", "rail"),
    "parking": ("asphalt", "parking"),
    "sidewalk": ("concrete", "sidewalk"),
    "walking": ("concrete", "sidewalk"),
    "biking": ("asphalt", "sidewalk"),
    "curb": ("granite", "sidewalk"),
    "median": ("grass", "terrain"),
    "slipLane": ("asphalt", "road"),
}
"""Material and label by type of lane; other types have no surface."""
_FIRST = {
    "driving",
    "entry",
    "exit",
    "onRamp",
    "offRamp",
    "connectingRamp",
    "bidirectional",
    "bus",
    "taxi",
    "HOV",
    "slipLane",
}
"""Types of lanes that win where connections overlap."""
MARK_LIFT_M = 0.005
_DASHES = ((50 / 3.6 + 0.1, 3.0, 6.0), (1e9, 6.0, 12.0))
"""Length and gap of broken lines up to a speed limit [m/s] (RMS-1: in town and outside)."""
_CELL_M = 5.0
_NEAREST = 8


@dataclass(eq=False)
class Strip:
    """Triangles of one surface, shape (n, 3, 3), and whether they win where surfaces overlap."""

    corners: Floats
    material: str
    label: str
    first: bool
    in_junction: bool


@dataclass(eq=False)
class Surfaces:
    """Surfaces of all roads."""

    strips: list[Strip] = field(default_factory=list)
    kerbs: list[Floats] = field(default_factory=list)
    """Upright triangles between lanes of different heights."""
    marks: dict[str, list[Floats]] = field(default_factory=dict)
    """Triangles of paint by material."""
    edges: list[Floats] = field(default_factory=list)
    """Points (n, 3) on the outer borders of roads."""


def _quads(right: Floats, left: Floats) -> Floats:
    """Triangles (2 n - 2, 3, 3) between two lines (n, 3) along a road, which face up."""
    corners = np.stack([right[:-1], right[1:], left[1:], left[:-1]], axis=1).reshape(-1, 3)
    return corners[split_quads(np.arange(len(corners)).reshape(-1, 4))]


def road_surfaces(network: RoadNetwork, tally: Tally) -> Surfaces:
    """Surfaces, kerbs and markings of all roads."""
    made = Surfaces()
    for road in network.roads.values():
        for section in road.sections:
            _section(made, road, section, tally)
        tally.add("road" + (" (junction)" if road.in_junction else ""), road.length, "m")
    return made


def _section(made: Surfaces, road: Road, section: Section, tally: Tally) -> None:
    s = stations(road, section)
    if len(s) < 2:
        return
    sides = borders(road, section, s)
    length = section.end - section.s
    for sign in (1, -1):
        above = np.zeros(len(s))
        outer = sides[0][1]
        for number in sorted((n for n in section.lanes if n * sign > 0), key=abs):
            lane = section.lanes[number]
            inner, outer = sides[number]
            low, high = lane_height(lane, s)
            width = np.abs(outer - inner)
            if width.max(initial=0.0) < 1e-3:
                continue
            found = LANE_SURFACES.get(lane.kind)
            if found is None:
                tally.omit(f"lane type={lane.kind}", "no surface of its own")
                above = high
                continue
            step = np.abs(low - above) > 1e-3
            a, b = points(road, s, inner, low), points(road, s, outer, high)
            if step.any():
                foot = points(road, s, inner, above)
                # An upright face looks towards the lower side.
                up = (low > above) == (sign > 0)
                wall = _quads(foot, a) if up.all() else _quads(a, foot)
                made.kerbs.append(wall)
            corners = _quads(a, b) if sign > 0 else _quads(b, a)
            material = paving_of(lane.material, found[0])
            made.strips.append(Strip(corners, material, found[1], lane.kind in _FIRST, road.in_junction))
            tally.add(f"lane type={lane.kind}", float(0.5 * (width[1:] + width[:-1]) @ np.diff(s)), "m2")
            above = high
            _marks(made, road, section, number, s, outer, high)
        edge = points(road, s, outer, above)
        made.edges.append(edge)
        if np.any(above > 1e-3):
            foot = points(road, s, outer, np.full(len(s), -0.05))
            made.kerbs.append(_quads(edge, foot) if sign > 0 else _quads(foot, edge))
    _marks(made, road, section, 0, s, sides[0][0], np.zeros(len(s)))
    tally.add("lane section", length, "m")


def _marks(made: Surfaces, road: Road, section: Section, number: int, s: Floats, t: Floats, up: Floats) -> None:
    lane = section.lanes.get(number)
    if lane is None or not lane.marks:
        return
    ends = [mark.s for mark in lane.marks[1:]] + [section.end]
    for mark, end in zip(lane.marks, ends, strict=True):
        if mark.kind in ("none", "curb", "grass", "edge", "custom"):
            continue
        material = "road-paint-yellow" if mark.colour == "yellow" else "road-paint"
        for offset, kind in _lines_of(mark):
            for low, high in _dashes(road, mark.s, min(end, section.end), kind):
                inside = s[(s > low + 1e-4) & (s < high - 1e-4)]
                at = np.concatenate([[low], inside, [min(high, section.end - 1e-7)]])
                if at[-1] - at[0] < 0.05:
                    continue
                middle, lift = np.interp(at, s, t) + offset, np.interp(at, s, up) + MARK_LIFT_M
                right, left = (points(road, at, middle + side * mark.width_m / 2, lift) for side in (-1, 1))
                made.marks.setdefault(material, []).append(_quads(right, left))


def _lines_of(mark: RoadMark) -> list[tuple[float, str]]:
    """Offsets to the left [m] and kinds of the lines of a mark; those of a pair are two widths apart."""
    kinds = mark.kind.split()
    if len(kinds) == 2 and set(kinds) <= {"solid", "broken"}:
        return [(mark.width_m, kinds[0]), (-mark.width_m, kinds[1])]
    return [(0.0, "broken" if kinds[0] in ("broken", "botts") else "solid")]


def _dashes(road: Road, start: float, end: float, kind: str) -> Iterable[tuple[float, float]]:
    if kind == "solid" or end - start < 0.1:
        return [(start, end)] if end - start >= 0.1 else []
    dash, gap = next((dash, gap) for limit, dash, gap in _DASHES if (road.speed_m_s or 13.9) <= limit)
    first = np.arange(start + gap / 2, end - dash / 2, dash + gap)
    return [(float(a), float(min(a + dash, end))) for a in first]


# ---- parts -----------------------------------------------------------------------------------------------------------


def parts_of(made: Surfaces) -> tuple[list[KitPart], Any]:
    """Parts of all surfaces, and their area in plan view."""
    import shapely

    free = [strip for strip in made.strips if not strip.in_junction]
    crossing = sorted((strip for strip in made.strips if strip.in_junction), key=lambda strip: not strip.first)
    taken = union(_plan(strip.corners) for strip in free) if free else shapely.Polygon()
    grouped: dict[tuple[str, str], list[Floats]] = {}
    for strip in free:
        grouped.setdefault((strip.material, strip.label), []).append(strip.corners)
    for strip in crossing:
        kept = _cut(strip.corners, taken)
        taken = union([taken, _plan(strip.corners)])
        if len(kept):
            grouped.setdefault((strip.material, strip.label), []).append(kept)
    parts = [
        KitPart(f"{label}-{material}", mesh, material, label)
        for (material, label), rows in grouped.items()
        if (mesh := _mesh(rows)) is not None
    ]
    if (kerbs := _mesh(made.kerbs)) is not None:
        parts.append(KitPart("kerbs", kerbs, "granite", "sidewalk"))
    for material, rows in made.marks.items():
        if (paint := _mesh(rows)) is not None:
            parts.append(KitPart(f"markings-{material}", paint, material, "lane-marking"))
    return parts, taken


def _mesh(rows: list[Floats]) -> Mesh | None:
    if not rows:
        return None
    corners = np.concatenate(rows).reshape(-1, 3)
    mesh, _ = Mesh.cleaned(corners, np.arange(len(corners), dtype=np.int32).reshape(-1, 3))
    return mesh


def _plan(corners: Floats) -> Any:
    """Area of triangles in plan view."""
    import shapely

    flat = corners[..., :2]
    areas = shapely.polygons(flat)
    areas = areas[shapely.area(areas) > 1e-6]
    # The triangles of a strip share their edges, so that a union without an overlay is possible, and much faster.
    joined = shapely.coverage_union_all(areas) if len(areas) else shapely.Polygon()
    flat_area = float(np.sum(shapely.area(areas)))
    if not shapely.is_valid(joined) or abs(joined.area - flat_area) > 1e-6 * max(flat_area, 1.0):
        return union(areas)
    return union([joined])


def _cut(corners: Floats, taken: Any) -> Floats:
    """Triangles without the parts that lie in an area of the plan; heights are those of their planes."""
    import shapely

    shapely.prepare(taken)
    flat = shapely.polygons(corners[..., :2])
    inside = shapely.covers(taken, flat)
    touched = shapely.intersects(taken, flat) & ~inside
    kept = [corners[~inside & ~touched]]
    for triangle, shape in zip(corners[touched], flat[touched], strict=True):
        pieces = triangles(minus(shape, taken))
        if len(pieces) == 0:
            continue
        a, b, c = triangle
        normal = np.cross(b - a, c - a)
        if abs(normal[2]) < 1e-9:
            continue
        z = a[2] - ((pieces - a[:2]) @ normal[:2]) / normal[2]
        kept.append(np.concatenate([pieces, z[..., None]], axis=2))
    return np.concatenate(kept)


def ground_part(made: Surfaces, taken: Any, margin_m: float, material: str) -> KitPart | None:
    """Ground around the roads: at their borders as high as they are, level with the nearest border elsewhere."""
    import shapely
    from scipy.spatial import cKDTree

    edges = np.concatenate(made.edges)
    low_x, low_y, high_x, high_y = taken.bounds
    margin = margin_m
    extent = shapely.box(low_x - margin, low_y - margin, high_x + margin, high_y + margin)
    # A border that lies within another road, as in a junction or under a bridge, does not carry ground.
    shapely.prepare(taken)
    inner = shapely.contains_xy(shapely.buffer(taken, -0.05), edges[:, 0], edges[:, 1])
    kept = edges[~inner] if (~inner).any() else edges
    fine = _refined(made.edges, kept)
    tree = cKDTree(fine[:, :2])
    is_level = np.ptp(fine[:, 2]) < 1e-6

    def height(xy: Floats) -> Floats:
        away, row = tree.query(xy, k=min(_NEAREST, len(fine)))
        away, row = away.reshape(len(xy), -1), row.reshape(len(xy), -1)
        weight = 1.0 / (away + 0.02) ** 3
        return np.asarray((weight * fine[row, 2]).sum(axis=1) / weight.sum(axis=1) - 0.01)

    cell = None if is_level else (_CELL_M, _CELL_M)
    mesh = surface(minus(extent, taken), MapGround(height, cell), 0.0)
    return None if mesh is None else KitPart("ground", mesh, material, "terrain")


def _refined(edges: list[Floats], kept: Floats) -> Floats:
    """Points on the borders, about 2 m apart, so that the ground also follows long straight roads."""
    known = {tuple(row) for row in np.round(kept, 6)}
    found = [kept]
    for line in edges:
        for a, b in pairwise(line):
            gap = float(np.hypot(*(b - a)[:2]))
            if gap > 2.5 and tuple(np.round(a, 6)) in known and tuple(np.round(b, 6)) in known:
                share = np.linspace(0, 1, int(gap / 2.0) + 1)[1:-1, None]
                found.append(a + share * (b - a))
    return np.concatenate(found)
