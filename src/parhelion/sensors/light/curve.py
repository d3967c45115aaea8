"""Curves over range that a data sheet gives as points, ready for lookup in kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Masks, Reals, namespace
from parhelion.core.errors import ConfigError
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine

_STEPS = 2048
_LOCAL_M = 0.25


@kernel_tree()
@dataclass
class Curve:
    """A function of range [m] on an even grid: straight lines between its points, level behind the last."""

    rows: Reals
    """Value at each point of the grid, and how much it rises to the next."""
    steps_per_m: Reals

    @classmethod
    def of(cls, engine: Engine, field: str, points: Sequence[tuple[float, float]]) -> Curve:
        """Straight lines between points (range [m], value), level outside them; `field` is named in errors."""
        ranges, values = np.asarray(points, dtype=np.float64).T
        if np.any(np.diff(ranges) <= 0):
            raise ConfigError(f"{field}: ranges must increase from point to point")
        # An even grid needs no search in the kernel; corners between its points are rounded by half a step at most.
        grid = curve_grid(float(ranges[-1]))
        return cls.on_grid(engine, grid, np.interp(grid, ranges, values))

    @classmethod
    def on_grid(cls, engine: Engine, grid: NDArray[np.float64], values: NDArray[np.float64]) -> Curve:
        """The curve through values at the points of `curve_grid`."""
        rows = np.stack([values, np.diff(values, append=values[-1])], axis=1)
        return cls(engine.table(rows), engine.dr.opaque(engine.mi.Float, _STEPS / grid[-1]))

    def __call__(self, range_m: Reals, active: Masks = True) -> Reals:
        """Values at kernel ranges [m]."""
        dr, mi = running_engine().dr, running_engine().mi
        place = namespace(range_m).clip(range_m * self.steps_per_m, 0.0, float(_STEPS))
        below = mi.UInt32(place)
        row = dr.gather(mi.Vector2f, self.rows, below, active)
        return dr.fma(place - mi.Float(below), row.y, row.x)

    def around(self, range_m: Reals, active: Masks = True) -> LocalCurve:
        """The same for ranges within some decimetres of one, by a straight line: the table is read once, here."""
        here = self(range_m, active)
        return LocalCurve(range_m, here, (self(range_m + _LOCAL_M, active) - here) / _LOCAL_M)


@dataclass
class LocalCurve:
    """A curve near one range of each beam: a straight line, never below zero."""

    range: Reals
    here: Reals
    slope: Reals

    def __call__(self, range_m: Reals, active: Masks = True) -> Reals:
        """Values at kernel ranges [m]."""
        return namespace(range_m).maximum(self.here + self.slope * (range_m - self.range), 0.0)


def curve_grid(last_m: float) -> NDArray[np.float64]:
    """The ranges [m] at which a curve that ends at `last_m` is kept."""
    return np.linspace(0.0, max(last_m, 1e-3), _STEPS + 1)
