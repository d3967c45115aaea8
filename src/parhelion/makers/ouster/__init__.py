"""Ouster: lidar and IMU packets of the OS sensors, their metadata and HTTP interface."""

from __future__ import annotations

from parhelion.makers import Maker, RosDriver
from parhelion.makers.ouster.ros import OusterPoints
from parhelion.makers.ouster.scale import PhotonCount

MAKER = Maker(
    "ouster",
    "Ouster",
    scales={"ouster": PhotonCount()},
    ros=RosDriver("/ouster/points", "os_sensor", OusterPoints(), second_return="2"),
    codec="parhelion.makers.ouster.codec:CODEC",
    near_field="the near field of the family is measured on recordings",
)
