"""The received signal over range, digitised: W(r) = sum of P_k p(r - R_k), and noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import namespace
from parhelion.core.errors import ConfigError
from parhelion.core.random import Stream, to_normal, words
from parhelion.core.records import Waveform
from parhelion.rays.device import Engine
from parhelion.sensors.lidar.echoes import EchoRows
from parhelion.sensors.lidar.emit import ShotArrays
from parhelion.sensors.lidar.report import SPEED_OF_LIGHT_M_S

_MOST_SAMPLES = 200_000_000


def pulse_shape(offset_m: Any, *, length_m: Any) -> Any:
    """The pulse over range, peak 1 at 0: cos^2(pi x / L) for |x| < L / 2, L = c tau_H.

    It is the emitted sin^2(pi t / 2 tau_H) on [0, 2 tau_H] with x = c t / 2 measured from its peak; the half-power
    width is tau_H in time and L / 2 in range. Arrays of either kind.
    """
    xp = namespace(offset_m)
    wave = xp.cos(np.pi * offset_m / length_m)
    return xp.where(xp.abs(offset_m) < 0.5 * length_m, wave * wave, 0.0 * wave)


def digitise(
    engine: Engine,
    rows: EchoRows,
    slots: int,
    table: ShotArrays,
    shots: NDArray[Any],
    window_m: tuple[float, float],
    bin_size_m: float,
    pulse_length_s: float,
    noise_sigma: float,
    stream: Stream,
) -> Waveform:
    """Sample the signal of chosen beams at bins of `bin_size_m` within `window_m`; one kernel thread a bin."""
    first, last = window_m
    if not (np.isfinite([first, last, bin_size_m]).all() and bin_size_m > 0 and last > first >= 0):
        raise ConfigError(f"waveform: the window {window_m} m and the bin size {bin_size_m} m make no bins")
    bins = int(np.floor((last - first) / bin_size_m)) + 1
    if bins * len(shots) > _MOST_SAMPLES:
        raise ConfigError(
            f"waveform: {bins} bins for {len(shots)} shots are too many; choose fewer shots or larger bins"
        )
    dr, mi = engine.dr, engine.mi
    index = dr.arange(mi.UInt32, bins * len(shots))
    width = dr.opaque(mi.UInt32, bins)
    row = index // width
    place = dr.opaque(mi.Float, first) + mi.Float(index - row * width) * dr.opaque(mi.Float, bin_size_m)
    shot = dr.gather(mi.UInt32, engine.table(shots), row)
    length = dr.opaque(mi.Float, SPEED_OF_LIGHT_M_S * pulse_length_s)
    base = dr.gather(mi.UInt32, table.place, shot) * slots

    def step(k: Any, total: Any) -> Any:
        echo = rows.at(base + k)
        return k + 1, total + dr.select(
            echo.power > 0.0, echo.power * pulse_shape(place - echo.range, length_m=length), 0.0
        )

    _, signal = dr.while_loop((mi.UInt32(0), mi.Float(0.0)), lambda k, total: k < slots, step)
    if noise_sigma > 0:
        own = Stream(stream.seed, stream.name + "/waveform", stream.frame)
        # The element is the bin within the window of its shot, the draw the shot: any choice of shots gives the same.
        low, high = (dr.opaque(mi.UInt32, word) for word in own.key)
        a, b, _, _ = words((low, high), index - row * width, shot)
        signal = signal + dr.opaque(mi.Float, noise_sigma) * to_normal(a, b)[0]
    samples = signal.numpy().reshape(len(shots), bins)
    return Waveform(shots.astype(np.uint32), float(first), float(bin_size_m), samples, float(noise_sigma))
