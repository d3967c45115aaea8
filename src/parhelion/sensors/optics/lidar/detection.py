"""Detection: from the echoes of a beam's sub-rays to the returns that the sensor reports, one kernel thread a beam.

A window of the merge distance starts at the nearest echo not yet used. If its summed power passes the threshold,
the window is one return at the power-weighted mean range and the search goes on behind it; if not, the window moves
on to the next echo. No waveform is ever stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from parhelion.core.arrays import Ints, Keys, Masks, Reals, State, namespace
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.random import to_normal, to_unit, words
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.scene import NOTHING
from parhelion.sensors.optics.beams import Beams
from parhelion.sensors.optics.lidar.config import LidarConfig, ReturnMode
from parhelion.sensors.optics.lidar.echoes import NO_ECHO, Block, ReturnEcho, choose

FALSE_ALARM = NOTHING - 1
"""Slot number of a return that no echo made."""
_BLOCK_SHIFT = 29
"""A slot number holds the number of the block above this bit, and the row below."""
_FALSE_ALARM_DRAW = 2000
_MOST_DEVIATIONS = 5.0
"""Luck beyond this is left out: the search passes over windows that would need more to be seen."""


@kernel_tree(fixed=("mode", "max_returns", "noisy"))
@dataclass
class Detector:
    """Numbers of the receiver, opaque to the kernel compiler."""

    mode: ReturnMode
    max_returns: int
    merge_distance: Reals
    dead_distance: Reals
    """How far behind a return the receiver is blind [m]."""
    noise_sigma: Reals
    """Standard deviation of the noise without signal, in units of P_min."""
    shot_noise: Reals
    """Variance that each unit of signal adds, in the same units: 1 / photons at the threshold; None where none."""
    noisy: bool
    false_alarm_chance: Reals
    """Chance of a false return in one shot, or None."""
    min_range: Reals
    max_range: Reals

    @classmethod
    def of(
        cls,
        engine: Engine,
        config: LidarConfig,
        noise_sigma: float,
        *,
        noisy: bool,
        merge_distance: Reals = None,
        false_alarms: bool = True,
    ) -> Detector:
        """The receiver of a data sheet, for simulated scans and for recorded ones.

        `merge_distance` [m] is one number a beam, where it is not that of the sheet.
        """
        receiver, limits, number = config.receiver, config.range, engine.number
        open_time = 2.0 * (limits.max_m - limits.min_m) / SPEED_OF_LIGHT_M_S
        alarms = config.noise.false_alarm_rate_hz if false_alarms else 0.0
        return cls(
            mode=receiver.returns,
            max_returns=receiver.max_returns,
            merge_distance=number(receiver.merge_distance_m) if merge_distance is None else merge_distance,
            dead_distance=number(receiver.dead_time_ns * 1e-9 * SPEED_OF_LIGHT_M_S / 2.0),
            noise_sigma=number(noise_sigma),
            shot_noise=number(1.0 / receiver.threshold_photons) if receiver.threshold_photons else None,
            noisy=noisy,
            false_alarm_chance=number(-math.expm1(-alarms * open_time)) if alarms else None,
            min_range=number(limits.min_m),
            max_range=number(limits.max_m),
        )

    def with_luck(self, power: Reals, deviations: Reals) -> Reals:
        """What the receiver reads of a power with noise of so many standard deviations."""
        sigma = self.noise_sigma
        if self.shot_noise is not None:
            sigma = namespace(power).sqrt(sigma * sigma + self.shot_noise * power)
        return power + deviations * sigma

    @property
    def registers(self) -> int:
        """Returns that a shot can have in this mode."""
        return {"first": 1, "strongest": 1, "last": 1, "dual": 2, "all": self.max_returns}[self.mode]


@dataclass
class Return:
    """One return of every beam, as kernel variables."""

    range: Reals
    """Range before noise [m], NO_ECHO where there is none."""
    power: Reals
    slot: Ints
    """Where the echo that gave most of the power lies (see `echo_of`), or FALSE_ALARM."""


def echo_of(engine: Engine, blocks: list[Block], slot: Ints, active: Masks) -> ReturnEcho:
    """The echo that a slot number stands for."""
    dr = engine.dr
    number, row = slot >> _BLOCK_SHIFT, slot & ((1 << _BLOCK_SHIFT) - 1)
    found = ReturnEcho.none(engine)
    for k, block in enumerate(blocks):
        here = active & (number == k)
        found = choose(dr, here, block.rows.at(dr.select(here, row, 0), here), found)
    return found


def detect(
    engine: Engine, detector: Detector, blocks: list[Block], beams: Beams, beam: Ints, keys: Keys
) -> list[Return]:
    """Returns of beams in order of range.

    `beam` has the number of each beam, `blocks` its echoes (eight blocks at most), `keys` two words a scan.
    """
    mi, dr = engine.mi, engine.dr
    shot, key = beams.draws(engine, beam, keys)
    found = _search(engine, detector, blocks, shot, key)
    if detector.noisy and detector.false_alarm_chance is not None:
        chance, place, size, _ = words(key, shot, _FALSE_ALARM_DRAW)
        span, nearest = detector.max_range - detector.min_range, detector.min_range
        alarm = Return(
            dr.select(to_unit(chance) < detector.false_alarm_chance, nearest + span * to_unit(place), NO_ECHO),
            1.0 + detector.noise_sigma * to_unit(size),
            mi.UInt32(FALSE_ALARM),
        )
        found = _offer(engine, detector.mode, found, alarm)
    if detector.mode == "dual":
        strongest, second, last = found
        # Velodyne's rule: where the strongest return is also the last, the second strongest comes with it.
        same = strongest.slot == last.slot
        found = _sorted_pair(dr, strongest, _select(dr, same, second, last))
    return found


def _search(engine: Engine, detector: Detector, blocks: list[Block], shot: Ints, key: Keys) -> list[Return]:
    mi, dr = engine.mi, engine.dr
    n = len(_empty(mi, detector))
    echoes = _BeamEchoes(engine, blocks)
    most = _MOST_DEVIATIONS if detector.noisy else 0.0
    nearest, farthest, everything = echoes.survey()
    # All together, with the most luck, must be able to pass the threshold.
    hope = (nearest < NO_ECHO) & (detector.with_luck(everything.power, most) >= 1.0)

    def step(start: Reals, anchor: Reals, number: Ints, going: Masks, *registers: Any) -> State:
        end = start + detector.merge_distance
        # Echoes that all lie in the first window are summed already.
        again = going & ((start > nearest) | (farthest > end))
        in_window, ahead = echoes.window(start, detector.merge_distance, detector.dead_distance, again)
        power, moment, slot = (dr.select(again, x, y) for x, y in zip(in_window.sums, everything.sums, strict=True))
        luck, most_luck = 0.0, 0.0
        if detector.noisy:
            # Overlapping windows share their noise: a weak echo must not get a new chance with every sub-ray.
            fresh = going & (start > anchor + detector.merge_distance)
            anchor = dr.select(fresh, start, anchor)
            number = dr.select(fresh, number + 1, number)
            a, b, _, _ = words(key, shot, number)
            luck = to_normal(a, b)[0]
            # All windows that start within one of new noise share it; those within a later one may get theirs anew.
            most_luck = dr.select(fresh, luck, most)
            luck = dr.select(echoes.is_read(slot), 0.0, luck)
        hit = going & (detector.with_luck(power, luck) >= 1.0)
        echo = Return(dr.select(hit, start + moment / power, NO_ECHO), power, slot)
        kept = _offer(engine, detector.mode, _unflat(registers, n), echo)
        # Where no echo lies behind the window, no later window can hold more power than this one did.
        going &= again & (farthest > end)
        # Windows that start within this one hold no more than `near`, those behind it no more than `far`: where that
        # cannot pass the threshold either, the search leaves them out.
        close = ~hit & (detector.with_luck(ahead.near, most_luck) >= 1.0)
        going &= close | (detector.with_luck(ahead.far, most) >= 1.0)
        start = dr.select(going, dr.select(hit, ahead.after, dr.select(close, ahead.following, ahead.beyond)), start)
        going &= start < NO_ECHO
        return start, anchor, number, going, *_flat(kept)

    state = (mi.Float(nearest), mi.Float(-1e6), mi.UInt32(0), mi.Bool(hope), *_flat(_empty(mi, detector)))
    final = dr.while_loop(state, lambda *s: s[3], step)
    return _unflat(final[4:], n)


@dataclass
class _Sum:
    """Echoes that are taken together, as kernel variables."""

    power: Reals
    moment: Reals
    """Power times range behind the nearest."""
    peak: Reals
    slot: Ints
    """Of the strongest."""

    @property
    def sums(self) -> tuple[Reals, Reals, Ints]:
        return self.power, self.moment, self.slot

    def strongest(self, dr: Any, use: Masks, power: Reals, slot: Ints) -> tuple[Reals, Ints]:
        """Peak and its slot with one more echo."""
        stronger = use & (power > self.peak)
        return dr.select(stronger, power, self.peak), dr.select(stronger, slot, self.slot)


@dataclass
class _Ahead:
    """What lies behind the start of a window: ranges of echoes (NO_ECHO where there is none), and sums of power."""

    following: Reals
    """The first behind the start."""
    beyond: Reals
    """The first behind the window's end."""
    after: Reals
    """The first behind the window's end and the dead time."""
    near: Reals
    """Power of all behind the start that windows starting within this one can reach."""
    far: Reals
    """Power of all behind the window's end."""


@dataclass
class _BeamEchoes:
    """Passes over the echoes of each beam in memory."""

    engine: Engine
    blocks: list[Block]
    _held: list[tuple[Ints, Reals, Reals]] = field(init=False)
    """Slot, range and power of rows that are kept at hand."""

    def __post_init__(self) -> None:
        self._held = [
            self._echo(n, k, k < block.count) for n, block in enumerate(self.blocks) for k in range(block.held)
        ]

    def _echo(self, number: int, k: Ints, active: Masks) -> tuple[Ints, Reals, Reals]:
        """Slot, range and power of row k of a block; no power where not active."""
        block = self.blocks[number]
        row = block.first + k
        echo = block.rows.at(row, active)
        power = echo.power if block.scale is None else echo.power * block.scale
        return row | (number << _BLOCK_SHIFT), echo.range, power

    def is_read(self, slot: Ints) -> Masks:
        """Whether the echo with this number is as the receiver reads it, noise included."""
        mi = self.engine.mi
        numbers = [number for number, block in enumerate(self.blocks) if block.is_read]
        found = mi.Bool(False)
        for number in numbers:
            found |= (slot >> _BLOCK_SHIFT) == number
        return found

    def survey(self) -> tuple[Reals, Reals, _Sum]:
        """Nearest and farthest range of all echoes (NO_ECHO and 0 where there are none), and their sum."""
        mi, dr = self.engine.mi, self.engine.dr
        xp = namespace(mi.Float(0.0))

        def add(slot: Ints, r: Reals, p: Reals, nearest: Reals, farthest: Reals, *values: Any) -> State:
            total, use = _Sum(*values), p > 0.0
            # The moment is kept relative to the nearest echo so far, so that float32 keeps tenths of a millimetre.
            before = nearest
            nearest = dr.select(use & (r < nearest), r, nearest)
            moment = total.moment + dr.select(use & (before < NO_ECHO), total.power * (before - nearest), 0.0)
            moment = moment + dr.select(use, p * (r - nearest), 0.0)
            farthest = dr.select(use, xp.maximum(farthest, r), farthest)
            return nearest, farthest, total.power + dr.select(use, p, 0.0), moment, *total.strongest(dr, use, p, slot)

        start = (mi.Float(NO_ECHO), mi.Float(0.0), *_nothing(mi))
        nearest, farthest, *values = self._pass(start, mi.Bool(True), add)
        return nearest, farthest, _Sum(*values)

    def window(self, start: Reals, length: Reals, dead: Reals, active: Masks) -> tuple[_Sum, _Ahead]:
        """The sum over a window that starts at an echo, and what lies ahead."""
        mi, dr = self.engine.mi, self.engine.dr
        end = start + length
        blind, reach = end + dead, end + length

        def add(slot: Ints, r: Reals, p: Reals, *values: Any) -> State:
            total, ahead = _Sum(*values[:4]), _Ahead(*values[4:])
            real = p > 0.0
            behind, out = real & (r > start), real & (r > end)
            use = real & (r >= start) & (r <= end)
            return (
                total.power + dr.select(use, p, 0.0),
                total.moment + dr.select(use, p * (r - start), 0.0),
                *total.strongest(dr, use, p, slot),
                dr.select(behind & (r < ahead.following), r, ahead.following),
                dr.select(out & (r < ahead.beyond), r, ahead.beyond),
                dr.select(real & (r > blind) & (r < ahead.after), r, ahead.after),
                ahead.near + dr.select(behind & (r <= reach), p, 0.0),
                ahead.far + dr.select(out, p, 0.0),
            )

        far, zero = mi.Float(NO_ECHO), mi.Float(0.0)
        places = (far, mi.Float(far), mi.Float(far), zero, mi.Float(zero))
        values = self._pass((*_nothing(mi), *places), active, add)
        return _Sum(*values[:4]), _Ahead(*values[4:])

    def _pass(self, start: tuple[Reals, ...], active: Masks, add: Callable[..., State]) -> State:
        """Add all echoes of each beam, one after the other: `add(slot, range, power, *values)` gives the new values."""
        mi, dr = self.engine.mi, self.engine.dr

        def pass_over(number: int, block: Block, values: State) -> State:
            def step(k: Ints, *values: Any) -> State:
                return k + 1, *add(*self._echo(number, k, active), *values)

            final = dr.while_loop((mi.UInt32(block.held), *values), lambda *s: active & (s[0] < block.count), step)
            return tuple(final[1:])

        values = start
        for echo in self._held:
            values = add(*echo, *values)
        for number, block in enumerate(self.blocks):
            if not block.is_held:
                values = pass_over(number, block, values)
        return values


def _nothing(mi: Any) -> tuple[Reals, Reals, Reals, Ints]:
    """The sum over no echo."""
    return mi.Float(0.0), mi.Float(0.0), mi.Float(0.0), mi.UInt32(NOTHING)


def _empty(mi: Any, detector: Detector) -> list[Return]:
    count = 3 if detector.mode == "dual" else detector.registers
    return [Return(mi.Float(NO_ECHO), mi.Float(0.0), mi.UInt32(NOTHING)) for _ in range(count)]


def _flat(returns: list[Return]) -> State:
    return tuple(value for r in returns for value in (r.range, r.power, r.slot))


def _unflat(values: Any, count: int) -> list[Return]:
    return [Return(*values[3 * k : 3 * k + 3]) for k in range(count)]


def _select(dr: Any, mask: Masks, a: Return, b: Return) -> Return:
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
