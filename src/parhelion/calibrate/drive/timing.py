"""How a head turns and fires, from the stamps of its pulses: turn rate, its jitter, columns a turn, firing period.

Azimuth over time is the rate, and azimuth or time over the number of the column are columns a turn and firing period.
All times are by the recording's own clock, as stamps of pulses tell them; a clock that is fast by 50 ppm makes both
rate and period wrong by as much. Stamps of packets or clouds by the host are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.range_images import Floats, RangeImage
from parhelion.calibrate.sheet import SheetChanges
from parhelion.core.errors import ConfigError
from parhelion.sensors.optics.lidar.config import Pattern, SpinningPattern

PARTS = 8
"""Parts of a turn whose speeds are compared, and blocks of stamps whose errors are taken as independent."""
FEWEST_TURNS = 4
"""Turns from which on their own lengths tell the rate and its jitter."""
LEAST_TURN = 0.5
"""Part of a turn that must be there to tell the rate."""
WIDEST_GAP = 0.4
"""Part of a turn without a pulse, across which a row is not followed: its azimuth might have gone round either way."""
SAME_RATE = 0.03
"""A rate this near to an offered one is that one: heads are held to a per cent or better."""
CLOCK = 5e-5
"""Relative difference that a quartz may have by itself: smaller ones are no other rate or period."""
EXACT = 1e-7
"""Relative error below which a number is told without one."""
ABSOLUTE_S = 1e5
"""Stamps of pulses from this time on count from an epoch, not from the start of their turn."""


class Number(NamedTuple):
    """A number with its standard error, scaled where few parts tell it: 1.96 of them make an interval of 95 %."""

    value: float
    error: float


@dataclass(frozen=True, eq=False)
class Timing:
    """What stamps of pulses tell."""

    rate_hz: Number
    """Turns a second, mean over the recording."""
    turns: int
    """Turns that tell it."""
    part_rates_hz: Floats
    """Rate in each part of each turn, shape (turns, PARTS); NaN where there are no pulses."""
    jitter: Number | None
    """Standard deviation of the length of turns, relative to the mean; None for few turns."""
    columns: Number | None
    """Columns a turn; None where the recording does not number them."""
    period_us: Number | None
    """Time between columns [us]; None where the recording does not number them."""


@dataclass(frozen=True, eq=False)
class _Series:
    """The pulses of one turn in the order of time, those of each row less their own mean."""

    time: Floats
    phase: Floats
    """Azimuth [turns], not wrapped."""
    column: Floats
    at: tuple[float, float]
    """Time and azimuth of the first pulse of the fullest row, by the clock of the recording and in (0, 1)."""


def fit_timing(turns: Sequence[RangeImage]) -> Timing:
    """Rate, jitter, columns and period of a head that turns. Raises ConfigError where stamps do not tell them."""
    if not any(turn.time is not None for turn in turns):
        raise ConfigError("the recording holds no time stamps of pulses")
    # The row with most stamps, all turns together.
    reference = int(np.argmax(sum(np.isfinite(turn.time).sum(axis=1) for turn in turns if turn.time is not None)))
    every = [(turn, _series(turn, reference)) for turn in turns]
    known = [one for _, one in every if one is not None]
    if not known:
        raise ConfigError(f"no turn has stamps over {LEAST_TURN:g} of its way round")
    whole = np.array([_slope(one.time, one.phase) for one in known])
    parts = np.stack([_part_slopes(one) for one in known])
    lengths = _lengths(known, whole)
    rate = _mean(parts)
    if len(lengths) >= FEWEST_TURNS - 1:
        of_turns = lengths[:, 1]
        total = np.sum(of_turns * lengths[:, 0]) / np.sum(of_turns)
        # Each turn has a length of its own, so that of a longer gap scatters less by the root of its turns.
        one_turn = np.sqrt(np.sum(of_turns * (lengths[:, 0] - total) ** 2) / (len(lengths) - 1))
        error = one_turn / np.sqrt(np.sum(of_turns)) * _student(len(lengths) - 1)
        rate = Number(float(np.sign(rate.value) / total), float(error / total**2))
    told = [one for turn, one in every if one is not None and turn.numbered]
    columns = period = None
    if told:
        advance = _pooled([(one.column, one.phase) for one in told])
        columns = Number(abs(1.0 / advance.value), advance.error / advance.value**2)
        step = _pooled([(one.column, one.time) for one in told])
        period = Number(1e6 * step.value, 1e6 * step.error)
    return Timing(
        Number(abs(rate.value), rate.error), len(known), np.abs(parts), _jitter(lengths, whole), columns, period
    )


def _series(turn: RangeImage, reference: int) -> _Series | None:
    """The pulses of a turn; None where they have no stamps or reach over too little of it."""
    if turn.time is None or turn.direction is None:
        return None
    order = np.argsort(np.where(np.isfinite(turn.time), turn.time, np.inf), axis=1, kind="stable")
    time = np.take_along_axis(turn.time, order, axis=1)
    azimuth = np.arctan2(turn.direction[..., 1], turn.direction[..., 0]) / (2.0 * np.pi)
    azimuth = np.take_along_axis(azimuth, order, axis=1)
    column = np.take_along_axis(turn.column.astype(np.float64), order, axis=1)
    # Clouds have neither stamp nor direction for pulses that met nothing.
    there = np.isfinite(time) & np.isfinite(azimuth)
    phase = np.unwrap(azimuth, period=1.0, axis=1)
    with np.errstate(invalid="ignore"):
        followed = ~(np.abs(np.diff(phase, axis=1)) > WIDEST_GAP).any(axis=1)
    there &= (followed & (there.sum(axis=1) >= 2 * PARTS))[:, None]
    if not there[reference].any() or np.ptp(phase[there]) < LEAST_TURN or np.ptp(time[there]) <= 0.0:
        return None
    start = 0.0 if turn.start_s is None or np.nanmin(time) > ABSOLUTE_S else turn.start_s
    first = int(np.argmax(there[reference]))
    at = (start + float(time[reference, first]), float(phase[reference, first] % 1.0))

    def centred(values: Floats) -> Floats:
        count = np.maximum(there.sum(axis=1, keepdims=True), 1)
        return (values - np.sum(np.where(there, values, 0.0), axis=1, keepdims=True) / count)[there]

    return _Series(centred(time), centred(phase), centred(column), at)


def _slope(x: Floats, y: Floats) -> float:
    return float(np.sum(x * y) / np.sum(x * x))


def _block(x: Floats) -> NDArray[np.int64]:
    """Which of PARTS equal parts of its range each value lies in."""
    low, wide = x.min(), np.ptp(x)
    return np.minimum((x - low) / wide * PARTS, PARTS - 1).astype(np.int64)


def _part_slopes(one: _Series) -> Floats:
    """Rate in each part of a turn."""
    part = _block(one.time)

    def sums(values: Floats | None) -> Floats:
        return np.bincount(part, values, PARTS).astype(np.float64)

    count = sums(None)
    with np.errstate(invalid="ignore", divide="ignore"):
        time, phase = sums(one.time) / count, sums(one.phase) / count
        square = sums(one.time**2) / count - time**2
        slope = (sums(one.time * one.phase) / count - time * phase) / square
    return np.where((count >= 2) & (square > 0.0), slope, np.nan)


def _pooled(lines: Sequence[tuple[Floats, Floats]]) -> Number:
    """The common slope of several lines through 0, with an error by how blocks of them scatter."""
    x, y = (np.concatenate([line[k] for line in lines]) for k in (0, 1))
    block = np.concatenate([number * PARTS + _block(line[0]) for number, line in enumerate(lines)])
    slope = _slope(x, y)
    score = np.bincount(block, x * (y - slope * x))
    error = np.sqrt(np.sum(score**2)) / np.sum(x * x) * _student(len(score) - 1)
    return Number(slope, float(error))


def _mean(parts: Floats) -> Number:
    """Mean of the parts of few turns. The head wanders slowly, so the parts of a turn are no more than one look at it:
    the error is how they scatter, over the root of the number of turns."""
    values = parts[np.isfinite(parts)]
    error = np.std(values, ddof=1) / np.sqrt(len(parts)) * _student(len(values) - 1)
    return Number(float(np.mean(values)), float(error))


def _student(freedom: int) -> float:
    """How much wider an interval of 95 % is where its width is known from few values."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975) / 1.959964)


def _lengths(known: Sequence[_Series], slopes: Floats) -> Floats:
    """Mean length of a turn [s] between one turn and the next that was recorded, and how many turns lie between."""
    times, phases = np.array([one.at for one in known]).T
    ahead = (phases - phases[0] + 0.5) % 1.0 - 0.5
    passed = np.diff(times - ahead / slopes)
    rate = float(np.mean(np.abs(slopes)))
    unsure = float(np.std(slopes)) / rate + 1e-3
    number = np.rint(passed * rate)
    # A recording that pauses, or turns of several recordings, do not tell how often the head went round between.
    sure = (number >= 1) & (number * unsure < 0.1) & (np.abs(passed * rate - number) < 0.1)
    return np.stack([passed[sure] / number[sure], number[sure]], axis=1)


def _jitter(lengths: Floats, slopes: Floats) -> Number | None:
    """Relative standard deviation of the lengths of turns; its error is that of a deviation of normal numbers."""
    single = lengths[lengths[:, 1] == 1, 0]
    values = single if len(single) >= FEWEST_TURNS - 1 else 1.0 / np.abs(slopes)
    if len(values) < FEWEST_TURNS - 1:
        return None
    spread = float(np.std(values, ddof=1) / np.mean(values))
    return Number(spread, spread / np.sqrt(2.0 * (len(values) - 1)))


# ---- into the sheet -------------------------------------------------------------------------------------------------


def timing_changes(timing: Timing, pattern: Pattern) -> SheetChanges:
    """Fields of a pattern that a recording's timing changes.

    Heads that fire by angle have modes, and the recording's is taken where it is another one. Those that fire by time
    get the measured rate and period where the preset's lie outside their intervals.
    """
    if not isinstance(pattern, SpinningPattern):
        return SheetChanges(kept={"pattern.rate_hz": f"a {pattern.kind} pattern has no turns"})
    return _mode(timing, pattern) if pattern.firing_period_us is None else _by_time(timing, pattern)


def _mode(timing: Timing, pattern: SpinningPattern) -> SheetChanges:
    assert pattern.columns is not None
    kept: dict[str, str] = {}
    columns = pattern.columns if timing.columns is None else round(timing.columns.value)
    if timing.columns is None:
        kept["pattern.columns"] = "the recording does not number its columns"
    every = pattern.modes or [
        (c, r) for c in (pattern.columns, *pattern.columns_offered) for r in (pattern.rate_hz, *pattern.rates_hz)
    ]
    near = [r for c, r in every if c == columns and abs(timing.rate_hz.value - r) < SAME_RATE * r]
    found = f"{columns} columns at {in_words(timing.rate_hz)} Hz"
    if not near:
        why = f"{found} are no mode of the sensor"
        return SheetChanges(kept=kept | {"pattern.rate_hz": why})
    rate = min(near, key=lambda r: abs(timing.rate_hz.value - r))
    if (columns, rate) == (pattern.columns, pattern.rate_hz):
        return SheetChanges(kept=kept | {"pattern.rate_hz": f"{found} are the preset's mode"})
    changed: dict[str, Any] = {}
    if rate != pattern.rate_hz:
        changed |= {"pattern.rate_hz": rate, "pattern.rates_hz": _others(pattern.rate_hz, pattern.rates_hz, rate)}
    if columns != pattern.columns:
        others = _others(pattern.columns, pattern.columns_offered, columns)
        changed |= {"pattern.columns": columns, "pattern.columns_offered": others}
    return SheetChanges(changed, kept=kept)


def _others(usual: Any, offered: Sequence[Any], chosen: Any) -> list[Any]:
    """What is offered beside the value that becomes the default."""
    return sorted({usual, *offered} - {chosen})


def _by_time(timing: Timing, pattern: SpinningPattern) -> SheetChanges:
    changes = SheetChanges()
    for name, found in (("rate_hz", timing.rate_hz), ("firing_period_us", timing.period_us)):
        path, usual = f"pattern.{name}", getattr(pattern, name)
        if found is None:
            changes.kept[path] = "the recording does not number its firings"
        elif abs(found.value - usual) <= max(1.96 * found.error, CLOCK * usual):
            changes.kept[path] = f"{in_words(found)} in the recording is no other than the preset's {usual:g}"
        else:
            changes.changed[path] = float(f"{found.value:.6g}")
            changes.error[path] = found.error
    if (rate := changes.changed.get("pattern.rate_hz")) is not None:
        changes.changed["pattern.rates_hz"] = _others(pattern.rate_hz, pattern.rates_hz, rate)
    return changes


# ---- for people -----------------------------------------------------------------------------------------------------


def in_words(number: Number, factor: float = 1.0) -> str:
    """A number with its 95 % interval, as many digits as the interval has."""
    value, half = factor * number.value, 1.96 * factor * number.error
    if half < max(EXACT * abs(value), 1e-9):
        return f"{round(value, 9):.6g}"
    return f"{value:.{int(np.clip(1 - np.floor(np.log10(half)), 0, 9))}f} ± {half:.2g}"


def timing_rows(timing: Timing, pattern: Pattern) -> list[tuple[str, str, str]]:
    """What was found, its value with the 95 % interval, and what the preset says."""
    usual = {name: getattr(pattern, name, None) for name in ("rate_hz", "columns", "firing_period_us")}
    by_time, columns, rate = usual["firing_period_us"] is not None, timing.columns, timing.rate_hz
    if by_time and columns is not None:
        # As many as go into a turn, whose length wanders.
        columns = Number(columns.value, columns.value * rate.error / rate.value)
    rows = [
        ("turn rate [Hz]", rate, 1.0, usual["rate_hz"]),
        ("jitter of the length of turns [%]", timing.jitter, 100.0, None),
        ("columns a turn", columns, 1.0, usual["columns"]),
        ("firing period [us]", timing.period_us if by_time else None, 1.0, usual["firing_period_us"]),
    ]
    return [
        (name, in_words(found, factor), "–" if value is None else f"{value:g}")
        for name, found, factor, value in rows
        if found is not None
    ]
