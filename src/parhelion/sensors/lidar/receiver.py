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
from parhelion.sensors.lidar.emit import Beams
from parhelion.sensors.lidar.illuminate import NO_ECHO, Echoes

FALSE_ALARM = NOTHING - 1
"""Slot number of a return that no echo made."""
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
    """Slot of the echo that gave most of the power, or FALSE_ALARM."""


def detect(
    engine: Engine, detector: Detector, echoes: Echoes, beams: Beams, beam: Any, keys: tuple[Any, Any]
) -> list[Return]:
    """Returns of each beam in order of range. `beam` numbers the rows of `echoes`; `keys` has two words a scan."""
    mi, dr = engine.mi, engine.dr
    shot = dr.gather(mi.UInt32, beams.shot, beam)
    key: Any = ()
    if detector.noisy:
        scan = dr.gather(mi.UInt32, beams.scan, beam)
        key = tuple(dr.gather(mi.UInt32, word, scan) for word in keys)
    found = _search(engine, detector, echoes, shot, key)
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


def _search(engine: Engine, detector: Detector, echoes: Echoes, shot: Any, key: Any) -> list[Return]:
    mi, dr = engine.mi, engine.dr
    n = len(_empty(mi, detector))
    base = dr.arange(mi.UInt32, dr.width(shot)) * echoes.slots
    slots = mi.UInt32(echoes.slots)
    luck = 5.0 * detector.noise_sigma if detector.noisy else 0.0

    def step(cursor: Any, anchor: Any, number: Any, going: Any, *registers: Any) -> Any:
        start, total = _sweep(engine, echoes, base, slots, cursor, mi.Float(NO_ECHO), going)
        # All that is left together, with luck of five sigma, must be able to pass the threshold.
        going &= (start < NO_ECHO) & (total.power + luck >= 1.0)
        # Echoes that all lie in one window are summed already; else a second sweep sums those in the window.
        end, farthest = start + detector.merge_distance, total.farthest
        spread = going & (farthest > end)
        _, window = _sweep(engine, echoes, base, slots, cursor, end, spread)
        total = _Sum(*(dr.select(spread, b, a) for a, b in zip(total.parts(), window.parts(), strict=True)))
        signal = total.power
        if detector.noisy:
            # Overlapping windows share their noise: a weak echo must not get a new chance with every sub-ray.
            fresh = start > anchor + detector.merge_distance
            anchor = dr.select(going & fresh, start, anchor)
            number = dr.select(going & fresh, number + 1, number)
            a, b, _, _ = words(key, shot, number)
            signal = signal + detector.noise_sigma * to_normal(a, b)[0]
        hit = going & (signal >= 1.0)
        mean = start + total.moment / total.power
        echo = Return(dr.select(hit, mean, NO_ECHO), total.power, total.slot)
        kept = _offer(engine, detector.mode, _unflat(registers, n), echo)
        cursor = dr.select(hit, end + detector.dead_distance, dr.select(going, start, cursor))
        # Where no echo lies behind the window, no later window can hold more power than this one did.
        going &= farthest > dr.select(hit, cursor, end)
        return cursor, anchor, number, going, *_flat(kept)

    state = (mi.Float(0.0), mi.Float(-1e6), mi.UInt32(0), mi.Bool(True), *_flat(_empty(mi, detector)))
    final = dr.while_loop(state, lambda *s: s[3], step)
    return _unflat(final[4:], n)


@dataclass
class _Sum:
    power: Any
    moment: Any
    """Power times range behind the window's start."""
    farthest: Any
    peak: Any
    slot: Any

    def parts(self) -> tuple[Any, ...]:
        return self.power, self.moment, self.farthest, self.peak, self.slot


def _sweep(
    engine: Engine, echoes: Echoes, base: Any, slots: Any, cursor: Any, end: Any, active: Any
) -> tuple[Any, _Sum]:
    """Range of the nearest echo behind `cursor`, and sums over the echoes between `cursor` and `end`."""
    mi, dr = engine.mi, engine.dr
    xp = namespace(cursor)

    def step(k: Any, nearest: Any, power: Any, moment: Any, farthest: Any, peak: Any, slot: Any) -> Any:
        index = base + k
        p = dr.gather(mi.Float, echoes.power, index, active)
        r = dr.gather(mi.Float, echoes.range, index, active)
        use = (r > cursor) & (r <= end) & (p > 0.0)
        # The moment is kept relative to the nearest echo so far, so that float32 keeps tenths of a millimetre.
        before = nearest
        nearest = dr.select(use & (r < nearest), r, nearest)
        moment = moment + dr.select(use & (before < NO_ECHO), power * (before - nearest), 0.0)
        power = power + dr.select(use, p, 0.0)
        moment = moment + dr.select(use, p * (r - nearest), 0.0)
        farthest = dr.select(use, xp.maximum(farthest, r), farthest)
        stronger = use & (p > peak)
        return k + 1, nearest, power, moment, farthest, dr.select(stronger, p, peak), dr.select(stronger, index, slot)

    zero = mi.Float(0.0)
    state = (mi.UInt32(0), mi.Float(NO_ECHO), zero, mi.Float(zero), mi.Float(zero), mi.Float(zero), mi.UInt32(NOTHING))
    final = dr.while_loop(state, lambda *s: active & (s[0] < slots), step)
    return final[1], _Sum(*final[2:])


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
