"""What recordings tell of a receiver: its overlap curve, its range noise, and how weak returns get lost.

Plain NumPy on the images of `recordings.Frame`; the same functions take simulated scans.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from recordings import Floats, Frame

Mask = NDArray[np.bool_]

CELL_M = 0.192
"""Step of the table by which these sensors correct reflectivity for range, seen in the recordings (1.28 ns)."""
CELL_EDGES = (
    *range(9, 32), 36, 41, 47, 54, 62, 72, 84, 98, 115, 135, 160, 190, 230, 280, 340, 410,
)  # fmt: skip
"""Bins of range in such steps, from the axis: each by itself up to 6 m, more of them together beyond."""
PHOTON_EDGES = (4.0, 8.0, 12.0, 17.0, 25.0, 50.0, 100.0, 200.0, np.inf)
REFLECTIVITIES = (5.0, 100.0)
"""Counts used for the overlap: coarse below, another scale above."""
PHOTONS = (10.0, 250.0)
"""Photons used for the overlap: rounding matters below, pile-up above."""
FEWEST_POINTS = 20
BLOCK_COLUMNS = 32
"""Columns that the bootstrap draws together: neighbours see the same surface."""
HALF_WINDOW, DEGREE = 4, 2
FLATTEST = 0.2
"""Share of the windows on which range noise is measured."""
MAD_TO_SIGMA = 1.4826


# ---- overlap --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Overlap:
    """An overlap curve measured on one frame, bin by bin."""

    range: Floats
    """Median range of each bin [m]."""
    share: Floats
    """ξ, 1 at the plateau."""
    low: Floats
    high: Floats
    """68 % interval of the bootstrap."""
    plain: Floats
    """The same medians without row factors, scaled by the plain plateau."""
    count: NDArray[np.int64]
    constant: float
    """Photons · m² that a 100 % target returns at the plateau, of a row with factor 1."""
    constant_error: float
    row_factor: Floats
    """Strength of each row, median 1."""

    def at(self, range_m: Floats) -> Floats:
        """ξ at ranges, straight between the bins in logarithms; the defocus law R² below the first."""
        inside = np.exp(np.interp(np.log(range_m), np.log(self.range), np.log(self.share)))
        return np.where(range_m < self.range[0], self.share[0] * (range_m / self.range[0]) ** 2, inside)

    def photons(self, reflectance: float, range_m: Floats) -> Floats:
        """Photons of a target that faces the sensor."""
        return self.constant * reflectance * self.at(range_m) / range_m**2


def clean(frame: Frame) -> Mask:
    """Pixels whose neighbours in the row lie within 3 % of their range: no mixed pixels at edges."""
    beside = [np.roll(frame.range, step, axis=1) for step in (-1, 1)]
    return np.all([np.abs(other - frame.range) < 0.03 * frame.range for other in beside], axis=0)


def cells(frame: Frame) -> Floats:
    """Number of each pixel's step of range, counted from the axis as the sensor does; NaN without a return."""
    return np.floor((frame.range + frame.beam_offset_m) / CELL_M)


def usable(frame: Frame) -> Mask:
    """Pixels from which the overlap is taken."""
    cell = cells(frame)
    inside = (cell >= CELL_EDGES[0]) & (cell < CELL_EDGES[-1])
    grey = (frame.reflectivity >= REFLECTIVITIES[0]) & (frame.reflectivity < REFLECTIVITIES[1])
    return clean(frame) & inside & grey & (frame.signal >= PHOTONS[0]) & (frame.signal < PHOTONS[1])


def overlap(frame: Frame, plateau_m: tuple[float, float], open_m: float, repeats: int = 200, seed: int = 1) -> Overlap:
    """Photons · R² / reflectivity by range, freed of the rows' own strengths, scaled to 1 at the plateau.

    A row's strength is the median of what its pixels return more than the curve says, and the curve the median of
    what pixels return after their rows are made equal: both in turn until they agree. Strengths come from ranges
    beyond `open_m`; rows that see nothing there are taken as strong as the nearest row that does, since closer by each
    row of a level floor has a range of its own, and strength and range cannot be told apart.
    """
    mask = usable(frame)
    row, column = frame.row[mask], frame.column[mask]
    cell = cells(frame)[mask]
    # Within a step the sensor divides by one number, so the step's middle is the range that it speaks of.
    distance = np.log((cell + 0.5) * CELL_M - frame.beam_offset_m)
    # Both counts are cut, not rounded: half a count belongs to each.
    per_percent = (frame.signal[mask] + 0.5) / (frame.reflectivity[mask] + 0.5)
    strength = np.log(100.0 * per_percent) + 2.0 * distance
    rows = frame.range.shape[0]
    bins = np.digitize(cell, CELL_EDGES) - 1
    kept = np.flatnonzero(np.bincount(bins, minlength=len(CELL_EDGES) - 1) >= FEWEST_POINTS)
    level = (distance >= np.log(plateau_m[0])) & (distance < np.log(plateau_m[1]))
    opened = distance >= np.log(open_m)
    seen = np.flatnonzero(np.bincount(row[opened], minlength=rows) >= FEWEST_POINTS)
    nearest = seen[np.argmin(np.abs(np.arange(rows)[:, None] - seen), axis=1)]

    def medians(values: Floats, groups: NDArray[np.int64], numbers: Iterable[int]) -> Floats:
        return np.array([np.median(values[groups == k]) if (groups == k).any() else np.nan for k in numbers])

    def fit(chosen: NDArray[np.int64], factor: Floats, turns: int) -> tuple[Floats, Floats, Floats, float]:
        d, y, r, b, far = (part[chosen] for part in (distance, strength, row, bins, opened))
        # The median of a monotonic function of the range is its value at the median range, however steep.
        centre = medians(d, b, kept)
        for _ in range(turns):
            curve = medians(y - factor[r], b, kept)
            there = np.isfinite(curve)
            excess = y - np.interp(d, centre[there], curve[there])
            found = np.nan_to_num(medians(excess[far], r[far], range(rows)))
            factor = (found - np.median(found[seen]))[nearest]
        return centre, curve, factor, float(np.median((y - factor[r])[level[chosen]]))

    everything = np.arange(len(distance))
    centre, curve, factor, top = fit(everything, np.zeros(rows), 60)
    random = np.random.default_rng(seed)
    blocks = [
        np.flatnonzero(column // BLOCK_COLUMNS == k) for k in range(int(np.ceil(frame.range.shape[1] / BLOCK_COLUMNS)))
    ]
    drawn = []
    for _ in range(repeats):
        chosen = np.concatenate([blocks[k] for k in random.integers(0, len(blocks), len(blocks))])
        where, values, _, height = fit(chosen, factor, 4)
        # A bin's median range moves with the draw: bring it back along the curve.
        moved = values - np.interp(where, centre, curve) + curve
        drawn.append(np.append(moved - height, height))
    low, high = np.nanpercentile(drawn, [16.0, 84.0], axis=0)
    plain_top = np.median(strength[level])
    plain = np.array([np.median(strength[bins == k]) for k in kept]) - plain_top
    return Overlap(
        np.exp(centre), np.exp(curve - top), np.exp(low[:-1]), np.exp(high[:-1]), np.exp(plain),
        np.array([np.sum(bins == k) for k in kept]), float(np.exp(top)),
        float(np.exp(top) * (high[-1] - low[-1]) / 2.0), np.exp(factor),
    )  # fmt: skip


def retro_scale(frame: Frame, curve: Overlap, edges: Sequence[float]) -> list[tuple[float, float, int, float]]:
    """Reflectance in percent, by the curve, of counts above 100: (from, to, pixels, median) for each bin of counts."""
    factor = curve.row_factor[frame.row]
    with np.errstate(invalid="ignore"):
        percent = 100.0 * frame.signal * frame.range**2 / (curve.constant * factor * curve.at(frame.range))
    found = []
    for low, high in pairwise(edges):
        mask = clean(frame) & (frame.reflectivity >= low) & (frame.reflectivity < high)
        found.append((low, high, int(mask.sum()), float(np.median(percent[mask])) if mask.any() else np.nan))
    return found


def pile_up(frame: Frame, curve: Overlap, edges: Sequence[float]) -> list[tuple[float, float, int, float]]:
    """Photons over those that reflectivity and curve imply, by photons: (from, to, pixels, median ratio)."""
    factor = curve.row_factor[frame.row]
    with np.errstate(invalid="ignore"):
        implied = curve.constant * factor * curve.at(frame.range) * (frame.reflectivity + 0.5) / 100.0 / frame.range**2
    grey = (frame.reflectivity >= REFLECTIVITIES[0]) & (frame.reflectivity < REFLECTIVITIES[1])
    found = []
    for low, high in pairwise(edges):
        mask = clean(frame) & grey & (frame.signal >= low) & (frame.signal < high)
        ratio = float(np.median((frame.signal[mask] + 0.5) / implied[mask])) if mask.any() else np.nan
        found.append((low, high, int(mask.sum()), ratio))
    return found


# ---- range noise ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RangeNoise:
    """Scatter of single ranges by photons."""

    photons: Floats
    """Median photons of each bin."""
    sigma_m: Floats
    """Of the flattest windows."""
    error_m: Floats
    """Half of the 68 % interval."""
    all_m: Floats
    """Of all windows, with the roughness of what they see."""
    count: NDArray[np.int64]
    """Windows behind `sigma_m`."""


def residuals(frame: Frame) -> tuple[Floats, Floats]:
    """Difference between each range and what its neighbours in the row say, and the scatter of these neighbours [m].

    A parabola through 1/R of the four pixels on either side, the pixel itself left out: on a plane 1/R is a sine of
    the azimuth, so flat surfaces leave noise alone. Differences are scaled to the noise of one range. NaN where a
    pixel of the window has no return or lies elsewhere.
    """
    steps = np.array([step for step in range(-HALF_WINDOW, HALF_WINDOW + 1) if step])
    design = np.vander(steps, DEGREE + 1, increasing=True).astype(float)
    solve = np.linalg.pinv(design)
    others = np.stack([np.roll(frame.range, -step, axis=1) for step in steps])
    together = np.all(np.abs(others - frame.range) < 0.1 * frame.range, axis=0)
    inverse = np.where(together, 1.0 / others, np.nan)
    fitted = np.einsum("pk,krc->prc", solve, inverse)
    spread = ((inverse - np.einsum("kp,prc->krc", design, fitted)) ** 2).sum(axis=0) / (len(steps) - DEGREE - 1)
    scale = np.sqrt(1.0 + (solve[0] ** 2).sum())
    return (1.0 / fitted[0] - frame.range) / scale, np.sqrt(spread) * frame.range**2


def range_noise(frame: Frame, level: Floats, edges: Sequence[float], repeats: int = 200, seed: int = 2) -> RangeNoise:
    """Scatter of ranges by `level`, such as photons, on the flattest fifth of all windows of each bin.

    Flatness is judged by the neighbours alone, whose noise is not the pixel's: the choice does not shrink the result.
    """
    error, roughness = residuals(frame)
    random = np.random.default_rng(seed)
    rows = []
    for low, high in pairwise(edges):
        mask = np.isfinite(error) & (level >= low) & (level < high)
        if mask.sum() < FEWEST_POINTS:
            rows.append((np.nan, np.nan, np.nan, np.nan, 0))
            continue
        flat = mask & (roughness <= np.quantile(roughness[mask], FLATTEST))
        chosen = error[flat]
        draws = [_scatter(random.choice(chosen, len(chosen))) for _ in range(repeats)]
        half = float(np.ptp(np.percentile(draws, [16.0, 84.0]))) / 2.0
        rows.append((float(np.median(level[flat])), _scatter(chosen), half, _scatter(error[mask]), len(chosen)))
    photons, sigma, half_width, rough, count = (np.array(part) for part in zip(*rows, strict=True))
    return RangeNoise(photons, sigma, half_width, rough, count)


def _scatter(values: Floats) -> float:
    return float(MAD_TO_SIGMA * np.median(np.abs(values - np.median(values))))


def fit_sigma(noise: RangeNoise, most_photons: float = np.inf, power: float = 1.0) -> tuple[float, float, float]:
    """σ_0 and σ_1 [m] of σ² = σ_0² + (σ_1 / photons^power)² and the misfit, all by least squares of logarithms."""
    known = (noise.count >= FEWEST_POINTS) & (noise.photons < most_photons)
    photons, sigma = noise.photons[known], noise.sigma_m[known]
    floors = np.linspace(1e-5, sigma.max(), 400)
    slopes = np.linspace(0.0, 2.0 * (sigma * photons**power).max(), 800)
    model = 0.5 * np.log(floors[:, None, None] ** 2 + (slopes[:, None] / photons**power) ** 2)
    misfit = ((model - np.log(sigma)) ** 2).mean(axis=-1)
    best = np.unravel_index(np.argmin(misfit), misfit.shape)
    return float(floors[best[0]]), float(slopes[best[1]]), float(np.sqrt(misfit[best]))


# ---- weak and lost pixels -------------------------------------------------------------------------------------------


def dropout(frame: Frame, edges: Sequence[float]) -> list[tuple[float, float, int, int]]:
    """Pixels amid a surface and how many of them are lost, by the photons of their neighbours: (from, to, all, lost).

    Two pixels on either side must return and step by less than 3 % of the range. Pixels that the sensor withholds
    are left out.
    """
    near = [np.roll(frame.range, step, axis=1) for step in (-2, -1, 1, 2)]
    steps = [np.abs(a - b) < 0.03 * a for a, b in pairwise(near)]
    photons = 0.5 * (np.roll(frame.signal, 1, axis=1) + np.roll(frame.signal, -1, axis=1))
    surface = np.all(steps, axis=0) & ~frame.withheld
    found = []
    for low, high in pairwise(edges):
        mask = surface & (photons >= low) & (photons < high)
        found.append((low, high, int(mask.sum()), int((mask & frame.lost).sum())))
    return found


def returned_share(frame: Frame, photons: Sequence[int], among: Mask | None = None) -> list[tuple[int, int, float]]:
    """Share of the pixels with just so many photons that have a return: (photons, pixels, share).

    Of all pixels, or of those `among`.
    """
    counted = ~frame.withheld if among is None else ~frame.withheld & among
    found = []
    for count in photons:
        mask = counted & (frame.signal == count)
        found.append((count, int(mask.sum()), float((~frame.lost)[mask].mean()) if mask.any() else np.nan))
    return found
