"""Draws where five lidars shoot in one frame, and two of them within a second: docs/images/patterns.png."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.patterns import shot_table
from parhelion.sensors.sheets import open_sheet

IMAGE = Path(__file__).resolve().parents[1] / "images" / "patterns.png"
DOT = 0.6


def draw(axes: Axes, name: str, seconds: float, azimuth_deg: float, elevation_deg: tuple[float, float]) -> None:
    """All shots of `seconds` in azimuth and elevation, coloured by time."""
    sheet = open_sheet("lidar", LidarConfig, name)
    config = sheet.config
    rate = config.pattern.rate_hz
    for frame in range(max(1, round(seconds * rate))):
        start = frame / rate
        table = shot_table(config.pattern, frame_start_s=start, folder=sheet.folder)
        axes.scatter(
            np.degrees(table.azimuth),
            np.degrees(table.elevation),
            c=start + table.time,
            s=DOT,
            cmap="viridis",
            vmin=0.0,
            vmax=seconds,
            linewidths=0,
            rasterized=True,
        )
    axes.set_xlim(azimuth_deg, -azimuth_deg)  # left is left
    axes.set_ylim(*elevation_deg)
    axes.set_title(f"{config.name}, {seconds:g} s", fontsize=9)
    axes.tick_params(labelsize=7)


def main() -> None:
    figure, grid = plt.subplots(2, 4, figsize=(14, 6.4), layout="constrained")
    (vlp, os1, hap, at128), (mid40, mid40_long, avia, mid360) = grid
    draw(vlp, "velodyne/vlp-16", 0.1, 6.0, (-17.0, 17.0))
    draw(os1, "ouster/os1-128", 0.1, 6.0, (-23.0, 23.0))
    draw(hap, "livox/hap", 0.1, 62.0, (-14.0, 14.0))
    draw(at128, "hesai/at128", 0.1, 6.0, (-14.0, 14.0))
    draw(mid40, "livox/mid-40", 0.1, 21.0, (-21.0, 21.0))
    draw(mid40_long, "livox/mid-40", 1.0, 21.0, (-21.0, 21.0))
    draw(avia, "livox/avia", 0.1, 41.0, (-41.0, 41.0))
    draw(mid360, "livox/mid-360", 0.1, 180.0, (-10.0, 55.0))
    figure.supxlabel("azimuth [deg], left positive", fontsize=9)
    figure.supylabel("elevation [deg]", fontsize=9)
    IMAGE.parent.mkdir(exist_ok=True)
    figure.savefig(IMAGE, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
