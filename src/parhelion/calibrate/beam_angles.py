"""Beam angles of a unit as a recording contains them: in the metadata of a capture, or in the points of a cloud.

Makers calibrate the beams of each unit. Ouster captures contain the angles in their metadata. Drivers of other makers
apply them to the points, so that the elevation of each ring follows from a cloud:

    z / rho = tan(elevation) + z0 / rho

rho is the horizontal distance of a point, and z0 the height of the beam origin in the frame of the cloud.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.range_images import Floats, RangeImage
from parhelion.makers import codecs
from parhelion.sensors.optics.lidar.config import LidarConfig

FEWEST_RETURNS = 50
"""Smallest number of returns of a ring for its elevation."""
MOST_SCATTER_DEG = 0.1
"""Largest scatter of elevations within a ring; it is larger in clouds that were corrected for motion."""
LEAST_CHANGE_DEG = 0.02
"""Smallest difference from the preset of an elevation that is written."""
LEAST_RHO_M = 0.5
NOT_RECORDED = "the recording does not contain the beam angles of the unit"


def rows_of_channels(channels: Mapping[str, Any]) -> NDArray[np.int64]:
    """Image row of each channel of a sheet: sheets use the maker's order, rows start at the highest ring."""
    elevation = np.asarray(channels["elevation_deg"], np.float64)
    ring = channels.get("ring")
    rank = np.argsort(np.argsort(elevation, kind="stable"), kind="stable") if ring is None else np.asarray(ring)
    return np.asarray(len(elevation) - 1 - rank, np.int64)


def recorded_channels(frame: RangeImage, preset: LidarConfig) -> dict[str, Any] | str:
    """Channels of a sheet with the angles of a recording; the reason as text if it does not contain them."""
    own = getattr(preset.pattern, "channels", None)
    if own is None or frame.direction is None or frame.origin is None:
        return NOT_RECORDED
    channels: dict[str, Any] = own.model_dump(mode="python", exclude_none=True)
    rows = rows_of_channels(channels)
    if len(rows) != frame.range.shape[0] or len(rows) < 2:
        return NOT_RECORDED
    codec = codecs().get(preset.maker)
    carried = _of_capture(frame) if codec is not None and codec.carries_angles else None
    if carried is not None:
        return channels | carried
    nominal = np.asarray(channels["elevation_deg"], np.float64)
    found = point_elevations_deg(frame)[rows]
    known = np.isfinite(found)
    if np.count_nonzero(known) < 0.5 * len(rows):
        return "elevations vary within rings, as in clouds that were corrected for motion"
    off = np.abs(found - nominal)[known]
    if off.max() < LEAST_CHANGE_DEG:
        return "the elevations of the recording are those of the preset"
    channels["elevation_deg"] = [round(float(value), 3) for value in np.where(known, found, nominal)]
    return channels


def _of_capture(frame: RangeImage) -> dict[str, list[float]] | None:
    """Elevations and azimuths from the directions and origins that metadata gave; None without beam origins."""
    assert frame.direction is not None
    assert frame.origin is not None
    azimuth = np.arctan2(frame.direction[..., 1], frame.direction[..., 0])
    head = np.arctan2(frame.origin[..., 1], frame.origin[..., 0])
    values = np.nanmedian(np.degrees((azimuth - head + np.pi) % (2.0 * np.pi) - np.pi), axis=1)
    if frame.beam_offset_m < 0.005 or not np.isfinite(values).all():
        return None
    return {
        "elevation_deg": [round(float(value), 3) for value in frame.elevation_deg],
        "azimuth_deg": [round(float(value), 3) for value in values],
    }


def point_elevations_deg(frame: RangeImage) -> Floats:
    """Elevation of each row from its points, shape (rows,); NaN for rows with few returns or scattered elevations."""
    assert frame.direction is not None
    assert frame.origin is not None
    points = frame.origin + frame.range[..., None] * frame.direction
    rho = np.hypot(points[..., 0], points[..., 1])
    with np.errstate(invalid="ignore", divide="ignore"):
        use = frame.returned & (rho > LEAST_RHO_M)
        slope, near = np.where(use, points[..., 2] / rho, np.nan), np.where(use, 1.0 / rho, np.nan)
    origin = 0.0
    for _ in range(3):
        # The height of the beam origin is common to all rings: rows are freed of their medians, and outliers clipped.
        left = _about_median(slope - origin * near)
        limit = 3.0 * 1.4826 * np.nanmedian(np.abs(left)) if use.any() else 0.0
        x = np.where(np.abs(left) <= limit, _about_median(near), np.nan)
        spread = float(np.nansum(x**2))
        origin += float(np.nansum(x * left)) / spread if spread > 0.0 else 0.0
    tangent = slope - origin * near
    scatter = np.degrees(1.4826 * _row_medians(np.abs(_about_median(tangent))))
    known = (use.sum(axis=1) >= FEWEST_RETURNS) & (scatter < MOST_SCATTER_DEG)
    return np.where(known, np.degrees(np.arctan(_row_medians(tangent))), np.nan)


def _row_medians(values: Floats) -> Floats:
    return np.array([np.median(row[np.isfinite(row)]) if np.isfinite(row).any() else np.nan for row in values])


def _about_median(values: Floats) -> Floats:
    return np.asarray(values - _row_medians(values)[:, None])
