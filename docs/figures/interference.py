"""Interference: false points of a lidar by another one, for three lags, and their number by lag: docs/images/."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREY, RED, finish, sheet

import parhelion as ph
from parhelion.core.clouds import ORIGINS

OTHER_M = (3.0, 4.0, 1.8)
LAGS_US = (0.05, 0.25, 0.6)


def street(lag_us: float) -> ph.Scan:
    """Scan of a street with another lidar in step but for a lag."""
    world = ph.World.load("city")
    others = [{"xyz": OTHER_M, "offset_s": 1e-6 * lag_us}]
    return ph.Lidar("velodyne/vlp-16", interferers=others).scan(world, pose=ph.Pose(xyz=(0, 0, 1.8)), seed=1)


def draw_street(axes: Any, lag_us: float) -> None:
    """Points from above; false ones are red."""
    scan = street(lag_us)
    false = scan.fields["origin"] == ORIGINS.index("interference")
    axes.plot(*scan.xyz[~false, :2].T, ".", color=GREY, ms=0.6, rasterized=True)
    axes.plot(*scan.xyz[false, :2].T, ".", color=RED, ms=2.0)
    axes.plot(*OTHER_M[:2], "x", color=BLUE)
    title = f"lag {lag_us:g} µs: {int(false.sum())} false points"
    axes.set(xlim=(-80, 80), ylim=(-60, 60), xlabel="x [m]", ylabel="y [m]", title=title)


def draw_number(axes: Any) -> None:
    """False points by the lag of the other clock."""
    lags = np.concatenate([np.linspace(-0.4, 1.2, 9)])
    count = [int((street(float(lag)).fields["origin"] == ORIGINS.index("interference")).sum()) for lag in lags]
    axes.plot(lags, count, ".-", color=BLUE)
    axes.set(xlabel="lag of the other lidar [µs]", ylabel="false points per revolution", title="Clocks in step")


def main() -> None:
    figure, panels = sheet(14.0, 3.4, 4)
    for axes, lag in zip(panels, LAGS_US, strict=False):
        draw_street(axes, lag)
    draw_number(panels[3])
    finish(figure, "interference")


if __name__ == "__main__":
    main()
