"""Echoes of what hangs or falls in the air, as rows that compete with the surfaces in the receiver.

Drops and flakes are drawn one by one, but only those whose echo can be detected (`parhelion.weather.detectable`); fog
gives one soft echo where the pulse gathers most from it; dust gives one where enough of it has been passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import namespace
from parhelion.core.random import to_normal, to_unit, words
from parhelion.core.records import ORIGINS
from parhelion.rays.device import Engine
from parhelion.rays.scene import NOTHING
from parhelion.sensors.lidar.air import Air, DepthTable, DustTable, FieldOnDevice, range_of_depth
from parhelion.sensors.lidar.echoes import SCATTERER_BIT, Block, Echo, Echoes, EchoRows, echo_bits
from parhelion.sensors.lidar.emit import BeamFrame, Beams
from parhelion.weather.detectable import Detectable, obscured, sample

RAIN, FOG, SNOW, DUST = (ORIGINS.index(name) for name in ("rain", "fog", "snow", "dust"))

# Numbers of random draws, apart from those of the receiver.
_COUNT_DRAW = {RAIN: 5000, SNOW: 6000}
_SOFT_DRAW, _DUST_DRAW = 7000, 7001

SOFT_DEVIATION = 0.15
"""Relative deviation of the fog's echo from shot to shot: speckle of a laser of a few dozen modes (assumed)."""
DUST_LIDAR_RATIO_SR = 50.0
"""Extinction over backscatter of mineral dust [sr], as measured by atmospheric lidars (40 to 60)."""
DUST_DEPTH = 0.2
"""Optical depth above which dust always returns; VANE gives 0.1 to 0.3."""
_DUST_LEAST_POWER = 1.5
"""A return that VANE's rule decides on is detected: this far above the threshold at least."""


_COUNT_LIMIT = 400
_MOST_ROOM = 16
"""Rows that every beam may be given beforehand."""


class Falling:
    """Drops of rain or flakes of snow whose echo can be detected, as tables for kernels."""

    def __init__(
        self,
        engine: Engine,
        origin: int,
        table: Detectable,
        *,
        backscatter: Callable[[NDArray[Any]], NDArray[Any]],
        geometry: Callable[[NDArray[Any]], NDArray[Any]],
        area: Callable[[NDArray[Any]], NDArray[Any]],
        extinction_efficiency: float = 2.0,
    ) -> None:
        """`backscatter` [m^2/sr] by diameter [mm]; `geometry` echo in units of P_min per backscatter, and `area` of the
        beam [m^2], by range [m]."""
        dr, mi = engine.dr, engine.mi
        self.engine, self.origin = engine, origin
        self.mean = dr.opaque(mi.Float, table.mean)
        self._mean = float(table.mean)
        span = table.range_m
        self._by_range = engine.table(np.stack([span, table.log_tail, geometry(span), 1.0 / area(span)], axis=1))
        self._steps = len(span) - 1
        size = table.diameter_mm
        blocked = obscured(size, 1.0, extinction_efficiency)
        self._by_tail = engine.table(np.stack([size, backscatter(size), blocked, 0.0 * size], axis=1))
        self._last = len(size) - 1
        first, last = float(table.log_tail_steps[0]), float(table.log_tail_steps[-1])
        self._tail_start = dr.opaque(mi.Float, first)
        self._tail_per = dr.opaque(mi.Float, self._last / (last - first) if last != first else 0.0)
        u = (np.arange(256) + 0.5) / 256
        at, drop = sample(table, *(axis.ravel() for axis in np.meshgrid(u, u)))
        self.depth = float(table.mean * np.mean(obscured(drop, area(at), extinction_efficiency)))
        """Mean optical depth of the drawn ones together, one way."""
        self.farthest_m = float(span[-1])

    def draw(self, u: Any, v: Any) -> tuple[Any, Any, Any]:
        """Range [m], echo in units of P_min, and share of the beam taken away, of drops by two uniform numbers."""
        dr, mi = self.engine.dr, self.engine.mi
        xp = namespace(u)
        place = u * float(self._steps)
        step = mi.UInt32(place)
        low, high = (dr.gather(mi.Vector4f, self._by_range, step + k) for k in (0, 1))
        row = low + (place - mi.Float(step)) * (high - low)
        tail = (row.y + dr.log(v) - self._tail_start) * self._tail_per
        tail = xp.clip(tail, 0.0, self._last - 1e-3)
        step = mi.UInt32(tail)
        low, high = (dr.gather(mi.Vector4f, self._by_tail, step + k) for k in (0, 1))
        drop = low + (tail - mi.Float(step)) * (high - low)
        return row.x, drop.y * row.z, xp.minimum(drop.z * row.w, 1.0)

    def most(self, field: FieldOnDevice | None) -> int:
        """A count that no beam passes: the chance of more is below one in 10^10 where they are densest."""
        mean = self._mean * (1.0 if field is None else field.largest_factor)
        chance = below = math.exp(-mean)
        k = 0
        while 1.0 - below > 1e-10 and k < _COUNT_LIMIT:
            k += 1
            chance *= mean / k
            below += chance
        return k

    def count(self, u: Any, factor: Any, most: Any = _COUNT_LIMIT) -> Any:
        """Poisson counts of mean `mean * factor` by inversion, up to `most`."""
        dr, mi = self.engine.dr, self.engine.mi
        mean = self.mean * factor
        chance = dr.exp(-mean)

        def step(k: Any, chance: Any, below: Any) -> Any:
            k = k + 1
            chance = chance * mean / mi.Float(k)
            return k, chance, below + chance

        state = (mi.UInt32(0), mi.Float(chance), mi.Float(chance))
        # Float32 sums may stay below the largest u: the limit is beyond any count that matters.
        k, _, _ = dr.while_loop(state, lambda k, chance, below: (below < u) & (k < most), step)
        return k


@dataclass
class SoftEcho:
    """The fog's echo near the sensor, in fog of mean density."""

    peak_m: Any
    """Where it is highest [m]."""
    power: Any
    """At the peak, in units of P_min."""
    ranges: Any
    """Ranges of the echo at even steps of probability."""
    steps: int
    far_gain: Any
    """Power of an echo from farther away, per density factor times T^2 / range^2."""
    field: FieldOnDevice | None
    """How density varies, or None."""
    table: DepthTable | None
    """The integral that watched the field, or None."""


@dataclass
class Scatterers:
    """What a launch draws echoes from."""

    falling: list[tuple[Falling, FieldOnDevice | None]]
    soft: SoftEcho | None
    dust: list[DustTable]
    dust_gain: Any = None
    """Power of dust's echo per extinction times T^2 / range^2."""
    max_range: Any = None
    """How far dust is looked for [m]."""


@dataclass
class ScattererRows:
    """Echoes of the air, and where those of each beam lie."""

    rows: EchoRows
    fixed: int
    """Rows that every beam has."""
    first: Any
    count: Any
    """First row and number of rows of each beam; None where all have the same."""
    clear: Any
    """Share of a surface's power that the drawn drops and flakes leave, one number a beam, or None where none fall."""

    stride: Any = None
    """Distance of two beams' first rows where every beam has room for all that it may have, else None."""

    def join(self, engine: Engine, blocks: list[Block], beam: Any) -> list[Block]:
        """The blocks of surfaces of beams by number, dimmed, with those of the air."""
        dr, mi = engine.dr, engine.mi
        if self.clear is not None:
            left = dr.gather(mi.Float, self.clear, beam)
            blocks = [replace(block, scale=left) for block in blocks]
        if self.count is None:
            return [*blocks, Block(self.rows, beam * self.fixed, mi.UInt32(self.fixed))]
        count = dr.gather(mi.UInt32, self.count, beam)
        first = dr.gather(mi.UInt32, self.first, beam) if self.stride is None else beam * self.stride
        return [*blocks, Block(self.rows, first, count)]


@dataclass
class ScattererCounts:
    """How many echoes of the air each beam has."""

    fixed: int
    """Of fog and dust, the same for all beams."""
    falling: list[Any]
    """Drops and flakes of each kind."""
    total: Any
    first: Any
    """Row of each beam's first one."""
    size: int
    """Rows of all beams."""
    stride: Any = None
    """Distance of two beams' first rows where every beam has room for all that it may have, else None."""


def count_scatterers(
    engine: Engine,
    falling_kinds: list[tuple[Falling, FieldOnDevice | None]],
    fixed: int,
    beams: Beams,
    keys: tuple[Any, Any],
) -> ScattererCounts:
    """Draw how many there are, with `fixed` ones in every beam.

    Where few are possible, every beam gets room for all of them, and nobody has to wait for the counts. Else they are
    counted first, early, since the answer is waited for.
    """
    dr, mi = engine.dr, engine.mi
    beam = dr.arange(mi.UInt32, beams.count)
    shot, scan = beams.shot, beams.scan
    key = tuple(dr.gather(mi.UInt32, word, scan) for word in keys)
    frame = beams.frame(engine, beam)
    counts = []
    most = [falling.most(field) for falling, field in falling_kinds]
    roomy = bool(most) and fixed + sum(most) <= _MOST_ROOM
    for limit, (falling, field) in zip(most, falling_kinds, strict=True):
        u = to_unit(words(key, shot, _COUNT_DRAW[falling.origin])[0])  # type: ignore[arg-type]
        # They fall within a few metres of the sensor, where density is that at its front.
        factor = mi.Float(1.0) if field is None else field.factor(frame, 2.0)
        counts.append(falling.count(u, factor, dr.opaque(mi.UInt32, limit) if roomy else _COUNT_LIMIT))
    total = mi.UInt32(fixed)
    for count in counts:
        total += count
    if roomy:
        room = fixed + sum(most)
        stride = dr.opaque(mi.UInt32, room)
        return ScattererCounts(fixed, counts, total, beam * stride, beams.count * room, stride)
    if counts:
        dr.eval(total, *counts)
        first = dr.prefix_sum(total)
        size = int(first[beams.count - 1] + total[beams.count - 1])
    else:
        first, size = beam * fixed, beams.count * fixed
    return ScattererCounts(fixed, counts, total, first, size)


def draw_scatterers(
    engine: Engine,
    scatterers: Scatterers,
    drawn: ScattererCounts,
    echoes: Echoes,
    beams: Beams,
    keys: tuple[Any, Any],
    air: Air,
) -> ScattererRows | None:
    """Echoes of the air in every beam; those behind the surfaces it meets are not there."""
    if drawn.size == 0:
        return None
    dr, mi = engine.dr, engine.mi
    beam = dr.arange(mi.UInt32, beams.count)
    shot, scan = beams.shot, beams.scan
    key = tuple(dr.gather(mi.UInt32, word, scan) for word in keys)
    frame = beams.frame(engine, beam)
    fixed, counts, total, first = drawn.fixed, drawn.falling, drawn.total, drawn.first
    # Rows that are not written are not read.
    store = _Store(engine, (dr.zeros if drawn.stride is None else dr.empty)(mi.UInt32, 4 * drawn.size))
    reach = echoes.reach(engine, beam, total > 0)
    row = first
    if scatterers.soft is not None:
        store.put(row, *_soft_echo(engine, scatterers.soft, frame, shot, key), FOG, reach)
        row = row + 1
    if scatterers.dust:
        store.put(row, *_dust_echo(engine, scatterers, frame, shot, key, reach, air), DUST, reach)
        row = row + 1
    clear = mi.Float(1.0)
    for (falling, _), count in zip(scatterers.falling, counts, strict=True):
        clear = _fall(engine, store, falling, row, count, shot, key, reach, clear)
        row = row + count
    if drawn.stride is not None:
        dr.eval(store.words, total, clear)
    elif counts:
        dr.eval(store.words, first, total, clear)
    else:
        dr.eval(store.words)
    rows = EchoRows(store.words)
    if not counts:
        return ScattererRows(rows, fixed, None, None, None)
    return ScattererRows(rows, fixed, first, total, clear, drawn.stride)


class _Store:
    """Rows being written."""

    def __init__(self, engine: Engine, words: Any) -> None:
        self.engine, self.words = engine, words

    def put(self, row: Any, range_m: Any, power: Any, origin: int, reach: Any) -> Any:
        dr, mi = self.engine.dr, self.engine.mi
        seen = range_m < reach
        echo = Echo(range_m, dr.select(seen, power, 0.0), mi.UInt32(NOTHING), mi.UInt32(SCATTERER_BIT | origin))
        dr.scatter(self.words, echo_bits(self.engine, echo), row)
        return seen


def _fall(
    engine: Engine, store: _Store, falling: Falling, row: Any, count: Any, shot: Any, key: Any, reach: Any, clear: Any
) -> Any:
    """Draw a beam's drops, and return what share of a surface's power they leave, both ways."""
    dr, mi = engine.dr, engine.mi
    draw = _COUNT_DRAW[falling.origin] + 1

    def step(k: Any, clear: Any) -> Any:
        u, v, _, _ = words(key, shot, k + draw)
        range_m, power, obscured = falling.draw(to_unit(u), to_unit(v))
        seen = store.put(row + k, range_m, power, falling.origin, reach)
        left = 1.0 - obscured
        return k + 1, dr.select(seen, clear * left * left, clear)

    _, clear = dr.while_loop((mi.UInt32(0), mi.Float(clear)), lambda k, clear: k < count, step)
    return clear


def _soft_echo(engine: Engine, soft: SoftEcho, frame: BeamFrame, shot: Any, key: Any) -> tuple[Any, Any]:
    """Range and power of the fog's echo."""
    dr, mi = engine.dr, engine.mi
    a, b, u, _ = words(key, shot, _SOFT_DRAW)
    place = to_unit(u) * float(soft.steps)
    step = mi.UInt32(place)
    low, high = (dr.gather(mi.Float, soft.ranges, step + k) for k in (0, 1))
    range_m, power = low + (place - mi.Float(step)) * (high - low), mi.Float(soft.power)
    if soft.field is not None:
        power = power * soft.field.factor(frame, soft.peak_m)
    if soft.table is not None and soft.table.densest is not None:
        group = frame.beam // soft.table.group
        best, where = (dr.gather(mi.Float, values, group) for values in soft.table.densest)
        farther = best * soft.far_gain > power
        range_m = dr.select(farther, where, range_m)
        power = dr.select(farther, best * soft.far_gain, power)
    luck = namespace(power).maximum(1.0 + SOFT_DEVIATION * to_normal(a, b)[0], 0.0)
    return range_m, power * luck


def _dust_echo(
    engine: Engine, scatterers: Scatterers, frame: BeamFrame, shot: Any, key: Any, reach: Any, air: Air
) -> tuple[Any, Any]:
    """Range and power of dust's echo, by VANE's rule.

    Dust of optical depth mu before the surface returns with chance min(1, mu / DUST_DEPTH): that is where the depth
    passed reaches a uniform share of DUST_DEPTH, if it does.
    """
    dr, mi = engine.dr, engine.mi
    xp = namespace(reach)
    u, _, _, _ = words(key, shot, _DUST_DRAW)
    wanted, reach = DUST_DEPTH * to_unit(u), xp.minimum(reach, scatterers.max_range)
    met = sum((table.at(frame, reach) for table in scatterers.dust), start=mi.Float(0.0)) > wanted
    range_m = dr.select(met, range_of_depth(engine, scatterers.dust, frame, wanted, reach), 1.0)
    extinction = sum((table.grid.extinction(frame, range_m) for table in scatterers.dust), start=mi.Float(0.0))
    dimmed = dr.exp(-2.0 * air.depth(frame, range_m)) / (range_m * range_m)
    power = xp.maximum(scatterers.dust_gain * extinction * dimmed, _DUST_LEAST_POWER)
    return range_m, dr.select(met, power, 0.0)
