"""What a receiver's loops make of several copies of one signal, and how noisy they are.

A delay lock loop sets the early and the late correlator to equal power. Copies that come by mirrors pull it: by their
amplitude, delay and phase. A phase lock loop follows the phase of the sum. The front end is taken as infinitely wide,
so peaks of correlation are sharp; real ones are rounder, which makes narrow spacings a little worse than here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.pose import Floats

Complexes = NDArray[np.complex128]

_REACH, _GRID = 1.2, 121
"""The loop is looked for this many chips about the strongest copy, at so many points."""
_HALVINGS = 16
_CHUNK = 4096


def correlation(chips: ArrayLike, boc: ArrayLike = False) -> Floats:
    """Autocorrelation at a lag [chips]: a triangle for BPSK; for BOC(1,1) 1 - 3|x| to half a chip, then |x| - 1."""
    x = np.abs(np.asarray(chips, dtype=np.float64))
    near = np.where(np.asarray(boc) & (x < 0.5), 1.0 - 3.0 * x, np.where(np.asarray(boc), x - 1.0, 1.0 - x))
    return np.asarray(np.where(x < 1.0, near, 0.0))


def _sum(delay: Floats, amplitude: Complexes, boc: NDArray[np.bool_], at: Floats) -> Complexes:
    """Correlation of the sum of copies (m, k) at lags (m, g) [chips], shape (m, g)."""
    lag = at[:, :, None] - delay[:, None, :]
    return np.asarray(np.sum(amplitude[:, None, :] * correlation(lag, boc[:, None, None]), axis=2))


def _balance(delay: Floats, amplitude: Complexes, boc: NDArray[np.bool_], at: Floats, spacing: float) -> Floats:
    """Early less late power: rises through 0 where the loop rests."""
    early = _sum(delay, amplitude, boc, at - spacing / 2.0)
    late = _sum(delay, amplitude, boc, at + spacing / 2.0)
    return np.asarray(np.abs(early) ** 2 - np.abs(late) ** 2)


def track(delay: ArrayLike, amplitude: ArrayLike, spacing: float, boc: ArrayLike = False) -> tuple[Floats, Complexes]:
    """Where the code loop rests [chips after the direct signal], and the prompt correlation there.

    `delay` [chips] and complex `amplitude` of the copies, shape (m, k); `spacing` [chips] between early and late,
    above 0 to 1. Copies of amplitude 0 do not count. The loop is taken at the highest peak of the sum near the
    strongest copy.
    """
    delay = np.atleast_2d(np.asarray(delay, dtype=np.float64))
    amplitude = np.atleast_2d(np.asarray(amplitude, dtype=np.complex128))
    kind = np.broadcast_to(np.asarray(boc, dtype=bool), (len(delay),))
    rest, prompt = np.zeros(len(delay)), np.zeros(len(delay), np.complex128)
    strongest = np.argmax(np.abs(amplitude), axis=1)
    each = np.arange(len(delay))
    rest[:], prompt[:] = delay[each, strongest], amplitude[each, strongest]
    several = np.flatnonzero(np.sum(np.abs(amplitude) > 0.0, axis=1) > 1)
    for start in range(0, len(several), _CHUNK):
        rows = several[start : start + _CHUNK]
        rest[rows], prompt[rows] = _tracked(delay[rows], amplitude[rows], kind[rows], rest[rows], spacing)
    return rest, prompt


def _tracked(
    delay: Floats, amplitude: Complexes, boc: NDArray[np.bool_], around: Floats, spacing: float
) -> tuple[Floats, Complexes]:
    grid = around[:, None] + np.linspace(-_REACH, _REACH, _GRID)
    peak = grid[np.arange(len(grid)), np.argmax(np.abs(_sum(delay, amplitude, boc, grid)), axis=1)]
    value = _balance(delay, amplitude, boc, grid, spacing)
    rising = (value[:, :-1] < 0.0) & (value[:, 1:] >= 0.0)
    away = np.where(rising, np.abs((grid[:, :-1] + grid[:, 1:]) / 2.0 - peak[:, None]), np.inf)
    best = np.argmin(away, axis=1)
    each = np.arange(len(grid))
    low, high = grid[each, best], grid[each, best + 1]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        below = _balance(delay, amplitude, boc, middle[:, None], spacing)[:, 0] < 0.0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    # Where nothing rises through 0 the copies cancel: the highest peak stands for it, and its power is next to none.
    rest = np.where(np.any(rising, axis=1), (low + high) / 2.0, peak)
    return rest, _sum(delay, amplitude, boc, rest[:, None])[:, 0]


def code_sigma(cn0_dbhz: ArrayLike, chip_m: ArrayLike, spacing: float, bandwidth_hz: float, dwell_s: float) -> Floats:
    """Noise of the code loop [m], one standard deviation (Kaplan and Hegarty 2006, eq. 5.23, early less late power).

    chip sqrt(B d / (2 s) (1 + 2 / ((2 - d) T s))), s the carrier to noise density [Hz], T the dwell.
    """
    s = 10.0 ** (np.asarray(cn0_dbhz, dtype=np.float64) / 10.0)
    squared = bandwidth_hz * spacing / (2.0 * s) * (1.0 + 2.0 / ((2.0 - spacing) * dwell_s * s))
    return np.asarray(np.asarray(chip_m) * np.sqrt(squared))


def phase_sigma(cn0_dbhz: ArrayLike, bandwidth_hz: float, dwell_s: float) -> Floats:
    """Noise of the phase loop [cycles]: sqrt(B / s (1 + 1 / (2 T s))) / 2 pi (Kaplan and Hegarty 2006, eq. 5.8)."""
    s = 10.0 ** (np.asarray(cn0_dbhz, dtype=np.float64) / 10.0)
    return np.asarray(np.sqrt(bandwidth_hz / s * (1.0 + 1.0 / (2.0 * dwell_s * s))) / (2.0 * np.pi))


def rate_sigma(cn0_dbhz: ArrayLike, bandwidth_hz: float, dwell_s: float) -> Floats:
    """Noise of the frequency loop [Hz]: sqrt(4 B / s (1 + 1 / (T s))) / (2 pi T) (Kaplan and Hegarty 2006, eq.
    5.16)."""
    s = 10.0 ** (np.asarray(cn0_dbhz, dtype=np.float64) / 10.0)
    return np.asarray(np.sqrt(4.0 * bandwidth_hz / s * (1.0 + 1.0 / (dwell_s * s))) / (2.0 * np.pi * dwell_s))
