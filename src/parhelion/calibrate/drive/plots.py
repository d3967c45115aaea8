"""Charts of a calibration from a drive: recorded values, the new sheet, and the preset."""

from __future__ import annotations

from typing import Any

import numpy as np

from parhelion.calibrate.drive.channels import BeamAngles
from parhelion.calibrate.drive.detection import detection_chance
from parhelion.calibrate.drive.drive import DriveCalibration
from parhelion.calibrate.drive.overlap import Overlap
from parhelion.calibrate.range_images import Floats
from parhelion.pictures.charts import GREY, Chart, Curve
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.link_budget import overlap_share, range_sigma, threshold_photons

RECORDED, SHEET, PRESET = 1, 0, GREY
"""Colours of curves."""
DROPOUT_AXES: dict[str, Any] = {
    "y_label": "lost [%]", "x_label": "photons of the neighbours", "log": "x", "x_limits": (4.0, 60.0),
    "y_limits": (-1.0, 40.0),
}  # fmt: skip


def overlap_line(sheet: LidarConfig, curve: Overlap, name: str, colour: int, style: str = "line") -> Curve:
    """The overlap of a sheet over the ranges of a recording."""
    r = np.geomspace(max(0.3, 0.5 * curve.range[0]), 1.2 * curve.range[-1], 300)
    return Curve.of(name, r, overlap_share(sheet.range.overlap, r), colour, style)


def noise_line(
    found: DriveCalibration, sheet: LidarConfig, level: Floats, name: str, colour: int, style: str = "line"
) -> Curve:
    """Range noise [cm] of a sheet over a recording's signal: photons, or power in units of the threshold."""
    x = np.geomspace(0.7 * level.min(), 1.5 * level.max(), 200)
    snr = x * sheet.receiver.threshold_to_noise / (threshold_photons(sheet) if found.level == "photons" else 1.0)
    sigma = range_sigma(snr, sigma_0=sheet.noise.range_sigma_m, sigma_1=sheet.noise.range_sigma_snr_m)
    return Curve.of(name, x, 100 * sigma, colour, style)


def lost_pixels(found: DriveCalibration) -> tuple[Floats, Floats, Floats]:
    """Signal, share of lost pixels amid surfaces [%] and its standard error [%], each of shape (n,)."""
    rows = [(np.sqrt(low * min(high, 2 * low)), whole, lost) for low, high, whole, lost in found.lost if whole]
    level, whole, lost = np.array(rows, np.float64).reshape(-1, 3).T
    share = (lost + 0.5) / (whole + 1.0)
    return level, 100 * lost / whole, 100 * np.sqrt(share * (1 - share) / whole)


def overlap_chart(found: DriveCalibration) -> Chart | None:
    """Overlap over range."""
    curve = found.overlap
    if curve is None:
        return None
    curves = [
        Curve.of("recorded", curve.range, curve.share, RECORDED, "dots", curve.error),
        overlap_line(found.sheet, curve, "this sheet", SHEET),
        overlap_line(found.preset, curve, "preset", PRESET, "dashed"),
    ]
    return Chart(curves, "overlap ξ", "range [m]", log="x", y_limits=(0.0, 1.15))


def _by_ring(values: Floats, errors: Floats, label: str, *, level: float = 0.0, known: Any = slice(None)) -> Chart:
    """Values of rings with their errors; ring 0 is the last row."""
    ring = np.arange(len(values))[::-1]
    recorded = Curve.of("", ring[known], values[known], RECORDED, "dots", errors[known])
    return Chart([Curve.level(level, ring), recorded], label, "ring")


def strengths_chart(found: DriveCalibration) -> Chart | None:
    """Signal of each ring relative to the mean."""
    curve = found.overlap
    if curve is None or curve.row_error is None:
        return None
    return _by_ring(curve.row_factor, curve.row_error, "strength over the mean of all rings", level=1.0)


def noise_chart(found: DriveCalibration) -> Chart | None:
    """Range noise over signal."""
    noise = found.noise
    if noise is None:
        return None
    known = noise.count > 0
    level, sigma = noise.photons[known], 100 * noise.sigma_m[known]
    curves = [
        Curve.of("recorded", level, sigma, RECORDED, "dots", 100 * noise.error_m[known]),
        Curve.of("less beam jitter", level, 100 * noise.pure_m[known], RECORDED, "crosses"),
        noise_line(found, found.sheet, level, "this sheet", SHEET),
        noise_line(found, found.preset, level, "preset", PRESET, "dashed"),
    ]
    # Bins with large errors do not set the scale.
    sure = known & ~(noise.error_m > 0.3 * noise.sigma_m)
    top = 1.6 * float(np.nanmax(100 * noise.sigma_m[sure if sure.any() else known]))
    return Chart(curves, "range noise [cm]", found.level, log="x", y_limits=(0.0, top))


def noise_by_range_chart(found: DriveCalibration) -> Chart | None:
    """Range noise over range."""
    noise = found.noise_by_range
    if noise is None:
        return None
    known = noise.count > 0
    level, sigma, error = noise.photons[known], 100 * noise.sigma_m[known], 100 * noise.error_m[known]
    curves = [
        Curve.of("flattest fifth", level, sigma, RECORDED, "dots", error),
        Curve.of("all windows", level, 100 * noise.all_m[known], PRESET, "dots"),
    ]
    return Chart(curves, "range noise [cm]", "range [m]", log="xy")


def bias_chart(found: DriveCalibration) -> Chart | None:
    """Range errors of rings."""
    bias = found.bias
    if bias is None or not bias.windows:
        return None
    return _by_ring(1e3 * bias.off, 1e3 * bias.error, "range error [mm]")


def elevations_chart(found: DriveCalibration) -> Chart | None:
    """Elevation errors of the rings that slanted planes constrain."""
    return _angles(found.angles, "elevation error [deg]")


def azimuths_chart(found: DriveCalibration) -> Chart | None:
    """Azimuth errors of the rings that slanted walls constrain."""
    return _angles(found.azimuths, "azimuth error [deg]")


def _angles(angles: BeamAngles | None, label: str) -> Chart | None:
    if angles is None or not angles.known:
        return None
    return _by_ring(angles.correction, angles.correction_error, label, known=angles.resolved)


def timing_chart(found: DriveCalibration) -> Chart | None:
    """Rotation rate per eighth of every revolution."""
    timing = found.timing
    if timing is None:
        return None
    rates = timing.part_rates_hz
    at = np.arange(rates.size) / rates.shape[1]
    mean, half = np.full(2, timing.rate_hz.value), 1.96 * timing.rate_hz.error
    curves = [
        Curve.of("recorded", at, rates.ravel(), RECORDED, "joined"),
        Curve("mean, 95 %", at[[0, -1]], mean, mean - half, mean + half, 2),
        Curve.level(found.preset.pattern.rate_hz, at, "preset", "dashed"),
    ]
    return Chart(curves, "rotation rate [Hz]", "revolution")


def dropout_chart(found: DriveCalibration) -> Chart | None:
    """Lost pixels on surfaces over signal."""
    if not found.lost:
        return None
    level, lost, error = lost_pixels(found)
    curves = [Curve.of("recorded", level, lost, RECORDED, "dots", error)]
    x = np.geomspace(4.0, 60.0, 200)
    for sheet, colour, style, name in (
        (found.sheet, SHEET, "line", "this sheet"),
        (found.preset, PRESET, "dashed", "preset"),
    ):
        chance = detection_chance(x, threshold_photons(sheet), sheet.receiver.threshold_to_noise)
        curves.append(Curve.of(name, x, 100 * (1.0 - chance), colour, style))
    return Chart(curves, **DROPOUT_AXES)


def signal_chart(found: DriveCalibration) -> Chart | None:
    """Histogram of the recorded signal."""
    frame = found.turn
    level = frame.signal[frame.returned & np.isfinite(frame.signal) & (frame.signal > 0)]
    if not level.size:
        return None
    return Chart([Curve.histogram("", np.log10(level), 60, RECORDED)], "returns", "log10 of signal", log="y")
