"""Constant range errors of channels, from planes that many rows see.

A window of rows and columns on one plane leaves, beside noise, the differences between the rows' own errors. All
windows together are one linear system for the errors of all rows, each window's plane taken out of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from parhelion.calibrate.turns import Floats, Turn

WINDOW = (5, 8)
"""Rows and columns of a window."""
LEAST_COSINE = 0.4
"""Cosine of incidence below which windows are left out: on a slant, the width of the beam and errors of its angle look
like errors of its range."""
PRIOR_M = 0.03
"""What channels may differ by before anything is measured: data sheets grant some centimetres."""
MOST_CURVED = 1.6
"""Windows whose scatter is larger than this many times the usual one are no planes."""
FEWEST_WINDOWS = 40
FEWEST_OF_ROW = 12
"""Windows that a row must be in: few of them would shape its error after what they see."""
ROUNDS = 8


@dataclass(frozen=True, eq=False)
class ChannelBias:
    """Range errors of rows, their mean taken out: what all rows share cannot be seen from planes."""

    bias_m: Floats
    """Of each row, the highest first, shape (rows,)."""
    error_m: Floats
    """Standard error, shape (rows,)."""
    windows: int

    step_error_m: Floats
    """Standard error of the difference between each row and the next, shape (rows - 1,): better known than the rows
    themselves, since long waves over many rows hardly show in any window."""

    @property
    def known(self) -> bool:
        """Whether most neighbouring rows can be told apart: to a sixth of what rows may differ by."""
        return self.windows >= FEWEST_WINDOWS and float(np.median(self.step_error_m)) < PRIOR_M / 6.0

    @property
    def significance(self) -> float:
        """Root mean square of the steps between rows over their errors: about 1 where there is nothing but noise."""
        return float(np.sqrt(np.mean((np.diff(self.bias_m) / self.step_error_m) ** 2)))


def channel_bias(turn: Turn, sigma_m: float) -> ChannelBias:
    """Errors of rows; `sigma_m` is the usual scatter of a range.

    Least squares with a prior of `PRIOR_M`: modes that planes cannot show, such as a tilt over all rows, stay near 0
    and have its error. Errors follow from how windows differ, so that rough surfaces count.
    """
    rows, columns = turn.range.shape
    parts: list[_Window] = []
    if turn.direction is None or turn.origin is None or rows < 3:
        return _unknown(rows, 0)
    high, wide = min(WINDOW[0], rows), WINDOW[1]
    for top in range(0, rows - high + 1, max(1, high // 2)):
        band = slice(top, top + high)
        for start in range(0, 2 * wide, wide):
            # Every other window, so that windows of one band share no pixel.
            parts += _windows(turn, band, range(start, columns - wide + 1, 2 * wide))
    prior = np.eye(rows) / PRIOR_M**2
    bias, allowed = np.zeros(rows), sigma_m**2 + PRIOR_M**2
    for _ in range(ROUNDS):
        kept = _shared([part for part in parts if part.left(bias) < allowed], rows)
        if len(kept) < FEWEST_WINDOWS:
            return _unknown(rows, len(kept))
        noise = max(float(np.median([part.left(bias) for part in kept])), 1e-8)
        information = np.zeros((rows, rows))
        right = np.zeros(rows)
        for part in kept:
            information[part.band, part.band] += part.matrix / noise
            right[part.band] += part.vector / noise
        spread = np.zeros((rows, rows))
        for part in kept:
            off = (part.vector - part.matrix @ bias[part.band]) / noise
            spread[part.band, part.band] += np.outer(off, off)
        # Rough surfaces make windows differ by more than noise does, and windows of neighbouring bands share pixels.
        scale = 2.0 * max(1.0, float(np.trace(spread) / np.trace(information)))
        inverse = np.linalg.inv(information / scale + prior)
        bias = inverse @ right / scale
        # What is no plane shows once the rows' errors are known: closer and closer to the usual scatter.
        allowed = max(MOST_CURVED**2 * noise, 0.5 * allowed)
    covariance = inverse @ (2.0 * spread / scale**2 + prior) @ inverse
    centre = np.eye(rows) - 1.0 / rows
    covariance = centre @ covariance @ centre.T
    step = np.diff(np.eye(rows), axis=0)
    steps = np.sqrt(np.diag(step @ covariance @ step.T))
    return ChannelBias(centre @ bias, np.sqrt(np.diag(covariance)), len(kept), steps)


def _shared(windows: list[_Window], rows: int) -> list[_Window]:
    """The windows all of whose rows are in many windows."""
    while True:
        count = np.zeros(rows, np.int64)
        for window in windows:
            count[window.band] += 1
        kept = [window for window in windows if count[window.band].min() >= FEWEST_OF_ROW]
        if len(kept) == len(windows):
            return kept
        windows = kept


def _unknown(rows: int, windows: int) -> ChannelBias:
    return ChannelBias(
        np.zeros(rows), np.full(rows, PRIOR_M), windows, np.full(max(rows - 1, 1), np.sqrt(2.0) * PRIOR_M)
    )


@dataclass(frozen=True, eq=False)
class _Window:
    """Pixels of some rows on one plane: their part of the system, the plane taken out."""

    band: slice
    matrix: Floats
    vector: Floats
    squares: float
    """Sum of squares of what the plane leaves."""
    freedom: int

    def left(self, bias: Floats) -> float:
        """Mean square [m^2] of what plane and rows' errors leave."""
        own = bias[self.band]
        return float(self.squares - 2.0 * own @ self.vector + own @ self.matrix @ own) / self.freedom


def _windows(turn: Turn, band: slice, starts: range) -> list[_Window]:
    """The windows of a band of rows that see one surface."""
    assert turn.direction is not None
    assert turn.origin is not None
    found: list[_Window] = []
    wide = WINDOW[1]
    for start in starts:
        patch = (band, slice(start, start + wide))
        r, u, o = turn.range[patch], turn.direction[patch].reshape(-1, 3), turn.origin[patch].reshape(-1, 3)
        if not np.isfinite(r).all() or np.ptp(r) > 2.0 * r.min():
            continue
        p = o + r.reshape(-1, 1) * u
        # The plane q.p = 1; refined by points on the plane, not as measured, whose noise would tilt it.
        q: Any = np.linalg.lstsq(p, np.ones(len(p)), rcond=None)[0]
        if np.min(np.abs(u @ q)) < LEAST_COSINE * np.linalg.norm(q):
            continue
        for _ in range(3):
            error, slopes = _against(q, r.ravel(), u, o)
            q = q - np.linalg.lstsq(slopes, error, rcond=None)[0]
        error, slopes = _against(q, r.ravel(), u, o)
        if np.abs(error).max() > 0.3:
            continue
        cross = slopes.reshape(r.shape[0], wide, 3).sum(axis=1)
        inner = np.linalg.pinv(slopes.T @ slopes)
        taken = slopes.T @ error
        matrix = wide * np.eye(r.shape[0]) - cross @ inner @ cross.T
        vector = error.reshape(r.shape).sum(axis=1) - cross @ inner @ taken
        squares = float(error @ error - taken @ inner @ taken)
        found.append(_Window(band, matrix, vector, squares, r.size - r.shape[0] - 3))
    return found


def _against(q: Floats, range_m: Floats, direction: Floats, origin: Floats) -> tuple[Floats, Floats]:
    """Ranges less those of the plane q.p = 1, and how this difference changes with q."""
    along = direction @ q
    there = (1.0 - origin @ q) / along
    return range_m - there, (origin + there[:, None] * direction) / along[:, None]
