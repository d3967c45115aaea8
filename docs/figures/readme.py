"""The picture of the README: one scan of an OS1-128 in the built-in city, docs/images/readme.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import LogNorm, to_rgb
from page import IMAGES

import parhelion as ph
from parhelion.pictures.grids import field_image, panorama
from parhelion.pictures.panels import panel_pixels
from parhelion.pictures.scan import PinholeView, render
from parhelion.pictures.style import INK, MUTED, SHEET, colour_labels, label_colours, label_shares, legend, quiet, sheet

WORLD, SENSOR, COLUMNS = "city", "ouster/os1-128", 2048
TIME_S, SEED = 5.6, 7
WIDTH_IN, HEIGHT_IN, DPI = 15.0, 9.6, 90
"""1350 pixels wide: sharp at the 900 that a README shows."""
EYE, AIM = (-27.0, -2.0, 22.0), (4.0, 0.5, 0.0)
"""Viewpoint and target of the upper panel in the sensor frame [m]: behind and above the car."""


def seen_from_above(figure: Any, scan: ph.Scan) -> None:
    """The points obliquely from above: colour by label, light by reflectance."""
    axes = figure.add_axes((0.012, 0.375, 0.976, 0.565))
    width, height = (round(side * DPI / figure.dpi) for side in panel_pixels(axes))
    points, names = scan.deskewed(), scan.names["label"]
    light = 0.45 + 0.6 * np.sqrt(np.clip(points.reflectivity, 0.0, 1.0))
    colour = np.clip(colour_labels(points.label, names) * light[:, None], 0.0, 1.0)
    camera = PinholeView(ph.Pose.look_at(EYE, AIM), width, height, 72.0)
    image = render(
        np.asarray(points.xyz, np.float64), colour, camera,
        background=to_rgb("#0a0c10"), point_size_m=0.15, fade_m=260.0,
    )  # fmt: skip
    axes.imshow(image, interpolation="nearest", aspect="auto")
    quiet(axes)
    axes.set(xticks=[], yticks=[])
    colours = label_colours(names)
    entries = [(word, colours[number]) for number, word, _ in label_shares(points.label, names, most=11)]
    legend(axes, entries, loc="upper right")
    for text in axes.get_legend().get_texts():
        text.set_fontsize(12)


def strip(figure: Any, scan: ph.Scan, field: str, bottom: float, words: str, colours: str) -> None:
    """A field around the sensor, without axes."""
    axes = figure.add_axes((0.012, bottom, 0.976, 0.16))
    image = field_image(scan, field, panorama(scan))
    low, high = np.nanpercentile(image[image > 0], [0.5, 99.5])
    axes.imshow(image, cmap=colours, norm=LogNorm(low, high, clip=True), aspect="auto", interpolation="nearest")
    quiet(axes)
    axes.set(xticks=[], yticks=[])
    axes.text(
        0.006, 0.94, words, color=INK, fontsize=14, va="top", transform=axes.transAxes,
        bbox={"facecolor": SHEET, "edgecolor": "none", "alpha": 0.72, "pad": 3},
    )  # fmt: skip


def main() -> None:
    world = ph.World.load(WORLD)
    scan = ph.Lidar(SENSOR, columns=COLUMNS).scan(world, trajectory=world.path, time=TIME_S, seed=SEED)
    figure = sheet(WIDTH_IN, HEIGHT_IN)
    facts = f"{len(scan):,} points of {len(scan.shots):,} shots".replace(",", " ")
    figure.text(
        0.012, 0.969, f"{SENSOR} in the built-in {WORLD}: one scan", color=INK, fontsize=19, weight="bold", va="center"
    )
    figure.text(0.988, 0.969, facts, color=MUTED, fontsize=16, va="center", ha="right")
    seen_from_above(figure, scan)
    strip(figure, scan, "range", 0.195, "range, all around", "viridis_r")
    strip(figure, scan, "intensity", 0.016, "intensity: photons counted", "inferno")
    file = IMAGES / "readme.png"
    figure.savefig(file, dpi=DPI, facecolor=figure.get_facecolor(), pil_kwargs={"optimize": True})
    print(f"{file}: {file.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
