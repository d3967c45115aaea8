"""Curves over range that a preset gives as points, ready for lookup in kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from parhelion.core.arrays import namespace
from parhelion.core.errors import ConfigError
from parhelion.rays.device import Engine

_STEPS = 2048


class Curve:
    """Straight lines between points (range [m], value), level outside them."""

    def __init__(self, engine: Engine, field: str, points: Sequence[tuple[float, float]]) -> None:
        ranges, values = np.asarray(points, dtype=np.float64).T
        if np.any(np.diff(ranges) <= 0):
            raise ConfigError(f"{field}: ranges must increase from point to point")
        # An even grid needs no search in the kernel; corners between its points are rounded by half a step at most.
        grid = np.linspace(0.0, max(float(ranges[-1]), 1e-3), _STEPS + 1)
        self._engine = engine
        self._values = engine.table(np.interp(grid, ranges, values))
        self._steps_per_m = engine.dr.opaque(engine.mi.Float, _STEPS / grid[-1])

    def __call__(self, range_m: Any, active: Any = True) -> Any:
        """Values at kernel ranges [m]."""
        dr, mi = self._engine.dr, self._engine.mi
        place = namespace(range_m).clip(range_m * self._steps_per_m, 0.0, _STEPS - 1e-3)
        below = mi.UInt32(place)
        low = dr.gather(mi.Float, self._values, below, active)
        high = dr.gather(mi.Float, self._values, below + 1, active)
        return low + (place - mi.Float(below)) * (high - low)
