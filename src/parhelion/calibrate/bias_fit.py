"""Errors of channels in range, elevation and azimuth, from planes that many rows see.

A window of rows and columns on one plane leaves, beside noise, the differences between the rows' own errors. All
windows together are one linear system for the errors of all rows, each window's plane taken out of it. Errors of range
show on any plane, those of elevation on planes slanted upward, such as the road, those of azimuth on walls slanted
sideways: there a small angle is a long way.

All three are solved together. On a wall at incidence (a, e) beside and above its normal a row's error is
b + R tan(e) de + R tan(a) da: a row sees walls at one e and at many a and R, so that what one kind leaves out, another
would take up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.turns import Floats, Turn

KINDS = ("range", "elevation", "azimuth")
WINDOW = (5, 6)
"""Rows and columns of a window."""
PRIOR_M = 0.03
"""What channels may differ by in range before anything is measured: data sheets grant some centimetres."""
PRIOR_RAD = 0.0026
"""What their angles may differ by before anything is measured: 0.15 degrees."""
PRIORS = np.array([PRIOR_M, PRIOR_RAD, PRIOR_RAD])
MOST_CURVED = 1.3
"""Windows whose scatter is larger than this many times what noise and rows' errors make of it are no planes."""
FEWEST_WINDOWS = 40
MOST_WINDOWS = 40_000
"""Windows that are looked at; of longer recordings, as many evenly over their length."""
FEWEST_ROWS = 4
"""Rows that must be told apart from their neighbours before angles are changed."""
FEWEST_OF_ROW = 12
"""Windows that a row must be in: few of them would shape its error after what they see."""
ROUNDS = 10
LEARNING = 3
"""Steps of learning how much rows differ, within each round."""
SLANTED_COSINE = 0.12
"""Cosine of incidence down to which windows are taken; still flatter ones blur over the width of the beam."""


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
    steps_told: NDArray[np.bool_]
    """Which of these differences planes tell, to a sixth of what rows may differ by."""

    @property
    def known(self) -> bool:
        """Whether some neighbouring rows can be told apart; the others stay near 0."""
        return self.windows >= FEWEST_WINDOWS and int(self.steps_told.sum()) >= FEWEST_ROWS

    @property
    def significance(self) -> float:
        """Root mean square of the told steps between rows over their errors: about 1 where all is noise."""
        steps = np.diff(self.bias_m) / self.step_error_m
        return float(np.sqrt(np.mean(steps[self.steps_told] ** 2))) if self.steps_told.any() else 0.0


@dataclass(frozen=True, eq=False)
class BeamAngles:
    """Errors of elevation or azimuth of rows: true less reported, their mean taken out."""

    off_deg: Floats
    """Of each row, the highest first, shape (rows,); azimuth counter-clockwise."""
    covariance_deg2: Floats
    """Of these, shape (rows, rows)."""
    steps_told: NDArray[np.bool_]
    """Which differences between a row and the next planes tell, to a sixth of what rows may differ by."""
    windows: int

    @property
    def error_deg(self) -> Floats:
        """Standard error, shape (rows,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance_deg2)))

    @property
    def step_error_deg(self) -> Floats:
        """Standard error of the difference between each row and the next, shape (rows - 1,)."""
        return _step_errors(self.covariance_deg2)

    @property
    def told(self) -> NDArray[np.bool_]:
        """Rows that planes tell apart from a neighbour, shape (rows,)."""
        return np.append(self.steps_told, False) | np.append(False, self.steps_told)

    @property
    def known(self) -> bool:
        """Whether some rows are."""
        return self.windows >= FEWEST_WINDOWS and int(self.told.sum()) >= FEWEST_ROWS

    @property
    def significance(self) -> float:
        """Root mean square of the steps between those rows over their errors: about 1 where all is noise."""
        steps = np.diff(self.off_deg) / self.step_error_deg
        return float(np.sqrt(np.mean(steps[self.steps_told] ** 2))) if self.steps_told.any() else 0.0

    @property
    def correction_deg(self) -> Floats:
        """What to add to angles: told rows about their own mean, which no plane shows; 0 for the others."""
        return np.asarray(self._about_told @ self.off_deg)

    @property
    def correction_error_deg(self) -> Floats:
        """Standard error of that, shape (rows,); 0 for rows that are not told."""
        return np.asarray(np.sqrt(np.diag(self._about_told @ self.covariance_deg2 @ self._about_told.T)))

    @property
    def _about_told(self) -> Floats:
        told = self.told.astype(np.float64)
        return np.diag(told) - np.outer(told, told) / max(told.sum(), 1.0)


@dataclass(frozen=True, eq=False)
class ChannelErrors:
    """Errors of rows in range, elevation and azimuth, solved together."""

    range: ChannelBias
    elevation: BeamAngles
    azimuth: BeamAngles


def channel_errors(turn: Turn, sigma_m: float, jitter_deg: tuple[float, float] = (0.0, 0.0)) -> ChannelErrors:
    """Errors of rows; `sigma_m` is the usual scatter of a range, `jitter_deg` that of azimuth and elevation.

    Least squares in which rows are alike: how much they differ in each kind is learnt from the rows that planes show,
    and holds for modes that none of them shows, such as a tilt over all rows. These stay near 0 and have that error.
    Errors follow from how windows differ, so that rough surfaces count.
    """
    rows = turn.range.shape[0]
    solved = _solve(turn, sigma_m, np.radians(jitter_deg))
    centre = np.eye(rows) - 1.0 / rows
    parts = []
    for number in range(len(KINDS)):
        own = slice(number * rows, (number + 1) * rows)
        told = _step_errors(solved.alone[own, own]) < PRIORS[number] / 6.0
        parts.append((centre @ solved.found[own], centre @ solved.covariance[own, own] @ centre.T, told))
    (bias, of_bias, steps), *angles = parts
    turned = (BeamAngles(np.degrees(off), np.degrees(np.degrees(cov)), at, solved.windows) for off, cov, at in angles)
    ranges = ChannelBias(bias, np.sqrt(np.diag(of_bias)), solved.windows, _step_errors(of_bias), steps)
    return ChannelErrors(ranges, *turned)


def _step_errors(covariance: Floats) -> Floats:
    variance = np.diag(covariance)
    return np.asarray(np.sqrt(np.maximum(variance[1:] + variance[:-1] - 2.0 * np.diag(covariance, 1), 0.0)))


@dataclass(frozen=True, eq=False)
class _Solved:
    """Errors of rows, kind by kind."""

    found: Floats
    """Shape (kinds * rows,)."""
    covariance: Floats
    alone: Floats
    """The covariance of each kind if its rows might differ by its prior: what planes tell by themselves."""
    windows: int


def _solve(turn: Turn, sigma_m: float, jitter_rad: Floats) -> _Solved:
    rows, columns = turn.range.shape
    prior = np.repeat(PRIORS, rows)
    unknown = np.diag(prior**2)
    if turn.direction is None or turn.origin is None or rows < 3:
        return _Solved(np.zeros(len(prior)), unknown, unknown, 0)
    high, wide = min(WINDOW[0], rows), WINDOW[1]
    # Every other window first, then those between, so that windows of one band share no pixel.
    starts = np.concatenate([np.arange(start, columns - wide + 1, 2 * wide) for start in (0, wide)])
    tops = range(0, rows - high + 1, max(1, high // 2))
    starts = starts[:: max(1, -(-len(starts) * len(tops) // MOST_WINDOWS))]
    every = _Windows.joined([_windows(turn, top, high, starts, sigma_m, jitter_rad) for top in tops])
    found, width, inverse, noise = np.zeros(len(prior)), prior, unknown, sigma_m**2
    for _ in range(ROUNDS):
        # What is no plane shows ever better as the rows' errors become known.
        off = every.left(found) / (max(noise, sigma_m**2) + every.open(inverse))
        kept = _shared(every.select(off < MOST_CURVED**2), len(prior))
        if len(kept) < FEWEST_WINDOWS:
            return _Solved(np.zeros(len(prior)), unknown, unknown, len(kept))
        noise = max(float(np.median(kept.left(found))), 1e-8)
        information, right = kept.sums(kept.matrix / noise, kept.vector / noise, len(prior))
        off = (kept.vector - np.einsum("nij,nj->ni", kept.matrix, found[kept.unknowns])) / noise
        # Rough surfaces make windows differ by more than noise does, and windows of neighbouring bands share pixels.
        spread = np.sum((off * prior[kept.unknowns]) ** 2) / np.sum(np.diag(information) * prior**2)
        scale = 2.0 * max(1.0, float(spread))
        for _ in range(LEARNING):
            inverse = _inverse(information / scale, width)
            found = inverse @ right / scale
            width = _learnt(found, np.diag(inverse), width, prior)
    differ, _ = kept.sums(off[:, :, None] * off[:, None, :], off, len(prior))
    differ *= 2.0 / scale**2

    def covariance(of: Floats) -> Floats:
        inverse = _inverse(information / scale, of)
        return np.asarray(inverse @ (differ + np.diag(of**-2.0)) @ inverse)

    alone = np.zeros_like(unknown)
    for number in range(len(KINDS)):
        own = slice(number * rows, (number + 1) * rows)
        mixed = width.copy()
        mixed[own] = PRIORS[number]
        alone[own, own] = covariance(mixed)[own, own]
    return _Solved(found, covariance(width), alone, len(kept))


def _inverse(information: Floats, width: Floats) -> Floats:
    """(information + 1 / width^2)^-1, well scaled."""
    scaled = width[:, None] * information * width + np.eye(len(width))
    return np.asarray(width[:, None] * np.linalg.inv(scaled) * width)


def _learnt(found: Floats, variance: Floats, width: Floats, prior: Floats) -> Floats:
    """How much rows differ, kind by kind: what maximises the likelihood of all windows (MacKay 1992), with the prior
    counted like one further row, so that it holds where planes tell little."""
    kinds = len(KINDS)
    told = np.sum(1.0 - (variance / width**2).reshape(kinds, -1), axis=1)
    squares = np.sum(found.reshape(kinds, -1) ** 2, axis=1)
    before = prior.reshape(kinds, -1)[:, 0]
    learnt = np.sqrt((squares + before**2) / (np.maximum(told, 0.0) + 1.0))
    return np.repeat(np.minimum(learnt, before), len(found) // kinds)


def _shared(windows: _Windows, unknowns: int) -> _Windows:
    """The windows all of whose rows are in many windows."""
    while True:
        count = np.bincount(windows.unknowns.ravel(), minlength=unknowns)
        kept = windows.select(count[windows.unknowns].min(axis=1, initial=FEWEST_OF_ROW) >= FEWEST_OF_ROW)
        if len(kept) == len(windows):
            return kept
        windows = kept


@dataclass(frozen=True, eq=False)
class _Windows:
    """Windows of pixels on one plane each: their parts of the system, the planes taken out."""

    unknowns: NDArray[np.int64]
    """Places of each window's unknowns among those of all rows, shape (windows, kinds * rows of a window)."""
    matrix: Floats
    vector: Floats
    squares: Floats
    """Sum of squares of what each plane leaves."""
    freedom: int

    def __len__(self) -> int:
        return len(self.unknowns)

    @classmethod
    def joined(cls, parts: Sequence[_Windows]) -> _Windows:
        """All windows of several bands."""
        names = ("unknowns", "matrix", "vector", "squares")
        unknowns, matrix, vector, squares = (np.concatenate([getattr(one, name) for one in parts]) for name in names)
        return cls(unknowns, matrix, vector, squares, parts[0].freedom)

    def select(self, kept: NDArray[np.bool_]) -> _Windows:
        """Some of the windows."""
        return _Windows(self.unknowns[kept], self.matrix[kept], self.vector[kept], self.squares[kept], self.freedom)

    def left(self, bias: Floats) -> Floats:
        """Mean square [m^2] of what plane and rows' errors leave of each window."""
        own = bias[self.unknowns]
        moved = np.einsum("nij,nj->ni", self.matrix, own)
        return (self.squares + np.einsum("ni,ni->n", own, moved - 2.0 * self.vector)) / self.freedom

    def open(self, covariance: Floats) -> Floats:
        """The part of that mean square [m^2] which errors of rows make that are still unknown."""
        own = covariance[self.unknowns[:, :, None], self.unknowns[:, None, :]]
        return np.asarray(np.einsum("nij,nij->n", self.matrix, own)) / self.freedom

    def sums(self, matrix: Floats, vector: Floats, count: int) -> tuple[Floats, Floats]:
        """Matrices and vectors of all windows, added up over all rows of the sensor."""
        place = self.unknowns[:, :, None] * count + self.unknowns[:, None, :]
        total = np.bincount(place.ravel(), matrix.ravel(), count * count).reshape(count, count)
        right = np.bincount(self.unknowns.ravel(), vector.ravel(), count)
        return np.asarray(total, np.float64), np.asarray(right, np.float64)


def _windows(
    turn: Turn, top: int, high: int, starts: NDArray[np.int64], sigma_m: float, jitter_rad: Floats
) -> _Windows:
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
    flat = np.abs(error).max(axis=1, initial=0.0) <= 0.3
    error, slopes = error[flat], slopes[flat]
    number = len(error)
    # How far a unit of each row's error moves each range: kinds side by side, rows within them.
    levers = _levers(q[flat], u[flat], o[flat])
    jitter = np.array([0.0, jitter_rad[1], jitter_rad[0]])
    weight = sigma_m**2 / (sigma_m**2 + np.mean((levers @ np.diag(jitter)) ** 2, axis=1).sum(axis=1))
    levers = levers.reshape(number, high, wide, len(KINDS))
    moved = np.einsum("nhwk,hg->nhwkg", levers, np.eye(high)).reshape(number, high * wide, len(KINDS) * high)
    # What the plane takes up of it.
    inner = np.linalg.pinv(slopes.swapaxes(1, 2) @ slopes, hermitian=True)
    cross = slopes.swapaxes(1, 2) @ moved
    taken = np.einsum("nki,nk->ni", slopes, error)
    matrix = moved.swapaxes(1, 2) @ moved - cross.swapaxes(1, 2) @ inner @ cross
    vector = np.einsum("nku,nk->nu", moved, error) - np.einsum("niu,nij,nj->nu", cross, inner, taken)
    squares = np.einsum("nk,nk->n", error, error) - np.einsum("ni,nij,nj->n", taken, inner, taken)
    place = np.arange(len(KINDS))[:, None] * turn.range.shape[0] + np.arange(top, top + high)
    freedom = high * wide - len(KINDS) * high - 3
    unknowns = np.broadcast_to(place.ravel(), (number, place.size))
    return _Windows(unknowns, weight[:, None, None] * matrix, weight[:, None] * vector, weight * squares, freedom)


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
