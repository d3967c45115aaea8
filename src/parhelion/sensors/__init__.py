"""Sensors: each one emits and receives; data sheets are data.

ph.sensors()            # {"lidar": ["hesai/at128", ...], "imu": [...], ...}: every kind there is, with its presets
"""

from __future__ import annotations

import sys
from types import ModuleType


def lidar_names() -> list[str]:
    """Names of the lidars that come with the package, such as `velodyne/vlp-16`, sorted."""
    from parhelion.sensors.optics.lidar.presets import preset_names

    return preset_names()


class _Sensors(ModuleType):
    """This module, which can be called: `ph.sensors` is a folder of code and a list of sensors alike."""

    def __call__(self) -> dict[str, list[str]]:
        """Every kind of sensor there is, with the names of its presets."""
        from parhelion.sensors.kinds import presets

        return presets()


sys.modules[__name__].__class__ = _Sensors
