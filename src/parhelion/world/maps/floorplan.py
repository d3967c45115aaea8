"""Floor plans: ROS maps, images with a scale, and walls drawn in SVG or DXF files.

Format of ROS maps: https://wiki.ros.org/map_server and the documentation of nav2_map_server.
"""

from __future__ import annotations

import io
import warnings
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from parhelion.core import config
from parhelion.core.checks import above, within
from parhelion.core.config import Config, Fraction
from parhelion.core.errors import ConfigError, MissingDependencyError
from parhelion.core.pose import Floats, Pose
from parhelion.core.reading import file_reader, read_bytes, shown
from parhelion.world.kit.props import KitPart
from parhelion.world.maps.drawing import UNITS_M, drawn_shapes
from parhelion.world.maps.plane import MapGround, polygons, skirt, surface, union
from parhelion.world.sources import Tally
from parhelion.world.world import World

MOST_PIXELS = 64_000_000
_LARGEST_BYTES = 512 * 1024 * 1024
WALL_HEIGHT_M = 2.5


class RosMap(Config):
    """Metadata of a ROS map; fields of other programs are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    image: str
    """Image of the occupancy, relative to the folder of the file."""
    resolution: Annotated[float, Field(gt=0, le=100)]
    """Size of a pixel [m]."""
    origin: Annotated[tuple[float, ...], Field(min_length=2, max_length=3)] = (0.0, 0.0, 0.0)
    """Pose of the lower left corner of the image: x, y [m], yaw [rad]."""
    negate: Annotated[int, Field(ge=0, le=1)] = 0
    """1 if white is occupied."""
    occupied_thresh: Fraction = 0.65
    free_thresh: Fraction = 0.196
    mode: Literal["trinary", "scale", "raw"] = "trinary"


@file_reader(ConfigError)
def load_ros_map(
    path: str | PathLike[str],
    seed: int = 0,
    *,
    wall_height_m: float = WALL_HEIGHT_M,
    wall: str = "plaster",
    floor: str = "concrete",
    smooth_m: float = 0.0,
) -> World:
    """Load a ROS map: occupied cells are walls, free cells have a floor, unknown cells are open.

    Args:
        path: The .yaml file.
        seed: Not used.
        wall_height_m: Height of the walls [m].
        wall: Material of the walls.
        floor: Material of the floor.
        smooth_m: Largest distance [m] by which walls may leave the borders of pixels, to straighten slanted walls.
    """
    file = Path(path)
    sheet = config.load(RosMap, file)
    values = _grey(file.parent / sheet.image)
    if sheet.mode == "raw":
        occupied, free = (values <= 100) & (values >= 100 * sheet.occupied_thresh), values <= 100 * sheet.free_thresh
    else:
        share = values / 255.0 if sheet.negate else 1.0 - values / 255.0
        occupied, free = share > sheet.occupied_thresh, share < sheet.free_thresh
    if not occupied.any() and not free.any():
        raise ConfigError(f"{file}: all cells of {sheet.image} are unknown; check negate and the thresholds")
    x, y, yaw = (*sheet.origin, 0.0)[:3]
    pose = Pose((x, y, 0.0), rpy_deg=(0.0, 0.0, float(np.degrees(yaw))))
    world = World(file.stem)
    tally = Tally()
    _grid_world(world, occupied, free, sheet.resolution, pose, wall_height_m, wall, floor, smooth_m, tally)
    unknown = int(np.count_nonzero(~occupied & ~free))
    tally.omit("unknown cells", "left open", unknown)
    world.contents = tally.contents(file, "ROS map")
    return world


@file_reader(ConfigError)
def load_plan_image(
    path: str | PathLike[str],
    seed: int = 0,
    *,
    metres_per_pixel: float | None = None,
    threshold: float = 0.5,
    wall_height_m: float = WALL_HEIGHT_M,
    wall: str = "plaster",
    floor: str = "concrete",
    smooth_m: float = 0.0,
) -> World:
    """Load the picture of a floor plan: dark pixels are walls; the middle of the picture is the origin.

    Args:
        path: The image.
        seed: Not used.
        metres_per_pixel: Size of a pixel [m]; required.
        threshold: Brightness from 0 (black) to 1 (white) below which a pixel is a wall.
        wall_height_m: Height of the walls [m].
        wall: Material of the walls.
        floor: Material of the floor.
        smooth_m: Largest distance [m] by which walls may leave the borders of pixels, to straighten slanted walls.
    """
    file = Path(path)
    values = _grey(file)
    if metres_per_pixel is None:
        raise ConfigError(f"{file}: an image has no scale; set metres_per_pixel, for example 0.05")
    size = above(f"{file}: metres_per_pixel", metres_per_pixel, 0.0, 100.0)
    occupied = values < 255.0 * within(f"{file}: threshold", threshold, 0.0, 1.0)
    rows, columns = occupied.shape
    pose = Pose((-columns * size / 2, -rows * size / 2, 0.0))
    world = World(file.stem)
    tally = Tally()
    _grid_world(world, occupied, ~occupied, size, pose, wall_height_m, wall, floor, smooth_m, tally)
    world.contents = tally.contents(file, "floor plan image")
    return world


def _grey(file: Path) -> Floats:
    """Brightness from 0 to 255 of an image, the first row on top; shape (rows, columns)."""
    from PIL import Image

    data = read_bytes(file, ConfigError, largest=_LARGEST_BYTES, what="an image")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of large images, which are checked below
        picture: Any = Image.open(io.BytesIO(data))
        if picture.width * picture.height > MOST_PIXELS:
            raise ConfigError(f"{file}: {picture.width} x {picture.height} pixels; the limit is {MOST_PIXELS}")
        if picture.mode in ("LA", "RGBA", "PA"):
            # Transparent pixels are unknown, as in map_server: mid-grey.
            white = Image.new("RGBA", picture.size, (205, 205, 205, 255))
            picture = Image.alpha_composite(white, picture.convert("RGBA"))
        return np.asarray(picture.convert("L"), dtype=np.float64)


def cells_area(cells: NDArray[np.bool_], size: float) -> Any:
    """Area of cells (rows, columns), the first row on top; the origin is the lower left corner."""
    import shapely

    rows = len(cells)
    edges = np.diff(np.pad(cells.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    row, start = np.nonzero(edges == 1)
    _, end = np.nonzero(edges == -1)
    if len(row) == 0:
        return shapely.Polygon()
    # Runs with the same columns in successive rows are one rectangle.
    order = np.lexsort((row, end, start))
    row, start, end = row[order], start[order], end[order]
    first = np.concatenate([[True], (np.diff(row) != 1) | (np.diff(start) != 0) | (np.diff(end) != 0)])
    begin = np.flatnonzero(first)
    last = np.concatenate([begin[1:], [len(row)]]) - 1
    boxes = shapely.box(
        start[begin] * size, (rows - 1 - row[last]) * size, end[begin] * size, (rows - row[begin]) * size
    )
    return shapely.union_all(boxes, grid_size=size * 1e-3)


def _grid_world(
    world: World,
    occupied: NDArray[np.bool_],
    free: NDArray[np.bool_],
    size: float,
    pose: Pose,
    height: float,
    wall: str,
    floor: str,
    smooth: float,
    tally: Tally,
) -> None:
    import shapely
    from scipy import ndimage

    walls = cells_area(occupied, size)
    if within("smooth_m", smooth, 0.0, 10.0) > 0:
        walls = union(shapely.make_valid(part) for part in polygons(shapely.simplify(walls, smooth)))
    _walls_and_floor(world, walls, cells_area(occupied | free, size), pose, height, wall, floor)
    tally.add("walls", walls.area, "m2", len(polygons(walls)))
    tally.add("free space", float(np.count_nonzero(free)) * size**2, "m2")
    if free.any():
        # The free cell that is farthest from walls and unknown cells, among those near the middle.
        away = ndimage.distance_transform_edt(np.pad(free, 1))[1:-1, 1:-1]
        middle = np.hypot(*(np.indices(free.shape) - np.array(free.shape)[:, None, None] / 2)) / max(free.shape)
        row, column = np.unravel_index(int(np.argmax(np.minimum(away * size, 2.0) - middle * (away > 0))), free.shape)
        xy = [(column + 0.5) * size, (free.shape[0] - row - 0.5) * size, 0.0]
        x, y, _ = pose.apply(np.array([xy]))[0]
        world.viewpoint = Pose((float(x), float(y), 1.0))


def _walls_and_floor(world: World, walls: Any, ground: Any, pose: Pose, height: float, wall: str, floor: str) -> None:
    """Add walls with their tops, and the floor below both."""
    tall = above("wall_height_m", height, 0.0, 100.0)
    flat = MapGround()
    made = [
        KitPart("floor", surface(ground, flat), floor, "floor"),  # type: ignore[arg-type]
        KitPart("walls", skirt(walls, flat, 0.0, tall), wall, "wall"),  # type: ignore[arg-type]
        KitPart("tops", surface(walls, flat, tall), wall, "wall"),  # type: ignore[arg-type]
    ]
    for part in made:
        if part.mesh is not None:
            world.add(part.mesh, material=part.material, label=part.label, pose=pose, name=part.name)


# ---- drawings --------------------------------------------------------------------------------------------------------


@file_reader(ConfigError)
def load_svg(
    path: str | PathLike[str],
    seed: int = 0,
    *,
    metres_per_unit: float | None = None,
    wall_m: float = 0.15,
    wall_height_m: float = WALL_HEIGHT_M,
    wall: str = "plaster",
    floor: str = "concrete",
) -> World:
    """Load a drawing of walls: lines become walls, filled shapes become solid.

    Args:
        path: The .svg file.
        seed: Not used.
        metres_per_unit: Size of a unit of the drawing [m]; by default from its width and viewBox, if they have a unit.
        wall_m: Thickness of lines [m].
        wall_height_m: Height of the walls [m].
        wall: Material of the walls.
        floor: Material of the floor.
    """
    file = Path(path)
    tally = Tally()
    lines, solids, unit = drawn_shapes(file, tally)
    scale = unit if metres_per_unit is None else above(f"{file}: metres_per_unit", metres_per_unit, 0.0, 1e4)
    if scale is None:
        raise ConfigError(f"{file}: states no unit; set metres_per_unit")
    # y of a drawing points down.
    factor = np.array([scale, -scale])
    return _drawing_world(
        file, "SVG", [line * factor for line in lines], [ring * factor for ring in solids], wall_m, wall_height_m,
        wall, floor, tally,
    )  # fmt: skip


@file_reader(ConfigError)
def load_dxf(
    path: str | PathLike[str],
    seed: int = 0,
    *,
    layers: list[str] | None = None,
    metres_per_unit: float | None = None,
    wall_m: float = 0.15,
    wall_height_m: float = WALL_HEIGHT_M,
    wall: str = "plaster",
    floor: str = "concrete",
) -> World:
    """Load a drawing of walls from DXF; needs the package ezdxf.

    Args:
        path: The .dxf file.
        seed: Not used.
        layers: Names of the layers with walls; by default all.
        metres_per_unit: Size of a unit of the drawing [m]; by default that of its header.
        wall_m: Thickness of lines [m].
        wall_height_m: Height of the walls [m].
        wall: Material of the walls.
        floor: Material of the floor.
    """
    try:
        import ezdxf
        from ezdxf import path as paths
    except ImportError:
        raise MissingDependencyError(
            f"{shown(path)}: reading .dxf needs the package ezdxf: pip install 'parhelion[cad]'"
        ) from None
    file = Path(path)
    text = read_bytes(file, ConfigError, largest=_LARGEST_BYTES, what="a drawing").decode("utf-8", "surrogateescape")
    document = ezdxf.read(io.StringIO(text.replace("\r\n", "\n")))  # type: ignore[attr-defined]
    unit = UNITS_M.get({1: "in", 2: "ft", 4: "mm", 5: "cm", 6: "m"}.get(int(document.header.get("$INSUNITS", 0)), ""))
    scale = unit if metres_per_unit is None else above(f"{file}: metres_per_unit", metres_per_unit, 0.0, 1e4)
    if scale is None:
        raise ConfigError(f"{file}: its header states no unit; set metres_per_unit")
    tally, lines = Tally(), []
    for entity in _entities(document.modelspace(), tally):
        kind, layer = entity.dxftype(), entity.dxf.get("layer", "0")
        if layers is not None and layer not in layers:
            tally.omit(f"{kind} on layer {layer}", "not among the chosen layers")
            continue
        try:
            flat = np.array([(p.x, p.y) for p in paths.make_path(entity).flattening(0.005 / scale)])
        except TypeError:
            tally.omit(kind, "no wall")
            continue
        if len(flat) >= 2:
            lines.append(flat * scale)
            tally.add(kind, float(np.hypot(*np.diff(flat * scale, axis=0).T).sum()), "m")
    return _drawing_world(file, "DXF", lines, [], wall_m, wall_height_m, wall, floor, tally)


def _entities(space: Any, tally: Tally, depth: int = 0) -> Any:
    """Entities of a space, those of inserted blocks included."""
    for entity in space:
        if entity.dxftype() == "INSERT":
            if depth >= 8:
                tally.omit("INSERT", "blocks nested deeper than 8 levels")
                continue
            yield from _entities(entity.virtual_entities(), tally, depth + 1)
        else:
            yield entity


def _drawing_world(
    file: Path,
    form: str,
    lines: list[Floats],
    solids: list[Floats],
    wall_m: float,
    height: float,
    wall: str,
    floor: str,
    tally: Tally,
) -> World:
    """World of lines and filled outlines in metres, centred on the origin."""
    import shapely

    half = above(f"{file}: wall_m", wall_m, 0.0, 10.0) / 2
    shapes = [
        shapely.buffer(shapely.LineString(line), half, cap_style="square", join_style="mitre", mitre_limit=1.5)
        for line in lines
    ]
    shapes += [shapely.make_valid(shapely.Polygon(ring)) for ring in solids if len(ring) >= 3]
    walls = union(shapes)
    if walls.is_empty:
        raise ConfigError(f"{file}: has no lines or shapes that can be walls")
    low_x, low_y, high_x, high_y = walls.bounds
    if max(high_x - low_x, high_y - low_y) > 5000.0:
        raise ConfigError(
            f"{file}: the plan is {high_x - low_x:.0f} x {high_y - low_y:.0f} m, the limit is 5000 m; "
            "set metres_per_unit"
        )
    middle = np.round([(low_x + high_x) / 2, (low_y + high_y) / 2], 3)
    world = World(file.stem)
    _walls_and_floor(
        world,
        walls,
        shapely.box(low_x, low_y, high_x, high_y),
        Pose((-middle[0], -middle[1], 0.0)),
        height,
        wall,
        floor,
    )
    tally.add("walls", walls.area, "m2", len(polygons(walls)))
    world.contents = tally.contents(file, form)
    return world
