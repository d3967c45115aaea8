"""Layouts as bitmaps seen from above: one number per pixel, for planners and machine learning, as array or PNG."""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.files import atomic_write
from parhelion.world.procedural.footprints import Footprints, footprints
from parhelion.world.procedural.kinds import KINDS
from parhelion.world.procedural.layout import Layout
from parhelion.world.procedural.relief import in_the_way

Content = Literal["classes", "occupancy"]

FREE = 0
"""Value of a free pixel."""
OCCUPIED = 1
"""Value of an occupied pixel of an occupancy map."""
MOST_PIXELS = 100_000_000

# One display colour per kind, in the order of the codes; the pixel values are the codes.
_COLOURS: dict[str, tuple[int, int, int]] = {
    "wall": (199, 154, 114),
    "rack": (74, 111, 219),
    "pallet": (233, 196, 106),
    "box": (199, 125, 255),
    "pillar": (150, 150, 160),
    "door": (200, 70, 60),
    "marker": (255, 255, 255),
    "anchor": (69, 214, 200),
    "charging-station": (120, 230, 120),
    "cone": (255, 130, 20),
    "tree": (140, 98, 57),
    "rock": (167, 159, 145),
    "bush": (79, 174, 98),
    "ground": (124, 128, 136),
    "terrain": (154, 163, 86),
    "roof": (95, 102, 114),
    "streets": (70, 74, 82),
    "building": (190, 120, 90),
    "fence": (110, 116, 130),
    "bench": (181, 137, 84),
    "lamp": (255, 236, 150),
    "traffic-sign": (255, 92, 92),
    "traffic-light": (255, 176, 59),
    "litter-bin": (112, 92, 140),
    "hydrant": (226, 40, 74),
    "bicycle": (64, 196, 255),
    "shelter": (160, 220, 235),
    "car": (98, 148, 250),
    "lorry": (50, 96, 190),
    "person": (255, 105, 210),
    "planted-tree": (56, 142, 60),
    "tree-pits": (92, 74, 52),
    "footprint": (205, 133, 100),
    "basin": (88, 94, 104),
    "bollards": (230, 225, 210),
    "fenders": (40, 40, 46),
    "ladders": (176, 190, 197),
    "rails": (120, 144, 156),
    "piles": (161, 120, 70),
    "bridge": (141, 120, 150),
    "vessel": (0, 188, 170),
    "crane": (244, 208, 63),
    "containers": (211, 84, 60),
}
_FREE_COLOUR = (21, 26, 33)


def layout_bitmap(
    layout: Layout, resolution_m: float = 0.05, *, content: Content = "classes", up_to_m: float = 2.0
) -> NDArray[np.uint8]:
    """Bitmap (height, width) of a layout: row 0 at the greatest y, column 0 at the smallest x.

    A pixel is occupied if its centre lies on the footprint of an object that starts lower than `up_to_m` above the
    ground (for a tree, the trunk). `classes` stores the code of the kind (`KINDS[kind].code`), `occupancy` stores 1; 0
    is free. Later objects of the list cover earlier ones. Pixels are `resolution_m` wide; if that does not divide the
    plan, the last row and column extend beyond it.
    """
    columns, rows = _shape(layout, resolution_m)
    if content not in ("classes", "occupancy"):
        raise ConfigError(f"layout bitmap: content must be 'classes' or 'occupancy', got {content!r}")
    if not up_to_m > 0:
        raise ConfigError(f"layout bitmap: up_to_m must be a positive number, got {up_to_m!r}")
    image = np.full((rows, columns), FREE, dtype=np.uint8)
    areas = footprints(layout)
    seen = areas.rows(in_the_way(layout, areas, up_to_m))
    left, top = -layout.size[0] / 2, layout.size[1] / 2
    x = left + (np.arange(columns) + 0.5) * resolution_m
    y = top - (np.arange(rows) + 0.5) * resolution_m
    reach = seen.reach
    first_x = np.searchsorted(x, seen.middle[:, 0] - reach[:, 0])
    after_x = np.searchsorted(x, seen.middle[:, 0] + reach[:, 0], side="right")
    first_y = np.searchsorted(-y, -(seen.middle[:, 1] + reach[:, 1]))
    after_y = np.searchsorted(-y, -(seen.middle[:, 1] - reach[:, 1]), side="right")
    for k in range(len(seen)):
        window = slice(first_y[k], after_y[k]), slice(first_x[k], after_x[k])
        code = KINDS[layout.objects[seen.row[k]].kind].code if content == "classes" else OCCUPIED
        image[window][_inside(seen.rows(np.array([k])), x[window[1]], y[window[0]])] = code
    return image


def _inside(area: Footprints, x: NDArray[np.floating], y: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Mask of the pixels of a window on one footprint, shape (len(y), len(x))."""
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    return (area.distance(points)[:, 0] <= 0.0).reshape(len(y), len(x))


def _shape(layout: Layout, resolution_m: float) -> tuple[int, int]:
    good = isinstance(resolution_m, (int, float, np.number)) and not isinstance(resolution_m, bool)
    if not good or not (np.isfinite(resolution_m) and resolution_m > 0):
        raise ConfigError(f"layout bitmap: resolution_m must be a positive number, got {resolution_m!r}")
    # Slightly less, so that 25 m in pixels of 0.1 m gives 250 and not 251.
    columns, rows = (max(1, math.ceil(side / resolution_m - 1e-6)) for side in layout.size)
    if columns * rows > MOST_PIXELS:
        raise ConfigError(
            f"layout bitmap: resolution_m {resolution_m!r} gives {columns} x {rows} pixels, {MOST_PIXELS} at most"
        )
    return columns, rows


def save_layout_bitmap(
    layout: Layout,
    path: str | PathLike[str],
    resolution_m: float = 0.05,
    *,
    content: Content = "classes",
    up_to_m: float = 2.0,
) -> None:
    """Write the bitmap as an 8-bit PNG. Pixel values are those of `layout_bitmap`; a palette adds colours."""
    from PIL import Image

    file = Path(path)
    if file.suffix.lower() != ".png":
        raise ConfigError(f"{file}: the name of a bitmap must end in .png")
    picture = Image.fromarray(layout_bitmap(layout, resolution_m, content=content, up_to_m=up_to_m))
    picture.putpalette(palette(content).ravel().tolist())
    with atomic_write(file) as temporary:
        picture.save(temporary, format="PNG", optimize=True)


def palette(content: Content = "classes") -> NDArray[np.uint8]:
    """Colours (256, 3) of the pixel values."""
    colours = np.zeros((256, 3), dtype=np.uint8)
    colours[FREE] = _FREE_COLOUR
    if content == "occupancy":
        colours[OCCUPIED] = (255, 255, 255)
        return colours
    for kind, colour in _COLOURS.items():
        colours[KINDS[kind].code] = colour
    return colours
