"""Reflectance of surfels, so that the data sheet of the recording sensor reproduces the recorded intensities.

The link budget of the sheet converts an intensity to received power; divided by the power of a white diffuser at that
range and by the cosine of incidence, it is the reflectance. Medians over cells of the surface alternate with a factor
by range, which takes up differences between the unit and its sheet. The factor has a median of 1.

Lost shots are censored observations: where most shots on a cell are lost, its reflectance lies below the detection
threshold at their range; where most return, it lies above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.makers.scales import scale_called
from parhelion.rebuild.frames import Floats, FrameShots, Mask, Path, Singles
from parhelion.rebuild.reading import cell_of
from parhelion.rebuild.surfels import Surfels
from parhelion.rebuild.votes import SurfelScene, margin_m
from parhelion.sensors.optics.lidar.lidar import Lidar
from parhelion.sensors.optics.lidar.link_budget import LEAST_OVERLAP, overlap_share, threshold_photons
from parhelion.world.coverage import packed_cells

ROUNDS = 4
RANGE_BINS = 24
LEAST_OF_BIN = 200
LEAST_COS = 0.1
TYPICAL = 0.2
"""Reflectance of surfaces without intensities."""
DARKEST, BRIGHTEST = 0.002, 0.98
ABOVE, BELOW = 1.5, 0.5
"""Factors between the reflectance at the detection threshold and that of surfaces that mostly return, or mostly not."""
SHADOW = 0.5
"""Share of the expected returns below which the carrier of the sensor hides a direction."""
LOST_CELL = 2.0
"""Size of the cells in which returned and lost shots are counted, in cells of the reflectance."""


@dataclass(frozen=True, eq=False)
class Reflectances:
    """Reflectance of each surfel."""

    value: Singles
    """Lambertian reflectance at the wavelength of the sensor, shape (n,)."""
    spread: Singles
    """Standard deviation of its logarithm; NaN without observations, shape (n,)."""
    return_rate: Singles
    """Share of the shots on the surroundings of the surfel that returned, shape (n,)."""
    range_m: Floats
    """Centres of the range bins [m]."""
    range_factor: Floats
    """Recorded signal divided by that of the sheet, by range bin, with a median of 1."""
    gain: float
    """Factor by which reflectances were scaled, if a quarter of them exceeded 1."""
    known: bool
    """The recording has intensities that determine the reflectance."""


@dataclass
class _Shots:
    surfel: NDArray[np.int64]
    range_m: Floats
    cos: Floats
    value: Floats
    returned: Mask


def white_power(lidar: Lidar, range_m: Floats) -> Floats:
    """Power [P_min] that a white diffuser facing the sensor returns."""
    constant = lidar.system_constant
    overlap = np.maximum(overlap_share(lidar.config.range.overlap, range_m), LEAST_OVERLAP)
    return np.asarray(constant.k_m2 * overlap * np.exp(-2.0 * constant.gamma_per_m * range_m) / range_m**2)


def fitted_reflectances(
    surfels: Surfels,
    frames: Sequence[FrameShots],
    path: Path,
    lidar: Lidar,
    cell_m: float,
    usable: Sequence[Mask] | None = None,
) -> Reflectances:
    """Reflectance of every surfel from all shots of frames."""
    shots = _cast(surfels, frames, path, usable)
    cell, inverse = cells(surfels, cell_m)
    white = white_power(lidar, shots.range_m)
    observed = _observed(shots, lidar, white, frames[0].is_reflectance)
    seen = shots.returned & np.isfinite(observed) & (observed > 0.0) & (shots.cos > LEAST_COS)
    value = np.full(len(surfels), TYPICAL)
    spread = np.full(len(surfels), np.nan)
    centres, factor, gain = np.zeros(0), np.ones(0), 1.0
    known = bool(seen.sum() > LEAST_OF_BIN)
    if known:
        where = inverse[shots.surfel[seen]]
        level, error, centres, shape = _alternated(np.log(observed[seen]), where, shots.range_m[seen], len(cell))
        factor = np.exp(shape)
        gain = min(1.0, BRIGHTEST / float(np.exp(np.nanpercentile(level, 75.0))))
        nearest = np.where(np.isfinite(level), level, np.nanmedian(level))
        value, spread = gain * np.exp(nearest)[inverse], error[inverse]
    rate, limit = _censored(surfels, shots, white, LOST_CELL * cell_m)
    dark, bright = rate < 0.5, rate > 0.5
    value = np.where(dark & (value > BELOW * limit), BELOW * limit, value)
    value = np.where(bright & (value < ABOVE * limit) & np.isfinite(limit), ABOVE * limit, value)
    value = np.clip(value, DARKEST, BRIGHTEST)
    return Reflectances(
        value.astype(np.float32),
        spread.astype(np.float32),
        rate.astype(np.float32),
        centres,
        factor,
        gain,
        known,
    )


def _cast(surfels: Surfels, frames: Sequence[FrameShots], path: Path, usable: Sequence[Mask] | None) -> _Shots:
    """All shots that meet a surfel, without those that passed it or ended before it."""
    scene = SurfelScene(surfels)
    rows: list[tuple[NDArray[np.int64], Floats, Floats, Singles, Mask]] = []
    for number, frame in enumerate(frames):
        hit = scene.cast(*path.rays(number, frame))
        with np.errstate(invalid="ignore"):
            near = np.abs(frame.range_m - hit.range_m) < 2.0 * margin_m(hit.cos)
        keep = (hit.surfel >= 0) & (near | ~frame.returned)
        if usable is not None:
            keep &= usable[number]
        rows.append((hit.surfel[keep], hit.range_m[keep], hit.cos[keep], frame.intensity[keep], frame.returned[keep]))
    surfel, range_m, cos, value, returned = (np.concatenate(part) for part in zip(*rows, strict=True))
    return _Shots(surfel, np.maximum(range_m, 0.1), cos, value.astype(np.float64), returned)


def _observed(shots: _Shots, lidar: Lidar, white: Floats, is_reflectance: bool) -> Floats:
    """Reflectance that each return implies; NaN where its intensity does not determine one."""
    if is_reflectance:
        return np.asarray(shots.value / np.maximum(shots.cos, LEAST_COS))
    scale = scale_called(lidar.config.intensity.scale)
    if scale.typical_reflectance is not None:
        return np.full(len(white), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.maximum(shots.value, 0.5 * (lidar.config.intensity.resolution or 0.0))
        power = scale.received(value, white, threshold_photons(lidar.config))
        if power is None:
            return np.full(len(white), np.nan)
        return np.asarray(power, np.float64) / (white * np.maximum(shots.cos, LEAST_COS))


def _alternated(
    level: Floats, cell: NDArray[np.int64], range_m: Floats, count: int
) -> tuple[Floats, Floats, Floats, Floats]:
    """Alternating medians by cell and by range: level and spread of each cell, bin centres, and their offsets."""
    edges = np.geomspace(max(range_m.min(), 0.5), range_m.max() + 1e-6, RANGE_BINS + 1)
    place = np.clip(np.searchsorted(edges, range_m) - 1, 0, RANGE_BINS - 1)
    centres = np.sqrt(edges[1:] * edges[:-1])
    offset = np.zeros(RANGE_BINS)
    of_cell = np.full(count, np.nan)
    filled = np.bincount(place, minlength=RANGE_BINS) >= LEAST_OF_BIN
    for _ in range(ROUNDS):
        of_cell = grouped_median(level - offset[place], cell, count)
        offset = grouped_median(level - of_cell[cell], place, RANGE_BINS)
        offset = np.where(filled, offset, np.nan)
        offset = np.interp(centres, centres[filled], offset[filled]) if filled.any() else np.zeros(RANGE_BINS)
        offset -= np.median(offset[place])
    left = np.abs(level - offset[place] - of_cell[cell])
    return of_cell, 1.4826 * grouped_median(left, cell, count), centres, offset


def _censored(surfels: Surfels, shots: _Shots, white: Floats, cell_m: float) -> tuple[Floats, Floats]:
    """Share of returned shots around each surfel, and the reflectance at the detection threshold there."""
    number, inverse = cells(surfels, cell_m)
    where = inverse[shots.surfel]
    total = np.bincount(where, minlength=len(number))
    back = np.bincount(where[shots.returned], minlength=len(number))
    rate = (back + 0.66) / (total + 1.0)
    limit = grouped_median(np.log(1.0 / (white * np.maximum(shots.cos, LEAST_COS))), where, len(number))
    return rate[inverse], np.exp(limit)[inverse]


def shadowed(
    surfels: Surfels, frames: Sequence[FrameShots], path: Path, blind: Mask, cell_m: float
) -> NDArray[np.bool_]:
    """Directions in which the carrier of the sensor hides the place, in addition to those that are blind.

    Shots there are lost, although the surfaces behind return shots of other directions.
    """
    scene, (number, group) = SurfelScene(surfels), cells(surfels, cell_m)
    where, way, back = [], [], []
    for row, frame in enumerate(frames):
        hit = scene.cast(*path.rays(row, frame))
        met = hit.surfel >= 0
        where.append(group[hit.surfel[met]])
        way.append(cell_of(frame.direction[met]))
        back.append(frame.returned[met])
    surface, direction, returned = (np.concatenate(part) for part in (where, way, back))
    found = blind.copy()
    for _ in range(2):
        free = ~found[direction]
        total = np.bincount(surface[free], minlength=len(number))
        rate = (np.bincount(surface[free & returned], minlength=len(number)) + 0.66) / (total + 1.0)
        expected = np.bincount(direction, rate[surface], len(blind))
        observed = np.bincount(direction[returned], minlength=len(blind))
        found = blind | ((expected > 2 * len(frames)) & (observed < SHADOW * expected))
    return found


def cells(surfels: Surfels, size_m: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cells of the surface by place and facing: their keys, and the cell of each surfel."""
    axis = np.argmax(np.abs(surfels.normal), axis=1)
    sign = surfels.normal[np.arange(len(surfels)), axis] > 0.0
    key = packed_cells(surfels.centre, size_m) % (1 << 60) * 8 + 2 * axis + sign
    found, inverse = np.unique(key, return_inverse=True)
    return found, inverse.ravel()


def grouped_median(values: Floats, group: NDArray[np.int64], count: int) -> Floats:
    """Median of the values of each group, shape (count,); NaN for empty groups."""
    order = np.lexsort((values, group))
    size = np.bincount(group, minlength=count)
    first = np.cumsum(size) - size
    ranked = values[order]
    low = np.clip(first + (size - 1) // 2, 0, max(len(ranked) - 1, 0))
    high = np.clip(first + size // 2, 0, max(len(ranked) - 1, 0))
    if not len(ranked):
        return np.full(count, np.nan)
    return np.where(size > 0, 0.5 * (ranked[low] + ranked[high]), np.nan)
