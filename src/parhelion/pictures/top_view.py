"""Top view of a world by one ray per pixel: label colours, shaded by slope and height, with the paths of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.pictures import html, panels
from parhelion.pictures.charts import COLOURS, clipped, frame, polyline, scale_of, svg
from parhelion.pictures.images import rgb_uri
from parhelion.pictures.relief import Relief, class_names, from_above
from parhelion.pictures.style import (
    ACCENT,
    SHEET,
    check_picture,
    label_colour,
    label_shares,
    quiet,
    save,
    sheet,
)
from parhelion.world.world import World

_HEIGHT_IN = 9.5
_MAP_WIDTH = 860
_MAP_LEFT, _MAP_RIGHT, _MAP_TOP, _MAP_BOTTOM = 52, 12, 8, 32
_MAP_STEP = 75.0
_JUMP_M = 0.1
"""Rough distance of grid lines."""
_AROUND_M = 30.0
"""Smallest margin around a path."""
_MOST_POINTS = 600
_MOST_LABELS = 14
_LEAST_SHARE = 2e-4
"""Labels with a smaller share of a picture are not in its legend."""


def draw_world(world: World, path: str | PathLike[str], title: str | None = None) -> None:
    """Draw the top view of a world at time 0 with its path, viewpoint and legend. Ceilings are removed."""
    check_picture(path)
    bounds = world.bounds
    if bounds is None:
        raise ConfigError(f"world {world.name!r}: it contains nothing to draw")
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
    panels.label_legend(axes, label, class_names(world), most=14, loc="upper right")
    _marks(axes, world, extent)
    save(figure, path)


def _marks(axes: Any, world: World, extent: panels.Extent) -> None:
    times = getattr(world.path, "times", None)
    if world.path is not None and times is not None:
        way, _ = world.path.sample(np.linspace(times[0], times[-1], 400))
        axes.plot(way[:, 0], way[:, 1], color=SHEET, linewidth=4.0)
        axes.plot(way[:, 0], way[:, 1], color=ACCENT, linewidth=2.0)
    place = world.viewpoint
    panels.sensor_mark(axes, place.xyz[0], place.xyz[1], np.radians(place.rpy_deg[2]), 0.04 * (extent[1] - extent[0]))


# ---- the paths of a run --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Way:
    """Path of a body during a run."""

    name: str
    xyz: Floats
    """Positions [m] in the order of time, shape (n, 3)."""
    colour: int | None = None
    """Number in the page's palette; None for the background."""

    @property
    def length_m(self) -> float:
        """Length of the path, without jumps."""
        return float(steps_m(self.xyz).sum())


def steps_m(xyz: Floats) -> Floats:
    """Distances [m] between successive positions; 0 for a jump, such as that of a box back to the start of its belt.

    A jump is longer than `_JUMP_M` and more than five times as long as the steps before and after it.
    """
    steps = np.linalg.norm(np.diff(xyz, axis=0), axis=1)
    around = np.pad(steps, 1, constant_values=np.inf)
    jumps = (steps > _JUMP_M) & (steps > 5.0 * np.maximum(around[:-2], around[2:]))
    return np.where(jumps, 0.0, steps)


def places_of(ways: Sequence[Way]) -> Floats | None:
    """Some positions (n, 3) [m] of the paths with a colour; None without any."""
    own = [_thinned(way.xyz)[::40] for way in ways if way.colour is not None]
    return np.concatenate(own) if own else None


def way_map(world: World, ways: Sequence[Way], relief: Relief | None = None) -> str:
    """SVG element with the top view of the world, without its ceiling, and the paths, followed by a legend of labels.

    Paths with a colour determine the visible part of the world; without any, all of it is shown. `relief` is that of
    the world, if there is one already.
    """
    extent = _extent(world, [way for way in ways if way.colour is not None])
    columns = _MAP_WIDTH - _MAP_LEFT - _MAP_RIGHT
    rows = round(columns * (extent[3] - extent[2]) / (extent[1] - extent[0]))
    box = (_MAP_LEFT, _MAP_LEFT + columns, _MAP_TOP, _MAP_TOP + rows)
    parts = []
    legend = ""
    if world.bounds is not None:
        relief = relief or Relief(world, below=places_of(ways))
        image, label = relief.from_above(extent, columns, rows)
        picture = rgb_uri(image)
        legend = label_key(label, relief.names)
        parts.append(f'<image x="{_MAP_LEFT}" y="{_MAP_TOP}" width="{columns}" height="{rows}" href="{picture}"/>')
    across, down = scale_of(extent[:2], box[:2]), scale_of(extent[2:], box[:1:-1])
    parts += frame(across, down, extent[:2], extent[2:], box, grid="mapgrid", y_step=_MAP_STEP)
    drawn = []
    for way in sorted(ways, key=lambda way: way.colour is not None):
        xyz = _thinned(way.xyz)
        drawn.append(_drawn(way.colour, np.stack([across(xyz[:, 0]), down(xyz[:, 1])], axis=1)))
    parts.append(clipped("".join(drawn), box, margin=0))
    parts.append(f'<text class="end unit" x="{_MAP_LEFT - 6}" y="{box[3] + 26}">[m]</text>')
    drawn_map = svg("map", _MAP_WIDTH, box[3] + _MAP_BOTTOM, "Map of the world with the paths of the vehicles", *parts)
    return drawn_map + legend


def label_key(label: NDArray[Any], names: Mapping[int, str]) -> str:
    """Legend of the most common labels of a picture."""
    found = [word for _, word, share in label_shares(label, names, _MOST_LABELS) if share >= _LEAST_SHARE]
    return html.key([(word, label_colour(word)) for word in found])


def _drawn(colour: int | None, points: Floats) -> str:
    path = polyline(points)
    if colour is None:
        return f'<path class="other" d="{path}"/>'
    number = colour % COLOURS
    (x, y), (first_x, first_y) = points[-1], points[0]
    return (
        f'<path class="halo" d="{path}"/><path class="way s{number}" d="{path}"/>'
        f'<circle class="start s{number}" cx="{first_x:.1f}" cy="{first_y:.1f}" r="4.5"/>'
        f'<circle class="stop f{number}" cx="{x:.1f}" cy="{y:.1f}" r="5.5"/>'
    )


def _thinned(xyz: Floats) -> Floats:
    return xyz[np.unique(np.linspace(0, len(xyz) - 1, min(len(xyz), _MOST_POINTS)).round().astype(np.intp))]


def _extent(world: World, ways: Sequence[Way]) -> tuple[float, float, float, float]:
    """x_min, x_max, y_min, y_max [m]: the paths with a margin, not beyond the world."""
    bounds = world.bounds
    if ways:
        places = np.concatenate([way.xyz for way in ways])[:, :2]
        low, high = places.min(axis=0), places.max(axis=0)
        around = max(_AROUND_M, 0.4 * float((high - low).max()))
        shown_low, shown_high = low - around, high + around
        if bounds is not None:
            shown_low = np.minimum(np.maximum(shown_low, bounds[0][:2] - 1.0), low - 1.0)
            shown_high = np.maximum(np.minimum(shown_high, bounds[1][:2] + 1.0), high + 1.0)
    elif bounds is not None:
        shown_low, shown_high = bounds[0][:2] - 1.0, bounds[1][:2] + 1.0
    else:
        shown_low, shown_high = np.full(2, -_AROUND_M), np.full(2, _AROUND_M)
    middle, half = (shown_low + shown_high) / 2, (shown_high - shown_low) / 2
    # The page limits the aspect ratio.
    half = np.array([max(half[0], half[1] / 0.8), max(half[1], half[0] * 0.36)])
    (left, bottom), (right, top) = (middle - half).tolist(), (middle + half).tolist()
    return left, right, bottom, top
