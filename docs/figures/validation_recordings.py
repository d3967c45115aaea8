"""Recorded and simulated signal, noise and loss side by side: tables and a picture of docs/weather-validation.md."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from near_field_measures import PHOTON_EDGES, RangeNoise, dropout, range_noise
from page import BLUE, GREY, ORANGE, finish
from recordings import Frame
from simulated_recordings import Pair, Strengths, pair, percentiles, strengths
from weather_page import table, write

RANGE_EDGES_M = (1.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 40.0, 60.0)
SHOWN_M = (2.0, 2.4, 3.0, 3.6, 4.7, 6.5, 8.5, 11.1, 15.0, 20.5, 24.0, 40.0)


def against_recordings() -> None:
    """Section: OS0-32, OS1-32 and VLP-16."""
    try:
        ousters = {name: pair(name) for name in ("os0-32", "os1-32")}
        puck = pair("vlp-16")
    except FileNotFoundError as missing:
        print(f"recordings: skipped, {missing}; the page keeps its earlier figures")
        return
    curves = {name: strengths(both) for name, both in ousters.items()}
    signal_table({**ousters, "vlp-16": puck})
    write("recordings-curve", "\n\n".join(curve_table(name, curve) for name, curve in curves.items()))
    noises = {name: (noise_of(both.recorded), noise_of(both.joined())) for name, both in ousters.items()}
    noise_table(ousters, noises)
    intensity_table(puck)
    figure = Figure(figsize=(8.4, 15.0), dpi=90, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(5, 2).T
    for row, (name, both) in zip(panels, ousters.items(), strict=True):
        draw_curve(row[0], name, curves[name])
        draw_signal(row[1], name, both)
        draw_noise(row[2], name, *noises[name])
        draw_loss(row[3], name, both)
    draw_intensity(panels[0][4], panels[1][4], puck)
    finish(figure, "validation-recordings")


def noise_of(frame: Frame) -> RangeNoise:
    """Scatter of ranges by photons."""
    return range_noise(frame, frame.signal, PHOTON_EDGES, repeats=50)


def signal_table(pairs: dict[str, Pair]) -> None:
    """Ranges and signals of whole frames."""
    rows = []
    for name, both in pairs.items():
        for words, frame in (("recorded", both.recorded), ("simulated", both.joined())):
            seen = ~frame.lost
            far = " / ".join(f"{value:.1f}" for value in np.percentile(frame.range[seen], [1, 50, 99]))
            level = " / ".join(f"{value:.0f}" for value in percentiles(frame))
            below = f"{100.0 * np.mean(frame.signal[seen] < 12):.1f} %" if name.startswith("os") else "–"
            rows.append([
                f"{name}, {words}", far, level, below, f"{frame.signal[seen].max():.0f}",
                f"{100 * frame.lost.mean():.0f} %",
            ])  # fmt: skip
    columns = ["frame", "R 1 / 50 / 99 % [m]", "signal 1 / 50 / 99 %", "below 12 photons", "largest", "lost"]
    write("recordings-signal", table(columns, rows))


def curve_table(name: str, curve: Strengths) -> str:
    """Photons · R² for 100 %, bin by bin near chosen ranges."""
    known = np.flatnonzero(np.isfinite(curve.simulated))
    chosen = sorted({int(known[np.argmin(np.abs(np.log(curve.range[known] / at)))]) for at in SHOWN_M})
    rows = [
        ["recorded", *(f"{curve.recorded[k]:.0f}" for k in chosen)],
        ["simulated", *(f"{curve.simulated[k]:.0f}" for k in chosen)],
        ["ratio", *(f"{curve.ratio[k]:.2f}" for k in chosen)],
    ]
    held = curve.ratio[curve.many]
    note = (
        f"All {len(held)} bins from 2 m on with 200 points or more: ratio {held.min():.2f} to {held.max():.2f}, median "
        f"{np.median(held):.2f}."
    )
    return table([f"{name}, R [m]", *(f"{curve.range[k]:.1f}" for k in chosen)], rows) + "\n\n" + note


def noise_table(pairs: dict[str, Pair], noises: dict[str, tuple[RangeNoise, RangeNoise]]) -> None:
    """Scatter of ranges and lost pixels by photons."""
    columns, parts = ["photons"], []
    for name, both in pairs.items():
        recorded, simulated = noises[name]
        lost = [dropout(frame, PHOTON_EDGES) for frame in (both.recorded, both.joined())]
        columns += [f"{name}: σ recorded [cm]", "simulated", "lost, recorded", "simulated"]
        parts.append((recorded, simulated, *lost))
    rows = []
    for k, (low, high) in enumerate(pairwise(PHOTON_EDGES)):
        row = [f"{low:g}–{high:g}" if np.isfinite(high) else f"> {low:g}"]
        for recorded, simulated, real, made in parts:
            row += [f"{100 * noise.sigma_m[k]:.2f}" if noise.count[k] >= 20 else "–" for noise in (recorded, simulated)]
            row += [f"{100.0 * side[k][3] / side[k][2]:.1f} %" if side[k][2] >= 50 else "–" for side in (real, made)]
        rows.append(row)
    write("recordings-noise", table(columns, rows))


def by_range(frame: Frame) -> list[tuple[Any, float]]:
    """5, 50 and 95 % of a VLP-16's intensity, and the share of zeros, for each span of range."""
    found = []
    for low, high in pairwise(RANGE_EDGES_M):
        level = frame.signal[(frame.range >= low) & (frame.range < high)]
        found.append((np.percentile(level, [5, 50, 95]), 100.0 * float(np.mean(level == 0))))
    return found


def intensity_table(puck: Pair) -> None:
    """VLP-16: intensity by range."""
    rows = []
    sides = (by_range(puck.recorded), by_range(puck.joined()))
    for k, (low, high) in enumerate(pairwise(RANGE_EDGES_M)):
        row = [f"{low:g}–{high:g}"]
        for side in sides:
            row += [" / ".join(f"{value:.0f}" for value in side[k][0]), f"{side[k][1]:.1f} %"]
        rows.append(row)
    write(
        "recordings-vlp-16",
        table(["R [m]", "recorded 5 / 50 / 95 %", "zeros", "simulated 5 / 50 / 95 %", "zeros"], rows),
    )


def draw_curve(axes: Any, name: str, curve: Strengths) -> None:
    """Signal times the square of range, for a white target."""
    axes.loglog(curve.range, curve.recorded, "o", color=GREY, markersize=4, label="recorded")
    axes.loglog(curve.range, curve.simulated, "-", color=ORANGE, linewidth=1.4, label="simulated")
    axes.set_xticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="range [m]", ylabel="photons · R² of 100 % [m²]", title=f"{name}: signal × R²")
    axes.legend(fontsize=8)


def draw_signal(axes: Any, name: str, both: Pair) -> None:
    """Histograms of photons."""
    edges = np.geomspace(2.0, 8000.0, 50)
    for frame, colour, words, fill in (
        (both.recorded, GREY, "recorded", True),
        (both.joined(), ORANGE, "simulated, city", False),
    ):
        level = frame.signal[~frame.lost]
        share = 100.0 * np.histogram(level + 0.01, edges)[0] / len(level)
        axes.stairs(share, edges, color=colour, fill=fill, alpha=0.45 if fill else 1.0, label=words, linewidth=1.4)
    axes.set_xscale("log")
    axes.set(xlabel="photons", ylabel="share of returns [%]", title=f"{name}: signal of returns")
    axes.legend(fontsize=8)


def draw_noise(axes: Any, name: str, recorded: RangeNoise, simulated: RangeNoise) -> None:
    """Scatter of ranges on flat surfaces."""
    known = simulated.count >= 20
    axes.errorbar(
        recorded.photons,
        100 * recorded.sigma_m,
        100 * recorded.error_m,
        fmt="o",
        color=GREY,
        markersize=4,
        label="recorded",
    )
    axes.plot(
        simulated.photons[known], 100 * simulated.sigma_m[known], "o-", color=ORANGE, markersize=4, label="simulated"
    )
    axes.set_xscale("log")
    axes.set(xlabel="photons", ylabel="σ, flattest fifth [cm]", ylim=(0.0, 2.0), title=f"{name}: range noise")
    axes.legend(fontsize=8)


def draw_loss(axes: Any, name: str, both: Pair) -> None:
    """Pixels lost amid a surface."""
    for frame, colour, words, style in (
        (both.recorded, GREY, "recorded", "o"),
        (both.joined(), ORANGE, "simulated", "o-"),
    ):
        rows = [
            (np.sqrt(low * high), 100.0 * lost / every)
            for low, high, every, lost in dropout(frame, PHOTON_EDGES[:-1])
            if every >= 50
        ]
        axes.plot(*np.array(rows).T, style, color=colour, markersize=4, label=words)
    axes.set_xscale("log")
    axes.set_xticks([5, 10, 20, 50, 100], ["5", "10", "20", "50", "100"])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="photons of the neighbours", ylabel="lost [%]", title=f"{name}: pixels lost amid a surface")
    axes.legend(fontsize=8)


def draw_intensity(top: Any, bottom: Any, puck: Pair) -> None:
    """VLP-16: intensity by range, and how often it is 0."""
    middle = [np.sqrt(low * high) for low, high in pairwise(RANGE_EDGES_M)]
    for (
        frame,
        colour,
        words,
    ) in ((puck.recorded, GREY, "recorded"), (puck.joined(), BLUE, "simulated, city")):
        found = by_range(frame)
        low, half, high = np.array([levels for levels, _ in found]).T
        top.plot(middle, half, "o-", color=colour, markersize=4, label=words)
        top.fill_between(middle, low, high, color=colour, alpha=0.15, linewidth=0)
        bottom.plot(middle, [zeros for _, zeros in found], "o-", color=colour, markersize=4, label=words)
    top.set_yscale("symlog", linthresh=1.0)
    top.set_yticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    top.set(ylabel="intensity, median and 5–95 %", title="vlp-16: intensity by range", ylim=(0, 150))
    bottom.set(ylabel="intensity 0 [% of returns]", title="vlp-16: zeros")
    for axes in (top, bottom):
        axes.set_xscale("log")
        axes.set_xticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])
        axes.set_xticks([], minor=True)
        axes.set(xlabel="range [m]")
        axes.legend(fontsize=8)
