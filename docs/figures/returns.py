"""Mixed points at an edge, and the waveform behind several returns: docs/images/lidar-returns.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREEN, GREY, ORANGE, RED, add_wall, changed, finish, raster, sheet, wall

import parhelion as ph
from parhelion.sensors.optics.lidar.config import ReturnMode

SENSOR = "velodyne/vlp-16"
NEAR_M, STEP_M = 10.0, 0.6
NO_STEPS = {"encoder_step_deg": 0.0}


def edge() -> ph.World:
    """A wall, and a nearer half wall that covers everything left of the x axis."""
    world = wall(NEAR_M + STEP_M, "lambert-50")
    add_wall(world, NEAR_M, "lambert-50", y_m=30.0)
    return world


def draw_edge(axes: Any) -> None:
    """A fine fan of beams across the edge, with and without width."""
    fan = raster(azimuth_deg=(-1.0, 1.0), columns=161)
    for sub_rays, colour, size, label in (
        (100, ORANGE, 12, "beam of 3.0 x 1.2 mrad"),
        (1, BLUE, 5, "ray without width"),
    ):
        lidar = ph.Lidar(
            changed(SENSOR, pattern=fan, range={"resolution_m": 0.0}, noise=NO_STEPS), sub_rays=sub_rays, noise=False
        )
        scan = lidar.scan(edge(), pose=ph.Pose())
        axes.scatter(100 * scan.xyz[:, 1], scan.xyz[:, 0], s=size, color=colour, label=label, linewidths=0)
    axes.axvline(0.0, color=GREY, linewidth=0.8, linestyle=":")
    axes.set(
        xlabel="across the edge [cm]", ylabel="measured distance [m]", xlim=(6, -6),
        title=f"A step of {STEP_M} m within the merge distance of 1 m",
    )  # fmt: skip
    axes.legend(fontsize=8, loc="center left")


def draw_waveform(axes: Any) -> None:
    """Three walls that share one beam: digitised signal, and what each return mode reports."""
    world = wall(18.0, "lambert-60")
    add_wall(world, 14.0, "lambert-60", y_m=30.0 - 0.012)
    add_wall(world, 10.0, "lambert-10", y_m=30.0 + 0.006)
    beam = {"divergence_mrad": (5.0, 5.0), "exit_diameter_mm": 0.0, "sub_rays": 400}
    receiver = {"pulse_length_ns": 5.0, "threshold_to_noise": 6.0}
    rated = {"rated": [{"reflectance": 0.9, "range_m": 60.0}], "resolution_m": 0.0}
    config = changed(SENSOR, pattern=raster(), beam=beam, receiver=receiver, range=rated)
    signal = ph.Lidar(config).waveform(world, [0], pose=ph.Pose(), bin_size_m=0.05, range_m=(6.0, 22.0), seed=4)
    axes.plot(signal.ranges, signal.samples[0], color=GREY, linewidth=1.0, label="digitised signal")
    axes.axhline(1.0, color=GREY, linewidth=0.8, linestyle="--")
    axes.text(6.2, 1.05, "threshold", color=GREY, fontsize=8)
    height = float(signal.samples.max())
    modes: tuple[tuple[ReturnMode, str], ...] = (("first", BLUE), ("strongest", RED), ("last", GREEN), ("all", ORANGE))
    for row, (mode, colour) in enumerate(modes):
        scan = ph.Lidar(config, returns=mode, max_returns=4, noise=False).scan(world, pose=ph.Pose())
        level = height * (1.12 + 0.11 * row)
        axes.plot(scan.range, np.full(len(scan), level), "v", color=colour, markersize=7)
        axes.text(6.2, level, mode, color=colour, fontsize=8, va="center")
    axes.set(
        xlabel="range [m]",
        ylabel="signal [P_min]",
        title="One beam on three surfaces",
        xlim=(6, 22),
        ylim=(-0.4, 1.6 * height),
    )


if __name__ == "__main__":
    figure, (left, right) = sheet(10.0, 3.9, 2)
    draw_edge(left)
    draw_waveform(right)
    finish(figure, "lidar-returns")
