"""Picture of a lidar's data sheet: pattern, link budget and noise, as they follow from its numbers."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from parhelion.pictures import panels
from parhelion.pictures.style import ACCENT, INK, MUTED, check_picture, quiet, save, sheet
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.lidar import Lidar
from parhelion.sensors.optics.lidar.link_budget import detection_probability, overlap_share, range_sigma, received_power

_WIDTH_IN, _HEIGHT_IN = 13.0, 9.4
_REFLECTANCES = ((0.1, "#4aa3ff"), (0.3, "#54c98a"), (0.8, "#ffb454"))
_MOST_SHOTS = 60_000


def draw_sheet(lidar: Lidar, path: str | PathLike[str]) -> None:
    """Draw directions of all shots, received power and detection over range, and scatter of ranges.

    Power is that of a Lambertian target that faces the sensor, fills the beam, and stands in clear air.
    """
    check_picture(path)
    figure = sheet(_WIDTH_IN, _HEIGHT_IN)
    config = lidar.config
    panels.heading(figure, config.name, _facts(lidar))
    grid = figure.add_gridspec(2, 2, left=0.065, right=0.975, top=0.885, bottom=0.07, hspace=0.3, wspace=0.18)
    axes = [figure.add_subplot(grid[row, column]) for row in range(2) for column in range(2)]
    _pattern(axes[0], lidar)
    ranges = np.geomspace(max(config.range.min_m, 0.1), config.range.max_m, 400)
    power = {reflectance: _power(lidar, reflectance, ranges) for reflectance, _ in _REFLECTANCES}
    _budget(axes[1], config, ranges, power)
    _detection(axes[2], config, ranges, power)
    _noise(axes[3], config, ranges, power)
    save(figure, path)


def _facts(lidar: Lidar) -> str:
    shots, config = lidar.shots(), lidar.config
    parts = [
        f"{len(shots):,} shots per scan".replace(",", " "),
        f"{len(np.unique(shots.ring))} channels",
        f"{lidar.rate_hz:g} Hz",
        f"{config.wavelength_nm:g} nm",
        f"{config.range.min_m:g} to {config.range.max_m:g} m",
    ]
    return "   |   ".join(parts)


def _pattern(axes: Any, lidar: Lidar) -> None:
    shots = lidar.shots()
    rows = np.arange(len(shots))
    if len(rows) > _MOST_SHOTS:
        # Multiples of the golden ratio do not align with the order of rings and columns.
        rows = (np.arange(_MOST_SHOTS) * 0.6180339887498949 % 1.0 * len(shots)).astype(np.intp)
    size = float(np.clip(20_000 / max(len(rows), 1), 0.3, 6.0))
    axes.scatter(
        np.degrees(shots.azimuth[rows]),
        np.degrees(shots.elevation[rows]),
        s=size,
        c=1e3 * shots.time[rows],
        cmap="viridis",
        linewidths=0,
    )
    quiet(axes, "Directions of the shots; colour: time in the scan")
    axes.invert_xaxis()
    axes.set(xlabel="azimuth [°], left to right", ylabel="elevation [°]")


def _power(lidar: Lidar, reflectance: float, ranges: Any) -> Any:
    """Received power in units of the detection threshold, over ranges [m]."""
    constant = lidar.system_constant
    power = received_power(
        weight=1.0,
        reflected=reflectance / np.pi,
        range_m=ranges,
        optical_depth=constant.gamma_per_m * ranges,
        threshold=constant.threshold,
    )
    return overlap_share(lidar.config.range.overlap, ranges) * power


def _budget(axes: Any, config: LidarConfig, ranges: Any, power: Any) -> None:
    for reflectance, colour in _REFLECTANCES:
        axes.loglog(ranges, power[reflectance], color=colour, linewidth=1.6, label=f"{100 * reflectance:.0f} % target")
    axes.axhline(1.0, color=ACCENT, linewidth=1.0, linestyle="--")
    axes.text(ranges[0], 1.12, " detection threshold", color=ACCENT, fontsize=8)
    for entry in config.range.rated:
        axes.plot([entry.range_m], [1.0], "o", color=INK, markersize=4)
    quiet(axes, "Link budget; dots: rated ranges")
    _finish(axes, "received power [thresholds]")


def _detection(axes: Any, config: LidarConfig, ranges: Any, power: Any) -> None:
    ratio = config.receiver.threshold_to_noise
    for reflectance, colour in _REFLECTANCES:
        share = detection_probability(power[reflectance], threshold_to_noise=ratio) * (1.0 - config.receiver.dropout)
        axes.semilogx(ranges, 100.0 * share, color=colour, linewidth=1.6, label=f"{100 * reflectance:.0f} % target")
    quiet(axes, "Detection without sunlight")
    axes.set_ylim(-3.0, 103.0)
    _finish(axes, "shots with a return [%]")


def _noise(axes: Any, config: LidarConfig, ranges: Any, power: Any) -> None:
    noise = config.noise
    if noise.range_sigma_table:
        distance, sigma = np.array(noise.range_sigma_table, np.float64).T
        axes.plot(distance, 100.0 * sigma, color=ACCENT, linewidth=1.6, marker="o", label="of any target")
        axes.set_xscale("log")
    elif noise.range_sigma_m or noise.range_sigma_snr_m:
        for reflectance, colour in _REFLECTANCES:
            seen = power[reflectance] >= 1.0
            snr = power[reflectance][seen] * config.receiver.threshold_to_noise
            sigma = range_sigma(snr, sigma_0=noise.range_sigma_m, sigma_1=noise.range_sigma_snr_m)
            words = f"{100 * reflectance:.0f} % target"
            axes.semilogx(
                ranges[seen], 100.0 * np.broadcast_to(sigma, snr.shape), color=colour, linewidth=1.6, label=words
            )
    else:
        axes.text(
            0.5, 0.5, "the sheet gives no range noise: it is 0", color=MUTED, ha="center", transform=axes.transAxes
        )
    quiet(axes, "Scatter of the range")
    _finish(axes, "standard deviation [cm]")
    axes.set_ylim(bottom=0.0)


def _finish(axes: Any, label: str) -> None:
    axes.set(xlabel="range [m]", ylabel=label)
    axes.grid(color="#2b323c", linewidth=0.6)
    if axes.get_legend_handles_labels()[0]:
        box = axes.legend(fontsize=8, labelcolor=INK)
        box.get_frame().set(facecolor="#0e1116", edgecolor="#2b323c", alpha=0.85)
