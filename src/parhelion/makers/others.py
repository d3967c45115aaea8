"""Makers without packets over UDP, or whose packets are not public. Each moves to its own folder with its codec."""

from __future__ import annotations

from parhelion.makers import Maker, RosDriver
from parhelion.makers.layouts import XYZVIRT

SICK = Maker("sick", "SICK", no_codec="SICK scanners send CoLa telegrams over TCP; captures hold UDP packets")
HOKUYO = Maker(
    "hokuyo", "Hokuyo", no_codec="Hokuyo scanners answer SCIP commands over TCP or USB; captures hold UDP packets"
)
SLAMTEC = Maker(
    "slamtec", "Slamtec", no_codec="RPLIDARs send their samples over a serial line; captures hold UDP packets"
)
AEVA = Maker(
    "aeva",
    "Aeva",
    ros=RosDriver("/aeva/pointcloud", "aeva", XYZVIRT),
    no_codec="the packets of Aeva are not public; its library delivers points",
)
LEICA = Maker("leica", "Leica", no_codec="airborne scanners of Leica record to files of their own; write LAS instead")
RIEGL = Maker("riegl", "RIEGL", no_codec="airborne scanners of RIEGL record to files of their own; write LAS instead")
