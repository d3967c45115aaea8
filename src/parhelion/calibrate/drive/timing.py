"""Rotation and firing from time stamps of pulses: rotation rate, its jitter, columns per revolution, firing period.

Azimuth over time is the rate. Azimuth and time over the column number are columns per revolution and firing period. All
times are by the clock of the recording, from time stamps of pulses. A clock that is fast by 50 ppm changes rate and
period by as much. Host time stamps of packets or clouds are not used.
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
"""Sections of a revolution whose speeds are compared, and blocks of time stamps with independent errors."""
FEWEST_FRAMES = 4
"""Number of revolutions from which their durations determine the rate and its jitter."""
LEAST_REVOLUTION = 0.5
"""Share of a revolution that must be present to determine the rate."""
WIDEST_GAP = 0.4
"""Longest gap without pulses in a row, as a share of a revolution; the azimuth is ambiguous across longer gaps."""
SAME_RATE = 0.03
"""Relative difference within which a rate equals an offered one: heads are controlled to one percent or better."""
CLOCK = 5e-5
"""Relative tolerance of a quartz clock: smaller differences are not another rate or period."""
EXACT = 1e-7
"""Relative error below which a number is printed without an error."""
ABSOLUTE_S = 1e5
"""Time stamps above this value count from an epoch, not from the start of their frame."""


class Number(NamedTuple):
    """Number with its standard error, which includes Student's factor: 1.96 of them make a 95 % interval."""

    value: float
    error: float


@dataclass(frozen=True, eq=False)
class Timing:
    """Timing derived from time stamps of pulses."""

    rate_hz: Number
    """Revolutions per second, mean over the recording."""
    frames: int
    """Number of frames that determine the rate."""
    part_rates_hz: Floats
    """Rate in each section of each frame, shape (frames, PARTS); NaN without pulses."""
    jitter: Number | None
    """Standard deviation of the duration of revolutions, relative to the mean; None for few revolutions."""
    columns: Number | None
    """Columns per revolution; None if the recording does not number them."""
    period_us: Number | None
    """Time between columns [us]; None if the recording does not number them."""


@dataclass(frozen=True, eq=False)
class _Series:
    """Pulses of one frame in order of time, with the mean of each row subtracted."""

    time: Floats
    phase: Floats
    """Azimuth [revolutions], unwrapped."""
    column: Floats
    at: tuple[float, float]
    """Time by the recording's clock, and azimuth in (0, 1), of the first pulse of the row with most pulses."""


def fit_timing(frames: Sequence[RangeImage]) -> Timing:
    """Rate, jitter, columns and period of a rotating head. ConfigError is raised if stamps do not determine them."""
    if not any(frame.time is not None for frame in frames):
        raise ConfigError("the recording contains no time stamps of pulses")
    # Row with most time stamps over all frames.
    reference = int(np.argmax(sum(np.isfinite(frame.time).sum(axis=1) for frame in frames if frame.time is not None)))
    every = [(frame, _series(frame, reference)) for frame in frames]
    known = [one for _, one in every if one is not None]
    if not known:
        raise ConfigError(f"no frame has time stamps over {LEAST_REVOLUTION:g} of a revolution")
    whole = np.array([_slope(one.time, one.phase) for one in known])
    parts = np.stack([_part_slopes(one) for one in known])
    lengths = _lengths(known, whole)
    rate = _mean(parts)
    if len(lengths) >= FEWEST_FRAMES - 1:
        revolutions = lengths[:, 1]
        total = np.sum(revolutions * lengths[:, 0]) / np.sum(revolutions)
        # Durations are independent, so the mean over n revolutions scatters less by √n.
        deviation = np.sqrt(np.sum(revolutions * (lengths[:, 0] - total) ** 2) / (len(lengths) - 1))
        error = deviation / np.sqrt(np.sum(revolutions)) * _student(len(lengths) - 1)
        rate = Number(float(np.sign(rate.value) / total), float(error / total**2))
    numbered = [one for frame, one in every if one is not None and frame.numbered]
    columns = period = None
    if numbered:
        advance = _pooled([(one.column, one.phase) for one in numbered])
        columns = Number(abs(1.0 / advance.value), advance.error / advance.value**2)
        step = _pooled([(one.column, one.time) for one in numbered])
        period = Number(1e6 * step.value, 1e6 * step.error)
    return Timing(
        Number(abs(rate.value), rate.error), len(known), np.abs(parts), _jitter(lengths, whole), columns, period
    )


def _series(frame: RangeImage, reference: int) -> _Series | None:
    """Pulses of a frame; None if they have no time stamps or cover too little of a revolution."""
    if frame.time is None or frame.direction is None:
        return None
    order = np.argsort(np.where(np.isfinite(frame.time), frame.time, np.inf), axis=1, kind="stable")
    time = np.take_along_axis(frame.time, order, axis=1)
    azimuth = np.arctan2(frame.direction[..., 1], frame.direction[..., 0]) / (2.0 * np.pi)
    azimuth = np.take_along_axis(azimuth, order, axis=1)
    column = np.take_along_axis(frame.column.astype(np.float64), order, axis=1)
    # Clouds have neither time stamp nor direction for pulses without a return.
    there = np.isfinite(time) & np.isfinite(azimuth)
    phase = np.unwrap(azimuth, period=1.0, axis=1)
    with np.errstate(invalid="ignore"):
        followed = ~(np.abs(np.diff(phase, axis=1)) > WIDEST_GAP).any(axis=1)
    there &= (followed & (there.sum(axis=1) >= 2 * PARTS))[:, None]
    if not there[reference].any() or np.ptp(phase[there]) < LEAST_REVOLUTION or np.ptp(time[there]) <= 0.0:
        return None
    start = 0.0 if frame.start_s is None or np.nanmin(time) > ABSOLUTE_S else frame.start_s
    first = int(np.argmax(there[reference]))
    at = (start + float(time[reference, first]), float(phase[reference, first] % 1.0))

    def centred(values: Floats) -> Floats:
        count = np.maximum(there.sum(axis=1, keepdims=True), 1)
        return (values - np.sum(np.where(there, values, 0.0), axis=1, keepdims=True) / count)[there]

    return _Series(centred(time), centred(phase), centred(column), at)


def _slope(x: Floats, y: Floats) -> float:
    return float(np.sum(x * y) / np.sum(x * x))


def _block(x: Floats) -> NDArray[np.int64]:
    """Index of the section, of PARTS equal sections of the range, of each value."""
    low, wide = x.min(), np.ptp(x)
    return np.minimum((x - low) / wide * PARTS, PARTS - 1).astype(np.int64)


def _part_slopes(one: _Series) -> Floats:
    """Rate in each section of a frame."""
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
    """Common slope of several lines through 0, with an error from the scatter of blocks."""
    x, y = (np.concatenate([line[k] for line in lines]) for k in (0, 1))
    block = np.concatenate([number * PARTS + _block(line[0]) for number, line in enumerate(lines)])
    slope = _slope(x, y)
    score = np.bincount(block, x * (y - slope * x))
    error = np.sqrt(np.sum(score**2)) / np.sum(x * x) * _student(len(score) - 1)
    return Number(slope, float(error))


def _mean(parts: Floats) -> Number:
    """Mean over the sections of few frames. The rate drifts slowly, so the sections of a frame are one observation:
    the error is their scatter over the square root of the number of frames."""
    values = parts[np.isfinite(parts)]
    error = np.std(values, ddof=1) / np.sqrt(len(parts)) * _student(len(values) - 1)
    return Number(float(np.mean(values)), float(error))


def _student(freedom: int) -> float:
    """Factor by which a 95 % interval widens if its width is estimated from few values."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975) / 1.959964)


def _lengths(known: Sequence[_Series], slopes: Floats) -> Floats:
    """Mean duration of a revolution [s] between consecutive recorded frames, and the number of revolutions between."""
    times, phases = np.array([one.at for one in known]).T
    ahead = (phases - phases[0] + 0.5) % 1.0 - 0.5
    passed = np.diff(times - ahead / slopes)
    rate = float(np.mean(np.abs(slopes)))
    unsure = float(np.std(slopes)) / rate + 1e-3
    number = np.rint(passed * rate)
    # The number of revolutions is unknown across pauses and between recordings.
    sure = (number >= 1) & (number * unsure < 0.1) & (np.abs(passed * rate - number) < 0.1)
    return np.stack([passed[sure] / number[sure], number[sure]], axis=1)


def _jitter(lengths: Floats, slopes: Floats) -> Number | None:
    """Relative standard deviation of the durations of revolutions, with the error of that of normal numbers."""
    single = lengths[lengths[:, 1] == 1, 0]
    values = single if len(single) >= FEWEST_FRAMES - 1 else 1.0 / np.abs(slopes)
    if len(values) < FEWEST_FRAMES - 1:
        return None
    spread = float(np.std(values, ddof=1) / np.mean(values))
    return Number(spread, spread / np.sqrt(2.0 * (len(values) - 1)))


# ---- data sheet fields ----------------------------------------------------------------------------------------------


def timing_changes(timing: Timing, pattern: Pattern) -> SheetChanges:
    """Fields of a pattern that the timing of a recording changes.

    Heads that fire by angle have modes; the mode of the recording replaces that of the preset. Heads that fire by time
    get the measured rate and period if the preset values lie outside their intervals.
    """
    if not isinstance(pattern, SpinningPattern):
        return SheetChanges(kept={"pattern.rate_hz": f"a {pattern.kind} pattern has no revolutions"})
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
        why = f"{found} are not a mode of the sensor"
        return SheetChanges(kept=kept | {"pattern.rate_hz": why})
    rate = min(near, key=lambda r: abs(timing.rate_hz.value - r))
    if (columns, rate) == (pattern.columns, pattern.rate_hz):
        return SheetChanges(kept=kept | {"pattern.rate_hz": f"{found} are the mode of the preset"})
    changed: dict[str, Any] = {}
    if rate != pattern.rate_hz:
        changed |= {"pattern.rate_hz": rate, "pattern.rates_hz": _others(pattern.rate_hz, pattern.rates_hz, rate)}
    if columns != pattern.columns:
        others = _others(pattern.columns, pattern.columns_offered, columns)
        changed |= {"pattern.columns": columns, "pattern.columns_offered": others}
    return SheetChanges(changed, kept=kept)


def _others(preset: Any, offered: Sequence[Any], chosen: Any) -> list[Any]:
    """Offered values other than the new default."""
    return sorted({preset, *offered} - {chosen})


def _by_time(timing: Timing, pattern: SpinningPattern) -> SheetChanges:
    changes = SheetChanges()
    for name, found in (("rate_hz", timing.rate_hz), ("firing_period_us", timing.period_us)):
        path, preset = f"pattern.{name}", getattr(pattern, name)
        if found is None:
            changes.kept[path] = "the recording does not number its firings"
        elif abs(found.value - preset) <= max(1.96 * found.error, CLOCK * preset):
            changes.kept[path] = f"{in_words(found)} in the recording agrees with {preset:g} of the preset"
        else:
            changes.changed[path] = float(f"{found.value:.6g}")
            changes.error[path] = found.error
    if (rate := changes.changed.get("pattern.rate_hz")) is not None:
        changes.changed["pattern.rates_hz"] = _others(pattern.rate_hz, pattern.rates_hz, rate)
    return changes


# ---- text -----------------------------------------------------------------------------------------------------------


def in_words(number: Number, factor: float = 1.0) -> str:
    """Number with its 95 % interval, with the digits of the interval."""
    value, half = factor * number.value, 1.96 * factor * number.error
    if half < max(EXACT * abs(value), 1e-9):
        return f"{round(value, 9):.6g}"
    return f"{value:.{int(np.clip(1 - np.floor(np.log10(half)), 0, 9))}f} ± {half:.2g}"


def timing_rows(timing: Timing, pattern: Pattern) -> list[tuple[str, str, str]]:
    """Quantity, measured value with its 95 % interval, and preset value."""
    preset = {name: getattr(pattern, name, None) for name in ("rate_hz", "columns", "firing_period_us")}
    by_time, columns, rate = preset["firing_period_us"] is not None, timing.columns, timing.rate_hz
    if by_time and columns is not None:
        # Columns per revolution vary with its duration.
        columns = Number(columns.value, columns.value * rate.error / rate.value)
    rows = [
        ("rotation rate [Hz]", rate, 1.0, preset["rate_hz"]),
        ("jitter of the revolution time [%]", timing.jitter, 100.0, None),
        ("columns per revolution", columns, 1.0, preset["columns"]),
        ("firing period [us]", timing.period_us if by_time else None, 1.0, preset["firing_period_us"]),
    ]
    return [
        (name, in_words(found, factor), "–" if value is None else f"{value:g}")
        for name, found, factor, value in rows
        if found is not None
    ]
