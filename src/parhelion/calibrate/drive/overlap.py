"""Overlap curve of a receiver, from photons and calibrated reflectivity.

    photons = K rho xi(R) / R^2

The sensor has divided range and overlap out of its reflectivity, so photons R^2 / reflectivity is K xi(R). Scaled to 1
at its plateau it is the curve, and the plateau is K [photons m^2], the signal strength. Each row has its own strength,
which is fitted together with the curve. See docs/models/lidar-near-field.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.range_images import Floats, Mask, RangeImage, clean
from parhelion.core.errors import ConfigError

CELL_M = 0.192
"""Range step of the table by which Ouster sensors correct reflectivity, observed in recordings (1.28 ns)."""
CELL_EDGES = (
    *range(2, 32),
    36,
    41,
    47,
    54,
    62,
    72,
    84,
    98,
    115,
    135,
    160,
    190,
    230,
    280,
    340,
    410,
    500,
    620,
    780,
    1000,
    1300,
)
"""Range bins in such steps, from the axis: single steps up to 6 m, several per bin beyond."""
REFLECTIVITIES = (5.0, 100.0)
"""Counts used for the overlap: coarse below, another scale above."""
PHOTONS = (10.0, 250.0)
"""Photons used for the overlap: rounding matters below, pile-up above."""
FEWEST_POINTS = 20
BLOCK_COLUMNS = 32
"""Columns that the bootstrap resamples together, because neighbours show the same surface."""
PLATEAU = 0.03
"""Bins within this share of the highest belong to the plateau."""
FEWEST_ROWS = 3.0
"""Effective number of rows that must share a bin before their strengths can be separated from the curve."""
MOST_PIXELS = 60_000
"""Largest number of pixels that are used; more are sampled at random."""
MOST_SCATTER = 0.25
"""Largest relative scatter of photons R^2 over reflectivity at equal range: 0.05 and 0.12 in two calibrated
recordings, 0.4 and more if the low byte of a 16-bit value is read."""
FINE_PERCENT = 20.0
ROUNDING = 0.29
"""Standard deviation of the rounding error of integers."""


@dataclass(frozen=True, eq=False)
class Overlap:
    """Overlap curve measured on a recording, by range bin."""

    range: Floats
    """Median range of each bin [m]."""
    share: Floats
    """xi, 1 at the plateau."""
    low: Floats
    high: Floats
    """68 % interval."""
    plain: Floats
    """The same medians without row factors, scaled by their own plateau."""
    count: NDArray[np.int64]
    constant: float
    """Photons m^2 of a 100 % target at the plateau, for a row with factor 1."""
    constant_error: float
    row_factor: Floats
    """Strength of each row relative to the average row."""
    plateau_m: tuple[float, float] = (0.0, np.inf)
    """Range interval of the plateau."""
    open_m: float = 0.0
    """Range beyond which strengths of rows are compared."""
    stepped: bool = True
    """The sensor corrects for range in steps of `CELL_M`."""
    row_error: Floats | None = None
    """Standard error of each row's strength; None if not computed."""

    def at(self, range_m: Floats) -> Floats:
        """xi at ranges, by linear interpolation of logarithms between bins; the defocus law R^2 below the first bin."""
        inside = np.exp(np.interp(np.log(range_m), np.log(self.range), np.log(self.share)))
        return np.where(range_m < self.range[0], self.share[0] * (range_m / self.range[0]) ** 2, inside)

    def photons(self, reflectance: float, range_m: Floats) -> Floats:
        """Photons of a target at normal incidence."""
        return self.constant * reflectance * self.at(range_m) / range_m**2

    @property
    def error(self) -> Floats:
        """Half width of the 68 % interval of each bin."""
        return 0.5 * (self.high - self.low)


def cells(frame: RangeImage) -> Floats:
    """Range step index of each pixel, counted from the axis as by the sensor; NaN without a return."""
    return np.floor((frame.range + frame.beam_offset_m) / CELL_M)


def usable(frame: RangeImage) -> Mask:
    """Pixels that the overlap fit uses."""
    cell = cells(frame)
    with np.errstate(invalid="ignore"):
        inside = (cell >= CELL_EDGES[0]) & (cell < CELL_EDGES[-1])
        grey = (frame.reflectivity >= REFLECTIVITIES[0]) & (frame.reflectivity < REFLECTIVITIES[1])
        return clean(frame) & inside & grey & (frame.signal >= PHOTONS[0]) & (frame.signal < PHOTONS[1])


def grouped_medians(values: Floats, groups: NDArray[np.int64], number: int) -> Floats:
    """Median of the values of each group 0 ... number - 1; NaN for empty groups."""
    order = np.lexsort((values, groups))
    ordered = values[order]
    counts = np.bincount(groups, minlength=number)[:number]
    start = np.concatenate([[0], np.cumsum(counts)[:-1]])
    there = counts > 0
    found = np.full(number, np.nan)
    low, high = start[there] + (counts[there] - 1) // 2, start[there] + counts[there] // 2
    found[there] = 0.5 * (ordered[low] + ordered[high])
    return found


def overlap(
    frame: RangeImage,
    plateau_m: tuple[float, float] | None = None,
    open_m: float | None = None,
    repeats: int = 200,
    seed: int = 1,
    *,
    cut: float = 0.5,
) -> Overlap:
    """Photons R^2 / reflectivity by range, corrected for the strengths of rows and scaled to 1 at the plateau.

    The strength of a row is the median ratio of its pixels to the curve, and the curve is the median over pixels after
    this correction. Both alternate until they converge. Strengths come from ranges beyond `open_m`; a row without
    pixels there takes the strength of the nearest row that has some. At shorter ranges each row of a level floor has
    its own range, so strength and range cannot be separated.

    `plateau_m` and `open_m` are estimated if they are None. `cut` is the mean difference between the true number and
    the integer count: 0.5 for truncated counts, 0 for rounded ones. `repeats=0` gives no errors. ConfigError is raised
    if too few pixels can be used, or if reflectivity does not follow the signal.
    """
    mask = usable(frame)
    rows = frame.range.shape[0]
    row, column, cell = frame.row[mask], frame.column[mask], cells(frame)[mask]
    if len(row) < 10 * FEWEST_POINTS:
        raise ConfigError(f"overlap: only {len(row)} pixels have usable photons and reflectivity")
    random = np.random.default_rng(seed)
    photons, percent, true_range = frame.signal[mask], frame.reflectivity[mask], frame.range[mask]
    if len(row) > MOST_PIXELS:
        some = np.sort(random.choice(len(row), MOST_PIXELS, replace=False))
        row, column = row[some], column[some]
        cell, photons, percent, true_range = cell[some], photons[some], percent[some], true_range[some]
    per_percent = np.log((photons + cut) / (percent + cut))
    middle = np.log((cell + 0.5) * CELL_M - frame.beam_offset_m)
    # Integer percents are too coarse for dark surfaces.
    fine = percent >= FINE_PERCENT if (percent >= FINE_PERCENT).sum() >= 2000 else percent > 0.0
    stepped = _is_stepped(per_percent[fine], cell[fine], np.log(true_range[fine]))
    # The sensor divides by one number within a step, so the middle of the step is the range that applies.
    distance = middle if stepped else np.log(true_range)
    strength = np.log(100.0) + per_percent + 2.0 * distance
    scatter = _scatter(strength, cell.astype(np.int64))
    if scatter > MOST_SCATTER:
        raise ConfigError(
            f"reflectivity does not follow the signal: their ratio scatters by {100.0 * scatter:.0f} % at equal range, "
            "as for the uncalibrated 16-bit reflectivity of early Ouster firmware"
        )
    bins = np.digitize(cell, CELL_EDGES) - 1
    size = len(CELL_EDGES) - 1
    kept = np.flatnonzero(np.bincount(bins, minlength=size) >= FEWEST_POINTS)
    if len(kept) < 2:
        raise ConfigError(f"overlap: only {len(kept)} range bins contain {FEWEST_POINTS} pixels or more")
    if open_m is None:
        open_m = _opening(row, bins, kept, distance)
    opened = distance >= np.log(open_m)
    seen = np.flatnonzero(np.bincount(row[opened], minlength=rows) >= FEWEST_POINTS)
    if len(seen) == 0:
        raise ConfigError(f"overlap: no row has {FEWEST_POINTS} usable pixels beyond {open_m:.2g} m")
    nearest = seen[np.argmin(np.abs(np.arange(rows)[:, None] - seen), axis=1)]

    def fit(chosen: NDArray[np.int64], factor: Floats, frames: int) -> tuple[Floats, ...]:
        d, y, far = distance[chosen], strength[chosen], opened[chosen]
        r, b = row[chosen], bins[chosen]
        # The median of a monotonic function of range is its value at the median range, regardless of the slope.
        centre = grouped_medians(d, b, size)[kept]
        for _ in range(frames):
            curve = grouped_medians(y - factor[r], b, size)[kept]
            there = np.isfinite(curve)
            excess = y - np.interp(d, centre[there], curve[there])
            found = np.nan_to_num(grouped_medians(excess[far], r[far], rows))
            new = (found - np.median(found[seen]))[nearest]
            settled = bool(np.max(np.abs(new - factor)) < 1e-5)
            factor = new
            if settled:
                break
        return centre, curve, factor, y - factor[r]

    centre, curve, factor, level = fit(np.arange(len(distance)), np.zeros(rows), 60)
    count = np.bincount(bins, minlength=size)[kept]
    if plateau_m is None:
        plateau_m = _plateau(np.exp(centre), curve, count)
    flat = (distance >= np.log(plateau_m[0])) & (distance < np.log(plateau_m[1]))
    top = float(np.median(level[flat]))
    number = int(np.ceil(frame.range.shape[1] / BLOCK_COLUMNS))
    order = np.argsort(column // BLOCK_COLUMNS, kind="stable")
    border = np.searchsorted((column // BLOCK_COLUMNS)[order], np.arange(number + 1))
    drawn = []
    for _ in range(repeats):
        blocks = random.integers(0, number, number)
        chosen = np.concatenate([order[border[k] : border[k + 1]] for k in blocks])
        where, values, _, height = fit(chosen, factor, 4)
        # The median range of a bin changes with the resample; shift it back along the curve.
        moved = values - np.interp(where, centre, curve) + curve
        inside = flat[chosen]
        drawn.append(
            np.append(moved, 0.0) - np.median(height[inside]) if inside.any() else np.full(len(kept) + 1, np.nan)
        )
    low, high = np.nanpercentile(drawn, [16.0, 84.0], axis=0) if drawn else np.tile(np.append(curve, top) - top, (2, 1))
    plain = grouped_medians(strength, bins, size)[kept] - np.median(strength[flat])
    constant = float(np.exp(top))
    return Overlap(
        np.exp(centre),
        np.exp(curve - top),
        np.exp(low[:-1]),
        np.exp(high[:-1]),
        np.exp(plain),
        count,
        constant,
        constant * float((high[-1] - low[-1]) / 2.0),
        np.exp(factor),
        plateau_m,
        open_m,
        stepped,
    )


def _scatter(strength: Floats, cell: NDArray[np.int64]) -> float:
    """Relative scatter of photons R^2 over reflectivity at equal range, by the median absolute deviation."""
    off = strength - grouped_medians(strength, cell, int(cell.max()) + 1)[cell]
    return 1.4826 * float(np.median(np.abs(off)))


def _is_stepped(per_percent: Floats, cell: Floats, log_range: Floats) -> bool:
    """Test whether photons over reflectivity jumps between range steps and is constant within them.

    Within steps, the ratio follows the range with a share of the slope between neighbouring steps: 1 for a sensor with
    a continuous correction, 0 for one with a table.
    """
    number = cell.astype(np.int64)
    size = int(number.max()) + 1
    counts = np.bincount(number, minlength=size)
    # Means instead of medians on both sides: within a step, and between steps.
    level, centre = (np.bincount(number, part, size) / np.maximum(counts, 1) for part in (per_percent, log_range))
    slope = np.full(size, np.nan)
    many = counts >= FEWEST_POINTS
    for k in range(1, size - 1):
        if many[k - 1] and many[k] and many[k + 1]:
            slope[k] = (level[k + 1] - level[k - 1]) / (centre[k + 1] - centre[k - 1])
    # In a step with a single range, the spread is noise, which has no slope.
    spread = np.bincount(number, (np.exp(log_range) - np.exp(centre[number])) ** 2, size) / np.maximum(counts, 1)
    known = np.isfinite(slope[number]) & (spread[number] > (0.2 * CELL_M) ** 2)
    x = slope[number][known] * (log_range - centre[number])[known]
    y = (per_percent - level[number])[known]
    weight = float(np.sum(x**2))
    return weight > 0.0 and float(np.sum(x * y)) / weight < 0.5


def _opening(row: NDArray[np.int64], bins: NDArray[np.int64], kept: NDArray[np.int64], distance: Floats) -> float:
    """Range [m] beyond which enough rows share each bin, by their effective number."""
    effective = []
    for k in kept:
        counts = np.bincount(row[bins == k]).astype(np.float64)
        effective.append(counts.sum() ** 2 / (counts**2).sum())
    alone = np.flatnonzero(np.array(effective) < FEWEST_ROWS)
    first = 0 if not len(alone) else min(int(alone[alone < 0.7 * len(kept)].max(initial=-1)) + 1, len(kept) - 1)
    return float(np.exp(distance[bins == kept[first]].min()))


def _plateau(range_m: Floats, curve: Floats, count: NDArray[np.int64]) -> tuple[float, float]:
    """Range interval of the plateau: neighbouring bins whose level is within `PLATEAU` of the highest.

    The highest level is that of the mean over three bins, weighted by their points, because single bins scatter.
    """
    first, last, _ = plateau_bins(curve, count.astype(np.float64))
    return plateau_ends(range_m, first, last)


def plateau_ends(range_m: Floats, first: int, last: int) -> tuple[float, float]:
    """Range limits [m] of the bins of a plateau."""
    between = np.sqrt(range_m[1:] * range_m[:-1])
    low = float(between[first - 1]) if first else 0.9 * float(range_m[0])
    return low, float(between[last]) if last < len(between) else 1.1 * float(range_m[-1])


def plateau_bins(curve: Floats, weight: Floats) -> tuple[int, int, Floats]:
    """First and last bin of the plateau, and the curve as the weighted mean over three bins."""
    total = np.convolve(weight, np.ones(3), mode="same")
    smooth = np.convolve(weight * curve, np.ones(3), mode="same") / total
    best = int(np.argmax(smooth))
    top = float(smooth[best])
    first = last = best
    while first > 0 and smooth[first - 1] > top + np.log(1.0 - PLATEAU):
        first -= 1
    while last + 1 < len(curve) and smooth[last + 1] > top + np.log(1.0 - PLATEAU):
        last += 1
    return first, last, smooth
