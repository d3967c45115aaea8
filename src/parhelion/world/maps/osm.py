"""OpenStreetMap data, as XML (.osm) and as protocol buffers (.osm.pbf): nodes, ways and relations to features.

Format: https://wiki.openstreetmap.org/wiki/OSM_XML and https://wiki.openstreetmap.org/wiki/PBF_Format
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.reading import read_bytes
from parhelion.world.maps import pbf
from parhelion.world.maps.features import MOST_POINTS, RawMap
from parhelion.world.sources import Tally
from parhelion.world.xml import guarded_text

LARGEST_XML_BYTES = 512 * 1024 * 1024
_MOST_OBJECTS = 500_000
"""Largest number of ways, and of relations."""

_AREA_KEYS = {
    "building", "building:part", "landuse", "natural", "leisure", "amenity", "water", "area:highway", "man_made",
    "place", "shop", "tourism", "office", "historic", "power", "aeroway", "military", "craft", "harbour",
}  # fmt: skip
"""Keys whose closed ways are areas."""
_LINE_VALUES = {
    "natural": {"tree_row", "cliff", "coastline", "ridge", "arete", "earth_bank"},
    "man_made": {"embankment", "breakwater", "groyne", "dyke", "cutline", "pipeline"},
    "power": {"line", "minor_line", "cable"},
    "leisure": {"track", "slipway"},
    "aeroway": {"runway", "taxiway"},
}
_IGNORED_RELATIONS = {"multipolygon", "boundary", "building"}


@dataclass
class OsmData:
    """Content of a file: points in degrees, and lists of their numbers."""

    ids: list[int] = field(default_factory=list)
    lon: list[float] = field(default_factory=list)
    lat: list[float] = field(default_factory=list)
    node_tags: dict[int, dict[str, str]] = field(default_factory=dict)
    ways: dict[int, tuple[list[int], dict[str, str]]] = field(default_factory=dict)
    relations: dict[int, tuple[list[tuple[str, int, str]], dict[str, str]]] = field(default_factory=dict)
    """Members as type (`node`, `way`, `relation`), number and role, and tags."""
    bounds: tuple[float, float, float, float] | None = None

    def check_limits(self, file: Path) -> None:
        """Raise an error if the map has too many points or objects."""
        if len(self.ids) > MOST_POINTS:
            raise ConfigError(f"{file}: more than {MOST_POINTS} nodes; cut out the part that is needed")
        if max(len(self.ways), len(self.relations)) > _MOST_OBJECTS:
            raise ConfigError(f"{file}: more than {_MOST_OBJECTS} ways or relations; cut out the part that is needed")


def read_osm(file: Path, tally: Tally) -> RawMap:
    """Read the features of a .osm or .osm.pbf file; ways with missing nodes are counted in `tally`."""
    data = _from_pbf(file) if file.suffix.lower() == ".pbf" else _from_xml(file)
    data.check_limits(file)
    if not data.ids:
        raise FormatError(f"{file}: has no nodes")
    return _features(file, data, tally)


# ---- XML -------------------------------------------------------------------------------------------------------------


def _from_xml(file: Path) -> OsmData:
    text = guarded_text(file, LARGEST_XML_BYTES, what="a map; cut out the part that is needed")
    data = OsmData()
    parser = expat.ParserCreate()
    # State of the open element: its kind, number, tags, node numbers and members.
    current: dict[str, Any] = {}
    root: list[str] = []

    def fail(problem: str) -> FormatError:
        return FormatError(f"{file}: line {parser.CurrentLineNumber}: {problem}")

    def number(attributes: Mapping[str, str], name: str, kind: type) -> Any:
        value = attributes.get(name, "")
        try:
            found = kind(value)
        except ValueError:
            raise fail(f"{name} must be a number, got {value[:40]!r}") from None
        if not np.isfinite(found):
            raise fail(f"{name} must be finite, got {value[:40]!r}")
        return found

    def start(name: str, attributes: dict[str, str]) -> None:
        if not root:
            root.append(name)
            if name != "osm":
                raise fail(f"the root element must be <osm>, got <{name[:40]}>")
        if name in ("node", "way", "relation"):
            if attributes.get("action") == "delete" or attributes.get("visible") == "false":
                current.clear()
                return
            current.update(kind=name, id=number(attributes, "id", int), tags={}, refs=[], members=[])
            if name == "node":
                data.ids.append(current["id"])
                data.lon.append(number(attributes, "lon", float))
                data.lat.append(number(attributes, "lat", float))
                if len(data.ids) > MOST_POINTS:
                    raise ConfigError(f"{file}: more than {MOST_POINTS} nodes; cut out the part that is needed")
        elif name == "tag" and current:
            current["tags"][attributes.get("k", "")] = attributes.get("v", "")
        elif name == "nd" and current:
            current["refs"].append(number(attributes, "ref", int))
        elif name == "member" and current:
            member = (attributes.get("type", ""), number(attributes, "ref", int), attributes.get("role", ""))
            current["members"].append(member)
        elif name == "bounds":
            west, south, east, north = (
                number(attributes, key, float) for key in ("minlon", "minlat", "maxlon", "maxlat")
            )
            data.bounds = (west, south, east, north)

    def end(name: str) -> None:
        if name != current.get("kind"):
            return
        if name == "node" and current["tags"]:
            data.node_tags[current["id"]] = current["tags"]
        elif name == "way":
            data.ways[current["id"]] = (current["refs"], current["tags"])
        elif name == "relation":
            data.relations[current["id"]] = (current["members"], current["tags"])
        current.clear()

    parser.StartElementHandler, parser.EndElementHandler = start, end
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise FormatError(f"{file}: line {error.lineno}, column {error.offset + 1}: not whole XML ({reason})") from None
    return data


# ---- protocol buffers ------------------------------------------------------------------------------------------------


def _from_pbf(file: Path) -> OsmData:
    content = read_bytes(file, ConfigError, largest=pbf.LARGEST_FILE_BYTES, what="a map; cut out a part")
    data = OsmData()
    for block in pbf.blocks(file, content):
        if block.bounds is not None:
            data.bounds = block.bounds
        data.ids += block.ids
        data.lon += block.lon
        data.lat += block.lat
        data.node_tags.update(block.node_tags)
        data.ways.update(block.ways)
        data.relations.update(block.relations)
        data.check_limits(file)
    return data


# ---- features --------------------------------------------------------------------------------------------------------


def _features(file: Path, data: OsmData, tally: Tally) -> RawMap:
    import shapely

    xy = np.column_stack([data.lon, data.lat])
    row = {number: k for k, number in enumerate(data.ids)}
    raw = RawMap(str(file), bounds=data.bounds)
    for number, tags in data.node_tags.items():
        raw.add(f"node {number}", tags, shapely.Point(xy[row[number]]))
    in_relation = set()
    for number, (members, tags) in data.relations.items():
        if tags.get("type") not in _IGNORED_RELATIONS or not _is_area(tags):
            kind = f"relation type={tags.get('type', '(none)')}"
            tally.omit(kind, "relations other than areas are not needed for geometry")
            continue
        used, shape = _multipolygon(data, row, xy, members, tags)
        if shape is None:
            tally.omit(f"relation {_main_tag(tags)}", "its rings are incomplete in this file")
            continue
        in_relation |= used
        raw.add(f"relation {number}", {k: v for k, v in tags.items() if k != "type"}, shape)
    for number, (refs, tags) in data.ways.items():
        if not tags:
            continue
        known = [row[ref] for ref in refs if ref in row]
        if len(known) < len(refs):
            tally.omit(f"way {_main_tag(tags)}: missing nodes", "points outside of the extract", len(refs) - len(known))
        if len(known) < 2:
            tally.omit(f"way {_main_tag(tags)}", "fewer than two of its nodes are in this file")
            continue
        closed = len(refs) >= 4 and refs[0] == refs[-1] and len(known) == len(refs)
        if closed and _is_area(tags):
            if number in in_relation and tags.keys() <= {"source", "note"}:
                continue
            raw.add(f"way {number}", tags, shapely.Polygon(xy[known]))
        else:
            raw.add(f"way {number}", tags, shapely.LineString(xy[known]))
    return raw


def _is_area(tags: Mapping[str, str]) -> bool:
    if tags.get("area") in ("yes", "no"):
        return tags["area"] == "yes"
    if tags.get("waterway") in ("riverbank", "dock", "boatyard") or tags.get("railway") in ("platform", "station"):
        return True
    return any(key in tags and tags[key] not in _LINE_VALUES.get(key, ()) for key in _AREA_KEYS)


def _main_tag(tags: Mapping[str, str]) -> str:
    key = next((key for key in (*sorted(_AREA_KEYS), "highway", "railway", "waterway", "barrier") if key in tags), "")
    return f"{key}={tags[key]}" if key else next((f"{k}={v}" for k, v in tags.items()), "(no tags)")


def _multipolygon(
    data: OsmData, row: Mapping[int, int], xy: Any, members: list[tuple[str, int, str]], tags: Mapping[str, str]
) -> tuple[set[int], Any]:
    """Numbers of the used ways, and the area of their rings with holes; None if a ring is not closed."""
    import shapely

    used = {number for kind, number, _ in members if kind == "way"}
    lines = []
    for kind, number, role in members:
        if kind != "way" or (tags.get("type") == "building" and role not in ("outline", "outer")):
            continue
        refs = data.ways.get(number, ([], {}))[0]
        if not refs or any(ref not in row for ref in refs):
            return used, None
        lines.append(refs)
    rings = list(_rings(lines))
    if not rings or any(ring[0] != ring[-1] or len(ring) < 4 for ring in rings):
        return used, None
    # The even-odd rule: roles are often wrong, and a ring inside a hole is an outer ring again.
    shape = shapely.Polygon(xy[[row[ref] for ref in rings[0]]])
    shape = shape if shape.is_valid else shapely.make_valid(shape)
    for ring in rings[1:]:
        other = shapely.Polygon(xy[[row[ref] for ref in ring]])
        shape = shapely.symmetric_difference(shape, other if other.is_valid else shapely.make_valid(other))
    return used, shape


def _rings(lines: list[list[int]]) -> Iterator[list[int]]:
    """Join open ways at their ends to rings; the last one may remain open."""
    rest = [list(line) for line in lines]
    at_end: dict[int, list[int]] = {}
    for k, line in enumerate(rest):
        if line[0] != line[-1]:
            at_end.setdefault(line[0], []).append(k)
            at_end.setdefault(line[-1], []).append(k)
    done: set[int] = set()
    for k, line in enumerate(rest):
        if k in done:
            continue
        done.add(k)
        while line[0] != line[-1]:
            following = next((j for j in at_end.get(line[-1], ()) if j not in done), None)
            if following is None:
                break
            done.add(following)
            more = rest[following]
            line = line + (more[1:] if more[0] == line[-1] else more[-2::-1])
        yield line
