"""Overlap and strengths of rings as data sheet fields, by the method that a recording supports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from parhelion.calibrate.drive.detection import saturation
from parhelion.calibrate.drive.overlap import Overlap, overlap
from parhelion.calibrate.drive.overlap_errors import COUNT_CUT, with_errors
from parhelion.calibrate.drive.revisits import overlap_from_revisits
from parhelion.calibrate.range_images import Floats, RangeImage
from parhelion.calibrate.sheet import SheetChanges, short
from parhelion.core.errors import ConfigError
from parhelion.makers.scales import scale_called
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.config import Overlap as OverlapField
from parhelion.sensors.optics.lidar.link_budget import overlap_share

FEWEST_CURVE_POINTS = 50
"""Smallest number of points of a bin in the overlap curve of a sheet."""
LEAST_STRENGTHS = 1.4
"""Ratio of the strengths of rings to their errors from which they are significant."""
FEWEST_RESOLVED, LEAST_SPAN = 5, 1.5
"""Smallest number of points of a curve without reflectivity, and the smallest ratio of ranges that they must span."""
MOST_UNKNOWN = 0.3
"""Largest relative error of a point of a curve without reflectivity."""
NO_REFLECTIVITY = "needs reflectivity in addition to the signal"


def overlap_changes(
    frame: RangeImage, frames: Sequence[RangeImage], preset: LidarConfig, photons: float, *, standing: bool, seed: int
) -> tuple[Overlap, SheetChanges]:
    """Overlap curve of a recording, and the fields that it changes.

    The curve comes from signal and reflectivity, or from places that a drive revisits. `frame` contains all frames side
    by side, `photons` is the count at the threshold. ConfigError is raised if neither method applies.
    """
    scale = scale_called(preset.intensity.scale)
    linear = scale.power(np.ones(1), photons) is not None and np.isfinite(frame.signal).any()
    has_reflectivity = bool(np.isfinite(frame.reflectivity).any())
    if not linear:
        raise ConfigError("the recording contains reflectivity, from which the maker removed the signal strength")
    if has_reflectivity and scale.byte_reflectivity:
        return _by_reflectivity(frame, seed)
    if standing:
        raise ConfigError("without reflectivity a moving sensor is needed")
    return _by_places(frames, frame, preset, photons, seed)


def _points(curve: Overlap, use: np.ndarray[Any, np.dtype[np.bool_]]) -> list[tuple[float, float]]:
    """Points of the overlap curve of a sheet."""
    return [
        (round(float(r), 3), float(np.format_float_positional(min(float(xi), 1.0), 3, fractional=False)))
        for r, xi in zip(curve.range[use], curve.share[use], strict=True)
    ]


def _by_reflectivity(frame: RangeImage, seed: int) -> tuple[Overlap, SheetChanges]:
    curve = with_errors(frame, overlap(frame, repeats=0, seed=seed, cut=COUNT_CUT), seed)
    many = curve.count >= FEWEST_CURVE_POINTS
    if many.sum() < 3:
        raise ConfigError(f"only {int(many.sum())} range bins contain {FEWEST_CURVE_POINTS} points")
    error = float(np.median((curve.error / curve.share)[many]))
    found = SheetChanges({"range.overlap": _points(curve, many)}, {"range.overlap": error})
    assert curve.row_error is not None
    off = np.log(curve.row_factor) * curve.row_factor / np.maximum(curve.row_error, 1e-9)
    known = float(np.median(curve.row_error))
    if float(np.sqrt(np.mean(off**2))) < LEAST_STRENGTHS:
        why = f"strengths of rings are equal within their uncertainty of {100.0 * known:.1f} %"
        found.kept["receiver.channel_gain"] = why
        return curve, found
    # Rings count from the lowest, image rows from the highest.
    found.changed["receiver.channel_gain"] = [round(float(value), 4) for value in curve.row_factor[::-1]]
    found.error["receiver.channel_gain"] = known
    return curve, found


def _by_places(
    frames: Sequence[RangeImage], frame: RangeImage, preset: LidarConfig, photons: float, seed: int
) -> tuple[Overlap, SheetChanges]:
    scale, top = scale_called(preset.intensity.scale), saturation(frame)
    # Signals in units of the threshold, independent of the maker's scale.
    linear = [replace(one, signal=cast("Floats", scale.power(one.signal, photons))) for one in frames]
    most = float(cast("Floats", scale.power(np.float64(0.9 * top.level), photons))) if top.reached else np.inf
    curve = overlap_from_revisits(linear, preset.range.overlap, 1.0, most, seed)
    error = curve.error / curve.share
    resolved = (curve.count >= FEWEST_CURVE_POINTS) & (error < MOST_UNKNOWN)
    span = curve.range[resolved][[0, -1]] if resolved.any() else np.ones(2)
    if resolved.sum() < FEWEST_RESOLVED or span[1] < LEAST_SPAN * span[0]:
        raise ConfigError(
            f"revisited places determine it to {100.0 * float(np.median(error)):.0f} % only, or over too few ranges"
        )
    kept = dict.fromkeys(("range.rated", "receiver.channel_gain"), NO_REFLECTIVITY)
    points = _extended(_points(curve, resolved), preset.range.overlap)
    return curve, SheetChanges({"range.overlap": points}, {"range.overlap": float(np.median(error[resolved]))}, kept)


def _extended(points: list[tuple[float, float]], preset_curve: OverlapField) -> list[tuple[float, float]]:
    """Points extended by the nearer and farther points of the preset curve, scaled so that the curve is continuous."""
    if not isinstance(preset_curve, list):
        return points
    found = list(points)
    for near, (metres, share) in ((True, points[0]), (False, points[-1])):
        scale = share / max(float(overlap_share(preset_curve, metres)), 1e-6)
        more = [
            (r, short(min(1.0, scale * xi)))
            for r, xi in preset_curve
            if (r < 0.95 * metres if near else r > 1.05 * metres)
        ]
        found = more + found if near else found + more
    return found
