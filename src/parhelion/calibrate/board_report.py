"""The page of a calibration from boards: recorded and simulated curves together, material by material."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from parhelion.calibrate import plots
from parhelion.calibrate.board_file import BoardCalibration, MaterialResult
from parhelion.calibrate.board_pictures import draw_recording
from parhelion.calibrate.profile_fit import MaterialShots, angle_edges, fit_profile
from parhelion.calibrate.turns import Floats
from parhelion.core.errors import ConfigError
from parhelion.io.atomic import atomic_write
from parhelion.pictures import run_page as html
from parhelion.sensors.lidar.profile import MaterialProfile


def mean_and_sigma(profile: MaterialProfile) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the intensities of returns, by bin of angle; NaN where there are none."""
    cells = np.asarray(profile.intensity)
    value = cells if profile.kind == "values" else 0.5 * (cells[1:] + cells[:-1])
    counts = np.asarray(profile.counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = counts / counts.sum(axis=1, keepdims=True)
        mean = share @ value
        return mean, np.sqrt(np.maximum(share @ value**2 - mean**2, 0.0))


def rows_of(found: BoardCalibration) -> list[tuple[str, ...]]:
    """A row a material, for people."""
    rows: list[tuple[str, ...]] = []
    for one in found.materials:
        known = np.asarray(one.profile.shots) > 0
        drop, sigma = (np.asarray(part)[known] for part in (one.profile.drop, one.profile.range_sigma_m))
        gaps = "nothing" if one.brdf is None else f"{one.brdf.model} (± {100 * one.brdf.error:.0f} %)"
        rows.append((
            one.name, "; ".join(f"{b.distance_m:.2f} m, {b.width_m:.2f} m wide" for b in one.boards),
            str(len(one.shots)),
            f"{one.profile.recorded_deg[0]:g}–{one.profile.recorded_deg[1]:g}",
            f"{100 * drop.min():.1f}–{100 * drop.max():.1f} %" if one.shots.knows_lost else "unknown",
            f"{100 * sigma.min():.2f}–{100 * sigma.max():.2f}", gaps,
        ))  # fmt: skip
    return rows


CURVES: tuple[tuple[str, Callable[[MaterialProfile], Floats]], ...] = (
    ("mean intensity", lambda profile: mean_and_sigma(profile)[0]),
    ("σ of intensity", lambda profile: mean_and_sigma(profile)[1]),
    ("drop rate [%]", lambda profile: 100.0 * np.asarray(profile.drop)),
    ("σ of range [cm]", lambda profile: 100.0 * np.asarray(profile.range_sigma_m)),
)
"""The four curves of ApolloSim's figures 5.1 to 5.4."""


def draw_curves(panels: Any, recorded: MaterialProfile, simulated: MaterialProfile | None) -> None:
    """Recorded (dots, with what gaps are filled by as circles) and simulated (line) over the angle of incidence."""
    edges = angle_edges()
    middle = 0.5 * (edges[1:] + edges[:-1])
    known = np.asarray(recorded.shots) > 0
    for axes, (label, curve) in zip(panels, CURVES, strict=True):
        values = curve(recorded)
        axes.plot(middle[known], values[known], "o", ms=3.5, color=plots.RECORDED, label="recorded")
        if recorded.brdf is not None:
            axes.plot(
                middle[~known], values[~known], "o", ms=3.5, mfc="none", color=plots.PRESET, label="gap, by model"
            )
        if simulated is not None:
            there = np.asarray(simulated.shots) > 0
            axes.plot(middle[there], curve(simulated)[there], lw=1.2, color=plots.SHEET, label="simulated")
        axes.set(xlabel="angle of incidence [deg]", ylabel=label, xlim=(0.0, 90.0))
        axes.set_ylim(bottom=0.0)
    panels[0].legend(fontsize=7)


def simulated_profile(found: BoardCalibration, one: MaterialResult, seed: int = 1) -> MaterialProfile | None:
    """The profile of what the calibrated sensor sees of the first board again; None where it sees too little."""
    from parhelion.calibrate.simulate import simulate_board

    board = one.boards[0]
    width = min(2.0 * max(abs(board.edges_m[0]), abs(board.edges_m[1])), 12.0 * board.distance_m)
    try:
        shots: MaterialShots = simulate_board(
            found.sheet, one.name, board.distance_m, width_m=width, height_m=max(board.height_m, 0.5), seed=seed
        )
        return fit_profile(shots, gaps=False)[0]
    except ConfigError:
        return None


def simulated_profiles(found: BoardCalibration, seed: int = 1) -> dict[str, MaterialProfile | None]:
    """What the calibrated sensor sees of each material again."""
    return {one.name: simulated_profile(found, one, seed) for one in found.materials}


def curves_of(one: MaterialResult, simulated: MaterialProfile | None) -> Any:
    """The four curves of a material beside each other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 2.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 4)
    draw_curves(panels, one.profile, simulated)
    for axes in panels:
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.tick_params(labelsize=7)
    return figure


def board_page(
    found: BoardCalibration,
    recording: str,
    simulated: Mapping[str, MaterialProfile | None],
    *,
    before: Sequence[str] = (),
    images: dict[str, str] | None = None,
) -> str:
    """The page as HTML; it holds its pictures itself.

    `simulated` has the profile of each material that was simulated with the new sheet; `before` are sections that come
    first; `images` keeps pictures for the next page of the same calibration.
    """
    kept = {} if images is None else images

    def picture(key: str, draw: Callable[..., Any], *of: Any) -> str:
        if key not in kept:
            kept[key] = plots.address(draw(*of))
        return kept[key]

    figures = []
    for one in found.materials:
        again = simulated.get(one.name)
        address = picture(f"{one.name} {again is not None}", curves_of, one, again)
        figures.append(html.figure(one.name, html.image(address, one.name, "plot")))
    boards = []
    for number, seen in enumerate(found.recordings):
        if seen.board is not None:
            address = picture(f"{number}", draw_recording, seen)
            words = f"Points of {seen.name}"
            boards.append(html.figure(f"{seen.name}: {seen.material}", html.image(address, words, "plot")))
    key = plots.key((plots.TAKEN, "taken"), (plots.LOST, "taken, lost"), (plots.LEFT, "left out"))
    held = [
        (
            one.name, str(one.comparison.shots), f"{one.comparison.log_likelihood:.3f}",
            f"{one.comparison.textbook_log_likelihood:.3f}", f"{one.comparison.wasserstein:.3g}",
            f"{one.comparison.textbook_wasserstein:.3g}",
        )
        for one in found.materials
        if one.comparison is not None
    ]  # fmt: skip
    columns = ("material", "boards", "shots", "angles [deg]", "drop", "range noise [cm]", "gaps by")
    constants = [] if found.sheet.calibration is None else found.sheet.calibration.constants
    known = [(one.source, f"{one.k_m2:.6g}", f"{one.gamma_per_m:.4g}") for one in constants]
    against = ("material", "held-out shots", "log-likelihood", "textbook", "Wasserstein", "textbook")
    return html.page(
        f"Boards before {found.preset.name}",
        f"<h1>Boards before {html.text(found.preset.name)}</h1>",
        f'<p class="lead">From {html.text(recording)}. Dots are recorded, lines are simulated with the new sheet.</p>',
        *before,
        html.section("materials", "Materials", html.table(columns, rows_of(found), kinds="-ln---l")),
        html.section("curves", "Recorded and simulated", *figures),
        html.section("boards", "Points taken and left out", *boards, key if boards else ""),
        html.section("held", "On shots kept back", html.table(against, held, kinds="-nnnnn")),
        html.section(
            "constants", "System constant",
            html.table(("source", "K [m²]", "γ [1/m]"), known),
        ),
        html.section("notes", "Notes", "".join(f"<p>{html.text(note)}</p>" for note in found.notes)),
    )  # fmt: skip


def write_board_report(
    found: BoardCalibration, recording: str, simulated: Mapping[str, MaterialProfile | None], path: str | PathLike[str]
) -> None:
    """Write the page."""
    with atomic_write(path) as temporary:
        temporary.write_text(board_page(found, recording, simulated), encoding="utf-8")
