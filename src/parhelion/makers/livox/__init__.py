"""Livox: point and IMU packets of SDK 1 (Avia, Mid-40) and SDK 2 (Mid-360, HAP)."""

from __future__ import annotations

from parhelion.makers import Maker, RosDriver
from parhelion.makers.livox.layout import LivoxPoints
from parhelion.makers.scales import DiffuseThenRetro

MAKER = Maker(
    "livox",
    "Livox",
    # User manuals: 0-150 for diffuse targets of 0-100 %, 151-255 for total reflection.
    scales={"livox": DiffuseThenRetro(150.0)},
    ros=RosDriver("/livox/lidar", "livox_frame", LivoxPoints()),
    codec="parhelion.makers.livox.codec:CODEC",
)
