"""Beams of one launch: origin, direction, time and random keys of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Float, Int, Keys, Masks, Vectors, namespace
from parhelion.core.errors import ConfigError
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine


@dataclass
class BeamAim:
    """Origin and direction of beams in the scene's local frame, as kernel variables."""

    axis: Vectors
    """Unit direction of the beam."""
    left: Vectors
    """Unit vector to the left of the axis."""
    origin: Vectors
    """Origin of the beam [m]."""
    time: Float
    """Time after the window's start [s]."""
    pulse_draw: Float
    """Random number of the pulse in (0, 1) for weather that varies from pulse to pulse; 0 otherwise."""
    beam: Int
    """Number of the beam."""
    gain: Float | None = None
    """Strength of the beam's channel relative to the nominal one; None if all channels are equal."""


@kernel_tree()
@dataclass
class Beams:
    """Beams of one launch, as evaluated device arrays of equal length."""

    count: int
    scan: Int
    """Number of the scan within the launch."""
    shot: Int
    """Row in the table of shots."""
    rows: tuple[Float, Float, Float]
    """Axis and time, left and pulse draw, origin and gain: four numbers per beam each, read by one access."""
    has_gain: bool = False
    """True if the rows contain gains; otherwise all gains are 1."""
    looks: int = 0
    """Speckle patterns whose mean the gains contain; 0 without speckle."""

    def draws(self, engine: Engine, beam: Int, keys: Keys) -> tuple[Int, Keys]:
        """Counters and keys of the random draws: shot numbers, and the words of `keys` of the scans."""
        dr, mi = engine.dr, engine.mi
        scan = dr.gather(mi.UInt32, self.scan, beam)
        low, high = (dr.gather(mi.UInt32, cast("Int", word), scan) for word in keys)
        return dr.gather(mi.UInt32, self.shot, beam), (low, high)

    def aim(self, engine: Engine, beam: Int) -> BeamAim:
        """Aim of beams by number."""
        dr, mi = engine.dr, engine.mi
        axis, left, origin = (dr.gather(mi.Vector4f, rows, beam) for rows in self.rows)
        return BeamAim(
            mi.Vector3f(axis.x, axis.y, axis.z),
            mi.Vector3f(left.x, left.y, left.z),
            mi.Point3f(origin.x, origin.y, origin.z),
            axis.w,
            left.w,
            beam,
            origin.w if self.has_gain else None,
        )


# ---- Curves over range, tabulated for lookup in kernels -------------------------------------------------------------


_STEPS = 2048
_LOCAL_M = 0.25


@kernel_tree()
@dataclass
class RangeCurve:
    """Function of range [m] on a regular grid: linear between points, constant beyond the last."""

    rows: Float
    """Value at each grid point, and difference to the next."""
    steps_per_m: Float
    """Grid points per metre."""

    @classmethod
    def of(cls, engine: Engine, field: str, points: Sequence[tuple[float, float]]) -> RangeCurve:
        """Linear interpolation of points (range [m], value), constant outside; `field` is named in errors."""
        ranges, values = np.asarray(points, dtype=np.float64).T
        if np.any(np.diff(ranges) <= 0):
            raise ConfigError(f"{field}: ranges must increase from point to point")
        # A regular grid needs no search in the kernel; corners between grid points are rounded by at most half a step.
        grid = curve_grid(float(ranges[-1]))
        return cls.on_grid(engine, grid, np.interp(grid, ranges, values))

    @classmethod
    def on_grid(cls, engine: Engine, grid: NDArray[np.float64], values: NDArray[np.float64]) -> RangeCurve:
        """Curve through values at the points of `curve_grid`."""
        rows = np.stack([values, np.diff(values, append=values[-1])], axis=1)
        return cls(engine.table(rows), engine.dr.opaque(engine.mi.Float, _STEPS / grid[-1]))

    def __call__(self, range_m: Float, active: Masks = True) -> Float:
        """Values at kernel ranges [m]."""
        dr, mi = running_engine().dr, running_engine().mi
        place = namespace(range_m).clip(range_m * self.steps_per_m, 0.0, float(_STEPS))
        below = mi.UInt32(place)
        row = dr.gather(mi.Vector2f, self.rows, below, active)
        return dr.fma(place - mi.Float(below), row.y, row.x)

    def around(self, range_m: Float, active: Masks = True) -> LocalCurve:
        """Linear approximation for ranges within some decimetres: the table is read once."""
        here = self(range_m, active)
        return LocalCurve(range_m, here, (self(range_m + _LOCAL_M, active) - here) / _LOCAL_M)


@dataclass
class LocalCurve:
    """Linear approximation of a curve near one range of each beam, never below zero."""

    range: Float
    here: Float
    slope: Float

    def __call__(self, range_m: Float, active: Masks = True) -> Float:
        """Values at kernel ranges [m]."""
        return namespace(range_m).maximum(self.here + self.slope * (range_m - self.range), 0.0)


def curve_grid(last_m: float) -> NDArray[np.float64]:
    """Grid of ranges [m] for a curve that ends at `last_m`."""
    return np.linspace(0.0, max(last_m, 1e-3), _STEPS + 1)
