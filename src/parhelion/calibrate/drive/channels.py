"""Range, elevation and azimuth errors of channels, from planes that several rows observe.

A window of rows and columns on one plane contains, apart from noise, the differences between the errors of its rows.
All windows together form one linear system for the errors of all rows; the plane of each window is eliminated. Range
errors are visible on any plane, elevation errors on planes inclined along the beam, for example the road, and azimuth
errors on walls at an oblique angle, because a small angle there changes the range strongly.

All three kinds are solved together. On a wall at incidence (a, e) horizontally and vertically from its normal, the
error of a row is b + R tan(e) de + R tan(a) da. A row observes walls at one e and at many a and R, so an error kind
that is left out of the model would be absorbed by another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.range_images import Floats, RangeImage, TableWithMetadata

# ---- plane windows --------------------------------------------------------------------------------------------------
# Windows of neighbouring rows and columns on one plane, as parts of one linear system for the errors of rows. An error
# of a row changes its ranges by a lever: 1 for range itself, and the derivative of range by elevation and azimuth. The
# part of it that the plane of a window can absorb is projected out, so the planes themselves need not be known.


KINDS = ("range", "elevation", "azimuth")
"""Error kinds of a row; azimuth counter-clockwise."""
MOTIONS = 4
"""Velocity and yaw rate of the sensor during a frame whose rows point in different directions."""
PRIOR_M = 0.03
"""Prior spread of range errors between channels: data sheets allow some centimetres."""
PRIOR_RAD = 0.0026
"""Prior spread of angle errors between channels: 0.15 degrees."""
WINDOW = (5, 6)
"""Rows and columns of a window."""
PART_COLUMNS = 8 * WINDOW[1]
"""Columns of a section of the recording; windows of one section are not independent."""
MOST_WINDOWS = 40_000
"""Largest number of windows that are used; longer recordings are sampled evenly."""
SLANTED_COSINE = 0.2
"""Smallest cosine of incidence of a window; at grazing angles the beam width blurs the plane."""


@dataclass(frozen=True, eq=False)
class Windows(TableWithMetadata):
    """Pixel windows on one plane each: their parts of the linear system, with the planes eliminated."""

    unknowns: NDArray[np.int64]
    """Indices of each window's unknowns: errors of rows by kind, then motions by frame."""
    matrix: Floats
    vector: Floats
    squares: Floats
    """Sum of squared residuals about each plane."""
    place: NDArray[np.int64]
    """Section of the recording of each window; windows of one section may contain the same bump."""
    whole: NDArray[np.bool_]
    """The plane continues beyond the window."""
    freedom: int

    def left(self, bias: Floats) -> Floats:
        """Mean squared residual [m^2] of each window after plane and errors of rows."""
        own = bias[self.unknowns]
        moved = np.einsum("nij,nj->ni", self.matrix, own)
        return (self.squares + np.einsum("ni,ni->n", own, moved - 2.0 * self.vector)) / self.freedom

    def open(self, covariance: Floats) -> Floats:
        """Part of that mean square [m^2] caused by errors of rows that are still unknown."""
        own = covariance[self.unknowns[:, :, None], self.unknowns[:, None, :]]
        return np.asarray(np.einsum("nij,nij->n", self.matrix, own)) / self.freedom

    def stepped(self, bias: Floats, covariance: Floats, noise: float) -> Floats:
        """Mean squared range offset of the rows of each window, relative to noise and unknown errors."""
        high = WINDOW[0]
        some, inner = self.matrix[:, :high], self._inner
        own = covariance[self.unknowns[:, :, None], self.unknowns[:, None, :]]
        left = (self.vector - np.einsum("nij,nj->ni", self.matrix, bias[self.unknowns]))[:, :high]
        unsure = np.einsum("nij,nij->n", inner, some @ own @ some.swapaxes(1, 2))
        # The plane absorbs an offset and a slope over rows.
        return np.asarray(np.einsum("ni,nij,nj->n", left, inner, left) / ((high - 2) * noise + unsure))

    @cached_property
    def _inner(self) -> Floats:
        high = WINDOW[0]
        return np.asarray(np.linalg.pinv(self.matrix[:, :high, :high], hermitian=True, rcond=1e-3))

    def differ(self, off: Floats, count: int) -> Floats:
        """Covariance of the sum of vectors `off`, from the differences between sections of the recording.

        Each unknown is fitted to its own n sections, which reduces their differences by the factor 1 - 1/n.
        """
        parts, part = np.unique(self.place, return_inverse=True)
        where = part.reshape(-1, 1) * count + self.unknowns
        each = np.bincount(where.ravel(), off.ravel(), len(parts) * count).reshape(len(parts), count)
        seen = np.maximum(np.sum(each != 0.0, axis=0), 2)
        each *= seen / (seen - 1.0)
        return np.asarray(each.T @ each)

    def sums(self, matrix: Floats, vector: Floats, count: int) -> tuple[Floats, Floats]:
        """Matrices and vectors of all windows, summed over all rows of the sensor."""
        place = self.unknowns[:, :, None] * count + self.unknowns[:, None, :]
        total = np.bincount(place.ravel(), matrix.ravel(), count * count).reshape(count, count)
        right = np.bincount(self.unknowns.ravel(), vector.ravel(), count)
        return np.asarray(total, np.float64), np.asarray(right, np.float64)


def windows_of(frames: Sequence[RangeImage], sigma_m: float, jitter_rad: Floats) -> tuple[Windows, int]:
    """All windows on planes, and the number of unknown motions; `jitter_rad` is the scatter of azimuth and elevation.

    Frames need directions and origins of their pulses, and equal numbers of rows.
    """
    rows = frames[0].range.shape[0]
    high, wide = min(WINDOW[0], rows), WINDOW[1]
    tops = range(0, rows - high + 1, max(1, high // 2))
    lags = [_lag(frame) for frame in frames]
    moved = any(lag.any() for lag in lags)
    thin = max(1, -(-sum(frame.range.shape[1] // wide for frame in frames) * len(tops) // MOST_WINDOWS))
    parts = []
    for number, (frame, lag) in enumerate(zip(frames, lags, strict=True)):
        aligned = _aligned(frame, lag)
        # First every other window, then those between, so that windows of one band share no pixel.
        last = frame.range.shape[1] - wide + 1
        starts = np.concatenate([np.arange(start, last, 2 * wide) for start in (0, wide)])[number % thin :: thin]
        motion = len(KINDS) * rows + MOTIONS * number if moved else None
        before = sum(one.range.shape[1] // PART_COLUMNS + 1 for one in frames[:number])
        parts += [_windows(aligned, lag, motion, before, top, high, starts, sigma_m, jitter_rad) for top in tops]
    return Windows.joined(parts), MOTIONS * len(frames) if moved else 0


def _lag(frame: RangeImage) -> NDArray[np.int64]:
    """Columns by which each row lags the median row; beams of some sensors point up to 4 degrees sideways."""
    assert frame.direction is not None
    azimuth = np.arctan2(frame.direction[..., 1], frame.direction[..., 0])

    def medians(angle: Floats) -> Floats:
        rotated = (angle + np.pi) % (2.0 * np.pi) - np.pi
        known = np.isfinite(rotated)
        return np.array([np.median(row[own]) if own.any() else 0.0 for row, own in zip(rotated, known, strict=True)])

    step = float(np.median(medians(np.diff(azimuth, axis=1))))
    if step == 0.0:
        return np.zeros(len(azimuth), np.int64)
    lag = np.rint(-medians(azimuth - azimuth[len(azimuth) // 2]) / step).astype(np.int64)
    return lag - int(np.median(lag))


def _aligned(frame: RangeImage, lag: NDArray[np.int64]) -> RangeImage:
    """Frame with its rows shifted until each column has one azimuth.

    Unshifted rows observe different parts of a surface, whose curvature would look like errors of rows.
    """
    if not lag.any():
        return frame
    assert frame.direction is not None
    assert frame.origin is not None
    width = frame.range.shape[1]
    columns = np.arange(width) + lag[:, None]
    place = np.arange(len(lag))[:, None], np.clip(columns, 0, width - 1)
    metres = np.where((columns < 0) | (columns >= width), np.nan, frame.range[place])
    return replace(frame, range=metres, direction=frame.direction[place], origin=frame.origin[place])


def _windows(
    frame: RangeImage,
    lag: NDArray[np.int64],
    motion: int | None,
    part: int,
    top: int,
    high: int,
    starts: NDArray[np.int64],
    sigma_m: float,
    jitter_rad: Floats,
) -> Windows:
    """Windows of a band of rows on one surface, weighted by their expected scatter."""
    assert frame.direction is not None
    assert frame.origin is not None
    wide, band = WINDOW[1], slice(top, top + high)
    columns = starts[:, None] + np.arange(wide)
    metres = frame.range[band][:, columns].swapaxes(0, 1)
    near = np.where(np.isfinite(metres), metres, np.inf).min(axis=(1, 2))
    with np.errstate(invalid="ignore"):
        good = np.isfinite(metres).all(axis=(1, 2)) & (np.ptp(metres, axis=(1, 2)) <= 2.0 * near)
    columns = columns[good]
    r = metres[good].reshape(-1, high * wide)
    u, o = (
        part[band][:, columns].swapaxes(0, 1).reshape(-1, high * wide, 3) for part in (frame.direction, frame.origin)
    )
    # The plane q.p = 1, refined with points on the plane instead of measured points, whose noise would tilt it.
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
    whole = _goes_on(frame, top - 1, columns, q[flat]) & _goes_on(frame, top + high, columns, q[flat])
    number = len(error)
    # Derivative of each range by the error of each row: kinds side by side, rows within them.
    levers = _levers(q[flat], u[flat], o[flat])
    jitter = np.array([0.0, jitter_rad[1], jitter_rad[0]])
    weight = sigma_m**2 / (sigma_m**2 + np.mean((levers @ np.diag(jitter)) ** 2, axis=1).sum(axis=1))
    levers = levers.reshape(number, high, wide, len(KINDS))
    moved = np.einsum("nhwk,hg->nhwkg", levers, np.eye(high)).reshape(number, high * wide, len(KINDS) * high)
    own = (np.arange(len(KINDS))[:, None] * frame.range.shape[0] + np.arange(top, top + high)).ravel()
    if motion is not None:
        # Shifted rows were fired at other times [columns], between which the sensor moved.
        fired = np.repeat(lag[band], wide) + np.tile(np.arange(wide), high)
        along = np.einsum("nki,ni->nk", u[flat], q[flat])[..., None]
        rotated = levers.reshape(number, high * wide, len(KINDS))[..., 2:]
        drifted = fired[:, None] * np.concatenate([-q[flat][:, None] / along, rotated], axis=-1)
        moved = np.concatenate([moved, drifted], axis=-1)
        own = np.append(own, motion + np.arange(MOTIONS))
    # Project out the part that the plane absorbs.
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


def _goes_on(frame: RangeImage, row: int, columns: NDArray[np.int64], q: Floats) -> NDArray[np.bool_]:
    """Test whether the row next to each window lies on its plane, within possible errors of rows, or has no return.

    A window that ends with the first row of another surface contains a kink that is too small to detect and always has
    the same sign.
    """
    if not 0 <= row < frame.range.shape[0] or not len(q):
        return np.ones(len(q), bool)
    assert frame.direction is not None
    assert frame.origin is not None
    u, o = (part[row][columns].astype(np.float64) for part in (frame.direction, frame.origin))
    with np.errstate(invalid="ignore", divide="ignore"):
        error, _ = _against(q, frame.range[row][columns], u, o)
        levers = _levers(q, u, o) * np.array([PRIOR_M, PRIOR_RAD, PRIOR_RAD])
        most = 3.0 * np.sqrt(np.sum(levers**2, axis=-1))
        return ~(np.abs(error) > most).any(axis=1)


def _solved(a: Floats, b: Floats) -> Floats:
    """Least-squares solution of a x = b for each window."""
    inverse = np.linalg.pinv(a.swapaxes(1, 2) @ a, hermitian=True, rcond=1e-12)
    return np.asarray(np.einsum("nij,nkj,nk->ni", inverse, a, b))


def _against(q: Floats, range_m: Floats, direction: Floats, origin: Floats) -> tuple[Floats, Floats]:
    """Ranges minus those of the planes q.p = 1, and the derivatives of these differences by q."""
    along = np.einsum("nki,ni->nk", direction, q)
    there = (1.0 - np.einsum("nki,ni->nk", origin, q)) / along
    return range_m - there, (origin + there[..., None] * direction) / along[..., None]


def _levers(q: Floats, direction: Floats, origin: Floats) -> Floats:
    """Derivatives of ranges to the planes q.p = 1 by range error, elevation and azimuth [m/rad] of the beams."""
    along = np.einsum("nki,ni->nk", direction, q)
    there = (1.0 - np.einsum("nki,ni->nk", origin, q)) / along
    level = np.sqrt(np.maximum(1.0 - direction[..., 2] ** 2, 1e-12))
    upward = (np.array([0.0, 0.0, 1.0]) - direction[..., 2:] * direction) / level[..., None]
    # Counter-clockwise about the axis of the head; the shift decreases with the cosine of elevation.
    sideways = np.stack([-direction[..., 1], direction[..., 0], np.zeros_like(there)], axis=-1)
    rotated = [-there * np.einsum("nki,ni->nk", way, q) / along for way in (upward, sideways)]
    return np.stack([np.ones_like(there), *rotated], axis=-1)


# ---- channels -------------------------------------------------------------------------------------------------------


PRIORS = np.array([PRIOR_M, PRIOR_RAD, PRIOR_RAD])
"""Prior spread of each error kind."""
MOTION = np.array([5e-3, 5e-3, 5e-3, 3e-4])
"""Largest motion [m] and rotation [rad] of the sensor per column: 50 m/s and 3 rad/s at 100 us."""
MOST_CURVED = 1.3
"""Windows that scatter by more than this many times the expectation from noise and errors of rows are not planes."""
MOST_STEPPED = 3.0
"""Windows whose rows are off by more than this multiple, in mean square, contain a kink, such as a kerb."""
MOST_ROUGH = 0.25
"""Ratio of slightly curved to flat windows above which the ground is not a plane: 0.03 to 0.21 in built environments,
0.3 to 0.9 in open country. Windows that are flat by chance there share one sign of curvature, which looks like angle
errors."""
FEWEST_WINDOWS = 40
FEWEST_ROWS = 4
"""Smallest number of resolved rows before angles are changed."""
FEWEST_OF_ROW = 12
"""Windows that must contain a row; with fewer, its error would depend on the surfaces that they show."""
CHANCE = 1e-3
"""Probability that correct rows are reported as wrong."""
ROUNDS = 10
LEARNING = 3
"""Iterations of the estimated spread of rows within each round."""


@dataclass(frozen=True, eq=False)
class RowErrors:
    """Range errors [m] of rows relative to their mean; planes do not constrain an error that all rows share."""

    off: Floats
    """Error of each row, the highest first, shape (rows,)."""
    covariance: Floats
    """Covariance of the errors, shape (rows, rows)."""
    steps_resolved: NDArray[np.bool_]
    """Steps from a row to the next that planes resolve to a sixth of the prior spread of rows."""
    windows: int

    @property
    def error(self) -> Floats:
        """Standard error, shape (rows,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def step_error(self) -> Floats:
        """Standard error of the difference between each row and the next, shape (rows - 1,). It is smaller than that of
        the rows, because windows hardly constrain slow variations over many rows."""
        return _step_errors(self.covariance)

    @property
    def known(self) -> bool:
        """True if enough neighbouring rows are resolved; the others stay near 0."""
        return self.windows >= FEWEST_WINDOWS and int(self.steps_resolved.sum()) >= FEWEST_ROWS

    @property
    def significance(self) -> float:
        """Root mean square of the resolved steps between rows over their errors: about 1 for noise alone."""
        steps = np.diff(self.off) / self.step_error
        return float(np.sqrt(np.mean(steps[self.steps_resolved] ** 2))) if self.steps_resolved.any() else 0.0

    @property
    def significant(self) -> bool:
        """True if the significance exceeds what chance explains."""
        return self.significance > _by_chance(int(self.steps_resolved.sum()))


@dataclass(frozen=True, eq=False)
class BeamAngles(RowErrors):
    """Errors [deg] of elevation or azimuth (counter-clockwise) of rows: true minus reported, relative to their mean."""

    rough: bool = False
    """True if surfaces are too rough to measure angles."""

    @property
    def resolved(self) -> NDArray[np.bool_]:
        """Rows whose difference from a neighbour is resolved, shape (rows,)."""
        return np.append(self.steps_resolved, False) | np.append(False, self.steps_resolved)

    @property
    def known(self) -> bool:
        """True if enough rows are resolved on flat surfaces."""
        return not self.rough and self.windows >= FEWEST_WINDOWS and int(self.resolved.sum()) >= FEWEST_ROWS

    @property
    def correction(self) -> Floats:
        """Correction of angles [deg]: resolved rows relative to their mean, which is unconstrained; 0 for others."""
        return np.asarray(self._about_resolved @ self.off)

    @property
    def correction_error(self) -> Floats:
        """Standard error of the correction [deg], shape (rows,); 0 for unresolved rows."""
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
    frames: Sequence[RangeImage], sigma_m: float, jitter_deg: tuple[float, float] = (0.0, 0.0)
) -> ChannelErrors:
    """Errors of rows; all frames must have the same number of rows.

    `sigma_m` is the standard deviation of a range, `jitter_deg` that of azimuth and elevation.

    Least squares with a common prior for all rows. The spread of each error kind is estimated from the rows that planes
    constrain. It also applies to unconstrained modes, for example a tilt over all rows, which stay near 0 with that
    error. Errors follow from the differences between windows and therefore include rough surfaces.
    """
    rows = frames[0].range.shape[0]
    solved = _solve(frames, sigma_m, np.radians(jitter_deg))
    centre = np.eye(rows) - 1.0 / rows
    parts = []
    for number in range(len(KINDS)):
        own = slice(number * rows, (number + 1) * rows)
        resolved = _step_errors(solved.alone[own, own]) < PRIORS[number] / 6.0
        parts.append((centre @ solved.found[own], centre @ solved.covariance[own, own] @ centre.T, resolved))
    (bias, of_bias, at), *angles = parts
    rough = solved.rough > MOST_ROUGH
    rotated = [
        BeamAngles(np.degrees(off), np.degrees(np.degrees(cov)), steps, solved.windows, rough)
        for off, cov, steps in angles
    ]
    return ChannelErrors(RowErrors(bias, of_bias, at, solved.windows), *rotated)


def _by_chance(steps: int) -> float:
    """Value that the root mean square of this many normal numbers exceeds with probability CHANCE (chi-square)."""
    from scipy.special import chdtri

    return float(np.sqrt(chdtri(steps, CHANCE) / steps)) if steps else np.inf


def _step_errors(covariance: Floats) -> Floats:
    variance = np.diag(covariance)
    return np.asarray(np.sqrt(np.maximum(variance[1:] + variance[:-1] - 2.0 * np.diag(covariance, 1), 0.0)))


@dataclass(frozen=True, eq=False)
class _Solved:
    """Errors of rows by kind."""

    found: Floats
    """Errors, shape (kinds * rows,)."""
    covariance: Floats
    alone: Floats
    """Covariance of each kind with its prior spread, so that only planes constrain it."""
    windows: int
    rough: float = 0.0
    """Ratio of slightly curved to flat windows."""


def _solve(frames: Sequence[RangeImage], sigma_m: float, jitter_rad: Floats) -> _Solved:
    rows = frames[0].range.shape[0]
    prior = np.repeat(PRIORS, rows)
    unknown = np.diag(prior**2)
    frames = [frame for frame in frames if frame.direction is not None and frame.origin is not None]
    if not frames or rows < 3:
        return _Solved(np.zeros(len(prior)), unknown, unknown, 0)
    every, motions = windows_of(frames, sigma_m, jitter_rad)
    prior = np.append(prior, np.tile(MOTION, motions // MOTIONS))
    unknown = np.diag(prior**2)
    found, width, inverse, noise = np.zeros(len(prior)), prior, unknown, sigma_m**2
    worth = _left_by_choice(WINDOW[0] - 2)
    for _ in range(ROUNDS):
        # Curved surfaces become easier to detect as the errors of rows converge.
        expected = max(noise, sigma_m**2)
        curved = every.left(found) / (expected + every.open(inverse)) / MOST_CURVED**2
        smooth = every.whole & (every.stepped(found, inverse, expected) < MOST_STEPPED)
        kept = _shared(every.rows((curved < 1.0) & smooth), len(prior))
        if len(kept) < FEWEST_WINDOWS:
            return _Solved(np.zeros(len(prior)), unknown, unknown, len(kept))
        noise = max(float(np.median(kept.left(found))), 1e-8)
        information, right = (worth / noise * part for part in kept.sums(kept.matrix, kept.vector, len(prior)))
        off = (kept.vector - np.einsum("nij,nj->ni", kept.matrix, found[kept.unknowns])) / noise
        # Rough surfaces make windows differ by more than noise, and neighbouring windows contain the same bumps.
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
    rough = float(np.sum((curved > 1.0) & (curved < 4.0)) / np.maximum(np.sum(curved < 1.0), 1))
    return _Solved(found, covariance(width), alone, len(kept), rough)


def _left_by_choice(freedom: int) -> float:
    """Effective weight of the selected windows, which were selected by their own residuals.

    The mean of normal numbers x truncated at |x|^2 = c follows the true mean by E[x^2; |x|^2 < c] only, which is
    P(chi^2 < c) with two more degrees of freedom; the selected share is P(chi^2 < c).
    """
    from scipy.special import chdtr

    most = MOST_STEPPED * freedom
    return float(chdtr(freedom + 2, most) / chdtr(freedom, most))


def _inverse(information: Floats, width: Floats) -> Floats:
    """(information + 1 / width^2)^-1, well scaled."""
    scaled = width[:, None] * information * width + np.eye(len(width))
    return np.asarray(width[:, None] * np.linalg.inv(scaled) * width)


def _learnt(found: Floats, variance: Floats, width: Floats, prior: Floats, motions: int) -> Floats:
    """Spread of rows by kind that maximises the likelihood of all windows (MacKay 1992). The prior counts as one more
    row, so that it dominates where planes constrain little. Motions keep their prior."""
    kinds = len(KINDS)
    share, squares, before = (
        values[: len(prior) - motions].reshape(kinds, -1) for values in (variance / width**2, found**2, prior)
    )
    constrained = np.maximum(np.sum(1.0 - share, axis=1, keepdims=True), 0.0)
    learnt = np.sqrt((np.sum(squares, axis=1, keepdims=True) + before**2) / (constrained + 1.0))
    return np.append(np.minimum(learnt, before), prior[len(prior) - motions :])


def _shared(windows: Windows, unknowns: int) -> Windows:
    """Windows of which every row occurs in many windows."""
    while True:
        count = np.bincount(windows.unknowns.ravel(), minlength=unknowns)
        kept = windows.rows(count[windows.unknowns].min(axis=1, initial=FEWEST_OF_ROW) >= FEWEST_OF_ROW)
        if len(kept) == len(windows):
            return kept
        windows = kept
