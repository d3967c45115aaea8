"""Velodyne: data and position packets of the VLP-16, VLP-32C and HDL-32E."""

from __future__ import annotations

from parhelion.makers import Maker, RosDriver
from parhelion.makers.layouts import XYZIRT
from parhelion.makers.scales import CompressedByte, DiffuseThenRetro

HDL_64E = ("velodyne/hdl-64e", "velodyne/hdl-64e-s2")

MAKER = Maker(
    "velodyne",
    "Velodyne",
    # VLP-16 user manual 63-9243 section 6.1: 100 is a diffuse reflector of 100 %, 255 an ideal retro-reflector.
    # Zeros: fitted to the share of intensity 0 in a VLP-16 recording at 40 to 60 m (docs/models/lidar-intensity.md).
    # VLS-128 manual: 0-110 for diffuse targets.
    # HDL-64E: median and spread of road and walls in KITTI's recordings of an S2.
    scales={
        "velodyne": DiffuseThenRetro(100.0, zero_power=1.5),
        "velodyne-vls": DiffuseThenRetro(110.0),
        "velodyne-hdl64": CompressedByte(84.0, 0.1),
    },
    ros=RosDriver("/velodyne_points", "velodyne", XYZIRT),
    codec="parhelion.makers.velodyne.codec:CODEC",
    compared={
        "rain": {
            **dict.fromkeys(HDL_64E, "114 scans in rain: isolated points at 1.6 to 4 m"),
            "*": "the HDL-64E was compared in rain",
        },
        "fog": {
            "velodyne/hdl-32e": "60 scans in fog: nearest returns, lost shots, share of returns within 20 m",
            **dict.fromkeys(HDL_64E, "548 scans in dense fog: hardly any return below 2.5 m"),
            "*": "the HDL-32E and HDL-64E were compared in fog",
        },
        "snow": {
            "velodyne/vlp-32c": "published counts within 4 m from light to extreme snow",
            "*": "the VLP-32C was compared in snow",
        },
    },
)
