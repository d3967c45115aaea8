"""Ranging radios against recordings: docs/images/uwb-recordings.png. It needs the recordings of ../shared/data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from page import BLUE, GREY, ORANGE, finish, sheet

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from uwb_rigs import (
    BANDS_M,
    CLASSES,
    DISTANCES_M,
    HEIGHTS_M,
    antenna_offset_m,
    recorded_apartment,
    recorded_outdoor,
    simulated_apartment,
    simulated_outdoor,
)


def draw_outdoor(level: Any, error: Any) -> None:
    """Level at one height, and range error over distance for all heights."""
    real, ours, distance = recorded_outdoor(), simulated_outdoor(), np.array(DISTANCES_M)
    row = HEIGHTS_M.index(1.25)
    level.plot(distance, real[row, :, 1], "o", color=GREY, markersize=3.5, label="recorded RSSI")
    level.plot(distance, ours[row, :, 1], "-", color=BLUE, label="simulated RSSI")
    level.plot(distance, real[row, :, 2], "x", color=GREY, markersize=3.5, label="recorded first path")
    level.plot(distance, ours[row, :, 2], "--", color=ORANGE, label="simulated first path")
    level.set(xlabel="distance [m]", ylabel="[dBm]", title="DW1000 outdoors, anchor at 1.25 m")
    level.legend(fontsize=7)
    for values, colour, mark, name in ((real, GREY, "o", "recorded"), (ours, BLUE, ".", "simulated")):
        error.plot(np.tile(distance, len(HEIGHTS_M)), values[:, :, 0].ravel(), mark, color=colour, markersize=3,
                   alpha=0.5)  # fmt: skip
        error.plot(distance, np.nanmean(values[:, :, 0], axis=0), "-", color=colour, label=f"{name}, mean")
    error.set(xlabel="distance [m]", ylabel="range error [m]", title="Bias by received level, seven heights")
    error.legend(fontsize=7)
    for low, high in BANDS_M:
        band = (distance > low) & (distance <= high)
        lost = [100.0 * float(np.mean(np.isnan(one[:, band, 0]))) for one in (real, ours)]
        means = [np.nanmean(one[:, band], axis=(0, 1)) for one in (real, ours)]
        print(f"{low}-{high} m: lost {lost[0]:.1f} / {lost[1]:.1f} %, means {means[0].round(3)} / {means[1].round(3)}")


def draw_apartment(axes: Any) -> None:
    """Range error of each link by class; simulated ones with the fitted offset of the antenna delays."""
    links = recorded_apartment()
    ours = simulated_apartment(links)
    medians = [
        [float(np.median([values[0] for name, *_, values in every if name == label])) for label in CLASSES]
        for every in (links, ours)
    ]
    offset = antenna_offset_m(np.array(medians[0]), np.array(medians[1]))
    print(f"offset of the flat: {offset:.3f} m")
    ours = [(name, values + np.array([offset, 0.0, 0.0, 0.0])) for name, values in ours]
    for k, label in enumerate(CLASSES):
        real = np.array([values for name, _, _, values in links if name == label])
        made = np.array([values for name, values in ours if name == label])
        for values, colour, shift, name in ((real, GREY, -0.12, "recorded"), (made, BLUE, 0.12, "simulated")):
            axes.plot(np.full(len(values), k + shift), values[:, 0], "o", color=colour, markersize=4, alpha=0.6,
                      label=name if k == 0 else None)  # fmt: skip
            middle = float(np.median(values[:, 0]))
            axes.plot([k + shift - 0.1, k + shift + 0.1], [middle, middle], "-", color=colour, linewidth=2.5)
            print(label, name, np.median(values, axis=0).round(3))
    axes.set_xticks(range(len(CLASSES)), ["line of sight", "obstructed", "no direct path"])
    axes.set(ylabel="range error [m]", title="DW1000 in a flat; bars: medians")
    axes.legend(fontsize=7)


if __name__ == "__main__":
    figure, panels = sheet(9.2, 3.5, 3)
    draw_outdoor(panels[0], panels[1])
    draw_apartment(panels[2])
    finish(figure, "uwb-recordings")
