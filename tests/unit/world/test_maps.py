"""Maps by their tags: a hand-written map with every class of tags, seen from above and compared with its tags."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from map_rigs import LATITUDE, LONGITUDE, MapWriter, degrees, every_class
from parhelion import Gnss, World
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Floats
from parhelion.world.maps.features import length_m
from parhelion.world.maps.terrain import utm
from parhelion.world.procedural import world_digest

STEP_M = 0.25


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return every_class().save(tmp_path_factory.mktemp("map") / "every-class.osm")


@pytest.fixture(scope="module")
def world(file: Path) -> World:
    return World.load(file, origin=(LATITUDE, LONGITUDE))


def above(
    world: World, x: tuple[float, float], y: tuple[float, float], step: float = STEP_M
) -> tuple[Floats, Floats, Floats]:
    """Labels, materials and heights of the highest surfaces of a rectangle, on a grid."""
    gx, gy = np.meshgrid(np.arange(x[0] + step / 2, x[1], step), np.arange(y[0] + step / 2, y[1], step))
    # Rows and columns are shifted by parts of a cell, so that borders along the axes are met at all fractions of one.
    row, column = np.indices(gx.shape)
    gx, gy = gx + step * ((0.618 * row) % 1.0 - 0.5), gy + step * ((0.618 * column) % 1.0 - 0.5)
    start = np.column_stack([gx.ravel(), gy.ravel(), np.full(gx.size, 100.0)])
    hits = world.cast(start, np.tile([0.0, 0.0, -1.0], (len(start), 1)))
    assert hits.found.all(), "the ground has gaps"
    return world.parts.label[hits.part], world.parts.material[hits.part], 100.0 - hits.range


def area(world: World, what: Mapping[str, str], x: tuple[float, float], y: tuple[float, float]) -> float:
    """Area [m^2] of a label or material in a rectangle, seen from above."""
    label, material, _ = above(world, x, y)
    seen = np.ones(len(label), bool)
    if "label" in what:
        number = {name: key for key, name in world.label_names.items()}[what["label"]]
        seen &= label == number
    if "material" in what:
        seen &= np.array([entry.name for entry in world.materials])[material] == what["material"]
    return float(np.count_nonzero(seen)) * STEP_M**2


@pytest.mark.parametrize(
    ("what", "x", "y", "expected"),
    [
        ({"label": "building"}, (-5, 350), (-5, 20), 9 * 240.0),
        ({"label": "building"}, (415, 465), (-5, 45), 40 * 40 - 20 * 20),
        # Sidewalks begin at the carriageway: of 2 x 2 m over 100 m, the crossing takes 14 m.
        ({"label": "sidewalk"}, (90, 110), (60, 160), 2 * 2 * (100 - 14)),
        ({"label": "sidewalk"}, (-5, 65), (145, 160), 60 * (2.5 + 2.0)),
        ({"material": "gravel"}, (225, 235), (98, 145), 4 * (40 - 3)),
        ({"label": "water"}, (-5, 45), (195, 245), 1600.0),
        ({"label": "water"}, (55, 125), (195, 255), 60 * 50 - 20 * 20),
        ({"label": "water"}, (340, 370), (195, 235), 100.0),
        ({"label": "water"}, (450, 490), (55, 235), 30 * 170 - 30 * 8),
        ({"label": "parking"}, (375, 420), (195, 235), 900.0),
        ({"material": "sand"}, (215, 260), (195, 235), 900.0),
        ({"label": "bridge"}, (435, 505), (120, 140), 60 * (8.0 - 2 * 0.06)),
        ({"label": "rail"}, (-5, 205), (270, 288), 200 * 3.4 - 4 * 3.4),
        ({"label": "wall"}, (215, 265), (275, 305), 60 * 0.3 - 0.15**2 + 0.15**2),
    ],
)
def test_areas_from_above_are_those_of_the_tags(
    world: World, what: dict[str, str], x: tuple[float, float], y: tuple[float, float], expected: float
) -> None:
    assert area(world, what, x, y) == pytest.approx(expected, rel=0.01)


def test_crossing_roads_share_their_surface(world: World) -> None:
    """Paint and carriageway together cover the union of the roads once, at one height."""
    label, _, height = above(world, (0, 260), (60, 160))
    names = np.array([world.label_names[int(number)] for number in np.unique(label)])
    on_road = np.isin(label, np.unique(label)[np.isin(names, ["road", "lane-marking"])])
    expected = 200 * 14 + 100 * 7 - 14 * 7 + 60 * 6 + 40 * 4 - 3 * 4
    assert np.count_nonzero(on_road) * STEP_M**2 == pytest.approx(expected, rel=0.01)
    assert np.abs(height[on_road & (height < 1.0)]).max() < 1e-4  # the resolution of a ray of 100 m
    below = np.column_stack([np.linspace(1, 259, 500), np.linspace(94, 106, 500), np.full(500, -1e-3)])
    assert not world.cast(below, np.tile([0.0, 0.0, -1.0], (500, 1))).found.any(), "a second surface under the road"


def test_lengths_and_areas_of_the_record(world: World) -> None:
    assert world.contents is not None
    for what, expected in {
        "highway=primary": 200,
        "highway=residential": 60,
        "highway=tertiary (bridge)": 60,
        "waterway=canal": 170,
        "railway=rail": 200,
        "railway=tram": 100,
        "barrier=wall": 60,
        "natural=tree_row": 80,
        "building=apartments": 1200,
        "landuse=forest": 900,
        "natural=water": 1600 + 2600 + 100,
    }.items():
        assert world.contents.measure(what) == pytest.approx(expected, rel=0.001), what


def test_every_feature_is_counted(world: World) -> None:
    """Sum of read and omitted features: all tagged nodes, ways and relations of the file."""
    written = every_class()
    contents = world.contents
    assert contents is not None
    tagged = sum(bool(tags) for *_, tags in written.nodes) + sum(bool(tags) for _, tags in written.ways)
    counted = sum(entry.count for entry in contents.read if not entry.what.startswith("note")) + sum(
        entry.count for entry in contents.omitted
    )
    assert counted == tagged + len(written.relations)
    omitted = {entry.what: entry.reason for entry in contents.omitted}
    assert omitted["shop=bakery"] == "tag not supported"
    assert omitted["highway=motorway"].startswith("tunnel=yes")
    assert {"power=substation", "power=line", "highway=elevator", "relation type=route"} <= set(omitted)


@pytest.mark.parametrize(
    ("k", "roof"),
    enumerate(("flat", "gabled", "hipped", "pyramidal", "skillion", "gambrel", "mansard", "round", "dome")),
)
def test_roofs_have_their_heights_and_volumes(world: World, k: int, roof: str) -> None:
    _, _, height = above(world, (40 * k, 40 * k + 20), (0, 12))
    length, width, rise = 20.0, 12.0, 9.0 if roof == "flat" else 3.0
    eaves = 9.0 - rise
    assert height.max() == pytest.approx(9.0, abs=0.1)
    volume = {
        "flat": 1.0,
        "gabled": 0.5,
        "hipped": 0.5 - width / (6 * length),
        "pyramidal": 1 / 3,
        "skillion": 0.5,
        "round": np.pi / 4,
        "gambrel": 0.5 * (0.0 + 0.7) / 2 + 0.5 * (0.7 + 1.0) / 2,
    }.get(roof)
    if volume is not None:
        assert height.mean() - eaves == pytest.approx(volume * rise, rel=0.02)


def test_building_parts_replace_their_outline(world: World) -> None:
    _, _, height = above(world, (361, 389), (1, 14))
    assert height.mean() == pytest.approx(12.0)
    _, _, height = above(world, (361, 389), (16, 29))
    assert height.mean() == pytest.approx(20.0)
    under = world.cast([[375.0, 22.0, 1.0]], [[0.0, 0.0, 1.0]])
    assert under.range[0] == pytest.approx(7.0)  # min_height is 8 m


def test_doors_face_the_street_and_take_the_place_of_a_window(tmp_path: Path) -> None:
    made = MapWriter()
    made.way([(-50, 0), (150, 0)], highway="residential")
    made.box(0, 20, 10, 12, building="house", height="6")  # its long sides are not towards the street
    made.box(40, -32, 48, 12, building="terrace", height="6")
    made.box(100, 20, 7, 6, building="garage", height="2.6")
    made.box(120, 20, 30, 20, building="barn", height="8")
    world = World.load(made.save(tmp_path / "street.osm"), origin=(LATITUDE, LONGITUDE))
    z = np.arange(0.05, 2.6, 0.1)

    def leaf(x: float, y: float, toward: float) -> float:
        """Height [m] up to which a wall of the street's side has the material of a door."""
        away = np.column_stack([np.full(len(z), x), np.full(len(z), y), z])
        hits = world.cast(away, np.tile([0.0, toward, 0.0], (len(z), 1)))
        names = np.array([entry.name for entry in world.materials])[world.parts.material[hits.part]]
        return float(z[np.isin(names, ("wood", "galvanised-steel"))].size) * 0.1

    assert [leaf(x, 5.0, 1.0) for x in (3.0, 5.0)] == pytest.approx([0.0, 2.1], abs=0.06)
    assert leaf(5.0, 45.0, -1.0) == 0.0  # behind the house
    assert sum(leaf(x, -5.0, -1.0) > 2.0 for x in np.arange(41.5, 88.0, 3.0)) == 3  # one per 15 m
    assert leaf(101.75, 5.0, 1.0) == pytest.approx(2.1, abs=0.06)
    # Panes before dark rooms elsewhere, also above the door.
    places = np.array([[5.0, 5.0, 4.5], [1.7, 5.0, 1.6]])
    window = world.cast(places, np.tile([0.0, 1.0, 0.0], (2, 1)))
    assert [world.label_names[int(world.parts.label[k])] for k in window.part] == ["window", "window"]
    places[:, 1] += window.range + 0.01
    behind = world.cast(places, np.tile([0.0, 1.0, 0.0], (2, 1)))
    assert behind.range == pytest.approx(0.01, abs=1e-3)


def test_water_lies_below_its_quay_over_a_bed(world: World) -> None:
    for (x, y), drop, depth in (((20.0, 220.0), 1.5, 3.0), ((70.0, 210.0), 0.3, 2.0), ((470.0, 80.0), 1.5, 4.0)):
        down = world.cast([[x, y, 5.0]], [[0.0, 0.0, -1.0]])
        assert 5.0 - down.range[0] == pytest.approx(-drop)
        bed = world.cast([[x, y, -drop - 0.01]], [[0.0, 0.0, -1.0]])
        assert bed.range[0] + 0.01 == pytest.approx(depth, abs=1e-6)
    bank = world.cast([[20.0, 220.0, -1.0]], [[1.0, 0.0, 0.0]])
    assert bank.range[0] == pytest.approx(20.0, abs=0.01)
    assert world.label_names[int(world.parts.label[bank.part[0]])] == "quay"


def test_ramps_lead_to_the_bridge(world: World) -> None:
    x = np.array([300.0, 345.0, 390.0, 439.0, 441.0, 470.0, 501.0, 550.0])
    height = world.height(x, np.full(len(x), 130.0))
    expected = np.maximum(0.0, 5.5 - 0.06 * np.maximum(np.maximum(440 - x, x - 500), 0.0))
    assert np.allclose(height, expected, atol=0.02)


def test_same_seed_same_world(file: Path, world: World) -> None:
    again = World.load(file, origin=(LATITUDE, LONGITUDE))
    assert world_digest(again) == world_digest(world)
    other = World.load(file, origin=(LATITUDE, LONGITUDE), seed=1)
    assert world_digest(other) != world_digest(world)


def test_gnss_works_at_the_place_of_the_map(world: World, tmp_path: Path) -> None:
    assert world.origin is not None
    assert (world.origin.latitude_deg, world.origin.longitude_deg) == (LATITUDE, LONGITUDE)
    place = Gnss("u-blox/f9p").place_in(world)
    assert (place.latitude_deg, place.longitude_deg) == (LATITUDE, LONGITUDE)
    given = Gnss("u-blox/f9p", latitude_deg=1.0, longitude_deg=2.0).place_in(world)
    assert given.latitude_deg == 1.0
    small = World()
    small.origin = world.origin
    small.add(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), material="concrete")
    small.save(tmp_path / "small.yaml")
    assert World.load(tmp_path / "small.yaml").origin == world.origin


# ---- GeoJSON ---------------------------------------------------------------------------------------------------------


def collection(*features: tuple[str, list[object], dict[str, object]]) -> str:
    return json.dumps(
        {
            "type": "FeatureCollection",
            "features": [
                {"type": "Feature", "properties": tags, "geometry": {"type": kind, "coordinates": points}}
                for kind, points, tags in features
            ],
        }
    )


SQUARE = [[[0, 0], [20, 0], [20, 10], [0, 10], [0, 0]]]


def test_a_lake_is_water_and_not_a_building(tmp_path: Path) -> None:
    (tmp_path / "lake.geojson").write_text(collection(("Polygon", SQUARE, {"natural": "water"})))
    world = World.load(tmp_path / "lake.geojson", units="metres")
    assert {"water", "terrain"} == {item.label for item in world.objects}
    assert area(world, {"label": "water"}, (-15, 15), (-10, 10)) == pytest.approx(200.0, rel=0.01)


def test_outlines_without_tags_become_buildings_only_on_request(tmp_path: Path) -> None:
    file = tmp_path / "site.geojson"
    file.write_text(collection(("Polygon", SQUARE, {"height": 7})))
    with pytest.raises(
        ConfigError, match=r"site\.geojson: none of its 1 features has a supported tag .*untagged='building'"
    ):
        World.load(file, units="metres")
    world = World.load(file, units="metres", untagged="building")
    assert world.bounds is not None
    assert world.bounds[1][2] == pytest.approx(7.0)


def test_overture_properties(tmp_path: Path) -> None:
    file = tmp_path / "overture.json"
    house = {
        "theme": "buildings",
        "type": "building",
        "height": 12.0,
        "roof_shape": "gabled",
        "facade_color": "#a04030",
    }
    road = {"theme": "transportation", "type": "segment", "subtype": "road", "class": "residential"}
    file.write_text(collection(("Polygon", SQUARE, house), ("LineString", [[0, -20], [100, -20]], road)))
    world = World.load(file, units="metres")
    assert world.contents is not None
    assert [entry.what for entry in world.contents.read] == ["building=yes", "highway=residential"]
    assert world.contents.measure("highway=residential") == pytest.approx(100.0)


def test_coordinates_are_east_and_north_of_the_origin(tmp_path: Path) -> None:
    file = tmp_path / "tree.geojson"
    file.write_text(collection(("Point", list(degrees(120.0, -45.0)), {"natural": "tree", "height": "10"})))
    world = World.load(file, origin=(LATITUDE, LONGITUDE))
    trunk = next(item for item in world.objects if item.label == "trunk")
    low, high = trunk.bounds()
    assert np.allclose((low + high)[:2] / 2, [120.0, -45.0], atol=1.0)


# ---- heights ---------------------------------------------------------------------------------------------------------


def test_utm_matches_published_coordinates() -> None:
    """Example of the CN Tower: 43°38'33.24" N 79°23'13.7" W is zone 17, 630084 m E, 4833438 m N."""
    east, north = utm(np.array([-(79 + 23 / 60 + 13.7 / 3600)]), np.array([43 + 38 / 60 + 33.24 / 3600]), 17)
    assert east[0] == pytest.approx(630084, abs=1.0)
    assert north[0] == pytest.approx(4833438, abs=1.0)


def geotiff(path: Path, heights: Floats, west: float, north: float, step: float) -> Path:
    from PIL import Image, TiffImagePlugin

    tags = TiffImagePlugin.ImageFileDirectory_v2()
    tags[33550], tags.tagtype[33550] = (step, step, 0.0), 12
    tags[33922], tags.tagtype[33922] = (0.0, 0.0, 0.0, west, north, 0.0), 12
    tags[34735], tags.tagtype[34735] = (1, 1, 0, 1, 1024, 0, 1, 2), 3
    Image.fromarray(heights.astype(np.float32)).save(path, tiffinfo=tags)
    return path


def test_ground_from_a_geotiff(tmp_path: Path) -> None:
    """A plane that rises by 0.1 m per m to the east carries roads and buildings."""
    writer = MapWriter()
    writer.way([(-60, 0), (60, 0)], highway="residential", width="6")
    writer.box(20, 20, 10, 10, building="yes", height="5")
    file = writer.save(tmp_path / "hill.osm")
    step = 1e-4
    (west, north), _ = degrees(-250, 250), None
    columns = 80
    lon = west + (np.arange(columns) + 0.5) * step
    scale = (degrees(100, 0)[0] - degrees(0, 0)[0]) / 100
    heights = np.tile(100.0 + 0.1 * (lon - LONGITUDE) / scale, (60, 1))
    geotiff(tmp_path / "dem.tif", heights, west, north, step)
    world = World.load(file, origin=(LATITUDE, LONGITUDE), terrain="dem.tif")
    x = np.array([-50.0, 0.0, 25.0, 50.0])
    assert np.allclose(world.height(x, np.zeros(4)), 0.1 * x, atol=0.02)
    roof = world.cast([[25.0, 25.0, 50.0]], [[0.0, 0.0, -1.0]])
    assert 50.0 - roof.range[0] == pytest.approx(0.1 * 20 + 5.0, abs=0.05)  # from the lowest corner of the outline
    with pytest.raises(ConfigError, match=r"dem\.tif: has no heights for \d+ % of the map"):
        World.load(file, origin=(LATITUDE, LONGITUDE), terrain="dem.tif", margin_m=2000)


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"a\.osm: is empty"),
        ("<osm><node", r"a\.osm: line 1, column \d+: not whole XML"),
        ("<kml></kml>", r"the root element must be <osm>, got <kml>"),
        ("<osm></osm>", r"a\.osm: has no nodes"),
        ('<osm><node id="1" lat="x" lon="1"/></osm>', r"line 1: lat must be a number, got 'x'"),
        ('<osm><node id="1" lat="nan" lon="1"/></osm>', r"line 1: lat must be finite, got 'nan'"),
        (
            '<osm><node id="1" lat="95" lon="1"><tag k="natural" v="tree"/></node></osm>',
            r"is not a longitude and latitude",
        ),
        ('<!DOCTYPE osm [<!ENTITY a "aa">]><osm>&a;</osm>', r"line 1: <!DOCTYPE is not allowed here"),
        ('<osm><node id="1" lat="50" lon="1"/></osm>', r"none of its 0 features has a supported tag"),
    ],
)
def test_bad_osm_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.osm").write_text(text)
    with pytest.raises((ConfigError, FormatError), match=message):
        World.load(tmp_path / "a.osm")


def test_maps_that_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = "".join(f'<node id="{k}" lat="{50 + k}" lon="8"><tag k="natural" v="tree"/></node>' for k in range(3))
    (tmp_path / "wide.osm").write_text(f"<osm>{nodes}</osm>")
    with pytest.raises(ConfigError, match=r"wide\.osm: reaches \d+\.\d km from its origin; the limit is 10 km"):
        World.load(tmp_path / "wide.osm")
    monkeypatch.setattr("parhelion.world.maps.osm.MOST_POINTS", 2)
    with pytest.raises(ConfigError, match=r"wide\.osm: more than 2 nodes; cut out the part that is needed"):
        World.load(tmp_path / "wide.osm")


def test_parameters_are_checked(file: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"unknown parameter for .*every-class.osm: 'margin': did you mean 'margin_m'\?"
    ):
        World.load(file, margin=3)
    with pytest.raises(ConfigError, match="margin_m"):
        World.load(file, margin_m=-3.0)
    with pytest.raises(ConfigError, match="unknown material 'gras'"):
        World.load(file, ground="gras")


def test_lengths_of_tags() -> None:
    assert [length_m(text) for text in ("3", "3.5 m", "12 ft", "10'", "6'6\"", "2,5", "-1", "tall", "", None)] == [
        3.0, 3.5, 3.6576, 3.048, 1.9812, 2.5, -1.0, None, None, None,
    ]  # fmt: skip


def test_no_warnings(file: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        World.load(file)


def test_a_geotiff_is_a_world_with_its_own_heights(tmp_path: Path) -> None:
    """Heights at known places of a file in UTM, the origin at its centre, and water at a level."""
    from PIL import Image, TiffImagePlugin

    from parhelion.world.maps.terrain import inverse_utm, utm

    tags = TiffImagePlugin.ImageFileDirectory_v2()
    tags[33550], tags.tagtype[33550] = (5.0, 5.0, 0.0), 12
    tags[33922], tags.tagtype[33922] = (0.0, 0.0, 0.0, 500_000.0, 5_330_000.0, 0.0), 12
    tags[34735], tags.tagtype[34735] = (1, 1, 0, 2, 1024, 0, 1, 1, 3072, 0, 1, 32632), 3
    # On the central meridian, east of the file is east of the world: heights rise by 0.1 per m to the east.
    east = 500_002.5 + 5.0 * np.arange(41)
    heights = np.tile(300.0 + 0.1 * (east - east[20]), (31, 1)).astype(np.float32)
    Image.fromarray(heights).save(tmp_path / "hill.tif", tiffinfo=tags)
    world = World.load(tmp_path / "hill.tif", water_level_m=298.0, water="clear-water")
    assert world.origin is not None
    place = utm(np.array([world.origin.longitude_deg]), np.array([world.origin.latitude_deg]), 32)
    np.testing.assert_allclose([float(place[0][0]), float(place[1][0])], [500_102.5, 5_329_922.5], atol=1e-3)
    assert inverse_utm(*(float(one[0]) for one in place), 32) == pytest.approx(
        (world.origin.latitude_deg, world.origin.longitude_deg), abs=1e-9
    )
    ground, water = world.objects
    points = np.concatenate([part.placed for part in ground.parts])
    # The scale of UTM is 0.9996 here, so 100 m in the file are 100.04 m in the world.
    np.testing.assert_allclose(points[:, 2], 300.0 + 0.1 * 0.9996 * points[:, 0], atol=0.02)
    assert water.label == "water"
    assert water.parts[0].placed[:, 2] == pytest.approx(298.0)
    with pytest.raises(ConfigError, match="has no heights in the area"):
        World.load(tmp_path / "hill.tif", area_m=(5000.0, 5000.0, 6000.0, 6000.0))
    with pytest.raises(ConfigError, match="area_m must be"):
        World.load(tmp_path / "hill.tif", area_m=(10.0, 0.0, 0.0, 20.0))
