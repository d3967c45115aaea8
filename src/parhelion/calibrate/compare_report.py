"""The part of a calibration's page that shows several recordings beside each other."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np

from parhelion.calibrate import plots
from parhelion.calibrate.compare import Comparison
from parhelion.calibrate.drive import INTERVAL, DriveCalibration
from parhelion.calibrate.drive_report import drive_page
from parhelion.io.atomic import atomic_write
from parhelion.pictures import run_page as html
from parhelion.sensors.lidar.overlap import overlap_share

COLOURS = ("#1f6fb4", "#b02a6b", "#178050", "#6a4bc4", "#8a6a00", "#0b7f8f")
COLUMNS = ("field", "intervals", "recordings")


def rows_of(found: Comparison) -> list[tuple[str, str, str]]:
    """Every field that was compared: whether recordings agree, and what each of them says."""
    return [
        (one.field, "do not overlap" if one.differs else "overlap", one.in_words(found.names)) for one in found.fields
    ]


def _overlap(axes: Any, one: DriveCalibration, colour: str, name: str, shift: float) -> None:
    if one.overlap is not None:
        curve = one.overlap
        at = curve.range * (1.0 + 0.01 * shift)
        axes.errorbar(at, curve.share, INTERVAL * curve.error, fmt="o", ms=2.5, lw=0.8, color=colour, label=name)
        r = np.geomspace(max(0.3, 0.5 * curve.range[0]), 1.2 * curve.range[-1], 300)
        axes.plot(r, overlap_share(one.sheet.range.overlap, r), color=colour, lw=0.9)
    axes.set(xscale="log", xlabel="range [m]", ylabel="overlap ξ", ylim=(0.0, 1.2))
    plots.log_axis(axes.xaxis)


def _noise(axes: Any, one: DriveCalibration, colour: str, name: str, shift: float) -> None:
    if one.noise is not None and (one.noise.count > 0).any():
        known = one.noise.count > 0
        level = one.noise.photons[known] * (1.0 + 0.02 * shift)
        error = 100.0 * INTERVAL * one.noise.pure_error_m[known]
        axes.errorbar(level, 100.0 * one.noise.pure_m[known], error, fmt="o", ms=2.5, lw=0.8, color=colour, label=name)
        x = np.geomspace(0.7 * level.min(), 1.5 * level.max(), 200)
        axes.plot(x, 100.0 * plots.sheet_sigma(one.sheet, x, photons=one.level == "photons"), color=colour, lw=0.9)
        top = 1.6 * float(np.nanmax(100.0 * one.noise.pure_m[known]))
        axes.set(xscale="log", xlabel=one.level, ylabel="range noise [cm]", ylim=(0.0, max(top, axes.get_ylim()[1])))
        plots.log_axis(axes.xaxis)


def _bias(axes: Any, one: DriveCalibration, colour: str, name: str, shift: float) -> None:
    if one.bias is not None and one.bias.windows:
        ring = np.arange(len(one.bias.bias_m))[::-1] + 0.2 * shift
        error = 1e3 * INTERVAL * one.bias.error_m
        axes.errorbar(ring, 1e3 * one.bias.bias_m, error, fmt="o", ms=2.5, lw=0.8, color=colour, label=name)
    axes.set(xlabel="ring", ylabel="range error [mm]")


def _dropout(axes: Any, one: DriveCalibration, colour: str, name: str, shift: float) -> None:
    rows = [(np.sqrt(low * min(high, 2 * low)), whole, lost) for low, high, whole, lost in one.lost if whole]
    if rows:
        level, whole, lost = (np.array(part, float) for part in zip(*rows, strict=True))
        share = (lost + 0.5) / (whole + 1.0)
        error = 100.0 * INTERVAL * np.sqrt(share * (1.0 - share) / whole)
        at = level * (1.0 + 0.02 * shift)
        axes.errorbar(at, 100.0 * lost / whole, error, fmt="o", ms=2.5, lw=0.8, color=colour, label=name)
    axes.set(xscale="log", xlabel="photons of the neighbours", ylabel="lost [%]", xlim=(4.0, 60.0), ylim=(-1.0, 40.0))
    plots.log_axis(axes.xaxis)


Draw = Callable[[Any, DriveCalibration, str, str, float], None]
PANELS: tuple[tuple[str, Draw], ...] = (
    ("Overlap", _overlap),
    ("Range noise", _noise),
    ("Errors of channels", _bias),
    ("Dropout", _dropout),
)


def draw_panel(axes: Any, found: Comparison, draw: Draw) -> None:
    """One curve of all recordings, each in its colour."""
    for number, (name, one) in enumerate(zip(found.names, found.each, strict=True)):
        draw(axes, one, COLOURS[number % len(COLOURS)], name, float(number))
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=7)


def comparison_sections(found: Comparison) -> list[str]:
    """What the page says of the recordings: a table of fields, and their curves in one picture each."""
    figures = []
    for title, draw in PANELS:
        figure, axes = plots.axes_of()
        draw_panel(axes, found, draw)
        if not axes.has_data():
            continue
        picture = html.image(plots.address(figure), title, "plot")
        figures.append(html.figure(title, picture, "Each recording by itself, with 95 % intervals."))
    apart = [one.field for one in found.differing]
    words = f"Intervals do not overlap: {', '.join(apart)}." if apart else "All intervals overlap."
    return [
        html.section(
            "recordings", "Recordings beside each other", f'<p class="lead">{html.text(words)}</p>',
            html.table(COLUMNS, rows_of(found), kinds="--l"), html.pair(*figures),
        )
    ]  # fmt: skip


def write_comparison(found: Comparison, path: str | PathLike[str]) -> None:
    """Write the page of a calibration from several recordings."""
    text = drive_page(found.together, ", ".join(found.names), before=comparison_sections(found))
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
