"""Makers without packets here. Each moves to its own folder along with its codec."""

from __future__ import annotations

from parhelion.makers import Maker

SICK = Maker("sick", "SICK")
HOKUYO = Maker("hokuyo", "Hokuyo")
SLAMTEC = Maker("slamtec", "Slamtec")
