"""Figures of docs/procedural-worlds.md, and the pictures of the worlds `warehouse`, `forest` and `off-road`.

python docs/figures/procedural.py            all of them
python docs/figures/procedural.py plans      procedural-plans.png
python docs/figures/procedural.py towns      procedural-towns.png
python docs/figures/procedural.py inputs     procedural-inputs.png
python docs/figures/procedural.py ground     procedural-ground.png
python docs/figures/procedural.py views      world-warehouse.png, world-forest.png, world-off-road.png
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
from parhelion.world.procedural import (
    KINDS,
    Layout,
    buildings_from,
    city,
    countryside,
    forest,
    ground_height,
    harbour,
    warehouse,
)
from parhelion.world.procedural.relief import on_water

IMAGES = Path(__file__).resolve().parents[1] / "images"

worlds.COLOURS |= {"copper": (0.55, 0.30, 0.18), "needles": (0.06, 0.18, 0.09)}
VIEWS = {
    "warehouse": ((17.5, -10.5, 5.6), (-6.0, 3.0, 0.5), 75.0, {"roof": False}),
    "forest": ((-19.0, -0.8, 4.2), (4.0, 0.6, 0.5), 75.0, {}),
    "off-road": ((-34.0, -9.0, 9.0), (6.0, 2.0, -1.0), 70.0, {}),
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


def towns() -> None:
    """Bitmaps of cities, harbours and open country, over what their ground is."""
    chosen = [
        ("city, 4 blocks a side, seed 0", city()),
        ("city, 2 blocks a side, 160 cars, 200 people, seed 3", city(2, cars=160, people=200, seed=3)),
        ("harbour, 300 x 50 m, seed 0", harbour()),
        ("harbour, 160 x 80 m, 5 vessels, no bridge, seed 4", harbour(160.0, 80.0, bridge=False, vessels=5, seed=4)),
        ("forest, seed 0", forest()),
        ("off-road, seed 0", countryside()),
    ]
    figure = sheet(11.0, 12.6)
    for k, (title, layout) in enumerate(chosen):
        axes = figure.add_axes((0.05 + 0.49 * (k % 2), 0.7 - 0.315 * (k // 2), 0.43, 0.27))
        _plan(axes, layout, max(layout.size) / 1600.0, ground=True)
        quiet(axes, title)
    kinds = ("building", "car", "person", "planted-tree", "vessel", "bridge", "crane", "containers", "tree", "rock")
    swatches = [(kind, palette()[KINDS[kind].code] / 255.0) for kind in kinds]
    legend(figure.axes[4], swatches, loc="upper center", bbox_to_anchor=(1.07, -0.07), ncols=len(kinds))
    save(figure, IMAGES / "procedural-towns.png")


def inputs() -> None:
    """A height map and the terrain of it; outlines of a map and their strips."""
    rows, columns = np.mgrid[0:61, 0:91] / 10.0
    heights = 2.0 * np.exp(-((rows - 2.0) ** 2 + (columns - 6.5) ** 2) / 2.0) - 0.25 * rows + 0.15 * np.sin(3 * columns)
    layout = countryside((90.0, 60.0), height_map=heights, trees_per_ha=20, seed=5)
    figure = sheet(11.0, 4.2)
    axes = figure.add_axes((0.05, 0.12, 0.43, 0.78))
    x, y = np.meshgrid(np.linspace(-45, 45, 361), np.linspace(-30, 30, 241))
    drawn = axes.contourf(x, y, ground_height(layout, x, y), 24, cmap="viridis")
    _draw_objects(axes, layout)
    figure.colorbar(drawn, ax=axes, shrink=0.8).ax.tick_params(colors=MUTED, labelsize=8)
    axes.set_aspect("equal")
    quiet(axes, "off-road with a height map [m]")
    court = [[[0, 0], [26, 0], [26, 18], [0, 18]], [[8, 5], [18, 5], [18, 13], [8, 13]]]
    wing = [[[34, 0], [60, -6], [62, 3], [46, 7], [50, 24], [42, 26]]]
    plan = [{"height": 14}, {"building:levels": 3}, {"height": 30}]
    shapes = [court, wing, [[[4, 28], [20, 26], [24, 36], [12, 42], [2, 38]]]]
    features = [
        {"type": "Feature", "properties": caption, "geometry": {"type": "Polygon", "coordinates": shape}}
        for caption, shape in zip(plan, shapes, strict=True)
    ]
    layout = buildings_from({"type": "FeatureCollection", "features": features}, units="metres", margin_m=8.0)
    axes = figure.add_axes((0.56, 0.12, 0.42, 0.78))
    _plan(axes, layout, 0.05)
    for item, caption in zip(layout.objects[1:], ("14 m", "3 storeys", "30 m"), strict=True):
        ring = np.array([*item.params.outline, item.params.outline[0]]) + item.pose.xyz[:2]
        axes.plot(*ring.T, color=ACCENT, linewidth=1.2)
        axes.annotate(caption, item.params.outline[0] + np.array(item.pose.xyz[:2]) + 1.0, color=INK, fontsize=8)
    quiet(axes, "footprints of a map")
    save(figure, IMAGES / "procedural-inputs.png")


def _draw_objects(axes, layout: Layout) -> None:
    for kind, colour in (("tree", "#ffffff"), ("rock", "#b0a9a0"), ("bush", "#7fd08f")):
        at = np.array([item.pose.xyz[:2] for item in layout.objects if item.kind == kind]).reshape(-1, 2)
        axes.scatter(*at.T, s=4.0, color=colour, linewidths=0)
    if layout.drive is not None:
        axes.plot(*np.array(layout.drive.points).T, color=ACCENT, linewidth=1.5)


def _ground_colours(layout: Layout, shape: tuple[int, int], cell: float) -> np.ndarray:
    """Colours of streets, blocks, water, land and relief under what stands on them."""
    x = -layout.size[0] / 2 + (np.arange(shape[1]) + 0.5) * cell
    y = layout.size[1] / 2 - (np.arange(shape[0]) + 0.5) * cell
    grid = np.meshgrid(x, y)
    height = ground_height(layout, *grid)
    kind = layout.objects[0].kind
    if kind == "basin":
        water = on_water(layout, *grid)
        return np.where(water[..., None], (22, 60, 92), (66, 70, 78))
    if kind == "streets":
        edge = layout.size[0] / 2 - 36.0
        hills = np.maximum(np.abs(grid[0]), np.abs(grid[1])) > edge
        return np.where(hills[..., None], (34, 52, 34), np.where(height[..., None] > 0, (62, 64, 68), (34, 37, 43)))
    share = (height - height.min()) / max(np.ptp(height), 1e-9)
    return np.array((26, 40, 30)) + share[..., None] * np.array((60, 58, 30))


def _plan(axes, layout: Layout, cell: float = 0.05, *, ground: bool = False) -> None:
    half_x, half_y = layout.size[0] / 2, layout.size[1] / 2
    codes = layout_bitmap(layout, cell)
    image = palette()[codes]
    if ground:
        free = (codes == 0) | (codes == KINDS["basin"].code)
        image = np.where(free[..., None], _ground_colours(layout, codes.shape, cell), image).astype(np.uint8)
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
        items = [item for item in layout.objects if item.kind == kind]
        at = np.array([item.pose.xyz[:2] for item in items])
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
    """The worlds as a camera sees them."""
    for name, (origin, target, field_of_view, params) in VIEWS.items():
        image = worlds.render(builtin.build(name, **params), (origin, target, field_of_view), samples=24)
        worlds.save(image, IMAGES / f"world-{name}.png")


FIGURES = {"plans": plans, "towns": towns, "inputs": inputs, "ground": ground, "views": views}

if __name__ == "__main__":
    for name in sys.argv[1:] or FIGURES:
        FIGURES[name]()
