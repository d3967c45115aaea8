"""The echo of fog: where along a beam it is strong enough to be taken for a surface.

Fog sends light back from every range, so its echo has no place of its own: the receiver sees a long, low signal, and
reports the place where that signal, the fluctuation of the particles and the receiver's noise together pass the
threshold. Here the signal is read in cells as long as the pulse, which fluctuate independently of each other, at a
random place in each, so that ranges are continuous.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Ints, Keys, Reals, State
from parhelion.core.random import to_normal, to_unit, words
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.sensors.lidar.config import ReturnMode
from parhelion.sensors.light.air import Air, FieldOnDevice
from parhelion.sensors.light.beams import BeamAim
from parhelion.sensors.light.curve import Curve, curve_grid

FLUCTUATION = 0.15
"""Relative deviation of the fog's echo from shot to shot: speckle of a laser of a few dozen modes (assumed)."""

_DRAW = 7000
_MOST_DEVIATIONS = 4.5
"""Signals that would need more luck than this are not looked at; one cell in 300 000 has it."""
_MOST_CELLS = 24
_DENSEST_FACTOR = 5.0
"""Uneven fog is hardly anywhere denser than this many times its mean."""


@kernel_tree(fixed=("choice",))
@dataclass
class FogEcho:
    """The fog's echo as kernels draw it."""

    choice: str
    """Which of the cells above the threshold is reported: 'first', 'last' or 'strongest'."""
    signal: Curve
    """Signal of fog of mean density before it is dimmed on its way, in units of P_min, by range."""
    nearest: Reals
    """Where the first cell starts [m]."""
    cell: Reals
    """Length of a cell [m]."""
    cells: Ints
    """How many there are."""
    gap: Reals
    """How far before a surface the receiver can tell fog from it [m]; what is nearer adds to the surface's echo, less
    than a percent, and is left out."""
    noise_variance: Reals
    """Of the receiver's noise, in units of P_min^2."""
    shot_noise: Reals
    """Variance that each unit of signal adds."""
    field: FieldOnDevice | None
    """How density varies, or None."""

    def draw(self, aim: BeamAim, air: Air, reach: Reals, shot: Ints, key: Keys) -> tuple[Reals, Reals]:
        """Range [m] and power of the reported echo, as the receiver reads it; power 0 where none passes.

        Nothing is seen of fog behind `reach`, the surface that a beam meets.
        """
        dr, mi = running_engine().dr, running_engine().mi
        reach = reach - self.gap

        def read(range_m: Reals, luck: Reals) -> Reals:
            mean = self.signal(range_m) * dr.exp(-2.0 * air.depth(aim, range_m))
            if self.field is not None:
                mean = mean * self.field.factor(aim, range_m)
            if aim.gain is not None:
                mean = mean * aim.gain
            variance = self.noise_variance + self.shot_noise * mean + FLUCTUATION**2 * mean * mean
            return mean + luck * dr.sqrt(variance)

        def step(k: Ints, best: Any, where: Reals) -> State:
            # One set of random words makes the luck of two cells, and where in each the signal is read.
            a, b, *places = words(key, shot, (k >> 1) + _DRAW)
            for number, (luck, place) in enumerate(zip(to_normal(a, b), places, strict=True)):
                range_m = self.nearest + (mi.Float(k + number) + to_unit(place)) * self.cell
                value = read(range_m, luck)
                passes = (k + number < self.cells) & (range_m < reach) & (value >= 1.0)
                if self.choice == "first":
                    passes &= best <= 0.0
                elif self.choice == "strongest":
                    passes &= value > best
                best, where = dr.select(passes, value, best), dr.select(passes, range_m, where)
            return k + 2, best, where

        state = (mi.UInt32(0), mi.Float(0.0), mi.Float(1.0))
        _, best, where = dr.while_loop(
            state, lambda k, best, where: (k < self.cells) & (self.nearest + mi.Float(k) * self.cell < reach), step
        )
        return where, best


def fog_echo(
    engine: Engine,
    range_m: NDArray[np.float64],
    signal: NDArray[np.float64],
    extinction_per_m: float,
    *,
    mode: ReturnMode,
    cell_m: float,
    gap_m: float,
    nearest_m: float,
    noise_sigma: float,
    shot_noise: float,
    field: FieldOnDevice | None,
    strongest: float = 1.0,
) -> FogEcho | None:
    """Tables for kernels; None where fog of this density is never seen.

    `signal` is that of even fog at ranges that increase, in units of P_min, dimmed by `extinction_per_m` (one way,
    everything in the air); `cell_m` is half the pulse's length, `gap_m` what the receiver merges into one return,
    `strongest` the gain of the strongest channel.
    """
    least = least_signal(noise_sigma, shot_noise)
    # In uneven fog a dense bank may stand behind thin air, which dims it less than fog of mean density would.
    dimmed = np.exp(-2.0 * extinction_per_m * range_m)
    hopeful = signal if field is None else _DENSEST_FACTOR * signal / np.sqrt(dimmed)
    seen = np.flatnonzero(strongest * hopeful >= least)
    if not len(seen):
        return None
    first, last = max(nearest_m, float(range_m[seen[0]]) - cell_m), float(range_m[seen[-1]])
    cell = max(cell_m, (last - first) / _MOST_CELLS)
    cells = max(1, int(np.ceil((last - first) / cell)))
    grid = curve_grid(first + (cells + 1) * cell)
    curve = Curve.on_grid(engine, grid, np.interp(grid, range_m, signal / dimmed))
    number = engine.number
    choice = {"first": "first", "all": "first", "last": "last"}.get(mode, "strongest")
    return FogEcho(
        choice,
        curve,
        number(first),
        number(cell),
        engine.whole(cells),
        number(gap_m),
        number(noise_sigma**2),
        number(shot_noise),
        field,
    )


def least_signal(noise_sigma: float, shot_noise: float) -> float:
    """The weakest mean signal [P_min] that can pass the threshold with the most luck."""

    def reads(signal: float) -> float:
        variance = noise_sigma**2 + shot_noise * signal + (FLUCTUATION * signal) ** 2
        return signal + _MOST_DEVIATIONS * float(np.sqrt(variance))

    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if reads(middle) < 1.0 else (low, middle)
    return high
