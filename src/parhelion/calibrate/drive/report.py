"""The page of a calibration from a drive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import numpy as np

from parhelion.calibrate.drive import plots
from parhelion.calibrate.drive.compare import Comparison
from parhelion.calibrate.drive.detection import amid_surface
from parhelion.calibrate.drive.drive import INTERVAL, DriveCalibration
from parhelion.calibrate.drive.flat_pixels import flat_pixels
from parhelion.calibrate.drive.overlap import Overlap, usable
from parhelion.calibrate.drive.range_noise import residuals
from parhelion.calibrate.drive.timing import timing_rows
from parhelion.calibrate.range_images import Mask, Turn
from parhelion.core.config import Config
from parhelion.core.files import atomic_write
from parhelion.pictures import run_page as html
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.link_budget import overlap_share

TIMING_COLUMNS = ("timing", "recorded, 95 % interval", "preset")


def value_at(sheet: LidarConfig, path: str) -> Any:
    """A field of a sheet by its path."""
    place: Any = sheet
    for name in path.split("."):
        place = getattr(place, name, None)
    return place


def in_words(value: Any) -> str:
    """A value of a sheet, short."""
    if isinstance(value, Config):
        value = value.model_dump(exclude_none=True)
    if isinstance(value, dict):
        return ", ".join(f"{name} of {len(part)} beams" for name, part in value.items() if isinstance(part, list))
    if isinstance(value, list) and value and hasattr(value[0], "range_m"):
        return "; ".join(
            f"{one.range_m:g} m at {100 * one.reflectance:g} % ({100 * one.detection:g} % found)" for one in value
        )
    if isinstance(value, list) and len(value) > 3:
        return f"{len(value)} entries"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None or value == [] else str(value)


def error_in_words(path: str, error: float | None) -> str:
    """Half of a 95 % interval, with its unit where it is not that of the value."""
    if error is None:
        return "exact"
    return f"± {100 * error:.1f} % a point" if path == "range.overlap" else f"± {error:.2g}"


def drive_rows(found: DriveCalibration) -> list[tuple[str, str, str, str]]:
    """Field, preset's value, measured value and half of its 95 % interval, of all that was measured."""
    return [
        (
            path, in_words(value_at(found.preset, path)), in_words(value_at(found.sheet, path)),
            error_in_words(path, found.error.get(path)),
        )
        for path in found.changed
    ]  # fmt: skip


def drive_page(found: DriveCalibration, recording: str, *, before: Sequence[str] = ()) -> str:
    """The page as HTML; it holds its pictures itself. `before` are sections that come first."""
    turn, bias = found.turn, found.bias
    weak = "Lost pixels amid surfaces, by the photons of their neighbours."
    pulses = int((turn.returned | turn.lost).sum())
    tiles = [
        ("turns", found.turns), ("pulses", f"{pulses:,}".replace(",", " ")),
        ("returned", f"{100 * turn.returned.sum() / max(pulses, 1):.1f} %"), ("fields measured", len(found.changed)),
        ("fields kept", len(found.kept)),
    ]  # fmt: skip
    pictures: list[tuple[Any, str, str, Callable[[Any, DriveCalibration], None]]] = [
        (found.overlap, "Overlap", _overlap_caption(found.overlap), plots.draw_overlap),
        (
            found.overlap if found.overlap and found.overlap.row_error is not None else None, "Strengths of rings",
            "How strong each ring's signal is at the same target.", plots.draw_strengths,
        ),
        (found.noise, "Range noise", "Residuals to the plane of the neighbours, by signal.", plots.draw_noise),
        (found.noise_by_range, "Range noise by range", "The same by range.", plots.draw_noise_by_range),
        (bias if bias and bias.windows else None, "Errors of channels", "Relative to their mean.", plots.draw_bias),
        (
            found.angles if found.angles and found.angles.known else None, "Elevations",
            "Of rows that see slanted planes, relative to their mean.", plots.draw_angles,
        ),
        (
            found.azimuths if found.azimuths and found.azimuths.known else None, "Azimuths",
            "Of rows that see slanted walls, relative to their mean; firing times included.", plots.draw_azimuths,
        ),
        (found.timing, "Turn rate", "By stamps of pulses, in eighths of every turn.", plots.draw_timing),
        (found.lost or None, "Dropout", weak, plots.draw_dropout),
        (True if np.isfinite(turn.signal).any() else None, "Signal", "All returns.", plots.draw_signal),
    ]  # fmt: skip
    figures = []
    for there, title, caption, draw in pictures:
        if there is None:
            continue
        figure, axes = plots.axes_of()
        draw(axes, found)
        figures.append(html.figure(title, html.image(plots.address(figure), title, "plot"), caption))
    measured = html.table(("field", "preset", "measured", "95 % interval"), drive_rows(found), kinds="-ll-")
    kept = html.table(("field", "why"), list(found.kept.items()), kinds="-l")
    timing = [] if found.timing is None else timing_rows(found.timing, found.preset.pattern)
    return html.page(
        f"Calibration of {found.preset.name}",
        f"<h1>Calibration of {html.text(found.preset.name)}</h1>",
        f'<p class="lead">From {html.text(recording)}. Points are recorded; lines are this sheet and the preset.</p>',
        html.tiles(tiles),
        *before,
        html.section("measured", "Measured", measured),
        html.section("timing", "Timing", html.table(TIMING_COLUMNS, timing, kinds="-ll")) if timing else "",
        html.section("curves", "Curves", html.pair(*figures)),
        html.section("kept", "Kept from the preset", kept),
    )


def _overlap_caption(curve: Overlap | None) -> str:
    words = "Share of the return that the receiver collects, by range"
    if curve is not None and not np.isfinite(curve.constant):
        return f"{words}, from places that the drive sees again: the recording has no reflectivity."
    return f"{words}."


def write_drive_report(found: DriveCalibration, recording: str, path: str | PathLike[str]) -> None:
    """Write the page."""
    with atomic_write(path) as temporary:
        temporary.write_text(drive_page(found, recording), encoding="utf-8")


# ---- The part of a calibration's page that shows several recordings beside each other -------------------------------


COLOURS = ("#1f6fb4", "#b02a6b", "#178050", "#6a4bc4", "#8a6a00", "#0b7f8f")
COLUMNS = ("field", "intervals", "recordings")


def comparison_rows(found: Comparison) -> list[tuple[str, str, str]]:
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
            html.table(COLUMNS, comparison_rows(found), kinds="--l"), html.pair(*figures),
        )
    ]  # fmt: skip


def write_comparison(found: Comparison, path: str | PathLike[str]) -> None:
    """Write the page of a calibration from several recordings."""
    text = drive_page(found.together, ", ".join(found.names), before=comparison_sections(found))
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


# ---- watching -------------------------------------------------------------------------------------------------------
# What a calibration shows while it runs: its stages, the points each of them took or left out, and curves so far.


STAGES = {
    "steps": "Steps of range and intensity",
    "timing": "Timing",
    "channels": "Angles that the capture tells",
    "threshold": "Threshold",
    "overlap": "Overlap",
    "noise": "Range noise",
    "bias": "Errors of channels",
    "angles": "Elevations of beams",
    "azimuths": "Azimuths of beams",
    "saturation": "Saturation",
    "rated": "Rated range",
}
"""Stages of a drive in their order, with titles."""
MOST_COLUMNS = 1600


def taken_by(stage: str, turn: Turn) -> Mask | None:
    """The pixels that a stage looks at; None for stages that look at all returns."""
    if stage == "overlap":
        return usable(turn) if np.isfinite(turn.reflectivity).any() else _flat(turn)
    if stage == "threshold":
        return amid_surface(turn)[0]
    if stage in ("noise", "bias", "angles", "azimuths"):
        return np.asarray(np.isfinite(residuals(turn)[0]))
    return None


def _flat(turn: Turn) -> Mask:
    """Pixels on flat surfaces, whose places may be seen again."""
    mask = np.zeros(turn.range.shape, bool)
    mask[flat_pixels(turn).place] = True
    return mask


def picture(turn: Turn, taken: Mask) -> Any:
    """Rows and columns of the recording: what was taken, what was left out, and where nothing returned."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import to_rgb
    from matplotlib.figure import Figure

    pixels = np.full((*turn.range.shape, 3), to_rgb(plots.NOTHING))
    pixels[turn.returned | turn.lost] = to_rgb(plots.LEFT)
    pixels[taken] = to_rgb(plots.TAKEN)
    step = max(1, pixels.shape[1] // MOST_COLUMNS)
    figure = Figure(figsize=(11.0, 1.8), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.imshow(pixels[:, ::step], aspect="auto", interpolation="nearest", extent=(0, pixels.shape[1], 0, 1))
    axes.set(xlabel="column", yticks=[])
    axes.tick_params(labelsize=7)
    return figure


def watch_page(found: DriveCalibration, recording: str, done: Sequence[str], *, finished: bool = False) -> str:
    """The page after some stages, as HTML."""
    turn = found.turn
    rows = []
    figures = []
    pulses = int((turn.returned | turn.lost).sum())
    for stage, title in STAGES.items():
        if stage not in done:
            rows.append((title, "waits" if finished or stage != _next(done) else "at work", "", ""))
            continue
        taken = taken_by(stage, turn)
        number = int(turn.returned.sum()) if taken is None else int(taken.sum())
        rows.append((title, "done", f"{number:,}".replace(",", " "), f"{pulses - number:,}".replace(",", " ")))
        if taken is not None and stage not in ("bias", "angles", "azimuths"):
            image = html.image(plots.address(picture(turn, taken)), f"Points of {title}", "plot")
            figures.append(html.figure(f"{title}: points taken and left out", image))
    key = plots.key((plots.TAKEN, "taken"), (plots.LEFT, "left out"), (plots.NOTHING, "no pulse"))
    words = "All stages are done." if finished else "The calibration runs; this page follows it."
    stages = html.section(
        "stages", "Stages", f'<p class="lead">{words}</p>',
        html.table(("stage", "state", "points taken", "left out"), rows, kinds="--nn"),
        *figures, key if figures else "",
    )  # fmt: skip
    return drive_page(found, recording, before=[stages])


def _next(done: Sequence[str]) -> str:
    return next((stage for stage in STAGES if stage not in done), "")
