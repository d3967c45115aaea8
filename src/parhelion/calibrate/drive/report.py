"""Report of a calibration from a drive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import numpy as np

from parhelion.calibrate.drive import plots
from parhelion.calibrate.drive.compare import RecordingComparison
from parhelion.calibrate.drive.detection import on_surface
from parhelion.calibrate.drive.drive import INTERVAL, DriveCalibration
from parhelion.calibrate.drive.flat_pixels import flat_pixels
from parhelion.calibrate.drive.overlap import Overlap, usable
from parhelion.calibrate.drive.range_noise import residuals
from parhelion.calibrate.drive.timing import timing_rows
from parhelion.calibrate.range_images import Mask, RangeImage
from parhelion.core.config import Config
from parhelion.pictures import html
from parhelion.pictures.charts import Chart, Curve
from parhelion.pictures.images import rgb_uri
from parhelion.pictures.style import rgb
from parhelion.sensors.optics.lidar.config import LidarConfig

TIMING_COLUMNS = ("timing", "recorded, 95 % interval", "preset")


def value_at(sheet: LidarConfig, path: str) -> Any:
    """Field of a sheet by its path."""
    place: Any = sheet
    for name in path.split("."):
        place = getattr(place, name, None)
    return place


def in_words(value: Any) -> str:
    """Value of a sheet as short text."""
    if isinstance(value, Config):
        value = value.model_dump(exclude_none=True)
    if isinstance(value, dict):
        return ", ".join(f"{name} of {len(part)} beams" for name, part in value.items() if isinstance(part, list))
    if isinstance(value, list) and value and hasattr(value[0], "range_m"):
        return "; ".join(
            f"{one.range_m:g} m at {100 * one.reflectance:g} % ({100 * one.detection:g} % detected)" for one in value
        )
    if isinstance(value, list) and len(value) > 3:
        return f"{len(value)} entries"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None or value == [] else str(value)


def error_in_words(path: str, error: float | None) -> str:
    """Half width of a 95 % interval as text, with a unit if it differs from that of the value."""
    if error is None:
        return "exact"
    return f"± {100 * error:.1f} % per point" if path == "range.overlap" else f"± {error:.2g}"


def drive_rows(found: DriveCalibration) -> list[tuple[str, str, str, str]]:
    """Field, preset value, measured value and half width of its 95 % interval, for all measured fields."""
    return [
        (
            path,
            in_words(value_at(found.preset, path)),
            in_words(value_at(found.sheet, path)),
            error_in_words(path, found.error.get(path)),
        )
        for path in found.changed
    ]


def drive_page(found: DriveCalibration, recording: str, *, before: Sequence[str] = ()) -> str:
    """Report as HTML; `before` are sections that are placed first."""
    frame = found.turn
    pulses = int((frame.returned | frame.lost).sum())
    facts = [
        ("frames", found.turns),
        ("pulses", html.count(pulses)),
        ("returned", f"{100 * frame.returned.sum() / max(pulses, 1):.1f} %"),
        ("fields measured", len(found.changed)),
        ("fields kept", len(found.kept)),
    ]
    charts = [
        (plots.overlap_chart, "Overlap", _overlap_caption(found.overlap)),
        (plots.strengths_chart, "Strengths of rings", "Signal of each ring at the same target."),
        (plots.noise_chart, "Range noise", "Residuals to the plane of the neighbours, by signal."),
        (plots.noise_by_range_chart, "Range noise by range", "The same by range."),
        (plots.bias_chart, "Errors of channels", "Relative to their mean."),
        (plots.elevations_chart, "Elevations", "Rows that observe inclined planes, relative to their mean."),
        (
            plots.azimuths_chart,
            "Azimuths",
            "Rows that observe oblique walls, relative to their mean; firing times included.",
        ),
        (plots.timing_chart, "Rotation rate", "From the time stamps of pulses, in eighths of every revolution."),
        (plots.dropout_chart, "Dropout", "Lost pixels on surfaces, by the photons of their neighbours."),
        (plots.signal_chart, "Signal", "All returns."),
    ]
    figures = [chart.figure(title, caption) for draw, title, caption in charts if (chart := draw(found)) is not None]
    measured = html.table(("field", "preset", "measured", "95 % interval"), drive_rows(found), kinds="-ll-")
    kept = html.table(("field", "why"), list(found.kept.items()), kinds="-l")
    timing = [] if found.timing is None else timing_rows(found.timing, found.preset.pattern)
    return html.page(
        f"Calibration of {found.preset.name}",
        *before,
        html.section("measured", "Measured", measured),
        html.section("timing", "Timing", html.table(TIMING_COLUMNS, timing, kinds="-ll")),
        html.section("curves", "Curves", html.pair(*figures)),
        html.section("kept", "Kept from the preset", kept),
        lead=(f"From {recording}. Points are recorded; lines are this sheet and the preset.",),
        facts=facts,
    )


def _overlap_caption(curve: Overlap | None) -> str:
    words = "Share of the return that the receiver collects, by range"
    if curve is not None and not np.isfinite(curve.constant):
        return f"{words}, from places that the drive revisits: the recording has no reflectivity."
    return f"{words}."


def write_drive_report(found: DriveCalibration, recording: str, path: str | PathLike[str]) -> None:
    """Write the report."""
    html.write_page(path, drive_page(found, recording))


# ---- Sections of the report that compare several recordings ---------------------------------------------------------


COLOURS = (1, 3, 2, 4, 6, 5)
"""Palette numbers of the recordings."""
COLUMNS = ("field", "intervals", "recordings")


def comparison_rows(found: RecordingComparison) -> list[tuple[str, str, str]]:
    """Compared fields: agreement of the recordings, and the value of each."""
    return [
        (one.field, "do not overlap" if one.differs else "overlap", one.in_words(found.names)) for one in found.fields
    ]


def _overlap(one: DriveCalibration, colour: int, name: str, shift: float) -> list[Curve]:
    curve = one.overlap
    if curve is None:
        return []
    at = curve.range * (1.0 + 0.01 * shift)
    recorded = Curve.of(name, at, curve.share, colour, "dots", INTERVAL * curve.error)
    return [recorded, plots.overlap_line(one.sheet, curve, "", colour)]


def _noise(one: DriveCalibration, colour: int, name: str, shift: float) -> list[Curve]:
    if one.noise is None or not (one.noise.count > 0).any():
        return []
    known = one.noise.count > 0
    level = one.noise.photons[known] * (1.0 + 0.02 * shift)
    error = 100.0 * INTERVAL * one.noise.pure_error_m[known]
    recorded = Curve.of(name, level, 100.0 * one.noise.pure_m[known], colour, "dots", error)
    return [recorded, plots.noise_line(one, one.sheet, level, "", colour)]


def _bias(one: DriveCalibration, colour: int, name: str, shift: float) -> list[Curve]:
    if one.bias is None or not one.bias.windows:
        return []
    ring = np.arange(len(one.bias.off))[::-1] + 0.2 * shift
    return [Curve.of(name, ring, 1e3 * one.bias.off, colour, "dots", 1e3 * INTERVAL * one.bias.error)]


def _dropout(one: DriveCalibration, colour: int, name: str, shift: float) -> list[Curve]:
    level, lost, error = plots.lost_pixels(one)
    return [Curve.of(name, level * (1.0 + 0.02 * shift), lost, colour, "dots", INTERVAL * error)]


def _noise_axes(found: RecordingComparison) -> dict[str, Any]:
    levels = [100.0 * one.noise.pure_m[one.noise.count > 0] for one in found.each if one.noise is not None]
    top = 1.6 * float(np.nanmax(np.concatenate([*levels, [0.1]])))
    return {"y_label": "range noise [cm]", "x_label": found.each[0].level, "log": "x", "y_limits": (0.0, top)}


Draw = Callable[[DriveCalibration, int, str, float], list[Curve]]
PANELS: tuple[tuple[str, Draw, Callable[[RecordingComparison], dict[str, Any]]], ...] = (
    (
        "Overlap",
        _overlap,
        lambda _: {"y_label": "overlap ξ", "x_label": "range [m]", "log": "x", "y_limits": (0.0, 1.2)},
    ),
    ("Range noise", _noise, _noise_axes),
    ("Errors of channels", _bias, lambda _: {"y_label": "range error [mm]", "x_label": "ring"}),
    ("Dropout", _dropout, lambda _: plots.DROPOUT_AXES),
)
"""Title, curves of one recording, and axes of each chart."""


def comparison_charts(found: RecordingComparison) -> dict[str, Chart]:
    """Charts by title, with one colour per recording."""
    charts = {}
    for title, draw, axes in PANELS:
        each = zip(found.names, found.each, COLOURS * len(found.each), range(len(found.each)), strict=False)
        curves = [curve for name, one, colour, k in each for curve in draw(one, colour, name, float(k))]
        charts[title] = Chart(curves, **axes(found))
    return charts


def comparison_sections(found: RecordingComparison) -> list[str]:
    """Table of fields, and one chart per quantity with the curves of all recordings."""
    caption = "Separate fits of each recording, with 95 % intervals."
    figures = [chart.figure(title, caption) for title, chart in comparison_charts(found).items()]
    apart = [one.field for one in found.differing]
    words = f"Intervals do not overlap: {', '.join(apart)}." if apart else "All intervals overlap."
    table = html.table(COLUMNS, comparison_rows(found), kinds="--l")
    title = "Comparison of recordings"
    return [html.section("recordings", title, html.paragraph(words, "lead"), table, html.pair(*figures))]


def write_comparison(found: RecordingComparison, path: str | PathLike[str]) -> None:
    """Write the report of a calibration from several recordings."""
    page = drive_page(found.together, ", ".join(found.names), before=comparison_sections(found))
    html.write_page(path, page)


# ---- Progress page of a calibration: stages, points used by each of them, and curves so far -------------------------


STAGES = {
    "steps": "Steps of range and intensity",
    "timing": "Timing",
    "channels": "Beam angles in the capture",
    "threshold": "Threshold",
    "overlap": "Overlap",
    "noise": "Range noise",
    "bias": "Errors of channels",
    "angles": "Elevations of beams",
    "azimuths": "Azimuths of beams",
    "saturation": "Saturation",
    "rated": "Rated range",
}
"""Stages of a drive in order, with titles."""
TAKEN, LEFT, NOTHING = html.LIGHT[1], "#dea05a", "#262c34"
"""Colours of points that a stage uses, of points that it excludes, and of directions without a pulse."""
MOST_COLUMNS = 1600


def taken_by(stage: str, frame: RangeImage) -> Mask | None:
    """Pixels that a stage uses; None for stages that use all returns."""
    if stage == "overlap":
        return usable(frame) if np.isfinite(frame.reflectivity).any() else _flat(frame)
    if stage == "threshold":
        return on_surface(frame)[0]
    if stage in ("noise", "bias", "angles", "azimuths"):
        return np.asarray(np.isfinite(residuals(frame)[0]))
    return None


def _flat(frame: RangeImage) -> Mask:
    """Pixels on flat surfaces, whose places may be revisited."""
    mask = np.zeros(frame.range.shape, bool)
    mask[flat_pixels(frame).place] = True
    return mask


def picture(frame: RangeImage, taken: Mask) -> str:
    """Data URL of an image of rows and columns: points used, points excluded, and lost pulses."""
    pixels = np.full((*frame.range.shape, 3), rgb(NOTHING))
    pixels[frame.returned | frame.lost] = rgb(LEFT)
    pixels[taken] = rgb(TAKEN)
    return rgb_uri(pixels[:, :: max(1, pixels.shape[1] // MOST_COLUMNS)])


def watch_page(found: DriveCalibration, recording: str, done: Sequence[str], *, finished: bool = False) -> str:
    """Page after some stages, as HTML."""
    frame = found.turn
    rows = []
    figures = []
    pulses = int((frame.returned | frame.lost).sum())
    running = None if finished else next((stage for stage in STAGES if stage not in done), None)
    for stage, title in STAGES.items():
        if stage not in done:
            rows.append((title, "running" if stage == running else "waiting", "", ""))
            continue
        taken = taken_by(stage, frame)
        number = int(frame.returned.sum()) if taken is None else int(taken.sum())
        rows.append((title, "done", html.count(number), html.count(pulses - number)))
        if taken is not None and stage not in ("bias", "angles", "azimuths"):
            image = html.image(picture(frame, taken), f"Points of {title}", "scan")
            caption = "{} rows by {} columns of the recording".format(*frame.range.shape)
            figures.append(html.figure(f"{title}: points used and excluded", image, caption))
    key = html.key([("taken", TAKEN), ("left out", LEFT), ("no pulse", NOTHING)]) if figures else ""
    words = "All stages are done." if finished else "The calibration is running; this page is updated."
    stages = html.section(
        "stages",
        "Stages",
        html.paragraph(words, "lead"),
        html.table(("stage", "state", "points taken", "left out"), rows, kinds="--nn"),
        *figures,
        key,
    )
    return drive_page(found, recording, before=[stages])
