"""Noise of the cube: white before the transforms, so that their windows tie neighbouring cells.

A window that is a sum of cosines mixes each cell of white noise with the next ones: with Hann's, neighbours are
correlated by -2/3 and cells two apart by 1/6. Along speed cells go around; along the other axes there are cells beyond
the ends, which are drawn as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from parhelion.core.random import to_normal, words
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.sensors.waves.radar.cube import Axes, noise_taps

ONE = (1.0,)
"""Taps of an axis without a window."""


@kernel_tree(fixed=("taps", "count", "inner", "wraps"))
@dataclass
class Tie:
    """A window's mixing along one axis of an array."""

    taps: tuple[float, ...]
    """Weight of the cell itself, of the next ones, and so on."""
    count: int
    """Cells along the axis in the result; the source has some more at both ends, unless it goes around."""
    inner: int
    """Cells of all later axes together."""
    wraps: bool

    def mixed(self, index: Any, real: Any, imaginary: Any) -> tuple[Any, Any]:
        """Real and imaginary part of the result's cells `index`."""
        dr, mi = running_engine().dr, running_engine().mi
        reach = len(self.taps) - 1
        inner, place = index % self.inner, (index // self.inner) % self.count
        outer = index // (self.inner * self.count)
        first = outer * (self.count if self.wraps else self.count + 2 * reach)
        x, y = mi.Float(0.0), mi.Float(0.0)
        for step in range(-reach, reach + 1):
            shifted = (place + (step + self.count)) % self.count if self.wraps else place + (step + reach)
            at = (first + shifted) * self.inner + inner
            x = dr.fma(dr.gather(mi.Float, real, at), self.taps[abs(step)], x)
            y = dr.fma(dr.gather(mi.Float, imaginary, at), self.taps[abs(step)], y)
        return x, y


@kernel_tree(fixed=("looks", "noise", "speeds", "elevations", "azimuths"))
@dataclass
class Receiver:
    """What the last step needs to know of the cube."""

    looks: int
    """Powers that a cell averages."""
    noise: bool
    """Whether there is thermal noise."""
    speeds: int
    elevations: int
    azimuths: int
    ranges: Tie
    """The window along range."""
    clutter: Any
    """Of rain, by range, in units of the noise."""
    spread: Any
    """How clutter is shared among speeds and azimuths, (speeds, azimuths)."""


def drawn(index: Any, keys: tuple[Any, Any], draw: Any) -> tuple[Any, Any]:
    """White noise, both parts of variance 1/2."""
    dr = running_engine().dr
    a, b, _, _ = words(keys, index, draw)
    x, y = to_normal(a, b)
    x, y = x * np.sqrt(0.5), y * np.sqrt(0.5)
    dr.eval(x, y)
    return x, y


def tied(tie: Tie, index: Any, real: Any, imaginary: Any) -> tuple[Any, Any]:
    """Noise after a window along one axis."""
    x, y = tie.mixed(index, real, imaginary)
    running_engine().dr.eval(x, y)
    return x, y


def looked(cube: Receiver, index: Any, real: Any, imaginary: Any, noise: tuple[Any, Any], so_far: Any) -> Any:
    """Power of every cell with one look's noise, added to that of earlier looks, as shares of their mean."""
    dr, mi = running_engine().dr, running_engine().mi
    beams = cube.elevations * cube.azimuths
    row = index // (cube.speeds * beams)
    speed = (index // beams) % cube.speeds
    rain = dr.gather(mi.Float, cube.clutter, row)
    rain *= dr.gather(mi.Float, cube.spread, speed * cube.azimuths + index % cube.azimuths)
    scale = dr.sqrt((1.0 if cube.noise else 0.0) + rain)
    x, y = cube.ranges.mixed(index, *noise)
    u, v = dr.fma(scale, x, real), dr.fma(scale, y, imaginary)
    power = so_far + (u * u + v * v) * (1.0 / cube.looks)
    dr.eval(power)
    return power


class Noise:
    """The noise of one radar."""

    def __init__(self, engine: Engine, axes: Axes, looks: int) -> None:
        self.engine, self.looks, self.shape = engine, looks, axes.shape
        config = axes.config
        ranges, speeds, elevations, azimuths = axes.shape
        taps = [noise_taps(config.waveform.range_window)]
        taps.append(noise_taps(config.waveform.speed_window) if speeds > 1 else ONE)
        array = ONE if config.array is None else noise_taps(config.array.window)
        taps += [array if count > 1 else ONE for count in (elevations, azimuths)]
        # White cells reach beyond the ends of all axes but speed, by as much as the windows do.
        sizes = [
            count if axis == 1 else count + 2 * (len(one) - 1)
            for axis, (count, one) in enumerate(zip(axes.shape, taps, strict=True))
        ]
        self.white = int(np.prod(sizes))
        self._ties: list[tuple[Tie, int]] = []
        for axis in (1, 2, 3):
            if len(taps[axis]) > 1:
                sizes[axis] = axes.shape[axis]
                inner = int(np.prod(sizes[axis + 1 :]))
                self._ties.append((Tie(taps[axis], sizes[axis], inner, axis == 1), int(np.prod(sizes))))
        self._ranges = Tie(taps[0], ranges, speeds * elevations * azimuths, False)

    def power(self, keys: tuple[Any, ...], real: Any, imaginary: Any, clutter: Any, spread: Any, *, noise: bool) -> Any:
        """Power of every cell of a signal, noise included, as the mean of its looks."""
        engine = self.engine
        cube = Receiver(self.looks, noise, *self.shape[1:], self._ranges, clutter, spread)
        index = engine.counting(int(np.prod(self.shape)))
        power = engine.number(0.0)
        for look in range(self.looks):
            made = engine.frozen(drawn)(engine.counting(self.white), keys, engine.whole(look))
            for tie, count in self._ties:
                made = engine.frozen(tied)(tie, engine.counting(count), *made)
            power = engine.frozen(looked)(cube, index, real, imaginary, made, power)
        return power
