"""Pictures of all record types, for `record.plot()`: a table from record type to panels.

    PLOTS.add(MyFrame, lambda frame: [Panel("Depth", lambda axes: axes.plot(frame.depth))])

A type without an entry uses that of its base class: samples of other packages are drawn as curves of their columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud, Shots, Waveform
from parhelion.core.consumers import Consumer
from parhelion.core.frames import AdcFrame, CrossSections, EchoScan, EchoWaveform, FramePoints, RadarCube, RadarScan
from parhelion.core.image import Image
from parhelion.core.pose import Floats
from parhelion.core.records import Record, one_line
from parhelion.core.streams import GnssData, OdometryData, Samples, UwbData
from parhelion.pictures.camera import image_panels
from parhelion.pictures.panels import field_norm
from parhelion.pictures.radar import range_azimuth_panel, range_velocity_panel
from parhelion.pictures.style import (
    ACCENT,
    HEIGHT_COLOURS,
    INK,
    INTENSITY_COLOURS,
    MUTED,
    check_picture,
    colour_bar,
    quiet,
    robust_limits,
    save,
    sheet,
)

LINES = ("#4aa3ff", "#ffb454", "#4fae62", "#ff7ab6", "#c77dff", "#45d6c8", "#f2d64b", "#ff5d5d")
"""Colours of curves; readable on dark and on white sheets."""
_MOST_NAMED = len(LINES)
"""Maximum number of curves in a legend."""
_SPIKE = 12.0
"""Ratio of the full range to the range of 99 % of the values above which the rest counts as spikes."""
_LONGEST_NAMES = 56
"""Maximum total length of all names in a legend."""
_TITLES = {"cn0": "C/N0", "rssi": "RSSI"}
"""Titles of fields whose names are abbreviations."""
_SPEED_COLOURS = "coolwarm"
_HEADING_IN = 0.55
_LINE_IN = 0.17


@dataclass(frozen=True)
class Panel:
    """One pair of axes of a picture."""

    title: str
    draw: Callable[[Any], None]
    """Draws into given axes."""
    size: tuple[float, float] = (6.6, 2.3)
    """Width and height [inch], margins included."""
    margins: tuple[float, float, float, float] = (0.85, 0.5, 0.25, 0.3)
    """Left, bottom, right and top margin [inch]."""


_map = partial(Panel, size=(5.2, 4.5), margins=(0.7, 0.55, 0.85, 0.35))
"""A panel with a colour bar at its right."""


def plot_record(record: Record, path: str | PathLike[str] | None = None, ax: Any = None) -> Any:
    """Draw a record and return the figure, or draw its first panel into `ax` and return `ax`."""
    if path is not None:
        check_picture(path)
    panels = PLOTS.require(type(record))(record)
    if ax is not None:
        for panel in panels[:1]:
            panel.draw(ax)
            ax.set_title(panel.title)
        figure = ax.figure
    else:
        figure = _figure(record, panels)
    if path is not None:
        save(figure, path)
    return figure if ax is None else ax


def _figure(record: Record, panels: Sequence[Panel]) -> Any:
    """All panels in rows below a heading: curves below each other, maps and pictures side by side."""
    flat = not panels or panels[0].size[0] > 2.0 * panels[0].size[1]
    across = 1 if flat or len(panels) < 2 else 2 if len(panels) < 5 else 3
    width = max((panel.size[0] for panel in panels), default=6.6)
    rows = [panels[k : k + across] for k in range(0, len(panels), across)]
    wide = across * width
    name, _, line = one_line(record)[1:-1].partition(": ")
    facts = wrap(line, int(wide * 13))
    top = tall = _HEADING_IN + _LINE_IN * len(facts) + sum(max(panel.size[1] for panel in row) for row in rows)
    figure = sheet(wide, tall)
    figure.text(0.2 / wide, 1.0 - 0.27 / tall, name, color=INK, fontsize=14, fontweight="bold", va="center")
    figure.text(0.2 / wide, 1.0 - 0.45 / tall, "\n".join(facts), color=MUTED, fontsize=9, va="top")
    top -= _HEADING_IN + _LINE_IN * len(facts)
    for row in rows:
        height = max(panel.size[1] for panel in row)
        top -= height
        for place, panel in enumerate(row):
            left, bottom, right, above = panel.margins
            inside = (width - left - right) / wide, (height - bottom - above) / tall
            axes = figure.add_axes(((place * width + left) / wide, (top + bottom) / tall, *inside))
            quiet(axes, panel.title)
            panel.draw(axes)
            axes.yaxis.get_offset_text().set(color=MUTED, size=8)
    return figure


# ---- curves ----------------------------------------------------------------------------------------------------------


def _curves(x: NDArray[Any], values: NDArray[Any], x_label: str, y_label: str, names: Sequence[str], axes: Any) -> None:
    """Values (n, k) over x (n,), one curve per column, with a legend for a few curves."""
    columns = np.asarray(values, np.float64).reshape(len(x), int(np.prod(values.shape[1:])))
    for k, column in enumerate(columns.T):
        marker = "o" if len(x) == 1 else "." if len(x) < 60 else ""
        label = names[k] if k < len(names) else None
        axes.plot(x, column, color=LINES[k % len(LINES)], lw=1.0, marker=marker, ms=4, label=label)
    if not np.isfinite(columns).any():
        axes.text(0.5, 0.5, "no values", color=MUTED, transform=axes.transAxes, ha="center", va="center")
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.grid(color=MUTED, alpha=0.25, lw=0.5)
    if 1 < columns.shape[1] <= _MOST_NAMED and len(names) == columns.shape[1]:
        _legend(axes)


def _limit_spikes(values: NDArray[Any], axes: Any) -> None:
    """Exclude single spikes from the limits and note their number, if they would flatten all other values."""
    finite = values[np.isfinite(values)]
    if len(finite) < 200:
        return
    low, high = np.quantile(finite, (0.005, 0.995))
    if np.ptp(finite) > _SPIKE * (high - low) > 0.0:
        low, high = low - 0.5 * (high - low), high + 0.5 * (high - low)
        outside = int(np.sum((finite < low) | (finite > high)))
        axes.set_ylim(low, high)
        axes.text(0.99, 0.03, f"{outside} outside", color=ACCENT, fontsize=7.5, ha="right", transform=axes.transAxes)


def _legend(axes: Any) -> None:
    """Names of the curves above the axes, at the right of the title."""
    handles, names = axes.get_legend_handles_labels()
    if names:
        most = _LONGEST_NAMES // len(names)
        short = [name if len(name) <= most else f"{name[: most - 1]}…" for name in names]
        axes.legend(
            handles,
            short,
            fontsize=7.5,
            ncols=len(names),
            loc="lower right",
            bbox_to_anchor=(1.01, 0.98),
            labelcolor=MUTED,
            facecolor="none",
            edgecolor="none",
            handlelength=0.9,
            columnspacing=0.9,
            handletextpad=0.4,
            borderaxespad=0.0,
        )


def _over_time(samples: Samples, title: str, unit: str, values: NDArray[Any], names: Sequence[str] = ()) -> Panel:
    label = f"[{unit}]" if unit else ""

    def draw(axes: Any) -> None:
        _curves(samples.time, values, "time [s]", label, names, axes)
        _limit_spikes(values, axes)

    return Panel(title, draw)


def _field_curves(samples: Samples, *names: str) -> list[Panel]:
    """A panel for each named field: its components over time."""
    panels = []
    for name in names:
        columns = samples._components(name)
        values = np.stack([one.values for one in columns], axis=1) if columns else np.zeros((len(samples), 0))
        parts = [one.name.removeprefix(f"{name}_") for one in columns]
        panels.append(_over_time(samples, _spoken(name), samples.units[name], values, parts))
    return panels


def _spoken(name: str) -> str:
    """Title of a field."""
    return _TITLES.get(name) or name.replace("_", " ").capitalize()


def _samples(samples: Samples) -> list[Panel]:
    """Every declared column of numbers and vectors over time."""
    drawn = [name for name in samples._columns() if name != "time" and getattr(samples, name).ndim < 3]
    return _field_curves(samples, *drawn) or _arrays(samples)


def _track(x: NDArray[Any], y: NDArray[Any], marks: NDArray[Any], axes: Any) -> None:
    """Top view of a path with its start, and marks (k, 2 or 3) of nearby objects."""
    axes.plot(x, y, color=LINES[0], lw=1.2, marker="." if len(x) < 60 else "", ms=4)
    axes.plot(x[:1], y[:1], "o", color=ACCENT, ms=6)
    axes.plot(marks[:, 0], marks[:, 1], "^", color=LINES[2], ms=6)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.1)
    axes.set(xlabel="x [m]", ylabel="y [m]")
    axes.grid(color=MUTED, alpha=0.25, lw=0.5)


def _track_panel(title: str, xyz: Floats, marks: NDArray[Any]) -> Panel:
    return Panel(title, partial(_track, xyz[:, 0], xyz[:, 1], marks), (6.6, 4.4))


def _odometry(data: OdometryData) -> list[Panel]:
    track = _track_panel("Track from above", data.xyz, np.zeros((0, 2)))
    return [*_field_curves(data, "velocity", "angular_velocity", "wheel_speed"), track]


def _gnss(data: GnssData) -> list[Panel]:
    used = _over_time(data, "Satellites in the fix", "", data.satellites_used)
    error = _over_time(data, "Position error", "m", data.error, "xyz")
    quality = (
        [] if data.quality is None else [_over_time(data, "Fix quality (4 RTK fixed, 5 RTK float)", "", data.quality)]
    )
    return [*_field_curves(data, "position"), error, *_field_curves(data, "cn0"), used, *quality]


def _uwb(data: UwbData) -> list[Panel]:
    track = _track_panel("Positions and anchors from above", data.position, data.anchor_xyz)
    error = _over_time(data, "Range error", "m", data.error, data.anchors)
    heard = [] if data.cir is None or not len(data) else [Panel("Impulse response", partial(_cir, data))]
    levels = ["rssi"] if data.first_path_power is None else ["rssi", "first_path_power"]
    return [*_field_curves(data, "range"), error, *_field_curves(data, *levels), *heard, track]


def _cir(data: UwbData, axes: Any) -> None:
    """Power of the first sample's impulse responses, one curve per anchor."""
    assert data.cir is not None
    assert data.cir_time is not None
    level = 20.0 * np.log10(np.maximum(np.abs(data.cir[0]), 1e-12))
    _curves(
        data.cir_time * 1e9, level.T, "time after the first path of the first sample [ns]", "[dBm]", data.anchors, axes
    )


def _signals(x: NDArray[Any], rows: NDArray[Any], x_label: str, y_label: str, names: Sequence[str], axes: Any) -> None:
    """Signals (k, samples) over x."""
    _curves(x, rows[:_MOST_NAMED].T, x_label, y_label, names[:_MOST_NAMED], axes)


def _title(word: str, count: int) -> str:
    return f"{word}, {_MOST_NAMED} of {count}" if count > _MOST_NAMED else word


def _waveform(wave: Waveform) -> list[Panel]:
    names = [f"shot {shot}" for shot in wave.shot[:_MOST_NAMED]]

    def draw(axes: Any) -> None:
        axes.axhline(1.0, color=MUTED, lw=0.8, ls="--")
        _signals(wave.ranges, wave.samples, "range [m]", "signal [detection threshold]", names, axes)

    return [Panel(_title("Received signal", len(wave.shot)), draw, (6.6, 3.2))]


def _echo_waveform(wave: EchoWaveform) -> list[Panel]:
    names = [f"microphone {k}" for k in range(len(wave.samples))]
    draw = partial(_signals, wave.time * 1e3, wave.samples, "time after the pulse [ms]", "pressure [Pa]", names)
    return [Panel(_title("Sound pressure", len(wave.samples)), draw, (6.6, 3.2))]


def _adc(frame: AdcFrame) -> list[Panel]:
    if not frame.samples.size:
        return []
    names = ["real part", "imaginary part"]
    first = frame.samples[0, 0]
    parts = np.stack([first.real, first.imag])
    draw = partial(_signals, np.arange(len(first)), parts, "sample", "signal [thermal noise]", names)
    return [Panel("First ramp and channel", draw, (6.6, 3.2))]


def _cross_sections(found: CrossSections) -> list[Panel]:
    spans = [float(np.ptp(angle)) if angle.size else 0.0 for angle in (found.azimuth_deg, found.elevation_deg)]
    name = "azimuth" if spans[0] >= spans[1] else "elevation"
    angle = found.azimuth_deg if name == "azimuth" else found.elevation_deg

    def draw(axes: Any) -> None:
        line = "-" if min(spans) == 0.0 else "none"  # draw a line only along one angle
        axes.plot(angle, found.dbsm, color=LINES[0], lw=1.0, ls=line, marker=".", ms=3)
        axes.set(xlabel=f"{name} of the transmitter [deg]", ylabel="cross-section [dBsm]")
        axes.grid(color=MUTED, alpha=0.25, lw=0.5)

    return [Panel("Radar cross-section", draw, (6.6, 3.2))]


# ---- points ----------------------------------------------------------------------------------------------------------


def _points(frame: str, xy: NDArray[Any], values: NDArray[Any], label: str, look: dict[str, Any], axes: Any) -> None:
    """Points from above, coloured by a number, and the sensor; `look` holds arguments of Matplotlib's `scatter`."""
    size = float(np.clip(10_000 / max(len(xy), 1), 0.4, 36.0))
    drawn = axes.scatter(xy[:, 0], xy[:, 1], c=values, s=size, linewidths=0, rasterized=True, **look)
    if frame.startswith("sensor"):
        axes.plot(0, 0, "+", color=ACCENT, ms=9, mew=1.6)
    axes.margins(0.06)
    axes.set_aspect("equal", adjustable="datalim")
    if len(xy):
        colour_bar(drawn, axes, label)


def _cloud(cloud: PointCloud) -> list[Panel]:
    """Top view of a cloud, coloured by intensity or height."""
    name = next((one for one in ("intensity", "reflectivity", "snr") if one in cloud.fields), "")
    values = np.asarray(cloud.fields[name] if name else cloud.xyz[:, 2], np.float64)
    unit = cloud.units.get(name, "") if name else "m"
    low, high = robust_limits(values)
    scaled = {"norm": field_norm(values)} if name in ("intensity", "reflectivity") else {"vmin": low, "vmax": high}
    look = {"cmap": INTENSITY_COLOURS if name else HEIGHT_COLOURS, **scaled}
    top = np.argsort(cloud.xyz[:, 2], kind="stable")  # the highest point of a cell is drawn last

    def draw(axes: Any) -> None:
        _points(cloud.frame, cloud.xyz[top, :2], values[top], f"{name or 'z'} [{unit}]", look, axes)
        axes.set(xlabel="x [m]", ylabel="y [m]")

    return [_map(f"From above, by {name or 'height'}, frame {cloud.frame!r}", draw)]


def _frame_points(frame: FramePoints) -> list[Panel]:
    """Top view of detections or echoes, forward is up, coloured by radial velocity or signal-to-noise ratio."""
    speed = frame.fields.get("radial_velocity")
    if speed is None and "snr" not in frame.fields:
        return _cloud(frame)
    values = np.asarray(frame.fields["snr"] if speed is None else speed, np.float64)
    most = max(float(np.max(np.abs(values), initial=0.0)), 0.1)
    low, high = robust_limits(values)  # the darkest colours are invisible on a dark sheet
    look: dict[str, Any] = {"cmap": HEIGHT_COLOURS, "vmin": low - 0.4 * (high - low), "vmax": high}
    if speed is not None:
        look = {"cmap": _SPEED_COLOURS, "vmin": -most, "vmax": most}
    label = "signal over noise [dB]" if speed is None else "radial velocity [m/s], away is positive"

    def draw(axes: Any) -> None:
        _points(frame.frame, np.stack([-frame.xyz[:, 1], frame.xyz[:, 0]], axis=1), values, label, look, axes)
        axes.set(xlabel="to the right [m]", ylabel="ahead [m]")

    word = "signal over noise" if speed is None else "radial velocity"
    return [_map(f"From above, by {word}", draw)]


def _shots(shots: Shots) -> list[Panel]:
    """Directions of all shots, by their number of returns."""
    x, y, z = shots.direction.astype(np.float64).T
    angles = np.degrees(np.stack([np.arctan2(y, x), np.arctan2(z, np.hypot(x, y))], axis=1))

    def draw(axes: Any) -> None:
        for count in np.unique(shots.return_count)[::-1]:  # lost shots last, on top
            of = shots.return_count == count
            colour = ACCENT if count == 0 else LINES[(2 * int(count) - 2) % len(LINES)]
            size = 2.5 if count == 0 else 0.8
            axes.plot(
                *angles[of].T,
                "o",
                mew=0,
                color=colour,
                ms=size,
                rasterized=True,
                label=f"{count} returns: {of.sum()}" if count else f"lost: {of.sum()}",
            )
        axes.set(xlabel="azimuth [deg], left is positive", ylabel="elevation [deg]")
        axes.invert_xaxis()
        _legend(axes)

    return [Panel("Directions, by number of returns", draw, (6.6, 3.2))]


def _cube(cube: RadarCube) -> list[Panel]:
    panels = []
    if len(cube.range) > 1 and len(cube.radial_velocity) > 1:
        panels.append(_map("Strongest beam over range and velocity", partial(range_velocity_panel, cube=cube)))
    if len(cube.range) > 1:
        panels.append(_map("From above, strongest velocity", partial(range_azimuth_panel, cube=cube)))
    return panels


def _radar(scan: RadarScan) -> list[Panel]:
    panels = [*_frame_points(scan), *([] if scan.cube is None else _cube(scan.cube))]
    if {"range", "rcs"} <= set(scan.fields):
        panels.append(_map("Radar cross-section over range", partial(_cross_section_dots, scan)))
    return panels


def _cross_section_dots(scan: RadarScan, axes: Any) -> None:
    axes.plot(scan.range, scan.rcs, "o", color=LINES[0], ms=4, mew=0)
    axes.set(xlabel="range [m]", ylabel="cross-section [dBsm]")
    axes.grid(color=MUTED, alpha=0.25, lw=0.5)


def _echo(scan: EchoScan) -> list[Panel]:
    heard = [] if scan.waveform is None else _echo_waveform(scan.waveform)
    return [*_frame_points(scan), *(_map(panel.title, panel.draw) for panel in heard)]


# ---- pixels and other arrays -----------------------------------------------------------------------------------------


def _pixels(pixels: NDArray[Any], axes: Any) -> None:
    axes.imshow(pixels, interpolation="nearest" if pixels.shape[1] < 400 else "antialiased")
    axes.set_axis_off()


def _image(image: Image) -> list[Panel]:
    """Image and each array of its ground truth."""
    size = (3.6, 3.4 * image.height / image.width + 0.4)
    margins = (0.1, 0.05, 0.1, 0.3)
    parts = [(title[:1].upper() + title[1:], pixels) for title, pixels in image_panels(image)]
    return [Panel(title, partial(_pixels, pixels), size, margins) for title, pixels in parts]


def _arrays(record: Record) -> list[Panel]:
    """Panels of any other record: columns over the row number, and arrays with one or two axes."""
    panels = []
    for name, unit in record.units.items():
        values = getattr(record, name, None)
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf" or values.ndim not in (1, 2):
            continue
        title = f"{_spoken(name)} [{unit}]" if unit else _spoken(name)
        if values.ndim == 2 and values.shape[1] > _MOST_NAMED:
            panels.append(Panel(title, partial(_pixels, values)))
        else:
            panels.append(Panel(title, partial(_curves, np.arange(len(values)), values, "row", f"[{unit}]", ())))
    return panels


PLOTS: Consumer[Callable[[Any], list[Panel]]] = Consumer(
    "plots",
    {
        Record: _arrays,
        Samples: _samples,
        OdometryData: _odometry,
        GnssData: _gnss,
        UwbData: _uwb,
        PointCloud: _cloud,
        Shots: _shots,
        FramePoints: _frame_points,
        RadarScan: _radar,
        EchoScan: _echo,
        RadarCube: _cube,
        AdcFrame: _adc,
        CrossSections: _cross_sections,
        Waveform: _waveform,
        EchoWaveform: _echo_waveform,
        Image: _image,
    },
)
"""Panels of each type of record, the most important one first."""
