"""Figures of docs/procedural-worlds.md, and the pictures of the worlds `warehouse` and `forest`.

python docs/figures/procedural.py            all of them
python docs/figures/procedural.py plans      procedural-plans.png
python docs/figures/procedural.py ground     procedural-ground.png
python docs/figures/procedural.py views      world-warehouse.png, world-forest.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import worlds
from PIL import Image

from parhelion.pictures.layout import layout_bitmap, palette
from parhelion.pictures.style import ACCENT, INK, MUTED, legend, quiet, save, sheet
from parhelion.world import builtin
from parhelion.world.procedural import KINDS, Layout, forest, ground_height, warehouse

IMAGES = Path(__file__).resolve().parents[1] / "images"

worlds.COLOURS |= {"copper": (0.55, 0.30, 0.18), "needles": (0.06, 0.18, 0.09)}
VIEWS = {
    "warehouse": ((17.5, -10.5, 5.6), (-6.0, 3.0, 0.5), 75.0, {"roof": False}),
    "forest": ((-19.0, -0.8, 4.2), (4.0, 0.6, 0.5), 75.0, {}),
}
"""Camera position, point looked at [m], horizontal field of view [deg], and parameters of the world."""


def plans() -> None:
    """Bitmaps of warehouses of several seeds and sizes."""
    chosen = [
        ("seed 0", warehouse(seed=0)),
        ("seed 1", warehouse(seed=1)),
        ("60 x 40 m, aisles of 4 m", warehouse((60.0, 40.0), aisle_m=4.0, seed=2)),
        ("density 0.1", warehouse(density=0.1, seed=3)),
    ]
    figure = sheet(11.0, 8.4)
    for k, (title, layout) in enumerate(chosen):
        axes = figure.add_axes((0.05 + 0.49 * (k % 2), 0.55 - 0.5 * (k // 2), 0.43, 0.4))
        _plan(axes, layout)
        quiet(axes, title)
    kinds = ("wall", "rack", "pallet", "box", "pillar", "door", "marker", "charging-station", "cone")
    swatches = [(kind, palette()[KINDS[kind].code] / 255.0) for kind in kinds]
    legend(figure.axes[0], swatches, loc="upper center", bbox_to_anchor=(1.07, -0.07), ncols=len(kinds))
    save(figure, IMAGES / "procedural-plans.png")


def _plan(axes, layout: Layout) -> None:
    half_x, half_y = layout.size[0] / 2, layout.size[1] / 2
    image = palette()[layout_bitmap(layout, 0.05)]
    axes.imshow(image, extent=(-half_x, half_x, -half_y, half_y), interpolation="antialiased")
    if layout.drive is not None:
        axes.plot(*np.array(layout.drive.points).T, color=ACCENT, linewidth=1.0)


def ground() -> None:
    """Heights, trees and the track of a forest, and the heights along the track for several roughnesses."""
    layout = forest(seed=0)
    x, y = np.meshgrid(np.linspace(-40, 40, 321), np.linspace(-40, 40, 321))
    figure = sheet(11.0, 5.4)
    axes = figure.add_axes((0.05, 0.1, 0.43, 0.8))
    height = ground_height(layout, x, y)
    axes.imshow(height, extent=(-40, 40, -40, 40), origin="lower", cmap="viridis")
    for kind, colour in (("tree", "#ffffff"), ("rock", "#b0a9a0"), ("bush", "#7fd08f")):
        things = [thing for thing in layout.objects if thing.kind == kind]
        at = np.array([thing.pose.xyz[:2] for thing in things])
        axes.scatter(*at.T, s=[6.0 if kind == "tree" else 3.0] * len(at), color=colour, label=kind, linewidths=0)
    axes.plot(*np.array(layout.drive.points).T, color=ACCENT, linewidth=2.0, label="drive")
    box = axes.legend(fontsize=8, labelcolor=INK, loc="upper right")
    box.get_frame().set(facecolor="#0e1116", edgecolor=MUTED, alpha=0.85)
    axes.set(xlabel="x [m]", ylabel="y [m]")
    quiet(axes, f"forest, seed 0: ground from {height.min():.1f} to {height.max():.1f} m")
    axes = figure.add_axes((0.56, 0.1, 0.42, 0.8))
    for roughness in (0.3, 0.8, 2.0):
        layout = forest(roughness_m=roughness, density_per_ha=0.0, seed=0)
        at = np.linspace(-40, 40, 401)
        axes.plot(at, ground_height(layout, at, np.full(401, 20.0)), label=f"roughness_m = {roughness:g}")
    box = axes.legend(fontsize=8, labelcolor=INK)
    box.get_frame().set(facecolor="#0e1116", edgecolor=MUTED, alpha=0.85)
    axes.set(xlabel="x [m]", ylabel="height at y = 20 m [m]")
    quiet(axes, "the same seed, other roughness")
    save(figure, IMAGES / "procedural-ground.png")
    with Image.open(IMAGES / "procedural-ground.png") as picture:
        worlds.save(np.asarray(picture.convert("RGB")), IMAGES / "procedural-ground.png")


def views() -> None:
    """The two worlds as a camera sees them."""
    for name, (origin, target, field_of_view, params) in VIEWS.items():
        image = worlds.render(builtin.build(name, **params), (origin, target, field_of_view), samples=24)
        worlds.save(image, IMAGES / f"world-{name}.png")


FIGURES = {"plans": plans, "ground": ground, "views": views}

if __name__ == "__main__":
    for name in sys.argv[1:] or FIGURES:
        FIGURES[name]()
