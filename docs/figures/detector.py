"""The pictures of docs/detector.md: a street with the boxes of the detector, docs/images/detector.jpg."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import parhelion as ph
from parhelion.detect.scenes import street_scans
from parhelion.detect.study import FIRST_STREET

IMAGE = Path(__file__).resolve().parents[1] / "images" / "detector.jpg"
REACH_M = 50.0
COLOURS = {"Car": "#d1495b", "Pedestrian": "#e09f3e", "Cyclist": "#2a9d8f"}


def outline(axes: Axes, box: np.ndarray, colour: str, style: str, width: float) -> None:
    """Draw a box from above."""
    x, y, _, length, across, _, yaw = box
    corners = 0.5 * np.array([[1, 1], [1, -1], [-1, -1], [-1, 1], [1, 1]]) * [length, across]
    turn = np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])
    axes.plot(*(corners @ turn + [x, y]).T, style, color=colour, lw=width)


def main() -> None:
    """Draw the same place in clear air and in fog."""
    detector = ph.detect.Pillars(least_score=0.4)
    figure, row = plt.subplots(1, 2, figsize=(14, 7), layout="constrained")
    for axes, weather, title in zip(
        row, (None, {"visibility_m": 100}), ("clear", "fog, 100 m visibility"), strict=True
    ):
        data = street_scans(
            "velodyne/hdl-64e-s2", streets=[FIRST_STREET + 2], length=1, weathers=[weather], seed=4, visibility=True
        )
        item = data[0]
        xyz = np.array(item["xyz"])
        found = detector.detect(ph.PointCloud(xyz))
        near = (np.abs(xyz[:, :2]) < REACH_M).all(axis=1) & (xyz[:, 2] < 2.0)
        axes.scatter(*xyz[near, :2].T, s=0.15, c=xyz[near, 2], cmap="Greys_r", vmin=-3, vmax=4, linewidths=0)
        for box, points in zip(item["boxes"], item["box_points"], strict=True):
            if points >= 5:
                outline(axes, box, "black", "--", 0.8)
        for box, kind in zip(found.boxes, found.kind, strict=True):
            outline(axes, box, COLOURS[kind], "-", 1.8)
        axes.set(xlim=(-REACH_M, REACH_M), ylim=(-REACH_M, REACH_M), aspect="equal", xlabel="x [m]", title=title)
    row[0].set_ylabel("y [m]")
    for kind, colour in COLOURS.items():
        row[1].plot([], [], color=colour, label=kind)
    row[1].plot([], [], "--", color="black", lw=0.8, label="label, 5 points or more")
    row[1].legend(loc="upper right")
    figure.savefig(IMAGE, dpi=85, pil_kwargs={"quality": 85})


if __name__ == "__main__":
    main()
