"""Reader of OpenDRIVE files (.xodr): roads, lanes, junctions, objects and signals as plain data.

Source: ASAM OpenDRIVE 1.6; files of 1.4 and 1.5 have the same elements.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from parhelion.core.errors import ConfigError, FormatError
from parhelion.world.roads.curves import Cubics, Element, ReferenceLine
from parhelion.world.sources import GeoOrigin, Tally
from parhelion.world.xml import Node, guarded_text, parse_xml

_LARGEST_BYTES = 64 * 1024 * 1024
MOST_LENGTH_M = 200_000.0
MOST_WIDTH_M = 1000.0
"""Largest width of a lane, and distance of its border from the reference line."""
_FARTHEST_M = 1e6


@dataclass(frozen=True, eq=False)
class RoadMark:
    """Paint on the outer border of a lane, from a station within its section."""

    s: float
    kind: str
    width_m: float
    colour: str


@dataclass(eq=False)
class RoadLane:
    """One lane of a section. Numbers are negative right of the reference line, and positive left of it."""

    number: int
    kind: str
    width: Cubics
    border: Cubics | None
    marks: list[RoadMark] = field(default_factory=list)
    heights: list[tuple[float, float, float]] = field(default_factory=list)
    """Station in the section, and height of the inner and outer border above the road [m]."""
    speed_m_s: float | None = None
    before: int | None = None
    after: int | None = None
    material: str = ""


@dataclass(eq=False)
class Section:
    """Lanes from a station on."""

    s: float
    end: float
    lanes: dict[int, RoadLane]


@dataclass(frozen=True)
class Link:
    """Neighbour of a road at its start or end."""

    kind: str
    """`road` or `junction`."""
    number: str
    contact: str
    """`start` or `end` of the neighbour."""


@dataclass(frozen=True)
class RoadObject:
    """An object or a signal beside a road."""

    kind: str
    name: str
    s: float
    t: float
    z: float
    heading: float
    """Relative to the road [rad]."""
    size: tuple[float, float, float]
    """Length, width and height [m]; 0 where not given."""
    radius: float
    corners: tuple[tuple[float, float, float, float], ...] = ()
    """Corners of an outline in the frame of the object: u, v, z and height [m]."""
    repeat: tuple[float, float, float] | None = None
    """First station, length and distance of repeated objects [m]."""
    signal: str = ""
    facing: str = ""
    """Direction of traffic that a signal is for: + along the road, - against it."""


@dataclass(eq=False)
class Road:
    """One road."""

    number: str
    name: str
    length: float
    junction: str
    line: ReferenceLine
    elevation: Cubics
    superelevation: Cubics
    offset: Cubics
    sections: list[Section]
    before: Link | None
    after: Link | None
    left_hand: bool
    speed_m_s: float | None
    objects: list[RoadObject] = field(default_factory=list)

    @property
    def in_junction(self) -> bool:
        """True for a connection within a junction."""
        return self.junction not in ("", "-1")


@dataclass(frozen=True)
class Connection:
    """Way through a junction."""

    incoming: str
    connecting: str
    contact: str
    lanes: tuple[tuple[int, int], ...]


@dataclass(eq=False)
class RoadNetwork:
    """Content of a file."""

    roads: dict[str, Road]
    junctions: dict[str, list[Connection]]
    origin: GeoOrigin | None


def read_opendrive(file: Path, tally: Tally) -> RoadNetwork:
    """Read a .xodr file; elements that are not used are counted in `tally`."""
    root = Node(parse_xml(file, guarded_text(file, _LARGEST_BYTES, what="a road network")), file)
    if root.tag != "OpenDRIVE":
        raise FormatError(f"{file}: the root element must be <OpenDRIVE>, got <{root.tag[:40]}>")
    roads = {}
    for node in root.children("road"):
        road = _road(node, tally)
        if road.number in roads:
            raise node.fail(f"the road number {road.number!r} is used twice")
        roads[road.number] = road
    if not roads:
        raise FormatError(f"{file}: has no roads")
    total = sum(road.length for road in roads.values())
    if total > MOST_LENGTH_M:
        raise ConfigError(f"{file}: its roads are {total / 1000:.0f} km long; the limit is {MOST_LENGTH_M / 1000:g} km")
    junctions = {node.attribute("id"): _connections(node) for node in root.children("junction")}
    for tag in ("controller", "junctionGroup", "station"):
        tally.omit(f"<{tag}>", "not needed for geometry", len(root.children(tag)))
    return RoadNetwork(roads, junctions, _origin(root, tally))


def _text(node: Node, name: str, default: str = "") -> str:
    return (node.element.get(name) or default).strip()


def _station(node: Node, name: str, default: float | None = None) -> float:
    value = node.number(name, default)
    if abs(value) > _FARTHEST_M:
        raise node.fail(f"{name} must lie within {_FARTHEST_M:g} m, got {value:g}")
    return value


def _cubics(nodes: list[Node], start: str = "s", shift: float = 0.0) -> Cubics:
    return Cubics.of([[node.number(start) + shift, *(node.number(k) for k in "abcd")] for node in nodes])


def _road(node: Node, tally: Tally) -> Road:
    length = node.positive("length")[0]
    if length > MOST_LENGTH_M:
        raise node.fail(f"length must be at most {MOST_LENGTH_M:g} m, got {length:g}")
    plan = node.needed("planView")
    elements = tuple(_element(one) for one in plan.children("geometry"))
    if not elements:
        raise plan.fail("needs an element <geometry>")
    elevation, lateral = node.child("elevationProfile"), node.child("lateralProfile")
    lanes = node.needed("lanes")
    if lateral is not None:
        tally.omit("<shape> of a lateral profile", "only superelevation is used", len(lateral.children("shape")))
    sections = lanes.children("laneSection")
    if not sections:
        raise lanes.fail("needs an element <laneSection>")
    starts = [section.number("s") for section in sections]
    ends = [*starts[1:], length]
    link = node.child("link")
    types = [speed for kind in node.children("type") if (speed := _speed(kind.child("speed"))) is not None]
    road = Road(
        node.attribute("id"),
        _text(node, "name"),
        length,
        _text(node, "junction", "-1"),
        ReferenceLine(tuple(sorted(elements, key=lambda one: one.s))),
        _cubics(elevation.children("elevation") if elevation else []),
        _cubics(lateral.children("superelevation") if lateral else []),
        _cubics(lanes.children("laneOffset")),
        [_section(one, s, end) for one, s, end in zip(sections, starts, ends, strict=True) if end > s],
        _link(link.child("predecessor") if link else None, "end"),
        _link(link.child("successor") if link else None, "start"),
        _text(node, "rule") == "LHT",
        types[0] if types else None,
    )
    if not road.sections:
        raise lanes.fail(f"its sections begin beyond the length of the road, {length:g} m")
    for name, child in (("objects", "object"), ("signals", "signal")):
        holder = node.child(name)
        for one in holder.children() if holder else []:
            if one.tag == child:
                road.objects.append(_object(one, child))
            else:
                tally.omit(f"<{one.tag}>", "references are not needed for geometry")
    for name in ("railroad", "surface"):
        tally.omit(f"<{name}> of a road", "not supported", len(node.children(name)))
    return road


def _element(node: Node) -> Element:
    s, x, y = (_station(node, name) for name in ("s", "x", "y"))
    base = (s, x, y, node.number("hdg"), node.positive("length")[0])
    for kind in ("line", "arc", "spiral", "poly3", "paramPoly3"):
        shape = node.child(kind)
        if shape is None:
            continue
        names = {
            "line": (), "arc": ("curvature",), "spiral": ("curvStart", "curvEnd"), "poly3": tuple("abcd"),
            "paramPoly3": ("aU", "bU", "cU", "dU", "aV", "bV", "cV", "dV"),
        }[kind]  # fmt: skip
        values = tuple(shape.number(name) for name in names)
        return Element(
            *base, kind, values, kind == "paramPoly3" and _text(shape, "pRange", "normalized") == "normalized"
        )
    raise node.fail("needs one of line, arc, spiral, poly3, paramPoly3")


def _section(node: Node, s: float, end: float) -> Section:
    lanes = {}
    for side in ("left", "center", "right"):
        holder = node.child(side)
        for one in holder.children("lane") if holder else []:
            lane = _lane(one, s)
            if (lane.number > 0) != (side == "left") or (lane.number < 0) != (side == "right"):
                raise one.fail(f"lane {lane.number} must not be in <{side}>")
            stations = np.linspace(s, end, 1 + max(1, min(1000, int(end - s))))
            widest = max(float(np.max(np.abs(profile(stations)))) for profile in (lane.width, lane.border) if profile)
            if not widest <= MOST_WIDTH_M:
                raise one.fail(f"lane {lane.number} must be at most {MOST_WIDTH_M:g} m wide, got {widest:g} m")
            lanes[lane.number] = lane
    return Section(s, end, lanes)


def _lane(node: Node, s: float) -> RoadLane:
    number = int(node.number("id"))
    borders = node.children("border")
    link = node.child("link")

    def linked(name: str) -> int | None:
        child = link.child(name) if link else None
        return int(child.number("id")) if child is not None else None

    marks = []
    for mark in node.children("roadMark"):
        kind = _text(mark, "type", "none").replace("_", " ")
        width = mark.number("width", 0.25 if _text(mark, "weight") == "bold" else 0.12)
        marks.append(RoadMark(s + mark.number("sOffset", 0.0), kind, min(max(width, 0.02), 1.0), _text(mark, "color")))
    speeds = [speed for one in node.children("speed") if (speed := _speed(one)) is not None]
    materials = [_text(one, "surface") for one in node.children("material")]
    return RoadLane(
        number,
        _text(node, "type", "none"),
        _cubics(node.children("width"), "sOffset", s),
        _cubics(borders, "sOffset", s) if borders and not node.children("width") else None,
        sorted(marks, key=lambda mark: mark.s),
        [
            (s + one.number("sOffset", 0.0), one.number("inner", 0.0), one.number("outer", 0.0))
            for one in node.children("height")
        ],
        speeds[0] if speeds else None,
        linked("predecessor"),
        linked("successor"),
        materials[0] if materials else "",
    )


def _speed(node: Node | None) -> float | None:
    if node is None or not re.fullmatch(r"\d+(\.\d+)?", _text(node, "max")):
        return None
    factor = {"m/s": 1.0, "km/h": 1 / 3.6, "mph": 0.44704, "": 1.0}.get(_text(node, "unit"), 1.0)
    speed = float(_text(node, "max")) * factor
    return speed if 0 < speed < 200 else None


def _link(node: Node | None, default: str) -> Link | None:
    if node is None:
        return None
    kind = _text(node, "elementType", "road")
    return Link(kind, node.attribute("elementId"), _text(node, "contactPoint", default))


def _object(node: Node, tag: str) -> RoadObject:
    is_signal = tag == "signal"
    size = tuple(abs(node.number(name, 0.0)) for name in ("length", "width", "height"))
    if max(size) > 1000.0:
        raise node.fail(f"length, width and height must be at most 1000 m, got {max(size):g}")
    repeat = node.child("repeat")
    rows = None
    if repeat is not None:
        rows = (_station(repeat, "s"), _station(repeat, "length"), max(repeat.number("distance", 0.0), 0.0))
    outline = node.child("outline") or (node.child("outlines").child("outline") if node.child("outlines") else None)  # type: ignore[union-attr]
    corners = tuple(
        (one.number("u"), one.number("v"), one.number("z", 0.0), one.number("height", 0.0))
        for one in (outline.children("cornerLocal") if outline else [])
    )
    heading = node.number("hOffset" if is_signal else "hdg", 0.0)
    kind = _text(node, "type", "none")
    signal = f"{kind}{'-' + _text(node, 'subtype') if _text(node, 'subtype') not in ('', '-1', 'none') else ''}"
    return RoadObject(
        "signal" if is_signal else kind,
        _text(node, "name"),
        _station(node, "s"),
        _station(node, "t"),
        _station(node, "zOffset", 0.0),
        heading,
        (size[0], size[1], size[2]),
        abs(node.number("radius", 0.0)),
        corners,
        rows,
        ("light" if _text(node, "dynamic") == "yes" else signal) if is_signal else "",
        _text(node, "orientation", "none"),
    )


def _connections(node: Node) -> list[Connection]:
    found = []
    for one in node.children("connection"):
        lanes = tuple((int(row.number("from")), int(row.number("to"))) for row in one.children("laneLink"))
        if one.element.get("connectingRoad"):
            row = (one.attribute("incomingRoad"), one.attribute("connectingRoad"), _text(one, "contactPoint", "start"))
            found.append(Connection(*row, lanes))
    return found


def _origin(root: Node, tally: Tally) -> GeoOrigin | None:
    header = root.child("header")
    geo = header.child("geoReference") if header else None
    text = (geo.element.text or "") if geo is not None else ""
    if not text.strip():
        return None
    values = {key: float(value) for key, value in re.findall(r"\+(lat_0|lon_0|x_0|y_0)=([+-]?\d+(?:\.\d+)?)", text)}
    is_local = "+proj=tmerc" in text and {"lat_0", "lon_0"} <= values.keys()
    if not is_local or values.get("x_0") or values.get("y_0") or not math.isfinite(sum(values.values())):
        tally.omit("<geoReference>", "only a transverse Mercator projection about the origin is supported")
        return None
    if abs(values["lat_0"]) > 90 or abs(values["lon_0"]) > 180:
        raise geo.fail("lat_0 and lon_0 must be a latitude and longitude")  # type: ignore[union-attr]
    return GeoOrigin(latitude_deg=values["lat_0"], longitude_deg=values["lon_0"])
