"""The constant rate of false alarms: which cells of the cube stand out of their training cells.

The threshold is a multiple of what the training cells tell. An ordered statistic needs no sorting: a cell passes where
enough training cells, times the multiple, lie below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.rays.device import Engine, copied, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.sensors.radar.config import Detection, RadarConfig
from parhelion.sensors.radar.thresholds import threshold_multiple


def rank_of(settings: Detection) -> int:
    """Which of the training cells an ordered statistic takes, counted from 1."""
    return int(np.clip(round(settings.rank * settings.training), 1, settings.training))


@kernel_tree(fixed=("method", "along_speed", "ranges", "speeds", "elevations", "azimuths", "half", "guard", "rank",
                    "wraps"))  # fmt: skip
@dataclass
class Cells:
    """The cube's shape and the settings of detection."""

    method: str
    along_speed: bool
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
    multiple: Any

    @classmethod
    def of(cls, engine: Engine, config: RadarConfig, shape: tuple[int, int, int, int], looks: int) -> Cells:
        """Of a cube of `shape` cells along range, speed, elevation and azimuth."""
        settings, wave = config.detection, config.waveform
        rank = rank_of(settings)
        window = wave.speed_window if settings.axis == "speed" else wave.range_window
        multiple = threshold_multiple(
            settings.method, settings.false_alarm, settings.training, rank, looks, window, settings.guard
        )
        return cls(
            settings.method, settings.axis == "speed", *shape, settings.training // 2, settings.guard, rank,
            config.turning is not None, engine.number(multiple),
        )  # fmt: skip


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
