"""Floor plans: ROS maps, images with a scale, and drawings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from parhelion import World
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Floats
from parhelion.world.maps.drawing import path_points

RES = 0.05


def room(folder: Path, name: str = "map.yaml", **fields: object) -> Path:
    """A room of 6 x 4 m with walls of 2 cells, a pillar of 1 x 1 m, and 10 unknown columns on the right."""
    picture = np.full((84, 134), 205, np.uint8)
    picture[:84, :124] = 254
    picture[[0, 1, 82, 83], :124] = 0
    picture[:, [0, 1, 122, 123]] = np.where(np.arange(134)[None, [0, 1, 122, 123]] < 124, 0, 205)
    picture[20:40, 62:82] = 0
    Image.fromarray(picture).save(folder / "room.pgm")
    content = {
        "image": "room.pgm",
        "resolution": RES,
        "origin": [-1.0, -2.0, 0.0],
        "negate": 0,
        "occupied_thresh": 0.65,
        "free_thresh": 0.196,
        **fields,
    }
    (folder / name).write_text("".join(f"{key}: {value}\n" for key, value in content.items() if value is not None))
    return folder / name


def ranges(world: World, at: tuple[float, float, float], *directions: tuple[float, float, float]) -> Floats:
    hits = world.cast(np.tile(at, (len(directions), 1)), np.array(directions))
    return np.where(hits.found, hits.range, np.inf)


def test_walls_of_a_ros_map(tmp_path: Path) -> None:
    world = World.load(room(tmp_path))
    # Inner faces of the walls are at x = -0.9 and 5.1, y = -1.9 and 2.1; the pillar from x = 2.1, y = 0.2 to 1.2.
    found = ranges(world, (0.0, 0.7, 1.0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, -1), (0, 0, 1))
    assert np.allclose(found, [2.1, 0.9, 1.4, 2.6, 1.0, np.inf], atol=1e-4)
    assert np.isinf(ranges(world, (5.5, 0.0, 1.0), (0, 0, -1))[0]), "unknown space has no floor"
    assert {item.label for item in world.objects} == {"floor", "wall"}
    assert world.contents is not None
    assert world.contents.format == "ROS map"
    walls = (6.2 * 4.2 - 6.0 * 4.0) + 1.0
    assert world.contents.measure("walls") == pytest.approx(walls, rel=1e-6)
    assert [(entry.what, entry.count) for entry in world.contents.omitted] == [("unknown cells", 84 * 10)]
    low, high = world.bounds or (None, None)
    assert np.allclose(low, [-1.0, -2.0, 0.0])
    assert np.allclose(high, [5.2, 2.2, 2.5])


def test_origin_with_yaw_negate_and_height(tmp_path: Path) -> None:
    world = World.load(room(tmp_path, origin=[0.0, 0.0, np.pi / 2]), wall_height_m=3.0)
    low, high = world.bounds or (None, None)
    assert np.allclose(low, [-4.2, 0.0, 0.0], atol=1e-9)
    assert np.allclose(high, [0.0, 6.2, 3.0], atol=1e-9)
    with Image.open(tmp_path / "room.pgm") as picture:
        Image.fromarray(255 - np.asarray(picture)).save(tmp_path / "negative.png")
    turned = World.load(room(tmp_path, image="negative.png", negate=1))
    assert turned.contents is not None
    assert turned.contents.measure("walls") == pytest.approx(3.04, rel=1e-3)


def test_the_viewpoint_is_in_free_space(tmp_path: Path) -> None:
    world = World.load(room(tmp_path))
    x, y, z = world.viewpoint.xyz
    directions = [(np.cos(a), np.sin(a), 0.0) for a in np.linspace(0, 2 * np.pi, 60)]
    assert ranges(world, (float(x), float(y), float(z)), *directions).min() > 0.5


def test_slanted_walls_are_straightened_on_request(tmp_path: Path) -> None:
    y, x = np.indices((200, 200))
    Image.fromarray(np.where(np.abs(y - 0.4 * x - 50) < 2, 0, 254).astype(np.uint8)).save(tmp_path / "slant.png")
    raw = World.load(tmp_path / "slant.png", metres_per_pixel=RES)
    smooth = World.load(tmp_path / "slant.png", metres_per_pixel=RES, smooth_m=RES)
    assert smooth.triangle_count < raw.triangle_count / 5
    assert raw.contents is not None
    assert smooth.contents is not None
    assert smooth.contents.measure("walls") == pytest.approx(raw.contents.measure("walls"), rel=0.1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"image": "none.pgm"}, r"none\.pgm: no such file"),
        ({"resolution": 0}, r"map\.yaml: resolution: .*above 0"),
        ({"resolution": None}, r"map\.yaml: .*resolution"),
        ({"origin": "[0]"}, r"map\.yaml: origin"),
        ({"occupied_thresh": 2}, r"map\.yaml: occupied_thresh"),
        ({"occupied_thresh": 1.0, "free_thresh": 0.0}, r"all cells of room\.pgm are unknown"),
    ],
)
def test_bad_ros_maps(tmp_path: Path, fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        World.load(room(tmp_path, **fields))


def test_a_world_file_is_no_ros_map(tmp_path: Path) -> None:
    (tmp_path / "world.yaml").write_text(
        "name: yard\nobjects:\n  - {shape: {kind: box, size_m: [1, 1, 1]}, material: wood}\n"
    )
    assert World.load(tmp_path / "world.yaml").contents is None
    (tmp_path / "typo.yaml").write_text("name: yard\nsound: []\n")
    with pytest.raises(ConfigError, match="did you mean 'sounds'"):
        World.load(tmp_path / "typo.yaml")


def test_an_image_needs_a_scale(tmp_path: Path) -> None:
    room(tmp_path)
    with pytest.raises(ConfigError, match=r"room\.pgm: an image has no scale; set metres_per_pixel"):
        World.load(tmp_path / "room.pgm")


SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="10m" viewBox="0 0 1000 800">
<g transform="translate(100 100)" fill="none" stroke="black">
<rect width="800" height="600"/><line x1="400" y1="0" x2="400" y2="200"/>
<path d="m 60 300 h 100 l 50,50 c 0 20 30 40 50 40 z"/></g>
<circle cx="700" cy="500" r="50" fill="#333"/><text x="3" y="4">Hall</text></svg>"""


def test_walls_of_a_drawing(tmp_path: Path) -> None:
    (tmp_path / "hall.svg").write_text(SVG)
    world = World.load(tmp_path / "hall.svg", wall_m=0.2)
    low, high = world.bounds or (None, None)
    assert np.allclose(high - low, [8.2, 6.2, 2.5], atol=2e-3)
    # The middle of the drawing is the origin, y up: the line hangs from the upper wall to y = 1 m.
    assert np.allclose(ranges(world, (-2.0, 2.0, 1.0), (1, 0, 0)), 1.9, atol=1e-3)
    assert np.allclose(ranges(world, (1.0, -1.0, 1.0), (1, 0, 0)), 0.5, atol=2e-3), "the column is solid"
    assert world.contents is not None
    assert [(entry.what, entry.count) for entry in world.contents.omitted] == [("<text>", 1)]
    (tmp_path / "bare.svg").write_text(SVG.replace('width="10m" ', ""))
    with pytest.raises(ConfigError, match=r"bare\.svg: states no unit; set metres_per_unit"):
        World.load(tmp_path / "bare.svg")


def test_paths_of_drawings() -> None:
    file = Path("a.svg")
    (points, closed), *rest = path_points(file, "M0 0H10V5h-10z m 20,0 l5 5")
    assert closed
    assert points.tolist() == [[0, 0], [10, 0], [10, 5], [0, 5]]
    assert rest[0][0].tolist() == [[20, 0], [25, 5]]
    (arc, _), *_ = path_points(file, "M 1 0 A 1 1 0 0 1 -1 0")
    assert np.allclose(np.hypot(*arc.T), 1.0)
    assert arc[:, 1].min() > -1e-9
    (packed, _), *_ = path_points(file, "M1 0a1 1 0 01-2 0")
    assert np.allclose(packed, arc)
    with pytest.raises(FormatError, match="the path command L needs 2 numbers, got 3"):
        list(path_points(file, "M 0 0 L 1 2 3"))


def test_walls_of_a_dxf_drawing(tmp_path: Path) -> None:
    ezdxf = pytest.importorskip("ezdxf", reason="ezdxf is not installed")
    document = ezdxf.new(units=4)
    space = document.modelspace()
    space.add_lwpolyline([(0, 0), (8000, 0), (8000, 6000), (0, 6000)], close=True, dxfattribs={"layer": "WALLS"})
    space.add_line((4000, 6000), (4000, 4000), dxfattribs={"layer": "WALLS"})
    space.add_circle((2000, 2000), 500, dxfattribs={"layer": "FURNITURE"})
    space.add_text("Hall")
    document.saveas(tmp_path / "hall.dxf")
    world = World.load(tmp_path / "hall.dxf", wall_m=0.2, layers=["WALLS"])
    low, high = world.bounds or (None, None)
    assert np.allclose(high - low, [8.2, 6.2, 2.5], atol=2e-3)
    assert np.allclose(ranges(world, (-2.0, 2.0, 1.0), (1, 0, 0)), 1.9, atol=1e-3)
    assert world.contents is not None
    omitted = {entry.what: entry.count for entry in world.contents.omitted}
    assert omitted == {"CIRCLE on layer FURNITURE": 1, "TEXT on layer 0": 1}
