"""Noise of the cube: white before the transforms, correlated between neighbouring cells by their windows.

A window that is a sum of cosines mixes each cell of white noise with its neighbours: with Hann's window, neighbours
have a correlation of -2/3 and cells two apart of 1/6. The speed axis is periodic. The other axes are not, so white
noise is also drawn for cells beyond their ends.
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
class WindowMixing:
    """Convolution of noise with a window's transform along one axis of an array."""

    taps: tuple[float, ...]
    """Weights of the cell itself, of its neighbours, and so on."""
    count: int
    """Cells along the axis in the result; a source that is not periodic has more cells at both ends."""
    inner: int
    """Product of the sizes of all later axes."""
    wraps: bool
    """Set if the axis is periodic."""

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
class CubeShape:
    """Cube shape and clutter for the last step."""

    looks: int
    """Number of powers that a cell averages."""
    noise: bool
    """Set if thermal noise is added."""
    speeds: int
    elevations: int
    azimuths: int
    ranges: WindowMixing
    """Window along range."""
    clutter: Any
    """Power of rain clutter by range, in units of the noise."""
    spread: Any
    """Distribution of the clutter over speeds and azimuths, shape (speeds, azimuths)."""
    phase: Any = None
    """Phase noise by range and beam, in units of the noise; None without it."""


def drawn(index: Any, keys: tuple[Any, Any], draw: Any) -> tuple[Any, Any]:
    """White complex noise; real and imaginary part have a variance of 1/2."""
    dr = running_engine().dr
    a, b, _, _ = words(keys, index, draw)
    x, y = to_normal(a, b)
    x, y = x * np.sqrt(0.5), y * np.sqrt(0.5)
    dr.eval(x, y)
    return x, y


def apply_window(window: WindowMixing, index: Any, real: Any, imaginary: Any) -> tuple[Any, Any]:
    """Apply a window to noise along one axis."""
    x, y = window.mixed(index, real, imaginary)
    running_engine().dr.eval(x, y)
    return x, y


def add_look(cube: CubeShape, index: Any, real: Any, imaginary: Any, noise: tuple[Any, Any], so_far: Any) -> Any:
    """Add the power of every cell and its noise to the mean over all looks."""
    dr, mi = running_engine().dr, running_engine().mi
    beams = cube.elevations * cube.azimuths
    row = index // (cube.speeds * beams)
    speed = (index // beams) % cube.speeds
    rain = dr.gather(mi.Float, cube.clutter, row)
    rain *= dr.gather(mi.Float, cube.spread, speed * cube.azimuths + index % cube.azimuths)
    if cube.phase is not None:
        rain += dr.gather(mi.Float, cube.phase, row * beams + index % beams)
    scale = dr.sqrt((1.0 if cube.noise else 0.0) + rain)
    x, y = cube.ranges.mixed(index, *noise)
    u, v = dr.fma(scale, x, real), dr.fma(scale, y, imaginary)
    power = so_far + (u * u + v * v) * (1.0 / cube.looks)
    dr.eval(power)
    return power


class CubeNoise:
    """Noise generator of one radar."""

    def __init__(self, engine: Engine, axes: Axes, looks: int) -> None:
        self.engine, self.looks, self.shape = engine, looks, axes.shape
        config = axes.config
        ranges, speeds, elevations, azimuths = axes.shape
        taps = [noise_taps(config.waveform.range_window)]
        taps.append(noise_taps(config.waveform.speed_window) if speeds > 1 else ONE)
        array = ONE if config.array is None else noise_taps(config.array.window)
        taps += [array if count > 1 else ONE for count in (elevations, azimuths)]
        # White noise extends beyond the ends of all axes except speed, by the half-width of the windows.
        sizes = [
            count if axis == 1 else count + 2 * (len(one) - 1)
            for axis, (count, one) in enumerate(zip(axes.shape, taps, strict=True))
        ]
        self.white = int(np.prod(sizes))
        self._windows: list[tuple[WindowMixing, int]] = []
        for axis in (1, 2, 3):
            if len(taps[axis]) > 1:
                sizes[axis] = axes.shape[axis]
                inner = int(np.prod(sizes[axis + 1 :]))
                self._windows.append((WindowMixing(taps[axis], sizes[axis], inner, axis == 1), int(np.prod(sizes))))
        self._ranges = WindowMixing(taps[0], ranges, speeds * elevations * azimuths, False)

    def power(
        self, keys: tuple[Any, ...], real: Any, imaginary: Any, clutter: Any, spread: Any, phase: Any, *, noise: bool
    ) -> Any:
        """Power of every cell of a signal including noise, as the mean over its looks."""
        engine = self.engine
        cube = CubeShape(self.looks, noise, *self.shape[1:], self._ranges, clutter, spread, phase)
        index = engine.counting(int(np.prod(self.shape)))
        power = engine.number(0.0)
        for look in range(self.looks):
            made = engine.frozen(drawn)(engine.counting(self.white), keys, engine.whole(look))
            for window, count in self._windows:
                made = engine.frozen(apply_window)(window, engine.counting(count), *made)
            power = engine.frozen(add_look)(cube, index, real, imaginary, made, power)
        return power
