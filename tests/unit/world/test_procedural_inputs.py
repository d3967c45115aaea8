"""Height maps and building footprints of users: reading, placement, construction, and reports of mistakes."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.pictures.layout import layout_bitmap
from parhelion.world.procedural import (
    Layout,
    LayoutObject,
    buildings_from,
    check,
    ground_height,
    layout_of,
    offroad,
    read_height_map,
    terrain_of,
    world_digest,
    world_of,
)
from parhelion.world.procedural.footprints import outline_strips
from parhelion.world.procedural.kinds import FootprintParams
from parhelion.world.procedural.maps import roof_mesh
from parhelion.world.world import World

RAMP = np.add.outer(np.linspace(0.0, 5.0, 11), np.linspace(0.0, 3.0, 7))
"""Heights that grow with the row (towards -y) and with the column (towards +x)."""


def square(x: float, y: float, side: float = 10.0) -> list[list[float]]:
    return [[x, y], [x + side, y], [x + side, y + side], [x, y + side], [x, y]]


def feature(*rings: list[list[Any]], **properties: Any) -> dict[str, Any]:
    return {"type": "Feature", "properties": properties, "geometry": {"type": "Polygon", "coordinates": list(rings)}}


def collection(*features: dict[str, Any]) -> dict[str, Any]:
    return {"type": "FeatureCollection", "features": list(features)}


def area_of(points: Floats, faces: Any) -> float:
    corner = points[faces]
    a, b = corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]
    return 0.5 * float(np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]).sum())


# ---- height maps -------------------------------------------------------------------------------------------------


def test_arrays_and_tables_are_metres_with_the_far_row_first(tmp_path: Path) -> None:
    np.save(tmp_path / "map.npy", RAMP)
    np.savetxt(tmp_path / "map.csv", RAMP, delimiter=",")
    head = "ncols 7\nnrows 11\nxllcorner 0\nyllcorner 0\ncellsize 10\nNODATA_value -9999\n"
    (tmp_path / "map.asc").write_text(head + "\n".join(" ".join(f"{v:.6f}" for v in row) for row in RAMP))
    for source in (RAMP, RAMP.tolist(), tmp_path / "map.npy", tmp_path / "map.csv", tmp_path / "map.asc"):
        np.testing.assert_allclose(read_height_map(source), RAMP[::-1], atol=1e-4)
    layout = Layout(size=(60.0, 100.0), objects=(terrain_of(RAMP, (60.0, 100.0)),))
    # Grid points are 10 m apart; (-30, 50) is the first row and column.
    x, y = np.meshgrid(np.linspace(-30, 30, 7), np.linspace(50, -50, 11))
    np.testing.assert_allclose(ground_height(layout, x, y), RAMP, atol=1e-4)
    assert world_of(layout).triangle_count == 2 * 10 * 6


def test_images_are_stretched_to_the_range(tmp_path: Path) -> None:
    grey = np.array([[0, 51, 102], [153, 204, 255]], dtype=np.uint8)
    Image.fromarray(grey).save(tmp_path / "map.png")
    expected = np.array([[10.0, 12.0, 14.0], [16.0, 18.0, 20.0]])[::-1]
    np.testing.assert_allclose(read_height_map(tmp_path / "map.png", range_m=(10.0, 20.0)), expected)
    Image.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / "deep.png")
    np.testing.assert_allclose(read_height_map(tmp_path / "deep.png", range_m=(10.0, 20.0)), expected)
    Image.fromarray(RAMP.astype(np.float32)).save(tmp_path / "map.tif")
    np.testing.assert_allclose(read_height_map(tmp_path / "map.tif"), RAMP[::-1], atol=1e-4)
    np.testing.assert_allclose(read_height_map(RAMP, range_m=(-1.0, 1.0)), (RAMP[::-1] - 4.0) / 4.0, atol=1e-4)


def test_a_height_map_becomes_a_world(tmp_path: Path) -> None:
    Image.fromarray((RAMP / 8.0 * 255.0).astype(np.uint8)).save(tmp_path / "map.png")
    params: dict[str, Any] = {
        "height_map": str(tmp_path / "map.png"),
        "height_range_m": (0.0, 8.0),
        "size_m": (60.0, 50.0),
    }
    world = World.load("off-road", seed=1, **params)
    layout = layout_of(world)
    assert check(layout) == []
    # Heights count from the origin's; east is 3 m higher than west, south 5 m higher than north.
    assert float(ground_height(layout, 0.0, 0.0)) == pytest.approx(0.0, abs=1e-3)
    west, east, north, south = ground_height(layout, [-30, 30, 0, 0], [0, 0, 25, -25])
    assert east - west == pytest.approx(3.0, abs=0.07)
    assert south - north == pytest.approx(5.0, abs=0.07)
    layout.save(tmp_path / "list.json")
    assert world_digest(World.load(tmp_path / "list.json")) == world_digest(world)
    assert offroad(height_map=RAMP, size_m=(60.0, 50.0), seed=1).objects[0].params.track != ()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([[0.0, 1.0], [math.nan, 2.0]], "height map: the height in row 1, column 0 is not a number"),
        ([[0.0, 1.0], [2.0, 1e5]], "heights must lie within -10000 to 10000 m, got 100000"),
        ([[0.0, 1.0]], r"at least 2 x 2 heights, got shape \(1, 2\)"),
        ([[0.0, "high"], [1.0, 2.0]], "height map: must be a path, or rows of numbers"),
        (np.zeros((1001, 1001)), "1001 x 1001 heights; the limit is 1000000"),
    ],
)
def test_bad_heights_are_named(content: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_height_map(content)


def test_bad_height_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "cut.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "odd.csv").write_text("1,2\n3\n")
    (tmp_path / "words.csv").write_text("1,2\n3,four\n")
    (tmp_path / "hole.asc").write_text("NODATA_value -9999\n1 2\n3 -9999\n")
    np.save(tmp_path / "objects.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "flat.png")
    for name, says in (
        ("none.png", "none.png: no such file"),
        ("cut.png", "cut.png: cannot be read as a height map"),
        ("odd.csv", r"odd.csv: cannot be read as a height map \(rows of unequal length\)"),
        ("words.csv", "words.csv: cannot be read as a height map .*'four'"),
        ("hole.asc", "hole.asc: the height in row 1, column 1 is not a number"),
        ("objects.npy", "objects.npy: cannot be read as a height map"),
        ("flat.png", "flat.png: an image has no scale: give range_m"),
        ("map.obj", "map.obj: a height map must be one of .png"),
    ):
        with pytest.raises(ConfigError, match=says):
            read_height_map(tmp_path / name)
    with pytest.raises(ConfigError, match="range_m must be the heights of black and white, got 3"):
        read_height_map(tmp_path / "flat.png", range_m=3)  # type: ignore[arg-type]
    flat = read_height_map(tmp_path / "flat.png", range_m=(2.0, 5.0))
    np.testing.assert_array_equal(flat, 2.0)


# ---- footprints --------------------------------------------------------------------------------------------------


def test_polygons_become_buildings_of_their_outline_and_height(tmp_path: Path) -> None:
    court = [[2.0, 2.0], [2.0, 8.0], [8.0, 8.0], [8.0, 2.0], [2.0, 2.0]]
    l_shape = [[20.0, 0.0], [40.0, 0.0], [40.0, 5.0], [25.0, 5.0], [25.0, 15.0], [20.0, 15.0]]
    plan = collection(
        feature(square(0, 0), court, height=12.5),
        feature(l_shape, **{"building:levels": "4"}),
        {"type": "Feature", "properties": None, "geometry": {"type": "Point", "coordinates": [0, 0]}},
        {
            "type": "Feature",
            "properties": {"height": "7 m"},
            "geometry": {"type": "MultiPolygon", "coordinates": [[square(0, 20, 4.0)], [square(8, 20, 4.0)]]},
        },
    )
    layout = buildings_from(plan, units="metres", origin=(20.0, 10.0), margin_m=10.0)
    assert check(layout) == []
    assert layout.size == (60.0, 48.0)
    houses = layout.objects[1:]
    assert [house.size[2] for house in houses] == [12.5, 12.0, 7.0, 7.0]
    assert houses[0].pose.xyz == (-15.0, -5.0, 0.0)
    world = world_of(layout)
    roofs = [item.parts[0] for item in world.objects if item.name.endswith("/roof")]
    walls = [item.parts[0] for item in world.objects if item.name.endswith("/walls")]
    areas = [100.0 - 36.0, 20 * 5 + 5 * 10, 16.0, 16.0]
    for roof, area, house in zip(roofs, areas, houses, strict=True):
        assert area_of(roof.placed, roof.mesh.faces) == pytest.approx(area, rel=1e-9)
        np.testing.assert_allclose(roof.placed[:, 2], house.size[2])
        corner = roof.placed[roof.mesh.faces]
        normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
        assert np.all(normal[:, 2] > 0)
    # Walls face away from the building, those of a court into the court: the divergence theorem gives its volume.
    corner = walls[0].placed[walls[0].mesh.faces]
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]) / 2
    assert 0.5 * np.sum(corner.mean(axis=1)[:, :2] * normal[:, :2]) == pytest.approx(64.0 * 12.5)
    assert {item.label for item in world.objects} == {"ground", "building"}
    image = layout_bitmap(layout, 0.1)
    assert np.count_nonzero(image) * 0.01 == pytest.approx(sum(areas), rel=0.01)
    for name in ("list.yaml", "list.json"):
        layout.save(tmp_path / name)
        assert world_digest(World.load(tmp_path / name)) == world_digest(world)


def test_degrees_become_metres_on_the_ellipsoid() -> None:
    # One minute of latitude is 1853 to 1855 m near 52 degrees; of longitude the ellipsoid's circle there.
    lon, lat = 13.4, 52.5
    step = [0.001, 0.001]
    ring = [[lon, lat], [lon + step[0], lat], [lon + step[0], lat + step[1]], [lon, lat + step[1]]]
    house = buildings_from(feature(ring)).objects[1]
    e2, a, s = 0.00669437999014, 6378137.0, math.sin(math.radians(lat + 0.0005))
    east = math.radians(0.001) * a / math.sqrt(1 - e2 * s * s) * math.sqrt(1 - s * s)
    north = math.radians(0.001) * a * (1 - e2) / (1 - e2 * s * s) ** 1.5
    assert house.size[0] == pytest.approx(east, abs=0.002)
    assert house.size[1] == pytest.approx(north, abs=0.002)
    assert 67.8 < east < 68.0
    assert 111.2 < north < 111.4


@pytest.mark.parametrize("lat", [-33.9, 0.0, 52.5, 75.0])
def test_maps_of_a_kilometre_keep_the_distances_of_the_ellipsoid(lat: float) -> None:
    """Straight lines between houses, by Earth-centred coordinates; heights differ by 3 cm at most over 600 m."""

    def centred(lon: float, lat: float) -> Floats:
        lo, la, e2 = math.radians(lon), math.radians(lat), 0.00669437999014
        across = 6378137.0 / math.sqrt(1 - e2 * math.sin(la) ** 2)
        return across * np.array([math.cos(la) * math.cos(lo), math.cos(la) * math.sin(lo), (1 - e2) * math.sin(la)])

    wide = 1.0 / math.cos(math.radians(lat))
    places = [(13.4 + 0.004 * u * wide, lat + 0.004 * v) for u, v in ((-1, -1), (1, -1), (1, 1), (0, 1))]
    corners = [(-1, -1), (1, -1), (1, 1), (-1, 1)]
    houses = [feature([[x + 5e-5 * u * wide, y + 5e-5 * v] for u, v in corners]) for x, y in places]
    layout = buildings_from(collection(*houses), origin=(13.4, lat))
    at = [np.array(house.pose.xyz) for house in layout.objects[1:]]
    for k in range(4):
        true = np.linalg.norm(centred(*places[k]) - centred(*places[k - 1]))
        assert np.linalg.norm(at[k] - at[k - 1]) == pytest.approx(true, abs=0.005)


def test_the_viewpoint_of_buildings_is_free() -> None:
    layout = buildings_from(collection(feature(square(0, 0)), feature(square(30, 0))), units="metres", origin=(5, 5))
    assert layout.viewpoint is not None
    x, y, _ = layout.viewpoint.xyz
    assert max(abs(x), abs(y)) > 5.0  # the origin is inside the first house


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"type": "Topology"}, "buildings: type must be FeatureCollection, .* got 'Topology'"),
        (collection(), "buildings: has no polygons"),
        ({"type": "FeatureCollection", "features": 3}, "buildings: features must be a list"),
        (collection(feature([[0, 0], [1, 1]])), r"features\[0\].geometry.coordinates\[0\]: .* 3 points, got 2"),
        (collection(feature(square(0, 0)), feature([[0, 0], [1, math.nan], [2, 0]])),
         r"features\[1\].geometry.coordinates\[0\]\[1\]: is not a number"),
        (collection(feature([[0, 0], ["a", 1], [2, 0]])), r"coordinates\[0\]: must be a list of points of two numbers"),
        (collection(feature([[0, 0], [1, 1], [2, 2]])), r"features\[0\].geometry: a ring has no area"),
        (collection(feature(square(0, 0), height=-3)), r"features\[0\].properties.height: .* 0.1 to 1000 m, got -3"),
        (collection(feature(square(0, 0), levels="many")), r"properties.levels: must give .* got 'many'"),
        (collection(feature(square(0, 0)), feature(square(5000, 0))), "the plan would be .* the limit is 1000 m"),
    ],
)  # fmt: skip
def test_mistakes_in_maps_are_named(data: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        buildings_from(data, units="metres")


def test_further_mistakes_in_maps_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[210.0, 90.0\] is not a longitude and latitude; for x and y give units"):
        buildings_from(feature(square(200, 90)))
    with pytest.raises(ConfigError, match="units must be 'degrees' or 'metres', got 'feet'"):
        buildings_from(feature(square(0, 0)), units="feet")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="origin must be two numbers, got 3"):
        buildings_from(feature(square(0, 0)), units="metres", origin=3)  # type: ignore[arg-type]
    (tmp_path / "half.geojson").write_text('{"type": ')
    with pytest.raises(ConfigError, match=r"half.geojson: line 1, column"):
        World.load(tmp_path / "half.geojson")
    with pytest.raises(ConfigError, match=r"none.geojson: no such file"):
        World.load(tmp_path / "none.geojson")
    crossing = feature([[0, 0], [10, 10], [10, 0], [0, 8]])
    with pytest.raises(ConfigError, match=r"objects\[1\] \(building-0\): polygon: its outline crosses itself"):
        world_of(buildings_from(crossing, units="metres"))


@pytest.mark.parametrize("seed", range(6))
def test_roofs_with_several_courts_have_the_right_area(seed: int) -> None:
    rng = np.random.default_rng(seed)
    outer = np.array([[0, 0], [30, 0], [30, 20], [18, 20], [18, 14], [12, 14], [12, 20], [0, 20]], dtype=np.float64)
    holes = []
    for k, (x, y) in enumerate(((3.0, 3.0), (12.0, 3.0), (21.0, 4.0), (21.0, 14.0))):
        corner = np.array([[0, 0], [0, 4], [5, 4], [5, 0]]) * rng.uniform(0.4, 1.0, 2) + [x, y]
        holes.append(np.roll(corner, k, axis=0))
    roof = roof_mesh(outer, holes, 5.0)
    area = 30 * 20 - 6 * 6 - sum(float(np.prod(np.ptp(hole, axis=0))) for hole in holes)
    assert area_of(roof.vertices, roof.faces) == pytest.approx(area, rel=1e-9)
    with pytest.raises(ConfigError, match="must lie inside it and must not overlap"):
        roof_mesh(outer, [*holes, holes[0] + [40.0, 0.0]], 5.0)


def test_strips_fill_an_outline_from_inside() -> None:
    slanted = FootprintParams(outline=((0.0, 0.0), (12.0, 0.0), (9.0, 6.0), (2.0, 5.0)))
    strips = outline_strips(slanted)
    area = 0.5 * abs(12 * 0 - 0 + 12 * 6 - 9 * 0 + 9 * 5 - 2 * 6 + 0)
    filled = float(np.sum(4.0 * strips[:, 2] * strips[:, 3]))
    assert 0.93 * area < filled <= area
    turned = np.radians(30.0)
    corners = np.array([[-4, -1], [4, -1], [4, 1], [-4, 1]]) @ np.array(
        [[math.cos(turned), math.sin(turned)], [-math.sin(turned), math.cos(turned)]]
    )
    box = outline_strips(FootprintParams(outline=tuple(map(tuple, corners.tolist()))))
    assert float(np.sum(4.0 * box[:, 2] * box[:, 3])) == pytest.approx(16.0, rel=1e-6)


def test_a_footprint_stops_a_robot() -> None:
    shape = {"outline": [[-3, -3], [3, -3], [3, 3], [1, 3], [1, -1], [-1, -1], [-1, 3], [-3, 3]]}
    house = LayoutObject(kind="footprint", size=(6.0, 6.0, 5.0), params=shape)  # type: ignore[arg-type]
    plan = {"size": [20, 20], "objects": [json.loads(house.model_dump_json())]}
    through = {"name": "yard", "points": [[0, 8], [0, 0]], "width_m": 1.8}
    assert check(Layout.from_mapping({**plan, "ways": [through]})) == []
    blocked = check(Layout.from_mapping({**plan, "ways": [{**through, "points": [[0, 8], [0, -8]]}]}))
    assert len(blocked) == 1
    assert blocked[0].startswith("way 'yard' is blocked for a robot 0.8 m wide: footprint-0 stands at")


@pytest.mark.slow
def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "procedural-worlds.md"
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), names)
    assert {file.name for file in tmp_path.iterdir()} == {"hall.yaml", "plan.png"}
    assert check(names["canal"]) == check(names["country"]) == check(names["site"]) == []
