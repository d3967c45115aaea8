"""Several recordings of one sensor: separate fits, a joint fit, and the fields on which they disagree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parhelion.calibrate.drive.drive import INTERVAL, DriveCalibration, calibrate_drive
from parhelion.calibrate.range_images import Floats, RangeImage
from parhelion.calibrate.sheet import short, with_changes
from parhelion.core.errors import ConfigError
from parhelion.sensors.optics.lidar.config import LidarConfig

SCALARS = (
    "receiver.threshold_photons",
    "receiver.saturation",
    "noise.range_sigma_m",
    "noise.range_sigma_snr_m",
    "range.rated",
    "range.resolution_m",
    "pattern.rate_hz",
    "pattern.columns",
    "pattern.firing_period_us",
)
CURVE, BIAS, GAIN = "range.overlap", "noise.channel_bias_m", "receiver.channel_gain"
ANGLES = {"pattern.channels.elevation_deg": "angles", "pattern.channels.azimuth_deg": "azimuths"}
"""Angle errors of the beams, and the attribute of a calibration that holds them."""


@dataclass(frozen=True)
class Compared:
    """One field as measured by each recording."""

    field: str
    values: tuple[float, ...]
    """Value per recording, NaN if not measured; for lists, the entry at which the recordings differ most."""
    errors: tuple[float, ...]
    """Half widths of 95 % intervals."""
    differs: bool
    """Two intervals do not overlap."""
    where: str = ""
    """Description of the list entry."""

    def in_words(self, names: Sequence[str]) -> str:
        """Values of each recording as text."""
        parts = [
            f"{name} {value:.4g} ± {error:.2g}"
            for name, value, error in zip(names, self.values, self.errors, strict=True)
            if np.isfinite(value)
        ]
        return "; ".join(parts) + (f" ({self.where})" if self.where else "")


@dataclass(frozen=True, eq=False)
class RecordingComparison:
    """Calibrations of several recordings."""

    names: tuple[str, ...]
    each: tuple[DriveCalibration, ...]
    together: DriveCalibration
    """Joint fit of all frames of all recordings; its errors include their disagreement."""
    fields: tuple[Compared, ...]

    @property
    def differing(self) -> tuple[Compared, ...]:
        """Fields on which recordings disagree."""
        return tuple(one for one in self.fields if one.differs)


def compare_drives(
    recordings: Sequence[tuple[str, Sequence[RangeImage]]],
    preset: LidarConfig,
    *,
    standing: bool = False,
    seed: int = 1,
    watch: Callable[[str, DriveCalibration], None] | None = None,
) -> RecordingComparison:
    """Fit each recording, given by name and frames, separately and all of them jointly.

    The sheet contains the joint fit. If recordings disagree on a field, its interval is widened to include those
    of all recordings, and `calibration.disagree` lists their values.
    """
    names = tuple(name for name, _ in recordings)
    if len(set(names)) < len(names):
        raise ConfigError(f"the recordings need different names, got {', '.join(names)}")
    each = tuple(
        calibrate_drive(frames, preset, recording=name, standing=standing, seed=seed) for name, frames in recordings
    )
    every = [frame for _, frames in recordings for frame in frames]
    # Repeated observations need a fixed position, so the joint fit of several recordings uses neighbours instead.
    together = calibrate_drive(every, preset, recording=", ".join(names), seed=seed, watch=watch)
    fields = compared(each)
    return RecordingComparison(names, each, _widened(together, [one for one in fields if one.differs], names), fields)


def compared(each: Sequence[DriveCalibration]) -> tuple[Compared, ...]:
    """Fields that at least two calibrations measure, with the value of each."""
    found = []
    for field in SCALARS:
        values = tuple(_scalar(one, field) for one in each)
        errors = tuple(one.error.get(field, 0.0) for one in each)
        if np.isfinite(values).sum() >= 2:
            found.append(Compared(field, values, errors, _apart(values, errors) > 1.0))
    curves = [one.overlap for one in each]
    if sum(curve is not None for curve in curves) >= 2:
        found.append(_curves(curves))
    of_rings: list[tuple[str, str, str, list[Any]]] = [
        (BIAS, "off", "error", [one.bias for one in each if one.bias is not None and one.bias.windows])
    ]
    for field, name in ANGLES.items():
        angles = [getattr(one, name) for one in each]
        of_rings.append((field, "off", "error", [one for one in angles if one is not None and one.known]))
    gains = [one.overlap for one in each if one.overlap is not None and GAIN in one.changed]
    of_rings.append((GAIN, "row_factor", "row_error", gains))
    for field, value_name, error_name, parts in of_rings:
        if len(parts) == len(each) and len({len(getattr(one, value_name)) for one in parts}) == 1:
            value, error = (np.stack([getattr(one, name)[::-1] for one in parts]) for name in (value_name, error_name))
            found.append(_worst(field, value, INTERVAL * error, [f"ring {k}" for k in range(value.shape[1])]))
    return tuple(found)


def _scalar(found: DriveCalibration, field: str) -> float:
    value = found.changed.get(field, np.nan)
    return float(value[0]["range_m"]) if isinstance(value, list) else float(value)


def _apart(values: ArrayLike, errors: ArrayLike) -> float:
    """Largest difference of two values in units of the sum of their half widths; above 1, intervals do not overlap."""
    v, e = np.asarray(values, np.float64), np.asarray(errors, np.float64)
    off, wide = np.abs(v[:, None] - v[None]), e[:, None] + e[None]
    return float(np.nanmax(np.where(off > 0.0, off / np.maximum(wide, 1e-12), 0.0)))


def _worst(field: str, values: Floats, errors: Floats, where: Sequence[str]) -> Compared:
    """Entry of a list at which recordings differ most.

    Among many entries some differ by chance. The intervals are widened so that the probability over all entries equals
    that of a single one (Bonferroni).
    """
    from scipy.special import ndtri

    wider = float(ndtri(1.0 - 0.025 / values.shape[1])) / INTERVAL
    apart = [_apart(values[:, k], errors[:, k]) for k in range(values.shape[1])]
    k = int(np.argmax(apart))
    return Compared(field, tuple(values[:, k].tolist()), tuple(errors[:, k].tolist()), bool(apart[k] > wider), where[k])


def _curves(curves: Sequence[Any]) -> Compared:
    """Overlap curves at the bins of the first that all of them cover."""
    known = [curve for curve in curves if curve is not None]
    low, high = max(one.range[0] for one in known), min(one.range[-1] for one in known)
    at = known[0].range[(known[0].range >= low) & (known[0].range <= high)]
    if not len(at):
        return Compared(CURVE, (np.nan,) * len(curves), (np.nan,) * len(curves), False, "no range in common")
    value, error = np.full((2, len(curves), len(at)), np.nan)
    for k, curve in enumerate(curves):
        if curve is not None:
            value[k] = curve.at(at)
            error[k] = INTERVAL * np.interp(at, curve.range, curve.error / curve.share) * value[k]
    return _worst(CURVE, value, error, [f"at {metres:.3g} m" for metres in at])


def _widened(found: DriveCalibration, differing: Sequence[Compared], names: Sequence[str]) -> DriveCalibration:
    """Errors widened to include the values of each recording, in the calibration and its sheet."""
    error = dict(found.error)
    for one in differing:
        if one.field not in found.changed:
            continue
        if one.field in SCALARS:
            here = _scalar(found, one.field)
            ends = [abs(v - here) + e for v, e in zip(one.values, one.errors, strict=True) if np.isfinite(v)]
        else:
            half = 0.5 * (np.nanmax(one.values) - np.nanmin(one.values)) + np.nanmax(one.errors)
            ends = [half / np.nanmean(one.values) if one.field == CURVE else half]
        error[one.field] = max(error.get(one.field, 0.0), *ends)
    assert found.sheet.calibration is not None
    section = found.sheet.calibration.model_dump()
    section["error"] = {name: short(value) for name, value in error.items()}
    section["disagree"] = {one.field: one.in_words(names) for one in differing}
    return replace(found, error=error, sheet=with_changes(found.sheet, {"calibration": section}))
