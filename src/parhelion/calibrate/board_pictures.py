"""Recordings of boards as pictures: the points that were taken for the board, and those left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from parhelion.calibrate import plots
from parhelion.calibrate.board_file import RecordingResult
from parhelion.calibrate.board_find import Board

SPAN = 1.6
"""Panels reach so many times half the board's extent to each side."""
OFF_CM = 20.0
"""How far off the board's plane its points are shown [cm]."""


def draw_recording(one: RecordingResult) -> Any:
    """A recording from above, along its board, and face on where the sensor has rows.

    Lost shots that were taken are shown where their beams meet the board, and at the foot of the second panel.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    board, shots, taken = one.board, one.some, one.some_taken
    assert board is not None
    assert shots is not None
    assert taken is not None
    there = board.true_range(shots)
    meets = np.isfinite(there) & (there > 0.0)
    aimed = shots.origin + np.where(meets, there, np.nan)[:, None] * shots.direction
    points = shots.points
    groups = (
        (~taken & ~shots.lost, plots.LEFT), (taken & ~shots.lost, plots.TAKEN), (taken & shots.lost, plots.LOST)
    )  # fmt: skip
    rows = board.height_m > 0.0
    figure = Figure(figsize=(11.0, 2.7), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 3 if rows else 2, width_ratios=(1.0, 1.4, 1.4) if rows else (1.0, 2.0))
    along, up = aimed @ board.across, aimed @ board.up
    off = np.where(shots.lost, -0.92 * OFF_CM, 100.0 * (points @ board.normal + board.distance_m))
    place = np.where(shots.lost, along, points @ board.across)
    for which, colour in groups:
        dots = {"s": 3.0 if colour == plots.LOST else 2.0, "color": colour, "linewidths": 0.0}
        panels[0].scatter(points[which, 0], points[which, 1], **dots)
        panels[1].scatter(place[which], off[which], **dots)
        if rows:
            panels[2].scatter(along[which], up[which], **dots)
    _from_above(panels[0], board)
    left, right, _, _ = board.edges_m
    middle, half = 0.5 * (left + right), 0.5 * (right - left)
    panels[1].set(
        xlabel="along the board [m]", ylabel="before the board [cm]", ylim=(-OFF_CM, OFF_CM),
        xlim=(middle - SPAN * half, middle + SPAN * half),
    )  # fmt: skip
    for edge in (left, right):
        panels[1].axvline(edge, color=plots.PRESET, lw=0.8, ls="--")
    if rows:
        _face_on(panels[2], board)
    for axes in panels:
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.tick_params(labelsize=7)
    return figure


def _from_above(axes: Any, board: Board) -> None:
    left, right, _, _ = board.edges_m
    foot = -board.distance_m * board.normal
    ends = np.stack([foot + place * board.across for place in (left, right)])
    middle, reach = ends.mean(axis=0), SPAN * max(0.5 * (right - left), board.distance_m)
    axes.plot(ends[:, 0], ends[:, 1], color="black", lw=0.8)
    axes.plot(0.0, 0.0, "^", ms=5, color="black")
    low, high = np.minimum(middle, 0.0)[:2], np.maximum(middle, 0.0)[:2]
    centre = 0.5 * (low + high)
    axes.set(
        aspect="equal", xlabel="x [m]", ylabel="y [m]", xlim=(centre[0] - reach, centre[0] + reach),
        ylim=(centre[1] - reach, centre[1] + reach),
    )  # fmt: skip


def _face_on(axes: Any, board: Board) -> None:
    left, right, low, high = board.edges_m
    across, up = 0.5 * (left + right), 0.5 * (low + high)
    axes.plot([left, right, right, left, left], [low, low, high, high, low], color=plots.PRESET, lw=0.8, ls="--")
    axes.set(
        xlabel="along the board [m]", ylabel="up the board [m]",
        xlim=(across - 0.5 * SPAN * (right - left), across + 0.5 * SPAN * (right - left)),
        ylim=(up - 0.5 * SPAN * (high - low), up + 0.5 * SPAN * (high - low)),
    )  # fmt: skip
