"""RoboSense: MSOP and DIFOP packets of the RS-16, RS-32, Helios, Bpearl, Airy and M1."""

from __future__ import annotations

from parhelion.makers import Maker, RosDriver
from parhelion.makers.layouts import CLOCK_XYZIRT
from parhelion.makers.scales import DiffuseThenRetro

MAKER = Maker(
    "robosense",
    "RoboSense",
    # User manuals: 0-100 for diffuse targets, 101-255 for retro-reflectors, like Velodyne's.
    scales={"robosense": DiffuseThenRetro(100.0)},
    ros=RosDriver("/rslidar_points", "rslidar", CLOCK_XYZIRT),
    codec="parhelion.makers.robosense.codec:CODEC",
)
