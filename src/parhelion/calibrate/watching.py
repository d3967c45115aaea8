"""What a calibration shows while it runs: its stages, the points each of them took or left out, and curves so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from parhelion.calibrate import plots
from parhelion.calibrate.detection_fit import amid_surface
from parhelion.calibrate.drive import DriveCalibration
from parhelion.calibrate.drive_report import drive_page
from parhelion.calibrate.flat_pixels import flat_pixels
from parhelion.calibrate.overlap_fit import usable
from parhelion.calibrate.range_fit import residuals
from parhelion.calibrate.turns import Mask, Turn
from parhelion.pictures import run_page as html

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
