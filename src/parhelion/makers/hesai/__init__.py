"""Hesai: point packets of the Pandar40P, Pandar64, XT32 and QT64 (UDP protocols 1 to 6)."""

from __future__ import annotations

from parhelion.makers import Maker, RosDriver
from parhelion.makers.layouts import CLOCK_XYZIRT
from parhelion.makers.scales import Percent, RootByte

MAKER = Maker(
    "hesai",
    "Hesai",
    # Manuals: one count per percent of reflectance, up to 255; 176 times its root in recordings of two Pandar64.
    scales={"hesai": Percent(), "hesai-pandar64": RootByte(176.0)},
    ros=RosDriver("/lidar_points", "hesai_lidar", CLOCK_XYZIRT),
    codec="parhelion.makers.hesai.codec:CODEC",
    compared={
        "snow": {
            "hesai/pandar64": "60 scans in severe snow: share of shots and ranges of flakes",
            "*": "the Pandar64 was compared in snow",
        }
    },
)
