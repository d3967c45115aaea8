"""Optical depth of the air between sensor and target, in kernels.

In homogeneous weather, optical depth is extinction times range. In heterogeneous weather, the field is integrated once
per small group of neighbouring beams, along the central beam, and sub-rays look up their own range. Fields vary over
metres, while the beams of a group are within about a metre of each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Float, Int, Reals, State, namespace
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.replay import Rows
from parhelion.sensors.optics.beams import BeamAim, Beams
from parhelion.weather.air import AirComponent, AirContents
from parhelion.weather.fields import CELLS, DensityField, factor
from parhelion.weather.grids import DensityGrid
from parhelion.weather.media import PulseLaw

STEPS = 32
"""Steps of the integral. Their ends are uniform in the square root of range, so they are short near the sensor."""


@kernel_tree()
@dataclass
class Air:
    """Attenuation of the beams of one launch."""

    extinction: Float
    """Homogeneous one-way extinction [1/m], including clear air."""
    varying: list[VaryingExtinction] = field(default_factory=list)
    """Homogeneous extinction that varies from pulse to pulse."""
    tables: list[DepthTable | GridDepth] = field(default_factory=list)
    """Integrals of heterogeneous extinction."""
    drawn: list[DrawnDepth] = field(default_factory=list)
    """Particles that are drawn individually. They attenuate the beam separately, so they are subtracted here."""

    def depth(self, aim: BeamAim, range_m: Float) -> Float:
        """Optical depth from the sensor to a range, one way."""
        depth = self.extinction * range_m
        for one in self.varying:
            depth = depth + one.law(one.extinction, aim.pulse_draw) * range_m
        for table in self.tables:
            depth = depth + table.at(aim, range_m)
        for drops in self.drawn:
            depth = depth - drops.at(aim, range_m)
        return depth

    def around(self, aim: BeamAim, range_m: Float) -> Air | LocalAir:
        """Linear approximation for ranges within about a metre: tables are read once instead of per range."""
        if not self.tables:
            return self
        here = self.depth(aim, range_m)
        return LocalAir(range_m, here, (self.depth(aim, range_m + _LOCAL_M) - here) / _LOCAL_M)


def two_way(air: Air | LocalAir, clear_per_m: Reals, aim: BeamAim, range_m: Float) -> Float:
    """Two-way transmittance exp(-2 tau) of the weather up to a range, without that of clear air.

    `clear_per_m` is the extinction of clear air [1/m], which `air` includes.
    """
    return running_engine().dr.exp(-2.0 * (air.depth(aim, range_m) - clear_per_m * range_m))


@kernel_tree(fixed=("law",))
@dataclass
class VaryingExtinction:
    """Homogeneous extinction that varies from pulse to pulse."""

    law: PulseLaw
    extinction: Float
    """Argument of the law [1/m]."""


_LOCAL_M = 0.5
FRONT_M = 2.0
"""Range [m] at which the density of individually drawn drops is evaluated; they lie within a few metres."""


@kernel_tree()
@dataclass
class DrawnDepth:
    """Mean optical depth of the individually drawn particles of one medium."""

    depth: Float
    """Optical depth of all particles at mean density."""
    per_m: Float
    """Inverse of the range within which they lie [1/m]."""
    field: DeviceField | None
    """Density field, or None in homogeneous weather."""

    def at(self, aim: BeamAim, range_m: Float) -> Float:
        """Optical depth to a range along beams."""
        depth = self.depth if self.field is None else self.depth * self.field.factor(aim, FRONT_M)
        return depth * namespace(range_m).minimum(range_m * self.per_m, 1.0)


@dataclass
class LocalAir:
    """Linear approximation of optical depth near one range of each beam."""

    range: Float
    here: Float
    slope: Float

    def depth(self, aim: BeamAim, range_m: Float) -> Float:
        """Optical depth from the sensor to a range, one way."""
        return self.here + self.slope * (range_m - self.range)


@kernel_tree(fixed=("law",))
@dataclass
class DepthTable:
    """Optical depth along groups of beams, at the ends of STEPS steps."""

    group: int
    """Beams per group."""
    max_range: Float
    """Range at the end of the last step [m]."""
    law: PulseLaw | None
    """Pulse-to-pulse variation of the depth, or None."""
    rows: Float
    """Depth at the start of each step, and increment of the step."""

    def at(self, aim: BeamAim, range_m: Float) -> Float:
        """Optical depth to a range along beams."""
        dr, mi = running_engine().dr, running_engine().mi
        xp = namespace(range_m)
        place = xp.minimum(dr.sqrt(range_m / self.max_range) * STEPS, STEPS - 1e-3)
        step = mi.UInt32(place)
        row = dr.gather(mi.Vector2f, self.rows, (aim.beam // self.group) * STEPS + step)
        below = mi.Float(step)
        depth = row.x + row.y * ((place - below) * (place + below) / (2.0 * below + 1.0))
        return depth if self.law is None else cast("Float", self.law(depth, aim.pulse_draw))


def integrate(
    engine: Engine,
    beams: Beams,
    group: int,
    fields: list[DeviceField],
    max_range: Float,
    *,
    law: PulseLaw | None = None,
) -> DepthTable:
    """Integrate fields up to a range [m]; `law` is the pulse-to-pulse variation of the depth."""
    dr, mi = engine.dr, engine.mi
    count = beams.count // group
    rows = dr.empty(mi.Float, 2 * STEPS * count)  # each of them is written
    engine.frozen(_integrate)(beams, group, Rows.cached(engine, count), fields, max_range, rows)
    return DepthTable(group, max_range, law, rows)


def _integrate(beams: Beams, size: int, groups: Rows, fields: list[DeviceField], max_range: Float, rows: Float) -> None:
    """Fill the rows of a table, for groups of `size` beams."""
    engine = running_engine()
    dr, mi, group = engine.dr, engine.mi, groups.index
    aim = beams.aim(engine, group * size + size // 2)
    scale = max_range / STEPS**2

    def step(k: Int, depth: Float) -> State:
        number = mi.Float(k)
        middle, length = scale * (number * (number + 1.0) + 0.5), scale * (2.0 * number + 1.0)
        factors = [one.factor(aim, middle) for one in fields]
        passed = mi.Float(0.0)
        for one, density in zip(fields, factors, strict=True):
            passed += one.mean * density * length
        dr.scatter(rows, mi.Vector2f(depth, passed), group * STEPS + k)
        return k + 1, depth + passed

    dr.while_loop((mi.UInt32(0), mi.Float(0.0)), lambda k, depth: k < STEPS, step)
    dr.eval(rows)


@kernel_tree()
@dataclass
class DeviceField:
    """Medium with a heterogeneous density."""

    mean: Float
    """Extinction at mean density [1/m]."""
    table: Float
    """Density factors."""
    flat: bool
    """True if the factors are the same at every height."""
    largest_factor: float
    """Largest density factor."""
    per_m: Float
    """Cells per metre."""
    start: list[Float]
    """Position of the scene origin [cells]."""
    wind: list[Float]
    """Drift of the field [cells/s]."""

    @classmethod
    def of(cls, engine: Engine, part: AirComponent, air: AirContents, local_origin: NDArray[np.float64]) -> DeviceField:
        """Copy the density field of a component to the device."""
        assert part.field is not None
        dr, mi = engine.dr, engine.mi
        cell = part.field.cell_m
        # Reduced to one period in float64, so that worlds far from the origin lose no precision.
        start = np.mod((local_origin - air.drift_m) / cell, CELLS)
        return cls(
            dr.opaque(mi.Float, part.extinction_per_m),
            uploaded(engine, part.field),
            part.field.flat,
            float(part.field.table.max()),
            dr.opaque(mi.Float, 1.0 / cell),
            [dr.opaque(mi.Float, float(v)) for v in start],
            [dr.opaque(mi.Float, float(v) / cell) for v in air.wind_m_s],
        )

    def factor(self, aim: BeamAim, range_m: Reals) -> Float:
        """Density factor at a range along beams."""
        places = [
            start + self.per_m * (o + range_m * d) - wind * aim.time
            for start, wind, o, d in zip(self.start, self.wind, aim.origin, aim.axis, strict=True)
        ]
        if self.flat:
            places[2] = 0.0 * places[2]
        return cast("Float", factor(self.table, *places))


_uploaded: dict[int, tuple[DensityField, Any]] = {}


def uploaded(engine: Engine, density: DensityField) -> Float:
    """Device copy of a density table, cached."""
    key = id(density.table)
    if key not in _uploaded or _uploaded[key][0].table is not density.table:
        if len(_uploaded) >= 8:
            _uploaded.clear()
        _uploaded[key] = (density, engine.table(density.table))
    return _uploaded[key][1]


@kernel_tree()
@dataclass
class DeviceGrid:
    """Extinction on a regular grid."""

    table: Float
    """Extinction at the nodes [1/m]."""
    size: list[Int]
    """Nodes along each axis."""
    cell_m: Float
    """Side of a cell [m]."""
    per_m: Float
    """Cells per metre."""
    start: list[Float]
    """Position of the scene origin [cells]."""

    @classmethod
    def of(cls, engine: Engine, grid: DensityGrid, per_mass: float, local_origin: NDArray[np.float64]) -> DeviceGrid:
        """Copy a grid to the device; `per_mass` is the mass extinction coefficient [m^2/kg]."""
        dr, mi = engine.dr, engine.mi
        # One layer of empty nodes is added on every side; points whose nearest node is in that layer are outside.
        padded = np.pad(grid.extinction(per_mass), 1)
        start = (local_origin - grid.origin_m) / grid.cell_m + 1.0
        return cls(
            engine.table(padded),
            [dr.opaque(mi.UInt32, n) for n in padded.shape],
            dr.opaque(mi.Float, grid.cell_m),
            dr.opaque(mi.Float, 1.0 / grid.cell_m),
            [dr.opaque(mi.Float, float(v)) for v in start],
        )

    def stretch(self, aim: BeamAim, max_range: Float) -> tuple[Float, Float]:
        """Entry and exit range of beams through the grid [m]; entry >= exit if a beam misses the grid."""
        dr, mi = running_engine().dr, running_engine().mi
        xp = namespace(max_range)
        enter, leave = mi.Float(0.0), mi.Float(max_range)
        for start, size, o, d in zip(self.start, self.size, aim.origin, aim.axis, strict=True):
            # A beam parallel to a grid plane is tilted slightly to avoid infinities.
            slope = self.per_m * dr.select(dr.abs(d) > 1e-9, d, 1e-9)
            first = -(start + self.per_m * o) / slope
            last = first + (mi.Float(size) - 1.0) / slope
            enter, leave = xp.maximum(enter, xp.minimum(first, last)), xp.minimum(leave, xp.maximum(first, last))
        return enter, leave

    def extinction(self, aim: BeamAim, range_m: Float) -> Float:
        """Extinction at a range along beams [1/m], linear between nodes."""
        dr, mi = running_engine().dr, running_engine().mi
        xp = namespace(range_m)
        index, share = [], []
        inside = mi.Bool(True)
        for start, size, o, d in zip(self.start, self.size, aim.origin, aim.axis, strict=True):
            place = start + self.per_m * (o + range_m * d)
            inside &= (place >= 0.0) & (place < mi.Float(size) - 1.0)
            place = xp.clip(place, 0.0, mi.Float(size) - 1.001)
            index.append(mi.UInt32(place))
            share.append(place - mi.Float(index[-1]))
        total = mi.Float(0.0)
        for corner in np.ndindex(2, 2, 2):
            row = mi.UInt32(0)
            weight = mi.Float(1.0)
            for at, size, i, s in zip(corner, self.size, index, share, strict=True):
                row = row * size + i + at
                weight *= s if at else 1.0 - s
            total += weight * dr.gather(mi.Float, self.table, row, inside)
        return total


@kernel_tree()
@dataclass
class GridDepth:
    """Optical depth of one grid along groups of beams, at the ends of STEPS equal steps through the grid.

    The steps cover the grid only, because steps over the whole range could skip small distant clouds.
    """

    group: int
    """Beams per group."""
    grid: DeviceGrid
    rows: Float
    """Depth at the start of each step, and increment of the step."""
    spans: Float
    """Range at which each group enters the grid [m], and steps per metre within it."""

    @classmethod
    def of(cls, engine: Engine, beams: Beams, group: int, grid: DeviceGrid, max_range: Float) -> GridDepth:
        """Integrate a grid along groups of beams."""
        dr, mi = engine.dr, engine.mi
        number = Rows.cached(engine, beams.count // group).index
        aim = beams.aim(engine, number * group + group // 2)
        enter, leave = grid.stretch(aim, max_range)
        met = enter < leave
        length = dr.select(met, leave - enter, 0.0) / STEPS
        # Each step is sampled at the centres of parts that are at most half a cell long.
        parts = mi.UInt32(dr.ceil(2.0 * length / grid.cell_m))
        part_m = length / namespace(length).maximum(mi.Float(parts), 1.0)
        rows = dr.zeros(mi.Float, 2 * STEPS * (beams.count // group))

        def step(k: Int, depth: Float) -> State:
            start = enter + mi.Float(k) * length
            _, passed = dr.while_loop(
                (mi.UInt32(0), mi.Float(0.0)),
                lambda j, passed: j < parts,
                lambda j, passed: (j + 1, passed + part_m * grid.extinction(aim, start + (mi.Float(j) + 0.5) * part_m)),
            )
            dr.scatter(rows, mi.Vector2f(depth, passed), number * STEPS + k)
            return k + 1, depth + passed

        dr.while_loop((mi.UInt32(0), mi.Float(0.0)), lambda k, depth: met & (k < STEPS), step)
        spans = dr.ravel(mi.Vector2f(enter, dr.select(met, 1.0 / length, 0.0)))
        dr.eval(rows, spans)
        return cls(group, grid, rows, spans)

    def at(self, aim: BeamAim, range_m: Float) -> Float:
        """Optical depth to a range along beams."""
        dr, mi = running_engine().dr, running_engine().mi
        xp = namespace(range_m)
        group = aim.beam // self.group
        span = dr.gather(mi.Vector2f, self.spans, group)
        place = xp.clip((range_m - span.x) * span.y, 0.0, float(STEPS))
        step = mi.UInt32(xp.minimum(place, STEPS - 0.5))
        row = dr.gather(mi.Vector2f, self.rows, group * STEPS + step)
        return row.x + row.y * (place - mi.Float(step))


_HALVINGS = 18


def range_of_depth(engine: Engine, tables: list[GridDepth], aim: BeamAim, depth: Float, reach: Float) -> Float:
    """Range [m] up to `reach` at which beams reach an optical depth, by bisection."""
    dr, mi = engine.dr, engine.mi

    def halve(k: Int, low: Float, high: Float) -> State:
        middle = 0.5 * (low + high)
        short = sum((table.at(aim, middle) for table in tables), start=mi.Float(0.0)) < depth
        return k + 1, dr.select(short, middle, low), dr.select(short, high, middle)

    state = (mi.UInt32(0), mi.Float(0.0), mi.Float(reach))
    _, _, high = dr.while_loop(state, lambda k, low, high: k < _HALVINGS, halve)
    return high
