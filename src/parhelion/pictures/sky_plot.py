"""The sky over a receiver as SVG text: north up, the zenith in the middle, the horizon around."""

from __future__ import annotations

from html import escape

import numpy as np

from parhelion.core.pose import Floats
from parhelion.core.streams import BLOCKED, DIRECT, MULTIPATH, REFLECTED, GnssData

COLOUR = {BLOCKED: "#8a929c", REFLECTED: "#d98a1a", MULTIPATH: "#d98a1a", DIRECT: "#2c9a4b"}
"""Grey for satellites that are blocked, amber for those with or by mirrors, green for direct ones."""
KEY = (("direct", COLOUR[DIRECT]), ("by or with mirrors", COLOUR[REFLECTED]), ("blocked", COLOUR[BLOCKED]))
_SIZE, _MIDDLE, _RADIUS = 360, 180, 150
_MOST_POINTS = 40


def sky_plot(data: GnssData) -> str:
    """Satellites at the last time, with their ways over the run and the lines of sight from the antenna in the middle.

    Lines to satellites that are not in view are dashed. '' where there is no time.
    """
    if not len(data):
        return ""
    parts = [f'<svg viewBox="0 0 {_SIZE} {_SIZE}" role="img" aria-label="sky plot" font-size="10" fill="currentColor">']
    for elevation in (0, 30, 60):
        parts.append(
            f'<circle cx="{_MIDDLE}" cy="{_MIDDLE}" r="{_RADIUS * (90 - elevation) / 90:.0f}" fill="none" '
            'stroke="currentColor" stroke-opacity=".25"/>'
        )
    for word, right, down in (("N", 180, 22), ("E", 342, 184), ("S", 180, 346), ("W", 18, 184)):
        parts.append(f'<text x="{right}" y="{down}" text-anchor="middle" opacity=".7">{word}</text>')
    rows = np.unique(np.linspace(0, len(data) - 1, _MOST_POINTS).astype(int))
    for j, name in enumerate(data.satellites):
        status = int(data.status[-1, j])
        if status not in COLOUR:
            continue
        seen = rows[data.status[rows, j] > 0]
        x, y = _place(data.azimuth[seen, j], data.elevation[seen, j])
        way = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
        colour = COLOUR[status]
        hollow = status == REFLECTED
        dashes = "" if status in (DIRECT, MULTIPATH) else ' stroke-dasharray="3 4"'
        parts.append(
            f'<line class="sight" x1="{_MIDDLE}" y1="{_MIDDLE}" x2="{x[-1]:.1f}" y2="{y[-1]:.1f}" stroke="{colour}" '
            f'stroke-opacity=".35"{dashes}/>'
        )
        parts.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-opacity=".5"/>')
        parts.append(
            f'<circle cx="{x[-1]:.1f}" cy="{y[-1]:.1f}" r="5" fill="{"none" if hollow else colour}" stroke="{colour}" '
            'stroke-width="2"/>'
        )
        parts.append(f'<text x="{x[-1] + 7:.1f}" y="{y[-1] + 3:.1f}">{escape(name)}</text>')
    return "".join(parts) + "</svg>"


def _place(azimuth: Floats, elevation: Floats) -> tuple[Floats, Floats]:
    r = _RADIUS * (1.0 - np.degrees(elevation) / 90.0)
    return _MIDDLE + r * np.sin(azimuth), _MIDDLE - r * np.cos(azimuth)
