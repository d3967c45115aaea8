"""Echoes of the air: detectable drops and flakes, drawn one by one, and the echoes of fog and dust."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import UNSET, Bool, Float, Int, IntVector, Keys, State, namespace
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.random import to_normal, to_unit, words
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.replay import Rows
from parhelion.rays.scene import NOTHING
from parhelion.sensors.optics.air import FRONT_M, Air, DeviceField, GridDepth, range_of_depth
from parhelion.sensors.optics.beams import BeamAim, Beams, RangeCurve, curve_grid
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.echoes import SCATTERER_BIT, Block, Echoes, EchoRows, ReturnEcho, echo_bits
from parhelion.sensors.optics.lidar.fmcw import brightest_speckle, speckle
from parhelion.weather.media import Medium
from parhelion.weather.particles import Detectable, obscured, sample

WHITE_BRDF = 1.0 / math.pi
"""BRDF of a white board [1/sr]."""
COUNT_LIMIT = 400
"""Upper limit of particles per beam, far above any count that occurs."""


@kernel_tree()
@dataclass
class ParticleTables:
    """Particles of one medium whose echo can be detected, as tables for kernels."""

    origin: int
    first_draw: int
    """Random draw of the particle count; the draws of the particles follow it."""
    mean: Float
    """Mean number per beam."""
    by_range: Float
    """Range [m], log of the size distribution's tail, echo per backscatter, and 1 / beam area, at equal steps of
    probability."""
    range_steps: int
    by_tail: Float
    """Diameter, backscatter and obscured area, at equal steps of the log of the tail."""
    last_tail: int
    tail_start: Float
    tail_per: Float
    """Steps per unit of that logarithm."""

    def draw(self, u: Float, v: Float) -> tuple[Float, Float, Float]:
        """Range [m], echo [P_min] and obscured share of the beam, of particles drawn by two uniform numbers."""
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
        # A flake that fills the beam reflects no more than a white board does.
        backscatter = xp.minimum(drop.y, WHITE_BRDF / row.w)
        return row.x, backscatter * row.z, xp.minimum(drop.z * row.w, 1.0)

    def count(self, u: Float, factor: Float, most: Int) -> Int:
        """Poisson counts of mean `mean * factor` by inversion, up to `most`."""
        dr, mi = running_engine().dr, running_engine().mi
        mean = self.mean * factor
        chance = dr.exp(-mean)

        def step(k: Int, chance: Float, below: Float) -> State:
            k = k + 1
            chance = chance * mean / mi.Float(k)
            return k, chance, below + chance

        state = (mi.UInt32(0), mi.Float(chance), mi.Float(chance))
        # A float32 sum may never reach the largest u; the limit ends the loop.
        k, _, _ = dr.while_loop(state, lambda k, chance, below: (below < u) & (k < most), step)
        return k


@dataclass
class DrawnParticles:
    """Detectable particles of one medium for one sensor."""

    tables: ParticleTables
    mean: float
    """Mean number per beam."""
    depth: float
    """Mean one-way optical depth of the drawn particles together."""
    farthest_m: float
    """Longest range at which a particle can be detected."""

    @classmethod
    def of(
        cls,
        engine: Engine,
        medium: Medium,
        table: Detectable,
        *,
        backscatter: Callable[[NDArray[Any]], NDArray[Any]],
        geometry: Callable[[NDArray[Any]], NDArray[Any]],
        area: Callable[[NDArray[Any]], NDArray[Any]],
        taken: Callable[[NDArray[Any]], NDArray[Any]],
    ) -> DrawnParticles:
        """Upload the tables of a medium.

        `backscatter` [m^2/sr] and obscured area `taken` [m^2] are functions of diameter [mm]; `geometry` (echo in units
        of P_min per backscatter) and beam `area` [m^2] are functions of range [m].
        """
        dr, mi = engine.dr, engine.mi
        span, size = table.range_m, table.diameter_mm
        blocked = taken(size)
        last = len(size) - 1
        start, end = float(table.log_tail_steps[0]), float(table.log_tail_steps[-1])
        tables = ParticleTables(
            origin=medium.code,
            first_draw=medium.draw,
            mean=dr.opaque(mi.Float, table.mean),
            by_range=engine.table(np.stack([span, table.log_tail, geometry(span), 1.0 / area(span)], axis=1)),
            range_steps=len(span) - 1,
            by_tail=engine.table(np.stack([size, backscatter(size), blocked, 0.0 * size], axis=1)),
            last_tail=last,
            tail_start=dr.opaque(mi.Float, start),
            tail_per=dr.opaque(mi.Float, last / (end - start) if end != start else 0.0),
        )
        u = (np.arange(256) + 0.5) / 256
        at, drop = sample(table, *(axis.ravel() for axis in np.meshgrid(u, u)))
        depth = float(table.mean * np.mean(obscured(taken(drop), area(at))))
        return cls(tables, float(table.mean), depth, float(span[-1]))

    def most(self, field: DeviceField | None) -> int:
        """Count that no beam exceeds: the probability of more is below 1e-10 where the particles are densest."""
        mean = self.mean * (1.0 if field is None else field.largest_factor)
        chance = below = math.exp(-mean)
        k = 0
        while 1.0 - below > 1e-10 and k < COUNT_LIMIT:
            k += 1
            chance *= mean / k
            below += chance
        return k


# ---- fog echo -------------------------------------------------------------------------------------------------------
# Echo of a volume of scatterers such as fog. Fog reflects light from every range, so the receiver sees a long, low
# signal and reports the range at which that signal, its speckle and the receiver's noise together pass the threshold.
# The signal is sampled in cells as long as the pulse, which fluctuate independently, at a random position in each cell,
# so that ranges are continuous.


FLUCTUATION = 0.15
"""Relative standard deviation of the fog echo from shot to shot: speckle of a laser of a few dozen modes (assumed)."""

_MOST_DEVIATIONS = 4.5
"""Signals that need a larger deviation to pass are skipped; one cell in 300 000 has it."""
_MOST_CELLS = 24
_DENSEST_FACTOR = 5.0
"""Ratio of the peak density of heterogeneous fog to its mean density; larger ratios hardly occur."""


@kernel_tree(fixed=("choice", "origin", "first_draw"))
@dataclass
class VolumeEcho:
    """Echo of one volume medium, with what kernels need to draw it."""

    choice: str
    """Cell above the threshold that is reported: 'first', 'last' or 'strongest'."""
    origin: int
    """Code of the medium."""
    first_draw: int
    """Number of its first random draw."""
    signal: RangeCurve
    """Signal at mean density without attenuation [P_min], by range."""
    nearest: Float
    """Start of the first cell [m]."""
    cell: Float
    """Length of a cell [m]."""
    cells: Int
    """Number of cells."""
    gap: Float
    """Shortest distance in front of a surface at which fog is resolved [m]. The echo of nearer fog adds less than a
    percent to the surface's echo and is left out."""
    noise_variance: Float
    """Variance of the receiver's noise [P_min^2]."""
    shot_noise: Float
    """Variance that each unit of signal adds."""
    field: DeviceField | None
    """Density field, or None for a homogeneous medium."""

    def draw(self, aim: BeamAim, air: Air, reach: Float, shot: Int, key: Keys) -> tuple[Float, Float]:
        """Range [m] and power of the reported echo, noise included; power 0 where no cell passes the threshold.

        Fog behind `reach` [m], the range of the surface that the beam meets, returns nothing.
        """
        dr, mi = running_engine().dr, running_engine().mi
        reach = reach - self.gap

        def read(range_m: Float, deviation: Float) -> Float:
            mean = self.signal(range_m) * dr.exp(-2.0 * air.depth(aim, range_m))
            if self.field is not None:
                mean = mean * self.field.factor(aim, range_m)
            if aim.gain is not None:
                mean = mean * aim.gain
            variance = self.noise_variance + self.shot_noise * mean + FLUCTUATION**2 * mean * mean
            return mean + deviation * dr.sqrt(variance)

        def step(k: Int, best: Any, where: Float) -> State:
            # One set of random words gives the deviations of two cells and the sampled position in each.
            a, b, *places = words(key, shot, (k >> 1) + self.first_draw)
            for number, (deviation, place) in enumerate(zip(to_normal(a, b), places, strict=True)):
                range_m = self.nearest + (mi.Float(k + number) + to_unit(place)) * self.cell
                value = read(range_m, deviation)
                passes = (k + number < self.cells) & (range_m < reach) & (value >= 1.0)
                if self.choice == "first":
                    passes &= best <= 0.0
                elif self.choice == "strongest":
                    passes &= value > best
                best, where = dr.select(passes, value, best), dr.select(passes, range_m, where)
            return k + 2, best, where

        state = (mi.UInt32(0), mi.Float(0.0), mi.Float(1.0))
        _, best, where = dr.while_loop(
            state, lambda k, best, where: (k < self.cells) & (self.nearest + mi.Float(k) * self.cell < reach), step
        )
        return where, best


def volume_echo(
    engine: Engine,
    medium: Medium,
    config: LidarConfig,
    range_m: NDArray[np.float64],
    signal: NDArray[np.float64],
    extinction_per_m: float,
    noise: tuple[float, float],
    field: DeviceField | None,
    looks: int,
) -> VolumeEcho | None:
    """Tables for kernels; None if a medium of this density is never detected.

    `signal` [P_min] is that of the homogeneous medium at increasing ranges, attenuated by `extinction_per_m` (one way,
    all media together). `noise` holds the receiver's standard deviation and the variance that each unit of signal adds.
    `looks` is the number of averaged speckle patterns, 0 without speckle.
    """
    least, receiver, limits = least_signal(*noise), config.receiver, config.range
    strongest = max(receiver.channel_gain, default=1.0) * brightest_speckle(looks)
    cell_m = 0.5 * (SPEED_OF_LIGHT_M_S * receiver.pulse_length_ns * 1e-9)
    # In heterogeneous fog, a dense bank behind thin air is attenuated less than in fog of mean density.
    dimmed = np.exp(-2.0 * extinction_per_m * range_m)
    hopeful = signal if field is None else _DENSEST_FACTOR * signal / np.sqrt(dimmed)
    seen = np.flatnonzero(strongest * hopeful >= least)
    if not len(seen):
        return None
    first, last = max(limits.min_m, float(range_m[seen[0]]) - cell_m), float(range_m[seen[-1]])
    cell = max(cell_m, (last - first) / _MOST_CELLS)
    cells = max(1, int(np.ceil((last - first) / cell)))
    grid = curve_grid(first + (cells + 1) * cell)
    curve = RangeCurve.on_grid(engine, grid, np.interp(grid, range_m, signal / dimmed))
    number = engine.number
    choice = {"first": "first", "all": "first", "last": "last"}.get(receiver.returns, "strongest")
    return VolumeEcho(
        choice,
        medium.code,
        medium.draw,
        curve,
        number(first),
        number(cell),
        engine.whole(cells),
        number(receiver.merge_distance_m),
        number(noise[0] ** 2),
        number(noise[1]),
        field,
    )


def least_signal(noise_sigma: float, shot_noise: float) -> float:
    """Weakest mean signal [P_min] that can pass the threshold with `_MOST_DEVIATIONS` of noise."""

    def reads(signal: float) -> float:
        variance = noise_sigma**2 + shot_noise * signal + (FLUCTUATION * signal) ** 2
        return signal + _MOST_DEVIATIONS * float(np.sqrt(variance))

    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if reads(middle) < 1.0 else (low, middle)
    return high


# ---- Echoes of the air as rows that compete with surface echoes in the receiver -------------------------------------
# Particles are drawn one by one, but only those whose echo can be detected (`parhelion.weather.particles`). A volume of
# scatterers returns where its signal passes the threshold (`VolumeEcho`). A medium on grids returns where the optical
# depth along the beam is large enough (`GridEcho`).


GRID_LEAST_POWER = 1.5
"""Least power [P_min] of a return that VANE's rule decides on, so that it is detected."""
_GRID_LEAST_OVERLAP = 0.1
"""Overlap below which the rule no longer makes the echo detectable. The echo then has its physical power, so that dust
right in front of the sensor blinds it."""
_HELD_DROPS = 4
"""Particles per beam that kernels hold in registers; few beams have more."""
_MOST_ROWS = 16
"""Largest number of rows per beam that is allocated without counting."""


@kernel_tree()
@dataclass
class GridEcho:
    """Echo of one medium on grids."""

    origin: int
    """Code of the medium."""
    first_draw: int
    """Number of its random draw."""
    tables: list[GridDepth]
    gain: Float
    """Echo power [P_min] per extinction times T^2 xi / range^2."""
    full_depth: Float
    """Optical depth above which the medium always returns."""
    least_power: Float
    """Least power of a return where the receiver collects enough [P_min]; 0 if echoes have their own power."""
    overlap: RangeCurve | None
    """Share of the return that the receiver collects, by range; None if it collects everything."""
    max_range: Float
    """Search range [m]."""


@kernel_tree()
@dataclass
class Scatterers:
    """Media whose echoes a launch draws."""

    falling: list[tuple[ParticleTables, DeviceField | None]]
    volumes: list[VolumeEcho]
    grids: list[GridEcho]
    looks: int
    """Speckle patterns that their echoes average; 0 without speckle."""


@kernel_tree()
@dataclass
class ScattererRows:
    """Echoes of the air and their rows per beam."""

    volumes: list[EchoRows]
    """One row per beam for each volume echo, receiver noise included."""
    grids: list[EchoRows]
    """One row per beam for each medium on grids."""
    falling: EchoRows | None
    """Rows of drawn particles, or None if there are none."""
    first: Int = UNSET
    """First row of each beam's particles."""
    count: Int = UNSET
    """Number of particles per beam."""
    clear: Float | None = UNSET
    """Share of a surface's power that the particles transmit both ways, per beam."""

    def join(self, engine: Engine, blocks: list[Block], beam: Int) -> list[Block]:
        """Blocks of the surfaces that these beams meet, attenuated, followed by the blocks of the air."""
        dr, mi = engine.dr, engine.mi
        if self.falling is not None:
            left = dr.gather(mi.Float, cast("Float", self.clear), beam)
            blocks = [replace(block, scale=left) for block in blocks]
        blocks = [*blocks, *(Block(rows, beam, mi.UInt32(1), held=1, is_read=True) for rows in self.volumes)]
        blocks += [Block(rows, beam, mi.UInt32(1), held=1) for rows in self.grids]
        if self.falling is not None:
            # A single number is the constant number of rows per beam.
            first = beam * self.first if dr.width(self.first) == 1 else dr.gather(mi.UInt32, self.first, beam)
            count = dr.gather(mi.UInt32, self.count, beam)
            blocks.append(Block(self.falling, first, count, held=_HELD_DROPS))
        return blocks


@dataclass
class ScattererCounts:
    """Number of drops and flakes per beam, counted or as an upper limit."""

    rows: int
    """Rows of all beams."""
    first: Int
    """First row of each beam; the number of rows per beam if every beam has memory for its upper limit."""
    limits: list[Int] | None
    """Upper limit of each kind per beam if every beam has memory for it; None if particles were counted."""
    counts: list[Int] | None
    """Number of each kind per beam if particles were counted; None otherwise."""


def count_scatterers(
    engine: Engine, falling: list[tuple[DrawnParticles, DeviceField | None]], beams: Beams, keys: Keys
) -> ScattererCounts | None:
    """Reserve rows for drops and flakes; None if there are none.

    If few are possible, every beam gets memory for the upper limit and nothing is counted. Otherwise they are counted
    first. Python waits for the counts, so this runs early in a scan.
    """
    if not falling:
        return None
    dr = engine.dr
    most = [drops.most(field) for drops, field in falling]
    rows = sum(most)
    if rows <= _MOST_ROWS:
        limits = [engine.whole(limit) for limit in most]
        return ScattererCounts(beams.count * rows, engine.whole(rows), limits, None)
    everyone = Rows.cached(engine, beams.count)
    limits = [engine.whole(COUNT_LIMIT)] * len(falling)
    kinds = [(drops.tables, field) for drops, field in falling]
    total, counts = engine.frozen(_count)(kinds, limits, beams, everyone, keys)
    dr.eval(total, *counts)
    first = dr.prefix_sum(total)
    return ScattererCounts(int(first[beams.count - 1] + total[beams.count - 1]), first, None, counts)


def _count(
    falling: list[tuple[ParticleTables, DeviceField | None]],
    limits: list[Int],
    beams: Beams,
    everyone: Rows,
    keys: Keys,
) -> tuple[Int, list[Int]]:
    """Draw the number of particles of each kind per beam, and their sum."""
    engine = running_engine()
    mi, beam = engine.mi, everyone.index
    aim, (shot, key) = beams.aim(engine, beam), beams.draws(engine, beam, keys)
    total, counts = mi.UInt32(0), []
    for limit, (drops, field) in zip(limits, falling, strict=True):
        u = to_unit(words(key, shot, drops.first_draw)[0])
        factor = mi.Float(1.0) if field is None else field.factor(aim, FRONT_M)
        counts.append(drops.count(u, factor, limit))
        total += counts[-1]
    return total, counts


def draw_scatterers(
    engine: Engine,
    scatterers: Scatterers,
    drawn: ScattererCounts | None,
    echoes: Echoes,
    beams: Beams,
    keys: Keys,
    air: Air,
) -> ScattererRows | None:
    """Echoes of the air in every beam, up to the surfaces that it meets."""
    dr, mi = engine.dr, engine.mi
    if drawn is not None and drawn.rows == 0:
        drawn, scatterers = None, replace(scatterers, falling=[])
    if drawn is None and not scatterers.volumes and not scatterers.grids:
        return None
    # The probes suffice to locate the surfaces.
    met = Echoes(echoes.slots, echoes.wide if echoes.probes is None else None, None, None, None, [], echoes.probes)
    store = None if drawn is None else dr.empty(mi.UInt32, 4 * drawn.rows)
    places = None if drawn is None else (drawn.first, drawn.limits, drawn.counts)
    everyone = Rows.cached(engine, beams.count)
    volumes, grids, count, clear = engine.frozen(_draw)(scatterers, places, met, beams, everyone, keys, air, store)
    if drawn is None:
        return ScattererRows(volumes, grids, None)
    return ScattererRows(volumes, grids, EchoRows(cast("Int", store)), drawn.first, count, clear)


def _draw(
    scatterers: Scatterers,
    places: tuple[Int, list[Int] | None, list[Int] | None] | None,
    met: Echoes,
    beams: Beams,
    everyone: Rows,
    keys: Keys,
    air: Air,
    store: Int | None,
) -> tuple[list[EchoRows], list[EchoRows], Int, Float | None]:
    """Echoes of volumes and grids, number of particles per beam, and the surface power that they transmit."""
    engine = running_engine()
    dr, mi, beam = engine.dr, engine.mi, everyone.index
    aim, (shot, key) = beams.aim(engine, beam), beams.draws(engine, beam, keys)
    if scatterers.looks:
        own = speckle(key, shot, scatterers.looks, of_air=True)
        if beams.looks:
            own = own / speckle(key, shot, beams.looks)
        aim = replace(aim, gain=cast("Float", own) if aim.gain is None else aim.gain * own)
    total: Int = UNSET
    counts: list[Int] = []
    row: Int = UNSET
    if places is not None:
        first, limits, known = places
        if limits is None:
            assert known is not None
            counts, row = known, first
            total = mi.UInt32(0)
            for count in counts:
                total = total + count
        else:
            total, counts = _count(scatterers.falling, limits, beams, everyone, keys)
            row = beam * first
    lonely = not scatterers.volumes and not scatterers.grids
    reach = met.reach(engine, beam, total > 0 if lonely else mi.Bool(True))
    volumes, grids = [], []
    for volume in scatterers.volumes:
        echo = volume.draw(aim, air, reach, shot, key)
        volumes.append(EchoRows(dr.ravel(_bits(engine, *echo, volume.origin, reach)[0])))
    for grid in scatterers.grids:
        echo = _grid_echo(engine, grid, aim, shot, key, reach, air)
        grids.append(EchoRows(dr.ravel(_bits(engine, *echo, grid.origin, reach)[0])))
    clear: Float | None = None
    if places is not None:
        assert store is not None
        clear = mi.Float(1.0)
        for (drops, _), count in zip(scatterers.falling, counts, strict=True):
            clear = _fall(engine, store, drops, row, count, shot, key, reach, clear, aim.gain)
            row = row + count
        dr.schedule(store, total, clear)
    dr.eval(*(rows.words for rows in (*volumes, *grids)))
    return volumes, grids, total, clear


def _bits(engine: Engine, range_m: Float, power: Float, origin: int, reach: Float) -> tuple[IntVector, Bool]:
    """Four words of an echo of the air, and a mask that is True in front of the surface."""
    dr, mi = engine.dr, engine.mi
    seen = range_m < reach
    echo = ReturnEcho(range_m, dr.select(seen, power, 0.0), mi.UInt32(NOTHING), mi.UInt32(SCATTERER_BIT | origin))
    return echo_bits(engine, echo), seen


def _fall(
    engine: Engine,
    store: Int,
    falling: ParticleTables,
    row: Int,
    count: Int,
    shot: Int,
    key: Keys,
    reach: Float,
    clear: Float,
    gain: Float | None,
) -> Float:
    """Draw the particles of each beam; return the share of a surface's power that they transmit both ways."""
    dr, mi = engine.dr, engine.mi
    draw = falling.first_draw + 1

    def step(k: Int, clear: Float) -> State:
        u, v, _, _ = words(key, shot, k + draw)
        range_m, power, obscured = falling.draw(to_unit(u), to_unit(v))
        power = power if gain is None else power * gain
        bits, seen = _bits(engine, range_m, power, falling.origin, reach)
        dr.scatter(store, bits, row + k)
        left = 1.0 - obscured
        return k + 1, dr.select(seen, clear * left * left, clear)

    _, clear = dr.while_loop((mi.UInt32(0), mi.Float(clear)), lambda k, clear: k < count, step)
    return clear


def _grid_echo(
    engine: Engine, echo: GridEcho, aim: BeamAim, shot: Int, key: Keys, reach: Float, air: Air
) -> tuple[Float, Float]:
    """Range and power of the echo of a medium on grids, by VANE's rule for dust.

    Dust of optical depth mu in front of the surface returns with probability min(1, mu / threshold), at the range where
    the depth along the beam reaches a uniform random share of the threshold. Such a return is always detected, except
    in the nearest metres, where the receiver collects almost nothing.
    """
    dr, mi = engine.dr, engine.mi
    xp = namespace(reach)
    u, _, _, _ = words(key, shot, echo.first_draw)
    wanted, reach = echo.full_depth * to_unit(u), xp.minimum(reach, echo.max_range)
    met = sum((table.at(aim, reach) for table in echo.tables), start=mi.Float(0.0)) > wanted
    range_m = dr.select(met, range_of_depth(engine, echo.tables, aim, wanted, reach), 1.0)
    extinction = sum((table.grid.extinction(aim, range_m) for table in echo.tables), start=mi.Float(0.0))
    dimmed = dr.exp(-2.0 * air.depth(aim, range_m)) / (range_m * range_m)
    overlap = 1.0 if echo.overlap is None else echo.overlap(range_m)
    sure = echo.least_power * xp.minimum(overlap * (1.0 / _GRID_LEAST_OVERLAP), 1.0)
    if aim.gain is not None:
        dimmed = dimmed * aim.gain
    power = xp.maximum(overlap * echo.gain * extinction * dimmed, sure)
    return range_m, dr.select(met, power, 0.0)
