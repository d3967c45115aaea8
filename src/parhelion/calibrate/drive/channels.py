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
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.range_images import Floats, RangeImage, TableWithFacts

# ---- plane windows --------------------------------------------------------------------------------------------------
# Windows of neighbouring rows and columns that see one plane, as parts of one linear system for errors of rows.
# An error of a row moves its ranges by a lever: 1 for range itself, and the change of range with elevation and azimuth.
# What the plane of a window takes up of that is taken out, so that windows need not know their planes.


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
class Windows(TableWithFacts):
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


def windows_of(turns: Sequence[RangeImage], sigma_m: float, jitter_rad: Floats) -> tuple[Windows, int]:
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


def _lag(turn: RangeImage) -> NDArray[np.int64]:
    """Columns by which each row lags the median row: beams of some sensors point up to 4 degrees to one side."""
    assert turn.direction is not None
    azimuth = np.arctan2(turn.direction[..., 1], turn.direction[..., 0])

    def medians(angle: Floats) -> Floats:
        turned = (angle + np.pi) % (2.0 * np.pi) - np.pi
        known = np.isfinite(turned)
        return np.array([np.median(row[own]) if own.any() else 0.0 for row, own in zip(turned, known, strict=True)])

    step = float(np.median(medians(np.diff(azimuth, axis=1))))
    if step == 0.0:
        return np.zeros(len(azimuth), np.int64)
    lag = np.rint(-medians(azimuth - azimuth[len(azimuth) // 2]) / step).astype(np.int64)
    return lag - int(np.median(lag))


def _aligned(turn: RangeImage, lag: NDArray[np.int64]) -> RangeImage:
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
    turn: RangeImage,
    lag: NDArray[np.int64],
    motion: int | None,
    part: int,
    top: int,
    high: int,
    starts: NDArray[np.int64],
    sigma_m: float,
    jitter_rad: Floats,
) -> Windows:
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


def _goes_on(turn: RangeImage, row: int, columns: NDArray[np.int64], q: Floats) -> NDArray[np.bool_]:
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


# ---- channels -------------------------------------------------------------------------------------------------------


PRIORS = np.array([PRIOR_M, PRIOR_RAD, PRIOR_RAD])
"""Of each kind of errors."""
MOTION = np.array([5e-3, 5e-3, 5e-3, 3e-4])
"""What the sensor may move [m] and turn [rad] by from one column to the next: 50 m/s and 3 rad/s at 100 us."""
MOST_CURVED = 1.3
"""Windows whose scatter is larger than this many times what noise and rows' errors make of it are no planes."""
MOST_STEPPED = 3.0
"""Windows whose rows are farther off than that many times, in mean square, hold a kink: a kerb, the foot of a wall."""
MOST_UNEVEN = 0.25
"""Slightly curved windows for each flat one, from which on the ground is no plane: built places have 0.03 to 0.21, open
country 0.3 to 0.9. What is flat by chance there bends in one sense, which looks like errors of angles."""
FEWEST_WINDOWS = 40
FEWEST_ROWS = 4
"""Smallest number of resolved rows before angles are changed."""
FEWEST_OF_ROW = 12
"""Windows that a row must be in: few of them would shape its error after what they see."""
CHANCE = 1e-3
"""Chance that right rows are taken for wrong ones."""
ROUNDS = 10
LEARNING = 3
"""Steps of learning how much rows differ, within each round."""


@dataclass(frozen=True, eq=False)
class RowErrors:
    """Range errors [m] of rows, their mean taken out: what all rows share cannot be seen from planes."""

    off: Floats
    """Of each row, the highest first, shape (rows,)."""
    covariance: Floats
    """Of these, shape (rows, rows)."""
    steps_resolved: NDArray[np.bool_]
    """Steps from a row to the next that planes resolve to a sixth of the prior spread of rows."""
    windows: int

    @property
    def error(self) -> Floats:
        """Standard error, shape (rows,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def step_error(self) -> Floats:
        """Standard error of the difference between each row and the next, shape (rows - 1,): better known than the rows
        themselves, since long waves over many rows hardly show in any window."""
        return _step_errors(self.covariance)

    @property
    def known(self) -> bool:
        """Whether enough neighbouring rows are resolved; the others stay near 0."""
        return self.windows >= FEWEST_WINDOWS and int(self.steps_resolved.sum()) >= FEWEST_ROWS

    @property
    def significance(self) -> float:
        """Root mean square of the resolved steps between rows over their errors: about 1 for noise alone."""
        steps = np.diff(self.off) / self.step_error
        return float(np.sqrt(np.mean(steps[self.steps_resolved] ** 2))) if self.steps_resolved.any() else 0.0

    @property
    def significant(self) -> bool:
        """Whether that is more than chance makes of it."""
        return self.significance > _by_chance(int(self.steps_resolved.sum()))


@dataclass(frozen=True, eq=False)
class BeamAngles(RowErrors):
    """Errors [deg] of elevation or azimuth (counter-clockwise) of rows: true less reported, their mean taken out."""

    uneven: bool = False
    """True if surfaces are too uneven to measure angles."""

    @property
    def resolved(self) -> NDArray[np.bool_]:
        """Rows whose difference from a neighbour is resolved, shape (rows,)."""
        return np.append(self.steps_resolved, False) | np.append(False, self.steps_resolved)

    @property
    def known(self) -> bool:
        """Whether enough rows are resolved, on surfaces that are planes."""
        return not self.uneven and self.windows >= FEWEST_WINDOWS and int(self.resolved.sum()) >= FEWEST_ROWS

    @property
    def correction(self) -> Floats:
        """Correction of angles [deg]: resolved rows relative to their mean, which planes do not show; 0 for others."""
        return np.asarray(self._about_resolved @ self.off)

    @property
    def correction_error(self) -> Floats:
        """Standard error of the correction [deg], shape (rows,); 0 for rows that are not resolved."""
        return np.asarray(np.sqrt(np.diag(self._about_resolved @ self.covariance @ self._about_resolved.T)))

    @property
    def _about_resolved(self) -> Floats:
        resolved = self.resolved.astype(np.float64)
        return np.diag(resolved) - np.outer(resolved, resolved) / max(resolved.sum(), 1.0)


@dataclass(frozen=True, eq=False)
class ChannelErrors:
    """Errors of rows in range, elevation and azimuth, solved together."""

    range: RowErrors
    elevation: BeamAngles
    azimuth: BeamAngles


def channel_errors(
    turns: Sequence[RangeImage], sigma_m: float, jitter_deg: tuple[float, float] = (0.0, 0.0)
) -> ChannelErrors:
    """Errors of rows, of which all turns have as many.

    `sigma_m` is the standard deviation of a range, `jitter_deg` that of azimuth and elevation.

    Least squares in which rows are alike: how much they differ in each kind is learnt from the rows that planes show,
    and holds for modes that none of them shows, such as a tilt over all rows. These stay near 0 and have that error.
    Errors follow from how windows differ, so that rough surfaces count.
    """
    rows = turns[0].range.shape[0]
    solved = _solve(turns, sigma_m, np.radians(jitter_deg))
    centre = np.eye(rows) - 1.0 / rows
    parts = []
    for number in range(len(KINDS)):
        own = slice(number * rows, (number + 1) * rows)
        resolved = _step_errors(solved.alone[own, own]) < PRIORS[number] / 6.0
        parts.append((centre @ solved.found[own], centre @ solved.covariance[own, own] @ centre.T, resolved))
    (bias, of_bias, at), *angles = parts
    uneven = solved.uneven > MOST_UNEVEN
    turned = [
        BeamAngles(np.degrees(off), np.degrees(np.degrees(cov)), steps, solved.windows, uneven)
        for off, cov, steps in angles
    ]
    return ChannelErrors(RowErrors(bias, of_bias, at, solved.windows), *turned)


def _by_chance(steps: int) -> float:
    """What the root mean square of so many normal numbers exceeds with a chance of CHANCE only (chi-square)."""
    from scipy.special import chdtri

    return float(np.sqrt(chdtri(steps, CHANCE) / steps)) if steps else np.inf


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
    uneven: float = 0.0
    """Windows that are slightly curved, for each that is flat."""


def _solve(turns: Sequence[RangeImage], sigma_m: float, jitter_rad: Floats) -> _Solved:
    rows = turns[0].range.shape[0]
    prior = np.repeat(PRIORS, rows)
    unknown = np.diag(prior**2)
    turns = [turn for turn in turns if turn.direction is not None and turn.origin is not None]
    if not turns or rows < 3:
        return _Solved(np.zeros(len(prior)), unknown, unknown, 0)
    every, motions = windows_of(turns, sigma_m, jitter_rad)
    prior = np.append(prior, np.tile(MOTION, motions // MOTIONS))
    unknown = np.diag(prior**2)
    found, width, inverse, noise = np.zeros(len(prior)), prior, unknown, sigma_m**2
    worth = _left_by_choice(WINDOW[0] - 2)
    for _ in range(ROUNDS):
        # What is no plane shows ever better as the rows' errors become known.
        usual = max(noise, sigma_m**2)
        curved = every.left(found) / (usual + every.open(inverse)) / MOST_CURVED**2
        smooth = every.whole & (every.stepped(found, inverse, usual) < MOST_STEPPED)
        kept = _shared(every.rows((curved < 1.0) & smooth), len(prior))
        if len(kept) < FEWEST_WINDOWS:
            return _Solved(np.zeros(len(prior)), unknown, unknown, len(kept))
        noise = max(float(np.median(kept.left(found))), 1e-8)
        information, right = (worth / noise * part for part in kept.sums(kept.matrix, kept.vector, len(prior)))
        off = (kept.vector - np.einsum("nij,nj->ni", kept.matrix, found[kept.unknowns])) / noise
        # Rough surfaces make windows differ by more than noise does, and neighbouring ones see the same bumps.
        differ = kept.differ(off, len(prior))
        scale = max(1.0, float(np.sum(np.diag(differ) * prior**2) / np.sum(np.diag(information) * prior**2)))
        for _ in range(LEARNING):
            inverse = _inverse(information / scale, width)
            found = inverse @ right / scale
            width = _learnt(found, np.diag(inverse), width, prior, motions)
    differ /= scale**2

    def covariance(of: Floats) -> Floats:
        inverse = _inverse(information / scale, of)
        return np.asarray(inverse @ (differ + np.diag(of**-2.0)) @ inverse)

    alone = np.zeros_like(unknown)
    for number in range(len(KINDS)):
        own = slice(number * rows, (number + 1) * rows)
        mixed = width.copy()
        mixed[own] = PRIORS[number]
        alone[own, own] = covariance(mixed)[own, own]
    uneven = float(np.sum((curved > 1.0) & (curved < 4.0)) / np.maximum(np.sum(curved < 1.0), 1))
    return _Solved(found, covariance(width), alone, len(kept), uneven)


def _left_by_choice(freedom: int) -> float:
    """How much the windows that are kept are worth, since they are chosen by what they say.

    The mean of normal numbers x that are cut at |x|^2 = c follows the true one by E[x^2; |x|^2 < c] only, which is
    P(chi^2 < c) with two more degrees of freedom; those kept are P(chi^2 < c).
    """
    from scipy.special import chdtr

    most = MOST_STEPPED * freedom
    return float(chdtr(freedom + 2, most) / chdtr(freedom, most))


def _inverse(information: Floats, width: Floats) -> Floats:
    """(information + 1 / width^2)^-1, well scaled."""
    scaled = width[:, None] * information * width + np.eye(len(width))
    return np.asarray(width[:, None] * np.linalg.inv(scaled) * width)


def _learnt(found: Floats, variance: Floats, width: Floats, prior: Floats, motions: int) -> Floats:
    """How much rows differ, kind by kind: what maximises the likelihood of all windows (MacKay 1992), with the prior
    counted like one further row, so that it holds where planes tell little. Motions keep their prior."""
    kinds = len(KINDS)
    share, squares, before = (
        values[: len(prior) - motions].reshape(kinds, -1) for values in (variance / width**2, found**2, prior)
    )
    told = np.maximum(np.sum(1.0 - share, axis=1, keepdims=True), 0.0)
    learnt = np.sqrt((np.sum(squares, axis=1, keepdims=True) + before**2) / (told + 1.0))
    return np.append(np.minimum(learnt, before), prior[len(prior) - motions :])


def _shared(windows: Windows, unknowns: int) -> Windows:
    """The windows all of whose rows are in many windows."""
    while True:
        count = np.bincount(windows.unknowns.ravel(), minlength=unknowns)
        kept = windows.rows(count[windows.unknowns].min(axis=1, initial=FEWEST_OF_ROW) >= FEWEST_OF_ROW)
        if len(kept) == len(windows):
            return kept
        windows = kept
