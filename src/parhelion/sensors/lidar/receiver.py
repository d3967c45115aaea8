"""Detection: from the echoes of a beam's sub-rays to the returns that the sensor reports, one kernel thread a beam.

A window of the merge distance starts at the nearest echo not yet used. If its summed power passes the threshold,
the window is one return at the power-weighted mean range and the search goes on behind it; if not, the window moves
on to the next echo. No waveform is ever stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parhelion.core.arrays import namespace
from parhelion.core.random import to_normal, to_unit, words
from parhelion.rays.device import Engine
from parhelion.rays.scene import NOTHING
from parhelion.sensors.lidar.config import ReturnMode
from parhelion.sensors.lidar.echoes import NO_ECHO, Block, Echo, choose
from parhelion.sensors.lidar.emit import Beams

FALSE_ALARM = NOTHING - 1
"""Slot number of a return that no echo made."""
_BLOCK_SHIFT = 29
"""A slot number holds the number of the block above this bit, and the row below."""
_FALSE_ALARM_DRAW = 2000


@dataclass
class Detector:
    """Numbers of the receiver, opaque to the kernel compiler."""

    mode: ReturnMode
    max_returns: int
    merge_distance: Any
    dead_distance: Any
    """How far behind a return the receiver is blind [m]."""
    noise_sigma: Any
    """Standard deviation of the signal's noise, in units of P_min."""
    noisy: bool
    false_alarm_chance: Any
    """Chance of a false return in one shot, or None."""
    min_range: Any
    max_range: Any

    @property
    def registers(self) -> int:
        """Returns that a shot can have in this mode."""
        return {"first": 1, "strongest": 1, "last": 1, "dual": 2, "all": self.max_returns}[self.mode]


@dataclass
class Return:
    """One return of every beam, as kernel variables."""

    range: Any
    """Range before noise [m], NO_ECHO where there is none."""
    power: Any
    slot: Any
    """Where the echo that gave most of the power lies (see `echo_of`), or FALSE_ALARM."""


def echo_of(engine: Engine, blocks: list[Block], slot: Any, active: Any) -> Echo:
    """The echo that a slot number stands for."""
    dr = engine.dr
    number, row = slot >> _BLOCK_SHIFT, slot & ((1 << _BLOCK_SHIFT) - 1)
    found = Echo.none(engine)
    for k, block in enumerate(blocks):
        here = active & (number == k)
        found = choose(dr, here, block.rows.at(dr.select(here, row, 0), here), found)
    return found


def detect(
    engine: Engine, detector: Detector, blocks: list[Block], beams: Beams, beam: Any, keys: tuple[Any, Any]
) -> list[Return]:
    """Returns of beams in order of range.

    `beam` has the number of each beam, `blocks` its echoes (eight blocks at most), `keys` two words a scan.
    """
    mi, dr = engine.mi, engine.dr
    shot = dr.gather(mi.UInt32, beams.shot, beam)
    key: Any = ()
    if detector.noisy:
        scan = dr.gather(mi.UInt32, beams.scan, beam)
        key = tuple(dr.gather(mi.UInt32, word, scan) for word in keys)
    found = _search(engine, detector, blocks, shot, key)
    if detector.noisy and detector.false_alarm_chance is not None:
        chance, place, size, _ = words(key, shot, _FALSE_ALARM_DRAW)
        span, nearest = detector.max_range - detector.min_range, detector.min_range
        alarm = Return(
            dr.select(to_unit(chance) < detector.false_alarm_chance, nearest + span * to_unit(place), NO_ECHO),
            1.0 + detector.noise_sigma * to_unit(size), mi.UInt32(FALSE_ALARM),
        )  # fmt: skip
        found = _offer(engine, detector.mode, found, alarm)
    if detector.mode == "dual":
        strongest, second, last = found
        # Velodyne's rule: where the strongest return is also the last, the second strongest comes with it.
        same = strongest.slot == last.slot
        found = _sorted_pair(dr, strongest, _select(dr, same, second, last))
    return found


def _search(engine: Engine, detector: Detector, blocks: list[Block], shot: Any, key: Any) -> list[Return]:
    mi, dr = engine.mi, engine.dr
    n = len(_empty(mi, detector))
    block = _Summer(engine, blocks, detector.dead_distance)
    luck = 5.0 * detector.noise_sigma if detector.noisy else 0.0
    everything = block.sum(mi.Float(0.0), mi.Float(NO_ECHO), mi.Bool(True))
    nearest, farthest = everything.nearest, everything.farthest
    # All together, with luck of five sigma, must be able to pass the threshold.
    hope = (nearest < NO_ECHO) & (everything.power + luck >= 1.0)

    def step(start: Any, anchor: Any, number: Any, going: Any, *registers: Any) -> Any:
        end = start + detector.merge_distance
        # Echoes that all lie in the first window are summed already.
        again = going & ((start > nearest) | (farthest > end))
        window = choose_sum(dr, again, block.sum(start, end, again), everything)
        signal = window.power
        if detector.noisy:
            # Overlapping windows share their noise: a weak echo must not get a new chance with every sub-ray.
            fresh = going & (start > anchor + detector.merge_distance)
            anchor = dr.select(fresh, start, anchor)
            number = dr.select(fresh, number + 1, number)
            a, b, _, _ = words(key, shot, number)
            signal = signal + detector.noise_sigma * to_normal(a, b)[0]
        hit = going & (signal >= 1.0)
        echo = Return(dr.select(hit, start + window.moment / window.power, NO_ECHO), window.power, window.slot)
        kept = _offer(engine, detector.mode, _unflat(registers, n), echo)
        # Where no echo lies behind the window, no later window can hold more power than this one did.
        going &= again & (farthest > end)
        start = dr.select(going, dr.select(hit, window.after, window.following), start)
        going &= start < NO_ECHO
        return start, anchor, number, going, *_flat(kept)

    state = (mi.Float(nearest), mi.Float(-1e6), mi.UInt32(0), mi.Bool(hope), *_flat(_empty(mi, detector)))
    final = dr.while_loop(state, lambda *s: s[3], step)
    return _unflat(final[4:], n)


@dataclass
class _Sum:
    """Echoes of a beam within a window, as kernel variables."""

    nearest: Any
    power: Any
    moment: Any
    """Power times range behind the nearest."""
    farthest: Any
    peak: Any
    slot: Any
    """Of the strongest."""
    following: Any
    """Range of the first echo behind the window's start, NO_ECHO where there is none."""
    after: Any
    """Range of the first echo behind the window's end and the dead time."""


def choose_sum(dr: Any, mask: Any, a: _Sum, b: _Sum) -> _Sum:
    """`a` where the mask is set, else `b`."""
    return _Sum(*(dr.select(mask, x, y) for x, y in zip(vars(a).values(), vars(b).values(), strict=True)))


@dataclass
class _Summer:
    """Sums over the echoes of each beam in memory."""

    engine: Engine
    blocks: list[Block]
    dead_distance: Any

    def sum(self, start: Any, end: Any, active: Any) -> _Sum:
        """One pass over a beam's echoes: sums over those from `start` to `end`, and where to go on."""
        mi, dr = self.engine.mi, self.engine.dr
        xp = namespace(start)
        blind = end + self.dead_distance

        def pass_over(number: int, block: Block, totals: tuple[Any, ...]) -> tuple[Any, ...]:
            def step(k: Any, *totals: Any) -> Any:
                nearest, power, moment, farthest, peak, slot, following, after = totals
                row = block.first + k
                echo = block.rows.at(row, active)
                p, r = echo.power, echo.range
                if block.scale is not None:
                    p = p * block.scale
                real = p > 0.0
                use = real & (r >= start) & (r <= end)
                # The moment is kept relative to the nearest echo so far, so that float32 keeps tenths of a millimetre.
                before = nearest
                nearest = dr.select(use & (r < nearest), r, nearest)
                moment = moment + dr.select(use & (before < NO_ECHO), power * (before - nearest), 0.0)
                power = power + dr.select(use, p, 0.0)
                moment = moment + dr.select(use, p * (r - nearest), 0.0)
                farthest = dr.select(use, xp.maximum(farthest, r), farthest)
                stronger = use & (p > peak)
                peak = dr.select(stronger, p, peak)
                slot = dr.select(stronger, row | (number << _BLOCK_SHIFT), slot)
                following = dr.select(real & (r > start) & (r < following), r, following)
                after = dr.select(real & (r > blind) & (r < after), r, after)
                return k + 1, nearest, power, moment, farthest, peak, slot, following, after

            final = dr.while_loop((mi.UInt32(0), *totals), lambda *s: active & (s[0] < block.count), step)
            return final[1:]

        far, zero, none = mi.Float(NO_ECHO), mi.Float(0.0), mi.UInt32(NOTHING)
        totals: tuple[Any, ...] = (
            far, zero, mi.Float(zero), mi.Float(zero), mi.Float(zero), none, mi.Float(far), mi.Float(far)
        )  # fmt: skip
        for number, block in enumerate(self.blocks):
            totals = pass_over(number, block, totals)
        return _Sum(*totals)


def _empty(mi: Any, detector: Detector) -> list[Return]:
    count = 3 if detector.mode == "dual" else detector.registers
    return [Return(mi.Float(NO_ECHO), mi.Float(0.0), mi.UInt32(NOTHING)) for _ in range(count)]


def _flat(returns: list[Return]) -> tuple[Any, ...]:
    return tuple(value for r in returns for value in (r.range, r.power, r.slot))


def _unflat(values: Any, count: int) -> list[Return]:
    return [Return(*values[3 * k : 3 * k + 3]) for k in range(count)]


def _select(dr: Any, mask: Any, a: Return, b: Return) -> Return:
    return Return(dr.select(mask, a.range, b.range), dr.select(mask, a.power, b.power), dr.select(mask, a.slot, b.slot))


def _sorted_pair(dr: Any, a: Return, b: Return) -> list[Return]:
    swap = b.range < a.range
    return [_select(dr, swap, b, a), _select(dr, swap, a, b)]


def _offer(engine: Engine, mode: ReturnMode, kept: list[Return], new: Return) -> list[Return]:
    """Put a new return where the mode wants it; the order of offers does not matter."""
    dr = engine.dr
    real = new.range < NO_ECHO
    empty = [r.range >= NO_ECHO for r in kept]
    if mode == "first":
        return [_select(dr, real & (new.range < kept[0].range), new, kept[0])]
    if mode == "last":
        return [_select(dr, real & (empty[0] | (new.range > kept[0].range)), new, kept[0])]
    if mode == "strongest":
        return [_select(dr, real & (new.power > kept[0].power), new, kept[0])]
    if mode == "dual":
        strongest, second, last = kept
        best = real & (new.power > strongest.power)
        third = _select(dr, real & (empty[2] | (new.range > last.range)), new, last)
        runner_up = _select(dr, best, strongest, _select(dr, real & (new.power > second.power), new, second))
        return [_select(dr, best, new, strongest), runner_up, third]
    # "all": insertion into a list sorted by range; the farthest falls off the end.
    result = []
    for old in kept:
        swap = new.range < old.range
        result.append(_select(dr, swap, new, old))
        new = _select(dr, swap, old, new)
    return result
