"""Range scatter over signal, and detection near the threshold: docs/images/lidar-noise.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREEN, GREY, ORANGE, RED, changed, finish, raster, sheet, wall

import parhelion as ph
from parhelion.sensors.lidar.noise import detection_probability, range_sigma

OS1 = "ouster/os1-128"
SHOTS = 20_000
# Many times the same beam, without what would widen the scatter of a flat wall by other means.
PATTERN = raster(azimuth_deg=(0.0, 1e-9), columns=SHOTS)
STEADY = {"azimuth_jitter_deg": 0.0, "elevation_jitter_deg": 0.0}
RIG = changed(OS1, pattern=PATTERN, noise=STEADY, range={"resolution_m": 0.0}, beam={"sub_rays": 1})


def draw_scatter(axes: Any) -> None:
    """Standard deviation of 20 000 simulated ranges against the formula and the data sheet."""
    config = RIG.noise
    snr = np.geomspace(5.5, 3000, 200)
    sigma = range_sigma(snr, sigma_0=config.range_sigma_m, sigma_1=config.range_sigma_snr_m)
    axes.loglog(snr, 100 * sigma, color=BLUE, label="√(σ₀² + (σ₁/SNR)²)")
    lidar = ph.Lidar(RIG)
    for range_m in (5.0, 9.0, 14.0, 20.0, 28.0, 35.0):
        scan = lidar.scan(wall(range_m, "lambert-10"), pose=ph.Pose(), seed=1)
        signal = (40.0 / range_m) ** 2 * RIG.receiver.threshold_to_noise
        axes.plot([signal], [100 * np.std(scan.range - range_m)], "o", color=ORANGE, markersize=5)
    axes.plot([], [], "o", color=ORANGE, markersize=5, label=f"{SHOTS} simulated shots each")
    axes.plot([250, 100, 12], [1.5, 3.0, 10.0], "s", color=RED, fillstyle="none", label="OS1 data sheet (2019)")
    axes.set(xlabel="signal-to-noise ratio", ylabel="scatter of range [cm]", title=f"{OS1}: a flat wall")
    ticks = [1, 2, 3, 5, 10, 20]
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.set_yticks([], minor=True)
    axes.set_ylim(1.0, 30.0)
    axes.legend(fontsize=8)


def draw_detection(axes: Any) -> None:
    """Share of shots that return, around the threshold, under three suns."""
    power = np.linspace(0.4, 1.8, 200)
    for sun_klx, colour in ((0.0, BLUE), (100.0, GREEN), (400.0, ORANGE)):
        lidar = ph.Lidar(RIG, sun_klx=sun_klx)
        noise = np.sqrt(0.5 * (1.0 + sun_klx / RIG.noise.background_klx))
        ratio = RIG.receiver.threshold_to_noise / noise
        axes.plot(power, detection_probability(power, threshold_to_noise=ratio), color=colour, label=f"{sun_klx:g} klx")
        for level in (0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.5):
            scan = lidar.scan(wall(40.0 / np.sqrt(level), "lambert-10"), pose=ph.Pose(), seed=2)
            axes.plot([level], [len(scan) / SHOTS], "o", color=colour, markersize=4)
    axes.axvline(1.0, color=GREY, linewidth=0.8, linestyle=":")
    axes.set(
        xlabel="received power [P_min]", ylabel="share of shots with a return", title="Detection near the threshold"
    )
    axes.legend(fontsize=8, title="sunlight", title_fontsize=8)


if __name__ == "__main__":
    figure, (left, right) = sheet(10.0, 3.9, 2)
    draw_scatter(left)
    draw_detection(right)
    finish(figure, "lidar-noise")
