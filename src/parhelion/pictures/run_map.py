"""The way of vehicles from above, over the world as it stands at the start, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.pictures.run_images import rgb_uri
from parhelion.pictures.run_plots import COLOURS, number, polyline, ticks
from parhelion.pictures.style import colour_labels
from parhelion.rays.records import Rays
from parhelion.rays.scene import RayScene
from parhelion.world.world import World

_WIDTH = 860
_LEFT, _BOTTOM = 52, 28
_AROUND_M = 18.0
"""What is shown around a way at least."""
_BELOW_CEILING_M = 0.02
_LIGHT = np.array([-0.48, 0.37, 0.80])  # from the upper left, as maps are shaded
_MOST_POINTS = 600


@dataclass(frozen=True, eq=False)
class Way:
    """Where something was during a run."""

    name: str
    xyz: NDArray[np.float64]
    """Places [m] in the order of time, shape (n, 3)."""
    colour: int | None = None
    """Number in the page's palette; None for what is not in the foreground."""

    @property
    def length_m(self) -> float:
        """Length of the way."""
        return float(np.linalg.norm(np.diff(self.xyz, axis=0), axis=1).sum())


def way_map(world: World, ways: Sequence[Way]) -> str:
    """An SVG element: the world from above, a ceiling taken off, and the ways over it.

    Ways with a colour decide what part of the world is shown; where there are none, all of it is.
    """
    extent = _extent(world, [way for way in ways if way.colour is not None])
    columns = _WIDTH - _LEFT
    rows = round(columns * (extent[3] - extent[2]) / (extent[1] - extent[0]))
    parts = []
    if world.bounds is not None:
        picture = rgb_uri(_from_above(world, ways, extent, columns, rows))
        parts.append(f'<image x="{_LEFT}" y="0" width="{columns}" height="{rows}" href="{picture}"/>')
    scale = columns / (extent[1] - extent[0])

    def placed(xyz: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([_LEFT + (xyz[:, 0] - extent[0]) * scale, (extent[3] - xyz[:, 1]) * scale], axis=1)

    for tick in ticks(extent[0], extent[1], 8):
        x = _LEFT + (tick - extent[0]) * scale
        parts.append(f'<path class="mapgrid" d="M{x:.1f} 0V{rows}"/>')
        if _LEFT + 24 < x < _WIDTH - 16:
            parts.append(f'<text class="mid" x="{x:.1f}" y="{rows + 20}">{number(tick)}</text>')
    for tick in ticks(extent[2], extent[3], 5):
        y = (extent[3] - tick) * scale
        parts.append(f'<path class="mapgrid" d="M{_LEFT} {y:.1f}H{_WIDTH}"/>')
        if 8 < y < rows - 4:
            parts.append(f'<text class="end" x="{_LEFT - 6}" y="{y + 4:.1f}">{number(tick)}</text>')
    for way in sorted(ways, key=lambda way: way.colour is not None):
        parts.append(_drawn(way, placed(_thinned(way.xyz))))
    parts.append(f'<text class="end unit" x="{_LEFT - 6}" y="{rows + 20}">[m]</text>')
    height = rows + _BOTTOM
    frame = f'<clipPath id="map"><rect x="{_LEFT}" y="0" width="{columns}" height="{rows}"/></clipPath>'
    words = "Map of the world with the ways of the vehicles"
    box = f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{words}"'
    return f'<svg class="map" {box}>{frame}{"".join(parts)}</svg>'


def _drawn(way: Way, points: NDArray[np.float64]) -> str:
    if way.colour is None:
        return f'<path class="other" clip-path="url(#map)" d="{polyline(points)}"/>'
    colour = way.colour % COLOURS
    (x, y), (first_x, first_y) = points[-1], points[0]
    return (
        f'<g clip-path="url(#map)"><path class="halo" d="{polyline(points)}"/>'
        f'<path class="way s{colour}" d="{polyline(points)}"/>'
        f'<circle class="start s{colour}" cx="{first_x:.1f}" cy="{first_y:.1f}" r="4.5"/>'
        f'<circle class="stop f{colour}" cx="{x:.1f}" cy="{y:.1f}" r="5.5"/></g>'
    )


def _thinned(xyz: NDArray[np.float64]) -> NDArray[np.float64]:
    rows = np.unique(np.linspace(0, len(xyz) - 1, min(len(xyz), _MOST_POINTS)).round().astype(np.intp))
    return xyz[rows]


def _extent(world: World, ways: Sequence[Way]) -> tuple[float, float, float, float]:
    """x_min, x_max, y_min, y_max [m]: the ways with what is around them, not beyond the world."""
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
    # Neither a stripe nor a tower: the page is as wide as it is.
    half = np.array([max(half[0], half[1] / 0.8), max(half[1], half[0] * 0.36)])
    return (
        float(middle[0] - half[0]), float(middle[0] + half[0]),
        float(middle[1] - half[1]), float(middle[1] + half[1]),
    )  # fmt: skip


def _from_above(
    world: World, ways: Sequence[Way], extent: tuple[float, float, float, float], columns: int, rows: int
) -> NDArray[np.float64]:
    """Colours (rows, columns, 4): one ray a pixel, label colours shaded by slope; clear where there is nothing."""
    scene = RayScene(world.geometry())
    bounds = world.bounds
    assert bounds is not None
    start = np.empty((rows * columns, 3))
    start[:, 0] = np.tile(extent[0] + (np.arange(columns) + 0.5) * (extent[1] - extent[0]) / columns, rows)
    start[:, 1] = np.repeat(extent[3] - (np.arange(rows) + 0.5) * (extent[3] - extent[2]) / rows, columns)
    ceiling = _ceiling(world, scene, ways)
    start[:, 2] = bounds[1][2] + 1.0 if ceiling is None else ceiling - _BELOW_CEILING_M
    hits = scene.cast(Rays.of(start, (0.0, 0.0, -1.0)))
    label = world.parts.label[np.maximum(hits.part, 0)]
    up = np.where(hits.normal[:, 2:] < 0.0, -hits.normal, hits.normal)
    slope = np.clip(up @ (_LIGHT / np.linalg.norm(_LIGHT)), 0.0, 1.0)
    colour = colour_labels(label, world.label_names) * (0.3 + 0.62 * slope)[:, None]
    image = np.concatenate([np.where(hits.found[:, None], colour, 0.0), hits.found[:, None]], axis=1)
    return image.reshape(rows, columns, 4)


def _ceiling(world: World, scene: RayScene, ways: Sequence[Way]) -> float | None:
    """Height [m] of a ceiling over most of the ways, or None."""
    ceilings = [number for number, word in world.label_names.items() if word == "ceiling"]
    if not ceilings:
        return None
    places = np.concatenate([_thinned(way.xyz)[::40] for way in ways]) if ways else world.viewpoint.xyz[None, :]
    hits = scene.cast(Rays.of(places + np.array([0.0, 0.0, 0.3]), (0.0, 0.0, 1.0)))
    under = hits.found & np.isin(world.parts.label[np.maximum(hits.part, 0)], ceilings)
    if np.mean(under) <= 0.5:
        return None
    return float(np.min(places[under, 2] + 0.3 + hits.range[under]))
