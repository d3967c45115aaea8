"""Streets of a map: carriageways, sidewalks, markings and bridges from the centre lines of `highway` and `railway`.

Tags: https://wiki.openstreetmap.org/wiki/Key:highway
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from parhelion.core.pose import Floats
from parhelion.world.maps.features import Feature
from parhelion.world.maps.palette import paving_of
from parhelion.world.maps.plane import common, line_of, line_parts, minus, parallel, strip, union

LANE_M = 3.25
"""Width of a lane without a stated width: between 3.0 and 3.5 m, the range of urban roads (RASt 06)."""
SIDEWALK_M = 2.0
KERB_M = 0.12
"""Height of a kerb."""
MARK_M = 0.12
"""Width of a line."""
DASH_M, GAP_M = 3.0, 6.0
"""Dashes of a centre line in town (RMS: 3 m and 6 m)."""
ZEBRA_M = 4.0
BRIDGE_M = 5.5
"""Height of a deck above the ground, for each layer: 4.5 m clear and a deck of 1 m (round figures)."""
DECK_M = 0.8
RAMP_GRADE = 0.06
"""Slope of the approach to a bridge."""

ROADS = {
    "motorway": (4, "motorway"),
    "trunk": (4, "main"),
    "primary": (2, "main"),
    "secondary": (2, "main"),
    "tertiary": (2, "town"),
    "unclassified": (2, "town"),
    "residential": (2, "quiet"),
    "living_street": (1.6, "bare"),
    "service": (1.2, "bare"),
    "road": (2, "quiet"),
    "motorway_link": (1.5, "main"),
    "trunk_link": (1.5, "main"),
    "primary_link": (1.5, "main"),
    "secondary_link": (1.5, "town"),
    "tertiary_link": (1.5, "town"),
    "busway": (2, "town"),
    "track": (0.9, "bare"),
    "bus_guideway": (1, "bare"),
    "raceway": (3, "bare"),
}
"""Lanes and kind of markings of roads without `lanes`, by value of `highway`."""
PATHS = {
    "footway": 2.0,
    "path": 1.5,
    "cycleway": 2.0,
    "pedestrian": 5.0,
    "steps": 2.0,
    "bridleway": 2.0,
    "corridor": 2.0,
}
"""Widths [m] of paths without `width`."""
_MARKED = ("motorway", "main", "town")


@dataclass(eq=False)
class Street:
    """One way for vehicles or people."""

    feature: Feature
    line: Any
    """Centre line (Shapely LineString)."""
    width_m: float
    lanes: int
    kind: str
    """`motorway`, `main`, `town`, `quiet`, `bare` or `path`."""
    one_way: bool
    material: str
    sidewalks: tuple[float, float] = (0.0, 0.0)
    """Widths of the sidewalks on the left and right [m]."""
    area: Any = None
    """Carriageway."""

    @property
    def is_road(self) -> bool:
        """True for a carriageway."""
        return self.kind != "path"


@dataclass
class StreetNet:
    """Streets on the ground and on bridges."""

    ground: list[Street] = field(default_factory=list)
    bridges: list[tuple[Street, float]] = field(default_factory=list)
    """Streets on bridges, and the height of their decks above the ground [m]."""


def street_of(feature: Feature) -> list[Street]:
    """Streets of one feature; several if its geometry has several lines."""
    value = feature.tag("highway")
    railway_like = value in PATHS
    lanes_tag = feature.number("lanes")
    one_way = (
        feature.tag("oneway") in ("yes", "1", "true", "-1")
        or value in ("motorway", "motorway_link")
        or (feature.tag("junction") == "roundabout")
    )
    if railway_like:
        width = feature.metres("width", "est_width") or PATHS[value]
        default = (
            "asphalt"
            if value in ("cycleway", "footway", "pedestrian")
            else "gravel"
            if value != "steps"
            else "concrete"
        )
        lanes, kind = 1, "path"
        if feature.tag("footway") == "sidewalk" or value == "pedestrian":
            default = "concrete"
    else:
        lanes_default, kind = ROADS[value]
        if one_way and lanes_tag is None and lanes_default >= 2 and value != "motorway":
            lanes_default = lanes_default / 2
        lanes = int(lanes_tag) if lanes_tag and 1 <= lanes_tag <= 20 else max(1, int(lanes_default))
        lane_width = 3.75 if value in ("motorway", "trunk") else LANE_M
        width = feature.metres("width:carriageway", "width", "est_width") or 0.0
        if not 0.5 <= width <= 100.0:
            width = (lanes if lanes_tag else lanes_default) * lane_width
        default = "gravel" if value == "track" else "asphalt"
    width = float(np.clip(width, 0.3, 100.0))
    material = paving_of(feature.tag("surface"), default)
    sides = (0.0, 0.0) if railway_like else _sidewalks(feature)
    return [
        Street(feature, line_of(points), width, lanes, kind, one_way, material, sides)
        for points in line_parts(feature.shape)
    ]


def _sidewalks(feature: Feature) -> tuple[float, float]:
    value = feature.tag("sidewalk", "sidewalk:both")
    left = value in ("both", "left", "yes") or feature.tag("sidewalk:left") == "yes"
    right = value in ("both", "right", "yes") or feature.tag("sidewalk:right") == "yes"
    width = feature.metres("sidewalk:width", "sidewalk:both:width") or SIDEWALK_M
    return (
        (feature.metres("sidewalk:left:width") or width) if left else 0.0,
        (feature.metres("sidewalk:right:width") or width) if right else 0.0,
    )


def place_of(xy: Floats) -> tuple[int, int]:
    """Key of a point, the same for points within about a centimetre."""
    return round(float(xy[0]) * 100), round(float(xy[1]) * 100)


def ends_of(line: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    """Keys of the ends of a line."""
    xy = np.asarray(line.coords)
    return place_of(xy[0]), place_of(xy[-1])


# ---- carriageways ----------------------------------------------------------------------------------------------------


def carriageways(streets: Sequence[Street]) -> None:
    """Set the area of each street; ends that meet another street are rounded, so that corners have no gaps."""
    import shapely

    meetings: dict[tuple[int, int], list[float]] = defaultdict(list)
    for street in streets:
        for point in np.asarray(street.line.coords):
            meetings[place_of(point)].append(street.width_m)
    for street in streets:
        half = street.width_m / 2
        area = strip(street.line, half, half)
        joints = []
        for end in (street.line.coords[0], street.line.coords[-1]):
            others = meetings[place_of(np.array(end))]
            if len(others) > 1:
                # Of two streets that meet, the disc of the narrower one closes the corner.
                joints.append(shapely.buffer(shapely.Point(end), min(sorted(others)[-2], street.width_m) / 2))
        street.area = union([area, *joints])


# ---- markings --------------------------------------------------------------------------------------------------------


def markings(streets: Sequence[Street], crossings: Sequence[tuple[Floats, bool]]) -> Any:
    """Area of paint: centre, lane and edge lines, without those inside junctions, and zebra crossings.

    `crossings` are the positions of crossings, and True for those with bars.
    """
    import shapely

    at: dict[tuple[int, int], list[int]] = defaultdict(list)
    for k, street in enumerate(streets):
        for point in {place_of(point) for point in np.asarray(street.line.coords)}:
            at[point].append(k)
    painted = []
    for k, street in enumerate(streets):
        own = _lines_of(street)
        if not own:
            continue
        others = {
            j
            for point, rows in at.items()
            if k in rows and (len(rows) > 2 or _is_side_road(streets, k, rows, point))
            for j in rows
            if j != k
        }
        paint = common(union(own), street.area)
        junctions = [streets[j].area for j in sorted(others) if streets[j].is_road]
        painted.append(minus(paint, shapely.buffer(union(junctions), 0.5)) if junctions else paint)
    zebra = [bars for xy, barred in crossings if barred and (bars := _zebra(streets, xy)) is not None]
    if zebra:
        clear = shapely.buffer(union(zebra), 0.6).envelope if len(zebra) == 1 else shapely.buffer(union(zebra), 0.8)
        painted = [minus(union(painted), clear), *zebra] if painted else zebra
    return union(painted)


def _is_side_road(streets: Sequence[Street], k: int, rows: Sequence[int], point: tuple[int, int]) -> bool:
    """True if a point where two streets meet is inside of one of them, or they meet at more than 40 degrees."""
    if len(rows) < 2:
        return False
    if any(point not in ends_of(streets[j].line) for j in rows):
        return True
    headings = []
    for j in rows:
        xy = np.asarray(streets[j].line.coords)
        step = xy[1] - xy[0] if place_of(xy[0]) == point else xy[-2] - xy[-1]
        headings.append(step / np.hypot(*step))
    return bool(headings[0] @ headings[1] > -np.cos(np.radians(40.0)))


def _lines_of(street: Street) -> list[Any]:
    marking = street.feature.tag("lane_markings")
    if not street.is_road or marking == "no" or (street.kind not in _MARKED and marking != "yes"):
        return []
    line = np.asarray(street.line.coords)
    half = street.width_m / 2
    lane = street.width_m / max(street.lanes, 1)
    found = []
    for k in range(1, street.lanes):
        offset = half - k * lane
        solid = not street.one_way and street.lanes >= 4 and abs(offset) < 0.1
        found.append(_stripe(line, offset, None if solid else (DASH_M, GAP_M)))
    if street.kind in ("motorway", "main"):
        found += [_stripe(line, sign * (half - 0.25), None) for sign in (-1.0, 1.0)]
    return [stripe for stripe in found if stripe is not None]


def _stripe(line: Floats, offset: float, dashes: tuple[float, float] | None) -> Any:
    """Line of paint beside a centre line: solid, or with dashes of a length and gap [m]."""
    import shapely
    from shapely.ops import substring

    path = shapely.LineString(parallel(line, offset))
    if dashes is None:
        return strip(path, MARK_M / 2, MARK_M / 2)
    dash, gap = dashes
    starts = np.arange(gap / 2, path.length - dash / 2, dash + gap)
    pieces = [substring(path, float(s), float(min(s + dash, path.length))) for s in starts]
    pieces = [piece for piece in pieces if piece.geom_type == "LineString" and piece.length > 0.1]
    if not pieces:
        return None
    return shapely.buffer(shapely.multilinestrings(pieces), MARK_M / 2, cap_style="flat", join_style="mitre")


def _zebra(streets: Sequence[Street], xy: Floats) -> Any:
    """Bars of a crossing over the nearest road."""
    import shapely

    roads = [street for street in streets if street.is_road]
    point = shapely.Point(xy)
    if not roads:
        return None
    distance = shapely.distance(point, np.array([street.line for street in roads], dtype=object))
    street = roads[int(np.argmin(distance))]
    if distance.min() > street.width_m / 2 + 1.0:
        return None
    place = shapely.line_locate_point(street.line, point)
    a, b = (shapely.line_interpolate_point(street.line, max(0.0, place + s)) for s in (-0.5, 0.5))
    step = np.array([b.x - a.x, b.y - a.y])
    if np.hypot(*step) < 1e-6:
        return None
    ahead = step / np.hypot(*step)
    left = np.array([-ahead[1], ahead[0]])
    centre = np.array([(a.x + b.x) / 2, (a.y + b.y) / 2])
    count = max(2, int(street.width_m / 1.0))
    bars = []
    for k in range(count):
        y = (k - (count - 1) / 2) * (street.width_m / count)
        corners = [(-ZEBRA_M / 2, y - 0.25), (ZEBRA_M / 2, y - 0.25), (ZEBRA_M / 2, y + 0.25), (-ZEBRA_M / 2, y + 0.25)]
        bars.append(shapely.Polygon([centre + u * ahead + v * left for u, v in corners]))
    return common(union(bars), street.area)


# ---- bridges ---------------------------------------------------------------------------------------------------------


def ramps(net: StreetNet) -> dict[tuple[int, int], float]:
    """Heights [m] of the points of streets on the ground that lead to a bridge, by place: the deck's height at its
    ends, falling along the streets with the grade of a ramp."""
    rise: dict[tuple[int, int], float] = {}
    deck_points: dict[tuple[int, int], float] = {}
    for street, height in net.bridges:
        for end in ends_of(street.line):
            deck_points[end] = max(deck_points.get(end, 0.0), height)
    links: dict[tuple[int, int], list[tuple[tuple[int, int], float]]] = defaultdict(list)
    for street in net.ground:
        xy = np.asarray(street.line.coords)
        lengths = np.hypot(*np.diff(xy, axis=0).T)
        keys = [place_of(point) for point in xy]
        for a, b, length in zip(keys[:-1], keys[1:], lengths.tolist(), strict=True):
            links[a].append((b, length))
            links[b].append((a, length))
    heap = [(-height, place) for place, height in deck_points.items() if place in links]
    heapq.heapify(heap)
    while heap:
        low, place = heapq.heappop(heap)
        if -low <= rise.get(place, 0.0):
            continue
        rise[place] = -low
        for other, length in links[place]:
            height = -low - RAMP_GRADE * length
            if height > rise.get(other, 0.0):
                heapq.heappush(heap, (-height, other))
    return rise


def ramp_segments(net: StreetNet, rise: dict[tuple[int, int], float]) -> tuple[Floats, Floats]:
    """Segments (n, 2, 2) of streets on ramps, and heights at both ends (n, 2); cut where they reach the ground."""
    segments, heights = [], []
    for street in net.ground:
        xy = np.asarray(street.line.coords)
        for a, b in pairwise(xy):
            za, zb = rise.get(place_of(a), 0.0), rise.get(place_of(b), 0.0)
            if max(za, zb) <= 0:
                continue
            length = float(np.hypot(*(b - a)))
            # On a long segment, the ramp ends between its points.
            stations = np.unique(np.clip([0.0, za / RAMP_GRADE, length - zb / RAMP_GRADE, length], 0.0, length))
            z = np.maximum(np.maximum(za - RAMP_GRADE * stations, zb - RAMP_GRADE * (length - stations)), 0.0)
            points = a + (stations / length)[:, None] * (b - a)
            segments += [np.stack(pair) for pair in pairwise(points)]
            heights += list(pairwise(z))
    return np.array(segments).reshape(-1, 2, 2), np.array(heights).reshape(-1, 2)


class RampHeight:
    """Height of ramps at places: that of the nearest point of a centre line, 0 far from all ramps."""

    def __init__(self, segments: Floats, heights: Floats, reach_m: float) -> None:
        self.segments, self.heights, self.reach_m = segments, heights, reach_m

    def __call__(self, xy: Floats) -> Floats:
        """Heights (n,) at points (n, 2)."""
        if len(self.segments) == 0:
            return np.zeros(len(xy))
        start, step = self.segments[:, 0], self.segments[:, 1] - self.segments[:, 0]
        squared = np.maximum(np.sum(step**2, axis=1), 1e-12)
        found = np.zeros(len(xy))
        block = max(1, 2_000_000 // len(start))
        for first in range(0, len(xy), block):
            away = xy[first : first + block, None] - start
            share = np.clip(np.sum(away * step, axis=2) / squared, 0.0, 1.0)
            distance = np.linalg.norm(away - share[..., None] * step, axis=2)
            z = self.heights[:, 0] + share * (self.heights[:, 1] - self.heights[:, 0])
            near = distance.min(axis=1)
            # The highest of several nearest points, as at a junction.
            best = np.max(np.where(distance <= near[:, None] + 1e-6, z, 0.0), axis=1)
            found[first : first + block] = np.where(near <= self.reach_m, best, 0.0)
        return found
