"""Echoes of what hangs or falls in the air, as rows that compete with the surfaces in the receiver.

Drops and flakes are drawn one by one, but only those whose echo can be detected (`parhelion.weather.detectable`); fog
gives one where its signal passes the threshold (`fog_echo`); dust gives one where enough of it has been passed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from parhelion.core.arrays import Ints, Keys, Masks, Reals, State, namespace
from parhelion.core.random import to_unit, words
from parhelion.core.records import ORIGINS
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.rows import Rows
from parhelion.rays.scene import NOTHING
from parhelion.sensors.lidar.echoes import SCATTERER_BIT, Block, Echo, Echoes, EchoRows, echo_bits
from parhelion.sensors.lidar.falling import COUNT_LIMIT, Falling, FallingTables
from parhelion.sensors.lidar.fog_echo import FogEcho
from parhelion.sensors.light.air import FRONT_M, Air, DustTable, FieldOnDevice, range_of_depth
from parhelion.sensors.light.beams import BeamAim, Beams
from parhelion.sensors.light.curve import Curve

RAIN, FOG, SNOW, DUST = (ORIGINS.index(name) for name in ("rain", "fog", "snow", "dust"))

# Numbers of random draws, apart from those of the receiver.
_COUNT_DRAW = {RAIN: 5000, SNOW: 6000}
_DUST_DRAW = 7500

DUST_LIDAR_RATIO_SR = 50.0
"""Extinction over backscatter of mineral dust [sr], as measured by atmospheric lidars (40 to 60)."""
_DUST_LEAST_POWER = 1.5
"""A return that VANE's rule decides on is detected: this far above the threshold at least."""
_DUST_LEAST_OVERLAP = 0.1
"""Where the receiver collects less than this share, the rule no longer says that dust is detected: it is then as weak
as it is, so that dust right before the sensor blinds it."""
_HELD_DROPS = 4
"""Drops and flakes of a beam that kernels keep at hand; few beams have more."""
_MOST_ROOM = 16
"""Rows that every beam may be given beforehand."""


@kernel_tree()
@dataclass
class Scatterers:
    """What a launch draws echoes from."""

    falling: list[tuple[FallingTables, FieldOnDevice | None]]
    fog: FogEcho | None
    dust: list[DustTable]
    dust_gain: Reals = None
    """Power of dust's echo per extinction times T^2 xi / range^2."""
    dust_depth: Reals = None
    """Optical depth above which dust always returns."""
    overlap: Curve | None = None
    """Share of the return that the receiver collects by range, or None where it is all."""
    max_range: Reals = None
    """How far dust is looked for [m]."""


@kernel_tree()
@dataclass
class ScattererRows:
    """Echoes of the air, and where those of each beam lie."""

    fog: EchoRows | None
    """One row a beam, as the receiver reads it; None where fog is not seen."""
    dust: EchoRows | None
    """One row a beam; None where there is none."""
    falling: EchoRows | None
    """Of drops and flakes, or None where none fall."""
    first: Ints = None
    """First row of each beam's drops and flakes."""
    count: Ints = None
    """How many each beam has."""
    clear: Reals = None
    """Share of a surface's power that they leave, one number a beam."""

    def join(self, engine: Engine, blocks: list[Block], beam: Ints) -> list[Block]:
        """The blocks of surfaces of beams by number, dimmed, with those of the air."""
        dr, mi = engine.dr, engine.mi
        if self.falling is not None:
            left = dr.gather(mi.Float, self.clear, beam)
            blocks = [replace(block, scale=left) for block in blocks]
        if self.fog is not None:
            blocks = [*blocks, Block(self.fog, beam, mi.UInt32(1), held=1, is_read=True)]
        if self.dust is not None:
            blocks = [*blocks, Block(self.dust, beam, mi.UInt32(1), held=1)]
        if self.falling is not None:
            # A lone number is the distance of two beams' first rows.
            first = beam * self.first if dr.width(self.first) == 1 else dr.gather(mi.UInt32, self.first, beam)
            count = dr.gather(mi.UInt32, self.count, beam)
            blocks.append(Block(self.falling, first, count, held=_HELD_DROPS))
        return blocks


@dataclass
class ScattererCounts:
    """How many drops and flakes each beam has, or may have."""

    rows: int
    """Rows of all beams."""
    first: Ints
    """First row of each beam. If every beam has memory for the most it may have: the number of rows of one beam."""
    limits: list[Ints] | None
    """The most of each kind that a beam may have, if every beam has memory for them; else None."""
    counts: list[Ints] | None
    """How many of each kind each beam has, if they were counted; else None."""


def count_scatterers(
    engine: Engine, falling: list[tuple[Falling, FieldOnDevice | None]], beams: Beams, keys: Keys
) -> ScattererCounts | None:
    """Make room for drops and flakes; None where none fall.

    If few are possible, every beam gets memory for all of them, and nothing has to be counted. Otherwise they are
    counted first. Python waits for the counts, so this is done early in a scan.
    """
    if not falling:
        return None
    dr = engine.dr
    most = [drops.most(field) for drops, field in falling]
    room = sum(most)
    if room <= _MOST_ROOM:
        limits = [engine.whole(limit) for limit in most]
        return ScattererCounts(beams.count * room, engine.whole(room), limits, None)
    everyone = Rows.kept(engine, beams.count)
    limits = [engine.whole(COUNT_LIMIT)] * len(falling)
    kinds = [(drops.tables, field) for drops, field in falling]
    total, counts = engine.frozen(_count)(kinds, limits, beams, everyone, keys)
    dr.eval(total, *counts)
    first = dr.prefix_sum(total)
    return ScattererCounts(int(first[beams.count - 1] + total[beams.count - 1]), first, None, counts)


def _count(
    falling: list[tuple[FallingTables, FieldOnDevice | None]],
    limits: list[Ints],
    beams: Beams,
    everyone: Rows,
    keys: Keys,
) -> tuple[Ints, list[Ints]]:
    """Draw how many of each kind each beam has, and the sum."""
    engine = running_engine()
    mi, beam = engine.mi, everyone.index
    aim, (shot, key) = beams.aim(engine, beam), beams.draws(engine, beam, keys)
    total, counts = mi.UInt32(0), []
    for limit, (drops, field) in zip(limits, falling, strict=True):
        u = to_unit(words(key, shot, _COUNT_DRAW[drops.origin])[0])
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
    """Echoes of the air in every beam; those behind the surfaces it meets are not there."""
    dr, mi = engine.dr, engine.mi
    if drawn is not None and drawn.rows == 0:
        drawn, scatterers = None, replace(scatterers, falling=[])
    if drawn is None and scatterers.fog is None and not scatterers.dust:
        return None
    # Of all that was traced, the probes suffice to tell where the surfaces are.
    met = Echoes(echoes.slots, echoes.wide if echoes.probes is None else None, None, None, None, [], echoes.probes)
    store = None if drawn is None else dr.empty(mi.UInt32, 4 * drawn.rows)
    places = None if drawn is None else (drawn.first, drawn.limits, drawn.counts)
    everyone = Rows.kept(engine, beams.count)
    fog, dust, count, clear = engine.frozen(_draw)(scatterers, places, met, beams, everyone, keys, air, store)
    if drawn is None:
        return ScattererRows(fog, dust, None)
    return ScattererRows(fog, dust, EchoRows(store), drawn.first, count, clear)


def _draw(
    scatterers: Scatterers,
    places: tuple[Ints, list[Ints] | None, list[Ints] | None] | None,
    met: Echoes,
    beams: Beams,
    everyone: Rows,
    keys: Keys,
    air: Air,
    store: Ints,
) -> tuple[EchoRows | None, EchoRows | None, Ints, Reals]:
    """Echoes of fog and of dust, how many drops and flakes each beam has, and what they leave of surfaces' power."""
    engine = running_engine()
    dr, mi, beam = engine.dr, engine.mi, everyone.index
    aim, (shot, key) = beams.aim(engine, beam), beams.draws(engine, beam, keys)
    total: Ints = None
    counts: list[Ints] = []
    row: Ints = None
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
    lonely = scatterers.fog is None and not scatterers.dust
    reach = met.reach(engine, beam, total > 0 if lonely else mi.Bool(True))
    fog: EchoRows | None = None
    dust: EchoRows | None = None
    if scatterers.fog is not None:
        echo = scatterers.fog.draw(aim, air, reach, shot, key)
        fog = EchoRows(dr.ravel(_bits(engine, *echo, FOG, reach)[0]))
    if scatterers.dust:
        echo = _dust_echo(engine, scatterers, aim, shot, key, reach, air)
        dust = EchoRows(dr.ravel(_bits(engine, *echo, DUST, reach)[0]))
    clear = None
    if places is not None:
        clear = mi.Float(1.0)
        for (drops, _), count in zip(scatterers.falling, counts, strict=True):
            clear = _fall(engine, store, drops, row, count, shot, key, reach, clear, aim.gain)
            row = row + count
        dr.schedule(store, total, clear)
    dr.eval(*(rows.words for rows in (fog, dust) if rows is not None))
    return fog, dust, total, clear


def _bits(engine: Engine, range_m: Reals, power: Reals, origin: int, reach: Reals) -> tuple[Ints, Masks]:
    """An echo of the air as four words, and whether it lies before the surface."""
    dr, mi = engine.dr, engine.mi
    seen = range_m < reach
    echo = Echo(range_m, dr.select(seen, power, 0.0), mi.UInt32(NOTHING), mi.UInt32(SCATTERER_BIT | origin))
    return echo_bits(engine, echo), seen


def _fall(
    engine: Engine,
    store: Ints,
    falling: FallingTables,
    row: Ints,
    count: Ints,
    shot: Ints,
    key: Keys,
    reach: Reals,
    clear: Reals,
    gain: Reals,
) -> Reals:
    """Draw a beam's drops, and return what share of a surface's power they leave, both ways."""
    dr, mi = engine.dr, engine.mi
    draw = _COUNT_DRAW[falling.origin] + 1

    def step(k: Ints, clear: Reals) -> State:
        u, v, _, _ = words(key, shot, k + draw)
        range_m, power, obscured = falling.draw(to_unit(u), to_unit(v))
        power = power if gain is None else power * gain
        bits, seen = _bits(engine, range_m, power, falling.origin, reach)
        dr.scatter(store, bits, row + k)
        left = 1.0 - obscured
        return k + 1, dr.select(seen, clear * left * left, clear)

    _, clear = dr.while_loop((mi.UInt32(0), mi.Float(clear)), lambda k, clear: k < count, step)
    return clear


def _dust_echo(
    engine: Engine, scatterers: Scatterers, aim: BeamAim, shot: Ints, key: Keys, reach: Reals, air: Air
) -> tuple[Reals, Reals]:
    """Range and power of dust's echo, by VANE's rule.

    Dust of optical depth mu before the surface returns with chance min(1, mu / threshold): that is where the depth
    passed reaches a uniform share of the threshold, if it does. Such a return is detected but for the nearest metres,
    from which the receiver collects next to nothing.
    """
    dr, mi = engine.dr, engine.mi
    xp = namespace(reach)
    u, _, _, _ = words(key, shot, _DUST_DRAW)
    wanted, reach = scatterers.dust_depth * to_unit(u), xp.minimum(reach, scatterers.max_range)
    met = sum((table.at(aim, reach) for table in scatterers.dust), start=mi.Float(0.0)) > wanted
    range_m = dr.select(met, range_of_depth(engine, scatterers.dust, aim, wanted, reach), 1.0)
    extinction = sum((table.grid.extinction(aim, range_m) for table in scatterers.dust), start=mi.Float(0.0))
    dimmed = dr.exp(-2.0 * air.depth(aim, range_m)) / (range_m * range_m)
    overlap = 1.0 if scatterers.overlap is None else scatterers.overlap(range_m)
    sure = _DUST_LEAST_POWER * xp.minimum(overlap * (1.0 / _DUST_LEAST_OVERLAP), 1.0)
    if aim.gain is not None:
        dimmed = dimmed * aim.gain
    power = xp.maximum(overlap * scatterers.dust_gain * extinction * dimmed, sure)
    return range_m, dr.select(met, power, 0.0)
