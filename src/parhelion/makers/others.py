"""Makers without packets here: intensity scales and ROS names. Each moves to its own folder along with its codec."""

from __future__ import annotations

from parhelion.makers import Maker, RosDriver
from parhelion.makers.scales import DiffuseThenRetro

ROBOSENSE = Maker(
    "robosense", "RoboSense", {"robosense": DiffuseThenRetro(100.0)}, RosDriver("/rslidar_points", "rslidar")
)
"""Scale: 0-100 for diffuse targets, 101-255 for retro-reflectors, like Velodyne's."""
SICK = Maker("sick", "SICK")
HOKUYO = Maker("hokuyo", "Hokuyo")
SLAMTEC = Maker("slamtec", "Slamtec")
