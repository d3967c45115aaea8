"""Range scatter over signal, and detection near the threshold: docs/images/lidar-noise.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from page import BLUE, GREEN, GREY, ORANGE, RED, changed, finish, raster, sheet, wall

import parhelion as ph
from parhelion.sensors.optics.lidar.link_budget import detection_probability, range_sigma, threshold_photons

OS1 = "ouster/os1-128"
SHOTS = 20_000
# Many times the same beam, without what would widen the scatter of a flat wall by other means.
PATTERN = raster(azimuth_deg=(0.0, 1e-9), columns=SHOTS)
STEADY = {"azimuth_jitter_deg": 0.0, "elevation_jitter_deg": 0.0}
RECORDED_CM = {6.0: 1.15, 10.0: 0.60, 14.5: 0.59, 21.0: 0.51, 35.0: 0.40, 71.0: 0.33}
"""Scatter of ranges [cm] by photons, of a recorded OS1-32 on flat surfaces (docs/models/lidar-near-field.md)."""
RIG = changed(OS1, pattern=PATTERN, noise=STEADY, range={"resolution_m": 0.0}, beam={"sub_rays": 1})


def draw_scatter(axes: Any) -> None:
    """Standard deviation of 20 000 simulated ranges against the formula and the data sheet."""
    config = RIG.noise
    snr = np.geomspace(5.5, 3000, 200)
    sigma = range_sigma(snr, sigma_0=config.range_sigma_m, sigma_1=config.range_sigma_snr_m)
    axes.loglog(snr, 100 * sigma, color=BLUE, label="√(σ₀² + (σ₁/SNR)²)")
    lidar = ph.Lidar(RIG)
    for range_m, percent in ((9.0, 90), (9.0, 30), (9.0, 10), (20.0, 10), (28.0, 10), (35.0, 10)):
        scan = lidar.scan(wall(range_m, f"lambert-{percent}"), pose=ph.Pose(), seed=1)
        signal = float(np.mean(scan.power)) * RIG.receiver.threshold_to_noise
        axes.plot([signal], [100 * np.std(scan.range - range_m)], "o", color=ORANGE, markersize=5)
    axes.plot([], [], "o", color=ORANGE, markersize=5, label=f"{SHOTS} simulated shots each")
    per_photon = RIG.receiver.threshold_to_noise / threshold_photons(RIG)
    recorded = np.array(list(RECORDED_CM.items())).T
    axes.plot(
        per_photon * recorded[0], recorded[1], "D", color=GREEN, markersize=4, label="recorded OS1-32, flat surfaces"
    )
    axes.plot(
        [250, 100, 12], [1.5, 3.0, 10.0], "s", color=RED, fillstyle="none", label="OS1 data sheet (2019), upper bound"
    )
    axes.set(xlabel="signal-to-noise ratio", ylabel="scatter of range [cm]", title=f"{OS1}: a flat wall")
    ticks = [0.2, 0.5, 1, 2, 5, 10]
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.set_yticks([], minor=True)
    axes.set_ylim(0.2, 30.0)
    axes.legend(fontsize=8)


def with_shot_noise(power: NDArray[np.float64], ratio: float) -> NDArray[np.float64]:
    """Chance of a return where few photons are counted: their number varies by its root."""
    sigma = np.sqrt(1.0 / ratio**2 + power / threshold_photons(RIG))
    return detection_probability(1.0 + (power - 1.0) / sigma, threshold_to_noise=1.0)


def draw_detection(axes: Any) -> None:
    """Share of shots that return, around the threshold, under three suns."""
    power = np.linspace(0.3, 2.7, 200)
    # From 29 m on the receiver collects everything, so power goes with 1/R²; half of the shots find a target here.
    reach = ph.Lidar(RIG).max_range(0.1)
    for sun_klx, colour in ((0.0, BLUE), (100.0, GREEN), (400.0, ORANGE)):
        lidar = ph.Lidar(RIG, sun_klx=sun_klx)
        noise = np.sqrt(0.5 * (1.0 + sun_klx / RIG.noise.background_klx))
        ratio = RIG.receiver.threshold_to_noise / noise
        axes.plot(power, with_shot_noise(power, ratio), color=colour, label=f"{sun_klx:g} klx")
        axes.plot(power, detection_probability(power, threshold_to_noise=ratio), ":", color=colour, linewidth=0.9)
        for level in (0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.5, 2.0, 2.5):
            scan = lidar.scan(wall(reach / np.sqrt(level), "lambert-10"), pose=ph.Pose(), seed=2)
            axes.plot([level], [len(scan) / SHOTS], "o", color=colour, markersize=4)
    axes.plot([], [], ":", color=GREY, linewidth=0.9, label="without shot noise")
    axes.axvline(1.0, color=GREY, linewidth=0.8, linestyle=":")
    rated = (reach / RIG.range.rated[0].range_m) ** 2
    axes.plot([rated], [RIG.range.rated[0].detection], "s", color=RED, fillstyle="none", label="rated: 90 %")
    axes.set(
        xlabel="received power [P_min]", ylabel="share of shots with a return", title="Detection near the threshold"
    )
    axes.legend(fontsize=8, title="sunlight", title_fontsize=8)


if __name__ == "__main__":
    figure, (left, right) = sheet(10.0, 3.9, 2)
    draw_scatter(left)
    draw_detection(right)
    finish(figure, "lidar-noise")
