"""A trail of dust from the side, its height, and the attenuation of a beam: docs/images/dust.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREEN, GREY, ORANGE, finish, sheet

import parhelion as ph
from parhelion.weather.plume import DustPlume

SEEDS = 20
NOW = 20.0


def drive(speed_m_s: float, seed: int = 0, parcels_per_s: float = 2000.0) -> DustPlume:
    """A car of 2000 kg along the x axis of a dry construction site; its centre passes x = 0 at `NOW`."""
    path = ph.ConstantTwist(ph.Pose(), velocity=(speed_m_s, 0.0, 0.0), start_time=NOW)
    return DustPlume(path, 0.0, 30.0, seed=seed, parcels_per_s=parcels_per_s)


def draw_side(figure: Any, axes: Any) -> None:
    """Share of light that crosses the trail."""
    grid = drive(10.0).grid(NOW)
    x, z = np.linspace(-24.0, 4.0, 281), np.linspace(0.0, 6.0, 61)
    rays = np.stack(np.meshgrid(x, [-20.0], z, indexing="ij"), axis=-1).reshape(-1, 3)
    passed = np.exp(-grid.optical_depth(rays, (0.0, 1.0, 0.0), np.inf)).reshape(len(x), len(z))
    picture = axes.pcolormesh(x, z, passed.T, cmap="YlOrBr_r", vmin=0.0, vmax=1.0, rasterized=True)
    axes.fill([-2.5, 2.5, 2.5, -2.5], [0.2, 0.2, 1.5, 1.5], color=BLUE, alpha=0.8)
    axes.set(xlabel="x [m]", ylabel="height [m]", title="Light that crosses the trail at 10 m/s")
    figure.colorbar(picture, ax=axes, label="one-way transmission", shrink=0.85)


def draw_heights(axes: Any) -> None:
    """Mean height of all parcels by age, and the highest twentieth."""
    for speed_m_s, colour in ((5.0, BLUE), (10.0, GREEN), (20.0, ORANGE)):
        dust = drive(speed_m_s, parcels_per_s=10_000.0).particles(NOW)
        age = np.arange(0.05, 4.0, 0.1)
        heights = [dust.xyz[np.abs(dust.age - middle) < 0.05, 2] for middle in age]
        axes.plot(age, [np.mean(height) for height in heights], color=colour, label=f"{speed_m_s:g} m/s")
        axes.plot(age, [np.percentile(height, 95) for height in heights], color=colour, linestyle=":")
    axes.plot([], [], color=GREY, linestyle=":", label="95th percentile")
    axes.set(xlabel="age of the dust [s]", ylabel="height [m]", title="Mean height, landed dust at 0")
    axes.legend(fontsize=8)


def draw_depth(axes: Any) -> None:
    """Optical depth across the trail at three heights."""
    x = np.linspace(-24.0, -2.0, 89)
    grids = [drive(10.0, seed).grid(NOW) for seed in range(SEEDS)]
    for height_m, colour in ((0.5, BLUE), (1.5, GREEN), (3.0, ORANGE)):
        rays = np.column_stack([x, np.full_like(x, -20.0), np.full_like(x, height_m)])
        depth = np.mean([grid.optical_depth(rays, (0.0, 1.0, 0.0), np.inf) for grid in grids], axis=0)
        axes.plot(-x, depth, color=colour, label=f"{height_m:g} m high")
    axes.axhspan(0.1, 0.3, color=GREY, alpha=0.25, linewidth=0, label="thresholds of lidars")
    axes.set_yscale("log")
    axes.set_ylim(0.02, 10.0)
    axes.set(xlabel="behind the car's middle [m]", ylabel="optical depth μ", title=f"Across the trail, {SEEDS} seeds")
    axes.legend(fontsize=8)


if __name__ == "__main__":
    figure, (left, middle, right) = sheet(13.0, 3.8, 3, width_ratios=(1.35, 1.0, 1.0))
    draw_side(figure, left)
    draw_heights(middle)
    draw_depth(right)
    finish(figure, "dust")
