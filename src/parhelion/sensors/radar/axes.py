"""The axes of a radar's cube, and how one scatterer spreads along each of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.sensors.radar.config import RadarConfig

Floats = NDArray[np.float64]

_COEFFICIENTS = {
    "none": (1.0,),
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.5, 0.08),
}
"""Windows as sums of cosines: a_0 - a_1 cos(2 pi x) + a_2 cos(4 pi x) (Harris 1978, Proc. IEEE 66, 51)."""


def noise_bandwidth(window: str) -> float:
    """Noise bandwidth of a window in cells: 1 without one, 1.5 for Hann's (Harris 1978)."""
    a = _COEFFICIENTS[window]
    return 1.0 + 0.5 * sum((one / a[0]) ** 2 for one in a[1:])


def noise_taps(window: str) -> tuple[float, ...]:
    """How a window mixes cells of white noise, normalised: weight of the cell itself, of the next ones, and so on.

    The transform of a_0 - a_1 cos(2 pi x) + a_2 cos(4 pi x) is a_0 at the cell, -a_1 / 2 and a_2 / 2 beside it.
    """
    a = _COEFFICIENTS[window]
    sides = [one / 2.0 if k % 2 else -one / 2.0 for k, one in enumerate(a[1:])]
    size = np.sqrt(a[0] ** 2 + 2.0 * sum(one**2 for one in sides))
    return tuple(float(one / size) for one in (a[0], *sides))


def noise_correlation(window: str, lag: NDArray[np.int64]) -> Floats:
    """Correlation of the noise of cells so many cells apart."""
    taps = noise_taps(window)
    whole = np.array([*taps[:0:-1], *taps])
    found = np.correlate(whole, whole, "full")
    reach = len(found) // 2
    return np.asarray(np.where(np.abs(lag) <= reach, found[np.clip(lag, -reach, reach) + reach], 0.0))


def window_response(window: str, offset: Floats) -> Floats:
    """Answer of a cell to a tone `offset` cells away, 1 at 0: a sum of shifted sines over arguments.

    For windows of many samples; the linear phase exp(j pi offset) is left to the caller.
    """
    a = _COEFFICIENTS[window]
    found = np.sinc(offset)
    for k, one in enumerate(a[1:], start=1):
        found = found + 0.5 * one / a[0] * (np.sinc(offset - k) + np.sinc(offset + k))
    return np.asarray(found)


def array_response(window: str, offset: Floats, channels: int) -> Floats:
    """The same for few samples: a beam's answer to a direction `offset` beams away; it repeats after all of them."""

    def dirichlet(x: Floats) -> Floats:
        small = np.abs(np.sin(np.pi * x / channels)) < 1e-9
        below = np.where(small, 1.0, channels * np.sin(np.pi * x / channels))
        near = np.cos(np.pi * x) / np.cos(np.pi * x / channels)
        return np.asarray(np.where(small, near, np.sin(np.pi * x) / below))

    a = _COEFFICIENTS[window]
    found = dirichlet(offset)
    for k, one in enumerate(a[1:], start=1):
        found = found + 0.5 * one / a[0] * (dirichlet(offset - k) + dirichlet(offset + k))
    return np.asarray(found)


def array_pattern(window: str, offset: Floats, beams: int, channels: int) -> Floats:
    """`array_response` of beams 0, 1, ... to directions `offset` (n,) beams left of the first one, shape (n, beams).

    Beams lie one apart, so that sines of sums stand in for a sine of each.
    """
    a = _COEFFICIENTS[window]
    reach = len(a) - 1
    row = np.arange(-reach, beams + reach)
    angle, turn = np.pi * offset / channels, np.pi * row / channels
    below = channels * (np.sin(angle)[:, None] * np.cos(turn) - np.cos(angle)[:, None] * np.sin(turn))
    above = np.sin(np.pi * offset)[:, None] * np.where(row % 2, -1.0, 1.0)
    exact = np.abs(below) < 1e-7 * channels
    found = above / np.where(exact, 1.0, below)
    if exact.any():
        where = np.nonzero(exact)
        found[where] = array_response("none", offset[where[0]] - row[where[1]], channels)
    middle = found[:, reach : reach + beams]
    for k, one in enumerate(a[1:], start=1):
        sides = found[:, reach - k : reach - k + beams] + found[:, reach + k : reach + k + beams]
        middle = middle + 0.5 * one / a[0] * sides
    return np.asarray(middle)


@dataclass(frozen=True)
class Axes:
    """Cells of the cube: range, speed, elevation, azimuth."""

    config: RadarConfig
    azimuth: Floats
    """Directions of beams [rad]; of an array at elevation 0, shape (a,)."""
    elevation: Floats
    """[rad], shape (e,)."""

    @classmethod
    def of(cls, config: RadarConfig) -> Axes:
        """The axes of a data sheet."""
        if config.turning is not None:
            count = config.turning.directions
            azimuth = -np.pi + 2.0 * np.pi * (np.arange(count) + 0.5) / count
            return cls(config, azimuth, np.zeros(1))
        array = config.array
        assert array is not None
        low, high = (np.sin(np.radians(edge)) for edge in config.field.azimuth_deg)
        across = _beams(array.azimuth_channels, array.azimuth_spacing, low, high)
        low, high = (np.sin(np.radians(edge)) for edge in config.field.elevation_deg)
        upward = _beams(array.elevation_channels, array.elevation_spacing, low, high)
        return cls(config, np.arcsin(across), np.arcsin(upward))

    @property
    def range(self) -> Floats:
        """Ranges of cells [m]."""
        return self.config.range_step_m * np.arange(self.config.waveform.range_bins, dtype=np.float64)

    @property
    def speed(self) -> Floats:
        """Radial velocities of cells [m/s], away is positive."""
        bins, largest = self.config.speed_bins, self.config.largest_speed_m_s
        return np.zeros(1) if bins == 1 else (np.arange(bins, dtype=np.float64) - bins // 2) * (2.0 * largest / bins)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Cells along range, speed, elevation and azimuth."""
        wave = self.config.waveform
        return wave.range_bins, self.config.speed_bins, len(self.elevation), len(self.azimuth)

    # ---- places of scatterers, in cells -------------------------------------------------------------------------

    def range_cell(self, range_m: Floats) -> Floats:
        """Where ranges lie [cells]."""
        return range_m / self.config.range_step_m

    def speed_cell(self, speed_m_s: Floats) -> Floats:
        """Where speeds lie [cells]; those beyond the largest fold over."""
        bins = self.config.speed_bins
        if bins == 1:
            return np.zeros_like(speed_m_s)
        place = speed_m_s * (bins / (2.0 * self.config.largest_speed_m_s)) + bins // 2
        # What `place % bins` is, in a quarter of its time.
        return np.asarray(place - bins * np.floor(place / bins))

    def azimuth_offset(self, direction: Floats, row: NDArray[np.int64]) -> Floats:
        """How many beams directions (n, 3) are left of the beams `row` (n or (k, 1))."""
        config = self.config
        if config.turning is not None:
            step = 2.0 * np.pi / len(self.azimuth)
            angle = np.arctan2(direction[:, 1], direction[:, 0]) - self.azimuth[row]
            return np.asarray(((angle + np.pi) % (2.0 * np.pi) - np.pi) / step)
        assert config.array is not None
        span = config.array.azimuth_channels * config.array.azimuth_spacing
        return np.asarray((direction[:, 1] - np.sin(self.azimuth)[row]) * span)

    def elevation_offset(self, direction: Floats, row: NDArray[np.int64]) -> Floats:
        """How many beams directions (n, 3) are above the beams `row`."""
        if self.config.array is None or len(self.elevation) == 1:
            return np.zeros(np.broadcast_shapes(direction[:, 2].shape, np.shape(row)))
        span = self.config.array.elevation_channels * self.config.array.elevation_spacing
        return np.asarray((direction[:, 2] - np.sin(self.elevation)[row]) * span)

    def beam_response(self, azimuth_offset: Floats, elevation_offset: Floats) -> Floats:
        """Answer of a beam to directions so many beams away, 1 at 0."""
        config = self.config
        if config.turning is not None:
            step = 360.0 / len(self.azimuth)
            width = config.transmit.azimuth_width_deg, config.receive.azimuth_width_deg
            # Amplitudes of both ways: half of each bell's exponent.
            spread = sum(2.0 * np.log(2.0) / one**2 for one in width)
            return np.asarray(np.exp(-spread * (azimuth_offset * step) ** 2))
        assert config.array is not None
        array = config.array
        across = array_response(array.window, azimuth_offset, array.azimuth_channels)
        if len(self.elevation) == 1:
            return across
        return across * array_response(array.window, elevation_offset, array.elevation_channels)

    @property
    def beam_noise_bandwidth(self) -> float:
        """Noise bandwidth of the beams' window, over all axes of the array."""
        if self.config.array is None:
            return 1.0
        axes = 1 + (len(self.elevation) > 1)
        return noise_bandwidth(self.config.array.window) ** axes


def _beams(channels: int, spacing: float, low: float, high: float) -> Floats:
    """Direction cosines of the beams of a row of channels that lie within the field."""
    if channels == 1:
        return np.zeros(1)
    step = 1.0 / (channels * spacing)
    found = (np.arange(channels) - 0.5 * (channels - 1)) * step
    inside = found[(found >= low - 0.5 * step) & (found <= high + 0.5 * step) & (np.abs(found) < 1.0)]
    return inside if len(inside) else np.zeros(1)
