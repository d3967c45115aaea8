"""Drops of rain and flakes of snow whose echo one sensor can detect: how many there are in a beam, where, how large."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Ints, Reals, State, namespace
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.sensors.light.air import FieldOnDevice
from parhelion.weather.detectable import Detectable, obscured, sample

WHITE_BRDF = 1.0 / math.pi
"""BRDF of a white board [1/sr]."""
COUNT_LIMIT = 400
"""A count beyond any that matters."""


@kernel_tree()
@dataclass
class FallingTables:
    """Drops of rain or flakes of snow whose echo can be detected, as tables for kernels."""

    origin: int
    mean: Reals
    """Mean number in a beam."""
    by_range: Reals
    """Range, logarithm of the tail of sizes, echo per backscatter, and 1 / area of the beam, at even probability."""
    range_steps: int
    by_tail: Reals
    """Diameter, backscatter, and area taken away, at even steps of the logarithm of the tail."""
    last_tail: int
    tail_start: Reals
    tail_per: Reals
    """Steps per unit of that logarithm."""

    def draw(self, u: Reals, v: Reals) -> tuple[Reals, Reals, Reals]:
        """Range [m], echo in units of P_min, and share of the beam taken away, of drops by two uniform numbers."""
        dr, mi = running_engine().dr, running_engine().mi
        xp = namespace(u)
        place = u * float(self.range_steps)
        step = mi.UInt32(place)
        low, high = (dr.gather(mi.Vector4f, self.by_range, step + k) for k in (0, 1))
        row = low + (place - mi.Float(step)) * (high - low)
        tail = (row.y + dr.log(v) - self.tail_start) * self.tail_per
        tail = xp.clip(tail, 0.0, self.last_tail - 1e-3)
        step = mi.UInt32(tail)
        low, high = (dr.gather(mi.Vector4f, self.by_tail, step + k) for k in (0, 1))
        drop = low + (tail - mi.Float(step)) * (high - low)
        # A flake that fills the beam sends back no more than a white board: backscatter over the beam's area, at most.
        backscatter = xp.minimum(drop.y, WHITE_BRDF / row.w)
        return row.x, backscatter * row.z, xp.minimum(drop.z * row.w, 1.0)

    def count(self, u: Reals, factor: Reals, most: Ints) -> Ints:
        """Poisson counts of mean `mean * factor` by inversion, up to `most`."""
        dr, mi = running_engine().dr, running_engine().mi
        mean = self.mean * factor
        chance = dr.exp(-mean)

        def step(k: Ints, chance: Reals, below: Reals) -> State:
            k = k + 1
            chance = chance * mean / mi.Float(k)
            return k, chance, below + chance

        state = (mi.UInt32(0), mi.Float(chance), mi.Float(chance))
        # Float32 sums may stay below the largest u: the limit is beyond any count that matters.
        k, _, _ = dr.while_loop(state, lambda k, chance, below: (below < u) & (k < most), step)
        return k


@dataclass
class Falling:
    """Drops or flakes of one kind, as one sensor meets them."""

    tables: FallingTables
    mean: float
    """Mean number in a beam."""
    depth: float
    """Mean optical depth of the drawn ones together, one way."""
    farthest_m: float
    """Where the farthest can be detected."""

    @classmethod
    def of(
        cls,
        engine: Engine,
        origin: int,
        table: Detectable,
        *,
        backscatter: Callable[[NDArray[Any]], NDArray[Any]],
        geometry: Callable[[NDArray[Any]], NDArray[Any]],
        area: Callable[[NDArray[Any]], NDArray[Any]],
        taken: Callable[[NDArray[Any]], NDArray[Any]],
    ) -> Falling:
        """`backscatter` [m^2/sr] and what is `taken` from the beam [m^2], by diameter [mm]; `geometry` echo in units of
        P_min per backscatter, and `area` of the beam [m^2], by range [m]."""
        dr, mi = engine.dr, engine.mi
        span, size = table.range_m, table.diameter_mm
        blocked = taken(size)
        last = len(size) - 1
        start, end = float(table.log_tail_steps[0]), float(table.log_tail_steps[-1])
        tables = FallingTables(
            origin=origin, mean=dr.opaque(mi.Float, table.mean),
            by_range=engine.table(np.stack([span, table.log_tail, geometry(span), 1.0 / area(span)], axis=1)),
            range_steps=len(span) - 1,
            by_tail=engine.table(np.stack([size, backscatter(size), blocked, 0.0 * size], axis=1)),
            last_tail=last, tail_start=dr.opaque(mi.Float, start),
            tail_per=dr.opaque(mi.Float, last / (end - start) if end != start else 0.0),
        )  # fmt: skip
        u = (np.arange(256) + 0.5) / 256
        at, drop = sample(table, *(axis.ravel() for axis in np.meshgrid(u, u)))
        depth = float(table.mean * np.mean(obscured(taken(drop), area(at))))
        return cls(tables, float(table.mean), depth, float(span[-1]))

    def most(self, field: FieldOnDevice | None) -> int:
        """A count that no beam passes: the chance of more is below one in 10^10 where they are densest."""
        mean = self.mean * (1.0 if field is None else field.largest_factor)
        chance = below = math.exp(-mean)
        k = 0
        while 1.0 - below > 1e-10 and k < COUNT_LIMIT:
            k += 1
            chance *= mean / k
            below += chance
        return k
