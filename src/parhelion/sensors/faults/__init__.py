"""Faults of sensors: wrong mounts and clocks, lost data, dead parts, jamming, spoofing and temperature.

lidar = ph.Lidar("velodyne/vlp-16").with_faults(channels={"dead": [3]}, packets={"lost": 0.05})
"""

from __future__ import annotations

from parhelion.sensors.faults.body import TemperatureFault
from parhelion.sensors.faults.camera import PixelFault
from parhelion.sensors.faults.fault import ClockFault, Fault, LossFault, MountFault
from parhelion.sensors.faults.gnss import JammingFault, SpoofingFault
from parhelion.sensors.faults.lidar import BlockedFault, ChannelFault, PacketFault
from parhelion.sensors.faults.settings import Faults

__all__ = [
    "BlockedFault",
    "ChannelFault",
    "ClockFault",
    "Fault",
    "Faults",
    "JammingFault",
    "LossFault",
    "MountFault",
    "PacketFault",
    "PixelFault",
    "SpoofingFault",
    "TemperatureFault",
]
