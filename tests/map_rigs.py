"""A map with every class of tags, written by hand: plots of 60 m side by side, each with one kind of content."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import quoteattr

LATITUDE, LONGITUDE = 52.5, 13.3


def degrees(x: float, y: float) -> tuple[float, float]:
    """Longitude and latitude of a place [m] from the origin of the fixture."""
    from pymap3d import enu2geodetic

    lat, lon, _ = enu2geodetic(x, y, 0.0, LATITUDE, LONGITUDE, 0.0)
    return float(lon), float(lat)


@dataclass
class MapWriter:
    """Collects nodes, ways and relations in metres, and writes them as OSM XML."""

    nodes: list[tuple[float, float, dict[str, str]]] = field(default_factory=list)
    ways: list[tuple[list[int], dict[str, str]]] = field(default_factory=list)
    relations: list[tuple[list[tuple[int, str]], dict[str, str]]] = field(default_factory=list)
    known: dict[tuple[float, float], int] = field(default_factory=dict)

    def node(self, x: float, y: float, **tags: str) -> int:
        """Number of the node at a place; nodes of one place are shared."""
        place = (round(x, 3), round(y, 3))
        if place not in self.known:
            self.nodes.append((*place, {}))
            self.known[place] = len(self.nodes)
        number = self.known[place]
        self.nodes[number - 1][2].update({key.replace("__", ":"): value for key, value in tags.items()})
        return number

    def way(self, points: Sequence[tuple[float, float]], closed: bool = False, **tags: str) -> int:
        """Number of a new way."""
        refs = [self.node(*point) for point in points]
        self.ways.append((refs + refs[:1] if closed else refs, {k.replace("__", ":"): v for k, v in tags.items()}))
        return len(self.ways)

    def box(self, x: float, y: float, length: float, width: float, **tags: str) -> int:
        """Number of a closed way: a rectangle from its lower left corner."""
        corners = [(x, y), (x + length, y), (x + length, y + width), (x, y + width)]
        return self.way(corners, closed=True, **tags)

    def relation(self, members: Sequence[tuple[int, str]], **tags: str) -> None:
        """Add a relation of ways with roles."""
        self.relations.append((list(members), {k.replace("__", ":"): v for k, v in tags.items()}))

    def lines(self) -> Iterator[str]:
        """Lines of the XML file."""
        yield '<?xml version="1.0" encoding="UTF-8"?>\n<osm version="0.6">'
        for number, (x, y, tags) in enumerate(self.nodes, start=1):
            lon, lat = degrees(x, y)
            yield f'<node id="{number}" lat="{lat:.9f}" lon="{lon:.9f}">{_tags(tags)}</node>'
        for number, (refs, tags) in enumerate(self.ways, start=1):
            yield f'<way id="{number}">{"".join(f"<nd ref={quoteattr(str(ref))}/>" for ref in refs)}{_tags(tags)}</way>'
        for number, (members, tags) in enumerate(self.relations, start=1):
            rows = "".join(f'<member type="way" ref="{ref}" role="{role}"/>' for ref, role in members)
            yield f'<relation id="{number}">{rows}{_tags(tags)}</relation>'
        yield "</osm>"

    def save(self, file: Path) -> Path:
        """Write the file."""
        file.write_text("\n".join(self.lines()), encoding="utf-8")
        return file


def _tags(tags: dict[str, str]) -> str:
    return "".join(f"<tag k={quoteattr(key)} v={quoteattr(value)}/>" for key, value in tags.items())


ROOFS = ("flat", "gabled", "hipped", "pyramidal", "skillion", "gambrel", "mansard", "round", "dome")


def every_class() -> MapWriter:
    """Map of the fixture."""
    m = MapWriter()
    # Row 0: buildings with all roofs, 20 x 12 m, 9 m high to the top, 6 m to the eaves.
    for k, roof in enumerate(ROOFS):
        m.box(
            40.0 * k,
            0.0,
            20.0,
            12.0,
            building="house",
            height="9",
            roof__shape=roof,
            roof__height="0" if roof == "flat" else "3",
            building__colour="#c08040" if k % 2 else "yellow",
            roof__colour="red",
        )
    m.box(360.0, 0.0, 30.0, 30.0, building="tower")
    m.box(360.0, 0.0, 30.0, 15.0, building__part="yes", height="12")
    m.box(360.0, 15.0, 30.0, 15.0, building__part="yes", height="20", min_height="8")
    outer = m.box(420.0, 0.0, 40.0, 40.0)
    inner = m.box(430.0, 10.0, 20.0, 20.0)
    m.relation([(outer, "outer"), (inner, "inner")], type="multipolygon", building="apartments", building__levels="5")
    # Row 1: streets. Two roads that cross, a T-junction, sidewalks, a path.
    m.way([(0, 100), (100, 100), (200, 100)], highway="primary", lanes="4", width="14")
    m.way(
        [(100, 60), (100, 100), (100, 160)],
        highway="secondary",
        lanes="2",
        width="7",
        sidewalk="both",
        sidewalk__width="2",
    )
    m.way([(200, 100), (260, 100)], highway="residential", width="6")
    m.way([(230, 100), (230, 140)], highway="service", width="4", surface="gravel")
    m.way([(0, 150), (60, 150)], highway="footway", width="2.5")
    m.way([(0, 156), (60, 156)], highway="cycleway", width="2")
    m.node(100, 130, highway="crossing", crossing="zebra")
    m.node(20, 108.5, highway="street_lamp", height="6")
    m.node(110, 108.5, highway="traffic_signals")
    m.node(30, 160, amenity="bench")
    # Row 2: a bridge over a canal, with ramps.
    m.way([(300, 130), (440, 130)], highway="tertiary", width="8")
    m.way([(440, 130), (500, 130)], highway="tertiary", width="8", bridge="yes", layer="1")
    m.way([(500, 130), (640, 130)], highway="tertiary", width="8")
    m.way([(470, 60), (470, 230)], waterway="canal", width="30")
    m.way([(300, 60), (440, 60)], highway="motorway", tunnel="yes")
    # Row 3: water and land.
    m.box(0, 200, 40, 40, natural="water", water="basin", depth="3")
    lake = m.box(60, 200, 60, 50)
    island = m.box(80, 215, 20, 20)
    m.relation([(lake, "outer"), (island, "inner")], type="multipolygon", natural="water", water="lake")
    for k, (key, value) in enumerate(
        [
            ("landuse", "grass"),
            ("landuse", "forest"),
            ("natural", "sand"),
            ("natural", "scrub"),
            ("landuse", "farmland"),
            ("leisure", "park"),
            ("amenity", "parking"),
            ("natural", "beach"),
        ]
    ):
        m.box(140.0 + 40 * k, 200.0, 30.0, 30.0, **{key: value})
    m.box(345, 205, 10, 10, natural="water", water="pond")  # in the park
    # Row 4: railways, barriers, trees.
    m.way([(0, 280), (200, 280)], railway="rail")
    m.way([(0, 290), (100, 290)], railway="tram")
    m.way([(100, 265), (100, 278), (100, 310)], highway="service", width="4")
    m.way([(220, 280), (260, 280), (260, 300)], barrier="wall", height="2", width="0.3")
    m.way([(280, 280), (310, 280)], barrier="fence")
    m.way([(320, 280), (350, 280)], barrier="hedge", height="1.6", width="1")
    m.way([(360, 280), (390, 280)], barrier="guard_rail")
    m.way([(400, 280), (430, 280)], barrier="kerb")
    m.node(440, 280, barrier="bollard")
    m.node(450, 290, natural="tree", height="12", diameter_crown="6")
    m.node(470, 290, natural="tree", height="10", leaf_type="needleleaved")
    m.way([(490, 290), (570, 290)], natural="tree_row")
    # Kinds that are not built.
    m.node(0, 340, shop="bakery")
    m.node(5, 340, highway="elevator")
    m.box(20, 340, 10, 10, power="substation")
    m.way([(40, 340), (60, 340)], power="line")
    m.relation([(1, "")], type="route", route="bus")
    m.way([(80, 340), (90, 340)], highway="proposed")
    return m


# ---- a writer of protocol buffers ------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def text(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def packed(field: int, values: Sequence[int]) -> bytes:
    return text(field, b"".join(map(varint, values)))


def deltas(values: Sequence[int]) -> list[int]:
    return [zigzag(b - a) for a, b in zip([0, *values[:-1]], values, strict=True)]


def blob(kind: bytes, content: bytes, *, packed_size: int | None = None, raw: bool = False) -> bytes:
    size = len(content) if packed_size is None else packed_size
    body = text(1, content) if raw else number(2, size) + text(3, zlib.compress(content))
    header = text(1, kind) + number(3, len(body))
    return len(header).to_bytes(4, "big") + header + body


def pbf(writer: MapWriter, *, dense: bool = True, raw: bool = False) -> bytes:
    """The map of a writer, all in one block."""
    strings = [b""]

    def row(word: str) -> int:
        data = word.encode()
        if data not in strings:
            strings.append(data)
        return strings.index(data)

    def tags(values: dict[str, str]) -> bytes:
        return packed(2, [row(k) for k in values]) + packed(3, [row(v) for v in values.values()]) if values else b""

    places = [degrees(x, y) for x, y, _ in writer.nodes]
    lon, lat = ([round(place[k] * 1e7) for place in places] for k in (0, 1))
    groups = b""
    if dense:
        words: list[int] = []
        for *_, values in writer.nodes:
            words += [word for pair in values.items() for word in map(row, pair)] + [0]
        ids = list(range(1, len(places) + 1))
        group = packed(1, deltas(ids)) + packed(8, deltas(lat)) + packed(9, deltas(lon)) + packed(10, words)
        groups += text(2, text(2, group))
    else:
        for k, (*_, values) in enumerate(writer.nodes):
            node = number(1, zigzag(k + 1)) + tags(values) + number(8, zigzag(lat[k])) + number(9, zigzag(lon[k]))
            groups += text(2, text(1, node))
    for k, (refs, values) in enumerate(writer.ways, start=1):
        groups += text(2, text(3, number(1, k) + tags(values) + packed(8, deltas(refs))))
    for k, (members, values) in enumerate(writer.relations, start=1):
        ways = [ref for ref, _ in members]
        body = number(1, k) + tags(values) + packed(8, [row(role) for _, role in members]) + packed(9, deltas(ways))
        groups += text(2, text(4, body + packed(10, [1] * len(ways))))
    block = text(1, b"".join(text(1, word) for word in strings)) + groups
    head = text(4, b"OsmSchema-V0.6") + text(4, b"DenseNodes")
    return blob(b"OSMHeader", head, raw=raw) + blob(b"OSMData", block, raw=raw)
