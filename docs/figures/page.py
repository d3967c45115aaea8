"""Common parts of the pictures of model pages: a light sheet, simple rigs, and output files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

import parhelion as ph
from parhelion.core.config import parse
from parhelion.pictures.charts import Chart
from parhelion.pictures.html import LIGHT
from parhelion.sensors.optics.lidar.config import LidarConfig

IMAGES = Path(__file__).resolve().parents[1] / "images"
BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#1f6fb4", "#e07b00", "#2a8f4d", "#c43131", "#7a4fb0", "#6b7280"
MOST_BYTES = 200_000


def sheet(width_in: float, height_in: float, columns: int, rows: int = 1, **grid: Any) -> tuple[Figure, list[Any]]:
    """A white figure with panels in rows, drawn in memory.

    Pages are 700 pixels wide at most, 6.4 inches: text of wider figures becomes small.
    """
    figure = Figure(figsize=(width_in, height_in), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(rows, columns, squeeze=False, **grid).ravel())


def draw_chart(axes: Any, chart: Chart) -> None:
    """A chart of a report page, drawn with Matplotlib."""
    looks = {
        "line": "-", "dashed": "--", "thick": "-", "joined": ".-", "dots": "o", "rings": "o", "crosses": "x"
    }  # fmt: skip
    for curve in chart.curves:
        hollow = {"mfc": "none"} if curve.look == "rings" else {}
        look = {"fmt": looks[curve.look], "ms": 3.5, "lw": 1.1, "color": LIGHT[curve.colour % len(LIGHT)]}
        half = None
        if curve.look in ("line", "dashed", "thick"):
            axes.fill_between(curve.x, curve.low, curve.high, color=look["color"], alpha=0.2, lw=0)
        elif (curve.high > curve.low).any():
            half = 0.5 * (curve.high - curve.low)
        axes.errorbar(curve.x, curve.mean, half, label=curve.name or None, **look, **hollow)
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        if name in chart.log:
            getattr(axes, f"set_{name}scale")("log")
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=20))
            axis.set_major_formatter(ScalarFormatter())
            axis.set_minor_formatter(NullFormatter())
    # None as a limit would freeze the limits of an empty panel.
    axes.set(**{name: span for name, span in (("xlim", chart.x_limits), ("ylim", chart.y_limits)) if span is not None})
    if chart.zero:
        axes.set_ylim(bottom=0.0)
    if chart.key():
        axes.legend(fontsize=8)


def finish(figure: Figure, name: str) -> None:
    """Thin grids, small ticks, and the file `docs/images/<name>.png`."""
    for axes in figure.axes:
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.tick_params(labelsize=8)
        axes.xaxis.label.set_fontsize(9)
        axes.yaxis.label.set_fontsize(9)
        axes.title.set_fontsize(10)
    IMAGES.mkdir(exist_ok=True)
    file = IMAGES / f"{name}.png"
    figure.savefig(file)
    size = file.stat().st_size
    print(f"{file}: {size / 1e3:.0f} kB")
    if size > MOST_BYTES:
        raise SystemExit(f"{file}: larger than {MOST_BYTES / 1e3:.0f} kB")


def raster(
    azimuth_deg: tuple[float, float] = (0.0, 0.0),
    columns: int = 1,
    elevation_deg: tuple[float, float] = (0.0, 0.0),
    rows: int = 1,
) -> dict[str, Any]:
    """A pattern of a few beams around the x axis; one along it by default."""
    return {
        "kind": "raster", "rate_hz": 10.0, "azimuth_deg": azimuth_deg, "elevation_deg": elevation_deg,
        "columns": columns, "rows": rows,
    }  # fmt: skip


def changed(preset: str, **sections: dict[str, Any]) -> LidarConfig:
    """A preset with some of its fields replaced, section by section; a pattern is replaced as a whole."""
    config = ph.Lidar(preset).config
    data = config.model_dump(mode="python")
    for name, values in sections.items():
        data[name] = values if name == "pattern" else {**data[name], **values}
    return parse(LidarConfig, data, preset)


def add_wall(
    world: ph.World, distance_m: float, material: str, *, size_m: float = 60.0, turn_deg: float = 0.0, y_m: float = 0.0
) -> None:
    """A thin wall across the x axis that faces the origin, turned about the vertical."""
    upright = ph.Pose(rpy_deg=(0, -90, 0))
    world.add(
        ph.shapes.plane(size_m, size_m),
        material=material,
        label="board",
        pose=ph.Pose((distance_m, y_m, 0), rpy_deg=(0, 0, turn_deg)) @ upright,
    )


def wall(distance_m: float, material: str, **options: float) -> ph.World:
    """A world of one such wall."""
    world = ph.World()
    add_wall(world, distance_m, material, **options)
    return world
