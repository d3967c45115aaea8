"""Extinction of snow, and frequency and ranges of flake points: docs/images/snow.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from page import BLUE, GREEN, GREY, PURPLE, RED, changed, finish, raster, sheet

import parhelion as ph
from parhelion.weather.media.rain import rain_extinction
from parhelion.weather.media.snow import snow_extinction

VLP16 = "velodyne/vlp-16"
SHOTS, FRAMES = 30_000, 4


def draw_extinction(axes: Any) -> None:
    """Extinction over rate for both diameters, against relations that others measured."""
    rates = np.geomspace(0.1, 10.0, 60)
    for diameter, colour in (("flake", RED), ("melted", BLUE)):
        axes.loglog(rates, [1e3 * snow_extinction(r, diameter=diameter) for r in rates], color=colour, label=diameter)
    flakes_1958 = [1e3 * snow_extinction(r, diameter="flake", drop_sizes="gunn-marshall-1958") for r in rates]
    axes.loglog(rates, flakes_1958, "--", color=RED, label="flake, N_0 of 1958")
    axes.loglog(rates, 0.89 * rates**0.72, ":", color=GREEN, label="ITU-R P.1814, wet")
    axes.loglog(rates, 1.28 * rates**1.38, ":", color=PURPLE, label="ITU-R P.1814, dry")
    axes.loglog(rates, [1e3 * rain_extinction(r) for r in rates], color=GREY, linewidth=0.8, label="rain, mie")
    axes.set(xlabel="rate of melted water [mm/h]", ylabel="one-way extinction [1/km]", title="Extinction, 905 nm")
    axes.legend(fontsize=8)


def seen_ranges(weather: ph.Weather) -> NDArray[np.float64]:
    """Ranges of the points that a VLP-16 reports in empty air, of `FRAMES` times `SHOTS` shots."""
    fan = changed(VLP16, pattern=raster(azimuth_deg=(-180.0, 180.0), columns=SHOTS), range={"resolution_m": 0.0})
    world = ph.World()
    world.add(ph.shapes.box(1, 1, 1), material="concrete", label="box", pose=ph.Pose((0, 0, 100)))
    world.weather = weather
    scans = ph.Lidar(fan, noise=False).scan_many(world, [ph.Pose()] * FRAMES, frames=range(FRAMES))
    return np.concatenate([scan.range for scan in scans]).astype(np.float64)


def draw_false_points(axes: Any) -> None:
    """Share of shots that return a flake or a drop."""
    rates = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
    for name, colour in (("snow", BLUE), ("rain", GREY)):
        share = [100.0 * len(seen_ranges(_falling(name, rate))) / (FRAMES * SHOTS) for rate in rates]
        axes.loglog(rates, np.maximum(share, 1e-9), "o-", color=colour, markersize=4, label=name)
        print(name, ", ".join(f"{rate:g} mm/h: {value:.2f} %" for rate, value in zip(rates, share, strict=True)))
    axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="rate of water [mm/h]", ylabel="share of shots [%]", title="Points in empty air, VLP-16")
    axes.set_ylim(1e-3, 100.0)
    axes.set_yticks([0.001, 0.01, 0.1, 1, 10, 100], ["0.001", "0.01", "0.1", "1", "10", "100"])
    axes.legend(fontsize=8)


def draw_ranges(axes: Any) -> None:
    """Ranges of these points."""
    edges = np.linspace(1.0, 14.0, 53)
    for rate, colour in ((0.5, GREEN), (1.0, BLUE), (2.5, PURPLE), (5.0, RED)):
        found, _ = np.histogram(seen_ranges(_falling("snow", rate)), edges)
        per_m = 100.0 * found / (FRAMES * SHOTS * np.diff(edges))
        axes.stairs(per_m, edges, color=colour, label=f"{rate:g} mm/h")
    axes.set(xlabel="range [m]", ylabel="shots with a point there [%/m]", title="Where the flakes are")
    axes.legend(fontsize=8)


def _falling(name: str, rate_mm_h: float) -> ph.Weather:
    return ph.Weather(snow_rate_mm_h=rate_mm_h) if name == "snow" else ph.Weather(rain_rate_mm_h=rate_mm_h)


if __name__ == "__main__":
    figure, (left, middle, right) = sheet(13.0, 3.8, 3)
    draw_extinction(left)
    draw_false_points(middle)
    draw_ranges(right)
    for rate in (0.5, 1.0, 2.5, 5.0):
        melted, flake = (1e3 * snow_extinction(rate, diameter=d) for d in ("melted", "flake"))
        print(f"{rate:g} mm/h: {melted:.2f} /km melted, {flake:.2f} /km flake")
    finish(figure, "snow")
