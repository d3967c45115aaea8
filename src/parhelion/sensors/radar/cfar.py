"""Noise in the cube, and the constant rate of false alarms.

A cell of noise alone has the power of N complex normal numbers, N = 1 where ramps are added by phase. The threshold is
a multiple of what the training cells tell, chosen so that noise passes it with the chance that was asked for: exactly,
for any N. An ordered statistic needs no sorting: a cell passes where enough training cells, times the multiple, lie
below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.random import to_normal, words
from parhelion.rays.device import Engine, copied, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.sensors.radar.config import Detection


@lru_cache(maxsize=64)
def threshold_multiple(method: str, false_alarm: float, training: int, rank: int, looks: int = 1) -> float:
    """Multiple of the training cells' mean (ca) or of their `rank`-th smallest (os) for a chance of false alarm.

    `looks` are the N powers that a cell averages. ca: cell over mean has Fisher's distribution with 2 N and 2 N M
    degrees of freedom. os: the integral of Rohling 1983 (IEEE Trans. AES 19, 608) over the distribution of the rank.
    """
    from scipy import integrate, optimize, special, stats

    if method == "ca":
        return float(stats.f.isf(false_alarm, 2 * looks, 2 * looks * training))

    def chance(multiple: float) -> float:
        def passed(share: float) -> float:
            # `share` is the chance that one training cell lies below: the rank's is Beta's.
            level = special.gammaincinv(looks, share)
            return float(special.gammaincc(looks, multiple * level) * stats.beta.pdf(share, rank, training - rank + 1))

        return float(integrate.quad(passed, 0.0, 1.0, limit=400, epsabs=0.0, epsrel=1e-8, points=(0.01, 0.5, 0.99))[0])

    high = 2.0
    while chance(high) > false_alarm:
        high *= 2.0
    return float(optimize.brentq(lambda m: np.log(chance(m) / false_alarm), 0.1, high, xtol=1e-10))


def rank_of(settings: Detection) -> int:
    """Which of the training cells an ordered statistic takes, counted from 1."""
    return int(np.clip(round(settings.rank * settings.training), 1, settings.training))


@kernel_tree(fixed=("method", "along_speed", "looks", "ranges", "speeds", "elevations", "azimuths", "half", "guard",
                    "rank", "wraps", "noise"))  # fmt: skip
@dataclass
class Cells:
    """The cube's shape and the settings of detection."""

    method: str
    along_speed: bool
    looks: int
    ranges: int
    speeds: int
    elevations: int
    azimuths: int
    half: int
    """Training cells on each side."""
    guard: int
    rank: int
    wraps: bool
    """Whether azimuth goes all around."""
    noise: bool
    multiple: Any
    clutter: Any
    """Of rain, by range, in units of the noise."""
    spread: Any
    """How clutter is shared among speeds and azimuths, (speeds, azimuths)."""

    @classmethod
    def of(
        cls, engine: Engine, settings: Detection, shape: tuple[int, int, int, int], *, looks: int, wraps: bool,
        noise: bool, clutter: NDArray[Any], spread: NDArray[Any],
    ) -> Cells:  # fmt: skip
        """Of a cube of `shape` cells along range, speed, elevation and azimuth."""
        rank = rank_of(settings)
        multiple = threshold_multiple(settings.method, settings.false_alarm, settings.training, rank, looks)
        return cls(
            settings.method, settings.axis == "speed", looks, *shape, settings.training // 2, settings.guard, rank,
            wraps, noise, engine.number(multiple), engine.table(clutter.astype(np.float32)),
            engine.table(spread.astype(np.float32)),
        )  # fmt: skip


def noisy_power(cells: Cells, index: Any, real: Any, imaginary: Any, keys: tuple[Any, Any]) -> Any:
    """Power of every cell, noise included, as the mean of its looks."""
    dr, mi = running_engine().dr, running_engine().mi
    beams = cells.elevations * cells.azimuths
    row = index // (cells.speeds * beams)
    speed = (index // beams) % cells.speeds
    azimuth = index % cells.azimuths
    rain = dr.gather(mi.Float, cells.clutter, row)
    rain *= dr.gather(mi.Float, cells.spread, speed * cells.azimuths + azimuth)
    scale = dr.sqrt(0.5 * ((1.0 if cells.noise else 0.0) + rain))
    power = mi.Float(0.0)
    for look in range(cells.looks):
        a, b, _, _ = words(keys, index, look)
        x, y = to_normal(a, b)
        u, v = real + scale * x, imaginary + scale * y
        power += u * u + v * v
    power = power / cells.looks
    dr.eval(power)
    return power


def alarms(cells: Cells, index: Any, power: Any) -> Any:
    """1 where a cell passes its threshold, 2 where it is a peak among its neighbours as well, else 0."""
    dr, mi = running_engine().dr, running_engine().mi
    beams = cells.elevations * cells.azimuths
    row, speed = index // (cells.speeds * beams), (index // beams) % cells.speeds
    elevation, azimuth = (index // cells.azimuths) % cells.elevations, index % cells.azimuths
    own = dr.gather(mi.Float, power, index)
    total, below = mi.Float(0.0), mi.UInt32(0)
    for side in (-1, 1):
        for step in range(cells.guard + 1, cells.guard + cells.half + 1):
            if cells.along_speed:
                place = (speed + (step if side > 0 else cells.speeds * step - step)) % cells.speeds
                at = (row * cells.speeds + place) * beams + index % beams
            else:
                # Beyond the ends, cells farther away on the other side stand in.
                plane, farther = cells.speeds * beams, step + cells.half
                if side > 0:
                    inside, there, other = row + step < cells.ranges, index + step * plane, index - farther * plane
                else:
                    inside, there, other = row >= step, index - step * plane, index + farther * plane
                if cells.ranges <= cells.guard + 3 * cells.half + step:
                    # So few ranges that these may lie beyond the other end.
                    last = cells.ranges - 1
                    opposite = mi.Int32(row) - side * farther
                    opposite = dr.select(opposite < 0, 0, dr.select(opposite > last, last, opposite))
                    other = mi.UInt32(opposite) * plane + index % plane
                at = dr.select(inside, there, other)
            value = dr.gather(mi.Float, power, at)
            if cells.method == "ca":
                total += value
            else:
                below += dr.select(value * cells.multiple < own, mi.UInt32(1), mi.UInt32(0))
    if cells.method == "ca":
        passed = own * (2.0 * cells.half) > cells.multiple * total
    else:
        passed = below >= cells.rank
    plane = cells.speeds * beams
    # A new variable: `&=` on another name for `passed` would change that, too.
    peak = passed & _beats(power, own, index, plane, row, cells.ranges, False)
    if cells.speeds > 1:
        peak &= _beats(power, own, index, beams, speed, cells.speeds, True)
    if cells.elevations > 1:
        peak &= _beats(power, own, index, cells.azimuths, elevation, cells.elevations, False)
    if cells.azimuths > 1:
        peak &= _beats(power, own, index, 1, azimuth, cells.azimuths, cells.wraps)
    result = dr.select(peak, mi.UInt32(2), dr.select(passed, mi.UInt32(1), mi.UInt32(0)))
    dr.eval(result)
    return result


def _beats(power: Any, own: Any, index: Any, stride: int, place: Any, count: int, wraps: bool) -> Any:
    """Whether a cell is stronger than its two neighbours along an axis; of equal ones the later wins."""
    dr, mi = running_engine().dr, running_engine().mi
    first, last = place == 0, place == count - 1
    down = dr.select(first, index + (count - 1) * stride, index - stride)
    up = dr.select(last, index - (count - 1) * stride, index + stride)
    below, above = dr.gather(mi.Float, power, down), dr.gather(mi.Float, power, up)
    lower, upper = own >= below, own > above
    return lower & upper if wraps else (first | lower) & (last | upper)


def detect(engine: Engine, cells: Cells, power: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of the cells that pass, and of those that are peaks."""
    count = cells.ranges * cells.speeds * cells.elevations * cells.azimuths
    code = copied(engine.frozen(alarms)(cells, engine.counting(count), power))
    passed = np.flatnonzero(code)
    return passed, passed[code[passed] == 2]
