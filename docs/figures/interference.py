"""Interference: false points of a lidar by another one next to it, for three lags: docs/images/interference.png."""

from __future__ import annotations

from typing import Any

from page import GREY, RED, finish, sheet

import parhelion as ph
from parhelion.core.clouds import ORIGINS

OTHER_M = (0.0, 0.08, 1.8)
LAGS_US = (0.05, 0.2, 0.5)


def street(lag_us: float) -> ph.Scan:
    """Scan of a street with another lidar in step but for a lag."""
    world = ph.World.load("city")
    others = [{"xyz": OTHER_M, "offset_s": 1e-6 * lag_us}]
    return ph.Lidar("ouster/os1-64", interferers=others).scan(world, pose=ph.Pose(xyz=(0, 0, 1.8)), seed=1)


def draw_street(axes: Any, lag_us: float) -> None:
    """Points from above; false ones are red."""
    scan = street(lag_us)
    false = scan.fields["origin"] == ORIGINS.index("interference")
    axes.plot(*scan.xyz[~false, :2].T, ".", color=GREY, ms=0.6, rasterized=True)
    axes.plot(*scan.xyz[false, :2].T, ".", color=RED, ms=2.0)
    title = f"lag {lag_us:g} µs: {int(false.sum())} false points"
    axes.set(xlim=(-80, 80), ylim=(-60, 60), xlabel="x [m]", ylabel="y [m]", title=title)


def main() -> None:
    figure, panels = sheet(12.0, 3.4, 3)
    for axes, lag in zip(panels, LAGS_US, strict=True):
        draw_street(axes, lag)
    finish(figure, "interference")


if __name__ == "__main__":
    main()
