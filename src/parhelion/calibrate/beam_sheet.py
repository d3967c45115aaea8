"""Angles of beams in the order of a sheet: as a capture tells them, and as planes show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from parhelion.calibrate.bias_fit import BeamAngles
from parhelion.calibrate.turns import Turn
from parhelion.sensors.lidar.config import LidarConfig

DIGITS = 4
"""Of degrees: the best known steps between rows have errors of 0.003."""


def told_channels(turn: Turn, preset: LidarConfig) -> dict[str, Any] | None:
    """A sheet's channels with the angles that a capture carries; None where it does not."""
    own = getattr(preset.pattern, "channels", None)
    if own is None or turn.direction is None or turn.origin is None or preset.maker != "ouster":
        return None
    azimuth = np.arctan2(turn.direction[..., 1], turn.direction[..., 0])
    head = np.arctan2(turn.origin[..., 1], turn.origin[..., 0])
    off = np.degrees((azimuth - head + np.pi) % (2.0 * np.pi) - np.pi)
    values = np.nanmedian(off, axis=1)
    if turn.beam_offset_m < 0.005 or not np.isfinite(values).all():
        return None
    told: dict[str, Any] = own.model_dump(mode="python", exclude_none=True)
    told["elevation_deg"] = [round(float(value), 3) for value in turn.elevation_deg]
    told["azimuth_deg"] = [round(float(value), 3) for value in values]
    return told


def corrected(channels: Mapping[str, Any], name: str, found: BeamAngles) -> list[float]:
    """Angles of a sheet's channels, `elevation_deg` or `azimuth_deg`, with what was found.

    Channels that planes do not tell keep theirs. Sheets list channels in the maker's order, rows of images go down from
    the highest ring.
    """
    elevation = np.asarray(channels["elevation_deg"], np.float64)
    ring = channels.get("ring")
    rank = np.argsort(np.argsort(elevation, kind="stable"), kind="stable") if ring is None else np.asarray(ring)
    row = len(elevation) - 1 - rank
    before = channels.get(name)
    angle = np.zeros(len(elevation)) if before is None else np.asarray(before, np.float64)
    return [
        round(float(value + more), DIGITS) if told else float(value)
        for value, more, told in zip(angle, found.correction_deg[row], found.told[row], strict=True)
    ]
