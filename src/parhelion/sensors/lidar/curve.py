"""Curves over range that a preset gives as points, ready for lookup in kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parhelion.core.arrays import namespace
from parhelion.core.errors import ConfigError
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine

_STEPS = 2048


@kernel_tree()
@dataclass
class Curve:
    """Straight lines between points (range [m], value), level outside them."""

    values: Any
    """At even steps of range."""
    steps_per_m: Any

    @classmethod
    def of(cls, engine: Engine, field: str, points: Sequence[tuple[float, float]]) -> Curve:
        """The curve through points that the preset's field gives."""
        ranges, values = np.asarray(points, dtype=np.float64).T
        if np.any(np.diff(ranges) <= 0):
            raise ConfigError(f"{field}: ranges must increase from point to point")
        # An even grid needs no search in the kernel; corners between its points are rounded by half a step at most.
        grid = np.linspace(0.0, max(float(ranges[-1]), 1e-3), _STEPS + 1)
        return cls(engine.table(np.interp(grid, ranges, values)), engine.dr.opaque(engine.mi.Float, _STEPS / grid[-1]))

    def __call__(self, range_m: Any, active: Any = True) -> Any:
        """Values at kernel ranges [m]."""
        dr, mi = running_engine().dr, running_engine().mi
        place = namespace(range_m).clip(range_m * self.steps_per_m, 0.0, _STEPS - 1e-3)
        below = mi.UInt32(place)
        low = dr.gather(mi.Float, self.values, below, active)
        high = dr.gather(mi.Float, self.values, below + 1, active)
        return low + (place - mi.Float(below)) * (high - low)
