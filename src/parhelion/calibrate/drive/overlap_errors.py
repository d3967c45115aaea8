"""Overlap curve by sums of counts, with all sources of uncertainty in its errors.

Sensors report reflectivity in integer percents. A median of ratios of integers takes few values, which is up to half a
percent off for a dark road. The ratio of the sums of photons and percents is not affected, because rounding errors
average out if values spread over one count or more. Six error sources remain, and their squares add up:

- statistics: a bootstrap over blocks of columns;
- rounding, if a bin contains one surface of one percent value: 0.29 / percent, divided by the square root of the
  effective number of different counts;
- rows: the uncertainty of the strengths of the rows in a bin (`row_strengths`);
- model: bins scatter about the line between their neighbours, and the error that explains this scatter is added to
  all of them;
- truncated or rounded counts: the offset is fitted together with the curve, from the relation between dark and bright
  pixels of one bin, and its error is included;
- plateau: the errors of its bins, and the possible difference of full overlap from their mean, up to the highest bin,
  or beyond the last one if the curve still rises.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.drive.overlap import (
    BLOCK_COLUMNS,
    CELL_EDGES,
    CELL_M,
    FEWEST_POINTS,
    ROUNDING,
    Overlap,
    cells,
    plateau_bins,
    plateau_ends,
    usable,
)
from parhelion.calibrate.range_images import Floats, RangeImage

# ---- Strengths of rows, from range bins that several rows share -----------------------------------------------------
# The level of a row in a bin is the level of the bin times the strength of the row. Bins are free parameters. Strengths
# scatter about 1 by a variance estimated from the data, and neighbouring rows may be correlated: a row that shares no
# bin with others takes the corresponding part of its neighbours' strength and has the remaining error.


DEVIATIONS = (1e-3, 2e-3, 4e-3, 8e-3, 0.015, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3, 0.45, 0.7)
"""Trial values of the relative standard deviation of strengths."""
LIKENESSES = (0.0, 0.3, 0.6, 0.8, 0.9, 0.96)
"""Trial values of the correlation of neighbouring rows."""


@dataclass(frozen=True, eq=False)
class Strengths:
    """Log strengths of rows, relative to their mean."""

    factor: Floats
    """Log strengths, shape (rows,)."""
    covariance: Floats
    """Covariance, shape (rows, rows)."""
    deviation: float
    """Standard deviation over rows."""
    likeness: float
    """Correlation of neighbouring rows."""


def strengths(
    value: Floats,
    variance: Floats,
    bins: NDArray[np.int64],
    rows: NDArray[np.int64],
    bin_count: int,
    row_count: int,
    law: tuple[float, float] | None = None,
) -> Strengths:
    """Strengths of rows from cells: the log level of a row in a bin, and its variance.

    Least squares with free bins and the covariance s^2 c^|i - j| of strengths; s and c maximise the likelihood of the
    cells (restricted maximum likelihood, on a grid). If cells scatter by more than their variances, all variances are
    scaled up (Birge's ratio). `law` gives s and c if they are already known.
    """
    apart = np.abs(np.subtract.outer(np.arange(row_count), np.arange(row_count)))
    ratio = 1.0
    for _ in range(2):
        matrix, right = _normal(value, ratio * np.maximum(variance, 1e-8), bins, bin_count + rows, bin_count, row_count)
        deviation, likeness = law or _likeliest(matrix, right, apart, bin_count)
        prior = np.linalg.inv(_correlation(likeness, apart)) / deviation**2
        whole = matrix.copy()
        whole[bin_count:, bin_count:] += prior
        covariance = np.linalg.inv(whole)
        found = covariance @ right
        off = value - found[bins] - found[bin_count + rows]
        # Number of parameters that the cells determine, as opposed to the prior.
        used = bin_count + row_count - float(np.trace(covariance[bin_count:, bin_count:] @ prior))
        ratio *= max(1.0, float(np.sum(off**2 / (ratio * np.maximum(variance, 1e-8)))) / max(len(value) - used, 1.0))
    # The part that all rows share belongs to the level of the bins.
    centre = np.eye(row_count) - 1.0 / row_count
    of_rows = centre @ covariance[bin_count:, bin_count:] @ centre
    return Strengths(centre @ found[bin_count:], of_rows, deviation, likeness)


def _normal(
    value: Floats, variance: Floats, bins: NDArray[np.int64], rows: NDArray[np.int64], bin_count: int, row_count: int
) -> tuple[Floats, Floats]:
    """Matrix and right-hand side of the least squares, bins first."""
    size, weight = bin_count + row_count, 1.0 / variance
    matrix = np.zeros((size, size))
    for one in (bins, rows):
        for other in (bins, rows):
            matrix += np.bincount(one * size + other, weight, size * size).reshape(size, size)
    right = np.bincount(bins, weight * value, size) + np.bincount(rows, weight * value, size)
    # Bins without a cell are unchanged.
    empty = np.flatnonzero(np.diag(matrix)[:bin_count] == 0.0)
    matrix[empty, empty] = 1.0
    return matrix, np.asarray(right, np.float64)


def _correlation(likeness: float, apart: NDArray[np.int64]) -> Floats:
    return np.asarray(likeness**apart if likeness else np.eye(len(apart)), np.float64)


def _likeliest(matrix: Floats, right: Floats, apart: NDArray[np.int64], bin_count: int) -> tuple[float, float]:
    """Standard deviation of rows and correlation of neighbours with the highest likelihood among the trial values."""
    best: tuple[float, float, float] = (-np.inf, DEVIATIONS[0], 0.0)
    for likeness in LIKENESSES:
        inverse = np.linalg.inv(_correlation(likeness, apart))
        log_size = float(np.linalg.slogdet(inverse)[1])
        for deviation in DEVIATIONS:
            whole = matrix.copy()
            whole[bin_count:, bin_count:] += inverse / deviation**2
            factor = np.linalg.cholesky(whole)
            found = np.linalg.solve(factor, right)
            log_prior = log_size - 2.0 * len(apart) * np.log(deviation)
            level = 0.5 * float(found @ found) + 0.5 * log_prior - float(np.sum(np.log(np.diag(factor))))
            best = max(best, (level, deviation, likeness))
    return best[1], best[2]


# ---- overlap errors -------------------------------------------------------------------------------------------------


COUNT_CUT, COUNT_CUT_ERROR = 0.25, 0.25
"""Prior offset of integer counts, which is 0.5 if they are truncated and 0 if they are rounded: the middle, and its
uncertainty."""
ROUNDS = 6
FEWEST_OF_CELL = 5
"""Smallest number of pixels of a row in a bin for a comparison with other rows."""
REPEATS = 200
MOST_DEVIATIONS = 4.0
"""Pixels this many deviations off their bin show other objects: mixed pixels, glints."""
STILL_RISING = 1.25
"""Range ratio at the end of a curve over which its rise is measured: half of that rise may be missing beyond it."""
MAD_TO_SIGMA = 1.4826


def with_errors(frame: RangeImage, curve: Overlap, seed: int = 1) -> Overlap:
    """Curve of `overlap`, measured again by sums of counts; `low` and `high` are one standard error off."""
    data = _Pixels.of(frame, curve)
    for _ in range(2):
        centre, level, rows = _settled(data, curve)
        data.lacks, lacks_covariance = data.lacking(level, rows.factor, centre)
    centre, level, rows = _settled(data, curve)
    factor = rows.factor
    a, b = data.blocks(level, factor, centre)
    random = np.random.default_rng(seed)
    drawn = random.multinomial(len(a), np.full(len(a), 1.0 / len(a)), REPEATS).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(drawn @ a) - np.log(drawn @ b)
    chance = np.nanstd(np.where(np.isfinite(ratio), ratio, np.nan), axis=0)
    coarse = data.coarseness(data.bin, data.size)
    shares = data.shares_of_rows()
    own = chance**2 + coarse**2
    by_rows = np.einsum("br,rs,bs->b", shares, rows.covariance, shares)
    own = own + _unexplained(centre, level, own + by_rows)
    variance = own + by_rows
    first, last, smooth = plateau_bins(level, 1.0 / np.maximum(variance, 1e-8))
    flat = slice(first, last + 1)
    weight = 1.0 / np.maximum(variance[flat], 1e-8)
    weight /= weight.sum()
    # The mean of the plateau bins lies below full overlap if the curve has a peak, and the highest bin lies above it if
    # bins scatter: take the middle of the two, with an error that includes both.
    mean, highest = float(weight @ level[flat]), float(smooth[flat].max())
    top, band = 0.5 * (mean + highest), highest - mean
    top_own, top_rows = float(weight**2 @ own[flat]) + band**2 / 3.0, weight @ shares[flat]
    if last == len(level) - 1:
        # The recording ends here; the curve may continue to rise.
        before = float(np.interp(centre[-1] - np.log(STILL_RISING), centre, smooth))
        top_own += (0.5 * max(float(smooth[-1]) - before, 0.0)) ** 2
    # Derivatives of levels by the offsets of photons and percents.
    change = np.stack([1.0 / data.mean_of(data.photons), -1.0 / data.mean_of(data.percent)])
    change_top = change[:, flat] @ weight
    apart = change - change_top[:, None]
    cut = np.einsum("ik,ij,jk->k", apart, lacks_covariance, apart)
    # The part that rows share is contained in the plateau as well and cancels in the share.
    beside = shares - top_rows
    by_rows = np.einsum("br,rs,bs->b", beside, rows.covariance, beside)
    width = np.exp(np.sqrt(own + by_rows + top_own + cut))
    change_rows = np.stack([1.0 / data.of_rows(data.photons), -1.0 / data.of_rows(data.percent)])
    change_rows -= change_rows.mean(axis=1, keepdims=True)
    # Rounding errors are equal in all bins in which a row shows one surface, so they do not average out over bins.
    coarse_rows = np.minimum(data.coarseness(data.row, data.rows), rows.deviation)
    row_variance = np.diag(rows.covariance) + coarse_rows**2
    row_variance += np.einsum("ik,ij,jk->k", change_rows, lacks_covariance, change_rows)
    share, metres = np.exp(level - top), np.exp(centre)
    error = float(np.sqrt(top_own + top_rows @ rows.covariance @ top_rows + change_top @ lacks_covariance @ change_top))
    return replace(
        curve,
        range=metres,
        share=share,
        low=share / width,
        high=share * width,
        count=data.count,
        plain=np.interp(np.log(metres), np.log(curve.range), curve.plain),
        constant=float(np.exp(top)),
        constant_error=float(np.exp(top)) * error,
        row_factor=np.exp(factor),
        row_error=np.exp(factor) * np.sqrt(row_variance),
        plateau_m=plateau_ends(metres, first, last),
    )


def _unexplained(centre: Floats, level: Floats, variance: Floats) -> float:
    """Additional variance of every bin that explains the scatter about the line between its neighbours.

    It uses the median of the squares over their variances, 0.455 for a normal distribution, so that the curved steep
    part does not dominate. The result is 0 if the errors explain the scatter.
    """
    if len(level) < 5:
        return 0.0
    share = (centre[2:] - centre[1:-1]) / (centre[2:] - centre[:-2])
    off = level[1:-1] - share * level[:-2] - (1.0 - share) * level[2:]

    def likely(more: float) -> bool:
        total = variance[1:-1] + share**2 * variance[:-2] + (1.0 - share) ** 2 * variance[2:]
        return float(np.median(off**2 / (total + more * (1.0 + share**2 + (1.0 - share) ** 2)))) <= 0.455

    low, high = 0.0, 0.01
    if likely(low):
        return 0.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if likely(middle) else (middle, high)
    return high


@dataclass(eq=False)
class _Pixels:
    """Pixels for the curve measurement."""

    counted: Floats
    """Photons as counted."""
    reported: Floats
    """Percents as reported by the sensor."""
    distance: Floats
    """Logarithm of the range that the sensor corrects for."""
    row: NDArray[np.int64]
    bin: NDArray[np.int64]
    """Bin index among the selected bins."""
    block: NDArray[np.int64]
    rows: int
    size: int
    open: NDArray[np.bool_]
    """Rows can be compared at this range."""
    lacks: tuple[float, float] = (COUNT_CUT, COUNT_CUT)
    """Mean offsets of photons and percents."""

    @property
    def photons(self) -> Floats:
        """Photons with their offset added."""
        return self.counted + self.lacks[0]

    @property
    def percent(self) -> Floats:
        """Percents with their offset added."""
        return self.reported + self.lacks[1]

    @classmethod
    def of(cls, frame: RangeImage, curve: Overlap) -> _Pixels:
        mask = usable(frame)
        cell = cells(frame)[mask]
        metres = (cell + 0.5) * CELL_M - frame.beam_offset_m if curve.stepped else frame.range[mask]
        found = cls(
            frame.signal[mask],
            frame.reflectivity[mask],
            np.log(metres),
            frame.row[mask],
            np.digitize(cell, CELL_EDGES) - 1,
            frame.column[mask] // BLOCK_COLUMNS,
            frame.range.shape[0],
            0,
            metres >= curve.open_m,
        )
        found._select(found._near_curve(curve))
        counts = np.bincount(found.bin, minlength=len(CELL_EDGES))
        kept = np.flatnonzero(counts >= FEWEST_POINTS)
        number = np.full(len(CELL_EDGES), -1)
        number[kept] = np.arange(len(kept))
        found.bin, found.size = number[found.bin], len(kept)
        found._select(found.bin >= 0)
        return found

    def _near_curve(self, curve: Overlap) -> NDArray[np.bool_]:
        """Pixels close to the median curve, in standard deviations of their bin and steps of their percents."""
        off = np.log(100.0 * self.photons / self.percent) + 2.0 * self.distance
        off -= np.log(curve.constant * curve.row_factor[self.row] * curve.at(np.exp(self.distance)))
        kept = np.zeros(len(off), bool)
        for k in np.unique(self.bin):
            own = self.bin == k
            away = np.abs(off[own] - np.median(off[own]))
            kept[own] = away < MOST_DEVIATIONS * MAD_TO_SIGMA * np.median(away) + 0.5 / self.percent[own]
        return kept

    def _select(self, kept: NDArray[np.bool_]) -> None:
        for name in ("counted", "reported", "distance", "row", "bin", "block", "open"):
            setattr(self, name, getattr(self, name)[kept])

    @property
    def count(self) -> NDArray[np.int64]:
        """Number of pixels of each bin."""
        return np.bincount(self.bin, minlength=self.size)

    def mean_of(self, values: Floats) -> Floats:
        """Mean per bin."""
        return np.asarray(np.bincount(self.bin, values, self.size) / self.count)

    def of_rows(self, values: Floats) -> Floats:
        """Mean per row; for rows without pixels, the overall mean."""
        count = np.bincount(self.row, minlength=self.rows)
        total = np.bincount(self.row, values, self.rows)
        return np.asarray(np.where(count > 0, total / np.maximum(count, 1), values.mean()))

    def coarseness(self, group: NDArray[np.int64], size: int) -> Floats:
        """Relative rounding error of each group due to integer percents; infinite for empty groups.

        Pixels of one percent value may all show one surface, and then share the same rounding error.
        """
        percent = np.rint(self.reported).astype(np.int64)
        width = int(percent.max(initial=0)) + 1
        table = np.bincount(group * width + percent, minlength=size * width).reshape(size, width)
        total = table.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = table @ np.arange(width) / total
            found = ROUNDING * np.sqrt(np.sum((table / total[:, None]) ** 2, axis=1)) / mean
        return np.where(total > 0, found, np.inf)

    def shares_of_rows(self) -> Floats:
        """Share of each row in the sum of each bin, shape (bins, rows)."""
        flat = np.bincount(self.bin * self.rows + self.row, self.percent, self.size * self.rows)
        table = flat.reshape(self.size, self.rows)
        return np.asarray(table / table.sum(axis=1, keepdims=True))

    def strength(self, level: Floats, factor: Floats, centre: Floats) -> Floats:
        """Percents per photon of each pixel, by curve and rows."""
        shape = np.interp(self.distance, centre, level)
        return 100.0 * self.photons * np.exp(2.0 * self.distance - factor[self.row] - shape)

    def blocks(self, level: Floats, factor: Floats, centre: Floats) -> tuple[Floats, Floats]:
        """Sums of photons, converted to percents, and of percents, by block of columns and bin."""
        number = np.unique(self.block, return_inverse=True)[1]
        size = int(number.max()) + 1
        place = number * self.size + self.bin
        return tuple(  # type: ignore[return-value]
            np.bincount(place, values, size * self.size).reshape(size, self.size)
            for values in (self.strength(level, factor, centre), self.percent)
        )

    def lacking(self, level: Floats, factor: Floats, centre: Floats) -> tuple[tuple[float, float], Floats]:
        """Offsets of photons and percents by least squares, with their covariance.

        In a bin, reported = a (counted + c) k - d with one gain a, the percents per photon k of the pixel, and the
        offsets c and d. The gain is projected out of each bin. Bins are weighted by their scatter, and differences
        between them give the errors. The prior of both is `COUNT_CUT` ± `COUNT_CUT_ERROR`.
        """
        shape = np.interp(self.distance, centre, level)
        per_photon = 100.0 * np.exp(2.0 * self.distance - factor[self.row] - shape)
        x = self.counted * per_photon
        regressors = np.stack([per_photon, -np.ones_like(x)])
        square = np.bincount(self.bin, x * x, self.size)

        def projected(values: Floats) -> Floats:
            return values - x * (np.bincount(self.bin, values * x, self.size) / square)[self.bin]

        y, (u, v) = projected(self.reported), (projected(part) for part in regressors)
        prior = np.eye(2) / COUNT_CUT_ERROR**2
        found = np.full(2, COUNT_CUT)
        for _ in range(3):
            off = y - found[0] * u - found[1] * v
            scatter = np.maximum(np.bincount(self.bin, off * off, self.size) / self.count, ROUNDING**2)
            w = 1.0 / scatter[self.bin]
            rows = [np.bincount(self.bin, w * a * b, self.size) for a, b in ((u, u), (u, v), (v, v))]
            matrix = np.array([[rows[0].sum(), rows[1].sum()], [rows[1].sum(), rows[2].sum()]])
            right = np.stack([np.bincount(self.bin, w * a * y, self.size) for a in (u, v)], axis=1)
            # Pixels of one surface share their rounding error, so bins scatter by more than their pixels suggest.
            score = np.stack([np.bincount(self.bin, w * a * off, self.size) for a in (u, v)], axis=1)
            scale = max(1.0, float(np.trace(np.linalg.pinv(matrix) @ (score.T @ score))) / 2.0)
            covariance = np.linalg.inv(matrix / scale + prior)
            found = covariance @ (right.sum(axis=0) / scale + prior @ np.full(2, COUNT_CUT))
        inside = np.clip(found, 0.0, 2.0 * COUNT_CUT)
        return (float(inside[0]), float(inside[1])), np.asarray(covariance, np.float64)


def _settled(data: _Pixels, curve: Overlap) -> tuple[Floats, Floats, Strengths]:
    """Log ranges and log levels of bins, and strengths of rows."""
    centre = np.asarray([np.median(data.distance[data.bin == k]) for k in range(data.size)])
    level = np.log(curve.constant * curve.at(np.exp(centre)))
    whole = np.bincount(data.bin, data.percent, data.size)
    cells = _Cells.of(data)
    rows: Strengths | None = None
    for _ in range(ROUNDS):
        # The scatter of rows is estimated once; only their strengths change slightly as the curve converges.
        law = None if rows is None else (rows.deviation, rows.likeness)
        rows = strengths(*cells.measured(data, level, centre), data.size, data.rows, law)
        level = level + np.log(np.bincount(data.bin, data.strength(level, rows.factor, centre), data.size) / whole)
    assert rows is not None
    return centre, level, rows


@dataclass(frozen=True, eq=False)
class _Cells:
    """Cells: the pixels of one row in one bin."""

    number: NDArray[np.int64]
    """Cell index of each pixel."""
    kept: NDArray[np.int64]
    """Indices of the cells with enough pixels."""
    blocks: NDArray[np.int64]
    """Number of column blocks with pixels of the cell; each block may show one surface."""
    coarse: Floats
    """Relative rounding error of each cell due to integer percents."""
    percent: Floats

    @classmethod
    def of(cls, data: _Pixels) -> _Cells:
        number, size = data.bin * data.rows + data.row, data.size * data.rows
        width = int(data.block.max(initial=0)) + 1
        blocks = np.bincount(np.unique(number * width + data.block) // width, minlength=size)
        kept = np.flatnonzero(np.bincount(number, minlength=size) >= FEWEST_OF_CELL)
        coarse = data.coarseness(number, size)
        percent = np.bincount(number, data.percent, size).astype(np.float64)
        return cls(number, kept, blocks[kept], coarse[kept], percent)

    def measured(
        self, data: _Pixels, level: Floats, centre: Floats
    ) -> tuple[Floats, Floats, NDArray[np.int64], NDArray[np.int64]]:
        """Level, variance (pixel scatter over the number of blocks, plus rounding), bin and row of every cell."""
        value = data.strength(level, np.zeros(data.rows), centre)
        photons = np.bincount(self.number, value, len(self.percent))
        ratio = photons / np.maximum(self.percent, 1e-9)
        off = value / data.percent - ratio[self.number]
        scatter = np.bincount(data.bin, off**2, data.size) / data.count
        bins, rows = self.kept // data.rows, self.kept % data.rows
        found = level[bins] + np.log(ratio[self.kept])
        return found, self.coarse**2 + scatter[bins] / self.blocks, bins, rows
