"""Detection: from the echoes of a beam's sub-rays to the reported returns, one kernel thread per beam.

A window as long as the merge distance starts at the nearest unused echo. If its summed power passes the threshold, the
window becomes one return at the power-weighted mean range, and the search continues behind it. Otherwise the window
moves to the next echo. No waveform is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from parhelion.core.arrays import Bool, DrJit, Float, Int, Ints, Keys, Masks, Mitsuba, Reals, State, namespace
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.random import to_normal, to_unit, words
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.scene import NOTHING
from parhelion.sensors.optics.beams import Beams
from parhelion.sensors.optics.lidar.config import LidarConfig, ReturnMode
from parhelion.sensors.optics.lidar.draws import FALSE_ALARM_DRAW, WINDOW_DRAW
from parhelion.sensors.optics.lidar.echoes import NO_ECHO, Block, ReturnEcho, choose
from parhelion.sensors.optics.phase import ambiguity_m, phase_range, phase_sigma_m, unfolded

FALSE_ALARM = NOTHING - 1
"""Slot number of a return that was caused by noise alone."""
_BLOCK_SHIFT = 29
"""Bit of a slot number that separates the block number (above) from the row (below)."""
_MOST_DEVIATIONS = 5.0
"""Largest noise deviation considered: the search skips windows that would need more to be detected."""


@kernel_tree(fixed=("mode", "max_returns", "noisy"))
@dataclass
class Detector:
    """Parameters of the receiver, opaque to the kernel compiler."""

    mode: ReturnMode
    max_returns: int
    merge_distance: Float
    dead_distance: Float
    """Distance behind a return within which the receiver is blind [m]."""
    noise_sigma: Float
    """Standard deviation of the noise without signal [P_min]."""
    shot_noise: Float | None
    """Variance that each unit of signal adds [P_min]: 1 / photons at the threshold; None if negligible."""
    noisy: bool
    false_alarm_chance: Float | None
    """Probability of a false return per shot, or None."""
    min_range: Float
    max_range: Float
    fine_ambiguity: Float | None = None
    """Range after which the phase of a lidar that measures phases repeats [m]; None for others."""
    coarse_ambiguity: Float | None = None
    """Likewise of its coarse frequency; None without one."""
    coarse_sigma: Float | None = None
    """Standard deviation of the coarse range at an SNR of 1 [m]."""

    @classmethod
    def of(
        cls,
        engine: Engine,
        config: LidarConfig,
        noise_sigma: float,
        *,
        noisy: bool,
        merge_distance: Float | None = None,
        false_alarms: bool = True,
    ) -> Detector:
        """Receiver of a data sheet, for simulated and recorded scans.

        `merge_distance` [m], one number per beam, replaces that of the sheet.
        """
        receiver, limits, number = config.receiver, config.range, engine.number
        open_time = 2.0 * (limits.max_m - limits.min_m) / SPEED_OF_LIGHT_M_S
        alarms = config.noise.false_alarm_rate_hz if false_alarms else 0.0
        phases: dict[str, Float] = {}
        if config.amcw is not None:
            phases["fine_ambiguity"] = number(ambiguity_m(1e6 * config.amcw.fine_mhz))
            if config.amcw.coarse_mhz is not None:
                coarse_hz = 1e6 * config.amcw.coarse_mhz
                phases["coarse_ambiguity"] = number(ambiguity_m(coarse_hz))
                phases["coarse_sigma"] = number(float(cast(float, phase_sigma_m(1.0, modulation_hz=coarse_hz))))
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
            **phases,
        )

    def with_noise(self, power: Float, deviations: Reals) -> Float:
        """Received power plus noise of this many standard deviations."""
        sigma = self.noise_sigma
        if self.shot_noise is not None:
            sigma = namespace(power).sqrt(sigma * sigma + self.shot_noise * power)
        return power + deviations * sigma

    @property
    def registers(self) -> int:
        """Largest number of returns per shot in this mode."""
        return {"first": 1, "strongest": 1, "last": 1, "dual": 2, "all": self.max_returns}[self.mode]


@dataclass
class Return:
    """One return of every beam, as kernel variables."""

    range: Float
    """Range without noise [m], NO_ECHO where there is no return."""
    power: Float
    slot: Int
    """Slot of the strongest contributing echo (see `echo_of`), or FALSE_ALARM."""


def echo_of(engine: Engine, blocks: list[Block], slot: Int, active: Bool) -> ReturnEcho:
    """Echo with a slot number."""
    dr = engine.dr
    number, row = slot >> _BLOCK_SHIFT, row_of(slot)
    found = ReturnEcho.none(engine)
    for k, block in enumerate(blocks):
        here = active & (number == k)
        found = choose(dr, here, block.rows.at(dr.select(here, row, 0), here), found)
    return found


def row_of(slot: Int) -> Int:
    """Row of a slot number within its block."""
    return slot & ((1 << _BLOCK_SHIFT) - 1)


def detect(
    engine: Engine, detector: Detector, blocks: list[Block], beams: Beams, beam: Int, keys: Keys
) -> list[Return]:
    """Returns of beams in order of range.

    `beam` holds the number of each beam, `blocks` its echoes (eight blocks at most), `keys` two words per scan.
    """
    mi, dr = engine.mi, engine.dr
    shot, key = beams.draws(engine, beam, keys)
    if detector.fine_ambiguity is not None:
        return [_by_phase(engine, detector, blocks, shot, key)]
    found = _search(engine, detector, blocks, shot, key)
    if detector.noisy and detector.false_alarm_chance is not None:
        chance, place, size, _ = words(key, shot, FALSE_ALARM_DRAW)
        span, nearest = detector.max_range - detector.min_range, detector.min_range
        alarm = Return(
            dr.select(to_unit(chance) < detector.false_alarm_chance, nearest + span * to_unit(place), NO_ECHO),
            1.0 + detector.noise_sigma * to_unit(size),
            mi.UInt32(FALSE_ALARM),
        )
        found = _offer(engine, detector.mode, found, alarm)
    if detector.mode == "dual":
        strongest, second, last = found
        # Velodyne's rule: if the strongest return is also the last, the second strongest is reported with it.
        same = strongest.slot == last.slot
        found = _sorted_pair(dr, strongest, _select(dr, same, second, last))
    return found


def _by_phase(engine: Engine, detector: Detector, blocks: list[Block], shot: Int, key: Keys) -> Return:
    """Range by the phase of all light of each beam; the power is the amplitude of the fine modulation."""
    mi, dr = engine.mi, engine.dr
    fine, coarse = detector.fine_ambiguity, detector.coarse_ambiguity
    echoes = _BeamEchoes(engine, blocks)

    def phasor(r: Float, p: Float, ambiguity: Float) -> tuple[Float, Float]:
        turns = r / ambiguity
        angle = (2.0 * math.pi) * (turns - dr.floor(turns))
        return p * dr.cos(angle), p * dr.sin(angle)

    def add(slot: Int, r: Float, p: Float, *values: Any) -> State:
        use = (p > 0.0) & (r < NO_ECHO)
        r, p = dr.select(use, r, 0.0), dr.select(use, p, 0.0)
        sums = [a + b for a, b in zip(values[:2], phasor(r, p, cast("Float", fine)), strict=True)]
        if coarse is not None:
            sums += [a + b for a, b in zip(values[2:4], phasor(r, p, coarse), strict=True)]
        peak, best = values[-2:]
        stronger = use & (p > peak)
        return *sums, dr.select(stronger, p, peak), dr.select(stronger, slot, best)

    zeros = [mi.Float(0.0) for _ in range(2 if coarse is None else 4)]
    *sums, _, best = echoes._pass((*zeros, mi.Float(0.0), mi.UInt32(NOTHING)), mi.Bool(True), add)
    power = dr.sqrt(sums[0] * sums[0] + sums[1] * sums[1])
    range_m = phase_range(sums[0], sums[1], ambiguity=fine)
    deviation, wrong = mi.Float(0.0), mi.Float(0.0)
    if detector.noisy:
        a, b, _, _ = words(key, shot, WINDOW_DRAW)
        deviation, wrong = to_normal(a, b)
    if coarse is not None:
        rough = phase_range(sums[2], sums[3], ambiguity=coarse)
        snr = namespace(power).maximum(power, 1e-6) / detector.noise_sigma
        rough = rough + wrong * cast("Float", detector.coarse_sigma) / snr
        range_m = unfolded(range_m, rough, fine_ambiguity=fine, coarse_ambiguity=coarse)
    hit = (best != NOTHING) & (detector.with_noise(power, deviation) >= 1.0) & (range_m >= detector.min_range)
    return Return(dr.select(hit, range_m, NO_ECHO), power, best)


def _search(engine: Engine, detector: Detector, blocks: list[Block], shot: Int, key: Keys) -> list[Return]:
    mi, dr = engine.mi, engine.dr
    n = len(_empty(mi, detector))
    echoes = _BeamEchoes(engine, blocks)
    most = _MOST_DEVIATIONS if detector.noisy else 0.0
    nearest, farthest, everything = echoes.survey()
    # All echoes together, with the largest noise deviation, must be able to pass the threshold.
    possible = (nearest < NO_ECHO) & (detector.with_noise(everything.power, most) >= 1.0)

    def step(start: Float, anchor: Float, number: Int, going: Bool, *registers: Any) -> State:
        end = start + detector.merge_distance
        # If all echoes lie in the first window, their sum is known already.
        again = going & ((start > nearest) | (farthest > end))
        in_window, ahead = echoes.window(start, detector.merge_distance, detector.dead_distance, again)
        sums: Any = (dr.select(again, x, y) for x, y in zip(in_window.sums, everything.sums, strict=True))
        power, moment, slot = sums
        deviation: Reals = 0.0
        most_near: Reals = 0.0
        if detector.noisy:
            # Overlapping windows share their noise: a weak echo must not get a new draw with every sub-ray.
            fresh = going & (start > anchor + detector.merge_distance)
            anchor = dr.select(fresh, start, anchor)
            number = dr.select(fresh, number + 1, number)
            a, b, _, _ = words(key, shot, number + WINDOW_DRAW)
            deviation = to_normal(a, b)[0]
            # All windows that start within a window of fresh noise share its draw; later ones may draw again.
            most_near = dr.select(fresh, deviation, most)
            deviation = dr.select(echoes.is_read(slot), 0.0, deviation)
        hit = going & (detector.with_noise(power, deviation) >= 1.0)
        echo = Return(dr.select(hit, start + moment / power, NO_ECHO), power, slot)
        found = _offer(engine, detector.mode, _unflat(registers, n), echo)
        # If no echo lies behind the window, no later window can hold more power than this one.
        going &= again & (farthest > end)
        # Windows that start within this one hold at most `near`, those behind it at most `far`. The search skips them
        # if that power cannot pass the threshold.
        close = ~hit & (detector.with_noise(ahead.near, most_near) >= 1.0)
        going &= close | (detector.with_noise(ahead.far, most) >= 1.0)
        start = dr.select(going, dr.select(hit, ahead.after, dr.select(close, ahead.following, ahead.beyond)), start)
        going &= start < NO_ECHO
        return start, anchor, number, going, *_flat(found)

    state = (mi.Float(nearest), mi.Float(-1e6), mi.UInt32(0), mi.Bool(possible), *_flat(_empty(mi, detector)))
    final = dr.while_loop(state, lambda *s: s[3], step)
    return _unflat(final[4:], n)


@dataclass
class _Sum:
    """Sum over several echoes, as kernel variables."""

    power: Float
    moment: Float
    """Power times range relative to the nearest echo."""
    peak: Float
    slot: Int
    """Slot of the strongest echo."""

    @property
    def sums(self) -> tuple[Float, Float, Int]:
        return self.power, self.moment, self.slot

    def strongest(self, dr: DrJit, use: Bool, power: Float, slot: Int) -> tuple[Float, Int]:
        """Peak and its slot after adding one echo."""
        stronger = use & (power > self.peak)
        return dr.select(stronger, power, self.peak), dr.select(stronger, slot, self.slot)


@dataclass
class _Ahead:
    """Echoes behind the start of a window: their ranges (NO_ECHO if there is none) and summed powers."""

    following: Float
    """Range of the first echo behind the start."""
    beyond: Float
    """Range of the first echo behind the window's end."""
    after: Float
    """Range of the first echo behind the window's end and the dead time."""
    near: Float
    """Power of all echoes behind the start that windows starting within this one can reach."""
    far: Float
    """Power of all echoes behind the window's end."""


@dataclass
class _BeamEchoes:
    """Passes over the echoes of each beam in memory."""

    engine: Engine
    blocks: list[Block]
    _held: list[tuple[Int, Float, Float]] = field(init=False)
    """Slot, range and power of the rows that are held in registers."""

    def __post_init__(self) -> None:
        self._held = [
            self._echo(n, k, k < block.count) for n, block in enumerate(self.blocks) for k in range(block.held)
        ]

    def _echo(self, number: int, k: Ints, active: Masks) -> tuple[Int, Float, Float]:
        """Slot, range and power of row k of a block; zero power where not active."""
        block = self.blocks[number]
        row = block.first + k
        echo = block.rows.at(row, active)
        power = echo.power if block.scale is None else echo.power * block.scale
        return row | (number << _BLOCK_SHIFT), echo.range, power

    def is_read(self, slot: Int) -> Bool:
        """Mask of slots whose power includes the receiver's noise already."""
        mi = self.engine.mi
        numbers = [number for number, block in enumerate(self.blocks) if block.is_read]
        found = mi.Bool(False)
        for number in numbers:
            found |= (slot >> _BLOCK_SHIFT) == number
        return found

    def survey(self) -> tuple[Float, Float, _Sum]:
        """Nearest and farthest range of all echoes (NO_ECHO and 0 if there are none), and their sum."""
        mi, dr = self.engine.mi, self.engine.dr
        xp = namespace(mi.Float(0.0))

        def add(slot: Int, r: Float, p: Float, nearest: Float, farthest: Float, *values: Any) -> State:
            total, use = _Sum(*values), p > 0.0
            # The moment is relative to the nearest echo so far, so that float32 resolves tenths of a millimetre.
            before = nearest
            nearest = dr.select(use & (r < nearest), r, nearest)
            moment = total.moment + dr.select(use & (before < NO_ECHO), total.power * (before - nearest), 0.0)
            moment = moment + dr.select(use, p * (r - nearest), 0.0)
            farthest = dr.select(use, xp.maximum(farthest, r), farthest)
            return nearest, farthest, total.power + dr.select(use, p, 0.0), moment, *total.strongest(dr, use, p, slot)

        start = (mi.Float(NO_ECHO), mi.Float(0.0), *_nothing(mi))
        nearest, farthest, *values = self._pass(start, mi.Bool(True), add)
        return nearest, farthest, _Sum(*values)

    def window(self, start: Float, length: Float, dead: Float, active: Bool) -> tuple[_Sum, _Ahead]:
        """Sum over a window that starts at an echo, and the echoes ahead of it."""
        mi, dr = self.engine.mi, self.engine.dr
        end = start + length
        blind, reach = end + dead, end + length

        def add(slot: Int, r: Float, p: Float, *values: Any) -> State:
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

    def _pass(self, start: State, active: Bool, add: Callable[..., State]) -> State:
        """Fold all echoes of each beam: `add(slot, range, power, *values)` returns the updated values."""
        mi, dr = self.engine.mi, self.engine.dr

        def pass_over(number: int, block: Block, values: State) -> State:
            def step(k: Int, *values: Any) -> State:
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


def _nothing(mi: Mitsuba) -> tuple[Float, Float, Float, Int]:
    """Sum over no echo."""
    return mi.Float(0.0), mi.Float(0.0), mi.Float(0.0), mi.UInt32(NOTHING)


def _empty(mi: Mitsuba, detector: Detector) -> list[Return]:
    count = 3 if detector.mode == "dual" else detector.registers
    return [Return(mi.Float(NO_ECHO), mi.Float(0.0), mi.UInt32(NOTHING)) for _ in range(count)]


def _flat(returns: list[Return]) -> State:
    return tuple(value for r in returns for value in (r.range, r.power, r.slot))


def _unflat(values: Any, count: int) -> list[Return]:
    return [Return(*values[3 * k : 3 * k + 3]) for k in range(count)]


def _select(dr: DrJit, mask: Bool, a: Return, b: Return) -> Return:
    return Return(dr.select(mask, a.range, b.range), dr.select(mask, a.power, b.power), dr.select(mask, a.slot, b.slot))


def _sorted_pair(dr: DrJit, a: Return, b: Return) -> list[Return]:
    swap = b.range < a.range
    return [_select(dr, swap, b, a), _select(dr, swap, a, b)]


def _offer(engine: Engine, mode: ReturnMode, found: list[Return], new: Return) -> list[Return]:
    """Insert a new return where the mode requires it; the order of insertion does not matter."""
    dr = engine.dr
    real = new.range < NO_ECHO
    empty = [r.range >= NO_ECHO for r in found]
    if mode == "first":
        return [_select(dr, real & (new.range < found[0].range), new, found[0])]
    if mode == "last":
        return [_select(dr, real & (empty[0] | (new.range > found[0].range)), new, found[0])]
    if mode == "strongest":
        return [_select(dr, real & (new.power > found[0].power), new, found[0])]
    if mode == "dual":
        strongest, second, last = found
        best = real & (new.power > strongest.power)
        third = _select(dr, real & (empty[2] | (new.range > last.range)), new, last)
        runner_up = _select(dr, best, strongest, _select(dr, real & (new.power > second.power), new, second))
        return [_select(dr, best, new, strongest), runner_up, third]
    # "all": insertion into a list sorted by range; the farthest is dropped.
    result = []
    for old in found:
        swap = new.range < old.range
        result.append(_select(dr, swap, new, old))
        new = _select(dr, swap, old, new)
    return result
