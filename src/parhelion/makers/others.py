"""Makers without packets here: intensity scales and ROS names. Each moves to its own folder along with its codec."""

from __future__ import annotations

from parhelion.makers import Maker, RosDriver
from parhelion.makers.scales import DiffuseThenRetro, Percent, RootByte

HESAI = Maker(
    "hesai", "Hesai", {"hesai": Percent(), "hesai-pandar64": RootByte(176.0)}, RosDriver("/lidar_points", "hesai_lidar")
)
"""Scales: one count per percent of reflectance, up to 255 (manuals: 0 to 255 %); 176 times its root as recorded."""
ROBOSENSE = Maker(
    "robosense", "RoboSense", {"robosense": DiffuseThenRetro(100.0)}, RosDriver("/rslidar_points", "rslidar")
)
"""Scale: 0-100 for diffuse targets, 101-255 for retro-reflectors, like Velodyne's."""
SICK = Maker("sick", "SICK")
HOKUYO = Maker("hokuyo", "Hokuyo")
SLAMTEC = Maker("slamtec", "Slamtec")
