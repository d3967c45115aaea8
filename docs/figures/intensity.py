"""Vendor scales, and what they make of grey boards at many ranges: docs/images/lidar-intensity.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREEN, GREY, ORANGE, PURPLE, finish, sheet

import parhelion as ph
from parhelion.makers.scales import scale_called
from parhelion.world import label_id


def draw_scales(axes: Any) -> None:
    """The scales that are functions of reflectivity alone."""
    reflectivity = np.geomspace(0.01, 3000, 400)
    strong = np.full_like(reflectivity, 10.0)  # far above the threshold, near which makers' scales fall to 0
    scales = (
        ("velodyne", BLUE, "velodyne, robosense"), ("velodyne-vls", PURPLE, "velodyne-vls"),
        ("livox", ORANGE, "livox"), ("hesai", GREEN, "hesai"),
    )  # fmt: skip
    for name, colour, label in scales:
        axes.semilogx(reflectivity, scale_called(name).encode(strong, reflectivity, None), color=colour, label=label)
    axes.axvline(1.0, color=GREY, linewidth=0.8, linestyle=":")
    axes.text(1.15, 4, "retro-reflectors →", color=GREY, fontsize=8)
    axes.set(
        xlabel="reflectivity (1: white matt board)", ylabel="intensity", title="Scales by reflectivity", ylim=(0, 265)
    )
    axes.legend(fontsize=8)


def draw_boards(axes: Any) -> None:
    """Median reported intensity of the boards of the test range, sensor by sensor."""
    world = ph.World.load("test-range")
    boards = {
        item.instance: item.name for item in world.objects if item.name.startswith("board-") and "/" not in item.name
    }
    sensors = (("velodyne/vlp-16", BLUE, "o"), ("ouster/os1-128", PURPLE, "s"))
    for sensor, colour, mark in sensors:
        scan = ph.Lidar(sensor).scan(world, seed=1)
        on_board = scan.label == label_id("board")  # a board's posts share its instance
        for percent, style in ((10, "none"), (90, "full")):
            found = []
            for instance, name in boards.items():
                _, grey, distance = name.split("-")
                values = scan.intensity[on_board & (scan.instance == instance)]
                if int(grey) == percent and len(values) >= 5:
                    found.append((float(distance.removesuffix("m")), float(np.median(values))))
            label = f"{sensor}, {percent} %"
            axes.semilogx(
                *np.array(sorted(found)).T,
                mark + "-",
                color=colour,
                fillstyle=style,
                markersize=5,
                linewidth=0.8,
                label=label,
            )
    axes.set_yscale("symlog", linthresh=1.0)
    axes.set_yticks([0, 1, 10, 100, 1000], ["0", "1", "10", "100", "1000"])
    axes.set_ylim(-0.1, 1500.0)
    axes.set_xticks([5, 10, 20, 50, 100, 150], ["5", "10", "20", "50", "100", "150"])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="range [m]", ylabel="intensity as reported", title="Boards of the world test-range")
    axes.legend(fontsize=8)


if __name__ == "__main__":
    figure, (left, right) = sheet(10.0, 3.9, 2)
    draw_scales(left)
    draw_boards(right)
    finish(figure, "lidar-intensity")
