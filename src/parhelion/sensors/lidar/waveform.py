"""The received signal over range, digitised: W(r) = sum of P_k p(r - R_k), and noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Ints, Reals, State
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.core.pulse import pulse_shape
from parhelion.core.random import Stream, to_normal, words
from parhelion.core.records import Waveform
from parhelion.rays.device import Engine, copied
from parhelion.sensors.lidar.echoes import Block
from parhelion.sensors.lidar.emit import ShotArrays
from parhelion.sensors.light.beams import Beams

_MOST_SAMPLES = 200_000_000


def digitise(
    engine: Engine,
    blocks: list[Block],
    beams: Beams,
    table: ShotArrays,
    shots: NDArray[Any],
    window_m: tuple[float, float],
    bin_size_m: float,
    pulse_length_s: float,
    noise_sigma: float,
    stream: Stream,
    background: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
) -> Waveform:
    """Sample the signal of chosen beams at bins of `bin_size_m` within `window_m`; one kernel thread a bin.

    `blocks` are the echoes of all `beams`, `background` what every shot receives beside them, by range [m].
    """
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
    beam = dr.gather(mi.UInt32, table.place, shot)
    signal = mi.Float(0.0)
    for block in blocks:
        signal = signal + _summed(engine, block, beam, place, length)
    if background is not None:
        levels = engine.table(background(first + bin_size_m * np.arange(bins, dtype=np.float64)))
        level = dr.gather(mi.Float, levels, index - row * width)
        gain = beams.aim(engine, beam).gain
        signal = signal + (level if gain is None else level * gain)
    if noise_sigma > 0:
        own = Stream(stream.seed, stream.name + "/waveform", stream.number)
        # The element is the bin within the window of its shot, the draw the shot: any choice of shots gives the same.
        low, high = (dr.opaque(mi.UInt32, word) for word in own.key)
        a, b, _, _ = words((low, high), index - row * width, shot)
        signal = signal + dr.opaque(mi.Float, noise_sigma) * to_normal(a, b)[0]
    samples = copied(mi.Float(signal)).reshape(len(shots), bins)
    return Waveform(shots.astype(np.uint32), float(first), float(bin_size_m), samples, float(noise_sigma))


def _summed(engine: Engine, block: Block, beam: Ints, place: Reals, length: Reals) -> Reals:
    """Signal of a block's echoes at places along beams."""
    dr, mi = engine.dr, engine.mi

    def of_beam(values: Reals) -> Any:
        return values if dr.width(values) == 1 else dr.gather(type(values), values, beam)

    first, count = of_beam(block.first), of_beam(block.count)
    scale = mi.Float(1.0) if block.scale is None else of_beam(block.scale)

    def step(k: Ints, total: Reals) -> State:
        echo = block.rows.at(first + k)
        shape = pulse_shape(place - echo.range, length_m=length)
        return k + 1, total + dr.select(echo.power > 0.0, echo.power * shape, 0.0)

    _, total = dr.while_loop((mi.UInt32(0), mi.Float(0.0)), lambda k, total: k < count, step)
    return total * scale
