"""Means with their intervals against a parameter, as SVG text in the colours of a run's page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from parhelion.pictures.run_plots import COLOURS, Curve, number, polyline, ticks

_WIDTH, _HEIGHT = 480, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 22, 24, 34
_CAP = 3.5
"""Half the width of a whisker's end."""


def interval_plot(curves: Sequence[Curve], *, unit: str, x_label: str) -> str:
    """A dot a mean, a whisker an interval, dots of one curve connected; '' where there is nothing to draw.

    `low` and `high` of a curve are the interval's ends, equal to `mean` where there is none.
    """
    drawn = [curve for curve in curves if len(curve.x)]
    if not drawn:
        return ""
    x_min, x_max = _ends(min(c.x.min() for c in drawn), max(c.x.max() for c in drawn), 0.0)
    y_min, y_max = _ends(min(c.low.min() for c in drawn), max(c.high.max() for c in drawn), 0.08)
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def across(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return _LEFT + 8 + (values - x_min) / (x_max - x_min) * (right - _LEFT - 8)

    def down(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return bottom - (values - y_min) / (y_max - y_min) * (bottom - _TOP)

    parts = []
    for tick in ticks(y_min, y_max, 5):
        place = float(down(np.array(tick)))
        parts.append(f'<path class="grid" d="M{_LEFT} {place:.1f}H{right}"/>')
        parts.append(f'<text class="end" x="{_LEFT - 6}" y="{place + 4:.1f}">{number(tick)}</text>')
    for tick in ticks(x_min, x_max, 6):
        place = float(across(np.array(tick)))
        parts.append(f'<text class="mid" x="{place:.1f}" y="{bottom + 15}">{number(tick)}</text>')
    parts.append(f'<path class="axis" d="M{_LEFT} {bottom}H{right}"/>')
    parts.append(f'<text class="mid unit" x="{(_LEFT + right) / 2:.0f}" y="{_HEIGHT - 4}">{escape(x_label)}</text>')
    parts.append(f'<text class="unit" x="4" y="12">{escape(unit)}</text>')
    for curve in drawn:
        colour = curve.colour % COLOURS
        x, y, low, high = across(curve.x), down(curve.mean), down(curve.low), down(curve.high)
        whiskers = "".join(
            f"M{a:.1f} {b:.1f}V{c:.1f}M{a - _CAP:.1f} {b:.1f}h{2 * _CAP}M{a - _CAP:.1f} {c:.1f}h{2 * _CAP}"
            for a, b, c in zip(x, low, high, strict=True)
            if abs(b - c) > 0.05
        )
        if len(x) > 1:
            parts.append(f'<path class="line s{colour}" d="{polyline(np.stack([x, y], 1))}"/>')
        if whiskers:
            parts.append(f'<path class="line s{colour}" d="{whiskers}"/>')
        parts += [f'<circle class="f{colour}" cx="{a:.1f}" cy="{b:.1f}" r="2.6"/>' for a, b in zip(x, y, strict=True)]
    words = escape(", ".join(curve.name for curve in drawn) + f" [{unit}] over {x_label}", quote=True)
    return f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{words}">{"".join(parts)}</svg>'


def _ends(low: float, high: float, margin: float) -> tuple[float, float]:
    """Two ends that are never equal, with a margin as share of their distance."""
    least = max(abs(low), abs(high)) * 1e-6
    if high - low <= least:
        half = max(abs(low) * 0.05, 0.5 if low == 0 else least)
        return float(low - half), float(high + half)
    return float(low - margin * (high - low)), float(high + margin * (high - low))
