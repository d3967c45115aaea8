"""Overlap and strengths of rings as fields of a data sheet, by the method that a recording allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from parhelion.calibrate.drive.detection import saturation
from parhelion.calibrate.drive.overlap import Overlap, overlap
from parhelion.calibrate.drive.overlap_errors import COUNT_CUT, with_errors
from parhelion.calibrate.drive.revisits import overlap_seen_again
from parhelion.calibrate.range_images import RangeImage
from parhelion.calibrate.sheet import SheetChanges, short
from parhelion.core.errors import ConfigError
from parhelion.makers.scales import scale_called
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.config import Overlap as OverlapField
from parhelion.sensors.optics.lidar.link_budget import overlap_share

FEWEST_CURVE_POINTS = 50
"""Points that a bin must have to become part of the sheet's overlap curve."""
LEAST_STRENGTHS = 1.4
"""Strengths of rings over their errors, from which on they count as seen."""
FEWEST_TOLD, LEAST_SPAN = 5, 1.5
"""Points that a curve without reflectivity must tell, and the ratio of ranges that they must span."""
MOST_UNKNOWN = 0.3
"""Relative error up to which a point of a curve without reflectivity counts as told."""
NO_REFLECTIVITY = "needs reflectivity beside the signal"


def overlap_changes(
    turn: RangeImage, turns: Sequence[RangeImage], preset: LidarConfig, photons: float, *, standing: bool, seed: int
) -> tuple[Overlap, SheetChanges]:
    """The overlap curve of a recording, and the fields that it changes.

    By signal and reflectivity, or by places that a drive sees again.
    `turn` are all turns side by side, `photons` those at the threshold. Raises ConfigError where it tells neither.
    """
    scale = scale_called(preset.intensity.scale)
    linear = scale.power(np.ones(1), photons) is not None and np.isfinite(turn.signal).any()
    told = bool(np.isfinite(turn.reflectivity).any())
    if not linear:
        raise ConfigError("the recording holds no signal, but reflectivity, of which the maker has divided it out")
    if told and scale.byte_reflectivity:
        return _by_reflectivity(turn, seed)
    if standing:
        raise ConfigError("without reflectivity it needs a sensor that moves")
    return _by_places(turns, turn, preset, photons, seed)


def _points(curve: Overlap, use: np.ndarray[Any, np.dtype[np.bool_]]) -> list[tuple[float, float]]:
    """Points of the sheet's curve."""
    return [
        (round(float(r), 3), float(np.format_float_positional(min(float(xi), 1.0), 3, fractional=False)))
        for r, xi in zip(curve.range[use], curve.share[use], strict=True)
    ]


def _by_reflectivity(turn: RangeImage, seed: int) -> tuple[Overlap, SheetChanges]:
    curve = with_errors(turn, overlap(turn, repeats=0, seed=seed, cut=COUNT_CUT), seed)
    many = curve.count >= FEWEST_CURVE_POINTS
    if many.sum() < 3:
        raise ConfigError(f"only {int(many.sum())} bins of range hold {FEWEST_CURVE_POINTS} points")
    error = float(np.median((curve.error / curve.share)[many]))
    found = SheetChanges({"range.overlap": _points(curve, many)}, {"range.overlap": error})
    assert curve.row_error is not None
    off = np.log(curve.row_factor) * curve.row_factor / np.maximum(curve.row_error, 1e-9)
    known = float(np.median(curve.row_error))
    if float(np.sqrt(np.mean(off**2))) < LEAST_STRENGTHS:
        why = f"rings are as strong as each other, within the {100.0 * known:.1f} % to which that is known"
        found.kept["receiver.channel_gain"] = why
        return curve, found
    # Rings count from the lowest, rows of images from the highest.
    found.changed["receiver.channel_gain"] = [round(float(value), 4) for value in curve.row_factor[::-1]]
    found.error["receiver.channel_gain"] = known
    return curve, found


def _by_places(
    turns: Sequence[RangeImage], turn: RangeImage, preset: LidarConfig, photons: float, seed: int
) -> tuple[Overlap, SheetChanges]:
    scale, top = scale_called(preset.intensity.scale), saturation(turn)
    # Signals in units of the threshold, whatever the maker's scale.
    linear = [replace(one, signal=scale.power(one.signal, photons)) for one in turns]
    most = float(scale.power(np.float64(0.9 * top.level), photons)) if top.reached else np.inf
    curve = overlap_seen_again(linear, preset.range.overlap, 1.0, most, seed)
    error = curve.error / curve.share
    told = (curve.count >= FEWEST_CURVE_POINTS) & (error < MOST_UNKNOWN)
    span = curve.range[told][[0, -1]] if told.any() else np.ones(2)
    if told.sum() < FEWEST_TOLD or span[1] < LEAST_SPAN * span[0]:
        raise ConfigError(
            f"places seen again tell it to {100.0 * float(np.median(error)):.0f} % only, or over too few ranges"
        )
    kept = dict.fromkeys(("range.rated", "receiver.channel_gain"), NO_REFLECTIVITY)
    points = _beside(_points(curve, told), preset.range.overlap)
    return curve, SheetChanges({"range.overlap": points}, {"range.overlap": float(np.median(error[told]))}, kept)


def _beside(points: list[tuple[float, float]], usual: OverlapField) -> list[tuple[float, float]]:
    """Points with the usual curve's nearer and farther ones, scaled so that the curve has no step."""
    if not isinstance(usual, list):
        return points
    found = list(points)
    for near, (metres, share) in ((True, points[0]), (False, points[-1])):
        scale = share / max(float(overlap_share(usual, metres)), 1e-6)
        more = [
            (r, short(min(1.0, scale * xi))) for r, xi in usual if (r < 0.95 * metres if near else r > 1.05 * metres)
        ]
        found = more + found if near else found + more
    return found
