"""Received power over range and the longest range over reflectance: docs/images/lidar-link-budget.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREEN, GREY, ORANGE, PURPLE, changed, finish, raster, sheet, wall

import parhelion as ph
from parhelion.sensors.optics.lidar.link_budget import one_target, overlap_share, received_power, two_targets

OS1 = "ouster/os1-128"
RANGES_M = np.geomspace(1, 190, 400)
HUANG = [(0.8, 120.0), (0.1, 50.0)]
TARGETS = ((10, BLUE), (30, GREEN), (80, ORANGE))


def draw_power(axes: Any) -> None:
    """Closed form as lines, whole scans of a wall as dots: they end where the threshold is."""
    lidar = ph.Lidar(changed(OS1, pattern=raster()), noise=False)
    constant = lidar.system_constant
    share = overlap_share(lidar.config.range.overlap, RANGES_M)
    for percent, colour in TARGETS:
        power = received_power(
            weight=1.0, reflected=percent / 100 / np.pi, range_m=RANGES_M,
            optical_depth=constant.gamma_per_m * RANGES_M, threshold=constant.threshold,
        )  # fmt: skip
        axes.loglog(RANGES_M, share * power, color=colour, linewidth=1.2, label=f"{percent} % target")
        axes.loglog(RANGES_M, power, color=colour, linewidth=0.8, linestyle="--")
        scans = [
            lidar.scan(wall(r, f"lambert-{percent}"), pose=ph.Pose((0, 0, -0.03618)))
            for r in np.geomspace(1.2, 180, 22)
        ]
        seen = [(scan.range[0], scan.power[0]) for scan in scans if len(scan)]
        axes.plot(*zip(*seen, strict=True), "o", color=colour, markersize=4)
        axes.axvline(float(constant.max_range(percent / 100)), color=colour, linewidth=0.7, linestyle=":")
    axes.plot([], [], "--", color=GREY, linewidth=0.8, label="without overlap")
    axes.axhline(1.0, color=GREY, linewidth=1)
    axes.text(1.05, 0.75, "detection threshold", color=GREY, fontsize=8)
    axes.set(
        xlabel="range [m]", ylabel="received power [P_min]", title=f"{OS1}: walls of three greys", ylim=(0.08, 400)
    )
    axes.legend(fontsize=8)


def draw_longest_ranges(axes: Any) -> None:
    """Longest range over reflectance from one and from two rated targets."""
    reflectance = np.linspace(0.02, 1.0, 200)
    cases = (
        ("VLP-16: 100 m at 90 %", one_target(0.9, 100.0), [(0.9, 100.0)], BLUE),
        ("VLP-16 after Huang: γ = 0.0023 /m", two_targets((0.8, 0.1), (120.0, 50.0)), HUANG, ORANGE),
        ("OS1: 40 m at 10 %, nine of ten shots", one_target(0.1, 40.0), [(0.1, 40.0)], PURPLE),
    )  # fmt: skip
    for label, constant, rated, colour in cases:
        axes.plot(100 * reflectance, constant.max_range(reflectance), color=colour, label=label)
        rho, range_m = np.array(rated).T
        axes.plot(100 * rho, range_m, "o", color=colour, markersize=5)
    half = ph.Lidar(OS1).system_constant.max_range(reflectance)
    axes.plot(100 * reflectance, half, "--", color=PURPLE, linewidth=1, label="OS1: half of the shots")
    # Huang's second target happens to be the same pair, so this mark goes around its dot.
    axes.plot([80.0], [120.0], "s", color=PURPLE, markersize=11, fillstyle="none", label="OS1 sheet: 120 m at 80 %")
    axes.set(
        xlabel="reflectance [%]", ylabel="longest range [m]", title="Rated ranges (dots) fix the curve", ylim=(0, None)
    )
    axes.legend(fontsize=8, loc="lower right")


if __name__ == "__main__":
    figure, (left, right) = sheet(10.0, 3.9, 2)
    draw_power(left)
    draw_longest_ranges(right)
    finish(figure, "lidar-link-budget")
