"""Makers of 2D scanners, whose data are no UDP packets. Each moves to its own folder along with its codec."""

from __future__ import annotations

from parhelion.makers import Maker

SICK = Maker("sick", "SICK", no_codec="SICK scanners send CoLa telegrams over TCP; captures hold UDP packets")
HOKUYO = Maker(
    "hokuyo", "Hokuyo", no_codec="Hokuyo scanners answer SCIP commands over TCP or USB; captures hold UDP packets"
)
SLAMTEC = Maker(
    "slamtec", "Slamtec", no_codec="RPLIDARs send their samples over a serial line; captures hold UDP packets"
)
