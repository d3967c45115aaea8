"""Curves of a calibration as pictures: what was recorded, what the sheet says, what the preset said."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np

from parhelion.calibrate.drive.channels import BeamAngles
from parhelion.calibrate.drive.detection import detection_chance
from parhelion.calibrate.drive.drive import DriveCalibration
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.link_budget import overlap_share, range_sigma, threshold_photons

RECORDED, SHEET, PRESET = "#1f6fb4", "#e07b00", "#8a93a0"
TAKEN, LEFT, LOST, NOTHING = "#1f6fb4", "#dea05a", "#c0304a", "#262c34"
"""Points that a fit looks at and points that it leaves out; shots without a return; where there was no pulse."""


def axes_of(width_in: float = 5.2, height_in: float = 3.0) -> tuple[Any, Any]:
    """A white figure with one panel, drawn in memory."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.tick_params(labelsize=8)
    return figure, axes


def address(figure: Any) -> str:
    """A figure as the address of a picture that a page holds itself."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def key(*entries: tuple[str, str]) -> str:
    """Colours and what they mean, as HTML."""
    spans = " ".join(f'<span><i style="background: {colour}"></i>{word}</span>' for colour, word in entries)
    return f'<div class="key">{spans}</div>'


def log_axis(axis: Any) -> None:
    """A logarithmic axis with plain numbers at 1, 2 and 5."""
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=20))
    axis.set_major_formatter(ScalarFormatter())
    axis.set_minor_formatter(NullFormatter())


def dots(axes: Any, x: Any, y: Any, error: Any, label: str) -> None:
    """Recorded values with their errors."""
    axes.errorbar(x, y, error, fmt="o", ms=3, lw=1, color=RECORDED, label=label or None)


def draw_overlap(axes: Any, found: DriveCalibration) -> None:
    """xi over range."""
    curve = found.overlap
    assert curve is not None
    r = np.geomspace(max(0.3, 0.5 * curve.range[0]), 1.2 * curve.range[-1], 300)
    dots(axes, curve.range, curve.share, curve.error, "recorded")
    axes.plot(r, overlap_share(found.sheet.range.overlap, r), color=SHEET, lw=1.2, label="this sheet")
    axes.plot(r, overlap_share(found.preset.range.overlap, r), color=PRESET, lw=1.0, ls="--", label="preset")
    axes.set(xscale="log", xlabel="range [m]", ylabel="overlap ξ", ylim=(0.0, 1.15))
    log_axis(axes.xaxis)
    axes.legend(fontsize=8)


def draw_strengths(axes: Any, found: DriveCalibration) -> None:
    """How strong rings are beside each other."""
    curve = found.overlap
    assert curve is not None
    assert curve.row_error is not None
    dots(axes, np.arange(len(curve.row_factor))[::-1], curve.row_factor, curve.row_error, "")
    axes.axhline(1.0, color=PRESET, lw=0.8)
    axes.set(xlabel="ring", ylabel="strength over the mean of all rings")


def sheet_sigma(sheet: LidarConfig, level: Any, *, photons: bool) -> Any:
    """Range scatter [m] that a sheet has at photons, or at power in units of the threshold."""
    snr = np.asarray(level) * sheet.receiver.threshold_to_noise / (threshold_photons(sheet) if photons else 1.0)
    return range_sigma(snr, sigma_0=sheet.noise.range_sigma_m, sigma_1=sheet.noise.range_sigma_snr_m)


def draw_noise(axes: Any, found: DriveCalibration) -> None:
    """Scatter of range over signal."""
    noise = found.noise
    assert noise is not None
    known = noise.count > 0
    level = noise.photons[known]
    x = np.geomspace(0.7 * level.min(), 1.5 * level.max(), 200)
    photons = found.level == "photons"
    axes.errorbar(
        level,
        100 * noise.sigma_m[known],
        100 * noise.error_m[known],
        fmt="o",
        ms=3,
        lw=1,
        color=RECORDED,
        label="recorded",
    )
    axes.plot(level, 100 * noise.pure_m[known], "x", ms=5, color=RECORDED, label="less jitter of beams")
    axes.plot(x, 100 * sheet_sigma(found.sheet, x, photons=photons), color=SHEET, lw=1.2, label="this sheet")
    axes.plot(x, 100 * sheet_sigma(found.preset, x, photons=photons), color=PRESET, lw=1.0, ls="--", label="preset")
    # Bins that are hardly known do not set the scale.
    sure = known & ~(noise.error_m > 0.3 * noise.sigma_m)
    top = 1.6 * float(np.nanmax(100 * noise.sigma_m[sure if sure.any() else known]))
    axes.set(xscale="log", xlabel=found.level, ylabel="range noise [cm]", ylim=(0.0, top))
    log_axis(axes.xaxis)
    axes.legend(fontsize=8)


def draw_noise_by_range(axes: Any, found: DriveCalibration) -> None:
    """Scatter of range over range."""
    noise = found.noise_by_range
    assert noise is not None
    known = noise.count > 0
    axes.errorbar(
        noise.photons[known],
        100 * noise.sigma_m[known],
        100 * noise.error_m[known],
        fmt="o",
        ms=3,
        lw=1,
        color=RECORDED,
        label="flattest fifth",
    )
    axes.plot(noise.photons[known], 100 * noise.all_m[known], ".", ms=3, color=PRESET, label="all windows")
    axes.set(xscale="log", yscale="log", xlabel="range [m]", ylabel="range noise [cm]")
    for axis in (axes.xaxis, axes.yaxis):
        log_axis(axis)
    axes.legend(fontsize=8)


def draw_bias(axes: Any, found: DriveCalibration) -> None:
    """Range errors of rings."""
    bias = found.bias
    assert bias is not None
    ring = np.arange(len(bias.bias_m))[::-1]
    dots(axes, ring, 1e3 * bias.bias_m, 1e3 * bias.error_m, "")
    axes.axhline(0.0, color=PRESET, lw=0.8)
    axes.set(xlabel="ring", ylabel="range error [mm]")


def draw_angles(axes: Any, found: DriveCalibration) -> None:
    """Errors of elevation of rings, of those that slanted planes tell."""
    assert found.angles is not None
    _draw_angles(axes, found.angles, "error of elevation [deg]")


def draw_azimuths(axes: Any, found: DriveCalibration) -> None:
    """Errors of azimuth of rings, of those that slanted walls tell."""
    assert found.azimuths is not None
    _draw_angles(axes, found.azimuths, "error of azimuth [deg]")


def _draw_angles(axes: Any, angles: BeamAngles, label: str) -> None:
    ring = np.arange(len(angles.off_deg))[::-1]
    told = angles.told
    dots(axes, ring[told], angles.correction_deg[told], angles.correction_error_deg[told], "")
    axes.axhline(0.0, color=PRESET, lw=0.8)
    axes.set(xlabel="ring", ylabel=label)


def draw_timing(axes: Any, found: DriveCalibration) -> None:
    """How fast the head turns, part by part of every turn."""
    timing = found.timing
    assert timing is not None
    rates = timing.part_rates_hz
    at = np.arange(rates.size) / rates.shape[1]
    axes.plot(at, rates.ravel(), ".-", ms=3, lw=0.6, color=RECORDED, label="recorded")
    low, high = (timing.rate_hz.value + sign * 1.96 * timing.rate_hz.error for sign in (-1.0, 1.0))
    axes.axhspan(low, high, color=RECORDED, alpha=0.15, lw=0, label="mean, 95 %")
    axes.axhline(found.preset.pattern.rate_hz, color=PRESET, lw=1.0, ls="--", label="preset")
    axes.set(xlabel="turn", ylabel="turn rate [Hz]")
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.legend(fontsize=8)


def draw_dropout(axes: Any, found: DriveCalibration) -> None:
    """Lost pixels amid surfaces over signal."""
    rows = [(np.sqrt(low * min(high, 2 * low)), whole, lost) for low, high, whole, lost in found.lost if whole]
    level, whole, lost = (np.array(part, float) for part in zip(*rows, strict=True))
    share = (lost + 0.5) / (whole + 1.0)
    axes.errorbar(
        level,
        100 * lost / whole,
        100 * np.sqrt(share * (1 - share) / whole),
        fmt="o",
        ms=3,
        lw=1,
        color=RECORDED,
        label="recorded",
    )
    x = np.geomspace(4.0, 60.0, 200)
    for sheet, colour, style, word in ((found.sheet, SHEET, "-", "this sheet"), (found.preset, PRESET, "--", "preset")):
        chance = detection_chance(x, threshold_photons(sheet), sheet.receiver.threshold_to_noise)
        axes.plot(x, 100 * (1.0 - chance), color=colour, ls=style, lw=1.1, label=word)
    axes.set(xscale="log", xlabel="photons of the neighbours", ylabel="lost [%]", xlim=(4.0, 60.0), ylim=(-1.0, 40.0))
    log_axis(axes.xaxis)
    axes.legend(fontsize=8)


def draw_signal(axes: Any, found: DriveCalibration) -> None:
    """How often each signal was recorded."""
    turn = found.turn
    level = turn.signal[turn.returned & np.isfinite(turn.signal) & (turn.signal > 0)]
    axes.hist(np.log10(level), bins=60, color=RECORDED)
    axes.set(xlabel="log10 of signal", ylabel="returns", yscale="log")
