"""Common style of all pictures: dark sheet, axes, label colours, and writing to a file."""

from __future__ import annotations

import colorsys
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.files import atomic_write

SHEET = "#0e1116"
PANEL = "#151a21"
INK = "#dfe5ec"
MUTED = "#8d99a8"
ACCENT = "#ffb454"

RANGE_COLOURS = "viridis_r"
INTENSITY_COLOURS = "inferno"
HEIGHT_COLOURS = "viridis"

DPI = 120
PICTURE_ENDINGS = (".png", ".jpg", ".pdf", ".svg")

# The colour of every label, for reports, pictures, data sets, the viewer and Foxglove. Hue shows the kind of object:
# ground grey, buildings sand, plants green, people red, and vehicles blue (cars), violet (trucks), magenta (buses) and
# turquoise (vessels). Neighbours in a scene also differ in lightness, so that they are distinguishable without hue.
LABEL_COLOURS: Mapping[str, str] = {
    "road": "#6e7686",
    "parking": "#7d7391",
    "sidewalk": "#a79fb5",
    "lane-marking": "#f4f1de",
    "other-ground": "#8b7f76",
    "ground": "#7c8088",
    "floor": "#7c8088",
    "terrain": "#9aa356",
    "rock": "#8f8577",
    "building": "#d9a566",
    "wall": "#c79a72",
    "roof": "#b5714f",
    "ceiling": "#5f6672",
    "window": "#8fd3e8",
    "door": "#8a5a44",
    "stairs": "#b3a394",
    "column": "#ddc9a8",
    "fence": "#b08968",
    "railing": "#b08968",
    "other-structure": "#a68a64",
    "vegetation": "#4fae62",
    "trunk": "#8c6239",
    "car": "#4aa3ff",
    "truck": "#7a5cff",
    "bus": "#e56df2",
    "other-vehicle": "#5f7fae",
    "on-rails": "#e05ca8",
    "vessel": "#1fc7a8",
    "bicycle": "#9be15d",
    "motorcycle": "#6fbf3a",
    "person": "#ff5d5d",
    "bicyclist": "#ff7ab6",
    "motorcyclist": "#e0487f",
    "pole": "#f2d64b",
    "traffic-sign": "#ff9f1c",
    "traffic-light": "#ffe066",
    "cone": "#ff7a1c",
    "other-object": "#c99be8",
    "object": "#c99be8",
    "box": "#c99be8",
    "outlier": "#cfdcec",
    "water": "#2b6f9e",
    "quay": "#a79f91",
    "bridge": "#c3b091",
    "crane": "#ff9f1c",
    "container": "#e4572e",
    "buoy": "#ff5d5d",
    "rail": "#6d8f8a",
    "ladder": "#d8b45a",
    "machine": "#e0703a",
    "shelf": "#4f8fb8",
    "pallet": "#b98a4e",
    "furniture": "#9c7bb0",
    "pipe": "#86a3a8",
    "cable": "#5a6a78",
    "tank": "#9fb4b0",
    "board": "#e9c46a",
    "cuboid": "#e9c46a",
    "cylinder": "#e9c46a",
    "sphere": "#e9c46a",
    "target": "#e9c46a",
    "in the air": "#cfdcec",
    "unlabeled": "#777777",
}


# Colours of materials, where surfaces without a label of their own differ in nothing else.
MATERIAL_COLOURS: Mapping[str, str] = {
    "concrete": "#8d939c",
    "asphalt": "#6e7686",
    "brick": "#c4694a",
    "plaster": "#e3d9c6",
    "white-paint": "#e3d9c6",
    "steel": "#6f8fb0",
    "stainless-steel": "#6f8fb0",
    "aluminium": "#a9bccb",
    "wood": "#b98a4e",
    "plywood": "#d0a870",
    "cardboard": "#c7a06a",
    "plastic": "#c99be8",
    "rubber": "#4a4f59",
    "glass": "#8fd3e8",
    "grass": "#7fae4f",
    "leaf": "#4fae62",
    "soil": "#7a5c43",
    "sand": "#d8c48a",
}


def label_colour(name: str) -> str:
    """Colour '#rrggbb' of a label: the same in every world; moving classes have the colour of their kind."""
    word = name.removeprefix("moving-")
    return LABEL_COLOURS.get(word) or MATERIAL_COLOURS.get(word) or further_colour(zlib.crc32(word.encode()))


@lru_cache(maxsize=4096)
def further_colour(number: int) -> str:
    """Colour of a number: hues in steps of the golden angle, so that neighbours differ, and three lightness levels."""
    hue = (0.11 + number * 0.618033988749895) % 1.0
    parts = colorsys.hls_to_rgb(hue, (0.62, 0.74, 0.5)[number % 3], 0.68)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def rgb(colour: str) -> NDArray[np.float64]:
    """A colour '#rrggbb' as red, green, blue in [0, 1]."""
    return np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])


def label_colours(names: Mapping[int, str]) -> dict[int, NDArray[np.float64]]:
    """Colour of each label number as red, green, blue in [0, 1]."""
    return {number: rgb(label_colour(name)) for number, name in sorted(names.items())}


def colour_labels(label: NDArray[Any], names: Mapping[int, str]) -> NDArray[np.float64]:
    """Red, green, blue in [0, 1] of each point, shape (n, 3)."""
    numbers = label.astype(np.intp)
    table = np.full((max(int(numbers.max(initial=0)), *names, 0) + 1, 3), 0.5)
    for number, colour in label_colours(names).items():
        table[number] = colour
    return table[numbers]


def colour_table(name: str) -> NDArray[np.float64]:
    """Red, green, blue in [0, 1] of a Matplotlib colour map, shape (256, 3)."""
    from matplotlib import colormaps

    return np.asarray(colormaps[name](np.linspace(0.0, 1.0, 256))[:, :3], np.float64)


def robust_limits(values: NDArray[Any], low: float = 1.0, high: float = 99.0) -> tuple[float, float]:
    """Two different percentiles of the finite values, so that outliers do not reduce the contrast."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return 0.0, 1.0
    first, last = (float(limit) for limit in np.percentile(finite, [low, high]))
    return (first, last) if last > first else (first, first + max(abs(first) * 1e-3, 1e-3))


def sheet(width_in: float, height_in: float) -> Any:
    """An empty dark figure, drawn in memory; no global state, no window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), dpi=DPI, facecolor=SHEET)
    FigureCanvasAgg(figure)
    return figure


def quiet(axes: Any, title: str = "") -> None:
    """Panel colours, thin ticks, and the title at the left."""
    axes.set_facecolor(PANEL)
    axes.tick_params(colors=MUTED, labelsize=8, length=3, width=0.6)
    for side in axes.spines.values():
        side.set_color("#2b323c")
        side.set_linewidth(0.8)
    axes.xaxis.label.set(color=MUTED, size=9)
    axes.yaxis.label.set(color=MUTED, size=9)
    if title:
        axes.set_title(title, loc="left", color=INK, fontsize=10.5, pad=7)


def colour_bar(image: Any, axes: Any, label: str) -> None:
    """Narrow colour bar to the right of `axes`, with its unit."""
    from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

    figure = axes.get_figure()
    inch = 1.0 / (axes.get_position().width * figure.get_size_inches()[0])
    inset = axes.inset_axes([1.0 + 0.11 * inch, 0.0, 0.13 * inch, 1.0])
    bar = figure.colorbar(image, cax=inset)
    low, high = image.norm.vmin, image.norm.vmax
    if low > 0.0:
        digits = (1.0, 2.0, 5.0) if high / low < 200.0 else (1.0,)
        bar.ax.yaxis.set_major_locator(LogLocator(subs=digits, numticks=20))
        bar.ax.yaxis.set_minor_locator(NullLocator())
        bar.ax.yaxis.set_major_formatter(ScalarFormatter())
    bar.set_label(label, color=MUTED, size=9)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=MUTED, labelsize=8, length=2, width=0.6)


def legend(axes: Any, entries: Sequence[tuple[str, Any]], **place: Any) -> None:
    """Words with a swatch of their colour."""
    from matplotlib.patches import Patch

    if not entries:
        return
    swatches = [Patch(facecolor=colour, label=word) for word, colour in entries]
    box = axes.legend(handles=swatches, fontsize=8, labelcolor=INK, handlelength=0.9, handleheight=0.9, **place)
    box.get_frame().set(facecolor=SHEET, edgecolor="#2b323c", alpha=0.85)


def label_shares(label: NDArray[Any], names: Mapping[int, str], most: int = 12) -> list[tuple[int, str, float]]:
    """Number, name and share of the most common labels, the largest share first."""
    if label.size == 0:
        return []
    counts = np.bincount(label.astype(np.intp))
    order = np.argsort(-counts, kind="stable")
    return [
        (int(number), names.get(int(number), f"label {number}"), float(counts[number] / label.size))
        for number in order[:most]
        if counts[number]
    ]


def pixels_of(figure: Any) -> NDArray[np.uint8]:
    """The figure as red, green, blue (h, w, 3)."""
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3].copy()


def check_picture(path: str | PathLike[str]) -> Path:
    """Path of a picture; the extension is checked before any work is done."""
    file = Path(path)
    if file.suffix.lower() not in PICTURE_ENDINGS:
        raise ConfigError(f"{file}: the name of a picture must end in {', '.join(PICTURE_ENDINGS)}")
    return file


def save(figure: Any, path: str | PathLike[str]) -> None:
    """Write the figure; an existing file is replaced only by a complete one."""
    file = check_picture(path)
    with atomic_write(file) as temporary:
        figure.savefig(temporary, format=file.suffix[1:].lower(), facecolor=figure.get_facecolor())
