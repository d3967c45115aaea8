"""Sensors: one base class, one table of kinds, one tree of data sheets.

ph.sensors()            # {"lidar": ["hesai/at128", ...], "imu": [...], ...}: every kind, with its presets
"""

from __future__ import annotations

import sys
from types import ModuleType


class _Sensors(ModuleType):
    """Callable module: `ph.sensors` is a package, and `ph.sensors()` lists the sensors."""

    def __call__(self) -> dict[str, list[str]]:
        """Every kind of sensor, with the names of its presets."""
        from parhelion.sensors.kinds import kinds

        return {name: kind.preset_names() for name, kind in kinds().items()}


sys.modules[__name__].__class__ = _Sensors
