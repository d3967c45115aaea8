"""Airborne and bathymetric lidar: swaths, a lake, a waveform, errors below waves: docs/images/bathymetry.png."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from page import BLUE, GREEN, GREY, ORANGE, RED, finish, sheet

import parhelion as ph
from parhelion.motion.water import OceanWater
from parhelion.sensors.optics.lidar.bathymetry import corrected
from parhelion.surfaces.library import material

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "lake.tif"
GREEN_LIDAR = "riegl/vq-840-gl"
LEVEL_M, HEIGHT_M = 400.0, 75.0


def draw_swaths(axes: Any) -> None:
    """Shots of three mirrors on level ground 100 m below, every tenth one."""
    for name, colour, label, start in (
        ("leica/als50-ii", BLUE, "oscillating", -70.0),
        ("riegl/lms-q680i", GREY, "polygon", -50.0),
        (GREEN_LIDAR, GREEN, "Palmer", 0.0),
    ):
        table = ph.Lidar(name).shots()
        rows = slice(0, len(table), max(1, len(table) // 2000))
        down = -table.direction[rows, 2].astype(float)
        x = start + 100.0 * table.direction[rows, 0] / down + 40.0 * table.time[rows]
        axes.plot(x, 100.0 * table.direction[rows, 1] / down, ".", color=colour, ms=1.2, label=label)
    axes.set(xlabel="along the flight [m]", ylabel="across [m]", title="0.1 s at 40 m/s, from 100 m", aspect="equal")
    axes.legend(fontsize=7, markerscale=6, loc="lower right")
    axes.set_ylim(-85, 65)


def draw_section(axes: Any) -> None:
    """Section of a lake: raw and corrected points, and the ground."""
    world = ph.World.load(EXAMPLE, material="sand", water_level_m=LEVEL_M, water="clear-water")
    flight = ph.ConstantTwist(ph.Pose(xyz=(-110, 0, LEVEL_M + HEIGHT_M)), velocity=(40.0, 0.0, 0.0))
    scans = [ph.Lidar(GREEN_LIDAR).scan(world, trajectory=flight, time=0.1 * k, seed=1) for k in range(55)]
    for cloud_of, colour, label in ((lambda one: one.in_world(), GREY, "raw"), (corrected, BLUE, "corrected")):
        xyz = np.concatenate([cloud_of(scan).xyz for scan in scans])
        near = np.abs(xyz[:, 1] - 2.0) < 0.5
        axes.plot(xyz[near, 0], xyz[near, 2] - LEVEL_M, ".", color=colour, ms=1.5, label=label, rasterized=True)
    x = np.linspace(-110, 110, 300)
    axes.plot(x, world.height(x, np.full(len(x), 2.0)) - LEVEL_M, color=RED, lw=0.8, label="ground")
    axes.set(xlabel="x [m]", ylabel="height over the water [m]", title="section of examples/lake.tif")
    axes.legend(fontsize=7, markerscale=4)


def pool(depth_m: float, wind_m_s: float | None = None) -> ph.World:
    """Level bottom below water, calm or with the waves of a wind."""
    world = ph.World()
    world.add(ph.shapes.plane(300, 300), material="sand", label="terrain", pose=ph.Pose(xyz=(0, 0, -depth_m)))
    world.add(ph.shapes.plane(300, 300), material=material("clear-water"), label="water")
    if wind_m_s is not None:
        world.set_water(OceanWater(wind_m_s, fetch_m=2000.0, seed=3))
    return world


def draw_waveform(axes: Any) -> None:
    """Signals of one shot over bottoms at 3 and 8 m."""
    lidar = ph.Lidar(GREEN_LIDAR, noise=False)
    for depth, colour in ((3.0, ORANGE), (8.0, BLUE)):
        wave = lidar.waveform(pool(depth), [500], pose=ph.Pose(xyz=(0, 0, HEIGHT_M)), bin_size_m=0.05, range_m=(76, 91))
        axes.semilogy(wave.ranges, np.maximum(wave.samples[0], 1e-2), color=colour, lw=1.0, label=f"{depth:g} m deep")
    axes.axhline(1.0, color=GREY, lw=0.7, ls="--", label="threshold")
    axes.set(xlabel="range [m]", ylabel="signal [thresholds]", ylim=(0.05, 2e3), title="surface, column and bottom")
    axes.legend(fontsize=7)


def draw_errors(axes: Any) -> None:
    """Errors of corrected bottoms below waves, by depth."""
    depths = (2.0, 5.0, 10.0)
    lidar = ph.Lidar(GREEN_LIDAR, noise=False)
    for wind, colour in ((2.0, GREEN), (4.0, ORANGE), (7.0, RED)):
        sigma = []
        for depth in depths:
            scan = lidar.scan(pool(depth, wind), pose=ph.Pose(xyz=(0, 0, HEIGHT_M)), seed=1)
            bottom = (scan.fields["label"] == 72) & (scan.fields["return_index"] > 0)
            sigma.append(100.0 * (corrected(scan).xyz[bottom, 2] + depth).std())
        axes.plot(depths, sigma, "o-", color=colour, ms=4, label=f"wind {wind:g} m/s")
    axes.set(xlabel="depth [m]", ylabel="scatter of depth [cm]", title="waves on 2 km of fetch", ylim=(0, None))
    axes.legend(fontsize=7)


def main() -> None:
    figure, panels = sheet(15.0, 3.6, 4)
    for axes, draw in zip(panels, (draw_swaths, draw_section, draw_waveform, draw_errors), strict=True):
        draw(axes)
    finish(figure, "bathymetry")


if __name__ == "__main__":
    main()
