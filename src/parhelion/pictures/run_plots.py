"""Curves over time as SVG text: sharp at any size, in the page's own colours, the same for the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import ArrayLike, NDArray

COLOURS = 8
"""Colours of the page's palette; later curves begin anew."""

_WIDTH, _HEIGHT = 480, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 8, 24, 34
_MOST_POINTS = 320
"""Points that a curve has at most; of more, each stretch of time is drawn from its least to its largest value."""


@dataclass(frozen=True, eq=False)
class Curve:
    """One curve of a plot, thin enough to draw."""

    name: str
    x: NDArray[np.float64]
    """Where it is drawn, ascending, shape (n,)."""
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    """Least and largest value around each place; equal to `mean` where nothing was left out."""
    colour: int = 0
    """Number of its colour in the page's palette."""

    @classmethod
    def of(cls, name: str, x: ArrayLike, values: ArrayLike, colour: int = 0) -> Curve:
        """A curve through any number of points: many become stretches with mean, least and largest value.

        `x` ascending and `values`, each of shape (n,). Values that are not finite are left out.
        """
        place, value = np.asarray(x, np.float64), np.asarray(values, np.float64)
        kept = np.isfinite(place) & np.isfinite(value)
        place, value = place[kept], value[kept]
        if len(place) <= _MOST_POINTS:
            return cls(name, place, value, value, value, colour)
        first = np.unique(np.linspace(0, len(place), _MOST_POINTS + 1)[:-1].astype(np.intp))
        size = np.diff(np.append(first, len(place)))
        around = np.add.reduceat(place, first) / size
        around[0], around[-1] = place[0], place[-1]
        return cls(
            name, around, np.add.reduceat(value, first) / size,
            np.minimum.reduceat(value, first), np.maximum.reduceat(value, first), colour,
        )  # fmt: skip


def line_plot(
    curves: Sequence[Curve], *, unit: str, x_label: str = "time [s]", zero: bool = False, dots: bool = False
) -> str:
    """Curves in one frame as an SVG element; '' where there is nothing to draw.

    `unit` stands at the vertical axis; `zero` lets that axis begin at 0; `dots` leaves the points unconnected.
    """
    drawn = [curve for curve in curves if len(curve.x)]
    if not drawn:
        return ""
    x_min, x_max = _span(min(c.x[0] for c in drawn), max(c.x[-1] for c in drawn), 0.0)
    low, high = min(float(c.low.min()) for c in drawn), max(float(c.high.max()) for c in drawn)
    y_min, y_max = _span(min(low, 0.0) if zero else low, high, 0.06)
    y_min = 0.0 if zero and low >= 0.0 else y_min
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def across(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return _LEFT + (values - x_min) / (x_max - x_min) * (right - _LEFT)

    def down(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return bottom - (values - y_min) / (y_max - y_min) * (bottom - _TOP)

    parts = []
    for tick in ticks(y_min, y_max, 5):
        y = float(down(np.array(tick)))
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
        parts.append(f'<text class="end" x="{_LEFT - 6}" y="{y + 4:.1f}">{number(tick)}</text>')
    for tick in ticks(x_min, x_max, 6):
        x = float(across(np.array(tick)))
        parts.append(f'<text class="mid" x="{x:.1f}" y="{bottom + 15}">{number(tick)}</text>')
    parts.append(f'<path class="axis" d="M{_LEFT} {bottom}H{right}"/>')
    parts.append(f'<text class="mid unit" x="{(_LEFT + right) / 2:.0f}" y="{_HEIGHT - 4}">{escape(x_label)}</text>')
    parts.append(f'<text class="end unit" x="{_LEFT - 6}" y="12">{escape(unit)}</text>')
    for curve in drawn:
        colour = curve.colour % COLOURS
        places = across(curve.x)
        if np.any(curve.low < curve.high):
            band = np.concatenate(
                [np.stack([places, down(curve.high)], 1), np.stack([places, down(curve.low)], 1)[::-1]]
            )
            parts.append(f'<path class="band f{colour}" d="{polyline(band)}Z"/>')
        if len(places) == 1:
            parts.append(f'<circle class="f{colour}" cx="{places[0]:.1f}" cy="{down(curve.mean)[0]:.1f}" r="3"/>')
        elif dots:
            spots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in zip(places, down(curve.mean), strict=True))
            parts.append(f'<path class="dots s{colour}" d="{spots}"/>')
        else:
            parts.append(f'<path class="line s{colour}" d="{polyline(np.stack([places, down(curve.mean)], 1))}"/>')
    words = escape(", ".join(curve.name for curve in drawn) + f" [{unit}] over {x_label}", quote=True)
    return f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{words}">{"".join(parts)}</svg>'


def polyline(points: NDArray[np.float64]) -> str:
    """Points (n, 2) as the data of an SVG path, to a tenth of a unit."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points.tolist())


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers from `low` to `high`, near `about` of them."""
    rough = (high - low) / max(about, 1)
    if not (np.isfinite(rough) and rough > 0):
        return [low]
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough * 0.999)
    first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
    return [round(k * step, 12) for k in range(first, last + 1)]


def number(value: float) -> str:
    """A number at a tick: groups of three from 10 000 on, else as short as it can be."""
    if abs(value) >= 1e4 and value == round(value) and abs(value) < 1e9:
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.6g}".replace("-", "\u2212")


def _span(low: float, high: float, margin: float) -> tuple[float, float]:
    """Two ends that are never equal, with a margin as share of their distance."""
    # Nearly equal values would be drawn as the steps of their rounding.
    least = max(abs(low), abs(high)) * 1e-6
    if high - low <= least:
        half = max(abs(low) * 0.05, 0.5 if low == 0 else least)
        return low - half, high + half
    return low - margin * (high - low), high + margin * (high - low)
