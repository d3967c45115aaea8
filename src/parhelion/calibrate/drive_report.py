"""The page of a calibration from a drive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import numpy as np

from parhelion.calibrate import plots
from parhelion.calibrate.drive import DriveCalibration
from parhelion.calibrate.overlap_fit import Overlap
from parhelion.calibrate.timing_fit import timing_rows
from parhelion.core.config import Config
from parhelion.io.atomic import atomic_write
from parhelion.pictures import run_page as html
from parhelion.sensors.lidar.config import LidarConfig

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


def rows_of(found: DriveCalibration) -> list[tuple[str, str, str, str]]:
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
    measured = html.table(("field", "preset", "measured", "95 % interval"), rows_of(found), kinds="-ll-")
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
