"""A world from above, by one ray a pixel: label colours, shaded by slope and height."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.pictures import panels
from parhelion.pictures.style import ACCENT, SHEET, check_picture, colour_labels, quiet, save, sheet
from parhelion.rays.records import Hits, Rays
from parhelion.rays.scene import RayScene
from parhelion.world.world import World

_HEIGHT_IN = 9.5
_LIGHT = np.array([-0.45, 0.35, 0.82])  # from the upper left, as maps are shaded
_BELOW_CEILING_M = 0.02


def draw_world(world: World, path: str | PathLike[str], title: str | None = None) -> None:
    """The world from straight above at time 0, with its path, its viewpoint and a legend. A ceiling is taken off."""
    check_picture(path)
    bounds = world.bounds
    if bounds is None:
        raise ConfigError(f"world {world.name!r}: there is nothing in it to draw")
    lower, upper = bounds
    sides = np.maximum((upper - lower)[:2], 1e-3)
    width_in = float(np.clip((_HEIGHT_IN - 1.5) * sides[0] / sides[1], 6.5, 15.0)) + 1.0
    figure = sheet(width_in, _HEIGHT_IN)
    size = f"{sides[0]:.0f} x {sides[1]:.0f} m, {upper[2] - lower[2]:.1f} m high"
    facts = f"{world.triangle_count:,} triangles   |   {len(world.objects)} objects   |   {size}"
    panels.heading(figure, title or world.name or "world", facts.replace(",", " "))
    axes = figure.add_axes((0.07, 0.07, 0.9, 0.82))
    extent = panels.fitted_extent(axes, (lower + upper) / 2, 0.51 * sides[0], 0.51 * sides[1])
    columns, rows = (int(side) for side in panels.panel_pixels(axes))
    image, label = from_above(world, extent, columns, rows)
    axes.imshow(image, extent=extent, interpolation="nearest", aspect="equal")
    quiet(axes)
    axes.set(xlim=extent[:2], ylim=extent[2:], xlabel="x [m]", ylabel="y [m]")
    panels.label_legend(axes, label, world.label_names, most=14, loc="upper right")
    _marks(axes, world, extent)
    save(figure, path)


def from_above(
    world: World, extent: panels.Extent, columns: int, rows: int, time: float = 0.0
) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Colours (rows, columns, 4) of the world at a time [s], and the label of each pixel that met something."""
    bounds = world.bounds
    lower, upper = bounds if bounds is not None else (np.zeros(3), np.zeros(3))
    x = extent[0] + (np.arange(columns) + 0.5) * (extent[1] - extent[0]) / columns
    y = extent[3] - (np.arange(rows) + 0.5) * (extent[3] - extent[2]) / rows
    scene = RayScene(world.geometry())
    top = _ceiling(world, scene)
    start = np.empty((rows * columns, 3))
    start[:, 0], start[:, 1] = np.tile(x, rows), np.repeat(y, columns)
    start[:, 2] = upper[2] + 1.0 if top is None else top - _BELOW_CEILING_M
    hits = scene.cast(Rays.of(start, (0.0, 0.0, -1.0), time))
    label = world.parts.label[np.maximum(hits.part, 0)]
    colour = colour_labels(label, world.label_names) * _light(hits, start[:, 2] - hits.range, lower, upper)[:, None]
    image = np.concatenate([np.clip(colour, 0.0, 1.0), hits.found[:, None]], axis=1)
    return image.reshape(rows, columns, 4).astype(np.float32), label[hits.found]


def _light(hits: Hits, height: NDArray[Any], lower: NDArray[Any], upper: NDArray[Any]) -> NDArray[Any]:
    """How bright each pixel is: by its slope to the light, and lighter the higher it is."""
    up = np.where(hits.normal[:, 2:] < 0.0, -hits.normal, hits.normal)
    slope = np.clip(up @ (_LIGHT / np.linalg.norm(_LIGHT)), 0.0, 1.0)
    rise = np.clip(np.nan_to_num((height - lower[2]) / max(upper[2] - lower[2], 1e-3), neginf=0.0), 0.0, 1.0)
    light: NDArray[Any] = (0.35 + 0.75 * slope) * (0.8 + 0.2 * rise)
    return light


def _ceiling(world: World, scene: RayScene) -> float | None:
    """Height of a ceiling over the viewpoint [m], or None: indoors, a view from above would show nothing else."""
    place = world.viewpoint.xyz
    hit = scene.cast(Rays.of(place, (0.0, 0.0, 1.0)))
    if not hit.found[0] or world.label_names.get(int(world.parts.label[hit.part[0]])) != "ceiling":
        return None
    return float(place[2] + hit.range[0])


def _marks(axes: Any, world: World, extent: panels.Extent) -> None:
    times = getattr(world.path, "times", None)
    if world.path is not None and times is not None:
        way, _ = world.path.sample(np.linspace(times[0], times[-1], 400))
        axes.plot(way[:, 0], way[:, 1], color=SHEET, linewidth=4.0)
        axes.plot(way[:, 0], way[:, 1], color=ACCENT, linewidth=2.0)
    place = world.viewpoint
    panels.sensor_mark(axes, place.xyz[0], place.xyz[1], np.radians(place.rpy_deg[2]), 0.04 * (extent[1] - extent[0]))
