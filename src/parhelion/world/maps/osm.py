"""OpenStreetMap data, as XML (.osm) and as protocol buffers (.osm.pbf): nodes, ways and relations to features.

Format: https://wiki.openstreetmap.org/wiki/OSM_XML and https://wiki.openstreetmap.org/wiki/PBF_Format
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.reading import UnpackingBudget, read_bytes
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

# The wire format has five types of fields; only variable-length integers and byte strings occur in these files.
# Format: https://wiki.openstreetmap.org/wiki/PBF_Format

LARGEST_PBF_BYTES = 512 * 1024 * 1024
_LARGEST_HEADER, _LARGEST_BLOB = 64 * 1024, 32 * 1024 * 1024
"""Limits of the format [bytes]: header of a blob, and its unpacked content."""
_SUPPORTED = {"OsmSchema-V0.6", "DenseNodes", "HistoricalInformation"}
_MEMBER_KINDS = ("node", "way", "relation")


def _from_pbf(file: Path) -> OsmData:
    content = read_bytes(file, ConfigError, largest=LARGEST_PBF_BYTES, what="a map; cut out a part")
    data = OsmData()
    for block in _blocks(file, content):
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


def _blocks(file: Path, content: bytes) -> Iterator[OsmData]:
    """Yield the blocks of a file; the first one holds only its bounds."""
    budget = UnpackingBudget(file, len(content), once=_LARGEST_BLOB)
    place, first = 0, True
    while place < len(content):
        if place + 4 > len(content):
            raise FormatError(f"{file}: not a whole .pbf file: it ends within a block")
        size = int.from_bytes(content[place : place + 4], "big")
        if size > _LARGEST_HEADER or place + 4 + size > len(content):
            raise FormatError(f"{file}: not a .pbf file of OpenStreetMap, or not whole: a header of {size} bytes")
        header = _fields(file, content[place + 4 : place + 4 + size])
        place += 4 + size
        kind, length = bytes(_last(header, 1, b"")), int(_last(header, 3, 0))
        if place + length > len(content):
            raise FormatError(f"{file}: not a whole .pbf file: it ends within a block")
        data = _unpacked(file, content[place : place + length], budget)
        place += length
        if first and kind != b"OSMHeader":
            raise FormatError(f"{file}: not a .pbf file of OpenStreetMap: its first block is no header")
        first = False
        if kind == b"OSMHeader":
            yield _header(file, data)
        elif kind == b"OSMData":
            yield _primitives(file, data)


def _unpacked(file: Path, blob: bytes, budget: UnpackingBudget) -> bytes:
    fields = _fields(file, blob)
    if 1 in fields:
        raw = bytes(_last(fields, 1, b""))
        budget.spend(len(raw))
        return raw
    if 3 not in fields:
        raise FormatError(f"{file}: its blocks must be raw or packed with zlib; convert it with osmium cat -f pbf")
    size = int(_last(fields, 2, 0))
    budget.spend(size)
    inflater = zlib.decompressobj()
    data = inflater.decompress(bytes(_last(fields, 3, b"")), size + 1)
    if len(data) != size:
        raise FormatError(f"{file}: a block unpacks to another size than it states")
    return data


def _header(file: Path, data: bytes) -> OsmData:
    fields = _fields(file, data)
    for name in fields.get(4, []):
        if bytes(name).decode("utf-8", "replace") not in _SUPPORTED:
            raise FormatError(f"{file}: needs the feature {bytes(name)[:40]!r}, which is not supported")
    block = OsmData()
    if 1 in fields:
        box = _fields(file, fields[1][-1])
        left, right, top, bottom = (_zigzag_one(int(_last(box, k, 0))) * 1e-9 for k in (1, 2, 3, 4))
        block.bounds = (left, bottom, right, top)
    return block


def _primitives(file: Path, data: bytes) -> OsmData:
    fields = _fields(file, data)
    texts = [bytes(text).decode("utf-8", "replace") for text in _fields(file, _last(fields, 1, b"")).get(1, [])]
    granularity = int(_last(fields, 17, 100))
    lat_offset, lon_offset = (_signed(int(_last(fields, k, 0))) for k in (19, 20))

    def text(row: int) -> str:
        if not 0 <= row < len(texts):
            raise FormatError(f"{file}: refers to text {row} of {len(texts)}")
        return texts[row]

    block = OsmData()

    def degrees(values: NDArray[np.int64], offset: int) -> list[float]:
        return (1e-9 * (offset + granularity * values.astype(np.float64))).tolist()

    def tags(message: dict[int, list[Any]]) -> dict[str, str]:
        keys, values = _packed(file, message, 2), _packed(file, message, 3)
        return {text(int(k)): text(int(v)) for k, v in zip(keys, values, strict=False)}

    for group in fields.get(2, []):
        parts = _fields(file, group)
        for raw in parts.get(1, []):
            node = _fields(file, raw)
            number = _zigzag_one(int(_last(node, 1, 0)))
            block.ids.append(number)
            block.lat += degrees(np.array([_zigzag_one(int(_last(node, 8, 0)))]), lat_offset)
            block.lon += degrees(np.array([_zigzag_one(int(_last(node, 9, 0)))]), lon_offset)
            if found := tags(node):
                block.node_tags[number] = found
        for raw in parts.get(2, []):
            dense = _fields(file, raw)
            ids = np.cumsum(_zigzag(_packed(file, dense, 1)))
            lat, lon = (np.cumsum(_zigzag(_packed(file, dense, k))) for k in (8, 9))
            if not len(ids) == len(lat) == len(lon):
                raise FormatError(f"{file}: nodes with {len(ids)} numbers, {len(lat)} and {len(lon)} coordinates")
            block.ids += ids.tolist()
            block.lat += degrees(lat, lat_offset)
            block.lon += degrees(lon, lon_offset)
            _dense_tags(block, ids.tolist(), _packed(file, dense, 10).tolist(), text)
        for raw in parts.get(3, []):
            way = _fields(file, raw)
            refs = np.cumsum(_zigzag(_packed(file, way, 8))).tolist()
            block.ways[int(_last(way, 1, 0))] = (refs, tags(way))
        for raw in parts.get(4, []):
            relation = _fields(file, raw)
            roles, kinds = _packed(file, relation, 8).tolist(), _packed(file, relation, 10).tolist()
            refs = np.cumsum(_zigzag(_packed(file, relation, 9))).tolist()
            members = [
                (_MEMBER_KINDS[kind] if 0 <= kind < 3 else "", ref, text(role))
                for role, ref, kind in zip(roles, refs, kinds, strict=False)
            ]
            block.relations[int(_last(relation, 1, 0))] = (members, tags(relation))
    return block


def _dense_tags(block: OsmData, ids: list[int], pairs: list[int], text: Any) -> None:
    """Keys and values of all nodes in a row, each node closed by a zero."""
    node, k = 0, 0
    while k < len(pairs) and node < len(ids):
        if pairs[k] == 0:
            node, k = node + 1, k + 1
        elif k + 1 < len(pairs):
            block.node_tags.setdefault(ids[node], {})[text(pairs[k])] = text(pairs[k + 1])
            k += 2
        else:
            return


# ---- wire format -----------------------------------------------------------------------------------------------------


def _fields(file: Path, data: bytes) -> dict[int, list[Any]]:
    """Values by field number: integers, or bytes."""
    found: dict[int, list[Any]] = {}
    place, view = 0, memoryview(data)
    while place < len(view):
        key, place = _varint(file, view, place)
        number, kind = key >> 3, key & 7
        value: Any
        if kind == 0:
            value, place = _varint(file, view, place)
        elif kind == 2:
            size, place = _varint(file, view, place)
            if place + size > len(view):
                raise FormatError(f"{file}: not a whole .pbf file: a field is longer than its block")
            value, place = view[place : place + size], place + size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, place = view[place : place + size], place + size
        else:
            raise FormatError(f"{file}: not a .pbf file of OpenStreetMap: a field of type {kind}")
        found.setdefault(number, []).append(value)
    return found


def _varint(file: Path, view: memoryview, place: int) -> tuple[int, int]:
    value, shift = 0, 0
    while place < len(view) and shift < 70:
        byte = view[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
    raise FormatError(f"{file}: not a whole .pbf file: a number does not end")


def _last(fields: dict[int, list[Any]], number: int, default: Any) -> Any:
    return fields[number][-1] if number in fields else default


def _packed(file: Path, fields: dict[int, list[Any]], number: int) -> NDArray[np.uint64]:
    """Integers of a packed field, decoded all at once."""
    parts = [np.frombuffer(part, np.uint8) for part in fields.get(number, []) if isinstance(part, memoryview)]
    data = np.concatenate(parts) if parts else np.zeros(0, np.uint8)
    if len(data) == 0:
        return np.zeros(0, np.uint64)
    last = np.flatnonzero(data < 0x80)
    if len(last) == 0 or last[-1] != len(data) - 1:
        raise FormatError(f"{file}: not a whole .pbf file: a number does not end")
    first = np.concatenate([[0], last[:-1] + 1])
    position = np.arange(len(data)) - np.repeat(first, last - first + 1)
    if position.max() > 9:
        raise FormatError(f"{file}: not a .pbf file of OpenStreetMap: a number of more than ten bytes")
    shifted = (data & 0x7F).astype(np.uint64) << (7 * position).astype(np.uint64)
    return np.bitwise_or.reduceat(shifted, first)


def _zigzag(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    return (values >> np.uint64(1)).astype(np.int64) ^ -(values & np.uint64(1)).astype(np.int64)


def _zigzag_one(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


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
