"""Windows of neighbouring rows and columns that see one plane, as parts of one linear system for errors of rows.

An error of a row moves its ranges by a lever: 1 for range itself, and the change of range with elevation and azimuth.
What the plane of a window takes up of that is taken out, so that windows need not know their planes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.turns import Floats, Turn

KINDS = ("range", "elevation", "azimuth")
"""Errors of a row; azimuth counter-clockwise."""
MOTIONS = 4
"""Velocity and yaw rate of the sensor, in a turn whose rows look to different sides."""
PRIOR_M = 0.03
"""What channels may differ by in range before anything is measured: data sheets grant some centimetres."""
PRIOR_RAD = 0.0026
"""What their angles may differ by before anything is measured: 0.15 degrees."""
WINDOW = (5, 6)
"""Rows and columns of a window."""
PART_COLUMNS = 8 * WINDOW[1]
"""Columns of a part of the recording, within which windows are not independent."""
MOST_WINDOWS = 40_000
"""Windows that are looked at; of longer recordings, as many evenly over their length."""
SLANTED_COSINE = 0.2
"""Cosine of incidence down to which windows are taken; still flatter ones blur over the width of the beam."""


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of pixels on one plane each: their parts of the system, the planes taken out."""

    unknowns: NDArray[np.int64]
    """Places of each window's unknowns among all of them: errors of rows kind by kind, then motions turn by turn."""
    matrix: Floats
    vector: Floats
    squares: Floats
    """Sum of squares of what each plane leaves."""
    place: NDArray[np.int64]
    """Part of the recording that each window lies in: windows of one part may see the same bump."""
    whole: NDArray[np.bool_]
    """Whether the plane goes on beyond the window."""
    freedom: int

    def __len__(self) -> int:
        return len(self.unknowns)

    @classmethod
    def joined(cls, parts: Sequence[Windows]) -> Windows:
        """All windows of several bands."""
        names = ("unknowns", "matrix", "vector", "squares", "place", "whole")
        every = {name: np.concatenate([getattr(one, name) for one in parts]) for name in names}
        return cls(**every, freedom=parts[0].freedom)

    def select(self, kept: NDArray[np.bool_]) -> Windows:
        """Some of the windows."""
        names = ("unknowns", "matrix", "vector", "squares", "place", "whole")
        return Windows(**{name: getattr(self, name)[kept] for name in names}, freedom=self.freedom)

    def left(self, bias: Floats) -> Floats:
        """Mean square [m^2] of what plane and rows' errors leave of each window."""
        own = bias[self.unknowns]
        moved = np.einsum("nij,nj->ni", self.matrix, own)
        return (self.squares + np.einsum("ni,ni->n", own, moved - 2.0 * self.vector)) / self.freedom

    def open(self, covariance: Floats) -> Floats:
        """The part of that mean square [m^2] which errors of rows make that are still unknown."""
        own = covariance[self.unknowns[:, :, None], self.unknowns[:, None, :]]
        return np.asarray(np.einsum("nij,nij->n", self.matrix, own)) / self.freedom

    def stepped(self, bias: Floats, covariance: Floats, noise: float) -> Floats:
        """Mean square of what its rows are off in range, window by window, over what noise and unknown errors make."""
        high = WINDOW[0]
        some, inner = self.matrix[:, :high], self._inner
        own = covariance[self.unknowns[:, :, None], self.unknowns[:, None, :]]
        left = (self.vector - np.einsum("nij,nj->ni", self.matrix, bias[self.unknowns]))[:, :high]
        unsure = np.einsum("nij,nij->n", inner, some @ own @ some.swapaxes(1, 2))
        # The plane takes up an offset and a slope over rows.
        return np.asarray(np.einsum("ni,nij,nj->n", left, inner, left) / ((high - 2) * noise + unsure))

    @cached_property
    def _inner(self) -> Floats:
        high = WINDOW[0]
        return np.asarray(np.linalg.pinv(self.matrix[:, :high, :high], hermitian=True, rcond=1e-3))

    def differ(self, off: Floats, count: int) -> Floats:
        """Covariance of the sum of vectors `off`, by how parts of the recording differ.

        Each unknown is fitted to its own parts, n of them, so that they differ by 1 - 1/n less than they would.
        """
        parts, part = np.unique(self.place, return_inverse=True)
        where = part.reshape(-1, 1) * count + self.unknowns
        each = np.bincount(where.ravel(), off.ravel(), len(parts) * count).reshape(len(parts), count)
        seen = np.maximum(np.sum(each != 0.0, axis=0), 2)
        each *= seen / (seen - 1.0)
        return np.asarray(each.T @ each)

    def sums(self, matrix: Floats, vector: Floats, count: int) -> tuple[Floats, Floats]:
        """Matrices and vectors of all windows, added up over all rows of the sensor."""
        place = self.unknowns[:, :, None] * count + self.unknowns[:, None, :]
        total = np.bincount(place.ravel(), matrix.ravel(), count * count).reshape(count, count)
        right = np.bincount(self.unknowns.ravel(), vector.ravel(), count)
        return np.asarray(total, np.float64), np.asarray(right, np.float64)


def windows_of(turns: Sequence[Turn], sigma_m: float, jitter_rad: Floats) -> tuple[Windows, int]:
    """All windows on planes, and the number of unknown motions; `jitter_rad` is the scatter of azimuth and elevation.

    Turns must have directions and origins of their pulses, and as many rows.
    """
    rows = turns[0].range.shape[0]
    high, wide = min(WINDOW[0], rows), WINDOW[1]
    tops = range(0, rows - high + 1, max(1, high // 2))
    lags = [_lag(turn) for turn in turns]
    moved = any(lag.any() for lag in lags)
    thin = max(1, -(-sum(turn.range.shape[1] // wide for turn in turns) * len(tops) // MOST_WINDOWS))
    parts = []
    for number, (turn, lag) in enumerate(zip(turns, lags, strict=True)):
        aligned = _aligned(turn, lag)
        # Every other window first, then those between, so that windows of one band share no pixel.
        last = turn.range.shape[1] - wide + 1
        starts = np.concatenate([np.arange(start, last, 2 * wide) for start in (0, wide)])[number % thin :: thin]
        motion = len(KINDS) * rows + MOTIONS * number if moved else None
        before = sum(one.range.shape[1] // PART_COLUMNS + 1 for one in turns[:number])
        parts += [_windows(aligned, lag, motion, before, top, high, starts, sigma_m, jitter_rad) for top in tops]
    return Windows.joined(parts), MOTIONS * len(turns) if moved else 0


def _lag(turn: Turn) -> NDArray[np.int64]:
    """By how many columns each row is behind the usual one: beams of some sensors look up to 4 degrees to one side."""
    assert turn.direction is not None
    azimuth = np.arctan2(turn.direction[..., 1], turn.direction[..., 0])

    def usual(angle: Floats) -> Floats:
        turned = (angle + np.pi) % (2.0 * np.pi) - np.pi
        known = np.isfinite(turned)
        return np.array([np.median(row[own]) if own.any() else 0.0 for row, own in zip(turned, known, strict=True)])

    step = float(np.median(usual(np.diff(azimuth, axis=1))))
    if step == 0.0:
        return np.zeros(len(azimuth), np.int64)
    lag = np.rint(-usual(azimuth - azimuth[len(azimuth) // 2]) / step).astype(np.int64)
    return lag - int(np.median(lag))


def _aligned(turn: Turn, lag: NDArray[np.int64]) -> Turn:
    """The turn with its rows moved until columns are of one azimuth.

    Rows as they were fired look at different places of a surface, and what is curved about it looks like their errors.
    """
    if not lag.any():
        return turn
    assert turn.direction is not None
    assert turn.origin is not None
    width = turn.range.shape[1]
    columns = np.arange(width) + lag[:, None]
    place = np.arange(len(lag))[:, None], np.clip(columns, 0, width - 1)
    metres = np.where((columns < 0) | (columns >= width), np.nan, turn.range[place])
    return replace(turn, range=metres, direction=turn.direction[place], origin=turn.origin[place])


def _windows(
    turn: Turn, lag: NDArray[np.int64], motion: int | None, part: int, top: int, high: int,
    starts: NDArray[np.int64], sigma_m: float, jitter_rad: Floats,
) -> Windows:  # fmt: skip
    """The windows of a band of rows that see one surface, weighted by the scatter that each may be expected to have."""
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
    steep = np.abs(np.einsum("nki,ni->nk", u, q)).min(axis=1) < SLANTED_COSINE * np.linalg.norm(q, axis=1)
    r, u, o, q = (part[~steep] for part in (r, u, o, q))
    for _ in range(3):
        error, slopes = _against(q, r, u, o)
        q = q - _solved(slopes, error)
    error, slopes = _against(q, r, u, o)
    columns = columns[~steep]
    flat = np.abs(error).max(axis=1, initial=0.0) <= 0.3
    error, slopes, columns = error[flat], slopes[flat], columns[flat]
    whole = _goes_on(turn, top - 1, columns, q[flat]) & _goes_on(turn, top + high, columns, q[flat])
    number = len(error)
    # How far a unit of each row's error moves each range: kinds side by side, rows within them.
    levers = _levers(q[flat], u[flat], o[flat])
    jitter = np.array([0.0, jitter_rad[1], jitter_rad[0]])
    weight = sigma_m**2 / (sigma_m**2 + np.mean((levers @ np.diag(jitter)) ** 2, axis=1).sum(axis=1))
    levers = levers.reshape(number, high, wide, len(KINDS))
    moved = np.einsum("nhwk,hg->nhwkg", levers, np.eye(high)).reshape(number, high * wide, len(KINDS) * high)
    own = (np.arange(len(KINDS))[:, None] * turn.range.shape[0] + np.arange(top, top + high)).ravel()
    if motion is not None:
        # Rows that were moved were fired at other times, [columns], between which the sensor moved.
        fired = np.repeat(lag[band], wide) + np.tile(np.arange(wide), high)
        along = np.einsum("nki,ni->nk", u[flat], q[flat])[..., None]
        turned = levers.reshape(number, high * wide, len(KINDS))[..., 2:]
        drifted = fired[:, None] * np.concatenate([-q[flat][:, None] / along, turned], axis=-1)
        moved = np.concatenate([moved, drifted], axis=-1)
        own = np.append(own, motion + np.arange(MOTIONS))
    # What the plane takes up of it.
    inner = np.linalg.pinv(slopes.swapaxes(1, 2) @ slopes, hermitian=True, rcond=1e-12)
    cross = slopes.swapaxes(1, 2) @ moved
    taken = np.einsum("nki,nk->ni", slopes, error)
    matrix = moved.swapaxes(1, 2) @ moved - cross.swapaxes(1, 2) @ inner @ cross
    vector = np.einsum("nku,nk->nu", moved, error) - np.einsum("niu,nij,nj->nu", cross, inner, taken)
    squares = np.einsum("nk,nk->n", error, error) - np.einsum("ni,nij,nj->n", taken, inner, taken)
    freedom = high * wide - 3
    unknowns = np.broadcast_to(own, (number, len(own)))
    where = part + columns[:, 0] // PART_COLUMNS
    return Windows(
        unknowns, weight[:, None, None] * matrix, weight[:, None] * vector, weight * squares, where, whole, freedom
    )


def _goes_on(turn: Turn, row: int, columns: NDArray[np.int64], q: Floats) -> NDArray[np.bool_]:
    """Whether the row beside each window lies on its plane as well, as far as errors of rows allow, or is not there.

    A window that ends with the first row of another surface has a kink too small to see, and always in one sense.
    """
    if not 0 <= row < turn.range.shape[0] or not len(q):
        return np.ones(len(q), bool)
    assert turn.direction is not None
    assert turn.origin is not None
    u, o = (part[row][columns].astype(np.float64) for part in (turn.direction, turn.origin))
    with np.errstate(invalid="ignore", divide="ignore"):
        error, _ = _against(q, turn.range[row][columns], u, o)
        levers = _levers(q, u, o) * np.array([PRIOR_M, PRIOR_RAD, PRIOR_RAD])
        most = 3.0 * np.sqrt(np.sum(levers**2, axis=-1))
        return ~(np.abs(error) > most).any(axis=1)


def _solved(a: Floats, b: Floats) -> Floats:
    """Least squares of a x = b, window by window."""
    inverse = np.linalg.pinv(a.swapaxes(1, 2) @ a, hermitian=True, rcond=1e-12)
    return np.asarray(np.einsum("nij,nkj,nk->ni", inverse, a, b))


def _against(q: Floats, range_m: Floats, direction: Floats, origin: Floats) -> tuple[Floats, Floats]:
    """Ranges less those of the planes q.p = 1, and how these differences change with q."""
    along = np.einsum("nki,ni->nk", direction, q)
    there = (1.0 - np.einsum("nki,ni->nk", origin, q)) / along
    return range_m - there, (origin + there[..., None] * direction) / along[..., None]


def _levers(q: Floats, direction: Floats, origin: Floats) -> Floats:
    """How ranges to the planes q.p = 1 change with the error of range, with elevation and azimuth [m/rad] of beams."""
    along = np.einsum("nki,ni->nk", direction, q)
    there = (1.0 - np.einsum("nki,ni->nk", origin, q)) / along
    level = np.sqrt(np.maximum(1.0 - direction[..., 2] ** 2, 1e-12))
    upward = (np.array([0.0, 0.0, 1.0]) - direction[..., 2:] * direction) / level[..., None]
    # Counter-clockwise about the axis of the head; high beams move less, by the cosine of their elevation.
    sideways = np.stack([-direction[..., 1], direction[..., 0], np.zeros_like(there)], axis=-1)
    turned = [-there * np.einsum("nki,ni->nk", way, q) / along for way in (upward, sideways)]
    return np.stack([np.ones_like(there), *turned], axis=-1)
