"""From peaks of the cube to detections: where between the cells they lie, how strong they are, and what made them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.sensors.radar.axes import Axes, array_response, window_response
from parhelion.sensors.radar.config import Detection

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_SIDELOBES_DB = {"none": 12.0, "hann": 29.0, "hamming": 38.0, "blackman": 52.0}
"""Peaks weaker than this below the strongest of their row may be its sidelobes (Harris 1978), and are left out."""
_NEAR = 8
"""Cells of range and speed that are searched for such a stronger one."""


@dataclass(frozen=True, eq=False)
class Peaks:
    """Peaks between the cells."""

    cell: Whole
    """Number of the cell."""
    range_m: Floats
    speed_m_s: Floats
    azimuth: Floats
    elevation: Floats
    power: Floats
    """Of the peak, in units of the noise."""
    noise: Floats
    """Of the training cells, in the same unit."""


def peaks_of(power: NDArray[np.float32], cells: Whole, axes: Axes, settings: Detection) -> Peaks:
    """Place peaks between cells by the ratio to the stronger neighbour along each axis."""
    cells = cells[_no_sidelobe(power, cells, axes)]
    at = np.unravel_index(cells, axes.shape)
    peak = power[at].astype(np.float64)
    own, places = peak, []
    wave, array = axes.config.waveform, axes.config.array
    beam = "bell" if array is None else array.window
    kinds = (wave.range_window, wave.speed_window, beam, beam)
    wraps = (False, True, False, array is None)
    for axis, (kind, wrap) in enumerate(zip(kinds, wraps, strict=True)):
        place, count = at[axis], axes.shape[axis]
        if count < 2:
            places.append(place.astype(np.float64))
            continue
        sides = []
        for step in (-1, 1):
            moved = place + step
            beside = [*at]
            beside[axis] = moved % count if wrap else np.clip(moved, 0, count - 1)
            there = wrap | ((moved >= 0) & (moved < count))
            sides.append(np.where(there, power[tuple(beside)], 0.0).astype(np.float64))
        offset, gain = _between(kind, own, sides[0], sides[1], axes, axis)
        peak = peak / gain
        places.append(place + offset)
    speeds = axes.speed
    speed_step = float(speeds[1] - speeds[0]) if len(speeds) > 1 else 0.0
    speed = speeds[0] + places[1] * speed_step
    azimuth, elevation = _directions(axes, places[3], places[2])
    noise = noise_around(power, at, settings)
    return Peaks(cells, places[0] * axes.config.range_step_m, speed, azimuth, elevation, peak, noise)


def _between(kind: str, own: Floats, below: Floats, above: Floats, axes: Axes, axis: int) -> tuple[Floats, Floats]:
    """How far peaks lie from their cell towards the stronger neighbour [cells], and what of their power the cell has.

    Without a window the ratio q of amplitudes is d / (1 - d), with Hann's it is (1 + d) / (2 - d); other windows and
    beams are near to bells, whose logarithms are parabolas.
    """
    side = np.where(above > below, 1.0, -1.0)
    q = np.sqrt(np.maximum(above, below) / np.maximum(own, 1e-30))
    if kind == "none":
        offset = q / (1.0 + q)
    elif kind == "hann":
        offset = (2.0 * q - 1.0) / (1.0 + q)
    else:
        low, middle, high = (np.log(np.maximum(one, 1e-30)) for one in (below, own, above))
        bend = low - 2.0 * middle + high
        usable = bend < -1e-6
        offset = np.where(usable, 0.5 * np.abs(low - high) / -np.where(usable, bend, -1.0), 0.0)
        offset = np.clip(offset, 0.0, 0.5)
        return side * offset, np.exp(-0.25 * np.abs(low - high) * offset)
    offset = np.clip(offset, 0.0, 0.5)
    array = axes.config.array
    if axis < 2 or array is None:
        return side * offset, window_response(kind, offset) ** 2
    channels = array.elevation_channels if axis == 2 else array.azimuth_channels
    return side * offset, array_response(kind, offset, channels) ** 2


def _directions(axes: Axes, azimuth_place: Floats, elevation_place: Floats) -> tuple[Floats, Floats]:
    if axes.config.turning is not None:
        angle = axes.azimuth[0] + azimuth_place * (2.0 * np.pi / len(axes.azimuth))
        return (angle + np.pi) % (2.0 * np.pi) - np.pi, np.zeros(len(angle))

    def cosine(angles: Floats, place: Floats) -> Floats:
        sines = np.sin(angles)
        step = sines[1] - sines[0] if len(sines) > 1 else 0.0
        return np.clip(sines[0] + place * step, -1.0, 1.0)

    upward, aside = cosine(axes.elevation, elevation_place), cosine(axes.azimuth, azimuth_place)
    level = np.sqrt(np.maximum(1.0 - upward**2, 1e-12))
    return np.arcsin(np.clip(aside / level, -1.0, 1.0)), np.arcsin(upward)


def _no_sidelobe(power: NDArray[np.float32], cells: Whole, axes: Axes) -> NDArray[np.bool_]:
    """Which peaks no stronger one explains: of the same range and speed, or of the same beam close by."""
    r, d, e, a = np.unravel_index(cells, axes.shape)
    own = power[r, d, e, a]
    wave, array = axes.config.waveform, axes.config.array
    kept = np.ones(len(cells), bool)
    if array is not None and axes.shape[3] > 1:
        strongest = power[r, d].max(axis=(1, 2), initial=0.0)
        kept &= own >= strongest * 10.0 ** (-_SIDELOBES_DB[array.window] / 10.0)
    if len(cells):
        near = np.clip(r[:, None] + np.arange(-_NEAR, _NEAR + 1), 0, axes.shape[0] - 1)
        strongest = power[near, d[:, None], e[:, None], a[:, None]].max(axis=1)
        kept &= own >= strongest * 10.0 ** (-_SIDELOBES_DB[wave.range_window] / 10.0)
    if axes.shape[1] > 1 and len(cells):
        near = (d[:, None] + np.arange(-_NEAR, _NEAR + 1)) % axes.shape[1]
        strongest = power[r[:, None], near, e[:, None], a[:, None]].max(axis=1)
        kept &= own >= strongest * 10.0 ** (-_SIDELOBES_DB[wave.speed_window] / 10.0)
    return np.asarray(kept)


def noise_around(power: NDArray[np.float32], at: tuple[Whole, ...], settings: Detection) -> Floats:
    """What the training cells of some cells tell of the noise there: their mean, or for os their median as a mean."""
    r, d, e, a = at
    steps = np.arange(settings.guard + 1, settings.guard + settings.training // 2 + 1)
    steps = np.concatenate([-steps[::-1], steps])
    if settings.axis == "speed":
        values = power[r[:, None], (d[:, None] + steps) % power.shape[1], e[:, None], a[:, None]]
    else:
        place = r[:, None] + steps
        other = r[:, None] - np.sign(steps) * (np.abs(steps) + settings.training // 2)
        place = np.where((place >= 0) & (place < power.shape[0]), place, other)
        values = power[np.clip(place, 0, power.shape[0] - 1), d[:, None], e[:, None], a[:, None]]
    if settings.method == "ca":
        return np.maximum(values.astype(np.float64).mean(axis=1), 1e-30)
    # The median of exponential numbers is ln 2 of their mean.
    return np.maximum(np.median(values, axis=1).astype(np.float64) / np.log(2.0), 1e-30)
