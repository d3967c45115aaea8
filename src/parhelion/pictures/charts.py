"""Charts as SVG text for report pages: sharp at any size, in the page's colours, identical for identical data.

    Chart([Curve.of("speed", time, speed)], "m/s").figure("Speed", "Caption")

Two charts stand alone: the sky over a receiver (`sky_plot`), and a material's spectrum as a picture file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.pose import Floats
from parhelion.core.streams import BLOCKED, DIRECT, MULTIPATH, REFLECTED, GnssData
from parhelion.pictures import html
from parhelion.pictures.style import ACCENT, INK, MUTED, check_picture, quiet, save, sheet
from parhelion.surfaces.material import Material

COLOURS = len(html.LIGHT)
"""Colours of the page's palette; further curves start over."""
GREY = COLOURS - 1
"""Colour of references: truth, presets, zero lines."""

_WIDTH, _HEIGHT = 480, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 12, 24, 34
_LEAST_HEIGHT = 90
_X_STEP = 75.0
"""Rough distance of vertical grid lines."""
_MOST_POINTS = 320
"""Largest number of points of a line; longer ones become stretches with mean, smallest and largest value."""
_MOST_DOTS = 1000
"""More dots than this are rounded to whole units, and duplicates are dropped."""
_LETTER, _LINE, _MOST_LINES = 6.6, 13, 3
"""Width of a letter and height of a line below an axis of categories, and the most lines of a name."""
_MOST_SAVED = 1500
"""Largest number of points of a curve in the CSV file of a figure."""
_CAP = 3.5
"""Half the width of a whisker's end."""
_CLIP_MARGIN = 4

Limits = tuple[float, float]
Scale = Callable[[ArrayLike], Floats]


@dataclass(frozen=True, eq=False)
class Curve:
    """One curve of a chart."""

    name: str
    """Name in the legend; '' for a curve that the legend omits."""
    x: Floats
    mean: Floats
    """Coordinates, each of shape (n,)."""
    low: Floats
    high: Floats
    """Ends of the band or whisker of each point; equal to `mean` for none."""
    colour: int = 0
    """Number in the page's palette."""
    look: str = "line"
    """'line', 'dashed' or 'thick' (with a band); 'dots', 'rings', 'crosses' or 'joined' dots (with whiskers)."""

    @classmethod
    def of(
        cls, name: str, x: ArrayLike, values: ArrayLike, colour: int = 0, look: str = "line", error: ArrayLike = 0.0
    ) -> Curve:
        """A curve through any number of points with whiskers of half length `error`; omits non-finite values.

        A line of many points, `x` ascending, becomes stretches with mean, smallest and largest value.
        """
        place, value, half = np.broadcast_arrays(*(np.asarray(part, np.float64) for part in (x, values, error)))
        valid = np.isfinite(place) & np.isfinite(value)
        place, value, half = place[valid], value[valid], np.nan_to_num(half[valid], posinf=0.0)
        if len(place) <= _MOST_POINTS or look not in ("line", "dashed", "thick"):
            return cls(name, place, value, value - half, value + half, colour, look)
        first = np.unique(np.linspace(0, len(place), _MOST_POINTS + 1)[:-1].astype(np.intp))
        size = np.diff(np.append(first, len(place)))
        around = np.add.reduceat(place, first) / size
        around[0], around[-1] = place[0], place[-1]
        lowest, highest = np.minimum.reduceat(value, first), np.maximum.reduceat(value, first)
        return cls(name, around, np.add.reduceat(value, first) / size, lowest, highest, colour, look)

    @classmethod
    def histogram(cls, name: str, values: ArrayLike, bins: int, colour: int = 0) -> Curve:
        """Number of values in each of `bins` equal intervals, as filled steps."""
        counts, edges = np.histogram(values, bins)
        top = np.repeat(counts, 2).astype(np.float64)
        return cls(name, np.repeat(edges, 2)[1:-1], top, np.zeros_like(top), top, colour)

    @classmethod
    def level(cls, value: float, x: ArrayLike, name: str = "", look: str = "line") -> Curve:
        """A grey horizontal line from the smallest to the largest `x`."""
        return cls.of(name, [np.min(x), np.max(x)], [value, value], GREY, look)

    def data(self) -> list[Any]:
        """Name and coordinates for the CSV file of a figure: x, y, and the ends of bands and whiskers if there are."""
        rows = np.unique(np.linspace(0, len(self.x) - 1, min(len(self.x), _MOST_SAVED)).astype(np.intp))
        parts = [self.x, self.mean]
        if np.any(self.low != self.mean) or np.any(self.high != self.mean):
            parts += [self.low, self.high]
        return [self.name, *([float(f"{value:.6g}") for value in part[rows].tolist()] for part in parts)]

    def svg(self, across: Scale, down: Scale) -> str:
        """The curve as SVG elements, drawn on the two scales."""
        stroke, fill = f"s{self.colour % COLOURS}", f"f{self.colour % COLOURS}"
        x, y, low, high = across(self.x), down(self.mean), down(self.low), down(self.high)
        points = np.stack([x, y], axis=1)
        spread = np.abs(high - low) > 0.05
        line = self.look in ("line", "dashed", "thick")
        parts = []
        if line and spread.any():
            band = np.concatenate([np.stack([x, high], 1), np.stack([x, low], 1)[::-1]])
            parts.append(f'<path class="band {fill}" d="{polyline(band)}Z"/>')
        elif spread.any():
            ends = zip(x[spread].tolist(), low[spread].tolist(), high[spread].tolist(), strict=True)
            cap = f"m{-_CAP} 0h{2 * _CAP}"
            whiskers = "".join(f"M{a:.1f} {b:.1f}{cap}M{a:.1f} {b:.1f}V{c:.1f}{cap}" for a, b, c in ends)
            parts.append(f'<path class="line {stroke}" d="{whiskers}"/>')
        if (line or self.look == "joined") and len(x) > 1:
            mark = "" if self.look in ("line", "joined") else f" {self.look}"
            parts.append(f'<path class="line{mark} {stroke}" d="{polyline(points)}"/>')
        if self.look == "rings":
            parts += [f'<circle class="rings {stroke}" cx="{a:.1f}" cy="{b:.1f}" r="2.6"/>' for a, b in points.tolist()]
        elif self.look == "crosses":
            marks = "".join(f"M{a - 3:.1f} {b - 3:.1f}l6 6m0 -6l-6 6" for a, b in points.tolist())
            parts.append(f'<path class="line {stroke}" d="{marks}"/>')
        elif not line or len(x) == 1:
            size = " large" if len(x) < 150 else ""
            parts.append(f'<path class="dots{size} {stroke}" d="{_dots(points)}"/>')
        return "".join(parts)


@dataclass(frozen=True, eq=False)
class Chart:
    """Curves on common axes."""

    curves: Sequence[Curve]
    y_label: str
    """Quantity and unit, at the top of the vertical axis."""
    x_label: str = "time [s]"
    zero: bool = False
    """Let the vertical axis start at 0."""
    log: str = ""
    """Logarithmic axes: '', 'x', 'y' or 'xy'."""
    x_limits: Limits | None = None
    y_limits: Limits | None = None
    """Ends of the axes; from the data by default. Curves are cut off there."""
    equal: bool = False
    """Give both axes the same scale: a flat chart is lower than `size`, and the shorter axis is extended."""
    size: tuple[int, int] = (_WIDTH, _HEIGHT)
    categories: Sequence[str] = ()
    """Names at x = 1, 2, ... of an axis of categories instead of numbers."""

    def svg(self) -> str:
        """The chart as an SVG element; '' without data."""
        drawn = [curve for curve in self.curves if len(curve.x)]
        if not drawn:
            return ""
        width, height = self.size
        height += _LINE * (_lines_of(self.categories, width) - 1)
        x_span, y_span = self._spans(drawn)
        if self.equal:
            flat = (y_span[1] - y_span[0]) / (x_span[1] - x_span[0])
            height = round(min(max(flat * (width - _LEFT - _RIGHT), _LEAST_HEIGHT) + _TOP + _BOTTOM, height))
        below = _BOTTOM + _LINE * (_lines_of(self.categories, width) - 1)
        box = (_LEFT, width - _RIGHT, _TOP, height - below)
        if self.equal:
            x_span, y_span = _equal(x_span, y_span, (box[1] - box[0]) / (box[3] - box[2]))
        across, down = scale_of(x_span, box[:2], log="x" in self.log), scale_of(y_span, box[:1:-1], log="y" in self.log)
        parts = frame(across, down, x_span, y_span, box, log=self.log, categories=self.categories)
        middle = (box[0] + box[1]) / 2
        parts.append(f'<text class="mid unit" x="{middle:.0f}" y="{height - 4}">{escape(self.x_label)}</text>')
        parts.append(f'<text class="unit" x="4" y="12">{escape(self.y_label)}</text>')
        curves = "".join(curve.svg(across, down) for curve in drawn)
        limited = self.x_limits is not None or self.y_limits is not None
        parts.append(clipped(curves, box) if limited else curves)
        names = ", ".join(curve.name for curve in drawn if curve.name)
        words = f"{names} [{self.y_label}] over {self.x_label}".strip()
        return svg("plot", width, height, words, *parts, data=[curve.data() for curve in drawn])

    def key(self) -> str:
        """The legend; '' for a single curve."""
        named = [curve for curve in self.curves if curve.name and len(curve.x)]
        entries = [(one.name, one.colour, "dots" if one.look == "joined" else one.look) for one in named]
        return html.key(entries) if len(entries) > 1 else ""

    def figure(self, title: str, caption: Any = "") -> str:
        """Chart and legend in a frame for a page; '' without data."""
        drawn = self.svg()
        return html.figure(title, drawn + self.key() if drawn else "", caption)

    def _spans(self, drawn: Sequence[Curve]) -> tuple[Limits, Limits]:
        """Ends of both axes."""
        x = np.concatenate([curve.x for curve in drawn])
        y = np.concatenate([part for curve in drawn for part in (curve.low, curve.high)])
        if "x" in self.log:
            x = x[x > 0.0]
        if "y" in self.log:
            y = np.concatenate([curve.mean[curve.mean > 0.0] for curve in drawn])
            least, most = (y.min(), y.max()) if y.size else (1.0, 10.0)
            y_span = float(least / 1.3), float(most * 1.3)
        else:
            low, high = float(y.min()), float(y.max())
            y_span = _span(min(low, 0.0) if self.zero else low, high, 0.07)
            y_span = (0.0 if self.zero and low >= 0.0 else y_span[0]), y_span[1]
        # Dots need space at the ends; lines do not.
        space = 0.0 if all(curve.look in ("line", "dashed", "thick") for curve in drawn) else 0.025
        x_span = _span(float(x.min()), float(x.max()), 0.0 if "x" in self.log else space) if x.size else (1.0, 10.0)
        if "x" in self.log:
            factor = (x_span[1] / x_span[0]) ** space
            x_span = x_span[0] / factor, x_span[1] * factor
        if self.categories:
            x_span = 0.5, len(self.categories) + 0.5
        return self.x_limits or x_span, self.y_limits or y_span


def svg(kind: str, width: float, height: float, words: str, *parts: str, data: Sequence[Any] = ()) -> str:
    """An SVG element that fills the width of its frame; `kind` is its class and `words` its alternative text.

    `data` are the curves that a reader can save as CSV, each as `Curve.data`.
    """
    box = f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(words, quote=True)}"'
    if data:
        box += f' data-curves="{escape(json.dumps(data, separators=(",", ":"), allow_nan=False), quote=True)}"'
    return f'<svg class="{kind}" {box}>{"".join(parts)}</svg>'


def clipped(content: str, box: Sequence[float], margin: float = _CLIP_MARGIN) -> str:
    """SVG elements cut off outside a box of left, right, top and bottom."""
    left, right, top, bottom = box[0] - margin, box[1] + margin, box[2] - margin, box[3] + margin
    place = f"{left:g} {top:g} {right - left:g} {bottom - top:g}"
    size = f'x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}"'
    return f'<svg {size} viewBox="{place}">{content}</svg>'


def scale_of(span: Limits, ends: Sequence[float], *, log: bool = False) -> Scale:
    """Function from data values to places between two ends; values below a logarithmic axis lie at its end."""
    first, last = np.log10(span) if log else span
    begin, end = ends[0], ends[1]

    def place(values: ArrayLike) -> Floats:
        data = np.asarray(values, np.float64)
        level = np.log10(np.maximum(data, span[0])) if log else data
        return np.asarray(begin + (level - first) / (last - first) * (end - begin))

    return place


def frame(
    across: Scale,
    down: Scale,
    x_span: Limits,
    y_span: Limits,
    box: Sequence[float],
    *,
    log: str = "",
    grid: str = "grid",
    y_step: float = 32.0,
    categories: Sequence[str] = (),
) -> list[str]:
    """Grid lines of class `grid` and tick labels around a box of left, right, top and bottom.

    `categories` are names at x = 1, 2, ... instead of numbers.
    """
    left, right, top, bottom = box
    parts = []
    for tick in log_ticks(*y_span) if "y" in log else ticks(*y_span, max(2.0, (bottom - top) / y_step)):
        y = float(down(tick))
        parts.append(f'<path class="{grid}" d="M{left} {y:.1f}H{right}"/>')
        parts.append(f'<text class="end" x="{left - 6}" y="{y + 4:.1f}">{number(tick)}</text>')
    if categories:
        return [*parts, *_named_ticks(categories, across, box), f'<path class="axis" d="M{left} {bottom}H{right}"/>']
    for tick in log_ticks(*x_span) if "x" in log else ticks(*x_span, max(2.0, (right - left) / _X_STEP)):
        x = float(across(tick))
        parts.append(f'<path class="{grid}" d="M{x:.1f} {top}V{bottom}"/>')
        parts.append(f'<text class="mid" x="{x:.1f}" y="{bottom + 15}">{number(tick)}</text>')
    return [*parts, f'<path class="axis" d="M{left} {bottom}H{right}"/>']


def _named_ticks(names: Sequence[str], across: Scale, box: Sequence[float]) -> list[str]:
    """Names of categories below their places, each in a few lines, with the whole name as a tooltip."""
    parts = []
    room = (box[1] - box[0]) / len(names)
    for k, name in enumerate(names):
        x = float(across(k + 1))
        rows = _wrapped(name, room)
        spans = "".join(
            f'<tspan x="{x:.1f}" y="{box[3] + 15 + _LINE * row}">{escape(words)}</tspan>'
            for row, words in enumerate(rows)
        )
        parts.append(f'<text class="mid"><title>{escape(name)}</title>{spans}</text>')
    return parts


def _lines_of(names: Sequence[str], width: float) -> int:
    """Number of lines below an axis of categories; 1 for numbers."""
    return max((len(_wrapped(name, (width - _LEFT - _RIGHT) / len(names))) for name in names), default=1)


def _wrapped(name: str, room: float) -> list[str]:
    """A name in at most three lines of a width, broken after slashes, hyphens, underscores and spaces."""
    most = max(3, int(room / _LETTER))
    rows = [""]
    for part in re.findall(r"[^/_\s-]*[/_\s-]?", name):
        if rows[-1] and len(rows[-1]) + len(part.rstrip()) > most:
            rows.append("")
        rows[-1] += part
    if len(rows) > _MOST_LINES:
        rows = [*rows[: _MOST_LINES - 1], "".join(rows[_MOST_LINES - 1 :])]
    return [row.strip() if len(row.strip()) <= most else row.strip()[: most - 1] + "…" for row in rows]


def polyline(points: Floats) -> str:
    """Points (n, 2) as the data of an SVG path, to a tenth of a unit."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points.tolist())


def _dots(points: Floats) -> str:
    """Points (n, 2) as the data of an SVG path of dots."""
    if len(points) > _MOST_DOTS:
        return "".join(f"M{x} {y}h0" for x, y in np.unique(points.round().astype(int), axis=0).tolist())
    return "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points.tolist())


def ticks(low: float, high: float, about: float) -> list[float]:
    """Round numbers from `low` to `high`, near `about` of them."""
    rough = (high - low) / max(about, 1.0)
    if not (np.isfinite(rough) and rough > 0):
        return [low]
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * min((1.0, 2.0, 5.0, 10.0), key=lambda factor: abs(np.log(factor * power / rough)))
    first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
    return [round(k * step, 12) for k in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Numbers 1, 2 and 5 of each decade from `low` to `high`; of many decades the powers of ten."""
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    factors = (1.0, 2.0, 5.0) if high / low < 300.0 else (1.0,)
    found = [factor * 10.0**decade for decade in decades for factor in factors]
    return [value for value in found if low * 0.999 <= value <= high * 1.001]


def number(value: float) -> str:
    """A number at a tick: groups of three from 10 000 on, else as short as possible."""
    if abs(value) >= 1e4 and value == round(value) and abs(value) < 1e9:
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.6g}".replace("-", "\u2212")


def _span(low: float, high: float, margin: float) -> Limits:
    """Two ends that are never equal, with a margin as share of their distance."""
    # Nearly equal values would be drawn as the steps of their rounding.
    least = max(abs(low), abs(high)) * 1e-6
    if high - low <= least:
        half = max(abs(low) * 0.05, 0.5 if low == 0 else least)
        return low - half, high + half
    return low - margin * (high - low), high + margin * (high - low)


def _equal(x: Limits, y: Limits, aspect: float) -> tuple[Limits, Limits]:
    """Limits extended about their middle to one scale; `aspect` is width over height."""
    wide, tall = x[1] - x[0], y[1] - y[0]
    more_x, more_y = max(tall * aspect - wide, 0.0) / 2, max(wide / aspect - tall, 0.0) / 2
    return (x[0] - more_x, x[1] + more_x), (y[0] - more_y, y[1] + more_y)


# ---- the sky over a receiver ---------------------------------------------------------------------------------------

# Fixed colours: the viewer shows this chart outside of a report page, too.
_SKY_COLOUR = {BLOCKED: "#8a929c", REFLECTED: "#d98a1a", MULTIPATH: "#d98a1a", DIRECT: "#2c9a4b"}
_SKY_SIZE, _SKY_MIDDLE, _SKY_RADIUS = 360, 180, 150
_SKY_POINTS = 40


def sky_plot(data: GnssData) -> str:
    """Satellites at the last time, their tracks and lines of sight: north up, the zenith in the middle.

    Green satellites are direct, amber ones have reflections (hollow: reflections only), grey ones are blocked. Lines
    to satellites out of view are dashed. '' without samples.
    """
    if not len(data):
        return ""
    middle = _SKY_MIDDLE
    parts = [
        f'<circle cx="{middle}" cy="{middle}" r="{_SKY_RADIUS * (90 - elevation) / 90:.0f}" fill="none" '
        'stroke="currentColor" stroke-opacity=".25"/>'
        for elevation in (0, 30, 60)
    ]
    for word, right, down in (("N", 180, 22), ("E", 342, 184), ("S", 180, 346), ("W", 18, 184)):
        parts.append(f'<text x="{right}" y="{down}" text-anchor="middle" opacity=".7">{word}</text>')
    rows = np.unique(np.linspace(0, len(data) - 1, _SKY_POINTS).astype(int))
    for j, name in enumerate(data.satellites):
        status = int(data.status[-1, j])
        if status not in _SKY_COLOUR:
            continue
        seen = rows[data.status[rows, j] > 0]
        r = _SKY_RADIUS * (1.0 - np.degrees(data.elevation[seen, j]) / 90.0)
        azimuth = data.azimuth[seen, j]
        track = np.stack([middle + r * np.sin(azimuth), middle - r * np.cos(azimuth)], axis=1)
        x, y = track[-1]
        colour = _SKY_COLOUR[status]
        dashes = "" if status in (DIRECT, MULTIPATH) else ' stroke-dasharray="3 4"'
        line = f'fill="none" stroke="{colour}"'
        parts += [
            f'<path class="sight" d="M{middle} {middle}L{x:.1f} {y:.1f}" {line} stroke-opacity=".35"{dashes}/>',
            f'<path d="{polyline(track)}" {line} stroke-opacity=".5"/>',
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{"none" if status == REFLECTED else colour}" '
            f'stroke="{colour}" stroke-width="2"/>',
            f'<text x="{x + 7:.1f}" y="{y + 3:.1f}">{escape(name)}</text>',
        ]
    return svg("sky", _SKY_SIZE, _SKY_SIZE, "sky plot", '<g font-size="10" fill="currentColor">', *parts, "</g>")


# ---- a material's spectrum -----------------------------------------------------------------------------------------


def draw_spectrum(material: Material, path: str | PathLike[str], wavelength_nm: float | None = None) -> None:
    """The spectrum, the visible range shaded, and the value at `wavelength_nm` marked."""
    check_picture(path)
    figure = sheet(10.0, 5.0)
    axes = figure.add_axes((0.075, 0.12, 0.9, 0.75))
    wavelength = np.asarray(material.spectrum.wavelength_um) * 1e3
    reflectance = np.asarray(material.spectrum.reflectance)
    quiet(axes)
    axes.axvspan(380, 750, color="white", alpha=0.05, linewidth=0)
    axes.text(565, 0.985, "visible", color=MUTED, fontsize=8, ha="center", va="top")
    axes.fill_between(wavelength, reflectance, color="#4aa3ff", alpha=0.15, linewidth=0)
    axes.plot(wavelength, reflectance, color="#4aa3ff", linewidth=1.8)
    if wavelength_nm is not None:
        value = material.reflectance_at(wavelength_nm)
        axes.plot([wavelength_nm, wavelength_nm], [0, value], color=ACCENT, linewidth=1.2, linestyle="--")
        axes.plot([wavelength_nm], [value], "o", color=ACCENT, markersize=6)
        words, place = f"{100 * value:.1f} % at {wavelength_nm:g} nm", (wavelength_nm, value)
        axes.annotate(words, place, xytext=(8, 8), textcoords="offset points", color=ACCENT, fontsize=10)
    x_limits = max(wavelength[0], 300.0), min(wavelength[-1], 2600.0)
    axes.set(xlim=x_limits, ylim=(0, 1), xlabel="wavelength [nm]", ylabel="hemispherical reflectance")
    axes.grid(color="#2b323c", linewidth=0.6)
    figure.text(0.075, 0.925, material.name, color=INK, fontsize=14, fontweight="bold", va="center")
    figure.text(0.975, 0.925, material.description, color=MUTED, fontsize=9, va="center", ha="right")
    save(figure, path)
