"""Errors of channels in range and in elevation, from planes that many rows see.

A window of rows and columns on one plane leaves, beside noise, the differences between the rows' own errors. All
windows together are one linear system for the errors of all rows, each window's plane taken out of it. Errors of range
show on any plane. Those of elevation show on slanted ones, such as the road: there a small angle is a long way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.turns import Floats, Turn

Kind = Literal["range", "elevation"]
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
FEWEST_ROWS = 4
"""Rows that must be told apart from their neighbours before elevations are changed."""
FEWEST_OF_ROW = 12
"""Windows that a row must be in: few of them would shape its error after what they see."""
ROUNDS = 8
PRIOR_RAD = 0.0026
"""What elevations may differ by before anything is measured: 0.15 degrees."""
SLANTED_COSINE = 0.12
"""Cosine of incidence down to which windows tell elevations; still flatter ones blur over the width of the beam."""
FIRST_M = {"range": PRIOR_M, "elevation": 0.15}
"""Scatter of windows [m] that is let in at first, beside noise: what unknown errors of rows make of a plane."""


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


@dataclass(frozen=True, eq=False)
class BeamAngles:
    """Errors of elevation of rows: true less reported, their mean taken out."""

    off_deg: Floats
    """Of each row, the highest first, shape (rows,)."""
    error_deg: Floats
    """Standard error, shape (rows,)."""
    step_error_deg: Floats
    """Standard error of the difference between each row and the next, shape (rows - 1,)."""
    windows: int

    @property
    def told(self) -> NDArray[np.bool_]:
        """Rows that are told apart from a neighbour, to a sixth of what rows may differ by, shape (rows,)."""
        steps = self.step_error_deg < np.degrees(PRIOR_RAD) / 6.0
        return np.append(steps, False) | np.append(False, steps)

    @property
    def known(self) -> bool:
        """Whether some rows are."""
        return self.windows >= FEWEST_WINDOWS and int(self.told.sum()) >= FEWEST_ROWS

    @property
    def significance(self) -> float:
        """Root mean square of the steps between those rows over their errors: about 1 where all is noise."""
        steps = self.step_error_deg < np.degrees(PRIOR_RAD) / 6.0
        return (
            float(np.sqrt(np.mean((np.diff(self.off_deg) / self.step_error_deg)[steps] ** 2))) if steps.any() else 0.0
        )

    @property
    def correction_deg(self) -> Floats:
        """What to add to elevations: told rows about their own mean, which no plane shows; 0 for the others."""
        told = self.told
        return np.where(told, self.off_deg - np.mean(self.off_deg[told]), 0.0) if told.any() else np.zeros(len(told))


def channel_bias(turn: Turn, sigma_m: float) -> ChannelBias:
    """Errors of rows in range; `sigma_m` is the usual scatter of a range.

    Least squares with a prior of `PRIOR_M`: modes that planes cannot show, such as a tilt over all rows, stay near 0
    and have its error. Errors follow from how windows differ, so that rough surfaces count.
    """
    found, error, steps, windows = _solve(turn, "range", sigma_m, PRIOR_M)
    return ChannelBias(found, error, windows, steps)


def beam_angles(turn: Turn, sigma_m: float) -> BeamAngles:
    """Errors of rows in elevation, with a prior of `PRIOR_RAD`; the same otherwise. Errors of range must be out."""
    found, error, steps, windows = _solve(turn, "elevation", sigma_m, PRIOR_RAD)
    return BeamAngles(np.degrees(found), np.degrees(error), np.degrees(steps), windows)


def _solve(turn: Turn, kind: Kind, sigma_m: float, width: float) -> tuple[Floats, Floats, Floats, int]:
    """Errors of rows, their standard errors, those of the steps between rows, and the number of windows."""
    rows, columns = turn.range.shape
    if turn.direction is None or turn.origin is None or rows < 3:
        return _unknown(rows, 0, width)
    high, wide = min(WINDOW[0], rows), WINDOW[1]
    # Every other window first, then those between, so that windows of one band share no pixel.
    starts = np.concatenate([np.arange(start, columns - wide + 1, 2 * wide) for start in (0, wide)])
    tops = range(0, rows - high + 1, max(1, high // 2))
    every = _Windows.joined([_windows(turn, top, high, starts, kind) for top in tops])
    prior = np.eye(rows) / width**2
    bias, allowed = np.zeros(rows), sigma_m**2 + FIRST_M[kind] ** 2
    for _ in range(ROUNDS):
        kept = _shared(every.select(every.left(bias) < allowed), rows)
        if len(kept) < FEWEST_WINDOWS:
            return _unknown(rows, len(kept), width)
        noise = max(float(np.median(kept.left(bias))), 1e-8)
        information, right = kept.sums(kept.matrix / noise, kept.vector / noise, rows)
        off = (kept.vector - np.einsum("nij,nj->ni", kept.matrix, bias[kept.rows])) / noise
        spread, _ = kept.sums(off[:, :, None] * off[:, None, :], off, rows)
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
    return centre @ bias, np.sqrt(np.diag(covariance)), steps, len(kept)


def _shared(windows: _Windows, rows: int) -> _Windows:
    """The windows all of whose rows are in many windows."""
    while True:
        count = np.bincount(windows.rows.ravel(), minlength=rows)
        kept = windows.select(count[windows.rows].min(axis=1, initial=FEWEST_OF_ROW) >= FEWEST_OF_ROW)
        if len(kept) == len(windows):
            return kept
        windows = kept


def _unknown(rows: int, windows: int, width: float) -> tuple[Floats, Floats, Floats, int]:
    return np.zeros(rows), np.full(rows, width), np.full(max(rows - 1, 1), np.sqrt(2.0) * width), windows


@dataclass(frozen=True, eq=False)
class _Windows:
    """Windows of pixels on one plane each: their parts of the system, the planes taken out."""

    rows: NDArray[np.int64]
    """Rows of each window, shape (windows, rows of a window)."""
    matrix: Floats
    vector: Floats
    squares: Floats
    """Sum of squares of what each plane leaves."""
    freedom: int

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def joined(cls, parts: Sequence[_Windows]) -> _Windows:
        """All windows of several bands."""
        rows, matrix, vector, squares = (
            np.concatenate([getattr(one, name) for one in parts]) for name in ("rows", "matrix", "vector", "squares")
        )
        return cls(rows, matrix, vector, squares, parts[0].freedom)

    def select(self, kept: NDArray[np.bool_]) -> _Windows:
        """Some of the windows."""
        return _Windows(self.rows[kept], self.matrix[kept], self.vector[kept], self.squares[kept], self.freedom)

    def left(self, bias: Floats) -> Floats:
        """Mean square [m^2] of what plane and rows' errors leave of each window."""
        own = bias[self.rows]
        cross = np.einsum("ni,ni->n", own, self.vector)
        return (self.squares - 2.0 * cross + np.einsum("ni,nij,nj->n", own, self.matrix, own)) / self.freedom

    def sums(self, matrix: Floats, vector: Floats, rows: int) -> tuple[Floats, Floats]:
        """Matrices and vectors of all windows, added up over all rows of the sensor."""
        place = self.rows[:, :, None] * rows + self.rows[:, None, :]
        total = np.bincount(place.ravel(), matrix.ravel(), rows * rows).reshape(rows, rows)
        right = np.bincount(self.rows.ravel(), vector.ravel(), rows)
        return np.asarray(total, np.float64), np.asarray(right, np.float64)


def _windows(turn: Turn, top: int, high: int, starts: NDArray[np.int64], kind: Kind) -> _Windows:
    """The windows of a band of rows that see one surface."""
    assert turn.direction is not None
    assert turn.origin is not None
    wide, band = WINDOW[1], slice(top, top + high)
    columns = starts[:, None] + np.arange(wide)
    metres = turn.range[band][:, columns].swapaxes(0, 1)
    near = np.where(np.isfinite(metres), metres, np.inf).min(axis=(1, 2))
    with np.errstate(invalid="ignore"):
        good = np.isfinite(metres).all(axis=(1, 2)) & (np.ptp(metres, axis=(1, 2)) <= 2.0 * near)
    columns = columns[good]
    r = metres[good].reshape(-1, high * wide)
    u, o = (part[band][:, columns].swapaxes(0, 1).reshape(-1, high * wide, 3) for part in (turn.direction, turn.origin))
    # The plane q.p = 1; refined by points on the plane, not as measured, whose noise would tilt it.
    q = _solved(o + r[..., None] * u, np.ones_like(r))
    along = np.abs(np.einsum("nki,ni->nk", u, q)).min(axis=1)
    steep = along < (LEAST_COSINE if kind == "range" else SLANTED_COSINE) * np.linalg.norm(q, axis=1)
    r, u, o, q = (part[~steep] for part in (r, u, o, q))
    for _ in range(3):
        error, slopes = _against(q, r, u, o)
        q = q - _solved(slopes, error)
    error, slopes = _against(q, r, u, o)
    flat = np.abs(error).max(axis=1, initial=0.0) <= 0.3
    error, slopes = error[flat], slopes[flat]
    number = len(error)
    # How far a unit of the row's error moves each range.
    lever = np.ones_like(error) if kind == "range" else _by_elevation(q[flat], u[flat], o[flat])
    moved = lever.reshape(number, high, wide)
    cross = (moved[..., None] * slopes.reshape(number, high, wide, 3)).sum(axis=2)
    inner = np.linalg.pinv(slopes.swapaxes(1, 2) @ slopes, hermitian=True)
    taken = np.einsum("nki,nk->ni", slopes, error)
    own = np.eye(high) * np.sum(moved**2, axis=2)[:, :, None]
    matrix = own - cross @ inner @ cross.swapaxes(1, 2)
    vector = np.sum(moved * error.reshape(number, high, wide), axis=2) - np.einsum(
        "nhi,nij,nj->nh", cross, inner, taken
    )
    squares = np.einsum("nk,nk->n", error, error) - np.einsum("ni,nij,nj->n", taken, inner, taken)
    rows = np.broadcast_to(np.arange(top, top + high), (number, high))
    return _Windows(rows, matrix, vector, squares, high * wide - high - 3)


def _solved(a: Floats, b: Floats) -> Floats:
    """Least squares of a x = b, window by window."""
    inverse = np.linalg.pinv(a.swapaxes(1, 2) @ a, hermitian=True, rcond=1e-12)
    return np.asarray(np.einsum("nij,nkj,nk->ni", inverse, a, b))


def _against(q: Floats, range_m: Floats, direction: Floats, origin: Floats) -> tuple[Floats, Floats]:
    """Ranges less those of the planes q.p = 1, and how these differences change with q."""
    along = np.einsum("nki,ni->nk", direction, q)
    there = (1.0 - np.einsum("nki,ni->nk", origin, q)) / along
    return range_m - there, (origin + there[..., None] * direction) / along[..., None]


def _by_elevation(q: Floats, direction: Floats, origin: Floats) -> Floats:
    """How ranges to the planes q.p = 1 change with the elevation of the beam [m/rad]."""
    along = np.einsum("nki,ni->nk", direction, q)
    there = (1.0 - np.einsum("nki,ni->nk", origin, q)) / along
    level = np.sqrt(np.maximum(1.0 - direction[..., 2] ** 2, 1e-12))
    upward = (np.array([0.0, 0.0, 1.0]) - direction[..., 2:] * direction) / level[..., None]
    return np.asarray(-there * np.einsum("nki,ni->nk", upward, q) / along)
