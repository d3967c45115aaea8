"""Dirty windows: pictures of a street, lost light of a lidar, and drops between wipes: docs/images/window.webp."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from page import BLUE, GREY, IMAGES, ORANGE, RED
from PIL import Image

import parhelion as ph
from parhelion.sensors.optics.window import KINDS, RADIUS_MM, drop_growth_per_s, drop_share, window_map

PICTURES = (
    ("drops 0.2", {"drops": 0.2}, 30.0),
    ("mud 0.12", {"mud": 0.12, "seed": 5}, 30.0),
    ("ice 0.5", {"ice": 0.5}, 30.0),
    ("scratches 0.3, film 0.3, at night", {"scratches": 0.3, "film": 0.3}, -12.0),
)


def street(window: dict[str, Any], sun_deg: float) -> Any:
    """A street through a window."""
    world = ph.World.load("city")
    world.daylight = ph.Daylight(sun_elevation_deg=sun_deg)
    camera = ph.Camera("generic/vga", samples=32, window=window)
    return camera.shoot(world, pose=world.viewpoint, seed=1).colour[60:420]


def draw_map(axes: Any) -> None:
    """Light that shots of a VLP-16 lose."""
    shares = tuple({"mud": 0.1, "drops": 0.15}.get(name, 0.0) for name in KINDS)
    found = window_map(1, shares, 9.5).transmittance ** 2
    shown = axes.imshow(found, cmap="gray", vmin=0.0, vmax=1.0, origin="lower", extent=(0, 360, -64, 64), aspect="auto")
    axes.figure.colorbar(shown, ax=axes, label="two-way transmittance")
    axes.set(xlabel="azimuth [°]", ylabel="height on the window [mm]", title="Mud 0.1, drops 0.15, beam of 9.5 mm")
    axes.set_ylim(-RADIUS_MM, RADIUS_MM)


def draw_lost(axes: Any) -> None:
    """Share of the points that a lidar loses, by the covered share."""
    world = ph.World.load("city")
    shares = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
    clean = len(ph.Lidar("velodyne/vlp-16").scan(world, pose=ph.Pose(xyz=(0, 0, 1.8)), seed=1))
    for name, colour in (("mud", "#7a5230"), ("ice", BLUE), ("drops", RED), ("film", GREY), ("scratches", ORANGE)):
        left = [
            len(ph.Lidar("velodyne/vlp-16", window={name: float(s)}).scan(world, pose=ph.Pose(xyz=(0, 0, 1.8)), seed=1))
            for s in shares
        ]
        axes.plot(100 * shares, 100 * (1 - np.array(left) / clean), ".-", color=colour, label=name)
    axes.set(xlabel="covered share of the window [%]", ylabel="lost points [%]", title="Street, VLP-16")
    axes.legend(fontsize=8)


def draw_wipes(axes: Any) -> None:
    """Drops over time, with and without a wiper."""
    time = np.linspace(0.0, 60.0, 600)
    for rate, colour in ((2.0, GREY), (10.0, BLUE), (50.0, RED)):
        growth = drop_growth_per_s(rate, 20.0)
        axes.plot(time, [drop_share(growth, t) for t in time], color=colour, label=f"{rate:g} mm/h")
        axes.plot(time, [drop_share(growth, t % 10.0) for t in time], color=colour, linestyle=":")
    axes.set(xlabel="time [s]", ylabel="share of drops", title="At 20 m/s; dotted: with wiper")
    axes.legend(fontsize=8)


def main() -> None:
    figure = Figure(figsize=(11.0, 8.4), dpi=105, layout="constrained")
    FigureCanvasAgg(figure)
    top, bottom = figure.subfigures(2, 1, height_ratios=(1.45, 1))
    panels = top.subplots(2, 2)
    for axes, (name, window, sun) in zip(panels.ravel(), PICTURES, strict=True):
        axes.imshow(street(window, sun))
        axes.set_title(name, fontsize=10)
        axes.set_axis_off()
    charts = bottom.subplots(1, 3)
    draw_map(charts[0])
    draw_lost(charts[1])
    draw_wipes(charts[2])
    figure.canvas.draw()
    picture = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[..., :3])
    picture.save(IMAGES / "window.webp", quality=85, method=6)


if __name__ == "__main__":
    main()
