"""Echoes from the paths of rays: which of them are one, and what microphones hear of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.random import Stream, to_unit
from parhelion.sensors.echo.config import EchoConfig
from parhelion.sensors.waves.paths import Paths

_LEADING = 0.1
"""An echo begins with the first of its rays that has this share of its strongest."""

_FINER = 8
"""Echoes are placed on a grid so much finer than the samples."""


def gathered(paths: Paths, config: EchoConfig) -> dict[str, NDArray[Any]]:
    """Echoes: rays of one range cell, beam, part and kind of path, added by power.

    power: over that of the source at 1 m, times 4 pi; length of the way there and back [m]; row of the strongest path.
    """
    length = paths.length.astype(np.float64)
    power = paths.cross_section / (0.5 * length) ** 4
    direction = paths.direction.astype(np.float64)
    keys = []
    for value, edges, count in (
        (np.degrees(np.arctan2(direction[:, 1], direction[:, 0])), config.field.azimuth_deg, config.beams[0]),
        (np.degrees(np.arcsin(np.clip(direction[:, 2], -1, 1))), config.field.elevation_deg, config.beams[1]),
    ):
        share = (value - edges[0]) / (edges[1] - edges[0])
        keys.append(np.clip(np.floor(share * count), 0, count - 1).astype(np.int64))
    cell = np.floor(0.5 * length / config.range_step_m).astype(np.int64)
    patch = paths.patch.astype(np.int64) * 8 + paths.bounces
    order = np.lexsort((np.arange(len(paths)), patch, cell, keys[1], keys[0]))
    if not len(order):
        empty = np.zeros(0)
        return {"power": empty, "length": empty, "row": np.zeros(0, np.int64)}
    stacked = np.stack([keys[0], keys[1], cell, patch])[:, order]
    begins = np.flatnonzero(np.r_[True, np.any(np.diff(stacked, axis=1) != 0, axis=0)])
    group = np.repeat(np.arange(len(begins)), np.diff(np.r_[begins, len(order)]))
    strong = np.lexsort((-power[order], group))[begins]
    row = order[strong]
    leads = power[order] >= _LEADING * power[row][group]
    first = np.minimum.reduceat(np.where(leads, length[order], np.inf), begins)
    return {"power": np.add.reduceat(power[order], begins), "length": first, "row": row}


def echo_pressures(paths: Paths, found: dict[str, NDArray[Any]], config: EchoConfig, count: int) -> NDArray[np.float64]:
    """Pressure [Pa] of all echoes at each microphone, shape (microphones, count)."""
    rate, speed = config.sampling_hz, config.medium.speed_m_s
    microphones = np.asarray(config.microphones_mm, np.float64) * 1e-3
    samples = np.zeros((len(microphones), count))
    row = found["row"]
    direction, distance = paths.direction[row].astype(np.float64), paths.distance[row].astype(np.float64)
    last = direction * np.minimum(distance, 0.5 * found["length"])[:, None]
    there = found["length"] - np.linalg.norm(last, axis=1)
    pressure = config.medium.reference_pa * 10.0 ** (config.source_level_db / 20.0)
    amplitude = np.sqrt(2.0) * pressure * np.sqrt(found["power"] / (4.0 * np.pi))
    # The sign of a rough surface's echo belongs to the surface: it does not change from ping to ping.
    turn = to_unit(Stream(0, "echo/patch-phase").words(paths.patch[row])[0]) / (1e3 * config.frequency_khz)
    # Echoes as spikes on a finer grid, each shared between two steps, and then one convolution with the pulse.
    fine = rate * _FINER
    steps = count * _FINER
    pulse = config.pulse_at(np.arange(int(np.ceil(1e-3 * config.pulse.duration_ms * fine)) + 1) / fine)
    spectrum = np.fft.rfft(pulse, 2 * steps)
    for number, microphone in enumerate(microphones):
        delay = (there + np.linalg.norm(last - microphone, axis=1)) / speed + turn
        at = delay * fine
        below = np.minimum(np.floor(at).astype(np.int64), steps - 2)
        share = at - below
        spikes = np.bincount(below, amplitude * (1.0 - share), steps) + np.bincount(below + 1, amplitude * share, steps)
        samples[number] = np.fft.irfft(np.fft.rfft(spikes, 2 * steps) * spectrum)[:steps:_FINER]
    return samples
