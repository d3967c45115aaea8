"""Interference of radars: a street alone, with a ghost, with a raised floor: docs/images/radar-interference.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import GREY, RED, finish, sheet

import parhelion as ph
from parhelion.core.clouds import ORIGINS

MODEL = "continental/ars408-21-far"
CASES = {
    "alone": [],
    "ramps in step": [{"xyz": [60.0, -3.0, 0.8], "yaw_deg": 180.0, "offset_us": 0.2}],
    "ramps of 1.1 times the slope": [{"xyz": [60.0, -3.0, 0.8], "yaw_deg": 180.0, "slope": 1.1}],
}


def draw(axes: Any, title: str, others: list[dict[str, Any]]) -> None:
    """Map of power over range and azimuth, with the detections; ghosts are red."""
    radar = ph.Radar(MODEL, interferers=others, cube=True)
    scan = radar.scan(ph.World.load("city"), pose=ph.Pose(xyz=(0, 0, 0.8)), seed=1)
    assert scan.cube is not None
    power = 10 * np.log10(scan.cube.power.max(axis=(1, 2)))
    angle = np.degrees(np.arcsin(np.clip(radar.axes.azimuth, -1, 1)))
    axes.pcolormesh(angle, scan.cube.range, power, cmap="viridis", vmin=5, vmax=60, rasterized=True)
    ghost = scan.fields["origin"] == ORIGINS.index("interference")
    for rows, colour in ((~ghost, GREY), (ghost, RED)):
        axes.plot(
            np.degrees(scan.azimuth[rows]),
            scan.range[rows],
            "o",
            mfc="none",
            color="white" if colour == GREY else RED,
            ms=4,
        )
    axes.set(xlabel="azimuth [°]", ylabel="range [m]", ylim=(0, 120), title=f"{title}: {len(scan)} detections")


def main() -> None:
    figure, panels = sheet(12.0, 3.6, 3)
    for axes, (title, others) in zip(panels, CASES.items(), strict=True):
        draw(axes, title, others)
    finish(figure, "radar-interference")


if __name__ == "__main__":
    main()
