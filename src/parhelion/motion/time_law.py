"""Time laws of a motion along a path: from given times, or as fast as limits allow."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.motion.curves import NATURAL, REST, Path, chain, jet_of, quintic

_RAMP_STEPS = 16
_CHECKS_A_RAMP = 48
_CHECK_S, _LAST_CHECK_S = 0.01, 0.0025
_MOST_ROUNDS = 8
_MOST_POINTS = 500_000
_CLOSE_ENOUGH = 1.005
_SLOWEST_SHARE = 0.02


@dataclass(frozen=True)
class MotionLimits:
    """Limits of speed and acceleration along a path.

    >>> MotionLimits(max_speed_m_s=10.0, max_acceleration_m_s2=2.0, max_lateral_m_s2=3.0).ramp_s
    0.4
    """

    max_speed_m_s: float
    """Highest speed [m/s]."""
    max_acceleration_m_s2: float
    """Highest acceleration and deceleration along the path [m/s²]."""
    max_lateral_m_s2: float
    """Highest acceleration across the path [m/s²]: speed² times curvature."""
    ramp_s: float = 0.4
    """Time [s] in which acceleration rises or falls; jerk along the path is at most 4 max_acceleration/ramp."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 < value < np.inf:
                raise ConfigError(f"motion limits: {field.name} must be a number above 0, got {value!r}")


@dataclass(frozen=True)
class TimeLaw:
    """Arc length s [m] as a function of time [s] since the start: a spline plus a constant rate."""

    curve: Any
    """Spline of s(t) - `rate` t, for t from 0 to `duration_s`."""
    duration_s: float
    rate: float = 0.0
    """Mean speed [m/s] that is not included in `curve`; 0 unless `repeats`."""
    repeats: bool = False
    """True if the motion is periodic with its duration, also before its start."""

    def jet(self, time: Floats, order: int) -> Floats:
        """Arc length and its derivatives up to `order`, shape (order + 1, n); at rest outside of its duration."""
        if self.repeats:
            phase = np.mod(time, self.duration_s)
            jet = jet_of(self.curve, phase, order)
            jet[0] += self.rate * phase
            jet[1:2] += self.rate
            return jet
        jet = jet_of(self.curve, np.clip(time, 0.0, self.duration_s), order)
        jet[1:, (time < 0.0) | (time > self.duration_s)] = 0.0
        return jet


class Ends(NamedTuple):
    """Conditions at the start and the end of a motion."""

    start_at_rest: bool
    stop_at_rest: bool
    repeats: bool

    @property
    def vanishing(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Orders of the derivatives that are zero at the start, and at the end."""
        return REST if self.start_at_rest else NATURAL, REST if self.stop_at_rest else NATURAL


# ---- given times ---------------------------------------------------------------------------------------------------


def law_through(times: Floats, arc: Floats, ends: Ends) -> TimeLaw:
    """Time law through given arc lengths at given times (from 0, increasing; arc lengths may repeat), never backwards.

    A quintic spline (C4), if it never runs backwards nor faster than twice the fastest adjacent leg. Otherwise a
    piecewise quintic (C2) without acceleration at the given times: its slopes d there are harmonic means of the slopes
    of the two legs, at most twice either of them, which makes it monotone. On a leg of slope m, with x from 0 to 1,
    s' = d_0 + (d_1 - d_0)(3x² - 2x³) + (m - (d_0 + d_1)/2) 30 x²(1 - x)², which is linear in d_0 and d_1 and
    non-negative if each of them is 0 or 2 m.
    """
    duration = float(times[-1])
    rate = float(arc[-1]) / duration if ends.repeats else 0.0
    rest = arc - rate * times
    if ends.repeats:
        rest[-1] = rest[0]
    start, end = ends.vanishing
    smooth = TimeLaw(quintic(times, rest, start=start, end=end, closed=ends.repeats), duration, rate, ends.repeats)
    slopes = np.diff(arc) / np.diff(times)
    around = np.concatenate([slopes[-1:], slopes, slopes[:1]] if ends.repeats else [slopes[:1], slopes, slopes[-1:]])
    fastest = 2.0 * np.maximum(np.maximum(around[:-2], around[2:]), slopes)
    # Speed is a polynomial of degree 4 on each leg, bounded by its five Bernstein coefficients.
    place = np.linspace(0.0, 1.0, 5)
    inside = times[:-1, None] + np.diff(times)[:, None] * place
    speed = smooth.jet(inside.ravel(), 1)[1].reshape(inside.shape)
    forms = np.stack([math.comb(4, k) * place**k * (1.0 - place) ** (4 - k) for k in range(5)], axis=1)
    bounds = np.linalg.solve(forms, speed.T).T
    if np.all(bounds >= -1e-9 * np.max(slopes)) and np.all(bounds <= fastest[:, None]):
        return smooth
    return _monotone_law(times, arc, around, ends)


def _monotone_law(times: Floats, arc: Floats, around: Floats, ends: Ends) -> TimeLaw:
    from scipy.interpolate import BPoly

    before, after = around[:-1], around[1:]
    both = before + after
    speed = np.where(both > 0.0, 2.0 * before * after / np.where(both > 0.0, both, 1.0), 0.0)
    if not ends.repeats:
        speed[0] *= not ends.start_at_rest
        speed[-1] *= not ends.stop_at_rest
    curve = BPoly.from_derivatives(times, np.stack([arc, speed, np.zeros_like(arc)], axis=1))
    return TimeLaw(curve, float(times[-1]), 0.0, ends.repeats)


# ---- limits --------------------------------------------------------------------------------------------------------


def law_within(path: Path, limits: MotionLimits, ends: Ends) -> TimeLaw:
    """Time law of the fastest motion along `path` within the limits, with continuous acceleration.

    Half the squared speed e(s) changes by at most the acceleration limit per metre. One pass forward and one backward
    find the highest such e below its limit everywhere. That motion has jumps of acceleration, so arc length over time
    is averaged with a triangle of width `ramp_s`, which cannot raise speed or acceleration along the path. It raises
    the speed in short bends a little: there the limit is lowered, and the procedure repeated. The remaining excess,
    typically below 0.5 %, is removed by slowing down the whole motion. All limits then hold to rounding at points at
    most 2.5 ms apart (more beyond 80 min), and to about 0.1 % between them.
    """
    grid = path.grid
    bends = np.maximum(path.curvature(grid), 1e-12)
    allowed = np.minimum(0.5 * limits.max_speed_m_s**2, 0.5 * limits.max_lateral_m_s2 / bends)
    lowest = _SLOWEST_SHARE * allowed
    best: tuple[float, TimeLaw] | None = None
    for _ in range(_MOST_ROUNDS):
        energy = _fastest(grid, allowed, limits.max_acceleration_m_s2, ends)
        law = _smoothed(grid, energy, limits.ramp_s, ends)
        arc, across, stretch = _excess(path, law, limits, _CHECK_S)
        if best is None or law.duration_s * stretch < best[0] * best[1].duration_s:
            best = stretch, law
        if stretch <= _CLOSE_ENOUGH:
            break
        allowed = np.maximum(allowed / np.clip(np.interp(grid, arc, across), 1.0, 2.0), lowest)
    assert best is not None
    law = best[1]
    return _stretched(law, _excess(path, law, limits, _LAST_CHECK_S)[2])


def _fastest(grid: Floats, allowed: Floats, acceleration: float, ends: Ends) -> Floats:
    """Half the squared speed [m²/s²] at arc lengths `grid` [m]: the highest feasible one below `allowed`."""
    arc, limit = grid, allowed.copy()
    if ends.repeats:
        # One lap before and one after provide the speeds at both ends of the lap.
        arc = np.concatenate([grid[:-1] - grid[-1], grid, grid[1:] + grid[-1]])
        limit = np.concatenate([allowed[:-1], allowed, allowed[1:]])
    if ends.start_at_rest:
        limit[0] = 0.0
    if ends.stop_at_rest:
        limit[-1] = 0.0
    # Lower envelope of the straight lines that start at earlier limits, then of those that end at later ones.
    energy = np.minimum.accumulate(limit - acceleration * arc) + acceleration * arc
    energy = np.minimum.accumulate((energy + acceleration * arc)[::-1])[::-1] - acceleration * arc
    energy = np.clip(energy, 0.0, limit)
    return energy[len(grid) - 1 : 2 * len(grid) - 1] if ends.repeats else energy


def _smoothed(grid: Floats, energy: Floats, ramp_s: float, ends: Ends) -> TimeLaw:
    """Time law of e(s), averaged over a triangle of width `ramp_s`."""
    length = float(grid[-1])
    speed = np.sqrt(2.0 * energy)
    clock = np.concatenate([[0.0], np.cumsum(2.0 * np.diff(grid) / (speed[1:] + speed[:-1]))])
    total = float(clock[-1])

    def arc_at(time: Floats) -> Floats:
        # Exact, because acceleration is constant between two points of the grid.
        index = np.clip(np.searchsorted(clock, time, side="right") - 1, 0, len(clock) - 2)
        since, span = time - clock[index], clock[index + 1] - clock[index]
        return grid[index] + since * (speed[index] + 0.5 * (speed[index + 1] - speed[index]) * since / span)

    def arc_beyond(time: Floats) -> Floats:
        if ends.repeats:
            laps = np.floor(time / total)
            return arc_at(time - laps * total) + laps * length
        # A body at rest stays; one that moves continues as on a mirrored path, which keeps the end in place.
        inside = np.clip(np.where(time > total, 2.0 * total - time, np.abs(time)), 0.0, total)
        arc = arc_at(inside)
        before = 0.0 if ends.start_at_rest else -arc
        after = length if ends.stop_at_rest else 2.0 * length - arc
        return np.where(time < 0.0, before, np.where(time > total, after, arc))

    width = _RAMP_STEPS // 2
    step = ramp_s / _RAMP_STEPS
    if total > step * _MOST_POINTS:
        raise ConfigError(
            f"motion limits: ramp_s must be at least {_RAMP_STEPS * total / _MOST_POINTS:.3g} for a path that takes "
            f"{total:.3g} s, got {ramp_s}; raise it, or allow a higher speed"
        )
    if ends.stop_at_rest:
        count = int(np.ceil(total / step)) + width
    else:
        count = max(int(np.ceil(total / step)), 2 * width)
        step = total / count
    first = -width if ends.start_at_rest else 0
    asked: Floats = step * np.arange(first - width + 1, count + width, dtype=np.float64)
    triangle = np.convolve(np.ones(width), np.ones(width)) / width**2
    arc: Floats = np.convolve(arc_beyond(asked), triangle, mode="valid")
    time: Floats = step * np.arange(len(arc), dtype=np.float64)
    duration = float(time[-1])
    if ends.repeats:
        rate = length / duration
        rest = arc - arc[0] - rate * time
        rest[-1] = rest[0]
        return TimeLaw(quintic(time, rest, closed=True), duration, rate, True)
    arc[0], arc[-1] = 0.0, length
    start, end = ends.vanishing
    return TimeLaw(quintic(time, arc, start=start, end=end), duration)


def _excess(path: Path, law: TimeLaw, limits: MotionLimits, check_s: float) -> tuple[Floats, Floats, float]:
    """Arc lengths, lateral acceleration over its limit there, and the factor by which the motion must be slower."""
    count = int(min(np.ceil(law.duration_s / min(check_s, limits.ramp_s / _CHECKS_A_RAMP)) + 1, _MOST_POINTS))
    arc = law.jet(np.linspace(0.0, law.duration_s, count), 2)
    line = path.jet(arc[0], 2)
    _, velocity, acceleration = chain(line, arc)
    speed = np.linalg.norm(velocity, axis=1)
    # Direction of the path, because the velocity has none at rest.
    direction = line[1] / np.linalg.norm(line[1], axis=1, keepdims=True)
    along = np.sum(direction * acceleration, axis=1)
    across = np.linalg.norm(acceleration - along[:, None] * direction, axis=1) / limits.max_lateral_m_s2
    stretch = max(
        float(np.max(speed)) / limits.max_speed_m_s,
        float(np.sqrt(np.max(np.abs(along)) / limits.max_acceleration_m_s2)),
        float(np.sqrt(np.max(across))),
        1.0,
    )
    return arc[0], across, stretch


def _stretched(law: TimeLaw, factor: float) -> TimeLaw:
    from scipy.interpolate import BSpline

    curve = BSpline(factor * law.curve.t, law.curve.c, law.curve.k, extrapolate=law.curve.extrapolate)
    return TimeLaw(curve, factor * law.duration_s, law.rate / factor, law.repeats)
