"""Radar and pulse-echo messages: radar_msgs/RadarScan and sensor_msgs/Range."""

from __future__ import annotations

from typing import Any

import numpy as np

from parhelion.core.records import PointCloud
from parhelion.io.ros.types import encode, header, new

RADAR_SCAN = "radar_msgs/msg/RadarScan"
RANGE = "sensor_msgs/msg/Range"
ULTRASOUND = 0
"""Range.radiation_type of sound."""


def radar_scan(cloud: PointCloud, frame_id: str, time_ns: int) -> bytes:
    """CDR bytes of a radar_msgs/RadarScan; the amplitude is the signal over noise [dB]."""
    names = ("range", "azimuth", "elevation", "radial_velocity", "snr")
    columns = [cloud.fields[name].tolist() for name in names]
    returns = [
        new("radar_msgs/msg/RadarReturn", range=r, azimuth=a, elevation=e, doppler_velocity=v, amplitude=s)
        for r, a, e, v, s in zip(*columns, strict=True)
    ]
    return encode(RADAR_SCAN, new(RADAR_SCAN, header=header(time_ns, frame_id), returns=returns))


def range_message(
    range_m: float, limits_m: tuple[float, float], field_of_view_rad: float, frame_id: str, time_ns: int
) -> bytes:
    """CDR bytes of a sensor_msgs/Range; infinite where nothing was heard (REP 117)."""
    message: Any = new(
        RANGE, header=header(time_ns, frame_id), radiation_type=ULTRASOUND, field_of_view=float(field_of_view_rad),
        min_range=float(limits_m[0]), max_range=float(limits_m[1]), range=float(np.float32(range_m)),
    )  # fmt: skip
    return encode(RANGE, message)
