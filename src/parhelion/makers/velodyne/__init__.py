"""Velodyne: data and position packets of the VLP-16, VLP-32C and HDL-32E."""

from __future__ import annotations

from parhelion.makers import Maker, RosDriver
from parhelion.makers.layouts import XYZIRT
from parhelion.makers.scales import DiffuseThenRetro

MAKER = Maker(
    "velodyne",
    "Velodyne",
    # VLP-16 user manual 63-9243 section 6.1: 100 is a diffuse reflector of 100 %, 255 an ideal retro-reflector.
    # VLS-128 manual: 0-110 for diffuse targets.
    scales={"velodyne": DiffuseThenRetro(100.0), "velodyne-vls": DiffuseThenRetro(110.0)},
    ros=RosDriver("/velodyne_points", "velodyne", XYZIRT),
    codec="parhelion.makers.velodyne.codec:CODEC",
)
