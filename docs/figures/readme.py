"""The picture of the README: one scan of an OS1-128 in the built-in city, docs/images/readme.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import IMAGES

import parhelion as ph
from parhelion.pictures.grids import field_image, panorama
from parhelion.pictures.panels import label_rgb, map_panel, sensor_mark
from parhelion.pictures.style import INK, MUTED, SHEET, label_colours, label_shares, legend, quiet, sheet

WORLD, SENSOR = "city", "ouster/os1-128"
TIME_S, SEED = 5.6, 7
WIDTH_IN, HEIGHT_IN = 15.0, 8.9
REACH_M = 43.0
"""How far to the sides the view from above goes."""


def strip(figure: Any, scan: ph.Scan, field: str, bottom: float, words: str, colours: str) -> None:
    """A field as the sensor sees it all around, without axes."""
    from matplotlib.colors import LogNorm

    axes = figure.add_axes((0.012, bottom, 0.976, 0.152))
    image = field_image(scan, field, panorama(scan))
    low, high = np.nanpercentile(image[image > 0], [0.5, 99.5])
    axes.imshow(image, cmap=colours, norm=LogNorm(low, high, clip=True), aspect="auto", interpolation="nearest")
    quiet(axes)
    axes.set(xticks=[], yticks=[])
    axes.text(
        0.006, 0.94, words, color=INK, fontsize=11.5, va="top", transform=axes.transAxes,
        bbox={"facecolor": SHEET, "edgecolor": "none", "alpha": 0.72, "pad": 3},
    )  # fmt: skip


def from_above(figure: Any, scan: ph.Scan) -> None:
    """Points from above by label, x to the right."""
    axes = figure.add_axes((0.012, 0.375, 0.976, 0.56))
    points = scan.deskewed()
    xyz = np.asarray(points.xyz, np.float64)
    shape = (0.976 * WIDTH_IN) / (0.56 * HEIGHT_IN)
    extent = (-0.9 * REACH_M * shape * 0.5, 1.1 * REACH_M * shape * 0.5, -REACH_M / 2, REACH_M / 2)
    names = scan.names["label"]
    map_panel(axes, xyz, label_rgb(points.label, names, xyz[:, 2]), extent)
    quiet(axes)
    axes.set(xticks=[], yticks=[], xlabel="", ylabel="")
    sensor_mark(axes, 0.0, 0.0, 0.0, 3.2)
    colours = label_colours(names)
    entries = [(word, colours[number]) for number, word, _ in label_shares(points.label, names, most=10)]
    legend(axes, entries, loc="upper right", ncols=1)
    bar = 10.0
    left, base = extent[0] + 2.0, extent[2] + 1.6
    axes.plot([left, left + bar], [base, base], color=INK, linewidth=2, solid_capstyle="butt")
    axes.text(left + bar / 2, base + 0.6, f"{bar:g} m", color=INK, fontsize=11, ha="center", va="bottom")


def main() -> None:
    world = ph.World.load(WORLD)
    scan = ph.Lidar(SENSOR).scan(world, trajectory=world.path, time=TIME_S, seed=SEED)
    figure = sheet(WIDTH_IN, HEIGHT_IN)
    title = f"{SENSOR} in the built-in {WORLD}, one scan while driving at 10 m/s"
    facts = f"{len(scan):,} points of {len(scan.shots):,} shots".replace(",", " ")
    figure.text(0.012, 0.968, title, color=INK, fontsize=17, fontweight="bold", va="center")
    figure.text(0.988, 0.968, facts, color=MUTED, fontsize=13, va="center", ha="right")
    from_above(figure, scan)
    strip(figure, scan, "range", 0.195, "range, all around", "viridis_r")
    strip(figure, scan, "intensity", 0.018, "intensity: photons counted", "inferno")
    file = IMAGES / "readme.png"
    figure.savefig(file, facecolor=figure.get_facecolor())
    print(f"{file}: {file.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
