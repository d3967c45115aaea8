"""Maps as protocol buffers (.osm.pbf) and CityJSON, written by hand, against the same content in other forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from map_rigs import LATITUDE, LONGITUDE, MapWriter, blob, packed, pbf, text
from parhelion import World
from parhelion.core.errors import ConfigError, FormatError
from parhelion.world.procedural import world_digest


def small_map() -> MapWriter:
    writer = MapWriter()
    writer.box(0, 0, 20, 10, building="house", height="6", name="Größe")
    outer, inner = writer.box(40, 0, 40, 40), writer.box(50, 10, 10, 10)
    writer.relation([(outer, "outer"), (inner, "inner")], type="multipolygon", natural="water")
    writer.way([(0, -20), (80, -20)], highway="residential", width="6")
    writer.node(10, -30, natural="tree", height="8")
    return writer


@pytest.mark.parametrize(("dense", "raw"), [(True, False), (False, True)])
def test_pbf_and_xml_give_the_same_world(tmp_path: Path, dense: bool, raw: bool) -> None:
    xml = World.load(small_map().save(tmp_path / "a.osm"), origin=(LATITUDE, LONGITUDE))
    (tmp_path / "a.osm.pbf").write_bytes(pbf(small_map(), dense=dense, raw=raw))
    world = World.load(tmp_path / "a.osm.pbf", origin=(LATITUDE, LONGITUDE))
    assert xml.contents is not None
    assert world.contents is not None
    assert [(one.what, one.count) for one in world.contents.read] == [
        (one.what, one.count) for one in xml.contents.read
    ]
    for one, other in zip(world.contents.read, xml.contents.read, strict=True):
        assert one.measure == pytest.approx(other.measure, rel=2e-3)  # positions of 1e-7 degrees: 7 mm
    assert [item.label for item in world.objects] == [item.label for item in xml.objects]
    assert world_digest(World.load(tmp_path / "a.osm.pbf", origin=(LATITUDE, LONGITUDE))) == world_digest(world)


def test_bad_pbf_files(tmp_path: Path) -> None:
    whole = pbf(small_map())
    data = text(1, b"".join(text(1, word) for word in (b"", b"a")))
    ten = packed(8, [1])[:-1] + b"\xff"
    cases: dict[str, tuple[bytes, str]] = {
        "cut": (whole[:-10], "not a whole .pbf file"),
        "noise": (b"\xff" * 64, "not a .pbf file of OpenStreetMap"),
        "no-header": (blob(b"OSMData", data), "its first block is no header"),
        "feature": (blob(b"OSMHeader", text(4, b"Magic")), "needs the feature b'Magic'"),
        "size": (blob(b"OSMHeader", b"", packed_size=7), "unpacks to another size"),
        "bomb": (blob(b"OSMHeader", b"", packed_size=1 << 40), "a compressed chunk claims to hold"),
        "number": (blob(b"OSMHeader", b"") + blob(b"OSMData", data + text(2, text(3, ten))), "a number does not end"),
        "text": (
            blob(b"OSMHeader", b"") + blob(b"OSMData", data + text(2, text(3, packed(2, [9]) + packed(3, [9])))),
            "refers to text 9 of 2",
        ),
        "empty": (blob(b"OSMHeader", b""), "has no nodes"),
    }
    for name, (content, message) in cases.items():
        file = tmp_path / f"{name}.pbf"
        file.write_bytes(content)
        with pytest.raises((FormatError, ConfigError), match=message):
            World.load(file)


# ---- CityJSON --------------------------------------------------------------------------------------------------------


def city(**changes: Any) -> dict[str, Any]:
    """A cube of 10 m with a hole in its front, a triangle of road, and a tree without a geometry."""
    corners = [[x, y, z] for z in (0, 10) for x, y in ((0, 0), (10, 0), (10, 10), (0, 10))]
    hole = [[3, 0, 3], [3, 0, 6], [6, 0, 6], [6, 0, 3]]
    solid = [
        [[0, 3, 2, 1]], [[4, 5, 6, 7]], [[0, 1, 5, 4], [8, 9, 10, 11]], [[1, 2, 6, 5]], [[2, 3, 7, 6]], [[3, 0, 4, 7]],
    ]  # fmt: skip
    values = [0, 1, 2, 2, 2, 2]
    kinds = [{"type": "GroundSurface"}, {"type": "RoofSurface"}, {"type": "WallSurface"}]
    return {
        "type": "CityJSON",
        "version": "2.0",
        "transform": {"scale": [0.001, 0.001, 0.001], "translate": [500.0, 600.0, 30.0]},
        "CityObjects": {
            "house": {
                "type": "Building",
                "geometry": [
                    {"type": "MultiSurface", "lod": "0", "boundaries": [[[0, 3, 2, 1]]]},
                    {
                        "type": "Solid",
                        "lod": "2.2",
                        "boundaries": [solid],
                        "semantics": {"surfaces": kinds, "values": [values]},
                    },
                ],
            },
            "street": {
                "type": "Road",
                "geometry": [{"type": "MultiSurface", "lod": "1", "boundaries": [[[12, 13, 14]]]}],
            },
            "oak": {"type": "SolitaryVegetationObject", "geometry": []},
        },
        "vertices": [[1000 * v for v in row] for row in [*corners, *hole, [20, 0, 0], [40, 0, 0], [40, 20, 0]]],
        **changes,
    }


def test_surfaces_of_cityjson(tmp_path: Path) -> None:
    (tmp_path / "town.city.json").write_text(json.dumps(city()))
    (tmp_path / "town.json").write_text(json.dumps(city()))
    world = World.load(tmp_path / "town.city.json", origin=(505.0, 605.0, 30.0))
    assert world_digest(world) == world_digest(World.load(tmp_path / "town.json", origin=(505.0, 605.0, 30.0)))
    materials = {part.material.name for item in world.objects for part in item.parts}
    assert {"roof-tile", "plaster", "asphalt"} <= materials
    down = world.cast([[0.0, 0.0, 50.0]], [[0.0, 0.0, -1.0]])
    assert 50.0 - down.range[0] == pytest.approx(10.0)
    # Through the hole of the front, the ray meets the inside of the back wall.
    through = world.cast([[-0.5, -20.0, 4.5], [2.5, -20.0, 4.5]], np.tile([0.0, 1.0, 0.0], (2, 1)))
    assert np.allclose(through.range, [25.0, 15.0])
    assert world.contents is not None
    assert world.contents.measure("Building") == pytest.approx(600.0 - 9.0)
    assert world.contents.measure("Road") == pytest.approx(200.0)
    omitted = {entry.what: entry.reason for entry in world.contents.omitted}
    assert omitted["SolitaryVegetationObject"] == "it has no surfaces"
    assert "geometry of a lower level of detail" in omitted["Building lod 0"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vertices": [[0, 0]]}, "vertices must be a list of points of three numbers"),
        ({"vertices": [[0, 0, "x"]]}, "vertices must be a list of points of three numbers"),
        ({"vertices": [[0, 0, 0]]}, "house.*refers to vertex 3 of 1"),
        ({"CityObjects": []}, "CityObjects must be a mapping"),
        ({"CityObjects": {}}, "has no surfaces"),
        ({"transform": {"scale": [1]}}, "transform"),
        ({"version": "9.0"}, "version"),
    ],
)
def test_bad_cityjson(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    (tmp_path / "a.city.json").write_text(json.dumps(city(**changes)))
    with pytest.raises(ConfigError, match=message) as caught:
        World.load(tmp_path / "a.city.json")
    assert "a.city.json" in str(caught.value)
