"""Echoes from the paths of rays: which of them are one, and what microphones hear of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Pose
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


def speckle(place: NDArray[np.float64], cell_m: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Factors on the power, and phases in turns, of echoes of rough surfaces at places (n, 3) [m] in the world.

    Many scatterers in a range cell add up to a circular normal number: its power is exponential with mean 1, its phase
    even (Goodman 1975, in Laser Speckle, chapter 2). It belongs to the place, so that it stays as long as sensor and
    surface do; a step of `cell_m`, half the receiver's aperture, gives another.
    """
    cell = np.floor(np.asarray(place, np.float64) / cell_m).astype(np.int64)
    mixed = (cell[:, 0] * 73_856_093) ^ (cell[:, 1] * 19_349_663) ^ (cell[:, 2] * 83_492_791)
    a, b, _, _ = Stream(0, "echo/speckle").words((mixed & 0xFFFFFFFF).astype(np.uint32))
    return -np.log(np.maximum(1.0 - to_unit(a), 1e-9)), np.asarray(to_unit(b), np.float64)


def speckled(
    found: dict[str, NDArray[Any]], paths: Paths, rough: NDArray[np.bool_], place: Pose, config: EchoConfig
) -> dict[str, NDArray[Any]]:
    """Echoes with the speckle of their surfaces; `rough` says of each path whether its last surface scatters."""
    row = found["row"]
    power, phase = np.ones(len(row)), np.zeros(len(row))
    some = np.flatnonzero(rough[row])
    if len(some):
        last = paths.direction[row[some]].astype(np.float64) * paths.distance[row[some], None]
        half_aperture = config.wavelength_m / (2.0 * min(config.receiver.shape[:2]))
        power[some], phase[some] = speckle(place.apply(last), half_aperture)
    return {**found, "power": found["power"] * power, "phase": phase}


def echo_pressures(paths: Paths, found: dict[str, NDArray[Any]], config: EchoConfig, count: int) -> NDArray[np.float64]:
    """Pressure [Pa] of all echoes at each microphone, shape (microphones, count)."""
    from scipy.fft import irfft, next_fast_len, rfft

    rate, speed = config.sampling_hz, config.medium.speed_m_s
    microphones = np.asarray(config.microphones_mm, np.float64) * 1e-3
    samples = np.zeros((len(microphones), count))
    row = found["row"]
    direction, distance = paths.direction[row].astype(np.float64), paths.distance[row].astype(np.float64)
    last = direction * np.minimum(distance, 0.5 * found["length"])[:, None]
    there = found["length"] - np.linalg.norm(last, axis=1)
    pressure = config.medium.reference_pa * 10.0 ** (config.source_level_db / 20.0)
    amplitude = np.sqrt(2.0) * pressure * np.sqrt(found["power"] / (4.0 * np.pi))
    turn = found["phase"] / (1e3 * config.frequency_khz)
    # Echoes as spikes on a finer grid, each shared between two steps, and then one convolution with the pulse.
    fine = rate * _FINER
    steps = count * _FINER
    pulse = config.pulse_at(np.arange(int(np.ceil(1e-3 * config.pulse.duration_ms * fine)) + 1) / fine)
    size = int(next_fast_len(steps + len(pulse), real=True))
    spectrum = rfft(pulse, size)
    for number, microphone in enumerate(microphones):
        delay = (there + np.linalg.norm(last - microphone, axis=1)) / speed + turn
        at = delay * fine
        below = np.minimum(np.floor(at).astype(np.int64), steps - 2)
        share = at - below
        spikes = np.bincount(below, amplitude * (1.0 - share), steps) + np.bincount(below + 1, amplitude * share, steps)
        samples[number] = irfft(rfft(spikes, size) * spectrum, size)[:steps:_FINER]
    return samples
