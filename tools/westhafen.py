"""Writes examples/westhafen.osm: a harbour of two basins beside a canal, after the description of the Westhafen scene
in Arce (2025), section 3.3.2. All geometry and names are our own; no map data is used.

    python tools/westhafen.py
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import quoteattr

from pymap3d import enu2geodetic

FILE = Path(__file__).resolve().parents[1] / "examples" / "westhafen.osm"
LATITUDE, LONGITUDE = 52.5375, 13.3400
Points = list[tuple[float, float]]


class Map:
    """Nodes and ways in metres from the origin."""

    def __init__(self) -> None:
        self.nodes: dict[tuple[float, float], int] = {}
        self.tags: dict[int, dict[str, str]] = {}
        self.ways: list[tuple[list[int], dict[str, str]]] = []

    def node(self, x: float, y: float, **tags: str) -> int:
        """Number of the node at a place."""
        number = self.nodes.setdefault((round(x, 2), round(y, 2)), len(self.nodes) + 1)
        self.tags.setdefault(number, {}).update({key.replace("__", ":"): value for key, value in tags.items()})
        return number

    def way(self, points: Points, closed: bool = False, **tags: str) -> None:
        """Add a way."""
        refs = [self.node(*point) for point in points]
        self.ways.append((refs + refs[:1] if closed else refs, {k.replace("__", ":"): v for k, v in tags.items()}))

    def box(self, x: float, y: float, length: float, width: float, **tags: str) -> None:
        """Add a rectangle by its lower left corner."""
        self.way([(x, y), (x + length, y), (x + length, y + width), (x, y + width)], closed=True, **tags)

    def save(self) -> None:
        """Write the file."""

        def tags(values: dict[str, str]) -> str:
            return "".join(f"<tag k={quoteattr(k)} v={quoteattr(v)}/>" for k, v in values.items())

        lines = [
            '<?xml version="1.0" encoding="UTF-8"?>',
            "<!-- Written by tools/westhafen.py; own geometry, Apache-2.0. -->",
        ]
        lines.append('<osm version="0.6">')
        for (x, y), number in self.nodes.items():
            lat, lon, _ = enu2geodetic(x, y, 0.0, LATITUDE, LONGITUDE, 0.0)
            lines.append(f'<node id="{number}" lat="{lat:.8f}" lon="{lon:.8f}">{tags(self.tags[number])}</node>')
        for number, (refs, values) in enumerate(self.ways, start=1):
            rows = "".join(f'<nd ref="{ref}"/>' for ref in refs)
            lines.append(f'<way id="{number}">{rows}{tags(values)}</way>')
        FILE.write_text("\n".join([*lines, "</osm>\n"]), encoding="utf-8")


def harbour() -> Map:
    """Canal from west to east, two basins north of it with a pier of land between them, warehouses and cranes."""
    m = Map()
    m.way([(-420, -60), (420, -60), (420, 0), (-420, 0)], closed=True, natural="water", water="canal", depth="4")
    m.box(-260, 0, 70, 300, natural="water", water="harbour", depth="4", name="Basin I")
    m.box(-120, 0, 70, 240, natural="water", water="harbour", depth="4", name="Basin II")
    m.box(-330, 0, 400, 340, landuse="port")
    m.box(-420, -160, 840, 100, landuse="industrial")
    m.box(90, 10, 320, 130, landuse="forest")
    # Warehouses along the basins, a grain store with a tall end, an office with a tower.
    for y in (40, 130, 220):
        m.box(
            -184,
            y,
            26,
            70,
            building="warehouse",
            height="12",
            building__material="brick",
            building__colour="#8c4a36",
            roof__shape="gabled",
            roof__height="3",
        )
    m.box(-320, 60, 30, 110, building="industrial", height="22", building__material="brick", building__colour="#9a5a40")
    m.box(-320, 170, 30, 24, building="industrial", height="38", building__material="brick", building__colour="#9a5a40")
    m.box(-20, 60, 60, 30, building="office", building__levels="5", roof__shape="hipped", building__material="brick")
    m.box(
        -6,
        90,
        14,
        14,
        building="office",
        height="48",
        roof__shape="pyramidal",
        roof__height="8",
        building__material="brick",
    )
    m.box(-20, 150, 70, 40, building="warehouse", height="10")
    for k in range(6):
        m.box(
            -380 + 130 * k,
            -140,
            80 if k != 3 else 50,  # beside the street
            36,
            building="industrial",
            height=str(8 + 2 * (k % 3)),
            roof__shape="skillion" if k % 2 else "flat",
        )
    # Streets, rails of the quays, and a bridge over the canal.
    m.way([(70, -160), (70, -75)], highway="secondary", lanes="2", width="8", sidewalk="both")
    m.way([(70, -75), (70, 15)], highway="secondary", lanes="2", width="8", bridge="yes", layer="1")
    m.way([(70, 15), (70, 330)], highway="secondary", lanes="2", width="8", sidewalk="both")
    m.way([(70, 320), (-150, 320), (-280, 320)], highway="service", width="6")
    m.way([(-150, 320), (-150, 20)], highway="service", width="5")
    m.way([(-188, 10), (-188, 300)], railway="rail")
    m.way([(-40, 12), (-40, 310)], railway="rail", embedded="yes")
    m.way([(-420, -68), (420, -68)], highway="footway", width="3", surface="gravel")
    for k in range(5):
        m.node(-186.5 if k % 2 else -268, 50 + 55 * k, man_made="crane", direction="270" if k % 2 else "90")
        m.node(-43.5, 30 + 45 * k, highway="street_lamp", height="8")
    for k in range(40):
        m.node(-262 if k < 20 else -118, 8 + 11.5 * (k % 20), mooring="bollard")
    m.way([(-410, -74), (410, -74)], natural="tree_row", spacing="14")
    m.way([(-330, 335), (60, 335)], barrier="fence", height="2")
    m.way([(-47, 60), (-30, 60)], man_made="pier", width="3")
    return m


if __name__ == "__main__":
    harbour().save()
